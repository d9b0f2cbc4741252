"""The workflow on the local disk, with a merge in plain Python: processes that are killed, and many at once."""

import os
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress

import pytest

from mutator.dataset import manifest
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError, error
from mutator.storage import local
from mutator.workflow.directory import history, restore
from mutator.workflow.directory.paths import Base
from tests.support.child_process import in_child, points
from tests.support.failpoints import FAILPOINTS, WORKFLOW_FAILPOINTS
from tests.support.master_base import run_workflow
from tests.support.plain_workflow import (
    CONFIG,
    FED,
    FEEDS,
    GIVEN,
    NAMES,
    arrive,
    check,
    expected,
    new_base,
    read_status,
    run_it,
)

# The step between the kill points that are tested in the recovery.
FEW = pytest.param(40, id="few")  # and only one failpoint of each phase
SOME = pytest.param(7, id="some")
ALL = pytest.param(1, id="all", marks=pytest.mark.soak)
STARTS = [pytest.param(0, id="first run", marks=pytest.mark.soak), pytest.param(2, id="third run")]


def part(directory):
    """Return the path of a dataset's only data file."""
    (found,) = directory.glob("part-*.txt")
    return found


def failing_run(base):
    def fail(task):
        raise error("storage", path=task.output, why="no space left")

    with suppress(MutatorError):
        run_workflow(str(base), CONFIG, fail)


def copied(base, to):
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(base, to, copy_function=shutil.copyfile)
    return to


def tree(base):
    return {
        path.relative_to(base).as_posix(): path.read_bytes()
        for path in sorted(base.rglob("*"))
        if path.is_file() and "/lock/" not in path.as_posix()
    }


@pytest.fixture
def no_sync(monkeypatch):
    """Leave fsync out: a killed process loses nothing that it has written."""
    monkeypatch.setattr(local.os, "fsync", lambda _: None)


@pytest.mark.processes
@pytest.mark.thorough(keep="few-exchange", rest=0)
@pytest.mark.parametrize(
    "runs", [pytest.param(0, id="first run", marks=pytest.mark.soak), pytest.param(2, id="third run")]
)
@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])
@pytest.mark.parametrize("step", [FEW, SOME, ALL])
def test_kill_at_every_failpoint_and_again_in_the_recovery(tmp_path, monkeypatch, no_sync, runs, exchange, step):
    """Kill a real process (kill -9) at each passage of each failpoint, then kill its recovery at each of its own."""
    if not exchange:
        monkeypatch.setattr(local.LocalStorage, "swap", lambda *_: False)
    start, before = new_base(tmp_path / "start", runs), set(NAMES[:runs])
    _, passed = in_child(lambda: run_it(copied(start, tmp_path / "base")))
    first_points, doubles, outcomes = list(points(passed)), 0, Counter()
    assert len(set(first_points)) >= 30
    if step > 7:
        first_points = list({point.split(".")[0]: point for point in first_points if point.endswith(":1")}.values())
    for point in first_points:
        base = copied(start, tmp_path / "base")
        assert in_child(lambda base=base: run_it(base), point)[0] == signal.SIGKILL
        crashed = copied(base, tmp_path / "crashed")
        committed = [version.action for version in Log(str(base)).all()].count("run") > runs
        _, passed = in_child(lambda base=base: read_status(base))
        merged = check(Base(str(base)), FED)
        assert merged == (set(FED) if committed else before)
        outcomes[len(merged)] += 1
        settled = tree(base)
        assert read_status(base).recovered == ()
        assert tree(base) == settled
        for second in list(points(passed))[::step]:
            base = copied(crashed, tmp_path / "base")
            assert in_child(lambda base=base: read_status(base), second)[0] == signal.SIGKILL
            assert read_status(base).problems == ()
            assert check(Base(str(base)), FED) == merged
            doubles += 1
    assert set(outcomes) == {runs, 3}
    assert doubles >= (600 // step if step <= 7 else len(first_points) - 1)


def test_every_listed_failpoint_is_passed(tmp_path, monkeypatch, no_sync):
    """A failpoint that no run passes tests nothing."""
    seen = set()
    start = new_base(tmp_path / "start", 2)
    base = copied(start, tmp_path / "base")
    seen.update(in_child(lambda: run_it(base))[1])
    seen.update(in_child(lambda: restore(str(base), 2, CONFIG))[1])
    for point in ("merge.done", "commit.begin"):
        copied(start, base)
        in_child(lambda: run_it(base), point)
        (base / "incr" / NAMES[2]).write_text("n,another of this name\n")
        seen.update(in_child(lambda: read_status(base))[1])
    copied(start, base)
    seen.update(in_child(lambda: failing_run(base))[1])

    # Other tests cover these.
    rare = {"publish.first.rename", "claim.marker", "return.marker", "publish.empty.removed"}
    rare |= {name for name in WORKFLOW_FAILPOINTS if "control" in name}
    assert {name for name in (*FAILPOINTS, *WORKFLOW_FAILPOINTS) if not name.startswith("task.")} - rare - seen == set()


def worker(base, own, commits):
    """Deliver the worker's own files, and run until all of them are merged."""
    rng = random.Random(own)
    done = 0
    while done < commits:
        name = f"ups_{own}{done:04d}.txt"
        (base / "incr" / f"{name}.tmp").write_bytes(f"w{own},{done}\n".encode())
        os.rename(base / "incr" / f"{name}.tmp", base / "incr" / name)
        while True:
            try:
                outcome = run_it(base)
            except MutatorError as fault:
                if fault.kind not in ("base.busy", "base.lost"):
                    raise
                time.sleep(rng.uniform(0.001, 0.01))
                continue
            if outcome.version is not None or name in archived(base):
                break
        done += 1


def archived(base):
    return {path.name for path in (base / "archive").glob("*/*")}


def reader(base, stop, seen):
    """Read the master repeatedly through an open directory descriptor: each read must give a whole version."""
    while not stop.exists():
        handle = os.open(base / "master", os.O_RDONLY | os.O_DIRECTORY)
        try:
            with open(os.open(manifest.PATH, os.O_RDONLY, dir_fd=handle), "rb") as stream:
                known = manifest.parse(stream.read(), "master")
            for part in known.files:
                with open(os.open(part.path, os.O_RDONLY, dir_fd=handle), "rb") as stream:
                    assert len(stream.read()) == part.bytes
        except FileNotFoundError:
            continue  # this version was removed from backup/ in the meantime (backup.keep); read again
        finally:
            os.close(handle)
        with seen.open("a") as stream:
            stream.write(f"{known.commit.id}\n")
        time.sleep(0.001)


def forked(act, *arguments):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act(*arguments)
            code = 0
        finally:
            os._exit(code)
    return child


def race(base, workers, commits, readers):
    new_base(base, 1)
    stop = base.parent / "stop"
    observers = [forked(reader, base, stop, base.parent / f"seen-{number}") for number in range(readers)]
    children = [forked(worker, base, number + 1, commits) for number in range(workers)]
    codes = [os.waitpid(child, 0)[1] for child in children]
    stop.touch()
    codes += [os.waitpid(child, 0)[1] for child in observers]
    assert codes == [0] * (workers + readers)

    run_it(base)
    log = Log(str(base)).all()
    assert [version.number for version in log] == list(range(1, len(log) + 1))
    assert {version.action for version in log} == {"run"}
    delivered = {f"ups_{own + 1}{number:04d}.txt" for own in range(workers) for number in range(commits)}
    merged = [part.name for version in log for part in version.feed]
    assert sorted(merged) == sorted(delivered | {NAMES[0], *FED})
    rows = part(base / "master").read_text()
    assert all(f"w{own + 1},{commits - 1}," in rows for own in range(workers))
    commits_seen = [line for path in base.parent.glob("seen-*") for line in path.read_text().split()]
    order = [version.dataset for version in log]
    assert set(commits_seen) <= set(order)
    for path in base.parent.glob("seen-*"):
        places = [order.index(commit) for commit in path.read_text().split()]
        assert places == sorted(places), "a reader saw a version, and then an older one"
    assert archived(base) == set(merged)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize(("workers", "commits"), [(3, 3), (4, 6)])
def test_processes_race_and_readers_see_whole_versions(tmp_path, no_sync, workers, commits):
    race(tmp_path / "base", workers, commits, readers=2)


@pytest.mark.soak
def test_eight_processes_with_fifty_commits(tmp_path):
    race(tmp_path / "base", workers=8, commits=50, readers=4)


def test_unmanaged_master_is_kept_and_cannot_be_restored(tmp_path):
    base = new_base(tmp_path / "base", 1)

    assert (base / "backup" / "0" / "given.txt").read_bytes() == GIVEN
    with pytest.raises(MutatorError, match="has no manifest"):
        restore(str(base), 0, CONFIG)


def test_restore_brings_a_version_back_as_a_new_one(tmp_path):
    base = new_base(tmp_path / "base", 2)
    run_it(base)
    done = restore(str(base), 1, CONFIG)

    assert (done.version, done.restored) == (4, 1)
    assert part(base / "master").read_bytes() == expected({NAMES[0]: FEEDS[NAMES[0]]})
    assert [one.kind for one in history(str(base), CONFIG)] == ["given", "run", "run", "run", "restore"]
    # Files merged after that version count as unmerged: if they are delivered again, they are merged.
    arrive(base, NAMES[1], NAMES[2])
    assert run_it(base).version == 5
    assert part(base / "master").read_bytes() == expected(FED)
    assert restore(str(base), 4, CONFIG).version == 6
    assert restore(str(base), 3, CONFIG).version == 7
    assert part(base / "master").read_bytes() == expected(FED)


@pytest.mark.parametrize(
    ("to", "words"), [(9, "there is no version 9"), (2, "is the master already"), (-1, "there is no version -1")]
)
def test_restore_names_versions_that_cannot_be_restored(tmp_path, to, words):
    base = new_base(tmp_path / "base", 2)
    with pytest.raises(MutatorError, match=words) as caught:
        restore(str(base), to, CONFIG)

    assert caught.value.exit_code == 5


def test_master_that_was_replaced_by_hand_is_refused(tmp_path):
    base = new_base(tmp_path / "base", 2)
    shutil.rmtree(base / "master")
    (base / "master").mkdir()
    (base / "master" / "other.txt").write_text("z,other\n")
    with pytest.raises(MutatorError, match="is not the dataset of version 2") as caught:
        run_it(base)

    assert caught.value.exit_code == 5
    assert (base / "incr" / NAMES[2]).exists()
    assert "is not the dataset of version 2" in read_status(base).problems[0]
    assert restore(str(base), 1, CONFIG).version == 3
    assert "move it away" in read_status(base).problems[0]


def test_base_without_its_log_is_left_alone(tmp_path):
    base = new_base(tmp_path / "base", 2)
    before = tree(base)
    shutil.rmtree(base / "_mutator")
    for act in (run_it, lambda base: restore(str(base), 1, CONFIG)):
        with pytest.raises(MutatorError, match="the log, _mutator/log/, is missing") as caught:
            act(base)
        assert caught.value.exit_code == 5
    assert "is missing" in read_status(base).problems[0]
    assert tree(base) == {name: data for name, data in before.items() if not name.startswith("_mutator")}


@pytest.mark.parametrize("how", ["removed", "cut", "log"])
def test_status_finds_faults_without_reading_data(tmp_path, how):
    base = new_base(tmp_path / "base", 2)
    file = part(base / "master")
    if how == "removed":
        file.unlink()
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        (base / "_mutator" / "log" / f"{1:020d}.json").unlink()

    (problem,) = read_status(base).problems
    assert {"removed": "is missing", "cut": "bytes and should have", "log": "log entry is damaged"}[how] in problem


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("how", ["flip", "cut", "empty"])
def test_damaged_log_entry_stops_everything(tmp_path, number, how):
    base = new_base(tmp_path / "base", 2)
    path = base / "_mutator" / "log" / f"{number:020d}.json"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes({"flip": bytes(data), "cut": data[:-9], "empty": b""}[how])
    if number == 1:
        assert "log entry is damaged" in read_status(base).problems[0]
    with pytest.raises(MutatorError, match="log entry is damaged") as caught:
        history(str(base), CONFIG)

    assert caught.value.exit_code == 5


def test_status_after_a_first_run_that_was_killed(tmp_path, no_sync):
    base = new_base(tmp_path / "base", 0)
    assert in_child(lambda: run_it(base), "merge.done")[0] == signal.SIGKILL
    text = read_status(base).text()

    assert "none yet: the master is the given one" in text
    assert "version 1 only says that run" in text
    assert "ups_1.txt" in text.split("recovered: run ")[1]
    assert run_it(base).version == 2
    assert (base / "backup" / "1" / "given.txt").read_bytes() == GIVEN


def test_foreign_dataset_in_output_is_left_alone(tmp_path):
    base = new_base(tmp_path / "base", 1)
    other = new_base(tmp_path / "other", 1)
    shutil.copytree(other / "master", base / "output" / "mine")
    run_it(base)

    assert part(base / "output" / "mine").exists()
    assert "output/mine: does not belong to any version of this base" in read_status(base).problems[0]


def test_removal_that_was_killed_is_finished(tmp_path, no_sync):
    base = new_base(tmp_path / "base", 2)
    assert in_child(lambda: run_it(base), "commit.begin")[0] == signal.SIGKILL
    assert in_child(lambda: read_status(base), "recover.output.hidden")[0] == signal.SIGKILL
    (hidden,) = (path for path in (base / "output").iterdir())
    next(hidden.rglob("manifest.json")).unlink()

    assert read_status(base).problems == ()
    assert not list((base / "output").iterdir())


def test_master_of_mutator_run_is_version_0_and_can_be_restored(tmp_path):
    other = new_base(tmp_path / "other", 1)
    base = tmp_path / "base"
    shutil.copytree(other / "master", base / "master")
    arrive(base, NAMES[1])
    run_it(base)
    assert part(base / "backup" / "0").read_bytes() == expected({NAMES[0]: FEEDS[NAMES[0]]})
    assert restore(str(base), 0, CONFIG).version == 2

    assert part(base / "master").read_bytes() == expected({NAMES[0]: FEEDS[NAMES[0]]})
    assert read_status(base).problems == ()


def test_litter_of_the_lock_is_removed_after_a_minute(tmp_path):
    """A process that takes the lock needs such a file for a moment, so a younger one may be in use."""
    base = new_base(tmp_path / "base", 1)
    lock = base / "_mutator" / "lock"
    for name, age in ((".clock-old", 90), (".00000000000000000009-000000.json.old", 90), (".clock-new", 5)):
        (lock / name).write_bytes(b"")
        os.utime(lock / name, (time.time() - age,) * 2)
    run_it(base)
    assert [path.name for path in lock.iterdir()] == [".clock-new"]


def test_foreign_directory_in_output_is_left_alone(tmp_path):
    base = new_base(tmp_path / "base", 1)
    (base / "output" / "mine").mkdir()
    (base / "output" / "mine" / "notes.txt").write_text("notes")
    (base / "working" / "mine").mkdir()
    (base / "working" / "mine" / "ups_9.txt").write_text("not,delivered")
    run_it(base)

    assert (base / "output" / "mine" / "notes.txt").read_text() == "notes"
    assert (base / "working" / "mine" / "ups_9.txt").exists()
    assert "output/mine: does not belong to any version of this base" in read_status(base).problems[0]
