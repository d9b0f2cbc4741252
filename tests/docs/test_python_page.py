"""The page on Python: its examples run, it lists exactly the public names, and a typed program passes mypy."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mutator
from mutator.errors.exceptions import CATALOGUE

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"


def names_of(section):
    """Return the names in the first column of a section's table."""
    text = PAGE.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_the_examples_of_the_page_print_their_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=options)

    assert found.attempted > 10
    assert found.failed == 0


def test_the_page_lists_the_public_names():
    assert sorted(names_of("Public names")) == sorted(mutator.__all__)


def test_the_page_lists_the_arguments():
    parameters = inspect.signature(mutator.merge).parameters.values()
    named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    assert sorted(names_of("Arguments")) == sorted(named)


def test_the_page_lists_the_members_of_a_table():
    public = [name for name in dir(mutator.Table) if not name.startswith("_")]
    text = PAGE.read_text().split("## Versioned tables\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`(?:Table\.)?([a-z]\w*)[(`]", text))
    assert set(public) <= named


def test_the_page_lists_the_kinds_of_errors():
    text = PAGE.read_text().split("## Errors\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (.*) \|$", text, re.MULTILINE)
    found = {kind: (name, int(code)) for name, code, kinds in rows for kind in re.findall(r"`(.+?)`", kinds)}
    expected = {kind: (family.__name__, family.exit_code) for kind, (family, _) in CATALOGUE.items()}
    assert found == expected, "run `make reference`"


PROGRAM = """
from collections.abc import Mapping
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import mutator

def counts(path: str) -> Mapping[str, int]:
    try:
        report: mutator.Report = mutator.merge(master=path, feed=[path], key=["id"], order_by="ts", header=True)
    except mutator.ConfigError as fault:
        raise SystemExit(fault.exit_code if fault.kind == "usage" else 1) from None
    result: mutator.Dataset = report.result
    for side, rows in report.rejects.items():
        print(side, [row["reason"] for row in rows], len(result), result.files)
    return report.counts

def rows(path: str) -> list[dict[str, object]]:
    table: mutator.Table = mutator.Table.create(path, {"key": "id"}, buckets=2)
    table.apply([path, pa.table({"id": [1]})], runner="local")
    return table.scan(["id"], where="id > 0", version=1).to_pylist()

def why(path: str) -> tuple[int, list[str]]:
    found: mutator.Diff = mutator.diff(path, pa.table({"id": [1]}), key="id", runner="local")
    answer: mutator.Explanation = mutator.explain(path, (12, "b"), feed=[path], op="op")
    return found.counts["added"], [*answer.unknown]

mutator.merge(master="a", feed="b", key=1.5)
mutator.merge("a", "b")
mutator.diff("a", "b", rows="1")
mutator.Table("t").scan(version=1.5)
counts(1)
"""


@pytest.mark.thorough(keep=0)
@pytest.mark.processes
def test_a_typed_program_is_checked(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--ignore-missing-imports"]
    command += ["--cache-dir", str(ROOT / "build" / "cache" / "mypy"), "program.py"]

    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True
    )

    found = re.findall(r"program.py:(\d+): error: .*\[([\w-]+)\]", done.stdout)
    lines = PROGRAM.splitlines()
    assert [(lines[int(number) - 1], kind) for number, kind in found] == [
        ('mutator.merge(master="a", feed="b", key=1.5)', "arg-type"),
        ('mutator.merge("a", "b")', "call-arg"),
        ('mutator.diff("a", "b", rows="1")', "arg-type"),
        ('mutator.Table("t").scan(version=1.5)', "arg-type"),
        ("counts(1)", "arg-type"),
    ], done.stdout
