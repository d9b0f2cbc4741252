"""Checkpoints name only packs that stay, whoever writes them and whatever a cleaning removes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from mutator.dataset.versions import packs
from mutator.dataset.versions.log import TableLog
from mutator.table.table import Table

CHECKPOINTS = "_mutator/table/checkpoints"


def act(table: Table, other: Table, steps: Sequence[str], start: int) -> None:
    """Apply small versions, and clean and restore."""
    for at, step in enumerate(steps, start):
        if step == "apply":
            table.apply(pa.table({"id": [at % 3], "at": [at]}))
        elif step == "restore":
            table.restore(table.refresh().version - 1)
        else:
            (other if "other" in step else table).clean(keep_versions=1, grace="1h" if "names" in step else "0s")


def lacking(path: Path) -> list[str]:
    """Return the packs that a table lacks, and checkpoints name."""
    packs._packs.clear()  # as in another process
    log = TableLog(str(path))
    contents = [log.contents_of(name) for _, name in log.checkpoints()]
    named = {name for one in contents if one is not None for name in packs.packs_of(one)}
    assert named
    return sorted(name for name in named if not (path / CHECKPOINTS / name).exists())


@pytest.mark.parametrize(
    "steps",
    [
        [*["apply"] * 3, "clean", "apply", "restore", "clean"],
        ["other cleans", *["apply"] * 6],
        ["other names", *["apply"] * 3, "other cleans", *["apply"] * 8],
    ],
    ids=["restore", "open table", "two cleanings"],
)
def test_checkpoints_name_packs_that_are_there(tmp_path: Path, steps: list[str]) -> None:
    table = Table.create(tmp_path / "t", key="id", order_by="at", max_delete_fraction=1)
    other = Table(tmp_path / "t")
    act(table, other, ["apply"] * 9, 0)
    act(table, other, steps, 9)
    assert lacking(tmp_path / "t") == []
    assert table.verify().differences == ()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_repair_writes_lost_packs_again(tmp_path: Path, is_damaged: bool) -> None:
    """Also where this process still has their contents in memory."""
    table = Table.create(tmp_path / "t", key="id", order_by="at", max_delete_fraction=1)
    act(table, table, ["apply"] * 10, 0)
    act(table, table, ["clean", *["apply"] * 6], 10)
    expected = table.scan().to_pylist()
    for pack in (tmp_path / "t" / CHECKPOINTS).glob("*.pack"):
        if is_damaged:
            pack.write_bytes(pack.read_bytes()[:-1])
        else:
            pack.unlink()
    assert table.verify().differences != ()
    assert table.verify(repair=True).differences == ()
    packs._packs.clear()
    assert Table(tmp_path / "t").verify().differences == ()
    assert Table(tmp_path / "t").scan().to_pylist() == expected
