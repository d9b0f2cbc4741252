"""The process that workers are forked from. It loads their modules while its parent goes on.

It has no threads: Arrow, and the clients of S3 and HDFS, have some. This module imports little, because the command may
begin that process before it loads anything else.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from mutator.engine import malloc
from mutator.engine.numpy_variables import numpy_variables

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

_PRELOADED = ("mutator.engine.preload",)
_LONGEST = 64  # bytes of a temporary directory; a socket's path has 103 on macOS, of which multiprocessing needs 33
_submitting = threading.Lock()


def begin_processes() -> None:
    """Begin to start the process that others are forked from."""
    with submitting():
        ensure_fork_server()


def ensure_fork_server() -> None:
    """Start the process that others are forked from, unless it runs. Call it within ``submitting``."""
    from multiprocessing import forkserver, resource_tracker

    context()
    with _environment():
        resource_tracker.ensure_running()  # lets signals through
        with _without_interrupts():
            forkserver.ensure_running()


def context() -> ForkServerContext:
    """Return the context of ``multiprocessing`` in which workers start."""
    import multiprocessing

    _shorten_socket_paths()
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(list(_PRELOADED))
    return found


@contextmanager
def submitting() -> Iterator[None]:
    """Let one thread at a time start processes.

    The program is hidden from ``multiprocessing``, which would run it again in each process that it starts.
    """
    with _submitting:
        program = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = program


def own_environment() -> dict[str, str | None]:
    """Return the variables of this process that are others in the one that workers are forked from; None: not set."""
    return {name: os.environ.get(name) for name in _variables()}


def set_environment(variables: Mapping[str, str | None]) -> None:
    """Set variables of this process, or remove them. variables: as ``own_environment`` returns them."""
    for name, value in variables.items():
        if value is not None:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)


def _variables() -> dict[str, str]:
    """Return the variables of the process that workers are forked from.

    It looks for modules where this process does: ``multiprocessing`` would look in the working directory first. It uses
    large pages.
    """
    return {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if os.pathsep not in path),
        "PYTHONSAFEPATH": "1",
        malloc.VARIABLE: malloc.large_pages(),
        **numpy_variables(),
    }


@contextmanager
def _environment() -> Iterator[None]:
    """Let a process that starts meanwhile have the variables of the one that workers are forked from."""
    before = own_environment()
    try:
        set_environment(_variables())
        yield
    finally:
        set_environment(before)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let a process that is started meanwhile never see Ctrl-C, which its parent does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _shorten_socket_paths() -> None:
    """Let ``multiprocessing`` keep its sockets in a system directory if their paths would be too long for a socket.

    It keeps them in a directory of its own below the temporary one, which it makes when it is first asked for it.
    """
    from multiprocessing import util

    before = tempfile.gettempdir()
    if len(os.fsencode(before)) <= _LONGEST:
        return
    short = next((one for one in ("/tmp", "/var/tmp", "/dev/shm") if os.access(one, os.W_OK | os.X_OK)), before)
    try:
        tempfile.tempdir = short
        util.get_temp_dir()
    finally:
        tempfile.tempdir = before
