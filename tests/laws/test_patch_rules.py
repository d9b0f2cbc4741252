"""The rules of patches, searched exhaustively on the mutations of one key.

A step-wise definition with a minimal state (``patch_steps``) is compared with the model that keeps every mutation
(``patch_model``). Of mutations without rivals each pair of sets is a step: what was delivered, and the run that comes.
If every such step gives what the model says of the union, then so does every batching, every order of arrival, every
overlap and every redelivery. With rivals the result depends on the batching, and each list of runs is compared.

What the search found beyond the rules themselves:

- A *late* mutation can change the state: a patch below the row that sets a field to the value that it has raises the
  order value of that field, and a late delete clears a field that is NULL. Both must be kept, and be touched keys.
- Nothing in the state of `insert` is superfluous. With `wait`, only what waits at or below the last delete is.
- Retention. If no mutation below a horizon H comes any more, exactly the order values at or below H may be forgotten:
  of fields, of the last delete, of the full upsert; tombstones at or below H; and patches that wait, with their values,
  because the upsert that would show them is not older. Forgotten means "lower than all that comes", not "that of the
  row": the fields of a row above H must still be known as old. Where a mutation below H comes nevertheless, raising
  them to H makes it late; dropping them lets an older value replace a newer one. So a patch below H that sets a field
  of a record must be noted as an insert below H is: the tombstone that expired may have cleared that field.
- Writers. The loser must decide again with the winner's row, the order values of its fields, and all mutations that
  the fold left; the last one is not enough. The rows that it decided first may be laid over the winner's only where no
  two mutations are rivals. Keys on which it changed nothing count, too: with rivals they may change something now, and
  without rivals their outcomes may differ.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from tests.support.patch_model import NOTHING, RECORD, TOMBSTONE, WAITING, Kept, Mutation, Place, Seen, state_of
from tests.support.patch_steps import Fold, combined, fold_of, folded, meet, outcomes

FIELDS = ("a", "b")
RULES = ["insert", "wait"]
SEEN_BEFORE = Counter({"no-op", "late", "superseded", "combined", "waiting"})


def mutations(orders: Iterable[int], values: Sequence[str | None] = ("x", "y")) -> list[Mutation]:
    """Return all mutations with some order values: deletes, and upserts and patches of each field or of both."""
    both = [dict(zip(FIELDS, pair, strict=True)) for pair in itertools.product(values, repeat=2)]
    one = [{name: value} for name in FIELDS for value in values]
    found = []
    for order in orders:
        found += [Mutation("D", "k", order), *(Mutation("P", "k", order, given) for given in one)]
        found += [Mutation(op, "k", order, given) for op in "PU" for given in both]
    return found


def are_rivals(one: Mutation, other: Mutation) -> bool:
    """Return whether two mutations of one order value set a field differently, or one of them is a delete."""
    if one.order != other.order or one == other:
        return False
    common = one.given.keys() & other.given.keys()
    return "D" in (one.op, other.op) or any(one.given[name] != other.given[name] for name in common)


def worlds(every: Sequence[Mutation], size: int) -> Iterator[tuple[Mutation, ...]]:
    """Yield the sets of mutations of which no two are rivals."""
    for world in itertools.combinations(every, size):
        if not any(are_rivals(*pair) for pair in itertools.combinations(world, 2)):
            yield world


def meaning(delivered: Iterable[Mutation], rule: str) -> Kept:
    """Return what the model says of mutations without rivals: the sequence of their delivery does not matter."""
    return state_of(FIELDS, [Seen((one.order, 0, at), one) for at, one in enumerate(delivered)], rule)


def check_steps(every: Sequence[Mutation], size: int, rule: str) -> int:
    """Check every step to every world of a size; return their number."""
    steps = 0
    for world in worlds(every, size):
        after = meaning(world, rule)
        for where in itertools.product(("before", "now", "both"), repeat=size):
            before = meaning((one for one, at in zip(world, where, strict=True) if at != "now"), rule)
            run = [one for one, at in zip(world, where, strict=True) if at != "before"]
            if not run:
                continue
            fold = folded(FIELDS, run)
            assert meet(before, fold, rule) == after, (world, where)
            check_sums(before, after, outcomes(before, fold, after, rule), len(run))
            if "now" not in where:
                assert outcomes(before, fold, after, rule).keys() <= SEEN_BEFORE.keys(), (world, where)
            steps += 1
    return steps


def check_sums(before: Kept, after: Kept, counts: Counter[str], mutations: int) -> None:
    entry = (TOMBSTONE, WAITING)  # an entry that waits counts as a tombstone
    revived = counts["inserted"] and before.kind in entry
    made = counts["deleted"] + counts["delete of unknown"] + counts["patch of unknown"]
    assert counts.total() - counts["out of order"] == mutations
    assert (after.kind == RECORD) - (before.kind == RECORD) == counts["inserted"] - counts["deleted"]
    assert (after.kind in entry) - (before.kind in entry) == made - revived


@pytest.mark.parametrize("rule", RULES)
def test_every_delivery_gives_what_the_set_of_mutations_means(rule: str) -> None:
    assert check_steps(mutations((1, 2, 3)), 1, rule) == 3 * 13 * 2
    assert check_steps(mutations((1, 2, 3)), 2, rule) > 1000
    assert check_steps(mutations((1, 2, 3), ["x"]), 3, rule) > 1000


@pytest.mark.soak
@pytest.mark.parametrize("rule", RULES)
def test_every_delivery_of_three_and_four_mutations(rule: str) -> None:
    check_steps(mutations((1, 2, 3), ["x", "y", None]), 3, rule)
    check_steps(mutations((1, 2, 3, 4), ["x"]), 4, rule)


def check_runs(every: Sequence[Mutation], size: int, rule: str) -> None:
    """Check every list of runs of a number of mutations, rivals or not, each also with every one of them again."""
    for sequence in itertools.product(every, repeat=size):
        whole = meet(Kept(NOTHING), folded(FIELDS, sequence), rule)
        for cuts in itertools.product((False, True), repeat=size - 1):
            ends = [at + 1 for at, is_cut in enumerate(cuts) if is_cut]
            runs = [sequence[start:end] for start, end in zip([0, *ends], [*ends, size], strict=True)]
            place, kept = Place(FIELDS, rule), Kept(NOTHING)
            for run in runs:
                before, fold = kept, folded(FIELDS, run)
                kept = meet(before, fold, rule)
                assert place.run(run) == outcomes(before, fold, kept, rule), runs
            # Runs in the order of file and position give the result of one run.
            assert kept == whole == place.kept("k"), runs
            for one in sequence:
                again = [*place.seen["k"], Seen((one.order, size, 0), one)]
                assert meet(kept, folded(FIELDS, [one]), rule) == state_of(FIELDS, again, rule), (runs, one)


@pytest.mark.parametrize("rule", RULES)
def test_rivals_are_decided_by_run_and_position(rule: str) -> None:
    check_runs(mutations((1, 2)), 2, rule)
    check_runs(mutations((1, 2), ["x"]), 3, rule)


@pytest.mark.soak
@pytest.mark.parametrize("rule", RULES)
def test_rivals_among_three_and_four_mutations(rule: str) -> None:
    check_runs(mutations((1, 2)), 3, rule)
    check_runs(mutations((1, 2), ["x"]), 4, rule)


def test_a_fold_is_associative_and_commutative() -> None:
    for three in itertools.product(mutations((1, 2), ["x"]), repeat=3):
        one, two, last = (fold_of(FIELDS, at, mutation) for at, mutation in enumerate(three))
        assert combined(combined(one, two), last) == combined(one, combined(last, two)) == folded(FIELDS, three)


def reachable(every: Sequence[Mutation], rule: str) -> set[Kept]:
    """Return all states that some mutations lead to."""
    found, left = {Kept(NOTHING)}, [Kept(NOTHING)]
    while left:
        state = left.pop()
        after = {meet(state, fold_of(FIELDS, 0, one), rule) for one in every} - found
        found |= after
        left += after
    return found


def told_apart(states: Iterable[Kept], futures: Sequence[Mutation], rule: str) -> dict[Kept, int]:
    """Return the class of each state: two are in one class if no future shows another row. states: closed."""
    after = {state: [meet(state, fold_of(FIELDS, 0, one), rule) for one in futures] for state in states}
    classes: dict[Any, Any] = {state: (state.kind == RECORD and state.values) for state in after}
    while True:
        numbers: dict[Any, int] = {}
        finer = {
            state: numbers.setdefault((classes[state], *(classes[one] for one in next_states)), len(numbers))
            for state, next_states in after.items()
        }
        if len(numbers) == len({*classes.values()}):
            return finer
        classes = finer


def forgotten(kept: Kept, horizon: int) -> Kept:
    """Return what must be known of a state if no mutation below the horizon comes any more."""
    orders = [order if order is not None and order > horizon else None for order in kept.orders]
    deleted, full = (order if order is not None and order > horizon else None for order in (kept.deleted, kept.full))
    if kept.kind == TOMBSTONE:
        return kept if kept.order > horizon else Kept(NOTHING)
    if kept.kind != WAITING:
        return Kept(kept.kind, None, kept.values, tuple(orders), full=full)
    # The upsert that shows the record is not below the delete, nor below the horizon.
    orders = [order if order is not None and order > (deleted or horizon) else deleted for order in orders]
    if all(order == deleted for order in orders):
        return Kept(NOTHING) if deleted is None else Kept(TOMBSTONE, deleted)
    values = tuple(value if order != deleted else None for value, order in zip(kept.values, orders, strict=True))
    return Kept(WAITING, None, values, tuple(orders), deleted=deleted)


@pytest.mark.parametrize("horizon", [0, 1, 2, 3])
@pytest.mark.parametrize("rule", RULES)
def test_exactly_what_is_at_or_below_a_horizon_may_be_forgotten(rule: str, horizon: int) -> None:
    states = reachable(mutations((0, 1, 2, 3)), rule)
    classes = told_apart(states, mutations(range(horizon, 4)), rule)
    kept = reachable(mutations((1, 2, 3)), rule)
    assert len({classes[one] for one in kept}) > 3

    pairs = {(classes[one], forgotten(one, horizon)) for one in kept}

    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def test_a_forgotten_order_value_is_not_that_of_the_row() -> None:
    """The row is above the horizon, 2, and its field b is not; a patch at the horizon must set b."""
    known = Kept(RECORD, 3, ("y", "x"), (3, 1))
    patch = fold_of(FIELDS, 0, Mutation("P", "k", 2, {"b": "z"}))
    assert meet(known, patch, "insert").values == ("y", "z")
    assert meet(known._replace(orders=(3, None)), patch, "insert").values == ("y", "z")
    assert meet(known._replace(orders=(3, 2)), patch, "insert").values == ("y", "z")
    assert meet(known._replace(orders=(3, 3)), patch, "insert").values == ("y", "x")


def laid_over(winner: Kept, own: Kept, rule: str) -> Kept:
    """Lay a state over another as if it were a mutation of each field."""
    if own.kind == TOMBSTONE:
        return meet(winner, fold_of(FIELDS, 0, Mutation("D", "k", own.order)), rule)
    placed = [() if order is None else (order, 1, 0) for order in (*own.orders, own.deleted, own.order, own.full)]
    registers = tuple(zip(placed, own.values, strict=False))
    return meet(winner, Fold(registers, *placed[len(FIELDS) :], mutations=1), rule)


def shortcuts(base: Kept, winner: Fold, loser: Sequence[Mutation], rule: str) -> Iterator[str]:
    """Yield the ways of deciding again that do not give what the two runs give one after the other."""
    first, fold = meet(base, winner, rule), folded(FIELDS, loser)
    own, serial = meet(base, fold, rule), meet(first, fold, rule)
    last = max(enumerate(loser), key=lambda pair: (pair[1].order, pair[0]))[1]
    if meet(first, fold_of(FIELDS, 0, last), rule) != serial:
        yield "only the last mutation"
    if first.kind == RECORD and meet(first._replace(orders=(first.order,) * 2), fold, rule) != serial:
        yield "without the order values of fields"
    if laid_over(first, own, rule) != serial:
        yield "the first decision laid over"
    if own == base:
        if serial != first:
            yield "only keys that it changed"
        if outcomes(base, fold, own, rule) != outcomes(first, fold, serial, rule):
            yield "only keys that it changed, for counts"


@pytest.mark.parametrize("rule", RULES)
def test_the_loser_of_two_writers_decides_again_with_all_that_is_left(rule: str) -> None:
    every = [one for one in mutations((1, 2), ["x"]) if one.op != "P" or len(one.given) == 1]
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for base, winner, *loser in itertools.product([None, *every], every, every, [None, *every]):
        run = [one for one in loser if one is not None]
        rivals = any(are_rivals(*pair) for pair in itertools.combinations([base or winner, winner, *run], 2))
        kept = meet(Kept(NOTHING), fold_of(FIELDS, 0, base), rule) if base else Kept(NOTHING)
        found[rivals] |= {*shortcuts(kept, fold_of(FIELDS, 0, winner), run, rule)}

    always = {"only the last mutation", "without the order values of fields", "only keys that it changed, for counts"}
    assert found[False] == always
    assert found[True] == always | {"the first decision laid over", "only keys that it changed"}


def test_a_late_mutation_may_change_the_state() -> None:
    raised = meet(Kept(RECORD, 5, ("y", "x"), (5, 1)), fold_of(FIELDS, 0, Mutation("P", "k", 3, {"b": "x"})), "insert")
    cleared = meet(Kept(RECORD, 5, ("y", None), (5, None)), fold_of(FIELDS, 0, Mutation("D", "k", 3)), "insert")
    assert (raised.orders, cleared.orders) == ((5, 3), (5, 3))


def differ_unnoted(horizon: int, note: Callable[[Kept, Mutation], bool]) -> bool:
    """Return whether a tombstone that expired ever changes what is shown, although nothing was noted.

    horizon: its order value. note: whether a mutation below the horizon is noted, by the state that it meets.
    """
    start = (Kept(TOMBSTONE, horizon), Kept(NOTHING))
    found, left = {start}, [start]
    while left:
        kept, expired = left.pop()
        if (kept.kind == RECORD, kept.values) != (expired.kind == RECORD, expired.values) and RECORD in (
            kept.kind,
            expired.kind,
        ):
            return True
        for one in mutations((1, 2, 3), ["x"]):
            if one.order >= horizon or not note(expired, one):
                fold = fold_of(FIELDS, 0, one)
                pair = (meet(kept, fold, "insert"), meet(expired, fold, "insert"))
                left += [pair] if pair not in found else []
                found.add(pair)
    return False


def test_a_patch_below_the_horizon_that_sets_a_field_is_noted() -> None:
    """As an insert below it is: without the tombstone nothing says that the field was cleared later."""

    def inserts(kept: Kept, one: Mutation) -> bool:
        return kept.kind != RECORD and one.op != "D"

    def inserts_or_sets(kept: Kept, one: Mutation) -> bool:
        orders = dict(zip(FIELDS, kept.orders, strict=False))
        return inserts(kept, one) or any((orders[name] or 0) <= one.order for name in one.given)

    for horizon in (1, 2, 3):
        assert not differ_unnoted(horizon, inserts_or_sets)
    assert differ_unnoted(2, inserts)
