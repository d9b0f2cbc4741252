"""The record of a key, its versions, and what log and describe say."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.cli import main
from mutator.engine.versions import delta_files
from mutator.errors import ConfigError
from mutator.formats.files import parquet
from mutator.table import apply
from mutator.table.table import Table
from tests.support.effort import law
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import scratch
from tests.support.versioned import open_runner

SCOPES = [{}, {"partitioned.by": "shop", "key.scope": "table"}, {"partitioned.by": "shop", "key.scope": "partition"}]
DAY = date(2026, 1, 31)


def table_of(path, **settings):
    return Table.create(str(path), {"key": "id", "order_by": "ts", "op": "op", **NO_LIMITS, **settings}, buckets=2)


def put(table, path, rows, schema=None):
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return table.apply(str(path), open_runner=open_runner)


@law(50)
@given(st.randoms(use_true_random=False), st.sampled_from(SCOPES))
def test_each_version_of_each_record_is_found(rng, scope):
    """Against a dict of the rows by version; deletes are in the history, too."""
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_GROUP_ROWS", 2)
        patch.setattr(apply, "_INLINE_FEED", rng.choice([0, 1 << 30]))
        patch.setattr(delta_files, "_OWN", rng.choice([1, 1 << 16]))
        table, live, known = table_of(work / "t", **scope), [{}], {}
        apart = scope.get("key.scope") == "partition"
        for version in range(1, 4):
            rows = [
                {"id": number, "ts": version, "shop": rng.choice([1, 2]), "op": rng.choice("UUD")}
                for number in rng.sample(range(6), 3)
            ]
            put(table, work / f"{version}.parquet", rows)
            live.append(dict(live[-1]))
            for row in rows:
                stored = {name: value for name, value in row.items() if name != "op"}
                key = (row["id"], row["shop"]) if apart else row["id"]
                live[-1].pop(key, None)
                known.setdefault(row["id"], []).append(
                    (version, row["op"] == "D", None if row["op"] == "D" else stored)
                )
                if row["op"] == "U":
                    live[-1][key] = stored
        for version, rows in rng.sample(list(enumerate(live)), 2):
            for number in rng.sample(range(6), 3):
                if apart:
                    wanted = [rows[number, shop] for shop in (1, 2) if (number, shop) in rows]
                    assert sorted(table.get(number, version=version), key=str) == sorted(wanted, key=str)
                    partitions = {f"shop={shop}" for shop in (1, 2)} & set(table.at(version).partitions)
                    for name in partitions:
                        assert table.get(number, version=version, partition=name) == rows.get((number, int(name[-1])))
                else:
                    assert table.get(str(number), version=version) == rows.get(number)
        for number in rng.sample(range(6), 2):
            found = [
                (one.version, one.deleted, None if one.record is None else one.record.to_pylist()[0])
                for one in table.history(number)
            ]
            assert found == known.get(number, [])


def test_a_key_is_typed_as_its_fields_are(tmp_path):
    fields = {"id": pa.decimal128(5, 1), "day": pa.date32(), "at": pa.timestamp("ms", "UTC"), "name": pa.string()}
    table = table_of(tmp_path / "t", key="id,day,at,name", op="")
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    row = {"id": Decimal("1.5"), "day": DAY, "at": at, "name": "a, b", "ts": 1}
    put(table, tmp_path / "a.parquet", [row], pa.schema({**fields, "ts": pa.int64()}))

    keys = [
        (Decimal("1.5"), DAY, at, "a, b"),
        ["1.50", "2026-01-31", "2026-01-31T13:00:00+01:00", "a, b"],
        '1.5,2026-01-31,2026-01-31T12:00:00Z,"a, b"',
    ]
    assert [table.get(key) for key in keys] == [row] * 3
    assert table.get((Decimal("1.6"), DAY, at, "a, b")) is None
    with pytest.raises(ConfigError, match="has 2 values, and the key of the table has 4: id, day, at, name"):
        table.get(("1.5", DAY))
    with pytest.raises(
        ConfigError,
        match=r"'January' cannot be a value of key field day: it is not of type date32.*; give a value of type date32",
    ):
        table.get(("1.5", "January", at, "x"))
    with pytest.raises(ConfigError, match=r"1\.55.* cannot be a value of key field id"):
        table.get((1.55, DAY, at, "x"))


def test_whole_numbers_of_64_bits_are_values_of_keys_and_filters(tmp_path):
    table, numbers = table_of(tmp_path / "t", op=""), [1, 2**63, 2**64 - 1]
    put(
        table,
        tmp_path / "a.parquet",
        [{"id": one, "ts": 1} for one in numbers],
        pa.schema({"id": pa.uint64(), "ts": pa.int64()}),
    )

    assert [table.get(one)["id"] for one in numbers] == numbers
    assert [row["id"] for row in table.scan(["id"], [("id", ">", 2**63)]).to_pylist()] == [2**64 - 1]
    with pytest.raises(ConfigError, match="18446744073709551616 cannot be a value of key field id"):
        table.get(2**64)


def test_a_table_without_rows_has_no_record(tmp_path):
    table = table_of(tmp_path / "t")

    assert table.get(1) is None
    assert table.history(1) == []
    assert list(table.scan()) == []


@pytest.fixture
def sales(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = table_of(tmp_path / "sales", **SCOPES[2])
    put(table, "1.parquet", [{"id": number, "ts": 1, "shop": number % 2, "op": "I"} for number in range(6)])
    put(table, "2.parquet", [{"id": 1, "ts": 2, "shop": 1, "op": "D"}, {"id": 1, "ts": 2, "shop": 0, "op": "I"}])
    return table


def printed(capsys, words, code=0):
    capsys.readouterr()
    assert main(words.split()) == code
    return capsys.readouterr().out


def test_records_are_printed(sales, capsys):
    assert printed(capsys, "table get sales 1") == "  id    1\n  ts    2\n  shop  0\n"
    assert json.loads(printed(capsys, "table get sales 1 --json")) == [{"id": 1, "ts": 2, "shop": 0}]
    assert printed(capsys, "table get sales 1 --partition shop=1", 3) == "no such record\n"
    assert printed(capsys, "table get sales 1 --version 1") == "  id    1\n  ts    1\n  shop  1\n"
    lines = printed(capsys, "table get sales 1 --all --partition shop=1").splitlines()
    assert [line.split(", ")[0].strip() for line in lines] == [
        "version 1",
        "id    1",
        "ts    1",
        "shop  1",
        "version 2",
    ]
    assert lines[0].endswith("in shop=1")
    assert lines[-1].endswith("in shop=1: deleted")
    found = json.loads(printed(capsys, "table get sales 1 --all --json"))
    assert [(one["version"], one["deleted"], one["partition"]) for one in found] == [
        (1, False, "shop=1"),
        (2, False, "shop=0"),
        (2, True, "shop=1"),
    ]
    assert main(["table", "get", "sales", "1", "--partition", "shop=9"]) == 2
    assert "has no partition shop=9; name one that it has, such as shop=" in capsys.readouterr().err


def test_the_log_has_counts_that_add_up(sales, capsys):
    entries = json.loads(printed(capsys, "table log sales --json"))

    assert [(one["version"], one["kind"], one["records"]) for one in entries] == [
        (0, "create", 0),
        (1, "apply", 6),
        (2, "apply", 6),
    ]
    for before, one in pairwise(entries):
        counts = one["counts"]
        outcomes = sum(count for name, count in counts.items() if name.startswith("feed ") and name != "feed rows")
        assert outcomes - counts["feed ignored"] == counts["feed rows"]
        added = counts["feed inserted"] + counts["feed updated"]
        assert before["records"] - one["rows_hidden"] + added == one["records"]
        assert one["files_added"] > 0
        assert one["bytes"] > 0
    lines = printed(capsys, "table log sales").splitlines()
    own = ["records", "hidden", "files", "bytes", "seconds"]
    assert re.split("  +", lines[0]) == ["version", "kind", "committed", "feed files", "inserted", "deleted", *own]
    assert lines[3].split()[3:8] == ["1", "1", "1", "6", "1"]


def test_describe_has_what_the_files_have(sales, capsys):
    found = json.loads(printed(capsys, "table describe sales --json"))

    files = list(sales.snapshot.of_role("data"))
    assert found["data_files"] == len(files)
    assert found["hidden_rows"] == 1 == sum(file.rows for file in files) - found["records"]
    assert (found["key"], found["key_scope"], found["order"]) == (["id"], "partition", "ts")
    assert (found["partitioned_by"], found["partitions"], found["buckets"]) == ("shop", 2, 2)
    assert found["columns"] == {"id": "int64", "ts": "int64", "shop": "int64"}
    assert (found["version"], found["earliest_version"], found["checkpoint"]) == (2, 0, 0)
    assert found["tombstones"] == 1
    assert found["key_bytes"] == sum(
        one.index.bytes for role in ("data", "tombstones") for one in sales.snapshot.of_role(role)
    )
    text = printed(capsys, "table describe sales")
    assert "  key              id; unique in the partition\n" in text
    assert "  partitions       shop (2)\n" in text


def test_rows_are_printed_as_every_format(sales, capsys):
    assert printed(capsys, "table scan sales --columns ts,id --where id>3 --limit 1").splitlines()[0] == "ts,id"
    rows = printed(capsys, "table scan sales --where id=1 --format json").splitlines()
    assert [json.loads(row) for row in rows] == [{"id": 1, "ts": 2, "shop": 0}]
    assert len(printed(capsys, "table scan sales --limit 4").splitlines()) == 5
    assert len(printed(capsys, "table scan sales --version 0").splitlines()) == 1
    assert printed(capsys, "table scan sales --format parquet -o out") == "wrote 6 rows to out\n"
    assert printed(capsys, "table scan sales -o out.PARQUET") == "wrote 6 rows to out.PARQUET\n"
    assert pq.read_table("out").num_rows == pq.read_table("out.PARQUET").num_rows == 6
    assert printed(capsys, "table scan sales --format csv -o csv.parquet") == "wrote 6 rows to csv.parquet\n"
    assert len(Path("csv.parquet").read_text().splitlines()) == 7
    assert printed(capsys, "table scan sales -o out.jsonl") == "wrote 6 rows to out.jsonl\n"
    assert len([json.loads(row) for row in Path("out.jsonl").read_text().splitlines()]) == 6
