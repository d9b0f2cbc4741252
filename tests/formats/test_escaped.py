"""Escaped text: each rule of the dialect as bytes, each fault as a reject, and every value of every type kept."""

from __future__ import annotations

import io
import json
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.errors import ConfigError, DataError
from mutator.formats.content import Window
from mutator.formats.files.escaped import separates
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.values.convert import converted
from mutator.plan.rows.storable_types import storable_schema
from mutator.rules.known_formats import FORMATS, format_of_suffix
from mutator.rules.timestamps import parse_timestamp
from mutator.rules.typed_values import comparable, plain_decimals
from mutator.storage.compression import sniff
from tests.support.columns_data import as_table, file_of, read_whole, same_rows
from tests.support.in_memory import InMemory
from tests.support.named_runs import Work

PLAIN = Dialect()


def written(*columns, dialect=PLAIN):
    return file_of("escaped", pa.table(list(columns), [str(number) for number in range(len(columns))]), dialect)


def found(data, width, dialect=PLAIN, window=None):
    """Return rows and (offset, line, reason, row) of the rejects."""
    schema, rows, rejects = pa.schema([(str(number), pa.string()) for number in range(width)]), [], []
    for one in FILE_FORMATS["escaped"].read(InMemory(data, window or Window("lf")), schema, schema.names, dialect):
        rows += [tuple(row.values()) for row in one.batch.to_pylist()]
        rejects += [tuple(reject) for reject in one.rejects]
    return rows, rejects


def read_as(texts, data_type):
    """Return the values of texts, and whether each text is bad."""
    values, bad, why = converted(pa.array(texts, pa.large_binary()), data_type, typed=False)
    values.validate(full=True)
    assert bool(why) or not bad.any()
    return values, bad.tolist()


# --- bytes


@pytest.mark.parametrize(
    ("values", "field"),
    [
        (pa.array([None], pa.string()), rb"\N"),
        (pa.array([r"\N"]), rb"\\N"),
        (pa.array(["a\\b"]), rb"a\\b"),
        (pa.array(["a\nb"]), rb"a\nb"),
        (pa.array(["a\rb"]), rb"a\rb"),
        (pa.array(["a,b"]), rb"a\x2cb"),
        (pa.array(['say "é"\t|']), 'say "é"\t|'.encode()),
        (pa.array([b"\x00a,\xff\n\\~\x7f"]), rb"\x00a\x2c\xff\n\\~\x7f"),
        (pa.array([b"\xfe\x01"], pa.binary(2)), rb"\xfe\x01"),
        (pa.array([""]), b""),
        (pa.array([True]), b"true"),
        (pa.array([2**64 - 1], pa.uint64()), b"18446744073709551615"),
        (pa.array([Decimal("-0.0000000001")], pa.decimal128(38, 10)), b"-0.0000000001"),
        (pa.array([Decimal("0E-10")], pa.decimal128(38, 10)), b"0.0000000000"),
        (pa.array([Decimal(1200)], pa.decimal128(4, -2)), b"1200"),
        (pa.array([np.float16(0.1)], pa.float16()), b"0.1"),
        (pa.array([0.1], pa.float32()), b"0.1"),
        (pa.array([-0.0]), b"-0"),
        (pa.array([float("nan")]), b"NaN"),
        (pa.array([float("-inf")], pa.float32()), b"-Infinity"),
        (pa.array([-1], pa.int64()).view(pa.float64()), b"@-1"),
        (pa.array([date(2026, 1, 31)]), b"2026-01-31"),
        (pa.array([2932897], pa.int32()).view(pa.date32()), b"@2932897"),
        (pa.array([1769860800], pa.timestamp("s")), b"2026-01-31 12:00:00"),
        (pa.array([1769860800500], pa.timestamp("ms", "Europe/Berlin")), b"2026-01-31 12:00:00.500Z"),
        (pa.array([-62135596801], pa.timestamp("s", "UTC")), b"@-62135596801"),
        (pa.array([43200], pa.time32("s")), b"12:00:00"),
        (pa.array([-5], pa.duration("ns")), b"-5"),
        (pa.array([[1, None], None]).slice(0, 1), rb"[1\x2cnull]"),
        (pa.array([None], pa.list_(pa.int8())), rb"\N"),
    ],
)
def test_a_value_is_written_and_read(values, field):
    content = written(values, pa.array([7]))
    rows, rejects = found(content, 2)

    assert content == field + b",7\n"
    assert rejects == []
    back, bad = read_as([rows[0][0]], values.type)
    assert bad == [False]
    assert same_rows(pa.table([back], ["0"]), pa.table([values], ["0"]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (rb"\t\b\f\v\r\n\\", b"\t\b\f\v\r\n\\"),
        (rb"\x2C\x2c\x00\xfF", b",,\x00\xff"),
        (rb"\&", b""),
        (rb"a\&b\&", b"ab"),
        (rb"\\\\N", rb"\\N"),
        (rb"\\\n", b"\\\n"),
        (rb"\x5cN", rb"\N"),
        (rb"\N", None),
        (b"\r", b"\r"),
        (b'"', b'"'),
    ],
)
@pytest.mark.parametrize("width", [1, 3])
def test_escape_sequences(field, value, width):
    data = b"x,%b,y\nx,,y\n" % field if width == 3 else b"%b\nx\n" % field
    rows, rejects = found(data, width, window=Window("exact lf"))

    assert rejects == []
    assert rows == ([(b"x", value, b"y"), (b"x", b"", b"y")] if width == 3 else [(value,), (b"x",)])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (rb"x,y,a\q", r"field 3 has an unknown escape, \q"),
        (rb"x,a\X2c,y", r"field 2 has an unknown escape, \X"),
        (rb"x,a\x2g,y", r"field 2 has an unknown escape, \x2g"),
        (rb"x,a\x2,y", r"field 2 has an unknown escape, \x2"),
        (rb"x,y,\x", r"field 3 has an unknown escape, \x"),
        (b"x,\\\xff,y", r"field 2 has an unknown escape, \\xff"),
        (rb"x\,y,z", "field 1 ends in a lone backslash"),
        (b"x,y,z\\", "field 3 ends in a lone backslash"),
        (rb"x,y,\\\ ".strip(), "field 3 ends in a lone backslash"),
        (rb"x,y,\Nz", r"field 3 has text beside \N"),
        (rb"x,z\N,y", r"field 2 has text beside \N"),
        (rb"\N\N,x,y", r"field 1 has text beside \N"),
        (rb"x,y", "has 2 fields and should have 3"),
        (rb"x,y,z,\q", "has 4 fields and should have 3"),
    ],
)
def test_a_fault_rejects_only_its_row(row, reason):
    rows, rejects = found(b"1,\\\\,3\n\n%b\n4,\\N,6\n" % row, 3)

    assert rows == [(b"1", b"\\", b"3"), (b"4", None, b"6")]
    assert rejects == [(8, 3, reason, row)]


@pytest.mark.parametrize("delimiter", [b",", b"\t", b"|", b"\x01", b";", b"\xff", b"\0"])
def test_a_delimiter_is_never_in_a_value(delimiter):
    dialect = Dialect(delimiter)
    content = written(pa.array([delimiter * 2 + b"x"]), pa.array([delimiter]), dialect=dialect)

    assert content == b"%b%bx%b%b\n" % (*[b"\\x%02x" % delimiter[0]] * 2, delimiter, b"\\x%02x" % delimiter[0])
    assert found(content, 2, dialect) == ([(delimiter * 2 + b"x", delimiter)], [])


@pytest.mark.parametrize("delimiter", [b" ", b"+", b"-", b".", b":", b"@"])
def test_a_delimiter_that_occurs_in_numbers_and_times(delimiter):
    dialect = Dialect(delimiter)
    table = pa.table(
        {
            "a": pa.array([-1.5, 1e300, None]),
            "b": pa.array([0, 2**62, -(2**62)], pa.timestamp("ms")),
            "c": pa.array([Decimal("-1.5"), None, None]),
            "d": pa.array([[-1.5], [], None]),
        }
    )
    parts = read_whole("escaped", file_of("escaped", table, dialect), Dialect(delimiter, names=("a", "b", "c", "d")))
    text = as_table(parts, None)
    back = [read_as(text.column(field.name).combine_chunks().to_pylist(), field.type)[0] for field in table.schema]

    assert same_rows(pa.table(back, table.schema.names), table)


def test_allowed_delimiters():
    fit = [bytes([byte]) for byte in range(256) if separates(bytes([byte]))]

    assert len(fit) == 256 - 26 * 2 - 10 - len("\\&\r\n")
    assert not separates(None)
    assert not separates(b"")


def test_a_line_that_would_be_blank():
    content = written(pa.array(["", None, "a"]))

    assert content == b"\\&\n\\N\na\n"
    assert found(content, 1) == ([(b"",), (None,), (b"a",)], [])
    assert len(FILE_FORMATS["escaped"].probe(io.BytesIO(b"\\&\n"), PLAIN).schema) == 1


def test_a_file_that_would_begin_with_a_byte_order_mark():
    content = written(pa.array(["\ufeffa", "\ufeffb"]))

    assert content == b"\\xef\\xbb\\xbfa\n\xef\xbb\xbfb\n"
    assert found(content, 1) == ([("\ufeffa".encode(),), ("\ufeffb".encode(),)], [])
    assert written(pa.array([1]), dialect=Dialect(header=True)).startswith(b"0\n")
    marked = pa.table({"\ufeffn": [1]})
    assert file_of("escaped", marked, Dialect(header=True)) == b"\\xef\\xbb\\xbfn\n1\n"


@pytest.mark.parametrize("delimiter", [b",", b"\x01"])
@pytest.mark.parametrize("head", ["PAR1", "ORC", "Obj\x01", "BZh91AY", "PK\x03\x04", '\x04"M\x18'])
def test_a_file_that_would_look_like_another_format(head, delimiter):
    content = written(pa.array([head, head]), pa.array([1, 2]), dialect=Dialect(delimiter))

    assert sniff(content[:64]) is None
    assert [row[0] for row in found(content, 2, Dialect(delimiter))[0]] == [head.encode()] * 2


def test_byte_order_mark_and_line_ends_of_other_programs():
    data = b"\xef\xbb\xbfn\\x61me,at\r\n\r\n1,\\N\r\n\\r,2"
    probed = FILE_FORMATS["escaped"].probe(io.BytesIO(data), Dialect(header=True))

    assert (probed.schema.names, probed.bom) == (["name", "at"], True)
    assert found(data, 2, window=Window("lf", bom=True, header_end=probed.header_end))[0] == [
        (b"1", None),
        (b"\r", b"2"),
    ]


def test_suffix_of_escaped_text_is_that_of_plain_text():
    assert (FORMATS["escaped"].suffix, format_of_suffix("a.txt"), format_of_suffix("a.escaped")) == (
        ".txt",
        None,
        None,
    )


# --- lists, structs and maps

POINT = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field('say "é"', pa.string())])


@pytest.mark.parametrize(
    ("data_type", "value", "text"),
    [
        (pa.list_(pa.float64()), [1.5, None, float("nan"), float("-inf"), -0.0], '[1.5,null,"NaN","-Infinity",-0]'),
        (pa.list_(pa.decimal128(5, 2)), [Decimal("1.50")], '["1.50"]'),
        (pa.list_(pa.binary()), [b"\xff\x00", b"", None], '["/wA=","",null]'),
        (pa.list_(pa.string()), ['"\\\n\x1fé'], '["\\"\\\\\\n\\u001fé"]'),
        (pa.list_(pa.duration("s")), [5], '["5"]'),
        (pa.list_(pa.bool_()), [True, False], "[true,false]"),
        (pa.list_(pa.date32()), [date(2026, 1, 31), 2932897], '["2026-01-31","@2932897"]'),
        (pa.list_(pa.null()), [None], "[null]"),
        (pa.list_(pa.list_(pa.uint64())), [[2**64 - 1], [], None], "[[18446744073709551615],[],null]"),
        (POINT, {"x": 1, 'say "é"': None}, '{"x":1,"say \\"é\\"":null}'),
        (pa.struct([]), {}, "{}"),
        (pa.map_(pa.string(), pa.int8()), [("k", 1), ("a", None), ("k", 2)], '[["k",1],["a",null],["k",2]]'),
        (pa.map_(pa.int8(), POINT), [(1, None), (2, {"x": 0})], '[[1,null],[2,{"x":0,"say \\"é\\"":null}]]'),
    ],
)
def test_nested_values_are_json(data_type, value, text):
    column = pa.array([value, None, value], data_type).slice(1)
    fields = found(written(column, pa.array([1, 2])), 2)[0]
    back, bad = read_as([field for field, _ in fields], data_type)

    assert [field for field, _ in fields] == [None, text.encode()]
    assert bad == [False, False]
    assert same_rows(pa.table([back], ["0"]), pa.table([pa.array([None, value], data_type)], ["0"]))


def test_nested_lists_are_written():
    values, offsets = pa.array([1, 2, 3, 4, 5]), pa.array([1, 2, 4, 5], pa.int32())
    hidden = pa.ListArray.from_arrays(offsets, values, mask=pa.array([False, True, False]))  # NULL, with elements
    maps = pa.array([[("k", 1)], [("l", 2)]], pa.map_(pa.string(), pa.int8()))

    assert written(hidden) == b"[2]\n\\N\n[5]\n"
    assert written(pa.ListArray.from_arrays(offsets, values).slice(1)) == b"[3\\x2c4]\n[5]\n"
    assert written(maps.slice(1)) == b'[["l"\\x2c2]]\n'
    assert written(pa.array([{"a": 1}, None, {"a": 3}]).slice(1)) == b'\\N\n{"a":3}\n'


@pytest.mark.parametrize(
    ("data_type", "text", "why"),
    [
        (POINT, "[1]", "expected an object"),
        (POINT, '{"x":1,"y":2}', "member y is unknown"),
        (POINT, '{"x":1,"x":2}', "member x is repeated"),
        (POINT, "{}", "x is null"),
        (POINT, '{"x":"1"}', "expected a number"),
        (POINT, '{"x":1.0}', "a value is not of type int32"),
        (POINT, '{"x":3000000000}', "a value is not of type int32"),
        (POINT, "null", "a field must not be null"),
        (POINT, "", "Expecting value, at character 0"),
        (POINT, '{"x":1} 2', "Extra data, at character 8"),
        (POINT, "\udcff", "it is not UTF-8"),
        (pa.list_(pa.int8()), "{}", "expected an array"),
        (pa.list_(pa.int8()), "[NaN]", "NaN needs quotes"),
        (pa.list_(pa.int8()), "[" * 100_000, "it is nested too deeply"),
        (pa.list_(pa.bool_()), "[1]", "expected a boolean"),
        (pa.list_(pa.string()), "[1]", "expected a string"),
        (pa.list_(pa.string()), '["\\ud800"]', "half of a surrogate pair is not text"),
        (pa.list_(pa.binary()), '["ÿ"]', "expected base64"),
        (pa.list_(pa.binary()), '["a"]', "expected base64"),
        (pa.list_(pa.null()), "[0]", "expected null"),
        (pa.list_(pa.float32()), "[true]", "expected a string"),
        (pa.list_(pa.float32()), "[1e99]", "a value is not of type float"),
        (pa.list_(pa.field("item", pa.int8(), nullable=False)), "[null]", "item is null"),
        (pa.map_(pa.string(), pa.int8()), '{"k":1}', "expected an array"),
        (pa.map_(pa.string(), pa.int8()), '[["k"]]', "an entry of a map must be an array of a key and a value"),
        (pa.map_(pa.string(), pa.int8()), "[[null,1]]", "key is null"),
        (pa.list_(pa.map_(pa.string(), POINT)), '[[["k",{"x":null}]]]', "x is null"),
    ],
)
def test_json_of_another_type(data_type, text, why):
    good = {"x": 1, 'say "é"': "v"} if pa.types.is_struct(data_type) else []
    fields = [json.dumps(good).encode(), text.encode("utf-8", "surrogateescape"), None]
    values, bad, fault = converted(pa.array(fields, pa.large_binary()), data_type, typed=False)

    values.validate(full=True)
    assert (bad.tolist(), values.to_pylist()) == ([False, True, False], [good, None, None])
    assert fault == f"is not JSON of type {data_type}: {why}" or fault.startswith(
        f"is not JSON of type {data_type}: {why}"
    )


def test_members_with_the_same_name_are_not_storable():
    data_type = pa.list_(pa.struct([("a", pa.int8()), ("a", pa.int8())]))

    with pytest.raises(DataError, match=r"x is of type list.*, which escaped cannot store"):
        storable_schema(pa.schema([("x", data_type)]), "escaped")
    assert storable_schema(pa.schema([("x", POINT)]), "escaped").field("x").type == POINT


# --- bits


TICKS = [
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.date32(), pa.float16(), pa.float32(), pa.float64()),
]


# Each unit and each zone of timestamps once; the soak run tests every unit in every zone.
OFTEN = {("s", None), ("s", "UTC"), ("ms", "Asia/Tokyo"), ("us", None), ("ns", "UTC"), ("ns", None)}


def often(types):
    """Return values as the parameters of a test of many examples."""
    rare = [pa.types.is_timestamp(data_type) and (data_type.unit, data_type.tz) not in OFTEN for data_type in types]
    marks = [pytest.mark.soak if one else () for one in rare]
    return [
        pytest.param(data_type, id=str(data_type), marks=mark) for data_type, mark in zip(types, marks, strict=True)
    ]


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("data_type", often(TICKS))
@given(st.data())
def test_no_bit_is_lost(data_type, data):
    bits = data_type.bit_width
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if pa.types.is_time(data_type):
        low, high = 0, 86400 * 10 ** DIGITS[data_type.unit] - 1
    some = st.none() | st.integers(low, high) | st.integers(max(low, -10_000), min(high, 10_000))
    numbers = data.draw(st.lists(some, min_size=1))
    column = pa.array(numbers, {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]).view(data_type)
    texts = [row[0] for row in found(written(column, pa.array(range(len(column)))), 2)[0]]
    inner = pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column)
    lists = [row[0] for row in found(written(inner), 1)[0]]
    back, _, why = converted(pa.array(texts, pa.large_binary()), data_type, typed=False)
    again, _, wrong = converted(pa.array(lists, pa.large_binary()), inner.type, typed=False)

    assert comparable(back).to_pylist() == comparable(column).to_pylist(), why
    assert comparable(again).to_pylist() == comparable(inner).to_pylist(), wrong


@given(st.integers(1, 38), st.integers(-10, 38), st.data())
def test_decimals_are_plain(precision, scale, data):
    scale = min(scale, precision)
    most = 10**precision - 1
    numbers = data.draw(st.lists(st.none() | st.integers(-most, most) | st.integers(-9, 9), max_size=5))
    values = [None if n is None else Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in numbers]
    column = pa.array(values, pa.decimal128(precision, scale))

    assert plain_decimals(column).to_pylist() == [
        None if one is None else format(one, "f") for one in column.to_pylist()
    ]
    back, bad = read_as(
        [None if one is None else one.encode() for one in plain_decimals(column).to_pylist()], column.type
    )
    assert (back, any(bad)) == (column, False)


# --- times

ODD = [
    *("2026-01-31", "2026-01-31 12:00:00", "2026-01-31T12:00:00Z", "2026-01-31t12:00:00z"),
    *("2026-01-31 12:00", "2026-01-31 12:00:00.5", "2026-01-31 12:00:00,5"),
    *("2026-01-31 12:00:00.123456789", "2026-01-31 12:00:00.1234567890"),
    *("2026-01-31 12:00:00.1234567891", "2026-01-31 12:00:00+02:00", "2026-01-31 12:00:00-0530"),
    *("2026-01-31 12:00:00.5+02", "2026-02-30 12:00:00", "2024-02-29 00:00:00", "2026-01-31 12:00:60"),
    *("2026-01-31 24:00:00", "2026-01-31 12:60:00", "0000-01-01 00:00:00", "0001-01-01 00:00:00"),
    *("9999-12-31 23:59:59", "0001-01-01T00:00:00+01:00", "2026-13-01", "9999-12-31 23:59:59-01:00"),
    *("1677-09-21 00:12:43.145224192", "1677-09-21 00:12:43.145224191", "", " ", "x"),
    *("2262-04-11 23:47:16.854775807", "2262-04-11 23:47:16.854775808", "20260131T120000Z"),
    *("2026-01-31 12:00:00.", "@", "@-", " 2026-01-31", "2026-01-31 ", "2026-01-31\n", "+2026-01-31"),
    *("2026-1-31", "12:00:00", "2026-01-31 12:00:00 Z", "\x00", "2026-01-31 00:00:00", "@1.5", "@+1"),
    *("2026-01-31 00:00:00.000", "2026-01-31 00:00:00.5", "2026-01-31T02:00:00+02:00", "1969-12-31 23:59:59.9"),
]  # fmt: skip
CLOCK = [
    "12:00:00",
    "00:00:00.5",
    "23:59:59.999999999",
    "24:00:00",
    "00:30+01:00",
    "23:30-01:00",
    "12:00",
    "",
    "x",
    "1",
]
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def expected(text, data_type):
    """Read a time with Python's integers: return its ticks, or None for other text."""
    day = "1970-01-01T" if pa.types.is_time(data_type) else ""
    try:
        seconds, fraction = parse_timestamp((day + text).encode())
    except ValueError:
        return None
    digits = DIGITS["s" if pa.types.is_date(data_type) else data_type.unit]
    if len(fraction) > digits:
        return None
    ticks = seconds * 10**digits + int(fraction.ljust(digits, b"0") or b"0")
    if pa.types.is_date(data_type):
        return None if ticks % 86400 else ticks // 86400
    if pa.types.is_time(data_type):
        return ticks if 0 <= ticks < 86400 * 10**digits else None
    return ticks if -(2**63) <= ticks < 2**63 else None


TIMES = [
    data_type for data_type in TICKS if not pa.types.is_floating(data_type) and not pa.types.is_duration(data_type)
]


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("data_type", often(TIMES))
@given(st.data())
def test_times_are_read_the_same_one_by_one_and_as_a_column(data_type, data):
    usual = st.builds(
        "{:04d}-{:02d}-{:02d}{}{:02d}:{:02d}:{:02d}{}{}".format,
        st.sampled_from([1, 1676, 1677, 1970, 2026, 2262, 9999]), st.integers(1, 12), st.integers(1, 31),
        st.sampled_from(" T"), st.integers(0, 24), st.integers(0, 60), st.integers(0, 60),
        st.sampled_from(["", ".5", ".000", ".123456", ".000000001"]), st.sampled_from(["", "Z"]),
    )  # fmt: skip
    days = st.dates().map(str)
    one = st.sampled_from(CLOCK) | usual.map(lambda text: text[11:]) if pa.types.is_time(data_type) else usual | days
    shapes = [st.lists(one, max_size=3), st.lists(one | st.sampled_from(ODD) | st.none())]
    if pa.types.is_timestamp(data_type):
        shapes.append(st.lists(st.datetimes().map(lambda at: at.isoformat(" ")), min_size=1))
    texts = data.draw(st.one_of(shapes))
    values, bad = read_as([None if text is None else text.encode() for text in texts], data_type)
    wanted = [None if text is None else expected(text, data_type) for text in texts]

    assert comparable(values).to_pylist() == wanted
    assert bad == [text is not None and ticks is None for text, ticks in zip(texts, wanted, strict=True)]


@pytest.mark.parametrize("data_type", TIMES, ids=str)
def test_odd_times(data_type):
    for text in ODD + CLOCK:
        assert comparable(read_as([text.encode()], data_type)[0]).to_pylist() == [expected(text, data_type)], text


@pytest.mark.parametrize(
    ("text", "data_type", "ticks"),
    [
        (b"@5", pa.date32(), 5),
        (b"@2147483648", pa.date32(), None),
        (b"@-9223372036854775808", pa.timestamp("ns"), -(2**63)),
        (b"@9223372036854775808", pa.timestamp("ns"), None),
        (b"@86399", pa.time32("s"), 86399),
        (b"@86400", pa.time32("s"), None),
        (b"@-1", pa.time64("ns"), None),
        (b"@0x1f", pa.timestamp("ns"), None),
        (b"@", pa.timestamp("ns"), None),
        (b"@70000", pa.float16(), None),
        (b"@0", pa.float64(), 0),
    ],
)
def test_storable_values(text, data_type, ticks):
    values, bad = read_as([text, None, text], data_type)

    assert comparable(values).to_pylist() == [ticks, None, ticks]
    assert bad == [ticks is None, False, ticks is None]


# --- runs


def test_a_master_is_read_as_it_was_written(tmp_path):
    work = Work(tmp_path)
    shape = pa.struct([("x", pa.int8()), ("tags", pa.list_(pa.field("element", pa.string())))])
    table = pa.table(
        {
            "id": ["a", "b,|\n", "\\N"],
            "at": pa.array([1, 1, 1]),
            "shape": pa.array([{"x": 1, "tags": ["|", None]}, None, {"x": None, "tags": None}], shape),
        }
    )
    work.put("master/m", table, "parquet")
    work.put("feed/f_1.txt", b'a|2|{"x":2}\nc|1|\\N\nd|1|{"y":1}\ne|1|\\q\n')
    usual = {"field.names": "id,at,shape", "feed.format": "escaped", "field.delim.regex": "|"}
    report = work.run(usual | {"output.format": "escaped", "reject.policy": "quarantine"})

    assert [row["reason"] for row in report.rejects["feed"]] == [
        f"field shape is not JSON of type {shape}: member y is unknown",
        r"field 3 has an unknown escape, \q",
    ]
    assert {path.suffix for path in work.files} == {".txt"}
    assert sorted(line for path in work.files for line in path.read_bytes().splitlines()) == [
        b'\\\\N|1|{"x":null,"tags":null}',
        b'a|2|{"x":2,"tags":null}',
        b"b,\\x7c\\n|1|\\N",
        b"c|1|\\N",
    ]
    assert work.manifest.spec["escaped"] == {"delimiter": "|"}

    work.put("feed2/f_2.txt", b"c,2,\\N\n")
    report = work.run(usual | {"field.delim.regex": ","}, master="out1", feed="feed2")
    assert (report.counts["master rows"], report.counts["output rows"]) == (4, 4)
    assert any("another schema or format than the output" in note for note in report.notes)
    assert work.manifest.spec["escaped"] == {"delimiter": ","}

    work.put("feed3/f_3.txt", b"id,at,shape\nc,3,\\N\n")
    report = work.run(
        usual | {"field.delim.regex": ",", "header.lines": "1", "output.format": "parquet"}, master="out2", feed="feed3"
    )
    assert report.counts["output rows"] == 4
    assert work.table().schema.field("shape").type == shape


@pytest.mark.parametrize(
    ("file_format", "feed"), [("csv", b'id,at,n\na,2,"[1,null]"\nb,2,[x]\n'), ("text", b"a;2;[1,null]\nb;2;[x]\n")]
)
def test_other_text_formats_have_lists_as_json_too(file_format, feed, tmp_path):
    work = Work(tmp_path)
    work.put("master/m", pa.table({"id": ["a"], "at": [1], "n": pa.array([None], pa.list_(pa.int8()))}), "parquet")
    work.put("feed/f_1.txt", feed)
    more = {} if file_format == "csv" else {"field.names": "id,at,n", "field.delim.regex": ";"}
    report = work.run({"feed.format": file_format, "reject.policy": "quarantine", **more})

    assert [row["reason"] for row in report.rejects["feed"]] == [
        "field n is not JSON of type list<element: int8>: Expecting value, at character 1"
    ]
    assert [(row["id"], row["n"]) for row in work.rows()] == [("a", [1, None])]


def test_fields_without_names_get_no_header(tmp_path):
    work = Work(tmp_path, settings={"id.field.ordinals": "0", "input.format": "escaped"})
    for place, content in (("master/m.txt", b"a,1\n"), ("feed/f_1.txt", b"b,\\x2c\n"), ("feed2/f_2.txt", b"")):
        work.put(place, content)
    work.run()
    report = work.run({"output.format": "csv"}, master="out1", feed="feed2")

    assert report.counts["output rows"] == 2
    assert sorted(line for path in work.files for line in path.read_bytes().splitlines()) == [b"a,1", b'b,","']


@pytest.mark.parametrize(
    ("delimiter", "more", "family", "message"),
    [
        ("::", {}, DataError, "field.delim.regex is ::, and the fields of escaped text have one byte between them"),
        ("x", {}, DataError, "field.delim.regex is x, which occurs in escapes too"),
        (",", {"header.lines": "2"}, DataError, "header.lines is 2, and escaped text has one line with the names"),
    ],
)
def test_settings_that_escaped_text_does_not_have(delimiter, more, family, message, tmp_path):
    work = Work(tmp_path)
    for place in ("master/m.txt", "feed/f_1.txt"):
        work.put(place, b"k,1\n")

    with pytest.raises(family, match=message):
        work.run({"field.names": "id,at", "input.format": "escaped", "field.delim.regex": delimiter, **more})


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        (b"idxat\nkx1\n", {"field.delim.regex": "x"}, "x is part of escapes"),
        (b"id,at\nk,1\n", {"output.codec": "gzip"}, "gzip is not a codec of escaped: none"),
    ],
)
def test_what_cannot_be_written(tmp_path, row, settings, message):
    work = Work(tmp_path)
    for place in ("master/m.csv", "feed/f_1.csv"):
        work.put(place, row)

    with pytest.raises(ConfigError, match=message):
        work.run({**settings, "output.format": "escaped"})
