"""Tables of thousands of columns: the time of an apply grows as their number does."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa

from mutator.table.table import Table


def feed(columns: int) -> pa.Table:
    return pa.table({f"c{number}": [number] for number in range(columns)})


def seconds_of_planning(path: Path, columns: int) -> float:
    table = Table.create(path, key="c0", order_by="c1", max_delete_fraction=1)
    table.apply(feed(columns))
    found = []
    for _ in range(2):
        started = time.process_time()
        table.apply(feed(columns), dry_run=True)
        found.append(time.process_time() - started)
    return min(found)


def test_planning_an_apply_takes_time_as_the_number_of_columns(tmp_path: Path) -> None:
    few, many = (seconds_of_planning(tmp_path / str(columns), columns) for columns in (500, 3000))
    assert many < 2.5 * 6 * few  # it was more than 20 times as long
