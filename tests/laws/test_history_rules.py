"""The versions that ``rules.history`` makes of events are those of the model, for every set of small events."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.rules.history import ENDINGS, EventColumns, versions_of
from mutator.rules.patches import masks_of
from tests.laws.test_patch_rules import FIELDS, RULES, mutations
from tests.support.effort import law, share
from tests.support.history_model import History, Version
from tests.support.patch_model import RECORD, Mutation, Seen

TRACKED = ((0, 1), (0,), ())


def versions(seen: Sequence[Seen], tracked: Sequence[int], unknown: str) -> dict[Any, list[Version]]:
    """Return the versions of all keys as the program finds them."""
    events = sorted((one for one in seen if one.mutation.op != "T"), key=lambda one: (one.mutation.key, one.place))
    truncates = [one.place[0] for one in seen if one.mutation.op == "T"]
    names = sorted({one.mutation.key for one in events})
    unset = [np.array([name not in one.mutation.given for one in events], np.bool_) for name in FIELDS]
    found = versions_of(
        EventColumns(
            np.array([names.index(one.mutation.key) for one in events], np.int64),
            pa.array([one.place[0] for one in events], pa.int64()),
            np.array([one.mutation.op == "D" for one in events], np.bool_),
            masks_of(unset) if events else pa.array([], pa.binary()),
            [pa.array([one.mutation.given.get(name) for one in events], pa.string()) for name in FIELDS],
        ),
        tracked,
        unknown,
        pa.array(truncates, pa.int64()),
    )
    columns = [column.to_pylist() for column in (found.starts, found.ends, found.field(0), found.field(1))]
    shown = dict[Any, list[Version]]()
    for key, start, end, a, b, ending in zip(found.keys.tolist(), *columns, found.endings.tolist(), strict=True):
        shown.setdefault(names[key], []).append(Version(start, end, (a, b), ENDINGS[ending]))
    return shown


def events_of(orders: Sequence[int], values: Sequence[str | None]) -> list[Mutation]:
    """Return all mutations; a patch of all fields is an upsert, as a row is that leaves no field unset."""
    return [one for one in mutations(orders, values) if one.op != "P" or len(one.given) < len(FIELDS)]


def of_model(place: History, tracked: Sequence[int]) -> dict[Any, list[Version]]:
    found = {key: place.versions(key, [FIELDS[one] for one in tracked]) for key in place.seen}
    return {key: own for key, own in found.items() if own}


def everything(place: History) -> list[Seen]:
    return [*itertools.chain(*place.seen.values()), *place.truncates]


@pytest.mark.parametrize("unknown", RULES)
def test_versions_of_every_few_events(unknown: str) -> None:
    every = [*events_of((1, 2), ["x", None]), *(Mutation("T", None, order) for order in (1, 2))]
    worlds = [*itertools.product(every, repeat=2)]
    small = [*events_of((1, 2, 3), ["x"]), Mutation("T", None, 2)]
    worlds += random.Random(1).sample([*itertools.product(small, repeat=3)], share(2000))
    for runs in worlds:
        place = History(FIELDS, unknown)
        for one in runs:
            place.run([one])
        for tracked in TRACKED:
            assert versions(everything(place), tracked, unknown) == of_model(place, tracked), runs


@given(st.randoms(use_true_random=False))
@law(1000)
def test_any_delivery_gives_the_same_versions_and_the_open_ones_are_the_records(rng: random.Random) -> None:
    unknown, orders = rng.choice(RULES), rng.choice([3, 8])
    every = events_of(range(1, orders), ["x", "y", None])
    world = [one._replace(key=rng.choice("klm")) for one in rng.choices(every, k=rng.randint(0, 12))]
    world += [Mutation("T", None, rng.randrange(1, orders)) for _ in range(rng.randint(0, 2))]
    places = []
    rivals = {(one.key, one.order): one for one in world}  # one of each order value, so that no sequence decides
    world = [*rivals.values()]
    for _ in range(2):
        place = History(FIELDS, unknown)
        rng.shuffle(world)
        left = [*world, *rng.sample(world, rng.randint(0, len(world)))]  # some are delivered again
        while left:
            place.run(left[: (cut := rng.randint(1, len(left)))])
            left = left[cut:]
        places.append(place)
    for tracked in TRACKED:
        found = [versions(everything(place), tracked, unknown) for place in places]
        assert found[0] == found[1] == of_model(places[0], tracked)
    records = places[0].all(RECORD)
    open_ones = {key: own[-1].values for key, own in found[0].items() if own[-1].end is None}
    assert open_ones == {key: kept.values for key, kept in records.items()}
