"""The page on insert overwrites: its commands print their output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mutator import cli
from tests.docs.test_readme import compare
from tests.docs.test_table_page import FILE, plain
from tests.support.console import console_blocks, steps

PAGE = (Path(__file__).parents[2] / "docs" / "insert_overwrite.md").read_text()
OF_TABLES = [block for block in console_blocks(PAGE) if "mutator table" in block]
OF_DIRECTORIES = [block for block in console_blocks(PAGE) if "mutator run" in block]


def _timeless(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d [\d:.]+Z", "TIME", plain(text))


def test_every_command_on_a_table_prints_its_output(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for path, content in FILE.findall(PAGE):
        Path(path).write_text(content)
    commands = [step for block in OF_TABLES for step in steps(block)]
    for command, expected in commands:
        capfd.readouterr()
        assert cli.main(command.split()[1:]) == 0
        found = capfd.readouterr().out.replace(str(tmp_path), "/data")
        assert _timeless(found) == _timeless(expected), command
    assert len(commands) == 7


def test_every_command_on_a_directory_prints_its_output(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    for path, content in FILE.findall(PAGE):
        (tmp_path / path).write_text(content)
    assert len(OF_DIRECTORIES) == 2
    compare("".join(OF_DIRECTORIES), tmp_path, monkeypatch, capfd)
