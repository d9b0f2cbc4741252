"""Choose the file that gives the result its fields; rows that are all deletes do not count, and tables have no age.

A versioned table keeps the order of its fields.

Fields of the master that a result would lose, or have in another order, because the newest feed file decides them.

In CSV and text, a column that is missing from the header is more often a mistake than a change of the schema, so
``removed.fields`` must name each field that a result may lose; likewise in a table in memory, which often has only some
columns of its records. The schema of an Avro, Parquet or ORC file states the fields of all records: there the change
takes place, with a warning.

Configured fields that the files lack: the settings are wrong, or a file is, such as one without a header.

Of a name that the user gives, the setting is wrong; of one that the master or the table has recorded, the file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mutator.config.settings import OpSpec, OutputSpec, TextSpec
from mutator.dataset.file_content import FileContent
from mutator.errors import error
from mutator.errors.parts import MASTER, place, quoted_value, setting
from mutator.formats.content import NotReadable
from mutator.formats.files.path_fields import read_rows
from mutator.plan.inspect.envelopes import check_any_row, envelope_of
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.run_fields import SCHEMA_SEQUENCE, RunFields
from mutator.plan.rows.setting_faults import raise_all
from mutator.plan.rows.unset_fields import with_all_fields
from mutator.rules.envelope import DELETE
from mutator.rules.file_names import base_name, first_few
from mutator.rules.header_lines import is_name
from mutator.rules.schema_evolution import SchemaVersion, check_key, nearest, widened
from mutator.rules.typed_values import canonical
from mutator.storage.compression import CorruptStream


def changed_fields(
    output: OutputSpec,
    base: SchemaVersion,
    master: Sequence[SchemaVersion],
    cut: Collection[str | None],
    unplaced: Collection[str],
    *,
    is_table: bool,
) -> tuple[str, ...]:
    """Return warnings on fields of the master that the result lacks or moves.

    base: the version that gives the result its fields, a feed file's. master: its versions, the decisive one first.
    cut: fields of the feed alone. unplaced: fields without a position, because they are in paths alone. is_table: the
    version is that of a table in memory. Raises DataError for fields that a CSV file or a table lacks.
    """
    before = [name for name in master[0].schema.names if name not in cut]
    after = [name for name in base.schema.names if name not in cut]
    remaining = set(after)
    lost = [name for name in before if name not in remaining and name not in output.removed_fields]
    if lost and is_table:
        raise error("table.lost", table=base.path, fields=_listed(lost), names=lost)
    if lost and not base.typed:
        removed = setting(f"removed.fields={','.join(lost)}")
        cure = (
            f"have the file delivered with them; or set {setting('output.schema')} to an Avro schema of all fields, so "
            f"that rows of the file get NULL there; or, if they should be removed, set {removed}"
        )
        raise error("schema.lost", path=base.path, fields=_listed(lost), cure=cure)
    warnings = []
    if lost:
        warnings.append(
            f"{_listed(lost)} of {MASTER}: removed from all records, because {base_name(base.path)} has no such "
            f"{'field' if len(lost) == 1 else 'fields'}; {setting('output.schema')} keeps "
            f"{'it' if len(lost) == 1 else 'them'}, and {setting('removed.fields')} confirms the change"
        )
    placed = remaining.intersection(before).difference(unplaced)
    kept, moved = ([name for name in names if name in placed] for names in (before, after))
    if kept != moved:
        warnings.append(
            f"the result has its fields in the order of {base_name(base.path)} ({', '.join(moved)}), {MASTER} has "
            f"them in another ({', '.join(kept)}): programs that read fields by position would confuse them"
        )
    return tuple(warnings)


def left_out_fields(
    output: OutputSpec, base: SchemaVersion, feed: Sequence[SchemaVersion], cut: Collection[str | None]
) -> tuple[str, ...]:
    """Return a warning on fields of CSV feed files that the newest one lacks, so that their values are left out."""
    if base.typed:
        return ()
    known = {*base.schema.names, *output.removed_fields, *cut}
    counted = [one for one in feed if not one.typed and not one.partial]
    files = {one.path: [name for name in one.schema.names if name not in known] for one in counted}
    names = list(dict.fromkeys(name for lost in files.values() for name in lost))
    if not names:
        return ()
    having = first_few([base_name(path) for path, lost in files.items() if lost])
    why = f"left out, because {base_name(base.path)}, the newest feed file, has no such "
    one = len(names) == 1
    kept = f"{'field' if one else 'fields'}; {setting('output.schema')} keeps {'it' if one else 'them'}"
    return (f"{_listed(names)} of {having}: {why}{kept}",)


def _listed(names: Collection[str]) -> str:
    return f"{'field' if len(names) == 1 else 'fields'} {', '.join(names)}"


_ORDER, _OP = "temporal.ordering.field.ordinal", "op.code.field.ordinal"


def check_first_rows(
    text: TextSpec, survey: Survey, fields: RunFields, others: Sequence[SchemaVersion], feed: Sequence[SchemaVersion]
) -> None:
    """Raise DataError for a delimited feed file whose first row is read as the header, and names no wanted field.

    It is taken for a record if it has a number, a time or an empty value, or has no name of a field of the master.
    ``header.check=false`` turns the check off. others: the versions of the master, and of ``output.schema``.
    """
    if not text.header_check:
        return
    headed = {source.path for source in survey.feed if source.dialect.header and source.part is None}
    of_feed = {version.path for version in feed}
    known = {name for version in others if version.path not in of_feed for name in version.schema.names}
    own = (*fields.ids, *(path[0] for path in fields.orders), *(() if fields.op is None else (fields.op,)))
    wanted = list(dict.fromkeys(own))
    expected = {*wanted, *known}
    for version in feed:
        names = version.schema.names
        if version.path not in headed or not expected.isdisjoint(names):
            continue
        if known.isdisjoint(wanted) and all(map(is_name, names)):
            continue  # nothing shows that the settings are right
        raise error(
            "format",
            path=version.path,
            what=f"its first row, {quoted_value(','.join(names).encode(), 60)}, is read as a header, and names none "
            f"of the fields {', '.join(wanted)}",
            cure=f"if the file has no header, set {setting('field.names')} to the names of its fields in order, and "
            f"{setting('header.lines=0')}; otherwise have it delivered with a header of these names",
        )


def _check_op(op: str, version: SchemaVersion) -> None:
    """Raise DataError for a feed file without the recorded op code, whose name no field resembles."""
    if nearest(op, version.schema.names):
        check_key(version, [op])
    none = setting("op.code.field.ordinal=''")
    raise error(
        "format",
        path=version.path,
        what=f"field {op} is missing (it has {', '.join(version.schema.names)})",
        cure="have it delivered with the op code of each row; if it has no deletes, 'U' in every row is enough, or set "
        f"{none}",
    )


def _had_op(survey: Survey, op: str) -> bool:
    """Return whether the last run into the master had the op code field."""
    runs = () if survey.state is None else survey.state.feed_settings[-1:]
    return any(run.settings.get(_OP) in (op, [op]) for run in runs)


def check_names(
    survey: Survey,
    ops: OpSpec,
    defaults: Iterable[str],
    fields: RunFields,
    others: Sequence[SchemaVersion],
    feed: Sequence[SchemaVersion],
) -> None:
    """Raise ConfigError for a configured name that no file has. A run without feed rows may lack the op code.

    Raises DataError that names the newest feed file, for an op code that is recorded or that the run before had.
    defaults: names of the fields with one. others: the versions of the master, and of ``output.schema``.
    """
    versions = [*others, *feed]
    known = list(dict.fromkeys(name for version in versions for name in version.schema.names))
    if feed and fields.op is not None and fields.op not in known and (ops.recorded or _had_op(survey, fields.op)):
        _check_op(fields.op, feed[-1])
    if not any(name in known for name in fields.ids):
        check_any_row(ops, survey.feed)
    newest = f"; the newest feed file is {place(feed[-1].path)}" if feed else ""
    later = f"; if feeds alone have it, set {setting('order.keep=false')} (mutator order: --beside)"
    of_feeds = {_ORDER: "" if feed else later}
    named = [("id.field.ordinals", name) for name in fields.ids]
    orders = fields.orders if feed or not fields.orders_beside else ()
    named += [(_ORDER, path[0]) for path in orders]
    named += [("snapshot.as.of" if ops.field is None else _OP, fields.op)] if fields.op is not None and feed else []
    named += [("columns.to.update", fields.listing)] if fields.listing is not None and feed else []
    named += [("ignore.null.updates", name) for name in (() if fields.nulls is None else fields.nulls.named)]
    named += [("partitioned.by", name) for name in fields.sources]
    named += [(f"default.{name}", name) for name in defaults]
    raise_all(
        (
            key,
            f"no input has a field {name}",
            f"did you mean {near}?" if near else f"they have {', '.join(known)}{newest}{of_feeds.get(key, '')}",
        )
        for key, name in named
        for near in (nearest(name, known),)
        if name not in known
    )


Checked = Callable[[Any, str], Any]  # returns a pa.Schema of the types that the run reads, from one and its path


def base_version(
    ops: OpSpec,
    output: OutputSpec,
    survey: Survey,
    master: Sequence[SchemaVersion],
    feed: Sequence[SchemaVersion],
    checked: Checked,
) -> SchemaVersion:
    """Return the version that gives the result its fields; their types may come from others."""
    if survey.output_schema is not None:
        path, file_schema = survey.output_schema
        return SchemaVersion(checked(file_schema.schema, path), path, True, False, file_schema.defaults)
    whole = [version for version in feed if not version.partial]
    own = list(master[:1] if survey.state is not None else master[-1:])
    if ops.absent and (own or whole):
        all_fields = with_all_fields(output, own, whole)
        return _with_fields(all_fields[0], all_fields[1:])
    found = whole[-1:] or own or list(feed[-1:])
    if whole and master and _comes_late(survey, whole[-1].path):
        found = list(master[:1])
    if not found:
        raise error(
            "format",
            path=survey.master_path,
            what="no file has any fields",
            cure=f"name a schema with {setting('output.schema')}",
        )
    tables = {source.path for source in survey.feed if source.is_table}
    base = _with_fields(found[0], [version for version in whole if version.path in tables])
    return _in_order_of(master[0], base) if survey.versioned and master else base


def _in_order_of(master: SchemaVersion, base: SchemaVersion) -> SchemaVersion:
    """Return a version with the fields of a table first, in their order, and then its new ones; so with members."""
    own, known = set(base.schema.names), set(master.schema.names)
    names = dict.fromkeys(name for name in (*master.schema.names, *base.schema.names) if name in own)
    fields = [base.schema.field(name) for name in names]
    for number, field in enumerate(fields):
        if pa.types.is_nested(field.type) and field.name in known:
            ordered = widened(master.schema.field(field.name).type, field.type)
            fields[number] = field if ordered is None else field.with_type(ordered)
    return replace(base, schema=pa.schema(fields))


def _comes_late(survey: Survey, path: str) -> bool:
    """Return whether a feed file is older than the one that gave the master its fields, and so changes none."""
    known = survey.state
    before = known.spec.get(SCHEMA_SEQUENCE) if known is not None else None
    sequence = next(source.sequence for source in survey.feed if source.path == path)
    return before is not None and sequence is not None and sequence < before


def _with_fields(base: SchemaVersion, tables: Sequence[SchemaVersion]) -> SchemaVersion:
    """Return a version with the fields that tables have besides its own: no table is newer than another."""
    first = [version for version in tables if version is not base]
    # If the base is one of the tables, the order of fields is that of the first table.
    versions = [*first, base] if len(first) < len(tables) else [base, *first]
    fields = {field.name: field for version in reversed(versions) for field in version.schema}
    names = dict.fromkeys(name for version in versions for name in version.schema.names)
    if len(names) == len(base.schema.names):
        return base
    return replace(base, schema=pa.schema([fields[name] for name in names]))


def with_deletes_marked(
    ops: OpSpec, survey: Survey, fields: RunFields, master: Sequence[SchemaVersion], feed: Sequence[SchemaVersion]
) -> list[SchemaVersion]:
    """Return the versions of a feed; those of files that have only deletes, and lack fields of others, as partial.

    A file is read only if the result would otherwise have its fields, or if it lacks a field that only upserts need.
    """
    feed, op = list(feed), fields.op
    if op is None or ops.field is None:
        return feed
    sources = {source.path: source for source in survey.feed}
    expected = set(fields.needed(deletes=False)) - set(fields.needed(deletes=True))
    of_all = {name for version in (*master, *feed) if not version.partial for name in version.schema.names}
    known = expected if survey.output_schema is not None else expected | of_all
    for number in reversed(range(len(feed))):
        version, source = feed[number], sources[feed[number].path]
        if version.partial or op not in version.schema.names:
            continue
        lacks_fields = not known <= {*version.schema.names, op, *fields.cut}
        if lacks_fields and _has_only_deletes(ops, source, op):
            feed[number] = replace(version, partial=True)
        elif not source.is_table:
            known = expected  # the fields of older files do not count
    return feed


def _has_only_deletes(ops: OpSpec, source: Source, op: str) -> bool:
    """Return whether every row of a feed file has a delete code; reads no further than the first other row."""
    assert source.file_schema is not None
    content = FileContent(source.path, source.bytes, source.window(), compression=source.compression)
    rows, envelope = 0, envelope_of(ops, op)
    try:
        for found in read_rows(source.file_format, content, source.file_schema.schema, [op], source.dialect):
            rows += found.batch.num_rows
            if not envelope.of_array(canonical(found.batch.column(op))).are(DELETE).all():
                return False
    except (CorruptStream, NotReadable, pa.ArrowException):
        return False  # the run names the damaged row
    return rows > 0 or source.is_table
