"""``explain`` of a table: its answers follow from the rules, and all keys together add up to the counts of the log."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator import config
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.pipeline.explain.feed_reading import files_at
from mutator.table.compact import compact_table
from mutator.table.compact_choice import Need
from mutator.table.explain import explain_table
from mutator.table.find import Finder
from mutator.table.restore import restore_table
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.support.typed_worlds import make_world
from tests.support.versioned import SCOPES, built, open_runner

PARTS = ("order value", "sequence", "file name", "byte offset")
FEED = ("inserted", "updated", "deleted", "no-op", "superseded", "late", "delete of unknown")


def explained(table, key, settings, feeds):
    """Explain a key; feeds: directories where merged feed files are."""
    parsed = config.parse(settings)
    found = files_at([str(path) for path in feeds], parsed.inputs)
    return explain_table(
        open_snapshot(str(table)), key, parsed, str(table), lambda _, part: found.find(part), str, found
    )


def outcomes_of(found):
    """Return (version, order value, outcome) of each mutation."""
    return [
        (step.feed.number, one.mutation.order, one.outcome)
        for step in found.steps
        for part in step.decided.values()
        for one in part.outcomes
    ]


def certain_of(found):
    return {one for one in outcomes_of(found) if one[-1] is not None}


def place_of(one):
    """Return the precedence of a mutation, by its order value and the name of its file."""
    name = one.file.rpartition("/")[2]
    return one.order, int(name.rpartition(".")[0].rpartition("_")[2]), name.encode(), one.offset


def check_decisions(found):
    """Compare each decision with the rules of precedence and of the truth table, and what the table holds now."""
    state: dict = {}  # partition -> kind and order value
    states = {0: state}  # by version
    for step in found.steps:
        if step.feed.restored is not None:
            state = states[max(number for number in states if number <= step.feed.restored)]
        for name, one in step.decided.items():
            state = {**state, name: decided(step, one, *state.get(name, ("nothing", None)))}
        states[step.feed.number] = state
    held = {name: (one.kind, one.order) for name, one in found.now.items() if one.kind != "nothing"}
    assert held == {name: one for name, one in state.items() if one[0] != "nothing"}


def decided(step, one, kind, order):
    """Check what was decided of a record or tombstone; return its kind and order value afterwards."""
    mutations = [outcome.mutation for outcome in one.outcomes]
    if not mutations:
        return ("tombstone" if step.feed.register.full and kind == "record" else kind), order
    winner = max(mutations, key=place_of)
    is_late = kind != "nothing" and order > winner.order
    for outcome in one.outcomes:
        if outcome.mutation is winner:
            assert (outcome.outcome == "late", outcome.part) == (is_late, None)
            is_same = outcome.outcome == "no-op"
            continue
        pairs = zip(PARTS, place_of(winner), place_of(outcome.mutation), strict=False)
        part = next(name for name, mine, other in pairs if mine != other)
        assert (outcome.outcome, outcome.part) == ("superseded", part)
        assert place_of(outcome.winner) == place_of(winner)
    relation = "," if kind == "nothing" else " >" if is_late else " <="
    line = f"{kind}{relation} {'delete' if winner.is_delete else 'upsert'}"
    if kind == "record" and not winner.is_delete and not is_late:
        line += ", same bytes" if is_same else ", other bytes"
    assert one.line in (line, None)
    return (kind, order) if is_late else ("tombstone" if winner.is_delete else "record", winner.order)


@pytest.mark.rest
@given(st.randoms(use_true_random=False), st.sampled_from(SCOPES))
@law(60)
def test_decisions_follow_from_the_rules_and_add_up_to_the_counts_of_the_log(rng, scope):
    world = make_world(random.Random(rng.randrange(1 << 30)), ["x", "y"])
    keys = {(row["id"], row["shop"]) for files in world.feeds for _, rows in files for row in rows}
    with scratch() as work:
        last: dict[str, str] = {}

        def after(_, settings):
            last.update(settings)
            if rng.random() < 0.3:
                snapshot = open_snapshot(str(work / "table"))
                compact_table(snapshot, config.parse(settings), Need(everything=True), open_runner)
            if rng.random() < 0.3:
                snapshot = open_snapshot(str(work / "table"))
                restore_table(snapshot, rng.randint(0, snapshot.version.number))

        table = built(world, work, scope, after)
        feeds = sorted(work.glob("feed*"))
        counted: Counter = Counter()
        finder = Finder(open_snapshot(str(table)))
        for key in keys:
            found = explained(table, key, last, feeds)
            counted.update((number, outcome) for number, _, outcome in outcomes_of(found))
            assert not any(step.differs for step in found.steps)
            check_decisions(found)
            assert [one.kind for one in found.now.values()].count("record") == len(finder.records(key))
            assert not found.unknown
            assert found.text()
            by_rows_alone = explained(table, key, last, [])
            assert certain_of(by_rows_alone) <= certain_of(found)
        expected = {
            (version.number, name): version.counts.get(f"feed {name}", 0)
            for version in TableLog(str(table)).all_after(0)
            for name in FEED
            if version.counts.get(f"feed {name}")
        }
        assert dict(counted) == expected
