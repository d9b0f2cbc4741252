"""Read splits to the elements of the records engine's shuffle: plain functions, no Spark.

An element is ``((bucket, key, side, precedence), value)``. Its first part is the sort key: all elements of one key come
together, first its tombstone, then the master's record, then its mutations, the winner last. The highest truncate of
each split goes to all buckets, before all keys.

    ((bucket, (), FLOOR, (input, split)), order value)
    ((bucket, key, TOMBSTONE, ()), (order value, commit time, a value beside it, ...))
    ((bucket, key, MASTER, precedence), (False, row, value of a side column of the register, ...))
    ((bucket, key, FEED, precedence), (is delete, row, mask of the fields that it leaves unset, whether it arrives))

The last two only where one of them says something: an upsert after the delete of a changed key arrives.

The precedence of a row of a table in memory has no offset (0), and then the position of the row, which decides only
between equal rows. That of a mutation ends with the number of its file, which decides only between equal rows, too.

The ledger, one partition more than there are buckets, gets everything else (``engine.split_content``).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from mutator.engine.blocks.tombstone_columns import with_each
from mutator.engine.receipts import SplitReceipt
from mutator.engine.split_content import (
    REJECT,
    RowSides,
    SplitContent,
    SplitKeys,
    check_tombstones,
    damaged,
    floors,
    highest,
    read_splits,
    receipt_of,
)
from mutator.formats.blocks.block_type import Ignored, Item, Truncate
from mutator.formats.content import NotReadable, Reject
from mutator.plan.reading import Reading
from mutator.plan.splits import Input, Split
from mutator.rules.key_hash import bucket_of, hash_key
from mutator.rules.op_codes import abridged, add_counts
from mutator.rules.order_columns import to_value
from mutator.rules.order_types import has_position
from mutator.rules.order_units import UnitCounter, joined_futures
from mutator.rules.order_values import lowest_order, order_parser, precedence
from mutator.storage import progress, storage_for

TOMBSTONE, MASTER, FEED = 0, 1, 2

_COUNTED = 1 << 13  # rows

Element = tuple[tuple[int, tuple[bytes, ...], int, tuple[Any, ...]], tuple[Any, ...]]


def read_task(plan: Reading, splits: Iterable[Split]) -> Iterator[Element]:
    """Read the splits of one task; errors travel as elements of the ledger."""
    return read_splits(plan, splits, partial(_read, plan))


def _read(plan: Reading, split: Split, file: Input) -> Iterator[Element]:
    return (_read_tombstones if file.side == "tombstones" else _read_rows)(plan, split, file)


def _read_rows(plan: Reading, split: Split, file: Input) -> Iterator[Element]:
    buckets, ledger, shipped = plan.groups, plan.ledger, plan.rejects_shipped[file.side]
    side = MASTER if file.side == "master" else FEED
    rank, by_file_name = file.rank, plan.by_file_name
    sides = RowSides(plan, split, file)
    each_side, kept_from = sides.each(), len(plan.side_fields) - len(plan.side_columns)
    content = SplitContent(plan, split, file)
    codes: dict[bytes, int] = {}
    units, keys = UnitCounter(plan.now, plan.order_max), SplitKeys(plan, split)
    rows = rejected = ignored = no_mutations = lines = truncates = halves = 0
    floor, before, at, newer = None, (-1, False), plan.as_of, None
    changes_keys = plan.changes_keys and side == FEED
    places_rows = by_file_name or has_position(plan.rows.order_type) or plan.rows.epoch
    filtered = plan.filters is not None and side == FEED
    for record in records_of(plan, content, file):
        lines += 1
        if record is None or isinstance(record, Ignored):
            ignored += 1
            if record is not None:
                no_mutations += 1
                _count(codes, record.code)
            continue
        rows += 1
        if not rows % _COUNTED:
            progress.count(rows=_COUNTED)
        beside = next(each_side)
        sequence = beside[0]
        if isinstance(record, Truncate):
            truncates += 1
            floor = highest(floor, plan.order_of_truncate(record.order, sequence))
            if not by_file_name:
                units.add(record.order)
            continue
        if isinstance(record, Reject):
            rejected += 1
            # Rejects beyond the limit need not travel: they are counted, and the run will fail.
            if rejected <= shipped:
                offset, line, reason, row = record
                yield (ledger, (), REJECT, (split.input, offset)), (split.number, line, reason, row)
            continue
        offset, key, order, is_delete, code, written, row, unset = record
        arrives = changes_keys and not is_delete and before == (offset, True)
        if offset == before[0]:  # the row has said several mutations
            rows, lines, halves = rows - 1, lines - 1, halves + 1
        before = offset, is_delete
        if code is not None:
            _count(codes, code)
        if side == FEED and places_rows:
            order = plan.order_of(order, sequence, offset)
        if by_file_name:
            order = sequence
        elif plan.keeps_orders and side == MASTER:
            order = to_value(plan.rows.order_type, beside[1])
        elif side == FEED:
            units.add(order)
            if at is not None and order > at:
                newer = joined_futures([newer, (1, order)])
        if file.source.is_table:
            place: tuple[Any, ...] = (*precedence(order, sequence, rank, 0, row), offset)
        else:
            place = precedence(order, sequence, rank, offset, row)
        if side == FEED:
            place = (*place, split.input)
        if filtered:
            yield from keys.add([hash_key(key)])
        yield (
            (bucket_of(key, buckets), key, side, place),
            (
                is_delete,
                written,
                *(beside[kept_from:] if side == MASTER else (unset, arrives) if unset or arrives else ()),
            ),
        )
    progress.count(rows=rows % _COUNTED)
    sides.end()
    yield from keys.filters()
    yield from floors(plan, split, floor)
    read = SplitReceipt(rows, rejected, ignored, lines, *content.result(), abridged(codes))
    read = read._replace(units=units.units(), future=units.future, no_mutations=no_mutations)
    read = read._replace(truncates=truncates, floor=floor, halves=halves, newer=newer)
    yield receipt_of(plan, split, read)


def _count(codes: dict[bytes, int], code: bytes | None) -> None:
    if code in codes:
        codes[code] += 1
    elif code is not None:
        add_counts(codes, {code: 1})


def records_of(plan: Reading, content: SplitContent, file: Input) -> Iterator[Item]:
    """Read the rows of a split; raises Damage where the content is not of its format."""
    try:
        yield from plan.block_type.records(content, plan.rows.layouts[file.layout])
    except NotReadable as fault:
        raise damaged(file, fault) from None


def _read_tombstones(plan: Reading, split: Split, file: Input) -> Iterator[Element]:
    parse_order = order_parser(plan.rows.order_type)
    receipt = check_tombstones(plan, split, file)
    with storage_for(file.source.path).open(file.source.path) as stream:
        for (key, order, committed), kept in with_each(plan, stream):
            value = lowest_order(plan.rows.order_type) if order is None else parse_order(order)
            yield (bucket_of(key, plan.groups), key, TOMBSTONE, ()), (value, committed, *kept)
    yield receipt_of(plan, split, receipt)
