"""Filters on columns: the conditions of ``rules.conditions`` with the types of the columns that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.values.convert import converted, typed_value
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import Flags
from mutator.rules.conditions import NOT_NULL, NULL, Condition, Word
from mutator.rules.order_columns import flags
from mutator.rules.partition_fields import TIMES, PartitionField
from mutator.rules.partition_paths import values_of
from mutator.rules.partition_transforms import partition_rows
from mutator.rules.schema_evolution import nearest

_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_DAYS = ("date", "year")  # transforms whose results have an order
_OF_EQUAL = {"=": eq}
_OF_DAYS = {**_OF_EQUAL, "<": le, "<=": le, ">": ge, ">=": ge}
_OF_BYTES = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class Filter:
    """Conditions on the rows of a schema, with typed literals."""

    def __init__(self, conditions: Sequence[Condition], schema: Any, table: str) -> None:
        """Type the literals. schema: pa.Schema. Raises ConfigError for unknown columns, and for wrong literals."""
        self._conditions = [
            (one, field_of(schema, one.column, table), _typed(one, schema, table)) for one in conditions
        ]

    @property
    def columns(self) -> list[str]:
        """The columns that the conditions name."""
        return list(dict.fromkeys(one.column for one, _, _ in self._conditions))

    def key(self, names: Sequence[str]) -> list[Any] | None:
        """Return the values that the fields of a key must be equal to, each a pa.Scalar; None if one has no value."""
        values = {one.column: literal for one, _, literal in self._conditions if one.operator == "="}
        found = [values.get(name) for name in names]
        return None if not found or None in found else found

    @property
    def expression(self) -> Any:
        """A pc.Expression that holds for at least the same rows; None if it would hold for all."""
        parts = []
        for one, _, literal in self._conditions:
            column = pc.field(one.column)
            if one.operator == NULL:
                parts.append(column.is_null())
            elif one.operator == NOT_NULL:
                parts.append(column.is_valid())
            elif one.operator != "!=":  # the statistics of floats do not know NaN, which differs from all values
                parts.append(_COMPARE[one.operator](column, pc.scalar(literal)))
        return reduce(lambda left, right: left & right, parts) if parts else None

    def of(self, rows: Any) -> Any:
        """Return the rows of a pa.Table that meet all conditions."""
        return rows.filter(self.met(rows)) if self._conditions else rows

    def met(self, rows: Any) -> Any:
        """Return which rows of a pa.Table meet all conditions, of which there is at least one."""
        masks = [_met(one, rows.column(one.column), literal) for one, _, literal in self._conditions]
        return reduce(pc.and_, masks)

    def met_by(self, values: Mapping[str, bytes]) -> bool:
        """Return whether a row of delimited text meets all conditions. values: of its columns, large_binary."""
        return all(
            one.operator == NOT_NULL
            if literal is None
            else _OF_BYTES[one.operator](values[one.column], literal.as_py())
            for one, _, literal in self._conditions
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The conditions as texts, sorted, the same for every spelling of a literal."""
        return tuple(sorted({_text(one, literal) for one, _, literal in self._conditions}))

    def partitions(self, fields: Sequence[PartitionField], names: Sequence[str]) -> set[str] | None:
        """Return the partitions that may have such rows, of those with some directories; None for all."""
        chosen = set(names)
        for level, field in enumerate(fields):
            for one, of_schema, literal in self._conditions:
                if one.column == str(field.source) and literal is not None:
                    chosen = {name for name in chosen if _may_have(one, of_schema.type, literal, field, name, level)}
        return None if len(chosen) == len(names) else chosen


@dataclass(frozen=True)
class Scope:
    """The part of a master that a full snapshot has: the records for which conditions hold.

    conditions: their columns are names, or, of delimited text, ordinals as text. schema: pa.Schema of these columns, of
    large_binary in delimited text.
    """

    conditions: tuple[Condition, ...]
    schema: Any

    @property
    def filter(self) -> Filter:
        """The conditions with typed literals. Raises ConfigError for wrong literals."""
        return _filter_of(self.conditions, self.schema)

    @property
    def columns(self) -> list[str]:
        """The columns that the conditions name."""
        names: list[str] = self.schema.names
        return names

    @property
    def ordinals(self) -> tuple[int, ...]:
        """The columns of delimited text."""
        return tuple(map(int, self.columns))

    @property
    def outside(self) -> str:
        """Why a row of a snapshot is a reject if it is not in the part."""
        return f"is not in the part of the snapshot (sync.scope: {' and '.join(self.filter.texts)})"

    def moved(self, ordinal: Callable[[int], int]) -> Scope:
        """Return the scope of delimited text with its ordinals mapped to another layout."""

        def moved(name: str) -> str:
            return str(ordinal(int(name)))

        conditions = tuple(replace(one, column=moved(one.column)) for one in self.conditions)
        return Scope(conditions, pa.schema([one.with_name(moved(one.name)) for one in self.schema]))

    def inside(self, columns: Sequence[Any]) -> Flags:
        """Return which rows are in the part. columns: pa.Arrays of the values of ``columns``."""
        typed = [
            column if column.type == one.type else converted(column, one.type, True)[0]
            for column, one in zip(columns, self.schema, strict=True)
        ]
        return flags(self.filter.met(pa.table(typed, schema=self.schema)).combine_chunks())


@lru_cache(64)
def _filter_of(conditions: tuple[Condition, ...], schema: Any) -> Filter:
    return Filter(conditions, schema, "")


def _text(condition: Condition, literal: Any) -> str:
    column = condition.column
    column = column if re.fullmatch(r"\w+", column) else '"{}"'.format(column.replace('"', '""'))
    if literal is None:
        return f"{column} {condition.operator}"
    text = exact_text(pa.repeat(literal, 1))[0].as_py().decode("utf-8", "backslashreplace")
    return f"{column} {condition.operator} '{text.replace(chr(39), 2 * chr(39))}'"


def field_of(schema: Any, column: str, table: str) -> Any:
    """Return the pa.Field of a column. Raises ConfigError that names the columns of the table."""
    if schema.get_field_index(column) < 0:
        near = nearest(column, schema.names)
        known = ", ".join(schema.names) or "not known before the first rows"
        raise error(
            "table.columns",
            path=table,
            column=repr(column),
            near=f"; did you mean {near}?" if near else "",
            known=known,
        )
    return schema.field(column)


def _typed(condition: Condition, schema: Any, table: str) -> Any:
    """Return the literal of a condition as a pa.Scalar of the column's type; None without a literal."""
    if condition.operator in (NULL, NOT_NULL):
        return None
    data_type = field_of(schema, condition.column, table).type
    if pa.types.is_nested(data_type) or pa.types.is_null(data_type):
        raise error("table.operator", column=condition.column, type=data_type)
    literal = condition.literal
    found, why = typed_value(literal, data_type)
    why = _mistaken(condition, data_type) or (why and f"{why}; write a literal of that type")
    if why is not None:
        written = literal if isinstance(literal, Word) else repr(literal)
        raise error("table.literal", column=condition.column, literal=written, why=why)
    return found


def _mistaken(condition: Condition, data_type: Any) -> str | None:
    """Return why a literal cannot be meant as it is, and what to write instead; None if it can be meant."""
    literal, is_word = condition.literal, isinstance(condition.literal, Word)
    if literal is None or (is_word and literal.lower() == "null"):
        quoted = ", or 'null' in quotes for this text" if is_word else ""
        return f"is no value: write `{condition.column} {NULL}`{quoted}"
    is_number = isinstance(literal, int | float) and not isinstance(literal, bool)
    if is_word and condition.operator[0] in "<>":  # any word can be equal to a text
        is_number = _NUMBER.fullmatch(literal) is not None
    is_text = pa.types.is_string(data_type) or pa.types.is_large_binary(data_type)  # the fields of delimited text
    if is_number and is_text:
        return f"is a number, but the column is text: write '{literal}' to compare it as text"
    return None


def _met(condition: Condition, column: Any, literal: Any) -> Any:
    if condition.operator == NULL:
        return column.is_null()
    if condition.operator == NOT_NULL:
        return column.is_valid()
    return pc.fill_null(_COMPARE[condition.operator](column, literal), False)


def _may_have(condition: Condition, data_type: Any, literal: Any, field: PartitionField, name: str, level: int) -> bool:
    """Return whether a partition may have rows that meet a condition. level: of the field in the directory."""
    value = values_of(name)[level][1] if name else None
    if value is None:  # NULL or empty text
        return True
    if field.transform == "identity":
        known, why = typed_value(value, data_type)
        return why is not None or bool(_COMPARE[condition.operator](known, literal).as_py())
    compared = _compared_by(field, data_type)
    if condition.operator not in compared:
        return True
    derived = partition_rows([field], [exact_text(pa.repeat(literal, 1))])
    wanted = values_of(derived.names[0])[0][1] if not derived.reasons else None
    return wanted is None or compared[condition.operator](value, wanted)


def _compared_by(field: PartitionField, data_type: Any) -> Mapping[str, Callable[[str, str], bool]]:
    """Return how the partitions of two values compare, as text, by operators on the values that imply this."""
    types = pa.types
    if types.is_decimal(data_type) and field.transform not in TIMES:
        return {}  # their text had fewer digits in rows from before the type was widened
    if field.transform in _DAYS and (types.is_temporal(data_type) or types.is_integer(data_type)):
        return _OF_DAYS
    return _OF_EQUAL  # text does not have the order of the days that it names
