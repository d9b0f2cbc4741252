"""Few checkpoints of earlier versions are kept, and nothing depends on those that are removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.versions import opening
from mutator.dataset.versions.checkpoint import is_kept
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.table import apply, verify_log
from mutator.table.table import Table
from tests.support.made_once import copy_of_made
from tests.support.model_storage import ModelStorage, mounted
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner
from tests.table.test_open_calls import committed, opened

EVERY = 2


@pytest.fixture(name="table")
def table_of_many_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(opening, "_EVERY", EVERY)
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    return Table(str(copy_of_made(tmp_path, fill) / "table"))


def fill(path: Path) -> None:
    table = Table.create(str(path / "table"), {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS}, buckets=1)
    for number in range(1, 14):
        feed = path / f"feed{number}.csv"
        feed.write_text(f"id,at,op\nk{number % 3},{number},U\nn{number},{number},I\n")
        table.apply(str(feed), open_runner=open_runner)


def directory_of(table: Table) -> Path:
    return Path(table.path, "_mutator/table/checkpoints")


def rows_of(table: Table) -> list[Any]:
    return sorted(table.scan().to_pylist(), key=str)


def test_checkpoints_are_few_and_opening_an_earlier_version_reads_few_entries() -> None:
    storage, newest = ModelStorage("s3"), 203
    with mounted(storage) as base:
        path = f"{base}/table"
        committed(path, newest)
        numbers = sorted(number for number, _ in TableLog(path).checkpoints())
        assert numbers == [number for number in range(0, newest, 8) if is_kept(number, 200)]
        assert numbers == [128, 160, 176, 192, 200]
        for number in range(0, newest + 1, 5):
            storage.log.clear()
            assert open_snapshot(path, number).version.number == number
            entries = {call for call in storage.log if "/log/" in call}
            assert len(entries) <= 2 * (newest - number) + 8
        assert not any("entries" in call for call in opened(storage, path)[1])


def test_checkpoints_with_their_masks_are_removed(table: Table) -> None:
    names = sorted(path.name for path in directory_of(table).iterdir())
    versions = {int(name[:20]) for name in names if name.endswith(".files")}
    assert versions == {8, 10, 12}
    assert {int(name[:20]) for name in names if name.endswith(".masks")} == versions
    assert {int(name[:20]) for name in names if name.endswith(".pack")} <= set(range(0, 14, EVERY))
    assert table.verify(open_runner=open_runner).problems == ()


def test_a_checkpoint_that_cannot_be_removed_does_not_matter(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise error("storage.refused", path="checkpoints", why="no permission")

    monkeypatch.setattr(TableLog, "remove_checkpoints", refused)
    expected = rows_of(table)
    snapshot = opening.add_hint(TableLog(table.path), open_snapshot(table.path, 12), None, 0)
    assert snapshot.version.number == 12
    assert rows_of(Table(table.path)) == expected


@pytest.mark.parametrize("number", [8, 12, 13])
def test_a_snapshot_survives_the_removal_of_its_checkpoint(table: Table, number: int) -> None:
    expected = rows_of(Table(table.path)) if number > 12 else table.scan(version=number).to_pylist()
    masks = open_snapshot(table.path, number).masks
    for path in directory_of(table).glob("*.[fm]*s"):
        path.unlink()
    again = open_snapshot(table.path, number).masks
    assert {file: masks.hidden(file).tolist() for file in masks.files()} == {
        file: again.hidden(file).tolist() for file in again.files()
    }
    assert masks.files()
    assert sorted(table.scan(version=number).to_pylist(), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("kept", ["masks", "later checkpoints"])
def test_removed_checkpoints_are_no_problem(table: Table, kept: str) -> None:
    expected, log = rows_of(table), TableLog(table.path)
    (before,) = (name for number, name in log.checkpoints() if number == 10)
    if kept == "masks":
        Path(log.checkpoint_path(before)).unlink()
    else:  # a slow writer names a checkpoint that others have removed
        log.write_hint(open_snapshot(table.path, 13).version, before)
        for path in directory_of(table).glob(f"{10:020d}-*.parquet"):
            path.unlink()
    assert table.verify(open_runner=open_runner).problems == ()
    assert rows_of(Table(table.path)) == expected


def test_a_checkpoint_that_is_removed_during_a_verification_is_no_problem(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = verify_log.difference_of

    def removed(snapshot: Snapshot, name: str) -> str | None:
        Path(TableLog(table.path).checkpoint_path(name)).unlink()
        return compared(snapshot, name)

    monkeypatch.setattr(verify_log, "difference_of", removed)
    assert table.verify(open_runner=open_runner).problems == ()
