"""Compactions of the table of a workflow, while no feed file waits: no lock is held, and they never fail a run.

A look at incr/ can be repeated often: while nothing arrives, it is one listing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from mutator.errors import MutatorError
from mutator.errors.interrupts import Interrupted
from mutator.storage import entries_of
from mutator.workflow.directory.results import RunOutcome
from mutator.workflow.to_table.table_target import TableTarget

_AFTER_FAULT = 60.0  # seconds until the next try, at least


class Upkeep:
    """The compactions of one process. Each is a step of a few seconds, so that a feed file waits for one at most."""

    def __init__(self, target: TableTarget, clock: Callable[[], float] = time.monotonic) -> None:
        """Compact nothing yet."""
        self._target, self._config, self._clock = target, target.config, clock
        self._next = 0.0

    def seconds(self) -> float | None:
        """Return the seconds until a run would claim a feed file: 0 for now; None while there is no feed file."""
        if all(map(self._target.is_known, entries_of(self._target.base.at("incr")))):
            return None
        found = self._target.arrivals()
        return 0.0 if found.ready else found.seconds

    def steps(self) -> Iterator[Any]:
        """Yield the reports of compactions until nothing is left to do, or a feed file waits.

        Raises the exception of a compaction that failed; it is not tried again for a minute.
        """
        after = self._config.workflow.compact_after
        if after is None:
            return
        try:
            while self._clock() >= self._next and self.seconds() is None:
                kept = self._target.workflow_table.keep(self._config)
                self._next = self._clock() + kept.seconds
                if kept.report is not None:
                    yield kept.report
        except Exception:
            self._next = self._clock() + max(after, _AFTER_FAULT)
            raise

    def note(self, outcome: RunOutcome) -> None:
        """Take note of a run: if it applied a version, the table may need a compaction once it is idle."""
        if self._config.workflow.compact_after is not None and outcome.version is not None:
            self._next = min(self._next, self._clock() + self._config.workflow.compact_after)

    def after(self, outcome: RunOutcome) -> RunOutcome:
        """Return the outcome of a run with the compactions that follow it."""
        if outcome.stopped is not None:
            return outcome
        self.note(outcome)
        reports, fault, stopped = list[Any](), None, None
        try:
            for report in self.steps():
                reports.append(report)  # those before an error count
        except MutatorError as found:
            fault = str(found)
        except Exception as found:  # noqa: BLE001  # a bug of the compaction must not look like one of the run
            fault = f"{type(found).__name__}: {found}"
        except Interrupted as stop:  # the run itself is done
            stopped = stop.number
            fault = "a signal stopped it; the next one goes on"
        return replace(outcome, compactions=tuple(reports), compaction_fault=fault, stopped=stopped)

    def alone(self, last: RunOutcome) -> RunOutcome:
        """Return the outcome of compactions alone. last: of a run."""
        return self.after(replace(last, run="", version=None, claimed=(), skipped=(), recovered=(), report=None))
