"""Messages of change captures: what ``init`` proposes for them, and what a run says if no setting names their form."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator.cli import main
from mutator.errors import ConfigError
from mutator.plan.proposal.propose import propose
from mutator.rules.envelopes import recognized
from tests.formats.test_debezium_flat import ROWS, put
from tests.formats.test_debezium_json import CONNECT, FEEDS, TABLES, lines, schema_of, wrapped
from tests.support.named_runs import Work

KEY, ORDER = "id.field.ordinals", "temporal.ordering.field.ordinal"
FIRST = {"allow.empty.master": True, "output.format": "parquet"}
SOURCE = {"connector": "postgresql", "schema": "public", "table": "t"}


def message(op: str, lsn: int, *, table: str = "t", **row: Any) -> dict[str, Any]:
    image = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {**image, "source": {**SOURCE, "table": table, "lsn": lsn}, "op": op, "ts_ms": 1795808648500}


def settings_of(feed: Path, master: Path | None = None, **given: Any) -> dict[str, Any]:
    found = propose(None if master is None else str(master), [str(feed)], given).proposal
    return dict(found.settings)


@pytest.mark.parametrize("feed", ["hot-orders", "truncate-orders", "truncate-products"])
@pytest.mark.parametrize("typed", [False, True])
def test_two_commands_merge_a_genuine_feed(
    feed: str, typed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table, key = TABLES[feed.split("-")[1]]
    if typed:
        os.mkdir("master")
        pq.write_table(table.empty_table(), "master/m.parquet")
    wanted: dict[str, Any] = {"feed.dialect": "debezium-json", KEY: key.split(",") if "," in key else key}
    wanted |= {"reject.policy": "quarantine"} if feed == "truncate-products" else {}
    if typed:
        wanted |= {"feed.decimals": "base64"} | ({"feed.time.unit": "us"} if "products" in feed else {})
    first = {"allow.empty.master": True} | ({} if typed else {"output.format": "parquet"})
    found = settings_of(FEEDS / feed, Path("master") if typed else None)
    assert found == wanted | ({} if typed else first), found
    where = ["--master", "master"] if typed else []
    assert main(["init", *where, "--feed", str(FEEDS / feed)]) == 0, capsys.readouterr().out
    more = ["-D", "allow.empty.master=true", "-D", "max.reject.fraction=1"]
    assert main(["run", "--output", "out", *more]) == 0, capsys.readouterr().err
    assert (tmp_path / "out").is_dir()


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        # Deletes have the key alone, and other columns that are not NULL have 0 or "".
        (
            [("r", {"a": n % 3, "b": n // 3, "n": n}) for n in range(9)] + [("d", {"a": 1, "b": 2, "n": 0})],
            ["a", "b"],
        ),
        # With REPLICA IDENTITY FULL, they have everything.
        ([("c", {"a": n, "id": n, "n": n}) for n in range(12)] + [("d", {"a": 1, "id": 1, "n": 1})], "id"),
        ([("r", {"n": n % 5, "code": n}) for n in range(12)] + [("u", {"n": 9, "code": 1})] * 3, "code"),
    ],
)
def test_the_key_of_messages(messages: list[tuple[str, dict[str, Any]]], wanted: Any, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(lines(*(message(op, at, **row) for at, (op, row) in enumerate(messages)), None))
    assert settings_of(tmp_path) == {"feed.dialect": "debezium-json", KEY: wanted, **FIRST}


def test_messages_of_two_tables(tmp_path: Path) -> None:
    rows = [message("c", at, table="tu"[at % 3 > 0], id=at) for at in range(12)]
    (tmp_path / "f.json").write_bytes(lines(*rows))
    found = propose(None, [str(tmp_path)], {}).proposal
    assert found.settings["feed.table"] == "public.u"
    question = "Which table is the master? The feed has messages of public.t, public.u. Set {feed.table}."
    assert found.questions == [question]
    given = {"feed.dialect": "debezium-json", "feed.table": "public.t"}
    assert settings_of(tmp_path, **given)["feed.table"] == "public.t"


def test_the_types_in_messages_are_no_question(tmp_path: Path) -> None:
    schema = schema_of([{**CONNECT["int64"], "field": "id"}, {**CONNECT["timestamp[us]"], "field": "at"}])
    rows = (wrapped(json.dumps(message("c", at, id=at, at=at)).encode(), schema) for at in range(12))
    (tmp_path / "f.json").write_bytes(b"\n".join(rows) + b"\n")
    (tmp_path / "m").mkdir()
    pq.write_table(pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]).empty_table(), tmp_path / "m/m.parquet")
    assert "feed.time.unit" not in settings_of(tmp_path / "f.json", tmp_path / "m")


@pytest.mark.parametrize("form", ["json", "schema", "csv", "parquet", "avro", "orc"])
@pytest.mark.parametrize("without", ["", "__op", "__deleted", "__lsn"])
def test_flattened_rows(form: str, without: str, tmp_path: Path) -> None:
    work = Work(tmp_path)
    put(work, [{name: value for name, value in row.items() if name != without} for row in ROWS[:4]], form)
    found = settings_of(tmp_path / "feed")
    assert (found["feed.dialect"], found[KEY]) == ("debezium-flat", "id")
    assert found.get(ORDER) == ("__source_ts_ms" if without == "__lsn" else None)
    assert "op.code.field.ordinal" not in found


def test_flattened_rows_of_delimited_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f_1.txt").write_text("id;n;__op;__lsn\n1;a;c;5\n2;b;c;6\n2;;d;7\n")
    assert main(["init", "--feed", "f_1.txt"]) == main(["run"]) == 0, capsys.readouterr()
    assert [path.read_text() for path in (tmp_path / "merged").glob("part-*")] == ["id;n\n1;a\n"]


@pytest.mark.parametrize(
    ("rows", "key", "dialect", "stops"),
    [
        ([message("c", 1, id=1)], "id", "debezium-json", True),
        ([message("c", 1, id=1)], "ts_ms", "debezium-json", True),
        ([message("c", 1, id=1) | {"id": 1}], "id", "debezium-json", False),  # the row has a key beside the message
        ([{"schema": None, "payload": message("c", 1, id=1)}], "id", "debezium-json", True),
        ([{"schema": None, "payload": ROWS[0]}], "id", "debezium-flat", True),
        (ROWS[:4], "id", "debezium-flat", False),
        ([{"id": 1, "__op": "x"}], "id", None, False),
        ([{"id": 1, "op": "c", "before": "1", "after": "2"}], "id", None, False),  # an audit log
        ([{"id": 1, "op": "c", "before": {"n": 1}, "after": {"n": 2}, "source": {"app": "x"}}], "id", None, False),
    ],
)
def test_a_forgotten_dialect(
    rows: list[dict[str, Any]], key: str, dialect: str | None, stops: bool, tmp_path: Path
) -> None:
    (tmp_path / "f_1.json").write_bytes(lines(*rows))
    more = {"allow_empty_master": True, "output_format": "parquet", "sequence_pattern": "last"}

    def run() -> Any:
        return mutator.merge(master=str(tmp_path / "none"), feed=str(tmp_path / "f_1.json"), key=key, **more)

    if stops:
        with pytest.raises(ConfigError, match=f'feed_dialect="{dialect}"') as fault:
            run()
        assert fault.value.kind == "dialect.forgotten"
    else:
        found = [one for one in run().warnings if "plain records" in one]
        assert [f'feed_dialect="{dialect}"' in one for one in found] == [True] * (dialect is not None)


def test_only_messages_are_recognized() -> None:
    def values(name: str) -> list[bytes]:
        return {"__op": [b"c", b"d"], "__deleted": [b"true"], "op": [b"c"]}.get(name, [b"1"])

    assert recognized(["op", "before", "source", "source.connector"], values) == "debezium-json"
    assert recognized(["id", "op", "source", "source.connector"], values) is None
    assert recognized(["id", "op"], values) is None
