"""The merged keys that a snapshot keeps for the next ones, so that a process that stays open reads each file once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from mutator.dataset.commits import Commit

_MOST = 64  # versions that wait to be added: a table that is only read needs no merged keys
_T = TypeVar("_T")


class KeptKeys(Generic[_T]):
    """Merged keys of a snapshot: those of an earlier one, and the versions since, until they are asked for.

    They are not sent to other processes.
    """

    def __init__(self, found: _T | None = None, waiting: tuple[Commit, ...] = ()) -> None:
        """found: merged keys. waiting: the versions after them."""
        self._found, self._waiting, self._lock = found, waiting, Lock()

    def __reduce__(self) -> tuple[type[KeptKeys[_T]], tuple[()]]:
        return KeptKeys, ()

    def after(self, version: Commit) -> KeptKeys[_T]:
        """Return those of the snapshot after the next version, of which nothing is read yet."""
        with self._lock:
            # A cleaning removes the version indexes of those that wait, and a restore goes back behind them.
            is_other = version.removed or version.cleaned or version.restored
            if self._found is None or is_other or len(self._waiting) == _MOST:
                return KeptKeys()
            return KeptKeys(self._found, (*self._waiting, version))

    def get(self, fits: Callable[[_T], bool], begin: Callable[[], _T], add: Callable[[_T, Sequence[Commit]], _T]) -> _T:
        """Return the merged keys, which are made now if they are not known.

        fits: whether merged keys can be used. begin: makes them. add: returns those after some versions.
        """
        with self._lock:
            found = self._found
            if found is None or not fits(found):
                found = begin()
            elif self._waiting:
                found = add(found, self._waiting)
            self._found, self._waiting = found, ()
            return found
