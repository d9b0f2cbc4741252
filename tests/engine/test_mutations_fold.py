"""The fold, the winners and the duplicates: columns give the same results as dicts, in any grouping and order."""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from contextlib import ExitStack
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.engine.blocks import spool
from mutator.engine.blocks.fold import fold, fold_in_place, fold_parts
from mutator.engine.blocks.merge_task import duplicates
from mutator.engine.blocks.mutations import Mutations, joined_mutations, mutations_of_table, table_of_mutations
from mutator.engine.blocks.read_blocks import BlockRun, Feed
from mutator.engine.blocks.winners import Winners
from mutator.engine.tally import Tally
from mutator.formats.blocks.block_types import BLOCK_TYPES
from mutator.rules.key_hash import prefixes_of
from mutator.rules.last_wins import LAST_WINS, groups_of_keys
from mutator.rules.order_columns import column_type

# Files: two with the same name in two directories, one with an earlier name and the same sequence, one with another
# sequence.
FILES = [(0, 3), (1, 3), (1, 3), (2, 4)]  # rank of the base name, sequence
KEYS = [(b"",), (b"a",), (b"b",), (b"\xff",), (b"a\n",)]


class Mutation(NamedTuple):
    key: tuple[bytes, ...]
    order: int | bytes
    file: int
    offset: int
    row: bytes
    is_delete: bool


class Outcome(NamedTuple):
    """The result of a fold for one key."""

    winner: tuple
    count: int
    mixed: bool
    upserts: bool


def plan_of(order_type="long"):
    files = tuple(SimpleNamespace(rank=rank, sequence=sequence) for rank, sequence in FILES)
    return SimpleNamespace(
        inputs=files,
        sequences=np.array([file.sequence for file in files]),
        ranks=np.array([file.rank for file in files]),
        key_width=1,
        register=LAST_WINS,
        folding=LAST_WINS,
        rows=SimpleNamespace(order_type=order_type),
        floor=None,
        by_file_name=False,
        memory=0,
        set_aside=0,
        master_is_table=False,
        horizon=None,
        as_of=None,
        buries_rows=False,
        block_type=BLOCK_TYPES["text"],
    )


def hashes_of(keys, space):
    return np.array([hash(key) % space if space else KEYS.index(key) * 2**61 for key in keys], np.uint64)


def columns_of(bag, order_type="long", space=3):
    """Lay mutations out as columns; all keys share ``space`` hashes, so that many keys have the same hash."""
    keys = [mutation.key for mutation in bag]
    return Mutations(
        hashes=hashes_of(keys, space),
        keys=(pa.array([key[0] for key in keys], pa.large_binary()),),
        orders=pa.array([mutation.order for mutation in bag], column_type(order_type)),
        inputs=np.array([mutation.file for mutation in bag], np.int64),
        offsets=np.array([mutation.offset for mutation in bag], np.int64),
        deletes=np.array([mutation.is_delete for mutation in bag], np.bool_),
        unset=pa.nulls(len(bag)),
        rows=pa.array([mutation.row for mutation in bag], pa.large_binary()),
        written=pa.array([one.row[:2] for one in bag], pa.large_binary()),  # as if only a part of the row were kept
        counts=np.ones(len(bag), np.int64),
        mixed=np.zeros(len(bag), np.bool_),
        upserts=np.array([not mutation.is_delete for mutation in bag], np.bool_),
        moves=np.zeros(len(bag), np.int64),
        directories=pa.nulls(len(bag)),
        lows=pa.nulls(len(bag)),
    )


def by_model(bag):
    """Compute winners and ties with lists, as DESIGN 3.1 defines them."""
    outcomes = {}
    for key in {mutation.key for mutation in bag}:
        mine = [mutation for mutation in bag if mutation.key == key]

        def precedence(one):
            rank, sequence = FILES[one.file]
            return one.order, sequence, rank, one.offset, one.row[:-1]

        top = max(mine, key=precedence)
        level = (top.order, FILES[top.file][1])
        contents = {
            (mutation.is_delete, mutation.row[:2])
            for mutation in mine
            if (mutation.order, FILES[mutation.file][1]) == level
        }
        winner = (*precedence(top), top.is_delete)
        outcomes[key] = Outcome(winner, len(mine), len(contents) > 1, not all(mutation.is_delete for mutation in mine))
    return outcomes


def outcomes_of(found):
    assert (np.sort(found.hashes) == found.hashes).all()
    outcomes = {}
    for n in range(len(found)):
        key = tuple(column[n].as_py() for column in found.keys)
        assert key not in outcomes
        rank, sequence = FILES[found.inputs[n]]
        place = (found.orders[n].as_py(), sequence, rank, int(found.offsets[n]), found.rows[n].as_py()[:-1])
        assert found.written[n].as_py() == found.rows[n].as_py()[:2]
        rest = (int(found.counts[n]), bool(found.mixed[n]), bool(found.upserts[n]))
        outcomes[key] = Outcome((*place, bool(found.deletes[n])), *rest)
    return outcomes


def mutations(orders):
    # The row itself contains whether it is a delete, as an op code does: equal rows are equal mutations.
    rows = st.sampled_from([b"x\n", b"xy1\n", b"xy2\n", b"D\n", b"D1\n", b"Dy\n"])
    files, offsets = st.sampled_from(range(len(FILES))), st.integers(0, 2)
    return st.builds(
        lambda key, order, file, offset, row: Mutation(key, order, file, offset, row, row.startswith(b"D")),
        st.sampled_from(KEYS), orders, files, offsets, rows,
    )  # fmt: skip


BAGS = st.lists(mutations(st.integers(0, 2)), max_size=14)


def grouped(rng, bag, plan, **options):
    """Fold a bag in a random order and grouping: some groups are folded again and again, some through a table."""
    bag = rng.sample(bag, len(bag))
    parts = []
    while bag:
        size = rng.randint(1, len(bag))
        parts.append(columns_of(bag[:size], **options))
        bag = bag[size:]
    while len(parts) > 1 or rng.random() < 0.3:
        size = rng.randint(1, len(parts))
        one = joined_mutations(parts[:size])
        one = fold(plan, one) if rng.random() < 0.8 else one
        parts = [*parts[size:], mutations_of_table(table_of_mutations(one)) if rng.random() < 0.3 else one]
    return fold(plan, parts[0])


@given(BAGS.filter(bool), st.sampled_from([0, 1, 2, 3]), st.randoms(use_true_random=False))
def test_any_grouping_and_order_gives_the_same_winners(bag, space, rng):
    """Each key has a hash of its own, or many keys share a few hashes."""
    expected = by_model(bag)
    assert outcomes_of(fold(plan_of(), columns_of(bag, space=space))) == expected
    for _ in range(3):
        assert outcomes_of(grouped(rng, bag, plan_of(), space=space)) == expected


@given(BAGS.filter(bool), st.sampled_from([0, 1, 2, 3]), st.integers(1, 4))
def test_winners_do_not_depend_on_how_many_mutations_are_compared_at_a_time(bag, space, compared):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mutator.rules.last_wins._COMPARED", compared)
        assert outcomes_of(fold(plan_of(), columns_of(bag, space=space))) == by_model(bag)


def test_columns_of_parts_are_free_once_they_are_folded():
    """Each part is in memory once more only while one of its columns is copied."""
    rows = [Mutation((b"%05d" % n,), n, 1, n, b"x\n", False) for n in range(100)]
    parts = [columns_of(rows[:50]), columns_of(rows[50:])]
    columns = [weakref.ref(part.hashes) for part in parts]
    folded = fold_parts(plan_of(), parts)
    assert parts == []
    assert len(folded) == 100
    assert [column() for column in columns] == [None, None]


@given(BAGS.filter(bool), st.sampled_from([0, 3]))
def test_a_fold_in_place_has_the_same_winners(bag, space):
    folded = fold_in_place(plan_of(), [columns_of(bag, space=space)])
    index = pa.array(range(len(folded)), pa.int64())
    plain = fold(plan_of(), columns_of(bag, space=space))
    assert folded.hashes.tolist() == plain.hashes.tolist()
    assert folded.written.take(index) == plain.written
    assert [keys.to_pylist() for keys in folded.keys] == [keys.to_pylist() for keys in plain.keys]


def test_rows_stay_in_place_where_all_are_winners():
    found = columns_of(
        [Mutation((key,), 1, 1, n, b"%d\n" % n, False) for n, key in enumerate([b"b", b"", b"a"])], space=0
    )
    folded = fold_in_place(plan_of(), [found])
    assert folded.written.array is found.written
    assert folded.written.take(pa.array([0, 1, 2])).to_pylist() == [b"1\n", b"2\n", b"0\n"]


def test_rows_of_a_group_travel_in_the_order_of_reading():
    plan = plan_of()
    plan.groups, plan.feed_has_directories = 2, False
    feed = Feed(plan)
    found = columns_of([Mutation((b"%d" % n,), n, 1, n, b"%d\n" % n, False) for n in range(9)])
    hashes = np.arange(9, dtype=np.uint64)[::-1].copy()
    feed.waiting = {"feed": [Mutations(**{**vars(found), "hashes": hashes})]}
    runs = [(key[0], BlockRun(*run)) for key, run in feed.runs()]
    offsets = {group: np.frombuffer(run.offsets, np.int64).tolist() for group, run in runs}
    assert offsets == {0: [0, 2, 4, 6, 8], 1: [1, 3, 5, 7]}
    assert {group: run.rows for group, run in runs} == {0: b"0\n2\n4\n6\n8\n", 1: b"1\n3\n5\n7\n"}


@given(st.lists(mutations(st.sampled_from([b"", b"10", b"9", b"\xff"])), min_size=1, max_size=8), st.randoms())
def test_order_values_may_be_bytes(bag, rng):
    assert outcomes_of(grouped(rng, bag, plan_of("string"), order_type="string")) == by_model(bag)


def test_every_order_of_a_tie_gives_the_same_winner():
    """The name and the offset are equal in two directories: the row's bytes decide, whichever file was listed first."""
    bag = [Mutation((b"a",), 1, 1, 0, b"xy1\n", False), Mutation((b"a",), 1, 2, 0, b"xy2\n", False)]
    bag.append(Mutation((b"a",), 1, 1, 0, b"x\n", False))
    for some in itertools.permutations(bag):
        assert outcomes_of(fold(plan_of(), columns_of(list(some)))) == {
            (b"a",): Outcome((1, 3, 1, 0, b"xy2", False), 3, True, True)
        }


def test_a_tie_below_the_winner_is_not_counted():
    """The same is true of mutations that were folded before, as in a map task."""
    below = columns_of([Mutation((b"a",), 1, 1, 0, row, False) for row in (b"x\n", b"xy1\n")])
    above = columns_of([Mutation((b"a",), 2, 1, 0, b"x\n", False)])
    assert fold(plan_of(), below).mixed.tolist() == [True]
    assert fold(plan_of(), joined_mutations([fold(plan_of(), below), above])).mixed.tolist() == [False]


def test_a_line_end_is_not_part_of_a_row():
    """DESIGN 3.1 compares rows, and by DESIGN 4 the line end is not part of the row: a tab is less than a line feed."""
    found = columns_of([Mutation((b"a",), 1, 1, 0, b"", False), Mutation((b"a",), 1, 2, 0, b"", False)])
    for lines in ([b"a,1,x\n", b"a,1,x\t\n"], [b"a,1,x\t\n", b"a,1,x\n"]):
        rows = pa.array(lines, pa.large_binary())
        [winner] = fold(plan_of(), Mutations(**{**vars(found), "rows": rows, "written": rows})).rows.to_pylist()
        assert winner == b"a,1,x\t\n"


def test_fold_of_no_mutations():
    assert outcomes_of(fold(plan_of(), columns_of([]))) == {}


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(KEYS)), max_size=12))
def test_groups_of_keys(pairs):
    pairs.sort(key=lambda pair: pair[0])
    hashes = np.array([number for number, _ in pairs], np.uint64)
    found = groups_of_keys(hashes, [pa.array([key[0] for _, key in pairs], pa.large_binary())]).tolist()
    for (one, left), (other, right) in itertools.combinations(zip(pairs, found, strict=True), 2):
        assert (left == right) == (one == other)
        assert one[0] >= other[0] or left < right


@given(BAGS, st.lists(st.sampled_from(KEYS), max_size=12), st.sampled_from([0, 1, 2, 3]))
def test_matches_equal_those_of_a_dict(bag, master, space):
    """Rows of a master may repeat; keys that share a hash are still told apart."""
    folded = fold(plan_of(), columns_of(bag, space=space))
    winners = Winners(plan_of(), folded, Tally())
    column = pa.array([key[0] for key in master], pa.large_binary())
    places = {value: place for place, value in enumerate(folded.keys[0].to_pylist())}
    keys = lambda chosen: [column.take(pa.array(chosen))]  # noqa: E731
    rows, found = winners.match(hashes_of(master, space), keys, lambda chosen: pa.nulls(len(chosen)))
    expected = [(row, places[key[0]]) for row, key in enumerate(master) if key[0] in places]
    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == expected


# -- rows of one key in the master


class _Block:
    """Rows of a master, as ``duplicates`` reads them."""

    def __init__(self, base, rows, space, shuffled):
        self.base, self.block = base, self
        self._rows = rows
        self.hashes = hashes_of([key for key, _, _ in rows], space)
        self.prefixes = prefixes_of(self.hashes) if shuffled else None

    def hashes_of(self, chosen):
        return self.hashes[chosen]

    def keys(self, chosen):
        return [pa.array([self._rows[row][0][0] for row in chosen], pa.large_binary())]

    def sequences(self, chosen):
        return pa.array([self._rows[row][2] for row in chosen], pa.int64())

    def orders(self, chosen):
        return pa.array([self._rows[row][1] for row in chosen], pa.int64())


MASTERS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 2), st.integers(-1, 1)), max_size=30)


@given(MASTERS, st.sampled_from([0, 1, 2, 3]), st.sampled_from([0, 50, 1 << 20]), st.integers(1, 4), st.data())
def test_duplicates_are_those_of_a_dict(monkeypatch, master, space, memory, batch, data):
    """The last by (order value, sequence, position) survives; the memory is enough for no row, a few rows, or all."""
    monkeypatch.setattr(spool, "BATCH", batch)
    monkeypatch.setattr(spool.write_tables, "__defaults__", (batch,))
    cuts = sorted({0, len(master), *data.draw(st.lists(st.integers(0, len(master)), max_size=4))})
    shuffled = data.draw(st.booleans())  # then prefixes of hashes are known, and other keys may have the same
    blocks = [_Block(start, master[start:end], space, shuffled) for start, end in itertools.pairwise(cuts)]
    plan = plan_of()
    plan.memory = plan.set_aside = memory
    tally = Tally()
    with ExitStack() as stack:
        found = duplicates(plan, lambda: iter(blocks), tally, stack)
    last = {}
    for place in sorted(range(len(master)), key=lambda n: (*master[n][1:], n)):
        last[master[place][0]] = place
    assert found.tolist() == sorted(set(range(len(master))) - set(last.values()))
    assert tally.counts["master duplicate"] == len(found)
    several = sorted(key for key, count in Counter(key for key, _, _ in master).items() if count > 1)
    assert tally.counts["duplicate IDs"] == len(several)
    assert tally.samples.get("duplicate IDs", []) == several[:5]
