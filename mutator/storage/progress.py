"""How far a command has come: the bytes that it has read, of those that it will read, and rows.

Whatever reads a block of bytes or rows, or writes rows, counts them here. Other processes of this machine count into
files that the process of the command reads, and tasks of a Spark cluster into an accumulator. The command line shows
the counts while a ``with expected(…)`` block runs. Nothing else depends on them.
"""

import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

from mutator.errors.quick_dataclass import dataclass


class Counts(NamedTuple):
    """Bytes and rows that were read, and rows that were written."""

    bytes: int = 0
    rows: int = 0
    written: int = 0

    def plus(self, other: "Counts", sign: int = 1) -> "Counts":
        """Return the sum of two counts, or with -1 as sign the difference."""
        return Counts(*(one + sign * more for one, more in zip(self, other, strict=True)))


@dataclass(frozen=True)
class ShownWork:
    """Work whose progress is shown."""

    bytes: int  # to be read
    rewritten: bool  # rows are written only after all of them were read
    before: Counts

    def done(self) -> Counts:
        """Return the counts since the work began."""
        return total().plus(self.before, -1)

    def share(self, done: Counts) -> float:
        """Return which part of the work is done, from 0 to 1."""
        read = min(done.bytes / self.bytes, 1.0) if self.bytes else 0.0
        return (read + min(done.written / max(done.rows, 1), 1.0)) / 2 if self.rewritten else read


Show = Callable[[ShownWork], AbstractContextManager[None]]

_lock = threading.Lock()
_own = Counts()  # of this process
_taken = Counts()  # of these, what another process has
_sources: list[Callable[[], Counts]] = []  # of others
# Of a worker process: the directory and the file that its parent reads, and the counts before the first in that file.
_directory = ""
_file: mmap.mmap | None = None
_before = Counts()
_show: Show | None = None
_busy = False  # a block of ``expected`` runs
_FORM = struct.Struct("<3q")


def count(bytes_: int = 0, rows: int = 0, written: int = 0) -> None:
    """Add to the counts: what was read, or written, since the last call."""
    global _own
    with _lock:
        _own = _own.plus(Counts(bytes_, rows, written))
        if _file is not None:
            _file[:] = _FORM.pack(*_own.plus(_before, -1))


def taken() -> Counts:
    """Return the counts of this process since the last call."""
    global _taken
    with _lock:
        before, _taken = _taken, _own
    return _own.plus(before, -1)


def total() -> Counts:
    """Return the counts of this process, and of all others that work for it."""
    found = _own
    for source in _sources:
        found = found.plus(source())
    return found


def is_shown() -> bool:
    """Return whether anybody looks: if not, other processes need not count."""
    return _show is not None


@contextmanager
def followed(source: Callable[[], Counts]) -> Iterator[None]:
    """Add the counts of others to those of this process. source: returns them, also at the end of the block."""
    _sources.append(source)
    try:
        yield
    finally:
        count(*source())
        _sources.remove(source)


def count_into(directory: str) -> None:
    """Let the process for which this one works see its counts from now on, in a file of a directory."""
    global _directory, _file, _before
    with _lock:
        if directory == _directory:
            return
        _directory, _file, _before = directory, None, _own
        with suppress(OSError), open(os.path.join(directory, str(os.getpid())), "x+b") as stream:
            stream.write(_FORM.pack(*Counts()))
            stream.flush()
            _file = mmap.mmap(stream.fileno(), _FORM.size)


def counted_in(directory: str) -> Counts:
    """Return the counts of the processes that count into a directory."""
    found = Counts()
    with suppress(OSError):
        for entry in os.scandir(directory):
            with open(entry.path, "rb") as stream, suppress(struct.error):
                found = found.plus(Counts(*_FORM.unpack(stream.read())))
    return found


@contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """Show the progress of work within the ``with`` block. show: does so for the time of a block of its own."""
    global _show
    _show = show
    try:
        yield
    finally:
        _show = None


@contextmanager
def expected(bytes_: int, *, rewritten: bool = False) -> Iterator[None]:
    """Show the progress of the ``with`` block, unless it is a part of another one, or nobody wants to see it.

    bytes_: that the block will read. rewritten: it writes rows only after it has read all of them.
    """
    global _busy
    with _lock:
        show = None if _busy else _show
        _busy = _busy or show is not None
    if show is None:
        yield
        return
    try:
        with show(ShownWork(bytes_, rewritten, total())):
            yield
    finally:
        _busy = False
