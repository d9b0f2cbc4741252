"""One story of a table, as each dialect of messages tells it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from mutator.formats.files.avro_schema import expanded, to_arrow
from tests.support.connect_files import avro_file
from tests.support.named_runs import Work, avro

Row = Mapping[str, Any]
TYPES = pa.schema([("id", pa.int64()), ("n", pa.string()), ("qty", pa.int64())])


class Change(NamedTuple):
    """A change of one row."""

    after: Row | None  # None: it is deleted
    before: Row | None  # None: it is inserted
    at: tuple[int, int]  # transaction, and place in it
    last: bool = True  # of the transaction


def row(key: int, n: str | None, qty: int | None = 1) -> Row:
    return {"id": key, "n": n, "qty": qty}


STORY = [
    Change(row(1, "a"), None, (1, 0), last=False),
    Change(row(2, "b"), None, (1, 1)),
    Change(row(3, "c"), None, (2, 0)),
    Change(row(1, "a2"), row(1, "a"), (3, 0), last=False),  # twice in one transaction
    Change(row(1, "a3"), row(1, "a2"), (3, 1)),
    Change(row(20, "b"), row(2, "b"), (4, 0)),  # changes the key
    Change(None, row(3, "c"), (5, 0)),
    Change(row(3, "again", None), None, (6, 0)),
    Change(row(4, None), None, (7, 0)),
    Change(row(5, ""), None, (8, 0)),
    Change(row(6, "gone"), None, (9, 0)),
    Change(None, row(6, "gone"), (10, 0)),
]
END = [row(1, "a3"), row(3, "again", None), row(4, None), row(5, ""), row(20, "b")]
FILES = {"f_1": STORY[6:], "f_2": STORY[:7], "f_3": STORY[3:5]}  # out of order, and some twice


def debezium(change: Change, table: str = "d.t") -> Any:
    database, name = table.split(".")
    op = "d" if change.after is None else "c" if change.before is None else "u"
    place = {"file": "bin.000007", "pos": change.at[0] * 100 + change.at[1], "row": 0}
    source = {"connector": "mysql", "db": database, "table": name, **place}
    return {"op": op, "before": change.before, "after": change.after, "source": source, "ts_ms": 1, "transaction": None}


def changed(change: Change) -> dict[str, Any] | None:
    if change.after is None or change.before is None:
        return None
    return {name: value for name, value in change.before.items() if value != change.after[name]}


def maxwell(change: Change, table: str = "d.t") -> Any:
    """With the position in the binary log, and without NULL members (output_nulls=false)."""
    found = maxwell_by_transaction(change, table)
    found["data"] = {name: value for name, value in found["data"].items() if value is not None}
    return {**found, "position": f"bin.000007:{change.at[0] * 100 + change.at[1]}"}


def maxwell_by_transaction(change: Change, table: str = "d.t") -> Any:
    database, name = table.split(".")
    kind = "delete" if change.after is None else "insert" if change.before is None else "update"
    found = {"database": database, "table": name, "type": kind, "ts": 1, "xid": change.at[0]}
    found |= {"commit": True} if change.last else {"xoffset": change.at[1]}
    old = changed(change)
    return {**found, "data": dict(change.after or change.before or {}), **({} if old is None else {"old": old})}


def canal(change: Change, table: str = "d.t") -> Any:
    return canal_of([change], table)


def canal_of(changes: Sequence[Change], table: str = "d.t") -> Any:
    """All changes of a transaction have one id, as those of a batch; all values are text."""
    database, name = table.split(".")
    first = changes[0]
    kind = "DELETE" if first.after is None else "INSERT" if first.before is None else "UPDATE"
    types = {"id": "bigint(20)", "n": "varchar(255)", "qty": "BIGINT"}
    found = {"id": first.at[0], "database": database, "table": name, "pkNames": ["id"], "isDdl": False, "type": kind}
    return {
        **found,
        "es": 2,
        "ts": 1,
        "sql": "",
        "mysqlType": types,
        "data": [texts(one.after or one.before or {}) for one in changes],
        "old": [texts(changed(one) or {}) for one in changes] if kind == "UPDATE" else None,
    }


def texts(values: Row) -> Any:
    return {name: None if value is None else str(value) for name, value in values.items()}


def ogg(change: Change, table: str = "d.t") -> Any:
    op = "D" if change.after is None else "I" if change.before is None else "U"
    place = f"{10**19 + change.at[0]:023}{change.at[1]:04}"  # more than a long takes
    found = {"table": table, "op_type": op, "op_ts": "2026-01-31 10:00:00.000000", "pos": place, "primary_keys": ["id"]}
    return {**found, "tokens": {}, "before": change.before, "after": change.after}


def dms(change: Change, table: str = "d.t") -> Any:
    """With the images before in members of their own."""
    found = dms_with_image(change, table)
    before = {f"BI_{name}": value for name, value in found.pop("before-image", {}).items()}
    return {**found, "data": {**found["data"], **before}}


def dms_with_image(change: Change, table: str = "d.t") -> Any:
    """With the key in the image before, and without NULL members (IncludeNullAndEmpty=false)."""
    schema, name = table.split(".")
    operation = "delete" if change.after is None else "insert" if change.before is None else "update"
    said = {"timestamp": "2026-01-31T10:00:00.000001Z", "record-type": "data", "operation": operation}
    said |= {"partition-key-type": "schema-table", "schema-name": schema, "table-name": name}
    lsn, number = (f"00000002/{one:08X}" for one in change.at)
    said |= {"transaction-id": 99 - change.at[0], "transaction-record-id": change.at[1] + 9}
    said |= {"stream-position": f"{lsn}.{change.at[1]}.{number}", "commit-timestamp": said["timestamp"]}
    data = {name: value for name, value in (change.after or change.before or {}).items() if value is not None}
    image = {"before-image": {"id": change.before["id"]}} if operation == "update" and change.before else {}
    return {"data": data, **image, "metadata": said}


def lines(*messages: Any) -> bytes:
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in messages)


_NULLABLE = {name: ["null", name] for name in ("string", "long")}
_ROW = avro(("id", "long"), ("n", _NULLABLE["string"]), ("qty", _NULLABLE["long"]), name="Value")
_SOURCE = avro(
    *((name, "string") for name in ("connector", "db", "table", "file")), ("pos", "long"), ("row", "int"), name="Source"
)
_TRANSACTION = avro(("id", "string"), ("total_order", "long"), name="block")
ENVELOPE = avro(
    ("before", ["null", _ROW]),
    ("after", ["null", "Value"]),
    ("source", _SOURCE),
    ("op", "string"),
    ("ts_ms", _NULLABLE["long"]),
    ("transaction", ["null", _TRANSACTION]),
    name="Envelope",
)


def avro_messages(*messages: Any) -> bytes:
    return avro_file(ENVELOPE, messages)


def parquet_messages(*messages: Any) -> bytes:
    """Without a schema of Connect."""
    made = io.BytesIO()
    table = pa.Table.from_pylist(list(messages), to_arrow(expanded(ENVELOPE)))
    pq.write_table(table, made, store_schema=False)
    return made.getvalue()


class DialectForm(NamedTuple):
    """A dialect."""

    name: str
    message: Callable[..., Any]
    order: tuple[str, ...]
    types: tuple[str, ...]  # of the order
    file: Callable[..., bytes] = lines
    suffix: str = "json"


LONGS = ("long", "long", "long")
_IN_LOG = ("message.stream-position", "message.transaction-record-id")
_OF_MYSQL = ("source.server_id", "source.file", "source.pos", "source.row")
DIALECTS = {
    "debezium": DialectForm("debezium-json", debezium, _OF_MYSQL, ("long",) * 4),
    "debezium-avro": DialectForm("debezium-avro", debezium, _OF_MYSQL, ("long",) * 4, avro_messages, "avro"),
    "debezium-parquet": DialectForm(
        "debezium-parquet", debezium, _OF_MYSQL, ("long",) * 4, parquet_messages, "parquet"
    ),
    "maxwell": DialectForm(
        "maxwell-json", maxwell, ("message.position.file", "message.position.offset", "message.xoffset"), LONGS
    ),
    "maxwell by transaction": DialectForm(
        "maxwell-json", maxwell_by_transaction, ("message.xid", "message.xoffset"), LONGS[:2]
    ),
    "canal": DialectForm("canal-json", canal, ("message.id",), LONGS[:1]),
    "ogg": DialectForm("ogg-json", ogg, ("message.pos",), ("string",)),
    "dms": DialectForm("aws-dms-json", dms, _IN_LOG, ("string", "long")),
    "dms with image": DialectForm("aws-dms-json", dms_with_image, _IN_LOG, ("string", "long")),
}


def put(work: Work, dialect: str, name: str, *messages: Any) -> Path:
    told = DIALECTS[dialect]
    return work.put(f"{name}.{told.suffix}", told.file(*messages))


def work_of(path: Path, dialect: str, engine: str = "blocks", **more: str) -> Work:
    more = {name.replace("_", "."): value for name, value in more.items()}
    settings = {"key": "id", "feed.dialect": DIALECTS[dialect].name, "reject.policy": "quarantine", **more}
    work = Work(path, engine, {**settings, "output.format": "parquet"})
    work.put("master/m", TYPES.empty_table(), "parquet")
    return work
