"""Rows as CSV, JSON and Parquet."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from mutator.table.row_output import row_text

ROWS = pa.table(
    {
        "n": pa.array([1, None]),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(7, 2)),
        "tags": pa.array([["a", 'b"'], None]),
        "at": pa.array([0, None], pa.timestamp("us", "UTC")),
        "note": pa.array(["", None]),
    }
)


def test_csv_has_nested_values_as_json_and_tells_null_from_empty() -> None:
    text = b"\n".join(row_text(ROWS.to_reader(max_chunksize=1), "csv")).decode()
    assert text.splitlines() == [
        "n,price,tags,at,note",
        '1,1.50,"[""a"",""b\\""""]",1970-01-01 00:00:00.000000Z,""',
        ",,,,",
    ]


def test_json_has_an_object_on_each_line() -> None:
    text = b"\n".join(row_text(ROWS.to_reader(max_chunksize=1), "json")).decode()
    assert text.splitlines() == [
        '{"n":1,"price":"1.50","tags":["a","b\\""],"at":"1970-01-01 00:00:00.000000Z","note":""}',
        '{"n":null,"price":null,"tags":null,"at":null,"note":null}',
    ]
