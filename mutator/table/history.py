"""The history of a table: all versions of its records, as columns of its rows and of the times between which they hold.

They are made of the events that the table keeps (``engine.versions.events``), bucket by bucket, whatever sequence these
arrived in (``rules.history``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import EVENTS, FileEntry
from mutator.dataset.versions.packs import damaged
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.events import BESIDE
from mutator.engine.versions.live_rows import LiveRows, taken_rows
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.content import NotReadable
from mutator.formats.values.convert import converted
from mutator.formats.values.row_filter import Filter, field_of
from mutator.pipeline.explain.key import Key
from mutator.plan.rows.row_plan import IGNORED, MERGES, PATCHES
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.conditions import Where, conditions_of
from mutator.rules.history import ENDINGS, OPEN, EventColumns, Versions, versions_of
from mutator.rules.last_wins import groups_of_keys
from mutator.rules.order_columns import SEQUENCE, flags, from_texts, ranks, to_column, to_texts
from mutator.rules.order_types import recorded_fields
from mutator.rules.order_values import is_tuple, order_parser
from mutator.table.find import Finder
from mutator.table.outlived import reading
from mutator.table.recorded import config_of_snapshot

FROM, TO, CURRENT, ENDED = COLUMNS = ("valid_from", "valid_to", "is_current", "ended")


def check_history(plan: Plan) -> None:
    """Raise ConfigError for an apply whose feed has no history."""
    rows = plan.rows
    table = setting("history=on")
    if MERGES in rows.spec:
        why = f"{setting('field.merge.FIELD')} makes one value of all that a field ever had"
        raise error("table.history", why=why, cure="leave the setting out, or create a table without history")
    if plan.register.full or plan.operation != "apply":
        what = "write.operation" if plan.operation != "apply" else "sync.mode=full"
        why = f"{setting(what)} does not say since when the other records are gone"
        cure = f"set {setting('sync.mode=full')} and {setting('snapshot.as.of')} to the time of the snapshot"
        raise error("table.history", why=why, cure=cure)
    if rows.spec.get(PATCHES) == "reject":
        why = f"with {setting('patch.unknown=reject')}, what a patch does depends on when it arrives"
        raise error("table.history", why=why, cure=f"set {setting('patch.unknown')} to wait or insert")
    if is_tuple(rows.order_type) or rows.orders_beside:
        why = f"{table} shows times, and the order value is not one field of the record"
        raise error("table.history", why=why, cure=f"set {setting('order_by')} to one field")


def wants_versions(snapshot: Snapshot, valid_at: Any, *, current: bool) -> bool:
    """Return whether a scan is of versions of records. Raises ConfigError for a table that has none, or for both."""
    if not snapshot.has_history and (valid_at is not None or current):
        what = "current records beside others" if valid_at is None else "versions at a time"
        raise error("table.history.none", path=snapshot.table, what=what)
    if current and valid_at is not None:
        raise error("argument.both", call="scan", what="current and valid_at are given", cure="give one of them")
    return snapshot.has_history and not current


@dataclass(frozen=True, eq=False)
class History:
    """The versions of the records of one version of a table."""

    snapshot: Snapshot

    @cached_property
    def _live(self) -> LiveRows:
        return LiveRows(self.snapshot)

    @cached_property
    def fields(self) -> Any:
        """The pa.Schema of records."""
        return self._live.forms.schema()

    @cached_property
    def schema(self) -> Any:
        """The pa.Schema of versions."""
        own = [pa.field(FROM, self._time), pa.field(TO, self._time), pa.field(CURRENT, pa.bool_())]
        fields = [one.with_nullable(True) for one in self.fields]
        return pa.schema([*fields, *own, pa.field(ENDED, pa.string())]) if len(self.fields) else pa.schema([])

    def schema_of(self, columns: Sequence[str] | None) -> Any:
        """Return the pa.Schema of some columns of versions. Raises ConfigError for unknown ones."""
        if columns is None:
            return self.schema
        return pa.schema([field_of(self.schema, name, self.snapshot.table) for name in columns])

    def batches(self, columns: Sequence[str] | None, where: Where, valid_at: Any) -> Iterator[Any]:
        """Yield versions as pa.RecordBatches. columns: the wanted ones; None for all. Others are as of ``tables``."""
        names = self.schema_of(columns).names
        for found in self.tables(valid_at, where):
            yield from found.select(names).to_batches()

    @cached_property
    def _spec(self) -> Any:
        return self.snapshot.state.spec

    @cached_property
    def _order(self) -> str:
        """The type of order values."""
        return str(self._spec["order"].get("type", SEQUENCE))

    @cached_property
    def _time(self) -> Any:
        """The type in which order values are shown: that of their field, if it is not text."""
        names = recorded_fields(self._spec["order"])
        own = self.fields.field(names[0]).type if names else pa.int64()
        of_text = {"long": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}
        return of_text.get(self._order, own) if pa.types.is_string(own) else own

    @cached_property
    def _tracked(self) -> list[int]:
        """The numbers of the fields of which a change makes a version."""
        config = config_of_snapshot(self.snapshot)
        names = list(self.fields.names)
        chosen = names if config.history.tracked is None else config.history.tracked.among(names)
        others = (
            {*recorded_fields(self._spec["order"]), *self._spec.get(IGNORED, ())}
            if config.history.tracked is None
            else ()
        )
        return [number for number, name in enumerate(names) if name in chosen and name not in others]

    @cached_property
    def _truncates(self) -> Any:
        texts = [one.encode("utf-8", "surrogateescape") or None for one in self.snapshot.version.truncates]
        return from_texts(self._order, pa.array(texts, pa.large_binary())) if texts else None

    def tables(self, valid_at: Any = None, where: Where = None) -> Iterator[Any]:
        """Yield all versions as pa.Tables, by bucket and key, oldest first.

        valid_at: only those that hold at that order value, as text or as a Python value. where: as for ``scan_of``.
        """
        chosen = Filter(conditions_of(where), self.schema, self.snapshot.table)
        at = None if valid_at is None else self.order_of(valid_at)
        with reading(self.snapshot):
            for extents in self._units():
                yield chosen.of(self._versions([self._of_extent(one) for one in extents], at))

    def of_key(self, key: Key, valid_at: Any = None, partition: str | None = None) -> Any:
        """Return the versions of the record of a key as a pa.Table, oldest first. valid_at: as for ``tables``."""
        at = None if valid_at is None else self.order_of(valid_at)
        with reading(self.snapshot):
            found = [_Place(*one) for one in Finder(self.snapshot).event_places(key, partition)]
            return self._versions(found, at) if found else self.schema.empty_table()

    def order_of(self, value: Any) -> Any:
        """Return an order value that a user gives, as a pa.Scalar of the column of order values. Raises ConfigError."""
        text = str(value)
        try:
            return to_column(self._order, [order_parser(self._order)(text.encode())])[0]
        except ValueError as fault:
            raise error("table.valid.at", path=self.snapshot.table, value=repr(text), why=str(fault)) from None

    def _units(self) -> Iterator[list[LiveExtent]]:
        """Yield the extents whose events may have keys in common, by partition and bucket."""
        extents = [*self.snapshot.extents(EVENTS)]
        least = min((one.extent.buckets for one in extents), default=1)
        units = dict[tuple[str, int], list[LiveExtent]]()
        for one in extents:
            units.setdefault((one.extent.partition or "", one.extent.bucket % least), []).append(one)
        yield from (units[unit] for unit in sorted(units))

    def _versions(self, places: Sequence[_Place], at: Any) -> Any:
        """Return the versions that some events mean, a pa.Table. at: those that hold at that order value; None: all."""
        found = versions_of(self._events(places), self._tracked, self._spec.get(PATCHES, "insert"), self._truncates)
        return self._shown(found, None if at is None else _holding(found, at))

    def _events(self, places: Sequence[_Place]) -> EventColumns:
        """Return the events at some places, by key, order value, and the sequence in which they hold."""
        added = dict(zip(*(self.snapshot.files.column(name).to_pylist() for name in ("path", "version")), strict=True))
        parts = [self._read(one) for one in places]
        hashes = np.concatenate([part.hashes for part in parts])
        versions = np.repeat([added[one.file.path] for one in places], [len(one.positions) for one in places])
        positions = np.concatenate([one.positions for one in places])
        orders = pa.concat_arrays([part.orders for part in parts])
        rows = pa.concat_tables([part.rows for part in parts]).combine_chunks()
        by = [positions, versions, ranks(orders)]
        order = np.lexsort([*by, hashes])
        names = self._spec["key"]["fields"]
        taken = rows.select(names).take(pa.array(order))
        keys = groups_of_keys(hashes[order], [taken.column(name).combine_chunks() for name in names])
        if (np.diff(keys) < 0).any():  # keys with equal hashes
            again = np.lexsort([*(one[order] for one in by), keys])
            order, keys = order[again], keys[again]
        index = pa.array(order)
        sides = pa.concat_arrays([part.sides for part in parts]).take(index)
        deletes: Flags = flags(sides.field(0).is_valid())
        columns = [rows.column(name).combine_chunks().take(index) for name in self.fields.names]
        return EventColumns(keys, orders.take(index), deletes, sides.field(1), columns)

    def _of_extent(self, extent: LiveExtent) -> _Place:
        """Return the places of all events of an extent."""
        positions = np.arange(extent.start, extent.end)
        at = self._live.positions(extent.file, positions)
        return _Place(extent.file, positions, positions[np.argsort(at)])

    def _read(self, place: _Place) -> _Rows:
        """Return the events at a place."""
        (file, positions, entries), live = place, self._live
        live.verify(file)
        names = live.forms.stored(file.form, self.fields.names)
        wanted = pa.schema([one.with_nullable(True) for one in self.fields])
        try:
            found = pa.concat_tables(taken_rows(self.snapshot.table, file, file.rows, positions, names))
            rows = live.forms.evolved(found.select(names), file.form, wanted)
        except NotReadable as fault:
            raise damaged(self.snapshot.table, file, fault) from None
        hashes, orders = live.hashes(file)[entries], live.orders(file, entries, self._order)
        return _Rows(hashes, orders, rows, live.sides(file, positions, BESIDE))

    def _shown(self, found: Versions, chosen: Ints | None) -> Any:
        """Return versions as a pa.Table. chosen: their numbers; None for all."""
        number = slice(None) if chosen is None else chosen
        index = pa.array(np.arange(len(found.keys))[number])
        columns = [found.field(one).take(index) for one in range(len(self.fields.names))]
        times = [self._times(column.take(index)) for column in (found.starts, found.ends)]
        endings = found.endings[number]
        ended = pa.array(np.array(ENDINGS, object)[endings], pa.string())
        shown = pa.table([*columns, *times, pa.array(endings == OPEN), ended], schema=self.schema)
        return shown.take(pc.sort_indices(shown, [(name, "ascending") for name in self._spec["key"]["fields"]]))

    def _times(self, orders: Any) -> Any:
        """Return order values as they are shown."""
        texts = to_texts(self._order, orders)
        return converted(texts, self._time, False)[0]


class _Place(NamedTuple):
    """Events of a file."""

    file: FileEntry
    positions: Ints  # ascending
    entries: Ints  # of each one in the key index


@dataclass(frozen=True)
class _Rows:
    """Rows of event files."""

    hashes: Any  # of keys
    orders: Any
    rows: Any  # pa.Table
    sides: Any  # as ``BESIDE`` has them


def _holding(found: Versions, at: Any) -> Ints:
    """Return the numbers of the versions that hold at an order value."""
    begun, over = pc.less_equal(found.starts, at), pc.less_equal(found.ends, at)
    return np.flatnonzero(flags(begun) & ~flags(pc.fill_null(over, False)))
