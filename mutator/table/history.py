"""The history of a table: all versions of its records, as columns of its rows and of the times between which they hold.

They are made of the events that the table keeps (``engine.versions.events``), bucket by bucket, whatever sequence these
arrived in (``rules.history``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.config.settings import Config, HistorySpec
from mutator.dataset.file_entry import OF_HISTORY
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.usable_cores import usable_cores
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.history_rows import EventPlace, HistoryRows, Meaning, holding, is_closed, units_of_history
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.values.convert import converted
from mutator.formats.values.nested import nulls
from mutator.formats.values.row_filter import Filter, field_of
from mutator.pipeline.explain.key import Key
from mutator.plan.rows.row_plan import IGNORED, MERGES, PATCHES
from mutator.plan.run_plan import Plan
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
from mutator.rules.order_types import parts_of, recorded_fields
from mutator.rules.order_values import is_tuple, order_parser
from mutator.table.find import Finder
from mutator.table.outlived import reading
from mutator.table.recorded import config_of_snapshot
from mutator.table.scan import check_twice

_TIMESTAMP = pa.timestamp("us", "UTC")
# Of a second, by the name of a field of messages, or its end
_UNITS = {"_ms": 10**3, "_us": 10**6, "_ns": 10**9, "message.es": 10**3, "message.ts": 1}


def check_history(plan: Plan, config: Config) -> None:
    """Raise ConfigError for an apply whose feed has no history."""
    rows, names = plan.rows, plan.rows.output.schema.names
    if clash := next((name for name in config.history.columns if name in names), None):
        why = f"its versions have a field {clash}, and so do the records"
        raise error("table.history", why=why, cure=f"create a table with other {setting('history.columns')}")
    if unknown := next((one for one in _tracked_by(config)[0] if one not in names), None):
        why = f"{setting('history.track')} names {unknown}, which is not a field of the records"
        raise error(
            "table.history", why=why, cure=f"create a table with another one; the fields are {', '.join(names)}"
        )
    if plan.operation != "apply":
        why = "an overwrite does not say since when the records that it replaces are gone"
        cure = f"apply a snapshot, with {setting('sync.mode=full')} and {setting('snapshot.as.of')}"
        raise error("table.history", why=why, cure=cure)
    if plan.register.full:
        why = f"{setting('sync.mode=full')} does not say since when the records that the feed lacks are gone"
        raise error("table.history", why=why, cure=f"set {setting('snapshot.as.of')} to the time of the snapshot")
    if MERGES in rows.spec:
        why = f"{setting('field.merge.FIELD')} makes one value of all that a field ever had"
        raise error("table.history", why=why, cure="leave the setting out, or create a table without history")
    if rows.spec.get(PATCHES) == "reject":
        why = f"with {setting('patch.unknown=reject')}, what a patch does depends on when it arrives"
        raise error("table.history", why=why, cure=f"set {setting('patch.unknown')} to wait or insert")
    if is_tuple(rows.order_type) or config.history.valid_from is not None:
        _time_part(config.history, rows.spec["order"])


def _time_part(history: HistorySpec, order: Mapping[str, Any]) -> int | None:
    """Return the part of order values that has the times of versions; None: they are the times. Raises ConfigError."""
    names, order_type = [*map(str, recorded_fields(order))], str(order.get("type", SEQUENCE))
    if history.valid_from is None and not is_tuple(order_type):
        return None
    key, listed = setting("history.valid.from"), ", ".join(names) or "none"
    if history.valid_from not in names:
        why = (
            f"{key} names {history.valid_from}"
            if history.valid_from
            else f"{key} does not say which field has the times"
        )
        raise error("table.history", why=why, cure=f"create a table with one of the order fields: {listed}")
    part = names.index(history.valid_from)
    if not is_tuple(order_type):
        return None
    if parts_of(order_type)[part].descending:
        why = f"{history.valid_from} is in descending order, and {key} names it"
        raise error("table.history", why=why, cure="create a table with a field in ascending order")
    return part


def _tracked_by(config: Config) -> tuple[list[str], bool]:
    """Return the fields that a setting names, and whether all but these are tracked."""
    chosen, known = config.history.tracked, config.rows.text.names
    if chosen is None:
        return [], True
    named = (known[one] if isinstance(one, int) and one < len(known) else one for one in chosen.named)
    return [*map(str, named)], chosen.others


def check_has_history(snapshot: Snapshot, what: str = "versions of records") -> None:
    """Raise ConfigError for a table without history."""
    if not snapshot.has_history:
        raise error("table.history.none", path=snapshot.table, what=what)


def wants_versions(snapshot: Snapshot, valid_at: Any, *, current: bool) -> bool:
    """Return whether a scan is of versions of records. Raises ConfigError for a table that has none, or for both."""
    if valid_at is not None:
        check_has_history(snapshot)
    elif current:
        check_has_history(snapshot, "current records beside others")
    if current and valid_at is not None:
        raise error("argument.both", call="scan", what="current and valid_at are given", cure="give one of them")
    return snapshot.has_history and not current


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
        named, others = _tracked_by(config)
        if config.history.tracked is None:
            named = [*map(str, recorded_fields(spec["order"])), *spec.get(IGNORED, ())]
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
            part=_time_part(config.history, spec["order"]),
        )

    @cached_property
    def _rows(self) -> HistoryRows:
        return HistoryRows(self.snapshot, self.meaning)

    def tables(self, valid_at: Any = None, where: Where = None) -> Iterator[Any]:
        """Return an iterator over all versions as pa.Tables; those of a key are in one of them, oldest first.

        valid_at: only those that hold at that order value, as text or as a Python value. where: as for ``scan_of``.
        """
        if not self._spec:
            return iter(())
        chosen = Filter(conditions_of(where), self.schema, self.snapshot.table)
        return self._tables(chosen, None if valid_at is None else self.order_of(valid_at))

    def _tables(self, chosen: Filter, at: Any) -> Iterator[Any]:
        with reading(self.snapshot):
            extents = [one for role in OF_HISTORY for one in self.snapshot.extents(role)]
            parts = (part for unit in units_of_history(extents) for part in self._of_unit(unit, at))
            yield from ahead(lambda part=part: chosen.of(part()) for part in parts)  # type: ignore[misc]

    def of_key(self, key: Key, valid_at: Any = None, partition: str | None = None) -> Any:
        """Return the versions of the record of a key as a pa.Table, oldest first. valid_at: as for ``tables``."""
        if not self._spec:
            return self.schema.empty_table()
        at = None if valid_at is None else self.order_of(valid_at)
        with reading(self.snapshot):
            records = Finder(self.snapshot).event_places(key, partition)
            found = [self._versions([EventPlace(*one) for one in places], at) for places in records]
            return pa.concat_tables([self.schema.empty_table(), *found])

    def order_of(self, value: Any) -> Any:
        """Return a time that a user gives, as a pa.Scalar of the columns of times. Raises ConfigError."""
        text, order_type = str(value), self.meaning.time_type
        try:
            if self._unit is not None:
                seconds, fraction = order_parser("timestamp")(text.encode())
                return pa.scalar(seconds * self._unit + int(fraction[:9].ljust(9, b"0")) * self._unit // 10**9)
            return to_column(order_type, [order_parser(order_type)(text.encode())])[0]
        except ValueError as fault:
            raise error("table.valid.at", path=self.snapshot.table, value=repr(text), why=str(fault)) from None

    def _of_unit(self, extents: Sequence[LiveExtent], at: Any) -> Iterator[Callable[[], Any]]:
        """Yield functions that return the versions of a bucket, pa.Tables.

        at: those that hold at that order value; None: all.
        """
        closed = [one for one in extents if is_closed(one, self.meaning)]
        others = [one for one in extents if not is_closed(one, self.meaning)]
        hashes = self._rows.hashes(others) if closed else None  # of keys with events that are not closed
        for extent in closed:
            yield partial(self._of_closed, extent, hashes, at)
        if others:
            yield partial(self._of_others, closed, others, hashes, at)

    def _of_closed(self, extent: LiveExtent, hashes: Any, at: Any) -> Any:
        found = self._rows.closed(extent, hashes, at)
        columns = [found.rows.column(name).combine_chunks() for name in self.fields.names]
        return self._shown(columns, found.starts, found.ends, found.endings)

    def _of_others(self, closed: Sequence[LiveExtent], others: Sequence[LiveExtent], hashes: Any, at: Any) -> Any:
        places = [*(self._rows.place_with(one, hashes) for one in closed), *map(self._rows.place_of, others)]
        return self._versions(places, at)

    def _versions(self, places: Sequence[EventPlace], at: Any) -> Any:
        """Return the versions that some events mean, a pa.Table. at: as for ``_of_unit``."""
        found = self.meaning.versions(self._rows.events(places).columns)
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
        own = self._times(starts), self._times(ends), pa.array(endings == OPEN), ended
        return pa.table([*columns, *own[: len(self._config.history.columns)]], schema=self.schema)

    def _times(self, times: Any) -> Any:
        """Return times as they are shown; NULL for the lowest, that of NULL."""
        order_type = self.meaning.time_type
        lowest = pa.array([encoded_lowest(order_type)], times.type)[0]
        times = pc.if_else(pc.equal(times, lowest), pa.scalar(None, times.type), times)
        if self._unit is not None:
            whole, step = self._unit // 10**6, 10**6 // self._unit
            times = pc.divide(times, whole) if whole else pc.multiply(times, step)
            return times.cast(self._time)
        if pa.types.is_integer(times.type) and pa.types.is_integer(self._time):
            return times.cast(self._time)
        known, at = compact(order_type, times.drop_null()), flags(times.is_valid())
        if order_type == "timestamp" and pa.types.is_int64(known.type) and pa.types.is_temporal(self._time):
            found = known.cast(pa.timestamp("us", getattr(self._time, "tz", None))).cast(self._time)
            return placed(found, at) if len(found) else nulls(len(times), self._time)
        return converted(to_texts(order_type, times), self._time, False)[0]


def ahead(steps: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """Yield the results of functions in their order, while threads carry out the next ones: one for each core."""
    cores, waiting = usable_cores(), deque[Future[Any]]()
    with ThreadPoolExecutor(cores) as threads:
        for step in steps:
            waiting.append(threads.submit(step))
            if len(waiting) > cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
