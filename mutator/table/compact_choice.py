"""Which buckets of a table a compaction writes anew, and in which tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mutator.dataset.file_entry import DATA, OF_HISTORY, TOMBSTONES
from mutator.dataset.partition_index import stored_fields
from mutator.dataset.side_columns import oldest_tombstone
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.base_files import MOST, MOST_SPLITS, OWN
from mutator.engine.versions.compact_task import Unit
from mutator.engine.versions.live_extents import OfFiles, units_of
from mutator.engine.versions.stored_rows import opened_file
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.values.row_filter import Filter
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.run_plan import Plan
from mutator.rules.conditions import Where, conditions_of
from mutator.rules.order_values import order_value
from mutator.table.scan import schema_of

_Part = tuple[MergeUnit, str]  # a bucket, and the role of files

_TASK_ROWS = 1 << 20  # of several buckets that one task writes at most
MOST_FILES = 4
MOST_HIDDEN = 0.1


@dataclass(frozen=True)
class Need:
    """Which buckets need a compaction."""

    everything: bool = False  # all in which a compaction would change anything
    files: int = MOST_FILES  # else those with rows in more data files than this, or in more tombstone files
    hidden: float = MOST_HIDDEN  # or with a larger part of their rows hidden
    where: Where = None  # conditions on partition fields: of the partitions that may have such rows
    anew: bool = False  # write all buckets, even those that need no compaction
    tasks: int | None = None  # at most as many as so many tasks write; None: all


class CompactionChoice:
    """The buckets of a snapshot that need a compaction."""

    def __init__(self, snapshot: Snapshot, need: Need, plan: Plan) -> None:
        """Choose them. Raises ConfigError for conditions on fields that are not partition fields."""
        self._masks, self._need = OfFiles(snapshot), need
        self._table, self._schema, self._before = snapshot.table, snapshot.state.schema, plan.expire_before
        # What deltas meet of a tombstone by absence may be higher than the floor.
        raised = plan.floor is not None and any(one > plan.floor for one in plan.absences.values())
        self._floor, self._order_type = None if raised else plan.floor, plan.rows.order_type
        self._oldest: dict[str, int] = {}  # tombstone file -> lowest commit time of its tombstones
        partitions, units = _partitions(snapshot, need.where), units_of(snapshot, self._masks)
        wanted = {
            (unit, role): [extent for extent in extents if extent.file.role == role]
            for unit, extents in units.items()
            for role in (DATA, TOMBSTONES)
            if partitions is None or unit.partition in partitions
        }
        self._buckets = {unit: self._buckets_of(unit, extents, plan.bucket_bytes) for unit, extents in units.items()}
        chosen = {name for name, extents in wanted.items() if extents and self._is_needed(name, extents)}
        if need.everything:
            chosen |= _with_shared_files(wanted, chosen)
        chosen |= {(unit, TOMBSTONES) for unit, role in chosen if role == DATA and self._buckets[unit] > unit.groups}
        self.units: list[Unit] = [
            (replace(unit, buckets=self._buckets[unit] if (unit, DATA) in chosen else unit.groups), found)
            for unit in units
            if (found := [one for role in (DATA, TOMBSTONES) if (unit, role) in chosen for one in wanted[unit, role]])
        ]
        self.units = [unit for task in self.tasks()[: need.tasks] for unit in task]
        self.split = sum(unit.buckets != unit.groups for unit, _ in self.units)
        extents = [extent for _, found in self.units for extent in found]
        self.bytes = sum(one.file.bytes * one.extent.rows // max(one.file.rows, 1) for one in extents)
        self.rows, self.tombstones = (
            sum(self._live(one) for one in extents if one.file.role == role) for role in (DATA, TOMBSTONES)
        )
        alive = {extent.file.path for found in units.values() for extent in found}
        alive.update(file.path for role in OF_HISTORY for file in snapshot.of_role(role))
        # Files without live rows, which no bucket has. For a few of them alone, there need not be a new version.
        dead = tuple(path for path in snapshot.files.column("path").to_pylist() if path not in alive)
        self.dead = dead if self.units or need.everything or len(dead) > need.files else ()

    def tasks(self) -> list[list[Unit]]:
        """Return the buckets of each task, sorted by partition and bucket."""
        tasks, rows = list[list[Unit]](), _TASK_ROWS
        for unit, extents in self.units:
            own = sum(one.extent.rows for one in extents)
            if rows + own > _TASK_ROWS:
                tasks.append([])
                rows = 0
            tasks[-1].append((unit, extents))
            rows += own
        return tasks

    def packed(self) -> frozenset[str | None]:
        """Return the partitions with few rows, which share files."""
        rows: dict[str | None, int] = {}
        for unit, extents in self.units:
            own = sum(self._live(one) for one in extents if one.file.role == DATA)
            rows[unit.partition] = rows.get(unit.partition, 0) + own
        return frozenset(name for name, count in rows.items() if name is not None and count < OWN)

    def _buckets_of(self, unit: MergeUnit, extents: Sequence[LiveExtent], most: int) -> int:
        """Return the number of buckets that the rows of a unit get. most: bytes of data of a bucket, twice at most."""
        size, count = sum(self._bytes(one) for one in extents if one.file.role == DATA), unit.groups
        while size * unit.groups > 2 * most * count and count < MOST_SPLITS * unit.groups:
            count *= 2
        return count

    def _bytes(self, extent: LiveExtent) -> int:
        return extent.file.bytes * self._live(extent) // max(extent.file.rows, 1)

    def _is_needed(self, part: _Part, extents: Sequence[LiveExtent]) -> bool:
        """Return whether the rows or the tombstones of a bucket need a compaction.

        The hidden rows of a file belong to the buckets that still have live rows in it, in proportion to these.
        """
        if self._need.anew:
            return True
        (unit, role), hidden, live = part, 0.0, 0
        for one in extents:
            own, count = self._live(one), len(self._masks.hidden_in(one.file))
            hidden += count * own / (one.file.rows - count)
            live += own
        fewest = -(-live // MOST) if role == DATA else 1  # files that a compaction makes
        if role == TOMBSTONES and any(self._expires(one) or self._is_covered(one) for one in extents):
            return True
        if role == DATA and any(one.extent.buckets < self._buckets[unit] for one in extents):
            return True  # it outgrew its buckets
        if not self._need.everything:
            return len(extents) > max(self._need.files, fewest) or hidden > self._need.hidden * (live + hidden)
        is_old = any(one.file.form != self._schema or len(self._masks.touched(one)[0]) for one in extents)
        return len(extents) > fewest or hidden > 0 or (role == DATA and is_old)

    def _expires(self, extent: LiveExtent) -> bool:
        """Return whether a file has tombstones that have expired, as its footer says."""
        if self._before is None:
            return False
        path = extent.file.path
        if path not in self._oldest:
            with opened_file(self._table, extent.file) as stream:
                self._oldest[path] = oldest_tombstone(stream)
        return self._oldest[path] < self._before

    def _is_covered(self, extent: LiveExtent) -> bool:
        """Return whether the floor covers all tombstones of an extent."""
        high = order_value(self._order_type, extent.extent.high)
        return self._floor is not None and (high is None or high <= self._floor)

    def _live(self, extent: LiveExtent) -> int:
        return extent.extent.rows - len(self._masks.hidden(extent))


def _with_shared_files(wanted: Mapping[_Part, Sequence[LiveExtent]], chosen: Collection[_Part]) -> set[_Part]:
    """Return what shares a file with the chosen: it would have hidden rows otherwise."""
    found, files = set(chosen), set[str]()
    while True:
        files |= {extent.file.path for name in found for extent in wanted[name]}
        more = {name for name, extents in wanted.items() if any(extent.file.path in files for extent in extents)}
        if more <= found:
            return found
        found |= more


def _partitions(snapshot: Snapshot, where: Where) -> set[str] | None:
    """Return the partitions that may have rows for which conditions hold; None for all."""
    conditions = conditions_of(where)
    if not conditions:
        return None
    fields = stored_fields(snapshot.state.spec)
    sources = [field.source for field in fields]
    wrong = next((one.column for one in conditions if one.column not in sources), None)
    if wrong is not None:
        known = f"write conditions on {', '.join(map(str, sources))}" if sources else "leave the conditions out"
        raise error("table.compact.where", path=snapshot.table, column=repr(wrong), known=known)
    return Filter(conditions, schema_of(snapshot), snapshot.table).partitions(fields, snapshot.partitions)
