"""The log of a base: a version exists when its entry does, ``_mutator/log/<20 digits>.json``.

An entry is created exclusively, is never changed, and ends with a checksum of itself. Creating it is the one commit
point of whatever makes a version: everything before is litter, everything after can be done again by anybody.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

from mutator.dataset import checksummed_json
from mutator.dataset.manifest import FeedFile
from mutator.errors import MutatorError, error
from mutator.storage import blocks, entries_of, storage_for

__all__ = ["FORMAT_VERSION", "NONE", "UNCHANGED", "Arrived", "Log", "Version"]

FORMAT_VERSION = 1
UNCHANGED = ("abandoned", "settled")  # kinds of versions whose dataset is that of the version before
_FORMAT = "mutator log"
_NAME = re.compile(r"([0-9]{20})\.json\Z")


@dataclass(frozen=True)
class Arrived:
    """A feed file as it lay there when a run took it."""

    name: str
    bytes: int
    modified: float
    tag: str = ""


@dataclass(frozen=True)
class Version:
    """What became the master, when, and by what."""

    number: int
    id: str  # of this entry alone: tells an own entry from another's, where the answer to its creation got lost
    # run | restore | abandoned: a run that can no longer commit, and changed nothing
    # | settled: a run whose feed files were all merged before, and stay where they are
    action: str  # in JSON its name is "kind"
    run: str
    committed: str  # ISO 8601, UTC
    dataset: str | None  # commit id of the manifest; None: what was given before the first run
    path: str | None  # where the run put the dataset, relative to the base
    rows: int
    counts: Mapping[str, int] = field(default_factory=dict)
    claimed: tuple[Arrived, ...] = ()
    feed: tuple[FeedFile, ...] = ()  # those that were merged
    restored: int | None = None  # the version that a restore brought back


NONE = Version(0, "", "given", "", "", None, None, 0)  # before the first entry


class Log:
    """The versions of a base."""

    def __init__(self, base: str) -> None:
        self._directory = posixpath.join(base, "_mutator", "log")
        self._storage = storage_for(base)
        self._known: dict[int, Version] = {}  # entries never change

    def numbers(self) -> list[int]:
        """Return the numbers of all versions, ascending."""
        matches = (_NAME.match(entry.name) for entry in entries_of(self._directory))
        return sorted(int(match[1]) for match in matches if match)

    def latest(self) -> Version:
        """Return the newest version; ``NONE`` where there is none."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else NONE

    def all(self) -> Sequence[Version]:
        """Return every version, oldest first. Raises StateError where one is damaged or missing."""
        numbers = self.numbers()
        for expected, number in enumerate(numbers, 1):
            if number != expected:
                raise error("log.damaged", path=self.path(expected), why="it is missing")
        return [self.read(number) for number in numbers]

    def read(self, number: int) -> Version:
        """Read one version. Raises StateError."""
        if number not in self._known:
            path = self.path(number)
            with self._storage.open(path) as stream:
                self._known[number] = _parse(b"".join(blocks(stream)), path, number)
        return self._known[number]

    def newest_of(self, dataset: str) -> Version | None:
        """Return the highest version that a dataset is, or was, the master of."""
        found = (self.read(number) for number in reversed(self.numbers()))
        return next((version for version in found if version.dataset == dataset), None)

    def first_run(self) -> Version | None:
        """Return the version that took the place of what was given."""
        return next((version for number in self.numbers() if (version := self.read(number)).dataset is not None), None)

    def commit(self, version: Version) -> None:
        """Make a version exist: the only commit point.

        Raises StateError where another one has its number, StorageError of the kind ``commit.uncertain`` where it
        cannot be found out whether it exists. An answer that got lost is found again by reading the entry back.
        """
        path = self.path(version.number)
        try:
            self._storage.make_directory(self._directory)
            with self._storage.create_new(path) as stream:
                stream.write(
                    checksummed_json.dump(
                        _FORMAT, FORMAT_VERSION, asdict(version, dict_factory=checksummed_json.json_members)
                    )
                )
        except MutatorError as fault:
            try:
                there = self._storage.stat(path) is not None and self.read(version.number)
            except MutatorError as second:
                raise error("commit.uncertain", path=path, version=version.number, why=second) from None
            if not there:
                raise error("commit.uncertain", path=path, version=version.number, why=fault) from None
            if there.id != version.id:
                raise error("base.lost", path=path, version=version.number) from None
            try:
                self.make_durable()
            except MutatorError as second:
                raise error("commit.uncertain", path=path, version=version.number, why=second) from None

    def make_durable(self) -> None:
        """See that no entry can get lost any more, before somebody acts on one that another process has created."""
        self._storage.sync(self._directory)

    def path(self, number: int) -> str:
        """Return the path of a version's entry."""
        return posixpath.join(self._directory, f"{number:020d}.json")


def _parse(data: bytes, path: str, number: int) -> Version:
    try:
        members = checksummed_json.parse(data, _FORMAT, FORMAT_VERSION)
        members["action"] = members.pop("kind")
        if set(members) != {part.name for part in fields(Version)}:
            raise ValueError("its members are not those of this format")
        members["claimed"] = tuple(Arrived(**part) for part in members["claimed"])
        members["feed"] = tuple(FeedFile(**part) for part in members["feed"])
        version = Version(**members)
        if version.number != number:
            raise ValueError(f"it is the entry of version {version.number}")
    except checksummed_json.Newer as fault:
        raise error("log.newer", path=path, version=fault.version, known=FORMAT_VERSION) from None
    except (KeyError, ValueError, TypeError) as fault:
        raise error("log.damaged", path=path, why=fault) from None
    return version
