"""Settings that the manifest of a managed master has, so that a run need not repeat them."""

from collections.abc import Mapping
from typing import Any

from mutator.config.definitions import DEFAULTS, SETTINGS, published
from mutator.config.feed_settings import SHOWN_FIELDS
from mutator.config.sources import shown
from mutator.dataset.directory import read_manifest
from mutator.dataset.state import State
from mutator.storage import located

_NUMERIC, _NULL, _OP, _KEEP = "temporal.ordering.field.numeric", "null.order", "op.code.field.ordinal", "op.code.keep"
_TYPE, _PATTERN = "temporal.ordering.field.type", "sequence.pattern"
_DELIMITER, _ADOPT = "field.delim.regex", "master.adopt"


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
    if known is None or known.is_without_key or _given(settings).get(_ADOPT) == "true":
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
    return {key: value for key, value in found.items() if published(key) not in given}


def recorded_with_feed(
    known: State | None, settings: Mapping[str, Any], newest: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the settings of the last run and of a manifest that a user has not set; see ``recorded_settings``.

    newest: settings of the last run; None: those that the manifest has recorded.
    """
    given = _given(settings)
    if newest is None:
        newest = known.feed_settings[-1].settings if known is not None and known.feed_settings else {}
    kept = {name: value for name, value in newest.items() if name not in given and name != DEFAULTS}
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
    found = {"key": [field(one) for one in key["ordinals" if ordinals else "fields"]]}
    if order["by"] == "file name":
        return found | ({_PATTERN: order["pattern"]} if order.get("pattern") is not None else {})
    found |= {"order_by": field(order["ordinal"]) if ordinals else [order["field"]]}
    if order["type"] != SETTINGS[_TYPE].default:  # which a feed may widen
        found |= {"order_type": order["type"]}
    return found | ({_NULL: order["null"]} if "null" in order else {})


def _op(known: State) -> dict[str, Any]:
    """Return the op code field, if the master's rows have it."""
    field = known.spec["op code"]
    return {} if field is None else {"op": [field] if isinstance(field, str) else field, _KEEP: True}


def _delimiter(known: State) -> dict[str, Any]:
    literal = known.spec.get("delimiter", {}).get("literal")
    return {"delimiter": literal} if literal not in (None, SETTINGS[_DELIMITER].default) else {}
