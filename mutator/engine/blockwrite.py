"""The reduce task of the blocks engine: a group of buckets, from what was shuffled to files and a receipt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ArrowException

from mutator.checksum import ChunkedChecksum, chunk_of
from mutator.engine.allocator import keep_freed_memory
from mutator.engine.blockmerge import Blocks, Output, Parts, insert_and_bury, merge_blocks, merge_tombstones
from mutator.engine.blockread import GRAVES, ROWS, RUN, Rows, Run, mutations_of_run, tombstones
from mutator.engine.content import Content, Damage, Receipt, damage_of
from mutator.engine.duplicates import duplicates
from mutator.engine.filewrite import Files
from mutator.engine.master import from_files, from_shuffle
from mutator.engine.spool import SortedSpool
from mutator.engine.tally import Tally
from mutator.engine.winners import Winners
from mutator.errors import MutatorError
from mutator.failpoint import failpoint
from mutator.formats.parquet_columns import oldest_tombstone
from mutator.inputs import Input, Split
from mutator.manifest import Part
from mutator.plan import Plan
from mutator.storage import blocks, storage_for

__all__ = ["write_group"]


def write_group(plan: Plan, staging: str | None, group: int, attempt: int, elements: Iterable[Any]) -> dict[str, Any]:
    """Merge a group of buckets and write their files; return the receipt.

    elements: what ``blockread`` made for the group, sorted. staging: None for a dry run.
    """
    failpoint("task.started", attempt)
    keep_freed_memory()
    task = _Task(plan, staging, group, attempt)
    try:
        with task.stack:
            task.merge(_Sections(elements))
    except Damage as fault:
        return {**Tally().receipt(), "files": [], "beside": [], "damage": [fault.args]}
    return task.receipt()


class _Sections:
    """Sorted elements, one kind after the other."""

    def __init__(self, elements: Iterable[Any]) -> None:
        self._elements = iter(elements)
        self._head = next(self._elements, None)

    def of(self, kind: int) -> Iterator[Any]:
        """Yield the values of a kind; kinds are asked for in their order."""
        while self._head is not None and self._head[0][2] == kind:
            value = self._head[1]
            self._head = next(self._elements, None)
            yield value


class _Task:
    def __init__(self, plan: Plan, staging: str | None, group: int, attempt: int) -> None:
        self.plan, self.staging, self.group, self.attempt = plan, staging, group, attempt
        self.stack = ExitStack()
        self.tally = Tally()
        self.receipts: dict[tuple[int, int], Receipt] = {}
        self.carried: list[int] = []
        local = plan.local[group] if plan.join == "aligned" else ()
        self.data = [split for split in local if plan.inputs[split.input].side == "master"]
        self.graves = [split for split in local if plan.inputs[split.input].side == "tombstones"]
        self.files: Files | None = None
        self.kept: list[Part] = []

    def merge(self, sections: _Sections) -> None:
        plan = self.plan
        parts = Parts(plan, self.tally, self.stack)
        for value in sections.of(RUN):
            parts.append(mutations_of_run(plan, Run(*value)))
        if plan.join == "aligned" and not len(parts) and not plan.full and plan.buckets == plan.master_buckets:
            self._carry_over(parts)
            return
        pieces = (Rows(*value) for value in sections.of(ROWS))
        rows: Blocks = partial(from_files, plan, self.data, self._done)
        if plan.join == "shuffle":
            rows = from_shuffle(plan, pieces, again=not plan.unique or len(parts) > 1, stack=self.stack)
        dropped = np.zeros(0, np.int64) if plan.unique else duplicates(plan, rows, self.tally, self.stack)
        self._write(parts, rows, dropped, sections)

    def _write(self, parts: Parts, rows: Any, dropped: Any, sections: _Sections) -> None:
        plan = self.plan
        buckets = range(self.group, plan.buckets or 1, plan.groups)
        exact = plan.by_file_name or len(buckets) > 1
        output = Output(plan, self.tally, exact, self.stack)
        self.files = Files(plan, self.staging, buckets, self.attempt, self.stack)
        graves: SortedSpool | None = None
        finished = False

        def tables() -> Iterator[Any]:
            nonlocal graves
            if plan.join == "aligned":
                yield from self._own_tombstones()
                return
            if graves is None:  # they come behind the rows, once
                graves = SortedSpool(["hash"], plan.memory, self.stack)
                for value in sections.of(GRAVES):
                    graves.append(pa.ipc.open_stream(value).read_all())
            yield from graves.tables()

        def finish(winners: Winners) -> None:
            nonlocal finished
            finished = True
            merge_tombstones(plan, winners, _of_part(tables(), winners, parts), output)
            insert_and_bury(winners, output)

        for kept in merge_blocks(plan, parts, rows, dropped, output, finish, self.stack):
            self.files.write(*kept)
        if not finished:
            merge_tombstones(plan, None, tables(), output)
        self.files.finish(output.inserted.tables(), output.tombstones.tables(), self.tally)

    def _done(self, split: Split, one: Input, _: Any, receipt: Receipt) -> None:
        self.receipts[split.input, split.number] = receipt

    def _own_tombstones(self) -> Iterator[Any]:
        for split in self.graves:
            one = self.plan.inputs[split.input]
            try:
                if (split.input, split.number) not in self.receipts:
                    size, digests = Content(self.plan, split, one).whole()  # before Parquet stumbles over it
                    rows = one.source.part.rows if one.source.part else 0
                    self.receipts[split.input, split.number] = Receipt(rows, 0, 0, rows, size, digests)
                yield from tombstones(self.plan, split, one)
            except MutatorError as fault:
                raise Damage(*damage_of(one, fault)) from None

    def _carry_over(self, parts: Parts) -> None:
        """Take the files of buckets without mutations as they are."""
        for index in dict.fromkeys(split.input for split in self.data):
            self._carry(index)
        if any(self._expires(self.plan.inputs[split.input]) for split in self.graves):
            held, self.data = self.data, []
            self._write(parts, lambda: iter(()), np.zeros(0, np.int64), _Sections(()))
            self.data = held
            return
        for index in dict.fromkeys(split.input for split in self.graves):
            self._carry(index)

    def _expires(self, one: Input) -> bool:
        if self.plan.expire_before is None:
            return False
        try:
            with storage_for(one.source.path).open(one.source.path) as stream:
                return oldest_tombstone(stream) < self.plan.expire_before
        except (ArrowException, OSError, AttributeError, LookupError, ValueError):
            return True  # whatever is wrong with it is found when it is read

    def _carry(self, index: int) -> None:
        one = self.plan.inputs[index]
        source, part = one.source, one.source.part
        assert part is not None
        self.carried.append(index)
        self.kept.append(part)
        counts = self.tally.counts
        if one.side == "tombstones":
            counts["tombstones in"] += part.rows
            counts["tombstones out"] += part.rows
        else:
            counts["master kept"] += part.rows
            counts["output rows"] += part.rows
        if self.staging is None:
            return
        _link_or_copy(source.path, f"{self.staging}/{part.path}", part.checksum)
        if source.order_part is not None and source.order_path is not None:
            self.kept.append(source.order_part)
            target = f"{self.staging}/{source.order_part.path}"
            _link_or_copy(source.order_path, target, source.order_part.checksum)
        failpoint("task.carried", self.attempt)

    def receipt(self) -> dict[str, Any]:
        files, beside = self.files.receipts() if self.files is not None else ([], [])
        kept = [asdict(part) for part in self.kept]
        return {
            **self.tally.receipt(),
            "files": files + [part for part in kept if "kind" not in part],
            "beside": beside + [part for part in kept if "kind" in part],
            "receipts": [(place, tuple(receipt)) for place, receipt in self.receipts.items()],
            "carried": self.carried,
        }


def _of_part(tables: Iterator[Any], winners: Winners, parts: Parts) -> Iterator[Any]:
    """Yield the tombstones that belong to a part of the feed."""
    if len(parts) <= 1:
        yield from tables
        return
    for table in tables:
        chosen = parts.has(winners, table.column("hash").to_numpy())
        if chosen.any():
            yield table.filter(pa.array(chosen))


def _link_or_copy(source: str, target: str, checksum: str) -> None:
    """Make a file of the master one of the output, too; raises Damage where a copy shows that it is not as it was."""
    storage = storage_for(target)
    try:
        if storage.link_new(source, target):
            return
    except FileExistsError:
        return  # an earlier attempt of this task did it
    state = ChunkedChecksum(chunk_of(checksum) or 1 << 62)
    try:
        with storage_for(source).open(source) as stream, storage.create_new(target) as copy:
            for block in blocks(stream):
                state.update(block)
                copy.write(block)
            if state.text() != checksum:
                why = f"its checksum is {state.text()} and should be {checksum}"
                raise Damage("manifest.damage", {"path": source, "why": why})
    except MutatorError:
        if storage.look(target) is None:  # else another attempt of this task has made a whole copy meanwhile
            raise
