"""The reduce task of an apply: winners of a group of buckets in, delta files, a version index and a receipt out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mutator.dataset.checksum import whole
from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.versions.hidden_rows import written_index
from mutator.dataset.versions.log import DIRECTORY
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.blocks.fold import fold_in_place
from mutator.engine.blocks.hash_parts import Parts
from mutator.engine.blocks.merge_bucket import Sections
from mutator.engine.blocks.winners import Winners
from mutator.engine.merging_task import MergingTask
from mutator.engine.receipts import Fault, MergeReceipt
from mutator.engine.task_files import file_name
from mutator.engine.versions.absent import bury_absent
from mutator.engine.versions.apart import apart, together
from mutator.engine.versions.decided_rows import write
from mutator.engine.versions.delta_files import ApplyTarget, DeltaWriter
from mutator.engine.versions.events import EventKeeper
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.meeting import Meeting
from mutator.errors import MutatorError
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes

_MOST_HASHES = 1 << 22  # of a task
MIXED, UPSERT = 1, 2  # facts about winners: tied within the feed; one of the mutations that it supersedes is an upsert


@dataclass(frozen=True)
class WrittenRows:
    """The result of a task of an apply."""

    merged: MergeReceipt
    files: tuple[FileEntry, ...] = ()
    index: FileEntry | None = None
    # Of the keys of all winners but late and rejected ones, as uint64; None if they are too many for the driver. Where
    # keys are unique only within a partition, the partition is a part of the key.
    hashes: bytes | None = b""
    facts: bytes = b""  # MIXED and UPSERT of each of these winners


def apply_group(
    plan: Plan, snapshot: Snapshot, target: ApplyTarget, group: int, attempt: int, elements: Iterable[Any]
) -> WrittenRows:
    """Let the winners of a group of buckets meet the live rows of a table; write what the version adds."""
    with MergingTask.opened(plan, None, group, attempt, elements) as task:
        plan, tally = task.plan, task.tally
        writer = DeltaWriter(plan, target, group, attempt)
        keeper = EventKeeper(plan, writer) if plan.keeps_events else None
        parts = Parts(plan, tally, task.stack, fold_in_place if keeper is None else keeper.folded)
        by_partition = plan.rows.partitioning.by_partition
        for found in Sections(plan, task.elements, task.stack).mutations():
            parts.append(apart(found) if by_partition else found)
        live = LiveRows(snapshot)
        indexes: list[Any] = []
        met: dict[str, list[Ints]] = {}
        hashes, facts = list[Hashes](), list[Any]()
        try:
            for winners in parts:
                own = winners.found.hashes
                if by_partition:
                    winners = Winners(plan, together(winners.folded), tally, winners.parts)
                decided = Meeting(plan, live, target, winners, met).decided()
                found = winners.found
                write(plan, found, decided, writer)
                indexes += decided.index
                # A late mutation stays late whatever other writers do: order values of a key only rise.
                hashes.append(own[~decided.settled])
                facts.append((MIXED * found.mixed + UPSERT * found.upserts).astype(np.uint8)[~decided.settled])
            if plan.truncates or plan.register.buries_absent or target.replaced is not None:
                indexes += bury_absent(plan, live, group, met, tally, writer, target.replaced)
            index = _index(plan, target, indexes, group, attempt)
        except MutatorError as fault:
            return WrittenRows(MergeReceipt(damage=(Fault(str(snapshot.table), fault),)), tuple(writer.files))
    tally.counts["rows written"] += writer.rows[DATA]
    tally.counts["tombstones written"] += writer.rows[TOMBSTONES]
    if sum(map(len, hashes)) > _MOST_HASHES:
        return WrittenRows(task.receipt(), tuple(writer.files), index, None)
    joined = (b"".join(one.tobytes() for one in column) for column in (hashes, facts))
    return WrittenRows(task.receipt(), tuple(writer.files), index, *joined)


def _index(plan: Reading, target: ApplyTarget, tables: list[Any], group: int, attempt: int) -> FileEntry | None:
    """Write the version index of a task; return None if it is empty."""
    content = written_index(tables)
    if content is None or target.table is None:
        return None
    path = f"{DIRECTORY}/hidden/{file_name(plan, group, attempt)}.hidden"
    index = target.store(plan, path, content, whole(content))
    if index.is_apart:
        failpoint("apply.hidden.written", attempt)
    return index
