"""Flat rows of several tools: one story in each dialect, with one result."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.errors import ConfigError, DataError
from mutator.errors.parts import plain
from mutator.table.table import Table
from tests.formats.test_debezium_json import lines
from tests.support.named_runs import Work

HEAD = pa.schema([("id", pa.int64()), ("n", pa.string())])
# Transaction, what a row does, ID, value
STORY = (
    (1, "insert", 1, "a"),
    (1, "insert", 2, "b"),
    (1, "insert", 3, "c"),
    (2, "before", 1, "a"),
    (2, "update", 1, "d"),
    (2, "before", 1, "d"),
    (2, "update", 1, "e"),
    (3, "delete", 2, None),
    (4, "delete", 3, "c"),
    (4, "insert", 3, "f"),
    (5, "delete", 9, None),
)
MOVED = ((6, "insert", 4, "g"), (7, "before", 4, "g"), (7, "update", 5, "g"))
RESULT = [{"id": 1, "n": "e"}, {"id": 3, "n": "f"}]


def lsn(number: int) -> bytes:
    return number.to_bytes(10, "big")


class Case(NamedTuple):
    """How a dialect tells the story."""

    dialect: str
    field: str
    codes: Mapping[str, Any]  # without before: these rows are left out
    name: str  # of the feed file, to be formatted with its number
    settings: Mapping[str, str] = {}
    one_a_commit: bool = False  # a key has one change in a transaction

    @property
    def has_order(self) -> bool:
        """Whether fields order the rows."""
        return self.dialect in ("sqlserver-cdc", "delta-cdf", "iceberg-changelog", "ticdc-csv")

    @property
    def own_order(self) -> str:
        """The field of transactions."""
        return {"sqlserver-cdc": "__$start_lsn", "delta-cdf": "_commit_version"}.get(self.dialect, "_change_ordinal")

    def rows(self, story: Sequence[Any]) -> list[dict[str, Any]]:
        found = []
        for row, (transaction, what, key, value) in enumerate(story):
            last = not any(one[:3:2] == (transaction, key) and one[1] == "update" for one in story[row + 1 :])
            if what not in self.codes or (self.one_a_commit and not last and what != "before"):
                continue
            says = {self.field: self.codes[what]}
            own = {"id": key, "n": value}
            if self.dialect == "aws-dms":
                found.append({**says, **own})
            elif self.dialect == "open-mirroring":
                found.append({**own, **says})
            elif self.dialect == "sqlserver-cdc":
                change = row if what != "before" else row + 1
                mask = {"__$update_mask": b"\x03", "__$end_lsn": lsn(0)}
                order = {"__$start_lsn": lsn(transaction), "__$seqval": lsn(100 + change)}
                found.append({**order, **says, **mask, **own, "__$command_id": change})
            elif self.dialect == "delta-cdf":
                at = datetime(2026, 1, transaction)  # noqa: DTZ001
                found.append({**own, **says, "_commit_version": transaction, "_commit_timestamp": at})
            elif self.dialect == "ticdc-csv":
                table = {
                    "ticdc-meta$table": "t",
                    "ticdc-meta$schema": "s",
                    "ticdc-meta$commit-ts": 4 * 10**17 + transaction,
                }
                found.append({**says, **table, **own})
            else:
                found.append({**own, **says, "_change_ordinal": transaction, "_commit_snapshot_id": 7 - transaction})
        return found


BEFORE_AND_AFTER = {"insert": "INSERT", "before": "UPDATE_BEFORE", "update": "UPDATE_AFTER", "delete": "DELETE"}
CASES = (
    Case("aws-dms", "Op", {"insert": "I", "update": "U", "delete": "D"}, "20260101-10000000{}"),
    Case("sqlserver-cdc", "__$operation", {"delete": 1, "insert": 2, "before": 3, "update": 4}, "cdc-{}"),
    Case(
        "delta-cdf",
        "_change_type",
        {"insert": "insert", "before": "update_preimage", "update": "update_postimage", "delete": "delete"},
        "part-{}",
        one_a_commit=True,
    ),
    Case("iceberg-changelog", "_change_type", BEFORE_AND_AFTER, "view_{}", one_a_commit=True),
    Case(
        "ticdc-csv",
        "ticdc-meta$operation",
        {"insert": "I", "update": "U", "delete": "D"},
        "CDC00000{}",
        one_a_commit=True,
    ),
    Case("open-mirroring", "__rowMarker__", {"insert": 0, "update": 1, "delete": 2}, "0000000000000000000{}"),
)


def in_text(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as text files have it."""
    times = {name: value.isoformat(" ") for name, value in row.items() if isinstance(value, datetime)}
    lsns = {name: f"0x{value.hex().upper()}" for name, value in row.items() if isinstance(value, bytes)}
    return {**row, **times, **lsns}


def put(work: Work, name: str, rows: list[dict[str, Any]], form: str) -> None:
    if form in ("csv", "json"):
        rows = [*map(in_text, rows)]
    if form == "json":
        work.put(f"{name}.json", lines(*rows))
    else:
        work.put(name, pa.Table.from_pylist(rows), form)


def work_of(tmp_path: Path, case: Case, engine: str = "blocks") -> Work:
    settings = {"key": "id", "feed.dialect": case.dialect, "reject.policy": "quarantine", **case.settings}
    work = Work(tmp_path, engine, settings)
    work.put("master/m", pa.Table.from_pylist([{"id": 9, "n": "z"}], HEAD), "parquet")
    return work


@pytest.mark.parametrize("case", [case for case in CASES if "before" in case.codes], ids=lambda case: case.dialect)
def test_a_changed_key(tmp_path: Path, case: Case) -> None:
    work = work_of(tmp_path, case)
    put(work, f"feed/{case.name.format(1)}", case.rows(MOVED)[::-1], "parquet")
    work.run()
    assert work.rows() == [{"id": 5, "n": "g"}, {"id": 9, "n": "z"}]
    report = work.run({"order_by": case.own_order})  # which says nothing of the row before
    assert [row["id"] for row in work.rows()] == [4, 5, 9]
    assert "messages that are no rows: 1 image before an update" in report.notes


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.dialect)
def test_a_table(tmp_path: Path, case: Case) -> None:
    work, rows, said = Work(tmp_path), case.rows(STORY), ""
    table = Table.create(str(tmp_path / "table"), {"key": "id", "feed.dialect": case.dialect})
    for number, half in enumerate((rows[:5], rows[5:]), 1):
        put(work, f"feed{number}/{case.name.format(number)}", half, "parquet")
        said += str(table.apply(str(tmp_path / f"feed{number}")))
    assert sorted(table.scan().to_arrow().to_pylist(), key=repr) == RESULT
    assert ("(U) without the row before" in said) == (case.dialect == "aws-dms")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.dialect)
def test_a_record_is_explained(tmp_path: Path, case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    work = work_of(tmp_path, case)
    put(work, f"feed/{case.name.format(1)}", case.rows(STORY), "parquet")
    work.run()
    assert main(["explain", str(work.output), "3", "--feed", str(tmp_path / "feed")]) == 0
    said = capsys.readouterr().out
    assert "was written with" not in said  # another order
    assert [said.count(what) for what in ("    upsert, order value", "    delete, order value")] == [2, 1]


@pytest.mark.parametrize(
    ("dialect", "wrong", "reason"),
    [
        ("aws-dms", {"Op": "X"}, "has 'X' in Op, which is none of I, U, D"),
        ("aws-dms", {"Op": None}, "has no value in Op, which says what the row does"),
        ("sqlserver-cdc", {"__$operation": 7}, "has '7' in __$operation, which is none of 2, 4, 5, 1, 3"),
        ("sqlserver-cdc", {"__$start_lsn": "AAAA"}, "has 'AAAA' in __$start_lsn, which is no LSN of 20 hexadecimal"),
        ("sqlserver-cdc", {"__$command_id": "x"}, "field __$command_id (order value) is not an integer"),
        ("sqlserver-cdc", {"__$start_lsn": None}, "has no value in __$start_lsn, which orders the changes"),
        ("delta-cdf", {"_commit_version": None, "_commit_timestamp": None}, "has no value in _commit_version or "),
        ("iceberg-changelog", {"_change_ordinal": None}, "has no value in _change_ordinal, which orders the changes"),
        ("delta-cdf", {"_change_type": "upsert"}, "has 'upsert' in _change_type, which is none of insert"),
        ("delta-cdf", {"_commit_timestamp": "noon"}, "field _commit_timestamp (order value) cannot be read"),
        ("iceberg-changelog", {"_change_type": "UPDATE"}, "has 'UPDATE' in _change_type, which is none of INSERT"),
        ("iceberg-changelog", {"_change_ordinal": "x"}, "field _change_ordinal (order value) is not an integer"),
        ("open-mirroring", {"__rowMarker__": 3}, "has '3' in __rowMarker__, which is none of 0, 1, 4, 2"),
        ("open-mirroring", {"id": "x"}, "field id"),
    ],
)
def test_wrong_rows(tmp_path: Path, dialect: str, wrong: Mapping[str, Any], reason: str) -> None:
    case = next(one for one in CASES if one.dialect == dialect)
    work = work_of(tmp_path, case)
    first, second, *_ = case.rows(STORY)
    work.put(f"feed/{case.name.format(1)}.json", lines(*map(in_text, (first, {**second, **wrong}))))
    report = work.run()
    assert [one["reason"][: len(reason)] for one in report.rejects["feed"]] == [reason]
    assert [row["id"] for row in work.rows()] == [1, 9]


@pytest.mark.parametrize(("dialect", "null"), [("aws-dms", "NULL"), ("ticdc-csv", "\\N")])
def test_the_text_of_null(tmp_path: Path, dialect: str, null: str) -> None:
    """A run that has no setting for it warns."""
    case = next(one for one in CASES if one.dialect == dialect)
    work = work_of(tmp_path, case)
    put(work, f"feed/{case.name.format(1)}", case.rows([(1, "insert", 1, null), (1, "insert", 2, "b")]), "csv")
    said = f"1 value of the first rows of the feed is {null}, which {dialect} has for NULL, and merged as text: set csv"
    assert [one.startswith(said) for one in map(plain, work.run().warnings)] == [True]
    assert work.run({"csv.null": null}).warnings == ()
    assert work.rows()[0] == {"id": 1, "n": None}


def test_files_of_a_full_load(tmp_path: Path) -> None:
    """Files of AWS DMS without a header, in which the field Op may be missing."""
    case = CASES[0]
    work = work_of(tmp_path, case)
    work.put("feed/LOAD00000001.csv", b"1,a\n2,b\n")
    work.put("feed/20260101-100000001.csv", b"3,c\n")  # inserts alone
    work.put("feed/20260101-100000002.csv", b"i,4,d\nU,1,e\nD,2,\n")
    work.run({"field.names": "op,id,n"})
    assert [(row["id"], row["n"]) for row in work.rows()] == [(1, "e"), (3, "c"), (4, "d"), (9, "z")]
    for names, why in (("", r"if it has no header, set field\.names to .*, with Op"), ("id,n", "has 2 names")):
        with pytest.raises((ConfigError, DataError), match=why):
            work.run({"field.names": names})
    with pytest.raises(DataError, match="and the ID is field 1; name the field of the ID"):
        work.run({"key": "1"})
    work.put("more/x.csv", b"op,id,n,seq\nU,1,f,12\nU,1,g,11\n")
    work.run({"order_by": "seq", "order.keep": "false"}, feed="more")
    assert work.rows()[0] == {"id": 1, "n": "f"}


@pytest.mark.parametrize(
    ("dialect", "name", "row", "why"),
    [
        ("delta-cdf", "a", {"id": 1, "n": "a"}, "has no field _change_type, which says what a row does"),
        ("delta-cdf", "a", {"id": 1, "_change_type": "insert"}, "no message of the feed says what orders it"),
        ("sqlserver-cdc", "a", {"id": 1, "__$operation": 2}, "no message of the feed says what orders it"),
        ("iceberg-changelog", "a", {"id": 1, "_change_type": "INSERT", "_change_ordinal": 0}, "has no number in its"),
        ("aws-dms", "a", {"id": 1, "Op": "I"}, "order comes from file names, but this name has no sequence"),
        ("open-mirroring", "a_1", {"id": 1, "n": "a"}, "order comes from file names, but this name has no sequence"),
    ],
)
def test_feeds_that_say_too_little(tmp_path: Path, dialect: str, name: str, row: dict[str, Any], why: str) -> None:
    work = work_of(tmp_path, next(one for one in CASES if one.dialect == dialect))
    put(work, f"feed/{name}", [row], "json")
    with pytest.raises((ConfigError, DataError), match=why):
        work.run()


def test_views_of_one_table(tmp_path: Path) -> None:
    """The ordinals of Iceberg begin at 0 in each view."""
    case = CASES[3]
    work = work_of(tmp_path, case)
    said = {"_change_type": "UPDATE_AFTER", "_commit_snapshot_id": 1}
    put(work, "feed/9-view", [{"id": 9, "n": "a", **said, "_change_ordinal": 5}], "parquet")
    put(work, "feed2/10-view", [{"id": 9, "n": "b", **said, "_change_ordinal": 0}], "parquet")
    work.run({"sequence.pattern": "^(?P<number>[0-9]+)"})
    work.run({"sequence.pattern": "^(?P<number>[0-9]+)"}, master="out1", feed="feed2")
    assert work.rows() == [{"id": 9, "n": "b"}]


def test_changed_rows_of_mutator(tmp_path: Path) -> None:
    """A copy of a master follows its changed rows, which have no versions."""
    work = Work(tmp_path, settings={"key": "id", "order_by": "t", "op": "op", "changes": "true"})
    work.put("master/m.csv", b"id,n,t\n1,a,1\n2,b,1\n3,c,1\n")
    work.put("copy/m.csv", b"id,n,t\n1,a,1\n2,b,1\n3,c,1\n")
    work.put("feed/f.csv", b"id,n,t,op\n1,x,2,U\n2,,2,D\n4,d,2,I\n")
    work.put("feed2/f.csv", b"id,n,t,op\n1,y,3,U\n2,z,3,I\n4,,3,D\n")
    work.run()
    work.run(master="out1", feed="feed2")
    wanted = work.rows()
    for number in (1, 2):
        (tmp_path / f"changes{number}").mkdir()
        file = tmp_path / f"changes{number}/c.parquet"
        assert main(["changes", str(tmp_path / f"out{number}"), "--format", "parquet", "-o", str(file)]) == 0
    work.settings = {"key": "id", "feed.dialect": "delta-cdf"}
    work.run(master="copy", feed="changes1")
    work.run(master="out3", feed="changes2")
    assert work.rows() == wanted


def test_files_of_two_tables(tmp_path: Path) -> None:
    work = work_of(tmp_path, CASES[4])
    work.put("feed/CDC000001.csv", b"I,t,s,7,1,a\n")
    names = ",".join(f"ticdc-meta${name}" for name in ("operation", "table", "schema", "commit-ts"))
    work.run({"field.names": f"{names},id,n"})
    assert work.rows() == [{"id": 1, "n": "a"}, {"id": 9, "n": "z"}]
    work.put("feed/CDC000002.csv", b"I,u,s,7,1,a\n")
    with pytest.raises(DataError, match=r"has rows of s\.u, and others are of s\.t, as in .*; set feed\.table to that"):
        work.run({"field.names": f"{names},id,n"})


def test_settings_of_another_dialect(tmp_path: Path) -> None:
    work = work_of(tmp_path, CASES[2])
    with pytest.raises(ConfigError, match=r"feed\.table: 't' needs feed\.dialect = debezium-json or"):
        work.run({"feed.table": "t"})


def test_the_key_that_open_mirroring_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    case = next(one for one in CASES if one.dialect == "open-mirroring")
    work = work_of(tmp_path, case)
    # Each field is unique in these rows, so facts would not choose both
    rows = [{"id": number, "n": str(number), "__rowMarker__": 0} for number in range(20)]
    put(work, f"feed/{case.name.format(1)}", rows, "parquet")
    stated = work.put("feed/_metadata.json", b'\xef\xbb\xbf{"keyColumns": ["id", "n"], "fileFormat": "parquet"}')
    main(["init", "--feed", "feed", "-D", "feed.dialect=open-mirroring", "-o", "-"])
    assert tomllib.loads(capsys.readouterr().out)["key"] == ["id", "n"]

    wrong = "'keyColumns' of _metadata.json says that id, n is the ID of the rows, and key is id: if the rows have "
    wrong += "that one, set key"
    assert any(wrong in one for one in work.run().warnings)
    for content in (b'{"keyColumns": ["id"]}', b"{", b"[]", b'{"keyColumns": 5}'):
        stated.write_bytes(content)
        assert not [one for one in work.run().warnings if "_metadata.json" in one]


def test_too_many_deletes_are_named_as_in_the_file(tmp_path: Path) -> None:
    work = work_of(tmp_path, CASES[0])
    put(work, "feed/20260101-100000001", [{"Op": "D", "id": 9, "n": "z"}], "parquet")
    with pytest.raises(DataError, match="check that op code D in field Op is a delete;"):
        work.run({"max.delete.fraction": "0.5"})
