"""Draw the medians as horizontal bars, one panel per workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.contenders.catalogue import find
from bench.figures import TABLE_FORMATS, Outcome, Result

__all__ = ["plot"]

OURS, SPARK, TABLES, ALONE = "#1b6ca8", "#9aa5b1", "#d0b787", "#a3b899"
LEGEND = {"mutator": OURS, "Spark SQL": SPARK, "without Spark": ALONE, "tables (Parquet)": TABLES}


def plot(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the PNG. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    shown = [outcome for outcome in outcomes if any(result.runs for result in outcome.results)]
    if not shown:
        return
    heights = [sum(bool(result.runs) for result in outcome.results) + 1.5 for outcome in shown]
    figure = Figure(figsize=(8, 0.28 * sum(heights) + 0.6), layout="constrained")
    panels = figure.subplots(len(shown), squeeze=False, height_ratios=heights)[:, 0]
    for panel, outcome in zip(panels, shown, strict=True):
        ran = sorted((result for result in outcome.results if result.runs), key=lambda result: -result.seconds)
        bars = panel.barh(
            [result.name for result in ran], [r.seconds for r in ran], color=[_colour(outcome, r) for r in ran]
        )
        panel.bar_label(bars, [f"{result.seconds:.1f} s" for result in ran], padding=3, fontsize=8)
        panel.set_title(f"{outcome.workload.name} rows", loc="left", fontsize=10)
        panel.tick_params(left=False, bottom=False, labelbottom=False, labelsize=8)
        panel.spines[:].set_visible(False)
        panel.margins(x=0.1)
    handles = [Patch(color=colour, label=label) for label, colour in LEGEND.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=150, facecolor="white")


def _colour(outcome: Outcome, result: Result) -> str:
    entry = find(result.name, outcome.workload.form)
    if entry.ours:
        return OURS
    if entry.name.startswith("spark sql"):
        return SPARK
    return TABLES if entry.name in TABLE_FORMATS else ALONE
