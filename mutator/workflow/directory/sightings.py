"""Notes of runs on files in incr/: since when one is ahead of the clock, and why another could not be moved.

A file whose time is ahead of this machine's clock has no age: the clock was set back, or the file was copied with the
times of another machine. It is old enough once it has stayed unchanged for ``claim.min.age`` by this machine's clock,
so runs note when they first saw it. Only a run finds out that a file cannot be moved; the note lets ``status`` show it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mutator.dataset import checksummed_json
from mutator.storage import Entry, read_if_exists
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
