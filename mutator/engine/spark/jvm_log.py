"""What Spark's JVM and its Python workers print, kept out of this process's stderr: in a file, if a fault is in it.

Spark prints a stack trace for each attempt of a task that fails. The one line that names the cause would be lost in
hundreds of them. A JVM that spark-submit has started is not ours: its settings say what it prints.
"""

import atexit
import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext


class _Log:
    """The file of this process's JVM. It is removed when the process ends, unless an error has named it."""

    def __init__(self) -> None:
        self.path: str | None = None
        self._process = 0

    def begin(self) -> int | None:
        """Create the file and return its descriptor; None where no file can be created."""
        try:
            handle, self.path = tempfile.mkstemp(prefix="mutator-spark-", suffix=".log")
        except OSError:
            return None
        self._process = os.getpid()
        atexit.register(self.end)
        return handle

    def end(self) -> None:
        """Remove the file, but not in a forked process."""
        if self.path is not None and self._process == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            self.path = None

    def keep(self) -> str | None:
        """Leave the file where it is; return its path, or None without one."""
        atexit.unregister(self.end)
        return self.path


_log = _Log()


@contextmanager
def quiet_start() -> Iterator[None]:
    """Let a JVM that starts within the ``with`` block, and its workers, write to a file.

    Their stdout, too: whoever reads ours would wait for the end of the JVM, which may be writing an archive of classes.
    """
    handle = _log.begin() if SparkContext._gateway is None else None
    if handle is None:
        yield
        return
    own = {number: os.dup(number) for number in (1, 2)}
    for number in own:
        os.dup2(handle, number)
    os.close(handle)
    try:
        yield
    finally:
        for number, kept in own.items():
            os.dup2(kept, number)
            os.close(kept)


def name_of_log() -> str:
    """Return where Spark's log is, for a message, and keep the file."""
    path = _log.keep()
    return "Spark's log" if path is None else f"Spark's log, {path}"
