"""The pages on versioned tables: their commands print their output, one after the other in one directory."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mutator import cli
from tests.support.console import console_blocks, same, steps

ROOT = Path(__file__).parents[2]
PAGE = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("table", "table_versions"))
WORKFLOWS = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("workflow", "workflow_table")}
SALES = (ROOT / "docs" / "sales_table.md").read_text()
FILE = re.compile(r"`([\w./]+)`[^`]*:\n\n```(?:json|csv)\n(.*?)```", re.DOTALL)
VARIABLE = (
    (r"TIME\.\d+\+00:00", "TIME"),
    (r"/\S*/sales\b", "sales"),
    (r"[\d,]+ bytes", "N bytes"),
    (r"(?m) +\S+ +N s$", " BYTES N s"),
    (r"\d{4}-\d\d-\d\d [\d:.]+Z(?=,\d+,[A-Z]-)", "COMMITTED"),
    (r"\b[0-9a-f]{32}\b", "DIGEST"),
    (r"(\.parquet) +[\d,]+ ", r"\1 N "),
    (r"(?m) +", " "),
)


def plain(text):
    text = same(text)
    for pattern, word in VARIABLE:
        text = re.sub(pattern, word, text)
    return text


def test_every_command_of_the_pages_on_tables_prints_its_output(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for path, content in FILE.findall(PAGE):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(content)
    commands = [step for block in console_blocks(PAGE) for step in steps(block)]

    for command, expected in commands:
        capfd.readouterr()
        words = re.findall(r'"[^"]*"|\S+', command)

        assert cli.main([word.strip('"') for word in words[1:]]) == 0

        assert plain(capfd.readouterr().out) == plain(expected), command
    assert len(commands) == 20


def compare(commands, capfd):
    """Run commands in the present directory, which the pages call /data, and compare what they print."""
    for command, expected in commands:
        capfd.readouterr()
        if command.startswith("mutator "):
            assert cli.main(command.split()[1:]) == 0
            found = capfd.readouterr().out
        else:
            found = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout

        assert plain(found.replace(f"{Path.cwd()}/", "/data/")) == plain(expected), command


@pytest.mark.parametrize(("page", "count"), [("workflow", 7), ("workflow_table", 6)])
def test_every_command_of_the_pages_on_workflows_prints_its_output(page, count, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    commands = [step for block in console_blocks(WORKFLOWS[page]) for step in steps(block)]

    compare(commands, capfd)
    assert len(commands) == count


def test_every_command_of_the_page_on_the_sales_table_prints_its_output(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    commands = [step for block in console_blocks(SALES) for step in steps(block)]

    compare(commands, capfd)
    assert len(commands) == 18


def test_the_page_on_the_sales_table_shows_its_settings():
    shown = re.search(r"```toml\n(.*?)```", SALES, re.DOTALL)
    assert shown is not None
    assert shown[1] == (ROOT / "sample_data" / "sales_table" / "table.toml").read_text()
