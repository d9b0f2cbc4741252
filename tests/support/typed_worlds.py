"""Random masters and feeds with typed fields, for every file format."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from mutator.formats.values.scalar_text import as_text as as_values
from tests.support.columns_data import HEADER, file_of
from tests.support.no_limits import NO_LIMITS

COLUMNS = ["csv", "escaped", "avro", "parquet", "orc"]
OF_FEEDS = [*COLUMNS, "json"]

DELIMITERS = [",", "\t", "|", "\x01", ";"]

BY_NAME, BY_LONG, BY_TIME, BY_TWO = "file name", "long", "timestamp", "long, long desc"
BESIDE = {f"{order}, beside the rows": order for order in (BY_LONG, BY_TIME, BY_TWO)}  # with op codes

_START = datetime(2026, 1, 31, 10, tzinfo=UTC)


def schema_of(order: str, *, op: bool) -> Any:
    beside, order = order in BESIDE, BESIDE.get(order, order)
    fields = [
        pa.field("id", pa.string()),
        pa.field("shop", pa.int64()),
        pa.field("at", pa.timestamp("ns", "UTC") if order == BY_TIME else pa.int64()),
        pa.field("note", pa.string()),
        pa.field("price", pa.decimal128(7, 2)),
    ]
    fields += [pa.field("part", pa.int64())] if order == BY_TWO else []
    if beside and not op:  # of a master
        fields = [field for field in fields if field.name not in ("at", "part")]
    return pa.schema([*fields, pa.field("op", pa.string())] if op else fields)


@dataclass(frozen=True)
class World:
    """A master and the feeds of some runs, as rows, with the settings of the runs."""

    order: str
    full: bool
    op: bool
    master: tuple[tuple[dict[str, Any], ...], ...]  # the rows of each file
    feeds: tuple[tuple[tuple[str, tuple[dict[str, Any], ...]], ...], ...]  # the files of a run: stem, rows
    seed: int

    @property
    def beside(self) -> bool:
        """Whether order values are kept beside the rows."""
        return self.order in BESIDE

    def settings(self, *formats: str) -> dict[str, str]:
        made = {
            "field.names": ",".join(schema_of(self.order, op=self.op).names),
            "id.field.ordinals": "id,shop",
            **NO_LIMITS,
            "late.files": "merge",
            "allow.empty.master": "true",
            "reused.names": "accept",
            "allow.older.snapshot": "true",
            "sync.mode": "full" if self.full else "partial",
        }
        if self.order != BY_NAME:
            order_type = BESIDE.get(self.order, self.order)
            fields = "at,part" if order_type == BY_TWO else "at"
            made |= {"temporal.ordering.field.ordinal": fields, "temporal.ordering.field.type": order_type}
            made |= {"order.keep": "false"} if self.beside else {}
        if self.op:
            made |= {"op.code.field.ordinal": "op", "op.code.in.master": "false"}
        elif not self.full:
            made["deleted.record.file.prefix"] = "del"
        for side, file_format in zip(("master", "feed"), formats, strict=True):
            if file_format == "csv":  # ordinals alone make delimited text of it
                made |= {f"{side}.format": "csv", "header.lines": "1"}
            if file_format == "escaped":
                made |= {
                    f"{side}.format": "escaped",
                    "header.lines": "1",
                    "field.delim.regex": self.delimiter(*formats),
                }
        return made

    def delimiter(self, *formats: str) -> str:
        return DELIMITERS[self.seed % len(DELIMITERS)] if set(formats) == {"escaped"} else ","


def make_world(rng: random.Random, notes: Sequence[str | None]) -> World:
    order = rng.choice([BY_NAME, BY_LONG, BY_TIME, BY_TWO, *BESIDE])
    beside, order_type = order in BESIDE, BESIDE.get(order, order)
    units = 2 if order_type == BY_TWO else 1
    full = not beside and rng.random() < 0.15
    op = beside or (not full and rng.random() < 0.5)
    sent: list[dict[str, Any]] = []

    def at(number: int) -> Any:
        return _START + timedelta(milliseconds=500 * number) if order_type == BY_TIME else number // units

    def row(*, of_feed: bool) -> dict[str, Any]:
        if of_feed and beside and sent and rng.random() < 0.3:  # a touch, if the record is still this one
            return {**rng.choice(sent), "at": at(rng.randrange(10)), "op": "U"}
        number = rng.randrange(5)
        made = {
            "id": rng.choice(["", "a", "b", "é", "a,b"] if None in notes else ["", "a", "b", "é"]),
            "shop": rng.choice([-1, 0, 12]),
            "at": at(number),
            "note": rng.choice(notes),
            "price": rng.choice([None, "1.50", "-0.01"] if None in notes else ["1.50", "-0.01"]),
        }
        made["price"] = None if made["price"] is None else __import__("decimal").Decimal(made["price"])
        made |= {"part": -(number % 2)} if units == 2 else {}
        made |= {"op": rng.choice(["I", "U", "D"])} if of_feed and op else {}
        sent.extend([made] if of_feed else [])
        return made

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
    """Write delimited text with the timestamps of CSV."""
    lines = file_of("csv", table).decode().splitlines()
    return "".join(f"{line}\n" for line in lines[1:]).replace('"', "").encode()


def as_json_lines(table: Any, style: int) -> bytes:
    """Write JSON Lines with the values of CSV: with or without blanks, escapes beyond ASCII, and members for NULL."""
    blank, lines = " " if style == 1 else "", []
    texts = {
        name: as_values(column.combine_chunks()).to_pylist()
        for name, column in zip(table.schema.names, table, strict=True)
    }
    numbers = {field.name for field in table.schema if field.type == pa.int64() or pa.types.is_decimal(field.type)}
    for row in range(len(table)):
        members = []
        for name, values in texts.items():
            text = None if values[row] is None else values[row].decode()
            value = text if name in numbers and text else json.dumps(text, ensure_ascii=style == 2)
            if text is not None or style != 3:
                members.append(f'"{name}":{blank}{value}')
        lines.append(f"{{{f',{blank}'.join(members)}}}\n")
    return "".join(lines).encode()


def put(path: Path, file_format: str, rows: Sequence[dict[str, Any]], schema: Any, batch: int, delimiter: str) -> None:
    table = pa.Table.from_pylist(list(rows), schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    if file_format == "text":
        content = as_text(table)
    elif file_format == "json":
        content = as_json_lines(table, batch)
    else:
        content = file_of(file_format, table, replace(HEADER, delimiter=delimiter.encode()), batch)
    path.write_bytes(content)


def worlds(notes: Sequence[str | None]) -> st.SearchStrategy[World]:
    return st.randoms(use_true_random=False).map(lambda rng: make_world(rng, notes))
