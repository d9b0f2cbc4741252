"""``explain`` of rejected messages: each has the ID of its record somewhere within it."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.table.table import Table
from tests.formats.test_debezium_json import schema_of
from tests.support.dialect_stories import DIALECTS, STORY, Change, debezium, lines, put, row, work_of
from tests.support.named_runs import Work
from tests.support.no_limits import NO_LIMITS


def rejected(capsys: pytest.CaptureFixture[str], *words: Any) -> list[tuple[str, str]]:
    """Return the end of the file name, and the beginning of the reason, of each reject that is shown."""
    capsys.readouterr()
    assert main(["explain", *map(str, words), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    return [(one["file"][-6:], one["reason"][:3]) for version in said["versions"] for one in version["rejected"]]


def unknown(message: Any) -> Any:
    """Return a message that does what no message does."""
    for name in ("op", "type", "op_type"):
        if name in message:
            return {**message, name: "x"}
    return {**message, "metadata": {**message["metadata"], "operation": "x"}}


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_rejected_messages_of_a_key(tmp_path: Path, dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    work, told = work_of(tmp_path, dialect), DIALECTS[dialect]
    good, bad = [*map(told.message, STORY[:3])], unknown(told.message(STORY[1]))
    for number, messages in enumerate(([*good[:2], bad], [good[2], bad]), 1):
        put(work, dialect, f"feed/f_{number}", *messages)
    work.run()
    order = {"order_by": list(told.order), "order_type": list(told.types), "null.order": "lowest"}
    settings = {"key": "id", "feed.dialect": told.name, "reject.policy": "quarantine", **order, **NO_LIMITS}
    table = Table.create(str(tmp_path / "table"), settings)
    table.apply(str(tmp_path / "feed"))
    shown = [(f"f_{number}.{told.suffix}"[-6:], "has") for number in (1, 2)]
    for place in (work.output, tmp_path / "table"):
        assert rejected(capsys, place, "2", "--feed", tmp_path / "feed") == shown, place
        assert rejected(capsys, place, "1", "--feed", tmp_path / "feed") == []


CONNECT, DEBEZIUM = "org.apache.kafka.connect.data", "io.debezium"
KEYS = {  # type of the key in a schema -> its value in messages, and in a question
    "date": ({"type": "int32", "name": f"{DEBEZIUM}.time.Date"}, 20484, "2026-01-31"),
    "time": ({"type": "int64", "name": f"{DEBEZIUM}.time.MicroTime"}, 3_600_000_000, "01:00:00"),
    "timestamp": ({"type": "int64", "name": f"{DEBEZIUM}.time.Timestamp"}, 1_769_853_600_500, "2026-01-31 10:00:00.5"),
    "zoned": (
        {"type": "string", "name": f"{DEBEZIUM}.time.ZonedTimestamp"},
        "2026-01-31T10:00:00Z",
        "2026-01-31T11:00:00+01:00",
    ),
    "decimal": ({"type": "bytes", "name": f"{CONNECT}.Decimal", "parameters": {"scale": "2"}}, "AJY=", "1.5"),
    "scaled": (
        {"type": "struct", "name": f"{DEBEZIUM}.data.VariableScaleDecimal"},
        {"scale": 2, "value": "AJY="},
        "1.50",
    ),
    "uuid": ({"type": "string", "name": f"{DEBEZIUM}.data.Uuid"}, "8f14e45f-ceea-467f-9a5a-1b2c3d4e5f60", None),
    "boolean": ({"type": "boolean"}, True, "true"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_rejected_messages_of_a_key_of_another_type(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    of_type, value, asked = KEYS[kind]
    schema = schema_of([{"field": "id", **of_type}, {"field": "n", "type": "string", "optional": True}])
    said = [debezium(Change({"id": value, "n": "a"}, None, (1, 0)))]
    said.append({**said[0], "op": "x"})
    work = Work(tmp_path, settings={"key": "id", "feed.dialect": "debezium-json", "reject.policy": "quarantine"})
    work.settings["output.format"] = "parquet"
    work.put("feed/f_1.json", lines(*({"schema": schema, "payload": one} for one in said)))
    (tmp_path / "master").mkdir()
    work.run({"allow.empty.master": "true"})
    assert rejected(capsys, work.output, asked or value, "--feed", tmp_path / "feed") == [("1.json", "has")]


def test_rejected_messages_of_days_without_a_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = Work(tmp_path, settings={"key": "id", "feed.dialect": "debezium-json", "reject.policy": "quarantine"})
    days = [date(2026, 1, 30), date(2026, 1, 31)]
    work.put("master/m", pa.table({"id": days, "n": ["a", "b"]}), "parquet")
    work.put("feed/f_1.json", lines({**debezium(Change({"id": 20484, "n": "c"}, None, (1, 0))), "op": "x"}))
    work.put("feed/f_2.json", lines(debezium(Change({"id": 20485, "n": "d"}, None, (2, 0)))))
    work.run()
    assert rejected(capsys, work.output, "2026-01-31", "--feed", tmp_path / "feed") == [("1.json", "has")]
    assert rejected(capsys, work.output, "2026-01-30", "--feed", tmp_path / "feed") == []


def test_rejected_rows_of_delimited_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The op code comes before the columns."""
    settings = {"key": "id", "feed.dialect": "aws-dms", "reject.policy": "quarantine", "field.names": "Op,id,n,qty"}
    work = Work(tmp_path, settings={**settings, "output.format": "parquet"})
    work.put("master/m", pa.Table.from_pylist([row(9, "z")]), "parquet")
    work.put("feed/20260131-101500123.csv", b"I,1,a,1\nI,2,b,1\nX,2,b,2\n")
    work.run()
    assert rejected(capsys, work.output, "2", "--feed", tmp_path / "feed") == [("23.csv", "has")]
    assert rejected(capsys, work.output, "1", "--feed", tmp_path / "feed") == []


def test_files_of_keys_are_no_feed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = work_of(tmp_path, "debezium")
    put(work, "debezium", "feed/t+0+0", DIALECTS["debezium"].message(STORY[1]))
    work.put("feed/t+0+0.keys.json", b'{"id": 2}\n')
    work.run()
    assert main(["explain", str(work.output), "2", "--feed", str(tmp_path / "feed")]) == 0
    assert "not known" not in capsys.readouterr().out
