"""The tables file: the tables of a run and the configuration of each, as frozen values.

    [run]                               at-once, deadline, record
    [defaults]                          keys for tables that do not have them
    [tables.NAME]                       master, feed, output; or base; config, deadline
    [tables.NAME.settings]              settings of the configuration

``{table}`` in a path is the table's name. Paths are relative to the file. All faults are reported together.

Paths of tables that are merged at the same time: no table may write to a path that another one reads or writes.

Otherwise their order would decide the result. A pattern meets a path if it matches the first parts of the path, one by
one.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from mutator.pipeline.master_settings import chained_settings
from mutator.storage import located
from mutator.workflow.directory.versions import chained_settings_of

_MAGIC = re.compile(r"[*?[]")
_Reads = str | tuple[str, ...]


@dataclass(frozen=True)
class TablePaths:
    """The paths that a table writes and reads, by key of the tables file."""

    table: str
    writes: Mapping[str, str]
    reads: Mapping[str, _Reads]


def clashes(tables: Sequence[TablePaths]) -> list[str]:
    """Return a fault for each path that a table writes and another one reads, writes or has an entry below.

    >>> clashes([TablePaths("a", {"output": "/o/a"}, {}), TablePaths("b", {"output": "/o/b"}, {"master": "/o/a"})])
    ['tables.b.master: is /o/a, the output of table a; tables run in any order, so give b a run of its own']
    """
    written: dict[str, tuple[str, str]] = {}
    found = []
    for table in tables:
        for key, path in table.writes.items():
            first = written.setdefault(_resolved(path), (table.table, key))
            if first != (table.table, key):
                found.append(f"tables.{table.table}.{key}: is {path}, the {first[1]} of table {first[0]}, too; {_CURE}")
    above = {parent: path for path in written for parent in _above(path)}
    for table in tables:
        for key, path, reads in _all_paths(table):
            met = _met(path, written, above, reads)
            if met is None or written[met][0] == table.table:
                continue
            other, role = written[met]
            here = f"tables.{table.table}.{key}"
            if path == met:
                how = f"is {path}, the {role} of table {other}"
                found.append(f"{here}: {how}; tables run in any order, so give {table.table} a run of its own")
            else:
                found.append(f"{here}: {path} and {met}, the {role} of table {other}, overlap; {_CURE}")
    return found


_CURE = "name another path"


def _all_paths(table: TablePaths) -> Iterator[tuple[str, str, bool]]:
    yield from ((key, _resolved(path), False) for key, path in table.writes.items())
    for key, paths in table.reads.items():
        for path in (paths,) if isinstance(paths, str) else paths:
            yield key, _resolved(path), True


def _met(path: str, written: Mapping[str, tuple[str, str]], above: Mapping[str, str], reads: bool) -> str | None:
    """Return a written path that is above a path or below it; for a path that is read, also the path itself."""
    if reads and _MAGIC.search(path.partition("://")[2] or path):
        return next((other for other in written if _matches(path, other)), None)
    if reads and path in written:
        return path
    return next((parent for parent in _above(path) if parent in written), above.get(path))


def _matches(pattern: str, path: str) -> bool:
    parts = zip(pattern.split("/"), path.split("/"), strict=False)
    return all(fnmatch.fnmatchcase(name, part) for part, name in parts)


def _above(path: str) -> Iterator[str]:
    root = path.find("://") + 3 if "://" in path else 1
    while (cut := path.rfind("/", root)) > 0:
        path = path[:cut]
        yield path


def _resolved(path: str) -> str:
    return located(path)[1].rstrip("/")


_RUN = ("at-once", "deadline", "record")
_KEY = "id.field.ordinals"
_TABLE = ("master", "feed", "output", "base", "config", "settings", "deadline")
_NAME = re.compile(r"[^\x00-\x20\x7f{},]([^\x00-\x1f\x7f{},]*[^\x00-\x20\x7f{},])?")


@dataclass(frozen=True)
class ListedTable:
    """One table: a master with its feed and an output, or the base of a workflow."""

    name: str
    config: Config
    master: str
    feed: tuple[str, ...]
    output: str
    base: str | None = None  # None: master, feed and output are set
    deadline: int | None = None  # seconds from when it begins; None: only the run has a deadline
    # Returns the configuration with the settings that the newest manifest adds, when the table begins
    chained: Callable[[], Config] | None = None

    @property
    def paths(self) -> TablePaths:
        """The paths that it reads and writes."""
        if self.base is not None:
            return TablePaths(self.name, {"base": self.base}, {})
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
    reader.faults += clashes([table.paths for table in tables])
    if reader.faults:
        faults = "\n  ".join(["these entries cannot be used:", *dict.fromkeys(reader.faults)])
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
            for key in ("master", "feed", "output"):
                if key in merged:
                    self.faults.append(f"{where}.{key}: is given beside base, which contains it; leave one out")
        else:
            missing = [key for key in ("master", "feed", "output") if merged.get(key) in (None, [])]
            self.faults += [f"{where}.{key}: is missing, and so is base" for key in missing]
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
                layers.append(flat(inline))
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


def _without(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults without paths that the table cannot have: a base has no master, a master no base."""
    paths = {"master", "feed", "output"}
    other = paths if "base" in own else {"base"} if paths & set(own) else set()
    return {key: value for key, value in defaults.items() if key not in other}


def _faults_of(text: str, where: str) -> list[str]:
    """Return the faults of a configuration, each with its table, but for those of the command line."""
    first, *more = text.split("\n  ")
    shown = [one if one.startswith(("-D ", "--")) else f"{where}.settings: {one}" for one in more]
    return shown or [f"{where}: {first}"]
