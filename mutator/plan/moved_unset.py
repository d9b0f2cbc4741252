"""Where rows with a new key may carry fields that they do not send (``moved.unset``)."""

from collections.abc import Sequence
from dataclasses import replace

from mutator.config import Config
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.plan.inspect.source import Source
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.patches import Patches
from mutator.rules.register import Register

_CARRY = "moved.unset"


def with_moved_unset(
    config: Config, rows: RowPlan, register: Register, feed: Sequence[Source], *, versioned: bool
) -> Sequence[Source]:
    """Return feed files whose rows with a new key are rejects if they lack fields that they cannot carry.

    register: of the run. versioned: the place is a table. Raises ConfigError if the user wants them to carry some.
    """
    partitioning, why = rows.partitioning, ""
    if partitioning.by_partition:
        why = f"{setting('key.scope=partition')}, where the old key may be in another partition"
    elif partitioning.fields and not versioned:
        why = "a partitioned directory, whose records are found by their partitions"
    if why and config.rows.ops.moved_unset == "carry":
        faults = f"carry, and not in {why}; a table can, with {setting('key.scope=table')}, or set "
        raise error("config", where=setting(_CARRY), faults=faults + f"{setting(f'{_CARRY}=reject')}")
    if isinstance(register, Patches) and not (why or config.operation.overwrites or config.operation.full):
        return feed
    return tuple(_rejecting(one) for one in feed)


def _rejecting(one: Source) -> Source:
    if one.wrapped is None:
        return one
    return replace(one, wrapped=one.wrapped._replace(envelope=one.wrapped.envelope.rejecting_moves()))
