"""Figures of versioned tables: the targets of applies, scans, lookups and memory, and the bytes that a version adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.figures import Outcome, Result, Target, faster, seconds_text, within

__all__ = ["table_remarks", "table_targets"]

TABLE, REWRITE, DELTA_RS = "mutator table", "mutator rewrite", "delta-rs merge"
SPARK = ("delta vectors", "iceberg merge-on-read", "hudi merge-on-read")
PEERS = (DELTA_RS, "pyiceberg upsert", "lance merge_insert", "ducklake merge", *SPARK)
# Most seconds of an apply, and how many times faster it should be than others, by work.
APPLIES = {
    "table 100": ("100 rows", 0.15, {DELTA_RS: 20}),
    "table 0.1%": ("0.1 %", 0.4, {REWRITE: 10, **dict.fromkeys(PEERS, 1.5), DELTA_RS: 10}),
    "table 5%": ("5 %", 2, {DELTA_RS: 2, **dict.fromkeys(SPARK, 5)}),
}
# A scan, the step that it is compared with, and the most times the seconds of that.
SCANS = (
    ("scan of 10 versions of 0.1 %", "scan of 1 version", 1.2),
    ("scan of 100 versions of 0.1 %", "scan of 1 version", 1.5),
    ("scan of 10 versions of 5 %", "plain rows of 10 versions of 5 %", 2.2),
    ("scan of 10 versions of 5 %, compacted", "plain rows of 10 versions of 5 %", 1.1),
)
# A way to read a version on Spark, the work, and the most times the seconds of plain Parquet.
ON_SPARK = (
    ("Table.dataframe", "count", 3.5),
    ("Table.dataframe", "group-by", 2),
    ('format("mutator")', "group-by", 4),
)
COMPACT = "mutator compact"
REWRITES = ("spark sql rewrite", "spark sql merge and rewrite", "delta optimize", "iceberg rewrite_data_files")
GET, MOST_GET = "get a key of 1 version", 0.01
OPEN, MOST_OPEN = "open: 10,000 versions, 100,000 files", 0.3
MANY_FILES, MOST_MEMORY = " 1,000,000 files", 1.5e9


def table_targets(outcomes: Sequence[Outcome]) -> Iterator[Target]:
    """Yield the targets of versioned tables with the measured values."""
    by_work = {outcome.workload.work: outcome for outcome in outcomes}
    for work, (share, most, times) in APPLIES.items():
        outcome = by_work.get(work)
        yield within(outcome, f"table, apply of {share}", TABLE, most)
        for name, factor in times.items():
            yield faster(
                outcome, f"table, apply of {share}: {factor:g} times as fast as {name}", TABLE, (name,), factor
            )
    for name in REWRITES:
        text = f"table, compaction after 10 versions of 5 %: twice as fast as {name}"
        yield faster(by_work.get("table compaction"), text, COMPACT, (name,), 2)
    steps = _steps(by_work.get("table reads"))
    for scan, base, most in SCANS:
        yield _step_times(steps, scan, base, most)
    on_spark = _steps(by_work.get("table on Spark"))
    for way, work, most in ON_SPARK:
        yield _step_times(on_spark, f"{work}, {way}", f"{work}, plain Parquet", most)
    yield _step_within(steps, GET, MOST_GET)
    files = by_work.get("table files")
    yield _step_within(_steps(files), OPEN, MOST_OPEN)
    yield _memory(files)


def table_remarks(outcome: Outcome) -> list[str]:
    """Return the steps of a run, and the bytes that versions added, as sentences."""
    return [line for result in outcome.results for line in (*_step_lines(result), *_byte_lines(result))]


def _step_lines(result: Result) -> Iterator[str]:
    peaks = result.more.get("peaks", {})
    for name, seconds in result.steps.items():
        line = f"{name}: {seconds_text(seconds)} s"
        line += f", peak memory {peaks[name] / 1e6:,.0f} MB" if name in peaks else ""
        ratios = (f"{seconds / result.steps[base]:.2f} times {base}" for scan, base, _ in SCANS if scan == name)
        yield ", ".join((line, *ratios))


def _byte_lines(result: Result) -> Iterator[str]:
    for added in result.more.get("versions", ()):
        parts = [
            _per("data", added["data"], added["rows"], "new row"),
            _per("key index", added["key index"], added["rows"], "new row"),
            _per("version index", added["version index"], added["hidden rows"], "hidden row"),
            _per("tombstones and their key index", added["tombstone bytes"], added["tombstones"], "tombstone"),
            f"log entry {added['log entry']:,} bytes",
        ]
        yield f"bytes of version {added['version']}, {added['mutations']:,} mutations: {', '.join(filter(None, parts))}"
    if checkpoint := result.more.get("checkpoint"):
        parts = [
            _per("files", checkpoint["bytes"], checkpoint["files"], "live file"),
            _per("masks", checkpoint["mask bytes"], checkpoint["hidden rows"], "hidden row"),
        ]
        yield f"bytes of the checkpoint of version {checkpoint['version']}: {', '.join(filter(None, parts))}"


def _per(name: str, size: int, count: int, unit: str) -> str:
    """Return a size for each of the things that it belongs to; an empty string without any."""
    return f"{name} {size / count:.1f} for each of {count:,} {unit}{'s' * (count != 1)}" if count else ""


def _steps(outcome: Outcome | None) -> Mapping[str, float]:
    return {} if outcome is None else {name: time for one in outcome.results for name, time in one.steps.items()}


def _step_times(steps: Mapping[str, float], step: str, base: str, most: float) -> Target:
    text = f"table, {step}: at most {most:g} times {base}"
    if step not in steps:
        return Target(text, "not measured", None)
    ratio = steps[step] / steps[base]
    measured = f"{ratio:.2f} times ({seconds_text(steps[step])} s, {seconds_text(steps[base])} s)"
    return Target(text, measured, ratio <= most)


def _step_within(steps: Mapping[str, float], name: str, most: float) -> Target:
    text = f"table, {name}: at most {most:g} s"
    if name not in steps:
        return Target(text, "not measured", None)
    return Target(text, f"{seconds_text(steps[name])} s", steps[name] <= most)


def _memory(outcome: Outcome | None) -> Target:
    text = f"table, memory of the driver for{MANY_FILES}: below {MOST_MEMORY / 1e9:g} GB"
    peaks: dict[str, Any] = {} if outcome is None else outcome.results[0].more.get("peaks", {})
    found = [peak for name, peak in peaks.items() if name.endswith(MANY_FILES)]
    if not found:
        return Target(text, "not measured", None)
    return Target(text, f"{max(found) / 1e9:.2f} GB", max(found) < MOST_MEMORY)
