"""The epochs of a run: those of its master, of its settings, and of the sources that the rows of its feed name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mutator.config.settings import OrderSpec
from mutator.dataset.state import State
from mutator.errors import error
from mutator.plan.inspect.source import Source
from mutator.rules.epochs import NO_EPOCHS, Unranked, epochs_in, text_of


def with_epochs(order: OrderSpec, feed: Sequence[Source], known: State | None) -> tuple[OrderSpec, list[Source]]:
    """Return the order of a run, and its feed, with the epochs of the run. Raises StateError for a source without one.

    known: the state of the master.
    """
    before = NO_EPOCHS if known is None else epochs_in(known.spec)
    by_source = [one for one in feed if one.wrapped is not None and one.wrapped.envelope.epoch in (*order.fields,)]
    seen = {name: one.path for one in reversed(by_source) if one.wrapped for name in one.wrapped.envelope.sources}
    try:
        found = before.ranked(order.epoch or {}, seen)
    except Unranked as fault:
        others = [name for name in {**before.named, **seen} if name not in fault.sources]
        new = fault.sources[0] if others else fault.sources[-1]
        raise error(
            "epoch.new",
            path=seen[new],
            source=new,
            others=", ".join(others or fault.sources[:-1]),
            later=text_of({new: before.newest + 1}),
            same=text_of({**({} if others else dict.fromkeys(fault.sources, before.newest)), new: before.newest}),
        ) from None
    ranked = [
        replace(one, wrapped=one.wrapped._replace(envelope=replace(one.wrapped.envelope, epochs=found)))
        if one.wrapped is not None
        else one
        for one in feed
    ]
    return replace(order, epochs=found), ranked
