"""Choose the file that gives the result its fields; rows that are all deletes do not count, and tables have no age.

A versioned table keeps the order of its fields.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mutator.config import Config
from mutator.dataset.file_content import FileContent
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.content import NotReadable
from mutator.formats.files.path_fields import read_rows
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.run_fields import SCHEMA_SEQUENCE
from mutator.rules.op_code_columns import OpCodes
from mutator.rules.schema_evolution import SchemaVersion, widened
from mutator.rules.typed_values import canonical
from mutator.storage.compression import CorruptStream

Checked = Callable[[Any, str], Any]  # returns a pa.Schema of the types that the run reads, from one and its path


def base_version(
    survey: Survey, master: Sequence[SchemaVersion], feed: Sequence[SchemaVersion], checked: Checked
) -> SchemaVersion:
    """Return the version that gives the result its fields; their types may come from others."""
    if survey.output_schema is not None:
        path, file_schema = survey.output_schema
        return SchemaVersion(checked(file_schema.schema, path), path, True, False, file_schema.defaults)
    whole = [version for version in feed if not version.partial]
    own = list(master[:1] if survey.manifest is not None else master[-1:])
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
    known = survey.manifest
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
    config: Config, survey: Survey, op: str | None, master: Sequence[SchemaVersion], feed: Sequence[SchemaVersion]
) -> list[SchemaVersion]:
    """Return the versions of a feed; those of files that have only deletes, and lack fields of others, as partial.

    A file is read only if the result would otherwise have its fields. op: the name of the op code.
    """
    feed = list(feed)
    if op is None or survey.output_schema is not None:
        return feed
    sources = {source.path: source for source in survey.feed}
    known = {name for version in (*master, *feed) if not version.partial for name in version.schema.names}
    for number in reversed(range(len(feed))):
        version, source = feed[number], sources[feed[number].path]
        if version.partial or op not in version.schema.names:
            continue
        lacks_fields = not known <= {*version.schema.names, op}
        if lacks_fields and _has_only_deletes(config, source, op):
            feed[number] = replace(version, partial=True)
        elif not source.is_table:
            break
    return feed


def _has_only_deletes(config: Config, source: Source, op: str) -> bool:
    """Return whether every row of a feed file has a delete code; reads no further than the first other row."""
    assert source.file_schema is not None
    content = FileContent(source.path, source.bytes, source.window(), compression=source.compression)
    rows = 0
    try:
        for found in read_rows(source.file_format, content, source.file_schema.schema, [op], source.dialect):
            rows += found.batch.num_rows
            codes = OpCodes.of_array(canonical(found.batch.column(op)))
            codes = codes.presence() if config.marks_deletes else codes
            if not codes.among(config.delete_codes).all():
                return False
    except (CorruptStream, NotReadable, pa.ArrowException):
        return False  # the run names the damaged row
    return rows > 0 or source.is_table
