"""Insert overwrite repairs a table: it needs no old data file, and with --replace-damaged no old key index."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions import delta_files
from mutator.errors import MutatorError, StateError
from mutator.table import apply
from mutator.table.table import Table
from tests.support.versioned import left_of
from tests.table.test_overwrite import BY_PARTITION, BY_TABLE, SETTINGS, feed, outcomes, rows_of, tombstones

WORLDS = pytest.mark.parametrize("settings", [SETTINGS, BY_TABLE, BY_PARTITION], ids=["whole", "table", "partition"])


@pytest.fixture(autouse=True)
def files_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write each extent to a file of its own, and nothing into log entries."""
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "INLINE", 0)
    monkeypatch.setattr(delta_files, "_OWN", 1)


def create(directory: Path, settings: dict[str, str], own: int = 1) -> Table:
    """Return a table with keys 1 to 6 in p1, 7 to 9 in p2, and deletes of 6 and 9. own: rows of a file of its own."""
    delta_files._OWN = own
    table = Table.create(str(directory / "table"), settings, buckets=1)
    rows = [(number, 5, "U", "p1" if number < 7 else "p2", "x") for number in range(1, 10)]
    table.apply(feed(*rows))
    table.apply(feed((1, 6, "U", "p1", "z"), (6, 8, "D", "p1", None), (9, 8, "D", "p2", None)))
    return table


def files(snapshot: Snapshot, role: str, partition: str, part: str = "data") -> list[Path]:
    """Return the paths of the live files that have rows of a partition, or of their key indexes."""
    found = [
        one
        for one in snapshot.of_role(role)
        if partition == "*" or any(e.partition in (partition, None) for e in one.extents)
    ]
    return [Path(snapshot.table) / (one if part == "data" else one.keys).path for one in found]


def damage(paths: list[Path], how: str) -> None:
    assert paths
    for path in paths:
        if how == "lose":
            path.unlink()
        else:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content[: -7 if how == "cut" else None])


NEW = (
    (1, 6, "U", "p1", "z"),
    (2, 1, "U", "p1", "y"),
    (3, 9, "D", "p1", None),
    (4, 1, "D", "p1", None),
    (20, 1, "U", "p1", "y"),
)


@pytest.mark.thorough(keep=3)
@WORLDS
@pytest.mark.parametrize("how", ["flip", "cut", "lose"])
def test_old_data_files_are_not_needed(tmp_path: Path, settings: dict[str, str], how: str) -> None:
    table, sound = create(tmp_path, settings), create(tmp_path / "sound", settings)
    damage(files(table.snapshot, DATA, "part=p1"), how)
    report, expected = table.insert_overwrite(feed(*NEW)), sound.insert_overwrite(feed(*NEW))
    assert report.counts == expected.counts
    assert (rows_of(table), tombstones(table)) == (rows_of(sound), tombstones(sound))
    later = feed((5, 4, "U", "p1", "late"), (4, 5, "U", "p1", "y"))
    assert table.apply(later).counts == sound.apply(later).counts


def test_tombstones_of_records_with_text_orders_have_their_own(tmp_path: Path) -> None:
    settings = {"key": "id", "order_by": "at", "order_type": "string", "op": "op"}
    table = Table.create(str(tmp_path / "table"), settings, buckets=1)
    texts = pa.array(["b", "d", "c"])
    table.apply(pa.table({"id": [1, 2, 3], "at": texts, "op": ["U"] * 3}))
    damage(files(table.snapshot, DATA, ""), "lose")
    report = table.insert_overwrite(pa.table({"id": [3, 4], "at": ["a", "a"], "op": ["D", "U"]}))
    assert outcomes(report)["master deleted by absence"] == 2
    assert [order for _, order in left_of(table.snapshot, {}, width=1).tombstones] == [b"b", b"d", b"c"]


@pytest.mark.thorough(keep=1)
@WORLDS
def test_a_damaged_key_index_is_an_error_with_both_cures(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings)
    damage(files(table.snapshot, DATA, "part=p1", "index"), "lose")
    with pytest.raises(StateError, match=r"verify --repair.*replace_damaged=True"):
        table.insert_overwrite(feed(*NEW))
    assert table.refresh().version == 2
    assert len(table.verify(repair=True).repaired) > 0
    assert table.insert_overwrite(feed(*NEW)).counts["feed updated"] == 1


@pytest.mark.parametrize("what", ["keys", "hidden"])
def test_the_cure_of_a_damaged_key_index_is_of_no_other_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    table = create(tmp_path, BY_PARTITION)
    damage([one for one in tmp_path.rglob(f"*.{what}") if what == "hidden" or "part=p1" in str(one)], "lose")
    for path in (tmp_path / "table/_mutator/table/checkpoints").iterdir():
        path.unlink()
    table = Table(table.path)
    (tmp_path / "feed.csv").write_text("id,at,op,part,note\n1,6,U,p1,z\n")
    end = "; restore it from a copy of the table"
    if what == "keys":
        end = (
            f"; it is a key index; make it again with: mutator table verify --repair {table.path} (in Python: "
            "Table.verify with repair); without it, the "
            "keys of the rows to be replaced are not known: if its data file is damaged, too, replace these rows, "
            "without remembering which were deleted, with: "
        )
    flags = ["--replace-damaged", "-D replace.damaged=true", "replace_damaged=True"] if what == "keys" else [""] * 3

    for words, flag in zip(
        (["insert-overwrite"], ["apply", "-D", "write.operation=insert_overwrite"]), flags, strict=False
    ):
        assert main(["table", *words, table.path, "--feed", str(tmp_path / "feed.csv")]) == 5
        assert capsys.readouterr().err.endswith(f"{end}{flag}\n")
    with pytest.raises(StateError, match=rf"{re.escape(end + flags[-1])}$"):
        table.insert_overwrite(feed(*NEW))


@pytest.mark.thorough(keep=2)
@WORLDS
@pytest.mark.parametrize("how", ["flip", "lose"])
def test_lost_rows_are_counted_from_the_log_and_raise_the_horizon(
    tmp_path: Path, settings: dict[str, str], how: str
) -> None:
    table = create(tmp_path, settings)
    live = len([row for row in rows_of(table) if row[2] == "p1" or settings is SETTINGS])
    damage(files(table.snapshot, DATA, "part=p1", "index"), how)
    damage(files(table.snapshot, DATA, "part=p1"), how)
    report = table.insert_overwrite(feed(*NEW), replace_damaged=True)
    counts = outcomes(report)
    assert (report.lost, counts["master deleted by absence"]) == (live, live)
    assert (counts["feed inserted"], counts["feed delete of unknown"]) == (3, 2)
    assert table.snapshot.version.horizon == "6"
    assert [row for row in rows_of(table) if row[2] == "p1"] == [
        (1, 6, "p1", "z"),
        (2, 1, "p1", "y"),
        (20, 1, "p1", "y"),
    ]
    assert {key for key, _ in tombstones(table)} == {3, 4, 6, 9}
    with pytest.raises(StateError, match="version 3 replaced"):
        table.changes(2).to_arrow()
    with pytest.raises(StateError, match="version 3 replaced"):
        table.changes(1, 3, net=True).to_arrow()
    table.apply(feed((5, 7, "U", "p1", "y")))
    assert len(table.changes(3).to_pylist()) == 1
    below = table.apply(feed((50, 2, "U", "p1", "y"))).counts["below horizon"]
    assert below == 1


@pytest.mark.parametrize("settings", [BY_TABLE, BY_PARTITION], ids=["table", "partition"])
def test_lost_rows_of_a_packed_file_are_hidden(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, own=1 << 16)
    damage(files(table.snapshot, DATA, "part=p1", "index"), "flip")
    if settings is BY_TABLE:  # records may have to move out of the other partitions of the file
        with pytest.raises(MutatorError):
            table.apply(feed((1, 9, "U", "p1", "y")))
    report = table.insert_overwrite(feed(*NEW), replace_damaged=True)
    assert (report.lost, report.files_removed) == (5, 1)
    assert [row for row in rows_of(table) if row[2] == "p2"] == [(7, 5, "p2", "x"), (8, 5, "p2", "x")]
    assert len(table.verify(repair=True).repaired) > 0
    assert table.verify().problems == ()
    assert outcomes(table.apply(feed((7, 9, "U", "p2", "y")))) == {
        "feed updated": 1,
        "master replaced": 1,
        "master kept": 4,
    }


def test_lost_tombstones_of_other_partitions_are_an_error(tmp_path: Path) -> None:
    table = create(tmp_path, BY_PARTITION, own=1 << 16)
    damage(files(table.snapshot, TOMBSTONES, "part=p1", "index"), "flip")
    with pytest.raises(StateError, match="deletes of partitions that are not replaced"):
        table.insert_overwrite(feed(*NEW), replace_damaged=True)
    report = table.insert_overwrite_table(feed(*NEW), replace_damaged=True)
    assert report.counts["expired"] == 2
    assert table.snapshot.version.horizon == "8"
    assert {key for key, _ in tombstones(table)} == {3, 4, 5, 7, 8}


def test_a_lost_version_index_needs_the_table_variant(tmp_path: Path) -> None:
    table = create(tmp_path, BY_PARTITION)
    damage(sorted((tmp_path / "table/_mutator/table/hidden").iterdir()), "lose")
    for path in (tmp_path / "table/_mutator/table/checkpoints").iterdir():
        path.unlink()
    table = Table(table.path)
    with pytest.raises(StateError, match="is damaged"):
        table.insert_overwrite(feed(*NEW), replace_damaged=True)
    report = table.insert_overwrite_table(feed(*NEW), replace_damaged=True)
    assert (report.lost, report.counts["expired"]) == (7, 9)
    assert rows_of(Table(table.path)) == [(1, 6, "p1", "z"), (2, 1, "p1", "y"), (20, 1, "p1", "y")]
    assert table.apply(feed((1, 9, "U", "p1", "y"))).counts["feed updated"] == 1


def test_nothing_is_lost_where_nothing_is_damaged(tmp_path: Path) -> None:
    table, other = create(tmp_path, BY_TABLE), create(tmp_path / "other", BY_TABLE)
    report = table.insert_overwrite(feed(*NEW), replace_damaged=True)
    assert report.lost == 0
    assert report.counts == other.insert_overwrite(feed(*NEW)).counts
    assert (rows_of(table), tombstones(table)) == (rows_of(other), tombstones(other))


@pytest.mark.thorough(keep=2)
@WORLDS
@pytest.mark.parametrize("how", ["cut", "lose"])
def test_changes_over_damaged_rows_have_their_keys(tmp_path: Path, settings: dict[str, str], how: str) -> None:
    table, sound = create(tmp_path, settings), create(tmp_path / "sound", settings)
    damage(files(table.snapshot, DATA, "part=p1"), how)
    for one in (table, sound):
        one.insert_overwrite(feed(*NEW))
    known = {"id"} if settings is SETTINGS else {"id", "part"}
    for start, net in ((2, False), (1, True), (2, True)):
        expected = sound.changes(start, net=net).to_pylist()
        for row in expected:
            del row["_commit_timestamp"]
            is_old = row["_change_type"] in ("delete", "update_preimage")
            if is_old and (settings is SETTINGS or row["part"] == "p1"):
                row.update(dict.fromkeys({"id", "at", "part", "note"} - known))
        found = table.changes(start, net=net).to_pylist()
        for row in found:
            del row["_commit_timestamp"]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert {row["_change_type"] for row in found} >= {"delete", "update_preimage", "insert"}
    table.apply(feed((30, 1, "U", "p1", "y")))
    assert len(table.changes(3).to_pylist()) == 1


@pytest.mark.parametrize("settings", [BY_TABLE, BY_PARTITION], ids=["table", "partition"])
def test_rows_hidden_in_a_damaged_packed_file_have_their_keys(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, own=1 << 16)
    damage(files(table.snapshot, DATA, "part=p1"), "lose")
    table.insert_overwrite(feed(*NEW))
    old = [row for row in table.changes(2).to_pylist() if row["_change_type"] in ("delete", "update_preimage")]
    assert {(row["id"], row["part"], row["at"]) for row in old} == {(number, "p1", None) for number in (2, 3, 4, 5)}
    table.apply(feed((7, 9, "D", "p2", None)), max_delete_fraction=1)
    with pytest.raises(StateError, match="is damaged"):  # no overwrite replaced this row
        table.changes(3).to_arrow()


def test_keys_alone_have_the_types_of_the_table(tmp_path: Path) -> None:
    rows = {
        "id": pa.array([b"\xff\x00", b"b"]),
        "time": pa.array([1, 2_000_000_000_123_456], pa.timestamp("us")),
        "cents": pa.array([Decimal("1.50"), Decimal("12.00")], pa.decimal128(9, 2)),
        "day": pa.array([0, 20000], pa.date32()),
        "shop": pa.array(["x/y", None]),
        "at": pa.array([1, 1]),
    }
    key = "id,time,cents"
    settings = {"key": key, "order_by": "at", "partitioned.by": "day,shop", "key.scope": "partition"}
    table = Table.create(str(tmp_path / "table"), settings, buckets=1)
    table.apply(pa.table(rows))
    for path in files(table.snapshot, DATA, "*"):
        path.unlink()
    table.insert_overwrite_table(pa.table(rows).slice(0, 0), allow_empty_feed=True)
    names = [*rows][:-1]
    found = table.changes(1).to_arrow()
    assert sorted(found.select(names).to_pylist(), key=repr) == sorted(
        pa.table(rows).select(names).to_pylist(), key=repr
    )
    assert found.column("at").null_count == 2


@pytest.mark.parametrize("by", ["date(time)", "day=date(time)"])
def test_without_the_source_of_a_partition_changes_name_the_version_to_go_on_from(tmp_path: Path, by: str) -> None:
    """The directory has no time, and IDs are unique only within a partition."""
    settings = {"key": "id", "order_by": "at", "partitioned.by": by, "key.scope": "partition"}
    table = Table.create(str(tmp_path / "table"), settings, buckets=1)
    rows = pa.table({"id": [1], "at": [1], "time": pa.array([0], pa.timestamp("us"))})
    table.apply(rows)
    damage(files(table.snapshot, DATA, "*"), "lose")
    table.insert_overwrite_table(rows.slice(0, 0), allow_empty_feed=True)
    with pytest.raises(StateError, match="read all rows of version 2, and the changes after it"):
        table.changes(1).to_arrow()


def test_changes_without_data_and_key_indexes_name_the_version_to_go_on_from(tmp_path: Path) -> None:
    table = create(tmp_path, BY_PARTITION)
    old = [files(table.snapshot, DATA, "part=p1", part) for part in ("data", "index")]
    table.insert_overwrite(feed(*NEW))
    for paths in old:
        damage(paths, "lose")
    for start, net in ((2, False), (1, True)):
        with pytest.raises(StateError, match="read all rows of version 3, and the changes after it"):
            table.changes(start, net=net).to_arrow()
