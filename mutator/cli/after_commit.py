"""What a command does after its commit, and the message if a signal leaves some of it undone."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from mutator.errors.display import without_secrets


@dataclass
class AfterCommit:
    """A commit that is made. From now on a signal cannot undo it."""

    later: str = ""  # how to get files that are not written
    files: list[str] = field(default_factory=list)  # that were asked for, and are not written yet
    changes: str | None = None  # command that puts the changed rows into their directory; None: they are there
    compaction: str | None = None  # command of the compaction that follows; None: it is done, or was not asked for
    what: str = "merge"

    @property
    def is_complete(self) -> bool:
        """Whether everything that was asked for is there."""
        return not self.files and self.changes is None and self.compaction is None

    def text(self) -> str:
        """Return what is committed and what is missing, with the way to get it, as a part of a message."""
        parts = [f"the {self.what} was committed"]
        if self.files:
            verb = "was" if len(self.files) == 1 else "were"
            names = " and ".join(map(without_secrets, self.files))
            parts.append(f"{names} {verb} not written: {self.later}")
        if self.changes is not None:
            parts.append(f"put its changed rows into their directory with: {self.changes}")
        if self.compaction is not None:
            parts.append(f"the compaction after it may be missing: {self.compaction}")
        return "; ".join(parts)


def note_commit(arguments: argparse.Namespace, what: str, _: object = None) -> None:
    """Note that a command without files to write has committed. what: compaction or restore. _: the version."""
    arguments.committed = AfterCommit(what=what)
