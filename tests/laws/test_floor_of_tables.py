"""Truncates keep the laws in a table, too: with compactions, restores and other writers in between."""

from __future__ import annotations

import ast
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mutator
from mutator import config as configuration
from mutator.dataset.versions import opening
from mutator.dataset.versions.opening import open_snapshot
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.feed_reading import files_at
from mutator.table import commit
from mutator.table.explain import explain_table
from mutator.table.runners import run_on
from mutator.table.table import Table
from tests.laws.test_floor import (
    BY_NAME,
    FIRST,
    PARTITIONS,
    RUN,
    TRUNCATED,
    State,
    cut,
    floor_in,
    lines_of,
    merged,
    world,
)
from tests.laws.test_registers import KEYS, tombstones_in
from tests.laws.toy_envelopes import Row, lowered
from tests.support import local_engine
from tests.support.effort import share
from tests.support.no_limits import NO_LIMITS
from tests.support.small_runs import known
from tests.support.versioned import left_of
from tests.table.test_changes import changes, replayed, rows_at
from tests.table.test_several_writers import PHASES, at_phase


@pytest.fixture(autouse=True)
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write one of every second version, so that they have floors."""
    monkeypatch.setattr(opening, "_EVERY", 2)


class Applied:
    """A table that begins with two records."""

    def __init__(self, work: Path, more: dict[str, str], open_runner: Any = None, dataset: Any = None) -> None:
        work.mkdir(parents=True, exist_ok=True)
        settings = {**BY_NAME, "num.reducer": "2", **more, **NO_LIMITS}
        self.work, self._open_runner, self._number = work, open_runner, 0
        self.table = Table.create(str(work / "table"), settings, dataset=dataset)
        if dataset is None:
            self.apply([(key, order, "U", content) for key, (order, content) in FIRST.items()])

    def feed(self, rows: list[Row]) -> str:
        self._number += 1
        path = self.work / f"{self._number}.csv"
        path.write_text("id,at,op,name\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
        return str(path)

    def apply(self, rows: list[Row]) -> Any:
        """Apply rows as another writer does, that has opened the table now."""
        return Table(self.table.path).apply(self.feed(rows), open_runner=self._open_runner)

    def compact(self) -> Any:
        return Table(self.table.path).compact(everything=True)

    def restored(self, rows: list[Row]) -> None:
        """Apply rows, and restore the version before."""
        before = self.table.refresh().version
        self.apply(rows)
        self.table.refresh().restore(before)

    def explained(self, key: str) -> Explanation:
        """Explain a key."""
        config = configuration.parse({**BY_NAME, **RUN})
        found = files_at([str(path) for path in self.work.glob("*.csv")], config.inputs)
        newest, path = open_snapshot(self.table.path), self.table.path
        return explain_table(newest, key, config, path, lambda _, part: found.find(part), str, found)

    @property
    def floor(self) -> int | None:
        floor = open_snapshot(self.table.path).version.floor
        return None if floor is None else int(floor)

    def left(self, *, compacted: bool = False) -> State:
        """Return the records, and the tombstones that the floor does not cover: all that there are if compacted."""
        found = left_of(open_snapshot(self.table.path), {}, width=1)
        buried = [(key[0].decode(), int(order)) for key, order in found.tombstones]
        if not compacted and self.floor is not None:
            buried = [one for one in buried if one[1] > self.floor]
        assert self.table.refresh().verify().problems == ()
        return sorted((row["id"], int(row["at"]), row["name"]) for row in found.rows), sorted(buried)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_covered_tombstone_does_not_stop_an_overwrite(compacted: bool, tmp_path: Path) -> None:
    place = Applied(tmp_path, PARTITIONS[1])
    place.apply([("b", 4, "D", "")])
    place.apply([("", 9, "T", ""), ("d", 9, "U", "x")])
    if compacted:
        assert place.compact().covered == 1

    report = place.table.refresh().insert_overwrite(place.feed([("b", 2, "U", "y")]))

    assert report.counts["feed inserted"] == 1
    assert place.left() == ([("b", 2, "y"), ("d", 9, "x")], [])


def test_an_overwrite_of_a_table_may_insert_rows_below_the_floor(tmp_path: Path) -> None:
    place = Applied(tmp_path, PARTITIONS[1])
    place.apply([("", 9, "T", ""), ("b", 9, "U", "x")])
    place.table.refresh().insert_overwrite(place.feed([("a", 3, "U", "y"), ("c", 4, "U", "y")]))
    place.apply([("a", 9, "U", "z"), ("d", 5, "U", "z"), ("c", 6, "D", ""), ("", 7, "T", "")])

    assert place.left() == ([("a", 9, "z"), ("b", 9, "x"), ("c", 4, "y")], [])
    with pytest.raises(mutator.DataError, match="has a truncate"):
        place.table.refresh().insert_overwrite(place.feed([("", 12, "T", ""), ("b", 12, "U", "x")]))


@pytest.mark.law
@pytest.mark.parametrize("more", PARTITIONS)
def test_any_cut_into_versions_gives_what_the_model_gives(more: dict[str, str], tmp_path: Path) -> None:
    rng, covered = random.Random(8), 0
    for number in range(share(20)):
        rows = world(rng)
        expected, runs = lowered(FIRST, rows), [*cut(rng, rows), rows]
        whole, one, other = (Applied(tmp_path / f"{number}" / name, more) for name in ("whole", "cut", "upkeep"))
        whole.apply(rows)
        for run in runs:
            one.apply(run)
            other.restored([("", 20, "T", ""), ("a", 30, "U", "x"), ("b", 30, "D", "")])
            other.apply(run)
            covered += other.compact().covered

        assert whole.left() == one.left() == expected
        assert other.left(compacted=True) == expected
        assert whole.floor == one.floor == other.floor == floor_in(rows)
    assert covered


def test_an_explanation_of_a_table_knows_the_floor(tmp_path: Path) -> None:
    place = Applied(tmp_path, {})
    for run in TRUNCATED:
        place.apply(run)

    def lines(key: str) -> list[str]:
        return lines_of(place.explained(key))

    found = {key: lines(key) for key in KEYS}
    place.compact()
    again = {key: lines(key) for key in KEYS}

    assert {"  truncated (below the floor)", "    upsert, order value 4: late (below the floor)"} <= {*found["a"]}
    assert "    upsert, order value 4: late (below the floor)" in found["b"]
    inserted = found["c"].index("    upsert, order value 5: inserted (nothing, upsert)")
    assert "  truncated (below the floor)" in found["c"][inserted:]
    for key in KEYS:
        assert [one for one in again[key] if "upsert," in one] == [one for one in found[key] if "upsert," in one]


def test_the_changes_of_truncates_give_the_rows(tmp_path: Path) -> None:
    place = Applied(tmp_path, PARTITIONS[1])
    for run in TRUNCATED:
        place.apply(run)
    table, ends = place.table.refresh(), range(1, place.table.version + 1)
    rows = [rows_at(table, number) for number in (0, *ends)]

    def key(text: str) -> Any:
        return ast.literal_eval(text)["id"]

    for number in ends:
        found = replayed(rows[number - 1], changes(table, number - 1, number), key)
        assert found == sorted(map(repr, rows[number]))


@pytest.mark.parametrize("more", PARTITIONS)
def test_the_floor_goes_where_the_rows_go(more: dict[str, str], tmp_path: Path) -> None:
    """From a master to a table, which is exported, and from there to a master."""
    late: list[list[Row]] = [[("a", 4, "U", "late"), ("c", 5, "U", "z")], [("d", 4, "U", "late"), ("e", 5, "D", "")]]
    settings = {**BY_NAME, **more}
    merged(tmp_path, [[("", 5, "T", ""), ("b", 6, "U", "x")]], "auto", settings)
    place = Applied(tmp_path / "place", more, dataset=str(tmp_path / "out0"))
    place.apply(late[0])
    exported = str(tmp_path / "exported")
    place.table.refresh().export(exported)
    feed = place.feed(late[1])
    local_engine.mutate({**settings, **RUN}, master=exported, feed=feed, output=str(tmp_path / "last"))

    assert known(tmp_path / "last").commit.floor == "5"
    rows = mutator.Dataset(tmp_path / "last").to_arrow().to_pylist()
    assert sorted(((row["id"], row["at"]) for row in rows), key=str) == [("b", "6"), ("c", "5")]
    assert [*tombstones_in(tmp_path / "last")] == []


def test_any_cut_on_spark_gives_one_table(sc: Any, tmp_path: Path) -> None:
    rows = [*world(random.Random(3)), ("", 6, "T", ""), ("d", 5, "U", "late")]
    place = Applied(tmp_path / "table", {}, run_on("spark"))
    place.apply(rows[:-1])
    place.apply(rows[-1:])

    assert place.left() == lowered(FIRST, rows)


@pytest.mark.law
@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("more", PARTITIONS)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_writers_that_race_give_what_the_model_gives(
    phase: str, more: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 0)
    rng = random.Random(19)
    for number in range(share(20)):
        rows = [*world(rng), ("", rng.randint(3, 9), "T", "")]
        rng.shuffle(rows)
        place = Applied(tmp_path / f"{number}", more)

        def apply_from(runs: list[list[Row]], place: Applied = place) -> None:
            """Apply a run, while another writer applies the following one, and a third one compacts."""
            with at_phase(phase, lambda: apply_from(runs[1:]) if runs[1:] else place.compact()):
                place.apply(runs[0])

        apply_from(cut(rng, rows))
        with at_phase(phase, partial(place.apply, rows[len(rows) // 2 :])):
            place.compact()

        assert place.left() == lowered(FIRST, rows)
        assert place.floor == floor_in(rows)
        place.compact()
        assert place.left(compacted=True) == lowered(FIRST, rows)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_a_truncate_outruns_a_row_below_it_or_is_outrun(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 0)
    truncate, row = [("", 5, "T", ""), ("a", 6, "U", "x")], [("c", 4, "U", "late"), ("d", 5, "U", "z")]
    for slow, fast in ((truncate, row), (row, truncate)):
        place = Applied(tmp_path / slow[0][2], {})
        with at_phase(phase, partial(place.apply, fast)):
            place.apply(slow)

        assert place.left() == ([("a", 6, "x"), ("d", 5, "z")], [])


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_a_truncate_outruns_a_full_snapshot_or_is_outrun(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 0)

    def state_after(name: str, *, snapshot_first: bool, race: bool) -> State:
        place = Applied(tmp_path / name, {})
        path = place.work / "snapshot.csv"
        path.write_text("id,at,name\na,4,x\nc,7,z\n")
        both = [
            partial(place.apply, [("", 5, "T", ""), ("d", 5, "U", "z")]),
            lambda: Table(place.table.path).apply(str(path), sync_mode="full"),
        ]
        first, second = both[::-1] if snapshot_first else both
        if race:
            with at_phase(phase, first):
                second()
        else:
            first()
            second()
        return place.left()

    for first in (False, True):
        alone, raced = (state_after(f"{first}{race}", snapshot_first=first, race=race) for race in (False, True))
        assert raced == alone


def test_a_compaction_forgets_nothing_for_a_floor_that_a_restore_lowers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 0)
    place = Applied(tmp_path / "table", {})
    place.apply([("a", 20, "U", "x"), ("b", 20, "U", "x"), ("c", 5, "D", "")])
    before = place.table.refresh().version
    place.apply([("", 9, "T", "")])

    with at_phase("commit", lambda: Table(place.table.path).restore(before)):
        place.compact()

    assert place.floor is None
    assert place.left() == ([("a", 20, "x"), ("b", 20, "x")], [("c", 5)])
