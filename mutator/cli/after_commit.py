"""What a command does after its commit, and the message if a signal leaves some of it undone.

A signal cannot undo a commit. If it comes before the answer is known, it waits until then; the answer is printed, and
the message follows it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from mutator.errors.display import without_secrets
from mutator.errors.interrupts import commit_is_made, signals_after_commit_wait
from mutator.errors.quick_dataclass import dataclass


@dataclass
class AfterCommit:
    """A commit that is made. From now on a signal cannot undo it."""

    later: str = ""  # how to get files that are not written
    files: list[str] = field(default_factory=list)  # that were asked for, and are not written yet
    changes: str | None = None  # command that puts the changed rows into their directory; None: they are there
    compaction: str | None = None  # command of the compaction that follows; None: it is done, or was not asked for
    what: str = "merge"
    is_answered: bool = False  # the report is printed

    @property
    def is_complete(self) -> bool:
        """Whether everything that was asked for is there, perhaps without the printed report."""
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
        if self.is_complete and not self.is_answered:
            parts.append(": ".join(["its report was not printed", *([self.later] if self.later else [])]))
        return "; ".join(parts)


@contextmanager
def committing(arguments: argparse.Namespace, what: str) -> Iterator[None]:
    """Note the version of a table that the ``with`` block commits. what: a word for it, such as "compaction".

    The command has no files to write.
    """
    from mutator.table.commit import telling_commits

    def note(_: object) -> None:
        arguments.committed = AfterCommit(what=what)
        commit_is_made()

    with stopped_at_end(arguments), making_answer(arguments), telling_commits(note):
        yield


@contextmanager
def making_answer(arguments: argparse.Namespace) -> Iterator[None]:
    """Let a signal after a commit wait for the end of the ``with`` block, which makes the answer of a command."""
    with signals_after_commit_wait():
        yield
        arguments.has_answer = True


@contextmanager
def stopped_at_end(arguments: argparse.Namespace) -> Iterator[None]:
    """Go on after a signal that ends the ``with`` block, if the answer and everything that was asked for are there."""
    try:
        yield
    except KeyboardInterrupt:
        committed: AfterCommit | None = arguments.committed
        if committed is None or not committed.is_complete or not arguments.has_answer:
            raise
        arguments.is_stopped = True
