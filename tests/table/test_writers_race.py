"""Processes that apply feeds to one table as fast as they can, while others read it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from mutator.table import apply
from mutator.table.table import Table
from tests.support.cluster import ROOT

COMMON = 3  # IDs that all writers change


def feed_of(writer: int, step: int, writers: int) -> pa.Table:
    """Return rows of the writer alone, and one of a record that all of them change. Order values are unique."""
    at = step * writers + writer
    ids = [1000 * (writer + 1) + step, 1000 * (writer + 1) + step // 2, step % COMMON]
    return pa.table({"id": ids, "at": [at] * len(ids), "by": [writer] * len(ids)})


def write(path: str, writer: int, writers: int, steps: int) -> None:
    if writer % 2:
        apply._INLINE = apply._INLINE_FEED = 0  # files apart from the log
    for step in range(steps):
        Table(path).apply(feed_of(writer, step, writers))


def read(path: str, versions: int) -> None:
    """Scan until the last version is there: each key has one row, and versions never go back."""
    table, seen = Table(path), 0
    while seen < versions:
        assert table.refresh().version >= seen
        seen = table.version
        if seen:
            ids = table.scan(["id"]).to_arrow().column("id").to_pylist()
            assert len(ids) == len(set(ids)) == table.snapshot.version.records


def race(table: Table, writers: int, steps: int) -> None:
    acts = [("write", number, writers, steps) for number in range(writers)] + [("read", writers * steps)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [[sys.executable, __file__, act, table.path, *map(str, rest)] for act, *rest in acts]
    running = [subprocess.Popen(one, stderr=subprocess.PIPE, env=environment, text=True) for one in words]
    for process in running:
        _, message = process.communicate(timeout=600)
        assert process.returncode == 0, message
    assert table.refresh().version == writers * steps
    expected: dict[int, tuple[int, int]] = {}
    for writer in range(writers):
        for step in range(steps):
            for row in feed_of(writer, step, writers).to_pylist():
                expected[row["id"]] = max(expected.get(row["id"], (-1, -1)), (row["at"], row["by"]))
    assert {row["id"]: (row["at"], row["by"]) for row in table.scan().to_pylist()} == expected
    assert sum(entry.counts.get("feed rows", 0) for entry in table.log()) >= 2 * writers * steps
    assert table.verify().problems == ()


@pytest.mark.processes
def test_writers_and_a_reader(tmp_path: Path) -> None:
    race(Table.create(tmp_path / "t", key="id", order_by="at", buckets=2), writers=3, steps=6)


@pytest.mark.soak
def test_many_writers_and_a_reader(tmp_path: Path) -> None:
    race(Table.create(tmp_path / "t", key="id", order_by="at", buckets=2), writers=8, steps=50)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:]))
