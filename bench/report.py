"""Figures as a table for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from bench.contenders.catalogue import find
from bench.figures import Outcome, Result, targets

__all__ = ["as_json", "markdown", "table"]

HEAD = ("contender", "median", "× aligned", "× shuffle", "rows/s", "shuffled", "peak memory", "worker", "how")
NOTES = """\
Median: seconds from paths given to result on disk, of the runs of one invocation, in turn, on the same bytes.
Rows/s: rows of master and feed together. Shuffled: as Spark's status store has it; `-` without Spark.
Peak memory: anonymous memory of all processes of the contender (a JVM keeps its heap from run to run).
Worker: the largest single Python worker."""


def table(outcome: Outcome) -> str:
    """Return one workload as aligned columns."""
    rows = [HEAD, *(_cells(outcome, result) for result in outcome.results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [f"{outcome.workload.name} rows"]
    for row in rows:
        first, *middle, last = (
            cell.ljust(width) if column in (0, len(HEAD) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join((first, *middle, last)).rstrip())
    return "\n".join(lines)


def target_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the targets, each with what was measured."""
    words = {True: "reached", False: "missed", None: "open"}
    return [f"{words[target.reached]}: {target.text}: {target.measured}" for target in targets(outcomes)]


def markdown(outcomes: Sequence[Outcome], machine: Mapping[str, str]) -> str:
    """Return everything as a Markdown document."""
    lines = ["# Benchmark", "", *(f"- {name}: {value}" for name, value in machine.items())]
    lines += ["- versions: " + ", ".join(f"{name} {value}" for name, value in _versions(outcomes).items())]
    for outcome in outcomes:
        head = (*HEAD, "what differs")
        lines += ["", f"## {outcome.workload.name} rows", "", _row(head), _row(["---", *["---:"] * 7, "---", "---"])]
        lines += [_row((*_cells(outcome, result), find(result.name).differs)) for result in outcome.results]
    lines += ["", *(f"{line}  " for line in NOTES.splitlines())]
    lines += ["", "## Targets", "", *(f"- {line}" for line in target_lines(outcomes))]
    return "\n".join(lines) + "\n"


def as_json(outcomes: Sequence[Outcome], machine: Mapping[str, str]) -> str:
    """Return the raw figures."""
    document = {"machine": dict(machine), "outcomes": [asdict(outcome) for outcome in outcomes]}
    return json.dumps(document, indent=1) + "\n"


def _cells(outcome: Outcome, result: Result) -> tuple[str, ...]:
    if result.seconds is None:
        return (result.name, *["-"] * 7, f"{result.out}: {result.why}")
    spark = find(result.name).jvm
    how = result.how if result.out is None else f"{result.how}; then {result.out}: {result.why}"
    return (
        result.name,
        f"{result.seconds:.2f}",
        _ratio(result.seconds, outcome.seconds("mutator aligned")),
        _ratio(result.seconds, outcome.seconds("mutator shuffle")),
        f"{outcome.rows_per_second(result):,.0f}",
        _size(result.shuffled) if spark else "-",
        _size(result.memory),
        _size(result.worker) if result.worker else "-",
        how,
    )


def _ratio(seconds: float, base: float | None) -> str:
    return f"{seconds / base:.2f}" if base else "-"


def _size(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _versions(outcomes: Sequence[Outcome]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for outcome in outcomes:
        for result in outcome.results:
            for name, value in result.versions.items():
                found.setdefault(name, set()).add(value)
    return {name: " and ".join(sorted(values)) for name, values in sorted(found.items())}
