"""The runners of a table: in this process, or on Spark."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from mutator.pipeline.runners import runner_for
from mutator.table.apply import OpenRunner
from mutator.table.recorded import CALL

if TYPE_CHECKING:
    from pyspark import SparkContext


def spark_context() -> AbstractContextManager[SparkContext]:
    """Return the running Spark context, or a new one."""
    from mutator.engine.spark.session import spark_context as opened

    return opened(CALL)


def run_on(wanted: str) -> OpenRunner:
    """Return the function that opens a runner. wanted: auto, local or spark."""
    return partial(runner_for, wanted, spark_context)


run_here = run_on("auto")
