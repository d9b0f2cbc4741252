"""Write the files of a table in a task, without Spark."""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from mutator.dataset.commit.staging import StagedFile
from mutator.dataset.file_content import WHOLE
from mutator.dataset.file_entry import FileEntry
from mutator.errors.failpoints import failpoint
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.storage import storage_for


@dataclass(frozen=True)
class BridgeTarget:
    """Where and how the files of a table are written."""

    directory: str
    format: str  # a key of FILE_FORMATS
    schema: Any  # of the files: pa.Schema
    dialect: Dialect
    run: str
    partition_fields: tuple[str, ...] = ()  # those that the schema lacks, because the directories of files have them

    def file_name(self, number: int, attempt: int) -> str:
        """Return the name of a task's file, different for each attempt."""
        again = f"-{attempt}" if attempt else ""
        return f"part-{number:05d}-{self.run}{again}{FILE_FORMATS[self.format].suffix}"


def write_file(target: BridgeTarget, name: str, batches: Iterable[Any], *, empty: bool = False) -> FileEntry | None:
    """Write batches to a file that appears once it is complete; return its entry for the manifest.

    empty: write the file even if there are no rows; else it is left out and None returned.
    """
    source = iter(batches)
    first = [*islice((batch for batch in source if batch.num_rows), 1)]
    if not first and not empty:
        return None
    path = posixpath.join(target.directory, name)
    with storage_for(path).create_new(path) as stream:
        staged = StagedFile(stream, name, WHOLE)
        writer = FILE_FORMATS[target.format].writer(staged, target.schema, target.dialect)  # type: ignore[arg-type]
        rows = 0
        for batch in chain(first, source):
            writer.write(batch)
            rows += batch.num_rows
        writer.close()
    failpoint("bridge.file.written")
    return staged.entry(rows)
