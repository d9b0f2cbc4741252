"""How a master is partitioned, and which of its files lie in which partition, as its manifest says it.

A partition is known by its directory, relative to the dataset's: ``store_id=12/create_date=2026-01-31``. Tombstones
and sequences of rows lie in directories of the same name below ``_mutator/``. Where a record ID is unique in the whole
table, tombstones of records that never were in any partition have none: their directory is "".
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mutator.collector import paused
from mutator.config import Config
from mutator.errors import error
from mutator.manifest import DIRECTORY, DataFile, Manifest, Part, SideFile
from mutator.partition_by import PartitionField, parse_fields, text_of

__all__ = [
    "SPEC",
    "Files",
    "Partitioning",
    "by_partition",
    "check_names",
    "form_of",
    "is_partitioned",
    "moved",
    "partitioning_of",
    "stored_fields",
]

SPEC = "partitions"  # in the specification of a manifest
EARLIER = "earlier"  # forms that files of partitions still have which were not rewritten since
_FORM = ("format", "schema", "csv", "escaped")  # parts of a specification: what files look like


@dataclass(frozen=True)
class Partitioning:
    """What the directories of a master mean."""

    fields: tuple[PartitionField, ...]  # of rows as they are written
    scope: str = "table"  # or partition: where a record ID is unique
    types: tuple[str, ...] | None = None  # of their sources, where fields have types

    @property
    def by_table(self) -> bool:
        """Tell whether a record ID is unique in the whole table, so that its record may move."""
        return self.scope == "table"

    def spec(self) -> dict[str, Any]:
        """Return what the manifest says."""
        said: dict[str, Any] = {"by": text_of(self.fields), "scope": self.scope}
        return said if self.types is None else {**said, "types": list(self.types)}


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


def partitioning_of(config: Config, known: Manifest | None) -> Partitioning | None:
    """Return how a run partitions the master: as the manifest says, else the configuration; None for not at all.

    The fields are those of the configuration where it has any, with sources as it knows them.
    """
    said = known.spec.get(SPEC) if known is not None else None
    fields = config.partitioned_by
    if said is not None:
        fields = fields or parse_fields(said["by"])
    if not fields:
        return None
    return Partitioning(fields, config.key_scope or (said["scope"] if said is not None else "table"))


def check_names(fields: Sequence[PartitionField]) -> None:
    """Raise ConfigError where the manifest could not say these fields again, now that ordinals have names."""
    try:
        parse_fields(text_of(fields))
    except ValueError as fault:
        raise error("config", where="partitioned.by", faults=fault) from None


def stored_fields(spec: Mapping[str, Any]) -> tuple[PartitionField, ...]:
    """Return the partition fields of a dataset, whose sources are those of rows as they are written; none for none."""
    return parse_fields(spec[SPEC]["by"]) if SPEC in spec else ()


def moved(fields: Sequence[PartitionField], ordinal: Callable[[int], int]) -> tuple[PartitionField, ...]:
    """Return partition fields whose sources are counted in another layout."""
    return tuple(replace(one, source=ordinal(one.source)) if isinstance(one.source, int) else one for one in fields)


@paused()
def by_partition(known: Manifest) -> dict[str, Files]:
    """Return the files of each partition, by its directory, in their order."""
    found: dict[str, tuple[list[DataFile], list[SideFile], list[SideFile]]] = {}
    for part in known.files:
        found.setdefault(posixpath.dirname(part.path), ([], [], []))[0].append(part)
    for side in known.beside:
        place = {"tombstones": 1, "order": 2}.get(side.kind)
        if place is not None:
            directory = posixpath.dirname(side.path.removeprefix(f"{DIRECTORY}/{side.kind}/"))
            found.setdefault(directory, ([], [], []))[place].append(side)  # type: ignore[arg-type]
    return {directory: Files(*map(tuple, found[directory])) for directory in sorted(found)}  # type: ignore[arg-type]


def form_of(spec: Mapping[str, Any], form: int | None) -> dict[str, Any]:
    """Return what the files of a form look like: parts of a specification."""
    said = spec if form is None else spec[EARLIER][form]
    return {name: said[name] for name in _FORM if name in said}
