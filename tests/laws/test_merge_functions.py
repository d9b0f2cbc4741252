"""Merge functions keep the laws: what a key shows is what the set of all its mutations means, however they arrive.

A small world has up to four mutations of one key, with one or two fields that have functions. It is merged in every
order, cut into runs in every way, with every part of it delivered again: from what each subset leaves, by each subset
as the next run. One state may be left by a subset, and it must show what the subset means. The meaning takes nothing
from the program.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from mutator.rules.merge_columns import (
    EntryColumns,
    aged_columns,
    beside,
    bounds_after_columns,
    expanded,
    fold_columns,
    meet_columns,
    sealed_columns,
    shown_columns,
    span_columns,
)
from mutator.rules.merge_functions import (
    NO_BOUNDS,
    Bounds,
    Entries,
    Entry,
    Mark,
    aged,
    bounds_after,
    counted_type,
    entries_type,
    fold,
    implied,
    limits,
    meet,
    refusal,
    sealed,
    shown,
    span,
)
from mutator.rules.merge_names import FUNCTIONS, MergeFunction, merge_function
from tests.support.effort import share

UNSET = "~"
UPSERT, DELETE, TRUNCATE, SNAPSHOT = "upsert", "delete", "truncate", "snapshot"
NAMES = [function.name for function in FUNCTIONS]


class Event(NamedTuple):
    """A mutation of the key, or of all keys. fields: values, None is NULL; without them a snapshot lacks the key."""

    op: str
    order: int
    fields: tuple[Any, ...] = ()
    own: int = 0  # order value of a row of a snapshot

    @property
    def at(self) -> int:
        """The order value of what it sets."""
        return max(self.order, self.own)


World = tuple[Event, ...]


# -- what a set of mutations means


def meaning(names: Sequence[str], events: World) -> tuple[Any, ...] | None:
    """Return the fields of the record, or None where there is none."""
    floor = max((one.order for one in events if one.op in (TRUNCATE, SNAPSHOT)), default=0)
    deleted = max((one.order for one in events if one.op == DELETE), default=0)
    rows = [one for one in events if one.fields and one.at >= floor and one.at > deleted]
    sent = [[(one.at, one.fields[number]) for one in rows] for number in range(len(names))]
    return tuple(value_of(name, values) for name, values in zip(names, sent, strict=True)) if rows else None


def counts(name: str, value: Any) -> bool:
    """Return whether a value contributes to a function."""
    return value != UNSET and (value is not None or name in ("last", "first"))


def value_of(name: str, sent: list[tuple[int, Any]]) -> Any:
    """Return what a function makes of values by their order value, of which those with one are the same."""
    values = [value for _, value in sorted({one for one in sent if counts(name, one[1])}, key=lambda one: one[0])]
    if not values:
        return None
    whole = {"min": min, "max": max, "sum": sum}
    return whole[name](values) if name in whole else values[0 if name.startswith("first") else -1]


def is_clear(names: Sequence[str], events: World) -> bool:
    """Return whether no two mutations of one order value contradict each other."""
    for one, other in combinations([event for event in events if event.fields or event.op == DELETE], 2):
        if one.at != other.at or one == other:
            continue
        if DELETE in (one.op, other.op):
            return one.op == other.op
        for name, *values in zip(names, one.fields, other.fields, strict=True):
            both = all(counts(name, value) for value in values)
            if both and values[0] != values[1] and name not in ("min", "max"):
                return False
    return True


# -- what the program makes of it


class State(NamedTuple):
    """What a place has of the key. order: of the record; None without one."""

    order: int | None = None
    bounds: Bounds = NO_BOUNDS
    entries: tuple[Entries, ...] = ()
    floor: int | None = None


def merged(functions: Sequence[MergeFunction], state: State, run: World) -> tuple[State, bool]:
    """Merge a run; return what it leaves, and whether something was late after the seal."""
    floor = max((one.order for one in run if one.op in (TRUNCATE, SNAPSHOT)), default=None)
    floor = max((one for one in (floor, state.floor) if one is not None), default=None)
    places = [((one.at, number), one) for number, one in enumerate(run)]
    deletes = [place for place, one in places if one.op == DELETE]
    delete = max(deletes, default=None)
    order = None if delete is None else delete[0]
    entries, noted = [], False
    for number, function in enumerate(functions):
        sent = [(place, one.fields[number]) for place, one in places if one.fields and one.fields[number] != UNSET]
        old = state.entries[number] if state.entries else ()
        met = meet(function, old, state.bounds, fold(function, sent, delete), order, floor)
        entries.append(met.entries)
        noted |= met.spared or bool(met.late)
    bounds = bounds_after(state.bounds, order, floor)
    rows = [one.at for place, one in places if one.fields and (delete is None or place > delete)]
    limits = [limit for limit in (state.bounds.cleared, floor) if limit is not None]
    rows = [row for row in rows if all(row >= limit for limit in limits)]
    if state.order is not None and (order is None or state.order > order) and (floor is None or state.order >= floor):
        rows.append(state.order)
    if not rows:
        assert not any(entries), "a dead key has no entries"
        assert bounds.seal is None, "nor a seal"
    return State(max(rows, default=None), bounds, tuple(entries) if rows else (), floor), noted


def row_of(functions: Sequence[MergeFunction], state: State) -> tuple[Any, ...] | None:
    if state.order is None:
        return None
    return tuple(shown(function, entries) for function, entries in zip(functions, state.entries, strict=True))


def subsets(world: World) -> list[tuple[int, ...]]:
    return [some for count in range(len(world) + 1) for some in combinations(range(len(world)), count)]


def chosen(world: World, some: Iterable[int]) -> World:
    return tuple(world[number] for number in sorted(some))


def known(state: State) -> State:
    """Return a state as the floor lets it be read: nothing below the floor is left to clear."""
    cleared = max((one for one in (state.bounds.cleared, state.floor) if one is not None), default=None)
    return state._replace(bounds=state.bounds._replace(cleared=cleared))


def sealed_at(functions: Sequence[MergeFunction], state: State, seal: int) -> State:
    entries = tuple(sealed(function, old, seal) for function, old in zip(functions, state.entries, strict=True))
    return state._replace(entries=entries, bounds=state.bounds._replace(seal=seal))


def check_world(names: Sequence[str], world: World) -> tuple[int, int]:
    """Check each state that a world can leave, with seals at any moment; return how many, and how many runs are late.

    Until something is late after the seal, a subset leaves one state, sealed or not, which shows what the subset means.
    A seal and redelivery never change what is shown.
    """
    functions = [merge_function(name) for name in names]
    plain = {some: merged(functions, State(), chosen(world, some))[0] for some in subsets(world)}
    todo, late = [(frozenset[int](), State(), True)], 0
    seen = set(todo)
    while todo:
        some, state, exact = todo.pop()
        row, seal = row_of(functions, state), state.bounds.seal
        if exact:
            assert row == meaning(names, chosen(world, some)), (chosen(world, some), state)
            unsealed = plain[tuple(sorted(some))]
            assert known(state) == known(unsealed if seal is None else sealed_at(functions, unsealed, seal))
        following = []
        for at in range((seal or 0) + 1, (state.order or 0) + 1):
            after = sealed_at(functions, state, at)
            if after.entries != state.entries:  # a seal that makes nothing shorter would only forget
                assert row_of(functions, after) == row, (chosen(world, some), state, at)
                following.append((some, after, exact))
        for run in subsets(world):
            after, noted = merged(functions, state, chosen(world, run))
            again = some.issuperset(run)
            if again:
                assert known(after) == known(state), (chosen(world, some), state, chosen(world, run))
            late += noted and not again
            following.append((some.union(run), after, exact and (again or not noted)))
        todo += {one for one in following if one not in seen}
        seen.update(following)
    return len(seen), late


def worlds(rng: random.Random, names: Sequence[str], count: int) -> Iterator[World]:
    """Yield random small worlds, most of upserts and deletes."""
    values = list(product(*([1, 2, None, UNSET] for _ in names)))
    orders = range(1, 6)
    while count:
        events = []
        for _ in range(rng.choice([2, 3, 3, 4])):
            op, order = rng.choice([UPSERT] * 4 + [DELETE] * 2 + [TRUNCATE, SNAPSHOT, SNAPSHOT]), rng.choice(orders)
            fields = rng.choice(values) if op == UPSERT or (op == SNAPSHOT and rng.random() < 0.7) else ()
            if op == SNAPSHOT:
                fields = tuple(None if value == UNSET else value for value in fields)
            events.append(Event(op, order, fields, rng.choice(orders) if op == SNAPSHOT and fields else 0))
        if len(set(events)) == len(events) and is_clear(names, tuple(events)):
            count -= 1
            yield tuple(events)


@pytest.mark.parametrize("name", NAMES)
def test_any_delivery_of_one_field_means_the_same(name):
    found = [check_world([name], world) for world in worlds(random.Random(name), [name], share(400))]
    assert any(late for _, late in found) == merge_function(name).seals, "the law of seals says nothing"


@pytest.mark.parametrize("name", NAMES)
def test_any_delivery_of_two_fields_means_the_same(name):
    rng = random.Random(name)
    for other in NAMES:
        for world in worlds(rng, [name, other], share(60)):
            check_world([name, other], world)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_soak_any_delivery_means_the_same(name):
    rng = random.Random(name)
    for world in worlds(rng, [name], 1500):
        check_world([name], world)
    for other in NAMES:
        for world in worlds(rng, [name, other], 150):
            check_world([name, other], world)


# -- cases


U, D, T = UPSERT, DELETE, TRUNCATE
CASES = [
    # function, runs of (op, order value, value), what is shown, why
    ("max", [[(U, 1, 5)], [(U, 3, 1)], [(D, 2)]], 1, "a late delete takes the greatest value away"),
    ("max", [[(U, 1, 5), (D, 2)], [(U, 3, 1)], [(U, 1, 5)]], 1, "what the last delete cleared comes again"),
    ("max", [[(U, 1, None)], [(U, 2, None)]], None, "NULL is no value"),
    ("max", [[(U, 1, 5)], [(U, 1, 7)], [(U, 1, 6)]], 7, "of one order value both count"),
    ("first", [[(U, 1, "a"), (U, 3, "b")], [(D, 2)]], "b", "a late delete takes the first value away"),
    ("first", [[(U, 2, "b")], [(U, 1, None)]], None, "NULL is a value"),
    ("first_non_null", [[(U, 2, "b")], [(U, 1, None)]], "b", "NULL is no value"),
    ("last_non_null", [[(U, 1, "a")], [(U, 2, None)]], "a", "NULL is no value"),
    ("last_non_null", [[(U, 1, "a"), (D, 2)], [(U, 3, None)]], None, "a delete clears"),
    ("last", [[(U, 1, "a")], [(U, 2, None)], [(U, 3, UNSET)]], None, "unset says nothing, NULL does"),
    ("sum", [[(U, 3, 1)], [(U, 1, 1), (D, 2)]], 1, "an older value and its delete come late"),
    ("sum", [[(U, 1, 1)], [(U, 1, 1)]], 1, "redelivery"),
    ("sum", [[(U, 1, 1)], [(U, 1, 2)]], 2, "of one order value the mutation counts"),
    ("sum", [[(U, 1, 1)], [(U, 2, 2)], [(T, 2)], [(U, 1, 1)]], 2, "what has the order value of a truncate survives"),
    ("sum", [[(U, 1, None)]], None, "no value is not 0"),
]


@pytest.mark.parametrize(("name", "runs", "value", "why"), CASES, ids=[case[3] for case in CASES])
def test_cases(name, runs, value, why):
    functions, state = [merge_function(name)], State()
    for run in runs:
        state, _ = merged(functions, state, tuple(Event(op, order, tuple(fields)) for op, order, *fields in run))
    assert row_of(functions, state) == (value,)


def test_late_after_the_seal():
    total, first = [merge_function("sum")], [merge_function("first")]
    upserts = tuple(Event(U, order, (order,)) for order in (2, 4, 5))
    state = sealed_at(total, merged(total, State(), upserts)[0], 4)
    assert state.entries == (((2, 6), (5, 5)),)
    for event, shows, is_late in [
        (Event(U, 3, (3,)), 11, True),  # it may have been counted
        (Event(D, 1), 11, False),  # older than all
        (Event(D, 3), 11, True),  # 4 cannot be told from 2
        (Event(D, 4), 5, False),  # all that is sealed
        (Event(T, 4), 11, True),  # 4 survives, but cannot be told from 2
        (Event(T, 5), 5, False),
    ]:
        after, noted = merged(total, state, (event,))
        assert (row_of(total, after), noted) == ((shows,), is_late), event
    state = sealed_at(first, merged(first, State(), upserts)[0], 4)
    assert state.entries == (((2, 2), (5, 5)),)
    after, noted = merged(first, state, (Event(U, 1, (1,)),))
    assert (row_of(first, after), noted) == ((1,), False), "only a sum would count twice"

    both = [*total, merge_function("last")]
    upserts = (Event(U, 2, (2, 2)), Event(U, 4, (4, UNSET)), Event(U, 5, (5, UNSET)))
    after, noted = merged(both, sealed_at(both, merged(both, State(), upserts)[0], 4), (Event(D, 3),))
    assert (row_of(both, after), noted) == ((11, None), True), "a register of one entry can be cleared at any time"


def test_only_what_is_older_than_the_retention_is_late():
    rng, late, retention, step = random.Random(5), 0, 6, 2
    for _ in range(share(400)):
        names = rng.choices(NAMES, k=2)
        functions = [merge_function(name) for name in names]
        world = tuple(one for _ in range(2) for one in next(worlds(rng, names, 1)) if one.op != SNAPSHOT)
        if not is_clear(names, world):
            continue
        state, mark = State(), None
        delivered: dict[Event, int] = {}
        several = [0, 0]  # since when a field has several entries
        for now in range(0, 60, step):
            run = tuple(dict.fromkeys(rng.choices(world, k=rng.choice([0, 1, 1, 2]))))
            state, noted = merged(functions, state, run)
            if noted:
                late += 1
                lowest = min(one.at for one in run)
                assert any(one.at >= lowest and now - time >= retention for one, time in delivered.items())
            delivered = dict.fromkeys(run, now) | delivered
            seal, mark = aged(mark, *span(state.entries), now, retention)
            if seal is not None:
                before, row = state, row_of(functions, state)
                state = sealed_at(functions, state, seal)
                assert state.entries != before.entries
                assert row_of(functions, state) == row
            for number, entries in enumerate(state.entries):
                if len(entries) < 2 or not functions[number].seals:
                    several[number] = now + step
                for order, _ in entries[1:]:
                    first = min(time for one, time in delivered.items() if one.fields and one.at == order)
                    assert now - max(first, several[number]) < 2 * retention
    assert late > 10


# -- columns decide as single keys do


DATA = {
    pa.int64(): [1, -2, 5, 1 << 62],
    pa.uint8(): [0, 200, 255],
    pa.decimal128(4, 2): [Decimal("1.25"), Decimal("-99.99"), Decimal(0)],
    pa.float64(): [1.5, float("nan"), -0.0, 0.0, float("-inf")],
    pa.string(): ["a", "b", "\xe4", ""],
    pa.bool_(): [True, False],
    pa.date32(): [date(2020, 1, 1), date(1960, 1, 1)],
}
ORDERS: dict[Any, Callable[[int], Any]] = {
    pa.int64(): lambda order: order - 3,
    pa.large_binary(): lambda order: b"%d" % order,
}
KEYS = 40
PAIRS = [(function, data) for function in FUNCTIONS for data in DATA if refusal(function, data) is None]


def columns_of(
    function: MergeFunction, rows: Sequence[Sequence[Entry]], order_type: Any, data_type: Any
) -> EntryColumns:
    pairs = [(key, *entry) for key, entries in enumerate(rows) for entry in entries]
    values = [Decimal(value) if function.adds and value is not None else value for _, _, value in pairs]
    return EntryColumns(
        np.array([key for key, _, _ in pairs], np.int64),
        pa.array([order for _, order, _ in pairs], order_type),
        pa.array([None, *values], counted_type(function, data_type))[1:],
    )


def entries_of(columns: EntryColumns) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in range(KEYS)]
    for key, *entry in zip(columns.keys.tolist(), columns.orders.to_pylist(), columns.values.to_pylist(), strict=True):
        found[key].append(tuple(entry))
    return plain_of(found)


def plain_of(value: Any) -> Any:
    """Return a value in which NaN equals itself, and -0.0 is not 0.0."""
    if isinstance(value, (list, tuple)):
        return [plain_of(one) for one in value]
    return repr(value) if isinstance(value, float) else value


def old_field(rng: random.Random, function: MergeFunction, at: Callable[[int], Any], values: list[Any]) -> Any:
    """Return the entries and bounds of a key after a few runs."""
    entries, bounds = (), NO_BOUNDS
    for _ in range(rng.randint(0, 3)):
        sent = [((at(rng.randint(3, 8)), place), rng.choice(values)) for place in range(rng.randint(0, 3))]
        delete = rng.choice([None, None, None, at(rng.randint(1, 8))])
        entries = meet(function, entries, bounds, fold(function, sent), delete).entries
        bounds = bounds_after(bounds, delete)
        seal = rng.choice([None, at(rng.randint(1, 8))])
        if seal is not None and all(seal > one for one in bounds if one is not None):
            entries, bounds = sealed(function, entries, seal), bounds._replace(seal=seal)
    return entries, bounds


@pytest.mark.parametrize(("function", "data_type"), PAIRS, ids=[f"{one.name} {data}" for one, data in PAIRS])
@pytest.mark.parametrize("order_type", ORDERS, ids=str)
def test_columns_decide_as_single_keys_do(function, data_type, order_type):
    rng = random.Random(f"{function.name} {data_type} {order_type}")
    at, values = ORDERS[order_type], [*DATA[data_type], None]
    olds = [old_field(rng, function, at, values) for _ in range(KEYS)]
    floor = rng.choice([None, at(rng.randint(1, 8))])
    sent = [
        [((at(rng.randint(1, 8)), place), rng.choice(values)) for place in range(rng.randint(0, 4))]
        for _ in range(KEYS)
    ]
    deletes = [rng.choice([None, None, (at(rng.randint(1, 8)), 1.5)]) for _ in range(KEYS)]

    flat = [(key, place, value) for key, entries in enumerate(sent) for place, value in entries]
    rng.shuffle(flat)
    places = sorted({place for _, place, _ in flat} | {one for one in deletes if one is not None})
    rows = columns_of(function, [[(place[0], value)] for _, place, value in flat], order_type, data_type)
    rows = rows._replace(keys=np.array([key for key, _, _ in flat], np.int64))
    last = np.array([-1 if one is None else places.index(one) for one in deletes])
    number = np.array([places.index(place) for _, place, _ in flat], np.int64)
    left = fold_columns(function, rows, number, last)
    new = rows.chosen(left)
    group = np.array([rng.randint(0, 2) for _ in flat], np.int64)
    group_of_delete = np.array([rng.randint(0, 2) for _ in deletes])
    parts = []
    for one in range(3):
        own = np.flatnonzero(group == one)
        of_delete = np.where(group_of_delete == one, last, -1)
        parts.append(own[fold_columns(function, rows.chosen(own), number[own], of_delete)])
    twice = np.concatenate(parts)
    rng.shuffle(twice)
    again = twice[fold_columns(function, rows.chosen(twice), number[twice], last)]
    assert again.tolist() == left.tolist(), "in any grouping and any number of times"

    folded = [fold(function, one, delete) for one, delete in zip(sent, deletes, strict=True)]
    assert entries_of(new) == plain_of(folded)

    old = columns_of(function, [entries for entries, _ in olds], order_type, data_type)
    bounds = tuple(pa.array([one[part] for _, one in olds], order_type) for part in range(2))
    at_delete = [None if one is None else one[0] for one in deletes]
    others = pa.array(at_delete, order_type), None if floor is None else pa.scalar(floor, order_type)
    merged_entries, late, spared = meet_columns(function, old, new, bounds, *others)
    wanted = [
        meet(function, entries, bound, one, delete, floor)
        for (entries, bound), one, delete in zip(olds, folded, at_delete, strict=True)
    ]
    assert entries_of(merged_entries) == plain_of([one.entries for one in wanted])
    assert entries_of(new.chosen(late)) == plain_of([one.late for one in wanted])
    assert spared.tolist() == [one.spared for one in wanted]
    after = zip(*(column.to_pylist() for column in bounds_after_columns(bounds, *others)), strict=True)
    assert [*after] == [bounds_after(bound, one, floor) for (_, bound), one in zip(olds, at_delete, strict=True)]

    field, over = shown_columns(function, merged_entries, KEYS, data_type)
    values = [shown(function, one.entries) for one in wanted]
    least, most = limits(data_type) if function.adds else (None, None)
    assert over.tolist() == [function.adds and value is not None and not least <= value <= most for value in values]
    assert plain_of(field.to_pylist()) == plain_of(
        [None if bad else one for one, bad in zip(values, over, strict=True)]
    )

    spans = [span([one.entries]) for one in wanted]
    columns = span_columns(merged_entries, KEYS)
    assert [*zip(*(column.to_pylist() for column in columns), strict=True)] == spans
    marks = [rng.choice([None, Mark(at(rng.randint(1, 8)), rng.choice([100, 103, 107]))]) for _ in range(KEYS)]
    known_marks = (
        pa.array([one and one.order for one in marks], order_type),
        pa.array([one and one.time for one in marks], pa.int64()),
    )
    seals, after_marks = aged_columns(known_marks, *columns, 110, 7)
    wanted_marks = [aged(one, *ends, 110, 7) for one, ends in zip(marks, spans, strict=True)]
    assert seals.to_pylist() == [one for one, _ in wanted_marks]
    found = zip(*(column.to_pylist() for column in after_marks), strict=True)
    assert [*found] == [(None, None) if one is None else (*one,) for _, one in wanted_marks]

    # Beside a row are only the entries that it does not show itself.
    fits = ~shown_columns(function, old, KEYS, data_type)[1]
    orders = [entries[-1][0] if entries and rng.random() < 0.5 else at(9) for entries, _ in olds]
    field = shown_columns(function, old, KEYS, data_type)[0]
    side = beside(function, old, pa.array(orders, order_type))
    assert side.type == entries_type(function, order_type, data_type)
    back = entries_of(expanded(function, side, pa.array(orders, order_type), field))
    for key, (entries, _) in enumerate(olds):
        if fits[key]:
            own = implied(function, orders[key], field[key].as_py())
            assert (side[key].as_py() is None) == (plain_of(own) == plain_of(entries))
            assert back[key] == plain_of(entries)


def test_a_sum_is_exact_and_says_what_does_not_fit():
    total = merge_function("sum")
    most = (1 << 63) - 1
    state: Entries = ()
    for order, value in enumerate([most, 1, -1, -1]):
        state = meet(total, state, NO_BOUNDS, ((order, value),)).entries
    assert shown(total, state) == most - 1, "a sum that does not fit on the way"
    keys = [((0, most), (1, 1)), ((0, most), (1, 1), (2, -1)), ((0, -most), (1, -2))]
    field, over = shown_columns(total, columns_of(total, keys, pa.int64(), pa.int64()), 4, pa.int64())
    assert (field.to_pylist(), over.tolist()) == ([None, most, None, None], [True, False, True, False])
    digits = Decimal(10**38 - 1)
    keys = [((0, digits), (1, 1)), ((0, digits), (1, 0)), tuple((order, digits) for order in range(4))]
    wide = pa.decimal128(38, 0)
    assert shown(total, keys[1]) == digits
    field, over = shown_columns(total, columns_of(total, keys, pa.int64(), wide), 3, wide)
    assert (field.to_pylist(), over.tolist()) == ([None, digits, None], [True, False, True])
    found = sealed_columns(total, columns_of(total, keys, pa.int64(), wide), pa.array([1, 1, 1]))
    assert entries_of(found)[:3] == plain_of([keys[0], ((0, digits),), keys[2]]), "too many digits to be one entry"
    assert [sealed(total, one, 1) for one in keys] == [keys[0], ((0, digits),), keys[2]]


def test_names_and_types():
    values = ["last_value", "last_non_null_value", "first_value", "first_non_null_value"]
    paimon = [*values, "min", "max", "sum", "bool_or", "bool_and"]
    assert len({merge_function(name).name for name in paimon}) == 7
    with pytest.raises(ValueError, match="no merge function 'listagg'; there are last, last_non_null, first"):
        merge_function("listagg")
    refused = {
        (function.name, str(data))
        for function in FUNCTIONS
        for data in (pa.float32(), pa.string(), pa.list_(pa.int8()), pa.decimal256(50, 2), pa.struct([]))
        if refusal(function, data)
    }
    nested = {(name, data) for name in ("min", "max", "sum") for data in ("list<item: int8>", "struct<>")}
    assert refused == nested | {("sum", data) for data in ("float", "string", "decimal256(50, 2)")}
