"""The workflow whose target is a table, on three model storages, with real applies: every way to fail.

Every storage call is a failpoint: the process is killed before the call, the call fails, or it succeeds and its answer
is lost. Then another process recovers. Afterwards the table has the feed files or none of them, no file is lost or
merged twice, and a second recovery changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.storage import entries_of
from mutator.table.create import create_empty
from mutator.table.scan import scan_batches
from mutator.workflow import directory
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.recovery import recover
from mutator.workflow.directory.run_phases import Run
from tests.support import process_deaths
from tests.support.model_storage import KINDS, ModelStorage, mounted
from tests.support.plain_workflow import found_feed, put
from tests.support.process_deaths import calls_of, copy_of, fault_at, with_faults
from tests.support.strides import every
from tests.support.table_base import SETTINGS, opened

process = process_deaths.process  # a fixture that is also called directly
every_storage = pytest.mark.parametrize("storage_type", KINDS)
TABLE = "model://base/table"
HEAD = b"id,at,op,name\n"
FEEDS = {
    "ups_1.csv": HEAD + b"1,1,U,a\n2,1,U,a\n",
    "ups_2.csv": HEAD + b"2,2,D,\n3,2,U,b\n",
    "ups_3.csv": HEAD + b"1,3,U,c\n4,3,U,c\n",
    "ups_4.csv": HEAD + b"4,4,D,\n5,4,U,d\n",
}
NAMES = list(FEEDS)


def new_base(storage_type: str) -> ModelStorage:
    """Return a storage with a table that has the first feed file; two more have arrived."""
    storage = ModelStorage(storage_type)
    with mounted(storage) as path:
        storage.make_directory(f"{path}/incr")
        create_empty(TABLE, SETTINGS, buckets=2)
        put(f"{path}/incr/{NAMES[0]}", FEEDS[NAMES[0]])
        run_it(path)
        for name in NAMES[1:3]:
            put(f"{path}/incr/{name}", FEEDS[name])
    return storage


def run_it(path: str) -> Any:
    one = opened(TABLE)
    return directory.run(one.target(path), sleep=lambda _: None)


def read_status(path: str) -> Any:
    one = opened(TABLE)
    return directory.status(one.target(path))


def expected(names: set[str]) -> list[tuple[str, str]]:
    """Return the rows of the table after some feed files."""
    rows: dict[str, tuple[int, str, str]] = {}
    for name in sorted(names):
        for line in FEEDS[name].decode().splitlines()[1:]:
            key, at, op, value = line.split(",")
            rows[key] = max(rows.get(key, (-1, "", "")), (int(at), op, value))
    return sorted((key, value) for key, (_, op, value) in rows.items() if op != "D")


def check(path: str, arrived: set[str]) -> set[str]:
    """Check all invariants of a base; return the names of the merged feed files."""
    base, snapshot = Base(path), open_snapshot(TABLE)
    versions = list(TableLog(TABLE).following(0))
    given_up = set[str]()
    for version in versions:
        assert version.claim is None or version.claim.run not in given_up, "a run that was given up committed"
        given_up |= set(version.given_up)
    names = [file.name for version in versions for file in version.feed]
    assert len(set(names)) == len(names), "a feed file was merged twice"
    rows = [row for batch in scan_batches(snapshot) for row in batch.to_pylist()]
    assert sorted((row["id"], row["name"]) for row in rows) == expected(set(names))
    assert found_feed(base) == Counter((name, FEEDS[name]) for name in arrived), "feed files got lost, or doubled"
    if base.storage.renames:
        archived = {entry.name for run in entries_of(base.at("archive")) for entry in entries_of(run.path)}
        assert archived == set(names)
        assert entries_of(base.at("working")) == []
    assert entries_of(base.at("_mutator", "runs")) == []
    return set(names)


def settle_and_check(storage: ModelStorage) -> set[str]:
    """Recover, then check: the table is as before or after the run; nothing is left to recover; the next run merges
    all.
    """
    with mounted(storage) as path:
        read_status(path)
        merged = check(path, set(NAMES[:3]))
        assert merged in ({NAMES[0]}, set(NAMES[:3]))
        tree = dict(storage.tree)
        assert read_status(path).recovered == ()
        assert storage.tree == tree, "a second recovery changed something"
        run_it(path)
        assert check(path, set(NAMES[:3])) == set(NAMES[:3])
        return merged


FAULTS = {
    "kill": ("kill",),
    "fails": ("EIO",),
    "loses its answer": ("lost",),
    "loses its answer, and the next call fails": ("lost", "EIO"),
}


@pytest.mark.thorough(keep=1, rest=3)
@every_storage
@pytest.mark.parametrize("why", FAULTS)
def test_any_call_has_a_fault(storage_type: str, why: str, process: Callable[[], None]) -> None:
    start, seen = new_base(storage_type), set[int]()
    total = calls_of(start, run_it)
    assert total > 30
    for number in range(0, total, every(7, 3)):
        faults = {number + after: fault for after, fault in enumerate(FAULTS[why])}
        storage = with_faults(start, run_it, process, lambda n, _, faults=faults: faults.get(n))
        seen.add(len(settle_and_check(storage)))

    assert seen == {1, 3}, "some faults were before the commit, and some after it"


@pytest.mark.thorough(keep=0)
@every_storage
@pytest.mark.parametrize("steps", [(17, 11), pytest.param((2, 2), marks=pytest.mark.soak)], ids=["few", "many"])
def test_kill_and_kill_in_the_recovery(storage_type: str, steps: tuple[int, int], process: Callable[[], None]) -> None:
    start = new_base(storage_type)
    for first in range(0, calls_of(start, run_it), steps[0]):
        storage = with_faults(start, run_it, process, fault_at(first))
        for second in range(0, calls_of(storage, read_status), steps[1]):
            again = with_faults(storage, read_status, process, fault_at(second))
            settle_and_check(again)


@every_storage
def test_a_commit_that_loses_its_answer_is_found(storage_type: str) -> None:
    storage = new_base(storage_type)
    lost = list[int]()

    def fault(number: int, name: str) -> str | None:
        if name == "create_new" and "table/log/" in storage.log[-1] and not lost:
            lost.append(number)
            return "lost"
        return None

    storage.fault = fault
    with mounted(storage) as path:
        assert run_it(path).version == 2
    assert lost


# --- a paused run


def recover_it(path: str) -> None:
    """Act as a status that has taken the lock from a paused run."""
    recover(opened(TABLE).target(path))


def take_over(path: str) -> None:
    """Act as a run that has taken the lock from a paused one: recover, and apply the files that are there."""
    recover_it(path)
    unlocked_run(path)


def unlocked_run(path: str) -> Any:
    one = opened(TABLE)
    return directory.do_phases(Run(one.target(path)))


@pytest.mark.thorough(keep=1, rest=3)
@every_storage
@pytest.mark.parametrize("other", [recover_it, take_over])
@pytest.mark.parametrize("arrives", [False, True], ids=["the same files", "a later file too"])
def test_paused_before_any_call_while_another_process_works(
    storage_type: str, other: Callable[[str], None], arrives: bool
) -> None:
    """Whatever the paused run does when it goes on, no file is lost or merged twice."""
    start, ends = new_base(storage_type), Counter[str]()
    for point in range(0, calls_of(start, unlocked_run), every(5, 3)):
        storage, acted = copy_of(start), list[int]()

        def fault(number: int, _: str, point: int = point, acted: list[int] = acted) -> None:
            if number == point and not acted:
                acted.append(number)
                if arrives:
                    put(f"model://base/incr/{NAMES[3]}", FEEDS[NAMES[3]])
                other("model://base")

        storage.fault = fault  # type: ignore[assignment]
        with mounted(storage) as path:
            try:
                ends["merged" if unlocked_run(path).version is not None else "nothing to merge"] += 1
            except MutatorError as found:
                ends[found.kind] += 1
            storage.fault = lambda *_: None
            assert acted
            read_status(path)
            arrived = set(NAMES[: 4 if arrives else 3])
            check(path, arrived)
            run_it(path)
            assert check(path, arrived) == arrived
    assert ends["table.given_up"] or ends["merged"]
