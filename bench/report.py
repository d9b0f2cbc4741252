"""Write the figures as a table for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from bench.contenders.catalogue import Entry, find
from bench.dialect_figures import dialect_targets
from bench.figures import Outcome, Result, remarks, seconds_text, targets
from bench.history_figures import history_targets
from bench.layout import DIALECTS
from bench.overwrite_figures import overwrite_targets
from bench.patch_figures import patch_targets
from bench.table_figures import table_remarks, table_targets
from bench.traffic import WAYS, Moved, Traffic, traffic_targets

__all__ = ["as_json", "markdown", "table", "target_lines", "traffic_table"]

# By the form of a workload: the contenders whose times divide all others; otherwise aligned and shuffle.
BASES: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("partitions", "partitions parquet"), ("mutator partition scope", "mutator table scope")
)
BASES |= {"table": ("mutator table", "mutator rewrite"), "table compaction": ("mutator compact",)}
BASES |= {"table reads": (), "table files": (), "table on Spark": ()}
BASES |= {"small": ("mutator run aligned", "mutator run raw"), "commands": ("python alone", "python with pyarrow")}
BASES |= dict.fromkeys((f"dialects {kind}" for kind in DIALECTS), ("mutator run aligned", "mutator run raw"))
BASES |= {"dialects table": ("mutator table apply",)}
BASES |= {"patches": ("mutator run aligned", "mutator run raw"), "patches beside upserts": ()}
BASES |= {"history": ("mutator table apply",), "history beside none": ()}
BASES |= dict.fromkeys(("tables", "single runs"), ("mutator run-many", "mutator single runs"))
NOTES = """\
Median: seconds from input paths to the result on disk, of contenders that ran in turn on the same bytes.
Rows/s: rows of master and feed together. Shuffled: from Spark's status store; `-` without Spark.
Peak memory: anonymous memory of all processes of the contender (a JVM keeps its heap from run to run).
Worker: the largest single Python worker."""
TRAFFIC_HEAD = ("contender", "writes", "reads", "mutator writes at", "mutator reads at", "how")
TRAFFIC_NOTES = """\
Writes, reads: the same bytes divided by the median of the seconds; each contender reads a file that another wrote.
At: mutator's speed divided by that of this client; the median of the rounds."""


def table(outcome: Outcome) -> str:
    """Return one workload as aligned columns."""
    rows = [_head(outcome), *(_cells(outcome, result) for result in outcome.results)]
    return "\n".join([_aligned(f"{outcome.workload.name} rows", rows), *_remarks(outcome)])


def traffic_table(traffic: Traffic) -> str:
    """Return the results of a server's contenders as aligned columns."""
    return _aligned(traffic.name, [TRAFFIC_HEAD, *(_traffic_cells(traffic, result) for result in traffic.results)])


def target_lines(outcomes: Sequence[Outcome], traffics: Sequence[Traffic] = ()) -> list[str]:
    """Return the targets with the measured values."""
    words = {True: "reached", False: "missed", None: "open"}
    kinds = (
        (targets, table_targets, overwrite_targets, dialect_targets, patch_targets, history_targets) if outcomes else ()
    )
    found = [*(target for of_kind in kinds for target in of_kind(outcomes)), *traffic_targets(traffics)]
    return [f"{words[target.reached]}: {target.text}: {target.measured}" for target in found]


def markdown(outcomes: Sequence[Outcome], machine: Mapping[str, str], traffics: Sequence[Traffic] = ()) -> str:
    """Return everything as a Markdown document."""
    lines = ["# Benchmark", "", *(f"- {name}: {value}" for name, value in machine.items())]
    versions = _versions([*outcomes, *traffics])
    lines += ["- versions: " + ", ".join(f"{name} {value}" for name, value in versions.items())]
    for outcome in outcomes:
        head = (*_head(outcome), "what differs")
        lines += [
            "",
            f"## {outcome.workload.name} rows",
            "",
            _row(head),
            _row(["---", *["---:"] * (len(head) - 3), "---", "---"]),
        ]
        lines += [_row((*_cells(outcome, result), _entry(outcome, result).differs)) for result in outcome.results]
        lines += ["", *(f"- {line}" for line in _remarks(outcome))] if _remarks(outcome) else []
    lines += ["", *(f"{line}  " for line in NOTES.splitlines())] if outcomes else []
    for traffic in traffics:
        lines += ["", f"## {traffic.name}", "", _row(TRAFFIC_HEAD), _row(["---", *["---:"] * 4, "---"])]
        lines += [_row(_traffic_cells(traffic, result)) for result in traffic.results]
    lines += ["", *(f"{line}  " for line in TRAFFIC_NOTES.splitlines())] if traffics else []
    lines += ["", "## Targets", "", *(f"- {line}" for line in target_lines(outcomes, traffics))]
    return "\n".join(lines) + "\n"


def as_json(outcomes: Sequence[Outcome], machine: Mapping[str, str], traffics: Sequence[Traffic] = ()) -> str:
    """Return the raw figures."""
    document = {
        "machine": dict(machine),
        "outcomes": [asdict(outcome) for outcome in outcomes],
        "traffic": [asdict(traffic) for traffic in traffics],
    }
    return json.dumps(document, indent=1) + "\n"


def _aligned(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Return rows as columns: the first and the last aligned left, the others right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [title]
    for row in rows:
        first, *middle, last = (
            cell.ljust(width) if column in (0, len(widths) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join((first, *middle, last)).rstrip())
    return "\n".join(lines)


def _traffic_cells(traffic: Traffic, result: Moved) -> tuple[str, ...]:
    how = find(result.name).differs if result.out is None else f"{result.out}: {result.why}"
    speeds = [f"{speed:,.0f} MiB/s" if (speed := traffic.speed(result, way)) else "-" for way in WAYS]
    shares = [f"{share:.0%}" if (share := traffic.share(result, way)) else "-" for way in WAYS]
    return (result.name, *speeds, *shares, how)


def _cells(outcome: Outcome, result: Result) -> tuple[str, ...]:
    if result.seconds is None:
        return (result.name, *["-"] * (len(_head(outcome)) - 2), f"{result.out}: {result.why}")
    spark = _entry(outcome, result).jvm
    how = result.how if result.out is None else f"{result.how}; then {result.out}: {result.why}"
    return (
        result.name,
        seconds_text(result.seconds),
        *(_ratio(result.seconds, outcome.seconds(base)) for base in _bases(outcome)),
        f"{outcome.rows_per_second(result):,.0f}",
        _size(result.shuffled) if spark else "-",
        _size(result.memory),
        _size(result.worker) if result.worker else "-",
        how,
    )


def _bases(outcome: Outcome) -> tuple[str, ...]:
    return BASES.get(outcome.workload.form, ("mutator aligned", "mutator shuffle"))


def _head(outcome: Outcome) -> tuple[str, ...]:
    ratios = (f"× {base.removeprefix('mutator ')}" for base in _bases(outcome))
    return ("contender", "median", *ratios, "rows/s", "shuffled", "peak memory", "worker", "how")


def _remarks(outcome: Outcome) -> list[str]:
    return [*remarks(outcome), *table_remarks(outcome)]


def _entry(outcome: Outcome, result: Result) -> Entry:
    return find(result.name, outcome.workload.form)


def _ratio(seconds: float, base: float | None) -> str:
    return f"{seconds / base:.2f}" if base else "-"


def _size(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _versions(outcomes: Sequence[Outcome | Traffic]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for outcome in outcomes:
        for result in outcome.results:
            for name, value in result.versions.items():
                found.setdefault(name, set()).add(value)
    return {name: " and ".join(sorted(values)) for name, values in sorted(found.items())}
