"""Why a record of a master is what it is, by the feed files that its manifest lists, where they still are."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from mutator import config as configuration
from mutator.config import Config
from mutator.config.definitions import published
from mutator.config.sources import shown
from mutator.dataset.directory import read_manifest
from mutator.dataset.manifest import Manifest, settings_of_run
from mutator.errors import MutatorError, error
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.chain import RunFeed, steps_of
from mutator.pipeline.explain.explained_feed import FeedRows, feed_rows
from mutator.pipeline.explain.feed_files import NOT_FOUND, GivenFiles, files_at
from mutator.pipeline.explain.feed_reading import feed_reading
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key import Key
from mutator.pipeline.explain.key_decisions import NOTHING
from mutator.pipeline.explain.not_known import horizon_note, versions_note
from mutator.pipeline.explain.place import Place, held_or_why, place_of
from mutator.pipeline.master_settings import manifest_at, recorded_in_manifest
from mutator.rules import file_names
from mutator.rules.file_names import first_few
from mutator.storage import located


def explain_master(
    path: str,
    key: Key,
    config: Config,
    feed: Sequence[str] = (),
    before: str | None = None,
    unrecorded: Config | None = None,
) -> Explanation:
    """Explain a key of a master.

    feed: paths where the feed files that were merged may still be. before: path of an earlier master, from which the
    runs are followed. unrecorded: how feed files are read of runs whose settings the manifest lacks; None: that is not
    known. Raises MutatorError for a master or a key that cannot be used, and for such a run if that is not known.
    """
    found = files_at(feed, config)
    samples = [entry.path for entry in found.entries]
    place = place_of(config, path, key, samples, path)
    unknown: list[str] = []
    now, why = held_or_why(config, place, place.survey.master_path, place.known, samples)
    if why is not None:
        unknown.append(f"what the master holds now: {why}")
    runs, given, files = list[RunFeed](), None, 0
    if place.known is None:
        unknown.append("how its records came: the master has no manifest, because mutator did not write it")
    else:
        earlier, given, why = _before(config, place, place.known, before)
        configs = _Configs(config, path, place.known, unrecorded)
        runs, files = _runs(configs, place, place.known, found, earlier, now)
        if why is not None:
            unknown.append(why)
    steps = steps_of(
        given,
        runs,
        by_partition=place.by_partition,
        is_partitioned=place.survey.partitioned is not None,
        absences=place.absences,
    )
    values = [value.decode("utf-8", "backslashreplace") for value in place.wanted.values]
    return Explanation(
        place=path,
        kind="master",
        key=dict(zip(place.names, values, strict=True)),
        version=None,
        now=now,
        given=given,
        steps=[step for step in steps if step.touches],
        order_type=place.order_type,
        unknown=[*unknown, *versions_note(steps), *horizon_note(place.known)],
        files_read=files,
        shows_rows=config.wording.report_fields.all,
        absences=place.absences,
    )


def recorded_settings_of(path: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a master that a user has not set: those of its last run, and its manifest's.

    settings: those of the user.
    """
    known = manifest_at(path)
    kept = known.feed_settings[-1].settings if known is not None and known.feed_settings else {}
    given = {published(name) for name, value in settings.items() if shown(value)}
    kept = {name: value for name, value in kept.items() if name not in given}
    found = recorded_in_manifest(known, {**settings, **kept})
    return {**found, **kept}


class _Configs:
    """How the feed files of each run of a master were read."""

    def __init__(self, config: Config, path: str, known: Manifest, unrecorded: Config | None) -> None:
        self._config, self._path, self._known, self._unrecorded = config, path, known, unrecorded
        self._parsed: dict[int, Config] = {}  # by the identity of the recorded settings

    def of_run(self, committed: str, files: Sequence[str]) -> Config:
        """Return the configuration of a run. files: names of its feed files, which are to be read with it."""
        settings = settings_of_run(self._known, committed)
        if settings is None:
            if files and self._unrecorded is None:
                raise error("explain.deletes", path=self._path, files=first_few(files), committed=committed[:19])
            return self._unrecorded or self._config
        if id(settings) not in self._parsed:
            try:
                self._parsed[id(settings)] = configuration.parse(settings)
            except MutatorError:  # those of another release
                self._parsed[id(settings)] = self._config
        return self._parsed[id(settings)]


def _before(
    config: Config, place: Place, known: Manifest, before: str | None
) -> tuple[Manifest | None, ByPartition | None, str | None]:
    """Return the manifest of the master before the runs, what it held, and why that is not known."""
    if before is not None:
        storage, path = located(before)
        if storage.stat(path) is None and storage.renames:  # others have no directories
            raise error("path.missing", path=path, what="dataset")
        earlier = read_manifest(storage, path)
        held, why = held_or_why(config, place, path, earlier, ())
        return earlier, held, why and f"what {before} held: {why}"
    runs = {part.committed for part in known.feed}
    is_first, counts = known.commit.parent is None and len(runs) <= 1, known.commit.counts
    if is_first and not counts.get("master rows", 1) and not counts.get("tombstones in", 0):
        return None, {None: NOTHING}, None
    since = f" of {min(runs)[:19]}" if runs else ""
    return None, None, f"what the master held before the run{since}: give the earlier master with --before"


def _runs(
    configs: _Configs,
    place: Place,
    known: Manifest,
    found: GivenFiles,
    earlier: Manifest | None,
    now: ByPartition | None,
) -> tuple[list[RunFeed], int]:
    """Return the runs that merged the feed files of a manifest, and the number of files that were read."""
    runs, count = list[RunFeed](), 0
    ordered = sorted(known.feed, key=lambda part: part.committed)
    for committed, parts in groupby(ordered, key=lambda part: part.committed):
        if earlier is not None and committed <= earlier.commit.committed:
            continue
        paths, gone = list[str](), dict[str, str]()
        for part in parts:
            path = found.path_of(part)
            if path is None:
                gone[part.name] = NOT_FOUND
            else:
                paths.append(path)
        config = configs.of_run(committed, [file_names.base_name(one) for one in paths])
        count += len(paths)
        rows = FeedRows((), ())
        if paths:
            rows = feed_rows(feed_reading(config, place.survey, paths), place.wanted)
        is_last = committed == known.commit.committed
        moment = int(datetime.fromisoformat(committed).timestamp() * 1000)
        retention = config.retention.tombstones
        runs.append(
            RunFeed(
                number=None,
                run=known.commit.run if is_last else "",
                committed=committed,
                rows=rows,
                gone=gone,
                now=moment,
                full=config.operation.full,
                overwrites=config.operation.overwrites,
                expire_before=None if retention is None else moment - int(retention * 1000),
                held=now if is_last else None,
            )
        )
    return runs, count
