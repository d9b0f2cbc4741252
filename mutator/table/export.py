"""Export a version of a table as a dataset like one that ``mutator run`` writes.

An export records which table and version it is of, and a fingerprint of each bucket. So a later export to the same
directory keeps the files of the buckets that did not change. As in runs, a fraction of them is compared with their
checksums; a bucket with a damaged file is written again.
"""

from __future__ import annotations

import posixpath
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mutator.config import Config
from mutator.config.feed_settings import feed_settings
from mutator.dataset import checksummed_json
from mutator.dataset.checksum import difference, whole
from mutator.dataset.commit import publish as publishing
from mutator.dataset.commit.staging import has_manifest, output_directory, sweep
from mutator.dataset.commits import time_text
from mutator.dataset.directory import due_files, read_manifest
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import DIRECTORY, TABLE, copy_path, rows_of
from mutator.dataset.partition_index import EARLIER, form_of
from mutator.dataset.state import FeedSettings, State
from mutator.dataset.versions.checkpoint import FILES
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.each import checked, guarded
from mutator.engine.runner import each_on
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.export_task import Exported, directories_of, fingerprint, write_units
from mutator.engine.versions.live_extents import OfFiles, units_of
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, ended, said
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.reading import Reading
from mutator.plan.rows.partitioning import with_fields_in_path
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.file_names import new_run_id
from mutator.storage import Storage, link_or_copy, located_to_write, read_file, storage_for
from mutator.storage.progress import expected
from mutator.table.apply import OpenRunner
from mutator.table.prepare import plan_without_feed

_FORM = ("mutator table export", 1)
_TASK_ROWS = 1 << 20  # of several buckets that one task writes at most: their files may be in memory
_OF_A_BASE = ("incr", f"{DIRECTORY}/log", f"{DIRECTORY}/target.json")  # any of them is in the base of a workflow
ROLE = "export"  # of the side file that records what a dataset is an export of


@dataclass(frozen=True)
class ExportReport(PrintedReport):
    """The result of an export."""

    table: str
    version: int
    output: str
    rows: int
    tombstones: int
    written: int  # files, those of tombstones, order and filters too
    kept: int  # files of the export before
    bytes: int  # written
    litter: tuple[str, ...]  # of killed runs, removed
    seconds: float
    history: bool = False  # its rows are versions of records

    def sections(self) -> Iterable[ReportSection]:
        """Return what was written where."""
        what = f"{counted(self.rows, 'row')} and {counted(self.tombstones, 'tombstone')}"
        if self.history:
            what = f"{counted(self.rows, 'version')} of records"
        done = f"wrote {counted(self.written, 'file')} ({counted(self.bytes, 'byte')}), kept {self.kept:,}"
        title = f"exported version {self.version} of {self.table} to {self.output}: {what}"
        return (
            said(title, *(f"removed  {path} of a killed run" for path in self.litter)),
            ended(done, self.seconds),
        )


@dataclass(frozen=True)
class Earlier:
    """An export that exists already."""

    state: State
    version: int
    buckets: Mapping[str, str]  # name -> fingerprint
    files: Mapping[str, str]  # of a history: name -> path


PARTITION_COLUMNS = ("path", "file")  # where the files have partition fields


def export(
    snapshot: Snapshot, config: Config, output: str, open_runner: OpenRunner, columns: str | None = None
) -> ExportReport:
    """Write a version of a table as a dataset; replace an earlier export of the table at the same path.

    columns: one of ``PARTITION_COLUMNS``; None: as the table is configured, else as in the earlier export, else path.
    Raises ConfigError for a table without a schema, StateError where the path has anything else.
    """
    started = time.monotonic()
    if not snapshot.state.spec:
        raise error("table.export.empty", path=snapshot.table, version=snapshot.version.number)
    storage, path = located_to_write(output)
    publishing.check_apart(path, snapshot.table, role="output", other_role="table")
    table = TableLog(snapshot.table).read(0).id
    earlier = earlier_export(storage, path, table)
    plan = plan_without_feed(snapshot, config)
    written = _rows(plan, columns or config.output.partition_columns, earlier)
    plan = replace(plan, run=new_run_id(time.time()), rows=written)
    found = _Export(snapshot, plan, config, table, path, earlier, open_runner)
    if earlier is not None and found.is_unchanged():
        parts = 0, len(earlier.state.parts()), 0
        made, litter = earlier.state, sweep(path)
    else:
        make = publishing.publish if earlier is None else publishing.replace
        published = make(path, plan.run, found.written)
        made, litter = published.made, published.litter
        fresh = [part for part in made.parts() if part.path not in found.kept]
        parts = len(fresh), len(found.kept), sum(part.bytes for part in fresh)
    rows, tombstones = made.commit.records, made.commit.tombstones
    return ExportReport(
        snapshot.table, snapshot.version.number, output, rows, tombstones, *parts, litter, time.monotonic() - started
    )


def _rows(plan: Reading, columns: str | None, earlier: Earlier | None) -> RowPlan:
    """Return how rows are written: unlike in the table, partition fields may be in the names of directories alone."""
    rows, known = plan.rows, None if earlier is None else earlier.state
    names = rows.output.schema.names
    partitioning = with_fields_in_path(rows.partitioning, names, columns, known, rows.spec["format"])
    output = replace(rows.output, in_path=partitioning.in_path)
    return replace(rows, partitioning=partitioning, output=output, spec={**rows.spec, **partitioning.spec()})


class _Export:
    """One export."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: Reading,
        config: Config,
        table: str,
        output: str,
        earlier: Earlier | None,
        open_runner: OpenRunner,
    ) -> None:
        self._feed_settings = feed_settings(config.given)
        self._snapshot, self._plan, self._table, self._output = snapshot, plan, table, output
        self._open_runner = open_runner
        masks, forms = OfFiles(snapshot), EarlierForms(snapshot.state, snapshot.table)
        self._units = units_of(snapshot, masks)
        prints = {unit: fingerprint(masks, forms, unit, extents) for unit, extents in self._units.items()}
        self._prints = {name: found for unit, found in prints.items() for name in _names(unit)}
        self._spec = {name: value for name, value in plan.rows.spec.items() if name != EARLIER}
        self._earlier = earlier
        self._due = frozenset[str]() if earlier is None else due_files(earlier.state, config.effort.verify_fraction)
        self._same = self._kept_buckets()
        self.kept: set[str] = set()

    def is_unchanged(self) -> bool:
        """Return whether the export that exists is of the same version, and has all its files."""
        assert self._earlier is not None
        return self._earlier.version == self._snapshot.version.number and len(self._same) == len(self._prints)

    def written(self, staging: str) -> State:
        """Write the changed buckets into a staging directory, and link the others; return the state of the dataset."""
        fresh = [unit for unit in self._units if not self._same.keys() >= set(_names(unit))]
        kept = self._carried(output_directory(staging))
        storage = storage_for(staging)
        storage.make_directories([posixpath.join(staging, one) for one in directories_of(fresh)])
        tasks = _packed(fresh, self._units)
        bytes_ = sum(self._bytes(unit) for unit in fresh)
        with self._open_runner(bytes_) as (runner, _), expected(bytes_):
            masked = replace(self._snapshot, files=FILES.empty_table())  # each task has its files
            done: list[Exported] = checked(each_on(runner)(tasks, partial(_write, self._plan, masked, staging)))
        files = [*(part for part in kept if part.is_data), *(file for one in done for file in one.files)]
        beside = [
            *(part for part in kept if not part.is_data),
            *(side for one in done for side in one.beside),
        ]
        version = self._snapshot.version
        if rows_of(files, beside) != {"records": version.records, "tombstones": version.tombstones}:
            raise error("table.counts", path=self._snapshot.table, version=version.number)
        return self._state(files, [*beside, self._record(staging)])

    def _kept_buckets(self) -> dict[str, list[FileEntry]]:
        """Return the files of the buckets that are as in the export before, by name of the bucket."""
        before = self._earlier
        if before is None or form_of(before.state.spec) != form_of(self._spec):
            return {}
        same = {name: list[FileEntry]() for name, found in self._prints.items() if before.buckets.get(name) == found}
        lost = set[str]()
        for part in self._damaged(before.state.parts()):
            with_filter = (one for one in before.state.parts() if one.filter == part.path)
            lost |= {name for one in (part, *with_filter) if (name := _name_of(one)) is not None}
        for part in before.state.parts():
            if (name := _name_of(part)) in same:
                same[name].append(part)
        for unit in self._units:
            if lost & set(_names(unit)) or not same.keys() >= set(_names(unit)):
                lost |= set(_names(unit))  # all buckets of a unit are written together
        return {name: parts for name, parts in same.items() if name not in lost}

    def _damaged(self, parts: Sequence[FileEntry]) -> list[FileEntry]:
        """Return the files of the earlier export that are lost, or have another size, or a checksum that is due."""
        storage, found, due = storage_for(self._output), list[FileEntry](), list[FileEntry]()
        for part in parts:
            entry = storage.stat(posixpath.join(self._output, part.path))
            if entry is None or entry.bytes != part.bytes:
                found.append(part)
            elif part.path in self._due:
                due.append(part)
        if not due:
            return found
        bytes_ = sum(part.bytes for part in due)
        with self._open_runner(bytes_) as (runner, _), expected(bytes_):
            differ = checked(each_on(runner)(due, partial(_differs, self._output)))
        return found + [part for part, differs in zip(due, differ, strict=True) if differs]

    def _carried(self, directory: str) -> list[FileEntry]:
        """Return the files of unchanged buckets, linked into a directory unless that is the output itself."""
        if self._earlier is None:
            return []
        parts = [part for found in self._same.values() for part in found]
        packs = {part.filter for part in parts}
        parts += [part for part in self._earlier.state.beside if part.path in packs]
        self.kept = {part.path for part in parts}
        if directory != self._output:
            storage = storage_for(directory)
            storage.make_directories(sorted({posixpath.dirname(f"{directory}/{path}") for path in self.kept}))
            for path in sorted(self.kept):
                link_or_copy(f"{self._output}/{path}", f"{directory}/{path}")
        return [replace(part, checked=None) if part.path in self._due else part for part in parts]  # checked now

    def _record(self, staging: str) -> FileEntry:
        return record_export(staging, self._plan.run, self._table, self._snapshot.version.number, self._prints)

    def _state(self, files: Sequence[FileEntry], beside: Sequence[FileEntry]) -> State:
        state, now = self._snapshot.state, time_text(self._plan.now)
        before = None if self._earlier is None else self._earlier.state.commit.id
        return State(
            commit=replace(
                state.commit, id=str(uuid.uuid4()), parent=before, run=self._plan.run, buckets=self._buckets()
            ),
            spec=self._spec,
            known=state.known,
            absences=state.absences,
            feed_settings=(FeedSettings(now, self._feed_settings),),
            files=tuple(replace(part, checked=part.checked or now) for part in files),
            beside=tuple(replace(part, checked=part.checked or now) for part in beside),
            copy=copy_path(self._plan.run),
        )

    def _buckets(self) -> int:
        """Return the number of buckets of a table without partitions."""
        return max((unit.buckets or 1 for unit in self._units), default=self._snapshot.version.buckets)

    def _bytes(self, unit: MergeUnit) -> int:
        """Return about how many bytes a bucket has."""
        return sum(one.file.bytes * one.extent.rows // max(one.file.rows, 1) for one in self._units[unit])


_Unit = tuple[MergeUnit, Sequence[LiveExtent]]


def _write(plan: Reading, snapshot: Snapshot, staging: str, units: Sequence[_Unit], number: int, attempt: int) -> Any:
    return guarded(write_units, plan, snapshot, staging, units, number, attempt)


def _differs(output: str, part: FileEntry, number: int, attempt: int) -> Any:
    return guarded(lambda: difference(posixpath.join(output, part.path), part.checksum) is not None)


def _packed(units: Sequence[MergeUnit], extents: Mapping[MergeUnit, Sequence[LiveExtent]]) -> list[list[_Unit]]:
    """Return the buckets of each task, with their extents."""
    tasks, rows = list[list[_Unit]](), _TASK_ROWS
    for unit in units:
        own = sum(one.extent.rows for one in extents[unit])
        if rows + own > _TASK_ROWS:
            tasks.append([])
            rows = 0
        tasks[-1].append((unit, extents[unit]))
        rows += own
    return tasks


def record_export(
    staging: str, run: str, table: str, version: int, buckets: Mapping[str, str], files: Mapping[str, str] | None = None
) -> FileEntry:
    """Write what a dataset is an export of. files: of a history; None: it is one of records."""
    members = {"table": table, "number": version, "buckets": buckets, **({} if files is None else {"history": files})}
    content = checksummed_json.dump(*_FORM, members)
    path = f"{DIRECTORY}/export-{run}.json"
    with storage_for(staging).create_new(f"{staging}/{path}") as stream:
        stream.write(content)
    return FileEntry(path=path, bucket=None, rows=0, bytes=len(content), checksum=whole(content), role=ROLE)


def earlier_export(storage: Storage, path: str, table: str, *, history: bool = False) -> Earlier | None:
    """Return the export at a path; None if nothing is there. Raises StateError for anything else.

    history: of a history, and not of records.
    """
    if not has_manifest(storage, path):
        if (what := _occupant(storage, path)) is not None:
            raise error("table.export", path=path, why=what)
        if not storage.renames or storage.stat(path) is None:
            return None
    known = read_manifest(storage, path)
    record = None if known is None else next((side for side in known.beside if side.role == ROLE), None)
    if known is None or record is None:
        raise error("table.export", path=path, why="it exists and is not an export of a table, or a run changed it")
    content = read_file(posixpath.join(path, record.path))
    try:
        members = checksummed_json.parse(content, *_FORM)
        found = Earlier(known, int(members["number"]), members["buckets"], members.get("history", {}))
    except (KeyError, TypeError, ValueError) as fault:
        raise error("table.export", path=path, why=f"its {record.path} is damaged ({fault})") from None
    if members["table"] != table:
        raise error("table.export", path=path, why="it is an export of another table")
    if ("history" in members) != history:
        what = "records" if history else "history"
        raise error("table.export", path=path, why=f"it is an export of the {what} of the table")
    return found


def _occupant(storage: Storage, path: str) -> str | None:
    """Return what a directory without a manifest is, if it belongs to another command."""
    if storage.stat(posixpath.join(path, TABLE)) is not None:
        return "it is a versioned table"
    if any(storage.stat(posixpath.join(path, name)) is not None for name in _OF_A_BASE):
        return "it is the base of a workflow, in which feed files arrive"
    return None


def _names(unit: MergeUnit) -> list[str]:
    return [f"{'-' if unit.partition is None else unit.partition}#{number}" for number in unit.numbers]


def _name_of(part: FileEntry) -> str | None:
    """Return the name of the bucket that a file belongs to; None if to none."""
    if part.bucket is None:
        return None
    if part.buckets is None:
        return f"-#{part.bucket}"
    return f"{part.directory}#{part.bucket}"
