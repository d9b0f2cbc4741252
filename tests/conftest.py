"""One Spark session for all tests: starting one takes longer than most tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from pyspark import SparkContext
from pyspark.sql import SparkSession

settings.register_profile("mutator", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
settings.load_profile("mutator")


@pytest.fixture(scope="session")
def sc() -> Iterator[SparkContext]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2,4]")  # two workers; a task that fails is tried again
        .appName("mutator tests")
        .config("spark.ui.enabled", "false")
        .config("spark.default.parallelism", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session.sparkContext
    session.stop()
