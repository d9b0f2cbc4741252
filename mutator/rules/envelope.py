"""The contract of an envelope: what a row of a file says.

An envelope comes between a file format and the layouts of rows. Whoever wants to know what a row does asks it.

    for_file       the schema and the first rows of a file -> the envelope with what they say
    record_schema  the schema of a file -> that of the rows of records in it
    file_schema    both schemas -> the schema to read the file with
    file_fields    fields of such rows -> the fields of the file that they are made of
    unwrap         a batch of a file -> rows of records: none, one or several for each row of the file
    operation      the value of one field of such a row -> what the row does

All but the last are for envelopes whose rows are not rows of records yet (``unwraps``). They are called where a file is
read, whatever its format and the block type of its rows: what they return is all that is known of the file elsewhere.

A row is an upsert or a delete of one record, a truncate (a delete of every record that is older), no mutation, or a
reject. ``FileOperation`` is for files whose rows all do the same, ``OpCodeField`` for rows with an op code. Immutable.

>>> codes = OpCodeField(field="op", delete_codes=frozenset({b"D"}), ignore_codes=frozenset({b"B"}))
>>> said = codes.of_column(ByteColumn.of([b"U", b"D", b"B", b"U"]))
>>> said.are(DELETE).tolist(), said.are(IGNORED).tolist(), said.counts()
([False, True, False, False], [False, False, True, False], {b'B': 1, b'U': 2})
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from mutator.errors.parts import setting
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.epochs import NO_EPOCHS, Epochs
from mutator.rules.op_codes import is_truncate, presence

# In the metadata of a pa.Schema to read text with: rows of all widths are read. The value is the name of another field
# that can be read, their number of fields; the fields that a row lacks are NULL.
ANY_WIDTH = b"any width"
UPSERT, DELETE, TRUNCATE, IGNORED, REJECTED = range(5)  # kinds of operations

_DELETE_IN_MASTER, _TRUNCATE_IN_MASTER = "marks a delete in the master", "marks a truncate in the master"
UNKNOWN_CODE = "is not a known code"
PHYSICAL = b"physical types"  # a mark in the metadata of a pa.Schema: values of Avro are read without logical types
_BYTES = [bytes([byte]) for byte in range(256)]


class Unclear(ValueError):
    """A file does not say what its rows are; the text says what is not known, and the cure how to say it."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(what)
        self.cure = cure


def other_subjects(one: str | None, other: str | None) -> Unclear:
    """Return the error of a feed with rows of several tables. one: None: none of the first rows of a file says it."""
    others = "none of its first rows says of which table it is" if one is None else f"others are of {one}"
    return Unclear(f"has rows of {other}, and {others}", f"set {setting('feed.table')} to that of the master")


def several_tables(names: Sequence[str]) -> str:
    """Return how a file of several tables is read. names: of its first fields."""
    return (
        f"if it has the changes of several tables, as with PreserveTransactions, begin {setting('field.names')} with "
        f"{','.join(names)}, and set {setting('feed.table')} to that of the master"
    )


class Operation(NamedTuple):
    """What a row does."""

    kind: int
    code: bytes | None = None  # that is counted; None: none is, as of deletes
    fault: str = ""  # why the row is a reject


@dataclass(frozen=True)
class Operations:
    """What each row of a batch does."""

    said: Sequence[Operation]  # some may not occur
    numbers: Any  # integer array, one per row: the position of its operation in ``said``

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def kinds(self) -> Any:
        """The kind of each row's operation, an array of bytes."""
        return np.array([one.kind for one in self.said], np.uint8)[self.numbers]

    def are(self, kind: int) -> Flags:
        """Return which rows have operations of a kind."""
        found: Flags = self.kinds == kind
        return found

    @property
    def faults(self) -> dict[str, Flags]:
        """The rejects, by their reason."""
        reasons = dict.fromkeys(one.fault for one in self.said if one.kind == REJECTED)
        return {reason: np.array([one.fault == reason for one in self.said])[self.numbers] for reason in reasons}

    def only(self, rows: Flags | Ints) -> Operations:
        """Return the operations of some rows."""
        return Operations(self.said, self.numbers[rows])

    def counts(self) -> dict[bytes, int]:
        """Return how many rows have each code that is counted."""
        found: dict[bytes, int] = {}
        if any(one.code is not None for one in self.said):
            counts = np.bincount(self.numbers, minlength=len(self.said))
            for number in np.flatnonzero(counts).tolist():
                code = self.said[number].code
                if code is not None:
                    found[code] = found.get(code, 0) + int(counts[number])
        return found

    def codes(self) -> list[bytes | None]:
        """Return the counted code of each row."""
        return [self.said[number].code for number in self.numbers.tolist()]


# Returns the keys of messages, which are in a file of their own: numbers of rows of a batch, and the fields of the ID
# -> a pa.Array for each of these that the keys have
Keys = Callable[[Ints, Sequence[str]], Mapping[str, Any]]


class Unwrapped(NamedTuple):
    """Rows of records."""

    batch: Any  # pa.RecordBatch
    rows: Ints | None = None  # the number of the row of the file that each is of, ascending; None: each is of its own
    as_text: bool = False  # columns of large_binary are text, of which the run makes values, even if the file has types
    unset: Mapping[str, Flags] = MappingProxyType({})  # which rows leave a field unset, which is NULL there; by name


class FirstOfFile(Protocol):
    """The first rows of a file."""

    @property
    def is_json(self) -> bool:
        """Whether the file is JSON Lines."""

    @property
    def is_delimited(self) -> bool:
        """Whether the file is text with delimiters, so that a row may have another number of fields."""

    @property
    def sequence(self) -> int | None:
        """The sequence in the name of the file; None without one."""

    def beside(self, name: str) -> bytes:
        """Return another file of the directory; nothing if it cannot be read."""

    @property
    def avro(self) -> Any:
        """The Avro schema that the file has, with named types written out; None without one."""

    def batch(self, schema: Any, names: Sequence[str]) -> Any:
        """Return some fields as a pa.RecordBatch, None if they cannot be read. schema: pa.Schema to read with."""

    def members(self, objects: Sequence[bytes]) -> Any:
        """Return the pa.Schema of the members of JSON objects."""


class LineMarks(NamedTuple):
    """What some lines have."""

    any_of: tuple[bytes, ...]  # few lines have one of these texts
    line: re.Pattern[bytes]  # and these lines have this, too


@dataclass(frozen=True, kw_only=True)
class Envelope(ABC):
    """What the rows of a file say."""

    unwraps: ClassVar[bool] = False  # the rows of a file are not rows of records yet
    changes_keys: ClassVar[bool] = False  # one row may delete a key and upsert another one, in this order
    arrival: ClassVar[bytes | None] = None  # the op code of a row with a new key, whose old one another row deletes
    field: Any = None  # name or ordinal of the field that says the operation; None: the file says it
    about: str | None = None  # what the records of a file are of, such as a table; all files of a feed must share it
    sources: tuple[str, ...] = ()  # that the first rows of a file name, as ``epochs`` does
    epochs: Epochs = NO_EPOCHS  # of the sources that rows name

    @property
    def marks(self) -> LineMarks | None:
        """The marks of lines with a new key and unset fields; None: any line may be one."""
        return None

    @property
    def fields(self) -> tuple[Any, ...]:
        """The fields of the rows of records that are read beside those of the result."""
        return () if self.field is None else (self.field,)

    @property
    def beside(self) -> tuple[str, ...]:
        """The fields of the rows of records that are read only if settings name them, as they are not the records'."""
        return ()

    @property
    def order(self) -> tuple[tuple[str, str], ...]:
        """The fields of ``beside`` that order mutations, each with its type, where no setting names others."""
        return ()

    @property
    def epoch(self) -> str | None:
        """The field of ``beside`` whose value is the epoch of the source that a row names; None without one."""
        return None

    @property
    def carries(self) -> bool:
        """Whether a row with a new key may leave fields unset, which the row of its old key has."""
        return False

    def rejecting_moves(self) -> Envelope:
        """Return the envelope of rows whose new keys come with all fields, or are rejects."""
        return self

    @property
    def change(self) -> tuple[tuple[str, str], ...]:
        """The fields of ``beside`` that both halves of a changed key share where these are two rows, with their types.

        No other row shares them: the delete of the old key is found by them. None where nothing says it.
        """
        return ()

    @property
    def typed(self) -> Collection[str]:
        """The fields whose types the messages say."""
        return ()

    @property
    def deletes_all(self) -> bool:
        """Whether every row is a delete, so that it may lack fields."""
        return False

    @property
    def leaves_unset(self) -> bool:
        """Whether the rows of a file may leave fields unset."""
        return False

    @property
    def lacks_fields(self) -> bool:
        """Whether a file may lack fields because it has no records, as far as its first rows show."""
        return False

    @abstractmethod
    def of_records(self) -> Envelope:
        """Return the envelope of a master's rows in the form of the feed's: they say upserts alone."""

    @abstractmethod
    def operation(self, value: bytes) -> Operation:
        """Return what a row does. value: of the field; without a field, it means nothing."""

    def for_file(self, schema: Any, first: FirstOfFile, keys: Sequence[Any]) -> Envelope:
        """Return the envelope of a file of a pa.Schema. Raises ValueError as ``record_schema`` does.

        keys: the fields of the ID.
        """
        return self

    def tables(self, schema: Any, first: FirstOfFile) -> Sequence[str]:
        """Return the names of the tables that the first rows of a file are of, one for each row that says it."""
        return ()

    def key_in(self, schema: Any, first: FirstOfFile) -> tuple[Sequence[str], str]:
        """Return the fields of the ID that a file names, and where it names them; none if it does not."""
        return (), ""

    def record_schema(self, schema: Any) -> Any:
        """Return the pa.Schema of the rows of records in a file of a pa.Schema. Raises ValueError if it has none."""
        return schema

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names of the fields of a file that some fields of the rows of records are made of."""
        return names

    def file_schema(self, schema: Any, records: Any) -> Any:
        """Return the pa.Schema to read a file of a pa.Schema with. records: of the rows of records in all files."""
        return schema

    def unwrap(self, batch: Any, records: Any) -> Unwrapped:
        """Return the rows of records in a batch of a file. Raises Unclear.

        batch: pa.RecordBatch of ``file_fields``. records: pa.Schema of the rows of records, as the run wants them; a
        column of large_binary is text, of which the run makes values.
        """
        return Unwrapped(batch)

    def unwrap_with_keys(self, batch: Any, records: Any, keys: Keys) -> Unwrapped:
        """Return the rows of records as ``unwrap`` does, with keys for messages that lack them. Raises Unclear."""
        return self.unwrap(batch, records)

    def of_file(self, count: int) -> Operations:
        """Return what rows without the field do."""
        return Operations([self.operation(b"")], np.zeros(count, np.uint8))

    def of_column(self, column: ByteColumn) -> Operations:
        """Return what rows of text do. column: their field. Values of one byte, the usual ones, need no search."""
        if len(column) and (column.ends - column.starts == 1).all():
            return Operations(self._of_bytes, column.data[column.starts])
        return self.of_array(column.take())

    def of_array(self, values: Any) -> Operations:
        """Return what rows do. values: pa.Array of large_binary, of the field; NULL is an empty value."""
        found = values.fill_null(b"").dictionary_encode()
        return Operations([*map(self.operation, found.dictionary.to_pylist())], found.indices.to_numpy())

    @cached_property
    def _of_bytes(self) -> list[Operation]:
        return [*map(self.operation, _BYTES)]


@dataclass(frozen=True, kw_only=True)
class FileOperation(Envelope):
    """The envelope of a file whose rows all do the same: of a delete file, or of one with upserts alone."""

    kind: int = UPSERT

    @property
    def deletes_all(self) -> bool:
        """Whether every row is a delete."""
        return self.kind == DELETE

    def of_records(self) -> Envelope:
        """Return the envelope of upserts."""
        return UPSERTS

    def operation(self, value: bytes) -> Operation:
        """Return what all rows do."""
        return Operation(self.kind)


UPSERTS, DELETES = FileOperation(), FileOperation(kind=DELETE)


@dataclass(frozen=True, kw_only=True)
class OpCodeField(Envelope):
    """The envelope of rows with an op code."""

    delete_codes: frozenset[bytes] = frozenset()
    upsert_codes: frozenset[bytes] | None = None  # None: all others
    ignore_codes: frozenset[bytes] = frozenset()  # of rows that are not mutations
    truncate_codes: frozenset[bytes] = frozenset()
    in_master: bool = False  # a row with a delete code, or with that of a truncate, is a reject

    def of_records(self) -> Envelope:
        """Return the envelope of rows whose op code is that of their last mutation."""
        return replace(self, upsert_codes=None, ignore_codes=frozenset(), in_master=True)

    def operation(self, value: bytes) -> Operation:
        """Look up an op code. Usual codes of truncates that no setting names are no mutations; they stop the run later.

        >>> OpCodeField(field="op", delete_codes=frozenset({b"D"}), in_master=True).operation(b"D").fault
        'field op (op code) marks a delete in the master'
        """
        if value in self.ignore_codes:
            return Operation(IGNORED, value)
        if value in self.delete_codes:
            return self._reject(_DELETE_IN_MASTER) if self.in_master else Operation(DELETE)
        if value in self.truncate_codes:
            return self._reject(_TRUNCATE_IN_MASTER) if self.in_master else Operation(TRUNCATE)
        if self.upsert_codes is None:
            return Operation(UPSERT if self.in_master or not is_truncate(value, self.field) else IGNORED, value)
        return Operation(UPSERT, value) if value in self.upsert_codes else self._reject(UNKNOWN_CODE)

    def spelled(self, codes: Collection[bytes]) -> tuple[Any, Collection[bytes]]:
        """Return the field that has op codes in a file, and its values."""
        return self.field, codes

    @property
    def keyless_delete(self) -> bytes | None:
        """The code of rows that are deletes of unknown records; None where other rows say all deletes."""
        return None

    def fields_of_tables(self, reason: str) -> tuple[str, ...]:
        """Return the first fields of a file of several tables, if that may be why a row is a reject; else none."""
        return ()

    def note_on(self, codes: Mapping[bytes, int]) -> str:
        """Return a note on what rows cannot say; empty without one. codes: how many rows have each that is counted."""
        return ""

    def _reject(self, why: str) -> Operation:
        return Operation(REJECTED, None, f"field {self.field} (op code) {why}")


@dataclass(frozen=True, kw_only=True)
class DeleteMarkField(OpCodeField):
    """The envelope of rows with a field in which any value marks a delete."""

    def operation(self, value: bytes) -> Operation:
        """Look up whether there is a value."""
        return super().operation(presence(value))
