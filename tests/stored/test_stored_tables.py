"""Tables that were written once: read, verified, and continued as they were then (``write_tables``)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mutator import Table
from tests.stored.write_tables import after, answers

HERE = Path(__file__).parent / "tables"


@pytest.fixture(params=sorted(HERE.iterdir()), ids=lambda case: case.name)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / "case"))


def expected(case: Path, name: str) -> Any:
    return json.loads((case / name).read_text())


@pytest.mark.thorough(keep=5)
def test_it_answers_as_before(case: Path) -> None:
    table = Table(case / "table")
    assert answers(table) == expected(case, "answers.json")
    assert table.verify().differences == ()


@pytest.mark.thorough(keep=5)
def test_it_answers_without_what_is_derived(case: Path) -> None:
    shutil.rmtree(case / "table/_mutator/table/checkpoints", ignore_errors=True)
    (case / "table/_mutator/table/hint.json").unlink()
    assert answers(Table(case / "table")) == expected(case, "answers.json")


@pytest.mark.thorough(keep=5)
def test_it_goes_on(case: Path) -> None:
    (feed,) = case.glob("next*.parquet")
    assert after(Table(case / "table"), str(feed)) == expected(case, "next.json")
    assert Table(case / "table").verify().differences == ()
