"""Messages of a merge in the words of a table: what is the master of a run is the table itself.

>>> of_tables("the feed is older than the master, so 3 of the master's 20 records stay; see /lake/the master/a")
"the feed is older than the table, so 3 of the table's 20 records stay; see /lake/the master/a"
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_MASTER = re.compile(r"(?<![\w/])(?:the|this first) master(?![\w/=-]|\.\w)")


def of_tables(text: str, data: Iterable[str] = ()) -> str:
    """Return a message that says table instead of master. data: texts of the user in it, which stay as they are.

    >>> of_tables("is it the master of x.csv?", ["the master of x.csv"])
    'is it the master of x.csv?'
    """
    kept = [part for part in sorted(data, key=len, reverse=True) if part in text and _MASTER.search(part)]
    if not kept:
        return _MASTER.sub(_replaced, text)
    parts = re.split(f"({'|'.join(map(re.escape, kept))})", text)
    return "".join(part if number % 2 else _MASTER.sub(_replaced, part) for number, part in enumerate(parts))


def _replaced(match: re.Match[str]) -> str:
    return match[0].replace("the master", "the table").replace("this first master", "the table")
