"""Every setting, defined once: help, reference, schema, parser and messages are made from these tables.

setting  the definition of one
rows     settings of rows, fields and files
runs     settings of runs: limits, the workflow, speed

>>> definition("order_by").name, definition("--order-by").name, definition("rsbm.sync.mode").default
('temporal.ordering.field.ordinal', 'temporal.ordering.field.ordinal', 'partial')
"""

from collections.abc import Mapping
from typing import Any

from mutator.config.definitions.rows import ROWS
from mutator.config.definitions.runs import RUNS
from mutator.config.definitions.setting import Section, Setting

PREFIX = "rsbm."  # of the original job
DEFAULT_OF_FIELD = "default."  # followed by the name of a field
DEFAULTS = "version of defaults"  # beside the settings that a run has recorded: which defaults the others had
FIRST_DEFAULTS = 1  # where it is not recorded

SECTIONS: tuple[Section, ...] = (*ROWS, *RUNS)
SETTINGS: Mapping[str, Setting] = {setting.name: setting for section in SECTIONS for setting in section.settings}
SHORT: Mapping[str, Setting] = {setting.short: setting for setting in SETTINGS.values() if setting.short is not None}
_OTHER_NAMES = {
    name: setting.name
    for setting in SETTINGS.values()
    for name in (
        setting.name.replace(".", "_"),
        setting.short,
        setting.flag,
    )  # the first is that of an argument in Python
    if name is not None
}


def published(name: str) -> str:
    """Return the published name of a setting, given any of its names; an unknown name without its prefix.

    >>> published("key"), published("rsbm.num.reducer"), published("num_reducer"), published("--runner"), published("x")
    ('id.field.ordinals', 'num.reducer', 'num.reducer', 'runner', 'x')
    """
    bare = name.removeprefix(PREFIX)
    return _OTHER_NAMES.get(bare, bare)


def definition(name: str) -> Setting:
    """Return a setting, given any of its names. Raises KeyError."""
    return SETTINGS["default.FIELD" if name.startswith(DEFAULT_OF_FIELD) else published(name)]


def newest_defaults() -> int:
    """Return the number of the present version of the defaults."""
    return 1 + max((number for one in SETTINGS.values() for number in one.earlier), default=FIRST_DEFAULTS - 1)


def value_by_default(name: str, unset: Any = None, version: int | None = None) -> Any:
    """Return the value of a setting that is not given.

    unset: that of a setting without a default. version: of the defaults; None: the present one.
    """
    setting = SETTINGS[name]
    known = sorted(number for number in setting.earlier if version is not None and version <= number)
    default = setting.earlier[known[0]] if known else setting.default
    return unset if default is None else setting.form.parse(default)
