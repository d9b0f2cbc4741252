"""Feed files that change while a run has claimed them, and files whose age cannot be trusted."""

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mutator import config as configuration
from mutator.pipeline.verify import Verification
from mutator.workflow import directory
from mutator.workflow.directory import master_target, run_phases
from mutator.workflow.directory.verification import verify_base
from tests.support import local_engine
from tests.support.child_process import in_child
from tests.support.master_base import run_workflow
from tests.support.workflow_base import BY_FIELD, Place, refused

arrivals_module = sys.modules["mutator.workflow.directory.arrivals"]


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "base", BY_FIELD)
    (place.path / "master" / "base.txt").write_text("a,1\nb,1\nc,1\nd,1\n")
    place.arrive("ups_2.txt", "a,2,U")
    place.arrive("ups_3.txt", "b,3,U")
    return place


def rewrite(path, text, *, keep_times=False):
    """Write other content of the same size into a file, in place."""
    status = os.stat(path)
    with open(path, "r+") as stream:
        stream.write(text)
    assert os.stat(path).st_size == status.st_size
    if keep_times:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def run_with(place, merge, **more):
    config = configuration.parse(place.settings | more)
    return run_workflow(str(place.path), config, merge, sleep=lambda _: None)


def merge_of(place):
    return directory.merge_by(configuration.parse(place.settings), local_engine.merge)


@pytest.mark.parametrize("keep_times", [False, True], ids=["new time", "old time"])
def test_file_rewritten_at_the_same_size_after_its_merge_stops_the_run(place, keep_times):
    """Otherwise the archive would have other content than the master."""

    def then_rewrite(task):
        made = merge_of(place)(task)
        rewrite(Path(task.feed[0]) / "ups_2.txt", "a,9,U\n", keep_times=keep_times)
        return made

    refused(
        lambda: run_with(place, then_rewrite), 3, f"{place.path}/incr/ups_2.txt: was rewritten after a run had claimed"
    )
    assert place.names("incr") == ["ups_2.txt", "ups_3.txt"]
    assert place.run().version == 1
    assert place.rows() == ["a,9", "b,3", "c,1", "d,1"]


def test_file_that_was_only_linked_or_touched_by_a_backup_does_not_stop_the_run(place, tmp_path):
    def then_link(task):
        made = merge_of(place)(task)
        os.link(Path(task.feed[0]) / "ups_2.txt", tmp_path / "copy.txt")
        return made

    done = run_with(place, then_link)
    assert (done.version, done.rewritten) == (1, ())


def problems_of(place):
    """Return the differences of a base from its log, without those of rows."""
    nothing = Verification(path="", files=0, rows=0, tombstones=0, bytes=0, differences=())
    return verify_base(str(place.path), lambda _: nothing).problems


def rewriting_at(point, text="a,9,U\n"):
    """Return a failpoint that rewrites the file in working/ when a run passes a point."""

    def act(name):
        if name == point:
            (path,) = act.base.glob("working/*/ups_2.txt")
            rewrite(path, text, keep_times=True)

    return act


@pytest.mark.parametrize("control", ["", ".ctl"])
def test_file_rewritten_after_the_commit_goes_back_and_is_merged_by_the_next_run(place, monkeypatch, control):
    """So does its control file, without which the next run would wait for it."""
    if control:
        place.settings = place.settings | {"feed.control.suffix": control}
        for name in ("ups_2.txt", "ups_3.txt"):
            place.arrive(name + control, "1")
    act = rewriting_at("commit.done")
    act.base = place.path
    monkeypatch.setattr(master_target, "failpoint", act)
    first = place.run()
    monkeypatch.undo()

    assert (first.version, first.rewritten) == (1, ("ups_2.txt",))
    assert first.warnings == ("ups_2.txt was rewritten after version 1 had its content, and is back in incr/",)
    assert place.rows() == ["a,2", "b,3", "c,1", "d,1"]
    controls = [f"ups_3.txt{control}"] * bool(control), [f"ups_2.txt{control}"] * bool(control)
    assert place.names(f"archive/{first.run}") == ["_rewritten.json", "ups_3.txt", *controls[0]]
    assert place.names("incr") == ["ups_2.txt", *controls[1]]
    assert problems_of(place) == (), "the file went back by design, and is no damage"
    assert place.run().version == 2
    assert place.rows()[0] == "a,9"
    assert problems_of(place) == ()

    (place.path / "archive" / first.run / "_rewritten.json").write_text("{")
    assert problems_of(place) == (f"{place.path}/archive/{first.run}/ups_2.txt: is missing",)


@pytest.mark.processes
@pytest.mark.parametrize("content", ["as merged before", "another"])
def test_kill_before_a_file_that_the_given_master_contains_is_archived(place, tmp_path, content):
    """The log knows nothing of it; the master's manifest does."""
    place.run()
    other = Place(tmp_path / "other", BY_FIELD)
    shutil.rmtree(other.path / "master")
    shutil.copytree(place.path / "master", other.path / "master")
    other.arrive("ups_2.txt", "a,2,U")
    other.arrive("ups_4.txt", "c,4,U")
    assert in_child(other.run, "commit.done")[0] == signal.SIGKILL
    if content == "another":
        rewrite(next(other.path.glob("working/*/ups_2.txt")), "a,9,U\n")
    actions = other.status().recovered

    assert other.names("incr") == ([] if content == "as merged before" else ["ups_2.txt"])
    assert any("rewritten" in action for action in actions) == (content == "another")
    assert problems_of(other) == ()


def test_kill_before_a_rewritten_file_goes_back(place, monkeypatch):
    act = rewriting_at("commit.done")
    act.base = place.path
    monkeypatch.setattr(master_target, "failpoint", act)
    assert in_child(place.run, "archive.rewritten")[0] == signal.SIGKILL
    monkeypatch.undo()

    assert "ups_2.txt was rewritten after it was merged" in place.status().recovered[0]
    assert place.names("incr") == ["ups_2.txt"]
    assert problems_of(place) == ()
    assert place.run().version == 2
    assert place.rows()[0] == "a,9"


def test_recovery_compares_the_content_of_a_committed_run_before_it_archives(place):
    """The process that knew when the files were written is gone."""
    assert in_child(place.run, "commit.done")[0]
    (claimed,) = (place.path / "working").glob("*/ups_2.txt")
    rewrite(claimed, "a,9,U\n", keep_times=True)

    action = place.status().recovered[1]
    assert "ups_3.txt went to archive/; ups_2.txt was rewritten after it was merged, and went back to incr/" in action
    assert place.names("incr") == ["ups_2.txt"]
    assert place.rows() == ["a,2", "b,3", "c,1", "d,1"]
    assert place.run().version == 2
    assert place.rows()[0] == "a,9"


# --- the age of a file


def set_clock(monkeypatch, seconds):
    """Set this machine's clock back or forward; the files keep their times."""
    now = time.time
    monkeypatch.setattr(arrivals_module, "time", SimpleNamespace(time=lambda: now() + seconds))
    monkeypatch.setattr(run_phases.Run.__init__, "__defaults__", (lambda: now() + seconds,))


def test_file_from_the_future_is_claimed_once_it_has_stayed_unchanged(place, monkeypatch):
    """After a clock was set back, a file would otherwise wait until the clock has caught up."""
    place.settings = place.settings | {"claim.min.age": "60s"}
    set_clock(monkeypatch, -7200)
    first = place.run()
    assert first.version is None
    why = dict(first.waiting)["ups_2.txt"]
    assert why == dict(place.status().waiting)["ups_2.txt"]
    assert "has a time that is 7" in why
    assert "s ahead of this machine's clock" in why
    assert "claim.min.age (60 s)" in why

    set_clock(monkeypatch, -7170)
    assert place.run().version is None, "it has been seen for 30 s only"
    os.utime(place.path / "incr" / "ups_3.txt", (2e9, 2e9))
    rewrite(place.path / "incr" / "ups_3.txt", "b,4,U\n")
    os.utime(place.path / "incr" / "ups_3.txt", (2e9, 2e9))
    set_clock(monkeypatch, -7139)
    done = place.run()
    assert done.claimed == ("ups_2.txt",)
    assert "ahead of this machine's clock" in dict(done.waiting)["ups_3.txt"], "it was written to meanwhile"
    set_clock(monkeypatch, -7078)
    assert place.run().claimed == ("ups_3.txt",)
    assert place.rows() == ["a,2", "b,4", "c,1", "d,1"]
    assert place.run().version is None
    assert not (place.path / "_mutator" / "sightings.json").exists()


def test_run_waits_for_a_file_from_the_future(place):
    """A run that finds nothing else waits as for a file that is too young."""
    for name in ("ups_2.txt", "ups_3.txt"):
        os.utime(place.path / "incr" / name, (2e9, 2e9))
    config = configuration.parse(place.settings | {"claim.min.age": "1s"})
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        time.sleep(seconds)

    done = run_workflow(str(place.path), config, merge_of(place), sleep=sleep)
    assert done.claimed == ("ups_2.txt", "ups_3.txt")
    assert slept[0] == pytest.approx(1.01)


def test_damaged_sightings_are_forgotten(place):
    os.utime(place.path / "incr" / "ups_2.txt", (2e9, 2e9))
    place.settings = place.settings | {"claim.min.age": "1h"}
    place.run()
    (place.path / "_mutator" / "sightings.json").write_text("{")
    assert "ahead of" in dict(place.run().waiting)["ups_2.txt"]


@pytest.mark.parametrize("how", ["fails", "is killed"])
def test_file_that_went_back_is_as_old_as_before(place, how):
    """Otherwise a newer file overtakes it, and with late.files=fail the base is stuck."""
    old = time.time() - 600
    for name in ("ups_2.txt", "ups_3.txt"):
        os.utime(place.path / "incr" / name, (old, old))
    if how == "fails":
        with pytest.raises(ZeroDivisionError):
            run_with(place, lambda task: 1 / 0)
    else:
        in_child(place.run, "merge.done")

    done = place.run(claim_min_age="60s")
    assert done.claimed == ("ups_2.txt", "ups_3.txt")
