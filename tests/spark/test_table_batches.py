"""A version of a table as an RDD of Arrow batches has the rows that a scan has, in parts of about the same size."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mutator import ConfigError, Table
from mutator.table import apply
from mutator.table.scan_parts import parts_of
from tests.support.applies_here import applies_here  # noqa: F401  # the subject is not how a table is made
from tests.support.no_limits import NO_LIMITS

ROWS = 200_000


def rows(ids: Any, at: int, op: str = "U", **more: Any) -> Any:
    return pa.table({"id": ids, "at": np.full(len(ids), at), "op": [op] * len(ids), "size": np.array(ids) % 7, **more})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = tmp_path_factory.mktemp("rdd") / "t"
    found = Table.create(path, {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS}, buckets=2)
    found.apply(rows(range(ROWS), 1))
    found.apply(rows(range(0, ROWS, 50), 2))
    found.apply(rows([*range(100, 200), ROWS - 1], 3, "D"))
    found.apply(rows([ROWS + 7], 4, note=["new"]))
    return found


def both(table: Table, rdd: Any, **how: Any) -> tuple[Any, Any]:
    expected = table.scan(how.pop("columns", None), how.pop("where", None), **how).to_arrow()
    found = pa.Table.from_batches(rdd.collect(), expected.schema)
    order = [(name, "ascending") for name in expected.column_names]
    return found.sort_by(order), expected.sort_by(order)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("partitions", [None, 1, 3, 1000])
def test_the_rows_are_those_of_a_scan(sc: Any, table: Table, partitions: int | None) -> None:
    for version in (1, 3, 4):
        found, expected = both(table, table.rdd(sc, version=version, partitions=partitions), version=version)
        assert found.equals(expected)


def test_columns_and_filters(sc: Any, table: Table) -> None:
    how: dict[str, Any] = {"columns": ["size", "id"], "where": [("at", "=", 2), ("id", ">=", 5000)]}
    found, expected = both(table, table.rdd(SparkSession(sc), **how), **how)
    assert found.num_rows == ROWS / 50 - 100
    assert found.equals(expected)
    assert table.rdd(sc, ["note"], "id = 77").map(lambda batch: batch.num_rows).sum() == 1
    assert table.rdd(sc, where="id = 150").map(lambda batch: batch.num_rows).sum() == 0
    with pytest.raises(ConfigError, match="no column"):
        table.rdd(sc, ["sise"])
    with pytest.raises(ConfigError, match="partitions is 0"):
        table.rdd(sc, partitions=0)


def test_partitions_have_about_as_many_rows(sc: Any, table: Table) -> None:
    found = table.rdd(sc, partitions=4).mapPartitions(lambda some: [sum(one.num_rows for one in some)]).collect()
    assert len(found) == 4
    assert sum(found) == table.snapshot.version.records
    assert table.rdd(sc).getNumPartitions() >= 2


def test_partitions_of_another_size(sc: Any, tmp_path: Path) -> None:
    empty = Table.create(tmp_path / "empty", {"key": "id", "order_by": "at", "op": "op"})
    assert empty.rdd(sc).collect() == []
    empty.apply(rows(range(100), 1))
    assert empty.rdd(sc).getNumPartitions() == 1  # one row group
    assert sum(batch.num_rows for batch in empty.rdd(sc).collect()) == 100


def test_rows_are_those_of_the_version_at_which_the_rdd_was_made(sc: Any, tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS}, buckets=2)
    table.apply(rows(range(1000), 1))
    made = table.rdd(sc, ["id"])
    table.apply(rows(range(500), 2, "D"))
    assert made.map(lambda batch: batch.num_rows).sum() == 1000
    assert table.rdd(sc).map(lambda batch: batch.num_rows).sum() == 500


def test_a_part_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "INLINE", 0)
    table = Table.create(tmp_path / "t", {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS})
    for first in range(0, 10_000, 400):
        table.apply(rows(range(first, first + 400), 1))
    table.apply(rows(range(0, 10_000, 9), 2))
    sizes = [len(pickle.dumps(part)) for part in parts_of(table.snapshot, None, None, 20)]
    assert len(sizes) > 15
    (whole,) = (len(pickle.dumps(part)) for part in parts_of(table.snapshot, None, None, 1))
    assert max(sizes) < whole / 4  # not all files in each
