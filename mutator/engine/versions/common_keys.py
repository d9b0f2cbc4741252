"""The keys that an apply and other versions have in common, and the winners that the apply has for them.

Nothing of the feed is read again: what the apply wrote, and the snapshot that it has seen, have every winner.

    inserted, updated            the row in its own data file
    deleted, delete of unknown   its own tombstone
    touched (no-op)              the row that it met, and the order value in its own version index
    other no-ops                 the row or tombstone that it met, whose order value is that of the winner
    late, superseded, rejected   none: they have no common keys, because nothing that others do changes their outcome
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commits import Commit
from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.versions.checkpoint import file_columns, files_of
from mutator.dataset.versions.key_index import decoded_keys
from mutator.dataset.versions.masks import Masks, index_of, older_rows
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.blocks.mutations import Mutations
from mutator.engine.versions.apart import salts_of
from mutator.engine.versions.apply_task import MIXED, UPSERT, WrittenRows
from mutator.engine.versions.key_search import KeysByBucket
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.old_values import order_values
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.key_moves import no_lows
from mutator.rules.order_columns import from_texts

Place = tuple[str, int]  # path of a file, position of a row
_Part = tuple[Ints, Any, Any]  # numbers of keys, rows or None, order values


@dataclass(frozen=True)
class Keys:
    """Some keys, without order."""

    hashes: Hashes  # as in ``Written.hashes``
    encoded: Any
    partitions: list[str | None]  # directories within which the keys are unique; None: in the table

    def __len__(self) -> int:
        return len(self.hashes)

    def places(self) -> list[tuple[str | None, bytes]]:
        """Return what identifies each key."""
        return list(zip(self.partitions, self.encoded.to_pylist(), strict=True))

    def chosen(self, rows: Any) -> Keys:
        """Return some of the keys. rows: their numbers."""
        rows = np.asarray(rows, np.int64)
        return Keys(
            self.hashes[rows], self.encoded.take(pa.array(rows, pa.int64())), [self.partitions[n] for n in rows]
        )


@dataclass(frozen=True)
class OwnHashes:
    """The hashes of the keys of an apply, ascending, and facts about their winners."""

    hashes: Hashes
    facts: Any

    @classmethod
    def of(cls, written: Sequence[WrittenRows]) -> OwnHashes | None:
        """Return those of all tasks; None if some are not known."""
        known = [(one.hashes, one.facts) for one in written if one.hashes is not None]
        if len(known) < len(written):
            return None
        hashes = np.frombuffer(b"".join(one for one, _ in known), np.uint64)
        order = np.argsort(hashes)
        return cls(hashes[order], np.frombuffer(b"".join(one for _, one in known), np.uint8)[order])

    def among(self, hashes: Hashes) -> Flags:
        """Return which hashes are among them."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.bool_)
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        found: Flags = self.hashes[at] == hashes
        return found

    def facts_of(self, hashes: Hashes) -> Any:
        """Return the facts about the winners of some hashes, which are among them; None if two keys share a hash."""
        at, end = np.searchsorted(self.hashes, hashes, "left"), np.searchsorted(self.hashes, hashes, "right")
        return None if (end - at > 1).any() else self.facts[at]


def common_keys(plan: Reading, own: OwnHashes, live: LiveRows, versions: Sequence[Commit]) -> Keys:
    """Return the keys whose records or tombstones some versions changed, and whose hashes an apply has.

    live: of a snapshot that has the versions.
    """
    parts = [part for version in versions for part in _in_files(plan, own, live, version)]
    if plan.keeps_orders:  # else each row of the version index has a row or a tombstone of its key beside it
        parts += [part for version in versions for part in _touched(plan, own, live, version)]
    whole = Keys(
        np.concatenate([np.zeros(0, np.uint64), *(part.hashes for part in parts)]),
        pa.concat_arrays([pa.array([], pa.large_binary()), *(part.encoded for part in parts)]),
        [name for part in parts for name in part.partitions],
    )
    return whole.chosen(list({place: number for number, place in enumerate(whole.places())}.values()))


def _in_files(plan: Reading, own: OwnHashes, live: LiveRows, version: Commit) -> Iterator[Keys]:
    """Yield the keys of the files that a version added."""
    for file in version.files:
        hashes = live.hashes(file)
        names = _partitions(plan, file, np.arange(file.rows))
        hashes = hashes if names is None else hashes ^ _salts(names)
        entries = np.flatnonzero(own.among(hashes))
        if len(entries):
            yield _keys(hashes[entries], live.entry_keys(file, entries), names, entries)


def _touched(plan: Reading, own: OwnHashes, live: LiveRows, version: Commit) -> Iterator[Keys]:
    """Yield the keys of the rows that a version touched."""
    columns = live.snapshot.files
    for part in older_rows(live.snapshot.table, index_of(version)):
        for path in part.files:
            positions, _ = part.touched(path)
            if not len(positions):
                continue
            (file,) = files_of(columns, np.flatnonzero(pc.equal(columns.column("path"), path).to_numpy()))
            entries = live.entry_numbers(file)[positions]
            hashes, names = live.hashes(file)[entries], _partitions(plan, file, positions)
            hashes = hashes if names is None else hashes ^ _salts(names)
            rows = np.flatnonzero(own.among(hashes))
            if len(rows):
                yield _keys(hashes[rows], live.entry_keys(file, entries[rows]), names, rows)


def _keys(hashes: Hashes, encoded: Any, names: Any, rows: Ints) -> Keys:
    partitions = [None] * len(rows) if names is None else names.take(pa.array(rows)).to_pylist()
    return Keys(hashes, encoded, partitions)


def _partitions(plan: Reading, file: FileEntry, positions: Ints) -> Any:
    """Return the partition of some rows of a file, a pa.DictionaryArray; None where it is not part of the key.

    The entries of an extent in the key index are at the same numbers as its rows.
    """
    if not plan.rows.partitioning.by_partition:
        return None
    ends = np.cumsum([one.rows for one in file.extents])
    names = pa.array([one.partition for one in file.extents], pa.string())
    codes = pa.array(np.searchsorted(ends, positions, "right").astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, names)


def _salts(names: Any) -> Hashes:
    """Return the salt of each row. names: a pa.DictionaryArray."""
    found: Hashes = salts_of(names.dictionary)[names.indices.to_numpy()]
    return found


@dataclass(frozen=True)
class Rebuilt:
    """Winners of an apply, and where it wrote their rows and tombstones."""

    found: Mutations
    places: dict[tuple[str, int], Place]  # role, number of a winner -> its row or tombstone


@dataclass(frozen=True)
class _Rows:
    """Live rows of one file that have some keys, by position."""

    file: FileEntry
    numbers: Ints  # of the keys
    entries: Ints  # of the key index
    positions: Ints
    partitions: list[str | None]

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        """Return the rows of several extents, which follow each other."""
        numbers, entries, positions = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("numbers", "entries", "positions")
        )
        return cls(parts[0].file, numbers, entries, positions, [name for part in parts for name in part.partitions])


class Rebuilder:
    """Makes the winners of an apply again."""

    def __init__(self, plan: Reading, base: LiveRows, own: OwnHashes, version: Commit) -> None:
        """Read nothing yet. base: the snapshot that the apply has seen. version: that it would have become."""
        snapshot = base.snapshot
        files, masks = file_columns(version.files, version.number), Masks(snapshot.table)
        self._plan, self._base, self.hashes = plan, base, own
        self._own = base.at(Snapshot(snapshot.table, snapshot.state, files, masks))
        self._masks = masks.after(version)  # of older files, in which they are seldom needed

    def winners(self, keys: Keys) -> Rebuilt | None:
        """Return the winners of those keys that the apply has; None if two keys of it share a hash."""
        facts = self.hashes.facts_of(keys.hashes)
        if facts is None:
            return None
        places, parts = dict[tuple[str, int], Place](), list[_Part]()
        partitions, deletes = list(keys.partitions), np.zeros(len(keys), np.bool_)
        left = np.ones(len(keys), np.bool_)
        for live in (self._own, self._base):
            for role in (DATA, TOMBSTONES):
                for rows in self._rows(live, role, keys, np.flatnonzero(left)):
                    left[rows.numbers], deletes[rows.numbers] = False, role == TOMBSTONES
                    parts.append((rows.numbers, *self._values(live, role, rows)))
                    for number, name, position in zip(
                        rows.numbers.tolist(), rows.partitions, rows.positions.tolist(), strict=True
                    ):
                        partitions[number] = name if role == DATA else partitions[number]
                        if live is self._own:
                            places[role, number] = rows.file.path, position
        # A key that is left has the hash of one of the apply, and is another key.
        order = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)])
        numbered = {number: at for at, number in enumerate(order.tolist())}
        places = {(role, numbered[number]): place for (role, number), place in places.items()}
        return Rebuilt(self._mutations(keys.chosen(order), facts[order], deletes[order], parts, partitions), places)

    def _rows(self, live: LiveRows, role: str, keys: Keys, left: Ints) -> Iterator[_Rows]:
        """Yield the live rows that have some keys, file by file. left: numbers of the keys."""
        by_partition = self._plan.rows.partitioning.by_partition
        hashes = keys.hashes
        if by_partition:
            hashes = hashes ^ salts_of(pa.array(keys.partitions, pa.string()))
        names = [keys.partitions[number] if by_partition else None for number in left.tolist()]
        scopes = {name: scope for scope, name in enumerate(dict.fromkeys(names))}
        wanted = KeysByBucket(hashes[left], np.array([scopes[name] for name in names], np.int64))
        partitions = set(map(str, scopes)) if by_partition else None
        extents = live.snapshot.extents(role, wanted.buckets, partitions)
        for _, of_file in groupby(extents, lambda one: one.file.path):
            found = []
            for extent in of_file:
                name = extent.extent.partition
                own = left[wanted.of(scopes[name if by_partition else None], extent.extent)[0]]
                numbers, entries, positions = live.find(extent, hashes[own], keys.encoded.take(pa.array(own)))
                order = np.argsort(positions)
                names = [name] * len(order)
                found.append(_Rows(extent.file, own[numbers][order], entries[order], positions[order], names))
            if any(len(rows.numbers) for rows in found):
                yield _Rows.joined(found)

    def _values(self, live: LiveRows, role: str, rows: _Rows) -> tuple[Any, Any]:
        """Return the rows and the order values of the winners that have some live rows; no rows of tombstones."""
        plan, order_type, file = self._plan, self._plan.rows.order_type, rows.file
        orders = order_values(plan, live, file, rows.entries, rows.positions)
        if plan.keeps_orders and live is self._base:
            touched, texts = self._masks.touched(file.path)
            newer = dict(zip(touched.tolist(), from_texts(order_type, texts).to_pylist(), strict=True))
            known = zip(rows.positions.tolist(), orders.to_pylist(), strict=True)
            orders = pa.array([newer.get(position, order) for position, order in known], orders.type)
        if role == TOMBSTONES:
            return None, orders
        return live.rows(file, rows.positions, rows.entries, plan.rows.layouts["master"]).written(), orders

    def _mutations(
        self, keys: Keys, facts: Any, deletes: Flags, parts: Sequence[_Part], partitions: Sequence[str | None]
    ) -> Mutations:
        plan, count = self._plan, len(keys)
        row_type = plan.rows.layouts["master"].row_type
        rows = [pa.nulls(len(numbers), row_type) if one is None else one for numbers, one, _ in parts]
        written = pa.concat_arrays([pa.array([], row_type), *(one.cast(row_type) for one in rows)])
        order_type = from_texts(plan.rows.order_type, pa.array([], pa.large_binary())).type
        none = np.zeros(count, np.int64)
        names = pa.array([partitions[number] for part in parts for number in part[0].tolist()], pa.string())
        hashes = keys.hashes
        if plan.rows.partitioning.by_partition:
            hashes = hashes ^ salts_of(names)
        return Mutations(
            hashes=hashes,
            keys=tuple(decoded_keys(keys.encoded, plan.key_width)),
            orders=pa.concat_arrays([pa.array([], order_type), *(part[2] for part in parts)]),
            inputs=none,
            offsets=none,
            deletes=deletes,
            unset=pa.nulls(count),
            rows=written,
            written=written,
            counts=np.ones(count, np.int64),  # what they supersede was counted
            mixed=(facts & MIXED).astype(np.bool_),
            upserts=(facts & UPSERT).astype(np.bool_),
            moves=none,
            directories=names.dictionary_encode(),
            lows=no_lows(count, None),  # where they moved was noted
        )
