"""Files whose fields have names: one schema for the result, and a layout for each schema that occurs.

The result's fields are those of the newest feed file (by sequence, then by name), or of the schema that the user names.
Where all files are Avro, and Avro is written, records stay encoded; else rows are columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from mutator.config import Config
from mutator.dataset.manifest import Manifest, is_without_key
from mutator.dataset.partition_index import SPEC, stored_fields
from mutator.errors import error
from mutator.formats.blocks.column_rows import ColumnLayout, ColumnOutput
from mutator.formats.content import NotReadable
from mutator.formats.files.avro_schema import avro_of, expanded
from mutator.formats.files.contract import Dialect
from mutator.formats.files.escaped import separates
from mutator.formats.files.registry import FILE_FORMATS
from mutator.plan.inspect.survey import Source, Survey
from mutator.plan.rows.avro_rows import avro_layout_of, avro_row_plan
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.rows.run_fields import (
    SCHEMA_SEQUENCE,
    RunFields,
    by_age,
    check_key_types,
    check_op_type,
    defaults_spec,
    has_fields,
    key_type_names,
    layout_name,
    named_partitioning,
    notes_on_defaults,
    order_spec,
    order_type_of,
    parse_default,
    rewrite_notes,
    run_fields,
    schema_sequence_spec,
    with_feed_names,
    with_stored_defaults,
)
from mutator.plan.rows.storable_types import storable_schema, storable_type
from mutator.plan.rows.text_rows import is_delete_source
from mutator.rules import schema_evolution as schemas
from mutator.rules.schema_evolution import Version

__all__ = ["has_schema", "schema_row_plan", "stored_schema_row_plan"]

_AS_WRITTEN = ("format", "schema", "csv", "escaped")  # parts of a specification: what files look like


def has_schema(config: Config, survey: Survey) -> bool:
    """Tell whether any file, or the output, has fields with names."""
    kinds = {source.kind for source in (*survey.master, *survey.feed)}
    return bool(kinds - {"text"}) or config.output_format not in (None, "text") or _was_named(survey)


def _was_named(survey: Survey) -> bool:
    return survey.manifest is not None and "fields" in survey.manifest.spec["key"]


def schema_row_plan(config: Config, survey: Survey) -> RowPlan:
    """Decide what is read and written. Raises ConfigError and DataError that name fields and files."""
    known = survey.manifest
    config = with_stored_defaults(config, known)
    if known is not None and not _was_named(survey):
        raise error(
            "manifest.spec",
            path=survey.master_path,
            name="fields",
            before="known by their place, as text",
            now="known by their names",
        )
    output = _output_kind(config, survey)
    kinds = {source.kind for source in (*survey.master, *survey.feed)}
    stays_encoded = output == "avro" and kinds <= {"avro"}  # and need not be held in any other way
    checked = schemas.distinct if stays_encoded else schemas.normal
    master, feed = _versions(config, survey, checked)
    base = _base(survey, master, feed, checked)
    fields = run_fields(config, base, survey)
    master = [with_feed_names(version, base, fields) for version in master]
    codec = _codec(config, output)
    dialect = _dialect(config, survey, codec)
    if output == "escaped" and not separates(dialect.delimiter):
        why = f"{config.delimiter.text} stands in escapes too; escaped needs what is no letter, digit, & or backslash"
        raise error("config", where="field.delim.regex", faults=why)
    if stays_encoded:
        return avro_row_plan(config, survey, fields, codec, base.path)
    return _columns(config, survey, output, base, [*master, *feed], fields, dialect)


def _output_kind(config: Config, survey: Survey) -> str:
    known = survey.manifest
    before = known.spec["format"] if known is not None else None
    there = [source.kind for source in (*survey.master, *survey.feed)]
    kind = config.output_format or before or (there[0] if there else "text")
    if kind == "text":
        raise error(
            "config",
            where="output.format",
            faults="text cannot hold what other formats can; set output.format to csv, escaped, avro, parquet or orc",
        )
    return str(kind)


def _codec(config: Config, kind: str) -> str | None:
    codecs = FILE_FORMATS[kind].codecs
    if config.output_codec is None:
        return None
    if config.output_codec not in codecs:
        raise error(
            "config", where="output.codec", faults=f"{config.output_codec} is none of {kind}: {', '.join(codecs)}"
        )
    return codecs[config.output_codec]


def _dialect(config: Config, survey: Survey, codec: str | None) -> Dialect:
    named = any(
        source.file_schema is not None and source.file_schema.named for source in (*survey.master, *survey.feed)
    )
    delimiter = config.delimiter.literal
    if delimiter is None or len(delimiter) != 1:
        delimited = [one.path for one in (*survey.master, *survey.feed) if not FILE_FORMATS[one.kind].typed]
        if delimited:
            what = f"field.delim.regex is {config.delimiter.text}, and one byte must stand between fields with names"
            raise error("format", path=delimited[0], what=what, cure="set it to that byte, or merge text with text")
        delimiter = b","  # of CSV that is written
    return Dialect(delimiter, config.csv_null, named, (), codec)


def _versions(config: Config, survey: Survey, checked: Any) -> tuple[list[Version], list[Version]]:
    """Return the schemas of the master's files and of the feed's, one for each file that has any."""
    master = [_version(one, False, checked) for one in by_age(survey.master) if has_fields(one)]
    if survey.manifest is not None and (not master or survey.partitions is not None):
        file_schema = survey.dataset_schema
        assert file_schema is not None
        # Of a partitioned master the others are a file of each form; what the master has is what its manifest says.
        master.insert(
            0, Version(file_schema.schema, survey.master_path, file_schema.typed, False, file_schema.defaults)
        )
    feed = [_version(one, is_delete_source(config, one), checked) for one in by_age(survey.feed) if has_fields(one)]
    return master, feed


def _version(source: Source, partial_fields: bool, checked: Any) -> Version:
    file_schema = source.file_schema
    assert file_schema is not None
    if source.kind == "text" and not file_schema.named:
        raise error(
            "format",
            path=source.path,
            what="delimited text has no names for its fields, and other files of the run have",
            cure="set field.names",
        )
    return Version(
        checked(file_schema.schema, source.path), source.path, file_schema.typed, partial_fields, file_schema.defaults
    )


def _base(survey: Survey, master: Sequence[Version], feed: Sequence[Version], checked: Any) -> Version:
    """Return the version that gives the result its fields; its types may be others'."""
    if survey.output_schema is not None:
        path, file_schema = survey.output_schema
        return Version(checked(file_schema.schema, path), path, True, False, file_schema.defaults)
    whole = [version for version in feed if not version.partial]
    own = list(master[:1] if survey.manifest is not None else master[-1:])
    found = whole[-1:] or own or list(feed[-1:])
    if whole and master and _comes_late(survey, whole[-1].path):
        found = list(master[:1])
    if not found:
        raise error(
            "format", path=survey.master_path, what="no file has any fields", cure="name a schema with output.schema"
        )
    return found[0]


def _comes_late(survey: Survey, path: str) -> bool:
    """Tell whether a feed file is older than the one that gave the master its fields, and so changes none."""
    known = survey.manifest
    before = known.spec.get(SCHEMA_SEQUENCE) if known is not None else None
    sequence = next(source.sequence for source in survey.feed if source.path == path)
    return before is not None and sequence is not None and sequence < before


def _columns(
    config: Config,
    survey: Survey,
    output: str,
    base: Version,
    versions: Sequence[Version],
    fields: RunFields,
    dialect: Dialect,
) -> RowPlan:
    for version in versions:
        schemas.check_key(version, fields.needed(deletes=version.partial))
    keep = config.op_keep
    cut = _without(base, fields.op) if not keep else base
    others = [_without(version, fields.op) if not keep else version for version in versions if version is not base]
    defaults = {name: partial(parse_default, name, text) for name, text in config.defaults.items()}
    unused = notes_on_defaults(config, [cut, *others])
    found = schemas.resolve(
        cut,
        others,
        fields.ids,
        defaults,
        given=survey.output_schema is not None,
        held=lambda kind: storable_type(kind, lambda leaf: FILE_FORMATS[output].storable_type(leaf) or leaf),
    )
    known_spec = survey.manifest.spec if survey.manifest is not None else {}
    result = storable_schema(_partitions_last(found.schema, known_spec, base.path), output)
    check_key_types(result, fields, base.path)
    partitioning = named_partitioning(result, fields, base.path)
    order_type = order_type_of(config, result, fields, base.path)
    common = ColumnLayout(
        format=output,
        schema=result,
        result=result,
        id_fields=tuple(result.get_field_index(name) for name in fields.ids),
        order_field=None if fields.order is None else result.get_field_index(fields.order),
        order_type=order_type,
        dialect=dialect,
        null_lowest=config.null_order == "lowest",
        within_years=output == "csv",
        delete_codes=config.delete_codes,
        upsert_codes=config.upsert_codes,
        defaults={name: pa.repeat(value.cast(result.field(name).type), 1) for name, value in found.defaults.items()},
        partition=fields.partition,
        placed=fields.scope == "partition",
    )
    layouts: dict[str, Any] = {"master": replace(common, feed=False), "feed": common}
    layouts["written"] = layouts["master"]
    layout_of: dict[str, str] = {}
    by_path = {version.path: version for version in versions}
    for side, sources in (("master", survey.master), ("feed", survey.feed)):
        for source in sources:
            found_version = by_path.get(source.path)
            # A file without fields has no rows either, and still is what it is.
            version = found_version or Version(pa.schema([]), source.path)
            deletes = side == "feed" and is_delete_source(config, source)
            layout = replace(
                layouts[side],
                format=source.kind,
                schema=version.schema,
                typed=FILE_FORMATS[source.kind].typed,
                dialect=stored_dialect(source.stored or known_spec, dialect) if side == "master" else dialect,
                op_field=fields.op if fields.op in version.schema.names else None,
                deletes=deletes,
                deletes_allowed=side == "feed",
                upsert_codes=config.upsert_codes if side == "feed" else None,
            )
            if side == "feed" and fields.op is not None and layout.op_field is None and found_version is not None:
                schemas.check_key(version, [fields.op])
            if layout.op_field is not None:
                check_op_type(version.schema.field(layout.op_field).type, layout.op_field, version.path)
            layout_of[source.path] = layout_name(layouts, side, layout)
    if output == "avro":
        try:
            dialect = replace(dialect, avro=avro_of(result, _known_avro(survey)))
        except NotReadable as fault:
            raise error("config", where=f"output.format={output}", faults=fault) from None
    spec: dict[str, Any] = {
        "key": {"fields": list(fields.ids), "types": key_type_names(result, fields.ids)},
        "order": order_spec(config, fields, order_type),
        "op code": fields.op if keep else None,
        "format": output,
        "schema": schemas.to_text(result) if dialect.avro is None else dict(dialect.avro),
    }
    spec |= schema_sequence_spec(config, survey)
    if output == "escaped":
        dialect = Dialect(dialect.delimiter)
        spec["escaped"] = {"delimiter": dialect.delimiter.decode("latin-1")}
    if "partitioned by" in known_spec:
        spec["partitioned by"] = known_spec["partitioned by"]
    spec |= {} if partitioning is None else {SPEC: partitioning.spec(), **defaults_spec(config, result)}
    if output == "csv":
        spec["csv"] = {
            "delimiter": dialect.delimiter.decode("latin-1"),
            "null": dialect.null.decode("utf-8", "surrogateescape"),
            "header": dialect.header,
        }
    known = survey.manifest
    same = known is not None and all(known.spec.get(name) == spec.get(name) for name in _AS_WRITTEN)
    return RowPlan(
        block_type="columns",
        layouts=layouts,
        output=ColumnOutput(output, result, dialect),
        spec=spec,
        order_type=order_type,
        layout_of=layout_of,
        in_ranges={one.path: FILE_FORMATS[one.kind].in_ranges for one in (*survey.master, *survey.feed)},
        carries=same,
        whole=True,
        partitioning=partitioning,
        notes=(
            *found.notes,
            *unused,
            *rewrite_notes(known is not None and not is_without_key(known) and not same and not survey.partitions),
        ),
    )


def _partitions_last(schema: Any, spec: Mapping[str, Any], path: str) -> Any:
    """Return a schema with the fields that directories are made of behind the others, as Hive has them.

    path: of the file that gave the result its fields. Raises DataError where one is missing.
    """
    last = spec.get("partitioned by", ())
    for name in last:
        if schema.get_field_index(name) < 0:
            what = "is missing, and the table is partitioned by it"
            raise error("schema.field", path=path, field=name, what=what)
    fields = [one for one in schema if one.name not in last]
    return pa.schema([*fields, *(schema.field(name) for name in last)])


def _known_avro(survey: Survey) -> Mapping[str, Any] | None:
    """Return the Avro schema whose types the result keeps: the one that is asked for, or the master's."""
    if survey.output_schema is not None:
        return expanded(survey.output_schema[1].native)
    looks = [survey.dataset_schema, *(source.file_schema for source in by_age(survey.master))]
    return next(
        (
            expanded(file_schema.native)
            for file_schema in looks
            if file_schema is not None and file_schema.native is not None
        ),
        None,
    )


def stored_dialect(spec: Mapping[str, Any], dialect: Dialect) -> Dialect:
    """Return how a dataset's files are read: as they were written, whatever is set now."""
    if "escaped" in spec:
        return Dialect(spec["escaped"]["delimiter"].encode("latin-1"))
    stored = spec.get("csv")
    if stored is None:
        return dialect
    null = stored["null"].encode("utf-8", "surrogateescape")
    return Dialect(stored["delimiter"].encode("latin-1"), null, stored["header"])


def _without(version: Version, name: str | None) -> Version:
    if name is None or name not in version.schema.names:
        return version
    return replace(version, schema=version.schema.remove(version.schema.get_field_index(name)))


def stored_schema_row_plan(known: Manifest) -> RowPlan:
    """Return the shape of a dataset whose fields have names."""
    spec = dict(known.spec)
    file_schema = FILE_FORMATS[spec["format"]].stored(spec)
    order, ids = spec["order"], tuple(spec["key"]["fields"])
    order_name, order_type = order.get("field"), order.get("type", "sequence")
    lowest = order.get("null") == "lowest"
    if spec["format"] == "avro":
        layout = avro_layout_of(file_schema.native, ids, order_name, order_type, lowest, stored_fields(spec))
        return RowPlan("avro", dict.fromkeys(("master", "feed", "written"), layout), None, spec, order_type)
    schema = file_schema.schema
    columns = ColumnLayout(
        format=spec["format"],
        schema=schema,
        result=schema,
        id_fields=tuple(schema.get_field_index(name) for name in ids),
        order_field=None if order_name is None else schema.get_field_index(order_name),
        order_type=order_type,
        dialect=stored_dialect(spec, Dialect()),
        null_lowest=lowest,
        feed=False,
        typed=FILE_FORMATS[spec["format"]].typed,
        partition=stored_fields(spec),
    )
    return RowPlan("columns", dict.fromkeys(("master", "feed", "written"), columns), None, spec, order_type)
