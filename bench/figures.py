"""Raw results, and the figures computed from them: medians, ratios, targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.digest import Digest
from bench.workload import SIZES, Workload

__all__ = [
    "POLARS",
    "RUN_ALIGNED",
    "SPARK_SQL",
    "TABLE_FORMATS",
    "Outcome",
    "Result",
    "Run",
    "Target",
    "faster",
    "remarks",
    "seconds_text",
    "targets",
    "unequal",
    "within",
]

SPARK_SQL = (
    "spark sql window",
    "spark sql max_by",
    "spark sql anti-join",
    "spark sql left join",
    "spark sql full join",
)
TABLE_FORMATS = ("delta-rs merge", "pyiceberg upsert", "delta merge", "iceberg merge", "hudi merge")
FULL_SHUFFLE = SPARK_SQL[:2]
# By workload: our contender, theirs, and the text of the target.
THROUGHPUT = {
    "bridge export": ("bridge export", "spark sql text", "export no slower than Spark SQL writing CSV"),
    "bridge import": ("bridge import", "spark sql orc", "import no slower than Spark SQL reading CSV"),
}
EQUAL_MEMORY = 1.1  # times, because samples and allocators are not exact
PARTITION_SCOPE, TABLE_SCOPE = "mutator partition scope", "mutator table scope"
# The reach of a plan on partitions, and how many times faster mutator should be.
REACHES = {
    "whole": ("that rewrites all partitions", 20),
    "touched": ("that reads all partitions", 20),
    "named": ("that names the partitions", 3),
    "catalogue": ("that names them to a catalogue", 3),
}
RUN_MANY, SINGLE_RUNS = "mutator run-many", "mutator single runs"
RUN_RAW, RUN_ALIGNED, POLARS = "mutator run raw", "mutator run aligned", "polars process"
LOOPS = ("spark sql loop window", "spark sql loop anti-join")


@dataclass(frozen=True)
class Run:
    """One timed run; all figures except times are in bytes. steps: seconds by name."""

    seconds: float
    shuffled: int
    memory: int
    worker: int
    steps: dict[str, float] = field(default_factory=dict)


@dataclass
class Result:
    """All runs of one contender on one workload, or the reason why it did not run."""

    name: str
    runs: list[Run] = field(default_factory=list)
    how: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    digest: Digest | None = None
    out: str | None = None  # skipped, failed, stopped
    why: str = ""

    @property
    def seconds(self) -> float | None:
        """Return the median of the times."""
        return median(run.seconds for run in self.runs) if self.runs else None

    @property
    def steps(self) -> dict[str, float]:
        """Return the medians of the times of the steps."""
        names = dict.fromkeys(name for run in self.runs for name in run.steps)
        return {name: median(run.steps[name] for run in self.runs if name in run.steps) for name in names}

    @property
    def shuffled(self) -> int:
        """Return the largest number of bytes that a run shuffled."""
        return max((run.shuffled for run in self.runs), default=0)

    @property
    def memory(self) -> int:
        """Return the peak memory of all its processes together."""
        return max((run.memory for run in self.runs), default=0)

    @property
    def worker(self) -> int:
        """Return the peak memory of the largest Python worker."""
        return max((run.worker for run in self.runs), default=0)


@dataclass(frozen=True)
class Outcome:
    """A workload and the results of its contenders."""

    workload: Workload
    results: tuple[Result, ...]

    def seconds(self, name: str) -> float | None:
        """Return the median time of a contender; None if it did not run."""
        return next((result.seconds for result in self.results if result.name == name), None)

    def best(self, names: Sequence[str]) -> float | None:
        """Return the lowest median of several contenders."""
        return min((seconds for name in names if (seconds := self.seconds(name)) is not None), default=None)

    def rows_per_second(self, result: Result) -> float | None:
        """Return how many rows of master and feed a contender merged per second."""
        rows = self.workload.rows + self.workload.mutations
        return rows / result.seconds if result.seconds else None


@dataclass(frozen=True)
class Target:
    """A target, the measured value, and whether it is reached (None: not measured)."""

    text: str
    measured: str
    reached: bool | None


def unequal(results: Sequence[Result]) -> dict[Digest, list[str]]:
    """Return the contenders by the digest of their results; empty if all digests are equal."""
    found: dict[Digest, list[str]] = {}
    for result in results:
        if result.digest is not None:
            found.setdefault(result.digest, []).append(result.name)
    return found if len(found) > 1 else {}


def targets(outcomes: Sequence[Outcome]) -> list[Target]:
    """Compare the figures with the targets."""
    by_work = {outcome.workload.work: outcome for outcome in outcomes if outcome.workload.only is None}
    aligned, shuffle = "mutator aligned", "mutator shuffle"
    found = [
        faster(by_work.get("5%"), "5 %: aligned 4 times as fast as the best Spark SQL plan", aligned, SPARK_SQL, 4),
        faster(by_work.get("5%"), "5 %: aligned no slower than Polars alone", aligned, ("polars",), 1),
        faster(
            by_work.get("5%"),
            "5 %: shuffle twice as fast as Spark SQL's best plan with a full shuffle (window, max_by)",
            shuffle,
            FULL_SHUFFLE,
            2,
        ),
        faster(by_work.get("100"), "100: aligned 6 times as fast as the best Spark SQL plan", aligned, SPARK_SQL, 6),
        faster(by_work.get("50%"), "50 %: aligned twice as fast as the best Spark SQL plan", aligned, SPARK_SQL, 2),
    ]
    parquet = by_work.get("parquet")
    best = "Parquet, 5 %: aligned 3 times as fast as the best Spark SQL plan on Parquet"
    found.append(faster(parquet, best, aligned, SPARK_SQL, 3))
    for name in TABLE_FORMATS:
        found.append(faster(parquet, f"Parquet, 5 %: aligned 5 times as fast as {name}", aligned, (name,), 5))
    for work, (ours, theirs, text) in THROUGHPUT.items():
        found.append(faster(by_work.get(work), f"bridge: {text}", ours, (theirs,), 1))
    scaling = sorted((o for o in outcomes if o.workload.work == "scaling"), key=lambda o: o.workload.rows)
    for name in (aligned, shuffle):
        found += _scaling(name, scaling)
    found += [*_partition_targets(by_work), *_partition_scaling(outcomes), *_table_targets(by_work)]
    return [*found, *_small_targets(by_work)]


def _partition_targets(by_work: dict[str, Outcome]) -> Iterator[Target]:
    for work, title in (("partitions", "partitions"), ("partitions parquet", "partitions, Parquet")):
        for reach, (text, times) in REACHES.items():
            plans = [f"spark sql {reach} {plan}" for plan in ("window", "left join")]
            text = f"{title}: partition scope {times} times as fast as the best Spark SQL plan {text}"
            yield faster(by_work.get(work), text, PARTITION_SCOPE, plans, times)


def _partition_scaling(outcomes: Sequence[Outcome]) -> Iterator[Target]:
    text = "10 times the partitions, the same feed, partition scope: at most 1.5 times the time"
    pair = sorted((o for o in outcomes if o.workload.work == "partition-scaling"), key=lambda o: o.workload.parts)
    few, many = [outcome.seconds(PARTITION_SCOPE) for outcome in pair] if len(pair) == 2 else (None, None)
    if few is None or many is None:
        yield Target(text, "not measured", None)
    else:
        yield Target(text, f"{many / few:.2f} times ({few:.2f} s, {many:.2f} s)", many / few <= 1.5)


def _table_targets(by_work: dict[str, Outcome]) -> Iterator[Target]:
    many, single = by_work.get("tables"), by_work.get("single runs")
    yield faster(many, "tables: run-many twice as fast as the best loop of Spark SQL", RUN_MANY, LOOPS, 2)
    text = "tables: run-many 5 times as fast as one spark-submit per table"
    ours = many.seconds(RUN_MANY) if many else None
    some = single.seconds(SINGLE_RUNS) if single else None
    if many is None or single is None or ours is None or some is None:
        yield Target(text, "not measured", None)
        return
    theirs = some * many.workload.parts / single.workload.parts
    scaled = f"{theirs:.2f} s, {some:.2f} s for {single.workload.parts} of {many.workload.parts}"
    yield Target(text, f"{theirs / ours:.2f} times ({ours:.2f} s against {scaled})", theirs / ours >= 5)


def _small_targets(by_work: dict[str, Outcome]) -> Iterator[Target]:
    commands = by_work.get("commands")
    for name, most in (("mutator --help", 0.25), ("mutator verify", 0.6), ("mutator workflow run", 0.4)):
        yield within(commands, f"{name} of 1,000 rows", name, most)
    merges = {o.workload.rows: o for work, o in by_work.items() if work.startswith("small ")}
    yield within(merges.get(1000), "whole process, 130 into 1,000", RUN_RAW, 0.7)
    some, all_rows = merges.get(SIZES["1m"]), merges.get(max(merges, default=0))
    for name in (RUN_RAW, RUN_ALIGNED):
        yield faster(some, f"whole process, 1 % into 1 M: {name} no slower than Polars", name, (POLARS,), 1)
    yield faster(all_rows, "whole process, 5 %: aligned no slower than Polars", RUN_ALIGNED, (POLARS,), 1)
    text = "whole process, 5 %: without Spark 1.3 times as fast as with it"
    yield faster(all_rows, text, RUN_ALIGNED, ("mutator run on spark",), 1.3)
    yield within(by_work.get("tables"), "tables: run-many", RUN_MANY, 5)


def within(outcome: Outcome | None, text: str, name: str, most: float) -> Target:
    """Return the target of a contender's most seconds."""
    seconds = outcome.seconds(name) if outcome else None
    text = f"{text}: at most {most:g} s"
    if seconds is None:
        return Target(text, "not measured", None)
    return Target(text, f"{seconds_text(seconds)} s", seconds <= most)


def seconds_text(seconds: float) -> str:
    """Return seconds with the digits that matter.

    >>> seconds_text(12.345), seconds_text(0.012345)
    ('12.35', '0.0123')
    """
    return f"{seconds:.2f}" if seconds >= 0.1 else f"{seconds:.4f}"


def remarks(outcome: Outcome) -> list[str]:
    """Return the figures for which the table has no column, as sentences."""
    return [*_shares(outcome), *_throughput(outcome), *_scopes(outcome)]


def _scopes(outcome: Outcome) -> list[str]:
    """Return the cost of looking for each ID in all partitions."""
    partition_scope, table_scope = outcome.seconds(PARTITION_SCOPE), outcome.seconds(TABLE_SCOPE)
    if partition_scope is None or table_scope is None:
        return []
    more, times = table_scope - partition_scope, table_scope / partition_scope
    return [f"{TABLE_SCOPE}: {more:+.2f} s, {times:.2f} times {PARTITION_SCOPE}"]


def _throughput(outcome: Outcome) -> list[str]:
    """Return rows and bytes of text per second of exports and imports, and the ratio of their times."""
    ours, theirs, _ = THROUGHPUT.get(outcome.workload.work, ("", "", ""))
    base = outcome.seconds(theirs)
    return [
        f"{result.name}: {outcome.rows_per_second(result):,.0f} rows/s,"
        f" {result.more['text bytes'] / 1e6 / result.seconds:,.0f} MB/s of text"
        + (f", {base / result.seconds:.2f} times as fast as {theirs}" if result.name == ours and base else "")
        for result in outcome.results
        if result.name in (ours, theirs) and result.seconds is not None
    ]


def _shares(outcome: Outcome) -> list[str]:
    """Return mutator's rows of Avro per second, and the share of its time that fastavro alone would need."""
    alone = outcome.seconds("fastavro alone")
    return [
        f"{result.name}: {outcome.rows_per_second(result):,.0f} rows/s, {alone / result.seconds:.0%} of the time in"
        f" fastavro ({alone:.2f} s of {result.seconds:.2f} s)"
        for result in outcome.results
        if alone is not None and result.seconds is not None and result.name != "fastavro alone"
    ]


def faster(outcome: Outcome | None, text: str, ours: str, theirs: Sequence[str], times: float) -> Target:
    """Return the target of a contender that should be some times as fast as the best of others."""
    our = outcome.seconds(ours) if outcome else None
    their = outcome.best(theirs) if outcome else None
    if our is None or their is None:
        return Target(text, "not measured", None)
    return Target(text, f"{their / our:.2f} times ({our:.2f} s against {their:.2f} s)", their / our >= times)


def _scaling(name: str, outcomes: Sequence[Outcome]) -> list[Target]:
    texts = (
        f"4 times the rows, {name}: at most 4.2 times the time",
        f"4 times the rows, {name}: equal peak per worker",
    )
    pair = [result for outcome in outcomes for result in outcome.results if result.name == name and result.runs]
    if len(pair) != 2:
        return [Target(text, "not measured", None) for text in texts]

    def ratio(of: Callable[[Result], float | None]) -> float:
        small, large = (of(result) or 0 for result in pair)
        return large / small if small else float("inf")

    time, memory = ratio(lambda result: result.seconds), ratio(lambda result: result.worker)
    return [
        Target(texts[0], f"{time:.2f} times", time <= 4.2),
        Target(texts[1], f"{memory:.2f} times", memory <= EQUAL_MEMORY),
    ]
