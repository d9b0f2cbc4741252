"""Figures of change files: the targets of runs, of each kind, and of an apply to a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.figures import POLARS, RUN_ALIGNED, Outcome, Target, faster, within
from bench.layout import DIALECTS

__all__ = ["dialect_targets"]

PEERS = {"pyspark process": 5, POLARS: 1.5, "duckdb process": 1.5}
APPLY, MOST_OF_APPLY = "mutator table apply", 2


def dialect_targets(outcomes: Sequence[Outcome]) -> Iterator[Target]:
    """Yield the targets of change files with the measured values."""
    by_work = {outcome.workload.work: outcome for outcome in outcomes}
    for kind in DIALECTS:
        for peer, times in PEERS.items():
            text = f"change files, {kind}: {RUN_ALIGNED} {times:g} times as fast as {peer}"
            yield faster(by_work.get(f"dialects {kind}"), text, RUN_ALIGNED, (peer,), times)
    yield within(by_work.get("dialects table"), "change files, 100,000 messages", APPLY, MOST_OF_APPLY)
