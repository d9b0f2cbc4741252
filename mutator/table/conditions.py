"""The filter of a scan: conditions on single columns, all of which must hold.

>>> [vars(one) for one in parse("price >= 5 and name = 'it''s' and note is not null")]  # doctest: +NORMALIZE_WHITESPACE
[{'column': 'price', 'operator': '>=', 'literal': '5'},
 {'column': 'name', 'operator': '=', 'literal': "it's"},
 {'column': 'note', 'operator': 'is not null', 'literal': None}]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import eq, ge, le
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors import error
from mutator.formats.values.convert import typed_value
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.partition_fields import TIMES, PartitionField
from mutator.rules.partition_paths import values_of
from mutator.rules.partition_transforms import partition_rows
from mutator.rules.schema_evolution import nearest

NULL, NOT_NULL = "is null", "is not null"
_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_OTHER_WORDS = {"==": "=", "<>": "!="}
_CONDITION = re.compile(
    r"""\s*(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<column>[^\s"'<>=!]+))\s*
    (?:(?P<null>is\s+(?P<not>not\s+)?null)\b
    |(?P<operator>==|<>|!=|<=|>=|=|<|>)\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<word>[^\s"'<>=!]+)))""",
    re.VERBOSE | re.IGNORECASE,
)
_NEXT = re.compile(r"\s*(?P<and>and\b)|\s*\Z", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_DAYS = ("date", "year")  # transforms whose results have an order
_OF_EQUAL = {"=": eq}
_OF_DAYS = {**_OF_EQUAL, "<": le, "<=": le, ">": ge, ">=": ge}


class _Word(str):
    """A literal without quotes."""

    __slots__ = ()


@dataclass(frozen=True)
class Condition:
    """A condition on the values of a column."""

    column: str
    operator: str  # = != < <= > >= or NULL, NOT_NULL
    literal: Any = None


Where = str | Sequence[tuple[Any, ...]] | None  # a text, or (column, operator, literal) of each condition


def parse(text: str) -> tuple[Condition, ...]:
    """Read a filter. Raises ConfigError that quotes the part that is not a condition."""
    found, at = [], 0
    while True:
        match = _CONDITION.match(text, at)
        if match is None:
            raise error("table.filter", text=repr(text), part=repr(text[at:].strip() or "its end"))
        column = match["column"] if match["quoted"] is None else match["quoted"].replace('""', '"')
        if match["null"]:
            found.append(Condition(column, NOT_NULL if match["not"] else NULL))
        else:
            literal = _Word(match["word"]) if match["text"] is None else match["text"].replace("''", "'")
            found.append(Condition(column, _OTHER_WORDS.get(match["operator"], match["operator"]), literal))
        following = _NEXT.match(text, match.end())
        if following is None:
            raise error("table.filter", text=repr(text), part=repr(text[match.end() :].strip()))
        if not following["and"]:
            return tuple(found)
        at = following.end()


def conditions_of(where: Where) -> tuple[Condition, ...]:
    """Return the conditions of a filter. Raises ConfigError."""
    if where is None:
        return ()
    if isinstance(where, str):
        return parse(where)
    found = []
    for column, operator, *literal in where:
        word = " ".join(str(operator).lower().split())
        word = _OTHER_WORDS.get(word, word)
        if word not in (*_COMPARE, NULL, NOT_NULL) or len(literal) != (word in _COMPARE):
            raise error("table.filter", text=repr(where), part=repr((column, operator, *literal)))
        found.append(Condition(column, word, *literal))
    return tuple(found)


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
        if not self._conditions:
            return rows
        masks = [_met(one, rows.column(one.column), literal) for one, _, literal in self._conditions]
        return rows.filter(reduce(pc.and_, masks))

    def partitions(self, fields: Sequence[PartitionField], names: Sequence[str]) -> set[str] | None:
        """Return the partitions that may have such rows, of those with some directories; None for all."""
        chosen = set(names)
        for level, field in enumerate(fields):
            for one, of_schema, literal in self._conditions:
                if one.column == field.source and literal is not None:
                    chosen = {name for name in chosen if _may_have(one, of_schema.type, literal, field, name, level)}
        return None if len(chosen) == len(names) else chosen


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
        written = literal if isinstance(literal, _Word) else repr(literal)
        raise error("table.literal", column=condition.column, literal=written, why=why)
    return found


def _mistaken(condition: Condition, data_type: Any) -> str | None:
    """Return why a literal cannot be meant as it is, and what to write instead; None if it can be meant."""
    literal, is_word = condition.literal, isinstance(condition.literal, _Word)
    if literal is None or (is_word and literal.lower() == "null"):
        quoted = ", or 'null' in quotes for this text" if is_word else ""
        return f"is no value: write `{condition.column} {NULL}`{quoted}"
    is_number = isinstance(literal, int | float) and not isinstance(literal, bool)
    if is_word and condition.operator[0] in "<>":  # any word can be equal to a text
        is_number = _NUMBER.fullmatch(literal) is not None
    if is_number and pa.types.is_string(data_type):
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
