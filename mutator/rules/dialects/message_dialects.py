"""The dialects of messages: what their files show, and the settings that they decide.

Each has a module with its envelope, whose docstring says what is easily read wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from mutator.rules.envelope_kind import DIALECT, KEY_FILES, OF_TABLES, EnvelopeKind, Recognizes, Traces, made_by


def _messages(kind: str, codes: Collection[str], members: Collection[str], images: Sequence[str]) -> Recognizes:
    """Return what recognizes messages with some members, one of images, and one that has nothing but codes.

    kind: the member with codes. images: the members with images; all may be NULL, as in truncates.
    """
    known = frozenset(code.encode() for code in codes)

    def recognizes(names: Sequence[str], values: Callable[[str], Sequence[bytes | None]]) -> bool:
        if not {kind, *members} <= {*names} or {name.partition(".")[0] for name in names}.isdisjoint(images):
            return False
        found = {value for value in values(kind) if value is not None}
        return bool(found) and found <= known

    return recognizes


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _is_debezium(names: Sequence[str], values: Callable[[str], Sequence[bytes | None]]) -> bool:
    """Return whether files have messages: each names its connector in ``source``, and has a member for an image."""
    prefix = "payload." if "schema" in names else ""
    own = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    return {"op", "source.connector"} <= own and bool({"before", "after"} & own)


def _is_debezium_flat(names: Sequence[str], values: Callable[[str], Sequence[bytes | None]]) -> bool:
    """Return whether ``__deleted`` or ``__op`` has its codes in each row, and no other value."""
    prefix = "payload." if {"payload", "schema"} <= {*names} else ""
    for name, codes in (("__deleted", _FLAGS), ("__op", _OPS)):
        if prefix + name in names:
            found = {value for value in values(prefix + name) if value is not None}
            return bool(found) and found <= codes
    return False


def _is_dms_json(names: Sequence[str], values: Callable[[str], Sequence[bytes | None]]) -> bool:
    """Return whether files have messages with an operation and the type of their record."""
    return {"metadata.operation", "metadata.record-type"} <= {*names}


_FLAGS, _OPS = frozenset((b"true", b"false")), frozenset((b"c", b"r", b"u", b"d"))
_OF_DEBEZIUM = {
    "op.code.field.ordinal": "__op",
    "delete.when": "code",
    "deleted.op.code": "d",
    "upsert.op.code": "c,r,u",
    "truncate.op.code": "t",
    "ignore.op.code": "heartbeat,message,schema change,tombstone,transaction",
    "op.code.keep": "false",
}


def _with_images(upserts: str, ignored: str) -> Mapping[str, str]:
    """Return what a dialect decides whose messages have images in members of their own. Both arguments: op codes."""
    words = {"deleted.op.code": "delete", "truncate.op.code": "truncate"}
    return {**_OF_DEBEZIUM, **words, "upsert.op.code": upserts, "ignore.op.code": ignored}


_OF_MAXWELL = _with_images(
    "bootstrap-insert,insert,update", "bootstrap-complete,bootstrap-start,schema change,tombstone"
)
_OF_CANAL = _with_images("init,insert,update", "heartbeat,schema change,tombstone,transaction")
_OF_OGG = _with_images("insert,update", "tombstone")
_OF_DMS = _with_images("insert,load,update", "schema change,tombstone")
_TYPES_OF_MAXWELL = _words(
    "insert update delete bootstrap-insert bootstrap-start bootstrap-complete table-create table-alter table-drop "
    "database-create database-alter database-drop"
)
_TYPES_OF_CANAL = _words(
    "INSERT INIT UPDATE DELETE TRUNCATE CREATE ALTER ERASE RENAME CINDEX DINDEX QUERY GTID XACOMMIT "
    "XAROLLBACK MHEARTBEAT"
)
# The members of messages; those that each has come first
_AROUND_MAXWELL = _words(
    "type database table ts data old xid xoffset commit position gtid server_id thread_id schema_id primary_key "
    "primary_key_columns comment"
)
_AROUND_CANAL = _words("type database table es isDdl ts data old id pkNames sql sqlType mysqlType gtid")
_AROUND_OGG = _words("op_type table op_ts current_ts pos primary_keys priamry_keys tokens before after")
_SAID_OF_DEBEZIUM_AVRO = {**OF_TABLES, KEY_FILES: KEY_FILES}
_SAID_OF_DEBEZIUM = {**_SAID_OF_DEBEZIUM_AVRO, "unit": "time_unit", "decimals": "decimals"}


def _debezium(module: str, name: str, file_format: str, members: Mapping[str, str]) -> EnvelopeKind:
    return EnvelopeKind(
        made_by(f"dialects.{module}", name),
        DIALECT,
        _OF_DEBEZIUM,
        "the op of a message says what it does",
        members,
        (file_format,),
        recognizes=_is_debezium,
        traces=Traces(
            ("r", "c"),
            ("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns", "schema", "payload"),
        ),
    )


MESSAGE_DIALECTS: Mapping[str, EnvelopeKind] = {
    "debezium-json": _debezium("debezium", "DebeziumJson", "json", _SAID_OF_DEBEZIUM),
    "debezium-avro": _debezium("debezium_avro", "DebeziumAvro", "avro", _SAID_OF_DEBEZIUM_AVRO),
    "debezium-parquet": _debezium("debezium_avro", "DebeziumAvro", "parquet", _SAID_OF_DEBEZIUM_AVRO),
    "debezium-flat": EnvelopeKind(
        made_by("dialects.debezium_flat", "DebeziumFlat"),
        DIALECT,
        _OF_DEBEZIUM,
        "__op and __deleted say what a row does",
        _SAID_OF_DEBEZIUM,
        recognizes=_is_debezium_flat,
        traces=Traces(("r", "c"), ("schema", "payload")),
    ),
    "maxwell-json": EnvelopeKind(
        made_by("dialects.maxwell", "MaxwellJson"),
        DIALECT,
        _OF_MAXWELL,
        "the type of a message says what it does",
        OF_TABLES,
        ("json",),
        recognizes=_messages("type", _TYPES_OF_MAXWELL, _AROUND_MAXWELL[:4], ("data",)),
        traces=Traces(("bootstrap-insert", "insert"), _AROUND_MAXWELL),
    ),
    "canal-json": EnvelopeKind(
        made_by("dialects.canal", "CanalJson"),
        DIALECT,
        _OF_CANAL,
        "the type of a message says what it does",
        OF_TABLES,
        ("json",),
        recognizes=_messages("type", _TYPES_OF_CANAL, _AROUND_CANAL[:5], ("data",)),
        traces=Traces(("init", "insert"), _AROUND_CANAL),
    ),
    "ogg-json": EnvelopeKind(
        made_by("dialects.ogg", "OggJson"),
        DIALECT,
        _OF_OGG,
        "the op_type of a message says what it does",
        OF_TABLES,
        ("json",),
        recognizes=_messages("op_type", "IUDT", ("table",), ("before", "after")),
        traces=Traces(("insert",), _AROUND_OGG),
    ),
    "aws-dms-json": EnvelopeKind(
        made_by("dialects.dms", "DmsJson"),
        DIALECT,
        _OF_DMS,
        "the operation of a message says what it does",
        OF_TABLES,
        ("json",),
        recognizes=_is_dms_json,
        traces=Traces(("load", "insert"), ("data", "metadata", "control", "before-image")),
    ),
}
