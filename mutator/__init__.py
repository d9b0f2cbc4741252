"""Merge files of inserts, updates and deletes into master data, at Spark scale.

The algorithm in five lines:

1. each task folds its mutations: it keeps the one with the highest precedence of each key;
2. ``repartitionAndSortWithinPartitions`` sends the kept mutations to the buckets of their keys, in sorted runs;
3. the last mutation of a key meets the master's record, and a truth table decides the outcome;
4. tasks write separate files and return receipts; the sums of all rows must add up;
5. one step publishes the whole result: a rename, or on S3 the creation of a manifest.

The rooms, in the order of the data flow. A room imports only from the rooms above it; ``workflow``, ``bridge`` and
``table`` never import each other. Each room's ``__init__`` begins with what the room is for.

============ ==================================================================================================
``errors``   errors with a message and an exit code; signals; failpoints, where tests inject faults
``rules``    the merge rules, as pure functions: truth table, total order, key hash, field delimiters, partitions
``storage``  paths and bytes: local disks, S3, HDFS, http
``config``   settings → ``Config``
``formats``  bytes ↔ blocks of rows: delimited text, CSV, Avro, Parquet, ORC
``dataset``  a dataset on disk: manifest, checksums, tombstones, log; staging and commit
``plan``     the driver's decisions before a task runs: inputs, rows, splits, join
``engine``   read, shuffle, merge, write: by blocks or by records; on this machine or on Spark
``frames``   rows in the memory of a Python caller: DataFrames and Arrow tables ↔ files
``pipeline`` one merge, step by step; accounting, report, verify
``workflow`` repeated runs: the directory workflow, many tables, one run per partition
``bridge``   tables that other systems own, merged by way of delimited text: files, Hive
``table``    the versioned table: it takes mutations without touching existing data
``cli``      the command line
============ ==================================================================================================
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mutator.errors.version import VERSION

if TYPE_CHECKING:
    from mutator.cli.python_diff import diff
    from mutator.cli.python_explain import explain
    from mutator.config import Config, load, parse
    from mutator.engine.spark.last_mutations import last_mutations
    from mutator.errors import ConfigError, DataError, MutatorError, StateError, StorageError
    from mutator.frames.dataset import Dataset
    from mutator.frames.rejected import Rejects
    from mutator.pipeline.diff.records import Diff
    from mutator.pipeline.explain.answer import Explanation
    from mutator.pipeline.merge import mutate
    from mutator.pipeline.python_merge import merge
    from mutator.pipeline.report import Report
    from mutator.table.spark_source.registration import register
    from mutator.table.table import Table

__version__ = VERSION
__all__ = [
    "Config",
    "ConfigError",
    "DataError",
    "Dataset",
    "Diff",
    "Explanation",
    "MutatorError",
    "Rejects",
    "Report",
    "StateError",
    "StorageError",
    "Table",
    "diff",
    "explain",
    "last_mutations",
    "load",
    "merge",
    "mutate",
    "parse",
    "register",
]

# The same names again, by module: they are imported when they are first used, because every module of this package
# imports this one, and the commands that need no Spark and no Arrow would wait for them.
_MODULES = {
    **dict.fromkeys(("Config", "load", "parse"), "config"),
    **dict.fromkeys(("ConfigError", "DataError", "MutatorError", "StateError", "StorageError"), "errors"),
    "Report": "pipeline.report",
    "Dataset": "frames.dataset",
    "Diff": "pipeline.diff.records",
    "Explanation": "pipeline.explain.answer",
    "Rejects": "frames.rejected",
    "diff": "cli.python_diff",
    "explain": "cli.python_explain",
    "last_mutations": "engine.spark.last_mutations",
    "Table": "table.table",
    "merge": "pipeline.python_merge",
    "mutate": "pipeline.merge",
    "register": "table.spark_source.registration",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
