"""The page on reports: its commands run, and write the files that it names."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from mutator import cli
from tests.support.cluster import ROOT
from tests.support.console import console_blocks, same, steps
from tests.support.html_page import check

PAGE = (ROOT / "docs" / "reports.md").read_text()


def plain(text):
    return re.sub(" +", " ", same(text))


def test_every_command_of_the_page_prints_its_output(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")
    commands = [step for block in console_blocks(PAGE) for step in steps(block)]

    for command, expected in commands:
        capfd.readouterr()

        if command.startswith("mutator "):
            assert cli.main(command.split()[1:]) == 0, command
            found = capfd.readouterr().out
        else:
            found = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout

        assert plain(found) == plain(expected), command
        for page in re.findall(r"--html (\S+)", command):
            check(Path(page).read_text())
    assert commands
