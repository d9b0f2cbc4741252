"""The broadcast join: the folded feed goes to every task, and each patches its own part of the master.

    fold     the runs of the feed -> the winners, as Arrow IPC, and the ledger's elements
    patch    a few splits of the master, the winners -> a file, and which winners were met
    finish   the winners that met no row -> a file of inserted rows, tombstones; the ledger

Nothing of the master moves, so its files keep their rows; a key hash says nothing about where a row is.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mutator.engine.blocks.block_merge import Output, insert_and_bury, merge_blocks, merge_tombstones
from mutator.engine.blocks.fold import fold_parts
from mutator.engine.blocks.master import from_files
from mutator.engine.blocks.mutations import mutations_of_table, table_of_mutations
from mutator.engine.blocks.read_blocks import BlockRun, mutations_of_run, rejected, table_bytes, tombstones
from mutator.engine.blocks.winners import Winners
from mutator.engine.ledger import write_ledger
from mutator.engine.merging_task import MergingTask
from mutator.engine.receipts import LedgerReceipt, MergeReceipt, Receipts, SplitReceipt
from mutator.engine.split_content import (
    Damage,
    LedgerElement,
    check_tombstones,
    damage_element,
    damage_of,
    receipt_of,
    with_floor,
)
from mutator.engine.tally import Tally
from mutator.errors import MutatorError
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split


class MetWinners(NamedTuple):
    """Numbers of winners, as the bytes of int64 arrays."""

    rows: bytes  # met by a row, as often as they were met
    mixed: bytes  # tied, among those
    buried: bytes  # to become tombstones
    landed: bytes  # moved onto a record, among those


class Patch(NamedTuple):
    """The result of the task that patches some splits of the master."""

    receipt: MergeReceipt
    met: MetWinners
    ledger: tuple[LedgerElement, ...]


def fold_feed(plan: Plan, elements: Iterable[Any]) -> tuple[bytes, Any]:
    """Return the winners of all runs, no bytes without mutations, and the highest truncate."""
    plan, elements = with_floor(plan, elements)
    runs = [mutations_of_run(plan, BlockRun(*value)) for _, value in elements]
    return table_bytes(table_of_mutations(fold_parts(plan, runs))) if runs else b"", plan.floor


def patch(plan: Plan, staging: str | None, folded: bytes, number: int, attempt: int) -> Patch:
    """Merge the winners into the splits of the task with a number, and write the file."""
    ledger: list[LedgerElement] = []
    receipts: dict[tuple[int, int], LedgerElement] = {}

    def done(split: Split, source: Input, batch: Any, receipt: SplitReceipt) -> None:
        ledger.extend(rejected(plan, split, source, batch, receipt))
        receipts[split.input, split.number] = receipt_of(plan, split, receipt)

    none = np.zeros(0, np.int64)
    none_met = MetWinners(b"", b"", b"", b"")
    try:
        with MergingTask.opened(plan, staging, number, attempt) as task:
            winners = _winners(plan, folded, task.tally)
            output, files = Output(task, exact=plan.has_sides), task.files(plan.units[number])
            blocks = partial(from_files, plan, plan.local[number], done)
            for kept in merge_blocks(winners, blocks, none, output, _nothing, task.stack):
                files.write(*kept)
            files.close(task.tally)
            receipt = task.receipt(files=files.files, beside=files.beside)
    except Damage as fault:
        return Patch(MergeReceipt(), none_met, (damage_element(plan, plan.local[number][0], fault.fault),))
    met = MetWinners(*(positions.tobytes() for positions in winners[0].met_rows())) if winners else none_met
    return Patch(receipt, met, (*ledger, *receipts.values()))


def met_by(patches: Sequence[Patch]) -> MetWinners:
    """Return the winners that rows of any patch met."""
    return MetWinners(*map(b"".join, zip(*(part.met for part in patches), strict=True)))


def receipts_of(patches: Sequence[Patch], last: MergeReceipt, ledger: LedgerReceipt) -> Receipts:
    """Return all receipts of a run, given those of the patches and of the last task."""
    return Receipts((*(part.receipt for part in patches), last), ledger)


def finish(
    plan: Plan, staging: str | None, folded: bytes, met: MetWinners, ledger: list[LedgerElement], attempt: int
) -> tuple[MergeReceipt, LedgerReceipt]:
    """Insert and bury the winners that met no row; return the receipts of this last task and of the ledger."""
    last = len(plan.local) - 1
    with MergingTask.opened(plan, staging, last, attempt) as task:
        output, files = Output(task, exact=True), task.files(plan.units[last])
        tables = (table for split in plan.local[-1] for table in _tombstones(plan, split, ledger))
        winners = _winners(plan, folded, task.tally)
        for one in winners:
            rows, counts = np.unique(np.frombuffer(met.rows, np.int64), return_counts=True)
            one.met[rows] = True
            one.note("met twice", rows[counts > 1])
            one.mixed[np.frombuffer(met.mixed, np.int64)] = True
            one.bury(np.frombuffer(met.buried, np.int64))
            if one.landed is not None:
                one.landed.living[np.frombuffer(met.landed, np.int64)] = True
        merge_tombstones(plan, winners[0] if winners else None, tables, output)
        for one in winners:
            insert_and_bury(one, output)
        files.finish(output.inserted_rows(), output.kept_tombstones(), task.tally)
        receipt = task.receipt(files=files.files, beside=files.beside)
    return receipt, write_ledger(plan, staging, attempt, sorted(ledger, key=lambda element: element[0][2:]))


def _tombstones(plan: Reading, split: Split, ledger: list[LedgerElement]) -> Iterator[Any]:
    one = plan.inputs[split.input]
    try:
        receipt = check_tombstones(plan, split, one)
        yield from tombstones(plan, split, one)
        ledger.append(receipt_of(plan, split, receipt))
    except (Damage, MutatorError) as fault:
        ledger.append(damage_element(plan, split, damage_of(one, fault).fault))


def _winners(plan: Plan, folded: bytes, tally: Tally) -> list[Winners]:
    if not folded:
        return []
    return [Winners(plan, mutations_of_table(pa.ipc.open_stream(folded).read_all()), tally)]


def _nothing(_: Winners) -> None:
    """Do nothing: winners are finished when all tasks have met them."""
