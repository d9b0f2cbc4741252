"""The outcome of every row: the truth table as data, the counts, and the sums that must agree.

A run decides one key at a time, by the master's entry (a record, a tombstone, or nothing) and the *winner*, the feed's
mutation with the highest precedence (3.1 of the design). Winner and entry are compared by order value alone, and if
these are equal the winner wins. Each line of ``TRUTH_TABLE`` is one case; nothing else decides.

An insert overwrite replaces whole partitions. Inside of one, the winner wins even if it is older than the entry, and a
record without a winner is deleted; each line of ``REPLACED_TABLE`` is one case. Elsewhere ``TRUTH_TABLE`` decides.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Decision(NamedTuple):
    """The result for a key, and the outcomes of the winner and of the master's record."""

    result: str  # keep | touch | write | rewrite | bury | bury record | keep tombstone | touch tombstone | drop
    winner: str | None  # outcome of the winning mutation
    master: str | None  # outcome of the master's record
    # Of a winner that is "rejected": why, for people. It changes nothing, whatever other writers have done since: its
    # result is keep, keep tombstone, or drop where there was nothing. Of one that is "inserted": another note than
    # REVIVED.
    reason: str = ""


# result, in words
#   keep             the master's record as it is
#   touch            the master's record with the winner's order value
#   write            the winner's row
#   rewrite          the same, but the record counts as kept: ``ignored_fields``
#   bury             a tombstone with the winner's order value
#   bury record      a tombstone with the record's order value
#   keep tombstone   the tombstone as it is
#   touch tombstone  the tombstone with the winner's order value
#   drop             nothing: the floor stands for a tombstone
#   wait             a tombstone with a row beside it, which is no record yet

# (master, winner, winner older than the entry, same bytes); None matches both values
Case = tuple[str, str, bool | None, bool | None]
TRUTH_TABLE: dict[Case, Decision] = {
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
    ("record", "absent", None, None): Decision("bury record", None, "deleted by absence"),
    ("tombstone", "absent", None, None): Decision("keep tombstone", None, None),
}

# The same in a partition that an insert overwrite replaces
REPLACED_TABLE: dict[Case, Decision] = {
    ("record", "none", None, None): Decision("bury record", None, "deleted by absence"),
    ("tombstone", "none", None, None): Decision("keep tombstone", None, None),
    ("nothing", "upsert", None, None): Decision("write", "inserted", None),
    ("nothing", "delete", None, None): Decision("bury", "delete of unknown", None),
    ("record", "upsert", None, True): Decision("touch", "no-op", "kept"),
    ("record", "upsert", None, False): Decision("write", "updated", "replaced"),
    ("tombstone", "upsert", None, None): Decision("write", "inserted", None),
    # A tombstone has the higher of both order values, so that it still beats whatever the record or tombstone beat.
    ("record", "delete", False, None): Decision("bury", "deleted", "removed"),
    ("record", "delete", True, None): Decision("bury record", "deleted", "removed"),
    ("tombstone", "delete", False, None): Decision("touch tombstone", "no-op", None),
    ("tombstone", "delete", True, None): Decision("keep tombstone", "no-op", None),
}

# Below the floor, the highest order value of a truncate. A key that is not known counts as a tombstone at the floor.
# (master, has a winner): both are older than the floor. In all other cases TRUTH_TABLE decides.
FLOOR_TABLE: dict[tuple[str, bool], Decision] = {
    ("record", False): Decision("drop", None, "truncated"),
    ("record", True): Decision("drop", "late", "truncated"),
    ("nothing", True): Decision("drop", "late", None),
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
# Counts that a commit records only where they are not 0: ignored rows with an op code, mutations of a row beyond its
# first, those that are combined with a later one of their key, late ones that update fields, what truncates do, and the
# remarks that only changes of keys lead to.
MOVED_ONTO, MOVED_INCOMPLETE = "moved onto a record", "moved incomplete"
SEALED = "late after the seal"
REVIVED, WAITED = "revived", "waited"  # a key inserted after a remembered delete, or after patches alone
CLEARED = "kept with fewer fields"  # records that a truncate changed, and that count as kept
RARE = (
    "feed no mutations",
    "feed halves",
    "feed truncate",
    "feed combined",
    "feed patch of unknown",
    "feed waiting",
    "waiting of truncated",
    "partly cleared",
    CLEARED,
    "master truncated",
    "covered",
    "out of order",
    WAITED,
    MOVED_ONTO,
    SEALED,
    MOVED_INCOMPLETE,
)
RARE_OUTCOMES = ("truncate", "combined", "patch of unknown", "waiting")
# Remarks on keys, not outcomes of rows.
NOTES = ("tied", "inserted and deleted", REVIVED, "below horizon", "duplicate IDs")


def case_of(table: Mapping[Case, Decision], master: str, winner: str, *, older: bool, same: bool) -> Case:
    """Return the line of a table that decides, as a key of the table.

    master: "record", "tombstone" or "nothing". winner: "upsert", "delete", "none", or "absent" (none, in a full
    snapshot). older: the winner's order value is lower than the master's. same: the bytes of record and winner are
    equal.

    >>> case_of(TRUTH_TABLE, "tombstone", "delete", older=True, same=False)
    ('tombstone', 'delete', True, None)
    >>> TRUTH_TABLE[case_of(TRUTH_TABLE, "record", "upsert", older=False, same=False)]
    Decision(result='write', winner='updated', master='replaced', reason='')
    >>> REPLACED_TABLE[case_of(REPLACED_TABLE, "record", "upsert", older=True, same=False)].winner
    'updated'
    """
    for relation in ((None, None), (None, same), (older, None)):
        if (master, winner, *relation) in table:
            return (master, winner, *relation)
    return (master, winner, older, same)


def case_name(case: Case) -> str:
    """Return the name of a line of the truth table, in the notation of the contract with words for the letters.

    >>> case_name(("record", "upsert", False, True)), case_name(("nothing", "delete", None, None))
    ('record <= upsert, same bytes', 'nothing, delete')
    """
    master, winner, older, same = case
    relation = "," if older is None else " >" if older else " <="
    content = "" if same is None else ", same bytes" if same else ", other bytes"
    return f"{master}{relation} {winner}{content}"


def records_deleted(counts: Mapping[str, int]) -> int:
    """Return how many records a run deleted: by mutations, by absence from a snapshot or an overwrite, by truncates.

    >>> records_deleted({"feed deleted": 2, "master deleted by absence": 1}), records_deleted({})
    (3, 0)
    """
    return sum(counts.get(name, 0) for name in ("feed deleted", "master deleted by absence", "master truncated"))


def check_sums(counts: Mapping[str, int]) -> list[str]:
    """Return a message for each sum of the contract (3.3) that is wrong; an empty list accounts for every row.

    Keys of ``counts``: "feed rows", "master rows", "output rows", "tombstones in" and "tombstones out" as counted where
    they were read and written; "feed <outcome>", "master <outcome>", "revived", "waited", "covered" (by
    the floor) and "expired" as decided key by key; "feed halves": mutations of a row beyond its first.

    >>> check_sums({"feed rows": 2, "feed inserted": 1, "output rows": 1})
    ['feed rows 2 is not feed inserted 1 = 1']
    """
    n = Counter(counts)
    sums = [
        (
            "feed rows",
            [*(f"feed {name}" for name in RARE_OUTCOMES), *(f"feed {name}" for name in FEED_OUTCOMES)],
            ["feed halves"],
        ),
        ("master rows", ["master truncated", *(f"master {name}" for name in MASTER_OUTCOMES)], []),
        ("output rows", ["master kept", "feed updated", "feed inserted"], []),
        ("master replaced", ["feed updated"], []),
        ("master removed", ["feed deleted"], []),
        (
            "tombstones out",
            [
                *("tombstones in", "feed deleted", "master deleted by absence", "feed delete of unknown"),
                *("feed patch of unknown", "waiting of truncated"),
            ],
            [REVIVED, WAITED, "covered", "expired"],
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
