"""Law T1: a chain of applies gives the rows, tombstones and counts of the same chain of runs."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mutator import config
from mutator.cli import main
from mutator.dataset.versions import merged_keys, opening
from mutator.dataset.versions.merged_keys import MergedKeys
from mutator.dataset.versions.opening import open_snapshot, refreshed
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions import base_files, compact_task, delta_files, key_search
from mutator.table import apply, compact_choice, prepare
from mutator.table.apply import apply_feed
from mutator.table.compact import compact_table
from mutator.table.compact_choice import Need
from mutator.table.create import create_empty
from mutator.table.table import Table
from mutator.table.take_over import create_of
from tests.support import local_engine
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.support.typed_worlds import World, put, worlds
from tests.support.typed_worlds import schema_of as world_schema
from tests.support.versioned import SCOPES, apply_here, left_by_run, left_of, open_runner, put_feeds


def _row(key: str, shop: int) -> dict[str, Any]:
    return {"id": key, "shop": shop, "at": 0, "note": None, "price": None}


_INSERT = {**_row("", -1), "op": "I"}


_OVERWRITES: list[dict[str, str]] = [{}, {"reject.policy": "fail", "allow.empty.feed": "true"}]


def sent(snapshot: Snapshot) -> Snapshot:
    return pickle.loads(pickle.dumps(snapshot))  # type: ignore[no-any-return]


def check_merged_keys(snapshot: Snapshot) -> None:
    """Compare the merged keys that versions were added to with those that all files give."""
    known = snapshot.keys._found
    if known is None:
        return
    kept = merged_keys.merged_keys(snapshot, known.order_type, known.by_partition)
    fresh = merged_keys.merged_keys(sent(snapshot), known.order_type, known.by_partition)
    both = kept.inside & fresh.inside
    assert live_of(kept, both) == live_of(fresh, both)


def live_of(keys: MergedKeys, files: Any) -> list[Any]:
    """Return the live rows of some files. files: flags."""
    found = []
    for role, runs in keys.runs.items():
        for run in runs:
            some = keys._found(run.rows, run)
            names = [keys.codes.names[code] for code in some.partitions.tolist()]
            columns = (some.files, some.positions, some.entries, some.row_hashes, some.orders, run.keys, run.hashes)
            for row, name, hidden in zip(
                zip(*(column.tolist() for column in columns), strict=True), names, keys.hidden[run.rows], strict=True
            ):
                if not hidden and files[row[0]]:
                    found.append((role, name, *row))
    return sorted(found, key=repr)


@law(60)
@example(  # partitions of a dataset have buckets of their own
    World(
        order="file name",
        full=True,
        op=False,
        master=((_row("", -1),), (_row("b", 12), _row("", -1))),
        feeds=((("ups_00_0", (_row("b", 12), _row("", -1))),),),
        seed=12601045,
    ),
    "parquet",
    SCOPES[1],
    False,
    "other dataset",
)
@example(  # a base file that is full when the rows of another bucket begin
    World(
        order="file name",
        full=False,
        op=True,
        master=((_row("", -1),) * 2, (_row("b", -1), *(_row("", -1),) * 2)),
        feeds=(
            (
                ("ups_00_0", (_INSERT,) * 3),
                ("ups_01_0", (*(_INSERT,) * 3, {**_INSERT, "id": "b"}, _INSERT)),
                ("ups_02_0", ({**_INSERT, "id": "a", "shop": 12},)),
            ),
            (("ups_10_0", (_INSERT,) * 3),),
        ),
        seed=36089,
    ),
    "parquet",
    {},
    False,
    "other dataset",
)
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
        patch.setattr(prepare, "_GROUP", rng.choice([1, 1000, 8 << 20]))  # 8, a few and one group
        patch.setattr(prepare, "_GROUPS", rng.choice([3, 8]))
        patch.setattr(delta_files, "_OWN", rng.choice([1, 2, 1 << 16]))
        patch.setattr(key_search, "_FEW", rng.choice([0, 1, 4]))
        patch.setattr(merged_keys, "MOST_ROWS", rng.choice([0, 2, 1 << 16]))
        patch.setattr(merged_keys, "_AT_FIRST", rng.choice([0, 2, 1 << 13]))
        patch.setattr(merged_keys, "_FEW", rng.choice([1, 2, 16]))
        patch.setattr(merged_keys, "_RATIO", rng.choice([0, 1, 2, 1 << 30]))
        patch.setattr(opening, "_EVERY", rng.choice([1, 2, 8]))
        patch.setattr(base_files, "OWN", rng.choice([1, 3, 1 << 12]))
        patch.setattr(compact_choice, "OWN", base_files.OWN)
        patch.setattr(base_files, "MOST", rng.choice([1, 2, 1 << 22]))
        patch.setattr(compact_choice, "MOST", base_files.MOST)
        patch.setattr(base_files, "_FULL", rng.choice([1, 1 << 16]))
        patch.setattr(compact_task, "_ROWS", rng.choice([1, 2, 1 << 18]))
        patch.setattr(compact_choice, "_TASK_ROWS", rng.choice([1, 3, 1 << 20]))
        settings = {**world.settings("parquet", feed_format), **scope, "output.format": "parquet"}
        settings["nanos"] = rng.choice(["reject", "keep"])  # a run keeps them by default
        settings["memory.bytes"] = str(rng.choice([1, 200, 1 << 27]))
        table, master = work / "table", work / "master"
        master.mkdir()
        buckets = rng.choice([1, 2, 5])
        if beginning == "empty":
            create_empty(str(table), scope, buckets=buckets)
        else:
            for number, rows in enumerate(world.master):
                put(master / f"m{number}.parquet", "parquet", rows, world_schema(world.order, op=False), 2, ",")
            begun = config.parse({**settings, "sync.mode": "partial"})
            local_engine.mutate(begun, master=str(master), feed=[], output=str(work / "begun"))
            source = master if beginning == "other dataset" else work / "begun"
            wanted = buckets if beginning == "other dataset" and not scope else None  # else the dataset decides
            create_of(str(table), begun, scope, str(source), wanted, open_runner)
            master = work / "begun"
            snapshot = open_snapshot(str(table))
            assert left_of(snapshot, {}) == replace(left_by_run(master), counts={})
        kept: Snapshot | None = None
        for number, feed in enumerate(put_feeds(world, work, rng, feed_format)):
            output = work / f"out{number}"
            if world.full:  # deltas come between the snapshots
                settings["sync.mode"] = rng.choice(["full", "full", "partial"])
            if settings["sync.mode"] == "partial":
                operation = rng.choice(["apply", "apply", "insert_overwrite", "insert_overwrite_table"])
                settings = {**settings, "write.operation": operation, **_OVERWRITES[operation != "apply"]}
            else:
                settings = {**settings, "write.operation": "apply"}
            local_engine.mutate(settings, master=str(master), feed=[str(feed)], output=str(output))
            if rng.random() < 0.7:  # a process that stays open
                kept = sent(open_snapshot(str(table))) if kept is None else refreshed(kept)
                applied = apply_feed(kept, config.parse(settings), [str(feed)], partial(open_runner, seed=number))
                kept = applied.snapshot
                check_merged_keys(kept)
            else:
                applied = apply_here(table, config.parse(settings), feed, rng.randrange(9))
            master = output
            snapshot = open_snapshot(str(table))
            left = left_of(snapshot, applied.counts)
            assert left == left_by_run(output)
            assert (snapshot.version.records, snapshot.version.tombstones) == (len(left.rows), len(left.tombstones))
            if rng.random() < 0.5:  # law T3
                need = Need(rng.random() < 0.5, rng.choice([1, 2]), rng.choice([0, 0.3]))
                done = compact_table(kept or snapshot, config.parse(settings), need, partial(open_runner, seed=number))
                kept = None if kept is None else done.snapshot
                assert left_of(open_snapshot(str(table)), applied.counts) == left
                assert done.version is None or left_of(done.snapshot, applied.counts) == left
                if need.everything and done.version is not None and done.version.as_of == snapshot.version.number:
                    assert compact_table(done.snapshot, config.parse(settings), need, open_runner).version is None
        assert Table(table).verify().problems == ()


@pytest.mark.parametrize("order_type", ["long", "timestamp", "long, long"])
@pytest.mark.parametrize("most", [0, 1 << 16], ids=["one by one", "merged keys"])
def test_a_touch_beside_the_rows_outranks_older_mutations(order_type, most, tmp_path, monkeypatch, capsys):
    """However its file is searched; and a version is explained with the order value that it had."""
    monkeypatch.setattr(merged_keys, "MOST_ROWS", most)
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    names = ["at", "no"][: len(order_type.split(","))]
    table = Table.create(str(tmp_path / "t"), key="id", order_by=names, order_keep=False, buckets=1)
    for note, at in (("a", 10), ("a", 20), ("late", 15)):
        order = pa.array([at]).cast(pa.timestamp("us") if order_type == "timestamp" else pa.int64())
        report = table.apply(pa.table({"id": [1], **dict.fromkeys(names, order), "note": [note]}))
    assert report.counts["feed late"] == 1
    assert table.get(1)["note"] == "a"
    assert main(["explain", table.path, "1"]) == 0
    out = capsys.readouterr().out
    assert "has something else" not in out
