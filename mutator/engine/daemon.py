"""Spark's daemon of Python workers with this program loaded, so that the workers which it forks need not load it.

Spark starts it as ``python -m mutator.engine.daemon`` where ``spark.python.daemon.module`` says so.
"""

from __future__ import annotations

from pyspark.daemon import manager

# For what they load themselves: numpy, pyarrow and its Parquet reader take half a second of each worker.
from mutator.engine import blocks, records

__all__ = ["blocks", "manager", "records"]

if __name__ == "__main__":
    manager()
