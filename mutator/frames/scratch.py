"""A directory for the files of a merge, which is removed with the last object that needs it."""

import os
import posixpath
import time
import weakref
from contextlib import ExitStack, suppress
from typing import Self

from mutator.engine.scratch import scratch_directory
from mutator.errors import MutatorError
from mutator.rules.file_names import new_run_id
from mutator.storage import located_to_write, storage_for


class Scratch:
    """A directory for a ``with`` block; after ``keep_only`` it lives as long as this object, or as the process."""

    def __init__(self, parent: str | None = None) -> None:
        """Make the directory. parent: a directory that other machines reach, too; None for one of this machine."""
        stack = ExitStack()
        self.path = scratch_directory(stack) if parent is None else _directory_below(parent, stack)
        self._is_kept = False
        self._finalizer = weakref.finalize(self, _close, stack, os.getpid())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or not self._is_kept:
            self._finalizer()

    def keep_only(self, path: str) -> None:
        """Remove all entries of the directory but one, and keep the directory when the ``with`` block ends."""
        self._is_kept = True
        storage = storage_for(self.path)
        for entry in list(storage.entries(self.path)):
            if entry.path != path:
                storage.remove(entry.path)


def _close(stack: ExitStack, process: int) -> None:
    if os.getpid() == process:  # a forked process has a copy of the object, and not the directory
        stack.close()


def _directory_below(parent: str, stack: ExitStack) -> str:
    storage, parent = located_to_write(parent)
    path = posixpath.join(parent, f".mutator-scratch-{new_run_id(time.time())}")
    storage.make_directory(path)

    def remove() -> None:
        with suppress(MutatorError):
            storage.remove(path)

    stack.callback(remove)
    return path
