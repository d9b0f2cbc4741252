"""The shared parts of the HDFS backend: the client of a process, addresses, and translated errors."""

from __future__ import annotations

import errno
import os
import posixpath
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mutator.errors import error
from mutator.storage.contract import Entry

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

# The client raises RuntimeError if it has no class for an error, and ValueError for a name that is not Unicode.
FAULTS = (OSError, RuntimeError, ValueError)
_KINDS = ((FileNotFoundError, "storage.missing"), (FileExistsError, "storage.exists"))
# The NameNode checks permissions, quotas and safe mode before it changes anything. Any other answer, such as that of a
# standby NameNode or of an overloaded one, says less.
_REFUSALS = {
    "AccessControlException": "storage.refused",
    "NSQuotaExceededException": "storage.quota",
    "DSQuotaExceededException": "storage.quota",
    "QuotaByStorageTypeExceededException": "storage.quota",
    "SafeModeException": "storage.paused",
}
# RPCError("java.io.IOException", "message of the NameNode\n\tat org.apache.…"), as Rust prints it
_ANSWER = re.compile(r'RPCError\("(?:[\w.]*\.)?([\w$]+)", "(.*)"\)', re.DOTALL)
_OTHER = re.compile(r'\w+\("(.*)"\)', re.DOTALL)
_ADDRESS = re.compile(r"(hdfs://([^/]*))(.*)", re.DOTALL | re.IGNORECASE)
# A client has threads, which a forked process lacks. All clients of a process share their idle connections to
# DataNodes, which never answer in a forked process; the library drops them after 3 seconds.
_FORGET_SECONDS = 3.2
_clients: dict[tuple[int, str], Client] = {}


def at(path: str) -> tuple[Client, str]:
    """Return the client for a path, and the path within its file system."""
    _, authority, inner = split(path)
    try:
        return _client(authority), inner
    except ImportError:
        raise error("path.extra", path=path, scheme="hdfs", extra="hdfs") from None
    except FAULTS as fault:
        raise storage_error(path, fault) from None


def split(path: str) -> tuple[str, str, str]:
    """Split a path into scheme with authority, authority, and the path within the file system.

    >>> split("hdfs://name:8020//a/b#c/")
    ('hdfs://name:8020', 'name:8020', '/a/b#c')
    """
    match = _ADDRESS.fullmatch(path)
    if not match:
        raise error("storage", path=path, why="is not a path in HDFS")
    return match[1], match[2], posixpath.normpath(f"/{match[3].lstrip('/')}")


def join(path: str, name: str) -> str:
    """Return the path of an entry of a directory."""
    root, _, inner = split(path)
    return f"{root}{inner.rstrip('/')}/{name}"


def status_of(client: Client, path: str, inner: str) -> FileStatus | None:
    """Return the NameNode's status of a file or directory; None if it does not exist."""
    try:
        return client.get_file_info(inner)
    except FileNotFoundError:
        return None
    except FAULTS as fault:
        if class_of(fault) == "ParentNotDirectoryException":  # a parent is a file
            return None
        raise storage_error(path, fault) from None


def entry_of(path: str, status: FileStatus) -> Entry:
    """Return a status as an entry."""
    entry_type = "directory" if status.isdir else "file"
    return Entry(path, posixpath.basename(split(path)[2]), status.length, entry_type, status.modification_time / 1000)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise an exception of the client as a StorageError."""
    try:
        yield
    except FAULTS as fault:
        raise storage_error(path, fault) from None


class StreamError(OSError):
    """An exception of the client in a stream, with the kind of the StorageError that it will become."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(errno.EIO, reason)
        self.kind = kind


@contextmanager
def os_errors() -> Iterator[None]:
    """Raise an exception of the client as the OSError that a reader of a stream expects."""
    try:
        yield
    except NotImplementedError:
        raise
    except FAULTS as fault:
        raise StreamError(_kind_of(fault), reason_of(fault)) from None


def storage_error(path: str, fault: Exception) -> Exception:
    """Return an exception of the client, or of a stream, as a StorageError."""
    return error(_kind_of(fault), path=path, why=reason_of(fault))


def _kind_of(fault: Exception) -> str:
    if isinstance(fault, StreamError):
        return fault.kind
    if str(fault).startswith("Path is not a file"):  # which is a FileNotFoundException, too
        return "storage"
    found = next((kind for family, kind in _KINDS if isinstance(fault, family)), None)
    return found or _REFUSALS.get(class_of(fault), "storage")


def class_of(fault: Exception) -> str:
    """Return the class of the NameNode's exception; empty if the exception is not from the NameNode."""
    match = _ANSWER.match(str(fault)) if isinstance(fault, RuntimeError) else None
    return match[1] if match else ""


def reason_of(fault: Exception) -> str:
    """Return the reason for an exception, in one line and without the NameNode's stack.

    >>> reason_of(RuntimeError('RPCError("a.SafeModeException", "It is in safe mode.\\\\n\\\\tat a.b(c.java:1)")'))
    'It is in safe mode.'
    """
    text = (isinstance(fault, OSError) and fault.strerror) or str(fault)
    if isinstance(fault, FileNotFoundError) and text.startswith("/"):  # the client gives only the path
        return os.strerror(errno.ENOENT)
    if match := _ANSWER.match(text) or _OTHER.match(text):
        text = match[match.lastindex or 0].replace("\\n", "\n").replace('\\"', '"')
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(fault).__name__


def _client(authority: str) -> Client:
    key = (os.getpid(), authority)
    if key not in _clients:
        from hdfs_native import Client  # an extra

        known = list(_clients)  # other threads may add to them
        if known and os.getpid() not in {process for process, _ in known}:
            time.sleep(_FORGET_SECONDS)
        _clients[key] = Client(f"hdfs://{authority}")  # without an authority: fs.defaultFS of the configuration
    return _clients[key]
