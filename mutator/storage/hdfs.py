"""HDFS, through the package ``hdfs-native``: a client in Rust that needs no JVM and no installation of Hadoop.

The NameNode changes a name in one step, and has it in its edit log before it answers. It does not make the bytes of a
file durable: a file is closed when the DataNodes have it in memory (``dfs.datanode.synconclose`` is off by default).
The durable order is: write, hsync each block, close, rename.

A change is never sent twice (0.14.7; older ones do), so what the NameNode answers is what happened. Where the
connection breaks before the answer, the change may have been made or not: only then is looked at what is there.
"""

from __future__ import annotations

import errno
import io
import os
import posixpath
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.storage import globbing
from mutator.storage.entry import Entry, walked
from mutator.storage.hdfs_client import (
    FAULTS,
    at,
    class_of,
    entry_of,
    join,
    reason_of,
    split,
    status_of,
    storage_error,
    translated,
)
from mutator.storage.hdfs_streams import Reader, create

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

__all__ = ["HdfsStorage"]

_BUFFER = 1 << 20


class HdfsStorage:
    """The storage contract on HDFS; paths are taken literally, with nothing escaped."""

    renames = True
    holds = False

    def exclusive(self, path: str) -> bool:
        """Tell whether of two that create a file, or rename to a name, one loses: the NameNode sees to it."""
        return True

    def stat(self, path: str) -> Entry | None:
        """Return what is at a path, or None."""
        client, inner = at(path)
        status = status_of(client, path, inner)
        return None if status is None else entry_of(path, status)

    def resolve(self, path: str) -> str:
        """Return the one spelling of a path: no slash too many, no ``.`` and no ``..``. HDFS has links switched off."""
        root, _, inner = split(path)
        return root + inner

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, by name."""
        client, inner = at(path)
        with translated(path):
            found = list(client.list_status(inner))
        if len(found) == 1 and found[0].path == inner and not found[0].isdir:  # a file is listed as itself
            raise error("storage", path=path, why="is not a directory")
        return sorted((entry_of(join(path, posixpath.basename(one.path)), one) for one in found), key=_by_bytes)

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield everything below a directory that is none itself, in no order."""
        return walked(self.entries, path)

    def glob(self, pattern: str) -> list[Entry]:
        """Return the entries that match a pattern, by path; ``*`` does not match hidden names."""
        return globbing.matches(pattern, self._listed, self.stat)

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """Open a file for reading at an offset."""
        client, inner = at(path)
        with translated(path):
            stream = Reader(path, client.read(inner))
        if offset:
            stream.seek(offset)
        return cast(BinaryIO, stream)

    @contextmanager
    def create_new(self, path: str, final: Callable[[], str] | None = None) -> Iterator[BinaryIO]:
        """Create a file that must not exist: visible only when whole and durable, aborted by an exception.

        Its directory must exist: made here, a removed one would come back with a straggler of a run that is over.
        """
        client, inner = at(path)
        directory, name = posixpath.split(inner)
        begin = name.encode("utf-8", "replace")[:100].decode("utf-8", "ignore")  # a name is at most 255 bytes
        scratch = posixpath.join(directory, f".{begin}.{uuid.uuid4().hex}")
        raw = create(client, path, scratch)
        try:
            stream = io.BufferedWriter(raw, _BUFFER)
            yield cast(BinaryIO, stream)
            stream.close()
            raw.finish()
            failpoint("storage.written")
            path = path if final is None else final()
            with translated(path):
                _move(client, scratch, path)
            failpoint("storage.linked")
        except BaseException as fault:
            with suppress(*FAULTS):  # what went wrong first is what counts
                client.delete(scratch)
            raw.abandon()
            if isinstance(fault, OSError):  # of the stream, or of whoever writes to it
                raise storage_error(path, fault) from None
            raise

    def link_new(self, source: str, target: str) -> bool:
        """Return False: HDFS has no second names."""
        return False

    def sync(self, path: str) -> None:
        """Do nothing: an entry is in the NameNode's edit log, synced, before the call that makes it returns."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; one that exists is fine."""
        client, inner = at(path)
        try:
            client.mkdirs(inner, create_parent=True)
        except FileExistsError as fault:  # a file is in the way
            raise error("storage", path=path, why=reason_of(fault)) from None
        except FAULTS as fault:
            raise storage_error(path, fault) from None

    def make_directories(self, paths: Sequence[str]) -> None:
        """Create directories and their parents."""
        for path in paths:
            self.make_directory(path)

    def sync_all(self, path: str) -> None:
        """Do nothing: whatever is visible is durable."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; one that is not there is fine."""
        client, inner = at(path)
        try:
            client.delete(inner, recursive=True)
        except FAULTS as fault:
            if self.stat(path) is not None:  # else there is a file above it, which has nothing in it
                raise storage_error(path, fault) from None

    def rename_new(self, source: str, target: str) -> None:
        """Move a file or directory to a name that must not exist, in one step, durably. Raises FileExistsError."""
        client, inner = at(source)
        if split(source)[0] != split(target)[0]:
            raise error("storage", path=target, why=f"is in another file system than {source}")
        try:
            _move(client, inner, target)
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        except FAULTS as fault:
            raise storage_error(target, fault) from None

    def swap(self, one: str, other: str) -> bool:
        """Return False: HDFS cannot exchange two names in one step."""
        return False

    def remove_directory(self, path: str) -> bool:
        """Remove a directory if nothing is in it; False where something is. One that is not there is fine."""
        client, inner = at(path)
        status = status_of(client, path, inner)
        if status is None:
            return True
        if not status.isdir:
            return False
        try:
            client.delete(inner, recursive=False)
        except FAULTS as fault:
            if class_of(fault) == "PathIsNotEmptyDirectoryException":
                return False
            raise storage_error(path, fault) from None
        return True

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file, in the place of one that may be there."""
        client, inner = at(path)
        with translated(path):
            raw = create(client, path, posixpath.join(posixpath.dirname(inner), f".{uuid.uuid4().hex}"))
            raw.write(content)
            raw.finish()
            client.rename(raw.path, inner, overwrite=True)

    def unfinished(self, path: str) -> list[str]:
        """Return nothing: what a killed writer leaves has a hidden name, and is in every listing."""
        return []

    def hold(self, path: str) -> object | None:
        """Return None: nothing in HDFS goes back by itself when a process ends."""
        return None

    def _listed(self, path: str) -> list[Entry]:
        try:
            return self.entries(path)
        except MutatorError as fault:
            if fault.kind != "storage.missing":  # removed just now
                raise
            return []


def _by_bytes(entry: Entry) -> bytes:
    return entry.path.encode("utf-8", "surrogatepass")


def _move(client: Client, source: str, target: str) -> None:
    """Rename, but never onto something that exists, nor into it; raises what the client does."""
    inner = split(target)[2]
    before = client.get_file_info(source)
    try:
        client.rename(source, inner, overwrite=False)
    except (FileNotFoundError, FileExistsError):
        raise
    except FAULTS as fault:
        now = status_of(client, target, inner)
        if class_of(fault):
            # Of a file and a directory the NameNode says that they do not match, and not that the name is taken.
            if now is None or status_of(client, source, source) is None:
                raise
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        # The answer got lost. If what was at the source is at the target now, the rename was done: by this process,
        # unless another one did the very same, from the same source to the same target, at that moment.
        if now is None or _identity(now) != _identity(before) or status_of(client, source, source):
            raise


def _identity(status: FileStatus) -> tuple[object, ...]:
    """Return what a rename leaves as it is. The client does not show the number of the inode."""
    return (status.isdir, status.length, status.modification_time, status.owner, status.permission)
