"""A table of some versions with much to clean, and what is asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.dataset.versions import opening
from mutator.errors import error
from mutator.table import apply, commit
from mutator.table.table import Table
from tests.support.made_once import copy_of_made

AGAIN: dict[str, Any] = {"keep_versions": 1, "grace": "0s"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let versions have files apart from the log, checkpoints often, and other writers act in the turn of one."""
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "INLINE", 0)
    monkeypatch.setattr(opening, "_EVERY", 4)
    monkeypatch.setattr(commit, "_PATIENCE", 0)


def rows(ids: str, at: int, op: str = "U") -> pa.Table:
    return pa.table({"id": list(ids), "at": [at] * len(ids), "op": [op] * len(ids)})


@pytest.fixture(name="table")
def table_of_some_versions(tmp_path: Path) -> Table:
    return of_some_versions(tmp_path / "t")


def of_some_versions(path: Path) -> Table:
    """Return a new table of 7 versions."""
    return Table(copy_of_made(path, _fill, apply.INLINE, apply._INLINE_FEED))


def _fill(path: Path) -> None:
    table = Table.create(path, key="id", order_by="at", op="op", max_delete_fraction=1, buckets=2)
    table.apply(rows("abcdef", 1))
    for at in range(2, 6):
        table.apply(rows("ab", at))
    table.apply(rows("c", 6, "D"))
    table.compact(everything=True)


def rows_of(table: Table, version: int | None = None) -> list[Any]:
    """Return the rows of a version, in any fixed order."""
    return sorted(table.scan(version=version).to_pylist(), key=repr)


def paths(table: Table) -> set[str]:
    """Return the paths of the files of a table, but for those of its log."""
    root = Path(table.path)
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith(("_mutator/table/log", "_mutator/table/checkpoints"))}


def data(table: Table) -> set[str]:
    """Return the paths of the data files of a table."""
    return {path for path in paths(table) if path.endswith(".rows")}


def stop(table: str, *_: Any) -> None:
    """Stand in for a function of a cleaning, and fail."""
    raise error("storage", path=table, why="stopped")
