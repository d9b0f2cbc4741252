"""Compactions of the table of a workflow, while no feed file waits: no lock is held, and they never fail a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from mutator.config import Config
from mutator.errors import MutatorError
from mutator.errors.interrupts import Interrupted
from mutator.workflow.to_table.table_results import TableRunOutcome
from mutator.workflow.to_table.target import TargetTable

_AFTER_FAULT = 60.0  # seconds until the next try, at least


class Upkeep:
    """The compactions of one process. Each is a step of a few seconds, so that a feed file waits for one at most."""

    def __init__(self, config: Config, target: TargetTable, clock: Callable[[], float] = time.monotonic) -> None:
        """Compact nothing yet."""
        self._after, self._config, self._target, self._clock = config.compact_after, config, target, clock
        self._next = 0.0

    def steps(self, is_quiet: Callable[[], bool]) -> Iterator[Any]:
        """Yield the reports of compactions until nothing is left to do, or no longer quiet.

        Raises the exception of a compaction that failed; it is not tried again for a minute.
        """
        if self._after is None:
            return
        try:
            while self._clock() >= self._next and is_quiet():
                kept = self._target.keep(self._config)
                self._next = self._clock() + kept.seconds
                if kept.report is not None:
                    yield kept.report
        except Exception:
            self._next = self._clock() + max(self._after, _AFTER_FAULT)
            raise

    def applied(self) -> None:
        """Take note that a version was applied: the table may need a compaction once it is idle."""
        if self._after is not None:
            self._next = min(self._next, self._clock() + self._after)


def kept(outcome: TableRunOutcome, upkeep: Upkeep, is_quiet: Callable[[], bool]) -> TableRunOutcome:
    """Return the outcome of a run with the compactions that follow it. is_quiet: whether no feed file waits."""
    if outcome.stopped is not None:
        return outcome
    if outcome.version is not None:
        upkeep.applied()
    reports, fault, stopped = list[Any](), None, None
    try:
        for report in upkeep.steps(is_quiet):
            reports.append(report)  # those before an error count
    except MutatorError as found:
        fault = str(found)
    except Exception as found:  # noqa: BLE001  # a bug of the compaction must not look like one of the run
        fault = f"{type(found).__name__}: {found}"
    except Interrupted as stop:  # the run itself is done
        stopped = stop.number
        fault = "a signal stopped it; the next one goes on"
    return replace(outcome, compactions=tuple(reports), compaction_fault=fault, stopped=stopped)
