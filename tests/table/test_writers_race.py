"""Processes that apply feeds to one table as fast as they can, while others read it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from mutator.storage import storage_for
from mutator.table import apply
from mutator.table.table import Table
from tests.support.cluster import ROOT
from tests.support.lossy_proxy import lossy_proxy
from tests.support.patience import PATIENCE
from tests.support.storage_places import hdfs_place, local_place, s3_place

COMMON = 3  # IDs that all writers change
PLACES = {"local": local_place, "s3": s3_place, "hdfs": hdfs_place}
REMOTE = ["s3", "hdfs"]
LOST = 5  # every so-many-th answer
# Seconds after which a request has ended: boto3 waits 60 s for an answer, and HDFS lets others recover a file that its
# writer has not renewed for 60 s.
TIMEOUT = 65
_LONG = 6 * PATIENCE  # 400 commits and their requests to a server on the same, perhaps loaded, machine
_UNDER_WAY = 6  # seconds until a writer has started, and is anywhere in one of its first applies


@pytest.fixture(name="root")
def new_root(request: pytest.FixtureRequest) -> str:
    return PLACES[request.param](request)


def new_table(root: str) -> Table:
    return Table.create(f"{root}/t", key="id", order_by="at", buckets=2)


def feed_of(writer: int, step: int, writers: int) -> pa.Table:
    """Return rows of the writer alone, and one of a record that all of them change. Order values are unique."""
    at = step * writers + writer
    ids = [1000 * (writer + 1) + step, 1000 * (writer + 1) + step // 2, step % COMMON]
    return pa.table({"id": ids, "at": [at] * len(ids), "by": [writer] * len(ids)})


def write(path: str, writer: str, writers: str, steps: str, step_of_stop: str = "-1") -> None:
    if int(writer) % 2:
        apply.INLINE = apply._INLINE_FEED = 0  # files apart from the log
    for step in range(int(steps)):
        with stopped_in_creation(path, step == int(step_of_stop)):
            Table(path).apply(feed_of(int(writer), step, int(writers)))


@contextmanager
def stopped_in_creation(path: str, stops: bool) -> Iterator[None]:
    """Stop this process, as SIGSTOP from a terminal does, when it has begun to create a log entry."""
    kind = type(storage_for(path))
    create_new = kind.create_new

    @contextmanager
    def stopping(self: Any, path: str, *more: Any) -> Iterator[Any]:
        with create_new(self, path, *more) as stream:
            if "/log/" in path and waiting:
                waiting.clear()
                os.kill(os.getpid(), signal.SIGSTOP)
            yield stream

    waiting = [1] * stops
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "create_new", stopping)
        yield


def read(path: str, versions: str) -> None:
    """Scan until the last version is there: each key has one row, and versions never go back."""
    table, seen = Table(path), 0
    while seen < int(versions):
        assert table.refresh().version >= seen
        seen = table.version
        if seen:
            ids = table.scan(["id"]).to_arrow().column("id").to_pylist()
            assert len(ids) == len(set(ids)) == table.snapshot.version.records


def start(act: str, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, act, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True)


def end(running: Sequence[subprocess.Popen[str]]) -> None:
    """Wait for processes; if one of them fails, the others end, too."""
    try:
        for process in running:
            _, message = process.communicate(timeout=_LONG)
            assert process.returncode == 0, message
    finally:
        for process in running:
            process.kill()


def check(table: Table, writers: int, steps: int) -> None:
    """Check that every apply of every writer is in the table, once."""
    assert table.refresh().version == writers * steps
    expected: dict[int, tuple[int, int]] = {}
    for writer in range(writers):
        for step in range(steps):
            for row in feed_of(writer, step, writers).to_pylist():
                expected[row["id"]] = max(expected.get(row["id"], (-1, -1)), (row["at"], row["by"]))
    assert {row["id"]: (row["at"], row["by"]) for row in table.scan().to_pylist()} == expected
    assert sum(entry.counts.get("feed rows", 0) for entry in table.log()) >= 2 * writers * steps
    assert table.verify().problems == ()


def race(table: Table, writers: int, steps: int, lossy: str | None = None, pause: float | None = None) -> None:
    """Let writers and a reader go on at the same time.

    lossy: the path by which every other writer reaches the table. pause: seconds for which the first one is stopped.
    """
    paths = [lossy if lossy and number % 2 else table.path for number in range(writers)]
    running = [start("write", path, number, writers, steps) for number, path in enumerate(paths)]
    running.append(start("read", table.path, writers * steps))
    if pause is not None:
        time.sleep(_UNDER_WAY)
        running[0].send_signal(signal.SIGSTOP)
        time.sleep(pause)
        running[0].send_signal(signal.SIGCONT)
    end(running)
    check(table, writers, steps)


@contextmanager
def lost_answers(request: pytest.FixtureRequest, path: str) -> Iterator[str]:
    """Yield another path of a table, by which the answers to some changes get lost."""
    if path.startswith("s3:"):
        server = request.getfixturevalue("s3")
        server.behave(lose_each=LOST)
        try:
            yield path
        finally:
            server.behave()
    else:
        authority = path.split("/")[2]
        with lossy_proxy(authority, b"rename", LOST) as proxy:
            yield path.replace(authority, proxy)


@pytest.mark.processes
@pytest.mark.thorough(keep=0, rest=0)
@pytest.mark.parametrize("root", ["local", *REMOTE], indirect=True)
def test_writers_and_a_reader(root: str) -> None:
    race(new_table(root), writers=3, steps=3)


@pytest.mark.processes
@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize("root", REMOTE, indirect=True)
def test_writers_whose_answers_get_lost(root: str, request: pytest.FixtureRequest) -> None:
    table = new_table(root)
    with lost_answers(request, table.path) as path:
        race(table, writers=3, steps=3, lossy=path)


@pytest.mark.processes
@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize("root", PLACES, indirect=True)
def test_a_writer_that_is_stopped_follows_the_others(root: str) -> None:
    stopped_in_the_second_apply(new_table(root), seconds=0)


def stopped_in_the_second_apply(table: Table, seconds: float) -> None:
    writers, steps = 3, 2
    slow = start("write", table.path, 0, writers, steps, 1)
    try:
        assert os.WIFSTOPPED(os.waitpid(slow.pid, os.WUNTRACED)[1])
        began = time.monotonic()
        assert table.refresh().version == 1
        end([start("write", table.path, number, writers, steps) for number in range(1, writers)])
        assert table.refresh().version == 1 + (writers - 1) * steps
        time.sleep(max(0, began + seconds - time.monotonic()))
    finally:
        slow.send_signal(signal.SIGCONT)
    end([slow])
    check(table, writers, steps)


@pytest.mark.soak
@pytest.mark.parametrize("root", PLACES, indirect=True)
def test_many_writers_and_a_reader(root: str) -> None:
    race(new_table(root), writers=8, steps=50)


@pytest.mark.soak
@pytest.mark.parametrize("root", REMOTE, indirect=True)
def test_many_writers_of_whom_some_lose_answers_and_one_is_paused(root: str, request: pytest.FixtureRequest) -> None:
    table = new_table(root)
    with lost_answers(request, table.path) as path:
        race(table, writers=8, steps=50, lossy=path, pause=TIMEOUT)


@pytest.mark.soak
@pytest.mark.parametrize("root", PLACES, indirect=True)
def test_a_writer_that_is_stopped_for_longer_than_its_timeouts(root: str) -> None:
    stopped_in_the_second_apply(new_table(root), TIMEOUT)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
