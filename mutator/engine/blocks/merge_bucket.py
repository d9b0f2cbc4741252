"""The reduce task of the blocks engine: shuffled elements of a group of buckets in, files and a receipt out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pyarrow as pa

from mutator.engine.blocks.carry import carry_over
from mutator.engine.blocks.master import from_shuffle
from mutator.engine.blocks.merge_task import UnitTask
from mutator.engine.blocks.mutations import Mutations
from mutator.engine.blocks.read_blocks import ROWS, RUN, TOMBSTONES, BlockRows, BlockRun, mutations_of_run
from mutator.engine.blocks.spool import SortedSpool
from mutator.engine.merging_task import MergingTask
from mutator.engine.receipts import MergeReceipt
from mutator.plan.run_plan import Plan


def write_group(plan: Plan, staging: str | None, group: int, attempt: int, elements: Iterable[Any]) -> MergeReceipt:
    """Merge a group of buckets and write their files; return the receipt.

    elements: what ``blocks.read`` made for the group, sorted. staging: None for a dry run.
    """
    with MergingTask.opened(plan, staging, group, attempt, elements) as task:
        unit, files = plan.units[group], task.files(plan.units[group])
        merge = UnitTask(task, unit, plan.local[group] if plan.strategy.join == "aligned" else (), files)
        return merge.receipt(lambda: merge_group(merge, partial(carry_over, merge, files.staging, attempt)))


def merge_group(task: UnitTask, carry: Callable[[], None] | None = None) -> None:
    """Merge shuffled elements with the master's rows. carry: carries over the files, where there are no mutations."""
    plan, sections = task.plan, Sections(task.plan, task.task.elements, task.stack)
    for found in sections.mutations():
        task.parts.append(found)
    if (
        carry is not None
        and plan.strategy.join == "aligned"
        and not len(task.parts)
        and not plan.truncates
        and not plan.register.buries_absent
        and not task.unit.replaced
        and plan.rows.carries
        and plan.strategy.buckets == plan.master_buckets
    ):
        carry()
    elif plan.strategy.join == "shuffle":
        again = not plan.unique or len(task.parts) > 1
        task.merge(from_shuffle(plan, sections.rows(), again=again, stack=task.stack), sections.tombstones)
    else:
        task.merge(task.from_master, sections.tombstones)


class Sections:
    """Sorted elements of a group: its runs, then its rows, then its tombstones, to be read in this order."""

    def __init__(self, plan: Plan, elements: Iterable[Any], stack: ExitStack) -> None:
        """Take the elements of one group, as ``blocks.read`` makes them."""
        self._plan, self._elements = plan, iter(elements)
        self._head = next(self._elements, None)
        self._tombstones = SortedSpool(["hash"], plan.set_aside, stack)

    def _of(self, content: int) -> Iterator[Any]:
        while self._head is not None and self._head[0][2] == content:
            value = self._head[1]
            self._head = next(self._elements, None)
            yield value

    def mutations(self) -> Iterator[Mutations]:
        """Yield runs of the feed."""
        return (mutations_of_run(self._plan, BlockRun(*value)) for value in self._of(RUN))

    def rows(self) -> Iterator[BlockRows]:
        """Yield rows of the master."""
        return (BlockRows(*value) for value in self._of(ROWS))

    def tombstones(self) -> Iterator[Any]:
        """Yield tables of tombstones; may be called several times."""
        for value in self._of(TOMBSTONES):  # they follow the rows, once
            self._tombstones.append(pa.ipc.open_stream(value).read_all())
        yield from self._tombstones.tables()
