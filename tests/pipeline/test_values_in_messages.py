"""``report.fields`` keeps values of rows out of errors and warnings, and leaves settings and cures in them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import mutator
from mutator.cli import main
from mutator.config import parse
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import said_to

# What is wrong with a feed -> its name, its lines, its settings, and the cure in the message.
BAD = {
    "order": ("f_2.txt", ["secret-a,secret-b,31.12.2026", "secret-c,secret-d,30.12.2026"], {}, "Fix the rows, or"),
    "record": ("f_2.txt", ["secret-1,5,7", "secret-2,6,8"], {"header.lines": 1}, "set header.lines to the number of"),
    "delimiter": ("f_2.txt", ["secret-a;secret-b;7", "secret-c;secret-d;8"], {}, "-D 'field.delim.regex=;'"),
    "quote": ("f_2.csv", ['secret-a,"secret-b,7'], {"input.format": "csv"}, "Fix the row, or"),
    "twice": ("f_2.txt", ["secret-old,secret-b,9"], {"master.unique": True}, "without that setting, the last row"),
}
DATES = "have them delivered as in 2026-01-31"
COMMANDS = {
    "run": ["run", "--master", "m.txt", "--output", "out"],
    "apply": ["table", "apply", "t"],
    "diff": ["diff", "m.txt"],
    "diff of a feed": ["diff", "m.txt"],
}
CASES = [
    (command, kind)
    for command in COMMANDS
    for kind in BAD
    if (command, kind) not in {("apply", "quote"), ("apply", "twice"), ("diff", "twice")}
]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.txt").write_text("secret-old,secret-o,1\nsecret-old,secret-p,2\n")


def write(kind):
    name, rows, settings, cure = BAD[kind]
    Path(name).write_text("".join(f"{row}\n" for row in rows))
    return name, settings, cure


def words_of(settings):
    given = {"id.field.ordinals": 0, "temporal.ordering.field.ordinal": 2, **settings}
    return [word for name, value in given.items() for word in ("-D", f"{name}={str(value).lower()}")]


def answer(capsys, *words):
    code = main(list(words))
    shown = capsys.readouterr()
    return code, shown.out + shown.err


@pytest.mark.thorough(keep=8)
@pytest.mark.parametrize(("command", "kind"), CASES)
def test_an_error_has_its_cure_and_no_value(command, kind, capsys):
    name, settings, cure = write(kind)
    words = [*COMMANDS[command], *([] if command == "diff" else ["--feed"]), name]
    if command == "apply":
        settings = {"field.names": "id,price,at", **settings}
        assert main(["table", "create", "t", "--key", "id", "--order-by", "at"]) == 0
    texts = {}
    for fields in ("all", "none"):
        code, texts[fields] = answer(capsys, *words, *words_of({**settings, "report.fields": fields}))
        assert code in (2, 3), texts
        assert cure in texts[fields]
    assert "secret" not in texts["none"]
    assert "2026: " not in texts["none"]
    assert ("secret" in texts["all"]) == (kind != "delimiter")
    if kind == "order" and "diff" not in command:
        assert ("31.12.2026" in texts["all"], "31.12.2026" in texts["none"]) == (True, False)
        assert DATES in texts["none"]


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("call", ["merge", "diff", "diff of a feed"])
def test_the_members_of_an_error_have_no_value(call, kind):
    if (call, kind) == ("diff", "twice"):
        return
    name, settings, _ = write(kind)
    given = {"key": 0, "order_by": 2, "report_fields": "none"}
    given |= {setting.replace(".", "_"): value for setting, value in settings.items()}
    calls = {
        "merge": lambda: mutator.merge(master="m.txt", feed=name, output="out", **given),
        "diff": lambda: mutator.diff("m.txt", name, **given),
        "diff of a feed": lambda: mutator.diff("m.txt", feed=name, **given),
    }
    with pytest.raises(MutatorError) as stopped:
        calls[call]()

    assert "secret" not in f"{stopped.value} {dict(stopped.value.fields)}"
    assert "31.12" not in f"{stopped.value} {dict(stopped.value.fields)}"


def test_values_that_are_hidden_are_in_the_rejected_rows():
    Path("f_2.txt").write_text("secret-a,b,secret-date\n")
    report = mutator.merge(
        master="m.txt",
        feed="f_2.txt",
        output="out",
        key=0,
        order_by=2,
        report_fields="none",
        reject_policy="quarantine",
        max_reject_fraction=1,
        max_duplicate_fraction=1,
    )

    (row,) = report.rejects.to_arrow().to_pylist()
    assert "secret-date" in row["reason"]


@pytest.mark.parametrize("command", ["run", "apply", "diff of a feed"])
def test_a_warning_has_its_cure_and_no_value(command, capsys):
    Path("m.txt").write_text("secret-a,5,1\n")
    Path("f_2.txt").write_text("SECRET-A,5,2,secret-op\n secret-b,6,2,secret-op\n")
    Path("c.properties").write_text("op.code.field.ordinal=3\n")  # of the original job, so any code is an upsert
    words, settings = [*COMMANDS[command], "--feed", "f_2.txt", "--config", "c.properties"], {}
    if command == "apply":
        settings["field.names"] = "id,price,at,op"
        Path("first_1.txt").write_text("secret-a,5,1,U\n")
        more = words_of({**settings, "op.code.field.ordinal": 3, "report.fields": "none"})
        assert main(["table", "create", "t", "--key", "id", "--order-by", "at"]) == 0
        assert main(["table", "apply", "t", "--feed", "first_1.txt", *more]) == 0
    capsys.readouterr()
    texts = {}
    for fields in ("all", "none"):
        dry = [] if "diff" in command else ["--dry-run"]
        code, texts[fields] = answer(capsys, *words, *dry, *words_of({**settings, "report.fields": fields}))
        assert code == 0, texts
    assert "secret" not in texts["none"].lower()
    if "diff" not in command:
        assert "secret-op" in texts["all"]
        assert "check op.code.field.ordinal" in texts["none"] or "check --op" in texts["none"]


HIDDEN = " with the values that report.fields hides"
CODES = {  # code -> kind of its error, its cure, and this where values are hidden
    "X-secret": ("op.unknown", "use -D 'upsert.op.code=U,X-secret'", f"use upsert.op.code{HIDDEN};"),
    "-U": ("op.before", "use -D 'ignore.op.code=-U', which", f"use ignore.op.code{HIDDEN}, which"),
    "Del": ("op.deletes", "use -D 'deleted.op.code=D,Del'", f"use deleted.op.code{HIDDEN};"),
    "Delete": ("rejects", "use -D 'deleted.op.code=D,Delete'", f"use deleted.op.code{HIDDEN}."),
}


@pytest.mark.parametrize("code", CODES)
def test_a_cure_has_no_op_code_of_rows(code, capsys):
    kind, cure, hidden = CODES[code]
    Path("f_2.txt").write_text(f"b,5,3,U\nc,5,3,{code}\n")
    settings = {"op.code.field.ordinal": "3", "op.code.in.master": "false", "max.duplicate.fraction": "1"}
    settings |= {"upsert.op.code": "U"} if kind == "rejects" else {}
    words = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    texts = {}
    for fields in ("all", "none"):
        more = [*words, *words_of({"report.fields": fields})]
        exit_code, texts[fields] = answer(capsys, *COMMANDS["run"], "--feed", "f_2.txt", *more)
        assert exit_code == 3, texts
    assert cure in texts["all"]
    assert hidden in texts["none"]
    assert code not in texts["none"].replace("-D '", "")
    given = {name.replace(".", "_"): value for name, value in settings.items()}
    with pytest.raises(MutatorError) as stopped:
        mutator.merge(master="m.txt", feed="f_2.txt", key=0, order_by=2, report_fields="none", **given)
    assert stopped.value.kind == kind
    assert code not in f"{stopped.value} {dict(stopped.value.fields)}"


def test_warnings_have_no_control_characters():
    for name, order in (("m.txt", "z"), ("f_2.txt", "a")):
        Path(name).write_text("".join(f"{number},5,{order}\x01\n" for number in range(200)))
    settings = {"key": 0, "order_by": 2, "order_type": "string"}
    (warning,) = mutator.merge(master="m.txt", feed="f_2.txt", output="out", **settings).warnings

    assert r"order values are a\x01 to a\x01, and" in warning


CSV = {"input.format": "csv", "allow.empty.master": True}


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry run"])
@pytest.mark.parametrize("fields", ["all", "none"])
def test_a_warning_of_the_plan_is_printed_once_and_has_no_value(fields, more, capsys):
    Path("f_2.csv").write_text('b,"x\\\\secret",3\n')
    words = ["run", "--master", "none", "--output", "out", "--feed", "f_2.csv", *more]
    code, text = answer(capsys, *words, *words_of({**CSV, "report.fields": fields}))

    assert code == 0, text
    assert text.count("warning: each backslash within quotes in f_2.csv") == 1
    assert ("secret" in text) == (fields == "all")


def test_an_explanation_has_no_value_of_another_program(monkeypatch, capsys):
    def damaged(*_):
        raise error("damaged", path="f_2.txt", why="a is 'secret'")

    Path("f_2.txt").write_text("b,5,3\n")
    settings = {"key": 0, "order_by": 2, "max_duplicate_fraction": 1}
    mutator.merge(master="m.txt", feed="f_2.txt", output="out", **settings)
    monkeypatch.setattr("mutator.pipeline.explain.walk.feed_rows", damaged)
    for fields, is_shown in (("all", True), ("none", False)):
        _, text = answer(capsys, "explain", "out", "b", "--feed", "f_2.txt", "-D", f"report.fields={fields}")
        assert ("a is 'secret'" in text, "a is '…'" in text) == (is_shown, not is_shown), text


def test_order_values_in_errors_are_kept_out():
    Path("m.txt").write_text("a,5,1795500000\n")
    Path("f_2.txt").write_text("b,5,1795500001000\nc,5,1795500001\n")
    for fields, is_shown in (("all", True), ("-2", False)):
        with pytest.raises(MutatorError, match="in several units") as stopped:
            mutator.merge(master="m.txt", feed="f_2.txt", key=0, order_by=2, report_fields=fields)
        assert ("1795500001000" in str(stopped.value)) == is_shown
        assert ("1795500001000" in str(stopped.value.fields)) == is_shown


def test_the_text_of_another_program_has_no_value():
    settings = parse({"key": 0, "report.fields": "none"})
    with pytest.raises(MutatorError) as stopped, said_to(settings.wording.audience.writers):
        raise error("table.rows", table="t", what="a is 'secret'", cure="set 'key'")

    assert str(stopped.value) == "t: a is '…'; set 'key'"
    assert stopped.value.fields == {"table": "t", "what": "a is '…'", "cure": "set 'key'"}


def test_a_whole_row_is_kept_out_of_a_difference(capsys):
    Path("m.txt").write_text("a;secret-x;1\nb;secret\n")
    Path("n.txt").write_text("a;secret-y;1\nb;secret;c\n")
    words = ["diff", "m.txt", "n.txt", "--rows", "9", "--json", "--delimiter", ";", "--key", "0"]
    code, text = answer(capsys, *words, "-D", "field.count=any", "-D", "report.fields=0")
    assert code == 0, text
    assert "secret" not in text


def test_the_highest_expired_order_value_is_kept_out():
    Path("m.txt").write_text("a,5,1\n")
    Path("f_2.txt").write_text("a,5,7777,D\n")
    settings = {"key": 0, "order_by": 2, "op": 3, "max_delete_fraction": 1}
    mutator.merge(master="m.txt", feed="f_2.txt", output="out", tombstone_retention="1s", **settings)
    time.sleep(1.1)
    Path("f_3.txt").write_text("b,5,8888,U\n")
    mutator.merge(master="out", feed="f_3.txt", output="out3", tombstone_retention="1s", **settings)
    Path("f_4.txt").write_text("secret,5,7776,U\n")
    for fields, shown in (
        ("all", (True, True)),
        ("-2", (False, True)),
        ("-0", (True, False)),
        ("none", (False, False)),
    ):
        with pytest.raises(MutatorError) as stopped:
            mutator.merge(master="out3", feed="f_4.txt", before_horizon="fail", report_fields=fields, **settings)
        assert stopped.value.kind == "horizon"
        text = f"{stopped.value} {dict(stopped.value.fields)}"
        assert ("7777" in text, "secret" in text) == shown, fields


def test_the_order_values_of_snapshots_are_kept_out():
    settings = {"key": 0, "order_by": 2, "sync_mode": "full", "max_delete_fraction": 1}
    Path("s_1.txt").write_text("a,5,8888\n")
    Path("m.txt").write_text("a,5,1\n")
    mutator.merge(master="m.txt", feed="s_1.txt", output="out", **settings)
    Path("s_2.txt").write_text("a,6,7777\n")
    for fields, is_shown in (("all", True), ("-2", False), ("none", False)):
        with pytest.raises(MutatorError) as stopped:
            mutator.merge(master="out", feed="s_2.txt", report_fields=fields, **settings)
        assert stopped.value.kind == "snapshot.older"
        text = f"{stopped.value} {dict(stopped.value.fields)}"
        assert ("7777" in text, "8888" in text) == (is_shown, is_shown), fields
