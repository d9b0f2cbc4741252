"""A versioned table is the same whether Spark applies a feed or this process."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from mutator import config
from mutator.dataset.versions.snapshot import open_snapshot
from mutator.engine.spark.runner import SparkRunner
from mutator.table import apply
from mutator.table.apply import apply_feed
from mutator.table.create import create_empty
from mutator.table.scan import scan_batches, schema_of
from mutator.table.take_over import create_of
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS

SETTINGS = {"key": "id", "order_by": "at", "op": "op", "split.bytes": "300", **NO_LIMITS}
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("shop", pa.string()), ("op", pa.string())])


def feed_of(path: Path, ids: range, at: int, op: str) -> str:
    rows = [{"id": number, "at": at, "shop": f"s{number % 3}", "op": op} for number in ids]
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=7)
    return str(path)


def rows_of(table: Path) -> list[Any]:
    snapshot = open_snapshot(str(table))
    rows = pa.Table.from_batches(scan_batches(snapshot), schema_of(snapshot)).to_pylist()
    return sorted(rows, key=repr)


@pytest.mark.parametrize("scope", [{}, {"partitioned.by": "shop", "key.scope": "table"}])
def test_spark_and_this_process_make_the_same_table(
    sc: SparkContext, tmp_path: Path, scope: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "_GROUP", 500)  # bytes: several tasks on either side

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
    settings = config.parse({**SETTINGS, **scope})
    found = []
    for name, runner in (("here", here), ("spark", on_spark)):
        table = tmp_path / name
        create_empty(str(table), scope, buckets=4)
        counts = [apply_feed(open_snapshot(str(table)), settings, [feed], runner).counts for feed in feeds]
        found.append((rows_of(table), counts))
    assert found[0] == found[1]
    assert len(found[0][0]) == 40

    begun = tmp_path / "begun"
    create_of(str(begun), settings, scope, str(_dataset(tmp_path, scope)), None, on_spark)
    apply_feed(open_snapshot(str(begun)), settings, feeds[1:], on_spark)
    assert rows_of(begun) == found[0][0]


def _dataset(tmp_path: Path, scope: dict[str, str]) -> Path:
    output = tmp_path / "dataset"
    settings = {**SETTINGS, **scope, "output.format": "parquet", "allow.empty.master": "true"}
    (tmp_path / "nothing").mkdir()
    feed = str(tmp_path / "feed" / "a_1.parquet")
    local_engine.mutate(settings, master=str(tmp_path / "nothing"), feed=[feed], output=str(output))
    return output
