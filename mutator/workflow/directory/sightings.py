"""When a run first saw feed files whose times are ahead of this machine's clock.

Such a file has no age: the clock was set back, or the file was copied with the times of another machine. It is old
enough once it has stayed unchanged for ``claim.min.age`` by this machine's clock, so runs note when they first saw it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

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


Sightings = Mapping[str, Sighting]  # path of a file -> its first sighting


def sightings(base: Base) -> Sightings:
    """Return the sightings of earlier runs; damaged ones are forgotten, and the files wait a little longer."""
    data = read_if_exists(_path(base))
    try:
        files = [] if data is None else checksummed_json.parse(data, _FORMAT, 1)["files"]
        return {base.at("incr", one.pop("name")): Sighting(**one) for one in files}
    except (KeyError, TypeError, ValueError):
        return {}


def note(base: Base, before: Sightings, ahead: Iterable[Entry], now: float) -> None:
    """Note the files that are ahead of the clock now; forget the others. before: sightings of earlier runs."""
    seen = {}
    for entry in ahead:
        known = before.get(entry.path)
        if known is None or known.quiet(entry, now) < 0:
            known = Sighting(entry.bytes, entry.last_write, entry.tag, now)
        seen[entry.path] = known
    if seen == before:
        return
    if not seen:
        base.storage.remove(_path(base))
        return
    incr = base.at("incr") + "/"
    files = [{"name": path.removeprefix(incr), **asdict(one)} for path, one in sorted(seen.items())]
    base.storage.replace(_path(base), checksummed_json.dump(_FORMAT, 1, {"files": files}))


def _path(base: Base) -> str:
    return base.at("_mutator", "sightings.json")
