"""The same patches give the same records and counts, whatever says that a field is not sent, and in every format.

The reference model says which. Settings: a text, fields that files or rows lack, a field that lists those sent, and
NULL. Fields that a list does not name have values that must not count.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from mutator.table.table import Table
from tests.support.applies_here import applies_here
from tests.support.named_runs import ENGINES, FORMATS, TYPED, Work
from tests.support.patch_model import RECORD, Mutation, Place
from tests.support.patch_runs import COUNTED

__all__ = ["applies_here"]

FIELDS = ("p", "q")
VALUES: dict[str, Sequence[Any]] = {"p": (1, 2, None), "q": ("x", "a~", None)}
TYPES = {"id": pa.string(), "at": pa.int64(), "op": pa.string(), "sent": pa.string(), "p": pa.int64(), "q": pa.string()}
JUNK = {"p": 999, "q": "junk"}
UNKNOWN = ("wait", "insert")
BY_NAME = {"key": "id", "order_by": "at", "op": "op", "consumed.files": "merge", "max.delete.fraction": "1"}


class Source(NamedTuple):
    """What says that a field is not sent."""

    settings: dict[str, str]
    value: Callable[[str], Any] | None = None  # of a field that is not; None: rows lack it
    formats: Sequence[str] = ("csv", "json", *TYPED)
    nulls: bool = True  # a row may set NULL


SOURCES = {
    "value": Source({"unset.value": "~"}, lambda name: "~", ("csv", "json")),
    "absent": Source({"unset.absent": "true"}),
    "list": Source({"columns.to.update": "sent"}, JUNK.__getitem__),
    "null": Source({"ignore.null.updates": "all except op"}, lambda name: None, nulls=False),
}


def mutation(rng: random.Random, source: Source, order: int) -> Mutation:
    op, key = rng.choice("UPPPD"), rng.choice("abcd")
    sent = FIELDS if op == "U" else () if op == "D" else rng.sample(FIELDS, 1)
    values = {name: [one for one in VALUES[name] if source.nulls or one is not None] for name in sent}
    return Mutation(op, key, order, {name: rng.choice(values[name]) for name in sent})


def row_of(source: Source, one: Mutation) -> dict[str, Any]:
    row = {"id": one.key, "at": one.order, "op": one.op.replace("P", "U"), **one.given}
    if source is SOURCES["list"]:
        row["sent"] = ", ".join(one.given) if one.op == "P" else None
    if source.value is None:
        return row if one.op != "D" else {**row, **JUNK}
    return row | {name: source.value(name) for name in FIELDS if name not in one.given}


def put(work: Work, source: Source, file_format: str, feed: str, rows: Sequence[Mutation]) -> None:
    """Write a feed of two files, or of more if a file cannot have rows that lack other fields."""
    files = dict[Any, list[dict[str, Any]]]()
    for number, one in enumerate(rows):
        row = row_of(source, one)
        files.setdefault((number % 2, *(row if file_format != "json" else ())), []).append(row)
    for number, found in enumerate(files.values()):
        name = f"{feed}/f{number}"
        if file_format == "json":
            lines = (json.dumps(row) + "\n" for row in found)
            work.put(f"{name}.json", "".join(lines).encode())
        else:
            names = [name for name in TYPES if name in found[0]]
            texts = source is SOURCES["value"]
            if texts:
                found = [{name: None if one is None else str(one) for name, one in row.items()} for row in found]
            columns = {name: pa.array([row[name] for row in found], None if texts else TYPES[name]) for name in names}
            work.put(name, pa.table(columns), file_format)


def master_of(place: Place, keys: str) -> pa.Table:
    rows = [Mutation("U", key, 5, {"p": 7, "q": "m"}) for key in keys]
    place.run(rows)
    fields = [pa.field(name, TYPES[name], nullable=name in FIELDS[1:]) for name in ("id", "at", *FIELDS)]
    return pa.Table.from_pylist([{"id": one.key, "at": one.order, **one.given} for one in rows], pa.schema(fields))


def expected(place: Place) -> list[tuple[Any, ...]]:
    return [(key, kept.order, *kept.values) for key, kept in place.all(RECORD).items()]


def found(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return rows as the model has them, also those of CSV."""
    return sorted((row["id"], int(row["at"]), int(row["p"]) if row["p"] else None, row["q"] or None) for row in rows)


def runs(rng: random.Random, source: Source) -> list[list[Mutation]]:
    """Return runs of mutations with an order value each; a run may bring again what came before."""
    orders = rng.sample(range(1, 40), 30)
    made = [[mutation(rng, source, orders.pop()) for _ in range(rng.randint(2, 8))] for _ in range(3)]
    return [made[0], made[1] + made[0][:2], made[2]]


def check(work: Work, source: Source, rng: random.Random, place: Place, merge: Any, rows_now: Any) -> None:
    for number, rows in enumerate(runs(rng, source)):
        put(work, source, rng.choice(source.formats), f"feed{number}", rows)
        counts = merge(number)
        wanted = place.run(rows)
        assert found(rows_now()) == expected(place)
        assert {name: counts.get(f"feed {name}", 0) for name in COUNTED} == {name: wanted[name] for name in COUNTED}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rest) for seed in range(1, 12))])
@pytest.mark.parametrize("name", SOURCES)
def test_runs_into_a_directory_give_what_the_model_gives(tmp_path: Path, name: str, seed: int) -> None:
    source, rng = SOURCES[name], random.Random(f"{name} {seed}")
    file_format = rng.choice(FORMATS)
    unknown = "insert" if file_format == "avro" else UNKNOWN[seed % 2]
    place = Place(FIELDS, unknown, order_in_row=True)
    work = Work(tmp_path, settings={**BY_NAME, **source.settings, "patch.unknown": unknown})
    work.put("out0/m", master_of(place, "ab"), file_format)

    def merge(number: int) -> Any:
        work.engine = rng.choice(ENGINES)
        return work.run(master=f"out{number}", feed=f"feed{number}").counts

    check(work, source, rng, place, merge, work.rows)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rest) for seed in range(1, 6))])
@pytest.mark.parametrize("name", SOURCES)
def test_applies_to_a_table_give_what_the_model_gives(tmp_path: Path, name: str, seed: int) -> None:
    source, rng, unknown = SOURCES[name], random.Random(f"{name} {seed}"), UNKNOWN[seed % 2]
    place, work = Place(FIELDS, unknown, order_in_row=True), Work(tmp_path)
    work.put("first/m", master_of(place, "ab"), rng.choice(TYPED))
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at"})
    table.apply(str(tmp_path / "first"))
    first = {**source.settings, "patch.unknown": unknown}  # later applies take them from the table

    def merge(number: int) -> Any:
        settings = {name.replace(".", "_"): value for name, value in (BY_NAME | ({} if number else first)).items()}
        return table.apply(str(tmp_path / f"feed{number}"), **settings).counts

    check(work, source, rng, place, merge, lambda: table.scan().to_arrow().to_pylist())


def test_a_restore_or_another_dialect_makes_a_table_forget_how_fields_are_unset(tmp_path: Path) -> None:
    table, work = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at"}), Work(tmp_path)

    def told(number: int, value: str, **settings: Any) -> Any:
        work.put(f"{number}.csv", f"id,at,p\na,{number},{value}\n".encode())
        table.apply(str(tmp_path / f"{number}.csv"), **settings)
        return table.scan().to_arrow().to_pylist()[0]["p"]

    assert told(1, "x", ignore_null_updates="all") == "x"
    assert told(2, "~", unset_value="~", ignore_null_updates="") == "x"
    assert told(3, "~") == "x"
    assert told(4, "~", unset_value="") == "~"
    table.restore(1)
    assert told(5, "") == "x"
    assert told(6, "~") == "~"
    work.put("7.json", b'{"type": "insert", "data": {"id": "a", "at": "7", "p": null}, "xid": 7, "table": "t"}')
    table.apply(str(tmp_path / "7.json"), feed_dialect="maxwell-json", order_by="at")
    assert table.scan().to_arrow().to_pylist()[0]["p"] is None
