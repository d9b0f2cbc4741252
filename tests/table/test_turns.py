"""Writers on one machine take turns to commit, and pass their versions on where the storage answers slowly."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from mutator.dataset import numbered_log
from mutator.dataset.versions import nearby
from mutator.dataset.versions.log import DIRECTORY, TableLog
from mutator.dataset.versions.nearby import NearbyEntries
from mutator.dataset.versions.opening import open_snapshot, refreshed
from mutator.errors import MutatorError
from mutator.storage.local import LocalStorage
from mutator.table import commit as committing
from mutator.table.table import Table
from tests.support.patience import PATIENCE
from tests.table.test_several_writers import at_phase

WIDE = 0o777


def time_with(sleep: Any) -> SimpleNamespace:
    """Return the module ``time`` with another ``sleep``, for one module: threads of Spark's client sleep, too."""
    return SimpleNamespace(**{**vars(time), "sleep": sleep})


NO_SLEEP = time_with(pytest.fail)


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
    return sorted(map(int, os.listdir(directory_of(table))))


def directory_of(table: Table) -> str:
    directory = NearbyEntries(TableLog(table.path)).directory()
    assert directory is not None
    return directory


def lock_of(table: Table, nearby_directory: str | None = None) -> object:
    found = LocalStorage().hold(nearby_directory or os.path.join(table.path, DIRECTORY, "log"))
    assert found is not None
    return found


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_writer_waits_until_the_others_turn_ends(table: Table, where: str, monkeypatch: Any, request: Any) -> None:
    if where == "elsewhere":
        request.getfixturevalue("slow")
        commit(table, 1)
    locks = [lock_of(table, NearbyEntries(TableLog(table.path)).directory())]
    looks: list[float] = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        assert Table(table.path).version == table.version
        if len(looks) == 3:
            locks.clear()

    monkeypatch.setattr(committing, "time", time_with(pause))
    monkeypatch.setattr(committing, "_PATIENCE", PATIENCE)
    commit(table, 1)
    assert len(looks) == 3


def test_a_writer_that_waits_too_long_goes_on(table: Table, monkeypatch: Any) -> None:
    locks = [lock_of(table)]  # until the end of the test
    monkeypatch.setattr(committing, "_PATIENCE", 0.02)

    commit(table, len(locks))
    assert table.version == 1


def test_no_process_waits_for_a_turn_that_has_ended(table: Table, monkeypatch: Any) -> None:
    monkeypatch.setattr(committing, "time", NO_SLEEP)

    commit(table, 3)
    assert Table(table.path).apply(rows(9)).version == 4


def test_the_turn_ends_before_the_entry_is_confirmed(table: Table, slow: list[int], monkeypatch: Any) -> None:
    confirm, done = TableLog.confirm, list[int]()

    def confirming(log: TableLog, version: Any, known: Any) -> None:
        if not done:
            done.append(known.number)
            assert Table(table.path).apply(rows(9)).version == 2
        confirm(log, version, known)

    monkeypatch.setattr(committing, "time", NO_SLEEP)
    monkeypatch.setattr(TableLog, "confirm", confirming)
    commit(table, 1)
    assert (done, table.refresh().version) == ([0], 2)


def test_a_version_that_is_not_confirmed_has_no_copy(table: Table, slow: list[int]) -> None:
    """Its writer was stopped so long that the number was in the archive, where another machine had put it."""
    commit(other := Table(table.path), 1)
    commit(table, 1)
    with at_phase("merged", lambda: archived(other)):
        assert (applied := table.apply(rows(9)).version) > 3

    assert copies(table) == [applied]
    assert Table(table.path).verify().problems == ()


def archived(table: Table) -> None:
    """Commit and archive some versions on another machine, which has no copies here."""
    copied = directory_of(table)
    commit(table.refresh(), 5)
    table.clean(keep_versions=1, grace="0s")
    table.clean(keep_versions=1, grace="0s")
    for name in os.listdir(copied):
        os.unlink(os.path.join(copied, name))


def test_versions_of_writers_on_this_machine_are_not_read(table: Table, slow: list[int]) -> None:
    other = Table(table.path)
    commit(other, 6)
    slow.clear()

    assert table.refresh().version == 6
    assert slow == [6, 7]
    assert table.scan().to_arrow().num_rows == 12


def test_copies_that_a_hint_names_are_looked_for(table: Table, slow: list[int]) -> None:
    commit(other := Table(table.path), 4)
    for number in (3, 4):
        os.unlink(TableLog(other.path).entry_path(number))

    with pytest.raises(MutatorError) as fault:
        table.refresh()
    assert fault.value.kind == "table.log.lost"


def test_an_apply_follows_the_copies_without_a_try(table: Table, slow: list[int], monkeypatch: Any) -> None:
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


def test_copies_of_versions_that_a_restored_table_lost_meanwhile_do_not_count(
    table: Table, slow: list[int], monkeypatch: Any
) -> None:
    commit(table, 1)
    log = TableLog(table.path)
    hint = log.hinted()

    def restored() -> None:
        commit(Table(table.path), 2)
        for number in (2, 3):
            os.unlink(log.entry_path(number))
        log.write_hint(log.read(1), hint.checkpoint)

    monkeypatch.setattr(nearby, "_MOMENT", 0)
    with at_phase("merged", restored):
        table.apply(rows(9))

    assert (table.version, log.numbers()) == (2, [0, 1, 2])
    assert Table(table.path).verify().problems == ()


def test_tables_of_two_services_have_copies_apart(table: Table, slow: list[int], monkeypatch: Any) -> None:
    commit(table, 2)
    monkeypatch.setattr(LocalStorage, "service", lambda storage, path: "another")

    assert copies(table) == []


def test_damaged_copies_do_not_count(table: Table, slow: list[int]) -> None:
    commit(other := Table(table.path), 3)
    Path(directory_of(table), "2").write_bytes(b"{}")

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
    first = directory_of(table)
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

    assert NearbyEntries(TableLog(table.path)).directory() is None
    commit(table, 2)
    assert Table(table.path).refresh().version == 2


def test_only_this_user_reads_the_copies(table: Table, slow: list[int], tmp_path: Path) -> None:
    commit(table, 1)

    for directory in (directory_of(table), os.path.dirname(directory_of(table))):
        assert os.stat(directory).st_mode & WIDE == 0o700


def test_a_link_in_the_place_of_the_copies_is_not_followed(table: Table, slow: list[int], tmp_path: Path) -> None:
    old = tmp_path / "mine" / ("0" * 32)
    old.mkdir(parents=True)
    os.utime(old, (1, 1))
    os.symlink(old.parent, tmp_path / f"mutator-{os.getuid()}")
    commit(table, 1)

    assert [path.name for path in old.parent.iterdir()] == [old.name]


def test_only_copies_are_removed(table: Table, slow: list[int], tmp_path: Path) -> None:
    other = tmp_path / f"mutator-{os.getuid()}" / "photos"
    commit(table, 1)
    other.mkdir()
    os.utime(other, (1, 1))
    Table.create(str(tmp_path / "second"), key="id", order_by="at").apply(rows(1))

    assert other.exists()


def test_a_machine_without_a_directory_for_temporary_files(table: Table, slow: list[int], monkeypatch: Any) -> None:
    def missing() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    commit(Table(table.path), 2)
    monkeypatch.setattr(tempfile, "gettempdir", missing)
    assert NearbyEntries(TableLog(table.path)).directory() is None
    assert table.refresh().version == 2


def test_a_reader_makes_no_directory(table: Table, slow: list[int], tmp_path: Path) -> None:
    table.refresh()
    assert not (tmp_path / f"mutator-{os.getuid()}").exists()


def test_what_a_killed_writer_left_of_a_copy_is_removed(table: Table, slow: list[int], monkeypatch: Any) -> None:
    monkeypatch.setattr(nearby, "_KEPT", 2)
    commit(table, 1)
    Path(directory_of(table), "1-").write_bytes(b"{")
    commit(table, 3)

    assert copies(table) == [3, 4]


def test_a_turn_ends_although_a_forked_process_goes_on(table: Table) -> None:
    ended, end = os.pipe()
    lock = lock_of(table)
    if (child := os.fork()) == 0:
        os.close(end)
        os.read(ended, 1)
        os._exit(0)
    del lock
    lock_of(table)
    os.close(end)
    os.waitpid(child, 0)
    os.close(ended)


def test_a_writer_does_not_wait_for_a_directory_that_is_gone(table: Table, monkeypatch: Any) -> None:
    monkeypatch.setattr(committing, "time", NO_SLEEP)

    with committing.turn("s3://lake/t", str(Path(table.path, "gone"))):
        pass
