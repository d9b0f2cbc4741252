"""Fields with merge functions whose types become wider, that are removed and added again, or get a function later."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator.errors import MutatorError
from mutator.frames.dataset import Dataset
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

SETTINGS = {"key": "id", "order_by": "at", "consumed.files": "merge", "nanos": "keep", **NO_LIMITS}
Merge = Callable[..., Any]  # merges the rows of columns; returns the records afterwards, by ID


@pytest.fixture(params=["blocks", "records", "table"])
def merge(request: pytest.FixtureRequest, tmp_path: Path) -> Merge:
    runs = itertools.count()

    def merging(columns: dict[str, Any], functions: dict[str, str] | None = None, **settings: str) -> dict[str, Any]:
        number = next(runs)
        feed, output = tmp_path / f"feed{number}" / f"{number}.parquet", tmp_path / f"out{number}"
        feed.parent.mkdir()
        pq.write_table(pa.table({"id": [*map(str, range(len(columns["at"])))], **columns}), feed)
        given = {f"field.merge.{name}": text for name, text in (functions or {}).items()} | settings
        if request.param == "table":
            path = str(tmp_path / "table")
            table = Table(path) if number else Table.create(path, {**SETTINGS, **given})
            more = settings if functions is None else {**settings, "field_merge": functions}
            table.apply(str(feed), open_runner=open_runner, **(more if number else {}))
            if number == 1:
                table.compact(everything=True)
            assert table.verify(open_runner=open_runner).problems == ()
            return {row["id"]: row for batch in table.scan() for row in batch.to_pylist()}
        places: Any = {"master": str(tmp_path / f"out{number - 1}"), "feed": [str(feed.parent)], "output": str(output)}
        given = {name.replace("_", ".") if name != "order_by" else name: one for name, one in given.items()}
        local_engine.mutate({**SETTINGS, "allow.empty.master": "true", **given}, **places, engine=request.param)
        assert local_engine.verify(str(output)).differences == ()
        return {row["id"]: row for row in Dataset(output).to_arrow().to_pylist()}

    return merging


MICROS, NANOS = pa.timestamp("us"), pa.timestamp("ns")
WIDER = [
    # function, values of runs, the value afterwards
    ("sum", [pa.array([5], pa.int32()), pa.array([4], pa.int32()), pa.array([1 << 40])], (1 << 40) + 9),
    ("max", [pa.array([5], pa.int32()), pa.array([4], pa.int32()), pa.array([3])], 5),
    ("first", [pa.array([5]), pa.array([4]), pa.array([Decimal("2.50")])], Decimal("5.00")),
    ("sum", [pa.array([5]), pa.array([4]), pa.array([Decimal("2.50")])], Decimal("11.50")),
    ("first", [pa.array([5_000], MICROS), pa.array([4_000], MICROS), pa.array([3_000], NANOS)], 5_000_000),
    ("max", [pa.array([5], pa.date32()), pa.array([4], pa.date32()), pa.array([3], MICROS)], datetime(1970, 1, 6)),  # noqa: DTZ001
    (
        "first",
        [
            pa.array([{"x": 1}], pa.struct([("x", pa.int32())])),
            pa.array([{"x": 2}], pa.struct([("x", pa.int32())])),
            pa.array([{"x": 3, "y": "c"}]),
        ],
        {"x": 1, "y": None},
    ),
]


@pytest.mark.parametrize(("function", "values", "wanted"), WIDER, ids=[f"{one[0]} {one[1][-1].type}" for one in WIDER])
def test_entries_become_wider_with_their_field(merge: Merge, function: str, values: list[Any], wanted: Any) -> None:
    for number, column in enumerate(values):
        found = merge({"at": [number], "p": column}, {"p": function} if not number else None)
    value = found["0"]["p"]
    assert (value.value if isinstance(wanted, int) and values[-1].type == NANOS else value) == wanted


def test_order_values_of_entries_become_wider_with_the_order(merge: Merge) -> None:
    merge({"at": [1], "p": [5]}, {"p": "sum"})
    merge({"at": [3], "p": [4]})
    merge({"at": [Decimal("2.50")], "p": [3]})
    assert merge({"at": [Decimal("2.50")], "p": [3]})["0"]["p"] == 12


def test_a_field_that_is_removed_and_added_again_begins_anew(merge: Merge) -> None:
    merge({"at": [1, 1], "p": [5, 50], "q": ["x", "x"]}, {"p": "sum"})
    merge({"at": [2, 2], "p": [4, 40], "q": ["x", "x"]})
    merge({"at": [3], "q": ["y"]}, removed_fields="p")
    found = merge({"at": [4], "p": [7], "q": ["z"]})
    assert {key: row["p"] for key, row in found.items()} == {"0": 7, "1": None}
    found = merge({"at": [5, 5], "p": [1, 1], "q": ["z", "z"]})
    assert {key: row["p"] for key, row in found.items()} == {"0": 8, "1": 1}


def test_a_field_gets_a_function_in_a_later_run(merge: Merge) -> None:
    merge({"at": [1], "p": [3]})
    merge({"at": [2], "p": [4]})
    assert merge({"at": [3], "p": [5]}, {"p": "sum"})["0"]["p"] == 9, "the record counts as one value"
    assert merge({"at": [1], "p": [3]})["0"]["p"] == 12
    with pytest.raises(MutatorError, match="had sum so far"):
        merge({"at": [4], "p": [5]}, {"p": "max"})


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([pa.array([1 << 30], pa.int32())] * 2, "field p of the record with the ID 0 is too large for its type, int32"),
        ([pa.array([Decimal("99.99")])] * 2, r"field p of the record with the ID 0 .* decimal128\(4, 2\)"),
        ([pa.array([1 << 63], pa.uint64())] * 2, "field p of the record with the ID 0 .* uint64"),
    ],
    ids=["int32", "decimal", "uint64"],
)
def test_a_sum_that_its_field_cannot_hold_stops_the_run(merge: Merge, values: list[Any], why: str) -> None:
    before = merge({"at": [1], "p": values[0]}, {"p": "sum"})
    with pytest.raises(MutatorError, match=why):
        merge({"at": [2], "p": values[1]})
    assert before["0"]["p"] == values[0][0].as_py()


def test_text_of_a_table_gets_a_type_where_it_is_merged(tmp_path: Path) -> None:
    """A row that is not met may have any text: it is no damage of its file."""
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", **NO_LIMITS})

    def apply(number: int, texts: list[str], **settings: Any) -> None:
        keys = ["k", "l"][: len(texts)]
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": keys, "at": [number] * len(keys), "p": texts}), path)
        table.apply(str(path), open_runner=open_runner, **settings)

    apply(1, ["07", "abc"])
    apply(2, ["1"], field_merge={"p": "sum long"})
    with pytest.raises(MutatorError, match=r"'abc' is not of type int64, .* replace its record with write_operation"):
        apply(3, ["1", "1"])
    assert table.verify(open_runner=open_runner).problems == ()
    assert {row["id"]: row["p"] for row in table.refresh().scan().to_pylist()} == {"k": "8", "l": "abc"}
    apply(3, ["1", "1"], write_operation="insert_overwrite_table")
    apply(4, ["1", "1"])
    assert {row["id"]: row["p"] for row in table.refresh().scan().to_pylist()} == {"k": "2", "l": "2"}
