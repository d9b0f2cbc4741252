"""Read JSON Lines: each line is an object, and its members are the fields of a row.

A value is read as text, exactly as the line has it: a number keeps its digits, and a nested value is JSON. The run
decides the types, as for CSV. ``null`` is NULL, and so is a member that a row lacks. The fields of a file are the
members of its first rows; the type of one that is always NULL there is pa.null(), so that other files decide it. A row
with another member is a reject, and so is a row with one member twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as arrow_json

from mutator.errors.parts import setting
from mutator.formats.content import Content, OtherForm, Window
from mutator.formats.files.file_format import Dialect, FileSchema, RowBatch, TableWriter
from mutator.formats.files.json_columns import MOST_LEVELS, UsualLines, depth, usual_schema, without_times
from mutator.formats.files.json_members import OBJECT, Leaves, Members, Pairs, members_of
from mutator.formats.files.line_scan import NEWLINE, Lines, padded, scan
from mutator.formats.files.lines import LF, UTF8_BOM, chunks
from mutator.rules.byte_columns import PAD, ByteColumn, Flags, Ints
from mutator.rules.encodings import UTF8
from mutator.rules.order_columns import flags

_MOST_DIGITS = 38  # of a decimal
_SAMPLE = 4 << 20  # bytes whose rows show the fields
_CHUNK = 4 << 20  # bytes of a batch
_WORD = b"null"
_QUOTE, _N, _L, _OPEN, _CLOSE, _LIST = b'"nl{}['
_ARRAY = "is a JSON array", "put each object of it on a line of its own (jq 1.7 or newer: jq -c '.[]')"
_TOO_DEEP = "is nested too deep"
_OTHER = "does not begin with a JSON object", f"have JSON Lines delivered, or set another {setting('feed.format')}"
_PRETTY = "has a JSON object over several lines", "put each object on a line of its own (jq 1.7 or newer: jq -c .)"
_BY_FIREHOSE = "have each written with a line end (in Firehose, by its processor AppendDelimiterToRecord)"
_JOINED = (
    "has several JSON objects in one line",
    f"{_BY_FIREHOSE}, or put each on a line of its own (jq 1.7 or newer: jq -c .)",
)
_CUT = "ends within its last line, which has no line end", "have it delivered again, whole"


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
        others = [head.removeprefix(UTF8_BOM)] if head and not whole else []  # the beginning of a long line
        first = next((line.lstrip() for line in (*lines, *others) if line.strip() != b"null"), b"{}")
        if first.startswith(b"["):
            raise OtherForm(*_ARRAY)
        if not first.startswith(b"{"):
            raise OtherForm(*_OTHER)
        if _are_joined(first):
            raise OtherForm(*_JOINED)
        if (head and not whole) or _is_cut(first):
            is_last = bool(whole) and not whole.endswith((b"\n", b"\r")) and first == lines[-1].lstrip()
            raise OtherForm(*(_CUT if is_last else _PRETTY))
        usual = usual_schema(lines)
        schema, opened = _schemas(lines) if usual is None else (usual, usual)
        odd = next((name for name in schema.names if _ODD.search(name)), None)
        if odd is not None:
            raise OtherForm(f"has a member {odd!r}", "rename it: quotes, backslashes and controls cannot be in names")
        return FileSchema(schema, bom=bom, opened=opened)

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Yield rows whose fields are large_binary, NULL for ``null`` and for members that a row lacks."""
        before, members, usual = 0, members_of(schema, tuple(names)), UsualLines.of(schema, names)

        def size() -> int:
            return _CHUNK if usual is None else _CHUNK * usual.times

        for offset, chunk in chunks(content.blocks(), content.window, size):
            found = None
            if usual is not None and not dialect.lacks:
                found = _wrapped_rows(chunk, offset, content.window, before, names, usual)
            if found is None:
                lines = scan(chunk, offset, content.window, NEWLINE, 1)
                found = _rows(lines, before, members, names, usual, lacks=dialect.lacks)
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


def _are_joined(line: bytes) -> bool:
    """Return whether another object follows the first one in a line."""
    text = line.decode("utf-8", "replace")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip().startswith("{")


def _is_cut(line: bytes) -> bool:
    """Return whether a line is the beginning of a document that goes on in the next line."""
    try:
        OBJECT.decode(line)
    except (msgspec.DecodeError, RecursionError) as fault:
        return "truncated" in str(fault) and not line.rstrip().endswith(b"}")
    return False


def _schemas(lines: Sequence[bytes]) -> tuple[Any, Any]:
    """Return the members of some lines with types that fit their values; and with objects as structs.

    A line that is no object is a reject, whose reason the reader says.
    """
    values = dict[str, list[bytes]]()
    for line in lines:
        with suppress(msgspec.DecodeError, RecursionError):
            for name, value in OBJECT.decode(line).items():
                values.setdefault(name, []).append(bytes(value))
    schema = pa.schema([(name, _type_of(found)) for name, found in values.items()])
    return schema, pa.schema([(one.name, _opened_type(one.type, values[one.name])) for one in schema])


def _type_of(values: Sequence[bytes]) -> Any:
    """Return the pa.DataType that fits some values; text if none does, null if all are null."""
    kinds = {_kind(value) for value in values} - {pa.null()}
    if not kinds:
        return pa.null()
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
    if not value.lstrip(b"-").isdigit():
        return pa.float64()
    if len(value.lstrip(b"-")) > _MOST_DIGITS:
        return pa.string()
    return pa.int64() if -(2**63) <= int(value) < 2**63 else pa.decimal128(_MOST_DIGITS, 0)


def _nested_type(values: Sequence[bytes]) -> Any:
    """Return the type that Arrow infers for nested values; text if it infers none."""
    lines = b"".join(b'{"_":%b}\n' % value for value in values)
    try:
        found = without_times(arrow_json.read_json(pa.BufferReader(lines)).schema.field(0).type)
    except (pa.ArrowException, RecursionError):
        return pa.string()
    return found if depth(found) <= MOST_LEVELS else pa.string()


def _opened_type(data_type: Any, values: Sequence[bytes], levels: int = MOST_LEVELS) -> Any:
    """Return a type in which objects are structs, even where a member has values of several kinds.

    data_type: that of the values as a whole.
    """
    if not levels or any(value[0] not in b"{n" for value in values) or all(value[0] == _N for value in values):
        return data_type
    members = _by_member(values).items()
    return pa.struct([(name, _opened_type(_type_of(inner), inner, levels - 1)) for name, inner in members])


def _by_member(objects: Sequence[bytes]) -> dict[str, list[bytes]]:
    """Return the values of each member of some objects."""
    found = dict[str, list[bytes]]()
    for one in objects:
        for name, value in OBJECT.decode(one).items() if one[0] == _OPEN else ():  # others are null
            found.setdefault(name, []).append(bytes(value))
    return found


def _wrapped_rows(
    chunk: bytes, offset: int, window: Window, before: int, names: Sequence[str], usual: UsualLines
) -> RowBatch | None:
    """Return the rows of lines with an object within another; None if it has to be looked for. before: as below."""
    found = usual.wrapped(chunk) if window.ending == LF and window.encoding == UTF8 else None
    if found is None:
        return None
    columns, starts, ends = found
    batch, numbers = pa.RecordBatch.from_arrays(columns, [*names]), before + np.arange(len(starts)) + 1

    def raw() -> ByteColumn:
        return ByteColumn(padded(chunk, window)[0], starts, ends + 1)

    return RowBatch(batch, starts + offset, numbers, lines=len(starts), raw=raw, as_text=True)


def _rows(
    lines: Lines, before: int, members: Members, names: Sequence[str], usual: UsualLines | None, *, lacks: bool
) -> RowBatch:
    """Return the rows of some lines. before: number of lines of the split before them. names: of leaves.

    lacks: say which leaves a row lacks.
    """
    table, body = lines.table, _objects(lines, members)
    if lacks and _WORD in (body or b""):  # Arrow does not tell null from nothing
        usual = None
    columns = None if usual is None or body is None else usual.columns(body, table.starts)
    numbers, faults, lacking = np.arange(len(table)), dict[int, str](), dict[str, Flags]()
    if columns is None:
        leaves, numbers, faults = _one_by_one(lines, body, members)
        columns = [leaves.texts(name) for name in names]
        lacking = {name: leaves.by_name[name].lengths == 0 for name in names} if lacks else {}
    elif lacks:
        lacking = {name: flags(column.is_null()) for name, column in zip(names, columns, strict=True)}
    good = ~np.isin(numbers, [*faults])
    numbers = numbers[good]
    batch = pa.RecordBatch.from_arrays(columns, [*names])
    if not len(names):
        batch = pa.RecordBatch.from_struct_array(pa.array([{}] * len(numbers), pa.struct([])))
    elif not good.all():
        batch = batch.filter(pa.array(good))
    rejects = lines.rejects(before, (lines.reject(row, before, why) for row, why in faults.items()))

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
        unset={name: rows[good] for name, rows in lacking.items()},
    )


def _objects(lines: Lines, members: Members) -> bytes | None:
    """Return the lines if each has the first and the last byte of an object, and all are UTF-8; else None.

    An object that spans lines, or shares one, would be read as a row.
    """
    data, table = lines.data, lines.table
    first, last = data[table.starts], data[table.ends - 1]
    whole = (first == _OPEN) & (last == _CLOSE)
    if members.is_object.nulls:
        whole |= (first == _N) & (last == _L)
    if whole.all():
        body = data[: -len(PAD)].tobytes()
        with suppress(UnicodeDecodeError):
            body.decode()
            return body
    return None


def _one_by_one(lines: Lines, body: bytes | None, members: Members) -> tuple[Leaves, Ints, dict[int, str]]:
    """Return the leaves of some lines, the numbers of their lines, and why others are rejects, by number.

    body: as of ``_objects``.
    """
    table = lines.table
    rows, numbers, faults = _decoded(lines, body, members)
    leaves = members.leaves(rows)
    for row in leaves.of_other_lengths(lines.data, table.starts[numbers], table.ends[numbers]).tolist():
        line = lines.data[table.starts[numbers[row]] : table.ends[numbers[row]]].tobytes()
        why = _repeated(line, members)
        if why is not None:
            faults[int(numbers[row])] = why
    return leaves, numbers, faults


def _decoded(lines: Lines, body: bytes | None, members: Members) -> tuple[Sequence[Any], Ints, dict[int, str]]:
    """Return the objects of some lines, the numbers of their lines, and why others are rejects, by number."""
    data, starts, ends = lines.data, lines.table.starts, lines.table.ends
    if body is not None:
        with suppress(msgspec.DecodeError, RecursionError):
            rows = members.decoder.decode_lines(body)
            if len(rows) == len(starts):
                return rows, np.arange(len(rows)), {}
    rows, numbers, faults = [], [], dict[int, str]()
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        line = data[start:end].tobytes()
        if not line.strip():
            continue
        try:
            line.decode()
            rows.append(members.decoder.decode(line))
            numbers.append(number)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
            faults[number] = _reason(line, members, fault)
    return rows, np.array(numbers, np.int64), faults


def _reason(line: bytes, members: Members, fault: Exception) -> str:
    """Return why a line is a reject."""
    if isinstance(fault, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(fault, RecursionError):
        return _TOO_DEEP
    if not isinstance(fault, msgspec.ValidationError):
        return f"is not JSON: {fault}"
    return members.other_form(line) or f"cannot be read: {fault}"


def _repeated(line: bytes, members: Members) -> str | None:
    """Return why an object is a reject for its members; None if it has each once."""
    try:
        name = members.repeated(json.loads(line, object_pairs_hook=Pairs))
    except RecursionError:
        return _TOO_DEEP
    return None if name is None else f"has the member {name!r} twice"
