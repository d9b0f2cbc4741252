"""Make ``format("mutator")`` known to a Spark session."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from mutator.engine.spark.frames import context_of
from mutator.engine.spark.jvm_start import use_own_python
from mutator.errors import error

_OLDEST = (4, 1)  # the first Spark whose sources may return Arrow batches and changes in streams


def register(spark: SparkSession) -> None:
    """Register ``format("mutator")`` in a session, for ``spark.read``, ``spark.readStream`` and SQL.

    Raises ConfigError for Spark older than 4.1, and for a session that has ended or is one of Spark Connect.
    """
    context = context_of(spark, "mutator.register()")
    version = tuple(map(int, re.findall(r"\d+", spark.version)[:2]))
    if version < _OLDEST:
        raise error("table.frame.spark", version=spark.version)
    from mutator.table.spark_source.source import SparkSource

    use_own_python(context)
    spark.dataSource.register(SparkSource)
