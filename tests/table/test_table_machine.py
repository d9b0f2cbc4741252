"""Random series of operations on a table, with crashes, against a dict."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mutator import config
from mutator.dataset.versions import snapshot as snapshots
from mutator.dataset.versions.snapshot import Snapshot, open_snapshot
from mutator.dataset.versions.version import DATA
from mutator.engine.versions import delta_files
from mutator.errors import MutatorError
from mutator.storage import registry
from mutator.table import apply
from mutator.table.apply import apply_feed
from mutator.table.create import create_empty
from mutator.table.scan import scan_batches, schema_of
from tests.support.model_storage import KINDS, Killed, ModelStorage
from tests.support.no_limits import NO_LIMITS
from tests.table.test_table_faults import FEED, TABLE, open_runner, put

SETTINGS = {"key": "id", "order_by": "at", "op": "op", "feed.format": "csv", **NO_LIMITS}
# A record is (order value, name), a tombstone (order value, None).
Model = dict[str, tuple[int, str | None]]
MUTATIONS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9), st.sampled_from(["x", "y", "z", None])), max_size=8
)


def merged(model: Model, mutations: list[tuple[str, int, str | None]]) -> Model:
    """Return the model after a feed: the last of the highest mutations of each key wins if it is not older."""
    after, winners = dict(model), dict[str, tuple[int, str | None]]()
    for key, at, name in mutations:
        if key not in winners or at >= winners[key][0]:
            winners[key] = (at, name)
    for key, winner in winners.items():
        if key not in after or winner[0] >= after[key][0]:
            after[key] = winner
    return after


class Machine(RuleBasedStateMachine):
    """One table on a model storage."""

    @initialize(
        kind=st.sampled_from(KINDS), buckets=st.integers(1, 3), inline=st.booleans(), own=st.sampled_from([1, 99])
    )
    def create(self, kind: str, buckets: int, inline: bool, own: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(apply, "_INLINE_FEED", 1 << 30 if inline else 0)
        self.patch.setattr(delta_files, "_OWN", own)
        self.patch.setattr(snapshots, "_EVERY", 3)
        self.storage = ModelStorage(kind)
        registry.BACKENDS["model"] = lambda: self.storage
        create_empty(TABLE, {}, buckets=buckets)
        self.models: list[Model] = [{}]
        self.feeds = 0

    def teardown(self) -> None:
        registry.BACKENDS.pop("model", None)
        if hasattr(self, "patch"):
            self.patch.undo()

    def _feed(self, mutations: list[tuple[str, int, str | None]]) -> str:
        self.feeds += 1
        path = f"{FEED}/f{self.feeds}x.csv"
        lines = [f"{key},{at},{'D' if name is None else 'U'},{name or ''}" for key, at, name in mutations]
        put(self.storage, path, "\n".join(["id,at,op,name", *lines, ""]))
        return path

    def _apply(self, path: str) -> None:
        apply_feed(open_snapshot(TABLE), config.parse(SETTINGS), [path], open_runner)

    @rule(mutations=MUTATIONS)
    def apply_a_feed(self, mutations: list[tuple[str, int, str | None]]) -> None:
        self._apply(self._feed([("a", 0, "x"), *mutations]))
        self.models.append(merged(self.models[-1], [("a", 0, "x"), *mutations]))

    @rule(mutations=MUTATIONS, call=st.integers(0, 60), what=st.sampled_from(["kill", "lost", "no space left"]))
    def apply_a_feed_and_fail(self, mutations: list[tuple[str, int, str | None]], call: int, what: str) -> None:
        path = self._feed([("b", 0, "y"), *mutations])
        first = self.storage.calls
        self.storage.fault = lambda number, name: what if number == first + call else None
        with suppress(Killed, MutatorError):
            self._apply(path)
        self.storage.fault, self.storage.dead = lambda number, name: None, False
        if open_snapshot(TABLE).version.number == len(self.models):
            self.models.append(merged(self.models[-1], [("b", 0, "y"), *mutations]))

    @precondition(lambda self: self.feeds)
    @rule(number=st.integers(1, 99))
    def apply_a_feed_again(self, number: int) -> None:
        before = open_snapshot(TABLE)
        path = f"{FEED}/f{1 + number % self.feeds}x.csv"
        self._apply(path)
        if open_snapshot(TABLE).version.number > before.version.number:  # the first time had failed
            lines = self.storage.tree[path].decode().splitlines()[1:]
            rows = [line.split(",") for line in lines]
            again = [(key, int(at), None if op == "D" else name) for key, at, op, name in rows]
            self.models.append(merged(self.models[-1], again))

    @rule()
    def lose_the_hint(self) -> None:
        self.storage.tree.pop(f"{TABLE}/_mutator/table/hint.json", None)

    @rule()
    def lose_the_checkpoints(self) -> None:
        for path in [path for path in self.storage.tree if "/checkpoints/0" in path]:
            del self.storage.tree[path]

    @rule(number=st.integers(0, 99))
    def scan_an_older_version(self, number: int) -> None:
        number %= len(self.models)
        self._check(open_snapshot(TABLE, number), self.models[number])

    @invariant()
    def the_newest_version_is_the_model(self) -> None:
        if hasattr(self, "models"):
            snapshot = open_snapshot(TABLE)
            assert snapshot.version.number == len(self.models) - 1
            self._check(snapshot, self.models[-1])

    def _check(self, snapshot: Snapshot, model: Model) -> None:
        rows = pa.Table.from_batches(scan_batches(snapshot), schema_of(snapshot))
        found = [(row["id"], (int(row["at"]), row["name"])) for row in rows.to_pylist()]
        assert sorted(found) == sorted((key, state) for key, state in model.items() if state[1] is not None)
        assert snapshot.version.records == len(found)
        assert snapshot.version.tombstones == sum(state[1] is None for state in model.values())
        for file in snapshot.of_role(DATA):
            hidden: Any = snapshot.masks.hidden(file.path)
            assert len(set(hidden.tolist())) == len(hidden)
            assert not len(hidden) or hidden[-1] < file.rows


TestTable = Machine.TestCase
TestTable.settings = settings(max_examples=5, stateful_step_count=15)
TestLong = type("TestLong", (Machine.TestCase,), {"settings": settings(max_examples=200, stateful_step_count=50)})
TestLong = pytest.mark.soak(TestLong)
