"""Rows of files with a schema: the rules they are read by, and the code that their block types share."""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_type import Batch, Hashes, Ignored, Item, Record, Truncate
from mutator.formats.content import Content, Reject
from mutator.formats.files.path_fields import has_no_name
from mutator.formats.values.nested import member
from mutator.formats.values.row_filter import Scope
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.envelope import DELETE, IGNORED, TRUNCATE, UPSERTS, Envelope, Operations
from mutator.rules.key_hash import hash_columns
from mutator.rules.order_columns import flags, to_value
from mutator.rules.partition_fields import PartitionField
from mutator.rules.partition_transforms import RowPartitions, partition_rows
from mutator.rules.patches import masks_of
from mutator.rules.typed_values import canonical, orders_of
from mutator.rules.unset_fields import UnsetFields

_AS_NULL = "which the name of a directory cannot tell from NULL; set partition.columns=file"
_HEAD = 8  # bytes of the length before packed rows
# No field of a file has this name. A NUL would not do: it ends a name in some functions of Arrow.
UNSET = pa.field("\x01unset", pa.binary())


class BadRows(dict[int, str]):
    """The rows of a batch that cannot be read as records: row number to first reason."""

    def __init__(self, *reasons: Any) -> None:
        super().__init__(*reasons)
        self.unordered: dict[int, str] = {}  # those without an order value
        self.ignored: Flags | bool = False  # which rows are no mutations, whatever they contain

    def others(self) -> Self:
        """Return no rows, for reasons that may not count."""
        found = type(self)()
        found.ignored = self.ignored
        return found

    def note(self, bad: Flags, reason: str) -> None:
        """Add a reason to the rows that have none yet."""
        for row in np.flatnonzero(bad & np.logical_not(self.ignored)).tolist():
            self.setdefault(row, reason)

    def note_invalid(self, column: Any, name: str) -> None:
        """Note the rows with a value that its type does not allow, such as text that is not UTF-8."""
        try:
            column.validate(full=True)  # readers do not check
        except pa.ArrowInvalid:
            for row in range(len(column)):
                try:
                    column.take(pa.array([row])).validate(full=True)
                except pa.ArrowInvalid as fault:
                    self.setdefault(row, f"field {name} has a value that its type does not allow: {fault}")

    def are(self, count: int) -> Flags:
        """Return which of the rows of a batch are noted."""
        found = np.zeros(count, np.bool_)
        found[list(self)] = True
        return found

    def join(self, offsets: Ints) -> None:
        """Note all rows of a row of the file if one of them is noted. offsets: of the rows of the file."""
        if len(self):
            reasons = {int(offsets[row]): self[row] for row in sorted(self, reverse=True)}
            for row in np.flatnonzero(np.isin(offsets, [*reasons])).tolist():
                self.setdefault(row, reasons[int(offsets[row])])

    def settle(self, said: Operations, orders: Any) -> tuple[Flags, Any]:
        """Return which rows are mutations or records, and the order values of truncates, as in ``Batch``.

        An ignored row is not a reject, whatever it contains; nor is a truncate with an order value. orders: pa.Array.
        """
        ignored, truncate = said.are(IGNORED), said.are(TRUNCATE)
        others = ignored | truncate
        for row in [row for row in self if others[row]]:
            del self[row]
        self.update((row, reason) for row, reason in self.unordered.items() if truncate[row])
        good = ~(self.are(len(said)) | others)
        if not truncate.any():
            return good, None
        truncate &= ~self.are(len(said))
        return good, pa.nulls(int(truncate.sum())) if orders is None else orders.filter(pa.array(truncate))


@dataclass(frozen=True, kw_only=True)
class RowRules:
    """The rules for reading rows; the layouts of all block types with a schema begin with them."""

    order_type: str
    order_fields: tuple[tuple[str, ...], ...]  # a field, and the members within it; none: order comes from file names
    orders_beside: bool = False  # rows of the feed have fields for them that the result lacks
    null_lowest: bool = False  # a record without an order value is older than every other
    envelope: Envelope = UPSERTS  # its fields are names
    feed: bool = True  # the rows carry a delete mark
    partition: tuple[PartitionField, ...] = ()  # of a partitioned master, by the names of their sources
    placed: bool = False  # deletes need values for the partition fields, too
    in_path: tuple[str, ...] = ()  # partition fields that written files have in their paths alone
    scope: Scope | None = None  # of a full snapshot: the other rows of the feed are rejects
    unset: UnsetFields | None = None  # of the feed; None: its rows set all fields, and have no masks

    @property
    def masks(self) -> list[Any]:
        """The pa.Field of the masks of rows, if they have any."""
        return [] if self.unset is None else [UNSET]

    def masks_of(self, unset: Mapping[str, Flags], bad_rows: BadRows, delete: Flags) -> list[Any]:
        """Return the masks of rows, if they have any; note rows that leave a field unset which they need.

        unset: which rows leave a field unset, by name.
        """
        if self.unset is None:
            return []
        for reason, rows in self.unset.faults(unset, delete).items():
            bad_rows.note(rows, reason)
        found = self.unset.masked(unset, delete)
        return [pa.nulls(len(delete), pa.binary()) if found is None else masks_of(found)]

    def operations_of(self, columns: Mapping[str, Any], count: int, bad_rows: BadRows) -> Operations:
        """Return what rows do; note the rejects. columns: pa.Array by name."""
        envelope = self.envelope
        if envelope.field is None:
            return envelope.of_file(count)
        said = envelope.of_array(canonical(columns[envelope.field]))
        for reason, rows in said.faults.items():
            bad_rows.note(rows, reason)
        bad_rows.ignored = said.are(IGNORED)
        return said

    def partitions_of(
        self, columns: Mapping[str, Any], bad_rows: BadRows, delete: Flags, *, trusted: bool = False
    ) -> RowPartitions | None:
        """Return the partitions of rows, None if the file lacks a source; note rows without a partition that they need.

        columns: pa.Array by name, of the fields in the file. trusted: this program wrote the file; raises DataError for
        a value that a path cannot have.
        """
        sources = [str(one.source) for one in self.partition]
        lacking = [name for name in sources if name not in columns]
        if lacking and self.placed:
            why = "is not in the file; with key.scope=table its record is found by the ID"
            bad_rows.note(np.ones(len(delete), np.bool_), f"field {lacking[0]} (partition) {why}")
        if lacking or not self.partition:
            return None
        texts = {name: exact_text(columns[name]) for name in sources}
        found = partition_rows(self.partition, [texts[name] for name in sources])
        for name in self.in_path:
            for row in np.flatnonzero(has_no_name(texts[name])).tolist():
                if trusted:
                    raise error("partition.empty", field=name)
                shown = f"'{texts[name][row].as_py().decode()}'"
                found.reasons.setdefault(row, f"field {name} (partition) is {shown}, {_AS_NULL}")
        for row, reason in found.reasons.items():
            if self.placed or not delete[row]:  # a delete goes to where its record is
                bad_rows.setdefault(row, reason)
        return found

    @property
    def ordered_by(self) -> tuple[str, ...]:
        """The names of the fields that have the order value, or a part of it in a member."""
        return tuple(dict.fromkeys(path[0] for path in self.order_fields))

    def orders_of(self, columns: Mapping[str, Any], bad_rows: BadRows) -> Any:
        """Return a pa.Array of order values; note the rows without one. columns: pa.Array by name."""
        parts = self.order_parts(columns)
        found, faults = orders_of(self.order_type, parts, self.null_lowest)
        unordered = bad_rows.others()
        for path, column, (bad, why) in zip(self.order_fields, parts, faults, strict=True):
            null, field = flags(column.is_null()), f"field {'.'.join(path)} (order value)"
            unordered.note(bad & null, f"{field} is NULL")
            unordered.note(bad & ~null, f"{field} {why}")
        bad_rows.unordered = unordered
        for row, reason in unordered.items():
            bad_rows.setdefault(row, reason)
        return found

    def order_parts(self, columns: Mapping[str, Any]) -> list[Any]:
        """Return a pa.Array for each order field. columns: pa.Array by name."""
        return [member(columns[name], members) for name, *members in self.order_fields]


def deleted_and_upserted(offsets: Ints, columns: Sequence[Any], id_fields: Sequence[int], delete: Flags) -> Ints:
    """Return the deletes of keys that the same row of the file upserts: images spell a value in two ways, 1.5 and 1.50.

    Such a row changes no key.
    """
    found = np.flatnonzero((offsets[1:] == offsets[:-1]) & delete[:-1] & ~delete[1:])
    for ordinal in id_fields if len(found) else ():
        old, new = (canonical(columns[ordinal].take(pa.array(rows))) for rows in (found, found + 1))
        found = found[flags(pc.fill_null(pc.equal(old, new), False))]
    return found


class SchemaBlockType:
    """The members of ``BlockType`` that do not depend on how rows travel; ``load`` makes blocks of ``block``."""

    run_together = False
    after_packed = b""
    read: Callable[..., Iterator[Batch]]
    contents: Callable[[Any], Any]
    block: Callable[[Any, Ints, Any], Any]

    def unsupported(self, layout: Any) -> str | None:
        """Return None: all layouts are supported."""
        return None

    def records(self, content: Content, layout: Any) -> Iterator[Item]:
        """Yield rows one by one, in the order of their offsets."""

        def values(orders: Any) -> list[Any]:
            return [None if value is None else to_value(layout.order_type, value) for value in orders.to_pylist()]

        for batch in self.read(content, layout, trusted=False):
            said, block = batch.said, batch.block
            assert said is not None
            no_mutations = said.are(IGNORED)
            yield from map(Ignored, said.only(no_mutations).codes())
            yield from (None for _ in range(batch.ignored - int(no_mutations.sum())))
            yield from () if batch.truncates is None else map(Truncate, values(batch.truncates))
            orders = values(block.orders()) if layout.order_fields else [None] * len(block)
            codes = said.only(said.kinds <= DELETE).codes()
            found: Iterator[Record | Reject] = map(
                Record,
                block.offsets.tolist(),
                zip(*(column.to_pylist() for column in block.keys(None)), strict=True),
                orders,
                block.deletes().tolist(),
                codes,
                self.contents(block.written()).to_pylist(),
                self.contents(block.rows).to_pylist(),
                block.unset().to_pylist(),
            )
            yield from heapq.merge(batch.rejects, found, key=attrgetter("offset"))

    def pack(self, rows: Any) -> bytes:
        """Serialize rows for the shuffle, as an Arrow message after its length."""
        if not len(rows):
            return b""
        message = bytes(pa.RecordBatch.from_struct_array(rows).serialize())
        return len(message).to_bytes(_HEAD, "big") + message

    def load(self, packed: bytes, layout: Any) -> Any:
        """Return the block of packed rows."""
        schema, parts = pa.schema(list(layout.row_type)), []
        at = 0
        while at < len(packed):
            end = at + _HEAD + int.from_bytes(packed[at : at + _HEAD], "big")
            message = pa.py_buffer(memoryview(packed)[at + _HEAD : end])
            parts.append(pa.ipc.read_record_batch(message, schema).to_struct_array())
            at = end
        rows = pa.concat_arrays(parts) if len(parts) > 1 else parts[0] if parts else pa.array([], layout.row_type)
        return self.block(rows, np.arange(len(rows)), layout)


class SchemaBlock(ABC):
    """Rows as a pa.StructArray; the last field of the feed's is the delete mark."""

    def __init__(self, rows: Any, offsets: Ints, layout: Any, partitions: RowPartitions | None = None) -> None:
        self.rows, self.offsets, self.partitions, self._layout = rows, offsets, partitions, layout

    def __len__(self) -> int:
        return len(self.rows)

    def unset(self) -> Any:
        """Return the masks of the fields that rows leave unset."""
        return pa.nulls(len(self)) if self._layout.unset is None else self.rows.field(UNSET.name)

    @abstractmethod
    def keys(self, rows: Ints | None = None) -> list[Any]:
        """Return a column of canonical bytes for each ID field."""

    def hashes(self, rows: Ints | None = None) -> Hashes:
        """Return the key hashes of some rows."""
        return hash_columns([ByteColumn.of_array(column) for column in self.keys(rows)])

    def deletes(self) -> Flags:
        """Return which rows are deletes."""
        if not self._layout.feed:
            return np.zeros(len(self), np.bool_)
        return flags(self.rows.field(self.rows.type.num_fields - 1))


class RowWriter:
    """Write one file with a schema, and count its rows."""

    def __init__(self, inner: Any, convert: Callable[[Any], Any]) -> None:
        """inner: a ``TableWriter`` or the like. convert: from rows to the argument of its ``write``."""
        self._inner, self._convert = inner, convert
        self.rows = 0

    def write(self, rows: Any) -> None:
        """Write the next rows."""
        if len(rows):
            self._inner.write(self._convert(rows))
            self.rows += len(rows)

    def close(self) -> None:
        """Finish the file."""
        self._inner.close()

    @property
    def rows_by_chunk(self) -> list[int]:
        """The number of rows: the file has one checksum chunk."""
        return [self.rows]
