"""Feed files that have arrived whole, and moving them: to working/ when a run claims them, and back if it fails.

A control file goes wherever its feed file goes, into archive/ as well. It must never vouch for another feed file of the
same name, so it is moved out of incr/ before its feed file, and back into it after.

On a storage without renames nothing moves: the log says which feed files were merged, and which control files vouched
for one.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mutator.config import Config
from mutator.dataset.version_log import Arrived, Version
from mutator.errors import MutatorError
from mutator.errors.failpoints import failpoint
from mutator.plan.inspect import control_files
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.workflow.directory.base import Base

__all__ = ["Arrivals", "archive", "arrivals", "claim", "controls_of", "give_back", "is_own"]

_UNFINISHED = (".tmp", "._copying_", ".filepart")
_RETURNED = ".returned-"  # a directory in incr/: files that could not go back, because newer ones have their names
_MARKER = ".marker."  # prefix of a ready marker in working/<run>
# An empty directory in working/<run>, named with the suffix of the control files there. Another command, perhaps with
# another configuration, may put the files back, and must know which control file belongs to which feed file.
_CONTROLS = ".controls"


@dataclass(frozen=True)
class Arrivals:
    """The feed files in incr/."""

    ready: tuple[Entry, ...]
    waiting: tuple[tuple[str, str], ...]  # name, and why it waits
    seconds: float | None  # until the first file that is too young is old enough
    markers: dict[str, str]  # path of a feed file -> path of its ready marker
    controls: dict[str, Entry]  # path of a feed file -> its control file
    control_suffix: str | None


class _Directory:
    """incr/ or a directory in it: feed files, ready markers and control files."""

    def __init__(self, entries: Iterable[Entry], merged: Collection[Arrived], config: Config) -> None:
        self.paths: dict[str, str] = {}
        self.fresh: dict[str, Entry] = {}  # those that are not merged
        for entry in entries:
            self.paths[entry.name] = entry.path
            if not entry.name.startswith(_RETURNED) and _arrived(entry) not in merged:
                self.fresh[entry.name] = entry
        self._marker, self._control = config.claim_ready_suffix, config.control_suffix

    def is_companion(self, name: str) -> bool:
        """Return whether a file is a ready marker or a control file."""
        return bool(self._marker and name.endswith(self._marker)) or bool(self._feed_of(name))

    def why_alone(self, name: str) -> str | None:
        """Return what a ready marker or control file without its feed file is; None if it has one."""
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
        """Return what is wrong with a feed file's control file or ready marker; None if nothing is."""
        why = None
        if self._control:
            why = _without_control(self.control(feed), feed.name + self._control, self.paths)
        if why is None and self._marker and self.marker(feed) is None:
            why = f"has no ready marker {feed.name}{self._marker}"
        return why

    def _feed_of(self, name: str) -> str | None:
        return control_files.feed_name(name, self._control) if self._control else None


def arrivals(base: Base, config: Config, versions: Iterable[Version], clock: float | None = None) -> Arrivals:
    """Return the feed files that have arrived whole, and those that wait.

    versions: those that may have merged files on a storage where files are not moved. clock: now, in seconds.
    """
    now = time.time() if clock is None else clock
    merged = set() if base.storage.renames else {file for version in versions for file in version.claimed}
    ready: dict[str, Entry] = {}
    waiting, seconds = [], []
    markers: dict[str, str] = {}
    controls: dict[str, Entry] = {}
    here = entries_of(base.at("incr"))
    returned = [entry for entry in here if entry.type == "directory" and entry.name.startswith(_RETURNED)]
    for entries in (*(entries_of(directory.path) for directory in returned), here):
        directory = _Directory(entries, merged, config)
        for name, entry in directory.fresh.items():
            if directory.is_companion(name):
                if why := directory.why_alone(name):
                    waiting.append((name, why))
                continue
            control, marker = directory.control(entry), directory.marker(entry)
            why = _unfit(entry) or directory.why_incomplete(entry)
            age = now - (entry.modified if control is None else max(entry.modified, control.modified))
            if why is None and not config.claim_ready_suffix and age < config.claim_min_age:
                seconds.append(config.claim_min_age - age)
                why = f"is {max(age, 0):.0f} s old, and claim.min.age is {config.claim_min_age} s"
            if why is None and name in ready:
                why = "waits until a file of the same name, which came first, is merged"
            if why is not None:
                waiting.append((name, why))
                continue
            ready[name] = entry
            if marker is not None:
                markers[entry.path] = marker
            if control is not None:
                controls[entry.path] = control
    if config.full:
        waiting += _hold_back_later_snapshots(ready)
    wait = min(seconds, default=None)
    return Arrivals(tuple(ready.values()), tuple(waiting), wait, markers, controls, config.control_suffix)


def _hold_back_later_snapshots(ready: dict[str, Entry]) -> list[tuple[str, str]]:
    """Leave only the oldest snapshot ready; return the others, which are merged one at a time, with why they wait."""
    oldest = min(map(_sequence, ready), default=None)
    later = [name for name in ready if _sequence(name) != oldest]
    for name in later:
        del ready[name]
    return [(name, "waits until an older snapshot is merged") for name in later]


def claim(base: Base, run: str, found: Arrivals) -> list[Arrived]:
    """Move feed files to working/<run>; return those that were moved. Another run has claimed any that are gone."""
    if not base.storage.renames:
        return [_arrived(entry) for entry in found.ready]
    directory = base.at("working", run)
    base.storage.make_directory(directory)
    failpoint("claim.directory")
    if found.control_suffix is not None:
        base.storage.make_directory(f"{directory}/{_CONTROLS}{found.control_suffix}")
    claimed = []
    for entry in found.ready:
        control = found.controls.get(entry.path)
        if control is not None:  # first, for the same reason as a marker
            if not _move(base, control.path, f"{directory}/{control.name}"):
                continue
            failpoint("claim.control")
        marker = found.markers.get(entry.path)
        if marker is not None:  # first, so that it cannot stay behind and vouch for the next file of this name
            _move(base, marker, f"{directory}/{_MARKER}{file_names.base_name(marker)}")
            failpoint("claim.marker")
        if _move(base, entry.path, f"{directory}/{entry.name}"):
            claimed.append(_arrived(entry))
            failpoint("claim.moved")
        elif control is not None:
            _move(base, f"{directory}/{control.name}", control.path)
    return claimed


def controls_of(found: Arrivals) -> tuple[Arrived, ...]:
    """Return the control files that vouch for the feed files that are ready."""
    return tuple(_arrived(found.controls[feed.path]) for feed in found.ready if feed.path in found.controls)


def is_own(name: str) -> bool:
    """Return whether an entry of working/<run> is a ready marker, or a directory made by ``claim``."""
    return name.startswith((_MARKER, _CONTROLS))


def give_back(base: Base, run: str) -> list[str]:
    """Move the feed files of a run that did not commit back to incr/; return their names.

    A file goes to a directory beside them, with its control file and ready marker, if a newer file has its name or the
    name of its control file.
    """
    names = []
    directory, aside = base.at("working", run), base.at("incr", f"{_RETURNED}{run}")
    everything = entries_of(directory)
    suffix = _control_suffix(everything)
    here = [entry for entry in everything if entry.type != "directory"]
    for entry in here:
        if entry.name.startswith(_MARKER) or _feed_of(entry, suffix):
            continue
        # Beside the control file of a newer feed file it would be compared with that.
        free = suffix is None or base.storage.stat(base.at("incr", entry.name + suffix)) is None
        if free and _move(base, entry.path, base.at("incr", entry.name)):
            names.append(entry.name)
        elif base.storage.stat(entry.path) is not None:
            base.storage.make_directory(aside)
            failpoint("return.aside")
            if _move(base, entry.path, f"{aside}/{entry.name}"):
                names.append(entry.name)
        failpoint("return.moved")
    for entry in here:  # a control file follows its feed file
        if feed := _feed_of(entry, suffix):
            beside = base.storage.stat(f"{aside}/{feed}") is not None
            gone = not beside and _move(base, entry.path, base.at("incr", entry.name))
            if not gone and base.storage.stat(entry.path) is not None:
                base.storage.make_directory(aside)
                _move(base, entry.path, f"{aside}/{entry.name}")
            failpoint("return.control")
    for entry in here:
        name = entry.name.removeprefix(_MARKER)
        if name != entry.name:  # a ready marker follows its feed file
            beside = any(name.startswith(feed.name) for feed in entries_of(aside))
            _move(base, entry.path, f"{aside}/{name}" if beside else base.at("incr", name))
            failpoint("return.marker")
    _leave(base, directory, suffix)
    failpoint("return.directory")
    return names


def archive(base: Base, run: str) -> list[str]:
    """Move the feed files of a run that committed to archive/<run>; return their names."""
    names = []
    directory, target = base.at("working", run), base.at("archive", run)
    everything = entries_of(directory)
    suffix = _control_suffix(everything)
    for entry in everything:
        if entry.name.startswith(_MARKER):
            base.storage.remove(entry.path)
        elif entry.type != "directory":
            base.storage.make_directory(target)
            failpoint("archive.directory")
            if _move(base, entry.path, f"{target}/{entry.name}") and not _feed_of(entry, suffix):
                names.append(entry.name)
            failpoint("archive.moved")
    _leave(base, directory, suffix)
    failpoint("archive.working.removed")
    for entry in entries_of(base.at("incr")):
        if entry.name.startswith(_RETURNED):
            base.storage.remove_directory(entry.path)  # unless a file is left in it
    return names


def _sequence(name: str) -> int:
    found = file_names.sequence(name)
    return -1 if found is None else found


def _arrived(entry: Entry) -> Arrived:
    return Arrived(entry.name, entry.bytes, entry.modified, entry.tag)


def _unfit(entry: Entry) -> str | None:
    if entry.type != "file":
        return f"is a {entry.type}, and only regular files are claimed"
    if file_names.is_hidden(entry.name):
        return "has a hidden name"
    if entry.name.lower().endswith(_UNFINISHED):
        return "has the name of an unfinished file"
    if file_names.has_control(entry.name):
        return "has a control character in its name"
    return None


def _without_control(beside: Entry | None, name: str, names: Collection[str]) -> str | None:
    """Return what is wrong with a feed file's control file; None if nothing is. name: that it should have."""
    if beside is not None:
        return None if beside.type == "file" else f"has a control file {name} that is a {beside.type}"
    if name in names:  # on a storage where nothing is moved
        return f"has no control file of its own: {name} was for a file of this name that is merged"
    return f"has no control file {name}"


def _control_suffix(working: Iterable[Entry]) -> str | None:
    """Return the suffix of the control files in working/<run>; None if the run has none."""
    return next((entry.name.removeprefix(_CONTROLS) for entry in working if entry.name.startswith(_CONTROLS)), None)


def _feed_of(entry: Entry, suffix: str | None) -> str | None:
    """Return the name of a control file's feed file; None for other files."""
    return control_files.feed_name(entry.name, suffix) if suffix else None


def _leave(base: Base, directory: str, suffix: str | None) -> None:
    """Remove working/<run>, unless a file is left in it."""
    note = f"{directory}/{_CONTROLS}{suffix}"
    if suffix is not None:
        base.storage.remove_directory(note)
        failpoint("claim.control.left")
    if not base.storage.remove_directory(directory) and suffix is not None:  # a paused run has gone on
        base.storage.make_directory(note)


def _move(base: Base, source: str, target: str) -> bool:
    """Rename a file; False if it is gone or the target exists."""
    try:
        base.storage.rename_new(source, target)
    except FileExistsError:
        return False
    except MutatorError as fault:
        if fault.kind != "storage.missing":
            raise
        return False
    return True
