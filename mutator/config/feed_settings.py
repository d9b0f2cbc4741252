"""The settings that decide how a feed is read, merged and shown: recorded, so that its files can be read the same way
later, and values that a run kept out stay out.

>>> from mutator.config import parse
>>> feed_settings(parse({"key": "id", "op": ["op"], "num.reducer": 8}).given)
{'id.field.ordinals': 'id', 'op.code.field.ordinal': ['op']}
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mutator.config.definitions import DEFAULTS, FIRST_DEFAULTS, definition, newest_defaults, published
from mutator.config.sources import shown
from mutator.rules.envelopes import ENVELOPES

SHOWN_FIELDS = "report.fields"
# What marks the deletes of a feed
OF_DELETES = (
    *("op.code.field.ordinal", "deleted.op.code", "upsert.op.code", "ignore.op.code", "op.code.in.master"),
    *dict.fromkeys(one.setting for one in ENVELOPES.values()),
    *("deleted.record.file.prefix", "deleted.record.file.pattern"),
)


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
