"""Compaction: the same rows in fewer files, of the buckets that need it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.versions.opening import open_snapshot
from mutator.engine.versions import base_files, compact_task, indexed_rows
from mutator.errors import MutatorError, error
from mutator.table import apply, compact_choice
from mutator.table.table import Table
from tests.support.made_once import copy_of_made
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import left_of
from tests.table.test_changes import changes

SETTINGS: dict[str, Any] = {"key": "id", "order_by": "at", "op": "op", "header": True, **NO_LIMITS}
BY_DAY = {**SETTINGS, "partitioned.by": "day", "key.scope": "partition"}


def put(directory: Path, name: str, rows: str) -> str:
    path = directory / f"{name}.csv"
    path.write_text(f"id,day,at,op,name\n{rows}")
    return str(path)


def rows(numbers: Any, day: str, at: int, op: str = "U") -> str:
    return "".join(f"{number},{day},{at},{op},n{at}\n" for number in numbers)


def left(table: Table) -> Any:
    found = left_of(open_snapshot(table.path), {}, width=1)
    return found.rows, found.tombstones


def files(table: Table, role: str = DATA) -> list[str]:
    return [file.path for file in table.refresh().snapshot.of_role(role)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return a table with two days: the first has five files, of which the last four are packed."""
    return Table(str(copy_of_made(tmp_path, fill) / "table"))


def fill(path: Path) -> None:
    table = Table.create(str(path / "table"), BY_DAY, buckets=1)
    table.apply(put(path, "first", rows(range(40), "a", 1) + rows(range(40), "b", 1)))
    for at in range(2, 6):
        table.apply(put(path, f"next{at}", rows(range(at), "a", at) + rows([at], "b", at, "D" if at == 5 else "U")))


def test_a_compaction_keeps_the_rows_of_every_version(table: Table) -> None:
    before = [left_of(open_snapshot(table.path, version), {}, width=1) for version in range(1, 6)]
    report = table.compact(everything=True)
    assert (report.version, report.is_new, report.buckets, report.given_up) == (6, True, 2, 0)
    assert (report.rows, report.tombstones, report.expired) == (79, 0, 0)
    assert (report.files_before, report.files_after) == (6, 2)
    assert [left_of(open_snapshot(table.path, version), {}, width=1) for version in range(1, 6)] == before
    assert left(table) == (before[-1].rows, before[-1].tombstones)
    assert table.verify().problems == ()
    assert changes(table, 5, 6) == changes(table, 5, 6, net=True) == []
    assert table.describe().hidden_rows == 0


def test_a_compacted_table_is_not_compacted_again(table: Table) -> None:
    table.compact(everything=True)
    report = table.compact(everything=True)
    assert (report.version, report.is_new, report.buckets, report.files_before) == (6, False, 0, 2)
    assert "nothing to compact" in report.text()
    assert table.version == 6


@pytest.mark.parametrize(
    ("need", "buckets"),
    [
        ({"files": 1, "hidden": 1.0}, 2),
        ({"files": 3, "hidden": 1.0}, 1),  # day a has live rows in two files, day b in four
        ({"files": 4, "hidden": 1.0}, 0),
        ({"files": 9, "hidden": 0.2}, 1),  # in packed files, day b alone has live rows beside hidden ones
        ({"files": 9, "hidden": 0.05}, 2),
        ({"files": 9, "hidden": 0.5}, 0),
        ({"files": 1, "hidden": 1.0, "where": "day = 'a'"}, 1),
        ({"everything": True, "where": [("day", "=", "b")]}, 1),
        ({"everything": True, "where": "day = 'c'"}, 0),
    ],
)
def test_the_buckets_that_need_it(table: Table, need: dict[str, Any], buckets: int) -> None:
    planned = table.compact(**need, dry_run=True)
    assert (planned.buckets, planned.is_new, planned.version) == (buckets, False, 5)
    before = left(table)
    report = table.compact(**need)
    assert (report.buckets, report.rows, report.tombstones) == (buckets, planned.rows, planned.tombstones)
    assert report.is_new == (buckets > 0)
    assert left(table) == before
    assert table.verify().problems == ()


def test_a_packed_file_stays_for_the_partitions_that_were_not_compacted(table: Table) -> None:
    packed = [path for path in files(table) if "/packed/" in path]
    before = left(table)
    table.compact(everything=True, where="day = 'a'")
    assert set(packed) <= set(files(table))
    assert left(table) == before
    table.compact(everything=True, where="day = 'b'")
    assert not set(packed) & set(files(table))
    assert left(table) == before
    assert table.verify().problems == ()


def test_files_without_live_rows_go(table: Table, tmp_path: Path) -> None:
    table.apply(put(tmp_path, "more", rows(range(40), "a", 9)))
    before, number = left(table), len(files(table))
    assert not table.compact(files=99, hidden=1.0).is_new
    report = table.compact(everything=True, where="day = 'c'")
    assert (report.buckets, report.rows, report.is_new) == (0, 0, True)
    assert len(files(table)) < number
    assert left(table) == before
    assert table.verify().problems == ()


def test_a_partition_with_many_rows_has_files_of_its_own(table: Table, monkeypatch: Any) -> None:
    for module in (base_files, compact_choice):
        monkeypatch.setattr(module, "OWN", 40)
    before = left(table)
    table.compact(everything=True)
    assert [path.rpartition("/")[0] for path in files(table)] == [
        "_mutator/table/rows/day=a/version_id=5",
        "_mutator/table/packed",
    ]
    assert left(table) == before


def test_files_are_sorted_by_key(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=1)
    table.apply(put(tmp_path, "first", rows(range(1, 99, 3), "a", 1)))
    table.apply(put(tmp_path, "second", rows(range(2, 99, 3), "a", 1)))
    table.apply(put(tmp_path, "third", rows(range(0, 99, 3), "a", 1)))
    table.compact(everything=True)
    (path,) = files(table)
    keys = pq.read_table(f"{table.path}/{path}").column("id").to_pylist()
    assert keys == sorted(map(str, range(99)))


def test_tombstones_expire_by_the_retention_of_the_compaction(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=2)
    table.apply(put(tmp_path, "first", rows(range(9), "a", 1)))
    table.apply(put(tmp_path, "gone", rows(range(3), "a", 7, "D")))
    assert table.compact(everything=True, tombstone_retention="1d").expired == 0
    report = table.compact(everything=True, tombstone_retention="0s")
    assert (report.expired, report.tombstones) == (3, 0)
    assert table.snapshot.version.horizon == "7"
    assert table.snapshot.version.tombstones == 0
    assert files(table, TOMBSTONES) == []
    assert "forgot 3 expired tombstones" in report.text()
    assert table.verify().problems == ()
    late = table.apply(put(tmp_path, "late", rows([1], "a", 6)))
    assert late.counts["below horizon"] == 1
    table.apply(put(tmp_path, "gone before", rows([5], "a", 4, "D")))
    assert table.compact(everything=True, tombstone_retention="0s").expired == 1
    assert table.snapshot.version.horizon == "7"
    assert table.verify().problems == ()


def test_tombstones_that_expire_need_no_new_data_files(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, "tombstone.retention": "30d"}, buckets=1)
    table.apply(put(tmp_path, "first", rows(range(99), "a", 1)))
    table.apply(put(tmp_path, "gone", rows(range(3), "a", 7, "D")))
    assert table.compact(everything=True).is_new
    assert not table.compact(everything=True).is_new  # none is that old
    data = files(table)
    report = table.compact(tombstone_retention="0s")
    assert (report.expired, report.rows, files(table), files(table, TOMBSTONES)) == (3, 0, data, [])
    assert not table.compact(tombstone_retention="0s").is_new
    assert table.verify().problems == ()


def test_tombstones_of_a_packed_file_expire_by_partition(table: Table, tmp_path: Path) -> None:
    table.apply(put(tmp_path, "gone", rows(range(3), "a", 7, "D") + rows(range(2), "b", 7, "D")))
    report = table.compact(everything=True, where="day = 'a'", tombstone_retention="0s")
    assert (report.expired, table.snapshot.version.tombstones) == (3, 3)
    report = table.compact(where="day = 'b'", tombstone_retention="0s")
    assert (report.expired, table.snapshot.version.tombstones) == (3, 0)
    assert table.verify().problems == ()


def test_the_history_of_a_partition_that_has_no_rows_any_more(table: Table, tmp_path: Path) -> None:
    table.apply(put(tmp_path, "gone", rows(range(40), "a", 9, "D")))
    table.compact(everything=True, tombstone_retention="0s")
    assert table.get("7", partition="day=a") is None
    assert [one.version for one in table.history("7", partition="day=a")] == [1, 6]
    with pytest.raises(MutatorError, match="day=x"):
        table.history("7", partition="day=x")


def test_a_packed_file_with_many_hidden_rows_is_compacted(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), BY_DAY, buckets=1)
    days = [f"d{number}" for number in range(9)]
    for at in range(5):
        table.apply(put(tmp_path, f"feed{at}", "".join(rows(range(9), day, at) for day in days[at:])))
    assert table.describe().hidden_rows > 200
    assert table.compact().buckets >= 4
    assert table.describe().hidden_rows == 0
    assert not table.compact().is_new


def test_the_retention_of_a_table_is_that_of_its_compactions(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, "tombstone.retention": "0s"}, buckets=2)
    table.apply(put(tmp_path, "first", rows(range(9), "a", 1)))
    table.apply(put(tmp_path, "gone", rows(range(3), "a", 7, "D")))
    assert table.refresh().snapshot.version.tombstones == 3
    assert table.compact(everything=True).expired == 3
    assert table.snapshot.version.tombstones == 0


def test_conditions_on_other_columns_are_refused(table: Table, tmp_path: Path) -> None:
    with pytest.raises(MutatorError, match="write conditions on day") as caught:
        table.compact(where="name = 'x'")
    assert caught.value.exit_code == 2
    other = Table.create(str(tmp_path / "other"), SETTINGS)
    other.apply(put(tmp_path, "some", rows([1], "a", 1)))
    with pytest.raises(MutatorError, match="leave the conditions out"):
        other.compact(where="name = 'x'")
    assert table.version == 5


@pytest.mark.parametrize("wrong", [{"files": 0}, {"files": "2"}, {"hidden": 1.5}, {"hidden": True}, {"everything": 1}])
def test_wrong_arguments_are_refused(table: Table, wrong: dict[str, Any]) -> None:
    with pytest.raises(MutatorError, match=next(iter(wrong))) as caught:
        table.compact(**wrong)
    assert caught.value.exit_code == 2


def test_small_buckets_share_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=8)
    table.apply(put(tmp_path, "first", rows(range(80), "a", 1)))
    table.apply(put(tmp_path, "second", rows(range(40), "a", 2)))
    monkeypatch.setattr(base_files, "_FULL", 40)
    before = left(table)
    table.compact(everything=True)
    found = list(table.snapshot.of_role(DATA))
    assert all(len(file.extents) == 1 or file.rows <= 40 for file in found)
    assert 2 <= len(found) < 8
    assert left(table) == before
    assert table.verify().problems == ()


def test_large_buckets_have_several_files(tmp_path: Path, monkeypatch: Any) -> None:
    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=1)
    table.apply(put(tmp_path, "first", rows(range(80), "a", 1)))
    table.apply(put(tmp_path, "second", rows(range(40), "a", 2)))
    monkeypatch.setattr(base_files, "MOST", 30)
    monkeypatch.setattr(compact_choice, "MOST", 30)
    monkeypatch.setattr(compact_task, "_ROWS", 7)
    before = left(table)
    table.compact(everything=True)
    assert [file.rows for file in table.snapshot.of_role(DATA)] == [30, 30, 20]
    assert left(table) == before
    assert table.verify().problems == ()
    assert not table.compact(everything=True).is_new


def test_a_failed_task_leaves_no_file(table: Table, monkeypatch: Any) -> None:
    for module in (base_files, compact_choice):
        monkeypatch.setattr(module, "OWN", 1)
    before, read = {path for path in Path(table.path).rglob("*") if path.is_file()}, indexed_rows.read_rows

    def failing(plan: Any, live: Any, file: Any, positions: Any, entries: Any) -> Any:
        if any((Path(table.path) / "_mutator/table/rows/day=a").glob("version_id=5/*.rows")):
            raise error("storage", path=file.path, why="is gone")
        return read(plan, live, file, positions, entries)

    monkeypatch.setattr(compact_task, "read_rows", failing)
    with pytest.raises(MutatorError, match="is gone"):
        table.compact(everything=True)
    assert {path for path in Path(table.path).rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("number", range(4))
def test_a_key_index_that_cannot_be_written_leaves_no_file(
    table: Table, tmp_path: Path, monkeypatch: Any, number: int
) -> None:
    table.apply(put(tmp_path, "gone", rows([7], "b", 9, "D")))
    before, write, calls = (
        {path for path in Path(table.path).rglob("*") if path.is_file()},
        base_files.write_key_index,
        [],
    )

    def failing(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > number:
            raise error("storage", path="keys", why="is full")
        return write(*arguments)

    for module in (base_files, compact_choice):
        monkeypatch.setattr(module, "OWN", 1)
    monkeypatch.setattr(base_files, "write_key_index", failing)
    if number < 3:  # two days and the tombstones
        with pytest.raises(MutatorError, match="is full"):
            table.compact(everything=True)
        assert {path for path in Path(table.path).rglob("*") if path.is_file()} == before
    else:
        assert table.compact(everything=True).is_new


def test_an_empty_table_has_nothing_to_compact(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), SETTINGS)
    assert not table.compact(everything=True).is_new


def test_a_damaged_file_stops_a_compaction(table: Table, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(apply, "INLINE", 0)
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    table.apply(put(tmp_path, "large", rows(range(30, 50), "a", 9)))
    path = next(path for path in files(table) if (Path(table.path) / path).exists())
    whole = (Path(table.path) / path).read_bytes()
    (Path(table.path) / path).write_bytes(whole[:50] + b"x" + whole[51:])
    before = {str(path) for path in Path(table.path).rglob("*")}
    with pytest.raises(MutatorError, match="this file of the table is damaged") as caught:
        table.compact(everything=True)
    assert caught.value.exit_code == 5
    assert table.refresh().version == 6
    assert {str(path) for path in Path(table.path).rglob("*") if path.is_file()} <= before
    (Path(table.path) / path).write_bytes(whole)
    assert table.compact(everything=True).version == 7


def test_the_report_as_json(table: Table) -> None:
    found = json.loads(table.compact(everything=True).json())
    assert found["rows"] == 79
    assert found["bytes"] > 0


def test_a_compaction_after_each_apply(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=1)
    plain = Table.create(str(tmp_path / "plain"), SETTINGS, buckets=1)
    compactions = []
    for at in range(12):
        path = put(tmp_path, f"feed{at}", rows(range(at * 10, at * 10 + 12), "a", at))
        report = table.apply(path, compact_after=True)
        assert plain.apply(path).counts == report.counts
        if report.compaction is not None:
            compactions.append(report.compaction.version)
            assert f"is now version {report.version + 1}: compacted" in report.text()
    assert 2 <= len(compactions) <= 4
    assert len(files(table)) <= 5
    assert left(table) == left(plain)
    assert table.apply(path, compact_after=True).compaction is None
    assert table.apply(put(tmp_path, "dry", rows([1], "a", 99)), compact_after=True, dry_run=True).compaction is None


def test_a_compaction_that_fails_after_an_apply_is_a_warning(tmp_path: Path, monkeypatch: Any) -> None:
    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=1)

    def failing(*_: Any, **__: Any) -> Any:
        raise error("storage", path="there", why="is gone")

    monkeypatch.setattr("mutator.table.upkeep.compact_table", failing)
    report = table.apply(put(tmp_path, "feed", rows(range(3), "a", 1)), compact_after=True)
    assert (table.version, report.version) == (1, 1)
    assert report.warnings[0].startswith("the compaction after it failed: there: is gone")
