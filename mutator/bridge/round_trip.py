"""Export → merge → import in one go; the text copy is kept, so that the export is needed only once.

settle   whatever a killed run has left: the table says which entry counts
export   unless the text copy belongs to the table as it is
merge    feed files into the text copy: a run like every other, to a new directory
stage    the partitions that have changed, where no reader sees them
note     which text copy belongs to the table as it will be
commit   the table's one step
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mutator.bridge.contract import Partition, Table, files_of
from mutator.bridge.digests import changed_partitions, digests_of
from mutator.bridge.exporting import Exported, export
from mutator.bridge.importing import read_rows, text_copy
from mutator.bridge.recovery import Place, consumed, fields_of, settled, tidy
from mutator.bridge.report import BridgeReport
from mutator.bridge.state_log import Entry, State
from mutator.bridge.text_dataset import TEXT, output_dialect, text_pieces
from mutator.config import Config
from mutator.dataset.commit.staging import staging
from mutator.dataset.manifest import PATH as MANIFEST
from mutator.dataset.manifest import Manifest
from mutator.engine.each import Each
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import check_signals
from mutator.errors.redact import without_secrets
from mutator.formats.files.escaped import separates
from mutator.pipeline.merge import Engine, carry_out, prepare
from mutator.rules.file_names import new_run_id
from mutator.rules.outcome import MASTER_OUTCOMES
from mutator.rules.partition_paths import directory_of
from mutator.storage import absolute, writable_storage_for

__all__ = ["one_byte", "run"]


def run(
    table: Table, base: str, config: Config, feed: Sequence[str], merge_on: Engine, each: Each, *, engine: str = "auto"
) -> BridgeReport:
    """Merge feed files into a table of another storage format, by way of text.

    base: directory of the text copy, which is made where there is none. Whatever is raised, and whenever the process is
    killed, the table is the old one or the new one, and the next run goes on from there.
    """
    started = time.monotonic()
    table.check_replaceable()
    given, base = base, absolute(base)
    storage = writable_storage_for(base)
    base = storage.resolve(base)
    if f"{base}/".startswith(f"{table.name}/") or f"{table.name}/".startswith(f"{base}/"):
        raise error("path.roles", path=base, roles="text and table")
    if storage.stat(posixpath.join(base, MANIFEST)) is not None:
        why, cure = "is a dataset itself, and no place for text copies", "name another directory, which is made"
        raise error("table.place", path=base, why=why, cure=cure)
    bookkeeping = posixpath.join(base, "_mutator")
    storage.make_directory(bookkeeping)
    name = new_run_id(time.time())
    with staging(storage, posixpath.join(bookkeeping, "run"), name):  # one at a time
        place = Place(base, given, name, storage, State(base))
        if config.master_adopt:
            with suppress(MutatorError):  # whatever stands in the way is forgotten
                settled(table, place)
            place.state.clear()
            entry, why, config = None, "master.adopt says so", replace(config, master_adopt=False)
        else:
            entry, why = settled(table, place)
        exported = None
        if entry is None:
            exported, entry = _export(table, place, config)
        report = _merge_and_import(table, place, entry, config, feed, merge_on, each, engine)
    told = None if exported is None else {"why": why, "rows": exported.rows, "bytes": exported.bytes}
    seconds = round(time.monotonic() - started, 3)
    return replace(report, text=without_secrets(given), exported=told, seconds=seconds)


def _export(table: Table, place: Place, config: Config) -> tuple[Exported, Entry]:
    delimiter = one_byte(config)
    entries, files = place.state.entries(), table.files()
    name = f"export-{place.run}"
    feed = consumed(place, entries, files)
    exported = export(table, place.at(name), place.run, delimiter=delimiter, feed=feed)
    if table.files() != files:
        raise error("table.changed", table=table.name, what="was exported")
    number = max((one.number for one in entries), default=0) + 1
    entry = Entry(number, place.run, table.name, name, exported.manifest.commit, files, fields_of(table))
    place.state.add(entry)
    failpoint("bridge.exported")
    tidy(place, entry)
    return exported, entry


def one_byte(config: Config) -> bytes:
    """Return the delimiter of a text copy. Raises ConfigError where it is not one byte."""
    literal = config.delimiter.literal
    if literal is None or not separates(literal):
        what = f"{config.delimiter.text} cannot stand between the fields of a text copy; set it to one byte that is no "
        what += "letter or digit, and no & or backslash"
        raise error("config", where="field.delim.regex", faults=what)
    return literal


def _merge_and_import(
    table: Table,
    place: Place,
    entry: Entry,
    config: Config,
    feed: Sequence[str],
    merge_on: Engine,
    each: Each,
    engine: str,
) -> BridgeReport:
    before_path, before = text_copy(place.at(entry.text))
    name = f"text-{place.run}"
    config = replace(config, output_format=TEXT, output_codec=None)
    master, output = (posixpath.join(place.given, one) for one in (entry.text, name))
    prepared = prepare(config, master, list(feed), output, run=place.run, engine=engine)
    made, merged = carry_out(prepared, merge_on)
    failpoint("bridge.merged")
    schema, pieces = text_pieces(place.at(name), made)
    before_schema, before_pieces = text_pieces(before_path, before)
    widened = _fields(schema) != _fields(before_schema) and not _is_of(table, schema)
    changes = widened or _changes(merged.counts)
    partitions: list[Partition] | None = None
    digests = dict(entry.digests)
    if changes and table.partition_fields and not widened:
        old = digests_of(each, before_pieces, table.partition_fields, entry.digests)
        digests = digests_of(each, pieces, table.partition_fields, old)
        partitions = changed_partitions(old, digests)
        changes = bool(partitions)
    noted = replace(
        entry, number=entry.number + 1, run=place.run, text=name, dataset=made.commit, staged=None, digests=digests
    )
    record: Mapping[str, Any] = {"files": []}
    if changes:
        if widened:
            table.adopt(schema)
            noted = replace(noted, fields=fields_of(table))
        # Noted before it is begun, so that whoever comes next knows what to remove.
        place.state.add(replace(noted, files=None))
        failpoint("bridge.begun")
        try:
            record = table.stage(pieces, read_rows(table.schema), place.run, partitions)
            failpoint("bridge.staged")
            check_signals()
            if table.files() != entry.files:
                raise error("table.changed", table=table.name, what="was merged")
            _check_rows(table, made, digests, partitions, record["rows"])
        except BaseException:
            with suppress(MutatorError):  # what went wrong first is the one to tell, and the next run discards it
                table.discard(place.run)
            raise
        files = files_of(record["files"])
        noted = replace(noted, number=noted.number + 1, files=files, staged=record, changed_by=place.run)
    place.state.add(noted)
    failpoint("bridge.noted")
    if changes:
        table.commit(record)
        failpoint("bridge.committed")
    tidy(place, noted)
    shown = tuple(directory_of(table.partition_fields, one) for one in partitions or ())
    return BridgeReport(
        run=place.run,
        table=table.given,
        kind=table.kind,
        merged=merged,
        changed=changes,
        partitions=shown if table.partition_fields and partitions is not None else None,
    )


def _check_rows(
    table: Table, made: Manifest, digests: Mapping[str, Any], partitions: Sequence[Partition] | None, written: int
) -> None:
    """Raise StorageError where not all rows of the text, or of the partitions that change, were written."""
    expected = sum(part.rows for part in made.files)
    if partitions is not None:
        wanted = set(partitions)
        expected = sum(rows for parts in digests.values() for values, rows, _ in parts if tuple(values) in wanted)
    if written != expected:
        raise error("sums", problems=f"{table.given}: {written:,} rows were written, and the text has {expected:,}")


def _changes(counts: Mapping[str, int]) -> bool:
    """Tell whether a merge has changed any row."""
    return any(counts[f"master {one}"] for one in MASTER_OUTCOMES if one != "kept") or counts["feed inserted"] > 0


def _is_of(table: Table, schema: Any) -> bool:
    """Tell whether rows of a schema are rows of a table as it is."""
    held = output_dialect(schema, table.kind)[0]
    return _fields(table.schema) in (_fields(schema), _fields(held))


def _fields(schema: Any) -> list[tuple[str, Any]]:
    return [(part.name, part.type) for part in schema]
