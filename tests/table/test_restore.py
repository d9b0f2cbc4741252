"""Restore: a new version with the rows, deletes and merged feeds of an earlier one; no data are written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator import ConfigError, MutatorError, StateError, Table
from mutator.cli import main
from mutator.dataset.commits import Claim
from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.table import restore
from mutator.table.claiming_run import ClaimingRun, check_alive, give_up
from tests.support.effort import stride
from tests.support.made_once import copy_of_made


def rows(ids: str, at: int, op: str = "U", **more: Any) -> Any:
    return pa.Table.from_pylist([{"id": one, "at": at, "op": op, "note": f"{one}{at}", **more} for one in ids])


@pytest.fixture(name="table")
def new_table(tmp_path: Path) -> Table:
    return create(tmp_path / "t")


def create(path: Path) -> Table:
    return Table.create(path, key="id", order_by="at", op="op", buckets=2, max_delete_fraction=1)


@pytest.fixture(name="filled")
def new_filled(tmp_path: Path) -> Table:
    """Version 1 has a b c d, 2 updates b c, 3 deletes d and inserts e."""
    return Table(copy_of_made(tmp_path / "t", fill))


def fill(path: Path) -> None:
    table = create(path)
    table.apply(rows("abcd", 1))
    table.apply(rows("bc", 2))
    table.apply(pa.concat_tables([rows("d", 3, "D"), rows("e", 3)]))


NOTES = [[], ["a1", "b1", "c1", "d1"], ["a1", "b2", "c2", "d1"], ["a1", "b2", "c2", "e3"]]


def notes(table: Table, version: int | str | None = None) -> list[str]:
    return sorted(row["note"] for row in table.scan(version=version).to_pylist())


def stored(table: Table) -> dict[str, bytes]:
    """Return the files of a table, without the log and what is derived."""
    files = (path for path in Path(table.path).rglob("*") if path.is_file())
    names = ("log", "checkpoints", "hint.json")
    return {str(one): one.read_bytes() for one in files if not {*one.relative_to(table.path).parts} & {*names}}


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_each_version_comes_back(
    filled: Table, number: int, compact: bool, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if apart:
        monkeypatch.setattr(restore, "INLINE", 0)
    if compact:
        filled.compact(everything=True)
    before, files = filled.version, stored(filled)
    earlier = filled.at(number).version
    report = filled.restore(number)
    assert report.is_new is (number != before)
    assert (report.version, report.restored) == (filled.version, number)
    assert notes(filled) == notes(Table(filled.path)) == NOTES[number]
    assert (filled.snapshot.version.records, filled.snapshot.version.tombstones) == (
        earlier.records,
        earlier.tombstones,
    )
    new = {path for path in stored(filled) if path not in files}
    assert all(path.endswith(".masks") for path in new)
    for version in range(before + 1):  # every version can be read as before
        assert notes(filled, version) == NOTES[min(version, 3)]
    assert filled.verify().problems == ()
    assert filled.export(f"{filled.path}-out").rows == earlier.records if number else True


def test_the_same_restore_again_is_no_version(filled: Table) -> None:
    assert filled.restore(1).version == 4
    again = filled.restore(1)
    assert (again.is_new, again.version) == (False, 4)
    assert not filled.restore(4).is_new
    assert filled.restore(3).version == 5


def test_a_dry_run_writes_nothing(filled: Table) -> None:
    files = {path: path.read_bytes() for path in Path(filled.path).rglob("*") if path.is_file()}
    report = filled.restore(1, dry_run=True)
    assert (report.records, report.records_before, report.tombstones_before, report.is_new) == (4, 4, 1, False)
    assert {path: path.read_bytes() for path in Path(filled.path).rglob("*") if path.is_file()} == files
    assert filled.refresh().version == 3


def test_the_next_apply_goes_on_from_the_restored_version(filled: Table) -> None:
    filled.get("d")
    filled.restore(1)
    report = filled.apply(pa.concat_tables([rows("d", 0), rows("b", 2), rows("e", 1)]))
    counts = {name: report.counts[f"feed {name}"] for name in ("late", "updated", "inserted")}
    assert counts == {"late": 1, "updated": 1, "inserted": 1}
    assert notes(filled) == notes(Table(filled.path)) == ["a1", "b2", "c1", "d1", "e1"]
    assert filled.verify().problems == ()


def test_tombstones_come_back(filled: Table) -> None:
    filled.apply(rows("d", 9))  # revived
    filled.restore(3)
    report = filled.apply(rows("d", 2))
    assert report.counts["feed late"] == 1
    assert notes(filled) == NOTES[3]


def test_tombstones_that_a_compaction_forgot_come_back_and_the_horizon_goes(filled: Table) -> None:
    filled.compact(everything=True, tombstone_retention="0s")
    assert (filled.snapshot.version.tombstones, filled.snapshot.version.horizon) == (0, "3")
    filled.restore(3)
    assert (filled.snapshot.version.tombstones, filled.snapshot.version.horizon) == (1, None)
    assert filled.apply(rows("d", 2)).counts["feed late"] == 1


def test_a_snapshot_that_was_undone_does_not_refuse_an_earlier_one(filled: Table) -> None:
    filled.apply(rows("ab", 9), sync_mode="full")
    filled.restore(3)
    assert filled.apply(rows("ab", 8), sync_mode="full").is_new
    assert notes(filled) == ["a8", "b8"]


@pytest.mark.parametrize(("moved", "default"), [(False, None), (True, None), (False, ""), (False, "none")])
def test_changes_over_a_restore_that_undoes_the_removal_of_a_column(
    filled: Table, moved: bool, default: str | None
) -> None:
    """The rows of the undone version lack the column, and no later version has begun it.

    The values of its other rows are still in their files, if no compaction has moved the rows. default: the value, in
    these rows, of a column that was added again under the same name; "" for NULL, None if it was not.
    """
    feed = rows("b", 9).append_column("at2", pa.array([1])).drop_columns(["note"])
    filled.apply(feed, removed_fields="note")
    if moved:
        filled.compact(everything=True)
    if default is not None:
        filled.apply(rows("b", 10).append_column("at2", pa.array([1])), default={"note": default} if default else {})
    removed = filled.version
    kept = {row["id"]: row["note"] for row in filled.scan().to_pylist()} if default is not None else {}
    filled.restore(3)
    noted = {row["id"]: row["note"] for row in filled.scan().to_pylist()}
    assert len(noted) > 1
    for net in (False, True):
        found = {(row["_change_type"], row["id"], row["note"]) for row in filled.changes(removed, net=net).to_pylist()}
        before, after = {("update_preimage", key, kept.get(key)) for key in noted}, {*noted.items()}
        assert found == before | {("update_postimage", key, note) for key, note in after}
    assert list(filled.changes(3, net=True)) == []


def test_feed_files_of_later_versions_may_be_applied_again(table: Table, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        pq.write_table(rows("ab", number), tmp_path / f"f{number}.parquet")
        table.apply(tmp_path / f"f{number}.parquet")
    table.restore(2)
    for number in (1, 2):
        assert not table.apply(tmp_path / f"f{number}.parquet").is_new
    assert table.apply(tmp_path / "f3.parquet").is_new
    assert notes(table) == ["a3", "b3"]


def test_transactions_go_back_with_the_rows(table: Table) -> None:
    table.apply(rows("a", 1), txn=("orders", 1))
    table.apply(rows("b", 2), txn=("orders", 2))
    table.restore(1)
    assert not table.apply(rows("x", 9), txn=("orders", 1)).is_new
    assert table.apply(rows("b", 2), txn=("orders", 2)).is_new
    assert notes(table) == ["a1", "b2"]


def test_tags_and_given_up_runs_stay(filled: Table) -> None:
    run = "20260131T000000Z-00000001"
    filled.tag("second", 2)
    give_up(filled.path, run, 3)
    filled.restore("second")
    filled.tag("later", 3)
    assert filled.tags() == {"second": 2, "later": 3}
    claiming = ClaimingRun(Claim(run, ()), 3, lambda *_: None)
    with pytest.raises(StateError, match=run):
        check_alive(filled.path, claiming, TableLog(filled.path).after(3, filled.version))


def test_touched_rows_are_as_they_were(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", key="id", op="op", buckets=2, max_delete_fraction=1)
    for sequence, letters in ((10, "ab"), (30, "a"), (40, "b")):  # equal rows of later files
        pq.write_table(rows(letters, 0), tmp_path / f"feed_{sequence}.parquet")
        table.apply(tmp_path / f"feed_{sequence}.parquet")
    table.restore(2)
    for sequence, late in ((20, 1), (35, 0)):  # between the order values of a and b; then above both
        pq.write_table(rows("ab", sequence), tmp_path / f"feed_{sequence}.parquet")
        assert table.apply(tmp_path / f"feed_{sequence}.parquet").counts["feed late"] == late
    assert notes(table) == ["a35", "b35"]
    assert table.verify().problems == ()


def test_the_form_of_the_rows_goes_back(filled: Table) -> None:
    filled.apply(rows("a", 4, price=7))
    filled.apply(rows("f", 4, price=8))
    filled.restore(2)
    assert filled.schema.names == ["id", "at", "note"]
    assert filled.scan(version=5).schema.names == ["id", "at", "note", "price"]
    filled.apply(rows("g", 5), default={"note": "x"})
    assert filled.schema.names == ["id", "at", "note"]
    filled.apply(rows("h", 6, price=1.5), default={"price": "0.5"})  # another type, and another value in earlier rows
    assert {row["id"]: row["price"] for row in filled.scan().to_pylist()} == {**dict.fromkeys("abcdg", 0.5), "h": 1.5}
    assert filled.verify().problems == ()
    assert Table(filled.path).scan().to_arrow().equals(filled.scan().to_arrow())
    filled.restore(5)  # and forward again
    assert {row["id"]: row["price"] for row in filled.scan().to_pylist()}["a"] == 7
    assert len(filled.changes(0).to_pylist()) > 20


def replay(table: Table, first: int, last: int, net: bool) -> list[str]:
    """Return the rows of the first version after the changes up to the last one."""
    state = {row["id"]: row["note"] for row in table.scan(version=first).to_pylist()}
    for change in table.changes(first, last, net=net).to_pylist():
        if change["_change_type"] in ("delete", "update_preimage"):
            assert state.pop(change["id"]) == change["note"]
        else:
            assert change["id"] not in state
            state[change["id"]] = change["note"]
        assert first < change["_commit_version"] <= last
    return sorted(state.values())


def test_changes_over_restores(filled: Table) -> None:
    filled.restore(1)  # 4
    filled.apply(rows("ax", 4))
    filled.compact(everything=True)
    filled.restore(3)  # 7
    filled.apply(rows("bx", 5))
    filled.compact(everything=True)
    filled.restore(5)  # 10: undoes two compactions
    for last in range(filled.version + 1):
        for first in range(last % stride(5), last + 1, stride(5)):
            assert replay(filled, first, last, net=False) == notes(filled, last)
            assert replay(filled, first, last, net=True) == notes(filled, last)
    found = [
        (one["_change_type"], one["id"], one["_commit_version"]) for one in filled.changes(5, net=True).to_pylist()
    ]
    assert found == []
    found = [(one["_change_type"], one["note"], one["_commit_version"]) for one in filled.changes(9).to_pylist()]
    assert sorted(found) == [
        ("delete", "e3", 10),
        ("insert", "d1", 10),
        ("update_postimage", "a4", 10),
        ("update_postimage", "b1", 10),
        ("update_postimage", "c1", 10),
        ("update_postimage", "x4", 10),
        ("update_preimage", "a1", 10),
        ("update_preimage", "b5", 10),
        ("update_preimage", "c2", 10),
        ("update_preimage", "x5", 10),
    ]


def test_a_restore_to_version_0_deletes_each_record(filled: Table) -> None:
    filled.restore(0)
    assert sorted(one["note"] for one in filled.changes(3).to_pylist()) == NOTES[3]
    assert filled.schema.names == ["id", "at", "note"]
    filled.apply(rows("z", 1))
    assert notes(filled) == ["z1"]
    assert filled.verify().problems == ()


def test_history_shows_what_a_restore_changed(filled: Table) -> None:
    filled.restore(1)
    filled.compact(everything=True)

    def history(key: str) -> list[Any]:
        found = filled.history(key)
        return [(one.version, None if one.deleted else one.record.to_pylist()[0]["note"]) for one in found]

    assert history("a") == [(1, "a1")]
    assert history("b") == [(1, "b1"), (2, "b2"), (4, "b1")]
    assert history("d") == [(1, "d1"), (3, None), (4, "d1")]
    assert history("e") == [(3, "e3"), (4, None)]


def test_checkpoints_have_what_a_restore_brought_back(filled: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_EVERY", 2)
    filled.apply(rows("a", 4, price=7))
    filled.restore(2)
    filled.apply(rows("c", 5))
    filled.compact(everything=True)
    filled.restore(4)  # files that only packs and the log have
    assert notes(Table(filled.path)) == ["a4", "b2", "c2", "e3"]
    assert filled.verify().problems == ()
    for path in Path(filled.path, "_mutator/table/checkpoints").iterdir():
        path.unlink()
    Path(filled.path, "_mutator/table/hint.json").unlink()
    assert notes(Table(filled.path)) == ["a4", "b2", "c2", "e3"]
    assert Table(filled.path).schema.names == ["id", "at", "note", "price"]


def test_it_depends_on_no_earlier_entry(filled: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cleaning archives is not needed: the next checkpoint has all that a restore says."""
    filled.compact(everything=True)
    filled.restore(2)
    monkeypatch.setattr(opening, "_EVERY", 1)
    filled.apply(rows("a", 7))
    log = Path(filled.path, "_mutator/table/log")
    for number in range(1, 6):
        (log / f"{number:020d}.json").unlink()
    assert notes(Table(filled.path)) == ["a7", "b2", "c2", "d1"]


def test_partitions(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"partitioned_by": "shop", "key_scope": "table", "max_delete_fraction": 1}
    table = Table.create(tmp_path / "t", key="id", order_by="at", op="op", **settings)
    table.apply(pa.concat_tables([rows("ab", 1, shop=1), rows("cd", 1, shop=2)]))
    table.apply(rows("ac", 2, shop=3))  # they move
    table.compact(everything=True)
    table.restore(1)
    assert {row["id"]: row["shop"] for row in table.scan().to_pylist()} == {"a": 1, "b": 1, "c": 2, "d": 2}
    table.apply(rows("a", 3, shop=2))
    assert [row["shop"] for row in table.scan(where="id = 'a'").to_pylist()] == [2]
    assert table.verify().problems == ()
    assert [one["_commit_version"] for one in table.changes(1, net=True).to_pylist()] == [5, 5]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda table: table.restore(9), "version 9 does not exist; the earliest version is 0"),
        (lambda table: table.restore("x"), "has no tag x"),
        (lambda table: table.restore(None), "version is None, but should be the number"),
    ],
)
def test_errors(filled: Table, act: Callable[[Table], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        act(filled)
    assert filled.refresh().version == 3


def changed_entry(table: Table, change: Callable[[dict[str, Any]], None]) -> None:
    """Write the entry of version 4 again, with other members."""
    from mutator.dataset import checksummed_json

    path = Path(TableLog(table.path).entry_path(4))
    members = json.loads(path.read_text())
    form, version = members.pop("format"), members.pop("version")
    members.pop("checksum")
    change(members)
    path.write_bytes(checksummed_json.dump(form, version, members))


def without_masks(members: dict[str, Any]) -> None:
    members["restored"]["masks"] = None


def without_files(members: dict[str, Any]) -> None:
    members["removed"] = []


def other_version(members: dict[str, Any]) -> None:
    members["restored"]["version"] = 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_masks, "it does not have the rows of version 2"),
        (without_files, "it does not have the rows of version 2"),
        (other_version, "it does not have the rows of version 3"),
    ],
)
def test_verify_finds_a_wrong_restore(filled: Table, change: Callable[[dict[str, Any]], None], message: str) -> None:
    filled.restore(2)
    changed_entry(filled, change)
    assert message in str(Table(filled.path).verify())


def test_verify_finds_lost_masks(filled: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "INLINE", 0)
    filled.restore(2)
    (path,) = Path(filled.path).rglob("*.masks")
    path.write_bytes(path.read_bytes()[:-1])
    assert ".masks" in "".join(filled.verify().problems)
    with pytest.raises(MutatorError, match="is damaged"):
        Table(filled.path).scan().to_arrow()


def test_commands(filled: Table, capsys: pytest.CaptureFixture[str]) -> None:
    path = filled.path
    assert main(["table", "restore", path, "--to", "1", "--dry-run"]) == 0
    assert "a restore would bring back version 1" in capsys.readouterr().out
    assert main(["table", "tag", path, "first", "--version", "1"]) == 0
    assert main(["table", "restore", path, "--to", "first", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2])["restored"] == 1
    assert main(["table", "restore", path, "--to", "1"]) == 0
    assert capsys.readouterr().out == f"table {path} is still version 5: it has the rows of version 1\n"
    assert main(["table", "restore", path, "--to", "99"]) == 2
    assert main(["table", "restore", path]) == 2
    assert main(["table", "log", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["restored"] == 1
