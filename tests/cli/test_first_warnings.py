"""Words of a command before it fails, and where it has nothing to do."""

import os

import pytest

from mutator.cli import main
from mutator.errors import StorageError
from mutator.storage.local import LocalStorage


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("master", "feed", "empty", "base/master", "base/incr"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("master/m.txt", "base/master/m.txt"):
        (tmp_path / name).write_text("a,1\nb,1\n")
    (tmp_path / "c.properties").write_text(
        "id.field.ordinals=0\ntemporal.ordering.field.ordinal=1\nmapreduce.job.name=x\nclaim.min.age=0s\n"
    )
    return tmp_path


def run(*words, master="master", feed="feed", output="out"):
    return main(
        ["run", "--config", "c.properties", "--master", master, "--feed", feed, "--output", output, *map(str, words)]
    )


@pytest.mark.parametrize("command", ["run", "workflow"])
def test_warnings_are_printed_once_also_when_the_run_fails(place, capsys, command):
    for name in ("feed/u.txt", "base/incr/u.txt"):
        (place / name).write_text("a,2\nbroken\n")

    def act(*words):
        if command == "run":
            return run(*words)
        return main(["workflow", "run", "base", "--config", "c.properties", *words])

    assert act() == 3
    err = capsys.readouterr().err
    assert err.count("mutator: warning: ") == err.count("mapreduce.job.name") == 1
    assert err.index("mapreduce.job.name") < err.index("mutator: error: ")
    assert act("-Dreject.policy=quarantine") == 0
    assert capsys.readouterr().err.count("mapreduce.job.name") == 1


def test_feed_without_files_is_said(place, capsys):
    assert run(feed="empty") == 0
    out, err = capsys.readouterr()
    assert f"mutator: warning: nothing to merge: {place}/empty has no feed files" in err
    assert "wrote 2 rows" in out
    (place / "feed" / "u.txt").write_text("a,2\n")
    assert run(master="out", output="2") == 0
    assert run(master="2", output="3") == 0
    assert "note   nothing to merge: every feed file was merged before" in capsys.readouterr().out


def test_empty_master_of_a_base_is_a_mistake(place, capsys):
    (place / "base" / "incr" / "u.txt").write_text("a,2\n")
    (place / "base" / "master" / "m.txt").unlink()
    words = ["workflow", "run", "base", "--config", "c.properties"]
    assert main(words) == 2
    assert "base/master: the master has no data files" in capsys.readouterr().err
    assert (place / "base" / "incr" / "u.txt").exists()
    assert main([*words, "-D", "allow.empty.master=true"]) == 0


def test_dry_run_finds_an_output_that_cannot_be_written(place, capsys, monkeypatch):
    (place / "feed" / "u.txt").write_text("a,2\n")
    assert run("--dry-run", output="c.properties/new") == 4
    assert "Not a directory" in capsys.readouterr().err
    assert run("--dry-run", output="new/directory/out") == 0
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(place))
    with pytest.raises(StorageError, match="Permission denied"):
        LocalStorage().check_writable(f"{place}/new/directory/out")
    assert run("--dry-run") == 4
