"""The rows of files that have a key: read as a run reads them, a block at a time, without a look at other rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.engine.blocks.mutations import directories_of
from mutator.engine.blocks.read_blocks import batches
from mutator.engine.records.read_records import records_of
from mutator.engine.split_content import RowSides, SplitContent
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_type import Batch, Block, Ignored, Truncate
from mutator.formats.content import Reject
from mutator.pipeline.explain.key import WantedKey
from mutator.plan.reading import Reading
from mutator.plan.splits import Input, Split, splits_of
from mutator.rules.byte_columns import Ints
from mutator.rules.envelope import DELETE, UPSERT
from mutator.rules.key_moves import arrivals
from mutator.rules.order_columns import flags, to_value

_CHUNK = 64 << 20


@dataclass(frozen=True)
class KeyRow:
    """A row that has the key."""

    offset: int
    order: Any  # a value of ``rules.order_values``
    sequence: int
    sides: tuple[Any, ...]  # the side columns of the register
    is_delete: bool
    row: bytes  # as the last part of a precedence has it
    content: bytes  # as it would be written, in the form of ``BlockType.contents``
    partition: str | None  # directory
    written: Any = None  # the row as it would be written, a pa.Array of one element; None: it was read alone
    form: str = ""  # the schema of the written row; contents of different forms cannot be compared
    arrives: bool = False  # from another key, which the same row of the file deletes
    unset: bytes | None = None  # the mask of the fields that it leaves unset
    may_carry: bool = False  # it has a new key, so it may have these from the row of the old one


def rows_of_key(plan: Reading, number: int, wanted: WantedKey) -> Iterator[KeyRow | Reject]:
    """Yield the rows of an input that have a key, and all its rejects. number: of the input.

    The line of a reject is that of its file. Raises ``engine.split_content.Damage``.
    """
    file = plan.inputs[number]
    read = _row_by_row if plan.block_type.unsupported(plan.rows.layouts[file.layout]) else _by_blocks
    lines = 0
    for split in _splits(number, file):
        for found in read(plan, split, file, wanted):
            if isinstance(found, int):
                lines += found
            else:
                yield found._replace(line=found.line + lines) if isinstance(found, Reject) else found


def _splits(number: int, file: Input) -> Sequence[Split]:
    """Return the whole file; of a managed one the chunks of its checksum, each with its part of the side file."""
    if file.source.checksum is None:
        return [Split(number, 0, 0, None)]
    return [replace(split, input=number) for split in splits_of([file], _CHUNK, _CHUNK)]


def _by_blocks(plan: Reading, split: Split, file: Input, wanted: WantedKey) -> Iterator[KeyRow | Reject | int]:
    """Yield the rows and the rejects of a split, and then its number of lines."""
    sides, lines = RowSides(plan, split, file), 0
    for batch, _ in batches(plan, split, file, trusted=False):
        yield from batch.rejects
        own = sides.of(batch)
        rows = _matching(batch.block, wanted)
        if len(rows):
            found = _key_rows(plan, batch.block, rows, own, split.input if file.side == "feed" else None)
            yield from _with_moves(file, batch, rows, found)
        lines += batch.lines
    yield lines


def _matching(block: Block, wanted: WantedKey) -> Ints:
    """Return the numbers of the rows of a block that have the key."""
    if not len(block):
        return np.zeros(0, np.int64)
    likely = block.likely(wanted.firsts)
    rows = np.flatnonzero(block.hashes() == wanted.hashes[0]) if likely is None else likely
    if not len(rows):
        return rows
    equal = np.ones(len(rows), np.bool_)
    for column, value in zip(block.keys(rows), wanted.values, strict=True):
        equal &= flags(pc.equal(column, pa.scalar(value, column.type)))
    return rows[equal]


def _key_rows(plan: Reading, block: Block, rows: Ints, sides: Any, file: int | None) -> Iterator[KeyRow]:
    """Yield rows of a block. file: the number of a feed file; None: the rows are a master's."""
    index, types = pa.array(rows), plan.block_type
    sides = sides.take(index)
    sequences, kept = sides.field(0).to_pylist(), [one.to_pylist() for one in plan.kept(sides).flatten()]
    if file is not None:
        orders = plan.orders_of(block, np.full(len(rows), file), block.offsets[rows], rows)
    else:
        orders = plan.orders_in(sides) if plan.keeps_orders else block.orders(rows)
    deletes = block.deletes() if file is not None else np.zeros(len(block), np.bool_)
    directories = directories_of(plan, block) if file is not None else pa.nulls(len(block))
    arrive = arrivals(block.offsets, deletes) if file is not None and plan.changes_keys else deletes & False
    unset = block.unset().take(index) if file is not None else pa.nulls(len(rows))
    written = block.written().take(index)
    raw, contents = types.contents(block.rows.take(index)), types.contents(written)
    for at, row in enumerate(rows.tolist()):
        order = to_value(plan.rows.order_type, orders[at].as_py())
        yield KeyRow(
            offset=int(block.offsets[row]),
            order=order,
            sequence=sequences[at],
            sides=tuple(column[at] for column in kept),
            is_delete=bool(deletes[row]),
            row=raw[at].as_py(),
            content=contents[at].as_py(),
            partition=directories[row].as_py(),
            written=written.slice(at, 1),
            form=form_of(plan),
            arrives=bool(arrive[row]),
            unset=unset[at].as_py(),
        )


def _with_moves(file: Input, batch: Batch, rows: Ints, found: Iterator[KeyRow]) -> Iterator[KeyRow]:
    """Yield rows of a batch; those with a new key may carry fields. rows: their numbers."""
    envelope = None if file.source.wrapped is None else file.source.wrapped.envelope
    codes: list[bytes | None] = [None] * len(rows)
    if envelope is not None and envelope.carries and batch.said is not None:
        codes = batch.said.only(batch.said.are(UPSERT) | batch.said.are(DELETE)).only(rows).codes()
    for row, code in zip(found, codes, strict=True):
        is_half = code is not None and envelope is not None and code == envelope.arrival
        yield replace(row, may_carry=True) if row.unset is not None and (row.arrives or is_half) else row


def form_of(plan: Reading) -> str:
    """Return the form of written rows, as ``KeyRow`` has it."""
    if plan.rows.block_type == "text":
        return ""
    return str(plan.rows.spec["schema"] if plan.rows.block_type == "avro" else plan.rows.layouts["written"].row_type)


def is_inside(plan: Reading, content: bytes) -> bool:
    """Return whether a record is in the part that a snapshot has. plan: of the snapshot."""
    rows = plan.block_type.from_contents([content], plan.rows.layouts["master"])
    return bool(plan.block_type.inside(rows, plan.rows.layouts["written"])[0])


def _row_by_row(plan: Reading, split: Split, file: Input, wanted: WantedKey) -> Iterator[KeyRow | Reject | int]:
    """Do the same for rows that cannot be read as blocks."""
    sides, lines = RowSides(plan, split, file).each(), 0
    for record in records_of(plan, SplitContent(plan, split, file), file):
        lines += 1
        if record is None or isinstance(record, Ignored | Truncate):
            continue
        beside = next(sides)
        if isinstance(record, Reject):
            yield record
        elif record.key == wanted.values:
            order = plan.order_of(record.order, beside[0], record.offset)
            if plan.rows.orders_beside and file.side == "master":
                order = to_value(plan.rows.order_type, beside[1])
            place = record.offset, order, beside[0], beside[len(beside) - len(plan.side_columns) :]
            yield KeyRow(*place, record.is_delete, record.row, record.written, None)
    yield lines
