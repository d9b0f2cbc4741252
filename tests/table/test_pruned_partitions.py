"""Partitions that a filter leaves out: no row that the filter would keep is in one of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mutator.formats.values.row_filter import Filter
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.conditions import conditions_of
from mutator.rules.partition_fields import parse_fields
from mutator.rules.partition_transforms import partition_rows
from mutator.table.table import Table
from tests.support.effort import law

OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
DATED = ["v", "date(v)", "year(v)", "month(v)", "year(v),month(v)", "prefix(v,4)", "bucket(v,3)"]
COUNTED = ["v", "date(v,s)", "year(v,s)", "month(v,ms)", "prefix(v,1)", "bucket(v,3)"]
PLAIN = ["v", "prefix(v,2)", "bucket(v,3)"]
TEXTS = ["2026-01-31T23:30:00-01:00", "2026-02-01T01:00:00+02:00", "2026-01-31T23:59:59Z", "2026-02-01", "1999-12-31"]
ZONED = [
    datetime(2026, 1, 31, 23, 30, tzinfo=UTC),
    datetime(2026, 2, 1, tzinfo=UTC),
    datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    None,
]
TIMES = [one and one.replace(tzinfo=None) for one in ZONED]
SECONDS = [0, -1, 86_399, 86_400, 1_769_903_999, 9, 10, None]
AMOUNTS = [Decimal("1.5"), Decimal("-0.1"), Decimal(0), Decimal(7), Decimal(10), None]


@dataclass(frozen=True)
class Kind:
    """Values of a type, and the partitions that they may have."""

    present: Any  # pa.DataType
    by: list[str]
    values: list[Any]
    written: Any = None  # pa.DataType of rows that are older than the present type


KINDS = [
    Kind(pa.string(), DATED, [*TEXTS, "", None]),
    Kind(pa.string(), COUNTED, ["9", "10", "86400", "-1", "", None]),
    Kind(pa.binary(), DATED, [*(one.encode() for one in TEXTS), b"", None]),
    Kind(pa.int64(), COUNTED, SECONDS, pa.int32()),
    Kind(pa.decimal128(12, 0), COUNTED, SECONDS),
    Kind(pa.decimal128(9, 3), PLAIN, AMOUNTS, pa.decimal128(5, 1)),
    Kind(pa.timestamp("us"), DATED, TIMES),
    Kind(pa.timestamp("ns"), DATED, TIMES),
    Kind(pa.timestamp("us", "Europe/Berlin"), DATED, ZONED),
    Kind(pa.date32(), DATED, [date(2026, 1, 31), date(2026, 2, 1), date(1999, 12, 31), None]),
    Kind(pa.bool_(), PLAIN, [True, False, None]),
]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Kind, str, str, Any]:
    kind = draw(st.sampled_from(KINDS))
    literal = draw(st.sampled_from([one for one in kind.values if one is not None]))
    return kind, draw(st.sampled_from(kind.by)), draw(st.sampled_from(OPERATORS)), literal


@law(2000)
@given(cases())
@example((KINDS[0], "date(v)", "<=", "2026-01-31T23:59:59Z"))
@example((KINDS[1], "date(v,s)", "<", "9"))
@example((KINDS[5], "bucket(v,3)", "=", Decimal(7)))
def test_no_partition_with_a_wanted_row_is_left_out(case: tuple[Kind, str, str, Any]) -> None:
    kind, by, operator, literal = case
    fields = parse_fields(by)
    schema = pa.schema({"v": kind.present})
    chosen = Filter(conditions_of([("v", operator, literal)]), schema, "t")
    placed = {}
    for written in (kind.present, kind.written or kind.present):
        rows = pa.array(kind.values, written)
        found = partition_rows(fields, [exact_text(rows)] * len(fields))
        assert not found.reasons
        for row, code in enumerate(found.codes.tolist()):
            placed.setdefault(found.names[code], []).append(rows[row : row + 1].cast(kind.present))

    kept = chosen.partitions(fields, list(placed))

    for name, arrays in placed.items():
        wanted = chosen.of(pa.table({"v": pa.chunked_array(arrays)}))
        assert not wanted.num_rows or kept is None or name in kept


@pytest.mark.parametrize(
    ("where", "found"), [("s <= '2026-01-31T23:59:59Z'", [1]), ("s >= '2026-02-01T00:00:00Z'", [2])]
)
def test_text_is_compared_as_text_in_partitions_of_its_days(tmp_path: Any, where: str, found: list[int]) -> None:
    """The first text is of the 1st of February in UTC, and the second one of the 31st of January."""
    table = Table.create(tmp_path / "t", key="id", order_by="ts", partitioned_by="date(s)")
    for number, text in enumerate(["2026-01-31T23:30:00-01:00", "2026-02-01T01:00:00+02:00"], 1):
        table.apply(pa.table({"id": [number], "ts": [1], "s": [text]}))

    assert [row["id"] for row in table.scan(["id"], where).to_pylist()] == found
