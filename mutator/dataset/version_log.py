"""The versions of a base: each exists if its entry does, ``_mutator/log/<20 digits>.json``.

Creating an entry is the one commit point of a run or restore. Everything before it can be discarded; everything after
it can be done again by any process.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from mutator.dataset import checksummed_json
from mutator.dataset.commits import Arrived, FeedFile
from mutator.dataset.numbered_log import CommitLog
from mutator.errors import MutatorError, error
from mutator.storage import storage_for

FORMAT_VERSION = 1
UNCHANGED = ("abandoned", "settled")  # actions that leave the dataset of the version before


@dataclass(frozen=True)
class Version:
    """One entry of the log: which dataset became the master, when, and by which action."""

    number: int
    id: str  # of this entry alone: shows whose entry was created if the answer is lost
    # run | restore | abandoned: the run can no longer commit, and changed nothing
    # | settled: every feed file of the run had been merged before
    action: str  # in JSON its name is "kind"
    run: str
    committed: str  # ISO 8601, UTC
    dataset: str | None  # commit id of the manifest; None: the master that existed before the first run
    path: str | None  # where the run wrote the dataset, relative to the base
    rows: int
    counts: Mapping[str, int] = field(default_factory=dict)
    claimed: tuple[Arrived, ...] = ()
    feed: tuple[FeedFile, ...] = ()  # the merged ones
    restored: int | None = None  # the version that was restored

    def next(self, action: str, run: str, seconds: float, **changes: Any) -> Version:
        """Return the version after this one. seconds: now, since 1970. changes: what differs from this version."""
        now = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
        made: dict[str, Any] = {"claimed": (), "feed": (), "counts": {}, "restored": None, **changes}
        committed = max(now, self.committed)
        return replace(
            self, number=self.number + 1, id=uuid.uuid4().hex, action=action, run=run, committed=committed, **made
        )


NONE = Version(0, "", "given", "", "", None, None, 0)  # before the first entry


def claimed_files(versions: Iterable[Version]) -> set[Arrived]:
    """Return the files that versions claimed."""
    return {file for version in versions for file in version.claimed}


class Log:
    """The versions of a base."""

    def __init__(self, base: str) -> None:
        self._directory = posixpath.join(base, "_mutator", "log")
        self._storage = storage_for(base)
        self._entries = CommitLog(
            self._directory, "mutator log", FORMAT_VERSION, _version, checksummed_json.record_members
        )
        self._known: dict[int, Version] = {}  # entries never change

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

    def latest(self) -> Version:
        """Return the newest version; ``NONE`` before the first."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else NONE

    def all(self) -> Sequence[Version]:
        """Return every version, oldest first. Raises StateError if one is damaged or missing."""
        versions, faults, _ = self.readable()
        if faults:
            raise faults[0]
        return versions

    def readable(self) -> tuple[list[Version], list[MutatorError], int]:
        """Return every version that can be read, oldest first, the errors of those that cannot, and the newest number.

        The newest number is that of the same listing, also if its entry cannot be read; 0 before the first.
        """
        numbers = self._listed()
        versions, faults = list[Version](), self._missing(numbers)
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

    def read(self, number: int) -> Version:
        """Read one version. Raises StateError."""
        if number not in self._known:
            self._known[number] = self._entries.read(number)
        return self._known[number]

    def newest_of(self, dataset: str) -> Version | None:
        """Return the highest version in which a dataset was the master; None if it never was."""
        found = (self.read(number) for number in reversed(self.numbers()))
        return next((version for version in found if version.dataset == dataset), None)

    def first_run(self) -> Version | None:
        """Return the first version with a dataset: it replaced the master that was given."""
        return next((version for number in self.numbers() if (version := self.read(number)).dataset is not None), None)

    def commit(self, version: Version) -> None:
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


def _version(members: dict[str, Any]) -> Version:
    members["claimed"] = tuple(Arrived(**file) for file in members["claimed"])
    members["feed"] = tuple(FeedFile(**file) for file in members["feed"])
    return Version(**checksummed_json.attributes(Version, members))
