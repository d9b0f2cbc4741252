"""``mutator diff`` with the configuration of the runs that made the datasets, and with places that do not exist."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import mutator
from mutator.cli import main

FEED = "id,at,price,mail,op\na,5,82,HID1,U\n"
FIELDS = ("--key", "id", "--order-by", "at", "--op", "op", "--header", "true")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, rows in (("old/m.csv", ["id,price,at", "a,1,1", "b,1,1"]), ("new/m.csv", ["id,price,at", "a,2,2"])):
        Path(path).parent.mkdir()
        Path(path).write_text("".join(f"{row}\n" for row in rows))
    Path("feed_2.csv").write_text("id,price,at,op\nb,1,2,D\n")
    Path("runs.toml").write_text('key = "id"\norder_by = "at"\nop = "op"\nheader = true\n')


def counts(capsys, *words):
    assert main(["diff", *words, "--config", "runs.toml", "--json"]) == 0
    return {name: count for name, count in json.loads(capsys.readouterr().out)["counts"].items() if count}


def test_datasets_need_no_op_code_that_the_configuration_of_their_runs_names(capsys):
    assert counts(capsys, "old", "new") == {"changed": 1, "removed": 1}
    assert counts(capsys, "old", "--feed", "feed_2.csv")["removed"] == 1


def test_a_field_with_op_codes_in_one_dataset_is_a_field_of_its_records(capsys):
    Path("new/m.csv").write_text("id,price,at,op\na,2,2,U\nb,1,1,D\n")

    assert main(["diff", "old", "new", "--key", "id"]) == 0
    assert "op is a field of new alone" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("none", "new"), ("old", "none"), ("none", "--feed", "feed_2.csv")])
def test_a_dataset_that_does_not_exist_is_named_first(words, capsys):
    assert main(["diff", *words]) == 2
    assert "/none: there is no such dataset; check the path" in capsys.readouterr().err


def test_a_negative_number_of_records_to_show_is_refused(capsys):
    assert main(["diff", "old", "new", "--key", "id", "--rows", "-1"]) == 2
    assert "--rows is -1, but must be a number from 0" in capsys.readouterr().err


@pytest.mark.parametrize("managed", [True, False])
@pytest.mark.parametrize(
    ("op", "settings"), [(3, ["--key", "0", "--order-by", "2"]), (1, ["--key", "0", "--order-by", "3"])]
)
def test_the_op_code_of_the_runs_may_be_an_ordinal(capsys, op, settings, managed):
    def rows(*records):
        return "".join(",".join([*record[:op], "U", *record[op:]]) + "\n" for record in records)

    Path("one_1.txt").write_text(rows(["a", "5", "1"], ["b", "6", "1"]))
    Path("two_2.txt").write_text(rows(["a", "7", "2"], ["c", "8", "2"]))
    words = [*settings, "--op", str(op), "-D", "allow.empty.master=true", "--quiet"]
    Path("none").mkdir()
    for number, (master, feed) in enumerate((("none", "one_1.txt"), ("out0", "two_2.txt"))):
        assert main(["run", "--master", master, "--feed", feed, "--output", f"out{number}", *words]) == 0
    if not managed:
        for place in ("out0", "out1"):
            shutil.rmtree(Path(place) / "_mutator")
    capsys.readouterr()

    assert main(["diff", "out0", "out1", *settings, "--op", str(op), "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {"added": 1, "removed": 0, "changed": 1, "moved": 0}
    assert found["fields"] == {"field_1": 1, "field_2": 1}


@pytest.mark.parametrize("managed", [True, False])
def test_only_the_new_dataset_has_the_op_code(capsys, managed):
    """It is a copy of feed files."""
    Path("none").mkdir()
    Path("one_1.txt").write_text("a,5,1,U\nb,6,1,U\n")
    words = ["--key", "0", "--order-by", "2", "--op", "3"]
    made = [
        "run",
        "--master",
        "none",
        "--feed",
        "one_1.txt",
        "--output",
        "out",
        *words,
        "-D",
        "allow.empty.master=true",
    ]
    assert main([*made, "--quiet"]) == 0
    if not managed:
        shutil.rmtree("out/_mutator")
    Path("two_2.txt").write_text("a,7,2,U\nc,8,2,U\n")
    capsys.readouterr()

    assert main(["diff", "out", "two_2.txt", *words, "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["counts"] == {"added": 1, "removed": 1, "changed": 1, "moved": 0}


@pytest.mark.parametrize("setting", ["field.count=4", "field.names=id,price,op,at"])
def test_the_number_of_fields_of_a_feed_shows_that_datasets_lack_the_op_code(capsys, setting):
    Path("m.txt").write_text("a,5,7\n")
    Path("n.txt").write_text("a,6,7\n")
    words = ["--key", "0", "--order-by", "2", "--op", "1", "-D", setting, "--json"]

    assert main(["diff", "m.txt", "n.txt", *words]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["changed"] == 1


@pytest.mark.parametrize(("has_op", "changed"), [("false", 1), ("true", 0)])
def test_nothing_shows_whether_datasets_have_the_op_code(capsys, has_op, changed):
    """Read as an op code, the only field that differs would not be compared."""
    Path("m.txt").write_text("a,5,x,7\n")
    Path("n.txt").write_text("a,5,y,7\n")
    words = ["diff", "m.txt", "n.txt", "--key", "0", "--op", "2", "-D", "order_by=1"]

    assert main(words) == 2
    said = capsys.readouterr().err
    assert "rows of both have 4 fields, which does not show whether field 2 is an op code" in said

    assert main([*words, "-D", f"op.code.in.master={has_op}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["changed"] == changed


@pytest.mark.parametrize("settings", [["--key", "id", "--header", "true"], ["--key", "0"]])
def test_two_empty_datasets_have_no_differences(capsys, settings):
    for name in ("e1", "e2"):
        Path(name).mkdir()
    assert main(["diff", "e1", "e2", *settings]) == 0
    assert capsys.readouterr().out == "no differences\n"


def test_values_that_must_not_be_shown_are_kept_out(capsys):
    words = ["--key", "id", "--header", "true", "--rows", "9", "-D", "report.fields=-price,-at"]
    for more in ([], ["--json"]):
        assert main(["diff", "old", "new", *words, *more]) == 0
        shown = capsys.readouterr().out
        assert "…" in shown
        if more:
            (changed,) = json.loads(shown)["changed"]
            assert changed == {"key": {"id": "a"}, "changes": {"price": ["…", "…"], "at": ["…", "…"]}}
        else:
            assert "price: … => …" in shown


@pytest.mark.parametrize(("fields", "shown"), [("0", [True, False, False]), ("-3", [True, True, False])])
def test_fields_without_names_are_kept_out_by_their_ordinals_in_the_feed(capsys, fields, shown):
    Path("m.txt").write_text("a,secret1,secret2\n")
    Path("f_2.txt").write_text("a,5,U,7\n")
    words = ["--feed", "f_2.txt", "--key", "0", "--op", "2", "-D", f"report.fields={fields}", "--json"]
    assert main(["diff", "m.txt", *words]) == 0

    (changed,) = json.loads(capsys.readouterr().out)["changed"]
    found = [changed["key"]["field_0"], changed["changes"]["field_1"][0], changed["changes"]["field_2"][0]]
    assert [one != "…" for one in found] == shown


def test_the_first_master_is_among_the_versions_that_are_there(capsys):
    for name in ("master", "incr"):
        Path("base", name).mkdir(parents=True)
    Path("base/master/m.txt").write_text("a,1\n")
    Path("base/incr/u_1.txt").write_text("a,2\n")
    assert main(["workflow", "run", "base", "--key", "0", "-D", "claim.min.age=0s"]) == 0
    capsys.readouterr()

    assert main(["diff", "base@7", "base", "--key", "0"]) == 2
    assert "those are 0, 1" in capsys.readouterr().err
    assert main(["diff", "base@0", "base", "--key", "0"]) == 0


def test_a_row_that_is_shown_whole_is_kept_out(capsys):
    """Rows of any number of fields have no names of fields."""
    Path("m.txt").write_text("a,1,secret-old\n")
    Path("n.txt").write_text("a,1,secret-new,more\nb,2,secret-added\n")
    words = ["diff", "m.txt", "n.txt", "--key", "0", "--order-by", "1", "--rows", "9", "-D", "field.count=any"]
    for more in ([], ["--json"]):
        for fields, is_shown in (("all", True), ("-2", False), ("none", False), ("0,1", False)):
            assert main([*words, *more, "-D", f"report.fields={fields}"]) == 0
            assert ("secret" in capsys.readouterr().out) == is_shown, (more, fields)


def shown_without_hidden(capsys, old, new):
    """Return the printed records that differ, in which no hidden value is."""
    capsys.readouterr()
    assert main(["diff", old, new, "--rows", "9"]) == 0
    out = capsys.readouterr().out
    assert "HID" not in out
    return out


@pytest.mark.parametrize("value", ["id,at,price", "-mail"])
def test_values_that_the_runs_of_a_base_kept_out_stay_out(capsys, value):
    for path, rows in (("base/master/m.csv", "id,at,price,mail\na,1,1,HID0\n"), ("base/incr/p_1.csv", FEED)):
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text(rows)
    words = [*FIELDS, "-D", f"report.fields={value}", "-D", "claim.min.age=0s", "--quiet"]
    assert main(["workflow", "run", "base", *words]) == 0
    capsys.readouterr()

    for command in (["diff", "base@0", "base@1", "--rows", "9"], ["explain", "base", "a"]):
        assert main(command) == 0
        assert "HID" not in capsys.readouterr().out
        assert main([*command, "-D", "report.fields=all"]) == 0
        assert "HID1" in capsys.readouterr().out


def test_values_that_a_run_kept_out_by_ordinals_of_its_feed_stay_out(capsys):
    for path, row in (("m/m.txt", "a,1,10,HID0"), ("f/p_1.txt", "a,5,U,82,HID1"), ("g/p_2.txt", "a,6,U,83,HID2")):
        Path(path).parent.mkdir()
        Path(path).write_text(f"{row}\n")
    words = ["--key", "0", "--order-by", "1", "--op", "2", "-D", "report.fields=0,1,3", "--quiet"]
    assert main(["run", "--master", "m", "--feed", "f", "--output", "one", *words]) == 0
    assert main(["run", "--master", "one", "--feed", "g", "--output", "two", *words]) == 0

    out = shown_without_hidden(capsys, "one", "two")
    assert "82 => 83" in out


def test_values_that_a_table_keeps_out_stay_out(capsys):
    assert main(["table", "create", "t", *FIELDS, "-D", "report.fields=-mail", "--quiet"]) == 0
    for number, rows in enumerate((FEED, FEED.replace("HID1", "HID2").replace("a,5,", "a,6,")), 1):
        Path(f"f_{number}.csv").write_text(rows)
        assert main(["table", "apply", "t", "--feed", f"f_{number}.csv", "--quiet"]) == 0

    out = shown_without_hidden(capsys, "t@1", "t@2")
    assert "5 => 6" in out


def test_datasets_whose_runs_keep_out_different_values_show_none(capsys):
    Path("none").mkdir()
    for number, (master, hidden) in enumerate((("none", "price"), ("out0", "mail"))):
        Path("f_1.csv").write_text(f"id,at,price,mail,op\na,{number},SEEN{number},HID{number},U\n")
        words = [*FIELDS, "-D", f"report.fields=-{hidden}", "-D", "allow.empty.master=true", "--quiet"]
        assert main(["run", "--master", master, "--feed", "f_1.csv", "--output", f"out{number}", *words]) == 0

    out = shown_without_hidden(capsys, "out0", "out1")
    assert "1 changed" in out
    assert "SEEN" not in out


@pytest.mark.parametrize("kind", ["dataset", "table"])
def test_a_feed_is_read_as_the_next_run_would_read_it(kind, monkeypatch, capsys):
    """Neither its suffix nor an option says what the feed is, and which of its rows are deletes."""
    Path("in").mkdir()
    Path("in/f_1").write_text('{"id": 1, "at": 1, "v": "a", "op": "U"}\n{"id": 2, "at": 1, "v": "a", "op": "U"}\n')
    words = ["--key", "id", "--order-by", "at", "--op", "op", "-D", "feed.format=json", "-q"]
    if kind == "dataset":
        words += ["-D", "allow.empty.master=true", "-D", "output.format=parquet"]
        assert main(["run", "--master", "none", "--feed", "in", "--output", "place", *words]) == 0
    else:
        assert main(["table", "create", "place", *words]) == 0
        assert main(["table", "apply", "place", "--feed", "in", "-q"]) == 0
    Path("next").write_text('{"id": 1, "at": 2, "v": "b", "op": "U"}\n{"id": 2, "at": 2, "op": "D"}\n')
    capsys.readouterr()

    assert main(["diff", "place", "--feed", "next", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: count for name, count in found["counts"].items() if count} == {"changed": 1, "removed": 1}
    in_python = mutator.diff("place", feed="next")
    assert (len(in_python.changed), len(in_python.removed)) == (1, 1)


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("partitioned", [[], ["--partitioned-by", "shop"]])
@pytest.mark.parametrize("file_format", ["csv", "escaped", "avro", "parquet"])
def test_datasets_whose_records_lack_their_order_values(file_format, partitioned, capsys):
    words = ["--key", "id", "--order-by", "at,no", "--op", "op", "-D", "order.keep=false", "-q"]
    Path("none").mkdir()
    Path("f_1.csv").write_text("id,shop,at,no,op\na,1,5,1,U\nb,1,5,1,U\nc,2,5,1,U\nd,2,5,1,U\n")
    Path("f_2.csv").write_text("id,shop,at,no,op\na,2,5,2,U\nb,1,6,0,U\nc,2,5,2,D\n")
    first = ["-D", "allow.empty.master=true", "-D", f"output.format={file_format}", *partitioned]
    assert main(["run", "--master", "none", "--feed", "f_1.csv", "--output", "one", *words, *first]) == 0
    assert main(["run", "--master", "one", "--feed", "f_2.csv", "--output", "two", *words]) == 0
    capsys.readouterr()

    assert main(["diff", "one", "two", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["counts"]
    assert {name: count for name, count in found.items() if count} == {"removed": 1, "changed": 1}
    assert main(["diff", "two", "two", "-q"]) == 0
