"""A snapshot that says its time in a field gives what one gives whose time is in the settings."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mutator
from tests.support import local_engine
from tests.support.named_runs import BY_ID, ENGINES, FORMATS, Work

TIMES = {**BY_ID, "temporal.ordering.field.type": "timestamp"}
FULL = {"sync.mode": "full", "snapshot.as.of": "field:taken"}
BY_POSITION = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1"}


def table(rows: str, taken: Any = None) -> Any:
    """Return a table of rows such as ``a1 b2``: the ID, and the day of the order value. taken: of each row, or None."""
    found = {
        "id": [row[0] for row in rows.split()],
        "at": pa.array([date(2026, 1, int(row[1:])) for row in rows.split()]).cast(pa.timestamp("us")),
    }
    if taken is not None:
        found["taken"] = taken if isinstance(taken, pa.Array) else pa.array([taken] * len(found["id"]), pa.date32())
    return pa.table(found)


def rows_of(work: Work, report: Any) -> Any:
    counts = {name: count for name, count in report.counts.items() if count}
    return [(row["id"], row["at"]) for row in work.rows()], work.manifest.commit.floor, counts


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", [*FORMATS, "json"])
def test_in_each_format_a_field_says_what_the_setting_says(file_format: str, engine: str, tmp_path: Path) -> None:
    """In a field that the records lack, in one that they have, and in that of the order itself."""
    stored = "parquet" if file_format == "json" else file_format
    day = date(2026, 1, 9)
    found = []
    for number, (how, of_master, of_feed) in enumerate(
        [
            ({"snapshot.as.of": "2026-01-09"}, None, None),
            ({}, None, day),
            ({}, date(2026, 1, 1), day),
        ]
    ):
        work = Work(tmp_path / str(number), engine, {**TIMES, **FULL, **how})
        work.put("master/m", table("a1 b2 c3 d20", of_master), stored)
        for name, rows in (("feed/one", "a1 e11"), ("feed/two", "c2 f4")):
            feed = table(rows, of_feed)
            lines = "".join(json.dumps(row, default=str) + "\n" for row in feed.to_pylist()).encode()
            work.put(*((f"{name}.jsonl", lines) if file_format == "json" else (name, feed, file_format)))
        report = work.run()
        found.append(rows_of(work, report))
        taken = {str(row["taken"])[:10] for row in work.rows() if "taken" in row and row["id"] != "d"}
        assert taken == ({"2026-01-09"} if of_master else set())
        assert [row["id"] for row in work.rows()] == ["a", "c", "d", "e", "f"]
    assert found[0] == found[1]
    assert found[0][:2] == found[2][:2]  # the time of each record changes, so that none is a no-op


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("more", [{}, {"order.keep": "false"}])
def test_the_order_field_may_be_the_time(more: dict[str, str], engine: str, tmp_path: Path) -> None:
    work = Work(tmp_path, engine, {**TIMES, "allow.empty.master": "true", **more})
    work.put("first/f", table("a1 b2 c20"), "parquet")
    work.run(master="none", feed="first")
    work.put("feed/f", table("a9 d9"), "parquet")
    work.run({**FULL, "snapshot.as.of": "field:at"}, master="out1")
    assert [row["id"] for row in work.rows()] == ["a", "c", "d"]
    assert work.manifest.commit.floor == "2026-01-09T00:00:00Z"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("more", [{}, {"field.delim.regex": "[|]", "field.delim": "|"}])
def test_in_delimited_text_the_field_is_one_of_the_records(more: dict[str, str], engine: str, tmp_path: Path) -> None:
    engine, mark = ("records", "|") if more else (engine, ",")
    work = Work(tmp_path, engine, {**BY_POSITION, "sync.mode": "full", "snapshot.as.of": "field:2", **more})
    work.put("master/m.txt", b"a,1,5\nb,2,5\nc,20,5\n".replace(b",", mark.encode()))
    work.put("feed/f.txt", b"a,1,9\nd,3,+9\n".replace(b",", mark.encode()))
    report = work.run()
    assert work.manifest.commit.floor == "9"
    assert report.counts["master truncated"] == 1
    assert b"".join(path.read_bytes() for path in work.files).replace(mark.encode(), b",") == b"a,1,9\nc,20,5\nd,3,+9\n"


def test_a_path_or_a_table_in_memory_may_say_it(tmp_path: Path) -> None:
    work = Work(tmp_path, settings={**TIMES, **FULL})
    work.put("master/m", table("a1 b2 c20"), "parquet")
    work.put("feed/taken=2026-01-09/f", table("a1"), "parquet")
    work.run()
    assert [row["id"] for row in work.rows()] == ["a", "c"]

    arguments = {"sync_mode": "full", "snapshot_as_of": "field:taken"}
    place = mutator.Table.create(tmp_path / "table", key="id", order_by="at", order_type="timestamp")
    place.apply(table("a1 b2 c20"))
    place.apply(table("a1", date(2026, 1, 9)), max_absence_fraction=1, **arguments)
    assert sorted(row["id"] for row in place.scan().to_pylist()) == ["a", "c"]
    assert place.scan().schema.names == ["id", "at"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", ["csv", "avro", "parquet"])
def test_a_row_with_another_time_or_none_stops_the_run(file_format: str, engine: str, tmp_path: Path) -> None:
    """The union of two snapshots is none: a record that one of them lacks would stay, or go, by chance."""
    work = Work(tmp_path, engine, {**TIMES, **FULL})
    work.put("master/m", table("a1 b2"), file_format)
    days = [None, date(2026, 1, 9), date(2026, 1, 10)]
    for number, first in enumerate(days):  # a row without a time is none that others are compared with
        others = [first, *(day for day in days if day != first)]
        work.put("feed/f", table("a1 b1 c1", pa.array(others, pa.date32())), file_format)
        with pytest.raises(mutator.DataError) as caught:
            work.run()
        wanted = "2026-01-10" if number == 2 else "2026-01-09"
        assert str(caught.value).startswith("2 feed rows cannot be read as records")
        assert f"field taken (time of the snapshot) is not '{wanted}' as in the first row" in str(caught.value)
        assert "set snapshot.as.of to the lowest of its times" in str(caught.value)
        assert not work.output.exists()


@pytest.mark.parametrize(
    ("settings", "rows", "message"),
    [
        ({}, "id,at,taken\n", "snapshot.as.of=field:taken is not possible: no row of the snapshot has a value"),
        ({}, "id,at,taken\na,2026-01-01,\n", "no row of the snapshot has a value in this field"),
        ({}, "id,at,taken\na,2026-01-01,soon\n", "the first row has 'soon', and as an order value of type timestamp"),
        ({}, "id,at\na,2026-01-01\n", "snapshot.as.of.*no input has a field taken"),
        ({"field.names": "id,at"}, "a,2026-01-01\n", "snapshot.as.of.*taken"),
        ({"temporal.ordering.field.ordinal": ""}, "id,taken\na,2026-01-01\n", "set it to sequence"),
        ({"sync.mode": "partial"}, "id,at,taken\n", r"snapshot.as.of: 'field:taken' needs sync.mode = full"),
        ({"snapshot.as.of": "field:"}, "id,at,taken\n", "must be an ordinal counted from 0, or a name"),
    ],
)
def test_what_a_field_cannot_say(settings: dict[str, str], rows: str, message: str, tmp_path: Path) -> None:
    feed = tmp_path / "feed_7.csv"
    feed.write_text(rows)
    given = {**TIMES, **FULL, "allow.empty.master": "true", **settings}
    if not given["temporal.ordering.field.ordinal"]:
        given = {name: value for name, value in given.items() if not name.startswith("temporal")}
    with pytest.raises(mutator.MutatorError, match=message):
        local_engine.mutate(given, master=tmp_path / "master", feed=feed, output=tmp_path / "out")
