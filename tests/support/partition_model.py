"""The reference model of partitioned masters: the directory of each row, and the merge of each partition.

``tests.support.model`` decides about a record, over the whole table or within its partition; this model only adds the
directory of the resulting record. It must not import anything from ``mutator``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.support.model import Key, Merged, Row, last, merge, met_orders

__all__ = ["NOWHERE", "Field", "Partitioned", "directory_of", "merge_partitions", "merge_table", "scoped"]

NOWHERE = ""  # the directory of a tombstone whose record never had one
NULL = "__HIVE_DEFAULT_PARTITION__"
ESCAPED = frozenset("\x7f\"#%'*/:=?\\{[]^") | {chr(number) for number in range(32)}


class Field(NamedTuple):
    """One level of directories."""

    name: str
    column: str
    how: str = ""  # nothing, date, year, month, prefix or bucket
    argument: Any = None

    def text(self, ordinal: int) -> str:
        """Return the field in the form of ``partitioned.by``."""
        argument = "" if self.argument is None else f",{self.argument}"
        return f"{self.name}={self.how}({ordinal}{argument})" if self.how else f"{self.name}={ordinal}"


def directory_of(fields: Iterable[Field], values: Iterable[bytes | None]) -> str | None:
    """Return the directory of a row, given the value of each field, or None if it has no directory."""
    levels = []
    for field, value in zip(fields, values, strict=True):
        found = partition_value(field, value) if value else b""
        level = f"{field.name}={escaped(found) or NULL}" if found is not None else "x" * 999
        if len(level.encode()) > 255:
            return None
        levels.append(level)
    return "/".join(levels)


def escaped(value: bytes) -> str:
    return "".join(
        f"%{char.encode('utf-8', 'surrogateescape')[0]:02X}"
        if char in ESCAPED or "\udc80" <= char <= "\udcff"
        else char
        for char in value.decode("utf-8", "surrogateescape")
    )


def partition_value(field: Field, value: bytes) -> bytes | None:
    """Return the partition value of a field's value, or None if it has none."""
    if field.how == "prefix":
        return value.decode("utf-8", "surrogateescape")[: field.argument].encode("utf-8", "surrogateescape")
    if field.how == "bucket":
        return b"%d" % (murmur64a(value) % field.argument)
    if field.how:
        try:
            day = datetime.fromisoformat(value.decode())
        except ValueError:
            return None
        day = day.replace(tzinfo=UTC) if day.tzinfo is None else day.astimezone(UTC)
        return day.strftime({"date": "%Y-%m-%d", "year": "%Y", "month": "%m"}[field.how]).encode()
    return value


def murmur64a(data: bytes) -> int:
    """Hash as Austin Appleby published it, with seed 0."""
    m, most = 0xC6A4A7935BD1E995, 2**64
    h = len(data) * m % most
    while len(data) >= 8:
        k = int.from_bytes(data[:8], "little") * m % most
        h = (h ^ (k ^ k >> 47) * m % most) * m % most
        data = data[8:]
    if data:
        h = (h ^ int.from_bytes(data, "little")) * m % most
    h = (h ^ h >> 47) * m % most
    return h ^ h >> 47


class Partitioned(NamedTuple):
    """The result of a run: the merged table, the directory of each record, and counts of each touched partition."""

    merged: Merged
    places: dict[Key, str]  # of records and of tombstones
    touched: dict[str, Counter[str]]


Place = Callable[[Row], str]


def scoped(row: Row, directory: str) -> Row:
    """Return a row whose ID begins with its partition, which makes the ID unique in the table."""
    return row._replace(key=(directory.encode(), *row.key))


def merge_table(
    master: list[Row],
    tombstones: Mapping[Key, tuple[Any, int]],
    feed: list[Row],
    place: Place,
    graves: Mapping[Key, str] | None,
    *,
    full: bool = False,
    expire_before: int | None = None,
    **options: Any,
) -> Partitioned:
    """Merge when a record ID is unique in the whole table.

    graves: the directory of each tombstone; None for a master without partitions, which is read whole.
    """
    merged = merge(master, tombstones, feed, full=full, **options)
    before_rows, winners = last(master), last(feed)
    buried_at = met_orders(tombstones, full, options.get("absences", {}))
    homes = {key: place(row) for key, row in before_rows.items()}
    homes |= graves or dict.fromkeys(tombstones, NOWHERE)
    places = {key: homes.get(key, NOWHERE) for key in merged.tombstones}
    places |= {key: homes[key] for key in merged.records if key in homes}
    touched: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for key, w in winners.items():
        m, t = before_rows.get(key), tombstones.get(key)
        if (m and m.order > w.order) or (t and buried_at[key] > w.order):
            touched[homes[key]]  # it is compared there, and late
        elif w.is_delete:
            touched[homes.get(key, NOWHERE)]["deleted"] += m is not None
        else:
            new = places[key] = place(w)
            if key in homes:
                touched[homes[key]]["moved out"] += m is not None and homes[key] != new
            touched[new]["moved in"] += m is not None and homes[key] != new
            touched[new]["inserted"] += m is None
            touched[new]["updated"] += m is not None and m.written != w.written
    if full:
        for key in (before_rows.keys() | tombstones.keys()) - winners.keys():
            touched[homes[key]]["deleted by absence"] += key in before_rows
    if graves is None:  # every file is written again, and old tombstones name no partition
        places |= dict.fromkeys(merged.tombstones, NOWHERE)
        touched.clear()
        for directory in places.values():  # and the report counts the rows of every partition
            touched[directory]
    before = Counter(homes[key] for key in before_rows) if graves is not None else Counter()
    return summed(merged, places, touched, before, expire_before, options.get("horizon"), options.get("absences", {}))


def merge_partitions(
    master: list[Row],
    tombstones: Mapping[Key, tuple[Any, int]],
    feed: list[Row],
    *,
    managed: bool,
    full: bool = False,
    expire_before: int | None = None,
    **options: Any,
) -> Partitioned:
    """Merge when a record ID is unique within its partition. All IDs begin with the partition's directory."""
    merged = merge(master, tombstones, feed, full=full, **options)
    before_rows, winners = last(master), last(feed)
    buried_at = met_orders(tombstones, full, options.get("absences", {}))
    places = {key: key[0].decode() for key in (*merged.records, *merged.tombstones)}
    touched: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for key, w in winners.items():
        m, t, n = before_rows.get(key), tombstones.get(key), touched[key[0].decode()]
        if (m and m.order > w.order) or (t and buried_at[key] > w.order):
            continue
        n["deleted"] += w.is_delete and m is not None
        n["inserted"] += not w.is_delete and m is None
        n["updated"] += not w.is_delete and m is not None and m.written != w.written
    if full or not managed:
        for key in before_rows.keys() | tombstones.keys():
            touched[key[0].decode()]["deleted by absence"] += full and key in before_rows and key not in winners
    before = Counter(key[0].decode() for key in before_rows)
    merged.notes.update({note: sorted(key[1:] for key in keys) for note, keys in merged.notes.items()})
    return summed(merged, places, touched, before, expire_before, options.get("horizon"), options.get("absences", {}))


def summed(
    merged: Merged,
    places: dict[Key, str],
    touched: dict[str, Counter[str]],
    before: Counter[str],
    expire_before: int | None,
    horizon: Any,
    absences: Mapping[int, Any] = MappingProxyType({}),
) -> Partitioned:
    """Expire old tombstones in touched partitions only; count the rows of these partitions."""
    expired = {
        key: order
        for key, order in met_orders(merged.tombstones, False, absences).items()
        if expire_before is not None and merged.tombstones[key][1] < expire_before and places[key] in touched
    }
    left = {key: tombstone for key, tombstone in merged.tombstones.items() if key not in expired}
    counts = merged.counts + Counter({"expired": len(expired)})
    counts["expired"], counts["tombstones out"] = len(expired), len(left)
    highest = max([*expired.values(), *([] if horizon is None else [horizon])], default=None)
    after = Counter(places[key] for key in merged.records)
    for directory, n in touched.items():
        n["before"], n["rows"] = before[directory], after[directory]
    kept: Sequence[Key] = [*merged.records, *left]
    merged = merged._replace(tombstones=left, counts=counts, horizon=highest)
    return Partitioned(merged, {key: places[key] for key in kept}, dict(touched))
