"""One Spark session for all tests: starting one takes longer than most tests."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings
from pyspark import SparkContext
from pyspark.sql import SparkSession

from mutator.dataset.versions import nearby
from mutator.pipeline import runners
from tests.support.bridge_tables import in_memory  # noqa: F401
from tests.support.cluster import CACHE, QUICK
from tests.support.effort import EFFORT, EXAMPLES
from tests.support.hdfs_server import hdfs  # noqa: F401  # one server for all tests
from tests.support.hive_server import hive  # noqa: F401
from tests.support.job import job, managed  # noqa: F401
from tests.support.processor_time import ProcessorTime
from tests.support.s3_server import Server, s3  # noqa: F401
from tests.support.tiers import balanced, chosen, pairwise

gc.disable()  # until all tests are collected: each of their many objects lives to the end
os.environ["JDK_JAVA_OPTIONS"] = QUICK  # also for the benchmark, which gives Spark no Java options
os.environ["XDG_CACHE_HOME"] = CACHE
settings.register_profile(
    "mutator",
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    max_examples=EXAMPLES,
    phases=[phase for phase in Phase if phase != Phase.shrink] if "MUTANTS_CHOSEN" in os.environ else Phase,
)
settings.load_profile("mutator")

MEMORY = Path("/dev/shm")  # a file system without a disk: its calls take half as long
PACKAGE = Path(__file__).parents[1] / "mutator"
# Tests that share a server or a JVM, which take seconds to start, all run in one worker.
GROUPS = {"hdfs": "hdfs", "hive": "hive", "spark": "sc", "s3": "s3"}
# The tests of calls to the disk; test_power_failure has a model disk, whose power fails.
OF_THE_DISK = ("test_publish", "test_storage_local", "test_storage_contract")


def pytest_configure(config: pytest.Config) -> None:
    """Measure the processor time of the tests, and keep their files in memory if there is much."""
    config.pluginmanager.register(ProcessorTime())
    if EFFORT not in ("full", "soak") and has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def has_room(directory: Path) -> bool:
    """Return whether files of some GiB can be written there, and programs of virtual environments can be started."""
    if not os.access(directory, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize >= 6 << 30 and not found.f_flag & os.ST_NOEXEC


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the modules without examples, of which pytest would look at every name."""
    if collection_path.suffix == ".py" and PACKAGE in collection_path.parents:
        return ">>> " not in collection_path.read_text(encoding="utf-8") or None
    return None


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark each test with the servers it needs, so that a tier can leave it out, and group the tests of a server."""
    cases: dict[tuple[object, str], list[pytest.Item]] = {}
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        needs = set(getattr(item, "fixturenames", ()))
        on_storages = ["root", "renaming_root", "claiming_root"] + ["storage_type"] * ("lake" in needs)
        needs |= {params.get(name) for name in on_storages}
        for server in ("hdfs", "s3"):
            if server in needs:
                item.add_marker(pytest.mark.server)
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.law)
        if {"sc", "hive"} & needs:
            item.add_marker(pytest.mark.jvm)
        if {"hdfs", "hive"} & needs:  # their JVMs need half a minute of processor time to start
            item.add_marker(pytest.mark.rest)
        group = next((group for group, fixture in GROUPS.items() if fixture in needs), None)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
        if item.get_closest_marker("thorough"):
            cases.setdefault((item.path, getattr(item, "originalname", item.name)), []).append(item)
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("xdist_group", "processes"))))  # longest first
    for tests in cases.values():
        marker = tests[0].get_closest_marker("thorough")
        assert marker is not None
        kept = chosen(tests, marker.kwargs["keep"])
        others = [item for item in tests if item not in kept and not item.get_closest_marker("soak")]
        number = marker.kwargs.get("rest")
        rest = pairwise(others, kept) if number is None else balanced(others, kept, number)
        for item in tests:
            if item not in kept:
                item.add_marker(pytest.mark.rest if item in rest else pytest.mark.soak)


def pytest_collection_finish() -> None:
    """Collect garbage again, but never look at the tests: in each worker that takes half as long as importing them."""
    gc.freeze()
    gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten long parameters: a test's name is in the environment of each process that it starts, 128 KiB at most."""
    if isinstance(val, str | bytes) and len(val) > 200:
        return f"{val[:60]!a} and so on to {len(val):,}"
    return None


@pytest.fixture(autouse=True)
def no_wait_for_the_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    """Replace fsync in this process: a run has dozens of calls that take milliseconds each."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem not in OF_THE_DISK:
            patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def own_copies_of_entries(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Share no copies of log entries with other workers: tables on model storages all have the same name."""
    directory = str(tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem != "test_turns":  # its tests choose directories
            patch.setattr(nearby, "tempfile", SimpleNamespace(gettempdir=lambda: directory))
        yield


@pytest.fixture(autouse=True)
def only_own_spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hide the Spark session of other tests, so that commands choose a runner as if they were alone."""
    with pytest.MonkeyPatch.context() as patch:
        if not {"sc", "hive"} & set(request.fixturenames):
            patch.setattr(runners, "configured_spark", lambda: None)
        yield


@pytest.fixture(scope="session")
def sc(s3: Server) -> Iterator[SparkContext]:  # noqa: F811  # workers have its address in their environment
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2,4]")  # two workers; a failed task is tried again
        .appName("mutator tests")
        .config("spark.ui.enabled", "false")
        .config("spark.default.parallelism", "2")
        # As in mutator's own session: over TCP each task waits 40 ms for an acknowledgement.
        .config("spark.python.unix.domain.socket.enabled", "true")
        # And its own daemon: a test that sets variables for the workers, or kills them, gets new workers.
        .config("spark.python.daemon.module", "mutator.engine.spark.daemon")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session.sparkContext
    session.stop()
