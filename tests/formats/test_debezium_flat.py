"""Flattened rows of Debezium, in the formats that sinks write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.errors import DataError
from tests.formats.test_debezium_json import UNSENT, lines
from tests.support.named_runs import ENGINES, Work
from tests.support.no_limits import NO_LIMITS

FLAT = {"key": "id", "feed.dialect": "debezium-flat", "reject.policy": "quarantine", "order_by": "__lsn"}
ROWS = [
    {"id": 1, "n": "a", "__note": "x", "__op": "r", "__deleted": "false", "__lsn": 1, "__source_ts_ms": 5},
    {"id": 2, "n": "b", "__note": "x", "__op": "c", "__deleted": "false", "__lsn": 2, "__source_ts_ms": 5},
    {"id": 1, "n": "c", "__note": None, "__op": "u", "__deleted": "false", "__lsn": 3, "__source_ts_ms": 5},
    {"id": 2, "n": "", "__note": None, "__op": "d", "__deleted": "true", "__lsn": 4, "__source_ts_ms": 5},
    {"id": 1, "n": UNSENT, "__note": "y", "__op": "u", "__deleted": "false", "__lsn": 5, "__source_ts_ms": 5},
    {"id": 3, "n": UNSENT, "__note": None, "__op": "c", "__deleted": "false", "__lsn": 5, "__source_ts_ms": 5},
    {"id": 3, "n": "", "__note": None, "__op": "X", "__deleted": "false", "__lsn": 6, "__source_ts_ms": 5},
]
HEAD = pa.schema([("id", pa.int64()), ("n", pa.string()), ("__note", pa.string())])
WRONG = ["field n is not sent with a new key", "has the __op 'X', which is none of c, r, u, d, t and m"]


def put(work: Work, rows: list[dict[str, Any]], form: str, name: str = "feed/f_1") -> None:
    if form == "json":
        work.put(f"{name}.json", lines(*rows, None))
    elif form == "schema":
        fields = [{"field": one, "type": "int64" if isinstance(rows[0][one], int) else "string"} for one in rows[0]]
        work.put(
            f"{name}.json", lines(*({"schema": {"type": "struct", "fields": fields}, "payload": row} for row in rows))
        )
    else:
        work.put(name, pa.Table.from_pylist(rows), form)


@pytest.mark.thorough(keep=9)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["json", "schema", "csv", "parquet", "avro", "orc"])
@pytest.mark.parametrize("without", ["", "__op", "__deleted"])
def test_flattened_rows(tmp_path: Path, form: str, engine: str, without: str) -> None:
    work = Work(tmp_path, engine, {**FLAT, "moved.unset": "reject"})
    work.put("master/m", HEAD.empty_table(), "parquet")
    rows = [{name: value for name, value in row.items() if name != without} for row in ROWS]
    put(work, rows[:-2] if without == "__op" else rows, form)
    report = work.run()

    assert work.table().schema.names == HEAD.names
    assert work.rows() == [{"id": 1, "n": "c", "__note": "y"}]
    wrong = [] if without == "__op" else WRONG
    assert [one["reason"][: len(why)] for one, why in zip(report.rejects.get("feed", ()), wrong, strict=True)] == wrong
    assert ("messages that are no rows: 1 tombstone" in report.notes) == (form == "json")


DELETED, KEPT, UNKNOWN = (
    ["true", "TRUE", "1"],
    ["false", "FALSE", "0", "NULL", "", None],
    ["yes", "t", "true ", "maybe"],
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", [{}, {"__op": "u"}])
def test_what_a_flag_says(tmp_path: Path, op: dict[str, str], engine: str) -> None:
    """An unknown word is neither: merged as an upsert, a delete would be lost."""
    work = Work(tmp_path, engine, FLAT)
    work.put("master/m", HEAD.empty_table(), "parquet")
    flags = [*DELETED, *KEPT[: None if op else -1], *UNKNOWN]
    base = [{"id": number, "n": "old", "__deleted": "false", "__lsn": 1, **op} for number in range(len(flags))]
    put(work, base, "json", "feed/f_0")
    put(work, [{**row, "n": "new", "__deleted": one, "__lsn": 2} for row, one in zip(base, flags, strict=True)], "json")
    report = work.run(NO_LIMITS)
    kept = ["old" if one in UNKNOWN else "new" for one in flags if one not in DELETED]
    assert sorted((row["id"], row["n"]) for row in work.rows()) == [*enumerate(kept, len(DELETED))]
    wrong = [f"has the __deleted '{one}', which is neither true nor false" for one in UNKNOWN]
    assert [one["reason"] for one in report.rejects["feed"]] == wrong


def test_rows_that_say_no_delete(tmp_path: Path) -> None:
    work = Work(tmp_path, settings=FLAT)
    work.put("master/m", HEAD.empty_table(), "parquet")
    put(work, [{"id": 1, "n": "a", "__lsn": 1}], "json")
    with pytest.raises(DataError, match="has neither a field __op nor a field __deleted, which say what"):
        work.run()


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_rows_of_two_tables(tmp_path: Path, form: str) -> None:
    work = Work(tmp_path, settings=FLAT)
    work.put("master/m", HEAD.empty_table(), "parquet")
    put(work, [{**row, "__schema": "s", "__table": table} for row, table in zip(ROWS[:2], "tu", strict=True)], form)
    with pytest.raises(DataError, match=r"has rows of s\.u, and others are of s\.t; set feed\.table"):
        work.run()
    work.run({"feed.table": "s.u"})
    assert [row["id"] for row in work.rows()] == [2]


def test_a_list_of_the_placeholder(tmp_path: Path) -> None:
    work = Work(tmp_path, settings=FLAT)
    (tmp_path / "master").mkdir()
    values = [["a"], [], None, [UNSENT]]
    rows = [{"id": number % 3, "n": value, "__op": "u", "__lsn": number} for number, value in enumerate(values)]
    put(work, rows, "parquet")
    work.run({"allow.empty.master": "true"})
    assert [row["n"] for row in work.rows()] == [["a"], [], None]
