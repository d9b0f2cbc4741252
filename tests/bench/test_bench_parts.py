"""The benchmark of many partitions and of many tables: its data, the plans of Spark SQL, its figures."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.columns import convert
from bench.contenders.spark_sql_loop import main as loop
from bench.contenders.spark_sql_partitions import TABLE, SparkSqlPartitions
from bench.digest import data_files, digest, partition_of
from bench.figures import Outcome, Result, Run, remarks, targets
from bench.layout import PARTITIONED_FEED_FIELDS, PARTITIONED_MASTER_FIELDS
from bench.partitioned import TOUCHED, write_partitioned_feed, write_partitioned_master
from bench.report import markdown, table
from bench.tables import write_feeds, write_masters
from bench.workload import workloads

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS, ROWS, MUTATIONS = 20, 1000, 200
SETTINGS = {"spark.sql.sources.partitionOverwriteMode": "dynamic", "spark.sql.shuffle.partitions": "2"}


def rows_of(directory):
    lines = [line for path in data_files(directory) for line in path.read_text(encoding="ascii").splitlines()]
    return [line.split(",") for line in lines]


# --- data


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    directory = tmp_path_factory.mktemp("text")
    write_partitioned_master(directory / "master", PARTITIONS, ROWS)
    write_partitioned_feed(directory / "feed", PARTITIONS, ROWS, MUTATIONS)
    return directory


@pytest.fixture(scope="module")
def parquet(text, tmp_path_factory):
    directory = tmp_path_factory.mktemp("parquet")
    convert(text / "master", directory / "master", PARTITIONED_MASTER_FIELDS, "parquet")
    convert(text / "feed", directory / "feed", PARTITIONED_FEED_FIELDS, "parquet")
    return directory


def merged(directory):
    """Return the rows after a merge of the feed, computed in the simplest way."""
    last = {}
    for row in [*([*row, "U"] for row in rows_of(directory / "master")), *rows_of(directory / "feed")]:
        if row[0] not in last or int(row[5]) > int(last[row[0]][5]):
            last[row[0]] = row
    return [row[:-1] for row in last.values() if row[-1] != "D"]


def test_rows_are_in_the_directory_of_their_store(text):
    for path in data_files(text / "master"):
        rows = rows_of(path.parent)
        assert len(rows) == ROWS // PARTITIONS
        assert {f"store={row[1]}" for row in rows} == {path.parent.name}
    assert len({row[0] for row in rows_of(text / "master")}) == ROWS


def test_a_feed_touches_a_few_partitions_and_moves_no_record(text):
    stores = {row[0]: row[1] for row in rows_of(text / "master")}
    feed = rows_of(text / "feed")
    inserted = [row for row in feed if row[0] not in stores]

    assert len(feed) == MUTATIONS
    assert len({row[1] for row in feed}) == TOUCHED
    assert all(stores.get(row[0], row[1]) == row[1] for row in feed)
    assert len(inserted) == len({row[0] for row in inserted}) == MUTATIONS // 10
    assert len({row[1] for row in inserted}) == TOUCHED


def test_a_seed_gives_the_same_partitions_and_tables(text, tmp_path):
    write_partitioned_master(tmp_path / "master", PARTITIONS, ROWS)
    write_partitioned_feed(tmp_path / "feed", PARTITIONS, ROWS, MUTATIONS)
    for name in ("one", "two"):
        write_feeds(tmp_path / name, 3, 300, 30)

    for one, other in (("master", text / "master"), ("feed", text / "feed"), ("one", tmp_path / "two")):
        assert digest(data_files(tmp_path / one), tmp_path / one) == digest(data_files(other), other)


def test_each_table_has_its_own_master_and_feed(tmp_path):
    write_masters(tmp_path / "masters", 3, 300)
    write_feeds(tmp_path / "feeds", 3, 300, 30)

    assert [path.name for path in sorted((tmp_path / "feeds").iterdir())] == ["table_000", "table_001", "table_002"]
    for directory in (tmp_path / "masters").iterdir():
        keys = {row[0] for row in rows_of(directory)}
        assert len(keys) == 100
        (feed,) = (tmp_path / "feeds" / directory.name).iterdir()
        assert len(rows_of(feed.parent)) == 10
        assert sum(row[0] in keys for row in rows_of(feed.parent)) == 9
    assert len({path.read_bytes() for path in data_files(tmp_path / "masters")}) == 3


# --- digest


def whole(directory):
    return digest(data_files(directory), directory)


def test_columns_of_partitions_have_the_rows_of_the_text(text, parquet):
    assert whole(parquet / "master") == whole(text / "master")
    assert len(data_files(parquet / "master")) == PARTITIONS


def test_a_field_in_the_directory_name_is_in_the_digest(parquet, tmp_path):
    """Spark writes such files."""
    shutil.copytree(parquet / "master", tmp_path / "master")
    for path in data_files(tmp_path / "master"):
        pq.write_table(pq.ParquetFile(path).read().drop_columns("store"), path)

    assert whole(tmp_path / "master") == whole(parquet / "master")


def test_a_row_in_another_directory_is_noticed(text, parquet, tmp_path):
    for directory in (text, parquet):
        shutil.copytree(directory / "master", tmp_path / directory.name)
        (tmp_path / directory.name / "store=3").rename(tmp_path / directory.name / "store=99")

    assert whole(tmp_path / text.name) != whole(text / "master")
    with pytest.raises(ValueError, match="store=99 contains a row of another store"):
        whole(tmp_path / parquet.name)


def test_a_directory_need_not_name_a_partition():
    assert partition_of("country=ch/store=7") == {"country": "ch", "store": "7"}
    assert partition_of("table_001") == {}


# --- Spark SQL


@pytest.fixture
def spark(sc):
    session = SparkSession.getActiveSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    yield session
    for name in SETTINGS:
        session.conf.unset(name)
    session.sql(f"drop table if exists {TABLE}")


QUICK = {("window", "whole", "text"), ("left join", "catalogue", "parquet")}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("plan", "reach", "form"),
    [
        pytest.param(plan, reach, form, marks=() if (plan, reach, form) in QUICK else pytest.mark.soak)
        for plan in ("window", "left join")
        for reach in ("whole", "touched", "named", "catalogue")
        for form in ("text", "parquet")
    ],
)
def test_a_plan_of_spark_sql_merges_into_partitions(spark, text, plan, reach, form, request, tmp_path):
    directory = request.getfixturevalue(form)
    contender = SparkSqlPartitions(plan, reach)
    contender.spark = spark
    (tmp_path / "expected").mkdir()
    for row in merged(text):
        path = tmp_path / "expected" / f"store={row[1]}" / "rows"
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="ascii") as file:
            file.write(",".join(row) + "\n")

    contender.prepare(directory / "master", tmp_path)
    for _ in range(2):
        contender.reset()
        contender.run(directory / "feed", tmp_path / "output")
        assert whole(contender.export(tmp_path / "output", tmp_path / "text")) == whole(tmp_path / "expected")

    left_alone = {row[1] for row in merged(text)} - {row[1] for row in rows_of(text / "feed")}
    rewritten = [
        store for store in left_alone if not same_file(directory / "master", contender.table, f"store={store}")
    ]
    assert len(left_alone) == PARTITIONS - TOUCHED
    assert len(rewritten) == (PARTITIONS - TOUCHED if reach == "whole" else 0)


def same_file(master, table, partition):
    (before,), (after,) = (data_files(directory / partition) for directory in (master, table))
    return before.samefile(after)


# --- figures


def made_up(works, seconds):
    return [
        Outcome(workload, tuple(Result(name, [Run(time, 0, 0, 0)]) for name, time in found.items()))
        for workload, found in zip(works, seconds, strict=True)
    ]


def reached(outcomes, beginning):
    return [target for target in targets(outcomes) if target.text.startswith(beginning)]


def test_the_targets_of_partitions_follow_from_the_figures():
    ours = {"mutator partition scope": 1.0, "mutator table scope": 1.25}
    theirs = {"spark sql whole window": 40.0, "spark sql whole left join": 19.0, "spark sql named window": 3.0}
    outcomes = made_up(workloads(12_000_000, "partitions"), [ours | theirs, {}])

    assert [target.reached for target in reached(outcomes, "partitions:")] == [False, None, True, None]
    assert [target.reached for target in reached(outcomes, "partitions, Parquet:")] == [None] * 4
    assert remarks(outcomes[0]) == ["mutator table scope: +0.25 s, 1.25 times mutator partition scope"]
    assert "× partition scope" in table(outcomes[0]).splitlines()[1]
    assert "| × partition scope | × table scope |" in markdown(outcomes, {})


def test_ten_times_the_partitions_are_compared_with_the_few():
    outcomes = made_up(workloads(12_000_000, "partition-scaling"), [{"mutator partition scope": t} for t in (2.0, 3.2)])

    (target,) = reached(outcomes[::-1], "10 times")

    assert (target.reached, target.measured) == (False, "1.60 times (2.00 s, 3.20 s)")


def test_single_runs_are_scaled_to_all_tables():
    seconds = [{"mutator run-many": 20.0, "spark sql loop window": 39.0}, {"mutator single runs": 15.0}]
    outcomes = made_up(workloads(12_000_000, "tables"), seconds)

    loops, single, seconds = reached(outcomes, "tables:")

    assert (loops.reached, single.reached, seconds.reached) == (False, True, False)
    assert single.measured == "7.50 times (20.00 s against 150.00 s, 15.00 s for 20 of 200)"


def test_whole_processes_are_compared_with_seconds_and_with_polars():
    works = workloads(12_000_000, "small")
    seconds = [
        {"mutator run raw": 0.6},
        {"mutator run raw": 0.9, "mutator run aligned": 0.5, "polars process": 0.7},
        {"mutator run aligned": 3.0, "mutator run on spark": 6.0, "polars process": 2.0},
        {"mutator --help": 0.3, "mutator verify": 0.5},
    ]

    outcomes = made_up(works, seconds)

    assert [target.reached for target in reached(outcomes, "whole process")] == [True, False, True, False, True]
    assert [target.reached for target in reached(outcomes, "mutator ")] == [False, True, None]


def test_a_small_workload_has_few_partitions():
    large = workloads(12_000_000, "partition-scaling")[1]
    small = large.small(200_000)

    assert (large.parts, small.parts, small.rows) == (10_000, 20, 200_000)
    assert workloads(5000, "partitions")[0].small(200_000).parts == 20
    assert workloads(4_000_000, "5%")[0].small(200_000).mutations == 10_000


# --- everything


@pytest.mark.soak
def test_a_loop_of_spark_sql_merges_each_table(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("bench.contenders.spark_sql.session", lambda scratch: spark)
    monkeypatch.setattr("bench.contenders.spark_sql.SparkSql.stop", lambda self: None)
    write_masters(tmp_path / "masters", 2, 400)
    write_feeds(tmp_path / "feeds", 2, 400, 40)

    for plan in ("window", "anti_join"):
        loop(plan, *(tmp_path / name for name in ("masters", "feeds", plan, "scratch")))

    assert whole(tmp_path / "window") == whole(tmp_path / "anti_join")
    assert {path.name for path in (tmp_path / "window").iterdir()} == {"table_000", "table_001"}
    assert 396 <= whole(tmp_path / "window").rows <= 404


@pytest.mark.soak
@pytest.mark.parametrize("work", ["partitions", "partition-scaling", "tables"])
def test_a_small_run_of_many(work, tmp_path):
    command = [sys.executable, "-m", "bench", "--size", "5000", "--work", work, "--repeat", "2", "--out", tmp_path]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False)

    assert done.returncode == 0, done.stderr
    for outcome in json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["outcomes"]:
        results = [result for result in outcome["results"] if result["runs"]]
        assert results
        assert all(result["digest"] == results[0]["digest"] for result in results)
