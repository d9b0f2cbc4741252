"""A partitioned master on every storage: calls that fail, power that fails, and no links or no renames."""

import copy
import json
import os
import random
import uuid

import pytest

from mutator.dataset.commit.staging import published, sweep
from mutator.dataset.directory import read_manifest
from mutator.storage import entries_of, storage_for
from tests.support import local_engine
from tests.support.disk_model import Recorder, disk_of
from tests.support.model_storage import KINDS, ModelStorage, mounted
from tests.support.parted import (
    FEED,
    FIRST,
    QUIET,
    call_of,
    check_whole,
    comparable,
    contents,
    every_scope,
    expected,
    new_place,
    put_files,
    settings,
    settled,
    workflow,
)
from tests.support.plain_workflow import put
from tests.support.process_deaths import copy_of, dying, process  # noqa: F401  # a fixture that is used by itself
from tests.support.remote_commands import run

# --- calls that kill the process, fail, or get no answer

SOME = pytest.param(61, id="some")
ALL = pytest.param(1, id="all", marks=pytest.mark.soak)
FAULTS = ["kill", "EIO", "lost"]


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """Return a function that creates a directory on a model storage of the given type."""
    made = {}

    def start(storage_type, scope):
        if (storage_type, scope) not in made:
            storage = ModelStorage(storage_type)
            with mounted(storage) as path:
                new_place(path, scope)
            made[storage_type, scope] = storage
        return made[storage_type, scope]

    return start


@pytest.mark.thorough(keep="some-kill-table-s3")
@pytest.mark.parametrize("storage_type", KINDS)
@pytest.mark.parametrize("scope", ["table", pytest.param("partition", marks=pytest.mark.soak)])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", [SOME, ALL])
def test_kill_failure_or_lost_answer_at_any_call(storage_type, scope, fault, step, starts, process):  # noqa: F811
    start = starts(storage_type, scope)
    whole = copy_of(start)
    with mounted(whole) as path:
        local_engine.mutate(**call_of(path, scope, f"{path}/out"))
        calls, common = whole.calls, comparable(f"{path}/out")
    assert calls > 100
    seen = set()
    for number in range(7 * FAULTS.index(fault), calls, step):  # other calls with each fault
        storage = copy_of(start)
        storage.fault = lambda n, _, number=number: fault if n == number else None
        with mounted(storage) as path:
            output = f"{path}/out"
            with dying(storage, process):
                local_engine.mutate(**call_of(path, scope, output))
            seen.add(done := published(storage, output) is not None)
            if not done:
                local_engine.mutate(**call_of(path, scope, output))

            check_whole(output, expected(scope))
            assert comparable(output) == common, number
            sweep(output)  # the directory of a run that was killed when only its removal was left
            assert {one.split("/")[3] for one in storage.tree if "/" in one[8:]} == {
                *("base", "first", "feed", "managed", "out")
            }, number
            assert storage.unfinished(path) == []
            for one, content in start.tree.items():
                assert storage.tree[one] == content, number
    assert False in seen


# --- power failures

MANY = 24  # more partitions than are fsynced one by one


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Record a run that writes few directories, and one that writes and carries many: (disk before, system calls)."""
    return {"few": recorded(tmp_path_factory.mktemp("few"), 2), "many": recorded(tmp_path_factory.mktemp("many"), MANY)}


def recorded(root, partitions):
    def rows(value, step):
        return b"".join(b"k%d,%d,%s\n" % (n, n, value) for n in range(0, partitions, step))

    read, master, feed = settings("table"), f"{root}/base", f"{root}/feed"
    put(f"{master}/base_1.txt", rows(b"x", 1))
    put(f"{feed}/ups_2.txt", rows(b"y", 2))
    if partitions == MANY:
        local_engine.mutate(read, master=master, feed=[feed], output=f"{root}/managed")
        master, feed = f"{root}/managed", f"{root}/more"
        put(f"{feed}/ups_3.txt", rows(b"z", 2))
    disk, recorder = disk_of(root), Recorder(root)
    with pytest.MonkeyPatch.context() as patch, recorder.recording(patch):
        report = local_engine.mutate(read, master=master, feed=[feed], output=f"{root}/out")
    assert report.carried == (MANY // 2 if partitions == MANY else 0)
    return disk, recorder.calls, contents(root / "out")


def violations(recording, states, *, without=None):
    """Crash at random instants; return the number of checked trees, and their faults."""
    start, calls, whole = recording
    disk, rng, seen, wrong, done = copy.deepcopy(start), random.Random(1), set(), [], 0
    ends = [len(calls)] * (states // 5)
    for instant in sorted([*(rng.randrange(len(calls) + 1) for _ in range(states)), *ends]):
        while done < instant:
            disk.apply(calls[done], without)
            done += 1
        found = disk.after_a_crash(rng)
        seen.add(frozenset(found))
        assert all(found[path] == (None if file is None else file.content) for path, file in start.names.items())
        output = {path.removeprefix("out/"): content for path, content in found.items() if is_seen(path, content)}
        there = "out" in found
        if (there and output != whole) or (not there and done == len(calls)):
            lost = sorted(set(whole) - set(output))
            wrong.append(f"after {calls[done - 1][:3] if done else 'nothing'}: {lost[:3]} of {len(lost)} is lost")
            if without:
                break
    return len(seen), wrong


def is_seen(path, content):
    """Return whether a file is visible: the hidden name under which it was written may come back."""
    return path.startswith("out/") and content is not None and not path.rpartition("/")[2].startswith(".")


@pytest.mark.parametrize("name", ["few", "many"])
def test_power_fails_at_any_instant(recordings, name):
    """The output is absent or whole, with carried files and filter packs; and once whole, it stays."""
    trees, wrong = violations(recordings[name], 300)

    assert wrong == []
    assert trees > 30


NEEDED = [
    ("few", "create_new, file"),
    ("few", "create_new, directory"),
    ("few", "make_directory, directory"),
    ("few", "rename_new, directory"),
    ("many", "rename_new, directory"),
    ("many", "sync_all, _staged"),
]


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize(("name", "site"), NEEDED)
def test_each_fsync_is_needed(recordings, name, site):
    """Without this fsync, some state loses data."""
    assert site in {call[2] for call in recordings[name][1] if call[0] in ("fsync", "sync_all")}
    assert violations(recordings[name], 1500, without=site)[1] != []


def test_list_of_fsyncs_is_complete(recordings):
    """Every new fsync must be in the list, and so in the test above."""
    calls = [call for _, calls, _ in recordings.values() for call in calls if call[0] in ("fsync", "sync_all")]
    assert {call[2] for call in calls} == {site for _, site in NEEDED}


# --- S3 and HDFS


def storage_of(storage_type, request):
    """Return an empty directory."""
    if storage_type == "s3":
        return request.getfixturevalue("s3").bucket() + "/lake"
    path = f"{request.getfixturevalue('hdfs')}/{uuid.uuid4().hex}"
    storage_for(path).make_directory(path)
    return path


@pytest.fixture(params=["s3", pytest.param("hdfs", marks=pytest.mark.soak)])
def remote(request):
    return storage_of(request.param, request)


@pytest.mark.thorough(keep=0, rest=1)
@every_scope
def test_runs_on_a_storage_without_links(remote, tmp_path, monkeypatch, scope):
    """The result is the same as on a disk; the files of untouched partitions are copied."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    new_place(remote, scope)
    local = new_place(tmp_path, scope)
    report = local_engine.mutate(**call_of(remote, scope, f"{remote}/out"))
    local_engine.mutate(**call_of(local, scope, tmp_path / "out"))

    made = check_whole(f"{remote}/out", expected(scope))
    assert comparable(f"{remote}/out") == comparable(tmp_path / "out")
    assert report.carried == len(QUIET)
    before = {part.path for part in read_manifest(storage_for(remote), f"{remote}/managed").parts()}
    kept = before & {part.path for part in made.parts()}
    assert {path for path in kept if path.startswith(QUIET)} == {path for path in before if path.startswith(QUIET)}
    assert sorted(entry.name for entry in entries_of(remote)) == ["base", "feed", "first", "managed", "out"]
    assert storage_for(remote).unfinished(remote) == []


@pytest.mark.thorough(keep=0, rest=1)
@every_scope
def test_workflow_on_a_storage_without_links(remote, scope):
    base = f"{remote}/base"
    put_files(f"{base}/master", ["base_1.txt"])
    put_files(f"{base}/incr", FIRST)
    workflow(base, scope)
    put_files(f"{base}/incr", FEED)
    workflow(base, scope)

    status = settled(base, scope)
    assert (status.problems, status.target.version.number) == ((), 2)
    check_whole(status.target.master, expected(scope))


# --- with Spark


@pytest.mark.soak
@pytest.mark.parametrize("storage_type", ["s3", "hdfs"])
def test_commands_on_a_storage_without_links(storage_type, request, tmp_path):
    """Runs, verify and the workflow, as a user starts them; a second run touches one of three partitions."""
    place = storage_of(storage_type, request)
    put(f"{place}/base/base_1.txt", b"".join(b"k%d,%s,x\n" % (n, b"abc"[n % 3 : n % 3 + 1]) for n in range(30)))
    put(f"{place}/first/ups_2.txt", b"k0,a,y\nk1,b,y\nk2,c,y\n")
    put(f"{place}/second/ups_3.txt", b"k0,a,z\nk3,a,z\n")
    put(f"{place}/lake/master/base_1.txt", b"k0,a,x\nk1,b,x\nk2,c,x\n")
    put(f"{place}/lake/incr/ups_2.txt", b"k0,a,y\n")
    written = tmp_path / "run.properties"
    written.write_text("".join(f"{key}={value}\n" for key, value in settings("table").items()))
    config = ["--config", str(written)]
    one = ["run", *config, "--master", f"{place}/base", "--feed", f"{place}/first", "--output", f"{place}/one"]
    two = ["run", *config, "--master", f"{place}/one", "--feed", f"{place}/second", "--output", f"{place}/two"]
    lake = ["workflow", "run", f"{place}/lake", *config, "-D", "claim.min.age=0s"]
    answers = run([one, [*two, "--json"], ["verify", f"{place}/two"], lake, ["verify", f"{place}/lake"]])

    assert [code for code, _ in answers] == [0] * 5, answers
    said_of = json.loads(answers[1][1][answers[1][1].index("{") :])
    assert said_of["carried"] == 2
    assert [row["partition"] for row in said_of["partitions"]] == ["p=a"]
    rows = [f"k{n},{'abc'[n % 3]},{'z' if n in (0, 3) else 'y' if n < 3 else 'x'}" for n in range(30)]
    check_whole(f"{place}/two", sorted(rows))
