"""Whole processes for one merge, or for a command that merges nothing: the time that somebody at a terminal waits."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.contenders.contender import Contender, Ran
from bench.layout import SETTINGS

__all__ = ["MUTATOR", "Command", "MutatorRun", "Other", "done", "options_of"]

MUTATOR = (sys.executable, "-m", "mutator")


def options_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return settings as options of a command."""
    return tuple(f"-D{name}={value}" for name, value in settings.items())


SETTING = options_of(SETTINGS["text"])


class MutatorRun(Contender):
    """``mutator run``."""

    options = SETTING

    def __init__(self, join: str, runner: str) -> None:
        self.join, self.runner = join, runner

    def start(self, scratch: Path) -> dict[str, str]:
        """Start nothing."""
        return {"pyarrow": importlib.metadata.version("pyarrow")}

    def prepare(self, master: Path, state: Path) -> None:
        """Make a managed master by a merge with a feed that changes nothing."""
        self.master = master
        if self.join == "aligned":
            self.master = state / "managed"
            if not self.master.exists():
                state.mkdir(parents=True, exist_ok=True)
                self._merge(master, self.no_feed(state / "nothing"), self.master)

    def no_feed(self, directory: Path) -> Path:
        """Make a feed that changes nothing, and return it: of no files."""
        directory.mkdir()
        return directory

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge; return the join and the runner."""
        report = json.loads(self._merge(self.master, feed, output))
        return Ran(f"{report['join']} join; {report['runner']}")

    def _merge(self, master: Path, feed: Path, output: Path) -> bytes:
        paths = ("--master", master, "--feed", feed, "--output", output)
        return done(*MUTATOR, "run", *self.options, *paths, "--runner", self.runner, "--json")


class Other(Contender):
    """A process that merges with another contender, and ends."""

    def __init__(self, where: str, *arguments: str) -> None:
        self.where, self.arguments = where, arguments

    def start(self, scratch: Path) -> dict[str, str]:
        """Start nothing."""
        self.scratch = scratch
        name = self.where.partition("_")[0]
        return {name: importlib.metadata.version(name)}

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge in a new process."""
        paths = (self.master, feed, output, self.scratch)
        done(sys.executable, "-m", "bench.contenders.one_merge", self.where, *paths, *self.arguments)
        return Ran("one process")


class Command(Contender):
    """A command that merges nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self, scratch: Path) -> dict[str, str]:
        """Start nothing."""
        return {}

    def prepare(self, master: Path, state: Path) -> None:
        """Make a dataset to verify, and a base that has nothing to merge."""
        dataset, base = state / "dataset", state / "base"
        if not dataset.exists():
            (base / "incr").mkdir(parents=True)
            done(*MUTATOR, "run", *SETTING, "--master", master, "--feed", base / "incr", "--output", dataset)
            shutil.copytree(dataset, base / "master")
        self.words = {
            "python": (sys.executable, "-c", "pass"),
            "pyarrow": (sys.executable, "-c", "import pyarrow.compute"),
            "help": (*MUTATOR, "--help"),
            "verify": (*MUTATOR, "verify", dataset),
            "workflow": (*MUTATOR, "workflow", "run", base, *SETTING),
        }[self.name]

    def run(self, feed: Path, output: Path) -> Ran:
        """Run the command."""
        done(*self.words)
        return Ran()

    def export(self, output: Path, to: Path) -> Path | None:
        """Return None: there is no result."""
        return None


def done(*command: str | Path) -> bytes:
    """Run a command, and return what it printed. Raises CalledProcessError."""
    # As for a user, who has the compiled modules of the run before.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
