"""An apply may end early in any way: the table has the old version or the new one, and the next apply works."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pyarrow as pa
import pytest

from mutator import config
from mutator.dataset.versions import opening
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError, suppressed
from mutator.table import apply, restore
from mutator.table.apply import apply_feed
from mutator.table.compact import compact_table
from mutator.table.compact_choice import Need
from mutator.table.create import create_empty
from mutator.table.export import export
from mutator.table.restore import restore_table
from mutator.table.scan import scan_batches, schema_of
from mutator.table.table import Table
from mutator.table.take_over import create_of
from tests.support.model_storage import KINDS, Killed, ModelStorage, mounted
from tests.support.no_limits import NO_LIMITS
from tests.support.process_deaths import copy_of
from tests.support.versioned import open_runner

TABLE, FEED = "model://base/table", "model://base/feed"
SETTINGS = {"key": "id", "order_by": "at", "op": "op", "feed.format": "csv", **NO_LIMITS}
FIRST = "id,at,op,name\n1,1,U,a\n2,1,U,b\n3,1,U,c\n"
SECOND = "id,at,op,name\n1,2,U,aa\n2,2,D,\n4,2,U,d\n9,2,D,\n"
OLD = [("1", "a"), ("2", "b"), ("3", "c")]
NEW = [("1", "aa"), ("3", "c"), ("4", "d")]
FAULTS = ["kill", "lost", "no space left", "lost, and the next call fails"]


def apply_to(path: str, feed: str) -> int:
    return apply_feed(open_snapshot(path), config.parse(SETTINGS), [feed], open_runner).snapshot.version.number


def rows_of(path: str) -> list[Any]:
    snapshot = open_snapshot(path)
    table = pa.Table.from_batches(scan_batches(snapshot), schema_of(snapshot))
    return sorted(zip(table.column("id").to_pylist(), table.column("name").to_pylist(), strict=True))


def put(storage: ModelStorage, path: str, content: str) -> None:
    storage.make_directory(path.rpartition("/")[0])
    with storage.create_new(path) as stream:
        stream.write(content.encode())


def new_table(kind: str) -> ModelStorage:
    storage = ModelStorage(kind)
    with mounted(storage):
        put(storage, f"{FEED}/first.csv", FIRST)
        put(storage, f"{FEED}/second.csv", SECOND)
        create_empty(TABLE, {}, buckets=2)
        apply_to(TABLE, f"{FEED}/first.csv")
        assert rows_of(TABLE) == OLD
    return storage


def after_fault(begun: ModelStorage, number: int, what: str, act: Callable[[], Any]) -> ModelStorage | None:
    """Act on a copy, with a fault at a call; return the storage, None if there is no such call."""
    storage = copy_of(begun)
    first = storage.calls
    kinds = {number: "lost", number + 1: "EIO"} if what == "lost, and the next call fails" else {number: what}
    storage.fault = lambda call, name: kinds.get(call - first)
    with mounted(storage), suppress(Killed, MutatorError):
        act()
    reached = storage.calls > first + number
    storage.fault, storage.dead = lambda call, name: None, False
    return storage if reached else None


@pytest.mark.thorough(keep=1, rest=5)
@pytest.mark.parametrize("inline", ["feed and entry", "feed", "nothing"])
@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_call(kind: str, what: str, inline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_EVERY", 2)  # the apply writes a checkpoint, and removes that of version 0
    monkeypatch.setattr(apply, "_INLINE_FEED", 1 << 30 if "feed" in inline else 0)
    monkeypatch.setattr(apply, "INLINE", 1 << 30 if "entry" in inline else 0)
    begun = new_table(kind)
    number, versions = 0, []
    while (storage := after_fault(begun, number, what, lambda: apply_to(TABLE, f"{FEED}/second.csv"))) is not None:
        with mounted(storage):
            rows = rows_of(TABLE)
            assert rows in (OLD, NEW), number
            versions.append(open_snapshot(TABLE).version.number)
            assert (rows == NEW) == (versions[-1] == 2), number
            assert apply_to(TABLE, f"{FEED}/second.csv") == 2, number  # again, or nothing is left to merge
            assert rows_of(TABLE) == NEW, number
        number += 1
    assert {1, 2} == set(versions)
    if what == "kill":
        assert versions == sorted(versions)


MADE = "model://base/made"


def version_of(path: str) -> int | None:
    with suppressed("table.missing"):
        return open_snapshot(path).version.number
    return None


def create_empty_one() -> None:
    create_empty(MADE, {}, buckets=2)


def create_from_dataset() -> None:
    create_of(MADE, config.parse(SETTINGS), {}, "model://base/dataset", None, open_runner)


@pytest.mark.thorough(keep=1, rest=7)
@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("create", [create_empty_one, create_from_dataset])
def test_a_fault_at_any_call_of_create(create: Callable[[], None], what: str, kind: str) -> None:
    begun = new_table(kind)
    whole = 0 if create is create_empty_one else 1
    with mounted(begun):
        export(open_snapshot(TABLE), config.parse(SETTINGS), "model://base/dataset", open_runner)
    number, versions = 0, []
    while (storage := after_fault(begun, number, what, create)) is not None:
        with mounted(storage):
            versions.append(version_of(MADE))
            assert versions[-1] != 1 or rows_of(MADE) == OLD, number
            with suppressed("table.exists") if versions[-1] == whole else nullcontext():
                create()  # again
            assert version_of(MADE) == whole, number
            assert not whole or rows_of(MADE) == OLD, number
            assert not [path for path in storage.tree if "/work" in path], number
        number += 1
    assert {None, whole} <= set(versions)


def compact() -> int:
    snapshot = open_snapshot(TABLE)
    return compact_table(snapshot, config.parse(SETTINGS), Need(everything=True), open_runner).snapshot.version.number


@pytest.mark.thorough(keep=1, rest=4)
@pytest.mark.parametrize("inline", ["feed and entry", "nothing"])
@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_call_of_a_compaction(
    kind: str, what: str, inline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_EVERY", 3)  # the compaction writes a checkpoint
    monkeypatch.setattr(apply, "_INLINE_FEED", 1 << 30 if "feed" in inline else 0)
    monkeypatch.setattr(apply, "INLINE", 1 << 30 if "entry" in inline else 0)
    begun = new_table(kind)
    with mounted(begun):
        apply_to(TABLE, f"{FEED}/second.csv")
    number, versions = 0, []
    while (storage := after_fault(begun, number, what, compact)) is not None:
        with mounted(storage):
            versions.append(open_snapshot(TABLE).version.number)
            assert rows_of(TABLE) == NEW, number
            assert compact() == 3, number  # again, or nothing is left to compact
            assert rows_of(TABLE) == NEW, number
            assert Table(TABLE).verify(open_runner=open_runner).problems == (), number
            assert list(Table(TABLE).changes(2).to_arrow().to_pylist()) == []
        number += 1
    assert {2, 3} == set(versions)
    if what == "kill":
        assert versions == sorted(versions)


def restore_first() -> int:
    return restore_table(open_snapshot(TABLE), 1).snapshot.version.number


@pytest.mark.thorough(keep=1, rest=4)
@pytest.mark.parametrize("most", [0, 1 << 16])  # bytes of masks in the log entry
@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_call_of_a_restore(kind: str, what: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_EVERY", 4)  # the restore writes a checkpoint
    monkeypatch.setattr(restore, "INLINE", most)
    begun = new_table(kind)
    with mounted(begun):
        apply_to(TABLE, f"{FEED}/second.csv")
        assert compact() == 3
    number, versions = 0, []
    while (storage := after_fault(begun, number, what, restore_first)) is not None:
        with mounted(storage):
            versions.append(open_snapshot(TABLE).version.number)
            assert rows_of(TABLE) == (OLD if versions[-1] == 4 else NEW), number
            assert restore_first() == 4, number  # again, or it is there already
            assert rows_of(TABLE) == OLD, number
            assert Table(TABLE).verify(open_runner=open_runner).problems == (), number
        number += 1
    assert {3, 4} == set(versions)
    if what == "kill":
        assert versions == sorted(versions)
