"""How files are read, as a frozen value: the part of a plan that a check, an answer and a merge have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mutator.dataset import checksum
from mutator.dataset.filter_paths import FilterTarget
from mutator.dataset.side_columns import WAITING
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_type import Block, BlockType
from mutator.formats.blocks.block_types import BLOCK_TYPES
from mutator.plan.inspect.managed import PartitionedMaster
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.splits import Input, Split
from mutator.rules.byte_columns import Ints, concatenated
from mutator.rules.order_columns import SEQUENCES, encoded_lowest, kept_orders
from mutator.rules.order_tuples import epoch_prefix, position, with_positions
from mutator.rules.order_types import has_position, type_of_fields
from mutator.rules.order_values import NO_SEQUENCE
from mutator.rules.register import no_sides

SAMPLES = 5  # keys or rows that are shown as examples

ENDLESS = 1 << 62  # the chunk of a file with one checksum


class Chunks(NamedTuple):
    """Bytes of a checksum chunk, by the files that it is of; in files that are read, also of a split."""

    master: int
    feed: int  # smaller, so that a small feed keeps several tasks busy
    written: int


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The files that tasks read, and the form of their rows."""

    run: str = ""  # its ID; nothing is written without one
    now: int = 0  # milliseconds since 1970, UTC: the commit time of a run
    rows: RowPlan
    inputs: tuple[Input, ...]
    tasks: tuple[tuple[Split, ...], ...] = ()  # what each task reads for the shuffle
    groups: int = 1  # tasks that merge; each merges the buckets whose numbers are equal modulo ``groups``
    by_file_name: bool
    side_columns: tuple[Any, ...] = ()  # that the register keeps beside each row, pa.Fields
    buries_rows: bool = False  # and beside tombstones, with rows that wait
    chunks: Chunks
    rejects: Mapping[str, int] = field(default_factory=dict)  # side -> rejected rows that are allowed, by default 0
    order_max: Any = None  # the highest order value that the feed may have; None: any
    as_of: Any = None  # order value that a full snapshot is as of: its rows count as not older
    memory: int = 0  # bytes of the feed that a worker has in memory at once
    master: PartitionedMaster | None = None  # None: the master has no partitions yet, or none at all
    master_buckets: int | None = None  # of a managed master
    filters: FilterTarget | None = None  # where filters of the feed's keys go; None: nowhere

    @property
    def keeps_orders(self) -> bool:
        """Return whether the order value of a row is beside it: the sequence of a file, or fields that it lacks."""
        return self.by_file_name or self.rows.orders_beside

    @property
    def has_sides(self) -> bool:
        """Return whether data files have side files."""
        return self.keeps_orders or bool(self.side_columns)

    @property
    def side_fields(self) -> tuple[Any, ...]:
        """The pa.Fields of what is beside each row: its sequence, its order value, and the columns of the register."""
        orders = kept_orders(self.rows.order_type) if self.rows.orders_beside else ()
        return (*SEQUENCES, *orders, *self.side_columns)

    @property
    def beside_tombstones(self) -> tuple[Any, ...]:
        """The pa.Fields of the values beside tombstones: a row that waits, and its columns of the register."""
        if not self.buries_rows:
            return ()
        return (pa.field(WAITING, self.block_type.kept_type(self.rows.layouts["written"])), *self.side_columns)

    def sides(self, count: int, orders: Any = None, kept: Any = None) -> Any:
        """Return what is kept beside some rows, a pa.StructArray.

        orders: their order values, which rows that have them do not need. kept: a column for each of the register's;
        None: NULLs.
        """
        columns = [orders if self.by_file_name and orders is not None else np.full(count, NO_SEQUENCE)]
        if self.rows.orders_beside:
            columns.append(pa.nulls(count, self.side_fields[1].type) if orders is None else orders)
        return self._sides(
            [*columns, *([pa.nulls(count, one.type) for one in self.side_columns] if kept is None else kept)]
        )

    def sides_of_files(self, sequences: Any) -> Any:
        """Return what is kept beside rows of files without side files. sequences: of their files, an int64 array.

        Rows of a master that another program wrote are older than every mutation.
        """
        count = len(sequences)
        return self._sides([sequences, *(pa.nulls(count, one.type) for one in self.side_fields[1:])])

    def _sides(self, columns: Sequence[Any]) -> Any:
        fields = self.side_fields
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, one.type)
            for column, one in zip(columns, fields, strict=True)
        ]
        if self.rows.orders_beside:
            arrays[1] = arrays[1].fill_null(encoded_lowest(self.rows.order_type))
        return pa.StructArray.from_arrays(arrays, fields=list(fields))

    def orders_of(self, block: Block, inputs: Ints, offsets: Ints, rows: Ints | None = None) -> Any:
        """Return the order values of rows of the feed. inputs, offsets: of the rows. rows: of the block; None: all."""
        if self.by_file_name:
            return pa.array(self.sequences[inputs])
        has_fields, prefix = type_of_fields(self.rows.order_type), epoch_prefix(self.rows.epoch)
        found = block.orders(rows) if has_fields else pa.array([b""] * len(inputs), pa.large_binary())
        if has_position(self.rows.order_type):
            found = with_positions(found, self.sequences[inputs], offsets)
        return concatenated(prefix, found) if prefix else found

    def order_of(self, order: Any, sequence: int, offset: int) -> Any:
        """Return the order value of a row of the feed. order: that of its fields."""
        if self.by_file_name:
            return sequence
        if has_position(self.rows.order_type):
            order = (order or b"") + position(sequence, offset)
        return epoch_prefix(self.rows.epoch) + order if self.rows.epoch else order

    def order_of_truncate(self, order: Any, sequence: int) -> Any:
        """Return the order value of a truncate: that of its fields, or of the beginning of its file."""
        if not self.by_file_name and type_of_fields(self.rows.order_type):
            return epoch_prefix(self.rows.epoch) + order if self.rows.epoch else order
        return self.order_of(order, sequence, 0)

    def orders_in(self, sides: Any) -> Any:
        """Return the order values that are kept beside some rows, a pa.Array. sides: of the rows."""
        return sides.field(0 if self.by_file_name else 1)

    def kept(self, sides: Any) -> Any:
        """Return the columns of the register alone, a pa.StructArray. sides: all side columns of some rows."""
        if not self.side_columns:
            return no_sides(len(sides), ())
        own = len(self.side_fields) - len(self.side_columns)
        return pa.StructArray.from_arrays(sides.flatten()[own:], fields=list(self.side_columns))

    @property
    def changes_keys(self) -> bool:
        """Return whether a row of the feed may change a key, so that it is kept of mutations where they moved."""
        found: bool = self.rows.layouts["feed"].envelope.changes_keys
        return found

    @property
    def is_partitioned(self) -> bool:
        """Return whether the output is partitioned."""
        return bool(self.rows.partitioning.fields)

    @property
    def by_table(self) -> bool:
        """Return whether a record may move from one partition of the output to another."""
        return self.rows.partitioning.by_table

    @property
    def feed_has_directories(self) -> bool:
        """Return whether mutations carry the directories of their partitions.

        Where records may move and the master has no partitions yet, rows get them only once they are merged.
        """
        return self.is_partitioned and not (self.by_table and self.master is None)

    @property
    def block_type(self) -> BlockType:
        """The type of the blocks that the engine merges."""
        return BLOCK_TYPES[self.rows.block_type]

    @property
    def rejects_shipped(self) -> Mapping[str, int]:
        """How many rejected rows of a split travel to the ledger, by side."""
        return {side: allowed + SAMPLES for side, allowed in self.rejects.items()}

    @property
    def ledger(self) -> int:
        """The number of the shuffle partition that gets receipts and rejects instead of records."""
        return self.groups

    @property
    def key_width(self) -> int:
        """The number of values of a record ID."""
        return len(self.rows.layouts["feed"].id_fields)

    @property
    def splits(self) -> tuple[Split, ...]:
        """All splits that are read."""
        return tuple(split for task in self.tasks for split in task)

    @cached_property
    def master_is_table(self) -> bool:
        """Return whether the bytes of the master's rows decide between them, instead of names and offsets."""
        return any(part.source.is_table for part in self.inputs if part.side == "master")

    @cached_property
    def sequences(self) -> Ints:
        """The sequence of each input, an int64 array."""
        return np.array([part.sequence for part in self.inputs], np.int64)

    @cached_property
    def ranks(self) -> Ints:
        """The rank of each input, an int64 array."""
        return np.array([part.rank for part in self.inputs], np.int64)

    def chunk_of(self, part: Input) -> int:
        """Return the bytes of a checksum chunk of an input."""
        if part.source.checksum is not None:
            return checksum.chunk_of(part.source.checksum) or ENDLESS
        return self.chunks.feed if part.side == "feed" else self.chunks.master
