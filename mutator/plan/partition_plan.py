"""The second half of the plan of a partitioned master: the merge of the partitions that the feed touches.

The first half reads and folds the feed, and finds the partition of each mutation. Only then does the driver know which
files of the master to read: those of the touched partitions. The second half is a function of the first half and of
the bytes that reached each partition.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import damaged
from mutator.dataset.partition_index import Files
from mutator.plan.inspect.managed import file_source, tombstone_source
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split, splits_of

_MOST_PACKS, _LARGE_PACKS = 32, 8
_MOST_SPLITS = 8  # buckets that one bucket becomes in one run


def with_units(plan: Plan, arrived: Mapping[str, int]) -> Plan:
    """Return the plan that merges the touched partitions: all of them, if the feed decides about all records.

    arrived: directory of a partition -> bytes that the first step sent to it.
    """
    master = plan.master
    known: Mapping[str, Files] = {} if master is None else master.partitions
    inputs, units, local = list(plan.inputs), list[MergeUnit](), list[tuple[Split, ...]]()
    for directory in sorted({*arrived, *plan.written_anyway(known)}):
        files = known.get(directory, Files())
        buckets = _buckets(files, files.bytes + arrived.get(directory, 0), plan.bucket_bytes)
        groups = min(files.buckets or buckets, buckets)
        made = [] if master is None else inputs_of_files(plan, files)
        splits: list[list[Split]] = [[] for _ in range(groups)]
        for split in splits_of(made, plan.chunks.master, plan.chunks.feed):
            source = made[split.input].source
            if source.bucket is None:
                raise damaged(source.path, "the manifest has no bucket for this file")
            splits[source.bucket % groups].append(replace(split, input=len(inputs) + split.input))
        inputs += made
        replaced = plan.replaces(directory)
        units += [MergeUnit(group, groups, buckets, directory, replaced) for group in range(groups)]
        local += map(tuple, splits)
    return replace(plan, inputs=tuple(inputs), units=tuple(units), local=tuple(local), groups=len(units))


def inputs_of_files(plan: Reading, files: Files) -> list[Input]:
    """Return the tombstone files and the data files of a partition as inputs."""
    master = plan.master
    assert master is not None
    orders: dict[str, FileEntry] = {one.path: one for one in files.orders}
    made = [Input(tombstone_source(master.path, part), "tombstones", "master") for part in files.tombstones]
    for part in files.data:
        source = replace(file_source(master.path, master.spec, part, orders.get(part.order or "")), file_schema=None)
        made.append(Input(source, "master", master.forms[part.form]))
    return made


def untouched(plan: Plan, touched: Collection[str]) -> list[tuple[str, FileEntry]]:
    """Return the files of untouched partitions with their directories, and the packs that have filters of these files.

    A pack belongs to no single partition, so its directory is "".
    """
    assert plan.master is not None
    touched = {*touched, *plan.written_anyway(plan.master.partitions)}
    found: list[tuple[str, FileEntry]] = []
    for directory, files in plan.master.partitions.items():
        if directory not in touched:
            found += ((directory, part) for part in files.parts)
    packs = {part.filter for _, part in found} - set(joined_packs(plan, touched))
    return found + [("", pack) for pack in plan.master.packs if pack.path in packs]


def joined_packs(plan: Plan, touched: Collection[str]) -> tuple[str, ...]:
    """Return the paths of the packs of filters that a run joins into one.

    Each run writes a pack, and a search for keys opens all of them. The packs with the most rows stay, so that each
    filter is rewritten only a few times.
    """
    assert plan.master is not None
    if len(plan.master.packs) <= _MOST_PACKS:
        return ()
    live: Counter[str] = Counter()
    touched = {*touched, *plan.written_anyway(plan.master.partitions)}
    for directory, files in plan.master.partitions.items():
        if directory not in touched:
            for part in files.parts:
                if part.filter is not None:
                    live[part.filter] += part.rows
    if len(live) <= _MOST_PACKS:
        return ()
    return tuple(sorted(sorted(live, key=lambda path: (-live[path], path))[_LARGE_PACKS:]))


def packed_units(plan: Plan, arrived: Mapping[str, int], tasks: int) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of the units that each task merges: the largest first, each to the least loaded task.

    tasks: the least number of tasks, if there are as many units.
    """
    weights = [_weight(plan, number, arrived) for number in range(len(plan.units))]
    count = min(len(weights), max(tasks, sum(weights) // plan.chunks.master))
    shares: list[list[int]] = [[] for _ in range(count)]
    filled = [0] * count
    for number in sorted(range(len(weights)), key=lambda number: -weights[number]):
        least = filled.index(min(filled))
        shares[least].append(number)
        filled[least] += weights[number]
    return tuple(tuple(sorted(share)) for share in shares)


def _weight(plan: Plan, number: int, arrived: Mapping[str, int]) -> int:
    unit = plan.units[number]
    size = sum((split.end or 0) - split.start for split in plan.local[number])
    return size + arrived.get(unit.partition or "", 0) // unit.groups + 1


def _buckets(files: Files, size: int, bucket_bytes: int) -> int:
    """Return the number of buckets of a partition: more than before only if it has outgrown them."""
    before = files.buckets
    count, most = before or 1, (2 if before else 1) * bucket_bytes
    while size > most * count and (before is None or count < _MOST_SPLITS * before):
        count *= 2
    return count
