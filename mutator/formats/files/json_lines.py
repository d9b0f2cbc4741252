"""Read JSON Lines: each line is an object, and its members are the fields of a row.

A value is read as text, exactly as the line has it: a number keeps its digits, and a nested value is JSON. The run
decides the types, as for CSV. ``null`` is NULL, and so is a member that a row lacks. The fields of a file are the
members of its first rows. A row with another member is a reject, and so is a row with one member twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter
from typing import Any, BinaryIO, ClassVar, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from mutator.formats.content import Content, NotReadable
from mutator.formats.files.file_format import Dialect, FileSchema, RowBatch, TableWriter
from mutator.formats.files.line_scan import NEWLINE, Lines, scan
from mutator.formats.files.lines import UTF8_BOM, chunks
from mutator.rules.byte_columns import PAD, ByteColumn, Ints, binary, exchanged

_SAMPLE = 4 << 20  # bytes whose rows show the fields
_QUOTE, _N, _SLASH, _OPEN, _CLOSE = b'"n\\{}'
_ARRAY = "it is an array; put each object of it on a line of its own (jq -c '.[]')"
_OTHER = "its first line is not a JSON object"
_PRETTY = "its first line is not a whole object; put each object on a line of its own (jq -c .)"


class JsonLinesFiles:
    """The file format "json"."""

    nested = True
    codecs: ClassVar[Mapping[str, str]] = {"none": "none"}

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Return the members of the first rows, and types that fit their values."""
        head = stream.read(_SAMPLE)
        bom = head.startswith(UTF8_BOM)
        whole = head if len(head) < _SAMPLE else head[: head.rfind(b"\n") + 1]
        lines = [line for line in whole.removeprefix(UTF8_BOM).splitlines() if line.strip()]
        first = lines[0].lstrip() if lines else b"{}"
        if first.startswith(b"["):
            raise NotReadable(_ARRAY)
        if not first.startswith(b"{"):
            raise NotReadable(_OTHER)
        if (head and not whole) or _is_cut(first):
            raise NotReadable(_PRETTY)
        values = dict[str, list[bytes]]()
        for line in lines:
            try:
                for name, value in _OBJECT.decode(line).items():
                    values.setdefault(name, []).append(bytes(value))
            except msgspec.DecodeError:
                continue  # the row is a reject, whose reason the reader says
        odd = next((name for name in values if _ODD.search(name)), None)
        if odd is not None:
            raise NotReadable(
                f"it has a member {odd!r}; a field cannot have quotes, backslashes or controls in its name"
            )
        return FileSchema(pa.schema([(name, _type_of(found)) for name, found in values.items()]), bom=bom)

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Yield rows whose fields are large_binary, NULL for ``null`` and for members that a row lacks."""
        before = 0
        for offset, chunk in chunks(content.blocks(), content.window):
            found = _rows(scan(chunk, offset, content.window, NEWLINE, 1), before, tuple(schema.names), names)
            before += found.lines
            yield found

    def count(self, content: Content, dialect: Dialect) -> int:
        """Count the lines that are not blank."""
        rows = (chunk.splitlines() for _, chunk in chunks(content.blocks(), content.window))
        return sum(sum(map(bool, map(bytes.strip, lines))) for lines in rows)

    def position(self, offset: int, line: int) -> str:
        """Return the line of the row, if it is known, and its first byte."""
        return f"line {line}, byte {offset}" if line else f"byte {offset}"

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Refuse: no dataset has files of this format."""
        raise NotImplementedError

    def storable_type(self, data_type: Any) -> Any:
        """Return None: no type can be written."""
        return None

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> TableWriter:
        """Refuse: the format is only read."""
        raise NotImplementedError


_ODD = re.compile(r'["\\\x00-\x1f]')  # in names that msgspec does not take
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _is_cut(line: bytes) -> bool:
    """Return whether a line is the beginning of a document that goes on in the next line."""
    try:
        _OBJECT.decode(line)
    except msgspec.DecodeError as fault:
        return "truncated" in str(fault)
    return False


def _type_of(values: Sequence[bytes]) -> Any:
    """Return the pa.DataType that fits some values; text if none does."""
    kinds = {_kind(value) for value in values} - {pa.null()}
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    if len(kinds) != 1:
        return pa.string()
    (kind,) = kinds
    return kind if kind is not None else _nested_type(values)


def _kind(value: bytes) -> Any:
    """Return the type of one value; None for a nested one."""
    first = value[0]
    if first in b"{[":
        return None
    if first in b'"ntf':
        return {_QUOTE: pa.string(), _N: pa.null()}.get(first, pa.bool_())
    if value.lstrip(b"-").isdigit():
        return pa.int64() if -(2**63) <= int(value) < 2**63 else pa.decimal128(38, 0)
    return pa.float64()


def _nested_type(values: Sequence[bytes]) -> Any:
    """Return the type that Arrow infers for nested values; text if it infers none."""
    lines = b"".join(b'{"_":%b}\n' % value for value in values)
    try:
        return _without_times(arrow_json.read_json(pa.BufferReader(lines)).schema.field(0).type)
    except pa.ArrowException:
        return pa.string()


def _without_times(data_type: Any) -> Any:
    """Return a type with text in place of the times that Arrow sees in texts, and of values that are always null."""
    if pa.types.is_struct(data_type):
        return pa.struct([(field.name, _without_times(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_without_times(data_type.value_type))
    return pa.string() if pa.types.is_temporal(data_type) or pa.types.is_null(data_type) else data_type


@lru_cache
def _decoder(names: tuple[str, ...]) -> tuple[Any, Ints]:
    """Return a decoder of objects without other members, and the bytes of each name with quotes, colon and comma."""
    members = [(f"f{number}", msgspec.Raw, msgspec.Raw(b"")) for number in range(len(names))]
    renamed = {f"f{number}": name for number, name in enumerate(names)}
    row = msgspec.defstruct("Row", members, rename=renamed, forbid_unknown_fields=True, gc=False)
    sizes = [len(json.dumps(name, ensure_ascii=False).encode()) + 2 for name in names]
    return msgspec.json.Decoder(row), np.array(sizes, np.int64)


def _rows(lines: Lines, before: int, members: tuple[str, ...], names: Sequence[str]) -> RowBatch:
    """Return the rows of some lines. before: number of lines of the split before them. members: of the file."""
    decoder, sizes = _decoder(members)
    table, found = lines.table, _decoded(decoder, lines, members)
    columns, count = dict[str, Any](), np.zeros(len(found.rows), np.int64)
    size = np.ones(len(found.rows), np.int64)
    for number, name in enumerate(members):
        values = [*map(attrgetter(f"f{number}"), found.rows)]
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        size += np.where(lengths > 0, lengths + sizes[number], 0)
        count += lengths > 0
        if name in names:
            columns[name] = _texts(b"".join(values), lengths)
    # Nearly all programs write no blanks, or one after each comma and colon. A line of another length has other blanks,
    # escapes in names, or a member twice.
    numbers = found.numbers
    full = (table.ends - table.starts)[numbers]
    for row in np.flatnonzero((full != size) & (full != size + 2 * count - 1)).tolist():
        line = lines.data[table.starts[numbers[row]] : table.ends[numbers[row]]].tobytes()
        repeated = _repeated(line)
        if repeated is not None:
            found.faults[int(numbers[row])] = f"has the member {repeated!r} twice"
    good = ~np.isin(numbers, [*found.faults])
    numbers = numbers[good]
    batch = pa.RecordBatch.from_arrays([columns[name] for name in names], [*names])
    if not len(names):
        batch = pa.RecordBatch.from_struct_array(pa.array([{}] * len(numbers), pa.struct([])))
    elif not good.all():
        batch = batch.filter(pa.array(good))
    rejects = [lines.reject(row, before, why) for row, why in sorted(found.faults.items())]

    def raw() -> ByteColumn:
        return ByteColumn(lines.data, table.starts[numbers], table.ends[numbers] + 1)

    return RowBatch(
        batch,
        lines.offsets[numbers],
        before + lines.numbers[numbers] + 1,
        rejects,
        lines.count,
        lines.count - len(numbers) - len(rejects),
        raw,
        as_text=True,
    )


class _Decoded(NamedTuple):
    """The objects of some lines."""

    rows: Sequence[Any]  # with the text of each member; empty where it is missing
    numbers: Ints  # of their lines
    faults: dict[int, str]  # number of a line to the reason why it is a reject; other lines are blank


def _decoded(decoder: Any, lines: Lines, members: Sequence[str]) -> _Decoded:
    data, starts, ends = lines.data, lines.table.starts, lines.table.ends
    body = data[: -len(PAD)].tobytes()
    # An object that spans lines, or shares one, would be read as a row.
    if (data[starts] == _OPEN).all() and (data[ends - 1] == _CLOSE).all():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            body.decode()
            rows = decoder.decode_lines(body)
            if len(rows) == len(starts):
                return _Decoded(rows, np.arange(len(rows)), {})
    rows, numbers, faults = [], [], dict[int, str]()
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        line = body[start:end]
        if not line.strip():
            continue
        try:
            line.decode()
            rows.append(decoder.decode(line))
            numbers.append(number)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            faults[number] = _reason(line, members, fault)
    return _Decoded(rows, np.array(numbers, np.int64), faults)


def _reason(line: bytes, members: Collection[str], fault: Exception) -> str:
    """Return why a line is a reject."""
    if isinstance(fault, UnicodeDecodeError):
        return "is not UTF-8"
    if not isinstance(fault, msgspec.ValidationError):
        return f"is not JSON: {fault}"
    try:
        other = next(name for name in _OBJECT.decode(line) if name not in members)
    except msgspec.DecodeError:
        return "is not a JSON object"
    return f"has the member {other!r}, which none of the first rows has; name it in output.schema"


def _repeated(line: bytes) -> str | None:
    """Return a member that an object has twice; None if it has none."""
    seen = set[str]()
    for name, _ in json.loads(line, object_pairs_hook=list):
        if name in seen:
            return str(name)
        seen.add(name)
    return None


def _texts(data: bytes, lengths: Ints) -> Any:
    """Return the texts of values as a pa.Array of large_binary. data: the values, one after the other."""
    ends = np.cumsum(lengths)
    starts, body = ends - lengths, np.frombuffer(data + PAD, np.uint8)
    first = body[starts]
    null, text = (lengths == 0) | (first == _N), (first == _QUOTE) & (lengths > 0)
    values = ByteColumn(body, starts + text, ends - text).take()
    slashes = np.flatnonzero(body[: len(data)] == _SLASH)
    if len(slashes):
        rows = np.unique(np.searchsorted(ends, slashes, side="right"))
        escaped = rows[text[rows]]
        spelled = b",".join(data[starts[row] : ends[row]] for row in escaped.tolist())
        read = [text.encode() for text in json.loads(b"[%b]" % spelled)]
        values = exchanged(values, [(escaped, pa.array(read, pa.large_binary()))]) if len(escaped) else values
    return pc.if_else(pa.array(null), binary(None), values) if null.any() else values
