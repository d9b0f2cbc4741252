"""The dialects of messages: what their files show, and the settings that they decide.

Each has a module with its envelope, whose docstring says what is easily read wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from mutator.rules.envelope_kind import DIALECT, KEY_FILES, OF_TABLES, EnvelopeKind, Recognizes, Traces, made_by


def _is_image(image: str, names: Sequence[str], values: Callable[[str], Sequence[bytes | None]]) -> bool:
    """Return whether a member has objects, or arrays, or nothing but NULL; a field of plain rows may have its name."""
    inside = any(name.startswith(f"{image}.") for name in names)
    return inside or (image in names and all((value or b"{")[:1] in b"{[" for value in values(image)))


def _messages(kind: str, codes: Collection[str], members: Collection[str], images: Sequence[str]) -> Recognizes:
    """Return what recognizes messages with some members, one of images, and one that has nothing but codes.

    kind: the member with codes. images: the members with images; all may be NULL, as in truncates.
    """
    known = frozenset(code.encode() for code in codes)

    def recognizes(names: Sequence[str], values: Callable[[str], Sequence[bytes | None]]) -> bool:
        if not {kind, *members} <= {*names} or not any(_is_image(image, names, values) for image in images):
            return False
        found = {value for value in values(kind) if value is not None}
        return bool(found) and found <= known

    return recognizes


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# The values of the member that says what a message is, by dialect, and their op codes
_CODES: Mapping[str, Mapping[str, str]] = {
    "maxwell-json": {
        **{code: code for code in _words("insert update delete bootstrap-insert bootstrap-start bootstrap-complete")},
        **{f"{what}-{how}": "schema change" for what in ("table", "database") for how in ("create", "alter", "drop")},
    },
    "canal-json": {
        **{code.upper(): code for code in _words("insert init update delete truncate")},
        **dict.fromkeys(_words("CREATE ALTER ERASE RENAME CINDEX DINDEX QUERY"), "schema change"),
        **dict.fromkeys(_words("GTID XACOMMIT XAROLLBACK"), "transaction"),
        "MHEARTBEAT": "heartbeat",
    },
    "ogg-json": {code[0].upper(): code for code in _words("insert update delete truncate")},
    "aws-dms-json": {
        **{code: code for code in _words("load insert update delete")},
        **dict.fromkeys(_words("create-table drop-table rename-table change-columns"), "schema change"),
        **dict.fromkeys(_words("add-column drop-column rename-column column-type-change"), "schema change"),
    },
}


def codes_of(dialect: str) -> dict[bytes, bytes]:
    """Return the op codes of a dialect whose messages have images in members of their own.

    >>> codes_of("ogg-json")
    {b'I': b'insert', b'U': b'update', b'D': b'delete', b'T': b'truncate'}
    """
    return {value.encode(): code.encode() for value, code in _CODES[dialect].items()}


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


_MOVED = {"moved_unset": "moved_unset"}  # of messages that may change a key, and not send all fields
_UPSERTS = ("bootstrap-insert", "init", "insert", "load", "update")


def _with_images(
    dialect: str,
    name: str,
    kind: str,
    around: str,
    needed: int = 0,
    images: Sequence[str] = ("data",),
    leaves_unset: bool = False,
) -> EnvelopeKind:
    """Return a dialect whose messages have images in members of their own.

    name: of the class. kind: the member that says what a message is. around: the members, first those that each message
    has. needed: their number; 0: other members show what messages are. leaves_unset: a field that an update lacks was
    not sent.
    """
    codes, members = {*_CODES[dialect].values()}, _words(around)
    upserts = [code for code in _UPSERTS if code in codes]
    decides = {
        **_OF_DEBEZIUM,
        "deleted.op.code": "delete",
        "truncate.op.code": "truncate",
        "upsert.op.code": ",".join(upserts),
        "ignore.op.code": ",".join(sorted({*codes, "tombstone"} - {*upserts, "delete", "truncate"})),
    }
    return EnvelopeKind(
        made_by(f"dialects.{name.removesuffix('Json').lower()}", name, leaves_unset=leaves_unset),
        DIALECT,
        decides,
        f"the {kind.rpartition('.')[2]} of a message says what it does",
        {**OF_TABLES, **(_MOVED if leaves_unset else {})},
        ("json",),
        leaves_unset=leaves_unset,
        recognizes=_messages(kind, _CODES[dialect], members[:needed], images) if needed else _is_dms_json,
        traces=Traces(tuple(sorted({*upserts} - {"update"}, key="insert".__eq__)), members),
    )


_SAID_OF_DEBEZIUM_AVRO = {**OF_TABLES, **_MOVED, KEY_FILES: KEY_FILES}
_SAID_OF_DEBEZIUM = {**_SAID_OF_DEBEZIUM_AVRO, "unit": "time_unit", "decimals": "decimals"}


def _debezium(module: str, name: str, file_format: str, members: Mapping[str, str]) -> EnvelopeKind:
    return EnvelopeKind(
        made_by(f"dialects.{module}", name),
        DIALECT,
        _OF_DEBEZIUM,
        "the op of a message says what it does",
        members,
        (file_format,),
        leaves_unset=True,
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
        leaves_unset=True,
        recognizes=_is_debezium_flat,
        traces=Traces(("r", "c"), ("schema", "payload")),
    ),
    "maxwell-json": _with_images(
        "maxwell-json",
        "MaxwellJson",
        "type",
        "type database table ts data old xid xoffset commit position gtid server_id thread_id schema_id primary_key "
        "primary_key_columns comment",
        4,
    ),
    "canal-json": _with_images(
        "canal-json",
        "CanalJson",
        "type",
        "type database table es isDdl ts data old id pkNames sql sqlType mysqlType gtid",
        5,
        leaves_unset=True,
    ),
    "ogg-json": _with_images(
        "ogg-json",
        "OggJson",
        "op_type",
        "op_type table op_ts current_ts pos primary_keys priamry_keys tokens before after",
        2,
        ("before", "after"),
        leaves_unset=True,
    ),
    "aws-dms-json": _with_images("aws-dms-json", "DmsJson", "metadata.operation", "data metadata control before-image"),
}
