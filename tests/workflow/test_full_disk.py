"""A disk that fills up: a failed run leaves neither doubt nor litter; a recovery makes room before it needs some."""

import errno
import os
import signal
from contextlib import contextmanager

import pytest

from mutator.dataset.version_log import Log
from mutator.storage.local import LocalStorage
from mutator.workflow.directory import master_target
from tests.support.child_process import in_child
from tests.support.workflow_base import BY_NAME, Place, refused

FEED = [f"k{number},{number}" for number in range(3000)]


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "base", BY_NAME)
    (place.path / "master" / "base_1.txt").write_text("a,1\nb,1\n")
    place.arrive("ups_2.txt", *FEED)
    return place


@pytest.fixture
def disk(place, monkeypatch):
    """A disk whose size in bytes a test sets."""
    disk = Disk(place.path)
    create = LocalStorage.create_new

    @contextmanager
    def limited(storage, path, final=None):
        with create(storage, path, final) as stream:
            yield stream
            stream.flush()
            disk.check()

    monkeypatch.setattr(LocalStorage, "create_new", limited)
    return disk


class Disk:
    def __init__(self, root):
        self.root, self.size = root, 1 << 40

    def used(self):
        found = {}
        for directory, _, names in os.walk(self.root):
            for name in names:
                status = os.lstat(os.path.join(directory, name))
                found[status.st_ino] = status.st_size  # hard links take no space
        return sum(found.values())

    def check(self):
        if self.used() > self.size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill(self, left):
        self.size = self.used() + left


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_commit_that_the_disk_refuses_is_known_to_have_failed(place, monkeypatch, code):
    """Reading back tells that the version does not exist, so its output is removed at once."""
    link = os.link

    def refuse(source, target, **more):
        if "/_mutator/log/" in target:
            raise OSError(code, os.strerror(code))
        link(source, target, **more)

    monkeypatch.setattr(os, "link", refuse)
    refused(place.run, 4, f"{place.path}/_mutator/log/", os.strerror(code))

    assert place.names("incr") == ["ups_2.txt"]
    assert list((place.path / "output").iterdir()) == list((place.path / "working").iterdir()) == []
    assert Log(str(place.path)).all() == []
    monkeypatch.undo()
    assert place.status().recovered == ()
    assert place.run().version == 1


def test_commit_with_an_uncertain_answer_removes_nothing(place, monkeypatch):
    link = os.link

    def lose(source, target, **more):
        if "/_mutator/log/" in target:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        link(source, target, **more)

    monkeypatch.setattr(os, "link", lose)
    refused(place.run, 4, "it is not known whether version 1 was committed")
    assert len(list((place.path / "output").iterdir())) == 1


def test_disk_that_is_full_at_the_commit(place, disk, monkeypatch):
    monkeypatch.setattr(master_target, "failpoint", lambda name: name == "commit.begin" and disk.fill(10))
    refused(place.run, 4, "No space left on device; free some space")
    monkeypatch.setattr(master_target, "failpoint", lambda name: None)

    assert list((place.path / "output").iterdir()) == []
    assert place.status().recovered == ()
    disk.size += 5000  # less than the output
    assert place.run().version == 1


@pytest.mark.parametrize("point", ["commit.begin", "stage.manifest.written"])
def test_recovery_removes_the_output_of_a_dead_run_before_it_needs_space(place, disk, point):
    """Otherwise it cannot even create its lock, and the dead run keeps the space for ever."""
    assert in_child(place.run, point)[0] == signal.SIGKILL
    assert len(list((place.path / "output").iterdir())) == 1
    disk.fill(0)

    assert "was not committed, and is undone: ups_2.txt went back to incr/" in place.status().recovered[0]
    assert list((place.path / "output").iterdir()) == []
    disk.size += 5000  # less than the output
    assert place.run().version == 2
    assert len(place.rows()) == len(FEED) + 2


def test_output_of_a_run_that_may_be_alive_is_not_removed(place, disk, monkeypatch):
    """A process on another machine, or one that is only paused, may commit."""
    assert in_child(place.run, "commit.begin")[0] == signal.SIGKILL
    monkeypatch.setattr("mutator.dataset.commit.process.Owner.has_ended", lambda owner: owner.run == "run")
    disk.fill(0)

    assert "No space left on device" in place.status().problems[0]
    assert len(list((place.path / "output").iterdir())) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_file_that_was_claimed_without_being_durable_goes_back(place, monkeypatch, code):
    """It was moved, so it does not count as one that cannot be moved."""
    fsync = os.fsync

    def fail(handle):
        if "/working/" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(code, os.strerror(code))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fail)
    refused(place.run, 4, "may not be durable")
    assert place.names("incr") == ["ups_2.txt"]
    [problem] = place.status().problems  # and no file is stuck
    assert problem.startswith("the last run failed at ")

    monkeypatch.undo()
    assert place.run().claimed == ("ups_2.txt",)


@pytest.mark.parametrize("step", ["output", "backup"])
def test_another_process_hides_a_directory_first(place, monkeypatch, step):
    """As where two processes make room on a full disk, which they do without the lock."""
    if step == "output":
        assert in_child(place.run, "commit.begin")[0] == signal.SIGKILL
    else:
        for number in (2, 3, 4):
            place.arrive(f"ups_{number}.txt", f"a,{number}")
            place.run(backup_keep="2")
        place.arrive("ups_5.txt", "a,5")
    rename = LocalStorage.rename_new

    def lose(storage, source, target):
        if "/.removing-" in target and "/other-" not in target:
            rename(storage, source, target.replace("/.removing-", "/.removing-other-"))
        rename(storage, source, target)

    monkeypatch.setattr(LocalStorage, "rename_new", lose)
    if step == "backup":
        assert place.run(backup_keep="2").version == 4
    status = place.status()

    assert status.problems == ()
    assert list((place.path / "output").iterdir()) == []
    assert len(list((place.path / "backup").iterdir())) == (2 if step == "backup" else 0)
