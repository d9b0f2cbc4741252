"""Read splits to the elements of the blocks engine's shuffle: plain functions, no Spark.

    ((group, (), FLOOR, (input, split)), order)     the highest truncate of a split, to every group
    ((group, (), RUN, (input, split, n)), Run)      mutations folded within the task, in the order of reading
    ((group, (), ROWS, (input, split, n)), Rows)    master rows in the order of their files, where they are shuffled
    ((group, (), TOMBSTONES, (input, split, n)), table) tombstones, where they are shuffled; as Arrow IPC

Everything but records goes to the ledger (``engine.split_content``). Rows travel with their positions, and those of the
feed with the directories of their partitions. Keys, hashes and order values are derived again from rows, which costs
less than sending them. Of the hash of a master row half is sent, because few of these rows are looked at again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.side_columns import tombstone_schema, tombstone_tables
from mutator.engine.blocks.fold import BlockBag
from mutator.engine.blocks.mutations import Columns, Mutations, directories_of, key_columns, mutations_of, rows_of
from mutator.engine.blocks.tombstone_columns import with_beside
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.receipts import NOTHING_READ, SplitReceipt
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
from mutator.formats.blocks.block_type import Batch, Hashes
from mutator.formats.content import NotReadable
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split
from mutator.rules.byte_columns import ByteColumn, Ints
from mutator.rules.envelope import IGNORED
from mutator.rules.key_hash import hash_columns, prefixes_of
from mutator.rules.key_moves import arrivals, lows_of
from mutator.rules.op_codes import abridged, add_counts
from mutator.rules.order_columns import to_value
from mutator.rules.order_units import Future, Units, future_of, joined, joined_futures, units_of
from mutator.rules.sort_order import number_order
from mutator.storage import storage_for
from mutator.storage.progress import count

RUN, ROWS, TOMBSTONES = 0, 1, 2  # the feed comes first, so that a reducer can stream the rest against it

# The others are derived again
_SHIPPED = ("rows", "inputs", "offsets", "counts", "mixed", "upserts", "directories", "lows")
_PIECE = 1 << 20  # bytes of rows that go to one group at once
# The same, of a master's split of a known size: larger ones need fewer calls, but Spark collects up to a thousand.
_LARGE_PIECE = 4 << 20

Piece = tuple[int, int, int]  # group, first row, and the one after the last


class BlockRun(NamedTuple):
    """Folded mutations: their rows as the format packs them, and everything that the rows do not contain."""

    layout: str
    rows: bytes
    inputs: bytes  # int32
    offsets: bytes  # int64
    directories: bytes | None  # of their partitions, as Arrow IPC; None: mutations carry none
    folded: tuple[bytes, bytes, bytes] | None  # counts, mixed, upserts; None: nothing was folded
    lows: bytes | None = None  # as Arrow IPC; None: NULLs


class BlockRows(NamedTuple):
    """Master rows as the format packs them."""

    rows: bytes  # and ``BlockType.after_packed``
    inputs: tuple[tuple[int, int], ...]  # (input, rows), in their order
    prefixes: bytes  # uint32, of the key hashes, so that few rows are hashed again
    sides: bytes | None  # as Arrow IPC; None: the sequences of their files


def read_runs(plan: Plan, splits: Iterable[Split], feed: "type[Feed] | None" = None) -> Iterator[Any]:
    """Read the splits of one task; errors in a file travel as data. feed: collects the mutations."""
    keep_freed_memory()
    mutations, master = (feed or Feed)(plan), _Master(plan)

    def read(split: Split, file: Input) -> Iterator[Any]:
        if file.side == "tombstones":
            return _read_tombstones(plan, split, file)
        return mutations.read(split, file) if file.side == "feed" else master.read(split, file)

    yield from read_splits(plan, splits, read)
    yield from mutations.runs()
    yield from master.pieces()


def batches(plan: Reading, split: Split, file: Input, trusted: bool) -> Iterator[tuple[Batch, SplitReceipt]]:
    """Read a split; yield its batches, each with the receipt of all so far (the last one is whole). Raises Damage."""
    content = SplitContent(plan, split, file)
    layout = plan.rows.layouts[file.layout]
    rows = rejects = ignored = lines = no_mutations = truncates = halves = 0
    codes, truncated = dict[bytes, int](), set[Any]()
    reader = plan.block_type.read(content, layout, trusted)
    try:
        batch = next(reader, None)
        while batch is not None:
            if batch.truncates is not None and len(batch.truncates):
                truncates += len(batch.truncates)
                truncated |= _orders_of(plan, file, batch.truncates)
            rows, halves = rows + len(batch.block) + len(batch.rejects) - batch.halves, halves + batch.halves
            count(rows=len(batch.block) + len(batch.rejects))
            rejects, ignored, lines = rejects + len(batch.rejects), ignored + batch.ignored, lines + batch.lines
            if batch.said is not None:
                no_mutations += int(batch.said.are(IGNORED).sum())
                add_counts(codes, batch.said.counts())
            after = next(reader, None)
            if after is None:
                break
            yield batch, SplitReceipt(rows + truncates, rejects, ignored, lines, 0, ())
            batch = after
    except NotReadable as fault:
        raise damaged(file, fault) from None
    receipt = SplitReceipt(rows + truncates, rejects, ignored, lines, *content.result(), abridged(codes))
    receipt = receipt._replace(no_mutations=no_mutations, truncates=truncates, halves=halves)
    receipt = receipt._replace(floor=reduce(highest, truncated, None), truncated=frozenset(truncated))
    if batch is not None:
        yield batch, receipt
    else:
        yield Batch(plan.block_type.load(b"", layout), (), 0, 0), receipt


def _orders_of(plan: Reading, file: Input, truncates: Any) -> set[Any]:
    """Return the order values of truncates. truncates: as in ``Batch``."""
    found = pc.unique(truncates).to_pylist()
    orders = (None if one is None else to_value(plan.rows.order_type, one) for one in found)
    return {plan.order_of_truncate(order, file.sequence) for order in orders}


def rejected(plan: Reading, split: Split, file: Input, batch: Batch, receipt: SplitReceipt) -> Iterator[Any]:
    """Yield the ledger's elements of a batch's rejects."""
    # More than may be set aside need not travel: they are counted, and the run will fail.
    before = receipt.rejected - len(batch.rejects)
    for offset, line, reason, row in batch.rejects[: max(plan.rejects_shipped[file.side] - before, 0)]:
        yield (plan.ledger, (), REJECT, (split.input, offset)), (split.number, line, reason, row)


class Feed:
    """The mutations of a task, by the layout of their rows."""

    def __init__(self, plan: Plan) -> None:
        """Begin without mutations."""
        self.plan = plan
        self.waiting: dict[str, list[Mutations]] = {}
        self._bytes = 0
        self._split = (0, 0)
        self._number = 0

    def read(self, split: Split, file: Input) -> Iterator[Any]:
        """Read a split; yield its elements of the ledger, and runs when the mutations become too many."""
        self._split = (split.input, split.number)
        receipt, units, keys = NOTHING_READ, list[Units](), SplitKeys(self.plan, split)
        future, newer = list[Future | None](), list[Future | None]()
        order_type, now, at = self.plan.rows.order_type, self.plan.now, self.plan.as_of

        def count_orders(orders: Any) -> None:
            units.append(units_of(order_type, orders))
            if not self.plan.by_file_name:
                future.append(future_of(order_type, orders, now, self.plan.order_max))
                newer.append(None if at is None else future_of(order_type, orders, now, at))

        for batch, receipt in batches(self.plan, split, file, trusted=False):
            yield from rejected(self.plan, split, file, batch, receipt)
            if batch.truncates is not None and not self.plan.by_file_name:
                count_orders(batch.truncates)
            block = batch.block
            if not len(block):
                continue
            inputs = np.full(len(block), split.input, np.int64)
            offsets = np.zeros(len(block), np.int64) if file.source.is_table else block.offsets
            found = mutations_of(self.plan, block, inputs, offsets, directories_of(self.plan, block))
            if batch.halves and self.plan.changes_keys:
                found = replace(found, lows=lows_of(found.orders, arrivals(block.offsets, found.deletes)))
            yield from keys.add(found.hashes)
            self.waiting.setdefault(file.layout, []).append(found)
            count_orders(found.orders)
            self._bytes += found.nbytes
            if self._bytes > self.plan.memory:
                yield from self.runs()
        yield from keys.filters()
        yield from floors(self.plan, split, receipt.floor)
        receipt = receipt._replace(units=joined(units), future=joined_futures(future), newer=joined_futures(newer))
        yield receipt_of(self.plan, split, receipt)

    def runs(self) -> Iterator[Any]:
        """Fold the mutations read so far, and yield a run for each group that has any of them."""
        plan = self.plan
        form = plan.block_type
        for layout, parts in self.waiting.items():
            pieces, found = self._grouped(parts)
            rows, directories = found["rows"], found["directories"]
            columns: list[Any] = [found["inputs"].astype(np.int32), found["offsets"]]
            columns += [found["counts"], found["mixed"], found["upserts"]]
            whole = bool((found["counts"] > 1).any())
            for group, start, end in _sliced(pieces, max(_PIECE * len(rows) // max(rows.nbytes, 1), 1)):
                inputs, offsets, counts, mixed, upserts = (column[start:end].tobytes() for column in columns)
                packed = form.pack(rows.slice(start, end - start))
                where = _packed_directories(plan, directories.slice(start, end - start))
                folded, own = (counts, mixed, upserts) if whole else None, found["lows"].slice(start, end - start)
                lows = None if own.null_count == len(own) else table_bytes(pa.table({"lows": own}))
                run = BlockRun(layout, packed, inputs, offsets, where, folded, lows)
                self._number += 1
                yield (group, (), RUN, (*self._split, self._number)), tuple(run)
        self.forget()

    def _grouped(self, parts: list[Mutations]) -> tuple[list[Piece], dict[str, Any]]:
        """Fold mutations; return the pieces that go to each group, and the columns that do. The list is emptied.

        The rows of a group stay in the order in which they were read: the reducer sorts them with those of other tasks,
        and rows are copied in half the time where neighbours stay together.
        """
        columns = Columns(parts)
        rows, remarks = self.plan.folding.fold(BlockBag(self.plan, self.compared(columns, parts)))
        parts.clear()
        order = number_order(rows)
        by_group, pieces = grouped(columns.joined("hashes")[rows[order]], self.plan.groups)
        order = order[by_group]
        taken = columns.take(rows[order], _SHIPPED)
        return pieces, taken | {name: rows_of(column, order) for name, column in remarks.items()}

    def compared(self, columns: Columns, parts: Sequence[Mutations]) -> Columns:
        """Return the columns by which mutations with equal keys compete: these. parts: of which they are."""
        return columns

    def forget(self) -> None:
        """Remove all mutations."""
        self.waiting, self._bytes = {}, 0


def mutations_of_run(plan: Reading, run: BlockRun) -> Mutations:
    """Return the mutations of a run."""
    block = plan.block_type.load(run.rows, plan.rows.layouts[run.layout])
    inputs = np.frombuffer(run.inputs, np.int32).astype(np.int64)
    folded = None
    if run.folded is not None:
        counts, mixed, upserts = run.folded
        folded = (np.frombuffer(counts, np.int64), np.frombuffer(mixed, np.bool_), np.frombuffer(upserts, np.bool_))
    directories = pa.nulls(len(block))
    if run.directories is not None:
        directories = pa.ipc.open_stream(run.directories).read_all().column(0).combine_chunks()
    lows = None if run.lows is None else pa.ipc.open_stream(run.lows).read_all().column(0).combine_chunks()
    return mutations_of(plan, block, inputs, np.frombuffer(run.offsets, np.int64), directories, folded, lows)


class _Part(NamedTuple):
    """Master rows of one block that go to one group."""

    input: int
    rows: bytes
    prefixes: bytes
    sides: Any  # None: the run keeps none

    @property
    def number_of_rows(self) -> int:
        return len(self.prefixes) // 4

    @property
    def size(self) -> int:
        return len(self.rows) + len(self.prefixes)


class _Master:
    """The master rows of a task, by the group that they go to, in their order."""

    def __init__(self, plan: Reading) -> None:
        self._plan = plan
        self._waiting: dict[int, list[_Part]] = {}
        self._sizes: Counter[int] = Counter()
        self._bytes = 0
        self._split = (0, 0)
        self._number = 0

    def read(self, split: Split, file: Input) -> Iterator[Any]:
        plan, block_type = self._plan, self._plan.block_type
        self._split = (split.input, split.number)
        sides = RowSides(plan, split, file)
        receipt, most = NOTHING_READ, _PIECE if split.end is None else _LARGE_PIECE
        for batch, receipt in batches(plan, split, file, trusted=False):
            yield from rejected(plan, split, file, batch, receipt)
            block = batch.block
            if sides.recorded and batch.rejects and not plan.is_partitioned:  # else a row may lack a partition
                raise damaged(file, "it has lines that are not rows, and a side file with values of each row")
            hashes = block.hashes()
            order, pieces = grouped(hashes, plan.groups)
            index = pa.array(order)
            rows, prefixes = block.rows.take(index), prefixes_of(hashes)[order]
            own = sides.of(batch).take(index) if plan.has_sides else None
            for group, start, end in pieces:
                piece = block_type.pack(rows.slice(start, end - start))
                beside = None if own is None else own.slice(start, end - start)
                part = _Part(split.input, piece, prefixes[start:end].tobytes(), beside)
                self._waiting.setdefault(group, []).append(part)
                self._sizes[group] += part.size
                self._bytes += part.size
                if self._sizes[group] > most:
                    yield self._piece(group)
            if self._bytes > plan.memory:
                yield from self.pieces()
        sides.end()
        yield receipt_of(plan, split, receipt)

    def pieces(self) -> Iterator[Any]:
        """Yield all rows that wait."""
        for group in sorted(self._waiting):
            yield self._piece(group)

    def _piece(self, group: int) -> Any:
        parts = self._waiting.pop(group)
        self._bytes -= self._sizes.pop(group)
        self._number += 1
        sides = None
        if self._plan.has_sides:
            sides = table_bytes(pa.table([pa.concat_arrays([part.sides for part in parts])], ["sides"]))
        inputs = tuple((part.input, part.number_of_rows) for part in parts)
        rows = b"".join((*(part.rows for part in parts), self._plan.block_type.after_packed))
        prefixes = b"".join(part.prefixes for part in parts)
        value = BlockRows(rows, inputs, prefixes, sides)
        return (group, (), ROWS, (*self._split, self._number)), tuple(value)


def _sliced(pieces: list[Piece], rows: int) -> Iterator[Piece]:
    """Cut pieces into smaller ones. rows: the most rows of a piece."""
    for group, start, end in pieces:
        for begin in range(start, end, rows):
            yield group, begin, min(begin + rows, end)


def grouped(hashes: Hashes, groups: int) -> tuple[Ints, list[Piece]]:
    """Return the rows ordered by the group of their key, and (group, start, end) of each that occurs."""
    found = hashes % np.uint64(groups)
    order = np.argsort(found.astype(np.uint16) if groups <= 1 << 16 else found, kind="stable")
    found = found[order]
    starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(found)), np.bool_), found[1:] != found[:-1]))).tolist()
    ends = [*starts[1:], len(order)]
    return order, [(int(found[start]), start, end) for start, end in zip(starts, ends[: len(starts)], strict=True)]


def tombstones(plan: Reading, split: Split, file: Input) -> Iterator[Any]:
    """Yield the tables of a file of tombstones, with the hash of each key. Raises Damage."""
    with storage_for(file.source.path).open(file.source.path) as stream:
        for table in tombstone_tables(stream):
            known = tombstone_schema(plan.key_width).names
            types = {"committed": pa.int64()}
            schema = pa.schema([(name, types.get(name, pa.large_binary())) for name in known])
            own = table.select(known).cast(schema).combine_chunks()
            own = own.append_column("hash", pa.array(hash_columns([*map(ByteColumn.of_array, key_columns(own))])))
            for field in plan.beside_tombstones:
                if field.name in table.column_names:
                    own = own.append_column(field.name, table.column(field.name))
            yield with_beside(plan, own)


def _read_tombstones(plan: Reading, split: Split, file: Input) -> Iterator[Any]:
    receipt = check_tombstones(plan, split, file)
    for number, table in enumerate(tombstones(plan, split, file)):
        order, pieces = grouped(table.column("hash").to_numpy(), plan.groups)
        table = table.take(pa.array(order))
        for group, start, end in pieces:
            part = table.slice(start, end - start)
            yield (group, (), TOMBSTONES, (split.input, split.number, number)), table_bytes(part)
    yield receipt_of(plan, split, receipt)


def _packed_directories(plan: Reading, column: Any) -> bytes | None:
    """Return a slice of a pa.DictionaryArray as Arrow IPC, with the names that occur in it, or None."""
    if not plan.feed_has_directories:
        return None
    return table_bytes(pa.table({"directory": column.cast(pa.string()).dictionary_encode()}))


def table_bytes(table: Any) -> bytes:
    """Write a table as Arrow IPC."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
