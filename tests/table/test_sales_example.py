"""The published example: a table of sales by store and date, whose staging data arrive in batches with op codes."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest

from mutator.dataset.file_entry import DATA
from mutator.engine.versions import delta_files
from mutator.table import apply
from mutator.table.table import Table
from tests.support.sample_sets import SAMPLE_DATA
from tests.support.versioned import open_runner

EXAMPLE = SAMPLE_DATA / "sales_table"
STORE_1, STORE_2 = "store_id=1/create_date=2026-03", "store_id=2/create_date=2026-03"
FIRST = {1001: ("1/01", 2, "I"), 1002: ("1/01", 1, "I"), 1003: ("2/01", 5, "I"), 1004: ("1/02", 1, "I")}
FIRST |= {1005: ("2/02", 2, "I")}
SECOND = {1001: FIRST[1001], 1002: ("1/01", 2, "U"), 1004: FIRST[1004], 1005: FIRST[1005], 1006: ("2/02", 3, "I")}
THIRD = {**SECOND, 1004: ("2/02", 1, "U"), 1007: ("1/03", 4, "I")}


@contextmanager
def on_spark(sc: Any) -> Iterator[Any]:
    from mutator.engine.spark.spark_runner import SparkRunner

    yield SparkRunner(sc), None


@pytest.fixture(params=["here", pytest.param("spark", marks=pytest.mark.jvm)])
def runner(request: pytest.FixtureRequest) -> Any:
    if request.param == "here":
        return open_runner
    sc = request.getfixturevalue("sc")
    return lambda size: on_spark(sc)


@pytest.fixture
def table(runner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)  # as for large batches: files, in directories of versions
    monkeypatch.setattr(apply, "INLINE", 0)
    monkeypatch.setattr(delta_files, "_OWN", 1)  # not in the workers of Spark: their few rows are in one packed file
    monkeypatch.chdir(SAMPLE_DATA.parent)
    settings = {**tomllib.loads((EXAMPLE / "table.toml").read_text()), "split.bytes": 60}  # several tasks read a batch
    settings = {name: str(value).lower() if value is True else value for name, value in settings.items()}
    with pytest.warns(UserWarning, match="split_bytes=60 makes a task of every few rows"):
        return Table.create(str(tmp_path / "sales"), settings, dataset=str(EXAMPLE / "main"), open_runner=runner)


def rows_of(table: Table, version: int | None = None) -> dict[int, tuple[str, int, str]]:
    """Return (store and day, quantity, op code) of each sale."""
    rows = [row for batch in table.scan(version=version) for row in batch.to_pylist()]
    found = {
        row["sales_id"]: (f"{row['store_id']}/{row['create_date']:%d}", row["qty"], row["op_code"]) for row in rows
    }
    assert len(found) == len(rows)
    return found


def directories(table: Table) -> set[str]:
    rows = Path(table.path) / "_mutator/table/rows"
    return {str(path.parent.relative_to(rows)) for path in rows.rglob("*.rows")}


def hidden(table: Table) -> dict[str, int]:
    """Return the number of hidden rows of each directory that has any."""
    snapshot = table.snapshot
    found = {
        one.path.rpartition("/rows/")[2].rpartition("/")[0]: len(snapshot.masks.hidden(one.path))
        for one in snapshot.of_role(DATA)  # those in the log have no directory
    }
    return {directory: count for directory, count in found.items() if count}


def counts(report: Any) -> dict[str, int]:
    return {name: count for name, count in report.counts.items() if count and not name.endswith("ignored")}


def changes(table: Table, *versions: int, net: bool = False) -> list[tuple[int, str, int, str]]:
    """Return (version, type, sale, store and day) of each change."""
    rows = table.changes(*versions, net=net).to_pylist()
    return sorted(
        (row["_commit_version"], row["_change_type"], row["sales_id"], f"{row['store_id']}/{row['create_date']:%d}")
        for row in rows
    )


@pytest.mark.thorough(keep=0, rest=1)
def test_the_published_example(table: Table, runner: Any, tmp_path: Path) -> None:
    begun = {f"{STORE_1}-01/version_id=1", f"{STORE_1}-02/version_id=1"}
    begun |= {f"{STORE_2}-01/version_id=1", f"{STORE_2}-02/version_id=1"}
    assert (rows_of(table), directories(table), hidden(table)) == (FIRST, begun, {})
    files = {path: path.read_bytes() for path in Path(table.path).rglob("*.rows*")}

    first = table.apply(str(EXAMPLE / "staging" / "batch_id=1"), open_runner=runner)
    assert {"feed rows": 3, "feed updated": 1, "feed deleted": 1, "feed inserted": 1}.items() <= counts(first).items()
    assert {"output rows": 5, "tombstones out": 1}.items() <= counts(first).items()
    own = runner is open_runner  # files in directories of versions
    after_first = begun | {f"{STORE_1}-01/version_id=2", f"{STORE_2}-02/version_id=2"}
    assert (rows_of(table), directories(table)) == (SECOND, after_first if own else begun)
    assert hidden(table) == {f"{STORE_1}-01/version_id=1": 1, f"{STORE_2}-01/version_id=1": 1}

    second = table.apply(str(EXAMPLE / "staging"), open_runner=runner)  # has the first batch again
    assert [path.rpartition("/")[2] for path in second.consumed] == ["sales_1.csv"]
    assert {"feed rows": 3, "feed updated": 1, "feed late": 1, "feed inserted": 1}.items() <= counts(second).items()
    assert {"output rows": 6, "tombstones out": 1}.items() <= counts(second).items()
    after_second = after_first | {f"{STORE_1}-03/version_id=3", f"{STORE_2}-02/version_id=3"}
    assert (rows_of(table), directories(table)) == (THIRD, after_second if own else begun)
    assert hidden(table) == {
        f"{STORE_1}-01/version_id=1": 1,
        f"{STORE_1}-02/version_id=1": 1,  # 1004 has moved
        f"{STORE_2}-01/version_id=1": 1,
    }

    assert [rows_of(table, version) for version in (1, 2, 3)] == [FIRST, SECOND, THIRD]
    assert changes(table, 1, 2) == [
        (2, "delete", 1003, "2/01"),
        (2, "insert", 1006, "2/02"),
        (2, "update_postimage", 1002, "1/01"),
        (2, "update_preimage", 1002, "1/01"),
    ]
    assert changes(table, 2) == [
        (3, "insert", 1007, "1/03"),
        (3, "update_postimage", 1004, "2/02"),
        (3, "update_preimage", 1004, "1/02"),
    ]
    net = [(kind, sale) for _, kind, sale, _ in changes(table, 1, net=True)]
    assert sorted(net) == [
        ("delete", 1003),
        ("insert", 1006),
        ("insert", 1007),
        *(("update_postimage", sale) for sale in (1002, 1004)),
        *(("update_preimage", sale) for sale in (1002, 1004)),
    ]
    assert [(one.version, one.deleted, one.partition) for one in table.history(1004)] == [
        (1, False, f"{STORE_1}-02"),
        (3, False, f"{STORE_2}-02"),
    ]
    assert [(one.version, one.deleted) for one in table.history(1003)] == [(1, False), (2, True)]
    assert table.get(1003) is None
    assert {path: path.read_bytes() for path in files} == files  # nothing that was there has changed
    assert table.verify(open_runner=runner).problems == ()

    table.export(str(tmp_path / "latest"), open_runner=runner)
    table.export(str(tmp_path / "begun"), version=1, open_runner=runner)
    for name, wanted in (("latest", THIRD), ("begun", FIRST)):
        pattern = f"{tmp_path}/{name}/store_id=*/create_date=*/*.parquet"
        query = "SELECT sales_id, store_id, create_date, qty, op_code FROM read_parquet(?, hive_partitioning = true)"
        found = duckdb.execute(query, [pattern]).fetchall()
        assert {sale: (f"{store}/{day:%d}", qty, op) for sale, store, day, qty, op in found} == wanted
        frame = polars.read_parquet(pattern, hive_partitioning=True).to_dicts()
        assert {
            row["sales_id"]: (f"{row['store_id']}/{row['create_date']:%d}", row["qty"], row["op_code"]) for row in frame
        } == wanted


@pytest.mark.rest
def test_spark_reads_the_export(sc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.chdir(SAMPLE_DATA.parent)
    settings = tomllib.loads((EXAMPLE / "table.toml").read_text())
    table = Table.create(
        str(tmp_path / "sales"), settings, dataset=str(EXAMPLE / "main"), open_runner=lambda size: on_spark(sc)
    )
    table.apply(str(EXAMPLE / "staging"), open_runner=lambda size: on_spark(sc))
    table.export(str(tmp_path / "latest"), open_runner=lambda size: on_spark(sc))
    found = SparkSession(sc).read.parquet(str(tmp_path / "latest")).collect()
    assert {row.sales_id: (f"{row.store_id}/{row.create_date:%d}", row.qty, row.op_code) for row in found} == THIRD
