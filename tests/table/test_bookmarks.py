"""Bookmarks: the places of readers, which move when the changes were processed, and never past what was cleaned."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator import ConfigError, StateError, Table
from mutator.cli import main
from mutator.dataset import checksummed_json
from mutator.dataset.versions import bookmarks
from mutator.dataset.versions.bookmarks import LASTS, bookmarks_of
from mutator.errors import error
from mutator.table import reader_place
from tests.support.made_once import copy_of_made


def rows(at: int, ids: str = "ab") -> Any:
    return pa.table({"id": list(ids), "at": [at] * len(ids), "op": ["U"] * len(ids), "note": [f"n{at}"] * len(ids)})


@pytest.fixture(name="table")
def new_table(tmp_path: Path) -> Table:
    return Table(copy_of_made(tmp_path / "t", fill))


def fill(path: Path) -> None:
    table = Table.create(path, key="id", order_by="at", op="op", buckets=2, max_delete_fraction=1)
    for number in (1, 2, 3):
        table.apply(rows(number))


def places(table: Table) -> dict[str, int]:
    return {one.name: one.version for one in bookmarks_of(table.path)}


def read_and(table: Table, act: Callable[[], Any]) -> None:
    """Read all changes since the bookmark, and act before it moves."""
    with table.changes_since("reports") as changes:
        changes.to_arrow()
        act()


def test_set_move_list_remove(table: Table) -> None:
    before = datetime.now(UTC)
    mark = table.bookmark("reports", 1)
    assert (mark.name, mark.version, mark.lasts) == ("reports", 1, LASTS)
    assert before - timedelta(seconds=1) < datetime.fromisoformat(mark.moved)
    assert not mark.is_expired(datetime.fromisoformat(mark.moved) + timedelta(days=6))
    assert mark.is_expired(datetime.fromisoformat(mark.moved) + timedelta(days=7))
    assert reader_place.bookmarked(table.snapshot, "short", 1, lasts=0).lasts == 0
    table.remove_bookmark("short")
    table.bookmark("other", expires="12h")
    table.tag("second", 2)
    table.bookmark("other", "second")
    assert places(table) == {"other": 2, "reports": 1}
    assert table.bookmarks()[0].lasts == 12 * 3600  # as before
    table.remove_bookmark("reports")
    assert places(table) == {"other": 2}
    assert table.version == 4  # bookmarks are no versions
    assert table.verify().problems == ()
    assert table.verify().stray is not None
    assert table.verify().stray.files == 0


def test_it_moves_once_the_changes_are_processed(table: Table) -> None:
    table.bookmark("reports", 1)
    with table.changes_since("reports") as changes:
        assert {row["_commit_version"] for row in changes.to_pylist()} == {2, 3}
        assert places(table) == {"reports": 1}
    assert places(table) == {"reports": 3}
    table.apply(rows(4))
    with table.changes_since("reports", net=True) as changes:
        assert {row["note"] for row in changes.to_pylist()} == {"n3", "n4"}
    with table.changes_since("reports") as changes:
        assert changes.to_pylist() == []
    assert places(table) == {"reports": 4}


def test_it_reads_versions_of_other_writers(table: Table) -> None:
    table.bookmark("reports")
    Table(table.path).apply(rows(5))
    with table.changes_since("reports") as changes:
        assert len(changes.to_pylist()) == 4
    assert places(table) == {"reports": 4}


def test_another_reader_moved_it_past_the_versions_that_this_one_knows(table: Table) -> None:
    stale, snapshot = Table(table.path), table.snapshot
    table.apply(rows(4))
    table.bookmark("reports", 4)
    assert reader_place.renewed(snapshot, "reports").version == 4
    table.apply(rows(5))
    with stale.changes_since("reports") as changes:
        assert {row["_commit_version"] for row in changes.to_pylist()} == {5}
    assert places(table) == {"reports": 5}


def test_it_stays_where_a_reader_fails_or_stops(table: Table) -> None:
    table.bookmark("reports", 1)
    with pytest.raises(ZeroDivisionError):
        read_and(table, lambda: 1 / 0)
    with table.changes_since("reports") as changes:
        next(changes)  # and no more
    assert places(table) == {"reports": 1}
    with table.changes_since("reports", 2) as changes:
        changes.to_arrow()
    assert places(table) == {"reports": 2}


def test_two_readers_with_one_bookmark(table: Table) -> None:
    table.bookmark("reports", 1)
    with pytest.raises(StateError, match="was at version 1 when this reader began, and is at version 3 now"):
        read_and(table, lambda: table.bookmark("reports", 3))
    assert places(table) == {"reports": 3}
    with pytest.raises(StateError, match="and was removed"):
        read_and(table, lambda: table.remove_bookmark("reports"))
    assert places(table) == {}


def before_the_write(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Act once, when a reader has compared the bookmark and is about to write it."""
    dump, acts = bookmarks.checksummed_json.dump, [act]

    def acted(*given: Any) -> bytes:
        if acts:
            acts.pop()()
        return dump(*given)

    monkeypatch.setattr(bookmarks.checksummed_json, "dump", acted)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_two_readers_that_compare_at_once(table: Table, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    mark = table.bookmark("reports", 1)

    def move_on() -> None:
        for _ in range(steps):  # a slower process may find that the file of its number was removed
            Table(table.path).bookmark("reports", 3)

    before_the_write(monkeypatch, move_on)
    with pytest.raises(StateError, match="was at version 1 when this reader began, and is at version 3 now"):
        reader_place.move(table.snapshot, mark, 2)
    assert places(table) == {"reports": 3}
    assert [one.name for one in Path(table.path, "_mutator/table/bookmarks").iterdir()] == [f"reports@{steps}.json"]


def test_a_bookmark_that_is_removed_while_a_reader_moves_it(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = table.bookmark("reports", 1)
    before_the_write(monkeypatch, lambda: Table(table.path).remove_bookmark("reports"))
    with pytest.raises(StateError, match="and was removed"):
        reader_place.move(table.snapshot, mark, 2)
    assert places(table) == {}
    with pytest.raises(ConfigError, match="has no bookmark reports"):
        table.remove_bookmark("reports")
    table.bookmark("reports", 2)
    assert places(table) == {"reports": 2}


def test_a_bookmark_that_is_renewed_while_a_reader_moves_it(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = table.bookmark("reports", 1)
    before_the_write(monkeypatch, lambda: Table(table.path).bookmark("reports", 1, expires="30d"))
    assert reader_place.move(table.snapshot, mark, 2).lasts == 30 * 86400
    assert places(table) == {"reports": 2}


def test_a_bookmark_that_moves_while_another_reader_begins(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.bookmark("reports", 1)
    before_the_write(monkeypatch, lambda: Table(table.path).bookmark("reports", 2))
    with table.changes_since("reports") as changes:
        assert {row["_commit_version"] for row in changes.to_pylist()} == {3}
    assert places(table) == {"reports": 3}


def once_written(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Act once, when a file of a bookmark was created and its process has not listed the files yet."""
    acts = [act]

    def acted(point: str) -> None:
        if point == "table.bookmark.written" and acts:
            acts.pop()()

    monkeypatch.setattr(bookmarks, "failpoint", acted)


def read_on(table: Table) -> None:
    with Table(table.path).changes_since("reports") as changes:
        assert {row["_commit_version"] for row in changes.to_arrow().to_pylist()} == {3}


def test_a_move_that_another_reader_follows_at_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = table.bookmark("reports", 1)
    once_written(monkeypatch, lambda: read_on(table))
    assert reader_place.move(table.snapshot, mark, 2).version == 2
    assert places(table) == {"reports": 3}
    assert len(list(Path(table.path, "_mutator/table/bookmarks").iterdir())) == 1


def test_a_bookmark_that_is_set_again_while_it_is_removed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.bookmark("reports", 1)

    def set_again() -> None:
        for _ in range(2):
            Table(table.path).bookmark("reports", 2)

    once_written(monkeypatch, set_again)
    table.remove_bookmark("reports")
    assert places(table) == {"reports": 2}


def test_a_move_after_a_removal_that_others_follow(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.bookmark("reports", 1)
    table.remove_bookmark("reports")
    once_written(monkeypatch, lambda: read_on(table))
    assert table.bookmark("reports", 2).version == 2
    assert places(table) == {"reports": 3}


def test_a_file_names_the_last_changes_before_it(table: Table) -> None:
    changes = bookmarks._FOLLOWED + 2
    ids = []
    for _ in range(changes):
        table.bookmark("reports", 1)
        (path,) = Path(table.path, "_mutator/table/bookmarks").iterdir()
        members = json.loads(path.read_bytes())
        assert members["follows"] == ids[: bookmarks._FOLLOWED]
        ids.insert(0, members["id"])
    assert len(set(ids)) == changes


def test_a_bookmark_without_ids(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = table.bookmark("reports", 1)
    path = Path(table.path, "_mutator/table/bookmarks/reports.json")
    members = {"name": mark.name, "number": mark.version, "moved": mark.moved, "lasts": mark.lasts}
    path.write_bytes(checksummed_json.dump("mutator table bookmark", 1, members))
    assert table.bookmarks() == [mark]
    once_written(monkeypatch, lambda: read_on(table))
    assert reader_place.move(table.snapshot, mark, 2).version == 2
    assert places(table) == {"reports": 3}


@pytest.mark.parametrize("is_link", [True, False])
def test_something_in_the_way_of_a_change(table: Table, is_link: bool) -> None:
    table.bookmark("reports", 1)
    path = Path(table.path, "_mutator/table/bookmarks/reports@1.json")
    if is_link:
        path.symlink_to("nowhere")
    else:
        path.mkdir()
    for change in (lambda: table.bookmark("reports", 2), lambda: table.remove_bookmark("reports")):
        with pytest.raises(StateError, match=r"reports@1\.json: .* if this path is a link or a directory, remove it"):
            change()
    assert places(table) == {"reports": 1}


def once_listed(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> list[str]:
    """Act once, when the files were listed and are about to be read; return the directories that are listed."""
    entries_of, acts, listed = bookmarks.entries_of, [act], list[str]()

    def acted(path: str) -> Any:
        listed.append(path)
        found = entries_of(path)
        if acts:
            acts.pop()()
        return found

    monkeypatch.setattr(bookmarks, "entries_of", acted)
    return listed


def test_bookmarks_are_listed_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate("abc", 1):
        table.bookmark(name, number)
    listed = once_listed(monkeypatch, lambda: None)
    assert places(table) == {"a": 1, "b": 2, "c": 3}
    assert len(listed) == 1


def test_bookmarks_that_change_once_they_are_listed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        table.bookmark(name, 1)

    def change() -> None:
        Table(table.path).bookmark("b", 2)
        Table(table.path).remove_bookmark("c")

    once_listed(monkeypatch, change)
    assert places(table) == {"a": 1, "b": 2}


@pytest.fixture(name="cleaned")
def clean_meanwhile(monkeypatch: pytest.MonkeyPatch, table: Table) -> Iterator[list[int]]:
    """A cleaning of the versions below 2, once the bookmark is written, and what it sees of the bookmarks."""
    seen: list[int] = []
    check = reader_place.check_version

    def checked(snapshot: Any, number: int) -> None:
        check(snapshot, number)
        if number < 2 and places(table):
            seen.append(number)
            raise error("table.version", path=table.path, version=number, earliest=2, newest=3)

    monkeypatch.setattr(reader_place, "check_version", checked)
    return seen


def test_a_version_that_is_cleaned_meanwhile(table: Table, cleaned: list[int]) -> None:
    with pytest.raises(ConfigError, match="the earliest version is 2"):
        table.bookmark("reports", 1)
    assert cleaned == [1]  # the bookmark was there when the log was read
    assert places(table) == {}
    table.bookmark("reports", 2)
    with pytest.raises(ConfigError, match="the earliest version is 2"):
        table.bookmark("reports", 1)
    assert places(table) == {"reports": 2}  # as before


LATE = "the changes after version 1, up to which the reader of bookmark reports has read, were cleaned"


@pytest.mark.parametrize("is_stale", [False, True], ids=["opened after", "opened before"])
def test_a_reader_that_comes_too_late_gets_its_version_and_the_cure(
    table: Table, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_stale: bool
) -> None:
    mark = reader_place.bookmarked(table.snapshot, "reports", 1, lasts=0)
    fresh = replace(mark, moved=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    late = Table(table.path)
    for _ in range(2):
        table.clean(keep_versions=1, grace="0s")
    table.refresh()
    cure = f"mutator table bookmark {table.path} reports (in Python: Table.bookmark), and then read all rows"
    reading = (late if is_stale else table).changes_since("reports")
    with pytest.raises(ConfigError, match=f"{LATE}; .*: {re.escape(cure)}") as fault, reading:
        pass
    assert fault.value.kind == "table.bookmark.gone"
    assert bookmarks_of(table.path) == [mark]
    for known in (mark, fresh):
        monkeypatch.setattr(reader_place, "known_bookmark", lambda *_, known=known: known)
        with pytest.raises(ConfigError, match=LATE):
            reader_place.renewed(table.snapshot, "reports")
    monkeypatch.undo()
    assert main(["table", "changes", table.path, "--bookmark", "reports"]) == 2
    assert cure in capsys.readouterr().err
    assert main(cure.split(" (in")[0].split()[1:]) == 0
    with table.changes_since("reports") as changes:
        assert len(changes.to_arrow()) == 0


def test_a_bookmark_at_a_tagged_version_does_not_keep_the_changes_after_it(table: Table) -> None:
    reader_place.bookmarked(table.snapshot, "reports", 1, lasts=0)
    table.tag("first", 1)
    for _ in range(2):
        table.clean(keep_versions=1, grace="0s")
    assert len(table.scan(version="first").to_arrow()) == 2
    with pytest.raises(ConfigError, match=LATE), table.changes_since("reports"):
        pass


def test_a_version_that_a_cleaning_gives_back_needs_no_cure(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader runs again, and misses no changes."""
    table.bookmark("reports", 1)

    def gone(*_: Any) -> None:
        raise error("table.version.gone", path=table.path, version=1, earliest=2, newest=3)

    with monkeypatch.context() as patch:
        patch.setattr(reader_place, "_check", gone)
        with pytest.raises(ConfigError, match="the earliest version is 2"):
            reader_place.renewed(table.snapshot, "reports")
    read_and(table, lambda: None)
    assert places(table) == {"reports": 3}


def test_a_reader_renews_its_bookmark_before_it_looks(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    old = table.bookmark("reports", 1, expires="1s")
    order = list[str]()
    refreshed, put = reader_place.refreshed, reader_place.change_bookmark
    monkeypatch.setattr(reader_place, "refreshed", lambda one: order.append("looked") or refreshed(one))
    monkeypatch.setattr(reader_place, "change_bookmark", lambda *given: order.append("put") or put(*given))
    with table.changes_since("reports"):
        assert order[:2] == ["put", "looked"]
        assert bookmarks_of(table.path)[0].moved >= old.moved


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda table: table.bookmark("x", 9), "version 9 does not exist"),
        (lambda table: table.bookmark("../x"), r"name is '\.\./x'"),
        (lambda table: table.bookmark("x", expires="soon"), "expires is 'soon', a str, but should be a duration"),
        (lambda table: table.bookmark("x", expires="0s"), "longer than 0"),
        (lambda table: table.remove_bookmark("x"), "has no bookmark x; set one with: mutator table bookmark"),
        (lambda table: table.changes_since("x").__enter__(), "has no bookmark x"),
    ],
)
def test_errors(table: Table, act: Callable[[Table], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        act(table)
    assert places(table) == {}


def test_a_damaged_bookmark(table: Table) -> None:
    table.bookmark("reports", 1)
    path = Path(table.path, "_mutator/table/bookmarks/reports.json")
    path.write_bytes(path.read_bytes().replace(b'"number": 1', b'"number": 2'))
    for read in (table.bookmarks, lambda: table.clean(keep_versions=1)):
        with pytest.raises(StateError, match=r"reports\.json: this bookmark cannot be read; set it again") as raised:
            read()
        assert f"mutator table bookmark {table.path} reports --remove" in str(raised.value)
    table.bookmark("reports", 2)
    assert places(table) == {"reports": 2}
    path.write_bytes(b"no bookmark")
    assert main(["table", "bookmark", table.path, "reports", "--remove"]) == 0
    assert places(table) == {}
    assert table.clean(keep_versions=1).is_new


def test_commands(table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table.path
    assert main(["table", "bookmark", path, "reports", "--version", "2", "--expires", "2d"]) == 0
    assert f"table {path}: bookmark reports is at version 2, and expires 20" in capsys.readouterr().out
    assert main(["table", "changes", path, "--bookmark", "reports", "--format", "json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert places(table) == {"reports": 3}
    table.apply(rows(4))
    out = str(tmp_path / "out.csv")
    assert main(["table", "changes", path, "--bookmark", "reports", "-o", out]) == 0
    assert main(["table", "changes", path, "--bookmark", "reports", "-o", out]) == 5  # the file exists
    assert main(["table", "changes", path, "--bookmark", "reports", "--from", "1"]) == 2
    assert main(["table", "changes", path]) == 2
    assert capsys.readouterr().out == f"wrote 4 rows to {out}\n"
    assert main(["table", "bookmarks", path, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["version"]) == ("reports", 4)
    for duration in ("soon", "0s"):
        assert main(["table", "bookmark", path, "reports", "--expires", duration]) == 2
        assert f"--expires: '{duration}' must be " in capsys.readouterr().err
    assert main(["table", "bookmark", path, "reports", "--remove"]) == 0
    assert main(["table", "bookmarks", path]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no bookmarks"


def test_nothing_moves_if_the_output_breaks(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.bookmark("reports", 1)

    def broken(*_: Any) -> Iterator[bytes]:
        yield b"a row"
        raise BrokenPipeError

    monkeypatch.setattr("mutator.table.row_output.row_text", broken)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    assert main(["table", "changes", table.path, "--bookmark", "reports"]) == 141
    assert places(table) == {"reports": 1}


def test_a_version_that_is_committed_while_a_reader_works_comes_next(table: Table) -> None:
    table.bookmark("reports", 1)
    read_and(table, lambda: Table(table.path).apply(rows(4)))
    assert places(table) == {"reports": 3}
    with table.changes_since("reports") as changes:
        assert {one["_commit_version"] for one in changes.to_pylist()} == {4}
