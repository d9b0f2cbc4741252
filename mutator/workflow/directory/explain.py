"""Why a record of a base is what it is: its versions are followed from the first one on, by their feed files.

Nothing is written and no lock is taken: a run may be at work meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from mutator import config as configuration
from mutator.config import Config
from mutator.config.definitions import published
from mutator.dataset.commits import Commit
from mutator.dataset.directory import read_manifest
from mutator.dataset.feed_filters import FeedFilters, read_filters
from mutator.dataset.manifest import Manifest
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.chain import ChainStep, RunFeed, steps_of
from mutator.pipeline.explain.explained_feed import FeedRows, feed_rows
from mutator.pipeline.explain.feed_reading import feed_reading
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key import Key
from mutator.pipeline.explain.key_decisions import NOTHING
from mutator.pipeline.explain.not_known import horizon_note, versions_note
from mutator.pipeline.explain.place import Place, held_or_why, place_of, with_paths
from mutator.pipeline.master_settings import manifest_at, recorded_in_manifest, shown_fields_of
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.workflow.directory.changed_rows import filter_files
from mutator.workflow.directory.merged_content import merged_file
from mutator.workflow.directory.paths import Base, given_master, master_of, open_base, probe_dataset


def explain(path: str, key: Key, config: Config) -> Explanation:
    """Explain a key of a base. Raises MutatorError for a base or a key that cannot be used."""
    base = open_base(path)
    return _Base(base, Log(base.path), config).explain(key)


def recorded_settings_of(path: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a base that a user has not set: those of its newest run with filters, and its manifest's.

    settings: those of the user.
    """
    base = open_base(path)
    log = Log(base.path)
    known = manifest_at(master_of(base, log.latest()))
    found = recorded_in_manifest(known, settings)
    given = {published(name) for name in settings}
    files = filter_files(base)
    for version in reversed(log.all()):
        filters = _filters(files, version.run) if version.action == "run" else None
        if filters is not None:
            kept = {name: value for name, value in filters.settings.items() if name not in given}
            return {**{name: value for name, value in found.items() if published(name) not in kept}, **kept}
    return found if known is None else {**found, **shown_fields_of(known, settings)}


class _Base:
    """A base whose versions are followed."""

    def __init__(self, base: Base, log: Log, config: Config) -> None:
        self._base, self._config, self._log = base, config, log
        self._versions = log.all()
        self._unknown: list[str] = []
        self._files_read = self._excluded = 0
        self._configs: dict[str, Config] = {}  # by the settings that are kept with filters
        self._held_at: dict[str, ByPartition | None] = {}  # by the path of a dataset

    def explain(self, key: Key) -> Explanation:
        """Return the explanation of a key."""
        base, latest = self._base, self._log.latest()
        master = master_of(base, latest)
        place = place_of(self._config, master, key, self._samples(), base.given)
        now, why = held_or_why(self._config, place, master, place.known, self._samples())
        if why is not None:
            self._unknown.append(f"what the master holds now: {why}")
        before, why = self._given(place)
        runs = [self._run(version, place) for version in self._versions if version.action in ("run", "restore")]
        steps = steps_of(
            before,
            runs,
            by_partition=place.by_partition,
            is_partitioned=place.survey.partitioned is not None,
            absences=place.absences,
        )
        steps = self._with_repeated(steps)
        self._note_unknown(steps, why)
        self._unknown += horizon_note(place.known)
        names = [*place.names]
        values = [value.decode("utf-8", "backslashreplace") for value in place.wanted.values]
        return Explanation(
            place=base.given,
            kind="base",
            key=dict(zip(names, values, strict=True)),
            version=latest.number or None,
            now=now,
            given=before,
            steps=[with_paths(step, base.shown) for step in steps if step.touches],
            order_type=place.order_type,
            unknown=[base.shown(text) for text in self._unknown],
            files_read=self._files_read,
            files_excluded=self._excluded,
            shows_rows=self._config.wording.report_fields.all,
            absences=place.absences,
        )

    def _samples(self) -> list[str]:
        """Return the path of a feed file of the first run, if there is one: it shows how rows are read."""
        for version in self._versions:
            for part in version.feed:
                path, _ = merged_file(self._base, version.run, part)
                if path is not None:
                    return [path]
        return []

    def _given(self, place: Place) -> tuple[ByPartition | None, str | None]:
        """Return what the master held before the first run, or None and why it is not known."""
        base, first = self._base, self._log.first_run()
        if first is None:
            return None, None
        path = given_master(base, self._log)
        if base.storage.stat(path) is not None:
            try:
                known = self._manifest(path)
            except MutatorError as fault:
                return None, str(fault)
            return held_or_why(self._config, place, path, known, self._samples())
        if not first.counts.get("master rows", 1) and not first.counts.get("tombstones in", 0):
            return {None: NOTHING}, None
        return None, "it is not in backup/ any more"

    def _manifest(self, path: str) -> Manifest | None:
        return read_manifest(self._base.storage, path)

    @cached_property
    def _datasets(self) -> Mapping[str, str]:
        """The paths of the datasets that are there, by commit ID."""
        base = self._base
        found = [probe_dataset(base.storage, base.master), *base.datasets()]
        return {one.commit: one.path for one in found if one.commit is not None}

    def _run(self, version: Commit, place: Place) -> RunFeed:
        """Return a version, with the rows of the key in its feed files."""
        if version.restored is not None:
            held = self._held(version, place)
            of, action = version.restored.version, "restore"
            return RunFeed(version.number, version.run, version.committed, held=held, restored=of, action=action)
        paths, gone = list[str](), dict[str, str]()
        filters = _filters(self._filter_files, version.run)
        config = self._config if filters is None else self._config_of(filters)
        for part in version.feed:
            if filters is not None and filters.exclude(part, place.wanted.hashes):
                self._excluded += 1
                continue
            path, why = merged_file(self._base, version.run, part)
            if path is None:
                gone[part.name] = str(why)
            else:
                paths.append(path)
        self._files_read += len(paths)
        rows = FeedRows((), ())
        if paths:
            rows = feed_rows(feed_reading(config, place.survey, paths), place.wanted)
        now = _milliseconds(version.feed[0].committed if version.feed else version.committed)
        retention = config.retention.tombstones
        return RunFeed(
            number=version.number,
            run=version.run,
            committed=version.committed,
            rows=rows,
            gone=gone,
            now=now,
            full=config.operation.full,
            overwrites=config.operation.overwrites,
            expire_before=None if retention is None else now - int(retention * 1000),
            held=self._held(version, place),
        )

    @cached_property
    def _filter_files(self) -> Mapping[str, Sequence[str]]:
        return filter_files(self._base)

    def _config_of(self, filters: FeedFilters) -> Config:
        """Return the configuration of a run: that of the settings that are kept with its filters."""
        text = json.dumps(filters.settings)
        if text not in self._configs:
            try:
                self._configs[text] = configuration.parse(filters.settings)
            except MutatorError:  # those of another release
                self._configs[text] = self._config
        return self._configs[text]

    def _held(self, version: Commit, place: Place) -> ByPartition | None:
        """Return what the dataset of a version holds; None if it is not there any more, or cannot be read."""
        path = self._datasets.get(version.dataset or "")
        if path is None:
            return None
        if path not in self._held_at:
            self._held_at[path] = self._read_held(path, place)
        return self._held_at[path]

    def _read_held(self, path: str, place: Place) -> ByPartition | None:
        try:
            known = self._manifest(path)
        except MutatorError:
            return None
        return held_or_why(self._config, place, path, known, ())[0] if known is not None else None

    def _with_repeated(self, steps: Sequence[ChainStep]) -> list[ChainStep]:
        """Add to each run the files with mutations of the key that it skipped, because they had been merged before.

        A run that skipped all its files has no version; its files are noted with the version that merged them.
        """
        base, found = self._base, dict[str, list[str]]()
        merged = {one.file: step.feed.number for step in steps for one in step.feed.rows.mutations}
        names = {file_names.base_name(path): path for path in merged}
        if not base.storage.renames or not names:
            return list(steps)
        runs = {step.feed.run for step in steps}
        for directory in entries_of(base.at("archive")):
            for entry in entries_of(directory.path) if directory.type == "directory" else ():
                if entry.name in names and entry.path not in merged and self._is_copy(entry, directory.name):
                    run = directory.name if directory.name in runs else _run_of(steps, merged[names[entry.name]])
                    found.setdefault(run, []).append(entry.path)
        return [replace(step, feed=replace(step.feed, again=tuple(found.get(step.feed.run, ())))) for step in steps]

    def _is_copy(self, entry: Entry, run: str) -> bool:
        """Return whether a file in archive/<run> was skipped: the run did not merge it, and another version did."""
        mine = {part.name for version in self._versions if version.run == run for part in version.feed}
        sizes = {(part.name, part.bytes) for version in self._versions for part in version.feed}
        return entry.name not in mine and (entry.name, entry.bytes) in sizes

    def _note_unknown(self, steps: Sequence[ChainStep], why: str | None) -> None:
        """Note what is not known: the master before the first run, feed files that are gone, unread files."""
        first = next((step for step in steps), None)
        if why is not None and first is not None:
            self._unknown.append(f"what the master held before version {first.feed.number}: {why}")
        self._unknown += versions_note(steps)


def _run_of(steps: Sequence[ChainStep], number: int | None) -> str:
    return next(step.feed.run for step in steps if step.feed.number == number)


def _filters(files: Mapping[str, Sequence[str]], run: str) -> FeedFilters | None:
    """Return the filters of a run, of those files that can be read. files: paths, by run."""
    return next((found for path in files.get(run, ()) if (found := read_filters(path)) is not None), None)


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
