"""A table with a file of every role, a twin with other rows in files of the same sizes, and damage to them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator.dataset.versions import opening
from mutator.engine.versions import delta_files
from mutator.table import apply
from mutator.table.table import Table
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

SETTINGS = {"key": "id", "order_by": "ts", "op": "op", "output.codec": "none", **NO_LIMITS}
BY_NAME = {"key": "id", "op": "op", "output.codec": "none", **NO_LIMITS}

Rows = list[tuple[int, int, str, str]]  # id, ts, op, name

VERSIONS: list[Rows] = [
    [(key, 1, "U", "one") for key in range(40)],
    [(key, 2, "U", "two") for key in range(10)] + [(key, 2, "D", "") for key in range(10, 16)],
    [(key, 3, "U", "six") for key in range(5, 20)] + [(key, 3, "D", "") for key in range(20, 26)],
]
# no-ops, late rows, updates, deletes, inserts; an insert over a tombstone, one that is late, deletes of unknown records
FEED: Rows = [
    *((key, 3, "U", "six") for key in range(5, 8)),
    *((key, 1, "U", "old") for key in range(8, 12)),
    *((key, 9, "U", "new") for key in range(12, 16)),
    *((key, 9, "D", "") for key in (0, 16, 17)),
    *((key, 9, "U", "new") for key in (20, 50, 51)),
    *((key, 1, "U", "old") for key in (21, 22)),
    (60, 9, "D", ""),
    (23, 9, "D", ""),
]
ROLES = {
    "data": "_mutator/table/rows/version_id=*/*.rows",
    "version index": "_mutator/table/hidden/*.hidden",
    "key index": "_mutator/table/keys/rows/version_id=*/*.keys",
    "tombstones": "_mutator/table/tombstones/*.tombstones",
    "key index of tombstones": "_mutator/table/keys/_mutator/table/tombstones/*.keys",
    "log": "_mutator/table/log/*.json",
    "checkpoint": "_mutator/table/checkpoints/*.files",
    "masks": "_mutator/table/checkpoints/*.masks",
    "hint": "_mutator/table/hint.json",
}


@contextmanager
def small_files() -> Iterator[None]:
    """Let an apply write files of its own, however few rows it has, and a checkpoint every second version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_INLINE_FEED", 0)
        patch.setattr(apply, "INLINE", 0)
        patch.setattr(delta_files, "_OWN", 1)
        patch.setattr(opening, "_EVERY", 2)
        yield


def new_table(work: Path, name: str, settings: dict[str, str], values: dict[str, str] | None = None) -> Path:
    """Create a table of three versions. values: other names of records."""
    (work / name).mkdir()
    table = Table.create(str(work / name / "table"), settings, buckets=1)
    for number, rows in enumerate(VERSIONS, 1):
        table.apply(put(work / name / f"feed_{number}.parquet", rows, values), open_runner=open_runner)
    put(work / name / "next_9.parquet", FEED, values)
    return work / name / "table"


def put(path: Path, rows: Rows, values: dict[str, str] | None = None) -> str:
    columns = [list(column) for column in zip(*rows, strict=True)]
    columns[3] = [(values or {}).get(name, name) for name in columns[3]]
    pq.write_table(pa.table(dict(zip(("id", "ts", "op", "name"), columns, strict=True))), path)
    return str(path)


def files_of(table: Path, role: str) -> list[Path]:
    """Return the files of a role, oldest first."""
    return sorted(table.glob(ROLES[role]), key=lambda path: path.stat().st_mtime_ns)


@dataclass(frozen=True)
class Spot:
    """A file to damage, with the file of another version and that of another table that could be in its place."""

    path: Path
    other: Path | None
    twin: Path | None
    rng: random.Random


def flip(spot: Spot) -> None:
    content = bytearray(spot.path.read_bytes())
    content[spot.rng.randrange(len(content))] ^= 1 << spot.rng.randrange(8)
    spot.path.write_bytes(content)


def cut(spot: Spot) -> None:
    content = spot.path.read_bytes()
    spot.path.write_bytes(content[: spot.rng.randrange(len(content))])


def lose(spot: Spot) -> None:
    spot.path.unlink()


def empty(spot: Spot) -> None:
    spot.path.write_bytes(b"")


def swap(spot: Spot) -> None:
    if spot.other is not None:
        shutil.copyfile(spot.other, spot.path)


def foreign(spot: Spot) -> None:
    if spot.twin is not None:
        shutil.copyfile(spot.twin, spot.path)


DAMAGES: dict[str, Callable[[Spot], None]] = {one.__name__: one for one in (flip, cut, lose, empty, swap, foreign)}


# --- commands, each with a result that can be compared


def scan(table: str, feed: str) -> Any:
    return ordered(Table(table).scan())


def scan_older(table: str, feed: str) -> Any:
    return [ordered(Table(table).scan(version=version)) for version in (1, 2)]


def get(table: str, feed: str) -> Any:
    opened = Table(table)
    return [opened.get(key) for key in range(61)]


def history(table: str, feed: str) -> Any:
    opened = Table(table)
    found = [opened.history(key) for key in range(0, 30, 3)]
    return [[(one.version, one.deleted, one.record and one.record.to_pylist()) for one in each] for each in found]


def changes(table: str, feed: str) -> Any:
    return sorted(without_times(Table(table).changes(0)), key=repr)


def changes_net(table: str, feed: str) -> Any:
    return sorted(without_times(Table(table).changes(1, net=True)), key=repr)


def export(table: str, feed: str) -> Any:
    output = table + "-out"
    shutil.rmtree(output, ignore_errors=True)
    Table(table).export(output, open_runner=open_runner)
    return sorted(pq.read_table(output).to_pylist(), key=repr)


def apply_feed(table: str, feed: str) -> Any:
    opened = Table(table)
    counts = opened.apply(feed, open_runner=open_runner).counts
    return sorted(counts.items()), opened.version


def apply_full(table: str, feed: str) -> Any:
    """Apply a full snapshot: every live record is met."""
    opened = Table(table)
    counts = opened.apply(feed, open_runner=open_runner, sync_mode="full", op="").counts
    return sorted(counts.items()), opened.version


def log(table: str, feed: str) -> Any:
    return [(one.version, one.records) for one in Table(table).log()]


def describe(table: str, feed: str) -> Any:
    return Table(table).describe().records


COMMANDS: dict[str, Callable[[str, str], Any]] = {
    one.__name__: one
    for one in (scan, scan_older, get, history, changes, changes_net, export, apply_feed, log, describe)
}


def ordered(batches: Any) -> Any:
    return sorted((row for batch in batches for row in batch.to_pylist()), key=repr)


def without_times(batches: Any) -> Iterator[Any]:
    for batch in batches:
        for row in batch.to_pylist():
            yield {name: value for name, value in row.items() if name != "_commit_timestamp"}
