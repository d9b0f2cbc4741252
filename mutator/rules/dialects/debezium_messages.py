"""Messages of Debezium: their members, the schemas in them, and what orders them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from mutator.rules.dialects.connect_types import ConnectType, type_of
from mutator.rules.dialects.messages import SHOWN, OrderPart, rejected
from mutator.rules.epochs import Epochs, cure_of
from mutator.rules.json_paths import NULLS, OTHERS, read_as

# It differs in both halves of a changed key, and in copies of a message after a restart of the connector.
TOTAL = OrderPart("transaction.total_order", "long", "transaction.total_order")
# Its value is the epoch of the server, whose binary log has numbers of its own.
SERVER = OrderPart("source.server_id", "long", "source.server_id")
NO_SERVER = (b"0", b"", None)  # the IDs in rows of snapshots
_MYSQL = (
    SERVER,
    OrderPart("source.file", "long", "source.file", r"(?P<part>[0-9]+)$"),
    OrderPart("source.pos", "long", "source.pos"),
    OrderPart("source.row", "long", "source.row"),
)
ALL_SENT = frozenset({"mysql", "mariadb", "sqlserver"})  # connectors that have no placeholder
# By ``source.connector``: the fields that order the mutations of a key, the decisive first; NULL is lowest. Rows of
# incremental snapshots of PostgreSQL have no lsn.
ORDERS: Mapping[str, tuple[OrderPart, ...]] = {
    "postgresql": (
        OrderPart("source.sequence[0]", "long", "source.sequence", r'^\s*\[\s*"(?P<part>[0-9]+)"'),
        OrderPart("source.lsn", "long", "source.lsn"),
        TOTAL,
    ),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlserver": (
        OrderPart("source.commit_lsn", "string", "source.commit_lsn"),
        OrderPart("source.change_lsn", "string", "source.change_lsn"),
        OrderPart("source.event_serial_no", "long", "source.event_serial_no"),
    ),
    "oracle": (  # numbers in text
        OrderPart("source.commit_scn", "long", "source.commit_scn"),
        OrderPart("source.scn", "long", "source.scn"),
        OrderPart("source.ssn", "long", "source.ssn"),
    ),
}
TIMES = (OrderPart("source.ts_ms", "long", "source.ts_ms"),)  # that changes of one transaction share, of any connector
_ANY_PART = tuple({part.name: part for parts in ORDERS.values() for part in parts}.values())

SAY = ("status", "ts_ms", "ddl", "databaseName")  # what a message without an op is
TABLE_PATHS = ("source.schema", "source.db", "source.table")
NO_KEY = "is a delete without a key, because before is null: give the table a primary key, or set its REPLICA "
NO_KEY += "IDENTITY to FULL; or have the sink write the keys (store.kafka.keys=true), and set feed.keys"
ANY_OF = ("op", "before", "after", "status", "ts_ms", "ddl", "databaseName")
_TEXT_MEMBERS = (
    *("op", "ts_ms", "ts_us", "ts_ns", "status", "id", "event_count", "data_collections", "message", "databaseName"),
    *("schemaName", "ddl", "tableChanges"),
)


def order_parts(connector: str | None) -> tuple[OrderPart, ...]:
    """Return the fields that order the messages of a connector; those of all if the first rows do not say which it is.

    >>> [part.name for part in order_parts("mysql")]
    ['source.server_id', 'source.file', 'source.pos', 'source.row']
    """
    return _ANY_PART if connector is None else ORDERS.get(connector, ())


def servers_of(ids: Iterable[bytes | None]) -> tuple[str, ...]:
    """Return the servers that messages name.

    >>> servers_of([b"7", b"0", None, b"11", b"7"])
    ('11', '7')
    """
    return tuple(sorted(one.decode("utf-8", "replace") for one in {*ids} if one not in NO_SERVER and one is not None))


def unranked(server: str, known: Epochs) -> bytes:
    """Return the op code of a row of a server without an epoch.

    >>> unranked("22", Epochs({"": 0, "11": 0})).decode()[-72:]
    ' set its epoch, as in order.epoch=11:0,22:1 if it began after the others'
    """
    merged = "which is not one of those whose rows were merged, nor of those in the first rows of the file"
    return rejected(f"is of server {server[:SHOWN]}, {merged}: {cure_of(server, known)}")


def prefix_of(schema: Any) -> str:
    """Return the prefix of members. Raises ValueError for a file with messages of both forms."""
    names = set(schema.names)
    if "payload" not in names or "schema" not in names:
        return ""
    if names != {"payload", "schema"}:
        raise ValueError("has messages with and without a schema; put each form into files of its own")
    return "payload."


def payload_of(schema: Any, prefix: str) -> Any:
    """Return the pa.Schema of the messages."""
    if not prefix:
        return schema
    payload = schema.field("payload").type
    return pa.schema(list(payload) if pa.types.is_struct(payload) else [])


def objects_in(schema: Any, name: str) -> Any:
    """Return the type of the objects in a member; None if it has none."""
    at = schema.get_field_index(name)
    return schema.field(at).type if at >= 0 and pa.types.is_struct(schema.field(at).type) else None


def schema_of_messages(prefix: str, schema: Any, columns: Iterable[Any]) -> Any:
    """Return the pa.Schema to read a file of messages with. columns: pa.Field of each one of the table."""
    payload = payload_of(schema, prefix)
    members = {one.name: one for one in payload}
    text = pa.string()
    for name in _TEXT_MEMBERS:
        members.setdefault(name, pa.field(name, text))
    known = {one.name: one for image in ("before", "after") for one in objects_in(payload, image) or ()}
    for one in columns:
        known[one.name] = read_as(one, known.get(one.name))
    for image in ("before", "after"):
        members[image] = pa.field(image, pa.struct(list(known.values())))
    paths = [part.path for parts in (*ORDERS.values(), TIMES) for part in parts]
    paths += ["source.connector", *TABLE_PATHS]
    for name in ("source", "transaction"):
        own = {path.partition(".")[2]: text for path in paths if path.startswith(f"{name}.")}
        own |= {one.name: one.type for one in objects_in(payload, name) or ()}
        members[name] = pa.field(name, pa.struct(list(own.items())), metadata={OTHERS: b""})
    if not prefix:
        return pa.schema(list(members.values()), metadata={NULLS: b""})
    return pa.schema([("schema", text), ("payload", pa.struct(list(members.values())))], metadata={NULLS: b""})


def fields_of_schema(text: bytes) -> list[Any]:
    """Return the fields in the schema of a message; none if it has none."""
    try:
        return list(json.loads(text or b"null")["fields"])
    except (ValueError, TypeError, KeyError):
        return []


@lru_cache(64)
def row_schema(text: bytes) -> bytes:
    """Return the types of the columns in the schema of messages, as JSON with sorted names; empty without one."""
    try:
        image = next(one for one in fields_of_schema(text) if one["field"] == "after")
        plain = ({name: value for name, value in one.items() if name in _OF_TYPE} for one in image["fields"])
        return json.dumps({one["field"]: one for one in plain}, sort_keys=True).encode()
    except (TypeError, KeyError, StopIteration):
        return b""


_OF_TYPE = ("field", "type", "name", "parameters", "items")


def column_types(text: bytes) -> dict[str, ConnectType]:
    """Return the types of the columns, in the order of the table."""
    if not row_schema(text):
        return {}
    image = next(one for one in json.loads(text)["fields"] if one["field"] == "after")
    return {one["field"]: type_of(one) for one in image["fields"]}
