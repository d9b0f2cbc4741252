"""Plan a run whose rows travel as typed columns: the result's schema, and a layout for each file's schema."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mutator.dataset.partition_index import IN_PATH
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.blocks.column_rows import ColumnLayout, ColumnOutput
from mutator.formats.content import NotReadable
from mutator.formats.files.avro_schema import avro_of, expanded
from mutator.formats.files.file_format import Dialect, stored_dialect
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.result_schema import ResultRows, SchemaRun, name_layouts, resolve_schema, result_rows
from mutator.plan.rows.row_plan import PATCHES, RowPlan
from mutator.plan.rows.run_fields import by_age, rewrite_notes
from mutator.plan.rows.storable_types import storable_schema, stored_as
from mutator.rules.schema_evolution import to_text

_AS_WRITTEN = ("format", "schema", IN_PATH, "csv", "escaped")  # parts of a specification that decide how files are read
_PATH_FIELDS = "partitioned by"  # in a specification: fields of a Hive table whose values are in its paths


def column_row_plan(run: SchemaRun, output: str, dialect: Dialect) -> RowPlan:
    """Decide the result's schema and the layouts of all files. output: the file format to write."""
    known = run.survey.state
    known_spec = known.spec if known is not None else {}
    in_micros = (run.output.nanos or ("reject" if run.survey.versioned else "keep")) == "reject"
    found = resolve_schema(run, lambda data_type: stored_as(data_type, output, in_micros))
    schema = _path_fields_last(found.schema, known_spec, run.base.path)
    schema = storable_schema(schema, output, in_micros=in_micros)
    rows = result_rows(run, schema, output)
    defaults = {name: pa.repeat(value.cast(schema.field(name).type), 1) for name, value in found.defaults.items()}
    dialect = _written_dialect(run, output, schema, dialect)
    spec = _spec(run, rows, output, known_spec, dialect)
    layouts = _layouts(run, rows, output, stored_dialect(spec), defaults)
    names = _file_layouts(run, layouts)
    same = known is not None and all(known_spec.get(name) == spec.get(name) for name in _AS_WRITTEN)
    rewrites = (
        known is not None
        and not known.is_without_key
        and not same
        and not run.survey.partitioned
        and not run.survey.versioned
    )
    in_path = rows.partitioning.in_path
    return RowPlan(
        block_type="columns",
        layouts=layouts,
        output=ColumnOutput(output, schema, _of_files(dialect, in_path), in_path),
        spec=spec,
        order_type=rows.order_type,
        layout_of=names,
        orders_beside=run.fields.orders_beside or run.asked.order.position,
        carries=same,
        whole=True,
        partitioning=rows.partitioning,
        scope=rows.scope,
        notes=(*found.notes, *rewrite_notes(rewrites)),
    )


def _layouts(
    run: SchemaRun, rows: ResultRows, output: str, dialect: Dialect, defaults: Mapping[str, Any]
) -> dict[str, ColumnLayout]:
    schema = rows.schema
    master = ColumnLayout(
        format=output,
        schema=schema,
        result=schema,
        id_fields=tuple(schema.get_field_index(name) for name in run.fields.ids),
        dialect=dialect,
        within_years=output == "csv",
        feed=False,
        defaults=defaults,
        **rows.rules(run),
    )
    feed = replace(master, **rows.feed_rules(run, defaults))
    if master.orders_beside:
        master = replace(master, order_fields=(), orders_beside=False)
    return {"master": master, "feed": feed, "written": master}


def _file_layouts(run: SchemaRun, layouts: dict[str, ColumnLayout]) -> dict[str, str]:
    """Add the layouts of the files; return the name of each file's layout, by path."""
    schemas, ops, known = {version.path: version.schema for version in run.versions}, run.asked.ops, run.survey.state
    has_nulls = ops.has_patches or ops.merges or (known is not None and PATCHES in known.spec)

    def layout_of(side: str, source: Source, rules: dict[str, Any]) -> ColumnLayout:
        dialect = replace(source.dialect, lacks=side == "feed" and ops.absent)
        if has_nulls and source.file_format == "text":
            dialect = replace(dialect, null=run.asked.text.csv_null, empty_is_null=True)
        return replace(
            layouts[side],
            format=source.file_format,
            schema=schemas.get(source.path, pa.schema([])),  # a file without fields has no rows
            dialect=dialect,
            **rules,
        )

    return name_layouts(run, layouts, layout_of)


def _written_dialect(run: SchemaRun, output: str, schema: Any, dialect: Dialect) -> Dialect:
    if output == "escaped":
        return Dialect(dialect.delimiter)
    if output != "avro":
        return dialect
    try:
        return replace(dialect, avro=avro_of(schema, _known_avro(run.survey)))
    except NotReadable as fault:
        raise error("config", where=setting(f"output.format={output}"), faults=fault) from None


def _of_files(dialect: Dialect, in_path: Collection[str]) -> Dialect:
    """Return the dialect of files that lack the fields in their paths."""
    if dialect.avro is None:
        return dialect
    fields = [field for field in dialect.avro["fields"] if field["name"] not in in_path]
    return replace(dialect, avro={**dialect.avro, "fields": fields})


def _spec(
    run: SchemaRun, rows: ResultRows, output: str, known_spec: Mapping[str, Any], dialect: Dialect
) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if output == "escaped":
        more["escaped"] = {"delimiter": dialect.delimiter.decode("latin-1")}
    if _PATH_FIELDS in known_spec:
        more[_PATH_FIELDS] = known_spec[_PATH_FIELDS]
    spec = rows.spec(run, output, to_text(rows.schema) if dialect.avro is None else dict(dialect.avro), **more)
    if output == "csv":
        spec["csv"] = {
            "delimiter": dialect.delimiter.decode("latin-1"),
            "null": dialect.null.decode("utf-8", "surrogateescape"),
            "header": dialect.header,
        }
    return spec


def _path_fields_last(schema: Any, spec: Mapping[str, Any], path: str) -> Any:
    """Return a pa.Schema with the fields of a Hive table's partition paths after the others, as Hive orders them.

    path: of the file that gave the result its fields. Raises DataError where one of them is missing.
    """
    last = spec.get(_PATH_FIELDS, ())
    for name in last:
        if schema.get_field_index(name) < 0:
            what = "is missing, and the table is partitioned by it"
            raise error("schema.field", path=path, field=name, what=what)
    fields = [one for one in schema if one.name not in last]
    return pa.schema([*fields, *(schema.field(name) for name in last)])


def _known_avro(survey: Survey) -> Mapping[str, Any] | None:
    """Return the Avro schema whose types the result keeps: that of output.schema, else the master's."""
    if survey.output_schema is not None:
        return expanded(survey.output_schema[1].native)
    file_schemas = [survey.dataset_schema, *(source.file_schema for source in by_age(survey.master))]
    return next((expanded(one.native) for one in file_schemas if one is not None and one.native is not None), None)
