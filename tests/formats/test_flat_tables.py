"""Flat rows of several tables in one feed: those of one are taken, and others may have more or fewer fields."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutator
from mutator.cli import main
from mutator.errors import ConfigError, DataError
from mutator.table.table import Table
from mutator.workflow import many_tables
from tests.formats.test_flat_dialects import CASES, RESULT, STORY, Case, work_of
from tests.support.many_tables import no_spark
from tests.support.named_runs import ENGINES, Work
from tests.support.no_limits import NO_LIMITS

CASE_OF = {case.dialect: case for case in CASES}
META = {
    "aws-dms": ("Op", "dms-table", "dms-schema"),
    "ticdc-csv": tuple(f"ticdc-meta${name}" for name in ("operation", "table", "schema", "commit-ts")),
}
MORE = {"feed ignored", "feed no mutations"}  # counts of the rows of other tables
OTHERS = ["I,u,s,1", "D,t,r,4,5,6,7,8,9,10", 'U,u,s,"a, b",,,,"\n"', "Z,u,s,1,2"]  # rows of s.u and r.t


def names_of(dialect: str) -> str:
    return ",".join((*META[dialect], "id", "n"))


def rows_of(case: Case) -> list[str]:
    """Return the story as lines without a header: what a row does, its table, and its columns."""
    found = []
    for one in case.rows(STORY):
        values = [one[case.field], "t", "s", *([one["ticdc-meta$commit-ts"]] if case.dialect == "ticdc-csv" else [])]
        found.append(",".join(map(str, (*values, one["id"], one["n"] or ""))))
    return found


def put(work: Work, case: Case) -> None:
    """Write the story with rows of other tables between its own, and with the borders of transactions from DMS."""
    marks = ["B,7,1,2026-01-31 10:00:00", "C,7,1,2026-01-31 10:00:00"] if case.dialect == "aws-dms" else [""]
    between = [*OTHERS, *marks]
    mixed = [line for number, own in enumerate(rows_of(case)) for line in (between[number % len(between)], own)]
    half = len(mixed) // 2
    for number, lines in enumerate((mixed[:half], mixed[half:]), 1):
        work.put(f"feed/{case.name.format(number)}.csv", "\n".join(lines).encode() + b"\n")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dialect", META)
def test_rows_of_one_table(tmp_path: Path, dialect: str, engine: str) -> None:
    """The rows and the counts are those of a feed without the rows of other tables."""
    case = CASE_OF[dialect]
    alone, mixed = (work_of(tmp_path / name, case, engine) for name in ("alone", "mixed"))
    for number in (1, 2):
        lines = (
            rows_of(case)[number - 1 :: 2] if dialect == "ticdc-csv" else rows_of(case)[4 * number - 4 :][: 4 * number]
        )
        alone.put(f"feed/{case.name.format(number)}.csv", "\n".join(lines).encode())
    put(mixed, case)
    settings = {"field.names": names_of(dialect), "feed.table": "s.t", "split.bytes": "40"}
    reports = [work.run(settings) for work in (alone, mixed)]
    assert alone.rows() == mixed.rows() == RESULT
    counts = [{name: n for name, n in one.counts.items() if name not in MORE} for one in reports]
    assert counts[0] == counts[1]
    assert not reports[1].rejects
    own = len(rows_of(case))
    marks = {"aws-dms": "2 transaction, ", "ticdc-csv": ""}[dialect]
    others = {"aws-dms": own - 2, "ticdc-csv": own - own // 5}[dialect]
    assert f"messages that are no rows: {marks}{others} of other tables (" in " ".join(reports[1].notes)


@pytest.mark.parametrize("dialect", META)
def test_bases_that_share_a_directory(tmp_path: Path, dialect: str) -> None:
    """Each base names the columns of its own table, and the rows of the others have other widths."""
    case = CASE_OF[dialect]
    work = work_of(tmp_path, case)
    put(work, case)
    base = '[tables.{0}]\nbase = "{0}"\nfeed = "feed"\nsettings.field.names = "{1}"\nsettings.feed.table = "s.{0}"\n'
    names = {"t": names_of(dialect), "u": ",".join((*META[dialect], "id"))}
    file = tmp_path / "tables.toml"
    file.write_text('run.other-tables = "stop"\n' + "".join(base.format(*one) for one in names.items()))
    for name in names:
        (tmp_path / name / "incr").mkdir(parents=True)
    given = {**work.settings, **NO_LIMITS, "allow.empty.master": "true", "claim.min.age": "0s"}
    settings = [f"{name}={value}" for name, value in given.items()]
    stopped = many_tables.run(many_tables.load(file, settings), no_spark)
    assert {one.kind for one in stopped.results} == {"op.tables"}
    done = many_tables.run(many_tables.load(file, [*settings, "feed.other.tables=r.t"]), no_spark)
    assert (done.exit_code, done.other_tables.keys()) == (0, {"r.t"})
    counts = {one.table: one.counts for one in done.results}
    assert {name: count["feed rows"] for name, count in counts.items()} == {"t": len(rows_of(case)), "u": 5}
    assert (counts["t"]["output rows"], counts["t"]["feed rejected"]) == (2, 0)


@pytest.mark.parametrize("dialect", META)
def test_two_tables_without_a_choice(tmp_path: Path, dialect: str) -> None:
    case = CASE_OF[dialect]
    work = work_of(tmp_path, case)
    work.put(f"feed/{case.name.format(1)}.csv", "\n".join((rows_of(case)[0], OTHERS[0])).encode())
    with pytest.raises(DataError, match=r"has rows of s\.u, and others are of s\.t; set feed\.table to that of the"):
        work.run({"field.names": names_of(dialect)})
    work.put(f"feed/{case.name.format(1)}.csv", rows_of(case)[0].encode())
    work.put(f"feed/{case.name.format(2)}.csv", OTHERS[0].encode())
    with pytest.raises(DataError, match=r"has rows of s\.u, and others are of s\.t, as in .*; set feed\.table to that"):
        work.run({"field.names": names_of(dialect)})


def test_a_table_takes_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = CASE_OF["aws-dms"]
    work = Work(tmp_path)
    put(work, case)
    table = Table.create(
        str(tmp_path / "table"),
        {"key": "id", "feed.dialect": "aws-dms", "feed.table": "s.t", "field.names": names_of("aws-dms")},
    )
    table.apply(str(tmp_path / "feed"))
    found = sorted(table.scan().to_arrow().to_pylist(), key=repr)
    assert [(str(one["id"]), one["n"]) for one in found] == [(str(one["id"]), one["n"]) for one in RESULT]
    assert main(["explain", str(tmp_path / "table"), "3", "--feed", str(tmp_path / "feed")]) == 0
    assert capsys.readouterr().out.count("    upsert, ") == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_wrong_rows_of_a_table(tmp_path: Path, engine: str) -> None:
    """A cut row whose table is not known is no row of another one."""
    work = work_of(tmp_path, CASE_OF["aws-dms"], engine)
    bad = {
        "I,t,s,3": "has 4 fields and should have 5",
        "I,t,s,3,c,d": "has 6 fields and should have 5",
        "X,t,s,4,r": "has 'X' in Op, which is none of I, U, D",
        ",t,s,4,r": "has no value in Op, which says what the row does",
        "I,u": "has no value in dms-schema and dms-table, so its table is not known",
        "I": "has no value in dms-schema and dms-table, so its table is not known",
    }
    lines = ["B|1|s|x", "I,t,s,1,a", *bad, "C|2", "I,u,s,1"]
    work.put("feed/20260101-100000001.csv", "\n".join(lines).encode())
    report = work.run({"field.names": names_of("aws-dms"), "feed.table": "s.t"})
    assert [one["reason"] for one in mutator.Rejects(path=report.rejected_file).to_pylist()] == [*bad.values()]
    assert [row["id"] for row in work.rows()] == [1, 9]
    assert "messages that are no rows: 2 transaction, 1 of other tables (1 s.u)" in report.notes


@pytest.mark.parametrize("rows", [b"I,t,s,1,a\nI,u,s,1\n", b"B|1|s|x\nI,t,s,1,a\nC|1\n"])
def test_several_tables_that_no_setting_says(tmp_path: Path, rows: bytes) -> None:
    work = work_of(tmp_path, CASE_OF["aws-dms"])
    work.put("feed/20260101-100000001.csv", rows)
    cure = r"begin field\.names with Op,dms-table,dms-schema, and set feed\.table to that of the master"
    with pytest.raises((ConfigError, DataError), match=rf"several tables, as with PreserveTransactions, {cure}"):
        work.run({"field.names": "Op,a,b,id,n", "reject.policy": "fail"})


def test_the_time_of_a_commit_before_the_columns(tmp_path: Path) -> None:
    """With TimestampColumnName, the time is at the fourth place; and fields may have another delimiter."""
    work = work_of(tmp_path, CASE_OF["aws-dms"])
    work.put("feed/20260101-100000001.csv", b"B|1|s|x\nI|t|s|2026-01-01 10:00:00.000001|1|a,b\nI|u|s|x\nC|1|s|x\n")
    names = "Op,dms-table,dms-schema,at,id,n"
    work.run({"field.names": names, "feed.table": "s.t", "field.delim.regex": "|", "field.delim": "|"})
    assert [{"id": row["id"], "n": row["n"]} for row in work.rows()] == [{"id": 1, "n": "a,b"}, {"id": 9, "n": "z"}]


def test_a_master_of_other_fields(tmp_path: Path) -> None:
    """The names are those of the feed; a master of CSV has a header of its own, or is refused before it is read."""
    work = Work(tmp_path, settings={"key": "id", "feed.dialect": "aws-dms", "field.names": names_of("aws-dms")})
    work.put("feed/20260101-100000001.csv", b"I,t,s,1,a\nI,u,s\n")
    work.put("master/m.csv", b"9,z\n")
    with pytest.raises(ConfigError, match=r"m\.csv: its first row has 2 fields, and field\.names has 5 names"):
        work.run({"feed.table": "s.t"})
    work.put("master/m.csv", b"id,n\n9,z\n")
    work.run({"feed.table": "s.t"})
    assert [(row["id"], row["n"]) for row in work.rows()] == [("1", "a"), ("9", "z")]
