"""A choice of fields in a setting. Every command reads settings, and a short one loads neither numpy nor Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_ALL, _EXCEPT = "all", "all except "


class FieldChoice(NamedTuple):
    """Some fields: those that are named, or all but these."""

    named: tuple[Any, ...]  # names or ordinals
    others: bool = False

    def among(self, fields: Sequence[Any]) -> list[Any]:
        """Return the chosen ones of some fields.

        >>> FieldChoice(("id",), others=True).among(["id", "name"]), FieldChoice(("id",)).among(["id", "name"])
        (['name'], ['id'])
        """
        return [one for one in fields if (one in self.named) != self.others]


def parse_choice(text: str, named: Callable[[str], Sequence[Any]]) -> FieldChoice:
    """Read a choice of fields. named: reads fields with commas between them.

    >>> [parse_choice(text, lambda names: names.split(",")) for text in ("all", "all except a,b")]
    [FieldChoice(named=(), others=True), FieldChoice(named=('a', 'b'), others=True)]
    """
    text = text.strip()
    if text == _ALL:
        return FieldChoice((), others=True)
    others = text.startswith(_EXCEPT)
    return FieldChoice(tuple(named(text.removeprefix(_EXCEPT) if others else text)), others)
