"""The page on plausible mistakes: its example stops with the message that it shows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from mutator import cli
from tests.support.cluster import ROOT
from tests.support.console import console_blocks, steps

PAGE = (ROOT / "docs" / "mistakes.md").read_text()


def test_the_example_stops_with_its_message(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = console_blocks(PAGE)
    *files, (command, expected) = steps(block)
    for shell, _ in files:
        subprocess.run(shell, shell=True, check=True)

    assert cli.main(command.split()[1:]) == 2

    assert capfd.readouterr().err.replace(f"{tmp_path}/", "/data/") == expected
