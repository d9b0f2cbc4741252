"""Which history a table keeps, as its settings say, and what is refused for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mutator.config.settings import Config, HistorySpec
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.plan.rows.row_plan import MERGES, PATCHES
from mutator.plan.run_plan import Plan
from mutator.rules.order_columns import SEQUENCE
from mutator.rules.order_types import parts_of, recorded_fields
from mutator.rules.order_values import is_tuple


def check_history(plan: Plan, config: Config) -> None:
    """Raise ConfigError for an apply whose feed has no history."""
    rows, names = plan.rows, plan.rows.output.schema.names
    known = {name.lower() for name in names}  # as Hive, Spark and DuckDB compare them
    if clash := next((name for name in config.history.columns if name.lower() in known), None):
        why = f"its versions have a field {clash}, and so do the records"
        raise error("table.history", why=why, cure=f"create a table with other {setting('history.columns')}")
    if unknown := next((one for one in tracked_by(config)[0] if one not in names), None):
        why = f"{setting('history.track')} names {unknown}, which is not a field of the records"
        raise error(
            "table.history", why=why, cure=f"create a table with another one; the fields are {', '.join(names)}"
        )
    if plan.operation != "apply":
        why = "an overwrite does not say since when the records that it replaces are gone"
        cure = f"apply a snapshot, with {setting('sync.mode=full')} and {setting('snapshot.as.of')}"
        raise error("table.history", why=why, cure=cure)
    if plan.register.full:
        why = f"{setting('sync.mode=full')} does not say since when the records that the feed lacks are gone"
        raise error("table.history", why=why, cure=f"set {setting('snapshot.as.of')} to the time of the snapshot")
    if MERGES in rows.spec:
        why = f"{setting('field.merge.FIELD')} makes one value of all that a field ever had"
        raise error("table.history", why=why, cure="leave the setting out, or create a table without history")
    if rows.spec.get(PATCHES) == "reject":
        why = f"with {setting('patch.unknown=reject')}, what a patch does depends on when it arrives"
        raise error("table.history", why=why, cure=f"set {setting('patch.unknown')} to wait or insert")
    if is_tuple(rows.order_type) or config.history.valid_from is not None:
        time_part(config.history, rows.spec["order"])


def time_part(history: HistorySpec, order: Mapping[str, Any]) -> int | None:
    """Return the part of order values that has the times of versions; None: they are the times. Raises ConfigError."""
    names, order_type = [*map(str, recorded_fields(order))], str(order.get("type", SEQUENCE))
    if history.valid_from is None and not is_tuple(order_type):
        return None
    key, listed = setting("history.valid.from"), ", ".join(names) or "none"
    if history.valid_from not in names:
        why = (
            f"{key} names {history.valid_from}"
            if history.valid_from
            else f"{key} does not say which field has the times"
        )
        cure = f"create a table with one of the order fields, {listed}; if none of them is a time, add the field"
        raise error("table.history", why=why, cure=f"{cure} that has it to {setting('order_by')}, as the last one")
    part = names.index(history.valid_from)
    if not is_tuple(order_type):
        return None
    if parts_of(order_type)[part].descending:
        why = f"{history.valid_from} is in descending order, and {key} names it"
        raise error("table.history", why=why, cure="create a table with a field in ascending order")
    return part


def tracked_by(config: Config) -> tuple[list[str], bool]:
    """Return the fields that a setting names, and whether all but these are tracked."""
    chosen, known = config.history.tracked, config.rows.text.names
    if chosen is None:
        return [], True
    named = (known[one] if isinstance(one, int) and one < len(known) else one for one in chosen.named)
    return [*map(str, named)], chosen.others


def check_has_history(snapshot: Snapshot, what: str = "versions of records") -> None:
    """Raise ConfigError for a table without history."""
    if not snapshot.has_history:
        raise error("table.history.none", path=snapshot.table, what=what)


def wants_versions(snapshot: Snapshot, valid_at: Any, *, current: bool) -> bool:
    """Return whether a scan is of versions of records. Raises ConfigError for a table that has none, or for both."""
    if valid_at is not None:
        check_has_history(snapshot)
    elif current:
        check_has_history(snapshot, "current records beside others")
    if current and valid_at is not None:
        raise error("argument.both", call="scan", what="current and valid_at are given", cure="give one of them")
    return snapshot.has_history and not current
