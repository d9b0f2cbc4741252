"""What a contender does, and what its runs say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Contender", "Ran", "Skipped"]


class Skipped(Exception):
    """A contender cannot run here; the text says why."""


@dataclass
class Ran:
    """What a run says of itself: how it went, other figures, and how to ask for the bytes shuffled, off the clock."""

    how: str = ""
    shuffled: Callable[[], int] = lambda: 0
    more: dict[str, object] = field(default_factory=dict)


class Contender(ABC):
    """One way to merge. Only ``run`` is timed."""

    @abstractmethod
    def start(self, scratch: Path) -> dict[str, str]:
        """Start what outlives a run, with scratch space for it; return versions by name.

        Raises Skipped.
        """

    def prepare(self, master: Path, state: Path) -> None:
        """Make of the master what the merges need, below ``state``, or find it there."""
        self.master = master

    def reset(self) -> None:  # noqa: B027  # most leave their input alone
        """Undo what the last run did to the prepared state."""

    @abstractmethod
    def run(self, feed: Path, output: Path) -> Ran:
        """Merge the feed; when this returns, the result is on disk."""

    def export(self, output: Path, to: Path) -> Path | None:
        """Return a directory with the result of the last run as files of rows, made below ``to`` where it is a table.

        None: the run has no result.
        """
        return output

    def stop(self) -> None:  # noqa: B027  # most have nothing to end
        """End what ``start`` has started."""
