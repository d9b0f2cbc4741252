"""The field of the order value, or the sequences of file names: which mutation of a record is the last one."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import field as member
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from mutator.errors.display import counted
from mutator.errors.parts import quoted_value
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.proposal.tables import Inputs, SampleRows, SampleTable
from mutator.rules.facts import Facts, has_time, present, read_order
from mutator.rules.order_columns import to_column
from mutator.rules.order_units import RANGES, epoch_unit, joined, several_units, units_of

SOME_REASON = 2  # score of a field that may have the order value, for more than having numbers
_UNUSABLE = 0.1  # of the rows of the feed, and of the values of each side, that may lack a valid order value
_INVALID = 0.05  # of the values of a field, that may be invalid: a few damaged rows do not disqualify it
_TIMES = 0.9  # of the numbers of a field with times since 1970; others may be in place of times
_CHANGE = re.compile(
    r"(?:.*[_\W])?(?:upd(?:ated?)?|modified|modification|mod|chg|changed?|mtime|version|ver|revision|rev|seq|sequence|"
    r"lsn|scn|event|commit(?:ted)?|ts|timestamp|last_?\w+)(?:_?(?:at|on|ts|time|date|dt|timestamp|no|nr|number|ms|us|ns))?",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_CREATED = re.compile(r".*(?:creat|insert|birth|born|start|open|join|signup|order|due|expir|ship|hire)", re.IGNORECASE)
_TIME_NAME = re.compile(r".*(?:_at|_ts|_time|timestamp|_on)", re.IGNORECASE)
_TITLES = {"long": "whole numbers", "decimal": "decimal numbers", "timestamp": "ISO 8601 times"}
_TYPED_TITLES = {**_TITLES, "timestamp": "timestamps"}
_TITLES_OF_ONE = {"long": "a whole number", "decimal": "a decimal number", "timestamp": "an ISO 8601 time"}

Orders = Sequence[Any]  # parsed order values, row by row; None for an empty or an invalid one


@dataclass(frozen=True)
class OrderField:
    """A field that may have the order value, with what the first rows show."""

    field: str
    order_type: str
    score: int
    why: str
    units: tuple[str, ...] = ()  # of numbers of seconds (or less) since 1970: several cannot be compared
    typed: bool = False  # the files say its type, so that no setting need
    invalid: int = 0  # values of other types in the first rows
    orders: Orders = member(default=(), repr=False, compare=False)  # of the feed, row by row

    @property
    def strong(self) -> bool:
        """Return whether the field has times, is called like one, or grows from the master to the feed."""
        return self.score >= 4


def local_dates(inputs: Inputs) -> list[tuple[str, bytes]]:
    """Return the fields nearly all of whose values are dates that are not ISO 8601, each with one of them."""
    rows = SampleRows.of([*inputs.master, *inputs.feed])
    found = []
    for name, values in rows.columns.items():
        facts = Facts(values)
        if facts.local_dates and _are_nearly_all(len(facts.local_dates), len(facts.present)):
            found.append((name, facts.local_dates[0]))
    return found


def is_time(values: Sequence[bytes]) -> bool:
    """Return whether nearly all values are times of day with a date, or numbers of seconds (or less) since 1970.

    >>> is_time([b"1425931207"]), is_time([b"2026-01-31T10:00:00Z"]), is_time([b"2026-01-31"]), is_time([])
    (True, True, False, False)
    >>> is_time([*[b"1425931207"] * 19, b"n/a"])
    True
    """
    few = values[:200]
    if not few:
        return False
    if _invalid([few], "long") is not None:
        return all(epoch_unit(number) for number in Facts(few).orders("long") if number is not None)
    with_time = sum(map(has_time, few))
    return _are_nearly_all(with_time, len(few)) and _invalid([few], "timestamp") is not None


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
    feed, master = SampleRows.of(inputs.feed), SampleRows.of(inputs.master)
    typed = {name: kind for table in (*inputs.master, *inputs.feed) for name, kind in table.order_types.items()}
    base = feed if feed.count else master
    found = []
    for name in base.fields:
        if name == op or name in ids:
            continue
        candidate = _candidate(name, feed, master, ids, typed)
        if candidate is not None and candidate.invalid:
            candidate = replace(candidate, why=f"{candidate.why}; {_invalid_text(candidate, inputs)}")
        if candidate is not None:
            found.append(candidate)

    def rank(pair: tuple[int, OrderField]) -> tuple[int, bool, int]:
        # The last one of equal fields: the time of a change is often the last field.
        at, one = pair
        return -one.score, one.invalid > 0, -at

    return [one for _, one in sorted(enumerate(found), key=rank)]


@dataclass(frozen=True)
class Ties:
    """IDs of the feed with different rows that have one order value, and the fields that tell these apart."""

    ids: int  # by the best field
    better: tuple[OrderField, ...] = ()  # leave no ties: one field, or the best and another one


def ties_of(
    feed: SampleRows, master: SampleRows, ids: Sequence[str], found: Sequence[OrderField], mutations: Sequence[int]
) -> Ties:
    """Return the ties of the first field, and whether another one tells the rows apart.

    found: the best field first. mutations: the rows of the feed that are mutations.
    """
    keys = feed.keys(ids)
    several = {key for key, count in Counter(keys[row] for row in mutations).items() if count > 1}
    rows = [row for row in mutations if keys[row] in several]
    wholes = list(zip(*([values[row] for row in rows] for values in feed.columns.values()), strict=True))

    def tied(fields: Sequence[OrderField]) -> int:
        first, found = dict[Any, Any](), set()
        for row, whole in zip(rows, wholes, strict=True):
            order = tuple(one.orders[row] for one in fields)
            if order[0] is not None and first.setdefault((keys[row], order), whole) != whole:
                found.add(keys[row])
        return len(found)

    best, *others = found
    count = tied([best])
    if not count:
        return Ties(0)
    usable = [one for one in others if one.score >= SOME_REASON and len(one.units) < 2 and not one.invalid]
    usable = [one for one in usable if all(one.orders[row] is not None for row in rows)]
    finer = [one for one in usable if _is_finer(one, best, keys, rows)]
    alone = ((one,) for one in finer if one.strong and all(master.columns.get(one.field, [None] * master.count)))
    # A number that begins again with each transaction orders the rows within one.
    pairs = ((best, one) for one in usable if one in finer or is_time_name(one.field))
    return Ties(count, next((fields for fields in chain(alone, pairs) if not tied(fields)), ()))


def _is_finer(one: OrderField, best: OrderField, keys: Sequence[Any], rows: Sequence[int]) -> bool:
    """Return whether the values of a field never fall where those of the best field rise."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys[row] for row in rows))}
    known = (row for row in rows if best.orders[row] is not None)
    pairs = sorted((numbers[keys[row]], best.orders[row], one.orders[row]) for row in known)
    # Rows of one value are sorted by the other, so that the last before is the highest.
    return all(before[0] != after[0] or before[2] <= after[2] for before, after in pairwise(pairs))


def _candidate(
    name: str, feed: SampleRows, master: SampleRows, ids: Sequence[str], typed: dict[str, str | None]
) -> OrderField | None:
    columns = feed.columns.get(name, []), master.columns.get(name, [])
    own, others = map(present, columns)
    values = [*own, *others]
    found = _type_of((own, others), name, typed)
    if found is None:
        return None
    order_type, invalid = found
    of_feed, of_master = (Facts(column).orders(order_type) for column in columns)
    if of_feed.count(None) > _UNUSABLE * max(len(of_feed), 1):
        return None
    empty = len(of_feed) - len(own)
    units = _units(order_type, [_valid(of_feed), _valid(of_master)])
    has_type = typed.get(name) not in (None, "string")
    reasons, score = [(_TYPED_TITLES if has_type else _TITLES)[order_type]], 1 - 2 * bool(empty)
    if order_type == "timestamp":
        score += 3 if any(map(has_time, values[:200])) else 1
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
    moved, text = _movement(name, feed, master, ids, (of_feed, of_master))
    if text:
        reasons.append(text)
    if empty:
        reasons.append(f"{counted(empty, 'row')} of the feed without a value would be rejected")
    return OrderField(name, order_type, score + moved, "; ".join(reasons), tuple(units), has_type, invalid, of_feed)


def _units(order_type: str, sides: Sequence[list[Any]]) -> list[str]:
    """Return the units of order values that are times since 1970; none if they are not, by the rule of a run."""
    found = joined(units_of(order_type, to_column(order_type, values)) for values in sides)
    counts = {unit: count for unit, (count, _) in found.items() if unit in RANGES}
    if not counts or sum(counts.values()) < _TIMES * sum(count for count, _ in found.values()):
        return []
    return sorted(several_units(found)) or [max(counts, key=counts.__getitem__)]


def _type_of(sides: Sequence[Sequence[bytes]], name: str, typed: dict[str, str | None]) -> tuple[str, int] | None:
    """Return the order type that nearly all values have, and the number of the others; None without one.

    sides: the values of the feed and of the master.
    """
    declared = typed.get(name, "string")
    if declared is None:  # a data type without an order
        return None
    kinds = (declared,) if declared != "string" else ("long", "decimal", "timestamp") if any(sides) else ()
    best: tuple[str, int] | None = None
    for kind in kinds:
        invalid = _invalid(sides, kind)
        if invalid is not None and (best is None or invalid < best[1]):
            best = kind, invalid
        if invalid == 0:
            break
    return best


def _invalid(sides: Sequence[Sequence[bytes]], order_type: str) -> int | None:
    """Return how many values are of another type; None if these are more than a few of all, or of one side."""
    left = int(_INVALID * sum(map(len, sides)))
    found = 0
    for values in sides:
        most = found + min(left - found, int(_UNUSABLE * len(values)))
        for value in values:
            found += read_order(order_type, value) is None
            if found > most:  # a field of text needs no more of its values
                return None
    return found


def _are_nearly_all(count: int, total: int) -> bool:
    return total - count <= _INVALID * total


def _valid(orders: Orders) -> list[Any]:
    return [value for value in orders if value is not None]


def _invalid_text(one: OrderField, inputs: Inputs) -> str:
    """Return a remark on the invalid values of a field: their number, and the first one with its place."""
    columns = [(table, table.columns.get(one.field, [])) for table in (*inputs.feed, *inputs.master)]
    total = sum(len(present(values)) for _, values in columns)
    table, row, first = next(
        (table, row, value)
        for table, values in columns
        for row, (value, order) in enumerate(zip(values, Facts(values).orders(one.order_type), strict=True), 1)
        if value and order is None
    )
    # Rows of another width were left out, so that the others have no known number.
    place = f"in {table.file}" if table.others else f"in row {row:,} of {table.file}"
    shown = f"{one.invalid:,} of {counted(total, 'value')}"
    if one.invalid == 1:
        is_not = f"is not {_TITLES_OF_ONE[one.order_type]}, so its row would be rejected"
        return f"{shown} {is_not}: {quoted_value(first)} {place}"
    are_not = f"are not {_TITLES[one.order_type]}, so their rows would be rejected"
    return f"{shown} {are_not}: the first is {quoted_value(first)} {place}"


def _movement(
    name: str, feed: SampleRows, master: SampleRows, ids: Sequence[str], orders: tuple[Orders, Orders]
) -> tuple[int, str]:
    """Return points and a reason: whether the feed's values are newer than the master's.

    orders: those of the feed and of the master.
    """
    own, others = map(_valid, orders)
    if not own or not others:
        return 0, ""
    in_feed, in_master = (_shown(rows.columns[name], side) for rows, side in zip((feed, master), orders, strict=True))
    newest = max(others)
    if min(own) > newest:
        every = "all valid values" if None in orders[0] else "all values"
        return 4, f"{every} of the feed, such as {in_feed}, are higher than those of the master, such as {in_master}"
    higher = sum(value > newest for value in own)
    if len(others) > 1 and min(others) == newest and 2 * higher > len(own):
        return 3, (
            f"{in_master} in every row of the master, and higher in {higher:,} of "
            f"{counted(len(own), 'mutation')}, as a version is"
        )
    known = {key: value for key, value in zip(master.keys(ids), orders[1], strict=False) if value is not None}
    pairs = [
        (known[key], value)
        for key, value in zip(feed.keys(ids), orders[0], strict=False)
        if value is not None and key in known
    ]
    newer = sum(before < after for before, after in pairs)
    older = sum(before > after for before, after in pairs)
    points = 0 if not newer + older else 2 if not older else 1 if newer >= 9 * older else -2 if older > newer else 0
    if not pairs:
        return 0, ""
    text = f"higher than in the master in {newer:,} of {counted(len(pairs), 'mutation')} of its records"
    return points, text + (f", and lower in {older:,}" if older else "")


def _shown(values: Sequence[bytes | None], orders: Orders) -> str:
    """Return the first valid value in quotes."""
    return quoted_value(next(value for value, order in zip(values, orders, strict=True) if order is not None and value))


def repeats_the_sequence(tables: Sequence[SampleTable], name: str) -> bool:
    """Return whether a field has the sequence of its file's name in each row.

    >>> repeats_the_sequence([SampleTable("a_7", {"0": [b"x"], "1": [b"7"]}, 1, sequence=7)], "1")
    True
    """
    own = [(value, table.sequence) for table in tables for value in table.columns.get(name, [])]
    return bool(own) and all(value is not None and value.isdigit() and int(value) == number for value, number in own)
