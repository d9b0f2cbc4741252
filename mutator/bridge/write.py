"""Write rows as the files of a table: one file a task, or one for each partition of the task's rows."""

import posixpath
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from mutator.bridge.contract import Batches, Partition
from mutator.bridge.rows_by_partition import by_partition
from mutator.bridge.tasks import BridgeTarget, write_file
from mutator.dataset import manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import Manifest
from mutator.engine.each import Each, checked, guarded
from mutator.rules.partition_paths import directory_of
from mutator.storage import Storage, storage_for


def write_table(
    each: Each,
    target: BridgeTarget,
    ranges: Sequence[Any],
    read: Callable[[Any], Batches],
    partitions: Collection[Partition] | None = None,
) -> list[FileEntry]:
    """Write rows below the target's directory; return its files as the manifest has them.

    ranges, read: a task's input, and its reader. partitions: the only ones that are written; None for all.
    """
    wanted = None if partitions is None else frozenset(partitions)
    results = checked(each(ranges, partial(_write, target, read, wanted)))
    made = [file for part in results for file in part]
    if not made and not target.partition_fields:  # without a file nothing would say which fields the table has
        file = write_file(target, target.file_name(0, 0), (), empty=True)
        made = [] if file is None else [file]
    return made


def seal(storage: Storage, directory: str, made: Manifest) -> None:
    """Write the manifest and the _SUCCESS file of a directory."""
    storage.make_directory(posixpath.join(directory, manifest.DIRECTORY))
    with storage.create_new(posixpath.join(directory, manifest.PATH)) as stream:
        stream.write(manifest.dump(made))
    with storage.create_new(posixpath.join(directory, SUCCESS)):
        pass


def _write(
    target: BridgeTarget,
    read: Callable[[Any], Batches],
    wanted: frozenset[Partition] | None,
    file_range: Any,
    number: int,
    attempt: int,
) -> Any:
    name = target.file_name(number, attempt)
    return guarded(lambda: list(_written(target, wanted, read(file_range), name)))


def _written(
    target: BridgeTarget, wanted: frozenset[Partition] | None, batches: Batches, name: str
) -> Iterator[FileEntry]:
    fields = target.partition_fields
    if not fields:
        file = write_file(target, name, batches)
        yield from () if file is None else (file,)
        return
    # A task has the rows of one text file, so they fit in memory; an open file for each partition could be thousands.
    rows_of: dict[Partition, list[Any]] = {}
    for batch in batches:
        rows = batch.drop_columns(list(fields))
        for partition, numbers in by_partition(batch, fields):
            if wanted is None or partition in wanted:
                rows_of.setdefault(partition, []).append(rows.take(pa.array(numbers)))
    for partition, parts in rows_of.items():
        path = posixpath.join(directory_of(fields, partition), name)
        storage_for(target.directory).make_directory(posixpath.dirname(posixpath.join(target.directory, path)))
        file = write_file(target, path, parts)
        assert file is not None
        yield replace(file, partition=dict(zip(fields, partition, strict=True)))
