"""The generator: new rows, upserts and deletes of any table."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from heapq import heappush, heappushpop
from itertools import islice
from random import Random
from typing import Any

from mutator.cli.sample.tables import PRODUCTS, DemoTable, Draw, Fields, Key
from mutator.errors.display import counted

INSERT, UPDATE, DELETE = b"I", b"U", b"D"

FEED_SECONDS = 3600  # a feed covers the hour after its master

Mutations = Iterator[tuple[bytes, Fields]]  # op code, fields of the row without it


def new(rows: int, seed: int, table: DemoTable[Any] = PRODUCTS, op_code_at: int | None = None) -> Iterator[bytes]:
    """Make `rows` rows with distinct IDs.

    op_code_at: ordinal of the op code in the rows made, None for rows without one; a master never has it.

    >>> list(new(1, seed=1))
    [b'7MV2NR1BG3,laptop,lenovo,612,31,1425591433']
    """
    return _written(_new(rows, seed, table), table, op_code_at)


def upsert(
    rows: int, seed: int, master: Iterable[bytes], table: DemoTable[Any] = PRODUCTS, op_code_at: int | None = None
) -> Iterator[bytes]:
    """Update records of the master (70 % of the rows) and insert new ones. One sale in ten moves to another store.

    >>> list(upsert(1, seed=1, master=[b"VR8NCNE7DV,tablet,samsung,279,88,1425931207"]))
    [b'VR8NCNE7DV,tablet,samsung,279,81,1425931956']
    """
    return _written(_upsert(rows, seed, master, table), table, op_code_at)


def delete(
    rows: int, seed: int, master: Iterable[bytes], table: DemoTable[Any] = PRODUCTS, op_code_at: int | None = None
) -> Iterator[bytes]:
    """Delete records of the master: their rows as they are, with a newer time.

    >>> list(delete(1, seed=1, master=[b"VR8NCNE7DV,tablet,samsung,279,88,1425931207"]))
    [b'VR8NCNE7DV,tablet,samsung,279,88,1425934572']
    """
    return _written(_delete(rows, seed, master, table), table, op_code_at)


def seeded(purpose: str) -> Draw:
    """Return a source of numbers in [0, 1) that depends on the purpose alone, which names table, operation and seed."""
    # The operation keeps the IDs of `new` apart from those that `upsert` inserts with the same seed.
    return Random(purpose).random


def _new(rows: int, seed: int, table: DemoTable[Any]) -> Mutations:
    random = seeded(f"{table.name} new {seed}")
    for key in islice(table.keys(random), _checked(rows)):
        yield INSERT, _new_row(table, random, key, table.master_time(random()))


def _upsert(rows: int, seed: int, master: Iterable[bytes], table: DemoTable[Any]) -> Mutations:
    purpose = f"{table.name} upsert {seed}"
    random = seeded(purpose)
    updates = (7 * _checked(rows) + 5) // 10
    unused = table.unused_keys(random, rows - updates, seed)

    def seen() -> Iterator[Fields]:
        for fields in _rows_of(table, master):
            unused.see(tuple(fields[: table.key_width]))
            yield fields

    chosen, newest = _choose(table, updates, purpose, seen())
    old, keys = iter(chosen), iter(unused)
    for left in range(rows, 0, -1):
        update = random() * left < updates
        time = table.later(newest, random() * FEED_SECONDS)
        if update:
            updates -= 1
            fields = next(old)
            table.change(random, fields)
            fields[table.time_ordinal] = table.write_time(random, time)
            yield UPDATE, fields
        else:
            yield INSERT, _new_row(table, random, next(keys), time)


def _delete(rows: int, seed: int, master: Iterable[bytes], table: DemoTable[Any]) -> Mutations:
    purpose = f"{table.name} delete {seed}"
    random = seeded(purpose)
    chosen, newest = _choose(table, _checked(rows), purpose, _rows_of(table, master))
    for fields in chosen:
        time = table.later(newest, random() * FEED_SECONDS)
        fields[table.time_ordinal] = table.write_time(random, time)
        yield DELETE, fields


def _new_row(table: DemoTable[Any], random: Draw, key: Key, time: Any) -> Fields:
    fields = [*key, *table.values(random, time)]
    fields.insert(table.time_ordinal, table.write_time(random, time))
    return fields


def _choose(table: DemoTable[Any], wanted: int, salt: str, rows: Iterable[Fields]) -> tuple[list[Fields], Any]:
    """Choose `wanted` random records in one pass; return their newest rows, and the newest time of the master.

    The records whose keys have the smallest salted hashes are kept: as fair as reservoir sampling, but independent of
    the order of the rows. A key among the smallest in the end was among them from its first row on, so its newest
    version is always seen.
    """
    largest: list[tuple[int, bytes]] = []  # heap of (-hash, key): the key to drop next is first
    chosen: dict[bytes, tuple[Any, Fields]] = {}
    hashed = blake2b(salt.encode(), digest_size=8)
    newest = table.oldest
    for fields in rows:
        key, time = b",".join(fields[: table.key_width]), table.read_time(fields[table.time_ordinal])
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
            f"the master has only {counted(len(chosen), 'record')}, but {wanted:,} are to change; "
            "ask for fewer rows or give a larger master"
        )
    return [chosen[key][1] for _, key in sorted(largest)], newest


def _rows_of(table: DemoTable[Any], master: Iterable[bytes]) -> Iterator[Fields]:
    """Yield the fields of each row of a master, which may be an open binary file."""
    for number, line in enumerate(master, 1):
        row = line.rstrip(b"\r\n")
        fields = row.split(b",")
        if len(fields) == len(table.columns):
            yield fields
        elif row:
            raise ValueError(
                f"row {number} of the master has {counted(len(fields), 'field')}, not the {len(table.columns)} of "
                f"{','.join(table.columns)}: {row!r}; give a master made by mutator sample"
            )


def _checked(rows: int) -> int:
    if rows < 0:
        raise ValueError(f"{rows} rows cannot be made; ask for 0 or more")
    return rows


def _written(mutations: Mutations, table: DemoTable[Any], op_code_at: int | None) -> Iterator[bytes]:
    if op_code_at is not None and not 0 <= op_code_at <= len(table.columns):
        raise ValueError(f"op code ordinal {op_code_at} is outside of the row; use 0 to {len(table.columns)}")
    for op_code, fields in mutations:
        if op_code_at is not None:
            fields.insert(op_code_at, op_code)
        yield b",".join(fields)
