"""What the first rows show where a run is refused: the setting that explains rejected rows.

A hint on order values is about the invalid ones: those that the order type in force cannot read. It is given only if
the change makes nearly all of them valid, and leaves nearly all values of the field valid.

>>> from mutator.errors.parts import plain
>>> plain(order_hint(Facts([b"2026-01-31T10:00:00Z", b"2026-02-01"]), "long"))
'2 of 2 order values look like ISO 8601: set temporal.ordering.field.type=timestamp'
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from mutator.dataset.state import State
from mutator.engine.receipts import RejectSample
from mutator.errors.display import counted, without_secrets
from mutator.errors.parts import option, place, quoted_value, setting
from mutator.formats.blocks.row_layout import RowLayout
from mutator.pipeline.id_hints import fields_of
from mutator.plan.inspect.first_rows import FirstRows, first_rows
from mutator.plan.inspect.survey import Survey
from mutator.plan.reading import Reading
from mutator.plan.splits import Input
from mutator.rules.encodings import UTF8
from mutator.rules.envelope import OpCodeField, several_tables
from mutator.rules.facts import Facts
from mutator.rules.header_lines import header_names, is_line_of_names
from mutator.rules.op_codes import CodeFacts, codes_option, counted_codes
from mutator.rules.order_types import parts_of, tuple_type
from mutator.rules.order_units import epoch_unit
from mutator.rules.snapshot_rows import OneTime
from mutator.rules.unset_fields import NOT_SENT

_NULL = re.compile(r"field (?P<name>.+?)(?P<role> \(.*\))? is NULL")
_POSTGRES = rb"\N"  # the text for NULL in its COPY
_MOST = 0.9
# Order type -> what one value is, and what several are.
_LOOKS = {
    "long": ("is an integer", "are integers"),
    "decimal": ("is a decimal number", "are decimal numbers"),
    "timestamp": ("looks like ISO 8601", "look like ISO 8601"),
}


def reject_hints(plan: Reading, survey: Survey, side: str, samples: Sequence[RejectSample]) -> Iterator[str]:
    """Yield a sentence for each setting that may be the cause of rejects, without a full stop.

    side: "master" or "feed". samples: the first of its rejected rows.
    """
    files = {one.source.shown_path: one for one in plan.inputs if one.side == side}
    found = [(sample, files[sample.path]) for sample in samples if sample.path in files]
    for sample, file in found:
        if _looks_like_header(plan, file, sample):
            yield f"If line 1 of {place(file.source.name)} is a header, set {setting('header.lines=1')}"
            break
    scope = plan.rows.scope if side == "feed" else None
    if scope is not None and any(sample.reason == scope.outside for sample in samples):
        yield f"A snapshot of a part has no other rows: correct {setting('sync.scope')}, or have it delivered so"
    times = tuple(one.envelope.other for one in plan.rows.layouts.values() if isinstance(one.envelope, OneTime))
    if any(sample.reason.startswith(times) for sample in samples):
        yield (
            "A full snapshot has one time: give each snapshot a run of its own, oldest first. If one snapshot took so "
            f"long, set {setting('snapshot.as.of')} to the lowest of its times: no newer record is deleted then"
        )
    yield from _tables_hints(plan, found)
    yield from _unset_hints(plan, found)
    yield from _value_hints(plan, survey, side, samples)
    yield from _null_hints(plan, found)
    yield from _case_hints(found)
    yield from _encoding_hints(side, found)
    for file in {file.source.path: file for _, file in found}.values():
        layout, width = plan.rows.layouts[file.layout], file.source.width
        if not isinstance(layout, RowLayout) or width in (None, layout.width) or layout.width is None:
            continue
        name = place(file.source.name)
        own = f"the first row of {name} has {counted(width or 0, 'field')}"
        if layout.envelope.deletes_all and not plan.by_file_name and width == plan.key_width:
            yield (
                f"If {name} has IDs alone: deletes need an order value, too, unless order comes from file "
                f"names (without {setting('temporal.ordering.field.ordinal')})"
            )
        else:
            yield f"A row should have {counted(layout.width, 'field')} because {plan.rows.width_from}, and {own}"
        break


def _unset_hints(plan: Reading, found: Sequence[tuple[RejectSample, Input]]) -> Iterator[str]:
    """Yield a sentence on the first row that does not send what every row needs."""
    for sample, file in found:
        if NOT_SENT in sample.reason:
            value = getattr(plan.rows.layouts[file.layout].unset, "value", None)
            another = f"set another {setting('unset.value')}"
            cure = "" if value is None else f", or, if {quoted_value(value)} is a value there, {another}"
            yield f"A patch, too, has the field: have {place(file.source.name)} delivered with it{cure}"
            return


def _null_hints(plan: Reading, found: Sequence[tuple[RejectSample, Input]]) -> Iterator[str]:
    """Yield sentences on escapes in CSV, on the text for NULL in it, and on order values that are NULL."""
    of_csv = [(sample, file) for sample, file in found if file.source.file_format == "csv"]
    for sample, file in of_csv:
        escapes = b'\\"' in sample.row and not file.source.dialect.escape
        if escapes and sample.reason.startswith(("has a quote within a field", "a quote is opened")):
            cure = option("csv.escape", "\\")
            name = place(file.source.name)
            yield f"If {name} has a backslash before quotes within quotes, as Spark writes it, use {cure}"
            break
    if any((null := _NULL.fullmatch(one.reason)) and null["role"] == " (order value)" for one, _ in found):
        yield f"With {setting('null.order=lowest')}, NULL is older than all other order values"
    for sample, file in of_csv:
        if null := _NULL.fullmatch(sample.reason):
            yield _null_hint(
                plan, plan.rows.layouts[file.layout], null["name"], is_order="order" in (null["role"] or "")
            )
            break


def _case_hints(found: Sequence[tuple[RejectSample, Input]]) -> Iterator[str]:
    """Yield a sentence on the first row of JSON Lines that has a field in another case."""
    for sample, file in found:
        null = _NULL.fullmatch(sample.reason) if file.source.file_format == "json" else None
        names = list(_json_object(sample.row)) if null else []
        for name in names:
            if null and null["name"] not in names and name.lower() == null["name"].lower():
                where = place(file.source.name)
                yield f"{where} has {name} where the field is {null['name']}: upper and lower case differ in JSON"
                return


def _json_object(row: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; none of anything else."""
    try:
        found = json.loads(row)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _encoding_hints(side: str, found: Sequence[tuple[RejectSample, Input]]) -> Iterator[str]:
    """Yield a sentence on the first row whose bytes are not of the encoding of its file."""
    name = "encoding" if side == "feed" else "master.encoding"
    for sample, file in found:
        encoding = file.source.encoding
        if encoding == UTF8 and sample.reason.endswith("is not UTF-8") and file.source.format.delimited:
            yield f"If {place(file.source.name)} is of a Windows program, use {option(name, 'cp1252')}"
            return
        if encoding != UTF8 and sample.reason.startswith(f"has bytes that are not {encoding}"):
            yield f"If {place(file.source.name)} has another encoding than {encoding}, set {setting(name)} to it"
            return


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
    for reason in ("(order value)", "(op code) is not a known code"):
        others = (one for one in samples if reason in one.reason and NOT_SENT not in one.reason)
        sample = next((one for one in others if one.path in sources), None)
        if sample is None:
            continue
        source = sources[sample.path]
        layout = plan.rows.layouts[plan.rows.layout_of.get(source.path, side)]
        rows = first_rows(source, layout.delimiter.split if isinstance(layout, RowLayout) else None)
        of_order = reason == "(order value)"
        hint = partial(_order_hint, survey.state, sample.reason) if of_order else _op_code_hint
        found = hint(layout, rows) if rows.count else None
        if found is not None:
            first = "first row" if rows.count == 1 else f"first {rows.count:,} rows"
            yield f"In the {first} of {place(rows.file)}, {found}"


def _order_hint(known: State | None, reason: str, layout: Any, rows: FirstRows) -> str | None:
    """Return the setting that fits the values of an order field, unless it has a type already.

    known: the manifest, which has it. reason: of a reject, with the name of the field.
    """
    names = [".".join(one) if isinstance(one, tuple) else str(one) for one in layout.order_fields]
    number = next((at for at, name in enumerate(names) if reason.startswith(f"field {name} (")), 0)
    field, parts = names[number], parts_of(layout.order_type)
    if field not in rows.columns:
        return None
    facts, order_type = Facts(rows.columns[field]), parts[number].type

    def whole(own: str) -> str:
        """Return the types of all fields, with another one of this field."""
        return tuple_type([*parts[:number], parts[number]._replace(type=own), *parts[number + 1 :]])

    found = order_hint(facts, order_type, whole)
    some = Facts([value for value in facts.values if value is not None])  # of NULL, another sentence says more
    if found is None and len(parts) > 1 and _are_most(len(some.invalid(order_type).values), some):
        found = f"field {field} has no values of type {order_type}: {_type_setting(whole('string'))}"
    if found is not None:
        looks, of_another_type, _ = found.partition(": set ")
        schema = getattr(layout, "result", None)
        own = schema.field(field).type if schema is not None and field in schema.names else None
        is_typed = known is not None or not (own is None or pa.types.is_string(own))
        return f"{looks}, but the master's are {order_type}" if is_typed and of_another_type else found
    if len(parts) > 1:
        return found or date_hint(facts, order_type)
    roles = {field, *fields_of(layout, layout.id_fields)}
    others = {name: Facts(values) for name, values in rows.columns.items() if name not in roles}
    times = time_fields(others, order_type)
    has_no_times = len(facts.invalid(order_type).values) == len(facts.values) > 1  # one row may be a bad one
    if len(times) == 1 and known is None and has_no_times:
        return (
            f"field {field} has no times, and field {times[0]} has: set "
            f"{setting(f'temporal.ordering.field.ordinal={times[0]}')}"
        )
    return date_hint(facts, order_type)


def _op_code_hint(layout: Any, rows: FirstRows) -> str | None:
    envelope = layout.envelope
    if str(envelope.field) not in rows.columns:
        return None
    codes = CodeFacts.of(rows.columns[str(envelope.field)], envelope.field, envelope.delete_codes)
    return op_code_hint(codes, envelope.upsert_codes or ())


def _tables_hints(plan: Reading, found: Sequence[tuple[RejectSample, Input]]) -> Iterator[str]:
    """Yield a sentence on the first row that may be of another table than others in its file."""
    for sample, file in found:
        envelope = plan.rows.layouts[file.layout].envelope
        names = envelope.fields_of_tables(sample.reason) if isinstance(envelope, OpCodeField) else ()
        if names and file.source.format.delimited:
            yield f"See {place(file.source.name)}: {several_tables(names)}"
            return


def _looks_like_header(plan: Reading, file: Input, sample: RejectSample) -> bool:
    """Return whether a rejected row is the first line of a file without a header, and consists of names."""
    if not file.source.format.delimited or file.source.header_end or sample.line != 1:
        return False
    layout = plan.rows.layouts[file.layout]
    delimiter = layout.delimiter if isinstance(layout, RowLayout) else None
    fields = delimiter.split(sample.row) if delimiter is not None else sample.row.split(file.source.dialect.delimiter)
    return is_line_of_names(header_names(fields))


def _type_setting(order_type: str) -> str:
    """Return the advice to set a type, in quotes where a shell needs them."""
    name = "temporal.ordering.field.type"
    return f"use {option(name, order_type)}" if "," in order_type else f"set {setting(f'{name}={order_type}')}"


def order_hint(facts: Facts, order_type: str, whole: Callable[[str], str] = str) -> str | None:
    """Return which setting fits the invalid values of the order field; None if no setting does.

    order_type: the one that they do not have. whole: returns the types of all fields, from another one of this field.

    >>> order_hint(Facts([b"1", b"2", b" 3"]), "long")
    '1 of 3 order values has blanks around it: have it delivered without blanks'
    >>> order_hint(Facts([*[b"1"] * 20, b""]), "long")
    """
    invalid = facts.invalid(order_type)
    for name, looks in _LOOKS.items():
        fit = _fitting(invalid, name)
        if _are_most(fit, invalid) and _are_most(_fitting(facts, name), facts):
            return f"{_of_all(fit, facts)} {looks[fit > 1]}: {_type_setting(whole(name))}"
    for what, around, cure in (
        ("quotes", b'"', f"{setting('input.format=csv')} reads quoted fields"),
        ("blanks", b" \t", "have {} delivered without blanks"),
    ):
        fit = _fitting(Facts([None if value is None else value.strip(around) for value in invalid.values]), order_type)
        if _are_most(fit, invalid):
            verb, them = ("has", "it") if fit == 1 else ("have", "them")
            return f"{_of_all(fit, facts)} {verb} {what} around {them}: {cure.format(them)}"
    return None


def date_hint(facts: Facts, order_type: str) -> str | None:
    """Return what to do if nearly all invalid values are dates that are not written as in ISO 8601; None otherwise.

    >>> from mutator.errors.parts import plain
    >>> print(plain(date_hint(Facts([b"31.01.2026"]), "timestamp")))
    1 of 1 order values is the date '31.01.2026', which is not ISO 8601: have it delivered as in 2026-01-31
    """
    invalid = facts.invalid(order_type)
    dates = invalid.local_dates
    if not _are_most(len(dates), invalid):
        return None
    found, date = _of_all(len(dates), facts), quoted_value(dates[0])
    if len(dates) == 1:
        return f"{found} is the date {date}, which is not ISO 8601: have it delivered as in 2026-01-31"
    return f"{found} are dates such as {date}, which are not ISO 8601: have them delivered as in 2026-01-31"


def time_fields(columns: Mapping[str, Facts], order_type: str) -> list[str]:
    """Return the fields all of whose values may be times of an order type.

    >>> time_fields({"0": Facts([b"a"]), "1": Facts([b"1425931207"]), "2": Facts([b"12"])}, "long")
    ['1']
    """
    return [
        name
        for name, facts in columns.items()
        if _fitting(facts, order_type) == len(facts.values)
        and (order_type != "long" or all(map(epoch_unit, facts.orders(order_type))))
    ]


def op_code_hint(codes: CodeFacts, upsert_codes: Collection[bytes]) -> str | None:
    """Return what the op codes of some rows show; None if all of them are known.

    >>> from mutator.errors.parts import plain, quoted_value
    >>> plain(op_code_hint(CodeFacts.of([b"U", b"DELETE"], "op", {b"D"}), {b"U"}))
    "'DELETE' (1) looks like a delete: use -D 'deleted.op.code=D,DELETE'"
    """
    unknown = replace(codes, counts=codes.where(lambda code: code not in {*codes.delete_codes, *upsert_codes}))
    if not unknown.counts:
        return None
    if len(unknown.counts) == len(codes.counts):
        shown = counted_codes(codes.counts)
        return (
            f"no op code is one of {setting('deleted.op.code')} or {setting('upsert.op.code')}, but {shown}: check "
            f"{setting('op.code.field.ordinal')}"
        )
    if before := unknown.meaning("before"):
        images = "is an image" if len(before) == 1 else "are images"
        names = codes_option("ignore.op.code", before)
        return f"{counted_codes(before)} {images} of records before updates: use {names}"
    if deletes := unknown.deletes:
        names = codes_option("deleted.op.code", {*codes.delete_codes, *deletes})
        verb = "looks like a delete" if len(deletes) == 1 else "look like deletes"
        return f"{counted_codes(deletes)} {verb}: use {names}"
    return f"{setting('upsert.op.code')} lacks {counted_codes(unknown.counts)}"


def _of_all(count: int, facts: Facts) -> str:
    return f"{count:,} of {len(facts.values):,} order values"


def _are_most(count: int, facts: Facts) -> bool:
    """Return whether a number of values are nearly all of some, and at least one."""
    return count > 0 and count >= _MOST * len(facts.values)


def _fitting(facts: Facts, order_type: str) -> int:
    """Return how many values are order values of a type."""
    return len(facts.values) - len(facts.invalid(order_type).values)
