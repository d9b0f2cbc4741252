"""Commands whose work can wait give way to other programs."""

import os
from pathlib import Path

import pytest

import mutator
from mutator.cli import main

ID, AT = "id", "at"


@pytest.fixture
def priorities(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the priorities that are set; none is, because only root could undo it."""
    found: list[int] = []
    monkeypatch.setattr(os, "setpriority", lambda kind, number, priority: found.append(priority))
    return found


def test_a_compaction_has_a_low_priority(tmp_path: Path, priorities: list[int]) -> None:
    path = str(tmp_path / "table")
    mutator.Table.create(path, key=ID, order_by=AT)
    assert main(["table", "log", path]) == 0
    assert priorities == []
    assert main(["table", "compact", path]) == 0
    assert priorities == [max(os.getpriority(os.PRIO_PROCESS, 0), 5)]


def test_a_compaction_runs_without_a_right_to_change_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", forbidden)
    path = str(tmp_path / "table")
    mutator.Table.create(path, key=ID, order_by=AT)
    assert main(["table", "compact", path]) == 0
