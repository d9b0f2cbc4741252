"""Start a contender's process, send it commands, and stop it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.contenders.catalogue import Entry
from bench.environment import child_environment, python_of
from bench.memory import Sampler

__all__ = ["Out", "Participant"]

PATIENCE = 900  # seconds for untimed work: a start with downloads, a table of 12 M rows


class Out(Exception):
    """A contender drops out: ``status`` is skipped, failed or stopped, the text is the reason."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class Participant:
    """A contender, its process and its directory."""

    def __init__(self, entry: Entry, parent: Path, aside: Path | None = None) -> None:
        self.entry = entry
        self._aside = aside  # for Spark's files
        self.directory = parent / entry.name.replace(" ", "-").replace("_", "-")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.used = 0.0  # when it was last used
        self.versions: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Return whether its process is running."""
        return self._process is not None

    @property
    def log(self) -> Path:
        """Return the path of the log of its process and libraries."""
        return self.directory / "log"

    def start(self) -> None:
        """Start the process. Raises Out."""
        try:
            python = python_of(self.entry.environment)
        except (OSError, subprocess.SubprocessError) as fault:
            raise Out("skipped", f"its environment could not be created: {fault}") from None
        # Not the project's directory: Spark and others leave files in their working directory.
        home = self.directory / "home" if self._aside is None else self._aside / self.directory.name
        home.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [python, "-m", "bench.child", self.entry.name, self.entry.form, home],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=home,
                env=child_environment(python, home),
                start_new_session=True,  # so that the tree can be killed at once, and Ctrl-C reaches only the parent
            )
        self.versions = self.ask("start")["versions"]

    def ask(self, do: str, limit: float = PATIENCE, **words: Path | str) -> dict[str, Any]:
        """Send a command and wait for its answer. Raises Out."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.used = time.monotonic()
        command = {"do": do} | {name: str(word) for name, word in words.items()}
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.kill()
            raise Out("failed", f"its process has ended; see {self.log}") from None
        if not select.select([self._process.stdout], [], [], limit)[0]:
            self.kill()
            raise Out("stopped", f"{do} took longer than {limit:.0f} s")
        line = self._process.stdout.readline()
        self.used = time.monotonic()
        if not line:
            self.kill()
            raise Out("failed", f"its process ended during {do}; see {self.log}")
        answer = json.loads(line)
        for status in ("skipped", "failed"):
            if status in answer:
                self.stop()
                raise Out(status, answer[status])
        return answer

    def run(self, feed: Path, output: Path, limit: float) -> dict[str, Any]:
        """Run once; return the answer with the peaks of memory. Raises Out."""
        assert self._process is not None
        with Sampler(self._process.pid) as sampler:
            answer = self.ask("run", limit, feed=feed, output=output)
        return answer | {"memory": sampler.tree, "worker": sampler.worker}

    def stop(self) -> None:
        """Let the process end by itself; kill it if it does not."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self.kill()

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process = None

    def forget(self) -> None:
        """Stop the process, and remove its files except the log."""
        self.stop()
        for path in self.directory.iterdir():
            if path != self.log:
                shutil.rmtree(path, ignore_errors=True)
