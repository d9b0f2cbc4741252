"""Opening a table reads the hint, a checkpoint, and the entries after it; it lists no directory."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import replace

import pytest

from mutator.dataset.file_entry import Extent, FileEntry
from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import add_hint, open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.table.create import create_empty
from tests.support.model_storage import KINDS, ModelStorage, mounted


def file_of(number: int, extents: int = 1) -> FileEntry:
    def stored(path: str) -> FileEntry:
        return FileEntry(path=path, bytes=9, checksum=f"xxh3-128:{number:032x}")

    extent = Extent(partition=None, bucket=0, buckets=1, rows=1, high=None)
    more = {"rows": extents, "form": 1, "extents": (extent,) * extents, "index": stored(f"keys/{number}")}
    return replace(stored(f"v={number}/f"), **more)


def committed(path: str, versions: int, long: Collection[int] = ()) -> Snapshot:
    """Return the snapshot of a table with some versions, each with one file. long: those with many extents."""
    snapshot = create_empty(path, {})
    log = TableLog(path)
    for number in range(1, versions + 1):
        version = replace(
            snapshot.version,
            number=number,
            id=uuid.uuid4().hex,
            parent=snapshot.version.id,
            action="apply",
            settings={},
            spec={"format": "parquet"} if number == 1 else None,
            files=(file_of(number, 600 if number in long else 1),),
        )
        assert log.commit(version)
        snapshot = snapshot.after(version)
        add_hint(log, snapshot, log.hinted().checkpoint, version.listed)
    return snapshot


def opened(storage: ModelStorage, path: str) -> tuple[Snapshot, list[str]]:
    """Return the newest snapshot, and the storage calls that opening it needed."""
    storage.log.clear()
    found = open_snapshot(path)
    return found, [call.replace(f"{path}/_mutator/table/", "") for call in storage.log]


@pytest.mark.parametrize("storage_type", KINDS)
@pytest.mark.parametrize(("versions", "checkpoint"), [(0, 0), (7, 0), (31, 24), (96, 96)])
def test_opening_needs_few_requests_and_no_listing(storage_type, versions, checkpoint):
    storage = ModelStorage(storage_type)
    with mounted(storage) as base:
        path = f"{base}/table"
        made = committed(path, versions)

        found, calls = opened(storage, path)

    assert found.version.number == versions
    assert found.files.equals(made.files)
    assert len(found.files) == versions
    assert {call.partition(" ")[0] for call in calls} == {"open"}
    assert calls[0] == "open hint.json"
    assert calls[1].startswith(f"open checkpoints/{checkpoint:020d}-")
    following = versions - checkpoint
    assert following < 8
    assert len(calls) <= 2 + 2 + following + 1, "the checkpoint is verified; the last entry does not exist"


def test_checkpoints_of_many_files_are_rarer(monkeypatch):
    monkeypatch.setattr(opening, "_MANY", 20)
    storage = ModelStorage("s3")
    with mounted(storage) as base:
        committed(f"{base}/table", 70)
        numbers = sorted(number for number, _ in TableLog(f"{base}/table").checkpoints())

    assert numbers == [32, 64]  # else also 48 and 56


def test_the_entry_of_a_version_with_many_extents_is_not_read_to_open_the_table():
    storage = ModelStorage("s3")
    with mounted(storage) as base:
        path = f"{base}/table"
        made = committed(path, 5, long=[2])
        found, calls = opened(storage, path)

    assert found.files.equals(made.files)
    assert calls[1].startswith(f"open checkpoints/{2:020d}-")
    assert not [call for call in calls if f"log/{2:020d}" in call]


def test_removed_files_make_an_entry_long():
    with mounted(ModelStorage("s3")) as base:
        version = replace(committed(f"{base}/table", 0).version, files=(file_of(1, 3),), removed=("a", "b"))
    assert version.listed == 5


@pytest.mark.parametrize(("listed", "checkpoints"), [(511, [0]), (512, [1])])
def test_a_checkpoint_is_due_from_some_extents_on(listed, checkpoints):
    with mounted(ModelStorage("s3")) as base:
        snapshot = committed(f"{base}/table", 1)
        add_hint(TableLog(f"{base}/table"), snapshot, None, listed)
        assert sorted(number for number, _ in TableLog(f"{base}/table").checkpoints()) == checkpoints


def test_a_version_with_few_of_the_extents_of_a_table_writes_no_checkpoint():
    storage = ModelStorage("s3")
    with mounted(storage) as base:
        committed(f"{base}/table", 11, long=range(1, 12))
        numbers = sorted(number for number, _ in TableLog(f"{base}/table").checkpoints())

    assert numbers == [4, 6, 7, 8]  # 9 to 11 have less than an eighth each


def test_a_table_without_a_hint_is_listed_once():
    storage = ModelStorage("s3")
    with mounted(storage) as base:
        path = f"{base}/table"
        committed(path, 3)
        storage.remove(f"{path}/_mutator/table/hint.json")

        found, calls = opened(storage, path)

    assert found.version.number == 3
    assert [call for call in calls if call.startswith("entries")] == ["entries checkpoints", "entries log"]
