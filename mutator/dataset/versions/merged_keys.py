"""The key indexes of many small files as one: which live rows have a key is found by a few searches.

Each version adds files, so searching them one by one takes longer with every version. Here the entries of all files are
in *runs*, sorted by key hash. A version adds a run, and runs of about the same size become one, without the rows that
are hidden by then: so there are few runs, and an entry is copied few times.

Rows of files are numbered in the order of the files. A snapshot keeps its merged keys (``KeptKeys``), and those of the
next version share their runs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commits import Commit
from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.versions.checkpoint import files_of
from mutator.dataset.versions.hidden_rows import Hidden
from mutator.dataset.versions.key_index import KeyIndex, matches
from mutator.dataset.versions.masks import index_of
from mutator.dataset.versions.packs import damaged, inline_of
from mutator.dataset.versions.paged_file import DamagedPage
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.key_hash import Hashes, hash_columns
from mutator.rules.order_columns import compact, expanded, flags, from_texts, to_column
from mutator.rules.order_values import basic_type

_ARRAYS = {"hashes": "u8", "rows": "u4", "entries": "u4", "row_hashes": "u4", "partitions": "u4"}
MOST_ROWS = 1 << 16  # of a file that has merged keys
_AT_FIRST = 1 << 13  # the same, of files that are there when merged keys are begun: reading more takes too long
MEMORY = 3 << 26  # bytes of all merged keys of a snapshot
_RATIO = 8  # of the sizes of two successive runs, at least
_MOST_NUMBERED = (1 << 32) - 1  # rows
_FEW = 16  # small files of a partition that are searched one by one
_NONE = np.zeros(0, np.int64)


class PartitionCodes:
    """Numbers for the directories of partitions; 0 is that of a table without partitions."""

    def __init__(self) -> None:
        self.names: list[str | None] = [None]
        self._codes: dict[str | None, int] = {None: 0}
        self._salts: Hashes = np.zeros(0, np.uint64)

    def code(self, name: str | None) -> int:
        """Return the code of a directory."""
        if name not in self._codes:
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes[name]

    def known(self, name: str | None) -> int:
        """Return the code of a directory; -1 if it has none."""
        return self._codes.get(name, -1)

    def salts(self) -> Hashes:
        """Return a number for each code, which tells equal keys of different partitions apart."""
        if len(self._salts) < len(self.names):
            names = pa.array([(name or "").encode() for name in self.names], pa.large_binary())
            self._salts = hash_columns([ByteColumn.of_array(names)])
        return self._salts


@dataclass(frozen=True)
class KeyRun:
    """Entries of key indexes, by hash. The keys and order values are pa.Arrays, the other columns np.arrays."""

    hashes: Hashes  # with the partition, if keys are unique only within it
    rows: Any  # numbers of the rows, uint32
    entries: Any  # of the key index of the row's file, uint32
    row_hashes: Any
    partitions: Any  # codes, uint32
    orders: Any  # order values, as ``order_columns.compact`` returns them
    keys: Any  # encoded

    def taken(self, chosen: Ints) -> KeyRun:
        """Return some of the entries."""
        keys, orders = (column.take(pa.array(chosen)) for column in (self.keys, self.orders))
        return KeyRun(**{name: getattr(self, name)[chosen] for name in _ARRAYS}, keys=keys, orders=orders)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(getattr(self, one.name).nbytes for one in fields(self))

    def __len__(self) -> int:
        return len(self.hashes)


def no_rows(order_type: str) -> KeyRun:
    """Return a run without entries."""
    arrays = {name: np.zeros(0, form) for name, form in _ARRAYS.items()}
    return KeyRun(**arrays, keys=pa.array([], pa.large_binary()), orders=compact(order_type, to_column(order_type, [])))


def joined_runs(runs: Sequence[KeyRun]) -> KeyRun:
    """Return the entries of all runs, one run after the other."""
    arrays = {name: np.concatenate([getattr(run, name) for run in runs]) for name in _ARRAYS}
    keys, orders = (pa.concat_arrays([getattr(run, name) for run in runs]) for name in ("keys", "orders"))
    return KeyRun(**arrays, keys=keys, orders=orders)


def by_hash(run: KeyRun) -> KeyRun:
    """Return the same entries, by hash."""
    return run.taken(np.argsort(run.hashes, kind="stable"))


@dataclass(frozen=True)
class FoundRows:
    """Live rows of small files that have wanted keys. Each column has a value for each row."""

    numbers: Ints  # of the wanted keys
    files: Ints  # numbers of the files in the snapshot
    positions: Ints
    entries: Ints  # of the key index of the row's file
    row_hashes: Any
    partitions: Ints  # codes
    orders: Any  # order values, touches included


@dataclass(frozen=True)
class MergedKeys:
    """The keys of small files of a snapshot."""

    table: str
    order_type: str
    by_partition: bool  # keys are unique only within a partition
    codes: PartitionCodes
    inside: Flags  # of each file of the snapshot, whether it has merged keys
    begins: Ints  # of each file, the number of its first row
    count: int  # of rows
    runs: Mapping[str, tuple[KeyRun, ...]]  # by role
    hidden: Flags  # of each row
    touched: tuple[Ints, Any] = (_NONE, None)  # numbers of rows, ascending, and a pa.Array of their newest order values

    @property
    def nbytes(self) -> int:
        """Bytes of memory, without those of the last partitions' names."""
        return self.hidden.nbytes + sum(run.nbytes for runs in self.runs.values() for run in runs)

    def find(self, role: str, hashes: Hashes, keys: Any, names: Sequence[str | None], own: Ints | None) -> FoundRows:
        """Return the live rows of a role that have wanted keys.

        hashes, keys: of the wanted keys, encoded. own: where keys are unique within a partition, the number of each
        key's partition in ``names``.
        """
        codes = None
        if own is not None:
            codes = np.array([self.codes.known(name) for name in names], np.int64)[own]
            hashes = hashes ^ self.codes.salts()[codes]
        order = np.argsort(hashes, kind="stable")
        wanted, parts, numbers = hashes[order], list[KeyRun](), [_NONE]
        for run in self.runs[role]:
            which, at = matches(run.hashes, wanted)
            live = ~self.hidden[run.rows[at]]
            if live.any():
                numbers.append(order[which[live]])
                parts.append(run.taken(at[live]))
        number = np.concatenate(numbers)
        run = joined_runs(parts) if parts else no_rows(self.order_type)
        same = flags(pc.equal(run.keys, keys.take(pa.array(number)))) if len(number) else np.zeros(0, np.bool_)
        if codes is not None:
            same = same & (run.partitions == codes[number])
        return self._found(number[same], run.taken(np.flatnonzero(same)))

    def _found(self, numbers: Ints, run: KeyRun) -> FoundRows:
        rows = run.rows.astype(np.int64)
        files = np.searchsorted(self.begins, rows, "right") - 1
        return FoundRows(
            numbers=numbers,
            files=files,
            positions=rows - self.begins[files],
            entries=run.entries.astype(np.int64),
            row_hashes=run.row_hashes,
            partitions=run.partitions.astype(np.int64),
            orders=self._raised(run),
        )

    def after(self, versions: Sequence[Commit], hidden: Sequence[Hidden], paths: Any) -> MergedKeys:
        """Return the merged keys after the next versions. Raises StateError for damaged files.

        hidden: what the versions hide and touch, in their order. paths: of the files of a snapshot, with those of the
        versions.
        """
        files = [file for version in versions for file in version.files]
        return self.with_files(files)._with_indexes(hidden, paths)

    def with_files(self, files: Sequence[FileEntry | None]) -> MergedKeys:
        """Return merged keys with the next files of the snapshot. None: a file without merged keys.

        Raises StateError for a damaged key index.
        """
        begins = np.full(len(files), self.count, np.int64)
        runs: dict[str, list[KeyRun]] = {role: [] for role in self.runs}
        inside, end, memory = np.zeros(len(files), np.bool_), self.count, self.nbytes
        for number, file in enumerate(files):
            begins[number] = end
            if (
                file is None
                or file.role not in runs
                or file.rows > MOST_ROWS
                or memory >= MEMORY
                or end + file.rows > _MOST_NUMBERED
            ):
                continue
            run = self._run_of(file, end)
            if run is not None:
                runs[file.role].append(run)
                inside[number] = True
                end += file.rows
                memory += run.nbytes
        found = replace(
            self,
            inside=np.append(self.inside, inside),
            begins=np.append(self.begins, begins),
            count=end,
            hidden=np.append(self.hidden, np.zeros(end - self.count, np.bool_)),
        )
        grown = {role: (*self.runs[role], *([by_hash(joined_runs(new))] if new else [])) for role, new in runs.items()}
        return replace(found, runs={role: found._merged(some) for role, some in grown.items()})

    def with_hidden(self, rows: Ints) -> MergedKeys:
        """Return merged keys with more hidden rows. rows: their numbers."""
        if not len(rows):
            return self
        hidden = self.hidden.copy()
        hidden[rows] = True
        return replace(self, hidden=hidden)

    def _with_indexes(self, indexes: Sequence[Hidden], paths: Any) -> MergedKeys:
        """Return merged keys after what a version hides and touches. paths: of the files of the snapshot."""
        found, gone = self, [_NONE]
        for index in indexes:
            places = index.places()
            numbers = pc.index_in(pa.array(places.paths, pa.string()), value_set=paths)
            files = pc.fill_null(numbers, -1).to_numpy()[places.files]
            inside = (files >= 0) & self.inside[files]
            rows = np.where(inside, self.begins[files], 0) + places.positions
            gone.append(rows[inside & places.hides])
            raised = np.flatnonzero(inside[places.touched])
            if len(raised):
                orders = from_texts(self.order_type, places.orders.take(pa.array(raised)))
                found = found.with_orders(rows[places.touched[raised]], orders)
        return found.with_hidden(np.concatenate(gone))

    def with_orders(self, rows: Ints, orders: Any) -> MergedKeys:
        """Return merged keys with newer order values of some rows, a pa.Array."""
        before, known = self.touched
        keep = ~np.isin(before, rows)
        rows = np.concatenate((before[keep], rows))
        order = np.argsort(rows, kind="stable")
        orders = orders if known is None else pa.concat_arrays([known.filter(pa.array(keep)), orders])
        return replace(self, touched=(rows[order], orders.take(pa.array(order))))

    def _raised(self, run: KeyRun) -> Any:
        """Return the newest order values of a run, as ``order_columns`` has them."""
        (rows, newer), known = self.touched, expanded(self.order_type, run.orders)
        if not len(rows):
            return known
        at = np.minimum(np.searchsorted(rows, run.rows), len(rows) - 1)
        return pc.if_else(pa.array(rows[at] == run.rows), newer.take(pa.array(at)), known)

    def _merged(self, runs: tuple[KeyRun, ...]) -> tuple[KeyRun, ...]:
        """Return the same entries in fewer runs."""
        while len(runs) > 1 and len(runs[-2]) < _RATIO * len(runs[-1]):
            both = joined_runs(runs[-2:])
            both = both.taken(np.flatnonzero(~self.hidden[both.rows]))
            runs = (*runs[:-2], by_hash(both))
        return runs

    def _run_of(self, file: FileEntry, begin: int) -> KeyRun | None:
        """Return the entries of a file; None if its order values have another type than those of the others."""
        try:
            index = opened_index(self.table, file)
            if index.order_type != basic_type(self.order_type):
                return None
            entries = np.arange(file.rows)
            hashes, rows = index.hashes(), (begin + index.positions(entries)).astype(np.uint32)
            orders = index.compact_orders(entries)
            run_keys, row_hashes = index.keys(entries), index.row_hashes(entries)
        except DamagedPage as fault:
            raise damaged(self.table, file.keys, fault) from None
        if orders.type != no_rows(self.order_type).orders.type:
            return None
        codes = np.array([self.codes.code(one.partition) for one in file.extents], np.int64)
        partitions = np.repeat(codes, [one.rows for one in file.extents])
        if self.by_partition:
            hashes = hashes ^ self.codes.salts()[partitions]
        return KeyRun(
            hashes=hashes,
            rows=rows,
            entries=entries.astype(np.uint32),
            row_hashes=row_hashes,
            partitions=partitions.astype(np.uint32),
            orders=orders,
            keys=run_keys,
        )


def opened_index(table: str, file: FileEntry) -> KeyIndex:
    """Open the key index of a file. Raises DamagedPage, StateError."""
    stored = file.keys
    path, content = posixpath.join(table, stored.path), inline_of(table, stored)
    try:
        return KeyIndex.open(path, file.rows, stored.bytes, stored.checksum, content=content)
    except MutatorError as fault:
        if fault.kind != "storage.missing":
            raise
        raise damaged(table, stored, "it is missing") from None


def merged_keys(snapshot: Snapshot, order_type: str, by_partition: bool) -> MergedKeys:
    """Return the merged keys of a snapshot, which it keeps. by_partition: keys are unique only within a partition."""
    paths = snapshot.files.column("path")
    found: MergedKeys = snapshot.keys.get(
        lambda keys: keys.order_type == order_type and keys.by_partition == by_partition,
        lambda: _begun(snapshot, order_type, by_partition),
        lambda keys, versions: keys.after(
            versions, [one for version in versions for one in snapshot.masks.of_version(index_of(version))], paths
        ),
    )
    return found


def _begun(snapshot: Snapshot, order_type: str, by_partition: bool) -> MergedKeys:
    """Return the merged keys of the small files of a snapshot. Raises StateError for damaged files."""
    count = snapshot.files.num_rows
    chosen = snapshot.files.column("rows").to_numpy() <= _AT_FIRST
    if by_partition:  # a partition with few files is searched alone
        places = snapshot.places
        file, partition = places["file"], places["partition"] + 1
        many = np.bincount(partition[chosen[file]], minlength=int(partition.max(initial=0)) + 1) >= _FEW
        chosen &= np.bincount(file, many[partition], count) > 0
    wanted = np.flatnonzero(chosen)
    files: list[FileEntry | None] = [None] * count
    for number, one in zip(wanted.tolist(), files_of(snapshot.files, wanted), strict=True):
        files[number] = one
    keys = MergedKeys(
        table=snapshot.table,
        order_type=order_type,
        by_partition=by_partition,
        codes=PartitionCodes(),
        inside=np.zeros(0, np.bool_),
        begins=_NONE,
        count=0,
        runs={DATA: (), TOMBSTONES: ()},
        hidden=np.zeros(0, np.bool_),
    ).with_files(files)
    return _masked(keys, snapshot, [None if file is None else file.path for file in files])


def _masked(keys: MergedKeys, snapshot: Snapshot, paths: Sequence[str | None]) -> MergedKeys:
    """Return merged keys with what the masks of a snapshot say. paths: of the files, by number."""
    masks = snapshot.masks
    known, gone, raised, orders = masks.files(), [_NONE], list[Ints](), list[Any]()
    for number in np.flatnonzero(keys.inside).tolist():
        if paths[number] in known:
            begin = keys.begins[number]
            gone.append(begin + masks.hidden(str(paths[number])))
            touched, texts = masks.touched(str(paths[number]))
            if len(touched):
                raised.append(begin + touched)
                orders.append(from_texts(keys.order_type, texts))
    found = keys.with_hidden(np.concatenate(gone))
    if raised:
        found = found.with_orders(np.concatenate(raised), pa.concat_arrays(orders))
    return found
