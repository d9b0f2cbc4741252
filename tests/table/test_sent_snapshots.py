"""A snapshot is sent to the tasks of an apply."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from mutator.dataset.versions import opening
from mutator.dataset.versions.opening import open_snapshot
from mutator.table.table import Table


def test_a_snapshot_of_a_checkpoint_with_masks_can_be_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_EVERY", 1)
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", "header": "true"}, buckets=2)
    for number in (1, 2):
        (tmp_path / f"rows{number}.csv").write_text(f"id,at\na,{number}\n")
        table.apply(str(tmp_path / f"rows{number}.csv"))
    opened = open_snapshot(table.path)
    sent = pickle.loads(pickle.dumps(opened))
    (path,) = opened.masks.files()
    assert sent.masks.hidden(path).tolist() == opened.masks.hidden(path).tolist() == [0]
