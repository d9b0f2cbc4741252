"""The merge functions by their names, as settings have them, without Arrow; ``merge_functions`` has what they do."""

from __future__ import annotations

import re

from mutator.errors.quick_dataclass import dataclass

NEWEST, BEST, ALL = "newest", "best", "all"  # entries that a function keeps
TYPES = "long, decimal(PRECISION,SCALE) or text"
_CHOICE = re.compile(r"\s*(\S+)(?:\s+(?:(long|text)|decimal\s*\(\s*([0-9]{1,3})\s*(?:,\s*([0-9]{1,3})\s*)?\)))?\s*")
DIGITS = 38  # of a sum that is kept, which has more than any field of integers


@dataclass(frozen=True)
class MergeFunction:
    """A merge function. keeps: NEWEST, BEST or ALL."""

    name: str
    aliases: tuple[str, ...]
    keeps: str
    counts_null: bool = False
    sign: int = 1  # -1: the least is the best
    adds: bool = False

    @property
    def seals(self) -> bool:
        """Whether a seal changes what it keeps."""
        return self.keeps != NEWEST

    @property
    def clashes(self) -> bool:
        """Whether only one of two contributions with one order value counts."""
        return self.keeps != BEST


FUNCTIONS = (
    MergeFunction("last", ("last_value",), NEWEST, counts_null=True),
    MergeFunction("last_non_null", ("last_non_null_value", "last_value_ignore_nulls"), NEWEST),
    MergeFunction("first", ("first_value",), ALL, counts_null=True),
    MergeFunction("first_non_null", ("first_non_null_value", "first_value_ignore_nulls"), ALL),
    MergeFunction("min", ("bool_and",), BEST, sign=-1),
    MergeFunction("max", ("bool_or",), BEST),
    MergeFunction("sum", (), ALL, adds=True),
)
_BY_NAME = {name: function for function in FUNCTIONS for name in (function.name, *function.aliases)}


def merge_function(name: str) -> MergeFunction:
    """Return the function of a name or alias. Raises ValueError.

    >>> merge_function("last_value").name
    'last'
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(function.name for function in FUNCTIONS)
        raise ValueError(f"there is no merge function {name!r}; there are {known}") from None


def choice_parts(text: str) -> tuple[MergeFunction, str | None, int | None, int]:
    """Read a merge function, and the type that follows it: a word, or the precision and scale of a decimal.

    Raises ValueError.

    >>> choice_parts("sum decimal(12, 2)")[2:], choice_parts("max long")[1]
    ((12, 2), 'long')
    """
    found = _CHOICE.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' must be a merge function, and after it, for fields of text, {TYPES}")
    name, word, precision, scale = found.groups()
    function = merge_function(name)
    if precision is None:
        return function, word, None, 0
    if not 1 <= int(precision) <= DIGITS or int(scale or 0) > int(precision):
        raise ValueError(
            f"decimal({precision},{scale or 0}): it has 1 to {DIGITS} digits, and the scale is not above them"
        )
    return function, None, int(precision), int(scale or 0)


def checked_choice(text: str) -> str:
    """Return the text of a merge function and its type in one form. Raises ValueError.

    >>> checked_choice(" last_value "), checked_choice("sum decimal( 12 )")
    ('last', 'sum decimal(12,0)')
    """
    function, word, precision, scale = choice_parts(text)
    more = word if precision is None else f"decimal({precision},{scale})"
    return function.name if more is None else f"{function.name} {more}"
