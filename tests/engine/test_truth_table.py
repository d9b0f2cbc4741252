"""The truth table of DESIGN 3.2, one test per row, and the notes on keys, on hand-made elements of one bucket."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from mutator.engine.records.read_records import FEED, MASTER, TOMBSTONE, Element
from mutator.engine.records.record_merge import merge_bucket
from mutator.engine.tally import Tally
from mutator.rules.last_wins import LAST_WINS, SNAPSHOT, LastWins
from mutator.rules.order_values import precedence
from mutator.rules.truth_table import TRUTH_TABLE, check_sums

NOW, EARLIER = 2_000, 1_000  # commit times of this run and of the tombstone's
KEY = (b"k",)


def record(order: Any, row: bytes, key: tuple[bytes, ...] = KEY, offset: int = 30) -> Element:
    """Return a record of the master: in the third of its files by name, at some byte offset."""
    return (0, key, MASTER, precedence(order, -1, 2, offset, row)), (False, row)


def tombstone(order: Any, key: tuple[bytes, ...] = KEY) -> Element:
    return (0, key, TOMBSTONE, ()), (order, EARLIER)


def upsert(order: Any, row: bytes, key: tuple[bytes, ...] = KEY, sequence: int = -1, offset: int = 0) -> Element:
    return (0, key, FEED, precedence(order, sequence, 0, offset, row)), (False, row)


def delete(
    order: Any, row: bytes = b"gone", key: tuple[bytes, ...] = KEY, sequence: int = -1, offset: int = 0
) -> Element:
    return (0, key, FEED, precedence(order, sequence, 0, offset, row)), (True, row)


def merged(*elements: Element, full: bool = False, **options: Any) -> tuple[list[Any], list[Any], Tally]:
    """Merge one bucket; return its records, its tombstones and its counts."""
    tally, buried = Tally(), []
    options = {"now": NOW, "register": SNAPSHOT if full else LAST_WINS, **options}
    found = merge_bucket(sorted(elements, key=lambda element: element[0]), tally, buried.append, **options)
    return [(position, *row) for position, row in found], [one[:3] for one in buried], tally


# Each line is a row of the design with order values: the entry of TRUTH_TABLE, with whether the mutation is late and
# whether the rows are the same | the master's record (M) or tombstone (T) | the winner, an upsert (U) or a delete (D),
# or "absent" from a full snapshot | what is left: the record in its place (M), a new one (W), or a tombstone with the
# time of its delete | the counts, of which there is one each; all others must be 0.
TABLE = """
record none             | M 5 m |        | M 5 m         | master kept
tombstone none          | T 5   |        | T 5 EARLIER   | tombstones in
nothing upsert          |       | U 5 w  | W 5 w         | feed inserted
nothing delete          |       | D 5    | T 5 NOW       | feed delete of unknown
record upsert - same    | M 5 m | U 6 m  | M 6 m         | feed no-op, master kept
record upsert - same    | M 5 m | U 5 m  | M 5 m         | feed no-op, master kept
record upsert - other   | M 5 m | U 6 w  | M 6 w         | feed updated, master replaced
record upsert - other   | Z 5 z | U 5 w  | M 5 w         | feed updated, master replaced, tied
record delete -         | M 5 m | D 6    | T 6 NOW       | feed deleted, master removed
record delete -         | M 5 m | D 5    | T 5 NOW       | feed deleted, master removed, tied
record upsert late      | M 5 m | U 4 w  | M 5 m         | feed late, master kept
record upsert late      | M 5 m | U 4 m  | M 5 m         | feed late, master kept
record delete late      | M 5 m | D 4    | M 5 m         | feed late, master kept
tombstone upsert late   | T 5   | U 4 w  | T 5 EARLIER   | feed late, tombstones in
tombstone delete late   | T 5   | D 4    | T 5 EARLIER   | feed late, tombstones in
tombstone delete -      | T 5   | D 6    | T 6 NOW       | feed no-op, tombstones in
tombstone delete -      | T 5   | D 5    | T 5 EARLIER   | feed no-op, tombstones in
tombstone upsert -      | T 5   | U 6 w  | W 6 w         | feed inserted, tombstones in, revived
tombstone upsert -      | T 5   | U 5 w  | W 5 w         | feed inserted, tombstones in, revived, tied
record absent           | M 5 m | absent | T 5 NOW       | master deleted by absence
tombstone absent        | T 5   | absent | T 5 EARLIER   | tombstones in
"""
SAID = {"late": True, "-": False, "same": True, "other": False}


@dataclass(frozen=True)
class Case:
    """A row of the table."""

    row: str
    entry: tuple[Any, ...]  # of TRUTH_TABLE
    elements: tuple[Element, ...]
    records: list[Any]
    tombstones: list[Any]
    counts: Counter[str]
    full: bool

    def winner(self) -> Element | None:
        return next((element for element in self.elements if element[0][2] == FEED), None)


def case_of(line: str) -> Case:
    entry, *elements, left, counts = (part.strip() for part in line.split("|"))
    master, operation, *said = entry.split()
    compared = (*(SAID[word] for word in said), None, None)[:2]
    kind, order, last = left.split()
    record = (0, 2, 30) if kind == "M" else (1, KEY)  # the position of the master's record, or after all of them
    return Case(
        line,
        (master, operation, *compared),
        tuple(element_of(*one.split()) for one in elements if one not in ("", "absent")),
        [] if kind == "T" else [(record, last.encode(), int(order))],
        [(KEY, int(order), NOW if last == "NOW" else EARLIER)] if kind == "T" else [],
        Counter(counts.split(", ")),
        operation == "absent",
    )


def element_of(kind: str, text: str, row: str = "gone") -> Element:
    order, content = int(text), row.encode()
    if kind == "Z":  # a greater row, whose file has a sequence: only order values count against the mutation
        return (0, KEY, MASTER, precedence(order, 99, 2, 30, content)), (False, content)
    return tombstone(order) if kind == "T" else {"M": record, "U": upsert, "D": delete}[kind](order, content)


CASES = [case_of(line) for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.row)
def test_row(case, monkeypatch):
    decisions = []

    def spy(*args):
        met = decide(*args)
        decisions.append(met.decision)
        return met

    decide = LastWins.meet_key
    monkeypatch.setattr(LastWins, "meet_key", spy)

    records, tombstones, tally = merged(*case.elements, full=case.full)

    assert records == case.records
    assert tombstones == case.tombstones
    assert +tally.counts == case.counts
    assert len(decisions) == 1, "one key is decided once"
    assert decisions[0] is TRUTH_TABLE[case.entry], "the test is about this entry"
    assert sums_hold(case.elements, records, tombstones, tally) == []


@pytest.mark.parametrize("case", [case for case in CASES if case.winner()], ids=lambda case: case.row)
def test_row_with_more_mutations_counts_them_as_superseded(case):
    """Mutations below the winner change only this count, and notes of their own."""
    below = [upsert(1, b"old"), delete(2)]

    records, tombstones, tally = merged(*case.elements, *below, full=case.full)

    assert (records, tombstones) == (case.records, case.tombstones)
    expected = case.counts + Counter({"feed superseded": 2})
    if "feed delete of unknown" in expected:
        expected["inserted and deleted"] = 1
    assert +tally.counts == expected
    assert sums_hold((*case.elements, *below), records, tombstones, tally) == []


def sums_hold(elements, records, tombstones, tally):
    sides = Counter(element[0][2] for element in elements)
    whole = {
        "feed rows": sides[FEED],
        "master rows": sides[MASTER],
        "output rows": len(records),
        "tombstones out": len(tombstones),
    }
    return check_sums({**tally.counts, **whole})


def test_every_entry_of_the_table_has_a_test():
    assert {case.entry for case in CASES} == set(TRUTH_TABLE)


def test_every_entry_with_a_comparison_is_tested_at_its_boundary():
    """An equal order value falls on the side of the mutation, so each entry that is not late is tested with one."""

    def orders(case):
        older = next(e[0][3][0] if e[0][2] == MASTER else e[1][0] for e in case.elements if e[0][2] != FEED)
        return older - next(e[0][3][0] for e in case.elements if e[0][2] == FEED)

    compared = [case for case in CASES if case.entry[2] is not None]
    met = {(case.entry, orders(case)) for case in compared}
    for entry in {case.entry for case in compared}:
        assert ({(entry, 1)} if entry[2] else {(entry, 0), (entry, -1)}) <= met


# -- duplicates of an unmanaged master


def test_duplicates_in_the_master_leave_the_row_of_the_highest_precedence():
    rows = [record(5, b"older", offset=80), record(7, b"newest", offset=40), record(7, b"newer", offset=10)]

    records, _, tally = merged(*rows)

    assert records == [((0, 2, 40), b"newest", 7)]
    assert tally.counts == {"master duplicate": 2, "master kept": 1, "duplicate IDs": 1}


def test_mutation_meets_only_the_duplicate_that_survives():
    records, _, tally = merged(record(5, b"old"), record(9, b"new", offset=40), upsert(7, b"w"))

    assert records == [((0, 2, 40), b"new", 9)]
    assert tally.counts["feed late"] == 1


# -- notes: tied


def tied(*elements: Element) -> bool:
    tally = merged(*elements)[2]
    assert tally.counts["tied"] == len(tally.samples.get("tied", []))
    return bool(tally.counts["tied"])


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([upsert(5, b"a"), upsert(5, b"b", offset=9)], True),
        ([upsert(5, b"a"), delete(5, b"a", offset=9)], True),
        ([delete(5, b"a"), delete(5, b"b", offset=9)], True),
        # The last two agree, but mutations equal to the winner still differ.
        ([upsert(5, b"a"), upsert(5, b"b", offset=9), upsert(5, b"b", offset=18)], True),
        ([upsert(5, b"b"), upsert(5, b"a", offset=9), upsert(5, b"b", offset=18)], True),
        # The same row again is not a contradiction.
        ([upsert(5, b"a"), upsert(5, b"a", offset=9)], False),
        # A sequence decides, as an order value does.
        ([upsert(5, b"a", sequence=1), upsert(5, b"b", sequence=2)], False),
        ([upsert(5, b"a"), upsert(6, b"b", offset=9)], False),
        # Below the winner's order value or sequence, ties do not matter.
        ([upsert(5, b"a"), upsert(5, b"b", offset=9), upsert(6, b"c", offset=18)], False),
        ([upsert(5, b"a", sequence=1), upsert(5, b"b", sequence=1, offset=9), upsert(5, b"c", sequence=2)], False),
        # A late winner is noted as well: the note is about the feed.
        ([record(9, b"m"), upsert(5, b"a"), upsert(5, b"b", offset=9)], True),
    ],
)
def test_mutations_with_the_winners_order_value_and_sequence_are_tied(elements, expected):
    assert tied(*elements) is expected


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([record(5, b"m"), upsert(5, b"w")], True),
        ([record(5, b"m"), delete(5, b"m")], True),
        ([record(5, b"m"), upsert(5, b"m")], False),
        ([record(5, b"m"), upsert(6, b"w")], False),
        ([record(5, b"m"), upsert(4, b"w")], False),
        ([tombstone(5), upsert(5, b"w")], True),
        ([tombstone(5), delete(5)], False),
        ([tombstone(5), upsert(6, b"w")], False),
        ([tombstone(5), upsert(4, b"w")], False),
        # The master's record is compared with the winner alone, not with the mutations that the winner supersedes.
        ([record(5, b"m"), upsert(5, b"w"), upsert(6, b"x", offset=9)], False),
        # A master without sequences and a tombstone from such a master are equally old (order by file name).
        ([tombstone(-1), upsert(-1, b"w")], True),
        # Duplicates of the master have their own count and are not ties.
        ([record(5, b"m"), record(5, b"n", offset=40)], False),
    ],
)
def test_other_content_with_the_order_value_of_a_record_or_tombstone_is_tied(elements, expected):
    assert tied(*elements) is expected


# -- other notes


def test_inserted_and_deleted_within_the_feed_is_a_note_on_a_delete_of_unknown():
    inserted_first = [upsert(5, b"a"), delete(6)]
    assert merged(*inserted_first)[2].counts["inserted and deleted"] == 1
    assert merged(delete(5), delete(6))[2].counts["inserted and deleted"] == 0, "nothing was inserted"
    for older in (record(4, b"m"), tombstone(4)):
        assert merged(older, *inserted_first)[2].counts["inserted and deleted"] == 0, "the key was known"


def test_insert_below_the_horizon_is_noted_and_one_at_the_horizon_is_not():
    assert merged(upsert(4, b"w"), horizon=5)[2].counts["below horizon"] == 1
    # An expired tombstone of 5 would have beaten a mutation of 5.
    assert merged(upsert(5, b"w"), horizon=5)[2].counts["below horizon"] == 0
    assert merged(upsert(4, b"w"))[2].counts["below horizon"] == 0, "nothing has expired yet"
    # A record cannot have been deleted before; it would be gone.
    assert merged(record(3, b"m"), upsert(4, b"w"), horizon=5)[2].counts["below horizon"] == 0


def test_tombstones_expire_by_commit_time():
    """A tombstone exactly as old as the limit stays, and so does one whose delete came again in this run, later."""
    assert merged(tombstone(5), expire_before=EARLIER)[1] == [(KEY, 5, EARLIER)]
    _, buried, tally = merged(tombstone(5), expire_before=EARLIER + 1)
    assert (buried, tally.counts["expired"], tally.expired) == ([], 1, 5)
    assert merged(tombstone(5), delete(6), expire_before=EARLIER + 1)[1] == [(KEY, 6, NOW)]
    assert merged(tombstone(5), delete(5), expire_before=EARLIER + 1)[1] == []
    # It counts in the run in which it expires: an older row is then late, not inserted.
    _, _, tally = merged(tombstone(5), upsert(4, b"w"), expire_before=EARLIER + 1)
    assert (tally.counts["feed late"], tally.counts["expired"]) == (1, 1)


def test_samples_are_the_smallest_keys():
    keys = [(b"%02d" % number,) for number in range(20)]

    tally = merged(*(element for key in reversed(keys) for element in (tombstone(5, key), upsert(6, b"w", key))))[2]

    assert tally.counts["revived"] == 20
    assert tally.samples["revived"] == keys[:5]
