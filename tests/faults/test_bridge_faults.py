"""Every way in which a run of the bridge can end early, on a model storage and with real kills.

Afterwards the table has either all the old rows or all the new ones; the next run needs no help, gives the result of an
undisturbed run, and leaves no litter.
"""

from __future__ import annotations

import shutil
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator import config
from mutator.bridge import PathTable, run
from mutator.errors import ConfigError
from mutator.rules.partition_paths import values_of
from tests.support import local_engine, model, process_deaths
from tests.support.bridge_tables import Bridged, each, plain
from tests.support.child_process import in_child
from tests.support.columns_data import as_table, file_of, read_whole
from tests.support.effort import law
from tests.support.model_storage import Killed, ModelStorage, mounted
from tests.support.process_deaths import calls_of, fault_at, with_faults

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("at", pa.int64())])
FILES = {
    "dt=a/1.orc": [(1, "a", 100), (2, "b", 100)],
    "dt=a/2.orc": [(3, "c", 100)],
    "dt=b/1.orc": [(4, "d", 100), (5, "e", 100)],
    "dt=c/1.orc": [(6, "f", 100)],
}
FIRST = {"ups_1.txt": "1,one,200,a\n", "del_2.txt": "2,,200,a\n6,,200,c\n"}  # one partition vanishes, one changes
SECOND = {"ups_3.txt": "2,late,150,a\n3,three,300,b\n7,g,300,d\n", "ups_4.txt": "2,again,400,a\n"}


def table_of(rows):
    return pa.table([list(column) for column in zip(*rows, strict=True)], SCHEMA)


TABLES = {name: table_of(rows) for name, rows in FILES.items()}
START = sorted((*row, name[3]) for name, rows in FILES.items() for row in rows)
AFTER = {
    1: sorted([(1, "one", 200, "a"), *(row for row in START if row[0] in (3, 4, 5))]),
    2: sorted([(1, "one", 200, "a"), (2, "again", 400, "a"), (3, "three", 300, "b"), *START[3:5], (7, "g", 300, "d")]),
}


# --- every call of a storage

process = process_deaths.process  # a fixture that is also called directly


def put(storage, files):
    for name, content in files.items():
        storage.make_directory(f"model://base/{name}".rpartition("/")[0])
        with storage.create_new(f"model://base/{name}") as stream:
            stream.write(content if isinstance(content, bytes) else content.encode())


def merge(path):
    read = config.parse(dict(Bridged.settings))
    table = PathTable(f"{path}/table", each)
    return run(table, f"{path}/copy", read, [f"{path}/feed"], local_engine.merge, each)


def new_base(storage_type, runs):
    """Return a storage with a table, after the given number of runs; the feed files of the other runs have arrived."""
    storage = ModelStorage(storage_type)
    with mounted(storage) as path:
        put(storage, {f"table/{name}": file_of("orc", table) for name, table in TABLES.items()})
        put(storage, {f"feed/{name}": rows for name, rows in FIRST.items()})
        if runs:
            merge(path)
        put(storage, {f"feed/{name}": rows for name, rows in SECOND.items()})
    return storage


def names_in(storage, directory):
    """Return the names of the entries of a directory."""
    prefix = f"model://base/{directory}/".replace("//base//", "//base/")
    return sorted({path[len(prefix) :].split("/")[0] for path in storage.tree if path.startswith(prefix)})


def rows_in(storage):
    """Return the rows of the table that other programs see."""
    found, prefix = [], "model://base/table/"
    for path, content in storage.tree.items():
        name = path.removeprefix(prefix)
        if not path.startswith(prefix) or content is None or any(part[0] in "._" for part in name.split("/")):
            continue
        parts = read_whole("orc", content)
        values = [value for _, value in values_of(name.rpartition("/")[0])]
        found += [(*row, *values) for row in plain(as_table(parts, SCHEMA))]
    return sorted(found)


def check_tidy(storage):
    assert [name for name in names_in(storage, "") if name not in ("table", "copy", "feed")][1:] == []
    assert len(names_in(storage, "copy/_mutator/bridge")) == 1
    assert [name for name in names_in(storage, "copy/_mutator") if name != "bridge"] == []
    assert [name for name in names_in(storage, "copy") if name != "_mutator"][1:] == []
    assert [name for name in names_in(storage, "table") if not name.startswith("dt=")] == ["_SUCCESS", "_mutator"]
    assert names_in(storage, "table/_mutator") == ["manifest.json"]


every_start = pytest.mark.parametrize("runs", [0, 1], ids=["first run", "second run"])


@pytest.mark.thorough(keep=0, rest=4)
@every_start
@pytest.mark.parametrize("step", [pytest.param(17, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)])
@pytest.mark.parametrize("what", ["kill", "EIO", "lost"])
def test_fault_at_any_call(runs, step, what, process):
    start = new_base("posix", runs)
    before, seen = START if not runs else AFTER[1], []
    assert rows_in(start) == before
    total = calls_of(start, merge)
    assert total > 100
    for number in [*range({"kill": 0, "EIO": 1, "lost": 2}[what], total - 4, step), total - 4]:
        storage = with_faults(start, merge, process, fault_at(number, what, for_good=number // step % 2 == 0))
        assert rows_in(storage) in (before, AFTER[2])
        seen.append(rows_in(storage) == before)
        with mounted(storage) as path:
            merge(path)
            assert rows_in(storage) == AFTER[2], f"after a fault at {storage.log[number]}"
            check_tidy(storage)
            again = merge(path)
        assert (again.exported, again.changed) == (None, False)

    assert set(seen) == {True, False}, "some were before the commit, and some after it"
    if what == "kill":
        assert seen == sorted(seen, reverse=True), "there is one commit"


@pytest.mark.thorough(keep=0, rest=1)
@every_start
def test_kill_and_kill_in_the_next_run(runs, process):
    start = new_base("posix", runs)
    before, doubles = START if not runs else AFTER[1], 0
    for first in range(1, calls_of(start, merge), 37):
        storage = with_faults(start, merge, process, fault_at(first))
        for second in range(3, calls_of(storage, merge), 47):
            again = with_faults(storage, merge, process, fault_at(second))
            assert rows_in(again) in (before, AFTER[2])
            with mounted(again) as path:
                merge(path)
            assert rows_in(again) == AFTER[2]
            check_tidy(again)
            doubles += 1

    assert doubles > 10


@pytest.mark.thorough(keep=0, rest=1)
@every_start
def test_kill_and_a_change_by_another_process(runs, process):
    """Neither the feed nor the added rows are lost, whether the run was committed or not."""
    start = new_base("posix", runs)
    added = {"dt=b/other.orc": [(50, "other", 1)]}
    for number in range(2, calls_of(start, merge), 11):
        storage = with_faults(start, merge, process, fault_at(number))
        with mounted(storage) as path:
            put(storage, {f"table/{name}": file_of("orc", table_of(rows)) for name, rows in added.items()})
            merge(path)
            there = rows_in(storage)
            assert there == sorted([*AFTER[2], (50, "other", 1, "b")]), f"after a kill at {storage.log[number]}"
            check_tidy(storage)
            assert merge(path).exported is None


@pytest.mark.parametrize("storage_type", ["hdfs", "s3"])
def test_storage_that_cannot_exchange_directories_is_refused(storage_type):
    storage = new_base(storage_type, 0)
    with mounted(storage) as path, pytest.raises(ConfigError) as caught:
        merge(path)

    assert caught.value.kind == "table.place"
    assert rows_in(storage) == START
    assert names_in(storage, "") == ["feed", "table"]


# --- the law: any feed in any runs, with any kills in between, gives the model's result


@st.composite
def histories(draw):
    """Draw feed files in order; for each, draw where the run that follows it is killed, if at all."""
    orders = draw(st.permutations(range(1, 25)))
    steps = []
    for number in range(draw(st.integers(1, 4))):
        rows = []
        for _ in range(draw(st.integers(0, 4))):
            rows.append((draw(st.integers(1, 8)), draw(st.sampled_from(["x", "y", ""])), orders.pop(), draw(PLACES)))
        name = f"{draw(st.sampled_from(['ups', 'ups', 'del']))}_{number}.txt"
        steps.append((name, rows, draw(st.none() | st.integers(0, 400))))
    master = [
        [(key, "start", draw(st.sampled_from([0, 12])), draw(PLACES)) for key in draw(st.sets(st.integers(1, 8)))]
    ][0]
    return master, steps


PLACES = st.sampled_from(["p", "q", "r/s"])


def row_of(row, name="", offset=0):
    key, text, at, place = row
    written = f"{key},{text},{at},{place}".encode()
    return model.Row((str(key).encode(),), at, -1, name.encode(), offset, written, name.startswith("del"), written)


@given(histories())
@law(25)
def test_any_runs_with_any_kills_give_the_models_result(history):
    master, steps = history
    storage = ModelStorage("posix")
    with mounted(storage) as path:
        files = {"dt=p/none.orc": SCHEMA.empty_table()}
        for number, (*row, place) in enumerate(master):
            files[f"dt={place.replace('/', '%2F')}/{number}.orc"] = table_of([row])
        put(storage, {f"table/{name}": file_of("orc", table) for name, table in files.items()})
        storage.make_directory(f"{path}/feed")
        fed = []
        for name, rows, kill in steps:
            put(storage, {f"feed/{name}": "".join(f"{key},{text},{at},{place}\n" for key, text, at, place in rows)})
            fed += [row_of(row, name, number) for number, row in enumerate(rows)]
            before = rows_in(storage)
            if kill is not None:
                storage.fault = fault_at(storage.calls + kill, "kill")
            with suppress(Killed):
                merge(path)
            storage.dead, storage.fault = False, lambda number, name: None
            expected = merged(master, fed)
            assert rows_in(storage) in (before, expected) if kill is not None else rows_in(storage) == expected
        merge(path)
        assert rows_in(storage) == expected
        assert merge(path).exported is None


def merged(master, fed):
    found = model.merge([row_of(row) for row in master], {}, fed).records.values()
    fields = [written.decode().split(",") for _, written in found]
    return sorted((int(key), text, int(at), place) for key, text, at, place in fields)


# --- kill -9 on a disk


@pytest.mark.thorough(keep=1)
@every_start
def test_kill_at_every_failpoint(in_memory, runs):
    start = Bridged(in_memory / "now", TABLES)
    for name, rows in FIRST.items():
        start.feed(name, rows)
    if runs:
        start.run()
    for name, rows in SECOND.items():
        start.feed(name, rows)
    before = start.rows()
    start.root.rename(in_memory / "start")

    def restored():
        """Restore all files in their paths, with their times."""
        shutil.rmtree(start.root, ignore_errors=True)
        shutil.copytree(in_memory / "start", start.root)
        return start

    _, passed = in_child(lambda: restored().run())
    points = list(dict.fromkeys(passed))
    assert {point for point in points if point.startswith("bridge.")} >= set(BRIDGE_POINTS) - (
        {"bridge.exported"} if runs else set()
    )
    # Only the export is special in the first run; it stages text as a merge does.
    chosen = ("bridge.", "stage.", "publish.") if runs else ("bridge.exported", "bridge.file.written", "bridge.noted")
    for point in [name for name in points if name.startswith(chosen)]:
        for action in ("", ":2") if point in TWICE else ("",):
            now = restored()
            if not in_child(now.run, point + action)[0]:
                continue
            assert now.rows() in (before, AFTER[2]), point
            now.run()
            assert now.rows() == AFTER[2], point
            assert now.litter() == [], point
            assert now.run().exported is None


TWICE = ("bridge.tidied", "bridge.file.written")
BRIDGE_POINTS = [
    "bridge.settle.found",
    "bridge.settle.retired",
    "bridge.exported",
    "bridge.merged",
    "bridge.begun",
    "bridge.table.created",
    "bridge.files.moved",
    "bridge.table.written",
    "bridge.staged",
    "bridge.noted",
    "bridge.table.exchanged",
    "bridge.committed",
    "bridge.tidied",
]
