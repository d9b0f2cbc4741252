"""Positions of the key, order value and operation in a row of delimited text, compiled to a function that reads rows.

Ordinals count fields of the feed. The master may lack the op code column; then every later ordinal is one less there.
A compiled reader maps a row's bytes to ``(key, order value, is delete, op code, row as it would be written)``, or
raises ``Unreadable`` with the reason, or ``NoRecord`` with what else the row says.

>>> from mutator.rules.delimiter.field_delimiter import parse
>>> layout = RowLayout(delimiter=parse(","), id_fields=(0,), order_fields=(2,), order_type="long", width=3)
>>> read = compile_reader(layout)
>>> read(b"a,x,7")
((b'a',), 7, False, None, b'a,x,7')
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.display import counted, quoted
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_type import Ignored, Truncate
from mutator.formats.values.row_filter import Scope
from mutator.formats.values.typed_text import values_of
from mutator.rules.byte_columns import ByteColumn, Flags
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.envelope import DELETE, IGNORED, REJECTED, TRUNCATE, UPSERTS, Envelope
from mutator.rules.order_columns import flags, parse_column
from mutator.rules.order_tuples import encoder, orders_of_parts
from mutator.rules.order_types import parts_of
from mutator.rules.order_values import Parser, order_parser
from mutator.rules.partition_fields import PartitionField
from mutator.rules.partition_transforms import directory_of_row
from mutator.rules.unset_fields import NOT_SENT, UnsetTexts

_NOT_PLACED = "has the ID alone, and no partition; with key.scope=table its record is found by the ID"
_KEPT = 1024  # op codes whose meaning is remembered
Reader = Callable[[bytes], tuple[tuple[bytes, ...], Any, bool, bytes | None, bytes]]


class Unreadable(ValueError):
    """A row that cannot be read as a record; the text is the reason."""


class NoRecord(Exception):
    """A row that says nothing of one record. The argument: ``Ignored`` or ``Truncate``."""


@dataclass(frozen=True, kw_only=True)
class RowLayout:
    """Which fields mean what in the rows of one side."""

    delimiter: Delimiter
    id_fields: tuple[int, ...]
    order_fields: tuple[int, ...] = ()  # none: the order value is the file's sequence
    order_type: str = "sequence"
    width: int | None = None  # number of fields; None: any that reaches the fields named here
    envelope: Envelope = UPSERTS  # its field is an ordinal
    cut_op: bool = False  # rows are written without the op code
    joint: bytes = b","
    partition: tuple[PartitionField, ...] = ()  # of a partitioned master; their sources are ordinals
    placed: bool = False  # deletes need values for the partition fields, too
    scope: Scope | None = None  # of a full snapshot: the other rows of the feed are rejects
    unset: UnsetTexts | None = None  # of the feed; None: its rows set all fields
    typed: tuple[
        tuple[int, Any, tuple[bytes, ...]], ...
    ] = ()  # fields, Arrow's type, and the texts that are not values

    @property
    def always_set(self) -> dict[int, str]:
        """The fields that no row leaves unset, and why a row that does is a reject."""
        found = {**dict.fromkeys(self.id_fields, "ID"), **dict.fromkeys(self.order_fields, "order value")}
        found |= dict.fromkeys(self.partition_sources, "partition") if self.placed else {}
        return {field: f"field {field} ({what}) {NOT_SENT}" for field, what in found.items()}

    @property
    def set_by_upserts(self) -> dict[int, str]:
        """The fields that no upsert leaves unset, beside those, and why one that does is a reject."""
        if self.unset is None or not self.unset.whole:
            return {}
        others = {*range(self.width or 0)} - {*self.always_set, self.envelope.field}
        return {field: f"field {field} {self.unset.whole}" for field in sorted(others)}

    def are_sent(self, column: Callable[[int], Any], delete: Flags) -> Flags:
        """Return which rows set all fields that they need. column: returns a field, a pa.Array of large_binary."""
        good = np.ones(len(delete), np.bool_)
        if self.unset is not None and self.unset.value is not None:
            value = pa.scalar(self.unset.value, pa.large_binary())
            for field in self.always_set:
                good &= ~flags(pc.equal(column(field), value))
            for field in self.set_by_upserts:
                good &= ~flags(pc.equal(column(field), value)) | delete
        return good

    def have_values(self, column: Callable[[int], Any], delete: Flags) -> Flags:
        """Return which rows have values of the types of their fields. column: as above."""
        good = np.ones(len(delete), np.bool_)
        for field, data_type, absent in self.typed:
            good &= ~values_of(column(field), data_type, absent)[1] | delete
        return good

    @property
    def lacks_partition(self) -> bool:
        """Return whether rows need values for the partition fields and have none: all of them are rejects."""
        return self.placed and not self.partition

    @property
    def partition_sources(self) -> tuple[int, ...]:
        """The ordinals of the fields that the partition is derived from."""
        return tuple(one.source for one in self.partition if isinstance(one.source, int))

    @property
    def ordered_by(self) -> tuple[int, ...]:
        """The fields of the order value."""
        return self.order_fields

    def orders_of(self, fields: Sequence[ByteColumn]) -> tuple[Any, Flags]:
        """Return the order values of rows, and which have none. fields: those of the order value."""
        parts = parts_of(self.order_type)
        made = [parse_column(part.type, field) for part, field in zip(parts, fields, strict=True)]
        none = np.zeros(len(fields[0]), np.bool_)
        bad = np.logical_or.reduce([one for _, one in made])
        return orders_of_parts(self.order_type, [column for column, _ in made], [none] * len(parts)), bad

    @property
    def needed_width(self) -> int:
        """Number of fields that a row must have where ``width`` is None."""
        scope = () if self.scope is None else self.scope.ordinals
        ordinals = (*self.order_fields, *self.envelope.fields, *self.id_fields, *self.partition_sources, *scope)
        return 1 + max(map(int, ordinals))

    def is_inside(self, items: Sequence[bytes]) -> bool:
        """Return whether the fields of a row are in the scope."""
        return self.scope is None or self.scope.filter.met_by({name: items[int(name)] for name in self.scope.columns})

    @property
    def output_width(self) -> int | None:
        """Number of fields of a row as it is written."""
        return self.width if self.width is None or not self.cut_op else self.width - 1


def without_field(cut: int) -> Callable[[int], int]:
    """Return the function that maps an ordinal to its value after field ``cut`` is removed.

    >>> list(map(without_field(2), [0, 1, 3]))
    [0, 1, 2]
    """
    return lambda ordinal: ordinal - 1 if ordinal > cut else ordinal


def compile_reader(layout: RowLayout) -> Reader:
    """Compile a layout to the function that reads its rows, each of which is split once."""
    literal, split = layout.delimiter.literal, layout.delimiter.split
    ids, single = layout.id_fields, layout.id_fields[0] if len(layout.id_fields) == 1 else None
    width, needed = layout.width, layout.needed_width
    op, placed, lacks_partition = layout.envelope.field, layout.placed, layout.lacks_partition
    order_of, operation = _order_reader(layout), lru_cache(_KEPT)(layout.envelope.operation)
    check_partition, cut = _partition_check(layout), _op_code_cutter(layout)
    without_op, scope, unset = operation(b""), layout.scope, None if layout.unset is None else layout.unset.value
    always_set = () if unset is None else (*layout.always_set.items(),)
    of_upserts, typed = (*layout.set_by_upserts.items(),), layout.typed

    def read(row: bytes) -> tuple[tuple[bytes, ...], Any, bool, bytes | None, bytes]:
        items = row.split(literal) if literal is not None else split(row)
        count = len(items)
        if count != width and (width is not None or count < needed):
            raise Unreadable(
                f"has {counted(count, 'field')} and should have {width if width is not None else f'{needed} or more'}"
            )
        kind, code, fault = without_op if op is None else operation(items[op])
        if kind == IGNORED:
            raise NoRecord(Ignored(code))
        if kind == TRUNCATE:
            raise NoRecord(Truncate(None if order_of is None else order_of(items)))
        if lacks_partition:
            raise Unreadable(_NOT_PLACED)
        for field, reason in always_set if kind == DELETE else (*always_set, *of_upserts):
            if items[field] == unset:
                raise Unreadable(reason)
        for field, data_type, absent in () if kind == DELETE else typed:
            _, bad, why = values_of(pa.array([items[field]], pa.large_binary()), data_type, absent)
            if bad[0]:
                raise Unreadable(f"field {field} {why}: {quoted(items[field])}")
        key = (items[single],) if single is not None else tuple([items[i] for i in ids])
        order, is_delete = None if order_of is None else order_of(items), kind == DELETE
        if kind == REJECTED:
            raise Unreadable(f"{fault}: {quoted(items[op])}")
        if check_partition is not None and (placed or not is_delete):  # a delete goes to the partition of its record
            check_partition(items)
        if scope is not None and not layout.is_inside(items):
            raise Unreadable(scope.outside)
        return key, order, is_delete, code, row if cut is None else cut(items)

    return read


def _order_reader(layout: RowLayout) -> Callable[[Sequence[bytes]], Any] | None:
    fields, order_type = layout.order_fields, layout.order_type
    if not fields:
        return None
    parsers = [order_parser(part.type) for part in parts_of(order_type)]

    def value(items: Sequence[bytes], field: int, parse: Parser) -> Any:
        try:
            return parse(items[field])
        except ValueError as reason:
            raise Unreadable(f"field {field} (order value) {reason}: {quoted(items[field])}") from None

    encode, parts = encoder(order_type), tuple(zip(fields, parsers, strict=True))
    if encode is None:
        return partial(value, field=fields[0], parse=parsers[0])
    return lambda items: encode([value(items, *one) for one in parts])


def _partition_check(layout: RowLayout) -> Callable[[Sequence[bytes]], None] | None:
    fields, sources = layout.partition, layout.partition_sources
    if not fields:
        return None

    def check(items: Sequence[bytes]) -> None:
        try:
            directory_of_row(fields, [items[i] for i in sources])
        except ValueError as reason:
            raise Unreadable(str(reason)) from None

    return check


def _op_code_cutter(layout: RowLayout) -> Callable[[Sequence[bytes]], bytes] | None:
    field, joint = layout.envelope.field, layout.delimiter.literal or layout.joint
    if field is None or not layout.cut_op:
        return None

    def cut(items: Sequence[bytes]) -> bytes:
        written = joint.join([*items[:field], *items[field + 1 :]])
        if not written:
            raise Unreadable("nothing is left of the row without its op code, and a blank line is not a record")
        return written

    return cut
