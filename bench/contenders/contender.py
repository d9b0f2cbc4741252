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
    """A run's own report: the plan it chose, other figures, and a function that returns the bytes shuffled, untimed."""

    how: str = ""
    shuffled: Callable[[], int] = lambda: 0
    more: dict[str, object] = field(default_factory=dict)


class Contender(ABC):
    """One way to merge. Only ``run`` is timed."""

    @abstractmethod
    def start(self, scratch: Path) -> dict[str, str]:
        """Start what is needed by all runs, with scratch space; return versions by name.

        Raises Skipped.
        """

    def prepare(self, master: Path, state: Path) -> None:
        """Prepare the master for the merges below ``state``, unless it is there."""
        self.master = master

    def reset(self) -> None:  # noqa: B027  # most do not change their input
        """Undo what the last run did to the prepared state."""

    @abstractmethod
    def run(self, feed: Path, output: Path) -> Ran:
        """Merge the feed; when this returns, the result is on disk."""

    def export(self, output: Path, to: Path) -> Path | None:
        """Return a directory with the result of the last run as files of rows, made below ``to`` if it is a table.

        None: the run has no result.
        """
        return output

    def stop(self) -> None:  # noqa: B027  # most have nothing to end
        """Stop what ``start`` has started."""
