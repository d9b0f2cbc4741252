"""The archive of the log: entries that a cleaning takes out of the log are never lost, nor created again."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.versions import archive
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.table.commit import Outdated, commit_next
from mutator.table.table import Table
from mutator.table.version_times import points_before
from tests.support.cleaned_table import AGAIN, quick, rows, rows_of, table_of_some_versions

__all__ = ["quick", "table_of_some_versions"]  # fixtures


def test_two_cleanings_archive_the_same_entries(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.clean(keep_versions=1)
    last, others = archive.LogArchive.last, [Table(table.path)]

    def meanwhile(log: archive.LogArchive) -> int:
        found = last(log)
        while others:
            others.pop().clean(**AGAIN)
        return found

    monkeypatch.setattr(archive.LogArchive, "last", meanwhile)
    table.clean(**AGAIN)
    assert [one.version for one in table.log()] == [*range(9)]
    assert table.verify().differences == ()


def test_an_entry_that_was_archived_is_never_created_again(table: Table) -> None:
    log, slow = TableLog(table.path), Table(table.path)
    slow_version = log.read(7)
    table.apply(rows("q", 8))
    for at in range(9, 13):
        table.apply(rows("q", at))
    table.clean(**AGAIN)
    before = rows_of(table)
    assert 8 not in log.numbers()
    stale = replace(log.read(8), id="0" * 32, parent=slow_version.id)
    assert log.commit(stale)
    with pytest.raises(MutatorError, match="version 8 exists long since"):
        log.confirm(stale, slow_version)
    assert 8 not in log.numbers()
    slow.apply(rows("xyz", 20))  # it starts over
    assert len(rows_of(slow)) == len(before) + 3
    assert slow.verify().differences == ()


def test_the_first_entry_that_was_archived_is_never_created_again(table: Table) -> None:
    log = TableLog(table.path)
    table.clean(**AGAIN)
    stale = replace(log.read(1), id="0" * 32)
    assert log.commit(stale)
    with pytest.raises(MutatorError, match="exists long since"):
        log.confirm(stale, log.read(0))
    assert [one.version for one in table.log()] == list(range(9))
    with pytest.raises(MutatorError, match="already exists"):
        Table.create(table.path, key="id")


def test_an_entry_that_a_killed_writer_created_again_shows_nothing(table: Table) -> None:
    """It has the number of the version that another slow writer had seen, and is another version."""
    log, fifth, sixth = TableLog(table.path), open_snapshot(table.path, 5), open_snapshot(table.path, 6)
    table.apply(rows("q", 8))
    table.clean(**AGAIN)
    before = log.numbers()
    assert log.commit(fifth.version.next("tag", run="dead", committed=fifth.version.committed))
    late = sixth.version.next("tag", run="late", committed=sixth.version.committed)
    with pytest.raises(Outdated):
        commit_next(sixth, time.monotonic_ns(), lambda *_: late)
    assert log.numbers() == [0, 6, *before[1:]]


def test_a_slow_writer_finds_that_its_own_entry_was_archived(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was created, and archived before the writer looked."""
    check, done = TableLog._check_is_new, list[int]()

    def later(log: TableLog, version: Any, known: Any) -> None:
        if not done and version.action == "apply":
            done.append(version.number)
            other = Table(table.path)
            for at in range(30, 34):
                other.apply(rows("q", at))
            other.clean(**AGAIN)
        check(log, version, known)

    monkeypatch.setattr(TableLog, "_check_is_new", later)
    assert table.apply(rows("xyz", 20)).version == 8
    assert len(rows_of(Table(table.path))) == 9


def test_no_version_is_missed_that_is_archived_meanwhile(table: Table) -> None:
    log = TableLog(table.path)
    versions = log.all_after(-1)
    assert next(versions).number == 0
    table.clean(**AGAIN)
    assert log.numbers() == [0, 7, 8]
    assert [one.number for one in versions] == list(range(1, 9))


def test_archives_are_read_in_order_and_their_damage_is_found(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_MOST", 2)
    before = [(one.version, one.run) for one in table.log()]
    table.clean(keep_versions=2, grace="0s")
    table.clean(**AGAIN)
    assert [(one.version, one.run) for one in table.log()][: len(before)] == before
    assert len(TableLog(table.path).archive.files()) == 3
    assert table.verify().differences == ()
    damaged = Path(table.path) / "_mutator/table/archive" / TableLog(table.path).archive.files()[1].name
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    assert [one.file for one in table.verify().differences] == [str(damaged.relative_to(table.path))]
    assert rows_of(Table(table.path))
    with pytest.raises(
        MutatorError, match=rf"{damaged.name}: this archive of the entries 3 to 4 of the log is damaged"
    ):
        list(table.log())


def test_no_rows_and_no_cleaning_need_an_archive(table: Table) -> None:
    table.tag("kept", 2)
    second, newest = rows_of(table, 2), rows_of(table)
    for _ in range(2):
        table.clean(**AGAIN)
    (one,) = TableLog(table.path).archive.files()
    path = Path(table.path) / "_mutator/table/archive" / one.name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    assert (rows_of(Table(table.path), 2), rows_of(Table(table.path))) == (second, newest)
    for number in range(2):
        table.apply(rows("q", 20 + number))
        table.clean(**AGAIN)
    assert rows_of(Table(table.path), 2) == second
    table.untag("kept")
    table.clean(**AGAIN)
    table.clean(**AGAIN)
    assert not Table(table.path).tags()
    assert not any(base.name.startswith(f"{2:020d}") for base in Path(table.path).glob("_mutator/table/checkpoints/*"))
    with pytest.raises(MutatorError, match="this archive of the entries 1 to 6 of the log is damaged"):
        list(table.log())
    path.write_bytes(content)
    assert table.verify().differences == ()


@pytest.mark.parametrize("first", [1, 2, 3, 5])
def test_no_archive_is_read_that_is_older_than_asked_for(
    table: Table, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_MOST", 2)
    for _ in range(2):
        table.clean(**AGAIN)
    reads, read = list[str](), archive.read_file
    monkeypatch.setattr(archive, "read_file", lambda path: reads.append(path) or read(path))
    log = TableLog(table.path)
    assert [one.number for one in log.backwards(7, first)] == list(range(7, first - 1, -1))
    assert len(reads) == len([one for one in log.archive.files() if one.last >= first])


@pytest.mark.parametrize("group", [1, 3, 256])
def test_the_versions_before_one_are_read_from_archives_once(
    table: Table, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_MOST", 4)
    monkeypatch.setattr(archive, "_GROUP", group)
    expected = [point.run for point in points_before(table.snapshot)]
    assert len(expected) == 8
    table.clean(keep_versions=2, grace="0s")
    table.clean(**AGAIN)
    reads, read = list[str](), archive.read_file
    listings, listed = list[str](), archive.LogArchive.files
    monkeypatch.setattr(archive, "read_file", lambda path: reads.append(path) or read(path))
    monkeypatch.setattr(archive.LogArchive, "files", lambda own: listings.append(own.directory) or listed(own))
    found = [(point.number, point.run) for point in points_before(table.snapshot)]
    assert [number for number, _ in found] == list(range(table.version, -1, -1))
    assert [run for _, run in found][-8:] == expected
    assert len(listings) == 1, "all entries that the archives have are read one after the other"
    assert len(reads) == len(set(reads)) == len(TableLog(table.path).archive.files()) == 2
    list(islice(points_before(table.snapshot), 2))
    assert len(reads) == 2, "the versions that the log has are not looked up in archives"


def test_what_reads_the_log_from_an_early_version_reads_the_archive(table: Table) -> None:
    log, before = TableLog(table.path), [one.id for one in TableLog(table.path).chain(None, 7)]
    table.clean(**AGAIN)
    assert [one.id for one in log.all_after(-1)][:8] == before, "as the claims of a workflow do"
    assert [one.id for one in log.after(2, 6)] == before[3:7], "as the recovery of a workflow does"
    assert table.export(f"{table.path}-export").rows == 5
