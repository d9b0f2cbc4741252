"""The runs of a base that still count, with their archived feed files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mutator.dataset.commits import REORDER, RESTORE, RUN, Commit
from mutator.dataset.directory import read_manifest
from mutator.dataset.feed_filters import open_feed_filters
from mutator.dataset.state import State
from mutator.dataset.version_log import UNCHANGED, Log
from mutator.errors import error
from mutator.workflow.directory.changed_rows import filter_files
from mutator.workflow.directory.merged_content import merged_file
from mutator.workflow.directory.paths import Base, given_master, master_of


class ArchivedRun(NamedTuple):
    """A run, and its feed files."""

    number: int  # of its version
    files: Sequence[tuple[str, str]]  # path and checksum of each feed file
    settings: Mapping[str, Any]  # by which it read them
    why: str | None = None  # they cannot be read any more; None: they can


class Archive(NamedTuple):
    """The archive of a base, up to a version."""

    origin: str  # the first run of the base, which no other base has
    newest: int  # number of the version
    given: str | None  # path of the master from before the first run; None: there was none, or it is gone
    given_is_lost: bool
    adopted: int  # the last run whose master was another program's, and not the one of the version before; 0: none
    master: str  # path of the master now
    runs: Sequence[ArchivedRun]  # that the records of the version have, oldest first
    versions: Mapping[int, Commit]

    @property
    def is_whole(self) -> bool:
        """Whether the runs and the given master are all that the records are made of."""
        return not self.given_is_lost and not self.adopted and all(one.why is None for one in self.runs)

    def counting_at(self, number: int) -> list[int]:
        """Return the numbers of the runs that the records of a version have, oldest first."""
        return [one.number for one in _counting(self.versions, number)]


def archive_of(base: Base) -> Archive:
    """Return the archive of a base.

    Raises StateError for a base without a run, and for one that changed its order: the feed files before have another.
    """
    log = Log(base.path)
    versions = {one.number: one for one in log.all()}
    changed = next((number for number, one in versions.items() if one.action == REORDER), None)
    first, latest = log.first_run(), log.latest()
    why = None if first is not None else "no run has merged anything yet"
    if changed is not None:
        why = f"version {changed} changed the order of the records, which the feed files before it do not have"
    if why is not None or first is None:
        others = f"name {base.shown(base.master)} to begin with its records"
        raise error("base.version", path=base.given, why=why, others=others)
    path, master = given_master(base, log), master_of(base, latest)
    given = path if base.storage.stat(path) is not None else None
    was_empty = not first.counts.get("master rows") and not first.counts.get("tombstones in")
    files, known = filter_files(base), read_manifest(base.storage, master)
    counting, lost = _counting(versions, latest.number), given is None and not was_empty
    adopted = max((one.number for one in counting if _adopts(versions, one)), default=0)
    runs = [_archived(base, files.get(one.run, ()), known, one) for one in counting if one.number >= adopted]
    return Archive(next(iter(versions.values())).run, latest.number, given, lost, adopted, master, runs, versions)


def _adopts(versions: Mapping[int, Commit], run: Commit) -> bool:
    """Return whether a run began with other records than those of the version before."""
    number = run.number - 1
    while number in versions and versions[number].action in UNCHANGED:
        number -= 1
    return number in versions and versions[number].records != run.counts.get("master rows", versions[number].records)


def _counting(versions: Mapping[int, Commit], number: int) -> list[Commit]:
    """Return the runs whose mutations the records of a version have, oldest first."""
    found = list[Commit]()
    while number in versions:
        one = versions[number]
        if one.action == RESTORE and one.restored is not None:
            number = one.restored.version
            continue
        if one.action == RUN and one.feed:
            found.append(one)
        number -= 1
    return found[::-1]


def _archived(base: Base, filters: Sequence[str], known: State | None, version: Commit) -> ArchivedRun:
    """Return a run. filters: paths of its files with filters. known: the manifest of the master."""
    places = [merged_file(base, version.run, part) for part in version.feed]
    why = next((why for _, why in places if why is not None), None)
    opened = next((one for one in map(open_feed_filters, filters) if one is not None), None)
    settings = None if opened is None else opened.settings
    if settings is None and known is not None and version.feed[0] in known.feed:
        settings = known.settings_of_run(version.feed[0].committed)
    if settings is None:
        why = why or "the settings by which they were read are not known"
    found = zip(places, version.feed, strict=True)
    own = [(path, part.checksum) for (path, _), part in found if path is not None]
    return ArchivedRun(version.number, own, settings or {}, why)
