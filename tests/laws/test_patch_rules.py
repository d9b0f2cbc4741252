"""The rules of patches, searched exhaustively on the mutations of one key.

A step-wise definition with a minimal state (``patch_steps``) is compared with the model that keeps every mutation
(``patch_model``). Of mutations without rivals each pair of sets is a step: what was delivered, and the run that comes.
If every such step gives what the model says of the union, then so does every batching, every order of arrival, every
overlap and every redelivery. With rivals the result depends on the batching, and each list of runs is compared.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pytest

from tests.support.patch_model import NOTHING, RECORD, TOMBSTONE, WAITING, Kept, Mutation, Place, Seen, state_of
from tests.support.patch_steps import combined, fold_of, folded, meet, outcomes

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
            check_sums(before, after, outcomes(before, fold, after), len(run))
            if "now" not in where:
                assert outcomes(before, fold, after).keys() <= SEEN_BEFORE.keys(), (world, where)
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
                assert place.run(run) == outcomes(before, fold, kept), runs
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
