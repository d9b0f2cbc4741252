"""What a page shows of long lists and long values: their beginning, and how much it leaves out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mutator.errors.display import counted

MOST_TEXT = 400  # characters of a text


@dataclass(frozen=True)
class Cut:
    """The first items of a list. left_out: a sentence on the others; empty if there are none."""

    items: Sequence[Any]
    left_out: str = ""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __bool__(self) -> bool:
        return bool(self.items) or bool(self.left_out)


def cut(items: Iterable[Any], most: int, noun: str, why: str = "", total: int | None = None) -> Cut:
    """Return the first items of a list. why: which ones are shown. total: of the list, if it has more items than given.

    >>> cut("abc", 2, "letter").left_out
    '1 of 3 letters is left out'
    """
    found = list(islice(items, most + 1)) if total is not None else list(items)
    total = len(found) if total is None else total
    shown = found[:most]
    more = total - len(shown)
    if more <= 0:
        return Cut(shown)
    verb = "is" if more == 1 else "are"
    return Cut(shown, f"{more:,} of {counted(total, noun)} {verb} left out{f': {why}' if why else ''}")


def cut_text(text: str, most: int = MOST_TEXT) -> str:
    """Return the beginning of a text, and the number of the characters that follow.

    >>> cut_text("a row of text", 5)
    'a row… (8 more characters)'
    """
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({counted(len(text) - most, 'more character')})"
