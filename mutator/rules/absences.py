"""The order value that a mutation meets in a tombstone by absence.

A full snapshot that lacks a record leaves a tombstone with the record's own order value, because the newest record may
be the deleted one: order values do not say when a snapshot was taken. The next snapshot is compared with that value.
But a mutation of a delta that is older than the newest row of the snapshot was known to it, so rows of deltas meet the
higher of the two: the tombstone's own value, and the highest of the snapshot that removed the record.

A full snapshot has no deletes, so every tombstone of its run is one by absence, and the commit time of a tombstone
shows whether it is one, and of which snapshot.

>>> absences = {1000: 10}
>>> met_order(5, 1000, absences), met_order(12, 1000, absences), met_order(5, 2000, absences)
(10, 12, 5)

A snapshot may be of a part of the records, those for which conditions hold. It must not be older than the last snapshot
of the same part, or of a part of that: with more conditions. Snapshots of other parts say nothing of its age.

>>> parts = [((), "9"), (("city = 'Rome'", "land = 'IT'"), "10")]
>>> [highest_before("long", parts, scope) for scope in ((), ("land = 'IT'",), ("land = 'DE'",))]
['10', '10', None]
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mutator.rules.order_values import order_value

# Commit time of a full snapshot, in ms since 1970, and its highest order value: as text in files, typed in plans.
Absence = tuple[int, str]
Part = tuple[tuple[str, ...], str]  # sorted conditions, and the highest order value of the last snapshot, as text
_MOST_PARTS = 1000


def absences_of(order_type: str, known: tuple[Absence, ...]) -> dict[int, Any]:
    """Return the highest order value of each snapshot by its commit time, typed.

    >>> absences_of("long", ((1000, "10"),))
    {1000: 10}
    """
    found = dict[int, Any]()
    for committed, text in known:
        with suppress(ValueError):  # of a time when the order was another one, none of whose tombstones are left
            found[committed] = order_value(order_type, text)
    return found


def met_order(order: Any, committed: int, absences: Mapping[int, Any]) -> Any:
    """Return the order value of a tombstone that a mutation of a delta meets. order: its own. committed: its time."""
    highest = absences.get(committed)
    return order if highest is None else max(order, highest)


def parts_of(members: Sequence[Sequence[Any]]) -> tuple[Part, ...]:
    """Return parts as JSON has them. Raises ValueError or TypeError for anything else.

    >>> parts_of([[["a = '1'"], "7"]])
    ((("a = '1'",), '7'),)
    """
    return tuple((tuple(map(str, conditions)), str(high)) for conditions, high in members)


def highest_before(order_type: str, parts: Sequence[Part], scope: Sequence[str]) -> str | None:
    """Return the order value that the highest one of a snapshot must not be below; None for any. scope: conditions."""
    known = [high for conditions, high in parts if set(scope) <= set(conditions)]
    return max(known, key=lambda text: order_value(order_type, text), default=None)


def parts_after(order_type: str, parts: Sequence[Part], scope: Sequence[str], high: str) -> tuple[Part, ...]:
    """Return the parts after a snapshot of one: the last snapshots of at most a thousand parts, this one last.

    What it contains of other parts is not newer than it, even where it was allowed to be older than these.

    >>> parts_after("long", [(("a = '1'",), "7"), (("b = '1'",), "7")], (), "5")
    ((("a = '1'",), '5'), (("b = '1'",), '5'), ((), '5'))
    """
    found = []
    for conditions, before in parts:
        if set(scope) <= set(conditions):
            before = min(before, high, key=lambda text: order_value(order_type, text))
        if conditions != tuple(scope):
            found.append((conditions, before))
    return (*found[1 - _MOST_PARTS :], (tuple(scope), high))
