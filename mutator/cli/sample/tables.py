"""The two sample tables: their columns, IDs, times and values.

Products are those of the published tutorial. Sales have a composite ID: sell_id numbers the sales of one account, so
only sell_id and acct_id together identify a sale.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count, islice
from typing import Generic, Protocol, TypeVar

from mutator.errors.quick_dataclass import dataclass

Draw = Callable[[], float]  # returns the next number in [0, 1)
Key = tuple[bytes, ...]
Fields = list[bytes]
Time = TypeVar("Time", int, datetime)
Choice = TypeVar("Choice")


class UnusedKeys(Protocol):
    """Yields keys that no row of a master has."""

    def see(self, key: Key) -> None:
        """Do not yield this key, which the master has."""

    def __iter__(self) -> Iterator[Key]:
        """Raise ValueError if the master has too many of the keys of this seed."""


@dataclass(frozen=True)
class DemoTable(Generic[Time]):
    """A sample table, for the generator. The key is its first `key_width` fields."""

    name: str
    columns: tuple[str, ...]
    key_width: int
    time_ordinal: int
    oldest: Time
    master_time: Callable[[float], Time]  # a time in the period of a master; the argument is in [0, 1)
    later: Callable[[Time, float], Time]  # newer than a time, by at least so many seconds
    read_time: Callable[[bytes], Time]
    write_time: Callable[[Draw, Time], bytes]
    keys: Callable[[Draw], Iterator[Key]]
    unused_keys: Callable[[Draw, int, int], UnusedKeys]  # how many are wanted, and the seed for the error message
    values: Callable[[Draw, Time], Fields]  # of a new row: all fields but the key and the time
    change: Callable[[Draw, Fields], None]  # update the values of a row in place


# category, its brands (the first is the most popular), lowest price, spread of the prices
CATALOGUE = (
    (b"cell phone", (b"apple", b"samsung", b"nokia", b"lg", b"htc"), 150, 80),
    (b"tablet", (b"samsung", b"apple", b"amazon kindle", b"google chromo"), 200, 100),
    (b"laptop", (b"lenovo", b"hp", b"acer", b"asus", b"thinkpad"), 500, 200),
    (b"wearables", (b"fitbit", b"garmin", b"jawbone", b"misfit"), 100, 50),
)


def _pick(random: Draw, choices: Sequence[Choice]) -> Choice:
    return choices[int(random() * len(choices))]


# Products

# The op code column of a feed that has one, as in `#rsbm.op.code.field.ordinal=4`. It moves the timestamp from ordinal
# 5 to 6: ordinals in a configuration count the fields of the feed.
OP_CODE_ORDINAL = 4

# A product master covers 1,000 hours and ends one hour before 1427761080, the suffix of the first feed file of the
# published example; a feed covers the hour after its master. So hourly feeds can carry the hour they end in.
FIRST_SECOND = 1_424_157_480
MASTER_SECONDS = 1000 * 3600

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
IDS = 36**10
HALF_IDS = 36**5
PAIRS = [(a + b).encode() for a in ALPHABET for b in ALPHABET]

# More IDs are drawn than are inserted, because the master may happen to have one of them.
SPARE_IDS = 16


def product_keys(random: Draw) -> Iterator[Key]:
    """Walk all IDs in a scattered order: x -> a*x + b and a swap of halves never collide, so no ID is remembered."""
    # A multiplier must share no factor with 36**10, so neither 2 nor 3.
    first, second = (int(random() * (IDS // 6)) * 6 + 1 for _ in range(2))
    shift = int(random() * IDS)
    for n in range(IDS):
        high, low = divmod((n * first + shift) % IDS, HALF_IDS)
        x = (low * HALF_IDS + high) * second % IDS
        x, e = divmod(x, 1296)
        x, d = divmod(x, 1296)
        x, c = divmod(x, 1296)
        a, b = divmod(x, 1296)
        yield (PAIRS[a] + PAIRS[b] + PAIRS[c] + PAIRS[d] + PAIRS[e],)


class _UnusedProductKeys:
    def __init__(self, random: Draw, wanted: int, seed: int) -> None:
        self._wanted, self._seed = wanted, seed
        self._keys = dict.fromkeys(islice(product_keys(random), wanted + SPARE_IDS))

    def see(self, key: Key) -> None:
        self._keys.pop(key, None)

    def __iter__(self) -> Iterator[Key]:
        if len(self._keys) < self._wanted:
            raise ValueError(f"the master already has the IDs that seed {self._seed} inserts; use another seed")
        return iter(self._keys)


def _product_values(random: Draw, timestamp: int) -> Fields:
    category, brands, price, spread = _pick(random, CATALOGUE)
    brand = brands[0] if random() < 0.4 else _pick(random, brands)
    price += int(random() * spread)
    return [category, brand, b"%d" % price, b"%d" % int(random() * 101)]


def _change_product(random: Draw, fields: Fields) -> None:
    price, inventory = int(fields[3]), int(fields[4])
    fields[3] = b"%d" % (price + (int(random() * 8) - 2 if random() < 0.3 else 0))
    fields[4] = b"%d" % min(100, max(0, inventory + int(random() * 21) - 10))


PRODUCTS = DemoTable(
    name="product",
    columns=("ID", "category", "brand", "price", "inventory", "timestamp"),
    key_width=1,
    time_ordinal=5,
    oldest=FIRST_SECOND,
    master_time=lambda fraction: FIRST_SECOND + int(fraction * MASTER_SECONDS),
    later=lambda newest, seconds: newest + 1 + int(seconds),
    read_time=int,
    write_time=lambda _, timestamp: b"%d" % timestamp,
    keys=product_keys,
    unused_keys=_UnusedProductKeys,
    values=_product_values,
    change=_change_product,
)


# Sales

FIRST_SALE = datetime(2015, 3, 27)  # noqa: DTZ001 - change_ts is without zone, which the merge reads as UTC
SALES_DAYS = 4
FIRST_SELL_ID = 1001
ACCOUNTS = 100
STORES = 4


def _sales_keys(random: Draw, first_sell_id: int = FIRST_SELL_ID) -> Iterator[Key]:
    shift = int(random() * ACCOUNTS)
    for n in count(first_sell_id * ACCOUNTS):
        yield b"%d" % (n // ACCOUNTS), b"AC%04d" % ((n * 37 + shift) % ACCOUNTS)


class _UnusedSalesKeys:
    def __init__(self, random: Draw, wanted: int, seed: int) -> None:
        self._random, self._highest = random, FIRST_SELL_ID - 1

    def see(self, key: Key) -> None:
        self._highest = max(self._highest, int(key[0]))

    def __iter__(self) -> Iterator[Key]:
        return _sales_keys(self._random, self._highest + 1)


def _later_sale(newest: datetime, seconds: float) -> datetime:
    # At least a millisecond, because _sale_time may cut the microseconds off.
    return newest + timedelta(microseconds=1000 + int(seconds * 1_000_000))


def _sale_time(random: Draw, moment: datetime) -> bytes:
    return moment.isoformat(timespec="milliseconds" if random() < 0.5 else "microseconds").encode()


def _sale_values(random: Draw, moment: datetime) -> Fields:
    item, _, price, spread = _pick(random, CATALOGUE)
    quantity = 1 + int(random() * 5)
    cents = quantity * (100 * price + int(random() * 100 * spread))
    store = 1 + int(random() * STORES)
    created = (moment - timedelta(days=random())).date().isoformat().encode()
    return [item, b"%d" % quantity, _amount(cents), b"S%d" % store, created]


def _change_sale(random: Draw, fields: Fields) -> None:
    quantity, amount, store = fields[4:7]
    cents = int(amount.replace(b".", b"")) // int(quantity)
    new_quantity = 1 + int(random() * 5)
    if random() < 0.1:
        store = b"S%d" % ((int(store[1:]) + int(random() * (STORES - 1))) % STORES + 1)
    fields[4:7] = b"%d" % new_quantity, _amount(cents * new_quantity), store


def _amount(cents: int) -> bytes:
    return b"%d.%02d" % divmod(cents, 100)


SALES = DemoTable(
    name="sales",
    columns=("sell_id", "acct_id", "change_ts", "item", "quantity", "amount", "store_id", "create_date"),
    key_width=2,
    time_ordinal=2,
    oldest=FIRST_SALE,
    master_time=lambda fraction: FIRST_SALE + timedelta(days=SALES_DAYS * fraction),
    later=_later_sale,
    read_time=lambda text: datetime.fromisoformat(text.decode()),
    write_time=_sale_time,
    keys=_sales_keys,
    unused_keys=_UnusedSalesKeys,
    values=_sale_values,
    change=_change_sale,
)
