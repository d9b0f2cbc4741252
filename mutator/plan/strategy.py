"""The strategy of a run: its engine, join and number of buckets, chosen once, on the driver.

aligned     the master is managed: only the feed is shuffled, and each task reads one bucket of the master
broadcast   an unmanaged master with a promise that IDs are unique: every task gets the folded feed
shuffle     everything else; its output has buckets, so that the next run is aligned
"""

from typing import NamedTuple

from mutator.config.settings import EffortSpec, OperationSpec
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.parts import argument, setting
from mutator.formats.blocks.block_types import BLOCK_TYPES
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.splits import INFLATED
from mutator.rules.register import Register

ENGINES = ("auto", "blocks", "records")

_COLUMNS = 4  # bytes in memory of a byte of a folded feed, about
_MOST_GROUPS = 1024  # tasks that fold a partitioned feed
_MANY = 64  # partitions whose filters take longer to read than a small feed
_SMALL = 4 << 20  # bytes of such a feed
_MOST_SPLITS = 8  # buckets that one bucket becomes without a shuffle; more would overload too few tasks


class Strategy(NamedTuple):
    """How a run merges."""

    engine: str  # blocks | records
    join: str  # aligned | broadcast | shuffle
    buckets: int | None  # of the output; None: the files of the master stay as they are
    groups: int  # tasks that merge; each merges the buckets whose numbers are equal modulo ``groups``
    reason: str


def choose(
    operation: OperationSpec, effort: EffortSpec, survey: Survey, rows: RowPlan, wanted: str, register: Register
) -> Strategy:
    """Choose the strategy. wanted: one of ``ENGINES``. Raises ConfigError for a run that it cannot do."""
    if wanted not in ENGINES:
        raise error("usage", what=f"the engine is {wanted!r}; choose one of {', '.join(ENGINES)}")
    form = BLOCK_TYPES[rows.block_type]
    refused = form.unsupported(rows.layouts["feed"]) or form.unsupported(rows.layouts["master"])
    buckets, why_buckets = _buckets(effort, survey)
    if wanted == "records" or refused:
        if rows.partitioning.fields:
            cure = "use a delimiter of one byte" if refused else f"leave {argument('--engine')} out"
            raise error("partition.engine", why=refused or f"{argument('--engine records')} is asked for", cure=cure)
        why = "it was asked for" if wanted == "records" else refused
        if wanted == "blocks":
            why = f"blocks was asked for, but {why}"
        why = f"the records engine shuffles master and feed ({why}); {why_buckets}"
        return Strategy("records", "shuffle", buckets, buckets, why)
    if rows.partitioning.fields:
        places_anew = register.leaves_one or register.side_columns
        if rows.partitioning.by_table and (register.by_order or not places_anew):
            raise error("partition.several")
        return _partitioned(operation, effort, survey)
    if survey.state is not None and survey.state.bucket_count is not None:
        return _managed(survey.state.bucket_count, buckets, why_buckets)
    return _unmanaged(operation, effort, survey, buckets, why_buckets, register)


def _partitioned(operation: OperationSpec, effort: EffortSpec, survey: Survey) -> Strategy:
    managed = survey.partitioned
    shuffled = (*survey.master, *survey.feed) if managed is None else survey.feed
    size = sum(source.bytes * (INFLATED if source.compression else 1) for source in shuffled)
    count = 0 if managed is None else sum(1 for files in managed.partitions.values() if files.data)
    # The keys of each group are looked for in the filters of all partitions. Few records of an insert overwrite are
    # elsewhere, so that one task soon reads their files.
    fewest = 1 if operation.overwrites and count >= _MANY and size < _SMALL else 2
    groups = effort.num_reducer or max(fewest, min(size // effort.split_bytes, _MOST_GROUPS))
    if managed is None:
        return Strategy("blocks", "shuffle", None, groups, "the master has no partitions yet, so all of it is read")
    why = f"the master has {counted(count, 'partition')}, of which those that the feed touches are merged"
    return Strategy("blocks", "aligned", None, groups, why)


def _managed(before: int, buckets: int, why_buckets: str) -> Strategy:
    small, large = sorted((before, buckets))
    if large % small or large > _MOST_SPLITS * small:
        why = f"the master's {counted(before, 'bucket')} cannot become {buckets} where they lie; {why_buckets}"
        return Strategy("blocks", "shuffle", buckets, buckets, why)
    why = f"the master has {counted(before, 'bucket')} by key hash, so only the feed is shuffled"
    if before != buckets:
        why += f"; {why_buckets}, made of the old ones without a shuffle"
    return Strategy("blocks", "aligned", buckets, small, why)


def _unmanaged(
    operation: OperationSpec, effort: EffortSpec, survey: Survey, buckets: int, why_buckets: str, register: Register
) -> Strategy:
    size = sum(source.bytes * (INFLATED if source.compression else 1) for source in survey.feed)
    if not effort.master_unique:
        why = f"the master has no manifest with buckets, and {setting('master.unique')} does not promise unique IDs"
    elif operation.full:
        why = "a full snapshot needs to see which IDs are absent"
    elif operation.overwrites:
        why = "an insert overwrite needs to see which IDs are absent"
    elif not survey.master:
        why = "there is no master yet"
    elif not register.one_decides:
        why = "several mutations may decide about an ID"
    elif size > (memory := effort.memory_bytes) // _COLUMNS:
        why = f"a feed of {size:,} bytes, as columns, is more than {setting('memory.bytes')}, {memory:,}"
    else:
        why = f"{setting('master.unique')} promises unique IDs, and the feed of {size:,} bytes fits into every worker"
        if effort.num_reducer is not None:
            why += f"; {setting('num.reducer')} has no meaning here, because the master's files stay as they are"
        return Strategy("blocks", "broadcast", None, 0, why)
    return Strategy("blocks", "shuffle", buckets, buckets, f"{why}; {why_buckets}")


def _buckets(effort: EffortSpec, survey: Survey) -> tuple[int, str]:
    if effort.num_reducer is not None:
        return effort.num_reducer, f"{setting('num.reducer')} says {counted(effort.num_reducer, 'bucket')}"
    total = sum(source.bytes for source in (*survey.master, *survey.feed))
    known = count = survey.state.bucket_count if survey.state is not None else None
    if count is not None and total <= 2 * count * effort.bucket_bytes:
        return count, f"the master's manifest says {counted(count, 'bucket')}"
    why = f"{total:,} bytes of input make"
    if count is not None:
        why = f"the {counted(count, 'bucket')} outgrew {setting('bucket.bytes')}, and {why}"
    count = count or 2
    while total > (2 if known else 1) * count * effort.bucket_bytes:
        count *= 2
    return count, f"{why} {counted(count, 'bucket')}"
