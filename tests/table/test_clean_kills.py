"""Real kills (SIGKILL) at every failpoint of a cleaning, a tag and a bookmark: no version that is left loses a file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import suppressed
from mutator.table import reader_place
from mutator.table.create import create_empty
from mutator.table.table import Table
from tests.support.dying_runs import dying_runs
from tests.table.test_table_faults import FIRST, NEW, SECOND, rows_of
from tests.table.test_table_kills import apply_one, compact_one

pytestmark = pytest.mark.processes

COMMIT = ("table.commit", "table.committed", "table.hint.written", "table.hinted")
CLEAN = (
    "table.checkpoint.written",
    "clean.base.written",
    "clean.list.written",
    *COMMIT,
    "clean.committed",
    "clean.begun",
    "clean.archived",
    "clean.entry.removed",
    "clean.file.removed",
    "clean.list.removed",
)
TAG = (*COMMIT, "table.checkpoint.written")
BOOKMARK = ("table.bookmark.written", "table.bookmark.removed")
MOVE = ("storage.written", "storage.linked", *BOOKMARK)


def clean_one(table: str) -> None:
    Table(table).clean(keep_versions=1, grace="0s", dead_after="0s")


def tag_one(table: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_EVERY", 1)
        Table(table).tag("kept", 1)


def untag_one(table: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_EVERY", 1)
        Table(table).untag("kept")


def mark_one(table: str) -> None:
    Table(table).bookmark("reader", 1)
    Table(table).remove_bookmark("reader")


def move_one(table: str) -> None:
    reader_place.move(open_snapshot(table), reader_place.known_bookmark(table, "reader"), 3)


@pytest.fixture(scope="module", name="act")
def start_acting() -> Iterator[Callable[..., Any]]:
    with dying_runs("tests.table.test_clean_kills") as act:
        yield act


@pytest.fixture(scope="module", name="places")
def new_places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a table of five versions: four applies and a compaction."""
    root = tmp_path_factory.mktemp("tables")
    table = str(root / "table")
    create_empty(table, {}, buckets=2)
    feeds = FIRST, SECOND, "id,at,op,name\n11,3,D,\n9,3,D,\n", "id,at,op,name\n11,4,D,\n"
    for name, rows in enumerate(feeds):
        (root / f"{name}.csv").write_text(rows)
        apply_one(table, str(root / f"{name}.csv"))
    compact_one(table)
    assert open_snapshot(table).version.number == 5
    assert rows_of(table) == NEW
    return root


def first_rows(table: str) -> list[Any]:
    """Return the rows of version 1."""
    return sorted((tuple(row.values()) for row in Table(table).scan(version=1).to_pylist()), key=repr)


def is_gone(table: str, number: int) -> bool:
    with suppressed("table.version.gone"):
        Table(table).scan(version=number).to_arrow()
        return False
    return True


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("point", CLEAN)
def test_killed_cleaning(act: Callable[..., Any], places: Path, tmp_path: Path, point: str) -> None:
    table = str(shutil.copytree(places / "table", tmp_path / "table"))
    first = first_rows(table)
    tag_one(table)
    killed, _ = act("clean_one", point, table=table)
    assert killed
    is_new = point in CLEAN[CLEAN.index("table.committed") :]
    assert open_snapshot(table).version.number == (7 if is_new else 6)
    assert [is_gone(table, number) for number in range(1, 6)] == [False, *[is_new] * 3, False]
    assert (rows_of(table), first_rows(table)) == (NEW, first)
    clean_one(table)
    assert (rows_of(table), first_rows(table)) == (NEW, first)
    found = Table(table).verify()
    assert found.differences == ()
    assert not list(Path(table).rglob("named-*"))
    log = TableLog(table)
    assert log.numbers() == [0, *range(open_snapshot(table).state.cleaning.earliest, log.newest() + 1)]  # type: ignore[operator]


def test_a_cleaning_passes_each_failpoint(act: Callable[..., Any], places: Path, tmp_path: Path) -> None:
    table = str(shutil.copytree(places / "table", tmp_path / "table"))
    tag_one(table)
    _, passed = act("clean_one", table=table)
    assert {point for point in passed if not point.startswith("storage.")} == set(CLEAN)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("point", TAG)
@pytest.mark.parametrize("name", ["tag_one", "untag_one"])
def test_killed_tag(act: Callable[..., Any], places: Path, tmp_path: Path, name: str, point: str) -> None:
    table = str(shutil.copytree(places / "table", tmp_path / "table"))
    first = first_rows(table)
    if name == "untag_one":
        tag_one(table)
    before = open_snapshot(table).version.number
    killed, _ = act(name, point, table=table)
    assert killed
    is_new = point != "table.commit"
    found = open_snapshot(table)
    has_tag = is_new == (name == "tag_one")
    assert (found.version.number - before, found.state.tags) == (is_new, {"kept": 1} if has_tag else {})
    clean_one(table)
    assert is_gone(table, 1) != has_tag
    assert not has_tag or first_rows(table) == first
    assert rows_of(table) == NEW
    assert Table(table).verify().differences == ()


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("point", BOOKMARK)
def test_killed_bookmark(act: Callable[..., Any], places: Path, tmp_path: Path, point: str) -> None:
    table = str(shutil.copytree(places / "table", tmp_path / "table"))
    first = first_rows(table)
    killed, _ = act("mark_one", point, table=table)
    assert killed
    is_there = point == "table.bookmark.written"
    assert [one.version for one in Table(table).bookmarks()] == ([1] if is_there else [])
    clean_one(table)
    assert is_gone(table, 1) != is_there
    assert not is_there or first_rows(table) == first
    assert Table(table).verify().differences == ()


@pytest.mark.parametrize("point", MOVE)
def test_killed_move(act: Callable[..., Any], places: Path, tmp_path: Path, point: str) -> None:
    table = str(shutil.copytree(places / "table", tmp_path / "table"))
    Table(table).bookmark("reader", 1)
    assert set(act("move_one", table=table)[1]) == set(MOVE)
    Table(table).bookmark("reader", 1)
    killed, _ = act("move_one", point, table=table)
    assert killed
    assert [one.version for one in Table(table).bookmarks()] == [1 if point == "storage.written" else 3]
    with Table(table).changes_since("reader") as changes:
        changes.to_arrow()
    assert [one.version for one in Table(table).bookmarks()] == [5]
    files = [one.name for one in Path(table, "_mutator/table/bookmarks").iterdir() if one.name.startswith("reader")]
    assert len(files) == 1
