"""Merge files of inserts, updates and deletes into master data, at Spark scale.

The algorithm in five lines:

1. every row of master and feed becomes ``((bucket of its key, key, side, precedence), row)``;
2. ``repartitionAndSortWithinPartitions`` brings the rows of one key together, sorted by a total order;
3. the last mutation of a key meets what the master holds, and a truth table decides;
4. tasks write files of their own and return receipts; the sums of all rows must hold;
5. one rename makes the result visible, whole or not at all.

=================== ======================================================================
``outcome``         the truth table, the counts, the sums
``precedence``      the total order and typed order values
``keyhash``         key -> bucket; part of the file format
``layout``          where key, order value and op code stand in a row
``naming``          what a file's name says
``delimiter``       Java's field delimiter regexes, on bytes
``config``          settings -> Config
``survey``          what is there: names, sizes, first rows, the master's manifest
``plan``            Config + survey -> Plan
``engine``          read, shuffle, merge, write
``accounting``      receipts -> sums, and what must not be published
``manifest``        what a directory is
``publish``         staging -> visible, in one step
``pipeline``        all of it, in order
``verify``          a directory against its manifest
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
