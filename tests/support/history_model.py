"""The reference model of history: the versions that all mutations of a key mean, one for each stretch of equal rows.

The row at an order value is the state of all mutations up to it, as ``patch_model`` says. A version is a maximal
stretch without a gap in which the tracked fields are equal; it has the other fields of its last mutation. Nothing here
may come from ``mutator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.support.patch_model import RECORD, Place, Seen, state_of

OPEN, UPDATED, DELETED, TRUNCATED = "open", "updated", "deleted", "truncated"


class Version(NamedTuple):
    """A version of a record: from an order value to another one, which is not part of it; None: it is open."""

    start: Any
    end: Any
    values: tuple[Any, ...]
    ended: str = OPEN


def versions_of(fields: Sequence[str], tracked: Sequence[str], seen: Sequence[Seen], unknown: str) -> list[Version]:
    """Return the versions of a key, oldest first. seen: all mutations of it, and all truncates."""
    numbers, found = [fields.index(name) for name in tracked], list[Version]()
    for order in sorted({one.place[0] for one in seen}):
        kept = state_of(fields, [one for one in seen if one.place[0] <= order], unknown)
        row = kept.values if kept.kind == RECORD else None
        last = found.pop() if found and found[-1].end is None else None
        if last is not None and row is not None and all(row[one] == last.values[one] for one in numbers):
            found.append(last._replace(values=row))
            continue
        if last is not None:
            gone = max((one for one in seen if one.place[0] == order and one.mutation.op in "DT"), default=None)
            ended = UPDATED if row is not None or gone is None else TRUNCATED if gone.mutation.op == "T" else DELETED
            found.append(last._replace(end=order, ended=ended))
        if row is not None:
            found.append(Version(order, None, row))
    return found


class History(Place):
    """A table with history. Its records are the open versions."""

    def versions(self, key: Any, tracked: Sequence[str]) -> list[Version]:
        seen = [*self.seen.get(key, ()), *self.truncates]
        return versions_of(self.fields, tracked, seen, "wait" if self.unknown == "wait" else "insert")
