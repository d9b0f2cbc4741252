"""An order field that becomes wider: rows that were written with integers compare with later decimals."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.table import apply
from mutator.table.table import Table


@pytest.fixture(params=["in the log", "in files"])
def table(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Table:
    if request.param == "in files":
        monkeypatch.setattr(apply, "_INLINE_FEED", 0)
        monkeypatch.setattr(apply, "INLINE", 0)
    found = Table.create(str(tmp_path / "t"), key="id", order_by="at", max_delete_fraction=1)
    found.apply(rows([1, 2, 3, 4], pa.array([5, 5, 5, 50]), "IIII"), op="op")
    found.apply(rows([4], pa.array([50]), "D"), op="op")
    found.apply(rows([9], pa.array([Decimal("7.50")]), "I"), op="op")
    return found


def rows(ids: list[int], orders: Any, ops: str) -> Any:
    return pa.table({"id": ids, "at": orders, "op": list(ops), "note": [f"at {order}" for order in orders.to_pylist()]})


def test_rows_with_integers_are_verified(table: Table) -> None:
    assert table.verify().problems == ()


def test_a_damaged_key_index_of_integers_is_made_again(table: Table) -> None:
    for path in Path(table.path, "_mutator/table/keys").rglob("*.keys"):
        content = path.read_bytes()
        path.write_bytes(bytes(len(content)))
        assert table.verify(repair=True).repaired
        assert path.read_bytes() == content
    assert table.verify().problems == ()


def test_decimals_compare_with_integers(table: Table) -> None:
    late, same, newer = Decimal("4.99"), Decimal("5.00"), Decimal("5.01")
    report = table.apply(rows([1, 2, 3, 4], pa.array([late, same, newer, late]), "UUUI"), op="op")
    assert [report.counts[f"feed {name}"] for name in ("late", "updated", "inserted")] == [2, 2, 0]
    assert [row["note"] for row in (table.get(1), table.get(2), table.get(3))] == ["at 5", "at 5.00", "at 5.01"]
    assert table.verify().problems == ()


def test_records_with_integers_that_a_snapshot_lacks(table: Table) -> None:
    whole = rows([1, 9], pa.array([Decimal("6.00"), Decimal("7.50")]), "II").drop(["op"])
    assert table.apply(whole, sync_mode="full").counts["master deleted by absence"] == 2
    assert table.apply(rows([2], pa.array([Decimal("4.99")]), "U"), op="op").counts["feed late"] == 1
    assert table.verify().problems == ()
