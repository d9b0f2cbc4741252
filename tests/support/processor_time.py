"""The processor time that tests take, by directory: user and system seconds of a test and of all that it starts."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
FILE = "MUTATOR_SECONDS"  # environment variable: path of the JSON file that gets each test's seconds


def seconds_of(process: int) -> float:
    """Return the user and system time of a process, its children that ended, and those that run."""
    fields = _read(Path(f"/proc/{process}/stat")).rpartition(b")")[2].split()
    if not fields:  # it just ended, or the system has no /proc
        return sum(os.times()[:4]) if process == os.getpid() else 0
    children = b"".join(map(_read, Path(f"/proc/{process}/task").glob("*/children")))  # of each thread
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(seconds_of, map(int, children.split())))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process or the thread ended
        return b""


class ProcessorTime:
    """Measure each test where it runs; print the sums where pytest prints."""

    def __init__(self) -> None:
        self.tests = Counter[str]()
        self.rest = 0.0  # of starting, importing and collecting, in all processes
        self._seen = 0.0  # at the end of the test before, or of the collection

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test with its fixtures: what they start for several tests counts for the first."""
        if not self._seen:
            self._seen = self.rest = seconds_of(os.getpid())
        result = yield
        seconds = seconds_of(os.getpid())
        self.tests[item.nodeid] += max(seconds - self._seen, 0)
        self._seen = seconds
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send a worker's figures to the process that prints."""
        if session.config.pluginmanager.hasplugin("dsession"):  # this process only distributes the tests
            self.rest += sum(os.times()[:2])
            return
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["processor_time"] = [dict(self.tests), self.rest]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Add the figures of a worker that ended."""
        tests, rest = getattr(node, "workeroutput", {}).get("processor_time", [{}, 0])
        self.tests.update(tests)
        self.rest += rest

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the seconds by directory, most first."""
        if not self.tests:
            return
        seconds, numbers = Counter[str](), Counter[str]()
        for test, taken in self.tests.items():
            directory = "/".join(test.partition("::")[0].split("/")[:-1][:2])
            seconds[directory] += taken
            numbers[directory] += 1
        terminalreporter.section("processor time, user and system")
        for directory, taken in seconds.most_common():
            terminalreporter.line(f"{taken:8.1f} s  {numbers[directory]:6,} tests  {directory}")
        terminalreporter.line(f"{self.rest:8.1f} s  start and collection")
        terminalreporter.line(f"{seconds.total() + self.rest:8.1f} s  {numbers.total():6,} tests  in all")
        if path := os.environ.get(FILE):
            Path(path).write_text(json.dumps(dict(sorted(self.tests.items())), indent=0))
