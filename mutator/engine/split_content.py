"""The content of splits, counted and checksummed, and the elements that go to the ledger.

Plain functions, no Spark. Everything but records goes to the ledger, a partition of its own in the shuffle:

    ((ledger, (), RECEIPT, (input, split)), SplitReceipt as a tuple)
    ((ledger, (), REJECT, (input, offset)), (split, line in the split, reason, row))
    ((ledger, (), DAMAGE, (input, split)), Fault)
    ((ledger, (), TALLY, (task, 0)), MergeReceipt of a step that writes nothing)
    ((ledger, (), FILTER, (input, split)), words of a filter of keys)
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.checksum import chunk_of, combine
from mutator.dataset.feed_filters import words_of
from mutator.dataset.file_content import FileContent
from mutator.dataset.side_columns import count_tombstones, verified_sides
from mutator.engine.receipts import Fault, SplitNumber, SplitReceipt
from mutator.errors import MutatorError, error
from mutator.formats.blocks.block_type import Batch
from mutator.formats.content import NotReadable, OtherForm, OtherHeader, Unfit, unreadable
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split
from mutator.storage import storage_for
from mutator.storage.compression import CorruptStream

RECEIPT, REJECT, DAMAGE, TALLY, FILTER = range(5)
FLOOR = -1  # before all other elements of a group

_FILTERED = 1 << 20  # keys of one filter
LedgerElement = tuple[tuple[int, tuple[()], int, tuple[int, int]], Any]


class Damage(Exception):
    """A file cannot be read: the error that a task returns instead of its result."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


def damage(path: str, why: object, kind: str = "manifest.damage") -> Damage:
    """Return the exception of a damaged file. why: an exception, or text."""
    return Damage(Fault(path, error(kind, path=path, why=why)))


def damaged(file: Input, why: object) -> Damage:
    """Return the exception of a damaged input."""
    if isinstance(why, OtherForm | OtherHeader):
        return Damage(Fault(file.source.path, unreadable(file.source.path, why)))
    kind = "damaged" if file.source.checksum is None else "manifest.damage"
    return damage(file.source.path, why, "schema.value" if isinstance(why, Unfit) else kind)


def damage_of(file: Input, fault: Exception) -> Damage:
    """Return the damage of an input that raised an exception when it was read."""
    if isinstance(fault, Damage):
        return fault
    if isinstance(fault, MutatorError):
        return Damage(Fault(file.source.path, fault))
    return damaged(file, fault)


def read_splits(plan: Reading, splits: Iterable[Split], read: Callable[[Split, Input], Iterator[Any]]) -> Iterator[Any]:
    """Yield the elements of each split of a task; an error becomes an element of the ledger."""
    for split in splits:
        file = plan.inputs[split.input]
        try:
            yield from read(split, file)
        except (Damage, CorruptStream, MutatorError) as fault:
            yield damage_element(plan, split, damage_of(file, fault).fault)


def damage_element(plan: Reading, split: Split, fault: Fault) -> LedgerElement:
    """Return the ledger's element of a damaged split."""
    return (plan.ledger, (), DAMAGE, (split.input, split.number)), fault


def receipt_of(plan: Reading, split: Split, receipt: SplitReceipt) -> LedgerElement:
    """Return the ledger's element of a receipt."""
    return (plan.ledger, (), RECEIPT, (split.input, split.number)), tuple(receipt)


def highest(one: Any, other: Any) -> Any:
    """Return the higher of two order values, of which either may be missing (None)."""
    return max((value for value in (one, other) if value is not None), default=None)


def floors(plan: Reading, split: Split, floor: Any) -> Iterator[Any]:
    """Yield the highest truncate of a split to every group; nothing without one."""
    for group in range(plan.groups) if floor is not None else ():
        yield (group, (), FLOOR, (split.input, split.number)), floor


def with_floor(plan: Plan, elements: Iterable[Any]) -> tuple[Plan, Iterator[Any]]:
    """Take the truncates from the sorted elements of a group; return the plan with their floor, and the others."""
    rest = iter(elements)
    for element in rest:
        if element[0][2] != FLOOR:
            return plan, itertools.chain([element], rest)
        plan = plan.truncated(element[1])
    return plan, rest


class SplitKeys:
    """Collects the hashes of the keys of a split of the feed, and makes filters of them where the run wants any."""

    def __init__(self, plan: Reading, split: Split) -> None:
        """Collect nothing yet."""
        self._plan, self._split = plan, split
        self._hashes: list[Any] = []
        self._count = 0

    def add(self, hashes: Any) -> Iterator[LedgerElement]:
        """Add key hashes, a uint64 array or a list; yield the element of a filter when they are many."""
        if self._plan.filters is None or not len(hashes):
            return
        self._hashes.append(hashes)
        self._count += len(hashes)
        if self._count >= _FILTERED:
            yield from self.filters()

    def filters(self) -> Iterator[LedgerElement]:
        """Yield the element of a filter of the keys since the last one, if there are any."""
        if self._hashes:
            hashes = np.concatenate([np.asarray(part, np.uint64) for part in self._hashes])
            yield (self._plan.ledger, (), FILTER, (self._split.input, self._split.number)), words_of(hashes)
        self._hashes, self._count = [], 0


def checksum_of(plan: Reading, index: int, receipts: Mapping[SplitNumber, SplitReceipt]) -> str:
    """Return the checksum of an input, combined from the digests of its splits. index: the number of the input."""
    digests: list[bytes] = []
    number = 0
    while (index, number) in receipts:
        digests += receipts[index, number].digests
        number += 1
    return combine(digests, plan.chunk_of(plan.inputs[index]))


class RowSides:
    """What is kept beside a split's rows, in step with the rows that are read.

    It comes from the side file of the data file; without one, each row has the sequence of its file.
    """

    def __init__(self, plan: Reading, split: Split, file: Input) -> None:
        """Read the side file. Raises Damage."""
        self._plan, self._file = plan, file
        self._sides = _recorded_sides(plan, split, file)
        self._row = 0

    @property
    def recorded(self) -> bool:
        """Whether there is a side file."""
        return self._sides is not None

    def of(self, batch: Batch) -> Any:
        """Return what is kept beside the next batch's records (``Reading.sides``). Raises Damage if it is too short."""
        count, rejected = len(batch.block), len(batch.rejects)
        if self._sides is None:
            return self._plan.sides_of_files(np.full(count, self._file.sequence, np.int64))
        if rejected:  # a rejected row has a sequence, too
            offsets = np.sort(np.array([reject.offset for reject in batch.rejects], np.int64))
            rows = self._row + np.arange(count) + np.searchsorted(offsets, batch.block.offsets)
            sides = self._sides.take(pa.array(rows[rows < len(self._sides)]))
        else:
            sides = self._sides.slice(self._row, count)
        if len(sides) < count:
            raise self._too_few()
        self._row += count + rejected
        return sides

    def each(self) -> Iterator[tuple[Any, ...]]:
        """Return an iterator over what is kept beside single rows, the sequence first. It raises Damage at its end."""
        if self._sides is None:
            sides = self._plan.sides_of_files(np.array([self._file.sequence]))
            return itertools.repeat(next(zip(*(column.to_pylist() for column in sides.flatten()), strict=True)))
        return self._each(self._sides)

    def _each(self, sides: Any) -> Iterator[tuple[Any, ...]]:
        for values in zip(*(column.to_pylist() for column in sides.flatten()), strict=True):
            self._row += 1
            yield values
        raise self._too_few()

    def end(self) -> None:
        """Raise Damage where the split had fewer or more rows than its side file."""
        if self._sides is None or self._row == len(self._sides):
            return
        if self._row > len(self._sides):
            raise self._too_few()
        raise damaged(self._file, "it has fewer rows than its side file")

    def _too_few(self) -> Damage:
        return damaged(self._file, "it has more rows than its side file")


def _recorded_sides(plan: Reading, split: Split, file: Input) -> Any:
    """Return what is kept beside each row of a split, None without a side file. Raises Damage."""
    path, order = file.source.order_path, file.source.order_part
    if path is None or order is None or not plan.has_sides:
        return None
    try:
        return verified_sides(path, order.checksum, plan.side_fields, split.number)
    except NotReadable as fault:
        raise damaged(file, fault) from None


def check_tombstones(plan: Reading, split: Split, file: Input) -> SplitReceipt:
    """Compare a file of tombstones with its checksum, before Parquet reads it; return its receipt. Raises Damage."""
    part = file.source.part
    assert part is not None
    content = SplitContent(plan, split, file)
    for _ in content.blocks():
        pass
    size, digests = content.result()
    found = combine(digests, chunk_of(part.checksum) or 1)
    if found != part.checksum:
        raise damaged(file, f"its checksum is {found} and should be {part.checksum}")
    with storage_for(file.source.path).open(file.source.path) as stream:
        rows = count_tombstones(stream)
    return SplitReceipt(rows, 0, 0, rows, size, digests)


class SplitContent(FileContent):
    """The content of a split; a file that changed after the run was planned is Damage."""

    def __init__(self, plan: Reading, split: Split, one: Input) -> None:
        """Describe the split, without reading it."""
        source = one.source
        is_range = source.checksum is not None and split.end is not None
        chunk = (split.end or 0) - split.start or 1 if is_range else plan.chunk_of(one)
        window = source.window(split.start, split.end)
        super().__init__(source.path, source.bytes, window, compression=source.compression, chunk=chunk)
        self._input = one

    def result(self) -> tuple[int, list[bytes]]:
        """Return (bytes, digests of the chunks), once the split was read; raises Damage if the file's size changed."""
        try:
            return super().result()
        except MutatorError as fault:
            if self._input.source.checksum is not None:
                raise damaged(self._input, "its size changed while it was read") from None
            raise damage_of(self._input, fault) from None
