"""The mutation that gave each field of a record its value, in a place whose records get patches.

The order value of a field is that of the mutation that set it, so the order values beside a record say which one of the
known mutations that was: the last one with this order value that sends the field.

>>> from mutator.rules.order_values import precedence
>>> place = precedence(5, 1, b"ups_1.txt", 0, b"k,5,")
>>> patch = KeyMutation("ups_1.txt", 0, 1, "line 1, byte 0", place, False, b"", b"", unset=b"\\x04")
>>> sends(patch, 1), sends(patch, 2)
(True, False)
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.explain.chain import ChainStep
from mutator.pipeline.explain.explained_feed import shown_fields
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key_decisions import Held, KeyMutation, field_orders, sends
from mutator.rules.merged_fields import Merging, entry_orders

# What gave a field its value, where no mutation did
BEFORE, NONE, TRUNCATE, UNKNOWN = "the record before", "no mutation", "a truncate", "not known"


@dataclass(frozen=True)
class FieldOrigin:
    """A field, and the mutation that sets or clears it."""

    name: str
    order: Any  # None: no mutation has set it
    what: str  # mutation | delete | the record before | a truncate | no mutation | not known
    version: int | None = None  # of the mutation
    committed: str | None = None  # its time
    mutation: KeyMutation | None = None


def field_origins(
    now: ByPartition | None,
    given: ByPartition | None,
    steps: Sequence[ChainStep],
    names: Sequence[str],
    order_type: str,
    merging: Merging | None = None,
) -> dict[str | None, tuple[FieldOrigin, ...]]:
    """Return what gave each field of a record its value, and of a patch that waits each field that it sets.

    given: before the first step; None: not known. names: of the fields; none for a place whose records get no patches.
    A field with a merge function has the origin of each of its entries.
    """
    left = _not_undone(steps)
    return {
        directory: tuple(_origins(directory, held, given, left, names, order_type, merging))
        for directory, held in (now or {}).items()
        if names and (held.kind == "record" or held.waits)
    }


def _not_undone(steps: Sequence[ChainStep]) -> list[ChainStep]:
    """Return the steps that no restore has undone."""
    left = list[ChainStep]()
    for step in steps:
        back = step.feed.restored
        if back is not None:
            left = [one for one in left if (one.feed.number or 0) <= back]
        left.append(step)
    return left


def _origins(
    directory: str | None,
    held: Held,
    given: ByPartition | None,
    steps: Sequence[ChainStep],
    names: Sequence[str],
    order_type: str,
    merging: Merging | None,
) -> Iterator[FieldOrigin]:
    own = field_orders(order_type, held)
    before = None if given is None else given.get(directory)
    at_first = {} if before is None else field_orders(order_type, before)
    for number, name in enumerate(names):
        if held.waits and name not in own:
            continue
        entries = None if merging is None else entry_orders(merging, held.sides, number)
        for order in (own.get(name, held.order),) if entries is None else entries:
            if order is None:
                yield FieldOrigin(name, None, NONE)
                continue
            found = None
            for step in reversed(steps):
                found = _setter(step, directory, number, order)
                if found is not None:
                    what = "delete" if found.is_delete else "mutation"
                    yield FieldOrigin(name, order, what, step.feed.number, step.feed.committed, found)
                    break
            if found is None:
                is_given = before is not None and before.kind == "record" and at_first.get(name, before.order) == order
                is_floor = any(step.feed.floor == order for step in steps)
                yield FieldOrigin(name, order, BEFORE if is_given else TRUNCATE if is_floor else UNKNOWN)


def _setter(step: ChainStep, directory: str | None, number: int, order: Any) -> KeyMutation | None:
    """Return the last mutation of a step that has an order value and sets a field."""
    decided = step.decided.get(directory)
    raised = step.feed.as_of
    for one in reversed(() if decided is None else decided.outcomes):
        own = one.mutation.order if raised is None else max(one.mutation.order, raised)
        if own == order and one.outcome != "rejected" and sends(one.mutation, number):
            return one.mutation
    return None


def waiting_fields(held: Held) -> bytes:
    """Return the row of a record, or those fields of a row that patches have set, if it waits."""
    return shown_fields(held.row, {one["field"] for one in held.sides[0]}) if held.waits else held.row


def waiting_since(origins: Sequence[FieldOrigin]) -> str | None:
    """Return when the first of the patches that wait was merged; None if that is not known."""
    known = [one.committed for one in origins if one.committed is not None]
    return min(known) if known and len(known) == len(origins) else None
