"""The versions of a base whose key is explained: its log, the datasets that are kept, its archive and its filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

from mutator.config import Config
from mutator.dataset.commits import REORDER, RESTORE, RUN, Commit, FeedFile
from mutator.dataset.directory import read_manifest
from mutator.dataset.feed_filters import FeedFilters, open_feed_filters
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.chain import ChainStep, in_present_order
from mutator.pipeline.explain.key import Key
from mutator.pipeline.explain.key_decisions import NOTHING
from mutator.pipeline.explain.place import ExplainedPlace, HeldOrWhy, config_by, held_or_why, key_of_master
from mutator.pipeline.explain.walk import explain as explain_place
from mutator.pipeline.master_settings import manifest_at, recorded_with_feed
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.workflow.directory.changed_rows import filter_files
from mutator.workflow.directory.merged_content import merged_file
from mutator.workflow.directory.paths import Base, given_master, master_of, open_base, probe_dataset


def explain(path: str, key: Key, config: Config) -> Explanation:
    """Explain a key of a base. Raises MutatorError for a base or a key that cannot be used."""
    base = open_base(path)
    return explain_place(_Base(base, Log(base.path), key, config))


def recorded_settings_of(path: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a base that a user has not set: those of its newest run, and its manifest's.

    settings: those of the user.
    """
    base = open_base(path)
    log, files = Log(base.path), filter_files(base)
    runs = (_filters(files, version.run) for version in reversed(log.all()) if version.action == RUN)
    newest = next((found.settings for found in runs if found is not None), None)
    return recorded_with_feed(manifest_at(master_of(base, log.latest())), settings, newest)


class _Base(ExplainedPlace):
    def __init__(self, base: Base, log: Log, key: Key, config: Config) -> None:
        self._base, self._log, self._versions = base, log, log.all()
        latest = log.latest()
        self._master, self._samples = master_of(base, latest), _samples(base, self._versions)
        found = key_of_master(config, self._master, key, self._samples, base.given)
        super().__init__(base.given, "base", latest.number or None, config, found)
        self._read_held = cache(self._held_in)  # by the path of a dataset
        self._manifest = cache(partial(read_manifest, base.storage))
        files = filter_files(base)
        self._filters_of = cache(lambda run: _filters(files, run))

    def commits(self) -> Sequence[Commit]:
        return [one for one in self._in_order[0] if one.action in (RUN, RESTORE, REORDER)]

    @cached_property
    def _in_order(self) -> tuple[list[Commit], list[str]]:
        changed = [one.number for one in self._versions if one.action == REORDER]
        return in_present_order(self._versions, changed)

    def notes(self) -> Sequence[str]:
        return self._in_order[1]

    def now(self) -> HeldOrWhy:
        return held_or_why(self.config, self.key, self._master, self.key.known, self._samples)

    def given(self, commits: Sequence[Commit]) -> HeldOrWhy:
        base, first = self._base, self._log.first_run()
        if first is None or self._in_order[0][0] is not self._versions[0]:
            return None, None
        path, held = given_master(base, self._log), None
        if base.storage.stat(path) is not None:
            try:
                known = read_manifest(base.storage, path)
                held, why = held_or_why(self.config, self.key, path, known, self._samples)
            except MutatorError as fault:
                why = fault.message
        elif not first.counts.get("master rows", 1) and not first.counts.get("tombstones in", 0):
            held, why = {None: NOTHING}, None
        else:
            why = "it is not in backup/ any more"
        return held, why and f"what the master held before version {commits[0].number}: {why}"

    def held(self, version: Commit) -> HeldOrWhy:
        path = self._datasets.get(version.dataset or "")
        return (None, None) if path is None else self._read_held(path)

    def horizon(self, version: Commit) -> str | None:
        """Return the horizon in the manifest of a version, None if the manifest is gone."""
        path = self._datasets.get(version.dataset or "")
        try:
            known = None if path is None else self._manifest(path)
        except MutatorError:
            return None
        return None if known is None else known.commit.horizon

    def _held_in(self, path: str) -> HeldOrWhy:
        try:
            known = self._manifest(path)
        except MutatorError as fault:
            return None, fault.message
        return (None, None) if known is None else held_or_why(self.config, self.key, path, known, ())

    @cached_property
    def _datasets(self) -> Mapping[str, str]:
        """The paths of the datasets that are there, by commit ID."""
        found = [probe_dataset(self._base.storage, self._base.master), *self._base.datasets()]
        return {one.commit: one.path for one in found if one.commit is not None}

    def find(self, version: Commit, part: FeedFile) -> tuple[str | None, str | None]:
        return merged_file(self._base, version.run, part)

    def excludes(self, version: Commit, part: FeedFile) -> bool:
        filters = self._filters_of(version.run)
        return filters is not None and filters.exclude(part, self.key.wanted.hashes)

    def config_of(self, version: Commit, paths: Sequence[str]) -> Config | None:
        """Return the configuration that a run kept with its filters, or else in the manifest that lists its feed."""
        filters, known = self._filters_of(version.run), self.key.known
        if filters is not None:
            return config_by(filters.settings)
        if known is None or not version.feed or version.feed[0] not in known.feed:
            return None
        return config_by(known.settings_of_run(version.feed[0].committed))

    def skipped(self, steps: Sequence[ChainStep]) -> Mapping[str, Sequence[str]]:
        """Return by run the paths of files with mutations of the key that it skipped: they had been merged before.

        A run that skipped all its files has no version; its files are noted with the version that merged them.
        """
        base, found = self._base, dict[str, list[str]]()
        merged = {one.file: step.feed.run for step in steps for one in step.feed.rows.mutations}
        names = {file_names.base_name(path): run for path, run in merged.items()}
        if not base.storage.renames or not names:
            return found
        runs = {step.feed.run for step in steps}
        for directory in entries_of(base.at("archive")):
            for entry in entries_of(directory.path) if directory.type == "directory" else ():
                path = base.shown(entry.path)
                if entry.name in names and path not in merged and self._is_copy(entry, directory.name):
                    run = directory.name if directory.name in runs else names[entry.name]
                    found.setdefault(run, []).append(path)
        return found

    def _is_copy(self, entry: Entry, run: str) -> bool:
        """Return whether a file in archive/<run> was skipped: the run did not merge it, and another version did."""
        mine = {part.name for version in self._versions if version.run == run for part in version.feed}
        sizes = {(part.name, part.bytes) for version in self._versions for part in version.feed}
        return entry.name not in mine and (entry.name, entry.bytes) in sizes

    def shown(self, path: str) -> str:
        return self._base.shown(path)


def _samples(base: Base, versions: Sequence[Commit]) -> list[str]:
    """Return the path of a feed file of the first run, if there is one: it shows how rows are read."""
    paths = (merged_file(base, version.run, part)[0] for version in versions for part in version.feed)
    first = next((path for path in paths if path is not None), None)
    return [] if first is None else [first]


def _filters(files: Mapping[str, Sequence[str]], run: str) -> FeedFilters | None:
    """Return the filters of a run, of those files that can be read. files: paths, by run."""
    return next((found for path in files.get(run, ()) if (found := open_feed_filters(path)) is not None), None)
