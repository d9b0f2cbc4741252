"""The workflow's protocol on three model storages, with a merge in plain Python: every way to fail.

Every storage call is a failpoint: the process is killed before the call, the call fails, or it succeeds and its answer
is lost. Then another process recovers. The oracle is ``plain_workflow.check``: the state is exactly that before or
after the run, no feed file is lost or merged twice, and a second recovery changes nothing.
"""

import itertools
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from mutator.dataset.commit import process as owner
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError
from mutator.workflow.directory import commands, lock, restore
from mutator.workflow.directory.master_target import MasterTarget
from mutator.workflow.directory.paths import Base, probe_dataset
from mutator.workflow.directory.recovery import recover
from mutator.workflow.directory.run_phases import Run
from tests.support import process_deaths
from tests.support.master_base import run_workflow, status_of
from tests.support.model_storage import KINDS, ModelStorage, mounted
from tests.support.plain_workflow import CONFIG, FEEDS, GIVEN, check, merge, put
from tests.support.process_deaths import calls_of, copy_of, dying, fault_at, with_faults
from tests.support.strides import every

process = process_deaths.process  # a fixture that is also called directly
every_storage = pytest.mark.parametrize("storage_type", KINDS)
# The first run has no version before it; the third one has backups to prune and tombstones to keep.
every_start = pytest.mark.parametrize("runs", [0, 2], ids=["first run", "third run"])
NAMES = list(FEEDS)
FAULTS = ["EIO", "lost", *(pytest.param(why, marks=pytest.mark.soak) for why in ("ENOSPC", "EACCES", "ETIMEDOUT"))]


def new_base(storage_type, runs):
    """Return a storage after the given number of runs, each with a feed file; the other feed files have arrived."""
    storage = ModelStorage(storage_type)
    with mounted(storage) as path:
        put(f"{path}/master/given.txt", GIVEN)
        for name in NAMES[:runs]:
            put(f"{path}/incr/{name}", FEEDS[name])
            run_workflow(path, CONFIG, merge)
        storage.make_directory(f"{path}/incr")
        for name in NAMES[runs:3]:
            put(f"{path}/incr/{name}", FEEDS[name])
    return storage


FED = {name: FEEDS[name] for name in NAMES[:3]}


def target_at(path):
    return MasterTarget(Base(path), CONFIG, merge)


def run_it(path):
    return run_workflow(path, CONFIG, merge, sleep=lambda _: None)


def read_status(path):
    return status_of(path, CONFIG)


def settle_and_check(storage, before, after=frozenset(FED)):
    """Recover, then check: the state is exactly that before or after; nothing is left to recover; the next run merges
    all.
    """
    with mounted(storage) as path:
        read_status(path)
        merged = check(Base(path), FED)
        assert merged in (before, after)
        tree = dict(storage.tree)
        assert read_status(path).recovered == ()
        assert storage.tree == tree, "a second recovery changed something"
        run_it(path)
        assert check(Base(path), FED) == set(FED)
        return merged


@pytest.mark.thorough(keep=1, rest=3)
@every_storage
@every_start
def test_kill_before_any_call(storage_type, runs, process):
    start = new_base(storage_type, runs)
    before, seen = set(NAMES[:runs]), set()
    total = calls_of(start, run_it)
    assert total > 30
    for number in range(0, total, every(3, 2)):
        storage = with_faults(start, run_it, process, fault_at(number))
        seen.add(len(settle_and_check(storage, before)))

    assert seen == {runs, 3}, "some kills were before the commit, and some after it"


# The step between the kill points that are tested, in a run and in the recovery from it.
FEW = pytest.param((13, 7), id="few")
SOME = pytest.param((5, 7), id="some")
ALL = pytest.param((1, 1), id="all", marks=pytest.mark.soak)


@pytest.mark.thorough(keep="few-first run-posix", rest=4)
@every_storage
@every_start
@pytest.mark.parametrize("steps", [FEW, SOME, ALL])
def test_kill_and_kill_in_the_recovery(storage_type, runs, steps, process):
    start = new_base(storage_type, runs)
    before, doubles = set(NAMES[:runs]), 0
    for first in range(0, calls_of(start, run_it), steps[0]):
        storage = with_faults(start, run_it, process, fault_at(first))
        with mounted(storage) as path:
            committed = [version.action for version in Log(path).all()].count("run") > runs
        for second in range(0, calls_of(storage, read_status), steps[1]):
            again = with_faults(storage, read_status, process, fault_at(second))
            with mounted(again) as path:
                read_status(path)
                assert check(Base(path), FED) == (set(FED) if committed else before)
                assert read_status(path).recovered == ()
            doubles += 1

    assert doubles > 2400 // (steps[0] * steps[1])


@pytest.mark.thorough(keep=1, rest=4)
@every_storage
@every_start
@pytest.mark.parametrize("why", FAULTS)
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
def test_any_call_fails_or_loses_its_answer(storage_type, runs, why, for_good, process):
    """Whatever call has the fault, the run succeeds or reports it, and the next command can continue with the base."""
    start = new_base(storage_type, runs)
    before = set(NAMES[:runs])
    for number in range(int(why == "lost"), calls_of(start, run_it), every(3, 2)):
        storage = with_faults(start, run_it, process, fault_at(number, why, for_good))
        settle_and_check(storage, before)


@every_storage
def test_commit_loses_its_answer_and_the_run_finds_out(storage_type):
    storage = new_base(storage_type, 2)
    creations = itertools.count()

    def fault(_, name):
        done = storage.log[-1]
        return "lost" if name == "create_new" and "/log/" in done and next(creations) == 0 else None

    storage.fault = fault
    with mounted(storage) as path:
        done = run_it(path)

    assert done.version == 3
    assert next(creations) > 0


# --- two at once

PHASES = ("claim", "merge", "verify", "commit", "publish", "archive")
INTERLEAVINGS = [set(places) for places in itertools.combinations(range(12), 6)]


def steps(path, begun):
    """Do the phases of a run one by one, as ``commands`` does; a run that loses puts everything back."""
    one = Run(target_at(path))
    begun.append(one)
    try:
        claimed = one.claim()
        yield
        merged = claimed and one.merge()
        yield
        if merged:
            one.verify()
        yield
        if merged:
            one.commit()
    except MutatorError as fault:
        one.undo(fault)
        return
    yield
    one.target.publish(one)
    yield
    one.archive()


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("storage_type", ["posix", pytest.param("hdfs", marks=pytest.mark.soak), "s3"])
def test_two_runs_interleaved_in_every_way(storage_type):
    """Test all 924 ways to interleave the six phases of two runs, without the lock; outside the soak, a part of them
    with each storage.
    """
    start = new_base(storage_type, 1)
    outcomes = set()
    for places in INTERLEAVINGS[KINDS.index(storage_type) :: every(3, 3)]:
        storage = copy_of(start)
        with mounted(storage) as path:
            turns = [0 if place in places else 1 for place in range(12)]
            runs = []
            todo = [steps(path, runs), steps(path, runs)]
            late = NAMES[3]
            for number, turn in enumerate(turns):
                if number == 2:  # a file arrives while one of the runs is working
                    put(f"{path}/incr/{late}", FEEDS[late])
                next(todo[turn], None)
            for rest in todo:  # the turns that the losing run did not use
                for _ in rest:
                    pass
            recover(target_at(path))
            merged = check(Base(path), FEEDS)
            committed = [version for version in Log(path).all() if version.action == "run"]
            outcomes.add(len(committed))
            assert len(committed) == 1 + sum(run.version is not None for run in runs)
            run_it(path)
            assert check(Base(path), FEEDS) == set(FEEDS) >= merged

    assert len(INTERLEAVINGS) == 924
    assert {2, 3} <= outcomes


@every_storage
def test_paused_run_that_wakes_up_late_loses_cleanly(storage_type, process):
    """A run is paused in any phase; another run takes over, and merges the files that the first had claimed."""
    for phase in range(1, 5):
        storage = new_base(storage_type, 1)
        with mounted(storage) as path:
            begun = []
            todo = steps(path, begun)
            for _ in range(phase):
                next(todo)
            (paused,) = begun
            was_committed = paused.version is not None
            run_it(path)
            assert check(Base(path), FED) == set(FED)
            for _ in todo:
                pass
            recover(target_at(path))

            assert check(Base(path), FED) == set(FED)
            assert (paused.version is not None) == was_committed


def other_process(storage, point, act):
    """Let another process act just before one call of this process, which is paused there."""
    nested = []

    def fault(number, _):
        if number == point and not nested:
            nested.append(None)
            act("model://base")
        return

    storage.fault = fault


def take_over(path):
    """Act as a run that has taken the lock from a paused run: recover, and merge the arrived files."""
    recover(target_at(path))
    for _ in steps(path, []):
        pass


ACTS = {
    "run": lambda path: [None for _ in steps(path, [])],
    "recovery": lambda path: recover(target_at(path)),
    "recovery of a commit": lambda path: recover(target_at(path)),
    "restore": lambda path: restore(path, 1, CONFIG),
}


OTHERS = ["run", "recovery", "run, 3 phases of it", "run, 4 phases of it"]
OTHERS += [pytest.param(f"run, {phase} phases of it", marks=pytest.mark.soak) for phase in (1, 2, 5)]


def start_of(storage_type, act, process):
    """Return a base with something to do: earlier runs were killed, or not."""
    start = new_base(storage_type, 2)
    if act.startswith("recovery"):
        committed = act.endswith("commit")

        def fault(number, _):
            entry = any(call.startswith("create_new") and "/log/" in call for call in start.log[-8:-1])
            return "kill" if (entry if committed else number == start.calls_before + 40) else None

        start.calls_before = start.calls
        start.log.clear()
        start.fault = fault
        with mounted(start) as path, dying(start, process):
            run_it(path)
    return start


@pytest.mark.thorough(keep=1, rest=9)
@pytest.mark.parametrize("storage_type", ["posix", pytest.param("hdfs", marks=pytest.mark.soak), "s3"])
@pytest.mark.parametrize("paused", ACTS)
@pytest.mark.parametrize("other", OTHERS)
def test_paused_before_any_call_while_another_process_works(storage_type, paused, other, process):
    """Whatever the paused run does when it wakes up, no file is lost or merged twice, and the master is the version."""
    start = start_of(storage_type, paused, process)
    for point in range(0, calls_of(start, ACTS[paused]), every(3, 2)):
        storage, half = copy_of(start), []

        def meanwhile(path, half=half):
            if "phases" not in other:
                (take_over if other == "run" else ACTS["recovery"])(path)
                return
            recover(target_at(path))
            half.append(steps(path, []))
            for _ in range(int(other.split()[1])):
                next(half[0], None)

        other_process(storage, point, meanwhile)
        with mounted(storage) as path:
            with suppress(MutatorError):
                ACTS[paused](path)
            with suppress(MutatorError):
                for rest in half:
                    for _ in rest:
                        pass
            storage.fault = lambda number, name: None
            log = Log(path)
            restored = any(version.action == "restore" for version in log.all())
            if storage.renames:  # nobody was killed, so no command has to recover
                assert probe_dataset(storage, Base(path).master).commit == log.latest().dataset
            process()
            assert read_status(path).problems == ()
            check(Base(path), FED, restored=restored)
            run_it(path)
            assert read_status(path).recovered == ()


@every_storage
@pytest.mark.parametrize("merges", [True, False], ids=["another run merges", "nobody merges"])
def test_paused_run_reports_that_it_lost(storage_type, merges, monkeypatch):
    """The message must not say that a file is missing when another run has claimed it."""
    storage = new_base(storage_type, 1)

    def paused(task):
        storage.clock += 100  # the lock is not refreshed
        (run_it if merges else read_status)("model://base")
        return merge(task)

    with mounted(storage) as path, pytest.raises(MutatorError) as caught:
        run_workflow(path, CONFIG, paused)

    assert caught.value.kind == "base.lost"
    assert caught.value.exit_code == 5
    if merges:
        assert "another run has merged its feed files, so nothing is left to do" in str(caught.value)
    else:
        assert "another process took this run for dead with version 2 in the meantime" in str(caught.value)
        assert "in incr/: run again" in str(caught.value)
    with mounted(storage) as path:
        run_it(path)
        assert check(Base(path), FED) == set(FED)


@pytest.mark.thorough(keep=0)
@every_storage
def test_two_recoveries_at_once(storage_type, process):
    """A recovery is killed at any call while another one, which began earlier, continues."""
    start = new_base(storage_type, 2)
    for number in range(0, calls_of(start, run_it), every(7, 7)):
        crashed = with_faults(start, run_it, process, fault_at(number))
        for point in range(0, calls_of(crashed, read_status), every(5, 5)):
            storage = copy_of(crashed)
            nested = []

            def other(n, _, storage=storage, point=point, nested=nested):
                if n == point and not nested:  # before this call, a second process does the whole recovery
                    nested.append(None)
                    recover(target_at("model://base"))
                return

            storage.fault = other
            with mounted(storage) as path:
                with suppress(MutatorError):
                    recover(target_at(path))
                storage.fault = lambda n, _: None
                process()
                read_status(path)
                assert check(Base(path), FED) in (set(NAMES[:2]), set(FED))


@pytest.mark.thorough(keep=1)
@every_storage
def test_restore_is_killed_anywhere(storage_type, process):
    start = new_base(storage_type, 2)
    with mounted(start) as path:
        run_it(path)

    def go_back(path):
        restore(path, 2, CONFIG)

    for number in range(0, calls_of(start, go_back), every(3, 1)):
        storage = with_faults(start, go_back, process, fault_at(number))
        with mounted(storage) as path:
            read_status(path)
            log = Log(path)
            actions = [version.action for version in log.all()]
            assert log.latest().dataset == log.read(2 if "restore" in actions else 3).dataset
            assert read_status(path).recovered == ()
            assert read_status(path).problems == ()


@every_storage
def test_lock_of_a_dead_process_is_taken_over(storage_type, process):
    storage = new_base(storage_type, 1)
    with mounted(storage) as path, lock.locked(Base(path), "one", 60):
        with pytest.raises(MutatorError, match="at work here"):
            run_it(path)
        process()
        assert run_it(path).version == 2


@every_storage
def test_lock_of_another_machine_is_respected_until_its_own_timeout(storage_type, monkeypatch):
    storage = new_base(storage_type, 1)
    with mounted(storage) as path, lock.locked(Base(path), "one", 600):
        monkeypatch.setattr(owner, "_system", lambda: "another boot")
        monkeypatch.setattr(owner, "_born", lambda _: "")
        storage.clock += 500
        with pytest.raises(MutatorError, match="at work here"):
            run_it(path)
        storage.clock += 101
        assert run_it(path).version == 2


@every_storage
def test_lock_of_another_owner_is_not_released(storage_type, process):
    """A paused owner that wakes up leaves the lock of the next owner alone."""
    storage = new_base(storage_type, 1)
    with mounted(storage) as path:
        paused = lock.locked(Base(path), "paused", 60)
        paused.__enter__()
        process()
        with lock.locked(Base(path), "next", 60):
            paused.__exit__(None, None, None)
            assert lock.holder(Base(path)).run == "next"
        assert lock.holder(Base(path)) is None


@every_storage
def test_renewals_that_fail_half_way_leave_no_lock(storage_type):
    """The lock of a process that goes on must not keep its own next run out."""
    storage = new_base(storage_type, 1)
    failed = []

    def fault(_, call):
        if call == "remove" and len(failed) < 2:
            failed.append(call)
            return "EIO"
        return None

    with mounted(storage) as path:
        with lock.locked(Base(path), "run", 0.2):
            storage.fault = fault
            end = time.monotonic() + 10
            while len(failed) < 2 and time.monotonic() < end:
                time.sleep(0.01)
        assert len(failed) == 2
        assert [entry.name for entry in storage.entries(f"{path}/_mutator/lock")] == []


@every_storage
def test_lock_without_a_sign_of_life_is_taken_over(storage_type):
    storage = new_base(storage_type, 1)
    with mounted(storage) as path, lock.locked(Base(path), "one", 60):
        assert lock.holder(Base(path)).run == "one"
        storage.clock += 61
        assert lock.holder(Base(path)) is None
        assert run_it(path).version == 2


@every_storage
def test_old_backups_are_removed(storage_type):
    storage = ModelStorage(storage_type)
    with mounted(storage) as path:
        put(f"{path}/master/given.txt", GIVEN)
        for name in NAMES:
            put(f"{path}/incr/{name}", FEEDS[name])
            assert (
                run_workflow(path, replace(CONFIG, workflow=replace(CONFIG.workflow, backup_keep=1)), merge).version
                == NAMES.index(name) + 1
            )
        places = commands.history(path, CONFIG)

        kept = [place.version for place in places if place.path is not None]
        assert kept == ([3, 4] if storage_type != "s3" else [0, 3, 4])
        with pytest.raises(MutatorError, match="not in backup/ any more"):
            restore(path, 1, CONFIG)
