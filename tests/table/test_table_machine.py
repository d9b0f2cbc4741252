"""Random series of operations on a table, with crashes, against a dict."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mutator import config
from mutator.config.settings import RetentionSpec
from mutator.dataset.commit import staging
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.engine.versions import delta_files
from mutator.errors import MutatorError
from mutator.frames.dataset import Dataset
from mutator.storage import read_file, registry
from mutator.table import apply
from mutator.table.apply import apply_feed
from mutator.table.compact import compact_table
from mutator.table.compact_choice import Need
from mutator.table.create import create_empty
from mutator.table.restore import restore_table
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.model_storage import KINDS, Killed, ModelStorage
from tests.support.no_limits import NO_LIMITS
from tests.table.test_table_faults import FEED, TABLE, open_runner, put

OUTPUT = "model://base/out"
IDS, NAMES = "abcdefgh", ["x", "y", "z"]
SCOPES: list[dict[str, str]] = [
    {},
    {"partitioned.by": "name", "key.scope": "table"},  # an update to another name is a move
    {"partitioned.by": "name", "key.scope": "partition"},
]


class Mutation(NamedTuple):
    """A row of a feed, and also the record or tombstone that it leaves."""

    id: str
    at: int
    name: str
    deleted: bool

    @property
    def line(self) -> str:
        return f"{self.id},{self.at},{'D' if self.deleted else 'U'},{self.name}"


Model = dict[tuple[str, ...], Mutation]  # by key
MUTATIONS = st.lists(
    st.builds(Mutation, st.sampled_from(IDS), st.integers(0, 9), st.sampled_from(NAMES), st.booleans()), max_size=8
)


class Machine(RuleBasedStateMachine):
    """One table on a model storage."""

    @initialize(
        kind=st.sampled_from(KINDS),
        scope=st.sampled_from(SCOPES),
        buckets=st.integers(1, 3),
        inline=st.booleans(),
        own=st.sampled_from([1, 99]),
        bucket_bytes=st.sampled_from([150, 1 << 20]),
    )
    def create(
        self, kind: str, scope: dict[str, str], buckets: int, inline: bool, own: int, bucket_bytes: int = 150
    ) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(apply, "_INLINE_FEED", 1 << 30 if inline else 0)
        self.patch.setattr(delta_files, "_OWN", own)
        self.patch.setattr(opening, "_EVERY", 3)
        self.storage = ModelStorage(kind)
        registry.BACKENDS["model"] = lambda: self.storage
        create_empty(TABLE, scope, buckets=buckets)
        self.scope, self.bucket_bytes = scope, bucket_bytes
        self.models: list[Model] = [{}]
        self.feeds = self.exports = 0
        self.tags, self.marks = dict[str, int](), dict[str, int]()
        self.reading: list[tuple[Iterator[Any], list[Any], Model]] = []

    def teardown(self) -> None:
        registry.BACKENDS.pop("model", None)
        if hasattr(self, "patch"):
            self.patch.undo()

    def _key(self, one: Any) -> tuple[str, ...]:
        """Return the key of a mutation, or of a row (id, at, name)."""
        return (one[0], one[2]) if self.scope.get("key.scope") == "partition" else (one[0],)

    def _winners(self, mutations: Iterable[Mutation]) -> Model:
        """Return the last of the highest mutations of each key."""
        winners = Model()
        for one in mutations:
            key = self._key(one)
            if key not in winners or one.at >= winners[key].at:
                winners[key] = one
        return winners

    def _merged(self, mutations: Iterable[Mutation]) -> Model:
        """Return the model after a feed: the winner of each key wins if it is not older."""
        after = dict(self.models[-1])
        for key, winner in self._winners(mutations).items():
            if key not in after or winner.at >= after[key].at:
                after[key] = self._left(winner, after.get(key))
        return after

    def _overwritten(self, mutations: Iterable[Mutation], whole: bool) -> Model:
        """Return the model after an overwrite."""
        before, winners = self.models[-1], self._winners(mutations)
        after, names = dict(before), {one.name for one in winners.values()}
        for key in before.keys() | winners.keys():
            old, new = before.get(key), winners.get(key)
            replaced = old is not None and (whole or not self.scope or old.name in names or not old.name)
            if new is not None and (old is None or replaced or new.at >= old.at):
                after[key] = self._left(new, old)
                if new.deleted and old is not None:
                    after[key] = after[key]._replace(at=max(new.at, old.at))
            elif new is None and old is not None and replaced:
                after[key] = old._replace(deleted=True)
        return after

    def _left(self, winner: Mutation, before: Mutation | None) -> Mutation:
        """Return what a winner leaves. A tombstone is in the partition of its record, if it had one."""
        if winner.deleted and self.scope.get("key.scope") == "table":
            return winner._replace(name="" if before is None else before.name)
        return winner

    def _feed(self, mutations: list[Mutation]) -> str:
        self.feeds += 1
        path = f"{FEED}/f{self.feeds}x.csv"
        put(self.storage, path, "\n".join(["id,at,op,name", *(one.line for one in mutations), ""]))
        return path

    def _apply(self, path: str, operation: str = "apply") -> None:
        settings = {"key": "id", "order_by": "at", "op": "op", "feed.format": "csv", **NO_LIMITS, **self.scope}
        settings |= {"write.operation": operation, "allow.empty.feed": "true", "field.names": "id,at,op,name"}
        apply_feed(open_snapshot(TABLE), config.parse(settings), [path], open_runner)

    def _fails(self, call: int, what: str) -> None:
        first = self.storage.calls
        self.storage.fault = lambda number, name: what if number == first + call else None

    def _works(self) -> None:
        self.storage.fault, self.storage.dead = lambda number, name: None, False
        staging._here.clear()  # the process is dead

    @rule(mutations=MUTATIONS)
    def apply_a_feed(self, mutations: list[Mutation]) -> None:
        mutations = [Mutation("a", 0, "x", False), *mutations]
        self._apply(self._feed(mutations))
        self.models.append(self._merged(mutations))

    @rule(mutations=MUTATIONS, call=st.integers(0, 60), what=st.sampled_from(["kill", "lost", "no space left"]))
    def apply_a_feed_and_fail(self, mutations: list[Mutation], call: int, what: str) -> None:
        mutations = [Mutation("b", 0, "y", False), *mutations]
        path = self._feed(mutations)
        self._fails(call, what)
        with suppress(Killed, MutatorError):
            self._apply(path)
        self._works()
        if open_snapshot(TABLE).version.number == len(self.models):
            self.models.append(self._merged(mutations))

    @rule(mutations=MUTATIONS, whole=st.booleans())
    def overwrite(self, mutations: list[Mutation], whole: bool) -> None:
        if len(self.models) == 1:
            return  # without a schema, a feed without rows has no types
        self._apply(self._feed(mutations), "insert_overwrite_table" if whole else "insert_overwrite")
        if mutations or whole:
            self.models.append(self._overwritten(mutations, whole))

    @rule(
        mutations=MUTATIONS,
        whole=st.booleans(),
        call=st.integers(0, 60),
        what=st.sampled_from(["kill", "lost", "no space left"]),
    )
    def overwrite_and_fail(self, mutations: list[Mutation], whole: bool, call: int, what: str) -> None:
        mutations = [Mutation("b", 0, "y", False), *mutations]
        path = self._feed(mutations)
        self._fails(call, what)
        with suppress(Killed, MutatorError):
            self._apply(path, "insert_overwrite_table" if whole else "insert_overwrite")
        self._works()
        if open_snapshot(TABLE).version.number == len(self.models):
            self.models.append(self._overwritten(mutations, whole))

    @precondition(lambda self: self.feeds)
    @rule(number=st.integers(1, 99))
    def apply_a_feed_again(self, number: int) -> None:
        before = open_snapshot(TABLE)
        path = f"{FEED}/f{1 + number % self.feeds}x.csv"
        self._apply(path)
        if open_snapshot(TABLE).version.number > before.version.number:  # the first time had failed
            rows = [line.split(",") for line in self.storage.tree[path].decode().splitlines()[1:]]
            self.models.append(self._merged(Mutation(key, int(at), name, op == "D") for key, at, op, name in rows))

    def _compact(self, everything: bool, retention: float | None) -> int:
        """Compact the table; return the number of tombstones that it forgets."""
        names = {"field.names": "id,at,op,name", "bucket.bytes": str(self.bucket_bytes)}
        settings = {"key": "id", "order_by": "at", "op": "op", **names, **NO_LIMITS, **self.scope}
        own = replace(config.parse(settings), retention=RetentionSpec(retention))
        need = Need(everything=everything, files=1, hidden=0.3)
        return compact_table(open_snapshot(TABLE), own, need, open_runner).moves.expired

    def _compacted(self, retention: float | None) -> None:
        """Add the model of a compaction. retention: 0 forgets all tombstones, None none of them."""
        after = self.models[-1]
        if retention is not None:
            after = {key: one for key, one in after.items() if not one.deleted}
        self.models.append(after)

    @rule(everything=st.booleans(), retention=st.sampled_from([None, None, 0]))
    def compact(self, everything: bool, retention: float | None) -> None:
        before = open_snapshot(TABLE).version.number
        expired = self._compact(everything, retention)
        assert expired == (sum(one.deleted for one in self.models[-1].values()) if retention is not None else 0)
        if open_snapshot(TABLE).version.number > before:
            self._compacted(retention)

    @rule(
        everything=st.booleans(),
        retention=st.sampled_from([None, None, 0]),
        call=st.integers(0, 60),
        what=st.sampled_from(["kill", "lost", "no space left"]),
    )
    def compact_and_fail(self, everything: bool, retention: float | None, call: int, what: str) -> None:
        self._fails(call, what)
        with suppress(Killed, MutatorError):
            self._compact(everything, retention)
        self._works()
        if open_snapshot(TABLE).version.number == len(self.models):
            self._compacted(retention)

    @rule(number=st.integers(0, 99), call=st.integers(0, 60), what=st.sampled_from([None, "kill", "lost", "EIO"]))
    def restore(self, number: int, call: int, what: str | None) -> None:
        number = self._there(number)
        if what is not None:
            self._fails(call, what)
            with suppress(Killed, MutatorError):
                restore_table(open_snapshot(TABLE), number)
            self._works()
            if open_snapshot(TABLE).version.number == len(self.models):
                self.models.append(self.models[number])
        done = restore_table(open_snapshot(TABLE), number)
        if done.version is not None:
            self.models.append(self.models[number])
        assert self.models[-1] == self.models[number]

    @rule(number=st.integers(0, 99), name=st.sampled_from("tuv"), move=st.booleans())
    def tag(self, number: int, name: str, move: bool) -> None:
        number = self._there(number)
        table = Table(TABLE)
        if self.tags.get(name, number) != number and not move:
            with pytest.raises(MutatorError):
                table.tag(name, number)
            return
        table.tag(name, number, move=move)
        if self.tags.get(name) != number:
            self.models.append(self.models[-1])
        self.tags[name] = number
        assert _rows(Table(TABLE).scan(version=name)) == _live(self.models[number])

    @precondition(lambda self: self.tags)
    @rule()
    def untag(self) -> None:
        name, _ = self.tags.popitem()
        Table(TABLE).untag(name)
        self.models.append(self.models[-1])

    @rule(number=st.integers(0, 99), name=st.sampled_from("mn"))
    def set_a_bookmark(self, number: int, name: str) -> None:
        earliest = open_snapshot(TABLE).state.cleaning.earliest
        number = earliest + number % (len(self.models) - earliest)
        Table(TABLE).bookmark(name, number)
        self.marks[name] = number

    @precondition(lambda self: self.marks)
    @rule(name=st.sampled_from("mn"), call=st.integers(0, 40), what=st.sampled_from([None, None, "kill", "lost"]))
    def read_since_a_bookmark(self, name: str, call: int, what: str | None) -> None:
        """Replay the changes since a bookmark, whose reader may fail: then it reads the same changes again."""
        name = name if name in self.marks else next(iter(self.marks))
        table, start = Table(TABLE), self.marks[name]
        self._fails(call, what) if what is not None else None
        with suppress(Killed, MutatorError), table.changes_since(name, net=True) as changes:
            self._replay_rows(changes.to_pylist(), start, len(self.models) - 1, True)
        self._works()
        ((number, *_),) = [(one.version,) for one in Table(TABLE).bookmarks() if one.name == name]
        assert number in ((len(self.models) - 1,) if what is None else (start, len(self.models) - 1))
        self.marks[name] = number

    def _clean(self, keep: int) -> None:
        """Clean the table. Nothing is removed while a scan goes on, which is what the grace is for."""
        Table(TABLE).clean(keep_versions=keep, grace="1h" if self.reading else "0s")

    def _cleaned(self) -> None:
        """Add the models of cleanings."""
        while len(self.models) <= open_snapshot(TABLE).version.number:
            self.models.append(self.models[-1])

    @rule(keep=st.integers(1, 4))
    def clean(self, keep: int) -> None:
        self._clean(keep)
        self._cleaned()
        log = TableLog(TABLE)
        assert self.reading or not [one for one in log.numbers() if 0 < one <= log.archive.last()]
        assert Table(TABLE).verify(repair=True, open_runner=open_runner).problems == ()

    @rule(keep=st.integers(1, 4), call=st.integers(0, 90), what=st.sampled_from(["kill", "lost", "no space left"]))
    def clean_and_fail(self, keep: int, call: int, what: str) -> None:
        self._fails(call, what)
        with suppress(Killed, MutatorError):
            self._clean(keep)
        self._works()
        self._cleaned()

    def _there(self, number: int) -> int:
        """Return a version that is there."""
        left = open_snapshot(TABLE).state.cleaning.left
        versions = [one for one in range(len(self.models)) if left.has(one)]
        return versions[number % len(versions)]

    @rule()
    def lose_the_hint(self) -> None:
        self.storage.tree.pop(f"{TABLE}/_mutator/table/hint.json", None)

    @rule()
    def lose_the_checkpoints(self) -> None:
        for path in [path for path in self.storage.tree if "/checkpoints/0" in path and ".base." not in path]:
            del self.storage.tree[path]

    @rule(number=st.integers(0, 99))
    def scan_an_older_version(self, number: int) -> None:
        self._check(Table(TABLE), self._there(number))

    @rule()
    def begin_to_scan(self) -> None:
        batches = (batch for batch in Table(TABLE).scan())  # one without rows cannot be read on
        self.reading.append((batches, [one for one in [next(batches, None)] if one is not None], self.models[-1]))

    @precondition(lambda self: self.reading)
    @rule()
    def end_a_scan(self) -> None:
        batches, begun, model = self.reading.pop(0)
        assert _rows([*begun, *batches]) == _live(model)

    @rule(number=st.integers(0, 99), name=st.sampled_from(IDS))
    def get(self, number: int, name: str) -> None:
        number = self._there(number)
        table, wanted = Table(TABLE), [row for row in _live(self.models[number]) if row[0] == name]
        found = table.get(name, version=number)
        if self.scope.get("key.scope") != "partition":
            found = [] if found is None else [found]
        assert sorted((row["id"], int(row["at"]), row["name"]) for row in found) == wanted
        # The last version of a record is that of the snapshot.
        history = table.history(name, version=number)
        last = {one.partition if self.scope.get("key.scope") else None: one for one in history}
        is_whole = table.snapshot.state.cleaning.earliest == 0  # else the version that deleted it may be gone
        if self.scope.get("key.scope") != "table" and is_whole:  # else the versions are in several partitions
            kept = [one.record.to_pylist()[0] for one in last.values() if not one.deleted]
            assert sorted((row["id"], int(row["at"]), row["name"]) for row in kept) == wanted

    @rule(first=st.integers(0, 99), second=st.integers(0, 99), net=st.booleans())
    def replay_changes(self, first: int, second: int, net: bool) -> None:
        earliest = open_snapshot(TABLE).state.cleaning.earliest
        count = len(self.models) - earliest
        first, second = sorted((earliest + first % count, earliest + second % count))
        self._replay(first, second, net)

    @rule(
        number=st.integers(0, 99),
        call=st.integers(0, 80),
        what=st.sampled_from([None, "kill", "lost"]),
        columns=st.sampled_from(["path", "file"]),
    )
    def export(self, number: int, call: int, what: str | None, columns: str) -> None:
        number = self._there(number)
        if not number or not Table(TABLE).at(number).state.spec:
            return  # no schema before the first rows
        if what is not None:
            output = self._output()
            self._fails(call, what)
            with suppress(Killed, MutatorError):
                Table(TABLE).export(output, version=number, partition_columns=columns, open_runner=open_runner)
            self._works()
        output = self._output()
        Table(TABLE).export(output, version=number, partition_columns=columns, open_runner=open_runner)
        known = read_manifest(self.storage, output)
        assert known is not None
        in_path = columns == "path" and bool(self.scope)
        for part in known.files:
            names = pq.read_schema(io.BytesIO(read_file(f"{output}/{part.path}"))).names
            assert ("name" in names) != in_path
        assert _rows([Dataset(output).to_arrow()]) == _live(self.models[number])
        assert local_engine.verify(output).problems == ()

    def _output(self) -> str:
        """Return the directory of the next export: always the same one, where an export can be replaced."""
        self.exports += self.storage.storage_type == "hdfs"
        return f"{OUTPUT}{self.exports}"

    @invariant()
    def the_newest_version_is_the_model(self) -> None:
        if not hasattr(self, "models"):
            return
        newest = len(self.models) - 1
        table = Table(TABLE)
        assert table.version == newest
        log = TableLog(TABLE)
        first = log.archive.last() + 1  # a cleaning that failed may leave entries in the log that it has archived
        assert [one for one in log.numbers() if one == 0 or one >= first] == [0, *range(first, newest + 1)]
        assert first <= max(table.snapshot.state.cleaning.earliest, 1)
        self._check(table, newest)
        assert table.tags() == self.tags
        assert {one.name: one.version for one in table.bookmarks()} == self.marks
        if newest:
            self._replay(newest - 1, newest, False)

    def _check(self, table: Table, number: int) -> None:
        """Compare the rows, keys, masks and counts of a version with its model."""
        snapshot, model = table.at(number), self.models[number]
        rows = _rows(table.scan(version=number))
        assert rows == _live(model)
        assert len({self._key(row) for row in rows}) == len(rows) == snapshot.version.records
        assert snapshot.version.tombstones == sum(one.deleted for one in model.values())
        kept = {DATA: 0, TOMBSTONES: 0}
        for role in kept:
            for file in snapshot.of_role(role):
                hidden: Any = snapshot.masks.hidden(file.path)
                assert len(set(hidden.tolist())) == len(hidden)
                assert not len(hidden) or (hidden[0] >= 0 and hidden[-1] < file.rows)
                kept[role] += file.rows - len(hidden)
        assert kept == {DATA: snapshot.version.records, TOMBSTONES: snapshot.version.tombstones}

    def _replay(self, first: int, last: int, net: bool) -> None:
        """Apply the changes of versions to the rows of one: each fits, and the result is the rows of the other."""
        self._replay_rows(Table(TABLE).changes(first, last, net=net).to_pylist(), first, last, net)

    def _replay_rows(self, changes: list[Any], first: int, last: int, net: bool) -> None:
        rows = {self._key(row): row for row in _live(self.models[first])}
        numbers = [change["_commit_version"] for change in changes]
        assert all(first < number <= last for number in numbers)
        assert net or numbers == sorted(numbers)
        before = dict[tuple[int, tuple[str, ...]], Any]()  # images of rows that an update replaces
        for change in changes:
            row = (change["id"], int(change["at"]), change["name"])
            key, kind = self._key(row), change["_change_type"]
            if kind in ("delete", "update_preimage"):
                assert rows.pop(key) == row
                if kind == "update_preimage":
                    before[change["_commit_version"], key] = row
            else:
                assert key not in rows
                rows[key] = row
                old = before.pop((change["_commit_version"], key), None)
                assert (kind == "update_postimage") == (old is not None)
                assert old != row
        assert not before
        assert sorted(rows.values()) == _live(self.models[last])


def _rows(tables: Iterable[Any]) -> list[Any]:
    """Return the rows (id, order value, name) of pa.Tables or pa.RecordBatches, sorted."""
    found = (row for table in tables for row in table.select(["id", "at", "name"]).to_pylist())
    return sorted((row["id"], int(row["at"]), row["name"]) for row in found)


def _live(model: Model) -> list[Any]:
    """Return the rows of a model, sorted."""
    return sorted((one.id, one.at, one.name) for one in model.values() if not one.deleted)


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize(("kind", "scope"), list(zip(KINDS, SCOPES, strict=True)))
def test_every_operation_once(kind: str, scope: dict[str, str]) -> None:
    machine = Machine()
    machine.create(kind, scope, 2, False, 1)
    try:
        machine.apply_a_feed([Mutation("b", 1, "x", False), Mutation("c", 1, "y", False)])
        machine.begin_to_scan()
        machine.apply_a_feed_and_fail([Mutation("b", 2, "z", False)], 5, "kill")
        machine.apply_a_feed([Mutation("b", 3, "y", False), Mutation("c", 2, "y", True)])
        machine.apply_a_feed_again(1)
        machine.compact(False, None)
        machine.apply_a_feed([Mutation("b", 4, "y", True), Mutation("c", 4, "y", False)])
        machine.compact_and_fail(True, None, 5, "kill")
        machine.overwrite(
            [Mutation("b", 2, "y", False), Mutation("d", 1, "z", False), Mutation("e", 0, "x", True)], False
        )
        machine.overwrite_and_fail([Mutation("b", 2, "y", False)], True, 5, "kill")
        machine.overwrite([Mutation("d", 0, "y", False)], True)
        machine.apply_a_feed([Mutation("b", 3, "y", False)])
        machine.overwrite([], False)
        machine.overwrite([], True)
        machine.compact(True, 0)
        machine.tag(4, "t", False)
        machine.restore(1, 8, "kill")
        machine.set_a_bookmark(2, "m")
        machine.apply_a_feed([Mutation("b", 2, "x", False), Mutation("d", 1, "z", False)])
        machine.compact(True, None)
        machine.restore(4, 2, None)
        machine.restore(5, 2, None)
        machine.read_since_a_bookmark("m", 12, "kill")
        machine.read_since_a_bookmark("m", 0, None)
        machine.untag()
        machine.clean_and_fail(2, 30, "kill")
        machine.lose_the_hint()
        machine.lose_the_checkpoints()
        machine.end_a_scan()
        machine.clean(3)
        for number, _ in enumerate(machine.models):
            machine.scan_an_older_version(number)
            machine.replay_changes(0, number, True)
            machine.replay_changes(number, 9, False)
            for name in "abc":
                machine.get(number, name)
            machine.export(number, 20, "kill", ("path", "file")[number % 2])
        machine.the_newest_version_is_the_model()
    finally:
        machine.teardown()


TestTable = Machine.TestCase
TestTable.settings = settings(max_examples=5, stateful_step_count=15)
TestLong = type("TestLong", (Machine.TestCase,), {"settings": settings(max_examples=200, stateful_step_count=50)})
TestLong = pytest.mark.soak(TestLong)
