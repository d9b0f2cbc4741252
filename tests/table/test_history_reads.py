"""What the history of a record reads of a table with many compactions: each entry and each snapshot once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from mutator.dataset.versions import opening
from mutator.table import earlier_files, find
from mutator.table.table import Table
from tests.support.model_storage import ModelStorage, mounted
from tests.table.test_table_faults import open_runner

COMPACTIONS = 40


def put(table: Table, number: int, name: int) -> None:
    """Apply a row of a record, and rows of others, so that there is always something to compact."""
    ids = [name, *range(100, 108)]
    table.apply(pa.table({"id": ids, "at": [number] * len(ids), "op": ["U"] * len(ids)}), open_runner=open_runner)


@pytest.fixture(name="opened")
def count_snapshots(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of each snapshot that is opened."""
    found = list[int]()

    def counted(path: str, number: int) -> Any:
        found.append(number)
        return opening.open_snapshot(path, number)

    monkeypatch.setattr(earlier_files, "open_snapshot", counted)
    monkeypatch.setattr(find, "open_snapshot", counted)
    return found


def test_one_snapshot_serves_many_compactions(opened: list[int]) -> None:
    storage = ModelStorage("s3")
    with mounted(storage) as base:
        table = Table.create(f"{base}/t", key="id", order_by="at", op="op", buckets=2)
        put(table, 0, 0)
        for number in range(1, COMPACTIONS + 1):
            put(table, number, 1 if number in (1, 20, 40) else 1 + number)
            assert table.compact(everything=True, open_runner=open_runner).is_new
        storage.log.clear()
        found = [(one.version, one.record["at"][0].as_py()) for one in table.history(1)]
        reads = Counter(call.rpartition("/_mutator/")[2] for call in storage.log if call.startswith("open "))

    assert found == [(2 * number, number) for number in (1, 20, 40)]
    assert opened == [2], "the version before the first compaction"
    log = [number for path, number in reads.items() if path.startswith("table/log/")]
    assert len(log) <= 2 * COMPACTIONS + 2
    assert [number for number in log if number > 1] == [2], "the entry after the checkpoint that was opened"
    assert sum(path.startswith("table/keys/") for path in reads) == 0


def test_a_snapshot_serves_many_versions_without_compactions(
    opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier_files, "_NEAR", 3)
    storage = ModelStorage("s3")
    with mounted(storage) as base:
        table = Table.create(f"{base}/t", key="id", order_by="at", op="op", buckets=2)
        for number in range(1, 9):
            put(table, number, 1)
            if number in (2, 3, 8):
                table.compact(everything=True, open_runner=open_runner)
        put(table, 9, 1)
        found = [(one.version, one.record["at"][0].as_py()) for one in table.history(1)]

    assert found == [(1, 1), (2, 2), (4, 3), (6, 4), (7, 5), (8, 6), (9, 7), (10, 8), (12, 9)]
    assert opened == [2, 10]
