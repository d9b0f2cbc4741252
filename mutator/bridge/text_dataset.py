"""Datasets that the bridge writes: like those of a run, but without a key, until the first merge gives them one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from mutator.bridge.tasks import Piece
from mutator.dataset.directory import read_manifest
from mutator.dataset.manifest import DataFile, FeedFile, Manifest, SideFile
from mutator.errors import error
from mutator.formats.content import NotReadable, Window
from mutator.formats.files.avro_schema import avro_of
from mutator.formats.files.contract import Dialect
from mutator.formats.files.registry import FILE_FORMATS
from mutator.plan.inspect.managed import dataset_sources
from mutator.plan.rows.storable_types import storable_schema
from mutator.rules import schema_evolution as schemas
from mutator.storage import Storage

__all__ = ["TEXT", "check_apart", "make_manifest", "output_dialect", "read_dataset", "spec_of", "text_pieces"]

TEXT = "escaped"  # the kind of files that the bridge merges


def output_dialect(schema: Any, kind: str, *, delimiter: bytes = b",", codec: str | None = None) -> tuple[Any, Dialect]:
    """Return how rows of a schema are written as a kind: the schema that its files have, and the dialect.

    codec: as ``output.codec`` has it. Raises DataError for a field that the kind cannot hold.
    """
    codecs = FILE_FORMATS[kind].codecs
    if codec is not None and codec not in codecs:
        raise error("config", where="output.codec", faults=f"{codec} is none of {kind}: {', '.join(codecs)}")
    spoken = None if codec is None else codecs[codec]
    held = storable_schema(schema, kind)
    if kind != "avro":
        return held, Dialect(delimiter, codec=spoken)
    try:
        return held, Dialect(avro=avro_of(held, None), codec=spoken)
    except NotReadable as fault:
        raise error("config", where=f"--format {kind}", faults=fault) from None


def spec_of(kind: str, schema: Any, dialect: Dialect, partition_fields: Sequence[str]) -> dict[str, Any]:
    """Describe the rows of a dataset that has no key yet."""
    spec: dict[str, Any] = {
        "key": {"fields": [], "types": []},
        "order": {"by": "file name"},
        "op code": None,
        "format": kind,
        "schema": schemas.to_text(schema) if dialect.avro is None else dict(dialect.avro),
    }
    if kind == TEXT:
        spec[TEXT] = {"delimiter": dialect.delimiter.decode("latin-1")}
    if partition_fields:
        spec["partitioned by"] = list(partition_fields)
    return spec


def make_manifest(
    run: str, spec: dict[str, Any], files: Sequence[DataFile], beside: Sequence[SideFile], feed: Sequence[FeedFile] = ()
) -> Manifest:
    """Make the manifest of files that were written. feed: what had been merged into the table before."""
    return Manifest(
        commit=str(uuid.uuid4()),
        parent=None,
        run=run,
        committed=datetime.now(UTC).isoformat(timespec="milliseconds"),
        spec=spec,
        buckets=None,
        hash=None,
        horizon=None,
        snapshot=None,
        files=tuple(files),
        beside=tuple(beside),
        feed=tuple(feed),
        counts={"output rows": sum(part.rows for part in files)},
    )


def check_apart(place: str, other: str, roles: str) -> None:
    """Raise ConfigError where a place that is written to is, or lies in, another one."""
    if place == other or place.startswith(other.rstrip("/") + "/"):
        raise error("path.roles", path=place, roles=roles)


def read_dataset(storage: Storage, path: str) -> Manifest:
    """Read the manifest of a text copy. Raises ConfigError where a directory is none, StateError."""
    known = read_manifest(storage, path)
    if known is None:
        what = "text copy: the directory was not written by mutator bridge export, nor merged from such"
        raise error("path.missing", path=path, what=what)
    if known.spec.get("format") != TEXT:
        what = f"is a dataset of {known.spec.get('format')}, and the bridge imports delimited text that it exported"
        raise error("format", path=path, what=what, cure="export the table, or use the files as they are")
    return known


def text_pieces(path: str, known: Manifest) -> tuple[Any, list[Piece]]:
    """Return the schema of a text copy, and what reads its files."""
    file_schema = FILE_FORMATS[TEXT].stored(known.spec)
    dialect = Dialect(known.spec[TEXT]["delimiter"].encode("latin-1"))
    sources, _ = dataset_sources(path, known)
    pieces = [
        Piece(one.path, one.bytes, TEXT, file_schema.schema, dialect, Window(one.ending), one.checksum)
        for one in sources
    ]
    return file_schema.schema, pieces
