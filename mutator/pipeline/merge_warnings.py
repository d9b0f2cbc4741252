"""The warnings that are known only after a merge: most of them say that a setting may be wrong."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from mutator.engine.lost_files import lost_parts
from mutator.engine.receipts import LateOrders
from mutator.engine.tally import DELETE_WITHOUT_PARTITION, SPELLED_OTHERWISE
from mutator.errors.display import counted, key_text
from mutator.errors.parts import FIRST_MASTER, MASTER, place, setting, value_in_quotes
from mutator.pipeline.accounting import Result
from mutator.pipeline.hints import reject_hints
from mutator.pipeline.id_hints import NO_FIELD, id_hint_for
from mutator.pipeline.op_codes import lost_deletes, op_code_warnings, other_tables
from mutator.plan.inspect.survey import Survey
from mutator.plan.mistakes.id_forms import DIFFER
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.epochs import epochs_in
from mutator.rules.file_names import first_few
from mutator.rules.order_tuples import shown_order
from mutator.rules.order_units import epoch_unit, future_of_values
from mutator.rules.order_values import is_tuple

_FEW = 10
_MOST = 0.9
_MATCHED = ("updated", "no-op", "late")


def merge_warnings(plan: Plan, survey: Survey, result: Result) -> Iterator[str]:
    """Yield the warnings that are known only after a merge."""
    yield from _lost_warnings(plan, result)
    yield from _unmatched_deletes(plan, result)
    yield from op_code_warnings(plan, result)
    yield from lost_deletes(plan, result)
    yield from _empty_feed(plan, survey, result)
    yield from _late_warnings(plan, result)
    yield from _spelling_warnings(plan, result)
    yield from _future_warnings(plan, result)
    yield from _as_of_warnings(plan, result)
    yield from _tied_warnings(plan, result)
    yield from _superseded_warnings(plan, survey, result)
    for side, samples in result.rejects.items():
        yield from (f"rejected rows: {hint}" for hint in reject_hints(plan, survey, side, samples))


def _lost_warnings(plan: Plan, result: Result) -> Iterator[str]:
    """Yield a warning for the damaged files that an overwrite replaced."""
    parts = lost_parts(plan, result.lost)
    if parts:
        rows = sum(part.rows for part in parts if part.is_data)
        first = f"{parts[0].path}: {result.lost[parts[0].path]}"
        others = "" if len(parts) == 1 else f"; and {counted(len(parts) - 1, 'other')}"
        yield (
            f"damaged files were replaced ({first}{others}): the IDs of their {counted(rows, 'record')} are unknown, "
            "so late mutations may insert them again"
        )


def _unmatched_deletes(plan: Plan, result: Result) -> Iterator[str]:
    """Yield warnings on deletes that found no record, where that is probably a mistake."""
    counts = result.counts
    unknown = counts["feed delete of unknown"] - counts["inserted and deleted"]
    live = counts["master rows"] - counts["master duplicate"] - counts["master rejected"]
    found_none = live and not counts["feed deleted"]
    if not plan.delete_files:  # deletes by op code are among rows that insert, update or delete
        found_none = found_none and unknown > _FEW and not any(counts[f"feed {name}"] for name in _MATCHED)
    if found_none and unknown > 0:
        which = first_few(list(map(place, plan.delete_files))) or "deletes by op code"
        yield (
            f"{which}: no record was deleted, and {MASTER} does not "
            f"have {counted(unknown, 'ID')} of these deletes: compare them with {MASTER}'s (quotes, blanks, a header "
            "line, the order of the ID fields)"
        )
    if found := counts[DELETE_WITHOUT_PARTITION]:
        shown = "; ".join(map(key_text, result.samples[DELETE_WITHOUT_PARTITION]))
        yield (
            f"{counted(found, 'delete')} without a value of a partition field found no record, for example {shown}: "
            f"with {setting('key.scope=partition')}, a delete removes a record of its own partition only, so deletes "
            f"need their partition fields; {setting('key.scope=table')} finds records by their ID alone"
        )


def _empty_feed(plan: Plan, survey: Survey, result: Result) -> Iterator[str]:
    """Yield a warning if the files of the feed have no rows, nor messages of other tables."""
    if survey.feed and not result.counts["feed rows"] and not other_tables(result):
        names = first_few([place(source.name) for source in survey.feed])
        yield f"no row in {names}: the feed counts as merged{'' if plan.touches_all else ', and no record changes'}"


def _late_warnings(plan: Reading, result: Result) -> Iterator[str]:
    """Yield a warning if nearly all winners of a feed are late."""
    n, late = result.counts, result.counts["feed late"]
    winners = n["feed rows"] - n["feed rejected"] - n["feed superseded"]
    if late <= _FEW or late < _MOST * winners or result.late is None:
        return
    orders, order_type = result.late, plan.rows.order_type
    low, high, low_known, high_known = (shown_order(order_type, value) or "none" for value in orders)
    values = "sequences are" if plan.by_file_name else "order values are"
    yield (
        f"{late:,} of {counted(winners, 'mutation')} are late, so they change nothing: their {values} {low} to {high}, "
        f"and those of {MASTER}'s records are {low_known} to {high_known}; {_diagnosis(plan, orders)}"
    )


def _future_warnings(plan: Reading, result: Result) -> Iterator[str]:
    """Yield a warning of order values in the future."""
    if plan.order_max is None and result.future is not None:
        rows, lowest = result.future
        shown = value_in_quotes(shown_order(plan.rows.order_type, lowest) or "")
        files = first_few(list(map(place, result.future_files)))
        have, they = ("has an order value", "it wins") if rows == 1 else ("have order values", "they win")
        yield (
            f"{counted(rows, 'row')} of the feed {have} in the future, from {shown} on, in {files}: {they} against all "
            f"mutations until then; set {setting('order.max')} to stop such a run"
        )


def _as_of_warnings(plan: Plan, result: Result) -> Iterator[str]:
    """Yield warnings of a snapshot that is as of the future, before some of its rows, or unknown beside a floor."""
    shown = value_in_quotes(shown_order(plan.rows.order_type, plan.as_of) or "")
    if plan.as_of is not None and not plan.by_file_name and future_of_values([plan.as_of], plan.now):
        yield f"{setting('snapshot.as.of')} is in the future, {shown}: all rows of deltas until then will be late"
    if plan.is_snapshot and plan.as_of is None and plan.floor is not None and (late := result.counts["feed late"]):
        floor = value_in_quotes(shown_order(plan.rows.order_type, plan.floor) or "")
        yield (
            f"{counted(late, 'row')} of the snapshot {'is' if late == 1 else 'are'} late, so the result lacks "
            f"{'it' if late == 1 else 'them'}: {MASTER} has the floor {floor} of a truncate or snapshot, and older "
            f"rows count as deleted. If the snapshot was taken later, say when with {setting('snapshot.as.of')}"
        )
    if result.newer is not None:
        rows, lowest = result.newer
        example = value_in_quotes(shown_order(plan.rows.order_type, lowest) or "")
        are = "is" if rows == 1 else "are"
        yield (
            f"{setting('snapshot.as.of')} is {shown}, and {counted(rows, 'row')} of the snapshot {are} newer, from "
            f"{example} on: if the snapshot was taken later, records that it lacks, and that changed since {shown}, "
            "stay by mistake"
        )


def _tied_warnings(plan: Reading, result: Result) -> Iterator[str]:
    """Yield a warning if nearly all mutations of known records have the order values of these."""
    n = result.counts
    met = n["feed updated"] + n["feed deleted"]
    # Mutations of one ID may be tied with each other as well: then some are superseded.
    if plan.by_file_name or met <= _FEW or n["tied"] < _MOST * met or n["feed superseded"] >= n["tied"]:
        return
    yield (
        f"{n['tied']:,} of {counted(met, 'mutation')} of known records have the order value of the record that they "
        f"replace: if {setting('temporal.ordering.field.ordinal')} names a time of creation, which no change of a "
        "record changes, an older mutation wins as well as a newer one"
    )


def _spelling_warnings(plan: Plan, result: Result) -> Iterator[str]:
    """Yield a warning if IDs of records were inserted in another spelling."""
    samples = result.samples.get(SPELLED_OTHERWISE, ())
    if not samples or any(plan.audience(DIFFER) in warning for warning in plan.warnings):
        return
    own, other = (
        value_in_quotes(key_text(key)) for key in (samples[0][: plan.key_width], samples[0][plan.key_width :])
    )
    yield (
        f"{DIFFER}: {own} is inserted, and {other} is in {MASTER}, as a sample of "
        f"{counted(result.counts['feed inserted'], 'inserted record')} shows; they count as different records"
    )


def _diagnosis(plan: Reading, orders: LateOrders) -> str:
    if plan.by_file_name:
        return f"the feed is older than {MASTER}, or was merged before under other names"
    if plan.rows.orders_beside and is_tuple(plan.rows.order_type):
        return f"the feed is older than {MASTER}, or its source has begun again: then run it with {_later_epoch(plan)}"
    units = [{_unit(low), _unit(high)} for low, high in (orders[:2], orders[2:])]
    if all(len(found) == 1 and None not in found for found in units) and units[0] != units[1]:
        return f"the feed's look like {units[0].pop()} since 1970, and {MASTER}'s like {units[1].pop()}"
    return (
        f"the feed is older than {MASTER}, or {setting('temporal.ordering.field.ordinal')} names another field than "
        "the time"
    )


def _later_epoch(plan: Reading) -> str:
    """Return the setting of an epoch for sources that began again. Of several ones, each has a name."""
    known = epochs_in(plan.rows.spec)
    later, feed = known.newest + 1, (one.source.wrapped for one in plan.inputs if one.side == "feed")
    seen = sorted({name for one in feed if one is not None for name in one.envelope.sources} & known.named.keys())
    if len(known.named) < 2:
        return setting(f"order.epoch={later}")
    if len(seen) == 1:
        return setting(f"order.epoch={seen[0]}:{later}")
    of = ", ".join(seen or known.named)
    return f"{setting(f'order.epoch=SOURCE:{later}')}, SOURCE being the one of {of} that did"


def _unit(order: Any) -> str | None:
    return epoch_unit(order) if isinstance(order, int | Decimal) else None


def _superseded_warnings(plan: Reading, survey: Survey, result: Result) -> Iterator[str]:
    """Yield a warning if a master is begun with a feed that has several rows of nearly each ID, by mistake as it seems.

    Several mutations of a record are normal, but not with one order value. Fields that are unique in a feed of changes
    may be those of the change, and show nothing.
    """
    n = result.counts
    if n["master rows"] or n["tombstones read"] or n["feed superseded"] <= _FEW:
        return
    accepted = n["feed rows"] - n["feed rejected"]
    if n["feed superseded"] > accepted / 2:
        hint = id_hint_for(plan, "feed", survey.feed)
        are_tied = not plan.by_file_name and n["tied"] > (accepted - n["feed superseded"]) / 2
        envelope, is_vague = plan.rows.layouts["feed"].envelope, hint.endswith(NO_FIELD)
        # Messages name the key of their table, and a table has many changes of a record.
        if (not are_tied and (envelope.field is not None or is_vague)) or (envelope.unwraps and is_vague):
            return
        yield (
            f"{n['feed superseded']:,} of {counted(accepted, 'feed row')} are superseded by another row of the same "
            f"ID, so {FIRST_MASTER} has {counted(n['output rows'], 'record')}: "
            f"{hint}"
        )
