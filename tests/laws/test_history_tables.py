"""A table with history shows the versions that the model has, after each apply, and in each version of the table."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.file_entry import EVENTS
from mutator.table import commit
from mutator.table.table import Table
from tests.laws.test_patch_laws import FIELDS, KEYS, mutation, with_truncate, world
from tests.support import damaged_tables
from tests.support.effort import law
from tests.support.history_model import History, Version
from tests.support.patch_tables import BY_PARTITION, CSV, MOVING, VersionedTable
from tests.support.text_runs import scratch
from tests.table.test_several_writers import PHASES, at_phase

Shown = dict[str, list[Version]]


class HistoryTable(VersionedTable):
    """A table with history, and its model."""

    tracked: tuple[str, ...] = tuple(FIELDS)

    def __post_init__(self) -> None:
        self.more = {**self.more, "history": "on"}
        if self.tracked != tuple(self.fields):
            self.more["history.track"] = ",".join(self.tracked)
        super().__post_init__()
        self.model = History(self.fields, self.unknown, order_in_row=True)
        self.histories = dict[int, Shown]()

    @property
    def versions(self) -> Shown:
        """The versions that the model has."""

        def shown(one: Version) -> Version:
            values = tuple(None if value is None else CSV.text_of(value) for value in one.values)
            return one._replace(values=values)

        found = {key: [*map(shown, self.model.versions(key, self.tracked))] for key in KEYS}
        return {key: own for key, own in found.items() if own}

    def shown(self, version: int | None = None, **how: Any) -> Shown:
        """Return the versions that the table shows."""
        found = Shown()
        for row in self.table.scan(version=version, **how).to_pylist():
            assert row["is_current"] == (row["valid_to"] is None) == (row["ended"] == "open")
            start, end = (None if row[name] is None else int(row[name]) for name in ("valid_from", "valid_to"))
            values = tuple(row[name] for name in self.fields)
            found.setdefault(row["id"], []).append(Version(start, end, values, row["ended"]))
        return found

    def check(self) -> None:
        super().check()
        assert self.shown() == self.versions
        self.histories[self.table.version] = self.versions

    def check_at_times(self, rng: random.Random) -> None:
        """Check what held at some times, as of some versions of the table."""
        for number, found in rng.sample([*self.histories.items()], min(len(self.histories), 3)):
            assert self.shown(number) == found
            at = rng.randint(0, 21)
            held = {
                key: [one for one in own if one.start <= at and (one.end is None or one.end > at)]
                for key, own in found.items()
            }
            assert self.shown(number, valid_at=at) == {key: own for key, own in held.items() if own}
        records = {key: kept[1] for key, kept in self.expected.items()}
        current = self.table.scan(current=True).to_pylist()
        assert {row["id"]: tuple(row[name] for name in self.fields) for row in current} == records

    def compact(self) -> None:
        super().compact()
        assert not [*self.table.snapshot.of_role(EVENTS)]

    def apply_and_restore(self, rng: random.Random) -> None:
        version = self.table.version
        self.apply(self.feed([mutation(rng, 20) for _ in range(4)], rng))
        self.table.restore(version)
        self.check()


@pytest.mark.parametrize("settings", [{}, BY_PARTITION, MOVING], ids=["plain", "partitions", "moving"])
@given(rng=st.randoms(use_true_random=False))
@law(60)
def test_a_table_shows_the_versions_of_the_model(settings: dict[str, str], rng: random.Random) -> None:
    master, runs = world(rng)
    runs = [with_truncate(rng, rows) if rng.random() < 0.3 else rows for rows in runs]
    tracked = tuple(FIELDS) if rng.random() < 0.5 else tuple(rng.sample(FIELDS, rng.randint(1, len(FIELDS) - 1)))
    with scratch() as work, damaged_tables.small_files() if rng.random() < 0.3 else nullcontext():
        kind = type("Tracked", (HistoryTable,), {"tracked": tracked})
        place = kind(work, FIELDS, settings, rng.choice(["insert", "wait"]))
        for rows in filter(None, [master, *runs]):
            place.run(rows, rng)
            for step in rng.sample([place.compact, lambda: place.apply_and_restore(rng)], rng.randint(0, 2)):
                step()
        place.check_at_times(rng)
        place.check_versions()


@given(rng=st.randoms(use_true_random=False))
@law(30)
def test_writers_that_race_leave_the_events_of_both(rng: random.Random) -> None:
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "_PATIENCE", 0)
        place = HistoryTable(work, FIELDS, {}, rng.choice(["insert", "wait"]))
        place.run([mutation(rng, 8) for _ in range(rng.randint(1, 8))], rng)
        for _ in range(rng.randint(1, 3)):
            faster, slower = ([mutation(rng, 8) for _ in range(rng.randint(1, 8))] for _ in range(2))
            first, second = place.feed(faster, rng), place.feed(slower, rng)
            kind, phase = rng.choice(["applies", "compaction first", "apply first"]), rng.choice(PHASES[:3])
            if kind == "applies":
                with at_phase(phase, lambda files=first: place.apply(files)):
                    place.apply(second)
                place.model.run(faster)
            elif kind == "compaction first":  # it does not see the events
                with at_phase(phase, lambda: Table(place.table.path).compact(everything=True)):
                    place.apply(second)
            else:
                with at_phase("commit", lambda files=second: place.apply(files)):
                    Table(place.table.path).compact(everything=True)
            place.model.run(slower)
            place.check()
        place.check_versions()
