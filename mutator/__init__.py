"""Merge files of inserts, updates and deletes into master data, at Spark scale.

The algorithm in five lines:

1. each task folds its mutations: of a key, the one with the highest precedence is left;
2. ``repartitionAndSortWithinPartitions`` brings what is left of one key to its bucket, in sorted runs;
3. the last mutation of a key meets what the master holds, and a truth table decides;
4. tasks write files of their own and return receipts; the sums of all rows must hold;
5. one step makes the result visible, whole or not at all: a rename, or on S3 the creation of a manifest.

=================== ======================================================================
``outcome``         the truth table, the counts, the sums
``precedence``      the total order and typed order values
``spans``           many values in one buffer, before they are copied
``ordercolumn``     order values a column at a time
``keyhash``         key -> bucket; part of the file format
``keyfilter``       which files may hold a key
``typed``           typed values: canonical bytes of a key, order values
``schema``          one schema of many, and what widens to what
``layout``          where key, order value and op code stand in a row
``naming``          what a file's name says
``sequences``       what the sequences of feed files say across runs
``sealed``          bookkeeping that can tell when it is damaged
``delimiter``       Java's field delimiter regexes, on bytes
``config``          settings -> Config
``look``            one file: its compression, its first row, its fields
``control``         what a delivery says of a feed file, and whether it is so
``dataset``         a directory that this program wrote, and its files
``survey``          what is there: names, sizes, first rows, the master's manifest
``width``           delimited text: how wide its rows are
``named``           fields with names: the result's schema, a layout for each that occurs
``inputs``          files, ranked, and the splits that tasks read
``joins``           which engine, which join, how many buckets, and why
``plan``            Config + survey -> Plan
``unit``            what a task merges at a time
``unit_plan``       which partitions are touched -> what is read of them, and what is not
``formats``         bytes <-> rows and blocks; ``formats.block`` is the contract of a format, ``formats.tabular`` that
                    of a kind of files whose fields have names
``engine``          read, shuffle, merge, write: by the block, and row by row
``accounting``      receipts -> sums, and what must not be published
``storage``         names and bytes: disks, S3, HDFS, a module or two a backend
``manifest``        what a directory is; ``sidecar``, its schema for other programs
``owner``           who is at work, and whether it still is
``staging``         where a run writes before its output is visible
``publish``         staging -> visible, in one step
``pipeline``        all of it, in order
``verify``          a directory against its manifest; ``verify_partitions``, where it is partitioned
``log``             the versions of a base
``workflow``        the directory workflow: run, recover, restore
``table``           what the bridge asks of a table that others own
``hive``            tables of a metastore, through Spark SQL
``bridge``          such tables by way of delimited text: export, merge, import
``partition_by``    which partition a row belongs to; ``partitions``, the names of its directory
``partitioning``    which files lie in which partition
``feedsplit``       a feed, split by partitions; ``splitrecord``, what is told of it
``partition_runs``  a run for each partition
``many``            many tables in one Spark application, each with a configuration of its own
``catalogue``       the texts of all errors; ``catalogue_many`` and ``catalogue_tables``, those about tables
``cli``             the commands
=================== ======================================================================
"""

from __future__ import annotations

from mutator.config import Config, load, parse
from mutator.engine.records import last_mutations
from mutator.errors import ConfigError, DataError, MutatorError, StateError, StorageError
from mutator.pipeline import mutate
from mutator.report import Report

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
