"""Explain the version of a record that held at a time, in the history of a table, by the mutations that made it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions.history_rows import EventPlace, holding
from mutator.formats.values.scalar_text import exact_text
from mutator.pipeline.explain.answer import ValidVersion
from mutator.pipeline.explain.key import Key
from mutator.plan.reading import Reading
from mutator.rules.history import ENDINGS, EventColumns, versions_of
from mutator.rules.order_columns import flags, to_value
from mutator.rules.order_tuples import part_column
from mutator.table.find import Finder
from mutator.table.history import History
from mutator.table.outlived import reading


def valid_versions(snapshot: Snapshot, key: Key, valid_at: Any, plan: Reading) -> list[ValidVersion]:
    """Return the versions that held at a time, one of each record of a key, or why there was none.

    Raises ConfigError for a table without history, and for another value than a time.
    """
    history = History(snapshot)
    at = history.order_of(valid_at)
    with reading(snapshot):
        found = []
        for partition, places in Finder(snapshot).event_places(key).items():
            events = history.rows.events([EventPlace(*one) for one in places], whole=True).columns
            found.append(_of_record(history, events, ValidVersion(str(valid_at), partition), at, plan))
        return found


def _of_record(history: History, events: EventColumns, nothing: ValidVersion, at: Any, plan: Reading) -> ValidVersion:
    """Return the version that held, or why there was none. nothing: as there is before the first event."""
    meaning = history.meaning
    raw = versions_of(events, meaning.tracked, meaning.unknown, meaning.truncates)
    shown, numbers = meaning.shown(raw)
    times = events.orders if meaning.part is None else part_column(meaning.order_type, events.orders, meaning.part)
    seen = flags(pc.less_equal(times, at))

    def order(orders: Any, number: int) -> Any:
        return to_value(meaning.order_type, orders[number].as_py()) if orders[number].is_valid else None

    held = np.flatnonzero(holding(shown.starts, shown.ends, at))
    if not len(held):
        over = np.flatnonzero(flags(pc.fill_null(pc.less_equal(shown.ends, at), False)))
        if len(over):  # the last version up to the time
            number = int(numbers[over[-1]])
            return replace(nothing, decisive=order(raw.ends, number), ended=ENDINGS[raw.endings[number]])
        last = np.flatnonzero(seen)
        return replace(nothing, decisive=order(events.orders, int(last[-1]))) if len(last) else nothing
    number, own = int(numbers[held[-1]]), pa.array(held[-1:])
    fields = [shown.field(one).take(own) for one in range(len(meaning.fields))]
    rows = pa.StructArray.from_arrays(fields, fields=list(meaning.fields))
    since, until = (exact_text(history.times(column.take(own)))[0].as_py() for column in (shown.starts, shown.ends))
    inside = seen & flags(pc.greater_equal(events.orders, raw.starts[number]))
    if raw.ends[number].is_valid:
        inside &= flags(pc.less(events.orders, raw.ends[number]))
    last = np.flatnonzero(inside)
    return replace(
        nothing,
        since=None if since is None else since.decode(),
        until=None if until is None else until.decode(),
        ended=ENDINGS[raw.endings[number]],
        row=plan.block_type.shown(rows, rows, {})[0],
        began=order(raw.starts, number),
        decisive=order(events.orders, int(last[-1])) if len(last) else None,
        end=order(raw.ends, number),
    )
