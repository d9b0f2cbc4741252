"""Spark's daemon of Python workers with this program loaded, so that the workers which it forks need not load it.

Spark starts it as ``python -m mutator.engine.spark.daemon`` where ``spark.python.daemon.module`` says so.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark.daemon
import pyspark.worker  # which each worker would import

# For what they load themselves: numpy, pyarrow and its Parquet reader take half a second of each worker.
from mutator.engine.spark import blocks, records  # noqa: F401

pa.array(np.zeros(1))  # with the first one Arrow loads pandas, where that is installed: once here, not in each worker

_worker = pyspark.daemon.worker


def _work(sock: Any, authenticated: bool) -> int:
    """Work as Spark's own worker does; a session that has ended needs no answer, and nobody a traceback of that."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        return _worker(sock, authenticated)
    return 1


if __name__ == "__main__":
    pyspark.daemon.worker = _work
    pyspark.daemon.manager()
