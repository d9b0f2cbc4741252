"""The envelopes of rows with a field that says what they do, by name.

To add a dialect of messages, write a module with its envelope in ``rules.dialects``, and an entry in
``message_dialects``, which also says how its files are recognized. One of flat rows is an entry in ``flat_dialects``.
A setting chooses an envelope by its name; define a new setting as an attribute of
``config.definitions.operations.OpSpec``. Of several that are chosen, the last is used, so one that is chosen by default
comes before the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mutator.rules.dialects.flat_dialects import FLAT_DIALECTS, FlatDialect
from mutator.rules.dialects.message_dialects import MESSAGE_DIALECTS
from mutator.rules.envelope_kind import DIALECT, OF_TABLES, EnvelopeKind, made_by
from mutator.rules.file_sequences import parse_pattern
from mutator.rules.op_codes import PRESENT

NO_ROWS = "messages that are no rows"  # a note, before their kinds
KEYS, BESIDE = "feed.keys", "beside"  # the setting that says where, and a value of it; others are directories
_TABLE = re.compile(rb"[A-Za-z_][\w$#-]*")
_MOST_TABLES = 20  # that rows show, rather than values of a column
_DELETES, _OP = "delete.when", "op.code.field.ordinal"
_SEQUENCES = "sequence.pattern"
# The settings that say how the messages of a feed are read
OF_MESSAGES = (DIALECT, "feed.table", "unset.value", KEYS, "feed.time.unit", "feed.decimals", "moved.unset")
# Those that say which fields its rows leave unset
OF_PATCHES = ("unset.value", "unset.absent", "columns.to.update", "ignore.null.updates")
OF_APPLIES = tuple(dict.fromkeys((*OF_MESSAGES, *OF_PATCHES)))  # what a table takes from its applies
_CODES = ("deleted.op.code", "upsert.op.code", "truncate.op.code")


def _flat(name: str, own: FlatDialect) -> EnvelopeKind:
    usual = {**own.usual, **({} if own.pattern is None else {_SEQUENCES: own.pattern})}
    codes = {key: value for key, value in own.settings.items() if own.settable and key in _CODES}
    members = {**(OF_TABLES if own.about else {}), **({"unset": "unset"} if own.may_lack else {})}
    return EnvelopeKind(
        made_by("dialects.flat_rows", "FlatRows", dialect=name),
        DIALECT,
        {key: value for key, value in own.settings.items() if key not in codes},
        f"{own.field} says what a row does",
        members,
        own.formats,
        usual | codes,
        leaves_unset=own.unset is not None,
        by_sequence=own.by_sequence,
        recognizes=own.recognizes,
        traces=own.traces,
    )


ENVELOPES: Mapping[str, EnvelopeKind] = {
    "code": EnvelopeKind(made_by("envelope", "OpCodeField"), _DELETES),
    "not null": EnvelopeKind(
        made_by("envelope", "DeleteMarkField"),
        _DELETES,
        {"deleted.op.code": PRESENT.decode()},
        "any value marks a delete",
    ),
    **MESSAGE_DIALECTS,
    **{name: _flat(name, own) for name, own in FLAT_DIALECTS.items()},
}


def settings_after_apply(settings: Mapping[str, Any], applied: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a table after an apply: how the newest one with messages, or with patches, read them.

    A table that has an op code field reads no messages by default.

    >>> settings_after_apply({"key": "id", "feed.table": "t"}, {"feed.dialect": "canal-json", "reject.policy": "fail"})
    {'key': 'id', 'feed.dialect': 'canal-json'}
    >>> settings_after_apply({"op.code.field.ordinal": "op", "unset.value": "~"}, {"ignore.null.updates": "all"})
    {'op.code.field.ordinal': 'op', 'ignore.null.updates': 'all'}
    """
    names: tuple[str, ...] = ()
    if DIALECT in applied:
        names = OF_PATCHES if _OP in settings else OF_APPLIES
    elif not applied.keys().isdisjoint(OF_PATCHES):
        names = OF_PATCHES
    own = {name: value for name, value in settings.items() if name not in names}
    return {**own, **{name: applied[name] for name in names if name in applied}}


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


def fields_of_tables(envelope: str) -> tuple[str, ...]:
    """Return the first fields of a file of several tables, if those of a file of one are others; else none.

    >>> fields_of_tables("aws-dms"), fields_of_tables("ticdc-csv")
    (('Op', 'dms-table', 'dms-schema'), ())
    """
    own = FLAT_DIALECTS.get(envelope)
    return () if own is None else own.fields_of_tables


def are_of_tables(envelope: str, rows: Iterable[tuple[int, Sequence[bytes]]]) -> bool | None:
    """Return whether the rows of a file without a header are of several tables; None if they may be.

    They are if marks of transactions are among them, or if each table has a width of its own. rows: the number of
    fields, and the first three fields.

    >>> are_of_tables("aws-dms", [(5, [b"I", b"orders", b"shop"]), (4, [b"I", b"items", b"shop"])])
    True
    >>> are_of_tables("aws-dms", [(4, [b"I", b"open", b"EU"]), (4, [b"U", b"done", b"EU"])] * 2)
    >>> are_of_tables("aws-dms", [(4, [b"I", b"7", b"EU"]), (4, [b"U", b"8", b"EU"])] * 2)
    False
    """
    own, widths, has_marks = FLAT_DIALECTS.get(envelope), dict[tuple[bytes, ...], list[int]](), False
    if own is None or not own.fields_of_tables:
        return False
    for width, (code, *names) in rows:
        if code.partition(b"|")[0].strip().lower().decode("latin-1") in own.marks:
            has_marks = True
        else:
            widths.setdefault((*names,), []).append(width)
    if not all(len(names) == len(own.about) and all(map(_TABLE.fullmatch, names)) for names in widths):
        return False
    are_apart = (
        all(len({*found}) == 1 for found in widths.values()) and len({found[0] for found in widths.values()}) > 1
    )
    if has_marks or are_apart:
        return True
    return None if 1 < len(widths) <= _MOST_TABLES and all(len(found) > 1 for found in widths.values()) else False


def of_first_load(files: Sequence[str], beside: Callable[[str], bytes]) -> str | None:
    """Return the dialect of files whose rows do not say what they do, as those of a first load; None if they are plain.

    files: their names. beside: returns another file of their directory, nothing if there is none.

    >>> of_first_load(["LOAD00000001.csv", "LOAD0000000A.csv"], lambda name: b""), of_first_load(["a.csv"], bytes)
    ('aws-dms', None)
    """
    for name, one in ENVELOPES.items():
        if (
            one.traces.loads
            and all(re.search(one.traces.loads, file) for file in files)
            and (not one.traces.key_file or beside(one.traces.key_file))
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
        fits &= [*names[:1]] != ["0"] or bool(one.traces.head and re.search(one.traces.headless, file))
        fits &= file_format in (one.formats or (file_format,))
        if one.recognizes is not None and fits and one.recognizes(names, values):
            return name
    return None
