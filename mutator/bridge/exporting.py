"""Export a table as delimited text, to a text copy that appears complete or not at all.

table -> batches of rows, in tasks -> a text file each -> manifest and sidecar -> one rename
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mutator.bridge.contract import Batches, BridgeTable
from mutator.bridge.tasks import BridgeTarget, write_file
from mutator.bridge.text_dataset import TEXT, WrittenDataset, make_manifest, output_dialect, spec_of
from mutator.dataset.commit.publish import check_apart, publish
from mutator.dataset.commits import FeedFile
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import Manifest
from mutator.dataset.schema_file import write_sidecar
from mutator.engine.each import checked, guarded
from mutator.errors import error
from mutator.storage import located_to_write


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

    def write(staging: str) -> Manifest:
        files = rows(BridgeTarget(staging, TEXT, schema, dialect, run))
        return make_manifest(run, spec, files, write_sidecar(staging, spec), feed)

    return WrittenDataset.of(publish(to, run, write))


def _write(target: BridgeTarget, batches: Batches, number: int, attempt: int) -> Any:
    return guarded(write_file, target, target.file_name(number, attempt), batches)
