"""Explain what held at a time: the version of a record in the history of a table, and the mutations that made it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions.history_rows import EventPlace, holding
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
    """Return what held of a key at a time: a version of each record that it had, or why there was none.

    Raises ConfigError for a table without history, and for another value than a time.
    """
    history = History(snapshot)
    at = history.order_of(valid_at)
    with reading(snapshot):
        places = Finder(snapshot).event_places(key)
        events = [history.rows.events([EventPlace(*one) for one in own]).columns for own in places]
        return [_of_record(history, one, str(valid_at), at, plan) for one in events]


def _of_record(history: History, events: EventColumns, text: str, at: Any, plan: Reading) -> ValidVersion:
    meaning = history.meaning
    shown = meaning.versions(events)
    raw = versions_of(events, meaning.tracked, meaning.unknown, meaning.truncates)
    times = events.orders if meaning.part is None else part_column(meaning.order_type, events.orders, meaning.part)
    seen = np.flatnonzero(flags(pc.less_equal(times, at)))

    def order(number: int) -> Any:
        return to_value(meaning.order_type, events.orders[number].as_py())

    held = np.flatnonzero(holding(shown.starts, shown.ends, at))
    if not len(held):
        last = None if not len(seen) else order(int(seen[-1]))
        return ValidVersion(text, decisive=last, is_delete=bool(len(seen) and events.deletes[seen[-1]]))
    own = pa.array(held[-1:])
    fields = [shown.field(number).take(own) for number in range(len(meaning.fields))]
    row = plan.block_type.shown(rows := pa.StructArray.from_arrays(fields, fields=list(meaning.fields)), rows, {})[0]
    since, until = (history.times(column.take(own))[0] for column in (shown.starts, shown.ends))
    start, end = (column.take(own) for column in (raw.starts, raw.ends))
    inside = [number for number in seen.tolist() if pc.greater_equal(events.orders[number], start[0]).as_py()]
    return ValidVersion(
        text,
        since=str(since) if since.is_valid else None,
        until=str(until) if until.is_valid else None,
        ended=ENDINGS[shown.endings[held[-1]]],
        row=row,
        began=to_value(meaning.order_type, start[0].as_py()),
        decisive=order(inside[-1]) if inside else None,
        end=to_value(meaning.order_type, end[0].as_py()) if end[0].is_valid else None,
    )
