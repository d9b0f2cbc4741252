"""The seam of registers: toys that need more than last wins keep the laws, on a directory, in both engines.

Each world is a feed of a few mutations, merged at once and cut into runs; both must give what the model gives.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator import config as configuration
from mutator.dataset.file_entry import DATA, FileEntry
from mutator.dataset.side_columns import read_sides, read_tombstones
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.stored_rows import taken_rows
from mutator.errors import ConfigError, DataError, StateError
from mutator.frames.rejected import parsed_rows
from mutator.pipeline.explain.master import explain_master
from mutator.plan import registers
from mutator.rules.order_columns import SEQUENCES
from mutator.rules.register import NOTHING, RECORD, TOMBSTONE, Mutation
from mutator.table.recorded import config_of_snapshot
from mutator.table.runners import run_on
from mutator.table.scan import schema_of
from mutator.table.table import Table
from mutator.table.verify import verify_table
from tests.laws.toy_registers import LATE, UNWANTED, Changed, History, Joining, Rejecting, TwoFields, decided, whole
from tests.support import damaged_tables, local_engine
from tests.support.effort import share
from tests.support.no_limits import NO_LIMITS
from tests.support.small_runs import known
from tests.support.versioned import left_of, open_runner
from tests.table.test_several_writers import at_phase

SETTINGS = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "1",
    "op.code.field.ordinal": "2",
    "op.code.in.master": "false",
    "num.reducer": "2",
    "split.bytes": "60",
    "reject.policy": "quarantine",
    **NO_LIMITS,
}
KEYS = ["a", "b", "c", "d"]
ENGINES = ["blocks", "records"]
Row = tuple[str, int, str, str, str]  # key, order value, op code, fields
State = tuple[list[str], list[tuple[str, int]]]  # rows, tombstones


def world(rng: random.Random) -> list[Row]:
    """Return mutations, no two of a key with one order value."""
    orders = {key: rng.sample(range(2, 12), rng.randint(0, 5)) for key in KEYS}
    rows = []
    for key, order in [(one, order) for one in KEYS for order in orders[one]]:
        op = rng.choice("UUUD")
        fields = rng.choice([("x", "y"), ("x", "~"), ("~", "y"), ("", "~"), ("z", "z")]) if op == "U" else ("", "")
        rows.append((key, order, op, *fields))
    rng.shuffle(rows)
    return rows


def merged(
    work: Path, runs: list[list[Row]], engine: str, on: Callable[..., Any] = local_engine.mutate, **settings: str
) -> State:
    """Merge runs one after the other into a master of two records; return what it has afterwards."""
    master, beside = work / "master", bool(registers.LAST_WINS.side_columns)
    master.mkdir(parents=True)
    for number, key in enumerate(KEYS[:2]):
        (master / f"{number}.txt").write_text(f"{key},1,m,m\n" if beside else f"{key},1,m,m,1,1\n")
    for number, rows in enumerate(runs):
        feed = work / f"feed{number}"
        feed.mkdir()
        for part in range(2):
            end = "" if beside else ",,"
            lines = (f"{key},{order},{op},{a},{b}{end}\n" for key, order, op, a, b in rows[part::2])
            (feed / f"f{part}.txt").write_text("".join(lines))
        output = work / f"out{number}"
        on({**SETTINGS, **settings}, master=master, feed=feed, output=output, engine=engine)
        master = output
    rows = [
        line for path in (*master.glob("part-*"), *master.glob("*=*/part-*")) for line in path.read_text().splitlines()
    ]
    if beside:
        rows = [
            whole(line.encode(), tuple(orders.values())[1:]).decode()
            for part in known(master).files
            for line, orders in zip((master / part.path).read_text().splitlines(), sides_of(master, part), strict=True)
        ]
    buried = [(key[0].decode(), int(order)) for key, order, _ in tombstones_in(master)]
    return sorted(rows), sorted(buried)


def sides_of(output: Path, part: FileEntry) -> list[dict[str, Any]]:
    wanted = (*SEQUENCES, *registers.LAST_WINS.side_columns)
    if part.order is None:  # all are NULL
        return [dict.fromkeys(one.name for one in wanted)] * part.rows
    with Path(output, part.order).open("rb") as stream:
        return read_sides(stream, wanted).to_pylist()


def tombstones_in(output: Path) -> Iterator[Any]:
    for part in known(output).beside if (output / "_mutator").exists() else ():
        if part.role == "tombstones":
            with Path(output, part.path).open("rb") as stream:
                yield from read_tombstones(stream)


def all_events(rows: list[Row]) -> State:
    """Return what a history must have."""
    first = [f"{key},1,m,m,1,1" for key in KEYS[:2]]
    upserts = [f"{key},{order},{a},{b},," for key, order, op, a, b in rows if op == "U"]
    return sorted(first + upserts), sorted((key, order) for key, order, op, *_ in rows if op == "D")


def last_fields(rows: list[Row]) -> State:
    """Return what a register of two fields must have: each mutation meets what all earlier ones left."""
    state: dict[str, tuple[str, int, bytes]] = {key: (RECORD, 1, f"{key},1,m,m,1,1".encode()) for key in KEYS[:2]}
    for key, order, op, a, b in sorted(rows, key=lambda row: row[1]):
        kind, old, row = state.get(key, (NOTHING, None, None))
        mutation = Mutation((order,), op == "D", f"{key},{order},{a},{b},,".encode())
        decision, new, at = decided(kind, old, row, [mutation])
        if decision.result in ("bury", "touch tombstone", "keep tombstone"):
            state[key] = TOMBSTONE, at, b""
        elif decision.result != "keep":
            state[key] = RECORD, at, new
    kept = [row.decode() for kind, _, row in state.values() if kind == RECORD]
    return sorted(kept), sorted((key, order) for key, (kind, order, _) in state.items() if kind == TOMBSTONE)


def all_but_d(rows: list[Row]) -> State:
    """Return what a register must have that rejects the key d: late mutations change nothing, rejected or not."""
    last = {row[0]: row for row in sorted(rows, key=lambda row: row[1]) if row[0] != "d"}
    kept = [f"{key},{order},{a},{b},," for key, order, op, a, b in last.values() if op == "U"]
    kept += [f"{key},1,m,m,1,1" for key in KEYS[:2] if key not in last]
    return sorted(kept), sorted((key, order) for key, order, op, *_ in last.values() if op == "D")


TOYS = {
    "history": (History(), all_events),
    "rejecting": (Rejecting(), all_but_d),
    "two fields": (TwoFields(), last_fields),
    "beside": (TwoFields(beside=True), last_fields),
}


IN_TABLES = pytest.mark.parametrize("model", ["history", "two fields", "rejecting", "beside"], indirect=True)
BESIDE = pytest.mark.parametrize("model", ["beside"], indirect=True)
REJECTING = pytest.mark.parametrize("model", ["rejecting"], indirect=True)


@pytest.fixture(params=["history", "beside", "rejecting"])
def model(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give all plans a toy register, and return what it must give."""
    register, expected = TOYS[request.param]
    monkeypatch.setattr(registers, "LAST_WINS", register)
    return expected


@pytest.mark.thorough(keep=3)
@pytest.mark.law
@pytest.mark.parametrize("engine", ENGINES)
def test_any_cut_into_runs_gives_what_the_model_gives(model: Any, engine: str, tmp_path: Path) -> None:
    rng = random.Random(7)
    for number in range(share(40)):
        rows = world(rng)
        cuts = sorted(rng.sample(range(len(rows) + 1), min(2, len(rows))))
        runs = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        expected = model(rows)
        work = tmp_path / str(number)

        assert merged(work / "whole", [rows], engine) == expected
        assert merged(work / "cut", runs, engine) == expected, runs
        assert merged(work / "again", [*runs, rows], engine) == expected


def test_a_promise_of_unique_ids_does_not_matter(model: Any, tmp_path: Path) -> None:
    rows = world(random.Random(5))
    assert merged(tmp_path, [rows], "blocks", **{"master.unique": "true"}) == model(rows)


@pytest.mark.parametrize("model", ["history"], indirect=True)
def test_records_that_may_move_are_refused(model: Any, tmp_path: Path) -> None:
    moves = {"partitioned.by": "3", "key.scope": "table"}
    why = r"several mutations .* set key.scope="
    with pytest.raises(ConfigError, match=why):
        merged(tmp_path / "master", [world(random.Random(5))], "blocks", **moves)
    with pytest.raises(ConfigError, match=why):
        applied(tmp_path / "table", [], **{**moves, "partitioned.by": "first"})


@BESIDE
def test_records_move_by_the_rows_that_are_left(model: Any, tmp_path: Path) -> None:
    rng = random.Random(3)
    for number in range(8):
        rows = world(rng)
        found = merged(tmp_path / str(number), [rows[:6], rows[6:]], "blocks", **{"partitioned.by": "3"})
        assert found == model(rows), rows


def test_side_columns_move_with_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "LAST_WINS", Changed())
    moves = {"partitioned.by": "3", "key.scope": "table"}
    settings = {"key": "id", "order_by": "at", "header": True, **moves, "partitioned.by": "name", **NO_LIMITS}
    table = Table.create(str(tmp_path / "table"), settings)
    for row in ("a,5,x", "a,7,y"):
        (tmp_path / f"{row}.csv").write_text(f"id,at,name\n{row}\n")
        table.apply(str(tmp_path / f"{row}.csv"))
    ((row_left, sides),) = rows_and_sides(table.snapshot)
    assert (row_left["name"], sides["changed"]) == ("y", 7)


BY_PARTITION = {"partitioned.by": "id", "key.scope": "partition"}


def applied(
    work: Path,
    runs: list[list[Row]],
    open_runner: Any = None,
    between: Callable[[Table, int], Table] = lambda table, _: table,
    **more: str,
) -> State:
    """Apply runs one after the other to a table of two records; return what it has afterwards.

    between: called after each, with its number; returns the table that the next one is applied to.
    """
    settings = {"key": "id", "order_by": "at", "op": "op", "header": True, "num.reducer": "2", **NO_LIMITS, **more}
    work.mkdir(parents=True, exist_ok=True)
    table = Table.create(str(work / "table"), settings)
    first: list[Any] = [(key, 1, "U", "m", "m", "1", "1") for key in KEYS[:2]]
    fields = 5 if registers.LAST_WINS.side_columns else 7
    for number, rows in enumerate([first, *runs]):
        lines = (",".join(map(str, (*row, "", "")[:fields])) + "\n" for row in rows)
        header = ",".join(["id", "at", "op", "first", "second", "at1", "at2"][:fields])
        (work / f"{number}.csv").write_text(f"{header}\n" + "".join(lines))
        table.apply(str(work / f"{number}.csv"), open_runner=open_runner, reject_policy="quarantine")
        table = between(table, number)
    return left_in(open_snapshot(table.path))


def left_in(snapshot: Snapshot) -> State:
    """Return what a table has, with what is kept beside its rows."""
    left = left_of(snapshot, {}, width=1)
    buried = [(key[0].decode(), int(order)) for key, order in left.tombstones]
    if not registers.LAST_WINS.side_columns:
        return sorted(map(text_of, left.rows)), sorted(buried)
    rows = [whole(text_of(row).encode(), [*one.values()]).decode() for row, one in rows_and_sides(snapshot)]
    assert sorted(row.rsplit(",", 2)[0] for row in rows) == sorted(map(text_of, left.rows))
    return sorted(rows), sorted(buried)


def rows_and_sides(snapshot: Snapshot) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    live = LiveRows(snapshot)
    for file in snapshot.of_role(DATA):
        positions = np.setdiff1d(np.arange(file.rows), snapshot.masks.hidden(file.path))
        parts = taken_rows(snapshot.table, file, file.rows, positions, schema_of(snapshot).names)
        sides = live.sides(file, positions, registers.LAST_WINS.side_columns).to_pylist()
        yield from zip([row for part in parts for row in part.to_pylist()], sides, strict=True)


def text_of(row: dict[str, Any]) -> str:
    return ",".join(str(value or "") for value in row.values())


def upkeep(table: Table, number: int) -> Table:
    """Do what changes no rows: compact, go back to the present version, export and begin again, clean."""
    table.compact(everything=True)
    if number == 0:
        version = table.version
        table.insert_overwrite_table(f"{table.path}/../0.csv")
        table.restore(version)
    elif number == 2 and registers.LAST_WINS.side_columns:
        table.export(f"{table.path}-exported", partition_columns="file")
        table = Table.create(f"{table.path}-again", dict(table.describe().settings), dataset=f"{table.path}-exported")
    for _ in range(2):
        table.clean(keep_versions=1, grace="0s")
    assert side_files(table) == sorted(
        one.sides.path for one in table.snapshot.of_role(DATA) if one.sides is not None and one.sides.is_apart
    )
    if not registers.LAST_WINS.by_order:  # else a key has several rows
        assert verify_table(table.path, config_of_snapshot, open_runner).problems == ()
    return table


TOUCHED: list[Row] = [("a", 5, "U", "x", "~"), ("a", 3, "U", "~", "m")]  # the second changes only what is beside


def side_files(table: Table) -> list[str]:
    return sorted(str(path.relative_to(table.path)) for path in Path(table.path).rglob("*.sides"))


@pytest.mark.thorough(keep=2)
@pytest.mark.law
@IN_TABLES
def test_a_table_gives_what_the_model_gives(model: Any, tmp_path: Path) -> None:
    rng = random.Random(11)
    for number, rows in enumerate([TOUCHED, *(world(rng) for _ in range(share(20)))]):
        cut = len(rows) // 2
        expected = model(rows)

        settings = {} if number % 2 else BY_PARTITION
        assert applied(tmp_path / f"{number}" / "whole", [rows] if rows else [], **settings) == expected
        runs = [run for run in (rows[:cut], rows[cut:], rows) if run]
        with damaged_tables.small_files() if number < 2 else nullcontext():
            assert applied(tmp_path / f"{number}" / "cut", runs, between=upkeep, **settings) == expected


@BESIDE
@pytest.mark.parametrize("damage", ["lose", "flip", "cut"])
def test_a_damaged_side_file_is_named_where_it_is_needed(model: Any, damage: str, tmp_path: Path) -> None:
    with damaged_tables.small_files():
        applied(tmp_path, [[("a", 5, "U", "x", "~"), ("b", 3, "U", "~", "y")]], **BY_PARTITION)
        table = Table(str(tmp_path / "table"))
        for path in Path(table.path).rglob("sides/**/id=a/**/*.sides"):
            damaged_tables.DAMAGES[damage](damaged_tables.Spot(path, None, None, random.Random(damage)))
        (tmp_path / "next.csv").write_text("id,at,op,first,second\na,4,U,p,q\n")
        feed = str(tmp_path / "next.csv")
        for act in (lambda: table.apply(feed), lambda: table.export(str(tmp_path / "exported"))):
            with pytest.raises(StateError, match=r"(?s)/sides/rows/id=a/.*\.sides: .* restore it from a copy"):
                act()
        verified = verify_table(table.path, config_of_snapshot, open_runner)
        assert all("/sides/rows/id=a/" in one for one in verified.problems)
        assert "restore it from a copy of the table" in verified.text()

        table.insert_overwrite(feed)
        assert left_in(table.snapshot) == (["a,4,p,q,4,4", "b,3,m,y,1,3"], []), "nothing is kept beside the new row"
        table.apply(feed)


@pytest.mark.parametrize(
    ("register", "faster", "expected"),
    [(TwoFields(beside=True), "a,9,U,x,~", "a,9,x,y,9,5"), (Joining(), "a,3,U,x,,,", "a,5,mxy,y,,")],
)
def test_a_table_that_is_outrun_meets_what_the_faster_one_left(
    register: Any, faster: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registers, "LAST_WINS", register)
    applied(tmp_path, [])
    table = Table(str(tmp_path / "table"))
    end = "" if register.side_columns else ",,"
    for name, row in (("faster", faster), ("slower", f"a,5,U,y,y{end}")):
        (tmp_path / f"{name}.csv").write_text(f"{(tmp_path / '0.csv').read_text().splitlines()[0]}\n{row}\n")

    with at_phase("commit", lambda: Table(table.path).apply(str(tmp_path / "faster.csv"))):
        table.apply(str(tmp_path / "slower.csv"))

    assert left_in(table.snapshot)[0] == [expected, "b,1,m,m,1,1"]


@pytest.mark.parametrize("engine", [*ENGINES, "table"])
def test_a_touched_row_keeps_what_is_beside_it(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "LAST_WINS", Changed())
    settings = {"id.field.ordinals": "0", **NO_LIMITS}
    feeds = {"f_5": "a,x\nb,x\n", "f_7": "a,x\nb,y\n", "f_6": "a,z\nc,z\n"}
    table = Table.create(str(tmp_path / "table"), {"key": "id", "header": True, **NO_LIMITS})
    master = tmp_path / "none"
    for name, rows in feeds.items():
        (tmp_path / f"{name}.csv").write_text(f"id,name\n{rows}" if engine == "table" else rows)
        if engine == "table":
            table.apply(str(tmp_path / f"{name}.csv"))
            continue
        places = {"master": master, "feed": tmp_path / f"{name}.csv", "output": tmp_path / f"out_{name}"}
        local_engine.mutate({**settings, "allow.empty.master": "true"}, **places, engine=engine)
        master = places["output"]

    if engine == "table":
        table.compact(everything=True)
        found = {row["id"]: (row["name"], sides["changed"]) for row, sides in rows_and_sides(table.snapshot)}
    else:
        found = {}
        for part in known(master).files:
            rows = [line.split(",") for line in (master / part.path).read_text().splitlines()]
            found |= {
                key: (name, one["changed"]) for (key, name), one in zip(rows, sides_of(master, part), strict=True)
            }
    assert found == {"a": ("x", 5), "b": ("y", 7), "c": ("z", 6)}


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_spark_gives_what_the_model_gives(model: Any, engine: str, sc: Any, tmp_path: Path) -> None:
    rows = world(random.Random(3))
    assert merged(tmp_path, [rows[:4], rows[4:]], engine, on=partial(mutator.mutate, sc)) == model(rows)


@pytest.mark.thorough(keep=1)
@IN_TABLES
def test_a_table_on_spark_gives_what_the_model_gives(model: Any, sc: Any, tmp_path: Path) -> None:
    rows = world(random.Random(3))
    assert applied(tmp_path, [rows[:4], rows[4:]], open_runner=run_on("spark"), **BY_PARTITION) == model(rows)


BEFORE = ["a,5,U,x,y", "b,5,D,,"]
AFTER = ["a,3,U,late,1", "b,4,U,late,2", "c,2,U,new,3", "c,1,U,lost,4", "d,9,U,bad,5", "a,six,U,bad,6"]
REFUSED = {"a,3": LATE, "b,4": LATE, "d,9": UNWANTED}
PLACES: dict[str, dict[str, str]] = {
    "records": {"engine": "records"},
    "blocks": {"engine": "blocks"},
    "by partition": {"partitioned.by": "3"},
    "by table": {"partitioned.by": "3", "key.scope": "table"},
}


def refused(report: Any, counts: dict[str, int]) -> dict[str, str]:
    """Return the reason of each row in the file of rejects, once its counts are right."""
    assert (counts["feed rejected"], counts["feed late"], counts["feed inserted"]) == (4, 0, 1)
    rows = [*parsed_rows(Path(report).read_bytes())] if report else []
    assert all(one["file"].endswith("after.csv") and one["offset"] < 90 for one in rows)
    return {",".join(re.findall(r"\w+", one["row"].decode())[:2]): one["reason"] for one in rows}


@REJECTING
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dry_run", [False, True])
def test_rejects_of_a_register_are_set_aside(model: Any, place: str, dry_run: bool, tmp_path: Path) -> None:
    settings = {**SETTINGS, "allow.empty.master": "true", **PLACES[place]}
    engine = settings.pop("engine", "auto")
    (tmp_path / "before.csv").write_text("\n".join(BEFORE) + "\n")
    (tmp_path / "after.csv").write_text("\n".join(AFTER) + "\n")

    def run(master: str, feed: str, output: str, dry_run: bool = False) -> Any:
        places = {"master": str(tmp_path / master), "feed": str(tmp_path / feed), "output": str(tmp_path / output)}
        return local_engine.mutate(settings, **places, engine=engine, dry_run=dry_run)

    run("none", "before.csv", "first")
    report = run("first", "after.csv", "second", dry_run)
    found = refused(report.rejected_file, report.counts)
    (file,) = report.feed_files
    assert file["rejected"] == file["outcomes"]["rejected"] == 4
    assert {one["reason"] for one in report.rejects["feed"]} >= {LATE, UNWANTED}
    if not dry_run:
        del found["a,six"]
        assert found == REFUSED


@REJECTING
def test_a_broadcast_sets_rejects_aside(model: Any, tmp_path: Path) -> None:
    (tmp_path / "before.csv").write_text("a,5,U,x,y\nb,4,U,p,q\n")
    (tmp_path / "after.csv").write_text("\n".join(AFTER) + "\n")
    settings = {**SETTINGS, "master.unique": "true", "op.code.in.master": "true"}
    places = {"master": str(tmp_path / "before.csv"), "feed": str(tmp_path / "after.csv")}

    report = local_engine.mutate(settings, **places, output=str(tmp_path / "out"), engine="blocks")

    assert "broadcast" in report.text()
    assert report.counts["feed rejected"] == 3
    found = [one["reason"] for one in parsed_rows(Path(report.rejected_file).read_bytes())]
    assert found[1:] == [LATE, UNWANTED]


@REJECTING
def test_too_many_rejects_of_a_register_stop_the_run(model: Any, tmp_path: Path) -> None:
    (tmp_path / "before.csv").write_text("a,5,U,x,y\n")
    (tmp_path / "after.csv").write_text("a,3,U,late,1\n")
    places = {"master": str(tmp_path / "before.csv"), "feed": str(tmp_path / "after.csv")}
    settings = {**SETTINGS, "reject.policy": "fail", "op.code.in.master": "true"}

    with pytest.raises(DataError, match=rf"(?s)1 feed row is rejected.*byte 0: {LATE}: a,3,U,late,1") as raised:
        local_engine.mutate(settings, **places, output=str(tmp_path / "out"))
    assert "cannot be read" not in str(raised.value)


@REJECTING
def test_a_table_sets_rejects_aside(model: Any, tmp_path: Path) -> None:
    applied(tmp_path, [])
    table = Table(str(tmp_path / "table"))
    for name, rows in (("before", BEFORE), ("after", AFTER)):
        lines = [f"{row},," for row in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,at,op,first,second,at1,at2", *lines]) + "\n")
        report = table.apply(str(tmp_path / f"{name}.csv"), reject_policy="quarantine", max_reject_fraction="1")

    (path,) = (tmp_path / "table" / "_mutator" / "rejected").iterdir()
    rows = [*parsed_rows(path.read_bytes())]
    assert report.counts["feed rejected"] == len(rows) == 4
    assert [one["reason"] for one in rows[1:]] == [LATE, LATE, UNWANTED]
    assert json.loads(rows[1]["row"]) == {
        "id": "a",
        "at": "3",
        "first": "late",
        "second": "1",
        "at1": None,
        "at2": None,
    }


@REJECTING
def test_a_table_that_is_outrun_sets_aside_what_is_late_now(model: Any, tmp_path: Path) -> None:
    applied(tmp_path, [])
    table = str(tmp_path / "table")
    for name, order in (("faster", 9), ("slower", 5)):
        (tmp_path / f"{name}.csv").write_text(f"id,at,op,first,second,at1,at2\na,{order},U,x,y,,\nb,{order},U,x,y,,\n")
    settings = {"reject_policy": "quarantine", "max_reject_fraction": "1"}

    with at_phase("commit", lambda: Table(table).apply(str(tmp_path / "faster.csv"))):
        report = Table(table).apply(str(tmp_path / "slower.csv"), **settings)

    assert (report.counts["feed rejected"], report.counts["feed updated"]) == (2, 0)
    (path,) = (tmp_path / "table" / "_mutator" / "rejected").iterdir()
    found = [(one["file"], one["offset"], one["reason"]) for one in parsed_rows(path.read_bytes())]
    assert found == [(str(tmp_path / "slower.csv"), offset, LATE) for offset in (30, 42)]


@REJECTING
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_rejects_of_typed_files_are_json(model: Any, engine: str, form: str, tmp_path: Path) -> None:
    row = {"id": "a", "at": 5, "name": "é"}
    for name, order in (("before", 5), ("after", 3)):
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist([row | {"at": order}]), tmp_path / f"{name}.parquet")
            continue
        fields = [{"name": one, "type": "long" if one == "at" else "string"} for one in row]
        with (tmp_path / f"{name}.avro").open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "r", "fields": fields}, [row | {"at": order}])
    places = {"master": str(tmp_path / f"before.{form}"), "feed": str(tmp_path / f"after.{form}")}
    settings = {"key": "id", "order_by": "at", "reject.policy": "quarantine", **NO_LIMITS}

    report = local_engine.mutate(settings, **places, output=str(tmp_path / "out"), engine=engine)

    (one,) = parsed_rows(Path(report.rejected_file).read_bytes())
    assert (one["reason"], json.loads(one["row"])) == (LATE, row | {"at": 3})


@pytest.mark.parametrize("model", ["beside", "rejecting"], indirect=True)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_explanation_asks_the_register(model: Any, engine: str, tmp_path: Path) -> None:
    rows = world(random.Random(3))
    runs = [rows[:4], rows[4:]]
    merged(tmp_path, runs, engine)
    for key in KEYS:
        config = configuration.parse(SETTINGS)
        feeds = [str(tmp_path / f"feed{number}") for number in range(2)]
        found = explain_master(str(tmp_path / "out1"), key, config, feeds, str(tmp_path / "master"))
        assert not any(step.differs for step in found.steps)
