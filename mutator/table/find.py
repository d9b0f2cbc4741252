"""The record of a key, and the versions of it that are still there. Few pages and one row group of a file are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.commits import COMPACT, OVERWRITES, RESTORE
from mutator.dataset.file_entry import DATA, OF_HISTORY, TOMBSTONES, FileEntry
from mutator.dataset.versions.hidden_rows import Hidden
from mutator.dataset.versions.key_index import encoded_keys
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.masks import index_of, own_rows
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.packs import damaged
from mutator.dataset.versions.paged_file import DamagedPage
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.stored_rows import taken_rows
from mutator.errors import error
from mutator.errors.display import text_of
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import NotReadable
from mutator.formats.values.json_text import to_json
from mutator.pipeline.explain.key import Key, typed_key
from mutator.pipeline.reports.sections import aligned
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.table.earlier_files import EarlierFiles, earlier_files

_FEW = 32  # buckets and partitions whose extents are kept


@dataclass(frozen=True)
class RecordVersion:
    """A version of a record. ``record`` is None if it was deleted."""

    version: int  # of the table, that wrote the row or deleted the record
    committed: str  # time of that version
    deleted: bool
    partition: str | None  # directory; None: the table has no partitions
    record: Any  # pa.Table of one row, with the present columns


class Finder:
    """Finds records of one version of a table. It keeps the pages of key indexes that it has read."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read nothing yet."""
        self.snapshot = snapshot
        spec = snapshot.state.spec
        self.names: tuple[str, ...] = tuple(spec["key"]["fields"]) if spec else ()
        scope = spec["partitions"]["scope"] if "partitions" in spec else snapshot.state.settings.get("key.scope")
        self.by_partition = scope == "partition"
        self._live = LiveRows(snapshot)

    def records(self, key: Key, partition: str | None = None) -> list[Any]:
        """Return the records of a key, each a pa.Table of one row: one, or one for each partition.

        partition: directory of the wanted partition.
        """
        found = []
        for extent, position, entry in self._rows(DATA, key, self._checked(partition)):
            if self._live.are_live(extent.file, np.array([position]))[0]:
                found.append(self._row(extent, position, entry))
        return found

    def history(self, key: Key, partition: str | None = None) -> list[RecordVersion]:
        """Return the versions of the record of a key that are still there, oldest first.

        The rows of a compaction are those of earlier versions, whose files are searched instead. So are the rows that
        an overwrite has written again, because they were equal. If the files of the
        former were cleaned, the compaction stands for the version that wrote the row.
        """
        log, earlier = TableLog(self.snapshot.table), earlier_files(self.snapshot)
        wanted = self._checked(partition, earlier)
        entries = earlier.entries
        found = list[tuple[int, bool, LiveExtent, int, int]]()
        for number, deleted, extent, position, entry in Finder(earlier.without_copies())._versions(key, wanted):
            found.append((number, deleted, extent, position, entry))
            if number not in entries:
                entries[number] = log.read(number)
        numbers = {number for number, *_ in found}
        withdrawn = {number: own_rows(self.snapshot.table, index_of(entries[number])) for number in numbers}
        versions = [
            RecordVersion(
                number,
                entries[number].committed,
                deleted,
                extent.extent.partition,
                None if deleted else self._row(extent, position, entry),
            )
            for number, deleted, extent, position, entry in sorted(found, key=lambda one: one[:2])
            if not any(position in part.hidden(extent.file.path) for part in withdrawn[number])
        ]
        versions = _without_repeated(versions, {number: entry.action for number, entry in entries.items()})
        return sorted([*versions, *self._by_restores(earlier, key, wanted)], key=lambda one: one.version)

    def live_places(self, role: str, key: Key) -> list[tuple[LiveExtent, int, int]]:
        """Return (extent, position, entry in the key index) of the records of a key, or of its tombstones."""
        return [
            (extent, position, entry)
            for extent, position, entry in self._rows(role, key, None)
            if self._live.are_live(extent.file, np.array([position]))[0]
        ]

    def event_places(
        self, key: Key, partition: str | None = None
    ) -> Mapping[str | None, list[tuple[FileEntry, Ints, Ints]]]:
        """Return (file, positions, entries in the key index) of the events of a key, of a table with history.

        Those of each record are in a list of their own, by its partition where keys are unique only within one.
        Elsewhere a record may have been in several. partition: of the only record.
        """
        found: dict[tuple[str | None, str], tuple[FileEntry, list[tuple[int, int]]]] = {}
        wanted = self._checked(partition)
        for role in OF_HISTORY:
            for extent, position, entry in self._rows(role, key, wanted if self.by_partition else None):
                name = extent.extent.partition if self.by_partition else None
                found.setdefault((name, extent.file.path), (extent.file, []))[1].append((position, entry))
        records: dict[str | None, list[tuple[FileEntry, Ints, Ints]]] = {}
        for (name, _), (file, places) in sorted(found.items(), key=lambda one: (one[0][0] or "", one[0][1])):
            positions, entries = np.array(sorted(places), np.int64).T
            records.setdefault(name, []).append((file, positions, entries))
        return records

    def written_places(self, key: Key) -> Iterator[tuple[int, bool, LiveExtent, int, int]]:
        """Yield (version, whether it is a tombstone, extent, position, entry) of each row that a version wrote.

        Rows that a later version hid are among them, as long as their files are there; rows that do not hold are not.
        A row of a file that is in several versions is there once.
        """
        log, earlier = TableLog(self.snapshot.table), earlier_files(self.snapshot)
        withdrawn: dict[int, list[Hidden]] = {}
        for number, deleted, extent, position, entry in Finder(earlier.snapshot)._versions(key, None):
            if number not in withdrawn:
                version = earlier.entries.get(number) or log.read(number)
                withdrawn[number] = own_rows(self.snapshot.table, index_of(version))
            if not any(position in one.hidden(extent.file.path) for one in withdrawn[number]):
                yield number, deleted, extent, position, entry

    def _by_restores(
        self, earlier: EarlierFiles, key: Key, partitions: frozenset[str] | None
    ) -> Iterator[RecordVersion]:
        """Yield the versions of the record of a key that restores brought back, and those that they deleted."""
        table = self.snapshot.table
        for version in earlier.replacements:
            if version.action != RESTORE:
                continue
            number = version.number
            before, after = (Finder(open_snapshot(table, one)) for one in (number - 1, number))
            old, new = before._live_rows(key, partitions), after._live_rows(key, partitions)
            rows = {name: self._row(*place) for name, place in new.items()}
            for name, row in rows.items():
                if name not in old or not row.equals(self._row(*old[name])):
                    yield RecordVersion(number, version.committed, False, name, row)
            for name in old.keys() - rows.keys() if self.by_partition or not rows else ():
                yield RecordVersion(number, version.committed, True, name, None)

    def _live_rows(self, key: Key, partitions: frozenset[str] | None) -> dict[str | None, tuple[LiveExtent, int, int]]:
        """Return (extent, position, entry in the key index) of the record of a key in each partition."""
        return {
            extent.extent.partition: (extent, position, entry)
            for extent, position, entry in self._rows(DATA, key, partitions)
            if self._live.are_live(extent.file, np.array([position]))[0]
        }

    def _versions(
        self, key: Key, partitions: frozenset[str] | None
    ) -> Iterator[tuple[int, bool, LiveExtent, int, int]]:
        """Yield (version, whether it is a tombstone, extent, position, entry in the key index) of each row with a key.

        version: that added the file of the row.
        """
        columns = self.snapshot.files.column("path"), self.snapshot.files.column("version")
        added = dict(zip(*(column.to_pylist() for column in columns), strict=True))
        for role in (DATA, TOMBSTONES):
            own = partitions if partitions is None or role == DATA else partitions | {""}
            for extent, position, entry in self._rows(role, key, own):
                yield added[extent.file.path], role == TOMBSTONES, extent, position, entry

    def positions(self, key: Key, partitions: frozenset[str] | None) -> dict[str, tuple[FileEntry, list[int]]]:
        """Return the files with rows of a key, by path, and the positions of these rows, hidden ones too.

        partitions: directories of the wanted partitions; None for all.
        """
        found: dict[str, tuple[FileEntry, list[int]]] = {}
        for extent, position, _ in self._rows(DATA, key, partitions):
            found.setdefault(extent.file.path, (extent.file, []))[1].append(position)
        return found

    def _checked(self, partition: str | None, earlier: EarlierFiles | None = None) -> frozenset[str] | None:
        """Return a partition as a set; None for all partitions. Raises ConfigError for one that the table never had."""
        known = self.snapshot.partitions
        if partition is None or partition in known:
            return None if partition is None else frozenset([partition])
        if partition not in (earlier or earlier_files(self.snapshot)).snapshot.partitions:
            cure = f"name one that it has, such as {', '.join(known[:3])}" if known else "leave the partition out"
            raise error("table.partition", path=self.snapshot.table, partition=partition, cure=cure)
        return frozenset([partition])

    def _rows(self, role: str, key: Key, partitions: frozenset[str] | None) -> Iterator[tuple[LiveExtent, int, int]]:
        """Yield (extent, position, entry in the key index) of each row with a key, hidden ones too."""
        snapshot = self.snapshot
        if not self.names:
            return
        hashes, encoded = self._wanted(key)
        most = snapshot.places["buckets"].max(initial=1)  # a multiple of all numbers of buckets
        for extent in self._extents(role, int(hashes[0] % np.uint64(most)), partitions):
            try:
                index = self._live.index(extent.file)
                _, entries = index.find(hashes, encoded, extent.start, extent.end)
                positions = index.positions(entries)
            except DamagedPage as fault:
                raise damaged(snapshot.table, extent.file.keys, fault) from None
            for position, entry in zip(positions.tolist(), entries.tolist(), strict=True):
                yield extent, position, entry

    @lru_cache(_FEW)  # noqa: B019  # the finder lives as long as its cache is useful
    def _extents(self, role: str, bucket: int, partitions: frozenset[str] | None) -> tuple[LiveExtent, ...]:
        """Return the extents that may have rows of a key of one of the smallest buckets."""
        return tuple(self.snapshot.extents(role, lambda count: {bucket % count}, partitions))

    def _wanted(self, key: Key) -> tuple[Hashes, Any]:
        """Return the hash of a key and the encoded key, of one element each. Raises ConfigError."""
        schema = self._live.forms.schema()
        types = [schema.field(name).type for name in self.names]
        wanted = typed_key(key, self.names, types, self.snapshot.table, "table")
        return wanted.hashes, encoded_keys(wanted.columns)

    def _row(self, extent: LiveExtent, position: int, entry: int) -> Any:
        """Return a row as a pa.Table with the present columns. Its row hash shows that it is the one that was written.

        Raises StateError for a damaged file.
        """
        file, live = extent.file, self._live
        found = taken_rows(
            self.snapshot.table, file, file.rows, np.array([position]), live.forms.schema(file.form).names
        )
        rows, present = live.checked(file, pa.concat_tables(found), np.array([entry])), live.forms.schema()
        try:
            return live.forms.evolved(rows.select(live.forms.stored(file.form, present.names)), file.form, present)
        except NotReadable as fault:
            raise damaged(self.snapshot.table, file, fault) from None


def _without_repeated(versions: Sequence[RecordVersion], actions: Mapping[int, str]) -> list[RecordVersion]:
    """Return versions of a record without those that only wrote again what was there.

    An overwrite may write an equal row, and a compaction moves rows and tombstones out of files that stay.
    """
    found, last = list[RecordVersion](), dict[str | None, RecordVersion]()
    for one in versions:
        before = last.get(one.partition)
        is_equal = before is not None and before.deleted == one.deleted and _row(before) == _row(one)
        action = actions[one.version]
        if not is_equal or not (action == COMPACT or (action in OVERWRITES and not one.deleted)):
            found.append(one)
        last[one.partition] = one
    return found


def _row(version: RecordVersion) -> Any:
    return None if version.deleted else version.record.to_pylist()


def lines_of(records: Sequence[Any], versions: Sequence[RecordVersion] | None, *, as_json: bool) -> str:
    """Return records, or versions of one, as lines for a terminal, or as a JSON document."""
    if versions is None:
        found = [_members(row) for row in records]
        if as_json:
            return json.dumps(found, indent=1)
        return text_of("\n\n".join(_fields(one) for one in found).splitlines()) if found else "no such record"
    if as_json:
        entries = [
            {
                "version": one.version,
                "committed": one.committed,
                "deleted": one.deleted,
                "partition": one.partition,
                "record": None if one.record is None else _members(one.record),
            }
            for one in versions
        ]
        return json.dumps(entries, indent=1)
    parts = []
    for one in versions:
        what = f"version {one.version}, {one.committed}{f', in {one.partition}' if one.partition else ''}"
        parts.append(f"{what}: deleted" if one.deleted else f"{what}\n{_fields(_members(one.record))}")
    return text_of("\n".join(parts).splitlines()) if parts else "no such record"


def _members(row: Any) -> dict[str, Any]:
    """Return the row of a pa.Table as a JSON object."""
    (batch,) = row.combine_chunks().to_batches()
    (text,) = to_json(pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))).to_pylist()
    return dict(json.loads(text))


def _fields(members: Mapping[str, Any]) -> str:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in members.items()}
    return "\n".join(f"  {line}" for line in aligned(list(texts.items()), right=()))
