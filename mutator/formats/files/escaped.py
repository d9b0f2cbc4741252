r"""Delimited text that holds everything, in the dialect of PostgreSQL's COPY: a row a line, with escapes.

NULL is the field ``\N``. In values a backslash is written ``\\``, a line feed ``\n``, a carriage return ``\r``, and a
byte that cannot stand for itself ``\xHH``: the delimiter, and in binaries all that is not printable ASCII. ``\t``,
``\b``, ``\f`` and ``\v`` are read too, and ``\&`` is nothing: it keeps a line from being blank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.files.contract import Dialect, FileSchema, TableWriter
from mutator.formats.files.csv import TextFiles
from mutator.formats.files.line_scan import NEWLINE, Table
from mutator.formats.files.lines import UTF8_BOM
from mutator.formats.values.escapes import Escapes
from mutator.formats.values.json_text import to_json
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import PAD, Bytes, Flags, Ints, joined
from mutator.rules.schema_evolution import from_text

__all__ = ["EscapedFiles", "Unescaped", "separates"]

_SLASH, _HEX, _NULL, _NOTHING = b"\\xN&"
_SIMPLE = {ord("\\"): 92, ord("n"): 10, ord("r"): 13, ord("t"): 9, ord("b"): 8, ord("f"): 12, ord("v"): 11}
_SIZES = np.zeros(256, np.int64)  # of an escape that has such a byte behind its backslash; 0: there is none
_SIZES[[*_SIMPLE, _NOTHING]], _SIZES[_HEX] = 2, 4
_VALUES = np.zeros(256, np.uint8)
_VALUES[list(_SIMPLE)] = list(_SIMPLE.values())
_DIGITS = np.full(256, 255, np.uint8)
_DIGITS[list(b"0123456789abcdef")] = range(16)
_DIGITS[list(b"ABCDEF")] = range(10, 16)
_IN_SCALARS = b" +-.:@"  # bytes of numbers and times that may be delimiters
# What a file of another kind begins with, as ``storage.compression`` knows it, as far as it may be text.
_MAGIC = (b"PAR1", b"ORC", b"Obj\x01", b"BZh", b"PK\x03\x04", b"\x04\x22\x4d\x18")


def separates(delimiter: bytes | None) -> bool:
    """Tell whether fields may have this between them: one byte that no escape and no line end is made of.

    >>> separates(b"|"), separates(b"::"), separates(b"f")
    (True, False, False)
    """
    return delimiter is not None and len(delimiter) == 1 and not delimiter.isalnum() and delimiter not in b"\\&\r\n"


class EscapedFiles(TextFiles):
    """The kind "escaped"."""

    nested = True

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return the schema that the manifest has; files that are written have no header."""
        schema = from_text(spec["schema"])
        return FileSchema(schema, named=schema.names != [str(number) for number in range(len(schema))])

    def storable_type(self, kind: Any) -> Any:
        """Return the type itself, if no struct in it has two members of one name."""
        names = [one.name for one in kind] if pa.types.is_struct(kind) else []
        inner = [kind.field(number).type for number in range(kind.num_fields)] if pa.types.is_nested(kind) else []
        return None if len(set(names)) < len(names) or None in map(self.storable_type, inner) else kind

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> TableWriter:
        """Write to a stream."""
        return _Writer(stream, schema, dialect)

    def _plain(self, field: bytes) -> bytes:
        data = np.frombuffer(field + b"\n" + PAD, np.uint8)
        read = Unescaped.of(data, Table.of(data, NEWLINE, None))
        return field if read.faults or read.nulls is not None else read.data[: read.table.ends[0]].tobytes()

    def _parsed(self, data: Bytes, table: Table, width: int, dialect: Dialect) -> tuple[Flags, Any, Any]:
        good, why = self._good(data, table, None, width, dialect.delimiter[0])
        read = Unescaped.of(data, table)
        ragged = ~good
        good[list(read.faults)] = False
        return good, lambda row: why(row) if ragged[row] else read.faults[row], read.column


@dataclass(frozen=True)
class Unescaped:
    """Rows with the bytes that their escapes stand for."""

    data: Bytes
    table: Table
    nulls: Flags | None  # by the mark behind a field; None: no field is NULL
    faults: Mapping[int, str]  # by row

    def column(self, rows: Ints, place: int) -> Any:
        """Return a field of some rows."""
        values = self.table.field(self.data, rows, place).take()
        null = None if self.nulls is None else self.nulls[self.table.first[rows] + place]
        return (
            values
            if null is None or not null.any()
            else pc.if_else(pa.array(null), pa.scalar(None, values.type), values)
        )

    @classmethod
    def of(cls, data: Bytes, table: Table) -> Unescaped:
        """Replace all escapes at once. data: whole lines, and padding."""
        slashes = np.flatnonzero(data == _SLASH)
        if not len(slashes):
            return cls(data, table, None, {})
        # Of backslashes in a row every other one begins an escape; the one behind it is what it says.
        number = np.arange(len(slashes))
        first = np.maximum.accumulate(np.where(np.diff(slashes, prepend=-2) != 1, number, 0))
        begins = slashes[(number - first) % 2 == 0]
        code, size = data[begins + 1], _SIZES[data[begins + 1]]
        high, low = _DIGITS[data[begins + 2]], _DIGITS[data[begins + 3]]
        marks = np.searchsorted(table.marks, begins)
        starts = np.where(marks > 0, table.marks[marks - 1] + 1, 0)
        null = (code == _NULL) & (starts == begins) & (table.marks[marks] == begins + 2)
        bad = (size == 0) | ((code == _HEX) & ((high > 15) | (low > 15)))
        faults = _faults(data, table, begins[bad & ~null], marks[bad & ~null])
        nulls = np.zeros(len(table.marks), np.bool_) if null.any() else None
        if nulls is not None:
            nulls[marks[null]] = True
        good = ~bad
        if not good.any():
            return cls(data, table, nulls, faults)
        begins, code, size, high, low = begins[good], code[good], size[good], high[good], low[good]
        made, keep = data.copy(), np.ones(len(data), np.bool_)
        made[begins] = np.where(code == _HEX, high << 4 | (low & 15), _VALUES[code])
        keep[begins[code == _NOTHING]] = False
        keep[begins + 1] = False
        keep[begins[size == 4] + 2] = keep[begins[size == 4] + 3] = False
        gone = np.concatenate(([0], np.cumsum(size - (code != _NOTHING))))

        def moved(places: Ints) -> Ints:
            found: Ints = places - gone[np.searchsorted(begins, places)]
            return found

        table = Table(moved(table.marks), table.first, table.fields, moved(table.starts), moved(table.ends))
        return cls(made[keep], table, nulls, faults)


def _faults(data: Bytes, table: Table, begins: Ints, marks: Ints) -> dict[int, str]:
    """Say what is wrong with some escapes: the first of each row."""
    faults: dict[int, str] = {}
    for begin, mark in zip(begins.tolist(), marks.tolist(), strict=True):
        row = int(np.searchsorted(table.first, mark, side="right")) - 1
        end = min(int(table.marks[mark]), begin + (4 if data[begin + 1] == _HEX else 2))
        shown = data[begin:end].tobytes().decode("ascii", "backslashreplace")
        what = f"has an unknown escape, {shown}"
        if end == begin + 1:
            what = "ends in a lone backslash"
        elif data[begin + 1] == _NULL:
            what = r"has text beside \N"
        faults.setdefault(row, f"field {mark - int(table.first[row]) + 1} {what}")
    return faults


class _Writer:
    """Escapes what must be, and nothing else."""

    def __init__(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> None:
        self._stream, self._delimiter = stream, dialect.delimiter
        coded = {dialect.delimiter[0]: b"\\x%02x" % dialect.delimiter[0]}
        self._text = Escapes(coded | {_SLASH: b"\\\\", 10: b"\\n", 13: b"\\r"})
        binary = {byte: b"\\x%02x" % byte for byte in range(256) if not 32 <= byte <= 126}
        self._binary = Escapes(binary | coded | {_SLASH: b"\\\\", 10: b"\\n", 13: b"\\r"})
        self._empty = True
        if dialect.header:
            self._put([pa.array([name.encode()], pa.large_binary()) for name in schema.names], self._text.applied)

    def write(self, batch: Any) -> None:
        if batch.num_rows:
            self._put(batch.columns, self._escaped)

    def _put(self, columns: list[Any], escaped: Callable[[Any], Any]) -> None:
        texts = [pc.fill_null(escaped(column), _scalar(b"\\N")) for column in columns]
        if len(texts) == 1:
            blank = pc.equal(pc.binary_length(texts[0]), 0)
            texts = [pc.if_else(blank, _scalar(b"\\&"), texts[0])]
        rows = pc.binary_join_element_wise(*texts, _scalar(self._delimiter))
        data = joined(pc.binary_join_element_wise(rows, _scalar(b"\n"), _scalar(b"")))
        if self._empty:
            head = bytes(data[:8])
            if head.startswith(UTF8_BOM):
                self._stream.write(b"\\xef\\xbb\\xbf")
                data = data[len(UTF8_BOM) :]
            elif head.startswith(_MAGIC):  # or it would be taken for a file of another kind
                self._stream.write(b"\\&")
        self._empty = False
        self._stream.write(data)

    def _escaped(self, column: Any) -> Any:
        kind, types = column.type, pa.types
        if types.is_nested(kind):
            return self._text.applied(to_json(column))
        text = exact_text(column)
        if types.is_binary(kind) or types.is_fixed_size_binary(kind):
            return self._binary.applied(text)
        return self._text.applied(text) if types.is_string(kind) or self._delimiter in _IN_SCALARS else text

    def close(self) -> None:
        pass


def _scalar(text: bytes) -> Any:
    return pa.scalar(text, pa.large_binary())
