"""The versions of a table, and a description of it, as values, text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from mutator.config.definitions import published
from mutator.dataset.commits import Commit
from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.partition_index import SPEC, stored_fields
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import suppressed
from mutator.errors.display import counted, text_of
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import Fact, FactsBlock, ReportSection, aligned, said
from mutator.rules.partition_fields import text_of as text_of_fields
from mutator.rules.truth_table import FEED_OUTCOMES, records_deleted
from mutator.storage import entries_of
from mutator.table.agreement import KEY, ORDER, PARTITIONS, SCOPE, settings_of
from mutator.table.scan import schema_of
from mutator.table.tags import in_order

_UNKNOWN = "not known before the first rows"
_GONE = ("master replaced", "master removed", "master deleted by absence")


@dataclass(frozen=True)
class VersionEntry:
    """A version of a table, as its log has it."""

    version: int
    # create | apply | abandon | compact | restore | clean | tag | insert_overwrite | insert_overwrite_table
    kind: str
    committed: str  # ISO 8601, UTC
    run: str
    counts: Mapping[str, int]  # number of rows of each outcome
    records: int  # live after this version
    tombstones: int  # after this version
    rows_hidden: int  # records of earlier versions that this one replaced or removed
    files_added: int  # data, tombstones, key indexes, version index and rejected rows, those in the log entry too
    files_removed: int
    bytes: int  # of the files that it added
    seconds: float
    tags: Mapping[str, int]  # that it added or moved: name -> version
    untagged: Sequence[str]  # that it removed
    gone: bool  # it was cleaned: its rows cannot be read any more
    restored: int | None  # the version that it brought back


@dataclass(frozen=True)
class Description(PrintedReport):
    """What a table has at its newest version."""

    path: str
    version: int
    committed: str
    earliest_version: int
    key: list[str]
    key_scope: str  # table | partition
    order: str  # field of the order value, or "file name"
    partitioned_by: str | None
    partitions: int | None  # that have live rows or tombstones; None: the table is not partitioned
    buckets: int  # of the table, or of each partition
    columns: Mapping[str, str]  # name -> type
    records: int
    tombstones: int
    data_files: int
    tombstone_files: int
    hidden_rows: int  # that are in the data files, and were replaced or removed
    data_bytes: int
    tombstone_bytes: int
    key_bytes: int  # of the key indexes
    log_bytes: int  # entries, archives, checkpoints and hint
    checkpoint: int | None  # version of the newest checkpoint
    tags: Mapping[str, int]  # name -> version
    settings: Mapping[str, Any]

    def sections(self) -> Iterable[ReportSection]:
        """Return the facts of the table."""
        order = "file name" if self.order == "file name" else f"field {self.order}"
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
            ("key indexes", f"{self.key_bytes:,} bytes"),
            ("log", f"{self.log_bytes:,} bytes, {_checkpoint(self.checkpoint)}"),
            *((f"tag {name}", f"version {number:,}") for name, number in self.tags.items()),
            *((f"column {name}", data_type) for name, data_type in self.columns.items()),
        ]
        return said(f"table {self.path}"), ReportSection(blocks=[FactsBlock(rows)])


def versions_of(snapshot: Snapshot) -> Iterator[VersionEntry]:
    """Return an iterator over the versions of a table up to a snapshot, oldest first.

    Those that are gone are among them. While it is read, it raises StateError for lost and damaged entries.
    """
    left = snapshot.state.cleaning.left
    for version in TableLog(snapshot.table).chain(None, snapshot.version.number):
        yield _entry(version, is_gone=not left.has(version.number))


def versions_json(entries: Iterator[VersionEntry]) -> str:
    """Return versions as a JSON document."""
    return json.dumps([asdict(entry) for entry in entries], indent=1)


def versions_text(entries: Iterator[VersionEntry]) -> str:
    """Return a line for each version."""
    heads = ("version", "kind", "committed", *FEED_OUTCOMES, "records", "hidden", "files", "bytes", "seconds")
    rows: list[tuple[str, ...]] = [heads]
    for one in entries:
        counts = {**one.counts, "feed deleted": records_deleted(one.counts)}
        outcomes = (f"{counts.get(f'feed {name}', 0):,}" for name in FEED_OUTCOMES)
        sizes = (one.records, one.rows_hidden, one.files_added, one.bytes)
        numbers = (f"{number:,}" for number in sizes)
        rows.append(
            (
                f"{one.version:,}",
                f"{one.kind}, gone" if one.gone else one.kind,
                one.committed,
                *outcomes,
                *numbers,
                f"{one.seconds:.1f} s",
            )
        )
    used = [number for number, head in enumerate(heads) if head not in FEED_OUTCOMES or _any(rows, number)]
    return text_of(aligned([[row[number] for number in used] for row in rows], right=set(range(len(used))) - {1, 2}))


def description_of(snapshot: Snapshot) -> Description:
    """Describe a table at the version of a snapshot."""
    version, log = snapshot.version, TableLog(snapshot.table)
    files = snapshot.files
    sizes = {}
    for role in (DATA, TOMBSTONES):
        chosen = files.filter(pc.equal(files.column("role"), role))
        sizes[role] = (chosen.num_rows, pc.sum(chosen.column("bytes")).as_py() or 0, pc.sum(chosen.column("rows")))
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
        partitioned_by=fixed.partitioned_by,
        partitions=None if fixed.partitioned_by is None else len(_partitions(snapshot)),
        buckets=snapshot.state.buckets.most,
        columns={field.name: str(field.type) for field in schema_of(snapshot)},
        records=version.records,
        tombstones=version.tombstones,
        data_files=sizes[DATA][0],
        tombstone_files=sizes[TOMBSTONES][0],
        hidden_rows=(sizes[DATA][2].as_py() or 0) - version.records,
        data_bytes=sizes[DATA][1],
        tombstone_bytes=sizes[TOMBSTONES][1],
        key_bytes=pc.sum(files.column("index_bytes")).as_py() or 0,
        log_bytes=_log_bytes(log.path),
        checkpoint=max(checkpoints, default=None),
        tags=in_order(snapshot.state.tags),
        settings=dict(snapshot.state.settings),
    )


def _entry(version: Commit, *, is_gone: bool) -> VersionEntry:
    stored = list(version.stored())
    return VersionEntry(
        version=version.number,
        kind=version.action,
        committed=version.committed,
        run=version.run,
        counts=dict(version.counts),
        records=version.records,
        tombstones=version.tombstones,
        rows_hidden=sum(version.counts.get(name, 0) for name in _GONE),
        files_added=len(stored),
        files_removed=len(version.removed),
        bytes=sum(one.bytes for one in stored),
        seconds=version.seconds,
        tags=dict(version.tags),
        untagged=list(version.untagged),
        gone=is_gone,
        restored=None if version.restored is None else version.restored.version,
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
    partitioned_by: str | None


def _fixed(snapshot: Snapshot) -> _Fixed:
    """Return key, order and partitions: those of the rows, or before the first rows those of the settings."""
    spec = snapshot.state.spec
    if spec is not None:
        order, fields = spec["order"], stored_fields(spec)
        partitioned = text_of_fields(fields) if fields else None
        scope = spec.get(SPEC, {}).get("scope", "table")
        return _Fixed(spec["key"]["fields"], scope, str(order.get("field") or order["by"]), partitioned)
    agreed = settings_of(snapshot)
    key, order = (list(map(str, agreed.get(name, ()))) for name in (KEY, ORDER))
    return _Fixed(key, agreed.get(SCOPE, "table"), order[0] if order else _UNKNOWN, agreed.get(PARTITIONS))


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


def _any(rows: list[tuple[str, ...]], column: int) -> bool:
    return any(row[column] != "0" for row in rows[1:])
