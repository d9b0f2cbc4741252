"""A signal just after the log entry of a version: it exists, so the exit code and the message say what is missing."""

from __future__ import annotations

import json
import signal

import pytest

from mutator.cli import main
from mutator.dataset.versions.log import TableLog
from tests.support.made_once import copy_of_made

SIGTERM = 15


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    copy_of_made(tmp_path, fill)
    capsys.readouterr()
    return tmp_path


def fill(path):
    for number in range(3):
        (path / f"f_{number}.csv").write_text(f"id,at,op\n{number},1,U\n9,{number},U\n")
    table = str(path / "t")
    assert main(["table", "create", table, "--key", "id", "--order-by", "at", "--op", "op", "--buckets", "2"]) == 0
    for number in range(2):
        assert main(["table", "apply", table, "--feed", str(path / f"f_{number}.csv")]) == 0


def stopped(monkeypatch, capsys, words):
    """Run a command that gets a signal just after its first log entry; return its code, message and stdout."""
    real, made = TableLog.commit, []

    def commit(log, version):
        found = real(log, version)
        if not made:
            signal.raise_signal(SIGTERM)
        made.append(version.number)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(TableLog, "commit", commit)
        code = main(["table", *words.split()])
    out, err = capsys.readouterr()
    return code, err.splitlines()[-1].removeprefix("mutator: stopped from outside; "), out


LOG = "was not written: see what was merged with: mutator table log t"
APPLY = "--feed f_2.csv --runner local"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (f"apply t {APPLY}", 0, "the merge was committed"),
        (f"insert-overwrite t {APPLY}", 0, "the merge was committed"),
        (f"insert-overwrite-table t {APPLY}", 0, "the merge was committed"),
        ("compact t --all --runner local", 0, "the compaction was committed"),
        ("restore t --to 1", 0, "the restore was committed"),
        ("tag t first", 0, "the tag was committed"),
        ("clean t --keep-versions 1", 0, "the cleaning was committed"),
        (f"apply t {APPLY} --html page.html", 143, f"the merge was committed; page.html {LOG}"),
        (f"apply t {APPLY} --metrics m.prom", 0, "the merge was committed"),
        (f"apply t {APPLY} --lineage e.jsonl", 0, "the merge was committed"),
        (
            f"apply t {APPLY} --compact-after",
            143,
            "the merge was committed; the compaction after it may be missing: mutator table compact t",
        ),
    ],
)
def test_a_signal_after_the_entry_does_not_undo_the_version(place, monkeypatch, capsys, words, code, message):
    found, said, out = stopped(monkeypatch, capsys, words)

    assert (found, said) == (code, message)
    assert code or out

    assert main(["table", "verify", "t", "--runner", "local", "--quiet"]) == 0
    assert main(["table", "log", "t", "--json"]) == 0
    assert [one["version"] for one in json.loads(capsys.readouterr().out)] == [0, 1, 2, 3]


MERGES = ("apply", "insert-overwrite", "insert-overwrite-table")


@pytest.mark.parametrize(
    ("words", "members"),
    [
        *((f"{one} t {APPLY}", {"version": 3}) for one in MERGES),
        (f"apply t {APPLY} --metrics m.prom", {"version": 3}),
        ("compact t --all --runner local", {"version": 3}),
        ("restore t --to 1", {"version": 3}),
        ("tag t first", {"version": 3, "tagged": 2}),
        ("clean t --keep-versions 1", {"version": 3, "earliest_version": 2}),
    ],
)
def test_a_command_that_a_signal_cannot_stop_prints_its_answer(place, monkeypatch, capsys, words, members):
    code, message, out = stopped(monkeypatch, capsys, f"{words} --json")

    assert (code, message.endswith(" was committed")) == (0, True)
    assert {name: json.loads(out)[name] for name in members} == members


def test_a_second_signal_ends_a_command_before_its_answer(place, monkeypatch, capsys):
    monkeypatch.setattr("mutator.table.commit.add_hint", lambda *_: signal.raise_signal(SIGTERM))

    code, message, out = stopped(monkeypatch, capsys, f"apply t {APPLY}")

    assert (code, out) == (143, "")
    why = "its report was not printed: see what was merged with: mutator table log t"
    assert message == f"the merge was committed; {why}"


def test_a_signal_while_the_report_is_printed_says_that_it_is_missing(place, monkeypatch, capsys):
    monkeypatch.setattr("mutator.cli.options.shown", lambda *_: signal.raise_signal(SIGTERM))

    assert main(["table", *f"apply t {APPLY}".split()]) == 143

    assert "the merge was committed; its report was not printed: see what was" in capsys.readouterr().err


def test_the_files_of_an_apply_say_how_it_ended(place, monkeypatch, capsys):
    more = "--html page.html --metrics m.prom --lineage e.jsonl"

    assert stopped(monkeypatch, capsys, f"apply t {APPLY} {more}")[0] == 143

    assert 'mutator_exit_code{dataset="t"} 143.0' in (place / "m.prom").read_text()
    events = [json.loads(line)["eventType"] for line in (place / "e.jsonl").read_text().splitlines()]
    assert events == ["START", "COMPLETE"]


def test_a_signal_before_the_entry_commits_nothing(place, monkeypatch, capsys):
    monkeypatch.setattr("mutator.table.apply.check_signals", lambda: signal.raise_signal(SIGTERM), raising=True)

    assert main(["table", *f"apply t {APPLY} --lineage e.jsonl".split()]) == 143

    assert capsys.readouterr().err.endswith("mutator: stopped from outside; no version was committed\n")
    events = [json.loads(line)["eventType"] for line in (place / "e.jsonl").read_text().splitlines()]
    assert events == ["START", "FAIL"]


def test_an_event_that_a_signal_leaves_unsent_is_missing(place, monkeypatch, capsys):
    def hanging(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mutator.cli.lineage_events.LineageEvents.complete", hanging)

    assert main(["table", *f"apply t {APPLY} --lineage e.jsonl".split()]) == 130

    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"mutator: stopped from outside; the merge was committed; the last OpenLineage event {LOG}"


def test_the_last_event_is_sent_though_a_signal_stops_the_metrics(place, monkeypatch, capsys):
    def hanging(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mutator.cli.report_files._replace", hanging)

    assert main(["table", *f"apply t {APPLY} --lineage e.jsonl --metrics m.prom".split()]) == 130

    assert capsys.readouterr().err.splitlines()[-1].endswith(f"the merge was committed; m.prom {LOG}")
    events = [json.loads(line)["eventType"] for line in (place / "e.jsonl").read_text().splitlines()]
    assert events == ["START", "COMPLETE"]
