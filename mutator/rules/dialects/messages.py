"""What the envelopes of messages share: rejects, tables, the fields that order, and the rows that images become.

An image is a record before or after a change. A change is one row, or two where the images have other keys: a delete of
the old key, and an upsert of the new one.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.envelope import IGNORED, REJECTED, OpCodeField, Operation, Unclear, Unwrapped, other_subjects
from mutator.rules.order_columns import flags

FIELD = "__op"  # of the rows of records: what they do
SHOWN = 40  # bytes of an unknown op
_REJECT = b"reject: "  # before the reason, as the op code of a row
_OTHER = b"other table "  # before the name of a table whose rows are not taken, as the op code of a row
_BYTES = pa.large_binary()
_SETS_ALL: Mapping[str, Flags] = MappingProxyType({})

ORDER_TYPES = {"long": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC")}


def with_values(column: Any, rows: Ints, values: Any) -> Any:
    """Return a column with other values in some rows. Raises Unclear if these are of another form.

    values: pa.Array, of the column's type, or text.

    >>> with_values(pa.array([1, None, 3]), np.array([1]), pa.array([b"2"], pa.large_binary())).to_pylist()
    [1, 2, 3]
    """
    if values.type != column.type:
        try:
            values = _of_type(values, column.type)
        except (pa.ArrowException, ValueError):
            what = f"has a key of type {values.type} in its file of keys, and {column.type} in its messages"
            raise Unclear(what, "have keys and messages written in the same format") from None
    index = np.arange(len(column))
    index[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column, values]).take(pa.array(index))


def _of_type(values: Any, data_type: Any) -> Any:
    """Return text as values, or values as text; binary values are base64 there."""
    for binary, read in ((data_type, partial(b64decode, validate=True)), (values.type, b64encode)):
        if pa.types.is_binary(binary):
            return pa.array([None if one is None else read(one) for one in values.to_pylist()], data_type)
    return values.cast(pa.large_string()).cast(data_type)


class Codes:
    """The op codes of rows, of which few differ.

    >>> codes = Codes.of([b"c", b"d", b"c", None])
    >>> codes.put(np.array([1, 2]), b"u")
    >>> codes.are({b"u"}).tolist(), codes.column().to_pylist()
    ([False, True, True, False], [b'c', b'u', b'u', None])
    """

    def __init__(self, said: Iterable[bytes | None], numbers: Ints) -> None:
        """said: the codes; some may not occur, or occur twice. numbers: of the code of each row among these."""
        self._said, self._numbers = [*said], numbers

    @classmethod
    def of(cls, codes: Codes | Sequence[bytes | None]) -> Codes:
        """Return codes that may be changed."""
        if isinstance(codes, Codes):
            return cls(codes._said, codes._numbers.copy())
        known = dict[bytes | None, int]()
        numbers = np.fromiter((known.setdefault(code, len(known)) for code in codes), np.int64, len(codes))
        return cls(known, numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def are(self, codes: Container[bytes | None]) -> Flags:
        """Return which rows have one of some codes."""
        return self.fit(codes.__contains__)

    def fit(self, is_it: Callable[[bytes | None], bool]) -> Flags:
        """Return which rows have a code that a function returns True for."""
        found: Flags = np.array([is_it(code) for code in self._said], np.bool_)[self._numbers]
        return found

    def put(self, rows: Ints, code: bytes | None) -> None:
        """Give some rows another code. rows: their numbers."""
        self._numbers[rows] = len(self._said)
        self._said.append(code)

    def put_each(self, rows: Ints, codes: Codes) -> None:
        """Give each of some rows another code."""
        self._numbers[rows] = len(self._said) + codes._numbers
        self._said += codes._said

    def take(self, rows: Ints) -> Codes:
        """Return the codes of some rows."""
        return Codes(self._said, self._numbers[rows])

    def column(self) -> Any:
        """Return a pa.Array of large_binary."""
        return pa.array(self._said, _BYTES).take(pa.array(self._numbers))


class OrderPart(NamedTuple):
    """A field that orders mutations, of the rows of records."""

    name: str  # the path of the member that it is made of, or of a part of it
    type: str  # long, string or timestamp
    path: str
    pattern: str = ""  # of the part

    def values(self, column: Any) -> Any:
        """Return the values of the field. column: of the member."""
        if not self.pattern:
            return column
        found = pc.struct_field(pc.extract_regex(column, self.pattern), "part")
        return pc.if_else(pc.fill_null(pc.not_equal(found, b""), False), found, pa.scalar(None, _BYTES)).cast(_BYTES)


def is_text(data_type: Any) -> bool:
    """Return whether values are text, or may be bytes of text."""
    types = pa.types
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(of(data_type) for of in texts)


def rejected(reason: str) -> bytes:
    """Return the op code of a row that is a reject."""
    return _REJECT + reason.encode()


def is_rejected(code: bytes | None) -> bool:
    """Return whether an op code is that of a reject."""
    return code is not None and code.startswith(_REJECT)


def distinct(columns: Sequence[Any]) -> tuple[list[tuple[bytes | None, ...]], Ints]:
    """Return the distinct rows of some columns of a few values, and the number of the one of each row.

    >>> distinct([pa.array([b"c", b"u", b"c"]), pa.array([b"a", None, b"a"])])
    ([(b'c', b'a'), (b'u', None)], array([0, 1, 0]))
    """
    rows, count = len(columns[0]), 1
    numbers = np.zeros(rows, np.int64)
    for column in columns:
        coded = column.dictionary_encode()
        size = len(coded.dictionary) + 1
        if size == 2 and not coded.null_count:
            continue
        numbers = numbers * size + coded.indices.fill_null(size - 1).to_numpy()
        if count * size > 2 * rows:
            numbers = np.unique(numbers, return_inverse=True)[1]
        else:  # a sort is slower
            there = np.zeros(count * size, np.int64)
            there[numbers] = 1
            numbers = (np.cumsum(there) - 1)[numbers]
        count = int(numbers.max(initial=-1)) + 1
    first = np.zeros(count if rows else 0, np.int64)
    first[numbers[::-1]] = np.arange(rows)[::-1]
    return [*zip(*(column.take(pa.array(first)).to_pylist() for column in columns), strict=True)], numbers


def of_other_table(name: str | None) -> bytes:
    """Return the op code of a row of a table whose rows are not taken."""
    return _OTHER + (name or "without a name").encode()


def other_table(code: bytes | None) -> str | None:
    """Return the name of the table of a row that is not taken; None for other op codes.

    >>> other_table(of_other_table("public.orders")), other_table(b"u")
    ('public.orders', None)
    """
    return code.removeprefix(_OTHER).decode() if code is not None and code.startswith(_OTHER) else None


def table_name(schema: bytes | None, database: bytes | None, table: bytes | None) -> str | None:
    """Return the name of a table, as ``feed.table`` has it."""
    around = schema or database
    if table is None:
        return None
    return (table if around is None else around + b"." + table).decode("utf-8", "replace")


def named_keys(keys: Sequence[Any]) -> tuple[str, ...]:
    """Return the fields of the ID. Raises ValueError if one is an ordinal."""
    ordinal = next((key for key in keys if not isinstance(key, str)), None)
    if ordinal is not None:
        raise ValueError(f"has fields with names, and the ID is field {ordinal}; name it")
    return tuple(keys)


@dataclass(frozen=True, kw_only=True)
class MessageRows(OpCodeField):
    """What all dialects of messages share."""

    unwraps = True
    update: ClassVar[bytes] = b"update"  # op codes
    delete: ClassVar[bytes] = b"delete"
    kind: ClassVar[str] = ""  # the member that says what a message is, or its path; "": the field
    codes: ClassVar[Mapping[bytes, bytes]] = {}  # value of that member -> op code, where these differ
    no_key: ClassVar[str] = ""  # why a delete without a key is a reject, where a file of keys may have it
    sends_all: ClassVar[str] = ""  # a part of a message: how the values of all fields come into messages
    moved_unset: str | None = None  # reject: a row with a new key must not leave fields unset
    table: str | None = None  # schema.table, as the user gives it
    others: tuple[str, ...] | None = None  # other tables that the feed may have rows of; None: any
    keys: tuple[str, ...] = ()

    def operation(self, value: bytes) -> Operation:
        """Look up an op code, the name of another table, or the reason of a reject."""
        if other_table(value) is not None:
            return Operation(IGNORED, value)
        if is_rejected(value):
            return Operation(REJECTED, None, value.removeprefix(_REJECT).decode())
        return super().operation(value)

    def spelled(self, codes: Collection[bytes]) -> tuple[Any, Collection[bytes]]:
        """Return the member that says what a message does, and its values."""
        return self.kind or self.field, [value for value, code in self.codes.items() if code in codes] or codes

    @property
    def carries(self) -> bool:
        """Whether a row with a new key may leave fields unset, which the row of its old key has."""
        return self.moved_unset != "reject"

    def rejecting_moves(self) -> Self:
        """Return the envelope of rows whose new keys come with all fields, or are rejects."""
        return replace(self, moved_unset="reject")

    @property
    def keyless_delete(self) -> bytes | None:
        """The code of deletes without a key."""
        return rejected(self.no_key) if self.no_key else None

    def is_own(self, name: str | None) -> bool:
        """Return whether rows of a table are taken. Raises Unclear if nothing says so."""
        if self.table is None and self.about != name:  # else about is the table that is wanted
            raise other_subjects(self.about, name)
        return self.table in (None, name)

    def values(self, name: str, column: Any, data_type: Any) -> tuple[Any, Flags, str]:
        """Return the values of a column, which rows have other values, and why."""
        return column, np.zeros(len(column), np.bool_), ""

    def changes(
        self,
        codes: Codes | Sequence[bytes | None],
        images: tuple[Mapping[str, Any], Mapping[str, Any]],
        orders: Mapping[str, Any],
        records: Any,
        rows: Ints | None = None,
        unset: Mapping[str, Flags] = _SETS_ALL,
    ) -> Unwrapped:
        """Return a row for each change, or two for one that changes the key.

        images: the columns before and after, of the same names and of the key. orders: columns. records: as for
        ``unwrap``. rows: the number of the row of the file that each change is in; None: each is of its own. unset:
        which changes have no value of a field, by name. An update leaves it unset; one with a new key takes it from the
        image before, or ``carries`` it.
        """
        codes, (before, after) = Codes.of(codes), images
        updates = codes.are({self.update})
        moved = self._moved(before, after, updates)
        if unset:
            # Of several changes in a row of the file, one may replace another
            alone = np.ones(len(codes), np.bool_) if rows is None else np.bincount(rows)[rows] == 1
            may = updates & ~moved
            if self.carries:
                after, unset = self._from_before(images, unset, moved & alone)
                may |= self.may_lack(codes, updates) & alone
            codes, after, unset = self.with_unset(codes, after, unset, may)
            moved &= codes.are({self.update})
        if moved.any():  # the delete is the first of two rows
            index = np.repeat(np.arange(len(codes)), np.where(moved, 2, 1))
            codes = codes.take(index)
            codes.put(np.flatnonzero(index[1:] == index[:-1]), self.delete)
            before, after, orders = (
                {name: column.take(pa.array(index)) for name, column in columns.items()}
                for columns in (before, after, orders)
            )
            rows = index if rows is None else rows[index]
            unset = {name: own[index] for name, own in unset.items()}
        delete = codes.are({self.delete})
        # People look for the record of a reject.
        acts = delete | codes.are(self.upsert_codes or ()) | codes.fit(is_rejected)
        found = dict[str, Any]()
        for name, column in after.items():
            if records.get_field_index(name) < 0:
                continue
            if delete.any():
                column = pc.if_else(pa.array(delete), before[name], column)
            if not acts.all():
                column = pc.if_else(pa.array(acts), column, pa.scalar(None, column.type))
            values, bad, why = self.values(name, column, records.field(name).type)
            bad = bad if name in self.keys else bad & ~delete
            if bad.any():
                codes.put(np.flatnonzero(bad & ~codes.fit(is_rejected)), rejected(f"field {name} {why}"))
            found[name] = values
        found |= orders
        found[FIELD] = codes.column()
        unset = {name: own for name, own in unset.items() if name in found}
        return Unwrapped(pa.RecordBatch.from_arrays([*found.values()], [*found]), rows, True, unset)

    def may_lack(self, codes: Codes | Sequence[bytes | None], updates: Flags) -> Flags:
        """Return which rows may leave fields unset. updates: those that update a record."""
        if not self.carries or self.arrival is None:
            return updates
        return updates | Codes.of(codes).are({self.arrival})

    def _from_before(
        self, images: tuple[Mapping[str, Any], Mapping[str, Any]], unset: Mapping[str, Flags], moved: Flags
    ) -> tuple[Mapping[str, Any], Mapping[str, Flags]]:
        """Return images after changes of keys with what those before have, and which changes lack a field still."""
        before, after = images
        columns, found = {**after}, {**unset}
        for name, own in unset.items():
            filled = own & moved & ~self.lacks(before[name])
            if filled.any():  # Arrow cannot choose between lists
                columns[name] = pc.if_else(pa.array(filled), before[name], after[name])
                found[name] = own & ~filled
        return columns, {name: own for name, own in found.items() if own.any()}

    def lacks(self, column: Any) -> Flags:
        """Return where an image before a change has no value of a field. column: of the image."""
        return flags(column.is_null())

    def with_unset(
        self,
        codes: Codes | Sequence[bytes | None],
        after: Mapping[str, Any],
        unset: Mapping[str, Flags],
        may: Flags,
    ) -> tuple[Codes, dict[str, Any], dict[str, Flags]]:
        """Return op codes, images after changes, and which changes leave a field unset, which is NULL there.

        Others are rejects, if they are upserts. may: which changes may leave fields unset.
        """
        codes, found, columns = Codes.of(codes), dict[str, Flags](), {**after}
        for name, own in unset.items():
            reason = rejected(f"field {name} is not sent with a new key, so no record has its value; {self.sends_all}")
            codes.put(np.flatnonzero(own & ~may & codes.are(self.upsert_codes or ())), reason)
            found[name] = own & may
            columns[name] = pc.if_else(pa.array(found[name]), pa.scalar(None, after[name].type), after[name])
        return codes, columns, found

    def _moved(self, before: Mapping[str, Any], after: Mapping[str, Any], updates: Flags) -> Flags:
        """Return which updates have another key in the image before."""
        moved, has_key = np.zeros(len(updates), np.bool_), updates.copy()
        for key in self.keys:
            has_key &= flags(before[key].is_valid()) & flags(after[key].is_valid())
            moved |= _differ(before[key], after[key])
        return moved & has_key


def _differ(one: Any, other: Any) -> Flags:
    """Return which elements of two pa.Arrays differ; NULL is alike to all."""
    if pa.types.is_nested(one.type):  # a decimal with a scale of its own
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.array([left != right and None not in (left, right) for left, right in pairs], np.bool_)
    return flags(pc.fill_null(pc.not_equal(one, other), False))
