"""The page with the files before and after a compaction: its commands print what it shows, and the picture agrees."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mutator.table.table import Table
from tests.docs.test_pages import plain
from tests.support.console import console_blocks, steps

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "table_compaction.md").read_text()
PICTURE = (DOCS / "compacted_table.svg").read_text()


@pytest.mark.rest
@pytest.mark.processes
def test_every_command_of_the_page_prints_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = re.search(r"`readings.py`:\n\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert script is not None
    (tmp_path / "readings.py").write_text(script[1])
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for command, expected in [step for block in console_blocks(PAGE) for step in steps(block)]:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        found, shown = plain(done.stdout.replace(f"{tmp_path}/", "/data/")), plain(expected)
        if command.endswith("| sort"):  # the IDs of two runs of one second are in no order
            found, shown = ("\n".join(sorted(text.splitlines())) for text in (found, shown))
        assert found == shown, command
    table = Table("readings")
    before = [live_rows(table, 6, number) for number in range(6)]
    shown = re.findall(r">([\d,]+) live(?:, ([\d,]+) hidden)?", PICTURE)
    numbers = [tuple(int(one.replace(",", "") or 0) for one in pair) for pair in shown]
    assert numbers == [*before, *(live_rows(table, 7, number) for number in range(2))]


def live_rows(table: Table, version: int, number: int) -> tuple[int, int]:
    """Return the numbers of live and of hidden rows of a data file."""
    snapshot = table.at(version)
    file = sorted(snapshot.of_role("data"), key=lambda one: one.rows if version == 7 else 0, reverse=True)[number]
    hidden = len(snapshot.masks.hidden(file.path))
    return file.rows - hidden, hidden
