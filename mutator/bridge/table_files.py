"""List and probe the files of a table at a path, and find one schema for all of them."""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from mutator.bridge.contract import BridgeFile
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import NotReadable, Window
from mutator.formats.files.file_format import Dialect, FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.frames.file_rows import FileRange
from mutator.plan.inspect.probe import whole
from mutator.rules import file_names
from mutator.rules.known_formats import BY_TITLE, FORMATS
from mutator.rules.schema_evolution import normal, why_not, widened
from mutator.storage import Entry, Storage, storage_for
from mutator.storage.compression import sniff

_RANGE = 64 << 20  # bytes of a file that a task reads
_AT_WORK = ("_temporary", ".hive-staging", ".spark-staging")  # where other programs write uncommitted files
_LOGS = ("_delta_log", ".hoodie", "_spark_metadata")  # Delta Lake, Hudi, the file sink of Spark's streams


@dataclass(frozen=True)
class ProbedFile:
    """A file of a table, with its format and schema."""

    file: BridgeFile
    format: str  # a key of FILE_FORMATS
    schema: Any  # pa.Schema of the file, normal types
    checksum: str | None = None
    rows: int | None = None  # as a manifest has it

    def ranges(self) -> Iterator[FileRange]:
        """Yield the ranges that tasks read; only large files have more than one."""
        size = self.file.bytes
        ranged = FORMATS[self.format].splittable and self.checksum is None
        step = _RANGE if ranged else max(size, 1)
        for start in range(0, max(size, 1), step):
            yield FileRange(
                self.file.path,
                size,
                self.format,
                self.schema,
                window=Window("", start, min(start + step, size) if step < size else None),
                checksum=self.checksum,
                partition=self.file.values,
            )


def list_files(storage: Storage, path: str) -> list[BridgeFile]:
    """Return the data files at and below a path. Raises ConfigError for entries other than files and partitions."""
    entry = storage.stat(path)
    if entry is None:
        raise error("path.missing", path=path, what="table")
    if entry.type != "directory":
        raise error("path.kind", path=path, what=entry.type, cure="name the directory that it is in")
    for name in _LOGS:
        if storage.stat(posixpath.join(path, name)) is not None:
            why = f"has a log, {name}, that decides which of its files count and that mutator does not read"
            raise error("table.place", path=path, why=why, cure="write its rows to a plain table, and name that")
    return sorted(_below(storage, path, ""))


def _below(storage: Storage, directory: str, partition: str) -> Iterator[BridgeFile]:
    for entry in storage.entries(directory):
        if entry.name.startswith(_AT_WORK):
            why, cure = "contains files that another program has not committed yet", "wait for it, or remove them"
            raise error("table.place", path=entry.path, why=why, cure=cure)
        if file_names.is_hidden(entry.name):
            continue
        if entry.type == "directory" and "=" in entry.name[1:]:
            yield from _below(storage, entry.path, posixpath.join(partition, entry.name))
        elif entry.type == "file":
            yield BridgeFile(partition, entry.path, entry.bytes, milliseconds(entry))
        else:
            cure = "a table has data files, and directories such as dt=2026-01-31 for its partitions"
            raise error("path.kind", path=entry.path, what=entry.type, cure=cure)


def milliseconds(entry: Entry) -> int:
    """Return when a file was written, in milliseconds since 1970."""
    return round(entry.last_write * 1000)


def probe_files(files: Sequence[BridgeFile]) -> list[ProbedFile]:
    """Read the formats and schemas of files. Raises DataError."""
    found = []
    for file in files:
        with storage_for(file.path).open(file.path) as stream:
            file_format = BY_TITLE.get(sniff(stream.read(64)) or "")
        if file_format is None:
            what = "is neither ORC, Parquet nor Avro" if file.bytes else "is empty, and no ORC, Parquet or Avro file is"
            raise error("format", path=file.path, what=what, cure="take it out of the table")
        try:
            with storage_for(file.path).open(file.path) as stream:
                probed: FileSchema = FILE_FORMATS[file_format].probe(whole(stream, None), Dialect())
        except NotReadable as fault:
            raise error("damaged", path=file.path, why=fault) from None
        found.append(ProbedFile(file, file_format, normal(probed.schema, file.path)))
    return found


def united(found: Sequence[ProbedFile], path: str) -> tuple[Any, tuple[str, ...]]:
    """Return the schema of all rows, with the partition fields last, and the names of the partition fields.

    A field that some file lacks is nullable; a field of several types gets the type that all of them widen to.
    Raises DataError if there is no such type, or if files are partitioned by different fields.
    """
    partitions = {tuple(name for name, _ in one.file.values) for one in found}
    if len(partitions) > 1:
        shown = " and ".join(", ".join(names) or "no field" for names in sorted(partitions))
        what = f"is partitioned by {shown}"
        raise error("format", path=path, what=what, cure="name a table whose files are all as deep as each other")
    names = partitions.pop() if partitions else ()
    fields: dict[str, Any] = {}
    where: dict[str, str] = {}
    for one in found:
        for part in one.schema:
            if part.name in names:
                continue
            before = fields.get(part.name)
            if before is None:
                fields[part.name], where[part.name] = part, one.file.path
                continue
            data_type = widened(before.type, part.type)
            if data_type is None:
                raise error(
                    "schema.type",
                    field=part.name,
                    one=before.type,
                    path=where[part.name],
                    other_type=part.type,
                    other_path=one.file.path,
                    why=why_not(before.type, part.type),
                )
            fields[part.name] = before.with_type(data_type).with_nullable(before.nullable or part.nullable)
    for name, part in fields.items():
        if any(one.schema.get_field_index(name) < 0 for one in found):
            fields[name] = part.with_nullable(True)
    # The values of directories are text.
    return pa.schema([*fields.values(), *(pa.field(name, pa.string()) for name in names)]), names
