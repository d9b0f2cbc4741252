"""The directories of a base, and which dataset is in which.

    master/           the dataset that readers use
    incr/             where feed files arrive
    working/<run>/    feed files that a run has claimed
    output/<run>…     datasets being made, or on their way between two directories
    backup/<version>  datasets that were the master
    archive/<run>/    feed files that were merged
    failed/<run>/     feed files that could not be merged
    changes/…         changed rows of each version
    not-one-dataset.* keeps programs that read whole directories from counting all of these
    _mutator/         log/ (versions), runs/ (the journal of runs that have not ended), lock/

A dataset is identified by the commit ID in its manifest, never by its path, so any process knows where it belongs.
"""

import posixpath
import uuid
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from mutator.dataset import manifest
from mutator.dataset.commits import Commit
from mutator.dataset.directory import read_manifest
from mutator.dataset.state import State
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.parts import PATH, Writers, place, plain, said
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.file_names import in_directory
from mutator.rules.known_formats import FORMATS, format_of_suffix
from mutator.storage import Storage, entries_of, located_to_write, storage_for

DIRECTORIES = ("master", "incr", "working", "output", "backup", "archive")
FAILED = "failed"  # made when it is needed
_GUARD = "not-one-dataset"
_UNMOVED: Mapping[str, str] = MappingProxyType({})
_WHY = (
    b"This directory is the base of a mutator workflow, so its files are not one dataset. "
    b"The records are in master/, or in the table that the workflow writes.\n"
)


@dataclass(frozen=True)
class FoundDataset:
    """A directory that may be a dataset."""

    path: str
    name: str
    commit: str | None  # None: no manifest, or a damaged one
    foreign: bool = False  # the manifest cannot be read

    @property
    def backup(self) -> int | None:
        """The version of a dataset in backup/; None elsewhere."""
        directory = self.path.split("/")[-2]
        return int(self.name) if directory == "backup" and self.name.isdecimal() else None


@dataclass(frozen=True)
class Base:
    """A directory with a workflow in it."""

    path: str
    given: str = ""  # as the caller spelled it

    @property
    def storage(self) -> Storage:
        """The storage that the base is on."""
        return storage_for(self.path)

    def at(self, *parts: str) -> str:
        """Return the path of an entry of the base."""
        return posixpath.join(self.path, *parts)

    @property
    def master(self) -> str:
        """The path of the master directory."""
        return self.at("master")

    def passage(self, run: str) -> str:
        """Return a unique path for a dataset on its way to another directory.

        Two processes that move one dataset cannot undo each other's work this way: the second one finds nothing.
        """
        return self.at("output", f"{run}.{uuid.uuid4().hex[:12]}")

    def shown(self, path: str, moved: Mapping[str, str] = _UNMOVED) -> str:
        """Return a path of this base as the caller spelled it. moved: each old directory, to the present one."""
        for old, new in moved.items():
            path = in_directory(path, old, new)
        return in_directory(path, self.path, self.given) if self.given else path

    def writers(self, moved: Mapping[str, str] = _UNMOVED) -> Writers:
        """Return what writes the paths in a message as ``shown``."""
        return {PATH: lambda path: place(self.shown(path, moved))}

    def said(self, text: str, moved: Mapping[str, str] = _UNMOVED) -> str:
        """Return the text of a message with its paths as ``shown``."""
        return plain(said(text, self.writers(moved)))

    def make(self, names: Iterable[str] = DIRECTORIES) -> None:
        """Create those of some directories that are missing."""
        for name in names:
            self.storage.make_directory(self.at(name))

    def guard(self, names: Iterable[str]) -> None:
        """Keep a program that reads all files of the base from taking them for one dataset. names: of its data files.

        Beside the records there are feed files, backups and changed rows. A file at the root that no program can read
        makes these programs fail; it has the ending of the data files.
        """
        found = {format_of_suffix(name) for name in names}
        for suffix in (one.suffix for name, one in FORMATS.items() if one.stores_schema and name in found):
            path = self.at(f"{_GUARD}{suffix}")
            if self.storage.stat(path) is None:
                with suppressed("storage.exists"), self.storage.create_new(path) as stream:
                    stream.write(_WHY)

    def datasets(self) -> Iterator[FoundDataset]:
        """Yield the datasets in output/ and backup/."""
        for directory in ("output", "backup"):
            for entry in entries_of(self.at(directory)):
                if entry.type == "directory" and not entry.name.startswith("."):
                    yield probe_dataset(self.storage, entry.path)

    def find(self, commit: str) -> FoundDataset | None:
        """Return the dataset in output/ or backup/ with a commit ID, or None."""
        return next((dataset for dataset in self.datasets() if dataset.commit == commit), None)


def open_base(given: str) -> Base:
    """Return the base at a path. Raises ConfigError if the path has no base."""
    storage, path = located_to_write(given)
    entry = storage.stat(path)
    if storage.renames and (entry is None or entry.type != "directory"):
        raise error("path.missing", path=given, what="directory" if entry is None else f"directory, but a {entry.type}")
    base = Base(path, given.rstrip("/") or given)
    entries = [entry for name in (*DIRECTORIES, FAILED) if (entry := storage.stat(base.at(name))) is not None]
    if not any(entry.name in ("master", "incr") for entry in entries):
        raise error("path.table" if storage.stat(base.at(manifest.TABLE)) is not None else "base.none", path=given)
    for entry in entries:
        if entry.type != "directory":
            raise error("base.place", path=base.shown(entry.path), what=entry.type)
    return base


def master_of(base: Base, version: Commit) -> str:
    """Return the path of the latest version's dataset."""
    if base.storage.renames or version.path is None:
        return base.master
    return base.at(version.path)


def given_master(base: Base, log: Log) -> str:
    """Return the path of the master that existed before the first run."""
    if not base.storage.renames or log.latest().dataset is None:
        return base.master
    first = log.first_run()
    return base.at("backup", str(first.number - 1 if first is not None else 0))


def probe_dataset(storage: Storage, path: str) -> FoundDataset:
    """Return the dataset in a directory."""
    name = posixpath.basename(path)
    try:
        known: State | None = read_manifest(storage, path)
    except MutatorError as fault:
        if fault.kind not in ("manifest.damaged", "manifest.newer", "storage.missing"):
            raise
        return FoundDataset(path, name, None, foreign=fault.kind != "storage.missing")
    return FoundDataset(path, name, known.commit.id if known else None)


def run_of(name: str) -> str:
    """Return the run that a name in output/ belongs to."""
    return name.split(".")[0]
