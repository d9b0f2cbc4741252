"""Close the history of a table in a compaction: one file for each bucket, whose rows say when versions hold."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import Any

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.each import checked, guarded
from mutator.engine.runner import each_on
from mutator.engine.versions.close_history import close_units
from mutator.engine.versions.delta_files import ApplyTarget
from mutator.engine.versions.history_rows import Meaning, is_closed
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.run_plan import Plan
from mutator.storage.progress import expected
from mutator.table.apply import OpenRunner
from mutator.table.compact_choice import Need
from mutator.table.history import History, of_units

_SHARE = 0.2  # of the closed rows: as many other events are closed, too
_FEW = 1 << 16  # events that a scan finds anew without notice
_TASK_ROWS = 1 << 22


@dataclass
class Closing:
    """The buckets whose history is closed, and the files of these."""

    meaning: Meaning | None = None
    units: list[list[LiveExtent]] = field(default_factory=list)
    replaced: frozenset[str] = frozenset()  # paths
    files: tuple[FileEntry, ...] = ()  # once they are written

    @property
    def rows(self) -> int:
        """Number of all events."""
        return sum(one.extent.rows for unit in self.units for one in unit)

    @classmethod
    def of(cls, snapshot: Snapshot, need: Need) -> Closing:
        """Choose all buckets, or none."""
        if not snapshot.has_history or need.where is not None:
            return cls()
        meaning = History(snapshot).meaning
        units = History(snapshot).units()
        extents = [one for unit in units for one in unit]
        closed = sum(one.extent.rows for one in extents if is_closed(one, meaning))
        others = sum(one.extent.rows for one in extents) - closed
        if not others or not (need.everything or need.anew or others > max(_FEW, _SHARE * closed)):
            return cls()
        return cls(meaning, units, frozenset(one.file.path for one in extents))

    def write(
        self, plan: Plan, snapshot: Snapshot, target: ApplyTarget, open_runner: OpenRunner, new: list[str]
    ) -> None:
        """Write the files. new: to which their paths are added."""
        tasks, rows = list[list[list[LiveExtent]]](), _TASK_ROWS
        for unit in self.units:
            own = sum(one.extent.rows for one in unit)
            if rows + own > _TASK_ROWS:
                tasks.append([])
                rows = 0
            tasks[-1].append(unit)
            rows += own
        files = {one.file.path: one.file.bytes for unit in self.units for one in unit}
        bytes_ = sum(files.values())
        masked = of_units(snapshot, self.units)
        with open_runner(bytes_) as (runner, _), expected(bytes_):
            found: list[Any] = each_on(runner)(tasks, partial(_close, plan, masked, target, self.meaning))
        written = [one for one in found if isinstance(one, tuple)]
        new += [part.path for one in written for file in one for part in file.stored()]
        self.files = tuple(file for one in checked(found) for file in one)

    def at(self, head: Snapshot) -> tuple[tuple[FileEntry, ...], tuple[str, ...]]:
        """Return the files that a version adds and removes that follows a snapshot: none if others removed some."""
        live = set(head.files.column("path").to_pylist())
        return (self.files, tuple(sorted(self.replaced))) if self.replaced <= live else ((), ())


def _close(plan: Plan, snapshot: Snapshot, target: ApplyTarget, meaning: Meaning | None, *task: Any) -> Any:
    units, number, attempt = task
    assert meaning is not None
    return guarded(close_units, plan, snapshot, target, meaning, units, number, attempt)
