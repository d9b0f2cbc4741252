"""One Spark session for all tests: starting one takes longer than most tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support.bridge_tables import in_memory  # noqa: F401
from tests.support.cluster import QUICK
from tests.support.hdfs_server import hdfs  # noqa: F401  # one server for all tests
from tests.support.hive_server import hive  # noqa: F401
from tests.support.s3_server import Server, s3  # noqa: F401

os.environ["JDK_JAVA_OPTIONS"] = QUICK  # for those of the benchmark, too, to which it gives nothing of Spark's
settings.register_profile("mutator", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
settings.load_profile("mutator")

# Where what the disk is told to do is tested; test_workflow_power has a disk of its own, which loses its power.
OF_THE_DISK = ("test_publish", "test_storage_local", "test_storage_contract")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker have all tests of HDFS: its servers take seconds to start."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if "hdfs" in getattr(item, "fixturenames", ()) or "hdfs" in (params.get("place"), params.get("moving")):
            item.add_marker(pytest.mark.xdist_group("hdfs"))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Keep names short: they stand in the environment of each process that a test starts, where 128 KiB is the most."""
    if isinstance(val, str | bytes) and len(val) > 200:
        return f"{val[:60]!a} and so on to {len(val):,}"
    return None


@pytest.fixture(autouse=True)
def no_wait_for_the_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let an fsync in this process cost nothing: a run has dozens, of milliseconds each."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem not in OF_THE_DISK:
            patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def sc(s3: Server) -> Iterator[SparkContext]:  # noqa: F811  # workers have its address in their environment
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2,4]")  # two workers; a task that fails is tried again
        .appName("mutator tests")
        .config("spark.ui.enabled", "false")
        .config("spark.default.parallelism", "2")
        # As mutator's own session has it: over TCP each task waits 40 ms for an acknowledgement.
        .config("spark.python.unix.domain.socket.enabled", "true")
        # And from there: a test with variables of its own for the workers, or that kills them, has new ones.
        .config("spark.python.daemon.module", "mutator.engine.spark.daemon")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session.sparkContext
    session.stop()
