"""Scans: columns, filters against a plain one, versions and times, and rows of files with earlier schemas."""

from __future__ import annotations

import operator
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator import config
from mutator.dataset.versions.log import TableLog
from mutator.engine.versions import delta_files
from mutator.errors import ConfigError
from mutator.formats.files import parquet
from mutator.formats.values.row_filter import Filter
from mutator.rules.conditions import conditions_of, parse
from mutator.rules.partition_fields import parse_fields
from mutator.table import apply, scan
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.effort import law
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import scratch
from tests.support.versioned import open_runner

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DAY = datetime(2026, 1, 30, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "ts": pa.int64(),
        "store": pa.string(),
        "at": pa.timestamp("ms", "UTC"),
        "price": pa.decimal128(7, 2),
        "rate": pa.float64(),
    }
)


def table_of(path, settings=()):
    return Table.create(str(path), {"key": "id", "order_by": "ts", **NO_LIMITS, **dict(settings)})


def _file(path, rows, schema=None):
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


def _directory(path):
    path.mkdir()
    return path


def put(table, path, rows, schema=None, **settings):
    _file(path, rows, schema)
    table.apply(str(path), open_runner=open_runner, **settings)


def rows_of(batches):
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["id"])


def random_row(rng, number, version):
    return {
        "id": number,
        "ts": version,
        "store": rng.choice(["a", "b", "it's", "", None]),
        "at": rng.choice([None, DAY + timedelta(hours=6 * rng.randrange(9))]),
        "price": rng.choice([None, Decimal(rng.randrange(-300, 900)) / 100]),
        "rate": rng.choice([None, 0.5, -1.0, float("nan")]),
    }


LITERALS = {"id": ["3", "7"], "store": ["a", "it's", ""], "at": [DAY, DAY + timedelta(days=1)], "price": ["1.50", "0"]}
LITERALS["rate"] = ["0.5", "-1"]
TYPES = {"id": int, "price": Decimal, "rate": float}


@given(st.randoms(use_true_random=False))
def test_a_filter_keeps_the_rows_that_a_plain_one_keeps(rng):
    partitions = rng.choice([{}, {"partitioned.by": "store,day=date(at)"}, {"partitioned.by": "store,year(at)"}])
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_GROUP_ROWS", 2)
        patch.setattr(apply, "_INLINE_FEED", rng.choice([0, 1 << 30]))
        patch.setattr(delta_files, "_OWN", rng.choice([1, 1 << 16]))
        patch.setattr(scan, "_IN_MEMORY", rng.choice([1, 1 << 26]))
        table, live = table_of(work / "t", partitions), {}
        for version in (1, 2):
            rows = [random_row(rng, number, version) for number in rng.sample(range(9), 6)]
            live |= {row["id"]: row for row in rows}
            put(table, work / f"{version}.parquet", rows, SCHEMA)
        conditions = []
        for column in rng.sample(sorted(LITERALS), rng.randint(1, 2)):
            word = rng.choice([*OPERATORS, "is null", "is not null"])
            conditions.append((column, word, *([rng.choice(LITERALS[column])] if word in OPERATORS else [])))

        found = rows_of(table.scan(["id", "ts"], conditions))

        text = " and ".join(
            f'"{c}" {word}' + "".join(f" '{quoted(v)}'" for v in value) for c, word, *value in conditions
        )
        assert rows_of(table.scan(["id", "ts"], text)) == found
        wanted = [row for row in live.values() if all(met(row, *condition) for condition in conditions)]
        assert found == rows_of([pa.RecordBatch.from_pylist(wanted, SCHEMA).select(["id", "ts"])])


def quoted(value):
    return value.isoformat() if isinstance(value, datetime) else value.replace("'", "''")


def met(row, column, word, *literal):
    value = row[column]
    if not literal:
        return (value is None) == (word == "is null")
    return value is not None and OPERATORS[word](value, TYPES.get(column, lambda text: text)(*literal))


def test_row_groups_and_partitions_without_wanted_rows_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 2)
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(delta_files, "_OWN", 1)
    table = table_of(tmp_path / "t", {"partitioned.by": "store"})
    rows = [{"id": number, "ts": 1, "store": number % 2, "price": number} for number in range(12)]
    put(table, tmp_path / "a.parquet", rows)
    read, files = [], []
    tables, verified = scan._tables, scan.VerifiedFile
    monkeypatch.setattr(
        scan, "_tables", lambda one, groups, *rest, **more: read.extend(groups) or tables(one, groups, *rest, **more)
    )
    monkeypatch.setattr(scan, "VerifiedFile", lambda path, data: files.append(data.path) or verified(path, data))

    assert [row["id"] for row in rows_of(table.scan(["id"], "store = 1 and price > 8"))] == [9, 11]

    assert len(read) == 2 or len(read) == 1
    assert all("/store=1/" in path for path in files)
    read.clear()
    assert not rows_of(table.scan(["id"], "price > 11"))
    assert not read


def test_the_statistics_of_a_row_group_do_not_know_nan(tmp_path, monkeypatch):
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    table = table_of(tmp_path / "t")
    put(table, tmp_path / "a.parquet", [{"id": n, "ts": 1, "rate": rate} for n, rate in enumerate((5.0, float("nan")))])

    assert [row["id"] for row in rows_of(table.scan(["id"], "rate != 5"))] == [1]


def test_a_filter_on_the_whole_key_reads_only_files_and_row_groups_with_the_key(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 4)
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    settings = {"key": "id,store", "order_by": "ts", "partitioned.by": "store", "key.scope": "table", **NO_LIMITS}
    table = Table.create(str(tmp_path / "t"), settings, buckets=3)
    for version in range(1, 4):
        rows = [{"id": number, "ts": version, "store": number % 2, "v": version} for number in range(version, 64, 3)]
        put(table, tmp_path / f"{version}.parquet", rows)
    read, files = [], []
    tables, verified = scan._tables, scan.VerifiedFile
    monkeypatch.setattr(
        scan, "_tables", lambda one, groups, *rest, **more: read.extend(groups) or tables(one, groups, *rest, **more)
    )
    monkeypatch.setattr(scan, "VerifiedFile", lambda path, data: files.append(data.path) or verified(path, data))

    assert rows_of(table.scan(["id", "v"], "id = 8 and store = 0")) == [{"id": 8, "v": 2}]
    assert len(files) == len(read) == 1
    assert not rows_of(table.scan(["id"], "id = 8 and store = 1"))
    assert not rows_of(table.scan(["id"], "id = 8 and store = 0 and v = 1"))
    files.clear()
    assert [row["v"] for row in rows_of(table.scan(["id", "v"], "id = 8"))] == [2]
    assert len(files) > 1, "half a key says nothing about files"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("pric > 5", ["no column 'pric'", "did you mean price?", "id, ts, price"]),
        ("price > 'x'", ["column price", "'x'", "is not of type int64; write a literal of that type"]),
        ([("price", ">", 5.5)], ["column price", "5.5", "is not of type int64"]),
        ([("price", "=", None)], ["column price", "None, which is no value", "`price is null`"]),
        ([("price", "=", True)], ["column price", "True", "is not of type int64"]),
        ([("price", "like", "x")], ["cannot be read", "like"]),
        ("price > 5 or id = 3", ["cannot be read at 'or id = 3'"]),
        ("id = 3 and price > 'x y", ['cannot be read at "price > \'x y"']),
        ("price = NULL", ["column price", "is no value", "`price is null`"]),
        ("name = null", ["column name", "is no value", "'null' in quotes"]),
        ("price > 5 and", ["its end"]),
        ("name >= 25", ["column name with 25, which is a number, but the column is text: write '25' to"]),
        ("name < 1e5", ["with 1e5, which is a number, but the column is text: write '1e5' to"]),
        ("name < -.5E-3", ["with -.5E-3, which is a number", "write '-.5E-3' to"]),
        ([("name", "=", 25)], ["column name with 25, which is a number, but the column is text: write '25' to"]),
        ("tags = 5", ["column tags", "list<element: int64>", "is null"]),
    ],
)
def test_a_filter_that_cannot_be_meant_is_an_error_that_names_its_part(tmp_path, where, words):
    table = table_of(tmp_path / "t")
    put(table, tmp_path / "a.parquet", [{"id": 1, "ts": 1, "price": 5, "tags": [1], "name": "3"}])

    with pytest.raises(ConfigError) as fault:
        table.scan(where=where)

    assert all(word in str(fault.value) for word in words), str(fault.value)


@pytest.mark.parametrize("read", [{"where": "day = '2026-01-31'"}, {"columns": ["id", "day"]}])
def test_a_partition_that_is_no_column_is_an_error_that_names_the_column(tmp_path, read):
    table = table_of(tmp_path / "t", {"partitioned.by": "day=date(at),shop", "key.scope": "table"})
    put(table, tmp_path / "a.parquet", [{"id": 1, "ts": 1, "at": "2026-01-31T00:00:00Z", "shop": 2}])

    with pytest.raises(ConfigError, match="'day' is a partition of the table and no column; use column at"):
        table.scan(**read)
    assert rows_of(table.scan(["id", "shop"], "shop = 2")) == [{"id": 1, "shop": 2}]


def test_a_decimal_is_compared_with_numbers(tmp_path):
    table = table_of(tmp_path / "t")
    put(table, tmp_path / "a.parquet", [{"id": number, "ts": 1, "price": Decimal(f"{number}.50")} for number in (1, 2)])

    for literal in (2, 1.75, Decimal("1.75"), "1.75"):
        assert rows_of(table.scan(["id"], [("price", ">=", literal)])) == [{"id": 2}]


def test_conditions_have_several_spellings():
    assert parse('a==1 AND "b""c" <> \'x and y\' and d Is  Not Null') == (
        *parse("a = 1"),
        *parse('"b""c" != \'x and y\''),
        *parse("d is not null"),
    )


def test_every_version_and_every_time_has_its_rows(tmp_path):
    table = table_of(tmp_path / "t")
    for version in range(1, 36):
        put(table, tmp_path / f"{version}.parquet", [{"id": version % 3, "ts": version}])
    log = TableLog(table.path)
    times = [log.read(number).committed for number in range(36)]

    for version in (0, 1, 17, 32, 33, 35):
        wanted = sorted((one % 3, one) for one in range(max(version - 2, 1), version + 1))
        for found in (Table(table.path).scan(version=version), table.scan(as_of=times[version])):
            assert [(row["id"], row["ts"]) for row in rows_of(found)] == wanted
    later = datetime.fromisoformat(times[35]) + timedelta(days=1)
    between = datetime.fromisoformat(times[7]) - timedelta(microseconds=1)
    assert table.at(as_of=later).version.number == 35
    assert table.at(as_of=between).version.number == 6
    assert all(one < other for one, other in pairwise(times))
    with pytest.raises(ConfigError, match="version 36 does not exist; the earliest version is 0, and the newest is 35"):
        table.scan(version=36)
    with pytest.raises(ConfigError, match=r"at 2020-01-01T00:00:00.*no version that is left; the earliest is 0, of 20"):
        table.scan(as_of="2020-01-01")
    with pytest.raises(ConfigError, match="'noon' is not a time"):
        table.scan(as_of="noon")
    with pytest.raises(ConfigError, match="version and as_of are both given"):
        table.scan(as_of="noon", version=1)


def test_commit_times_increase_although_the_clock_goes_back(tmp_path, monkeypatch):
    local_engine.mutate(
        {"key": "id", "order_by": "ts", "output.format": "parquet", "allow.empty.master": "true", **NO_LIMITS},
        master=str(_directory(tmp_path / "none")),
        feed=[str(_file(tmp_path / "first.parquet", [{"id": 0, "ts": 0}]))],
        output=str(tmp_path / "master"),
    )
    table = Table.create(str(tmp_path / "t"), {"key": "id", "order_by": "ts"}, dataset=str(tmp_path / "master"))
    now = time.time()
    for version, clock in enumerate((now, now - 86_400, now - 86_400, now + 60, now), 2):
        monkeypatch.setattr(time, "time", lambda clock=clock: clock)
        put(table, tmp_path / f"{version}.parquet", [{"id": version, "ts": version}])

    times = [entry.committed for entry in table.log()]
    assert len(times) == 7
    assert all(one < other for one, other in pairwise(times))
    for version, committed in enumerate(times):
        assert table.at(as_of=committed).version.number == version
        if version:
            earlier = datetime.fromisoformat(committed) - timedelta(microseconds=1)
            assert table.at(as_of=earlier).version.number == version - 1


def test_a_time_before_the_commit_keeps_its_version(tmp_path, monkeypatch):
    table, seen = table_of(tmp_path / "t"), []
    put(table, tmp_path / "0.parquet", [{"id": 0, "ts": 1}])
    placed = apply.placed

    def slow(*arguments):
        done = placed(*arguments)
        time.sleep(0.02)
        seen.append(datetime.now(UTC))
        assert Table(table.path).at(as_of=seen[0]).version.number == 1
        time.sleep(0.02)
        return done

    monkeypatch.setattr(apply, "placed", slow)
    put(table, tmp_path / "1.parquet", [{"id": 1, "ts": 1}])

    assert table.version == 2
    assert table.at(as_of=seen[0]).version.number == 1


def test_a_commit_time_is_that_of_the_end_of_an_apply(tmp_path, monkeypatch):
    table = table_of(tmp_path / "t")
    began = time.time() + 5
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "time", lambda: began + next(clock))
    put(table, tmp_path / "a.parquet", [{"id": 1, "ts": 1}])
    monkeypatch.undo()

    during = datetime.fromtimestamp(began + 0.5, UTC)
    assert table.at(as_of=during).version.number == 0


FORMS = [
    ({"id": pa.int64(), "ts": pa.int64(), "n": pa.int32()}, {}),
    ({"id": pa.int64(), "ts": pa.int64(), "n": pa.int64(), "note": pa.string()}, {"default.note": "new"}),
    ({"id": pa.int64(), "ts": pa.int64(), "n": pa.int64(), "extra": pa.int16()}, {"removed.fields": "note"}),
    ({"id": pa.int64(), "ts": pa.int64(), "n": pa.decimal128(22, 2), "note": pa.string(), "extra": pa.int64()}, {}),
]


@law(50)
@given(st.randoms(use_true_random=False))
def test_rows_of_earlier_schemas_are_those_of_a_chain_of_runs(rng):
    """A field that was left out and comes back is NULL, and a default is that of the version that added the field."""
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_INLINE_FEED", rng.choice([0, 1 << 30]))
        table, master = table_of(work / "t"), work / "master"
        master.mkdir()
        for version, (fields, settings) in enumerate(FORMS, start=1):
            feed = work / f"{version}.parquet"
            ids = rng.sample(range(8), rng.randint(1, 4))
            rows = [{name: "x" if name == "note" else version for name in fields} | {"id": number} for number in ids]
            if version > 1 and rng.random() < 0.5:  # a row that is equal to the present one, with the defaults
                before = rows_of(table.scan())
                present = dict.fromkeys(fields) | ({"note": "new"} if version == 2 else {})
                rows += [
                    present | {name: value for name, value in row.items() if name in fields}
                    for row in before
                    if row["id"] not in ids
                ]
            pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), feed)
            own = {**NO_LIMITS, "key": "id", "order_by": "ts", "output.format": "parquet", **settings}
            report = local_engine.mutate(
                {**own, "allow.empty.master": "true"},
                master=str(master),
                feed=[str(feed)],
                output=str(work / f"o{version}"),
            )
            master = work / f"o{version}"
            counts = table.apply(str(feed), open_runner=open_runner, config=config.parse(own)).counts
            assert {name: counts[name] for name in counts if name.startswith("feed ")} == {
                name: report.counts[name] for name in counts if name.startswith("feed ")
            }
            by_run = pa.concat_tables(pq.read_table(path) for path in master.glob("part-*"))
            by_run = by_run.select(table.schema.names)  # a table keeps the order of its fields
            assert table.schema.equals(by_run.schema)
            assert rows_of(table.scan()) == rows_of(by_run.to_batches())
            present = rows_of(by_run.to_batches())
            assert rows_of(table.scan(where=f"n >= {version - 1}")) == [
                row for row in present if row["n"] >= version - 1
            ]
            assert rows_of(table.scan(where="n < 2")) == [row for row in present if row["n"] < 2]
            for row in rows_of(table.scan()):
                assert table.get(row["id"]) == row


@pytest.mark.parametrize(
    ("by", "where", "names"),
    [
        ("day=date(at)", [("at", "<", "2026-01-31T12:00:00Z")], "30 31 null"),
        ("day=date(at)", [("at", ">=", "2026-01-31T12:00:00Z")], "31 32 null"),
        ("day=date(at)", [("at", "=", "2026-01-31T12:00:00Z")], "31 null"),
        ("day=date(at)", [("at", "!=", "2026-01-31T12:00:00Z"), ("id", "=", "1")], "30 31 32 null"),
        ("day=month(at)", [("at", "<", "2026-01-31T12:00:00Z")], "30 31 32 null"),
    ],
)
def test_only_partitions_are_left_out_that_can_have_no_wanted_row(by, where, names):
    known = {"30": "day=2026-01-30", "31": "day=2026-01-31", "32": "day=2026-02-01"}
    known["null"] = "day=__HIVE_DEFAULT_PARTITION__"

    found = Filter(conditions_of(where), SCHEMA, "t").partitions(parse_fields(by), list(known.values()))

    assert (found or set(known.values())) == {known[name] for name in names.split()}
