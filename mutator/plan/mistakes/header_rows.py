"""Stop at a header that would be read as a record, and at a record that would be skipped as a header.

A first row is a header if all of its values may be names of fields, and other rows have numbers or times where it has
a name, or if its ID is the name of an ID field. A row with a configured op code is a record. A header line is a record
if it has numbers and times where the rows have them, and nowhere else, or, without any, an ID of their form.
``header.check=false`` turns both checks off.
"""

from collections.abc import Sequence

from mutator.config.settings import KeySpec, OpSpec, RowSpec
from mutator.errors import MutatorError, error
from mutator.errors.parts import quoted_value, setting
from mutator.plan.inspect.headers import recorded_header
from mutator.plan.inspect.survey import Survey
from mutator.plan.mistakes.samples import Row, Sample
from mutator.rules.facts import form_of, has_digit, may_be_name, names_an_id, plain_text
from mutator.rules.file_names import is_data_file
from mutator.rules.header_lines import Line

_MARKUP = (b"{", b"[", b"<")  # of JSON, XML and HTML


def check_header_rows(rows: RowSpec, samples: Sequence[Sample]) -> None:
    """Raise DataError for a header that is read as a record, or a record that is read as a header."""
    if not rows.text.header_check:
        return
    for sample in samples:
        if sample.side == "master" and is_data_file(sample.source.name):
            continue  # this program wrote it
        if sample.header:
            _check_header(rows.key, sample, samples)
        # Otherwise the name of the order field is a reject.
        elif rows.order.by_file_name or rows.order.type == "string":
            _check_first_row(rows.ops, sample, samples)


def check_lines_alone(rows: RowSpec, survey: Survey) -> None:
    """Raise DataError for a feed file whose only lines are skipped as headers, and name no known field."""
    known: set[str] | None = None
    for source in survey.feed:
        if source.width is not None or not source.header_line or len(source.header) < rows.text.header_lines:
            continue
        known = _known_names(rows, survey) if known is None else known
        names = {name.lower() for line in source.header for name in line}
        if not known & names if known else source.header_line[:1] in _MARKUP:
            what = (
                f"its only line, {quoted_value(source.header_line, 60)}, is skipped as a header "
                f"({setting('header.lines')}), and names no field of other files, so the file would count as merged"
            )
            cure = (
                "if it is a record, have the file delivered with its header; if it is not data, remove it; or, if it "
                f"is a header, set {setting('header.check=false')}"
            )
            raise error("format", path=source.path, what=what, cure=cure)


def _known_names(rows: RowSpec, survey: Survey) -> set[str]:
    """Return the names that fields have, in lower case: in the settings, in the master, and in files with rows."""
    files = [one for one in (*survey.master, *survey.feed) if not one.is_header_alone]
    schemas = [survey.dataset_schema, *(one.file_schema for one in files)]
    names = [name for found in schemas if found is not None and found.named for name in found.schema.names]
    with_rows = [one.header for one in files if one.width is not None]
    names += [name for header in (*with_rows, recorded_header(survey.state)) for line in header for name in line]
    return {name.lower() for name in (*names, *rows.called, *rows.text.names)}


def _check_first_row(ops: OpSpec, sample: Sample, samples: Sequence[Sample]) -> None:
    """Raise DataError for a header that is read as a record."""
    if not sample.rows:
        return
    first = sample.rows[0]
    line = Line.above(first, sample.rows[1:])
    if not line.may_be_names or _has_op_code(ops, sample) or _has_usual_id(sample, samples):
        return
    if line.contrasts:
        at = line.contrasts[0]
        here, next_row = quoted_value(first[at]), quoted_value(line.rows[0][at])
        why = f"field {at} is {here} there, and {next_row} in the next row"
    elif _names_the_id(sample, first, _other_ids(sample, samples)):
        why = "its ID is the name of a field"
    else:
        return
    raise _error(
        sample,
        f"its first row looks like a header ({_shown(first)}): {why}, so it would be read as a record",
        f"set {setting('header.lines=1')}; or, if it is a record, set {setting('header.check=false')}",
    )


def _has_op_code(ops: OpSpec, sample: Sample) -> bool:
    """Return whether the first row has an op code that the configuration names."""
    return not (ops.deletes | (ops.upserts or set())).isdisjoint(sample.column(sample.positions.op)[:1])


def _has_usual_id(sample: Sample, samples: Sequence[Sample]) -> bool:
    """Return whether the ID of the first row has digits, in the form of another ID."""
    own, *others = sample.ids or [()]
    others += _ids_of_others(sample, samples)
    return any(map(has_digit, own)) and tuple(map(form_of, own)) in {tuple(map(form_of, other)) for other in others}


def _names_the_id(sample: Sample, first: Row, others: Sequence[Row]) -> bool:
    positions = sample.positions.ids
    if positions is None or max(positions) >= len(first):
        return False
    # Of several ID fields, each must have a name.
    return all(names_an_id(first[at], [other[number] for other in others]) for number, at in enumerate(positions))


def _other_ids(sample: Sample, samples: Sequence[Sample]) -> list[Row]:
    """Return the IDs of the other rows of a file, and of other files if it has no more."""
    own = sample.ids[:1]
    return [other for other in sample.ids[1:] if [other] != own] or _ids_of_others(sample, samples)


def _ids_of_others(sample: Sample, samples: Sequence[Sample]) -> list[Row]:
    return [row for other in samples if other is not sample for row in other.ids]


def _check_header(key: KeySpec, sample: Sample, samples: Sequence[Sample]) -> None:
    """Raise DataError for a record that is read as a header. A line with the names of all ID fields is a header."""
    called = {one for one in key.ids if isinstance(one, str)}
    if called and any(called <= set(map(plain_text, line)) for line in sample.header):
        return
    lines = [Line(line, _rows_like(line, sample, samples)) for line in sample.header]
    ids = sample.positions.ids
    records = [ids is not None and max(ids) < len(line.values) and line.is_record(ids) for line in lines]
    names = [
        number
        for number, line in enumerate(lines)
        if len(line.values) > 1 and all(map(may_be_name, line.values)) and not records[number]
    ]
    first = names[0] + 1 if names else 0  # a line before that of the names has dates or counts
    for line, is_record in zip(sample.header[first:], records[first:], strict=True):
        if is_record:
            raise _error(
                sample,
                f"the line {_shown(line)} is skipped as a header ({setting('header.lines')}), and looks like a record",
                f"set {setting('header.lines')} to the number of lines with names, 0 if the files have none; or, if "
                f"the line is a header, set {setting('header.check=false')}",
            )


def _rows_like(line: Row, sample: Sample, samples: Sequence[Sample]) -> Sequence[Row]:
    """Return the rows of a file, or else of another one, that have the fields of a header line."""
    own = [row for row in sample.rows if len(row) == len(line)]
    others = (_rows_of_other(sample, other, line) for other in samples if other is not sample)
    return own or next(filter(None, others), [])


def _rows_of_other(sample: Sample, other: Sample, line: Row) -> list[Row]:
    """Return the rows of another file that have the fields of a header line; of delete files, the IDs of the rows."""
    if sample.ids_alone and len(line) == len(sample.positions.ids or ()):
        return other.ids
    return [row for row in other.rows if len(row) == len(line) and other.positions == sample.positions]


def _shown(row: Row) -> str:
    return quoted_value(b",".join(row), 60)


def _error(sample: Sample, what: str, cure: str) -> MutatorError:
    return error("format", path=sample.source.path, what=what, cure=cure)
