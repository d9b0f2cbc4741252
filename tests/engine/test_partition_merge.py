"""Partitioned masters: a run for each partition equals one run over all, with and without Spark; refused settings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutator
from mutator import config
from mutator.engine.each import in_turn
from mutator.engine.local.processes import Processes
from mutator.engine.partitions.locate import located
from mutator.errors import ConfigError, DataError, MutatorError, StateError
from mutator.pipeline import merge
from mutator.pipeline.runners import engine_on
from mutator.rules.partition_fields import parse_fields
from mutator.workflow.partitions import split
from tests.support import local_engine
from tests.support.effort import law
from tests.support.job import snapshot
from tests.support.no_limits import NO_LIMITS
from tests.support.partition_trees import put_all, rows_by_directory, run
from tests.support.partition_worlds import TableRuns, draw_table, files_of, make_speed
from tests.support.text_runs import scratch

CONFIG = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", **NO_LIMITS}
BY = {**CONFIG, "partitioned.by": "shop=2"}
ODD = [b"/", b"=", b"%", b"%2F", b"", b"..", b".", b"../../x", b"a/b=c", b"\x01\x7f", b"\xff\xfe", b"\xc3\xa9", b" x "]


def rows_of(directory: Path) -> list[bytes]:
    return sorted(row for rows in rows_by_directory(directory).values() for row in rows)


@given(st.integers(0, 1 << 30))
@law(8)
def test_one_run_for_each_partition_equals_one_run_over_all(seed):
    """With key.scope=partition, for fields and for values derived from them."""
    rng = random.Random(seed)
    by = rng.choice(["k=2", "day=date(3)", "y=year(3),k=2", "prefix(2,1)", "bucket(2,3)"])
    settings_ = {**CONFIG, "deleted.record.file.prefix": "del", "allow.empty.master": "true"}

    def rows(count: int) -> bytes:
        days = [b"2026-01-31T23:30:00-01:00", b"2026-02-01", b""]
        return b"".join(
            b"%d,%d,%s,%s\n" % (rng.randrange(5), rng.randrange(4), rng.choice([b"", b"ab", b"a/"]), rng.choice(days))
            for _ in range(count)
        )

    with scratch() as root:
        master = put_all(root / "m", {"a.txt": rows(12)})
        feed = put_all(root / "f", {"ups_1.txt": rows(8), "ups_2.txt": rows(4), "del_3.txt": rows(3)})
        for source, to in ((master, "ms"), (feed, "fs")):
            split.split_feed(config.parse(settings_), parse_fields(by), [source], str(root / to), in_turn)
        run({**settings_, "partitioned.by": by, "key.scope": "partition"}, master, feed, root / "whole")
        whole = rows_by_directory(root / "whole")
        parts = {str(path.parent.relative_to(root / to)) for to in ("ms", "fs") for path in (root / to).rglob("*.txt")}
        for number, part in enumerate(sorted(parts)):
            fed = str(root / "fs" / part) if (root / "fs" / part).is_dir() else None
            run(settings_, str(root / "ms" / part), fed, root / f"one{number}")
            alone = sorted(row for rows in rows_by_directory(root / f"one{number}").values() for row in rows)
            assert sorted(whole.pop(part, [])) == alone
        assert not whole


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_odd_values_stay_inside_the_output(tmp_path, scope):
    rows = b"".join(b"%d,1,%s\n" % (number, value) for number, value in enumerate(ODD))
    settings_ = {**BY, "key.scope": scope, "reject.policy": "quarantine"}
    (tmp_path / "in").mkdir()
    before = put_all(tmp_path / "in" / "m", {"a.txt": b""})
    run({**settings_, "allow.empty.master": "true"}, before, None, tmp_path / "in" / "o1")
    feed = put_all(tmp_path / "in" / "f", {"u.txt": rows + b"long,1," + b"z" * 300 + b"\n"})
    known = set(snapshot(tmp_path))
    report = run(settings_, str(tmp_path / "in" / "o1"), feed, tmp_path / "in" / "o2")
    inside = bytes(tmp_path / "in" / "o2")

    assert all(path == inside or path.startswith(inside + b"/") for path in set(snapshot(tmp_path)) - known)
    assert report.counts["feed rejected"] == 1
    assert "is longer than a directory's name can be" in report.rejects["feed"][0]["reason"]
    assert rows_of(tmp_path / "in" / "o2") == sorted(rows.splitlines())
    assert len(rows_by_directory(tmp_path / "in" / "o2")) == len(ODD)
    # All of them are found again.
    feed = put_all(tmp_path / "in" / "g", {"v.txt": rows.replace(b",1,", b",2,")})
    again = run(settings_, str(tmp_path / "in" / "o2"), feed, tmp_path / "in" / "o3")
    assert again.counts["feed updated"] == len(ODD)


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_processes_start_for_partitions_that_are_merged_alone(tmp_path, monkeypatch, scope):
    """A run that changes one of many partitions reads little, however large the master is."""
    monkeypatch.setattr("mutator.plan.runner_choice._ONE_PROCESS", 100_000)
    monkeypatch.setattr("mutator.pipeline.runners.usable_cores", lambda: 2)
    started = []

    def in_this_process(self: Processes, tasks: Any, watch: Any = None) -> list[Any]:
        started.append(len(tasks))
        return [task() for task in tasks]

    monkeypatch.setattr(Processes, "run", in_this_process)
    settings = {**CONFIG, "partitioned.by": "place=2", "key.scope": scope, "op.code.field.ordinal": "4"}
    content = b"x" * 60
    place = put_all(tmp_path / "m", {"m.txt": b"".join(b"%d,1,%d,%s\n" % (n, n % 20, content) for n in range(8000))})
    master = run({**settings, "op.code.in.master": "false"}, place, None, tmp_path / "parted").output

    def processes_of(name: str, partitions: range) -> list[int]:
        rows = b"".join(b"%d,2,%d,x,U\n" % (n, n) for n in partitions)
        feed = put_all(tmp_path / name, {"f_1.txt": rows})
        started.clear()
        how = {"master": master, "feed": feed, "output": str(tmp_path / f"{name}-out")}
        report = merge.run(engine_on("auto", None), {**settings, "write.operation": "insert_overwrite"}, **how)
        assert report.runner.startswith("local, this process and up to 2 more: ")
        assert report.counts["output rows"] == 8000 - 399 * len(partitions)
        return list(started)

    one, every = processes_of("one", range(1)), processes_of("all", range(20))
    if scope == "partition":
        assert one == []
    assert len(one) < len(every)  # where records may move, they are looked for in all processes


def test_processes_look_for_records_in_a_large_master(tmp_path, monkeypatch):
    """A small feed of moving records reads files of all partitions that they may come from."""
    monkeypatch.setattr("mutator.plan.runner_choice._ONE_PROCESS", 100_000)
    monkeypatch.setattr("mutator.pipeline.runners.usable_cores", lambda: 2)
    inside, found = [False], set()

    def in_this_process(self: Processes, tasks: Any, watch: Any = None) -> list[Any]:
        inside[0] = True
        try:
            return [task() for task in tasks]
        finally:
            inside[0] = False

    def noted(*parts: Any) -> Any:
        found.add(inside[0])
        return located(*parts)

    monkeypatch.setattr(Processes, "run", in_this_process)
    monkeypatch.setattr("mutator.engine.partitions.partition_steps.located", noted)
    settings = {**CONFIG, "partitioned.by": "place=2"}
    content = b"x" * 60
    place = put_all(tmp_path / "m", {"m.txt": b"".join(b"%d,1,%d,%s\n" % (n, n % 20, content) for n in range(8000))})
    master = run(settings, place, None, tmp_path / "parted").output

    rows = b"".join(b"%d,2,%d,x\n" % (n, (n + 1) % 20) for n in range(20))
    feed = put_all(tmp_path / "f", {"f_1.txt": rows})
    report = merge.run(engine_on("auto", None), settings, master=master, feed=feed, output=str(tmp_path / "out"))

    assert report.counts["feed updated"] == 20
    assert found == {True}


def test_a_dry_run_counts_and_writes_nothing(tmp_path):
    master = put_all(tmp_path / "m", {"a.txt": b"a,1,x\nb,1,y\n"})
    feed = put_all(tmp_path / "f", {"u.txt": b"a,2,y\nc,2,z\n"})
    run(BY, master, None, tmp_path / "one")
    before = snapshot(tmp_path)
    dry = run(BY, str(tmp_path / "one"), feed, tmp_path / "two", dry_run=True)
    assert snapshot(tmp_path) == before
    wet = run(BY, str(tmp_path / "one"), feed, tmp_path / "two")

    assert (dry.counts, dry.partitions) == (wet.counts, wet.partitions)
    again = run(BY, str(tmp_path / "two"), feed, tmp_path / "three")  # the master whose files were consumed
    assert again.counts["feed rows"] == 0
    assert again.partitions == []
    assert rows_by_directory(tmp_path / "three") == rows_by_directory(tmp_path / "two")


def test_max_delete_fraction_counts_partitions_that_nothing_came_for(tmp_path):
    master = put_all(tmp_path / "m", {"a.txt": b"a,1,x\nb,1,y\nc,1,z\n"})
    feed = put_all(tmp_path / "f", {"del_1.txt": b"a,2,x\n"})
    run(BY, master, None, tmp_path / "one")
    settings_ = {**BY, "deleted.record.file.prefix": "del", "max.delete.fraction": "0.4"}
    report = run(settings_, str(tmp_path / "one"), feed, tmp_path / "two")
    assert report.counts["feed deleted"] == 1
    with pytest.raises(DataError, match=r"max\.delete\.fraction"):
        run({**settings_, "max.delete.fraction": "0.3"}, str(tmp_path / "one"), feed, tmp_path / "three")


# -- refused settings and inputs


def refused(work: Path, settings_: dict[str, str], master: str, family: type, *parts: str, **how: Any) -> None:
    feed = put_all(work / "fed", {"u.txt": b"a,2,y\n"})
    before = snapshot(work)
    with pytest.raises(MutatorError) as caught:
        run(settings_, master, feed, work / "refused", **how)
    assert isinstance(caught.value, family), str(caught.value)
    assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)
    assert snapshot(work) == before


@pytest.mark.parametrize(
    ("change", "family", "parts"),
    [
        (
            {"partitioned.by": "shop=9"},
            ConfigError,
            ["partitioned.by", "field 9 is beyond the 3 fields"],
        ),
        ({"partitioned.by": "shop"}, ConfigError, ["partitioned.by", "'shop' is a name", "set field.names"]),
        ({"partitioned.by": "week(2)"}, ConfigError, ["partitioned.by", "is not a transform", "date, year, month"]),
        ({"key.scope": "row"}, ConfigError, ["key.scope", "'row'", "table", "partition"]),
        ({"op.code.field.ordinal": "2"}, ConfigError, ["partitioned.by", "field 2 is also the op.code.field.ordinal"]),
        ({"field.delim.regex": r"\s*,\s*"}, ConfigError, ["merges a partitioned master", "a delimiter of one byte"]),
    ],
)
def test_impossible_settings(tmp_path, change, family, parts):
    master = put_all(tmp_path / "m", {"a.txt": b"a,1,x\n"})
    refused(tmp_path, {**BY, **change}, master, family, *parts)


def test_the_records_engine_is_refused(tmp_path):
    master = put_all(tmp_path / "m", {"a.txt": b"a,1,x\n"})
    why = "--engine records is asked for, but only the blocks engine merges a partitioned master; leave --engine out"
    refused(tmp_path, BY, master, ConfigError, why, engine="records")


@pytest.mark.parametrize("change", [{"partitioned.by": "place=2"}, {"partitioned.by": "2"}, {"key.scope": "partition"}])
def test_settings_that_differ_from_the_manifest(tmp_path, change):
    run(BY, put_all(tmp_path / "m", {"a.txt": b"a,1,x\n"}), None, tmp_path / "one")
    parts = (str(tmp_path / "one"), "partitions = by shop=2, scope table", "use the same setting", "master.adopt=true")
    refused(tmp_path, {**BY, **change}, str(tmp_path / "one"), StateError, *parts)


def test_tombstones_without_a_partition(tmp_path):
    feed = put_all(tmp_path / "f", {"del_1.txt": b"a,2,x\n"})
    settings_ = {**CONFIG, "deleted.record.file.prefix": "del"}
    run(settings_, put_all(tmp_path / "m", {"a.txt": b"a,1,x\nb,1,x\n"}), feed, tmp_path / "one")
    by = {**BY, "key.scope": "partition"}
    parts = (
        str(tmp_path / "one"),
        "tombstones of records without a partition",
        "set key.scope=table",
        "master.adopt=true",
    )
    refused(tmp_path, by, str(tmp_path / "one"), StateError, *parts)
    fresh = put_all(tmp_path / "g", {"u.txt": b"a,1,y\n"})
    adopted = run({**by, "master.adopt": "true"}, str(tmp_path / "one"), fresh, tmp_path / "two")
    assert adopted.counts["feed inserted"] == 1


def test_a_field_of_floats_cannot_give_partitions(tmp_path):
    for name, at in (("m", 1), ("f", 2)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"id": ["a"], "at": [at], "price": [1.5]}), tmp_path / name / "x.parquet")
    settings_ = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", "partitioned.by": "price"}
    with pytest.raises(DataError) as caught:
        run(settings_, str(tmp_path / "m"), str(tmp_path / "f"), tmp_path / "out")
    assert "price" in str(caught.value)
    assert "is of type double, and a partition cannot be made of it" in str(caught.value)


# -- on Spark


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize(("scope", "seed"), [("table", 1), ("partition", 2)])
def test_spark_and_the_local_engine_leave_the_same_files(sc, scope, seed):
    """Start with an unmanaged master, which becomes a partitioned one; then run a second time."""

    def spark(config: dict[str, str], **options: Any) -> mutator.Report:
        return mutator.mutate(sc, config, **{name: options[name] for name in ("master", "feed", "output")})

    rng = random.Random(seed)
    table = draw_table(rng, scope)
    master = [file for file in files_of(rng, table, 3, of_master=True, most=12) if not file.place]
    feeds = [files_of(rng, table, 4, bad=True, most=12) for _ in range(2)]
    speeds = [{**make_speed(rng), "split_bytes": 200, "num_reducer": 3} for _ in feeds]
    with scratch() as work:
        made = []
        for name, engine in (("spark", spark), ("local", local_engine.mutate)):
            (work / name).mkdir()
            runs = TableRuns(work / name, table, engine)
            runs.now = 1_800_000_000_000
            path, found = runs.flat(master), []
            for feed, speed in zip(feeds, speeds, strict=True):
                found.append(runs(path, feed, **speed))
                path, runs.now = found[-1].path, runs.now + 1000
            made.append(found)
    for one, other in zip(*made, strict=True):
        assert one.report.tasks >= 2
        assert one.records == other.records
        assert len(one.records) > 1
        assert (one.tombstones, one.places, one.buckets) == (other.tombstones, other.places, other.buckets)
        assert (one.counts, one.report.samples) == (other.counts, other.report.samples)
        assert one.report.partitions == other.report.partitions


def test_a_partition_field_behind_the_op_code_is_known_from_the_manifest(tmp_path):
    """It is field 3 of the feed's rows, and field 2 of those that are written."""
    known = {**CONFIG, "op.code.field.ordinal": "2", "op.code.in.master": "false"}
    before = put_all(tmp_path / "m", {"m.txt": b"1,1,north\n2,1,south\n"})
    feeds = [put_all(tmp_path / f"f{at}", {f"u_{at}.txt": b"1,%d,U,south\n3,%d,U,north\n" % (at, at)}) for at in (2, 3)]
    run({**known, "partitioned.by": "store=3"}, before, feeds[0], tmp_path / "o1")
    run(known, str(tmp_path / "o1"), feeds[1], tmp_path / "o2")

    assert rows_by_directory(tmp_path / "o2") == {
        "store=north": [b"3,3,north"],
        "store=south": [b"1,3,south", b"2,1,south"],
    }
