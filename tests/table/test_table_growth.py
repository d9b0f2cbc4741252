"""What long chains of versions and many partitions cost: reads and objects are counted."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mutator.dataset.versions import key_index, opening, packs
from mutator.dataset.versions.key_index import KeyIndex
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.masks import Masks
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions import absent, delta_files, extent_rows, live_rows
from mutator.engine.versions.live_rows import LiveRows
from mutator.errors import StateError
from mutator.table import apply, earlier_files, prepare
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

EVERY = 4  # versions between two checkpoints


def merged(table: Table, work: Path, number: int, rows: list[dict[str, Any]], **settings: Any) -> None:
    path = work / f"feed_{number}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    table.apply(str(path), open_runner=open_runner, **settings)


def rows_of(table: Table) -> list[Any]:
    rows = [row for batch in table.scan() for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["id"]))


@pytest.fixture
def long_chain(tmp_path: Path, monkeypatch: Any) -> tuple[Table, Table]:
    """Return a table after many versions, and an object that knows only its first one."""
    monkeypatch.setattr(opening, "_EVERY", EVERY)
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", **NO_LIMITS}, buckets=2)
    early = Table(table.path)
    for number in range(1, 3 * EVERY + 2):
        rows = [{"id": f"k{(number + n) % 9}", "at": number, "name": f"n{number}"} for n in range(4)]
        merged(table, tmp_path, number, rows)
    return table, early


def test_a_long_lived_table_keeps_only_the_versions_since_the_checkpoint(long_chain: tuple[Table, Table]) -> None:
    table, early = long_chain
    early.refresh()
    for one in (table, early):
        assert len(one.snapshot.masks.later) <= EVERY
        assert len(one.snapshot.masks._read) <= EVERY + 1
        assert one.snapshot.files.column("path").num_chunks <= EVERY + 1
    assert rows_of(table) == rows_of(early) == rows_of(Table(table.path))
    assert table.verify(open_runner=open_runner).problems == ()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_table_that_is_only_refreshed_keeps_no_contents_that_packs_have(
    tmp_path: Path, monkeypatch: Any, is_late: bool
) -> None:
    monkeypatch.setattr(opening, "_EVERY", EVERY)
    monkeypatch.setattr(opening, "_MOST_APART", 0)
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", **NO_LIMITS}, buckets=2)
    reader, hint = Table(table.path), TableLog(table.path).hinted()
    for number in range(1, 3 * EVERY + 2):
        merged(table, tmp_path, number, [{"id": f"k{number % 9}", "at": number, "name": f"n{number}"}])
        with monkeypatch.context() as patch:
            if is_late:  # the hint, by one version
                patch.setattr(TableLog, "hinted", lambda self, hint=hint: hint)
            reader.refresh()
        hint = TableLog(table.path).hinted()
        contents = [text for name in ("content", "index_content") for text in reader.snapshot.files[name].to_pylist()]
        assert sum(len(text) > 100 for text in contents) <= 2 * (2 * EVERY if is_late else EVERY - 1)
        assert reader.snapshot.files.drop_columns(["content", "index_content"]).equals(
            table.snapshot.files.drop_columns(["content", "index_content"])
        )
    assert rows_of(reader) == rows_of(table)


def test_an_old_version_is_opened_from_the_checkpoint_before_it(
    long_chain: tuple[Table, Table], monkeypatch: Any
) -> None:
    read, own = list[int](), TableLog.checkpoint

    def counted(self: TableLog, name: str) -> Any:
        read.append(int(name.partition("-")[0]))
        return own(self, name)

    monkeypatch.setattr(TableLog, "checkpoint", counted)
    assert open_snapshot(long_chain[0].path, 2 * EVERY + 1).version.number == 2 * EVERY + 1
    assert read == [2 * EVERY]


@pytest.mark.parametrize("order", ["at", "file name"])
def test_an_export_reads_each_file_once(tmp_path: Path, monkeypatch: Any, order: str) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    by_name = {} if order == "file name" else {"order_by": order}
    settings = {"key": "id", **by_name, "op": "op", "partitioned.by": "shop", **NO_LIMITS}
    table = Table.create(str(tmp_path / "table"), settings)
    for number in range(1, 4):
        rows = [{"id": f"k{n}", "at": number, "shop": f"s{n % 6}", "op": "I"} for n in range(number, 24)]
        merged(table, tmp_path, number, rows)
    gone = [{"id": f"k{n}", "at": 9, "shop": f"s{n % 6}", "op": "D"} for n in range(6, 18)]
    merged(table, tmp_path, 9, gone)
    calls = Counter[str]()

    def count(owner: Any, name: str, path_of: Any) -> None:
        own = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            calls[f"{name} {path_of(*arguments)}"] += 1
            return own(*arguments, **named)

        monkeypatch.setattr(owner, name, counted)

    count(live_rows, "taken_rows", lambda _, data, *rest: data.path)
    count(extent_rows, "taken_tombstones", lambda _, data, *rest: data.path)
    count(LiveRows, "entry_numbers", lambda _, file: file.path)
    count(Masks, "hidden", lambda _, path: "")
    count(Snapshot, "extents", lambda _, role, *rest: role)
    table.export(str(tmp_path / "out"), open_runner=open_runner)
    assert calls["extents data"] == calls["extents tombstones"] == 1
    files = table.snapshot.files.num_rows
    assert calls.pop("hidden ") <= 2 * files
    assert len(calls) > files  # the extents of two roles, and the files with live rows
    assert set(calls.values()) == {1}
    assert local_engine.verify(str(tmp_path / "out")).problems == ()


def test_checkpoints_do_not_repeat_what_entries_have(long_chain: tuple[Table, Table]) -> None:
    table, _ = long_chain
    directory = Path(table.path, "_mutator/table/checkpoints")
    packs = sorted(directory.glob("*.pack"))
    assert [int(path.name[:20]) for path in packs] == [EVERY, 2 * EVERY, 3 * EVERY]
    last, before = packs[-1].stat().st_size, packs[-2].stat().st_size
    assert last < 2 * before  # of as many versions
    (newest,) = directory.glob(f"{3 * EVERY:020d}-*.files")
    contents = [text for name in ("content", "index_content") for text in pq.read_table(newest)[name].to_pylist()]
    assert max(map(len, contents)) < 100  # characters


@pytest.mark.parametrize("damage", ["packs", "packs and checkpoints", "bytes of packs"])
def test_the_log_has_what_lost_packs_had(long_chain: tuple[Table, Table], damage: str) -> None:
    table, _ = long_chain
    expected, key = rows_of(table), rows_of(table)[0]["id"]
    packs._packs.clear()
    for path in Path(table.path, "_mutator/table/checkpoints").iterdir():
        if damage == "bytes of packs" and path.suffix == ".pack":
            path.write_bytes(b"x" + path.read_bytes()[1:])
        elif path.suffix == ".pack" or damage == "packs and checkpoints":
            path.unlink()
    again = Table(table.path)
    assert rows_of(again) == expected
    assert again.get(key) == expected[0]
    found = table.verify(repair=True, open_runner=open_runner)
    assert found.repaired
    assert table.verify(open_runner=open_runner).problems == ()
    assert rows_of(Table(table.path)) == expected


def test_a_scan_reads_a_pack_once(long_chain: tuple[Table, Table], monkeypatch: Any) -> None:
    packs._packs.clear()
    calls, pack, entry = Counter[str](), TableLog.pack, TableLog.read
    monkeypatch.setattr(TableLog, "pack", lambda self, name: calls.update([name]) or pack(self, name))
    monkeypatch.setattr(TableLog, "read", lambda self, number: calls.update(["entry"]) or entry(self, number))
    rows_of(Table(long_chain[0].path))
    assert len(calls) > 1  # packs with live rows
    assert set(calls.values()) == {1}
    assert "entry" not in calls


def test_large_contents_make_several_packs(long_chain: tuple[Table, Table], monkeypatch: Any) -> None:
    table, _ = long_chain
    monkeypatch.setattr(packs, "_LARGEST", 3000)
    shutil.rmtree(Path(table.path, "_mutator/table/checkpoints"))
    found = table.verify(repair=True, open_runner=open_runner)
    assert found.repaired
    made = list(Path(table.path, "_mutator/table/checkpoints").glob("*.pack"))
    assert len(made) > 3
    again = Table(table.path)
    assert len(rows_of(again)) == again.snapshot.version.records


@pytest.mark.parametrize(
    ("settings", "buckets", "groups"), [({"partitioned.by": "shop"}, 1, 1), ({}, 4, 4), ({}, 2, 4)]
)
def test_a_full_snapshot_writes_one_file_of_tombstones_for_each_task(
    tmp_path: Path, monkeypatch: Any, settings: dict[str, str], buckets: int, groups: int
) -> None:
    table = Table.create(
        str(tmp_path / "table"), {"key": "id", "order_by": "at", **settings, **NO_LIMITS}, buckets=buckets
    )
    for number in (1, 2):
        rows = [{"id": f"{number}{n}", "at": number, "shop": f"s{n % 6}"} for n in range(24)]
        merged(table, tmp_path, number, rows)
    monkeypatch.setattr(prepare, "_GROUP", 1)
    monkeypatch.setattr(prepare, "_GROUPS", groups)
    calls = Counter[Any]()
    of_group, taken = absent._of_group, live_rows.taken_rows

    def counted_extents(plan: Any, live: LiveRows, extents: Any, group: int) -> Any:
        calls.update((extent.file.path, extent.start) for extent in extents)
        return of_group(plan, live, extents, group)

    def counted_rows(table: str, data: Any, *rest: Any) -> Any:
        calls[data.path] += 1
        return taken(table, data, *rest)

    monkeypatch.setattr(absent, "_of_group", counted_extents)
    monkeypatch.setattr(live_rows, "taken_rows", counted_rows)
    merged(table, tmp_path, 3, [{"id": "10", "at": 3, "shop": "s0"}], sync_mode="full")
    assert len(rows_of(table)) == 1
    tombstones = list(table.snapshot.of_role("tombstones"))
    assert sum(file.rows for file in tombstones) == 47
    assert len(tombstones) == groups
    for file in tombstones:
        units = [(extent.partition or "", extent.bucket) for extent in file.extents]
        assert units == sorted(set(units))
    extents = [count for key, count in calls.items() if isinstance(key, tuple)]
    assert set(extents) == {groups // buckets}
    assert max(calls.values()) <= groups  # each file has rows of every task
    assert table.verify(open_runner=open_runner).problems == ()


@pytest.mark.parametrize("groups", [1, 3, 8])
def test_a_large_feed_is_merged_by_several_tasks(tmp_path: Path, monkeypatch: Any, groups: int) -> None:
    monkeypatch.setattr(prepare, "_GROUP", 1)
    monkeypatch.setattr(prepare, "_GROUPS", groups)
    settings = {"key": "id", "order_by": "at", "partitioned.by": "shop", **NO_LIMITS}
    table = Table.create(str(tmp_path / "table"), settings)
    merged(table, tmp_path, 1, [{"id": f"{n}", "at": 1, "shop": f"s{n % 3}"} for n in range(40)])
    assert table.snapshot.files.num_rows == groups
    assert len(rows_of(table)) == 40


@pytest.mark.parametrize("net", [False, True])
def test_changes_do_not_search_all_files_for_each_version(tmp_path: Path, monkeypatch: Any, net: bool) -> None:
    monkeypatch.setattr(delta_files, "_OWN", 1)  # each partition has a file
    settings = {"key": "id", "order_by": "at", "partitioned.by": "shop", **NO_LIMITS}
    table = Table.create(str(tmp_path / "table"), settings)
    merged(table, tmp_path, 1, [{"id": f"{n}", "at": 1, "shop": f"s{n}"} for n in range(30)])
    for number in range(2, 8):
        merged(table, tmp_path, number, [{"id": "5", "at": number, "shop": "s5"}, {"id": "6", "at": 1, "shop": "s6"}])
    assert table.snapshot.files.num_rows > 30
    searched, converted, index_in, files_of = list[int](), list[int](), pc.index_in, earlier_files.files_of

    class Counted:
        def __getattr__(self, name: str) -> Any:
            return getattr(pc, name)

        def index_in(self, values: Any, *, value_set: Any) -> Any:
            searched.append(len(value_set))
            return index_in(values, value_set=value_set)

    monkeypatch.setattr(earlier_files, "pc", Counted())
    monkeypatch.setattr(earlier_files, "files_of", lambda own, rows: converted.append(len(rows)) or files_of(own, rows))
    found = table.changes(1, net=net).to_arrow()
    assert found.num_rows == (2 if net else 12)
    assert sum(searched) < 30
    assert sum(converted) == 1


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_an_apply_reads_the_keys_of_a_packed_file_once(tmp_path: Path, monkeypatch: Any, scope: str) -> None:
    settings = {"key": "id", "order_by": "at", "partitioned.by": "shop", "key.scope": scope, **NO_LIMITS}
    table = Table.create(str(tmp_path / "table"), settings)
    rows = [{"id": number, "at": 1, "shop": number % 20, "name": "n"} for number in range(100)]
    merged(table, tmp_path, 1, rows)
    calls: Counter[str] = Counter()
    for name in ("keys", "hashes", "find", "positions"):
        plain = getattr(KeyIndex, name)

        def counted(self: KeyIndex, *args: Any, name: str = name, plain: Any = plain) -> Any:
            calls[name] += 1
            return plain(self, *args)

        monkeypatch.setattr(KeyIndex, name, counted)

    merged(table, tmp_path, 2, [{**row, "at": 2, "name": "m"} for row in rows[:70]])

    assert table.snapshot.version.counts["feed updated"] == 70
    assert calls["find"] == 0
    assert max(calls.values()) <= 2


def test_a_dataset_of_many_bytes_gets_as_many_buckets_as_in_a_run(tmp_path: Path) -> None:
    rows = pa.table({"id": [f"{number:08}" for number in range(4000)], "at": range(4000)})
    (tmp_path / "rows").mkdir()
    pq.write_table(rows, tmp_path / "rows" / "rows.parquet", compression="none")
    found = []
    for size in ("1k", "1g"):
        settings = {"key": "id", "order_by": "at", "bucket.bytes": size}
        table = Table.create(str(tmp_path / size), settings, dataset=str(tmp_path / "rows"), open_runner=open_runner)
        assert len(rows_of(table)) == 4000
        found.append(table.snapshot.version.buckets)
    assert found == [128, 8]


def test_too_many_bytes_of_keys_are_an_error_that_names_the_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(key_index, "MOST_BYTES", 10)
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", **NO_LIMITS})
    with pytest.raises(StateError, match=r"part-.*have 12 bytes, which is more than 10; create the table with more"):
        merged(table, tmp_path, 1, [{"id": "abcdef", "at": 1}, {"id": "ghijkl", "at": 1}])
    assert Table(table.path).version == 0
