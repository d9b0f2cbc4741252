"""The partitioning of a master: that of its manifest, else that of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mutator.config import Config
from mutator.dataset.manifest import Manifest
from mutator.dataset.partition_index import SPEC
from mutator.errors import error
from mutator.rules.partition_transforms import PartitionField, checked_fields, parse_fields, text_of


@dataclass(frozen=True)
class Partitioning:
    """The fields that the partitions of a master are derived from."""

    fields: tuple[PartitionField, ...]  # of written rows
    scope: str = "table"  # or "partition": where a record ID is unique
    types: tuple[str, ...] | None = None  # of their sources, if the files have a schema

    @property
    def by_table(self) -> bool:
        """Return whether a record ID is unique in the whole table, so that its record may move between partitions."""
        return self.scope == "table"

    def spec(self) -> dict[str, Any]:
        """Return the specification for the manifest."""
        spec: dict[str, Any] = {"by": text_of(self.fields), "scope": self.scope}
        return spec if self.types is None else {**spec, "types": list(self.types)}


def partitioning_of(config: Config, known: Manifest | None) -> Partitioning | None:
    """Return the partitioning of a run's master; None without partitions.

    Fields named in the configuration come from there, as their sources may be ordinals of feed rows.
    """
    stored = known.spec.get(SPEC) if known is not None else None
    fields = config.partitioned_by
    if stored is not None:
        fields = fields or parse_fields(stored["by"])
    if not fields:
        return None
    return Partitioning(fields, config.key_scope or (stored["scope"] if stored is not None else "table"))


def check_names(fields: Sequence[PartitionField]) -> None:
    """Raise ConfigError for fields that could not be parsed from the manifest, now that ordinals have names."""
    try:
        checked_fields(fields)
    except ValueError as fault:
        raise error("config", where="partitioned.by", faults=fault) from None


def moved(fields: Sequence[PartitionField], ordinal: Callable[[int], int]) -> tuple[PartitionField, ...]:
    """Return partition fields with the ordinals of their sources mapped to another layout."""
    return tuple(replace(one, source=ordinal(one.source)) if isinstance(one.source, int) else one for one in fields)
