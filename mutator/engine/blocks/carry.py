"""Carry over the files of the master that no mutation concerns, without reading them except those due for a check.

Files of untouched partitions are linked into the output directory. Files that must be copied are written to the
directory that tasks work in, like everything they write: a task that dies leaves nothing that is published.
"""

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import BinaryIO

from pyarrow import ArrowException

from mutator.dataset.checksum import ChunkedChecksum, chunk_of, difference
from mutator.dataset.commit.staging import output_directory
from mutator.dataset.directory import check_files
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.filter_packs import KeyFilter, read_filters, read_wanted, write_filters
from mutator.dataset.side_columns import oldest_tombstone
from mutator.engine.blocks.block_merge import merge_tombstones
from mutator.engine.blocks.merge_task import UnitTask
from mutator.engine.receipts import Fault, MergeReceipt
from mutator.engine.split_content import Damage, damage
from mutator.engine.task_files import create
from mutator.errors import MutatorError
from mutator.errors.failpoints import failpoint
from mutator.plan.partition_plan import joined_packs, untouched
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input
from mutator.storage import Storage, blocks, progress, storage_for, walk
from mutator.storage.registry import same_storage

_AT_ONCE = 16  # files that a task copies
_COPIES = 8  # copies that it makes at once: on HDFS the copy of a small file is mostly waiting
_REQUESTS = 16  # links that an object store makes at once; each is a copy, and takes a few requests


def carry_over(task: UnitTask, staging: str | None, attempt: int) -> None:
    """Carry over all files of a task without mutations; only tombstones that expire are rewritten."""
    for index in dict.fromkeys(split.input for split in task.data):
        _carry(task, staging, attempt, index)
    if any(_expires(task, task.plan.inputs[split.input]) for split in task.buried):
        merge_tombstones(task.plan, None, task.tombstones(), task.output)
        task.close()
        return
    for index in dict.fromkeys(split.input for split in task.buried):
        _carry(task, staging, attempt, index)


def _expires(task: UnitTask, file: Input) -> bool:
    before = task.plan.expire_before
    if before is None:
        return False
    try:
        with storage_for(file.source.path).open(file.source.path) as stream:
            return oldest_tombstone(stream) < before
    except (ArrowException, OSError, AttributeError, LookupError, ValueError):
        return True  # its damage is found when it is read


def _carry(task: UnitTask, staging: str | None, attempt: int, index: int) -> None:
    file, counts = task.plan.inputs[index], task.tally.counts
    source, part = file.source, file.source.part
    assert part is not None
    task.carried.append(index)
    task.kept.append(part)
    is_buried = file.side == "tombstones"
    for name in ("tombstones in", "tombstones out") if is_buried else ("master kept", "output rows"):
        counts[name] += part.rows
    progress.count(0 if is_buried else part.bytes)
    if staging is None:
        return
    _carry_part(task, source.path, part, staging)
    if source.order_part is not None and source.order_path is not None:
        task.kept.append(source.order_part)
        _carry_part(task, source.order_path, source.order_part, staging)
    failpoint("task.carried", attempt)


def _carry_part(task: UnitTask, path: str, part: FileEntry, staging: str) -> None:
    if part.path in task.plan.checks:
        _check(path, part.checksum)
        task.checked.append(part.path)
    carry_file(path, f"{staging}/{part.path}", part.checksum)


def _check(path: str, checksum: str) -> None:
    """Raise Damage where a file of the master has another checksum."""
    try:
        why = difference(path, checksum)
    except MutatorError as fault:
        raise Damage(Fault(path, fault)) from None
    if why is not None:
        raise damage(path, why)


def carry_file(source: str, target: str, checksum: str) -> None:
    """Link or copy a file of the master into the output. Raises Damage where a copied file has another checksum."""
    storage = storage_for(target)
    try:
        if same_storage(source, target) and storage.link_new(source, target):
            return
    except FileExistsError:
        return  # an earlier attempt of this task did it
    state = ChunkedChecksum(chunk_of(checksum) or 1 << 62)
    try:
        with storage_for(source).open(source) as stream, storage.create_new(target) as copy:
            for block in blocks(stream):
                state.update(block)
                copy.write(block)
            if state.text() != checksum:
                why = f"its checksum is {state.text()} and should be {checksum}"
                raise damage(source, why)
    except MutatorError:
        if storage.stat(target) is None:  # else another attempt of this task has made a whole copy
            raise


def check_master(plan: Plan) -> None:
    """Raise StateError where the directory of a partitioned master differs from its manifest; lost files may differ."""
    if plan.master is not None:
        path = plan.master.path
        check_files(storage_for(path), path, plan.master.parts, walk(path), plan.lost)


def make_directories(plan: Plan, staging: str) -> None:
    """Create the directories of the partitions that are written; tasks create none, so a late task finds none."""
    kinds = ["", "_mutator/tombstones/", *(["_mutator/order/"] if plan.has_sides else [])]
    directories = sorted({unit.partition for unit in plan.units if unit.partition})
    storage = storage_for(staging)
    storage.make_directories([f"{staging}/{kind}{directory}" for directory in directories for kind in kinds])
    failpoint("merge.directories")


def carry_partitions(plan: Plan, staging: str | None, touched: Collection[str]) -> list[Sequence[tuple[str, str, str]]]:
    """Link the files of untouched partitions into the output directory.

    Returns (source, target, checksum) of those that must be copied, because the storage has no links, a few at a time;
    the directories of the targets are there.
    """
    if staging is None or plan.master is None:
        return []
    place, storage = output_directory(staging), storage_for(staging)
    parts = [part for _, part in untouched(plan, touched)]
    storage.make_directories(sorted({posixpath.dirname(f"{place}/{part.path}") for part in parts}))
    progress.count(sum(part.bytes for part in parts if part.is_data))
    master = plan.master.path
    pairs = [(f"{master}/{part.path}", f"{place}/{part.path}") for part in parts]
    linked = _linked(storage, pairs) if same_storage(master, place) else [False] * len(pairs)
    left = [
        (f"{master}/{part.path}", f"{staging}/{part.path}", part.checksum)
        for part, is_linked in zip(parts, linked, strict=True)
        if not is_linked
    ]
    storage.make_directories(sorted({posixpath.dirname(target) for _, target, _ in left}))
    failpoint("carry.done")
    return [left[start : start + _AT_ONCE] for start in range(0, len(left), _AT_ONCE)]


def _linked(storage: Storage, pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Link files, given as (source, target); return whether each target exists now."""
    link = partial(_link, storage)
    if storage.renames:
        return list(map(link, pairs))
    with ThreadPoolExecutor(_REQUESTS) as threads:
        return list(threads.map(link, pairs))


def _link(storage: Storage, pair: tuple[str, str]) -> bool:
    is_linked = True
    with suppress(FileExistsError):
        is_linked = storage.link_new(*pair)
    failpoint("carry.linked")
    return is_linked


def due_checks(plan: Plan, touched: Collection[str]) -> list[tuple[str, str, str]]:
    """Return (full path, path, checksum) of the files of untouched partitions that this run checks."""
    if plan.master is None or not plan.checks:
        return []
    parts = (part for _, part in untouched(plan, touched) if part.path in plan.checks)
    return [(f"{plan.master.path}/{part.path}", part.path, part.checksum) for part in parts]


def check_carried(parts: Sequence[tuple[str, str, str]]) -> MergeReceipt:
    """Check files as ``due_checks`` returns them; return a receipt that names them, or the first that is damaged."""
    try:
        for path, _, checksum in parts:
            _check(path, checksum)
    except Damage as fault:
        return MergeReceipt(damage=(fault.fault,))
    return MergeReceipt(checked=tuple(path for _, path, _ in parts))


def copied(parts: Sequence[tuple[str, str, str]], number: int, attempt: int) -> None:
    """Copy files that are carried over, several at once. Raises the error of a damaged one."""
    with ThreadPoolExecutor(_COPIES) as threads:
        for _ in threads.map(partial(_copy, attempt), parts):
            pass


def _copy(attempt: int, part: tuple[str, str, str]) -> None:
    try:
        carry_file(*part)
    except Damage as fault:
        raise fault.fault.error from None
    failpoint("carry.copied", attempt)


def join_packs(plan: Plan, staging: str | None, touched: Collection[str]) -> FileEntry | None:
    """Write one pack with the filters of several; return its entry in the manifest, None if no packs are joined.

    Raises StateError where one is damaged.
    """
    if staging is None or plan.master is None:
        return None
    packs = joined_packs(plan, touched)
    if not packs:
        return None
    live = {part.path: part.filter for _, part in untouched(plan, touched) if part.filter in packs}
    filters = (found for pack in packs for found in filters_of(plan.master.path, pack, live))
    try:
        with create(plan, staging, f"_mutator/filters/joined-{plan.run}.filters") as sink:
            count = write_filters(sink, filters)  # type: ignore[arg-type]  # as much of a stream as it needs
    except Damage as fault:
        raise fault.fault.error from None
    failpoint("merge.packs.joined")
    return sink.entry(count, "filters")


def filters_of(master: str, pack: str, packs: Mapping[str, str | None]) -> Iterator[KeyFilter]:
    """Yield the filters in a pack of files that still exist. packs: path of a file -> its pack. Raises Damage."""
    return (one for _, one in _of_existing(master, pack, packs, _with_paths) if one is not None)


def wanted_filters_of(
    master: str, pack: str, packs: Mapping[str, str | None], wanted: Callable[[bytes, bytes | None], bool]
) -> Iterator[KeyFilter | None]:
    """Yield the same filters, or None for each whose range of keys is not wanted, as ``read_wanted`` does."""
    return (one for _, one in _of_existing(master, pack, packs, partial(read_wanted, wanted=wanted)))


def _with_paths(stream: BinaryIO) -> Iterator[tuple[str, KeyFilter | None]]:
    return ((one.path, one) for one in read_filters(stream))


def _of_existing(
    master: str,
    pack: str,
    packs: Mapping[str, str | None],
    read: Callable[[BinaryIO], Iterable[tuple[str, KeyFilter | None]]],
) -> Iterator[tuple[str, KeyFilter | None]]:
    path = f"{master}/{pack}"
    missing = {name for name, own in packs.items() if own == pack}
    try:
        with storage_for(path).open(path) as stream:
            for name, one in read(stream):
                if name in missing:  # else of a file that was removed
                    missing.remove(name)
                    yield name, one
    except (ArrowException, OSError, ValueError, LookupError) as fault:
        raise damage(path, f"a pack of filters: {fault}") from None
    if missing:  # Parquet's checksums cover only its pages: a flipped bit elsewhere can hide a filter
        raise damage(path, f"it has no filter of {min(missing)}")
