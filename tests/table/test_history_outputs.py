"""What is derived from a history: its verification, its export, and explanations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mutator import ConfigError, StateError, Table, explain
from mutator.cli import main
from mutator.engine.versions import close_history
from mutator.engine.versions.history_rows import sides_of
from mutator.rules.history import EventColumns, Versions
from tests.support import local_engine
from tests.support.versioned import open_runner
from tests.table.test_history import SETTINGS, rows


@pytest.fixture(name="table")
def make_table(tmp_path: Path) -> Table:
    found = Table.create(str(tmp_path / "table"), SETTINGS, buckets=2)
    found.apply(rows((1, 1, "U", 80), (1, 5, "U", 82), (2, 3, "U", 7)), open_runner=open_runner)
    return found


def test_verify_compares_versions_with_their_events_and_with_the_records(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.apply(rows((1, 7, "D", None), (2, 8, "U", 9), (3, 8, "U", 1)), open_runner=open_runner)
    assert table.verify(open_runner=open_runner).problems == ()
    with monkeypatch.context() as patch:
        patch.setattr(EventColumns, "take", lambda self, rows: self._replace(deletes=self.deletes & False))
        table.compact(everything=True, open_runner=open_runner)
    (problem,) = table.verify(open_runner=open_runner).problems
    assert "the open versions of its history are not its records, for example of 1" in problem


def test_verify_finds_closed_versions_that_are_not_those_of_their_events(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(close_history, "sides_of", lambda events, found, *others: sides_of(events, late(found), *others))
        table.compact(everything=True, open_runner=open_runner)
    problems = table.verify(open_runner=open_runner).problems
    assert problems
    assert all("has versions that are not those of its events" in problem for problem in problems)
    table.apply(rows((9, 9, "U", 9)), open_runner=open_runner)
    table.compact(everything=True, open_runner=open_runner)
    assert table.verify(open_runner=open_runner).problems == ()


def late(found: Versions) -> Versions:
    return replace(found, starts=pc.add(found.starts, 1))


def test_an_export_of_the_history_is_parquet_and_keeps_the_files_of_other_buckets(table: Table, tmp_path: Path) -> None:
    output = tmp_path / "history"

    def read() -> list[dict[str, Any]]:
        # as another engine finds the files
        return duckdb.sql(f"SELECT * FROM '{output}/**/*.parquet'").to_arrow_table().to_pylist()

    def both() -> tuple[Any, Any]:
        return sorted(read(), key=str), sorted(table.scan().to_pylist(), key=str)

    table.compact(everything=True, open_runner=open_runner)
    first = table.export(output, history=True, open_runner=open_runner)
    assert (first.rows, first.kept) == (3, 0)
    found, expected = both()
    assert found == expected
    assert local_engine.verify(str(output)).differences == ()
    again = table.export(output, history=True, open_runner=open_runner)
    assert (again.written, again.bytes) == (0, 0)
    table.apply(rows((2, 4, "U", 9)), open_runner=open_runner)
    later = table.export(output, history=True, open_runner=open_runner)
    assert later.kept == 1
    found, expected = both()
    assert found == expected
    next(output.glob("*.parquet")).unlink()
    assert table.export(output, history=True, open_runner=open_runner).rows == 4
    found, expected = both()
    assert found == expected
    with pytest.raises(StateError, match="an export of the history of the table"):
        table.export(output, open_runner=open_runner)


def test_an_export_of_no_history_and_of_an_empty_one(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), SETTINGS)
    with pytest.raises(ConfigError, match="no rows and no schema yet"):
        table.export(tmp_path / "history", history=True)
    table.apply(rows((1, 1, "D", 80)), open_runner=open_runner)
    assert table.export(tmp_path / "history", history=True, open_runner=open_runner).rows == 0
    assert pq.read_table(tmp_path / "history").schema.names == table.scan().schema.names
    plain = Table.create(str(tmp_path / "plain"), {**SETTINGS, "history": "off"})
    with pytest.raises(ConfigError, match="created without history"):
        plain.export(tmp_path / "other", history=True)


def test_explain_says_what_held_at_a_time_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, found in {"a": "1,1,U,80\n1,5,U,82\n1,9,D,", "b": "1,3,U,81"}.items():
        (tmp_path / f"{name}.csv").write_text(f"id,at,op,price\n{found}\n")
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, "header": "true", "order_type": "long"}, buckets=2)
    for name in ("a", "b"):
        table.apply(str(tmp_path / f"{name}.csv"), open_runner=open_runner)

    def at(time: int) -> list[str]:
        words = ["--valid-at", str(time), "--feed", str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
        assert main(["explain", table.path, "1", *words]) == 0
        lines = capsys.readouterr().out.replace(f"{tmp_path}/", "").splitlines()
        start = next(number for number, line in enumerate(lines) if line.startswith("at "))
        return lines[start : lines.index("", start)]

    for _ in range(2):
        assert at(4) == [
            "at       4: valid from 3, until 5, then updated",
            '         {"id": "1", "at": "3", "price": "81"}',
            "  began with order value 3; version 2, b.csv, line 2, byte 15",
            "  ended by order value 5; version 1, a.csv, line 3, byte 24",
        ]
        assert at(0) == ["at       0: no record: it had no mutation yet"]
        assert at(9) == [
            "at       9: no record: deleted",
            "  ended by order value 9; version 1, a.csv, line 4, byte 33",
        ]
        table.compact(everything=True, open_runner=open_runner)
    (found,) = explain(table.path, "1", valid_at=5).valid
    assert (found.began, found.end, found.ended, json.loads(found.row or b"")["price"]) == (5, 9, "deleted", "82")
