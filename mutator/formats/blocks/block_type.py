"""The contract of a block type: all that the engines ask of rows in memory.

A block is a bounded number of rows of one file, as columns. ``rows`` is a pa.Array of any type that the block type
chooses: the engine filters, takes and concatenates it, and asks the block type for everything else. ``text_rows`` is
the block type of delimited text, ``column_rows`` of typed columns, ``avro_rows`` of encoded Avro records. To add one,
write a class with the methods of ``BlockType`` and add a line to ``registry.BLOCK_TYPES``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.changed_rows import ChangeForm, ChangeWriter
from mutator.formats.content import Content, Reject, Writer
from mutator.rules.byte_columns import Flags, Ints, binary, offsets_of
from mutator.rules.envelope import Operations
from mutator.rules.first_values import FirstValues
from mutator.rules.partition_transforms import RowPartitions
from mutator.rules.register import RowFields

Hashes = npt.NDArray[np.uint64]


class Block(Protocol):
    """Rows as columns. The argument ``rows`` is an int64 array of ascending row numbers; None for all rows."""

    @property
    def rows(self) -> Any:
        """The rows as they were read, a pa.Array; its type is the same for all layouts of a side."""

    @property
    def offsets(self) -> Ints:
        """The position of each row in its file: int64, growing from row to row."""

    @property
    def partitions(self) -> RowPartitions | None:
        """The partition of each row as it will be written, without reasons; None if reading did not find it."""

    def __len__(self) -> int: ...

    def hashes(self, rows: Ints | None = None) -> Hashes:
        """Return the key hash of each row, as uint64."""

    def likely(self, firsts: FirstValues) -> Ints | None:
        """Return the numbers of the rows that may have one of the first values; None if hashing all is as fast."""

    def keys(self, rows: Ints | None = None) -> list[Any]:
        """Return a pa.Array of large_binary for each ID field: the canonical bytes of its values."""

    def orders(self, rows: Ints | None = None) -> Any:
        """Return the order values, a pa.Array in the encoding of ``rules.order_columns``.

        Not called where order comes from file names.
        """

    def deletes(self) -> Flags:
        """Return which rows are deletes, as a boolean array."""

    def written(self) -> Any:
        """Return the rows in the form in which they are written, a pa.Array; its type is the same for all layouts."""

    def unset(self) -> Any:
        """Return the mask of the fields that each row leaves unset, as ``rules.patches.masks_of`` does, or NULLs."""


class Record(NamedTuple):
    """A valid row, for the records engine."""

    offset: int
    key: tuple[bytes, ...]  # canonical bytes
    order: Any  # a value of ``rules.order_values``; None where order comes from file names
    is_delete: bool
    code: bytes | None  # that is counted: an op code
    written: bytes  # the row in the form in which it is written
    row: bytes  # the row as it was read, in the form of ``BlockType.contents``
    unset: bytes | None = None  # the mask of the fields that it leaves unset; None: it sets all of them


class Ignored(NamedTuple):
    """A row that is no mutation, by its op code, for the records engine."""

    code: bytes | None


class Truncate(NamedTuple):
    """A row that deletes every older record, for the records engine."""

    order: Any  # as in ``Record``


Item = Record | Reject | Ignored | Truncate | None


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a split."""

    block: Block
    rejects: tuple[Reject, ...]
    lines: int  # rows, rejects and ignored lines
    ignored: int  # blank lines, headers, and rows that are not mutations
    said: Operations | None = None  # of all rows but rejects, in their order; None: only what the block says
    truncates: Any = None  # pa.Array with the order value of each truncate, NULL by file name; None without any
    halves: int = 0  # rows of the block beyond the first of one row of the file: they have one offset


class BlockType(Protocol):
    """One way for rows to travel in memory. Layouts and outputs are made by the plan for this block type alone."""

    run_together: bool  # the writer finds the ends of rows even if one array element has several
    after_packed: bytes  # may follow the packed rows of a block, which are then loaded without a copy
    changes_suffix: str  # of the files of changed rows, with the dot

    def unsupported(self, layout: Any) -> str | None:
        """Return why the rows of a layout cannot be read as blocks, None if they can."""

    def read(self, content: Content, layout: Any, trusted: bool) -> Iterator[Batch]:
        """Yield the rows of the content's window in batches.

        trusted: this program wrote the file, and its checksum is right, so only requested fields need to be decoded.
        Raises NotReadable for content of another format, and for a bad row in a trusted file.
        """

    def read_changes(self, content: Content, layout: Any, near: int | None = None) -> Iterator[tuple[Batch, Any, Ints]]:
        """Yield rows of messages in batches, with what both halves of a changed key share, and their offsets.

        What they share is a pa.RecordBatch, without columns if nothing in the rows says it. near: how many lines to
        read before one that may carry fields; lines that are far from all of them may be left out. None: all rows.
        """

    def records(self, content: Content, layout: Any) -> Iterator[Item]:
        """Yield the rows of the content's window one by one, for the records engine; None for an ignored line."""

    def contents(self, rows: Any) -> Any:
        """Return a pa.Array of large_binary with the bytes of each row: the last resort to order equal rows."""

    def kept_type(self, layout: Any) -> Any:
        """Return the pa.DataType in which written rows are kept beside others. layout: that of written rows."""

    def kept(self, rows: Any) -> Any:
        """Return written rows in that type, a pa.Array."""

    def from_kept(self, rows: Any, layout: Any) -> Any:
        """Return written rows that were kept, perhaps by a run with another layout. layout: as for ``kept_type``."""

    def from_contents(self, contents: Sequence[bytes], layout: Any) -> Any:
        """Return the written rows that have these bytes, a pa.Array. layout: the master's."""

    def shown(self, rows: Any, written: Any, spec: Mapping[str, Any]) -> list[bytes]:
        """Return rows as rejects have them: text as it was read, others as JSON. spec: of the manifest."""

    def fields(self, layout: Any, null: bytes, types: Mapping[int, Any] | None = None) -> RowFields:
        """Return how written rows are taken apart. layout: that of written rows. null: NULL as text has it.

        types: Arrow's, of fields of text whose values have one.
        """

    def partitions(self, rows: Any, layout: Any) -> RowPartitions:
        """Return the partition of each written row, without reasons. layout: that of written rows.

        A delete may have no partition.
        """

    def inside(self, rows: Any, layout: Any) -> Flags:
        """Return which written rows are in the scope of a full snapshot. layout: that of written rows, with a scope."""

    def pack(self, rows: Any) -> bytes:
        """Serialize rows for the shuffle; packed rows can be concatenated."""

    def load(self, packed: bytes, layout: Any) -> Block:
        """Return the block of packed rows, all of which are valid; offsets count from 0."""

    def suffix(self, output: Any) -> str:
        """Return the suffix of the files to write, with the dot."""

    def writer(self, stream: BinaryIO, output: Any, chunk: int | None) -> Writer:
        """Return a writer to a stream. chunk: bytes of a checksum chunk, to count rows by chunk; None: do not."""

    def changes_writer(self, stream: BinaryIO, output: Any, layout: Any, form: ChangeForm) -> ChangeWriter:
        """Return a writer of changed rows to a stream. layout: that of written rows."""


class KeptAsBytes:
    """The form of rows that are kept beside others: the bytes of their contents. They never come from messages."""

    contents: Callable[[Any], Any]
    from_contents: Callable[[Sequence[bytes], Any], Any]

    def read_changes(self, content: Content, layout: Any, near: int | None = None) -> Iterator[tuple[Batch, Any, Ints]]:
        """Refuse: rows of messages are typed columns."""
        raise NotImplementedError

    def kept_type(self, layout: Any) -> Any:
        """Return the type of bytes."""
        return pa.large_binary()

    def kept(self, rows: Any) -> Any:
        """Return the contents of rows."""
        return self.contents(rows)

    def from_kept(self, rows: Any, layout: Any) -> Any:
        """Return the rows that have these contents."""
        return self.from_contents(rows.to_pylist(), layout)


def patched(rows: Any, positions: Ints, values: Any, gone: Flags) -> Any:
    """Return rows, a pa.Array of large_binary, some of which are replaced or removed.

    Neighbours that stay are one element, which costs nothing per row. positions: the row numbers, ascending. values: a
    pa.Array of the replacements, one for each position. gone: flags of the positions to remove instead.
    """
    offsets, data = offsets_of(rows)
    # Even pieces are the bytes between positions, odd pieces the rows at them.
    pieces = np.empty(2 * len(positions) + 2, np.int64)
    pieces[0], pieces[1:-1:2], pieces[2:-1:2], pieces[-1] = 0, offsets[positions], offsets[positions + 1], offsets[-1]
    touched = np.zeros(len(pieces) - 1, np.bool_)
    touched[1::2] = True
    if gone.any():
        values = pc.if_else(pa.array(gone), binary(b""), values)
    before = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(touched), [None, pa.py_buffer(pieces), pa.py_buffer(data)]
    )
    return pc.replace_with_mask(before, pa.array(touched), values)
