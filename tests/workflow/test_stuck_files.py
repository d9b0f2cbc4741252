"""Feed files that cannot be moved, and a status that shows what it can see."""

import errno
import os

import pytest

from mutator.errors import MutatorError
from mutator.storage import local, local_directories
from mutator.storage.local import LocalStorage
from tests.support.workflow_base import BY_NAME, Place, refused

REFUSED = os.strerror(errno.EPERM)


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "base", BY_NAME)
    (place.path / "master" / "base_1.txt").write_text("a,1\nb,1\n")
    place.arrive("ups_2.txt", "a,2")
    place.arrive("ups_3.txt", "b,3")
    return place


@pytest.fixture
def immutable(monkeypatch):
    """Paths that the kernel refuses to rename, as if they were immutable."""
    paths: set[str] = set()
    rename = local_directories._renameat2

    def refuse(source, target, how):
        if not paths.isdisjoint((source, target)):
            raise OSError(errno.EPERM, REFUSED, target)
        return rename(source, target, how)

    monkeypatch.setattr(local_directories, "_renameat2", refuse)
    return paths


def test_file_that_cannot_be_moved_does_not_block_the_others(place, immutable):
    stuck = f"{place.path}/incr/ups_2.txt"
    immutable.add(stuck)
    first = place.run()

    assert first.claimed == ("ups_3.txt",)
    (waiting,) = first.waiting
    assert waiting[0] == "ups_2.txt"
    assert waiting[1].startswith("cannot be moved: Operation not permitted")
    assert first.warnings == (f"ups_2.txt is not merged: it {waiting[1]}",)
    status = place.status()
    assert "needs attention" in status.text()
    assert status.problems == (f"{stuck}: {waiting[1]}",)
    assert status.ready == ()

    refused(place.run, 4, f"{stuck}: Operation not permitted")  # nothing else is there
    immutable.clear()
    assert place.status().problems != (), "only a run finds out"
    assert place.run().claimed == ("ups_2.txt",)
    assert place.rows() == ["a,2", "b,3"]
    assert place.status().problems == ()


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"late.files": "fail"}, "late.files=fail"),
        ({"sync.mode": "full", "max.delete.fraction": "1"}, "sync.mode=full"),
        ({"write.operation": "insert_overwrite"}, "write.operation=insert_overwrite"),
    ],
)
def test_newer_files_wait_where_the_order_matters(place, immutable, settings, cause):
    place.settings = {name: value for name, value in place.settings.items() if name != "deleted.record.file.prefix"}
    place.settings = place.settings | settings
    if cause != "late.files=fail":
        (place.path / "incr" / "ups_3.txt").rename(place.path / "incr" / "more_2.txt")
    immutable.add(f"{place.path}/incr/ups_2.txt")
    names = place.names("incr")

    refused(place.run, 4, "incr/ups_2.txt: Operation not permitted", f"the other feed files wait for it ({cause})")
    assert place.names("incr") == names
    assert "incr/ups_2.txt: cannot be moved" in place.status().problems[0]


def test_control_file_and_marker_stay_with_a_file_that_cannot_be_moved(place, immutable):
    place.settings = place.settings | {"claim.ready.suffix": ".ready", "feed.control.suffix": ".ctl"}
    for name in ("ups_2.txt", "ups_3.txt"):
        place.arrive(f"{name}.ctl", "rows=1")
        place.arrive(f"{name}.ready")
    immutable.add(f"{place.path}/incr/ups_2.txt")

    assert place.run().claimed == ("ups_3.txt",)
    assert place.names("incr") == ["ups_2.txt", "ups_2.txt.ctl", "ups_2.txt.ready"]


def test_incr_on_another_mount_is_named_as_the_cause(place, monkeypatch):
    def other_mount(source, target, how):
        if "/incr/" in source:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), target)
        return rename(source, target, how)

    rename = local_directories._renameat2
    monkeypatch.setattr(local_directories, "_renameat2", other_mount)
    refused(place.run, 4, f"{place.path}/incr/ups_2.txt: is on another file system or mount than", "part of one mount")


# --- status


def fail(monkeypatch, method, path, code):
    """Let a method of the storage fail for a path and those below it."""
    real = getattr(LocalStorage, method)

    def act(self, where, *more, **options):
        if str(where).startswith(str(path)):
            raise local._storage_error(where, OSError(code, os.strerror(code)))
        return real(self, where, *more, **options)

    monkeypatch.setattr(LocalStorage, method, act)


def test_status_on_a_full_disk_shows_the_rest(place, monkeypatch):
    place.run()
    place.arrive("ups_4.txt", "a,4")
    fail(monkeypatch, "create_new", place.path / "_mutator" / "lock", errno.ENOSPC)
    status = place.status()

    assert status.target.version.number == 1
    assert status.ready == ("ups_4.txt",)
    (problem,) = status.problems
    assert problem.startswith("nothing was recovered, because the lock cannot be taken: ")
    assert "No space left on device" in problem
    assert "state    needs attention, see below" in status.text()


def test_status_shows_what_stopped_the_recovery(place, monkeypatch):
    place.run()
    (place.path / "working" / "20261122T111111Z-11111111").mkdir()
    (place.path / "working" / "20261122T111111Z-11111111" / "ups_9.txt").write_text("a,9\n")
    place.arrive("ups_4.txt", "a,4")
    fail(monkeypatch, "rename_new", place.path / "working", errno.EPERM)
    status = place.status()

    assert status.target.version.number == 1
    assert status.ready == ("ups_4.txt",)
    assert any("the recovery stopped" in problem and REFUSED in problem for problem in status.problems)
    with pytest.raises(MutatorError, match=REFUSED):
        place.run()


@pytest.mark.parametrize(
    ("directory", "seen"),
    [
        ("incr", "feed     cannot be seen, see below"),
        ("_mutator/log", "version  cannot be seen, see below"),
        ("output", "feed     1 file ready, 0 waiting"),
        ("backup", "feed     1 file ready, 0 waiting"),
    ],
)
def test_status_says_which_directory_it_cannot_see(place, monkeypatch, directory, seen):
    place.run()
    place.arrive("ups_4.txt", "a,4")
    fail(monkeypatch, "entries", place.path / directory, errno.EACCES)
    status = place.status()

    assert seen in status.text()
    assert any(f"{place.path}/{directory}" in problem and "Permission denied" in problem for problem in status.problems)
    assert status.json()


@pytest.mark.parametrize("command", ["run", "restore"])
def test_version_that_cannot_become_the_master_belongs_to_the_base(place, immutable, command):
    versions = 1
    if command == "restore":
        place.run()
        place.arrive("ups_4.txt", "a,4")
        place.run()
        versions = 3
    immutable.add(f"{place.path}/master")
    act = place.run if command == "run" else lambda: place.restore(1)
    refused(act, 4, f"version {versions} is committed, but moving everything into place failed")
    (problem,) = place.status().problems
    assert problem.startswith("the recovery stopped: ")
    assert list((place.path / "output").iterdir()) != []

    immutable.clear()
    assert place.status().problems == ()
    assert place.rows() == ["a,2", "b,3"]
