"""The envelope of the rows of a feed file, and what is known of a file whose rows are not rows of records yet."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import Any

import pyarrow as pa

from mutator.config.settings import OpSpec, OrderSpec, RowSpec
from mutator.dataset.state import State
from mutator.errors import MutatorError, error
from mutator.errors.parts import MASTER, place, setting
from mutator.formats.content import Wrapped
from mutator.formats.files.avro_schema import expanded
from mutator.formats.files.file_format import Dialect, FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.delete_files import is_delete_source
from mutator.plan.inspect.first_rows import Column, first_batch
from mutator.plan.inspect.source import Source
from mutator.rules.dialects.flat_dialects import SEQUENCE
from mutator.rules.envelope import DELETES, UPSERTS, Envelope, Unclear, other_subjects
from mutator.rules.envelopes import ENVELOPES, of_first_load, recognized
from mutator.rules.order_types import Part, as_tuple, recorded_fields, tuple_type
from mutator.rules.snapshot_rows import OneTime
from mutator.rules.snapshot_times import TimeField
from mutator.rules.typed_values import canonical
from mutator.storage import blocks, storage_for

SUBJECT = "messages of"  # in a manifest: the table whose messages were merged
_ONE_ORDER = f"name fields in {setting('temporal.ordering.field.ordinal')} that all have, or set "
_ONE_ORDER += f"{setting('sequence.pattern')} if it is the names of the files"
_AVRO_IN_PARQUET = b"parquet.avro.schema"  # in a footer, by parquet-avro
_ROWS = 10_000  # at the beginning of a file, which show what it is
_BYTES = 256 << 10  # of delimited text, which show whether its rows are messages


def envelope_of(ops: OpSpec, field: Any, source: Source | None = None) -> Envelope:
    """Return the envelope of rows of the feed. field: ``OpSpec.said_in``, None without one. source: their file."""
    if field is None:
        return DELETES if source is not None and is_delete_source(ops, source) else UPSERTS
    if isinstance(ops.as_of, TimeField):
        return OneTime(field=field, time=ops.time)
    kind = ENVELOPES[ops.envelope]
    codes = {"delete": ops.deletes, "upsert": ops.upserts, "ignore": ops.ignored, "truncate": ops.truncates}
    more = {name: getattr(ops, attribute) for name, attribute in kind.members.items()}
    return kind.made(field=field, **{f"{name}_codes": one for name, one in codes.items()}, **more)


def unwraps(ops: OpSpec) -> bool:
    """Return whether the rows of feed files are not rows of records yet."""
    return envelope_of(ops, ops.field).unwraps


def lacks_fields(source: Source) -> bool:
    """Return whether a file may lack fields because it has no records, as far as its first rows show."""
    return source.wrapped is not None and source.wrapped.envelope.lacks_fields


def with_fields_of_others(ops: OpSpec, known: Iterable[FileSchema | None], feed: Sequence[Source]) -> list[Source]:
    """Return feed files; those that may lack fields have the fields of the others, and of a master.

    So may JSON Lines, if rows leave fields unset whose members they lack. known: the schemas of the master.
    """

    def may_lack(one: Source) -> bool:
        return lacks_fields(one) or (ops.absent and one.file_format == "json")

    if not any(map(may_lack, feed)):
        return list(feed)
    whole = [one.file_schema for one in feed if not lacks_fields(one)]
    found = {one.name: one for schema in (*whole, *known) if schema is not None for one in schema.schema}

    def filled(one: Source) -> Source:
        own = one.file_schema
        if own is None or not may_lack(one):
            return one
        schema = pa.schema([*own.schema, *(field for name, field in found.items() if name not in own.schema.names)])
        return replace(one, file_schema=replace(own, schema=schema))

    return [*map(filled, feed)]


class _First:
    """The first rows of a file; implements ``FirstOfFile``."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def is_json(self) -> bool:
        return self._source.file_format == "json"

    @property
    def is_delimited(self) -> bool:
        return self._source.format.delimited

    @property
    def sequence(self) -> int | None:
        return self._source.sequence

    def beside(self, name: str) -> bytes:
        path = posixpath.join(posixpath.dirname(self._source.path), name)
        with suppress(MutatorError), storage_for(path).open(path) as stream:
            return b"".join(blocks(stream))
        return b""

    @property
    def avro(self) -> Any:
        own = self._source.file_schema
        assert own is not None
        text = (own.schema.metadata or {}).get(_AVRO_IN_PARQUET)
        native = json.loads(text) if text is not None else own.native
        return None if native is None else expanded(native)

    def batch(self, schema: Any, names: Sequence[str]) -> Any:
        return first_batch(replace(self._source, file_schema=FileSchema(schema)), names, _ROWS)

    def members(self, objects: Sequence[bytes]) -> Any:
        return FILE_FORMATS["json"].probe(BytesIO(b"\n".join(objects)), Dialect()).opened


def unwrapped(rows: RowSpec, source: Source) -> Source:
    """Return a feed file with the fields of its records. Raises DataError for a file without them.

    From here on the file is one of records: it is unwrapped wherever it is read (``path_fields.read_rows``).
    """
    own, ops = source.file_schema, rows.ops
    if own is None or not unwraps(ops):
        return source
    kind, chosen = ENVELOPES[ops.envelope], setting(f"{ENVELOPES[ops.envelope].setting}={ops.envelope}")
    stored = _stored(source)
    envelope = _envelope(ops, stored)
    try:
        if kind.formats and source.file_format not in kind.formats:
            raise ValueError(f"is {source.format.title}, which {chosen} does not read")
        envelope = envelope.for_file(stored, _First(source), rows.key.ids)
        schema = envelope.record_schema(stored)
    except ValueError as fault:
        cure = fault.cure if isinstance(fault, Unclear) else f"deliver the feed in the form that {chosen} expects"
        if {*rows.key.ids} <= {*stored.names}:
            codes = f" ({' or '.join(kind.traces.inserts)})" if kind.traces.inserts else ""
            cure += f"; if its rows are records, leave {setting(kind.setting)} out, or, where messages say what orders "
            cure += f"those of {MASTER}, deliver them as messages that insert them{codes}"
        raise error("format", path=source.path, what=fault, cure=cure) from None
    orders = [name for name, _ in envelope.order] if rows.order.of_feed else []
    unnamed = {*envelope.beside}.difference(rows.called, orders)
    schema = pa.schema([one for one in schema if one.name not in unnamed])
    file_schema = replace(own, schema=schema, native=None, opened=None)
    return replace(source, file_schema=file_schema, wrapped=Wrapped(envelope, stored))


def _stored(source: Source) -> Any:
    """Return the pa.Schema of a file, with the members of JSON objects."""
    own = source.file_schema
    assert own is not None
    return own.schema if own.opened is None else own.opened


def _envelope(ops: OpSpec, schema: Any) -> Envelope:
    names, field = schema.names, ops.field
    return envelope_of(ops, names[field] if isinstance(field, int) and field < len(names) else field)


def tables_in(ops: OpSpec, source: Source) -> Sequence[str]:
    """Return the tables that the first rows of a file say they are of."""
    if source.file_schema is None:
        return ()
    try:
        return _envelope(ops, _stored(source)).tables(_stored(source), _First(source))
    except ValueError:  # another file, as a run says
        return ()


def key_in(source: Source) -> tuple[Sequence[str], str]:
    """Return the fields of the ID that a file of messages names, and where it names them."""
    wrapped = source.wrapped
    return (
        ((), "") if wrapped is None else wrapped.envelope.key_in(wrapped.schema, _First(replace(source, wrapped=None)))
    )


def dialect_of(source: Source, columns: Mapping[str, Column] | None = None) -> str | None:
    """Return the dialect that the rows of a file are messages of; None if they are plain records.

    columns: the first rows of the file, by field, where they are known.
    """
    if source.file_schema is None:
        return recognized([*(columns or ())], (columns or {}).__getitem__, source.name, source.file_format)
    stored = _stored(source)

    def values(name: str) -> Column:
        if columns is not None and name in columns:
            return columns[name]
        batch = first_batch(replace(source, file_schema=FileSchema(stored)), [name], _ROWS, _BYTES)
        return [] if batch is None else canonical(batch.column(name)).to_pylist()

    return recognized([*paths_of(stored)], values, source.name, source.file_format)


def first_load_of(feed: Sequence[Source]) -> str | None:
    """Return the dialect of files whose rows do not say what they do, as a first load; None if they are plain."""
    return of_first_load([one.name for one in feed], _First(feed[0]).beside) if feed else None


def paths_of(fields: Any, above: str = "") -> Iterator[str]:
    """Yield the paths of fields, and of those within them."""
    for one in fields:
        yield above + one.name
        if pa.types.is_struct(one.type):
            yield from paths_of(one.type, f"{above}{one.name}.")


def order_of_feed(rows: RowSpec, feed: Sequence[Source]) -> OrderSpec:
    """Return the order of a run: that of the messages of its feed, unless settings name another.

    Raises ConfigError without one, and DataError for several.
    """
    envelopes, order = [one.wrapped.envelope for one in feed if one.wrapped is not None], rows.order
    if order.of_feed or SEQUENCE in order.fields:
        _check_sequences(rows.ops, feed)
    if order.of_feed:
        found = next((one.order for one in envelopes if one.order), ())
        for one in feed:
            if one.wrapped is not None and one.wrapped.envelope.order not in ((), found):
                own, other = (", ".join(name for name, _ in names) for names in (one.wrapped.envelope.order, found))
                what = f"has messages in the order of {own}, and other files in that of {other}"
                raise error("format", path=one.path, what=what, cure=_ONE_ORDER)
        if not found:
            check_any_row(rows.ops, feed, "the order of rows")
            raise error("config", where=setting("temporal.ordering.field.ordinal"), faults=_no_order(bool(feed)))
        names, types = zip(*found, strict=True)
        stated = tuple(range(len(names)))
        order = replace(order, fields=names, type=tuple_type([*map(Part, types)]), stated=stated, null="lowest")
        order = replace(order, of_feed=False)
    if order.keep is not True and order.fields and any({*order.fields} <= {*one.beside} for one in envelopes):
        order = replace(order, keep=False, type=as_tuple(order.type))  # positions, which may begin again
    return order


def _no_order(has_feed: bool) -> str:
    """Return the fault that nothing says what orders mutations, with its cure."""
    if has_feed:
        cure = f"name fields, or set {setting('sequence.pattern')} if it is the names of the files"
        return f"is not set, and no message of the feed says what orders it; {cure}"
    beside = f"{setting('order.keep=false')} and {setting('null.order=lowest')}"
    cure = f"merge the first feed into the dataset, or name the fields that later feeds have, with {beside}"
    return f"is not set, and there are no messages yet that say what orders them; {cure}"


def check_any_row(ops: OpSpec, feed: Sequence[Source], what: str = "the names of the fields") -> None:
    """Raise ConfigError if the first messages of all feed files have no row of the table.

    Only where no other input says what they would. what: that, for a person.
    """
    envelopes = [one.wrapped.envelope for one in feed if one.wrapped is not None]
    if envelopes:
        names = {name for one in feed if one.file_schema is not None for name in one.file_schema.schema.names}
        if names <= {ops.field, *(name for one in envelopes for name in one.beside)}:
            whose, cure = (f" of {setting(f'feed.table={ops.table}')}", "correct it, or ") if ops.table else ("", "")
            raise error("feed.rows.none", whose=whose, what=what, cure=cure)


def _check_sequences(ops: OpSpec, feed: Sequence[Source]) -> None:
    """Raise DataError for a file without a sequence that is a part of the order."""
    without = (one for one in feed if ENVELOPES[ops.envelope].by_sequence and one.sequence is None)
    for source in without:
        what = (
            f"has no number in its name, which orders it among the files of {setting(f'feed.dialect={ops.envelope}')}"
        )
        cure = "give the files of each delivery a higher number, as in changes_17.parquet, say where it is with "
        cure += f"{setting('sequence.pattern')}, or set {setting('temporal.ordering.field.ordinal')} to other fields"
        raise error("format", path=source.shown_path, what=what, cure=cure)


def check_order_of_messages(
    order: OrderSpec, feed: Sequence[Source], named: Mapping[str, Sequence[str]], known: State | None
) -> None:
    """Raise DataError for a feed without the recorded order beside the rows: that of messages, or of other ones.

    named: the fields of each feed file with any, by path.
    """
    spec = known.spec.get("order", {}) if known is not None else {}
    if not spec.get("beside") or (*order.fields,) != recorded_fields(spec):
        return
    if not named or {name for names in named.values() for name in names}.issuperset(order.fields):
        return
    before = ", ".join(map(str, order.fields))
    what = f"does not have the fields that order the rows of {MASTER}, {before}"
    cure = f"if its rows are messages, set {setting('feed.dialect')} to their form; or have it delivered with them, as "
    cure += "messages that insert records"
    path, wrapped = [*named][-1], [one for one in feed if one.wrapped is not None]
    if wrapped:
        found = ((one.path, one.wrapped.envelope.order) for one in wrapped if one.wrapped is not None)
        path, own = next((one for one in found if one[1]), (path, ()))
        if not own:
            return
        shown = ", ".join(name for name, _ in own)
        what = f"has messages in the order of {shown}, and {MASTER} has rows of messages in that of {before}"
        cure = f"deliver messages of the same source database, or merge these into another place than {MASTER}"
    raise error("format", path=path, what=what, cure=cure)


def about_the_same(ops: OpSpec, feed: Sequence[Source], master: str, known: State | None) -> list[Source]:
    """Return feed files whose records are of the same table. Raises DataError if those of two are not.

    master: its path. known: its state, which may say which table its records are of.
    """
    named = [(one.wrapped.envelope.about, one.path) for one in feed if one.wrapped is not None]
    if known is not None:
        named.insert(0, (known.spec.get(SUBJECT), master))
    about, path = next((one for one in named if one[0] is not None), (None, ""))
    found = []
    for source in feed:
        if about is not None and source.wrapped is not None:
            envelope = source.wrapped.envelope
            if envelope.about not in (None, about):
                fault = other_subjects(f"{about}, as in {place(path)}", envelope.about)
                cure = fault.cure if "table" in ENVELOPES[ops.envelope].members else "give the files of one table"
                raise error("format", path=source.path, what=fault, cure=cure)
            source = replace(source, wrapped=source.wrapped._replace(envelope=replace(envelope, about=about)))
        found.append(source)
    return found
