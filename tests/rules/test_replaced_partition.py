"""What an insert overwrite does with one key, a test for each line of its meaning (DESIGN 13).

Each case is decided by the truth table, and by the reference model, which must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from mutator.rules.last_wins import LAST_WINS, REPLACED
from mutator.rules.register import Folded, Mutation, Old, Register
from mutator.rules.truth_table import REPLACED_TABLE, TRUTH_TABLE, Decision
from tests.support.model import Row
from tests.support.overwrite_model import overwrite
from tests.support.partition_model import NOWHERE

NOW, EARLIER = 2_000, 1_000  # commit times of this run and of the tombstone's
KEY = (b"k",)
P, Q = "p=1", "p=2"


@dataclass(frozen=True)
class Case:
    """A key before and after. A record is (order value, content); a tombstone (order value, commit time)."""

    name: str
    known: str
    old: Any  # order value of the record or tombstone
    winner: str
    new: Any  # order value of the winner
    outcome: str | None
    of_master: str | None = None
    same: bool = False
    record: Any = None
    tombstone: Any = None


CASES = [
    Case(
        "record without a row in the input is deleted by absence",
        "record",
        5,
        "none",
        None,
        None,
        "deleted by absence",
        tombstone=(5, NOW),
    ),
    Case(
        "tombstone of a key that is not in the input stays", "tombstone", 5, "none", None, None, tombstone=(5, EARLIER)
    ),
    Case("upsert of a new key is inserted", "nothing", None, "upsert", 5, "inserted", record=(5, b"w")),
    Case(
        "delete of an unknown key leaves a tombstone",
        "nothing",
        None,
        "delete",
        5,
        "delete of unknown",
        tombstone=(5, NOW),
    ),
    Case("newer upsert updates", "record", 5, "upsert", 6, "updated", "replaced", record=(6, b"w")),
    Case("level upsert updates", "record", 5, "upsert", 5, "updated", "replaced", record=(5, b"w")),
    Case("older upsert updates and is not late", "record", 5, "upsert", 4, "updated", "replaced", record=(4, b"w")),
    Case(
        "newer upsert of the same bytes is a no-op",
        "record",
        5,
        "upsert",
        6,
        "no-op",
        "kept",
        same=True,
        record=(6, b"m"),
    ),
    Case(
        "older upsert of the same bytes has its own order value",
        "record",
        5,
        "upsert",
        4,
        "no-op",
        "kept",
        same=True,
        record=(4, b"m"),
    ),
    Case("newer upsert revives", "tombstone", 5, "upsert", 6, "inserted", record=(6, b"w")),
    Case("older upsert revives", "tombstone", 5, "upsert", 4, "inserted", record=(4, b"w")),
    Case("newer delete deletes", "record", 5, "delete", 6, "deleted", "removed", tombstone=(6, NOW)),
    Case("level delete deletes", "record", 5, "delete", 5, "deleted", "removed", tombstone=(5, NOW)),
    Case(
        "older delete leaves a tombstone with the order value of the record",
        "record",
        5,
        "delete",
        4,
        "deleted",
        "removed",
        tombstone=(5, NOW),
    ),
    Case("newer delete raises the tombstone", "tombstone", 5, "delete", 6, "no-op", tombstone=(6, NOW)),
    Case("level delete leaves the tombstone as it is", "tombstone", 5, "delete", 5, "no-op", tombstone=(5, EARLIER)),
    Case("older delete leaves the tombstone as it is", "tombstone", 5, "delete", 4, "no-op", tombstone=(5, EARLIER)),
]


def row(order: int, content: bytes, *, delete: bool = False, key: tuple[bytes, ...] = KEY, place: str = P) -> Row:
    return Row(key, order, -1, place.encode(), 0, content, delete, content)


def own(row: Row) -> str:
    return row.name.decode()


def decided(case: Case, register: Register = REPLACED) -> Decision:
    last = Mutation((case.new, -1, 0, 0, b""), case.winner == "delete", b"m" if case.same else b"w")
    folded = None if case.winner == "none" else Folded(last, 1, False, case.winner == "upsert")
    return register.meet_key(folded, Old(case.known, case.old, b"m")).decision


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_table(case):
    decision = decided(case)

    assert (decision.winner, decision.master) == (case.outcome, case.of_master)
    makes = {"write": case.new, "touch": case.new, "bury": case.new, "touch tombstone": case.new}
    expected = case.record or case.tombstone
    assert makes.get(decision.result, case.old) == expected[0]
    assert (decision.result in ("write", "touch")) is (case.record is not None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_model_agrees(case):
    old = [row(case.old, b"m")] if case.known == "record" else []
    buried = {KEY: (case.old, EARLIER)} if case.known == "tombstone" else {}
    new = b"m" if case.same else b"w"
    feed = [] if case.winner == "none" else [row(case.new, new, delete=case.winner == "delete")]
    other = row(9, b"o", key=(b"other",))  # the partition is replaced in any case

    found = overwrite(old, buried, [*feed, other], own, dict.fromkeys(buried, P), now=NOW)

    assert found.merged.records.get(KEY) == case.record
    assert found.merged.tombstones.get(KEY) == case.tombstone
    outcomes = {f"feed {case.outcome}", f"master {case.of_master}"} - {"feed None", "master None"}
    assert {name for name in outcomes if not found.merged.counts[name]} == set()


def test_every_entry_of_the_table_has_a_case():
    reached = [name for case in CASES for name, entry in REPLACED_TABLE.items() if entry is decided(case)]
    assert set(reached) == set(REPLACED_TABLE)


def test_only_a_replaced_partition_has_no_late_outcome():
    assert "late" not in {decision.winner for decision in REPLACED_TABLE.values()}
    assert "late" in {decision.winner for decision in TRUTH_TABLE.values()}
    assert {decision.result for decision in REPLACED_TABLE.values()} <= {d.result for d in TRUTH_TABLE.values()}


@pytest.mark.parametrize("known", ["record", "tombstone", "nothing"])
@pytest.mark.parametrize("winner", ["upsert", "delete"])
@pytest.mark.parametrize("same", [False, True])
def test_a_winner_that_is_not_older_is_decided_as_in_an_apply(known, winner, same):
    case = Case("", known, 5, winner, 5, None, same=same)
    assert decided(case) == decided(case, LAST_WINS)


# --- partitions that are not replaced


def test_partitions_without_a_row_in_the_input_are_kept():
    kept, gone = row(5, b"m", place=Q), row(5, b"m", key=(b"gone",))

    found = overwrite([kept, gone], {}, [row(1, b"w", key=(b"new",))], own, {}, now=NOW)

    assert set(found.merged.records) == {KEY, (b"new",)}
    assert found.merged.counts["master kept"] == 1
    assert found.merged.counts["master deleted by absence"] == 1


def test_everything_is_replaced_by_an_overwrite_of_the_table():
    found = overwrite([row(5, b"m", place=Q)], {}, [row(1, b"w", key=(b"new",))], own, {}, everything=True, now=NOW)

    assert set(found.merged.records) == {(b"new",)}
    assert found.merged.tombstones == {KEY: (5, NOW)}


@pytest.mark.parametrize(("order", "outcome"), [(6, "updated"), (5, "updated"), (4, "late")])
def test_a_record_of_a_kept_partition_moves_if_the_input_row_is_not_older(order, outcome):
    found = overwrite([row(5, b"m", place=Q)], {}, [row(order, b"w")], own, {}, now=NOW)

    assert found.merged.counts[f"feed {outcome}"] == 1
    assert found.places[KEY] == (P if outcome == "updated" else Q)


def test_an_older_input_row_moves_a_record_between_replaced_partitions():
    feed = [row(4, b"w"), row(9, b"o", key=(b"other",), place=Q)]

    found = overwrite([row(5, b"m", place=Q)], {}, feed, own, {}, now=NOW)

    assert found.merged.counts["feed updated"] == 1
    assert found.places[KEY] == P


def test_a_delete_alone_replaces_its_partition():
    found = overwrite([row(5, b"m", key=(b"gone",))], {}, [row(4, b"w", delete=True)], own, {}, now=NOW)

    assert found.merged.records == {}
    assert found.merged.tombstones == {KEY: (4, NOW), (b"gone",): (5, NOW)}


def test_a_delete_that_names_no_partition_replaces_none():
    def unplaced(row: Row) -> str | None:
        return None if row.is_delete else own(row)

    before = [row(5, b"m"), row(5, b"m", key=(b"other",))]
    found = overwrite(before, {}, [row(6, b"w", delete=True)], unplaced, {}, now=NOW)

    assert set(found.merged.records) == {(b"other",)}
    assert found.merged.tombstones == {KEY: (6, NOW)}


def test_a_tombstone_without_a_partition_keeps_out_no_row():
    found = overwrite([], {KEY: (5, EARLIER)}, [row(4, b"w")], own, {KEY: NOWHERE}, now=NOW)

    assert found.merged.records == {KEY: (4, b"w")}


def test_a_dataset_without_partitions_is_replaced_as_a_whole():
    before = [row(5, b"m", place=NOWHERE), row(5, b"m", key=(b"other",), place=NOWHERE)]

    found = overwrite(before, {}, [row(4, b"w", place=NOWHERE)], own, {}, now=NOW)

    assert found.merged.records == {KEY: (4, b"w")}
    assert found.merged.tombstones == {(b"other",): (5, NOW)}


def test_an_empty_input_changes_nothing_unless_it_replaces_everything():
    before = [row(5, b"m")]

    assert set(overwrite(before, {}, [], own, {}, now=NOW).merged.records) == {KEY}
    assert overwrite(before, {}, [], own, {}, everything=True, now=NOW).merged.records == {}


def test_the_last_mutation_of_a_key_decides_within_the_input():
    found = overwrite([], {}, [row(5, b"new"), row(4, b"old"), row(3, b"gone", delete=True)], own, {}, now=NOW)

    assert found.merged.records == {KEY: (5, b"new")}
    assert found.merged.counts["feed superseded"] == 2
