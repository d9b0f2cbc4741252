"""A cleaning names the files that no version needs, and later removes them: never one that anybody needs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.versions.log import TableLog
from mutator.errors import MutatorError, error
from mutator.table import apply, compact, earlier_files, restore
from mutator.table.scan import scan_batches
from mutator.table.scan_parts import parts_of
from mutator.table.table import Table
from tests.support.cleaned_table import AGAIN, data, paths, quick, rows, rows_of, table_of_some_versions
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.table.test_several_writers import at_phase

__all__ = ["quick", "table_of_some_versions"]  # fixtures
OLD = time.time() - 3 * 86_400


def stray(table: Table, run: str = "20200101T000000Z-12345678", when: float = OLD) -> Path:
    """Return a file that a run left, which made no version."""
    path = Path(table.path) / f"_mutator/table/rows/version_id=9/part-00000-{run}.rows"
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


def test_files_that_are_removed_do_not_wait(table: Table) -> None:
    report = table.clean(**AGAIN)
    assert (report.removed_files, report.waiting_files) == (report.files, 0)
    report = table.clean(keep_versions=1)
    assert (report.removed_files, report.waiting_files) == (0, 0)
    assert "will be removed" not in report.text()


def test_a_dry_run_shows_each_file_with_the_last_version_that_needed_it(table: Table) -> None:
    removed = {path: one.number - 1 for one in TableLog(table.path).chain(None, 7) for path in one.removed}
    before = paths(table)

    report = table.clean(keep_versions=1, dry_run=True)

    assert report.named is not None
    found = {one.path: one.last_version for one in report.named if one.reason == "replaced"}
    assert {path: found.get(path) for path in removed} == removed
    assert {one.path: one.last_version for one in report.named if "/keys/" in one.path} == {
        f"_mutator/table/keys/{path.removeprefix('_mutator/table/')}.keys": last for path, last in removed.items()
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
        report, tried = (table.clean(keep_versions=1, dry_run=dry_run) for dry_run in (False, True))
        assert (report.version, report.is_new, report.versions_gone) == (9, False, 0)
        assert (tried.files, tried.earliest_version, tried.named) == (0, 8, ())
        assert "still version 9: nothing to clean; the earliest version is 8" in tried.text()
    table.tag("here")
    assert not table.clean(keep_versions=1).is_new


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
    with pytest.raises(MutatorError, match=r"earliest (version )?is 5"):
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


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("count", range(6))
def test_masks_of_a_version_that_is_left_are_read_after_a_cleaning(table: Table, count: int) -> None:
    """They were of a checkpoint and of version indexes that the cleaning has removed."""
    for at in range(20, 23):
        table.apply(rows("ab", at))
    assert table.clean(keep_versions=2, grace="0s").earliest_version == 9
    for at in range(30, 30 + count):
        table.apply(rows("abc", at))
    slow = [Table(table.path) for _ in range(3)]
    expected, version = rows_of(Table(table.path)), slow[0].version
    table.apply(rows("cd", 40))
    for _ in range(2):
        assert table.clean(keep_versions=2, grace="0s").earliest_version <= version
    assert rows_of(slow[0], version) == expected
    assert slow[1].apply(rows("ax", 50)).version == slow[1].version == table.refresh().version
    assert [row["at"] for row in rows_of(table) if row["id"] in "ax"] == [50, 50]
    assert slow[2].get("b") == next(row for row in expected if row["id"] == "b")
    assert table.verify().problems == ()


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
    for path in Path(table.path).glob("_mutator/table/rows/version_id=*/*.rows"):
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


def test_a_history_that_is_cleaned_while_it_is_read_begins_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = earlier_files.open_snapshot

    def open_and_clean(path: str, number: int) -> Any:
        snapshot = opened(path, number)
        monkeypatch.setattr(earlier_files, "open_snapshot", opened)
        Table(path).clean(keep_versions=2, grace="0s")
        Table(path).clean(**AGAIN)
        return snapshot

    monkeypatch.setattr(earlier_files, "open_snapshot", open_and_clean)
    assert [one.version for one in table.history("a")] == [7], "the compaction has the row of version 5"


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


# --- versions that are cleaned meanwhile


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


def test_an_apply_has_withdrawn_rows_of_files_that_the_log_has_forgotten(table: Table) -> None:
    """It hid rows of files that a compaction has replaced before its commit, and the log begins with the compaction."""
    table.apply(rows("abx", 8))
    with at_phase("commit", lambda: Table(table.path).compact(everything=True)):
        outrun = table.apply(rows("ab", 9)).version
    assert TableLog(table.path).read(outrun).withdrawn
    expected = rows_of(table)
    assert table.clean(keep_versions=2, grace="0s").earliest_version == outrun - 1
    for _ in range(2):
        assert table.verify().differences == ()
        assert rows_of(table) == expected
        table.clean(keep_versions=2, grace="0s")


@pytest.mark.parametrize("step", ["plan_without_feed", "_compacted"])
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
    for path in Path(table.path).glob("_mutator/table/rows/version_id=*/*.rows"):
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


@pytest.mark.thorough(keep=2)
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


@pytest.mark.thorough(keep=2)
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
