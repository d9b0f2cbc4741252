"""A versioned table is the same whether Spark applies a feed or this process."""

from __future__ import annotations

import random
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import SparkContext

from mutator import config
from mutator.dataset.versions.opening import open_snapshot
from mutator.engine.spark.spark_runner import SparkRunner
from mutator.table import apply, compact_choice, prepare
from mutator.table.apply import apply_feed
from mutator.table.compact import compact_table
from mutator.table.compact_choice import Need
from mutator.table.create import create_empty
from mutator.table.scan import scan_batches, schema_of
from mutator.table.take_over import create_of
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import scratch
from tests.support.typed_worlds import World, worlds
from tests.support.versioned import SCOPES, left_by_run, left_of, put_feeds

SETTINGS = {"key": "id", "order_by": "at", "op": "op", "split.bytes": "300", **NO_LIMITS}
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("shop", pa.string()), ("op", pa.string())])


def feed_of(path: Path, ids: range, at: int, op: str) -> str:
    rows = [{"id": number, "at": at, "shop": f"s{number % 3}", "op": op} for number in ids]
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=20)
    return str(path)


def rows_of(table: Path) -> list[Any]:
    return sorted(rows_of_version(table), key=repr)


def rows_of_version(table: Path, version: int | None = None) -> list[Any]:
    snapshot = open_snapshot(str(table), version)
    found: list[Any] = pa.Table.from_batches(scan_batches(snapshot), schema_of(snapshot)).to_pylist()
    return found


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize("scope", [{}, {"partitioned.by": "shop", "key.scope": "table"}])
def test_spark_and_this_process_make_the_same_table(
    sc: SparkContext, tmp_path: Path, scope: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(prepare, "_GROUP", 10_000)  # bytes: a task for each row group, and two that merge
    monkeypatch.setattr(compact_choice, "_TASK_ROWS", 10)

    @contextmanager
    def here(_: int) -> Any:
        with local_engine.runner() as runner:
            yield runner, None

    @contextmanager
    def on_spark(_: int) -> Any:
        yield SparkRunner(sc), None

    feeds = [
        feed_of(tmp_path / "feed" / "a_1.parquet", range(40), 1, "U"),
        feed_of(tmp_path / "feed" / "b_2.parquet", range(20, 60), 2, "U"),
        feed_of(tmp_path / "feed" / "c_3.parquet", range(10, 30), 3, "D"),
    ]
    known = config.parse({**SETTINGS, **scope})
    found = []
    for name, runner in (("here", here), ("spark", on_spark)):
        table = tmp_path / name
        create_empty(str(table), scope, buckets=4)
        counts = [apply_feed(open_snapshot(str(table)), known, [feed], runner).counts for feed in feeds]
        done = compact_table(open_snapshot(str(table)), known, Need(everything=True), runner)
        assert rows_of(table) == sorted(rows_of_version(table, 3), key=repr)
        found.append((rows_of(table), counts, done.buckets, done.moves.rows, done.moves.tombstones))
    assert found[0] == found[1]
    assert found[0][2] >= 4
    assert len(found[0][0]) == 40

    begun = tmp_path / "begun"
    create_of(str(begun), known, scope, str(_dataset(tmp_path, scope)), None, on_spark)
    apply_feed(open_snapshot(str(begun)), known, feeds[1:], on_spark)
    assert rows_of(begun) == found[0][0]


@pytest.mark.soak
@settings(max_examples=3, deadline=None)
@given(world=worlds([None, "", "x", 'q"']), scope=st.sampled_from(SCOPES))
def test_a_chain_of_applies_on_spark_equals_a_chain_of_runs(
    sc: SparkContext, world: World, scope: dict[str, str]
) -> None:
    rng = random.Random(world.seed)
    runner = SparkRunner(sc)

    @contextmanager
    def on_spark(_: int) -> Any:
        yield runner, None

    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_INLINE_FEED", 0)
        patch.setattr(prepare, "_GROUP", 1)  # bytes: several tasks
        of_run = {
            **world.settings("parquet", "parquet"),
            **scope,
            "output.format": "parquet",
            "nanos": "reject",
            "split.bytes": "200",
        }
        table, master = work / "table", work / "master"
        master.mkdir()
        create_empty(str(table), scope, buckets=rng.choice([2, 5]))
        for number, feed in enumerate(put_feeds(world, work, rng)):
            output = work / f"out{number}"
            local_engine.mutate(of_run, master=str(master), feed=[str(feed)], output=str(output))
            applied = apply_feed(open_snapshot(str(table)), config.parse(of_run), [str(feed)], on_spark)
            assert left_of(open_snapshot(str(table)), applied.counts) == left_by_run(output)
            master = output


def _dataset(tmp_path: Path, scope: dict[str, str]) -> Path:
    output = tmp_path / "dataset"
    of_run = {**SETTINGS, **scope, "output.format": "parquet", "allow.empty.master": "true"}
    (tmp_path / "nothing").mkdir()
    feed = str(tmp_path / "feed" / "a_1.parquet")
    local_engine.mutate(of_run, master=str(tmp_path / "nothing"), feed=[feed], output=str(output))
    return output
