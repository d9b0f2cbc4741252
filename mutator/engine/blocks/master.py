"""The master's rows of one task, a block at a time and as often as needed: from files, or from the shuffle."""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from mutator.engine.blocks.read import Rows, batches
from mutator.engine.blocks.spool import scratch_directory
from mutator.engine.split_content import Damage, damage_of, damaged, row_sequences
from mutator.errors import MutatorError
from mutator.formats.blocks.contract import Batch, Block, Hashes
from mutator.formats.content import NotReadable
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split
from mutator.rules.byte_columns import Ints
from mutator.storage.compression import CorruptStream

__all__ = ["MasterBlock", "from_files", "from_shuffle"]

Found = TypeVar("Found")


@dataclass(frozen=True)
class MasterBlock:
    """Some consecutive rows of a master."""

    plan: Plan
    one: Input | None  # the file they come from; None: the shuffle
    base: int  # number of the first row
    block: Block
    sequences: Ints  # of each row, or of its file

    @cached_property
    def hashes(self) -> Hashes:
        """The key hash of each row."""
        return self.known(self.block.hashes)

    def keys(self, rows: Ints) -> list[Any]:
        """Return the key columns of some rows."""
        return self.known(lambda: self.block.keys(rows))

    def orders(self, rows: Ints) -> Any:
        """Return the order values of some rows."""
        if self.plan.by_file_name:
            return pa.array(self.sequences[rows])
        return self.known(lambda: self.block.orders(rows))

    def known(self, look: Callable[[], Found]) -> Found:
        """Look at what no reader has looked at yet; raises Damage."""
        try:
            return look()
        except NotReadable as fault:
            if self.one is None:
                raise
            raise Damage(*damaged(self.one, fault)) from None


def from_files(
    plan: Plan, splits: Iterable[Split], done: Callable[[Split, Input, Batch, Any], None]
) -> Iterator[MasterBlock]:
    """Read splits one after the other; done: is told of each batch and the receipt so far. Raises Damage."""
    base = 0
    for split in splits:
        one = plan.inputs[split.input]
        try:
            for block in _from_split(plan, split, one, base, done):
                base += len(block.block)
                yield block
        except (CorruptStream, MutatorError) as fault:  # of reading, not of what is done with the blocks
            raise Damage(*damage_of(one, fault)) from None


def _from_split(
    plan: Plan, split: Split, one: Input, base: int, done: Callable[[Split, Input, Batch, Any], None]
) -> Iterator[MasterBlock]:
    trusted = one.source.checksum is not None
    sequences, row = row_sequences(plan, split, one), 0
    for batch, receipt in batches(plan, split, one, trusted):
        done(split, one, batch, receipt)
        count = len(batch.block)
        if sequences is None:
            own = np.full(count, one.sequence, np.int64)
        else:
            own = sequences[row : row + count]
            if len(own) < count:
                raise Damage(*damaged(one, "it has more rows than the file with their sequences"))
        if count:
            yield MasterBlock(plan, one, base + row, batch.block, own)
        row += count
    if sequences is not None and row != len(sequences):
        raise Damage(*damaged(one, "it has fewer rows than the file with their sequences"))


def from_shuffle(
    plan: Plan, pieces: Iterator[Rows], again: bool, stack: ExitStack
) -> Callable[[], Iterator[MasterBlock]]:
    """Return what reads shuffled rows. again: they will be read more than once, so they are kept, on disk if many."""
    if not again:
        return lambda: _blocks(plan, pieces)
    held: list[MasterBlock] = []
    size = 0
    kept: list[Rows] = []
    for block in _blocks(plan, _noted(pieces, kept)):
        held.append(block)
        size += 3 * len(kept[-1].rows)  # the columns of a row are about twice its bytes
        if size > plan.memory:
            break
    else:
        return lambda: iter(held)
    held.clear()
    path = os.path.join(scratch_directory(stack), "rows")
    with open(path, "xb") as file:
        for piece in itertools.chain(kept, pieces):
            pickle.dump(tuple(piece), file)
    return lambda: _blocks(plan, _read(path))


def _blocks(plan: Plan, pieces: Iterator[Rows]) -> Iterator[MasterBlock]:
    base = 0
    for piece in pieces:
        block = plan.block_type.load([piece.rows], plan.rows.layouts["master"])
        if piece.sequences is not None:
            own = np.frombuffer(piece.sequences, np.int64)
        else:
            own = np.repeat([plan.sequences[one] for one, _ in piece.inputs], [count for _, count in piece.inputs])
        yield MasterBlock(plan, None, base, block, own)
        base += len(block)


def _noted(pieces: Iterator[Rows], seen: list[Rows]) -> Iterator[Rows]:
    for piece in pieces:
        seen.append(piece)
        yield piece


def _read(path: str) -> Iterator[Rows]:
    with open(path, "rb") as file:
        end = os.fstat(file.fileno()).st_size
        while file.tell() < end:
            yield Rows(*pickle.load(file))
