"""Figures of histories: the targets beside a table without history, by the number of versions, and beside others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from bench.figures import Outcome, Target, faster

__all__ = ["history_targets"]

APPLY = "mutator table apply"
PEERS, TIMES = ("dbt snapshot", "delta-rs type 2", "pyspark process"), 5
# A step, the step that it is compared with, and how many times as long as that it may take.
MOST = (
    ("apply of 0.1%, history", "apply of 0.1%, none", 1.5),
    ("apply of 5%, history", "apply of 5%, none", 1.6),
    ("scan now, history", "scan now, none", 1.1),
    ("scan then, history", "scan now, none", 1.5),
    ("apply to 20 versions", "apply to 5 versions", 1.2),
)


def history_targets(outcomes: Sequence[Outcome]) -> Iterator[Target]:
    """Yield the targets of histories with the measured values."""
    by_work = {outcome.workload.work: outcome for outcome in outcomes}
    for peer in PEERS:
        text = f"history: {APPLY} {TIMES} times as fast as {peer}"
        yield faster(by_work.get("history"), text, APPLY, (peer,), TIMES)
    beside = by_work.get("history beside none")
    runs = [run.steps for result in beside.results for run in result.runs] if beside else []
    for step, other, most in MOST:
        text = f"history, {step}: at most {most:g} times {other}"
        if not runs:
            yield Target(text, "not measured", None)
            continue
        ratio = median(run[step] / run[other] for run in runs)
        yield Target(text, f"{ratio:.2f} times", ratio <= most)
    text = "history, apply of 0.1%: below 0.5 s"
    seconds = median(run[MOST[0][0]] for run in runs) if runs else None
    yield Target(text, "not measured" if seconds is None else f"{seconds:.2f} s", seconds and seconds < 0.5)
