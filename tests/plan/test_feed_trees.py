"""A feed directory with partition directories is read as a whole."""

import pyarrow as pa
import pytest

from mutator.errors import ConfigError, DataError
from tests.support.job import CONFIG, rows
from tests.support.named_runs import BY_ID, Work


def put(job, path, content):
    (job.feed / path).parent.mkdir(parents=True, exist_ok=True)
    (job.feed / path).write_bytes(content)


def test_all_partitions_of_a_feed(job):
    put(job, "year=2026/month=01/ups_1.txt", b"a,2,200\n")
    put(job, "year=2026/month=02/ups_1.txt", b"b,2,200\n")
    put(job, "year=2026/_SUCCESS", b"")
    put(job, "year=2026/_temporary=1/ups_1.txt", b"c,2,200\n")
    put(job, "ups_2.txt", b"d,2,200\n")
    report = job.run()

    assert rows(job.output) == [b"a,2,200", b"b,2,200", b"c,1,100", b"d,2,200"]
    assert sorted(path.removeprefix(f"{job.feed}/") for path in report.ignored) == [
        "year=2026/_SUCCESS",
        "year=2026/_temporary=1",
    ]


def test_directories_of_dates(job):
    put(job, "ups_1.txt", b"a,2,200\n")
    put(job, "2026/01/31/ups_2.txt", b"b,2,200\n")
    put(job, "2026-02-01/20/ups_3.txt", b"d,2,200\n")
    job.run()

    assert rows(job.output) == [b"a,2,200", b"b,2,200", b"c,1,100", b"d,2,200"]


def test_partitions_that_a_pattern_names(job):
    put(job, "year=2025/month=01/ups_1.txt", b"a,2,200\n")
    put(job, "year=2026/month=01/ups_1.txt", b"b,2,200\n")
    job.run(feed=[f"{job.feed}/year=*6"])

    assert rows(job.output) == [b"a,1,100", b"b,2,200", b"c,1,100", b"d,1,100"]


@pytest.mark.parametrize("path", ["year=2026/old", "2026/x1", "2026/1st"])
def test_another_directory_in_a_partition(job, path):
    put(job, f"{path}/ups_1.txt", b"a,2,200\n")

    job.refused(ConfigError, job.feed / path, "is a directory", "name it as a --feed of its own")


def test_a_partitioned_master_and_feed(job):
    if job.engine == "records":
        return
    put(job, "shop=1/ups_1.txt", b"a,1,200\n")
    put(job, "shop=2/ups_1.txt", b"b,2,200\n")
    job.run({**CONFIG, "partitioned.by": "shop=1"})

    assert sorted(path.parent.name for path in job.output.glob("*/part-*")) == ["shop=1", "shop=2"]


@pytest.mark.parametrize("feed", ["feed", "feed/shop=1"])
def test_a_field_in_the_names_of_directories_alone(tmp_path, feed):
    work = Work(tmp_path, settings=dict(BY_ID))
    work.put("master/m", pa.table({"id": ["a"], "at": [1], "shop": ["1"]}), "parquet")
    work.put("feed/shop=1/f_1", pa.table({"id": ["a"], "at": [2]}), "parquet")
    work.run(feed=feed)
    assert work.rows() == [{"id": "a", "at": 2, "shop": "1"}]


def test_fields_of_a_feed_that_are_in_paths_alone_are_noted(tmp_path):
    """Read with the file, they would differ in files of one name with the same bytes, which count as merged before."""
    work = Work(tmp_path, settings=dict(BY_ID))
    work.put("master/m", pa.table({"id": ["a"], "at": [1]}), "parquet")
    work.put("feed/shop=1/f_1", pa.table({"id": ["a"], "at": [2]}), "parquet")
    notes = work.run().notes
    assert "not read: shop, which the feed has in the names of its directories alone" in notes
    assert work.rows() == [{"id": "a", "at": 2}]


def test_directories_above_the_feed_are_no_partitions(tmp_path):
    """The base of a workflow may be below env=prod, and have a field env, which the newest file no longer has."""
    work = Work(tmp_path / "env=prod", settings=dict(BY_ID))
    work.put("master/m", pa.table({"id": ["a"], "at": [1], "env": ["1"]}), "parquet")
    work.put("feed/f_1", pa.table({"id": ["a"], "at": [2]}), "parquet")
    work.run()

    assert work.rows() == [{"id": "a", "at": 2}]
    with pytest.raises(DataError, match=r"field env is missing \(it has id, at\)"):
        work.run({"partitioned.by": "env"})
