"""Order values in seconds and milliseconds since 1970: a run that compares them stops."""

import random
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import mutator
from mutator.errors import DataError
from mutator.rules.order_columns import to_column
from mutator.rules.order_units import OTHER, SMALL, UnitCounter, epoch_unit, joined, units_of
from tests.support.job import CONFIG, ENGINES, Job
from tests.support.named_runs import TYPED, Work

AT = 1427761080
TIMES = {"seconds": AT, "milliseconds": AT * 10**3, "microseconds": AT * 10**6, "nanoseconds": AT * 10**9}


def table(*orders, first=0):
    return pa.table({"id": [f"k{first + n}" for n in range(len(orders))], "at": list(orders)})


@pytest.mark.parametrize("file_format", TYPED)
@pytest.mark.parametrize(("master", "feed"), [("seconds", "milliseconds"), ("microseconds", "seconds")])
def test_files_with_types(tmp_path, file_format, master, feed):
    work = Work(tmp_path)
    work.put("master/m", table(*(TIMES[master] + n for n in range(4))), file_format)
    work.put("feed/f", table(TIMES[feed], TIMES[feed] + 1), file_format)
    with pytest.raises(DataError) as caught:
        work.run()
    assert f"{feed} in 2 rows of the feed, such as {TIMES[feed]}; {master} in 2 rows of the master" in str(caught.value)
    assert "run again with -D order.check=false" in str(caught.value)
    assert work.run({"order.check": "false"}).counts["feed rows"] == 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("suffix", [b"", b".25"])
def test_both_units_in_one_file(tmp_path, engine, suffix):
    job = Job(tmp_path, engine)
    (job.master / "base.txt").write_bytes(b"")
    rows = [b"k%d,1,%d%b\n" % (n, AT * 1000 if n == 777 else AT, suffix) for n in range(1000)]
    job.put("ups_1.txt", b"".join(rows))
    settings = {**CONFIG, "allow.empty.master": "true"}
    if suffix:
        settings["temporal.ordering.field.type"] = "decimal"
    tail = suffix.decode()
    found = (
        f"seconds in 999 rows of the feed, such as {AT}{tail}; milliseconds in 1 row of the feed, such as {AT}000{tail}"
    )
    job.refused(DataError, found, settings=settings)
    job.run({**settings, "order.check": "false"})


@pytest.mark.parametrize("engine", ENGINES)
def test_an_older_row_of_the_same_record(tmp_path, engine):
    job = Job(tmp_path, engine)
    job.put("ups_1.txt", b"a,2,%d\na,3,%d\n" % (AT, AT * 1000))
    job.refused(DataError, "seconds in 1 row of the feed", "milliseconds in 1 row of the feed")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_managed_master(tmp_path, engine):
    job = Job(tmp_path, engine)
    job.put("ups_1.txt", b"a,2,%d\nb,2,%d\n" % (AT, AT))
    job.follow()
    job.add("ups_2.txt", b"a,3,%d\n" % (AT * 1000))
    job.refused(DataError, "milliseconds in 1 row of the feed", "seconds in 1 row of the master that mutations met")


SECONDS = b"".join(b"k%d,s%d,%d\n" % (n, n % 3, AT + n) for n in range(30))


def test_broadcast(tmp_path):
    """The records that mutations meet are in several splits of a master with unique IDs."""
    job = Job(tmp_path, "blocks")
    job.put("base.txt", SECONDS, "master")
    settings = {**CONFIG, "master.unique": "true", "split.bytes": "100"}
    job.put("ups_1.txt", b"k1,s1,%d\nk29,s2,%d\nk99,s2,%d\n" % ((AT * 1000,) * 3))
    found = (
        "milliseconds in 3 rows of the feed",
        "seconds in 2 rows of the master that mutations met, such as 1427761081",
    )
    job.refused(DataError, *found, settings=settings)
    report = job.run({**settings, "order.check": "false"})
    assert (report.join, report.counts["feed updated"]) == ("broadcast", 2)


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_partitioned_master(tmp_path, scope):
    """Records of several partitions, then those of a master that a run wrote; k6 moves to another partition."""
    job = Job(tmp_path, "blocks")
    job.put("base.txt", SECONDS, "master")
    settings = {**CONFIG, "partitioned.by": "shop=1", "key.scope": scope, "num.reducer": "2"}
    feed = b"k4,s1,%d\nk5,s2,%d\nk6,s1,%d\n" % ((AT * 1000,) * 3)
    met = f"seconds in {3 if scope == 'table' else 2} rows of the master that mutations met, such as 1427761084"
    job.put("ups_1.txt", feed)
    job.refused(DataError, "milliseconds in 3 rows of the feed", met, settings=settings)
    job.put("ups_1.txt", b"k1,s1,%d\n" % (AT + 99))
    job.follow(settings)
    job.add("ups_2.txt", feed)
    job.refused(DataError, "milliseconds in 3 rows of the feed", met, settings=settings)
    job.run({**settings, "order.check": "false"})


def test_records_that_move_alone(tmp_path):
    """Their order values count, too, although no partition has both the record and the mutation."""
    job = Job(tmp_path, "blocks")
    job.put("base.txt", SECONDS, "master")
    settings = {**CONFIG, "partitioned.by": "shop=1", "key.scope": "table", "num.reducer": "2"}
    job.put("ups_1.txt", b"k1,s1,%d\n" % (AT + 99))
    job.follow(settings)
    job.add("ups_2.txt", b"k6,s1,%d\n" % (AT * 1000))
    met = f"seconds in 1 row of the master that mutations met, such as {AT + 6}"
    job.refused(DataError, "milliseconds in 1 row of the feed", met, settings=settings)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_truncate(tmp_path, engine):
    """One in a shorter unit deletes all records, and makes all later rows late."""
    job = Job(tmp_path, engine)
    job.put("base.txt", b"".join(b"k%d,s1,%d\n" % (n, AT + n) for n in range(5)), "master")
    job.put("ups_1.txt", b",,%d,T\n" % (AT * 1000))
    settings = {**CONFIG, "op.code.field.ordinal": "3", "truncate.op.code": "T", "max.delete.fraction": "1"}

    job.refused(DataError, "milliseconds in 1 row of the feed", "seconds in 5 rows of the master", settings=settings)
    settings["order.check"] = "false"
    job.refused(DataError, "the order values are above order.max", settings={**settings, "order.max": str(AT)})
    assert job.run(settings).counts["master truncated"] == 5


def test_tables_in_memory():
    with pytest.raises(DataError, match=r"milliseconds in 1 row of the feed, such as 1427761080000; seconds in 1 row"):
        mutator.merge(master=table(AT, AT), feed=table(AT * 1000), key="id", order_by="at")
    found = mutator.merge(
        master=table(AT, AT), feed=table(AT * 1000), key="id", order_by="at", order_check=False, runner="local"
    )
    assert found.counts["feed updated"] == 1


def days(first, last, unit):
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (first, last))
    return [second * unit for second in range(start, end, 30 * 86_400)]


@pytest.mark.thorough(keep=10)
@pytest.mark.parametrize(
    ("master", "feed"),
    [
        ([0, 0, -1], [AT * 1000]),  # an initial load
        (days(1980, 2100, 1), days(1980, 2100, 1)),
        (days(1980, 2100, 1000), days(1980, 2100, 1000)),
        (days(1970, 2030, 1000), days(1970, 2030, 1000)),
        (days(1950, 2030, 10**6), days(1970, 2030, 10**6)),
        (list(range(1, 200)), list(range(290_000, 310_000, 100))),
        ([AT + n for n in range(100)], [10**k for k in range(19)]),  # numbers of all sizes
        ([20150331] * 3, [20160331] * 3),
        ([None, AT], [AT]),
    ],
)
@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(38, 0)])
def test_numbers_that_are_plausible(tmp_path, master, feed, kind):
    work = Work(tmp_path)
    columns = [pa.array([None if n is None else Decimal(n) for n in numbers]).cast(kind) for numbers in (master, feed)]
    for path, column in zip(("master/m", "feed/f"), columns, strict=True):
        work.put(path, pa.table({"id": [f"k{n}" for n in range(len(column))], "at": column}), "parquet")
    settings = {} if kind == pa.int64() else {"temporal.ordering.field.type": "decimal"}
    work.run({"null.order": "lowest", "max.duplicate.fraction": "1", **settings})


def units_of_each(values):
    """Return the units of some values, one after the other."""
    return joined({SMALL if n < 300_000 else epoch_unit(n) or OTHER: (1, n)} for n in values)


@pytest.mark.parametrize("order_type", ["long", "decimal"])
def test_units_of_a_column_are_those_of_its_values(order_type):
    convert = int if order_type == "long" else Decimal
    numbers = [convert(n) for at in TIMES.values() for n in (at, at + 1, at * 4)]
    numbers += [convert(n) for n in (-5, 0, 299_999, 300_000, 5 * 10**9)]
    for start in range(len(numbers)):
        values = numbers[start:]
        found, expected = units_of(order_type, to_column(order_type, values)), units_of_each(values)
        assert {unit: count for unit, (count, _) in found.items()} == {unit: one[0] for unit, one in expected.items()}
        assert [found[unit] for unit in found if unit in TIMES] == [expected[unit] for unit in found if unit in TIMES]


@pytest.mark.parametrize("convert", [int, Decimal])
@pytest.mark.parametrize("several", [True, False])
def test_units_of_values_one_at_a_time(convert, several):
    """They are counted together, some thousand at a time."""
    chance = random.Random(7)
    steps = [0, 299_999, 300_000, 5 * 10**9, *TIMES.values()] if several else [AT]
    values = [convert(chance.choice(steps) + chance.randrange(-9, 9)) for _ in range(10_000)]
    counter = UnitCounter()
    for number, value in enumerate(values, 1):
        counter.add(value)
        if number in (1, 4095, 4096, 4097, 10_000):
            assert counter.units() == units_of_each(values[:number])


def test_units_of_values_without_numbers():
    counter = UnitCounter()
    for value in (b"1", b"2"):
        counter.add(value)
    assert counter.units() == {}
    assert UnitCounter().units() == {}


def test_units_of_rows_without_order_values():
    assert list(units_of("long", to_column("long", [-(2**63)]))) == [SMALL]
    assert list(units_of("decimal", to_column("decimal", [Decimal("-Infinity")]))) == [SMALL]
    assert units_of("timestamp", to_column("timestamp", [(1, b"")])) == {}
