"""Choose the register of a run, for merges and for explain."""

from dataclasses import replace

from mutator.config.settings import Config
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.parts import place, setting
from mutator.formats.blocks.block_types import BLOCK_TYPES
from mutator.plan.rows.row_plan import PATCHES, RowPlan
from mutator.rules.last_wins import LAST_WINS, SNAPSHOT
from mutator.rules.patches import Patches
from mutator.rules.register import Register
from mutator.rules.unset_fields import whole_alone


def with_patches(config: Config, rows: RowPlan, known: State | None, path: str, *, versioned: bool) -> RowPlan:
    """Return a row plan whose specification says that records get patches, if they do or once did.

    path: of the master. versioned: it is a table. Raises ConfigError if its patches of unknown records have done
    something else so far.
    """
    recorded = None if known is None or known.is_without_key else known.spec.get(PATCHES)
    ops = config.rows.ops
    if recorded is not None and ops.patch_unknown not in (None, recorded):
        raise error(
            "config",
            where=setting("patch.unknown"),
            faults=f"{ops.patch_unknown}, but the first run with patches of {place(path)} had {recorded}, and what "
            f"its records have beside them depends on it; set {setting(f'patch.unknown={recorded}')}",
        )
    found = recorded or (ops.unknown if ops.has_patches else None)
    why = ""
    if config.operation.overwrites:
        why = f"write.operation={config.operation.name} replaces whole records"
    elif config.operation.full:
        why = "with sync.mode=full, a row is a whole record"
    elif recorded is None and ops.dialect is not None and rows.partitioning.by_table and not versioned:
        found, why = None, "with key.scope=table, only the last mutation of an ID finds its record"
    if why:
        own = {name: one for name, one in rows.layouts.items() if one.unset is not None}
        whole = {name: replace(one, unset=whole_alone(one.unset, why)) for name, one in own.items()}
        rows = replace(rows, layouts={**rows.layouts, **whole})
    return rows if found is None else replace(rows, spec={**rows.spec, PATCHES: found})


def register_of(config: Config, rows: RowPlan, *, full: bool) -> Register:
    """Return the register of a run. rows: where a register finds fields. full: the feed is a snapshot."""
    if PATCHES not in rows.spec:
        return SNAPSHOT if full else LAST_WINS
    fields = BLOCK_TYPES[rows.block_type].fields(rows.layouts["written"], config.rows.text.csv_null)
    return Patches(fields, rows.order_type, full, rows.spec[PATCHES])
