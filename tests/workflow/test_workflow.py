"""The workflow with real merges (Spark only for the commands at the end): the behaviour that an operator relies on."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mutator import config as configuration
from mutator.cli import main
from mutator.dataset.version_log import Log
from mutator.errors import StateError
from mutator.errors.interrupts import catch_signals
from mutator.workflow import directory
from mutator.workflow.directory import commands, master_target, run_phases
from mutator.workflow.directory.verification import verify_base
from tests.support import local_engine
from tests.support.cluster import ROOT, SAMPLE, environment, merged_sample, rows, submit
from tests.support.effort import share
from tests.support.master_base import run_workflow, status_of
from tests.support.patience import PATIENCE
from tests.support.workflow_base import BY_FIELD, BY_NAME, Place, refused


@pytest.fixture
def by_name(tmp_path):
    place = Place(tmp_path / "base", BY_NAME)
    (place.path / "master" / "base_1.txt").write_text("a,1\nb,1\nc,1\nd,1\n")
    return place


@pytest.fixture
def by_field(tmp_path):
    place = Place(tmp_path / "base", BY_FIELD)
    (place.path / "master" / "base.txt").write_text("a,1\nb,1\nc,1\nd,1\n")
    return place


# --- one run after the other


def test_runs_merge_arriving_files_and_archive_them(by_name):
    by_name.arrive("ups_2.txt", "a,2", "e,2")
    by_name.arrive("del_3.txt", "b,x")
    first = by_name.run()

    assert (first.version, first.mode) == (1, "exchange")
    assert by_name.rows() == ["a,2", "c,1", "d,1", "e,2"]
    assert by_name.names("backup/0") == ["base_1.txt"]
    assert by_name.names(f"archive/{first.run}") == ["del_3.txt", "ups_2.txt"]
    assert by_name.names("incr") == by_name.names("working") == by_name.names("output") == []
    by_name.arrive("ups_4.txt", "b,4")
    assert by_name.run().version == 2
    assert by_name.rows() == ["a,2", "b,4", "c,1", "d,1", "e,2"]
    assert by_name.names("backup/1") == sorted([*by_name.names("backup/1")])
    assert by_name.rows("backup/1") == ["a,2", "c,1", "d,1", "e,2"]


def test_report_has_the_paths_after_the_run(by_field):
    by_field.arrive("ups_2.txt", "a,2,U", "b,x,U")
    done = by_field.run(reject_policy="quarantine")

    archive = f"{by_field.path}/archive/{done.run}"
    assert done.report.feed == (archive,)
    assert done.report.rejects["feed"][0]["path"] == f"{archive}/ups_2.txt"


def test_nothing_to_merge_changes_nothing(by_name):
    by_name.arrive("ups_2.txt", "a,2")
    by_name.run()
    done = by_name.run()

    assert (done.version, done.claimed) == (None, ())
    assert done.text() == "nothing to merge"
    assert len(Log(str(by_name.path)).all()) == 1


def test_first_run_may_have_no_master(tmp_path):
    place = Place(tmp_path / "base", BY_NAME)
    place.arrive("ups_2.txt", "a,2")
    refused(place.run, 2, f"{place.path}/master: the master has no data files", "allow.empty.master=true")
    assert place.names("incr") == ["ups_2.txt"]
    done = place.run(allow_empty_master="true")

    assert (done.version, done.mode) == (1, "rename")
    assert place.rows() == ["a,2"]


def test_feed_file_delivered_twice_is_skipped_and_archived(by_name):
    by_name.arrive("ups_2.txt", "a,2")
    by_name.run()
    by_name.arrive("ups_2.txt", "a,2")
    done = by_name.run()

    assert (done.version, done.skipped) == (None, ("ups_2.txt",))
    assert "1 feed file merged before" in done.text()
    assert by_name.names("incr") == []
    assert by_name.names(f"archive/{done.run}") == ["ups_2.txt"]
    by_name.arrive("ups_2.txt", "a,2")
    by_name.arrive("ups_3.txt", "a,3")
    assert by_name.run().skipped == ("ups_2.txt",)
    assert by_name.rows()[0] == "a,3"


@pytest.mark.parametrize(
    ("place", "more", "fails"),
    [
        ("by_name", {}, True),
        ("by_name", {"reused_names": "accept"}, False),
        ("by_field", {}, False),
        ("by_field", {"reused_names": "fail"}, True),
    ],
)
def test_name_that_comes_again_with_another_content(request, place, more, fails):
    place = request.getfixturevalue(place)
    place.arrive("ups_2.txt", "a,2,U")
    place.settings = place.settings | ({"field.count": "any"} if place.settings == BY_NAME else {})
    place.run(**more)
    place.arrive("ups_2.txt", "a,3,U", "b,3,U")
    if fails:
        refused(lambda: place.run(**more), 3, "ups_2.txt", "merged before with other content", "reused.names=accept")
        assert place.names("incr") == ["ups_2.txt"]
    else:
        assert place.run(**more).version == 2


def test_late_file_is_merged_record_by_record_and_reported(by_name):
    by_name.arrive("ups_5.txt", "a,5")
    by_name.arrive("del_6.txt", "b,x")
    by_name.run()
    by_name.arrive("ups_4.txt", "a,4", "b,4", "c,4")
    done = by_name.run()

    assert by_name.rows() == ["a,5", "c,4", "d,1"], "newer records and tombstones win over a late file"
    assert any(note.startswith("late: ups_4.txt") for note in done.report.notes)
    assert done.report.counts["feed late"] == 2
    by_name.arrive("ups_3.txt", "d,3")
    refused(by_name.run, 3, "ups_3.txt", "late.files=merge", late_files="fail")
    assert by_name.run().version == 3


def test_gaps_in_the_sequence(by_name):
    by_name.arrive("ups_2.txt", "a,2")
    by_name.run()
    by_name.arrive("ups_3.txt", "a,3")
    assert not [note for note in by_name.run().report.notes if note.startswith("gaps")]
    by_name.arrive("ups_5.txt", "a,5")
    refused(by_name.run, 3, "these sequences have not arrived: 4", sequence_gaps="fail")
    note = "gaps: these sequences have not arrived: 4; if none is missing, set sequence.gaps=ignore"
    assert note in by_name.run().report.notes
    by_name.arrive("ups_1700000000.txt", "a,6")
    assert not [note for note in by_name.run().report.notes if note.startswith("gaps")], "it is a clock, no counter"
    by_name.arrive("ups_1700000009.txt", "a,7")
    assert [note for note in by_name.run(sequence_gaps="report").report.notes if note.startswith("gaps")]


def test_sequence_of_the_master_itself_is_not_missing(by_name):
    """A master file s_5 has everything up to 5, in this run and in the next ones."""
    (by_name.path / "master" / "base_1.txt").rename(by_name.path / "master" / "base_5.txt")
    by_name.arrive("ups_4.txt", "a,4")
    by_name.arrive("ups_6.txt", "b,6")
    notes = by_name.run(sequence_gaps="fail").report.notes
    assert notes[:-1] == ("late: ups_4.txt: older than what was merged before (sequence 5)",)
    by_name.arrive("ups_8.txt", "b,8")
    refused(by_name.run, 3, "these sequences have not arrived: 7;", sequence_gaps="fail")


def test_sequence_of_the_master_is_not_missing_in_a_later_run(by_name):
    (by_name.path / "master" / "base_1.txt").rename(by_name.path / "master" / "base_5.txt")
    by_name.arrive("ups_3.txt", "a,3")
    refused(
        by_name.run, 3, "ups_3.txt: older than what was merged before (sequence 5), and late.files", late_files="fail"
    )
    by_name.run()
    by_name.arrive("ups_6.txt", "b,6")
    assert len(by_name.run(sequence_gaps="fail").report.notes) == 1


def test_run_that_fails_puts_its_feed_back_and_reports_why(by_name):
    by_name.arrive("ups_2.txt", "a,2", "broken")
    refused(by_name.run, 3, "1 feed row cannot be read", "ups_2.txt")

    assert by_name.names("incr") == ["ups_2.txt"]
    assert by_name.names("working") == by_name.names("output") == []
    assert by_name.names("master") == ["base_1.txt"]
    assert Log(str(by_name.path)).all() == []
    assert by_name.run(reject_policy="quarantine").version == 1


def test_run_that_would_delete_too_much_is_stopped(by_name):
    by_name.arrive("del_2.txt", "a,x", "b,x", "c,x")
    refused(by_name.run, 3, "max.delete.fraction")

    assert by_name.names("incr") == ["del_2.txt"]
    assert by_name.run(max_delete_fraction="1").version == 1


@pytest.mark.parametrize(
    ("noun", "settings"),
    [
        ("snapshot", {"sync.mode": "full", "max.delete.fraction": "1", "deleted.record.file.prefix": ""}),
        ("overwrite", {"write.operation": "insert_overwrite"}),
    ],
)
def test_snapshots_and_overwrites_are_merged_one_at_a_time_the_oldest_first(by_name, noun, settings):
    """One run over two overwrites would keep what the older one has and the newer one lacks."""
    by_name.settings = by_name.settings | settings
    by_name.arrive("ups_9.txt", "a,9")
    by_name.arrive("ups_8.txt", "a,8", "b,8")
    first = by_name.run()

    assert first.claimed == ("ups_8.txt",)
    assert dict(first.waiting) == {"ups_9.txt": f"waits until an older {noun} is merged"}
    assert by_name.rows() == ["a,8", "b,8"]
    assert by_name.run().version == 2
    assert by_name.rows() == ["a,9"]


def test_an_overwrite_that_arrives_again_is_merged_again(by_name):
    by_name.settings = by_name.settings | {"write.operation": "insert_overwrite_table"}
    by_name.arrive("ups_9.txt", "a,9", "b,9")
    assert by_name.run().version == 1
    by_name.arrive("ups_10.txt", "a,10")
    assert by_name.run().version == 2
    by_name.arrive("ups_9.txt", "a,9", "b,9")
    assert by_name.run().version == 3
    assert by_name.rows() == ["a,9", "b,9"]


def test_an_overwrite_without_rows_is_put_back(by_name):
    by_name.settings = by_name.settings | {"write.operation": "insert_overwrite_table"}
    by_name.arrive("ups_9.txt")
    refused(by_name.run, 3, "has no rows, so write.operation=insert_overwrite_table would delete every record")
    assert by_name.names("incr") == ["ups_9.txt"]
    assert by_name.run(allow_empty_feed="true").version == 1
    assert by_name.rows() == []


# --- files that have fully arrived


def test_incomplete_files_wait(by_name):
    for name in ("ups_2.txt.tmp", "ups_3.txt._COPYING_", ".ups_4.txt", "_ups_5.txt", "ups_6.txt.part"):
        by_name.arrive(name, "a,2")
    (by_name.path / "incr" / "directory").mkdir()
    (by_name.path / "incr" / "link.txt").symlink_to(by_name.path / "master" / "base_1.txt")
    os.mkfifo(by_name.path / "incr" / "fifo_7.txt")
    by_name.arrive("ups_8\n.txt", "a,2")
    done = by_name.run()

    assert done.version is None
    assert len(done.waiting) == 9
    why = dict(done.waiting)
    assert why["ups_2.txt.tmp"] == why["ups_3.txt._COPYING_"] == "has the name of an unfinished file"
    assert why["directory"] == "is a directory, and only regular files are claimed"
    assert why["link.txt"].startswith("is a symbolic link")
    assert why["fifo_7.txt"].startswith("is a FIFO")
    assert why["ups_8\n.txt"] == "has a control character in its name, which no report can show safely: rename it"
    shown = [line for line in done.text().split("\n") if line.startswith("not claimed: ")]
    assert sum("unfinished" in line or "hidden" in line for line in shown) == 1, "the others come first"
    assert any("ups_8" in line for line in shown)


def test_files_that_are_too_young_wait(by_name):
    by_name.arrive("ups_2.txt", "a,2")
    assert by_name.run(claim_min_age="1h").version is None
    assert "claim.min.age is 3600 s" in dict(by_name.status(claim_min_age="1h").waiting)["ups_2.txt"]
    assert by_name.run(claim_min_age="0s").version == 1


def test_run_waits_for_files_that_are_slightly_too_young(by_name):
    by_name.arrive("ups_2.txt", "a,2")
    config = configuration.parse(by_name.settings | {"claim.min.age": "5s"})
    path, slept = by_name.path / "incr" / "ups_2.txt", []

    def sleep(seconds):
        slept.append(seconds)
        assert seconds >= 5 - (time.time() - path.stat().st_mtime)
        os.utime(path, (time.time() - 10,) * 2)

    done = run_workflow(str(by_name.path), config, directory.merge_by(config, local_engine.merge), sleep=sleep)

    assert done.version == 1
    assert 0 < slept[0] < 5.1


def test_ready_marker_declares_a_file_complete(by_name):
    ready = {"claim.ready.suffix": ".ready", "claim.min.age": "1h", "bad.files": "fail"}
    by_name.settings = by_name.settings | ready
    by_name.arrive("ups_2.txt", "a,2")
    by_name.arrive("ups_3.txt.ready")
    waiting = dict(by_name.run().waiting)
    assert waiting == {
        "ups_2.txt": "has no ready marker ups_2.txt.ready",
        "ups_3.txt.ready": "is a ready marker without its file",
    }
    by_name.arrive("ups_2.txt.ready")
    by_name.arrive("ups_4.txt", "broken")
    by_name.arrive("ups_4.txt.ready")
    refused(by_name.run, 3, "cannot be read")
    assert by_name.names("incr") == ["ups_2.txt", "ups_2.txt.ready", "ups_3.txt.ready", "ups_4.txt", "ups_4.txt.ready"]
    (by_name.path / "incr" / "ups_4.txt.ready").unlink()
    assert by_name.run().claimed == ("ups_2.txt",)
    assert by_name.names("incr") == ["ups_3.txt.ready", "ups_4.txt"]


def test_file_of_the_same_name_that_arrives_during_a_run_that_fails(by_name):
    """The claimed file goes back beside it, and is merged first."""
    by_name.arrive("ups_2.txt", "a,2", "broken")
    config = configuration.parse(by_name.settings)
    merge = directory.merge_by(config, local_engine.merge)

    def while_it_runs(task):
        by_name.arrive("ups_2.txt", "a,newer")
        return merge(task)

    refused(lambda: run_workflow(str(by_name.path), config, while_it_runs), 3, "cannot be read")

    assert by_name.names("incr") == ["ups_2.txt", "ups_2.txt"]
    waiting = dict(by_name.status().waiting)
    assert waiting == {"ups_2.txt": "waits until a file of the same name, which came first, is merged"}
    first = by_name.run(reject_policy="quarantine")
    assert by_name.rows()[0] == "a,2"
    assert by_name.names(f"archive/{first.run}") == ["ups_2.txt"]
    assert by_name.run(reused_names="accept").version == 2
    assert by_name.rows()[0] == "a,newer"
    assert not list((by_name.path / "incr").iterdir())


def test_marker_moves_with_its_file(by_name):
    """Otherwise it would vouch for a newer file of this name, which is still being written."""
    by_name.settings = by_name.settings | {"claim.ready.suffix": ".ready"}
    by_name.arrive("ups_2.txt", "a,2", "broken")
    by_name.arrive("ups_2.txt.ready")
    config = configuration.parse(by_name.settings)
    merge = directory.merge_by(config, local_engine.merge)

    def while_it_runs(task):
        by_name.arrive("ups_2.txt", "half of a newer o")
        return merge(task)

    refused(lambda: run_workflow(str(by_name.path), config, while_it_runs), 3, "cannot be read")

    (aside,) = (path for path in (by_name.path / "incr").iterdir() if path.is_dir())
    assert sorted(path.name for path in aside.iterdir()) == ["ups_2.txt", "ups_2.txt.ready"]
    assert dict(by_name.status().waiting) == {"ups_2.txt": "has no ready marker ups_2.txt.ready"}
    assert by_name.run(reject_policy="quarantine").claimed == ("ups_2.txt",)
    assert by_name.rows()[0] == "a,2"
    assert by_name.names("incr") == ["ups_2.txt"]


def test_master_that_was_changed_can_be_adopted(by_name):
    by_name.arrive("ups_2.txt", "a,2")
    by_name.run()
    part = next((by_name.path / "master").glob("part-*"))
    part.chmod(0o644)
    with part.open("a") as stream:
        stream.write("z,by-hand\n")
    by_name.arrive("ups_3.txt", "b,3")
    refused(by_name.run, 5, "differs from its manifest")
    assert "master.adopt" not in by_name.status().problems[0], "the file may be damaged, so only the operator can know"

    assert by_name.run(master_adopt="true").version == 2
    assert "z,by-hand" in by_name.rows()
    assert "b,3" in by_name.rows()


@pytest.mark.parametrize("point", ["commit.done", "commit.begin"])
def test_signal_that_comes_too_late_is_reported_and_leaves_nothing(by_name, monkeypatch, point):
    def at(name):
        if name == point:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(master_target, "failpoint", at)
    by_name.arrive("ups_2.txt", "a,2")
    with catch_signals():
        done = by_name.run()

    assert (done.version, done.stopped) == (1, signal.SIGTERM)
    assert by_name.names(f"archive/{done.run}") == ["ups_2.txt"]
    assert by_name.status().recovered == ()


def test_signal_before_the_commit_stops_the_run(by_name, monkeypatch, capsys):
    monkeypatch.setattr(run_phases, "failpoint", lambda name: name == "merge.done" and signal.raise_signal(15))
    by_name.arrive("ups_2.txt", "a,2")
    with catch_signals(), pytest.raises(KeyboardInterrupt):
        by_name.run()

    assert by_name.names("incr") == ["ups_2.txt"]
    assert Log(str(by_name.path)).all() == []


def test_restore_that_is_stopped_too_late_reports_it(by_name, monkeypatch, capsys):
    for number in (2, 3):
        by_name.arrive(f"ups_{number}.txt", f"a,{number}")
        by_name.run()
    monkeypatch.setattr(
        commands, "failpoint", lambda name: name == "restore.committed" and signal.raise_signal(signal.SIGTERM)
    )

    assert main(["workflow", "restore", str(by_name.path), "--to", "1"]) == 0
    out, err = capsys.readouterr()
    assert "version 3 is version 1 again" in out
    assert "a signal came too late to stop this run: all of it is done" in err
    assert by_name.rows()[0] == "a,2"


def test_file_that_grows_after_its_claim_stops_the_run(by_name):
    by_name.arrive("ups_2.txt", "a,2")
    config = configuration.parse(by_name.settings)
    merge = directory.merge_by(config, local_engine.merge)

    def while_it_runs(task):
        made = merge(task)
        with (Path(task.feed[0]) / "ups_2.txt").open("a") as stream:  # its writer never closed it
            stream.write("b,2\n")
        return made

    refused(lambda: run_workflow(str(by_name.path), config, while_it_runs), 3, "changed while it was being read")
    assert by_name.names("incr") == ["ups_2.txt"]
    assert by_name.run().version == 1
    assert by_name.rows()[:2] == ["a,2", "b,2"]


# --- restore


def test_restore_brings_tombstones_sequences_horizon_and_feed_files_back(by_name):
    by_name.arrive("ups_5.txt", "a,5")
    by_name.arrive("del_6.txt", "b,x")
    by_name.run()
    by_name.arrive("ups_7.txt", "b,7", "a,7")
    by_name.run()
    assert by_name.rows() == ["a,7", "b,7", "c,1", "d,1"]
    assert by_name.restore(1).version == 3

    assert by_name.rows() == ["a,5", "c,1", "d,1"]
    by_name.arrive("ups_4.txt", "a,4", "b,4", "c,4")
    assert by_name.run().report.counts["feed late"] == 2, "an order value, or a tombstone, was forgotten"
    assert by_name.rows() == ["a,5", "c,4", "d,1"]
    by_name.arrive("del_6.txt", "b,x")
    assert by_name.run().skipped == ("del_6.txt",)
    by_name.arrive("ups_7.txt", "b,7", "a,7")
    by_name.run()
    assert by_name.rows() == ["a,7", "b,7", "c,4", "d,1"]


# --- damage


@pytest.mark.thorough(keep=0)
@pytest.mark.law
def test_verify_finds_every_flipped_bit_and_every_truncation(by_name, monkeypatch):
    """The test covers every role of file in a base: log entries, datasets, backups, archived feed files."""
    by_name.arrive("ups_5.txt", "a,5", "e,5")
    by_name.arrive("del_6.txt", "b,x")
    by_name.run()
    by_name.arrive("ups_7.txt", "b,7", "a,7", "broken")
    by_name.run(reject_policy="quarantine")

    def verified():
        return verify_base(str(by_name.path), local_engine.verify)

    assert verified().problems == ()
    assert (verified().versions, verified().feed_files, len(verified().datasets)) == (2, 3, 2)
    files = [
        path
        for folder in ("master", "backup/1", "archive", "_mutator/log")
        for path in sorted((by_name.path / folder).rglob("*"))
        if path.is_file() and path.stat().st_size
    ]
    assert len(files) > 12
    rng, found = random.Random(7), 0
    total = share(250)
    for number in range(total):
        path = files[number % len(files)]
        before = path.read_bytes()
        data = bytearray(before)
        if number % 5 == 4:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        inode_kept = path.open("r+b")  # in place: carried-over files are one file with two names
        with inode_kept as stream:
            stream.truncate()
            stream.write(data)
            stream.truncate()
        try:
            found += bool(verified().problems)
        except StateError:
            found += 1
        with path.open("r+b") as stream:
            stream.write(before)
            stream.truncate()
    assert found == total
    assert verified().problems == ()


# --- the commands


@pytest.fixture
def sample_base(sc, tmp_path):
    base = tmp_path / "base"
    for name in ("master", "incr"):
        (base / name).mkdir(parents=True)
    for path in (SAMPLE / "master").iterdir():
        shutil.copyfile(path, base / "master" / path.name)
    return base


def deliver(base):
    for path in (SAMPLE / "feed").iterdir():
        shutil.copyfile(path, base / "incr" / path.name)


def command(*words, config=SAMPLE / "bumu.properties"):
    return main(["workflow", *map(str, words), "--config", str(config), "-D", "claim.min.age=0s"])


def test_commands_of_an_operators_day(sample_base, capsys):
    base = sample_base
    assert command("status", base) == 0
    assert "none yet: the master is the given one" in capsys.readouterr().out
    assert command("run", base) == 0
    assert capsys.readouterr().out == "nothing to merge\n"
    deliver(base)
    assert command("status", base) == 0
    assert "2 files ready, 0 waiting" in capsys.readouterr().out
    assert command("run", base) == 0
    out = capsys.readouterr().out
    assert "version 1 became the master in one atomic exchange" in out
    assert "inserted                        30" in out
    assert main(["workflow", "status", str(base), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"]["rows"] == 1000
    assert main(["workflow", "history", str(base)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["0", "given"]
    shown = dict(zip(lines[0].replace("feed files", "files").split(), lines[2].split(), strict=True))
    assert [shown[name] for name in ("version", "kind", "files", "inserted", "updated", "deleted")] == (
        ["1", "run", "2", "30", "66", "30"]
    )
    assert (shown["records"], shown["dataset"]) == ("1,000", f"{base}/master")
    assert main(["verify", str(base)]) == 0
    out = capsys.readouterr().out
    assert "1 version, 2 merged feed files in archive/" in out
    assert "1,000 rows" in out
    shutil.copytree(base, base.parent / "emptied")
    for path in (base.parent / "emptied" / "archive").rglob("*.*"):
        path.unlink()
    assert main(["verify", str(base.parent / "emptied")]) == 0  # they may be removed
    out = capsys.readouterr().out
    assert "0 merged feed files in archive/; 2 more were removed from there" in out
    assert "as its log says: entries, master\n" in out
    deliver(base)
    assert command("run", base, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["skipped"]) == 2
    assert main(["workflow", "restore", str(base), "--to", "0"]) == 5
    assert "has no manifest" in capsys.readouterr().err
    assert main(["workflow", "restore", str(base), "--to", "1"]) == 5
    assert "is the master already" in capsys.readouterr().err
    assert main(["workflow", "history", str(base), "--json"]) == 0
    assert [one["number"] for one in json.loads(capsys.readouterr().out)] == [0, 1]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["run", "nowhere", "--config", SAMPLE / "bumu.properties"], 2, "nowhere: there is no such directory"),
        (["run", "base"], 2, "key: is missing"),
        (["run", ".", "--config", SAMPLE / "bumu.properties"], 2, ".: is not the base of a workflow"),
        (["status", "linked"], 2, "linked/master: is a symbolic link; it must be a directory"),
        (["watch", "base", "--interval", "-1"], 2, "--interval"),
        (["status", "nowhere"], 2, "there is no such directory"),
        (["restore", "base"], 2, "--to"),
        (["restore", "base", "--to", "3"], 5, "there is no version 3"),
        (["fly", "."], 2, "fly"),
        (["status", "s9://bucket/base"], 2, "'s9' is not a known storage scheme"),
    ],
)
def test_bad_commands_name_the_fault_and_its_path(tmp_path, monkeypatch, capsys, words, code, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base" / "incr").mkdir(parents=True)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "master").symlink_to(tmp_path / "base")

    assert main(["workflow", *map(str, words)]) == code
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_watch_merges_arriving_files(sample_base, capsys):
    deliver(sample_base)
    assert command("watch", sample_base, "--interval", ".1", "--min-age", "0e0", "--runs", "1") == 0
    out, err = capsys.readouterr()
    assert "version 1 became the master" in out
    begun, claimed = [line for line in err.splitlines() if re.match(r"mutator: \d{4}-\d\d-\d\dT[\d:]{8}Z  ", line)]
    places = f"watching {sample_base}/incr every 0.1 s for feed files to merge into {sample_base}/master"
    assert begun.endswith(f"{places}; Ctrl-C or 1 run that merged something ends it")
    assert claimed.endswith("claimed 2 feed files")


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_watch_ends_on_a_signal_and_leaves_nothing_half_done(sample_base):
    words = ["watch", sample_base, "--interval", "0.2", "--min-age", "0", "--config", SAMPLE / "bumu.properties"]
    argv = [sys.executable, "-m", "mutator.cli", "workflow", *words]
    with subprocess.Popen(argv, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True) as watching:
        deliver(sample_base)
        assert watching.stdout is not None
        while "became the master" not in watching.stdout.readline():
            assert watching.poll() is None
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(PATIENCE) == 143
    status = status_of(str(sample_base), configuration.parse({"key": 0}))
    assert (status.target.version.number, status.recovered, status.problems) == (1, (), ())


@pytest.mark.soak
@pytest.mark.jvm
def test_spark_submit_job_runs_the_workflow(sample_base):
    deliver(sample_base)
    words = ["run", sample_base, "--config", SAMPLE / "bumu.properties", "--json"]
    done = submit("local[2]", ROOT / "jobs" / "workflow.py", *words)

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["version"] == 1


@pytest.mark.soak
def test_twenty_spark_merges_killed_at_random_times(sample_base):
    """Each command is killed (kill -9) at a random time: the next one continues, and in the end all is merged once."""
    rng = random.Random(11)
    argv = [sys.executable, "-m", "mutator.cli", "workflow", "run", sample_base, "-D", "claim.min.age=0s"]
    argv += ["--config", SAMPLE / "bumu.properties"]
    stages = set()
    for number in range(20):
        shutil.rmtree(sample_base)
        for name in ("master", "incr"):
            (sample_base / name).mkdir(parents=True)
        for path in (SAMPLE / "master").iterdir():
            shutil.copyfile(path, sample_base / "master" / path.name)
        deliver(sample_base)
        running = subprocess.Popen(argv, env=environment(), cwd=ROOT, stdout=-3, stderr=-3, start_new_session=True)
        if number % 4:
            time.sleep(rng.uniform(0.3, 9.0))
        else:  # the moments around the commit are few
            while not list((sample_base / "_mutator" / "log").glob("0*.json")):
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.05))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        state = status_of(str(sample_base), configuration.parse({"key": 0}))
        stages.add((state.target.version.action, bool(state.recovered)))
        assert state.problems == (), number
        assert main([str(word) for word in argv[3:]]) == 0
        log = Log(str(sample_base)).all()
        assert [version.action for version in log].count("run") == 1
        assert rows(sample_base / "master") == merged_sample()
        assert not list((sample_base / "incr").iterdir())
        assert main(["verify", str(sample_base)]) == 0
    assert len(stages) >= 2
