"""The last run that failed is noted in a base: why, and with which feed files, until a run succeeds."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from mutator.cli import main
from mutator.dataset.version_log import lost
from mutator.errors import MutatorError, error
from mutator.storage.local import LocalStorage
from tests.support.html_page import check
from tests.support.workflow_base import BY_FIELD, Place

GOOD, BAD = "ups_1.csv", "ups_2.csv"
TEXT = "ups_1.txt"
KEY = ("--key", "id", "--order-by", "at", "--op", "op")
WORKFLOW = ("-D", "claim.min.age=0s", "-D", "runner=local", "-D", "bad.files=fail")
HEAD = "id,at,op,note\n"


def said(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(params=["master", "table"])
def base(request, tmp_path, capsys):
    base = tmp_path / "base"
    (base / "incr").mkdir(parents=True)
    if request.param == "table":
        assert main(["table", "create", str(base / "table"), *KEY, "--buckets", "2"]) == 0
        capsys.readouterr()
        return base, WORKFLOW
    (base / "master").mkdir()
    return base, (*KEY, *WORKFLOW, "-D", "allow.empty.master=true")


def arrive(base, bad="9,soon,U,secret"):
    (base / "incr" / GOOD).write_text(f"{HEAD}1,1,U,a\n2,1,U,b\n")
    (base / "incr" / BAD).write_text(f"{HEAD}{bad}\n")


def test_a_failed_feed_file_is_shown_with_its_message_until_a_run_succeeds(base, tmp_path, capsys):
    path, settings = base
    arrive(path)
    code, _, err = said(capsys, "workflow", "run", path, *settings)
    assert code == 3
    message = re.sub(r"\n *", " ", err.partition("error: ")[2].strip())

    code, out, _ = said(capsys, "workflow", "status", path, *settings)

    assert code == 5
    assert "state    needs attention, see below\n" in out
    assert "feed     2 files ready (1 of them failed in the last run), 0 waiting\n" in out
    assert f"ready: {GOOD}\nready, failed in the last run: {BAD}\n" in out
    assert re.search(rf"problem: the last run failed at \d{{4}}-\d\d-\d\dT[\d:+]+: {re.escape(message)}\n", out)
    found = json.loads(said(capsys, "workflow", "status", path, *settings, "--json")[1])
    assert found["ready"] == [GOOD, BAD]
    failed = found["failed"]
    assert (failed["kind"], failed["message"]) == ("rejects", message)
    assert (failed["feed"], failed["files"]) == ([BAD], 1)
    page = tmp_path / "page.html"
    code, out, _ = said(capsys, "workflow", "report", path, *settings, "--html", page)
    assert (code, f"ready, failed in the last run: {BAD}\n" in out) == (0, True)
    text = check(page.read_text()).text
    assert f"{BAD} failed in the last run; the next one claims it again {GOOD} ready: the next run claims it" in text
    assert "the last run failed at " in text

    (path / "incr" / BAD).write_text(f"{HEAD}9,1,U,c\n")
    assert said(capsys, "workflow", "run", path, *settings)[0] == 0
    code, out, _ = said(capsys, "workflow", "status", path, *settings, "--json")
    assert (code, json.loads(out)["failed"]) == (0, None)
    assert not (path / "_mutator" / "failed_run.json").exists()


FAULTS = {  # kind of the error of a file -> its content
    "op.unknown": f"{HEAD}9,1,X,b\n",
    "op.before": f"{HEAD}9,1,-U,b\n",
    "op.truncate": f"{HEAD}9,1,T,b\n",
    "op.deletes": f"{HEAD}9,1,delete,b\n",
    "rejects": f"{HEAD}9,soon,U,b\n",
    "schema.field": "id,op,note\n9,U,b\n",
    "markup": "<html>no such file</html>\n",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_failed_run_names_the_bad_files_alone_where_they_are(base, tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    path, settings = base
    arrive(path)
    (path / "incr" / BAD).write_text(FAULTS[kind])

    code, out, err = said(capsys, "workflow", "run", "base", *settings)

    assert (code, out, f"base/incr/{BAD}: " in err, "/working/" in err) == (3, "", True, False)
    note = json.loads((path / "_mutator" / "failed_run.json").read_text())
    assert (note["kind"], note["feed"]) == (kind, [BAD])
    assert (f"base/incr/{BAD}: " in note["message"], "/working/" in note["message"]) == (True, False)


def test_the_note_hides_values_that_reports_hide(base, capsys):
    path, settings = base
    arrive(path, "9,hidden-order,U,hidden-note")
    assert said(capsys, "workflow", "run", path, *settings, "-D", "report.fields=none")[0] == 3

    note = (path / "_mutator" / "failed_run.json").read_text()

    assert BAD in note
    assert "hidden" not in note


def test_an_error_that_names_no_file_is_of_all_claimed_files(tmp_path):
    place = Place(tmp_path / "base", BY_FIELD | {"max.delete.fraction": "0.1"})
    (place.path / "master" / "part.txt").write_text("1,1,a\n2,1,b\n")
    for number in range(120):
        place.arrive(f"ups_{number:03}.txt", "1,2,D,a")

    for _ in range(2):
        with pytest.raises(MutatorError):
            place.run()

    failed = place.status().failed
    assert failed is not None
    assert (len(failed.feed), failed.files, failed.kind) == (100, 120, "deletes")


def test_files_that_wait_are_marked_as_those_that_are_ready(tmp_path, capsys):
    place = Place(tmp_path / "base", BY_FIELD | {"max.delete.fraction": "0.1"})
    (place.path / "master" / "part.txt").write_text("1,1,a\n2,1,b\n")
    place.arrive("ups_1.txt", "1,2,U,a")
    place.arrive("ups_2.txt", "2,2,D,b")
    with pytest.raises(MutatorError):
        place.run()
    place.arrive("ups_3.txt", "1,3,U,a")
    os.utime(place.path / "incr" / "ups_1.txt", (0, 0))
    settings = ("--key", "0", "-D", "claim.min.age=1h")

    code, out, _ = said(capsys, "workflow", "status", place.path, *settings)

    assert code == 5
    assert "1 file ready (1 of them failed in the last run), 2 waiting (1 of them failed in the last run)\n" in out
    lines = [
        "ready, failed in the last run: ups_1.txt",
        "waiting: ups_3.txt: is ",
        "waiting, failed in the last run: ups_2.txt: is ",
    ]
    for line in lines:
        assert f"\n{line}" in out
    page = tmp_path / "page.html"
    code, out, _ = said(capsys, "workflow", "report", place.path, *settings, "--html", page)
    assert code == 0
    for line in lines:
        assert f"\n{line}" in out
    text = check(page.read_text()).text
    assert "ups_2.txt failed in the last run; it waits: it is " in text
    assert "ups_3.txt waits: it is " in text


def test_a_run_ends_as_without_the_note_where_it_cannot_be_written(tmp_path, monkeypatch):
    place = Place(tmp_path / "base", BY_FIELD)
    (place.path / "master" / "part.txt").write_text("1,1,a\n")
    place.arrive(TEXT, "1,soon,U,a")
    real = LocalStorage.replace

    def full(storage, path, data, *more):
        if path.endswith("failed_run.json"):
            raise error("storage", path=path, why="No space left on device")
        return real(storage, path, data, *more)

    monkeypatch.setattr(LocalStorage, "replace", full)
    with pytest.raises(MutatorError, match=TEXT) as caught:
        place.run()
    assert caught.value.kind == "rejects"
    assert place.status().failed is None


def test_a_damaged_note_is_forgotten(tmp_path):
    place = Place(tmp_path / "base", BY_FIELD)
    (place.path / "master" / "part.txt").write_text("1,1,a\n")
    place.arrive(TEXT, "1,soon,U,a")
    with pytest.raises(MutatorError):
        place.run()
    note = place.path / "_mutator" / "failed_run.json"
    assert place.status().failed is not None
    note.write_bytes(note.read_bytes().replace(b"rejects", b"rejectz"))

    assert place.status().failed is None
    assert place.status().problems == ()


REFUSED = [
    ("run", ("-D", "bogus=1"), "bogus"),
    ("watch", ("--config", "nofile.toml"), "nofile.toml: cannot be read as a configuration"),
    ("run", ("--order-type", "foo"), "'foo' must be long, decimal, timestamp or string"),
    ("watch", ("--html", "base/incr/page.html"), "page.html"),
]


@pytest.mark.parametrize(("command", "words", "what"), REFUSED)
def test_settings_that_are_refused_are_shown_until_a_run_succeeds(
    base, tmp_path, monkeypatch, capsys, command, words, what
):
    monkeypatch.chdir(tmp_path)
    path, settings = base
    (path / "incr" / GOOD).write_text(f"{HEAD}1,1,U,a\n")
    assert said(capsys, "workflow", command, "base", *settings, *words)[0] == 2

    code, out, _ = said(capsys, "workflow", "status", "base", *settings)

    assert code == 5
    assert "state    needs attention, see below\n" in out
    assert re.search(r"problem: the last run failed at \d{4}.*: .*" + re.escape(what), out)
    assert f"ready: {GOOD}\n" in out
    failed = json.loads(said(capsys, "workflow", "status", path, *settings, "--json")[1])["failed"]
    assert (failed["run"], failed["feed"], failed["files"]) == ("", [], 0)
    assert said(capsys, "workflow", "run", path, *settings)[0] == 0
    assert said(capsys, "workflow", "status", path, *settings)[0] == 0


def test_an_engine_that_a_table_does_not_have_is_shown(tmp_path, capsys):
    assert main(["table", "create", str(tmp_path / "table"), *KEY, "--quiet"]) == 0
    (tmp_path / "incr").mkdir()
    assert said(capsys, "workflow", "run", tmp_path, *WORKFLOW, "--engine", "records")[0] == 2

    code, out, _ = said(capsys, "workflow", "status", tmp_path, *WORKFLOW)

    assert code == 5
    assert "--engine records: a table has only the engine blocks" in out


@pytest.mark.parametrize("names", [(), ("incr",), ("data",), ("master",)], ids=["nothing", "file", "other", "dataset"])
def test_settings_that_are_refused_leave_no_trace_where_there_is_no_base(tmp_path, capsys, names):
    place = tmp_path / "place"
    for name in names:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("") if name == "incr" else (place / name).mkdir()
    before = sorted(tmp_path.rglob("*"))

    assert said(capsys, "workflow", "run", place, *KEY, *WORKFLOW, "-D", "bogus=1")[0] == 2

    assert sorted(tmp_path.rglob("*")) == before


def test_the_note_of_refused_settings_has_no_secrets(base, capsys):
    path, settings = base
    words = ("-D", "lock.timeout=s3://user:hidden@bucket/x")
    assert said(capsys, "workflow", "run", path, *settings, *words)[0] == 2

    note = (path / "_mutator" / "failed_run.json").read_text()

    assert "bucket/x" in note
    assert "hidden" not in note


def taken():
    raise lost("base", 1)


def test_a_signal_and_a_faster_run_are_no_failures(tmp_path, monkeypatch):
    place = Place(tmp_path / "base", BY_FIELD)
    (place.path / "master" / "part.txt").write_text("1,1,a\n")
    place.arrive(TEXT, "1,2,U,b")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts programs in the background without it
    monkeypatch.setattr("mutator.workflow.directory.run_phases.Run.verify", lambda _: signal.raise_signal(2))
    with pytest.raises(KeyboardInterrupt):
        place.run()
    assert place.status().failed is None
    monkeypatch.setattr("mutator.workflow.directory.run_phases.Run.verify", lambda _: taken())
    with pytest.raises(MutatorError):
        place.run()
    assert place.status().failed is None


def test_a_bug_is_noted_without_its_text(tmp_path, monkeypatch):
    place = Place(tmp_path / "base", BY_FIELD)
    (place.path / "master" / "part.txt").write_text("1,1,a\n")
    place.arrive(TEXT, "1,2,U,b")
    monkeypatch.setattr("mutator.workflow.directory.run_phases.Run.verify", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        place.run()

    failed = place.status().failed

    assert failed is not None
    assert (failed.kind, failed.message, failed.feed) == ("bug", "a bug in mutator: ZeroDivisionError", (TEXT,))
