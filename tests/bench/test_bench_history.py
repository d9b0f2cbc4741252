"""The benchmark of histories: its data, its figures, and the versions that mutator makes of the data."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.contenders.mutator_history import HistoryBesideNone, MutatorHistory
from bench.digest import data_files, digest
from bench.figures import Outcome, Result, Run
from bench.histories import EVENTS, FEEDS, write_events_of_versions, write_feeds_of_versions
from bench.history_figures import MOST, history_targets
from bench.layout import PATCHED_FIELDS
from bench.workload import workloads

RECORDS = 400


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("histories")
    for kind in EVENTS:
        write_events_of_versions(directory / "events" / kind, kind, RECORDS)
    write_feeds_of_versions(directory / "feeds", RECORDS)
    return directory


def test_records_have_their_versions_and_feeds_are_newer(data: Path) -> None:
    for kind, (versions, divisor) in EVENTS.items():
        rows = pq.read_table(data_files(data / "events" / kind))
        counts = rows.group_by("id").aggregate([("time", "count_distinct")]).column("time_count_distinct")
        assert (len(counts), {*counts.to_pylist()}) == (RECORDS // divisor, {versions})
    for kind in FEEDS:
        feed = pq.read_table(data_files(data / "feeds" / kind)).to_pydict()
        assert len({*feed["id"]}) == len(feed["id"])
        assert min(feed["time"]) > max(rows.column("time").to_pylist())


@pytest.mark.rest
def test_the_versions_are_those_of_all_events(data: Path, tmp_path: Path) -> None:
    contender = MutatorHistory()
    contender.prepare(data / "events" / "5", tmp_path / "state")
    contender.reset()
    contender.run(data / "feeds" / "5%", tmp_path)
    rows = [*data_files(data / "events" / "5"), *data_files(data / "feeds" / "5%")]
    found: dict[str, list[dict[str, object]]] = {}
    for row in pq.read_table(rows).sort_by("time").to_pylist():
        found.setdefault(row["id"], []).append(row)
    expected = [
        {**{name: row[name] for name in PATCHED_FIELDS}, "valid_to": after}
        for own in found.values()
        for row, after in zip(own, [*(later["time"] for later in own[1:]), None], strict=True)
    ]
    made = contender.export(tmp_path, tmp_path / "made")
    assert made is not None
    pq.write_table(pa.Table.from_pylist(expected, pq.read_schema(made / "part.parquet")), tmp_path / "expected.parquet")
    assert digest(data_files(made)) == digest([tmp_path / "expected.parquet"])


@pytest.mark.rest
def test_all_steps_are_those_of_the_targets(data: Path, tmp_path: Path) -> None:
    contender = HistoryBesideNone()
    contender.prepare(data / "events", tmp_path / "state")
    steps = contender.run(data / "feeds", tmp_path).steps
    assert {*steps} == {name for step, other, _ in MOST for name in (step, other)}


def test_the_targets_follow_from_the_figures_of_each_round() -> None:
    works = {workload.work: workload for workload in workloads(12_000_000, "history")}
    steps = {name: 0.4 for step, other, _ in MOST for name in (step, other)} | {"scan then, history": 1.0}
    seconds = {"mutator table apply": 1.0, "dbt snapshot": 4.0, "delta-rs type 2": 6.0, "pyspark process": 9.0}
    outcomes = [
        Outcome(works["history"], tuple(Result(name, [Run(time, 0, 0, 0)]) for name, time in seconds.items())),
        Outcome(works["history beside none"], (Result("history beside none", [Run(1, 0, 0, 0, steps)]),)),
    ]
    found = [target.reached for target in history_targets(outcomes)]
    assert found == [False, True, True, True, True, True, False, True, True]
    assert [target.reached for target in history_targets([])] == [None] * len(found)
