"""The laws of any batching and any partitioning (DESIGN 3.4), on small random masters and feeds."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import SparkContext

import mutator
from mutator.errors import DataError, StateError
from mutator.rules.order_values import precedence
from mutator.rules.truth_table import FEED_OUTCOMES, MASTER_OUTCOMES
from tests.support import model
from tests.support.effort import law
from tests.support.model import Key, Row
from tests.support.text_runs import (
    ENGINES,
    PARTITIONS,
    Runs,
    local,
    make_speed,
    scratch,
)
from tests.support.text_worlds import (
    BY_NAME,
    ORDERS,
    File,
    Line,
    RowPlan,
    World,
    make_files,
    make_snapshots,
    make_world,
    worlds,
)


@given(worlds(), st.randoms(use_true_random=False))
@law(100)
def test_winner_is_the_same_for_every_order_and_grouping_of_the_bag(world, rng):
    def winner(rows: Sequence[Row]) -> Row:
        return max(rows, key=lambda row: precedence(row.order, row.sequence, row.name, row.offset, row.row))

    bag = world.feed_rows()
    if not bag:
        return
    # as a fold over any tree of groups
    rng.shuffle(bag)
    groups = [bag[start : start + 3] for start in range(0, len(bag), 3)]
    assert reduce(lambda one, other: winner([other, one]), map(winner, groups)) == winner(bag)

    # And in the engine: any order of arrival, and any order of the directories
    with scratch() as work:
        run = Runs(work, world.shape)
        master = run.master(world.master)
        first = run(master, world.feed, seed=1, **make_speed(rng, partitions=[2]))
        other = run(master, world.feed, -1, seed=rng.randrange(2, 99), **make_speed(rng, partitions=[2]))
    assert other.buckets == first.buckets
    assert other.tombstones == first.tombstones
    assert (other.counts, other.samples) == (first.counts, first.samples)


@given(worlds(bad=True), st.randoms(use_true_random=False))
@law(60)
def test_1_2_7_and_64_partitions_give_the_same(world, rng):
    with scratch() as work:
        run = Runs(work, world.shape)
        master = run.master(world.master)
        one, *others = (run(master, world.feed, **make_speed(rng, partitions=[n])) for n in PARTITIONS)
    for other in others:
        assert sorted(row.row for row in other.rows) == sorted(row.row for row in one.rows)
        assert other.records == one.records
        assert other.tombstones == one.tombstones
        assert (other.counts, other.samples) == (one.counts, one.samples)


@given(worlds(bad=True), st.integers(1, 64), st.integers(1, 64), st.sampled_from(ENGINES), st.sampled_from(ENGINES))
@law(100)
def test_splits_of_any_size_give_the_same_bytes(world, size, of_master, engine, other):
    with scratch() as work:
        run = Runs(work, world.shape)
        # The master is a managed one, which is read in the chunks in which it was written.
        first = run(run.master(world.master), (), num_reducer=2, split_bytes=of_master, engine=other)
        one = run(first.path, world.feed, num_reducer=2, engine=other)
        many = run(first.path, world.feed, num_reducer=2, split_bytes=size, engine=engine)
    assert many.buckets == one.buckets
    assert many.records == one.records
    assert many.tombstones == one.tombstones
    assert (many.counts, many.samples) == (one.counts, one.samples)


@given(worlds(bad=True), st.sampled_from([0, 2000]), st.randoms(use_true_random=False))
@law(100)
def test_same_feed_again_changes_nothing(world, later, rng):
    with scratch() as work:
        run = Runs(work, world.shape)
        first = run(run.master(world.master), world.feed, **make_speed(rng, partitions=[2]))
        run.now += later
        again = run(first.path, world.feed, **make_speed(rng, partitions=[2]))
        skipped = run(first.path, world.feed, consumed_files="skip", **make_speed(rng, partitions=[2]))
    for other in (again, skipped):
        assert other.buckets == first.buckets
        assert other.records == first.records
        assert other.tombstones == first.tombstones  # with their commit times: a repeat renews nothing
    changes = set(FEED_OUTCOMES) - {"no-op", "late", "superseded", "rejected"}
    assert {name: again.counts[f"feed {name}"] for name in changes} == dict.fromkeys(changes, 0)
    assert skipped.counts["feed rows"] == 0


Cut = list[tuple[File, ...]]


RUNS = 3


def cut(feed: Sequence[File], run_of: dict[tuple[int, int], int]) -> Cut:
    """Split the lines of a feed into runs; a file keeps its name in each run. run_of: (file number, line number) ->
    run.
    """
    made = []
    for run in range(RUNS):
        parts = (
            replace(file, lines=tuple(line for place, line in enumerate(file.lines) if run_of[number, place] == run))
            for number, file in enumerate(feed)
        )
        made.append(tuple(part for part in parts if part.lines))
    return made


def cut_anyhow(feed: Sequence[File], rng: random.Random) -> Cut:
    run_of = {
        (number, place): rng.randrange(RUNS) for number, file in enumerate(feed) for place in range(len(file.lines))
    }
    return cut(feed, run_of)


def cut_in_order(feed: Sequence[File], rng: random.Random) -> Cut:
    """Cut so that the runs follow the order of (sequence, name, position)."""
    order = []
    for number, file in enumerate(feed):
        offset = len(file.before)
        for place, line in enumerate(file.lines):
            # Two files with the same name have lines at the same position: the bytes of the lines decide, as in one
            # run.
            order.append(((file.sequence, os.fsencode(file.name), offset, line.raw), (number, place)))
            offset += len(line.raw) + len(file.line_end)
    order.sort()
    names = Counter((file.sequence, os.fsencode(file.name)) for file in feed)
    twins = {name for name, files in names.items() if files > 1}
    borders = []
    for _ in range(RUNS - 1):
        border = rng.randint(0, len(order))
        # A cut would change the positions that lines of files with the same name have relative to each other.
        while 0 < border < len(order) and order[border][0][:2] == order[border - 1][0][:2] in twins:
            border += 1
        borders.append(border)
    return cut(feed, {where: sum(at >= border for border in borders) for at, (_, where) in enumerate(order)})


def without_rivals(world: World) -> World:
    """Leave out mutations until no two different mutations of a key share an order value."""
    seen: dict[tuple[Key, int], tuple[bool, bytes]] = {}
    feed = []
    for file in world.feed:
        lines = []
        for line in file.lines:
            order = file.sequence if world.shape.order == BY_NAME else line.order
            content = (line.is_delete, line.written)
            if line.key is None or seen.setdefault((line.key, order), content) == content:
                lines.append(line)
        feed.append(replace(file, lines=tuple(lines)))
    return replace(world, feed=tuple(feed))


def check_cut(world: World, parts: Cut, rng: random.Random) -> None:
    with scratch() as work:
        run = Runs(work, world.shape)
        start = run.master(world.master)
        at_once = run(start, world.feed, num_reducer=2, engine=rng.choice(ENGINES))
        path = start
        for part in parts:
            run.now += 1000
            made = run(path, part, **make_speed(rng))
            path = made.path
    assert made.records == at_once.records
    assert made.deletes() == at_once.deletes()


@given(worlds().map(without_rivals), st.randoms(use_true_random=False))
@law(100)
def test_any_cut_into_runs_gives_the_same_if_no_two_mutations_share_an_order_value(world, rng):
    check_cut(world, cut_anyhow(world.feed, rng), rng)


@given(worlds(), st.randoms(use_true_random=False))
@law(100)
def test_any_cut_into_runs_gives_the_same_if_the_runs_follow_sequence_name_position(world, rng):
    check_cut(world, cut_in_order(world.feed, rng), rng)


def check_retention(rng: random.Random) -> bool:
    """Run the same feeds with and without retention; return whether a tombstone expired."""
    world = make_world(rng)
    shape = replace(world.shape, key=("id2",))  # two keys, so that they are deleted and inserted often
    world = replace(world, shape=shape)
    with scratch() as work:
        run = Runs(work, shape)
        short = long = run.master(make_files(rng, shape, 1, of_master=True, bad=False, most=2, places=1))
        expired = False
        for _ in range(rng.randint(2, 7)):
            feed = make_files(rng, shape, 1, of_master=False, bad=False, most=2, places=1)
            kept = run(long, feed, **make_speed(rng, partitions=[1, 2]))
            made = run(short, feed, tombstone_retention="1s", **make_speed(rng, partitions=[1, 2]))
            if made.counts["below horizon"]:
                return False  # the law no longer holds once the note appears
            assert made.records == kept.records
            expired = expired or made.counts["expired"] > 0
            short, long = made.path, kept.path
            run.now += rng.choice([0, 3000])
    return expired


@given(st.randoms(use_true_random=False))
@law(100)
def test_retention_changes_nothing_as_long_as_no_insert_is_noted_below_the_horizon(rng):
    check_retention(rng)


@pytest.mark.parametrize("engine", ENGINES)
def test_insert_below_the_horizon_is_noted_even_if_a_younger_tombstone_is_forgotten(tmp_path, engine):
    """Without retention the delete at 10 would win; the delete of unknown at 0 must not hide this."""
    shape = RowPlan(("id1", "order", "value"), ("id1",), "long", "delete file", False, False, "3")

    def feed(name: str, order: int) -> list[File]:
        raw = b"a,%s,x" % ORDERS["long"][order][0]
        return [File(0, name, -1, (Line(raw, (b"a",), order, name.startswith("del"), raw),))]

    run = Runs(tmp_path, shape)
    made = run(run.master(()), feed("del.txt", 3), tombstone_retention="1s", engine=engine)
    run.now += 2000
    made = run(made.path, (), tombstone_retention="1s", engine=engine)
    assert (made.horizon, made.deletes()) == ("10", {})
    made = run(made.path, feed("del.txt", 1), tombstone_retention="1s", engine=engine)
    assert made.deletes() == {(b"a",): 1}
    with pytest.raises(DataError, match="older than 10"):
        run(made.path, feed("u.txt", 2), tombstone_retention="1s", engine=engine, before_horizon="fail")
    made = run(made.path, feed("u.txt", 2), tombstone_retention="1s", engine=engine)
    assert (made.counts["revived"], made.counts["below horizon"]) == (1, 1)


@given(st.randoms(use_true_random=False))
@law(80)
def test_full_snapshots_in_order_give_the_last_snapshot(rng):
    shape, snapshots = make_snapshots(rng)
    with scratch() as work:
        run = Runs(work, shape)
        path = run.master(())
        keys: set[Key] = set()
        for snapshot in snapshots:
            # The highest order value of a snapshot may fall although no key's does: the record with the highest one is
            # gone.
            made = run(path, snapshot, sync_mode="full", allow_older_snapshot="true", **make_speed(rng))
            winners = model.last([row for file in snapshot for row in file.rows(shape)])
            assert made.records == {key: (row.order, row.written) for key, row in winners.items()}
            keys |= winners.keys()
            assert made.tombstones.keys() == keys - winners.keys()
            path = made.path


@pytest.mark.parametrize("engine", ENGINES)
def test_snapshot_older_than_the_last_one_is_refused(tmp_path, engine):
    """Only the highest order values are compared; if they are equal, it is the same snapshot again."""
    shape = RowPlan(("id1", "order", "value"), ("id1",), "long", "none", False, False, "3")

    def snapshot(*orders: int) -> list[File]:
        rows = [b"%d,%s,x" % (number, ORDERS["long"][order][0]) for number, order in enumerate(orders)]
        return [File(0, "s.txt", -1, tuple(Line(row, (row[:1],), 0, False, row) for row in rows))]

    run = Runs(tmp_path, shape)
    first = run(run.master(()), snapshot(0, 3), sync_mode="full", engine=engine)
    again = run(first.path, snapshot(1, 3), sync_mode="full", engine=engine)
    assert [row.row for row in sorted(again.rows)] == [b"0,0,x", b"1,10,x"]
    with pytest.raises(StateError, match="highest order value is 9, but the master has already had one with 10"):
        run(again.path, snapshot(1, 2), sync_mode="full", engine=engine)


@given(worlds(bad=True), st.randoms(use_true_random=False))
@law(100)
def test_every_row_is_accounted_for(world, rng):
    """Every run of this module checks the sums of DESIGN 3.3; this test also checks that both sides have every row."""
    with scratch() as work:
        run = Runs(work, world.shape)
        made = run(run.master(world.master), world.feed, **make_speed(rng))
        lines = {"feed": world.feed, "master": world.master}
        for side, files in lines.items():
            all_lines = [line for file in files for line in file.lines]
            rejected = [line for line in all_lines if line.raw and line.key is None]
            assert made.counts[f"{side} rows"] == sum(line.raw != b"" for line in all_lines)
            headers = len(files) if world.shape.header else 0
            assert made.counts[f"{side} ignored"] == headers + sum(line.raw == b"" for line in all_lines)
            assert made.counts[f"{side} rejected"] == len(rejected)
    names = {f"feed {name}" for name in FEED_OUTCOMES} | {f"master {name}" for name in MASTER_OUTCOMES}
    assert names <= made.counts.keys()


@pytest.mark.parametrize("memory", [30, 1 << 20])
@pytest.mark.parametrize("engine", ENGINES)
def test_order_of_rows_in_a_file(tmp_path, engine, memory):
    shape = RowPlan(("id1", "value", "order"), ("id1",), "long", "delete file", False, False, "3")

    def file(name: str, *rows: bytes) -> File:
        lines = (Line(row, (row.split(b",")[0],), 0, name.startswith("del"), row) for row in rows)
        return File(0, name, -1, tuple(lines))

    run = Runs(tmp_path, shape)
    master = run.master(
        [
            # The name "b" sorts after "a", however the files were listed or written; "z" has a duplicate of an older
            # version
            file("b.txt", b"z,old,0", b"c,old,0", b"\xff,old,0"),
            file("a.txt", b"m,old,0", b"z,older,-7", b"k,old,0", b"d,old,0"),
        ]
    )
    feed = [
        file("u.txt", b"y,new,9", b"c,new,9", b"m,old,0", b"e,new,9", b",new,9", b"\xff\xff,new,9"),
        file("del.txt", b"k,,9"),
    ]
    made = run(master, feed, num_reducer=1, engine=engine, memory_bytes=memory)

    assert made.buckets[0] == [
        b"m,old,0",  # a.txt: an equal upsert leaves the row where it is
        b"d,old,0",  # k is deleted
        b"z,old,0",  # b.txt: the surviving duplicate keeps its position
        b"c,new,9",  # updated in its position
        b"\xff,old,0",
        b",new,9",  # inserted: by key, byte by byte
        b"e,new,9",
        b"y,new,9",
        b"\xff\xff,new,9",
    ]


# -- the same laws with many more examples


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_soak_cuts_and_retention(seed):
    rng = random.Random(seed)
    in_vain = 0
    for _ in range(300):
        in_vain += check_retention(rng)
        world = without_rivals(make_world(rng, most=6))
        check_cut(world, cut_anyhow(world.feed, rng), rng)
        world = make_world(rng, most=6)
        check_cut(world, cut_in_order(world.feed, rng), rng)
    assert in_vain > 10, "the law of retention says nothing where nothing expires"


# -- on Spark


def same_on_spark(sc: SparkContext, seed: int, reducers: int, engine: str) -> list[tuple[int, int]]:
    """Merge on Spark with one engine and locally with the other; return the tasks and records of each run."""

    def spark(config: dict[str, str], **options: Any) -> mutator.Report:
        return mutator.mutate(sc, config, **options)

    rng = random.Random(seed)
    world = make_world(rng, bad=True, most=30)
    feeds = [world.feed, make_files(rng, world.shape, 4, of_master=False, bad=False, most=30, places=2)]
    with scratch() as work:
        made = []
        for name, where, by in (("spark", spark, engine), ("local", local, ENGINES[engine == "records"])):
            (work / name).mkdir()
            run = Runs(work / name, world.shape, where)
            run.now = 1_800_000_000_000
            options = {"num_reducer": reducers, "split_bytes": 200, "engine": by}
            first = run(run.master(world.master), feeds[0], **options)
            run.now += 3000
            made.append((first, run(first.path, feeds[1], tombstone_retention="1s", **options)))
    for one, other in zip(*made, strict=True):
        assert one.buckets == other.buckets
        assert one.tombstones == other.tombstones
        assert one.records == other.records
        assert (one.counts, one.samples, one.horizon) == (other.counts, other.samples, other.horizon)
    return [(one.report.tasks, len(one.records)) for one in made[0]]


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize(
    ("seed", "reducers", "engine"), [(1, 2, "blocks"), (2, 7, "blocks"), (3, 7, "records"), (6, 2, "blocks")]
)
def test_spark_writes_the_same_bytes(sc, seed, reducers, engine):
    for tasks, records in same_on_spark(sc, seed, reducers, engine):
        assert tasks >= 2, "one map task hides what more of them show"
        assert records > 1


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_soak_spark_writes_the_same_bytes(sc, seed):
    same_on_spark(sc, seed, 2 + seed % 6, ENGINES[seed % 2])
