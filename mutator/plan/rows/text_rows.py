"""Plan a run over delimited text, whose fields are known by their positions: the layouts of all rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mutator.config.settings import OutputSpec, RowSpec
from mutator.dataset.partition_index import stored_fields
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.parts import MASTER, place, setting
from mutator.formats.blocks.row_layout import RowLayout, without_field
from mutator.plan.inspect.delete_files import (
    has_ids_alone,
    is_delete_source,
    notes_on_ids,
)
from mutator.plan.inspect.envelopes import envelope_of
from mutator.plan.inspect.headers import HEADER, header_to_record
from mutator.plan.inspect.path_names import check_text_paths
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.partitioning import Partitioning, moved, partitioning_of
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.rows.run_fields import by_age, order_by_name
from mutator.plan.rows.setting_faults import raise_all
from mutator.plan.rows.snapshot_scope import scope_of_ordinals
from mutator.plan.rows.text_widths import check_names, decide_widths, standard, width_from
from mutator.rules import file_names
from mutator.rules.delimiter import field_delimiter as delimiter
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.envelope import DELETES, UPSERTS
from mutator.rules.order_types import has_position, record_fields, recorded_fields, type_of_fields
from mutator.rules.unset_fields import UnsetTexts


def _fields_by_setting(rows: RowSpec, partition: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield (setting, field) of each field with a meaning. partition: fields that the partition is derived from."""
    yield from (("id.field.ordinals", field) for field in rows.key.ids)
    yield from (("temporal.ordering.field.ordinal", field) for field in rows.order.fields)
    if rows.ops.field is not None:
        yield "op.code.field.ordinal", rows.ops.field
    elif rows.ops.said_in is not None:
        yield "snapshot.as.of", rows.ops.said_in
    yield from (("partitioned.by", field) for field in partition)
    nulls = rows.ops.ignored_nulls
    yield from (("ignore.null.updates", field) for field in (() if nulls is None else nulls.named))
    yield from (("sync.scope", int(one.column) if one.column.isdigit() else one.column) for one in rows.ops.scope)


def _check_ordinals(rows: RowSpec, survey: Survey, feed: RowLayout, op_in_master: bool) -> None:
    """Raise ConfigError for ordinals beyond the row width, or sides whose rows cannot get one layout."""
    width = feed.width
    if width is not None:
        beyond = f"is beyond the {counted(width, 'field')} of a row, split by {setting('field.delim.regex')}"
        cure = f"correct the ordinal (they count from 0), the delimiter or {setting('field.count')}"
        raise_all(
            (key, f"field {ordinal} {beyond} = {feed.delimiter.text!r}", cure)
            for key, ordinal in _fields_by_setting(rows, feed.partition_sources)
            if ordinal >= width
        )
    if rows.ops.field is not None and rows.ops.keep and not op_in_master and survey.master:
        raise error(
            "width",
            where=survey.master_path,
            what=f"{setting('op.code.keep=true')} writes rows with an op code, and {MASTER}'s rows have none",
            cure=f"leave {setting('op.code.keep')} out",
        )


def _layouts(
    rows: RowSpec, partitioning: Partitioning, feed_width: int | None, master_width: int | None, op_in_master: bool
) -> tuple[RowLayout, RowLayout, RowLayout]:
    """Return the layouts of the feed, of the master and of written rows.

    feed_width, master_width: number of fields, None for any. op_in_master: master rows carry the op code column.
    """
    op, fields = rows.ops.field, partitioning.fields
    if not rows.key.partitions and op is not None and not rows.ops.keep:  # their ordinals count fields as written
        fields = moved(fields, lambda ordinal: ordinal + (ordinal >= op))
    feed = RowLayout(
        delimiter=rows.text.delimiter,
        id_fields=rows.key.ids,
        order_fields=rows.order.fields,
        order_type=type_of_fields(rows.order.type),
        width=feed_width,
        envelope=envelope_of(rows.ops, rows.ops.said_in),
        cut_op=op is not None and not rows.ops.keep,
        joint=rows.text.joint,
        partition=fields,
        scope=scope_of_ordinals(rows.ops.scope),
    )
    if op is None or op_in_master:
        master = replace(feed, width=master_width, envelope=feed.envelope.of_records())
    else:
        master = replace(_without_op(feed, op), width=master_width)
    master = replace(master, scope=None)  # rows of the master may be anywhere
    stored = feed if op is None or not feed.cut_op else _without_op(feed, op)
    written = replace(stored, width=feed.output_width, envelope=stored.envelope.of_records())
    feed = replace(feed, placed=partitioning.by_partition)
    return replace(feed, unset=_unset(rows, feed)), master, written


def _unset(rows: RowSpec, feed: RowLayout) -> UnsetTexts | None:
    """Return which fields of the feed say nothing. Raises ConfigError where rows may have any number of fields."""
    ops = rows.ops
    if not ops.has_patches:
        return None
    if feed.width is None:
        faults = "rows have any number of fields, so none can be merged field by field; set field.count to the number"
        raise error("config", where=setting("field.count"), faults=faults)
    op = feed.envelope.field
    own = [field for field in range(feed.width) if field not in feed.always_set and field != op]
    nulls = [] if ops.ignored_nulls is None else ops.ignored_nulls.among(own)
    moved_by = without_field(op) if op is not None and feed.cut_op else int
    value = None if ops.unset is None else ops.unset.encode()
    return UnsetTexts(value, rows.text.csv_null, frozenset(map(moved_by, nulls)))


def _without_op(layout: RowLayout, op: int) -> RowLayout:
    """Return a layout for rows without the op code column."""
    without = without_field(op)
    return replace(
        layout,
        id_fields=tuple(map(without, layout.id_fields)),
        order_fields=tuple(map(without, layout.order_fields)),
        envelope=UPSERTS,
        cut_op=False,
        partition=moved(layout.partition, without),
        scope=None if layout.scope is None else layout.scope.moved(without),
    )


def layout_of_ids(deletes: RowLayout) -> RowLayout:
    """Return the layout of rows that have the ID alone; without partition fields unless all are part of the ID.

    deletes: the layout of whole rows.
    """
    ids = deletes.id_fields
    partition = moved(deletes.partition, ids.index) if set(deletes.partition_sources) <= set(ids) else ()
    return replace(deletes, id_fields=tuple(range(len(ids))), width=len(ids), partition=partition)


def text_row_plan(rows: RowSpec, output: OutputSpec, survey: Survey) -> RowPlan:
    """Decide how a run over delimited text reads and writes rows. Raises ConfigError and DataError."""
    _check_settings(rows, output)
    known = survey.state
    feed_width, master_width, op_in_master = decide_widths(rows, survey)
    check_names(rows, survey, feed_width)
    partitioning = partitioning_of(rows.key.partitions, rows.key.scope, known)
    feed, master, written = _layouts(rows, partitioning, feed_width, master_width, op_in_master)
    sides = (survey.master, master_width, master.needed_width), (survey.feed, feed_width, feed.needed_width)
    check_text_paths(rows, sides)
    _check_ordinals(rows, survey, feed, op_in_master)
    notes = []
    if rows.ops.field is not None:
        have, left = "have the" if op_in_master else "have no", "with" if rows.ops.keep else "without"
        notes.append(f"{MASTER}'s rows {have} op code column; rows are written {left} it")
    deletes = replace(feed, envelope=DELETES)
    whole = deletes.needed_width if deletes.width is None else deletes.width
    of_ids = [source for source in survey.feed if has_ids_alone(rows, source, whole)]
    notes += notes_on_ids(rows.key, of_ids, rows.text.names)
    layout_of = {source.path: "deletes" for source in survey.feed if is_delete_source(rows.ops, source)}
    layout_of |= {source.path: "ids" for source in of_ids}
    layouts = {"master": master, "feed": feed, "deletes": deletes, "ids": layout_of_ids(deletes), "written": written}
    partitioning = replace(partitioning, fields=written.partition)
    return RowPlan(
        block_type="text",
        layouts=layouts,
        output=None,
        spec={**_spec(rows, written, known), **_header_spec(rows, survey, op_in_master), **partitioning.spec()},
        partitioning=partitioning,
        scope=written.scope,
        order_type=rows.order.type,
        orders_beside=rows.order.position,
        layout_of=layout_of,
        width_from=width_from(rows, survey),
        standard=standard(rows, survey),
        notes=tuple(notes),
        warnings=_warnings(rows, survey, feed, op_in_master),
    )


def _warnings(rows: RowSpec, survey: Survey, feed: RowLayout, op_in_master: bool) -> tuple[str, ...]:
    warnings = []
    is_guess = survey.state is None and rows.ops.in_master is None and survey.master
    if op_in_master and feed.cut_op and is_guess:
        warnings.append(
            f"{MASTER}'s rows are as wide as the feed's, so field {rows.ops.field} is read as their op code, "
            f"and cut; set {setting('op.code.in.master')} to confirm it"
        )
    if feed.cut_op and feed.delimiter.literal is None and len(feed.delimiter.split(b"x" + feed.joint + b"x")) != 2:
        warnings.append(
            f"{setting('field.delim')} is not matched by {setting('field.delim.regex')}: rows that lost their op code "
            "cannot be read as the next master with this configuration"
        )
    names = rows.text.names
    wider = [source for source in (*survey.master, *survey.feed) if names and (source.width or 0) > len(names)]
    if wider and feed.width is None:
        warnings.append(
            f"{setting('field.names')} has {counted(len(names), 'name')}, and the first row of "
            f"{place(wider[0].name)} has {wider[0].width} fields: with {setting('field.count=any')}, these are the "
            "names of the first fields of each row"
        )
    quoted = [place(source.name) for source in (*survey.master, *survey.feed) if source.quotes]
    if quoted:
        shown = file_names.first_few(quoted)
        warnings.append(
            f"{shown}: read as delimited text, where quotes mean nothing; {setting('input.format=csv')} reads them as "
            "CSV"
        )
    return tuple(warnings)


def stored_text_row_plan(known: State) -> RowPlan:
    """Return the row plan of a dataset of delimited text, as its manifest describes it."""
    spec = dict(known.spec)
    order, order_type = spec["order"], spec["order"].get("type", "sequence")
    layout = RowLayout(
        delimiter=_delimiter(spec["delimiter"]),
        id_fields=tuple(spec["key"]["ordinals"]),
        order_fields=recorded_fields(order),
        order_type=type_of_fields(order_type),
        width=spec["width"] if isinstance(spec["width"], int) else None,
        partition=stored_fields(spec),
    )
    layouts = dict.fromkeys(("master", "feed", "written"), layout)
    return RowPlan("text", layouts, None, spec, order_type, orders_beside=has_position(order_type))


def _check_settings(rows: RowSpec, output: OutputSpec) -> None:
    """Raise ConfigError for settings that need field names or types, which delimited text lacks."""
    cure = f"give its ordinal (from 0), or set {setting('field.names')}"
    if rows.text.header_lines:  # a user who sets it expects the names in the headers
        cure += f", or set {setting('input.format=csv')}, whose fields have the names in the header"
    fields = _fields_by_setting(rows, [level.source for level in rows.key.partitions])
    faults = [
        (key, f"'{field}' is a name, and the fields of delimited text have none", cure)
        for key, field in fields
        if isinstance(field, str)
    ]
    given = {
        "order.keep=false": rows.order.keep is False,
        "null.order": rows.order.null != "reject",
        "output.schema": output.schema,
        "output.codec": output.codec,
        **{f"default.{field}": True for field in output.defaults},
    }
    what = "has no meaning for delimited text, whose rows stay as they are"
    faults += [(key, what, "leave it out") for key, is_given in given.items() if is_given]
    by_name = {"unset.absent=true": rows.ops.absent, "columns.to.update": rows.ops.listing is not None}
    what = "needs files whose fields have names, and those of delimited text have none"
    cure = f"set {setting('input.format=csv')}, and {setting('field.names')} if the files have no header"
    raise_all([*faults, *((key, what, cure) for key, is_given in by_name.items() if is_given)])


def _delimiter(spec: dict[str, str]) -> Delimiter:
    if "literal" in spec:
        return Delimiter(spec["literal"].encode("utf-8", "surrogateescape"), None, spec["literal"])
    return delimiter.parse(spec["regex"])


def _spec(rows: RowSpec, written: RowLayout, known: State | None) -> dict[str, Any]:
    """Return the specification of written rows, for the manifest: the next run must agree with it."""
    width: int | str | None = written.width
    if rows.text.count == "any" or (rows.text.count == "auto" and known and known.spec["width"] == "any"):
        width = "any"
    by_field = {**record_fields("ordinal", written.order_fields), "type": rows.order.type}
    return {
        "key": {"ordinals": list(written.id_fields), "types": ["bytes"] * len(written.id_fields)},
        "order": order_by_name(rows.order) if rows.order.by_file_name else by_field,
        "op code": rows.ops.field if rows.ops.keep else None,
        "delimiter": _spec_delimiter(rows.text.delimiter),
        "width": width,
        "format": "text",
    }


def _header_spec(rows: RowSpec, survey: Survey, op_in_master: bool) -> dict[str, Any]:
    """Return the header for the manifest, if a file of this run or of an earlier one had a header."""
    feed, master = by_age(survey.feed), by_age(survey.master)
    header = header_to_record(rows, feed, master, survey.state, op_in_master=op_in_master)
    return {HEADER: [list(line) for line in header]} if header else {}


def _spec_delimiter(delimiter: Delimiter) -> dict[str, str]:
    if delimiter.literal is not None:
        return {"literal": delimiter.literal.decode("utf-8", "surrogateescape")}
    return {"regex": delimiter.text}
