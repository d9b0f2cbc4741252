"""The contract of a register: what the mutations of a key become.

A run has one register, which ``plan.registers`` chooses, and everything that decides about keys asks it: both engines,
every join, partitions, the apply of a table and its second decisions, and explain.

    fold   a bag of mutations -> a bag of them, in any grouping and any number of times
    meet   what the fold left of a key, what the place has of it, and the floor -> a decision

The floor is the order value of the highest truncate, a delete of every key; None without one. It is never lowered, but
by a restore.

A decision may reject the last mutation of a key, with a reason: it is set aside like a row that cannot be read.

Both have two forms. ``fold`` and ``meet`` take columns of many keys, ``fold_key`` and ``meet_key`` those of one: the
textbook form, which the records engine and explain use. ``last_wins`` has the registers of this program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import flags
from mutator.rules.truth_table import Decision

RECORD, TOMBSTONE, NOTHING = "record", "tombstone", "nothing"  # kinds of what a place has of a key


class Bag(Protocol):
    """Mutations as columns. rows: an int64 array of their numbers."""

    def column(self, name: str) -> Any:
        """Return a whole column: hashes, inputs, orders, deletes, unset, counts, mixed, upserts, …"""

    def rows(self, name: str, rows: Ints) -> Any:
        """Return some rows of a column."""

    def keys(self, rows: Ints) -> Sequence[Any]:
        """Return the key columns of some rows."""

    def precedence(self, rows: Ints) -> Sequence[Any]:
        """Return numbers by which rows of one key compare, the most significant, the order value, last."""

    def content_ranks(self, rows: Ints) -> Ints:
        """Return numbers that compare as the bytes of the rows do: the last part of the precedence."""

    def differ(self, some: Ints, others: Ints) -> Flags:
        """Return whether the operations or contents of two rows differ."""


class Events(NamedTuple):
    """The mutations of some keys after a fold, one element a key. Those of a key follow each other in the bag."""

    bag: Bag
    first: Ints
    last: Ints

    @property
    def deletes(self) -> Flags:
        """Whether the last mutation is a delete."""
        found: Flags = self.bag.rows("deletes", self.last)
        return found

    def chosen(self, keys: Ints) -> Events:
        """Return those of some keys. keys: their numbers."""
        return Events(self.bag, self.first[keys], self.last[keys])


class Olds(NamedTuple):
    """The records or tombstones of some keys in a place, one element a key, compared with the last mutation of the key.

    A tombstone counts as one with the order value of the floor, if that is higher.
    """

    kind: str  # RECORD, TOMBSTONE or NOTHING
    older: Flags  # the mutation's order value is lower
    same: Flags  # the mutation is an upsert with the bytes of the record
    orders: Any = None  # None unless the register reads one of the records, or there is a floor
    # As they are written, and a pa.StructArray of their side columns, those of the register among them: of records, if
    # the register reads one of them; of tombstones, NULLs where there is none, if it buries rows.
    rows: Any = None
    sides: Any = None
    floor: Any = None  # that the place had before, which no record is below; an element of a column of order values

    def chosen(self, keys: Ints) -> Olds:
        """Return those of some keys. keys: their numbers."""
        seen = (None if column is None else column.take(keys) for column in (self.orders, self.rows, self.sides))
        return Olds(self.kind, self.older[keys], self.same[keys], *seen)._replace(floor=self.floor)


class Met(NamedTuple):
    """The decisions about some keys."""

    decision: Decision
    keys: Ints  # their numbers
    rows: Any = None  # that are written, a pa.Array; None: those of the last mutations
    orders: Any = None  # that records get, or tombstones; None: likewise
    sides: Any = None  # that records get, a pa.StructArray; None: NULLs, but touched ones keep theirs
    tied: Any = None  # which records and mutations set a field to two values at one time; None: as their rows differ
    late: Any = None  # which keys have something that came late after the seal: ``merge_functions``
    clash: Any = None  # which keys have two values of a merge function with one order value


class Mutation(NamedTuple):
    """One mutation. place: its precedence, the order value first."""

    place: tuple[Any, ...]
    is_delete: bool
    row: bytes
    unset: bytes | None = None  # a bit for each field that it leaves unset; None: none, or it is a delete

    @property
    def order(self) -> Any:
        """The order value."""
        return self.place[0]


class Folded(NamedTuple):
    """The mutations of one key after a fold."""

    last: Mutation
    mutations: int  # before the fold
    mixed: bool  # those with the order value and sequence of the last one are not all the same
    upserts: bool  # one of them is an upsert
    left: tuple[Mutation, ...] = ()  # by their precedence; none: only the last one is


class Old(NamedTuple):
    """The record or tombstone of one key in a place. order: that a mutation of the run meets."""

    kind: str
    order: Any = None
    row: bytes = b""
    sides: tuple[Any, ...] = ()  # of a record, the values of the register's side columns
    floor: Any = None  # as in ``Olds``


class KeyMet(NamedTuple):
    """The decision about one key."""

    decision: Decision
    row: bytes | None = None  # that is written; None: that of the last mutation
    order: Any = None  # that the record gets, or the tombstone; None: likewise
    sides: tuple[Any, ...] = ()  # that the record gets, the values of the register's side columns; (): as in ``Met``
    tied: bool | None = None  # as in ``Met``
    late: bool = False  # as in ``Met``
    clash: bool = False  # likewise


class RowFields(Protocol):
    """The fields of written rows. Immutable, and the same in every process."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields; of delimited text, their ordinals."""

    def columns(self, rows: Any) -> list[Any]:
        """Return a pa.Array for each field. rows: pa.Array."""

    def rows(self, columns: Sequence[Any]) -> Any:
        """Return the rows, a pa.Array, that have these fields."""

    def null(self, number: int) -> Any:
        """Return NULL as a field has it, a pa.Array of one element."""

    def parts(self, row: bytes) -> list[Any]:
        """Return the fields of one row, for the records engine."""

    def whole(self, parts: Sequence[Any]) -> bytes:
        """Return the row that has these fields."""

    def null_part(self, number: int) -> Any:
        """Return NULL as a field of one row has it."""

    def value_type(self, number: int) -> Any:
        """Return the Arrow type of the values of a field."""

    def values(self, number: int, column: Any) -> Any:
        """Return the values that merge functions take of a column of a field, a pa.Array; NULL for NULL."""

    def from_values(self, number: int, values: Any) -> Any:
        """Return the column of a field that has some values; the inverse of ``values``."""

    def column(self, number: int, parts: Sequence[Any]) -> Any:
        """Return a column of one field of several rows; ``part`` takes one out of it."""

    def part(self, number: int, column: Any) -> Any:
        """Return the field that a column of one element has."""


class Folding(Protocol):
    """What leaves fewer mutations of a bag."""

    def fold(self, bag: Bag) -> tuple[Ints, dict[str, Any]]:
        """Return the mutations that are left, as ``Register.fold`` does."""


class Register(ABC):
    """What the mutations of a key become. Immutable, and the same in every process."""

    full: bool = False  # the feed is a snapshot
    leaves_one: bool = True  # a fold leaves one mutation of a key
    by_order: bool = False  # each order value of a key has a record or tombstone of its own
    side_columns: tuple[Any, ...] = ()  # that it keeps beside each row, pa.Fields; only with ``reads_rows``
    buries_rows: bool = False  # rows that are not yet records, and their side columns, are kept beside tombstones
    reads_rows: bool = False  # it must see the order values and rows of records, those that ``reads`` chooses
    compares_rows: bool = False  # of a record that it sees, ``Olds.same`` is not needed

    @property
    def one_decides(self) -> bool:
        """Whether a key has one record or tombstone, and one mutation decides about it."""
        return self.leaves_one and not self.by_order

    @property
    @abstractmethod
    def replacing(self) -> Register:
        """The register that decides in partitions that the feed replaces."""

    @abstractmethod
    def fold(self, bag: Bag) -> tuple[Ints, dict[str, Any]]:
        """Return the mutations that are left of each key, and those of their columns that differ.

        The first are row numbers, by hash; those of a key follow each other, by their precedence. The others are
        counts, mixed and upserts; none where nothing was folded. Counts must add up to those of the bag.
        """

    @abstractmethod
    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        """Decide about some keys; each is in one of the results. floor: an element of a column of order values."""

    def truncated(self, olds: Olds, floor: Any) -> Iterator[Met]:
        """Decide about records that a truncate changes, and that have no mutation. They are not older than the floor.

        Called in a run that raises the floor, and only if the register has side columns.
        """
        return iter(())

    def reads(self, events: Events, beside: Flags, newer: Flags) -> Flags:
        """Return which records the register must see; a table does not read the others.

        events: of the keys of the records. beside: which records have a value in a side column. newer: which last
        mutations have a higher order value than the record; needed only for those records.
        """
        return np.full(len(beside), self.reads_rows)

    def unread(self, events: Events, orders: Any) -> Sequence[str]:
        """Return the fields that the records which it must see may lack: they are NULL.

        events: of the keys of the records. orders: of the records. Rows with other order values differ in other fields.
        """
        return ()

    def moves_by_record(self, events: Events) -> Flags:
        """Return which keys may get a row whose partition is that of the record, and not of the last mutation.

        That of a row that waits is never known.
        """
        return np.full(len(events.last), self.reads_rows)

    def settled(self, beside: Any) -> Any:
        """Return side columns, a pa.Table, as a directory keeps them: without values of what the rows lack now."""
        return beside

    @abstractmethod
    def fold_key(self, mutations: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> Folded:
        """Fold the mutations of one key, in the order of their precedence; there is at least one.

        mutations: (precedence, (is delete, row)) or (precedence, (is delete, row, unset)), as the records engine has
        them.
        """

    @abstractmethod
    def meet_key(self, folded: Folded | None, old: Old, floor: Any = None) -> KeyMet:
        """Decide about one key. folded: None if the feed has no mutation of it. old: as in ``Olds``."""

    @property
    @abstractmethod
    def buries_absent(self) -> bool:
        """Whether a record that has no mutation is deleted by absence."""

    def absent(self, replaced: Flags | None) -> Any:
        """Return ``buries_absent`` of some records. replaced: which are in replaced partitions; None: none is."""
        own = self.buries_absent
        return own if replaced is None else np.where(replaced, self.replacing.buries_absent, own)

    @abstractmethod
    def line(self, folded: Folded | None, old: Old, floor: Any = None) -> str:
        """Return the rule that decided about one key, for people."""

    @abstractmethod
    def decisions(self, kind: str) -> Iterator[Decision]:
        """Yield all decisions that a last mutation can lead to. kind: upsert or delete."""


def no_sides(count: int, wanted: Sequence[Any]) -> Any:
    """Return side columns of some rows without values, a pa.StructArray. wanted: the fields."""
    if not wanted:
        return pa.nulls(count, pa.struct([]))
    return pa.StructArray.from_arrays([pa.nulls(count, one.type) for one in wanted], fields=list(wanted))


def with_values(sides: Any) -> Flags:
    """Return which rows have a value other than NULL in a side column. sides: pa.StructArray."""
    found = np.zeros(len(sides), np.bool_)
    for column in sides.flatten():
        if column.null_count < len(column):
            found |= flags(column.is_valid())
    return found
