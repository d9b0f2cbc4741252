"""Recognise the line of a delimited file that has the names of its fields, and the names that settings cannot have."""

from collections import Counter
from collections.abc import Sequence

from mutator.errors.display import quoted
from mutator.plan.mistakes.value_forms import (
    all_numbers_or_times,
    is_number_or_time,
    may_be_name,
    means_no_value,
    names_an_id,
    plain_text,
)

Row = list[bytes]
_SPECIAL = {",": "a comma", '"': "a quote", "'": "a quote", "=": "an equals sign", "#": "a hash"}


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
    for number, row in enumerate(rows[:4]):
        if not row or (len(row) != width and len(row) < modal):
            continue  # a blank line, or a title above the names
        rest = [other for other in rows[number + 1 :] if len(other) == len(row)]
        twins = [
            [other for other in found if other]
            for side, found in zip(sides, files, strict=True)
            if side != sides[at] and row in found[:4]
        ]
        others = [found for other, found in enumerate(files) if other != at and row in found[:4]]
        if _has_names(row, rest, len(others)) or _is_above_values(row, rest, twins):
            return number + 1, tuple(row)
        return 0, None
    return 0, None


def _has_names(row: Row, rest: Sequence[Row], twins: int) -> bool:
    """Return whether a row has names of fields. rest: the rows below it. twins: how many other files begin with it."""
    row = [utf8(value) for value in row]
    if not all(map(may_be_name, row)) or len({value.strip().lower() for value in row}) < len(row):
        return False
    if any(is_number_or_time(value) for value in row) or (len(row) == 1 and not names_an_id(row[0], [b"1"])):
        return False
    for at in range(len(row)):
        below = [other[at] for other in rest if other != row]  # files may have been joined with their headers
        if all_numbers_or_times(below) or names_an_id(row[at], below):
            return True
    return twins > 0 and row not in rest and any(names_an_id(value, [b"1"]) for value in row)


def _is_above_values(row: Row, rest: Sequence[Row], twins: Sequence[Sequence[Row]]) -> bool:
    """Return whether a row differs from all rows below it as names do, though not each of its values may be a name.

    rest: the rows below it. twins: the rows of each file of the other side that begins with the same row.
    """
    if len(row) < 2 or row in rest:
        return False
    if [value.strip() for value in row] == [b"%d" % number for number in range(len(row))]:
        # pandas numbers columns without names.
        return bool(twins) or (len(row) > 2 and any(not is_number_or_time(other[1]) for other in rest))
    named = numbers = 0
    below = [*rest, *(other for found in twins for other in found if len(other) == len(row) and other != row)]
    for at, value in enumerate(row):
        if value.strip() and all_numbers_or_times(other[at] for other in below):
            numbers += is_number_or_time(value)
            named += not is_number_or_time(value) and not means_no_value(value)
    unlikely = len(below) < 2  # one row shows little
    if twins and all(any(other == row for other in found[1:]) for found in twins):
        return False
    return named > 0 and (bool(twins) or (not numbers and not unlikely))


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
