"""The settings of a feed whose rows are messages: the dialect, the table, the key, and what nothing in them says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from mutator.config import parse
from mutator.config.settings import RowSpec
from mutator.errors.display import counted
from mutator.errors.parts import quoted_value
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import Wrapped
from mutator.plan.inspect.envelopes import dialect_of, first_load_of, key_in, paths_of, tables_in, unwrapped
from mutator.plan.inspect.first_rows import first_rows
from mutator.plan.inspect.key_files import have_keys_beside, needs_file_order, with_keys
from mutator.plan.inspect.source import Source
from mutator.plan.proposal.choices import Choice
from mutator.plan.proposal.key_and_order import NULL_ORDER, ORDER, ORDER_TYPE, SEQUENCES
from mutator.plan.proposal.record_ids import FeedOfChanges, RecordId, record_id, record_id_of
from mutator.plan.proposal.tables import Inputs, SampleRows, SampleTable
from mutator.rules.envelope import DELETE, REJECTED, UPSERT, Envelope
from mutator.rules.envelope_kind import KEY_FILES
from mutator.rules.envelopes import BESIDE, ENVELOPES, KEYS
from mutator.rules.epochs import UNNAMED, Epochs, cured, text_of
from mutator.rules.facts import Facts
from mutator.rules.order_units import epoch_unit

DIALECT, TABLE, UNIT, DECIMALS = "feed.dialect", "feed.table", "feed.time.unit", "feed.decimals"
EPOCH = "order.epoch"
KEEP_ORDER = "order.keep"
_ROWS, _BYTES = 50_000, 8 << 20  # of a file
_NO_NUMBER = re.compile(rb".*[A-Za-z/=].*")
_DIGITS = re.compile(rb"(?:[0-9]{4})+")  # may be base64
_UNTYPED = "the messages have no types: times that are numbers, and decimals in base64, are written as they are, "
_UNTYPED += "unless {output.schema} has the types of these fields"
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_ENOUGH = 10  # rows that insert records, which show whether values are unique
_ALMOST = 0.02  # of the rows of a snapshot, which may repeat a key
# What a delete has in columns that are not NULL, and not of the key.
_DEFAULTS = {b"", b"0", b"0.0", b"false", b"AA==", b"{}", b"1970-01-01T00:00:00Z", b"00:00:00Z"}


@dataclass(frozen=True)
class Messages:
    """What the messages of a feed say."""

    choices: tuple[Choice, ...]
    tables: tuple[SampleTable, ...]  # of the rows that are upserts
    key: RecordId | None
    order: tuple[Choice, ...]  # none if the dialect does not order these rows
    beside: frozenset[str]  # the fields that are not of the records
    notes: tuple[str, ...]


class _File(NamedTuple):
    """The first rows of records in a file."""

    source: Source
    envelope: Envelope
    columns: Mapping[str, Sequence[bytes | None]]
    codes: Sequence[bytes | None]

    def are(self, kind: int) -> list[int]:
        """Return the rows of a kind of operation."""
        own = {code for code in {*self.codes} if self.envelope.operation(code or b"").kind == kind}
        return [row for row, code in enumerate(self.codes) if code in own]

    def rows(self, numbers: Sequence[int]) -> SampleTable:
        """Return some rows, without what they do."""
        columns = {name: [values[row] for row in numbers] for name, values in self.columns.items()}
        return SampleTable(self.source.name, columns, len(numbers), self.source.sequence, source=self.source)


def messages_of(
    master: Sequence[SampleTable], feed: Sequence[SampleTable], settings: Mapping[str, Any]
) -> Messages | None:
    """Return what the messages of a feed say; None if its rows are plain records. settings: of the user."""
    sources = [one.source for one in feed if one.source is not None]
    found = (dialect_of(one.source, one.columns) for one in feed if one.source is not None)
    dialect = settings.get(DIALECT) or next((one for one in found if one is not None), None) or _first_load(sources)
    if dialect is None:
        return None
    why = f"the rows of the feed are messages of this form: {ENVELOPES[dialect].why}"
    choices = [Choice(DIALECT, dialect, why)]
    known = {key: settings[key] for key in (TABLE, UNIT, DECIMALS, EPOCH, KEYS) if key in settings} | {DIALECT: dialect}
    rows = parse({"id.field.ordinals": "0", **known}).rows
    if TABLE not in settings:
        tables = Counter(name for source in sources for name in tables_in(rows.ops, source))
        if len(tables) > 1:
            choices.append(_table(tables))
            rows = replace(rows, ops=replace(rows.ops, table=str(choices[-1].value)))
    files = _files(rows, sources)
    if KEYS not in settings and (key_files := _key_files(dialect, files, sources)) is not None:
        choices.append(key_files)
        rows = replace(rows, ops=replace(rows.ops, key_files=BESIDE))
        files = _files(rows, sources)
    upserts = tuple(one.rows(one.are(UPSERT)) for one in files)
    choices += (one for one in (*_of_types(master, files), *_of_epochs(files)) if one.key not in settings)
    beside = frozenset(name for one in files for name in one.envelope.beside)
    stamps = next(_stamps(files, ENVELOPES[dialect].traces.stamps), None) if ENVELOPES[dialect].traces.stamps else None
    key = next(_named_keys(files), None)
    if key is None:
        inserts = [code.encode() for code in ENVELOPES[dialect].traces.inserts]
        key = _key(master, files, upserts, inserts, beside | {*filter(None, [stamps])})
    names = next((tuple(name for name, _ in one.envelope.order) for one in files if one.envelope.order), ())
    by_name = needs_file_order(rows.ops)
    fields = () if key is None else key.fields
    # The row before an update is a row of its own where the key is every column.
    has_ties = names and stamps is None and not by_name and _ties(files, names, fields)
    ties = _ties(_files(rows, sources, fields), names, fields) if has_ties else 0
    order = () if by_name else _order(dialect, files, names, stamps, ties)
    says_types = any(one.envelope.typed or one.source.format.stores_schema for one in files)
    notes = [] if master or says_types or "unit" not in ENVELOPES[dialect].members else [_UNTYPED]
    return Messages(tuple(choices), upserts, key, order, frozenset() if by_name else beside, tuple(notes))


def _named_keys(files: Sequence[_File]) -> Iterator[RecordId]:
    """Yield the record IDs that messages, or a file beside them, name."""
    for one in files:
        names, where = key_in(one.source)
        if names and {*names} <= {*one.columns}:
            yield RecordId(tuple(names), f"{where} names it")


def _stamps(files: Sequence[_File], pattern: str) -> Iterator[str]:
    """Yield the fields of the records that have such texts alone, but in rows of a full load."""
    rows = SampleRows.of(one.rows(_acts(one)) for one in files)
    for name, values in rows.columns.items():
        found = {value for value in values if value not in (None, b"", b"0")}
        if found and all(re.fullmatch(pattern.encode(), value) for value in found if value is not None):
            yield name


def _order(
    dialect: str, files: Sequence[_File], names: Sequence[str], stamps: str | None, ties: int
) -> tuple[Choice, ...]:
    """Return the settings of the order; none if nothing is known of it.

    names: the fields by which the dialect orders rows. stamps: the field that orders them exactly. ties: how many IDs
    have different rows with one value of these fields.
    """
    if stamps is not None:
        return (
            Choice(ORDER, stamps, f"its values have the form of those by which {dialect} orders all changes"),
            Choice(ORDER_TYPE, "string", "all values have as many digits"),
            Choice(KEEP_ORDER, False, "it is no column of the table"),
            Choice(NULL_ORDER, "lowest", "rows of a full load have no value there"),
        )
    if lacking := [one.source.name for one in files if ENVELOPES[dialect].by_sequence and one.source.sequence is None]:
        why = f"the number in the name of its file is the first part of the order of a row, and {lacking[0]} has none"
        question = "Which number has each file, in the order of the views that they are of? Rename them, as in "
        question += f"changes_17.parquet, or set {{{SEQUENCES}}} to where the names have it."
        return (Choice(ORDER, None, why, (), question, needed=True),)
    if names:
        why = f"messages say their order: {', '.join(names)}"
        if ties:
            why += f"; {counted(ties, 'ID')} of the first rows {'has' if ties == 1 else 'have'} different rows with "
            why += "one value: of these, the last in the files wins"
        return (Choice(ORDER, None, why),)
    if SEQUENCES in ENVELOPES[dialect].usual and files:
        return (Choice(ORDER, None, f"the names of the files order their rows, such as {files[0].source.name}"),)
    return ()


def _ties(files: Sequence[_File], names: Sequence[str], key: Sequence[str]) -> int:
    """Return how many IDs have different rows with the same values in the fields that order them."""
    rows = SampleRows.of(
        replace(one.rows(acts), columns={**one.rows(acts).columns, "": [one.codes[row] for row in acts]})
        for one, acts in ((one, _acts(one)) for one in files)
    )
    first, found = dict[Any, Any](), set()
    if not {*names, *key} <= {*rows.fields} or not key:
        return 0
    for whole, own, order in zip(rows.keys(rows.fields), rows.keys(key), rows.keys(names), strict=True):
        if first.setdefault((own, order), whole) != whole:
            found.add(own)
    return len(found)


def _first_load(sources: Sequence[Source]) -> str | None:
    return first_load_of(sources) if all(one.file_schema is not None for one in sources) else None


def _table(tables: Counter[str]) -> Choice:
    (most, count), *others = tables.most_common()
    why = f"{count:,} of the first {counted(tables.total(), 'message')} are of this table"
    question = f"Which table is the master? The feed has messages of {', '.join(tables)}. Set {{{TABLE}}}."
    return Choice(TABLE, most, why, [(name, f"{number:,}") for name, number in others], question)


def _key_files(dialect: str, files: Sequence[_File], sources: Sequence[Source]) -> Choice | None:
    """Return the setting of the files that have the keys of deletes; None where deletes have them, or none has any."""
    if KEY_FILES not in ENVELOPES[dialect].members or not have_keys_beside(sources):
        return None
    if None in (codes := [getattr(one.envelope, "keyless_delete", None) for one in files]):
        return None
    count = sum([*one.codes].count(code) for one, code in zip(files, codes, strict=True))
    if not count:
        return None
    why = f"{counted(count, 'delete')} of the first rows {'has' if count == 1 else 'have'} no key"
    return Choice(KEYS, BESIDE, f"{why}, and each feed file has a file of keys beside it")


def _files(rows: RowSpec, sources: Sequence[Source], key: Sequence[str] = ()) -> list[_File]:
    """Return the first rows of records in files, with epochs of all sources that they name.

    key: the fields of the ID; none if they are not known: every column is the key then, so that no delete lacks it.
    Which of two sources began later is asked by the dry run: here, each has rows like any other. Raises DataError for a
    file of another form.
    """

    def of_key(source: Source) -> RowSpec:
        return replace(rows, key=replace(rows.key, ids=(*key,))) if key else _with(rows, unwrapped(_with(rows), source))

    found = with_keys(rows.ops, [unwrapped(of_key(source), source) for source in sources])
    wrapped = [(one, one.wrapped) for one in found if one.wrapped is not None]
    named = dict.fromkeys((name for _, one in wrapped for name in one.envelope.sources), 0)
    epochs = Epochs({UNNAMED: 0, **named, **(rows.order.epoch or {})})
    ranked = [(one, how._replace(envelope=replace(how.envelope, epochs=epochs))) for one, how in wrapped]
    return [_file(rows, replace(one, wrapped=how), how) for one, how in ranked]


def _file(rows: RowSpec, source: Source, wrapped: Wrapped) -> _File:
    """Return the first rows of records in a file."""
    columns = dict(first_rows(source, None, _ROWS, _BYTES).columns)
    codes = columns.pop(rows.ops.field, [])
    return _File(source, wrapped.envelope, columns, codes)


def _with(rows: RowSpec, source: Source | None = None) -> RowSpec:
    """Return how all fields of the records in a file are read."""
    columns, beside = tuple[str, ...](), tuple[str, ...]()
    if source is not None and source.wrapped is not None and source.file_schema is not None:
        envelope, schema = source.wrapped.envelope, source.wrapped.schema
        stored = {path.rpartition(".")[2] for path in paths_of(schema)}
        columns = tuple(one for one in source.file_schema.schema.names if one not in (*envelope.beside, rows.ops.field))
        # A field that the file lacks is NULL, and rejects each row where it is the order.
        beside = tuple(name for name, _ in envelope.order) or tuple(one for one in envelope.beside if one in stored)
    order = replace(rows.order, fields=beside, of_feed=False)
    return replace(rows, key=replace(rows.key, ids=columns), order=order)


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)


def _key(
    master: Sequence[SampleTable],
    files: Sequence[_File],
    upserts: Sequence[SampleTable],
    inserts: Sequence[bytes],
    beside: Set[str],
) -> RecordId | None:
    """Return the record ID: what deletes have, or by facts of the master, or of the rows that insert records.

    beside: the fields that are not of the records.
    """
    acts = SampleRows.of([*upserts, *(one.rows(one.are(DELETE)) for one in files)])
    beside |= {name for name, values in acts.columns.items() if values.count(None) > _ALMOST * acts.count}
    changes = _changes(files, inserts, beside)
    if _count(master) or not changes.inserts.count:
        of_master, of_feed = (tuple(map(_without(beside), tables)) for tables in (master, upserts))
        fallback = record_id(Inputs(of_master, of_feed, named=True), None, is_of_changes=True)
        base = SampleRows.of(of_master)
        changes = FeedOfChanges(base, base, base, SampleRows((), {}, 0))
    else:
        fallback = record_id_of(changes)
    deletes = SampleRows.of(_without(beside)(one.rows(one.are(DELETE))) for one in files)
    fields = tuple(
        name for name, values in deletes.columns.items() if None not in values and not {*values} <= _DEFAULTS
    )
    if not deletes.count or not fields or len(fields) == len(deletes.fields):
        return fallback
    why = f"{counted(deletes.count, 'delete')} of the first rows {'has' if deletes.count == 1 else 'have'} values there"
    is_unique = changes.are_unique(fields)
    smaller = any(changes.are_unique(fields[:at] + fields[at + 1 :]) for at in range(len(fields)) if len(fields) > 1)
    if is_unique and not smaller:
        return RecordId(fields, f"{why} alone")
    if is_unique and 2 * len(fields) <= len(deletes.fields):
        others = () if fallback is None else ((fallback.fields, fallback.why),)
        return RecordId(fields, f"{why} alone", others, certain=False)
    return fallback


def _changes(files: Sequence[_File], inserts: Sequence[bytes], beside: Set[str]) -> FeedOfChanges:
    """Return the rows that insert records, and those that change them. inserts: codes, those of snapshots first."""

    def rows(numbers: Callable[[_File], Sequence[int]]) -> SampleRows:
        return SampleRows.of(_without(beside)(one.rows(numbers(one))) for one in files)

    def coded(own: Collection[bytes | None]) -> SampleRows:
        return rows(lambda one: [at for at in one.are(UPSERT) if one.codes[at] in own])

    of_load: set[bytes | None] = {None, b""}  # rows of a full load may have no code
    kinds = [of_load, *(set[bytes | None]([own]) for own in inserts)]
    known = of_load.union(inserts)
    every, several = coded(known), (coded(own) for own in kinds)
    first = next((one for one in several if one.count >= _ENOUGH), every)
    deletes = rows(lambda one: one.are(DELETE))
    return FeedOfChanges(
        first, every, rows(lambda one: [at for at in _acts(one) if one.codes[at] not in known]), deletes
    )


def _acts(one: _File) -> list[int]:
    return [*one.are(UPSERT), *one.are(DELETE)]


def _count(tables: Sequence[SampleTable]) -> int:
    return sum(one.count for one in tables)


def _without(names: Collection[str]) -> Callable[[SampleTable], SampleTable]:
    def table(one: SampleTable) -> SampleTable:
        return replace(one, columns={name: values for name, values in one.columns.items() if name not in names})

    return table


def _of_types(master: Sequence[SampleTable], files: Sequence[_File]) -> Iterator[Choice]:
    """Yield the settings of times and decimals that neither the messages nor their form say."""
    schemas = [one.source.file_schema.schema for one in master if one.source and one.source.file_schema]
    types = {one.name: one.type for schema in schemas for one in schema}
    known = {name for one in files for name in one.envelope.typed}
    rows = SampleRows.of(one.rows(one.are(UPSERT)) for one in files)
    facts = {name: Facts(rows.columns[name]) for name in types if name in rows.columns and name not in known}
    times = {name: one.orders("long") for name, one in facts.items() if _is_time(types[name])}
    numbers = [number for orders in times.values() for number in orders if number is not None]
    if numbers:
        counts = Counter(filter(None, map(epoch_unit, numbers))).most_common(1)
        unit, count = counts[0] if counts else ("", 0)
        shown = _and([name for name, orders in times.items() if {*orders} != {None}])
        why = f"the master has times in {shown}, and the messages whole numbers"
        why += f", of which {count:,} of {len(numbers):,} are {unit} since 1970, if these are recent times" * bool(unit)
        question = f"What do the whole numbers in {shown} count? Nothing in the messages says it. Set {{{UNIT}}}."
        others = [(short, name) for name, short in _UNITS.items() if name != unit]
        yield Choice(UNIT, _UNITS.get(unit), why, others, question, needed=True)
    decimals = {name: one.present for name, one in facts.items() if pa.types.is_decimal(types[name])}
    for is_text, value in ((False, "base64"), (True, "text")):
        of = _DIGITS if is_text else _NO_NUMBER
        found = [(name, one) for name, values in decimals.items() for one in values if of.fullmatch(one)]
        if found:
            name, first = found[0]
            why = f"field {name} is a decimal in the master, and {quoted_value(first)} in a message"
            question = f"Is {quoted_value(first)} in field {name} a number, or base64? Set {{{DECIMALS}}}."
            others = [("base64", "decimal.handling.mode is precise")] if is_text else []
            yield Choice(DECIMALS, value, why, others, question if is_text else None)
            return


def _is_time(data_type: Any) -> bool:
    return bool(pa.types.is_timestamp(data_type) or pa.types.is_time(data_type))


def _of_epochs(files: Sequence[_File]) -> Iterator[Choice]:
    """Yield the setting of a run that ranks sources that begin in the middle."""
    faults = [one.envelope.operation(one.codes[row] or b"").fault for one in files for row in one.are(REJECTED)]
    if epochs := cured(faults):
        *first, last = epochs
        count = sum(1 for one in faults if cured([one]))
        are = "message of the first rows is" if count == 1 else "messages of the first rows are"
        why = f"{count:,} {are} of another source than those before"
        question = (
            f"Did the positions of {last} begin after those of {_and(first) or 'the others'}? Set {{{EPOCH}}}: the "
            "highest number for the source that began last, and one number for those that share their positions."
        )
        yield Choice(EPOCH, text_of(epochs), why, (), question)
