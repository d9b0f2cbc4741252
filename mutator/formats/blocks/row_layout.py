"""Where the key, the order value and the op code stand in a row, compiled once to a function that reads rows.

Ordinals count in the feed's layout. The master may lack the op code column; then every later ordinal is one less there.
A compiled reader takes a row's bytes and returns ``(key, order value, is delete, row as it would be written)``, or
raises ``Unreadable`` with the reason; it asks no questions about the configuration any more.

>>> from mutator.rules.delimiter.field_delimiter import parse
>>> read = compile_reader(RowLayout(delimiter=parse(","), id_fields=(0,), order_field=2, order_type="long", width=3))
>>> read(b"a,x,7")
((b'a',), 7, False, b'a,x,7')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mutator.errors import quoted
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.order_values import ORDER_TYPES
from mutator.rules.partition_transforms import PartitionField, directory_of_row

__all__ = ["NOT_PLACED", "Reader", "RowLayout", "Unreadable", "compile_reader", "without_field"]

NOT_PLACED = "has the ID alone, and says no partition; with key.scope=table its record is looked for"
Reader = Callable[[bytes], tuple[tuple[bytes, ...], Any, bool, bytes]]


class Unreadable(ValueError):
    """A row that cannot be read as a record; the text is the reason."""


@dataclass(frozen=True)
class RowLayout:
    """Where things are in the rows of one side."""

    delimiter: Delimiter
    id_fields: tuple[int, ...]
    order_field: int | None = None  # None: the order value is the file's sequence
    order_type: str = "sequence"
    width: int | None = None  # number of fields; None: any that holds the fields above
    op_field: int | None = None
    delete_codes: frozenset[bytes] = frozenset()
    upsert_codes: frozenset[bytes] | None = None
    cut_op: bool = False  # rows are written without the op code
    joint: bytes = b","
    deletes: bool = False  # every row is a delete (a delete file)
    keys_only: bool = False  # a row with just the ID fields, in their configured order, is complete
    partition: tuple[PartitionField, ...] = ()  # of a partitioned master; their sources are ordinals of these rows
    placed: bool = False  # each row must say its partition, deletes too
    deletes_allowed: bool = True  # a master row with a delete code is none

    @property
    def partition_sources(self) -> tuple[int, ...]:
        """The fields that the partition is derived from."""
        return tuple(one.source for one in self.partition if isinstance(one.source, int))

    @property
    def output_width(self) -> int | None:
        """Number of fields of a row as it is written."""
        return self.width if self.width is None or not self.cut_op else self.width - 1


def without_field(cut: int) -> Callable[[int], int]:
    """Return the function that maps an ordinal to the one it has once field ``cut`` is gone.

    >>> list(map(without_field(2), [0, 1, 3]))
    [0, 1, 2]
    """
    return lambda ordinal: ordinal - 1 if ordinal > cut else ordinal


def compile_reader(layout: RowLayout) -> Reader:
    """Compile a layout to the function that reads its rows."""
    delimiter = layout.delimiter
    split, literal = delimiter.split, delimiter.literal
    ids, single = layout.id_fields, layout.id_fields[0] if len(layout.id_fields) == 1 else None
    order_field, parse_order = layout.order_field, ORDER_TYPES[layout.order_type][0]
    width = layout.width
    partition, sources = layout.partition, layout.partition_sources
    needed = 1 + max(
        *ids, -1 if order_field is None else order_field, -1 if layout.op_field is None else layout.op_field, *sources
    )
    op_field, delete_codes, upsert_codes = layout.op_field, layout.delete_codes, layout.upsert_codes
    keys_only = len(ids) if layout.keys_only and layout.deletes else None

    def check_partition(items: Sequence[bytes], is_delete: bool) -> None:
        if partition and (layout.placed or not is_delete):  # a delete goes to where its record is
            try:
                directory_of_row(partition, [items[i] for i in sources])
            except ValueError as reason:
                raise Unreadable(str(reason)) from None

    def read(row: bytes) -> tuple[tuple[bytes, ...], Any, bool, bytes]:
        items = row.split(literal) if literal is not None else split(row)
        count = len(items)
        if count == keys_only:
            if layout.placed:
                raise Unreadable(NOT_PLACED)
            return tuple(items), None, True, row
        if count != width and (width is not None or count < needed):
            raise Unreadable(
                f"has {count} fields and should have {width if width is not None else f'{needed} or more'}"
            )
        key = (items[single],) if single is not None else tuple([items[i] for i in ids])
        order = None
        if order_field is not None:
            try:
                order = parse_order(items[order_field])
            except ValueError as reason:
                raise Unreadable(f"field {order_field} (order value) {reason}: {quoted(items[order_field])}") from None
        if op_field is None:
            check_partition(items, layout.deletes)
        return key, order, layout.deletes, row

    if op_field is None:
        return read

    def read_with_op(row: bytes) -> tuple[tuple[bytes, ...], Any, bool, bytes]:
        key, order, _, written = read(row)
        items = row.split(literal) if literal is not None else split(row)
        code = items[op_field]
        is_delete = code in delete_codes
        if is_delete and not layout.deletes_allowed:
            raise Unreadable(f"field {op_field} (op code) marks a delete in the master: {quoted(code)}")
        if not is_delete and upsert_codes is not None and code not in upsert_codes:
            raise Unreadable(f"field {op_field} (op code) is none of the known codes: {quoted(code)}")
        check_partition(items, is_delete)
        if layout.cut_op:
            written = delimiter.cut(row, op_field, layout.joint)
            if not written:
                raise Unreadable("nothing is left of the row without its op code, and a blank line is no record")
        return key, order, is_delete, written

    return read_with_op
