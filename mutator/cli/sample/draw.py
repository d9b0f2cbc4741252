"""What both sample tables share: seeded draws, and the choice of records from a master that is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from heapq import heappush, heappushpop
from random import Random
from typing import Generic, TypeVar

INSERT, UPDATE, DELETE = b"I", b"U", b"D"

# category, its brands (the first is the most popular), lowest price, spread of the prices
CATALOGUE = (
    (b"cell phone", (b"apple", b"samsung", b"nokia", b"lg", b"htc"), 150, 80),
    (b"tablet", (b"samsung", b"apple", b"amazon kindle", b"google chromo"), 200, 100),
    (b"laptop", (b"lenovo", b"hp", b"acer", b"asus", b"thinkpad"), 500, 200),
    (b"wearables", (b"fitbit", b"garmin", b"jawbone", b"misfit"), 100, 50),
)

FEED_SECONDS = 3600  # a feed covers the hour after its master

Draw = Callable[[], float]
Fields = list[bytes]
Time = TypeVar("Time", int, datetime)
Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Table(Generic[Time]):
    """What must be known of a table to choose records from it."""

    columns: tuple[str, ...]
    id_width: int  # the ID is the first so many fields
    time_ordinal: int
    time_of: Callable[[bytes], Time]
    oldest: Time


def choose(table: Table[Time], wanted: int, salt: str, rows: Iterable[Fields]) -> tuple[list[Fields], Time]:
    """Choose `wanted` random records in one pass, and find the newest time.

    The records whose keys have the smallest salted hashes are kept: as fair as reservoir sampling, but blind to the
    order of the rows. A key among the smallest in the end was among them from its first row on, so its newest version
    is always seen.
    """
    largest: list[tuple[int, bytes]] = []  # heap of (-hash, key): the key that goes next is first
    chosen: dict[bytes, tuple[Time, Fields]] = {}
    hashed = blake2b(salt.encode(), digest_size=8)
    newest = table.oldest
    for fields in rows:
        key, time = b",".join(fields[: table.id_width]), table.time_of(fields[table.time_ordinal])
        newest = max(newest, time)
        if key in chosen:
            # Equal times are decided by content, not by arrival: rule (A).
            chosen[key] = max(chosen[key], (time, fields))
            continue
        keyed = hashed.copy()
        keyed.update(key)
        entry = (-int.from_bytes(keyed.digest(), "big"), key)
        if len(chosen) < wanted:
            heappush(largest, entry)
            chosen[key] = (time, fields)
        elif largest and entry > largest[0]:
            del chosen[heappushpop(largest, entry)[1]]
            chosen[key] = (time, fields)
    if len(chosen) < wanted:
        raise ValueError(
            f"{wanted} records of the master are to change but it holds only {len(chosen)}; "
            "ask for fewer rows or give a larger master"
        )
    return [chosen[key][1] for _, key in sorted(largest)], newest


def fields_of(table: Table[Time], master: Iterable[bytes]) -> Iterator[Fields]:
    """Yield the fields of each row of a master; raises ValueError for a row of another table."""
    for number, line in enumerate(master, 1):
        row = line.rstrip(b"\r\n")  # an open binary file will do as a master
        fields = row.split(b",")
        if len(fields) == len(table.columns):
            yield fields
        elif row:
            raise ValueError(
                f"row {number} of the master has {len(fields)} fields, not the {len(table.columns)} of "
                f"{','.join(table.columns)}: {row!r}; give a master made by mutator sample"
            )


def seeded(purpose: str, seed: int) -> Draw:
    """Return a source of numbers in [0, 1) that depends on purpose and seed alone."""
    # The purpose keeps the IDs of `new` and those that `upsert` inserts apart when both have the same seed.
    return Random(f"{purpose} {seed}").random


def pick(random: Draw, choices: Sequence[Choice]) -> Choice:
    """Draw one of the choices."""
    return choices[int(random() * len(choices))]


def checked(rows: int) -> int:
    """Return a number of rows; raises ValueError where it is negative."""
    if rows < 0:
        raise ValueError(f"{rows} rows cannot be made; ask for 0 or more")
    return rows


def updates_and_inserts(rows: int) -> tuple[int, int]:
    """Part a number of rows: 70 % updates, the rest inserts."""
    updates = (7 * checked(rows) + 5) // 10
    return updates, rows - updates


def shuffled_codes(random: Draw, updates: int, inserts: int) -> Iterator[bytes]:
    """Yield the op codes of that many updates and inserts, in random order."""
    for left in range(updates + inserts, 0, -1):
        if random() * left < updates:
            updates -= 1
            yield UPDATE
        else:
            yield INSERT
