"""Lines that Arrow reads at once: the same rows and rejects as of lines that are read one by one."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from decimal import Decimal, InvalidOperation
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.formats.content import Window
from mutator.formats.files import json_lines, json_shapes
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.json_columns import UsualLines
from mutator.formats.files.json_shapes import Shapes
from mutator.rules.json_paths import NULLS, OTHERS
from tests.support.effort import law
from tests.support.in_memory import InMemory

OBJECT = pa.struct([("x", pa.int64()), ("y", pa.string())])
FIELDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "n": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "s": (pa.string(), st.text(max_size=5) | st.sampled_from(['"', "\\", '":', '\\":', 'a","s":"b', "null", "{}"])),
    "f": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9)),
    "b": (pa.bool_(), st.booleans()),
    "d": (pa.decimal128(9, 2), st.sampled_from([1.5, 7, -0.25, "1.10"])),
    "t": (pa.timestamp("us"), st.sampled_from(["2026-01-01 00:00:00", "x"])),
    "o": (OBJECT, st.fixed_dictionaries({}, optional={"x": st.integers(-1, 1) | st.none(), "y": st.text(max_size=3)})),
}
SCHEMA = pa.schema(
    [pa.field(name, of, metadata={OTHERS: b""} if name == "o" else None) for name, (of, _) in FIELDS.items()],
    metadata={NULLS: b""},
)
NAMES = ("n", "s", "f", "b", "d", "t", "o.x", "o.y")
ODD = [
    *(b"null", b"", b"{}", b'{"n":-0}', b'{"n": -0 }', b'{"n":01}', b'{"n":1.0}', b'{"n":9223372036854775808}'),
    *(b'{"n":"7"}', b'{"n":1,"n":2}', b'{"o":{"x":1,"x":2}}', b'{"z":1}', b'{"o":{"z":1}}', b'{"o":{"z":1,"z":2}}'),
    *(b'{"o":[1]}', b'{"n":1}{"n":2}', b'{"f":NaN}', b'{"f":Infinity}', b'{"f":1e999}', b'{"f":-0.0}', b'{"f":"1"}'),
    *(b'{"d":1.555}', b'{"d":"1.5"}', b'{"d":1e1}', b'{"s":"\\ud800"}', b'{"s":"\xff"}', b'{"s":"\x01"}', b'{"s":5}'),
    *(b'{"s":"a\\u0000b"}', b'{"s":"\\/"}', b'{"b":"true"}', b'{"b":1}', b'{"t":1}', b' {"n":1}', b'{"n":1,}', b"[1]"),
    *(b'{"\\u006e":1}', b'{"n":{"n":' + b'{"n":' * 50 + b"1" + b"}" * 52, b"nul", b'{"o":null}', b'{"n":1'),
    *(b'{"o":5}', b'{"o":"x"}', b'{{"n":1}', b'{1{"n":1}'),
]


ANY_BYTE = st.sampled_from(b'"\\:{},[]0n1-.e \n\xffx')


def one_by_one() -> ExitStack:
    """Return a context in which lines are read one by one."""
    with ExitStack() as stack:
        for way in ("columns", "wrapped"):
            stack.enter_context(patch.object(UsualLines, way, lambda *_: None))
        return stack.pop_all()


def read(body: bytes, around: bool = False) -> tuple[list[Any], list[tuple[int, str]]]:
    """Return the values of rows, and (line, reason) of rejects. around: rows are within objects with a schema."""
    schema, prefix, names = SCHEMA, "", [*NAMES]
    if around:
        schema, prefix = (
            pa.schema([("schema", pa.string()), ("payload", pa.struct([*SCHEMA]))], {NULLS: b""}),
            "payload.",
        )
        names = ["schema", *(prefix + name for name in NAMES)]
    batches = list(FILE_FORMATS["json"].read(InMemory(body, Window("lf")), schema, names, Dialect()))
    rows = [row for one in batches for row in one.batch.to_pylist()]
    rows = [{name.removeprefix(prefix): value for name, value in row.items()} for row in rows]
    for row in rows:  # the text of a number may be another one
        with suppress(ValueError):
            row["f"] = row["f"] and (float(row["f"]), row["f"].startswith(b"-"))
        with suppress(InvalidOperation):
            row["d"] = row["d"] and Decimal(row["d"].decode())
    return rows, [(line, reason) for one in batches for _, line, reason, _ in one.rejects]


@given(
    st.lists(st.fixed_dictionaries({}, optional={name: st.none() | of for name, (_, of) in FIELDS.items()})),
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from(ODD)), max_size=2),
)
@law(150)
def test_columns_are_those_of_single_lines(rows: list[Any], odd: list[tuple[int, bytes]]) -> None:
    lines = [json.dumps(row, separators=(",", ":")).encode() for row in rows]
    for at, line in odd:
        lines.insert(at, line)
    body = b"".join(line + b"\n" for line in lines)
    found = read(body)
    with patch.object(Shapes, "columns", lambda *_: None):  # by Arrow
        assert read(body) == found
    with one_by_one():
        assert read(body) == found


@given(
    st.lists(st.fixed_dictionaries({name: st.none() | of for name, (_, of) in FIELDS.items()}), min_size=1, max_size=4),
    st.integers(0, 400),
    ANY_BYTE,
    st.booleans(),
)
@law(400)
def test_lines_of_one_shape_with_another_byte(rows: list[Any], at: int, byte: int, around: bool) -> None:
    before, after = (b'{"schema":{"fields":[1]},"payload":', b"}") if around else (b"", b"")
    body = b"".join(before + json.dumps(row, separators=(",", ":")).encode() + after + b"\n" for row in rows)
    at %= len(body)
    body = body[:at] + bytes([byte]) + body[at + 1 :]
    found = read(body, around)
    with one_by_one():
        assert read(body, around) == found


@given(
    st.lists(
        st.tuples(st.fixed_dictionaries({name: st.none() | of for name, (_, of) in FIELDS.items()}), st.integers(1, 9)),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 2000),
    st.none() | ANY_BYTE,
    st.integers(1, 2000),
    st.integers(1, 9),
)
@law(300)
def test_values_that_are_the_same_in_many_lines(
    rows: list[tuple[Any, int]], at: int, byte: int | None, chunk: int, sample: int
) -> None:
    each = (json.dumps(row, separators=(",", ":")).encode() + b"\n" for row, times in rows for _ in range(times))
    body = b"".join(each)
    at %= len(body)
    body = body if byte is None else body[:at] + bytes([byte]) + body[at + 1 :]
    with patch.object(json_lines, "_CHUNK", chunk), patch.object(json_shapes, "_SAMPLE", sample):
        found = read(body)
        with one_by_one():
            assert read(body) == found


def test_values_that_are_the_same_in_a_part_of_the_lines() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())])
    shapes, names = Shapes(schema, [("a",), ("b",), ("c",)]), ("a", "b", "c")
    for seed in range(8):  # in each chunk, other values are the same
        rows: list[tuple[Any, ...]] = [(number if seed < 4 else 1, f"t{seed % 3}", seed) for number in range(400)]
        rows[301:303] = [(7, 'a"b', 9), (7, None, seed)]  # are in no sample
        each = [json.dumps(dict(zip(names, row, strict=True)), separators=(",", ":")).encode() + b"\n" for row in rows]
        columns = shapes.columns(b"".join(each), np.cumsum([0, *map(len, each)])[:-1])
        assert columns is not None
        texts = [tuple(None if one is None else str(one).encode() for one in row) for row in rows]
        assert [*zip(*(one.to_pylist() for one in columns), strict=True)] == texts


@pytest.mark.parametrize("odd", ODD)
def test_odd_lines(odd: bytes) -> None:
    body = b'{"n":1,"o":{"x":3}}\n{"n":3}\n{"o":null}\n' + odd + b'\n{"n":2}\n'
    found = read(body)
    with one_by_one():
        assert read(body) == found


ODD_VALUES = [
    *(b'"a"b', b'"\\x""', b'"a\\""', b'""b"'),
    *(
        b'"a"b"',
        b'"a\x01"',
        b'"\\x"',
        b'"\\u12"',
        b'"\\\\"',
        b'"\\"',
        b'"a',
        b'a"',
        b'"',
        b"",
        b"a",
        b"nul",
        b"nullx",
        b"n",
    ),
    *(b"01", b"-", b"-0", b"1.", b".5", b"+1", b"1e", b"1E+05", b"tru", b"NaN", b"1 ", b" 1", b"[1]", b"{}", b"1,2"),
    *(b'1,"n":2', b'"a","s":"b"', b'{"s":1}', b'"\xff"', b'"\x7f\xc3\xa9"', b'"\\"\\""', b"9" * 30),
]


@pytest.mark.parametrize("member", ["n", "s"])
@pytest.mark.parametrize("odd", ODD_VALUES)
def test_odd_values_in_lines_of_one_shape(odd: bytes, member: str) -> None:
    usual, own = b'{"%b":1}\n' % member.encode(), b'{"%b":%b}\n' % (member.encode(), odd)
    found = read(usual + own + usual)
    with one_by_one():
        assert read(usual + own + usual) == found


WRAPPED = pa.schema([("schema", pa.string()), ("payload", pa.struct([("n", pa.int64())]))], metadata={NULLS: b""})
USUAL = b'{"schema":{"fields":[1]},"payload":{"n":1}}'


@pytest.mark.parametrize(
    "other",
    [
        b'{"schema":{"fields":[2]},"payload":{"n":2}}',
        b'{"schema": {"fields":[1]},"payload":{"n":2}}',
        b'{"schema":{"fields":[1]},"payload":{"n":2},"payload":{"n":3}}',
        b'{"schema":{"fields":[1]},"payload":{"n":2,"n":3}}',
        b'{"schema":{"fields":[1]},"payload":{"n":2},"x":3}',
        b'{"schema":{"fields":[1]},"payload":null}',
        b'{"schema":null,"payload":null}',
        b'{"payload":{"n":2},"schema":{"fields":[1]}}',
        b'{"schema":{"fields":[1]},"payload":}\n{"schema":{"fields":[1]},"payload":{"n":2}{"n":3}}',
        b"null",
    ],
)
def test_objects_with_a_schema_around_them(other: bytes) -> None:
    def found() -> tuple[list[Any], list[str]]:
        body = b"\n".join((USUAL, other, USUAL, b""))
        batches = list(FILE_FORMATS["json"].read(InMemory(body, Window("lf")), WRAPPED, names, Dialect()))
        rejects = [reject.reason for one in batches for reject in one.rejects]
        return [row for one in batches for row in one.batch.to_pylist()], rejects

    names = ("payload.n", "schema")
    usual = found()
    with one_by_one():
        assert found() == usual


def test_usual_lines_are_read_at_once() -> None:
    usual = UsualLines.of(SCHEMA, NAMES)
    assert usual is not None
    lines = b'{"n":1,"s":"a","d":1.5,"o":{"x":2}}\nnull\nnull\n{"n":0}\n'
    for shapes in (usual.shapes, None):
        with patch.object(Shapes, "columns", Shapes.columns if shapes else lambda *_: None):
            columns = usual.columns(lines, np.array([0, 36, 41, 46]))
        assert columns is not None
        found = dict(zip(NAMES, (one.to_pylist() for one in columns), strict=True))
        assert (found["n"], found["d"], found["o.x"]) == (
            [b"1", None, None, b"0"],
            [b"1.5" if shapes else b"1.50", *[None] * 3],
            [b"2", *[None] * 3],
        )
    around = UsualLines.of(WRAPPED, ("schema", "payload.n"))
    assert around is not None
    found_around = around.wrapped(USUAL + b"\nnull\n")
    assert found_around is not None
    columns, starts, ends = found_around
    assert [one.to_pylist() for one in columns] == [[b'{"fields":[1]}', None], [b"1", None]]
    assert (starts.tolist(), ends.tolist()) == ([0, len(USUAL) + 1], [len(USUAL), len(USUAL) + 5])
    assert around.times == 4
