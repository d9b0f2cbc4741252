"""Export a table as delimited text, to a text copy that appears complete or not at all.

table -> batches of rows, in tasks -> a text file each -> manifest and sidecar -> one rename
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from mutator.bridge.contract import Batches, Table
from mutator.bridge.tasks import write_file
from mutator.bridge.text_dataset import TEXT, make_manifest, output_dialect, spec_of
from mutator.dataset.commit.publish import check_apart, publish
from mutator.dataset.manifest import FeedFile, Manifest
from mutator.dataset.schema_file import write_sidecar
from mutator.engine.each import checked, guarded
from mutator.errors import error
from mutator.formats.files.contract import Dialect
from mutator.storage import located_to_write


@dataclass(frozen=True)
class Exported:
    """The text copy that an export wrote."""

    manifest: Manifest
    litter: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(part.rows for part in self.manifest.files)

    @property
    def bytes(self) -> int:
        """Bytes of text."""
        return sum(part.bytes for part in self.manifest.files)


def export(table: Table, to: str, run: str, *, delimiter: bytes = b",", feed: Sequence[FeedFile] = ()) -> Exported:
    """Write all rows of a table as text to a directory that must not exist.

    run: a unique id. delimiter: one byte. feed: feed files merged into the table before, so that they are not merged
    again. Raises StateError if the table changes meanwhile; then nothing is published.
    """
    _, to = located_to_write(to)
    if to != table.name:  # else ``publish`` reports that the output exists
        check_apart(to, table.name, "table and text")
    schema, dialect = output_dialect(table.schema, TEXT, delimiter=delimiter)
    spec = spec_of(TEXT, schema, dialect, table.partition_fields)

    def write(staging: str) -> Manifest:
        before = table.files()
        work = partial(_write, staging, run, schema, dialect)
        files = [file for file in checked(table.export(work)) if file is not None]
        if table.files() != before:
            raise error("table.changed", table=table.name, what="was exported")
        return make_manifest(run, spec, sorted(files, key=attrgetter("path")), write_sidecar(staging, spec), feed)

    published = publish(to, run, write)
    return Exported(published.manifest, published.litter)


def part_name(run: str, number: int, attempt: int, suffix: str) -> str:
    """Return the name of a task's file, different for each attempt."""
    return f"part-{number:05d}-{run}" + (f"-{attempt}" if attempt else "") + suffix


def _write(staging: str, run: str, schema: Any, dialect: Dialect, batches: Batches, number: int, attempt: int) -> Any:
    return guarded(write_file, staging, part_name(run, number, attempt, ".txt"), TEXT, schema, dialect, batches)
