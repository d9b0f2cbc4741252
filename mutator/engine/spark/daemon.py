"""Spark's daemon of Python workers, with this program loaded before it forks them.

Spark starts it as ``python -m mutator.engine.spark.daemon`` where ``spark.python.daemon.module`` says so.
"""

import contextlib
import os
from typing import Any

from mutator.engine.numpy_variables import disabled_features

os.environ.update(disabled_features())  # before anything loads numpy

import pyspark.daemon
import pyspark.worker  # which each worker would import

from mutator.dataset.gc_pause import spare_modules

# For the modules that they import: numpy, pyarrow and its Parquet reader take half a second of each worker.
from mutator.engine import preload  # noqa: F401
from mutator.engine.spark import spark_runner  # noqa: F401
from mutator.formats.blocks.block_types import load_all

_worker = pyspark.daemon.worker


def _work(sock: Any, authenticated: bool) -> int:
    """Run Spark's own worker, without a traceback when the session that waits for it has ended."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        return _worker(sock, authenticated)
    return 1


if __name__ == "__main__":
    pyspark.daemon.worker = _work
    load_all()
    spare_modules()  # also those that ``preload`` does not load
    pyspark.daemon.manager()
