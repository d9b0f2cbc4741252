"""Snapshots as of a time keep the laws: with deltas and truncates between them, in any order and any number of times.

A snapshot as of S is a truncate at S, and upserts of its rows at the higher of their own order value and S.
"""

from __future__ import annotations

import itertools
import random
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mutator
from mutator.config import parse
from mutator.pipeline.explain.master import explain_master
from mutator.table import commit
from mutator.table.table import Table
from tests.laws.test_floor import BY_NAME, CODES, FIRST, PARTITIONS, RUN, State, lines_of
from tests.laws.test_floor_of_tables import Applied
from tests.laws.test_registers import ENGINES, KEYS, tombstones_in
from tests.laws.toy_envelopes import Row, lowered
from tests.support import local_engine
from tests.support.effort import share
from tests.support.named_runs import Work
from tests.support.no_limits import NO_LIMITS
from tests.support.small_runs import known
from tests.table.test_several_writers import PHASES, at_phase

FULL = {"key": "id", "order_by": "at", "header": "true", "sync.mode": "full"}


class Feed(NamedTuple):
    """The feed of a run: a delta with truncates, or a snapshot, whose time is in a field if it is odd."""

    rows: list[Row]
    as_of: int | None = None  # of a snapshot

    @property
    def stated(self) -> str:
        return "field:taken" if self.as_of is not None and self.as_of % 2 else str(self.as_of)

    @property
    def settings(self) -> dict[str, str]:
        return BY_NAME if self.as_of is None else {**FULL, "snapshot.as.of": self.stated}

    @property
    def arguments(self) -> dict[str, str]:
        return {} if self.as_of is None else {"sync_mode": "full", "snapshot_as_of": self.stated}

    def write(self, path: Path) -> str:
        full = self.as_of is not None
        taken = ("taken,", f"{self.as_of},") if self.stated == "field:taken" else ("", "")
        lines = (f"{key},{taken[1]}{at}{'' if full else f',{op}'},{name}" for key, at, op, name in self.rows)
        path.write_text("\n".join([f"id,{taken[0]}at,name" if full else "id,at,op,name", *lines, ""]))
        return str(path)

    def expanded(self) -> list[tuple[str, int, str, Any]]:
        """Return the mutations that the model takes; the content is (own order value, name)."""
        least = -1 if self.as_of is None else self.as_of
        rows = [(key, max(at, least), op, (at, name)) for key, at, op, name in self.rows]
        return rows if self.as_of is None else [*rows, ("", self.as_of, "T", "")]


def feeds(rng: random.Random) -> list[Feed]:
    """Return feeds in any order, in which no two different mutations of a key have one order value."""
    times = rng.sample(range(1, 16), 3)
    # A row below the time of a snapshot counts as one at it.
    left = {key: rng.sample([one for one in range(1, 16) if one not in (3, *times)], 11) for key in KEYS}
    found = []
    for as_of in times[: rng.randint(1, 3)]:
        rows = [(key, left[key].pop(), "U", rng.choice("xyz")) for key in KEYS if rng.random() < 0.6]
        found.append(Feed(rows or [("a", as_of, "U", "x")], as_of))
    for _ in range(rng.randint(1, 3)):
        rows = [(key, left[key].pop(), rng.choice("UUUD"), rng.choice("xyz")) for key in KEYS if rng.random() < 0.6]
        rows += [("", rng.randint(1, 15), "T", "")] * (rng.random() < 0.3)
        found.append(Feed(rows or [("b", left["b"].pop(), "D", "")]))
    rng.shuffle(found)
    return found


def model(runs: list[Feed]) -> State:
    """Return the records, with their own order values, and the tombstones."""
    first: Any = {key: (order, (order, name)) for key, (order, name) in FIRST.items()}
    records, buried = lowered(first, [row for feed in runs for row in feed.expanded()])
    return sorted((key, *content) for key, _, content in records), buried


@pytest.mark.law
def test_by_file_names_a_snapshot_is_as_of_its_sequence(tmp_path: Path) -> None:
    rng, whole = random.Random(14), {"key": "id", "header": "true", "sync.mode": "full", "snapshot.as.of": "sequence"}
    settings = {"full": whole, "delta": {"key": "id", "header": "true", **CODES}}
    for number, engine in itertools.product(range(share(30)), ENGINES):
        work, rows = tmp_path / f"{number}{engine}", list[Any]()
        files = [(sequence, rng.choice(["full", "delta", "delta"])) for sequence in rng.sample(range(1, 9), 4)]
        master = work / "master"
        master.mkdir(parents=True)
        (master / "m_0.csv").write_text("id,name\na,m\n")
        for run, (sequence, kind) in enumerate(files):
            own = [(key, rng.choice("UUD") if kind == "delta" else "U", rng.choice("xy")) for key in KEYS[: run + 1]]
            own += [("", "T", "")] * (kind == "delta" and rng.random() < 0.3)
            lines = [f"{key},{op},{name}" if kind == "delta" else f"{key},{name}" for key, op, name in own]
            path = work / f"f_{sequence}.csv"
            path.write_text("\n".join(["id,op,name" if kind == "delta" else "id,name", *lines, ""]))
            output = work / f"out{run}"
            local_engine.mutate({**settings[kind], **RUN}, master=master, feed=path, output=output, engine=engine)
            rows += [(key, sequence, op, name) for key, op, name in own]
            rows += [("", sequence, "T", "")] * (kind == "full")
            master = output
        records, buried = lowered({"a": (0, "m")}, rows)
        found = mutator.Dataset(master).to_arrow().to_pylist()
        assert sorted((row["id"], row["name"]) for row in found) == [(key, name) for key, _, name in records], files
        assert sorted((key[0].decode(), int(order)) for key, order, _ in tombstones_in(master)) == buried


def merged(work: Path, runs: list[Feed], engine: str, more: dict[str, str], on: Any = local_engine.mutate) -> State:
    """Merge runs one after the other into a master; return its records and tombstones."""
    master = work / "master"
    master.mkdir(parents=True)
    lines = "".join(f"{key},{at},{name}\n" for key, (at, name) in FIRST.items())
    (master / "m.csv").write_text(f"id,at,name\n{lines}")
    for number, feed in enumerate(runs):
        output, path = work / f"out{number}", feed.write(work / f"f{number}.csv")
        on({**feed.settings, **more, **RUN}, master=master, feed=path, output=output, engine=engine)
        master = output
    found = mutator.Dataset(master).to_arrow().to_pylist()
    assert local_engine.verify(str(master)).differences == ()
    buried = [(key[0].decode(), int(order)) for key, order, _ in tombstones_in(master)]
    return sorted((row["id"], int(row["at"]), row["name"]) for row in found), sorted(buried)


@pytest.mark.law
@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize(("engine", "more"), [*((engine, {}) for engine in ENGINES), ("auto", PARTITIONS[1])])
def test_any_order_of_runs_gives_what_the_model_gives(engine: str, more: dict[str, str], tmp_path: Path) -> None:
    rng = random.Random(11)
    for number in range(share(40)):
        runs = feeds(rng)
        again = rng.sample(runs, 2)
        expected, work = model(runs), tmp_path / str(number)

        assert merged(work / "once", runs, engine, more) == expected, runs
        assert merged(work / "again", [*runs, *again], engine, more) == expected, (runs, again)
        floor = known(work / "again" / f"out{len(runs) + 1}").commit.floor
        assert int(floor or 0) == max(order for feed in runs for _, order, op, _ in feed.expanded() if op == "T")


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_explanation_gives_what_each_run_gives(engine: str, tmp_path: Path) -> None:
    rng, outcomes, lines = random.Random(13), set[Any](), set[Any]()
    for number in range(4):
        runs, work = feeds(rng), tmp_path / str(number)
        merged(work, runs, engine, {})
        for at, feed in enumerate(runs):
            config = parse({**feed.settings, **RUN})
            before = str(work / (f"out{at - 1}" if at else "master"))
            for key in KEYS:
                found = explain_master(str(work / f"out{at}"), key, config, [str(work / f"f{at}.csv")], before)
                lines_of(found)
                decided = [one for step in found.steps for one in step.decided.values()]
                lines |= {last.line for last in decided if last.outcomes and last.outcomes[-1].outcome == "late"}
                outcomes |= {one.outcome for last in decided for one in last.outcomes if feed.as_of is not None}
    assert {"inserted", "updated", "late"} <= outcomes
    assert {"below the floor", "record > upsert"} <= lines


@pytest.mark.law
@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("more", PARTITIONS)
def test_any_order_of_versions_gives_what_the_model_gives(more: dict[str, str], tmp_path: Path) -> None:
    rng = random.Random(12)
    for number in range(share(20)):
        runs = feeds(rng)
        place = Applied(tmp_path / f"{number}", more)
        for at, feed in enumerate([*runs, *rng.sample(runs, 2)]):
            path = feed.write(place.work / f"feed{at}.csv")
            Table(place.table.path).apply(path, **feed.arguments)
            if rng.random() < 0.3:
                place.compact()

        for key in KEYS:
            lines_of(place.explained(key))
        place.compact()
        assert place.left(compacted=True) == model(runs), runs


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_a_snapshot_outruns_a_delta_or_is_outrun(phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 0)
    snapshot, delta = (
        Feed([("b", 2, "U", "x"), ("c", 9, "U", "x")], 5),
        Feed([("b", 4, "U", "late"), ("d", 8, "U", "z")]),
    )
    older = Feed([("b", 1, "U", "late"), ("a", 7, "U", "y")], 3)
    for number, (slow, fast) in enumerate(itertools.permutations((snapshot, delta, older), 2)):
        place = Applied(tmp_path / f"{number}", {})

        def apply(feed: Feed, place: Applied = place) -> None:
            path = feed.write(place.work / f"{feed.as_of}.csv")
            Table(place.table.path).apply(path, **feed.arguments)

        with at_phase(phase, partial(apply, fast)):
            apply(slow)
        assert place.left() == model([slow, fast])


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_snapshot_as_of_a_time_on_spark(engine: str, sc: Any, tmp_path: Path) -> None:
    runs = [*feeds(random.Random(15)), Feed([("a", 2, "U", "late")])]
    assert merged(tmp_path, runs, engine, {}, partial(mutator.mutate, sc)) == model(runs)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("order_type", ["decimal", "timestamp", "string"])
def test_a_snapshot_is_as_of_a_value_of_each_type(order_type: str, engine: str, tmp_path: Path) -> None:
    def text(at: int) -> str:
        return {"decimal": f"{at}.50", "timestamp": f"2026-01-{at:02}", "string": f"{at:02}"}[order_type]

    runs: list[tuple[dict[str, str], list[tuple[str, int, str]]]] = [
        ({}, [("a", 3, "m"), ("b", 9, "m")]),
        ({"sync.mode": "full", "snapshot.as.of": text(7)}, [("c", 2, "x")]),
        ({}, [("c", 6, "late"), ("d", 7, "y")]),
    ]
    master = tmp_path / "none"
    for number, (more, rows) in enumerate(runs):
        path, output = tmp_path / f"{number}.csv", tmp_path / f"out{number}"
        path.write_text("id,at,name\n" + "".join(f"{key},{text(at)},{name}\n" for key, at, name in rows))
        settings = {
            "key": "id",
            "order_by": "at",
            "order_type": order_type,
            "allow.empty.master": "true",
            **more,
            **RUN,
        }
        local_engine.mutate({**settings, **RUN}, master=master, feed=path, output=output, engine=engine)
        master = output

    found = mutator.Dataset(master).to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in found) == [("b", "m"), ("c", "x"), ("d", "y")]


@pytest.mark.parametrize("engine", ENGINES)
def test_order_values_beside_rows_stay_those_of_the_rows(engine: str, tmp_path: Path) -> None:
    settings = {"key": "id", "order_by": "at", "header": "true", "order.keep": "false", **RUN}
    more = {"sync.mode": "full", "snapshot.as.of": "9"}
    for number, (rows, own) in enumerate((("a,1,x\n", {"allow.empty.master": "true"}), ("a,2,x\nb,3,y\n", more))):
        feed = tmp_path / f"f{number}.csv"
        feed.write_text(f"id,at,name\n{rows}")
        places = {"master": tmp_path / f"m{number}", "feed": feed, "output": tmp_path / f"m{number + 1}"}
        local_engine.mutate({**settings, **own}, **places, engine=engine)
    found = [explain_master(str(tmp_path / "m2"), key, parse(settings)) for key in "ab"]
    orders = [one.now[None].order for one in found if one.now is not None]
    assert orders == [2, 3]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"snapshot.as.of": "9", "order.max": "8"}, "it is above order.max=8"),
        ({"snapshot.as.of": "soon"}, "as an order value of type long, it is not an integer"),
        ({"snapshot.as.of": "sequence"}, "no number is in the names of the feed files"),
        ({"snapshot.as.of": "sequence", "order_type": "string"}, "no number is in"),
        ({"snapshot.as.of": "5", "order_by": "at, id"}, "of type long, long, and it needs one order field"),
        ({"snapshot.as.of": "5", "order_type": "desc"}, "of type long desc, and it needs one order field"),
        ({"snapshot.as.of": "5", "order_by": ""}, "order comes from file names; set it to sequence"),
    ],
)
def test_what_a_snapshot_cannot_be_as_of(more: dict[str, str], message: str, tmp_path: Path) -> None:
    feed, master = tmp_path / ("s_1.csv" if "order_by" in more else "s.csv"), tmp_path / "master"
    feed.write_text("id,at\na,soon\n")  # a reject, if it is read
    settings = {**FULL, "allow.empty.master": "true", **more, **RUN}
    with pytest.raises(mutator.ConfigError, match=message):
        local_engine.mutate(settings, master=master, feed=feed, output=tmp_path / "out")


@pytest.mark.parametrize("as_of", ["1427761080000", "4027761080"])
def test_a_time_in_another_unit_or_in_the_future_is_noticed(as_of: str, tmp_path: Path) -> None:
    """All rows of later deltas would be late."""
    feed = tmp_path / "s.csv"
    feed.write_text("id,at\na,1427761080\n")
    places: dict[str, Any] = {"master": tmp_path / "master", "feed": feed, "output": tmp_path / "out"}
    settings = {**FULL, "snapshot.as.of": as_of, "allow.empty.master": "true", **RUN}
    if as_of.endswith("000"):
        with pytest.raises(mutator.DataError, match=r"milliseconds in snapshot\.as\.of, such as 1427761080000"):
            local_engine.mutate(settings, **places)
        return
    warnings = local_engine.mutate(settings, **places).warnings
    assert any(line.startswith("snapshot.as.of is in the future, '4027761080'") for line in warnings)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_are_newer_than_their_snapshot_are_a_warning(engine: str, tmp_path: Path) -> None:
    """The time may be that of another year: then records that are gone from the source stay."""
    feed = tmp_path / "feed"
    feed.mkdir()
    (feed / "one.csv").write_text("id,at\na,2026-01-05\nb,2026-01-31\n")
    (feed / "two.csv").write_text("id,at\nc,2025-01-31\nd,2026-01-03\n")
    settings = {**FULL, "order_type": "timestamp", "allow.empty.master": "true", "num.reducer": "2", **RUN}
    for year, said in (("2025", ["3 rows of the snapshot are newer, from '2026-01-03T00:00:00"]), ("2026", [])):
        places: dict[str, Any] = {"master": tmp_path / "none", "feed": feed, "output": tmp_path / year}
        report = local_engine.mutate({**settings, "snapshot.as.of": f"{year}-01-31"}, engine=engine, **places)
        warned = [one for one in report.warnings if one.startswith("snapshot.as.of is '")]
        assert len(warned) == len(said)
        assert all(text in one for text, one in zip(said, warned, strict=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_snapshot_as_of_no_time_below_a_floor_is_a_warning(engine: str, tmp_path: Path) -> None:
    """Its rows are late, so the result is not the snapshot."""
    work = Work(tmp_path, engine, {"key": "id", "order_by": "at", "header": "true", "allow.empty.master": "true"})
    (tmp_path / "master").mkdir()
    first = work.put("first/a.csv", b"op,id,at,n\nI,1,5,a\nI,2,12,b\nT,,10,\n")
    full = work.put("full/b.csv", b"id,at,n\n1,5,a\n2,13,b\n3,3,x\n")
    marks, snapshot = {"op": "op", "truncate.op.code": "T"}, {"sync.mode": "full"}
    work.run(marks, feed="first")
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", "header": "true", **NO_LIMITS})
    table.apply(str(first), op="op", truncate_op_code="T")
    late = "2 rows of the snapshot are late, so the result lacks them: {} has the floor '10'"
    for report, place in (
        (work.run(snapshot, master="out1", feed="full"), "the master"),
        (table.apply(str(full), sync_mode="full"), "the table"),
    ):
        assert [one.startswith(late.format(place)) for one in report.warnings] == [True]
    assert work.run({**snapshot, "snapshot.as.of": "13"}, master="out1", feed="full").warnings == ()
    assert len(work.rows()) == 3
