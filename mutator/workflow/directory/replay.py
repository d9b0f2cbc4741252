"""The runs of a base whose mutations its records have, with their archived feed files, for others to apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mutator.dataset.commits import REORDER, RESTORE, RUN, Commit
from mutator.dataset.directory import read_manifest
from mutator.dataset.feed_filters import open_feed_filters
from mutator.dataset.version_log import NONE, Log
from mutator.errors import error
from mutator.workflow.directory.changed_rows import filter_files
from mutator.workflow.directory.merged_content import merged_file
from mutator.workflow.directory.paths import Base, given_master, master_of


class ArchivedRun(NamedTuple):
    """A run, and what it merged."""

    number: int  # of its version
    paths: Sequence[str] = ()  # of its feed files
    settings: Mapping[str, Any] | None = None  # by which it read them; None: not known
    why: str | None = None  # it cannot be read any more; None: it can


class Archive(NamedTuple):
    """What is left of all that a base merged."""

    given: str | None  # path of the master from before the first run; None: there was none, or it is gone
    given_is_lost: bool
    master: str | None  # path of the newest master; None without one
    runs: Sequence[ArchivedRun]  # oldest first, without those that a restore undid

    @property
    def is_whole(self) -> bool:
        """Whether the runs and the given master are all that the records are made of."""
        return not self.given_is_lost and all(one.why is None for one in self.runs)


def archive_of(base: Base, after: int = 0) -> Archive:
    """Return what is left of all that a base merged. after: files of versions up to it are not looked for.

    Raises StateError for a base that changed its order: its earlier feed files do not have the present one.
    """
    log = Log(base.path)
    versions, first, latest = log.all(), log.first_run(), log.latest()
    if changed := next((one.number for one in versions if one.action == REORDER), None):
        why = f"version {changed} changed its order, which the feed files before it do not have"
        raise error("base.version", path=base.given, why=why, others="create the table of its master instead")
    runs = [_archived(base, log, one) if one.number > after else ArchivedRun(one.number) for one in _counting(versions)]
    path = given_master(base, log)
    given = path if first is not None and base.storage.stat(path) is not None else None
    was_empty = first is not None and not first.counts.get("master rows") and not first.counts.get("tombstones in")
    return Archive(given, given is None and not was_empty, None if latest is NONE else master_of(base, latest), runs)


def _counting(versions: Sequence[Commit]) -> Sequence[Commit]:
    """Return the runs whose mutations the records have, oldest first."""
    found: dict[int, list[Commit]] = {0: []}
    number = 0
    for one in versions:
        before = found[number]
        if one.action == RESTORE and one.restored is not None:
            before = found.get(one.restored.version, [])
        number = one.number
        found[number] = [*before, one] if one.action == RUN and one.feed else before
    return found[number]


def _archived(base: Base, log: Log, version: Commit) -> ArchivedRun:
    places = [merged_file(base, version.run, part) for part in version.feed]
    why = next((why for _, why in places if why is not None), None)
    settings = _settings(base, log, version)
    if settings is None:
        why = why or "the settings by which it was read are not known"
    return ArchivedRun(version.number, [path for path, _ in places if path is not None], settings, why)


def _settings(base: Base, log: Log, version: Commit) -> Mapping[str, Any] | None:
    """Return the settings that a run kept with its filters, or else in the manifest that lists its feed."""
    opened = map(open_feed_filters, filter_files(base).get(version.run, ()))
    found = next((one for one in opened if one is not None), None)
    if found is not None:
        return found.settings
    known = read_manifest(base.storage, master_of(base, log.latest()))
    if known is None or version.feed[0] not in known.feed:
        return None
    return known.settings_of_run(version.feed[0].committed)
