"""Streams out of a table and into one, whose process is killed (SIGKILL) and started again: each change counts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import mutator
from mutator.errors import failpoints
from tests.support.cluster import ROOT, environment
from tests.support.no_limits import NO_LIMITS
from tests.support.patience import PATIENCE
from tests.support.spark_versions import NEEDS_SOURCES

pytestmark = NEEDS_SOURCES

PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pyspark.sql import SparkSession
import mutator
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
mutator.register(spark)
way, here, then = sys.argv[1:]
if way == "out":
    stream = spark.readStream.format("mutator").options(changes="true", maxVersionsPerTrigger=1).load(here + "/t")
    writer = stream.writeStream.format("parquet").option("path", here + "/out")
else:
    stream = spark.readStream.schema("id long, at long, op string").option("maxFilesPerTrigger", 1)
    writer = stream.parquet(here + "/feed").writeStream.format("mutator").option("path", here + "/t")
query = writer.option("checkpointLocation", here + "/state").start()
query.processAllAvailable()
query.stop()
if then == "wait":
    sys.stdin.read()
"""
EACH = 50  # rows of a version


def rows(number: int) -> Any:
    """Return rows of which half have a key of the rows before."""
    first = number * EACH // 2
    return pa.table({"id": range(first, first + EACH), "at": [number] * EACH, "op": ["U"] * EACH})


def put(feed: Path, number: int) -> None:
    """Write a feed file; their times are the order in which Spark reads them."""
    pq.write_table(rows(number), feed / f"{number}.parquet")
    os.utime(feed / f"{number}.parquet", (number, number))


def new_table(here: Path) -> mutator.Table:
    return mutator.Table.create(here / "t", {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS}, buckets=2)


def started(way: str, here: Path, then: str = "end", **more: str) -> subprocess.Popen[bytes]:
    """Start a stream of all that is there. then: "end", or "wait" until the process is killed."""
    command = [sys.executable, "-c", PROGRAM, way, str(here), then]
    with (here / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=here,
            env=environment(**more),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def killed(way: str, here: Path, when: Path) -> None:
    """Start a stream, and kill its process and its JVM as soon as a file is there."""
    process = started(way, here, "wait")
    deadline = time.monotonic() + 4 * PATIENCE
    while not when.exists():
        assert process.poll() is None, (here / "log").read_text()
        assert time.monotonic() < deadline, when
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def finished(way: str, here: Path) -> None:
    assert started(way, here).wait(4 * PATIENCE) == 0, (here / "log").read_text()


@pytest.mark.soak
@pytest.mark.processes
def test_a_killed_stream_delivers_each_change_once(sc: Any, tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(6):
        table.apply(rows(number))
    for when in ("state/offsets/1", "out/_spark_metadata/2", "state/commits/3"):
        killed("out", tmp_path, tmp_path / when)
        table.apply(rows(table.version))
    finished("out", tmp_path)

    found = SparkSession(sc).read.parquet(str(tmp_path / "out"))
    names = "_commit_version", "_change_type", "id", "at"
    expected = sorted(tuple(row[name] for name in names) for row in table.changes(0).to_pylist())
    assert len(expected) == 9 * EACH + 8 * EACH // 2
    assert sorted(map(tuple, found.select(*names).collect())) == expected


@pytest.mark.thorough(keep=0)
@pytest.mark.processes
def test_a_killed_stream_merges_each_batch_once(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.apply(rows(0))
    (tmp_path / "feed").mkdir()
    files = 8
    for number in range(1, files - 1):
        put(tmp_path / "feed", number)
    log = Path(table.path) / "_mutator" / "table" / "log"
    for when in (tmp_path / "state/offsets/0", log / f"{3:020d}.json", tmp_path / "state/commits/2"):
        killed("in", tmp_path, when)
    for number in (files - 1, files):
        put(tmp_path / "feed", number)
    # The process that merges for Spark dies when the version exists, and Spark does not know it.
    before = table.refresh().version
    assert started("in", tmp_path, **{failpoints.VARIABLE: "table.committed"}).wait(4 * PATIENCE) != 0
    assert table.refresh().version == before + 1
    finished("in", tmp_path)

    # A batch that had hardly begun at a kill becomes one with the next.
    batches = [path for path in (tmp_path / "state/commits").iterdir() if path.name.isdigit()]
    assert table.refresh().version == 1 + len(batches)
    entries = list(table.log())[2:]
    assert sum(entry.counts["feed rows"] for entry in entries) == files * EACH
    assert table.snapshot.version.records == EACH + files * EACH // 2
    assert table.scan(["at"]).to_pandas()["at"].value_counts().to_dict() == {
        number: EACH if number == files else EACH // 2 for number in range(files + 1)
    }
