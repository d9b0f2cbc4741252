"""Which feed files in incr/ have arrived whole, and why the others wait.

Notes of runs on files in incr/: since when one is ahead of the clock, and why another could not be moved.

A file whose time is ahead of this machine's clock has no age: the clock was set back, or the file was copied with the
times of another machine. It is old enough once it has stayed unchanged for ``claim.min.age`` by this machine's clock,
so runs note when they first saw it. Only a run finds out that a file cannot be moved; the note lets ``status`` show it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, field
from functools import cache
from typing import Any

from mutator.config.settings import Config, OrderSpec
from mutator.dataset import checksummed_json
from mutator.dataset.commits import Arrived
from mutator.errors import error
from mutator.errors.display import seconds_text
from mutator.errors.parts import setting
from mutator.errors.quick_dataclass import dataclass
from mutator.rules import file_names
from mutator.rules.envelopes import BESIDE, KEYS
from mutator.storage import Entry, entries_of, read_if_exists
from mutator.workflow.directory.paths import Base

_FORMAT = "mutator sightings"


@dataclass(frozen=True)
class Sighting:
    """A feed file as it was first seen. A rename, as when a run puts it back, does not change it."""

    bytes: int
    last_write: float
    tag: str
    since: float  # seconds since 1970, by this machine's clock

    def quiet(self, entry: Entry, now: float) -> float:
        """Return for how many seconds a file has been unchanged; negative if it has changed."""
        same = (self.bytes, self.last_write, self.tag) == (entry.bytes, entry.last_write, entry.tag)
        return now - self.since if same else -1.0


@dataclass(frozen=True)
class Sightings:
    """What runs have noted about the files in incr/, by path."""

    ahead: Mapping[str, Sighting] = field(default_factory=dict)
    stuck: Mapping[str, str] = field(default_factory=dict)  # why the last run could not move a file


def sightings(base: Base) -> Sightings:
    """Return the notes of earlier runs; damaged ones are forgotten, and the files wait a little longer."""
    data = read_if_exists(_path(base))
    try:
        files = [] if data is None else checksummed_json.parse(data, _FORMAT, 1)["files"]
        paths = [base.at("incr", one.pop("name")) for one in files]
        stuck = {path: one["stuck"] for path, one in zip(paths, files, strict=True) if "stuck" in one}
        return Sightings(
            {path: Sighting(**one) for path, one in zip(paths, files, strict=True) if path not in stuck}, stuck
        )
    except (KeyError, TypeError, ValueError):
        return Sightings()


def note(base: Base, ahead: Iterable[Entry], now: float) -> None:
    """Note the files that are ahead of the clock now; forget the others, and the files that could not be moved."""
    before = sightings(base)
    seen = {}
    for entry in ahead:
        known = before.ahead.get(entry.path)
        if known is None or known.quiet(entry, now) < 0:
            known = Sighting(entry.bytes, entry.last_write, entry.tag, now)
        seen[entry.path] = known
    _write(base, before, Sightings(seen))


def note_stuck(base: Base, stuck: Mapping[str, str]) -> None:
    """Note the files that could not be moved, and why."""
    before = sightings(base)
    ahead = {path: one for path, one in before.ahead.items() if path not in stuck}
    _write(base, before, Sightings(ahead, stuck))


def _write(base: Base, before: Sightings, now: Sightings) -> None:
    if now == before:
        return
    if now == Sightings():
        base.storage.remove(_path(base))
        return
    files: list[tuple[str, dict[str, Any]]] = [(path, asdict(one)) for path, one in now.ahead.items()]
    files += [(path, {"stuck": why}) for path, why in now.stuck.items()]
    incr = base.at("incr") + "/"
    members = [{"name": path.removeprefix(incr), **one} for path, one in sorted(files)]
    base.storage.replace(_path(base), checksummed_json.dump(_FORMAT, 1, {"files": members}))


def _path(base: Base) -> str:
    return base.at("_mutator", "sightings.json")


RETURNED = ".returned-"  # a directory in incr/: files that could not go back, because newer ones have their names


@dataclass(frozen=True)
class ReadyFile:
    """A feed file that has arrived whole, and the files that say so."""

    feed: Entry
    marker: str | None  # path of its ready marker
    control: Entry | None


@dataclass(frozen=True)
class Arrivals:
    """The feed files in incr/."""

    ready: tuple[ReadyFile, ...]
    waiting: tuple[tuple[str, str], ...]  # name, and why it waits
    seconds: float | None  # until the first file that is too young is old enough
    control_suffix: str | None
    ready_suffix: str | None
    ahead: tuple[Entry, ...] = ()  # files with times ahead of this machine's clock


class _Directory:
    """incr/ or a directory in it: feed files, ready markers and control files."""

    def __init__(self, entries: Iterable[Entry], merged: Collection[Arrived], config: Config) -> None:
        self.paths: dict[str, str] = {}
        self.fresh: dict[str, Entry] = {}  # those that are not merged
        for entry in entries:
            self.paths[entry.name] = entry.path
            if not entry.name.startswith(RETURNED) and arrived(entry) not in merged:
                self.fresh[entry.name] = entry
        self._marker, self._control = config.workflow.claim_ready_suffix, config.inputs.control_suffix

    def is_companion(self, name: str) -> bool:
        """Return whether a file is a ready marker or a control file."""
        return bool(self._marker and name.endswith(self._marker)) or bool(self._feed_of(name))

    def why_alone(self, name: str) -> str | None:
        """Return the reason why a ready marker or control file waits without its feed file; None if it has one."""
        if self._marker and name.endswith(self._marker):
            return None if name.removesuffix(self._marker) in self.paths else "is a ready marker without its file"
        return None if self._feed_of(name) in self.fresh else "is a control file without its feed file"

    def marker(self, feed: Entry) -> str | None:
        """Return the path of a feed file's ready marker."""
        return self.paths.get(f"{feed.name}{self._marker}") if self._marker else None

    def control(self, feed: Entry) -> Entry | None:
        """Return the control file of a feed file."""
        return self.fresh.get(f"{feed.name}{self._control}") if self._control else None

    def why_incomplete(self, feed: Entry) -> str | None:
        """Return the fault of a feed file's control file or ready marker; None if it has no fault."""
        why = None
        if self._control:
            why = _without_control(self.control(feed), feed.name + self._control, self.paths)
        if why is None and self._marker and self.marker(feed) is None:
            why = f"has no ready marker {feed.name}{self._marker}"
        return why

    def _feed_of(self, name: str) -> str | None:
        return file_names.feed_name(name, self._control) if self._control else None


class _Ages:
    """The ages of feed files, and which of them have none, because their times are ahead of this machine's clock.

    The age of a file counts from the last change of its content, so one that a run has put back is as old as before.
    """

    def __init__(self, seen: Callable[[], Mapping[str, Sighting]], now: float, least: float) -> None:
        """Note no file yet. seen: returns what earlier runs noted; called for a file that is too young by its time."""
        self._seen, self._now, self._least = seen, now, least
        self.ahead: list[Entry] = []
        self.seconds: list[float] = []  # until files that are too young are old enough

    def why_too_young(self, feed: Entry, control: Entry | None) -> str | None:
        """Return why a feed file and its control file are too young to be claimed; None if they are old enough."""
        files = [feed] if control is None else [feed, control]
        ahead = [entry for entry in files if entry.last_write > self._now]
        self.ahead += ahead
        quiet = min(map(self._quiet, files))
        if quiet >= self._least:
            return None
        self.seconds.append(self._least - quiet)
        if not ahead:
            return f"is {_below(quiet)} s old, and claim.min.age is {seconds_text(self._least)} s"
        seconds = max(entry.last_write for entry in ahead) - self._now
        return (
            f"has a time that is {seconds:,.0f} s ahead of this machine's clock, which may have been set back; it is "
            f"claimed after it has stayed unchanged for claim.min.age ({seconds_text(self._least)} s) by this clock"
        )

    def _quiet(self, entry: Entry) -> float:
        """Return for how many seconds a file has been unchanged, as far as this machine can tell."""
        age = self._now - entry.last_write
        first = self._seen().get(entry.path) if age < self._least else None
        return max(age, 0.0 if first is None else first.quiet(entry, self._now), 0.0)


def _below(seconds: float) -> str:
    """Return a time below a limit, cut to tenths of a second: rounded, it could be the limit.

    >>> _below(4.96), _below(12.0)
    ('4.9', '12.0')
    """
    return f"{math.floor(seconds * 10) / 10:.1f}"


def arrivals(base: Base, config: Config, merged: Collection[Arrived], clock: float | None = None) -> Arrivals:
    """Return the feed files that have arrived whole, and those that wait.

    merged: files that versions have claimed, on a storage where files are not moved. clock: now, in seconds. Raises
    ConfigError for files of keys that are to be read beside the others.
    """
    ops = config.rows.ops
    if ops.key_files == BESIDE:
        what = (
            "is 'beside', but a workflow may claim a feed file before its keys have arrived; have the keys delivered "
        )
        raise error("config", where=setting(KEYS), faults=f"{what}to a directory of their own, and name that")
    now = time.time() if clock is None else clock
    ages = _Ages(cache(lambda: sightings(base).ahead), now, config.workflow.claim_min_age)
    ready: dict[str, ReadyFile] = {}
    waiting = []
    here = entries_of(base.at("incr"))
    returned = [entry for entry in here if entry.type == "directory" and entry.name.startswith(RETURNED)]
    for entries in (*(entries_of(directory.path) for directory in returned), here):
        directory = _Directory(entries, merged, config)
        for name, entry in directory.fresh.items():
            if ops.has_key_files and file_names.is_key_file(name):
                waiting.append((name, "is a file of keys or headers, and has no messages"))
                continue
            if directory.is_companion(name):
                if why := directory.why_alone(name):
                    waiting.append((name, why))
                continue
            control = directory.control(entry)
            why = _unfit(entry) or directory.why_incomplete(entry)
            if why is None and not config.workflow.claim_ready_suffix:
                why = ages.why_too_young(entry, control)
            if why is None and name in ready:
                why = "waits until a file of the same name, which came first, is merged"
            if why is not None:
                waiting.append((name, why))
                continue
            ready[name] = ReadyFile(entry, directory.marker(entry), control)
    if config.operation.full or config.operation.overwrites:
        waiting += _hold_back_later(config.rows.order, ready, "snapshot" if config.operation.full else "overwrite")
    waiting.sort(key=lambda file: _is_set_aside(file[0]))  # reports show only the first
    return Arrivals(
        tuple(ready.values()),
        tuple(waiting),
        min(ages.seconds, default=None),
        config.inputs.control_suffix,
        config.workflow.claim_ready_suffix,
        tuple(ages.ahead),
    )


def arrived(entry: Entry) -> Arrived:
    """Return the log's record of a feed file that has arrived: name, size, time, tag."""
    return Arrived(entry.name, entry.bytes, entry.modified, entry.tag)


def _hold_back_later(order: OrderSpec, ready: dict[str, ReadyFile], what: str) -> list[tuple[str, str]]:
    """Leave only the files of the oldest sequence ready; return the others with why they wait.

    Snapshots and overwrites are merged one at a time, so that the result does not depend on when runs start. what: of
    both words, the one for the files.
    """
    numbers = map(order.sequence_of, ready)
    sequences = {name: -1 if number is None else number for name, number in zip(ready, numbers, strict=True)}
    oldest = min(sequences.values(), default=None)
    later = [name for name in ready if sequences[name] != oldest]
    for name in later:
        del ready[name]
    return [(name, f"waits until an older {what} is merged") for name in later]


def _is_set_aside(name: str) -> bool:
    """Return whether a file has a name that keeps it from being claimed, as its writer intends."""
    return file_names.is_hidden(name) or file_names.is_unfinished(name)


def _unfit(entry: Entry) -> str | None:
    if entry.type == "symbolic link":
        return "is a symbolic link, and what it leads to could change after the run: move the file itself there"
    if entry.type != "file":
        return f"is a {entry.type}, and only regular files are claimed"
    if file_names.is_hidden(entry.name):
        return "has a hidden name"
    if _is_set_aside(entry.name):
        return "has the name of an unfinished file"
    if file_names.has_control(entry.name):
        return "has a control character in its name, which no report can show safely: rename it"
    return None


def _without_control(beside: Entry | None, name: str, names: Collection[str]) -> str | None:
    """Return the fault of a feed file's control file; None if it has no fault. name: its expected name."""
    if beside is not None:
        return None if beside.type == "file" else f"has a control file {name} that is a {beside.type}"
    if name in names:  # on a storage where nothing is moved
        return f"has no control file of its own: {name} was for a file of this name that is merged"
    return f"has no control file {name}"
