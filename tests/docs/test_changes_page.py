"""The commands of docs/changes.md, docs/patches.md and docs/truncates.md print their output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mutator import cli
from tests.support.cluster import ROOT
from tests.support.console import console_blocks, steps

FILE = re.compile(r"`([\w./]+)`:\n\n```(?:csv|text)\n(.*?)```", re.DOTALL)
TIME = re.compile(r"\d{4}-\d\d-\d\d [\d:.]+Z")


@pytest.mark.parametrize("name", ["changes", "patches", "truncates"])
def test_every_command_of_the_page_prints_its_output(name, tmp_path, monkeypatch, capfd):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    monkeypatch.chdir(tmp_path)
    for path, content in FILE.findall(page):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(content)
    commands = [step for block in console_blocks(page) for step in steps(block)]

    for command, expected in commands:
        capfd.readouterr()
        name, *arguments = command.split()
        if name == "cat":
            found = "".join(path.read_text() for path in sorted(Path().glob(arguments[0])))
        else:
            assert cli.main(arguments) == 0
            found = capfd.readouterr().out
        assert TIME.sub("TIME", found).strip() == expected.strip(), command
    assert commands
    assert ("--changes changed" in page) == bool(list(Path("changed").glob("part-*.parquet")))
