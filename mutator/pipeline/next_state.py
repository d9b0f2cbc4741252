"""What a merge makes of a state: the members of its commit, and of a dataset, the state that the commit publishes."""

import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from mutator.config.feed_settings import is_full
from mutator.dataset.commits import RUN, Commit, FeedFile, time_text
from mutator.dataset.directory import may_be_taken_over
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import copy_path
from mutator.dataset.partition_index import EARLIER, form_of
from mutator.dataset.state import FeedSettings, State, bare
from mutator.dataset.version_log import NONE
from mutator.pipeline.accounting import Result
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.absences import Absence, parts_after
from mutator.rules.key_hash import HASH_NAME
from mutator.rules.order_values import order_text, order_value
from mutator.rules.truth_table import FEED_OUTCOMES, MASTER_OUTCOMES, NOTES, RARE


def members_of_merge(plan: Plan, before: Commit, result: Result, committed: str) -> dict[str, Any]:
    """Return the members of the commit of a merge that datasets and tables have. before: the commit that it follows."""
    counts, since = result.counts, plan.forget_feed_before
    return {
        "run": plan.run,
        "committed": committed,
        "horizon": _higher(plan, before.horizon, result.expired),
        "floor": _higher(plan, before.floor, result.floor),
        **_snapshots(plan, before, result),
        "records": counts["output rows"],
        "tombstones": counts["tombstones out"],
        "counts": _committed(counts),
        "feed": tuple(FeedFile(name, size, checksum, committed) for name, size, checksum in result.feed),
        "feed_since": None if since is None else time_text(int(since * 1000)),
    }


def next_state(plan: Plan, known: State | None, result: Result) -> State:
    """Return the state of the dataset that publishes a result. known: of the master, if mutator wrote it."""
    before, committed = known or State(NONE, {}), time_text(plan.now)
    commit = Commit(
        number=0,
        id=str(uuid.uuid4()),
        parent=before.commit.id or None,
        action=RUN,
        buckets=plan.strategy.buckets or 0,
        hash="" if plan.strategy.buckets is None and not plan.is_partitioned else HASH_NAME,
        **members_of_merge(plan, before.commit, result, committed),
    )
    spec, files = _forms(plan, result.files)
    checked = _Checks(before, result.checked, committed)
    feed = before.known.after(commit.feed_since or "", commit.feed)
    return State(
        commit=bare(commit),
        spec=spec,
        known=feed,
        absences=_absences(plan, before, result),
        files=tuple(map(checked.noted, files)),
        beside=tuple(map(checked.noted, result.beside)),
        copy=copy_path(plan.run),
        changes=plan.changes is not None,
        feed_settings=_feed_settings(plan, before, committed, feed.files),
    )


class _Checks:
    """Notes on files that this run wrote or checked: when it did."""

    def __init__(self, before: State, checked: Collection[str], committed: str) -> None:
        kept = {part.path for part in before.parts() if may_be_taken_over(part)}
        self._unread, self._committed = kept - set(checked), committed

    def noted(self, part: FileEntry) -> FileEntry:
        """Return the manifest's entry of a file with the time of its last check."""
        return part if part.path in self._unread else replace(part, checked=self._committed)


def _higher(plan: Plan, before: str | None, order: Any) -> str | None:
    """Return the horizon or the floor after a merge. before: it. order: that the merge may raise it to, or None."""
    known = order_value(plan.rows.order_type, before)
    if order is None or (known is not None and order <= known):
        return before
    return order_text(plan.rows.order_type, order)


def _high(plan: Reading, result: Result) -> str | None:
    return order_text(plan.rows.order_type, result.highest)


def _snapshots(plan: Plan, before: Commit, result: Result) -> dict[str, Any]:
    """Return the members of a commit that say what the last snapshots were."""
    known = before.snapshots
    if plan.register.full and result.highest is not None:
        scope = () if plan.scope is None else plan.scope.filter.texts
        known = parts_after(plan.rows.order_type, known, scope, _high(plan, result) or "")
    whole = next((high for conditions, high in known if not conditions), None)
    return {"snapshot": whole, "parts": tuple(part for part in known if part[0])}


def _absences(plan: Plan, before: State, result: Result) -> tuple[Absence, ...]:
    """Return the snapshots that may have left tombstones by absence, this one too."""
    if not result.counts["tombstones out"]:
        return ()
    # Tombstones of partitions that a run does not touch do not expire.
    oldest = None if plan.is_partitioned else plan.expire_before
    found = [one for one in before.absences if oldest is None or one[0] >= oldest]
    if plan.register.full and result.counts["master deleted by absence"]:
        found.append((plan.now, _high(plan, result) or ""))
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


def _feed_settings(plan: Plan, before: State, committed: str, feed: Sequence[FeedFile]) -> tuple[FeedSettings, ...]:
    """Return the settings of all runs whose feed files are not forgotten, and those that say what marks deletes."""
    found = before.feed_settings
    if not found or found[-1].settings != plan.feed_settings:
        found = (*found, FeedSettings(committed, plan.feed_settings))
    oldest = min((part.committed for part in feed), default=committed)
    ends = (*(one.since for one in found[1:]), None)  # of each, the beginning of the next ones
    marks = next((one for one in reversed(found) if not is_full(one.settings)), None)
    return tuple(one for one, end in zip(found, ends, strict=True) if end is None or end > oldest or one is marks)


def _committed(counts: Counter[str]) -> dict[str, int]:
    """Return the counts that a commit records."""
    names = ["feed rows", *(f"feed {name}" for name in FEED_OUTCOMES)]
    names += ["master rows", *(f"master {name}" for name in MASTER_OUTCOMES), "output rows"]
    names += ["tombstones in", "tombstones out", "expired", *NOTES, "feed ignored", "master ignored"]
    return {name: counts[name] for name in (*names, *(name for name in RARE if counts[name]))}
