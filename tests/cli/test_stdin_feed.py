"""``--feed -`` reads one feed file from stdin."""

import gzip
import hashlib
import io
import json
import os
import sys
from pathlib import Path

import pytest

from mutator.cli import main
from tests.support.job import FEED, MASTER

SETTINGS = ("--key", "0", "--order-by", "2", "--runner", "local")


class Stdin:
    """A command line in a directory of its own, with bytes on stdin."""

    def __init__(self, path, monkeypatch, capsys):
        self._patch, self._capsys = monkeypatch, capsys
        self.spool = path / "spool"
        for directory in ("spool", "master"):
            (path / directory).mkdir()
        (path / "master" / "base.txt").write_bytes(MASTER)
        monkeypatch.chdir(path)
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(self.spool))

    def run(self, words, content=FEED, terminal=False):
        """Return the exit code, stdout and stderr of a command."""
        stdin = io.TextIOWrapper(io.BytesIO(content))
        stdin.isatty = lambda: terminal
        self._patch.setattr(sys, "stdin", stdin)
        code = main(words.split() if isinstance(words, str) else words)
        assert list(self.spool.iterdir()) == []
        out, err = self._capsys.readouterr()
        assert "/stdin-" not in out + err
        return code, out, err


@pytest.fixture
def stdin(tmp_path, monkeypatch, capsys):
    return Stdin(tmp_path, monkeypatch, capsys)


RUN = ["run", "--master", "master", "--feed", "-", "--output", "out", *SETTINGS]


@pytest.mark.parametrize("content", [FEED, gzip.compress(FEED, mtime=0)])
def test_the_same_bytes_are_merged_once(stdin, content):
    assert stdin.run([*RUN, "--json", "--lineage", "events.json"], content)[0] == 0
    inputs = json.loads(Path("events.json").read_text().splitlines()[-1])["inputs"]
    name = f"stdin-{hashlib.sha256(content).hexdigest()[:32]}"
    assert (inputs[1]["namespace"], inputs[1]["name"].partition(".")[0]) == ("stdin", name)
    assert inputs[1]["inputFacets"]["inputStatistics"]["fileCount"] == 1
    again = ["run", "--master", "out", "--feed", "-", "--output", "out2", *SETTINGS]
    code, out, _ = stdin.run([*again, "-v"], content)

    assert (code, "every feed file was merged before" in out) == (0, True)
    assert f"skipped, consumed before: {name}" in out
    assert "updated                          1" in stdin.run([*again[:-7], "out3", *SETTINGS], b"b,3,300\n")[1]
    code, out, _ = stdin.run(["explain", "out", "b", "--feed", "-", *SETTINGS[:4]], content)
    assert (code, "line 1, byte 0" in out, f"  {name}" in out) == (0, True, True)


def test_other_commands(stdin):
    assert stdin.run(["diff", "master", "--feed", "-", "--json", *SETTINGS])[1].count('"new": "stdin-') == 1
    assert stdin.run("table create t --key id --order-by at -q")[0] == 0
    content = b"id,v,at\nb,2,200\n"
    for inserted in (1, 0):
        out = stdin.run("table apply t --feed - -D feed.format=csv --runner local -v", content)[1]
        assert f"inserted                         {inserted}" in out
    out = stdin.run("explain t b --feed -", content)[1]
    assert "  stdin-" in out


@pytest.mark.parametrize(
    ("command", "expected"), [("run --master master --output out --key id --order-by at", 3), ("table apply t", 2)]
)
def test_csv_has_a_cure_in_the_message(stdin, command, expected):
    Path("master/base.txt").rename("master/base.csv")
    Path("master/base.csv").write_text("id,at\na,1\n")
    assert stdin.run("table create t --key id --order-by at -q")[0] == 0

    words, content = f"{command} --feed - --runner local", b"id,at\na,2\n"
    code, _, err = stdin.run(words, content)
    cure = "feed.format=csv"
    assert (code, f"; or, if it is CSV with a header, set {cure}\n" in err) == (expected, True), err
    assert stdin.run(f"{words} -D {cure}", content)[0] == 0


def test_an_empty_feed(stdin):
    code, out, err = stdin.run(RUN, b"")

    assert (code, "feed rows                          0" in out) == (0, True)
    assert "no row in stdin-e3b0c442" in err


def test_a_terminal(stdin):
    assert "type its rows, then Ctrl-D" in stdin.run(RUN, terminal=True)[2]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            "run --master master --feed - --output out --key 0",
            2,
            "--feed - is read on this machine",
        ),
        ("run --master master --feed - --output out --key 0 --order-by 2 --runner spark", 2, "add --runner local"),
        ("run --master master --feed - --output out --key 0 --runner local", 2, "--feed - has no file name, and order"),
        ("init --master master --feed -", 2, "--feed: this command does not read stdin: write it to a file"),
        ("partition --feed - --by 0 --to parts --key 0", 2, "this command does not read stdin"),
        ("bridge run --from t --text d --feed -", 2, "this command does not read stdin"),
    ],
)
def test_stdin_is_refused(stdin, monkeypatch, words, code, message):
    monkeypatch.setenv("MASTER", "spark://nowhere:1")

    found, _, err = stdin.run(words)
    assert (found, message in err) == (code, True), err
    assert not os.path.exists("out")
    assert "spool" not in err


@pytest.mark.parametrize("words", ["-D runner=local", "-D runner = local", "--config c.toml"])
def test_a_local_runner_reads_stdin_beside_a_spark_master(stdin, monkeypatch, words):
    monkeypatch.setenv("MASTER", "spark://nowhere:1")
    Path("c.toml").write_text('runner = "local"\n')

    settings = ["-D", words[3:]] if words.startswith("-D") else words.split()
    assert stdin.run([*RUN[:-2], *settings])[0] == 0


def test_a_bad_row_is_said_to_be_of_stdin(stdin):
    code, _, err = stdin.run(RUN, b"b,2\n")

    assert (code, "\n  stdin-" in err) == (3, True)


def test_a_full_disk(stdin, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "rename", full)
    code, _, err = stdin.run(RUN)

    assert (code, "No space left on device" in err, "SPARK_LOCAL_DIRS" in err) == (4, True, True)
