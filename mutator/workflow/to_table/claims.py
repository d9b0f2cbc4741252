"""The feed files in incr/ that versions of a table have claimed, on a storage where files are not moved.

The log of the table knows them. A note in the base spares reading the log from its beginning: it has those of the
claimed files that are still in incr/, up to a version. The note is derived; without it, the log is read.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from mutator.dataset import checksummed_json
from mutator.dataset.commits import Arrived
from mutator.dataset.versions.log import TableLog
from mutator.errors import suppressed
from mutator.storage import entries_of, read_if_exists
from mutator.workflow.directory.arrivals import arrived
from mutator.workflow.directory.paths import Base

_FORMAT = "mutator claims"


@dataclass(frozen=True)
class Claims:
    """Files that were claimed by the versions up to one."""

    version: int = -1
    id: str = ""  # of that version: another table at the same path has another one
    files: frozenset[Arrived] = frozenset()


def claims(base: Base, table: str) -> Claims:
    """Return the claimed files of a base, up to the newest version of its table."""
    known = _noted(base)
    if known.version >= 0:
        with suppressed("table.log.damaged", "table.log.archive"):
            if TableLog(table).read(known.version).id == known.id:
                return following(table, known)
    return following(table, Claims())


def following(table: str, known: Claims) -> Claims:
    """Return claimed files with those of the versions that were committed since."""
    newest, files = None, set(known.files)
    for newest in TableLog(table).all_after(known.version):
        files.update(newest.claim.files if newest.claim is not None else ())
    return known if newest is None else Claims(newest.number, newest.id, frozenset(files))


def note(base: Base, known: Claims, settled: Iterable[Arrived] = ()) -> None:
    """Note the claimed files that are still in incr/. settled: more files that versions have."""
    there = {arrived(entry) for entry in entries_of(base.at("incr"))}
    files = frozenset((known.files | set(settled)) & there)
    if _noted(base) != (now := Claims(known.version, known.id, files)):
        listed = [asdict(one) for one in sorted(files, key=lambda one: (one.name, one.modified))]
        members = {"number": now.version, "id": now.id, "files": listed}
        base.storage.replace(_path(base), checksummed_json.dump(_FORMAT, 1, members))


def _noted(base: Base) -> Claims:
    data = read_if_exists(_path(base))
    try:
        if data is not None:
            members = checksummed_json.parse(data, _FORMAT, 1)
            files = frozenset(Arrived(**one) for one in members["files"])
            return Claims(members["number"], members["id"], files)
    except (KeyError, TypeError, ValueError):
        pass  # the log is read
    return Claims()


def _path(base: Base) -> str:
    return base.at("_mutator", "claims.json")
