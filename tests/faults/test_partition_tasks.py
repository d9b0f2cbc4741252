"""Tasks of a partitioned merge that fail, run twice or lose their data; damaged masters; two runs at once.

Either the result is that of an undisturbed run, or nothing is published and the message names the file.
"""

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pyarrow import ArrowException

import mutator
from mutator.dataset.filter_packs import read_filters
from mutator.engine.partitions import partition_steps as steps
from mutator.errors import DataError, MutatorError, StateError
from mutator.errors.failpoints import VARIABLE
from mutator.pipeline import merge
from mutator.storage.local import LocalStorage
from tests.support import local_engine
from tests.support.cluster import ROOT, environment
from tests.support.parted import (
    QUIET,
    SCOPES,
    call_of,
    check_whole,
    comparable,
    contents,
    every_scope,
    expected,
    places,
    quick,
    settings,
)
from tests.support.patience import PATIENCE

__all__ = ["places", "quick"]  # fixtures


@pytest.fixture(scope="module")
def undisturbed(places, tmp_path_factory):
    """Return the outputs of undisturbed runs."""
    root = tmp_path_factory.mktemp("undisturbed")
    for scope in SCOPES:
        local_engine.mutate(**call_of(places[scope], scope, root / scope))
    return {scope: comparable(root / scope) for scope in SCOPES}


@pytest.fixture
def place(places, tmp_path):
    """Return a copy of the inputs that a test may damage."""

    def own(scope):
        return Path(shutil.copytree(places[scope], tmp_path / "own"))

    return own


# --- tasks that fail, and tasks that run twice


@contextmanager
def in_workers(sc, point):
    """Set the failpoint for new Python workers of a running session: Spark starts new workers for each set of
    variables.
    """
    sc.environment[VARIABLE] = point
    try:
        yield
    finally:
        del sc.environment[VARIABLE]


RARE = [
    ("table", "task.started:raise"),
    ("table", "task.data.written"),
    ("partition", "task.tombstones.written:raise"),
]


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize(
    ("scope", "point"),
    [
        ("table", "task.filters.written:raise"),
        ("partition", "task.order.written"),
        *(pytest.param(*one, marks=pytest.mark.soak) for one in RARE),
    ],
)
def test_task_that_fails_once_changes_nothing(sc, places, undisturbed, tmp_path, scope, point):
    """With ``:raise`` a task fails; otherwise SIGKILL takes its worker, as the kernel does when memory runs out."""
    output = tmp_path / "out"
    group = str(tmp_path)
    sc.setJobGroup(group, "one run")

    with in_workers(sc, point):
        mutator.mutate(sc, **call_of(places[scope], scope, output))

    check_whole(output, expected(scope))
    assert list(tmp_path.iterdir()) == [output]
    assert counts_and_rows(comparable(output)) == counts_and_rows(undisturbed[scope])
    assert failed_tasks(sc, group) > 0


def failed_tasks(sc, group):
    """Return how many task attempts of a job group have failed."""
    tracker = sc.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    return sum(stage.numFailedTasks for stage in stages if stage)


def counts_and_rows(found):
    """Return the parts of an output that do not depend on the number of tasks: each task writes its filter pack."""
    counts, files = found
    return counts, [file for file in files if file[0] != "_mutator/filters"]


@pytest.mark.thorough(keep=2)
@every_scope
@pytest.mark.parametrize("links", [True, False], ids=["by link", "by copy"])
@pytest.mark.parametrize("which", ["first", "last"])
def test_every_task_is_attempted_twice_at_once(places, undisturbed, tmp_path, monkeypatch, scope, links, which):
    """As with speculation, both attempts write, but only the attempt whose receipts arrive is published."""
    if not links:
        monkeypatch.setattr(LocalStorage, "link_new", lambda *_: False)
    write, copy = steps.write_units, steps.copied

    def both(act, *attempts):
        found = {}
        threads = [threading.Thread(target=lambda n=n: found.update({n: act(n)})) for n in attempts]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        return found[attempts[0 if which == "first" else -1]]

    def write_twice(plan, staging, shares, task, _, elements):
        found = list(elements)
        return both(lambda attempt: list(write(plan, staging, shares, task, attempt, iter(found))), 0, 7)

    monkeypatch.setattr(steps, "write_units", write_twice)
    monkeypatch.setattr(steps, "copied", lambda parts, number, _: both(lambda n: copy(parts, number, n), 0, 7))

    local_engine.mutate(**call_of(places[scope], scope, tmp_path / "out"))

    check_whole(tmp_path / "out", expected(scope))
    assert comparable(tmp_path / "out") == undisturbed[scope]


@every_scope
def test_killed_copy_is_not_in_the_output(places, undisturbed, tmp_path, monkeypatch, scope):
    """A worker that dies in the middle of a copy leaves a hidden file; the second attempt writes the whole file."""
    monkeypatch.setattr(LocalStorage, "link_new", lambda *_: False)
    copy, left = steps.copied, []

    def second(parts, number, _):
        for target in (Path(target) for _, target, _ in parts):
            left.append(target.with_name(f".{target.name}.0123456789abcdef"))
            left[-1].write_bytes(b"half of it")
        copy(parts, number, 1)

    monkeypatch.setattr(steps, "copied", second)
    local_engine.mutate(**call_of(places[scope], scope, tmp_path / "out"))

    assert len(left) >= 2
    check_whole(tmp_path / "out", expected(scope))
    assert comparable(tmp_path / "out") == undisturbed[scope]


@pytest.mark.rest
@pytest.mark.parametrize("point", ["carry.copied", pytest.param("carry.copied:raise", marks=pytest.mark.soak)])
def test_worker_that_is_killed_between_two_copies(sc, places, undisturbed, tmp_path, point):
    """The output is on another disk than the master, so no file can be linked."""
    others = [path for path in ("/dev/shm", "/var/tmp") if Path(path).is_dir()]
    second = next((path for path in others if os.stat(path).st_dev != tmp_path.stat().st_dev), None)
    if second is None:
        pytest.skip("there is no second file system")
    with tempfile.TemporaryDirectory(dir=second) as other:
        output = Path(other) / "out"
        sc.setJobGroup(other, "one run")
        with in_workers(sc, point):
            mutator.mutate(sc, **call_of(places["table"], "table", output))

        check_whole(output, expected("table"))
        assert list(Path(other).iterdir()) == [output]
        assert counts_and_rows(comparable(output)) == counts_and_rows(undisturbed["table"])
        assert failed_tasks(sc, other) > 0


@pytest.mark.thorough(keep=0)
@every_scope
def test_executor_that_is_lost_between_the_steps(sc, places, undisturbed, tmp_path, monkeypatch, scope):
    """The executor's routes are lost, and are computed again from the files."""
    monkeypatch.setattr(steps, "make_directories", between(lambda: forget(sc)))

    mutator.mutate(sc, **call_of(places[scope], scope, tmp_path / "out"))

    check_whole(tmp_path / "out", expected(scope))
    assert counts_and_rows(comparable(tmp_path / "out")) == counts_and_rows(undisturbed[scope])


def between(act):
    """Call a function between the two steps of a merge."""
    make = steps.make_directories

    def make_directories(plan, staging):
        make(plan, staging)
        act()

    return make_directories


def forget(sc):
    """Remove the data of a lost executor: persisted data and shuffle files."""
    persisted = dict(sc._jsc.getPersistentRDDs())
    assert len(persisted) == 1
    for one in persisted.values():
        one.unpersist(True)
    for number in range(sc._jsc.sc().newShuffleId()):
        sc._jsc.sc().cleaner().get().doCleanupShuffle(number, True)


@pytest.mark.thorough(keep=0, rest=3)
@every_scope
@pytest.mark.parametrize("how", ["longer", "shorter", "other partitions"])
def test_feed_that_changes_between_the_steps_is_not_merged(sc, place, tmp_path, monkeypatch, scope, how):
    """Lost routes are computed again from the feed, which now differs from the feed of the plan."""
    own = place(scope)
    path = own / "feed" / "ups_4.txt"
    content = path.read_bytes()

    def change():
        changed = {"longer": content + b"k99,a,x\n", "shorter": content[:-20]}
        path.write_bytes(changed.get(how, content.replace(b",b,", b",y,").replace(b",n,", b",z,")))
        forget(sc)

    monkeypatch.setattr(steps, "make_directories", between(change))
    before = contents(own / "managed")

    said_is = "a file changed during the run" if how == "other partitions" else "changed while it was being read"
    with pytest.raises(DataError, match=said_is) as caught:
        mutator.mutate(sc, **call_of(own, scope, tmp_path / "beside" / "out"))

    assert str(path) in str(caught.value)
    assert list((tmp_path / "beside").iterdir()) == []
    assert contents(own / "managed") == before


# --- damage


def quiet(master, role):
    """Return a file of an untouched partition."""
    directory = {"data": ".", "tombstones": "_mutator/tombstones", "order": "_mutator/order"}[role]
    return next((master / directory / QUIET[0]).glob("part-*"))


def refused(place, scope, tmp_path, *parts, family=StateError, **how):
    before = contents(place)
    with pytest.raises(MutatorError) as caught:
        local_engine.mutate(**call_of(place, scope, tmp_path / "beside" / "out", **how))
    assert type(caught.value) is family, str(caught.value)
    assert caught.value.exit_code == 5
    assert [part for part in parts if str(part) not in str(caught.value)] == [], str(caught.value)
    beside = tmp_path / "beside"
    assert not beside.exists() or list(beside.iterdir()) == []
    assert contents(place) == before


@pytest.mark.parametrize(
    ("scope", "role"),
    [("table", "data"), ("table", "order"), ("partition", "tombstones"), ("partition", "order")],
)
@pytest.mark.parametrize("damage", ["missing", "longer"])
def test_carried_file_that_differs_from_the_manifest(place, tmp_path, scope, role, damage):
    own = place(scope)
    path = quiet(own / "managed", role)
    name, size = path.relative_to(own / "managed"), path.stat().st_size
    if damage == "missing":
        path.unlink()
        refused(own, scope, tmp_path, f"{name} is missing")
    else:
        path.write_bytes(path.read_bytes() + b"x")
        refused(own, scope, tmp_path, f"{name} has {size + 1:,} bytes and should have {size:,}")


@pytest.mark.rest
@every_scope
@pytest.mark.parametrize("touched", [True, False], ids=["touched", "carried"])
def test_missing_file_stops_a_run_on_spark(sc, place, tmp_path, scope, touched):
    """On Spark the master is checked during the first step."""
    own = place(scope)
    master = own / "managed"
    parts = [path for path in sorted(master.glob("p=*/part-*")) if (path.parent.name in QUIET) != touched]
    parts[0].unlink()
    before = contents(own)

    with pytest.raises(StateError, match=f"{parts[0].relative_to(master)} is missing"):
        mutator.mutate(sc, **call_of(own, scope, tmp_path / "beside" / "out"))

    assert list((tmp_path / "beside").iterdir()) == []
    assert contents(own) == before


@every_scope
@pytest.mark.parametrize("name", ["p=q/more.txt", "p=q/deep/more.txt", "p=new/more.txt"])
def test_foreign_file_in_a_partition(place, tmp_path, scope, name):
    own = place(scope)
    path = own / "managed" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"k99,q,x\n")

    refused(own, scope, tmp_path, f"{name} is not one of its files")


def test_link_in_place_of_a_partition(place, tmp_path):
    own = place("table")
    (own / "managed" / "p=q").rename(tmp_path / "moved")
    (own / "managed" / "p=q").symlink_to(tmp_path / "moved")

    with pytest.raises(StateError, match="p=q is not one of its files"):
        local_engine.mutate(**call_of(own, "table", tmp_path / "out"))


@every_scope
@pytest.mark.parametrize("name", [".part-00000.crc", "_temporary"])
def test_hidden_file_in_a_partition_is_not_data(place, tmp_path, scope, name):
    """The same is true of a master without partitions."""
    own = place(scope)
    (own / "managed" / "p=q" / name).write_bytes(b"x")

    local_engine.mutate(**call_of(own, scope, tmp_path / "out"))

    check_whole(tmp_path / "out", expected(scope))


@pytest.mark.parametrize("role", ["data", "tombstones"])
def test_damaged_file_that_is_read_stops_the_run(place, tmp_path, monkeypatch, role):
    """The file belongs to an untouched partition; here the filters admit every key in every file."""
    monkeypatch.setattr(
        "mutator.engine.partitions.locate.Sought.may_be_in", lambda *given: np.ones(given[3] - given[2], np.bool_)
    )
    everything = SimpleNamespace(bisect_left=lambda *_: 0, bisect_right=lambda found, _: len(found))
    monkeypatch.setattr("mutator.engine.partitions.locate.bisect", everything)
    own = place("table")
    path = quiet(own / "managed", "data")
    if role == "tombstones":
        path = next((own / "managed" / "_mutator" / "tombstones").rglob("part-*"))
    content = bytearray(path.read_bytes())
    content[4] ^= 1
    path.write_bytes(content)

    refused(own, "table", tmp_path, path, "the master's file is damaged: restore it from a copy")


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("feed", ["looks for records", "has none"])
def test_no_flipped_bit_in_a_filter_pack_hides_a_filter(place, tmp_path, feed):
    """Otherwise a record could be stored twice: only files whose filters admit the key are searched.

    The flip must also be found where packs are only joined and no key is searched.
    """
    own = place("table")
    if feed == "has none":
        shutil.rmtree(own / "feed")
        (own / "feed").mkdir()
        (own / "feed" / "ups_9.txt").write_text("broken\n")
    for path in sorted((own / "managed" / "_mutator" / "filters").iterdir()):
        content = path.read_bytes()
        hiding = (one for one in flips(content) if names_in(one) not in (names_in(content), None))
        damaged = next(hiding, None)
        if damaged is not None:
            path.write_bytes(damaged)
            refused(own, "table", tmp_path, path, "it has no filter of ")
            return
    pytest.fail("no flip hides a filter: the check is of no use any more")


def flips(content):
    for number in range(len(content)):
        for bit in range(8):
            yield content[:number] + bytes([content[number] ^ 1 << bit]) + content[number + 1 :]


def names_in(pack):
    """Return the files that a pack names, or None if it cannot be read."""
    try:
        return [one.path for one in read_filters(io.BytesIO(pack))]
    except (ArrowException, OSError, ValueError, LookupError):
        return None


# --- concurrent runs and signals


@every_scope
def test_two_runs_at_once_publish_one_output(places, undisturbed, tmp_path, scope):
    """The other run reports why it failed, and leaves no files."""
    output = tmp_path / "beside" / "out"
    call = call_of(places[scope], scope, output)
    begun, losers = threading.Event(), []

    def slow(plan, staging):
        begun.set()
        with pytest.raises(StateError) as caught:
            local_engine.mutate(**call)
        losers.append(caught.value)
        return local_engine.merge(plan, staging)

    merge.run(slow, **call)

    assert [(loser.kind, loser.exit_code) for loser in losers] == [("output.busy", 5)]
    assert list(output.parent.iterdir()) == [output]
    check_whole(output, expected(scope))
    assert comparable(output) == undisturbed[scope]


STOPPED = """
import os, signal, sys
from mutator.cli import main
from mutator.engine.partitions import partition_steps as steps
write = steps.write_units
def stopped(*given):
    os.kill(os.getpid(), signal.SIGSTOP)
    return write(*given)
steps.write_units = stopped
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak)],
)
def test_signal_in_the_middle_of_the_merge(places, tmp_path, number, code):
    """A signal stops the run after it has created the directories of the partitions."""
    output, written = tmp_path / "beside" / "out", tmp_path / "run.properties"
    output.parent.mkdir()
    many = tmp_path / "many"
    many.mkdir()
    (many / "base_1.txt").write_text("".join(f"k{n},{n % 200},x\n" for n in range(2000)))
    written.write_text("".join(f"{key}={value}\n" for key, value in settings("table").items() if key != "split.bytes"))
    command = [sys.executable, "-c", STOPPED, "run", "--config", written, "--master", many]
    command += ["--feed", places["table"] / "feed", "--output", output]
    with subprocess.Popen(command, env=environment(), cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        how = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        has_directories = any(output.parent.glob(".out.*/*/p=*"))
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        printed = process.communicate(timeout=PATIENCE)[1]

    assert how.si_code == os.CLD_STOPPED, printed
    assert has_directories
    assert process.returncode == code, printed
    assert "nothing was published" in printed
    assert "Traceback" not in printed
    assert list(output.parent.iterdir()) == []
