"""``explain`` of a table: what it says of all keys together adds up to the counts in the log of the table."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mutator import config
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.pipeline.explain.feed_files import files_at
from mutator.table.compact import compact_table
from mutator.table.compact_choice import Need
from mutator.table.explain import ShownPaths, explain_table
from mutator.table.find import Finder
from mutator.table.restore import restore_table
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.support.typed_worlds import make_world
from tests.support.versioned import SCOPES, built, open_runner

FEED = ("inserted", "updated", "deleted", "no-op", "superseded", "late", "delete of unknown")


def explained(table, key, settings, feeds):
    """Explain a key; feeds: directories where merged feed files are."""
    parsed = config.parse(settings)
    found = files_at([str(path) for path in feeds], parsed)
    paths = ShownPaths(str(table), str)
    return explain_table(
        open_snapshot(str(table)), key, parsed, lambda _, part: (found.path_of(part), "it is not there"), paths
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


@given(st.randoms(use_true_random=False), st.sampled_from(SCOPES))
@law(20)
def test_the_outcomes_of_all_keys_are_the_counts_of_the_log(rng, scope):
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
