"""What the program needs of a storage: the methods that every backend has.

Path patterns have the rules of Python's ``glob``, also on storages that can only list directories.
"""

from __future__ import annotations

import fnmatch
import itertools
import posixpath
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple, Protocol

from mutator.errors import suppressed


class Entry(NamedTuple):
    """A file, directory or other entry, as ``lstat`` describes it."""

    path: str
    name: str
    bytes: int
    type: str  # file | directory | symbolic link | FIFO | socket | device
    modified: float = 0.0  # when content or name last changed, in seconds, by the storage's clock
    tag: str = ""  # differs for different content; empty if the storage has none
    written: float | None = None  # when the content last changed; None: the same as ``modified``

    @property
    def last_write(self) -> float:
        """When the content last changed, in seconds, by the storage's clock: a rename does not count."""
        return self.modified if self.written is None else self.written


def directories_below(path: str, within: str) -> list[str]:
    """Return the directories below another one that lead to a path, and the path, the outermost first.

    Raises ValueError if the path is neither the other directory nor below it.

    >>> directories_below("/lake/out//a/b/", "/lake/out/")
    ['/lake/out/a', '/lake/out/a/b']
    """
    begin = within.rstrip("/") + "/"
    if not f"{path}/".startswith(begin):
        raise ValueError(f"{path} is not below {within}")
    names = filter(None, path[len(begin) :].split("/"))
    return list(itertools.accumulate(names, posixpath.join, initial=begin))[1:]


def walked(entries: Callable[[str], Iterable[Entry]], directory: str) -> Iterator[Entry]:
    """Yield every entry below a directory except directories. entries: lists one directory."""
    waiting, found = list[str](), entries(directory)
    while True:
        for entry in found:
            if entry.type == "directory":
                waiting.append(entry.path)
            else:
                yield entry
        if not waiting:
            return
        found = ()
        with suppressed("storage.missing"):  # it was there when the directory above was read
            found = entries(waiting.pop())


_MAGIC = re.compile(r"[*?[]")


def matching_part(path: str, pattern: str) -> str | None:
    """Return the beginning of a path that a pattern matches, up to a whole name; None if it matches none.

    The path need not exist. Here ``*`` matches hidden names, too.

    >>> matching_part("/data/incr/a.csv/x", "/data/incr/*.csv"), matching_part("/data/a.csv", "/data/incr/*.csv")
    ('/data/incr/a.csv', None)
    """
    names, tests = path.split("/"), pattern.split("/")
    fits = len(names) >= len(tests) and all(map(fnmatch.fnmatchcase, names, tests))
    return "/".join(names[: len(tests)]) if fits else None


def matches(
    pattern: str, entries: Callable[[str], Iterable[Entry]], stat: Callable[[str], Entry | None]
) -> list[Entry]:
    """Return the entries that match a pattern, sorted by path; ``*`` does not match hidden names.

    entries: lists a directory, and is called only for existing ones. stat: returns the entry at a path.
    """
    if not _MAGIC.search(pattern):
        found = stat(pattern)
        return [] if found is None else [found]
    directory, name = posixpath.split(pattern)
    if _MAGIC.search(directory.partition("://")[2]):
        above = [entry.path for entry in matches(directory, entries, stat) if entry.type == "directory"]
    else:
        above = [directory] if stat(directory) is not None else []
    if not _MAGIC.search(name):
        here = (stat(posixpath.join(parent, name)) for parent in above)
        return [entry for entry in here if entry is not None]
    test = re.compile(fnmatch.translate(name)).match
    found_all = [
        entry
        for parent in above
        for entry in entries(parent)
        if test(entry.name) and (name.startswith(".") or not entry.name.startswith("."))
    ]
    return sorted(found_all, key=lambda entry: entry.path.encode("utf-8", "surrogateescape"))


# Kinds of errors after which nothing was changed, and nothing will be later.
CERTAIN = ("storage.full", "storage.quota", "storage.refused", "storage.paused", "storage.mount", "storage.handles")


class Storage(Protocol):
    """A backend: local disks, HDFS or S3. A method with a body may be inherited, every other one must be written.

    Paths are absolute and have the scheme of the backend; a path without a scheme is local. "Durable" means: still
    there after a power failure.

    Every method raises StorageError with the path and the reason. The error's kind is ``storage.missing`` if the path,
    or the source of a rename, does not exist, and ``storage.exists`` if the file to be created does, made by another
    call. ``link_new`` and ``rename_new`` raise FileExistsError instead. After the kinds in ``CERTAIN`` nothing was
    changed for certain.
    """

    writes: bool = True  # whether files can be created; without it, only ``stat`` and ``open`` of a named file work
    renames: bool  # whether a file or directory gets another name in one step
    holds: bool = False  # whether ``hold`` can lock a directory
    empty_directories: bool = True  # whether a directory without entries exists
    waits: bool = False  # whether reading a small file is mostly waiting for a network

    def service(self, path: str) -> str:
        """Return the address of the service that has a path, which on another service may be another file."""
        return ""

    def dataset_name(self, path: str) -> tuple[str, str]:
        """Return the namespace and the name of a dataset, as OpenLineage spells them."""
        scheme, _, rest = path.partition("://")
        host, _, name = rest.partition("/")
        return f"{scheme}://{host.rpartition('@')[2]}", f"/{name.rstrip('/')}"

    def hadoop_address(self, path: str) -> str:
        """Return the address by which Hadoop, and so Spark, knows a path."""
        return path

    def with_suffix(self, path: str, suffix: str) -> str:
        """Return a path with a suffix added to the name of its file."""
        return path + suffix

    @abstractmethod
    def exclusive(self, path: str) -> bool:
        """Return whether exactly one of several writers succeeds that create the same file at or below a path."""

    @abstractmethod
    def stat(self, path: str) -> Entry | None:
        """Return the entry at a path; None if nothing is there. A link is not followed."""

    @abstractmethod
    def resolve(self, path: str) -> str:
        """Return the one spelling of a path: links to directories are followed, a link to a file is not."""

    def target(self, path: str) -> Entry | None:
        """Return the entry that a symbolic link leads to; None if nothing is there, or only the link itself."""
        return None  # for storages without links

    @abstractmethod
    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name. Links are not followed."""

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield every entry below a directory except directories, in any order. Links are not followed."""
        return walked(self.entries, path)

    def glob(self, pattern: str) -> list[Entry]:
        """Return the entries that match a pattern, sorted by path; ``*`` does not match hidden names."""
        return matches(pattern, self._listed, self.stat)

    def _listed(self, path: str) -> list[Entry]:
        with suppressed("storage.missing"):  # it was removed just now
            return self.entries(path)
        return []

    @abstractmethod
    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """Open a file for reading from an offset in bytes."""

    def mapped(self, path: str) -> Any | None:
        """Return the bytes of a file, mapped into memory, as a buffer; None if the storage cannot."""
        return None

    def native(self, path: str) -> Any | None:
        """Open a file as a pa.NativeFile, which threads can read at the same time; None if the storage cannot."""
        return None

    @abstractmethod
    def create_new(self, path: str, final: Callable[[], str] | None = None) -> AbstractContextManager[BinaryIO]:
        """Create a file that must not exist: it appears when the block ends, whole and durable.

        An exception within the block aborts it. final: called once everything is written; returns the path that the
        file gets, in the same directory.
        """

    def link_new(self, source: str, target: str) -> bool:
        """Give a file a second path, which must not exist, without reading it; False if the storage cannot.

        Raises FileExistsError.
        """
        return False

    def sync(self, path: str) -> None:
        """Make the entries of a directory durable, including those made by other processes; it may be missing."""
        return  # for storages whose answers mean that a change is durable

    @abstractmethod
    def make_directory(self, path: str, within: str = "") -> None:
        """Create a directory and its parents durably; it may exist.

        within: a parent that must exist, on storages that have directories. Raises StorageError, and creates nothing,
        if it is missing: a task whose run has ended must not bring back a directory that the run removed.
        """

    def make_directories(self, paths: Sequence[str]) -> None:
        """Create directories and their parents; many of them may be durable only after ``sync_all``."""
        for path in paths:
            self.make_directory(path)

    def sync_all(self, path: str) -> None:
        """Make everything below a directory durable."""
        return  # for storages whose answers mean that a change is durable

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it; it may be missing."""

    @abstractmethod
    def rename_new(self, source: str, target: str) -> None:
        """Move a file or directory to a path that must not exist, in one step, durably. Raises FileExistsError."""

    def swap(self, one: str, other: str) -> bool:
        """Exchange two directories in one step, durably; False if the storage cannot, and nothing was changed."""
        return False

    @abstractmethod
    def remove_directory(self, path: str) -> bool:
        """Remove a directory if it is empty, and return True; False if it is not. It may be missing."""

    @abstractmethod
    def replace(self, path: str, content: bytes) -> None:
        """Write a small file, which may exist: readers see either the old content or the new."""

    def unfinished(self, path: str) -> list[str]:
        """Return the paths, at or below a path, of files that killed writers began and no listing shows.

        ``remove`` removes them.
        """
        return []

    def check_writable(self, path: str) -> None:
        """Raise StorageError if it shows without a change that a path cannot be created; some storages show nothing."""
        return

    def hold(self, path: str) -> object | None:
        """Lock a directory for as long as the returned object lives; None if another process has locked it."""
        return None
