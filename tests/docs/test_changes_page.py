"""The commands of docs/changes.md and docs/truncates.md print their output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mutator import cli
from tests.support.cluster import ROOT
from tests.support.console import console_blocks, steps

FILE = re.compile(r"`([\w./]+)`:\n\n```csv\n(.*?)```", re.DOTALL)
TIME = re.compile(r"\d{4}-\d\d-\d\d [\d:.]+Z")


@pytest.mark.parametrize("name", ["changes", "truncates"])
def test_every_command_of_the_page_prints_its_output(name, tmp_path, monkeypatch, capfd):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    monkeypatch.chdir(tmp_path)
    for path, content in FILE.findall(page):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(content)
    commands = [step for block in console_blocks(page) for step in steps(block)]

    for command, expected in commands:
        capfd.readouterr()
        assert cli.main(command.split()[1:]) == 0
        assert TIME.sub("TIME", capfd.readouterr().out).strip() == expected.strip(), command
    assert commands
    assert list(Path("changed").glob("part-*.parquet"))
