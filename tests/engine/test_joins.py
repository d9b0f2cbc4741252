"""The choice of the join, and the files that each join keeps, links or splits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.errors import DataError, StateError
from mutator.plan import run_plan, splits
from mutator.plan.run_plan import Plan
from mutator.rules.key_hash import bucket_of
from mutator.storage.local import LocalStorage
from tests.support import model
from tests.support.effort import law
from tests.support.small_runs import (
    BY_FIELD,
    BY_NAME,
    KEYS,
    all_rows,
    carried_and_written,
    check_buckets,
    content,
    feed,
    known,
    managed,
    merge,
    promised,
    put,
    rows_of,
    spy,
    tombstones_of,
    unmanaged,
)
from tests.support.text_runs import Runs, scratch
from tests.support.text_worlds import make_files, make_world

# -- which join, and why


def test_join_of_a_managed_master_is_aligned(tmp_path):
    made = merge(tmp_path, managed(tmp_path, num_reducer=4), feed(tmp_path, u=[(KEYS[0], 2)]))

    assert (made.engine, made.join, made.buckets) == ("blocks", "aligned", 4)
    assert made.reason == "the master has 4 buckets by key hash, so only the feed is shuffled"


@pytest.mark.parametrize(
    ("wanted", "join", "why"),
    [
        (8, "aligned", "num.reducer says 8 buckets, made of the old ones without a shuffle"),
        (32, "aligned", "num.reducer says 32 buckets, made of the old ones without a shuffle"),
        (1, "aligned", "num.reducer says 1 bucket, made of the old ones without a shuffle"),
        (7, "shuffle", "the master's 4 buckets cannot become 7 where they lie; num.reducer says 7 buckets"),
        (64, "shuffle", "the master's 4 buckets cannot become 64 where they lie; num.reducer says 64 buckets"),
    ],
)
def test_join_when_num_reducer_changes(tmp_path, wanted, join, why):
    made = merge(tmp_path, managed(tmp_path, num_reducer=4), feed(tmp_path, u=[(KEYS[0], 2)]), num_reducer=wanted)

    assert (made.join, made.buckets) == (join, wanted)
    assert made.reason.endswith(why)
    assert len(all_rows(made.output)) == len(KEYS)


@pytest.mark.parametrize(
    ("options", "engine", "join", "why"),
    [
        ({}, "blocks", "shuffle", "no manifest with buckets, and master.unique does not promise unique IDs"),
        ({"master_unique": "true"}, "blocks", "broadcast", "promises unique IDs, and the feed of 16 bytes fits"),
        ({"master_unique": "true", "memory_bytes": 64}, "blocks", "broadcast", "the feed of 16 bytes fits"),
        (
            {"master_unique": "true", "memory_bytes": 63},
            "blocks",
            "shuffle",
            "16 bytes, as columns, is more than memory.bytes",
        ),
        (
            {"master_unique": "true", "sync_mode": "full", "deleted_record_file_prefix": ""},
            "blocks",
            "shuffle",
            "a full snapshot needs to see which IDs are absent",
        ),
        ({"master_unique": "true", "num_reducer": 2}, "blocks", "broadcast", "num.reducer has no meaning here"),
        ({"field_delim_regex": "[,;]"}, "records", "shuffle", "field.delim.regex [,;] is a pattern"),
        ({"field_delim_regex": ",,", "field_count": "any"}, "records", "shuffle", "is longer than one byte"),
    ],
)
def test_join_of_an_unmanaged_master(tmp_path, options, engine, join, why):
    rows = [(KEYS[0], 2), (b"new", 2)]
    value = b"y"
    if options.get("field_delim_regex") == ",,":
        rows, value = [], b""
    master = unmanaged(tmp_path)
    for file in master.iterdir() if not rows else ():
        file.write_bytes(file.read_bytes().replace(b",", b",,"))
    made = merge(tmp_path, master, feed(tmp_path, value, u=rows), **options)

    assert (made.engine, made.join) == (engine, join)
    assert why in made.reason


def test_join_without_a_master_is_a_shuffle(tmp_path):
    options = {"master_unique": "true", "allow_empty_master": "true"}
    made = merge(tmp_path, tmp_path / "none", feed(tmp_path, u=[(b"k", 1)]), **options)

    assert (made.join, made.buckets) == ("shuffle", 2)
    assert made.reason.startswith("there is no master yet; ")


def test_requested_engine_is_used(tmp_path):
    made = merge(tmp_path, managed(tmp_path), feed(tmp_path, u=[(KEYS[0], 2)]), engine="records")

    assert (made.engine, made.join) == ("records", "shuffle")
    assert made.reason.startswith("the records engine shuffles master and feed (it was asked for); ")


# -- aligned


@pytest.mark.parametrize("base", [BY_FIELD, BY_NAME], ids=["by field", "by file name"])
def test_bucket_without_mutations_is_carried_over_unread(tmp_path, monkeypatch, base):
    master = managed(tmp_path, base, num_reducer=4)
    master = Path(merge(tmp_path, master, feed(tmp_path, del_3=[(key, 3) for key in KEYS[:12]]), base).output)
    found = known(master)
    hot = bucket_of((KEYS[20],), 4)
    cold = {str(master / part.path) for part in found.parts() if part.bucket != hot}
    assert {part.bucket for part in found.files} == {0, 1, 2, 3}
    assert {part.bucket for part in found.beside if part.role == "tombstones"} == {0, 1, 2, 3}
    opened = []
    monkeypatch.setattr(LocalStorage, "open", spy(LocalStorage.open, opened))

    made = merge(tmp_path, master, feed(tmp_path, u_5=[(KEYS[20], 5)]), base, verify_fraction=0)

    # The first rows of one data file are compared with those of the feed.
    assert cold & {path for _, path, *_ in opened} <= {min(str(master / part.path) for part in found.files)}
    assert opened
    same, other = carried_and_written(master, made.output)
    assert same == {part.path for part in found.files if part.bucket != hot}
    assert len(other) == 1
    now = known(made.output)
    assert all(part in now.parts() for part in found.parts() if part.bucket != hot)
    for part in now.beside:  # files of tombstones and sequences, too
        if part.bucket != hot:
            assert (master / part.path).stat().st_ino == Path(made.output, part.path).stat().st_ino
    assert made.counts["master kept"] == len(KEYS) - 13
    assert made.counts["master rows"] == len(KEYS) - 12
    assert made.counts["tombstones out"] == made.counts["tombstones in"] == 12
    check_buckets(made.output)


def test_output_with_carried_files_can_be_a_master(tmp_path):
    """Both engines can read files that were carried over twice, with their tombstones."""
    path = managed(tmp_path, num_reducer=4)
    for step, key in enumerate(KEYS[:6], 2):
        path = Path(merge(tmp_path, path, feed(tmp_path, del_1=[(key, step)], u=[(KEYS[30], step)])).output)
    last = feed(tmp_path, u=[(KEYS[0], 1), (KEYS[1], 9), (KEYS[35], 9)])
    by_blocks, by_records = (merge(tmp_path, path, last, engine=engine) for engine in ("blocks", "records"))

    assert by_blocks.join == "aligned"
    assert by_blocks.counts == by_records.counts
    assert (by_blocks.counts["feed late"], by_blocks.counts["revived"]) == (1, 1)
    assert all_rows(by_blocks.output) == all_rows(by_records.output)
    assert tombstones_of(by_blocks.output) == tombstones_of(by_records.output)


def test_tombstones_expire_in_a_bucket_whose_data_is_carried_over(tmp_path):
    master = managed(tmp_path, num_reducer=4)
    master = Path(merge(tmp_path, master, feed(tmp_path, del_1=[(key, 3) for key in KEYS[:12]])).output)
    later = 1_800_000_000_000 + 10_000

    kept = merge(tmp_path, master, feed(tmp_path), now=later, tombstone_retention="1h")
    made = merge(tmp_path, master, feed(tmp_path), now=later, tombstone_retention="5s")

    assert (kept.counts["expired"], len(tombstones_of(kept.output))) == (0, 12)
    assert (made.counts["expired"], tombstones_of(made.output), made.horizon) == (12, {}, "3")
    for output in (kept.output, made.output):
        same, other = carried_and_written(master, output)
        assert (len(same), other) == (4, set())
    assert made.counts["master kept"] == len(KEYS) - 12


def test_dry_run_of_a_bucket_that_is_carried_over_writes_nothing(tmp_path):
    master, changes = managed(tmp_path, num_reducer=4), feed(tmp_path, u=[(KEYS[0], 2)])
    before = sorted(tmp_path.rglob("*"))
    made = merge(tmp_path, master, changes, dry_run=True)

    assert sorted(tmp_path.rglob("*")) == before
    assert made.counts == merge(tmp_path, master, changes).counts


def test_bucket_is_copied_where_there_are_no_hard_links(tmp_path, monkeypatch):
    master = managed(tmp_path, num_reducer=4)
    monkeypatch.setattr(LocalStorage, "link_new", lambda *_: False)
    made = merge(tmp_path, master, feed(tmp_path, u=[(KEYS[0], 2)]), verify_fraction=0)

    assert carried_and_written(master, made.output)[0] == set()
    hot = bucket_of((KEYS[0],), 4)
    cold = [part for part in known(master).files if part.bucket != hot]
    assert all(part in known(made.output).files for part in cold)
    for part in cold:
        assert Path(made.output, part.path).read_bytes() == (master / part.path).read_bytes()

    damaged = master / cold[0].path
    content_of_it = damaged.read_bytes()
    damaged.write_bytes(b"?" + content_of_it[1:])
    outputs = sorted(tmp_path.glob("output*"))
    with pytest.raises(StateError, match="its checksum is") as fault:
        merge(tmp_path, master, feed(tmp_path, u=[(KEYS[0], 2)]))
    assert fault.value.kind == "manifest.damage"
    assert str(damaged) in str(fault.value)
    assert sorted(tmp_path.glob("output*")) == outputs


def test_managed_master_without_rows_accepts_an_empty_feed(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    master = merge(tmp_path, empty, feed(tmp_path), num_reducer=2, allow_empty_master="true").output
    made = merge(tmp_path, master, feed(tmp_path))

    assert (made.join, made.buckets, made.counts["output rows"]) == ("aligned", 2, 0)
    made = merge(tmp_path, made.output, feed(tmp_path, u=[(b"k", 1)]))
    assert all_rows(made.output) == [b"k,1,y"]


# -- growing and shrinking


@pytest.mark.parametrize("base", [BY_FIELD, BY_NAME], ids=["by field", "by file name"])
def test_buckets_that_outgrow_their_size_double_without_a_shuffle(tmp_path, base):
    path = managed(tmp_path, base, num_reducer=2)
    order = {key: at for at, key in enumerate(row.split(b",")[0] for rows in rows_of(path).values() for row in rows)}
    plans: list[Plan] = []
    many = feed(tmp_path, u_5=[(b"new%03d" % at, 5) for at in range(100)], del_6=[(KEYS[0], 6), (b"new000", 6)])
    made = merge(tmp_path, path, many, base, plans=plans, bucket_bytes=100)

    (plan,) = plans
    assert (plan.strategy.join, plan.groups, plan.master_buckets, made.buckets) == ("aligned", 2, 2, 8)
    assert "the 2 buckets outgrew bucket.bytes" in made.reason
    check_buckets(made.output)
    for rows in rows_of(made.output).values():
        keys = [row.split(b",")[0] for row in rows]
        old_keys = [key for key in keys if key in order]
        assert keys == sorted(old_keys, key=order.__getitem__) + sorted(key for key in keys if key not in order)
    assert tombstones_of(made.output).keys() == {KEYS[0], b"new000"}
    assert len(all_rows(made.output)) == len(KEYS) + 98


@pytest.mark.parametrize("base", [BY_FIELD, BY_NAME], ids=["by field", "by file name"])
def test_buckets_split_and_join_as_in_the_other_engine(tmp_path, base):
    """The rows of several files keep the order of the file names, whichever task wrote them."""
    ends = {}
    for engine in ("records", "blocks"):
        path = managed(tmp_path, base, engine=engine, num_reducer=2)
        steps = []
        for step, buckets in enumerate([4, 1, 2, 8, 7, 2, 4, 7], 5):
            changes = {f"u_{step}": [(KEYS[step], step)], f"del_{step}": [(KEYS[step + 10], step)]}
            made = merge(tmp_path, path, feed(tmp_path, **changes), base, engine=engine, num_reducer=buckets)
            check_buckets(made.output)
            steps.append({bucket_path[:10]: rows for bucket_path, rows in rows_of(made.output).items()})
            path = Path(made.output)
        ends[engine] = steps
    assert ends["blocks"] == ends["records"]


# -- broadcast


@pytest.mark.parametrize("base", [BY_FIELD, BY_NAME], ids=["by field", "by file name"])
def test_broadcast_leaves_the_rows_in_their_files(tmp_path, base):
    master = unmanaged(tmp_path, files=3)
    changes = feed(tmp_path, u_5=[(KEYS[0], 5), (b"new", 5), (b"another", 5)], del_6=[(KEYS[1], 6), (b"gone", 6)])
    made = merge(tmp_path, master, changes, base, **promised(split_bytes=100))

    merged_again = known(made.output)
    assert (made.join, made.buckets, merged_again.bucket_count, merged_again.commit.hash) == (
        "broadcast",
        None,
        None,
        "",
    )
    assert all(part.bucket is None for part in merged_again.parts())
    rows = list(rows_of(made.output).values())
    assert list(rows_of(made.output)) == sorted(rows_of(made.output))
    before = [row for at in range(3) for row in (master / f"m{at}.txt").read_bytes().splitlines()]
    updated = KEYS[0] + b",5,y"
    kept = [updated if row.startswith(KEYS[0]) else row for row in before if not row.startswith(KEYS[1])]
    *unchanged, inserted = rows
    assert [row for part in unchanged for row in part] == kept
    assert len(unchanged) > 2
    assert inserted == [b"another,5,y", b"new,5,y"]
    assert tombstones_of(made.output) == {KEYS[1]: b"6", b"gone": b"6"}


def test_broadcast_honours_tombstones_and_then_becomes_bucketed(tmp_path):
    first = merge(tmp_path, unmanaged(tmp_path), feed(tmp_path, del_1=[(KEYS[1], 6), (KEYS[2], 6)]), **promised())
    again = feed(tmp_path, u=[(KEYS[1], 5), (KEYS[2], 7), (KEYS[3], 7)])
    second = merge(tmp_path, first.output, again, **promised())

    assert second.join == "broadcast"
    assert (second.counts["feed late"], second.counts["revived"], second.counts["feed updated"]) == (1, 1, 1)
    assert tombstones_of(second.output) == {KEYS[1]: b"6"}

    third = merge(tmp_path, second.output, feed(tmp_path, u=[(KEYS[1], 4)]), num_reducer=3)
    assert (third.join, third.buckets, third.counts["feed late"]) == ("shuffle", 3, 1)
    assert all_rows(third.output) == all_rows(second.output)
    assert tombstones_of(third.output) == {KEYS[1]: b"6"}
    check_buckets(third.output)
    fourth = merge(tmp_path, third.output, feed(tmp_path, u=[(KEYS[1], 8)]))
    assert (fourth.join, fourth.counts["revived"]) == ("aligned", 1)


@law(60)
@given(rng=st.randoms(use_true_random=False))
def test_broadcast_and_shuffle_give_the_same(rng):
    world = make_world(rng, bad=rng.random() < 0.5, most=6)
    rows = [row for file in world.master for row in file.rows(world.shape)]
    if not rows or len(model.last(rows)) != len(rows):
        return
    split = rng.choice([9, 60, 1 << 20])
    retention = {"tombstone_retention": "1s"} if rng.random() < 0.5 else {}
    second = make_files(rng, world.shape, 2, of_master=False, bad=False, most=4, places=2)
    ends = []
    for unique in ("true", "false"):
        with scratch() as work:
            run = Runs(work, world.shape)
            run.now = 1_800_000_000_000
            one = run(run.master(world.master), world.feed, master_unique=unique, split_bytes=split, **retention)
            run.now += 3000
            two = run(one.path, second, master_unique=unique, split_bytes=split, **retention)
            ends.append((content(one), content(two), one.records, two.records))
    assert one.report.join == "shuffle"
    names = ["tombstones", "counts", "samples", "horizon", "rejects", "consumed"]
    for by_broadcast, by_shuffle in zip(*(end[:2] for end in ends), strict=True):
        assert {name: by_broadcast[name] for name in names} == {name: by_shuffle[name] for name in names}
    assert ends[0][2:] == ends[1][2:]


@pytest.mark.parametrize("split", [1 << 20, 9], ids=["in one task", "in two tasks"])
def test_broadcast_mutation_of_an_id_with_two_rows(tmp_path, split):
    master = unmanaged(tmp_path)
    put(master / "m9.txt", [(KEYS[0], 1), (KEYS[1], 1)])
    with pytest.raises(DataError, match=r"several rows for 1 ID that the feed mutates, for example k00;") as fault:
        merge(tmp_path, master, feed(tmp_path, u=[(KEYS[0], 5), (KEYS[2], 5)]), **promised(split_bytes=split))

    assert (fault.value.kind, fault.value.exit_code) == ("master.twice", 3)
    assert list(tmp_path.glob("output*")) == []
    assert list(tmp_path.glob(".output*")) == []


def test_splits_of_a_large_feed_are_larger_and_its_tasks_are_more(tmp_path, monkeypatch):
    monkeypatch.setattr(run_plan, "_LARGE", 1)
    monkeypatch.setattr(splits, "_OPENING", 0)
    plans, few, many = [], [(b"n%05d" % at, 2) for at in range(100)], [(b"k%05d" % at, 2) for at in range(2000)]
    first = merge(tmp_path, unmanaged(tmp_path), feed(tmp_path, a=few), plans=plans, split_bytes=1600)
    report = merge(tmp_path, Path(first.output), feed(tmp_path, a=few, b=many), plans=plans, split_bytes=1600)
    assert [plan.chunks.feed for plan in plans] == [100, 400]
    assert len(plans[1].tasks) >= 16
    # A checksum says the size of its chunks, so a file that was merged before is known.
    assert (len(report.consumed), report.counts["feed inserted"]) == (1, len(many))
