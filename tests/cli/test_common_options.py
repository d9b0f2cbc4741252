"""What every command has: --quiet and --verbose, examples in its help, suggestions, colours, a version."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from itertools import takewhile

import pytest

from mutator import __version__
from mutator.cli import job, main
from mutator.cli.command import Group
from mutator.cli.program import COMMANDS, program
from mutator.pipeline import merge
from tests.support.cluster import ROOT, SAMPLE, environment

RUN = [
    *("run", "--config", f"{SAMPLE}/bumu.properties", "--master", f"{SAMPLE}/master"),
    *("--feed", f"{SAMPLE}/feed", "-Dmapreduce.job.name=x", "--output"),
]
COMMAND_WORDS = [
    (command.name, inner.name) if isinstance(command, Group) else (command.name,)
    for command in COMMANDS
    for inner in (command.commands if isinstance(command, Group) else [command])
]
RUN_HERE = "run {config} --master base/master --feed base/incr --output"
NOTE = "mutator: warning: "


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("table apply --feed a b TABLE", "give TABLE before --feed, which takes every path after it"),
        ("explain --feed a place key", "give PLACE and KEY before --feed, which takes every path after it"),
        ("diff --feed a old", "give OLD before --feed, which takes every path after it"),
        ("table apply --config /dev/null", "TABLE and --feed PATH are missing; give them, or write table = … and feed"),
    ],
)
def test_an_argument_that_an_option_has_taken(words, cure, capsys):
    assert main(words.split()) == 2

    assert cure in capsys.readouterr().err


# --quiet and --verbose


@pytest.mark.parametrize("words", COMMAND_WORDS, ids=" ".join)
def test_every_command_has_the_options_and_examples_that_it_parses(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*words, "--help"]) == 0

    text = capsys.readouterr().out
    assert re.search(r"-q, --quiet +print errors only", text)
    assert re.search(r"-v, --verbose +print each step", text)
    examples = re.search(r"\nexamples?:\n((?:  mutator .*\n)+)$", text)[1].splitlines()
    for example in examples:
        given = shlex.split(example, comments=True)
        given = given[: given.index(">")] if ">" in given else given
        assert given[1 : 1 + len(words)] == list(words)
        assert program().parse_args(given[1:]).carry_out


@pytest.mark.parametrize("before", [True, False])
def test_quiet_prints_nothing_but_errors_and_json(tmp_path, capsys, before):
    def run(option, output, *more):
        words = [*RUN, output, *more]
        return main([option, *words] if before else [*words, option])

    assert run("-q", f"{tmp_path}/1") == 0
    assert capsys.readouterr() == ("", "")

    assert run("--quiet", f"{tmp_path}/2", "--json") == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["counts"]["output rows"], err) == (1000, "")

    assert run("-q", f"{tmp_path}/2") == 5
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("mutator: error: ")


def test_quiet_prints_what_a_command_was_called_for(tmp_path, capsys):
    assert main([*RUN, f"{tmp_path}/out"]) == 0
    [part, _] = sorted((tmp_path / "out").glob("part-*"))
    capsys.readouterr()

    assert main(["verify", "-q", f"{tmp_path}/out"]) == 0
    assert capsys.readouterr() == ("", "")
    part.write_bytes(b"")
    assert main(["verify", "-q", f"{tmp_path}/out"]) == 3
    assert "differs: " in capsys.readouterr().out
    assert main(["-q", "sample", "new", "0"]) == 0
    (tmp_path / "base" / "master").mkdir(parents=True)
    (tmp_path / "base" / "incr").mkdir()
    assert main(["-q", "workflow", "status", f"{tmp_path}/base"]) == 0
    assert "state    idle" in capsys.readouterr().out


@pytest.mark.parametrize("before", [True, False])
def test_verbose_prints_each_step_with_its_time(tmp_path, capsys, before):
    words = [*RUN, f"{tmp_path}/out"]

    assert main(["-v", *words] if before else [*words, "--verbose"]) == 0

    out, err = capsys.readouterr()
    steps = [line for line in err.splitlines() if not line.startswith(NOTE)]
    assert len(steps) == 7
    for step, start in zip(
        steps,
        (
            f"settings: {SAMPLE}/bumu.properties -D mapreduce.job.name=x",
            "surveyed the inputs: 2 feed files of text (5,856 bytes); 1 master file of text (44,797 bytes",
            "planned ",
            "runner local, 1 process: ",
            f"merged into {tmp_path}/.out.mutator-",
            "the sums add up: 130 feed rows and 1,000 master rows give 1,000 output rows",
            f"published {tmp_path}/out",
        ),
        strict=True,
    ):
        assert re.fullmatch(rf"mutator: +\d+\.\d\d s +\+\d+\.\d\d  {re.escape(start)}.*", step)
    assert "key ordinals 0 types bytes, order by field ordinal 5 type long" in steps[2]
    for line in (
        "  plan   blocks engine, shuffle join, 2 buckets",
        "  runner local, 1 process: ",
        "  no-op   ",
        "wrote 1,000 ",
    ):
        assert f"\n{line}" in out

    assert main(["verify", f"{tmp_path}/out"]) == 0
    assert capsys.readouterr().err == ""  # the next command of this process is not verbose


@pytest.mark.parametrize(
    ("commands", "starts"),
    [
        (
            [RUN_HERE + " out", "verify out"],
            ["runner local, 1 process: ", "compared the names and sizes of 4 files in out", "read 4 files of out"],
        ),
        (
            ["workflow run base {config} -D claim.min.age=0s"],
            [
                *("settings: ", "claimed 2 feed files, run ", "surveyed the inputs: ", "planned ", "runner local"),
                *("merged into ", "the sums add up: ", "published ", "merged 2 feed files, run "),
                *("verified the sizes", "committed version 1", "archived the feed files"),
            ],
        ),
        (
            ["partition --feed base/incr --partitioned-by 1 --output split -D delimiter=,"],
            ["settings: no file -D delimiter=,", "runner local", "split 130 rows of 2 feed files", "published "],
        ),
    ],
)
def test_other_commands_print_their_steps_too(tmp_path, monkeypatch, capsys, commands, starts):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SAMPLE / "master", "base/master")
    shutil.copytree(SAMPLE / "feed", "base/incr")
    for words in commands:
        capsys.readouterr()
        assert main(["-v", *shlex.split(words.format(config=f"--config {SAMPLE}/bumu.properties"))]) == 0

    steps = [line.partition("  ")[2].split("  ")[-1] for line in capsys.readouterr().err.splitlines()]
    assert [(step[: len(start)], start) for step, start in zip(steps, starts, strict=True)] == [
        (start, start) for start in starts
    ]


@pytest.mark.parametrize(
    ("words", "traceback"), [(["-v"], False), (["-vv"], True), (["-v", "-v"], True), (["--verbose", "--verbose"], True)]
)
def test_verbose_shows_which_error_ended_a_command_and_twice_the_traceback(tmp_path, capsys, words, traceback):
    assert main(["verify", *words, f"{tmp_path}/none"]) == 2

    *steps, last = capsys.readouterr().err.splitlines()
    assert last == f"mutator: error: {tmp_path}/none: there is no such directory; check the path"
    assert re.search(r"  failed: error path\.missing, exit code 2; mutator \S+ \(Python ", steps[0])
    assert ("in _verify" in "".join(steps)) == traceback == (len(steps) > 1)


def test_a_bug_shows_its_traceback_always(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(merge, "carry_out", None)

    assert main(["-q", *RUN, f"{tmp_path}/out"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_quiet_and_verbose_are_opposites(capsys):
    assert main(["-q", "verify", "x", "-v"]) == 2
    assert "--quiet and --verbose are opposites: give one of them" in capsys.readouterr().err


def test_the_scripts_of_jobs_have_the_options(tmp_path, capsys):
    assert job("bulk_mutate.py", ["-q", *RUN[1:], f"{tmp_path}/out"]) == 0
    assert capsys.readouterr() == ("", "")


# One spelling of an option, and one meaning


OLD_SPELLINGS = {
    "partition --feed f --by day --to o": "partition --feed f --partitioned-by day --output o",
    "bridge export --from t --to o": "bridge export --master t --output o",
    "bridge import --from t --to o": "bridge import --text t --output o",
    "bridge run --from t --text c --feed f": "bridge run --master t --text c --feed f",
    "table create t --from d": "table create t --dataset d",
    "table scan t --format json": "table scan t --json",
    "table changes t --from 1 --format json": "table changes t --from 1 --json",
    "changes o --format=json": "changes o --json",
    "changes o --files=d": "changes o --changes=d",
}


@pytest.mark.parametrize("old", OLD_SPELLINGS)
def test_an_old_spelling_still_works_but_is_not_in_the_help(old, capsys):
    new = OLD_SPELLINGS[old]
    parsed = [vars(program().parse_args(words.split())) for words in (old, new)]
    found = {str({name: value for name, value in one.items() if name not in ("_given", "usage")}) for one in parsed}
    assert len(found) == 1
    assert main([*takewhile(lambda word: word[:1] != "-", new.split()), "--help"]) == 0
    shown = set(re.findall(r"--[\w-]+|\bjson\b", capsys.readouterr().out))
    assert not shown & (set(re.findall(r"--[\w-]+|\bjson\b", old)) - set(re.findall(r"--[\w-]+", new)) - {"--format"})


KINDS = {"A": "V", "B": "V", "DIR": "PATH", "FILE": "PATH"}
SEVERAL_KINDS = {
    "--to": {"FIELDS", "V"},  # a version to restore, and an order to change to
    "--table": {"TABLE", "DB.NAME", "product, sales"},  # of mutator, of a metastore, of the sample data
    "--format": {"{csv,parquet}", "orc, parquet, avro"},  # of rows, of a table
    "--version": {"", "V"},  # of mutator, of a table
}


def test_an_option_takes_the_same_kind_of_value_on_every_command():
    found: dict[str, set[str]] = {}
    for action in program().all_actions():
        for name in action.option_strings:
            kind = action.metavar or (", ".join(action.choices) if action.choices else "")
            found.setdefault(name, set()).add(KINDS.get(kind, kind))
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == SEVERAL_KINDS


# Colours


@pytest.mark.parametrize(
    ("variables", "terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_errors_and_warnings_are_coloured_on_a_terminal(tmp_path, monkeypatch, capsys, variables, terminal, coloured):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(merge, "carry_out", None)  # a bug, after the warnings

    assert main([*RUN, f"{tmp_path}/out"]) == 70
    assert main(["rnu"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    red, yellow, end = ("\x1b[1;31m", "\x1b[1;33m", "\x1b[0m") if coloured else ("", "", "")
    lines = err.splitlines()
    assert lines[0].startswith(f"mutator: {yellow}warning:{end} ")
    bug = next(number for number, line in enumerate(lines) if line.startswith(f"mutator: {red}error:{end} TypeError: "))
    assert lines[bug - 1].startswith(f"mutator {__version__} (Python ")
    assert lines[-1].startswith(f"mutator: {red}error:{end} there is no command")


# The version, and python -m mutator


def test_version(capsys):
    assert main(["--version"]) == 0

    out, err = capsys.readouterr()
    assert re.fullmatch(rf"mutator {re.escape(__version__)} \(Python [\d.]+\S*, pyspark \S+, pyarrow \S+\)\n", out)
    assert err == ""


def test_the_package_has_the_version_of_its_module():
    assert "version = attr: mutator.errors.version.VERSION" in (ROOT / "setup.cfg").read_text()


@pytest.mark.parametrize("module", ["mutator", "mutator.cli"])
def test_python_m(module):
    command = [sys.executable, "-m", module, "--version"]
    done = subprocess.run(command, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True)

    assert done.returncode == 0
    assert done.stdout.startswith(f"mutator {__version__} (")


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--master", "", "--feed", "f", "--output", "o"],
        ["run", "--master", "m", "--feed", "", "--output", "o"],
        ["run", "--master", "m", "--feed", "f", "--output", ""],
        ["diff", "", "new"],
        ["workflow", "status", ""],
        ["table", "scan", ""],
    ],
    ids=" ".join,
)
def test_an_empty_path_is_an_error(words, tmp_path, monkeypatch, capsys):
    """A variable of a shell that is not set would choose the current directory."""
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert "the path is empty" in capsys.readouterr().err
