"""The power fails at any instant: every possible state of the disk is recovered, and each fsync is needed."""

import os
import pickle
import random
import signal

import pytest

from mutator.dataset.commit.process import Owner
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError
from mutator.storage import local
from mutator.workflow.directory.paths import Base, probe_dataset
from tests.support import local_engine
from tests.support.child_process import in_child
from tests.support.disk_model import Recorder, disk_of
from tests.support.faulty_runs import contents, write
from tests.support.master_base import status_of
from tests.support.model_storage import ModelStorage, mounted
from tests.support.plain_workflow import CONFIG, FED, NAMES, check, new_base, read_status, run_it
from tests.support.strides import every

STATES = int(os.environ.get("MUTATOR_POWER_STATES", "4000"))
SITES = {
    "create_new, file",
    "create_new, directory",
    "rename_new, directory",
    "swap, directory",
    "make_directory, directory",
    "sync, directory",
}


def recorded(monkeypatch, root, act):
    """Return the disk as it was before an action, and the system calls of the action."""
    disk, recorder = disk_of(root), Recorder(root)
    with recorder.recording(monkeypatch):
        act(root)
    return disk, recorder.calls


def killed_at_the_entry(monkeypatch, root):
    """Kill a run between the link of its log entry and the fsync; return the disk at that moment."""
    disk, recorder, recorded_calls = disk_of(root), Recorder(root), root.parent / "calls"

    def at(name):
        if name == "storage.linked" and "/log/" in recorder.calls[-1][-1]:
            recorded_calls.write_bytes(pickle.dumps(recorder.calls))
            os.kill(os.getpid(), signal.SIGKILL)

    def run_to_its_end():
        monkeypatch.setattr(local, "failpoint", at)
        with recorder.recording(monkeypatch):
            run_it(root)

    assert in_child(run_to_its_end)[0] == signal.SIGKILL
    for call in pickle.loads(recorded_calls.read_bytes()):
        disk.apply(call, None)
    return disk


def scenario(monkeypatch, tmp_path, name):
    """Return (a disk, the calls that follow) for a run, or for the recovery from a crash in the middle of a run."""
    runs = 0 if name.startswith("first") else 2
    root = new_base(tmp_path / name, runs)
    if "exchange" in name:
        monkeypatch.setattr(local.LocalStorage, "swap", lambda *_: False)
    if "unsafe" in name:
        disk = killed_at_the_entry(monkeypatch, root)
        _, calls = recorded(monkeypatch, root, read_status)
        return disk, calls, runs
    if "recovery" in name:
        in_child(lambda: run_it(root), "merge.done" if "not" in name else "commit.done")
        return (*recorded(monkeypatch, root, read_status), runs)
    return (*recorded(monkeypatch, root, run_it), runs)


SCENARIOS = [
    "first run",
    "third run",
    "third run, no exchange",
    "recovery, committed",
    "recovery, entry unsafe",
    "recovery, not committed",
]


def violations(start, calls, runs, states, *, without=None, seed=1, merges=True):
    """Crash at random instants; return the number of checked trees, and their faults."""
    rng, seen, wrong = random.Random(seed), set(), []
    instants = sorted(rng.randrange(len(calls) + 1) for _ in range(states))
    disk, done = start, 0
    for instant in instants:
        while done < instant:
            disk.apply(calls[done], without)
            done += 1
        found = disk.after_a_crash(rng)
        mark = (frozenset(found.items()), done == len(calls))
        if mark in seen:
            continue
        seen.add(mark)
        problem = problem_of(found, runs, done == len(calls), merges)
        if problem:
            wrong.append(f"after {calls[done - 1][:3] if done else 'nothing'}: {problem}")
            if without:
                break
    return len(seen), wrong


def problem_of(found, runs, acknowledged, merges):
    """Recover the disk, and return its faults. merges: whether the feed is merged at the end."""
    storage = ModelStorage("posix")
    storage.tree = {f"model://base/{path}".removesuffix("/."): content for path, content in found.items()}
    storage.times = dict.fromkeys(storage.tree, 1.0)
    with mounted(storage) as path:
        base = Base(path)
        try:
            if acknowledged:  # readers that come before anybody recovers
                latest = Log(path).latest()
                assert probe_dataset(storage, base.master).commit == latest.dataset, "master is not the version"
            first = status_of(path, CONFIG)
            assert first.problems == (), first.problems
            merged = check(base, FED)
            if acknowledged:
                assert merged == (set(FED) if merges else set(NAMES[:runs]))
            assert merged in (set(NAMES[:runs]), set(FED))
            assert status_of(path, CONFIG).recovered == ()
        except (AssertionError, MutatorError) as fault:
            return f"{type(fault).__name__}: {fault}"
    return None


@pytest.fixture(autouse=True)
def after_the_power_is_back(monkeypatch):
    """Treat every process from before the failure as dead."""
    monkeypatch.setattr(Owner, "has_ended", lambda _: True)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("name", SCENARIOS)
def test_power_fails_at_any_instant(tmp_path, monkeypatch, name):
    disk, calls, runs = scenario(monkeypatch, tmp_path, name)
    states = STATES // len(SCENARIOS) // every(4, 2)
    trees, wrong = violations(disk, calls, runs, states, merges=name != SCENARIOS[-1])

    assert wrong == []
    assert trees > 30


def test_files_that_a_run_carries_are_safe_once_it_has_ended(tmp_path, monkeypatch):
    """The run writes to so few directories that each could be made durable by itself."""
    settings = {"id.field.ordinals": "0", "partitioned.by": "1", "key.scope": "partition", "num.reducer": "2"}
    write(tmp_path / "base" / "base.txt", [f"k{number},p{number % 3},0" for number in range(9)])
    master = f"{tmp_path}/base"
    for name, row in (("one", "k0,p0,1"), ("two", "k0,p0,2")):
        write(tmp_path / name / f"ups_{len(master)}.txt", [row])
        call = {
            "config": settings,
            "master": master,
            "feed": [f"{tmp_path}/{name}"],
            "output": f"{tmp_path}/out-{name}",
        }
        disk, calls = recorded(monkeypatch, tmp_path, lambda _, call=call: local_engine.mutate(**call))
        master = call["output"]
    for one in calls:
        disk.apply(one, None)
    published = contents(master)
    for seed in range(20):
        found = disk.after_a_crash(random.Random(seed))
        assert {path: found.get(f"out-two/{path}") for path in published} == published


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", range(3))
def test_power_fails_a_hundred_thousand_times(tmp_path, monkeypatch, name, seed):
    disk, calls, runs = scenario(monkeypatch, tmp_path, name)
    trees, wrong = violations(disk, calls, runs, 8_000, seed=seed, merges=name != SCENARIOS[-1])

    assert wrong == []
    assert trees > 30


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize("site", sorted(SITES))
def test_each_fsync_is_needed(tmp_path, monkeypatch, site):
    """Without this fsync, some state loses data."""
    found = []
    for name in SCENARIOS[:5]:
        disk, calls, runs = scenario(monkeypatch, tmp_path, name)
        found += violations(disk, calls, runs, 3000, without=site)[1]
        if found:
            break

    assert found != []


def test_list_of_fsyncs_is_complete(tmp_path, monkeypatch):
    """Every new fsync must be in the list, and so in the test above."""
    _, calls, _ = scenario(monkeypatch, tmp_path, "third run")

    assert {call[2] for call in calls if call[0] == "fsync"} == SITES
