"""Epochs keep the laws: a mutation of a later epoch is newer than each of an earlier one, in whichever run it comes.

The order values of each epoch begin again, and a world has mutations of several epochs. A run has those of one epoch,
or, where the rows name their source, of any.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mutator
from mutator.cli import main
from mutator.config import parse
from mutator.dataset.versions.opening import open_snapshot
from mutator.pipeline.explain.master import explain_master
from mutator.plan.inspect import envelopes
from mutator.rules.order_tuples import decode, encode, epoch_of
from mutator.table import commit
from mutator.table.table import Table
from tests.laws.test_floor import PARTITIONS, RUN, cut, world
from tests.laws.test_registers import ENGINES, tombstones_in
from tests.laws.toy_envelopes import Row, lowered
from tests.support import local_engine
from tests.support.effort import share
from tests.support.small_runs import known
from tests.support.versioned import left_of
from tests.support.workflow_base import Place as Base
from tests.table.test_several_writers import PHASES, at_phase

EMPTY = {"allow.empty.master": "true", "op": "op", "truncate.op.code": "T", "output.format": "csv"}
BESIDE = {"key": "id", "order_by": "at", "order.keep": "false", **EMPTY}
WITH_POSITION = {"key": "id", "order_by": "at,file.position", "order_type": "long", "order.check": "false", **EMPTY}
TEXT = {"key": "0", "order_by": "1,file.position", "op": "2", "truncate.op.code": "T", "field.count": "4"}
TEXT |= {"header": "1", "allow.empty.master": "true", "op.code.in.master": "false"}
SERVERS = {"key": "id", "feed.dialect": "debezium-json", "allow.empty.master": "true", "output.format": "csv"}
MOST = 100  # of the order values of an epoch
Run = tuple[int, list[Row]]  # epoch, rows


def runs_of(rng: random.Random, epochs: int = 3) -> tuple[list[Run], tuple[list[Any], list[Any]]]:
    """Return runs, the first one of the first epoch, and what all mutations leave: records, and keys of tombstones."""
    worlds = [world(rng) for _ in range(epochs)]
    runs = [(epoch, rows) for epoch, one in enumerate(worlds) for rows in cut(rng, one)]
    rng.shuffle(runs)
    runs.sort(key=lambda run: run[0] != 0)
    first, *rest = runs
    rng.shuffle(rest)
    everything = [
        (key, epoch * MOST + order, op, name) for epoch, one in enumerate(worlds) for key, order, op, name in one
    ]
    records, buried = lowered({}, everything)
    return [first, *rest], (sorted((key, name) for key, _, name in records), buried)


def csv(rows: list[Row]) -> str:
    return "id,at,op,name\n" + "".join(f"{key},{order},{op},{name}\n" for key, order, op, name in rows)


def message(server: int, row: Row) -> str:
    """Return a message of Debezium from a server."""
    key, order, op, name = row
    image = {"id": key, "name": name}
    source = {"connector": "mysql", "db": "d", "table": "t", "server_id": server, "file": "log.000001", "pos": order}
    images = {"before": image if op == "D" else None, "after": None if op in "DT" else image}
    return json.dumps({**images, "source": source, "op": {"U": "u"}.get(op, op.lower())})


def merged(
    work: Path, runs: list[Run], settings: dict[str, str], engine: str, on: Callable[..., Any] = local_engine.mutate
) -> tuple[list[Any], list[Any]]:
    """Merge runs, each with its epoch; return the records, and the tombstones with their order values."""
    output = work / "none"
    for number, (epoch, rows) in enumerate(runs):
        master, output = output, work / f"out{number}"
        feed = work / f"feed{number}"
        feed.mkdir(parents=True)
        suffix = "txt" if settings["key"] == "0" else "csv"
        for part in range(2):
            (feed / f"f{number}{part}_{number}.{suffix}").write_text(csv(rows[part::2]))
        own = {**settings, "order.epoch": str(epoch), **RUN}
        on(own, master=master, feed=feed, output=output, engine=engine)
    assert local_engine.verify(str(output)).differences == ()
    floor, buried = known(output).commit.floor, sorted(map(buried_of, tombstones_in(output)))
    if floor is not None and "file.position" in settings["order_by"]:
        # There, a delete with the value of a truncate is above it, as its position is a part of its order.
        covered = buried_of(((b"",), floor.encode(), 0))[1]
        buried = [one for one in buried if one[1] != covered]
    return records_of(output), buried


def records_of(output: Path) -> list[Any]:
    found = [path for path in output.rglob("part-*") if "_mutator" not in path.parts]
    lines = [line.split(",") for path in found for line in path.read_text().splitlines()]
    return sorted((line[0], line[-1]) for line in lines if line[0] != "id")


def buried_of(tombstone: Any) -> tuple[str, int]:
    key, order, _ = tombstone
    encoded = bytes.fromhex(order.decode())
    return key[0].decode(), epoch_of(encoded) * MOST + decode(encoded)[0]


@pytest.mark.law
@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("settings", [BESIDE, TEXT, WITH_POSITION, {**BESIDE, **PARTITIONS[1]}])
@pytest.mark.parametrize("engine", ENGINES)
def test_runs_of_epochs_in_any_order_give_what_the_model_gives(
    engine: str, settings: dict[str, str], tmp_path: Path
) -> None:
    if engine == "records" and "partitioned.by" in settings:
        engine = "blocks"
    rng = random.Random(7)
    for number in range(share(20)):
        runs, expected = runs_of(rng)

        assert merged(tmp_path / f"{number}", runs, settings, engine) == expected, runs
        assert merged(tmp_path / f"{number}" / "again", [*runs, *runs], settings, engine) == expected, runs


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("engine", ENGINES)
def test_epochs_on_spark_give_what_the_model_gives(engine: str, sc: Any, tmp_path: Path) -> None:
    runs, expected = runs_of(random.Random(4), 2)
    assert merged(tmp_path, runs, BESIDE, engine, partial(mutator.mutate, sc)) == expected


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_servers_cut_in_any_way_give_what_the_model_gives(engine: str, tmp_path: Path) -> None:
    """A run has rows of several servers, whose epochs are those that the first run names."""
    rng = random.Random(11)
    for number in range(2):
        worlds = [world(rng) for _ in range(3)]
        rows = [(epoch, row) for epoch, one in enumerate(worlds) for row in one]
        rng.shuffle(rows)
        output = tmp_path / f"{number}" / "none"
        for turn, part in enumerate((rows[::2], rows[1::2], rows)):
            master, output = output, tmp_path / f"{number}" / f"out{turn}"
            feed = tmp_path / f"{number}" / f"f{turn}.json"
            feed.parent.mkdir(exist_ok=True)
            feed.write_text("\n".join(message(11 + epoch, row) for epoch, row in part))
            ranked = {"order.epoch": "11:0, 12:1, 13:2"} if turn == 0 else {}
            settings = {**SERVERS, **ranked, **RUN}
            local_engine.mutate(settings, master=master, feed=feed, output=output, engine=engine)
        everything = [(key, epoch * MOST + order, op, name) for epoch, (key, order, op, name) in rows]
        records, buried = lowered({}, everything)

        assert records_of(output) == sorted((key, name) for key, _, name in records)
        orders = {
            (key[0].decode(), tuple(decode(bytes.fromhex(text.decode())))) for key, text, _ in tombstones_in(output)
        }
        assert orders == {(key, (order // MOST, 1, order % MOST, None)) for key, order in buried}


class Applied:
    """A table of mutations of several epochs."""

    def __init__(self, work: Path, more: dict[str, str]) -> None:
        settings = {**BESIDE, "order.epoch": "0", "num.reducer": "2", **more, **RUN}
        del settings["output.format"], settings["allow.empty.master"]
        work.mkdir(parents=True)
        self.work, self._number, self.table = work, 0, Table.create(str(work / "table"), settings)

    def apply(self, run: Run) -> Any:
        self._number += 1
        path = self.work / f"{self._number}.csv"
        path.write_text(csv(run[1]))
        return Table(self.table.path).apply(str(path), order_epoch=run[0])

    def left(self) -> tuple[list[Any], list[Any]]:
        found = left_of(open_snapshot(self.table.path), {}, width=1)
        assert self.table.refresh().verify().problems == ()
        floor = open_snapshot(self.table.path).version.floor
        covered = -1 if floor is None else buried_of(((b"",), floor.encode(), 0))[1]
        buried = [buried_of((*one, None)) for one in found.tombstones]
        return sorted((row["id"], row["name"]) for row in found.rows), sorted(one for one in buried if one[1] > covered)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("more", PARTITIONS)
def test_versions_of_epochs_in_any_order_give_what_the_model_gives(more: dict[str, str], tmp_path: Path) -> None:
    rng = random.Random(3)
    for number in range(2):
        runs, expected = runs_of(rng)
        one, other = (Applied(tmp_path / f"{number}" / name, more) for name in ("one", "upkeep"))
        for run in runs:
            one.apply(run)
            other.apply(run)
            before = other.table.refresh().version
            other.apply((9, [("a", 1, "U", "z"), ("", 1, "T", "")]))
            other.table.refresh().restore(before)
            other.table.refresh().compact(everything=True)

        assert one.left() == other.left() == expected, runs


@pytest.mark.parametrize("phase", PHASES[:3])
def test_a_writer_of_a_new_epoch_and_one_without_give_the_serial_order(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``order.epoch`` a run is of the newest epoch of the version that it follows."""
    monkeypatch.setattr(commit, "_PATIENCE", 0)
    place = Applied(tmp_path / "place", {})
    place.apply((0, [("a", 9, "U", "x"), ("b", 9, "U", "x")]))
    (tmp_path / "last.csv").write_text(csv([("a", 5, "U", "y"), ("b", 2, "U", "late")]))
    with at_phase(phase, partial(place.apply, (1, [("a", 1, "U", "z"), ("b", 3, "U", "z")]))):
        Table(place.table.path).apply(str(tmp_path / "last.csv"))

    assert place.left() == ([("a", "y"), ("b", "z")], [])


def test_an_explanation_knows_the_epoch_of_each_run(tmp_path: Path) -> None:
    runs = [(0, [("a", 9, "U", "x")]), (1, [("a", 2, "U", "y")]), (0, [("a", 10, "U", "z")]), (1, [("a", 3, "D", "")])]
    merged(tmp_path, runs, BESIDE, "auto")
    config = parse({**BESIDE, **RUN})
    feed = [str(tmp_path / f"feed{number}") for number in range(4)]
    found = explain_master(str(tmp_path / "out3"), "a", config, feed=feed)
    text = "\n".join(
        line for line in map(str.strip, found.text().splitlines()) if line.startswith(("upsert", "delete"))
    )

    assert [line.partition(":")[0] for line in text.splitlines()] == [
        "upsert, order value [9]",
        "upsert, order value epoch 1 [2]",
        "upsert, order value [10]",
        "delete, order value epoch 1 [3]",
    ]


def test_a_snapshot_is_as_of_a_time_of_its_epoch(tmp_path: Path) -> None:
    merged(tmp_path, [(0, [("a", 9, "U", "x"), ("b", 9, "U", "x")]), (1, [("c", 5, "U", "x")])], BESIDE, "auto")
    feed = tmp_path / "s.csv"
    feed.write_text("id,at,name\nb,1,y\n")
    settings = {"key": "id", "sync.mode": "full", "snapshot.as.of": "4", **RUN}
    local_engine.mutate(settings, master=tmp_path / "out1", feed=feed, output=tmp_path / "last")

    assert records_of(tmp_path / "last") == [("b", "y"), ("c", "x")]
    floor = known(tmp_path / "last").commit.floor
    assert floor is not None
    assert (epoch_of(bytes.fromhex(floor)), decode(bytes.fromhex(floor))) == (1, [4])
    given = [*(str(tmp_path / f"feed{number}") for number in range(2)), str(feed)]
    found = explain_master(str(tmp_path / "last"), "b", parse({**BESIDE, **RUN}), feed=given)
    assert "upsert, order value epoch 1 [1], in a snapshot as of epoch 1 [4]" in found.text()


def test_a_new_server_stops_the_run_until_it_is_ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(number: int, rows: list[tuple[int, Row]], **more: str) -> Any:
        feed = tmp_path / f"{number}.json"
        feed.write_text("\n".join(message(server, row) for server, row in rows))
        places = {"master": tmp_path / f"m{number}", "feed": feed, "output": tmp_path / f"m{number + 1}"}
        return local_engine.mutate({**SERVERS, **RUN, **more}, **places)

    both = [(22, ("a", 9, "U", "x")), (11, ("a", 1, "U", "y"))]
    for given in ({}, {"order.epoch": "1"}):
        with pytest.raises(mutator.StateError, match=r": 11, 22.*order.epoch=11:0,22:1 .*=11:1,22:0 .*=11:0,22:0 if"):
            run(0, both, **given)
    for given, proposed in (("22:1", "11:0,22:1"), ("11:1,33:0", "22:0,33:1,11:2")):
        with pytest.raises(mutator.StateError, match=f"order.epoch={proposed} "):
            run(0, both, **{"order.epoch": given})
    run(0, both, **{"order.epoch": "11:1,22:0"})
    assert records_of(tmp_path / "m1") == [("a", "y")]
    shutil.rmtree(tmp_path / "m1")
    run(0, [(0, ("a", 8, "U", "snapshot")), (11, ("a", 9, "U", "x"))])
    with pytest.raises(mutator.StateError, match=r"rows of source 22, and others are of 11.*22:1.*22:0"):
        run(1, [(22, ("a", 1, "U", "y"))])
    with pytest.raises(
        mutator.StateError, match=r"rows of source 22, 33, and others are of 11.*=22:1,33:2;.*=22:0,33:0"
    ):
        run(1, [(server, ("a", 1, "U", "y")) for server in (33, 22)], **{"order.epoch": "1"})
    monkeypatch.setattr(envelopes, "_ROWS", 1)
    mixed = [(11, ("a", 1, "U", "late")), (22, ("a", 1, "U", "y"))]
    with pytest.raises(
        mutator.DataError, match=r"is of server 22, which is not one of those.*order.epoch=11:0,22:1 if"
    ):
        run(1, mixed)
    run(1, mixed, **{"order.epoch": "22:1"})
    run(2, [(22, ("b", 1, "U", "z")), (11, ("a", 99, "U", "late"))])
    with pytest.raises(
        mutator.StateError, match=r"order.epoch=2 does not say.* 11, 22; .*=2,11:0,22:2. Now .*=11:0,22:1"
    ):
        run(3, [(22, ("b", 0, "U", "restored"))], **{"order.epoch": "2"})

    assert records_of(tmp_path / "m3") == [("a", "y"), ("b", "z")]


@pytest.mark.parametrize("form", ["{}", "11:{}"])
def test_a_late_file_of_before_a_restore_lowers_no_epoch(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source keeps its name: the number alone is its epoch, as with the name, and a lower one is of one run."""
    turns = [
        (None, ("a", 90, "U", "before"), "before"),
        (1, ("a", 5, "U", "restored"), "restored"),
        (None, ("a", 6, "U", "later"), "later"),
        (0, ("a", 95, "U", "late"), "later"),
        (None, ("a", 7, "U", "last"), "last"),
    ]
    for number, (epoch, row, left) in enumerate(turns):
        feed, output = tmp_path / f"{number}.json", tmp_path / f"m{number + 1}"
        feed.write_text(message(11, row))
        given = {} if epoch is None else {"order.epoch": form.format(epoch)}
        places = {"master": tmp_path / f"m{number}", "feed": feed, "output": output}
        report = local_engine.mutate({**SERVERS, **given, **RUN}, **places)
        assert records_of(output) == [("a", left)]
        assert ("later runs are of 1 again" in " ".join(report.warnings)) == (epoch == 0)
    given = [str(tmp_path / f"{number}.json") for number in range(5)]
    assert main(["explain", str(tmp_path / "m5"), "a", "--feed", *given]) == 0
    lines = map(str.strip, capsys.readouterr().out.splitlines())
    shown = [line.split(",")[1].strip() for line in lines if line.startswith("upsert")]
    assert shown == [f"order value [{epoch}" for epoch in (0, 1, 1, 0, 1)]


def test_the_epoch_of_a_source_that_no_row_names(tmp_path: Path) -> None:
    """Other rows than messages of servers do not name one; of a name that is not in the first rows, a run warns."""
    (tmp_path / "f.csv").write_text(csv([("a", 1, "U", "x")]))
    (tmp_path / "f.json").write_text(message(11, ("a", 1, "U", "x")))

    def run(feed: str, settings: dict[str, str]) -> Any:
        places = {"master": tmp_path / "no", "feed": tmp_path / feed, "output": tmp_path / "out"}
        return local_engine.mutate({**settings, **RUN}, **places)

    with pytest.raises(mutator.ConfigError, match=r"1:2:3.*rows of the feed do not name their source, so none is 1:2"):
        run("f.csv", {**BESIDE, "order.epoch": "1:2:3"})
    report = run("f.json", {**SERVERS, "order.epoch": "11:0,12:1"})
    assert "order.epoch=12:1: neither the master nor the first rows of the feed are of source 12" in " ".join(
        report.warnings
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"order.keep": "true"}, "the order value is a part of the rows; put a field with the epoch first"),
        ({"order_by": "", "order.keep": ""}, "order comes from file names"),
        ({"order.epoch": "-1"}, "must be a number from 0, or SOURCE:NUMBER"),
        ({"order.epoch": "1,1"}, "must be a number from 0"),
    ],
)
def test_where_an_epoch_cannot_be(more: dict[str, str], message: str, tmp_path: Path) -> None:
    (tmp_path / "f_1.csv").write_text(csv([("a", 1, "U", "x")]))
    settings = {**BESIDE, "order.epoch": "1", **more, **RUN}
    with pytest.raises(mutator.ConfigError, match=message):
        local_engine.mutate(settings, master=tmp_path / "no", feed=tmp_path / "f_1.csv", output=tmp_path / "out")


def test_an_epoch_needs_room_and_an_earlier_one_is_warned_of(tmp_path: Path) -> None:
    for number, own in enumerate(({}, {"order.epoch": "0"})):
        (tmp_path / f"f{number}.csv").write_text(csv([("a", 1, "U", "x")]))
        local_engine.mutate(
            {**BESIDE, **own, **RUN},
            master=tmp_path / "no",
            feed=tmp_path / f"f{number}.csv",
            output=tmp_path / f"m{number}",
        )
    (tmp_path / "f.csv").write_text(csv([("a", 0, "U", "y")]))

    def run(master: str, output: str, epoch: str) -> Any:
        places = {"master": tmp_path / master, "feed": tmp_path / "f.csv", "output": tmp_path / output}
        return local_engine.mutate({**BESIDE, "order.epoch": epoch, "reused.names": "accept", **RUN}, **places)

    with pytest.raises(mutator.ConfigError, match="was begun without epochs"):
        run("m0", "n0", "1")
    assert "epoch" not in " ".join(run("m1", "n1", "2").warnings)
    assert "the newest epoch of the master is 2" in " ".join(run("n1", "n2", "1").warnings)
    assert records_of(tmp_path / "n2") == [("a", "y")]


def test_epochs_go_where_the_rows_go(tmp_path: Path) -> None:
    """From a master to a table, and from there to a master; a base that restores a version is of its epoch again."""
    merged(tmp_path, [(0, [("a", 9, "U", "x")]), (1, [("a", 5, "U", "y"), ("b", 5, "D", "")])], BESIDE, "auto")
    table = Table.create(str(tmp_path / "table"), {"op": "op"}, dataset=str(tmp_path / "out1"))
    feeds = [tmp_path / f"last{number}.csv" for number in range(2)]
    feeds[0].write_text(csv([("a", 6, "U", "z"), ("b", 4, "U", "late")]))
    table.apply(str(feeds[0]))
    table.refresh().export(str(tmp_path / "exported"))
    feeds[1].write_text(csv([("a", 7, "D", ""), ("b", 6, "U", "z")]))
    settings = {**BESIDE, **RUN}
    local_engine.mutate(settings, master=tmp_path / "exported", feed=feeds[1], output=tmp_path / "last")

    assert records_of(tmp_path / "last") == [("b", "z")]
    assert [buried_of(one) for one in tombstones_in(tmp_path / "last")] == [("a", MOST + 7)]


def test_a_restore_brings_the_epoch_of_its_version_back(tmp_path: Path) -> None:
    base = Base(tmp_path / "base", {**BESIDE, **RUN, "claim.min.age": "0s"})
    base.arrive("f_0.csv", *csv([("a", 9, "U", "x")]).split())
    base.run(order_epoch="0")
    base.arrive("f_1.csv", *csv([("a", 1, "U", "y")]).split())
    base.run(order_epoch="1")
    base.restore(1)
    base.arrive("f_2.csv", *csv([("a", 8, "U", "late"), ("b", 1, "U", "y")]).split())
    base.run()

    assert records_of(base.path / "master") == [("a", "x"), ("b", "y")]


def test_a_feed_that_is_late_as_a_whole_names_the_setting(tmp_path: Path) -> None:
    many = [(f"k{number}", 9, "U", "x") for number in range(60)]
    feeds = [tmp_path / f"{number}.csv" for number in range(2)]
    for number, feed in enumerate(feeds):
        feed.write_text(csv([(key, order - number, op, name) for key, order, op, name in many]))
        places = {"master": tmp_path / f"m{number}", "feed": feed, "output": tmp_path / f"m{number + 1}"}
        report = local_engine.mutate({**BESIDE, "order.epoch": "0", **RUN}, **places)
    late = next(one for one in report.warnings if "are late" in one)
    assert late.endswith("older than the master, or its source has begun again: then run it with order.epoch=1")


def test_a_feed_of_several_servers_that_is_late_names_the_source(tmp_path: Path) -> None:
    """Of a number without a name, a place with several sources does not know whose it is."""
    settings = {"key": "id", "feed.dialect": "debezium-json", "output.format": "parquet", **RUN}
    settings["allow.empty.master"] = "true"
    (tmp_path / "m0").mkdir()
    for number, server in enumerate((11, 22, 22)):
        said = []
        for key in range(60):
            source = {
                "connector": "mysql",
                "db": "d",
                "table": "t",
                "server_id": server,
                "file": "b.1",
                "pos": 9 - number,
            }
            said.append({"op": "c", "before": None, "after": {"id": key}, "source": {**source, "row": 0}})
        (tmp_path / f"f{number}.json").write_text("\n".join(map(json.dumps, said)) + "\n")
        places = {"master": tmp_path / f"m{number}", "feed": tmp_path / f"f{number}.json"}
        more = {"order.epoch": "22:0"} if number == 1 else {}
        report = local_engine.mutate(settings | more, **places, output=tmp_path / f"m{number + 1}")
    late = next(one for one in report.warnings if "are late" in one)
    assert late.endswith("or its source has begun again: then run it with order.epoch=22:1")


def test_an_epoch_makes_every_value_higher() -> None:
    lowest, highest = encode("long desc", [None]), encode("string desc", [b""])
    assert lowest < highest < b"\x20"
