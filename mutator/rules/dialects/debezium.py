"""The envelopes of Debezium's messages: ``before``, ``after``, ``source`` and ``op``.

Those of JSON have a schema or not; ``debezium_avro`` reads the others.

    c r u    upsert of ``after``. Where ``before`` has another key, it is deleted as well
    d        delete of the key in ``before``
    t        truncate
    m, and messages without ``op``: heartbeats, schema changes, transaction markers, and ``null``, the tombstone
             after a delete. They say nothing of a record, and are counted by kind

What is easily read wrong:

- A value that the database did not send is the text ``__debezium_unavailable_value``, or its bytes, or a list of these.
  An update leaves the field unset. The new half of a changed key (a ``c`` after a ``d``) may have it, too: the value is
  in the row of the old key. Both halves have one position in the log, and the headers that name the keys are no part of
  a file. No other ``c`` has it, and neither has an ``r``.
- A member that ``after`` lacks is NULL: a message has all columns that the table had, so it had no such column.
- Without REPLICA IDENTITY FULL, ``before`` of a delete has NULL, "" or 0 in the fields outside of the key.
- ``ts_ms`` and ``source.ts_ms`` order nothing: the first is the clock of the connector, the second is the same in all
  rows of a transaction. ``ORDERS`` has the fields that do, by connector.
- Without a schema, dates, times and decimals are bare numbers or base64 (``connect_types``).
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags
from mutator.rules.dialects.connect_types import ConnectType, Said, read_without_schema
from mutator.rules.dialects.debezium_messages import (
    ALL_SENT,
    ANY_OF,
    NO_KEY,
    NO_SERVER,
    SAY,
    SERVER,
    TABLE_PATHS,
    TIMES,
    TOTAL,
    column_types,
    objects_in,
    order_parts,
    payload_of,
    prefix_of,
    row_schema,
    schema_of_messages,
    servers_of,
    unranked,
)
from mutator.rules.dialects.messages import (
    FIELD,
    ORDER_TYPES,
    SHOWN,
    Codes,
    MessageRows,
    OrderPart,
    distinct,
    named_keys,
    of_other_table,
    rejected,
    table_name,
    with_values,
)
from mutator.rules.dialects.unsent_values import IN_JSON, IN_VALUES, no_values, unsent
from mutator.rules.envelope import FirstOfFile, Keys, LineMarks, Unwrapped
from mutator.rules.epochs import UNNAMED
from mutator.rules.order_columns import flags

_UPSERTS, _DELETE, _TRUNCATE = {b"c", b"r", b"u"}, b"d", b"t"
CODES = {spelled: code for code in (*_UPSERTS, _DELETE, _TRUNCATE) for spelled in (code, code.upper())}
CODES |= {b"m": b"message", b"M": b"message"}
_ACTS = {*_UPSERTS, _DELETE, _TRUNCATE}
_IMAGES = ("after", "before")
_NEW_KEY = re.compile(rb'"(?:__)?op"\s*:\s*"[cC]"|"before"\s*:\s*\{')  # in a line with a new key
_NEW_MEMBER = "which none of the first rows of the table has; name it in output.schema"


@dataclass(frozen=True, kw_only=True)
class DebeziumRows(MessageRows):
    """What both dialects of Debezium share."""

    update, delete, arrival, kind, no_key = b"u", b"d", b"c", "op", NO_KEY
    sends_all = "REPLICA IDENTITY FULL sends all values"
    unit: str | None = None
    decimals: str | None = None
    key_files: str | None = None  # where the keys of messages are, as the user gives it
    types: Mapping[str, ConnectType] = field(default_factory=dict, hash=False, compare=False)  # from the schema

    @property
    def marks(self) -> LineMarks:
        """The marks of lines with a new key and unset fields."""
        has_lists = not self.types or any(one.is_list for one in self.types.values())
        return LineMarks(IN_JSON if has_lists else IN_VALUES, _NEW_KEY)

    @property
    def typed(self) -> tuple[str, ...]:
        """The columns in the schema of the messages."""
        return tuple(self.types)

    @abstractmethod
    def unwrap(self, batch: Any, records: Any, keys: Keys | None = None) -> Unwrapped:
        """Return rows of records."""

    def lacks(self, column: Any) -> Flags:
        """Return where an image before a change has no value of a field: also what stands for one that is not known."""
        return no_values(column)

    def unwrap_with_keys(self, batch: Any, records: Any, keys: Keys) -> Unwrapped:
        """Return rows of records, with the keys of deletes that have none."""
        return self.unwrap(batch, records, keys)

    def values(self, name: str, column: Any, data_type: Any) -> tuple[Any, Flags, str]:
        """Return the values of a column, which rows have other values, and why."""
        if name in self.types:
            return self.types[name].read(column)
        return read_without_schema(name, column, data_type, Said(self.unit, self.decimals))


@dataclass(frozen=True, kw_only=True)
class DebeziumMessages(DebeziumRows):
    """The envelope of whole messages, in any format."""

    changes_keys = True
    prefix: str = ""  # of the members of a message: payload. beside a schema
    connector: str | None = None
    fields_of_table: Any = None  # pa.Schema, in a file with other tables; None: of the file
    of_any_table: tuple[str, ...] = ()  # members of ``after`` there

    @abstractmethod
    def columns_of(self, batch: Any, records: Any) -> Mapping[str, Any]:
        """Return the members of messages by their paths. Those of images have their types, others are text.

        records: as for ``unwrap``.
        """

    @property
    def beside(self) -> tuple[str, ...]:
        """The fields of rows of records that order them, and are no fields of the records."""
        return tuple(part.name for part in self._parts)

    @property
    def _parts(self) -> tuple[OrderPart, ...]:
        """The fields that can order messages of the connector."""
        return (*order_parts(self.connector), *TIMES)

    @property
    def order(self) -> tuple[tuple[str, str], ...]:
        """The fields that order messages of the connector."""
        parts = () if self.connector is None else order_parts(self.connector)
        return tuple((part.name, part.type) for part in parts)

    @property
    def leaves_unset(self) -> bool:
        """Whether the database may not send a value."""
        return self.connector not in ALL_SENT

    @property
    def change(self) -> tuple[tuple[str, str], ...]:
        """The position of the change in the log."""
        parts = () if self.connector is None else order_parts(self.connector)
        return tuple((part.name, part.type) for part in parts if part is not TOTAL)

    @property
    def epoch(self) -> str | None:
        """The field with the epoch of the server, if its positions are its own."""
        return SERVER.name if SERVER.name in self.beside else None

    def record_schema(self, schema: Any) -> Any:
        """Return the fields of the table, what rows do, and what orders them. Raises ValueError for another file."""
        payload = payload_of(schema, self.prefix)
        known = [objects_in(payload, name) for name in ("after", "before")]
        if payload.get_field_index("after") >= 0 and pa.types.is_string(payload.field("after").type):
            values = [one for one in known if one is not None]
            if not values and payload.get_field_index("updateDescription") >= 0:
                raise ValueError("has text in 'after', as messages of MongoDB have; they cannot be read yet")
        if len(payload) and all(payload.get_field_index(name) < 0 for name in ANY_OF):
            raise ValueError(f"has no messages of Debezium (it has {', '.join(payload.names)})")
        fields = dict[str, Any]()
        for one in known if self.fields_of_table is None else [self.fields_of_table]:
            fields = {**{member.name: member.type for member in one or ()}, **fields}
        if self.types:
            fields = {name: one.data_type for name, one in self.types.items()}
        clash = next((name for name in (FIELD, *self.beside) if name in fields), None)
        if clash is not None:
            raise ValueError(f"has a column {clash}, which is the name of another field here")
        parts = [(part.name, ORDER_TYPES[part.type]) for part in self._parts]
        return pa.schema([*fields.items(), (FIELD, pa.string()), *parts])

    def unwrap(self, batch: Any, records: Any, keys: Keys | None = None) -> Unwrapped:
        """Return a row for each message, or two for one that changes the key."""
        columns = self._with_keys(self.columns_of(batch, records), keys)
        known = dict.fromkeys((*records.names, *self.keys))
        names = [name for name in known if f"before.{name}" in columns and name not in (FIELD, *self.beside)]
        before, after = ({name: columns[f"{image}.{name}"] for name in names} for image in ("before", "after"))
        orders = {
            part.name: part.values(columns[part.path])
            for part in self._parts
            if part.path in columns and part.name in records.names
        }
        codes = self._codes(columns)
        if SERVER.name in orders:
            codes, orders[SERVER.name] = self._with_epochs(codes, orders[SERVER.name])
        for name in set(self.of_any_table).difference(records.names):
            others = flags(columns[f"after.{name}"].is_valid()) & codes.are(_UPSERTS)
            codes.put(np.flatnonzero(others), rejected(f"has the member 'after.{name}', {_NEW_MEMBER}"))
        return self.changes(codes, (before, after), orders, records, unset=unsent(after) if self.leaves_unset else {})

    def _with_epochs(self, codes: Codes, servers: Any) -> tuple[Codes, Any]:
        """Return op codes, and the epoch of each row; a row of a server without one is a reject."""
        known, found, unnamed = self.epochs.named, Codes.of(codes), self.epochs.of_unnamed
        coded = servers.dictionary_encode()
        names = [None if one in NO_SERVER else one.decode("utf-8", "replace") for one in coded.dictionary.to_pylist()]
        numbers = coded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        for number, name in enumerate(names):
            if name is not None and name not in known:
                found.put(np.flatnonzero((numbers == number) & found.are(_ACTS)), unranked(name, self.epochs))
        epochs = [b"%d" % known.get(name or UNNAMED, unnamed) for name in names]
        return found, pa.array([*epochs, b"%d" % unnamed], pa.large_binary()).take(pa.array(numbers))

    def _with_keys(self, columns: Mapping[str, Any], keys: Keys | None) -> Mapping[str, Any]:
        """Return the members, with the keys of deletes that have none."""
        if keys is None:
            return columns
        deletes = np.array([CODES.get(op) == _DELETE for op in columns["op"].to_pylist()], np.bool_)
        rows = np.flatnonzero(deletes & ~self._has_key(columns))
        if not len(rows):
            return columns
        found = {f"before.{name}": values for name, values in keys(rows, self.keys).items()}
        return {**columns, **{name: with_values(columns[name], rows, values) for name, values in found.items()}}

    def _codes(self, columns: Mapping[str, Any]) -> Codes:
        """Return what each message says. Raises Unclear if it has rows of several tables."""
        kinds, of_kind = distinct([columns[name] for name in ("op", *TABLE_PATHS)])
        found = Codes((self._code(op, table_name(*names)) for op, *names in kinds), of_kind)
        found.put(np.flatnonzero(found.are({_DELETE}) & ~self._has_key(columns)), rejected(NO_KEY))
        without = np.flatnonzero(flags(columns["op"].is_null()))
        if len(without):
            some = {name: column.take(pa.array(without)) for name, column in columns.items()}
            found.put_each(without, self._without_op(some))
        return found

    def _code(self, op: bytes | None, table: str | None) -> bytes | None:
        """Return what the messages of an op and a table say."""
        code = None if op is None else CODES.get(op)
        if op is None or code == b"message":
            return code
        if code is None:
            return rejected(f"has the op '{op[:SHOWN].decode(errors='replace')}', which is none of c, r, u, d, t and m")
        if table is None and self.about is not None:
            return rejected("has no table in source")
        return code if self.is_own(table) else of_other_table(table)

    def _without_op(self, columns: Mapping[str, Any]) -> Codes:
        """Return what messages without an op say."""
        status, ts, ddl, database = (flags(columns[name].is_valid()) for name in SAY)
        other = rejected("has no op, so it is no message of Debezium")
        said = [b"tombstone", b"heartbeat", other, b"schema change", b"transaction"]
        return Codes(said, np.select([status, ddl | database, self._has_values(columns), ts], [4, 3, 2, 1], 0))

    def _has_key(self, columns: Mapping[str, Any]) -> Flags:
        """Return which messages have any field of the key in the image before."""
        found = np.zeros(len(columns["op"]), np.bool_)
        for key in self.keys:
            found |= flags(columns[f"before.{key}"].is_valid())
        return found

    def _has_values(self, columns: Mapping[str, Any]) -> Flags:
        """Return which messages have a table or a key."""
        found = np.zeros(len(columns["op"]), np.bool_)
        for name in (*TABLE_PATHS, *(f"{image}.{key}" for image in ("before", "after") for key in self.keys)):
            found |= flags(columns[name].is_valid())
        return found


@dataclass(frozen=True, kw_only=True)
class DebeziumJson(DebeziumMessages):
    """The envelope of messages in JSON."""

    schema_text: bytes = b""  # of the columns

    def for_file(self, schema: Any, first: FirstOfFile, keys: Sequence[Any]) -> DebeziumJson:
        """Return the envelope of a file: with its form, its table, its connector, and the types in its schema."""
        own = replace(self, keys=named_keys(keys), prefix=prefix_of(schema))
        images = () if self.table is None else _IMAGES  # else all rows of the file show its fields
        paths = [own.prefix + name for name in ("op", "source.connector", *TABLE_PATHS, *images)]
        names = [*paths, own.prefix + SERVER.path, *(("schema",) if own.prefix else ())]
        batch = first.batch(schema_of_messages(own.prefix, schema, ()), names)
        if batch is None:
            return replace(own, about=self.table)
        own = replace(own, sources=servers_of(batch.column(own.prefix + SERVER.path).unique().to_pylist()))
        texts, found = batch.column("schema").to_pylist() if own.prefix else [None] * len(batch), list[bytes]()
        rows = zip(*(batch.column(name).to_pylist() for name in paths), texts, strict=True)
        for op, connector, schema_name, database, table, *objects, text in rows:
            name = table_name(schema_name, database, table)
            if op is None:
                continue
            own = replace(own, connector=own.connector if connector is None else connector.decode())
            if self.table not in (None, name):
                continue
            if own.about is None:
                own = replace(own, types=column_types(text or b""), schema_text=row_schema(text or b""), about=name)
            if self.table is None:
                return own
            found += [image for image in objects if (image or b"").startswith(b"{")]
        known = objects_in(payload_of(schema, own.prefix), "after") or ()
        own = replace(own, about=self.table, of_any_table=tuple(one.name for one in known))
        return own if self.table is None else replace(own, fields_of_table=first.members(found))

    def tables(self, schema: Any, first: FirstOfFile) -> list[str]:
        """Return the tables in ``source``."""
        prefix = prefix_of(schema)
        paths = [prefix + name for name in TABLE_PATHS]
        batch = first.batch(schema_of_messages(prefix, schema, ()), paths)
        rows = zip(*(batch.column(name).to_pylist() for name in paths), strict=True) if batch else ()
        return [name for name in (table_name(*row) for row in rows) if name is not None]

    def file_schema(self, schema: Any, records: Any) -> Any:
        """Return the schema to read a file with: that of all messages, with the fields of the table in each image."""
        beside = {FIELD, *self.beside}
        return schema_of_messages(self.prefix, schema, [one for one in records if one.name not in beside])

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        """Return the members that some fields are made of, those of the key, and those that say what a message is."""
        images = [name for name in dict.fromkeys((*names, *self.keys)) if name not in (FIELD, *self.beside)]
        orders = [part.path for part in self._parts if part.name in names]
        found = [
            "op",
            *SAY,
            *TABLE_PATHS,
            *orders,
            *(f"{image}.{name}" for name in images for image in ("before", "after")),
            *(f"after.{name}" for name in self.of_any_table),
        ]
        own = [self.prefix + name for name in dict.fromkeys(found)]
        return [*own, "schema"] if self.types else own

    def columns_of(self, batch: Any, records: Any) -> Mapping[str, Any]:
        """Return the members by their paths in a message."""
        names = [name.removeprefix(self.prefix) for name in batch.schema.names]
        return dict(zip(names, batch.columns, strict=True))

    def _codes(self, columns: Mapping[str, Any]) -> Codes:
        """Return what each message says; a row with another schema than the first ones is a reject."""
        found = super()._codes(columns)
        if "schema" in columns:
            texts, of_text = distinct([columns["schema"]])
            for number, (text,) in enumerate(texts):
                if (other := self._other_schema(text or b"")) is not None:
                    found.put(np.flatnonzero((of_text == number) & found.are((*_UPSERTS, _DELETE))), other)
        return found

    def _other_schema(self, text: bytes) -> bytes | None:
        """Return the reason of a reject whose schema is not that of the first rows."""
        if row_schema(text) == self.schema_text:
            return None
        other, own = (json.loads(one or b"{}") for one in (row_schema(text), self.schema_text))
        name = next((name for name in {**own, **other} if own.get(name) != other.get(name)), "")
        cure = "put messages of each schema into files of their own"
        return rejected(f"has another schema than the first rows of the file, for field {name}; {cure}")
