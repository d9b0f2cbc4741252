"""Read splits to the elements of the shuffle: plain functions, no Spark.

An element is ``((bucket, key, side, precedence), value)``. Its first part is the sort key: all elements of one record
come together, first its tombstone, then what the master holds, then its mutations, the winner last.

    ((bucket, key, TOMBSTONE, ()), (order value, commit time))
    ((bucket, key, MASTER, precedence), (False, row))
    ((bucket, key, FEED, precedence), (is delete, row))

The ledger, one partition more than there are buckets, gets what is no record:

    ((ledger, (), RECEIPT, (input, split)), Receipt as a tuple)
    ((ledger, (), REJECT, (input, offset)), (split, line in the split, reason, row))
    ((ledger, (), DAMAGE, (input, split)), (kind of error, its fields))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pyarrow import ArrowException

from mutator.checksum import ChunkedChecksum, chunk_of, combine, of_blocks
from mutator.errors import MutatorError
from mutator.formats import text
from mutator.formats.parquet_columns import read_sequences, read_tombstones
from mutator.keyhash import bucket_of
from mutator.layout import Unreadable, compile_reader
from mutator.plan import Input, Plan, Split
from mutator.precedence import NO_SEQUENCE, ORDER_TYPES, precedence
from mutator.storage import blocks, storage_for
from mutator.storage.compression import CorruptStream, decompress

__all__ = ["DAMAGE", "FEED", "MASTER", "RECEIPT", "REJECT", "TOMBSTONE", "Receipt", "read_task"]

TOMBSTONE, MASTER, FEED = 0, 1, 2
RECEIPT, REJECT, DAMAGE = 0, 1, 2

_NO_MORE = -2  # no sequence at all, not even NO_SEQUENCE

Element = tuple[tuple[int, tuple[bytes, ...], int, tuple[Any, ...]], tuple[Any, ...]]


class Receipt(NamedTuple):
    """What a task read of one split."""

    rows: int
    rejected: int
    ignored: int  # blank lines and headers
    lines: int
    size: int  # bytes as stored
    digests: Sequence[bytes]  # of the checksum chunks that the split covers


class _Damage(Exception):
    """A file that is not what it should be: kind of error, fields."""


def read_task(plan: Plan, splits: Iterable[Split]) -> Iterator[Element]:
    """Read the splits of one task; whatever goes wrong with a file travels as data."""
    for split in splits:
        one = plan.inputs[split.input]
        read = _read_tombstones if one.side == "tombstones" else _read_rows
        try:
            yield from read(plan, split, one)
        except _Damage as fault:
            yield (plan.ledger, (), DAMAGE, (split.input, split.number)), fault.args
        except CorruptStream as fault:
            yield (plan.ledger, (), DAMAGE, (split.input, split.number)), _damaged(one, fault)
        except MutatorError as fault:
            yield (
                (plan.ledger, (), DAMAGE, (split.input, split.number)),
                (fault.kind, {"path": one.source.path, "text": str(fault)}),
            )


def _damaged(one: Input, why: object) -> tuple[str, dict[str, Any]]:
    kind = "damaged" if one.source.checksum is None else "manifest.damage"
    return kind, {"path": one.source.path, "why": str(why)}


def _read_rows(plan: Plan, split: Split, one: Input) -> Iterator[Element]:
    source, buckets, ledger = one.source, plan.buckets, plan.ledger
    read = compile_reader(plan.layouts[one.layout])
    side = MASTER if one.side == "master" else FEED
    rank, sequence, by_file_name = one.rank, one.sequence, plan.by_file_name
    sequences = _row_sequences(plan, split, one)
    tally = _Tally(plan.chunk if source.checksum is None or split.end is None else split.end - split.start or 1)
    rows = rejected = ignored = lines = 0
    for offset, row in text.rows(tally.content(split, one), source.ending, split.start, split.end):
        lines += 1
        header = offset < source.header_end
        if offset == 0 and source.bom:
            offset, row = len(text.UTF8_BOM), row[len(text.UTF8_BOM) :]
        if header or not row:
            ignored += 1
            continue
        rows += 1
        if sequences is not None:
            sequence = next(sequences, _NO_MORE)
            if sequence == _NO_MORE:
                raise _Damage(*_damaged(one, "it has more rows than the file with their sequences"))
        try:
            key, order, is_delete, written = read(row)
        except Unreadable as reason:
            rejected += 1
            # More than may be set aside need not travel: they are counted, and the run will fail.
            if rejected <= plan.rejects_shipped[one.side]:
                yield (ledger, (), REJECT, (split.input, offset)), (split.number, lines, str(reason), row)
            continue
        if by_file_name:
            order = sequence
        yield (
            (bucket_of(key, buckets), key, side, precedence(order, sequence, rank, offset, row)),
            (is_delete, written),
        )
    if sequences is not None and next(sequences, _NO_MORE) != _NO_MORE:
        raise _Damage(*_damaged(one, "it has fewer rows than the file with their sequences"))
    yield (
        (ledger, (), RECEIPT, (split.input, split.number)),
        tuple(Receipt(rows, rejected, ignored, lines, *tally.result(split, one))),
    )


def _row_sequences(plan: Plan, split: Split, one: Input) -> Iterator[int] | None:
    path = one.source.order_path
    if path is None or not plan.by_file_name:
        return None
    storage, expected = storage_for(path), one.source.order_checksum
    if expected is not None and split.number == 0:  # Parquet's own checksums cover its pages alone
        with storage.open(path) as stream:
            found = of_blocks(blocks(stream), chunk_of(expected))
        if found != expected:
            raise _Damage(
                *_damaged(one, f"{path}, with the sequences of its rows, has the checksum {found}, not {expected}")
            )
    with storage.open(path) as stream:
        try:
            return iter(read_sequences(stream, split.number, NO_SEQUENCE))
        except (ArrowException, OSError, ValueError, LookupError) as fault:
            raise _Damage(*_damaged(one, f"{path}, with the sequences of its rows, cannot be read: {fault}")) from None


class _Tally:
    """Read a split's bytes, and count and checksum those that are the split's own."""

    def __init__(self, chunk: int) -> None:
        self._checksum = ChunkedChecksum(chunk)
        self._grown = False

    def content(self, split: Split, one: Input) -> Iterator[bytes]:
        """Yield the bytes from one before the split on, uncompressed, as far as they are asked for."""
        source = one.source
        with storage_for(source.path).open(source.path, max(split.start - 1, 0)) as stream:
            if split.end is None:
                raw = self._counted(blocks(stream), source.bytes)
                yield from decompress(raw, source.compression) if source.compression else raw
                return
            if split.start > 0:
                yield stream.read(1)
            yield from self._counted(blocks(stream, split.end - split.start), split.end - split.start)
            # The last line of the split goes on beyond it: those bytes are the next split's to count.
            for block in blocks(stream, None if split.end < source.bytes else 1):
                if split.end == source.bytes:
                    self._grown = True
                yield block

    def _counted(self, found: Iterator[bytes], most: int) -> Iterator[bytes]:
        for block in found:
            self._checksum.update(block)
            self._grown = self._grown or self._checksum.bytes > most
            yield block

    def result(self, split: Split, one: Input) -> tuple[int, list[bytes]]:
        """Return (bytes, digests); raises where the file is not as long as it was when the run was planned."""
        expected = one.source.bytes if split.end is None else split.end - split.start
        seen = self._checksum.bytes
        if seen != expected or self._grown:
            if one.source.checksum is not None:
                raise _Damage(*_damaged(one, "its size changed while it was read"))
            more = "more" if self._grown and seen == expected else seen
            raise _Damage("changed", {"path": one.source.path, "before": expected, "after": more})
        return seen, self._checksum.digests()


def _read_tombstones(plan: Plan, split: Split, one: Input) -> Iterator[Element]:
    parse_order = ORDER_TYPES[plan.order_type][0]
    assert one.source.checksum is not None  # the manifest has one of every tombstone file
    chunk = chunk_of(one.source.checksum) or 1 << 62
    tally = _Tally(chunk)
    path = one.source.path
    for _ in tally.content(split, one):
        pass
    size, digests = tally.result(split, one)
    if combine(digests, chunk) != one.source.checksum:  # before Parquet stumbles over it
        raise _Damage(*_damaged(one, f"its checksum is {combine(digests, chunk)} and should be {one.source.checksum}"))
    rows = 0
    with storage_for(path).open(path) as stream:
        for key, order, committed in read_tombstones(stream):
            rows += 1
            value = NO_SEQUENCE if order is None else parse_order(order)
            yield (bucket_of(key, plan.buckets), key, TOMBSTONE, ()), (value, committed)
    yield (plan.ledger, (), RECEIPT, (split.input, split.number)), tuple(Receipt(rows, 0, 0, rows, size, digests))
