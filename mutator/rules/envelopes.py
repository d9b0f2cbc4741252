"""The envelopes of rows with a field that says what they do, by name.

To add one, write a module with a class of ``rules.envelope`` in ``rules.dialects``, and an entry here, which also says
how its files are recognized (``init`` asks, and the guard of a forgotten setting). A setting chooses it by its name;
define a new one as an attribute of ``config.definitions.operations.OpSpec``. Of several that are chosen, the last is
used, so one that is chosen by default comes before the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from mutator.rules.dialects.flat_dialects import FLAT_DIALECTS, FlatDialect
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
    note: str = ""  # on what the files cannot say
    by_sequence: bool = False  # the sequences in the names of the files are a part of its order
    # Whether a file is of the dialect: the paths of its fields, and a function that returns the first values of one
    recognizes: Callable[[Sequence[str], Callable[[str], Sequence[bytes | None]]], bool] | None = None
    around: tuple[str, ...] = ()  # the fields of messages around a row, which are none of the record
    inserts: tuple[str, ...] = ()  # codes of rows that insert records; those of a snapshot first


def _of(module: str, name: str, **own: Any) -> Callable[..., Envelope]:
    """Return a function that makes an envelope. module: of its class, which is imported once it is needed."""

    def made(**members: Any) -> Envelope:
        found: Envelope = getattr(import_module(f"mutator.rules.{module}"), name)(**own, **members)
        return found

    return made


def _flat(name: str, own: FlatDialect) -> EnvelopeKind:
    made = _of("dialects.flat_rows", "FlatRows", dialect=name)
    usual = {} if own.pattern is None else {"sequence.pattern": own.pattern}
    why = f"{own.field} says what a row does"
    return EnvelopeKind(made, DIALECT, own.settings, why, usual=usual, note=own.note, by_sequence=own.by_sequence)


def _is_debezium_json(names: Sequence[str], values: Callable[[str], Sequence[bytes | None]]) -> bool:
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


_FLAGS, _OPS = frozenset((b"true", b"false")), frozenset((b"c", b"r", b"u", b"d"))
NO_ROWS = "messages that are no rows"  # a note, before their kinds
_DELETES, DIALECT, _OP = "delete.when", "feed.dialect", "op.code.field.ordinal"
# The settings that say how the messages of a feed are read
OF_MESSAGES = (DIALECT, "feed.table", "feed.time.unit", "feed.decimals")
_OF_DEBEZIUM = {
    "op.code.field.ordinal": "__op",
    "delete.when": "code",
    "deleted.op.code": "d",
    "upsert.op.code": "c,r,u",
    "truncate.op.code": "t",
    "ignore.op.code": "heartbeat,message,other table,schema change,tombstone,transaction",
    "op.code.keep": "false",
}
_OF_MAXWELL = _OF_DEBEZIUM | {
    "truncate.op.code": "truncate",
    "deleted.op.code": "delete",
    "upsert.op.code": "bootstrap-insert,insert,update",
    "ignore.op.code": "bootstrap-complete,bootstrap-start,other table,schema change,tombstone",
}
_OF_CANAL = _OF_DEBEZIUM | {
    "truncate.op.code": "truncate",
    "deleted.op.code": "delete",
    "upsert.op.code": "init,insert,update",
    "ignore.op.code": "heartbeat,other table,schema change,tombstone,transaction",
}
_OF_OGG = _OF_DEBEZIUM | {
    "truncate.op.code": "truncate",
    "deleted.op.code": "delete",
    "upsert.op.code": "insert,update",
    "ignore.op.code": "other table,tombstone",
}
_SAID_OF_DEBEZIUM = {"table": "table", "unit": "time_unit", "decimals": "decimals"}
ENVELOPES: Mapping[str, EnvelopeKind] = {
    "code": EnvelopeKind(_of("envelope", "OpCodeField"), _DELETES),
    "not null": EnvelopeKind(
        _of("envelope", "DeleteMarkField"), _DELETES, {"deleted.op.code": PRESENT.decode()}, "any value marks a delete"
    ),
    "debezium-json": EnvelopeKind(
        _of("dialects.debezium", "DebeziumJson"),
        DIALECT,
        _OF_DEBEZIUM,
        "the op of a message says what it does",
        _SAID_OF_DEBEZIUM,
        ("json",),
        recognizes=_is_debezium_json,
        around=("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns", "schema", "payload"),
        inserts=("r", "c"),
    ),
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
        {"table": "table"},
        ("json",),
    ),
    "canal-json": EnvelopeKind(
        _of("dialects.canal", "CanalJson"),
        DIALECT,
        _OF_CANAL,
        "the type of a message says what it does",
        {"table": "table"},
        ("json",),
    ),
    "ogg-json": EnvelopeKind(
        _of("dialects.ogg", "OggJson"),
        DIALECT,
        _OF_OGG,
        "the op_type of a message says what it does",
        {"table": "table"},
        ("json",),
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


def recognized(names: Sequence[str], values: Callable[[str], Sequence[bytes | None]]) -> str | None:
    """Return the dialect of a file; None if its rows are plain records.

    names: of its fields, with the paths of those within them. values: returns the first values of one.

    >>> recognized(["id", "__op"], lambda name: [b"c", b"d"]), recognized(["id", "op"], lambda name: [b"c", b"d"])
    ('debezium-flat', None)
    """
    found = (name for name, one in ENVELOPES.items() if one.recognizes is not None and one.recognizes(names, values))
    return next(found, None)
