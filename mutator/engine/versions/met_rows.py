"""The live rows of a table that winners meet: those with their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.versions.checkpoint import files_of
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.blocks.fold import RowsInPlace
from mutator.engine.blocks.tombstone_columns import met_records
from mutator.engine.blocks.winners import Winners
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.old_values import order_values
from mutator.engine.versions.stored_rows import taken_tombstones
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.values.nested import nulls
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints, exchanged
from mutator.rules.order_columns import flags, met_orders, to_column
from mutator.rules.row_hash import RowHashes


@dataclass(frozen=True)
class RowsOfFile:
    """Live rows of one file that winners meet, in the order of the rows."""

    live: LiveRows
    file: FileEntry
    numbers: Ints
    entries: Ints
    positions: Ints
    partitions: Ints
    highs: Any  # highest order value of each row's extent

    def chosen(self, rows: Ints) -> RowsOfFile:
        """Return some of the rows. rows: ascending."""
        return replace(self, highs=self.highs.take(pa.array(rows)), **_columns_of(self, rows))

    def row_hashes(self, rows: Ints) -> RowHashes:
        """Return the row hashes of some rows."""
        return self.live.row_hashes(self.file, self.entries[rows])

    def schemas(self, rows: Ints) -> Ints:
        """Return the form of the file of each of some rows."""
        return np.full(len(rows), self.file.form)

    def orders(self, plan: Reading, rows: Ints) -> Any:
        """Return the order values of some records or tombstones, touches included."""
        return order_values(plan, self.live, self.file, self.entries[rows], self.positions[rows])

    def tombstone_times(self, rows: Ints) -> Any:
        """Return the commit times of some tombstones."""
        return _times(self.live.snapshot, self.file, self.positions[rows])

    def by_file(self, rows: Ints) -> Iterator[tuple[FileEntry, Ints]]:
        """Yield the file, if there are rows."""
        if len(rows):
            yield self.file, rows

    def have_sides(self) -> Flags:
        """Return which rows are in a file with a side file."""
        return np.full(len(self.numbers), self.file.sides is not None)

    def places(self, rows: Ints) -> tuple[Sequence[str], Ints, Ints]:
        """Return (paths of files, number of each row's path, positions) of some rows."""
        return [self.file.path], np.zeros(len(rows), np.int64), self.positions[rows]


@dataclass(frozen=True)
class RowsOfSmallFiles:
    """Live rows of many files that winners meet, by file and position."""

    snapshot: Snapshot
    files: Ints  # numbers of the files
    numbers: Ints
    entries: Ints
    positions: Ints
    partitions: Ints
    highs: Any  # order values of the rows
    hashes: RowHashes

    def chosen(self, rows: Ints) -> RowsOfSmallFiles:
        """Return some of the rows. rows: ascending."""
        highs, files, hashes = self.highs.take(pa.array(rows)), self.files[rows], self.hashes[rows]
        return replace(self, highs=highs, files=files, hashes=hashes, **_columns_of(self, rows))

    def row_hashes(self, rows: Ints) -> RowHashes:
        """Return the row hashes of some rows."""
        return self.hashes[rows]

    def schemas(self, rows: Ints) -> Ints:
        """Return the form of the file of each of some rows."""
        return self.snapshot.files.column("schema").take(pa.array(self.files[rows])).to_numpy()  # type: ignore[no-any-return]

    def orders(self, plan: Reading, rows: Ints) -> Any:
        """Return the order values of some records or tombstones, touches included."""
        return self.highs.take(pa.array(rows))

    def tombstone_times(self, rows: Ints) -> Any:
        """Return the commit times of some tombstones. rows: ascending."""
        files = [_times(self.snapshot, file, self.positions[own]) for file, own in self.by_file(rows)]
        return pa.concat_arrays(files) if files else pa.array([], pa.timestamp("ms", "UTC"))

    def by_file(self, rows: Ints) -> Iterator[tuple[FileEntry, Ints]]:
        """Yield the files of some rows, each with its own, in the order of their positions. rows: ascending."""
        numbers, begins = np.unique(self.files[rows], return_index=True)
        yield from zip(files_of(self.snapshot.files, numbers), np.split(rows, begins)[1:], strict=True)

    def have_sides(self) -> Flags:
        """Return which rows are in a file with a side file."""
        return flags(self.snapshot.files.column("sides_path").take(pa.array(self.files)).is_valid())

    def places(self, rows: Ints) -> tuple[Sequence[str], Ints, Ints]:
        """Return (paths of files, number of each row's path, positions) of some rows."""
        numbers, which = np.unique(self.files[rows], return_inverse=True)
        paths = self.snapshot.files.column("path").take(pa.array(numbers)).to_pylist()
        return paths, which, self.positions[rows]


MetRows = RowsOfFile | RowsOfSmallFiles


def _columns_of(met: MetRows, rows: Ints) -> dict[str, Any]:
    return {name: getattr(met, name)[rows] for name in ("numbers", "entries", "positions", "partitions")}


def old_rows(plan: Plan, live: LiveRows, met: MetRows, written: Any, unread: Sequence[str]) -> Any:
    """Return the records that winners meet, as they are written.

    written: the rows of all winners, whose IDs are those of the records. unread: fields that are NULL, but for those of
    the order.
    """
    layout, winners = plan.rows.layouts["master"], RowsInPlace.of(written, met.numbers)
    ids = {layout.result.names[position]: winners.field(position).rows() for position in layout.id_fields}
    known = {name: column for name, column in ids.items() if not column.null_count}  # a delete may lack its ID
    for name in {*unread} - {*ids, *layout.ordered_by}:
        known[name] = nulls(len(winners), layout.result.field(name).type)
    read = pa.schema([one for one in layout.result if one.name not in known])
    if not len(read):
        known, read = {}, layout.result
    narrow = replace(layout, result=read, id_fields=(), order_fields=(), partition=())
    files = met.by_file(np.arange(len(met.numbers)))
    parts = [live.some_fields(file, met.positions[own], met.entries[own], narrow) for file, own in files]
    if not parts:
        return winners.rows()
    columns = dict(zip(read.names, pa.concat_arrays(parts).flatten(), strict=True)) | known
    return pa.StructArray.from_arrays([columns[one.name] for one in layout.fields], fields=layout.fields)


def met_tombstone_orders(plan: Plan, met: MetRows, rows: Ints, own: Any, replaced: Flags | None) -> Any:
    """Return the order values of some tombstones that the feed meets.

    They differ from their own where a full snapshot removed the record: ``rules.absences``. rows: ascending. own: of
    these rows. replaced: of all tombstones that were met; None if none was.
    """
    if plan.register.full or not plan.absences:
        return own
    highest = pc.max(to_column(plan.rows.order_type, list(plan.absences.values())))
    which = np.flatnonzero(flags(pc.less(own, highest)))  # of the others, the commit times need not be read
    try:
        times = met.tombstone_times(rows[which])
    except MutatorError as fault:
        if fault.kind != "table.file" or replaced is None or not replaced[rows].any():
            raise
        which = which[~replaced[rows[which]]]
        times = met.tombstone_times(rows[which])
    raised = met_orders(plan.rows.order_type, own.take(pa.array(which)), times, plan.absences)
    return exchanged(own, [(which, raised)])


def _times(snapshot: Snapshot, file: FileEntry, positions: Ints) -> Any:
    return taken_tombstones(snapshot.table, file, file.rows, positions).column("committed").combine_chunks()


def meet_living(winners: Winners, met: MetRows, highs: Any, old: Any) -> None:
    """Let the arrivals of winners meet records. highs, old: order values; old: of the records, None: not read."""
    landed, plan = winners.landed, winners.plan
    if landed is None:
        return
    rows = np.flatnonzero(landed.wait(met.numbers))
    if old is None and not plan.truncates:
        # Those that are newer than all rows of an extent need no order value of a row.
        near = flags(pc.less_equal(landed.orders.take(pa.array(met.numbers[rows])), highs.take(pa.array(rows))))
        winners.meet_living(met.numbers[rows[~near]], highs.take(pa.array(rows[~near])))
        rows = rows[near]
    if len(rows):
        orders = met.orders(plan, rows) if old is None else old.take(pa.array(rows))
        winners.meet_living(met.numbers[rows], met_records(plan, orders))
