"""Messages of an apply say table where those of a run say master."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.errors import MutatorError
from mutator.table.table import Table

SETTINGS = {"key": "id", "order_by": "at", "op": "op", "order_type": "long", "header": "true"}
NAMES = "id,at,name,op\n"
FIRST = NAMES + "".join(f"{number},{1790000000 + number},n{number},U\n" for number in range(20))


def put(path: Path, content: str) -> str:
    path.write_text(content)
    return str(path)


@pytest.fixture(name="table")
def new_table(tmp_path: Path) -> Table:
    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=2)
    table.apply(put(tmp_path / "first.csv", FIRST))
    return table


@pytest.mark.parametrize(
    ("rows", "kind", "words"),
    [
        ("id,at,op\n3,1790000100,U\n", "schema.lost", "lacks field name of the table, and"),
        (
            NAMES + "".join(f"{number},1790000100,x,D\n" for number in range(15)),
            "deletes",
            "remove 15 of the table's 20 records",
        ),
    ],
)
def test_an_error_says_table(table: Table, tmp_path: Path, rows: str, kind: str, words: str) -> None:
    with pytest.raises(MutatorError) as fault:
        table.apply(put(tmp_path / "second.csv", rows))
    assert fault.value.kind == kind
    assert words in str(fault.value)
    assert "master" not in str(fault.value).replace(str(tmp_path), "")


def test_a_forgotten_op_code(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), {"key": "id", "order_by": "at"})
    table.apply(pa.table({"id": [1, 2], "at": [1, 1]}))
    with pytest.raises(MutatorError, match="field op, which the table lacks, has 'D'"):
        table.apply(pa.table({"id": [1, 2], "at": [2, 2], "op": ["U", "D"]}))


def test_warnings_and_notes_say_table(table: Table, tmp_path: Path) -> None:
    late = NAMES + "".join(f"{number},1690000000,x,U\n" for number in range(15))
    report = table.apply(put(tmp_path / "late.csv", late), dry_run=True)
    assert any("those of the table's records are" in one for one in report.warnings)
    assert not any("the master" in one for one in (*report.warnings, *report.notes))


def test_commands_say_table(table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = put(tmp_path / "second.csv", "id,at,op\n3,1790000100,U\n")
    assert main(["table", "apply", table.path, "--feed", lost]) == 3
    assert "second.csv: lacks field name of the table, and" in capsys.readouterr().err
