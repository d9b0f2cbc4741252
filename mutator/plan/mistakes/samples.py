"""The first rows of the inputs, and the fields in them that have a meaning for the run."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from pyarrow import types

from mutator.config.settings import OpSpec, RowSpec, TextSpec
from mutator.formats.content import NotReadable, Window
from mutator.formats.files import lines
from mutator.formats.files.path_fields import read_rows
from mutator.plan.inspect.delete_files import may_have_ids_alone
from mutator.plan.inspect.first_rows import FILES, first_batch
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.rules.typed_values import canonical

_ROWS = 200  # of a file

Row = tuple[bytes, ...]


class Positions(NamedTuple):
    """The positions of fields in the rows of a file; None: the rows lack the field."""

    ids: tuple[int, ...] | None
    order: int | None
    op: int | None


class Sample(NamedTuple):
    """The first rows of a delimited file, each the bytes of its fields; NULL is empty."""

    source: Source
    side: str  # master | feed
    stored: tuple[bytes, ...]  # lines as they are in the file, header lines included
    header: tuple[Row, ...]  # of the header lines
    rows: tuple[Row, ...]
    positions: Positions
    ids_alone: bool = False  # the rows may have the ID alone

    def column(self, position: int | None) -> list[bytes]:
        """Return the values of a field; none if the rows lack it."""
        return [] if position is None else [row[position] for row in self.rows if position < len(row)]

    @property
    def ids(self) -> list[Row]:
        """The record IDs."""
        positions = self.positions.ids
        if positions is None:
            return []
        return [tuple(row[at] for at in positions) for row in self.rows if max(positions) < len(row)]


class _Head:
    """The first lines of a file as its content, see ``formats.content.Content``."""

    def __init__(self, data: bytes, window: Window) -> None:
        self._data, self.window = data, window

    def blocks(self) -> Iterator[bytes]:
        yield self._data

    def file(self) -> BinaryIO:
        return io.BytesIO(self._data)


def samples_of(rows: RowSpec, survey: Survey) -> tuple[Sample, ...]:
    """Return samples of the delimited files of a run, the master's first; of some files if there are many."""
    widths, names = _widths(rows.ops, survey), _feed_names(rows.text, survey)
    samples = []
    for side, sources in (("master", _sampled_master(survey)), ("feed", survey.feed)):
        for source in sources[:FILES]:
            stored, header, read = _read(rows.text, source)
            if stored:
                positions = _positions(rows, side, source, names, widths)
                ids_alone = side == "feed" and may_have_ids_alone(rows, source)
                samples.append(Sample(source, side, stored, header, read, positions, ids_alone))
    return tuple(samples)


def typed_texts(sources: Sequence[Source], fields: Sequence[str | int]) -> Iterator[tuple[Source, list[Row]]]:
    """Yield the first rows of tables and typed files in which all of some fields are text; NULL is empty."""
    for source in sources[:FILES]:
        schema = None if source.file_schema is None else source.file_schema.schema
        if schema is None or not source.format.stores_schema or len({*schema.names}) < len(schema):
            continue  # the plan refuses a name twice
        at = [schema.get_field_index(one) if isinstance(one, str) else one for one in fields]
        if not all(0 <= one < len(schema) and _is_text(schema.field(one).type) for one in at):
            continue
        names = [schema.names[one] for one in at]
        batch = first_batch(source, names, _ROWS)
        if batch is not None:
            columns = ([value or b"" for value in canonical(batch.column(name)).to_pylist()] for name in names)
            yield source, list(zip(*columns, strict=True))


def _is_text(data_type: Any) -> bool:
    if types.is_dictionary(data_type):
        return _is_text(data_type.value_type)
    is_text = (types.is_string, types.is_large_string, types.is_string_view)
    return any(is_type(data_type) for is_type in is_text)


def _sampled_master(survey: Survey) -> list[Source]:
    """Return the files of the master whose first bytes are known."""
    return [source for source in survey.master if source.head]


def _read(text: TextSpec, source: Source) -> tuple[tuple[bytes, ...], tuple[Row, ...], tuple[Row, ...]]:
    """Return the first lines, header lines and rows of a file."""
    data = source.head
    if not data or not source.format.delimited:
        return (), (), ()
    found = [(at, line) for at, line in lines.rows([data], source.ending) if line]
    if source.bom:
        found = [(at, line.removeprefix(lines.UTF8_BOM) if at == 0 else line) for at, line in found]
    stored = tuple(line for _, line in found[:_ROWS] if line)
    if source.file_format != "text":
        return stored, *_rows_of_schema(source, _Head(data, source.window()))
    split = text.delimiter.split
    header = tuple(tuple(split(line)) for at, line in found if line and at < source.header_end)
    rows = [line for at, line in found if line and at >= source.header_end][:_ROWS]
    return stored, header, tuple(tuple(split(line)) for line in rows)


def _rows_of_schema(source: Source, head: _Head) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return the header line and the first rows of a file whose fields have names."""
    assert source.file_schema is not None
    names = [str(name) for name in source.file_schema.schema.names]
    header = (tuple(name.encode("utf-8", "surrogateescape") for name in names),) if source.header_end else ()
    rows: list[Row] = []
    try:
        for found in read_rows(source.file_format, head, source.file_schema.schema, names, source.dialect):
            columns = [column.to_pylist() for column in found.batch.columns]
            rows += (tuple(value or b"" for value in row) for row in zip(*columns, strict=True))
    except NotReadable:
        pass  # the run will read the file, and show what is wrong
    return header, tuple(rows[:_ROWS])


def _feed_names(text: TextSpec, survey: Survey) -> Sequence[str]:
    """Return the names of the fields of a feed row; none where they are known by position alone."""
    if text.names or survey.field_names:
        return text.names or survey.field_names
    named = [one.file_schema for one in survey.feed if one.file_schema is not None and one.file_schema.named]
    return max((tuple(one.schema.names) for one in named), key=len, default=())


class _Widths(NamedTuple):
    """The numbers of fields of whole rows."""

    feed: int
    master: int
    op_in_master: bool  # its rows have the op code


def _widths(ops: OpSpec, survey: Survey) -> _Widths:
    """Return the numbers of fields of whole rows of both sides."""
    feed = max((source.width or 0 for source in survey.feed), default=0)
    master = max((source.width or 0 for source in survey.master), default=0)
    known = survey.state
    if known is None:
        has_op = ops.in_master if ops.in_master is not None else master >= feed
        return _Widths(feed, master, has_op)
    recorded = known.spec.get("width")
    return _Widths(feed, recorded if isinstance(recorded, int) else master, known.spec["op code"] is not None)


def _positions(rows: RowSpec, side: str, source: Source, names: Sequence[str], widths: _Widths) -> Positions:
    """Return the positions of the fields in the rows of a file. names: of a feed row."""
    whole = max(widths.feed, widths.master)
    if side == "feed" and may_have_ids_alone(rows, source) and source.width == len(rows.key.ids) < whole:
        return Positions(tuple(range(source.width)), None, None)
    schema = source.file_schema
    named = list(schema.schema.names) if schema is not None and schema.named else None
    cut = rows.ops.field if side == "master" and not widths.op_in_master else None

    def position(one: Any) -> int | None:
        if named is not None and (isinstance(one, str) or one < len(names)):
            name = one if isinstance(one, str) else names[one]
            return named.index(name) if name in named else None
        if not isinstance(one, int):
            return None
        if isinstance(cut, int) and one >= cut:
            return one - 1 if one > cut else None
        return one

    ids = [position(one) for one in rows.key.ids]
    return Positions(
        None if None in ids else tuple(one for one in ids if one is not None),
        position(rows.order.fields[0]) if len(rows.order.fields) == 1 else None,
        None if rows.ops.field is None else position(rows.ops.field),
    )
