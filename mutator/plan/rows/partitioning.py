"""The partitioning of a master: that of its manifest, else that of the configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mutator.dataset.manifest import Manifest
from mutator.dataset.partition_index import SPEC, stored_fields
from mutator.rules.partition_fields import PartitionField, text_of


@dataclass(frozen=True)
class Partitioning:
    """The fields that the partitions of a master are derived from; without fields it has no partitions."""

    fields: tuple[PartitionField, ...] = ()  # of written rows
    scope: str = "table"  # or "partition": where a record ID is unique
    types: tuple[str, ...] | None = None  # of their sources, if the files have a schema

    @property
    def by_table(self) -> bool:
        """Return whether a record may move between partitions: its ID is unique in the whole table."""
        return bool(self.fields) and self.scope == "table"

    @property
    def by_partition(self) -> bool:
        """Return whether a record ID is unique only within a partition."""
        return bool(self.fields) and self.scope == "partition"

    def spec(self) -> dict[str, Any]:
        """Return the members of a manifest's specification that describe the partitions."""
        if not self.fields:
            return {}
        types = {} if self.types is None else {"types": list(self.types)}
        return {SPEC: {"by": text_of(self.fields), "scope": self.scope, **types}}


def partitioning_of(fields: tuple[PartitionField, ...], scope: str | None, known: Manifest | None) -> Partitioning:
    """Return the partitioning of a run's master.

    fields, scope: those of the configuration, if it has any: the sources of these fields may be ordinals of feed rows.
    """
    spec = known.spec if known is not None else {}
    stored_scope = spec[SPEC]["scope"] if SPEC in spec else "table"
    return Partitioning(fields or stored_fields(spec), scope or stored_scope)


def moved(fields: Sequence[PartitionField], ordinal: Callable[[int], int]) -> tuple[PartitionField, ...]:
    """Return partition fields with the ordinals of their sources mapped to another layout."""
    return tuple(replace(one, source=ordinal(one.source)) if isinstance(one.source, int) else one for one in fields)
