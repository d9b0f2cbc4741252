"""The versions of a base: each exists if its entry does, ``_mutator/log/<20 digits>.json``.

Creating an entry is the one commit point of a run or restore. Everything before it can be discarded; everything after
it can be done again by any process.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from mutator.dataset.commits import Arrived, Claim, Commit, FeedFile, Restored
from mutator.dataset.numbered_log import CommitLog
from mutator.errors import MutatorError, error
from mutator.storage import storage_for

FORMAT_VERSION = 2
UNCHANGED = ("abandoned", "settled")  # actions that leave the dataset of the version before
NONE = Commit(number=0, id="", action="given", run="", committed="")  # before the first entry


def next_commit(before: Commit, action: str, run: str, seconds: float, **members: Any) -> Commit:
    """Return the version of a base after another one. seconds: now, since 1970. members: others that it has."""
    now = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return before.next(action, run=run, committed=max(now, before.committed), **members)


def claimed_files(versions: Iterable[Commit]) -> set[Arrived]:
    """Return the files that versions claimed."""
    return {file for version in versions for file in version.claimed}


class Log:
    """The versions of a base."""

    def __init__(self, base: str) -> None:
        self._directory = posixpath.join(base, "_mutator", "log")
        self._storage = storage_for(base)
        self._entries = CommitLog(self._directory, "mutator log", FORMAT_VERSION, _version_of, members_of)
        self._known: dict[int, Commit] = {}  # entries never change

    def numbers(self) -> list[int]:
        """Return the numbers of all versions, ascending. Raises StateError if one before the newest has no entry.

        Whether a run has committed, or which version a dataset was, cannot be known without every entry.
        """
        numbers = self._listed()
        faults = self._missing(numbers)
        if faults:
            raise faults[0]
        return numbers

    def _listed(self) -> list[int]:
        """Return the numbers of the entries, ascending."""
        numbers = self._entries.numbers()
        if len(numbers) == (numbers[-1] if numbers else 0):
            return numbers
        # A listing may miss an entry that is created meanwhile, and have the next one. A second listing has both.
        return [number for number in self._entries.numbers() if number <= numbers[-1]]

    def latest(self) -> Commit:
        """Return the newest version; ``NONE`` before the first."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else NONE

    def all(self) -> Sequence[Commit]:
        """Return every version, oldest first. Raises StateError if one is damaged or missing."""
        versions, faults, _ = self.readable()
        if faults:
            raise faults[0]
        return versions

    def readable(self) -> tuple[list[Commit], list[MutatorError], int]:
        """Return every version that can be read, oldest first, the errors of those that cannot, and the newest number.

        The newest number is that of the same listing, also if its entry cannot be read; 0 before the first.
        """
        numbers = self._listed()
        versions, faults = list[Commit](), self._missing(numbers)
        for number in numbers:
            try:
                versions.append(self.read(number))
            except MutatorError as fault:
                faults.append(fault)
        return versions, faults, numbers[-1] if numbers else 0

    def _missing(self, numbers: Sequence[int]) -> list[MutatorError]:
        """Return an error for each gap in the numbers of the entries."""
        if len(numbers) == (numbers[-1] if numbers else 0):
            return []
        faults = []
        for before, number in pairwise((0, *numbers)):
            gap = number - before - 1
            if gap:
                others = "entry" if gap == 2 else f"{gap - 1} entries"
                why = "it is missing" if gap == 1 else f"it and the next {others} are missing"
                faults.append(error("log.damaged", path=self._entries.path(before + 1), why=why))
        return faults

    def read(self, number: int) -> Commit:
        """Read one version. Raises StateError."""
        if number not in self._known:
            self._known[number] = self._entries.read(number)
        return self._known[number]

    def newest_of(self, dataset: str) -> Commit | None:
        """Return the highest version in which a dataset was the master; None if it never was."""
        found = (self.read(number) for number in reversed(self.numbers()))
        return next((version for version in found if version.dataset == dataset), None)

    def first_run(self) -> Commit | None:
        """Return the first version with a dataset: it replaced the master that was given."""
        return next((version for number in self.numbers() if (version := self.read(number)).dataset is not None), None)

    def commit(self, version: Commit) -> None:
        """Make a version exist: the only commit point.

        Raises StateError if another version has its number, and StorageError of the kind ``commit.uncertain`` if
        it is unknown whether it exists.
        """
        if not self._entries.commit(version):
            raise lost(self._entries.path(version.number), version.number)

    def make_durable(self) -> None:
        """Make the entries durable; needed before acting on an entry that another process has created."""
        self._storage.sync(self._directory)


def lost(path: str, version: int, what: str = "run committed", cure: str = "run again") -> MutatorError:
    """Return the error of a run whose version exists already. what: who made it, and how."""
    return error("base.lost", path=path, version=version, what=what, cure=cure)


def members_of(version: Commit) -> dict[str, Any]:
    """Return a version of a base as the members of a JSON document."""
    return {
        "number": version.number,
        "id": version.id,
        "kind": version.action,
        "run": version.run,
        "committed": version.committed,
        "dataset": version.dataset,
        "path": version.path,
        "rows": version.records,
        **({} if version.floor is None else {"floor": version.floor}),
        "counts": version.counts,
        "claimed": [vars(file) for file in version.claimed],
        "feed": [vars(file) for file in version.feed],
        "restored": None if version.restored is None else version.restored.version,
    }


def _version_of(members: dict[str, Any]) -> Commit:
    action, records, restored = (members.pop(name) for name in ("kind", "rows", "restored"))
    claimed, feed = (members.pop(name) for name in ("claimed", "feed"))
    return Commit(
        **members,
        action=action,
        records=records,
        claim=Claim(members["run"], tuple(Arrived(**file) for file in claimed)) if claimed else None,
        feed=tuple(FeedFile(**file) for file in feed),
        restored=None if restored is None else Restored(version=restored),
    )
