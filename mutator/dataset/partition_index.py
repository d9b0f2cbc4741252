"""How a master is partitioned, and which of its files lie in which partition, as its manifest says it.

A partition is known by its directory, relative to the dataset's: ``store_id=12/create_date=2026-01-31``. Tombstones
and sequences of rows lie in directories of the same name below ``_mutator/``. Where a record ID is unique in the whole
table, tombstones of records that never were in any partition have none: their directory is "".
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mutator.dataset.gc_pause import paused
from mutator.dataset.manifest import DIRECTORY, DataFile, Manifest, Part, SideFile
from mutator.rules.partition_transforms import PartitionField, parse_fields

__all__ = [
    "SPEC",
    "Files",
    "by_partition",
    "form_of",
    "is_partitioned",
    "stored_fields",
]

SPEC = "partitions"  # in the specification of a manifest
EARLIER = "earlier"  # forms that files of partitions still have which were not rewritten since
_FORM = ("format", "schema", "csv", "escaped")  # parts of a specification: what files look like


@dataclass(frozen=True)
class Files:
    """The files of a partition."""

    data: tuple[DataFile, ...] = ()
    tombstones: tuple[SideFile, ...] = ()
    orders: tuple[SideFile, ...] = ()  # the sequences of its rows

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of them."""
        return (*self.data, *self.tombstones, *self.orders)

    @property
    def buckets(self) -> int | None:
        """How many buckets the partition has; None where no file says it."""
        return next((part.buckets for part in self.parts), None)

    @property
    def bytes(self) -> int:
        """The bytes of its data."""
        return sum(part.bytes for part in self.data)


def is_partitioned(known: Manifest | None) -> bool:
    """Tell whether a dataset lies in partitions."""
    return known is not None and SPEC in known.spec


def stored_fields(spec: Mapping[str, Any]) -> tuple[PartitionField, ...]:
    """Return the partition fields of a dataset, whose sources are those of rows as they are written; none for none."""
    return parse_fields(spec[SPEC]["by"]) if SPEC in spec else ()


@paused()
def by_partition(known: Manifest) -> dict[str, Files]:
    """Return the files of each partition, by its directory, in their order."""
    found: dict[str, tuple[list[DataFile], list[SideFile], list[SideFile]]] = {}
    for part in known.files:
        found.setdefault(posixpath.dirname(part.path), ([], [], []))[0].append(part)
    for side in known.beside:
        place = {"tombstones": 1, "order": 2}.get(side.role)
        if place is not None:
            directory = posixpath.dirname(side.path.removeprefix(f"{DIRECTORY}/{side.role}/"))
            found.setdefault(directory, ([], [], []))[place].append(side)  # type: ignore[arg-type]
    return {directory: Files(*map(tuple, found[directory])) for directory in sorted(found)}  # type: ignore[arg-type]


def form_of(spec: Mapping[str, Any], form: int | None) -> dict[str, Any]:
    """Return what the files of a form look like: parts of a specification."""
    said = spec if form is None else spec[EARLIER][form]
    return {name: said[name] for name in _FORM if name in said}
