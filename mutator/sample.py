"""Make sample data: products and sales, and the upserts and deletes that follow them.

Every function is an iterator of rows: `bytes` without line end, fields joined by a comma.

    products   ID,category,brand,price,inventory,timestamp
               VR8NCNE7DV,tablet,samsung,279,88,1425931207
    with code  ID,category,brand,price,op code,inventory,timestamp
               VR8NCNE7DV,tablet,samsung,279,U,82,1427759321
    sales      sell_id,acct_id,change_ts,item,quantity,amount,store_id,create_date
               1001,AC0042,2015-03-30T11:05:07.250,laptop,2,1118.00,S3,2015-03-29

Rules:
(A) Rows depend on the seed, the arguments and the master's records alone: never on the clock, the
    Python version or the order of the master's rows.
(B) A master is read once, and what is kept of it is bounded by the number of mutations asked for.
    Several versions of a record may follow each other (a master and its earlier feeds, chained): the newest counts.
(C) The records of one call are distinct, and each is newer than every row of its master.
(D) An inserted ID is in no row of the master.

(A) rests on `random()` alone: it is the only method whose sequence Python promises to keep.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from heapq import heappush, heappushpop
from itertools import count, islice
from random import Random
from typing import Generic, TypeVar

__all__ = [
    "OP_CODE_ORDINAL",
    "PRODUCT_COLUMNS",
    "SALES_COLUMNS",
    "delete",
    "delete_sales",
    "delete_with_op_code",
    "new",
    "new_sales",
    "new_with_op_code",
    "upsert",
    "upsert_sales",
    "upsert_with_op_code",
]

PRODUCT_COLUMNS = ("ID", "category", "brand", "price", "inventory", "timestamp")
SALES_COLUMNS = ("sell_id", "acct_id", "change_ts", "item", "quantity", "amount", "store_id", "create_date")

# Where the op code column stands in a feed that has one, as in `#rsbm.op.code.field.ordinal=4`. It pushes the
# timestamp from ordinal 5 to 6: the ordinals of a configuration are those of the feed.
OP_CODE_ORDINAL = 4

INSERT, UPDATE, DELETE = b"I", b"U", b"D"

# category, its brands (the first is the most popular), lowest price, spread of the prices
CATALOGUE = (
    (b"cell phone", (b"apple", b"samsung", b"nokia", b"lg", b"htc"), 150, 80),
    (b"tablet", (b"samsung", b"apple", b"amazon kindle", b"google chromo"), 200, 100),
    (b"laptop", (b"lenovo", b"hp", b"acer", b"asus", b"thinkpad"), 500, 200),
    (b"wearables", (b"fitbit", b"garmin", b"jawbone", b"misfit"), 100, 50),
)

# A product master covers 1,000 hours and ends one hour before 1427761080, the suffix of the first feed file of the
# published example; a feed covers the hour after its master. So hourly feeds can carry the hour they end in.
FIRST_SECOND = 1_424_157_480
MASTER_SECONDS = 1000 * 3600
FEED_SECONDS = 3600

FIRST_SALE = datetime(2015, 3, 27)  # noqa: DTZ001 - change_ts is without zone, which the merge reads as UTC
SALES_DAYS = 4
ACCOUNTS = 100
STORES = 4

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
IDS = 36**10
HALF_IDS = 36**5
PAIRS = [(a + b).encode() for a in ALPHABET for b in ALPHABET]

# More fresh IDs are drawn than are inserted, for the rare one that the master happens to hold.
SPARE_IDS = 16

Draw = Callable[[], float]
Fields = list[bytes]
Time = TypeVar("Time", int, datetime)
Choice = TypeVar("Choice")


@dataclass(frozen=True)
class _Table(Generic[Time]):
    columns: tuple[str, ...]
    id_width: int  # the ID is the first so many fields
    time_ordinal: int
    time_of: Callable[[bytes], Time]
    oldest: Time


def _moment(text: bytes) -> datetime:
    return datetime.fromisoformat(text.decode())


PRODUCTS = _Table(PRODUCT_COLUMNS, 1, 5, int, FIRST_SECOND)
SALES = _Table(SALES_COLUMNS, 2, 2, _moment, FIRST_SALE)


# Products


def new(rows: int, seed: int) -> Iterator[bytes]:
    """Make `rows` products with distinct IDs.

    >>> list(new(1, seed=1))
    [b'7MV2NR1BG3,laptop,lenovo,612,31,1425591433']
    """
    return (row for _, row in _new_products(rows, seed))


def upsert(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[bytes]:
    """Update records of the master (70 % of the rows) and insert new ones.

    >>> list(upsert(1, seed=1, master=[b"VR8NCNE7DV,tablet,samsung,279,88,1425931207"]))
    [b'VR8NCNE7DV,tablet,samsung,279,81,1425931956']
    """
    return (row for _, row in _upsert_products(rows, seed, master))


def delete(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[bytes]:
    """Delete records of the master: their rows as they are, with a newer timestamp.

    >>> list(delete(1, seed=1, master=[b"VR8NCNE7DV,tablet,samsung,279,88,1425931207"]))
    [b'VR8NCNE7DV,tablet,samsung,279,88,1425934572']
    """
    return (row for _, row in _delete_products(rows, seed, master))


def new_with_op_code(rows: int, seed: int, ordinal: int = OP_CODE_ORDINAL) -> Iterator[bytes]:
    """Make the rows of `new` with the op code I in a column of its own."""
    return _insert_op_code(_new_products(rows, seed), ordinal)


def upsert_with_op_code(
    rows: int, seed: int, master: Iterable[bytes], ordinal: int = OP_CODE_ORDINAL
) -> Iterator[bytes]:
    """Make the rows of `upsert` with the op code I or U in a column of its own; the master has no such column."""
    return _insert_op_code(_upsert_products(rows, seed, master), ordinal)


def delete_with_op_code(
    rows: int, seed: int, master: Iterable[bytes], ordinal: int = OP_CODE_ORDINAL
) -> Iterator[bytes]:
    """Make the rows of `delete` with the op code D in a column of its own; the master has no such column."""
    return _insert_op_code(_delete_products(rows, seed, master), ordinal)


def _new_products(rows: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    random = _random("product new", seed)
    for product_id in islice(_ids(random), _checked(rows)):
        yield INSERT, _product(random, product_id, FIRST_SECOND + int(random() * MASTER_SECONDS))


def _upsert_products(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    random = _random("product upsert", seed)
    updates, inserts = _updates_and_inserts(rows)
    fresh = dict.fromkeys(islice(_ids(random), inserts + SPARE_IDS))

    def without_fresh() -> Iterator[Fields]:
        for fields in _fields(PRODUCTS, master):
            fresh.pop(fields[0], None)
            yield fields

    chosen, newest = _choose(PRODUCTS, updates, f"product upsert {seed}", without_fresh())
    if len(fresh) < inserts:
        raise ValueError(f"the master already holds the IDs that seed {seed} inserts; use another seed")
    old, ids = iter(chosen), iter(fresh)
    for code in _shuffled_codes(random, updates, inserts):
        timestamp = newest + 1 + int(random() * FEED_SECONDS)
        if code == INSERT:
            yield code, _product(random, next(ids), timestamp)
        else:
            yield code, _changed_product(random, next(old), timestamp)


def _delete_products(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    random = _random("product delete", seed)
    chosen, newest = _choose(PRODUCTS, _checked(rows), f"product delete {seed}", _fields(PRODUCTS, master))
    for fields in chosen:
        fields[5] = b"%d" % (newest + 1 + int(random() * FEED_SECONDS))
        yield DELETE, b",".join(fields)


def _product(random: Draw, product_id: bytes, timestamp: int) -> bytes:
    category, brands, price, spread = _pick(random, CATALOGUE)
    brand = brands[0] if random() < 0.4 else _pick(random, brands)
    price += int(random() * spread)
    return b"%b,%b,%b,%d,%d,%d" % (product_id, category, brand, price, int(random() * 101), timestamp)


def _changed_product(random: Draw, fields: Fields, timestamp: int) -> bytes:
    product_id, category, brand, price, inventory, _ = fields
    new_price = int(price) + (int(random() * 8) - 2 if random() < 0.3 else 0)
    new_inventory = min(100, max(0, int(inventory) + int(random() * 21) - 10))
    return b"%b,%b,%b,%d,%d,%d" % (product_id, category, brand, new_price, new_inventory, timestamp)


def _ids(random: Draw) -> Iterator[bytes]:
    """Walk all IDs in a scattered order: x -> a*x + b and a swap of halves never meet, so no ID needs remembering."""
    # A multiplier must share no factor with 36**10, that is neither 2 nor 3.
    first, second = (int(random() * (IDS // 6)) * 6 + 1 for _ in range(2))
    shift = int(random() * IDS)
    for n in range(IDS):
        high, low = divmod((n * first + shift) % IDS, HALF_IDS)
        x = (low * HALF_IDS + high) * second % IDS
        x, e = divmod(x, 1296)
        x, d = divmod(x, 1296)
        x, c = divmod(x, 1296)
        a, b = divmod(x, 1296)
        yield PAIRS[a] + PAIRS[b] + PAIRS[c] + PAIRS[d] + PAIRS[e]


def _insert_op_code(mutations: Iterable[tuple[bytes, bytes]], ordinal: int) -> Iterator[bytes]:
    if not 0 <= ordinal <= len(PRODUCT_COLUMNS):
        raise ValueError(f"op code ordinal {ordinal} is outside of the row; use 0 to {len(PRODUCT_COLUMNS)}")
    for code, row in mutations:
        fields = row.split(b",")
        fields.insert(ordinal, code)
        yield b",".join(fields)


# Sales: a sell_id counts the sales of one account, so that only sell_id and acct_id together name a sale


def new_sales(rows: int, seed: int) -> Iterator[bytes]:
    """Make `rows` sales with distinct (sell_id, acct_id).

    >>> list(new_sales(1, seed=1))
    [b'1001,AC0015,2015-03-29T16:52:23.178,tablet,3,812.97,S3,2015-03-28']
    """
    random = _random("sales new", seed)
    for sell_id, acct_id in islice(_sales_keys(random, 1001), _checked(rows)):
        yield _sale(random, sell_id, acct_id, FIRST_SALE + timedelta(days=SALES_DAYS * random()))


def upsert_sales(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[bytes]:
    """Update sales of the master (70 % of the rows, one in ten moves to another store) and insert new ones."""
    random = _random("sales upsert", seed)
    updates, inserts = _updates_and_inserts(rows)
    highest = 1000

    def with_highest() -> Iterator[Fields]:
        nonlocal highest
        for fields in _fields(SALES, master):
            highest = max(highest, int(fields[0]))
            yield fields

    chosen, newest = _choose(SALES, updates, f"sales upsert {seed}", with_highest())
    old, keys = iter(chosen), _sales_keys(random, highest + 1)
    for code in _shuffled_codes(random, updates, inserts):
        change = _after(random, newest)
        if code == INSERT:
            sell_id, acct_id = next(keys)
            yield _sale(random, sell_id, acct_id, change)
        else:
            yield _changed_sale(random, next(old), change)


def delete_sales(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[bytes]:
    """Delete sales of the master: their rows as they are, with a newer change_ts."""
    random = _random("sales delete", seed)
    chosen, newest = _choose(SALES, _checked(rows), f"sales delete {seed}", _fields(SALES, master))
    for fields in chosen:
        fields[2] = _iso(random, _after(random, newest))
        yield b",".join(fields)


def _sale(random: Draw, sell_id: int, acct_id: bytes, change: datetime) -> bytes:
    item, _, price, spread = _pick(random, CATALOGUE)
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


# Both tables


def _choose(table: _Table[Time], wanted: int, salt: str, rows: Iterable[Fields]) -> tuple[list[Fields], Time]:
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


def _fields(table: _Table[Time], master: Iterable[bytes]) -> Iterator[Fields]:
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


def _random(purpose: str, seed: int) -> Draw:
    # The purpose keeps the IDs of `new` and those that `upsert` inserts apart when both have the same seed.
    return Random(f"{purpose} {seed}").random


def _pick(random: Draw, choices: Sequence[Choice]) -> Choice:
    return choices[int(random() * len(choices))]


def _checked(rows: int) -> int:
    if rows < 0:
        raise ValueError(f"{rows} rows cannot be made; ask for 0 or more")
    return rows


def _updates_and_inserts(rows: int) -> tuple[int, int]:
    updates = (7 * _checked(rows) + 5) // 10
    return updates, rows - updates


def _shuffled_codes(random: Draw, updates: int, inserts: int) -> Iterator[bytes]:
    for left in range(updates + inserts, 0, -1):
        if random() * left < updates:
            updates -= 1
            yield UPDATE
        else:
            yield INSERT
