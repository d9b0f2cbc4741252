"""The history of a table: all versions of its records, as columns of its rows and of the times between which they hold.

They are made of the events that the table keeps (``engine.versions.events``), bucket by bucket, whatever sequence these
arrived in (``rules.history``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.config.settings import Config
from mutator.dataset.file_entry import OF_HISTORY
from mutator.dataset.state import KnownFeed
from mutator.dataset.versions.checkpoint import FILES
from mutator.dataset.versions.masks import Masks
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.read_ahead import read_ahead
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.history_rows import EventPlace, HistoryRows, Meaning, holding, is_closed, units_of_history
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.values.convert import converted
from mutator.formats.values.nested import nulls
from mutator.formats.values.row_filter import Filter, field_of
from mutator.pipeline.explain.key import Key
from mutator.plan.rows.row_plan import IGNORED, PATCHES
from mutator.rules.byte_columns import Ints
from mutator.rules.conditions import Where, conditions_of
from mutator.rules.history import ENDINGS, OPEN
from mutator.rules.order_columns import (
    SEQUENCE,
    compact,
    encoded_lowest,
    flags,
    from_texts,
    placed,
    to_column,
    to_texts,
)
from mutator.rules.order_types import recorded_fields
from mutator.rules.order_values import order_parser
from mutator.table.find import Finder
from mutator.table.history_settings import time_part, tracked_by
from mutator.table.outlived import reading
from mutator.table.recorded import config_of_snapshot
from mutator.table.scan import check_twice

_TIMESTAMP = pa.timestamp("us", "UTC")
# Of a second, by the name of a field of messages, or its end
_UNITS = {"_ms": 10**3, "_us": 10**6, "_ns": 10**9, "message.es": 10**3, "message.ts": 1}


@dataclass(frozen=True, eq=False)
class History:
    """The versions of the records of one version of a table."""

    snapshot: Snapshot

    @cached_property
    def fields(self) -> Any:
        """The pa.Schema of records."""
        return self._forms.schema()

    @cached_property
    def _forms(self) -> EarlierForms:
        return EarlierForms(self.snapshot.state, self.snapshot.table)

    @cached_property
    def schema(self) -> Any:
        """The pa.Schema of versions."""
        if not self._spec:
            return pa.schema([])
        types = self._time, self._time, pa.bool_(), pa.string()
        own = map(pa.field, self._config.history.columns, types)
        return pa.schema([*(one.with_nullable(True) for one in self.fields), *own])

    def schema_of(self, columns: Sequence[str] | None) -> Any:
        """Return the pa.Schema of some columns of versions. Raises ConfigError for unknown ones."""
        if columns is None:
            return self.schema
        check_twice(self.snapshot, columns)
        return pa.schema([field_of(self.schema, name, self.snapshot.table) for name in columns])

    def batches(self, columns: Sequence[str] | None, where: Where, valid_at: Any) -> Iterator[Any]:
        """Return an iterator over versions as pa.RecordBatches.

        columns: the wanted ones; None for all. Others are as of ``tables``.
        """
        names = self.schema_of(columns).names
        found = self.tables(valid_at, where)
        return (batch for one in found for batch in one.select(names).to_batches())

    def parts(self, columns: Sequence[str] | None, where: Where, valid_at: Any, number: int) -> list[HistoryPart]:
        """Return the versions in parts that other processes can read: of whole buckets, and at most a number of them.

        The others are as for ``batches``. Raises ConfigError as a scan does.
        """
        names = self.schema_of(columns).names
        if not self._spec:
            return []
        Filter(conditions_of(where), self.schema, self.snapshot.table)
        if valid_at is not None:
            self.order_of(valid_at)
        units = self.units()
        size = max(-(-len(units) // number), 1)
        groups = [units[start : start + size] for start in range(0, len(units), size)]
        return [HistoryPart(of_units(self.snapshot, one), one, names, where, valid_at) for one in groups]

    def units(self) -> list[list[LiveExtent]]:
        """Return the extents of each bucket."""
        extents = [one for role in OF_HISTORY for one in self.snapshot.extents(role)]
        return [*units_of_history(extents)]

    @cached_property
    def _spec(self) -> Any:
        return self.snapshot.state.spec

    @cached_property
    def _config(self) -> Config:
        return config_of_snapshot(self.snapshot)

    @cached_property
    def _time_field(self) -> str | None:
        """The field that has the times; None: they are numbers of files."""
        names, part = recorded_fields(self._spec["order"]), self.meaning.part
        return str(names[part or 0]) if names else None

    @cached_property
    def _unit(self) -> int | None:
        """The units in a second of times that are numbers in a message; None for others."""
        name = self._time_field or ""
        if self.meaning.time_type != "long" or name in self.fields.names:
            return None
        return _UNITS.get(name, _UNITS.get(name[-3:]))

    @cached_property
    def _time(self) -> Any:
        """The type in which times are shown: that of their field, if it is not text."""
        name, order_type = self._time_field, self.meaning.time_type
        own = self.fields.field(name).type if name in self.fields.names else pa.string() if name else pa.int64()
        of_text = {"long": pa.int64(), "timestamp": _TIMESTAMP}
        if self._unit is not None:
            return _TIMESTAMP
        return of_text.get(order_type, own) if pa.types.is_string(own) else own

    @cached_property
    def meaning(self) -> Meaning:
        """What makes versions of the events."""
        config, spec = self._config, self._spec
        named, others = tracked_by(config)
        if others:  # the order value and fields that do not count only make a version where they are named
            named = [*named, *map(str, recorded_fields(spec["order"])), *spec.get(IGNORED, ())]
        schemas = {form: self._forms.schema(form).names for form in self.snapshot.state.forms}
        order_type = str(spec["order"].get("type", SEQUENCE))
        texts = [one.encode("utf-8", "surrogateescape") or None for one in self.snapshot.version.truncates]
        return Meaning(
            fields=pa.schema([one.with_nullable(True) for one in self.fields]),
            key=tuple(spec["key"]["fields"]),
            tracked=tuple(number for number, name in enumerate(self.fields.names) if (name in named) != others),
            unknown=spec.get(PATCHES, "insert"),
            order_type=order_type,
            truncates=from_texts(order_type, pa.array(texts, pa.large_binary())) if texts else None,
            begins=tuple(
                max((form for form, names in schemas.items() if name not in names), default=-1)
                for name in self.fields.names
            ),
            part=time_part(config.history, spec["order"]),
        )

    @cached_property
    def rows(self) -> HistoryRows:
        """The events and closed rows."""
        return HistoryRows(self.snapshot, self.meaning)

    def tables(
        self,
        valid_at: Any = None,
        where: Where = None,
        units: Sequence[Sequence[LiveExtent]] | None = None,
        *,
        ahead: bool = True,
    ) -> Iterator[Any]:
        """Return an iterator over all versions as pa.Tables; those of a key are in one of them, oldest first.

        valid_at: only those that held at that time, as text or as a Python value. where: as for ``scan_of``. units: of
        some buckets. ahead: read the next ones meanwhile, in threads.
        """
        if not self._spec:
            return iter(())
        chosen = Filter(conditions_of(where), self.schema, self.snapshot.table)
        at = None if valid_at is None else self.order_of(valid_at)
        return self._tables(chosen, at, self.units() if units is None else units, ahead=ahead)

    def _tables(self, chosen: Filter, at: Any, units: Sequence[Sequence[LiveExtent]], *, ahead: bool) -> Iterator[Any]:
        with reading(self.snapshot):
            parts = (part for unit in units for part in self._of_unit(unit, at))
            steps = (partial(_chosen, chosen, part) for part in parts)
            yield from read_ahead(steps) if ahead else (step() for step in steps)

    def of_key(self, key: Key, valid_at: Any = None, partition: str | None = None) -> Any:
        """Return the versions of the record of a key as a pa.Table, oldest first. valid_at: as for ``tables``."""
        if not self._spec:
            return self.schema.empty_table()
        at = None if valid_at is None else self.order_of(valid_at)
        with reading(self.snapshot):
            records = Finder(self.snapshot).event_places(key, partition)
            found = [self._versions([EventPlace(*one) for one in places], at) for places in records.values()]
            return pa.concat_tables([self.schema.empty_table(), *found])

    def order_of(self, value: Any) -> Any:
        """Return a time that a user gives, as a pa.Scalar of the columns of times. Raises ConfigError."""
        text, order_type = str(value), self.meaning.time_type
        try:
            if self._unit is not None:
                seconds, fraction = order_parser("timestamp")(text.encode())
                return pa.scalar(seconds * self._unit + int(fraction[:9].ljust(9, b"0")) * self._unit // 10**9)
            return to_column(order_type, [order_parser(order_type)(text.encode())])[0]
        except (OverflowError, ValueError) as fault:
            raise error("table.valid.at", path=self.snapshot.table, value=repr(text), why=str(fault)) from None

    def _of_unit(self, extents: Sequence[LiveExtent], at: Any) -> Iterator[Callable[[], Any]]:
        """Yield functions that return the versions of a bucket, pa.Tables.

        at: those that hold at that order value; None: all.
        """
        closed = [one for one in extents if is_closed(one, self.meaning)]
        others = [one for one in extents if not is_closed(one, self.meaning)]
        hashes = self.rows.hashes(others) if closed else None  # of keys with events that are not closed
        for extent in closed:
            yield partial(self._of_closed, extent, hashes, at)
        if others:
            yield partial(self._of_others, closed, others, hashes, at)

    def _of_closed(self, extent: LiveExtent, hashes: Any, at: Any) -> Any:
        found = self.rows.closed(extent, hashes, at)
        columns = [found.rows.column(name) for name in self.fields.names]
        return self._shown(columns, found.starts, found.ends, found.endings)

    def _of_others(self, closed: Sequence[LiveExtent], others: Sequence[LiveExtent], hashes: Any, at: Any) -> Any:
        places = [*(self.rows.place_with(one, hashes) for one in closed), *map(self.rows.place_of, others)]
        return self._versions(places, at)

    def _versions(self, places: Sequence[EventPlace], at: Any) -> Any:
        """Return the versions that some events mean, a pa.Table. at: as for ``_of_unit``."""
        found = self.meaning.versions(self.rows.events(places).columns)
        columns = [*(found.field(number) for number in range(len(self.fields.names))), found.starts, found.ends]
        endings = found.endings
        if at is not None:
            chosen = holding(found.starts, found.ends, at)
            columns, endings = [column.filter(pa.array(chosen)) for column in columns], endings[chosen]
        *fields, starts, ends = columns
        shown = self._shown(fields, starts, ends, endings)
        return shown.take(pc.sort_indices(shown, [(name, "ascending") for name in self.meaning.key]))

    def _shown(self, columns: Sequence[Any], starts: Any, ends: Any, endings: Ints) -> Any:
        """Return versions as a pa.Table."""
        ended = pa.DictionaryArray.from_arrays(pa.array(endings.astype(np.int8)), pa.array(ENDINGS)).cast(pa.string())
        own = self.times(starts), self.times(ends), pa.array(endings == OPEN), ended
        return pa.table([*columns, *own[: len(self._config.history.columns)]], schema=self.schema)

    def times(self, times: Any) -> Any:
        """Return times as they are shown; NULL for the lowest, that of NULL."""
        order_type = self.meaning.time_type
        lowest = pa.array([encoded_lowest(order_type)], times.type)[0]
        times = pc.if_else(pc.equal(times, lowest), pa.scalar(None, times.type), times)
        if self._unit is not None:
            whole, step = self._unit // 10**6, 10**6 // self._unit
            known = times.to_numpy(zero_copy_only=False) if not times.null_count else times.fill_null(0).to_numpy()
            micros = np.floor_divide(known, whole) if whole else known * step
            return pa.array(micros, mask=flags(times.is_null())).cast(self._time)
        if pa.types.is_integer(times.type) and pa.types.is_integer(self._time):
            return times.cast(self._time)
        known, at = compact(order_type, times.drop_null()), flags(times.is_valid())
        if order_type == "timestamp" and pa.types.is_int64(known.type) and pa.types.is_temporal(self._time):
            found = known.cast(pa.timestamp("us", getattr(self._time, "tz", None))).cast(self._time)
            return placed(found, at) if len(found) else nulls(len(times), self._time)
        return converted(to_texts(order_type, times), self._time, False)[0]


@dataclass(frozen=True, eq=False)
class HistoryPart:
    """The versions of some buckets, to be read with some columns and a filter."""

    snapshot: Snapshot  # without other files
    units: Sequence[Sequence[LiveExtent]]
    columns: Sequence[str]
    where: Where
    valid_at: Any

    def batches(self) -> Iterator[Any]:
        """Yield the versions as pa.RecordBatches. Raises StateError for lost and damaged files."""
        for one in History(self.snapshot).tables(self.valid_at, self.where, self.units, ahead=False):
            yield from one.select(self.columns).to_batches()


def of_units(snapshot: Snapshot, units: Sequence[Sequence[LiveExtent]]) -> Snapshot:
    """Return a snapshot with the files of some buckets alone, which have no hidden rows."""
    paths = pa.array(sorted({one.file.path for unit in units for one in unit}), pa.string())
    files = snapshot.files.filter(pc.is_in(snapshot.files.column("path"), paths)) if len(paths) else FILES.empty_table()
    return replace(
        snapshot,
        state=replace(snapshot.state, known=KnownFeed()),
        files=files,
        masks=Masks(snapshot.table),
    )


def _chosen(chosen: Filter, part: Callable[[], Any]) -> Any:
    return chosen.of(part())
