"""The inputs and the receipt of a task that merges, in either engine, for masters and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from mutator.engine.bucket_files import BucketFiles
from mutator.engine.changed_rows import ChangedRowFile, changed_rows
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.receipts import MergeReceipt
from mutator.engine.split_content import with_floor
from mutator.engine.tally import Tally
from mutator.errors.failpoints import failpoint
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.run_plan import Plan


class MergingTask:
    """A task that merges, or one of the units that a task merges one after the other."""

    def __init__(
        self, plan: Plan, staging: str | None, attempt: int, elements: Iterable[Any], stack: ExitStack
    ) -> None:
        """Count nothing yet. staging: directory of the files, None for a dry run."""
        self.plan, self.staging, self.attempt, self.elements, self.stack = plan, staging, attempt, elements, stack
        self.tally = Tally(most_rejects=plan.rejects_shipped.get("feed", 0))
        self.changes: ChangedRowFile | None = None  # receives the rows that change; None: nobody wants them
        self._has_changes = False  # its receipt names their file

    @classmethod
    @contextmanager
    def opened(
        cls, plan: Plan, staging: str | None, number: int, attempt: int, elements: Iterable[Any] = ()
    ) -> Iterator[MergingTask]:
        """Open the task with a number. elements: sorted; its plan has the floor of the truncates among them."""
        failpoint("task.started", attempt)
        keep_freed_memory()
        plan, elements = with_floor(plan, elements)
        with ExitStack() as stack:
            task = cls(plan, staging, attempt, elements, stack)
            task.changes = changed_rows(plan, staging, number, attempt, stack)
            task._has_changes = task.changes is not None
            yield task

    @contextmanager
    def unit(self) -> Iterator[MergingTask]:
        """Open a unit: it has files and counts of its own, and its changed rows go to the file of the task."""
        with ExitStack() as stack:
            unit = MergingTask(self.plan, self.staging, self.attempt, (), stack)
            unit.changes = self.changes
            yield unit

    def files(self, unit: MergeUnit) -> BucketFiles:
        """Return the files of a unit."""
        return BucketFiles(self.plan, self.staging, unit, self.attempt, self.stack)

    def receipt(self, **members: Any) -> MergeReceipt:
        """Return the receipt that travels to the driver, once all is written. members: of ``MergeReceipt``."""
        made = self.tally.receipt(**members)
        return self.changes.added_to(made) if self.changes is not None and self._has_changes else made
