"""The workflow on a real S3 server and a real HDFS, with a merge in plain Python: killed, failing, and two at once."""

import itertools
import json
import multiprocessing
import os
import random
import signal
import time
import uuid
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace

import pytest

from mutator.dataset.commit import process as owner
from mutator.dataset.directory import is_base, read_manifest
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError, error, failpoints
from mutator.storage import absolute, entries_of, registry, storage_for
from mutator.storage import s3 as s3_module
from mutator.workflow.directory import commands, history, lock, recovery, restore, versions
from mutator.workflow.directory.lock import Journal
from mutator.workflow.directory.paths import Base, master_of
from mutator.workflow.directory.verification import repair_base
from mutator.workflow.directory.view import Recovered
from tests.support.child_process import in_child, points
from tests.support.effort import share
from tests.support.master_base import run_workflow, status_of
from tests.support.patience import PATIENCE
from tests.support.plain_workflow import BAD, CONFIG, FEEDS, GIVEN, check, expected, merge, put, read

NAMES = list(FEEDS)
FED = {name: FEEDS[name] for name in NAMES[:3]}
SOME = pytest.param(7, id="some")
ALL = pytest.param(1, id="all", marks=pytest.mark.soak)


@pytest.fixture(params=["s3", "hdfs"])
def root(request):
    """Return an empty directory for bases."""
    if request.param == "s3":
        return request.getfixturevalue("s3").bucket() + "/bases"
    return f"{request.getfixturevalue('hdfs')}/{uuid.uuid4().hex}"


def new_base(path, runs):
    """Return a base after the given number of runs, each with a feed file; the other feed files have arrived."""
    storage = storage_for(path)
    storage.make_directory(f"{path}/master")
    put(f"{path}/master/given.txt", GIVEN)
    for name in NAMES[:runs]:
        arrive(path, name)
        run_it(path)
    for name in NAMES[runs:3]:
        arrive(path, name)
    return path


def arrive(path, name, content=None):
    storage_for(path).make_directory(f"{path}/incr")
    put(f"{path}/incr/{name}", FEEDS[name] if content is None else content)


def copied(path, to):
    """Copy a base exactly, apart from times and other details that do not matter."""
    storage = storage_for(path)
    storage.remove(to)
    for one in files(path):
        target = to + one[len(path) :]
        storage.make_directory(target.rpartition("/")[0])
        put(target, read(one))
    for directory in ("incr", "master"):
        storage.make_directory(f"{to}/{directory}")
    return to


def files(path):
    return [
        one for entry in entries_of(path) for one in (files(entry.path) if entry.type == "directory" else [entry.path])
    ]


def tree(path):
    return {one[len(path) :]: read(one) for one in files(path) if "/lock/" not in one}


def run_it(path):
    return run_workflow(path, CONFIG, merge, sleep=lambda _: None)


def read_status(path):
    return status_of(path, CONFIG)


# Forked before this process has an HDFS client: a process that is forked with one has to wait for seconds.
FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["tests.workflow.test_workflow_remote"])


def in_fresh_process(base, point="none"):
    """Run on a base in a child process; return (signal or 0, the failpoints that it passed)."""
    receiver, sender = FRESH.Pipe(duplex=False)
    environment = dict(os.environ) | {failpoints.VARIABLE: point}
    process = FRESH.Process(target=run_and_tell, args=(base, environment, sender))
    process.start()
    sender.close()
    process.join()
    if process.exitcode < 0:
        return -process.exitcode, []
    assert process.exitcode == 0
    return 0, receiver.recv()


def run_and_tell(base, environment, sender):
    os.environ.update(environment)
    run_it(base)
    sender.send(failpoints.PASSED)


@pytest.mark.thorough(keep=0)
def test_a_bad_file_is_set_aside_until_it_is_delivered_again(root):
    path = new_base(f"{root}/bad", 1)
    arrive(path, "ups_4.txt", BAD)

    (bad,) = run_it(path).failed_files

    state = status_of(path, CONFIG)
    assert (state.ready, [one.path for one in state.failed_files], len(state.problems)) == ((), [bad.path], 1)
    assert (read(bad.path), read(f"{path}/failed/{bad.run}.json").count(b"it is bad")) == (BAD, 1)
    assert run_it(path).claimed == ()
    storage_for(path).remove(f"{path}/incr/ups_4.txt")
    arrive(path, "ups_4.txt")
    assert run_it(path).claimed == ("ups_4.txt",)
    assert status_of(path, CONFIG).problems == ()


@pytest.mark.soak
@pytest.mark.parametrize("step", [SOME, ALL])
def test_kill_at_every_failpoint(root, step):
    """Kill a real process (kill -9) at each passage of each failpoint; the next command recovers.

    Of the first passages, each storage has others.
    """
    start = new_base(f"{root}/start", 1)
    _, passed = in_fresh_process(copied(start, f"{root}/base"))
    every = list(points(passed))
    chosen = every
    if step > 1:
        chosen = [point for point in every if point.endswith(":1")]
    assert len(chosen) >= 20
    if step > 1:
        chosen = chosen[3 * root.startswith("s3") :: step]
    seen = set()
    for point in chosen:
        base = copied(start, f"{root}/base")
        assert in_fresh_process(base, point)[0] == signal.SIGKILL
        committed = [version.action for version in Log(base).all()].count("run") > 1
        read_status(base)
        merged = check(Base(base), FED)
        assert merged == (set(FED) if committed else {NAMES[0]})
        settled = tree(base)
        assert read_status(base).recovered == ()
        assert tree(base) == settled
        if not committed:
            run_it(base)
            assert check(Base(base), FED) == set(FED)
        seen.add(len(merged))
    assert seen == {1, 3}


class TaskError:
    """A storage on which one call fails, or succeeds and its answer is lost."""

    def __init__(self, inner, number, fault):
        self._inner, self._number, self._fault, self.calls = inner, number, fault, 0

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        return self._file if name == "create_new" else lambda *arguments: self._call(found, *arguments)

    def _call(self, act, *arguments):
        with self._counted(arguments[0]):
            return act(*arguments)

    @contextmanager
    def _file(self, path, final=None):
        with self._counted(path), self._inner.create_new(path, final) as stream:
            yield stream

    @contextmanager
    def _counted(self, path):
        number, self.calls = self.calls, self.calls + 1
        if number == self._number and self._fault == "fails":
            raise error("storage", path=path, why="as told")
        yield
        if number == self._number and self._fault == "lost":
            raise error("storage", path=path, why="the answer got lost")


@contextmanager
def faulty(path, number, fault):
    scheme = path.partition("://")[0]
    real = registry.BACKENDS[scheme]
    storage = TaskError(real(), number, fault)
    registry.BACKENDS[scheme] = lambda: storage
    try:
        yield storage
    finally:
        registry.BACKENDS[scheme] = real


LIVES = itertools.count()


def another_process(monkeypatch):
    """Make this process look like one that started later."""
    life = str(next(LIVES))
    monkeypatch.setattr(owner, "_born", lambda _: life)


@pytest.mark.thorough(keep=0, rest=2)
@pytest.mark.parametrize("fault", ["fails", "lost"])
@pytest.mark.parametrize("step", [pytest.param(53, id="some"), ALL])
def test_any_call_fails_or_loses_its_answer(root, fault, step, monkeypatch):
    """Whatever call fails, the run succeeds or reports it, and the next command can continue with the base."""
    start = new_base(f"{root}/start", 1)
    base = copied(start, f"{root}/base")
    with faulty(base, None, fault) as counted:
        run_it(base)
    assert counted.calls > 60
    seen = set()
    for number in range(counted.calls - 1, -1, -step):  # the last calls are those after the commit
        base = copied(start, f"{root}/base")
        another_process(monkeypatch)
        with faulty(base, number, fault), suppress(MutatorError):
            run_it(base)
        another_process(monkeypatch)
        read_status(base)
        merged = check(Base(base), FED)
        assert merged in ({NAMES[0]}, set(FED))
        settled = tree(base)
        assert read_status(base).recovered == ()
        assert tree(base) == settled
        run_it(base)
        assert check(Base(base), FED) == set(FED)
        seen.add(len(merged))
    assert 3 in seen


def worker(base, own, commits):
    """Deliver the worker's own files, and run until all of them are merged."""
    rng = random.Random(own)
    for number in range(commits):
        name = f"ups_{own}{number:04d}.txt"
        arrive(base, name, f"w{own},{number}\n".encode())
        until = time.monotonic() + PATIENCE
        while not is_merged(base, name):
            assert time.monotonic() < until
            try:
                run_it(base)
            except MutatorError as fault:
                if fault.kind not in ("base.busy", "base.lost"):
                    raise
                time.sleep(rng.uniform(0.01, 0.1))


def is_merged(base, name):
    return any(part.name == name for version in Log(base).all() for part in version.feed)


@pytest.mark.thorough(keep=0, rest=1)
def test_two_processes_on_one_base(root):
    base, commits = new_base(f"{root}/base", 1), 4
    children = [FRESH.Process(target=worker, args=(base, own, commits), daemon=True) for own in (1, 2)]
    for child in children:
        child.start()
    for child in children:
        child.join(2 * PATIENCE)
    assert [child.exitcode for child in children] == [0, 0]

    run_it(base)
    each = [(own, number) for own in (1, 2) for number in range(commits)]
    delivered = {f"ups_{own}{number:04d}.txt": b"w%d,%d\n" % (own, number) for own, number in each}
    assert check(Base(base), FED | delivered) == set(FED | delivered)
    log = Log(base).all()
    assert [version.number for version in log] == list(range(1, len(log) + 1))


@pytest.mark.thorough(keep=0)
def test_restore_and_history(root):
    base = new_base(f"{root}/base", 2)
    run_it(base)
    assert restore(base, 1, CONFIG).version == 4
    version = Log(base).latest()
    master = master_of(Base(base), version)
    known = read_manifest(storage_for(master), master)
    assert read(f"{master}/{known.files[0].path}") == expected({NAMES[0]: FEEDS[NAMES[0]]})
    assert [one.kind for one in history(base, CONFIG)] == ["given", "run", "run", "run", "restore"]
    assert read_status(base).problems == ()


# --- features that only S3 has ---


@pytest.mark.thorough(keep=0)
def test_feed_files_are_never_moved(s3):
    base = new_base(f"{s3.bucket()}/base", 1)
    before = [entry for entry in entries_of(f"{base}/incr") if entry.name == NAMES[1]]
    done = run_it(base)

    assert set(done.claimed) == {NAMES[1], NAMES[2]}
    assert [entry for entry in entries_of(f"{base}/incr") if entry.name == NAMES[1]] == before
    assert run_it(base).claimed == ()


@pytest.mark.thorough(keep=0)
def test_rewritten_file_counts_as_new(s3):
    base = new_base(f"{s3.bucket()}/base", 3)
    storage_for(base).replace(f"{base}/incr/{NAMES[0]}", b"n,of another content\n"[: len(FEEDS[NAMES[0]])])

    assert run_it(base).claimed == (NAMES[0],)


@pytest.mark.thorough(keep=0)
def test_file_rewritten_during_its_merge_stops_the_run(s3):
    base = new_base(f"{s3.bucket()}/base", 2)

    def slow(task):
        made = merge(task)
        storage_for(base).replace(f"{base}/incr/{NAMES[2]}", FEEDS[NAMES[2]][::-1])
        return made

    with pytest.raises(MutatorError, match=f"incr/{NAMES[2]}: was rewritten after a run had claimed it"):
        run_workflow(base, CONFIG, slow, sleep=lambda _: None)
    assert Log(base).latest().number == 2


@pytest.mark.thorough(keep=0)
def test_symlink_manifest_names_the_live_files(s3):
    base = new_base(f"{s3.bucket()}/base", 0)
    config = replace(CONFIG, output=replace(CONFIG.output, symlink_manifest=True))
    spelled = base.replace("s3://", "s3a://")
    path = f"{base}/_symlink_format_manifest/manifest"
    run_workflow(spelled, config, merge, sleep=lambda _: None)
    arrive(base, NAMES[3])
    first = read(path).decode().split()
    assert [one.partition("://")[0] for one in first] == ["s3a"]
    assert read(first[0].replace("s3a://", "s3://")) == expected(FED)
    # Killed between the commit and the list: the next command fixes it, and later runs keep it without the option.
    assert in_child(lambda: run_it(spelled), "commit.done")[0] == signal.SIGKILL
    assert read(path).decode().split() == first
    read_status(base)
    (second,) = read(path).decode().split()
    assert read(second) == expected(FED | {NAMES[3]: FEEDS[NAMES[3]]})


def test_symlink_manifest_is_for_object_stores(tmp_path):
    (tmp_path / "incr").mkdir()
    with pytest.raises(MutatorError, match=r"symlink.manifest") as caught:
        run_workflow(str(tmp_path), replace(CONFIG, output=replace(CONFIG.output, symlink_manifest=True)), merge)
    assert caught.value.exit_code == 2


@pytest.fixture(params=["ignore", "unknown"])
def careless(request, s3, monkeypatch):
    """Imitate a server that ignores conditional puts."""
    monkeypatch.setattr(s3_module, "_exclusive", {})
    s3.behave(**{request.param: True})
    yield s3
    s3.behave()


@pytest.mark.thorough(keep=0)
def test_without_conditional_puts_a_second_writer_is_refused(careless):
    base = new_base(f"{careless.bucket()}/base", 1)
    reader, writer = os.pipe()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:

        def paused(task):
            os.write(writer, b"1")
            os.read(reading, 1)
            return merge(task)

        code = 1
        with suppress(BaseException):
            run_workflow(base, CONFIG, paused, sleep=lambda _: None)
            code = 0
        os._exit(code)
    os.read(reader, 1)
    with pytest.raises(MutatorError, match="lets one process overwrite what another has created") as caught:
        run_it(base)
    assert (caught.value.kind, caught.value.exit_code) == ("base.alone", 5)
    assert f"process {child} on" in str(caught.value)
    os.write(writing, b"1")
    assert os.waitpid(child, 0)[1] == 0
    assert check(Base(base), FED) == set(FED)
    assert run_it(base).claimed == ()


@pytest.mark.thorough(keep=0)
def test_without_conditional_puts_a_writer_on_another_machine_never_counts_as_dead(careless, monkeypatch):
    base = new_base(f"{careless.bucket()}/base", 1)
    assert in_child(lambda: run_it(base), "claim.done")[0] == signal.SIGKILL
    (lock,) = [one for one in entries_of(f"{base}/_mutator/lock") if one.name.endswith(".json")]
    here = json.loads(read(lock.path))
    storage_for(base).replace(lock.path, json.dumps(here | {"host": "another"}).encode())
    with pytest.raises(MutatorError, match=f"on another, has been since .* remove {lock.path}"):
        run_it(base)
    storage_for(base).replace(lock.path, json.dumps(here).encode())
    run_it(base)  # for this machine, it is known whether the process has ended
    assert check(Base(base), FED) == set(FED)


@pytest.mark.thorough(keep=0, rest=1)
def test_without_conditional_puts_two_simultaneous_writers_never_both_work(careless):
    base = new_base(f"{careless.bucket()}/base", 1)
    for _ in range(share(15)):
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    run_it(base)
                    code = 0
                except MutatorError as fault:
                    code = 2 if fault.kind == "base.alone" else 1
                finally:
                    os._exit(code)
            children.append(child)
        results = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert set(results) <= {0, 2}
    run_it(base)
    assert check(Base(base), FED) == set(FED)


# --- a lost log, a paused process and a second delivery on S3 ---


@pytest.mark.thorough(keep=0)
def test_base_without_its_log_is_left_alone(s3):
    base = new_base(f"{s3.bucket()}/base", 2)
    storage_for(base).remove(f"{base}/_mutator/log")
    before = tree(base)
    assert "the log, _mutator/log/, is missing" in read_status(base).problems[0]
    with pytest.raises(MutatorError, match="is missing"):
        run_it(base)
    assert tree(base) == before


@pytest.mark.thorough(keep=0)
def test_complete_dataset_without_a_version_is_left_and_reported(s3):
    base = new_base(f"{s3.bucket()}/base", 2)
    (last,) = [one for one in entries_of(f"{base}/_mutator/log") if one.name.endswith("2.json")]
    version = Log(base).latest()
    storage_for(base).remove(last.path)
    (problem,) = read_status(base).problems
    assert f"{version.path}: does not belong to any version of this base" in problem
    assert storage_for(base).stat(f"{base}/{version.path}") is not None


@pytest.mark.thorough(keep=0)
def test_late_part_of_a_dataset_is_removed(s3):
    base = new_base(f"{s3.bucket()}/base", 2)
    put(f"{base}/output/20260101T000000Z-01234567/part-00000-20260101T000000Z-01234567.txt", b"late")
    read_status(base)
    check(Base(base), FED)


@pytest.mark.thorough(keep=0)
def test_master_that_was_removed_by_hand_is_reported(s3):
    base = new_base(f"{s3.bucket()}/base", 2)
    storage_for(base).remove(master_of(Base(base), Log(base).latest()))
    (problem,) = read_status(base).problems
    assert "is not the dataset of version 2" in problem


@pytest.mark.thorough(keep=0)
def test_paused_pruner_does_not_remove_a_version_restored_meanwhile(s3, monkeypatch):
    """It stops before it removes; a restore is then refused, and a restore that came first keeps it from removing."""
    base = new_base(f"{s3.bucket()}/base", 2)
    settings = replace(CONFIG, workflow=replace(CONFIG.workflow, backup_keep=0))
    tried = []

    def pause(name):
        if name == "archive.marked" and not tried:
            with pytest.raises(MutatorError, match="is being removed"):
                restore_without_lock(base)
            tried.append(name)

    monkeypatch.setattr(versions, "failpoint", pause)
    run_workflow(base, settings, merge, sleep=lambda _: None)
    assert tried
    assert check(Base(base), FED) == set(FED)
    assert entries_of(f"{base}/_mutator/going") == []


def restore_without_lock(base):
    """Restore as a process does that has taken over the lock of a paused one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recovery, "locked", lambda *_: nullcontext())
        patch.setattr(commands, "recover", lambda *_: Recovered())
        return restore(base, 1, CONFIG)


@pytest.mark.thorough(keep=0)
def test_restore_that_came_first_keeps_the_pruner_from_removing(s3, monkeypatch):
    base = new_base(f"{s3.bucket()}/base", 2)
    begun = Journal("20260101T000000Z-01234567", "restore", 2, "")
    lock.begin(Base(base), begun)
    assert versions.prune(Base(base), Log(base), 0) == []
    lock.end(Base(base), begun.run)
    assert versions.prune(Base(base), Log(base), 0) == [1]


@pytest.mark.thorough(keep=0)
def test_file_delivered_again_is_skipped_once(s3):
    base = new_base(f"{s3.bucket()}/base", 3)
    time.sleep(1.1)  # S3's times are whole seconds
    storage_for(base).replace(f"{base}/incr/{NAMES[0]}", FEEDS[NAMES[0]])
    done = run_it(base)
    assert (done.claimed, done.skipped, done.version) == ((NAMES[0],), (NAMES[0],), None)
    assert run_it(base).claimed == ()
    assert [version.action for version in Log(base).all()] == ["run", "run", "run", "settled"]
    assert check(Base(base), FED) == set(FED)
    assert read_status(base).problems == ()


@pytest.mark.thorough(keep=0)
def test_symlink_manifest_is_recovered_when_configured_later_and_killed(s3):
    base = new_base(f"{s3.bucket()}/base", 3)
    config = replace(CONFIG, output=replace(CONFIG.output, symlink_manifest=True))
    path = f"{base}/_symlink_format_manifest/manifest"
    act = lambda: run_workflow(base, config, merge, sleep=lambda _: None)  # noqa: E731
    assert in_child(act, "publish.symlinks")[0] == signal.SIGKILL  # there is nothing to merge
    assert read(read(path).decode().split()[0]) == expected(FED)
    read_status(base.replace("s3://", "s3a://"))  # status with another spelling of the base changes nothing
    assert read(path).decode().startswith("s3://")


@pytest.mark.thorough(keep=0)
def test_trailing_slash_of_a_base(s3):
    base = new_base(f"{s3.bucket()}/base", 2)
    assert is_base(absolute(f"{base}/"))
    assert read_status(f"{base}/").problems == ()


@pytest.mark.thorough(keep=0, rest=2)
@pytest.mark.parametrize("cure", ["repair", "restore"])
def test_damaged_manifest_is_repaired_or_another_version_restored(root, cure):
    """The messages advise it, on S3 as well, where datasets stay in output/."""
    base = new_base(f"{root}/base", 2)
    master = master_of(Base(base), Log(base).latest())
    storage, path = storage_for(base), f"{master}/_mutator/manifest.json"
    whole = read(path)
    storage.replace(path, whole[:-40])
    with pytest.raises(MutatorError, match="mutator verify --repair") as caught:
        run_it(base)
    assert caught.value.exit_code == 5
    assert any("mutator verify --repair" in problem for problem in read_status(base).problems)

    if cure == "repair":
        done, problems = repair_base(base)
        assert (len(done), problems) == (1, [])
        assert read(path) == whole
        assert read_status(base).problems == ()
        run_it(base)
        assert check(Base(base), FED) == {*NAMES[:3]}
    else:
        restore(base, 1, CONFIG)
        master = master_of(Base(base), Log(base).latest())
        assert [part.name for part in read_manifest(storage, master).feed] == NAMES[:1]
        run_it(base)


@pytest.mark.thorough(keep=0)
def test_a_restored_version_counts_from_its_restore(s3):
    """It was the master just before, so it is the one backup that is kept."""
    base = new_base(f"{s3.bucket()}/base", 2)
    restore(base, 1, CONFIG)
    run_workflow(base, replace(CONFIG, workflow=replace(CONFIG.workflow, backup_keep=1)), merge, sleep=lambda _: None)
    first, _, _, last = Log(base).all()
    assert [entry.name for entry in entries_of(f"{base}/output")] == [first.run, last.run]
