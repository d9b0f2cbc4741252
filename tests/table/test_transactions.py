"""An apply with the transaction of an application happens once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mutator
from mutator.dataset.versions import opening
from mutator.dataset.versions.opening import open_snapshot
from tests.table.test_several_writers import at_phase


@pytest.fixture
def table(tmp_path: Path) -> mutator.Table:
    found = mutator.Table.create(tmp_path / "t", key="id", order_by="at")
    found.apply(rows(1, 2), txn=("orders", 1))
    return found


def rows(*ids: int, at: int = 1) -> Any:
    return pa.table({"id": list(ids), "at": [at] * len(ids)})


def test_a_transaction_is_applied_once(table: mutator.Table) -> None:
    for number in (0, 1):
        report = table.apply(rows(3, 4), txn=("orders", number))
        assert (report.version, report.is_new, report.counts["feed rows"]) == (1, False, 0)
        assert f"transaction {number} of orders, or a later one, was applied before" in report.notes
    assert table.apply(rows(3), txn=("orders", 2)).version == 2
    assert table.apply(rows(4), txn=("returns", 0)).version == 3
    assert table.apply(rows(5)).version == 4
    assert table.apply(rows(5, at=2), txn=("orders", 2)).version == 4


OPERATIONS = {
    "snapshot": ("apply", {"sync_mode": "full"}),
    "overwrite": ("insert_overwrite", {}),
    "overwrite of everything": ("insert_overwrite_table", {}),
    "overwrite of everything, even by nothing": ("insert_overwrite_table", {"allow_empty_feed": True}),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("number", [1, 2])
def test_a_repeated_transaction_replaces_nothing(table: mutator.Table, name: str, number: int) -> None:
    method, settings = OPERATIONS[name]
    if number == 2:
        assert getattr(table, method)(rows(1, 3, at=2), txn=("orders", 2), max_delete_fraction=1, **settings).is_new
    before = table.version, table.scan().to_arrow()
    report = getattr(table, method)(rows(1, 3, at=2), txn=("orders", number), **settings)
    assert (report.is_new, report.counts["feed rows"]) == (False, 0)
    assert (table.version, table.scan().to_arrow()) == before


def test_checkpoints_know_transactions(table: mutator.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_EVERY", 1)
    table.apply(rows(3), txn=("returns", 5))
    assert open_snapshot(table.path).state.transactions == {"orders": 1, "returns": 5}
    assert mutator.Table(table.path).apply(rows(9), txn=("returns", 5)).version == 2
    assert table.verify().problems == ()


@pytest.mark.parametrize("phase", ["planned", "merged", "commit"])
def test_two_writers_with_one_transaction(table: mutator.Table, phase: str) -> None:
    with at_phase(phase, lambda: mutator.Table(table.path).apply(rows(7), txn=("orders", 2)) and None):
        report = table.apply(rows(7, 8), txn=("orders", 2))
    assert (report.version, report.is_new) == (2, False)
    assert [record["id"] for record in table.scan().to_pylist()] == [1, 2, 7]


@pytest.mark.parametrize(
    "txn", ["orders", ("orders",), (1, "orders"), ("orders", -1), ("orders", True), ("orders", 1.5), ("", 1)]
)
def test_a_wrong_transaction_is_named(table: mutator.Table, txn: Any) -> None:
    with pytest.raises(mutator.ConfigError, match=r"mutator.Table.apply\(\): txn is .*, but should be the name of an"):
        table.apply(rows(9), txn=txn)


@pytest.mark.parametrize("phase", ["planned", "merged", "commit"])
def test_another_writer_commits_a_later_transaction(table: mutator.Table, phase: str) -> None:
    with at_phase(phase, lambda: mutator.Table(table.path).apply(rows(7), txn=("orders", 3)) and None):
        report = table.apply(rows(8), txn=("orders", 2))
    assert (report.version, report.is_new) == (2, False)
    assert [record["id"] for record in table.scan().to_pylist()] == [1, 2, 7]
