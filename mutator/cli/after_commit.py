"""The files that a command writes after the commit of its merge, and the message if a signal leaves some unwritten."""

from __future__ import annotations

from dataclasses import dataclass, field

from mutator.errors.display import without_secrets


@dataclass
class AfterCommit:
    """A merge that is committed. From now on a signal cannot undo it."""

    later: str  # how to get files that are not written
    files: list[str] = field(default_factory=list)  # that were asked for, and are not written yet
    changes: str | None = None  # command that puts the changed rows into their directory; None: they are there

    @property
    def is_complete(self) -> bool:
        """Whether everything that was asked for is there."""
        return not self.files and self.changes is None

    def text(self) -> str:
        """Return what is committed and what is missing, with the way to get it, as a part of a message."""
        parts = ["the merge was committed"]
        if self.files:
            verb = "was" if len(self.files) == 1 else "were"
            names = " and ".join(map(without_secrets, self.files))
            parts.append(f"{names} {verb} not written: {self.later}")
        if self.changes is not None:
            parts.append(f"put its changed rows into their directory with: {self.changes}")
        return "; ".join(parts)
