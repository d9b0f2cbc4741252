"""Runs that set a feed file aside, on three model storages: killed at each storage call, or with a call that fails.

Whatever happens, every feed file is in one place, the good ones are merged once, and the bad one is set aside by a run
that commits: it is never claimed again, and its note says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from mutator.config import parse
from mutator.dataset.version_log import Log
from mutator.dataset.versions.log import TableLog
from mutator.errors import MutatorError
from mutator.storage import entries_of
from mutator.table.create import create_empty
from mutator.workflow import directory
from mutator.workflow.directory.paths import Base
from tests.support import process_deaths
from tests.support.master_base import run_workflow, status_of
from tests.support.model_storage import KINDS, ModelStorage, mounted
from tests.support.plain_workflow import BAD, CONTROL, FEEDS, GIVEN, found_feed, merge, put
from tests.support.process_deaths import copy_of, fault_at, with_faults
from tests.support.strides import every
from tests.support.table_base import SETTINGS, opened

process = process_deaths.process  # a fixture that is also called directly
CONFIG = parse({"key": 0, "claim.min.age": "0s", "feed.control.suffix": CONTROL, "claim.ready.suffix": ".ready"})
TABLE, ROWS = "model://base/table", b"id,at,op,name\n1,1,U,a\n"


class Master:
    """A base with a master, whose feed files have control files and ready markers."""

    feed: ClassVar = {"ups_1.txt": FEEDS["ups_1.txt"], "ups_1": BAD, "ups_3.txt": FEEDS["ups_3.txt"]}
    bad = "ups_1"

    @property
    def files(self) -> dict[str, bytes]:
        return self.feed | {f"{name}{CONTROL}": b"" for name in self.feed}

    def begin(self, path: str) -> None:
        put(f"{path}/master/given.txt", GIVEN)
        for name in self.feed:
            put(f"{path}/incr/{name}.ready", b"")

    def run(self, path: str) -> Any:
        return run_workflow(path, CONFIG, merge, sleep=lambda _: None)

    def status(self, path: str) -> Any:
        return status_of(path, CONFIG)

    def merged(self, path: str) -> list[str]:
        return sorted(part.name for version in Log(path).all() for part in version.feed)


class Table:
    """A base whose target is a table."""

    feed: ClassVar = {"ups_1.csv": ROWS, "ups_2.csv": b"id,name\n1,b\n", "ups_3.csv": ROWS.replace(b"1,U", b"3,U")}
    bad = "ups_2.csv"
    files: ClassVar = feed

    def begin(self, path: str) -> None:
        create_empty(TABLE, SETTINGS, buckets=2)

    def run(self, path: str) -> Any:
        one = opened(TABLE)
        return directory.run(one.target(path), sleep=lambda _: None)

    def status(self, path: str) -> Any:
        one = opened(TABLE)
        return directory.status(one.target(path))

    def merged(self, path: str) -> list[str]:
        return sorted(part.name for version in TableLog(TABLE).following(0) for part in version.feed)


def new_base(target: Master | Table, storage_type: str) -> ModelStorage:
    storage = ModelStorage(storage_type)
    with mounted(storage) as path:
        target.begin(path)
        for name, content in target.files.items():
            put(f"{path}/incr/{name}", content)
    return storage


def check(target: Master | Table, path: str) -> bool:
    """Check that no file is lost or doubled; return whether a run has committed."""
    base = Base(path)
    found = Counter({one: count for one, count in found_feed(base).items() if not one[0].endswith(".ready")})
    assert found == Counter(target.files.items()), "feed files got lost, or doubled"
    merged = target.merged(path)
    assert merged in ([], sorted(target.feed.keys() - {target.bad})), "merged twice, or not at all"
    status = target.status(path)
    assert [one.name for one in status.failed_files] == [target.bad] * bool(merged)
    assert set(status.ready) == (set() if merged else set(target.feed))
    if merged:
        (problem,) = status.problems
        assert f"/{target.bad}" in problem
        assert "it is bad" in problem or "field at is missing" in problem
        if base.storage.renames:
            (run,) = [entry.name for entry in entries_of(base.at("failed")) if entry.type == "directory"]
            companions = {f"{target.bad}{CONTROL}", f"{target.bad}.ready"} if isinstance(target, Master) else set()
            assert {entry.name for entry in entries_of(base.at("failed", run))} == {target.bad, *companions}
            assert entries_of(base.at("working")) == []
            assert all(entry.name.startswith(".") for entry in entries_of(base.at("incr")))
    assert entries_of(base.at("_mutator", "runs")) == []
    return bool(merged)


@pytest.mark.thorough(keep=0, rest=3)
@pytest.mark.parametrize("storage_type", KINDS)
@pytest.mark.parametrize("fault", ["kill", "EIO", "lost"])
@pytest.mark.parametrize("target", [Master(), Table()], ids=["master", "table"])
def test_a_run_that_sets_a_file_aside_has_a_fault_at_any_call(
    target: Master | Table, fault: str, storage_type: str, process: Callable[[], None]
) -> None:
    start = new_base(target, storage_type)
    whole = copy_of(start)
    with mounted(whole) as path:
        assert [one.name for one in target.run(path).failed_files] == [target.bad]
        assert check(target, path)
    seen = set()
    for number in range(0, whole.calls - start.calls, every(*((7, 5) if isinstance(target, Table) else (2, 2)))):
        storage = with_faults(start, target.run, process, fault_at(number, fault))
        with mounted(storage) as path:
            with suppress(MutatorError):
                target.status(path)
            seen.add(check(target, path))
            with suppress(MutatorError):
                target.run(path)
            assert check(target, path)

    assert seen == {True, False}


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("storage_type", KINDS)
@pytest.mark.parametrize("target", [Master(), Table()], ids=["master", "table"])
def test_a_paused_run_and_the_one_that_takes_over_set_the_file_aside_once(
    target: Master | Table, storage_type: str, process: Callable[[], None]
) -> None:
    start = new_base(target, storage_type)
    whole = copy_of(start)
    with mounted(whole) as path:
        target.run(path)
    for point in range(0, whole.calls - start.calls, every(*((13, 11) if isinstance(target, Table) else (5, 5)))):
        storage, nested = copy_of(start), list[int]()

        def meanwhile(number: int, _: str, storage: ModelStorage = storage, nested: list[int] = nested) -> None:
            if number == point and not nested:  # noqa: B023  # within the loop's own round
                nested.append(number)
                storage.clock += 100  # the lock of the paused run has expired
                process()
                with suppress(MutatorError):
                    target.run("model://base")

        storage.fault = meanwhile
        with mounted(storage) as path:
            with suppress(MutatorError):
                target.run(path)
            storage.fault = lambda number, name: None
            process()
            target.status(path)
            with suppress(MutatorError):
                target.run(path)
            assert check(target, path), point
