"""Follow the versions that other writers committed since an apply began.

An apply decides against the version that it has read. If another writer was faster, it decides again about the keys
whose records or tombstones the versions in between changed (``second_decisions``), and is committed after these
versions, with their totals. An overwrite decides nothing again: it follows versions that left alone both what it
replaces (``kept_apart``) and the keys of its feed. In all other cases, such as an apply after an overwrite, it starts
over. So the result is always that of the log's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mutator.config import Config
from mutator.dataset.commits import COMPACT, OVERWRITE, OVERWRITES, RESTORE, Commit
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.nearby import NearbyEntries
from mutator.dataset.versions.snapshot import Snapshot
from mutator.plan.rows.run_fields import SCHEMA_SEQUENCE
from mutator.plan.run_plan import Plan
from mutator.storage import storage_for
from mutator.table.kept_apart import kept_apart
from mutator.table.overwrite import Replacement


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
    if plan.full or spec is None or not all(is_same(spec, one.spec) for one in (version, *winners)):
        return False
    # A compaction has the keys that it moved. An overwrite or a restore does not name those that it changes; but if
    # keys are unique only within a partition, two overwrites of different partitions have none in common.
    apart = version.action == OVERWRITE and plan.rows.partitioning.by_partition
    known = (COMPACT, OVERWRITE) if apart else (COMPACT,)
    removing = (one.action for one in winners if one.removed or one.action in (RESTORE, *OVERWRITES))
    if any(action not in known for action in removing):
        return False
    if any(file.name in names for one in winners for file in one.feed):
        return False
    # A snapshot raises tombstones, and lowers them again where it has their records.
    if any(one.horizon != base.version.horizon or one.absences for one in winners):
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


def changes_plan(config: Config, winners: Sequence[Commit]) -> bool:
    """Return whether versions can change what an apply that follows them plans: its schema, and what it says of files.

    Sequences show which feed files are late or missing. Without a field of operations, the names of feed files show
    which of them look like deletes.
    """
    names = [file.name for one in winners for file in one.feed]
    by_name = bool(names) and config.op_field is None
    has_sequences = any(number is not None for number in map(config.sequence_of, names))
    return by_name or has_sequences or any(one.spec is not None for one in winners)


def is_same(spec: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    """Return whether rows have the same specification. other: of a later version; None if it is the one before."""
    return other is None or {**spec, SCHEMA_SEQUENCE: None} == {**other, SCHEMA_SEQUENCE: None}
