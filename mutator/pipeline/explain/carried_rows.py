"""The fields that changes of keys carry: their rows do not send them, and the place shows that they had them."""

from collections.abc import Sequence
from dataclasses import replace

from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key_decisions import KeyMutation, field_orders, sends
from mutator.rules.ignored_fields import inner_of
from mutator.rules.patches import Patches
from mutator.rules.register import Register


def with_carried(mutations: Sequence[KeyMutation], after: ByPartition | None, register: Register) -> list[KeyMutation]:
    """Return mutations of a run with the fields that they carry. after: a state that the run, or a later one, left.

    A field that has another mutation's value by then is one of them, too; what it was does not matter any more.
    """
    patches = inner_of(register)
    if after is None or not isinstance(patches, Patches):
        return [*mutations]
    return [_with_fields(one, after, patches) if one.may_carry else one for one in mutations]


def _with_fields(one: KeyMutation, after: ByPartition, register: Patches) -> KeyMutation:
    held = after.get(one.partition, after.get(None))
    if held is None or not held.content or held.form not in ("", one.form):
        return one
    own, names = field_orders(register.order_type, held), register.fields.names
    lives = held.kind == "record"
    orders = [own.get(name, held.order if lives else None) for name in names]
    missing = [number for number in range(len(names)) if not sends(one, number)]
    carried = [
        number
        for number in missing
        if orders[number] == one.order or (lives and orders[number] is not None and orders[number] > one.order)
    ]
    if not carried:
        return one
    parts, known = register.fields.parts(one.content), register.fields.parts(held.content)
    row = register.fields.whole([known[number] if number in carried else part for number, part in enumerate(parts)])
    left = [number for number in missing if number not in carried]
    mask = sum(1 << number for number in left).to_bytes((len(names) + 7) // 8, "little")
    return replace(one, content=row, unset=mask if left else None, carried=tuple(names[number] for number in carried))
