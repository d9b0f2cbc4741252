"""Commit the next version of a table: a turn on this machine, the versions of other writers, and the log entry.

An apply decides against the version that it has read. If another writer was faster, it decides again about the keys
whose records or tombstones the versions in between changed (``second_decisions``), and is committed after these
versions, with their totals. An overwrite decides nothing again: it follows versions that left alone both what it
replaces (``kept_apart``) and the keys of its feed. In all other cases, such as an apply after an overwrite, it starts
over. So the result is always that of the log's order.

A turn is a courtesy that spares the writers on one machine tries: without it, each commit of a writer costs the others
one. Only the log decides which versions exist, so a writer that waits too long, perhaps for one that is suspended, goes
on without its turn.
"""

from __future__ import annotations

import posixpath
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from mutator.config.settings import RowSpec
from mutator.dataset.commits import COMPACT, OVERWRITE, OVERWRITES, RESTORE, Commit, next_time, time_text
from mutator.dataset.versions.log import DIRECTORY, TableLog
from mutator.dataset.versions.nearby import NearbyEntries
from mutator.dataset.versions.opening import add_hint, open_snapshot, refreshed
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import deferred_signals
from mutator.plan.rows.run_fields import SCHEMA_SEQUENCE
from mutator.plan.run_plan import Plan
from mutator.rules.file_names import base_name, new_run_id, run_of
from mutator.storage import storage_for
from mutator.storage.local import LocalStorage
from mutator.table.kept_apart import kept_apart
from mutator.table.outlived import newest_if_gone
from mutator.table.overwrite import Replacement

_PATIENCE = 1.0  # seconds that a writer waits for its turn
_PAUSE = 0.005  # seconds between two looks whether it has come
INLINE = 1 << 16  # bytes of the files of a version that is one log entry
_STARTS = 50  # of an operation
_TRIES = 200  # commits of an operation, before it starts over
_WAITS = 8  # times the duration of a try, that a writer waits at most before the next one, so that fewer are lost
# (the newest snapshot, the versions that it has and the last call's had not) -> the version that follows it
NextVersion = Callable[[Snapshot, Sequence[Commit]], Commit]
Changed = TypeVar("Changed")
_TELL = ContextVar[Callable[[Commit], None] | None]("_TELL", default=None)


def newest(head: Snapshot, known: int) -> tuple[Snapshot, list[Commit]]:
    """Return the newest snapshot, and the versions that it has after an earlier one. known: the number of one."""
    return _followed(head, TableLog(head.table).following(head.version.number, known))


def passed_on(head: Snapshot, nearby: NearbyEntries, began: int) -> tuple[Snapshot, list[Commit]]:
    """Return as ``newest`` does; from a slow storage, at most the newest of the versions with copies is read.

    began: when the apply knew the newest version, in ns by ``time.monotonic_ns``.
    """
    if storage_for(head.table).holds:
        return newest(head, head.version.number)
    copies = nearby.after(head.version)
    is_there = copies.are_new(began) or (copies.versions and TableLog(head.table).has(copies.versions[-1]))
    return _followed(head, copies.versions if is_there else ())


def _followed(head: Snapshot, versions: Iterable[Commit]) -> tuple[Snapshot, list[Commit]]:
    followed = list(versions)
    for version in followed:
        head = head.after(version)
    return head, followed


def may_follow(base: Snapshot, plan: Plan, version: Commit, winners: Sequence[Commit]) -> bool:
    """Return whether an apply may be committed after versions that it has not seen, once it has decided again.

    base: the snapshot that it has seen. version: that it would have become. What an overwrite replaces is for
    ``may_follow_overwriting`` to check.
    """
    names, spec = {file.name for file in version.feed}, base.state.spec
    if plan.register.full or not spec or not all(is_same(spec, one.spec) for one in (version, *winners)):
        return False
    # A compaction has the keys that it moved. An overwrite or a restore does not name those that it changes; but if
    # keys are unique only within a partition, two overwrites of different partitions have none in common.
    apart = version.action == OVERWRITE and plan.rows.partitioning.by_partition
    followed = (COMPACT, OVERWRITE) if apart else (COMPACT,)
    removing = (one.action for one in winners if one.removed or one.action in (RESTORE, *OVERWRITES))
    if any(action not in followed for action in removing):
        return False
    if any(file.name in names for one in winners for file in one.feed):
        return False
    # A snapshot raises tombstones, and lowers them again where it has their records. A truncate concerns all keys.
    known = base.version.horizon, base.version.floor
    if any((one.horizon, one.floor) != known or one.absences for one in winners):
        return False
    return not (
        version.transaction and any(one.transaction and one.transaction[0] == version.transaction[0] for one in winners)
    )


def may_follow_overwriting(replaced: Replacement, known: Sequence[Snapshot], winners: Sequence[Commit]) -> bool:
    """Return whether what an overwrite replaces is as it was before some versions.

    known: snapshots that have the files of which the versions changed rows.
    """
    changing = [one for one in winners if one.files or one.index or one.removed]
    if not changing:
        return True
    if replaced.partitions is None or replaced.is_everything or replaced.receipt is not None:
        return False
    return kept_apart(known, frozenset(replaced.partitions), changing)


def changes_plan(rows: RowSpec, winners: Sequence[Commit]) -> bool:
    """Return whether versions can change what an apply that follows them plans: its schema, and what it says of files.

    Sequences show which feed files are late or missing. Without a field of operations, the names of feed files show
    which of them look like deletes.
    """
    names = [file.name for one in winners for file in one.feed]
    by_name = bool(names) and rows.ops.field is None
    has_sequences = any(rows.order.sequence_of(base_name(name)) is not None for name in names)
    return by_name or has_sequences or any(one.spec is not None for one in winners)


def is_same(spec: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    """Return whether rows have the same specification. other: of a later version; None if it is the one before."""
    return other is None or {**spec, SCHEMA_SEQUENCE: None} == {**other, SCHEMA_SEQUENCE: None}


@contextmanager
def turn(table: str, nearby: str | None) -> Iterator[None]:
    """Wait for the turn of this writer, which lasts until the end of the ``with`` block.

    nearby: directory on this machine, for a table on a storage that cannot lock one; None: there is no turn.
    """
    own, end = storage_for(table), time.monotonic() + _PATIENCE
    storage, path = (own, posixpath.join(table, DIRECTORY, "log")) if own.holds else (LocalStorage(), nearby)
    lock: object | None = None
    with suppress(MutatorError):  # the commit reports what is wrong
        while path is not None and (lock := storage.hold(path)) is None and time.monotonic() < end:
            if storage.stat(path) is None:
                break
            time.sleep(_PAUSE)
    try:
        yield
    finally:
        del lock  # which releases it


class StartOver(Exception):
    """Another writer committed a version that an operation must have seen."""


class Outdated(StartOver):
    """The version that an operation began with is gone: other writers have committed many since, and cleaned these."""


def change(
    snapshot: Snapshot,
    attempt: Callable[[Snapshot], Changed],
    *,
    outrun: str = "table.outrun.commit",
    again: bool = False,
) -> Changed:
    """Change a table: call a function with the newest version, and again with a newer one where it has to start over.

    snapshot: the newest one that is known. again: it also starts over after versions that it cannot follow, not only
    if other writers have cleaned its version meanwhile. Raises the error of the kind ``outrun`` if they always do.
    """
    for _ in range(_STARTS):
        try:
            return attempt(snapshot)
        except Outdated:
            snapshot = open_snapshot(snapshot.table)
        except StartOver:
            if not again:
                break
            snapshot = refreshed(snapshot)
        except MutatorError as fault:
            newer = newest_if_gone(snapshot, fault)
            if newer is None:
                raise
            snapshot = newer
    raise error(outrun, path=snapshot.table, **({"count": _STARTS} if again else {}))


@contextmanager
def telling_commits(tell: Callable[[Commit], None]) -> Iterator[None]:
    """Call a function for each version that the ``with`` block commits, before a signal can end the block."""
    token = _TELL.set(tell)
    try:
        yield
    finally:
        _TELL.reset(token)


def commit_next(snapshot: Snapshot, began: int, next_version: NextVersion) -> Snapshot:
    """Commit the version that follows a snapshot, or the versions that were committed since; return its snapshot.

    began: when the operation knew that the snapshot was the newest, in ns by ``time.monotonic_ns``. Raises StartOver if
    other writers are always faster, StateError if one of them has given up the run that wrote the files of the version.
    """
    head, version, nearby = snapshot, snapshot.version, NearbyEntries(TableLog(snapshot.table))
    cleanings = list[Commit]()
    with ExitStack() as turns:
        turns.enter_context(turn(snapshot.table, nearby.directory()))
        for lost in range(_TRIES):
            if lost:
                head, winners = newest(head, version.number)
            else:  # those that were committed since the operation began
                head, winners = passed_on(head, nearby, began)
            cleanings += [one for one in winners if one.cleaned is not None]
            try:
                version = next_version(head, winners)
            except MutatorError as fault:
                if cleanings and fault.kind == "table.file":  # which a cleaning has removed
                    raise Outdated from fault
                raise
            _check_alive(snapshot.table, version, cleanings)
            tried, after = time.monotonic(), head.after(version)
            if _has_committed(after, version, snapshot.version, nearby, turns):
                return hinted(after, version)
            if lost:  # writers elsewhere are faster, so those on this machine need not wait
                turns.close()
            time.sleep(random.uniform(0, min(lost, _WAITS) * (time.monotonic() - tried)))
    raise StartOver


class _Unchanged(Exception):
    """The newest version has already what a change was to bring."""


def commit_without_rows(
    snapshot: Snapshot, action: str, members: Callable[[Snapshot], Mapping[str, Any] | None]
) -> Snapshot:
    """Commit a version that has the rows and files of the one before; return the newest snapshot.

    snapshot: the newest one that is known. action: one of ``WITHOUT_ROWS``. members: returns those that the version has
    beside, by the snapshot that it follows; None: it need not be made. Its errors end the change.
    """
    head = snapshot

    def following(newest: Snapshot, _: Sequence[Commit]) -> Commit:
        nonlocal head
        head, found = newest, members(newest)
        if found is None:
            raise _Unchanged
        now = next_time(time.time(), head.version)
        return head.version.next(action, run=new_run_id(now / 1000), committed=time_text(now), **found)

    try:
        return change(snapshot, lambda newest: commit_next(newest, time.monotonic_ns(), following))
    except _Unchanged:
        return head


def _has_committed(after: Snapshot, version: Commit, known: Commit, nearby: NearbyEntries, turns: ExitStack) -> bool:
    """Commit a version; return False if another writer has committed its number. Raises Outdated.

    after: its snapshot. known: an earlier version that was in the log before. turns: end once the version exists. A
    signal is raised at the end, so that it is known whether the version exists.
    """
    with deferred_signals():
        if not committed(after, version):
            return False
        nearby.add(version)
        turns.close()  # so the next writer need not wait for the check
        try:
            confirm(after, version, known)
        except Outdated:
            nearby.remove(version)
            raise
        tell = _TELL.get()
        if tell is not None:
            tell(version)
        return True


def _check_alive(table: str, version: Commit, cleanings: Sequence[Commit]) -> None:
    """Raise StateError if a cleaning has given up the run that wrote a file of a version."""
    given_up = {run: one.number for one in cleanings for run in one.given_up}
    paths = (stored.path for stored in version.stored() if stored.is_apart) if given_up else ()
    for run in (version.run, *map(run_of, paths)):
        if run in given_up:
            raise error("table.cleaned", path=table, run=run, version=given_up[run])


def committed(after: Snapshot, version: Commit) -> bool:
    """Make a version exist; return False if another writer has committed its number. after: its snapshot."""
    failpoint("table.commit")
    return TableLog(after.table).commit(version)


def confirm(after: Snapshot, version: Commit, known: Commit) -> None:
    """Raise Outdated if a version that was created just now takes the number of an archived one.

    after: its snapshot. known: an earlier version that was in the log before.
    """
    try:
        TableLog(after.table).confirm(version, known)
    except MutatorError as fault:
        if fault.kind == "table.log.archived":
            raise Outdated from fault
        raise
    failpoint("table.committed")


def hinted(after: Snapshot, version: Commit) -> Snapshot:
    """Write what is derived from a version that exists; return the snapshot to go on with.

    This is the hint, and a checkpoint if it is due. Each version of a table comes here, by its commit. after: the
    snapshot of the version.
    """
    log = TableLog(after.table)
    with suppress(MutatorError):  # derived: the next version writes it
        after = add_hint(log, after, log.hinted().checkpoint, version.listed)
        failpoint("table.hinted")
    return after


@contextmanager
def new_files(table: str) -> Iterator[list[str]]:
    """Yield a list to which the ``with`` block adds the paths of files, before it commits the version that names them.

    The files are removed if the block starts over, or raises an error of the catalogue, unless the version may exist.
    An interrupt leaves them, because it may come after the commit.
    """
    paths: list[str] = []
    try:
        yield paths
    except (MutatorError, StartOver) as fault:
        if getattr(fault, "kind", None) != "commit.uncertain":
            remove_files(table, paths)
        raise


def remove_files(table: str, paths: Sequence[str]) -> None:
    """Remove files that no version names, as far as the storage lets it. paths: relative to the table."""
    for path in paths:
        with suppress(MutatorError):
            storage_for(table).remove(posixpath.join(table, path))
