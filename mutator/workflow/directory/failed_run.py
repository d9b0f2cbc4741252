"""The last run of a base that failed: when, why, and with which feed files. The next run that succeeds forgets it.

The feed files of a failed run are back in incr/, so without this note they look as those that have just arrived. It is
written as well as the storage lets it: a run ends as it would without the note.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime

from mutator.dataset import checksummed_json
from mutator.errors import MutatorError
from mutator.errors.display import one_line, without_secrets
from mutator.errors.exceptions import BUSY
from mutator.errors.parts import paths_in
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.file_names import base_name
from mutator.storage import read_if_exists
from mutator.workflow.directory.paths import Base, open_base

_FORMAT = "mutator failed run"
_NAMES, _CHARACTERS = 100, 2000  # that a note has at most
_LINE_END = re.compile(r"\n\s*")
# Kinds of errors after which nobody needs to do anything about the feed files: another run merges them, or the next
# command completes this one.
_SETTLED = {*BUSY, "base.lost", "table.given_up", "table.outrun", "publish.later", "commit.uncertain"}
_OF_THE_BASE = ("base.", "manifest.")  # first parts of kinds: the status looks for such damage itself


@dataclass(frozen=True)
class FailedRun:
    """A run that failed."""

    run: str  # its ID; empty: the settings were refused before it had one
    failed: str  # when: ISO 8601, in UTC
    kind: str  # of its error
    message: str
    feed: tuple[str, ...]  # names of the first feed files that the message names; if it names none, of all claimed ones
    files: int  # number of all of these

    def problem(self) -> str:
        """Return what happened, as one of the problems of a base."""
        return f"the last run failed at {self.failed}: {self.message}"


@contextmanager
def noted(base: Base, run: str, claimed: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Note the error that ends a ``with`` block; without one, forget the last note.

    claimed: returns the names of the feed files that the run has claimed.
    """
    try:
        yield
    except MutatorError as fault:
        if _needs_somebody(fault):
            _note(base, run, fault.kind, fault.message, claimed())
        raise
    except Exception as fault:
        # Its text may have values of rows.
        _note(base, run, "bug", f"a bug in mutator: {type(fault).__name__}", claimed())
        raise
    with suppress(MutatorError):
        if base.storage.stat(_path(base)) is not None:
            base.storage.remove(_path(base))


def note_refused(given: str, fault: MutatorError) -> None:
    """Note the error of settings or options with which no run could begin, if the path has a base with incr/."""
    with suppress(MutatorError):
        base = open_base(given)
        if _needs_somebody(fault) and base.storage.stat(base.at("incr")) is not None:
            base.storage.make_directory(base.at("_mutator"))  # of the first run
            _note(base, "", fault.kind, fault.message, ())


def failed_run(base: Base) -> FailedRun | None:
    """Return the last run, if it failed. A damaged note is forgotten. Raises StorageError."""
    data = read_if_exists(_path(base))
    if data is None:
        return None
    try:
        members = checksummed_json.parse(data, _FORMAT, 1)
        names = ("run", "failed", "kind", "message", "files")
        return FailedRun(feed=tuple(members["feed"]), **{name: members[name] for name in names})
    except (KeyError, TypeError, ValueError):
        return None


def _needs_somebody(fault: MutatorError) -> bool:
    """Return whether an error is noted."""
    return fault.kind not in _SETTLED and not fault.kind.startswith(_OF_THE_BASE)


def _note(base: Base, run: str, kind: str, message: str, claimed: Sequence[str]) -> None:
    text = one_line(_LINE_END.sub(" ", without_secrets(base.said(message))))
    found = set(map(base_name, paths_in(message)))
    feed = [name for name in claimed if one_line(name) in found] or list(claimed)
    text = text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    note = FailedRun(run, now, kind, text, tuple(feed[:_NAMES]), len(feed))
    with suppress(MutatorError):
        base.storage.replace(_path(base), checksummed_json.dump(_FORMAT, 1, asdict(note)))


def _path(base: Base) -> str:
    return base.at("_mutator", "failed_run.json")
