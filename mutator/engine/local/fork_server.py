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
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from mutator.engine import large_pages

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

_PRELOADED = ("mutator.engine.preload",)
_LONGEST = 64  # bytes of a temporary directory; a socket's path has 103 on macOS, of which multiprocessing needs 33
_submitting = threading.Lock()


def begin_processes() -> None:
    """Begin to start the process that others are forked from."""
    from multiprocessing import forkserver, resource_tracker

    with submitting():
        context()
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
    """Let one thread at a time start processes, with the modules of this one and with large pages.

    The program is hidden from ``multiprocessing``, which would run it again in each process that it starts.
    """
    with _submitting, _environment():
        program = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = program


@contextmanager
def _environment() -> Iterator[None]:
    """Set the environment of the process that others are forked from.

    It looks for modules where this process does: ``multiprocessing`` would look in the working directory first.
    """
    own = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1", large_pages.NAME: large_pages.large_pages()}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
