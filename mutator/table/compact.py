"""Compact a table: write the rows of buckets with many files or hidden rows into base files, and commit these."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mutator.config import Config
from mutator.dataset.checksum import whole
from mutator.dataset.commits import COMPACT, Commit, next_time, time_text
from mutator.dataset.file_entry import FileEntry, stored_here
from mutator.dataset.versions.checkpoint import FILES
from mutator.dataset.versions.hidden_rows import written_index
from mutator.dataset.versions.log import DIRECTORY
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.each import checked, guarded
from mutator.engine.runner import each_on
from mutator.engine.versions.compact_task import Compacted, Unit, compact_units
from mutator.engine.versions.delta_files import ApplyTarget, order_bytes, text_of_order
from mutator.engine.versions.moved_rows import MovedRows, Moves
from mutator.errors import error
from mutator.errors.display import counted, without_secrets
from mutator.errors.interrupts import check_signals
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, ended, noted, said
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.order_columns import from_texts, to_texts
from mutator.rules.order_types import is_same_order
from mutator.storage.progress import expected
from mutator.table.apply import OpenRunner
from mutator.table.closing import Closing
from mutator.table.commit import INLINE, StartOver, change, commit_next, new_files, remove_files
from mutator.table.compact_choice import CompactionChoice, Need
from mutator.table.next_version import placed
from mutator.table.prepare import plan_without_feed

OrderOf = Callable[[Snapshot], Plan]


@dataclass(frozen=True)
class CompactionDone:
    """The result of a compaction, or of a dry run."""

    snapshot: Snapshot  # after it
    version: Commit | None  # None: there is no new one
    buckets: int  # that needed it
    split: int  # of these, that outgrew their size
    given_up: int  # buckets that another compaction has written meanwhile
    moves: Moves
    files: tuple[int, int]  # live files, before and after
    seconds: float
    closed: int = 0  # events of a history


def compact_table(
    snapshot: Snapshot,
    config: Config,
    need: Need,
    open_runner: OpenRunner,
    *,
    dry_run: bool = False,
    order: OrderOf | None = None,
) -> CompactionDone:
    """Compact the buckets of a table that need it.

    snapshot: the newest one. config: of the table; its ``tombstone.retention`` says which tombstones of these buckets
    are forgotten. order: returns the plan of another order, which the rows of all buckets get. Raises ConfigError for
    conditions on fields that are not partition fields, StateError for damaged files; then there is no new version.
    """
    started = time.monotonic()

    def attempt(newest: Snapshot) -> CompactionDone:
        return _compaction(newest, config, need, open_runner, dry_run, started, order)

    return change(snapshot, attempt, outrun="table.outrun.compact", again=order is not None)


def _compaction(
    snapshot: Snapshot,
    config: Config,
    need: Need,
    open_runner: OpenRunner,
    dry_run: bool,
    started: float,
    order: OrderOf | None,
) -> CompactionDone:
    """Compact a version, once. Raises StartOver, and the errors of the catalogue."""
    began = time.monotonic_ns()
    if not snapshot.state.spec:
        return _result(snapshot, snapshot, None, (0, 0, 0), Moves(), started)
    plan = plan_without_feed(snapshot, replace(config, retention=replace(config.retention, tombstones=None)))
    if config.retention.tombstones is not None:
        plan = replace(plan, expire_before=plan.now - int(config.retention.tombstones * 1000))
    choice, ordered = CompactionChoice(snapshot, need, plan), None if order is None else order(snapshot)
    if ordered is not None and snapshot.has_history:
        why = "its versions would have other times in another order"
        raise error("table.history", why=why, cure="create another table from its feeds")
    closing = Closing.of(snapshot, need)
    if dry_run or not (choice.units or choice.dead or ordered or closing.units):
        moves = Moves(rows=choice.rows, tombstones=choice.tombstones)
        found = _result(snapshot, snapshot, None, (len(choice.units), choice.split, 0), moves, started)
        return replace(found, closed=closing.rows)
    with new_files(snapshot.table) as new:
        tasks = choice.tasks()
        results = _compacted(snapshot, plan, choice, tasks, open_runner, new, ordered)
        if closing.units:
            closing.write(plan, snapshot, _target(snapshot), open_runner, new)
        moved = MovedRows(snapshot, list(zip(tasks, results, strict=True)))
        compaction = _Compaction(plan, choice.dead, moved, snapshot, new, started, ordered, closing)
        try:
            after = commit_next(snapshot, began, compaction.next_version)
        except _GivenUp:
            after = compaction.head
        out = [one for one, is_out in zip(results, moved.given_up, strict=True) if is_out]
        remove_files(snapshot.table, _paths(out))
        closed = compaction.closed
        remove_files(snapshot.table, [part.path for one in closing.files if not closed for part in one.stored()])
    given_up = [unit for task, is_out in zip(tasks, moved.given_up, strict=True) if is_out for unit, _ in task]
    split = choice.split - sum(unit.buckets != unit.groups for unit in given_up)
    buckets = len(choice.units), split, len(given_up)
    found = _result(snapshot, after, compaction.version, buckets, compaction.moves, started)
    return replace(found, closed=compaction.closed)


def _result(
    before: Snapshot,
    after: Snapshot,
    version: Commit | None,
    buckets: tuple[int, int, int],
    moves: Moves,
    started: float,
) -> CompactionDone:
    """Return a result. buckets: that needed it, of these split, and given up."""
    files = len(before.files), len(after.files)
    return CompactionDone(after, version, *buckets, moves, files, time.monotonic() - started)


def _target(snapshot: Snapshot) -> ApplyTarget:
    return ApplyTarget(snapshot.table, snapshot.version.number, snapshot.state.schema, snapshot.state.buckets)


def _compacted(
    snapshot: Snapshot,
    plan: Reading,
    choice: CompactionChoice,
    tasks: Sequence[Sequence[Unit]],
    open_runner: OpenRunner,
    new: list[str],
    ordered: Plan | None,
) -> list[Compacted]:
    """Carry the tasks out; return their results. new: to which the paths of their files are added."""
    target = _target(snapshot)
    masked = replace(snapshot, files=FILES.empty_table())  # each task has its files
    with open_runner(choice.bytes) as (runner, _), expected(choice.bytes):
        found: list[Any] = each_on(runner)(tasks, partial(_compact, plan, masked, target, choice.packed(), ordered))
    new += _paths([one for one in found if isinstance(one, Compacted)])
    results: list[Compacted] = checked(found)
    check_signals()
    moved = sum(one.rows for one in results), sum(one.tombstones + one.expired + one.covered for one in results)
    if moved != (choice.rows, choice.tombstones):
        raise error("table.counts", path=snapshot.table, version=snapshot.version.number)
    return results


def _compact(
    plan: Reading,
    snapshot: Snapshot,
    target: ApplyTarget,
    packed: frozenset[str | None],
    ordered: Plan | None,
    units: Sequence[Unit],
    number: int,
    attempt: int,
) -> Any:
    return guarded(compact_units, plan, snapshot, target, packed, ordered, units, number, attempt)


def _paths(results: Sequence[Compacted]) -> list[str]:
    return [part.path for one in results for file in one.files for part in file.stored()]


class _GivenUp(Exception):
    """Other compactions have written all the buckets."""


class _Compaction:
    """A compaction, as it follows the versions of other writers."""

    def __init__(
        self,
        plan: Reading,
        dead: Sequence[str],
        moved: MovedRows,
        snapshot: Snapshot,
        new: list[str],
        started: float,
        ordered: Plan | None,
        closing: Closing,
    ) -> None:
        self._ordered, self._order, self._closing = ordered, snapshot.state.spec["order"], closing
        self._plan, self._dead, self._moved, self._new, self._started = plan, dead, moved, new, started
        self._as_of, self.head = snapshot.version.number, snapshot
        self.version: Commit | None = None
        self.moves = Moves()
        self.closed = 0  # events

    def next_version(self, head: Snapshot, winners: Sequence[Commit]) -> Commit:
        """Return the version that follows a snapshot. winners: its versions that were not there in the last call.

        Raises _GivenUp if nothing is left to do, and StartOver if it must have seen the others.
        """
        self.head = head
        if not is_same_order(self._order, head.state.spec["order"]) or (winners and self._ordered is not None):
            raise StartOver
        if any(one.restored is not None for one in winners):
            self._dead = ()  # their rows may be live again
        self._forget_index()
        self._moved.follow(winners)
        moves = self._moved.at(head)
        live = set(head.files.column("path").to_pylist())
        closed, others = self._closing.at(head)
        removed = (*moves.removed, *(path for path in self._dead if path in live), *others)
        if not (moves.files or moves.index or removed or self._ordered):
            self.version, self.moves, self.closed = None, Moves(), 0
            raise _GivenUp
        self.moves, self.closed = moves, sum(one.rows for one in closed)
        before, content = head.version, written_index(moves.index)
        counts = {
            "rows moved": moves.rows,
            "tombstones moved": moves.tombstones,
            "tombstones expired": moves.expired,
            "tombstones covered": moves.covered,
            "events closed": self.closed,
        }
        version = before.next(
            COMPACT,
            run=self._plan.run,
            committed=time_text(next_time(time.time(), before)),
            as_of=self._as_of,
            horizon=self._horizon(before.horizon),
            tombstones=before.tombstones - moves.expired - moves.covered,
            counts={name: count for name, count in counts.items() if count},
            files=(*moves.files, *closed),
            removed=removed,
            index=() if content is None else (self._stored(content, before.number),),
            seconds=round(time.monotonic() - self._started, 3),
            **self._members_of_order(),
        )
        self.version = placed(head.table, version, INLINE, self._new)
        return self.version

    def _members_of_order(self) -> dict[str, Any]:
        """Return the members of a version with another order, in which the bounds of the one before mean nothing."""
        if self._ordered is None:
            return {}
        return {"spec": self._ordered.rows.spec, "floor": None, "snapshot": None, "parts": ()}

    def _stored(self, content: bytes, number: int) -> FileEntry:
        path = f"{DIRECTORY}/hidden/part-{self._plan.run}-{number}.hidden"
        return stored_here(path, content, whole(content))

    def _forget_index(self) -> None:
        """Remove the version index of the last try, if it is a file of its own."""
        for one in () if self.version is None else self.version.index:
            if one.is_apart:
                remove_files(self.head.table, [one.path])
                self._new.remove(one.path)

    def _horizon(self, before: str | None) -> str | None:
        """Return the highest of the order values of all tombstones that ever expired; None in another order."""
        if self._ordered is not None:
            return None
        order_type = self._plan.rows.order_type
        known = [order_bytes(one) for one in (before, *self.moves.horizons) if one is not None]
        if not known:
            return None
        values = from_texts(order_type, pa.array(known, pa.large_binary()))
        return text_of_order(to_texts(order_type, pa.array([pc.max(values)], values.type))[0].as_py())


@dataclass(frozen=True)
class CompactionReport(PrintedReport):
    """The result of a compaction, or of a dry run."""

    table: str
    version: int
    is_new: bool  # the compaction made this version
    dry_run: bool
    buckets: int  # that needed it
    split: int  # of these: they outgrew bucket.bytes, and become several
    given_up: int  # of these: another compaction wrote them, or others of their task, meanwhile
    rows: int  # that were written into base files
    tombstones: int  # that were written
    expired: int  # tombstones that were forgotten
    covered: int  # tombstones that were forgotten, because the floor is as high
    closed: int  # events of a history whose versions were written with their times
    files_before: int  # live files
    files_after: int
    bytes: int  # of the files that the version added
    seconds: float

    def sections(self) -> Iterable[ReportSection]:
        """Return what was done, notes on it, and the bytes."""
        what = f"{counted(self.buckets - self.given_up, 'bucket')} with {counted(self.rows, 'row')}"
        what += f" and {counted(self.tombstones, 'tombstone')}" if self.tombstones else ""
        what += f", and {counted(self.closed, 'event')} of the history" if self.closed else ""
        if self.dry_run:
            title = f"table {self.table} is version {self.version}: a compaction would write {what}"
        elif self.is_new:
            files = f"{counted(self.files_before, 'file')} became {self.files_after:,}"
            title = f"table {self.table} is now version {self.version}: compacted {what}; {files}"
        else:
            title = f"table {self.table} is still version {self.version}: nothing to compact"
        done = f"added {counted(self.bytes, 'byte')}"
        return (
            said(title),
            noted(() if self.dry_run else self._notes()),
            ended(done, self.seconds, dry_run=self.dry_run),
        )

    def _notes(self) -> Iterator[str]:
        if self.split:
            were = "was" if self.split == 1 else "were"
            yield f"{counted(self.split, 'bucket')} outgrew bucket.bytes, and {were} split"
        if self.given_up:
            what = counted(self.given_up, "bucket")
            yield f"left {what} as they are: another compaction has written some of them meanwhile"
        if self.expired:
            yield f"forgot {counted(self.expired, 'expired tombstone')}"
        if self.covered:
            yield f"forgot {counted(self.covered, 'tombstone')} that a truncate covers"


def report_of_compaction(done: CompactionDone, *, dry_run: bool) -> CompactionReport:
    """Return the report of a compaction."""
    version = done.version
    return CompactionReport(
        table=without_secrets(done.snapshot.table),
        version=done.snapshot.version.number,
        is_new=version is not None,
        dry_run=dry_run,
        buckets=done.buckets,
        split=done.split,
        given_up=done.given_up,
        rows=done.moves.rows,
        tombstones=done.moves.tombstones,
        expired=done.moves.expired,
        covered=done.moves.covered,
        closed=done.closed,
        files_before=done.files[0],
        files_after=done.files[1],
        bytes=0 if version is None else sum(one.bytes for one in version.stored()),
        seconds=round(done.seconds, 3),
    )
