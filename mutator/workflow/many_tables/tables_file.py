"""The tables file: the tables of a run and the configuration of each, as frozen values.

    [run]                               at-once, deadline, record, other-tables
    [defaults]                          keys for tables that do not have them
    [tables.NAME]                       master, feed, output; or base, perhaps with a feed that bases share;
                                        config, deadline
    [tables.NAME.settings]              settings of the configuration

``{table}`` in a path or setting is the table's name. Paths are relative to the file. All faults are reported together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from mutator import config as configuration
from mutator.config import Config, parsers
from mutator.config.definitions import published
from mutator.config.reader import completed
from mutator.config.sources import (
    flat,
    in_directory_of,
    layered,
    parse_overrides,
    parse_toml,
    parsed_file,
    read_settings,
    suggestion,
)
from mutator.errors import MutatorError, error
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.master_settings import chained_settings
from mutator.rules.file_names import first_few
from mutator.workflow.directory.versions import chained_settings_of
from mutator.workflow.many_tables.table_paths import TablePaths, clashes, resolved, why_not_shared

_RUN = ("at-once", "deadline", "record", "other-tables")
_ARRIVED = ("claim.min.age", "claim.ready.suffix", "feed.control.suffix")  # which feed files have arrived whole
_KEY = "id.field.ordinals"
_TABLE = ("master", "feed", "output", "base", "config", "settings", "deadline")
_NAME = re.compile(r"[^\x00-\x20\x7f{},]([^\x00-\x1f\x7f{},]*[^\x00-\x20\x7f{},])?")


@dataclass(frozen=True)
class ListedTable:
    """One table: a master with its feed and an output, or the base of a workflow, perhaps with a shared feed."""

    name: str
    config: Config
    master: str
    feed: tuple[str, ...]
    output: str
    base: str | None = None  # None: master, feed and output are set. With it, the feed is none or one directory
    deadline: int | None = None  # seconds from when it begins; None: only the run has a deadline
    # Returns the configuration with the settings that the newest manifest adds, when the table begins
    chained: Callable[[], Config] | None = None

    def with_others(self, others: tuple[str, ...]) -> ListedTable:
        """Return the table with the other tables that its feed may have."""

        def completed(config: Config) -> Config:
            rows = config.rows
            mine = (*others, *(rows.ops.others or ()))
            return replace(config, rows=replace(rows, ops=replace(rows.ops, others=mine)))

        chained = self.chained
        later = None if chained is None else lambda: completed(chained())
        return replace(self, config=completed(self.config), chained=later)

    @property
    def paths(self) -> TablePaths:
        """The paths that it reads and writes."""
        if self.base is not None:
            return TablePaths(self.name, dict([("base", self.base), *(("feed", one) for one in self.feed)]), {})
        return TablePaths(self.name, {"output": self.output}, {"master": self.master, "feed": self.feed})


@dataclass(frozen=True)
class Tables:
    """A checked tables file."""

    path: str
    record: str  # path of the record of the latest run
    tables: tuple[ListedTable, ...]
    at_once: int | None = None
    deadline: int | None = None  # seconds, for all

    def only(self, names: Iterable[str]) -> tuple[ListedTable, ...]:
        """Return the tables with these names. Raises ConfigError for an unknown name."""
        known = {table.name: table for table in self.tables}
        wanted = set(names)
        unknown = [f"{name}: is not one of its tables{suggestion(name, known)}" for name in sorted(wanted - set(known))]
        if unknown:
            raise error("config", where=self.path, faults="\n  ".join(["--only names unknown tables:", *unknown]))
        return tuple(table for table in self.tables if table.name in wanted)


def load(path: str | Path, overrides: Sequence[str] = ()) -> Tables:
    """Read a tables file. overrides: ``key=value`` settings for all tables, with the highest priority.

    Raises ConfigError with every fault found.
    """
    parsed = parse_overrides(overrides)  # first, because a fault in them is one of the command line
    given = parsed_file(Path(path), parse_toml)
    reader = _Reader(Path(path), parsed)
    tables = reader.tables(given)
    run = reader.section(given, "run", _RUN)
    at_once = reader.value("run.at-once", run.get("at-once"), parsers.positive)
    deadline = reader.value("run.deadline", run.get("deadline"), parsers.duration)
    record = reader.text("run.record", run.get("record")) or f".{Path(path).stem}.run"
    stops = reader.value("run.other-tables", run.get("other-tables"), parsers.one_of("report", "stop")) == "stop"
    reader.faults += clashes([table.paths for table in tables])
    for group in sharing(tables).values():
        reader.check_sharing(group)
    if stops and not reader.faults:
        tables = list(reader.without_others(tables))
    if reader.faults:
        faults = "\n  ".join(["these entries cannot be used:", *_joined(reader.faults)])
        raise error("config", where=path, faults=faults)
    return Tables(str(path), reader.resolved(record), tuple(tables), at_once, deadline)


class _Reader:
    """Reads the sections of a file and collects the faults."""

    def __init__(self, path: Path, overrides: Mapping[str, str]) -> None:
        self.faults: list[str] = []
        self._file = path
        self._overrides = overrides
        self._settings_of = cache(read_settings)  # two hundred tables may share one file

    def tables(self, given: Mapping[str, Any]) -> list[ListedTable]:
        """Return the tables without faults."""
        for name in given:
            if name not in ("run", "defaults", "tables"):
                self.faults.append(f"{name}: is not a known section{suggestion(name, ('run', 'defaults', 'tables'))}")
        defaults = self.section(given, "defaults", _TABLE)
        entries = given.get("tables", {})
        if not isinstance(entries, Mapping) or not entries:
            self.faults.append("tables: the file has none; write a section [tables.NAME] for each")
            return []
        found = [self._table(name, entry, defaults) for name, entry in entries.items()]
        return [table for table in found if table is not None]

    def section(self, given: Mapping[str, Any], name: str, known: Sequence[str]) -> Mapping[str, Any]:
        """Return a section, empty if missing. Unknown keys are faults."""
        found = given.get(name, {})
        if not isinstance(found, Mapping):
            self.faults.append(f"{name}: must be a section, [{name}]")
            return {}
        for key in found:
            if key not in known:
                self.faults.append(f"{name}.{key}: is not a known key{suggestion(key, known)}")
        return found

    def value(self, key: str, given: Any, convert: Callable[[str], Any]) -> Any:
        """Convert a value like a setting; None if it is unset or wrong."""
        if given is None:
            return None
        try:
            return convert(str(given))
        except ValueError as fault:
            self.faults.append(f"{key}: '{given}' {fault}")
            return None

    def text(self, key: str, given: Any) -> str | None:
        """Return a path or pattern as given; None if it is unset. Other values are faults."""
        if given is not None and (not isinstance(given, str) or not given):
            self.faults.append(f"{key}: '{given}' must be a path, as text")
            return None
        return given

    def resolved(self, path: str) -> str:
        """Return a path, relative to the file, as one relative to the working directory."""
        return in_directory_of(self._file, path)

    def check_sharing(self, tables: Sequence[ListedTable]) -> None:
        """Add a fault for tables with one feed that have other settings on which of its files have arrived."""
        for table in tables:
            first = tables[0]
            if table.base is not None and _arrived(table.config) != _arrived(first.config):
                self.faults.append(
                    f"tables.{table.name}.settings: {' or '.join(_ARRIVED)} is not that of table {first.name}, with "
                    "which it shares its feed; set them in [defaults.settings]"
                )

    def without_others(self, tables: Sequence[ListedTable]) -> Iterator[ListedTable]:
        """Yield tables with all tables that share their feed as the other tables that it may have."""
        for group in sharing(tables).values():
            for table in group:
                if table.config.rows.ops.table is None:
                    self.faults.append(
                        f"tables.{table.name}.settings: feed.table is missing, which run.other-tables = stop needs"
                    )
        others = {
            table.name: tuple(dict.fromkeys(str(one.config.rows.ops.table) for one in group))
            for group in sharing(tables).values()
            for table in group
        }
        for table in tables:
            yield table.with_others(others[table.name]) if table.name in others else table

    def _table(self, name: str, entry: Any, defaults: Mapping[str, Any]) -> ListedTable | None:
        before = len(self.faults)
        where = f"tables.{name}"
        if not _NAME.fullmatch(name):
            self.faults.append(f"{where}: a name has no comma, brace or control character, and no space at its ends")
        own = self.section({where: entry}, where, _TABLE)
        merged = {**_without(defaults, own), **own}
        place = {key: self._path(where, key, merged.get(key), name) for key in ("master", "output", "base")}
        feeds = merged.get("feed")
        feed = [self._path(where, "feed", one, name) for one in (feeds if isinstance(feeds, list) else [feeds])]
        if place["base"] is not None:
            for key in ("master", "output"):
                if key in merged:
                    self.faults.append(f"{where}.{key}: is given beside base, which contains it; leave one out")
        else:
            missing = [key for key in ("master", "feed", "output") if merged.get(key) in (None, [])]
            self.faults += [f"{where}.{key}: is missing, and so is base" for key in missing]
        if place["base"] is not None and (
            fault := why_not_shared(place["base"], [one for one in feed if one is not None])
        ):
            self.faults.append(f"{where}.feed: {fault}")
        deadline = self.value(f"{where}.deadline", merged.get("deadline"), parsers.duration)
        master, base = place["master"], place["base"]
        config_of = self._config(where, name, own, defaults, master if base is None else None, base)
        if config_of is None or len(self.faults) > before:
            return None
        config, chained = config_of
        return ListedTable(
            name=name,
            config=config,
            chained=chained,
            master=master or "",
            feed=tuple(path for path in feed if path is not None),
            output=place["output"] or "",
            base=base,
            deadline=deadline,
        )

    def _path(self, where: str, key: str, given: Any, name: str) -> str | None:
        text = self.text(f"{where}.{key}", given)
        return None if text is None else self.resolved(text.replace("{table}", name))

    def _config(
        self,
        where: str,
        name: str,
        own: Mapping[str, Any],
        defaults: Mapping[str, Any],
        master: str | None,
        base: str | None,
    ) -> tuple[Config, Callable[[], Config]] | None:
        """Read the configuration: the table's settings win over the defaults, the command line over both.

        Without a key the manifest of the table is read now, so that a missing key is found before anything starts.
        """
        layers = []
        try:
            for whose, section in (("defaults", defaults), (where, own)):
                file = section.get("config")
                if file is not None and not (section is defaults and "config" in own):
                    path = self._path(whose, "config", file, name)
                    layers.append(self._settings_of(path) if path is not None else {})
                inline = section.get("settings", {})
                if not isinstance(inline, Mapping):
                    self.faults.append(f"{whose}.settings: must be a section, [{whose}.settings]")
                    inline = {}
                layers.append({key: _named(value, name) for key, value in flat(inline).items()})
            settings = layered([*layers, self._overrides])

            def chained() -> Config:
                recorded = {}
                if base is not None:
                    recorded = chained_settings_of(base, settings)
                elif master is not None:
                    recorded = chained_settings(master, settings)
                return completed(settings, recorded, where, self._overrides)

            has_key = _KEY in map(published, settings)
            return configuration.parse(settings, where, self._overrides) if has_key else chained(), chained
        except MutatorError as fault:
            self.faults += _faults_of(str(fault), where)
            return None


def sharing(tables: Sequence[ListedTable]) -> dict[tuple[str, ...], list[ListedTable]]:
    """Return the tables that have each feed; tables with a base and no feed have none."""
    found = dict[tuple[str, ...], list[ListedTable]]()
    for table in tables:
        if table.feed:
            found.setdefault(tuple(map(resolved, table.feed)), []).append(table)
    return found


def with_shared_feed(tables: Sequence[ListedTable]) -> frozenset[str]:
    """Return the names of the tables that may find no rows of their own in a feed, because others may have them."""
    every = sharing(tables).values()
    return frozenset(table.name for own in every for table in own if len(own) > 1 or table.base is not None)


def _named(value: Any, name: str) -> Any:
    """Return a setting with the name of the table in place of ``{table}``."""
    if isinstance(value, list):
        return [_named(one, name) for one in value]
    return value.replace("{table}", name) if isinstance(value, str) else value


def _without(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults without paths that the table cannot have: a base has no master, a master no base.

    A feed of the defaults is one that bases share, if the defaults have a base.
    """
    paths = {"master", "output"} if "base" in defaults else {"master", "feed", "output"}
    other = paths if "base" in own else {"base"} if {"master", "output"} & set(own) else set()
    return {key: value for key, value in defaults.items() if key not in other}


def _arrived(config: Config) -> tuple[Any, ...]:
    return config.workflow.claim_min_age, config.workflow.claim_ready_suffix, config.inputs.control_suffix


def _joined(faults: Sequence[str]) -> Iterator[str]:
    """Yield the faults, one of the settings of several tables once."""
    by_text = dict[tuple[str, str], list[str]]()
    for fault in dict.fromkeys(faults):
        where, settings, text = fault.partition(".settings: ")
        by_text.setdefault((settings, text) if settings else (fault, ""), []).append(where)
    for (settings, text), (first, *others) in by_text.items():
        also = f" (also {first_few([one.removeprefix('tables.') for one in others])})" if others else ""
        yield f"{first}{settings}{text}{also}" if text else settings


def _faults_of(text: str, where: str) -> list[str]:
    """Return the faults of a configuration, each with its table, but for those of the command line."""
    first, *more = text.split("\n  ")
    shown = [one if one.startswith(("-D ", "--")) else f"{where}.settings: {one}" for one in more]
    return shown or [f"{where}: {first}"]
