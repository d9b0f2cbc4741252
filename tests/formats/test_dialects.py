"""One story of a table, told by each dialect of messages, and what only one of them can say.

``tests.laws.test_dialect_laws`` has the law that each of them says the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mutator
from mutator.cli import main
from mutator.errors import ConfigError, DataError
from mutator.formats.files import json_lines
from mutator.plan.inspect import envelopes
from mutator.table.table import Table
from tests.support.dialect_stories import (
    DIALECTS,
    END,
    FILES,
    STORY,
    TYPES,
    Change,
    canal,
    canal_of,
    dms,
    lines,
    maxwell,
    maxwell_by_transaction,
    ogg,
    put,
    row,
    work_of,
)
from tests.support.named_runs import ENGINES, Work
from tests.support.no_limits import NO_LIMITS


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_first_run_has_the_types_of_the_messages(tmp_path: Path, dialect: str) -> None:
    work = work_of(tmp_path, dialect, allow_empty_master="true")
    (tmp_path / "master" / "m.parquet").unlink()
    put(work, dialect, "feed/f_1", *map(DIALECTS[dialect].message, STORY))
    work.run()
    assert {one.name: one.type for one in work.table().schema} == {one.name: one.type for one in TYPES}
    assert sorted(work.rows(), key=lambda one: one["id"]) == END


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_table_takes_the_story(tmp_path: Path, dialect: str) -> None:
    told = DIALECTS[dialect]
    order = {"order_by": list(told.order), "order_type": list(told.types), "null.order": "lowest"}
    table = Table.create(str(tmp_path / "table"), {"key": "id", "feed.dialect": told.name, **order, **NO_LIMITS})
    work = Work(tmp_path)
    for name in ("f_2", "f_1", "f_3"):
        table.apply(str(put(work, dialect, name, *map(told.message, FILES[name]))))
    assert sorted(table.scan().to_arrow().select(TYPES.names).to_pylist(), key=lambda one: one["id"]) == END


def test_rows_of_two_tables_after_messages_that_are_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first rows do not say is not guessed: each split would have another answer."""
    monkeypatch.setattr(envelopes, "_ROWS", 3)
    work = work_of(tmp_path, "canal")
    work.settings["order_by"] = "message.id"
    messages = [DIALECTS["canal"].message(one, f"d.{table}") for one, table in zip(STORY, "tu", strict=False)]
    work.put("feed/f_1.json", lines(*[{"type": "MHEARTBEAT"}] * 3, *messages))
    why = r"f_1\.json: has rows of d\.[tu], and none of its first rows says of which table it is; set feed\.table to"
    with pytest.raises(DataError, match=why):
        work.run()
    work.run({"feed.table": "d.t"})
    assert work.rows() == [STORY[0].after]


def test_a_table_whose_messages_come_late_in_a_file(tmp_path: Path) -> None:
    """What the messages are, and which fields they have, is said by thousands of them, not by the first bytes."""
    work = work_of(tmp_path, "maxwell")
    work.put("feed/f_1.json", lines(*[maxwell(STORY[1], "d.u")] * 2500, maxwell(STORY[0])))
    assert (tmp_path / "feed" / "f_1.json").stat().st_size > 300 << 10
    work.run({"feed.table": "d.t"})
    assert work.rows() == [STORY[0].after]


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_two_tables(tmp_path: Path, dialect: str) -> None:
    work, message = work_of(tmp_path, dialect), DIALECTS[dialect].message
    put(work, dialect, "feed/f_1", message(STORY[0]), message(STORY[1], "d.u"))
    cure = r"set feed\.table to that of the master"
    with pytest.raises(DataError, match=rf"f_1\.\w+: has rows of d\.u, and others are of d\.t; {cure}"):
        work.run()
    work.settings["feed.table"] = "d.u"
    report = work.run()
    assert (work.rows(), report.counts["feed rows"]) == ([STORY[1].after], 1)
    assert "messages that are no rows: 1 of other tables (1 d.t)" in report.notes
    named = work.run({"feed.other.tables": "d.t,d.v"})
    assert (named.other_tables, named.counts["feed rows"]) == ({"d.t": 1}, 1)
    with pytest.raises(DataError, match=r"tables that feed\.other\.tables does not name: 1 d\.t\. Add them"):
        work.run({"feed.other.tables": "d.v"})


CREATED = {"type": "table-create", "database": "d", "table": "u", "def": {"columns": []}, "ts": 1, "sql": "create"}
ALTERED = {**CREATED, "type": "table-alter", "old": {"table": "u", "charset": "utf8"}, "position": "bin.1:1"}
_CONTROL = {"record-type": "control", "schema-name": "", "table-name": "awsdms_apply_exceptions", "timestamp": "x"}
_BOOT = {"database": "d", "table": "t", "ts": 1}
NO_ROWS = [  # first messages of a feed, and how they are counted
    (
        "dms",
        [
            {"control": {"table-def": {}}, "metadata": {**_CONTROL, "operation": "create-table"}},
            {"metadata": {**_CONTROL, "operation": "drop-column"}},
            None,
        ],
        "2 schema change, 1 tombstone",
    ),
    ("ogg", [None, None], "2 tombstone"),
    (
        "canal",
        [
            None,
            *({**canal(STORY[0], "d.u"), "type": one, "isDdl": True, "data": None} for one in ("CREATE", "QUERY")),
            {"type": "MHEARTBEAT"},
            {"type": "XACOMMIT", "id": 1},
        ],
        "2 schema change, 1 heartbeat, 1 tombstone, 1 transaction",
    ),
    (
        "maxwell",
        [CREATED, ALTERED, None, *({**_BOOT, "type": f"bootstrap-{one}", "data": {}} for one in ("start", "complete"))],
        "2 schema change, 1 bootstrap-complete, 1 bootstrap-start, 1 tombstone",
    ),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("dialect", "messages", "note"), NO_ROWS)
def test_messages_that_are_no_rows(
    tmp_path: Path, dialect: str, messages: Sequence[Any], note: str, engine: str
) -> None:
    work = work_of(tmp_path, dialect, engine)
    work.put("feed/f_1.json", lines(*messages, DIALECTS[dialect].message(STORY[0])))
    report = work.run()
    assert (work.rows(), report.counts["feed rows"], report.rejects) == ([STORY[0].after], 1, {})
    assert f"messages that are no rows: {note}" in report.notes


NO_IMAGES = {"before": None, "after": None}
TRUNCATES = {
    "debezium": {"op": "t", **NO_IMAGES},
    "canal": {"type": "TRUNCATE", "isDdl": True, "data": None, "old": None},
    "ogg": {"op_type": "T", **NO_IMAGES},
}


@pytest.mark.parametrize("dialect", TRUNCATES)
def test_a_feed_of_truncates_alone(tmp_path: Path, dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It says its table and its order, but no fields."""
    work = work_of(tmp_path, dialect)
    message = DIALECTS[dialect].message
    put(work, dialect, "feed/f_1", *map(message, STORY[:3]))
    work.run()
    assert len(work.rows()) == 3
    put(work, dialect, "truncates/f_2", {**message(STORY[-1]), **TRUNCATES[dialect]})
    work.run(master="out1", feed="truncates")
    assert work.files == []
    (tmp_path / "none").mkdir()
    for table in ("", "d.t"):
        whose = f" of feed.table={table}" if table else ""
        with pytest.raises(ConfigError, match=rf"no message of the feed has a row{whose} \(in the first rows"):
            work.run({"allow.empty.master": "true", "feed.table": table}, master="none", feed="truncates")
    main(["init", "--feed", str(tmp_path / "truncates"), "-o", "-"])
    assert f'"feed.dialect" = "{DIALECTS[dialect].name}"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("dialect", "message"), [("debezium", {"ts_ms": 5}), *((one, None) for one in ("maxwell", "canal", "ogg"))]
)
def test_a_run_without_rows(tmp_path: Path, dialect: str, message: Any) -> None:
    work = work_of(tmp_path, dialect)
    work.put("feed/f_1.json", lines(DIALECTS[dialect].message(STORY[0])))
    work.put("none/f_2.json", lines(message))
    work.run()
    work.run(master="out1", feed="none")
    assert work.rows() == [STORY[0].after]


def without(message: Mapping[str, Any], *names: str) -> Any:
    return {name: value for name, value in message.items() if name not in names}


FIRST = [Change(row(number, "x"), None, (1, number)) for number in range(100, 130)]
_MAXWELL, _CANAL, _OGG, _OGG_UPDATE = maxwell(STORY[1]), canal(STORY[1]), ogg(STORY[1]), ogg(STORY[3])
_DMS = dms(STORY[1])


def dms_said(**said: Any) -> Any:
    metadata = {**_DMS["metadata"], **{name.replace("_", "-"): value for name, value in said.items()}}
    return {**_DMS, "metadata": {name: value for name, value in metadata.items() if value is not None}}


BAD = {
    "maxwell": [
        ({**_MAXWELL, "type": "x"}, "has the type 'x', which Maxwell does not write"),
        (without(_MAXWELL, "type"), "has no type, so it is no message of Maxwell"),
        (without(_MAXWELL, "table"), "has no table"),
        (without(_MAXWELL, "data"), "has no field of the ID in 'data'"),
        ({**_MAXWELL, "data": {"n": "b"}}, "has no field of the ID in 'data'"),
        ({**_MAXWELL, "data": [1]}, "has no JSON object in 'data'"),
        ({**_MAXWELL, "data": {**STORY[1].after, "new": 1}}, "has the member 'data.new', which none of the first"),
        ({**_MAXWELL, "data": row(2, "b", "x")}, "field qty is not of type int64"),
        (without(_MAXWELL, "position"), "has no position that can be read, which orders messages; set output_binlog_"),
        ({**_MAXWELL, "position": "gtid"}, "has no position that can be read"),
        (lines(_MAXWELL)[:-9], "is not JSON"),
        (b'{"type":"insert","data":{"id":1,"id":2}}', "has the member 'data.id' twice"),
        (b'{"type":"insert","data":{"id":1,"n":"\xff"}}', "is not UTF-8"),
    ],
    "canal": [
        ({**_CANAL, "type": "x"}, "has the type 'x', which Canal does not write"),
        (without(_CANAL, "type"), "has no type, so it is no message of Canal"),
        (without(_CANAL, "table"), "has no table"),
        (without(_CANAL, "id"), "has no id that can be read, which orders messages; have Canal write it"),
        *(
            ({**_CANAL, "data": one}, "has no array of objects in 'data', or no row in it")
            for one in (None, [], {}, [1], [{"id": "1"}, None], "x")
        ),
        (
            lines(_CANAL).replace(b'{"id": "2"', b'{"id": "1", "id": "2"'),
            "has no array of objects in 'data', or no row in it, or a member twice",
        ),
        ({**_CANAL, "type": "UPDATE", "old": {"n": "x"}}, "has no array of objects in 'old'"),
        ({**_CANAL, "type": "UPDATE", "old": [{}, {}]}, "has no array of objects in 'old'"),
        ({**_CANAL, "data": [{"n": "b"}]}, "has no field of the ID in 'data'"),
        ({**_CANAL, "data": [{"id": "1", "new": "1"}]}, "has the member 'data.new', which none of the first rows has"),
        ({**_CANAL, "data": [*_CANAL["data"], {"id": "7", "qty": ""}, {"id": "8"}]}, "field qty is not of type int64"),
        (
            {**_CANAL, "type": "UPDATE", "data": [{"id": "7", "n": "b"}], "old": [{"id": "2"}]},
            "field qty is not sent with a new key, so no record has its value; binlog_row_image=FULL",
        ),
        (lines(_CANAL)[:-9], "is not JSON"),
        (b'{"type":"INSERT","type":"INSERT"}', "has the member 'type' twice"),
    ],
    "ogg": [
        ({**_OGG, "op_type": "PK"}, "has the op_type 'PK', which GoldenGate does not write"),
        (without(_OGG, "op_type"), "has no op_type, so it is no message of GoldenGate"),
        (without(_OGG, "table"), "has no table"),
        (without(_OGG, "pos"), "has no pos that can be read, which orders messages; add ${position[pos]} to"),
        (without(_OGG, "after"), "has no field of the ID in 'after'"),
        ({**_OGG, "op_type": "D", "after": None}, "has no field of the ID in 'before'"),
        ({**_OGG, "after": [1]}, "has no JSON object in 'after'"),
        (lines(_OGG).replace(b'{"id": 2', b'{"id": 1, "id": 2'), "has no JSON object in 'after', or one with a member"),
        ({**_OGG, "before": 1}, "has no JSON object in 'before'"),
        ({**_OGG, "after": {**_OGG["after"], "new": 1}}, "has the member 'after.new', which none of the first"),
        (
            {**_OGG_UPDATE, "before": {"id": 1, "qty": 1}, "after": {"id": 7, "n": "b", "n_isMissing": True}},
            "field n is not sent with a new key, so no record has its value; have GoldenGate log all columns",
        ),
        (lines(_OGG)[:-9], "is not JSON"),
        (b'{"op_type":"I","op_type":"I"}', "has the member 'op_type' twice"),
    ],
    "dms": [
        (dms_said(operation="truncate-table"), "has the metadata.operation 'truncate-table', which AWS DMS does not"),
        (dms_said(operation=None), "has no metadata.operation, so it is no message of AWS DMS"),
        (without(_DMS, "metadata"), "has no metadata.operation"),
        (dms_said(table_name=None), "has no table"),
        (
            dms_said(stream_position=None),
            "has no metadata.stream-position that can be read, which orders messages; set",
        ),
        (dms_said(stream_position="bin.000001:4"), "has no metadata.stream-position that can be read"),
        (without(_DMS, "data"), "has no JSON object in 'data', or one with a member twice"),
        (lines(_DMS).replace(b'{"id": 2', b'{"id": 1, "id": 2'), "has no JSON object in 'data', or one with a member"),
        ({**_DMS, "before-image": [1]}, "has no JSON object in 'before-image'"),
        ({**_DMS, "data": {"n": "b"}}, "has no field of the ID in 'data'"),
        ({**_DMS, "data": {**_DMS["data"], "new": 1}}, "has the member 'data.new', which none of the first rows has"),
        ({**_DMS, "data": {**_DMS["data"], "BI_new": 1}}, "has the member 'data.BI_new', which none of the first"),
        ({**_DMS, "data": row(2, "b", "x")}, "field qty is not of type int64"),
        (lines(_DMS).replace(b"\n", b"") + lines(_DMS), "is not JSON"),
        (lines(_DMS)[:-9], "is not JSON"),
    ],
    "maxwell by transaction": [
        (
            without(maxwell_by_transaction(STORY[0]), "xoffset"),
            "has neither xoffset nor commit, which order a transaction; set output_xoffset",
        ),
        (without(maxwell_by_transaction(STORY[0]), "xid"), "has no xid that can be read"),
    ],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dialect", BAD)
def test_a_bad_message_is_a_reject(tmp_path: Path, dialect: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_SAMPLE", 2000)  # bytes, which are the first rows
    monkeypatch.setattr("mutator.plan.inspect.envelopes._ROWS", 20)
    work, message = work_of(tmp_path, dialect, engine, split_bytes="3000"), DIALECTS[dialect].message
    work.put("feed/f.json", lines(*map(message, FIRST), *(one for one, _ in BAD[dialect]), message(STORY[2])))
    report = work.run({"moved.unset": "reject"} if dialect in ("canal", "ogg") else {})
    reasons = [one["reason"] for one in mutator.Rejects(path=report.rejected_file).to_pylist()]
    assert [one[: len(why)] for one, (_, why) in zip(reasons, BAD[dialect], strict=True)] == [
        why for _, why in BAD[dialect]
    ]
    assert (report.counts["feed rejected"], len(work.rows())) == (len(BAD[dialect]), 31)


def test_messages_of_maxwell_that_nothing_orders(tmp_path: Path) -> None:
    """Without offsets, the rows of a transaction tie. Rows of a bootstrap are older than every other."""
    work = work_of(tmp_path, "maxwell")
    found = [without(maxwell_by_transaction(one), "xoffset") for one in STORY]
    work.put("feed/f_1.json", lines(*found))
    with pytest.raises(ConfigError, match="order_by: is not set, and no message of the feed says what orders it"):
        work.run()
    assert work.run({"sequence.pattern": "last"}).counts["feed inserted"] == 5

    work.put("feed/f_1.json", lines(maxwell(STORY[0])))
    work.put("feed/f_2.json", lines(maxwell_by_transaction(STORY[1])))
    with pytest.raises(
        DataError, match=r"f_2\.json: has messages in the order of message\.xid, .*; name fields in ord"
    ):
        work.run()
    (tmp_path / "feed" / "f_2.json").unlink()

    boot = {**without(maxwell(STORY[0]), "position", "xid", "xoffset"), "type": "bootstrap-insert"}
    work.put("feed/f_1.json", lines(*map(maxwell, STORY), boot))
    assert work.run().counts["feed rejected"] == 0
    assert sorted(work.rows(), key=lambda one: one["id"]) == END


TITLES = {"debezium": "Debezium", "maxwell": "Maxwell", "canal": "Canal", "ogg": "GoldenGate", "dms": "AWS DMS"}


@pytest.mark.parametrize(("dialect", "title"), TITLES.items())
def test_a_file_of_another_form(tmp_path: Path, dialect: str, title: str) -> None:
    work = work_of(tmp_path, dialect)
    work.put("feed/f_1.json", lines(row(1, "a")))
    cure = "deliver the feed in .*; if its rows are records, leave feed.dialect out, or, where messages say what"
    with pytest.raises(DataError, match=rf"has no messages of {title} \(it has id, n, qty\); {cure}"):
        work.run()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_message_with_several_rows(tmp_path: Path, engine: str) -> None:
    """A statement shifts the keys 3, 2, 1 to 4, 3, 2: key 3 is deleted and then upserted by rows of one message."""
    work = work_of(tmp_path, "canal", engine)
    inserts = [Change(row(key, str(key)), None, (1, key)) for key in (1, 2, 3)]
    shifts = [Change(row(key + 1, str(key)), row(key, str(key)), (1, 9)) for key in (3, 2, 1)]
    work.put("feed/f_1.json", lines(canal_of(inserts), canal_of(shifts)))
    report = work.run()
    assert work.rows() == [row(2, "1"), row(3, "2"), row(4, "3")]
    # 3 + 4 mutations in two messages: of the changes of a key in a message, the last one is taken
    assert (report.counts["feed rows"], report.counts["feed halves"]) == (2, 5)
    assert (report.counts["feed superseded"], report.counts["feed delete of unknown"]) == (3, 1)
    assert "5 mutations more than feed rows, because some rows say several" in str(report)


def test_types_of_mysql(tmp_path: Path) -> None:
    types = {"id": "int(11)", "d": "decimal(9,2)", "t": "datetime(6)", "b": "varbinary(9)", "f": "double", "s": "json"}
    values = {"id": "1", "d": "1.50", "t": "2026-01-31 10:00:00.000001", "b": "\xff\0", "f": "1.0E10", "s": "[1]"}
    work = work_of(tmp_path, "canal", allow_empty_master="true")
    (tmp_path / "master" / "m.parquet").unlink()
    one = {**canal(STORY[0]), "mysqlType": types, "data": [values]}
    work.put("feed/f_1.json", lines(one, {**one, "data": [{**values, "id": "2", "b": "\u0100"}]}))
    report = work.run()
    (found,) = work.rows()
    assert (found["id"], found["d"], found["b"], found["f"]) == (1, Decimal("1.50"), b"\xff\0", 1e10)
    assert (found["t"], found["s"]) == (datetime.fromisoformat("2026-01-31T10:00:00.000001"), "[1]")
    assert [reject["reason"][:40] for reject in report.rejects["feed"]] == ["field b has a character that is no byte,"]


def test_columns_that_say_what_is_missing(tmp_path: Path) -> None:
    work = work_of(tmp_path, "ogg", allow_empty_master="true")
    (tmp_path / "master" / "m.parquet").unlink()
    found = ogg(STORY[0]) | {"after": {**row(1, "a"), "id_isMissing": False, "n_isMissing": False, "x_isMissing": 5}}
    work.put("feed/f_1.json", lines(found))
    work.run()
    assert work.rows() == [{**row(1, "a"), "x_isMissing": 5}]


def test_values_that_did_not_change(tmp_path: Path) -> None:
    """The image before may have them, also where the key changes."""
    work = work_of(tmp_path, "ogg")
    moved = {**_OGG_UPDATE, "before": {"id": 1, "qty": 5}, "after": {"id": 7, "n": "b"}}
    work.put("feed/f_1.json", lines(ogg(STORY[0]), moved))
    work.run()
    assert work.rows() == [row(7, "b", 5)]


def test_messages_of_dms_without_a_position(tmp_path: Path) -> None:
    """Nothing but clocks orders them, so a setting has to; rows of a load are older than all others."""
    work = work_of(tmp_path, "dms")
    loaded = {
        "metadata": {"operation": "load", "schema-name": "d", "table-name": "t", "timestamp": "2026-01-01T09:00Z"}
    }
    work.put("feed/f_1.json", lines({"data": row(1, "old"), **loaded}))
    work.run()  # messages of a load alone say the order of those that follow
    assert work.rows() == [row(1, "old")]
    work.put("feed/f_1.json", lines({"data": row(1, "old"), **loaded}, *map(dms, STORY)))
    work.run(master="out1")
    assert sorted(work.rows(), key=lambda one: one["id"]) == END

    at = ("2026-01-31T10:00:00.000002Z", "2026-01-31T10:00:00.000001Z")
    found = [dms_said(stream_position=None, timestamp=one) for one in at]
    work.put("feed/f_1.json", lines(*({**one, "data": row(2, n)} for one, n in zip(found, "yx", strict=True))))
    with pytest.raises(ConfigError, match="order_by: is not set, and no message of the feed says what orders it"):
        work.run()
    (tmp_path / "feed/f_1.json").rename(tmp_path / "feed/s-1-2026-01-31-10-15-00-0a1b2c3d-1-2-3-4")
    for settings, wanted in (({"order_by": "message.timestamp"}, "y"), ({"sequence.pattern": "firehose"}, "x")):
        work.run(settings)
        assert work.rows() == [row(2, wanted)]


OF_DELETES = {
    "debezium": "d in field op",
    "maxwell": "delete in field type",
    "canal": "DELETE in field type",
    "ogg": "D in field op_type",
    "dms": "delete in field metadata.operation",
}


@pytest.mark.parametrize("dialect", OF_DELETES)
def test_too_many_deletes_are_named_as_in_the_file(tmp_path: Path, dialect: str) -> None:
    work, message = work_of(tmp_path, dialect), DIALECTS[dialect].message
    work.put("master/m", pa.Table.from_pylist([STORY[2].after], TYPES), "parquet")
    put(work, dialect, "feed/f_1", message(STORY[6]))
    with pytest.raises(DataError, match=f"check that op code {OF_DELETES[dialect]} is a delete;"):
        work.run({"max.delete.fraction": "0.5"})


def test_changes_in_the_order_of_a_file_are_not_shown_as_ties(tmp_path: Path) -> None:
    """They are counted, as one order value does not tell them apart, but the log has them in order."""
    settings = {"key": "id", "feed.dialect": "aws-dms", "field.names": "Op,id,n", "output.format": "parquet"}
    work = Work(tmp_path, settings={**settings, "allow.empty.master": "true"})
    (tmp_path / "master").mkdir()
    work.put("feed/20260131-101500123.csv", b"I,1,a\nU,1,b\nI,2,c\n")
    report = work.run()
    assert (report.counts["tied"], report.samples) == (1, {})
    assert "tied" not in report.text()


def test_many_changes_of_a_record_are_no_doubt_about_the_key_of_messages(tmp_path: Path) -> None:
    work = work_of(tmp_path, "canal", allow_empty_master="true")
    (tmp_path / "master" / "m.parquet").unlink()
    said = [canal(Change(row(at % 10, "abc"[at % 3]), row(at % 10, "x"), (1, 0))) for at in range(100)]
    work.put("feed/f_1.json", lines(*said))
    report = work.run()
    assert (report.counts["feed superseded"], report.counts["tied"]) == (90, 10)
    assert not [one for one in report.warnings if "the ID" in one]
