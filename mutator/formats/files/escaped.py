r"""Read and write delimited text that can represent every value, in the dialect of PostgreSQL's COPY.

A row is a line. NULL is the field ``\N``. In values a backslash is written ``\\``, a line feed ``\n``, a carriage
return ``\r``, and other bytes that need an escape ``\xHH``: the delimiter, and in binaries all but printable ASCII.
``\t``, ``\b``, ``\f`` and ``\v`` are read too, and ``\&`` means nothing: it keeps a line from being blank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.files.csv import TextFiles, joined_lines
from mutator.formats.files.file_format import Dialect, FileSchema, TableWriter
from mutator.formats.files.line_scan import NEWLINE, LineTable
from mutator.formats.files.lines import UTF8_BOM
from mutator.formats.values.json_text import Escapes, to_json
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import PAD, Bytes, Flags, Ints, binary
from mutator.rules.known_formats import FORMATS
from mutator.rules.schema_evolution import from_text

_SLASH, _HEX, _NULL, _NOTHING = b"\\xN&"
_SIMPLE = {ord("\\"): 92, ord("n"): 10, ord("r"): 13, ord("t"): 9, ord("b"): 8, ord("f"): 12, ord("v"): 11}
_SIZES = np.zeros(256, np.int64)  # of an escape, by the byte after its backslash; 0: not an escape
_SIZES[[*_SIMPLE, _NOTHING]], _SIZES[_HEX] = 2, 4
_VALUES = np.zeros(256, np.uint8)
_VALUES[list(_SIMPLE)] = list(_SIMPLE.values())
_DIGITS = np.full(256, 255, np.uint8)
_DIGITS[list(b"0123456789abcdef")] = range(16)
_DIGITS[list(b"ABCDEF")] = range(10, 16)
_IN_SCALARS = b" +-.:@"  # bytes of numbers and times that may be delimiters
# First bytes of files of other formats, and of archives that ``storage.compression`` knows, as far as they may be text.
_MAGIC = (*(one.magic for one in FORMATS.values() if one.magic), b"BZh", b"PK\x03\x04", b"\x04\x22\x4d\x18")


def separates(delimiter: bytes | None) -> bool:
    """Return whether a delimiter is allowed: one byte that is not part of an escape or a line end.

    >>> separates(b"|"), separates(b"::"), separates(b"f")
    (True, False, False)
    """
    return delimiter is not None and len(delimiter) == 1 and not delimiter.isalnum() and delimiter not in b"\\&\r\n"


class EscapedFiles(TextFiles):
    """The file format "escaped"."""

    nested = True

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return the schema in the manifest; written files have no header."""
        schema = from_text(spec["schema"])
        return FileSchema(schema, named=schema.names != [str(number) for number in range(len(schema))])

    def storable_type(self, data_type: Any) -> Any:
        """Return the type itself, unless a struct in it has two members of one name."""
        names = [field.name for field in data_type] if pa.types.is_struct(data_type) else []
        parts = range(data_type.num_fields if pa.types.is_nested(data_type) else 0)
        storable = all(self.storable_type(data_type.field(number).type) is not None for number in parts)
        return data_type if storable and len(set(names)) == len(names) else None

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> TableWriter:
        """Return a writer to a stream."""
        return _Writer(stream, schema, dialect)

    def _plain(self, field: bytes, dialect: Dialect) -> bytes:
        data = np.frombuffer(field + b"\n" + PAD, np.uint8)
        read = Unescaped.of(data, LineTable.of(data, NEWLINE, None))
        return field if read.faults or read.nulls is not None else read.data[: read.table.ends[0]].tobytes()

    def _parsed(self, data: Bytes, table: LineTable, width: int | None, dialect: Dialect) -> tuple[Flags, Any, Any]:
        good, why = self._good(data, table, None, width, dialect)
        read = Unescaped.of(data, table)
        ragged = ~good
        good[list(read.faults)] = False
        return good, lambda row: why(row) if ragged[row] else read.faults[row], read.column


class Unescaped(NamedTuple):
    """Rows whose escapes are replaced by the bytes that they mean."""

    data: Bytes
    table: LineTable
    nulls: Flags | None  # for each mark, whether the field before it is NULL; None: no field is
    faults: Mapping[int, str]  # row number to reason

    def column(self, rows: Ints, position: int) -> Any:
        """Return a field of some rows, a pa.Array of large_binary."""
        values = self.table.field(self.data, rows, position).take()
        null = None if self.nulls is None else self.nulls[self.table.first[rows] + position]
        if null is None or not null.any():
            return values
        return pc.if_else(pa.array(null), pa.scalar(None, values.type), values)

    @classmethod
    def of(cls, data: Bytes, table: LineTable) -> Unescaped:
        """Replace all escapes at once. data: uint8 array, whole lines and ``PAD``."""
        slashes = np.flatnonzero(data == _SLASH)
        if not len(slashes):
            return cls(data, table, None, {})
        # Of successive backslashes, every other one begins an escape, and the next one is its code.
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

        def moved(offsets: Ints) -> Ints:
            found: Ints = offsets - gone[np.searchsorted(begins, offsets)]
            return found

        table = LineTable(moved(table.marks), table.first, table.fields, moved(table.starts), moved(table.ends))
        return cls(made[keep], table, nulls, faults)


def _faults(data: Bytes, table: LineTable, begins: Ints, marks: Ints) -> dict[int, str]:
    """Return the reason why each row with bad escapes is bad: that of its first one."""
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
    """Escapes the bytes that need it, and no others."""

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
        texts = [pc.fill_null(escaped(column), binary(b"\\N")) for column in columns]
        if len(texts) == 1:
            blank = pc.equal(pc.binary_length(texts[0]), 0)
            texts = [pc.if_else(blank, binary(b"\\&"), texts[0])]
        data = joined_lines(texts, self._delimiter)
        if self._empty:
            head = bytes(data[:8])
            if head.startswith(UTF8_BOM):
                self._stream.write(b"\\xef\\xbb\\xbf")
                data = data[len(UTF8_BOM) :]
            elif head.startswith(_MAGIC):  # else it would be recognized as another format
                self._stream.write(b"\\&")
        self._empty = False
        self._stream.write(data)

    def _escaped(self, column: Any) -> Any:
        data_type, types = column.type, pa.types
        if types.is_nested(data_type):
            return self._text.applied(to_json(column))
        text = exact_text(column)
        if types.is_binary(data_type) or types.is_fixed_size_binary(data_type):
            return self._binary.applied(text)
        return self._text.applied(text) if types.is_string(data_type) or self._delimiter in _IN_SCALARS else text

    def close(self) -> None:
        pass
