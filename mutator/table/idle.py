"""Compact a table while nobody applies anything to it, a few buckets at a time."""

from __future__ import annotations

import time
from datetime import datetime

from mutator.config import Config
from mutator.dataset.commits import COMPACT, WITHOUT_ROWS
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors.quick_dataclass import dataclass
from mutator.table.apply import OpenRunner
from mutator.table.compact import CompactionDone, compact_table
from mutator.table.compact_choice import Need

_PAUSE = 60.0  # seconds, at least, until an idle table in which nothing is to be done is looked at again


@dataclass(frozen=True)
class IdleStep:
    """The result of a step."""

    done: CompactionDone | None  # None: there is no new version
    seconds: float  # until the next step may have something to do


def compact_if_idle(snapshot: Snapshot, config: Config, open_runner: OpenRunner) -> IdleStep:
    """Compact the buckets of one task of those that need it, if no version was applied for ``compact.after``.

    snapshot: the newest one. Raises the errors of the catalogue; then there is no new version.
    """
    after = config.workflow.compact_after
    assert after is not None
    left = after - _age(snapshot)
    if left > 0:
        return IdleStep(None, left)
    done = compact_table(snapshot, config, Need(tasks=1), open_runner)
    return IdleStep(done, 0.0) if done.version is not None else IdleStep(None, max(after, _PAUSE))


def _age(snapshot: Snapshot) -> float:
    """Return how many seconds ago the newest version changed rows. If it is a compaction, the table was idle before."""
    version, log = snapshot.version, TableLog(snapshot.table)
    while version.action in WITHOUT_ROWS:
        version = log.read(version.number - 1)
    if version.action == COMPACT:
        return float("inf")
    return time.time() - datetime.fromisoformat(version.committed).timestamp()
