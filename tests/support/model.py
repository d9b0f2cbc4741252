"""The reference model: DESIGN 3.1-3.3 with dicts and lists, slowly and obviously.

The tests compare the engine with it, so nothing here may come from ``mutator``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

Key = tuple[bytes, ...]


class Row(NamedTuple):
    """One row of the master or of the feed, as read."""

    key: Key
    order: Any  # comparable; the sequence, if file names give the order
    sequence: int  # of the file; -1 if it has no sequence
    name: bytes  # base name of the file
    offset: int  # in the uncompressed file
    row: bytes
    is_delete: bool
    written: bytes  # the row as the output would contain it


class Merged(NamedTuple):
    """The result of a run: its rows, tombstones, counts and notes."""

    records: dict[Key, tuple[Any, bytes]]  # key -> order value, row
    tombstones: dict[Key, tuple[Any, int]]  # key -> order value, commit time
    counts: Counter[str]
    notes: dict[str, list[Key]]  # note -> its keys, sorted
    horizon: Any  # highest order value ever expired, or None
    by_file: Counter[tuple[bytes, str]]  # (base name of a feed file, outcome) -> its rows


def last(rows: Iterable[Row]) -> dict[Key, Row]:
    """Return the row of each key that has the highest precedence (3.1)."""
    return {row.key: row for row in sorted(rows, key=lambda r: (r.order, r.sequence, r.name, r.offset, r.row))}


def superseded(feed: list[Row], winners: Mapping[Key, Row]) -> Counter[tuple[bytes, str]]:
    """Return the rows of each file that are no winners."""
    rows = Counter((row.name, "superseded") for row in feed)
    rows.subtract((row.name, "superseded") for row in winners.values())
    return rows


def sum_of_files(by_file: Counter[tuple[bytes, str]]) -> Counter[str]:
    """Return the rows of each outcome."""
    counts = Counter({"feed superseded": 0})
    for (_, outcome), rows in by_file.items():
        counts[f"feed {outcome}"] += rows
    return counts


def met_orders(tombstones: Mapping[Key, tuple[Any, int]], full: bool, absences: Mapping[int, Any]) -> dict[Key, Any]:
    """Return the order value of each tombstone that a feed meets. absences: as in ``merge``."""
    met = tombstones.items()
    return {key: order if full else max(order, absences.get(time, order)) for key, (order, time) in met}


def merge(
    master: list[Row],
    tombstones: Mapping[Key, tuple[Any, int]],
    feed: list[Row],
    *,
    now: int = 0,
    full: bool = False,
    expire_before: int | None = None,
    horizon: Any = None,
    absences: Mapping[int, Any] = MappingProxyType({}),
    inside: Callable[[bytes], bool] = lambda written: True,
) -> Merged:
    """Merge a feed without rejects into a master without rejects.

    absences: the highest order value of each full snapshot before, by its commit time (3.5): a tombstone that it left
    is as high for rows of a delta. inside: whether a full snapshot decides about a record, by its row.
    """
    records: dict[Key, tuple[Any, bytes]] = {}
    buried: dict[Key, tuple[Any, int]] = {}
    counts: Counter[str] = Counter()
    notes: defaultdict[str, list[Key]] = defaultdict(list)
    before, winners = last(master), last(feed)
    counts["master duplicate"] = len(master) - len(before)
    by_file = superseded(feed, winners)
    buried_at = met_orders(tombstones, full, absences)

    for key in sorted({*before, *tombstones, *winners}):
        m, t, w = before.get(key), tombstones.get(key), winners.get(key)
        if w is None or (m and m.order > w.order) or (t and buried_at[key] > w.order):  # the record or tombstone stays
            if w is not None:
                by_file[w.name, "late"] += 1
            if m and w is None and full and inside(m.written):
                buried[key] = (m.order, now)
                counts["master deleted by absence"] += 1
            elif m:
                records[key] = (m.order, m.written)
                counts["master kept"] += 1
            elif t:
                buried[key] = t
        elif w.is_delete:
            # The same delete again does not renew the tombstone, so its commit time stays.
            buried[key] = (w.order, t[1] if t and t[0] == w.order else now)
            by_file[w.name, "deleted" if m else "no-op" if t else "delete of unknown"] += 1
            counts["master removed"] += bool(m)
        else:
            records[key] = (w.order, w.written)
            same = m is not None and m.written == w.written
            by_file[w.name, "no-op" if same else "updated" if m else "inserted"] += 1
            if m:
                counts["master kept" if same else "master replaced"] += 1
            else:
                if t:
                    notes["revived"].append(key)
                if horizon is not None and w.order < horizon:
                    notes["below horizon"].append(key)

        if sum(row.key == key for row in master) > 1:
            notes["duplicate IDs"].append(key)
        if w is None:
            continue
        mine = [row for row in feed if row.key == key]
        top = {(r.is_delete, r.written) for r in mine if (r.order, r.sequence) == (w.order, w.sequence)}
        against_record = m and m.order == w.order and (w.is_delete or m.written != w.written)
        against_tombstone = t and buried_at[key] == w.order and not w.is_delete
        if len(top) > 1 or against_record or against_tombstone:
            notes["tied"].append(key)
        if w.is_delete and not m and not t and not all(row.is_delete for row in mine):
            notes["inserted and deleted"].append(key)

    expired = {key for key, (_, committed) in buried.items() if expire_before is not None and committed < expire_before}
    highest = [order for key, order in met_orders(buried, False, absences).items() if key in expired]
    highest += [] if horizon is None else [horizon]
    left = {key: tombstone for key, tombstone in buried.items() if key not in expired}
    counts["tombstones in"], counts["tombstones out"], counts["expired"] = len(tombstones), len(left), len(expired)
    counts["output rows"] = len(records)
    counts.update(sum_of_files(by_file))
    counts.update({name: len(keys) for name, keys in notes.items()})
    return Merged(records, left, counts, dict(notes), max(highest, default=None), +by_file)
