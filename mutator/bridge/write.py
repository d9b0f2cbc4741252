"""Write rows as the files of a table: a file a task, or one for each partition that a task has rows of."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from mutator.bridge.contract import Batches, Partition
from mutator.bridge.exporting import part_name
from mutator.bridge.rows_by_partition import by_partition
from mutator.bridge.tasks import write_file
from mutator.bridge.text_dataset import output_dialect
from mutator.dataset import manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.manifest import DataFile, Manifest
from mutator.engine.each import Each, checked, guarded
from mutator.formats.files.contract import Dialect
from mutator.formats.files.registry import FILE_FORMATS
from mutator.rules.partition_paths import directory_of
from mutator.storage import Storage, storage_for

__all__ = ["seal", "write_table"]


def write_table(
    each: Each,
    directory: str,
    schema: Any,
    kind: str,
    partition_fields: Sequence[str],
    pieces: Sequence[Any],
    read: Callable[[Any], Batches],
    run: str,
    partitions: Collection[Partition] | None = None,
    *,
    codec: str | None = None,
) -> list[DataFile]:
    """Write rows below a directory, and return the files that were written.

    schema: of the rows. partitions: the only ones that are written; None for all.
    """
    wanted = None if partitions is None else frozenset(partitions)
    inner = pa.schema([one for one in schema if one.name not in partition_fields])
    target = _Target(directory, kind, *output_dialect(inner, kind, codec=codec), tuple(partition_fields), run, wanted)
    write = partial(_write, target, read)
    made = [file for files in checked(each(pieces, write)) for file in files]
    if not made and not partition_fields:  # without a file nothing would say which fields there are
        name = part_name(run, 0, 0, FILE_FORMATS[kind].suffix)
        file = write_file(directory, name, kind, target.schema, target.dialect, (), empty=True)
        made = [] if file is None else [file]
    return made


def seal(storage: Storage, directory: str, made: Manifest) -> None:
    """Write what says that a directory is whole."""
    storage.make_directory(posixpath.join(directory, manifest.DIRECTORY))
    with storage.create_new(posixpath.join(directory, manifest.PATH)) as stream:
        stream.write(manifest.dump(made))
    with storage.create_new(posixpath.join(directory, SUCCESS)):
        pass


@dataclass(frozen=True)
class _Target:
    """Where tasks write, and how."""

    directory: str
    kind: str
    schema: Any  # of the files
    dialect: Dialect
    fields: tuple[str, ...]  # of partitions
    run: str
    wanted: frozenset[Partition] | None


def _write(target: _Target, read: Callable[[Any], Batches], piece: Any, number: int, attempt: int) -> Any:
    return guarded(lambda: list(_written(target, read(piece), number, attempt)))


def _written(target: _Target, batches: Batches, number: int, attempt: int) -> Iterator[DataFile]:
    name = part_name(target.run, number, attempt, FILE_FORMATS[target.kind].suffix)
    directory, fields = target.directory, target.fields

    def write(path: str, rows: Iterable[Any]) -> DataFile | None:
        return write_file(directory, path, target.kind, target.schema, target.dialect, rows)

    if not fields:
        file = write(name, batches)
        yield from () if file is None else (file,)
        return
    # A task has the rows of one text file, so that they can be held: one open file a partition could be thousands.
    held: dict[Partition, list[Any]] = {}
    for batch in batches:
        rows = batch.drop_columns(list(fields))
        for partition, numbers in by_partition(batch, fields):
            if target.wanted is None or partition in target.wanted:
                held.setdefault(partition, []).append(rows.take(pa.array(numbers)))
    for partition, parts in held.items():
        place = posixpath.join(directory_of(fields, partition), name)
        storage_for(directory).make_directory(posixpath.dirname(posixpath.join(directory, place)))
        file = write(place, parts)
        assert file is not None
        yield replace(file, partition=dict(zip(fields, partition, strict=True)))
