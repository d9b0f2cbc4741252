"""A table is verified while versions of it are cleaned: files that are removed meanwhile are no damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.versions.log import TableLog
from mutator.errors import MutatorError
from mutator.table import apply, clean_removal, verify, verify_file, verify_log, verify_rows
from mutator.table.table import Table
from tests.support.cleaned_table import AGAIN, data, of_some_versions, quick, rows

__all__ = ["quick"]  # a fixture
POINTS: dict[str, tuple[Any, str]] = {  # points of a verification -> functions that are called then
    "which versions are left": (verify_log, "what_is_left"),
    "first version": (verify_log.Walk, "_compare_checkpoint"),
    "rows": (verify, "RowsOfTable"),
    "key index of a file": (verify_file, "_index"),
    "keys": (verify_rows.RowsOfTable, "_twice"),
    "derived files": (verify_log.Walk, "derived"),
    "stray files": (verify, "stray_files"),
}


@pytest.fixture(name="table", params=[0, 1 << 20], ids=["files apart", "packed files"])
def new_table(request: pytest.FixtureRequest, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> Table:
    for name in ("INLINE", "_INLINE_FEED"):
        monkeypatch.setattr(apply, name, request.param)
    return of_some_versions(tmp_path / "t")


@contextmanager
def during_verification(point: str, act: Callable[[], Any], times: int = 1) -> Iterator[None]:
    """Act at a point of a verification, as another process would at that time."""
    left = [act] * times
    place, name = POINTS[point]
    work = getattr(place, name)

    def working(*given_: Any) -> Any:
        if left:
            left.pop()()
        return work(*given_)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, working)
        yield


def change_all(table: Table, at: int) -> None:
    """Replace all files of a table, and remove those of earlier versions."""
    other = Table(table.path)
    other.apply(rows("abx", at))
    other.compact(everything=True)
    other.clean(**AGAIN)
    other.clean(**AGAIN)


def repeated(table: Table) -> Callable[[], None]:
    """Return a function that replaces all files of a table, however often it is called."""
    times = iter(range(50, 99))
    return lambda: change_all(table, next(times))


def clean(table: Table) -> None:
    """Remove the files that only earlier versions need."""
    other = Table(table.path)
    other.clean(**AGAIN)
    other.clean(**AGAIN)


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("repair", [False, True], ids=["", "repair"])
@pytest.mark.parametrize("is_replaced", [False, True], ids=["newest stays", "all replaced"])
@pytest.mark.parametrize("point", POINTS)
def test_files_that_are_removed_with_their_versions_are_no_differences(
    table: Table, point: str, is_replaced: bool, repair: bool
) -> None:
    table.clean(keep_versions=3, grace="0s")
    for at in range(10, 20):  # checkpoints name packs that the one with which the log begins does not have
        table.apply(rows("abz", at))
    with during_verification(point, lambda: change_all(table, 50) if is_replaced else clean(table)):
        found = table.verify(repair=repair)
    assert (found.problems, found.repaired) == ((), ())
    whole = table.refresh().verify()
    assert whole.problems == ()
    assert whole.stray is not None
    assert whole.stray.files == 0


@pytest.mark.parametrize("point", ["first version", "rows"])
def test_a_lost_file_is_named_although_versions_are_cleaned_meanwhile(table: Table, point: str) -> None:
    change_all(table, 40)
    lost = max(data(table))

    def meanwhile() -> None:
        Table(table.path).clean(**AGAIN)
        Path(table.path, lost).unlink()

    with during_verification(point, meanwhile):
        problems = table.verify().problems
    assert problems == (f"{lost}: it is missing",)


def test_a_lost_file_is_named_although_the_newest_ones_are_always_replaced(table: Table) -> None:
    change_all(table, 40)
    lost = max(data(table))
    table.tag("kept", table.refresh().version)
    change_all(table, 41)
    Path(table.path, lost).unlink()
    with during_verification("rows", repeated(Table(table.path)), times=99):
        problems = table.verify().problems
    assert problems == (f"{lost}: it is missing",)


@pytest.mark.thorough(keep=1)
def test_a_verification_that_cleanings_always_outrun_says_so(table: Table) -> None:
    with (
        during_verification("rows", repeated(table), times=99),
        pytest.raises(MutatorError, match="cleanings always removed files") as raised,
    ):
        table.verify()
    assert (raised.value.kind, raised.value.exit_code) == ("table.outrun.verify", 5)


def test_a_list_of_files_that_is_removed_while_it_is_read_has_none(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.clean(keep_versions=1)
    (waiting,) = table.refresh().snapshot.state.cleaning.waiting.values()
    read = clean_removal.content_of

    def removed(path: str, stored: Any) -> bytes:
        monkeypatch.setattr(clean_removal, "content_of", read)
        Table(table.path).clean(**AGAIN)
        return read(path, stored)

    monkeypatch.setattr(clean_removal, "content_of", removed)
    assert clean_removal.named_files(table.path, waiting) is None


@pytest.mark.parametrize("repair", [False, True], ids=["", "repair"])
def test_packs_of_the_version_that_the_log_began_with(
    tmp_path: Path, repair: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that did not know these packs has written the same contents into those of a later checkpoint."""
    for name in ("INLINE", "_INLINE_FEED"):
        monkeypatch.setattr(apply, name, 1 << 20)
    table = Table.create(tmp_path / "t", key="id", order_by="at", buckets=1)
    for at, name in enumerate("abcdef"):
        table.apply(rows(name, at).drop_columns("op"))
    Table(table.path).clean(keep_versions=4, grace="0s")
    for at, name in enumerate("ghijkl", 6):
        table.apply(rows(name, at).drop_columns("op"))
    checkpoints = TableLog(table.path).checkpoints()

    def meanwhile() -> None:
        for _ in range(2):
            Table(table.path).clean(keep_versions=3, grace="0s")

    with during_verification("first version", meanwhile):
        found = table.verify(repair=repair)
    assert (found.problems, found.repaired) == ((), ())
    assert TableLog(table.path).checkpoints()[0] == checkpoints[0]
    assert table.verify().problems == ()
