"""Processes that apply, compact, clean and read one table as fast as they can: nothing is lost that anybody needs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from mutator.errors import MutatorError
from mutator.table import apply
from mutator.table.table import Table
from tests.support.cluster import ROOT
from tests.support.patience import PATIENCE

WRITERS, GRACE = 2, 20  # seconds that a scan may take


def feed_of(writer: int, step: int) -> pa.Table:
    """Return a row that stays, and one that each step of the writer updates."""
    return pa.table({"id": [1_000_000 * (writer + 1) + step, writer], "at": [step, step]})


def write(path: str, end: float, writer: int) -> None:
    """Apply feeds; print how many."""
    if writer % 2:
        apply.INLINE = apply._INLINE_FEED = 0  # files apart from the log
    step, table = 0, Table(path)
    while time.time() < end:
        try:
            table.apply(feed_of(writer, step))
        except MutatorError as fault:  # it took so long that its run counted as dead: it has changed nothing
            if fault.kind != "table.cleaned":
                raise
            continue
        step += 1
    sys.stdout.write(str(step))


def compact(path: str, end: float, _: int) -> None:
    while time.time() < end:
        try:
            Table(path).compact(everything=True)
        except MutatorError as fault:
            if fault.kind not in ("table.cleaned", "table.outrun.compact"):
                raise
        time.sleep(0.5)


def clean(path: str, end: float, keep: int) -> None:
    """Clean again and again; print how many files were removed."""
    removed = 0
    while time.time() < end:
        removed += Table(path).clean(keep_versions=keep, grace=f"{GRACE}s", dead_after="60s").removed_files
        time.sleep(0.5)
    sys.stdout.write(str(removed))


def read(path: str, end: float, reader: int) -> None:
    """Read versions with a bookmark and without one, some of them long after they were superseded."""
    table, last, is_protected = Table(path), time.time(), False
    while time.time() < end:
        version = table.refresh().version
        if not table.snapshot.state.spec:
            continue  # there are no rows yet
        rows = len(table.scan(["id"]).to_arrow())
        assert rows == table.snapshot.version.records
        if reader % 2:
            try:
                table.bookmark(f"reader{reader}", version)
            except MutatorError as fault:
                if fault.kind != "table.version.gone" or is_protected:
                    raise
                continue
            is_protected = True  # this version and those after it, until the bookmark moves
            time.sleep(min(2 * GRACE, max(end - time.time(), 0)) if time.time() - last > 5 else 1)
            last = time.time()
            assert len(table.scan(["id"], version=version).to_arrow()) == rows
            inserted = sum(one == "insert" for one in table.changes(version).to_arrow()["_change_type"].to_pylist())
            assert rows + inserted == table.snapshot.version.records
    if reader % 2:
        table.remove_bookmark(f"reader{reader}")


ROLES = {"write": write, "compact": compact, "clean": clean, "read": read}


def race(path: str, seconds: float) -> int:
    """Let processes race; return the number of files that were removed."""
    table = Table.create(path, key="id", order_by="at", buckets=2)
    parts = [("write", 0), ("write", 1), ("compact", 0), ("clean", 1), ("clean", 3), ("read", 0), ("read", 1)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, role, path, str(seconds), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for role, number in parts
    ]
    found = []
    try:
        for process in running:
            out, message = process.communicate(timeout=seconds + 6 * PATIENCE)
            assert process.returncode == 0, message
            found.append(int(out or 0))
    finally:
        for process in running:
            process.kill()
    steps = found[:WRITERS]
    expected = {
        row["id"]: row["at"] for w in range(WRITERS) for s in range(steps[w]) for row in feed_of(w, s).to_pylist()
    }
    assert {row["id"]: row["at"] for row in table.refresh().scan().to_pylist()} == expected
    assert table.verify().problems == ()
    table.clean(keep_versions=1, grace="0s", dead_after="0s")
    assert table.verify().problems == ()
    assert {row["id"]: row["at"] for row in table.scan().to_pylist()} == expected
    assert sum(steps)
    return found[3] + found[4]


@pytest.mark.soak
def test_a_race_of_minutes(tmp_path: Path) -> None:
    assert race(str(tmp_path / "t"), 300)


if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2], time.time() + float(sys.argv[3]), int(sys.argv[4]))
