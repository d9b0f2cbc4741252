"""One story of a table, told by each dialect of messages: the rows and the counts are the same.

And what only one of them can say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import mutator
from mutator.errors import ConfigError, DataError
from mutator.formats.files import json_lines
from mutator.table.table import Table
from tests.support.named_runs import ENGINES, Work
from tests.support.no_limits import NO_LIMITS

Row = Mapping[str, Any]
TYPES = pa.schema([("id", pa.int64()), ("n", pa.string()), ("qty", pa.int64())])


class Change(NamedTuple):
    """A change of one row."""

    after: Row | None  # None: it is deleted
    before: Row | None  # None: it is inserted
    at: tuple[int, int]  # transaction, and place in it
    last: bool = True  # of the transaction


def row(key: int, n: str | None, qty: int | None = 1) -> Row:
    return {"id": key, "n": n, "qty": qty}


STORY = [
    Change(row(1, "a"), None, (1, 0), last=False),
    Change(row(2, "b"), None, (1, 1)),
    Change(row(3, "c"), None, (2, 0)),
    Change(row(1, "a2"), row(1, "a"), (3, 0), last=False),  # twice in one transaction
    Change(row(1, "a3"), row(1, "a2"), (3, 1)),
    Change(row(20, "b"), row(2, "b"), (4, 0)),  # changes the key
    Change(None, row(3, "c"), (5, 0)),
    Change(row(3, "again", None), None, (6, 0)),
    Change(row(4, None), None, (7, 0)),
    Change(row(5, ""), None, (8, 0)),
    Change(row(6, "gone"), None, (9, 0)),
    Change(None, row(6, "gone"), (10, 0)),
]
END = [row(1, "a3"), row(3, "again", None), row(4, None), row(5, ""), row(20, "b")]
FILES = {"f_1.json": STORY[6:], "f_2.json": STORY[:7], "f_3.json": STORY[3:5]}  # out of order, and some twice


def debezium(change: Change, table: str = "d.t") -> Any:
    database, name = table.split(".")
    op = "d" if change.after is None else "c" if change.before is None else "u"
    place = {"file": "bin.000007", "pos": change.at[0] * 100 + change.at[1], "row": 0}
    source = {"connector": "mysql", "db": database, "table": name, **place}
    return {"op": op, "before": change.before, "after": change.after, "source": source, "ts_ms": 1, "transaction": None}


def changed(change: Change) -> dict[str, Any] | None:
    if change.after is None or change.before is None:
        return None
    return {name: value for name, value in change.before.items() if value != change.after[name]}


def maxwell(change: Change, table: str = "d.t") -> Any:
    """With the position in the binary log, and without NULL members (output_nulls=false)."""
    found = maxwell_by_transaction(change, table)
    found["data"] = {name: value for name, value in found["data"].items() if value is not None}
    return {**found, "position": f"bin.000007:{change.at[0] * 100 + change.at[1]}"}


def maxwell_by_transaction(change: Change, table: str = "d.t") -> Any:
    database, name = table.split(".")
    kind = "delete" if change.after is None else "insert" if change.before is None else "update"
    found = {"database": database, "table": name, "type": kind, "ts": 1, "xid": change.at[0]}
    found |= {"commit": True} if change.last else {"xoffset": change.at[1]}
    old = changed(change)
    return {**found, "data": dict(change.after or change.before or {}), **({} if old is None else {"old": old})}


def canal(change: Change, table: str = "d.t") -> Any:
    return canal_of([change], table)


def canal_of(changes: Sequence[Change], table: str = "d.t") -> Any:
    """All changes of a transaction have one id, as those of a batch; all values are text."""
    database, name = table.split(".")
    first = changes[0]
    kind = "DELETE" if first.after is None else "INSERT" if first.before is None else "UPDATE"
    types = {"id": "bigint(20)", "n": "varchar(255)", "qty": "BIGINT"}
    found = {"id": first.at[0], "database": database, "table": name, "pkNames": ["id"], "isDdl": False, "type": kind}
    return {
        **found,
        "es": 2,
        "ts": 1,
        "sql": "",
        "mysqlType": types,
        "data": [texts(one.after or one.before or {}) for one in changes],
        "old": [texts(changed(one) or {}) for one in changes] if kind == "UPDATE" else None,
    }


def texts(values: Row) -> Any:
    return {name: None if value is None else str(value) for name, value in values.items()}


def ogg(change: Change, table: str = "d.t") -> Any:
    op = "D" if change.after is None else "I" if change.before is None else "U"
    place = f"{10**19 + change.at[0]:023}{change.at[1]:04}"  # more than a long takes
    found = {"table": table, "op_type": op, "op_ts": "2026-01-31 10:00:00.000000", "pos": place, "primary_keys": ["id"]}
    return {**found, "tokens": {}, "before": change.before, "after": change.after}


class Told(NamedTuple):
    """A dialect."""

    name: str
    message: Callable[..., Any]
    order: tuple[str, ...]
    type: str = "long"  # of the order


DIALECTS = {
    "debezium": Told("debezium-json", debezium, ("source.file", "source.pos", "source.row")),
    "maxwell": Told("maxwell-json", maxwell, ("message.position.file", "message.position.offset", "message.xoffset")),
    "maxwell by transaction": Told("maxwell-json", maxwell_by_transaction, ("message.xid", "message.xoffset")),
    "canal": Told("canal-json", canal, ("message.id",)),
    "ogg": Told("ogg-json", ogg, ("message.pos",), "string"),
}


def lines(*messages: Any) -> bytes:
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in messages)


def work_of(path: Path, dialect: str, engine: str = "blocks", **more: str) -> Work:
    more = {name.replace("_", "."): value for name, value in more.items()}
    settings = {"key": "id", "feed.dialect": DIALECTS[dialect].name, "reject.policy": "quarantine", **more}
    work = Work(path, engine, {**settings, "output.format": "parquet"})
    work.put("master/m", TYPES.empty_table(), "parquet")
    return work


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_story(tmp_path: Path, dialect: str, engine: str) -> None:
    told = DIALECTS[dialect]
    work = work_of(tmp_path, dialect, engine)
    for name, changes in FILES.items():
        work.put(f"feed/{name}", lines(*map(told.message, changes)))
    report = work.run()

    assert sorted(work.rows(), key=lambda one: one["id"]) == END
    order = work.manifest.spec["order"]
    assert order.get("fields", [order.get("field")]) == [*told.order]
    counts = {name.removeprefix("feed "): count for name, count in report.counts.items() if name.startswith("feed ")}
    assert {name: count for name, count in counts.items() if count} == {
        "rows": 15,
        "halves": 1,
        "inserted": 5,
        "delete of unknown": 2,
        "superseded": 9,
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_first_run_has_the_types_of_the_messages(tmp_path: Path, dialect: str) -> None:
    work = work_of(tmp_path, dialect, allow_empty_master="true")
    (tmp_path / "master" / "m.parquet").unlink()
    work.put("feed/f_1.json", lines(*map(DIALECTS[dialect].message, STORY)))
    work.run()
    assert {one.name: one.type for one in work.table().schema} == {one.name: one.type for one in TYPES}
    assert sorted(work.rows(), key=lambda one: one["id"]) == END


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_table_takes_the_story(tmp_path: Path, dialect: str) -> None:
    told = DIALECTS[dialect]
    order = {"order_by": list(told.order), "order_type": [told.type] * len(told.order), "null.order": "lowest"}
    table = Table.create(str(tmp_path / "table"), {"key": "id", "feed.dialect": told.name, **order, **NO_LIMITS})
    work = Work(tmp_path)
    for name in ("f_2.json", "f_1.json", "f_3.json"):
        table.apply(str(work.put(name, lines(*map(told.message, FILES[name])))))
    assert sorted(table.scan().to_arrow().select(TYPES.names).to_pylist(), key=lambda one: one["id"]) == END


@pytest.mark.parametrize("dialect", DIALECTS)
def test_two_tables(tmp_path: Path, dialect: str) -> None:
    work, message = work_of(tmp_path, dialect), DIALECTS[dialect].message
    work.put("feed/f_1.json", lines(message(STORY[0]), message(STORY[1], "d.u")))
    cure = r"set feed\.table to that of the master"
    with pytest.raises(DataError, match=rf"f_1\.json: has rows of d\.u, and others are of d\.t; {cure}"):
        work.run()
    work.settings["feed.table"] = "d.u"
    report = work.run()
    assert (work.rows(), report.counts["feed rows"]) == ([STORY[1].after], 1)
    assert "messages that are no rows: 1 other table" in report.notes


CREATED = {"type": "table-create", "database": "d", "table": "u", "def": {"columns": []}, "ts": 1, "sql": "create"}
ALTERED = {**CREATED, "type": "table-alter", "old": {"table": "u", "charset": "utf8"}, "position": "bin.1:1"}
_BOOT = {"database": "d", "table": "t", "ts": 1}
NO_ROWS = [  # first messages of a feed, and how they are counted
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
            {**_OGG, "after": {**_OGG["after"], "n_isMissing": True}},
            "field n is not sent, and a field that is not sent",
        ),
        ({**_OGG_UPDATE, "after": {"id": 1, "n": None}}, "field qty is not sent, and a field that is not sent cannot"),
        (lines(_OGG)[:-9], "is not JSON"),
        (b'{"op_type":"I","op_type":"I"}', "has the member 'op_type' twice"),
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
    report = work.run()
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


@pytest.mark.parametrize(("dialect", "title"), [("maxwell", "Maxwell"), ("canal", "Canal"), ("ogg", "GoldenGate")])
def test_a_file_of_another_form(tmp_path: Path, dialect: str, title: str) -> None:
    work = work_of(tmp_path, dialect)
    work.put("feed/f_1.json", lines(row(1, "a")))
    with pytest.raises(DataError, match=rf"has no messages of {title} \(it has id, n, qty\); deliver the feed in"):
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


TRUNCATES = {
    "ogg": {**ogg(STORY[2]), "op_type": "T", "before": None, "after": None},
    "canal": {**canal(STORY[2]), "type": "TRUNCATE", "isDdl": True, "data": None, "old": None, "mysqlType": None},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dialect", TRUNCATES)
def test_a_truncate_deletes_what_is_older(tmp_path: Path, dialect: str, engine: str) -> None:
    work, message = work_of(tmp_path, dialect, engine), DIALECTS[dialect].message
    work.put("feed/f_1.json", lines(TRUNCATES[dialect], *map(message, (*STORY[:2], STORY[8]))))
    report = work.run()
    assert (work.rows(), report.counts["feed truncate"]) == ([STORY[8].after], 1)


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
