"""``explain`` of rejected messages: each has the ID of its record somewhere within it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.table.table import Table
from tests.support.dialect_stories import DIALECTS, STORY, put, row, work_of
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
