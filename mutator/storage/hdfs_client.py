"""What the modules of the HDFS backend share: the client of a process, addresses, and errors in our words."""

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
from mutator.storage.entry import Entry

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

__all__ = [
    "FAULTS",
    "at",
    "class_of",
    "entry_of",
    "join",
    "os_errors",
    "reason_of",
    "split",
    "status_of",
    "storage_error",
    "translated",
]

# The client raises RuntimeError for what it has no class for, ValueError for a name that is no Unicode.
FAULTS = (OSError, RuntimeError, ValueError)
_KINDS = ((FileNotFoundError, "storage.missing"), (FileExistsError, "storage.exists"))
# RPCError("java.io.IOException", "what the NameNode says\n\tat org.apache.…"), as Rust shows it
_ANSWER = re.compile(r'RPCError\("(?:[\w.]*\.)?([\w$]+)", "(.*)"\)', re.DOTALL)
_OTHER = re.compile(r'\w+\("(.*)"\)', re.DOTALL)
_ADDRESS = re.compile(r"(hdfs://([^/]*))(.*)", re.DOTALL | re.IGNORECASE)
# A client has threads, which a forked process has not. All clients of a process share their idle connections to
# DataNodes, which would never answer in a forked one; the library forgets them after 3 seconds.
_FORGET_SECONDS = 3.2
_clients: dict[tuple[int, str], Client] = {}


def at(path: str) -> tuple[Client, str]:
    """Return the client for a path, and the path in its file system."""
    _, authority, inner = split(path)
    try:
        return _client(authority), inner
    except ImportError:
        raise error("path.extra", path=path, scheme="hdfs", extra="hdfs") from None
    except FAULTS as fault:
        raise storage_error(path, fault) from None


def split(path: str) -> tuple[str, str, str]:
    """Split a path into scheme with authority, authority, and the rest from its slash on.

    >>> split("hdfs://name:8020//a/b#c/")
    ('hdfs://name:8020', 'name:8020', '/a/b#c')
    """
    match = _ADDRESS.fullmatch(path)
    if not match:
        raise error("storage", path=path, why="is no path in HDFS")
    return match[1], match[2], posixpath.normpath(f"/{match[3].lstrip('/')}")


def join(path: str, name: str) -> str:
    """Return the path of something in a directory."""
    root, _, inner = split(path)
    return f"{root}{inner.rstrip('/')}/{name}"


def status_of(client: Client, path: str, inner: str) -> FileStatus | None:
    """Return what the NameNode knows of a file or directory, or None."""
    try:
        return client.get_file_info(inner)
    except FileNotFoundError:
        return None
    except FAULTS as fault:
        if class_of(fault) == "ParentNotDirectoryException":  # a file has nothing in it
            return None
        raise storage_error(path, fault) from None


def entry_of(path: str, status: FileStatus) -> Entry:
    """Return what a status says, in our words."""
    kind = "directory" if status.isdir else "file"
    return Entry(path, posixpath.basename(split(path)[2]), status.length, kind, status.modification_time / 1000)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise what the client raises as a StorageError."""
    try:
        yield
    except FAULTS as fault:
        raise storage_error(path, fault) from None


@contextmanager
def os_errors() -> Iterator[None]:
    """Raise what the client raises as the OSError that a stream's user expects."""
    try:
        yield
    except NotImplementedError:
        raise
    except FAULTS as fault:
        raise OSError(errno.EIO, reason_of(fault)) from None


def storage_error(path: str, fault: Exception) -> Exception:
    """Return what the client raised as a StorageError."""
    kind = next((kind for family, kind in _KINDS if isinstance(fault, family)), "storage")
    if str(fault).startswith("Path is not a file"):  # FileNotFoundException, too
        kind = "storage"
    return error(kind, path=path, why=reason_of(fault))


def class_of(fault: Exception) -> str:
    """Return the class of the NameNode's exception, or nothing where it is not from there."""
    match = _ANSWER.match(str(fault)) if isinstance(fault, RuntimeError) else None
    return match[1] if match else ""


def reason_of(fault: Exception) -> str:
    """Return what is said, in one line and without the NameNode's stack.

    >>> reason_of(RuntimeError('RPCError("a.SafeModeException", "It is in safe mode.\\\\n\\\\tat a.b(c.java:1)")'))
    'It is in safe mode.'
    """
    text = (isinstance(fault, OSError) and fault.strerror) or str(fault)
    if isinstance(fault, FileNotFoundError) and text.startswith("/"):  # the client says the path, and no more
        return os.strerror(errno.ENOENT)
    if match := _ANSWER.match(text) or _OTHER.match(text):
        text = match[match.lastindex or 0].replace("\\n", "\n").replace('\\"', '"')
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(fault).__name__


def _client(authority: str) -> Client:
    key = (os.getpid(), authority)
    if key not in _clients:
        from hdfs_native import Client  # an extra

        if _clients and os.getpid() not in {process for process, _ in _clients}:
            time.sleep(_FORGET_SECONDS)
        _clients[key] = Client(f"hdfs://{authority}")  # without an authority: fs.defaultFS of the configuration
    return _clients[key]
