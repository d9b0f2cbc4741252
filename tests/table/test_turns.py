"""Writers on one machine take turns to commit, and pass their versions on where the storage answers slowly."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.dataset import numbered_log
from mutator.dataset.versions import nearby
from mutator.dataset.versions.log import DIRECTORY, TableLog
from mutator.dataset.versions.nearby import NearbyEntries
from mutator.dataset.versions.opening import open_snapshot, refreshed
from mutator.storage.local import LocalStorage
from mutator.table import turn
from mutator.table.table import Table

WIDE = 0o777


@pytest.fixture(name="table")
def new_table(tmp_path: Path) -> Table:
    return Table.create(str(tmp_path / "table"), key="id", order_by="at", buckets=2)


@pytest.fixture(name="slow")
def slow_storage(table: Table, tmp_path: Path, monkeypatch: Any) -> list[int]:
    """Let a table be where no directory can be locked; return the numbers of the entries that are read there."""
    read: list[int] = []
    read_each = numbered_log.read_each_if_exists

    def noted(paths: Any) -> Any:
        read.extend(int(Path(path).stem) for path in paths)
        return read_each(paths)

    monkeypatch.setattr(LocalStorage, "holds", False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(numbered_log, "read_each_if_exists", noted)
    return read


def rows(number: int, key: int | None = None) -> pa.Table:
    key = 2 * number if key is None else key
    return pa.table({"id": [key, key + 1], "at": [number, number]})


def commit(table: Table, count: int) -> None:
    for _ in range(count):
        table.apply(rows(table.version + 1))


def copies(table: Table) -> list[int]:
    directory = NearbyEntries(TableLog(table.path)).directory
    assert directory is not None
    return sorted(map(int, os.listdir(directory)))


def lock_of(table: Table, nearby_directory: str | None = None) -> object:
    found = LocalStorage().hold(nearby_directory or os.path.join(table.path, DIRECTORY, "log"))
    assert found is not None
    return found


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_writer_waits_until_the_others_turn_ends(table: Table, where: str, monkeypatch: Any, request: Any) -> None:
    if where == "elsewhere":
        request.getfixturevalue("slow")
        commit(table, 1)
    locks = [lock_of(table, NearbyEntries(TableLog(table.path)).directory)]
    looks: list[float] = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        assert Table(table.path).version == table.version
        if len(looks) == 3:
            locks.clear()

    monkeypatch.setattr(turn.time, "sleep", pause)
    commit(table, 1)
    assert len(looks) == 3


def test_a_writer_that_waits_too_long_goes_on(table: Table, monkeypatch: Any) -> None:
    lock = lock_of(table)
    monkeypatch.setattr(turn, "_PATIENCE", 0.02)

    commit(table, 1)
    assert (table.version, lock is None) == (1, False)


def test_no_process_waits_for_a_turn_that_has_ended(table: Table, monkeypatch: Any) -> None:
    monkeypatch.setattr(turn.time, "sleep", pytest.fail)

    commit(table, 3)
    assert Table(table.path).apply(rows(9)).version == 4


def test_versions_of_writers_on_this_machine_are_not_read(table: Table, slow: list[int]) -> None:
    other = Table(table.path)
    commit(other, 6)
    slow.clear()

    assert table.refresh().version == 6
    assert slow == [7]  # the hint is of version 6
    assert table.scan().to_arrow().num_rows == 12


def test_the_newest_copy_is_compared_with_the_log_if_the_hint_is_older(table: Table, slow: list[int]) -> None:
    commit(other := Table(table.path), 4)
    hint = Path(table.path, DIRECTORY, "hint.json")
    earlier = hint.read_bytes()
    commit(other, 2)
    hint.write_bytes(earlier)
    slow.clear()

    assert table.refresh().version == 6
    assert slow == [6, 7]


def test_an_apply_follows_the_copies_without_a_try(table: Table, slow: list[int], monkeypatch: Any) -> None:
    from tests.table.test_several_writers import at_phase

    tries: list[int] = []
    create = TableLog.commit
    monkeypatch.setattr(TableLog, "commit", lambda log, version: tries.append(version.number) or create(log, version))
    other = Table(table.path)
    with at_phase("merged", lambda: commit(other, 3)):
        report = table.apply(rows(9, key=2))

    assert (report.version, tries) == (4, [1, 2, 3, 4])
    assert report.counts["feed updated"] == 2


@pytest.mark.parametrize("hinted", [True, False])
def test_copies_of_versions_that_a_restored_table_lost_do_not_count(
    table: Table, slow: list[int], hinted: bool
) -> None:
    commit(table, 5)
    log, known = TableLog(table.path), open_snapshot(table.path, 3)
    hint = log.hinted()
    commit(Table(table.path), 2)
    for number in (6, 7):
        os.unlink(log.entry_path(number))
    if hinted:
        log.write_hint(log.read(5), hint.checkpoint)
    else:
        os.unlink(log.hint_path)

    assert copies(table)[-1] == 7
    assert refreshed(known).version.number == 5
    assert Table(table.path).apply(rows(20)).version == 6
    assert log.numbers() == list(range(7))
    assert Table(table.path).verify().problems == ()


def test_damaged_copies_do_not_count(table: Table, slow: list[int]) -> None:
    commit(other := Table(table.path), 3)
    directory = NearbyEntries(TableLog(table.path)).directory
    assert directory is not None
    Path(directory, "2").write_bytes(b"{}")

    assert table.refresh().version == 3
    assert slow[-3:] == [2, 3, 4]
    assert table.scan().to_arrow().num_rows == other.scan().to_arrow().num_rows


def test_copies_of_another_table_at_the_path_do_not_count(table: Table, slow: list[int], tmp_path: Path) -> None:
    commit(table, 3)
    os.rename(table.path, tmp_path / "moved")
    new = Table.create(table.path, key="id", order_by="at", buckets=2)

    assert (new.refresh().version, copies(table)) == (0, [1, 2, 3])
    assert new.apply(rows(1)).version == 1
    assert Table(table.path).verify().problems == ()


def test_old_copies_are_removed(table: Table, slow: list[int], monkeypatch: Any) -> None:
    monkeypatch.setattr(nearby, "_KEPT", 4)
    commit(table, 7)

    assert copies(table) == [4, 5, 6, 7]


def test_copies_of_tables_that_nobody_writes_are_removed(table: Table, slow: list[int], tmp_path: Path) -> None:
    commit(table, 1)
    first = NearbyEntries(TableLog(table.path)).directory
    assert first is not None
    os.utime(first, (1, 1))
    Table.create(str(tmp_path / "second"), key="id", order_by="at").apply(rows(1))

    assert not os.path.exists(first)
    commit(table, 2)
    assert copies(table) == [2, 3]


def test_large_entries_are_not_copied(table: Table, slow: list[int], monkeypatch: Any) -> None:
    monkeypatch.setattr(nearby, "_LARGEST", 100)
    commit(table, 2)

    assert copies(table) == []
    assert Table(table.path).version == 2


def test_a_directory_that_others_can_write_to_is_not_used(table: Table, slow: list[int], tmp_path: Path) -> None:
    own = tmp_path / f"mutator-{os.getuid()}"
    own.mkdir()
    own.chmod(WIDE)

    assert NearbyEntries(TableLog(table.path)).directory is None
    commit(table, 2)
    assert Table(table.path).refresh().version == 2


def test_only_this_user_reads_the_copies(table: Table, slow: list[int], tmp_path: Path) -> None:
    commit(table, 1)

    assert (tmp_path / f"mutator-{os.getuid()}").stat().st_mode & WIDE == 0o700
