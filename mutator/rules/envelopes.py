"""The envelopes of rows with a field that says what they do, by name.

To add one, write a module with a class of ``rules.envelope`` in ``rules.dialects``, and an entry here, which also says
how its files are recognized (``init`` asks, and the guard of a forgotten setting). A setting chooses it by its name;
define a new one as an attribute of ``config.definitions.operations.OpSpec``. Of several that are chosen, the last is
used, so one that is chosen by default comes before the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from mutator.rules.dialects.flat_dialects import FLAT_DIALECTS, FlatDialect
from mutator.rules.file_sequences import parse_pattern
from mutator.rules.op_codes import PRESENT

if TYPE_CHECKING:
    from mutator.rules.envelope import Envelope


class EnvelopeKind(NamedTuple):
    """An envelope, before the values of settings are known."""

    # Makes it of the field and the codes, as ``OpCodeField`` has them
    made: Callable[..., Envelope]
    setting: str  # that chooses it
    decides: Mapping[str, str] = {}  # other settings and their values, which a user must not set
    why: str = ""  # a part of a message: what is true of each row, so that nothing else decides it
    members: Mapping[str, str] = {}  # others that it is made of: name -> attribute of ``OpSpec``
    formats: tuple[str, ...] = ()  # of the files that it reads; (): all
    usual: Mapping[str, str] = {}  # other settings, and their values unless a user sets them
    by_sequence: bool = False  # the sequences in the names of the files are a part of its order
    # Whether a file is of the dialect: the paths of its fields, and a function that returns the first values of one
    recognizes: Callable[[Sequence[str], Callable[[str], Sequence[bytes | None]]], bool] | None = None
    around: tuple[str, ...] = ()  # the fields of messages around a row, which are none of the record
    inserts: tuple[str, ...] = ()  # codes of rows that insert records; those of a snapshot first
    stamps: str = ""  # pattern of the texts in a field that users can add, which order rows exactly
    key_file: str = ""  # beside the files: JSON with the fields of the ID
    loads: str = ""  # pattern of the names of files whose rows do not say what they do, and are upserts
    null: str = ""  # the text of NULL in delimited files, unless the program that writes them has another one
    head: tuple[str, ...] = ()  # the first fields of files without a header
    headless: str = ""  # pattern of the names of these files, which may be recognized by the values of fields alone


def _of(module: str, name: str, **own: Any) -> Callable[..., Envelope]:
    """Return a function that makes an envelope. module: of its class, which is imported once it is needed."""

    def made(**members: Any) -> Envelope:
        found: Envelope = getattr(import_module(f"mutator.rules.{module}"), name)(**own, **members)
        return found

    return made


_CODES = ("deleted.op.code", "upsert.op.code", "truncate.op.code")


def _flat(name: str, own: FlatDialect) -> EnvelopeKind:
    usual = {**own.usual, **({} if own.pattern is None else {_SEQUENCES: own.pattern})}
    codes = {key: value for key, value in own.settings.items() if own.settable and key in _CODES}
    members = {**(_OF_TABLES if own.about else {}), **({"unset": "unset"} if own.may_lack else {})}
    return EnvelopeKind(
        _of("dialects.flat_rows", "FlatRows", dialect=name),
        DIALECT,
        {key: value for key, value in own.settings.items() if key not in codes},
        f"{own.field} says what a row does",
        members,
        own.formats,
        usual | codes,
        by_sequence=own.by_sequence,
        recognizes=own.recognizes,
        inserts=own.inserts,
        null=own.null,
        stamps=own.stamps,
        key_file=own.key_file,
        loads=own.loads,
        head=own.head,
        headless=own.headless,
    )


def _messages(
    kind: str, codes: Collection[str], members: Collection[str], images: Sequence[str]
) -> Callable[[Sequence[str], Callable[[str], Sequence[bytes | None]]], bool]:
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
NO_ROWS = "messages that are no rows"  # a note, before their kinds
KEY_FILES = "key_files"  # of the members of envelopes whose messages may have keys in files of their own
KEYS, BESIDE = "feed.keys", "beside"  # the setting that says where, and a value of it; others are directories
_DELETES, DIALECT, _OP = "delete.when", "feed.dialect", "op.code.field.ordinal"
_SEQUENCES = "sequence.pattern"
# The settings that say how the messages of a feed are read
OF_MESSAGES = (DIALECT, "feed.table", "feed.unset", KEYS, "feed.time.unit", "feed.decimals")
_OF_DEBEZIUM = {
    "op.code.field.ordinal": "__op",
    "delete.when": "code",
    "deleted.op.code": "d",
    "upsert.op.code": "c,r,u",
    "truncate.op.code": "t",
    "ignore.op.code": "heartbeat,message,schema change,tombstone,transaction",
    "op.code.keep": "false",
}
_OF_MAXWELL = _OF_DEBEZIUM | {
    "truncate.op.code": "truncate",
    "deleted.op.code": "delete",
    "upsert.op.code": "bootstrap-insert,insert,update",
    "ignore.op.code": "bootstrap-complete,bootstrap-start,schema change,tombstone",
}
_OF_CANAL = _OF_DEBEZIUM | {
    "truncate.op.code": "truncate",
    "deleted.op.code": "delete",
    "upsert.op.code": "init,insert,update",
    "ignore.op.code": "heartbeat,schema change,tombstone,transaction",
}
_OF_OGG = _OF_DEBEZIUM | {
    "truncate.op.code": "truncate",
    "deleted.op.code": "delete",
    "upsert.op.code": "insert,update",
    "ignore.op.code": "tombstone",
}
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
_OF_DMS = _OF_DEBEZIUM | {
    "truncate.op.code": "truncate",
    "deleted.op.code": "delete",
    "upsert.op.code": "insert,load,update",
    "ignore.op.code": "schema change,tombstone",
}
_OF_TABLES = {"table": "table", "others": "others"}
_SAID_OF_DEBEZIUM_AVRO = {**_OF_TABLES, KEY_FILES: KEY_FILES}
_SAID_OF_DEBEZIUM = {**_SAID_OF_DEBEZIUM_AVRO, "unit": "time_unit", "decimals": "decimals"}


def _debezium(module: str, name: str, file_format: str, members: Mapping[str, str]) -> EnvelopeKind:
    return EnvelopeKind(
        _of(f"dialects.{module}", name),
        DIALECT,
        _OF_DEBEZIUM,
        "the op of a message says what it does",
        members,
        (file_format,),
        recognizes=_is_debezium,
        around=("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns", "schema", "payload"),
        inserts=("r", "c"),
    )


ENVELOPES: Mapping[str, EnvelopeKind] = {
    "code": EnvelopeKind(_of("envelope", "OpCodeField"), _DELETES),
    "not null": EnvelopeKind(
        _of("envelope", "DeleteMarkField"), _DELETES, {"deleted.op.code": PRESENT.decode()}, "any value marks a delete"
    ),
    "debezium-json": _debezium("debezium", "DebeziumJson", "json", _SAID_OF_DEBEZIUM),
    "debezium-avro": _debezium("debezium_avro", "DebeziumAvro", "avro", _SAID_OF_DEBEZIUM_AVRO),
    "debezium-parquet": _debezium("debezium_avro", "DebeziumAvro", "parquet", _SAID_OF_DEBEZIUM_AVRO),
    "debezium-flat": EnvelopeKind(
        _of("dialects.debezium_flat", "DebeziumFlat"),
        DIALECT,
        _OF_DEBEZIUM,
        "__op and __deleted say what a row does",
        _SAID_OF_DEBEZIUM,
        recognizes=_is_debezium_flat,
        around=("schema", "payload"),
        inserts=("r", "c"),
    ),
    "maxwell-json": EnvelopeKind(
        _of("dialects.maxwell", "MaxwellJson"),
        DIALECT,
        _OF_MAXWELL,
        "the type of a message says what it does",
        _OF_TABLES,
        ("json",),
        recognizes=_messages("type", _TYPES_OF_MAXWELL, _AROUND_MAXWELL[:4], ("data",)),
        around=_AROUND_MAXWELL,
        inserts=("bootstrap-insert", "insert"),
    ),
    "canal-json": EnvelopeKind(
        _of("dialects.canal", "CanalJson"),
        DIALECT,
        _OF_CANAL,
        "the type of a message says what it does",
        _OF_TABLES,
        ("json",),
        recognizes=_messages("type", _TYPES_OF_CANAL, _AROUND_CANAL[:5], ("data",)),
        around=_AROUND_CANAL,
        inserts=("init", "insert"),
    ),
    "ogg-json": EnvelopeKind(
        _of("dialects.ogg", "OggJson"),
        DIALECT,
        _OF_OGG,
        "the op_type of a message says what it does",
        _OF_TABLES,
        ("json",),
        recognizes=_messages("op_type", "IUDT", ("table",), ("before", "after")),
        around=_AROUND_OGG,
        inserts=("insert",),
    ),
    "aws-dms-json": EnvelopeKind(
        _of("dialects.dms", "DmsJson"),
        DIALECT,
        _OF_DMS,
        "the operation of a message says what it does",
        _OF_TABLES,
        ("json",),
        recognizes=_is_dms_json,
        around=("data", "metadata", "control", "before-image"),
        inserts=("load", "insert"),
    ),
    **{name: _flat(name, own) for name, own in FLAT_DIALECTS.items()},
}


def with_messages_of(settings: Mapping[str, Any], applied: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a place after a run: how it read messages, unless the place has an op code field.

    >>> with_messages_of({"key": "id", "feed.table": "t"}, {"feed.dialect": "canal-json", "reject.policy": "fail"})
    {'key': 'id', 'feed.dialect': 'canal-json'}
    """
    if DIALECT not in applied or _OP in settings:
        return settings
    own = {name: value for name, value in settings.items() if name not in OF_MESSAGES}
    return {**own, **{name: applied[name] for name in OF_MESSAGES if name in applied}}


def chosen_by(setting: str) -> tuple[str, ...]:
    """Return the names of the envelopes that a setting chooses.

    >>> chosen_by("delete.when")
    ('code', 'not null')
    """
    return tuple(name for name, one in ENVELOPES.items() if one.setting == setting)


def has_tables(envelope: str, names: Sequence[str]) -> bool:
    """Return whether rows with these fields say their table, so that those of others may have more or fewer fields.

    >>> has_tables("ticdc-csv", ["ticdc-meta$table", "TICDC-META$SCHEMA", "id"]), has_tables("aws-dms", ["Op", "id"])
    (True, False)
    """
    own = FLAT_DIALECTS.get(envelope)
    found = () if own is None else own.elements(names) or [name.lower() for name in names]
    return own is not None and bool(own.about) and {*own.about} <= {*found}


def of_first_load(files: Sequence[str], beside: Callable[[str], bytes]) -> str | None:
    """Return the dialect of files whose rows do not say what they do, as those of a first load; None if they are plain.

    files: their names. beside: returns another file of their directory, nothing if there is none.

    >>> of_first_load(["LOAD00000001.csv", "LOAD0000000A.csv"], lambda name: b""), of_first_load(["a.csv"], bytes)
    ('aws-dms', None)
    """
    for name, one in ENVELOPES.items():
        if (
            one.loads
            and all(re.search(one.loads, file) for file in files)
            and (not one.key_file or beside(one.key_file))
        ):
            return name
    return None


def recognized(
    names: Sequence[str], values: Callable[[str], Sequence[bytes | None]], file: str, file_format: str
) -> str | None:
    """Return the dialect of a file; None if its rows are plain records.

    names: of its fields, with the paths of those within them; ordinals where it has no names. values: returns the first
    values of one. file: its name, which has to say the sequence where that is the order of the dialect.

    >>> [recognized(["id", name], lambda name: [b"c", b"d"], "a", "csv") for name in ("__op", "op")]
    ['debezium-flat', None]
    """
    for name, one in ENVELOPES.items():
        pattern = one.usual.get(_SEQUENCES)
        fits = pattern is None or parse_pattern(pattern).sequence(file) is not None
        fits &= [*names[:1]] != ["0"] or bool(one.head and re.search(one.headless, file))
        fits &= file_format in (one.formats or (file_format,))
        if one.recognizes is not None and fits and one.recognizes(names, values):
            return name
    return None
