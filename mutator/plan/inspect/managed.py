"""The files of a managed dataset, as inputs of a run."""

import os
import posixpath
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import pyarrow as pa

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import damaged
from mutator.dataset.partition_index import IN_PATH, SPEC, Files, by_partition, form_of
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files import lines
from mutator.formats.files.file_format import FileSchema, stored_dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.source import Source
from mutator.rules import file_names


@dataclass(frozen=True)
class PartitionedMaster:
    """The files of a master that is partitioned already, and how those of each form are read."""

    path: str
    spec: Mapping[str, Any]
    partitions: Mapping[str, Files]  # by directory
    packs: tuple[FileEntry, ...]  # of filters of keys
    parts: tuple[FileEntry, ...]  # all of its files
    forms: Mapping[int, str] = field(default_factory=dict)  # form -> layout; the plan adds them


def check_directories(known: State, path: str) -> None:
    """Raise ConfigError for a table of a bridge that has the values of partition fields in directories alone."""
    fields = known.spec.get("partitioned by")
    if fields and known.is_of_bridge:
        raise error("master.bridge", path=path, fields=", ".join(fields))


def partitioned_master(path: str, known: State) -> PartitionedMaster | None:
    """Return the partitions that a manifest describes, None if the master has none."""
    if SPEC not in known.spec:
        return None
    packs = tuple(side for side in known.beside if side.role == "filters")
    return PartitionedMaster(path, known.spec, by_partition(known.parts()), packs, known.parts())


def forms_of(master: str, known: State) -> tuple[Source, ...]:
    """Return one file of each form of a partitioned master; none if its fields have no names."""
    if "fields" not in known.spec["key"]:
        return ()
    of_forms = {part.form: part for part in reversed(known.files)}
    return tuple(file_source(master, known.spec, of_forms[form]) for form in sorted(of_forms))


def dataset_sources(path: str, known: State) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Return the data files and the tombstone files that a manifest names."""
    beside = {part.path: part for part in known.beside}
    file_schema = dataset_schema(known, path)
    data = tuple(
        file_source(path, known.spec, part, beside.get(part.order or ""), None if part.form else file_schema)
        for part in sorted(known.files, key=lambda part: os.fsencode(part.path))
    )
    return data, tuple(tombstone_source(path, part) for part in known.beside if part.role == "tombstones")


def file_source(
    path: str,
    spec: Mapping[str, Any],
    part: FileEntry,
    order: FileEntry | None = None,
    file_schema: FileSchema | None = None,
) -> Source:
    """Return a data file of a dataset as an input.

    order: the file with the sequences of its rows. file_schema: that of all files of the dataset.
    """
    stored = form_of(spec, part.form)
    if file_schema is None and "fields" in spec["key"]:
        file_schema = stored_schema(stored, path)
    return Source(
        path=posixpath.join(path, part.path),
        name=file_names.base_name(part.path),
        bytes=part.bytes,
        sequence=file_names.sequence(file_names.base_name(part.path)),
        ending=lines.EXACT_LF,
        part=part,
        order_part=order,
        file_format=stored["format"],
        file_schema=file_schema,
        dialect=stored_dialect(stored),
        header_end=0 if file_schema is None else file_schema.header_end,
        stored=stored,
        in_path=tuple((name, part.partition[name]) for name in stored.get(IN_PATH, ())),
    )


def tombstone_source(path: str, part: FileEntry) -> Source:
    """Return a file of tombstones of a dataset."""
    return Source(
        path=posixpath.join(path, part.path),
        name=file_names.base_name(part.path),
        bytes=part.bytes,
        part=part,
    )


def dataset_schema(known: State, path: str) -> FileSchema | None:
    """Return the schema of a dataset's files, None for delimited text."""
    return stored_schema(known.spec, path) if "fields" in known.spec["key"] else None


def stored_schema(spec: Mapping[str, Any], path: str) -> FileSchema:
    """Return the schema in a specification. Raises StateError if it cannot be read."""
    try:
        return FILE_FORMATS[spec["format"]].stored(spec)
    except (KeyError, ValueError, pa.ArrowException) as fault:
        raise damaged(path, f"its schema cannot be read: {fault}") from None
