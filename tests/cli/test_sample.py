"""The generator keeps its rules (A) to (D), and `sample_data/` agrees with its README."""

import doctest
import re
import subprocess
import sys
from collections import Counter
from functools import partial
from itertools import chain, islice

import pytest

from mutator.cli import sample
from mutator.cli.sample import generator, tables
from tests.support.sample_sets import (
    README,
    SAMPLE_DATA,
    SAMPLES,
    file_sequence,
    merge,
    product_time,
    read_sample,
    sales_time,
)

PRODUCTS = list(sample.new(300, seed=1))
SALES = list(sample.new(300, seed=1, table=sample.SALES))

new_sales, upsert_sales, delete_sales = (
    partial(make, table=sample.SALES) for make in (sample.new, sample.upsert, sample.delete)
)


def product_id(row):
    return row.split(b",")[0]


def sales_id(row):
    return tuple(row.split(b",")[:2])


# Each table: its master, the functions that generate its mutations, and those that read a row.
TABLES = {
    "products": (PRODUCTS, sample.upsert, sample.delete, product_id, product_time),
    "sales": (SALES, upsert_sales, delete_sales, sales_id, sales_time),
}
both_tables = pytest.mark.parametrize(("master", "upsert", "delete", "id_of", "time_of"), TABLES.values(), ids=TABLES)


def test_examples_in_docstrings():
    failed, tried = doctest.testmod(generator)

    assert failed == 0
    assert tried > 0


# The form of rows


def test_product_looks_like_a_product():
    brands = {category: names for category, names, _, _ in tables.CATALOGUE}
    for row in PRODUCTS:
        product, category, brand, price, inventory, timestamp = row.split(b",")

        assert re.fullmatch(rb"[A-Z0-9]{10}", product)
        assert brand in brands[category]
        assert 100 <= int(price) < 700
        assert 0 <= int(inventory) <= 100
        assert re.fullmatch(rb"14\d{8}", timestamp)
    assert {row.split(b",")[1] for row in PRODUCTS} == set(brands)


def test_sale_looks_like_a_sale():
    for row in chain(SALES, upsert_sales(100, 1, SALES)):
        sell, acct, change, _item, quantity, amount, store, created = row.split(b",")

        assert re.fullmatch(rb"\d+", sell)
        assert re.fullmatch(rb"AC\d{4}", acct)
        assert re.fullmatch(rb"2015-03-\d\dT\d\d:\d\d:\d\d\.(\d{3}|\d{6})", change)
        assert 1 <= int(quantity) <= 5
        assert re.fullmatch(rb"\d+\.\d\d", amount)
        assert store in (b"S1", b"S2", b"S3", b"S4")
        assert created <= change[:10]


def test_sell_id_alone_does_not_name_a_sale():
    assert len({row.split(b",")[0] for row in SALES}) == 3


# (A) deterministic

NEW_42 = [
    b"MOMJBJCMIB,wearables,jawbone,148,99,1424925742",
    b"6I1UZLO7GU,laptop,asus,618,33,1426338113",
]
SALES_42 = [
    b"1001,AC0068,2015-03-29T15:55:11.080062,tablet,4,1098.36,S1,2015-03-29",
    b"1001,AC0005,2015-03-27T01:29:31.241,laptop,2,1318.82,S1,2015-03-27",
]


def test_rows_of_a_seed_never_change():
    # Literal values: another Python version must generate the same ones.
    assert list(sample.new(2, seed=42)) == NEW_42
    assert list(new_sales(2, seed=42)) == SALES_42


@pytest.mark.processes
def test_another_process_generates_the_same_rows():
    code = "from mutator.cli import sample; b = list(sample.new(50, 3)); print(b, list(sample.upsert(20, 3, b)))"
    root = SAMPLE_DATA.parent
    printed = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout

    base = list(sample.new(50, 3))
    assert printed == f"{base} {list(sample.upsert(20, 3, base))}\n"


@both_tables
def test_order_of_the_master_does_not_matter(master, upsert, delete, id_of, time_of):
    for make in (upsert, delete):
        assert list(make(50, 7, master)) == list(make(50, 7, reversed(master)))
        assert list(make(50, 7, master)) != list(make(50, 8, master))


def test_fewer_rows_are_a_prefix_of_more():
    assert list(sample.new(10, 5)) == list(sample.new(1000, 5))[:10]


def test_seeds_differ():
    assert not {product_id(r) for r in sample.new(1000, 1)} & {product_id(r) for r in sample.new(1000, 2)}


# (B) one pass, and the newest version of a record counts


@both_tables
def test_master_is_read_once_and_may_be_a_file(tmp_path, master, upsert, delete, id_of, time_of):
    path = tmp_path / "master.txt"
    path.write_bytes(b"".join(row + b"\r\n" for row in master) + b"\n")
    for make in (upsert, delete):
        with path.open("rb") as lines:
            assert list(make(30, 7, lines)) == list(make(30, 7, iter(master)))


@both_tables
def test_newest_version_of_a_record_is_taken(master, upsert, delete, id_of, time_of):
    ups = list(upsert(300, 1, master))
    everything = list(delete(390, 2, chain(ups, master)))

    newest = {id_of(row): row for row in chain(master, ups)}
    assert len(newest) == 390
    at = 5 if time_of is product_time else 2
    for row in everything:
        fields, before = row.split(b","), newest[id_of(row)].split(b",")
        assert fields[:at] + fields[at + 1 :] == before[:at] + before[at + 1 :]


# (C) distinct and newer


@both_tables
def test_mutations_are_distinct_and_newer(master, upsert, delete, id_of, time_of):
    newest = max(map(time_of, master))
    for make in (upsert, delete):
        rows = list(make(100, 9, master))

        assert len(rows) == len({id_of(row) for row in rows}) == 100
        assert min(map(time_of, rows)) > newest


@both_tables
def test_earliest_possible_mutation_is_still_newer(master, upsert, delete, id_of, time_of, monkeypatch):
    monkeypatch.setattr(generator, "FEED_SECONDS", 0)
    newest = max(map(time_of, master))

    assert all(time_of(row) > newest for make in (upsert, delete) for row in make(100, 9, master))


@both_tables
def test_seven_upserts_of_ten_are_updates(master, upsert, delete, id_of, time_of):
    known = {id_of(row) for row in master}

    assert sum(id_of(row) in known for row in upsert(100, 9, master)) == 70
    assert sum(id_of(row) in known for row in delete(100, 9, master)) == 100


def test_every_record_is_about_equally_likely():
    chosen = Counter(product_id(row) for seed in range(400) for row in sample.delete(30, seed, PRODUCTS))

    assert len(chosen) == 300
    assert max(chosen.values()) < 70  # 40 are expected


def test_some_sales_move_to_another_store():
    before = {sales_id(row): row.split(b",")[6] for row in SALES}
    updates = [row for row in upsert_sales(300, 1, SALES) if sales_id(row) in before]

    assert 5 < sum(row.split(b",")[6] != before[sales_id(row)] for row in updates) < 50


# (D) fresh IDs


@pytest.mark.thorough(keep=0)
def test_a_hundred_thousand_ids_are_distinct():
    assert len({product_id(row) for row in sample.new(100_000, 1)}) == 100_000
    assert len({sales_id(row) for row in new_sales(100_000, 1)}) == 100_000


@pytest.mark.parametrize("seed", range(5))
def test_ids_repeat_only_after_all_of_them(seed, monkeypatch):
    monkeypatch.setattr(tables, "IDS", 36**2)
    monkeypatch.setattr(tables, "HALF_IDS", 36)

    assert len(set(tables.product_keys(generator.seeded(f"test {seed}")))) == 36**2


def test_inserted_id_is_not_in_the_master():
    inserted = [row for row in sample.upsert(10, 1, PRODUCTS) if row not in PRODUCTS]
    known = {product_id(row) for row in PRODUCTS}
    taken = next(row for row in inserted if product_id(row) not in known)

    again = list(sample.upsert(10, 1, [*PRODUCTS, taken]))

    assert sum(product_id(row) not in known for row in again) == 3
    assert product_id(taken) not in {product_id(row) for row in again if product_id(row) not in known}


def test_upserting_twice_with_one_seed_names_the_cure():
    first = list(sample.upsert(100, 1, PRODUCTS))
    with pytest.raises(ValueError, match="already has the IDs that seed 1 inserts; use another seed"):
        list(sample.upsert(100, 1, chain(PRODUCTS, first)))


# Errors name the cure


@both_tables
def test_more_mutations_than_records(master, upsert, delete, id_of, time_of):
    with pytest.raises(
        ValueError, match=r"has only 300 records, but 301 are to change; ask for fewer rows or give a larger"
    ):
        list(delete(301, 1, chain(master, master)))
    with pytest.raises(ValueError, match=r"has only 0 records, but 7 are to change"):
        list(upsert(10, 1, []))


def test_all_records_can_be_deleted():
    assert len(list(sample.delete(300, 1, PRODUCTS))) == 300


@both_tables
def test_zero_rows_are_allowed(master, upsert, delete, id_of, time_of):
    assert [*upsert(0, 1, []), *delete(0, 1, []), *delete(0, 1, master)] == []


@pytest.mark.parametrize("make", [sample.new, partial(sample.new, op_code_at=4), new_sales])
def test_negative_rows(make):
    with pytest.raises(ValueError, match="-1 rows cannot be made; ask for 0 or more"):
        list(make(-1, 1))


def test_foreign_master_is_named():
    with pytest.raises(ValueError, match="row 2 of the master has 3 fields, not the 6 of ID,category"):
        list(sample.delete(1, 1, [PRODUCTS[0], b"a,b,c"]))


# Op codes


def test_op_code_is_at_its_ordinal():
    plain = list(sample.upsert(50, 1, PRODUCTS))
    coded = [row.split(b",") for row in sample.upsert(50, 1, PRODUCTS, op_code_at=sample.OP_CODE_ORDINAL)]

    assert Counter(fields[4] for fields in coded) == {b"U": 35, b"I": 15}
    assert [b",".join(fields[:4] + fields[5:]) for fields in coded] == plain


def test_op_codes_of_inserts_and_deletes():
    assert {row.split(b",")[0] for row in sample.new(5, 1, op_code_at=0)} == {b"I"}
    assert {row.split(b",")[6] for row in sample.delete(5, 1, PRODUCTS, op_code_at=6)} == {b"D"}
    with pytest.raises(ValueError, match="op code ordinal 7 is outside of the row; use 0 to 6"):
        list(sample.new(5, 1, op_code_at=7))


def test_rows_are_generated_lazily():
    assert len(list(islice(sample.new(10**12, 1), 3))) == 3
    assert len(list(islice(new_sales(10**12, 1), 3))) == 3


# The committed files


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.txt"))
    }  # fmt: skip


def test_readme_code_generates_the_committed_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL)), {})

    assert files_of(tmp_path / "sample_data") == files_of(SAMPLE_DATA)


@pytest.mark.parametrize("name", SAMPLES)
def test_readme_numbers(name):
    master, feed = read_sample(name, *SAMPLES[name])
    final = merge(master, feed)

    touched = {key for key, *_ in feed}
    inserted, deleted = len(final.keys() - master.keys()), len(master.keys() - final.keys())
    updated = sum(final[key] != master[key] for key in final.keys() & master.keys())
    unknown = len(touched - final.keys() - master.keys())
    # The README promises no no-ops and no ties: each touched key is in one of these groups, and no two mutations share
    # an age.
    assert inserted + updated + deleted + unknown == len(touched)
    assert len({(key, order) for key, order, *_ in feed}) == len(feed)
    superseded = len(feed) - len(touched)
    counts = (len(master), len(feed), inserted, updated, deleted, unknown, superseded, len(final))
    assert f"| `{name}` | {' | '.join(map(str, counts))} |" in README


def test_published_product_is_updated():
    master, feed = read_sample("product", *SAMPLES["product"])
    old, new = master[(b"VR8NCNE7DV",)], merge(master, feed)[(b"VR8NCNE7DV",)]

    assert (old.split(b",")[4], new.split(b",")[4]) == (b"88", b"82")
    assert product_time(new) > max(map(product_time, master.values()))


def test_sequence_record_comes_back():
    master, feed = read_sample("product_sequence", *SAMPLES["product_sequence"])
    key = (b"Q5D0MZ2K7X",)
    story = sorted(mutation[1:] for mutation in feed if mutation[0] == key)

    assert [(gone, row.split(b",")[4]) for _, gone, row in story] == [
        (False, b"41"),
        (False, b"37"),
        (True, b"37"),
        (False, b"100"),
    ]
    assert master[key].split(b",")[4] == b"60"
    assert merge(master, feed)[key].split(b",")[4] == b"100"


def test_alphabetical_order_of_the_sequence_files_is_wrong():
    master, feed = read_sample("product_sequence", *SAMPLES["product_sequence"])
    by_name = read_sample("product_sequence", 1, lambda path, row: path.name)[1]

    assert merge(master, by_name).keys() != merge(master, feed).keys()


def test_sequence_files_agree_with_their_timestamps():
    by_name = read_sample("product_sequence", 1, file_sequence)
    by_time = read_sample("product_sequence", 1, lambda path, row: product_time(row))

    assert merge(*by_name) == merge(*by_time)
    assert all(product_time(row) <= sequence for _, sequence, _, row in by_name[1])


def test_sales_that_move_to_another_partition():
    master, feed = read_sample("sales", *SAMPLES["sales"])
    final = merge(master, feed)

    def partition(row):
        return tuple(row.split(b",")[6:8])

    moved = sum(partition(final[key]) != partition(row) for key, row in master.items() if key in final)
    old, new = ({partition(row) for row in rows.values()} for rows in (master, final))
    assert f"{moved} sales change their `store_id`" in README
    assert f"The master has {len(old)} of these partitions, the result {len(new)}." in README
