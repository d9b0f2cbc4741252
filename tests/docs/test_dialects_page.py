"""The commands of docs/dialects.md print their output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mutator import cli
from tests.support.cluster import ROOT
from tests.support.console import console_blocks, steps

PAGE = (ROOT / "docs" / "dialects.md").read_text()
FILES = re.compile(r"`([\w./]+)` has\s.*?:\n\n```json\n(.*?)```", re.DOTALL)


def test_every_command_of_the_page_prints_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, content in FILES.findall(PAGE):
        Path(path).write_text(content)
    commands = [step for block in console_blocks(PAGE) for step in steps(block)]

    for command, expected in commands:
        program, *words = command.split()
        capfd.readouterr()
        if program == "cat":
            found = "".join(path.read_text() for path in Path().glob(words[0]))
        else:
            assert cli.main(words) == 0
            found = capfd.readouterr().out
        assert found.strip() == expected.strip(), command
    assert len(commands) == 2
