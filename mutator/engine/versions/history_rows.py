"""The rows of a table's history: events as they came, and closed ones, with the versions that they mean.

A compaction writes all events of a bucket into *closed* files. An event that is the last one of a version has the
fields of the version there, and beside it when the version holds. So a scan takes closed rows as they are, and finds
versions anew only for keys with later events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import CLOSED, FileEntry
from mutator.dataset.versions.key_index import WantedHashes
from mutator.dataset.versions.packs import damaged
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.confirmations import FIELD, OrderLists, expanded
from mutator.engine.versions.events import BESIDE
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.stored_rows import stays_verified, taken_rows
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import NotReadable
from mutator.rules.byte_columns import Flags, Ints, offsets_of
from mutator.rules.history import EventColumns, Versions, shown_times, versions_of
from mutator.rules.key_hash import Hashes
from mutator.rules.last_wins import groups_of_keys
from mutator.rules.order_columns import column_type, encoded_lowest, flags, placed, ranks, to_texts
from mutator.rules.order_tuples import part_column
from mutator.rules.order_types import parts_of
from mutator.rules.patches import packed_masks
from mutator.rules.sort_order import number_order


@dataclass(frozen=True)
class Meaning:
    """The rules that turn the events of a table into versions."""

    fields: Any  # pa.Schema of records, any of which may be NULL
    key: tuple[str, ...]  # names of its fields
    tracked: tuple[int, ...]  # numbers of the fields of which a change makes a version
    unknown: str  # what a patch of an unknown record does
    order_type: str
    truncates: Any = None  # order values of all truncates, a pa.Array; None without any
    begins: tuple[int, ...] = ()  # of each field, the last form of files that lacks it; negative: none does
    part: int | None = None  # of the order values, that has the times; None: they are the times

    @property
    def digest(self) -> str:
        """A text that differs where the same events mean other versions."""
        truncates = [] if self.truncates is None else to_texts(self.order_type, self.truncates).to_pylist()
        fields = [*zip(self.fields.names, map(str, self.fields.types), self.begins, strict=True)]
        said = fields, self.key, self.tracked, self.unknown, self.order_type, truncates, self.part
        return sha256(repr(said).encode()).hexdigest()[:12]

    @property
    def beside(self) -> tuple[Any, ...]:
        """The columns beside closed rows: those of events, and of the last one of a version also when it holds."""
        time = column_type(self.time_type)
        return (*BESIDE, pa.field("start", time), pa.field("end", time), pa.field("ending", pa.int8()), FIELD)

    @property
    def time_type(self) -> str:
        """The order type of times."""
        return self.order_type if self.part is None else parts_of(self.order_type)[self.part].type

    def versions(self, events: EventColumns) -> Versions:
        """Return the versions that events mean, with times instead of order values.

        A version that ended before the first known time is left out: no time can be shown for its end.
        """
        return self.shown(versions_of(events, self.tracked, self.unknown, self.truncates))[0]

    def shown(self, found: Versions) -> tuple[Versions, Ints]:
        """Return versions with times instead of order values, and their numbers among those given."""
        every = np.arange(len(found.keys))
        if self.part is None:
            return found, every
        times = (part_column(self.order_type, orders, self.part) for orders in (found.starts, found.ends.drop_null()))
        starts, ends = next(times), placed(next(times), flags(found.ends.is_valid()))
        starts, ends = shown_times(found.keys, starts, ends)
        lowest = pa.scalar(encoded_lowest(self.time_type), ends.type)
        known = np.flatnonzero(~flags(pc.fill_null(pc.equal(ends, lowest), False)))
        found = replace(found, starts=starts, ends=ends)
        return (found, every) if len(known) == len(every) else (found.take(known), known)


class EventPlace(NamedTuple):
    """Events of a file."""

    file: FileEntry
    positions: Ints  # ascending
    entries: Ints  # of each one in the key index


class FoundEvents(NamedTuple):
    """Events, and what the key indexes say of them."""

    columns: EventColumns
    hashes: Hashes
    keys: Any  # encoded
    lists: OrderLists  # of confirmations
    marks: Ints  # of an event that stands for a list, the number of it; else 0


class ClosedRows(NamedTuple):
    """Versions as closed files have them."""

    rows: Any  # pa.Table of records
    starts: Any  # times
    ends: Any
    endings: Ints


class HistoryRows:
    """The history of one version of a table, read where it is needed."""

    def __init__(self, snapshot: Snapshot, meaning: Meaning) -> None:
        """Read nothing yet."""
        self._snapshot, self._meaning, self._live = snapshot, meaning, LiveRows(snapshot)

    @cached_property
    def _added(self) -> dict[str, int]:
        """The version that added each file; 0 for closed ones.

        A compaction closes all events that it sees. Those beside them came later, even if their version is an earlier
        one, which was committed while the compaction was at work.
        """
        columns = (self._snapshot.files.column(name).to_pylist() for name in ("path", "version", "role"))
        return {path: 0 if role == CLOSED else version for path, version, role in zip(*columns, strict=True)}

    def place_of(self, extent: LiveExtent) -> EventPlace:
        """Return the place of all events of an extent."""
        return self._place(extent.file, np.arange(extent.start, extent.end))

    def place_with(self, extent: LiveExtent, hashes: Hashes) -> EventPlace:
        """Return the place of the events of an extent whose keys have some hashes, ascending."""
        return self._place(extent.file, self._live.find_hashes(extent, WantedHashes(hashes))[1])

    def _place(self, file: FileEntry, entries: Ints) -> EventPlace:
        positions = self._live.positions(file, entries)
        order = number_order(positions)
        return EventPlace(file, positions[order], entries[order])

    def hashes(self, extents: Sequence[LiveExtent]) -> Hashes:
        """Return the hashes of the keys of some extents, each once."""
        parts = [self._live.hashes(one.file, one.start, one.end) for one in extents]
        return np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))

    def events(self, places: Sequence[EventPlace], *, whole: bool = False) -> FoundEvents:
        """Return the events at some places, by key, order value, and the sequence in which they hold.

        whole: with every confirmation, also where the last one stands for all.
        """
        meaning, live = self._meaning, self._live
        hashes = np.concatenate([live.hashes(one.file)[one.entries] for one in places])
        versions = np.repeat([self._added[one.file.path] for one in places], [len(one.positions) for one in places])
        positions = np.concatenate([one.positions for one in places])
        orders = pa.concat_arrays([live.orders(one.file, one.entries, meaning.order_type) for one in places])
        rows = pa.concat_tables([self._rows(one) for one in places]).combine_chunks()
        lists, truncates = OrderLists(meaning.order_type), meaning.truncates
        numbers = np.concatenate([self._lists_of(lists, one) for one in places])
        more = expanded(lists, numbers, hashes, orders, versions > 0, truncates, whole=whole)
        of_row, orders = more.of_row, more.orders
        hashes, versions, positions = hashes[of_row], versions[of_row], positions[of_row]
        rows = rows if len(of_row) == len(numbers) else rows.take(pa.array(of_row)).combine_chunks()
        by = [positions, versions, ranks(orders)]
        order = np.lexsort([*by, hashes])
        taken = rows.select(meaning.key).take(pa.array(order))
        keys = groups_of_keys(hashes[order], [taken.column(name).combine_chunks() for name in meaning.key])
        if (np.diff(keys) < 0).any():  # keys with equal hashes
            again = np.lexsort([*(one[order] for one in by), keys])
            order, keys = order[again], keys[again]
        index = pa.array(order)
        sides = [live.sides(one.file, one.positions, BESIDE) for one in places]
        deletes: Flags = flags(pa.concat_arrays([one.field(0) for one in sides]).is_valid())[of_row][order]
        masks = [self._masks(one.file, own.field(1)) for one, own in zip(places, sides, strict=True)]
        source = pa.array(of_row[order])
        unset = pa.concat_arrays(masks).take(source)
        columns = [rows.column(name).combine_chunks().take(index) for name in meaning.fields.names]
        found = EventColumns(keys, orders.take(index), deletes, unset, columns, more.solid[order])
        encoded = pa.concat_arrays([live.entry_keys(one.file, one.entries) for one in places]).take(source)
        return FoundEvents(found, hashes[order], encoded, lists, more.lists[order])

    def _lists_of(self, lists: OrderLists, place: EventPlace) -> Ints:
        """Return the numbers of the lists of confirmations beside the rows at a place."""
        if place.file.role != CLOSED:
            return np.zeros(len(place.positions), np.int64)
        return lists.read(self._live.sides(place.file, place.positions, (FIELD,)).field(0))

    def _rows(self, place: EventPlace) -> Any:
        """Return the rows at a place, a pa.Table."""
        (file, positions, _), live = place, self._live
        live.verify(file)
        wanted, table = self._meaning.fields, self._snapshot.table
        names = live.forms.stored(file.form, wanted.names)
        try:
            is_verified = stays_verified(table, file)
            parts = (
                taken_rows(table, file, file.rows, positions, names, is_verified=is_verified) if len(positions) else ()
            )
            found = pa.concat_tables(parts) if parts else live.forms.schema(file.form).empty_table()
            return live.forms.evolved(found.select(names), file.form, wanted)
        except NotReadable as fault:
            raise damaged(table, file, fault) from None

    def _masks(self, file: FileEntry, masks: Any) -> Any:
        """Return masks of a file as those of the present fields. A mutation sets a field that its file lacks."""
        forms, names = self._live.forms, self._meaning.fields.names
        own = forms.schema(file.form).names
        patches = np.flatnonzero(flags(masks.is_valid()))
        if own == names or not len(patches):
            return masks
        data = offsets_of(masks.take(pa.array(patches)).cast(pa.large_binary()))[1]
        bits = np.unpackbits(data.reshape(len(patches), -1), axis=1, bitorder="little").astype(np.bool_)
        has = [forms.has(file.form, name) for name in names]
        none = np.zeros(len(patches), np.bool_)
        unset = [bits[:, own.index(name)] if is_there else none for name, is_there in zip(names, has, strict=True)]
        found = pa.array(packed_masks(unset), pa.binary())
        at = np.full(len(masks), -1)
        at[patches] = np.arange(len(patches))
        return found.take(pa.array(np.maximum(at, 0), mask=at < 0))

    def closed(self, extent: LiveExtent, without: Hashes, at: Any = None) -> ClosedRows:
        """Return the versions in a closed extent, but for those of keys with some hashes, ascending.

        at: those that hold at that time; None: all.
        """
        positions = self._positions_at(extent, at)
        sides = self._live.sides(extent.file, positions, self._meaning.beside[len(BESIDE) : -1])
        is_version = flags(sides.field(2).is_valid())
        if len(without):
            is_version &= ~np.isin(positions, self.place_with(extent, without).positions, assume_unique=True)
        if at is not None:
            is_version &= holding(sides.field(0), sides.field(1), at)
        if not is_version.all():
            positions, sides = positions[is_version], sides.filter(pa.array(is_version))
        own = self._rows(EventPlace(extent.file, positions, positions))
        starts, ends, endings = sides.flatten()
        return ClosedRows(own, starts, ends, endings.to_numpy())

    def _positions_at(self, extent: LiveExtent, at: Any) -> Ints:
        """Return the positions in a closed extent of versions that may hold at a time. at: None: of all rows."""
        positions = np.arange(extent.start, extent.end)
        groups = [] if at is None else self._live.side_statistics(extent.file, ("start", "end"))
        if not groups:
            return positions
        may: Flags = np.array([_may_hold(start, end, at.as_py()) for _, (start, end) in groups], np.bool_)
        chosen: Ints = positions[np.repeat(may, [rows for rows, _ in groups])[extent.start : extent.end]]
        return chosen


def _may_hold(start: Any, end: Any, at: Any) -> bool:
    """Return whether a version in a row group may hold. start, end: the statistics of the columns; None: not known."""
    if start is None or end is None:
        return True
    begins = not start.has_min_max or start.min <= at
    return begins and (not end.has_null_count or end.null_count > 0 or not end.has_min_max or end.max > at)


def holding(starts: Any, ends: Any, at: Any) -> Flags:
    """Return which versions hold at a time. starts, ends, at: times, as columns of order values have them."""
    begun: Flags = flags(pc.fill_null(pc.less_equal(starts, at), False))
    return begun & ~flags(pc.fill_null(pc.less_equal(ends, at), False))


def is_closed(extent: LiveExtent, meaning: Meaning) -> bool:
    """Return whether the versions in an extent hold, if no other events of their keys came."""
    return extent.file.role == CLOSED and f"/{meaning.digest}/" in extent.file.path


def units_of_history(extents: Sequence[LiveExtent]) -> Iterator[list[LiveExtent]]:
    """Yield the extents whose events may have keys in common, by partition and bucket."""
    least = min((one.extent.buckets for one in extents), default=1)
    units = dict[tuple[str, int], list[LiveExtent]]()
    for one in extents:
        units.setdefault((one.extent.partition or "", one.extent.bucket % least), []).append(one)
    yield from (units[unit] for unit in sorted(units))


def sides_of(events: EventColumns, found: Versions, meaning: Meaning, confirmed: Any) -> Any:
    """Return the side columns of closed rows, a pa.StructArray.

    found: the versions of the events. confirmed: the side column of lists.
    """
    count = len(events.keys)
    at = np.full(count, -1)
    at[found.last] = np.arange(len(found.last))
    index = pa.array(np.maximum(at, 0), mask=at < 0)
    endings = pa.array(found.endings.astype(np.int8)).take(index)
    deletes = pa.array(events.deletes, mask=~events.deletes)
    own = [
        deletes,
        events.unset.cast(pa.binary()),
        found.starts.take(index),
        found.ends.take(index),
        endings,
        confirmed,
    ]
    return pa.StructArray.from_arrays(own, fields=list(meaning.beside))


def shown_fields(events: EventColumns, found: Versions) -> list[Any]:
    """Return the fields of events, of the last one of each version those of the version."""
    sources = np.arange(len(events.keys))
    sources[found.last] = len(sources) + np.arange(len(found.last))
    index = pa.array(sources)
    columns = enumerate(events.fields)
    return [pa.concat_arrays([column, found.field(number)]).take(index) for number, column in columns]
