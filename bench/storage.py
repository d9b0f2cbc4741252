"""Transfer bytes to a server on loopback and back, round by round, with mutator's storage and the server's own client.

This uses the servers of the tests, and so needs pytest.
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
WARM = 9 << 20  # more than one part of an upload, so that multipart uploads are warmed up as well
# The source; three objects, each twice while its parts are concatenated; in HDFS, which removes files with a delay, two
# files and their replicas of three rounds.
COPIES = 20
NO_FILE = os.devnull


class Missing(Exception):
    """A server cannot be started here; the text is the reason."""


def transfer_size(rows: int) -> int:
    """Return the size of the file in bytes, for a run with masters of ``rows`` rows.

    >>> transfer_size(20_000) >> 20, transfer_size(4_000_000) >> 20
    (16, 256)
    """
    return SMALL if rows <= SIZES["smoke"] else LARGE


def exchange(
    server: str, entries: Sequence[Entry], scratch: Path, *, size: int, repeat: int, limit: float, seed: int
) -> Traffic:
    """Let the contenders write a file and read it, round by round, and check the bytes that they read."""
    results = {entry.name: Moved(entry.name) for entry in entries}
    source, warm = _file(scratch / "source", size, seed), _file(scratch / "warm", WARM, seed + 1)
    try:
        with _STARTERS[server](scratch) as root, ExitStack() as stack:
            participants = [Participant(entry, scratch / "contenders") for entry in entries]
            for participant in participants:
                stack.callback(participant.forget)
            contest = _Contest(root, participants, results, limit)
            contest.warm_up(warm)
            for number in range(repeat):
                contest.round(number, source)
    except (Missing, MutatorError) as why:  # the rest of the benchmark continues
        for result in results.values():
            result.out, result.why = "skipped" if isinstance(why, Missing) else "failed", str(why)
        _log(f"  {server}: {why}")
    return Traffic(server, size, tuple(results.values()))


class _Contest:
    """The contenders of one server, and their results."""

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
            _log(f"  {name:<20} written in {write:6.2f} s, read in {read:6.2f} s")

    def _move(self, title: str, order: list[Participant], source: Path) -> list[tuple[str, float, float]]:
        """Return name, seconds of writing, seconds of reading of each contender; it reads the file of the next one."""
        storage = storage_for(self._root)
        directory = f"{self._root}/{title}"
        storage.make_directory(directory)
        address = {participant: f"{directory}/{participant.directory.name}" for participant in order}
        with source.open("rb") as stream:
            whole = hash_of(blocks(stream))
        written: dict[Participant, float] = {}
        for writer in self._remaining(order):
            with self._result_of(writer):
                command = {"source": source, "address": address[writer]}
                written[writer] = writer.ask("write", self._limit, **command)["seconds"]
        done = []
        writers = list(written)
        for reader, writer in zip(writers, writers[1:] + writers[:1], strict=True):
            with self._result_of(reader):
                answer = reader.ask("read", self._limit, address=address[writer])
                if answer["hash"] != whole:
                    raise Out("failed", f"it read other bytes than {writer.entry.name} wrote")
                done.append((reader.entry.name, written[reader], answer["seconds"]))
        storage.remove(directory)
        return done

    def _remaining(self, order: list[Participant]) -> list[Participant]:
        return [participant for participant in order if self._results[participant.entry.name].out is None]

    @contextmanager
    def _result_of(self, participant: Participant) -> Iterator[Moved]:
        """Yield the result of a contender; if it drops out, record the reason there."""
        result = self._results[participant.entry.name]
        try:
            yield result
        except Out as out:
            result.out, result.why = out.status, str(out)
            _log(f"  {participant.entry.name:<20} {out.status}: {out}")


@contextmanager
def _s3(scratch: Path) -> Iterator[str]:
    """Start moto, and yield a bucket; environment variables lead this process and its children to the server."""
    _needs("pytest", "boto3", "moto")
    from tests.support.s3_server import s3_server

    files = scratch / "s3-server"  # moto keeps large objects in temporary files
    files.mkdir()
    # The user's AWS configuration is not meant for this server.
    quiet = {"AWS_CONFIG_FILE": NO_FILE, "AWS_SHARED_CREDENTIALS_FILE": NO_FILE}
    with patch.dict(os.environ, quiet), ExitStack() as stack:
        os.environ.pop("AWS_PROFILE", None)
        try:
            with patch.dict(os.environ, TMPDIR=str(files)):
                server = stack.enter_context(s3_server())
            os.environ.update(server.environment)
            bucket = server.bucket()
        except (OSError, ValueError) as fault:  # it ended before it printed its port: moto without its extra `server`
            raise Missing(f"moto's server did not start: {fault}") from None
        yield bucket


@contextmanager
def _hdfs(scratch: Path) -> Iterator[str]:
    """Start HDFS with its files in a directory, and yield its address."""
    _needs("pytest", "hdfs_native")
    import pytest

    from tests.support.hdfs_server import Hdfs

    files = scratch / "hdfs-server"
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


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
