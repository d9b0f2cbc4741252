"""The partitioning of a master: that of its manifest, else that of the configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutator.dataset.partition_index import IN_PATH, SPEC, earlier_forms, form_of, stored_fields
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.known_formats import FORMATS
from mutator.rules.partition_fields import PartitionField, text_of


@dataclass(frozen=True)
class Partitioning:
    """The fields that the partitions of a master are derived from; without fields it has no partitions."""

    fields: tuple[PartitionField, ...] = ()  # of written rows
    scope: str = "table"  # or "partition": where a record ID is unique
    types: tuple[str, ...] | None = None  # of their sources, if the files have a schema
    in_path: tuple[str, ...] = ()  # those that written files have in the names of their directories alone

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
        in_path = {IN_PATH: list(self.in_path)} if self.in_path else {}
        return {SPEC: {"by": text_of(self.fields), "scope": self.scope, **types}, **in_path}


def partitioning_of(fields: tuple[PartitionField, ...], scope: str | None, known: State | None) -> Partitioning:
    """Return the partitioning of a run's master.

    fields, scope: those of the configuration, if it has any: the sources of these fields may be ordinals of feed rows.
    """
    spec = known.spec if known is not None else {}
    stored_scope = known.key_scope if known is not None else "table"
    return Partitioning(fields or stored_fields(spec), scope or stored_scope)


def with_fields_in_path(
    one: Partitioning,
    names: Sequence[str],
    columns: str | None,
    known: State | None,
    output: str,
    *,
    arrived: bool = False,
) -> Partitioning:
    """Return a partitioning with the fields that files of a format have in the names of their directories alone.

    names: of all fields. columns: as configured. known: the manifest of the dataset so far. arrived: files of a first
    master, or of a feed without one, have fields there. A directory with another name than the field, or with a value
    that is derived from it, does not replace the field. A file needs a field, so unless it is configured otherwise, all
    fields stay there where all are partition fields. Raises ConfigError.
    """
    forms = _forms_of_columns(known.spec, output) if known is not None and known.is_partitioned else []
    by_default = IN_PATH in forms[0] if forms else arrived or FORMATS[output].stores_schema
    if columns == "file" or (columns is None and not by_default) or output == "text":
        return one
    in_path = tuple(field.name for field in one.fields if field.transform == "identity" and field.name == field.source)
    if in_path and set(names) <= set(in_path):
        if columns is None:
            return one
        faults = "path would leave no field in the files, because all are partition fields; set it to file"
        raise error("config", where=setting("partition.columns"), faults=faults)
    return replace(one, in_path=in_path)


def fields_move(known: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    """Return whether partition fields leave the files of a partitioned master, or come into them.

    Then all of its files change, so that other programs find the same fields in each.
    """
    may_lack = spec["format"] != "text"
    return may_lack and any(form.get(IN_PATH) != spec.get(IN_PATH) for form in _forms_of_columns(known, spec["format"]))


def _forms_of_columns(spec: Mapping[str, Any], output: str) -> list[dict[str, Any]]:
    """Return the forms of a specification that say where the partition fields of a format are, the present one first.

    Delimited files have them by default, so they say nothing of those with types.
    """
    forms = (form_of(spec), *earlier_forms(spec).values())
    return [one for one in forms if IN_PATH in one or one["format"] == output or FORMATS[one["format"]].stores_schema]


def moved(fields: Sequence[PartitionField], ordinal: Callable[[int], int]) -> tuple[PartitionField, ...]:
    """Return partition fields with the ordinals of their sources mapped to another layout."""
    return tuple(replace(one, source=ordinal(one.source)) if isinstance(one.source, int) else one for one in fields)
