"""How a run partitions its master: as the manifest says, else as the configuration does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mutator.config import Config
from mutator.dataset.manifest import Manifest
from mutator.dataset.partition_index import SPEC
from mutator.errors import error
from mutator.rules.partition_transforms import PartitionField, parse_fields, text_of

__all__ = ["Partitioning", "check_names", "moved", "partitioning_of"]


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


def moved(fields: Sequence[PartitionField], ordinal: Callable[[int], int]) -> tuple[PartitionField, ...]:
    """Return partition fields whose sources are counted in another layout."""
    return tuple(replace(one, source=ordinal(one.source)) if isinstance(one.source, int) else one for one in fields)
