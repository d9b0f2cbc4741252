"""Random masters and feeds of delimited text.

Values come from short lists, so that ties, late rows, deletes, re-inserts and repeated rows are common.
"""

from __future__ import annotations

import gzip
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from mutator.rules.order_tuples import encode
from mutator.rules.order_types import parts_of
from mutator.rules.order_values import is_tuple, order_parser
from tests.support.model import Key, Row
from tests.support.no_limits import NO_LIMITS

# Order values from low to high: first the form in which a tombstone has the value, then other spellings. Compared as
# text or as floats, many of them would have another order.
ORDERS: dict[str, list[tuple[bytes, ...]]] = {
    "long": [(b"-7", b"-07"), (b"0", b"-0"), (b"9", b"+9"), (b"10",), (b"9007199254740992",), (b"9007199254740993",)],
    "decimal": [(b"-1.5", b"-1.50"), (b"0", b"0.0", b"-0"), (b"0.25", b".25", b"25e-2"), (b"9",), (b"10", b"1e1")],
    "timestamp": [
        (b"1969-12-31T23:59:59Z",),
        (b"2026-01-31T10:00:00Z", b"2026-01-31 10:00", b"2026-01-31T12:00:00.000+02:00"),
        (b"2026-01-31T10:00:00.05Z",),
        (b"2026-01-31T10:00:00.1Z", b"2026-01-31T10:00:00.100"),
        (b"2026-01-31T11:00:00Z", b"2026-01-31T09:00:00-02:00", b"20260131T110000Z"),
    ],
    "string": [(b"",), (b"10",), (b"9",), (b"Z",), (b"\xc3\xa9",), (b"\xff",)],
    # Of two fields, whose values are here with a comma between them.
    "long, string desc": [(b"-7,a",), (b"9,b\0", b"+9,b\0"), (b"9,b", b"09,b"), (b"9,a\xff",), (b"9,",), (b"10,b",)],
}

BY_NAME = "file name"


def order_of(order_type: str, text: bytes) -> Any:
    """Return the order value of a text of ORDERS."""
    if not is_tuple(order_type):
        return order_parser(order_type)(text)
    parsers = [order_parser(part.type) for part in parts_of(order_type)]
    return encode(order_type, [parse(field) for parse, field in zip(parsers, text.split(b","), strict=True)])


FIRST_IDS = [b"", b"a", b"b", b"\xff", b"\xc3\xa9"]

SECOND_IDS = [b"", b"a"]

# The base names compare as bytes: 0xFF comes after U+E000; Python orders the two names the other way round.
STEMS = ["u", "v", "\ue000", "\udcff"]

SEQUENCES = ["2", "02", "10", "1"]

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class RowPlan:
    """The fields of rows, and the form of a delete."""

    columns: tuple[str, ...]  # of a feed row
    key: tuple[str, ...]
    order: str  # one of ORDERS, or BY_NAME
    deletes: str  # "op code", "delete file" or "none"
    keeps_op: bool
    master_has_op: bool
    field_count: str
    header: bool = False  # all files except the program's own begin with a line that is not a row

    @property
    def ids_alone(self) -> bool:
        """Return whether the first row of a delete file shows that its rows are IDs alone."""
        needed = 1 + max(self.columns.index(name) for name in self.key)
        whole = needed if self.field_count == "any" else len(self.columns)
        return self.deletes == "delete file" and self.order == BY_NAME and len(self.key) < whole

    @property
    def written(self) -> tuple[str, ...]:
        """Return the columns of a row in the order in which it is written."""
        return tuple(name for name in self.columns if name != "op" or self.keeps_op)

    def settings(self) -> dict[str, str]:
        place = self.columns.index
        made = {
            "id.field.ordinals": ",".join(str(place(name)) for name in self.key),
            "field.count": self.field_count,
            "allow.empty.master": "true",
            **NO_LIMITS,
            "header.check": "false",  # random rows may look like headers
        }
        if self.header:
            made["header.lines"] = "1"
        if self.order != BY_NAME:
            fields = ("order", "rest") if "rest" in self.columns else ("order",)
            made["temporal.ordering.field.ordinal"] = ",".join(str(place(name)) for name in fields)
            made["temporal.ordering.field.type"] = self.order
        if self.deletes == "op code":
            made["op.code.field.ordinal"] = str(place("op"))
            made["deleted.op.code"] = "D,X"
            made["op.code.keep"] = str(self.keeps_op).lower()
            made["op.code.in.master"] = str(self.master_has_op).lower()
        elif self.deletes == "delete file":
            made["deleted.record.file.prefix"] = "del"
        return made


@dataclass(frozen=True)
class Line:
    """One line of a file; the key is None if the line has no record."""

    raw: bytes
    key: Key | None = None
    order: int = -1  # index in ORDERS, if a field gives the order
    is_delete: bool = False
    written: bytes = b""


@dataclass(frozen=True)
class File:
    """A file of the master or of the feed; ``place`` is the number of its directory."""

    place: int
    name: str
    sequence: int
    lines: tuple[Line, ...]
    line_end: bytes = b"\n"
    last_end: bool = True  # the last line ends with a line end
    before: bytes = b""  # a byte order mark, a header

    def content(self) -> bytes:
        data = self.before + b"".join(line.raw + self.line_end for line in self.lines)
        if not self.last_end and self.lines and self.lines[-1].raw:
            data = data.removesuffix(self.line_end)
        return gzip.compress(data, mtime=0) if self.name.endswith(".gz") else data

    def rows(self, shape: RowPlan) -> Iterator[Row]:
        """Yield the records as rows of the model."""
        offset = len(self.before)
        for line in self.lines:
            if line.key is not None:
                order = self.sequence if shape.order == BY_NAME else line.order
                name = os.fsencode(self.name)
                yield Row(line.key, order, self.sequence, name, offset, line.raw, line.is_delete, line.written)
            offset += len(line.raw) + len(self.line_end)


@dataclass(frozen=True)
class World:
    """A master and a feed."""

    shape: RowPlan
    master: tuple[File, ...]
    feed: tuple[File, ...]

    def feed_rows(self) -> list[Row]:
        return [row for file in self.feed for row in file.rows(self.shape)]


def make_shape(rng: random.Random, deletes: str | None = None, bad: bool = False) -> RowPlan:
    deletes = deletes or rng.choice(["op code", "delete file"])
    columns = ["id1", "id2", "order", "value"] + ["op"] * (deletes == "op code")
    rng.shuffle(columns)
    keeps = deletes == "op code" and rng.random() < 0.3
    order = rng.choice([*ORDERS, BY_NAME, BY_NAME])
    if "," in order:
        columns.insert(rng.randrange(len(columns) + 1), "rest")
    return RowPlan(
        columns=tuple(columns),
        key=rng.choice([("id1",), ("id1", "id2"), ("id2", "id1")]),
        order=order,
        deletes=deletes,
        keeps_op=keeps,
        master_has_op=deletes == "op code" and (keeps or rng.random() < 0.5),
        # Only a fixed width allows rejects.
        field_count=str(len(columns)) if bad else rng.choice([str(len(columns)), "any"]),
        header=rng.random() < 0.15,
    )


def make_line(rng: random.Random, shape: RowPlan, is_delete: bool, *, of_master: bool, full_row: bool = True) -> Line:
    order = rng.randrange(len(ORDERS[shape.order])) if shape.order != BY_NAME else -1
    code = rng.choice([b"D", b"X"] if is_delete else [b"U", b"I", b""])
    first, _, rest = (rng.choice(ORDERS[shape.order][order]) if shape.order != BY_NAME else b"").partition(b",")
    cells = {
        "id1": rng.choice(FIRST_IDS),
        "id2": rng.choice(SECOND_IDS),
        "order": first,
        "rest": rest,
        "value": rng.choice([b"x", b"y"]),
        "op": code,
    }
    key = tuple(cells[name] for name in shape.key)
    if not full_row:
        row = b",".join(key)
        return Line(row, key, order, True, row) if row else Line(b"")  # only an empty ID makes a blank line
    has_op = shape.master_has_op if of_master else True
    raw = b",".join(cells[name] for name in shape.columns if name != "op" or has_op)
    return Line(raw, key, order, is_delete, b",".join(cells[name] for name in shape.written))


def as_first_row(lines: list[Line], key_width: int) -> list[Line]:
    """Return the lines of a delete file as the first row decides: those of IDs alone, or whole rows, are rejects."""
    widths = [line.raw.count(b",") + 1 if line.raw else None for line in lines]
    of_ids = next((width for width in widths if width), None) == key_width
    return [
        line if (width == key_width) == of_ids or width is None else Line(line.raw)
        for line, width in zip(lines, widths, strict=True)
    ]


def make_file(rng: random.Random, shape: RowPlan, *, of_master: bool, bad: bool, most: int, places: int) -> File:
    number = rng.choice(SEQUENCES)
    named = (shape.order == BY_NAME and not of_master) or rng.random() < 0.6
    in_delete_file = shape.deletes == "delete file" and rng.random() < 0.4
    stem = ("del" if in_delete_file else "") + rng.choice(STEMS)
    # If file names give the order, the rows of a delete file may be IDs alone.
    of_ids = not of_master and shape.ids_alone and rng.random() < 0.5
    lines = []
    for _ in range(rng.randint(0, most)):
        is_delete = not of_master and (in_delete_file or (shape.deletes == "op code" and rng.random() < 0.4))
        odd = bad and rng.random() < 0.2
        full_row = not (in_delete_file and of_ids) or odd
        lines.append(make_line(rng, shape, is_delete, of_master=of_master, full_row=full_row))
        if rng.random() < 0.15:
            lines.append(rng.choice(lines))  # the same row twice
        if rng.random() < 0.1:
            lines.append(Line(b""))
        if bad and rng.random() < 0.2:
            lines.append(Line(b"," * 9))
    if not of_master and in_delete_file and shape.ids_alone:
        lines = as_first_row(lines, len(shape.key))
    line_end = rng.choice([b"\n", b"\n", b"\r\n", b"\r"])
    before = (BOM if rng.random() < 0.1 and lines else b"") + (b"id,and,so,on" + line_end if shape.header else b"")
    return File(
        place=rng.randrange(places),
        name=stem + (f"_{number}" if named else "") + rng.choice([".txt", ".txt", ".txt.gz"]),
        sequence=int(number) if named else -1,
        lines=tuple(lines),
        line_end=line_end,
        last_end=rng.random() < 0.8,
        before=before,
    )


def make_files(rng: random.Random, shape: RowPlan, count: int, **options: Any) -> tuple[File, ...]:
    made = [make_file(rng, shape, **options) for _ in range(count)]
    return tuple({(file.place, file.name): file for file in made}.values())


def make_world(rng: random.Random, *, deletes: str | None = None, bad: bool = False, most: int = 4) -> World:
    shape = make_shape(rng, deletes, bad)
    return World(
        shape,
        make_files(rng, shape, rng.randint(0, 3), of_master=True, bad=bad, most=most, places=1),
        make_files(rng, shape, rng.randint(1, 4), of_master=False, bad=bad, most=most, places=2),
    )


def worlds(**options: Any) -> st.SearchStrategy[World]:
    return st.randoms(use_true_random=False).map(lambda rng: make_world(rng, **options))


def make_snapshots(rng: random.Random) -> tuple[RowPlan, list[tuple[File, ...]]]:
    """Create snapshots in order: a key never comes again with a lower order value than before."""
    shape = replace(make_shape(rng, "none"), header=False)
    snapshots = []
    lowest: Counter[Key] = Counter()
    sequence = 0
    for _ in range(rng.randint(1, 4)):
        sequence += rng.choice([0, 1, 9])
        files = []
        seen: Counter[Key] = Counter()
        for number in range(rng.randint(1, 2)):
            lines = [make_line(rng, shape, False, of_master=False) for _ in range(rng.randint(1, 6))]
            lines = [line for line in lines if line.order >= lowest[line.key]] if shape.order != BY_NAME else lines
            for line in lines:
                seen[line.key] = max(seen[line.key], line.order)
            files.append(File(0, f"s{number}_{sequence}.txt", sequence, tuple(lines)))
        if any(file.lines for file in files):
            snapshots.append(tuple(files))
            for key, order in seen.items():
                lowest[key] = max(lowest[key], order)
    return shape, snapshots
