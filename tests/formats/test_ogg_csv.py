"""Delimited text of GoldenGate: the story of the other flat rows, with the fields of a template before the columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.errors import ConfigError, DataError
from mutator.table.table import Table
from tests.formats.test_flat_dialects import HEAD, RESULT, STORY
from tests.support.named_runs import ENGINES, Work

NAMES = "op_type,table,op_ts,current_ts,pos,id,n"  # GoldenGate's default template, and the columns
TEMPLATE = "${optype[op]},${objectname[t]},${timestamp[a]},${currenttimestamp[b]},${position[c]},id,n"
CODES = {"insert": "I", "update": "U", "delete": "D"}


def line(*fields: Any) -> bytes:
    return b"\x01".join(b"NULL" if one is None else str(one).encode() for one in fields) + b"\n"


def rows_of(story: Sequence[Any] = STORY, table: str = "S.T") -> list[bytes]:
    """Return lines whose op_ts is in the wrong order."""
    return [
        line(CODES[what], table, f"2026-01-31 10:00:{59 - at}", "2026-01-31T10:00:00", f"{10**19 + at:020}", key, value)
        for at, (_, what, key, value) in enumerate(story)
        if what in CODES
    ]


def work_of(tmp_path: Path, engine: str = "blocks") -> Work:
    settings = {"key": "id", "feed.dialect": "ogg-csv", "field.names": NAMES, "reject.policy": "quarantine"}
    work = Work(tmp_path, engine, settings)
    work.put("master/m", pa.Table.from_pylist([{"id": 9, "n": "z"}], HEAD), "parquet")
    return work


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("suffix", ["txt", "csv"])
@pytest.mark.parametrize("names", [NAMES, TEMPLATE])
def test_a_story(tmp_path: Path, names: str, suffix: str, engine: str) -> None:
    work = work_of(tmp_path, engine)
    others = [line("I", "S.U", "x"), line("T", "S.U"), line("Z", "R.T", *range(9))]
    rows = [row for number, own in enumerate(rows_of()) for row in (others[number % 3], own)]
    for number in (0, 1):
        work.put(f"feed/f{number}.{suffix}", b"".join(rows[number::2][::-1]))
    report = work.run({"field.names": names, "feed.table": "S.T", "split.bytes": "100"})
    assert not report.rejects
    assert work.rows() == RESULT
    assert work.table().schema.names == HEAD.names
    assert "messages that are no rows: 9 of other tables (6 S.U, 3 R.T)" in " ".join(report.notes)


def test_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = Work(tmp_path)
    table = Table.create(str(tmp_path / "table"), {"key": "id", "feed.dialect": "ogg-csv", "field.names": NAMES})
    for number, half in enumerate((rows_of()[4:], rows_of()[:4])):
        work.put(f"feed{number}/f.txt", b"".join(half))
        table.apply(str(tmp_path / f"feed{number}"))
    found = sorted(table.scan().to_arrow().to_pylist(), key=repr)
    assert [(str(one["id"]), one["n"]) for one in found] == [(str(one["id"]), one["n"]) for one in RESULT]
    assert main(["explain", str(tmp_path / "table"), "3", "--feed", str(tmp_path / "feed0")]) == 0
    assert "delete" in capsys.readouterr().out


def test_a_truncate(tmp_path: Path) -> None:
    """Its row ends before the columns, or has nothing there."""
    work = work_of(tmp_path)
    truncate = line("T", "S.T", "2026-01-31 10:00:00", "2026-01-31T10:00:00", f"{10**19 + 2:020}")
    work.put("feed/f.txt", b"".join((*rows_of()[:2], truncate, *rows_of()[2:5])))
    report = work.run()
    assert (work.rows(), report.counts["feed truncate"]) == ([{"id": 1, "n": "e"}, {"id": 3, "n": "c"}], 1)


def test_other_codes_and_words(tmp_path: Path) -> None:
    """What GoldenGate calls insertOpKey and so on, and its texts for NULL and for values that were not sent."""
    work = work_of(tmp_path)
    settings = {
        "upsert.op.code": "INSERT,UPDATE",
        "deleted.op.code": "DELETE",
        "truncate.op.code": "TRUNCATE",
        "csv.null": "<null>",
        "unset.value": "<missing>",
        "field.delim.regex": "|",
        "field.delim": "|",
        "field.names": "op_type,pos,id,n",
    }
    rows = [
        "INSERT|01|1|a",
        "INSERT|02|2|b",
        "UPDATE|03|1|<null>",
        "UPDATE|04|2|",
        "UPDATE|05|1|<missing>",
        "UPDATE|06|2|<missing>",
        "DELETE|06|9|",
    ]
    work.put("feed/f.txt", "\n".join([*rows, "U|07|1|c"]).encode())
    report = work.run(settings)
    assert work.rows() == [{"id": 1, "n": None}, {"id": 2, "n": ""}]
    assert [one["reason"] for one in report.rejects["feed"]] == [
        "has 'U' in op_type, which is none of DELETE, INSERT, TRUNCATE, UPDATE"
    ]


def test_wrong_rows(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    one = ("S.T", "2026-01-31 10:00:00", "2026-01-31T10:00:00")
    bad = {
        line("D", *one, "04", "", ""): "field id (ID) is NULL",
        line("P", *one, "05", 1, "a"): "has 'P' in op_type, which is none of D, I, T, U",
        line("U", *one, None, 1, "a"): "has no value in pos, which orders the changes",
        line("U", *one, "06", "x", "a"): "field id",
    }
    good = line("I", *one, "01", 1, 'it\'s "a", b'), line("I", *one, "02", 2, ""), line("U", *one, "03", 1, "")
    work.put("feed/f.txt", b"".join((*good, *bad)))
    report = work.run()
    assert [reject["reason"][: len(why)] for reject, why in zip(report.rejects["feed"], bad.values(), strict=True)] == [
        *bad.values()
    ]
    assert work.rows() == [{"id": 1, "n": 'it\'s "a", b'}, {"id": 2, "n": None}, {"id": 9, "n": "z"}]


def test_feeds_that_cannot_be_read(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    work.put("feed/f.txt", b"".join(rows_of()[:1] + rows_of(table="S.U")[:1]))
    with pytest.raises(DataError, match=r"has rows of S\.U, and others are of S\.T; set feed\.table to that of"):
        work.run()
    work.put("feed/f.txt", rows_of()[0])
    with pytest.raises(DataError, match=r"if it has no header, set field\.names to the names of its fields in order"):
        work.run({"field.names": ""})
    with pytest.raises(ConfigError, match=r"ignore\.op\.code: 'X' conflicts with feed\.dialect = ogg-csv"):
        work.run({"ignore.op.code": "X"})
    work.put("feed/f.txt", b'{"op_type": "I", "pos": "1", "id": 1}\n')
    with pytest.raises(DataError, match=r"is JSON Lines, which feed\.dialect=ogg-csv does not read"):
        work.run()
