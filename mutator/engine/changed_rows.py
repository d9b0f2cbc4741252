"""The changed rows of a task, in one file beside the data: written where the row before and after are at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.commit.staging import StagedFile
from mutator.dataset.manifest import CHANGES
from mutator.engine.receipts import MergeReceipt
from mutator.engine.task_files import create, file_name
from mutator.errors.failpoints import failpoint
from mutator.formats.blocks.changed_rows import ChangeWriter
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags
from mutator.rules.changes import AFTER, BEFORE, INSERT, Changes

_ROWS = 1 << 15  # that are encoded at once
_BYTES = 8 << 20


def changed_rows(plan: Plan, staging: str | None, number: int, attempt: int, stack: ExitStack) -> ChangedRowFile | None:
    """Return the receiver of a task's changed rows; None if the run writes none, or nothing at all."""
    if plan.changes is None or staging is None:
        return None
    return ChangedRowFile(plan, staging, number, attempt, stack)


class ChangedRowFile:
    """Receives the changed rows of a task; the file is created with the first of them."""

    def __init__(self, plan: Plan, staging: str, number: int, attempt: int, stack: ExitStack) -> None:
        """Create no file yet. number: of the task."""
        self._plan, self._staging, self._number, self._attempt = plan, staging, number, attempt
        self._stack = stack.enter_context(ExitStack())
        self._stream: StagedFile | None = None
        self._writer: ChangeWriter | None = None
        self._changes: list[Changes] = []
        self._rows: list[Any] = []
        self._count = self._bytes = 0

    def add(self, changes: Changes | int, rows: Any) -> None:
        """Add rows. changes: of each of them, or of all. rows: pa.Array of written rows, one element per row."""
        if not len(rows):
            return
        self._changes.append(np.full(len(rows), changes, np.int8) if isinstance(changes, int) else changes)
        self._rows.append(rows)
        self._count += len(rows)
        self._bytes += rows.nbytes
        if self._count >= _ROWS or self._bytes >= _BYTES:
            self._flush()

    def update(self, before: Any, after: Any) -> None:
        """Add rows that were updated, each followed by what it became."""
        count = len(before)
        if not count:
            return
        pairs = np.arange(2 * count).reshape(2, count).T.ravel()
        kinds = np.tile(np.array([BEFORE, AFTER], np.int8), count)
        self.add(kinds, pa.concat_arrays([before, after]).take(pa.array(pairs)))

    def noting(self, inserted: Iterator[Any]) -> Iterator[Any]:
        """Yield tables of inserted rows, and add these. The column "arrives" marks the rows that are updates."""
        for table in inserted:
            arrives: Flags = table.column("arrives").to_numpy()
            self.add(np.where(arrives, AFTER, INSERT).astype(np.int8), table.column("row").combine_chunks())
            yield table

    def added_to(self, receipt: MergeReceipt) -> MergeReceipt:
        """Finish the file; return a receipt that names it, too."""
        self._flush()
        if self._stream is None or self._writer is None:
            return receipt
        self._stack.close()
        failpoint("task.changes.written", self._attempt)
        return replace(receipt, beside=(*receipt.beside, self._stream.entry(self._writer.rows, CHANGES)))

    def _flush(self) -> None:
        if not self._count:
            return
        if self._writer is None:
            self._writer = self._create()
        self._writer.write(np.concatenate(self._changes), pa.concat_arrays(self._rows))
        self._changes, self._rows, self._count, self._bytes = [], [], 0, 0

    def _create(self) -> ChangeWriter:
        plan, form, block_type = self._plan, self._plan.changes, self._plan.block_type
        assert form is not None
        path = f"_mutator/{CHANGES}/{file_name(plan, self._number, self._attempt)}{block_type.changes_suffix}"
        self._stream = self._stack.enter_context(create(plan, self._staging, path))
        failpoint("task.changes.opened", self._attempt)
        stream: Any = self._stream
        writer = block_type.changes_writer(stream, plan.rows.output, plan.rows.layouts["written"], form)
        self._stack.callback(writer.close)
        return writer
