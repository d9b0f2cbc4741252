"""Insert overwrites of a table on Spark: the engine, and DataFrames and RDDs as inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

import mutator
from mutator.errors import ConfigError
from mutator.table import prepare
from tests.support.applies_here import applies_here  # noqa: F401  # the subject is not how a table is made
from tests.table.test_overwrite import BY_PARTITION, BY_TABLE, SETTINGS, create, outcomes, rows_of, tombstones

COLUMNS = ["id", "at", "op", "part", "note"]
BEFORE = [(number, 5, "U", f"p{number % 3}", "x") for number in range(30)]
INPUT = [
    (2, 1, "U", "p2", "y"),
    (5, 5, "U", "p2", "x"),
    (8, 3, "D", "p2", None),
    (3, 6, "U", "p2", "y"),
    (40, 1, "U", "p2", "y"),
]


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("settings", [SETTINGS, BY_TABLE, BY_PARTITION], ids=["whole", "table", "partition"])
@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_spark_overwrites_as_this_process_does(
    sc: Any, tmp_path: Path, monkeypatch: Any, settings: dict[str, str], operation: str
) -> None:
    monkeypatch.setattr(prepare, "_GROUP", 1)
    monkeypatch.setattr(prepare, "_GROUPS", 3)
    frame = SparkSession(sc).createDataFrame(INPUT, COLUMNS).repartition(2)
    tables = [create(tmp_path / runner, settings, *BEFORE) for runner in ("spark", "local")]
    rows = pa.table({name: [row[at] for row in INPUT] for at, name in enumerate(COLUMNS)})
    on_spark = getattr(tables[0], operation)(frame, runner="spark")
    here = getattr(tables[1], operation)(rows, runner="local")
    assert on_spark.runner.startswith("spark")
    assert outcomes(on_spark) == outcomes(here)
    assert (on_spark.replaced, on_spark.files_removed > 0) == (here.replaced, here.files_removed > 0)
    assert rows_of(tables[0]) == rows_of(tables[1])
    assert tombstones(tables[0]) == tombstones(tables[1])


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("elements", ["Row", "dict", "RecordBatch"])
def test_rdds_of_rows(sc: Any, tmp_path: Path, elements: str) -> None:
    table = create(tmp_path, BY_PARTITION, *BEFORE)
    SparkSession(sc)
    dicts = [dict(zip(COLUMNS, row, strict=True)) for row in INPUT]
    made: dict[str, Any] = {
        "Row": [Row(**one) for one in dicts],
        "dict": dicts,
        "RecordBatch": [pa.RecordBatch.from_pylist(dicts[:2]), pa.RecordBatch.from_pylist(dicts[2:])],
    }
    report = table.insert_overwrite(sc.parallelize(made[elements], 2))
    assert (report.feed, report.counts["feed rows"]) == (("feed (Spark RDD)",), 5)
    assert [row[0] for row in rows_of(table) if row[2] == "p2"] == [2, 3, 5, 40]


def test_other_rdds_are_refused(sc: Any, tmp_path: Path) -> None:
    SparkSession(sc)
    table = mutator.Table.create(tmp_path / "t", SETTINGS)
    for elements in ([], [1, 2], [("a", 1)]):
        with pytest.raises(ConfigError, match="Rows, dicts or"):
            table.insert_overwrite(sc.parallelize(elements, 2))
