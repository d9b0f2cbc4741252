"""Decide again about the keys that an apply and faster writers have in common.

The winners of these keys meet the snapshot that the apply has seen once more, and then the one that it follows. What
differs is what its version gets: counts, rows, tombstones, hidden and touched rows. A row or tombstone that both
decisions have stays where the apply wrote it; one that only the first has is withdrawn. So the second decision takes
time in proportion to the common keys, however large the apply is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.checksum import whole
from mutator.dataset.commits import OVERWRITES, Commit
from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry, stored_here
from mutator.dataset.versions.hidden_rows import SCHEMA, index_table, written_index
from mutator.dataset.versions.log import DIRECTORY
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.blocks.mutations import Mutations, joined_mutations
from mutator.engine.blocks.winners import Winners
from mutator.engine.receipts import Key, MergeReceipt, Receipts
from mutator.engine.tally import Tally
from mutator.engine.task_files import file_name
from mutator.engine.versions.apply_task import WrittenRows
from mutator.engine.versions.common_keys import OwnHashes, Place, Rebuilder, Rebuilt, common_keys
from mutator.engine.versions.decided_rows import DecidedRows, write
from mutator.engine.versions.delta_files import ApplyTarget, DeltaWriter
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.meeting import Meeting
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.run_plan import Plan
from mutator.rules.order_columns import to_texts

# Common keys that one process decides about: more would take it longer than the tasks of a new start, which share them.
_MOST = 1 << 16
_ROLES = (DATA, TOMBSTONES)
_Decisions = dict[str, dict[int, str | None]]  # role -> number of a winner -> partition of its row or tombstone


@dataclass(frozen=True)
class Revision:
    """What the second decisions of an apply change in its version; by default nothing."""

    files: tuple[FileEntry, ...] = ()
    index: tuple[FileEntry, ...] = ()
    withdrawn: tuple[FileEntry, ...] = ()
    counts: MergeReceipt | None = None  # to be added to those of the tasks
    keys: frozenset[Key] = frozenset()  # that were decided again

    def version(self, first: Commit) -> Commit:
        """Return a version with the changes. first: as it was decided first."""
        return replace(
            first,
            files=(*first.files, *self.files),
            index=(*first.index, *self.index),
            withdrawn=self.withdrawn,
        )

    def stored(self) -> Iterator[FileEntry]:
        """Yield the files that it adds."""
        for file in self.files:
            yield from file.stored()
        yield from (*self.index, *self.withdrawn)

    def receipts(self, first: Receipts) -> Receipts:
        """Return receipts with the changed counts. A remark has no sample of a key that was decided again."""
        if self.counts is None:
            return first
        merges = (replace(one, samples=self._others(one)) for one in first.merges)
        return replace(first, merges=(*merges, self.counts))

    def _others(self, receipt: MergeReceipt) -> dict[str, Sequence[Key]]:
        found = {name: [key for key in keys if key not in self.keys] for name, keys in receipt.samples.items()}
        return {name: keys for name, keys in found.items() if keys}


class SecondDecisions:
    """The keys of an apply that other versions changed since it began."""

    def __init__(
        self, plan: Plan, base: Snapshot, target: ApplyTarget, written: Sequence[WrittenRows], version: Commit
    ) -> None:
        """Read nothing yet. base: the snapshot that the apply has seen. version: that it would have become."""
        self._plan, self._target, self._written = plan, replace(target, inline=True), written
        self._base, self._version = LiveRows(base), version
        self._rebuilder: Rebuilder | None = None
        self._known = set[tuple[str | None, bytes]]()  # common keys so far
        self._found: list[Mutations] = []  # their winners
        self._places = dict[tuple[str, int], Place]()
        self._counts = Counter[str]()  # of the first decisions
        self._first: _Decisions = {role: {} for role in _ROLES}
        self._indexed = SCHEMA.empty_table()
        self._rounds = 0

    def revised(self, head: Snapshot, versions: Sequence[Commit]) -> Revision | None:
        """Return what the version of the apply must change in order to follow a snapshot; None if it must start over.

        versions: those of the snapshot that were not there in the last call.
        """
        live = self._base.at(head)
        if not self._take(live, versions):
            return None
        if not self._known:
            return Revision()
        self._rounds += 1
        self._found = [joined_mutations(self._found)]
        return self._decided(live, self._found[0])

    def _take(self, live: LiveRows, versions: Sequence[Commit]) -> bool:
        """Take the common keys of some versions; return whether the apply can decide about them again."""
        if not any(version.files or version.index for version in versions):
            return True
        if self._plan.truncates:
            return False  # it concerns all keys of those versions
        if self._rebuilder is None:
            hashes = OwnHashes.of(self._written)
            if hashes is None:
                return False
            self._rebuilder = Rebuilder(self._plan, self._base, hashes, self._version)
        keys = common_keys(self._plan, self._rebuilder.hashes, live, versions)
        keys = keys.chosen([number for number, place in enumerate(keys.places()) if place not in self._known])
        if len(self._known) + len(keys) > _MOST:
            return False
        register = self._plan.register
        if len(keys) and (register.reads_rows or register.by_order or not register.leaves_one):
            return False  # a written row may be made of an old one or of several mutations; a key may have several
        if len(keys) and self._plan.operation in OVERWRITES:
            return False  # ``self._target`` does not have the partitions that it replaces, so it starts over
        if len(keys):
            rebuilt = self._rebuilder.winners(keys)
            if rebuilt is None:
                return False
            self._known |= set(keys.places())
            self._decide_first(rebuilt)
        return True

    def _decide_first(self, rebuilt: Rebuilt) -> None:
        """Decide as the tasks did, so as to know what they counted and hid."""
        start, tally = sum(map(len, self._found)), Tally()
        decided, decisions = self._meet(self._base, rebuilt.found, tally)
        for role in _ROLES:
            if decisions[role].keys() != {number for one, number in rebuilt.places if one == role}:
                raise AssertionError("an apply decides otherwise than before")
            self._first[role] |= {start + number: name for number, name in decisions[role].items()}
        self._places |= {(role, start + number): place for (role, number), place in rebuilt.places.items()}
        self._counts.update(tally.counts)
        self._indexed = _joined([self._indexed, *decided.index])
        self._found.append(rebuilt.found)

    def _decided(self, live: LiveRows, found: Mutations) -> Revision | None:
        tally = Tally()
        decided, second = self._meet(live, found, tally)
        if tally.counts["feed rejected"]:
            return None  # where the rows are in the feed is not known any more
        writer = DeltaWriter(self._plan, self._target, self._plan.groups, self._rounds)
        write(self._plan, found, self._new(decided, second), writer)
        indexed = _joined(decided.index)
        withdrawn = [*self._withdrawn(found, decided, second), _without(self._indexed, indexed)]
        counts = Counter(tally.counts)
        counts.subtract(self._counts)
        for role, name in ((DATA, "rows written"), (TOMBSTONES, "tombstones written")):
            counts[name] += len(second[role]) - len(self._first[role])
        keys = zip(*(column.to_pylist() for column in found.keys), strict=True)
        return Revision(
            tuple(writer.files),
            self._stored("hidden", [_without(indexed, self._indexed)]),
            self._stored("withdrawn", withdrawn),
            # The files of these winners are not known any more: an apply keeps hashes of its keys, no more.
            replace(tally.receipt(), counts=dict(counts), won=None),
            frozenset(keys),
        )

    def _meet(self, live: LiveRows, found: Mutations, tally: Tally) -> tuple[DecidedRows, _Decisions]:
        """Let winners meet the live rows of a snapshot."""
        decided = Meeting(self._plan, live, self._target, Winners(self._plan, found, tally), {}).decided()
        names = decided.partitions
        return decided, {
            role: {number: names[code] for number, code in zip(numbers.tolist(), codes.tolist(), strict=True)}
            for role, (numbers, codes) in decided.written.items()
        }

    def _new(self, decided: DecidedRows, second: _Decisions) -> DecidedRows:
        """Return the rows and tombstones that the apply has not written yet."""
        written = {}
        for role, (numbers, codes) in decided.written.items():
            new = np.array([not self._has(role, number, second) for number in numbers.tolist()], np.bool_)
            written[role] = numbers[new], codes[new]
        return replace(decided, written=written)

    def _has(self, role: str, number: int, second: _Decisions) -> bool:
        """Return whether both decisions about a winner have the same row or tombstone."""
        one, other = self._first[role], second[role]
        return number in one and number in other and one[number] == other[number]

    def _withdrawn(self, found: Mutations, decided: DecidedRows, second: _Decisions) -> list[Any]:
        """Return the rows and tombstones of the apply that only its first decisions have."""
        places: dict[str, list[tuple[int, int]]] = {}
        for role in _ROLES:
            for number in self._first[role]:
                if not self._has(role, number, second):
                    path, position = self._places[role, number]
                    places.setdefault(path, []).append((position, number))
        tables = []
        for path, rows in places.items():
            positions, numbers = np.array(sorted(rows), np.int64).T
            index = pa.array(numbers)
            orders = to_texts(self._plan.rows.order_type, found.orders.take(index))
            hashes, keys = found.hashes[numbers], decided.keys.take(index)
            tables.append(index_table(path, positions, hashes, keys, orders, touched=False))
        return tables

    def _stored(self, directory: str, tables: Sequence[Any]) -> tuple[FileEntry, ...]:
        content = written_index(tables)
        if content is None:
            return ()
        path = f"{DIRECTORY}/{directory}/{file_name(self._plan, self._plan.groups, self._rounds)}.{directory}"
        return (stored_here(path, content, whole(content)),)


def _joined(tables: Sequence[Any]) -> Any:
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).unify_dictionaries().combine_chunks()


def _without(table: Any, other: Any) -> Any:
    """Return the rows of a version index that another one does not name."""
    known = set(_named(other))
    rows = [row for row, place in enumerate(_named(table)) if place not in known]
    return table.take(pa.array(rows, pa.int64()))


def _named(table: Any) -> list[Place]:
    columns = table.column("file").cast(pa.string()), table.column("position")
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
