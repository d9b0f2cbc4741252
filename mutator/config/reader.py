"""Read settings to a ``Config``: from ``.properties``, TOML and ``-D key=value``.

Keys are those of the original MapReduce job, with or without its prefix ``rsbm.`` (which wins where both are given),
and new ones in the same style. Every fault is found at once. An empty value means unset.

>>> config = parse({"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "5"})
>>> config.order_type
'long'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from mutator.config import conflicts, parsers
from mutator.config.settings import Config
from mutator.config.sources import PREFIX, parse_overrides, read_settings, shown, suggestion
from mutator.errors import MutatorError, error
from mutator.errors.display import one_line

# Settings of the platform that ran the original job: its files have them, and mutator ignores them.
_FOREIGN = re.compile(r"(mapreduce|mapred|hadoop|yarn|dfs|fs|io|debug|conf)\.")
_TYPE, _NUMERIC = "temporal.ordering.field.type", "temporal.ordering.field.numeric"
_DEFAULT = "default."  # followed by the name of a field


def load(path: str | Path | None, overrides: Iterable[str] = ()) -> Config:
    """Read a configuration file and ``key=value`` overrides, which win.

    Raises ConfigError with every fault found.
    """
    overrides = tuple(overrides)
    overridden = parse_overrides(overrides)
    where = "the command line" if path is None else str(path)
    return parse(read_settings(path, overrides), where, overridden)


def parse(settings: Mapping[str, Any], where: str = "the configuration", overridden: Iterable[str] = ()) -> Config:
    """Check settings and make a ``Config`` of them.

    settings: key to value as text; numbers, booleans and lists, as TOML has them, are accepted as well. overridden: the
    keys that ``-D`` sets, for messages.
    Raises ConfigError with every fault found, each with key, value, expected form and the nearest known key.
    """
    overridden = {key.removeprefix(PREFIX) for key in overridden}
    given, empty, warnings = _normalise(settings)
    if _TYPE in overridden and _NUMERIC not in overridden:
        given.pop(_NUMERIC, None)  # the older form of the same setting, in the file
    read = _Reader(given)
    config = _config(read)
    numeric = read("temporal.ordering.field.numeric", parsers.flag, None)
    stated = read("temporal.ordering.field.type", parsers.one_of("long", "decimal", "timestamp", "string"), None)
    for key in (*given, *empty):
        if key not in read.known and not key.startswith(_DEFAULT):
            read.faults.append(f"{key}: is not a known setting{suggestion(key, read.known)}")
    order_type = _order_type(config, numeric, stated, read.faults)
    config = replace(config, order_type=order_type, order_stated=stated is not None)
    faults = [*read.faults, *conflicts.faults(config, given)]
    if faults:
        raise _error(faults, where, overridden)
    return replace(config, warnings=(*warnings, *conflicts.warnings(config, given)))


def _error(faults: Sequence[str], where: str, overridden: Collection[str]) -> MutatorError:
    """Return the error of all faults, with ``-D`` before each setting of the command line."""
    marked = [_marked(fault, overridden) for fault in faults]
    if all("-D " in fault for fault in marked):
        where = "the command line"
    return error("config", where=where, faults="\n  ".join(["these settings cannot be used:", *map(one_line, marked)]))


def _marked(fault: str, overridden: Collection[str]) -> str:
    """Return a fault with ``-D`` before the settings of the command line that it names.

    >>> _marked("field.names: 2 names, but field.count = 3", {"field.count"})
    'field.names: 2 names, but -D field.count = 3'
    """
    keys = "|".join(map(re.escape, sorted(overridden, key=len, reverse=True)))
    return re.sub(rf"(?<![\w.'])({keys})(?![\w']|\.\w)", r"-D \1", fault) if keys else fault


def _config(read: _Reader) -> Config:
    """Read every setting that is a field of ``Config``."""
    names = read("field.names", parsers.texts, ())
    # The default of two others.
    input_format = read("input.format", parsers.file_format, None)
    values: dict[str, Any] = {"field_names": names}
    for setting in fields(Config):
        if "key" not in setting.metadata or setting.name in values:
            continue
        key, default = setting.metadata["key"], setting.default
        if key in ("master.format", "feed.format"):
            default = input_format
        parser = setting.metadata.get("parser") or partial(setting.metadata["field parser"], names=names)
        values[setting.name] = read(key, parser, default)
    defaults = {key.removeprefix(_DEFAULT): shown(read.given[key]) for key in read.given if key.startswith(_DEFAULT)}
    return Config(**values, defaults=defaults)


def _order_type(config: Config, numeric: bool | None, stated: str | None, faults: list[str]) -> str:
    if config.by_file_name:
        if stated is not None:
            faults.append(f"temporal.ordering.field.type: '{stated}', but temporal.ordering.field.ordinal is not set")
        return "sequence"
    if stated is None:
        return "string" if numeric is False else "long"
    if numeric is not None and numeric is not (stated in ("long", "decimal")):
        faults.append(
            f"temporal.ordering.field.numeric: '{str(numeric).lower()}' contradicts temporal.ordering.field.type = "
            f"{stated}; leave it out"
        )
    return stated


class _Reader:
    """Read settings one by one; collect the faults, and the keys that are known."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.faults: list[str] = []
        self.known: list[str] = []

    def __call__(self, key: str, parser: Callable[[str], Any], default: Any) -> Any:
        self.known.append(key)
        if key not in self.given:
            return default
        text = shown(self.given[key])
        try:
            return parser(text)
        except ValueError as fault:
            self.faults.append(f"{key}: '{text}' {fault}")
            return default


def _normalise(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Strip the prefix, drop empty and foreign settings; return (settings, keys of empty ones, warnings)."""
    given: dict[str, Any] = {}
    empty = []
    foreign = []
    for key in sorted(settings, key=lambda key: key.startswith(PREFIX)):  # the prefixed ones last: they win
        bare = key.removeprefix(PREFIX)
        if _FOREIGN.match(bare):
            foreign.append(key)
        elif shown(settings[key]) == "":
            given.pop(bare, None)
            empty.append(bare)
        else:
            given[bare] = settings[key]
    warnings = []
    for key in given:
        bare, prefixed = shown(settings.get(key, "")), shown(settings.get(PREFIX + key, ""))
        if bare and prefixed and bare != prefixed:
            warnings.append(f"{key}: '{bare}' is given with and without the prefix {PREFIX}; the prefixed one wins")
    if foreign:
        warnings.append(f"settings of the platform are ignored: {', '.join(sorted(foreign))}")
    return given, [key for key in empty if key not in given], warnings
