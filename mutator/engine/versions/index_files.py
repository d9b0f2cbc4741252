"""Key indexes of files that a table takes over from a dataset as they are."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset import checksum
from mutator.dataset.file_entry import EVENTS, INDEX, Extent, FileEntry
from mutator.dataset.side_columns import tombstone_tables, verified_sides
from mutator.dataset.versions.key_index import encoded_keys
from mutator.dataset.versions.log import DIRECTORY
from mutator.engine.versions.delta_files import (
    ApplyTarget,
    created,
    nullable,
    text_of_order,
    write_key_index,
    write_rows,
    write_side_file,
)
from mutator.engine.versions.events import BESIDE
from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.column_rows import ColumnLayout, trusted_block
from mutator.formats.content import NotReadable
from mutator.formats.files.arrow_files import faults
from mutator.formats.files.parquet import opened
from mutator.formats.values.convert import converted
from mutator.formats.values.nested import nulls
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import ByteColumn
from mutator.rules.file_names import base_name
from mutator.rules.key_hash import Hashes, hash_columns
from mutator.rules.order_columns import from_texts, to_texts
from mutator.rules.row_hash import RowHashes, row_hashes
from mutator.storage import link_or_copy, storage_for


@dataclass(frozen=True)
class Taken:
    """A file of a dataset, and what the table will say of it."""

    source: str  # path of the dataset
    part: FileEntry
    directory: str  # in the table
    partition: str | None
    bucket: int
    form: int
    layout: ColumnLayout | None = None  # None: of tombstones
    order: FileEntry | None = None  # the side file of its rows


@dataclass(frozen=True)
class _Rows:
    """The columns of a key index, and the order values, of all rows of a file."""

    hashes: Hashes
    keys: Any
    numbers: RowHashes
    orders: Any


def take_over(plan: Reading, target: ApplyTarget, taken: Taken, attempt: int) -> FileEntry:
    """Link a file to a table, and write its key index. Raises StateError if it is not as its manifest says.

    The path in the table ends in the run, and the attempt if it is not the first, so that no other run or attempt has
    the same one.
    """
    path = path_in_table(taken, plan, attempt)
    table = str(target.table)
    source = posixpath.join(taken.source, taken.part.path)
    # The side file, if the register keeps more in it than sequences, which the key index has.
    beside = taken.order if plan.side_columns else None
    for part in (taken.part, *([] if beside is None else [beside])):
        own = posixpath.join(taken.source, part.path)
        if (why := checksum.difference(own, part.checksum)) is not None:
            raise error("manifest.damage", path=own, why=why)
    try:
        rows = _joined(list(_tombstones(plan, source) if taken.layout is None else _rows(plan, source, taken)))
        if len(rows.hashes) != taken.part.rows:
            raise NotReadable(f"it has {len(rows.hashes):,} rows and should have {taken.part.rows:,}")
    except NotReadable as fault:
        raise error("manifest.damage", path=source, why=fault) from None
    _link(source, table, path)
    failpoint("table.linked")
    sides = None
    if beside is not None:
        sides = FileEntry(path=target.sides_path(path), role=INDEX, bytes=beside.bytes, checksum=beside.checksum)
        _link(posixpath.join(taken.source, beside.path), table, sides.path)
    orders = plan.rows.order_type, rows.orders
    counts = np.array([taken.part.rows])
    index = write_key_index(plan, target, path, rows.hashes, rows.keys, rows.numbers, counts, *orders)
    high = to_texts(plan.rows.order_type, pa.array([pc.max(rows.orders)], rows.orders.type))[0].as_py()
    extent = Extent(
        partition=taken.partition,
        bucket=taken.bucket,
        buckets=target.buckets.of(taken.partition),
        rows=taken.part.rows,
        high=text_of_order(high),
    )
    part = taken.part
    return FileEntry(
        path=path,
        role=part.role,
        rows=part.rows,
        bytes=part.bytes,
        checksum=part.checksum,
        form=taken.form,
        extents=(extent,),
        index=index,
        sides=sides,
    )


def event_path(path: str) -> str:
    """Return the path of the event file of a data or tombstone file of a table."""
    return f"{DIRECTORY}/events/{posixpath.splitext(path.removeprefix(f'{DIRECTORY}/'))[0]}.events"


def events_taken_over(plan: Reading, target: ApplyTarget, taken: Taken, file: FileEntry) -> FileEntry:
    """Make the rows or tombstones that a table took over its first events, and return their file. file: of the table.

    The records are upserts: their file is linked once more, with its key index.
    """
    table, path = str(target.table), event_path(file.path)
    event = replace(file, path=path, role=EVENTS, sides=None)
    if taken.layout is not None:
        keys = target.index_path(path)
        for own, linked in ((file.path, path), (file.keys.path, keys)):
            _link(posixpath.join(table, own), table, linked)
        return replace(event, index=replace(file.keys, path=keys))
    source = posixpath.join(table, file.path)
    with faults("Parquet"), storage_for(table).open(source) as stream:
        rows = pa.concat_tables([_deletes(plan, one) for one in tombstone_tables(stream)]).combine_chunks()
    written = pa.StructArray.from_arrays([one.combine_chunks() for one in rows.columns], fields=list(rows.schema))
    with created(plan, table, path) as new:
        write_rows(new, written, rows.schema, plan.rows.output.dialect.codec)  # type: ignore[arg-type]
    beside = [pa.array(np.ones(file.rows, np.bool_)), pa.nulls(file.rows, pa.binary())]
    sides = write_side_file(plan, target, path, pa.StructArray.from_arrays(beside, fields=list(BESIDE)))
    known = _joined(list(_tombstones(plan, source)))
    columns = known.hashes, known.keys, row_hashes(written), np.array([file.rows])
    index = write_key_index(plan, target, path, *columns, plan.rows.order_type, known.orders)
    stored = new.entry(file.rows)
    return replace(event, bytes=stored.bytes, checksum=stored.checksum, sides=sides, index=index)


def _deletes(plan: Reading, tombstones: Any) -> Any:
    """Return tombstones as rows that have the ID alone."""
    schema, layout = nullable(plan.rows.output.schema), plan.rows.layouts["written"]
    columns = [nulls(tombstones.num_rows, one.type) for one in schema]
    for number, position in enumerate(layout.id_fields):
        values = tombstones.column(f"key_{number}").combine_chunks().cast(pa.large_binary())
        columns[position] = converted(values, schema.field(position).type, False)[0]
    return pa.table(columns, schema=schema)


def _link(source: str, table: str, path: str) -> None:
    storage, directory = storage_for(table), posixpath.dirname(f"{table}/{path}")
    storage.make_directory(directory, within=table)
    link_or_copy(source, posixpath.join(table, path))
    storage.sync(directory)


def path_in_table(taken: Taken, plan: Reading, attempt: int = 0) -> str:
    """Return the path of a file in the table that a run takes it over to."""
    stem, suffix = posixpath.splitext(base_name(taken.part.path))[0], ".tombstones" if taken.layout is None else ".rows"
    return posixpath.join(taken.directory, f"{stem}-{plan.run}{f'-{attempt}' if attempt else ''}{suffix}")


def _rows(plan: Reading, path: str, taken: Taken) -> Iterator[_Rows]:
    """Yield the rows of a data file, a row group at a time."""
    layout, start = taken.layout, 0
    assert layout is not None
    kept = _kept_orders(plan, taken)
    with faults("Parquet"), storage_for(path).open(path) as stream:
        file = opened(stream)
        for number in range(file.metadata.num_row_groups):
            table = file.read_row_group(number, columns=list(layout.wanted), use_threads=False)
            batches = table.select(list(layout.wanted)).combine_chunks().to_batches()
            positions = start + np.arange(table.num_rows)
            block = trusted_block(batches, positions, layout)
            orders = kept.slice(start, table.num_rows) if kept is not None else block.orders()
            yield _Rows(block.hashes(), encoded_keys(block.keys()), row_hashes(block.written()), orders)
            start += table.num_rows


def _kept_orders(plan: Reading, taken: Taken) -> Any:
    """Return the order value of each row, a pa.Array; None where rows have them."""
    if not plan.keeps_orders:
        return None
    assert isinstance(taken.part, FileEntry)
    if taken.order is None:
        raise NotReadable("its manifest names no file with the order values of its rows")
    path = posixpath.join(taken.source, taken.order.path)
    return plan.orders_in(verified_sides(path, taken.order.checksum, plan.side_fields))


def _tombstones(plan: Reading, path: str) -> Iterator[_Rows]:
    """Yield the tombstones of a file, a row group at a time."""
    with faults("Parquet"), storage_for(path).open(path) as stream:
        for table in tombstone_tables(stream):
            keys = [table.column(f"key_{n}").combine_chunks().cast(pa.large_binary()) for n in range(plan.key_width)]
            hashes = hash_columns([ByteColumn.of_array(column) for column in keys])
            orders = from_texts(plan.rows.order_type, table.column("order").combine_chunks())
            yield _Rows(hashes, encoded_keys(keys), np.zeros(len(hashes), np.uint32), orders)


def _joined(parts: list[_Rows]) -> _Rows:
    return _Rows(
        np.concatenate([part.hashes for part in parts]),
        pa.concat_arrays([part.keys for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        pa.concat_arrays([part.orders for part in parts]),
    )
