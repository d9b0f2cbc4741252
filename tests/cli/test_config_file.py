"""``mutator.toml`` of the current directory: which commands read it, the places in it, and what wins over it."""

import json
import os
from pathlib import Path

import pytest

from mutator.cli import job, main
from mutator.table.table import Table

SETTINGS = 'key = "id"\norder_by = "at"\nop = "op"\nheader = true\n'
PLACES = 'master = "master"\nfeed = "incr"\noutput = "new"\n'
READS = "mutator: reads mutator.toml of this directory; --config none leaves it out\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Make a directory with a master and a feed, and go there."""
    monkeypatch.chdir(tmp_path)
    for path, rows in {
        "master/m.csv": "id,at\nk1,1\nk2,1\n",
        "incr/f.csv": "id,at,op\nk1,2,D\nk3,2,I\n",
        "other/g.csv": "id,at,op\nk2,3,D\n",
    }.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(rows)
    return tmp_path


def rows(output):
    return sorted(row for path in Path(output).glob("part-*") for row in path.read_text().splitlines()[1:])


FOUND = SETTINGS + PLACES
MERGED = ["k2,1", "k3,2"]


@pytest.mark.parametrize(
    ("text", "words", "output", "expected"),
    [
        (FOUND, "", "new", MERGED),
        (FOUND, "-o o", "o", MERGED),
        (FOUND, "--feed other", "new", ["k1,1"]),
        (FOUND, "--feed other --feed incr -D max.delete.fraction=1", "new", ["k3,2"]),
        (FOUND.replace('"incr"', '["other", "incr"]'), "-D max.delete.fraction=1", "new", ["k3,2"]),
        (FOUND.replace('order_by = "at"\n', 'order_by = "x"\n'), "--order-by at", "new", MERGED),
        (FOUND, "--dry-run", None, []),
        (SETTINGS + PLACES.replace('output = "new"\n', ""), "--dry-run", None, []),
        (SETTINGS + PLACES + '"master.format" = "csv"\n', "", "new", MERGED),
        ("", "--master master --feed incr --output new --key id --order-by at --op op --header true", "new", MERGED),
    ],
)
def test_a_run_takes_what_it_is_not_given(text, words, output, expected, capsys):
    Path("mutator.toml").write_text(text)

    assert main(["run", "--runner", "local", *words.split()]) == 0

    assert capsys.readouterr().err == READS
    assert [path for path in ("new", "o") if Path(path).exists()] == ([] if output is None else [output])
    assert output is None or rows(output) == expected


@pytest.mark.parametrize(
    ("text", "words", "parts"),
    [
        (
            FOUND,
            "--config none",
            [
                "--master DIR, --feed PATH and --output DIR are missing; give them, or write master = …, ",
                "output = … into a .toml file that --config names",
            ],
        ),
        (
            SETTINGS,
            "--master m --feed f",
            ["--output DIR is missing; give it, or write output = … into mutator.toml\n"],
        ),
        (
            SETTINGS,
            "--dry-run",
            ["give them, or write master = … and feed = … into mutator.toml"],
        ),
        ('mastr = "master"\n' + FOUND, "", ["mutator.toml: ", "mastr: is not a known setting; did you mean master?"]),
        (
            'mastr = "m"\nfeeds = "f"\n' + SETTINGS,
            "--output o",
            ["are missing; mutator.toml has mastr (did you mean master?) and feeds (did you mean feed?)\n"],
        ),
        (PLACES + PLACES, "", ["mutator.toml: cannot be read as a configuration", "a key is given twice"]),
        ("master = master\n", "", ["mutator.toml: cannot be read as a configuration: Invalid value (at line 1"]),
        ("master = 3\nfeed = []\n", "", ["master: '3' must be a path, as text", "feed: '' must be a path, or a list"]),
        ('[tables.a]\nbase = "b"\n', "", ["it has several tables ([tables.NAME]), which mutator run-many merges"]),
        (FOUND, "-D master=x", ["-D master: is not a known setting but a place: give it to the command"]),
        (None, "", ["mutator.toml: cannot be read as a configuration: Is a directory"]),
        ("", "", ["--master DIR, --feed PATH and --output DIR are missing"]),
        (os.devnull, "", ["mutator.toml: cannot be read as a configuration: it is a FIFO or a device, not a regular"]),
        ("FIFO", "", ["mutator.toml: cannot be read as a configuration: it is a FIFO or a device, not a regular"]),
        (FOUND.replace("incr", "-"), "", ["feed: '-' is stdin, which only the command line can name; leave it out"]),
        (FOUND.replace('"incr"', '["incr", "./-"]'), "", ["feed: '-' is stdin"]),
        ("nowhere", "", ["mutator.toml: cannot be read as a configuration: No such file"]),
    ],
)
def test_a_file_that_cannot_be_used(text, words, parts, capsys):
    path = Path("mutator.toml")
    if text is None:
        path.mkdir()
    elif text == "FIFO":
        os.mkfifo(path)
    elif text in (os.devnull, "nowhere"):
        path.symlink_to(text)
    else:
        path.write_text(text)

    assert main(["run", *words.split()]) == 2

    found = capsys.readouterr().err
    assert [part for part in parts if part not in found] == []
    assert (READS in found) == ("none" not in words)


def test_a_named_file_replaces_it_and_has_places_beside_it(capsys):
    Path("mutator.toml").write_text("no TOML")
    Path("other/x.toml").write_text(SETTINGS + PLACES.replace(' = "', ' = "../'))

    assert main(["run", "--config", "other/x.toml", "--quiet"]) == 0
    assert rows("new") == MERGED
    assert capsys.readouterr().err == ""
    Path("x.properties").write_text("id.field.ordinals=0\nmaster=master\n")
    assert main(["run", "--config", "x.properties", "--master", "m", "--feed", "f", "--output", "o"]) == 2
    assert "master: is not a known setting but a place" in capsys.readouterr().err


def test_jobs_search_nothing_but_take_places_of_a_named_file(capsys):
    Path("mutator.toml").write_text(FOUND)

    assert job("bulk_mutate.py", ["--master", "master"]) == 2
    lines = "write feed = … and output = … into a .toml file that --config names"
    assert f"--feed PATH and --output DIR are missing; give them, or {lines}\n" in capsys.readouterr().err
    assert job("table.py", ["apply", "--feed", "f", "g"]) == 2
    order = "give TABLE before --feed, which takes every path after it, or write table = … into a .toml file"
    assert f"TABLE is missing; {order}" in capsys.readouterr().err
    assert job("bulk_mutate.py", ["--config", "mutator.toml", "--runner", "local"]) == 0
    assert READS not in capsys.readouterr().err


def test_commands_without_a_configuration_read_none(capsys):
    Path("mutator.toml").write_text("no TOML")

    assert main(["settings", "key"]) == 0
    assert main(["sample", "new", "3"]) == 0
    assert capsys.readouterr().err == ""


def test_a_workflow_and_a_table(capsys):
    """The table of the file is that of its base, and not of another one."""
    Path("incr").rename("feed")
    Path("base/incr").mkdir(parents=True)
    Path("base/incr/f.csv").write_text("id,at,op\nk1,2,I\n")
    Path("b/incr").mkdir(parents=True)
    text = SETTINGS + 'base = "base"\ntable = "t"\nfeed = "feed"\n"claim.min.age" = "0s"\n'
    Path("mutator.toml").write_text(text)

    assert main(["table", "create", "-q"]) == 0
    assert main(["table", "apply", "-q"]) == 0
    assert main(["workflow", "run", "-q"]) == 0
    assert Table("t").snapshot.version.number == 2
    capsys.readouterr()
    assert main(["workflow", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"].endswith("/t")
    assert main(["workflow", "run", "b", "-D", "allow.empty.master=true", "-q"]) == 0
    assert Table("t").snapshot.version.number == 2
    assert not Path("b/table").exists()
    # The last word may be meant as the table, or as one more feed.
    assert main(["table", "apply", "--feed", "feed", "t2"]) == 2
    assert "table = 't', but the words after an option may name another one; give TABLE before --feed, which" in (
        capsys.readouterr().err
    )
    assert main(["table", "apply", "--feed", "feed", "--feed", "feed", "-q"]) == 0
    for words in (["table", "apply"], ["partition-runs", "--master", "master", "--output", "o"]):
        assert main([*words, "--feed", "t"]) == 2
        assert "/t: is a versioned table, and no feed; to merge feed files into it, name it before --feed" in (
            capsys.readouterr().err
        )
    # These replace records, so they ask for their feed.
    assert main(["table", "insert-overwrite-table", "t"]) == 2
    Path("mutator.toml").write_text('base = "base"\n')  # whose settings the table has recorded
    assert main(["workflow", "status", "-q"]) == 0


def test_a_file_of_many_tables(capsys):
    Path("mutator.toml").write_text(f"[tables.a]\n{PLACES}config = 'a.toml'\n")
    Path("a.toml").write_text(SETTINGS)

    assert main(["run-many"]) == 0
    assert capsys.readouterr().err.startswith("mutator: reads mutator.toml of this directory\n")
    assert rows("new") == MERGED
    # The next table takes its settings from the manifest.
    Path("mutator.toml").write_text('[tables.a]\nmaster = "new"\nfeed = "other"\noutput = "newer"\n')
    assert main(["run-many", "--resume", "--json"]) == 0
    assert rows("newer") == ["k3,2"]
    Path("mutator.toml").unlink()
    capsys.readouterr()
    assert main(["run-many"]) == 2
    assert "TABLES.toml is missing; there is no mutator.toml here" in capsys.readouterr().err


def test_a_place_is_explained_by_the_file_that_was_found(capsys):
    Path("mutator.toml").write_text(FOUND)
    assert main(["run", "-q"]) == 0

    assert main(["explain", "new", "k1", "--feed", "incr", "--before", "master"]) == 0
    found = capsys.readouterr().out
    Path("mutator.toml").unlink()
    assert main(["explain", "new", "k1", "--feed", "incr", "--before", "master"]) == 0
    assert capsys.readouterr().out.split("note")[0] == found.split("note")[0]


def test_init_and_run(capsys):
    """Two commands without an option: with a master and a feed alone in a directory."""
    assert main(["init"]) == 2
    assert "--feed: required; the directories here do not show which of them it is: incr, master, other" in (
        capsys.readouterr().err
    )
    Path("other/g.csv").unlink()
    Path("other").rmdir()
    assert main(["init", "--master", "master"]) == 2
    assert main(["init"]) == 0
    assert capsys.readouterr().out.endswith(":\nmutator run\n")
    assert main(["run", "-q"]) == 0
    assert rows("merged") == MERGED
    assert main(["run", "-q"]) == 5  # a run replaces nothing
    Path("conf").mkdir()
    assert main(["init", "--master", "merged", "--feed", "incr/f.csv", "--feed", "incr", "-o", "conf/x.toml"]) == 0
    assert capsys.readouterr().out.endswith(":\nmutator run --config conf/x.toml\n")
    places = 'master = "../merged"\nfeed = ["../incr/f.csv", "../incr"]\noutput = "../merged-2"\n'
    assert places in Path("conf/x.toml").read_text()
    assert main(["run", "--config", "conf/x.toml", "-q"]) == 0
    assert rows("merged-2") == MERGED
