"""Stop when the user or the scheduler says so, at once or at the next safe place.

A ``KeyboardInterrupt`` can get lost: it is raised wherever the interpreter happens to be, also in a finalizer, which
swallows it. So the signal is remembered, too, and looked at before anything is published.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """The process got a signal to stop; ``number`` is the signal's."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.number = number


_caught: list[int] = []
_commits: list[bool] = []  # the open blocks of ``signals_after_commit_wait``: whether each has committed


@contextmanager
def catch_signals() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into ``Interrupted`` inside of the ``with`` block."""
    with _handled(_interrupt):
        yield


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Raise ``Interrupted`` at the end of the ``with`` block in place of anywhere in it; only the main thread does."""
    with _handled(_remember):
        yield
    if _caught and threading.current_thread() is threading.main_thread() and not _waits():
        raise Interrupted(_caught.pop())


@contextmanager
def signals_after_commit_wait() -> Iterator[None]:
    """Raise the ``Interrupted`` of a signal that comes after ``commit_is_made`` at the end of the ``with`` block.

    It cannot undo the commit any more, and the end of the block knows the result. A second signal is raised at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _commits.append(False)
    try:
        yield
    finally:
        _commits.pop()
    if _caught:
        raise Interrupted(_caught.pop())


def commit_is_made() -> None:
    """Let a signal wait for the end of the ``signals_after_commit_wait`` block around the caller, if there is one."""
    if _commits and threading.current_thread() is threading.main_thread():
        _commits[-1] = True


def check_signals() -> None:
    """Raise ``Interrupted`` if a signal came in the current ``catch_signals`` block, and its exception was lost."""
    if _caught:
        raise Interrupted(_caught[0])


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    if handler is _interrupt:
        _caught.clear()
    level = logging.root.manager.disable
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
        if handler is _interrupt:
            _caught.clear()
            logging.disable(level)


def _waits() -> bool:
    """Return whether the caught signal waits for the end of a block that has committed."""
    return any(_commits) and len(_caught) == 1


def _interrupt(number: int, _: Any) -> None:
    _caught.append(number)
    if _waits():
        return
    logging.disable()  # py4j logs a traceback for every call that a signal breaks
    raise Interrupted(number)


def _remember(number: int, _: Any) -> None:
    _caught.append(number)
