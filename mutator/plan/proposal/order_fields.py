"""The field of the order value, or the sequences of file names: which mutation of a record is the last one."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mutator.errors.display import counted, quoted
from mutator.plan.mistakes.value_forms import is_local_date
from mutator.plan.proposal.tables import Inputs, Rows, Table, present
from mutator.rules.epoch_units import RANGES, epoch_unit
from mutator.rules.order_columns import to_column
from mutator.rules.order_units import joined, several_units, units_of
from mutator.rules.order_values import ORDER_TYPES

_MOST_EMPTY = 0.1
_TIMES = 0.9  # of the numbers of a field with times since 1970; others may be in place of times
_CHANGE = re.compile(
    r"(?:.*[_\W])?(?:upd(?:ated?)?|modified|modification|mod|chg|changed?|mtime|version|ver|revision|rev|seq|sequence|"
    r"lsn|scn|event|commit(?:ted)?|ts|timestamp|last_?\w+)(?:_?(?:at|on|ts|time|date|dt|timestamp|no|nr|number|ms|us|ns))?",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_CREATED = re.compile(r".*(?:creat|insert|birth|born|start|open|join|signup|order|due|expir|ship|hire)", re.IGNORECASE)
_TIME_NAME = re.compile(r".*(?:_at|_ts|_time|timestamp|_on)", re.IGNORECASE)
_WITH_TIME = re.compile(rb".*\d[Tt ]\d\d.*")
_TITLES = {"long": "whole numbers", "decimal": "decimal numbers", "timestamp": "ISO 8601 times"}
_TYPED_TITLES = {**_TITLES, "timestamp": "timestamps"}


@dataclass(frozen=True)
class OrderField:
    """A field that may have the order value, with what the first rows show."""

    field: str
    order_type: str
    score: int
    why: str
    units: tuple[str, ...] = ()  # of numbers of seconds (or less) since 1970: several cannot be compared
    typed: bool = False  # the files say its type, so that no setting need

    @property
    def strong(self) -> bool:
        """Return whether the field has times, is called like one, or grows from the master to the feed."""
        return self.score >= 4


def local_dates(inputs: Inputs) -> list[tuple[str, bytes]]:
    """Return the fields all of whose values are dates that are not ISO 8601, each with one of them."""
    rows = Rows.of([*inputs.master, *inputs.feed])
    found = [(name, present(values)) for name, values in rows.columns.items()]
    return [(name, values[0]) for name, values in found if values and all(map(is_local_date, values))]


def is_time(values: Sequence[bytes]) -> bool:
    """Return whether all values are times of day with a date, or numbers of seconds (or less) since 1970.

    >>> is_time([b"1425931207"]), is_time([b"2026-01-31T10:00:00Z"]), is_time([b"2026-01-31"]), is_time([])
    (True, True, False, False)
    """
    few = values[:200]
    if not few:
        return False
    if _parsed(few, "long"):
        return all(epoch_unit(int(value)) for value in few)
    return all(map(_WITH_TIME.fullmatch, few)) and bool(_parsed(few, "timestamp"))


def is_time_name(name: str) -> bool:
    """Return whether a field is called like the time of a change.

    >>> is_time_name("updated_at"), is_time_name("lastModified"), is_time_name("id"), is_time_name("3")
    (True, True, False, False)
    """
    return _CHANGE.fullmatch(_words(name)) is not None


def _words(name: str) -> str:
    return _CAMEL.sub("_", name)


def order_fields(inputs: Inputs, ids: Sequence[str], op: str | None) -> list[OrderField]:
    """Return the fields that may have the order value, the best first. op: the op code field."""
    feed, master = Rows.of(inputs.feed), Rows.of(inputs.master)
    typed = {name: kind for table in (*inputs.master, *inputs.feed) for name, kind in table.order_types.items()}
    base = feed if feed.count else master
    found = []
    for name in base.fields:
        if name == op or name in ids:
            continue
        candidate = _candidate(name, feed, master, ids, typed)
        if candidate is not None:
            found.append(candidate)
    # The last one of equal fields: the time of a change is often the last field.
    return [one for _, one in sorted(enumerate(found), key=lambda pair: (-pair[1].score, -pair[0]))]


def _candidate(
    name: str, feed: Rows, master: Rows, ids: Sequence[str], typed: dict[str, str | None]
) -> OrderField | None:
    own, others = feed.columns.get(name, []), master.columns.get(name, [])
    values = present([*own, *others])
    order_type = _type_of(values, name, typed)
    if order_type is None:
        return None
    empty = sum(not value for value in own)
    if empty > _MOST_EMPTY * max(len(own), 1):
        return None
    parse = ORDER_TYPES[order_type][0]
    units = _units(order_type, [list(map(parse, present(side))) for side in (own, others)])
    has_type = typed.get(name) not in (None, "string")
    reasons, score = [(_TYPED_TITLES if has_type else _TITLES)[order_type]], 1 - 2 * bool(empty)
    if order_type == "timestamp":
        score += 3 if any(map(_WITH_TIME.fullmatch, values[:200])) else 1
    elif units:
        reasons, score = [f"{' and '.join(units)} since 1970"], score + 3
    if not name.isdigit():
        words = _words(name)
        if _CHANGE.fullmatch(words):
            reasons.append("called like the time or version of a change")
            score += 3
        elif _CREATED.match(words):
            reasons.append("called like the beginning of a record")
            score -= 2
        elif _TIME_NAME.fullmatch(words):
            score += 1
    moved, text = _movement(name, feed, master, ids, parse)
    if text:
        reasons.append(text)
    if empty:
        reasons.append(f"{counted(empty, 'row')} of the feed without a value would be rejected")
    return OrderField(name, order_type, score + moved, "; ".join(reasons), tuple(units), has_type)


def _units(order_type: str, sides: Sequence[list[Any]]) -> list[str]:
    """Return the units of order values that are times since 1970; none if they are not, by the rule of a run."""
    found = joined(units_of(order_type, to_column(order_type, values)) for values in sides)
    counts = {unit: count for unit, (count, _) in found.items() if unit in RANGES}
    if not counts or sum(counts.values()) < _TIMES * sum(count for count, _ in found.values()):
        return []
    return sorted(several_units(found)) or [max(counts, key=counts.__getitem__)]


def _type_of(values: Sequence[bytes], name: str, typed: dict[str, str | None]) -> str | None:
    """Return the order type that all values have; None without one."""
    if name in typed and typed[name] != "string":
        return typed[name]
    if not values:
        return None
    return next((kind for kind in ("long", "decimal", "timestamp") if _parsed(values, kind)), None)


def _parsed(values: Sequence[bytes], order_type: str) -> list[Any]:
    """Return the parsed values; none if one is invalid."""
    parse = ORDER_TYPES[order_type][0]
    with suppress(ValueError):
        return [parse(value) for value in values]
    return []


def _movement(
    name: str, feed: Rows, master: Rows, ids: Sequence[str], parse: Callable[[bytes], Any]
) -> tuple[int, str]:
    """Return points and a reason: whether the feed's values are newer than the master's."""
    own = [parse(value) for value in present(feed.columns.get(name, []))]
    others = [parse(value) for value in present(master.columns.get(name, []))]
    if not own or not others:
        return 0, ""
    newest = max(others)
    if min(own) > newest:
        return 4, (
            f"all values of the feed, such as {_shown(feed, name)}, are higher than those of the master, such as "
            f"{_shown(master, name)}"
        )
    higher = sum(value > newest for value in own)
    if len(others) > 1 and min(others) == newest and 2 * higher > len(own):
        return 3, (
            f"{_shown(master, name)} in every row of the master, and higher in {higher:,} of "
            f"{counted(len(own), 'mutation')}, as a version is"
        )
    known = {
        key: parse(value) for key, value in zip(master.keys(ids), master.columns.get(name, []), strict=False) if value
    }
    pairs = [
        (known[key], parse(value))
        for key, value in zip(feed.keys(ids), feed.columns[name], strict=False)
        if value and key in known
    ]
    newer = sum(before < after for before, after in pairs)
    older = sum(before > after for before, after in pairs)
    points = 0 if not newer + older else 2 if not older else 1 if newer >= 9 * older else -2 if older > newer else 0
    if not pairs:
        return 0, ""
    text = f"higher than in the master in {newer:,} of {counted(len(pairs), 'mutation')} of its records"
    return points, text + (f", and lower in {older:,}" if older else "")


def _shown(rows: Rows, name: str) -> str:
    return quoted(present(rows.columns[name])[0])


def repeats_the_sequence(tables: Sequence[Table], name: str) -> bool:
    """Return whether a field has the sequence of its file's name in each row.

    >>> repeats_the_sequence([Table("a_7", {"0": [b"x"], "1": [b"7"]}, 1, sequence=7)], "1")
    True
    """
    own = [(value, table.sequence) for table in tables for value in table.columns.get(name, [])]
    return bool(own) and all(value is not None and value.isdigit() and int(value) == number for value, number in own)
