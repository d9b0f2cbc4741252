"""The commands of docs/explain.md print their output."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mutator import cli
from tests.support.console import console_blocks, same, steps

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explain.md").read_text()


def test_every_command_of_the_page_prints_its_output(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    commands = [step for block in console_blocks(PAGE) for step in steps(block)]

    for command, expected in commands:
        capfd.readouterr()
        if command.startswith("mutator "):
            assert cli.main(command.split()[1:]) == 0
            found = capfd.readouterr().out
        else:
            found = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout

        found = found.replace(f"{ROOT}/", "").replace(f"{tmp_path}/", "")
        assert same(found) == same(expected), command
    assert len(commands) == 16
