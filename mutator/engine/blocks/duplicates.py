"""Duplicate rows of a key in an unmanaged master: the one with the highest precedence survives.

First every hash that occurs twice is found, then only the rows with these hashes are compared.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.engine.blocks.mutations import key_names
from mutator.engine.blocks.spool import SortedSpool
from mutator.engine.scratch import scratch_directory
from mutator.engine.tally import Tally
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import flags

_FILES = 64


def is_in(hashes: Hashes, known: Hashes) -> Flags:
    """Return a flag for each hash: whether it is among some sorted ones."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    positions = np.searchsorted(known, hashes)
    positions[positions == len(known)] = 0
    found: Flags = known[positions] == hashes
    return found


def duplicates(plan: Plan, blocks: Any, tally: Tally, stack: ExitStack) -> Ints:
    """Return the numbers of the rows that do not survive, ascending; count them.

    blocks: called for an iterator of the bucket's ``MasterBlock``s, as often as needed.
    """
    repeated = _repeated((one.hashes for one in blocks()), plan.memory, stack)
    if not len(repeated):
        return np.zeros(0, np.int64)
    keys = key_names(plan.key_width)
    same_in = [*keys, "order"] if plan.register.by_order else keys  # columns by which rows are duplicates
    names = [*keys, "order", "sequence", *(["content"] if plan.master_is_table else []), "row"]
    spool = SortedSpool(names, plan.set_aside, stack)
    for one in blocks():
        rows = np.flatnonzero(is_in(one.hashes, repeated))
        if len(rows):
            columns = [
                *one.keys(rows),
                one.orders(rows),
                pa.array(one.sequences[rows]),
                *([plan.block_type.contents(one.block.rows.take(pa.array(rows)))] if plan.master_is_table else []),
                pa.array(one.base + rows),
            ]
            spool.append(pa.table(columns, names))
    dropped: list[Ints] = []
    before, follows = None, False  # the last row so far, and whether the row before it has the same key
    for table in spool.tables():
        if not table.num_rows:
            continue
        if before is not None:
            table = pa.concat_tables([before, table]).combine_chunks()
        same = np.ones(table.num_rows - 1, np.bool_)  # the key of a row is that of the next row
        for name in same_in:
            column = table.column(name).combine_chunks()
            same &= flags(pc.equal(column[1:], column[:-1]))
        dropped.append(table.column("row").to_numpy()[:-1][same])
        is_first = ~np.concatenate(([follows], same))[:-1]  # of its key
        tally.note_all("duplicate IDs", _keys(table, keys, np.flatnonzero(same & is_first)))
        before, follows = table.slice(table.num_rows - 1), bool(same[-1:].any())
    found = np.sort(np.concatenate(dropped))
    tally.counts["master duplicate"] += len(found)
    return found


def _keys(table: Any, names: list[str], rows: Ints) -> Iterable[tuple[bytes, ...]]:
    index = pa.array(rows)
    return zip(*(table.column(name).take(index).to_pylist() for name in names), strict=True)


def _repeated(blocks: Iterable[Hashes], most: int, stack: ExitStack) -> Hashes:
    """Return the hashes that occur more than once, sorted."""
    waiting: list[Hashes] = []
    size, directory = 0, None
    for hashes in blocks:
        waiting.append(hashes)
        size += hashes.nbytes
        if size > most:
            directory = directory or scratch_directory(stack)
            _spread(waiting, directory)
            waiting, size = [], 0
    if directory is None:
        return _twice(np.concatenate(waiting)) if waiting else np.zeros(0, np.uint64)
    _spread(waiting, directory)
    paths = [os.path.join(directory, str(number)) for number in range(_FILES)]
    return np.concatenate([_twice(np.fromfile(path, np.uint64)) for path in paths if os.path.exists(path)])


def _spread(waiting: list[Hashes], directory: str) -> None:
    """Put hashes into files by their highest bits: equal hashes share a file, and the files are in order."""
    for hashes in waiting:
        parts = hashes >> np.uint64(58)
        for part in np.unique(parts):
            with open(os.path.join(directory, str(part)), "ab") as file:
                hashes[parts == part].tofile(file)


def _twice(hashes: Hashes) -> Hashes:
    hashes = np.sort(hashes)
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
