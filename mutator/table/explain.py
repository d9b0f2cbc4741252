"""Why a record of a table is what it is: its versions are followed from the first one on.

A version's mutations of the key are in its feed files, where these can still be read, and its winner is in the files of
the table. A feed file is read only if the version may have a mutation of the key that its files do not show: a late
one, an equal one, a rejected one, or one that the winner superseded.

Nothing is written and no lock is taken: feeds may be applied meanwhile.

The rows of one key in the files of a table: what a version holds of it, and the rows that versions wrote.

Order values and contents are those that the merge of a feed compares.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.config import Config
from mutator.dataset.commits import ABANDON, CLEAN, COMPACT, OVERWRITES, TAG, Commit, FeedFile
from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.live_rows import LiveRows, taken_tombstones
from mutator.engine.versions.old_values import order_values
from mutator.errors import MutatorError
from mutator.formats.blocks.column_rows import shown_rows
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.chain import RunFeed, steps_of
from mutator.pipeline.explain.explained_feed import FeedRows, feed_rows
from mutator.pipeline.explain.feed_reading import feed_reading
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key import Key, WantedKey, key_values, typed_key
from mutator.pipeline.explain.key_decisions import NOTHING, Held, KeyMutation
from mutator.pipeline.explain.not_known import horizon_note, settings_note, versions_note
from mutator.pipeline.explain.place import with_paths
from mutator.plan.inspect.managed import dataset_schema
from mutator.plan.inspect.survey import Survey
from mutator.plan.reading import Reading
from mutator.rules.absences import absences_of
from mutator.rules.order_columns import to_value
from mutator.rules.order_values import LOWEST, ORDER_TYPES, precedence
from mutator.table.find import Finder
from mutator.table.outlived import newest_with_less, with_what_is_left
from mutator.table.prepare import for_tables, manifest_of, survey_of_table
from mutator.table.recorded import config_of_version

_Place = tuple[LiveExtent, int, int]  # extent, position, entry in the key index


@dataclass(frozen=True)
class TableRecord:
    """The record of a key in the versions of a table. plan: reads rows as a merge into the newest version does."""

    snapshot: Snapshot  # the newest one
    key: Key
    plan: Reading

    def at(self, number: int) -> ByPartition:
        """Return what a version holds. Raises StateError for damaged files, and for a version that was cleaned."""
        snapshot = self.snapshot if number == self.snapshot.version.number else open_snapshot(self._table, number)
        finder, live = Finder(snapshot), LiveRows(snapshot)
        found: dict[str | None, Held] = {}
        for place in finder.live_places(TOMBSTONES, self.key):
            directory = place[0].extent.partition or None
            order, committed = self._tombstone(place)
            held = Held("tombstone", order, partition=directory, committed=committed)
            found[directory if finder.by_partition else None] = held
        for place in finder.live_places(DATA, self.key):
            directory = place[0].extent.partition
            order, row, content, form = self._row(live, place)
            found[directory if finder.by_partition else None] = Held("record", order, row, content, form, directory)
        return found or {None: NOTHING}

    def written(self) -> dict[int, list[KeyMutation]]:
        """Return the rows and the tombstones that versions wrote and that are still there, by version."""
        found: dict[int, list[KeyMutation]] = defaultdict(list)
        live = LiveRows(self.snapshot)
        for number, is_delete, extent, position, entry in Finder(self.snapshot).written_places(self.key):
            row, content, form, place = b"", b"", "", (extent, position, entry)
            if is_delete:
                order, _ = self._tombstone(place)
            else:
                order, row, content, form = self._row(live, place)
            found[number].append(
                KeyMutation(
                    file=posixpath.join(self._table, extent.file.path),
                    offset=position,
                    line=position + 1,
                    position=f"row {position + 1:,}",
                    place=precedence(order, -1, b"", position, content),
                    is_delete=is_delete,
                    row=row,
                    content=content,
                    form=form,
                    partition=extent.extent.partition or None,
                )
            )
        return found

    @property
    def _table(self) -> str:
        return self.snapshot.table

    def _row(self, live: LiveRows, place: _Place) -> tuple[Any, bytes, bytes, str]:
        """Return the order value of a row, the row for people, its content, and the form of the content."""
        extent, position, entry = place
        positions, entries = np.array([position]), np.array([entry])
        block = live.rows(extent.file, positions, entries, self.plan.rows.layouts["master"])
        orders = order_values(self.plan, live, extent.file, entries, positions)
        rows = block.written()
        (content,) = self.plan.block_type.contents(rows).to_pylist()
        shown = shown_rows(pa.RecordBatch.from_struct_array(rows))[0]
        return to_value(self.plan.rows.order_type, orders[0].as_py()), shown, content, str(rows.type)

    def _tombstone(self, place: _Place) -> tuple[Any, int]:
        """Return the order value of a tombstone, and its commit time in ms."""
        extent, position, _ = place
        file, order_type = extent.file, self.plan.rows.order_type
        (found,) = taken_tombstones(self._table, file, file.rows, np.array([position])).to_pylist()
        order = LOWEST[order_type] if found["order"] is None else ORDER_TYPES[order_type][0](found["order"])
        return order, int(found["committed"].timestamp() * 1000)


_WITHOUT_ROWS = (ABANDON, CLEAN, TAG)
_MEMORY = "a table in memory"
# Outcomes of mutations that leave no row and no tombstone behind
_UNSEEN = ("feed late", "feed no-op", "feed rejected")

# Given the run of the workflow that made a version, or None, and a feed file: its path, or None and why it is not there
FindFile = Callable[[str | None, FeedFile], tuple[str | None, str | None]]


@dataclass(frozen=True)
class ShownPaths:
    """Paths for people. place: that of the table, or of the base whose target it is."""

    place: str
    of: Callable[[str], str]  # replaces the full paths in a text


def explain_table(snapshot: Snapshot, key: Key, config: Config, find: FindFile, paths: ShownPaths) -> Explanation:
    """Explain a key of a table. Raises MutatorError for a table or a key that cannot be used.

    If a cleaning takes versions away meanwhile, the newest version is explained. snapshot: the newest version. config:
    how feed files are read. find: finds them.
    """
    return with_what_is_left(snapshot, lambda newest: _explained(newest, key, config, find, paths))


def _explained(snapshot: Snapshot, key: Key, config: Config, find: FindFile, paths: ShownPaths) -> Explanation:
    """Explain a key. Raises the error of a file that a cleaning has taken away since the snapshot."""
    if snapshot.state.spec is None:
        names = [f"field {number}" for number in range(len(config.rows.key.ids))]
        values = dict(zip(names, map(str, key_values(key, names, paths.place, "table")), strict=True))
        return Explanation(paths.place, "table", values, snapshot.version.number, {None: NOTHING}, None, (), "string")
    return _Versions(snapshot, key, config, find, paths).explain()


class _Versions:
    """The versions of a table that has had rows, and a key."""

    def __init__(self, snapshot: Snapshot, key: Key, config: Config, find: FindFile, paths: ShownPaths) -> None:
        self._snapshot, self._find, self._paths = snapshot, find, paths
        self._config = for_tables(config, snapshot)
        self._survey: Survey = survey_of_table(self._config, snapshot)
        self._finder = Finder(snapshot)
        self._wanted = self._typed(key)
        plan = feed_reading(self._config, self._survey, ())
        self._order_type = plan.rows.order_type
        self._record = TableRecord(snapshot, key, plan)
        self._unknown: list[str] = []
        self._read_as_now: list[int] = []  # versions whose feed files are read with the settings of this call
        self._files_read = self._excluded = 0

    def explain(self) -> Explanation:
        """Return the explanation."""
        now = self._held(self._snapshot.version)
        written = self._written()
        versions = self._log()
        is_first = versions[0].number == 0
        runs = [
            run
            for version in versions
            if version.number and version.action not in _WITHOUT_ROWS and (run := self._run(version, written))
        ]
        absences = absences_of(self._order_type, self._snapshot.state.absences)
        steps = steps_of(
            {None: NOTHING} if is_first else None,
            runs,
            by_partition=self._finder.by_partition,
            is_partitioned=self._survey.partitioned is not None,
            absences=absences,
        )
        self._note_cleaned(versions, is_first=is_first)
        unknown = [*self._unknown, *settings_note(self._read_as_now), *versions_note(steps)]
        values = [value.decode("utf-8", "backslashreplace") for value in self._wanted.values]
        return Explanation(
            place=self._paths.place,
            kind="table",
            key=dict(zip(self._finder.names, values, strict=True)),
            version=self._snapshot.version.number,
            now=now,
            given=None,
            steps=[with_paths(step, self._paths.of) for step in steps if step.touches],
            order_type=self._order_type,
            unknown=[*map(self._paths.of, unknown), *horizon_note(self._survey.manifest)],
            files_read=self._files_read,
            files_excluded=self._excluded,
            shows_rows=self._config.wording.report_fields.all,
            absences=absences,
        )

    def _typed(self, key: Key) -> WantedKey:
        known = manifest_of(self._snapshot)
        assert known is not None
        stored = dataset_schema(known, self._snapshot.table)
        assert stored is not None
        types = [stored.schema.field(name).type for name in self._finder.names]
        return typed_key(key, self._finder.names, types, self._paths.place, "table")

    def _log(self) -> list[Commit]:
        """Return the versions from the first one on; if their entries are lost, from the earliest one."""
        log, last = TableLog(self._snapshot.table), self._snapshot.version.number
        try:
            return list(log.after(-1, last))
        except MutatorError as fault:
            self._note(f"versions before {self._earliest:,}", fault)
            return list(log.after(self._earliest - 1, last))

    @property
    def _earliest(self) -> int:
        return self._snapshot.state.cleaning.earliest

    def _is_there(self, version: Commit) -> bool:
        """Return whether the rows of a version were not cleaned."""
        return self._snapshot.state.cleaning.left.has(version.number)

    def _written(self) -> Mapping[int, Sequence[KeyMutation]]:
        try:
            return self._record.written()
        except MutatorError as fault:
            self._note("rows that versions wrote", fault)
            return {}

    def _held(self, version: Commit) -> ByPartition | None:
        """Return what a version holds; None if it was cleaned, or cannot be read."""
        if not self._is_there(version):
            return None
        try:
            return self._record.at(version.number)
        except MutatorError as fault:
            self._note(f"what version {version.number:,} holds", fault)
            return None

    def _note(self, what: str, fault: MutatorError) -> None:
        """Note a fault and the part of the answer that it hides; raise it if a cleaning may be the cause."""
        if newest_with_less(self._snapshot, fault) is not None:
            raise fault
        self._unknown.append(f"{what}: {fault}")

    def _run(self, version: Commit, written: Mapping[int, Sequence[KeyMutation]]) -> RunFeed | None:
        """Return a version with its mutations of the key; None if it has nothing to do with the key."""
        own = written.get(version.number, ())
        is_feed = version.restored is None and version.action != COMPACT
        shows_all = version.restored is None and version.action not in OVERWRITES and self._is_there(version)
        if shows_all and not own and not any(version.counts.get(name) for name in _UNSEEN):
            self._excluded += len(version.feed)
            return None
        run = RunFeed(
            number=version.number,
            run=version.run if version.claim is None else version.claim.run,
            committed=version.committed,
            now=_tombstone_time(version),
            full=bool(version.counts.get("master deleted by absence")) and version.action not in OVERWRITES,
            overwrites=version.action in OVERWRITES,
            held=self._held(version),
            restored=None if version.restored is None else version.restored.version,
            action=version.action,
            moved=version.action == COMPACT and bool(own),
        )
        return self._with_feed(run, version, own) if is_feed else run

    def _with_feed(self, run: RunFeed, version: Commit, own: Sequence[KeyMutation]) -> RunFeed:
        """Return a version with the rows of the key: those of its feed files, and those of its own files."""
        paths, gone = list[str](), dict[str, str]()
        for part in version.feed:
            path, why = self._find(None if version.claim is None else version.claim.run, part)
            if path is None:
                gone[part.name] = str(why)
            else:
                paths.append(path)
        if not version.feed and version.counts.get("feed rows"):
            gone[_MEMORY] = "it was no file"
        rows = self._rows(paths, self._config_of(version)) if paths else FeedRows((), ())
        self._files_read += len(paths)
        found = {(one.order, one.is_delete) for one in rows.mutations}
        also = tuple(one for one in _mutations(version, own) if (one.order, one.is_delete) not in found)
        if gone or rows.unread:
            rows = replace(rows, mutations=(*rows.mutations, *also))
        may_have_more = not own or version.counts.get("feed superseded") or version.counts.get("feed rejected")
        return replace(run, rows=rows, gone=gone if may_have_more else {}, is_winner_known=bool(own))

    def _config_of(self, version: Commit) -> Config:
        """Return how the feed files of a version were read; where that is not known, how they are read now."""
        if version.settings:
            try:
                config = for_tables(config_of_version(self._snapshot, version.settings), self._snapshot)
                return replace(
                    config, wording=replace(config.wording, report_fields=self._config.wording.report_fields)
                )
            except MutatorError:  # settings of another release
                pass
        self._read_as_now.append(version.number)
        return self._config

    def _rows(self, paths: Sequence[str], config: Config) -> FeedRows:
        """Return the rows of the key in feed files. config: how they were read."""
        try:
            return feed_rows(feed_reading(config, self._survey, paths), self._wanted)
        except MutatorError as fault:
            return FeedRows((), (), tuple((path, str(fault)) for path in paths))

    def _note_cleaned(self, versions: Sequence[Commit], *, is_first: bool) -> None:
        """Note since when the rows of earlier versions are not known."""
        if self._earliest > 1:
            since = next(one.committed for one in versions if one.number == self._earliest)
            files = "the rows that only they had are gone, and only feed files show them" if is_first else "all is gone"
            self._unknown.append(f"versions before {self._earliest:,} ({since[:19]}): they were cleaned; {files}")


def _tombstone_time(version: Commit) -> int:
    """Return the commit time of the tombstones of a version, in ms; they are written before it is committed."""
    times = [time for time, _ in version.absences]
    return times[-1] if times else int(datetime.fromisoformat(version.committed).timestamp() * 1000)


def _mutations(version: Commit, own: Sequence[KeyMutation]) -> Sequence[KeyMutation]:
    """Return the rows of a version that came from its feed, without tombstones of records that its feed lacked."""
    if version.counts.get("master deleted by absence"):
        return [one for one in own if not one.is_delete]
    return own
