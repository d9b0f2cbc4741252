"""Import an exported text copy as the files of a new directory.

Export a table as delimited text, to a text copy that appears complete or not at all.

table -> batches of rows, in tasks -> a text file each -> manifest and sidecar -> one rename
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mutator.bridge.contract import Batches, BridgeTable
from mutator.bridge.text_dataset import (
    TEXT,
    BridgeTarget,
    WrittenDataset,
    make_state,
    output_dialect,
    read_dataset,
    spec_of,
    target_of,
    text_ranges,
    write_file,
)
from mutator.bridge.write import write_table
from mutator.dataset.commit.publish import check_apart, publish
from mutator.dataset.commits import FeedFile
from mutator.dataset.directory import differing_parts
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.schema_file import write_sidecar
from mutator.dataset.state import State
from mutator.engine.each import Each, checked, guarded
from mutator.errors import error
from mutator.frames.file_rows import read_range
from mutator.rules.file_names import first_few
from mutator.storage import located_to_write, storage_for


def export(
    table: BridgeTable, to: str, run: str, *, delimiter: bytes = b",", feed: Sequence[FeedFile] = ()
) -> WrittenDataset:
    """Write all rows of a table as text to a directory that must not exist.

    run: a unique id. delimiter: one byte. feed: feed files merged into the table before, so that they are not merged
    again. Raises StateError if the table changes meanwhile; then nothing is published.
    """

    def rows(target: BridgeTarget) -> list[FileEntry]:
        before = table.files()
        files = [file for file in checked(table.export(partial(_write, target))) if file is not None]
        if table.files() != before:
            raise error("table.changed", table=table.name, what="was exported")
        return files

    return _publish(table, to, run, delimiter, feed, rows)


def export_no_rows(
    table: BridgeTable, to: str, run: str, *, delimiter: bytes = b",", feed: Sequence[FeedFile] = ()
) -> None:
    """Write a text copy that has the fields of a table and none of its rows; see ``export``."""
    _publish(table, to, run, delimiter, feed, lambda _: [])


def _publish(
    table: BridgeTable,
    to: str,
    run: str,
    delimiter: bytes,
    feed: Sequence[FeedFile],
    rows: Callable[[BridgeTarget], Sequence[FileEntry]],
) -> WrittenDataset:
    """Publish a text copy. rows: writes its files, and returns their entries of the manifest."""
    _, to = located_to_write(to)
    if to != table.name:  # else ``publish`` reports that the output exists
        check_apart(to, table.name, role="text copy", other_role="table")
    schema, dialect = output_dialect(table.schema, TEXT, delimiter=delimiter)
    spec = spec_of(TEXT, schema, dialect, table.partition_fields)

    def write(staging: str) -> State:
        files = rows(BridgeTarget(staging, TEXT, schema, dialect, run))
        return make_state(run, spec, files, write_sidecar(staging, spec), feed)

    return WrittenDataset.of(publish(to, run, write))


def _write(target: BridgeTarget, batches: Batches, number: int, attempt: int) -> Any:
    return guarded(write_file, target, target.file_name(number, attempt), batches)


def text_copy(path: str) -> tuple[str, State]:
    """Return the absolute path of a text copy, and its manifest."""
    storage, path = located_to_write(path)
    return path, read_dataset(storage, path)


def whole_copy(path: str) -> tuple[str, State]:
    """Return path and manifest of a text copy; raises StateError if its files differ from the manifest."""
    path, known = text_copy(path)
    problems = differing_parts(storage_for(path), path, known.parts())
    if problems:
        raise error("manifest.files", path=path, what=first_few(problems))
    return path, known


def import_to_path(
    source: str, to: str, file_format: str, run: str, each: Each, *, codec: str | None = None
) -> WrittenDataset:
    """Write a text copy as files of a format to a directory that must not exist, with a directory for each partition.

    codec: as in ``output.codec``; None for the format's default. Raises DataError for a field that the format cannot
    store, and for a value that is not of its field's type.
    """
    source, known = whole_copy(source)
    _, to = located_to_write(to)
    if to != source:  # then the output exists
        check_apart(to, source, role="table", other_role="text copy")
    text_schema, ranges = text_ranges(source, known)
    fields = tuple(known.spec.get("partitioned by", ()))
    schema, dialect = output_dialect(text_schema, file_format, codec=codec)

    def write(staging: str) -> State:
        target = target_of(staging, file_format, schema, fields, run, codec)
        made = write_table(each, target, ranges, partial(read_range, schema=schema))
        return make_state(run, spec_of(file_format, schema, dialect, fields), made)

    return WrittenDataset.of(publish(to, run, write))
