"""Filters: conditions on single columns, all of which must hold; of scans, and of the records of a snapshot.

>>> [vars(one) for one in parse("price >= 5 and name = 'it''s' and note is not null")]  # doctest: +NORMALIZE_WHITESPACE
[{'column': 'price', 'operator': '>=', 'literal': '5'},
 {'column': 'name', 'operator': '=', 'literal': "it's"},
 {'column': 'note', 'operator': 'is not null', 'literal': None}]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass

NULL, NOT_NULL = "is null", "is not null"
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_OTHER_WORDS = {"==": "=", "<>": "!="}
_CONDITION = re.compile(
    r"""\s*(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<column>[^\s"'<>=!]+))\s*
    (?:(?P<null>is\s+(?P<not>not\s+)?null)\b
    |(?P<operator>==|<>|!=|<=|>=|=|<|>)\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<word>[^\s"'<>=!]+)))""",
    re.VERBOSE | re.IGNORECASE,
)
_NEXT = re.compile(r"\s*(?P<and>and\b)|\s*\Z", re.IGNORECASE)


class Word(str):
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
            literal = Word(match["word"]) if match["text"] is None else match["text"].replace("''", "'")
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
        if word not in (*COMPARISONS, NULL, NOT_NULL) or len(literal) != (word in COMPARISONS):
            raise error("table.filter", text=repr(where), part=repr((column, operator, *literal)))
        found.append(Condition(column, word, *literal))
    return tuple(found)
