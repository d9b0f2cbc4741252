"""Columns of tables in memory take the types of a versioned table, where every value fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator.errors import DataError
from mutator.table.table import Table
from tests.support import local_engine

SETTINGS = {"key": "id", "order_by": "at"}
SCHEMA = """{"type": "record", "name": "row", "fields": [{"name": "id", "type": "int"}, {"name": "at", "type": "long"},
    {"name": "price", "type": ["null", "double"]},
    {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]}]}"""


@pytest.fixture(name="table")
def new_table(tmp_path: Path) -> Table:
    return Table.create(str(tmp_path / "table"), SETTINGS, buckets=2)


def frame(at: int, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"id": [1, 2], "at": [at, at], **columns})


def times(*texts: str) -> Any:
    return pd.to_datetime(list(texts), utc=True, format="ISO8601").as_unit("ns")


DAY, NANO = (
    times("2026-01-31T10:00:00", "2026-01-31T10:00:00.000001"),
    times("2026-01-31", "2026-01-31T00:00:00.000000001"),
)


def type_of(table: Table, column: str) -> str:
    return str(table.schema.field(column).type)


def test_new_times_of_pandas_have_microseconds(table: Table) -> None:
    table.apply(frame(1, seen=DAY))
    assert type_of(table, "seen") == "timestamp[us, tz=UTC]"
    assert sorted(table.scan().to_pandas()["seen"]) == list(DAY)
    table.apply(pa.Table.from_pandas(frame(2, seen=DAY)))
    assert type_of(table, "seen") == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("nanos", [None, "keep"])
@pytest.mark.parametrize("begun", [False, True])
def test_timestamps_have_microseconds(tmp_path: Path, unit: str, nanos: str | None, begun: bool) -> None:
    """Also within lists, in a table that begins with a dataset, and after rows of another unit."""
    moments = pa.array([10**9, 2 * 10**9], pa.timestamp("ns")).cast(pa.timestamp(unit))
    rows = pa.table({"id": [1, 2], "at": [1, 1], "seen": moments, "all": pa.array([[one] for one in moments])})
    more: dict[str, Any] = {} if nanos is None else {"nanos": nanos}
    if begun:
        pq.write_table(rows, tmp_path / "rows.parquet")
        settings = {**SETTINGS, "allow.empty.master": "true", "num.reducer": "2"}
        local_engine.mutate(
            settings, master=str(tmp_path / "none"), feed=[str(tmp_path / "rows.parquet")], output=str(tmp_path / "m")
        )
        more["dataset"] = str(tmp_path / "m")
    table = Table.create(str(tmp_path / "t"), {**SETTINGS}, **more)
    if not begun:
        table.apply(rows)
    expected = {"s": "ms"}.get(unit, unit) if nanos else "us"
    assert (type_of(table, "seen"), type_of(table, "all")) == (
        f"timestamp[{expected}]",
        f"list<element: timestamp[{expected}]>",
    )
    assert [row["seen"].second for row in sorted(table.scan().to_pylist(), key=lambda row: row["id"])] == [1, 2]


def test_a_finer_timestamp_is_a_reject(table: Table) -> None:
    table.apply(frame(1, seen=DAY))
    with pytest.raises(DataError, match="row 2: field seen is finer than microseconds, see the setting nanos"):
        table.apply(frame(2, seen=NANO))
    report = table.apply(frame(2, seen=NANO), reject_policy="quarantine", max_reject_fraction=1)
    assert (report.counts["feed rejected"], report.counts["feed updated"]) == (1, 1)


def test_types_of_the_output_schema(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, "output.schema": SCHEMA}, buckets=2)
    seen = times("2026-01-31T10:00:00", "2026-01-31T11:00:00")
    table.apply(frame(1, price=[3, None], seen=seen))
    micros = pa.array([5000], pa.timestamp("us", "UTC"))
    table.apply(pa.table({"id": [2], "at": [2], "price": [1 << 53], "seen": micros}))
    assert [str(one.type) for one in table.schema] == ["int32", "int64", "double", "timestamp[us, tz=UTC]"]
    assert [row["price"] for row in sorted(table.scan().to_pylist(), key=lambda row: row["id"])] == [
        3.0,
        float(1 << 53),
    ]
    with pytest.raises(DataError) as fault:
        table.apply(pa.table({"id": [2], "at": [3], "price": ["x"], "seen": seen[:1]}))
    assert "field price is double in the output schema and string in feed (Arrow table)" in str(fault.value)
    assert "record" not in str(fault.value)


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table])
def test_whole_numbers_in_a_column_of_floats(table: Table, make: Any) -> None:
    table.apply(frame(1, price=[1.5, 2.5]))
    table.apply(make({"id": [1, 2], "at": [2, 2], "price": [3, 1 << 53]}))
    assert sorted(row["price"] for row in table.scan().to_pylist()) == [3.0, float(1 << 53)]
    with pytest.raises(
        DataError, match=r"field price is int64 in .*a double has whole numbers exactly only up to 2\^53"
    ):
        table.apply(make({"id": [1, 2], "at": [3, 3], "price": [3, (1 << 53) + 1]}))


def test_floats_and_integers_of_one_feed(table: Table) -> None:
    table.apply([frame(1, price=[1, 2]), frame(2, price=[3.0, 4.0])])
    assert type_of(table, "price") == "int64"


def test_a_file_of_another_type(table: Table, tmp_path: Path) -> None:
    table.apply(frame(1, price=[1.5, 2.5]))
    pq.write_table(pa.table({"id": [1], "at": [2], "price": [3]}), tmp_path / "feed.parquet")
    words = r"field price is int64 in .*/feed\.parquet and double in .*/table: no type .*; convert the field in one of "
    with pytest.raises(DataError, match=words):
        table.apply(str(tmp_path / "feed.parquet"))
    table.apply(pq.read_table(tmp_path / "feed.parquet"))
    assert table.get(1)["price"] == 3.0
