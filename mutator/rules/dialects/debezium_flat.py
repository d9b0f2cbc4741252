"""The envelope of Debezium's flattened rows, as the SMT ``ExtractNewRecordState`` makes them.

    __op        c, r, u or d, if ``add.fields`` has ``op``
    __deleted   "true" or "false", if ``delete.tombstone.handling.mode`` is ``rewrite``: the row has the key of a delete

These and the other fields that ``add.fields`` takes from a message (``__lsn``, ``__source_ts_ms``) are no fields of the
record. With the mode ``tombstone``, a delete is ``null``, and its key is in a file of its own, where the sink writes
that. With other modes, files have no trace of deletes; truncates are never in them. A value that the database did not
send is a placeholder here as well. Rows without ``__op`` may be inserts: they leave such fields unset, as updates do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.dialects.connect_types import type_of
from mutator.rules.dialects.debezium import CODES, DebeziumRows
from mutator.rules.dialects.debezium_messages import NO_KEY, fields_of_schema, payload_of, prefix_of
from mutator.rules.dialects.messages import (
    FIELD,
    SHOWN,
    named_keys,
    of_other_table,
    rejected,
    table_name,
    with_values,
)
from mutator.rules.dialects.unsent_values import unsent
from mutator.rules.envelope import FirstOfFile, Keys, Unwrapped
from mutator.rules.json_paths import NULLS, read_as
from mutator.rules.order_columns import flags

_DELETED, _TOMBSTONE = "__deleted", b"tombstone"
_OF_TABLE = ("__schema", "__db", "__table")
_FLAGS = {None: False, b"": False, b"false": False, b"0": False, b"null": False, b"true": True, b"1": True}
_ADDED = {
    *("op", "deleted", "ts_ms", "ts_us", "ts_ns", "id", "total_order", "data_collection_order"),
    *("version", "connector", "name", "snapshot", "db", "sequence", "schema", "table", "collection"),
    *("txId", "lsn", "xmin", "origin", "origin_lsn", "server_id", "gtid", "file", "pos", "row", "thread", "query"),
    *("change_lsn", "commit_lsn", "event_serial_no", "txSeq", "scn", "commit_scn", "lcr_position", "rs_id", "ssn"),
    *("redo_thread", "commit_ts_ms", "start_scn", "start_ts_ms", "user_name", "redo_sql", "row_id", "ord", "lsid"),
}


# Of PostgreSQL, SQL Server and Oracle; MySQL's files need their number alone, which flattened rows do not have.
_ORDERS = (
    (("lsn", "long"),),
    (("commit_lsn", "string"), ("change_lsn", "string"), ("event_serial_no", "long")),
    (("commit_scn", "long"), ("scn", "long"), ("ssn", "long")),
)


def is_added(name: str) -> bool:
    """Return whether a field is one that ``add.fields`` can add, with the default prefix.

    >>> is_added("__lsn"), is_added("__source_ts_ms"), is_added("__note"), is_added("lsn")
    (True, True, False, False)
    """
    own = name.removeprefix("__")
    return own != name and (own in _ADDED or own.startswith(("source_", "transaction_")))


@dataclass(frozen=True, kw_only=True)
class DebeziumFlat(DebeziumRows):
    """The envelope of flattened rows."""

    kind = ""
    names: tuple[str, ...] = ()  # of the fields in the file
    prefix: str = ""  # of the members of a row: payload. beside a schema
    is_json: bool = False

    @property
    def beside(self) -> tuple[str, ...]:
        """The fields that are added to the record."""
        return tuple(name for name in self.names if is_added(name) and name != FIELD)

    @property
    def order(self) -> tuple[tuple[str, str], ...]:
        """The added fields that order rows; none where these are not known to be enough."""
        for prefix in ("__", "__source_"):
            for parts in _ORDERS:
                if {prefix + name for name, _ in parts} <= {*self.names}:
                    return tuple((prefix + name, order_type) for name, order_type in parts)
        return ()

    @property
    def change(self) -> tuple[tuple[str, str], ...]:
        """The position of the change in the log."""
        return self.order

    @property
    def leaves_unset(self) -> bool:
        """Whether the database may not send a value, as far as the added fields say which one it is."""
        others = {prefix + name for prefix in ("__", "__source_") for name in ("file", "change_lsn", "event_serial_no")}
        return others.isdisjoint(self.names)

    @property
    def keyless_delete(self) -> bytes | None:
        """That of ``null``, which follows each delete where rows have ``__deleted``, and else is the delete."""
        return None if _DELETED in self.names or self.key_files is not None else _TOMBSTONE

    def for_file(self, schema: Any, first: FirstOfFile, keys: Sequence[Any]) -> DebeziumFlat:
        """Return the envelope of a file: with its fields, its form, its table, and the types in its schema."""
        own = self._in_file(schema, first)
        own = own if self.key_files is None else replace(own, keys=named_keys(keys))
        if own.prefix:
            batch = first.batch(own.file_schema(schema, ()), ["schema"])
            texts = [] if batch is None else batch.column("schema").drop_null().to_pylist()
            fields = fields_of_schema(texts[0]) if texts else []
            own = replace(own, types={one["field"]: type_of(one) for one in fields if not is_added(one["field"])})
        if self.table is None:
            own = replace(own, about=next(iter(self.tables(schema, first)), None))
        return own

    def _in_file(self, schema: Any, first: FirstOfFile) -> DebeziumFlat:
        own = replace(self, prefix=prefix_of(schema) if first.is_json else "", is_json=first.is_json)
        return replace(own, names=tuple(payload_of(schema, own.prefix).names), about=self.table)

    def tables(self, schema: Any, first: FirstOfFile) -> list[str]:
        """Return the tables in ``__table``."""
        own = self._in_file(schema, first)
        if "__table" not in own.names:
            return []
        of_table = [own.prefix + name for name in _OF_TABLE if name in own.names]
        batch = first.batch(own.file_schema(schema, ()), of_table)
        columns = {name.removeprefix(own.prefix): batch.column(name) for name in (of_table if batch else ())}
        rows = zip(*(_texts(columns, name, len(batch or ())) for name in _OF_TABLE), strict=True)
        return [name for name in (table_name(*row) for row in rows) if name is not None]

    def record_schema(self, schema: Any) -> Any:
        """Return the fields of the record and those that are added. Raises ValueError for another file."""
        fields = [one for one in payload_of(schema, self.prefix) if one.name not in (FIELD, _DELETED)]
        if len(fields) and not {FIELD, _DELETED} & {*self.names} and self.key_files is None:
            raise ValueError(f"has neither a field {FIELD} nor a field {_DELETED}, which say what deletes a record")
        typed = [one.with_type(self.types[one.name].data_type) if one.name in self.types else one for one in fields]
        return pa.schema([*typed, (FIELD, pa.string())])

    def file_schema(self, schema: Any, records: Any) -> Any:
        """Return the schema to read a file with: of JSON Lines, with the fields that other files have."""
        if not self.is_json:
            return schema
        known = {one.name: one for one in payload_of(schema, self.prefix)}
        columns = {one.name: one for one in records}
        names = dict.fromkeys((*self.names, *columns, FIELD, _DELETED, *_OF_TABLE))
        members = [read_as(columns.get(name, pa.field(name, pa.string())), known.get(name)) for name in names]
        if not self.prefix:
            return pa.schema(members, metadata={NULLS: b""})
        return pa.schema([("schema", pa.string()), ("payload", pa.struct(members))], metadata={NULLS: b""})

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        """Return the fields themselves, and those that say what a row does."""
        own = [name for name in (FIELD, _DELETED, *_OF_TABLE) if name in self.names]
        return [self.prefix + name for name in dict.fromkeys((*(name for name in names if name != FIELD), *own))]

    def unwrap(self, batch: Any, records: Any, keys: Keys | None = None) -> Unwrapped:
        """Return a row for each row."""
        columns = dict(zip([name.removeprefix(self.prefix) for name in batch.schema.names], batch.columns, strict=True))
        count = len(batch)
        codes = self._codes(columns, count)
        tombstones = np.flatnonzero([code == _TOMBSTONE for code in codes])
        if keys is not None and len(tombstones) and _DELETED not in self.names:
            found_keys = keys(tombstones, self.keys)
            columns |= {name: with_values(columns[name], tombstones, one) for name, one in found_keys.items()}
            has_key = np.logical_or.reduce([flags(columns[name].is_valid()) for name in self.keys])
            for row in tombstones.tolist():
                codes[row] = b"d" if has_key[row] else rejected(NO_KEY)
        delete, updates = (np.array([code == own for code in codes], np.bool_) for own in (self.delete, self.update))
        own = {name: one for name, one in columns.items() if not is_added(name)}
        lacking = unsent(own) if self.leaves_unset else {}
        final, own, unset = self.with_unset(codes, own, lacking, self.may_lack(codes, updates))
        columns |= own
        found = dict[str, Any]()
        for name, column in columns.items():
            if name in (FIELD, _DELETED) or records.get_field_index(name) < 0:
                continue
            if pa.types.is_large_binary(column.type) and not is_added(name):
                column, bad, why = self.values(name, column, records.field(name).type)
                final.put(np.flatnonzero(bad & ~delete), rejected(f"field {name} {why}"))
            found[name] = column
        found[FIELD] = final.column()
        unset = {name: one for name, one in unset.items() if name in found}
        return Unwrapped(pa.RecordBatch.from_arrays([*found.values()], [*found]), unset=unset)

    def _codes(self, columns: Mapping[str, Any], count: int) -> list[bytes | None]:
        """Return what each row does. Raises Unclear if they are of several tables."""

        said = (_texts(columns, name, count) for name in (FIELD, _DELETED, *_OF_TABLE))
        is_null = np.ones(count, np.bool_)
        for column in columns.values():
            is_null &= pc.is_null(column).to_numpy(zero_copy_only=False)
        found: list[bytes | None] = []
        for row, (op, deleted, *names) in enumerate(zip(*said, strict=True)):
            code = CODES.get(op)
            if self.is_json and is_null[row]:
                code = _TOMBSTONE
            elif op is not None and code is None:
                code = rejected(
                    f"has the __op '{op[:SHOWN].decode(errors='replace')}', which is none of c, r, u, d, t and m"
                )
            elif not self.is_own(name := table_name(*names) or self.about):
                code = of_other_table(name)
            elif (flag := _FLAGS.get(deleted and deleted.lower())) is None:
                shown = (deleted or b"")[:SHOWN].decode(errors="replace")
                code = rejected(f"has the {_DELETED} '{shown}', which is neither true nor false")
            elif flag:
                code = b"d"
            elif code is None:
                says = deleted is not None or self.key_files is not None
                code = b"u" if says else rejected(f"has neither {FIELD} nor {_DELETED}")
            found.append(code)
        return found


def _texts(columns: Mapping[str, Any], name: str, count: int) -> list[bytes | None]:
    """Return the values of a field; NULL where the file lacks it."""
    if name not in columns:
        return [None] * count
    found: list[bytes | None] = columns[name].cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
    return found
