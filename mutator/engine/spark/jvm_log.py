"""What Spark's JVM and its Python workers print, kept out of this process's stderr: in a file, if a fault is in it.

Spark prints a stack trace for each attempt of a task that fails. The one line that names the cause would be lost in
hundreds of them. A JVM that spark-submit has started is not ours: its settings say what it prints.

The errors of the catalogue that faults of Spark mean.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from mutator.errors import MutatorError, error
from mutator.errors.exceptions import from_traceback
from mutator.errors.interrupts import check_signals

_TRACEBACK = "Traceback (most recent call last):"
_JAVA_CLASS = re.compile(r"\A(?:[a-z]\w*\.)+\w+: (?:\[[A-Z_]+\] )?")  # and Spark's name of the error
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)")


@contextmanager
def spark_faults(sc: SparkContext) -> Iterator[None]:
    """Turn exceptions that Spark raises inside of the ``with`` block into errors of the catalogue."""
    try:
        yield
    except (Py4JError, PySparkException, OSError, EOFError) as fault:
        check_signals()  # a signal that came during the call looks like a fault, too
        if _is_gone(sc):
            raise error("spark.lost", why=type(fault).__name__, log=name_of_log()) from None
        raise _task_error(sc, fault) from None


def _is_gone(sc: SparkContext) -> bool:
    try:
        sc._jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]  # the cheapest question to a JVM
    except (Py4JError, OSError, AttributeError):
        return True
    return False


def _task_error(sc: SparkContext, fault: Exception) -> MutatorError:
    """Return why Spark gave up: on the way from a worker an exception loses its class, but not its text."""
    text = str(fault.java_exception) if isinstance(fault, Py4JJavaError) else str(fault)
    if "No module named 'pandas'" in text:
        return error("hive.pandas", where="a worker of Spark")
    if missing := _NO_MODULE.search(text):
        return error("spark.python", python=sc.pythonExec, missing=missing[1], own=sys.executable)
    return from_traceback(text) or error("task", why=_cause(text), log=name_of_log())


def _cause(text: str) -> str:
    """Return the first line of a fault of Spark, and the last line of the Python traceback in it.

    >>> text = "Job: Traceback (most recent call last):\\n  …\\nOSError: disk\\n SQLSTATE: 38000\\n\\n\\tat a.b(c.java)"
    >>> _cause(text)
    'Job: OSError: disk'
    """
    text = _JAVA_CLASS.sub("", text.split("\n\tat ")[0])
    lines = [line.strip()[:1000] for line in text.splitlines() if line.strip() and not line.startswith(" SQLSTATE: ")]
    if len(lines) < 2:
        return "".join(lines)
    first = lines[0].removesuffix(_TRACEBACK)
    return f"{first}{'' if first != lines[0] else '; '}{lines[-1]}"


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
