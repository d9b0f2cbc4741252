"""The rows and tombstones that a table gets from the winners of a task, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mutator.dataset.file_entry import DATA
from mutator.engine.blocks.mutations import Mutations
from mutator.engine.versions.delta_files import Delta, DeltaWriter, unit_order
from mutator.engine.versions.old_values import tombstone_rows
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import Flags, Ints, chosen
from mutator.rules.row_hash import RowHashes
from mutator.rules.sort_order import number_order

Written = tuple[Ints, Ints]  # numbers of winners, codes of the partitions that their rows or tombstones belong to


@dataclass(frozen=True)
class DecidedRows:
    """The rows, tombstones and hidden rows that a table gets from some winners."""

    keys: Any  # of all winners, encoded
    partitions: list[str | None]  # directories, by code
    written: dict[str, Written]  # role -> rows, or tombstones
    index: list[Any]  # pa.Tables of the version index
    settled: Flags  # for each winner, whether it is late or rejected
    orders: Any  # order value of each winner, or of the tombstone that it leaves
    row_hashes: RowHashes | None = None  # of each winner; None if they were not needed
    sides: Any = None  # side columns that each winner leaves, RowsInPlace; None without side columns
    beside: Sequence[Any] = ()  # a column for each value beside tombstones


def write(plan: Reading, found: Mutations, decided: DecidedRows, writer: DeltaWriter) -> None:
    """Write the rows and tombstones that a table gets. found: the winners."""
    for role, (numbers, codes) in decided.written.items():
        by_hash = number_order(numbers)
        numbers, codes = numbers[by_hash], codes[by_hash]
        keys = [chosen(column, numbers) for column in found.keys]  # all of them in an overwrite: these are not copied
        buckets = writer.buckets.of_rows(decided.partitions, codes, found.hashes[numbers])
        order = unit_order(decided.partitions, codes, buckets, keys)
        numbers, codes = numbers[order], codes[order]
        index = pa.array(numbers)
        orders = decided.orders.take(index)
        known, sides = None, None
        if role == DATA:
            rows = found.written.take(index)
            sides = None if decided.sides is None else decided.sides.take(index)
            known = None if decided.row_hashes is None else decided.row_hashes[numbers]
        else:
            beside = [column.take(index) for column in decided.beside]
            rows = tombstone_rows(plan, [column.take(index) for column in found.keys], orders, beside)
        encoded = decided.keys.take(index)
        writer.write(role, Delta(decided.partitions, codes, rows, found.hashes[numbers], encoded, orders, known, sides))
