"""How files are read: the settings of formats, delimiter, header and names of fields."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.parts import setting
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.inspect.source import Source
from mutator.plan.proposal.choices import Choice, Value
from mutator.plan.proposal.dialects import ProposedDialect, name_of
from mutator.plan.proposal.inputs import GivenInputs, SayingRows, Side
from mutator.rules import file_names
from mutator.rules.delimiter.field_delimiter import USUAL
from mutator.rules.envelopes import ENVELOPES, fields_of_tables
from mutator.rules.facts import plain_text
from mutator.rules.header_lines import utf8
from mutator.rules.known_formats import FORMATS
from mutator.rules.known_formats import format_of_suffix as format_of
from mutator.rules.partition_paths import values_above

DELIMITER, HEADER, NAMES, COUNT = "field.delim.regex", "header.lines", "field.names", "field.count"
ESCAPE, NULL = "csv.escape", "csv.null"
FORMAT, FEED_FORMAT, MASTER_FORMAT = "input.format", "feed.format", "master.format"
OUTPUT_FORMAT = "output.format"
CONTROL_SUFFIX = "feed.control.suffix"
_RAGGED = 0.25  # of the rows
_FEW = 0.05  # of the rows, which may be damaged


@dataclass(frozen=True)
class FileForms:
    """The settings that say how files are read."""

    choices: tuple[Choice, ...]
    named: bool  # fields have names, so that .csv means CSV
    csv: bool = False  # delimited files are CSV
    names: tuple[str, ...] = ()  # of the fields of a feed row, where delimited files do not name them
    notes: tuple[str, ...] = ()


def file_forms(given: GivenInputs) -> FileForms:
    """Return the settings that say how the files are read. Raises DataError where no setting reads all files."""
    control = [*given.encodings.choices]
    if given.control_suffix is not None:
        why = f"each feed file has a file of the same name and {given.control_suffix} beside it"
        control.append(Choice(CONTROL_SUFFIX, given.control_suffix, why))
    if given.dialect is None:
        return FileForms(tuple(control), named=True)
    forms = _delimited(given, given.dialect, given.file_format)
    return replace(forms, choices=(*forms.choices, *control))


def output_format(given: GivenInputs) -> tuple[Choice, ...]:
    """Return the format of a first output where no file shows one, because the format of the inputs is only read."""
    if given.said is not None and given.master is None and _is_text(given, given.said):
        return (Choice(OUTPUT_FORMAT, "csv", "the fields of the result have names, which text does not write"),)
    first = (given.master.sources if given.master is not None else ()) or given.feed.sources
    read = next((one.format for one in first if not one.format.suffix), None)
    if given.state is not None or read is None:
        return ()
    why = f"{read.title} is only read; Parquet keeps its types, and values within values"
    return (Choice(OUTPUT_FORMAT, "parquet", why, [("csv", "text, where no value has others within it")]),)


def _is_text(given: GivenInputs, said: SayingRows) -> bool:
    """Return whether rows that say what they do are in files where a quote is a character."""
    all_csv = all(format_of(_bare(one)) == "csv" for one in given.delimited)
    return "text" in ENVELOPES[said.dialect].formats and not all_csv


def title(side: Side, *, csv: bool) -> str:
    """Return the format of the files of a side, for messages; "" without files. csv: delimited files are CSV."""
    delimited = side.file_format or ("csv" if csv else "text")
    formats = {delimited if source.file_format == "text" else source.file_format for source in side.sources}
    return ", ".join(sorted(FORMATS[name].title for name in formats))


def _delimited(given: GivenInputs, dialect: ProposedDialect, file_format: str | None) -> FileForms:
    with_rows = [
        (path, names, count)
        for path, names, count, widths in zip(
            given.delimited, dialect.headers, dialect.header_lines, dialect.widths, strict=True
        )
        if names is not None or widths
    ]
    if not with_rows:
        return FileForms((), named=not all(source.format.delimited for source in given.sources))
    named_files = [path for path, names, _ in with_rows if names is not None]
    nameless = [path for path, names, _ in with_rows if names is None]
    typed = next((one for one in given.sources if _has_names(one)), None)
    if given.said is not None and nameless:
        known = next((names for _, names, _ in with_rows if names is not None), None)
        return _without_header(given, given.said, dialect, typed, known, nameless[0])
    if named_files and nameless:
        what = f"has no line with names of fields, as {file_names.base_name(named_files[0])} has"
        cure = "a run has one header.lines for all files: have all files delivered with a header, or without one"
        raise error("format", path=nameless[0], what=what, cure=cure)
    choices = [_delimiter(given, dialect, with_rows[0][0])]
    header_lines = {count for _, names, count in with_rows if names is not None}
    all_csv = all(format_of(_bare(path)) == "csv" for path, _, _ in with_rows)
    if (dialect.quoted and not all_csv) or (typed is not None and named_files and not all_csv):
        choices.append(_csv_format(given, typed, quoted=dialect.quoted))
    if dialect.escape:
        choices.append(_escape(dialect))
    plain = file_format == "text" or (all_csv and dialect.stray > 0 and not dialect.quoted and file_format is None)
    csv = dialect.quoted or (bool(named_files) and not plain and (all_csv or typed is not None))
    fault = dialect.unusable_names
    usable = fault is None or (dialect.quoted and all(map(_is_named_once, dialect.headers)))
    notes = []
    if plain and file_format is None and named_files and usable:
        why = f"CSV rejects {counted(dialect.stray, 'line')} with a quote that encloses no value"
        choices.append(Choice(FORMAT, "text", why))
    if named_files and not usable:
        if dialect.quoted:
            cure = "a CSV file needs a different name for each field, in UTF-8"
            raise error("format", path=named_files[0], what=f"in its header, {fault}", cure=cure)
        csv = False
        notes.append(f"fields are known by position, because of the header: {fault}; correct it to use names")
        choices += _header(named_files, dialect, with_rows, header_lines, names=False)
    elif named_files:
        choices += _header(named_files, dialect, with_rows, header_lines, names=not csv)
    elif all_csv and dialect.quoted:
        choices.append(Choice(FORMAT, "csv", "values are in quotes"))
    names = next((choice.value for choice in choices if choice.key == NAMES), None)
    if given.said is not None and given.said.null is not None:
        choices.append(_null(given.said))
    if typed is not None and not named_files:
        found = _names_of(typed, dialect)
        names = list(found)
        why = f"the names in {typed.name}, in the order of the fields of {file_names.base_name(with_rows[0][0])}"
        choices.append(Choice(NAMES, list(found), why))
    is_text = not csv and typed is None and file_format in (None, "text")
    ragged = _ragged(given, dialect) if is_text else None
    is_named = typed is not None or (csv and bool(named_files) and usable)
    return FileForms(
        tuple(choices) + ((ragged,) if ragged is not None else ()),
        named=is_named,
        csv=csv,
        names=tuple(map(str, names)) if isinstance(names, list) and not named_files else (),
        notes=tuple(notes),
    )


def _is_named_once(names: tuple[bytes, ...] | None) -> bool:
    """Return whether a header has a different name for each field, in UTF-8, as CSV needs it."""
    texts = [plain_text(name) for name in names or ()]
    return all(texts) and len(set(texts)) == len(texts) and all(name == utf8(name) for name in names or ())


def _has_names(source: Source) -> bool:
    return source.file_schema is not None and source.file_schema.named


def _bare(path: str) -> str:
    name = file_names.base_name(path)
    return name.rpartition(".")[0] if file_names.compression(name) else name


def _delimiter(given: GivenInputs, dialect: ProposedDialect, path: str) -> Choice:
    widths = Counter(width for found in dialect.widths for width in found)
    rows = counted(sum(widths.values()), "row")
    if dialect.delimiter is None:
        why = f"no delimiter occurs equally often in the first {rows}"
        question = (
            f"What separates the fields of {file_names.base_name(path)}? A single character, or a Java regex: set "
            f"{{{DELIMITER}}}; or, if a row is one field, the ID, {{{COUNT}}} to 1."
        )
        return Choice(DELIMITER, None, why, [(";", "for example"), ("\\s*[;,]\\s*", "a regex")], question, needed=True)
    width, most = widths.most_common(1)[0] if widths else (len(next(filter(None, dialect.headers), ())), 0)
    why = f"{dialect.name} separates {counted(width, 'field')} in {most:,} of the first {rows}"
    if len(widths) in (1, 2) and min(widths.values()) > _FEW * sum(widths.values()):
        shown = " or ".join(f"{number:,}" for number in sorted(widths))
        where = "the first row" if sum(widths.values()) == 1 else f"each of the first {rows}"
        why = f"{dialect.name} separates {shown} field{'s' * (max(widths) > 1)} in {where}"
    if not widths:
        why = f"{dialect.name} separates {counted(width, 'name')} of the header; there are no rows"
    value = _written(dialect.delimiter)
    odd, total = dialect.odd_rows, dialect.rows
    if not dialect.quoted and _FEW * total < odd <= _RAGGED * total:
        question = (
            f"Is {dialect.name} the delimiter? {counted(odd, 'row')} of {total:,} then {'has' if odd == 1 else 'have'} "
            f"another number of fields than the others of the file. If not, set {{{DELIMITER}}} to a character or a "
            "Java regex."
        )
        return Choice(DELIMITER, value, why, _either(dialect), question)
    return Choice(DELIMITER, value, why)


def _csv_format(given: GivenInputs, typed: Source | None, *, quoted: bool) -> Choice:
    why = "values are in quotes" if quoted else "its fields have names, and those of the other files, too"
    if typed is None:
        return Choice(FORMAT, "csv", why)
    in_master = given.master is not None and any(source.path in given.delimited for source in given.master.sources)
    return Choice(MASTER_FORMAT if in_master else FEED_FORMAT, "csv", why)


def _header(
    named_files: Sequence[str],
    dialect: ProposedDialect,
    with_rows: Sequence[tuple[str, tuple[bytes, ...] | None, int]],
    header_lines: set[int],
    *,
    names: bool,
) -> list[Choice]:
    longest = max((names for names in dialect.headers if names is not None), key=len)
    shown = ",".join(plain_text(utf8(value)) for value in longest)
    where = "every file" if len(with_rows) > 1 else file_names.base_name(named_files[0])
    lines = max(header_lines)
    why = f"line {lines} of {where} has the names of the fields: {shown}"
    question = None
    if len(header_lines) > 1:
        question = f"Files have different numbers of lines up to their names: set {{{HEADER}}} to the number for all."
    choices = [Choice(HEADER, True if lines == 1 else lines, why, (), question)]
    if names:
        found: Value = [plain_text(value) for value in longest]
        choices.append(Choice(NAMES, found, "the names in the header, which can be used in place of ordinals"))
    return choices


def _names_of(typed: Source, dialect: ProposedDialect) -> list[str]:
    assert typed.file_schema is not None
    names = [str(name) for name in typed.file_schema.schema.names]
    width = max((width for found in dialect.widths for width in found), default=len(names))
    if width not in (len(names), len(names) + 1):
        what = f"its rows have {counted(width, 'field')} without names, and {typed.name} has {len(names)} with names"
        raise error("format", path=typed.path, what=what, cure="have the delimited files delivered with a header")
    return names


def _escape(dialect: ProposedDialect) -> Choice:
    why = "within quotes, quotes and backslashes have a backslash before them, as Spark writes them"
    return Choice(ESCAPE, dialect.escape.decode(), why)


def _null(said: SayingRows) -> Choice:
    assert said.null is not None
    return Choice(NULL, said.null, f"{said.dialect} has this for NULL, unless it was set to another text")


def _without_header(
    given: GivenInputs,
    said: SayingRows,
    dialect: ProposedDialect,
    typed: Source | None,
    known: Sequence[bytes] | None,
    path: str,
) -> FileForms:
    """Return how rows that say what they do are read, where their files have no header.

    typed: a file whose fields have names. known: the names in the header of another file. path: a file without one.
    """
    of_tables, shown = fields_of_tables(said.dialect), file_names.base_name(path)
    head = of_tables if said.of_tables else ENVELOPES[said.dialect].traces.head
    width = max(width for found in dialect.widths for width in found) + len(head) * said.is_first_load
    names, question = [*head, *(f"field_{at}" for at in range(len(head), width))], None
    if typed is not None and typed.file_schema is not None:
        names = [*head, *map(str, typed.file_schema.schema.names)]
        names += [name for name, _ in values_above(typed.path)] if len(names) < width else []  # as Hive has them
        why = f"{', '.join(head)}, and the names in {typed.name}, in the order of {shown}"
    elif known is not None:
        names = [*head, *(name for name in map(plain_text, known) if name not in head)]
        why = f"{', '.join(head)}, and the names in the header of another file, in the order of {shown}"
    else:
        why = f"{shown} has no header: the dialect names {', '.join(head)}, and the others have their numbers"
        question = f"What are the names of the columns? Nothing in the files says it. Set {{{NAMES}}}."
        if said.of_tables is None:
            question += f" If the changes are those of several tables, begin it with {','.join(of_tables)}, and set "
            question += "{feed.table}."
    if len(names) != width:
        what = f"its rows have up to {counted(width, 'field')}, and {', '.join(names)} are {len(names)}"
        raise error("format", path=path, what=what, cure=f"set {setting(NAMES)} to the names of all fields")
    choices = [_delimiter(given, dialect, path), Choice(NAMES, [*names], why, (), question)]
    if said.null is not None:
        choices.append(_null(said))
    is_text = _is_text(given, said)
    if not is_text and not all(format_of(_bare(one)) == "csv" for one in given.delimited):
        choices.append(Choice(FORMAT, "csv", "rows that say what they do are read by the names of their fields"))
    if dialect.escape:
        choices.append(_escape(dialect))
    return FileForms(tuple(choices), named=True, csv=not is_text)


def _written(delimiter: bytes) -> str:
    """Return a delimiter as a setting has it."""
    return USUAL[delimiter][1] if delimiter in USUAL else delimiter.decode("latin-1")


def _either(dialect: ProposedDialect) -> list[tuple[Value, str]]:
    """Return the regex of the two delimiters that the rows have; none if they have one."""
    if dialect.delimiter is None or dialect.second is None:
        return []
    characters = map(_written, (dialect.delimiter, dialect.second))
    either = "[" + "".join("\\^" if one == "^" else one for one in characters) + "]"
    regex = f"\\s*{either}\\s*" if dialect.blanks and b"\t" not in (dialect.delimiter, dialect.second) else either
    return [(regex, f"a regex: {dialect.name} or {name_of(dialect.second)}")]


def _ragged(given: GivenInputs, dialect: ProposedDialect) -> Choice | None:
    """Return ``field.count`` where many rows, or the first one of a file, differ from the others of their file."""
    odd, total = dialect.odd_rows, dialect.rows
    if odd > _RAGGED * total:
        why = f"{odd:,} of {counted(total, 'row')} have another number of fields than the others of their file"
        return Choice(COUNT, "any", why)
    for path, widths in zip(given.delimited, dialect.widths, strict=True):
        usual, count = Counter(widths).most_common(1)[0] if widths else (0, 0)
        if widths and widths[0] != usual:
            first = f"the first row of {file_names.base_name(path)} has {counted(widths[0], 'field')}"
            why = f"{first}, and {count:,} of its first {counted(len(widths), 'row')} have {usual:,}"
            return Choice(COUNT, _feed_width(given, dialect), why)
    return None


def _feed_width(given: GivenInputs, dialect: ProposedDialect) -> int:
    """Return the usual width of a feed row, which the master's rows have at most."""
    of_master = {source.path for source in given.master.sources} if given.master is not None else set()
    sides: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
    for path, widths in zip(given.delimited, dialect.widths, strict=True):
        sides[path in of_master].update(widths)
    return max(widths.most_common(1)[0][0] for widths in sides.values() if widths)
