"""Settings that explain rejected rows: a number of fields, a header, NULL and escapes, deletes without order."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from mutator.dataset.manifest import Manifest
from mutator.engine.receipts import RejectSample
from mutator.errors.display import counted, quoted_value, without_secrets
from mutator.errors.parts import option, setting
from mutator.formats.blocks.row_layout import RowLayout
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.pipeline.value_hints import all_are_invalid, date_hint, op_code_hint, order_hint, time_fields
from mutator.plan.inspect.first_rows import FirstRows, first_rows
from mutator.plan.inspect.survey import Survey
from mutator.plan.reading import Reading
from mutator.plan.splits import Input
from mutator.rules.header_lines import header_names, is_line_of_names
from mutator.rules.op_codes import CodeFacts

_NULL = re.compile(r"field (?P<name>.+?)(?P<role> \(.*\))? is NULL")
_POSTGRES = rb"\N"  # the text for NULL in its COPY


def reject_hints(plan: Reading, survey: Survey, side: str, samples: Sequence[RejectSample]) -> Iterator[str]:
    """Yield a sentence for each setting that may be the cause of rejects, without a full stop.

    side: "master" or "feed". samples: the first of its rejected rows.
    """
    files = {one.source.shown_path: one for one in plan.inputs if one.side == side}
    found = [(sample, files[sample.path]) for sample in samples if sample.path in files]
    for sample, file in found:
        if _looks_like_header(plan, file, sample):
            yield f"If line 1 of {file.source.name} is a header, set {setting('header.lines=1')}"
            break
    yield from _value_hints(plan, survey, side, samples)
    yield from _csv_hints(plan, found)
    for file in {file.source.path: file for _, file in found}.values():
        layout, width = plan.rows.layouts[file.layout], file.source.width
        if not isinstance(layout, RowLayout) or width in (None, layout.width) or layout.width is None:
            continue
        own = f"the first row of {file.source.name} has {counted(width or 0, 'field')}"
        if layout.deletes and not plan.by_file_name and width == plan.key_width:
            yield (
                f"If {file.source.name} has IDs alone: deletes need an order value, too, unless order comes from file "
                f"names (without {setting('temporal.ordering.field.ordinal')})"
            )
        else:
            yield f"A row should have {counted(layout.width, 'field')} because {plan.rows.width_from}, and {own}"
        break


def _csv_hints(plan: Reading, found: Sequence[tuple[RejectSample, Input]]) -> Iterator[str]:
    """Yield sentences on escapes and on the text for NULL in CSV."""
    of_csv = [(sample, file) for sample, file in found if file.source.file_format == "csv"]
    for sample, file in of_csv:
        escapes = b'\\"' in sample.row and not file.source.dialect.escape
        if escapes and sample.reason.startswith(("has a quote within a field", "a quote is opened")):
            cure = option("csv.escape", "\\")
            yield f"If {file.source.name} has a backslash before quotes within quotes, as Spark writes it, use {cure}"
            break
    for sample, file in of_csv:
        if null := _NULL.fullmatch(sample.reason):
            yield _null_hint(
                plan, plan.rows.layouts[file.layout], null["name"], is_order="order" in (null["role"] or "")
            )
            break


def _null_hint(plan: Reading, layout: Any, name: str, *, is_order: bool) -> str:
    """Return why a value of a CSV file is NULL, and the setting that makes it a value, if it can be one."""
    text, schema = layout.dialect.null, layout.result
    hint = f"In CSV, {quoted_value(text) if text else 'an empty value'} without quotes is NULL ({setting('csv.null')})"
    is_text = name in schema.names and pa.types.is_string(schema.field(name).type)
    if not text and (plan.rows.order_type != "string" if is_order else not is_text):
        return hint  # no number or time is empty
    return f"{hint}; if it is a value, use {option('csv.null', 'NULL' if text == _POSTGRES else _POSTGRES.decode())}"


def _value_hints(plan: Reading, survey: Survey, side: str, samples: Sequence[RejectSample]) -> Iterator[str]:
    """Yield sentences on order values and op codes, from the first rows of the file with the first reject of either."""
    sources = {without_secrets(source.shown_path): source for source in getattr(survey, side)}
    order = partial(_order_hint, survey.manifest)
    for reason, hint in (("(order value)", order), ("(op code) is not a known code", _op_code_hint)):
        sample = next((one for one in samples if reason in one.reason and one.path in sources), None)
        if sample is None:
            continue
        source = sources[sample.path]
        layout = plan.rows.layouts[plan.rows.layout_of.get(source.path, side)]
        rows = first_rows(source, layout.delimiter.split if isinstance(layout, RowLayout) else None)
        found = hint(layout, rows) if rows.count else None
        if found is not None:
            first = "first row" if rows.count == 1 else f"first {rows.count:,} rows"
            yield f"In the {first} of {rows.file}, {found}"


def _order_hint(known: Manifest | None, layout: Any, rows: FirstRows) -> str | None:
    """Return the setting that fits the values of the order field. known: the manifest, which has its type already."""
    from mutator.pipeline.id_hints import fields_of  # loads the block types of all formats

    (field,) = fields_of(layout, (layout.order_field,))
    if field not in rows.columns:
        return None
    found = order_hint(rows.columns[field], layout.order_type)
    if found is not None:
        looks, of_another_type, _ = found.partition(": set ")
        return f"{looks}, but the master's are {layout.order_type}" if known is not None and of_another_type else found
    roles = {field, *fields_of(layout, layout.id_fields)}
    others = {name: values for name, values in rows.columns.items() if name not in roles}
    times = time_fields(others, layout.order_type)
    if len(times) == 1 and known is None and all_are_invalid(rows.columns[field], layout.order_type):
        return (
            f"field {field} has no times, and field {times[0]} has: set "
            f"{setting(f'temporal.ordering.field.ordinal={times[0]}')}"
        )
    return date_hint(rows.columns[field], layout.order_type)


def _op_code_hint(layout: Any, rows: FirstRows) -> str | None:
    field = str(layout.op_field)
    if field not in rows.columns:
        return None
    codes = CodeFacts.of(rows.columns[field], layout.op_field, layout.delete_codes)
    return op_code_hint(codes, layout.upsert_codes or ())


def _looks_like_header(plan: Reading, file: Input, sample: RejectSample) -> bool:
    """Return whether a rejected row is the first line of a file without a header, and consists of names."""
    if FILE_FORMATS[file.source.file_format].typed or file.source.header_end or sample.line != 1:
        return False
    layout = plan.rows.layouts[file.layout]
    delimiter = layout.delimiter if isinstance(layout, RowLayout) else None
    fields = delimiter.split(sample.row) if delimiter is not None else sample.row.split(file.source.dialect.delimiter)
    return is_line_of_names(header_names(fields))
