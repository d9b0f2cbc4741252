"""Bytes to a server on loopback and back, round by round: mutator's storage beside the server's own client.

The servers are those of the tests, which is why pytest is needed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np

from bench.contenders.catalogue import Entry
from bench.contenders.transfers import hash_of
from bench.participant import Out, Participant
from bench.traffic import Moved, Traffic
from bench.workload import SIZES
from mutator.errors import MutatorError
from mutator.storage import blocks, storage_for

__all__ = ["COPIES", "exchange", "transfer_size"]

SMALL, LARGE = 16 << 20, 256 << 20
WARM = 9 << 20  # more than one part of the object stores' clients, so that sending parts is warmed up, too
# The source; three objects, twice while parts are joined; three rounds of two files and their replicas in HDFS, which
# removes with a delay.
COPIES = 20
NO_FILE = os.devnull


class Missing(Exception):
    """A server cannot be started here; the text is the reason."""


def transfer_size(rows: int) -> int:
    """Return the size of the file for a master of so many rows, in bytes.

    >>> transfer_size(20_000) >> 20, transfer_size(4_000_000) >> 20
    (16, 256)
    """
    return SMALL if rows <= SIZES["smoke"] else LARGE


def exchange(
    server: str, entries: Sequence[Entry], place: Path, *, size: int, repeat: int, limit: float, seed: int
) -> Traffic:
    """Let the contenders write a file and read it, round by round, and check what they have read."""
    results = {entry.name: Moved(entry.name) for entry in entries}
    source, warm = _file(place / "source", size, seed), _file(place / "warm", WARM, seed + 1)
    try:
        with _STARTERS[server](place) as root, ExitStack() as stack:
            participants = [Participant(entry, place / "contenders") for entry in entries]
            for participant in participants:
                stack.callback(participant.forget)
            contest = _Contest(root, participants, results, limit)
            contest.warm_up(warm)
            for number in range(repeat):
                contest.round(number, source)
    except (Missing, MutatorError) as why:  # the rest of the report is measured regardless
        for result in results.values():
            result.out, result.why = "skipped" if isinstance(why, Missing) else "failed", str(why)
        _say(f"  {server}: {why}")
    return Traffic(server, size, tuple(results.values()))


class _Contest:
    """The contenders, and the server that they use."""

    def __init__(self, root: str, participants: list[Participant], results: dict[str, Moved], limit: float) -> None:
        self._root = root
        self._participants = participants
        self._results = results
        self._limit = limit

    def warm_up(self, source: Path) -> None:
        """Start all contenders, and let each transfer a small file."""
        for participant in self._participants:
            with self._result_of(participant) as result:
                participant.start()
                result.versions = participant.versions
        self._move("warm", self._participants, source)

    def round(self, number: int, source: Path) -> None:
        """Let all contenders write and read; the first one changes from round to round."""
        turn = number % len(self._participants)
        order = self._participants[turn:] + self._participants[:turn]
        for name, write, read in self._move(f"round-{number}", order, source):
            self._results[name].write.append(write)
            self._results[name].read.append(read)
            _say(f"  {name:<20} written in {write:6.2f} s, read in {read:6.2f} s")

    def _move(self, title: str, order: list[Participant], source: Path) -> list[tuple[str, float, float]]:
        """Return the seconds of writing and reading of each contender; each reads another one's file."""
        storage = storage_for(self._root)
        directory = f"{self._root}/{title}"
        storage.make_directory(directory)
        address = {one: f"{directory}/{one.place.name}" for one in order}
        with source.open("rb") as stream:
            whole = hash_of(blocks(stream))
        written: dict[Participant, float] = {}
        for one in self._left(order):
            with self._result_of(one):
                written[one] = one.ask("write", self._limit, source=source, address=address[one])["seconds"]
        done = []
        writers = list(written)
        for one, other in zip(writers, writers[1:] + writers[:1], strict=True):
            with self._result_of(one):
                answer = one.ask("read", self._limit, address=address[other])
                if answer["hash"] != whole:
                    raise Out("failed", f"it read other bytes than {other.entry.name} was given to write")
                done.append((one.entry.name, written[one], answer["seconds"]))
        storage.remove(directory)
        return done

    def _left(self, order: list[Participant]) -> list[Participant]:
        return [one for one in order if self._results[one.entry.name].out is None]

    @contextmanager
    def _result_of(self, participant: Participant) -> Iterator[Moved]:
        """Return the result of a contender, and note in it that the contender is out."""
        result = self._results[participant.entry.name]
        try:
            yield result
        except Out as out:
            result.out, result.why = out.kind, str(out)
            _say(f"  {participant.entry.name:<20} {out.kind}: {out}")


@contextmanager
def _s3(place: Path) -> Iterator[str]:
    """Start moto, and yield a bucket; this process and its children find it by the environment."""
    _needs("pytest", "boto3", "moto")
    from tests.support.s3_server import s3_server

    files = place / "s3-server"  # large objects are in temporary files
    files.mkdir()
    # The user's files and variables would apply to both sides, but are not meant for this server.
    quiet = {"AWS_CONFIG_FILE": NO_FILE, "AWS_SHARED_CREDENTIALS_FILE": NO_FILE}
    with patch.dict(os.environ, quiet), ExitStack() as stack:
        os.environ.pop("AWS_PROFILE", None)
        try:
            with patch.dict(os.environ, TMPDIR=str(files)):
                server = stack.enter_context(s3_server())
            os.environ.update(server.environment)
            bucket = server.bucket()
        except (OSError, ValueError) as fault:  # it ended before it printed its port: moto without its extra
            raise Missing(f"moto's server did not start: {fault}") from None
        yield bucket


@contextmanager
def _hdfs(place: Path) -> Iterator[str]:
    """Start HDFS with its files in a directory, and yield its address."""
    _needs("pytest", "hdfs_native")
    import pytest

    from tests.support.hdfs_server import Hdfs

    files = place / "hdfs-server"
    files.mkdir()
    try:
        server = Hdfs(files)
    except pytest.skip.Exception as why:
        raise Missing(str(why)) from None
    try:
        try:
            server.start_all()
        except (OSError, subprocess.SubprocessError) as fault:
            raise Missing(f"HDFS did not start: {fault}") from None
        yield server.url
    finally:
        server.stop_all()
        shutil.rmtree(files, ignore_errors=True)


_STARTERS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {"s3": _s3, "hdfs": _hdfs}


def _needs(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise Missing(f"{module} is not installed")


def _file(path: Path, size: int, seed: int) -> Path:
    if not path.exists():
        path.write_bytes(np.random.default_rng(seed).bytes(size))
    return path


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
