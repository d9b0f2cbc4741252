"""Which feed files have arrived whole, and moving them: into working/ when a run takes them, and back when it fails.

On a storage that cannot rename, the journal is the move: the files stay where they are, and the log says which of them
were merged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from mutator import naming
from mutator.config import Config
from mutator.errors import MutatorError
from mutator.failpoint import failpoint
from mutator.log import Arrived, Version
from mutator.storage import Entry, entries_of
from mutator.workflow.base import Base

__all__ = ["Arrivals", "arrivals", "give_back", "put_away", "take"]

_UNFINISHED = (".tmp", "._copying_", ".filepart")
_RETURNED = ".returned-"  # a directory in incr/: files that could not go back, because newer ones have their names
_MARKER = ".marker."  # a ready marker beside its file in working/


@dataclass(frozen=True)
class Arrivals:
    """What lies in incr/."""

    ready: tuple[Entry, ...]
    waiting: tuple[tuple[str, str], ...]  # name, and what it waits for
    seconds: float | None  # until the first file that is too young is old enough
    markers: dict[str, str]  # path of a file -> path of its ready marker


def arrivals(base: Base, config: Config, versions: Iterable[Version], clock: float | None = None) -> Arrivals:
    """Tell which feed files have arrived whole.

    versions: those that may have merged files where files are not moved. clock: now, in seconds.
    """
    now = time.time() if clock is None else clock
    merged = set() if base.storage.renames else {one for version in versions for one in version.claimed}
    ready: dict[str, Entry] = {}
    waiting, seconds = [], []
    markers: dict[str, str] = {}
    suffix = config.claim_ready_suffix
    here = entries_of(base.at("incr"))
    returned = [one for one in here if one.kind == "directory" and one.name.startswith(_RETURNED)]
    for group in (*(entries_of(one.path) for one in returned), here):
        names = {one.name: one.path for one in group}
        for entry in group:
            if entry.name.startswith(_RETURNED) or _arrived(entry) in merged:
                continue
            if suffix and entry.name.endswith(suffix):
                if entry.name.removesuffix(suffix) not in names:
                    waiting.append((entry.name, "is a ready marker without its file"))
                continue
            age = now - entry.modified
            why = _unfit(entry)
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
    if config.full and ready:  # snapshots are merged one at a time, the oldest first
        oldest = min(_sequence(name) for name in ready)
        later = [name for name in ready if _sequence(name) != oldest]
        waiting += [(name, "waits until an older snapshot is merged") for name in later]
        ready = {name: entry for name, entry in ready.items() if name not in later}
    return Arrivals(tuple(ready.values()), tuple(waiting), min(seconds, default=None), markers)


def take(base: Base, run: str, found: Arrivals) -> list[Arrived]:
    """Move feed files to working/<run>; return those that were got. One that has gone meanwhile is another's."""
    if not base.storage.renames:
        return [_arrived(one) for one in found.ready]
    directory = base.at("working", run)
    base.storage.make_directory(directory)
    failpoint("claim.directory")
    got = []
    for entry in found.ready:
        marker = found.markers.get(entry.path)
        if marker is not None:  # first, so that it cannot stay behind and vouch for the next file of this name
            _move(base, marker, f"{directory}/{_MARKER}{naming.base_name(marker)}")
            failpoint("claim.marker")
        if _move(base, entry.path, f"{directory}/{entry.name}"):
            got.append(_arrived(entry))
            failpoint("claim.moved")
    return got


def give_back(base: Base, run: str) -> list[str]:
    """Move the feed files of a run that did not commit back to incr/; return their names.

    One whose name has come again meanwhile goes to a directory beside it, its ready marker with it.
    """
    names = []
    directory, aside = base.at("working", run), base.at("incr", f"{_RETURNED}{run}")
    here = [entry for entry in entries_of(directory) if entry.kind != "directory"]  # else nothing of ours
    for entry in here:
        if entry.name.startswith(_MARKER):
            continue
        if _move(base, entry.path, base.at("incr", entry.name)):
            names.append(entry.name)
        elif base.storage.look(entry.path) is not None:
            base.storage.make_directory(aside)
            failpoint("return.aside")
            if _move(base, entry.path, f"{aside}/{entry.name}"):
                names.append(entry.name)
        failpoint("return.moved")
    for entry in here:
        name = entry.name.removeprefix(_MARKER)
        if name != entry.name:  # to where its file is now
            there = {one.name for one in entries_of(aside)}
            beside = any(name.startswith(one) for one in there)
            _move(base, entry.path, f"{aside}/{name}" if beside else base.at("incr", name))
            failpoint("return.marker")
    base.storage.remove_directory(directory)
    failpoint("return.directory")
    return names


def put_away(base: Base, run: str) -> list[str]:
    """Move the feed files of a run that committed to archive/<run>; return their names."""
    names = []
    directory, archive = base.at("working", run), base.at("archive", run)
    for entry in entries_of(directory):
        if entry.name.startswith(_MARKER):
            base.storage.remove(entry.path)
        elif entry.kind != "directory":
            base.storage.make_directory(archive)
            failpoint("archive.directory")
            if _move(base, entry.path, f"{archive}/{entry.name}"):
                names.append(entry.name)
            failpoint("archive.moved")
    base.storage.remove_directory(directory)
    failpoint("archive.working.removed")
    for entry in entries_of(base.at("incr")):
        if entry.name.startswith(_RETURNED):
            base.storage.remove_directory(entry.path)  # as far as nothing is left in it
    return names


def _sequence(name: str) -> int:
    found = naming.sequence(name)
    return -1 if found is None else found


def _arrived(entry: Entry) -> Arrived:
    return Arrived(entry.name, entry.bytes, entry.modified, entry.tag)


def _unfit(entry: Entry) -> str | None:
    if entry.kind != "file":
        return f"is a {entry.kind}, and only regular files are taken"
    if naming.is_hidden(entry.name):
        return "has a hidden name"
    if entry.name.lower().endswith(_UNFINISHED):
        return "has the name of an unfinished file"
    if naming.has_control(entry.name):
        return "has a control character in its name"
    return None


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
