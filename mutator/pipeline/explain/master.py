"""The runs of a master whose key is explained: its manifest lists their feed files, and a user says where they are."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby

from mutator.config import Config
from mutator.dataset.commits import RUN, Commit, FeedFile
from mutator.dataset.directory import read_manifest
from mutator.errors import error
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.feed_reading import files_at
from mutator.pipeline.explain.key import Key
from mutator.pipeline.explain.key_decisions import NOTHING
from mutator.pipeline.explain.place import (
    ExplainedPlace,
    HeldOrWhy,
    another_order,
    config_by,
    held_or_why,
    key_of_master,
)
from mutator.pipeline.explain.walk import explain
from mutator.rules import file_names
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
    place = _Master(path, key, config, feed, before, unrecorded)
    found, known = explain(place), place.key.known
    return found if known is None else replace(found, unknown=[*found.unknown, *place.files.not_merged(known.feed)])


class _Master(ExplainedPlace):
    def __init__(
        self,
        path: str,
        key: Key,
        config: Config,
        feed: Sequence[str],
        before: str | None,
        unrecorded: Config | None,
    ) -> None:
        self.files, self._unrecorded = files_at(feed, config.inputs), unrecorded
        self._samples = [entry.path for entry in self.files.entries]
        super().__init__(path, "master", None, config, key_of_master(config, path, key, self._samples, path))
        self._before, self._earlier = before, None
        if before is not None:
            storage, self._before = located(before)
            if storage.stat(self._before) is None and storage.renames:  # others have no directories
                raise error("path.missing", path=self._before, what="dataset")
            self._earlier = read_manifest(storage, self._before)

    @property
    def first_floor(self) -> str | None:
        """The floor of the earlier master."""
        return None if self._earlier is None else self._earlier.commit.floor

    def commits(self) -> Sequence[Commit]:
        """Return a version for each commit time of the feed files that the manifest lists, after the earlier master."""
        known = self.key.known
        if known is None:
            return ()
        last, since = known.commit, "" if self._earlier is None else self._earlier.commit.committed
        floors = {last.committed: last.floor}  # the manifest does not say which run raised it
        ordered = sorted((part for part in known.feed if part.committed > since), key=lambda part: part.committed)
        return [
            Commit(
                number=0,
                id="",
                action=RUN,
                run=last.run if committed == last.committed else "",
                committed=committed,
                floor=floors.get(committed, self.first_floor),
                feed=tuple(parts),
            )
            for committed, parts in groupby(ordered, key=lambda part: part.committed)
        ]

    @cached_property
    def _now(self) -> HeldOrWhy:
        return held_or_why(self.config, self.key, self.key.survey.master_path, self.key.known, self._samples)

    def now(self) -> HeldOrWhy:
        return self._now

    def given(self, commits: Sequence[Commit]) -> HeldOrWhy:
        known = self.key.known
        if known is None:
            return None, "how its records came: the master has no manifest, because mutator did not write it"
        if self._before is not None:
            other = None if self._earlier is None else another_order(self._earlier, known)
            if other is not None:
                return None, f"what {self._before} held: {other}; --before names one since the change"
            held, why = held_or_why(self.config, self.key, self._before, self._earlier, ())
            return held, why and f"what {self._before} held: {why}"
        counts = known.commit.counts
        is_first = known.commit.parent is None and len(commits) <= 1
        if is_first and not counts.get("master rows", 1) and not counts.get("tombstones in", 0):
            return {None: NOTHING}, None
        since = f" of {commits[0].committed[:19]}" if commits else ""
        return None, f"what the master held before the run{since}: give the earlier master with --before"

    def held(self, version: Commit) -> HeldOrWhy:
        known = self.key.known
        return self._now if known is not None and version.committed == known.commit.committed else (None, None)

    def find(self, version: Commit, part: FeedFile) -> tuple[str | None, str | None]:
        return self.files.find(part)

    def config_of(self, version: Commit, paths: Sequence[str]) -> Config | None:
        assert self.key.known is not None
        settings = self.key.known.settings_of_run(version.committed)
        if settings is not None:
            return config_by(settings)
        if paths and self._unrecorded is None:
            files = file_names.first_few([file_names.base_name(path) for path in paths])
            raise error("explain.deletes", path=self.path, files=files, committed=version.committed[:19])
        return self._unrecorded
