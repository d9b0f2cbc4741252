"""Refuse to publish a result that exceeds a limit or does not add up.

Three limits are fractions: of the master's records that a run removes, of its rows that are duplicates, and of the rows
of a side that are rejected. A wrong setting makes such a result of good data.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mutator.config.settings import LimitSpec
from mutator.dataset.state import State
from mutator.engine.receipts import RejectSample
from mutator.engine.tally import MET_IN_PART
from mutator.errors import MutatorError, error
from mutator.errors.display import counted, key_text, printable, text_of, without_secrets
from mutator.errors.exceptions import rebuilt, with_others, with_standard
from mutator.errors.parts import MASTER, place, setting
from mutator.pipeline.accounting import Result
from mutator.pipeline.feed_rows import FileRows, check_files
from mutator.pipeline.hints import reject_hints
from mutator.pipeline.id_hints import id_hint_for
from mutator.pipeline.op_codes import check_op_codes
from mutator.plan.inspect.survey import Survey
from mutator.plan.reading import SAMPLES
from mutator.plan.run_plan import Plan
from mutator.rules.absences import highest_before
from mutator.rules.file_names import first_few
from mutator.rules.op_codes import listed_codes
from mutator.rules.order_types import single_type
from mutator.rules.order_units import joined, several_units
from mutator.rules.order_values import order_text, order_value
from mutator.rules.truth_table import check_sums

_SIDES = {
    "feed": "{rows} of the feed",
    "snapshot": setting("snapshot.as.of"),
    "master": f"{{rows}} of {MASTER} that mutations met",
}


def check(plan: Plan, survey: Survey, result: Result) -> None:
    """Raise the error of a result that must not be published: rejects, limits, guards, and sums that do not add up."""
    counts = result.counts
    for side in ("master", "feed"):
        samples = result.rejects.get(side, ())
        hints = reject_hints(plan, survey, side, samples[:SAMPLES])
        try:
            rejected, rows = counts[f"{side} rejected"], counts[f"{side} rows"]
            allowed, decided = plan.rejects[side], side == "feed" and bool(result.decided)
            more = plan.rejects_delete, decided, result.read if side == "feed" else ()
            check_rejects(side, allowed, plan.limits, rejected, rows, samples, hints, *more)
        except MutatorError as fault:
            raise with_standard(fault, plan.rows.standard) from None
    check_op_codes(plan, result)
    _check_order_units(plan, result)
    _check_order_max(plan, result)
    _check_duplicates(plan, survey, result)
    if plan.is_snapshot:
        _check_snapshot(plan, survey.state, result)
    _check_overwrite(plan, result)
    _check_deletes(plan, result)
    below = counts["below horizon"]
    if below and plan.limits.before_horizon == "fail":
        shown = "; ".join(key_text(key) for key in result.samples["below horizon"])
        horizon = plan.shown.order_of(plan.rows.order_type, plan.horizon)
        raise error("horizon", count=f"{below:,}", horizon=horizon, samples=shown)
    problems = [*check_sums(counts), *check_files(counts, result.read)]
    if counts["tombstones read"] != counts["tombstones in"]:
        problems.append(f"tombstones read: {counts['tombstones read']:,}, tombstones met: {counts['tombstones in']:,}")
    if problems:
        raise error("sums", problems="; ".join(problems))


def exceeds(count: int, rows: int, fraction: float) -> bool:
    """Return whether a count of rows is more than a fraction of all rows.

    >>> exceeds(29, 100, 0.29), exceeds(30, 100, 0.29), exceeds(0, 0, 0.0)
    (False, True, False)
    """
    return rows > 0 and count / rows > fraction  # 0.29 * 100 would be less than 29


def _check_order_units(plan: Plan, result: Result) -> None:
    """Raise DataError if the order values of the feed, and of the records that it met, are times in several units."""
    if plan.accepts_units or plan.by_file_name:
        return
    units = several_units(joined(result.units.values()))
    if not units:
        return
    found = []
    for side, text in _SIDES.items():
        of_side = result.units.get(side, {})
        for unit in units:
            if unit in of_side:
                count, lowest = of_side[unit]
                rows = text.format(rows=counted(count, "row"))
                example = plan.shown.order_of(plan.rows.order_type, lowest)
                found.append(f"{unit} in {rows}, such as {example}")
    raise error("order.units", found="; ".join(found))


def _check_order_max(plan: Plan, result: Result) -> None:
    """Raise DataError for order values of the feed above ``order.max``."""
    if plan.order_max is not None and result.future is not None:
        rows, lowest = result.future
        most = order_text(plan.rows.order_type, plan.order_max)
        files = first_few(list(map(place, result.future_files)))
        shown = plan.shown.order_of(plan.rows.order_type, lowest)
        raise error("order.max", rows=counted(rows, "row"), most=most, lowest=shown, files=files)


def _check_duplicates(plan: Plan, survey: Survey, result: Result) -> None:
    """Raise DataError if too many rows of the master, or of a snapshot, have the ID of another one."""
    counts, fraction = result.counts, plan.limits.max_duplicate_fraction
    sides = [("master", counts["master duplicate"], survey.master)]
    if plan.is_snapshot:  # which has each record once
        sides.append(("feed", counts["feed superseded"], survey.feed))
    for side, duplicates, sources in sides:
        rows = counts[f"{side} rows"]
        if not exceeds(duplicates, rows, fraction):
            continue
        raise error(
            "duplicates",
            whose="master" if side == "master" else "snapshot",
            duplicates=counted(duplicates, "duplicate"),
            rows=f"{rows:,}",
            records=counted(rows - duplicates - counts[f"{side} rejected"], "record"),
            fraction=f"{fraction:g}",
            hint=id_hint_for(plan, side, sources),
        )


def _check_deletes(plan: Plan, result: Result) -> None:
    counts, fraction = result.counts, plan.limits.max_delete_fraction
    removed = counts["master removed"] + counts["master deleted by absence"] + counts["master truncated"]
    live = removed + counts["master kept"] + counts["master replaced"]
    records = counted(live, "record")
    if plan.scope is not None:  # those that the snapshot has, and those that it lacks
        live = removed + counts[MET_IN_PART]
        records = f"{counted(live, 'record')} in the part"
    if exceeds(removed, live, fraction):  # which below 1 is also all of it
        raise error(
            "deletes",
            removed=f"{removed:,}",
            records=records,
            fraction=f"{fraction:g}",
            hint=_delete_hint(plan, counts),
        )
    absent = counts["master deleted by absence"] + counts["master truncated"]
    if plan.is_snapshot and exceeds(absent, live, plan.limits.max_absence_fraction):
        raise error(
            "absence",
            absent=f"{absent:,}",
            records=records,
            fraction=f"{plan.limits.max_absence_fraction:g}",
            hint=_delete_hint(plan, counts),
        )


def _delete_hint(plan: Plan, counts: Mapping[str, int]) -> str:
    """Return what to compare where a run deletes too much."""
    if plan.is_snapshot and counts["feed inserted"]:
        new = counted(counts["feed inserted"], "record")
        return f"the snapshot has {new} that {MASTER} lacks, so compare the IDs of both"
    if plan.is_snapshot:
        return "check that the snapshot is complete"
    if plan.operation != "apply" and counts["master deleted by absence"]:
        return f"the feed lacks {counted(counts['master deleted by absence'], 'record')} of what it replaces"
    if plan.delete_files:
        return f"check that all rows of {first_few(list(map(place, plan.delete_files)))} are deletes"
    envelope = plan.rows.layouts["feed"].envelope
    codes, what = (envelope.delete_codes, "delete")
    if counts["master truncated"]:
        codes, what = (envelope.truncate_codes, "truncate, which deletes all older records")
    field, codes = envelope.spelled(codes)
    return f"check that op code {listed_codes(codes)} in field {field} is a {what}"


def check_rejects(
    side: str,
    allowed: int,
    limits: LimitSpec,
    count: int,
    rows: int,
    samples: Sequence[RejectSample],
    hints: Iterable[str] = (),
    rejects_delete: bool = False,
    decided: bool = False,
    files: Sequence[FileRows] = (),
) -> None:
    """Raise DataError if more rows of a side were rejected than allowed.

    allowed: rows that may be rejected. count: rejected rows. rows: all rows of the side. samples: the first rejected
    ones, and then the first one of each other file. hints: sentences on settings that may be the cause; not iterated
    unless the error is raised, because they may read files. rejects_delete: as in ``Plan``.
    decided: the register rejected some of them. files: of the feed; of several with rejects, the field ``by_file`` of
    the error has the message of each alone, as JSON.
    """
    if count <= allowed and not exceeds(count, rows, limits.max_reject_fraction):
        return
    hints = list(hints)

    def message(count: int, rows: int, samples: Sequence[RejectSample]) -> MutatorError:
        return _rejects(side, allowed, limits, count, rows, samples, hints, rejects_delete, decided)

    others = printable(without_secrets(shown_rejects(samples[SAMPLES:])))
    fault = with_others(message(count, rows, samples[:SAMPLES]), others)
    alone = {}
    for file in files:
        path = without_secrets(file.source.shown_path)
        own = [sample for sample in samples if sample.path == path]
        if own and file.rejected < count:
            alone[path] = message(file.rejected, file.rows, own[:SAMPLES]).message
    raise rebuilt(fault.kind, fault.message, {**fault.fields, "by_file": json.dumps(alone)}) if alone else fault


def _rejects(
    side: str,
    allowed: int,
    limits: LimitSpec,
    count: int,
    rows: int,
    samples: Sequence[RejectSample],
    hints: Sequence[str],
    rejects_delete: bool,
    decided: bool,
) -> MutatorError:
    """Return the error of rejected rows."""
    fraction = limits.max_reject_fraction
    single = count == 1
    noun, them = ("a record", "it") if single else ("records", "them")
    key = "reject.policy" if side == "feed" else "master.reject.policy"
    of_all, limit = "", ""
    switch = (
        f"{setting(f'{key}=quarantine')} would leave {them} out of the result, up to {setting('reject.limit')} and "
        f"{setting('max.reject.fraction')}"
    )
    if allowed and count > allowed:
        limit = f", and {setting('reject.limit')} is {allowed:,}"
        switch = f"a higher {setting('reject.limit')} would leave {them} out of the result"
    elif allowed:
        of_all, limit = f" of {rows:,}", f", and {setting('max.reject.fraction')} is {fraction:g}"
        switch = f"{setting('-D max.reject.fraction=1')} would leave {them} out of the result"
    why = f"{'is' if single else 'are'} rejected" if decided else f"cannot be read as {noun}"
    what = f"{counted(count, f'{side} row')}{of_all} {why}{limit}"
    what += "; the first are" if count > len(samples) else ""
    if side == "feed" and rejects_delete:
        switch = f"leaving {them} out would delete {'its record' if single else 'their records'}"
    fix = f"Fix the row{'' if single else 's'}, or a setting that does not fit {them}; {switch}"
    cure = ". ".join([*hints, fix])
    return error("rejects", what=what, rows=shown_rejects(samples), cure=cure)


def shown_rejects(samples: Sequence[RejectSample]) -> str:
    """Return rejected rows as the lines of a message: those of one reason together, which the first one has.

    >>> from mutator.errors.parts import plain
    >>> rows = [RejectSample("a", at, 2, f"byte {at}", "has 1 field and should have 2", b"x") for at in (4, 6)]
    >>> print(plain(shown_rejects(rows)))
      a: byte 4: has 1 field and should have 2: x
      a: byte 6: likewise: x
    """
    of_reason: dict[str, list[RejectSample]] = {}
    for sample in samples:
        of_reason.setdefault(sample.reason, []).append(sample)
    return text_of(
        f"  {place(one.path)}: {one.position}: {'likewise' if number else reason}: "
        f"{one.row.decode('utf-8', 'backslashreplace')}"
        for reason, found in of_reason.items()
        for number, one in enumerate(found)
    )


def _check_overwrite(plan: Plan, result: Result) -> None:
    """Raise DataError for a feed with a truncate, without rows that would delete everything, or with rows after all."""
    rows, feed = result.counts["feed rows"], [one.source.path for one in plan.inputs if one.side == "feed"]
    if plan.operation == "insert_overwrite_table" and not rows and not plan.limits.allow_empty_feed:
        raise error("overwrite.empty", path=first_few(list(map(place, feed))))
    if result.floor is not None and plan.operation != "apply":
        truncate = plan.shown.order_of(plan.rows.order_type, result.floor)
        raise error("overwrite.truncate", path=first_few(list(map(place, feed))), order=truncate)
    if plan.expects_no_rows and rows:
        raise error("changed.empty", path=first_few(list(map(place, feed))), after=counted(rows, "row"))


def _check_snapshot(plan: Plan, known: State | None, result: Result) -> None:
    if not result.counts["feed rows"]:
        where = ", ".join(place(one.source.path) for one in plan.inputs if one.side == "feed")
        raise error("feed.empty", path=where)
    if known is None or plan.limits.allow_older_snapshot or not plan.register.full:
        return
    scope = () if plan.scope is None else plan.scope.filter.texts
    text = highest_before(plan.rows.order_type, known.commit.snapshots, scope)
    before = None if text is None else order_value(plan.rows.order_type, text)
    bounds = [one for one in (before, result.highest) if one is not None]
    newer = [(order, key) for order, key in result.absent if not bounds or order > max(bounds)]
    if newer:  # no snapshot had them, so they came by deltas
        shown = [f"{key_text(plan.shown.key(key))} ({_shown_order(plan, order)})" for order, key in newer]
        raise error(
            "snapshot.before",
            records=f"{'at least ' if len(newer) == SAMPLES else ''}{counted(len(newer), 'record')}",
            samples="; ".join(shown),
            now="none" if result.highest is None else _shown_order(plan, result.highest),
            as_of=_as_of_hint(plan),
        )
    if before is not None and result.highest is not None and result.highest < before:
        raise error(
            "snapshot.older",
            now=_shown_order(plan, result.highest),
            before=_shown_order(plan, before),
        )


def _as_of_hint(plan: Plan) -> str:
    """Return the cure that keeps newer records, where a snapshot can be as of a time."""
    own_type = single_type(plan.rows.order_type)
    if plan.scope is not None or own_type is None:
        return ""
    if own_type == "sequence":
        return f"; or set {setting('snapshot.as.of=sequence')}, which keeps them"
    return f"; or set {setting('snapshot.as.of')} to the order value at which its export began, which keeps them"


def _shown_order(plan: Plan, order: Any) -> str:
    return plan.shown.order_of(plan.rows.order_type, order)
