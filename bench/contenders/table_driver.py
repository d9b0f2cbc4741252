"""``python -m bench.contenders.table_driver TABLE FEED``: seconds and memory of what a driver does with a large table.

Prints a JSON object: a step's seconds, and the peak of the resident memory of this process during it, in bytes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mutator.table.apply as applying
from mutator.dataset.file_entry import DATA
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.table.recorded import config_of_snapshot

__all__ = ["main"]

SELF = Path("/proc/self")


def main(table: str, feed: str) -> None:
    """Open a table, open it again, plan a scan, and prepare an apply."""
    found: dict[str, tuple[float, int]] = {}
    snapshot = _measured("open for the first time", lambda: open_snapshot(table), found)
    del snapshot
    snapshot = _measured("open", lambda: open_snapshot(table), found)
    _measured("plan a scan", lambda: sum(1 for _ in snapshot.of_role(DATA)), found)
    _measured("prepare an apply", lambda: _prepare(snapshot, feed), found)
    print(json.dumps(found))


def _prepare(snapshot: Snapshot, feed: str) -> int:
    """Survey the feed, plan its merge, and find the files of one bucket; return how many."""
    applying.prepare(snapshot, config_of_snapshot(snapshot), [feed])
    return sum(1 for _ in snapshot.extents(DATA, buckets=lambda count: [0]))


def _measured(name: str, step: Callable[[], Any], found: dict[str, tuple[float, int]]) -> Any:
    (SELF / "clear_refs").write_text("5", encoding="ascii")  # the peak is that since now
    started = time.monotonic()
    result = step()
    found[name] = time.monotonic() - started, _peak()
    return result


def _peak() -> int:
    lines = (SELF / "status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main(*sys.argv[1:])
