"""Text read as blocks equals text read as rows: the row code (``files.lines`` and ``blocks.row_layout``) is the
reference.
"""

from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from mutator.formats.blocks.block_type import Record, patched
from mutator.formats.blocks.row_layout import RowLayout, Unreadable, compile_reader
from mutator.formats.blocks.text_rows import TextBlockType
from mutator.formats.content import NotReadable, Reject, Window
from mutator.formats.files import lines as text
from mutator.plan.rows.text_rows import layout_of_ids
from mutator.rules.byte_columns import exchanged, joined
from mutator.rules.delimiter import field_delimiter
from mutator.rules.envelope import DELETES, UPSERTS, OpCodeField
from mutator.rules.key_hash import hash_key
from mutator.rules.order_columns import to_value
from tests.support.effort import law
from tests.support.in_memory import InMemory

COMMA = field_delimiter.parse(",")
FIELD = st.sampled_from([b"", b"a", b"b", b"12", b"7", b"+3", b"x" * 9, b"D", b"U", b"\r", b"\xff\x00", b"1\r"])
ROWS = st.lists(st.lists(FIELD, min_size=1, max_size=4).map(b",".join), max_size=9)
ORDERS = {
    "sequence": (),
    "long": (1,),
    "string": (1,),
    "decimal": (1,),
    "decimal desc": (1,),
    "long, string desc": (1, 0),
    "string, long": (2, 0),
}
LAYOUTS = st.builds(
    lambda order_type, **members: RowLayout(order_type=order_type, order_fields=ORDERS[order_type], **members),
    delimiter=st.just(COMMA),
    id_fields=st.sampled_from([(0,), (1,), (0, 2), (2, 0)]),
    order_type=st.sampled_from([*ORDERS]),
    width=st.sampled_from([None, 3, 4]),
    envelope=st.one_of(
        st.just(UPSERTS),
        st.builds(
            OpCodeField,
            field=st.sampled_from([0, 1, 2]),
            delete_codes=st.just(frozenset([b"D", b"b"])),
            upsert_codes=st.sampled_from([None, frozenset([b"U", b"a", b""])]),
            in_master=st.booleans(),
        ),
    ),
    cut_op=st.booleans(),
)
DELETE_FILES = st.builds(
    RowLayout,
    delimiter=st.just(COMMA),
    id_fields=st.sampled_from([(0,), (1,), (2, 0)]),
    width=st.sampled_from([None, 3, 4]),
    envelope=st.just(DELETES),
)
OF_IDS = st.builds(layout_of_ids, DELETE_FILES)


@dataclass(frozen=True)
class Pieces:
    """A file whose content arrives in pieces."""

    pieces: list[bytes]
    window: Window

    def blocks(self):
        return iter(self.pieces)

    def file(self):
        return BytesIO(b"".join(self.pieces))


def by_rows(data, ending, start, end, bom, header_end, layout):
    """Return the results of the records engine: good rows, rejects, lines, ignored."""
    good, rejects, lines, ignored = [], [], 0, 0
    read = compile_reader(layout)
    content = [data[max(start - 1, 0) :]]
    for offset, row in text.rows(content, ending, start, end):
        lines += 1
        header = offset < header_end
        if offset == 0 and bom:
            offset, row = 3, row[3:]
        if header or not row:
            ignored += 1
            continue
        try:
            key, order, is_delete, _, written = read(row)
        except Unreadable as reason:
            rejects.append((offset, lines, str(reason), row))
        else:
            good.append((offset, key, order, is_delete, row, written))
    return good, rejects, lines, ignored


def by_records(content, layout):
    good, rejects, lines, ignored = [], [], 0, 0
    for found in TextBlockType().records(content, layout):
        lines += 1
        if found is None:
            ignored += 1
        elif isinstance(found, Reject):
            rejects.append(tuple(found))
        else:
            assert isinstance(found, Record)
            good.append((found.offset, found.key, found.order, found.is_delete, found.row, found.written))
    return good, rejects, lines, ignored


def by_blocks(content, layout, trusted=False):
    good, rejects, lines, ignored = [], [], 0, 0
    for batch in TextBlockType().read(content, layout, trusted):
        block = batch.block
        orders = [None] * len(block)
        if layout.order_fields:
            orders = [to_value(layout.order_type, value) for value in block.orders().to_pylist()]
        keys = list(zip(*(column.to_pylist() for column in block.keys(None)), strict=True))
        assert [int(h) for h in block.hashes()] == [hash_key(key) for key in keys]
        columns = (block.offsets.tolist(), keys, orders, block.deletes().tolist())
        rows = (block.rows.to_pylist(), block.written().to_pylist())
        for offset, key, order, is_delete, row, written in zip(*columns, *rows, strict=True):
            assert row.endswith(b"\n")
            assert written.endswith(b"\n")
            good.append((offset, key, order, is_delete, row[:-1], written[:-1]))
        rejects += batch.rejects
        lines += batch.lines
        ignored += batch.ignored
    return good, rejects, lines, ignored


@law(600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.data(),
    ROWS,
    st.sampled_from([text.LF, text.CR, text.EXACT_LF]),
    st.one_of(LAYOUTS, DELETE_FILES, OF_IDS),
    st.booleans(),
)
def test_the_same_rows_and_rejects(monkeypatch, data, rows, ending, layout, bom):
    mark = {text.LF: st.sampled_from([b"\n", b"\r\n"]), text.CR: st.just(b"\r"), text.EXACT_LF: st.just(b"\n")}[ending]
    if ending == text.CR:
        rows = [row.replace(b"\r", b"") for row in rows]
    bom = bom and ending != text.EXACT_LF
    content = (b"\xef\xbb\xbf" if bom else b"") + b"".join(row + data.draw(mark) for row in rows)
    content = content[: len(content) - data.draw(st.integers(0, 2))]
    header_end = data.draw(st.integers(0, 6)) if ending != text.EXACT_LF else 0
    monkeypatch.setattr(text, "CHUNK", data.draw(st.integers(1, 20)))
    cuts = sorted({0, len(content), *data.draw(st.lists(st.integers(0, len(content)), max_size=3))})
    for start, end in pairwise(cuts) if len(cuts) > 1 else [(0, 0)]:
        expected = by_rows(content, ending, start, end, bom, header_end, layout)
        size = data.draw(st.integers(1, 30))
        source = content[max(start - 1, 0) :]
        pieces = [source[place : place + size] for place in range(0, len(source), size)]
        found = Pieces(pieces, Window(ending, start, end, bom, header_end))
        assert by_blocks(found, layout) == expected
        assert by_records(found, layout) == expected


@given(st.lists(st.tuples(FIELD, FIELD).map(b",".join).filter(lambda row: b"\n" not in row), max_size=9))
def test_packed_blocks_are_loaded(rows):
    layout = RowLayout(delimiter=COMMA, id_fields=(1,), width=2)
    content = b"".join(row + b"\n" for row in rows)
    fmt = TextBlockType()
    found = [batch.block.rows for batch in fmt.read(InMemory(content, Window(text.EXACT_LF)), layout, True)]
    assert all(fmt.from_contents(fmt.contents(one).to_pylist(), layout).equals(one) for one in found)
    packed = [fmt.pack(one) for one in found]
    assert b"".join(packed) == content
    for after in (b"", fmt.after_packed):
        block = fmt.load(b"".join((*packed, *packed, after)), layout)
        assert block.rows.to_pylist() == [row + b"\n" for row in rows] * 2
        ids = [row.split(b",")[1] for row in rows] * 2
        assert block.keys(np.flatnonzero(block.hashes() >= 0))[0].to_pylist() == ids


KNOWN = st.builds(
    RowLayout,
    delimiter=st.just(COMMA),
    id_fields=st.sampled_from([(0,), (0, 1), (1,), (1, 0)]),
    order_fields=st.sampled_from([(), (2,)]),
    order_type=st.just("string"),
    width=st.sampled_from([3, None]),
)


@law(200)
@given(st.lists(st.lists(st.binary(max_size=20), min_size=3, max_size=3).map(b",".join), max_size=9), KNOWN)
def test_a_trusted_file_is_read_like_any_other(rows, layout):
    content = b"".join(row.replace(b"\n", b"") + b"\n" for row in rows)
    data = InMemory(content, Window(text.EXACT_LF))
    good, rejects, lines, ignored = by_blocks(data, layout)
    if not rejects and not ignored:
        assert by_blocks(data, layout, trusted=True) == (good, [], lines, 0)
    for batch in TextBlockType().read(data, layout, True) if not rejects and not ignored else ():
        few = np.arange(0, len(batch.block), 2)
        assert [column.to_pylist() for column in batch.block.keys(few)] == [
            list(column) for column in zip(*(key for _, key, *_ in good[::2]), strict=True)
        ] or not len(few)
        if layout.order_fields:
            assert batch.block.orders(few).to_pylist() == [order for _, _, order, *_ in good[::2]]


def test_rows_of_one_field():
    layout = RowLayout(delimiter=COMMA, id_fields=(0,), width=1)
    (batch,) = TextBlockType().read(InMemory(b"a\nbcdefghijklm\n", Window(text.EXACT_LF)), layout, True)
    assert batch.block.keys()[0].to_pylist() == [b"a", b"bcdefghijklm"]


@pytest.mark.parametrize("ids", [(0,), (1,)])
def test_a_trusted_file_with_a_malformed_row_is_damaged(ids):
    layout = RowLayout(delimiter=COMMA, id_fields=ids, width=2)
    with pytest.raises(NotReadable, match=r"not a row of 2 fields|a row without an ID"):  # noqa: PT012
        (batch,) = TextBlockType().read(InMemory(b"a,1\nb\nc,2\n", Window(text.EXACT_LF)), layout, True)
        batch.block.keys()


def test_supported_layouts():
    reason = TextBlockType().unsupported
    assert reason(RowLayout(delimiter=COMMA, id_fields=(0,))) is None
    assert "is a pattern" in reason(RowLayout(delimiter=field_delimiter.parse(r",\s*"), id_fields=(0,)))
    assert "longer than one byte" in reason(RowLayout(delimiter=field_delimiter.parse("::"), id_fields=(0,)))


@given(st.lists(st.binary(max_size=3), max_size=8), st.data())
def test_patches(rows, data):
    places = data.draw(st.lists(st.integers(0, max(len(rows) - 1, 0)), max_size=len(rows), unique=True).map(sorted))
    new = [data.draw(st.one_of(st.none(), st.binary(max_size=3))) for _ in places]
    expected = list(rows)
    for place, value in zip(places, new, strict=True):
        expected[place] = value
    places = np.array(places, np.int64)
    gone = np.array([value is None for value in new], np.bool_)
    values = pa.array([value or b"" for value in new], pa.large_binary())
    found = patched(pa.array(rows, pa.large_binary()), places, values, gone)
    assert bytes(joined(found)) == b"".join(value or b"" for value in expected)
    kept = np.array([value is not None for value in expected], np.bool_)
    one_by_one = exchanged(
        pa.array([{"v": row} for row in rows], pa.struct([("v", pa.large_binary())])),
        [(places, pa.StructArray.from_arrays([values], ["v"]))],
        kept,
    )
    assert [row["v"] for row in one_by_one.to_pylist()] == [value for value in expected if value is not None]
