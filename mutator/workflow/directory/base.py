"""The places of a base, and which dataset lies where.

    master/           what everybody reads
    incr/             where feed files arrive
    working/<run>/    feed files that a run has claimed
    output/<run>…     datasets that are made, or on their way between two places
    backup/<version>  datasets that were the master
    archive/<run>/    feed files that were merged
    _mutator/         log/ (versions), runs/ (the journal of runs that have not ended), lock/

A dataset is known by the commit id in its manifest, never by its place: so whoever finds one knows where it belongs.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from mutator.dataset.directory import read_manifest
from mutator.dataset.manifest import Manifest
from mutator.errors import MutatorError, error
from mutator.storage import Storage, absolute, entries_of, storage_for, writable_storage_for

__all__ = ["DIRECTORIES", "Base", "Dataset", "open_base", "run_of"]

DIRECTORIES = ("master", "incr", "working", "output", "backup", "archive")


@dataclass(frozen=True)
class Dataset:
    """A directory that may be a dataset."""

    path: str
    name: str
    commit: str | None  # None: it has no manifest, or a damaged one
    foreign: bool = False  # has a manifest that cannot be read

    @property
    def backup(self) -> int | None:
        """The version under which it lies in backup/."""
        place = self.path.split("/")[-2]
        return int(self.name) if place == "backup" and self.name.isdecimal() else None


@dataclass(frozen=True)
class Base:
    """A directory with a workflow in it."""

    path: str
    given: str = ""  # as people and scripts know it

    @property
    def storage(self) -> Storage:
        """The storage that it is on."""
        return storage_for(self.path)

    def at(self, *parts: str) -> str:
        """Return the path of something in it."""
        return posixpath.join(self.path, *parts)

    @property
    def master(self) -> str:
        """The path of the master directory."""
        return self.at("master")

    def journal(self, run: str) -> str:
        """Return the path of a run's journal."""
        return self.at("_mutator", "runs", f"{run}.json")

    def passage(self, run: str) -> str:
        """Return a name that nobody else has, for a dataset on its way.

        Two processes that move one dataset on thereby cannot undo each other's work: the second one finds nothing.
        """
        return self.at("output", f"{run}.{uuid.uuid4().hex[:12]}")

    def shown(self, text: str) -> str:
        """Write the paths in a text as they are known."""
        return text.replace(self.path + "/", f"{self.given}/") if self.given else text

    def shown_put_back(self, text: str, run: str) -> str:
        """Write them as they are when a run has put its feed files back."""
        return self.shown(text.replace(self.at("working", run) + "/", self.at("incr") + "/"))

    def make(self) -> None:
        """Make the directories that are missing."""
        for name in DIRECTORIES:
            self.storage.make_directory(self.at(name))

    def datasets(self) -> Iterator[Dataset]:
        """Yield what lies in output/ and backup/."""
        for place in ("output", "backup"):
            for entry in entries_of(self.at(place)):
                if entry.type == "directory" and not entry.name.startswith("."):
                    yield probe_dataset(self.storage, entry.path)

    def find(self, commit: str) -> Dataset | None:
        """Return the dataset with a commit id, where it is in output/ or backup/."""
        return next((one for one in self.datasets() if one.commit == commit), None)


def open_base(given: str) -> Base:
    """Return the base at a path; raises ConfigError where there is none."""
    path = absolute(given)
    storage = writable_storage_for(path)
    path = storage.resolve(path)
    entry = storage.stat(path)
    if storage.renames and (entry is None or entry.type != "directory"):
        raise error("path.missing", path=given, what="directory" if entry is None else f"directory, but a {entry.type}")
    base = Base(path, given.rstrip("/") or given)
    places = [storage.stat(base.at(name)) for name in DIRECTORIES]
    if not any(one is not None and one.name in ("master", "incr") for one in places):
        raise error("base.none", path=given)
    for one in places:
        if one is not None and one.type != "directory":
            raise error("base.place", path=base.shown(one.path), what=one.type)
    return base


def probe_dataset(storage: Storage, path: str) -> Dataset:
    """Tell which dataset a directory is."""
    name = posixpath.basename(path)
    try:
        known: Manifest | None = read_manifest(storage, path)
    except MutatorError as fault:
        if fault.kind not in ("manifest.damaged", "manifest.newer", "storage.missing"):
            raise
        return Dataset(path, name, None, foreign=fault.kind != "storage.missing")
    return Dataset(path, name, known.commit if known else None)


def run_of(name: str) -> str:
    """Return the run that a name in output/ belongs to."""
    return name.split(".")[0]
