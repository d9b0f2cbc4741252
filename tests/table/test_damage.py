"""Lost, damaged and foreign files of a table are errors that name the file, never older rows."""

from __future__ import annotations

import io
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.engine.versions import delta_files, stored_rows
from mutator.errors import ConfigError, StateError
from mutator.storage.local import LocalStorage
from mutator.table import apply, scan
from mutator.table.table import Table
from tests.support.made_once import copy_of_made
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

SETTINGS = {"key": "id", "order_by": "ts", "output.codec": "none"}
NAME = "name of the record, which is long enough to be found in the file"


def flip(path, other):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def flip_footer(path, other):
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)


def cut(path, other):
    path.write_bytes(path.read_bytes()[:-7])


def lose(path, other):
    path.unlink()


def swap(path, other):
    """Put another file of the table in its place, of the same size if possible."""
    shutil.copy(other, path)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A table of three versions, with files of equal sizes: all have the same keys, and the third is current."""
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "INLINE", 0)
    monkeypatch.setattr(delta_files, "_OWN", 1)
    monkeypatch.setattr(opening, "_EVERY", 2)
    return copy_of_made(tmp_path, fill) / "t"


def fill(path):
    table = Table.create(str(path / "t"), {**SETTINGS, **NO_LIMITS}, buckets=1)
    for version in (1, 2, 3):
        rows = pa.table({"id": list(range(50)), "ts": [version] * 50, "name": [f"{NAME} {version}"] * 50})
        pq.write_table(rows, path / f"{version}.parquet")
        table.apply(str(path / f"{version}.parquet"), open_runner=open_runner)


def files(place, pattern):
    """Return the files of versions, oldest first."""
    return sorted(place.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def rows(table, **at):
    return sum(batch.num_rows for batch in table.scan(**at))


DAMAGES = [flip, flip_footer, cut, lose, swap]


READ = {  # files, and how they are read
    "rows/version_id=*/*.rows": rows,
    "hidden/*.hidden": rows,
    "keys/**/*.keys": lambda table: table.get(7),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("pattern", READ)
def test_a_file_that_is_not_the_one_that_was_written_is_an_error(place, pattern, damage):
    [*_, older, newest] = files(place, f"_mutator/table/{pattern}")
    damage(newest, older)

    with pytest.raises(StateError, match=newest.name) as fault:
        READ[pattern](Table(str(place)))

    assert fault.value.kind == "table.file"
    assert "hidden" in pattern or rows(Table(str(place)), **({"version": 2} if "rows" in pattern else {})) == 50


def test_a_large_file_that_a_storage_sends_twice_is_verified_twice(place, monkeypatch):
    [*_, newest] = files(place, "_mutator/table/rows/version_id=*/*.rows")
    verified = scan.VerifiedFile

    def damaged_between(table, stored):
        found = verified(table, stored)
        content = newest.read_bytes()
        assert NAME.encode() in content
        newest.write_bytes(content.replace(NAME.encode(), NAME.upper().encode()))
        return found

    monkeypatch.setattr(LocalStorage, "holds", False)
    monkeypatch.setattr(stored_rows, "IN_MEMORY", 0)
    monkeypatch.setattr(scan, "VerifiedFile", damaged_between)
    with pytest.raises(StateError, match=newest.name):
        rows(Table(str(place)))


def test_a_scan_reads_ahead_of_its_caller_and_raises_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(delta_files, "_OWN", 1)
    table = Table.create(str(tmp_path / "t"), SETTINGS, buckets=1)
    for start in range(0, 60, 10):
        table.apply(pa.table({"id": [*range(start, start + 10)], "ts": [1] * 10}), open_runner=open_runner)
    opened, verified = [], scan.VerifiedFile
    monkeypatch.setattr(scan, "VerifiedFile", lambda path, data: opened.append(data.path) or verified(path, data))
    assert next(table.scan()).num_rows == 10
    assert len(opened) == 1  # a caller may need no more

    assert rows(table) == 60
    flip(tmp_path / "t" / opened[3], None)
    found = []
    with pytest.raises(StateError, match="checksum"):
        found.extend(batch.num_rows for batch in table.scan())
    assert found == [10, 10]  # of the files before


def test_rows_of_a_history_that_a_storage_sends_twice_are_verified_twice(tmp_path, monkeypatch):
    table = Table.create(str(tmp_path / "t"), {**SETTINGS, "history": "on", **NO_LIMITS}, buckets=1)
    names = [f"{NAME} {number}" for number in range(3000)]
    table.apply(pa.table({"id": [*range(3000)], "ts": [1] * 3000, "name": names}), open_runner=open_runner)
    table.compact(everything=True)
    opened = stored_rows.opened_file

    def damaged(table, stored):
        stream = opened(table, stored)
        content = stream.read()
        changed = content.replace(NAME.encode(), NAME.upper().encode())
        return io.BytesIO(changed if stored.path.endswith(".events") else content)

    assert rows(table) == 3000
    monkeypatch.setattr(LocalStorage, "holds", False)
    monkeypatch.setattr(stored_rows, "opened_file", damaged)
    with pytest.raises(StateError, match=r"\.events"):
        rows(Table(table.path))


@pytest.mark.parametrize("damage", [flip, cut, lose, swap])
def test_a_record_is_never_that_of_a_damaged_file(place, damage):
    [*_, older, newest] = files(place, "_mutator/table/rows/version_id=*/*.rows")
    damage(newest, older)

    table, found, named = Table(str(place)), [], []
    for key in range(0, 50, 7):
        try:
            found.append(table.get(key))
        except StateError as fault:
            named.append(newest.name in str(fault))
    assert all(named)
    assert {row["ts"] for row in found} <= {3}
    assert not found or damage is flip  # a flipped bit that no row depends on harms no row


@pytest.mark.parametrize("hint", [True, False])
@pytest.mark.parametrize("damage", [flip, cut, lose, swap])
def test_an_entry_that_is_lost_or_damaged_is_an_error(place, damage, hint):
    log = TableLog(str(place))
    if not hint:
        (place / "_mutator/table/hint.json").unlink()
        shutil.rmtree(place / "_mutator/table/checkpoints")
    entries = files(place, "_mutator/table/log/*.json")
    for number in (3,) if hint else (1, 2):
        content = entries[number].read_bytes()
        damage(entries[number], entries[number - 1])

        with pytest.raises((StateError, ConfigError), match=entries[number].name) as fault:
            Table(str(place))

        assert fault.value.kind == ("table.log.lost" if hint and damage is lose else "table.log.damaged")
        entries[number].write_bytes(content)
    assert Table(str(place)).version == 3
    assert log.newest() == 3


def test_an_old_version_behind_a_lost_entry_is_an_error_that_names_the_entry(place):
    entry = files(place, "_mutator/table/log/*.json")[1]
    shutil.rmtree(place / "_mutator/table/checkpoints")
    (place / "_mutator/table/hint.json").unlink()
    entry.unlink()

    with pytest.raises(StateError, match=entry.name):
        Table(str(place))
    with pytest.raises(StateError, match=entry.name):
        opening.open_snapshot(str(place), 2)


def test_an_open_table_does_not_stop_at_a_lost_entry(place, tmp_path):
    table = Table(str(place))
    for version in (4, 5):
        pq.write_table(pa.table({"id": [1], "ts": [version], "name": ["x"]}), tmp_path / f"{version}.parquet")
        Table(str(place)).apply(str(tmp_path / f"{version}.parquet"), open_runner=open_runner)
    entry = files(place, "_mutator/table/log/*.json")[4]
    entry.unlink()

    with pytest.raises(StateError, match=entry.name):
        table.refresh()
    with pytest.raises(StateError, match=entry.name):
        table.apply(str(tmp_path / "4.parquet"), open_runner=open_runner)
    assert not entry.exists()


def test_the_entry_of_another_table_is_an_error(place, tmp_path):
    other = Table.create(str(tmp_path / "other"), {**SETTINGS, **NO_LIMITS}, buckets=1)
    for version in (1, 2, 3):
        other.apply(str(tmp_path / f"{version}.parquet"), open_runner=open_runner)
    entry = files(place, "_mutator/table/log/*.json")[3]
    shutil.copy(tmp_path / "other/_mutator/table/log" / entry.name, entry)

    with pytest.raises(StateError, match=f"{entry.name}: .*follows another version"):
        Table(str(place))


@pytest.mark.parametrize("damage", [flip, cut, lose])
@pytest.mark.parametrize("pattern", ["hint.json", "checkpoints/*2-*.files", "checkpoints/*.masks"])
def test_a_table_works_without_what_is_derived(place, damage, pattern):
    found = files(place, f"_mutator/table/{pattern}")
    assert found
    for path in found:
        damage(path, path)

    table = Table(str(place))

    assert (table.version, rows(table), table.get(7)["ts"]) == (3, 50, 3)
    assert rows(table, version=1) == 50
