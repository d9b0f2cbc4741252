"""The version index: the rows of older files that a version hides or touches, as an Arrow file.

A row is *hidden* if its record was replaced or removed, or its tombstone was replaced or forgotten. It is *touched* if
an equal mutation raised the order value of its record, which happens only where order comes from file names: elsewhere
the order value is a field of the row.

The writer of a version that others outran decides again about the keys that they changed. What it has written for these
keys stays, and what no longer holds is *withdrawn*, in a file of the same form: a row of the version's own files was
never there, a row of an older file is neither hidden nor touched.

    file      path of the data or tombstone file
    position  of the row in the file
    hash      of its key
    key       as ``key_index.encoded_keys`` returns it; empty, with a hash of 0, if an overwrite did not know it
    order     order value of the mutation, as text; NULL for the lowest
    touched   whether the row stays
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import flags

SCHEMA = pa.schema(
    [
        pa.field("file", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("position", pa.uint32(), nullable=False),
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("key", pa.large_binary(), nullable=False),
        pa.field("order", pa.large_binary()),
        pa.field("touched", pa.bool_(), nullable=False),
    ]
)

_PLACES = ("file", "position", "touched")  # columns
_ORDER = [("file", "ascending"), ("position", "ascending")]


def index_table(file: str, positions: Ints, hashes: Any, keys: Any, orders: Any, *, touched: bool) -> Any:
    """Return the pa.Table of some rows of one file.

    hashes: uint64 array. keys: encoded. orders: as text.
    """
    files = np.zeros(len(positions), np.int64)
    return table_of_files([file], files, positions, hashes, keys, orders, touched=touched)


def table_of_files(
    paths: Sequence[str], files: Ints, positions: Ints, hashes: Any, keys: Any, orders: Any, *, touched: bool
) -> Any:
    """Return the pa.Table of some rows of several files.

    paths: of files. files: of each row, the number of its path. hashes: uint64 array. keys: encoded. orders: as text.
    """
    count = len(positions)
    named = pa.DictionaryArray.from_arrays(pa.array(files, pa.int32()), pa.array(paths, pa.string()))
    columns = [named, pa.array(positions, pa.uint32()), pa.array(hashes, pa.uint64()), keys.cast(pa.large_binary())]
    columns += [orders.cast(pa.large_binary()), pa.array(np.full(count, touched))]
    return pa.table(columns, schema=SCHEMA)


def written_index(tables: Iterable[Any]) -> bytes | None:
    """Return the content of a version index; None if it has no rows. tables: of ``index_table``."""
    whole = pa.concat_tables([SCHEMA.empty_table(), *tables]).unify_dictionaries().combine_chunks()
    if not whole.num_rows:
        return None
    names = whole.column("file").cast(pa.string())
    whole = whole.take(pc.sort_indices(whole.set_column(0, "file", names), sort_keys=_ORDER))
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_file(sink, SCHEMA, options=options) as writer:
        writer.write_table(whole)
    return bytes(sink.getvalue())


def read_index(content: bytes, names: Sequence[str] | None = None) -> Any:
    """Return the pa.Table of a version index. names: of the wanted columns.

    Raises ValueError if its bytes are not a version index.
    """
    fields = None if names is None else [SCHEMA.get_field_index(name) for name in names]
    try:
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        table = pa.ipc.open_file(pa.BufferReader(content), options=options).read_all()
    except (pa.ArrowException, OSError) as fault:
        raise ValueError(str(fault)) from None
    if table.schema != (SCHEMA if fields is None else pa.schema([SCHEMA.field(name) for name in table.column_names])):
        raise ValueError("it has other columns")
    return table.combine_chunks()


@dataclass(frozen=True)
class Places:
    """The rows that a version hides and touches, of all files."""

    paths: Sequence[str]  # of the files
    files: Ints  # number of each row's path
    positions: Ints
    hides: Flags  # whether each row is hidden
    touched: Ints  # rows: numbers in these columns
    orders: Any  # order values of the touched rows, as text


class Hidden:
    """The rows that a version hides and touches, by file."""

    def __init__(self, content: bytes, withdrawn: Sequence[Hidden] = ()) -> None:
        """Read where they are: keys and order values are read only when they are needed.

        withdrawn: rows that the version has withdrawn.
        """
        self._content = content
        places = read_index(content, _PLACES)
        column = places.column("file").combine_chunks()
        names = column.dictionary.to_pylist()
        codes = column.indices.to_numpy()
        begins = np.flatnonzero(np.diff(codes, prepend=-1)) if len(codes) else np.zeros(0, np.int64)
        ends = np.append(begins[1:], len(codes))
        self._ranges = {names[codes[one]]: (int(one), int(end)) for one, end in zip(begins, ends, strict=True)}
        self._positions = places.column("position").to_numpy().astype(np.int64)
        self._touched = flags(places.column("touched").combine_chunks()).copy()
        self._hides = ~self._touched
        self._named = dict(self._ranges)  # also files whose rows are all withdrawn
        for one in withdrawn:
            for file in self._ranges.keys() & set(one.files):
                begin, end = self._ranges[file]
                holds = ~np.isin(self._positions[begin:end], one.positions(file))
                self._touched[begin:end] &= holds
                self._hides[begin:end] &= holds
                if not (self._hides[begin:end] | self._touched[begin:end]).any():
                    del self._ranges[file]  # a version that this one follows may have removed the file
        self._any_touched = bool(self._touched.any())

    @cached_property
    def table(self) -> Any:
        """All columns, as a pa.Table."""
        return read_index(self._content)

    @property
    def files(self) -> Iterable[str]:
        """The paths of the files that have such rows."""
        return self._ranges.keys()

    def hidden(self, file: str) -> Ints:
        """Return the positions of the hidden rows of a file, ascending."""
        begin, end = self._ranges.get(file, (0, 0))
        found: Ints = self._positions[begin:end][self._hides[begin:end]]
        return found

    def places(self) -> Places:
        """Return all rows, in the order of the files."""
        begins, ends = np.array(list(self._ranges.values()), np.int64).reshape(-1, 2).T
        counts = ends - begins
        rows = np.repeat(ends - np.cumsum(counts), counts) + np.arange(int(counts.sum()))
        touched = np.flatnonzero(self._touched[rows])
        orders = pa.array([], pa.large_binary())
        if len(touched):
            orders = self.table.column("order").combine_chunks().take(pa.array(rows[touched]))
        return Places(
            paths=list(self._ranges),
            files=np.repeat(np.arange(len(counts)), counts),
            positions=self._positions[rows],
            hides=self._hides[rows],
            touched=touched,
            orders=orders,
        )

    def positions(self, file: str) -> Ints:
        """Return the positions of the rows that are named in a file, withdrawn ones too, ascending."""
        begin, end = self._named.get(file, (0, 0))
        found: Ints = self._positions[begin:end]
        return found

    def of_files(self, files: Collection[str]) -> Hidden:
        """Return the rows of some files alone."""
        found = copy(self)
        found._ranges, found._named = (
            {file: bounds for file, bounds in ranges.items() if file in files} for ranges in (self._ranges, self._named)
        )
        return found

    def hidden_keys(self, file: str) -> Any:
        """Return the encoded keys of the hidden rows of a file, in the order of ``hidden``."""
        begin, end = self._ranges.get(file, (0, 0))
        rows = begin + np.flatnonzero(self._hides[begin:end])
        return self.table.column("key").combine_chunks().take(pa.array(rows))

    def known_keys(self, file: str) -> Any:
        """Return the same keys; NULL for records whose keys were not known, which have a hash of 0 and no key."""
        begin, end = self._ranges.get(file, (0, 0))
        rows = pa.array(begin + np.flatnonzero(self._hides[begin:end]))
        keys, hashes = (self.table.column(name).combine_chunks().take(rows) for name in ("key", "hash"))
        lost = pc.and_(pc.equal(hashes, 0), pc.equal(pc.binary_length(keys), 0))
        return pc.if_else(lost, pa.scalar(None, keys.type), keys)

    def rows(self, file: str) -> Any:
        """Return the rows of a file that are hidden or touched, a pa.Table of ``SCHEMA`` by position."""
        begin, end = self._ranges.get(file, (0, 0))
        rows = begin + np.flatnonzero(self._hides[begin:end] | self._touched[begin:end])
        return self.table.take(pa.array(rows))

    def touched(self, file: str) -> tuple[Ints, Any]:
        """Return the positions of the touched rows of a file, ascending, and their order values as text."""
        if not self._any_touched:
            return np.zeros(0, np.int64), pa.array([], pa.large_binary())
        begin, end = self._ranges.get(file, (0, 0))
        rows = begin + np.flatnonzero(self._touched[begin:end])
        if not len(rows):
            return rows, pa.array([], pa.large_binary())
        return self._positions[rows], self.table.column("order").combine_chunks().take(pa.array(rows))
