"""The paths in an explanation, as the caller spells them."""

from collections.abc import Callable
from dataclasses import replace

from mutator.pipeline.explain.chain import ChainStep
from mutator.pipeline.explain.explained_feed import FeedRows
from mutator.pipeline.explain.key_decisions import Outcome


def with_paths(step: ChainStep, shown: Callable[[str], str]) -> ChainStep:
    """Return a step with other paths. shown: replaces the full paths in a text."""
    feed = step.feed
    rows = FeedRows(
        feed.rows.mutations,
        tuple(replace(one, file=shown(one.file)) for one in feed.rows.rejected),
        tuple((shown(path), shown(why)) for path, why in feed.rows.unread),
    )
    decided = {
        name: replace(one, outcomes=tuple(_outcome(outcome, shown) for outcome in one.outcomes))
        for name, one in step.decided.items()
    }
    return replace(step, feed=replace(feed, rows=rows, again=tuple(map(shown, feed.again))), decided=decided)


def _outcome(one: Outcome, shown: Callable[[str], str]) -> Outcome:
    winner = one.winner and replace(one.winner, file=shown(one.winner.file))
    return replace(one, mutation=replace(one.mutation, file=shown(one.mutation.file)), winner=winner)
