"""A difference without the values that it may not show: ``report.fields``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mutator.config import Config
from mutator.errors.display import OUT
from mutator.formats.blocks.changed_rows import ROW
from mutator.pipeline.diff.records import Diff
from mutator.plan.run_plan import Plan

Shows = Callable[[str], bool]  # whether the values of a field may be shown, by the name of its column


def shows_of(config: Config, plan: Plan) -> Shows:
    """Return which columns of changed rows may be shown."""
    fields, op = config.report_fields, config.op_field
    columns = plan.changes.names if plan.changes is not None else ()
    has_ordinals = plan.rows.block_type == "text"
    is_cut = isinstance(op, int) and not config.op_keep  # the fields of a feed row after it are one place later

    def shows(name: str) -> bool:
        if name == ROW:  # the whole row
            return False
        if not has_ordinals or name not in columns:
            return fields.show([name])
        number = list(columns).index(name)
        return fields.show([name, number + (is_cut and isinstance(op, int) and number >= op)])

    return shows


def without_hidden(found: Diff, shows: Shows) -> Diff:
    """Return a difference with ``…`` in place of the values that may not be shown."""

    def record(one: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value if shows(name) else OUT for name, value in one.items()}

    def pair(one: Mapping[str, Any]) -> dict[str, Any]:
        changes = {name: values if shows(name) else [OUT, OUT] for name, values in one["changes"].items()}
        return {"key": record(one["key"]), "changes": changes}

    return replace(
        found,
        added=[record(one) for one in found.added],
        removed=[record(one) for one in found.removed],
        changed=[pair(one) for one in found.changed],
    )
