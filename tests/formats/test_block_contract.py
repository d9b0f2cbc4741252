"""The block contract supports formats that are not text: structs go through whole runs, and the model agrees.

The planner knows only text formats, so these tests make the plans; the engine does everything from reading on.
"""

from __future__ import annotations

import ast
import random
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import Phase, assume, given
from hypothesis import strategies as st

from mutator.config.settings import LimitSpec
from mutator.dataset.side_columns import read_sides, read_tombstones
from mutator.errors import MutatorError
from mutator.formats.blocks.block_types import BLOCK_TYPES
from mutator.formats.blocks.row_layout import RowLayout
from mutator.pipeline.accounting import add_up
from mutator.plan.inspect.source import Source
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.reading import Chunks
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Split, numbered
from mutator.plan.strategy import Strategy
from mutator.rules.delimiter import field_delimiter
from mutator.rules.envelope import DELETE, FileOperation, OpCodeField
from mutator.rules.file_names import sequence as sequence_of
from mutator.rules.key_hash import bucket_of, hash_key
from mutator.rules.known_formats import FORMATS
from mutator.rules.last_wins import LAST_WINS, SNAPSHOT
from mutator.rules.order_columns import SEQUENCES
from mutator.rules.order_values import NO_SEQUENCE, ORDER_TYPES
from mutator.rules.truth_table import check_sums
from mutator.rules.typed_values import unequal
from tests.support import local_engine, model
from tests.support.effort import law
from tests.support.package_source import of_the_source, trees
from tests.support.packed_format import PackedBlockType, fields, framed, frames, moment

STAMP = pa.timestamp("us")
SUFFIX = ".packed"
SOME_ORDER_TYPES = ["long", "timestamp", "sequence"]
PAYLOADS = [
    None,
    {"price": 1.5, "tags": ["a", None], "deep": {"x": 1}},
    {"price": None, "tags": None, "deep": None},
    {"price": 0.1, "tags": [], "deep": {"x": None}},
]


def make_row(rng):
    return {
        "id": rng.choice(["", "a", "é", "a\nb", "x" * 20]),
        "id2": rng.choice([-1, 0, 12, 1 << 40]),
        "stamp": rng.choice([-1_500_000, 0, 1, 250_000, 10**15]),
        "op": rng.choice(["U", "U", "D", None]),
        "payload": rng.choice(PAYLOADS),
        "nothing": None,
    }


def make_files(rng, names, most):
    return {name: [make_row(rng) for _ in range(rng.randint(0, most))] for name in names}


def array_of(rows, order_type, has_op):
    return pa.array(
        [{name: value for name, value in row.items() if has_op or name != "op"} for row in rows],
        pa.struct(fields(STAMP if order_type == "timestamp" else pa.int64(), has_op)),
    )


def put(directory, files, order_type, has_op):
    """Write files, two rows a frame; return their sources."""
    directory.mkdir()
    found = []
    for name, rows in sorted(files.items()):
        array = array_of(rows, order_type, has_op)
        data = b"".join(framed(array.slice(start, 2)) for start in range(0, len(array), 2))
        (directory / name).write_bytes(data)
        found.append(Source(f"{directory}/{name}", name, len(data), sequence_of(name)))
    return tuple(found)


def key_of(row):
    return row["id"].encode(), b"%d" % row["id2"]


def written(row):
    return repr([row["id"], row["id2"], row["stamp"], row["payload"]]).encode()


class Dataset:
    """The master of a series of runs, as files and in the model."""

    def __init__(self, work, order_type, seed):
        self.work, self.order_type, self.seed, self.number = work, order_type, seed, 0
        self.master, self.buried, self.buckets = (), (), None
        self.rows, self.tombstones, self.in_order = [], {}, {}

    def start(self, files):
        self.master = put(self.work / "master", files, self.order_type, has_op=False)
        self.rows = self._rows(files, has_op=False)

    def _rows(self, files, has_op):
        found = []
        for name, rows in sorted(files.items()):
            number = sequence_of(name)
            for offset, row in enumerate(rows):
                order = row["stamp"]
                if self.order_type == "sequence":
                    order = NO_SEQUENCE if number is None else number
                elif self.order_type == "timestamp":
                    order = moment(order)
                is_delete = has_op and (row["op"] == "D" or name.startswith("del"))
                sequence = NO_SEQUENCE if number is None else number
                code = repr([*row.values()]).encode()
                found.append(
                    model.Row(key_of(row), order, sequence, name.encode(), offset, code, is_delete, written(row))
                )
        return found

    def run(
        self,
        feed,
        *,
        join,
        buckets,
        unique=False,
        memory=1 << 20,
        full=False,
        expire=False,
        engine="blocks",
        carries=True,
    ):
        self.number += 1
        sources = put(self.work / f"feed-{self.number}", feed, self.order_type, has_op=True)
        plan = self.plan(sources, join, buckets, unique, memory, full, expire)
        rows = replace(plan.rows, carries=carries)
        plan = replace(plan, strategy=plan.strategy._replace(engine=engine), rows=rows)
        staging = self.work / f"output-{self.number}"
        for name in ("order", "tombstones", "rejected"):
            (staging / "_mutator" / name).mkdir(parents=True)
        form = PackedBlockType(STAMP if self.order_type == "timestamp" else pa.int64())
        with patch.dict(BLOCK_TYPES.makers, {"packed": lambda: form}):
            result = add_up(plan, local_engine.merge(plan, str(staging), self.seed))
        assert check_sums(result.counts) == []
        assert result.counts["tombstones read"] == result.counts["tombstones in"]
        expected = model.merge(
            self.rows,
            self.tombstones,
            self._rows(feed, has_op=True),
            now=plan.now,
            full=full,
            expire_before=plan.expire_before,
        )
        self._check_order(expected, staging, result, plan)
        self._take(staging, result, plan)
        assert {row.key: (row.order, row.written) for row in self.rows} == expected.records
        assert self.tombstones == expected.tombstones
        assert {name: result.counts[name] for name in expected.counts} == dict(expected.counts)
        for name, keys in expected.notes.items():
            assert result.samples.get(name, []) == keys[:5]
        assert result.expired == expected.horizon
        return result

    def plan(self, feed, join, buckets, unique, memory, full, expire):
        by_name = self.order_type == "sequence"
        place = {"id_fields": (0, 1), "order_fields": () if by_name else (2,), "order_type": self.order_type}
        master = RowLayout(delimiter=field_delimiter.parse(","), **place)
        rows = replace(master, envelope=OpCodeField(field=3, delete_codes=frozenset([b"D"])), cut_op=True)
        deletes = replace(rows, envelope=FileOperation(field=3, kind=DELETE))
        shape = RowPlan(
            block_type="packed",
            layouts={"master": master, "feed": rows, "deletes": deletes},
            output=SUFFIX,
            spec={"key": {"types": ["struct"]}},
            order_type=self.order_type,
            layout_of={one.path: "deletes" for one in feed if one.name.startswith("del")},
        )
        inputs = numbered(self.buried, self.master, feed, shape)
        splits = [Split(number, 0, 0, None) for number in range(len(inputs))]
        mutations = [split for split in splits if inputs[split.input].side == "feed"]
        unread = [split for split in splits if split not in mutations]
        tasks, local, groups = tuple((split,) for split in mutations), (), buckets
        if join == "shuffle":
            tasks = (*((split,) for split in unread), *tasks)
        elif join == "broadcast":
            data = [split for split in unread if inputs[split.input].side == "master"]
            local = (*((split,) for split in data), tuple(split for split in unread if split not in data))
            groups, buckets = len(local), None
        else:
            groups = min(self.buckets, buckets)
            buckets_of = [[] for _ in range(groups)]
            for split in unread:
                buckets_of[inputs[split.input].source.bucket % groups].append(split)
            local = tuple(map(tuple, buckets_of))
        return Plan(
            run=f"run{self.number}",
            now=1_000 * self.number,
            inputs=inputs,
            tasks=tasks,
            local=local,
            rows=shape,
            strategy=Strategy("blocks", join, buckets, groups, ""),
            master_buckets=self.buckets,
            groups=groups,
            by_file_name=by_name,
            register=SNAPSHOT if full else LAST_WINS,
            expire_before=1_000 * self.number - 500 if expire else None,
            chunks=Chunks(master=256, feed=128, written=256),
            rejects={"master": 0, "feed": 0},
            limits=LimitSpec(),
            memory=memory,
            bucket_bytes=64 << 20,
            unique=unique or self.buckets is not None,
            units=tuple(MergeUnit(group, groups, buckets) for group in range(groups)),
        )

    def _take(self, staging, result, plan):
        """Read the written files without the engine, and make them the master."""
        beside = {part.path: part for part in result.beside}
        self.rows, sources = [], []
        for part in sorted(result.files, key=lambda part: part.path):
            name, path = Path(part.path).name, staging / part.path
            assert path.suffix == SUFFIX
            orders = None
            if part.order is not None:
                orders = read_sides((staging / part.order).open("rb"), SEQUENCES).field(0).to_pylist()
            rows = [row for frame in frames([path.read_bytes()]) for row in frame.to_pylist()]
            assert len(rows) == part.rows
            for offset, row in enumerate(rows):
                if self.order_type == "timestamp":
                    row["stamp"] = micros_of(row["stamp"])
                order = orders[offset] if orders is not None else row["stamp"]
                order = moment(order) if self.order_type == "timestamp" else order
                if plan.strategy.buckets is not None:
                    assert bucket_of(key_of(row), plan.strategy.buckets) == part.bucket
                sequence = sequence_of(name)
                sequence = NO_SEQUENCE if sequence is None else sequence
                place = (sequence, name.encode(), offset)
                self.rows.append(model.Row(key_of(row), order, *place, b"", False, written(row)))
            order = beside.get(part.order)
            sources.append(
                Source(
                    str(path),
                    name,
                    part.bytes,
                    sequence_of(name),
                    part=part,
                    order_part=order,
                )
            )
        self.master = tuple(sources)
        self.tombstones, buried = {}, []
        for part in result.beside:
            if part.role == "tombstones":
                path = staging / part.path
                buried.append(Source(str(path), path.name, part.bytes, part=part))
                for key, order, committed in read_tombstones(path.open("rb")):
                    value = NO_SEQUENCE if order is None else ORDER_TYPES[self.order_type][0](order)
                    assert key not in self.tombstones
                    self.tombstones[key] = (value, committed)
        self.buried = tuple(buried)
        self.buckets = plan.strategy.buckets

    def _check_order(self, expected, staging, result, plan):
        """Surviving rows keep their order, and updated rows their position; inserted rows follow, by key."""
        if plan.strategy.join == "broadcast":
            return
        survivors = list(model.last(self.rows).values())
        place = {(row.name, row.offset): number for number, row in enumerate(sorted(self.rows, key=lambda r: r[3:5]))}
        live = sorted(
            (row for row in survivors if row.key in expected.records), key=lambda row: place[row.name, row.offset]
        )
        before = [row.key for row in live]
        keys = [*before, *sorted(set(expected.records) - set(before))]
        for part in result.files:
            found = [key_of(row) for frame in frames([(staging / part.path).read_bytes()]) for row in frame.to_pylist()]
            assert len(set(found)) == len(found)
            if plan.strategy.buckets == (self.buckets or plan.strategy.buckets):
                assert found == [key for key in keys if bucket_of(key, plan.strategy.buckets) == part.bucket]


def micros_of(when):
    delta = when - type(when)(1970, 1, 1)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


NO_SHRINK = [Phase.explicit, Phase.generate]


@contextmanager
def dataset(order_type, seed=0):
    with TemporaryDirectory() as directory:
        yield Dataset(Path(directory), order_type, seed)


MASTER = ["m", "n_2"]
FEED = ["u_1", "u_2", "v_2", "u_10", "del_2"]


@law(25, phases=NO_SHRINK)
@given(st.randoms(use_true_random=False), st.sampled_from(SOME_ORDER_TYPES), st.sampled_from([0, 200, 1 << 20]))
def test_runs_on_structs(rng, order_type, memory):
    """Unmanaged with duplicates, then aligned, then other bucket counts; each feed comes in parts or whole."""
    with dataset(order_type, rng.random()) as data:
        data.start(make_files(rng, MASTER, 8))
        feed = make_files(rng, rng.sample(FEED, rng.randint(1, 4)), 8)
        data.run(feed, join="shuffle", buckets=rng.choice([1, 2, 3]), memory=memory)
        data.run(make_files(rng, ["u_2", "w_3"], 6), join="aligned", buckets=data.buckets, memory=memory)
        data.run(feed, join="aligned", buckets=data.buckets * 2, memory=memory, expire=rng.random() < 0.3)
        data.run(make_files(rng, ["x_4"], 6), join="shuffle", buckets=rng.choice([2, 5]), memory=memory)
        data.run(make_files(rng, ["x_9"], 6), join="aligned", buckets=data.buckets, memory=memory, full=True)


@law(15, phases=NO_SHRINK)
@given(st.randoms(use_true_random=False), st.sampled_from(SOME_ORDER_TYPES))
def test_the_records_engine_on_structs(rng, order_type):
    """Alternate with the blocks engine: each engine continues with the other's output."""
    with dataset(order_type, rng.random()) as data:
        data.start(make_files(rng, MASTER, 8))
        feed = make_files(rng, rng.sample(FEED, rng.randint(1, 4)), 8)
        data.run(feed, join="shuffle", buckets=rng.choice([1, 2, 3]), engine="records")
        data.run(make_files(rng, ["u_2", "w_3"], 6), join="aligned", buckets=data.buckets)
        data.run(feed, join="shuffle", buckets=rng.choice([2, 5]), engine="records", expire=rng.random() < 0.3)
        data.run(make_files(rng, ["x_9"], 6), join="shuffle", buckets=2, engine="records", full=True)


@pytest.mark.parametrize("carries", [True, False])
def test_files_without_mutations(carries):
    """They stay, unless they lack the form in which the run writes."""
    rng = random.Random(5)
    with dataset("long") as data:
        data.run({"u_5": [{**make_row(rng), "op": "U", "id2": n} for n in range(20)]}, join="shuffle", buckets=2)
        before = {Path(source.path).name for source in data.master}
        data.run({"u_6": []}, join="aligned", buckets=2, carries=carries)
        after = {Path(source.path).name for source in data.master}
    assert len(before) == len(after) == 2
    assert after == before if carries else not after & before


@law(25, phases=NO_SHRINK)
@given(st.randoms(use_true_random=False), st.sampled_from(SOME_ORDER_TYPES))
def test_broadcasts_on_structs(rng, order_type):
    with dataset(order_type, rng.random()) as data:
        files = make_files(rng, MASTER, 8)
        once = {key_of(row): (name, row) for name, rows in files.items() for row in rows}
        data.start({name: [row for place, row in once.values() if place == name] for name in files})
        for number in range(2):
            assume(data.master)  # without a master, the plan is a shuffle
            feed = make_files(rng, [f"u_{number}", f"v_{number}"], 8)
            data.run(feed, join="broadcast", buckets=None, unique=True)


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("order_type", SOME_ORDER_TYPES)
@pytest.mark.parametrize("memory", [0, 1 << 20])
def test_the_same_feed_again_changes_nothing(order_type, memory):
    """The law includes fields that are null, nested, or of the null type."""
    rng = random.Random(7)
    rows = [{**make_row(rng), "op": "U", "id2": number, "payload": PAYLOADS[number % 4]} for number in range(20)]
    with dataset(order_type) as data:
        first = data.run({"u_5": rows}, join="shuffle", buckets=2, memory=memory)
        again = data.run({"u_5": rows}, join="aligned", buckets=2, memory=memory)
    assert first.counts["feed inserted"] == 20
    assert again.counts["feed no-op"] == 20
    assert again.counts["tied"] == 0


def test_nan_equals_nan():
    rows = [
        {"id": "a", "id2": 1, "stamp": 1, "op": "U", "payload": {"price": float("nan"), "tags": None, "deep": None}}
    ]
    with dataset("long") as data:
        data.run({"u_5": [{**row, "nothing": None} for row in rows]}, join="shuffle", buckets=1)
        again = data.run({"u_5": [{**row, "nothing": None} for row in rows]}, join="aligned", buckets=1)
    assert again.counts["feed no-op"] == 1


def test_rejects_and_damage_are_reported():
    rng = random.Random(3)
    rows = [{**make_row(rng), "op": "U"} for _ in range(5)]
    rows[1]["id"], rows[3]["stamp"] = None, None
    with dataset("long") as data:
        sources = put(data.work / "feed", {"u_1": rows}, "long", has_op=True)
        plan = data.plan(sources, "shuffle", 2, False, 1 << 20, False, False)
        with patch.dict(BLOCK_TYPES.makers, {"packed": lambda: PackedBlockType(pa.int64())}):
            result = add_up(plan, local_engine.merge(plan, None))
            assert result.counts["feed rejected"] == 2
            assert [(line, reason) for _, _, line, _, reason, _ in result.rejects["feed"]] == [
                (2, "no ID"),
                (4, "no order value"),
            ]
            assert check_sums(result.counts) == []
            content = Path(sources[0].path).read_bytes()
            for broken in (content[:-1], content[:60] + b"\xff" * 40 + content[100:]):
                Path(sources[0].path).write_bytes(broken)
                plan = data.plan((replace(sources[0], bytes=len(broken)),), "shuffle", 2, False, 1 << 20, False, False)
                with pytest.raises(MutatorError, match="u_1"):
                    add_up(plan, local_engine.merge(plan, None))


def test_a_key_has_the_hash_of_its_text():
    rows = array_of([{**make_row(random.Random(1)), "id": "é", "id2": -12}], "long", has_op=True)
    block = PackedBlockType(pa.int64()).load(
        framed(rows), RowLayout(delimiter=field_delimiter.parse(","), id_fields=(0, 1))
    )
    assert [int(one) for one in block.hashes()] == [hash_key(("é".encode(), b"-12"))]


VALUES = st.recursive(
    st.just(pa.int64()) | st.just(pa.string()) | st.just(pa.float64()) | st.just(pa.null()),
    lambda inner: st.builds(pa.list_, inner) | st.builds(lambda a, b: pa.struct([("a", a), ("b", b)]), inner, inner),
    max_leaves=4,
)


def draw_value(rng, data_type):
    if rng.random() < 0.3 or data_type == pa.null():
        return None
    if pa.types.is_struct(data_type):
        return {field.name: draw_value(rng, field.type) for field in data_type}
    if pa.types.is_list(data_type):
        return [draw_value(rng, data_type.value_type) for _ in range(rng.randint(0, 2))]
    return {pa.int64(): rng.choice([0, 1]), pa.string(): rng.choice(["", "x"])}.get(data_type, rng.choice([0.0, 0.5]))


@given(st.randoms(use_true_random=False), VALUES)
def test_unequal_agrees_with_python(rng, data_type):
    one, other = ([draw_value(rng, data_type) for _ in range(6)] for _ in range(2))
    start = rng.randint(0, 3)  # slices have offsets of their own
    found = unequal(pa.array(one, data_type)[start:], pa.array(other, data_type)[start:])
    assert found.tolist() == [left != right for left, right in zip(one[start:], other[start:], strict=True)]


# -- the engine depends on no format


def modules():
    names = {name: name.removeprefix("engine.").replace(".", "/") for name in trees() if name.startswith("engine.")}
    return {shown: trees()[name] for name, shown in names.items()}


@of_the_source
def test_the_engine_imports_no_format():
    allowed = {f"mutator.formats.blocks.{name}" for name in ("block_type", "block_types", "changed_rows")}
    allowed.add("mutator.formats.content")
    found = set()
    for name, tree in modules().items():
        if name.startswith("versions/"):  # the data of a versioned table are always Parquet
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mutator.formats"):
                named = {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module not in allowed:
                    found.add((name, *named))
            elif isinstance(node, ast.Import):
                found |= {(name, alias.name) for alias in node.names if alias.name.startswith("mutator.formats")}
    assert found == set()


@of_the_source
def test_the_engine_gets_its_block_type_from_the_plan():
    found = []
    for name, tree in modules().items():
        assert "BLOCK_TYPES" not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}, name
        asked = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "block_type"]
        found += [(name, one.lineno) for one in asked if not re.fullmatch(r"(self\._?)?plan", ast.unparse(one.value))]
    assert found == []


@of_the_source
def test_the_engine_names_no_format():
    words = {*BLOCK_TYPES, *FORMATS, *(known.suffix for known in FORMATS.values())}
    words -= {"text", ".parquet", ""}  # common words, and the suffix of a format that is only read
    found = [
        (name, node.lineno)
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in words
    ]
    assert found == []
