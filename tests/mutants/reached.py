"""A plugin of pytest for `make mutants`: record which tests reach planted faults, or run only those that reach one."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processor_time import seconds_of

ALL = Path("build/reached").absolute()  # what processes record that lack the variables of their worker
RESULT = os.environ.get("MUTANTS_RESULT")  # file to write: {"tests": {fault: [test]}, "seconds": {test: seconds}}
CHOSEN = os.environ.get("MUTANTS_CHOSEN")  # file to read: {test: [is elsewhere, seconds]}


def plain(test: str) -> str:
    """Return a test's ID without the group that pytest-xdist adds."""
    return test.rpartition("@")[0] if "@" in test.rpartition("]")[2] else test


class Recorder:
    """Note in each worker which probes were reached during which test."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Give each worker a directory of its own, which the processes that it starts inherit."""
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        self.own = ALL.with_name(f"reached-{worker}")
        self.own.mkdir(exist_ok=True)
        os.environ["MUTANTS_REACHED"] = str(self.own)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Take the probes that were reached since the test began."""
        (began := self.own.with_suffix(".began")).touch()
        since, before = began.stat().st_mtime_ns, seconds_of(os.getpid())
        result = yield
        test = plain(item.nodeid)
        self.seconds[test] = round(max(seconds_of(os.getpid()) - before, 0), 2)
        reached = {path.name for path in ALL.iterdir() if path.stat().st_mtime_ns >= since}
        for path in self.own.iterdir():
            reached.add(path.name)
            path.unlink()
        for name in reached:
            self.tests.setdefault(name, []).append(test)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send a worker's record to the first process."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["reached"] = [self.tests, self.seconds]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Add the record of a worker that ended."""
        tests, seconds = getattr(node, "workeroutput", {}).get("reached", [{}, {}])
        for name, reaching in tests.items():
            self.tests.setdefault(name, []).extend(reaching)
        self.seconds.update(seconds)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Write the record of all workers."""
        if RESULT and not hasattr(config, "workerinput"):
            Path(RESULT).write_text(json.dumps({"tests": self.tests, "seconds": self.seconds}))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests: first those of the room of the fault, one case of each function, and the cheapest."""
    if not CHOSEN:
        return
    chosen = json.loads(Path(CHOSEN).read_text())
    kept = sorted((item for item in items if item.nodeid in chosen), key=lambda item: chosen[item.nodeid][1])
    cases, order = Counter[str](), dict[str, tuple[bool, bool, float]]()
    for item in kept:
        function = item.nodeid.partition("[")[0]
        is_elsewhere, seconds = chosen[item.nodeid]
        order[item.nodeid] = (is_elsewhere, cases[function] > 0, seconds)
        cases[function] += 1
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = sorted(kept, key=lambda item: order[item.nodeid])


def pytest_configure(config: pytest.Config) -> None:
    """Record where no tests are chosen."""
    if not CHOSEN:
        config.pluginmanager.register(Recorder())
