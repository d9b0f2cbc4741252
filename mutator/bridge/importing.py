"""Import delimited text that was exported, as the files of a new directory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from mutator.bridge.tasks import read_piece
from mutator.bridge.text_dataset import check_apart, make_manifest, output_dialect, read_dataset, spec_of, text_pieces
from mutator.bridge.write import write_table
from mutator.dataset.commit.publish import publish
from mutator.dataset.directory import differing_parts
from mutator.dataset.manifest import Manifest
from mutator.engine.each import Each
from mutator.errors import error
from mutator.rules.file_names import first_few
from mutator.storage import absolute, writable_storage_for

__all__ = ["Imported", "import_to_path", "read_rows", "text_copy", "whole_copy"]


@dataclass(frozen=True)
class Imported:
    """What an import has written."""

    files: int
    rows: int
    bytes: int
    litter: tuple[str, ...] = ()


def text_copy(path: str) -> tuple[str, Manifest]:
    """Return the full path of a text copy, and its manifest."""
    path = absolute(path)
    storage = writable_storage_for(path)
    path = storage.resolve(path)
    return path, read_dataset(storage, path)


def whole_copy(path: str) -> tuple[str, Manifest]:
    """Return the same of a text copy whose files are as its manifest says; raises StateError where they are not."""
    path, known = text_copy(path)
    problems = differing_parts(writable_storage_for(path), path, known.parts())
    if problems:
        raise error("manifest.files", path=path, what=first_few(problems))
    return path, known


def import_to_path(source: str, to: str, kind: str, run: str, each: Each, *, codec: str | None = None) -> Imported:
    """Write a text copy as files of a kind to a directory that must not exist; its partition fields become directories.

    codec: as ``output.codec`` has it; None for the kind's own. Raises DataError for a field that the kind cannot hold,
    and for a value that is none of its type.
    """
    source, known = whole_copy(source)
    to = absolute(to)
    to = writable_storage_for(to).resolve(to)
    if to != source:  # then the output exists
        check_apart(to, source, "text and table")
    text_schema, pieces = text_pieces(source, known)
    fields = tuple(known.spec.get("partitioned by", ()))
    schema, dialect = output_dialect(text_schema, kind, codec=codec)

    def write(staging: str) -> Manifest:
        made = write_table(each, staging, schema, kind, fields, pieces, read_rows(schema), run, codec=codec)
        return make_manifest(run, spec_of(kind, schema, dialect, fields), sorted(made, key=attrgetter("path")), ())

    published = publish(to, run, write)
    files = published.manifest.files
    return Imported(len(files), sum(one.rows for one in files), sum(one.bytes for one in files), published.litter)


def read_rows(schema: Any) -> Any:
    """Return the function that reads a piece as rows of a schema."""
    return partial(_read, schema)


def _read(schema: Any, piece: Any) -> Any:
    return read_piece(piece, schema)
