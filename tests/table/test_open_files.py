"""A table may have more files than a process may have open."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.versions import paged_file
from mutator.engine.scratch import scratch_error
from mutator.engine.versions import live_rows
from mutator.engine.versions.live_rows import KeptIndexes
from mutator.errors import MutatorError
from mutator.storage import storage_for
from mutator.table import apply
from mutator.table.table import Table
from tests.support.cluster import ROOT
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

VERSIONS, LIMIT = 80, 64
SETTINGS = {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS}


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.processes
@pytest.mark.parametrize("whole", [1 << 16, 0])
def test_a_table_may_have_more_versions_than_a_process_open_files(tmp_path: Path, whole: int) -> None:
    words = [sys.executable, __file__, str(tmp_path), str(whole)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def act(work: str, whole: int) -> None:
    """Apply many feeds, then read the table in each way. whole: up to how many bytes an index is read at once."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    apply.INLINE = 0
    paged_file._WHOLE = whole

    table = Table.create(f"{work}/table", SETTINGS, buckets=1)
    feed = Path(work, "feed.csv")
    for number in range(VERSIONS):
        feed = feed.rename(Path(work, f"feed{number}.csv")) if number else Path(work, "feed0.csv")
        feed.write_text(f"id,at,op\nk{number},{number},I\n")
        table.apply(str(feed), open_runner=open_runner)
    again = Table(table.path)
    assert again.get("k3")["id"] == "k3"
    assert again.scan(where="id = 'k3'").to_pylist() == again.scan().to_pylist()[3:4]
    assert len(list(again.changes(0))) > 0
    again.export(f"{work}/out", open_runner=open_runner)
    assert again.verify(open_runner=open_runner).problems == ()


class Index:
    """A key index that uses some memory."""

    def __init__(self, memory: int) -> None:
        self.memory = memory


def test_the_indexes_that_were_not_used_for_longest_are_given_up(monkeypatch: Any) -> None:
    monkeypatch.setattr(live_rows, "_MOST", 3)
    monkeypatch.setattr(live_rows, "_MEMORY", 10)
    kept = KeptIndexes()
    indexes: dict[str, Any] = {name: Index(0) for name in "abcd"}
    for name in "abc":
        kept.keep(name, indexes[name])
    assert kept.get("a") is indexes["a"]
    kept.keep("d", indexes["d"])
    assert [name for name in "abcd" if kept.get(name)] == ["a", "c", "d"]
    indexes["a"].memory = 8  # pages that it has read since
    assert kept.get("a")
    kept.keep("e", Index(3))  # type: ignore[arg-type]
    assert [name for name in "acde" if kept.get(name)] == ["e"]
    for memory in (9, 6):  # of merged keys
        kept.leave(memory)
        kept.keep("a", Index(1))  # type: ignore[arg-type]
        assert [name for name in "ae" if kept.get(name)] == (["a"] if memory == 9 else ["a", "e"])
        kept.keep("e", Index(3))  # type: ignore[arg-type]


def test_too_many_open_files_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(MutatorError) as caught:
            storage_for(str(path)).open(str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert caught.value.kind == "storage.handles"
    assert str(path) in str(caught.value)
    assert "ulimit -n" in str(caught.value)


def test_temporary_files_that_cannot_be_opened_are_an_error_that_says_what_to_do() -> None:
    fault = OSError(errno.EMFILE, "Too many open files")
    assert scratch_error("/tmp", fault).kind == "storage.handles"
    assert scratch_error("/tmp", OSError(errno.EIO, "Input/output error")).kind == "scratch"


if __name__ == "__main__":
    act(sys.argv[1], int(sys.argv[2]))
