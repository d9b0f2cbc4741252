"""Describe the datasets that the bridge writes: like those of a run, but without a key until the first merge.

Write the files of a table in a task, without Spark.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import pyarrow as pa

from mutator.dataset.commit.publish import Published
from mutator.dataset.commit.staging import StagedFile
from mutator.dataset.commits import RUN, Commit, FeedFile
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_content import WHOLE
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import rows_of
from mutator.dataset.state import KnownFeed, State, spec_without_key
from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import NotReadable, Window
from mutator.formats.files.avro_schema import avro_of
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS, codec_of
from mutator.frames.file_rows import FileRange
from mutator.plan.inspect.managed import dataset_sources
from mutator.plan.rows.storable_types import storable_schema
from mutator.rules import schema_evolution as schemas
from mutator.rules.known_formats import FORMATS
from mutator.storage import Storage, storage_for


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
        return f"part-{number:05d}-{self.run}{again}{FORMATS[self.format].suffix}"


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


TEXT = "escaped"  # the file format of text copies


@dataclass(frozen=True)
class WrittenDataset:
    """The files that an export or import wrote."""

    files: int
    rows: int
    bytes: int
    litter: tuple[str, ...] = ()
    dataset: str = ""  # commit ID of their manifest

    @classmethod
    def of(cls, published: Published[State]) -> WrittenDataset:
        """Return the files of a published manifest."""
        files = published.made.files
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        return cls(len(files), rows, size, published.litter, published.made.commit.id)


def output_dialect(
    schema: Any, file_format: str, *, delimiter: bytes = b",", codec: str | None = None
) -> tuple[Any, Dialect]:
    """Return the schema and the dialect of files of a format that store rows of a schema.

    codec: as in ``output.codec``. Raises DataError for a field that the format cannot store.
    """
    library_codec = codec_of(file_format, codec)
    stored = storable_schema(schema, file_format)
    if file_format != "avro":
        return stored, Dialect(delimiter, codec=library_codec)
    try:
        return stored, Dialect(avro=avro_of(stored, None), codec=library_codec)
    except NotReadable as fault:
        raise error("config", where=f"--format {file_format}", faults=fault) from None


def target_of(
    directory: str, file_format: str, schema: Any, partition_fields: Sequence[str], run: str, codec: str | None
) -> BridgeTarget:
    """Return the target for rows of a schema. Raises ConfigError or DataError if the format cannot store them."""
    inner = pa.schema([field for field in schema if field.name not in partition_fields])
    stored, dialect = output_dialect(inner, file_format, codec=codec)
    return BridgeTarget(directory, file_format, stored, dialect, run, tuple(partition_fields))


def spec_of(file_format: str, schema: Any, dialect: Dialect, partition_fields: Sequence[str]) -> dict[str, Any]:
    """Return the manifest's specification of a dataset that has no key yet."""
    spec = spec_without_key(file_format, schemas.to_text(schema) if dialect.avro is None else dict(dialect.avro))
    if file_format == TEXT:
        spec[TEXT] = {"delimiter": dialect.delimiter.decode("latin-1")}
    if partition_fields:
        spec["partitioned by"] = list(partition_fields)
    return spec


def make_state(
    run: str,
    spec: dict[str, Any],
    files: Sequence[FileEntry],
    beside: Sequence[FileEntry] = (),
    feed: Sequence[FeedFile] = (),
) -> State:
    """Return the state of written files. feed: feed files merged into the table before."""
    sums = rows_of(files, beside)
    commit = Commit(
        number=0,
        id=str(uuid.uuid4()),
        action=RUN,
        run=run,
        committed=datetime.now(UTC).isoformat(timespec="milliseconds"),
        counts={"output rows": sums["records"]},
        **sums,
    )
    return State(
        commit=commit,
        spec=spec,
        known=KnownFeed(tuple(feed)),
        files=tuple(sorted(files, key=attrgetter("path"))),
        beside=tuple(beside),
    )


def read_dataset(storage: Storage, path: str) -> State:
    """Read the manifest of a text copy. Raises ConfigError if the directory is not a text copy, and StateError."""
    known = read_manifest(storage, path)
    if known is None:
        what = "text copy: the directory was not written by mutator bridge export, nor merged from such a copy"
        raise error("path.missing", path=path, what=what)
    if known.spec.get("format") != TEXT:
        what = f"is a dataset of {known.spec.get('format')}, and the bridge imports delimited text that it exported"
        raise error("format", path=path, what=what, cure="export the table, or use the files as they are")
    return known


def text_ranges(path: str, known: State) -> tuple[Any, list[FileRange]]:
    """Return the schema of a text copy, a pa.Schema, and its files as ranges to read."""
    file_schema = FILE_FORMATS[TEXT].stored(known.spec)
    sources, _ = dataset_sources(path, known)
    ranges = [
        FileRange(one.path, one.bytes, TEXT, file_schema.schema, one.dialect, Window(one.ending), one.checksum)
        for one in sources
    ]
    return file_schema.schema, ranges
