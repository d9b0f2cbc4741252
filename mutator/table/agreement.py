"""Refuse an apply whose key, order or partitions are not those of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutator.config import parse
from mutator.config.definitions import published
from mutator.config.settings import RowSpec, TextSpec
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.rules.partition_fields import text_of

KEY, ORDER, TYPE = "id.field.ordinals", "temporal.ordering.field.ordinal", "temporal.ordering.field.type"
PARTITIONS, SCOPE, NAMES = "partitioned.by", "key.scope", "field.names"
_WORDS = {
    KEY: "key",
    ORDER: "order",
    TYPE: "order type",
    PARTITIONS: "partitioning",
    SCOPE: "key scope",
}


def check_settings(snapshot: Snapshot, rows: RowSpec) -> None:
    """Raise ConfigError if an apply has another key, order or partitions than the table was created with.

    Settings that version 0 lacks are decided by the first apply. After that, the rows have a specification.
    """
    now = _agreed(rows)
    for name, before in settings_of(snapshot, rows.text.names).items():
        if name == TYPE and (before, now[name]) == ("long", "decimal"):
            continue  # every integer is a decimal
        if before != now[name]:
            words = {"name": _WORDS[name], "before": _shown(before), "now": _shown(now[name])}
            raise error("table.spec", path=snapshot.table, **words)


def settings_of(snapshot: Snapshot, names: Sequence[str] = ()) -> Mapping[str, Any]:
    """Return those settings of version 0 that all applies have in common, by their published names.

    Key and order are tuples of fields, by name as far as names are given, else by ordinal. The others are text.
    names: those of an apply, for a table that was created without.
    """
    settings = snapshot.state.settings
    stated = {published(name) for name in settings}
    named = {NAMES: list(names), **settings} if names and NAMES not in stated else settings
    agreed = _agreed(parse(named).rows) if KEY in stated else {}
    return {name: value for name, value in agreed.items() if name in stated}


def _agreed(rows: RowSpec) -> Mapping[str, Any]:
    sources = _names(rows.text, [field.source for field in rows.key.partitions])
    partitions = [replace(field, source=str(name)) for field, name in zip(rows.key.partitions, sources, strict=True)]
    return {
        KEY: _names(rows.text, rows.key.ids),
        ORDER: _names(rows.text, rows.order.fields),
        TYPE: rows.order.type,
        PARTITIONS: text_of(partitions),
        SCOPE: rows.key.scope or "table",
    }


def _names(text: TextSpec, fields: Sequence[Any]) -> tuple[str | int, ...]:
    """Return the names of fields, as far as names are given; else their ordinals."""
    known = text.names
    return tuple(known[one] if isinstance(one, int) and one < len(known) else one for one in fields)


def _shown(value: str | Sequence[str | int]) -> str:
    if not isinstance(value, str):
        value = ", ".join(one if isinstance(one, str) else f"ordinal {one}" for one in value)
    return value or "none"
