"""The epochs of a run: those of its master, of its settings, and of the sources that the rows of its feed name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mutator.config.settings import OrderSpec
from mutator.dataset.state import State
from mutator.errors import MutatorError, error
from mutator.errors.parts import setting
from mutator.plan.inspect.source import Source
from mutator.rules.epochs import NO_EPOCHS, UNNAMED, Epochs, Unranked, epochs_in, named_in, text_of
from mutator.rules.file_names import first_few


def with_epochs(order: OrderSpec, feed: Sequence[Source], known: State | None) -> tuple[OrderSpec, list[Source]]:
    """Return the order of a run, and its feed, with the epochs of the run. Raises StateError for a source without one.

    known: the state of the master. Raises ConfigError for the epoch of a source that no row can name.
    """
    before, asked = NO_EPOCHS if known is None else epochs_in(known.spec), order.epoch or {}
    by_source = [one for one in feed if one.wrapped is not None and one.wrapped.envelope.epoch in (*order.fields,)]
    seen = {name: one.path for one in by_source if one.wrapped for name in one.wrapped.envelope.sources}
    unknown = [name for name in named_in(asked) if name not in before.named]
    if unknown and feed and not by_source:
        faults = f"the rows of the feed do not name their source, so none is {unknown[0]}; give the number alone"
        raise error("config", where=setting(f"order.epoch={text_of(asked)}"), faults=faults)
    try:
        found = before.ranked(asked, seen)
    except Unranked as fault:
        raise _unranked(before, asked, seen, fault.sources) from None
    ranked = [
        replace(one, wrapped=one.wrapped._replace(envelope=replace(one.wrapped.envelope, epochs=found)))
        if one.wrapped is not None
        else one
        for one in feed
    ]
    return replace(order, epochs=found), ranked


def _unranked(
    before: Epochs, asked: Mapping[str, int], seen: Mapping[str, str], unranked: Sequence[str]
) -> MutatorError:
    """Return the error for sources whose epochs are not known, with the settings that rank them all."""
    given, new = named_in(asked), [name for name in unranked if name not in before.named]
    path = next((seen[name] for name in new if name in seen), next(iter(seen.values()), ""))
    if not new:  # a number without a name, of several known sources
        now = {**before.named, **given}
        again = {name: asked[UNNAMED] if name in seen else now[name] for name in now}
        return error(
            "epoch.several",
            number=asked[UNNAMED],
            sources=first_few([*now]),
            again=text_of({UNNAMED: asked[UNNAMED], **again}),
            now=text_of(now),
        )
    if before.named:
        newest = max([before.newest, *given.values()])
        later = {name: newest + number for number, name in enumerate(new, 1)}
        same = dict.fromkeys(new, newest)
        return error(
            "epoch.new",
            path=path,
            source=", ".join(new),
            others=first_few([name for name in {**before.named, **given} if name not in new]),
            later=text_of({**given, **later}),
            same=text_of({**given, **same}),
        )
    listed = [*new, *sorted(given, key=given.__getitem__)]
    first, last = before.newest, before.newest + len(listed) - 1
    return error(
        "epoch.first",
        path=path,
        sources=first_few(listed),
        later=text_of({name: first + number for number, name in enumerate(listed)}),
        earlier=text_of({name: last - number for number, name in enumerate(listed)}),
        same=text_of(dict.fromkeys(listed, first)),
    )
