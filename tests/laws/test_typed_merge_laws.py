"""Merge functions of typed fields give what the reference model gives, in files of every format and in tables.

Fields that a file lacks are unset; NULL is a value. NaN and -0.0 are among floats, and nanoseconds among times.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.table.table import Table
from tests.laws.test_merge_laws import FIELDS, merge_world
from tests.support.applies_here import applies_here
from tests.support.effort import share
from tests.support.named_runs import ENGINES, TYPED, Work, table_of
from tests.support.patch_model import RECORD, Mutation, Place
from tests.support.patch_runs import COUNTED

__all__ = ["applies_here"]

NANO = 1_600_000_000_123_456_000
NANOS = [NANO, NANO + 1, NANO - 1, None]  # as numbers, because Python's times have microseconds
TIMES = [datetime(2020, 1, 1, 0, 0, 0, 1), datetime(1960, 1, 1), datetime(2020, 1, 1), None]  # noqa: DTZ001
TYPES: dict[str, tuple[Any, Sequence[Any]]] = {
    "int32": (pa.int32(), [1, -2, 30, None]),
    "int64": (pa.int64(), [1 << 53, -(1 << 53) - 1, 0, None]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-7.50"), Decimal("0.00"), None]),
    "float": (pa.float32(), [1.5, math.nan, 0.0, -0.0, -math.inf, None]),
    "double": (pa.float64(), [1.5, math.nan, 0.0, -0.0, math.inf, None]),
    "string": (pa.string(), ["a", "", "\xe4", None]),
    "binary": (pa.binary(), [b"a", b"", b"\xff", None]),
    "bool": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [date(2020, 1, 1), date(1960, 1, 1), None]),
    "micros": (pa.timestamp("us"), TIMES),
    "zoned": (pa.timestamp("us", "UTC"), TIMES),
    "nanos": (pa.timestamp("ns"), NANOS),
    "list": (pa.list_(pa.int32()), [[1], [], [None, 2], None]),
    "struct": (pa.struct([("x", pa.float64())]), [{"x": 1.0}, {"x": math.nan}, {"x": None}, None]),
}
ANY, ORDERED = ("first", "first_non_null", "last_non_null"), ("min", "max")
CHOICES = {
    f"{function} {name}": values
    for name, (_, values) in TYPES.items()
    for function in (
        *ANY,
        *(ORDERED if name not in ("list", "struct") else ()),
        *(["sum"] if name in ("int32", "int64", "decimal") else ()),
        "last",
    )
}
LESS = {  # types that a format has not, or that its readers here give another form
    "json": ("float", "double", "binary", "date", "micros", "zoned", "nanos", "struct"),
    "orc": ("micros", "zoned"),
    "avro": ("micros", "zoned", "nanos"),
}
SETTINGS = {
    "key": "id",
    "order_by": "at",
    "op": "op",
    "consumed.files": "merge",
    "max.delete.fraction": "1",
    "unset.absent": "true",
    "truncate.op.code": "T",
}


def plain_type(data_type: Any) -> Any:
    """Return the type of values that have no zone, and numbers for nanoseconds."""
    if not pa.types.is_timestamp(data_type):
        return data_type
    return pa.int64() if data_type.unit == "ns" else pa.timestamp(data_type.unit)


def column(values: Sequence[Any], data_type: Any) -> Any:
    return pa.array(values, plain_type(data_type)).cast(data_type)


def plain(table: Any) -> list[dict[str, Any]]:
    names = table.schema.names
    return pa.table([one.cast(plain_type(one.type)) for one in table.columns], names).to_pylist()


def choices(formats: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Return the functions and types of fields that all formats have."""
    without = {name for one in formats for name in LESS.get(one, ())}
    return {key: values for key, values in CHOICES.items() if key.split()[1] not in without}


class Typed:
    """Files of a world, and what the model says."""

    def __init__(self, path: Path, rng: random.Random, functions: Mapping[str, str], unknown: str) -> None:
        self.work, self.rng = Work(path), rng
        self.types = {name: TYPES[text.split()[1]][0] for name, text in functions.items()}
        own = {name: text.split()[0] for name, text in functions.items()}
        self.settings = {**SETTINGS, "patch.unknown": unknown}
        self.settings |= {f"field.merge.{name}": function for name, function in own.items()}
        merges = {name: function for name, function in own.items() if function != "last"}
        self.place = Place(FIELDS, unknown, order_in_row=True, functions=merges)
        self.feeds = 0

    def table(self, rows: Sequence[Mutation], names: Sequence[str], *, op: bool = True) -> Any:
        columns = {
            "id": column([one.key for one in rows], pa.string()),
            "at": column([one.order for one in rows], pa.int64()),
        }
        if op:
            columns["op"] = column([one.op if one.op in "DT" else "U" for one in rows], pa.string())
        for name in names:
            columns[name] = column([one.given.get(name) for one in rows], self.types[name])
        return pa.table(columns)

    def feed(self, rows: Sequence[Mutation], formats: Sequence[str]) -> str:
        """Write a feed: a file for each set of fields; its name is returned."""
        self.feeds += 1
        name = f"feed{self.feeds}"
        kinds = dict[tuple[str, ...], list[Mutation]]()
        file_format = self.rng.choice(formats)
        for one in rows:
            sent = tuple(field for field in FIELDS if field in one.given)
            kinds.setdefault(sent, []).append(one)
        self.last = [one for found in kinds.values() for one in found]
        for number, (sent, found) in enumerate(kinds.items()):
            if file_format == "json":
                lines = (
                    {"id": one.key, "at": one.order, "op": one.op if one.op in "DT" else "U", **one.given}
                    for one in found
                )
                texts = (json.dumps(row, default=float) + "\n" for row in lines)
                self.work.put(f"{name}/f{number}.json", "".join(texts).encode())
            else:
                self.work.put(f"{name}/f{number}", self.table(found, sent), file_format)
        return name

    def check(self, counts: Any, rows: Sequence[dict[str, Any]]) -> None:
        wanted = self.place.run(self.last)
        found = {row["id"]: (row["at"], *(row[name] for name in FIELDS)) for row in rows}
        expected = {key: (kept.order, *kept.values) for key, kept in self.place.all(RECORD).items()}
        found, expected = (repr(sorted(one.items())) for one in (found, expected))
        assert found == expected, f"{found} {expected}"
        assert {name: counts.get(f"feed {name}", 0) for name in COUNTED} == {name: wanted[name] for name in COUNTED}


def run_directory(path: Path, rng: random.Random, file_format: str, formats: Sequence[str]) -> Typed:
    unknown = "insert" if file_format == "avro" else rng.choice(["insert", "wait"])
    functions, master, runs = merge_world(rng, choices([file_format, *formats]))
    typed = Typed(path, rng, functions, unknown)
    master = master or [Mutation("U", "z", 1, dict.fromkeys(FIELDS))]
    typed.place.run(master)
    typed.work.put("out0/m", typed.table(master, FIELDS, op=False), file_format)
    for rows in filter(None, runs):
        before, feed = typed.work.runs, typed.feed(rows, formats)
        typed.work.engine = rng.choice(ENGINES)
        counts = typed.work.run(typed.settings, master=f"out{before}", feed=feed).counts
        files = typed.work.files
        typed.check(
            counts,
            typed.work.rows() if file_format == "avro" else [row for one in files for row in plain(table_of(one))],
        )
    return typed


def run_table(path: Path, rng: random.Random, formats: Sequence[str]) -> Typed:
    functions, master, runs = merge_world(rng, choices(["orc", *formats]))
    typed = Typed(path, rng, functions, rng.choice(["insert", "wait"]))
    table = Table.create(str(path / "table"), typed.settings)
    master = master or [Mutation("U", "z", 1, dict.fromkeys(FIELDS))]
    for rows in filter(None, [master, *runs]):
        feed = typed.feed(rows, TYPED[1:] if rows is master else formats)
        counts = table.apply(str(path / feed)).counts
        typed.check(counts, plain(table.scan().to_arrow()))
        if rng.random() < 0.3:
            before = repr(sorted(plain(table.scan().to_arrow()), key=repr))
            table.compact(everything=True)
            assert repr(sorted(plain(table.scan().to_arrow()), key=repr)) == before
    return typed


FORMS = [
    ("parquet", ["parquet", "avro", "orc"]),
    ("orc", ["orc", "parquet"]),
    ("avro", ["avro"]),
    ("parquet", ["json"]),
]
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.rest) for seed in range(1, 8))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("file_format", "formats"), FORMS, ids=lambda one: one if isinstance(one, str) else one[-1])
def test_runs_into_typed_files_give_what_the_model_gives(
    file_format: str, formats: Sequence[str], seed: int, tmp_path: Path
) -> None:
    for number in range(share(30)):
        path = tmp_path / str(number)
        run_directory(path, random.Random(f"{seed} {number} {file_format}"), file_format, formats)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("formats", [["parquet", "orc", "avro"], ["json"]], ids=["typed", "json"])
def test_applies_to_a_typed_table_give_what_the_model_gives(formats: Sequence[str], seed: int, tmp_path: Path) -> None:
    for number in range(share(20)):
        path = tmp_path / str(number)
        path.mkdir()
        run_table(path, random.Random(f"{seed} {number}"), formats)
