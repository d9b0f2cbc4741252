"""Real processes: programs as a user starts them, and a Spark standalone cluster on loopback to run them on.

    with standalone(tmp_path) as master:
        submit(master, "jobs/bulk_mutate.py", ...)

What only a cluster shows: executors have no checkout, no driver's memory and no driver's exceptions.

Nothing outlives its `with`. Every process is a session of its own, stopped as a whole; and it waits behind a shell that
ends it when this process is gone, kill -9 included.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

import pyspark

from tests.support.patience import PATIENCE, wait_until

__all__ = ["CACHE", "QUICK", "ROOT", "SAMPLE", "environment", "merged_sample", "rows", "run", "standalone", "submit"]

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample_data" / "product"
STOP_SECONDS = 10

CACHE = str(ROOT / "build" / "cache")  # for archives of Spark's classes, which all tests share

# These JVMs are too short-lived for the optimising compiler: without it, they need half the time or less.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# Options of Spark's scripts for the driver's JVM, and for the JVM that builds its command line.
QUICK_JVM = {"SPARK_SUBMIT_OPTS": QUICK, "SPARK_LAUNCHER_OPTS": QUICK}

# The shell's input is a pipe from this process: `read` returns when we close it, or when this process ends.
GUARD = '"$@" & read -r _; kill $!; wait $!'


def environment(**more: str) -> dict[str, str]:
    """Return the smallest environment for Spark: the system's PATH without a virtual environment, and a quick Java."""
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "HOME", "LANG", "TMPDIR", "TZ") if name in os.environ}
    own = {"PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1", **QUICK_JVM}
    return own | {"XDG_CACHE_HOME": CACHE} | kept | more


def run(
    command: Sequence[str | Path], env: dict[str, str], cwd: Path = ROOT, seconds: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """Run a command; kill it and all its children if it takes too long."""
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        finally:
            _kill(process)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def submit(
    master: str, *words: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run spark-submit; driver and workers use this Python unless `env` says otherwise."""
    env = environment(PYSPARK_PYTHON=sys.executable) if env is None else env
    executors = f"spark.executor.extraJavaOptions={QUICK}"
    return run([_spark("spark-submit"), "--master", master, "--conf", executors, *words], env, cwd)


def merged_sample() -> list[bytes]:
    """Return the sorted rows of the merged product sample: a dict to which the feed is applied by timestamp."""
    master = {row.split(b",")[0]: row for row in _lines(SAMPLE / "master" / "base_prod.txt")}
    feed = [
        (int(row.split(b",")[5]), name, position, row)
        for name in ("del_prod.txt", "ups_prod.txt")
        for position, row in enumerate(_lines(SAMPLE / "feed" / name))
    ]
    for time_of, name, _, row in sorted(feed):
        key = row.split(b",")[0]
        if key in master and int(master[key].split(b",")[5]) > time_of:
            continue
        if name.startswith("del"):
            master.pop(key, None)
        else:
            master[key] = row
    return sorted(master.values())


def rows(output: Path) -> list[bytes]:
    """Return the sorted rows of an output directory; check that it has several data files, and that each row ends with
    LF.
    """
    parts = [part.read_bytes() for part in output.glob("part-*")]
    assert len(parts) >= 2, f"{output} holds {sorted(output.rglob('*'))}"
    assert all(part.endswith(b"\n") for part in parts)
    return sorted(row for part in parts for row in part.removesuffix(b"\n").split(b"\n"))


@contextmanager
def standalone(directory: Path, workers: int = 2) -> Iterator[str]:
    """Start a master and workers of one core each, and yield the master's URL once all are registered."""
    with ExitStack() as stack:
        log = directory / "master.log"
        # Port 0 is always free; a port chosen here could be taken by the time the JVM is up.
        ports = ["--port", "0", "--webui-port", "0"]
        stack.enter_context(_daemon("master.Master", ports, log))
        master = _await(lambda: _found(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)", log), log)
        port = _await(lambda: _found(r"service 'MasterUI' on port (\d+)", log), log)
        for number in range(workers):
            options = [
                *ports,
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(directory / f"work-{number}"),
                master,
            ]
            stack.enter_context(_daemon("worker.Worker", options, directory / f"worker-{number}.log"))
        _await(lambda: _alive(port) == workers, log)
        yield master


@contextmanager
def _daemon(role: str, options: list[str], log: Path) -> Iterator[None]:
    command = [_spark("spark-class"), f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1", *options]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", *command],
            # the REST server is not needed, and has a fixed port
            env=environment(SPARK_DAEMON_JAVA_OPTS=f"-Dspark.master.rest.enabled=false {QUICK}"),
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.stdin.close()  # a worker that ends normally also ends its executors
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        _kill(process)


def _spark(program: str) -> str:
    return str(Path(pyspark.__file__).parent / "bin" / program)


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def _kill(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # all processes of the session have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _await(probe: Callable[[], T], log: Path) -> T:
    return wait_until(probe, 0.1, log.read_text)


def _found(pattern: str, log: Path) -> str | None:
    match = re.search(pattern, log.read_text())
    return match and match.group(1)


def _alive(port: str) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{port}/json/", timeout=PATIENCE) as answer:
            return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
    except HTTPError as refusal:
        # Spark's web server binds its port, and logs it, before its pages are ready.
        if refusal.code != HTTPStatus.NOT_FOUND:
            raise
        return 0
