"""Truncates keep the laws: a place remembers the highest one, the floor, from run to run.

Each world is a feed of a few rows with truncates, merged at once and cut into runs; both must give what the model
gives, in a master and in a table, with compactions, restores and other writers in between.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mutator
from mutator import config as configuration
from mutator.dataset.version_log import Log
from mutator.dataset.versions import opening
from mutator.dataset.versions.opening import open_snapshot
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.feed_reading import files_at
from mutator.pipeline.explain.master import explain_master
from mutator.rules.envelopes import ENVELOPES, EnvelopeKind
from mutator.table import commit
from mutator.table.explain import explain_table
from mutator.table.runners import run_on
from mutator.table.table import Table
from tests.laws.test_registers import ENGINES, KEYS, tombstones_in
from tests.laws.toy_envelopes import Row, Truncates, lowered
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.small_runs import known
from tests.support.versioned import left_of
from tests.support.workflow_base import Place as Base
from tests.table.test_changes import changes, replayed, rows_at
from tests.table.test_several_writers import PHASES, at_phase

BY_POSITION = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "1",
    "op.code.field.ordinal": "2",
    "op.code.in.master": "false",
}
BY_NAME = {"key": "id", "order_by": "at", "op": "op", "header": "true", "ignore.op.code": "H"}
RUN = {"num.reducer": "2", "split.bytes": "60", **NO_LIMITS}
FIRST = dict.fromkeys(KEYS[:2], (3, "m"))
PARTITIONS: list[dict[str, str]] = [{}, {"partitioned.by": "name", "key.scope": "table"}]
State = tuple[list[Any], list[Any]]  # records, tombstones


@pytest.fixture(autouse=True)
def truncates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the op code T as a truncate."""
    monkeypatch.setitem(ENVELOPES, "code", EnvelopeKind(Truncates, "delete.when"))  # type: ignore[arg-type]
    monkeypatch.setattr(opening, "_EVERY", 2)  # so that checkpoints have floors


def world(rng: random.Random) -> list[Row]:
    """Return mutations, no two of a key with one order value, and truncates, some with that of a mutation."""
    rows = [
        (key, order, rng.choice("UUUD"), rng.choice("xyz"))
        for key in KEYS
        for order in rng.sample(range(1, 12), rng.randint(0, 4))
    ]
    rows += [("", order, "T", "") for order in rng.sample(range(1, 12), rng.randint(0, 2))]
    rng.shuffle(rows)
    return rows


def cut(rng: random.Random, rows: list[Row]) -> list[list[Row]]:
    """Return rows as runs, none of them empty."""
    cuts = sorted(rng.sample(range(len(rows) + 1), min(2, len(rows))))
    runs = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    return [run for run in runs if run]


def floor_in(rows: list[Row]) -> int | None:
    return max((order for _, order, op, _ in rows if op == "T"), default=None)


def merged(
    work: Path,
    runs: list[list[Row]],
    engine: str,
    settings: dict[str, str],
    on: Callable[..., Any] = local_engine.mutate,
) -> State:
    """Merge runs one after the other into a master; return its records and tombstones."""
    master = work / "master"
    master.mkdir(parents=True)
    header, suffix = ("id,at,name\n", "csv") if "key" in settings else ("", "txt")
    for key, (order, content) in FIRST.items():
        (master / f"{key}.{suffix}").write_text(f"{header}{key},{order},{content}\n")
    for number, rows in enumerate(runs):
        feed, output = work / f"feed{number}", work / f"out{number}"
        feed.mkdir()
        for part in range(2):
            lines = "".join(f"{key},{order},{op},{content}\n" for key, order, op, content in rows[part::2])
            (feed / f"f{part}.{suffix}").write_text(("id,at,op,name\n" if header else "") + lines)
        on({**settings, **RUN}, master=master, feed=feed, output=output, engine=engine)
        master = output
    found = [path for path in master.rglob("part-*") if "_mutator" not in path.parts]
    parts = [path.read_text().splitlines() for path in found]
    rows_of = [line.split(",") for lines in parts for line in lines if line + "\n" != header]
    buried = [(key[0].decode(), int(order)) for key, order, _ in tombstones_in(master)]
    return sorted((key, int(order), content) for key, order, content in rows_of), sorted(buried)


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("settings", [BY_POSITION, BY_NAME, {**BY_POSITION, "master.unique": "true"}])
@pytest.mark.parametrize("engine", ENGINES)
def test_any_cut_into_runs_gives_what_the_model_gives(engine: str, settings: dict[str, str], tmp_path: Path) -> None:
    rng = random.Random(5)
    for number in range(10):
        rows = world(rng)
        runs, expected = cut(rng, rows), lowered(FIRST, rows)
        work = tmp_path / str(number)

        assert merged(work / "whole", [rows], engine, settings) == expected
        assert merged(work / "cut", runs or [[]], engine, settings) == expected, runs
        assert merged(work / "again", [*runs, rows], engine, settings) == expected
        last = work / "again" / f"out{len(runs)}"
        assert local_engine.verify(str(last)).differences == ()
        floor = known(last).commit.floor
        assert (None if floor is None else int(floor)) == floor_in(rows)


def test_any_cut_gives_one_partitioned_master(tmp_path: Path) -> None:
    rng = random.Random(17)
    settings = {**BY_NAME, **PARTITIONS[1]}
    for number in range(5):
        rows = world(rng)
        expected = lowered(FIRST, rows)
        work = tmp_path / str(number)

        assert merged(work / "whole", [rows], "blocks", settings) == expected
        assert merged(work / "cut", [*cut(rng, rows), rows], "blocks", settings) == expected


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_any_cut_on_spark_gives_what_the_model_gives(engine: str, sc: Any, tmp_path: Path) -> None:
    rows = [*world(random.Random(3)), ("", 6, "T", ""), ("d", 5, "U", "late")]
    assert merged(tmp_path, [rows[:-1], rows[-1:]], engine, BY_POSITION, partial(mutator.mutate, sc)) == lowered(
        FIRST, rows
    )


def test_a_truncate_is_accounted_for(tmp_path: Path) -> None:
    rows = [("", 4, "T", ""), ("", 5, "T", ""), ("a", 4, "U", "x"), ("c", 4, "D", ""), ("d", 5, "U", "z")]
    reports = []

    def on(*args: Any, **more: Any) -> None:
        reports.append(local_engine.mutate(*args, **more))

    after = [[("", 5, "T", "")], [("", 3, "T", ""), ("e", 4, "U", "x")]]
    for engine in ENGINES:
        assert merged(tmp_path / engine, [rows, *after], engine, BY_POSITION, on) == ([("d", 5, "z")], [])
    for first, same, lower in (reports[:3], reports[3:]):
        assert first.changed == 3
        lines = [" ".join(line.split()) for line in first.text(verbose=True).splitlines()]
        assert {"truncate 1 tombstones 0", "delete of unknown 0 truncated 2"} <= {*lines}
        assert counted(first) == {
            "feed rows": 5,
            "feed truncate": 1,
            "feed superseded": 1,
            "feed late": 2,
            "feed inserted": 1,
            "master rows": 2,
            "master truncated": 2,
        }
        assert counted(same) == {"feed rows": 1, "feed no-op": 1, "master rows": 1, "master kept": 1}
        assert counted(lower) == {"feed rows": 2, "feed late": 2, "master rows": 1, "master kept": 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_overwrite_may_insert_rows_below_the_floor(engine: str, tmp_path: Path) -> None:
    """What it replaces counts as deleted at the floor, and it revives even newer deletes."""
    operation = {"write.operation": "apply"}

    def on(settings: Any, **more: Any) -> None:
        local_engine.mutate({**settings, **operation}, **more)
        operation["write.operation"] = "insert_overwrite_table" if "out0" in str(more["output"]) else "apply"

    runs: list[list[Row]] = [
        [("", 9, "T", ""), ("b", 9, "U", "x")],
        [("a", 3, "U", "y"), ("c", 4, "U", "y")],
        [("a", 5, "U", "z"), ("d", 5, "U", "z"), ("c", 6, "D", ""), ("", 7, "T", "")],
    ]
    assert merged(tmp_path / "all", runs, engine, BY_POSITION, on) == ([("a", 5, "z")], [])

    operation["write.operation"] = "apply"
    with pytest.raises(mutator.DataError, match=r"has a truncate \(order value 9\), and an insert"):
        merged(tmp_path / "with", [*runs[1:2], *runs[:1]], engine, BY_POSITION, on)


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
    place.apply([("a", 5, "U", "z"), ("d", 5, "U", "z"), ("c", 6, "D", ""), ("", 7, "T", "")])

    assert place.left() == ([("a", 5, "z"), ("b", 9, "x")], [])
    with pytest.raises(mutator.DataError, match="has a truncate"):
        place.table.refresh().insert_overwrite(place.feed([("", 12, "T", ""), ("b", 12, "U", "x")]))


def counted(report: Any) -> dict[str, int]:
    return {name: count for name, count in report.counts.items() if count and name.split()[0] in ("feed", "master")}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_truncate_obeys_the_limit_of_deletes(engine: str, tmp_path: Path) -> None:
    strict = {**BY_POSITION, "max.delete.fraction": "0.5"}
    with pytest.raises(mutator.DataError, match="2 of the master's 2 records"):
        merged(tmp_path, [[("", 4, "T", "")]], engine, {}, lambda _, **more: local_engine.mutate(strict, **more))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_truncate_without_an_order_value_is_a_reject(engine: str, tmp_path: Path) -> None:
    for settings in (BY_POSITION, BY_NAME):
        with pytest.raises(mutator.DataError, match="order value"):
            merged(tmp_path / str(len(settings)), [[("", "then", "T", "")]], engine, settings)  # type: ignore[list-item]


def lines_of(found: Explanation) -> list[str]:
    """Return the text of an explanation, which must give what the place has, and count as it did."""
    assert not any(step.differs for step in found.steps)
    return str(found).splitlines()


def explained(work: Path, number: int, key: str) -> list[str]:
    """Explain a key of a master after a run."""
    before = str(work / (f"out{number - 1}" if number else "master"))
    feed, config = [str(work / f"feed{number}")], configuration.parse({**BY_POSITION, **RUN})
    return lines_of(explain_master(str(work / f"out{number}"), key, config, feed, before))


TRUNCATED: list[list[Row]] = [
    [("c", 2, "D", ""), ("", 5, "T", ""), ("d", 6, "U", "x"), ("b", 4, "U", "x")],
    [("a", 4, "U", "y"), ("d", 7, "D", "")],
    [("c", 5, "U", "z"), ("", 4, "T", "")],
    [("", 8, "T", "")],  # and a tombstone is covered
]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_explanation_knows_the_floor(engine: str, tmp_path: Path) -> None:
    assert merged(tmp_path, TRUNCATED, engine, BY_POSITION) == lowered(FIRST, [row for run in TRUNCATED for row in run])
    assert "  truncated (below the floor)" in explained(tmp_path, 0, "a")
    late = "    {}, order value {}: late (below the floor)"
    assert late.format("upsert", 4) in explained(tmp_path, 0, "b")
    assert late.format("delete", 2) in explained(tmp_path, 0, "c")
    assert late.format("upsert", 4) in explained(tmp_path, 1, "a")
    assert "    upsert, order value 5: inserted (nothing, upsert)" in explained(tmp_path, 2, "c")
    assert "  truncated (below the floor)" in explained(tmp_path, 3, "c")
    for number, key in itertools.product(range(4), KEYS):
        explained(tmp_path, number, key)


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


@pytest.mark.parametrize("more", PARTITIONS)
def test_any_cut_into_versions_gives_what_the_model_gives(more: dict[str, str], tmp_path: Path) -> None:
    rng, covered = random.Random(8), 0
    for number in range(3):
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


def test_a_restore_of_a_base_brings_its_floor_back(tmp_path: Path) -> None:
    base = Base(tmp_path, {**BY_POSITION, **NO_LIMITS, "claim.min.age": "0s", "allow.empty.master": "true"})
    for number, rows in enumerate((["a,3,U,m", "b,9,U,x"], [",5,T,"], ["c,4,U,late"]), 1):
        base.arrive(f"f_{number}.txt", *rows)
        base.run()
    floors = [one.floor for one in Log(str(base.path)).all()]
    assert (floors, base.rows()) == ([None, "5", "5"], ["b,9,x"])

    base.restore(1)
    base.arrive("f_4.txt", "c,4,U,z")
    base.run()

    assert [one.floor for one in Log(str(base.path)).all()][3:] == [None, None]
    assert base.rows() == ["a,3,m", "b,9,x", "c,4,z"]


def test_any_cut_on_spark_gives_one_table(sc: Any, tmp_path: Path) -> None:
    rows = [*world(random.Random(3)), ("", 6, "T", ""), ("d", 5, "U", "late")]
    place = Applied(tmp_path / "table", {}, run_on("spark"))
    place.apply(rows[:-1])
    place.apply(rows[-1:])

    assert place.left() == lowered(FIRST, rows)


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("more", PARTITIONS)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_writers_that_race_give_what_the_model_gives(
    phase: str, more: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 0)
    rng = random.Random(19)
    for number in range(3):
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
