"""The mutations of a key in feed files, and the rejected rows that may have been such mutations.

Rows for people: lines of text as they are, other rows as JSON; and where a row is in its file.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from typing import Any

import pyarrow as pa

from mutator.dataset.file_content import FileContent
from mutator.engine.split_content import Damage, damage_of
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_types import BLOCK_TYPES
from mutator.formats.content import Reject
from mutator.formats.files import lines
from mutator.formats.values.convert import converted
from mutator.pipeline.explain.key import WantedKey
from mutator.pipeline.explain.key_decisions import KeyMutation
from mutator.pipeline.explain.key_rows import KeyRow, rows_of_key
from mutator.plan.inspect.source import Source
from mutator.plan.reading import Reading
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.splits import Input
from mutator.rules.dialects.messages import MessageRows
from mutator.rules.envelope import Unclear
from mutator.rules.order_values import precedence
from mutator.rules.patched_key import is_unset
from mutator.rules.typed_values import canonical
from mutator.storage.compression import CorruptStream


def shown_row(plan: Reading, one: Input, row: KeyRow) -> bytes:
    """Return a row for people: as it was read, or, where it is not text, the fields that its file has as JSON."""
    if plan.rows.block_type == "text":
        return row.row
    shown = plan.block_type.shown(row.written, row.written, plan.rows.spec)[0]
    if row.unset is not None:
        names = plan.block_type.fields(plan.rows.layouts["written"], b"").names
        shown = shown_fields(shown, {name for number, name in enumerate(names) if not is_unset(row.unset, number)})
    own = _names_in(plan, one) if b"null" in shown else None
    if own is None:
        return shown
    values = json.loads(shown)
    left = {name: value for name, value in values.items() if value is not None or name in own}
    return shown if len(left) == len(values) else json.dumps(left, ensure_ascii=False).encode()


def shown_fields(row: bytes, names: Set[str]) -> bytes:
    """Return a row for people with some of its fields; delimited text as it is.

    >>> shown_fields(b'{"id": 1, "price": null}', {"id"})
    b'{"id": 1}'
    """
    if not row.startswith(b"{"):
        return row
    return json.dumps(
        {name: one for name, one in json.loads(row).items() if name in names}, ensure_ascii=False
    ).encode()


def shown_content(rows: RowPlan, content: bytes) -> bytes:
    """Return a row that was written, for people. content: its bytes, as records engines compare them."""
    types = BLOCK_TYPES[rows.block_type]
    found = types.from_contents([content], rows.layouts["master"])
    return types.shown(found, found, rows.spec)[0]


def _names_in(plan: Reading, one: Input) -> list[str] | None:
    """Return the names of the fields that a file has; None if it has all of the result."""
    layout = plan.rows.layouts[one.layout]
    if plan.rows.block_type == "avro":
        steps = None if layout.resolution is None else layout.resolution.steps
        return None if steps is None else [field["name"] for step in steps for field in step.fields]
    return list(layout.schema.names)


def position_of(source: Source, offset: int) -> tuple[int | None, str]:
    """Return the line of a row from 1, and its position in words. Of Parquet the line is the number of the row.

    Text is read up to the row, to count its lines.
    """
    if source.file_format == "parquet":
        return offset + 1, source.position(offset, 0)
    if source.format.stores_schema:
        return None, source.position(offset, 0)
    mark, before, left = b"\r" if source.ending == lines.CR else b"\n", 0, offset
    for block in FileContent(source.path, source.bytes, source.window(), compression=source.compression).blocks():
        before += block[:left].count(mark)
        left -= len(block)
        if left <= 0:
            break
    return before + 1, f"line {before + 1}, byte {offset}"


@dataclass(frozen=True)
class RejectedRow:
    """A row of the feed that could not be read as a record, and whose ID fields are those of the key."""

    file: str
    offset: int
    position: str
    reason: str
    row: bytes


@dataclass(frozen=True)
class FeedRows:
    """The rows of a key in feed files. unread: path of a file, and why it cannot be read."""

    mutations: tuple[KeyMutation, ...]
    rejected: tuple[RejectedRow, ...]
    unread: tuple[tuple[str, str], ...] = ()


def feed_rows(plan: Reading, wanted: WantedKey) -> FeedRows:
    """Read the feed files of a plan for a key."""
    mutations, rejected, unread = list[KeyMutation](), list[RejectedRow](), list[tuple[str, str]]()
    for number, one in enumerate(plan.inputs):
        if one.side != "feed":
            continue
        mine, refused = list[KeyMutation](), list[RejectedRow]()
        try:
            for row in rows_of_key(plan, number, wanted):
                if isinstance(row, KeyRow):
                    mine.append(_mutation(plan, one, row))
                elif has_key(plan, one, row.row, wanted):
                    refused.append(_rejected(one, row))
        except (Damage, CorruptStream, MutatorError) as fault:
            unread.append((one.source.path, damage_of(one, fault).fault.error.message))
            continue
        mutations += mine
        rejected += refused
    return FeedRows(tuple(mutations), tuple(rejected), tuple(unread))


def _mutation(plan: Reading, one: Input, row: KeyRow) -> KeyMutation:
    line, position = position_of(one.source, row.offset)
    return KeyMutation(
        file=one.source.path,
        offset=row.offset,
        line=line,
        position=position,
        place=precedence(row.order, row.sequence, one.source.precedence_name, row.offset, row.row),
        is_delete=row.is_delete,
        row=shown_row(plan, one, row),
        content=row.content,
        form=row.form,
        partition=row.partition,
        arrives=row.arrives,
        unset=row.unset,
        may_carry=row.may_carry,
    )


def _rejected(one: Input, row: Reject) -> RejectedRow:
    return RejectedRow(one.source.path, row.offset, position_of(one.source, row.offset)[1], row.reason, row.row)


def has_key(plan: Reading, one: Input, row: bytes, wanted: WantedKey) -> bool:
    """Return whether the fields at the places of the ID of a rejected row have the values of a key.

    A row that is not delimited is JSON, as rejects have it: a record, or a message with images of one.
    """
    layout, wrapped = plan.rows.layouts[one.layout], one.source.wrapped
    envelope = None if wrapped is None else wrapped.envelope
    if plan.rows.block_type == "text":
        return _are(layout.delimiter.split(row), layout.id_fields, wanted)
    if not one.source.format.delimited:
        names = _names_of_key(plan)
        try:
            found = json.loads(row, parse_float=str)
            rows = [found] if wrapped is None else _images(found, {*names})
        except (ValueError, RecursionError):
            return False
        return any(_is_key([*map(one.get, names)], names, envelope, wanted) for one in rows if isinstance(one, dict))
    text = row.decode("utf-8", "surrogateescape")
    dialect = layout.dialect
    escape = dialect.escape.decode() or None
    fields = next(csv.reader([text], delimiter=dialect.delimiter.decode("latin-1"), escapechar=escape), [])
    names, of_file = _names_of_key(plan), (layout.schema if wrapped is None else wrapped.schema).names
    places = [of_file.index(name) for name in names if name in of_file]
    if len(places) < len(names) or max(places) >= len(fields):
        return False
    return _is_key([fields[place] for place in places], names, envelope, wanted)


def _images(value: Any, names: Set[str]) -> list[Any]:
    """Return the innermost objects in a message that have some members.

    >>> _images({"id": 1, "data": [{"id": 2}, {"id": 3}]}, {"id"})
    [{'id': 2}, {'id': 3}]
    """
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [image for one in values for image in _images(one, names)]
    return found or ([value] if isinstance(value, dict) and names <= value.keys() else [])


def _are(fields: Sequence[bytes], places: Sequence[int], wanted: WantedKey) -> bool:
    return max(places) < len(fields) and tuple(fields[place] for place in places) == wanted.values


def _is_key(values: Sequence[Any], names: Sequence[str], envelope: Any, wanted: WantedKey) -> bool:
    """Return whether values of a rejected row are those of a key, as they are or as a message has them.

    values: texts, or those of JSON. envelope: of the file; None if its rows are those of records.
    """
    every = zip(values, names, wanted.types or [None] * len(names), wanted.values, strict=True)
    return all(sought in _readings(value, name, data_type, envelope) for value, name, data_type, sought in every)


def _readings(value: Any, name: str, data_type: Any, envelope: Any) -> Iterator[bytes | None]:
    """Yield the canonical bytes of what a value may mean: the text itself, a value, and a value as messages write it.

    A date may be text, or the number of its day; a decimal may be a number, or base64 of its digits.
    """
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    column = pa.array([text.encode("utf-8", "surrogateescape")], pa.large_binary())
    yield column[0].as_py()
    if data_type is None:
        return
    read = [column]
    if isinstance(envelope, MessageRows):
        with suppress(Unclear):  # as the run said
            read.append(envelope.values(name, column, data_type)[0])
    for one in read:
        found, bad, _ = converted(one, data_type, typed=not pa.types.is_large_binary(one.type))
        if not bad.any():
            yield canonical(found)[0].as_py()


def _names_of_key(plan: Reading) -> list[str]:
    return list(plan.rows.spec["key"]["fields"])
