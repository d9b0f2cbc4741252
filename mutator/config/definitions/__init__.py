"""Every setting, defined once, with the attribute that has its value: help, reference, schema, parser and messages are
made from these definitions.

setting     the definition of one, and the sections of the reference
rows        how a row is read
operations  what its mutation is
files       the files that a run reads and writes
runs        limits, the workflow, speed

To add a setting, define it as an attribute of the spec in which it is asked for.

>>> definition("order_by").name, definition("--order-by").name, definition("rsbm.sync.mode").default
('temporal.ordering.field.ordinal', 'temporal.ordering.field.ordinal', 'partial')
"""

from collections.abc import Mapping

from mutator.config.definitions.files import InputSpec, OutputSpec
from mutator.config.definitions.operations import OpSpec
from mutator.config.definitions.rows import KeySpec, OrderSpec, TextSpec
from mutator.config.definitions.runs import (
    SHOWN,
    EffortSpec,
    HistorySpec,
    LimitSpec,
    OperationSpec,
    RetentionSpec,
    WorkflowSpec,
)
from mutator.config.definitions.setting import REFERENCE, Section, Setting, settings_of

PREFIX = "rsbm."  # of the original job
DEFAULT_OF_FIELD = "default."  # followed by the name of a field
MERGE_OF_FIELD = "field.merge."  # likewise
OF_FIELDS = (DEFAULT_OF_FIELD, MERGE_OF_FIELD)
DEFAULTS = "version of defaults"  # beside the settings that a run has recorded: which defaults the others had
FIRST_DEFAULTS = 1  # where it is not recorded

# In the order in which the settings of a section are shown.
_SPECS = (
    *(KeySpec, OrderSpec, OpSpec, HistorySpec, InputSpec, OperationSpec, LimitSpec, RetentionSpec),
    *(TextSpec, WorkflowSpec, OutputSpec, EffortSpec),
)
_ALL = (*(setting for spec in _SPECS for setting in settings_of(spec)), SHOWN)
SECTIONS: Mapping[Section, tuple[Setting, ...]] = {
    section: tuple(setting for setting in _ALL if setting.section is section) for section in REFERENCE
}
SETTINGS: Mapping[str, Setting] = {setting.name: setting for settings in SECTIONS.values() for setting in settings}
SHORT: Mapping[str, Setting] = {setting.short: setting for setting in SETTINGS.values() if setting.short is not None}
# Names that other systems have for a setting and its values: for those who know types of slowly changing dimensions
OTHERS: Mapping[str, tuple[str, Mapping[str, str]]] = {"scd.type": ("history", {"1": "off", "2": "on"})}
_OTHER_NAMES = {one: name for other, (name, _) in OTHERS.items() for one in (other, other.replace(".", "_"))} | {
    name: setting.name
    for setting in SETTINGS.values()
    for name in (
        setting.name.replace(".", "_"),  # of an argument in Python
        setting.short,
        setting.flag,
    )
    if name is not None
}


def published(name: str) -> str:
    """Return the published name of a setting, given any of its names; an unknown name without its prefix.

    >>> published("key"), published("rsbm.num.reducer"), published("num_reducer"), published("--runner"), published("x")
    ('id.field.ordinals', 'num.reducer', 'num.reducer', 'runner', 'x')
    """
    bare = name.removeprefix(PREFIX)
    return _OTHER_NAMES.get(bare, bare)


def in_one_spelling(name: str, value: object) -> object:
    """Return the value of a setting as runs record it, given any of its names.

    >>> in_one_spelling("scd.type", 2), in_one_spelling("history", True), in_one_spelling("history", " off ")
    ('on', 'on', 'off')
    """
    if published(name) != "history":
        return value
    other = OTHERS.get(name.removeprefix(PREFIX).replace("_", "."))
    known = {"true": "on", "false": "off", "on": "on", "off": "off"} if other is None else other[1]
    return known.get(str(value).strip().lower() if isinstance(value, bool) else str(value).strip(), value)


def definition(name: str) -> Setting:
    """Return a setting, given any of its names. Raises KeyError."""
    found = next((prefix for prefix in OF_FIELDS if name.startswith(prefix)), None)
    return SETTINGS[published(name) if found is None else f"{found}FIELD"]


def newest_defaults() -> int:
    """Return the number of the present version of the defaults."""
    return 1 + max((number for one in SETTINGS.values() for number in one.earlier), default=FIRST_DEFAULTS - 1)
