"""The laws of DESIGN 3.4, and engine == reference model, on small random masters and feeds.

Values come from short lists, so that ties, late rows, deletes, re-inserts and repeated rows are the rule.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PythonException

import mutator
from mutator.errors import DataError, StateError
from mutator.rules.key_hash import bucket_of
from mutator.rules.order_values import precedence
from mutator.rules.outcome import FEED_OUTCOMES, MASTER_OUTCOMES
from tests.support import model
from tests.support.effort import law
from tests.support.model import Key, Row
from tests.support.text_runs import (
    ENGINES,
    PARTITIONS,
    Dataset,
    Runs,
    few_hashes,
    horizon_text,
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

# -- worlds: what a master and a feed can look like


# -- runs


# -- the engine against the model


def expected_buckets(master: list[Row], merged: model.Merged, buckets: int | None) -> dict[int | None, list[bytes]]:
    """Lay out the model's records: survivors by (file name, position), updated ones in place, inserted ones by key."""
    held = model.last(master)
    files: dict[int | None, list[bytes]] = {}
    places = {key: (0, held[key].name, held[key].offset) if key in held else (1, key) for key in merged.records}
    for key in sorted(places, key=lambda key: places[key]):
        files.setdefault(buckets and bucket_of(key, buckets), []).append(merged.records[key][1])
    return files


def compare(made: Dataset, master: list[Row], merged: model.Merged, buckets: int | None) -> None:
    assert made.records == merged.records
    assert made.tombstones == merged.tombstones
    counted = {name: made.counts[name] for name in made.counts if not name.endswith((" rows", " ignored", " rejected"))}
    assert counted == {name: merged.counts[name] for name in counted}
    assert set(merged.counts) - set(counted) == {"output rows"}
    shown = {
        note: [",".join(value.decode("utf-8", "backslashreplace") for value in key) for key in keys[:5]]
        for note, keys in merged.notes.items()
    }
    assert made.samples == shown
    assert made.buckets == expected_buckets(master, merged, buckets)


def engine_is_model(rng: random.Random, *, full: bool = False, engine: Callable[..., mutator.Report] = local) -> None:
    """Run several feeds, each into what the run before left, with retention; compare everything after each run."""
    bad = not full and rng.random() < 0.3
    world = make_world(rng, deletes="none" if full else None, bad=bad)
    shape = world.shape
    with scratch() as work:
        run = Runs(work, shape, engine)
        path, horizon = run.master(world.master), None
        rows = [row for file in world.master for row in file.rows(shape)]
        tombstones: dict[Key, tuple[int, int]] = {}
        retention = rng.choice([None, 0, 1, 2])
        for number in range(rng.randint(1, 4)):
            feed = world.feed
            if number:
                feed = make_files(rng, shape, rng.randint(1, 3), of_master=False, bad=bad, most=3, places=2)
            if full:
                feed = tuple(file for file in feed if file.sequence == feed[0].sequence)
            run.now += rng.choice([0, 500, 1000, 2500])
            options = make_speed(rng)
            if len(model.last(rows)) == len(rows):
                options["master_unique"] = rng.choice(["true", "false"])
            if retention is not None:
                options["tombstone_retention"] = f"{retention}s"
            if full:
                options |= {"sync_mode": "full", "allow_older_snapshot": "true"}
                if not any(file.sequence >= -1 and list(file.rows(shape)) for file in feed):
                    with pytest.raises(DataError, match="needs a complete snapshot"):
                        run(path, feed, **options)
                    return
            made = run(path, feed, seed=rng.randrange(99), **options)
            merged = model.merge(
                rows,
                tombstones,
                [row for file in feed for row in file.rows(shape)],
                now=run.now,
                full=full,
                expire_before=None if retention is None else run.now - retention * 1000,
                horizon=horizon,
            )
            compare(made, rows, merged, None if made.report.join == "broadcast" else options["num_reducer"])
            horizon = merged.horizon
            assert made.horizon == horizon_text(shape, horizon)
            path, rows, tombstones = made.path, made.rows, made.tombstones


@given(st.randoms(use_true_random=False))
@law(250)
def test_engine_is_the_model(rng):
    engine_is_model(rng)


@given(st.randoms(use_true_random=False))
@law(80)
def test_engine_is_the_model_for_full_snapshots(rng):
    engine_is_model(rng, full=True)


@given(st.randoms(use_true_random=False), st.sampled_from([1, 2, 5]))
@law(100)
def test_engine_is_the_model_where_keys_share_their_hashes(rng, number):
    with few_hashes(number):
        engine_is_model(rng, full=rng.random() < 0.2)


# -- laws


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

    # and in the engine: whatever arrives first, and in whatever order the directories are named
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
        # The master is a managed one, which is read by the chunks that it was written with.
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
        assert other.tombstones == first.tombstones  # with their commit times: a delete heard twice is no younger one
    changes = set(FEED_OUTCOMES) - {"no-op", "late", "superseded", "rejected"}
    assert {name: again.counts[f"feed {name}"] for name in changes} == dict.fromkeys(changes, 0)
    assert skipped.counts["feed rows"] == 0


Cut = list[tuple[File, ...]]


RUNS = 3


def cut(feed: Sequence[File], run_of: dict[tuple[int, int], int]) -> Cut:
    """Part the lines of a feed into runs; a file keeps its name in each. run_of: numbers of file and line -> run."""
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
    """Cut so that the runs follow (sequence, name, position)."""
    order = []
    for number, file in enumerate(feed):
        offset = len(file.before)
        for place, line in enumerate(file.lines):
            # Two files of one name have lines at the same position: their bytes decide, as in one run.
            order.append(((file.sequence, os.fsencode(file.name), offset, line.raw), (number, place)))
            offset += len(line.raw) + len(file.line_end)
    borders = [rng.randint(0, len(order)) for _ in range(RUNS - 1)]
    return cut(feed, {where: sum(at >= border for border in borders) for at, (_, where) in enumerate(sorted(order))})


def without_rivals(world: World) -> World:
    """Leave out mutations until no two different ones of a key share an order value."""
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
def test_any_cut_into_runs_gives_the_same_where_no_two_mutations_share_an_order_value(world, rng):
    check_cut(world, cut_anyhow(world.feed, rng), rng)


@given(worlds(), st.randoms(use_true_random=False))
@law(100)
def test_any_cut_into_runs_gives_the_same_where_the_runs_follow_sequence_name_position(world, rng):
    check_cut(world, cut_in_order(world.feed, rng), rng)


def check_retention(rng: random.Random) -> bool:
    """Run the same feeds with retention and without; return whether anything expired in vain."""
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
                return False  # the promise ends with the note
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
def test_insert_below_the_horizon_is_noted_also_where_a_younger_tombstone_is_forgotten(tmp_path, engine):
    """Without retention the delete at 10 would win; the delete of unknown at 0 must not hide that."""
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
            # The order value of a whole snapshot may fall although no key's does: what was highest is gone.
            made = run(path, snapshot, sync_mode="full", allow_older_snapshot="true", **make_speed(rng))
            winners = model.last([row for file in snapshot for row in file.rows(shape)])
            assert made.records == {key: (row.order, row.written) for key, row in winners.items()}
            keys |= winners.keys()
            assert made.tombstones.keys() == keys - winners.keys()
            path = made.path


@pytest.mark.parametrize("engine", ENGINES)
def test_snapshot_older_than_the_last_one_is_refused(tmp_path, engine):
    """Compared are the highest order values; equal ones are the same snapshot again."""
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
    """The sums of 3.3 are checked after every run of this module; here also that no row is missing from both sides."""
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
def test_rows_of_a_file_survivors_in_place_then_the_inserted_by_key(tmp_path, engine, memory):
    shape = RowPlan(("id1", "value", "order"), ("id1",), "long", "delete file", False, False, "3")

    def file(name: str, *rows: bytes) -> File:
        lines = (Line(row, (row.split(b",")[0],), 0, name.startswith("del"), row) for row in rows)
        return File(0, name, -1, tuple(lines))

    run = Runs(tmp_path, shape)
    master = run.master(
        [
            # "b" comes after "a" as a name, not as it was listed or written; "z" is a duplicate of an older version
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
        b"z,old,0",  # b.txt: the duplicate that survives keeps its own place
        b"c,new,9",  # updated in place
        b"\xff,old,0",
        b",new,9",  # inserted: by key, byte by byte
        b"e,new,9",
        b"y,new,9",
        b"\xff\xff,new,9",
    ]


# -- the same at length


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_soak_engine_is_the_model(seed):
    rng = random.Random(seed)
    for _ in range(500):
        engine_is_model(rng, full=rng.random() < 0.2)


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


def same_on_spark(sc: SparkContext, seed: int, reducers: int, engine: str) -> None:
    """Merge on Spark by one engine and here by the other one."""

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
        assert one.report.tasks >= 2, "one map task hides what more of them show"
        assert len(one.records) > 1
        assert one.buckets == other.buckets
        assert one.tombstones == other.tombstones
        assert one.records == other.records
        assert (one.counts, one.samples, one.horizon) == (other.counts, other.samples, other.horizon)


@pytest.mark.parametrize(
    ("seed", "reducers", "engine"), [(1, 2, "blocks"), (2, 7, "blocks"), (3, 7, "records"), (6, 2, "blocks")]
)
def test_spark_writes_the_same_bytes(sc, seed, reducers, engine):
    same_on_spark(sc, seed, reducers, engine)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_soak_spark_writes_the_same_bytes(sc, seed):
    same_on_spark(sc, seed, 2 + seed % 6, ENGINES[seed % 2])


Mutation = tuple[Any, Any, str]  # key, precedence, what it says

KEYS: dict[str, list[Any]] = {
    "text": ["", "a", "b", "\u00e9", "\U00010000", "\ue000"],
    "integers": [0, -1, -2, 7, 2**61 - 1, 2**64],
    "tuples": [("a", 1), ("a", 2), ("b", 0), ("", 0)],
    # Equal keys are one key, whatever their type.
    "numbers": [1, 1.0, True, Decimal(1), 0, False, -0.0, 0.5, Decimal("0.5")],
    "dates": [date(2026, 1, 31), date(1969, 12, 31)],
}


# Not functions of this module, which the workers cannot import.
FIRST, SECOND = itemgetter(0), itemgetter(1)


def last_of_each(mutations: list[Mutation], is_delete: Callable[[Mutation], bool]) -> dict[Any, Mutation]:
    found: dict[Any, Mutation] = {}
    for mutation in mutations:
        rank = (mutation[1], repr(mutation))
        if mutation[0] not in found or rank > (found[mutation[0]][1], repr(found[mutation[0]])):
            found[mutation[0]] = mutation
    return {key: mutation for key, mutation in found.items() if not is_delete(mutation)}


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS.keys())
def test_last_mutations_are_those_of_a_dict(sc, keys, partitions):
    rng = random.Random(partitions)
    # Few precedences, so that repr() decides often.
    mutations = [(rng.choice(keys), rng.randrange(4), rng.choice("xyzD")) for _ in range(60)]
    expected = last_of_each(mutations, lambda m: m[2] == "D")

    made = mutator.last_mutations(
        sc.parallelize(mutations, 3),
        FIRST,
        SECOND,
        is_delete=lambda m: m[2] == "D",
        partitions=partitions,
    )
    parts = made.glom().collect()

    assert len(parts) == partitions
    assert sorted(map(repr, (m for part in parts for m in part))) == sorted(map(repr, expected.values()))
    for part in parts:
        assert [m[0] for m in part] == sorted(m[0] for m in part)


def test_last_mutations_without_deletes_and_in_as_many_partitions_as_there_are(sc):
    made = mutator.last_mutations(sc.parallelize([("a", 1, "x"), ("b", 1, "D"), ("a", 0, "y")], 2), FIRST, SECOND)

    assert made.getNumPartitions() == 2
    assert sorted(made.collect()) == [("a", 1, "x"), ("b", 1, "D")]


def test_last_mutations_refuses_a_key_that_it_cannot_hash_alike_everywhere(sc):
    mutations = sc.parallelize([(frozenset("a"), 1, "x")], 2)

    # Spark 3.5 raises the exception of the JVM, Spark 4 one of its own.
    with pytest.raises((Py4JJavaError, PythonException), match="a key of type frozenset has no canonical bytes"):
        mutator.last_mutations(mutations, FIRST, SECOND).collect()
