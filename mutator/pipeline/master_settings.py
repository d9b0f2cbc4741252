"""Settings that the manifest of a managed master has, so that a run need not repeat them."""

import re
from collections.abc import Mapping
from typing import Any

from mutator.config.definitions import DEFAULTS, OF_FIELDS, SETTINGS, published
from mutator.config.feed_settings import OF_DELETES, OF_ORDER, SHOWN_FIELDS, has_no_op_codes, is_full
from mutator.config.sources import shown
from mutator.dataset.directory import read_manifest
from mutator.dataset.state import State
from mutator.rules.envelope_kind import DIALECT
from mutator.rules.envelopes import OF_APPLIES, OF_PATCHES
from mutator.rules.order_types import POSITION, Part, has_position, parts_of, recorded_fields, type_of_fields
from mutator.storage import located, located_to_write

_NUMERIC, _NULL, _OP, _KEEP = "temporal.ordering.field.numeric", "null.order", "op.code.field.ordinal", "op.code.keep"
_ORDER = "temporal.ordering.field.ordinal"
_TYPE, _PATTERN = "temporal.ordering.field.type", "sequence.pattern"
_DELIMITER, _ADOPT, _SYNC = "field.delim.regex", "master.adopt", "sync.mode"
_NAMES, _FORMAT, _FEED_FORMAT = "field.names", "input.format", "feed.format"
_OF_DELTAS = frozenset((*OF_DELETES, *OF_PATCHES))
_FILES_OF_DELETES = ("deleted.record.file.prefix", "deleted.record.file.pattern")
# What one run does, may do, or writes. The others say how a feed is read, and the next one is read in the same way.
_OF_ONE_RUN = frozenset(
    (
        *("write.operation", _SYNC, "sync.scope", "snapshot.as.of", "allow.older.snapshot", "order.max", "order.check"),
        *("order.epoch", "header.check", "feed.other.tables"),
        *("removed.fields", "op.code.in.master", _FORMAT, "master.format"),
        *("output.format", "output.codec", "output.schema", "tombstone.retention"),
        *("partitioned.by", "key.scope", "partition.columns"),  # each run reads them in the manifest
    )
)
# Several ways to say one thing: the one that a user gives replaces them all.
_INSTEAD = (
    (_TYPE, _NUMERIC),
    (_DELIMITER, "field.delim"),
    (_FORMAT, _FEED_FORMAT),
    _FILES_OF_DELETES,
)
_OF_FIELDS = ("id.field.ordinals", "temporal.ordering.field.ordinal", "field.count", SHOWN_FIELDS)
_ORDINAL = re.compile(r"(?<![\w.])[0-9]+(?![\w.])")


def recorded_settings(master: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a master's manifest that a user has not set, by the names in files.

    settings: those of the user. None are returned for a master without a manifest, nor with ``master.adopt=true``.
    """
    return recorded_in_manifest(manifest_at(master), settings)


def manifest_at(master: str) -> State | None:
    """Return the manifest of a master; None for one without a manifest, or where there is no directory."""
    storage, path = located(master)
    entry = storage.stat(path)
    return read_manifest(storage, path) if entry is not None and entry.type == "directory" else None


def recorded_in_manifest(known: State | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a master's manifest that a user has not set; see ``recorded_settings``."""
    if known is None or known.is_without_key or adopts(settings):
        return {}
    return settings_of_state(known, settings)


def settings_of_state(known: State, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a specification has and a user has not set, by the names in files.

    settings: those of the user. Names of fields are in lists, where they are never read as ordinals.
    """
    given = _given(settings)
    found = {**_op(known), **_key_and_order(known, given), **_delimiter(known)}
    if _NUMERIC in given:  # the older name of the order type
        found.pop("order_type", None)
    left_out = {*given, *(OF_DELETES if has_no_op_codes(settings) else ())}
    return {key: value for key, value in found.items() if published(key) not in left_out}


def chained_settings(master: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with which a run goes on where the last run of its master ended, unless a user has set them.

    settings: those of the user; an empty one is set, too. None are returned where ``recorded_settings`` returns none.
    """
    if adopts(settings):
        return {}
    return settings_after(manifest_at(located_to_write(master)[1]), settings)


def adopts(settings: Mapping[str, Any]) -> bool:
    """Return whether a run takes the rows of its master without the manifest, by the settings of its user."""
    return _given(settings).get(_ADOPT) == "true"


def settings_after(known: State | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the next run of a master, by the names in files; see ``chained_settings``.

    They are those of its manifest, and those by which the last run has read its feed: the rows of the master no longer
    have the op code. What a run may do, and what it writes, is asked for again each time.
    """
    if known is None or known.is_without_key:
        return {}
    given = {published(key): shown(value) for key, value in settings.items()}
    newest = known.feed_settings[-1].settings if known.feed_settings else {}
    last = {key: value for key, value in newest.items() if key not in _OF_DELTAS} | _marks_of_deltas(known)
    left_out = {*_OF_ONE_RUN, DEFAULTS, *(name for name, one in SETTINGS.items() if one.default == last.get(name))}
    # A default belongs to the run that adds its field, and the specification has merge functions.
    kept = {key: value for key, value in last.items() if not (key in left_out or key.startswith(OF_FIELDS))}
    if _FORMAT in newest:  # the master has the format of the manifest
        kept = {_FEED_FORMAT: newest[_FORMAT], **kept}
    kept = _agreeing(kept, given, newest.get(_OP, ""), is_named="fields" in known.spec["key"])
    found = settings_of_state(known, {**kept, **settings})
    short = {SETTINGS[name].short or name if name in SETTINGS else name: value for name, value in kept.items()}
    return {name: value for name, value in {**found, **short}.items() if published(name) not in given}


def _marks_of_deltas(known: State) -> dict[str, Any]:
    """Return the settings of the newest run without a full snapshot that say what marks its deletes and patches."""
    runs = (one.settings for one in reversed(known.feed_settings) if not is_full(one.settings))
    return {name: value for name, value in next(runs, {}).items() if name in _OF_DELTAS}


def _agreeing(kept: Mapping[str, Any], given: Mapping[str, str], op: Any, *, is_named: bool) -> dict[str, Any]:
    """Return the settings of the last run that still hold beside those of a user.

    op: the op code field of the last run. is_named: the fields of the master have names, and so have those of its
    feeds, in any order.
    """
    changed = {name for name, value in given.items() if value != shown(kept.get(name, ""))}
    left_out = {name for names in _INSTEAD if changed.intersection(names) for name in names}
    if given.get(_SYNC) == "full" or changed.intersection((_OP, *_FILES_OF_DELETES)):
        left_out.update(OF_DELETES)
    if DIALECT in changed or DIALECT in left_out & kept.keys():
        left_out.update(OF_APPLIES)
    if is_named:
        left_out.add(_NAMES)
    found = {name: value for name, value in kept.items() if name not in left_out}
    if not is_named and changed.isdisjoint((_OP, _NAMES)) and shown(op) == shown(found.get(_OP, "")):
        return found
    # Ordinals are those of a row that looks like the last run's.
    by_ordinal = {name for name in found.keys() & _OF_FIELDS if _has_ordinals(found[name])}
    hidden = {SHOWN_FIELDS: "none"} if SHOWN_FIELDS in by_ordinal else {}
    return {name: value for name, value in found.items() if name not in by_ordinal} | hidden


def _has_ordinals(value: Any) -> bool:
    if isinstance(value, list | tuple):  # where texts are names
        return any(isinstance(part, int) for part in value)
    return _ORDINAL.search(shown(value)) is not None


def recorded_with_feed(
    known: State | None, settings: Mapping[str, Any], newest: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the settings of the last run and of a manifest that a user has not set; see ``recorded_settings``.

    newest: settings of the last run; None: those that the manifest has recorded.
    """
    given = _given(settings)
    if newest is None:
        newest = known.feed_settings[-1].settings if known is not None and known.feed_settings else {}
    # The manifest has the order, which another command may have changed since
    decided = {*given, DEFAULTS, *(OF_ORDER if known is not None and not known.is_without_key else ())}
    kept = {name: value for name, value in newest.items() if name not in decided}
    return {**recorded_in_manifest(known, {**settings, **kept}), **kept}


def shown_fields_of(known: State, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return which values the last run of a dataset may show, as settings that a user has not set.

    settings: those of the user. Ordinals are those of a feed row, so they come with the run's op code field and names.
    """
    kept = known.feed_settings[-1].settings if known.feed_settings else {}
    given = _given(settings)
    if SHOWN_FIELDS not in kept or SHOWN_FIELDS in given:
        return {}
    value = kept[SHOWN_FIELDS]
    fields = value.split(",") if isinstance(value, str) else map(str, value)
    has_ordinals = any(field.strip().removeprefix("-").isdigit() for field in fields)
    names = (SHOWN_FIELDS, _OP, "field.names") if has_ordinals else (SHOWN_FIELDS,)
    return {name: kept[name] for name in names if name in kept and name not in given}


def _given(settings: Mapping[str, Any]) -> dict[str, str]:
    return {published(key): shown(value) for key, value in settings.items() if shown(value)}


def _key_and_order(known: State, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the record ID and the order; ordinals are those of a feed row, which may have an op code more."""
    key, order = known.spec["key"], known.spec["order"]
    op = given.get(_OP)
    names = given.get("field.names", "").split(",")
    at = None if op is None else int(op) if op.isdigit() else names.index(op) if op in names else -1
    ordinals = "fields" not in key

    def field(one: Any) -> Any:
        return one + (at is not None and known.spec["op code"] is None and one >= at) if ordinals else one

    if ordinals and at == -1:  # a field that only a header names
        return {}
    found: dict[str, Any] = {"key": [field(one) for one in key["ordinals" if ordinals else "fields"]]}
    if order["by"] == "file name":
        return found | ({_PATTERN: order["pattern"]} if order.get("pattern") is not None else {})
    fields, own_type = recorded_fields(order), type_of_fields(order["type"])
    position = [POSITION] if has_position(order["type"]) else []
    by = [*map(field, fields), *position]
    found |= {"order_by": by[0] if ordinals and len(by) == 1 else by}
    own = given.get(_ORDER)
    is_default = {*parts_of(own_type or "long")} == {Part(SETTINGS[_TYPE].default or "")}  # which a feed may widen
    if not is_default and (own is None or len(own.split(",")) == len(by)):
        found |= {"order_type": own_type}
    found |= {"order.keep": False} if order.get("beside") else {}
    return found | ({_NULL: order["null"]} if "null" in order else {})


def _op(known: State) -> dict[str, Any]:
    """Return the op code field, if the master's rows have it."""
    field = known.spec["op code"]
    return {} if field is None else {"op": [field] if isinstance(field, str) else field, _KEEP: True}


def _delimiter(known: State) -> dict[str, Any]:
    literal = known.spec.get("delimiter", {}).get("literal")
    return {"delimiter": literal} if literal not in (None, SETTINGS[_DELIMITER].default) else {}
