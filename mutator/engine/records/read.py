"""Read splits to the elements of the records engine's shuffle: plain functions, no Spark.

An element is ``((bucket, key, side, precedence), value)``. Its first part is the sort key: all elements of one record
come together, first its tombstone, then what the master holds, then its mutations, the winner last.

    ((bucket, key, TOMBSTONE, ()), (order value, commit time))
    ((bucket, key, MASTER, precedence), (False, row))
    ((bucket, key, FEED, precedence), (is delete, row))

The ledger, one partition more than there are buckets, gets what is no record (``engine.content``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from mutator.dataset.side_columns import read_tombstones
from mutator.engine.receipts import SplitReceipt
from mutator.engine.split_content import (
    REJECT,
    Damage,
    SplitContent,
    checked,
    damaged,
    receipt_of,
    row_sequences,
    tombstones_receipt,
)
from mutator.formats.blocks.contract import Record
from mutator.formats.content import NotReadable, Reject
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split
from mutator.rules.key_hash import bucket_of
from mutator.rules.order_values import LOWEST, ORDER_TYPES, precedence
from mutator.storage import storage_for

__all__ = ["FEED", "MASTER", "TOMBSTONE", "Element", "read_task"]

TOMBSTONE, MASTER, FEED = 0, 1, 2

_NO_MORE = -2  # no sequence at all, not even NO_SEQUENCE

Element = tuple[tuple[int, tuple[bytes, ...], int, tuple[Any, ...]], tuple[Any, ...]]


def read_task(plan: Plan, splits: Iterable[Split]) -> Iterator[Element]:
    """Read the splits of one task; whatever goes wrong with a file travels as data."""
    return checked(plan, splits, partial(_read, plan))


def _read(plan: Plan, split: Split, one: Input) -> Iterator[Element]:
    return (_read_tombstones if one.side == "tombstones" else _read_rows)(plan, split, one)


def _read_rows(plan: Plan, split: Split, one: Input) -> Iterator[Element]:
    buckets, ledger = plan.groups, plan.ledger
    side = MASTER if one.side == "master" else FEED
    rank, sequence, by_file_name = one.rank, one.sequence, plan.by_file_name
    found = row_sequences(plan, split, one)
    sequences = None if found is None else iter(found.tolist())
    content = SplitContent(plan, split, one)
    rows = rejected = ignored = lines = 0
    for found_row in records_of(plan, content, one):
        lines += 1
        if found_row is None:
            ignored += 1
            continue
        rows += 1
        if sequences is not None:
            sequence = next(sequences, _NO_MORE)
            if sequence == _NO_MORE:
                raise Damage(*damaged(one, "it has more rows than the file with their sequences"))
        if isinstance(found_row, Reject):
            rejected += 1
            # More than may be set aside need not travel: they are counted, and the run will fail.
            if rejected <= plan.rejects_shipped[one.side]:
                offset, line, reason, row = found_row
                yield (ledger, (), REJECT, (split.input, offset)), (split.number, line, reason, row)
            continue
        offset, key, order, is_delete, written, row = found_row
        if by_file_name:
            order = sequence
        yield (
            (bucket_of(key, buckets), key, side, precedence(order, sequence, rank, offset, row)),
            (is_delete, written),
        )
    if sequences is not None and next(sequences, _NO_MORE) != _NO_MORE:
        raise Damage(*damaged(one, "it has fewer rows than the file with their sequences"))
    yield receipt_of(plan, split, SplitReceipt(rows, rejected, ignored, lines, *content.result()))


def records_of(plan: Plan, content: SplitContent, one: Input) -> Iterator[Record | Reject | None]:
    """Read the rows of a split; raises Damage where the content is none of its format."""
    try:
        yield from plan.block_type.records(content, plan.rows.layouts[one.layout])
    except NotReadable as fault:
        raise Damage(*damaged(one, fault)) from None


def _read_tombstones(plan: Plan, split: Split, one: Input) -> Iterator[Element]:
    parse_order = ORDER_TYPES[plan.rows.order_type][0]
    receipt = tombstones_receipt(plan, split, one)
    with storage_for(one.source.path).open(one.source.path) as stream:
        for key, order, committed in read_tombstones(stream):
            value = LOWEST[plan.rows.order_type] if order is None else parse_order(order)
            yield (bucket_of(key, plan.groups), key, TOMBSTONE, ()), (value, committed)
    yield receipt_of(plan, split, receipt)
