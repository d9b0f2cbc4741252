"""Figures of patches: the targets beside full upserts, and beside Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from bench.figures import RUN_ALIGNED, Outcome, Target, faster
from bench.patches import PATCHES, UPSERTS

__all__ = ["patch_targets"]

PEER, TIMES = "pyspark process", 5
MOST = {"run of": 1.3, "apply of": 1.4, "scan after": 1.05}  # times the same step with upserts


def patch_targets(outcomes: Sequence[Outcome]) -> Iterator[Target]:
    """Yield the targets of patches with the measured values."""
    by_work = {outcome.workload.work: outcome for outcome in outcomes}
    text = f"patches: {RUN_ALIGNED} {TIMES} times as fast as {PEER}"
    yield faster(by_work.get("patches"), text, RUN_ALIGNED, (PEER,), TIMES)
    beside = by_work.get("patches beside upserts")
    runs = [run.steps for result in beside.results for run in result.runs] if beside else []
    for step, most in MOST.items():
        text = f"patches, {step} patches: at most {most:g} times {step} upserts"
        if not runs:
            yield Target(text, "not measured", None)
            continue
        ratio = median(run[f"{step} {PATCHES}"] / run[f"{step} {UPSERTS}"] for run in runs)
        yield Target(text, f"{ratio:.2f} times", ratio <= most)
