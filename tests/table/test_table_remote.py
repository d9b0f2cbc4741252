"""Tables on a real S3 server and a real HDFS: every command, and the exclusive creation of log entries."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from mutator.dataset.versions.log import TableLog
from mutator.errors import MutatorError, error, suppressed
from mutator.storage import storage_for, walk
from mutator.table import apply, reader_place
from mutator.table.create import create_empty
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.patience import met_at
from tests.support.storage_places import PLACES
from tests.support.versioned import open_runner
from tests.table.test_table_faults import FIRST, NEW, OLD, SECOND, SETTINGS, apply_to, rows_of

RACERS, ROUNDS = 4, 5


@pytest.fixture(name="root", params=PLACES)
def new_root(request: pytest.FixtureRequest) -> str:
    root: str = PLACES[request.param](request)
    for name, rows in (("first", FIRST), ("second", SECOND)):
        with storage_for(root).create_new(f"{root}/{name}.csv") as stream:
            stream.write(rows.encode())
    return root


@pytest.mark.parametrize("inline", [True, pytest.param(False, marks=pytest.mark.rest)])
def test_every_command(root: str, inline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 1 << 16 if inline else 0)
    monkeypatch.setattr(apply, "INLINE", 1 << 16 if inline else 0)
    table, output = f"{root}/table", f"{root}/out"
    create_empty(table, SETTINGS, buckets=2)
    assert apply_to(table, f"{root}/first.csv") == 1
    opened = Table(table)
    assert opened.export(output, open_runner=open_runner).rows == 3
    assert apply_to(table, f"{root}/second.csv") == 2
    opened.refresh()

    assert (rows_of(table), opened.get("4")["name"], opened.get("2")) == (NEW, "d", None)
    assert sum(batch.num_rows for batch in opened.scan(version=1)) == 3
    kinds = [kind for batch in opened.changes(1) for kind in batch.column("_change_type").to_pylist()]
    assert sorted(kinds) == ["delete", "insert", "update_postimage", "update_preimage"]
    if storage_for(root).renames:  # HDFS cannot exchange two directories in one step
        with pytest.raises(MutatorError, match="name a new directory") as fault:
            opened.export(output, open_runner=open_runner)
        assert fault.value.kind == "output.exchange"
        output = f"{root}/out2"
    assert opened.export(output, open_runner=open_runner).rows == len(NEW)
    assert local_engine.verify(output).problems == ()

    copy = Table.create(f"{root}/copy", {**SETTINGS}, dataset=output, open_runner=open_runner)
    assert (copy.version, rows_of(copy.path)) == (1, NEW)
    assert copy.verify(open_runner=open_runner).problems == ()
    keys = [entry.path for entry in walk(table) if entry.path.endswith(".keys")]
    assert bool(keys) != inline
    for path in [*keys[:1], f"{table}/_mutator/table/hint.json"]:
        storage_for(path).remove(path)
    assert opened.verify(repair=True, open_runner=open_runner).problems == ()
    assert opened.verify(open_runner=open_runner).problems == ()
    assert rows_of(table) == NEW
    assert opened.compact(everything=True, open_runner=open_runner).version == 3
    assert (rows_of(table), opened.get("4")["name"], opened.get("2")) == (NEW, "d", None)
    assert [one.version for one in opened.history("2")] == [1, 2]
    assert opened.verify(open_runner=open_runner).problems == ()
    assert storage_for(root).unfinished(root) == []


@pytest.mark.rest
def test_one_of_several_creators_of_an_entry_wins(root: str) -> None:
    table = f"{root}/table"
    before = create_empty(table, SETTINGS, buckets=2).version
    barrier = Barrier(RACERS)

    def racer(name: int) -> list[bool]:
        log, won = TableLog(table), []
        with met_at(barrier) as meet:
            for number in range(1, ROUNDS + 1):
                meet()
                won.append(log.commit(replace(before, number=number, id=f"{name}-{number}")))
        return won

    with ThreadPoolExecutor(RACERS) as pool:
        rounds = list(zip(*pool.map(racer, range(RACERS)), strict=True))
    for number, won in enumerate(rounds, 1):
        assert sum(won) == 1
        assert TableLog(table).read(number).id == f"{won.index(True)}-{number}"


@pytest.mark.rest
def test_one_of_several_readers_moves_a_bookmark(root: str) -> None:
    table = Table(create_empty(f"{root}/table", SETTINGS, buckets=2).table)
    for name in range(RACERS):
        table.tag(f"version-{name}", 0)
    barrier = Barrier(RACERS)

    def racer(name: int) -> list[bool]:
        won = []
        with met_at(barrier) as meet:
            for _ in range(ROUNDS):
                if not name:
                    table.bookmark("reader", 0)
                meet()
                mark = reader_place.known_bookmark(table.path, "reader")
                meet()
                won.append(False)
                with suppressed("table.bookmark.moved"):
                    won[-1] = reader_place.move(table.snapshot, mark, 1 + name).version == 1 + name
                meet()
                assert won[-1] == (reader_place.known_bookmark(table.path, "reader").version == 1 + name)
                meet()
        return won

    with ThreadPoolExecutor(RACERS) as pool:
        rounds = zip(*pool.map(racer, range(RACERS)), strict=True)
    assert [sum(won) for won in rounds] == [1] * ROUNDS


@pytest.mark.rest
def test_an_entry_whose_answer_was_lost_is_known_as_ones_own(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = f"{root}/table"
    create_empty(table, SETTINGS, buckets=2)
    kind, lost = type(storage_for(table)), []
    create_new = kind.create_new

    @contextmanager
    def without_answer(self: Any, path: str, *more: Any) -> Iterator[Any]:
        with create_new(self, path, *more) as stream:
            yield stream
        if "/log/" in path:
            lost.append(path)
            raise error("storage", path=path, why="timeout")

    monkeypatch.setattr(kind, "create_new", without_answer)
    assert apply_to(table, f"{root}/first.csv") == 1
    assert len(lost) == 1
    assert rows_of(table) == OLD


@pytest.mark.thorough(keep=0)
def test_a_cleaning(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "INLINE", 0)
    table = f"{root}/table"
    create_empty(table, SETTINGS, buckets=2)
    apply_to(table, f"{root}/first.csv")
    apply_to(table, f"{root}/second.csv")
    opened, log = Table(table), TableLog(table)
    first = log.read(1)
    opened.tag("first", 1)
    opened.compact(everything=True, open_runner=open_runner)

    report = opened.clean(keep_versions=1, grace="0s")

    assert (report.version, report.earliest_version, report.archived_entries, report.tagged) == (5, 4, 3, (1,))
    assert report.removed_files > 0
    assert (rows_of(table), log.numbers()) == (NEW, [0, 4, 5])
    assert len(Table(table).scan(version="first").to_pylist()) == 3
    with pytest.raises(MutatorError, match="version 2 is gone"):
        Table(table).scan(version=2)
    for late in (replace(log.read(2), id="0" * 32, parent=first.id), replace(first, id="0" * 32)):
        assert log.commit(late)
        with pytest.raises(MutatorError, match="exists long since"):
            log.confirm(late, first)
    assert log.numbers() == [0, 4, 5]
    assert opened.verify(open_runner=open_runner).problems == ()
    assert apply_to(table, f"{root}/second.csv") == 5  # nothing is left to merge
