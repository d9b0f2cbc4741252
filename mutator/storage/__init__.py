"""The only package that knows file systems: the contract, and a registry with a module a backend.

A backend offers what ``Storage`` lists. Paths are absolute; one without a scheme is local. To add a backend, write a
module with these methods and give it a line in ``_BACKENDS``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol
from urllib.parse import unquote

from mutator.errors import MutatorError, error
from mutator.storage.entry import Entry
from mutator.storage.hdfs import HdfsStorage
from mutator.storage.local import LocalStorage
from mutator.storage.remote import SCHEMES, RemoteStorage
from mutator.storage.s3 import S3Storage

__all__ = [
    "Entry",
    "Storage",
    "absolute",
    "blocks",
    "entries_of",
    "same_storage",
    "storage_for",
    "walk",
    "writable_storage_for",
]

BLOCK = 1 << 20  # bounds what a task holds of a file
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class Storage(Protocol):
    """What the program needs of a storage. Every method raises StorageError with the path and the reason.

    Its kind is ``storage.missing`` where the path, or the source of a rename, is not there, and ``storage.exists``
    where a file that is to be created is.
    """

    renames: bool  # whether files and directories get another name in one step
    holds: bool  # whether ``hold`` can take a directory

    def exclusive(self, path: str) -> bool:
        """Tell whether of several that create one file at or below a path, at the same time, one alone succeeds."""

    def stat(self, path: str) -> Entry | None:
        """Return what is at a path, or None."""

    def resolve(self, path: str) -> str:
        """Return the one spelling of a path: links to directories are followed, a link to a file is not."""

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, by name; links are not followed."""

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield everything below a directory that is none itself, in no order; links are not followed."""

    def glob(self, pattern: str) -> list[Entry]:
        """Return the entries that match a pattern, by path."""

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """Open a file for reading at an offset."""

    def create_new(self, path: str, final: Callable[[], str] | None = None) -> AbstractContextManager[BinaryIO]:
        """Create a file that must not exist: visible only when whole and durable, aborted by an exception.

        final: returns the path that it gets, in the same directory, once all of it is written.
        """

    def link_new(self, source: str, target: str) -> bool:
        """Make a file appear at a second path that must not exist, without reading it; False where it cannot be done.

        Raises FileExistsError.
        """

    def sync(self, path: str) -> None:
        """Make the entries of a directory durable, whoever has made them; one that is not there is fine."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; one that exists is fine."""

    def make_directories(self, paths: Sequence[str]) -> None:
        """Create directories and their parents; where they are many, ``sync_all`` makes them durable."""

    def sync_all(self, path: str) -> None:
        """Make all that is in a directory durable, however deep."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; one that is not there is fine."""

    def rename_new(self, source: str, target: str) -> None:
        """Move a file or directory to a name that must not exist, in one step, durably. Raises FileExistsError."""

    def swap(self, one: str, other: str) -> bool:
        """Exchange two directories in one step, durably; False where that cannot be done, and nothing was."""

    def remove_directory(self, path: str) -> bool:
        """Remove a directory if nothing is in it; False where something is. One that is not there is fine."""

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file, in the place of one that may be there: readers see the one or the other."""

    def unfinished(self, path: str) -> list[str]:
        """Return files at or below a path that killed writers have begun, where the storage keeps such; ``remove``
        knows them."""

    def hold(self, path: str) -> object | None:
        """Take a directory for as long as the returned object lives; None if another process has it."""


_BACKENDS: dict[str, Callable[[], Storage]] = {
    "file": LocalStorage,
    "hdfs": HdfsStorage,
    "s3": S3Storage,
}
_BACKENDS |= dict.fromkeys(SCHEMES, RemoteStorage)
_SPELLINGS = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names


def storage_for(path: str) -> Storage:
    """Return the backend of a path's scheme; raises ConfigError naming the known ones."""
    match = _SCHEME.match(path)
    scheme = match[1].lower() if match else "file"
    scheme = _SPELLINGS.get(scheme, scheme)
    if scheme not in _BACKENDS:
        known = ", ".join(sorted(f"{name}://" for name in _BACKENDS))
        raise error("path.scheme", path=path, scheme=scheme, known=f"{known} and plain paths")
    return _BACKENDS[scheme]()


def writable_storage_for(path: str) -> Storage:
    """Return the backend of a path that is not only read; raises ConfigError."""
    storage = storage_for(path)
    if isinstance(storage, RemoteStorage):
        raise error("path.readonly", path=path, scheme=path.partition("://")[0])
    return storage


def same_storage(one: str, other: str) -> bool:
    """Tell whether two paths are of one kind of storage."""
    return type(storage_for(one)) is type(storage_for(other))


def entries_of(path: str) -> list[Entry]:
    """Return the entries of a directory, by name; none where it is not there."""
    try:
        return storage_for(path).entries(path)
    except MutatorError as fault:
        if fault.kind != "storage.missing":
            raise
        return []


def walk(directory: str) -> Iterator[Entry]:
    """Yield everything below a directory that is none itself."""
    return storage_for(directory).walk(directory)


def absolute(path: str) -> str:
    """Make a path independent of the working directory, and a ``file://`` address a plain path.

    >>> absolute("file:///data/a%20b")
    '/data/a b'
    """
    match = _SCHEME.match(path)
    if match and match[1].lower() == "file":
        host, slash, rest = path[match.end() :].partition("/")
        if host not in ("", "localhost") or not slash:
            raise error("usage", what=f"{path}: a file address has no host; write file:///{host}/…")
        path = "/" + unquote(rest)
    elif match:
        scheme = match[1].lower()
        rest = path[match.end() :]
        return f"{_SPELLINGS.get(scheme, scheme)}://{rest if scheme in SCHEMES else rest.rstrip('/')}"
    elif re.match(r"file:/[^/]", path):  # as Hadoop prints it
        path = unquote(path[5:])
    single = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/(?!/)", path)
    if single and single[1].lower() in {*_BACKENDS, *_SPELLINGS}:
        raise error("usage", what=f"{path}: an address has two slashes; write {single[1]}://{path[single.end() :]}")
    if "\0" in path:
        raise error("usage", what=f"{path}: a path cannot hold a NUL byte")
    return os.path.abspath(path)


def blocks(stream: BinaryIO, most: int | None = None) -> Iterator[bytes]:
    """Yield a stream's bytes in blocks, ``most`` bytes at the most."""
    left = most
    while left is None or left > 0:
        try:
            block = stream.read(BLOCK if left is None else min(BLOCK, left))
        except OSError as fault:
            raise error("storage", path=getattr(stream, "name", "a file"), why=fault.strerror or fault) from None
        if not block:
            return
        if left is not None:
            left -= len(block)
        yield block
