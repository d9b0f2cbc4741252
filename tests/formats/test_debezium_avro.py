"""Messages of Debezium in Avro containers and Parquet files, as the sinks of Kafka Connect write them.

``debezium/kinds.*`` have the same messages: JSON as Debezium 3.6.1 wrote it for a table of PostgreSQL 15 with a column
of each type, Avro as the ``AvroData`` of Kafka Connect made it of these, and Parquet as ``parquet-avro`` made that. The
schemas ``debezium/*.avsc`` are of ``AvroData`` as well.
"""

from __future__ import annotations

import gzip
import json
import struct
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator.cli import main
from mutator.errors import DataError
from tests.formats.test_debezium_json import FEEDS, TABLES, UNSENT, _lines, schema_of, wrapped
from tests.support import local_engine
from tests.support.connect_files import avro_file
from tests.support.named_runs import ENGINES, Work, avro
from tests.support.no_limits import NO_LIMITS

SETTINGS = {"reject.policy": "quarantine", "allow.empty.master": "true", "output.format": "parquet"}


def merged(path: Path, key: str, form: str, files: dict[str, bytes], engine: str = "blocks", **more: str) -> Any:
    """Return the records, the counts, the rejects and the manifest of a run."""
    settings = {"key": key, "feed.dialect": f"debezium-{form}", **SETTINGS}
    settings |= {name.replace("_", "."): value for name, value in more.items()}
    work = Work(path / form / engine, engine, settings)
    (work.path / "master").mkdir(parents=True)
    for name, content in files.items():
        work.put(f"feed/{name}.{form}", content)
    report = work.run()
    reasons = sorted(one["reason"] for one in report.rejects.get("feed", []))
    table = pa.concat_tables([pq.ParquetFile(one).read() for one in work.files] or [pa.table({})])
    own = {name: count for name, count in report.counts.items() if name not in ("feed ignored", "feed no mutations")}
    return table.schema, sorted(table.to_pylist(), key=str), own, reasons, work.manifest.spec["order"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_each_type_is_that_of_json(tmp_path: Path, form: str, engine: str) -> None:
    of_json = gzip.decompress((FEEDS / "kinds.json.gz").read_bytes())
    wanted = merged(tmp_path, "id", "json", {"k+0+0": of_json})
    assert merged(tmp_path, "id", form, {"k+0+0": (FEEDS / f"kinds.{form}").read_bytes()}, engine) == wanted
    assert len(wanted[1]) == 3
    assert wanted[3] == []


@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_init_proposes_the_dialect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for name in (f"kinds.{form}", "kinds.json.gz"):
        assert main(["init", "--feed", str(FEEDS / name), "-o", "-"]) == 0
        found.append(tomllib.loads(capsys.readouterr().out) | {"feed": ""})
    assert found[0] | {"output.format": "parquet"} == found[1] | {"feed.dialect": f"debezium-{form}"}
    assert "id" in found[0]["key"]


@pytest.mark.thorough(keep="orders")
@pytest.mark.parametrize("feed", ["hot-orders", "truncate-orders", "truncate-products"])
def test_genuine_feeds(tmp_path: Path, feed: str) -> None:
    name = feed.partition("-")[2]
    messages, key = _lines(FEEDS / feed), TABLES[name][1]
    schema = json.loads((FEEDS / f"{name}.avsc").read_text())
    connect = schema_of(_connect_of(schema))
    parts = [messages[number::3] for number in range(3)]
    of_json = {f"f_{at}": b"\n".join(wrapped(line, connect) for line in part) for at, part in enumerate(parts)}
    of_avro = {f"f_{at}": avro_file(schema, map(json.loads, part)) for at, part in enumerate(parts)}
    wanted = merged(tmp_path, key, "json", of_json)
    assert merged(tmp_path, key, "avro", of_avro) == wanted
    assert len(wanted[1]) > 20


def _connect_of(schema: Any) -> list[dict[str, Any]]:
    """Return the fields of a row as the schema of a message has them."""
    (row,) = (one["type"][1] for one in schema["fields"] if one["name"] == "before")
    plain = {"int": "int32", "long": "int64"}
    found = []
    for field in row["fields"]:
        one = field["type"][-1] if isinstance(field["type"], list) else field["type"]
        one = {"type": one} if isinstance(one, str) else one
        more = {name: one[f"connect.{name}"] for name in ("name", "parameters") if f"connect.{name}" in one}
        found.append({"field": field["name"], "type": plain.get(one["type"], one["type"]), **more})
    return found


def table_of(*fields: Any) -> dict[str, Any]:
    """Return the schema of messages of a table."""
    source = avro(*((name, "string") for name in ("connector", "schema", "table")), ("lsn", ["null", "long"]), name="S")
    row = avro(*fields, name="Value")
    return avro(
        ("before", ["null", row]), ("after", ["null", "Value"]), ("source", source), ("op", "string"), name="Envelope"
    )


def message(op: str, after: Any = None, before: Any = None, lsn: int = 1, table: str = "t") -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "public", "table": table, "lsn": lsn}
    return {"before": before, "after": after, "source": source, "op": op}


ROWS = table_of(("id", "int"), ("n", ["null", "string"]))
ROW, OTHER = {"id": 1, "n": "a"}, {"id": 2, "n": "b"}
HEARTBEAT = avro(("ts_ms", "long"), name="Heartbeat")
TRANSACTION = avro(("status", "string"), ("id", "string"), ("ts_ms", "long"), name="TransactionMetadataValue")


def test_files_of_other_messages(tmp_path: Path) -> None:
    """The newest file by name has no column of the table, which no row loses."""
    files = {
        "a": avro_file(ROWS, [message("c", ROW)]),
        "b": avro_file(table_of(("x", "bytes")), [message("c", {"x": "AA=="}, table="u")]),
        "c": avro_file(TRANSACTION, [{"status": "BEGIN", "id": "1:2", "ts_ms": 1}]),
        "d": avro_file(HEARTBEAT, [{"ts_ms": 1}]),
    }
    work = Work(tmp_path, settings={"key": "id", "feed.dialect": "debezium-avro", **SETTINGS})
    (tmp_path / "master").mkdir()
    for name, content in files.items():
        work.put(f"feed/{name}.avro", content)
    with pytest.raises(DataError, match=r"has rows of public\.u, and others are of public\.t"):
        work.run()
    report = work.run({"feed.table": "public.t"})
    kinds = next(one for one in report.notes if one.startswith("messages that are no rows")).partition(": ")[2]
    assert sorted(kinds.split(", ")) == ["1 heartbeat", "1 of other tables (1 public.u)", "1 transaction"]
    assert work.rows() == [ROW]
    work.put("more/e.avro", files["d"])
    assert work.run(master="out2", feed="more").counts["output rows"] == 1


def test_a_table_that_begins_late_among_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of one schema may share a file. A column that only another table had is not lost in silence."""
    monkeypatch.setattr("mutator.plan.inspect.envelopes._ROWS", 1)
    schema = table_of(("id", "int"), ("n", ["null", "string"]), ("x", ["null", "string"]))
    others = [message("c", {**ROW, "x": "x"}, table="u"), message("c", ROW), message("c", {**OTHER, "x": "x"})]
    work = Work(tmp_path, settings={"key": "id", "feed.dialect": "debezium-avro", **SETTINGS, "feed.table": "public.t"})
    work.put("master/m", pa.table({"id": [0], "n": ["m"]}), "parquet")
    work.put("feed/f.avro", avro_file(schema, others))
    report = work.run()
    assert [(row["id"], row["n"]) for row in work.rows()] == [(0, "m"), (1, "a")]
    assert [one["reason"].partition(",")[0] for one in report.rejects["feed"]] == ["has the member 'after.x'"]


FORMS: list[tuple[Any, Any, Any]] = [  # type, value of what the database did not send, and another value
    ("string", UNSENT, "a"),
    ("bytes", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", "YQ=="),
    ({"type": "array", "items": "string"}, [UNSENT], ["a"]),
    ({"type": "array", "items": "bytes"}, ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="], ["YQ=="]),
    ({"type": "array", "items": "int"}, [*UNSENT.encode()], [1]),
    ({"type": "array", "items": "long"}, [*UNSENT.encode()], [1]),
    ({"type": "array", "items": "string"}, ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], ["a"]),
    ({"type": "map", "values": "string"}, {UNSENT: UNSENT}, {"a": "b"}),
]


@pytest.mark.parametrize(("data_type", "unsent", "value"), FORMS)
def test_values_that_were_not_sent(tmp_path: Path, data_type: Any, unsent: Any, value: Any) -> None:
    schema = table_of(("id", "int"), ("n", ["null", data_type]))
    before = [message("c", {"id": key, "n": one}) for key, one in ((1, value), (2, None), (3, value))]
    after = [message("u", {"id": key, "n": one}, lsn=2) for key, one in ((1, unsent), (2, unsent), (3, None))]
    _, found, *_ = merged(tmp_path, "id", "avro", {"f": avro_file(schema, [*after, *before])})
    of_before = merged(tmp_path / "before", "id", "avro", {"f": avro_file(schema, before)})[1]
    assert found == [*of_before[:2], {"id": 3, "n": None}]
    assert None is found[1]["n"] is not found[0]["n"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bad_message_is_a_reject(tmp_path: Path, engine: str) -> None:
    rows = [message("c", ROW), message("d"), message("x", OTHER), message("d", None, OTHER, lsn=2)]
    _, found, _, reasons, _ = merged(tmp_path, "id", "avro", {"f": avro_file(ROWS, rows)}, engine)
    assert found == [ROW]
    assert [one[:40] for one in reasons] == [
        "has the op 'x', which is none of c, r, u",
        "is a delete without a key, because befor",
    ]


def wire_format(name: str) -> bytes:
    return struct.pack(">bi", 0, 7) + b"\2\4" + name.encode() * 500


MONGO = avro(("op", "string"), ("after", "string"), ("updateDescription", "string"))
FAULTS: list[tuple[bytes, str]] = [
    (
        wire_format("x"),
        r"f\.avro: has messages as they are in a topic, .* \(schema 7\); have the sink write",
    ),
    (avro_file(avro(("id", "int")), [{"id": 1}]), r"has no messages of Debezium \(it has id\)"),
    (avro_file(MONGO, [{"op": "c", "after": "{}", "updateDescription": ""}]), "as messages of MongoDB have"),
    (avro_file(table_of(("id", "int"), ("n", ["null", "int", "string"])), []), "has field n with values of 2 types"),
]


@pytest.mark.parametrize(("content", "why"), FAULTS, ids=["a topic", "a table", "MongoDB", "two types"])
def test_a_file_of_another_form(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        merged(tmp_path, "id", "avro", {"f": content})


def test_a_file_of_another_format(tmp_path: Path) -> None:
    work = Work(tmp_path, settings={"key": "id", "feed.dialect": "debezium-parquet", **SETTINGS})
    work.put("master/m", pa.table({"id": [0]}), "parquet")
    work.put("feed/f.avro", avro_file(ROWS, [message("c", ROW)]))
    with pytest.raises(DataError, match=r"is Avro, which feed\.dialect=debezium-parquet does not read"):
        work.run()
    with pytest.raises(mutator.MutatorError, match=r"set feed\.dialect=debezium-avro"):
        work.run({"feed.dialect": ""})


@pytest.mark.rest
@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_on_spark(sc: Any, tmp_path: Path, form: str) -> None:
    settings = {"key": "id", "feed.dialect": f"debezium-{form}", **SETTINGS, **NO_LIMITS, "num.reducer": "3"}
    feed, found = tmp_path / "feed", []
    feed.mkdir()
    (feed / f"k.{form}").write_bytes((FEEDS / f"kinds.{form}").read_bytes())
    for name in ("spark", "local"):
        places = {"master": tmp_path / "none", "feed": feed, "output": tmp_path / name}
        report = mutator.mutate(sc, settings, **places) if name == "spark" else local_engine.mutate(settings, **places)
        found.append((report.counts, sorted(map(str, mutator.Dataset(tmp_path / name).to_arrow().to_pylist()))))
    assert found[0] == found[1]
    assert len(found[0][1]) == 3
