"""The benchmark of several writers: real processes, and the sentence that it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.writers import APART, Race, line, new_tables, race


@pytest.mark.processes
@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize("apart", [False, True])
def test_writers_share_the_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    tables = new_tables(str(tmp_path / "table"), writers=2, apart=apart)
    found = race(tables, commits=6, rows=4)
    assert [table.version for table in tables] == ([4, 4] if apart else [8, 8])
    assert found.writers == 2
    assert found.commits > 0
    assert found.cpu > 0
    assert found.tries >= 1
    assert found.requests == 0


def test_the_sentence() -> None:
    one, several = Race(1, 10.0, 1.0, 5.0, 0.02), Race(8, 31.0, 2.5, 14.0, 0.05)
    assert line("S3", [[one, several]]) == (
        "S3: 1 writer: 10.0 commits a second, 20 ms of CPU a commit, 1.0 tries, 5.0 requests; "
        "8 writers: 31.0 commits a second, 50 ms of CPU a commit, 2.5 tries, 14.0 requests; "
        "ratio 3.10, at least 3: reached"
    )
    assert line("memory", [[one, several]]).endswith("ratio 3.10, at least 1.5: reached")
    assert line(APART, [[one, several]]).endswith("ratio 3.10")
