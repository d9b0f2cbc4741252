"""Law T1: a chain of applies gives the rows, tombstones and counts of the same chain of runs."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator import config
from mutator.config import Config
from mutator.dataset.directory import read_manifest
from mutator.dataset.side_columns import read_tombstones
from mutator.dataset.versions.snapshot import Snapshot, open_snapshot
from mutator.dataset.versions.version import TOMBSTONES
from mutator.engine.versions import delta_files
from mutator.engine.versions.live_rows import taken_tombstones
from mutator.rules.typed_values import comparable
from mutator.storage import storage_for
from mutator.table import apply
from mutator.table.apply import Applied, apply_feed
from mutator.table.create import create_empty
from mutator.table.scan import scan_batches, schema_of
from mutator.table.take_over import create_of
from tests.support import local_engine
from tests.support.text_runs import scratch
from tests.support.typed_worlds import World, put, worlds
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


def left_of(snapshot: Snapshot, counts: Mapping[str, int]) -> Left:
    rows = pa.Table.from_batches(scan_batches(snapshot), schema_of(snapshot))
    buried = []
    for file in snapshot.of_role(TOMBSTONES):
        hidden = set(snapshot.masks.hidden(file.path).tolist())
        live = [row for row in range(file.rows) if row not in hidden]
        buried += taken_tombstones(snapshot.table, file.data, file.rows, pa.array(live, pa.int64())).to_pylist()
    width = 2
    tombstones = [(tuple(one[f"key_{number}"] for number in range(width)), one["order"]) for one in buried]
    return Left(_rows(rows), sorted(tombstones, key=repr), _some(counts))


def left_by_run(output: Path) -> Left:
    import pyarrow.parquet as pq

    known = read_manifest(storage_for(str(output)), str(output))
    assert known is not None
    tables = [pq.read_table(output / part.path, partitioning=None) for part in known.files]
    tombstones = []
    for side in known.beside:
        if side.role == "tombstones":
            with open(output / side.path, "rb") as stream:
                tombstones += [(key, order) for key, order, _ in read_tombstones(stream)]
    rows = [row for table in tables for row in _rows(table)]
    return Left(sorted(rows, key=repr), sorted(tombstones, key=repr), _some(known.counts))


def _rows(table: Any) -> list[Any]:
    batches = table.combine_chunks().to_batches()
    structs = [comparable(pa.StructArray.from_arrays(batch.columns, batch.schema.names)) for batch in batches]
    return sorted((row for part in structs for row in part.to_pylist()), key=repr)


def _some(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count and not name.endswith("ignored")}


@given(
    worlds([None, "", "x", 'q"', "a,b", "l\nf"]),
    st.sampled_from(["parquet", "avro"]),
    st.sampled_from(SCOPES),
    st.booleans(),
    st.sampled_from(["empty", "dataset of mutator", "other dataset"]),
)
def test_a_chain_of_applies_equals_a_chain_of_runs(
    world: World, feed_format: str, scope: dict[str, str], inline: bool, beginning: str
) -> None:
    rng = random.Random(world.seed)
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_INLINE_FEED", 1 << 30 if inline else 0)
        patch.setattr(delta_files, "_OWN", rng.choice([1, 2, 1 << 16]))
        settings = {**world.settings("parquet", feed_format), **scope, "output.format": "parquet"}
        settings["memory.bytes"] = str(rng.choice([1, 200, 1 << 27]))
        table, master = work / "table", work / "master"
        master.mkdir()
        buckets = rng.choice([1, 2, 5])
        if beginning == "empty":
            create_empty(str(table), scope, buckets=buckets)
        else:
            for number, rows in enumerate(world.master):
                put(master / f"m{number}.parquet", "parquet", rows, world_schema(world.order, op=False), 2, ",")
            partial = config.parse({**settings, "sync.mode": "partial"})
            local_engine.mutate(partial, master=str(master), feed=[], output=str(work / "begun"))
            source = master if beginning == "other dataset" else work / "begun"
            create_of(str(table), partial, scope, str(source), buckets, open_runner)
            master = work / "begun"
            snapshot = open_snapshot(str(table))
            assert left_of(snapshot, {}) == replace(left_by_run(master), counts={})
        for number, files in enumerate(world.feeds):
            feed = work / f"feed{number}"
            for stem, rows in files:
                path = feed / f"{stem}.{feed_format}"
                put(path, feed_format, rows, world_schema(world.order, op=world.op), rng.randint(1, 3), ",")
            output = work / f"out{number}"
            local_engine.mutate(settings, master=str(master), feed=[str(feed)], output=str(output))
            applied = apply_here(table, config.parse(settings), feed, rng.randrange(9))
            master = output
            snapshot = open_snapshot(str(table))
            left = left_of(snapshot, applied.counts)
            assert left == left_by_run(output)
            assert (snapshot.version.records, snapshot.version.tombstones) == (len(left.rows), len(left.tombstones))
