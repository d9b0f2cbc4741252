"""Let several processes apply feeds without a common key to one table: ``python -m bench.writers``.

It prints the commits a second of one writer and of several, in memory, and on the S3 server of the tests with a delay
for each request. That server needs pytest and moto. Writers "apart", each with a table of its own in memory, show what
the machine can do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import pyarrow as pa

from bench.machine import describe, scratch
from mutator.dataset.commits import Commit
from mutator.dataset.versions.log import TableLog
from mutator.table.table import Table

__all__ = ["APART", "Race", "line", "main", "new_tables", "race"]

APART = "apart"
TARGETS = {"memory": 1.5, APART: None, "S3": 3.0}  # times the commits of one writer
_ROOM = 1 << 30


@dataclass(frozen=True)
class Race:
    """The commits a second of some writers, and for each commit its tries, requests to S3, and CPU of the writers."""

    writers: int
    commits: float
    tries: float
    requests: float
    cpu: float  # seconds


def main() -> int:
    """Run all races, print the figures, and return 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.writers", allow_abbrev=False, description=__doc__)
    parser.add_argument("--writers", type=int, default=8, help="processes (%(default)s)")
    parser.add_argument("--commits", type=int, default=160, help="commits of a race, in all (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="races of which the median counts (%(default)s)")
    parser.add_argument("--rows", type=int, default=10, help="rows of a feed (%(default)s)")
    parser.add_argument("--delay", type=float, default=20, help="ms that a request to S3 takes more (%(default)s)")
    parser.add_argument("--only", choices=sorted(TARGETS), action="append", help="by default all")
    given = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in describe().items()))
    for place in given.only or TARGETS:
        with _s3(given.delay / 1000) if place == "S3" else _memory() as root:
            races = [
                [
                    race(new_tables(f"{root}/{turn}-{many}", many, place == APART), given.commits, given.rows)
                    for many in (1, given.writers)
                ]
                for turn in range(given.rounds)
            ]
        print(line(place, races), flush=True)
    return 0


def line(place: str, races: Sequence[Sequence[Race]]) -> str:
    """Return the medians of rounds as a sentence. races: of one writer, and of several, in each round."""
    ratio = statistics.median(several.commits / one.commits for one, several in races)
    found = []
    for some in zip(*races, strict=True):
        parts = [f"{statistics.median(one.commits for one in some):.1f} commits a second"]
        parts.append(f"{1000 * statistics.median(one.cpu for one in some):.0f} ms of CPU a commit")
        parts.append(f"{statistics.median(one.tries for one in some):.1f} tries")
        requests = statistics.median(one.requests for one in some)
        parts += [f"{requests:.1f} requests"] if requests else []
        found.append(f"{some[0].writers} writer{'s' * (some[0].writers > 1)}: {', '.join(parts)}")
    target = TARGETS[place]
    verdict = "" if target is None else f", at least {target:g}: {'reached' if ratio >= target else 'missed'}"
    return f"{place}: {'; '.join(found)}; ratio {ratio:.2f}{verdict}"


def new_tables(path: str, writers: int, apart: bool) -> list[Table]:
    """Return the new table of each writer. apart: each has its own."""
    paths = [f"{path}-{number}" for number in range(writers if apart else 1)]
    tables = [Table.create(one, key="id", order_by="at", buckets=2) for one in paths]
    return tables if apart else tables * writers


def race(tables: Sequence[Table], commits: int, rows: int) -> Race:
    """Let writers share a number of commits to new tables. They begin together, each with its first commit done.

    tables: that of each writer.
    """
    writers, steps = len(tables), commits // len(tables)
    words = [sys.executable, "-m", "bench.writers", "write"]
    running = [
        subprocess.Popen(
            [*words, table.path, *map(str, (number, steps, rows))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, table in enumerate(tables)
    ]
    try:
        for process in running:
            _answer(process)
        started = time.monotonic()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [_answer(process) for process in running]
        seconds = time.monotonic() - started
    finally:
        for process in running:
            process.kill()
            process.communicate()
    versions = sum(table.refresh().version for table in {table.path: table for table in tables}.values())
    if versions != (steps + 1) * writers:
        raise RuntimeError(f"{tables[0].path} and the others have {versions} versions")
    done = steps * writers
    sums = {name: sum(answer[name] for answer in answers) / done for name in ("tries", "requests", "cpu")}
    return Race(writers, done / seconds, **sums)


def _answer(process: subprocess.Popen[str]) -> Mapping[str, float]:
    assert process.stdout is not None
    text = process.stdout.readline()
    if not text:
        raise RuntimeError("a writer ended")
    found: Mapping[str, float] = json.loads(text)
    return found


def _write(path: str, writer: int, steps: int, rows: int) -> None:
    """Apply a feed, and then, after a line from the standard input, some more; count tries and requests."""
    tries, requests, commit = list[int](), list[int](), TableLog.commit

    def counted(log: TableLog, version: Commit) -> bool:
        tries.append(1)
        return commit(log, version)

    if path.startswith("s3:"):
        from mutator.storage.s3_client import client

        client(path).meta.events.register("before-call.s3", lambda **_: requests.append(1))
    table = Table(path)
    with patch.object(TableLog, "commit", counted):
        table.apply(_feed(writer, 0, rows))
        print("{}", flush=True)
        sys.stdin.readline()
        tries.clear()
        requests.clear()
        cpu = time.process_time()
        for step in range(1, steps + 1):
            table.apply(_feed(writer, step, rows))
        cpu = time.process_time() - cpu
    print(json.dumps({"tries": len(tries), "requests": len(requests), "cpu": cpu}), flush=True)


def _feed(writer: int, step: int, rows: int) -> pa.Table:
    first = 1_000_000_000 * (writer + 1) + rows * step
    return pa.table({"id": range(first, first + rows), "at": [step] * rows, "by": [writer] * rows})


@contextmanager
def _memory() -> Iterator[str]:
    root = scratch(_ROOM)
    try:
        yield str(root)
    finally:
        shutil.rmtree(root)


@contextmanager
def _s3(delay: float) -> Iterator[str]:
    from tests.support.s3_server import s3_server

    with s3_server() as server, patch.dict(os.environ, server.environment):
        root = server.bucket()
        server.behave(wait=delay)
        yield root


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        _write(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        sys.exit(main())
