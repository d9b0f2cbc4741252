"""Write one bucket's files, or only count them; return a receipt. Plain functions, no Spark.

Every attempt of a task writes under names of its own; only the files of the receipts that reach the driver are
committed, so a task that is retried or doubled leaves nothing but litter in the staging directory.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from mutator.engine.content import DAMAGE, RECEIPT, Receipt
from mutator.engine.merge import merge_bucket
from mutator.engine.read import Element
from mutator.engine.staged import Counted, create, file_name
from mutator.engine.tally import Tally
from mutator.failpoint import failpoint
from mutator.formats.parquet_columns import TombstoneWriter, write_sequences
from mutator.manifest import DataFile, SideFile
from mutator.plan import SAMPLES, Plan
from mutator.precedence import format_order

__all__ = ["Sorter", "write_bucket", "write_ledger"]

Row = tuple[tuple[Any, ...], bytes, Any]  # place, row, order value
Sorter = Callable[[Iterable[Row]], Iterator[Row]]


def write_bucket(
    plan: Plan, staging: str | None, bucket: int, attempt: int, elements: Iterable[Element], sort: Sorter
) -> dict[str, Any]:
    """Merge one bucket and write its rows, their sequences and its tombstones; return the receipt.

    staging: directory that the files go to, None for a dry run. attempt: number of this task's attempt, from 0.
    sort: sorts rows by place, in bounded memory.
    """
    failpoint("task.started", attempt)
    tally = Tally()
    name = file_name(plan, bucket, attempt)
    files: list[DataFile] = []
    beside: list[SideFile] = []
    with ExitStack() as stack:
        tombstones = _Tombstones(plan, staging, f"_mutator/tombstones/{name}.parquet", stack)
        rows = merge_bucket(
            elements,
            tally,
            tombstones.append,
            now=plan.now,
            full=plan.full,
            horizon=plan.horizon,
            expire_before=plan.expire_before,
        )
        if staging is None:
            tally.counts["output rows"] += sum(1 for _ in rows)
        else:
            _write_rows(plan, staging, bucket, attempt, name, sort(rows), tally, files, beside)
    if tombstones.rows:
        tally.counts["tombstones out"] += tombstones.rows
        if staging is not None:
            failpoint("task.tombstones.written", attempt)
            beside.append(tombstones.receipt(bucket))
    return {
        **tally.receipt(),
        "files": [asdict(part) for part in files],
        "beside": [asdict(part) for part in beside],
    }


def write_ledger(plan: Plan, staging: str | None, attempt: int, elements: Iterable[Element]) -> dict[str, Any]:
    """Collect what was read of each split, and write the rejected rows; return the receipt."""
    receipts: dict[tuple[int, int], Receipt] = {}
    lines_before: dict[tuple[int, int], int] = {}
    samples: dict[str, list[tuple[str, int, int, str, bytes]]] = {}
    damage: list[tuple[str, dict[str, Any]]] = []
    beside: list[dict[str, Any]] = []
    path = f"_mutator/rejected/rejected-{plan.run}{f'-{attempt}' if attempt else ''}.tsv"
    rows = 0
    with ExitStack() as stack:
        stream: Counted | None = None
        for (_, _, kind, place), value in elements:
            if kind == RECEIPT:
                receipts[place] = Receipt(*value)
            elif kind == DAMAGE:
                damage.append(value)
            else:
                index, offset = place
                split, line, reason, row = value
                one = plan.inputs[index]
                # All receipts come before the first reject, so the lines of the splits before this one are known.
                if (index, split) not in lines_before:
                    lines_before[index, split] = sum(
                        receipts[index, n].lines for n in range(split) if (index, n) in receipts
                    )
                line += lines_before[index, split]
                rows += 1
                kept = samples.setdefault(one.side, [])
                if len(kept) < SAMPLES:
                    kept.append((one.source.path, offset, line, reason, row[:200]))
                if staging is not None:
                    if stream is None:
                        stream = stack.enter_context(create(plan, staging, path))
                    path_text = one.source.path.replace("\t", "\\t").replace("\n", "\\n")  # a directory may be named so
                    place_text = f"{path_text}\t{offset}\t{line}\t{reason}\t".encode("utf-8", "surrogateescape")
                    stream.write(place_text + row + b"\n")
    if stream is not None:
        failpoint("task.rejected.written", attempt)
        beside.append(asdict(SideFile(kind="rejected", bucket=None, rows=rows, **stream.receipt())))
    return {
        "receipts": [(place, tuple(receipt)) for place, receipt in receipts.items()],
        "rejects": samples,
        "rejects met": rows,
        "damage": damage,
        "beside": beside,
    }


def _write_rows(
    plan: Plan,
    staging: str,
    bucket: int,
    attempt: int,
    name: str,
    rows: Iterator[Row],
    tally: Tally,
    files: list[DataFile],
    beside: list[SideFile],
) -> None:
    first = next(rows, None)
    if first is None:
        return  # an empty bucket has no file
    if plan.by_file_name and tally.newest >= 0:
        name += f"_{tally.newest}"
    path, count = f"{name}.txt", 0
    sequences, by_chunk = array("q"), [0]
    with create(plan, staging, path) as stream:
        failpoint("task.data.opened", attempt)
        while first is not None:
            _, row, order = first
            while stream.bytes >= len(by_chunk) * plan.chunk:
                by_chunk.append(0)
            by_chunk[-1] += 1
            stream.write(row + b"\n")
            count += 1
            if plan.by_file_name:
                sequences.append(order)
            first = next(rows, None)
    failpoint("task.data.written", attempt)
    order_path = None
    if plan.by_file_name:
        order_path = f"_mutator/order/{path}.parquet"
        with create(plan, staging, order_path) as side:
            write_sequences(side, sequences, by_chunk)  # type: ignore[arg-type]  # pyarrow asks for no more
        beside.append(SideFile(kind="order", bucket=bucket, rows=count, **side.receipt()))
        failpoint("task.order.written", attempt)
    files.append(DataFile(bucket=bucket, rows=count, order=order_path, **stream.receipt()))
    tally.counts["output rows"] += count


class _Tombstones:
    """The bucket's tombstones: a file that is created with the first one."""

    def __init__(self, plan: Plan, staging: str | None, path: str, stack: ExitStack) -> None:
        self._plan, self._staging, self._path, self._stack = plan, staging, path, stack
        self._writer: TombstoneWriter | None = None
        self._stream: Counted | None = None
        self.rows = 0

    def append(self, tombstone: tuple[tuple[bytes, ...], Any, int]) -> None:
        self.rows += 1
        if self._staging is None:
            return
        if self._writer is None:
            self._stream = self._stack.enter_context(create(self._plan, self._staging, self._path))
            self._writer = TombstoneWriter(self._stream, self._plan.key_width)  # type: ignore[arg-type]
            self._stack.callback(self._writer.close)
        key, order, committed = tombstone
        lowest = self._plan.by_file_name and order < 0
        self._writer.append(key, None if lowest else format_order(self._plan.order_type, order), committed)

    def receipt(self, bucket: int) -> SideFile:
        assert self._stream is not None
        return SideFile(kind="tombstones", bucket=bucket, rows=self.rows, **self._stream.receipt())
