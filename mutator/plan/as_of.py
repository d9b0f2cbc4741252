"""The order value that a full snapshot is as of: a value of the settings, or the sequence of its files.

A snapshot as of S is a truncate at S, and upserts of its rows at the higher of their own order value and S. So the
floor is S or higher afterwards, and each record that is left with a lower order value of its own came with the snapshot
that raised the floor: it counts as one at the floor.
"""

from __future__ import annotations

from typing import Any

from mutator.errors import error
from mutator.rules.order_values import NO_SEQUENCE, is_tuple, order_parser

SEQUENCE = "sequence"
_CURE = "name the order value at which the snapshot was taken"


def as_of(text: str | None, order_type: str, sequence: int | None) -> Any:
    """Return the order value that a snapshot is as of; None if it is not as of one.

    text: the setting. sequence: of the files of the snapshot. Raises ConfigError.

    >>> as_of("12", "long", None), as_of("sequence", "long", 7), as_of(None, "long", 7)
    (12, 7, None)
    """
    if text is None:
        return None
    if is_tuple(order_type):
        why = f"order values are of type {order_type}, and it needs one order field, in ascending order"
        raise error("snapshot.as.of", value=text, why=why)
    if text == SEQUENCE:
        if sequence is None or sequence == NO_SEQUENCE:
            raise error("snapshot.as.of", value=text, why=f"no number is in the names of the feed files; {_CURE}")
        if order_type not in ("long", "decimal", "sequence"):
            raise error("snapshot.as.of", value=text, why=f"order values are of type {order_type}; {_CURE}")
        text = str(sequence)
    elif order_type == "sequence":
        raise error("snapshot.as.of", value=text, why=f"order comes from file names; set it to {SEQUENCE}")
    try:
        return order_parser(order_type)(text.encode("utf-8", "surrogateescape"))
    except ValueError as reason:
        raise error("snapshot.as.of", value=text, why=f"as an order value of type {order_type}, it {reason}") from None
