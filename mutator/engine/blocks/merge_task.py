"""The merge of a unit: winners and the master's rows and tombstones in, files and a receipt out.

Duplicate rows of a key in an unmanaged master: the one with the highest precedence survives.

First every hash that occurs twice is found, then only the rows with these hashes are compared. Of rows that were
shuffled, the prefixes of their hashes come first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.engine.blocks.block_merge import Blocks, Output, insert_and_bury, merge_blocks, merge_tombstones
from mutator.engine.blocks.hash_parts import Parts
from mutator.engine.blocks.master import MasterBlock, from_files
from mutator.engine.blocks.mutations import key_names
from mutator.engine.blocks.read_blocks import tombstones
from mutator.engine.blocks.spool import SortedSpool
from mutator.engine.blocks.winners import Winners
from mutator.engine.merging_task import MergingTask
from mutator.engine.receipts import MergeReceipt, SplitReceipt
from mutator.engine.scratch import scratch_directory
from mutator.engine.split_content import Damage, check_tombstones, damage_of
from mutator.engine.tally import DELETE_WITHOUT_PARTITION, Tally
from mutator.errors import MutatorError
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.key_hash import Prefixes, PrefixTable
from mutator.rules.order_columns import flags

_FILES = 64


def is_in(hashes: Hashes | Prefixes, known: Hashes | Prefixes) -> Flags:
    """Return a flag for each hash: whether it is among some sorted ones of its type."""
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
    hashed = (one.hashes if one.prefixes is None else one.prefixes for one in blocks())
    repeated = _repeated(hashed, plan.memory, stack)
    if len(repeated) and repeated.dtype == np.uint32:  # other keys may have the same prefix
        repeated = _repeated((hashes for _, _, hashes in _suspects(blocks(), repeated)), plan.memory, stack)
    if not len(repeated):
        return np.zeros(0, np.int64)
    keys = key_names(plan.key_width)
    same_in = [*keys, "order"] if plan.register.by_order else keys  # columns by which rows are duplicates
    names = [*keys, "order", "sequence", *(["content"] if plan.master_is_table else []), "row"]
    spool = SortedSpool(names, plan.set_aside, stack)
    for one, rows, hashes in _suspects(blocks(), repeated):
        rows = rows[is_in(hashes, repeated)]
        if len(rows):
            columns = [
                *one.keys(rows),
                one.orders(rows),
                one.sequences(rows),
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


def _suspects(blocks: Iterable[MasterBlock], repeated: Hashes | Prefixes) -> Iterator[tuple[MasterBlock, Ints, Hashes]]:
    """Yield each block, the numbers of its rows whose hash may be repeated, and the hashes of these rows.

    repeated: hashes, or their prefixes.
    """
    table = PrefixTable([repeated])
    for one in blocks:
        rows = table.rows(one.hashes if one.prefixes is None else one.prefixes)
        yield one, rows, one.hashes_of(rows)


def _keys(table: Any, names: list[str], rows: Ints) -> Iterable[tuple[bytes, ...]]:
    index = pa.array(rows)
    return zip(*(table.column(name).take(index).to_pylist() for name in names), strict=True)


def _repeated(blocks: Iterable[Hashes | Prefixes], most: int, stack: ExitStack) -> Any:
    """Return the hashes, or prefixes of hashes, that occur more than once, sorted."""
    waiting: list[Any] = []
    size, directory = 0, None
    kind: type[np.uint64 | np.uint32] = np.uint64
    for hashes in blocks:
        kind = hashes.dtype.type
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
    return np.concatenate([_twice(np.fromfile(path, kind)) for path in paths if os.path.exists(path)])


def _spread(waiting: list[Any], directory: str) -> None:
    """Put hashes, or prefixes, into files by their highest bits: equal ones share a file; the files are in order."""
    for hashes in waiting:
        parts = hashes >> hashes.dtype.type(8 * hashes.itemsize - 6)
        for part in np.unique(parts):
            with open(os.path.join(directory, str(part)), "ab") as file:
                hashes[parts == part].tofile(file)


def _twice(hashes: Any) -> Any:
    hashes = np.sort(hashes)
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


class RowSink(Protocol):
    """Receives the rows and tombstones that a merge leaves; ``BucketFiles`` writes them."""

    def write(self, rows: Any, count: int, hashes: Hashes | None, sides: Any) -> None:
        """Write rows; see ``BucketFiles.write``."""

    def finish(self, inserted: Iterator[Any], tombstones: Iterator[Any], tally: Tally) -> None:
        """Write the last tables, of inserted rows and of tombstones; count all rows."""

    @property
    def rows(self) -> int:
        """Number of rows written so far."""

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """The data files that were written."""

    @property
    def beside(self) -> tuple[FileEntry, ...]:
        """The files beside them."""


def no_tombstones() -> Iterator[Any]:
    """Return no tables: no tombstones came with the shuffle."""
    return iter(())


class UnitTask:
    """The merge of a unit: its winners are put into ``hash_parts``, and then meet the rows of the master."""

    def __init__(
        self,
        task: MergingTask,
        unit: MergeUnit,
        splits: Sequence[Split],
        files: RowSink,
        *,
        exact: bool = False,
        hashed: bool = False,
    ) -> None:
        """Set up the merge of a unit.

        splits: of the master's files that this task reads. files: receives the rows. exact: rows must stay one element
        each. hashed: the sink needs the hashes of their keys.
        """
        plan = self.plan = task.plan
        self.task, self.unit, self.files, self.stack, self.tally = task, unit, files, task.stack, task.tally
        self.receipts: dict[tuple[int, int], SplitReceipt] = {}
        self.carried: list[int] = []
        self.kept: list[FileEntry] = []
        self.checked: list[str] = []
        self.data = [split for split in splits if plan.inputs[split.input].side == "master"]
        self.buried = [split for split in splits if plan.inputs[split.input].side == "tombstones"]
        divided = len(unit.numbers) > 1  # rows are split by bucket again
        exact = exact or plan.has_sides or divided
        self.output = Output(task, exact=exact, hashed=hashed or divided, unit=unit)
        self.parts = Parts(plan, task.tally, task.stack)

    def receipt(self, work: Callable[[], None]) -> MergeReceipt:
        """Do the work, and return its receipt; if a file is damaged, one with nothing but the damage."""
        try:
            work()
        except Damage as fault:
            return MergeReceipt(damage=(fault.fault,))
        return self.task.receipt(
            files=(*self.files.files, *(part for part in self.kept if part.is_data)),
            beside=(*self.files.beside, *(part for part in self.kept if not part.is_data)),
            splits=self.receipts,
            carried=tuple(self.carried),
            checked=tuple(self.checked),
            partition=self.unit.partition,
            rows=self.files.rows,
        )

    def from_master(self) -> Iterator[MasterBlock]:
        """Read the rows of the master's files."""
        return from_files(self.plan, self.data, self._read)

    def _read(self, split: Split, file: Input, _: Any, receipt: SplitReceipt) -> None:
        self.receipts[split.input, split.number] = receipt

    def merge(self, rows: Blocks, shuffled: Callable[[], Iterator[Any]]) -> None:
        """Let the winners meet rows and tombstones, and write the result.

        shuffled: returns tables of the tombstones that came with the shuffle.
        """
        plan, parts = self.plan, self.parts
        dropped = np.zeros(0, np.int64) if plan.unique else duplicates(plan, rows, self.tally, self.stack)
        finish = partial(self._finish, shuffled)
        for kept in merge_blocks(parts, rows, dropped, self.output, finish, self.stack):
            self.files.write(*kept)
        if not len(parts):
            merge_tombstones(plan, None, self.tombstones(shuffled), self.output)
        self.close()

    def _finish(self, shuffled: Callable[[], Iterator[Any]], winners: Winners) -> None:
        """Let winners that have met all rows meet the tombstones; insert or bury the others."""
        tombstones = self.parts.filtered(self.tombstones(shuffled), winners)
        merge_tombstones(self.plan, winners, tombstones, self.output)
        unplaced = self.plan.rows.partitioning.by_partition and self.unit.lacks_value
        insert_and_bury(winners, self.output, DELETE_WITHOUT_PARTITION if unplaced else None)

    def close(self) -> None:
        """Write the inserted rows and the tombstones."""
        self.files.finish(self.output.inserted_rows(), self.output.kept_tombstones(), self.tally)

    def tombstones(self, shuffled: Callable[[], Iterator[Any]] | None = None) -> Iterator[Any]:
        """Read the tombstones that were shuffled, and those of the master's files."""
        if shuffled is not None:
            yield from shuffled()
        for split in self.buried:
            file = self.plan.inputs[split.input]
            try:
                if (split.input, split.number) not in self.receipts:
                    self.receipts[split.input, split.number] = check_tombstones(self.plan, split, file)
                yield from tombstones(self.plan, split, file)
            except MutatorError as fault:
                raise damage_of(file, fault) from None
