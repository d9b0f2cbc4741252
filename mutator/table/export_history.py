"""Export the history of a table as Parquet that any engine reads: a file for each bucket, whose rows are versions.

A later export to the same directory keeps the files of the buckets that got no events.
"""

from __future__ import annotations

import posixpath
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

from mutator.dataset.commit import publish as publishing
from mutator.dataset.commit.staging import StagedFile, output_directory, sweep
from mutator.dataset.commits import RUN, Commit, time_text
from mutator.dataset.file_content import WHOLE
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import copy_path
from mutator.dataset.state import State, spec_without_key
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.each import checked, guarded
from mutator.engine.runner import each_on
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.parquet import table_writer
from mutator.rules import schema_evolution as schemas
from mutator.rules.file_names import new_run_id
from mutator.storage import link_or_copy, located_to_write, storage_for
from mutator.storage.progress import expected
from mutator.table.apply import OpenRunner
from mutator.table.export import Earlier, ExportReport, earlier_export, record_export
from mutator.table.history import History, HistoryPart, of_units
from mutator.table.history_settings import check_has_history

_CODEC = "zstd"


def export_history(snapshot: Snapshot, output: str, open_runner: OpenRunner) -> ExportReport:
    """Write the versions of all records; replace an earlier export of the history at the same path.

    Raises ConfigError for a table without history or columns, StateError where the path has anything else.
    """
    started = time.monotonic()
    check_has_history(snapshot)
    if not snapshot.state.spec:
        raise error("table.export.empty", path=snapshot.table, version=snapshot.version.number)
    storage, path = located_to_write(output)
    publishing.check_apart(path, snapshot.table, role="output", other_role="table")
    table = TableLog(snapshot.table).read(0).id
    earlier = earlier_export(storage, path, table, history=True)
    found = _Export(snapshot, table, path, earlier, open_runner)
    if earlier is not None and earlier.version == snapshot.version.number and not found.fresh:
        made, litter, written = earlier.state, sweep(path), 0
    else:
        make = publishing.publish if earlier is None else publishing.replace
        published = make(path, found.run, found.written)
        made, litter, written = published.made, published.litter, len(published.made.parts()) - len(found.kept)
    bytes_ = sum(part.bytes for part in made.parts() if part.path not in found.kept) if written else 0
    seconds = time.monotonic() - started
    rows, kept, number = made.commit.records, len(made.parts()) - written, snapshot.version.number
    return ExportReport(snapshot.table, number, output, rows, 0, written, kept, bytes_, litter, seconds, history=True)


@dataclass(frozen=True)
class _Bucket:
    """A bucket of the history. digest: a text that differs where its versions may."""

    name: str
    part: HistoryPart
    digest: str
    bytes: int


class _Export:
    """One export."""

    def __init__(
        self, snapshot: Snapshot, table: str, output: str, earlier: Earlier | None, open_runner: OpenRunner
    ) -> None:
        self._snapshot, self._table, self._output, self._open_runner = snapshot, table, output, open_runner
        self._earlier, self.run, history = earlier, new_run_id(time.time()), History(snapshot)
        self._schema = history.schema
        form = f"{self._schema} {history.meaning.digest} {_CODEC}"
        self._buckets = [_bucket(snapshot, unit, form, self._schema.names) for unit in history.units()]
        known = {} if earlier is None else self._whole(earlier)
        same = {one.name: known[one.name] for one in self._buckets if known.get(one.name, ("",))[0] == one.digest}
        self.kept = {path: entry for _, path, entry in same.values()}
        self._same = {name: path for name, (_, path, _) in same.items()}
        self.fresh = [one for one in self._buckets if one.name not in same]

    def _whole(self, earlier: Earlier) -> Mapping[str, tuple[str, str, FileEntry]]:
        """Return (digest, path, entry) of the buckets of an earlier export whose files are there."""
        storage, files = storage_for(self._output), {one.path: one for one in earlier.state.files}
        found = {}
        for name, path in earlier.files.items():
            entry = storage.stat(posixpath.join(self._output, path))
            if path in files and entry is not None and entry.bytes == files[path].bytes:
                found[name] = earlier.buckets[name], path, files[path]
        return found

    def written(self, staging: str) -> State:
        """Write the changed buckets into a staging directory, and link the others; return the state of the dataset."""
        directory = output_directory(staging)
        if directory != self._output:
            for path in sorted(self.kept):
                link_or_copy(f"{self._output}/{path}", f"{directory}/{path}")
        size = sum(one.bytes for one in self.fresh)
        with self._open_runner(size) as (runner, _), expected(size):
            tasks = [(one.part, staging, self.run) for one in self.fresh]
            made: list[FileEntry] = checked(each_on(runner)(tasks, _write))
        if not self._buckets:
            made = [_write_part(None, self._schema, staging, f"part-00000-{self.run}")]
        paths = self._same | {one.name: file.path for one, file in zip(self.fresh, made, strict=False)}
        digests, number = {one.name: one.digest for one in self._buckets}, self._snapshot.version.number
        record = record_export(staging, self.run, self._table, number, digests, paths)
        files, now = [*self.kept.values(), *made], time_text(int(time.time() * 1000))
        commit = Commit(
            number=0,
            id=str(uuid.uuid4()),
            parent=None if self._earlier is None else self._earlier.state.commit.id,
            action=RUN,
            run=self.run,
            committed=now,
            counts={"output rows": sum(one.rows for one in files)},
            records=sum(one.rows for one in files),
        )
        return State(
            commit=commit,
            spec=spec_without_key("parquet", schemas.to_text(self._schema)),
            files=tuple(sorted((replace(one, checked=one.checked or now) for one in files), key=lambda one: one.path)),
            beside=(replace(record, checked=now),),
            copy=copy_path(self.run),
        )


def _bucket(snapshot: Snapshot, unit: Sequence[LiveExtent], form: str, names: Sequence[str]) -> _Bucket:
    first, found = unit[0].extent, sha256(form.encode())
    for one in unit:
        found.update(repr((one.file.path, one.start, one.extent.rows)).encode("utf-8", "surrogateescape"))
    bytes_ = sum(one.file.bytes * one.extent.rows // max(one.file.rows, 1) for one in unit)
    least = min(one.extent.buckets for one in unit)
    name = f"{'-' if first.partition is None else first.partition}#{first.bucket % least}/{least}"
    part = HistoryPart(of_units(snapshot, [unit]), [unit], names, None, None)
    return _Bucket(name, part, found.hexdigest()[:32], bytes_)


def _write(task: tuple[HistoryPart, str, str], number: int, attempt: int) -> Any:
    part, staging, run = task
    name = f"part-{number:05d}-{run}{f'-{attempt}' if attempt else ''}"
    schema = History(part.snapshot).schema
    return guarded(partial(_write_part, part, schema, staging, name))


def _write_part(part: HistoryPart | None, schema: Any, staging: str, name: str) -> FileEntry:
    """Write the versions of a bucket; return the file. part: None for an empty file."""
    rows, path = 0, f"{name}.parquet"
    with storage_for(staging).create_new(f"{staging}/{path}") as stream:
        staged = StagedFile(stream, path, WHOLE)
        with table_writer(staged, schema, _CODEC) as write:  # type: ignore[arg-type]  # as much of a stream as it needs
            write(schema.empty_table().to_batches()[0]) if part is None else None
            for batch in () if part is None else part.batches():
                write(batch)
                rows += batch.num_rows
    return staged.entry(rows)
