"""Merge files of inserts, updates and deletes into master data, at Spark scale.

The algorithm in five lines:

1. each task folds its mutations: of a key, the one with the highest precedence is left;
2. ``repartitionAndSortWithinPartitions`` brings what is left of one key to its bucket, in sorted runs;
3. the last mutation of a key meets what the master holds, and a truth table decides;
4. tasks write files of their own and return receipts; the sums of all rows must hold;
5. one step makes the result visible, whole or not at all: a rename, or on S3 the creation of a manifest.

The rooms, in the order in which data flows. A room imports only from those above it; ``workflow``, ``bridge`` and
``table`` never import each other. Each room's ``__init__`` lists its modules.

============ ==================================================================================================
``errors``   errors with a message and an exit code; signals; points where tests inject faults
``rules``    the contract, as pure functions: truth table, total order, key hash, field delimiters, partitions
``storage``  names and bytes: local disks, S3, HDFS, http
``config``   settings → ``Config``
``formats``  bytes ↔ blocks of rows: delimited text, CSV, Avro, Parquet, ORC
``dataset``  a dataset on disk: manifest, checksums, tombstones, log; and how it is committed
``plan``     what the driver decides before a task runs: inputs, rows, splits, join
``engine``   read, shuffle, merge, write: in blocks, in records; on Spark
``pipeline`` one merge, step by step; accounting, report, verify
``workflow`` runs that repeat: a directory workflow, many tables, one partition after the other
``bridge``   tables that others own, by way of delimited text: files, Hive
``cli``      the commands
============ ==================================================================================================
"""

from __future__ import annotations

from mutator.config import Config, load, parse
from mutator.engine.spark.records import last_mutations
from mutator.errors import ConfigError, DataError, MutatorError, StateError, StorageError
from mutator.pipeline.merge import mutate
from mutator.pipeline.report import Report

__all__ = [
    "Config",
    "ConfigError",
    "DataError",
    "MutatorError",
    "Report",
    "StateError",
    "StorageError",
    "last_mutations",
    "load",
    "mutate",
    "parse",
]
