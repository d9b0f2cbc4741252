"""Plan a run over files with a schema: the fields of the result, then the rows as Avro records or as typed columns.

The result's fields are those of the newest feed file (by sequence, then by name), or of the schema that the user names.
Where all files are Avro, and Avro is written, records stay encoded; else rows are columns.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mutator.config.settings import OutputSpec, RowSpec, TextSpec
from mutator.dataset.partition_index import IN_PATH, stored_fields
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.parts import MASTER, setting
from mutator.formats.blocks.column_rows import ColumnLayout
from mutator.formats.files.escaped import separates
from mutator.formats.files.file_format import Dialect, stored_dialect
from mutator.formats.files.file_formats import FILE_FORMATS, codec_of
from mutator.plan.inspect.delete_files import has_ids_alone, is_delete_source, notes_on_ids
from mutator.plan.inspect.envelopes import check_order_of_messages, lacks_fields, unwraps
from mutator.plan.inspect.headers import other_number_of_names
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.column_rows import column_row_plan
from mutator.plan.rows.result_fields import (
    base_version,
    changed_fields,
    check_first_rows,
    check_names,
    left_out_fields,
    with_deletes_marked,
)
from mutator.plan.rows.result_schema import SchemaRun
from mutator.plan.rows.row_plan import MERGES, PATCHES, RowPlan
from mutator.plan.rows.run_fields import (
    RunFields,
    by_age,
    check_ordinals,
    has_fields,
    run_fields,
    with_feed_names,
    with_stored_defaults,
)
from mutator.plan.rows.unset_fields import warnings_on_values
from mutator.plan.spec_check import check_kept
from mutator.rules import schema_evolution as schemas
from mutator.rules.json_paths import path_in
from mutator.rules.known_formats import FORMATS
from mutator.rules.order_types import has_position, recorded_fields, type_of_fields
from mutator.rules.schema_evolution import SchemaVersion


def schema_row_plan(rows: RowSpec, output: OutputSpec, survey: Survey) -> RowPlan:
    """Decide the rows that a run reads and writes. Raises ConfigError and DataError that name fields and files."""
    known = survey.state
    output = with_stored_defaults(output, known)
    if known is not None and not survey.had_schema:
        raise error(
            "manifest.spec",
            path=survey.master_path,
            name="fields",
            before="known by position, as text",
            now="known by name",
        )
    if known is not None:
        check_kept(rows.order, known, survey.master_path)
    file_format = _output_format(rows, output, survey)
    # Else types must be Arrow's own.
    stays_encoded = file_format == "avro" and survey.formats <= {"avro"} and output.nanos != "reject"
    stays_encoded = stays_encoded and rows.order.keep is not False and not unwraps(rows.ops)
    waits = rows.ops.unknown if rows.ops.has_patches else None  # rows that wait are kept in typed columns
    stays_encoded &= (waits if known is None else known.spec.get(PATCHES, waits)) != "wait"
    stays_encoded &= not (rows.ops.merges or (known is not None and MERGES in known.spec))  # as entries are
    checked = schemas.distinct if stays_encoded else schemas.normal
    master, feed = _versions(rows, output, survey, checked)
    newest = base_version(rows.ops, output, survey, master, feed, checked)
    fields_of_feed = {version.path: version.schema.names for version in feed}
    check_order_of_messages(rows.order, survey.feed, fields_of_feed, survey.state)
    fields = run_fields(rows, newest, survey)
    named = [with_feed_names(version, newest, fields) for version in master]
    feed = with_deletes_marked(rows.ops, survey, fields, named, feed)
    base = base_version(rows.ops, output, survey, named, feed, checked)
    check_first_rows(rows.text, survey, fields, (base, *master), feed)
    check_names(survey, rows.ops, output.defaults, fields, (base, *master), feed)
    if not (rows.text.names or survey.field_names):  # else ordinals are those of the names
        check_ordinals(rows, fields, (*master, *feed))
    master = named
    codec = codec_of(file_format, output.codec)
    dialect = _dialect(rows.text, survey, codec)
    if file_format == "escaped" and not separates(dialect.delimiter):
        cure = "the delimiter of escaped must not be a letter, digit, & or backslash"
        why = f"{rows.text.delimiter.text} is part of escapes; {cure}"
        raise error("config", where=setting("field.delim.regex"), faults=why)
    if rows.ops.absent:  # a file lacks the fields that it does not send
        feed = [replace(version, partial=True) for version in feed]
    run = SchemaRun(rows, output, survey, fields, base, (*master, *feed))
    if stays_encoded:
        from mutator.plan.rows.avro_rows import avro_row_plan  # with fastavro, which other formats need not load

        planned = avro_row_plan(run, codec)
    else:
        planned = column_row_plan(run, file_format, dialect)
    return replace(
        planned,
        notes=(*planned.notes, *_notes_on_ids(rows, survey), *_notes_on_time(rows, fields)),
        warnings=(
            *planned.warnings,
            *_warnings_on_orders(fields, master),
            *warnings_on_values(rows.ops, survey.feed),
            *_warnings_on_fields(run, master, feed, planned.partitioning.in_path),
        ),
    )


def _notes_on_time(rows: RowSpec, fields: RunFields) -> tuple[str, ...]:
    """Return a note on a field with the time of a snapshot that is not written."""
    if rows.ops.field is not None or fields.op not in fields.cut:
        return ()
    return (f"field {fields.op} says what the snapshot is as of, and is not a field of {MASTER}: it is not written",)


def _warnings_on_orders(fields: RunFields, master: Sequence[SchemaVersion]) -> tuple[str, ...]:
    """Return a warning if rows of the master lose order values that they have, as those of another program may."""
    cut = [path[0] for path in fields.orders] if fields.orders_beside else []
    found = [name for name in cut if any(name in one.schema.names for one in master)]
    if not found:
        return ()
    noun, names = "fields" if len(found) > 1 else "field", ", ".join(found)
    warning = (
        f"{setting('order.keep=false')} drops {noun} {names} of {MASTER}, whose rows then count as older than every "
        f"mutation. If {names} should decide, set {setting('order.keep=true')} now; later runs cannot"
    )
    return (warning,)


def _warnings_on_fields(
    run: SchemaRun, master: Sequence[SchemaVersion], feed: Sequence[SchemaVersion], in_path: Sequence[str]
) -> tuple[str, ...]:
    """Return warnings where a feed file changes the fields of the master, or of other feed files. Raises DataError.

    in_path: the fields in the paths of the result.
    """
    output, survey, base, cut = run.output, run.survey, run.base, {run.fields.op, *run.fields.cut}
    source = next((source for source in survey.feed if source.path == base.path), None)
    if survey.output_schema is not None or source is None:
        return ()
    left_out = left_out_fields(output, base, feed, cut)
    if not master:
        return left_out
    own = master if survey.state is not None else master[::-1]
    unplaced = {*in_path, *(name for one in survey.master for name, _ in one.in_path)}
    return (*changed_fields(output, base, own, cut, unplaced, is_table=source.is_table), *left_out)


def _notes_on_ids(rows: RowSpec, survey: Survey) -> tuple[str, ...]:
    """Return a note on delete files without a header whose rows have the ID alone, as ``probe`` has named them."""
    names = rows.text.names or survey.field_names
    headless = [source for source in survey.feed if source.format.delimited and not source.header_end]
    return notes_on_ids(rows.key, [source for source in headless if has_ids_alone(rows, source, len(names))], names)


def _output_format(rows: RowSpec, output: OutputSpec, survey: Survey) -> str:
    known = survey.state
    before = known.spec["format"] if known is not None else None
    formats = [source.file_format for source in (*survey.master, *survey.feed)]
    # A first run of files that cannot be written has no other format to go by.
    first = next((one for one in formats if FORMATS[one].suffix), "parquet" if formats else "text")
    found = output.format or before or first
    if found == "text":
        raise error("config", where=setting("output.format"), faults=_cure_for(found, rows, survey))
    return str(found)


def _cure_for(file_format: str, rows: RowSpec, survey: Survey) -> str:
    """Return why a format cannot be written, and all that the user has to set."""
    *others, last = (name for name, known in FORMATS.items() if known.suffix and name != "text")
    formats = f"{', '.join(others)} or {last}"
    unnamed = [source.name for source in (*survey.master, *survey.feed) if source.file_format == "text"]
    cure = f"set {setting('output.format')} to {formats}"
    if unnamed and not rows.text.names:
        cure = f"set {setting('field.names')}, because the fields of {unnamed[0]} have no names, and {cure}"
    for side, sources in (("master", survey.master), ("feed", survey.feed)):
        named_csv = next((source for source in sources if source.file_format == "csv"), None)
        if named_csv is not None:
            cure += f"; or, if {named_csv.name} is text without quotes and header, set {side}.format=text"
            cure += " and give fields by ordinal" if rows.called else ""
    return f"{file_format} cannot store what other formats can; {cure}"


def _dialect(text: TextSpec, survey: Survey, codec: str | None) -> Dialect:
    named = any(
        source.file_schema is not None and source.file_schema.named for source in (*survey.master, *survey.feed)
    )
    delimiter = text.delimiter.literal
    if delimiter is None or len(delimiter) != 1:
        delimited = [one.path for one in (*survey.master, *survey.feed) if one.format.delimited]
        if delimited:
            what = (
                f"{setting('field.delim.regex')} is {text.delimiter.text}, and fields with names need a "
                "delimiter of one byte"
            )
            raise error("format", path=delimited[0], what=what, cure="set it to that byte, or merge text with text")
        delimiter = b","  # for CSV output
    return Dialect(delimiter, text.csv_null, named, (), codec)


def _versions(
    rows: RowSpec, output: OutputSpec, survey: Survey, checked: Any
) -> tuple[list[SchemaVersion], list[SchemaVersion]]:
    """Return the schemas of the master's files and of the feed's, one for each file that has fields."""
    if not rows.text.names and survey.formats <= {"text"} and not survey.had_schema:
        if survey.versioned:
            what = f"is not set, but a table needs names for its columns, and {survey.feed[0].name} is delimited text"
            raise error(
                "width",
                where=setting("field.names"),
                what=what,
                cure=f"set it to the names of all fields, in order{_or_csv('feed')}",
            )
        faults = "the files to write need names for their fields, and those of the run are delimited text, which has "
        raise error(
            "config",
            where=setting(f"output.format={output.format}"),
            faults=f"{faults}none; set {setting('field.names')}",
        )
    _check_text(rows.text, "master", survey.master)
    _check_text(rows.text, "feed", survey.feed)
    master = [_version(one, False, checked) for one in by_age(survey.master) if has_fields(one)]
    if survey.state is not None and (not master or survey.partitioned is not None):
        file_schema = survey.dataset_schema
        assert file_schema is not None
        # The other files of a partitioned master are one of each form; its manifest has the fields of the whole.
        master.insert(
            0, SchemaVersion(file_schema.schema, survey.master_path, file_schema.typed, False, file_schema.defaults)
        )
    feed = [
        _version(one, is_delete_source(rows.ops, one) or one.is_header_alone or lacks_fields(one), checked)
        for one in by_age(survey.feed)
        if has_fields(one)
    ]
    return master, feed


def _or_csv(side: str) -> str:
    """Return the other cure of text without names: nothing but its suffix, which stdin lacks, makes a file CSV."""
    return f"; or, if it is CSV with a header, set {setting(f'{side}.format=csv')}"


def _check_text(text: TextSpec, side: str, sources: Sequence[Source]) -> None:
    """Raise ConfigError or DataError for delimited text whose fields have no names."""
    for source in filter(has_fields, sources):
        assert source.file_schema is not None
        if source.file_format != "text" or source.file_schema.named:
            continue
        if text.names:
            width = len(source.file_schema.schema)
            what = f"its first row has {counted(width, 'field')}"
            raise other_number_of_names(source.path, what, text.names, single=width == 1)
        raise error(
            "format",
            path=source.path,
            what="delimited text has no names for its fields, and other files of the run have",
            cure=f"set {setting('field.names')}{_or_csv(side)}",
        )


def _version(source: Source, partial_fields: bool, checked: Any) -> SchemaVersion:
    file_schema = source.file_schema
    assert file_schema is not None
    return SchemaVersion(
        checked(file_schema.schema, source.path), source.path, file_schema.typed, partial_fields, file_schema.defaults
    )


def stored_schema_row_plan(known: State) -> RowPlan:
    """Return the row plan of a dataset with a schema, as its manifest describes it."""
    spec = dict(known.spec)
    file_schema = FILE_FORMATS[spec["format"]].stored(spec)
    order, ids = spec["order"], tuple(spec["key"]["fields"])
    order_type, names, beside = order.get("type", "sequence"), file_schema.schema.names, order.get("beside", False)
    kept = beside or has_position(order_type)
    # A manifest may be of a time when a field came before a member of its name, and a run did not stop.
    paths = (
        (name,) if name in names else path_in(file_schema.schema, name) or (name,) for name in recorded_fields(order)
    )
    rules: dict[str, Any] = {
        "order_type": type_of_fields(order_type),
        "order_fields": () if beside else tuple(paths),
        "null_lowest": order.get("null") == "lowest",
        "feed": False,
        "partition": stored_fields(spec),
        "in_path": tuple(spec.get(IN_PATH, ())),
    }
    if spec["format"] == "avro":
        from mutator.plan.rows.avro_rows import stored_avro_layout

        avro = stored_avro_layout(file_schema.native, ids, rules)
        return RowPlan(
            "avro", dict.fromkeys(("master", "feed", "written"), avro), None, spec, order_type, orders_beside=kept
        )
    schema = file_schema.schema
    columns = ColumnLayout(
        format=spec["format"],
        schema=schema,
        result=schema,
        id_fields=tuple(schema.get_field_index(name) for name in ids),
        dialect=stored_dialect(spec),
        **rules,
    )
    return RowPlan(
        "columns", dict.fromkeys(("master", "feed", "written"), columns), None, spec, order_type, orders_beside=kept
    )
