"""A turn to commit, for the writers on one machine: a courtesy that spares them tries.

Without turns, each commit of a writer costs the others a try. Only the log decides which versions exist, so a writer
that waits too long, perhaps for one that is suspended, goes on without its turn.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mutator.dataset.versions.log import DIRECTORY
from mutator.errors import MutatorError
from mutator.storage import storage_for
from mutator.storage.local import LocalStorage

_PATIENCE = 1.0  # seconds
_PAUSE = 0.005  # seconds between two looks


@contextmanager
def turn(table: str, nearby: str | None) -> Iterator[None]:
    """Wait for the turn of this writer, which lasts until the end of the ``with`` block.

    nearby: directory on this machine, for a table on a storage that cannot lock one; None: there is no turn.
    """
    own, end = storage_for(table), time.monotonic() + _PATIENCE
    storage, path = (own, posixpath.join(table, DIRECTORY, "log")) if own.holds else (LocalStorage(), nearby)
    lock: object | None = None
    with suppress(MutatorError):  # the commit reports what is wrong
        while path is not None and (lock := storage.hold(path)) is None and time.monotonic() < end:
            if storage.stat(path) is None:
                break
            time.sleep(_PAUSE)
    try:
        yield
    finally:
        del lock  # which releases it
