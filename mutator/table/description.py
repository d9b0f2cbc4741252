"""The versions of a table, and a description of it, as values, text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from mutator.config.definitions import published
from mutator.dataset.file_entry import CLOSED, DATA, OF_HISTORY, TOMBSTONES
from mutator.dataset.partition_index import stored_fields
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import suppressed
from mutator.errors.display import counted
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import Fact, FactsBlock, ReportSection, said
from mutator.pipeline.version_list import VersionEntry, column, entry_of
from mutator.rules.order_types import in_words, recorded_fields
from mutator.rules.partition_fields import text_of as text_of_fields
from mutator.storage import entries_of
from mutator.table.agreement import KEY, ORDER, PARTITIONS, SCOPE, settings_of
from mutator.table.scan import schema_of
from mutator.table.tags import in_order

_UNKNOWN = "not known before the first rows"
_GONE = ("master replaced", "master removed", "master deleted by absence", "master truncated")


@dataclass(frozen=True, kw_only=True)
class TableVersionEntry(VersionEntry):
    """A version of a table. Files are data, tombstones, key indexes, version index and rejected rows."""

    tombstones: int = column(lambda one: one.tombstones)  # after this version
    # Records of earlier versions that this one replaced or removed
    rows_hidden: int = column(
        lambda one: sum(one.counts.get(name, 0) for name in _GONE), lambda one: {"hidden": one.rows_hidden}
    )
    files_added: int = column(  # those in the log entry too
        lambda one: sum(1 for _ in one.stored()), lambda one: {"files": one.files_added}
    )
    files_removed: int = column(lambda one: len(one.removed))
    bytes: int = column(lambda one: sum(file.bytes for file in one.stored()), lambda one: {"bytes": one.bytes})
    seconds: float = column(lambda one: one.seconds, lambda one: {"seconds": one.seconds})
    tags: Mapping[str, int] = column(lambda one: dict(one.tags))  # that it added or moved: name -> version
    untagged: Sequence[str] = column(lambda one: list(one.untagged))  # that it removed
    # It was cleaned: its rows cannot be read any more
    gone: bool = column(shown=lambda one: {"rows": "gone" if one.gone else None})


@dataclass(frozen=True)
class Description(PrintedReport):
    """The newest version of a table, in figures."""

    path: str
    version: int
    committed: str
    earliest_version: int
    key: list[str]
    key_scope: str  # table | partition
    order: str  # field of the order value, or "file name"
    order_rule: str  # the same with the types of the fields, and whether they are beside the rows
    partitioned_by: str | None
    partitions: int | None  # that have live rows or tombstones; None: the table is not partitioned
    buckets: int  # of the table, or of each partition
    columns: Mapping[str, str]  # name -> type
    records: int
    tombstones: int
    data_files: int
    tombstone_files: int
    hidden_rows: int  # that are in the data files, and were replaced or removed
    data_bytes: int  # side files among them
    tombstone_bytes: int
    events: int | None  # of the history; None: the table keeps none
    closed_events: int  # whose versions are written with their times
    event_bytes: int
    key_bytes: int  # of the key indexes
    log_bytes: int  # entries, archives, checkpoints and hint
    checkpoint: int | None  # version of the newest checkpoint
    tags: Mapping[str, int]  # name -> version
    settings: Mapping[str, Any]

    def sections(self) -> Iterable[ReportSection]:
        """Return the facts of the table."""
        order = "file name" if self.order == "file name" else f"field {self.order_rule}"
        partitioned = "no partitions"
        if self.partitioned_by is not None:
            partitioned = f"{self.partitioned_by} ({self.partitions:,})"
        rows: list[Fact] = [
            ("version", f"{self.version:,}, of {self.committed}; the earliest is {self.earliest_version:,}"),
            ("key", f"{', '.join(self.key) or _UNKNOWN}; unique in the {self.key_scope}"),
            ("order", order),
            ("partitions", partitioned),
            ("buckets", f"{self.buckets:,}"),
            ("records", f"{self.records:,}"),
            ("tombstones", f"{self.tombstones:,}"),
            (
                "data",
                ", ".join(
                    (
                        counted(self.data_files, "file"),
                        counted(self.data_bytes, "byte"),
                        counted(self.hidden_rows, "hidden row"),
                    )
                ),
            ),
            ("tombstone files", f"{counted(self.tombstone_files, 'file')}, {counted(self.tombstone_bytes, 'byte')}"),
            *([] if self.events is None else [("history", self._history(self.events))]),
            ("key indexes", f"{self.key_bytes:,} bytes"),
            ("log", f"{self.log_bytes:,} bytes, {_checkpoint(self.checkpoint)}"),
            *((f"tag {name}", f"version {number:,}") for name, number in self.tags.items()),
            *((f"column {name}", data_type) for name, data_type in self.columns.items()),
        ]
        return said(f"table {self.path}"), ReportSection(blocks=[FactsBlock(rows)])

    def _history(self, events: int) -> str:
        """Return how much of the history is closed."""
        return f"{counted(events, 'event')}, {self.closed_events:,} closed, {counted(self.event_bytes, 'byte')}"


def versions_of(snapshot: Snapshot) -> Iterator[TableVersionEntry]:
    """Return an iterator over the versions of a table up to a snapshot, oldest first.

    Those that are gone are among them. While it is read, it raises StateError for lost and damaged entries.
    """
    left = snapshot.state.cleaning.left
    for version in TableLog(snapshot.table).chain(None, snapshot.version.number):
        yield entry_of(version, TableVersionEntry, gone=not left.has(version.number))


def description_of(snapshot: Snapshot) -> Description:
    """Describe a table at the version of a snapshot."""
    version, log = snapshot.version, TableLog(snapshot.table)
    files = snapshot.files
    sizes = {}
    for role in (DATA, TOMBSTONES, *OF_HISTORY):
        chosen = files.filter(pc.equal(files.column("role"), role))
        size = sum(pc.sum(chosen.column(name)).as_py() or 0 for name in ("bytes", "sides_bytes"))
        sizes[role] = (chosen.num_rows, size, pc.sum(chosen.column("rows")).as_py() or 0)
    checkpoints = [number for number, _ in log.checkpoints() if number <= version.number]
    fixed = _fixed(snapshot)
    return Description(
        path=snapshot.table,
        version=version.number,
        committed=version.committed,
        earliest_version=snapshot.state.cleaning.earliest,
        key=list(fixed.key),
        key_scope=fixed.key_scope,
        order=fixed.order,
        order_rule=fixed.order_rule,
        partitioned_by=fixed.partitioned_by,
        partitions=None if fixed.partitioned_by is None else len(_partitions(snapshot)),
        buckets=snapshot.state.buckets.most,
        columns={field.name: str(field.type) for field in schema_of(snapshot)},
        records=version.records,
        tombstones=version.tombstones,
        data_files=sizes[DATA][0],
        tombstone_files=sizes[TOMBSTONES][0],
        hidden_rows=sizes[DATA][2] - version.records,
        data_bytes=sizes[DATA][1],
        tombstone_bytes=sizes[TOMBSTONES][1],
        events=sum(sizes[role][2] for role in OF_HISTORY) if snapshot.has_history else None,
        closed_events=sizes[CLOSED][2],
        event_bytes=sum(sizes[role][1] for role in OF_HISTORY),
        key_bytes=pc.sum(files.column("index_bytes")).as_py() or 0,
        log_bytes=_log_bytes(log.path),
        checkpoint=max(checkpoints, default=None),
        tags=in_order(snapshot.state.tags),
        settings=dict(snapshot.state.settings),
    )


def defaults_used(found: Description, settings: Iterable[str], buckets: int | None) -> list[str]:
    """Return notes on what a new table has that nobody set. settings: the names of those that were given."""
    given = {published(name) for name in settings}
    scope = found.key_scope if found.partitioned_by else ""
    values = {
        KEY: ("key", ",".join(found.key)),
        ORDER: ("order", "" if found.order == _UNKNOWN else found.order),
        PARTITIONS: ("partitioned.by", found.partitioned_by or ""),
        SCOPE: ("key.scope", scope),
    }
    taken = [f"{short}={value}" for name, (short, value) in values.items() if value and name not in given]
    taken += [f"buckets={found.buckets}"] if buckets is None else []
    notes = [f"defaults: {', '.join(taken)}"] if taken else []
    types = ", ".join(f"{name} {data_type}" for name, data_type in found.columns.items())
    return [*notes, f"types of the columns: {types}"] if types else notes


@dataclass(frozen=True)
class _Fixed:
    """What is the same for all versions, as ``Description`` has it."""

    key: Sequence[str]
    key_scope: str
    order: str
    order_rule: str
    partitioned_by: str | None


def _fixed(snapshot: Snapshot) -> _Fixed:
    """Return key, order and partitions: those of the rows, or before the first rows those of the settings."""
    spec = snapshot.state.spec
    if spec:
        order, fields = spec["order"], stored_fields(spec)
        partitioned = text_of_fields(fields) if fields else None
        scope = snapshot.state.key_scope
        rule = in_words(order) if "type" in order else order["by"]
        return _Fixed(spec["key"]["fields"], scope, ", ".join(recorded_fields(order)) or order["by"], rule, partitioned)
    agreed = settings_of(snapshot)
    key, order = (list(map(str, agreed.get(name, ()))) for name in (KEY, ORDER))
    known = ", ".join(order) or _UNKNOWN
    return _Fixed(key, agreed.get(SCOPE, "table"), known, known, agreed.get(PARTITIONS))


def _partitions(snapshot: Snapshot) -> set[str]:
    """Return the directories of the partitions with live rows or tombstones."""
    found: set[str] = set()
    known, hidden = "", np.zeros(0, np.int64)
    for role in (DATA, TOMBSTONES):
        for one in snapshot.extents(role):
            partition = one.extent.partition
            if not partition or partition in found:
                continue
            if one.file.path != known:
                known, hidden = one.file.path, snapshot.masks.hidden(one.file.path)
            first, last = np.searchsorted(hidden, [one.start, one.end])
            if last - first < one.extent.rows:
                found.add(partition)
    return found


def _log_bytes(path: str) -> int:
    """Return the bytes of the entries, archives, checkpoints and hint below a directory."""
    total = 0
    for directory in (f"{path}/log", f"{path}/archive", f"{path}/checkpoints", path):
        with suppressed("storage.missing"):
            total += sum(entry.bytes for entry in entries_of(directory) if entry.type == "file")
    return total


def _checkpoint(version: int | None) -> str:
    return "no checkpoint" if version is None else f"newest checkpoint of version {version:,}"
