"""Messages of Debezium: genuine feeds with the rows of their tables at the end, and single messages of each kind.

``debezium/`` has feeds of Debezium 3.6.1 from PostgreSQL 15 (runs "hot" and "truncate"), in which texts of more than
100 characters are shortened, and the rows that ``SELECT *`` gave at their end, each as ``row_to_json``.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mutator
from mutator.cli import main
from mutator.dataset.side_columns import read_sides
from mutator.errors import ConfigError, DataError
from mutator.formats.files import json_lines
from mutator.rules.dialects.debezium_messages import ORDERS
from mutator.rules.order_columns import SEQUENCES, kept_orders
from mutator.rules.order_tuples import decode
from mutator.rules.truth_table import MOVED_INCOMPLETE
from mutator.table.table import Table
from tests.support.dialect_stories import lines
from tests.support.named_runs import ENGINES, Work, avro
from tests.support.no_limits import NO_LIMITS

FEEDS = Path(__file__).with_name("debezium")
at = datetime.fromisoformat
UNSENT = "__debezium_unavailable_value"


def typed(kind: str, name: str = "", **parameters: str) -> dict[str, Any]:
    """Return a type of Kafka Connect. parameters: with _ for the dots in their names."""
    named = {"name": f"io.debezium.{name}" if name.count(".") == 1 else name} if name else {}
    said = {key.replace("_", "."): value for key, value in parameters.items()}
    return {"type": kind, **named, **({"parameters": said} if said else {})}


DECIMAL = "org.apache.kafka.connect.data.Decimal"
_TYPES = [  # of a column, and of its values in messages
    *((pa.int64(), typed("int64")), (pa.int32(), typed("int32")), (pa.string(), typed("string"))),
    *((pa.float64(), typed("double")), (pa.bool_(), typed("boolean"))),
    (pa.decimal128(9, 2), typed("bytes", DECIMAL, scale="2", connect_decimal_precision="9")),
    (pa.date32(), typed("int32", "time.Date")),
    (pa.timestamp("us"), typed("int64", "time.MicroTimestamp")),
    (pa.timestamp("us", "UTC"), typed("string", "time.ZonedTimestamp")),
]
CONNECT = {str(one): connect for one, connect in _TYPES}


def table_of(columns: str) -> Any:
    """Return the pa.Schema of a table. columns: names and types."""
    types = {str(one): one for one, _ in _TYPES}
    return pa.schema([(name, types[kind]) for name, kind in (one.split(" ", 1) for one in columns.split("; "))])


_ORDERS = "order_id int64; line int32; product_id int64; qty int64; price decimal128(9, 2); note string; "
_PRODUCTS = "id int64; name string; price decimal128(9, 2); weight double; qty int64; active bool; born date32[day]; "
_PRODUCTS += "updated timestamp[us]; seen timestamp[us, tz=UTC]; notes string; tags string"
TABLES = {
    "orders": (table_of(f"{_ORDERS}placed timestamp[us, tz=UTC]"), "order_id,line"),
    "products": (table_of(_PRODUCTS), "id"),
}
DEBEZIUM = {"feed.dialect": "debezium-json", "reject.policy": "quarantine", "allow.empty.master": "true"}
NO_SCHEMA = {"feed.time.unit": "us", "feed.decimals": "base64"}


def schema_of(fields: Iterable[Mapping[str, Any]], name: str = "public.t") -> dict[str, Any]:
    """Return the schema of messages, as the JsonConverter writes it."""
    row = {"type": "struct", "fields": list(fields), "optional": True, "name": f"{name}.Value"}
    images = [{**row, "field": image} for image in ("before", "after")]
    return {"type": "struct", "fields": [*images, {"type": "string", "field": "op"}], "name": f"{name}.Envelope"}


def wrapped(line: bytes, schema: Mapping[str, Any]) -> bytes:
    found = b"null" if line == b"null" else json.dumps(schema).encode()
    return b'{"schema":%b,"payload":%b}' % (found, line)


def expected(feed: str, table: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the rows of a table at the end, by key; JSON is parsed."""
    found = {}
    for line in gzip.decompress((FEEDS / f"{feed}.expected.json.gz").read_bytes()).splitlines():
        row = json.loads(line, parse_float=str)
        for field in table:
            value = row[field.name]
            if value is None or field.name == "tags":
                continue
            if pa.types.is_timestamp(field.type):
                row[field.name] = datetime.fromisoformat(value)
            elif pa.types.is_date(field.type):
                row[field.name] = date.fromisoformat(value)
            elif pa.types.is_decimal(field.type):
                row[field.name] = Decimal(value)
            elif pa.types.is_floating(field.type):
                row[field.name] = float(value)
        key = ("order_id", "line") if "line" in row else ("id",)
        found[tuple(row[name] for name in key)] = row
    return found


def as_rows(table: Any, keys: Iterable[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return records by key; JSON is parsed."""
    rows = table.to_pylist()
    for row in rows:
        if row.get("tags") is not None:
            row["tags"] = json.loads(row["tags"], parse_float=str)
    return {tuple(row[key] for key in keys): row for row in rows}


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["plain", "schema"])
@pytest.mark.parametrize("feed", ["hot-orders", "truncate-orders", "truncate-products"])
def test_genuine_feeds(tmp_path: Path, feed: str, form: str, engine: str) -> None:
    """Messages in any order, spread over runs, give the rows of the table.

    The value that a row with a new key does not have may come in a later run: it is a reject, and its key not compared.
    """
    table, key = TABLES[feed.partition("-")[2]]
    work = Work(tmp_path, engine, {"key": key, **DEBEZIUM, "output.format": "parquet", "moved.unset": "reject"})
    messages = _lines(FEEDS / feed)
    if form == "plain":
        work.settings |= NO_SCHEMA
        work.put("master/m", table.empty_table(), "parquet")
    else:
        (tmp_path / "master").mkdir()
        schema = schema_of({"field": one.name, "optional": True, **CONNECT[str(one.type)]} for one in table)
        messages = [wrapped(line, schema) for line in messages]
    random.Random(feed + form).shuffle(messages)
    counts, reasons = Counter[str](), list[str]()
    for number in range(3):
        for half in range(2):
            work.put(
                f"feed{number}/f_{number}.{half}.json.gz",
                gzip.compress(b"\n".join(messages[2 * number + half :: 6]), 1),
            )
        report = work.run(master=f"out{number}" if number else "master", feed=f"feed{number}")
        counts.update(report.counts)
        reasons += [one["reason"] for one in report.rejects.get("feed", [])]

    keys = key.split(",")
    assert all("is not sent with a new key, so no record has its value; REPLICA" in reason for reason in reasons)
    said = [json.loads(line) for line in _lines(FEEDS / feed)]
    unsent = [one for one in said if one is not None and UNSENT in (one["after"] or {}).values()]
    moved = {tuple(one["after"][name] for name in keys) for one in unsent if one["op"] == "c"}
    found, wanted = as_rows(work.table(), keys), expected(feed, table)
    assert found.keys() - moved == wanted.keys() - moved
    for one in wanted.keys() - moved:
        assert found[one] == wanted[one]
    assert len(wanted.keys() - moved) > 20
    assert len(unsent) > len(moved) or not unsent
    assert UNSENT not in str(found)
    assert counts["feed rows"] == len(said) - said.count(None)
    assert bool(counts["feed truncate"]) == any(one is not None and one["op"] == "t" for one in said)
    assert [(one.name, one.type) for one in work.table().schema] == [(one.name, one.type) for one in table]
    assert work.manifest.spec["order"]["fields"] == [part.name for part in ORDERS["postgresql"]]


def _lines(directory: Path) -> list[bytes]:
    return [line for path in sorted(directory.iterdir()) for line in gzip.decompress(path.read_bytes()).splitlines()]


def message(op: str | None, after: Any = None, before: Any = None, lsn: int = 1, **more: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "public", "table": "t", "lsn": lsn, "sequence": f'[null,"{lsn}"]'}
    found = {"before": before, "after": after, "source": {**source, **more}, "op": op, "transaction": None}
    return found if op is not None else {name: value for name, value in found.items() if name != "op"}


def run(tmp_path: Path, messages: bytes, engine: str = "blocks", **settings: str) -> tuple[Any, Any]:
    """Merge messages into nothing; return the report and the rows."""
    work = Work(tmp_path, engine, {"key": "id", **DEBEZIUM, "output.format": "parquet"})
    (tmp_path / "master").mkdir(exist_ok=True)
    shutil.rmtree(tmp_path / "out1", ignore_errors=True)
    work.put("feed/f_1.json", messages)
    report = work.run({name.replace("_", "."): value for name, value in settings.items()})
    return report, [{name: row[name] for name in row if "source" not in name} for row in work.rows()]


ROW, OTHER = {"id": 1, "n": "a"}, {"id": 2, "n": "b"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["plain", "schema"])
def test_messages_of_each_kind(tmp_path: Path, form: str, engine: str) -> None:
    found = [
        message("r", ROW),
        message("C", OTHER, lsn=2),
        message("u", {"id": 3, "n": "c"}, OTHER, lsn=3),  # changes the key
        message("u", {"id": 1, "n": None}, ROW, lsn=3),
        message("c", {"id": 4, "n": "d"}, lsn=4),
        message("D", None, {"id": 4, "n": ""}, lsn=5),
        None,
        {"ts_ms": 5},
        {"status": "BEGIN", "id": "5:7", "ts_ms": 5, "event_count": None, "data_collections": None},
        {
            "source": {"table": None},
            "databaseName": "d",
            "ddl": "CREATE TABLE t",
            "tableChanges": [{"id": 1}],
            "ts_ms": 1,
        },
        {**message("m", lsn=6), "message": {"prefix": "p", "content": "eA=="}},
    ]
    body = lines(*found)
    if form == "schema":
        schema = schema_of([{"field": "id", "type": "int32"}, {"field": "n", "type": "string", "optional": True}])
        body = lines(*(wrapped(json.dumps(one).encode(), schema) for one in found), b'{"schema":null,"payload":null}')
    report, rows = run(tmp_path, body, engine)

    assert rows == [{"id": 1, "n": None}, {"id": 3, "n": "c"}]
    assert report.rejects == {}
    nulls = 2 if form == "schema" else 1
    kinds = f"1 heartbeat, 1 message, 1 schema change, {nulls} tombstone, 1 transaction"
    shown = next(note for note in report.notes if note.startswith("messages that are no rows: "))
    assert sorted(shown.partition(": ")[2].split(", ")) == sorted(kinds.split(", "))
    assert (report.counts["feed rows"], report.counts["feed halves"]) == (6, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_truncate_that_deletes_too_much_stops(tmp_path: Path, engine: str) -> None:
    run(tmp_path, lines(message("c", ROW)), engine)
    work = Work(tmp_path, engine, {"key": "id", "max.delete.fraction": "0.1"})
    work.runs = 1
    work.put("more/f_2.json", lines(message("t", lsn=4)))
    with pytest.raises(DataError, match="check that op code t in field op is a truncate"):
        work.run(master="out1", feed="more")


def test_a_field_that_is_not_sent_moves_with_its_record(tmp_path: Path) -> None:
    found = [message("c", {**ROW, "p": "x"}), message("u", {"id": 1, "n": UNSENT, "p": "y"}, lsn=2)]
    report, rows = run(tmp_path, lines(*found), partitioned_by="p", partition_columns="file")
    assert (rows, report.rejects) == ([{**ROW, "p": "y"}], {})


def test_fields_that_may_not_be_null(tmp_path: Path) -> None:
    """They stay so where no record begins with a patch."""
    schema = avro(("id", "long"), ("n", "string"))
    (tmp_path / "s.avsc").write_text(json.dumps(schema))
    found = [message("u", {"id": 1, "n": UNSENT}, lsn=2), message("u", {"id": 2, "n": UNSENT}), message("c", ROW)]
    report, rows = run(tmp_path, lines(*found), output_schema=str(tmp_path / "s.avsc"))
    assert (rows, report.rejects) == ([ROW], {})
    with pytest.raises(ConfigError, match=r"field n may not be NULL in .*, and a patch may begin a record"):
        run(tmp_path, lines(*found), output_schema=str(tmp_path / "s.avsc"), patch_unknown="insert")


UNSENT_FORMS = [
    UNSENT,
    base64.b64encode(UNSENT.encode()).decode(),
    [UNSENT],
    [*UNSENT.encode()],
    ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    {UNSENT: UNSENT},
]
BAD = [
    *(
        (message("c", {"id": 1, "n": value}), "field n is not sent with a new key, so no record has its value; REPLICA")
        for value in UNSENT_FORMS
    ),
    (message("u", {"id": 1, "n": UNSENT}, ROW | {"id": 7}), "field n is not sent with a new key"),
    (message("d"), "is a delete without a key, because before is null: give the table a primary key"),
    (message("d", None, {"id": None, "n": ""}), "is a delete without a key"),
    (message("x", ROW), "has the op 'x', which is none of c, r, u, d, t and m"),
    (message(None, ROW), "has no op, so it is no message of Debezium"),
    (message("u"), "field id is NULL"),
    (message("u", {**ROW, "new": 1}), "has the member 'after.new', which none of the first rows has"),
    (message("u", [1]), "has no JSON object in 'after'"),
    (lines(message("u", ROW))[:-9], "is not JSON"),
    (b'{"op":"u","op":"u"}', "has the member 'op' twice"),
    (b'{"op":"u","after":{"id":1,"id":2}}', "has the member 'after.id' twice"),
    (b'{"op":"u","after":{"id":1,"n":"\xff"}}', "is not UTF-8"),
    (b'{"op":"u","after":"{}"}', "has no JSON object in 'after'"),
    (message("u", {"id": "x", "n": "a"}), "field id is not of type int64"),
    (b'"null"', "is not a JSON object"),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bad_message_is_a_reject(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_SAMPLE", 2000)  # bytes, which are the first rows
    first = [message("c", {"id": number, "n": "x"}) for number in range(100, 130)]
    work = Work(tmp_path, engine, {"key": "id", **DEBEZIUM, "split.bytes": "3000", "moved.unset": "reject"})
    head = {"id": pa.int64(), "n": pa.string(), "source.lsn": pa.int64()}
    work.put("master/m", pa.schema([*head.items()]).empty_table(), "parquet")
    work.put("feed/f.json", lines(*first, *(one for one, _ in BAD), message("c", OTHER)))
    report = work.run()

    reasons = [row["reason"] for row in mutator.Rejects(path=report.rejected_file).to_pylist()]
    assert [reason[: len(why)] for reason, (_, why) in zip(reasons, BAD, strict=True)] == [why for _, why in BAD]
    assert (report.counts["feed rejected"], len(work.rows())) == (len(BAD), 31)


def test_files_of_two_tables(tmp_path: Path) -> None:
    cure = r"set feed\.table to that of the master"
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "f_0.json").write_bytes(lines(None, message("c", {"x": 1}, schema=None, db="d")))
    with pytest.raises(DataError, match=rf"f_1\.json: has rows of public\.t, .* of d\.t, as in \S*f_0\.json; {cure}"):
        run(tmp_path, lines(message("c", ROW)))
    assert run(tmp_path, lines(message("c", ROW)), feed_table="d.t", key="x")[1] == [{"x": 1}]


def test_a_place_keeps_the_table_of_its_messages(tmp_path: Path) -> None:
    """A later run, or another version, takes no messages of another table, and a typo does not drop a feed."""
    work = Work(tmp_path, settings={"key": "id", **DEBEZIUM})
    table = Table.create(str(tmp_path / "table"), {"key": "id", "feed.dialect": "debezium-json", **NO_LIMITS})
    (tmp_path / "master").mkdir()
    first = work.put("feed/f_1.json", lines(message("c", ROW)))
    other = work.put("other/f_2.json", lines(message("t", lsn=9, table="u")))
    more = work.put("more/f_3.json", lines(message("c", OTHER, lsn=5)))
    work.run()
    table.apply(str(first))
    wrong = r"f_2\.json: has rows of public\.u, and others are of public\.t, as in .*; set feed.table"
    with pytest.raises(DataError, match=wrong):
        work.run(master="out1", feed="other")
    with pytest.raises(DataError, match=wrong):
        table.apply(str(other))
    with pytest.raises(DataError, match=r"has rows of public\.typo, and others are of public\.t"):
        work.run({"feed.table": "public.typo"}, master="out1", feed="more")
    table.apply(str(more))
    assert table.scan().to_arrow().num_rows == work.run(master="out1", feed="more").counts["output rows"] == 2


def test_a_table_that_begins_late_among_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows have an order, and a column that only another table had is not lost in silence."""
    monkeypatch.setattr("mutator.plan.inspect.envelopes._ROWS", 2)
    others = [message("c", {"x": 1}, table="u")] * 2
    found = [*others, message("u", {"id": 1, "n": "new"}, lsn=9), message("c", ROW), message("c", {**OTHER, "x": 1})]
    work = Work(tmp_path, settings={"key": "id", **DEBEZIUM, "feed.table": "public.t"})
    work.put("master/m", pa.table({"id": [0], "n": ["m"]}), "parquet")
    work.put("feed/f_1.json", lines(*found))
    report = work.run()
    assert [(row["id"], row["n"]) for row in work.rows()] == [(0, "m"), (1, "new")]
    assert [one["reason"].partition(",")[0] for one in report.rejects["feed"]] == ["has the member 'after.x'"]


def test_a_table_in_the_middle_of_a_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mutator.plan.inspect.envelopes._ROWS", 1)
    with pytest.raises(DataError, match=r"has rows of public\.u"):
        run(tmp_path, lines(message("c", ROW), message("u", ROW, table="u")))


UTC = pa.timestamp("us", "UTC")
TYPES = [  # of a field in the schema, value in a message, type and value in the result
    (typed("int32", "time.Date"), -719162, pa.date32(), date(1, 1, 1)),
    (typed("int32", "org.apache.kafka.connect.data.Date"), 1, pa.date32(), date(1970, 1, 2)),
    (typed("int64", "time.Timestamp"), 1500, pa.timestamp("ms"), at("1970-01-01T00:00:01.5")),
    (typed("int64", "time.MicroTimestamp"), -1, pa.timestamp("us"), at("1969-12-31T23:59:59.999999")),
    (typed("string", "time.ZonedTimestamp"), "2026-01-31T10:00:00.5Z", UTC, at("2026-01-31T10:00:00.5+00:00")),
    (typed("int64", "time.MicroTime"), 1, pa.time64("us"), time(0, 0, 0, 1)),
    (typed("int32", "time.Year"), 2026, pa.int32(), 2026),
    (typed("bytes", "data.Bits", length="10"), "BQE=", pa.string(), "0100000101"),
    (typed("bytes"), "AP8=", pa.binary(), b"\0\xff"),
    (typed("struct", "data.VariableScaleDecimal"), {"scale": 3, "value": "BQ=="}, pa.string(), "0.005"),
    (
        typed("bytes", DECIMAL, scale="0", connect_decimal_precision="20"),
        *("AP//////////", pa.decimal128(20, 0), Decimal(2**64 - 1)),
    ),
    (typed("string", "data.Json"), '{"a": 1}', pa.string(), '{"a": 1}'),
    (typed("array") | {"items": typed("int32")}, [1, None], pa.list_(pa.int32()), [1, None]),
    (typed("array") | {"items": typed("int32", "time.Date")}, [1], pa.string(), "[1]"),
    (typed("double"), "NaN", pa.float64(), "nan"),
    (typed("boolean"), True, pa.bool_(), True),
]


def test_types_are_those_of_the_schema(tmp_path: Path) -> None:
    fields = [{"field": "id", "type": "int32"}, *({"field": f"f{n}", **one[0]} for n, one in enumerate(TYPES))]
    row = {"id": 1, **{f"f{number}": one[1] for number, one in enumerate(TYPES)}}
    nulls = dict.fromkeys(row) | {"id": 2}
    wrong = nulls | {"id": 3, "f0": 9223372036854775807}
    schema = schema_of(fields)
    found = [wrapped(json.dumps(message("c", one)).encode(), schema) for one in (row, nulls, wrong)]
    work = Work(tmp_path, settings={"key": "id", **DEBEZIUM, "output.format": "parquet"})
    (tmp_path / "master").mkdir()
    work.put("feed/t+0+0000000000.json", lines(*found))
    report = work.run()

    table = work.table()
    assert table.schema.names == [one["field"] for one in fields]
    assert [table.schema.field(n).type for n in range(1, len(fields))] == [one[2] for one in TYPES]
    one, other = sorted(table.to_pylist(), key=lambda row: row["id"])
    one["f14"] = str(one["f14"])
    assert one == {"id": 1, **{f"f{number}": one[3] for number, one in enumerate(TYPES)}}
    assert other == nulls
    assert [one["reason"] for one in report.rejects["feed"]] == [
        "field f0 is infinity, or no time of the years 1 to 9999, or no time of a day"
    ]


def test_another_schema_in_the_middle_is_a_reject(tmp_path: Path) -> None:
    def of(data_type: str) -> Any:
        return schema_of([{"field": "id", "type": "int32"}, {"field": "n", "type": data_type}])

    found = [wrapped(json.dumps(message("c", ROW)).encode(), of(one)) for one in ("string", "int32")]
    report, rows = run(tmp_path, lines(*found))
    (reject,) = report.rejects["feed"]
    assert reject["reason"].startswith("has another schema than the first rows of the file, for field n; put messages")
    assert rows == [ROW]


UNCLEAR = [
    (
        pa.timestamp("us"),
        5,
        {},
        r"field n is timestamp\[us\] in the result and 5 here, of an unknown unit; set feed\.time\.unit",
    ),
    (pa.timestamp("us"), 1500, {"feed.time.unit": "ms"}, at("1970-01-01T00:00:01.5")),
    (pa.timestamp("us"), "1970-01-01T00:00:01", {}, at("1970-01-01T00:00:01")),
    (pa.date32(), 1, {}, date(1970, 1, 2)),
    (pa.date32(), "1970-01-03", {}, date(1970, 1, 3)),
    (pa.decimal128(9, 2), "BQ==", {}, r"'BQ==' here, which may be a number or base64; set feed\.decimals=base64"),
    (pa.decimal128(9, 2), "1234", {}, r"'1234' here, which may be a number or base64"),
    (pa.decimal128(9, 2), "1234", {"feed.decimals": "text"}, Decimal(1234)),
    (pa.decimal128(9, 2), "BQ==", {"feed.decimals": "base64"}, Decimal("0.05")),
    (pa.decimal128(9, 2), "-1.5", {}, Decimal("-1.5")),
    (pa.binary(), "AP8=", {}, r"text here, which may be base64 or hex; have the messages delivered with their schema"),
]


@pytest.mark.parametrize(("data_type", "value", "settings", "wanted"), UNCLEAR)
def test_what_a_file_without_a_schema_does_not_say(
    tmp_path: Path, data_type: Any, value: Any, settings: dict[str, str], wanted: Any
) -> None:
    work = Work(tmp_path, settings={"key": "id", **DEBEZIUM, **settings})
    work.put("master/m", pa.schema([("id", pa.int64()), ("n", data_type)]).empty_table(), "parquet")
    delete = message("d", None, {"id": 3, "n": ""})  # as PostgreSQL fills a column that is NOT NULL
    found = [message("c", {"id": 1, "n": value}), message("c", {"id": 2, "n": None}), delete]
    work.put("feed/t+0+0000000000.json", lines(*found))
    if isinstance(wanted, str):
        with pytest.raises(DataError, match=wanted):
            work.run()
        return
    work.run()
    assert work.rows() == [{"id": 1, "n": wanted}, {"id": 2, "n": None}]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"op": "op"}, "op: 'op' conflicts with feed.dialect = debezium-json, where the op of a message says"),
        ({"delete_codes": "d"}, "delete_codes: 'd' conflicts with feed.dialect"),
        ({"delete.when": "not null"}, "delete.when: 'not null' conflicts with feed.dialect"),
        ({"key": "0"}, "the ID is field 0; name it"),
        ({"feed.format": "csv"}, "conflicts|JSON"),
    ],
)
def test_settings_that_the_dialect_excludes(tmp_path: Path, settings: dict[str, str], why: str) -> None:
    work = Work(tmp_path, settings={"key": "id", **DEBEZIUM, **settings})
    (tmp_path / "master").mkdir()
    work.put("feed/f_1.json", lines(message("c", ROW)))
    with pytest.raises((ConfigError, DataError), match=why):
        work.run()


def test_a_file_of_another_form_is_an_error(tmp_path: Path) -> None:
    work = Work(tmp_path, settings={"key": "id", **DEBEZIUM})
    (tmp_path / "master").mkdir()
    work.put("feed/f_1", pa.table({"id": [1]}), "parquet")
    with pytest.raises(DataError, match=r"is Parquet, which feed\.dialect=debezium-json does not read"):
        work.run()


def test_a_table_takes_messages(tmp_path: Path) -> None:
    settings = {"key": "id", "order_by": "source.lsn", "feed.dialect": "debezium-json", **NO_LIMITS}
    table = Table.create(str(tmp_path / "table"), settings)
    work = Work(tmp_path)
    table.apply(str(work.put("f_1.json", lines(message("c", ROW), message("c", OTHER), None))))
    report = table.apply(str(work.put("f_2.json", lines(message("d", None, ROW, lsn=2), None, {"ts_ms": 1}))))
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == [2]
    assert "messages that are no rows: 1 heartbeat, 1 tombstone" in str(report)
    assert "\n2 rows ignored\n" in str(report)


def test_a_table_reads_messages_as_its_last_apply_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A later apply, and a version in the middle, need no dialect again; other settings replace it."""
    table, work = Table.create(str(tmp_path / "table"), {"key": "id", **NO_LIMITS}), Work(tmp_path)
    first = work.put("f_1.json", lines(message("c", {"id": 9, "n": "plain"})))
    table.apply(str(first), feed_dialect="debezium-json", feed_time_unit="us")
    table.compact()
    again = Table(str(tmp_path / "table"))
    again.apply(str(work.put("f_2.json", lines(message("c", ROW, lsn=5)))))
    assert [row["id"] for row in again.scan().to_arrow().to_pylist()] == [9, 1]
    assert main(["explain", again.path, "9"]) == 0
    assert "cannot" not in capsys.readouterr().out
    with pytest.raises(DataError, match=r"does not have the fields .* source\.sequence\[0\].*, set feed_dialect"):
        again.apply(pa.table({"id": [1], "n": ["x"], "o": ["D"]}), op="o")


def test_a_feed_without_the_order_of_the_place(tmp_path: Path) -> None:
    work, order = Work(tmp_path, settings={"key": "id", **NO_LIMITS}), "source.sequence[0], source.lsn, transaction"
    work.put("master/m", pa.table({"id": [0], "n": ["m"]}), "parquet")
    work.put("feed/f_1.json", lines(message("c", ROW)))
    work.put("mysql/f_2.json", lines({**message("c", ROW), "source": {"connector": "mysql", "file": "b", "pos": 1}}))
    work.put("plain/f_3.json", lines(ROW))
    work.run(DEBEZIUM)
    other = rf"f_2\.json: has messages in the order of source\.server_id, .*, and the master has .*{re.escape(order)}"
    with pytest.raises(DataError, match=other):
        work.run(master="out1", feed="mysql")
    wrong = rf"f_3\.json: does not have the fields .*{re.escape(order)}.*set feed\.dialect"
    with pytest.raises(DataError, match=wrong):
        work.run({"feed.dialect": ""}, master="out1", feed="plain")
    work.put("again/f_4.json", lines(message("c", OTHER)))
    with pytest.raises(DataError, match="f_4" + wrong[3:]):
        work.run({"op": "op"}, master="out1", feed="again")
    with pytest.raises(ConfigError, match=r"field source has more than .*; or, if .* are messages, set feed\.dialect"):
        work.run({"op": "op", "order_by": "source.lsn"}, master="out1", feed="again")


def test_a_restored_table_reads_messages_as_it_did(tmp_path: Path) -> None:
    """Not as the applies did that the restore undoes."""
    table, work = Table.create(str(tmp_path / "table"), {"key": "id", **NO_LIMITS}), Work(tmp_path)
    known = {"feed_dialect": "debezium-json", "feed_table": "public.t"}
    table.apply(str(work.put("f_1.json", lines(message("c", ROW, lsn=5)))), **known, feed_time_unit="us")
    table.apply(str(work.put("f_2.json", lines(message("c", OTHER, lsn=6)))), **known, feed_time_unit="ms")
    for number, unit in ((1, "us"), (2, "ms"), (0, None)):
        table.restore(number)
        assert Table(table.path).refresh().at().state.settings.get("feed.time.unit") == unit


def test_the_first_run_of_a_base_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its settings name no order fields: the messages say them."""
    base, made = tmp_path / "base", ("--key", "id", "-D", "feed.dialect=debezium-json", "-q")
    (base / "incr").mkdir(parents=True)
    (base / "incr/f_1.json").write_bytes(lines(message("c", ROW), message("u", ROW, lsn=2)))
    assert main(["workflow", "run", str(base), *made, "-D", "allow.empty.master=true", "-D", "claim.min.age=0s"]) == 0
    assert main(["explain", str(base), "1"]) == 0
    assert "upsert, order value [null, 2, null]: inserted (nothing, upsert)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("connector", "source", "wanted"),
    [
        ("postgresql", {"sequence": '["12","13"]', "lsn": 13}, [12, 13, 4]),
        ("postgresql", {"sequence": '[null,"13"]', "lsn": None}, [None, None, 4]),
        ("mysql", {"file": "mysql-bin.000012", "pos": 154, "row": 1}, [0, 12, 154, 1]),
        ("mariadb", {"file": "b.2", "pos": 1, "row": 0}, [0, 2, 1, 0]),
        ("sqlserver", {"commit_lsn": "00:0a", "change_lsn": "00:0b", "event_serial_no": 2}, ["00:0a", "00:0b", 2]),
        ("oracle", {"commit_scn": "98", "scn": "97", "ssn": 1}, [98, 97, 1]),
    ],
)
def test_the_fields_that_order_messages(
    tmp_path: Path, connector: str, source: dict[str, Any], wanted: list[Any]
) -> None:
    one = {**message("c", ROW, connector=connector, **source), "transaction": {"id": "1:2", "total_order": 4}}
    work = Work(tmp_path, settings={"key": "id", **DEBEZIUM})
    (tmp_path / "master").mkdir()
    work.put("feed/f_1.json", lines(one))
    work.run()
    (beside,) = (work.output / "_mutator" / "order").iterdir()
    (kept,) = read_sides(beside.open("rb"), (*SEQUENCES, *kept_orders("string"))).field(1).to_pylist()
    assert decode(kept) == [one.encode() if isinstance(one, str) else one for one in wanted]
    assert work.manifest.spec["order"]["fields"] == [part.name for part in ORDERS[connector]]
    kept = {"order_by": ORDERS[connector][0].name, "order.keep": "true", "null.order": "lowest"}
    work.run({**kept, **({"order_type": "string"} if connector == "sqlserver" else {})})
    assert work.rows()[0][ORDERS[connector][0].name] == wanted[0]


def test_messages_that_nothing_orders(tmp_path: Path) -> None:
    work = Work(tmp_path, settings={"key": "id", **DEBEZIUM})
    (tmp_path / "master").mkdir()
    work.put("feed/f_1.json", lines(message("c", ROW, connector="db2")))
    with pytest.raises(ConfigError, match="order_by: is not set, and no message of the feed says what orders it"):
        work.run()
    assert work.run({"sequence.pattern": "last"}).counts["feed inserted"] == 1


@pytest.mark.parametrize("is_table", [True, False], ids=["table", "directory"])
def test_a_place_before_its_first_feed(tmp_path: Path, is_table: bool) -> None:
    """Rows that are there before any message are older than all, and the place is that of a run with both."""
    work = Work(tmp_path, settings={"key": "id", "feed.dialect": "debezium-json"})
    work.put("master/m", pa.table({"id": pa.array([1, 2], pa.int64()), "n": ["a", "b"]}), "parquet")
    work.put("feed/f_1.json", lines(message("u", {**ROW, "n": "a2"}), message("c", {"id": 3, "n": "c"}, lsn=2)))
    (tmp_path / "nothing").mkdir()

    def begin(**settings: str) -> Any:
        given = {name if name == "order_by" else name.replace("_", "."): value for name, value in settings.items()}
        if is_table:
            return Table.create(str(tmp_path / "t"), {**work.settings, **given}, dataset=str(tmp_path / "master"))
        return work.run(given, feed="nothing")

    with pytest.raises(
        ConfigError, match=r"no messages yet .* that later feeds have, with order.keep=\S+ and null.order="
    ):
        begin()
    names = ",".join(part.name for part in ORDERS["postgresql"])
    with pytest.raises(ConfigError, match=r"source\.lsn; .* if feeds alone have it, set order.keep="):
        begin(order_by=names)
    begun = begin(order_by=names, order_keep="false", null_order="lowest")
    if is_table:
        begun.apply(str(tmp_path / "feed"))
        found = begun.refresh().scan().to_arrow().to_pylist()
    else:
        work.run(master=f"out{work.runs}")
        found, order = work.rows(), work.manifest.spec["order"]
    work.run()
    assert sorted(found, key=repr) == work.rows() == [{**ROW, "n": "a2"}, OTHER, {"id": 3, "n": "c"}]
    assert is_table or order == work.manifest.spec["order"]


def test_the_type_of_an_order_beside_the_rows_is_hinted(tmp_path: Path) -> None:
    messages, why = (
        lines(message("c", ROW, lsn=10**19)),
        "1 of 1 order values is a decimal number: set order_type=decimal",
    )
    with pytest.raises(DataError, match=why):
        run(tmp_path, messages, temporal_ordering_field_ordinal="source.lsn", reject_policy="fail")


@pytest.mark.parametrize("place", [*ENGINES, "table"])
@pytest.mark.parametrize("runs", [1, 3])
def test_changed_keys_of_a_genuine_feed_keep_their_values(tmp_path: Path, place: str, runs: int) -> None:
    """PostgreSQL does not send the long texts of rows whose keys change; they are in the rows of their old keys."""
    schema, key = TABLES["products"]
    work = Work(tmp_path, "records" if place == "records" else "blocks", {"key": key, **DEBEZIUM, **NO_SCHEMA})
    work.settings["output.format"] = "parquet"
    work.put("master/m", schema.empty_table(), "parquet")
    table = None
    if place == "table":
        names, types = zip(*((part.name, part.type) for part in ORDERS["postgresql"]), strict=True)
        order = {"order_by": ", ".join(names), "order_type": ", ".join(types), "order.keep": "false"}
        settings = {"key": key, **DEBEZIUM, **NO_SCHEMA, **order, "null.order": "lowest", **NO_LIMITS}
        del settings["allow.empty.master"]
        table = Table.create(str(tmp_path / "table"), settings, dataset=str(tmp_path / "master"))
    messages = _lines(FEEDS / "truncate-products")
    for number in range(runs):
        part = messages[number * len(messages) // runs : (number + 1) * len(messages) // runs]
        random.Random(number).shuffle(part)
        for half in range(2):
            work.put(f"feed{number}/f_{number}{half}.json.gz", gzip.compress(b"\n".join(part[half::2]), 1))
        if table is None:
            report: Any = work.run(master=f"out{number}" if number else "master", feed=f"feed{number}")
        else:
            report = table.refresh().apply(str(tmp_path / f"feed{number}"))
        assert (report.rejects, MOVED_INCOMPLETE in report.samples) == ({}, False)

    found = work.table() if table is None else table.refresh().scan().to_arrow()
    assert as_rows(found, [key]) == expected("truncate-products", schema)
