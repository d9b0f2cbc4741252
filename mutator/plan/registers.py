"""Choose the register of a run, for merges and for explain."""

from dataclasses import replace
from typing import Any

from mutator.config.settings import Config
from mutator.dataset.state import State
from mutator.formats.blocks.block_types import BLOCK_TYPES
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.last_wins import LAST_WINS, SNAPSHOT
from mutator.rules.patches import Patches
from mutator.rules.register import Register
from mutator.rules.unset_fields import UnsetFields

PATCHES = "patches"  # in the specification of a place: what a patch of an unknown record does


def with_patches(config: Config, rows: RowPlan, known: State | None) -> RowPlan:
    """Return a row plan whose specification says that records get patches, if they do or once did."""
    recorded = None if known is None or known.is_without_key else known.spec.get(PATCHES)
    ops = config.rows.ops
    found = recorded or (ops.patch_unknown if ops.has_patches else None)
    if config.operation.overwrites:
        rows = replace(rows, layouts={name: _whole(one, config.operation.name) for name, one in rows.layouts.items()})
    return rows if found is None else replace(rows, spec={**rows.spec, PATCHES: found})


def _whole(layout: Any, operation: str) -> Any:
    """Return the layout of a feed whose rows must set all fields: there is nothing to keep a value of."""
    if not isinstance(layout.unset, UnsetFields):
        return layout
    why = f"and write.operation={operation} replaces whole records; send it, or NULL"
    return replace(layout, unset=replace(layout.unset, whole=why))


def register_of(config: Config, rows: RowPlan, *, full: bool) -> Register:
    """Return the register of a run. rows: where a register finds fields. full: the feed is a snapshot."""
    if PATCHES not in rows.spec:
        return SNAPSHOT if full else LAST_WINS
    fields = BLOCK_TYPES[rows.block_type].fields(rows.layouts["written"], config.rows.text.csv_null)
    return Patches(fields, rows.order_type, full, rows.spec[PATCHES])
