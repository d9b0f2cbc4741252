"""HDFS, through the package ``hdfs-native``: a client in Rust that needs no JVM and no installation of Hadoop.

The NameNode changes a name in one step, and writes its edit log before it answers. It does not make the bytes of a
file durable: a file counts as closed when the DataNodes have it in memory (``dfs.datanode.synconclose`` is off by
default).
The durable order is: write, hsync each block, close, rename.

From version 0.14.7 on the client never sends a change twice, so the NameNode's answer says what happened. If the
connection breaks before the answer, the change may have been made or not: only then the result is looked up.
"""

from __future__ import annotations

import errno
import io
import os
import posixpath
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.errors.parts import place
from mutator.storage import hdfs_client
from mutator.storage.contract import Entry, Storage, directories_below
from mutator.storage.hdfs_client import FAULTS, class_of, entry_of, reason_of, status_of, storage_error, translated
from mutator.storage.hdfs_streams import HdfsWriter, Reader, create

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

_BUFFER = 1 << 20


class HdfsStorage(Storage):
    """The storage contract on HDFS. Paths are taken literally: nothing in them is escaped."""

    renames = True
    waits = True

    def service(self, path: str) -> str:
        """Return the directory of the configuration, which says what the names of file systems mean."""
        return os.environ.get("HADOOP_CONF_DIR") or os.environ.get("HADOOP_HOME", "")

    def exclusive(self, path: str) -> bool:
        """Return True: of two writers that create one file, or rename to one path, the NameNode lets one win."""
        return True

    def stat(self, path: str) -> Entry | None:
        """Return the entry at a path; None if nothing is there."""
        client, inner = hdfs_client.at(path)
        status = status_of(client, path, inner)
        return None if status is None else entry_of(path, status)

    def resolve(self, path: str) -> str:
        """Return the one spelling of a path: no double slashes, no ``.`` and no ``..``. HDFS has no links."""
        root, _, inner = hdfs_client.split(path)
        return root + inner

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name."""
        client, inner = hdfs_client.at(path)
        with translated(path):
            found = list(client.list_status(inner))
        if len(found) == 1 and found[0].path == inner and not found[0].isdir:  # a file is listed as itself
            raise error("storage", path=path, why="is not a directory")
        entries = (entry_of(hdfs_client.join(path, posixpath.basename(one.path)), one) for one in found)
        return sorted(entries, key=lambda entry: entry.path.encode("utf-8", "surrogatepass"))

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """Open a file for reading from an offset in bytes."""
        client, inner = hdfs_client.at(path)
        with translated(path):
            stream = Reader(path, client.read(inner))
        if offset:
            stream.seek(offset)
        return cast(BinaryIO, stream)

    @contextmanager
    def create_new(self, path: str, final: Callable[[], str] | None = None) -> Iterator[BinaryIO]:
        """Create a file that must not exist: it appears when the block ends, whole and durable.

        Its directory must exist. Otherwise a straggler of a run that is over would bring a removed directory back.
        """
        client, inner = hdfs_client.at(path)
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
            _discard(client, raw)
            if isinstance(fault, OSError):  # of the stream, or of the code that writes to it
                raise storage_error(path, fault) from None
            raise

    def make_directory(self, path: str, within: str = "") -> None:
        """Create a directory and its parents; it may exist. within: a parent that must exist."""
        client, inner = hdfs_client.at(path)
        directories = directories_below(inner, hdfs_client.split(within)[2]) if within else [inner]
        try:
            for directory in directories:
                client.mkdirs(directory, create_parent=not within)
        except FileExistsError as fault:  # a file is in the way
            raise error("storage", path=path, why=reason_of(fault)) from None
        except FAULTS as fault:
            raise storage_error(path, fault) from None

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it; it may be missing."""
        client, inner = hdfs_client.at(path)
        try:
            client.delete(inner, recursive=True)
        except FAULTS as fault:
            if self.stat(path) is not None:  # otherwise a parent is a file, so nothing is there
                raise storage_error(path, fault) from None

    def rename_new(self, source: str, target: str) -> None:
        """Move a file or directory to a path that must not exist, in one step, durably. Raises FileExistsError."""
        client, inner = hdfs_client.at(source)
        if hdfs_client.split(source)[0] != hdfs_client.split(target)[0]:
            raise error("storage", path=target, why=f"is in another file system than {place(source)}")
        try:
            _move(client, inner, target)
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        except FAULTS as fault:
            raise storage_error(target, fault) from None

    def remove_directory(self, path: str) -> bool:
        """Remove a directory if it is empty, and return True; False if it is not. It may be missing."""
        client, inner = hdfs_client.at(path)
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
        """Write a small file, which may exist: readers see either the old content or the new."""
        client, inner = hdfs_client.at(path)
        raw = create(client, path, posixpath.join(posixpath.dirname(inner), f".{uuid.uuid4().hex}"))
        try:
            with translated(path):
                raw.write(content)
                raw.finish()
                client.rename(raw.path, inner, overwrite=True)
        except BaseException:
            _discard(client, raw)
            raise


def _discard(client: Client, raw: HdfsWriter) -> None:
    """Remove a file that cannot be finished, where the client can: the fault before it is the one to report."""
    with suppress(*FAULTS):
        client.delete(raw.path)
    raw.abandon()


def _move(client: Client, source: str, target: str) -> None:
    """Rename, but never onto or into an existing path. Raises the client's exceptions."""
    inner = hdfs_client.split(target)[2]
    before = client.get_file_info(source)
    try:
        client.rename(source, inner, overwrite=False)
    except (FileNotFoundError, FileExistsError):
        raise
    except FAULTS as fault:
        try:
            now = status_of(client, target, inner)
            left = status_of(client, source, source)
        except MutatorError:
            raise fault from None  # a refused lookup does not mean that the rename was refused
        if class_of(fault):
            # If one is a file and the other a directory, the NameNode says that they do not match, not that one exists.
            if now is None or left is None:
                raise
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        # The answer was lost. If the target is now the former source, the rename was done: by this process, unless
        # another one made the very same rename at that moment.
        if now is None or _identity(now) != _identity(before) or left is not None:
            raise


def _identity(status: FileStatus) -> tuple[object, ...]:
    """Return the properties that a rename does not change. The client does not show the inode number."""
    return (status.isdir, status.length, status.modification_time, status.owner, status.permission)
