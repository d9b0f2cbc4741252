"""Which runner merges how many bytes, with how many threads and processes."""

import pyarrow as pa
import pytest

import mutator
from mutator.plan.runner_choice import choose_runner, shared_processes_for
from tests.support.named_runs import Work

MIB = 1 << 20


@pytest.mark.parametrize(
    ("bytes_", "runner", "processes", "threads", "why"),
    [
        (MIB, "local", 1, 1, "1,048,576 bytes are merged before Spark would have started"),
        (256 * MIB, "local", 1, 2, "268,435,456 bytes are merged before Spark would have started"),
        (257 * MIB, "local", 2, 2, "269,484,032 bytes are merged here in less time than by Spark"),
        (2048 * MIB, "local", 2, 2, "2,147,483,648 bytes are merged here in less time than by Spark"),
        (2049 * MIB, "spark", 2, 1, "2,148,532,224 bytes to read are more than 2,147,483,648"),
    ],
)
def test_auto_goes_by_the_bytes_to_read(bytes_, runner, processes, threads, why):
    choice = choose_runner("auto", bytes_, 2, None)
    assert (choice.runner, choice.processes, choice.threads, choice.why) == (runner, processes, threads, why)


def test_bytes_of_packed_files(tmp_path):
    work = Work(tmp_path)
    work.put("master/m", pa.table({"id": ["k1"], "at": [1]}), "parquet")
    work.put("feed/f", pa.table({"id": ["k1"], "at": [2]}), "parquet")
    stored = sum(path.stat().st_size for path in tmp_path.glob("*/*.parquet"))
    report = mutator.merge(master=tmp_path / "master", feed=tmp_path / "feed", key="id", order_by="at", runner="auto")
    assert f"{stored:,} bytes of input make 2 buckets" in report.reason
    assert f"about {stored * 10:,} bytes uncompressed are merged before" in report.runner


def test_a_configured_master_and_the_user_decide():
    assert choose_runner("auto", 1, 2, "MASTER is set").text() == "spark: MASTER is set"
    assert (
        choose_runner("local", 4096 * MIB, 2, "MASTER is set").text()
        == "local, this process and up to 2 more: it was asked for"
    )
    assert choose_runner("spark", 1, 2, None).text() == "spark: it was asked for"


def test_processes_of_many_tables():
    assert [shared_processes_for(bytes_ * MIB, 4) for bytes_ in (1, 48, 49)] == [1, 1, 4]
