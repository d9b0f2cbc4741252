"""The envelope of Debezium's messages in files of Avro and Parquet, as the sinks of Kafka Connect write them.

They are those of ``debezium``; a message is a record, and its members are columns. The schema of a file has the types
of the table's columns (``connect_avro``). A file without it, as Parquet may be, has the types that it says.

A file has messages of one schema: a sink begins another file where the schema changes. Sinks write no ``null``, so the
tombstones after deletes are missing. Heartbeats and transaction markers have files of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.dialects.connect_avro import columns_of, record_in
from mutator.rules.dialects.connect_types import ConnectType, as_it_is
from mutator.rules.dialects.debezium import DebeziumMessages
from mutator.rules.dialects.debezium_messages import SAY, SERVER, TABLE_PATHS, objects_in, servers_of
from mutator.rules.dialects.messages import FIELD, named_keys, table_name
from mutator.rules.envelope import PHYSICAL, FirstOfFile

_IMAGES = ("before", "after")
_AROUND = ("source", "transaction")
_TEXT = pa.large_binary()


@dataclass(frozen=True, kw_only=True)
class DebeziumAvro(DebeziumMessages):
    """The envelope of messages that are records."""

    members: tuple[str, ...] = ()  # of the messages of a file
    is_other: bool = False  # none of the first messages is of the table

    def for_file(self, schema: Any, first: FirstOfFile, keys: Sequence[Any]) -> DebeziumAvro:
        """Return the envelope of a file: with its columns and their types, its table, and its connector."""
        own = replace(self._of(schema), keys=named_keys(keys), types=_types_in(schema, first.avro), about=self.table)
        is_own, said = self.table is None, [*own._said(schema, first)]
        own = replace(own, sources=servers_of(server for _, _, server in said))
        for connector, name, _ in said:
            own = replace(own, connector=connector or own.connector)
            if self.table in (None, name):
                own, is_own = replace(own, about=name), True
                break
        if is_own and own.types:
            return own
        # A file of other messages, or of rows of other tables, whose columns may be those of the table or not
        return replace(own, is_other=True, of_any_table=(*own.types,))

    @property
    def lacks_fields(self) -> bool:
        """Whether none of the first rows has columns of the table."""
        return self.is_other

    def tables(self, schema: Any, first: FirstOfFile) -> list[str]:
        """Return the tables in ``source``."""
        return [name for _, name, _ in self._of(schema)._said(schema, first) if name is not None]

    def _of(self, schema: Any) -> DebeziumAvro:
        return replace(self, members=tuple(name for name in ("op", *SAY, *_AROUND, *_IMAGES) if name in schema.names))

    def _said(self, schema: Any, first: FirstOfFile) -> Iterator[tuple[str | None, str | None, bytes | None]]:
        """Yield the connector, the table and the server of each of the first messages that has an ``op``."""
        names = [name for name in ("op", "source") if name in self.members]
        batch = first.batch(self.file_schema(schema, ()), names) if len(names) == 2 else None
        columns = {} if batch is None else self.columns_of(batch, pa.schema([]))
        paths = ("op", "source.connector", SERVER.path, *TABLE_PATHS)
        texts = [columns[name].to_pylist() for name in paths if columns]
        for op, connector, server, *of_table in zip(*texts, strict=True):
            if op is not None:
                yield None if connector is None else connector.decode(), table_name(*of_table), server

    def record_schema(self, schema: Any) -> Any:
        """Return the fields of the table, what rows do, and what orders them. Raises ValueError for another file."""
        found, beside = super().record_schema(schema), (FIELD, *self.beside)
        return pa.schema([one for one in found if not self.is_other or one.name in beside])

    def file_schema(self, schema: Any, records: Any) -> Any:
        """Return the schema of the file, without logical types."""
        return schema.with_metadata({PHYSICAL: b""})

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        """Return the members of messages."""
        return self.members

    def columns_of(self, batch: Any, records: Any) -> Mapping[str, Any]:
        """Return the members by their paths; those that the file lacks are NULL."""
        count, found = len(batch), dict[str, Any]()
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in ("op", *SAY):
                found[name] = _text(column)
            elif pa.types.is_struct(column.type):
                inner = [_text(one) for one in column.flatten()] if name in _AROUND else column.flatten()
                found |= {f"{name}.{one.name}": values for one, values in zip(column.type, inner, strict=True)}
        texts = (
            "op",
            *SAY,
            *TABLE_PATHS,
            "source.connector",
            SERVER.path,
            *(part.path for part in self._parts),
        )
        found |= {name: pa.nulls(count, _TEXT) for name in texts if name not in found}
        missing = (f"{image}.{name}" for image in _IMAGES for name in (*self.keys, *self.of_any_table, *records.names))
        found |= {name: pa.nulls(count, _TEXT) for name in missing if name not in found}
        return found


def _types_in(schema: Any, avro: Any) -> dict[str, ConnectType]:
    """Return the types of the columns in the images of messages."""
    for image in _IMAGES[::-1]:
        if (record := record_in(avro, image)) is not None:
            return columns_of(record)
        if (struct := objects_in(schema, image)) is not None:
            return {one.name: ConnectType(one.type, as_it_is) for one in struct}
    return {}


def _text(column: Any) -> Any:
    """Return values as text; NULL for those that have none."""
    if pa.types.is_nested(column.type):
        return pa.nulls(len(column), _TEXT)
    return pc.cast(pc.cast(column, pa.large_string()), _TEXT)
