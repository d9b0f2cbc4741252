"""Rows of text files: line ends, splits and encodings."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.formats.content import OtherHeader, Window
from mutator.formats.files import lines
from mutator.formats.files.line_scan import padded, scan
from mutator.rules.byte_columns import PAD
from tests.support.in_memory import InMemory


def naive_rows(data, ending):
    """Split a whole file in the obvious way; return (offset, row)."""
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


@given(contents, st.sampled_from([lines.LF, lines.CR, lines.EXACT_LF]), st.integers(1, 9), st.integers(1, 9))
def test_padded_chunks_are_those_that_are_padded_later(data, ending, block, least):
    blocks, window = [data[at : at + block] for at in range(0, len(data), block)], Window(ending)
    plain = list(lines.chunks(blocks, window, lambda: least))
    with_pad = list(lines.chunks(blocks, window, lambda: least, tail=PAD))
    assert with_pad == [(offset, chunk + PAD) for offset, chunk in plain]
    for (_, chunk), (_, longer) in zip(plain, with_pad, strict=True):
        (expected, ended), (found, also) = padded(chunk, window), padded(longer, window, has_pad=True)
        assert (found.tobytes(), also) == (expected.tobytes(), ended)


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
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        for row in ("\ufeffa,\u0a41\u0a0a\n", "\ufeff\u0a41,\u0a0a\r", "\ufeff\u4e2d\r\n", "\ufeffa"):
            assert lines.wide_encoding(row.encode(encoding)) == encoding[:6].upper()


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff"])
@pytest.mark.parametrize("rest", [b",1\n", b",\0\n", b"\0,\0a\n", b",\0,\0\0\0\na\n", b",ab\0\r\n"])
def test_an_id_may_begin_like_a_wide_text(mark, rest):
    assert lines.wide_encoding(mark + rest) is None


@pytest.mark.parametrize("character", ["é", "€", "😀"])
@pytest.mark.parametrize("cut", range(5))
def test_utf_8_that_is_cut_in_a_character_is_text(character, cut):
    for shift in range(5):
        text = ("x" * shift + f"\x10{character * 4}\n" * 400).encode()
        assert not lines.is_binary(text[: 4096 - cut])
        assert lines.is_binary(text[:4000] + b"\xff" + text[4001:4096])


def test_separators_of_hive_are_text():
    """In Latin-1, too: byte 1 separates fields, and the next ones items of arrays, maps and nested values."""
    row = b"7\x01Zo\xeb\x01a\x02b\x02c\x01k\x03v\x02l\x03w\x04\x05\x06\x07\x08\n"
    assert not lines.is_binary(row * 200)
    assert lines.is_binary(row.replace(b"\x02", b"\x0e") * 200)


def test_nul_is_text_only_as_the_delimiter():
    row = "7\0Zoë\0a\n".encode()
    assert lines.is_binary(row * 200)
    assert not lines.is_binary(row * 200, b"\0")
    assert lines.is_binary(bytes(4096))


def test_random_bytes_are_binary():
    for seed in range(50):
        assert lines.is_binary(random.Random(seed).randbytes(4096))


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("[{}]", "JSON"),
        ('\ufeff\n {"a": "b"}\n{"a": "c"}', "JSON"),
        ('{\n  "a": [1, 2],\n  "b": "cut he', "JSON"),
        ('[{"a": 1}, {"a": tru', "JSON"),
        ('{"a": 1}{"a": 2}', "JSON"),
        ('["a", 1]\n["b", 2]\n', "JSON"),
        ('[["a", 1],\n ["b", 2', "JSON"),
        ('["a","b"]\t7\n', None),
        ('["a",7\n["b",8\n["ccccccc",9\n', None),
        ('{"a": 1},7\n', None),  # a first field of JSON
        ('{"a": 1}\t7\n', None),
        ("{a},7\n", None),
        ('{"a",7\n{"b",8\n{"ccccccc",9\n', None),
        ("[1],7\n", None),
        ("<a>,7\n", None),
        ("", None),
        ("\n<?xml version='1.0'?>", "XML"),
        ("<!DOCTYPE HTML>", "HTML"),
        ("<rows>\n  <row><id>1</id></row>\n</rows>\n", "XML"),
        ("\ufeff<!-- made by x -->\n<s:rows at='1'><row/>", "XML"),
        ('<row id="1"/>\n<row id="2"/>\n', "XML"),
        ("<error>\nno such file\n</error>\n", "XML"),
        ("<p>\n<b>a</b>\n</p>,7\n", None),  # a first field of HTML
        ("<b>a</b>,7\n<b>b</b>,8\n", None),
        ("<b>a</b>,7,<b>b</b>\n", None),
        ("<id>\t<at>\n1\t2\n", None),
    ],
)
def test_markup(head, says):
    assert lines.markup(head.encode()) == says


HEADER = b"name,Kind,ts"
ALIKE = st.sampled_from([HEADER, b'"name", Kind,ts ', b"eman,Kind,ts", b"st,name,Kin", b"name,Kin,tsd", b"1,2,3", b""])
OTHERS = st.sampled_from([b"kind,name,ts", b"NAME,KIND,TS", b"'ts',Kind,name"])


@given(st.lists(ALIKE, max_size=9), st.integers(1, 40), st.lists(OTHERS, max_size=1), st.integers(0, 9))
def test_blocks_and_rows_find_the_same_headers(some, times, other, at):
    """Many rows are compared with the header by sums of their letters, few of them one by one."""
    rows = some * times
    rows[at:at] = other
    data = b"\n".join([HEADER, *rows, b""])
    window = Window(lines.LF, header_end=len(HEADER) + 1, header=HEADER)

    def by_rows():
        return [row for _, _, row in lines.numbered_rows(InMemory(data, window)) if row is not None]

    def by_blocks():
        found = scan(data, 0, window, ord(","), None)
        return [found.data[a:b].tobytes() for a, b in zip(found.table.starts, found.table.ends, strict=True)]

    if other:
        with pytest.raises(OtherHeader) as one:
            by_rows()
        with pytest.raises(OtherHeader, match=re.escape(str(one.value))):
            by_blocks()
        return
    assert by_rows() == by_blocks() == [row for row in rows if row and not row.startswith((b"name,Kind,ts", b'"'))]
