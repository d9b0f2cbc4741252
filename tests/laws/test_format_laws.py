"""One merge, whatever the files are: text of each kind, Avro, Parquet and ORC give the same records and outcomes.

That of delimited text equals the reference model (``test_laws``), so the others do.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mutator.dataset import manifest
from mutator.dataset.side_columns import read_tombstones
from mutator.formats.content import InMemory, Window
from mutator.formats.files.contract import Dialect
from mutator.formats.files.registry import FILE_FORMATS
from mutator.formats.values.convert import converted
from mutator.rules.typed_values import exact
from tests.laws.test_laws import scratch
from tests.support import local_engine
from tests.support.columns_data import HEADER, file_of, read_whole

COLUMNS = ["csv", "escaped", "avro", "parquet", "orc"]
DELIMITERS = [",", "\t", "|", "\x01", ";"]
BY_NAME, BY_LONG, BY_TIME = "file name", "long", "timestamp"
_START = datetime(2026, 1, 31, 10, tzinfo=UTC)


def schema_of(order: str, *, op: bool) -> Any:
    fields = [
        pa.field("id", pa.string()),
        pa.field("shop", pa.int64()),
        pa.field("at", pa.timestamp("ns", "UTC") if order == BY_TIME else pa.int64()),
        pa.field("note", pa.string()),
        pa.field("price", pa.decimal128(7, 2)),
    ]
    return pa.schema([*fields, pa.field("op", pa.string())] if op else fields)


@dataclass(frozen=True)
class World:
    """A master and the feeds of some runs, as rows; and what is done with them."""

    order: str
    full: bool
    op: bool
    master: tuple[tuple[dict[str, Any], ...], ...]  # rows of each file
    feeds: tuple[tuple[tuple[str, tuple[dict[str, Any], ...]], ...], ...]  # a run's files: stem, rows
    seed: int

    def settings(self, *kinds: str) -> dict[str, str]:
        made = {
            "field.names": ",".join(schema_of(self.order, op=self.op).names),
            "id.field.ordinals": "id,shop",
            "max.delete.fraction": "1",
            "late.files": "merge",
            "reused.names": "accept",
            "allow.older.snapshot": "true",
            "sync.mode": "full" if self.full else "partial",
        }
        if self.order != BY_NAME:
            made |= {"temporal.ordering.field.ordinal": "at", "temporal.ordering.field.type": self.order}
        if self.op:
            made |= {"op.code.field.ordinal": "op", "op.code.in.master": "false"}
        elif not self.full:
            made["deleted.record.file.prefix"] = "del"
        for side, kind in zip(("master", "feed"), kinds, strict=True):
            if kind == "csv":  # ordinals alone make delimited text of it
                made |= {f"{side}.format": "csv", "header.lines": "1"}
            if kind == "escaped":
                made |= {f"{side}.format": "escaped", "header.lines": "1", "field.delim.regex": self.delimiter(*kinds)}
        return made

    def delimiter(self, *kinds: str) -> str:
        return DELIMITERS[self.seed % len(DELIMITERS)] if set(kinds) == {"escaped"} else ","


def make_world(rng: random.Random, notes: Sequence[str | None]) -> World:
    order = rng.choice([BY_NAME, BY_LONG, BY_TIME])
    full = rng.random() < 0.15
    op = not full and rng.random() < 0.5

    def row(*, of_feed: bool) -> dict[str, Any]:
        number = rng.randrange(5)
        made = {
            "id": rng.choice(["", "a", "b", "é", "a,b"] if None in notes else ["", "a", "b", "é"]),
            "shop": rng.choice([-1, 0, 12]),
            "at": _START + timedelta(milliseconds=500 * number) if order == BY_TIME else number,
            "note": rng.choice(notes),
            "price": rng.choice([None, "1.50", "-0.01"] if None in notes else ["1.50", "-0.01"]),
        }
        made["price"] = None if made["price"] is None else __import__("decimal").Decimal(made["price"])
        return made | ({"op": rng.choice(["I", "U", "D"])} if of_feed and op else {})

    def rows(*, of_feed: bool) -> tuple[dict[str, Any], ...]:
        return tuple(row(of_feed=of_feed) for _ in range(rng.randint(1 if full else 0, 6)))

    feeds = []
    for run in range(rng.randint(1, 3)):
        stems = [
            f"{'del' if not op and not full and rng.random() < 0.3 else 'ups'}_{run}{n}_{rng.randrange(9)}"
            for n in range(1 if full else rng.randint(1, 3))
        ]
        feeds.append(tuple((stem, rows(of_feed=True)) for stem in stems))
    return World(order, full, op, tuple(rows(of_feed=False) for _ in range(2)), tuple(feeds), rng.randrange(1 << 30))


def as_text(table: Any) -> bytes:
    """Write delimited text; timestamps as CSV has them."""
    lines = file_of("csv", table).decode().splitlines()
    return "".join(f"{line}\n" for line in lines[1:]).replace('"', "").encode()


def put(path: Path, kind: str, rows: Sequence[dict[str, Any]], schema: Any, batch: int, delimiter: str) -> None:
    table = pa.Table.from_pylist(list(rows), schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = (
        as_text(table) if kind == "text" else file_of(kind, table, replace(HEADER, delimiter=delimiter.encode()), batch)
    )
    path.write_bytes(content)


@dataclass(frozen=True)
class Left:
    """What a chain of runs leaves."""

    records: list[Any]
    tombstones: list[Any]
    counts: list[dict[str, int]]
    samples: list[Any]


def run_all(work: Path, world: World, kind: str, *, feed_kind: str | None = None, engine: str | None = None) -> Left:
    """Do all runs of a world with files of a kind."""
    rng = random.Random(world.seed)
    feed_kind = feed_kind or kind
    delimiter = world.delimiter(kind, feed_kind)
    for number, rows in enumerate(world.master):
        path = work / "master" / f"m{number}{FILE_FORMATS[kind].suffix}"
        put(path, kind, rows, schema_of(world.order, op=False), rng.randint(1, 3), delimiter)
    master, counts, samples = work / "master", [], []
    for run, files in enumerate(world.feeds):
        feed = work / f"feed{run}"
        for stem, rows in files:
            path = feed / f"{stem}{FILE_FORMATS[feed_kind].suffix}"
            put(path, feed_kind, rows, schema_of(world.order, op=world.op), rng.randint(1, 3), delimiter)
        output = work / f"out{run}"
        speed = {
            "num.reducer": str(rng.choice([1, 2, 2, 4, 7])),
            "split.bytes": str(rng.choice([64, 300, 1 << 20])),
            "memory.bytes": str(rng.choice([1, 200, 1 << 27])),
        }
        report = local_engine.mutate(
            {**world.settings(kind, feed_kind), **speed},
            master=str(master),
            feed=[str(feed)],
            output=str(output),
            engine=engine or rng.choice(["records", "blocks"]),
        )
        master = output
        counts.append({name: n for name, n in report.counts.items() if n and not name.endswith(" ignored")})
        samples.append(report.samples)
    return Left(*_left(master, kind, world, delimiter), counts, samples)


def _left(output: Path, kind: str, world: World, delimiter: str) -> tuple[list[Any], list[Any]]:
    known = manifest.parse((output / manifest.PATH).read_bytes(), str(output))
    schema, records, tombstones = schema_of(world.order, op=False), [], []
    for part in known.files:
        for found in _read(kind, (output / part.path).read_bytes(), schema, delimiter):
            columns = [
                converted(found.batch.column(number), one.type, typed=FILE_FORMATS[kind].typed)[0]
                for number, one in enumerate(schema)
            ]
            records += zip(*(exact(column).to_pylist() for column in columns), strict=True)
    for part in known.beside:
        if part.role == "tombstones":
            with open(output / part.path, "rb") as stream:
                tombstones += [(key, order) for key, order, _ in read_tombstones(stream)]
    return sorted(records, key=repr), sorted(tombstones, key=repr)


def _read(kind: str, data: bytes, schema: Any, delimiter: str) -> Any:
    if kind in ("text", "escaped"):  # which are written without a header
        return FILE_FORMATS[kind].read(
            InMemory(data, Window("exact lf")), schema, schema.names, Dialect(delimiter.encode())
        )
    return read_whole(kind, data)


def worlds(notes: Sequence[str | None]) -> st.SearchStrategy[World]:
    return st.randoms(use_true_random=False).map(lambda rng: make_world(rng, notes))


@given(worlds(["x", "y", "longer"]))
@settings(max_examples=20)
def test_all_formats_are_merged_alike(world):
    with scratch() as work:
        expected = run_all(work / "text", world, "text")
        for kind in COLUMNS:
            assert run_all(work / kind, world, kind) == expected, kind


@given(worlds([None, "", "x", 'q"', "a,b", "l\nf", "\r", "\\N"]), st.sampled_from(COLUMNS), st.sampled_from(COLUMNS))
@settings(max_examples=30)
def test_a_feed_of_another_format_is_merged_alike(world, kind, feed_kind):
    with scratch() as work:
        expected = run_all(work / "one", world, kind, engine="records")
        assert run_all(work / "two", world, kind, feed_kind=feed_kind) == expected


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_same_feed_again_changes_nothing(kind, tmp_path):
    for seed in range(15):
        rng = random.Random(seed)
        world = make_world(rng, [None, "", "x"])
        if world.full or world.order == BY_NAME:
            continue
        work = tmp_path / str(seed)
        once = run_all(work / "once", World(**{**vars(world), "feeds": world.feeds[:1]}), kind)
        twice = World(**{**vars(world), "feeds": (world.feeds[0], world.feeds[0])})
        again = run_all(work / "again", twice, kind)

        assert (again.records, again.tombstones) == (once.records, once.tombstones)
