"""The page on versioned tables: its commands print their output, one after the other in one directory."""

from __future__ import annotations

import re
from pathlib import Path

from mutator import cli
from tests.support.console import console_blocks, same, steps

PAGE = (Path(__file__).parents[2] / "docs" / "table.md").read_text()
FILE = re.compile(r"`([\w./]+)`[^`]*:\n\n```(?:json|csv)\n(.*?)```", re.DOTALL)
VARIABLE = (
    (r"TIME\.\d+\+00:00", "TIME"),
    (r"/\S*/sales\b", "sales"),
    (r"[\d,]+ bytes", "N bytes"),
    (r"(?m) +\S+ +N s$", " BYTES N s"),
    (r"(?m) +", " "),
)


def plain(text):
    text = same(text)
    for pattern, word in VARIABLE:
        text = re.sub(pattern, word, text)
    return text


def test_every_command_of_the_page_on_tables_prints_its_output(tmp_path, monkeypatch, capfd):
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
    assert len(commands) == 9
