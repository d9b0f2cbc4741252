"""The master's rows of one task, a block at a time and as often as needed: from files, or from the shuffle."""

import itertools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from mutator.engine.blocks.read_blocks import BlockRows, batches
from mutator.engine.receipts import SplitReceipt
from mutator.engine.scratch import scratch_directory
from mutator.engine.split_content import RowSides, damage_of, damaged
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_type import Batch, Block, Hashes
from mutator.formats.content import NotReadable
from mutator.plan.reading import Reading
from mutator.plan.splits import Input, Split
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Prefixes
from mutator.rules.order_columns import SEQUENCE
from mutator.storage.compression import CorruptStream

Found = TypeVar("Found")


@dataclass(frozen=True)
class MasterBlock:
    """Some consecutive rows of a master."""

    plan: Reading
    file: Input | None  # None: they come from the shuffle
    base: int  # number of the first row
    block: Block
    sides: Any  # what is kept beside each row: ``Reading.sides``
    prefixes: Prefixes | None = None  # of the key hash of each row, where they came with the rows

    @cached_property
    def hashes(self) -> Hashes:
        """The key hash of each row."""
        return self.known(self.block.hashes)

    def hashes_of(self, rows: Ints) -> Hashes:
        """Return the key hashes of some rows."""
        if "hashes" in vars(self):
            return self.hashes[rows]
        return self.known(lambda: self.block.hashes(rows))

    def keys(self, rows: Ints) -> list[Any]:
        """Return the key columns of some rows."""
        return self.known(lambda: self.block.keys(rows))

    def sequences(self, rows: Ints) -> Any:
        """Return the sequences of some rows, or of their files."""
        return self.sides.field(SEQUENCE).take(pa.array(rows))

    def orders(self, rows: Ints) -> Any:
        """Return the order values of some rows."""
        if self.plan.keeps_orders:
            return self.plan.orders_in(self.sides).take(pa.array(rows))
        return self.known(lambda: self.block.orders(rows))

    def known(self, decode: Callable[[], Found]) -> Found:
        """Decode values that no reader has decoded yet. Raises Damage."""
        try:
            return decode()
        except NotReadable as fault:
            if self.file is None:
                raise
            raise damaged(self.file, fault) from None


def from_files(
    plan: Reading, splits: Iterable[Split], done: Callable[[Split, Input, Batch, SplitReceipt], None]
) -> Iterator[MasterBlock]:
    """Read splits one after the other. done: called with each batch and the receipt so far. Raises Damage."""
    base = 0
    for split in splits:
        file = plan.inputs[split.input]
        try:
            for block in _from_split(plan, split, file, base, done):
                base += len(block.block)
                yield block
        except (CorruptStream, MutatorError) as fault:  # only faults of reading: the caller handles its own
            raise damage_of(file, fault) from None


def _from_split(
    plan: Reading, split: Split, file: Input, base: int, done: Callable[[Split, Input, Batch, SplitReceipt], None]
) -> Iterator[MasterBlock]:
    sides = RowSides(plan, split, file)
    for batch, receipt in batches(plan, split, file, trusted=file.source.checksum is not None):
        done(split, file, batch, receipt)
        own = sides.of(batch)
        if len(own):
            yield MasterBlock(plan, file, base, batch.block, own)
        base += len(own)
    sides.end()


def from_shuffle(
    plan: Reading, pieces: Iterator[BlockRows], again: bool, stack: ExitStack
) -> Callable[[], Iterator[MasterBlock]]:
    """Return a function that reads shuffled rows. again: several times, so rows are kept, on disk if many."""
    if not again:
        return lambda: _blocks(plan, pieces)
    kept_blocks: list[MasterBlock] = []
    size = 0
    kept: list[BlockRows] = []
    for block in _blocks(plan, _noted(pieces, kept)):
        kept_blocks.append(block)
        size += 3 * len(kept[-1].rows) + len(kept[-1].prefixes)  # the columns of a row are about twice its bytes
        if size > plan.memory:
            break
    else:
        return lambda: iter(kept_blocks)
    kept_blocks.clear()
    path = os.path.join(scratch_directory(stack), "rows")
    with open(path, "xb") as file:
        for piece in itertools.chain(kept, pieces):
            pickle.dump(tuple(piece), file)
    return lambda: _blocks(plan, _read(path))


def _blocks(plan: Reading, pieces: Iterator[BlockRows]) -> Iterator[MasterBlock]:
    base = 0
    for piece in pieces:
        block = plan.block_type.load(piece.rows, plan.rows.layouts["master"])
        if piece.sides is not None:
            own = pa.ipc.open_stream(piece.sides).read_all().column(0).combine_chunks()
        else:
            inputs, counts = zip(*piece.inputs, strict=True)
            own = plan.sides_of_files(np.repeat(plan.sequences[list(inputs)], counts))
        yield MasterBlock(plan, None, base, block, own, np.frombuffer(piece.prefixes, np.uint32))
        base += len(block)


def _noted(pieces: Iterator[BlockRows], seen: list[BlockRows]) -> Iterator[BlockRows]:
    for piece in pieces:
        seen.append(piece)
        yield piece


def _read(path: str) -> Iterator[BlockRows]:
    with open(path, "rb") as file:
        end = os.fstat(file.fileno()).st_size
        while file.tell() < end:
            yield BlockRows(*pickle.load(file))
