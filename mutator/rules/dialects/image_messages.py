"""Messages with the images of a record in members of their own: what Maxwell, Canal and GoldenGate share.

A file may have messages of several tables and messages that are no rows, with members of their own, so only the members
that say something are read. The fields are those of the images of one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags
from mutator.rules.dialects.messages import (
    FIELD,
    ORDER_TYPES,
    SHOWN,
    MessageRows,
    OrderPart,
    is_rejected,
    named_keys,
    of_other_table,
    other_table,
    rejected,
    table_name,
)
from mutator.rules.envelope import FirstOfFile, Unwrapped
from mutator.rules.json_paths import NULLS, OTHERS
from mutator.rules.order_columns import flags

Columns = Mapping[str, Any]
Members = Mapping[str, bytes | None]  # of an object, the texts of their values
Texts = Sequence[bytes | None]
Changes = str | list[tuple[Members, Members]]  # images before and after, or why a message is a reject
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NAMES = msgspec.json.Decoder(list[str])
_TEXT = msgspec.json.Decoder(str)


def objects_in_list(text: bytes | None) -> list[Members] | None:
    """Return the objects in a JSON array; None if it is no array of objects, or if one has a member twice.

    >>> objects_in_list(b'[{"a":"x","b":null},{"a":1.50}]'), objects_in_list(b'[1]')
    ([{'a': b'x', 'b': None}, {'a': b'1.50'}], None)
    """
    try:
        found = [object_in(bytes(one)) for one in _LIST.decode(text or b"")]
    except (msgspec.DecodeError, RecursionError):
        return None
    whole = [one for one in found if one is not None]
    return whole if len(whole) == len(found) else None


def object_in(text: bytes) -> Members | None:
    """Return the object in JSON; None if it is no object, or if it has a member twice.

    >>> object_in(b'{"a": "1", "b": 2}'), object_in(b'{"a":1,"a":1}')
    ({'a': b'1', 'b': b'2'}, None)
    """
    try:
        found = {name: bytes(value) for name, value in _OBJECT.decode(text).items()}
        size = 1 + sum(len(name.encode()) + 4 + len(value) for name, value in found.items())
        # Nearly all programs write no blanks, or one after each comma and colon
        if len(text) not in (size, size + 2 * len(found) - 1) and _has_one_twice(text):
            return None
        return {name: _text(value) for name, value in found.items()}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _has_one_twice(text: bytes) -> bool:
    """Return whether the object in JSON has a member twice."""
    counts = list[bool]()  # of the objects in it, then its own
    json.loads(text, object_pairs_hook=lambda pairs: counts.append(len(dict(pairs)) < len(pairs)))
    return counts[-1]


def _text(value: bytes) -> bytes | None:
    if value == b"null":
        return None
    return _TEXT.decode(value).encode() if value.startswith(b'"') else value


def names_in(text: bytes) -> Sequence[str]:
    """Return the names in a JSON array; none if it is another value.

    >>> names_in(b'["a","b"]'), names_in(b'"a"')
    (['a', 'b'], [])
    """
    try:
        return _NAMES.decode(text)
    except msgspec.DecodeError:
        return []


def columns_of(objects: Sequence[Members], names: Iterable[str]) -> dict[str, Any]:
    """Return the members of objects as columns of text."""
    return {name: pa.array([one.get(name) for one in objects], pa.large_binary()) for name in names}


def no_object(image: str) -> str:
    """Return the reason of a row without an image that can be read."""
    return f"has no JSON object in '{image}', or one with a member twice"


def unknown_member(image: str, name: str) -> str:
    """Return the reason of a row with a member that is no field."""
    return f"has the member '{image}.{name}', which none of the first rows has; name it in output.schema"


@dataclass(frozen=True, kw_only=True)
class ImageMessages(MessageRows):
    """The envelope of these messages."""

    changes_keys = True
    title: ClassVar[str]  # of the program that writes them
    images: ClassVar[tuple[str, ...]]  # the members with images
    of_table: ClassVar[tuple[str, ...]]  # those that name the table, or its schema and the table
    says: ClassVar[tuple[str, ...]]  # the other members that are read, or their paths
    objects: ClassVar[tuple[str, ...]] = ()  # the members for ``changes_in``
    cure: ClassVar[str]  # a part of a message: how the fields that order messages come into them
    unordered: ClassVar[frozenset[bytes]] = frozenset()  # op codes of rows that are older than every other
    parts: ClassVar[tuple[OrderPart, ...]]  # all fields that may order, the decisive first
    times: ClassVar[tuple[OrderPart, ...]] = ()  # that changes of one transaction share
    key_members: ClassVar[tuple[str, ...]] = ()  # the members that may name the fields of the ID
    orders: tuple[OrderPart, ...] = ()  # those that do
    fields_of_table: Any = None  # pa.Schema
    leaves_unset: bool = False  # a field that an update lacks was not sent; False: it is NULL

    def table_of(self, columns: Columns) -> Sequence[str | None]:
        """Return the table of each message."""
        names = zip(*(columns[name].to_pylist() for name in self.of_table), strict=True)
        return [table_name(None, *(None, *one)[-2:]) for one in names]

    def orders_of(self, columns: Columns) -> tuple[OrderPart, ...]:
        """Return the fields that order messages such as the first ones of a file; none if nothing does."""
        values = columns[self.parts[0].path]
        return self.parts if values.null_count < len(values) else ()

    def changes_in(self, code: bytes | None, objects: Texts, known: Set[str]) -> Changes:
        """Return the images before and after each change in a message, or why it is a reject.

        objects: the texts of the members ``objects``. known: the fields of the table.
        """
        raise NotImplementedError

    @property
    def _acts(self) -> frozenset[bytes]:
        """The op codes of messages that change a table."""
        return frozenset((self.delete, *(self.upsert_codes or ()), *self.truncate_codes))

    @property
    def beside(self) -> tuple[str, ...]:
        """The fields of rows of records that order them, and are no fields of the records."""
        return tuple(part.name for part in (*self.parts, *self.times))

    @property
    def order(self) -> tuple[tuple[str, str], ...]:
        """The fields that order messages."""
        return tuple((part.name, part.type) for part in self.orders)

    def for_file(self, schema: Any, first: FirstOfFile, keys: Sequence[Any]) -> Self:
        """Return the envelope of a file: with its table, its fields, and what orders it."""
        own = replace(self, keys=named_keys(keys))
        names = [self.kind, *self.says, *self.images]
        batch = first.batch(self.file_schema(schema, ()), names)
        if batch is None:
            return replace(own, about=self.table)
        columns = dict(zip(names, batch.columns, strict=True))
        tables = [
            table if self.codes.get(kind) in self._acts else None
            for kind, table in zip(columns[self.kind].to_pylist(), self.table_of(columns), strict=True)
        ]
        about = self.table or next((table for table in tables if table is not None), None)
        mine = pa.array([table is not None and table == about for table in tables], pa.bool_())
        columns = {name: column.filter(mine) for name, column in columns.items()}
        orders, fields = self.orders_of(columns), self.fields_in(columns, first)
        return replace(own, about=about, orders=orders, fields_of_table=fields)

    def tables(self, schema: Any, first: FirstOfFile) -> Sequence[str]:
        """Return the tables of the messages that change one."""
        names = [self.kind, *self.says]
        batch = first.batch(self.file_schema(schema, ()), names)
        if batch is None:
            return ()
        columns = dict(zip(names, batch.columns, strict=True))
        pairs = zip(columns[self.kind].to_pylist(), self.table_of(columns), strict=True)
        return [table for kind, table in pairs if table is not None and self.codes.get(kind) in self._acts]

    def key_in(self, schema: Any, first: FirstOfFile) -> tuple[Sequence[str], str]:
        """Return the key in the first message of the table that names it."""
        member = next((name for name in self.key_members if name in schema.names), None)
        if member is None:
            return (), ""
        names = [self.kind, *self.says, member]
        text = pa.schema([one.with_type(pa.string()) if one.name == member else one for one in schema])
        batch = first.batch(self.file_schema(text, ()), names)
        columns = {} if batch is None else dict(zip(names, batch.columns, strict=True))
        tables = self.table_of(columns) if columns else []
        texts = (text for text, table in zip(columns.get(member, ()), tables, strict=True) if table == self.about)
        found = next((names_in(text.as_py()) for text in texts if text.is_valid), ())
        return found, f"'{member}' of the messages"

    def fields_in(self, columns: Columns, first: FirstOfFile) -> Any:
        """Return the pa.Schema of the fields of a table in its messages."""
        texts = [text for name in self.images for text in columns[name].to_pylist() if (text or b"").startswith(b"{")]
        return first.members(texts) if texts else pa.schema([])

    def record_schema(self, schema: Any) -> Any:
        """Return the fields of the table, what rows do, and what orders them. Raises ValueError for another file."""
        if len(schema) and schema.get_field_index(self.kind.partition(".")[0]) < 0:
            raise ValueError(f"has no messages of {self.title} (it has {', '.join(schema.names)})")
        fields = list(self.fields_of_table or ())
        clash = next((one.name for one in fields if one.name in (FIELD, *self.beside)), None)
        if clash is not None:
            raise ValueError(f"has a column {clash}, which is the name of another field here")
        parts = ((one.name, ORDER_TYPES[one.type]) for one in (*self.parts, *self.times))
        return pa.schema([*fields, (FIELD, pa.string()), *parts])

    def file_schema(self, schema: Any, records: Any) -> Any:
        """Return the schema to read a file with: that of all messages."""
        members, inner = {one.name: one for one in schema}, dict[str, list[Any]]()
        for name in (self.kind, *self.says, *self.images):
            outer, dot, own = name.partition(".")
            members[outer] = pa.field(outer, pa.string())
            if dot:
                inner.setdefault(outer, []).append((own, pa.string()))
        objects = {name: pa.field(name, pa.struct(own), metadata={OTHERS: b""}) for name, own in inner.items()}
        return pa.schema([*(members | objects).values()], metadata={NULLS: b"", OTHERS: b""})

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        """Return the members that say what a message is, and the images."""
        return [self.kind, *self.says, *self.images]

    def said(self, columns: Columns) -> list[bytes | None]:
        """Return what each message says. Raises Unclear if it has rows of several tables."""
        found: list[bytes | None] = []
        is_null = np.logical_and.reduce([flags(column.is_null()) for column in columns.values()])
        rows = zip(columns[self.kind].to_pylist(), self.table_of(columns), is_null.tolist(), strict=True)
        for kind, table, nothing in rows:
            code = self.codes.get(kind)
            if kind is None:
                code = b"tombstone" if nothing else rejected(f"has no {self.kind}, so it is no message of {self.title}")
            elif code is None:
                shown = kind[:SHOWN].decode(errors="replace")
                code = rejected(f"has the {self.kind} '{shown}', which {self.title} does not write")
            elif code in self.ignore_codes:
                pass
            elif table is None and self.about is not None:
                code = rejected("has no table")
            elif not self.is_own(table):
                code = of_other_table(table)
            found.append(code)
        return found

    def unwrap(self, batch: Any, records: Any) -> Unwrapped:
        """Return a row for each change in a message, or two for one that changes the key."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        orders = self.order_columns(columns, records)
        names = [one.name for one in records if one.name not in (FIELD, *self.beside)]
        known = {*names, *(one.name for one in self.fields_of_table or ())}
        acts = {self.delete, *(self.upsert_codes or ())}
        codes, images, rows = list[bytes | None](), list[tuple[Members, Members]](), list[int]()
        texts = zip(*(columns[name].to_pylist() for name in self.objects), strict=True)
        for row, (code, objects) in enumerate(zip(self.ordered(self.said(columns), orders), texts, strict=True)):
            found = self.changes_in(code, objects, known) if code in acts else [({}, {})]
            if isinstance(found, str):
                code, found = rejected(found), [({}, {})]
            codes += [code] * len(found)
            rows += [row] * len(found)
            images += found
        before, after = (
            columns_of([one[side] for one in images], dict.fromkeys((*names, *self.keys))) for side in (0, 1)
        )
        codes = self.keyed(codes, before, after)
        unset = self._absent(codes, [one for _, one in images], names) if self.leaves_unset else {}
        if len(rows) == len(batch):
            return self.changes(codes, (before, after), orders, records, unset=unset)
        index = np.array(rows, np.int64)
        orders = {name: column.take(pa.array(index)) for name, column in orders.items()}
        return self._last_of_each(self.changes(codes, (before, after), orders, records, index, unset))

    def _absent(
        self, codes: Sequence[bytes | None], images: Sequence[Members], names: Sequence[str]
    ) -> dict[str, Flags]:
        """Return which updates lack a field, by name; those with any. images: after changes."""
        rows = [row for row, code in enumerate(codes) if code == self.update]
        found = {name: np.zeros(len(codes), np.bool_) for name in names}
        for name, absent in found.items():
            absent[rows] = [name not in images[row] for row in rows]
        return {name: absent for name, absent in found.items() if absent.any()}

    def _last_of_each(self, found: Unwrapped) -> Unwrapped:
        """Return rows without the changes that another one in the same message replaces.

        A record that got the key of one that left it in the same statement did not move onto a living one, so it is not
        beside the delete of its own old key: ``key_moves.arrivals``.
        """
        assert found.rows is not None
        acts = {self.delete, *(self.upsert_codes or ())}
        codes = found.batch.column(FIELD).to_pylist()
        keys = zip(*(found.batch.column(name).to_pylist() for name in self.keys), strict=True)
        last, turns = dict[Any, int](), np.ones(len(codes), np.int64)
        for row, (number, code, key) in enumerate(zip(found.rows.tolist(), codes, keys, strict=True)):
            before = last.get((number, key))
            if code in acts and before is not None and code != codes[before] and self.delete in (code, codes[before]):
                got = before if code == self.delete else row
                turns[got] = 0
                if got and codes[got - 1] == self.delete and found.rows[got - 1] == number:
                    turns[got - 1] = 2
                last[number, key] = got
            else:
                last[(number, key) if code in acts else row] = row
        kept = np.sort(np.fromiter(last.values(), np.int64, len(last)))
        kept = kept[np.lexsort((turns[kept], found.rows[kept]))]
        unset = {name: own[kept] for name, own in found.unset.items()}
        return found._replace(batch=found.batch.take(pa.array(kept)), rows=found.rows[kept], unset=unset)

    def order_columns(self, columns: Columns, records: Any) -> dict[str, Any]:
        """Return the columns of the fields that order, as far as the run reads them."""
        parts = [part for part in (*self.parts, *self.times) if part.name in records.names]
        return {part.name: part.values(columns[part.path]) for part in parts}

    def ordered(self, codes: Sequence[bytes | None], orders: Columns) -> list[bytes | None]:
        """Return op codes; of rows without the first of the fields that order, the reason of a reject."""
        parts = [part for part in self.parts if part.name in orders]
        if not parts:
            return [*codes]
        missing = orders[parts[0].name].is_null().to_pylist()
        others = {None, *self.ignore_codes, *self.unordered}
        reason = rejected(f"has no {parts[0].path} that can be read, which orders messages; {self.cure}")
        return [
            reason if lacks and code not in others and not is_rejected(code) and other_table(code) is None else code
            for code, lacks in zip(codes, missing, strict=True)
        ]

    def keyed(self, codes: Sequence[bytes | None], before: Columns, after: Columns) -> list[bytes | None]:
        """Return op codes; of changes without any field of the ID in their image, the reason of a reject."""
        found = [*codes]
        acts = ((before, self.images[0], {self.delete}), (after, self.images[-1], self.upsert_codes or ()))
        for columns, image, own in acts:
            lacks = np.ones(len(codes), np.bool_)
            for key in self.keys:
                lacks &= flags(columns[key].is_null())
            for row in np.flatnonzero(lacks).tolist():
                if codes[row] in own:
                    found[row] = rejected(f"has no field of the ID in '{image}'")
        return found
