"""The commands that print or write what comes out of a table."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mutator.cli import main


@pytest.fixture
def table(tmp_path: Path, monkeypatch: Any) -> str:
    monkeypatch.chdir(tmp_path)
    settings = "--key id --order-by at --op op --header true"
    assert main(f"table create products {settings}".split()) == 0
    for number, rows in enumerate(("a,x,1,I\nb,,1,I\n", 'a,"y,z",2,U\nb,,2,D\n')):
        Path(f"feed{number}").mkdir()
        Path(f"feed{number}/rows.csv").write_text(f"id,name,at,op\n{rows}")
        command = f"table apply products --feed feed{number} -D max.delete.fraction=1 -D runner=local"
        assert main([*command.split(), "-D", "reused.names=accept"]) == 0
    return "products"


def printed(capsys: Any, words: str) -> str:
    capsys.readouterr()
    assert main(words.split()) == 0
    return str(capsys.readouterr().out)


def test_changes_are_printed_as_csv_with_a_header(table: str, capsys: Any) -> None:
    header, *rows = printed(capsys, f"table changes {table} --from 1").splitlines()
    assert header == "_change_type,_commit_version,_commit_timestamp,id,name,at"
    kinds = sorted((row.split(",")[0], ",".join(row.split(",")[3:])) for row in rows)
    assert kinds == [("delete", "b,,1"), ("update_postimage", 'a,"y,z",2'), ("update_preimage", "a,x,1")]


def test_changes_are_printed_as_json_lines(table: str, capsys: Any) -> None:
    rows = map(json.loads, printed(capsys, f"table changes {table} --from 0 --net --format json").splitlines())
    (row,) = ({name: value for name, value in row.items() if name != "_commit_timestamp"} for row in rows)
    assert row == {"_change_type": "insert", "_commit_version": 2, "id": "a", "name": "y,z", "at": "2"}


def test_changes_are_written_to_a_new_file(table: str, capsys: Any) -> None:
    out = printed(capsys, f"table changes {table} --from 0 --to 1 --format parquet -o changes.parquet")
    assert out == "wrote 2 rows to changes.parquet\n"
    assert pq.read_table("changes.parquet").column("_change_type").to_pylist() == ["insert", "insert"]
    assert main(f"table changes {table} --from 0 -o changes.parquet".split()) == 5
    assert "changes.parquet: already exists" in capsys.readouterr().err


def test_a_killed_command_leaves_nothing_for_long(table: str, capsys: Any) -> None:
    old, new, other = (Path(f".{name}.{'0' * 31}{number}") for number, name in enumerate(("out.csv", "out.csv", "out")))
    for path in (old, new, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (0, 0))
    printed(capsys, f"table scan {table} -o out.csv")
    assert [path.exists() for path in (old, new, other)] == [False, True, True]


def test_parquet_needs_a_file(table: str, capsys: Any) -> None:
    assert main(f"table changes {table} --from 0 --format parquet".split()) == 2
    assert "--output" in capsys.readouterr().err


def test_the_log_counts_deletes_by_absence(table: str, capsys: Any) -> None:
    Path("snapshot.csv").write_text("id,name,at,op\nc,,3,I\n")
    words = "--feed snapshot.csv -D sync.mode=full -D max.absence.fraction=1 -D max.delete.fraction=1 -D runner=local"
    assert main(f"table apply {table} {words}".split()) == 0

    head, *versions = printed(capsys, f"table log {table}").splitlines()

    shown = dict(zip(re.split("  +", head), versions[-1].split(), strict=False))
    assert (shown["inserted"], shown["deleted"], shown["records"]) == ("1", "1", "1")


def test_an_export_is_a_dataset(table: str, capsys: Any) -> None:
    report = json.loads(printed(capsys, f"table export {table} out --version 1 --json"))
    assert (report["version"], report["rows"], report["tombstones"], report["kept"]) == (1, 2, 0, 0)
    assert "exported version 2" in printed(capsys, f"table export {table} out")
    assert "as its manifest says" in printed(capsys, "verify out --runner local")
