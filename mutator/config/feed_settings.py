"""The settings that decide how a feed is read, merged and shown: recorded, so that its files can be read the same way
later, and values that a run kept out stay out.

>>> from mutator.config import parse
>>> feed_settings(parse({"key": "id", "op": ["op"], "num.reducer": 8}).given)
{'id.field.ordinals': 'id', 'op.code.field.ordinal': ['op']}
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mutator.config.definitions import DEFAULTS, FIRST_DEFAULTS, definition, in_one_spelling, newest_defaults, published
from mutator.config.sources import shown
from mutator.rules.envelopes import ENVELOPES, OF_MESSAGES, OF_PATCHES

SHOWN_FIELDS, OP = "report.fields", "op.code.field.ordinal"
# What marks the deletes of a feed; a full snapshot has none of it, but may have fields that were not sent
_OF_MESSAGES_ALONE = [name for name in OF_MESSAGES if name not in OF_PATCHES]
OF_DELETES = (
    *(OP, "deleted.op.code", "upsert.op.code", "ignore.op.code", "truncate.op.code"),
    *("op.code.in.master", "op.code.keep"),
    *dict.fromkeys((*(one.setting for one in ENVELOPES.values()), *_OF_MESSAGES_ALONE)),
    *("deleted.record.file.prefix", "deleted.record.file.pattern"),
)

# What orders mutations; none of it holds in a place whose order was changed. (``sequence.pattern`` does: it says in any
# order which files are later.)
OF_ORDER = (
    *("temporal.ordering.field.ordinal", "temporal.ordering.field.type", "temporal.ordering.field.numeric"),
    *("order.keep", "null.order", "order.epoch"),
)


def is_full(settings: Mapping[str, Any]) -> bool:
    """Return whether a run has a full snapshot as its feed, by its settings."""
    return any(published(name) == "sync.mode" and shown(value) == "full" for name, value in settings.items())


def keeps_history(settings: Mapping[str, Any]) -> bool:
    """Return whether a table with some settings keeps all versions of its records.

    >>> keeps_history({"scd.type": 2}), keeps_history({"history": "off"})
    (True, False)
    """
    return any(published(name) == "history" and in_one_spelling(name, one) == "on" for name, one in settings.items())


def has_no_op_codes(settings: Mapping[str, Any]) -> bool:
    """Return whether settings say that a feed has no op codes: those of a full snapshot, or an empty op code field."""
    is_empty = any(published(name) == OP and not shown(value) for name, value in settings.items())
    return is_empty or is_full(settings)


def feed_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the given settings that decide how a feed is read, merged and shown, by their published names.

    Values are text, or lists of texts and numbers, as JSON has them. After the first change of a default, the number of
    the version of the defaults that the other settings had is beside them.
    """
    version = newest_defaults()
    found = {
        name: list(value) if isinstance(value, list | tuple) else shown(value)
        for name, value in given.items()
        if definition(name).is_recorded
    }
    return found if version == FIRST_DEFAULTS else {DEFAULTS: version, **found}


def as_recorded(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a run for ``parse``, which then takes the defaults of that time."""
    return {DEFAULTS: FIRST_DEFAULTS, **settings}


def states_deletes(settings: Iterable[str]) -> bool:
    """Return whether settings say what marks the deletes of a feed, or, by an empty value, that nothing does."""
    return not {published(name) for name in settings}.isdisjoint(OF_DELETES)
