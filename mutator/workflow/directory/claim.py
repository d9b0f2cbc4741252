"""Which feed files have arrived whole, and moving them: into working/ when a run takes them, and back when it fails.

A control file goes wherever its feed file goes, into archive/ as well, and is never where it could vouch for another
feed file of that name: it is taken first, and put back last.

On a storage that cannot rename, the journal is the move: the files stay where they are, and the log says which of them
were merged, and which control files have vouched for one.
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

__all__ = ["Arrivals", "arrivals", "controls_of", "give_back", "is_own", "put_away", "take"]

_UNFINISHED = (".tmp", "._copying_", ".filepart")
_RETURNED = ".returned-"  # a directory in incr/: files that could not go back, because newer ones have their names
_MARKER = ".marker."  # a ready marker beside its file in working/
# A directory in working/<run> whose name goes on with the suffix of the control files there: whoever puts them back,
# perhaps another command with another configuration, must know which file belongs to which.
_CONTROLS = ".controls"


@dataclass(frozen=True)
class Arrivals:
    """What lies in incr/."""

    ready: tuple[Entry, ...]
    waiting: tuple[tuple[str, str], ...]  # name, and what it waits for
    seconds: float | None  # until the first file that is too young is old enough
    markers: dict[str, str]  # path of a file -> path of its ready marker
    controls: dict[str, Entry]  # path of a file -> its control file
    control_suffix: str | None


def arrivals(base: Base, config: Config, versions: Iterable[Version], clock: float | None = None) -> Arrivals:
    """Tell which feed files have arrived whole.

    versions: those that may have merged files where files are not moved. clock: now, in seconds.
    """
    now = time.time() if clock is None else clock
    merged = set() if base.storage.renames else {one for version in versions for one in version.claimed}
    ready: dict[str, Entry] = {}
    waiting, seconds = [], []
    markers: dict[str, str] = {}
    controls: dict[str, Entry] = {}
    suffix, control_suffix = config.claim_ready_suffix, config.control_suffix
    here = entries_of(base.at("incr"))
    returned = [one for one in here if one.type == "directory" and one.name.startswith(_RETURNED)]
    for group in (*(entries_of(one.path) for one in returned), here):
        names = {one.name: one.path for one in group}
        fresh = {one.name: one for one in group if _arrived(one) not in merged}
        for entry in group:
            if entry.name.startswith(_RETURNED) or _arrived(entry) in merged:
                continue
            if suffix and entry.name.endswith(suffix):
                if entry.name.removesuffix(suffix) not in names:
                    waiting.append((entry.name, "is a ready marker without its file"))
                continue
            if control_suffix and (feed := control_files.feed_name(entry.name, control_suffix)):
                if feed not in fresh:
                    waiting.append((entry.name, "is a control file without its feed file"))
                continue
            beside = fresh.get(entry.name + control_suffix) if control_suffix else None
            age = now - (entry.modified if beside is None else max(entry.modified, beside.modified))
            why = _unfit(entry)
            if why is None and control_suffix:
                why = _without_control(beside, entry.name + control_suffix, names)
            if why is None and suffix and entry.name + suffix not in names:
                why = f"has no ready marker {entry.name}{suffix}"
            elif why is None and not suffix and age < config.claim_min_age:
                seconds.append(config.claim_min_age - age)
                why = f"is {max(age, 0):.0f} s old, and claim.min.age is {config.claim_min_age} s"
            elif why is None and entry.name in ready:
                why = "waits until a file of the same name, which came first, is merged"
            if why is not None:
                waiting.append((entry.name, why))
                continue
            ready[entry.name] = entry
            if suffix:
                markers[entry.path] = names[entry.name + suffix]
            if beside is not None:
                controls[entry.path] = beside
    if config.full and ready:  # snapshots are merged one at a time, the oldest first
        oldest = min(_sequence(name) for name in ready)
        later = [name for name in ready if _sequence(name) != oldest]
        waiting += [(name, "waits until an older snapshot is merged") for name in later]
        ready = {name: entry for name, entry in ready.items() if name not in later}
    wait = min(seconds, default=None)
    return Arrivals(tuple(ready.values()), tuple(waiting), wait, markers, controls, control_suffix)


def take(base: Base, run: str, found: Arrivals) -> list[Arrived]:
    """Move feed files to working/<run>; return those that were got. One that has gone meanwhile is another's."""
    if not base.storage.renames:
        return [_arrived(one) for one in found.ready]
    directory = base.at("working", run)
    base.storage.make_directory(directory)
    failpoint("claim.directory")
    if found.control_suffix is not None:
        base.storage.make_directory(f"{directory}/{_CONTROLS}{found.control_suffix}")
    got = []
    for entry in found.ready:
        vouching = found.controls.get(entry.path)
        if vouching is not None:  # first, for the same reason as a marker
            if not _move(base, vouching.path, f"{directory}/{vouching.name}"):
                continue
            failpoint("claim.control")
        marker = found.markers.get(entry.path)
        if marker is not None:  # first, so that it cannot stay behind and vouch for the next file of this name
            _move(base, marker, f"{directory}/{_MARKER}{file_names.base_name(marker)}")
            failpoint("claim.marker")
        if _move(base, entry.path, f"{directory}/{entry.name}"):
            got.append(_arrived(entry))
            failpoint("claim.moved")
        elif vouching is not None:
            _move(base, f"{directory}/{vouching.name}", vouching.path)
    return got


def controls_of(found: Arrivals) -> tuple[Arrived, ...]:
    """Return the control files that vouch for the feed files that are ready."""
    return tuple(_arrived(found.controls[one.path]) for one in found.ready if one.path in found.controls)


def is_own(name: str) -> bool:
    """Tell whether something in working/<run> is neither a feed file nor a control file, but put there by ``take``."""
    return name.startswith((_MARKER, _CONTROLS))


def give_back(base: Base, run: str) -> list[str]:
    """Move the feed files of a run that did not commit back to incr/; return their names.

    One whose name has come again meanwhile goes to a directory beside it, its control file and ready marker with it;
    so does one whose control file's name has.
    """
    names = []
    directory, aside = base.at("working", run), base.at("incr", f"{_RETURNED}{run}")
    everything = entries_of(directory)
    suffix = _control_suffix(everything)
    here = [entry for entry in everything if entry.type != "directory"]  # else nothing of ours
    for entry in here:
        if entry.name.startswith(_MARKER) or _feed_of(entry, suffix):
            continue
        # Beside the control file of a newer one it would be held against that.
        free = suffix is None or base.storage.stat(base.at("incr", entry.name + suffix)) is None
        if free and _move(base, entry.path, base.at("incr", entry.name)):
            names.append(entry.name)
        elif base.storage.stat(entry.path) is not None:
            base.storage.make_directory(aside)
            failpoint("return.aside")
            if _move(base, entry.path, f"{aside}/{entry.name}"):
                names.append(entry.name)
        failpoint("return.moved")
    for entry in here:  # to where their files are now
        if feed := _feed_of(entry, suffix):
            beside = base.storage.stat(f"{aside}/{feed}") is not None
            gone = not beside and _move(base, entry.path, base.at("incr", entry.name))
            if not gone and base.storage.stat(entry.path) is not None:
                base.storage.make_directory(aside)
                _move(base, entry.path, f"{aside}/{entry.name}")
            failpoint("return.control")
    for entry in here:
        name = entry.name.removeprefix(_MARKER)
        if name != entry.name:  # to where its file is now
            there = {one.name for one in entries_of(aside)}
            beside = any(name.startswith(one) for one in there)
            _move(base, entry.path, f"{aside}/{name}" if beside else base.at("incr", name))
            failpoint("return.marker")
    _leave(base, directory, suffix)
    failpoint("return.directory")
    return names


def put_away(base: Base, run: str) -> list[str]:
    """Move the feed files of a run that committed to archive/<run>; return their names."""
    names = []
    directory, archive = base.at("working", run), base.at("archive", run)
    everything = entries_of(directory)
    suffix = _control_suffix(everything)
    for entry in everything:
        if entry.name.startswith(_MARKER):
            base.storage.remove(entry.path)
        elif entry.type != "directory":
            base.storage.make_directory(archive)
            failpoint("archive.directory")
            if _move(base, entry.path, f"{archive}/{entry.name}") and not _feed_of(entry, suffix):
                names.append(entry.name)
            failpoint("archive.moved")
    _leave(base, directory, suffix)
    failpoint("archive.working.removed")
    for entry in entries_of(base.at("incr")):
        if entry.name.startswith(_RETURNED):
            base.storage.remove_directory(entry.path)  # as far as nothing is left in it
    return names


def _sequence(name: str) -> int:
    found = file_names.sequence(name)
    return -1 if found is None else found


def _arrived(entry: Entry) -> Arrived:
    return Arrived(entry.name, entry.bytes, entry.modified, entry.tag)


def _unfit(entry: Entry) -> str | None:
    if entry.type != "file":
        return f"is a {entry.type}, and only regular files are taken"
    if file_names.is_hidden(entry.name):
        return "has a hidden name"
    if entry.name.lower().endswith(_UNFINISHED):
        return "has the name of an unfinished file"
    if file_names.has_control(entry.name):
        return "has a control character in its name"
    return None


def _without_control(beside: Entry | None, name: str, names: Collection[str]) -> str | None:
    """Say what is wrong with the control file that should be beside a feed file."""
    if beside is not None:
        return None if beside.type == "file" else f"has a control file {name} that is a {beside.type}"
    if name in names:  # where nothing is moved
        return f"has no control file of its own: {name} was for a file of this name that is merged"
    return f"has no control file {name}"


def _control_suffix(working: Iterable[Entry]) -> str | None:
    """Return the suffix of the control files among what a run has taken; None where it took none."""
    return next((one.name.removeprefix(_CONTROLS) for one in working if one.name.startswith(_CONTROLS)), None)


def _feed_of(entry: Entry, suffix: str | None) -> str | None:
    """Return the name of the feed file of a control file; None for what is no control file."""
    return control_files.feed_name(entry.name, suffix) if suffix else None


def _leave(base: Base, directory: str, suffix: str | None) -> None:
    """Remove working/<run>, as far as nothing is left in it."""
    note = f"{directory}/{_CONTROLS}{suffix}"
    if suffix is not None:
        base.storage.remove_directory(note)
        failpoint("claim.control.left")
    if not base.storage.remove_directory(directory) and suffix is not None:  # a run that was paused has gone on
        base.storage.make_directory(note)


def _move(base: Base, source: str, target: str) -> bool:
    """Rename a file; False where it has gone, or its new name is taken."""
    try:
        base.storage.rename_new(source, target)
    except FileExistsError:
        return False
    except MutatorError as fault:
        if fault.kind != "storage.missing":
            raise
        return False
    return True
