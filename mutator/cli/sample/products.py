"""The products of the published tutorial: ID,category,brand,price,inventory,timestamp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from mutator.cli.sample.draw import (
    CATALOGUE,
    DELETE,
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

PRODUCT_COLUMNS = ("ID", "category", "brand", "price", "inventory", "timestamp")

# Where the op code column stands in a feed that has one, as in `#rsbm.op.code.field.ordinal=4`. It pushes the
# timestamp from ordinal 5 to 6: the ordinals of a configuration are those of the feed.
OP_CODE_ORDINAL = 4

# A product master covers 1,000 hours and ends one hour before 1427761080, the suffix of the first feed file of the
# published example; a feed covers the hour after its master. So hourly feeds can carry the hour they end in.
FIRST_SECOND = 1_424_157_480
MASTER_SECONDS = 1000 * 3600

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
IDS = 36**10
HALF_IDS = 36**5
PAIRS = [(a + b).encode() for a in ALPHABET for b in ALPHABET]

# More fresh IDs are drawn than are inserted, for the rare one that the master happens to hold.
SPARE_IDS = 16

PRODUCTS = Table(PRODUCT_COLUMNS, 1, 5, int, FIRST_SECOND)


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
    random = seeded("product new", seed)
    for product_id in islice(_ids(random), checked(rows)):
        yield INSERT, _product(random, product_id, FIRST_SECOND + int(random() * MASTER_SECONDS))


def _upsert_products(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    random = seeded("product upsert", seed)
    updates, inserts = updates_and_inserts(rows)
    fresh = dict.fromkeys(islice(_ids(random), inserts + SPARE_IDS))

    def without_fresh() -> Iterator[Fields]:
        for fields in fields_of(PRODUCTS, master):
            fresh.pop(fields[0], None)
            yield fields

    chosen, newest = choose(PRODUCTS, updates, f"product upsert {seed}", without_fresh())
    if len(fresh) < inserts:
        raise ValueError(f"the master already holds the IDs that seed {seed} inserts; use another seed")
    old, ids = iter(chosen), iter(fresh)
    for code in shuffled_codes(random, updates, inserts):
        timestamp = newest + 1 + int(random() * FEED_SECONDS)
        if code == INSERT:
            yield code, _product(random, next(ids), timestamp)
        else:
            yield code, _changed_product(random, next(old), timestamp)


def _delete_products(rows: int, seed: int, master: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    random = seeded("product delete", seed)
    chosen, newest = choose(PRODUCTS, checked(rows), f"product delete {seed}", fields_of(PRODUCTS, master))
    for fields in chosen:
        fields[5] = b"%d" % (newest + 1 + int(random() * FEED_SECONDS))
        yield DELETE, b",".join(fields)


def _product(random: Draw, product_id: bytes, timestamp: int) -> bytes:
    category, brands, price, spread = pick(random, CATALOGUE)
    brand = brands[0] if random() < 0.4 else pick(random, brands)
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
