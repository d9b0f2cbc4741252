"""Compare the headers of delimited text, whose fields are known by position, so that no field is read as another.

A header has a line for each of ``header.lines``. It is compared with ``field.names``, with the header of another file
of the run, and with the header in the master's manifest: line by line if both have as many lines, otherwise each line
with each, and then two lines that agree are enough. Two lines name the same fields if they have as many values, and at
least half of the values are names that both lines have once. They agree if each of these names has the same position in
both. An empty value is not a name, nor is one that begins with a digit, a sign or a point: a line with a count or a
date is free to differ.

CSV and other formats with names are not concerned: their fields are found by name.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from mutator.config.settings import RowSpec
from mutator.dataset.state import State
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.parts import place, setting
from mutator.plan.inspect.delete_files import id_names, may_have_ids_alone
from mutator.plan.inspect.source import Source
from mutator.rules.header_lines import Names, configured_names, has_names, moved_name, name_same_fields

HEADER = "header"  # in the specification of a dataset: the lines of the header that its feed files had

Header = tuple[Names, ...]

_EARLIER = "the header of earlier feed files"  # the recorded one, in messages
_REMOVE = f"run once with {setting('header.check=false')}, which removes it from the manifest"


class _Pair(NamedTuple):
    """A line of names, and a line it is compared with."""

    line: Names  # as the file or setting has it
    own: Names  # the line without the op code, if the other one lacks it; empty if the widths differ otherwise
    other: Names
    whose: str  # where the other line is from, for messages

    def number(self, position: int, op: Any) -> int:
        """Return the number that a field of ``own`` has in the line."""
        return position + 1 if len(self.own) < len(self.line) and position >= op else position


def check_headers(
    rows: RowSpec, feed: Sequence[Source], master: Sequence[Source] = (), known: State | None = None
) -> None:
    """Raise DataError where the header of a text file has a field at another position than expected.

    known: the master's manifest. Without ``field.names``, the headers of a run are compared with the widest one, the
    master's if it is as wide as the feed's. Raises ConfigError where ``field.names`` differs from the manifest.
    """
    if not rows.text.header_check:
        return
    recorded = recorded_header(known)
    if recorded and rows.text.names:
        _check_setting(rows, recorded)
    with_header = [source for source in (*master, *feed) if source.header]
    first = None if rows.text.names else max(with_header, key=_width_of_names, default=None)  # with any op code
    cure = "have all files delivered with the same order of fields"
    cure += f", or set {setting('input.format=csv')} and give fields by name, not by ordinal" if known is None else ""
    cure += f"; or, if header lines do not name the fields, set {setting('header.check=false')}"
    for source in with_header:
        if recorded:
            _check(rows, source, recorded, _EARLIER, f"{cure}; or, if {_EARLIER} was wrong, {_REMOVE}")
        if rows.text.names:
            _check(rows, source, (configured_names(rows.text.names),), "field.names", cure)
        elif first is not None and source is not first:
            _check(rows, source, first.header, f"the header of {place(first.path)}", cure)


def _width_of_names(source: Source) -> int:
    return max((len(line) for line in source.header if has_names(line)), default=0)


def _check_setting(rows: RowSpec, recorded: Header) -> None:
    names = configured_names(rows.text.names)
    pairs = [_Pair(names, *_same_width(names, line, rows.ops.field), _EARLIER) for line in recorded]
    if moved := _first_moved(pairs, line_by_line=len(recorded) == 1):
        pair, position = moved
        number = pair.number(position, rows.ops.field)
        what = f"field {number} is {pair.own[position]}, and {pair.other[position]} in {_EARLIER}"
        cure = f"correct {setting('field.names')}, or, if that header was wrong, {_REMOVE}"
        raise error("width", where=setting("field.names"), what=what, cure=cure)


def _check(rows: RowSpec, source: Source, expected: Header, whose: str, cure: str) -> None:
    """Raise DataError if a file's header has a name that the expected header has elsewhere."""
    line_by_line = len(source.header) == len(expected)
    lines = zip(source.header, expected, strict=True) if line_by_line else product(source.header, expected)
    pairs = [_pair(rows, source, line, other, whose) for line, other in lines]
    if moved := _first_moved(pairs, line_by_line=line_by_line):
        pair, position = moved
        number = pair.number(position, rows.ops.field)
        what = (
            f"its header has {pair.own[position]} as field {number}, where {pair.whose} has "
            f"{pair.other[position] or 'no name'}; fields of delimited text are known by position"
        )
        raise error("format", path=source.path, what=what, cure=cure)


def _first_moved(pairs: Sequence[_Pair], *, line_by_line: bool) -> tuple[_Pair, int] | None:
    """Return the first pair of lines with a name at different positions, and its position in ``own``; None if there is
    none.

    line_by_line: each pair must agree; otherwise one that agrees is enough.
    """
    found = [(pair, moved_name(pair.own, pair.other)) for pair in pairs]
    if not line_by_line and any(at is None and name_same_fields(pair.own, pair.other) for pair, at in found):
        return None
    return next(((pair, at) for pair, at in found if at is not None), None)


def _pair(rows: RowSpec, source: Source, line: Names, expected: Names, whose: str) -> _Pair:
    """Return a pair of lines of headers, for a file whose rows may have the ID alone."""
    if may_have_ids_alone(rows, source) and len(line) == len(rows.key.ids) < len(expected):
        return _Pair(line, line, configured_names(id_names(rows.key, expected)), f"the ID in {whose}")
    return _Pair(line, *_same_width(line, expected, rows.ops.field), whose)


def _same_width(line: Names, expected: Names, op: Any) -> tuple[Names, Names]:
    """Return two lines without the op code, if one of them lacks it; nothing if their widths differ otherwise."""
    if len(line) == len(expected):
        return line, expected
    if isinstance(op, int) and abs(len(line) - len(expected)) == 1:
        longer = len(line) > len(expected)
        return (_without(line, op), expected) if longer else (line, _without(expected, op))
    return (), ()


def _without(names: Names, position: int) -> Names:
    return names[:position] + names[position + 1 :]


def recorded_header(known: State | None) -> Header:
    """Return the lines of the header in a manifest; none in one of an earlier format, or without a header."""
    return tuple(map(tuple, known.spec.get(HEADER, ()))) if known is not None else ()


def header_to_record(
    rows: RowSpec, feed: Sequence[Source], master: Sequence[Source], known: State | None, *, op_in_master: bool
) -> Header:
    """Return the header for the manifest: the lines with a name for each field, of the newest feed file that has any,
    else of the master, else those in the manifest. None with ``header.check=false``: such lines may be wrong.

    feed, master: the files, the newest last. op_in_master: the master's rows have the op code.
    """
    if not rows.text.header_check:
        return ()
    cut = None if rows.ops.keep else rows.ops.field
    for sources, has_op in ((feed, True), (master, op_in_master)):
        for source in reversed(sources):
            lines = tuple(line for line in source.header if len(line) == source.width and has_names(line))
            if lines and not (may_have_ids_alone(rows, source) and source.width == len(rows.key.ids)):
                return tuple(_without(line, cut) for line in lines) if has_op and cut is not None else lines
    return recorded_header(known)


def other_number_of_names(
    path: str, what: str, names: Sequence[str], *, single: bool = False, more: str = ""
) -> MutatorError:
    """Return the error of ``field.names`` that are fewer or more than the fields of a row: one would shift the others.

    what: how many fields are where, for the message. single: a row has a single field, which suggests that the
    delimiter is wrong. more: another cure.
    """
    cure = (
        f"give {setting('field.names')} a name for each field of a feed row, or correct {setting('field.delim.regex')}"
    )
    if single:
        cure = f"set {setting('field.delim.regex')} to the delimiter of its fields, or correct {setting('field.names')}"
    names_shown = f"{setting('field.names')} has {counted(len(names), 'name')} ({', '.join(names)})"
    return error("width", where=path, what=f"{what}, and {names_shown}", cure=f"{cure}{more and f'; {more}'}")
