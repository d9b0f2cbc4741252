"""Sales with a composite ID: a sell_id counts the sales of one account, so only both together name a sale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import count, islice

from mutator.cli.sample.draw import (
    CATALOGUE,
    FEED_SECONDS,
    INSERT,
    Draw,
    Fields,
    Table,
    checked,
    choose,
    fields_of,
    pick,
    seeded,
    shuffled_codes,
    updates_and_inserts,
)

SALES_COLUMNS = ("sell_id", "acct_id", "change_ts", "item", "quantity", "amount", "store_id", "create_date")

FIRST_SALE = datetime(2015, 3, 27)  # noqa: DTZ001 - change_ts is without zone, which the merge reads as UTC
SALES_DAYS = 4
ACCOUNTS = 100
STORES = 4


def _moment(text: bytes) -> datetime:
    return datetime.fromisoformat(text.decode())


SALES = Table(SALES_COLUMNS, 2, 2, _moment, FIRST_SALE)


def new_sales(rows: int, seed: int) -> Iterator[bytes]:
    """Make `rows` sales with distinct (sell_id, acct_id).

    >>> list(new_sales(1, seed=1))
    [b'1001,AC0015,2015-03-29T16:52:23.178,tablet,3,812.97,S3,2015-03-28']
    """
    random = seeded("sales new", seed)
    for sell_id, acct_id in islice(_sales_keys(random, 1001), checked(rows)):
        yield _sale(random, sell_id, acct_id, FIRST_SALE + timedelta(days=SALES_DAYS * random()))


def upsert_sales(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[bytes]:
    """Update sales of the master (70 % of the rows, one in ten moves to another store) and insert new ones."""
    random = seeded("sales upsert", seed)
    updates, inserts = updates_and_inserts(rows)
    highest = 1000

    def with_highest() -> Iterator[Fields]:
        nonlocal highest
        for fields in fields_of(SALES, master):
            highest = max(highest, int(fields[0]))
            yield fields

    chosen, newest = choose(SALES, updates, f"sales upsert {seed}", with_highest())
    old, keys = iter(chosen), _sales_keys(random, highest + 1)
    for code in shuffled_codes(random, updates, inserts):
        change = _after(random, newest)
        if code == INSERT:
            sell_id, acct_id = next(keys)
            yield _sale(random, sell_id, acct_id, change)
        else:
            yield _changed_sale(random, next(old), change)


def delete_sales(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[bytes]:
    """Delete sales of the master: their rows as they are, with a newer change_ts."""
    random = seeded("sales delete", seed)
    chosen, newest = choose(SALES, checked(rows), f"sales delete {seed}", fields_of(SALES, master))
    for fields in chosen:
        fields[2] = _iso(random, _after(random, newest))
        yield b",".join(fields)


def _sale(random: Draw, sell_id: int, acct_id: bytes, change: datetime) -> bytes:
    item, _, price, spread = pick(random, CATALOGUE)
    quantity = 1 + int(random() * 5)
    cents = quantity * (100 * price + int(random() * 100 * spread))
    store = 1 + int(random() * STORES)
    created = (change - timedelta(days=random())).date().isoformat().encode()
    amount = b"%d.%02d" % divmod(cents, 100)
    return b"%d,%b,%b,%b,%d,%b,S%d,%b" % (
        sell_id, acct_id, _iso(random, change), item, quantity, amount, store, created,
    )  # fmt: skip


def _changed_sale(random: Draw, fields: Fields, change: datetime) -> bytes:
    sell_id, acct_id, _, item, quantity, amount, store, created = fields
    cents = int(amount.replace(b".", b"")) // int(quantity)
    new_quantity = 1 + int(random() * 5)
    if random() < 0.1:
        store = b"S%d" % ((int(store[1:]) + int(random() * (STORES - 1))) % STORES + 1)
    new_amount = b"%d.%02d" % divmod(cents * new_quantity, 100)
    changed = (sell_id, acct_id, _iso(random, change), item, b"%d" % new_quantity, new_amount, store, created)
    return b",".join(changed)


def _sales_keys(random: Draw, first_sell_id: int) -> Iterator[tuple[int, bytes]]:
    shift = int(random() * ACCOUNTS)
    for n in count(first_sell_id * ACCOUNTS):
        yield n // ACCOUNTS, b"AC%04d" % ((n * 37 + shift) % ACCOUNTS)


def _after(random: Draw, newest: datetime) -> datetime:
    # At least a millisecond, because _iso may cut the microseconds off.
    return newest + timedelta(microseconds=1000 + int(random() * FEED_SECONDS * 1_000_000))


def _iso(random: Draw, moment: datetime) -> bytes:
    return moment.isoformat(timespec="milliseconds" if random() < 0.5 else "microseconds").encode()
