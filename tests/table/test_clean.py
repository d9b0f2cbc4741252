"""A cleaning names the files that no version needs, and later removes them: never one that anybody needs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.versions import archive, bookmarks, opening
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.packs import packed, unpacked
from mutator.errors import MutatorError, error
from mutator.table import apply, clean, clean_removal, compact, reader_place, restore, turn
from mutator.table.commit import Outdated, commit_next
from mutator.table.retention import Retention
from mutator.table.scan import scan_batches
from mutator.table.scan_parts import parts_of
from mutator.table.table import Table
from mutator.table.version_points import points_before
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.table.test_several_writers import at_phase

AGAIN: dict[str, Any] = {"keep_versions": 1, "grace": "0s"}
OLD = time.time() - 3 * 86_400


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let versions have files apart from the log, checkpoints often, and other writers act in the turn of one."""
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "INLINE", 0)
    monkeypatch.setattr(opening, "_EVERY", 4)
    monkeypatch.setattr(turn, "_PATIENCE", 0)


def rows(ids: str, at: int, op: str = "U") -> pa.Table:
    return pa.table({"id": list(ids), "at": [at] * len(ids), "op": [op] * len(ids)})


@pytest.fixture(name="table")
def table_of_some_versions(tmp_path: Path) -> Table:
    table = Table.create(tmp_path / "t", key="id", order_by="at", op="op", max_delete_fraction=1, buckets=2)
    table.apply(rows("abcdef", 1))
    for at in range(2, 6):
        table.apply(rows("ab", at))
    table.apply(rows("c", 6, "D"))
    table.compact(everything=True)
    return table  # version 7


def rows_of(table: Table, version: int | None = None) -> list[Any]:
    return sorted(table.scan(version=version).to_pylist(), key=repr)


def paths(table: Table) -> set[str]:
    """Return the paths of the files of a table, but for those of its log."""
    root = Path(table.path)
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith(("_mutator/table/log", "_mutator/table/checkpoints"))}


def data(table: Table) -> set[str]:
    return {path for path in paths(table) if path.endswith(".parquet") and path.startswith("version_id")}


def stray(table: Table, run: str = "20200101T000000Z-12345678", when: float = OLD) -> Path:
    """Return a file that a run left, which made no version."""
    path = Path(table.path) / f"version_id=9/part-00000-{run}.parquet"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"rows")
    os.utime(path, (when, when))
    return path


def test_the_second_step_removes_what_the_first_one_named(table: Table) -> None:
    before, newest = paths(table), rows_of(table)

    report = table.clean(keep_versions=1)

    assert (report.version, report.earliest_version, report.is_new) == (8, 7, True)
    assert report.versions_gone == 6, "versions 0 to 5: version 7 has the rows of 6"
    assert paths(table) >= before, "nothing is removed before the grace is over"
    assert report.waiting_files == report.files > 0
    assert not table.clean(keep_versions=1).removed_files

    report = table.clean(**AGAIN)

    assert report.removed_files == report.removed_files
    assert (report.is_new, report.waiting_files, report.archived_entries) == (False, 0, 6)
    assert len(data(table)) == 1
    assert rows_of(table) == newest
    assert table.verify().text().endswith("counts, checkpoints")
    assert not table.clean(**AGAIN).is_new, "a cleaning makes no version that the next one has to clean"


def test_a_dry_run_shows_each_file_with_the_last_version_that_needed_it(table: Table) -> None:
    removed = {path: one.number - 1 for one in TableLog(table.path).chain(None, 7) for path in one.removed}
    before = paths(table)

    report = table.clean(keep_versions=1, dry_run=True)

    assert report.named is not None
    found = {one.path: one.last_version for one in report.named if one.reason == "replaced"}
    assert {path: found.get(path) for path in removed} == removed
    assert {one.path: one.last_version for one in report.named if "/keys/" in one.path} == {
        f"_mutator/table/keys/{path}.keys": last for path, last in removed.items()
    }
    assert {one.reason for one in report.named} == {"replaced", "version gone", "checkpoint"}
    assert sorted(one.last_version or 0 for one in report.named if "/hidden/" in one.path) == [2, 3, 4, 5, 6]
    assert (paths(table), table.version) == (before, 7)
    named = {one.path for one in report.named}
    assert table.clean(**AGAIN).removed_files == len(named)
    assert not any((Path(table.path) / path).exists() for path in named)


def test_a_second_cleaning_of_a_table_that_was_not_compacted_names_nothing(table: Table) -> None:
    table.apply(rows("xyz", 8))
    report = table.clean(keep_versions=1)
    assert (report.version, report.earliest_version, report.versions_gone) == (9, 8, 7)
    for _ in range(2):
        report = table.clean(keep_versions=1)
        assert (report.version, report.is_new, report.versions_gone) == (9, False, 0)
    table.tag("here")
    assert not table.clean(keep_versions=1).is_new


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
    with pytest.raises(MutatorError, match="version 3 is gone"):
        table.changes(2)
    table.untag("second")
    table.clean(**AGAIN)
    assert len(data(table)) == 1
    assert table.verify().differences == ()


def test_what_asks_for_a_version_that_is_gone_is_told_the_earliest_one(table: Table) -> None:
    stale = Table(table.path)
    table.clean(keep_versions=2, grace="0s")
    table.apply(rows("z", 9))
    for asking in (
        lambda one: one.scan(version=4),
        lambda one: one.changes(4),
        lambda one: one.get("a", version=4),
        lambda one: one.history("a", version=4),
        lambda one: one.export(f"{table.path}-export", version=4),
        lambda one: one.bookmark("reader", 4),
    ):
        for one in (Table(table.path), stale):
            with pytest.raises(MutatorError, match=r"version 4 is gone, because .*; the earliest version is 5"):
                asking(one)
    with pytest.raises(MutatorError, match="earliest version is 5"):
        table.scan(as_of="2026-01-01")
    assert stale.refresh().version == 9
    assert len(rows_of(stale)) == 6
    assert table.changes(5).to_arrow().num_rows == table.changes(8).to_arrow().num_rows + 1


def taken_away(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply, compact, and clean all versions before that; a snapshot that is open knows nothing of it."""
    with monkeypatch.context() as patch:
        patch.setattr(apply, "INLINE", 1 << 20)  # the rows are in one file
        table.apply(rows("abcdef", 20))
        table.compact(everything=True)
        table.clean(**AGAIN)


@pytest.mark.parametrize(
    "read",
    [
        lambda one: one.scan().to_arrow(),
        lambda one: one.scan(where="id = 'a'").to_arrow(),
        lambda one: one.get("a"),
        lambda one: one.history("a"),
        lambda one: one.export(f"{one.path}-export"),
        lambda one: [batch for part in parts_of(one.snapshot, None, None, 2) for batch in part.batches()],
    ],
    ids=["scan", "filter", "get", "history", "export", "parts"],
)
def test_a_reader_that_takes_longer_than_the_grace_is_told_so(
    table: Table, read: Callable[[Table], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Table(table.path)
    assert read(slow)
    shutil.rmtree(f"{table.path}-export", ignore_errors=True)
    slow = Table(table.path)
    taken_away(table, monkeypatch)
    with pytest.raises(MutatorError, match=r"version 7 is gone, because .*; the earliest version is 9, and") as raised:
        read(slow)
    assert raised.value.exit_code == 2
    assert read(slow.refresh())


def test_a_reader_that_has_begun_is_told_so(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.apply(rows("xyz", 8))
    scan, changes, net = table.scan(), table.changes(5), table.changes(5, net=True)
    parts = parts_of(table.snapshot, None, None, 2)
    assert next(scan).num_rows
    taken_away(table, monkeypatch)
    for read in (lambda: list(scan), changes.to_arrow, net.to_arrow, lambda: [list(one.batches()) for one in parts]):
        with pytest.raises(MutatorError, match=r"version [58] is gone, because .*; the earliest version is 10, and"):
            read()


def test_a_reader_of_a_tagged_version_goes_on_after_a_cleaning(table: Table) -> None:
    """The checkpoint that it has opened is removed, and another one of the same version is there."""
    table.tag("kept", 4)
    slow, expected = table.at(4), rows_of(table, 4)
    table.clean(**AGAIN)
    found = [row for batch in scan_batches(slow) for row in batch.to_pylist()]
    assert sorted(found, key=repr) == expected


@pytest.mark.parametrize("net", [False, True])
def test_changes_of_an_overwrite_need_the_files_that_a_cleaning_removes(table: Table, net: bool) -> None:
    """The keys are known by then. Of a file that is lost, they would be enough."""
    table.apply(rows("pqr", 8))
    table.insert_overwrite_table(rows("abxyz", 9))
    changes = table.changes(8, net=net)
    assert next(changes).num_rows
    table.apply(rows("k", 20))
    table.clean(**AGAIN)
    with pytest.raises(MutatorError, match=r"version 8 is gone, because .*; the earliest version is 10, and"):
        list(changes)


@pytest.mark.parametrize("kept", ["newest", "tag"])
def test_a_file_that_no_cleaning_has_removed_is_lost(table: Table, kept: str) -> None:
    if kept == "tag":
        table.tag("kept", 7)
        table.apply(rows("xyz", 8))
        table.compact(everything=True)
        table.clean(**AGAIN)
    slow = table.at(7)
    for path in Path(table.path).glob("version_id=*/*.parquet"):
        path.unlink()
    with pytest.raises(MutatorError, match=r"is damaged \(it is missing\)"):
        list(scan_batches(slow))


def test_a_history_goes_on_with_what_is_left(table: Table) -> None:
    def history(name: str) -> list[Any]:
        return [(one.version, None if one.deleted else one.record["at"][0].as_py()) for one in table.history(name)]

    assert history("a") == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]
    table.clean(keep_versions=2, grace="0s")
    assert history("a") == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)], "version 5 needs all the files"
    table.clean(**AGAIN)
    assert history("a") == [(7, 5)], "the compaction has its row"
    assert history("c") == [(6, None)]
    table.apply(rows("a", 9))
    assert history("a") == [(7, 5), (10, 9)]


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
    remove_named, put = clean.remove_named, reader_place.put_bookmark

    def put_slowly(*arguments: Any) -> Any:
        def check() -> None:
            Table(table.path).clean(keep_versions=1)
            arguments[-1]()

        return put(*arguments[:-1], check)

    def bookmarked_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(clean, "remove_named", remove_named)
        assert reader_place.bookmarked(known, "reader", 4, 9999).version == 4
        return remove_named(*arguments)

    monkeypatch.setattr(reader_place, "put_bookmark", put_slowly)
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
    bookmarks.put_bookmark(table.path, "dead", 4, 9999, datetime.now(UTC), lambda: None)
    assert table.clean(**AGAIN).earliest_version == 7
    assert len(data(table)) == 1


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


def stop(table: str, waiting: Any) -> None:
    raise error("storage", path=table, why="stopped")


# --- runs without a version


def test_files_of_dead_runs_are_named_before_they_are_removed(table: Table) -> None:
    old, young, foreign = stray(table), stray(table, "20200101T000000Z-aaaaaaaa", time.time()), stray(table, "mine")
    report = table.clean(keep_versions=99)
    assert (report.files, report.runs_given_up) == (1, ("20200101T000000Z-12345678",))
    assert old.exists()
    assert TableLog(table.path).read(8).given_up == report.runs_given_up
    assert table.clean(keep_versions=99, grace="0s").removed_files == 1
    assert not old.exists()
    assert young.exists()
    assert foreign.exists()


def test_a_run_that_still_writes_is_not_dead(table: Table) -> None:
    run = "20200101T000000Z-12345678"
    old, young = stray(table, run), stray(table, f"{run}-1", time.time())
    assert not table.clean(keep_versions=99, grace="0s").is_new
    assert old.exists()
    assert young.exists()


def in_the_past(table: Table) -> None:
    """Let all files of a table seem old."""
    for path in Path(table.path).rglob("*"):
        if path.is_file():
            os.utime(path, (OLD, OLD))


def test_a_writer_that_was_paused_over_a_cleaning_gives_up(table: Table) -> None:
    """Its files are named and removed, and it finds its run among those that are given up."""
    before = rows_of(table)

    def paused() -> None:
        in_the_past(table)
        assert len(Table(table.path).clean(keep_versions=99, grace="0s").runs_given_up) == 1

    writer = Table(table.path)
    with at_phase("commit", paused), pytest.raises(MutatorError, match="counts as dead") as raised:
        writer.apply(rows("xyz", 9))
    assert raised.value.exit_code == 5
    assert rows_of(Table(table.path)) == before
    assert Table(table.path).verify().stray.files == 0  # type: ignore[union-attr]
    assert Table(table.path).apply(rows("xyz", 9)).counts["feed inserted"] == 3


def test_a_compaction_that_was_paused_over_a_cleaning_gives_up(table: Table) -> None:
    table.apply(rows("abxyz", 9))
    before = rows_of(table)

    def paused() -> None:
        in_the_past(table)
        assert len(Table(table.path).clean(keep_versions=99, grace="0s").runs_given_up) == 1

    with at_phase("commit", paused), pytest.raises(MutatorError, match="counts as dead"):
        Table(table.path).compact(everything=True)
    assert rows_of(Table(table.path)) == before
    assert Table(table.path).verify().differences == ()


def test_a_run_that_commits_just_before_a_cleaning_is_not_given_up(table: Table) -> None:
    """The cleaning has found its files without a version, and follows its version."""
    writer, cleaner, commit = Table(table.path), Table(table.path), TableLog.commit
    waiting, tries = list[Any](), list[str]()

    def committing(log: TableLog, version: Any) -> bool:
        tries.append(version.action)
        if tries == ["apply"]:
            waiting.append(version)
            in_the_past(table)
            assert not cleaner.clean(keep_versions=99, grace="0s").runs_given_up
            return True
        if tries == ["apply", "clean"]:
            assert version.given_up
            assert commit(log, waiting[0])
        return commit(log, version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableLog, "commit", committing)
        writer.apply(rows("xyz", 9))
    assert tries == ["apply", "clean"]
    assert len(rows_of(Table(table.path))) == 8
    assert table.verify().differences == ()


# --- the archive of the log


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


def test_an_apply_starts_over_whose_version_is_cleaned_while_it_reads(table: Table) -> None:
    slow = Table(table.path)
    table.apply(rows("ab", 8))

    def meanwhile() -> None:
        table.compact(everything=True)
        table.clean(keep_versions=1, grace="0s")

    slow.refresh()
    with at_phase("planned", meanwhile):
        assert slow.apply(rows("abz", 9)).version == 11
    assert [(row["id"], row["at"]) for row in rows_of(slow) if row["id"] in "abz"] == [("a", 9), ("b", 9), ("z", 9)]
    assert slow.verify().differences == ()


@pytest.mark.parametrize("step", ["prepare", "_compacted"])
def test_a_compaction_starts_over_whose_version_is_cleaned_while_it_reads(
    table: Table, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.apply(rows("ab", 8))
    slow, waiting, own = Table(table.path), [True], getattr(compact, step)

    def meanwhile(*given_: Any) -> Any:
        if waiting.pop() if waiting else False:
            table.compact(everything=True)
            table.apply(rows("abz", 9))
            table.clean(**AGAIN)
        return own(*given_)

    monkeypatch.setattr(compact, step, meanwhile)
    report = slow.compact(everything=True)
    assert (report.version, report.is_new, waiting) == (12, True, [])
    assert [(row["id"], row["at"]) for row in rows_of(slow) if row["id"] in "abz"] == [("a", 9), ("b", 9), ("z", 9)]
    assert slow.verify().differences == ()


def test_a_compaction_of_damaged_files_starts_once(table: Table) -> None:
    table.apply(rows("ab", 8))
    for path in Path(table.path).glob("version_id=*/*.parquet"):
        path.unlink()
    with pytest.raises(MutatorError, match=r"is damaged \(it is missing\)"):
        table.compact(everything=True)


def test_a_restore_of_a_version_that_is_cleaned_meanwhile(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    folded = restore._Restore._masks_here

    def cleaned(self: Any) -> Any:
        Table(table.path).clean(**AGAIN)
        return folded(self)

    monkeypatch.setattr(restore._Restore, "_masks_here", cleaned)
    with pytest.raises(MutatorError, match="version 3 is gone, because the table was cleaned; the earliest version is"):
        Table(table.path).restore(3)


def test_a_process_that_stays_open_follows_a_cleaning_that_wrote_no_hint(table: Table) -> None:
    hint, fifth = Path(TableLog(table.path).hint_path), open_snapshot(table.path, 5)
    of_seven = hint.read_bytes()
    table.clean(keep_versions=1)
    hint.write_bytes(of_seven)  # the process died after it committed
    assert not table.clean(**AGAIN).is_new
    assert TableLog(table.path).hinted().number == 7
    assert opening.refreshed(fifth).version.number == 8


def test_a_late_hint_or_checkpoint_of_an_archived_version_misleads_nobody(table: Table) -> None:
    log, eighth = TableLog(table.path), open_snapshot(table.path, 4)
    name = log.write_checkpoint(eighth.files, eighth.state, eighth.mask_rows())
    content = Path(log.checkpoint_path(name)).read_bytes()
    for at in range(9, 13):
        table.apply(rows("q", at))
    table.clean(**AGAIN)
    newest = rows_of(table)
    Path(log.checkpoint_path(name)).write_bytes(content)
    log.write_hint(eighth.version, name)
    assert rows_of(Table(table.path)) == newest
    assert Table(table.path).apply(rows("xyz", 20)).counts["feed inserted"] == 3


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


def test_the_packs_of_other_writers_stay_with_their_checkpoints(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 1 << 16)
    monkeypatch.setattr(apply, "INLINE", 1 << 16)
    for at in range(8, 12):
        table.apply(rows("xyz", at))
    log = TableLog(table.path)
    newest = open_snapshot(table.path)
    files = unpacked(table.path, newest.files)
    other = packed(log, 8, files)  # as of a writer that has read the entries and no checkpoint
    name = log.write_checkpoint(other, newest.state, newest.mask_rows())
    report = table.clean(keep_versions=2, grace="0s")
    table.clean(keep_versions=2, grace="0s")
    assert report.earliest_version == 10
    (pack,) = {text.split(":")[2] for text in other.column("content").drop_null().to_pylist()}
    assert Path(log.checkpoint_path(name)).exists()
    assert Path(log.checkpoint_path(pack)).exists()
    assert table.verify().differences == ()


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


def test_the_base_of_the_log_is_verified(table: Table) -> None:
    table.clean(**AGAIN)
    (base,) = (Path(table.path) / "_mutator/table/checkpoints").glob("*.base.parquet")
    content = base.read_bytes()
    base.write_bytes(content[:-1])
    assert any(one.file == str(base.relative_to(table.path)) for one in table.verify().differences)
    (Path(table.path) / "_mutator/table/hint.json").unlink()
    base.unlink()
    for other in (Path(table.path) / "_mutator/table/checkpoints").glob("*.parquet"):
        other.unlink()
    with pytest.raises(MutatorError, match=r"the checkpoint that the log begins with .* is lost or damaged"):
        Table(table.path)
    base.write_bytes(content)
    assert len(rows_of(Table(table.path))) == 5
    assert Table(table.path).verify(repair=True).differences == ()


# --- other writers at the same time


def writers(table: Table) -> dict[str, Callable[[], Any]]:
    def other() -> Table:
        return Table(table.path)

    return {
        "apply": lambda: other().apply(rows("abx", 50)),
        "apply twice": lambda: [other().apply(rows("abx", 50)), other().apply(rows("ay", 51))],
        "compact": lambda: other().compact(everything=True),
        "clean": lambda: other().clean(**AGAIN),
        "clean less": lambda: other().clean(keep_versions=3, grace="0s"),
        "tag": lambda: other().tag("other", 4),
        "move a tag": lambda: other().tag("kept", 4, move=True),
        "untag": lambda: other().untag("kept"),
        "overwrite": lambda: other().insert_overwrite_table(rows("abx", 50)),
        "restore": lambda: other().restore(4),
        "restore and apply": lambda: [other().restore(4), other().apply(rows("abx", 50))],
        "restore of a tagged version": lambda: other().restore("kept"),
    }


WRITERS = [
    "apply",
    "apply twice",
    "compact",
    "clean",
    "clean less",
    "tag",
    "move a tag",
    "untag",
    "overwrite",
    "restore",
    "restore and apply",
    "restore of a tagged version",
]


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_acts_before_a_cleaning_commits(table: Table, name: str) -> None:
    table.apply(rows("abc", 20))
    table.tag("kept", 2)
    second, fourth = rows_of(table, 2), rows_of(table, 4)
    expected = {one: rows_of(table, one) for one in range(10)}
    with at_phase("commit", writers(table)[name]):
        table.clean(**AGAIN)
    found = Table(table.path)
    assert found.verify().differences == ()
    assert name not in RESTORED or rows_of(found) == {2: second, 4: fourth}[RESTORED[name]]
    assert found.snapshot.state.cleaning.left.has(2) == (name not in ("untag", "move a tag"))
    left = found.snapshot.state.cleaning.left
    assert {one: rows_of(found, one) for one in expected if left.has(one)} == {
        one: expected[one] for one in expected if left.has(one)
    }
    assert name not in ("tag", "move a tag") or rows_of(found, 4) == fourth
    assert ("y" in {row["id"] for row in rows_of(found)}) == (name == "apply twice")


RESTORED = {"restore": 4, "restore of a tagged version": 2}  # name -> version
REFUSED = ("tag", "move a tag", "restore")  # that need version 4, which is gone by then


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("name", [name for name in WRITERS if " twice" not in name and " and " not in name])
def test_a_cleaning_acts_before_a_writer_commits(table: Table, name: str, limit: int) -> None:
    table.apply(rows("abc", 20))
    table.tag("kept", 2)
    second, expected = rows_of(table, 2), rows_of(table)
    act = writers(table)[name]
    refused = pytest.raises(MutatorError, match="version 4 is gone") if name in REFUSED else nullcontext()
    with at_phase("commit", lambda: Table(table.path).clean(keep_versions=limit, grace="0s")), refused:
        act()
    found = Table(table.path)
    assert found.verify().differences == ()
    assert found.snapshot.state.tags == ({} if name == "untag" else {"kept": 2})
    assert name == "untag" or rows_of(found, 2) == second
    if name in RESTORED and name not in REFUSED:
        assert rows_of(found) == second
        return
    kept = [row for row in expected if row["id"] not in "abx"]
    assert [row for row in rows_of(found) if row["id"] not in "abx"] == ([] if name == "overwrite" else kept)
    assert ("x" in {row["id"] for row in rows_of(found)}) == (name in ("apply", "overwrite"))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), st.text("abcd", min_size=1, max_size=3), st.sampled_from("UUD")),
        st.tuples(st.just("compact")),
        st.tuples(st.just("tag"), st.sampled_from("xy"), st.integers(0, 9)),
        st.tuples(st.just("untag"), st.sampled_from("xy")),
        st.tuples(st.just("bookmark"), st.integers(0, 9)),
        st.tuples(st.just("unmark")),
        st.tuples(st.just("clean"), st.integers(1, 4), st.sampled_from(["0s", "1h"])),
    ),
    min_size=3,
    max_size=14,
)


@given(steps=steps)
@law(150, deadline=None)
def test_what_is_left_is_as_it_was(steps: list[Any]) -> None:
    with scratch() as directory:
        table = Table.create(directory / "t", key="id", order_by="at", op="op", max_delete_fraction=1, buckets=2)
        models, marked = [list[Any]()], list[int]()
        for number, (step, *given_) in enumerate(steps):
            act(table, step, given_, number, marked)
            while len(models) <= table.refresh().version:
                models.append(rows_of(table, len(models)))
            left = table.snapshot.state.cleaning.left
            assert all(left.has(tagged) for tagged in table.tags().values())
            assert not marked or left.earliest <= marked[0]
        for version, model in enumerate(models):
            if left.has(version):
                assert rows_of(table, version) == model
        assert table.verify().differences == ()


def act(table: Table, step: str, given_: list[Any], number: int, marked: list[int]) -> None:
    left, newest = table.snapshot.state.cleaning.left, table.version
    if step == "apply":
        table.apply(rows("".join(sorted(set(given_[0]))), number + 1, given_[1]))
    elif step == "compact":
        table.compact(everything=True)
    elif step == "tag" and given_[0] not in table.tags() and left.has(given_[1]) and given_[1] <= newest:
        table.tag(*given_)
    elif step == "untag" and given_[0] in table.tags():
        table.untag(given_[0])
    elif step == "bookmark" and left.earliest <= given_[0] <= newest:
        table.bookmark("reader", given_[0])
        marked[:] = [given_[0]]
    elif step == "unmark" and marked:
        table.remove_bookmark("reader")
        marked.clear()
    elif step == "clean":
        table.clean(keep_versions=given_[0], grace=given_[1])


@pytest.mark.parametrize("failures", [1, 2])
def test_a_commit_whose_look_at_the_log_fails_keeps_its_files(table: Table, failures: int) -> None:
    look, left = TableLog.has, [failures]

    def failing(log: TableLog, version: Any) -> bool:
        if left[0]:
            left[0] -= 1
            raise error("storage", path=log.path, why="timeout")
        return look(log, version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableLog, "has", failing)
        with nullcontext() if failures == 1 else pytest.raises(MutatorError, match="it is not known whether"):
            table.apply(rows("xyz", 9))
    assert len(rows_of(Table(table.path))) == 8


def test_what_reads_the_log_from_an_early_version_reads_the_archive(table: Table) -> None:
    log, before = TableLog(table.path), [one.id for one in TableLog(table.path).chain(None, 7)]
    table.clean(**AGAIN)
    assert [one.id for one in log.all_after(-1)][:8] == before, "as the claims of a workflow do"
    assert [one.id for one in log.after(2, 6)] == before[3:7], "as the recovery of a workflow does"
    assert table.export(f"{table.path}-export").rows == 5
