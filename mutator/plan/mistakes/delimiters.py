"""Stop at a file without the configured delimiter whose rows, or whose names in the header, have another usual one.

Each of its rows would be a one-field ID. A file of IDs alone is legal, and an ID may contain such a byte (``shop:12``):
rows of one field are confirmed by ``field.count=1``, one name in ``field.names``, or the master's manifest; a delete
file with IDs alone, by IDs in other files that contain the byte, too.

Warn of CSV in which each backslash within quotes is doubled: what wrote it escapes quotes with a backslash. Spark does,
by default. Its ``\\"`` is a reject where quotes are doubled, but its ``\\\\`` would stay two backslashes. Warn of the
text that a program writes for NULL, too, where it would be merged as text.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from mutator.config.settings import KeySpec, RowSpec
from mutator.dataset.state import State
from mutator.errors import MutatorError, error
from mutator.errors.display import counted, quoted
from mutator.errors.parts import option, place, quoted_value, setting
from mutator.plan.mistakes.samples import Sample
from mutator.rules.delimiter.field_delimiter import USUAL
from mutator.rules.envelopes import ENVELOPES
from mutator.rules.facts import form_of
from mutator.rules.file_names import is_data_file

_GUARDED = {byte: USUAL[byte][:2] for byte in (b",", b";", b"\t", b"|", b"\x01", b":")}
_SHORT_HEX = re.compile(rb"[0-9A-Fa-f]{0,4}")
_IN_QUOTES = re.compile(rb'"(?:[^"]|"")*"')
_BACKSLASHES = re.compile(rb"\\+")
_QUOTED = re.compile(rb'"[^"]*"')


def check_delimiters(rows: RowSpec, known: State | None, samples: Sequence[Sample]) -> None:
    """Raise an error for a file whose rows have another delimiter than the configured one.

    ConfigError for a first run in which no file has the configured one, else DataError.
    known: the state of the master or table.
    """
    if rows.text.count == 1 or len(rows.text.names) == 1 or (known is not None and known.spec.get("width") == 1):
        return
    delimiter = rows.text.delimiter
    own = [sample for sample in samples if sample.source.part is None]  # a manifest has the delimiter of its files
    first = "width" if known is None else "format"
    for sample in own:
        for name, text in _between_names(rows.key, sample):
            separates = f"{name} separates the names in its header, {quoted(sample.stored[0], 60)}"
            what = f"{setting('field.delim.regex')} is {delimiter.text!r}, but {separates}"
            raise _error(sample, what, f"use {option('field.delim.regex', text)}", first)
    without = [one for one in own if not any(len(delimiter.split(line)) > 1 for line in one.stored)]
    for sample in without:
        lines = (
            [_QUOTED.sub(b"", line) for line in sample.stored] if sample.source.file_format == "csv" else sample.stored
        )
        for byte, (name, text) in _GUARDED.items():
            count = lines[0].count(byte)
            if not count or any(line.count(byte) != count for line in lines):
                continue
            if not _may_be_in_ids(sample, samples, byte, count + 1):
                stored = counted(len(sample.stored), "row")
                what = (
                    f"{setting('field.delim.regex')} is {delimiter.text!r}, which does not occur in its first "
                    f"{stored}, and each of them has {name} {counted(count, 'time')}"
                )
                single = f"or, if a row is one field, the ID, {option('field.count', '1')}"
                cure = f"use {option('field.delim.regex', text)}; {single}"
                raise _error(sample, what, cure, first if len(without) == len(samples) else "format")


def _between_names(key: KeySpec, sample: Sample) -> Iterator[tuple[str, str]]:
    """Yield the name and the setting of a delimiter with which the header has the ID fields, if it has none of them."""
    ids = {field.encode() for field in key.ids if isinstance(field, str)}
    if len(sample.header) != 1 or not ids or sample.source.file_format == "text" or ids.intersection(sample.header[0]):
        return
    for byte, (name, text) in _GUARDED.items():
        if ids <= {part.strip(b'" ') for part in sample.stored[0].split(byte)} and sample.stored[0].count(byte):
            yield name, text


def _may_be_in_ids(sample: Sample, samples: Sequence[Sample], byte: bytes, width: int) -> bool:
    """Return whether a byte in each row may belong to the ID. width: number of fields with it as the delimiter."""
    others = [other for other in samples if other is not sample and other.source.width not in (None, 1)]
    if any(byte in value for other in others for row in other.ids for value in row):
        return True
    if sample.ids_alone and others:
        return width not in {other.source.width for other in others}
    if byte != b":" or any(width == other.source.width for other in others):
        return False
    # Times, addresses and numbered IDs have colons; fields between colons differ in their forms.
    parts = sample.stored[-1].split(byte)
    return len(set(map(form_of, parts))) < 3 or all(map(_SHORT_HEX.fullmatch, parts))


def _error(sample: Sample, what: str, cure: str, kind: str) -> MutatorError:
    where = "where" if kind == "width" else "path"
    return error(kind, what=what, cure=cure, **{where: sample.source.path})


def backslash_warnings(given: Collection[str], samples: Sequence[Sample]) -> Iterator[str]:
    """Yield a warning on the first file with doubled backslashes, unless ``csv.escape`` is given."""
    if "csv.escape" in given:
        return
    for sample in samples:
        if sample.source.file_format != "csv" or sample.source.part is not None or is_data_file(sample.source.name):
            continue  # runs write single ones
        fields = [field for line in sample.stored for field in _IN_QUOTES.findall(line)]
        if has_doubled_backslashes(fields):
            example = next(field for field in fields if b"\\" in field)
            yield (
                f"each backslash within quotes in {place(sample.source.name)} is doubled, in "
                f"{quoted_value(example, 60)} for example, as programs write it that put a backslash before quotes, "
                f"such as Spark: use {option('csv.escape', chr(92))}; or, if two are meant, "
                f"{option('csv.escape', chr(34))}"
            )
            return


def has_doubled_backslashes(fields: Iterable[bytes]) -> bool:
    r"""Return whether fields in quotes have backslashes, an even number of them wherever there are any.

    >>> has_doubled_backslashes([rb'"a\\b, c"', rb"\d"]), has_doubled_backslashes([rb'"\\server\share, c"'])
    (True, False)
    """
    runs = [run for field in fields if field[:1] == b'"' for run in _BACKSLASHES.findall(field)]
    return bool(runs) and not any(len(run) % 2 for run in runs)


def null_warnings(rows: RowSpec, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield a warning on values that are text, and that the program which wrote the feed has for NULL."""
    null = ENVELOPES[rows.ops.envelope].traces.null
    if null and not rows.text.csv_null:
        count = sum(row.count(null.encode()) for one in samples if one.side == "feed" for row in one.rows)
        if count:
            what = f"{counted(count, 'value')} of the first rows of the feed {'is' if count == 1 else 'are'} {null}"
            cure = f"set {setting(f'csv.null={null}')}"
            yield f"{what}, which {rows.ops.dialect} has for NULL, and merged as text: {cure}"
