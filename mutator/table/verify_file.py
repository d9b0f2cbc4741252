"""Compare a file of a table with its checksum, its extents and its key index."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import DATA, OF_HISTORY, TOMBSTONES, FileEntry
from mutator.dataset.side_columns import taken_sides, tombstone_tables
from mutator.dataset.versions.key_index import KeyIndex, encoded_keys, index_bytes
from mutator.dataset.versions.packs import RESTORE, inline_of
from mutator.dataset.versions.paged_file import DamagedPage
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.blocks.tombstone_columns import waits
from mutator.engine.versions.delta_files import order_bytes
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.events import BESIDE
from mutator.engine.versions.stored_rows import verified_file
from mutator.errors import MutatorError
from mutator.errors.display import command, counted
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.column_rows import ColumnLayout, trusted_block
from mutator.formats.content import NotReadable
from mutator.formats.files.arrow_files import faults
from mutator.formats.files.parquet import opened
from mutator.pipeline.verify import Difference
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.field_orders import FIELD_ORDERS, column_of_orders, wrong_orders
from mutator.rules.key_hash import Hashes, hash_columns
from mutator.rules.merged_fields import ENTRIES, wrong_entries
from mutator.rules.order_columns import converted_orders, flags, from_texts
from mutator.rules.row_hash import RowHashes, row_hashes
from mutator.storage import progress, storage_for

HiddenRows = tuple[Ints, Any]  # positions, and encoded keys; None: not known


@dataclass(frozen=True)
class VerifiedRows:
    """What a key index says of the rows of a file, in the order of the rows."""

    hashes: Hashes
    keys: Any  # encoded
    numbers: RowHashes  # row hashes; zeros for tombstones
    orders: Any  # order values; None where they come from file names, so that only the key index has them
    partitions: Any = None  # object array, the directory of each row; None without partitions, and for tombstones
    waits: Flags | None = None  # which tombstones patches wait beside; None for rows of records


@dataclass(frozen=True)
class Checked:
    """The result for a file."""

    differences: tuple[Difference, ...]
    has_index: bool  # its key index has the keys of its rows, as far as they can be compared
    rows: VerifiedRows | None = (
        None  # the right entries of the key index, where it cannot be used and the rows can be read
    )
    waiting: int = 0  # tombstones that no version hides, and patches wait beside; 0 if they cannot be read
    rebuilt: bytes | None = None  # a damaged key index, made again from the rows


def check_file(plan: Reading, snapshot: Snapshot, file: FileEntry, hidden: Sequence[HiddenRows]) -> Checked:
    """Compare a file with what the log says of it, and with its key index.

    snapshot: any version after it was added. hidden: rows of the file that versions hide.
    """
    found, rows, index = list[Difference](), None, None
    progress.count(rows=file.rows)
    try:
        rows = _rows(plan, snapshot, file)
        if len(rows.hashes) != file.rows:
            what = f"has {counted(len(rows.hashes), 'row')} and should have {file.rows:,}"
            found.append(Difference(what, file.path, RESTORE))
            rows = None
    except (MutatorError, NotReadable) as fault:
        found.append(Difference(_why(fault), file.path, RESTORE))
    if file.sides is not None:
        found += _side_file(plan, snapshot, file, file.sides, None if rows is None else rows.orders)
    rebuilt, why, wrong = None, None, list[Difference]()
    try:
        index = _index(snapshot, file)
        wrong = [] if rows is None else _compared(plan, file, rows, index)
        found += wrong
    except (MutatorError, DamagedPage) as fault:
        index, why = None, _why(fault)
    if why is not None:
        if rows is not None and rows.orders is not None and not plan.keeps_orders:
            with suppress(ValueError):
                rebuilt = _rebuilt(plan, file, rows)
        again = command("table", "verify", "--repair", snapshot.table)
        cure = RESTORE if rebuilt is None else f"make it again: {again}"
        found.append(Difference(why, file.keys.path, cure))
    if rows is None and index is None:
        return Checked((*found, *_masks(file, hidden, None)), has_index=False)
    has_index, rows = index is not None and not wrong, rows or _of_index(file, index)
    found += [*_extents(plan, file, rows), *_masks(file, hidden, rows.keys)]
    waiting = np.flatnonzero(() if rows.waits is None else rows.waits)
    for positions, _ in hidden:
        waiting = np.setdiff1d(waiting, positions)
    return Checked(tuple(found), has_index, None if has_index else rows, len(waiting), rebuilt)


def _side_file(plan: Reading, snapshot: Snapshot, file: FileEntry, sides: FileEntry, orders: Any) -> list[Difference]:
    """Compare the side file of a file with its checksum and with the rows. orders: of the rows; None: not known."""
    own = column_of_orders(plan.rows.order_type)  # the plan of the newest version may have another order
    wanted = tuple(own if one.name == FIELD_ORDERS else one for one in plan.side_columns)
    if file.role in OF_HISTORY:
        wanted = BESIDE
    try:
        with faults("Parquet"), verified_file(snapshot.table, sides) as stream:
            found = taken_sides(stream, wanted, file.rows, np.arange(file.rows))
    except (MutatorError, NotReadable) as fault:
        return [Difference(_why(fault), sides.path, RESTORE)]
    names = EarlierForms(snapshot.state, snapshot.table).schema(file.form).names
    columns = zip(wanted, found.flatten(), strict=True) if wanted else ()
    whys = []
    for one, column in columns:
        if one.name == FIELD_ORDERS:
            whys.append(wrong_orders(column, names, orders))
        elif one.name.startswith(ENTRIES):
            whys.append(wrong_entries(column, orders))
    return [Difference(why, sides.path, RESTORE) for why in whys if why is not None]


def _masks(file: FileEntry, hidden: Sequence[HiddenRows], keys: Any) -> list[Difference]:
    """Compare the hidden rows of a file with its rows. keys: encoded, of all rows; None if they cannot be read."""
    if not hidden:
        return []
    positions = np.concatenate([part[0] for part in hidden])
    found = []
    if (positions >= file.rows).any():
        found.append("a version hides rows that it does not have")
    if len(np.unique(positions)) != len(positions):
        found.append("a row is hidden twice")
    elif not found and keys is not None:
        known = [part for part in hidden if part[1] is not None]  # a base has no keys of hidden rows
        stated = pa.concat_arrays([pa.array([], pa.large_binary()), *(part[1] for part in known)])
        positions = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in known)])
        if not pc.all(pc.equal(stated, keys.take(pa.array(positions)))).as_py() and len(stated):
            found.append("a version hides a row under another key")
    return [Difference(what, file.path) for what in found]


def _why(fault: Exception) -> str:
    return fault.why if isinstance(fault, MutatorError) else str(fault)


def _rows(plan: Reading, snapshot: Snapshot, file: FileEntry) -> VerifiedRows:
    """Read the rows of a file. Raises StateError, NotReadable."""
    with faults("Parquet"), verified_file(snapshot.table, file) as stream:
        parts = list(_tombstones(plan, stream) if file.role == TOMBSTONES else _data(plan, snapshot, file, stream))
    joined = [np.concatenate([getattr(part, name) for part in parts]) for name in ("hashes", "numbers")]
    orders = None if parts[0].orders is None else pa.concat_arrays([part.orders for part in parts])
    names = [part.partitions for part in parts if part.partitions is not None]
    keys = pa.concat_arrays([part.keys for part in parts])
    waiting = [part.waits for part in parts if part.waits is not None]
    either = [np.concatenate(found) if found else None for found in (names, waiting)]
    return VerifiedRows(joined[0], keys, joined[1], orders, *either)


def _data(plan: Reading, snapshot: Snapshot, file: FileEntry, stream: Any) -> Iterator[VerifiedRows]:
    layout, start, is_data = _layout(plan, snapshot, file), 0, file.role == DATA
    found = opened(stream)
    for number in range(found.metadata.num_row_groups):
        table = found.read_row_group(number, columns=list(layout.wanted), use_threads=False)
        batches = table.select(list(layout.wanted)).combine_chunks().to_batches()
        block = trusted_block(batches, start + np.arange(table.num_rows), layout)
        orders = block.orders() if is_data and not plan.keeps_orders else None  # a snapshot raises those of events
        names = _partitions(plan, block, layout) if is_data and plan.is_partitioned else None
        yield VerifiedRows(block.hashes(), encoded_keys(block.keys()), row_hashes(block.written()), orders, names)
        start += table.num_rows


def _partitions(plan: Reading, block: Any, layout: ColumnLayout) -> Any:
    """Return the directory of each row's partition, an object array; None for a row that has none."""
    written = replace(plan.rows.layouts["written"], result=layout.result)
    codes, names, _ = plan.block_type.partitions(block.written(), written)
    return np.array([*names, None], object)[codes]


def _layout(plan: Reading, snapshot: Snapshot, file: FileEntry) -> ColumnLayout:
    """Return how a file is read, with its own types."""
    layout: ColumnLayout = plan.rows.layouts["master"]
    own, names = EarlierForms(snapshot.state, snapshot.table).schema(file.form), layout.result.names
    ids = tuple(own.get_field_index(names[position]) for position in layout.id_fields)
    return replace(layout, schema=own, result=own, id_fields=ids)


def _tombstones(plan: Reading, stream: Any) -> Iterator[VerifiedRows]:
    for table in tombstone_tables(stream):
        keys = [table.column(f"key_{n}").combine_chunks().cast(pa.large_binary()) for n in range(plan.key_width)]
        hashes = hash_columns([ByteColumn.of_array(column) for column in keys])
        orders = from_texts(plan.rows.order_type, table.column("order").combine_chunks())
        yield VerifiedRows(hashes, encoded_keys(keys), np.zeros(len(hashes), np.uint32), orders, waits=waits(table))


def _index(snapshot: Snapshot, file: FileEntry) -> KeyIndex:
    """Open a key index, and verify all of its pages. Raises DamagedPage, StorageError."""
    stored = file.keys
    path = posixpath.join(snapshot.table, stored.path)
    if stored.is_apart:
        entry = storage_for(path).stat(path)
        if entry is None:
            raise DamagedPage("is missing")
        if entry.bytes != stored.bytes:
            raise DamagedPage(f"has {counted(entry.bytes, 'byte')} and should have {stored.bytes:,}")
    content = inline_of(snapshot.table, stored)
    index = KeyIndex.open(path, file.rows, stored.bytes, stored.checksum, content=content)
    index.verify()
    return index


def _of_index(file: FileEntry, index: Any) -> VerifiedRows:
    """Return what a key index says of the rows."""
    entries = np.arange(file.rows)
    order = np.argsort(index.positions(entries))
    return VerifiedRows(index.hashes()[order], index.keys(entries[order]), index.row_hashes(entries)[order], None)


def _compared(plan: Reading, file: FileEntry, rows: VerifiedRows, index: KeyIndex) -> list[Difference]:
    """Compare a key index with the rows."""
    entries = np.arange(file.rows)
    positions, hashes = index.positions(entries), index.hashes()
    extent = np.repeat(np.arange(len(file.extents)), [one.rows for one in file.extents])
    faulty = []
    if (np.sort(positions) != entries).any() or (extent[np.minimum(positions, file.rows - 1)] != extent).any():
        faulty.append("positions")
    else:
        if (rows.hashes[positions] != hashes).any():
            faulty.append("key hashes")
        if not flags(pc.equal(rows.keys.take(pa.array(positions)), index.keys(entries))).all():
            faulty.append("keys")
        if (rows.numbers[positions] != index.row_hashes(entries)).any():
            faulty.append("row hashes")
        if ((hashes[1:] < hashes[:-1]) & (extent[1:] == extent[:-1])).any():
            faulty.append("order of the key hashes")
    if not faulty:
        if rows.orders is None:
            return _highs(plan, file, index.orders(entries).take(pa.array(np.argsort(positions))))
        orders = converted_orders(plan.rows.order_type, rows.orders.take(pa.array(positions)), index.order_type)
        if not index.orders(entries).equals(orders):
            faulty.append("order values")
    return [Difference(f"its {what} are not those of the rows", file.keys.path) for what in faulty]


def _extents(plan: Reading, file: FileEntry, rows: VerifiedRows) -> list[Difference]:
    """Compare the buckets and the highest order values of extents with the rows."""
    counts = [one.rows for one in file.extents]
    bucket, buckets = (
        np.repeat(np.array(column, np.uint64), counts)
        for column in ([one.bucket for one in file.extents], [one.buckets for one in file.extents])
    )
    wrong = int((rows.hashes % buckets != bucket).sum())
    found = [Difference(f"has {counted(wrong, 'row')} of another bucket", file.path)] if wrong else []
    if rows.partitions is not None:
        own = np.repeat(np.array([one.partition for one in file.extents], object), [one.rows for one in file.extents])
        wrong = int((own != rows.partitions).sum())
        found += [Difference(f"has {counted(wrong, 'row')} of another partition", file.path)] if wrong else []
    return found + ([] if rows.orders is None else _highs(plan, file, rows.orders))


def _highs(plan: Reading, file: FileEntry, orders: Any) -> list[Difference]:
    """Compare the highest order value of each extent with those of its rows. orders: one per row."""
    texts = pa.array([order_bytes(one.high) for one in file.extents], pa.large_binary())
    start, found = 0, []
    for number, (extent, stated) in enumerate(
        zip(file.extents, from_texts(plan.rows.order_type, texts), strict=True), 1
    ):
        highest = pc.max(orders.slice(start, extent.rows))
        start += extent.rows
        if highest.as_py() != stated.as_py():
            found.append(Difference(f"the highest order value of extent {number} is not that of the log", file.path))
    return found


def _rebuilt(plan: Reading, file: FileEntry, rows: VerifiedRows) -> bytes | None:
    """Return the key index of a file, made again; None if it is not the one that the log names."""
    counts: Ints = np.array([one.rows for one in file.extents], np.int64)
    for order_type in dict.fromkeys((plan.rows.order_type, "long")):
        orders = converted_orders(plan.rows.order_type, rows.orders, order_type)
        content, digest = index_bytes(rows.hashes, rows.keys, rows.numbers, counts, order_type, orders)
        if digest == file.keys.checksum:
            return bytes(content)
    return None


def put_back(
    table: str, differences: Sequence[Difference], rebuilt: dict[str, bytes]
) -> tuple[list[Difference], list[str]]:
    """Write key indexes that were made again; return the differences that are left, and what was done."""
    for path, content in rebuilt.items():
        full = posixpath.join(table, path)
        storage_for(full).make_directory(posixpath.dirname(full))
        storage_for(full).replace(full, content)
        failpoint("repair.index.written")
    left = [one for one in differences if one.file not in rebuilt]
    return left, [f"{path}: made again from the rows" for path in rebuilt]
