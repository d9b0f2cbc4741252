"""A field that was removed and added again: rows of files that have values of the older field lack the newer one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator.table.table import Table
from tests.support.no_limits import NO_LIMITS


def apply(table: Table, directory: Path, columns: dict[str, Any], **settings: Any) -> None:
    path = directory / f"feed_{table.version}.parquet"
    pq.write_table(pa.table(columns), path)
    table.apply(str(path), **settings)


@pytest.fixture(name="table")
def new_table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", **NO_LIMITS}, buckets=2)
    apply(table, tmp_path, {"note": ["x", "y"], "id": ["1", "2"], "at": [1, 1]})
    apply(table, tmp_path, {"id": ["3"], "at": [2]})
    apply(table, tmp_path, {"id": ["4"], "at": [3], "note": ["n"]}, **getattr(request, "param", {}))
    return table


def rows(table: Table, columns: list[str], where: str | None = None) -> list[Any]:
    found = [tuple(row.values()) for batch in table.scan(columns, where) for row in batch.to_pylist()]
    return sorted(found, key=repr)


def test_the_field_alone_is_as_in_a_full_scan(table: Table) -> None:
    assert rows(table, ["id", "note"]) == [("1", None), ("2", None), ("3", None), ("4", "n")]
    assert rows(table, ["note"]) == [("n",), (None,), (None,), (None,)]


def test_a_filter_meets_only_values_of_the_newer_field(table: Table) -> None:
    assert rows(table, ["note"], "note = 'x'") == []
    assert rows(table, ["id"], "note = 'x'") == []
    assert rows(table, ["note"], "note is null") == [(None,)] * 3  # no row group of the older field has NULL


@pytest.mark.parametrize("table", [{"default": {"note": "none"}}], indirect=True)
def test_the_default_is_that_of_the_newer_field(table: Table) -> None:
    assert rows(table, ["note"]) == [("n",), ("none",), ("none",), ("none",)]
    assert rows(table, ["note"], "note = 'x'") == []
    assert rows(table, ["note"], "note = 'none'") == [("none",)] * 3


@pytest.mark.parametrize("defaults", [({}, {}), ({"b": "1"}, {"b": "2"})])
def test_an_export_keeps_no_files_with_values_of_the_older_field(tmp_path: Path, defaults: tuple[Any, Any]) -> None:
    table = Table.create(tmp_path / "table", key="id", order_by="at", buckets=8)
    table.apply(pa.table({"id": range(9), "at": [1] * 9}))
    table.apply(pa.table({"id": range(10, 19), "at": [1] * 9, "b": [7] * 9}), default=defaults[0])
    table.export(tmp_path / "out")
    table.apply(pa.table({"id": [30], "at": [1]}), removed_fields=["b"])
    table.apply(pa.table({"id": [31], "at": [1], "b": [8]}), default=defaults[1])
    table.export(tmp_path / "out")

    found = [row for path in (tmp_path / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert sorted(found, key=repr) == sorted(table.scan().to_pylist(), key=repr)


def test_an_export_keeps_the_files_of_buckets_without_an_added_field(tmp_path: Path) -> None:
    """The rows of an older form have the same values as in the export before."""
    table = Table.create(tmp_path / "table", key="id", order_by="at", buckets=4)
    table.apply(pa.table({"id": range(20), "at": [1] * 20}))
    table.apply(pa.table({"id": [20], "at": [1], "b": [7]}))
    table.export(tmp_path / "out")
    table.apply(pa.table({"id": [21], "at": [1], "b": [8]}))
    assert table.export(tmp_path / "out").kept == 3
