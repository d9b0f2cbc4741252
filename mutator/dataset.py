"""A dataset that this program wrote: its directory against its manifest, and its files as inputs."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mutator import manifest, naming, splitrecord
from mutator.errors import error
from mutator.formats import text
from mutator.formats.kinds import KINDS
from mutator.formats.tabular import Look
from mutator.look import Source
from mutator.manifest import DataFile, Manifest, Part, SideFile
from mutator.partitioning import form_of
from mutator.storage import Entry, Storage, blocks

__all__ = [
    "check_files",
    "dataset_look",
    "dataset_sources",
    "differing_parts",
    "file_source",
    "forms_of",
    "is_straggler",
    "read_manifest",
    "tombstone_source",
]


def read_manifest(storage: Storage, directory: str) -> Manifest | None:
    """Read the manifest of a directory; None for one that no run wrote, such as a split feed."""
    path = posixpath.join(directory, manifest.PATH)
    if storage.look(path) is None:
        split = storage.look(posixpath.join(directory, splitrecord.PATH)) is not None
        if not split and storage.look(posixpath.join(directory, manifest.DIRECTORY)) is not None:
            raise error("manifest.damaged", path=path, why="it is missing beside the rest of its directory")
        return None
    with storage.open(path) as stream:
        return manifest.parse(b"".join(blocks(stream)), path)


def check_files(storage: Storage, master: str, parts: Sequence[Part], visible: Iterable[Entry]) -> None:
    """Raise StateError where a directory is not what its manifest says. visible: what is in it, as far as it shows."""
    there = {entry.path.removeprefix(f"{master}/"): entry for entry in visible}
    problems = differing_parts(storage, master, parts, there)
    named = {part.path for part in parts}
    for path, entry in sorted(there.items()):
        hidden = any(map(naming.is_hidden, path.split("/")))
        if path not in named and not hidden and not is_straggler(storage, entry.name):
            problems.append(f"{path} is not one of its files")
    if problems:
        raise error("manifest.files", path=master, what=naming.some(problems))


def differing_parts(
    storage: Storage, directory: str, parts: Sequence[Part], there: Mapping[str, Entry] | None = None
) -> list[str]:
    """Say which files of a manifest are missing, or have another size. there: what was seen of it just now."""
    problems = []
    for part in sorted(parts, key=lambda part: part.path):
        entry = (there or {}).get(part.path) or storage.look(posixpath.join(directory, part.path))
        if entry is None:
            problems.append(f"{part.path} is missing")
        elif entry.kind != "file" or entry.bytes != part.bytes:
            problems.append(f"{part.path} has {entry.bytes} bytes and should have {part.bytes}")
    return problems


def is_straggler(storage: Storage, name: str) -> bool:
    """Tell whether a file that no manifest names is of a task that ended after its run did, or was killed.

    It is no part of the dataset, and no fault of it either. That can only be where files are written where they stay;
    elsewhere such a task finds no directory.
    """
    return not storage.renames and naming.has_run_id(name)


def forms_of(master: str, known: Manifest) -> tuple[Source, ...]:
    """Return a file of each form that fields with names have in a partitioned master: what they are is all of it."""
    if "fields" not in known.spec["key"]:
        return ()
    of_forms = {part.form: part for part in reversed(known.files)}
    return tuple(
        file_source(master, known.spec, part) for _, part in sorted(of_forms.items(), key=lambda item: str(item[0]))
    )


def dataset_sources(path: str, known: Manifest) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Return the data files and the tombstone files that a manifest names."""
    beside = {part.path: part for part in known.beside}
    look = dataset_look(known, path)
    data = tuple(
        file_source(path, known.spec, part, beside.get(part.order or ""), look)
        for part in sorted(known.files, key=lambda part: os.fsencode(part.path))
    )
    return data, tuple(tombstone_source(path, part) for part in known.beside if part.kind == "tombstones")


def file_source(
    path: str, spec: Mapping[str, Any], part: DataFile, order: SideFile | None = None, look: Look | None = None
) -> Source:
    """Return a data file of a dataset. order: the file with the sequences of its rows. look: of all of its files."""
    stored = form_of(spec, part.form)
    if look is None and "fields" in spec["key"]:
        look = stored_look(stored, path)
    return Source(
        path=posixpath.join(path, part.path),
        name=naming.base_name(part.path),
        bytes=part.bytes,
        sequence=naming.sequence(naming.base_name(part.path)),
        ending=text.EXACT_LF,
        order_path=posixpath.join(path, part.order) if part.order else None,
        order_checksum=order.checksum if order is not None else None,
        checksum=part.checksum,
        bucket=part.bucket,
        part=part,
        order_part=order,
        kind=stored["format"],
        look=look,
        header_end=0 if look is None else look.header_end,
        stored=stored,
    )


def tombstone_source(path: str, part: SideFile) -> Source:
    """Return a file of tombstones of a dataset."""
    return Source(
        path=posixpath.join(path, part.path),
        name=naming.base_name(part.path),
        bytes=part.bytes,
        checksum=part.checksum,
        bucket=part.bucket,
        part=part,
    )


def dataset_look(known: Manifest, path: str) -> Look | None:
    """Return what a manifest says of the fields of its files; None for text."""
    return stored_look(known.spec, path) if "fields" in known.spec["key"] else None


def stored_look(spec: Mapping[str, Any], path: str) -> Look:
    """Return what a specification says of the fields of files; raises StateError where it cannot be read."""
    try:
        return KINDS[spec["format"]].stored(spec)
    except (KeyError, ValueError, pa.ArrowException) as fault:
        raise error("manifest.damaged", path=path, why=f"its schema cannot be read: {fault}") from None
