"""Rows as their fields, for registers that decide about fields: ``rules.register.RowFields``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.row_layout import RowLayout
from mutator.formats.files.line_scan import LineTable
from mutator.formats.values.convert import converted
from mutator.formats.values.nested import nulls
from mutator.formats.values.scalar_text import exact_text
from mutator.formats.values.typed_text import sure_values, texts_of
from mutator.rules.byte_columns import PAD, Flags, exchanged, joined
from mutator.rules.order_columns import flags
from mutator.rules.patches import masks_of
from mutator.rules.typed_values import from_row_bytes, row_bytes

_TEXT = pa.large_binary()


@dataclass(frozen=True)
class TextFields:
    """The fields of written rows of delimited text.

    >>> from mutator.rules.delimiter.field_delimiter import parse
    >>> layout = RowLayout(delimiter=parse(","), id_fields=(0,), width=3)
    >>> fields = TextFields(layout, b"")
    >>> one = fields.columns(pa.array([b"a,1,x\\n", b"b,2,y\\n"], pa.large_binary()))
    >>> one[2].to_pylist(), fields.rows(one[::-1]).to_pylist()
    ([b'x', b'y'], [b'x,1,a\\n', b'y,2,b\\n'])
    """

    layout: RowLayout  # of written rows
    null_text: bytes
    types: Mapping[int, Any] = field(default_factory=dict)  # Arrow's, of the fields that have one

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The ordinals of the fields."""
        return tuple(map(str, range(self.layout.width or 0)))

    @property
    def _joint(self) -> bytes:
        return self.layout.delimiter.literal or self.layout.joint

    def columns(self, rows: Any) -> list[Any]:
        """Return a column of bytes for each field; those of a row of another width, as a delete may be, are empty."""
        data, width = np.frombuffer(bytes(joined(rows)) + PAD, np.uint8), len(self.names)
        table = LineTable.of(data, self._joint[0], width)
        whole = table.fields == width
        if whole.all():
            return [table.field(data, slice(None), number).take() for number in range(width)]
        index = pa.array(np.cumsum(whole) - 1, mask=~whole)
        chosen = np.flatnonzero(whole)
        found = [table.field(data, chosen, number).take().take(index) for number in range(width)]
        return [column.fill_null(b"") for column in found]

    def rows(self, columns: Sequence[Any]) -> Any:
        """Return lines, each with a line feed."""
        joint, end = pa.scalar(self._joint, _TEXT), pa.scalar(b"\n", _TEXT)
        lines = pc.binary_join_element_wise(*columns, joint)
        return pc.binary_join_element_wise(lines, end, pa.scalar(b"", _TEXT))

    def null(self, number: int) -> Any:
        """Return the text of NULL."""
        return pa.array([self.null_text], _TEXT)

    def parts(self, row: bytes) -> list[bytes]:
        """Return the fields of a line without its line feed."""
        return self.layout.delimiter.split(row)

    def whole(self, parts: Sequence[bytes]) -> bytes:
        """Return the line that has these fields."""
        return self._joint.join(parts)

    def null_part(self, number: int) -> bytes:
        """Return the text of NULL."""
        return self.null_text

    def value_type(self, number: int) -> Any:
        """Return the type of a field, or of bytes."""
        return self.types.get(number, _TEXT)

    def values(self, number: int, column: Any) -> Any:
        """Return values, or texts; NULL for that of NULL."""
        if number in self.types:
            return sure_values(column, self.types[number], (self.null_text,))
        return pc.if_else(pc.equal(column, self.null_text), pa.scalar(None, _TEXT), column)

    def from_values(self, number: int, values: Any) -> Any:
        """Return texts."""
        return texts_of(values, self.null_text)

    def column(self, number: int, parts: Sequence[bytes]) -> Any:
        """Return a column of texts."""
        return pa.array(parts, _TEXT)

    def part(self, number: int, column: Any) -> bytes:
        """Return a text."""
        found: bytes = column[0].as_py()
        return found


@dataclass(frozen=True)
class ColumnFields:
    """The fields of rows that are structs.

    >>> fields = ColumnFields(pa.struct([pa.field("id", pa.int64()), pa.field("name", pa.string())]))
    >>> row = fields.whole([pa.array([7]), fields.null_part(1)])
    >>> [part.to_pylist() for part in fields.parts(row)]
    [[7], [None]]
    """

    form: Any  # pa.StructType
    types: Mapping[int, Any] = field(default_factory=dict)  # Arrow's, of fields of text that have one

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(one.name for one in self.form)

    def columns(self, rows: Any) -> list[Any]:
        """Return the columns."""
        return list(rows.flatten())

    def rows(self, columns: Sequence[Any]) -> Any:
        """Return structs."""
        return pa.StructArray.from_arrays(list(columns), fields=list(self.form))

    def null(self, number: int) -> Any:
        """Return NULL of the type of a field."""
        return nulls(1, self.form[number].type)

    def parts(self, row: bytes) -> list[Any]:
        """Return an array of one element for each field."""
        return self.columns(from_row_bytes([row], self.form))

    def whole(self, parts: Sequence[Any]) -> bytes:
        """Return the bytes of a row."""
        found: bytes = row_bytes(self.rows(parts))[0].as_py()
        return found

    def null_part(self, number: int) -> Any:
        """Return NULL of the type of a field."""
        return self.null(number)

    def value_type(self, number: int) -> Any:
        """Return the type of a field."""
        return self.types.get(number, self.form[number].type)

    def values(self, number: int, column: Any) -> Any:
        """Return the column, or the values that it has as text."""
        if number in self.types:
            return sure_values(column.cast(_TEXT), self.types[number], ())
        return column

    def from_values(self, number: int, values: Any) -> Any:
        """Return the column."""
        return exact_text(values).cast(self.form[number].type) if number in self.types else values

    def column(self, number: int, parts: Sequence[Any]) -> Any:
        """Return a column of several rows."""
        return pa.concat_arrays(parts)

    def part(self, number: int, column: Any) -> Any:
        """Return the column, which has one element."""
        return column


def with_fields(rows: Any, fields: Sequence[Any]) -> Any:
    """Return structs with some fields, found by name: those that they lack are NULL, others are converted."""
    columns = []
    for one in fields:
        number = rows.type.get_field_index(one.name)
        own = nulls(len(rows), one.type) if number < 0 else rows.field(number)
        columns.append(own if own.type == one.type else converted(own, one.type, True)[0])
    return pa.StructArray.from_arrays(columns, fields=list(fields))


def text_masks(layout: RowLayout, rows: Any, deletes: Flags) -> Any:
    """Return the masks of rows, as ``masks_of`` does. layout: of the feed. rows: as they would be written."""
    unset = layout.unset
    if unset is None:
        return pa.nulls(len(rows))
    some = np.flatnonzero(~deletes)
    if not unset.nulls:
        some = (
            some[:0] if unset.value is None else np.flatnonzero(flags(pc.match_substring(rows, unset.value)) & ~deletes)
        )
    if not len(some):
        return pa.nulls(len(rows), pa.binary())
    columns = _written(layout).columns(rows.take(pa.array(some)))
    found = masks_of([unset.are_unset(number, column) for number, column in enumerate(columns)])
    return exchanged(pa.nulls(len(rows), pa.binary()), [(some, found)])


def text_mask(layout: RowLayout, row: bytes) -> bytes | None:
    r"""Return the mask of one row that is not a delete; None if it sets all fields.

    >>> from mutator.rules.delimiter.field_delimiter import parse
    >>> from mutator.rules.unset_fields import UnsetTexts
    >>> layout = RowLayout(delimiter=parse(","), id_fields=(0,), width=3, unset=UnsetTexts(b"~"))
    >>> text_mask(layout, b"a,~,3"), text_mask(layout, b"a,2,3")
    (b'\x02', None)
    """
    unset = layout.unset
    assert unset is not None
    if not unset.nulls and (unset.value is None or unset.value not in row):
        return None
    parts = _written(layout).parts(row)
    number = sum(1 << place for place, part in enumerate(parts) if unset.is_unset(place, part))
    return number.to_bytes((len(parts) + 7) // 8, "little") if number else None


def _written(layout: RowLayout) -> TextFields:
    return TextFields(replace(layout, width=layout.output_width), b"")
