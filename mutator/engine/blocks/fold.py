"""The fold that leaves one mutation a key: the winner, with remarks on the others.

The fold is a semigroup: mutations may be folded in any grouping, in the map task and again in the reducer, with the
same winners, counts and notes. Tied, for example, combines as (top, winner, mixed): of two folds of one key the higher
top wins; where the tops are equal, the key is mixed if either fold is mixed or their winners differ.

Rows are sorted by the 64-bit hash of their key; keys are compared only where hashes are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from mutator.engine.blocks.mutations import Columns, Mutations
from mutator.engine.blocks.rows_in_place import RowsInPlace
from mutator.formats.blocks.block_type import Hashes, unequal
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import flags, ranks
from mutator.rules.sort_order import hash_order

_COMPARED = 1 << 17  # mutations whose keys and precedence are compared at a time


def fold(plan: Reading, found: Mutations) -> Mutations:
    """Return one mutation a key, the one with the highest precedence, sorted by the hash of the key."""
    return fold_parts(plan, [found])


def fold_parts(plan: Reading, parts: list[Mutations]) -> Mutations:
    """Fold mutations that are in several parts; see ``fold``.

    The list is emptied, so that the memory of each column is free for the next ones as soon as it is copied.
    """
    columns = _emptied(parts)
    rows, remarks = last_of_each(plan, columns)
    return Mutations.of(columns.take(rows) | remarks)


def fold_in_place(plan: Reading, parts: list[Mutations]) -> Mutations:
    """Fold mutations for the last time, as ``fold_parts`` does; their rows are not copied if all of them are winners.

    Nothing compares the rows again as they were read, so both columns of rows are those to be written.
    """
    columns = _emptied(parts)
    rows, remarks = last_of_each(plan, columns)
    if remarks:
        return Mutations.of(columns.take(rows) | remarks)
    written = RowsInPlace(columns.joined("written"), rows)
    taken = columns.take(rows, [name for name in columns if name not in ("rows", "written")])
    return Mutations.of(taken | {"rows": written, "written": written})


def _emptied(parts: list[Mutations]) -> Columns:
    """Return the columns of mutations in several parts, and empty the list."""
    columns = Columns(parts)
    parts.clear()
    return columns


def last_of_each(plan: Reading, columns: Columns) -> tuple[Ints, dict[str, Any]]:
    """Return the winner of each key, one of the rows, by hash, and those columns of the winners that differ.

    These are counts, mixed and upserts; none where each key has one mutation.
    """
    hashes = columns.joined("hashes")
    order = hash_order(hashes)
    again = np.zeros(len(order) + 1, np.bool_)
    again[1:-1] = hashes[order[1:]] == hashes[order[:-1]]
    several = again[1:] | again[:-1]  # shares its hash with another
    if not several.any():
        return order, {}
    alone, rest = order[~several], order[several]
    found = [_last_of_several(plan, columns, rest[part]) for part in _slices(hashes[rest])]
    winners = np.concatenate([alone, *(last for last, _ in found)])
    remarks = {name: np.concatenate([part[name] for _, part in found]) for name in found[0][1]}
    order = hash_order(hashes[winners])
    changed = {name: np.concatenate([columns.rows(name, alone), column])[order] for name, column in remarks.items()}
    return winners[order], changed


def _slices(hashes: Hashes) -> Iterator[slice]:
    """Cut sorted hashes between two that differ, so that few mutations are compared at a time."""
    start = 0
    while start < len(hashes):
        last = min(start + _COMPARED, len(hashes)) - 1
        end = int(np.searchsorted(hashes, hashes[last], side="right"))
        yield slice(start, end)
        start = end


def _last_of_several(plan: Reading, columns: Columns, rows: Ints) -> tuple[Ints, dict[str, Any]]:
    """Return the winner of each key, one of the rows, and its columns counts, mixed and upserts.

    rows: mutations in the order of their hashes; so are the winners.
    """
    keys = [columns.rows(name, rows) for name in columns if name.startswith("key_")]
    inputs, deletes = columns.rows("inputs", rows), columns.rows("deletes", rows)
    key = groups_of_keys(columns.rows("hashes", rows), keys)
    order = ranks(columns.rows("orders", rows))
    sequence = plan.sequences[inputs]
    by = [columns.rows("offsets", rows), plan.ranks[inputs], sequence, order, key]
    sort = np.lexsort(by)
    equal = np.ones(len(sort) - 1, np.bool_)
    for column in by:
        equal &= column[sort[1:]] == column[sort[:-1]]
    if equal.any():  # files of one name in several directories, or rows of a table: the row's bytes decide
        # Equal rows are one mutation, of the last file: which one decides nothing but the outcomes by file.
        sort = np.lexsort([inputs, _content_ranks(plan, columns, rows, sort, equal), *by])
    key, order, sequence = key[sort], order[sort], sequence[sort]
    begins = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    lengths = np.diff(np.append(begins, len(sort)))
    ends = begins + lengths - 1
    winner = np.repeat(ends, lengths)
    top = (order == order[winner]) & (sequence == sequence[winner])
    mixed = columns.rows("mixed", rows)[sort] & top
    # Contents are compared only with those that have the winner's order value and sequence.
    rivals = np.flatnonzero(top & (winner != np.arange(len(sort))))
    if len(rivals):
        one, other = sort[rivals], sort[winner[rivals]]
        mixed[rivals] |= deletes[one] != deletes[other]
        mixed[rivals] |= unequal(columns.rows("written", rows[one]), columns.rows("written", rows[other]))
    return rows[sort[ends]], {
        "counts": np.add.reduceat(columns.rows("counts", rows)[sort], begins),
        "mixed": np.logical_or.reduceat(mixed, begins),
        "upserts": np.logical_or.reduceat(columns.rows("upserts", rows)[sort], begins),
    }


def _content_ranks(plan: Reading, columns: Columns, rows: Ints, sort: Ints, equal: Flags) -> Ints:
    """Return int64 values that compare as the bytes of the rows do, where nothing else decides; 0 for other rows.

    sort: an order of the rows. equal: whether a row in this order has the precedence of the next one, without bytes.
    """
    tied = sort[np.append(equal, False) | np.append(False, equal)]
    found = np.zeros(len(rows), np.int64)
    found[tied] = ranks(plan.block_type.contents(columns.rows("rows", rows[tied])))
    return found


def groups_of_keys(hashes: Hashes, keys: Sequence[Any]) -> Ints:
    """Return a number for each row, equal for equal keys and ascending with the hash. hashes: sorted."""
    begins = np.zeros(len(hashes), np.bool_)
    begins[1:] = hashes[1:] != hashes[:-1]
    number: Ints = np.cumsum(begins)
    differ = np.zeros(max(len(hashes) - 1, 0), np.bool_)
    for column in keys:
        differ |= flags(pc.not_equal(column[1:], column[:-1]))
    differ &= ~begins[1:]
    if not differ.any():
        return number
    # Two keys with one hash: nearly impossible by chance, but they may have been constructed.
    known: dict[tuple[Any, ...], int] = {}
    values = zip(number.tolist(), *(column.to_pylist() for column in keys), strict=True)
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)
