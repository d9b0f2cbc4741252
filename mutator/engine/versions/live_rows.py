"""Rows of the live files of a table at some positions, and the entries of their key indexes.

The key indexes that were used last. Their number and their memory are bounded, however many files a table has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.side_columns import side_statistics, taken_sides
from mutator.dataset.versions.key_index import KeyIndex, WantedHashes
from mutator.dataset.versions.merged_keys import MergedKeys, merged_keys, opened_index
from mutator.dataset.versions.packs import damaged
from mutator.dataset.versions.paged_file import DamagedPage
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.stored_rows import opened_file, stays_verified, taken_rows, verified_file
from mutator.errors import MutatorError
from mutator.formats.blocks.column_rows import ColumnBlock, ColumnLayout, trusted_block
from mutator.formats.content import NotReadable
from mutator.formats.files.arrow_files import faults
from mutator.formats.values.convert import converted
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.merged_fields import of_fields
from mutator.rules.order_columns import converted_orders, flags
from mutator.rules.register import no_sides
from mutator.rules.row_hash import RowHashes, row_hashes

_MOST = 1 << 14  # indexes: each may be a mapping, of which a process has at most 65,530 (vm.max_map_count)
_MEMORY = 1 << 28  # bytes


class KeptIndexes:
    """Key indexes by the paths of their files. One that is given up must be opened and verified again.

    Several threads may ask for them.
    """

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._kept: OrderedDict[str, tuple[KeyIndex, int]] = OrderedDict()  # with its memory at its last use
        self._memory = self._left = 0
        self._lock = RLock()

    def leave(self, memory: int) -> None:
        """Leave some of the memory to merged keys; indexes have the rest, or one of them does."""
        self._memory += memory - self._left
        self._left = memory

    def get(self, path: str) -> KeyIndex | None:
        """Return a key index; None if it is not kept."""
        with self._lock:
            if path not in self._kept:
                return None
            index, memory = self._kept.pop(path)
            self._memory -= memory
            self.keep(path, index)
            return index

    def keep(self, path: str, index: KeyIndex) -> None:
        """Keep a key index, and give up those that were not used for longest."""
        with self._lock:
            _, before = self._kept.pop(path, (None, 0))
            self._kept[path] = index, index.memory
            self._memory += index.memory - before
            while len(self._kept) > 1 and (len(self._kept) > _MOST or self._memory > _MEMORY):
                _, (_, memory) = self._kept.popitem(last=False)
                self._memory -= memory


_MANY = 64  # times the rows that are read of a file are all of its rows at least, if they are many


class LiveRows:
    """The live files of a snapshot, read where they are needed."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read nothing yet."""
        self.snapshot = snapshot
        self._indexes = KeptIndexes()
        self._verified_files: set[str] = set()
        self.forms = EarlierForms(snapshot.state, snapshot.table)

    def at(self, snapshot: Snapshot) -> LiveRows:
        """Return the live files of another snapshot of the table. The key indexes that were read serve both."""
        found = LiveRows(snapshot)
        found._indexes = self._indexes
        return found

    def find(self, extent: LiveExtent, hashes: Hashes, keys: Any) -> tuple[Ints, Ints, Ints]:
        """Return (numbers of the wanted keys, entries, positions) of the live rows of an extent with wanted keys.

        hashes, keys: as ``KeyIndex.find`` takes them. Raises StateError for a damaged index.
        """
        file = extent.file
        with self._verified(file):
            index = self.index(file)
            numbers, entries = index.find(hashes, keys, extent.start, extent.end)
        return self._live(file, numbers, entries)

    def find_hashes(self, extent: LiveExtent, wanted: WantedHashes) -> tuple[Ints, Ints]:
        """Return (numbers of wanted hashes, entries) of all rows of an extent with a wanted hash, hidden ones too."""
        if not len(wanted):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        with self._verified(extent.file):
            return self.index(extent.file).find_hashes(wanted, extent.start, extent.end)

    def hashes(self, file: FileEntry, start: int = 0, end: int | None = None) -> Hashes:
        """Return the key hashes of the entries of a file from ``start`` to ``end``, by default of all."""
        with self._verified(file):
            return self.index(file).hashes(start, end)

    def positions(self, file: FileEntry, entries: Ints) -> Ints:
        """Return the positions of the rows of some entries of a file."""
        with self._verified(file):
            return self.index(file).positions(entries)

    def with_keys(self, file: FileEntry, numbers: Ints, entries: Ints, keys: Any) -> tuple[Ints, Ints, Ints]:
        """Return (numbers, entries, positions) of those live rows that have the wanted keys.

        numbers, entries: pairs of a wanted key and an entry with the same hash. keys: encoded, one for each pair.
        """
        if len(numbers):
            same = flags(pc.equal(self.entry_keys(file, entries), keys))
            numbers, entries = numbers[same], entries[same]
        return self._live(file, numbers, entries)

    def _live(self, file: FileEntry, numbers: Ints, entries: Ints) -> tuple[Ints, Ints, Ints]:
        if not len(numbers):
            return numbers, entries, entries
        positions = self.positions(file, entries)
        live = self.are_live(file, positions)
        return numbers[live], entries[live], positions[live]

    def merged_keys(self, order_type: str, by_partition: bool) -> MergedKeys:
        """Return the merged keys of small files. by_partition: keys are unique only within a partition."""
        found = merged_keys(self.snapshot, order_type, by_partition)
        self._indexes.leave(found.nbytes)
        return found

    def are_live(self, file: FileEntry, positions: Ints) -> Any:
        """Return which rows of a file are not hidden."""
        live = np.ones(len(positions), np.bool_)
        for hidden in self.snapshot.masks.hidden_parts(file.path):
            at = np.minimum(np.searchsorted(hidden, positions), len(hidden) - 1)
            live &= hidden[at] != positions
        return live

    def entry_keys(self, file: FileEntry, entries: Ints) -> Any:
        """Return the encoded keys of some entries."""
        with self._verified(file):
            return self.index(file).keys(entries)

    def keys(self, file: FileEntry) -> Any:
        """Return the encoded keys of all rows of a file, in the order of the rows."""
        with self._verified(file):
            return self.index(file).keys(self.entry_numbers(file))

    def entry_numbers(self, file: FileEntry) -> Ints:
        """Return the number of the entry of each row of a file, in the order of the rows."""
        with self._verified(file):
            entries = np.arange(file.rows)
            found = np.empty(file.rows, np.int64)
            found[self.index(file).positions(entries)] = entries
            return found

    def row_hashes(self, file: FileEntry, entries: Ints) -> RowHashes:
        """Return the row hashes of some entries."""
        with self._verified(file):
            return self.index(file).row_hashes(entries)

    def orders(self, file: FileEntry, entries: Ints, order_type: str) -> Any:
        """Return the order values of the rows of some entries, as those of an order type."""
        with self._verified(file):
            index = self.index(file)
            return converted_orders(index.order_type, index.orders(entries), order_type)

    @contextmanager
    def _verified(self, file: FileEntry) -> Iterator[None]:
        try:
            yield
        except DamagedPage as fault:
            raise damaged(self.snapshot.table, file.keys, fault) from None
        except MutatorError as fault:
            if fault.kind != "storage.missing":
                raise
            raise damaged(self.snapshot.table, file.keys, "it is missing") from None  # an open one of a remote storage

    def index(self, file: FileEntry) -> KeyIndex:
        """Return the key index of a file. Raises DamagedPage, StateError."""
        stored = file.keys
        index = self._indexes.get(stored.path)
        if index is None:
            index = opened_index(self.snapshot.table, file)
            self._indexes.keep(stored.path, index)
        return index

    def rows(self, file: FileEntry, positions: Ints, entries: Ints, layout: ColumnLayout) -> ColumnBlock:
        """Return the rows of a file at some positions, which are ascending, with the types of a layout's result.

        entries: of these rows in the key index. Raises StateError if the rows are not those that the index describes.
        """
        names, start, parts = self.forms.schema(file.form).names, 0, []
        for part in taken_rows(self.snapshot.table, file, file.rows, positions, names):
            parts.append(self.checked(file, part, entries[start : start + part.num_rows]))
            start += part.num_rows
        return self._block(file, positions, parts, layout)

    def some_fields(self, file: FileEntry, positions: Ints, entries: Ints, layout: ColumnLayout) -> Any:
        """Return the fields of a layout of rows of a file at some positions, a pa.StructArray.

        positions, entries: as in ``rows``. Raises StateError for a damaged file: of many rows, the checksum of the file
        is verified instead of their row hashes, so that no other fields are read.
        """
        if len(positions) * _MANY >= file.rows and stays_verified(self.snapshot.table, file):
            return self.rows_of_whole(file, positions, layout).written()
        return self.rows(file, positions, entries, layout).written()

    def rows_of_whole(self, file: FileEntry, positions: Ints, layout: ColumnLayout) -> ColumnBlock:
        """Return rows as ``rows`` does. Before the first rows of a file, the checksum of the whole file is verified."""
        table = self.snapshot.table
        self.verify(file)
        names = self.forms.stored(file.form, layout.wanted)
        parts = taken_rows(table, file, file.rows, positions, names, is_verified=stays_verified(table, file))
        return self._block(file, positions, parts, layout)

    def sides(self, file: FileEntry, positions: Ints, wanted: Sequence[Any]) -> Any:
        """Return side columns of the rows of a file at some positions, a pa.StructArray; NULLs without a side file.

        positions: ascending. wanted: the fields; without any, nothing is read. A field of the rows that was removed,
        or removed and added again, has no order value of its own, and no entries.
        """
        if file.sides is None or not wanted:
            return no_sides(len(positions), wanted)
        table = self.snapshot.table
        self.verify(file.sides)
        try:
            with faults("Parquet"), opened_file(table, file.sides) as stream:
                found = taken_sides(stream, wanted, file.rows, positions)
        except NotReadable as fault:
            raise damaged(table, file.sides, fault) from None
        names = [name for name in self.forms.schema().names if self.forms.has(file.form, name)]
        columns = zip(wanted, found.flatten(), strict=True)
        return pa.StructArray.from_arrays([of_fields(*one, names) for one in columns], fields=list(wanted))

    def side_statistics(self, file: FileEntry, names: Sequence[str]) -> list[tuple[int, list[Any]]]:
        """Return the statistics of side columns of a file, as ``side_columns.side_statistics`` does."""
        if file.sides is None:
            return []
        self.verify(file.sides)  # so they can be read
        with opened_file(self.snapshot.table, file.sides) as stream:
            return side_statistics(stream, names)

    def verify(self, stored: FileEntry) -> None:
        """Compare a file with its checksum, if it was not compared before. Raises StateError."""
        if stored.path not in self._verified_files:
            verified_file(self.snapshot.table, stored).close()
            self._verified_files.add(stored.path)

    def checked(self, file: FileEntry, rows: Any, entries: Ints) -> Any:
        """Return rows with the types of their file. Raises StateError if an entry has another row hash.

        rows: pa.Table with all columns of the file. entries: of the key index, one per row.
        """
        own = self.forms.schema(file.form)
        columns = [converted(rows.column(one.name).combine_chunks(), one.type, True)[0] for one in own]
        found = row_hashes(pa.StructArray.from_arrays(columns, fields=list(own)))
        wrong = np.flatnonzero(found != self.row_hashes(file, entries))
        if len(wrong):
            with self._verified(file):
                position = int(self.index(file).positions(entries[wrong[:1]])[0])
            why = f"row {position + 1:,} is not the one that the key index describes"
            raise damaged(self.snapshot.table, file, why)
        return pa.table(columns, schema=own)

    def _block(self, file: FileEntry, positions: Ints, parts: Sequence[Any], layout: ColumnLayout) -> ColumnBlock:
        """Return rows of a file with the types of a layout's result. parts: pa.Tables with the columns of the file."""
        present = self.forms.schema()
        layout = replace(layout, schema=present)
        wanted = pa.schema([present.field(name) for name in layout.wanted])
        names = self.forms.stored(file.form, wanted.names)
        try:
            evolved = [self.forms.evolved(part.select(names), file.form, wanted) for part in parts]
            batches = pa.concat_tables(evolved).combine_chunks().to_batches() if evolved else []
        except NotReadable as fault:
            raise damaged(self.snapshot.table, file, fault) from None
        return trusted_block(batches, positions, layout)
