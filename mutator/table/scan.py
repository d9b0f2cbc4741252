"""The rows of a version of a table, as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from mutator.dataset.file_entry import DATA, FileEntry
from mutator.dataset.partition_index import stored_fields
from mutator.dataset.versions.packs import damaged
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.read_ahead import MOST, read_ahead
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.stored_rows import VerifiedFile
from mutator.errors import error
from mutator.formats.content import NotReadable
from mutator.formats.files.arrow_files import batch_rows, faults
from mutator.formats.values.row_filter import Filter, field_of
from mutator.rules.byte_columns import Ints
from mutator.rules.conditions import Where, conditions_of
from mutator.storage import storage_for
from mutator.table.find import Finder
from mutator.table.outlived import reading

_IN_MEMORY = 64 << 20  # encoded bytes of row groups that are in memory at once
_GROUPS = 64  # row groups that are read at once, at most


def schema_of(snapshot: Snapshot, columns: Sequence[str] | None = None) -> Any:
    """Return the pa.Schema of the rows of a version, or of some columns; without fields before the first rows.

    Raises ConfigError for unknown columns, and for those that are named twice.
    """
    schema = EarlierForms(snapshot.state, snapshot.table).schema()
    if columns is None:
        return schema
    check_twice(snapshot, columns)
    _refuse_partitions(snapshot, schema, columns)
    return pa.schema([field_of(schema, name, snapshot.table) for name in columns])


def check_twice(snapshot: Snapshot, columns: Sequence[str]) -> None:
    """Raise ConfigError for a column that is named twice."""
    twice = next((name for number, name in enumerate(columns) if name in columns[:number]), None)
    if twice is not None:
        raise error("table.columns.twice", path=snapshot.table, column=twice)


def scan_of(
    snapshot: Snapshot, columns: Sequence[str] | None = None, where: Where = None, *, threads: bool = False
) -> Scan:
    """Return the scan of a version.

    columns: the wanted ones, by default all. where: a filter, as text such as ``price > 5 and note is null``, or a
    (column, operator, literal) for each condition. Raises ConfigError for unknown columns, and for wrong literals;
    while it is read, StateError for lost and damaged files. threads: whether to read ahead, as the only reader on this
    machine.
    """
    schema = schema_of(snapshot)
    wanted = schema_of(snapshot, columns)
    conditions = conditions_of(where)
    _refuse_partitions(snapshot, schema, [one.column for one in conditions])
    chosen = Filter(conditions, schema, snapshot.table)
    names = [*wanted.names, *(name for name in chosen.columns if name not in wanted.names)]
    return Scan(snapshot, wanted, pa.schema([schema.field(name) for name in names]), chosen, threads)


def _refuse_partitions(snapshot: Snapshot, schema: Any, names: Iterable[str]) -> None:
    """Raise ConfigError if a name is that of a partition field and no column. schema: pa.Schema of the table's rows."""
    sources = {field.name: field.source for field in stored_fields(snapshot.state.spec)}
    for name in names:
        if name in sources and name not in schema.names:
            raise error("table.columns.partition", path=snapshot.table, name=repr(name), source=sources[name])


def scan_batches(snapshot: Snapshot, columns: Sequence[str] | None = None, where: Where = None) -> Iterator[Any]:
    """Return an iterator over the live rows of a version, as pa.RecordBatches; arguments as for ``scan_of``."""
    return scan_of(snapshot, columns, where, threads=True).batches()


def batches_of_files(snapshot: Snapshot, files: Iterable[FileEntry]) -> Iterator[Any]:
    """Yield the live rows of some files, as pa.RecordBatches with all columns."""
    scan = scan_of(snapshot)
    with reading(snapshot):
        for file in files:
            yield from scan.of_file(file)


def limited(batches: Iterator[Any], limit: int | None) -> Iterator[Any]:
    """Yield pa.RecordBatches up to a number of rows; None for all."""
    while limit is None or limit > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch if limit is None else batch.slice(0, limit)
        limit = None if limit is None else limit - batch.num_rows


class Scan:
    """A scan: the columns that are wanted, those that are read, and the filter."""

    def __init__(self, snapshot: Snapshot, wanted: Any, read: Any, chosen: Filter, threads: bool) -> None:
        """Read nothing yet. wanted, read: pa.Schema. threads: whether to read ahead."""
        self._snapshot, self._wanted, self._read, self._filter = snapshot, wanted, read, chosen
        self._at_once = 1  # row groups
        # A file of a remote storage is in memory as a whole, so they are read one at a time, columns at the same time.
        self._is_ahead = threads and storage_for(snapshot.table).holds
        self._threads = threads
        self._most = _IN_MEMORY // (MOST + 1) if self._is_ahead else _IN_MEMORY  # bytes
        self._forms = EarlierForms(snapshot.state, snapshot.table)

    def batches(self) -> Iterator[Any]:
        """Yield the rows, file by file."""
        with reading(self._snapshot):
            steps = (step for file, ranges in self.files() for step in self._steps(file, ranges))
            for found in read_ahead(steps) if self._is_ahead else (step() for step in steps):
                yield from found

    def files(self) -> Iterator[tuple[FileEntry, Ints | None]]:
        """Yield the files that may have wanted rows, and the first and last positions of these; None for all rows."""
        snapshot = self._snapshot
        fields = stored_fields(snapshot.state.spec)
        partitions = self._filter.partitions(fields, snapshot.partitions) if fields else None
        finder = Finder(snapshot)
        key = self._filter.key(finder.names)
        if key is not None:
            with_key = finder.positions(key, None if partitions is None else frozenset(partitions))
            yield from ((file, np.array([(one, one + 1) for one in rows])) for file, rows in with_key.values())
            return
        if partitions is None:
            yield from ((file, None) for file in snapshot.of_role(DATA))
            return
        found: dict[str, tuple[FileEntry, list[tuple[int, int]]]] = {}
        for one in snapshot.extents(DATA, partitions=partitions):
            found.setdefault(one.file.path, (one.file, []))[1].append((one.start, one.end))
        yield from ((file, np.array(ranges)) for file, ranges in found.values())

    def of_file(
        self, file: FileEntry, ranges: Ints | None = None, begins: tuple[int, int] | None = None
    ) -> Iterator[Any]:
        """Yield the wanted rows of a file that are not hidden.

        ranges: first and last positions of the row groups to read; begins: where they begin; None for all.
        """
        for step in self._steps(file, ranges, begins):
            yield from step()

    def _steps(
        self, file: FileEntry, ranges: Ints | None = None, begins: tuple[int, int] | None = None
    ) -> Iterator[Callable[[], Iterable[Any]]]:
        """Yield functions that return wanted rows of a file; arguments as for ``of_file``."""
        hidden = self._snapshot.masks.hidden(file.path)
        if len(hidden) == file.rows:
            return
        with self._damage_of(file):
            found = VerifiedFile(self._snapshot.table, file)
            if found.metadata.num_rows != file.rows:
                raise NotReadable(f"it has {found.metadata.num_rows:,} rows and should have {file.rows:,}")
            groups = [*self._wanted_groups(found, file, ranges, begins)]
        for numbers, start in self._together(found.metadata, groups):
            yield partial(self._of_groups, found, file, numbers, start, hidden)

    @contextmanager
    def _damage_of(self, file: FileEntry) -> Iterator[None]:
        """Raise StateError for what cannot be read of a file."""
        try:
            with faults("Parquet"):
                yield
        except NotReadable as fault:
            raise damaged(self._snapshot.table, file, fault) from None

    def _together(self, metadata: Any, groups: Iterable[tuple[int, int]]) -> Iterator[tuple[list[int], int]]:
        """Yield the numbers of successive row groups that are read at once, and their first position.

        groups: (number, first position) of each. The first one of a scan is alone, because a few rows may be enough;
        then each time up to twice as many are read at once. One that is large is alone.
        """
        numbers, start, size = list[int](), 0, 0
        for number, first in groups:
            own = metadata.row_group(number).total_byte_size
            is_next = numbers and number == numbers[-1] + 1 and len(numbers) < self._at_once
            if numbers and not (is_next and size + own <= self._most):
                yield numbers, start
                numbers, self._at_once = [], min(2 * self._at_once, _GROUPS)
            if not numbers:
                start, size = first, 0
            numbers, size = [*numbers, number], size + own
        if numbers:
            yield numbers, start
            self._at_once = min(2 * self._at_once, _GROUPS)

    def _wanted_groups(
        self, found: VerifiedFile, file: FileEntry, ranges: Ints | None, begins: tuple[int, int] | None
    ) -> Iterator[tuple[int, int]]:
        """Yield the number and the first position of each row group to read."""
        hidden, groups = self._snapshot.masks.hidden(file.path), self._groups(found, file)
        start = 0
        for number in range(found.metadata.num_row_groups):
            rows = found.metadata.row_group(number).num_rows
            first, last = np.searchsorted(hidden, [start, start + rows])
            is_here = begins is None or begins[0] <= start < begins[1]
            is_wanted = number in groups and (ranges is None or _overlaps(ranges, start, start + rows))
            if is_here and is_wanted and last - first < rows:
                yield number, start
            start += rows

    def _groups(self, found: VerifiedFile, file: FileEntry) -> set[int] | range:
        """Return the numbers of the row groups whose statistics do not rule out wanted rows."""
        expression, columns = self._filter.expression, self._filter.columns
        forms, own = self._forms, self._forms.schema(file.form)
        as_now = (
            forms.has(file.form, name) and own.field(name).type == self._read.field(name).type for name in columns
        )
        if expression is None or not all(as_now):
            return range(1 << 62)
        with found.source() as source:
            source = source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, mode="r")
            fragment = ds.ParquetFileFormat().make_fragment(source)
            return {group.id for group in fragment.subset(filter=expression).row_groups}

    def _of_groups(
        self, found: VerifiedFile, file: FileEntry, numbers: list[int], start: int, hidden: Ints
    ) -> Iterable[Any]:
        """Return the wanted rows of row groups as pa.RecordBatches: an iterator that reads later, for large ones."""
        groups = [found.metadata.row_group(number) for number in numbers]
        size, count = sum(group.total_byte_size for group in groups), sum(group.num_rows for group in groups)
        rows = None if size <= self._most else batch_rows(count, size)
        batches = self._batches(found, file, numbers, start, hidden, rows)
        return [*batches] if rows is None else batches

    def _batches(
        self, found: VerifiedFile, file: FileEntry, numbers: list[int], start: int, hidden: Ints, rows: int | None
    ) -> Iterator[Any]:
        """Yield wanted rows as pa.RecordBatches. rows: at once; None: all."""
        names = self._forms.stored(file.form, self._read.names)
        with self._damage_of(file), found.opened() as parquet:
            threads = self._threads and not (self._is_ahead and rows is None)
            for table in _tables(parquet, numbers, names, rows, threads=threads):
                end = start + table.num_rows
                first, last = np.searchsorted(hidden, [start, end])
                live = _without(table, hidden[first:last] - start)
                chosen = self._filter.of(self._forms.evolved(live, file.form, self._read))
                yield from chosen.select(self._wanted.names).to_batches()
                start = end


def _tables(parquet: Any, numbers: list[int], names: list[str], rows: int | None, *, threads: bool) -> Iterator[Any]:
    """Yield the rows of row groups. rows: at once; None: all, which is faster. threads: for their columns."""
    if rows is None:
        yield parquet.read_row_groups(numbers, columns=names, use_threads=threads).select(names)
        return
    for batch in parquet.iter_batches(rows, row_groups=numbers, columns=names, use_threads=threads):
        yield pa.Table.from_batches([batch]).select(names)


def _overlaps(ranges: Ints, start: int, end: int) -> bool:
    return bool(((ranges[:, 0] < end) & (ranges[:, 1] > start)).any())


def _without(table: Any, hidden: Ints) -> Any:
    """Return the rows of a table whose numbers are not hidden."""
    if not len(hidden):
        return table
    keep = np.ones(table.num_rows, np.bool_)
    keep[hidden] = False
    return table.filter(pa.array(keep))
