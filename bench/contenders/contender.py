"""The interface of a contender, and the result of its runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Contender", "Ran", "Skipped"]


class Skipped(Exception):
    """A contender cannot run here; the text is the reason."""


@dataclass
class Ran:
    """A run's own report.

    how: the plan that it chose. shuffled: returns the bytes shuffled; it is not timed. steps: seconds by name, where
    the run measures several things.
    """

    how: str = ""
    shuffled: Callable[[], int] = lambda: 0
    more: dict[str, object] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)


class Contender(ABC):
    """One way to merge. Only ``run`` is timed."""

    @abstractmethod
    def start(self, scratch: Path) -> dict[str, str]:
        """Start the session or client of all runs, with a scratch directory; return versions by name.

        Raises Skipped.
        """

    def prepare(self, master: Path, state: Path) -> None:
        """Prepare the master below ``state`` for the merges, unless this has been done."""
        self.master = master

    def reset(self) -> None:  # noqa: B027  # most do not change their input
        """Undo what the last run did to the prepared state."""

    @abstractmethod
    def run(self, feed: Path, output: Path) -> Ran:
        """Merge the feed; when this returns, the result is on disk."""

    def export(self, output: Path, to: Path) -> Path | None:
        """Return a directory of files with the rows of the last result; if the result is a table, write them to ``to``.

        None: the run has no result.
        """
        return output

    def stop(self) -> None:  # noqa: B027  # most have nothing to stop
        """Stop what ``start`` has started."""
