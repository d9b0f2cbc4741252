"""The rows of one key in the files of a table: what a version holds of it, and the rows that versions wrote.

Order values and contents are those that the merge of a feed compares.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.live_rows import LiveRows, taken_tombstones
from mutator.engine.versions.old_values import order_values
from mutator.formats.blocks.column_rows import shown_rows
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key import Key
from mutator.pipeline.explain.key_decisions import NOTHING, Held, Mutation
from mutator.plan.reading import Reading
from mutator.rules.order_columns import to_value
from mutator.rules.order_values import LOWEST, ORDER_TYPES, precedence
from mutator.table.find import Finder

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

    def written(self) -> dict[int, list[Mutation]]:
        """Return the rows and the tombstones that versions wrote and that are still there, by version."""
        found: dict[int, list[Mutation]] = defaultdict(list)
        live = LiveRows(self.snapshot)
        for number, is_delete, extent, position, entry in Finder(self.snapshot).written_places(self.key):
            row, content, form, place = b"", b"", "", (extent, position, entry)
            if is_delete:
                order, _ = self._tombstone(place)
            else:
                order, row, content, form = self._row(live, place)
            found[number].append(
                Mutation(
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
