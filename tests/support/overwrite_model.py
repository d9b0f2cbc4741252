"""The reference model of insert overwrites: DESIGN 13 with dicts, slowly and obviously.

It must not import anything from ``mutator``. A dataset without partitions has one directory, NOWHERE.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.model import Key, Merged, Row, last, sum_of_files, superseded
from tests.support.partition_model import NOWHERE, Partitioned, summed

# The directory of a row, or None for a delete whose row does not say where its record is.
Own = Callable[[Row], str | None]


def replaced_by(feed: list[Row], own: Own) -> set[str]:
    """Return the partitions that a feed replaces: those of its winners, upserts and deletes alike."""
    return {directory for row in last(feed).values() if (directory := own(row)) is not None}


def overwrite(
    master: list[Row],
    tombstones: Mapping[Key, tuple[Any, int]],
    feed: list[Row],
    own: Own,
    graves: Mapping[Key, str],
    *,
    everything: bool = False,
    by_partition: bool = False,
    now: int = 0,
    expire_before: int | None = None,
    horizon: Any = None,
) -> Partitioned:
    """Replace partitions by the rows of a feed without rejects.

    graves: the directory of each tombstone. everything: as ``insert_overwrite_table`` does. by_partition: an ID is
    unique only within its partition, and all IDs begin with the directory.
    """
    before, winners, replaced = last(master), last(feed), replaced_by(feed, own)
    homes = {key: own(row) or NOWHERE for key, row in before.items()} | dict(graves)
    if everything:
        replaced = set(homes.values())
    records: dict[Key, tuple[Any, bytes]] = {}
    buried: dict[Key, tuple[Any, int]] = {}
    places: dict[Key, str] = {}
    counts: Counter[str] = Counter()
    notes: defaultdict[str, list[Key]] = defaultdict(list)
    touched: defaultdict[str, Counter[str]] = defaultdict(Counter, {directory: Counter() for directory in replaced})
    counts["master duplicate"] = len(master) - len(before)
    by_file = superseded(feed, winners)
    for key in sorted({*before, *tombstones, *winners}):
        m, t, w = before.get(key), tombstones.get(key), winners.get(key)
        home = homes.get(key, own(w) or NOWHERE if w and by_partition else NOWHERE)
        # A tombstone without a partition is in no partition that is kept, so it keeps out no row.
        inside = everything or home in replaced or (t is not None and home == NOWHERE)
        old = m.order if m else t[0] if t else None
        older = w is not None and old is not None and old > w.order
        here = touched[home] if w is not None and (m or t) else Counter()
        places[key] = home
        if w is None or (older and not inside):
            if w is not None:
                by_file[w.name, "late"] += 1
            if m and w is None and inside:
                buried[key] = (m.order, now)
                counts["master deleted by absence"] += 1
                touched[home]["deleted by absence"] += 1
            elif m:
                records[key] = (m.order, m.written)
                counts["master kept"] += 1
            elif t:
                buried[key] = t
        elif w.is_delete:
            order = old if older else w.order
            buried[key] = (order, t[1] if t and t[0] == order else now)
            by_file[w.name, "deleted" if m else "no-op" if t else "delete of unknown"] += 1
            counts["master removed"] += bool(m)
            touched[home]["deleted"] += bool(m)
        else:
            new = own(w) or NOWHERE
            same = m is not None and m.written == w.written
            records[key], places[key] = (w.order, w.written), new
            by_file[w.name, "no-op" if same else "updated" if m else "inserted"] += 1
            if m:
                counts["master kept" if same else "master replaced"] += 1
            elif t:
                notes["revived"].append(key)
            here["moved out"] += m is not None and home != new
            touched[new]["moved in"] += m is not None and home != new
            touched[new]["inserted"] += m is None
            touched[new]["updated"] += m is not None and not same
            if not m and horizon is not None and w.order < horizon:
                notes["below horizon"].append(key)
        note(notes, key, [row for row in master if row.key == key], [row for row in feed if row.key == key], m, t, w)
    counts["tombstones in"] = len(tombstones)
    counts.update(sum_of_files(by_file))
    counts.update({name: len(keys) for name, keys in notes.items()})
    if by_partition:
        notes.update({name: sorted(key[1:] for key in keys) for name, keys in notes.items()})
    places = {key: place for key, place in places.items() if key in records or key in buried}
    merged = Merged(records, buried, counts, dict(notes), horizon, +by_file)
    sizes = Counter(homes[key] for key in before)
    found = summed(merged, places, dict(touched), sizes, expire_before, horizon)
    found.merged.counts["output rows"] = len(records)
    return found


def note(
    notes: defaultdict[str, list[Key]],
    key: Key,
    rows: list[Row],
    mine: list[Row],
    m: Row | None,
    t: tuple[Any, int] | None,
    w: Row | None,
) -> None:
    """Note what ``model.merge`` notes, whatever became of the key."""
    if len(rows) > 1:
        notes["duplicate IDs"].append(key)
    if w is None:
        return
    top = {(row.is_delete, row.written) for row in mine if (row.order, row.sequence) == (w.order, w.sequence)}
    against_record = m and m.order == w.order and (w.is_delete or m.written != w.written)
    against_tombstone = t and t[0] == w.order and not w.is_delete
    if len(top) > 1 or against_record or against_tombstone:
        notes["tied"].append(key)
    if w.is_delete and not m and not t and not all(row.is_delete for row in mine):
        notes["inserted and deleted"].append(key)
