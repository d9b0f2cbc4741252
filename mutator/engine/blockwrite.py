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
from mutator.engine.blockmerge import Blocks, Output, insert_and_bury, merge_blocks, merge_tombstones
from mutator.engine.blockread import ROWS, RUN, TOMBSTONES, Rows, Run, mutations_of_run, tombstones
from mutator.engine.content import Damage, Receipt, damage_of, tombstones_receipt
from mutator.engine.duplicates import duplicates
from mutator.engine.filewrite import Files
from mutator.engine.master import from_files, from_shuffle
from mutator.engine.parts import Parts
from mutator.engine.spool import SortedSpool
from mutator.engine.tally import Tally
from mutator.engine.winners import Winners
from mutator.errors import MutatorError
from mutator.failpoint import failpoint
from mutator.formats.parquet_columns import oldest_tombstone
from mutator.inputs import Input, Split
from mutator.manifest import Part
from mutator.plan import Plan
from mutator.storage import blocks, same_storage, storage_for

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
        self.tombstones = [split for split in local if plan.inputs[split.input].side == "tombstones"]
        buckets = range(group, plan.buckets or 1, plan.groups)
        # Rows of several buckets part again, and rows that are numbered need to be told apart.
        self.output = Output(plan, self.tally, plan.by_file_name or len(buckets) > 1, self.stack)
        self.files = Files(plan, staging, buckets, attempt, self.stack)
        self.parts = Parts(plan, self.tally, self.stack)
        self.shuffled = SortedSpool(["hash"], plan.memory, self.stack)  # tombstones that came with the shuffle
        self.kept: list[Part] = []

    def merge(self, sections: _Sections) -> None:
        plan, parts = self.plan, self.parts
        for value in sections.of(RUN):
            parts.append(mutations_of_run(plan, Run(*value)))
        if (
            plan.join == "aligned"
            and not len(parts)
            and not plan.full
            and plan.carries
            and plan.buckets == plan.master_buckets
        ):
            self._carry_over()
            return
        rows: Blocks = partial(from_files, plan, self.data, self._done)
        if plan.join == "shuffle":
            pieces = (Rows(*value) for value in sections.of(ROWS))
            rows = from_shuffle(plan, pieces, again=not plan.unique or len(parts) > 1, stack=self.stack)
        dropped = np.zeros(0, np.int64) if plan.unique else duplicates(plan, rows, self.tally, self.stack)
        finish = partial(self._finish, sections)
        for kept in merge_blocks(parts, rows, dropped, self.output, finish, self.stack):
            self.files.write(*kept)
        if not len(parts):
            merge_tombstones(plan, None, self._tombstones(sections), self.output)
        self._close()

    def _finish(self, sections: _Sections, winners: Winners) -> None:
        """Let winners that have met all rows meet the tombstones, and then nothing."""
        tombstones = self.parts.filtered(self._tombstones(sections), winners)
        merge_tombstones(self.plan, winners, tombstones, self.output)
        insert_and_bury(winners, self.output)

    def _close(self) -> None:
        self.files.finish(self.output.inserted.tables(), self.output.tombstones.tables(), self.tally)

    def _done(self, split: Split, one: Input, _: Any, receipt: Receipt) -> None:
        self.receipts[split.input, split.number] = receipt

    def _tombstones(self, sections: _Sections) -> Iterator[Any]:
        for value in sections.of(TOMBSTONES):  # they come behind the rows, once
            self.shuffled.append(pa.ipc.open_stream(value).read_all())
        yield from self.shuffled.tables()
        for split in self.tombstones:
            one = self.plan.inputs[split.input]
            try:
                if (split.input, split.number) not in self.receipts:
                    self.receipts[split.input, split.number] = tombstones_receipt(self.plan, split, one)
                yield from tombstones(self.plan, split, one)
            except MutatorError as fault:
                raise Damage(*damage_of(one, fault)) from None

    def _carry_over(self) -> None:
        """Take the files of buckets without mutations as they are; only tombstones that expire are written anew."""
        for index in dict.fromkeys(split.input for split in self.data):
            self._carry(index)
        if any(self._expires(self.plan.inputs[split.input]) for split in self.tombstones):
            merge_tombstones(self.plan, None, self._tombstones(_Sections(())), self.output)
            self._close()
            return
        for index in dict.fromkeys(split.input for split in self.tombstones):
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
        files, beside = self.files.receipts()
        kept = [asdict(part) for part in self.kept]
        return {
            **self.tally.receipt(),
            "files": files + [part for part in kept if "kind" not in part],
            "beside": beside + [part for part in kept if "kind" in part],
            "receipts": [(place, tuple(receipt)) for place, receipt in self.receipts.items()],
            "carried": self.carried,
        }


def _link_or_copy(source: str, target: str, checksum: str) -> None:
    """Make a file of the master one of the output, too; raises Damage where a copy shows that it is not as it was."""
    storage = storage_for(target)
    try:
        if same_storage(source, target) and storage.link_new(source, target):
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
