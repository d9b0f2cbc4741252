"""Export → merge → import in one go; the text copy is kept, so that the export is needed only once.

settle   clean up after killed runs: the files of the table decide which log entry is current
check    plan the merge with an empty text copy, unless there is one: a faulty configuration must not cost an export
export   write the text copy, unless the current entry has one
merge    merge the feed files into the text copy: an ordinary run, to a new directory
stage    write the changed partitions where no reader sees them
note     log which text copy belongs to the table once it is committed
commit   switch the table in one step

The report of a round trip, as text and as JSON.
"""

from __future__ import annotations

import logging
import posixpath
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from mutator.bridge.contract import BridgeTable, Partition
from mutator.bridge.digests import changed_partitions, digests_of
from mutator.bridge.importing import export, export_no_rows, text_copy
from mutator.bridge.recovery import BridgeState, StateEntry, TextBase, consumed, fields_of, remove_older, settle
from mutator.bridge.text_dataset import TEXT, WrittenDataset, output_dialect, text_ranges
from mutator.config.settings import Config, TextSpec
from mutator.dataset.commit.publish import check_apart
from mutator.dataset.commit.staging import staging
from mutator.dataset.manifest import DIRECTORY
from mutator.dataset.manifest import PATH as MANIFEST
from mutator.dataset.state import State
from mutator.engine.each import Each
from mutator.errors import MutatorError, error
from mutator.errors.display import counted, without_secrets
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import check_signals
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.escaped import separates
from mutator.frames.file_rows import FileRange, read_range
from mutator.pipeline.merge import Prepared, carry_out, prepare
from mutator.pipeline.report import Report
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, ended, listed, said
from mutator.pipeline.runners import Engine
from mutator.rules.file_names import new_run_id
from mutator.rules.partition_paths import directory_of
from mutator.rules.truth_table import MASTER_OUTCOMES
from mutator.storage import located_to_write


@dataclass(frozen=True)
class BridgeReport(PrintedReport):
    """The effects of a round trip on a table and its text copy."""

    run: str
    table: str
    kind: str  # format of the table's files; the name is that of the JSON member
    merged: Report
    changed: bool  # the table has different rows now
    partitions: tuple[str, ...] | None  # the overwritten ones; None: the whole table
    copy: str = ""  # path of the text copy
    exported: Mapping[str, Any] | None = None  # why, rows and bytes; None: the text copy was current
    seconds: float = 0.0

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON; the member ``merged`` is the report of the merge."""
        return {"text" if name == "copy" else name: value for name, value in super().members().items()}

    def sections(self) -> Iterable[ReportSection]:
        """Return the tables, the export, the merge, and what became of the table."""
        if self.exported is None:
            export = "skipped: the text copy is that of the table as it is"
        else:
            size = f"{counted(self.exported['rows'], 'row')}, {counted(self.exported['bytes'], 'byte')}"
            export = f"{size}: {self.exported['why']}"
        table = f"  table  {self.table} ({self.kind})"
        yield said(f"bridge {self.run}", table, f"  text   {self.copy}", f"  export {export}", "")
        yield from self.merged.sections()
        yield said("")
        if not self.changed:
            yield ended("the table stays as it is: no row has changed", self.seconds)
        elif self.partitions is None:
            yield ended("the table was overwritten in one step", self.seconds)
        else:
            yield said(*listed("overwritten", self.partitions))
            yield ended(f"overwrote {counted(len(self.partitions), 'partition')} in one step", self.seconds)


_log = logging.getLogger(__name__)
_NO_CHANGES = (
    "changes: a bridge writes no changed rows, because it merges a text copy; leave it out, and compare a copy of the "
    "table with it: mutator diff OLD NEW"
)


@dataclass(frozen=True)
class _RoundTrip:
    """The arguments of one call of ``run``."""

    table: BridgeTable
    base: TextBase
    config: Config
    feed: Sequence[str]
    merge_on: Engine
    each: Each
    engine: str


@dataclass(frozen=True)
class _Merged:
    """A new text copy, and which rows of the table it changes."""

    text: str  # directory, relative to the base
    state: State
    report: Report
    schema: Any  # pa.Schema
    ranges: Sequence[FileRange]
    adds_fields: bool  # the table lacks fields of the schema, or has narrower types
    changed: bool
    partitions: list[Partition] | None  # the ones that change; None: the whole table
    digests: Mapping[str, Any]


def run(
    table: BridgeTable,
    base: str,
    config: Config,
    feed: Sequence[str],
    merge_on: Engine,
    each: Each,
    *,
    engine: str = "auto",
) -> BridgeReport:
    """Merge feed files into a table of another storage format, by way of text.

    base: directory of the text copy, created if missing. After an error or a kill the table is the old or the new one,
    and the next run continues from there.
    """
    started = time.monotonic()
    if config.output.changes:
        raise error("config", where="mutator bridge", faults=_NO_CHANGES)
    table.check_replaceable()
    text = _text_base(table, base)
    bookkeeping = posixpath.join(text.path, DIRECTORY)
    text.storage.make_directory(bookkeeping)
    with staging(text.storage, posixpath.join(bookkeeping, "run"), text.run):  # one at a time
        if config.inputs.master_adopt:
            with suppress(MutatorError):  # the state is forgotten, so its errors do not matter
                settle(table, text)
            text.state.clear()
            config = replace(config, inputs=replace(config.inputs, master_adopt=False))
            entry, why = None, "master.adopt says so"
        else:
            entry, why = settle(table, text)
        _log.info("found %s", f"no text copy to use: {why}" if entry is None else f"the text copy {entry.text}")
        trip = _RoundTrip(table, text, config, feed, merge_on, each, engine)
        exported: dict[str, Any] | None = None
        if entry is None:
            made, entry = _export(trip)
            _log.info("exported %s", counted(made.rows, "row"))
            exported = {"why": why, "rows": made.rows, "bytes": made.bytes}
        report = _merge_and_import(trip, entry)
    seconds = round(time.monotonic() - started, 3)
    return replace(report, copy=without_secrets(base), exported=exported, seconds=seconds)


def _text_base(table: BridgeTable, base: str) -> TextBase:
    """Return the base directory of the text copy. Raises ConfigError if it overlaps the table or is a dataset."""
    storage, path = located_to_write(base)
    check_apart(path, table.name, role="text copy", other_role="table")
    check_apart(table.name, path, role="table", other_role="text copy")
    if storage.stat(posixpath.join(path, MANIFEST)) is not None:
        why, cure = "is a dataset, and cannot store text copies", "name another directory; it is created"
        raise error("table.place", path=path, why=why, cure=cure)
    return TextBase(path, base, new_run_id(time.time()), storage, BridgeState(path))


def _export(trip: _RoundTrip) -> tuple[WrittenDataset, StateEntry]:
    """Export the table, once the merge is known to be possible."""
    table, base = trip.table, trip.base
    delimiter = one_byte(trip.config.rows.text)
    entries, files = base.state.entries(), table.files()
    name = f"export-{base.run}"
    feed = consumed(base, entries, files)
    export_no_rows(table, base.path_of(name), base.run, delimiter=delimiter, feed=feed)
    try:
        _prepare(trip, name)
    finally:
        base.storage.remove(base.path_of(name))
    exported = export(table, base.path_of(name), base.run, delimiter=delimiter, feed=feed)
    if table.files() != files:
        raise error("table.changed", table=table.name, what="was exported")
    number = max((one.number for one in entries), default=0) + 1
    entry = StateEntry(number, base.run, table.name, name, exported.dataset, files, fields_of(table))
    base.state.add(entry)
    failpoint("bridge.exported")
    remove_older(base, entry)
    return exported, entry


def one_byte(text: TextSpec) -> bytes:
    """Return the delimiter of a text copy. Raises ConfigError where it is not one byte."""
    delimiter = text.delimiter
    literal = delimiter.literal
    if literal is None or not separates(literal):
        what = f"{delimiter.text} cannot separate the fields of a text copy; set it to one byte that is not a "
        what += "letter, digit, & or backslash"
        raise error("config", where="field.delim.regex", faults=what)
    return literal


def _merge_and_import(trip: _RoundTrip, entry: StateEntry) -> BridgeReport:
    """Merge the feed into the text copy of an entry, and commit what changes to the table."""
    table, base = trip.table, trip.base
    merged = _merge(trip, entry)
    _log.info("compared the merged rows with the table: it %s", "changes" if merged.changed else "stays as it is")
    noted = replace(
        entry,
        number=entry.number + 1,
        run=base.run,
        text=merged.text,
        dataset=merged.state.commit.id,
        staged=None,
        digests=merged.digests,
    )
    if merged.changed:
        noted = _stage(trip, merged, noted)
    base.state.add(noted)
    failpoint("bridge.noted")
    if noted.staged is not None:
        table.commit(noted.staged)
        _log.info("committed to the table")
        failpoint("bridge.committed")
    remove_older(base, noted)
    partitions = None
    if table.partition_fields and merged.partitions is not None:
        partitions = tuple(directory_of(table.partition_fields, one) for one in merged.partitions)
    return BridgeReport(
        run=base.run,
        table=table.given,
        kind=table.format,
        merged=merged.report,
        changed=merged.changed,
        partitions=partitions,
    )


def _prepare(trip: _RoundTrip, text: str) -> Prepared:
    """Plan the merge of the feed into a text copy, given by its name in the base."""
    base = trip.base
    config = replace(trip.config, output=replace(trip.config.output, format=TEXT, codec=None))
    master, output = (posixpath.join(base.given, one) for one in (text, _name_of_merged(base)))
    return prepare(config, master, list(trip.feed), output, run=base.run, engine=trip.engine)


def _name_of_merged(base: TextBase) -> str:
    return f"text-{base.run}"


def _merge(trip: _RoundTrip, entry: StateEntry) -> _Merged:
    """Merge the feed into a new text copy, and compare its rows with those of the old one."""
    table, base = trip.table, trip.base
    before_path, before = text_copy(base.path_of(entry.text))
    name = _name_of_merged(base)
    made, report = carry_out(_prepare(trip, entry.text), trip.merge_on)
    failpoint("bridge.merged")
    schema, ranges = text_ranges(base.path_of(name), made)
    before_schema, before_ranges = text_ranges(before_path, before)
    adds_fields = _fields(schema) != _fields(before_schema) and not _is_of(table, schema)
    changed = adds_fields or _has_changes(report.counts)
    partitions, digests = None, dict(entry.digests)
    if changed and table.partition_fields and not adds_fields:
        old = digests_of(trip.each, before_ranges, table.partition_fields, entry.digests)
        digests = digests_of(trip.each, ranges, table.partition_fields, old)
        partitions = changed_partitions(old, digests)
        changed = bool(partitions)
    return _Merged(name, made, report, schema, ranges, adds_fields, changed, partitions, digests)


def _stage(trip: _RoundTrip, merged: _Merged, noted: StateEntry) -> StateEntry:
    """Write the rows that change where no reader sees them; return the entry of the table as it will be.

    noted: has the files of the table as it is.
    """
    table, base = trip.table, trip.base
    if merged.adds_fields:
        table.adopt(merged.schema)
        noted = replace(noted, fields=fields_of(table))
    # Added before any file is written, so that the next run knows what to remove.
    base.state.add(replace(noted, files=None))
    failpoint("bridge.begun")
    try:
        staged = table.stage(merged.ranges, partial(read_range, schema=table.schema), base.run, merged.partitions)
        failpoint("bridge.staged")
        check_signals()
        if table.files() != noted.files:
            raise error("table.changed", table=table.name, what="was merged")
        _check_rows(table, merged, staged.rows)
    except BaseException:
        with suppress(MutatorError):  # the first error is raised; the next run discards the rest
            table.discard(base.run)
        raise
    return replace(noted, number=noted.number + 1, files=staged.files, staged=staged.record, changed_by=base.run)


def _check_rows(table: BridgeTable, merged: _Merged, written: int) -> None:
    """Raise StorageError unless all rows of the text, or of the partitions that change, were written."""
    expected = merged.state.commit.records
    if merged.partitions is not None:
        wanted = set(merged.partitions)
        expected = sum(rows for parts in merged.digests.values() for key, rows, _ in parts if tuple(key) in wanted)
    if written != expected:
        raise error("sums", problems=f"{table.given}: wrote {counted(written, 'row')}, and the text has {expected:,}")


def _has_changes(counts: Mapping[str, int]) -> bool:
    """Return whether a merge changed any row."""
    return any(counts[f"master {one}"] for one in MASTER_OUTCOMES if one != "kept") or counts["feed inserted"] > 0


def _is_of(table: BridgeTable, schema: Any) -> bool:
    """Return whether rows of a schema fit a table as it is."""
    stored = output_dialect(schema, table.format)[0]
    return _fields(table.schema) in (_fields(schema), _fields(stored))


def _fields(schema: Any) -> list[tuple[str, Any]]:
    return [(part.name, part.type) for part in schema]
