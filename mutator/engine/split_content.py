"""What both engines read with: a split's bytes, counted and checksummed, and what is said of them afterwards.

Plain functions, no Spark. What no record is goes to the ledger, a partition of its own:

    ((ledger, (), RECEIPT, (input, split)), SplitReceipt as a tuple)
    ((ledger, (), REJECT, (input, offset)), (split, line in the split, reason, row))
    ((ledger, (), DAMAGE, (input, split)), (kind of error, its fields))
    ((ledger, (), TALLY, (task, 0)), MergeReceipt of a step that writes nothing)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from pyarrow import ArrowException

from mutator.dataset.checksum import chunk_of, combine, of_blocks
from mutator.dataset.file_content import FileContent
from mutator.dataset.side_columns import count_tombstones, read_sequences
from mutator.engine.receipts import Fault, SplitReceipt
from mutator.errors import MutatorError
from mutator.formats.blocks.contract import Batch
from mutator.formats.content import Unfit
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split
from mutator.rules.byte_columns import Ints
from mutator.storage import blocks, storage_for
from mutator.storage.compression import CorruptStream

__all__ = [
    "DAMAGE",
    "RECEIPT",
    "REJECT",
    "TALLY",
    "Damage",
    "LedgerElement",
    "SplitContent",
    "checked",
    "damage_element",
    "damage_of",
    "damaged",
    "receipt_of",
    "row_sequences",
    "sequences_of_batch",
    "tombstones_receipt",
]

RECEIPT, REJECT, DAMAGE, TALLY = range(4)

LedgerElement = tuple[tuple[int, tuple[()], int, tuple[int, int]], Any]


class Damage(Exception):
    """A damaged file. Arguments: error kind, fields of its message."""

    @property
    def fault(self) -> Fault:
        """Error kind and fields, as they travel to the driver."""
        return self.args[0], self.args[1]


def damaged(one: Input, why: object) -> Fault:
    """Return the kind and the fields of the error for a damaged input."""
    kind = "damaged" if one.source.checksum is None else "manifest.damage"
    if isinstance(why, Unfit):
        kind = "schema.value"
    return kind, {"path": one.source.path, "why": str(why)}


def damage_of(one: Input, fault: Exception) -> Fault:
    """Say what a fault means that reading an input has raised."""
    if isinstance(fault, Damage):
        return fault.fault
    if isinstance(fault, MutatorError):
        return fault.kind, {"path": one.source.path, "text": str(fault)}
    return damaged(one, fault)


def checked(plan: Plan, splits: Iterable[Split], read: Callable[[Split, Input], Iterator[Any]]) -> Iterator[Any]:
    """Read the splits of one task; whatever goes wrong with a file travels as data to the ledger."""
    for split in splits:
        one = plan.inputs[split.input]
        try:
            yield from read(split, one)
        except (Damage, CorruptStream, MutatorError) as fault:
            yield damage_element(plan, split, damage_of(one, fault))


def damage_element(plan: Plan, split: Split, fault: Fault) -> LedgerElement:
    """Return the ledger's element of a damaged split."""
    return (plan.ledger, (), DAMAGE, (split.input, split.number)), fault


def receipt_of(plan: Plan, split: Split, receipt: SplitReceipt) -> LedgerElement:
    """Make the ledger's element of a receipt."""
    return (plan.ledger, (), RECEIPT, (split.input, split.number)), tuple(receipt)


def row_sequences(plan: Plan, split: Split, one: Input) -> Ints | None:
    """Return the sequence of each row of a split, where the file beside the data has them; raises Damage."""
    path, order = one.source.order_path, one.source.order_part
    if path is None or order is None or not plan.by_file_name:
        return None
    storage, expected = storage_for(path), order.checksum
    if split.number == 0:  # Parquet's own checksums cover its pages alone
        with storage.open(path) as stream:
            found = of_blocks(blocks(stream), chunk_of(expected))
        if found != expected:
            raise Damage(
                *damaged(one, f"{path}, with the sequences of its rows, has the checksum {found}, not {expected}")
            )
    with storage.open(path) as stream:
        try:
            return read_sequences(stream, split.number)
        except (ArrowException, OSError, ValueError, LookupError) as fault:
            raise Damage(*damaged(one, f"{path}, with the sequences of its rows, cannot be read: {fault}")) from None


def sequences_of_batch(sequences: Ints, row: int, batch: Batch) -> tuple[Ints, int]:
    """Return the sequences of a batch's records, and the number of the row that comes after the batch.

    sequences: of all rows of a split. row: number of the first row of the batch. What is no record, because it says no
    partition, is a row all the same.
    """
    passed = np.sort(np.array([one.offset for one in batch.rejects], np.int64))
    rows = row + np.arange(len(batch.block)) + np.searchsorted(passed, batch.block.offsets)
    return sequences[rows[rows < len(sequences)]], row + len(rows) + len(passed)


def tombstones_receipt(plan: Plan, split: Split, one: Input) -> SplitReceipt:
    """Hold a file of tombstones against its checksum, before Parquet stumbles over it; raises Damage."""
    part = one.source.part
    assert part is not None
    content = SplitContent(plan, split, one)
    for _ in content.blocks():
        pass
    size, digests = content.result()
    found = combine(digests, chunk_of(part.checksum) or 1)
    if found != part.checksum:
        raise Damage(*damaged(one, f"its checksum is {found} and should be {part.checksum}"))
    with storage_for(one.source.path).open(one.source.path) as stream:
        rows = count_tombstones(stream)
    return SplitReceipt(rows, 0, 0, rows, size, digests)


class SplitContent(FileContent):
    """The content of a split; a file that changed after the run was planned is Damage."""

    def __init__(self, plan: Plan, split: Split, one: Input) -> None:
        """Describe the split; nothing is read yet."""
        source = one.source
        is_range = source.checksum is not None and split.end is not None
        chunk = (split.end or 0) - split.start or 1 if is_range else plan.chunk_of(one)
        super().__init__(source.path, source.bytes, split.window(source), compression=source.compression, chunk=chunk)
        self._input = one

    def result(self) -> tuple[int, list[bytes]]:
        """Return (bytes, digests of the chunks), once the split was read; raises Damage if the file's size changed."""
        try:
            return super().result()
        except MutatorError as fault:
            if self._input.source.checksum is not None:
                raise Damage(*damaged(self._input, "its size changed while it was read")) from None
            raise Damage(*damage_of(self._input, fault)) from None
