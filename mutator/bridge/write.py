"""Write rows as the files of a table: one file a task, or one for each partition of the task's rows."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.bridge.contract import Batches, Partition
from mutator.bridge.text_dataset import BridgeTarget, write_file
from mutator.dataset import manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import State
from mutator.engine.each import Each, checked, guarded
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.partition_paths import DEFAULT, directory_of
from mutator.rules.partition_transforms import number_combinations
from mutator.storage import Storage, storage_for

_NULL = pa.array([b"", DEFAULT.encode()], pa.large_binary())


def by_partition(batch: Any, fields: Sequence[str]) -> Iterator[tuple[Partition, Any]]:
    """Yield (partition, int64 array of its row numbers) for the rows of a pa.RecordBatch.

    As in Hive, the empty text is NULL, and so is the directory name of NULL.
    """
    yield from split_by_partition([exact_text(batch.column(name)) for name in fields])


def split_by_partition(columns: Sequence[Any]) -> Iterator[tuple[Partition, Any]]:
    """Yield the same for the partition fields' columns, each a pa.Array of large_binary."""
    numbered, values = [], []
    for column in columns:
        column = pc.if_else(pc.is_in(column, _NULL), pa.scalar(None, pa.large_binary()), column)
        encoded = column.dictionary_encode("encode")
        numbered.append(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))
        values.append(
            [
                None if value is None else value.decode("utf-8", "surrogateescape")
                for value in encoded.dictionary.to_pylist()
            ]
        )
    codes, partitions = number_combinations(numbered)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(partitions) + 1))
    for number, one in enumerate(partitions):
        partition = tuple(known[code] for known, code in zip(values, one, strict=True))
        yield partition, order[starts[number] : starts[number + 1]]


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


def seal(storage: Storage, directory: str, made: State) -> None:
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
        directory = posixpath.dirname(posixpath.join(target.directory, path))
        storage_for(target.directory).make_directory(directory, within=target.directory)
        file = write_file(target, path, parts)
        assert file is not None
        yield replace(file, partition=dict(zip(fields, partition, strict=True)))
