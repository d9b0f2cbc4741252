"""publish() on a real S3 server and a real HDFS: all or nothing, no litter, no open uploads, one writer at a time."""

import multiprocessing
import os
import signal
import uuid
from dataclasses import replace

import pytest

from mutator.dataset import manifest
from mutator.dataset.checksum import whole
from mutator.dataset.commit.process import Owner
from mutator.dataset.commit.publish import check_output, publish
from mutator.dataset.commit.staging import SUCCESS, announcements, published
from mutator.dataset.commits import RUN, Commit
from mutator.dataset.directory import is_straggler
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import State
from mutator.errors import MutatorError, error, failpoints
from mutator.storage import entries_of, storage_for
from tests.support.plain_workflow import put, read

LARGE = b"0123456789abcdef" * (20 << 16)  # in parts, where the storage uploads files in parts
FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["tests.dataset.test_publish_remote"])
# The failpoints in the order in which a run passes them, on S3 and on HDFS.
POINTS = {
    "s3": [
        "stage.announced",
        "stage.swept",
        "stage.created",
        "storage.written:2",
        "stage.merged",
        "stage.verified",
        "stage.litter.removed",
        "stage.success.written",
        "stage.copy.written",
        "stage.manifest.written",
        "publish.done",
    ],
    "hdfs": [
        "storage.written:1",
        "stage.announced",
        "stage.swept",
        "stage.created",
        "storage.written:2",
        "stage.merged",
        "stage.verified",
        "stage.files.moved",
        "stage.litter.removed",
        "stage.copy.written",
        "stage.manifest.written",
        "stage.success.written",
        "publish.renamed",
        "publish.done",
    ],
}
EACH = [(storage_type, point) for storage_type, points in POINTS.items() for point in points]


@pytest.fixture
def lake(request):
    """Return a function that creates an empty directory on a storage."""

    def make(storage_type):
        if storage_type == "s3":
            return request.getfixturevalue("s3").bucket() + "/lake"
        path = f"{request.getfixturevalue('hdfs')}/{uuid.uuid4().hex}"
        storage_for(path).make_directory(path)
        return path

    return make


@pytest.fixture(params=["s3", "hdfs"])
def root(request, lake):
    return lake(request.param)


def made(run, commit="c", content=LARGE):
    name = f"part-00000-{run}.txt"
    file = FileEntry(path=name, bucket=None, rows=1, bytes=len(content), checksum=whole(content))
    return State(
        commit=Commit(number=0, id=commit, action=RUN, run=run, committed="2026-01-01T00:00:00.000+00:00"),
        spec={},
        files=(file,),
        copy=manifest.copy_path(run),
    )


def merge_of(run, commit="c"):
    def merge(staging):
        found = made(run, commit)
        put(f"{staging}/{found.files[0].path}", LARGE)
        put(f"{staging}/part-00007-{run}-1.txt", b"of an attempt that does not count")
        return found

    return merge


def run_id(number):
    return f"20261121T00000{number}Z-0123456{number}"


def publish_in_child(output, number, environment):
    os.environ.update(environment)
    publish(output, run_id(number), merge_of(run_id(number)))


def names(path):
    return [entry.name for entry in entries_of(path)]


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize(("storage_type", "point"), EACH)
def test_killed_run_leaves_the_output_whole_or_litter_that_the_next_one_removes(lake, request, storage_type, point):
    root = lake(storage_type)
    output, storage = f"{root}/out", storage_for(root)
    environment = dict(os.environ) | {failpoints.VARIABLE: point}
    process = FRESH.Process(target=publish_in_child, args=(output, 1, environment))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    done = (
        point
        in POINTS[storage_type][
            POINTS[storage_type].index("publish.renamed" if storage_type == "hdfs" else "stage.manifest.written") :
        ]
    )
    if done:
        with pytest.raises(MutatorError, match="already exists"):
            publish(output, run_id(2), merge_of(run_id(2)))
        expected = 1
    else:
        assert storage_type == "s3" or storage.stat(output) is None  # nothing is visible
        litter = publish(output, run_id(2), merge_of(run_id(2))).litter
        assert len(litter) == (
            point not in ("storage.written:1", "stage.announced", "stage.swept", "stage.created")
            or (storage_type == "hdfs" and point == "stage.created")
        )
        expected = 2
    assert published(storage, output).commit.run == run_id(expected)
    found = made(run_id(expected))
    assert sorted(names(output)) == sorted(["_mutator", SUCCESS, found.files[0].path])
    assert read(f"{output}/{found.files[0].path}") == LARGE
    assert storage.unfinished(root) == []
    if not done:
        # For an hour, a half-written announcement may belong to a run that is alive.
        assert [name for name in names(root) if not name.startswith("..out.mutator-")] == ["out"]


@pytest.mark.rest
def test_merge_that_raises_leaves_nothing(root):
    def fails(staging):
        merge_of(run_id(1))(staging)
        raise KeyError("no")

    with pytest.raises(KeyError):
        publish(f"{root}/out", run_id(1), fails)
    assert names(root) == []
    publish(f"{root}/out", run_id(2), merge_of(run_id(2)))
    assert names(root) == ["out"]


def test_second_run_is_refused_while_one_is_alive(root):
    refused = []

    def slow(staging):
        with pytest.raises(MutatorError, match="another run is writing this output now") as caught:
            publish(f"{root}/out", run_id(2), merge_of(run_id(2)))
        refused.append(caught.value.exit_code)
        return merge_of(run_id(1))(staging)

    publish(f"{root}/out", run_id(1), slow)
    assert refused == [5]
    assert published(storage_for(root), f"{root}/out").commit.run == run_id(1)
    assert names(root) == ["out"]


def test_run_on_another_machine_never_counts_as_dead(root, monkeypatch):
    output = f"{root}/out"

    def stuck(staging):
        merge_of(run_id(1))(staging)
        raise SystemExit  # and cannot clean up

    with monkeypatch.context() as patch:
        patch.setattr("mutator.dataset.commit.staging._end", lambda *_: None)
        with pytest.raises(SystemExit):
            publish(output, run_id(1), stuck)
    (announced,) = announcements(output)
    written = Owner.parse(read(announced))
    storage_for(root).replace(announced, replace(written, host="another").dump())
    with pytest.raises(MutatorError, match=announced):
        publish(output, run_id(2), merge_of(run_id(2)))
    storage_for(root).remove(announced)  # as the message suggests
    if storage_for(root).renames:
        publish(output, run_id(2), merge_of(run_id(2)))
    else:  # the announcement no longer identifies its run
        with pytest.raises(MutatorError, match="already exists"):
            publish(output, run_id(2), merge_of(run_id(2)))


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("how", ["lost", "theirs", "refused"])
def test_answer_to_the_commit(lake, monkeypatch, how):
    """Its own commit is recognised, another's is a conflict; while that is uncertain, nothing is removed."""
    root = lake("s3")
    output, storage = f"{root}/out", storage_for(root)
    create = type(storage).create_new

    def create_new(self, path, final=None):
        if path.endswith(manifest.PATH):
            if how != "refused":
                found = made(run_id(1), "c" if how == "lost" else "another")
                with create(self, path) as stream:
                    stream.write(manifest.dump(found))
            raise error("storage", path=path, why="timeout")
        return create(self, path, final)

    monkeypatch.setattr(type(storage), "create_new", create_new)
    if how == "lost":
        assert publish(output, run_id(1), merge_of(run_id(1))).made.commit.id == "c"
        return
    with pytest.raises(MutatorError) as caught:
        publish(output, run_id(1), merge_of(run_id(1)))
    assert caught.value.kind == ("output.exists" if how == "theirs" else "publish.uncertain")
    assert f"part-00000-{run_id(1)}.txt" in names(output)  # the other run's manifest may name this file
    if how == "refused":
        check_output(output)  # the next run may try again
    assert len(announcements(output)) == (how == "refused")


def test_file_of_a_task_that_ended_after_its_run_is_not_in_the_output(lake):
    root = lake("s3")
    publish(f"{root}/out", run_id(1), merge_of(run_id(1)))
    put(f"{root}/out/part-00003-{run_id(1)}-2.txt", b"late")
    storage = storage_for(root)
    strange = [name for name in names(f"{root}/out") if not is_straggler(storage, name)]
    assert strange == [SUCCESS, "_mutator"]
    assert not is_straggler(storage, "part-00000.txt")
    assert not is_straggler(storage_for("/"), f"part-00003-{run_id(1)}-2.txt")
