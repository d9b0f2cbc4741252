"""A kill or an exception at each failpoint of a run.

The promise (DESIGN 3.3 and 6): a kill at any instant leaves the whole output or none of it; the inputs stay as they
are; the next run needs no help.
"""

import signal

import pytest

from mutator.engine.blocks import block_steps as blocks
from mutator.engine.blocks import broadcast
from mutator.engine.blocks.merge_bucket import write_group
from mutator.engine.records import record_steps as records
from mutator.engine.records.write import write_bucket
from mutator.errors import StorageError, error
from tests.support import local_engine
from tests.support.child_process import in_child
from tests.support.failpoints import FAILPOINTS
from tests.support.faulty_runs import (  # noqa: F401  # fixtures
    QUIET_BUCKET,
    VISIBLE_FROM,
    call_of,
    check_next_run,
    check_whole,
    every_join,
    every_point,
    inputs_stay,
    new_places,
    quiet_files,
)


def kill(point, call):
    """Merge in a child process, which must die at a failpoint."""
    assert in_child(lambda: local_engine.mutate(**call), point)[0] == signal.SIGKILL, f"the run passed {point}"


@every_join
def test_each_run_uses_the_join_of_its_name(places, tmp_path, join):
    report = local_engine.mutate(**call_of(join, places, tmp_path / "out"))

    check_whole(tmp_path / "out")
    assert (report.engine, report.join) == ("records", "shuffle") if join == "records" else ("blocks", join)
    assert report.tasks >= 2
    pairs = quiet_files(places, tmp_path / "out")
    kinds = sorted("data" if path.suffix == ".txt" else path.parent.name for path, _ in pairs)
    assert kinds == ["data", "order", "tombstones"]
    shared = [twin.exists() and path.samefile(twin) for path, twin in pairs]
    assert shared == [join == "aligned"] * 3  # carried over, by a link


@pytest.mark.thorough(keep=4, rest=18)
@every_point
def test_kill_leaves_nothing_or_all_and_the_next_run_cleans_up(places, tmp_path, join, point):
    kill(point, call_of(join, places, tmp_path / "out"))

    check_next_run(join, places, tmp_path / "out", point)


@pytest.mark.thorough(keep=22)
@every_point
def test_exception_leaves_nothing_or_all_and_no_litter(places, tmp_path, join, point, monkeypatch):
    output = tmp_path / "out"
    monkeypatch.setenv("MUTATOR_FAILPOINT", f"{point}:raise")

    with pytest.raises((OSError, StorageError), match=f"failpoint {point}"):
        local_engine.mutate(**call_of(join, places, output))

    monkeypatch.delenv("MUTATOR_FAILPOINT")
    if FAILPOINTS.index(point) >= VISIBLE_FROM:
        assert list(tmp_path.iterdir()) == [output]
        check_whole(output)
    else:
        assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough(keep=0, rest=2)
@every_join
def test_kill_after_kill_leaves_no_more_than_one_staging_directory(places, tmp_path, join):
    """A run that always dies at the same point, for example on a full disk, must not fill the disk further."""
    for _ in range(3):
        kill("stage.success.written", call_of(join, places, tmp_path / "out"))
        assert len(list(tmp_path.iterdir())) == 1

    check_next_run(join, places, tmp_path / "out", "stage.success.written")


@pytest.mark.parametrize("links", [True, False], ids=["by link", "by copy"])
def test_second_attempt_of_a_task_that_carried_a_bucket_over(places, tmp_path, monkeypatch, links):
    """Carried files keep their names, so the second attempt finds those of the first."""
    if not links:
        monkeypatch.setattr("mutator.storage.local.LocalStorage.link_new", lambda *_: False)
    attempts = []

    def twice(plan, staging, group, attempt, elements):
        if group != QUIET_BUCKET:
            return write_group(plan, staging, group, attempt, elements)
        elements = list(elements)
        monkeypatch.setenv("MUTATOR_FAILPOINT", "task.carried:raise")
        for number in (0, 7):  # after the first of its files, and again after all of them
            try:
                attempts.append(write_group(plan, staging, group, number, elements))
            except OSError as fault:
                attempts.append(str(fault))
        monkeypatch.delenv("MUTATOR_FAILPOINT")
        return write_group(plan, staging, group, 8, elements)

    monkeypatch.setattr(blocks, "write_group", twice)
    local_engine.mutate(**call_of("aligned", places, tmp_path / "out"))

    check_whole(tmp_path / "out")
    assert attempts[0] == "failpoint task.carried"
    assert len(attempts[1].files) == 1
    assert [path.samefile(twin) for path, twin in quiet_files(places, tmp_path / "out")] == [links] * 3


@pytest.mark.parametrize("join", ["records", "aligned", "broadcast"])
def test_fault_of_writing_is_raised_so_that_another_attempt_is_made(places, tmp_path, join, monkeypatch):
    """Damage is permanent, but a full disk may be a problem of one machine, and only for a while."""
    raised = []

    def full(self, _):
        if "rejected" not in self.path:  # code outside the task
            raise error("storage", path=self.path, why="No space left on device")

    def watched(write, module, name):
        def watch(*arguments):
            try:
                return write(*arguments)
            except StorageError as fault:
                raised.append(fault)
                raise

        monkeypatch.setattr(module, name, watch)

    watched(write_bucket, records, "write_bucket")
    watched(write_group, blocks, "write_group")
    watched(broadcast.patch, broadcast, "patch")
    monkeypatch.setattr("mutator.dataset.commit.staging.StagedFile.write", full)

    with pytest.raises(StorageError, match="No space left on device"):
        local_engine.mutate(**call_of(join, places, tmp_path / "out"))

    assert len(raised) == 1
    assert list(tmp_path.iterdir()) == []
