"""The manifest of a merge: the old one, the plan, and the files that the tasks wrote."""

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mutator.dataset.commits import RUN, Commit, FeedFile
from mutator.dataset.directory import may_be_taken_over
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import FeedSettings, Manifest, copy_path
from mutator.dataset.partition_index import EARLIER, form_of
from mutator.pipeline.accounting import Result
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.absences import Absence
from mutator.rules.key_hash import HASH_NAME
from mutator.rules.order_values import order_text, order_value
from mutator.rules.truth_table import FEED_OUTCOMES, MASTER_OUTCOMES, NOTES


def next_manifest(plan: Plan, known: Manifest | None, result: Result) -> Manifest:
    """Return the manifest that publishes a result. known: that of the master, if it has one."""
    committed = datetime.fromtimestamp(plan.now / 1000, UTC).isoformat(timespec="milliseconds")
    feed = _feed(plan, known, merged_feed(result, committed))
    spec, files = _forms(plan, result.files)
    checked = _Checks(known, result.checked, committed)
    before = known.commit if known else None
    commit = Commit(
        number=0,
        id=str(uuid.uuid4()),
        parent=before.id if before else None,
        action=RUN,
        run=plan.run,
        committed=committed,
        horizon=horizon_after(plan, before.horizon if before else None, result),
        snapshot=snapshot_after(plan, before.snapshot if before else None, result),
        counts=committed_counts(result.counts),
    )
    return Manifest(
        commit=commit,
        spec=spec,
        buckets=plan.strategy.buckets,
        hash=None if plan.strategy.buckets is None and not plan.is_partitioned else HASH_NAME,
        files=tuple(map(checked.noted, files)),
        beside=tuple(map(checked.noted, result.beside)),
        feed=feed,
        copy=copy_path(plan.run),
        changes=plan.changes is not None,
        absences=_absences(plan, known, result),
        feed_settings=_feed_settings(plan, known, committed, feed),
    )


class _Checks:
    """Notes on files that this run wrote or checked: when it did."""

    def __init__(self, known: Manifest | None, checked: Collection[str], committed: str) -> None:
        kept = {part.path for part in known.parts() if may_be_taken_over(part)} if known is not None else set()
        self._unread, self._committed = kept - set(checked), committed

    def noted(self, part: FileEntry) -> FileEntry:
        """Return the manifest's entry of a file with the time of its last check."""
        return part if part.path in self._unread else replace(part, checked=self._committed)


def horizon_after(plan: Plan, before: str | None, result: Result) -> str | None:
    """Return the highest of the order values of all tombstones that ever expired. before: the one before the merge."""
    known = order_value(plan.rows.order_type, before)
    if result.expired is None or (known is not None and result.expired <= known):
        return before
    return order_text(plan.rows.order_type, result.expired)


def snapshot_after(plan: Plan, before: str | None, result: Result) -> str | None:
    """Return the highest order value of the last full snapshot. before: the one before the merge."""
    if plan.register.full and result.highest is not None:
        return order_text(plan.rows.order_type, result.highest)
    return before


def merged_feed(result: Result, committed: str) -> tuple[FeedFile, ...]:
    """Return the feed files that a merge has merged. committed: when."""
    return tuple(FeedFile(name, size, checksum, committed) for name, size, checksum in result.feed)


def _absences(plan: Plan, known: Manifest | None, result: Result) -> tuple[Absence, ...]:
    """Return the snapshots that may have left tombstones by absence, this one too."""
    if not result.counts["tombstones out"]:
        return ()
    # Tombstones of partitions that a run does not touch do not expire.
    oldest = None if plan.is_partitioned else plan.expire_before
    found = [one for one in (known.absences if known else ()) if oldest is None or one[0] >= oldest]
    if plan.register.full and result.counts["master deleted by absence"]:
        found.append((plan.now, order_text(plan.rows.order_type, result.highest) or ""))
    return tuple(found)


def _forms(plan: Reading, files: Sequence[FileEntry]) -> tuple[dict[str, Any], tuple[FileEntry, ...]]:
    """Return the specification, with the earlier forms that files of untouched partitions have, and the files."""
    spec, master = plan.rows.spec, plan.master
    used = sorted({part.form for part in files if part.form}, reverse=True)
    if master is None or not used:
        return spec, tuple(files)
    earlier = [*master.spec.get(EARLIER, ()), *([] if plan.rows.carries else [form_of(master.spec)])]
    number = {form: -1 - index for index, form in enumerate(used)}
    renumbered = (replace(part, form=number[part.form]) if part.form else part for part in files)
    return {**spec, EARLIER: [earlier[-1 - form] for form in used]}, tuple(renumbered)


def _feed(plan: Plan, known: Manifest | None, now: Iterable[FeedFile]) -> tuple[FeedFile, ...]:
    """Return the feed files that were merged so far; one that was merged again has the later time."""
    oldest = plan.forget_feed_before
    before = [
        part
        for part in (known.feed if known else ())
        if oldest is None or datetime.fromisoformat(part.committed).timestamp() >= oldest
    ]
    return tuple({(part.name, part.bytes, part.checksum): part for part in (*before, *now)}.values())


def _feed_settings(
    plan: Plan, known: Manifest | None, committed: str, feed: Sequence[FeedFile]
) -> tuple[FeedSettings, ...]:
    """Return the settings of all runs whose feed files are not forgotten."""
    found = known.feed_settings if known else ()
    if not found or found[-1].settings != plan.feed_settings:
        found = (*found, FeedSettings(committed, plan.feed_settings))
    oldest = min((part.committed for part in feed), default=committed)
    ends = (*(one.since for one in found[1:]), None)  # of each, the beginning of the next ones
    return tuple(one for one, end in zip(found, ends, strict=True) if end is None or end > oldest)


def committed_counts(counts: Counter[str]) -> dict[str, int]:
    """Return the counts that a commit records."""
    names = ["feed rows", *(f"feed {name}" for name in FEED_OUTCOMES)]
    names += ["master rows", *(f"master {name}" for name in MASTER_OUTCOMES), "output rows"]
    names += ["tombstones in", "tombstones out", "expired", *NOTES, "feed ignored", "master ignored"]
    names += ["feed no mutations"] if counts["feed no mutations"] else []  # ignored rows with an op code
    return {name: counts[name] for name in names}
