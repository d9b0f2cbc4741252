"""The commands: their output, their exit codes, and the files they leave."""

import contextlib
import errno
import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from mutator.cli import job, main, sample
from mutator.storage import storage_for
from tests.support.cluster import ROOT, SAMPLE, environment, merged_sample, rows
from tests.support.patience import PATIENCE, wait_until

CONFIG = SAMPLE / "bumu.properties"
CLEAR_SCREEN = "\x1b[2J"


def options(output, *more, master=SAMPLE / "master", feed=(SAMPLE / "feed",), config=CONFIG):
    feeds = [word for path in feed for word in ("--feed", path)]
    return [str(word) for word in ("--config", config, "--master", master, *feeds, "--output", output, *more)]


def run(output, *more, **places):
    return main(["run", *options(output, *more, **places)])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a working directory with the sample in it."""
    shutil.copytree(SAMPLE, tmp_path / "sample")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listing(directory):
    """Return every name below a directory with its size and time."""
    return sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in directory.rglob("*"))


def fails(capsys, code, argv, *words):
    """Expect a message that contains these words, and no traceback."""
    assert main([str(word) for word in argv]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    for word in words:
        assert word in err
    return err


# run


def test_run_gives_the_published_result(place, capsys):
    [before] = [row for row in (SAMPLE / "master" / "base_prod.txt").read_bytes().split() if b"VR8NCNE7DV" in row]

    assert run(place / "out") == 0

    assert rows(place / "out") == merged_sample()
    [after] = [row for row in rows(place / "out") if b"VR8NCNE7DV" in row]
    assert (before.split(b",")[4], after.split(b",")[4]) == (b"88", b"82")
    assert int(after.split(b",")[5]) > int(before.split(b",")[5])


@pytest.mark.rest
def test_a_borrowed_session_is_not_stopped(sc, place, capsys):
    assert run(place / "out", "-v") == 0

    assert rows(place / "out") == merged_sample()
    printed = capsys.readouterr().out
    assert "  runner spark: a Spark session is running in this process" in printed
    assert sc.parallelize([1, 2], 2).sum() == 3
    text = " ".join(printed.split())
    for words in ("inserted 30", "updated 66", "deleted 30", "superseded 4", "output rows 1,000", "tombstones 30"):
        assert words in text
    assert "wrote 1,000 rows in 2 files" in text
    assert sorted(path.name for path in place.iterdir()) == ["out", "sample"]


def test_verify_reports_a_complete_output_and_differences(place, capsys):
    assert run(place / "out") == 0
    capsys.readouterr()

    assert main(["verify", "out"]) == 0
    out, err = capsys.readouterr()
    assert "2 data files, 1,000 rows" in out
    assert "30 tombstones" in out
    assert err == ""

    part = min((place / "out").glob("part-*"))
    part.write_bytes(part.read_bytes().replace(b"tablet", b"teblat", 1))
    assert main(["verify", "out"]) == 3
    out, err = capsys.readouterr()
    assert f"differs: out/{part.name}: its checksum is " in out
    assert err == ""


def test_only_json_is_printed_on_stdout(place, capfd):
    assert run(place / "out", "--json") == 0

    out, err = capfd.readouterr()
    report = json.loads(out)
    assert (report["counts"]["feed updated"], report["counts"]["output rows"]) == (66, 1000)
    assert report["output"] == str(place / "out")
    assert not report["dry_run"]
    assert "{" not in err


def test_dry_run_has_the_counts_of_a_run_and_writes_nothing(place, capsys):
    before = listing(place)
    assert run(place / "out", "--dry-run", "--json") == 0
    dry = json.loads(capsys.readouterr().out)
    assert listing(place) == before

    assert run(place / "out", "--dry-run") == 0
    text = capsys.readouterr().out
    assert "dry run: nothing was written" in text
    assert "would write 1,000 rows" in text
    assert listing(place) == before

    assert run(place / "out", "--json") == 0
    real = json.loads(capsys.readouterr().out)
    assert dry["dry_run"]
    assert not real["dry_run"]
    for name in ("counts", "samples", "rejects", "join", "buckets", "tasks", "master", "feed", "output"):
        assert dry[name] == real[name]


@pytest.mark.parametrize(
    "feed",
    [
        pytest.param(["sample/feed/del_prod.txt", "sample/feed/ups_prod.txt"], id="single files"),
        pytest.param(["sample/feed/*_prod.txt"], id="glob"),
        pytest.param(["sample/fee?"], id="glob of directories"),
        pytest.param(["file://{place}/sample/feed"], id="file URL"),
        pytest.param(["file:{place}/sample/feed/*.txt"], id="file URL as Hadoop writes it"),
        pytest.param(["sample/feed", "sample/feed/ups_prod.txt", "./sample/../sample/feed/*"], id="matched many times"),
    ],
)
def test_feed_paths(place, feed):
    assert run("out", master="sample/master", feed=[path.format(place=place) for path in feed]) == 0

    assert rows(place / "out") == merged_sample()


def test_file_url_of_a_name_with_a_space_and_a_percent_sign(place):
    (place / "sample").rename(place / "100% of it")
    url = f"file://{place}/100%25%20of%20it"

    assert run(f"file://{place}/the%20output", master=f"{url}/master", feed=[f"{url}/feed"]) == 0

    assert rows(place / "the output") == merged_sample()


def test_one_feed_file_alone(place, capsys):
    assert run("out", "--json", feed=["sample/feed/ups_prod.txt"]) == 0

    counts = json.loads(capsys.readouterr().out)["counts"]
    assert (counts["feed rows"], counts["feed deleted"], counts["output rows"]) == (100, 0, 1030)


def test_relative_output_in_new_directories(place):
    assert run("new/deep/out", master="sample/master", feed=["sample/feed"], config="sample/bumu.properties") == 0

    assert rows(place / "new" / "deep" / "out") == merged_sample()


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("setting", [["-Dnum.reducer=5"], ["-D", "num.reducer=5"], ["-D", "rsbm.num.reducer=5"]])
def test_setting_of_the_command_line_wins(place, capsys, setting):
    assert run("out", *setting, "--dry-run", "--json") == 0

    assert json.loads(capsys.readouterr().out)["buckets"] == 5  # 2 in the file


def test_settings_alone_are_a_configuration(place):
    settings = ["-Did.field.ordinals=0", "-Dtemporal.ordering.field.ordinal=5", "-Ddeleted.record.file.prefix=del"]
    words = ["--master", "sample/master", "--feed", "sample/feed", "--output", "out", "--engine", "records"]

    assert main(["run", *settings, *words]) == 0

    assert rows(place / "out") == merged_sample()


def test_options_are_enough_for_a_run(place, capsys):
    (place / "master").mkdir()
    lamps = "".join(f"{name};lamp;2026-01-01\n" for name in "abcdef")
    (place / "master" / "m.csv").write_text(f"id;name;updated_at\n{lamps}")
    (place / "changes.csv").write_text("id;name;updated_at;op\na;sofa;2026-01-02;U\nb;;2026-01-02;X\n")
    words = ["--key", "id", "--order-by", "updated_at", "--order-type", "timestamp", "--op", "op", "--delimiter", ";"]
    words += ["--delete-codes", "X", "--header", "true", "-Dmax.delete.fraction=1"]
    words += ["--master", "master", "--feed", "changes.csv", "--output", "out"]

    assert main(["run", *words]) == 0

    kept = [b"%c;lamp;2026-01-01" % name for name in b"cdef"]
    assert sorted(set(rows(place / "out"))) == [b"a;sofa;2026-01-02", *kept, b"id;name;updated_at"]
    assert main(["run", *words, "--order-by=name"]) == 2
    assert "--order-by is given twice" in capsys.readouterr().err
    assert main(["run", *words, "-Dkey=name"]) == 2
    assert "the command line sets key to 'name', and --key to 'id': keep one of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--key", "nope"], "--key: no input has a field nope"),
        (["-Dkey=nope"], "key: no input has a field nope"),
        (["-Did.field.ordinals=nope"], "id.field.ordinals: no input has a field nope"),
        (["--key", "id", "--order-by", "at"], "set --order-type=timestamp"),
        (["-Dkey=id", "-Dorder_by=at"], "set order_type=timestamp"),
        (["-Did.field.ordinals=id", "--order-by", "at"], "set --order-type=timestamp"),
        (["-Dorder_by=at", "-Did.field.ordinals=id"], "set order_type=timestamp"),
        (["--key=id", "--order-by=n", "--op=op"], "use '--delete-codes=D,delete'"),
    ],
)
def test_messages_of_a_run_have_the_names_that_the_user_gives(place, capsys, words, what):
    (place / "m.csv").write_text("id,at,n\na,2026-01-01,1\nb,2026-01-01,1\n")
    (place / "f_1.csv").write_text("id,at,n,op\na,2026-01-02,2,u\nb,2026-01-02,2,x\nc,2026-01-02,2,delete\n")

    fails(
        capsys,
        3 if "--key=id" in words or "at" in " ".join(words) else 2,
        ["run", *words, "--master", "m.csv", "--feed", "f_1.csv", "--output", "o"],
        what,
    )


def test_options_win_over_the_file(place):
    (place / "c.toml").write_text('key = 3\norder_by = 5\n"deleted.record.file.prefix" = "del"\n')

    assert main(["run", *options(place / "out", "--key", "0", config="c.toml")]) == 0

    assert rows(place / "out") == merged_sample()


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize(
    ("more", "engine", "join", "why"),
    [
        ([], "blocks", "shuffle", "the master has no manifest with buckets, and master.unique does not promise"),
        (["--engine", "auto"], "blocks", "shuffle", "the master has no manifest with buckets"),
        (["--engine", "blocks", "-Dmaster.unique=true"], "blocks", "broadcast", "master.unique promises unique IDs"),
        (["--engine", "records"], "records", "shuffle", "the records engine shuffles master and feed (it was asked"),
        (["--engine", "blocks", "-Dfield.delim.regex=[,;]"], "records", "shuffle", "field.delim.regex [,;] is a patt"),
    ],
)
def test_report_names_engine_and_join_with_the_reason(place, capsys, more, engine, join, why):
    """The join is the same if the requested engine cannot merge these rows."""
    assert run("out", "--dry-run", "--json", *more) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["engine"], report["join"]) == (engine, join)
    assert why in report["reason"]

    assert run("out", "-v", *more) == 0
    buckets = "no" if join == "broadcast" else 2
    assert f"plan   {engine} engine, {join} join, {buckets} buckets, " in (printed := capsys.readouterr().out)
    assert report["reason"] in printed
    assert sorted(row for part in (place / "out").glob("part-*") for row in part.read_bytes().splitlines()) == (
        merged_sample()
    )


def test_next_run_is_aligned(place, capsys):
    assert run("out") == 0
    capsys.readouterr()

    assert run("2", "--json", master="out", feed=["sample/feed"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert (report["engine"], report["join"], report["buckets"]) == ("blocks", "aligned", 2)
    assert report["reason"] == "the master has 2 buckets by key hash, so only the feed is shuffled"
    assert len(report["consumed"]) == 2
    assert rows(place / "2") == merged_sample()


def test_warning_goes_to_stderr_once(place, capsys):
    assert run("out", "-Dmapreduce.job.name=x", "--json", "--dry-run") == 0

    out, err = capsys.readouterr()
    assert err.count("mutator: warning: ") == 1
    assert "mapreduce.job.name" in err
    json.loads(out)


# 2: usage and configuration


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run", *options("out"), "-Dnum.reducer=2", "-Drsbm.num.reducer=3"], ["num.reducer to '2'", "to '3'", "keep"]),
        (["run", *options("out", config="none.properties")], ["none.properties", "No such file"]),
        (["run", *options("out"), "-Dnum.reducers=5"], ["num.reducers", "did you mean num.reducer?"]),
        (
            ["run", *options("out"), "-Dnum.reducer=x", "-Dsync.mode=y"],
            ["the command line", "-D num.reducer: 'x'", "-D sync.mode: 'y'"],
        ),
        (["run", *options("out"), "-Did.field.ordinals=9"], ["id.field.ordinals", "field 9 is beyond the 6 fields"]),
        (["run", *options("out", master="none")], ["/none: there is no master", "allow.empty.master=true"]),
        (["run", *options("out", feed=["none"])], ["/none: there is no such feed"]),
        (["run", *options("out", feed=["none/*.txt"])], ["/none/*.txt: there is no such feed"]),
        (
            ["run", *options("out", feed=["gopher://bucket/feed"])],
            ["'gopher' is not a known storage scheme", "file://"],
        ),
        (["run", *options("file://host/out")], ["file:///host/"]),
        (
            ["run", *options("sample/feed/out", feed=["sample/feed"])],
            ["the output is inside the feed", "path outside of that directory"],
        ),
        (["run", *options("sample/master/out", master="sample/master")], ["the output is inside the master"]),
        (["run", *options("out", feed=["sample/master"], master="sample/master")], ["the feed is inside the master"]),
        (["verify", "none"], ["/none: there is no such directory"]),
        (["verify", "sample/master"], ["was not written by mutator"]),
    ],
)
def test_usage_or_configuration(place, capsys, argv, words):
    before = listing(place)

    fails(capsys, 2, argv, *words)

    assert listing(place) == before


def test_links_and_fifos_are_not_feed_files(place, capsys):
    os.mkfifo(place / "sample" / "feed" / "ups_2.txt")

    fails(capsys, 2, ["run", *options("out", feed=["sample/feed"])], "ups_2.txt: is a FIFO", "regular files")


# 3: data


def test_reject(place, capsys):
    with open("sample/feed/ups_prod.txt", "ab") as feed:
        feed.write(b"too,few\nABCDEFGHIJ,a,b,1,2,not a time\n")
    before = listing(place)

    err = fails(
        capsys, 3, ["run", *options("out", feed=["sample/feed"])], "2 feed rows", "line 101", "line 102", "too,few"
    )

    assert "reject.policy=quarantine" in err
    assert listing(place) == before
    assert run("out", "-Dreject.policy=quarantine", "--json", feed=["sample/feed"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"]["feed rejected"] == 2
    assert Path(report["rejected_file"]).read_bytes().endswith(b"ABCDEFGHIJ,a,b,1,2,not a time\n")


def test_damaged_feed_file(place, capsys):
    whole = gzip.compress(Path("sample/feed/ups_prod.txt").read_bytes())
    Path("sample/feed/ups_prod.txt.gz").write_bytes(whole[: len(whole) // 2])

    fails(capsys, 3, ["run", *options("out", feed=["sample/feed/*.gz"])], "ups_prod.txt.gz", "damaged")

    Path("sample/feed/ups_prod.txt.gz").write_bytes(b"plain text,1,2,3,4,5\n")
    fails(capsys, 3, ["run", *options("out", feed=["sample/feed/*.gz"])], "the name says gzip", "plain text")
    assert sorted(path.name for path in place.iterdir()) == ["sample"]


def test_too_many_deletes(place, capsys):
    shutil.copy("sample/master/base_prod.txt", "sample/feed/del_all.txt")
    argv = ["run", *options("out", feed=["sample/feed/del_*"])]

    fails(capsys, 3, argv, "1,000 of the master's 1,000 records", "-D max.delete.fraction=1")

    assert not (place / "out").exists()
    assert main([*argv, "-D", "max.delete.fraction=1"]) == 0


def test_broken_promise_of_unique_ids(place, capsys):
    Path("sample/master/more.txt").write_bytes(Path("sample/master/base_prod.txt").read_bytes())
    before = listing(place)
    argv = ["run", *options("out", "-Dmaster.unique=true", master="sample/master")]

    err = fails(capsys, 3, argv, "the master has several rows for", "IDs that the feed mutates", "without that setting")

    assert re.search(r"for example [A-Z0-9]{10}(; [A-Z0-9]{10}){4};", err)
    assert listing(place) == before
    assert main(["run", *options("out", "-Dmax.duplicate.fraction=0.5", master="sample/master")]) == 0
    assert rows(place / "out") == merged_sample()


def test_file_name_without_a_sequence(place, capsys):
    fails(capsys, 3, ["run", *options("out", "-Dtemporal.ordering.field.ordinal=")], "has no sequence", "_prod.txt")


# 4: storage


@pytest.mark.parametrize(
    ("output", "named"),
    [("sample/bumu.properties/out", "/sample/bumu.properties: "), ("o" * 300, "o" * 300), ("/proc/out", "/proc")],
)
def test_output_that_cannot_be_made(place, capsys, output, named):
    before = listing(place)

    fails(capsys, 4, ["run", *options(output)], named)

    assert listing(place) == before


def test_full_disk(place, capsys, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    # Spark's workers write the files; the driver syncs them afterwards.
    monkeypatch.setattr("mutator.storage.local._fsync", full)

    fails(capsys, 4, ["run", *options("out")], "No space left on device")

    assert sorted(path.name for path in place.iterdir()) == ["sample"]


def test_report_that_cannot_be_written(place, capsys, monkeypatch):
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", full)
        assert run("out") == 4
        patched.undo()
        with contextlib.suppress(OSError):
            full.close()  # still cannot be written

    assert "the report cannot be written" in (printed := capsys.readouterr().err)
    assert "out is published and complete" in printed
    assert Path("out", "_SUCCESS").exists()


@pytest.mark.parametrize("words", [["settings"], ["completion", "bash"]])
def test_output_of_a_command_that_publishes_nothing_cannot_be_written(place, capsys, monkeypatch, words):
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", full)
        assert main(words) == 4
        patched.undo()
        with contextlib.suppress(OSError):
            full.close()

    printed = capsys.readouterr().err
    assert "stdout: No space left on device" in printed
    assert "published" not in printed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal(place, capsys, monkeypatch, number, code):
    monkeypatch.setattr("mutator.pipeline.merge.carry_out", lambda *_, **__: signal.raise_signal(number))

    fails(capsys, code, ["run", *options("out")], "stopped from outside; nothing was published")


# 5: another run or a state conflict


def test_output_exists(place, capsys):
    Path("out").mkdir()

    fails(capsys, 5, ["run", *options("out")], f"{place}/out: the output directory already exists")


def test_output_is_being_written(place, capsys):
    Path(".out.mutator-1").mkdir()
    lock = storage_for("/").hold(str(place / ".out.mutator-1"))

    fails(capsys, 5, ["run", *options("out")], "another run is writing this output now", ".out.mutator-1")

    del lock
    assert run("out") == 0
    assert f"removed, left by a killed run: {place}/.out.mutator-1" in capsys.readouterr().out


def test_master_that_differs_from_its_manifest(place, capsys):
    assert run("out") == 0
    capsys.readouterr()
    shutil.copytree("out", "damaged")
    manifest = Path("damaged/_mutator/manifest.json")
    manifest.write_text(manifest.read_text().replace('"rows": ', '"rows": 1'))
    Path("out/stray.txt").write_text("x\n")

    fails(capsys, 5, ["run", *options("2", master="damaged")], "the manifest is damaged", "master.adopt=true")
    fails(capsys, 5, ["run", *options("2", master="out")], "stray.txt is not one of its files")
    Path("out/stray.txt").unlink()
    fails(capsys, 5, ["run", *options("2", "-Did.field.ordinals=0,1", master="out")], "was written with key")
    assert run("2", master="out") == 0


# 70: a bug


def test_bug_shows_its_traceback_and_asks_for_a_report(place, capsys, monkeypatch):
    monkeypatch.setattr("mutator.pipeline.merge.carry_out", lambda *_, **__: 1 // 0)

    assert run("out") == 70

    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "ZeroDivisionError" in err
    assert "please report it" in err


# Help


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        *((words, ["usage: mutator", "run", "verify", "partition-runs", "sample"]) for words in ([], ["help"], ["-h"])),
        *((words, ["usage: mutator bridge", "export"]) for words in (["bridge"], ["help", "bridge"])),
        (["help", "table", "apply"], ["usage: mutator table apply", "--compact-after"]),
        (["partition-runs", "--help"], ["--config", "--master", "--feed", "--output", "-D", "--engine", "--json"]),
        (["run", "--help"], ["--config", "--master", "--feed", "--output", "-D", "--engine", "--dry-run", "--json"]),
        (["verify", "--help"], ["DIR"]),
        (["sample", "--help"], ["new", "upsert", "delete"]),
        (["sample", "upsert", "--help"], ["ROWS", "--seed", "--table", "--master", "--op-code"]),
    ],
)
def test_help(capsys, argv, words):
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for word in words:
        assert word in out


# Control characters and bytes in names


def test_control_characters_are_escaped(place, capsys):
    name = f"no{CLEAR_SCREEN}\x07"
    escaped = r"no\x1b[2J\x07"

    for argv in (
        [name],
        ["run", *options("out", feed=[name])],
        ["run", *options("out", master=name)],
        ["run", *options("out", config=name)],
        ["run", *options("out", f"-D{name}")],
        ["run", *options("out", f"-D{name}=1")],
        ["run", *options("out", f"-Dnum.reducer={name}")],
        ["verify", name],
        ["sample", "upsert", "1", "--master", name],
        ["run", *options("out"), f"--{name}"],
        ["run", *options("out"), "--engine", name],
        ["sample", "new", name],
    ):
        err = fails(capsys, 2, argv)
        assert escaped in err or repr(name) in err or repr(repr(name)[1:-1]) in err
        assert "\x1b" not in err
        assert "\x07" not in err

    Path(f"sample/feed/{name}.txt").write_text("x\n")
    assert "\x1b" not in fails(capsys, 2, ["run", *options("out", feed=["sample/feed"])], escaped, "rename the file")


def test_control_characters_in_a_report(place, capsys):
    shutil.copytree("sample/master", f"master{CLEAR_SCREEN}")
    Path("feed").mkdir()
    Path(f"feed/.hidden{CLEAR_SCREEN}").touch()
    rows = [b"A\x1b[2J,a,b,1,2,9", b"A\x1b[2J,a,b,1,3,9", b"\x1b[2J"]
    Path("feed/ups.txt").write_bytes(b"\n".join(rows) + b"\n")
    words = ("-Dreject.policy=quarantine", "--dry-run")

    assert run("out", *words, master=f"master{CLEAR_SCREEN}", feed=["feed"]) == 0

    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "1 tied key:" in out
    assert out.count(r"\x1b[2J") >= 3
    assert run("out", *words, "--json", master=f"master{CLEAR_SCREEN}", feed=["feed"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["samples"]["tied"] == ["A\x1b[2J"]  # a program gets the original value; JSON has its own escapes


def test_name_that_is_not_utf8(place, capsys):
    feed = os.fsdecode(b"feed\xff")
    shutil.copytree("sample/feed", feed)

    assert run(os.fsdecode(b"out\xff"), feed=[feed]) == 0

    assert rows(place / os.fsdecode(b"out\xff")) == merged_sample()
    assert r"feed\udcff" in capsys.readouterr().out


# The original job's call


def test_original_call(place, capsys):
    Path("sample/feed").rename("working")
    Path("sample/master").rename("master")

    assert job("bulk_mutate.py", ["-Dconf.path=sample/bumu.properties", "master,working", "out"]) == 0

    assert rows(place / "out") == merged_sample()
    assert "wrote 1,000 rows" in capsys.readouterr().out


def test_original_call_with_the_feed_first(place, capsys):
    words = ["-Dconf.path=sample/bumu.properties", "sample/feed,sample/master", "out"]

    assert job("bulk_mutate.py", words) == 2

    found = capsys.readouterr().err
    assert "sample/feed: is named as the master, and master as the feed; master and feed are probably swapped" in found
    assert "sample/master as the master (--master, or first in IN_PATHS)" in found
    assert not (place / "out").exists()


def test_original_call_with_several_feeds_and_settings(place, capsys):
    paths = "sample/master,sample/feed/ups_prod.txt,sample/feed/del_prod.txt"
    words = ["-D", "conf.path=sample/bumu.properties", "-Dnum.reducer=3", "--json"]

    assert job("bulk_mutate.py", [*words, paths, "out"]) == 0

    assert json.loads(capsys.readouterr().out)["buckets"] == 3
    assert rows(place / "out") == merged_sample()


def test_original_call_with_our_options(place):
    assert job("bulk_mutate.py", options("out")) == 0

    assert rows(place / "out") == merged_sample()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], ["IN_PATHS"]),
        (["sample/master", "out"], ["master,feed", "the master first"]),
        (["sample/master,", "out"], ["master,feed"]),
        (["sample/master,sample/feed", "out"], ["key: is missing"]),
        (["-Dconf.path=none", "sample/master,sample/feed", "out"], ["none: cannot be read as a configuration"]),
        (["--master", "sample/master"], ["--feed", "--output"]),
    ],
)
def test_wrong_original_call(place, capsys, argv, words):
    assert job("bulk_mutate.py", argv) == 2

    out, err = capsys.readouterr()
    assert out == ""
    for word in words:
        assert word in err


def test_help_of_the_job(capsys):
    assert job("bulk_mutate.py", ["--help"]) == 0

    assert "--config" in capsys.readouterr().out


# sample


def lines(made):
    return b"".join(row + b"\n" for row in made)


def test_sample_prints_the_rows_of_the_generator(place, capfdbinary):
    base = Path("sample/master/base_prod.txt").read_bytes().splitlines()
    master = ["--master", "sample/master/base_prod.txt"]
    at, sales_table = sample.OP_CODE_ORDINAL, sample.SALES
    sales = list(sample.new(9, 1, sales_table))
    Path("sales.txt").write_bytes(lines(sales))
    for argv, made in (
        (["new", "20"], sample.new(20, 1)),
        (["new", "20", "--seed", "7"], sample.new(20, 7)),
        (["new", "5", "--op-code"], sample.new(5, 1, op_code_at=at)),
        (["new", "0"], []),
        (["upsert", "30", *master], sample.upsert(30, 1, base)),
        (["upsert", "30", "--op-code", *master], sample.upsert(30, 1, base, op_code_at=at)),
        (["delete", "30", "--seed", "3", *master], sample.delete(30, 3, base)),
        (["delete", "30", "--op-code", *master], sample.delete(30, 1, base, op_code_at=at)),
        (["new", "9", "--table", "sales"], sales),
        (["upsert", "5", "--table", "sales", "--master", "sales.txt"], sample.upsert(5, 1, sales, sales_table)),
        (["delete", "5", "--table", "sales", "--master", "sales.txt"], sample.delete(5, 1, sales, sales_table)),
    ):
        assert main(["sample", *argv]) == 0
        assert capfdbinary.readouterr() == (lines(made), b"")


def test_sample_reads_several_files_as_one_master(place, capfdbinary):
    base = Path("sample/master/base_prod.txt").read_bytes().splitlines()
    ups = Path("sample/feed/ups_prod.txt").read_bytes().splitlines()

    assert (
        main(
            [
                "sample",
                "delete",
                "1030",
                *[w for p in ("master/base", "feed/ups") for w in ("--master", f"sample/{p}_prod.txt")],
            ]
        )
        == 0
    )

    assert capfdbinary.readouterr().out == lines(sample.delete(1030, 1, [*base, *ups]))


@pytest.mark.parametrize(
    ("code", "argv", "words"),
    [
        (2, ["sample", "new", "-1"], ["-1"]),
        (2, ["sample", "new", "1", "--table", "planes"], ["planes", "product"]),
        (2, ["sample", "new", "1", "--table", "sales", "--op-code"], ["--op-code", "sales"]),
        (2, ["sample", "upsert", "1"], ["--master"]),
        (2, ["sample", "new", "1", "--master", "sample/master/base_prod.txt"], ["--master"]),
        (2, ["sample", "upsert", "1", "--master", "none.txt"], ["none.txt: there is no such file"]),
        (2, ["sample", "delete", "1001", "--master", "sample/master/base_prod.txt"], ["1,001", "only 1,000"]),
        (2, ["sample", "delete", "1", "--master", "sample/bumu.properties"], ["row 1 of the master"]),
        (2, ["sample", "delete", "1", "--master", "sample/master"], ["sample/master"]),
    ],
)
def test_sample_that_cannot_be_made(place, capsys, code, argv, words):
    fails(capsys, code, argv, *words)


# A process of its own


def in_session(leader):
    """Return the processes of a session (such as the Java process of a Spark that was not stopped)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


def ended(leader):
    """Wait for the last process of a session to end; kill the remaining ones, and return them."""
    with suppress(TimeoutError):
        wait_until(lambda: not in_session(leader), 0.1)
    left = in_session(leader)
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return left


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
@pytest.mark.parametrize(
    ("command", "more", "variables"),
    [
        pytest.param(["-m", "mutator", "run"], ["--runner", "spark"], {}, id="command"),
        pytest.param([ROOT / "jobs" / "bulk_mutate.py"], [], {"MASTER": "local[2]"}, id="job"),
    ],
)
def test_starts_and_stops_its_own_spark_and_prints_plain_lines(tmp_path, command, more, variables):
    """Spark and its JVM have much to say while they start: none of it is on stderr."""
    process = subprocess.Popen(
        [sys.executable, *command, *options("out", "--json", *more)],
        env=environment(PYTHONPATH=str(ROOT), **variables),
        cwd=tmp_path,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0, err
    assert ended(process.pid) == []
    assert json.loads(out)["counts"]["output rows"] == 1000
    assert rows(tmp_path / "out") == merged_sample()
    assert re.sub(r"\d+", "N", err.decode()).split("\n") == [
        "mutator: starting Spark ...",
        "",
    ]


class Terminal:
    """A program on a pseudo-terminal, with a keyboard for the test."""

    def __init__(self, argv, cwd, **more):
        self.keyboard, screen = pty.openpty()
        termios.tcsetwinsize(screen, (24, 100))  # a terminal without a size gets no bar
        # setsid sets no controlling terminal, and without one Ctrl-C is just a byte
        code = "import fcntl, os, runpy, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.chdir(sys.argv.pop(1))"
        code += "; runpy.run_module('mutator.cli', run_name='__main__', alter_sys=True)"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(cwd), *argv],
            env=environment(PYTHONPATH=str(ROOT), TERM="xterm", COLUMNS="100", **more),
            start_new_session=True,
            stdin=screen,
            stdout=screen,
            stderr=screen,
        )
        os.close(screen)
        self.shown = b""

    def read_until(self, pattern):
        """Read the screen until it matches a pattern."""
        while not re.search(pattern, self.shown):
            block = self._read()
            assert block, self.shown
            self.shown += block

    def _read(self):
        ready, _, _ = select.select([self.keyboard], [], [], PATIENCE)
        assert ready, self.shown
        try:
            return os.read(self.keyboard, 1 << 16)
        except OSError:  # the last process of the terminal has ended
            return b""

    def press(self, keys):
        os.write(self.keyboard, keys)

    def end(self):
        """Wait for the program's end; return (exit code, processes that outlived it)."""
        while block := self._read():
            self.shown += block
        code = self.process.wait(PATIENCE)
        os.close(self.keyboard)
        return code, ended(self.process.pid)


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_progress_bar_and_ctrl_c(tmp_path, sc, capsys):
    words = ["run", *options("out", "-Dnum.reducer=300", "--runner", "spark")]  # takes several seconds
    terminal = Terminal(words, tmp_path)
    terminal.read_until(rb"mutator: .* of .* read, .* written")
    terminal.press(b"\x03")
    code, left = terminal.end()

    assert code == 130, terminal.shown
    assert left == []
    assert b"Traceback" not in terminal.shown
    assert b"\tat org.apache" not in terminal.shown  # nor a stack trace of Java
    assert b"mutator: stopped from outside; nothing was published" in terminal.shown
    assert not (tmp_path / "out").exists()
    litter = sorted(tmp_path.iterdir())
    assert all(path.name.startswith(".out.mutator-") for path in litter)

    assert main(["run", *options(tmp_path / "out", "--json")]) == 0
    assert json.loads(capsys.readouterr().out)["litter"] == [str(path) for path in litter]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_ctrl_c_while_spark_starts(tmp_path, tmp_path_factory):
    logs = tmp_path_factory.mktemp("logs")
    terminal = Terminal(["run", *options("out", "--runner", "spark")], tmp_path, TMPDIR=str(logs))
    wait_until(lambda: any(log.stat().st_size for log in logs.glob("mutator-spark-*.log")))  # Java's first line
    terminal.press(b"\x03")
    code, left = terminal.end()

    assert code == 130, terminal.shown
    assert left == []
    assert b"Traceback" not in terminal.shown
    assert list(tmp_path.iterdir()) == list(logs.glob("mutator-spark-*")) == []


def test_the_job_takes_options_with_an_equals_sign(place):
    words = ["--config=sample/bumu.properties", "--master=sample/master", "--feed=sample/feed", "--output=out"]

    assert job("bulk_mutate.py", words) == 0
    assert rows(place / "out") == merged_sample()
