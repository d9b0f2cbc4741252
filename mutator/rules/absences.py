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
"""

from collections.abc import Mapping
from typing import Any

from mutator.rules.order_values import order_value

# Commit time of a full snapshot, in ms since 1970, and its highest order value: as text in files, typed in plans.
Absence = tuple[int, str]


def absences_of(order_type: str, known: tuple[Absence, ...]) -> dict[int, Any]:
    """Return the highest order value of each snapshot by its commit time, typed.

    >>> absences_of("long", ((1000, "10"),))
    {1000: 10}
    """
    return {committed: order_value(order_type, text) for committed, text in known}


def met_order(order: Any, committed: int, absences: Mapping[int, Any]) -> Any:
    """Return the order value of a tombstone that a mutation of a delta meets. order: its own. committed: its time."""
    highest = absences.get(committed)
    return order if highest is None else max(order, highest)
