"""What is easily read wrong in files of change capture: numbers in text, ties, deletes with the key alone, widths."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.test_flat_dialects import CASES, work_of
from tests.support.named_runs import ENGINES

CASE_OF = {case.dialect: case for case in CASES}
NUMBERS = {
    "ticdc-csv": "ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id,n\nU,t,s,{},1,{}\n",
    "delta-cdf": "_change_type,_commit_version,id,n\nupdate_postimage,{},1,{}\n",
    "iceberg-changelog": "_change_type,_change_ordinal,id,n\nUPDATE_AFTER,{},1,{}\n",
}


@pytest.mark.parametrize("dialect", NUMBERS)
def test_numbers_in_text_are_compared_as_numbers(tmp_path: Path, dialect: str) -> None:
    work = work_of(tmp_path, CASE_OF[dialect])
    header, row = NUMBERS[dialect].splitlines()
    rows = [row.format(number, value) for number, value in ((10, "new"), (9, "old"))]
    work.put("feed/f_1.csv", "\n".join((header, *rows)).encode())
    report = work.run()
    assert work.rows() == [{"id": 1, "n": "new"}, {"id": 9, "n": "z"}]
    assert "tied" not in str(report)


@pytest.mark.parametrize("engine", ENGINES)
def test_another_schema_in_the_middle_of_a_file(tmp_path: Path, engine: str) -> None:
    """Nothing says which column of DMS is new in a row without a header, so a row of another width is a reject."""
    work = work_of(tmp_path, CASE_OF["aws-dms"], engine)
    work.put("feed/20260101-100000001.csv", b"I,1,a\nI,2,b,new\nU,1\nI,3,c\n")
    report = work.run({"field.names": "Op,id,n"})
    assert [one["reason"] for one in report.rejects["feed"]] == [f"has {n} fields and should have 3" for n in (4, 2)]
    assert [row["id"] for row in work.rows()] == [1, 3, 9]


def test_the_time_of_a_commit_ties(tmp_path: Path) -> None:
    """All changes of a transaction have one time: the place in the file decides, and the report says so."""
    work = work_of(tmp_path, CASE_OF["aws-dms"])
    rows = ("I,1,a", "U,1,b", "U,1,c", "I,2,x")
    work.put("feed/20260101-100000001.csv", "\n".join(f"{row},2026-01-01 10:00:00" for row in rows).encode())
    at = {"order_by": "at", "order_type": "timestamp", "order.keep": "false", "null.order": "lowest"}
    report = work.run({"field.names": "Op,id,n,at", **at})
    assert work.rows() == [{"id": 1, "n": "c"}, {"id": 2, "n": "x"}, {"id": 9, "n": "z"}]
    assert "1 tied key" in str(report)


def test_a_delete_with_the_key_alone(tmp_path: Path) -> None:
    """It has no value to be ordered by: it is a reject, and never an oldest row that deletes nothing."""
    work = work_of(tmp_path, CASE_OF["aws-dms"])
    names = {"field.names": "Op,id,n,seq", "order_by": "seq", "order.keep": "false"}
    work.put("feed/20260101-100000001.csv", b"I,1,a,5\nD,1,,\n")
    report = work.run(names)
    assert [one["reason"] for one in report.rejects["feed"]] == ["field seq (order value) is NULL"]
    work.run({"field.names": "Op,id,n,seq"})  # the names of the files order it
    assert [row["id"] for row in work.rows()] == [9]


def test_updates_that_may_hide_a_key(tmp_path: Path) -> None:
    """DMS writes a changed key as one U: the old record stays, and the report counts the updates that may be such."""
    work = work_of(tmp_path, CASE_OF["aws-dms"])
    work.put("feed/20260101-100000001.csv", b"I,1,a\nU,2,a\nU,9,b\nX,9,c\n")
    said = "(U) without the row before: where the key of a record changed, the old record stays"
    report = work.run({"field.names": "Op,id,n"})
    assert [note for note in report.notes if "row before" in note] == [f"2 updates {said}"]
    assert [row["id"] for row in work.rows()] == [1, 2, 9]
    work.put("feed/20260101-100000001.csv", b"I,1,a\nD,1,\n")
    assert not [note for note in work.run({"field.names": "Op,id,n"}).notes if "row before" in note]
