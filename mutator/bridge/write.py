"""Write rows as the files of a table: a file a task, or one for each partition that a task has rows of."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from mutator import manifest
from mutator.bridge.dataset import output_dialect
from mutator.bridge.each import Each
from mutator.bridge.export import part_name
from mutator.bridge.partitions import directory_of
from mutator.bridge.split import by_partition
from mutator.bridge.tasks import Receipt, checked, guarded, write_file
from mutator.formats.kinds import KINDS
from mutator.manifest import Manifest
from mutator.staging import SUCCESS
from mutator.storage import Storage, storage_for
from mutator.table import Batches, Partition

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
) -> list[Receipt]:
    """Write rows below a directory, and return what the manifest says of each file.

    schema: of the rows. partitions: the only ones that are written; None for all.
    """
    wanted = None if partitions is None else frozenset(partitions)
    write = partial(_write, directory, schema, kind, tuple(partition_fields), read, run, wanted)
    made = [receipt for part in checked(each(pieces, write)) for receipt in part]
    if not made and not partition_fields:  # without a file nothing would say which fields there are
        inner, dialect = output_dialect(schema, kind)
        receipt = write_file(directory, part_name(run, 0, 0, KINDS[kind].suffix), kind, inner, dialect, (), empty=True)
        made = [] if receipt is None else [receipt]
    return made


def seal(storage: Storage, directory: str, made: Manifest) -> None:
    """Write what says that a directory is whole."""
    storage.make_directory(posixpath.join(directory, manifest.DIRECTORY))
    with storage.create_new(posixpath.join(directory, manifest.PATH)) as stream:
        stream.write(manifest.dump(made))
    with storage.create_new(posixpath.join(directory, SUCCESS)):
        pass


def _write(
    directory: str,
    schema: Any,
    kind: str,
    fields: tuple[str, ...],
    read: Callable[[Any], Batches],
    run: str,
    wanted: frozenset[Partition] | None,
    piece: Any,
    number: int,
    attempt: int,
) -> Any:
    return guarded(lambda: list(_written(directory, schema, kind, fields, read(piece), run, wanted, number, attempt)))


def _written(
    directory: str,
    schema: Any,
    kind: str,
    fields: tuple[str, ...],
    batches: Batches,
    run: str,
    wanted: frozenset[Partition] | None,
    number: int,
    attempt: int,
) -> Iterator[Receipt]:
    name = part_name(run, number, attempt, KINDS[kind].suffix)
    inner, dialect = output_dialect(pa.schema([one for one in schema if one.name not in fields]), kind)
    if not fields:
        receipt = write_file(directory, name, kind, inner, dialect, batches)
        yield from () if receipt is None else (receipt,)
        return
    # A task has the rows of one text file, so that they can be held: one open file a partition could be thousands.
    held: dict[Partition, list[Any]] = {}
    for batch in batches:
        rows = batch.drop_columns(list(fields))
        for partition, numbers in by_partition(batch, fields):
            if wanted is None or partition in wanted:
                held.setdefault(partition, []).append(rows.take(pa.array(numbers)))
    for partition, parts in held.items():
        place = posixpath.join(directory_of(fields, partition), name)
        storage_for(directory).make_directory(posixpath.dirname(posixpath.join(directory, place)))
        receipt = write_file(directory, place, kind, inner, dialect, parts)
        assert receipt is not None
        yield receipt | {"partition": dict(zip(fields, partition, strict=True))}
