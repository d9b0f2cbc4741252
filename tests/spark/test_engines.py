"""Both engines give the same output, byte for byte, and so does each join on Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mutator
from bench.contenders.spark import Shuffled
from mutator.engine.blocks import hash_parts
from mutator.engine.receipts import Fault
from mutator.engine.spark.spark_runner import SparkRunner
from mutator.pipeline.verify import verify
from tests.support import local_engine
from tests.support.effort import law
from tests.support.small_runs import (
    BY_NAME,
    KEYS,
    PARTITIONS,
    carried_and_written,
    content,
    feed,
    managed,
    merge,
    promised,
    rows_of,
    spy,
    tombstones_of,
    unmanaged,
)
from tests.support.text_runs import Runs, scratch
from tests.support.text_worlds import make_files, make_snapshots, make_world

# -- one series of runs by each engine


def check_chain(rng: random.Random, partitions: Sequence[int], variants: dict[str, dict[str, Any]]) -> list[str]:
    """Run the same feeds once with each variant of the options; return the joins."""
    full = rng.random() < 0.15
    if full:
        shape, feeds = make_snapshots(rng)
        master: Sequence[Any] = ()
    else:
        world = make_world(rng, bad=rng.random() < 0.5, most=8)
        shape, master, feeds = world.shape, world.master, [world.feed]
        for _ in range(rng.randint(0, 2)):
            feeds.append(make_files(rng, shape, rng.randint(0, 3), of_master=False, bad=False, most=5, places=2))
    options: dict[str, Any] = {"split_bytes": rng.choice([9, 60, 1 << 20])}
    if full:
        options |= {"sync_mode": "full", "allow_older_snapshot": "true"}
    elif rng.random() < 0.5:
        options["tombstone_retention"] = rng.choice(["0s", "2s"])
    waits = [rng.choice([0, 1000, 3000]) for _ in feeds]
    made: list[list[dict[str, Any]]] = []
    joins = []
    for name, own in variants.items():
        with scratch() as work:
            run = Runs(work, shape)
            run.now = 1_800_000_000_000
            path = run.master(master)
            made.append([])
            for number, (feed, wait) in enumerate(zip(feeds, waits, strict=True)):
                one = run(path, feed, num_reducer=partitions[number % len(partitions)], **options, **own)
                run.now += wait
                path = one.path
                made[-1].append(content(one))
                joins.append(one.report.join)
                assert one.report.engine == own.get("engine", "blocks"), name
    for other in made[1:]:
        for number, (one, two) in enumerate(zip(made[0], other, strict=True)):
            for part in one:
                assert one[part] == two[part], (number, part)
    return joins


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("partitions", PARTITIONS)
@law(25)
@given(rng=st.randoms(use_true_random=False))
def test_both_engines_write_the_same(partitions, rng):
    check_chain(rng, [partitions], {"records": {"engine": "records"}, "blocks": {"engine": "blocks"}})


@law(40)
@given(rng=st.randoms(use_true_random=False))
def test_both_engines_write_the_same_while_the_number_of_buckets_changes(rng):
    partitions = rng.choice([[2, 4, 2], [1, 7, 14], [4, 1, 2], [2, 7, 64], [64, 8, 1]])
    check_chain(rng, partitions, {"records": {"engine": "records"}, "blocks": {"engine": "blocks"}})


@law(25)
@given(rng=st.randoms(use_true_random=False), little=st.integers(1, 200))
def test_feed_in_parts_gives_the_same(rng, little):
    joins = check_chain(rng, [rng.choice([1, 2, 4]), 2], {"whole": {}, "parts": {"memory_bytes": little}})
    assert set(joins) <= {"shuffle", "aligned"}


def test_feed_of_more_than_memory_bytes_is_done_in_parts(tmp_path, monkeypatch):
    """Otherwise the test above would prove nothing."""
    spilled = []
    monkeypatch.setattr(hash_parts.Parts, "_spill", spy(hash_parts.Parts._spill, spilled))
    master = managed(tmp_path, num_reducer=2)
    assert spilled == []
    made = merge(tmp_path, master, feed(tmp_path, u=[(key, 2) for key in KEYS]), memory_bytes=50)
    assert made.join == "aligned"
    assert len(spilled) >= 2
    assert made.counts["feed updated"] == len(KEYS)


# -- on Spark


def on_spark(sc: Any) -> Callable[..., mutator.Report]:
    def mutate(config: dict[str, str], **given: Any) -> mutator.Report:
        return mutator.mutate(sc, config, **given)

    return mutate


@pytest.mark.parametrize("join", ["aligned", "broadcast", "shuffle"])
def test_join_on_spark_writes_the_same_as_the_local_engine(sc, tmp_path, join):
    master = managed(tmp_path, BY_NAME, num_reducer=4) if join == "aligned" else unmanaged(tmp_path, files=3)
    options = promised() if join == "broadcast" else {"num_reducer": 4}
    changes = feed(tmp_path, u_5=[(KEYS[0], 5), (b"new", 5)], del_6=[(KEYS[1], 6), (b"gone", 6)], u_7=[(KEYS[0], 7)])
    here, there = (
        merge(tmp_path, master, changes, BY_NAME, split_bytes=100, on=on, **options)
        for on in (local_engine.mutate, on_spark(sc))
    )

    assert here.join == there.join == join
    assert there.tasks >= 2
    assert here.counts == there.counts
    assert list(rows_of(here.output).values()) == list(rows_of(there.output).values())
    assert tombstones_of(here.output) == tombstones_of(there.output) == {KEYS[1]: b"6", b"gone": b"6"}
    if join == "aligned":
        assert carried_and_written(master, there.output)[0] == carried_and_written(master, here.output)[0] != set()
    assert verify(SparkRunner(sc), there.output).problems == ()


# -- elements of a shuffle


@pytest.mark.parametrize(("setting", "least", "most"), [("True", 0.5, 0.7), ("false", 0.9, 1.2)])
def test_a_shuffle_compresses_long_values_if_spark_does_and_returns_all_whole(sc, monkeypatch, setting, least, most):
    """Of random hexadecimal digits, Spark's LZ4 saves a twentieth, zstd half."""
    text, short = random.Random(1).randbytes(100_000).hex().encode(), b"1001,item,12.50\n"
    sent = [
        ((0, (), 1, 0), (text, ((1, 5000),), short, None)),
        ((0, (), 1, 1), text),
        ((0, (), 2, 0), Fault("part-0.txt", "unreadable")),
        ((1, (b"1001",), 0, ()), (True, short)),
        ((1, (b"1002",), 0, ()), (False, None)),
    ]
    conf = sc.getConf().set("spark.shuffle.compress", setting)
    monkeypatch.setattr(type(sc), "getConf", lambda _: conf)
    shuffled = Shuffled(SparkSession(sc))
    elements = SparkRunner(sc).tasks([sent[::2], sent[1::2]]).map(_elements_of)
    received = elements.grouped(2).collect()
    assert received == sent
    assert type(received[2][1]) is Fault
    assert least < shuffled.bytes() / (2 * len(text)) < most


def _elements_of(shared: None, number: int, attempt: int, tasks: Iterable[Any]) -> list[Any]:
    return [element for task in tasks for element in task]
