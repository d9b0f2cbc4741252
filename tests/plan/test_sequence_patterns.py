"""Sequences of two patterns cannot be compared, so a master keeps the pattern that it was written with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from mutator.errors import ConfigError, StateError
from mutator.table.table import Table
from tests.support.named_runs import Work

PATTERN = r"r(?P<number>\d+)_"
SETTINGS = {"id.field.ordinals": "id", "allow.empty.master": "true"}
REFUSED = "this run has by file name, with"


def fed(work: Work, number: int, file_format: str) -> None:
    work.put(f"feed{number}/r{number}0_{9 - number}", pa.table({"id": [1], "v": [number]}), file_format)


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
@pytest.mark.parametrize(("first", "second"), [(PATTERN, "last"), (None, PATTERN), ("last", None)])
def test_another_pattern_is_a_conflict(tmp_path: Path, file_format: str, first: str | None, second: str | None) -> None:
    more = {"header.lines": "1"} if file_format == "csv" else {}
    work = Work(tmp_path, settings={**SETTINGS, **more, "late.files": "merge"})
    fed(work, 1, file_format)
    fed(work, 2, file_format)
    patterns: list[dict[str, str]] = [{} if one is None else {"sequence.pattern": one} for one in (first, second)]
    work.run(patterns[0], master="none", feed="feed1")
    if PATTERN in (first, second):
        with pytest.raises(StateError, match=REFUSED):
            work.run(patterns[1], master="out1", feed="feed2")
        adopted = work.run({**patterns[1], "master.adopt": "true"}, master="out1", feed="feed2")
        assert adopted.counts["feed updated"] == 1  # sequences of the other pattern are forgotten
    counts = work.run(patterns[0], master="out1", feed="feed2").counts  # the cure
    assert counts["feed updated"] == (first == PATTERN)


def test_a_pattern_that_is_not_given_again_is_that_of_the_manifest(tmp_path: Path) -> None:
    work = Work(tmp_path, settings=SETTINGS)
    for number, name in ((1, "o_20261231_2"), (2, "o_20270101_1")):
        work.put(f"feed{number}/{name}", pa.table({"id": [1], "v": [number]}), "parquet")
    work.run({"sequence.pattern": "date"}, master="none", feed="feed1")
    assert work.run(master="out1", feed="feed2").counts["feed updated"] == 1
    with pytest.raises(StateError, match=r"order = by file name, with sequence\.pattern=date"):
        work.run({"sequence.pattern": "last"}, master="out1", feed="feed2")


def test_a_table_keeps_its_pattern(tmp_path: Path) -> None:
    work = Work(tmp_path)
    for number in (1, 2):
        fed(work, number, "parquet")
    table = Table.create(tmp_path / "table", {"key": "id", "sequence.pattern": PATTERN})
    table.apply(tmp_path / "feed1")
    with pytest.raises(ConfigError, match=r"this apply has by file name, with no sequence\.pattern"):
        table.apply(tmp_path / "feed2", sequence_pattern="last")
    assert table.apply(tmp_path / "feed2").counts["feed updated"] == 1
