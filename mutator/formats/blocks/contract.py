"""The contract of a block type: what the engines ask of it, and nothing else.

A block is a bounded number of rows of one file, held as columns. Its rows are an Arrow array of whatever type the
block type likes: the engine filters, takes and joins them, and asks the block type for the rest. ``text_rows`` is the
one for delimited text, ``column_rows`` for typed columns, ``avro_rows`` for Avro records that stay encoded. To add one,
write a class with these methods and add a line to ``registry.FORMATS``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.content import Content, Reject, Writer
from mutator.rules.byte_columns import Flags, Ints, offsets_of
from mutator.rules.order_columns import flags
from mutator.rules.partition_transforms import Placed
from mutator.rules.typed_values import exact

__all__ = ["Batch", "Block", "BlockType", "Hashes", "Record", "patched", "unequal"]

Hashes = npt.NDArray[np.uint64]


class Block(Protocol):
    """Rows as columns. ``rows`` is None for all of them, else their numbers, ascending."""

    @property
    def rows(self) -> Any:
        """The rows as they were read; of one type for all layouts of a side."""

    @property
    def offsets(self) -> Ints:
        """Where each row stands in its file: a number that grows from row to row."""

    def __len__(self) -> int: ...

    def hashes(self, rows: Ints | None = None) -> Hashes:
        """Return the key hashes of some rows."""

    def likely(self, firsts: Collection[bytes]) -> Ints | None:
        """Return the rows whose first ID value may be one of a few; None where hashing all of them is as good."""

    def keys(self, rows: Ints | None = None) -> list[Any]:
        """Return a column of canonical bytes (large binaries) for each ID field."""

    def orders(self, rows: Ints | None = None) -> Any:
        """Return the order values as ``order_columns`` has them. Not called where order comes from file names."""

    def deletes(self) -> Flags:
        """Tell which rows are deletes."""

    def written(self) -> Any:
        """Return the rows as they would be written; of one type for all layouts."""


class Record(NamedTuple):
    """A row that can, as the records engine has it."""

    offset: int
    key: tuple[bytes, ...]  # canonical bytes
    order: Any  # as ``rules.order_values`` has it; None where order comes from file names
    is_delete: bool
    written: bytes  # the row as it would be written
    row: bytes  # as it was read, as ``BlockType.contents`` has it


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows of a split."""

    block: Block
    rejects: tuple[Reject, ...]
    lines: int
    ignored: int  # of them, blank lines and headers


class BlockType(Protocol):
    """A file format, as the engines use it. What a layout is, and what an output, is its own affair."""

    run_together: bool  # a writer knows its rows apart where several come in one element

    def unsupported(self, layout: Any) -> str | None:
        """Return why the rows of a layout cannot be read as blocks, None if they can."""

    def read(self, content: Content, layout: Any, trusted: bool) -> Iterator[Batch]:
        """Read rows.

        trusted: the file was written by this program and has its checksum, so only what is asked for is decoded.
        Raises NotReadable where the content is none of the format, or a trusted file holds what is no row.
        """

    def records(self, content: Content, layout: Any) -> Iterator[Record | Reject | None]:
        """Read rows one by one, for the records engine; None for a line that is ignored."""

    def contents(self, rows: Any) -> Any:
        """Return the bytes of each row (large binaries): they decide between rows that are equal in all else."""

    def from_contents(self, contents: Sequence[bytes], layout: Any) -> Any:
        """Return the rows, as they are written, that have these bytes; the layout is the master's."""

    def partitions(self, rows: Any, layout: Any) -> Placed:
        """Return where rows belong that are as they would be written; the layout is that of such rows.

        Their reasons were told when they were read, so here are none; a delete may belong nowhere.
        """

    def pack(self, rows: Any) -> bytes:
        """Write rows for the shuffle; packed rows can be joined."""

    def load(self, packed: Sequence[bytes], layout: Any) -> Block:
        """Read what was packed; the rows are good ones, and their offsets count from 0."""

    def suffix(self, output: Any) -> str:
        """Return the end of the names of files that are written."""

    def writer(self, stream: BinaryIO, output: Any, chunk: int | None) -> Writer:
        """Write to a stream; ``chunk`` is the size of a checksum chunk where rows are to be counted by chunk."""


def patched(rows: Any, places: Ints, values: Any, gone: Flags, *, exact: bool) -> Any:
    """Return rows with those at some places replaced by other values, or gone.

    places: row numbers, ascending. values: one for each place. exact: keep the elements of the array one row each;
    where they are binaries and it does not matter, untouched rows come back run together, which costs nothing a row.
    """
    if not len(places):
        return rows
    if not exact and pa.types.is_large_binary(rows.type):
        return _patched_bytes(rows, places, values, gone)
    # One take, of rows and values together: Arrow's own replacing of text takes three times as long.
    index = np.arange(len(rows))
    index[places] = len(rows) + np.arange(len(places))
    keep = np.ones(len(rows), np.bool_)
    keep[places[gone]] = False
    return pa.concat_arrays([rows, values]).take(pa.array(index[keep]))


def unequal(one: Any, other: Any) -> Flags:
    """Tell which rows of two arrays of one type differ; null is equal to null, and floats are compared by bits."""
    if pa.types.is_null(one.type):
        return np.zeros(len(one), np.bool_)
    if pa.types.is_struct(one.type):
        found = flags(pc.not_equal(one.is_null(), other.is_null()))
        for left, right in zip(one.flatten(), other.flatten(), strict=True):
            found |= unequal(left, right)
        return found
    if pa.types.is_nested(one.type):
        pairs = zip(exact(one).to_pylist(), exact(other).to_pylist(), strict=True)
        return np.array([left != right for left, right in pairs], np.bool_)
    if pa.types.is_floating(one.type):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[one.type.bit_width]
        one, other = one.view(bits), other.view(bits)
    differ = flags(pc.fill_null(pc.not_equal(one, other), False))
    return differ | flags(pc.not_equal(one.is_null(), other.is_null()))


def _patched_bytes(rows: Any, places: Ints, values: Any, gone: Flags) -> Any:
    offsets, data = offsets_of(rows)
    # Piece 0 is what stands before the first place, piece 1 is the row there, piece 2 what stands before the next, ….
    pieces = np.empty(2 * len(places) + 2, np.int64)
    pieces[0], pieces[1:-1:2], pieces[2:-1:2], pieces[-1] = 0, offsets[places], offsets[places + 1], offsets[-1]
    touched = np.zeros(len(pieces) - 1, np.bool_)
    touched[1::2] = True
    if gone.any():
        values = pc.if_else(pa.array(gone), pa.scalar(b"", pa.large_binary()), values)
    before = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(touched), [None, pa.py_buffer(pieces), pa.py_buffer(data)]
    )
    return pc.replace_with_mask(before, pa.array(touched), values)
