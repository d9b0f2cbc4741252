"""What becomes of every row: the truth table as data, the counts, and the sums that must hold.

A run looks at one key at a time: what the master *holds* of it (a record, a tombstone, or nothing) and the *winner*,
the feed's mutation with the highest precedence (3.1 of the design). Only order values are compared with what is held,
and an equal one goes to the winner. Each line of ``TRUTH_TABLE`` is one case; nothing else decides.

>>> decide("record", "upsert", late=False, same=False)
Decision(result='write', winner='updated', held='replaced')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "FEED_OUTCOMES",
    "MASTER_OUTCOMES",
    "NOTES",
    "TRUTH_TABLE",
    "Decision",
    "check_sums",
    "decide",
]


class Decision(NamedTuple):
    """What a run does with a key, and what became of the winner and of what the master held."""

    result: str  # keep | touch | write | bury | bury held | keep tombstone | touch tombstone
    winner: str | None  # outcome of the winning mutation
    held: str | None  # outcome of the master record


# result, in words
#   keep             the master's record as it is
#   touch            the master's record with the winner's order value
#   write            the winner's row
#   bury             a tombstone with the winner's order value
#   bury held        a tombstone with the record's order value
#   keep tombstone   the tombstone as it is
#   touch tombstone  the tombstone with the winner's order value

# (held, winner, late, same bytes); None stands for "whatever it is"
TRUTH_TABLE: dict[tuple[str, str, bool | None, bool | None], Decision] = {
    ("record", "none", None, None): Decision("keep", None, "kept"),
    ("tombstone", "none", None, None): Decision("keep tombstone", None, None),
    ("nothing", "upsert", None, None): Decision("write", "inserted", None),
    ("nothing", "delete", None, None): Decision("bury", "delete of unknown", None),
    ("record", "upsert", False, True): Decision("touch", "no-op", "kept"),
    ("record", "upsert", False, False): Decision("write", "updated", "replaced"),
    ("record", "delete", False, None): Decision("bury", "deleted", "removed"),
    ("record", "upsert", True, None): Decision("keep", "late", "kept"),
    ("record", "delete", True, None): Decision("keep", "late", "kept"),
    ("tombstone", "upsert", True, None): Decision("keep tombstone", "late", None),
    ("tombstone", "delete", True, None): Decision("keep tombstone", "late", None),
    ("tombstone", "delete", False, None): Decision("touch tombstone", "no-op", None),
    ("tombstone", "upsert", False, None): Decision("write", "inserted", None),
    ("record", "absent", None, None): Decision("bury held", None, "deleted by absence"),
    ("tombstone", "absent", None, None): Decision("keep tombstone", None, None),
}

FEED_OUTCOMES = (
    "inserted",
    "updated",
    "deleted",
    "no-op",
    "superseded",
    "late",
    "delete of unknown",
    "rejected",
)
MASTER_OUTCOMES = ("kept", "replaced", "removed", "deleted by absence", "duplicate", "rejected")
# Remarks on keys, not outcomes of rows.
NOTES = ("tied", "inserted and deleted", "revived", "below horizon", "duplicate IDs")


def decide(held: str, winner: str, *, late: bool, same: bool) -> Decision:
    """Look one key up in the truth table.

    held: "record", "tombstone" or "nothing". winner: "upsert", "delete", "none", or "absent" (none, in a full
    snapshot). late: the held order value is higher than the winner's. same: the bytes of record and winner are equal.
    """
    case = TRUTH_TABLE.get((held, winner, None, None)) or TRUTH_TABLE.get((held, winner, late, None))
    return case or TRUTH_TABLE[held, winner, late, same]


def check_sums(counts: Mapping[str, int]) -> list[str]:
    """Name every sum of the contract (3.3) that does not hold; an empty list means that every row is accounted for.

    Keys of ``counts``: "feed rows", "master rows", "output rows", "tombstones in" and "tombstones out" as counted where
    they were read and written; "feed <outcome>", "master <outcome>", "revived" and "expired" as decided key by key.
    """
    n = Counter(counts)
    sums = [
        ("feed rows", [f"feed {name}" for name in FEED_OUTCOMES], []),
        ("master rows", [f"master {name}" for name in MASTER_OUTCOMES], []),
        ("output rows", ["master kept", "feed updated", "feed inserted"], []),
        ("master replaced", ["feed updated"], []),
        ("master removed", ["feed deleted"], []),
        (
            "tombstones out",
            ["tombstones in", "feed deleted", "master deleted by absence", "feed delete of unknown"],
            ["revived", "expired"],
        ),
    ]
    problems = []
    for whole, plus, minus in sums:
        total = sum(n[name] for name in plus) - sum(n[name] for name in minus)
        if n[whole] != total:
            parts = " + ".join(f"{name} {n[name]:,}" for name in plus if n[name]) or "nothing"
            parts += "".join(f" - {name} {n[name]:,}" for name in minus if n[name])
            problems.append(f"{whole} {n[whole]:,} is not {parts} = {total:,}")
    return problems
