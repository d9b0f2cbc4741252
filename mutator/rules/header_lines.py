"""Lines of names in delimited files: which line has the names of the fields, and whether two lines name them alike.

>>> rows = [[b"7", b"ann"], [b"8", b"bob"]]
>>> Line.above([b"id", b"name"], rows).contrasts, Line.above([b"9", b"carl"], rows).contrasts
([0], [])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from mutator.errors.display import quoted
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.facts import (
    Facts,
    form_of,
    has_digit,
    is_number_or_time,
    may_be_name,
    means_no_value,
    names_an_id,
    plain_text,
)

Row = Sequence[bytes]
Names = tuple[str, ...]  # the values of a line, as they are compared
_SPECIAL = {",": "a comma", '"': "a quote", "'": "a quote", "=": "an equals sign", "#": "a hash"}
_FIRST = 4  # lines of a file, one of which has the names


@dataclass(frozen=True)
class Line:
    """A line that may have the names of fields, and rows of the same width that show it."""

    values: Row
    rows: Sequence[Row]

    @classmethod
    def above(cls, values: Row, rows: Sequence[Row]) -> Line:
        """Return a line with the rows below it; equal ones are left out, as files may have been joined."""
        return cls(values, [row for row in rows if len(row) == len(values) and row != values])

    @cached_property
    def below(self) -> list[Facts]:
        """The facts of each field in the rows."""
        return [Facts([row[at] for row in self.rows]) for at in range(len(self.values))]

    @cached_property
    def may_be_names(self) -> bool:
        """Whether all values may be names of fields, and differ."""
        values = list(map(utf8, self.values))
        return all(map(may_be_name, values)) and len({value.strip().lower() for value in values}) == len(values)

    @cached_property
    def typed(self) -> list[int]:
        """The positions where the line has a value, and the rows have numbers or times."""
        return [at for at, one in enumerate(self.below) if self.values[at].strip() and one.are_numbers_or_times]

    @property
    def contrasts(self) -> list[int]:
        """The positions of these where the value is neither a number, a time nor a word for a missing value."""
        found = (at for at in self.typed if not is_number_or_time(self.values[at]))
        return [at for at in found if not means_no_value(self.values[at])]

    def is_record(self, ids: Sequence[int]) -> bool:
        """Return whether the line looks like one of the rows. ids: the positions of the ID fields.

        It has numbers and times where the rows have them, and nowhere else, or, without any, an ID of their form.
        """
        own, others = [self.values[at] for at in ids], [row[at] for row in self.rows for at in ids]
        if not others or (all(map(has_digit, others)) and not all(map(has_digit, own))):
            return False  # a control line such as H,2026-01-31,500
        texts = [at for at, one in enumerate(self.below) if self.values[at].strip() and not one.numbers_or_times]
        if any(names_an_id(value, others) for value in own) or any(is_number_or_time(self.values[at]) for at in texts):
            return False
        if self.typed:
            return all(is_number_or_time(self.values[at]) for at in self.typed)
        return all(map(has_digit, own)) and {*map(form_of, own)} <= {*map(form_of, others)}


def header_of(
    at: int, files: Sequence[Sequence[Row]], sides: Sequence[str], modal: int
) -> tuple[int, tuple[bytes, ...] | None]:
    """Return the number of header lines of a file and its line of names; 0 and None without one.

    at: the position of the file. files: the rows of all files, blank ones included. sides: master or feed, of each
    file. modal: the most frequent number of fields.
    """
    rows = files[at]
    own = Counter(len(row) for row in rows if row)
    width = own.most_common(1)[0][0] if own else modal
    for number, row in enumerate(rows[:_FIRST]):
        if not row or (len(row) != width and len(row) < modal):
            continue  # a blank line, or a title above the names
        rest = [other for other in rows[number + 1 :] if len(other) == len(row)]
        twins = [
            [other for other in found if other]
            for side, found in zip(sides, files, strict=True)
            if side != sides[at] and row in found[:_FIRST]
        ]
        others = [found for other, found in enumerate(files) if other != at and row in found[:_FIRST]]
        if _has_names(row, rest, len(others)) or _is_above_values(row, rest, twins):
            return number + 1, tuple(row)
        return 0, None
    return 0, None


def _has_names(row: Row, rest: Sequence[Row], twins: int) -> bool:
    """Return whether a row has names of fields. rest: the rows below it. twins: how many other files begin with it."""
    line, names = Line.above(row, rest), list(map(utf8, row))
    ids = [names_an_id(name, [b"1"]) for name in names]
    if not line.may_be_names or (len(row) == 1 and not ids[0]):
        return False
    above_ids = any(names_an_id(name, [other[at] for other in line.rows]) for at, name in enumerate(names))
    return bool(line.contrasts) or above_ids or (twins > 0 and row not in rest and any(ids))


def _is_above_values(row: Row, rest: Sequence[Row], twins: Sequence[Sequence[Row]]) -> bool:
    """Return whether a row differs from all rows below it as names do, though not each of its values may be a name.

    rest: the rows below it. twins: the rows of each file of the other side that begins with the same row.
    """
    if len(row) < 2 or row in rest:
        return False
    if [value.strip() for value in row] == [b"%d" % number for number in range(len(row))]:
        # pandas numbers columns without names.
        return bool(twins) or (len(row) > 2 and any(not is_number_or_time(other[1]) for other in rest))
    if twins and all(any(other == row for other in found[1:]) for found in twins):
        return False
    line = Line.above(row, [*rest, *(other for found in twins for other in found)])
    unlikely = len(line.rows) < 2  # one row shows little
    agrees = any(is_number_or_time(row[at]) for at in line.typed)
    return bool(line.contrasts) and (bool(twins) or not (agrees or unlikely))


def utf8(value: bytes) -> bytes:
    """Return a text as UTF-8: if it is not, it counts as Latin-1.

    >>> utf8(b"ge\\xe4ndert") == "ge\u00e4ndert".encode()
    True
    """
    try:
        value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1").encode()
    return value


def unusable_name(names: Sequence[bytes]) -> str | None:
    """Return why the names of a header cannot be used in settings; None if they can.

    >>> unusable_name([b"id", b"v", b"v"]), unusable_name([b"id", b"v"])
    ("the name 'v' occurs twice", None)
    >>> unusable_name([b"", b"id"])
    'field 0 has no name: an index that pandas wrote? to_csv(index=False) leaves it out'
    """
    if any(name != utf8(name) for name in names):
        return "the names are not UTF-8"
    texts = [plain_text(name) for name in names]
    if texts == [str(number) for number in range(len(texts))]:
        return "the names are numbers, as pandas writes for columns without names"
    for at, text in enumerate(texts):
        if not text:
            index = ": an index that pandas wrote? to_csv(index=False) leaves it out" if at == 0 else ""
            return f"field {at} has no name{index}"
        if texts.index(text) < at:
            return f"the name {quoted(names[at].strip())} occurs twice"
        if text.isdigit():
            return f"the name {quoted(names[at])} is a number, as an ordinal is"
        special = next((what for mark, what in _SPECIAL.items() if mark in text), None)
        if special is not None:
            return f"the name {quoted(names[at])} has {special}"
    return None


def header_names(fields: Sequence[bytes]) -> Names:
    """Return the values in a header, as they are compared: in lower case, without quotes and spaces around them.

    >>> header_names([b'"ID"', b" price "])
    ('id', 'price')
    """
    return tuple(plain_text(field).lower() for field in fields)


def configured_names(names: Iterable[str]) -> Names:
    """Return names of ``field.names`` as they are compared.

    >>> configured_names(["ID"])
    ('id',)
    """
    return header_names([name.encode("utf-8", "surrogateescape") for name in names])


def moved_name(line: Names, expected: Names) -> int | None:
    """Return the first position of a name that another line has elsewhere; None if there is no such name, or if the
    lines do not name the same fields.

    >>> moved_name(("id", "b", "a"), ("id", "a", "b"))
    1
    >>> moved_name(("h", "5", "3"), ("h", "3", "5")) is None
    True
    """
    if line == expected or not name_same_fields(line, expected):
        return None
    own, others = _positions(line), _positions(expected)
    return min((own[name] for name in own.keys() & others.keys() if own[name] != others[name]), default=None)


def name_same_fields(line: Names, expected: Names) -> bool:
    """Return whether two lines name the same fields, in any order."""
    if not line or len(line) != len(expected):
        return False
    return 2 * len(_positions(line).keys() & _positions(expected).keys()) >= len(line)


def _positions(line: Names) -> dict[str, int]:
    """Return the positions of the names that a line has once."""
    count = Counter(line)
    return {value: position for position, value in enumerate(line) if count[value] == 1 and is_name(value)}


def is_name(value: str) -> bool:
    """Return whether a value in a header may be a name.

    >>> is_name("id"), is_name("7"), is_name("")
    (True, False, False)
    """
    return value[:1] not in "+-.0123456789"  # which contains the empty text


def is_line_of_names(line: Names) -> bool:
    """Return whether a line has several values, all of them different names.

    >>> is_line_of_names(("id", "price")), is_line_of_names(("x", "12"))
    (True, False)
    """
    return len(line) > 1 and len(_positions(line)) == len(line)


def has_names(line: Names) -> bool:
    """Return whether at least half of the values of a line are names."""
    return 2 * len(_positions(line)) >= len(line)
