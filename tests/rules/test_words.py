"""The words of the program: sequences, order values, hashes, checksums, rows, manifests, errors."""

import ast
import dataclasses
import doctest
import importlib
import io
import pickle
import string
from array import array
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator import errors
from mutator.dataset import checksum, manifest
from mutator.dataset.manifest import DataFile, FeedFile, Manifest, SideFile
from mutator.dataset.side_columns import (
    TombstoneWriter,
    read_sequences,
    read_tombstones,
    tombstone_table,
    write_sequences,
)
from mutator.errors import MutatorError, StateError, error
from mutator.formats.files import lines
from mutator.rules import file_names, key_hash
from mutator.rules.byte_columns import ByteColumn, joined, offsets_of, packed
from mutator.rules.key_hash import bucket_of, hash_columns, hash_key, murmur64a
from mutator.rules.order_values import (
    NO_SEQUENCE,
    ORDER_TYPES,
    format_order,
    parse_decimal,
    parse_long,
    parse_string,
    parse_timestamp,
    precedence,
)

PACKAGE = Path(__file__).resolve().parents[2] / "mutator"

# --- names of files


@pytest.mark.parametrize(
    ("name", "sequence"),
    [
        ("ups_prod_1427761080.txt.gz", 1427761080),
        ("ups_7.csv.gz", 7),
        ("ups_7.gz", 7),
        ("ups_7", 7),
        ("ups_007.txt", 7),
        ("_7", 7),
        ("a_1_2.txt", 2),
        ("ups_9223372036854775807.txt", 2**63 - 1),
        ("ups_00000000000000000000009223372036854775807.txt", 2**63 - 1),
        ("ups_9223372036854775808.txt", None),  # more than a long
        ("ups_99999999999999999999.txt", None),
        ("part-r-00000", None),
        ("ups.txt", None),
        ("ups_.txt", None),
        ("ups_x.txt", None),
        ("ups_-7.txt", None),
        ("ups_+7.txt", None),
        ("ups_7 .txt", None),
        ("ups_1.5.txt", None),  # one extension, and .5 is none of a compression
        ("ups_7.csv.txt", None),
        ("ups_7.txt.GZ", 7),
        ("ups_٧.txt", None),  # a digit, and not an ASCII one
        ("ups_²", None),
        ("ups_7\n", None),
        ("", None),
    ],
)
def test_sequence(name, sequence):
    assert file_names.sequence(name) == sequence


@given(st.integers(0, 2**63 - 1), st.sampled_from(["", ".txt", ".csv", ".tsv.gz", ".bz2", ".txt.zst", ".xz"]))
def test_every_sequence_is_read_back(number, suffix):
    assert file_names.sequence(f"ups_1_{number}{suffix}") == number


def test_delete_files_and_hidden_names():
    assert file_names.is_delete_file("delaware.txt", "del")
    assert not file_names.is_delete_file("Del_1.txt", "del")
    assert not file_names.is_delete_file("ups_del.txt", "del")
    assert not file_names.is_delete_file("del_1.txt", None)
    assert [name for name in ("_a", ".a", "a_", "a.") if file_names.is_hidden(name)] == ["_a", ".a"]


# --- order values


@pytest.mark.parametrize("parse", [parse_long, parse_decimal, parse_timestamp])
@pytest.mark.parametrize(
    "field", [b"", b" ", b"x", b"1 ", b" 1", b"1_0", b"NaN", b"inf", b"Infinity", "٧".encode(), b"1\n", b"\xff", b"--1"]
)
def test_no_order_value_of_any_type(parse, field):
    with pytest.raises(ValueError, match=r"is (not|beyond)"):
        parse(field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"0", 0),
        (b"-0", 0),
        (b"+5", 5),
        (b"007", 7),
        (b"9007199254740993", 2**53 + 1),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"+000000000000000000000009223372036854775807", 2**63 - 1),
        (b"0" * 5000, 0),
    ],
)
def test_long(field, value):
    assert parse_long(field) == value


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (b"1.0", "is not an integer"),
        (b"1e3", "is not an integer"),
        (b"0x10", "is not an integer"),
        (b"1,000", "is not an integer"),
        (b"9223372036854775808", "is beyond 64 bits"),
        (b"-9223372036854775809", "is beyond 64 bits"),
        (b"1" * 100_000, "is beyond 64 bits"),  # at once, though int() would be slow or refuse
    ],
)
def test_no_long(field, reason):
    with pytest.raises(ValueError, match=reason):
        parse_long(field)


@pytest.mark.parametrize(
    ("field", "value"),
    [(b"1.50", "1.5"), (b".5", "0.5"), (b"5.", "5"), (b"1e3", "1000"), (b"-1E-3", "-0.001"), (b"+7", "7")],
)
def test_decimal(field, value):
    assert parse_decimal(field) == Decimal(value)


@pytest.mark.parametrize("field", [b".", b"1e", b"1e1000", b"1.2.3", b"1,5", b"sNaN", b"0x1"])
def test_no_decimal(field):
    with pytest.raises(ValueError, match="is not a decimal number"):
        parse_decimal(field)


@pytest.mark.parametrize(
    ("field", "seconds", "fraction"),
    [
        (b"1970-01-01", 0, b""),
        (b"19700101", 0, b""),
        (b"1970-01-01T00:00", 0, b""),
        (b"1970-01-01t00:00:01z", 1, b""),
        (b"1970-01-01 00:00:01,25", 1, b"25"),
        (b"19700101T000001.250000+0000", 1, b"25"),
        (b"1969-12-31T23:59:59.5", -1, b"5"),
        (b"1970-01-01T01:00:00+01", 0, b""),
        (b"1970-01-01T05:45:00+05:45", 0, b""),
        (b"1969-12-31T19:00:00-0500", 0, b""),
        (b"1970-01-01T00:00:00-00:00", 0, b""),
        (b"2024-02-29T00:00:00Z", 1709164800, b""),
        (b"2000-02-29", 951782400, b""),
        (b"0001-01-01T00:00:00Z", -62135596800, b""),
        (b"9999-12-31T23:59:59.999999999999999999999Z", 253402300799, b"9" * 21),
        (b"1970-01-01T00:00:00." + b"0" * 50 + b"1", 0, b"0" * 50 + b"1"),
    ],
)
def test_timestamp(field, seconds, fraction):
    assert parse_timestamp(field) == (seconds, fraction)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (b"2026-02-30", "is not a date of the calendar"),
        (b"2025-02-29", "is not a date of the calendar"),
        (b"1900-02-29", "is not a date of the calendar"),
        (b"2026-13-01", "is not a date of the calendar"),
        (b"2026-00-10", "is not a date of the calendar"),
        (b"0000-01-01", "is not a date of the calendar"),
        (b"2026-01-31T24:00:00", "is not a time of the day"),
        (b"2026-01-31T23:60:00", "is not a time of the day"),
        (b"2026-01-31T23:59:60", "is not a time of the day"),
        (b"2026-01-31T10:00:00+24:00", "has no valid zone"),
        (b"2026-01-31T10:00:00+01:60", "has no valid zone"),
        (b"0001-01-01T00:00:00+01:00", "is outside of the years"),
        (b"9999-12-31T23:59:59-00:01", "is outside of the years"),
        (b"26-01-31", "is not an ISO 8601 timestamp"),
        (b"31.01.2026", "is not an ISO 8601 timestamp"),
        (b"2026-1-31", "is not an ISO 8601 timestamp"),
        (b"2026-01-31T10", "is not an ISO 8601 timestamp"),
        (b"2026-01-31T10:00:00.", "is not an ISO 8601 timestamp"),
        (b"2026-01-31T10:00:00 Europe/Paris", "is not an ISO 8601 timestamp"),
        (b"2026-01-31Z", "is not an ISO 8601 timestamp"),
        (b"1427761080", "is not an ISO 8601 timestamp"),
        ("２０２６-01-31".encode(), "is not an ISO 8601 timestamp"),
    ],
)
def test_no_timestamp(field, reason):
    with pytest.raises(ValueError, match=reason):
        parse_timestamp(field)


zones = st.one_of(
    st.sampled_from([b"", b"Z", b"z"]),
    st.builds(
        lambda sign, hour, mark, minute: b"%b%02d%b%02d" % (sign, hour, mark, minute),
        st.sampled_from([b"+", b"-"]),
        st.integers(0, 23),
        st.sampled_from([b":", b""]),
        st.integers(0, 59),
    ),
)
# What may stand in a field, for each type.
FIELDS = {
    "long": st.builds(
        lambda sign, zeros, number: sign + b"0" * zeros + b"%d" % number,
        st.sampled_from([b"", b"-", b"+"]),
        st.integers(0, 3),
        st.integers(0, 2**63 - 1),
    ),
    "decimal": st.one_of(
        st.builds(
            lambda sign, whole, places, exponent: sign + whole + b"." + places + b"e%d" % exponent,
            st.sampled_from([b"", b"-", b"+"]),
            st.from_regex(rb"[0-9]{1,40}", fullmatch=True),
            st.from_regex(rb"[0-9]{0,40}", fullmatch=True),
            st.integers(-60, 60),
        ),
        st.sampled_from([b"0", b"-0", b"+0.00", b"0e5", b"1.0", b"1", b"10", b"1e1", b"100", b"-.50"]),
    ),
    "timestamp": st.builds(
        lambda day, mark, clock, fraction, zone: (
            day.isoformat().encode() + mark + clock.strftime("%H:%M:%S").encode() + fraction + zone
        ),
        st.dates(min_value=date(1, 1, 2), max_value=date(9999, 12, 30)),
        st.sampled_from([b"T", b" ", b"t"]),
        st.times(),
        st.from_regex(rb"(?:[.,][0-9]{1,25})?", fullmatch=True),
        zones,
    ),
    "string": st.binary(),
    "sequence": st.integers(-1, 2**63 - 1).map(lambda number: b"%d" % number),
}


@pytest.mark.parametrize("kind", FIELDS)
@given(data=st.data())
def test_order_values_are_written_and_read_back(kind, data):
    parse, write = ORDER_TYPES[kind]
    field = data.draw(FIELDS[kind])
    value = parse(field)
    written = format_order(kind, value)

    if kind == "sequence" and value == NO_SEQUENCE:  # what is lower than every value has no text
        assert written is None
        return
    assert written == write(value)
    assert parse(written) == value
    # One value, one text: what the manifest says can be compared.
    assert write(parse(written)) == written


@pytest.mark.parametrize("kind", FIELDS)
@given(data=st.data())
def test_order_values_are_totally_ordered(kind, data):
    parse, write = ORDER_TYPES[kind]
    a, b, c = (parse(data.draw(FIELDS[kind])) for _ in range(3))

    assert (a < b) + (a == b) + (a > b) == 1
    if a <= b <= c:
        assert a <= c
    assert (write(a) == write(b)) == (a == b)
    assert pickle.loads(pickle.dumps(a)) == a


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_longs_compare_as_numbers(a, b):
    assert (parse_long(b"%d" % a) < parse_long(b"%d" % b)) == (a < b)


def test_fractions_compare_digit_by_digit():
    ascending = [
        b"",
        b".0000001",
        b".05",
        b".1",
        b".10000000000000000000000001",
        b".11",
        b".2",
        b".9999999999999999999",
    ]
    parsed = [parse_timestamp(b"2026-01-31T10:00:00" + part) for part in ascending]

    assert parsed == sorted(parsed)
    assert len(set(parsed)) == len(parsed)


def test_strings_compare_as_bytes():
    assert parse_string(b"9") > parse_string(b"10")
    assert parse_string(b"b") > parse_string(b"B") > parse_string(b"")
    assert parse_string("é".encode()) > parse_string(b"z")


def test_precedence_is_compared_left_to_right():
    lowest = precedence(1, -1, b"a", 0, b"")
    ascending = [
        lowest,
        precedence(1, -1, b"a", 0, b"x"),
        precedence(1, -1, b"a", 1, b""),
        precedence(1, -1, b"b", 0, b""),
        precedence(1, 0, b"a", 0, b""),
        precedence(2, -1, b"a", 0, b""),
    ]

    assert sorted(set(ascending)) == ascending


# --- the key hash: part of the file format, so these literals never change


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0),
        (b"ab", 0, 7115271465109541368),
        (b"fransisco", 1, 0x83FDAF4A6D0D3D9),
        (b"aaaa", 0x9747B28C, 0x41DA53FDABAF04C8),
    ],
)
def test_murmur64a_as_published(data, seed, expected):
    assert murmur64a(data, seed) == expected


@pytest.mark.parametrize(
    ("key", "hashed", "buckets"),
    [
        ((b"",), 0, [0, 0, 0, 0, 0]),
        ((b"a",), 0x071717D2D36B6B11, [0, 1, 1, 17, 17]),
        ((b"VR8NCNE7DV",), 0xC41FD1909FDC7DD5, [0, 1, 6, 21, 85]),
        ((b"12345678",), 0x758F67D162B2D202, [0, 0, 2, 2, 2]),
        ((b"123456789",), 0x4977490251674330, [0, 0, 6, 48, 48]),
        ((b"\xff\xfe",), 0xD8BDA9F97887ECE1, [0, 1, 5, 33, 97]),
        ((b"ab", b"c"), 0x0992028DF2AA6E44, [0, 0, 6, 4, 68]),
        ((b"a", b"bc"), 0x827A57575003368C, [0, 0, 3, 12, 12]),
        ((b"s1", b"2015-04-01", b"", b"x" * 100), 0x9225CA3210761B27, [0, 1, 0, 39, 39]),
    ],
)
def test_buckets_of_keys(key, hashed, buckets):
    assert key_hash.HASH_NAME == "murmur64a"
    assert hash_key(key) == hashed
    assert [bucket_of(key, count) for count in (1, 2, 7, 64, 128)] == buckets


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=3), st.integers(1, 1000))
def test_a_bucket_splits_into_two(key, count):
    assert 0 <= bucket_of(key, count) < count
    assert bucket_of(key, 2 * count) in (bucket_of(key, count), bucket_of(key, count) + count)


# --- checksums: these literals never change either


def test_checksums_of_the_format():
    assert checksum.whole(b"") == "xxh3-128:99aa06d3014798d86001c324468d497f"
    assert checksum.whole(b"abc") == "xxh3-128:06b05ab6733a618578af5f94892f3950"
    assert checksum.of_blocks([b"abc", b"def", b"gh"], 4) == "xxh3-128/4:633cf2c8639e00b5a12220af9010203c"
    assert checksum.of_blocks([b"abcde"], 4) == "xxh3-128/4:78d0901edc87ce07b01da41a5db028e9"
    assert checksum.of_blocks([b"abcd"], 4) == "xxh3-128:8d6b60383dfa90c21be79eecd1b1353d"


@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(1, 20))
def test_a_checksum_does_not_depend_on_blocks(blocks, chunk):
    data = b"".join(blocks)
    parts = [data[start : start + chunk] for start in range(0, max(len(data), 1), chunk)]
    expected = checksum.combine([checksum.digest(part) for part in parts], chunk)

    assert checksum.of_blocks(blocks, chunk) == expected
    assert checksum.chunk_of(expected) == (chunk if len(parts) > 1 else None)
    assert checksum.of_blocks(blocks, None) == checksum.whole(data)


@pytest.mark.parametrize(
    "wrong", ["", "xxh3-128", "md5:" + "0" * 32, "xxh3-128:00", "xxh3-128/:" + "0" * 32, "xxh3-128/x:" + "0" * 32]
)
def test_what_is_no_checksum(wrong):
    with pytest.raises(ValueError, match="is not a checksum"):
        checksum.chunk_of(wrong)


# --- rows


def naive_rows(data, ending):
    """Split all of a file, the obvious way; return (offset, row)."""
    mark = b"\r" if ending == lines.CR else b"\n"
    found, offset = [], 0
    pieces = data.split(mark)
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        if not (last and not piece):
            row = piece[:-1] if ending == lines.LF and not last and piece.endswith(b"\r") else piece
            found.append((offset, row))
        offset += len(piece) + 1
    return found


contents = st.lists(st.sampled_from([b"a", b"bc", b",", b"\n", b"\r", b"\r\n", b"\n\n", b"\xff"]), max_size=40).map(
    b"".join
)


@given(contents, st.sampled_from([lines.LF, lines.CR, lines.EXACT_LF]), st.integers(1, 9), st.integers(1, 9))
def test_splits_give_each_row_once(data, ending, split, block):
    found = []
    for start in range(0, max(len(data), 1), split):
        begin = max(start - 1, 0)
        blocks = [data[at : at + block] for at in range(begin, len(data), block)]
        found.append(list(lines.rows(blocks, ending, start, start + split)))

    assert [row for rows in found for row in rows] == naive_rows(data, ending)
    for number, rows in enumerate(found):
        assert all(number * split <= offset < (number + 1) * split for offset, _ in rows)


@given(contents, st.integers(1, 9))
def test_line_ends(data, block):
    blocks = [data[at : at + block] for at in range(0, len(data), block)]

    assert lines.line_end(blocks) == (lines.CR if b"\r" in data and b"\n" not in data else lines.LF)


def test_wide_encodings():
    assert lines.wide_encoding("a".encode("utf-16")) == "UTF-16"
    assert lines.wide_encoding(b"\xfe\xff\x00a") == "UTF-16"
    assert lines.wide_encoding("a".encode("utf-32")) == "UTF-32"
    assert lines.wide_encoding(lines.UTF8_BOM + b"a") is None
    assert lines.wide_encoding(b"") is None


# --- columns beside the data


@given(st.lists(st.lists(st.integers(-1, 2**63 - 1), max_size=5), min_size=1, max_size=5))
def test_sequences_are_read_back_by_chunk(chunks):
    stream = io.BytesIO()
    write_sequences(
        stream, array("q", [number for chunk in chunks for number in chunk]), [len(chunk) for chunk in chunks]
    )

    assert [read_sequences(io.BytesIO(stream.getvalue()), number).tolist() for number in range(len(chunks))] == chunks


@given(
    st.lists(
        st.tuples(st.tuples(st.binary(), st.binary()), st.none() | st.binary(), st.integers(0, 2**40)), max_size=20
    )
)
def test_tombstones_are_read_back(tombstones):
    stream = io.BytesIO()
    writer = TombstoneWriter(stream, 2)
    for start in range(0, len(tombstones), 3):
        writer.write(tombstone_table(2, tombstones[start : start + 3]))
    writer.close()

    assert list(read_tombstones(io.BytesIO(stream.getvalue()))) == tombstones


# --- manifests

MANIFEST = Manifest(
    commit="7f0c",
    parent=None,
    run="20261121T000000Z-00000000",
    committed="2026-11-21T00:00:00.000+00:00",
    spec={"key": {"ordinals": [0], "types": ["bytes"]}, "order": {"by": "file name"}, "width": 2, "format": "text"},
    buckets=2,
    hash="murmur64a",
    horizon=None,
    snapshot="é\udcff",
    files=(
        DataFile(
            path="part-0.txt",
            bucket=0,
            rows=1,
            bytes=4,
            checksum=checksum.whole(b"a,1\n"),
            order="_mutator/order/part-0.txt.parquet",
        ),
    ),
    beside=(
        SideFile(
            path="_mutator/order/part-0.txt.parquet",
            kind="order",
            bucket=0,
            rows=1,
            bytes=9,
            checksum=checksum.whole(b""),
        ),
    ),
    feed=(
        FeedFile(name="ups_1.txt", bytes=4, checksum=checksum.whole(b""), committed="2026-11-21T00:00:00.000+00:00"),
    ),
    counts={"feed rows": 1},
)


def test_a_manifest_is_read_back():
    assert manifest.parse(manifest.dump(MANIFEST), "m") == MANIFEST


def test_every_flipped_bit_of_a_manifest_is_seen():
    data = manifest.dump(dataclasses.replace(MANIFEST, files=(), beside=(), feed=()))
    for bit in range(8 * len(data)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StateError):
            manifest.parse(bytes(broken), "m")


@given(st.integers(0, 10_000), st.binary(max_size=3), st.integers(0, 3))
def test_every_edit_of_a_manifest_is_seen(at, put, cut):
    data = manifest.dump(MANIFEST)
    at %= len(data)
    edited = data[:at] + put + data[at + cut :]
    if edited != data:
        with pytest.raises(StateError):
            manifest.parse(edited, "m")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"\xff", b'"x"', b"[" * 100_000, b'{"checksum": 1}'])
def test_what_is_no_manifest(data):
    with pytest.raises(StateError, match="the manifest is damaged"):
        manifest.parse(data, "m")


@pytest.mark.parametrize("path", ["../a", "/a", "a/../b", "", "./a", "a//b"])
def test_a_manifest_names_no_file_outside(path):
    made = dataclasses.replace(MANIFEST, files=(dataclasses.replace(MANIFEST.files[0], path=path),))
    with pytest.raises(StateError, match="it names a file outside of the directory"):
        manifest.parse(manifest.dump(made), "m")


def test_a_manifest_of_a_newer_program(monkeypatch):
    monkeypatch.setattr(manifest, "FORMAT_VERSION", 2)
    data = manifest.dump(MANIFEST)
    monkeypatch.undo()
    with pytest.raises(StateError, match="has format version 2, and this program knows 1; use a newer program"):
        manifest.parse(data, "m")


# --- errors


def kinds_raised():
    """Return the kinds that stand as text somewhere in the package: in ``error(...)``, or on their way to it."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if path.name == "errors.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def calls_of_error():
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "error" and path.name != "errors.py":
                yield path, node


def fields_of(kind):
    return {name for _, name, _, _ in string.Formatter().parse(errors.CATALOGUE[kind][1]) if name is not None}


def test_every_kind_of_the_catalogue_is_used():
    assert set(errors.CATALOGUE) - kinds_raised() == set()


def test_every_error_is_in_the_catalogue_with_its_fields():
    seen = 0
    for path, node in calls_of_error():
        if isinstance(node.args[0], ast.Constant) and all(keyword.arg for keyword in node.keywords):
            seen += 1
            kind, given_fields = node.args[0].value, {keyword.arg for keyword in node.keywords}
            assert kind in errors.CATALOGUE, f"{path.name}:{node.lineno}"
            assert fields_of(kind) == given_fields, f"{path.name}:{node.lineno}"
    assert seen > 30


@pytest.mark.parametrize("kind", errors.CATALOGUE)
def test_a_message_renders(kind):
    made = error(kind, **{name: f"<{name}>" for name in fields_of(kind)})

    assert made.kind == kind
    assert all(f"<{name}>" in str(made) for name in fields_of(kind))
    assert "{" not in str(made)
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), again.kind, str(again), again.exit_code) == (type(made), kind, str(made), made.exit_code)


def test_one_exit_code_a_family():
    codes = {family: family.exit_code for family, _ in errors.CATALOGUE.values()}

    assert codes == {
        errors.ConfigError: 2,
        errors.DataError: 3,
        errors.StorageError: 4,
        errors.StateError: 5,
        MutatorError: 70,
    }


def test_no_message_carries_what_confuses_a_terminal():
    assert str(error("storage", path="a\x1b[2J\rb\u202e", why="x\ny")).startswith("a\\x1b[2J\\rb\\u202e: x\ny")
    assert errors.printable("é ü\n") == "é ü\n"


# --- examples in docstrings


def modules():
    skipped = {
        "__init__",
        "cli",
        "records",
        "pipeline",
        "delimiter",
        "sample",
    }  # need Spark, or have tests of their own
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.stem not in skipped:
            yield ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


@pytest.mark.parametrize("name", list(modules()))
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


# --- key hashes and spans of many values at once

VALUES = st.binary(max_size=20) | st.integers(0, 40).map(bytes) | st.integers(250, 270).map(lambda n: b"\xff" * n)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=9), st.integers(1, 2))
def test_a_hash_of_columns_is_that_of_each_key(pairs, width):
    columns = [ByteColumn.of([pair[n] for pair in pairs]) for n in range(width)]
    found = hash_columns(columns)
    assert found.dtype == np.uint64
    assert found.tolist() == [hash_key(pair[:width]) for pair in pairs]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 255, 256, 257, 5000])
def test_a_hash_of_values_of_any_length(length):
    """Alone, among equally long ones, and among short ones."""
    value = bytes(number % 251 for number in range(length))
    for column in ([value], [value, value[::-1]], [value, b"", b"x"]):
        assert hash_columns([ByteColumn.of(column)]).tolist() == [hash_key((one,)) for one in column]


def test_hashes_of_columns_are_written_into_files():
    """The literal values of ``hash_key`` hold for columns: they say which bucket a row of a master on disk is in."""
    columns = [ByteColumn.of([b"ab", b"a", b""]), ByteColumn.of([b"c", b"bc", b""])]
    assert [int(one) for one in hash_columns(columns)] == [689616501626007108, 9401923204605490828, 0]


@given(st.lists(st.binary(max_size=5), max_size=9), st.data())
def test_spans_are_pieces_of_their_buffer(values, data):
    start = data.draw(st.integers(0, len(values)))
    spans = ByteColumn.of_array(pa.array(values, pa.large_binary())[start:])  # a slice begins anywhere in its buffer
    values = values[start:]
    rows = data.draw(st.lists(st.sampled_from(range(len(values))), max_size=9)) if values else []
    picked = np.array(rows, np.int64)
    assert len(spans) == len(values)
    assert spans.take().to_pylist() == values
    assert spans.take(picked).to_pylist() == [values[row] for row in rows]
    assert spans.only(picked).take().to_pylist() == [values[row] for row in rows]
    assert spans.only(slice(1, None)).take().to_pylist() == values[1:]
    assert len(spans.data) >= (spans.ends.max(initial=0) + 8)  # whatever begins in it, eight bytes can be loaded
    offsets, content = offsets_of(pa.array(values, pa.large_binary()))
    assert content.tobytes() == b"".join(values) == bytes(joined(pa.array(values, pa.large_binary())))
    assert packed(content, np.diff(offsets)).to_pylist() == values
