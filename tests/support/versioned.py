"""Versioned tables in tests: applies in this process, and the rows and tombstones that they leave."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mutator import config
from mutator.config import Config
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_entry import TOMBSTONES
from mutator.dataset.side_columns import read_tombstones
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions.stored_rows import taken_tombstones
from mutator.frames.dataset import Dataset
from mutator.rules.typed_values import comparable
from mutator.storage import storage_for
from mutator.table.apply import Applied, apply_feed
from mutator.table.create import create_empty
from mutator.table.scan import scan_batches, schema_of
from tests.support import local_engine
from tests.support.typed_worlds import World, put
from tests.support.typed_worlds import schema_of as world_schema

SCOPES: list[dict[str, str]] = [
    {},
    {"partitioned.by": "shop", "key.scope": "table"},
    {"partitioned.by": "shop", "key.scope": "partition"},
]


@dataclass(frozen=True)
class Left:
    """What a merge leaves."""

    rows: list[Any]
    tombstones: list[Any]
    counts: dict[str, int]


@contextmanager
def open_runner(_: int, seed: int = 0) -> Iterator[Any]:
    with local_engine.runner(seed) as runner:
        yield runner, None


def apply_here(table: Path, settings: Config, feed: Path, seed: int) -> Applied:
    snapshot = pickle.loads(pickle.dumps(open_snapshot(str(table))))
    return apply_feed(snapshot, settings, [str(feed)], lambda size: open_runner(size, seed))


def left_of(snapshot: Snapshot, counts: Mapping[str, int], width: int = 2) -> Left:
    """Return what an apply left. width: number of ID fields."""
    rows = pa.Table.from_batches(scan_batches(snapshot), schema_of(snapshot))
    buried = []
    for file in snapshot.of_role(TOMBSTONES):
        hidden = set(snapshot.masks.hidden(file.path).tolist())
        live = [row for row in range(file.rows) if row not in hidden]
        buried += taken_tombstones(snapshot.table, file, file.rows, pa.array(live, pa.int64())).to_pylist()
    tombstones = [(tuple(one[f"key_{number}"] for number in range(width)), one["order"]) for one in buried]
    return Left(rows_of(rows), sorted(tombstones, key=repr), _some(counts))


def left_by_run(output: Path) -> Left:
    known = read_manifest(storage_for(str(output)), str(output))
    assert known is not None
    rows = rows_of(Dataset(output).to_arrow())
    tombstones = []
    for side in known.beside:
        if side.role == "tombstones":
            with open(output / side.path, "rb") as stream:
                tombstones += [(key, order) for key, order, _ in read_tombstones(stream)]
    return Left(sorted(rows, key=repr), sorted(tombstones, key=repr), _some(known.commit.counts))


def rows_of(table: Any) -> list[Any]:
    batches = table.combine_chunks().to_batches()
    structs = [comparable(pa.StructArray.from_arrays(batch.columns, batch.schema.names)) for batch in batches]
    return sorted((row for part in structs for row in part.to_pylist()), key=repr)


def _some(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count and not name.endswith("ignored")}


def put_feeds(world: World, work: Path, rng: random.Random, feed_format: str = "parquet") -> list[Path]:
    """Write the feed of each run of a world; return their directories."""
    feeds = []
    for number, files in enumerate(world.feeds):
        feeds.append(work / f"feed{number}")
        for stem, rows in files:
            path = feeds[-1] / f"{stem}.{feed_format}"
            put(path, feed_format, rows, world_schema(world.order, op=world.op), rng.randint(1, 3), ",")
    return feeds


def built(world: World, work: Path, scope: dict[str, str], each: Callable[[Path, dict[str, str]], None]) -> Path:
    """Return a table that got the feeds of a world. each: called after every apply, with the feed and the settings."""
    rng = random.Random(world.seed)
    table = work / "table"
    create_empty(str(table), scope, buckets=rng.choice([1, 2, 5]))
    for feed in put_feeds(world, work, rng):
        settings = {**world.settings("parquet", "parquet"), **scope, "output.format": "parquet", "nanos": "reject"}
        apply_here(table, config.parse(settings), feed, rng.randrange(9))
        each(feed, settings)
    return table
