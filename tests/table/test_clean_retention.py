"""Which versions a cleaning keeps: by number and age, and those with tags and bookmarks."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.versions import bookmarks
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.table import clean, clean_removal, reader_place
from mutator.table.clean_plan import Retention
from mutator.table.table import Table
from tests.support.cleaned_table import AGAIN, data, quick, rows, rows_of, stop, table_of_some_versions
from tests.table.test_several_writers import at_phase

__all__ = ["quick", "table_of_some_versions"]  # fixtures


def test_versions_with_the_same_rows_go_as_one(table: Table) -> None:
    table.tag("compacted", 7)
    table.apply(rows("a", 8))  # version 9
    table.compact(everything=True)
    table.apply(rows("a", 9))  # version 11
    assert table.clean(keep_versions=2, dry_run=True).versions_gone == 6, "the rows of 6, 7 and 8 are tagged"
    assert table.clean(**AGAIN).versions_gone == 7
    table.untag("compacted")
    assert table.clean(**AGAIN).versions_gone == 1
    assert table.clean(**AGAIN).versions_gone == 0


def test_applies_that_change_no_row_are_not_counted(table: Table) -> None:
    table.apply(rows("a", 8))
    expected = {version: rows_of(table, version) for version in (7, 8)}
    table.apply(rows("a", 8))  # equal
    table.apply(rows("a", 1))  # late
    table.apply(rows("w", 9, "D"))  # a delete of an unknown record
    report = table.clean(keep_versions=2, grace="0s")
    assert (report.earliest_version, report.versions_gone) == (7, 6)
    assert {version: rows_of(table, version) for version in expected} == expected
    assert table.clean(**AGAIN).versions_gone == 1
    assert rows_of(table) == expected[8]
    assert table.verify().differences == ()


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("net", [False, True])
def test_changes_after_a_tagged_version_are_gone(table: Table, version: int, net: bool) -> None:
    table.tag("kept", version)
    table.clean(**AGAIN)
    message = f"the changes after version {version} are gone, .*; the earliest changes are those after version 7, and"
    with pytest.raises(MutatorError, match=message):
        table.changes("kept", net=net)
    assert table.changes(7, net=net).to_arrow().num_rows == 0


def test_a_time_finds_a_tagged_version_but_no_gone_one(table: Table) -> None:
    table.tag("kept", 3)
    expected, times = rows_of(table, 3), [one.committed for one in table.log()]
    table.clean(**AGAIN)
    assert sorted(table.scan(as_of=times[3]).to_pylist(), key=repr) == expected
    for gone in (2, 4, 5):
        with pytest.raises(MutatorError, match="there was no version that is left"):
            table.scan(as_of=times[gone])
    assert table.at(as_of=times[8]).version.number == 8


def test_versions_are_kept_by_number_and_by_age(table: Table) -> None:
    log, newest = TableLog(table.path), table.snapshot.version
    times = [time.mktime(time.strptime("2026-01-01", "%Y-%m-%d")) + number for number in range(8)]

    class Dated:
        def read(self, number: int) -> Any:
            committed = datetime.fromtimestamp(times[number], UTC).isoformat()
            return replace(log.read(number), committed=committed)

    def earliest(versions: int | None, seconds: float | None, now: float = times[7]) -> int:
        return Retention(versions, seconds).earliest(Dated(), newest, 0, now)  # type: ignore[arg-type]

    # Version 7 is the compacted version 6.
    assert [earliest(count, None) for count in range(1, 9)] == [7, 5, 4, 3, 2, 1, 0, 0]
    # Version v was superseded when v + 1 was committed.
    assert [earliest(None, age) for age in (0, 0.5, 1, 1.5, 2, 99)] == [7, 6, 6, 5, 5, 0]
    assert earliest(1, 2) == earliest(3, 0.5) + 1 == 5
    assert earliest(None, 60, times[7] + 100) == 7


def test_a_tag_keeps_its_version(table: Table) -> None:
    second = rows_of(table, 2)
    table.tag("second", 2)
    report = table.clean(**AGAIN)
    assert (report.tagged, report.earliest_version) == ((2,), 7)
    assert rows_of(table, 2) == rows_of(Table(table.path), 2) == second
    assert [one.version for one in table.log() if not one.gone] == [2, 7, 8, 9]
    assert table.verify().differences == ()
    with pytest.raises(MutatorError, match=r"version 3 is gone, .* earliest version is 7 \(and earlier .* second"):
        table.scan(version=3)
    with pytest.raises(MutatorError, match="version 3 is gone"):
        table.tag("third", 3)
    with pytest.raises(MutatorError, match="the changes after version 2 are gone"):
        table.changes(2)
    table.untag("second")
    table.clean(**AGAIN)
    assert len(data(table)) == 1
    assert table.verify().differences == ()


def test_a_bookmark_keeps_the_versions_from_its_own_on(table: Table) -> None:
    kept = [rows_of(table, version) for version in range(4, 8)]
    table.bookmark("reader", 4)
    assert table.clean(**AGAIN).earliest_version == 4
    assert [rows_of(table, version) for version in range(4, 8)] == kept
    assert table.changes(4).to_arrow().num_rows
    table.remove_bookmark("reader")
    assert table.clean(**AGAIN).earliest_version == 7


def test_a_bookmark_that_is_written_during_a_cleaning_gets_its_version_back(table: Table) -> None:
    fourth, reader = rows_of(table, 4), Table(table.path)
    with at_phase("commit", lambda: reader.bookmark("reader", 4)):
        report = table.clean(**AGAIN)
    assert report.earliest_version == 4
    assert rows_of(Table(table.path), 4) == fourth
    assert [one.kind for one in table.log()][-2:] == ["clean", "clean"]
    assert table.verify().differences == ()
    table.remove_bookmark("reader")
    assert table.clean(**AGAIN).earliest_version == 7
    assert len(data(table)) == 1
    assert table.verify().differences == ()


def test_a_version_that_came_back_is_there_though_the_hint_calls_it_gone(table: Table) -> None:
    hint, reader, seen = Path(TableLog(table.path).hint_path), Table(table.path), list[bytes]()

    def confirm(_: TableLog, version: Any, known: Any) -> None:
        seen.append(hint.read_bytes())

    fourth = rows_of(table, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableLog, "confirm", confirm)
        with at_phase("commit", lambda: reader.bookmark("reader", 4)):
            table.clean(keep_versions=1)
    hint.write_bytes(seen[1])  # that of the first of two cleanings: the process died after it committed the second one
    assert TableLog(table.path).hinted().earliest == 7
    assert rows_of(Table(table.path), 4) == fourth
    with pytest.raises(MutatorError, match="version 3 is gone"):
        rows_of(Table(table.path), 3)


def test_a_bookmark_after_the_commit_of_a_cleaning_is_refused(table: Table) -> None:
    reader = Table(table.path)
    table.clean(keep_versions=1)
    with pytest.raises(MutatorError, match="version 4 is gone"):
        reader.bookmark("reader", 4)
    assert table.bookmarks() == []


def test_a_cleaning_removes_no_files_that_another_one_took_back(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has looked at the bookmarks before there was one, and has removed nothing when the other one commits."""
    fourth, known = rows_of(table, 4), open_snapshot(table.path)
    remove_named, put = clean.remove_named, reader_place.change_bookmark

    def put_slowly(*arguments: Any) -> Any:
        def check(mark: Any) -> None:
            Table(table.path).clean(keep_versions=1)
            arguments[-1](mark)

        return put(*arguments[:-1], check)

    def bookmarked_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(clean, "remove_named", remove_named)
        assert reader_place.bookmarked(known, "reader", 4, 9999).version == 4
        return remove_named(*arguments)

    monkeypatch.setattr(reader_place, "change_bookmark", put_slowly)
    monkeypatch.setattr(clean, "remove_named", bookmarked_meanwhile)
    Table(table.path).clean(**AGAIN)
    assert rows_of(Table(table.path), 4) == fourth
    table.remove_bookmark("reader")
    assert table.clean(**AGAIN).earliest_version > 4
    assert table.verify().differences == ()


def test_a_list_that_was_taken_back_by_a_killed_cleaning_is_named_anew(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.clean(keep_versions=1)
    (waiting,) = open_snapshot(table.path).state.cleaning.waiting.values()
    assert clean_removal.take_back(table.path, waiting)
    assert not clean_removal.has_begun(table.path, waiting)
    report = Table(table.path).clean(**AGAIN)
    assert report.removed_files > 0
    assert len(rows_of(Table(table.path))) == 5
    assert table.verify().differences == ()


def test_a_list_whose_files_are_being_removed_is_not_taken_back(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.clean(keep_versions=1)
    (waiting,) = open_snapshot(table.path).state.cleaning.waiting.values()
    monkeypatch.setattr(clean_removal, "_remove", lambda *_: None)
    monkeypatch.setattr(clean_removal, "_end", lambda *_: None)
    table.clean(**AGAIN)
    monkeypatch.undo()
    assert not clean_removal.take_back(table.path, waiting)
    with pytest.raises(MutatorError, match="version 4 is gone"):
        table.bookmark("reader", 4)


def test_a_bookmark_of_a_killed_reader_comes_too_late(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was written after files had begun to be removed, and its reader did not come to look at the log."""
    table.clean(keep_versions=1)
    with monkeypatch.context() as patch:
        patch.setattr(clean_removal, "_end", stop)
        with pytest.raises(MutatorError):
            table.clean(**AGAIN)
    late = bookmarks.Bookmark("dead", 4, datetime.now(UTC).isoformat(), 9999)
    bookmarks.change_bookmark(table.path, "dead", lambda _: late)
    assert table.clean(**AGAIN).earliest_version == 7
    assert len(data(table)) == 1
