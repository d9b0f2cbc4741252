"""The versions of a table whose key is explained: what a version holds of it, and the rows that versions wrote.

The winner of a version is in the files of the table. A feed file is read only if the version may have a mutation of the
key that its files do not show: a late one, an equal one, a rejected one, or one that the winner superseded.

Order values and contents are those that the merge of a feed compares.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from mutator.config import Config
from mutator.dataset.commits import OVERWRITES, WITHOUT_ROWS, Commit, FeedFile
from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.side_columns import WAITING
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.old_values import order_values
from mutator.engine.versions.stored_rows import taken_tombstones
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.chain import in_present_order
from mutator.pipeline.explain.explained_feed import shown_content
from mutator.pipeline.explain.feed_reading import GivenFiles, feed_reading
from mutator.pipeline.explain.field_origins import waiting_fields
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key import Key, key_values
from mutator.pipeline.explain.key_decisions import NOTHING, Held, KeyMutation, field_orders
from mutator.pipeline.explain.key_rows import form_of
from mutator.pipeline.explain.place import ExplainedPlace, HeldOrWhy, key_as_read
from mutator.pipeline.explain.walk import explain
from mutator.plan.reading import Reading
from mutator.rules.order_columns import to_value
from mutator.rules.order_types import is_same_order
from mutator.rules.order_values import lowest_order, order_parser, precedence
from mutator.rules.patches import masks_of
from mutator.table.explain_valid import valid_versions
from mutator.table.find import Finder
from mutator.table.history_settings import check_has_history
from mutator.table.outlived import newest_with_less, with_what_is_left
from mutator.table.prepare import for_tables, survey_of_table
from mutator.table.recorded import config_of_version

_Place = tuple[LiveExtent, int, int]  # extent, position, entry in the key index


@dataclass(frozen=True)
class TableRecord:
    """The record of a key in the versions of a table. plan: reads rows as a merge into the newest version does."""

    snapshot: Snapshot  # the newest one
    key: Key
    plan: Reading
    others: frozenset[int] = frozenset()  # versions whose rows had another order

    def at(self, number: int) -> ByPartition:
        """Return what a version holds. Raises StateError for damaged files, and for a version that was cleaned."""
        snapshot = self.snapshot if number == self.snapshot.version.number else open_snapshot(self._table, number)
        finder, live = Finder(snapshot), LiveRows(snapshot)
        found: dict[str | None, Held] = {}
        for place in finder.live_places(TOMBSTONES, self.key):
            directory = place[0].extent.partition or None
            held = replace(self._tombstone(place), partition=directory)
            found[directory if finder.by_partition else None] = held
        for place in finder.live_places(DATA, self.key):
            directory = place[0].extent.partition
            held = Held("record", *self._row(live, place), sides=self._sides(live, place), partition=directory)
            found[directory if finder.by_partition else None] = held
        return found or {None: NOTHING}

    def written(self) -> dict[int, list[KeyMutation]]:
        """Return the rows and the tombstones that versions wrote and that are still there, by version."""
        found: dict[int, list[KeyMutation]] = defaultdict(list)
        live = LiveRows(self.snapshot)
        for number, is_delete, extent, position, entry in Finder(self.snapshot).written_places(self.key):
            row, content, form, place = b"", b"", "", (extent, position, entry)
            if number in self.others:
                continue
            if is_delete:
                held = self._tombstone(place)
                order, row, content, is_delete = held.order, held.row, held.content, not held.waits
                order, unset = self._sent(held) if held.waits else (order, None)
                row, form = (waiting_fields(held), form_of(self.plan)) if held.waits else (row, form)
            else:
                _, row, content, form = self._row(live, place)
                (order,) = live.orders(extent.file, np.array([entry]), self.plan.rows.order_type)  # without touches
                order = to_value(self.plan.rows.order_type, order.as_py())
                _, unset = self._sent(Held("record", order, sides=self._sides(live, place)))
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
                    unset=unset,
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
        shown = self.plan.block_type.shown(rows, rows, {})[0]
        return to_value(self.plan.rows.order_type, orders[0].as_py()), shown, content, str(rows.type)

    def _sides(self, live: LiveRows, place: _Place) -> tuple[Any, ...]:
        """Return the values of the side columns of a row."""
        extent, position, _ = place
        found = live.sides(extent.file, np.array([position]), self.plan.side_columns)
        return tuple(column[0].as_py() for column in found.flatten())

    def _sent(self, held: Held) -> tuple[Any, bytes | None]:
        """Return the highest order value of the fields of a row, and the mask of the others: they were set before."""
        own = field_orders(self.plan.rows.order_type, held)
        if not own:
            return held.order, None
        names = self.plan.block_type.fields(self.plan.rows.layouts["written"], b"").names
        usual = None if held.waits else held.order
        orders = [own.get(name, usual) for name in names]
        highest = max(one for one in orders if one is not None)
        return highest, masks_of([np.array([one != highest]) for one in orders])[0].as_py()

    def _tombstone(self, place: _Place) -> Held:
        """Return a tombstone, with the row that waits beside it."""
        extent, position, _ = place
        file, order_type = extent.file, self.plan.rows.order_type
        (found,) = taken_tombstones(self._table, file, file.rows, np.array([position])).to_pylist()
        order = lowest_order(order_type) if found["order"] is None else order_parser(order_type)(found["order"])
        content = found.get(WAITING) or b""
        sides = tuple(found.get(one.name) for one in self.plan.side_columns) if content else ()
        row = shown_content(self.plan.rows, content) if content else b""
        committed = int(found["committed"].timestamp() * 1000)
        return Held("tombstone", order, row, content, sides=sides, committed=committed)


def _changes_of_order(versions: Sequence[Commit]) -> list[int]:
    """Return the versions that changed the order of the rows; a restore may be one of them."""
    orders = [(one.number, (one.spec or (one.restored and one.restored.spec) or {}).get("order")) for one in versions]
    known = [(number, order) for number, order in orders if order is not None]
    return [number for (_, one), (number, other) in pairwise(known) if not is_same_order(one, other)]


_Read = TypeVar("_Read")
# Outcomes that leave no row and no tombstone behind
_UNSEEN = ("feed late", "feed no-op", "feed rejected", "feed truncate", "master truncated")

Shown = Callable[[str], str]  # returns a full path as the user gives it
# Given the run of the workflow that made a version, or None, and a feed file: its path, or None and why it is not there
FindFile = Callable[[str | None, FeedFile], tuple[str | None, str | None]]


def explain_table(
    snapshot: Snapshot,
    key: Key,
    config: Config,
    place: str,
    find: FindFile,
    shown: Shown,
    given: GivenFiles,
    valid_at: object = None,
) -> Explanation:
    """Explain a key of a table. Raises MutatorError for a table or a key that cannot be used.

    If a cleaning takes versions away meanwhile, the newest version is explained. snapshot: the newest version. config:
    how feed files are read. place: for people, the path of the table, or of the base whose target it is. find: finds
    feed files. given: the feed files that the user names; those that no version merged are noted. valid_at: a time at
    which something held, of a table with history.
    """
    if valid_at is not None:
        check_has_history(snapshot)

    def explained(newest: Snapshot) -> Explanation:
        found, merged = _explained(newest, key, config, place, find, shown, valid_at)
        return replace(found, unknown=[*found.unknown, *given.not_merged(merged)])

    return with_what_is_left(snapshot, explained)


def _explained(
    snapshot: Snapshot, key: Key, config: Config, place: str, find: FindFile, shown: Shown, valid_at: object
) -> tuple[Explanation, Sequence[FeedFile]]:
    """Explain a key; also return the feed files that versions merged.

    Raises the error of a file that a cleaning has taken away since the snapshot.
    """
    if not snapshot.state.spec:
        names = [f"field {number}" for number in range(len(config.rows.key.ids))]
        values = dict(zip(names, map(str, key_values(key, names, place, "table")), strict=True))
        empty = Explanation(place, "table", values, snapshot.version.number, {None: NOTHING}, None, (), "string")
        return empty, snapshot.state.feed
    table = _Table(snapshot, key, config, place, find, shown)
    found = explain(table)
    if valid_at is not None:
        found = replace(found, valid=valid_versions(snapshot, key, valid_at, table.plan))
    return found, table.merged()


class _Table(ExplainedPlace):
    """A table that has had rows."""

    def __init__(self, snapshot: Snapshot, key: Key, config: Config, place: str, find: FindFile, shown: Shown) -> None:
        self._snapshot, self._find, self._shown = snapshot, find, shown
        config = for_tables(config, snapshot)
        survey = survey_of_table(config.rows.key, snapshot)
        plan = feed_reading(config, survey, ())
        found = key_as_read(config.rows.text, survey, plan, key, place, "table")
        super().__init__(place, "table", snapshot.version.number, config, found)
        self._earliest = snapshot.state.cleaning.earliest
        self._notes: list[str] = []
        versions = self._log()
        self._versions, others = in_present_order(versions, _changes_of_order(versions))
        self._notes += others
        followed = {one.number for one in self._versions}
        self._record = TableRecord(snapshot, key, plan, frozenset(one.number for one in versions) - followed)
        rows, why = self._or_why(self._record.written)
        self._written = rows or {}
        self._notes += [] if why is None else [f"rows that versions wrote: {why}"]
        if self._earliest > max(self._versions[0].number, 1):
            since = next(one.committed for one in versions if one.number == self._earliest)
            files = "all is gone"
            if self._has_all:
                files = "the rows that only they had are gone, and only feed files show them"
            self._notes.append(f"versions before {self._earliest:,} ({since[:19]}): they were cleaned; {files}")

    @property
    def plan(self) -> Reading:
        """How rows are read."""
        return self._record.plan

    def _log(self) -> list[Commit]:
        """Return the versions from the first one on; if their entries are lost, from the earliest one."""
        log, last = TableLog(self._snapshot.table), self._snapshot.version.number
        versions, why = self._or_why(lambda: list(log.after(-1, last)))
        if versions is None:
            self._notes.append(f"versions before {self._earliest:,}: {why}")
            return list(log.after(self._earliest - 1, last))
        return versions

    def _or_why(self, read: Callable[[], _Read]) -> tuple[_Read | None, str | None]:
        """Return what a call reads, or None and its fault; raise the fault if a cleaning may be the cause."""
        try:
            return read(), None
        except MutatorError as fault:
            if newest_with_less(self._snapshot, fault) is not None:
                raise
            return None, fault.message

    @property
    def _has_all(self) -> bool:
        """Return whether the entries of all versions are there."""
        return self._versions[0].number == 0

    def _is_there(self, version: Commit) -> bool:
        """Return whether the rows of a version were not cleaned."""
        return self._snapshot.state.cleaning.left.has(version.number)

    def merged(self) -> Sequence[FeedFile]:
        """Return the feed files that versions merged, those that a restore has undone among them."""
        return [*self._snapshot.state.feed, *(part for one in self._versions for part in one.feed)]

    def commits(self) -> Sequence[Commit]:
        return [one for one in self._versions if one.number and one.action not in WITHOUT_ROWS]

    def now(self) -> HeldOrWhy:
        return self.held(self._snapshot.version)

    def given(self, commits: Sequence[Commit]) -> HeldOrWhy:
        return ({None: NOTHING} if self._has_all else None), None

    def held(self, version: Commit) -> HeldOrWhy:
        return self._or_why(lambda: self._record.at(version.number)) if self._is_there(version) else (None, None)

    def concerns(self, version: Commit) -> bool:
        """Return whether a version wrote a row of the key, or may have had a mutation that left none behind."""
        shows_all = version.restored is None and version.action not in OVERWRITES and self._is_there(version)
        return not shows_all or bool(self.written(version)) or any(version.counts.get(name) for name in _UNSEEN)

    def written(self, version: Commit) -> Sequence[KeyMutation]:
        return self._written.get(version.number, ())

    def find(self, version: Commit, part: FeedFile) -> tuple[str | None, str | None]:
        return self._find(None if version.claim is None else version.claim.run, part)

    def config_of(self, version: Commit, paths: Sequence[str]) -> Config | None:
        if not version.settings:
            return None
        try:
            return for_tables(config_of_version(self._snapshot, version.settings), self._snapshot)
        except MutatorError:  # settings of another release
            return None

    def notes(self) -> Sequence[str]:
        return self._notes

    def shown(self, path: str) -> str:
        return self._shown(path)
