"""Read settings to a ``Config``: from ``.properties``, TOML and ``-D key=value``.

Keys are those of the original MapReduce job, with or without its prefix ``rsbm.`` (which wins where both are given),
new ones in the same style, and the short names of common settings. Every fault is found at once. An empty value means
unset.

>>> parse({"key": "id", "order_by": "changed"}) == parse({"id.field.ordinals": "id", "rsbm.order_by": "changed"})
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from mutator.config import conflicts
from mutator.config.audience import Audience, preferred_names
from mutator.config.definitions import (
    DEFAULT_OF_FIELD,
    DEFAULTS,
    MERGE_OF_FIELD,
    OF_FIELDS,
    OTHERS,
    PREFIX,
    SETTINGS,
    SHORT,
    in_one_spelling,
    newest_defaults,
    published,
)
from mutator.config.field_parsers import ordinal
from mutator.config.settings import Config, OrderSpec
from mutator.config.sources import PLACES, parse_overrides, read_settings, shown, suggestion
from mutator.errors import MutatorError, error
from mutator.errors.display import counted, one_line
from mutator.errors.parts import plain, setting
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.envelopes import ENVELOPES
from mutator.rules.merge_names import checked_choice
from mutator.rules.order_types import POSITION, Part, tuple_type, with_position

# Settings of the platform that ran the original job: its files have them, and mutator ignores them.
_FOREIGN = re.compile(r"(mapreduce|mapred|hadoop|yarn|dfs|fs|io|debug|conf)\.")
_TYPE, _NUMERIC = "temporal.ordering.field.type", "temporal.ordering.field.numeric"
_DELETED, _ABSENT = "max.delete.fraction", "max.absence.fraction"
_KNOWN = (*SETTINGS, *SHORT, *OTHERS, *PLACES)
_OTHERWISE = {  # unknown names, and what is set instead
    "buckets": f"; of a directory it is {setting('num.reducer')}; of a table, an option of the command that creates it:"
    " mutator table create --buckets",
    **dict.fromkeys(PLACES, " but a place: give it to the command, or name it in a TOML file"),
}
_COMMAND_LINE = "the command line"
_MOST = 40  # characters of a value in a note
SOURCE = "in the manifest of the master"  # of settings that nobody set
Recorded = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def load(
    path: str | Path | None,
    overrides: Iterable[str] = (),
    recorded: Recorded | None = None,
    source: str = SOURCE,
) -> Config:
    """Read a configuration file and ``key=value`` overrides, which win.

    recorded: returns the settings that the master's manifest adds to the given ones. source: as for ``completed``.
    Raises ConfigError with every fault found.
    """
    overrides = tuple(overrides)
    overridden = parse_overrides(overrides)
    where = _COMMAND_LINE if path is None else str(path)
    settings = read_settings(path, overrides)
    config = completed(settings, {} if recorded is None else recorded(settings), where, overridden, source)
    is_properties = path is not None and Path(path).suffix != ".toml"
    as_published = is_properties and all(map(_is_published, settings))
    return replace(config, rows=replace(config.rows, ops=replace(config.rows.ops, as_published=as_published)))


def completed(
    settings: Mapping[str, Any],
    recorded: Mapping[str, Any],
    where: str,
    overridden: Iterable[str] = (),
    source: str = SOURCE,
) -> Config:
    """Return the configuration of settings and of recorded ones, with a note on these. source: where they are recorded.

    >>> completed({"header": True}, {"key": ["id", "day"]}, "a.toml").wording.noted[0].partition(":")[0]
    'not set, so as in the manifest of the master'
    """
    config = parse({**settings, **recorded}, where, overridden)
    found = ", ".join(setting(f"{key}={_shortened(one_line(shown(value)))}") for key, value in recorded.items())
    if not found:
        return config
    ops = replace(config.rows.ops, recorded="op.code.field.ordinal" in map(published, recorded))
    wording = replace(config.wording, noted=(f"not set, so as {source}: {found}",))
    return replace(config, rows=replace(config.rows, ops=ops), wording=wording)


def parse(settings: Mapping[str, Any], where: str = "the configuration", overridden: Iterable[str] = ()) -> Config:
    """Check settings and make a ``Config`` of them.

    settings: key to value as text; numbers, booleans and lists, as TOML has them, are accepted as well. Those of an
    earlier run come with the version of its defaults. overridden: the keys that the command line sets, for messages;
    those of options begin with ``--``.
    Raises ConfigError with every fault found, each with key, value, expected form and the nearest known key.
    """
    overriding = {published(key): key.removeprefix(PREFIX) for key in overridden}
    version = settings.get(DEFAULTS)
    given, empty, names, warnings = _normalise({key: value for key, value in settings.items() if key != DEFAULTS})
    if _TYPE in overriding and _NUMERIC not in overriding:
        given.pop(_NUMERIC, None)  # the older form of the same setting, in the file
    read = _Reader({**_decided(given), **given}, None if version is None else int(version))
    config = _config(read)
    if read.version is not None and read.version > newest_defaults():
        read.faults.append(f"{DEFAULTS}: {version} is of a newer release of mutator; use that release")
    for key in (*given, *empty):
        if key not in SETTINGS and not key.startswith(OF_FIELDS):
            read.faults.append(
                f"{setting(key)}: is not a known setting{_OTHERWISE.get(key) or suggestion(key, _KNOWN)}"
            )
    rows = replace(config.rows, order=_with_type(config.rows.order, read))
    config = replace(config, rows=rows)
    names_given = {name: bare for name, bare in {**names.written, **overriding}.items() if bare != name}
    in_file = where != _COMMAND_LINE
    in_messages = preferred_names(names_given, given.keys() - names_given.keys(), in_file=in_file)
    written = Audience({**in_messages, **{name: _on_the_command_line(bare) for name, bare in overriding.items()}})
    faults = [written(fault) for fault in (*dict.fromkeys(read.faults), *conflicts.faults(config, given))]
    if faults or names.faults:
        raise _error([*names.faults, *faults], where)
    found = map(written, conflicts.warnings(config, given))
    config = replace(config, wording=replace(config.wording, warned=(*warnings, *found)), given=given)
    return config.read_by(Audience(in_messages))


def _decided(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that the envelope of the feed decides, and those that it usually has."""
    chosen = [one for name, one in ENVELOPES.items() if shown(given.get(one.setting, "")).strip() == name]
    return {key: value for one in chosen for key, value in (*one.decides.items(), *one.usual.items())}


def _is_published(key: str) -> bool:
    """Return whether a key is neither a short name nor an option of the command line."""
    bare = key.removeprefix(PREFIX)
    return bare in SETTINGS or bare.startswith(OF_FIELDS) or _FOREIGN.match(bare) is not None


def _shortened(text: str) -> str:
    """Return the beginning of a long value, such as that of a schema."""
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"


def _error(faults: Sequence[str], where: str) -> MutatorError:
    """Return the error of all faults. where: of settings that are not from the command line."""
    if all("-D " in fault or fault.startswith("--") for fault in map(plain, faults)):
        where = _COMMAND_LINE
    return error("config", where=where, faults="\n  ".join(["these settings cannot be used:", *map(one_line, faults)]))


def _on_the_command_line(name: str) -> str:
    return name if name.startswith("--") else f"-D {name}"


def _config(read: _Reader) -> Config:
    """Read every setting that is an attribute of a spec."""
    if read.stated("feed.dialect") is None:  # else the fields of a file are not those of its records: names stay names
        read.names = read("field.names", ())
    formats = read("input.format")  # the default of two others
    config: Config = _spec(Config, read, {"master.format": formats, "feed.format": formats})
    limits = config.limits
    if config.operation.overwrites and _DELETED not in read.given:
        limits = replace(limits, max_delete_fraction=1.0)  # an overwrite deletes whatever its feed lacks
    if _DELETED in read.given and _ABSENT not in read.given:
        limits = replace(limits, max_absence_fraction=limits.max_delete_fraction)
    defaults = {
        key.removeprefix(DEFAULT_OF_FIELD): shown(value)
        for key, value in read.given.items()
        if key.startswith(DEFAULT_OF_FIELD)
    }
    rows = replace(config.rows, ops=replace(config.rows.ops, merges=_merges(read)))
    return replace(config, rows=rows, output=replace(config.output, defaults=defaults), limits=limits)


def _merges(read: _Reader) -> tuple[tuple[Any, str], ...]:
    """Read the merge functions of fields."""
    found = dict[Any, str]()
    for key in read.given:
        if not key.startswith(MERGE_OF_FIELD):
            continue
        try:
            field = ordinal(key.removeprefix(MERGE_OF_FIELD), read.names)
            choice = checked_choice(shown(read.given[key]))
            if found.setdefault(field, choice) != choice:
                raise ValueError(f"the field has the function {found[field]}, too; keep one of both")
        except ValueError as fault:
            read.faults.append(f"{setting(key)}: {fault}")
    return tuple(found.items())


def _spec(spec: Any, read: _Reader, unset: Mapping[str, Any]) -> Any:
    """Read the settings of a spec, and of the specs within. unset: key to its value if it is not given."""
    values: dict[str, Any] = {}
    for one in fields(spec):
        factory: Any = one.default_factory
        if "setting" in one.metadata:
            key, default = one.metadata["setting"].name, one.default
            if read.version is not None:
                default = read.default(key, one.metadata["otherwise"])
            values[one.name] = read.stated(key, unset.get(key, default))
        elif is_dataclass(factory):
            values[one.name] = _spec(factory, read, unset)
    return spec(**values)


def _with_type(order: OrderSpec, read: _Reader) -> OrderSpec:
    """Return an order with the type of its values."""
    numeric, stated = read.stated(_NUMERIC), read.stated(_TYPE)
    if POSITION in order.fields:
        if order.fields.index(POSITION) < len(order.fields) - 1:
            read.faults.append(f"{setting('temporal.ordering.field.ordinal')}: {POSITION} must be the last field")
        order = replace(
            order, fields=tuple(one for one in order.fields if one != POSITION), position=True, type="position"
        )
    if not order.fields:
        dialect = read.stated("feed.dialect")
        by_name = order.pattern is not None and not (dialect and ENVELOPES[dialect].by_sequence)
        order = replace(order, of_feed=dialect is not None and not by_name and not order.position)
        if stated is not None:
            field = setting("temporal.ordering.field.ordinal")
            read.faults.append(f"{setting(_TYPE)}: '{shown(read.given[_TYPE])}', but {field} is not set")
        return order
    parts = stated or ((None, False),) * len(order.fields)
    if len(parts) != len(order.fields):
        fields = setting("temporal.ordering.field.ordinal")
        read.faults.append(
            f"{setting(_TYPE)}: {counted(len(parts), 'type')}, but {counted(len(order.fields), 'field')} in {fields}"
        )
        return order
    types = shown(read.given.get(_TYPE, ""))
    if numeric is not None and any(name and numeric is not (name in ("long", "decimal")) for name, _ in parts):
        read.faults.append(
            f"{setting(_NUMERIC)}: '{str(numeric).lower()}' contradicts {setting(f'{_TYPE} = {types}')}; leave it out"
        )
    ((usual, _),) = read.default(_TYPE)
    usual = "string" if numeric is False else usual
    found = [Part(name or usual, descending) for name, descending in parts]
    return replace(
        order,
        type=with_position(tuple_type(found)) if order.position else tuple_type(found),
        stated=tuple(number for number, (name, _) in enumerate(parts) if name is not None),
    )


class _Reader:
    """Read settings one by one, and collect the faults."""

    def __init__(self, given: Mapping[str, Any], version: int | None) -> None:
        """Take the settings. version: of the defaults of the others; None: the present one."""
        self.given, self.version = given, version
        self.faults: list[str] = []
        self.names: tuple[str, ...] = ()  # of all fields

    def __call__(self, key: str, otherwise: Any = None) -> Any:
        """Return the value of a setting, or else its default. otherwise: if it has none."""
        return self.stated(key, self.default(key, otherwise))

    def default(self, key: str, otherwise: Any = None) -> Any:
        """Return the value of a setting that is not given. otherwise: if it has no default."""
        return SETTINGS[key].by_default(otherwise, self.version)

    def stated(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting that is given and can be read, or else a default."""
        if key not in self.given:
            return default
        form, value = SETTINGS[key].form, self.given[key]
        names = (self.names,) if form.takes_names else ()
        try:
            if not isinstance(value, list | tuple):
                return form.parse(shown(value), *names)
            if not all(isinstance(part, str | int) and not isinstance(part, bool) for part in value):
                raise ValueError("must be a list of texts or whole numbers")
            return form.parse_list(value, *names)
        except ValueError as fault:
            self.faults.append(f"{setting(key)}: '{shown(value)}' {fault}")
            return default


def _is_unset(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple) and not value)


@dataclass(frozen=True)
class _Names:
    """The names of settings in a source. written: published name to the short one that the source has."""

    written: Mapping[str, str]
    faults: Sequence[str]  # two names of one setting, with different values


def _normalise(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], _Names, list[str]]:
    """Give settings their published names; drop empty and foreign ones.

    Return the settings, the names of empty ones, the names in the source, and warnings.
    """
    given: dict[str, Any] = {}
    written: dict[str, str] = {}
    faults, empty, foreign, warnings = [], [], [], []
    for key in sorted(settings, key=lambda key: key.startswith(PREFIX)):  # the prefixed ones last: they win
        name, bare, value = published(key), key.removeprefix(PREFIX), in_one_spelling(key, settings[key])
        if _FOREIGN.match(bare):
            foreign.append(key)
        elif _is_unset(value):
            given.pop(name, None)
            empty.append(name)
        else:
            before = written.get(name, name)
            if name in given and shown(given[name]) != shown(value):
                values = f"{before} is '{shown(given[name])}' and {key} is '{shown(value)}'"
                if key == bare:
                    faults.append(f"{values}, two names of one setting; keep one of them")
                else:
                    warnings.append(f"{values}; the one with the prefix {PREFIX} wins")
            given[name] = value
            written[name] = bare
    if foreign:
        warnings.append(f"settings of the platform are ignored: {', '.join(sorted(foreign))}")
    short = {name: bare for name, bare in written.items() if name != bare}
    return given, [key for key in empty if key not in given], _Names(short, faults), warnings
