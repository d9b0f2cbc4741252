"""The bridge as users start it: the commands, and the jobs for spark-submit."""

from __future__ import annotations

import json
import runpy
import sys

import pyarrow as pa
import pytest

from mutator.cli import main
from tests.support.bridge_tables import rows_of, text_of, write
from tests.support.cluster import ROOT, environment, run, submit

JOBS = ROOT / "jobs"
SETTINGS = ["-D", "id.field.ordinals=id", "-D", "temporal.ordering.field.ordinal=at", "-D", "num.reducer=2"]


@pytest.fixture
def table(tmp_path):
    """Create a table of two partitions, and a feed."""
    files = {
        f"dt={day}/{day}.orc": pa.table({"id": [day, 10 + day], "name": ["a,b", None], "at": [100, 100]})
        for day in (1, 2)
    }
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "ups_1.txt").write_text("1,one,200,1\n")
    return write(tmp_path / "table", files)


def places(table):
    root = table.parent
    return [str(word) for word in ("--master", table, "--text", root / "copy", "--feed", root / "feed", *SETTINGS)]


BEFORE = [(1, "a,b", 100, "1"), (11, None, 100, "1"), (12, None, 100, "2"), (2, "a,b", 100, "2")]


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_job_and_console_run_it_from_start_to_end(table):
    done = run([sys.executable, "-m", "mutator.cli", "bridge", "run", *places(table), "--json"], environment())
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["exported"]["rows"], answer["partitions"]) == (4, ["dt=1"])

    (table.parent / "feed" / "ups_2.txt").write_text("12,two,200,2\n")
    done = submit("local[2]", JOBS / "bridge_run.py", *places(table), "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["exported"], answer["partitions"]) == (None, ["dt=2"])
    assert rows_of(table) == [(1, "one", 200, "1"), BEFORE[1], (12, "two", 200, "2"), BEFORE[3]]


def job(name, *words):
    """Run a job file in this process, as spark-submit would run it in its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *map(str, words)])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(JOBS / name), run_name="__main__")
    return left.value.code


@pytest.mark.soak
@pytest.mark.parametrize("by", ["command", "job"])
def test_commands_and_jobs_print_the_same(sc, tmp_path, table, capsys, by):
    def call(name, *words):
        return job(f"bridge_{name}.py", *words) if by == "job" else main(["bridge", name, *map(str, words)])

    assert call("export", "--master", table, "--output", tmp_path / "text", "-D", "field.delim.regex=;") == 0
    assert capsys.readouterr().out.startswith(f"exported 4 rows of {table} (orc) to {tmp_path}/text: 2 files, ")
    assert text_of(tmp_path / "text")[-2:] == [b"1;a,b;100;1", b"2;a,b;100;2"]

    assert call("run", *places(table)) == 0
    assert "overwrote 1 partition in one step" in capsys.readouterr().out

    assert call("import", "--text", tmp_path / "text", "--output", tmp_path / "back", "--format", "avro") == 0
    assert capsys.readouterr().out.startswith(f"imported 4 rows of {tmp_path}/text into {tmp_path}/back: 2 files, ")
    assert rows_of(tmp_path / "back") == BEFORE


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (
            ["import", "--text", "{}/table", "--output", "{}/x"],
            2,
            "--format is missing; choose one of orc, parquet, avro",
        ),
        (
            ["import", "--text", "{}/table", "--output", "{}/x", "--format", "csv"],
            2,
            "'csv' is not one of orc",
        ),
        (
            ["export", "--master", "{}/table", "--table", "db.t", "--output", "{}/x"],
            2,
            "--master and --table exclude each other",
        ),
        (
            ["export", "--master", "{}/table", "--output", "{}/x", "-D", "field.delim.regex=::"],
            2,
            ":: cannot separate the fields",
        ),
        (["export", "--master", "{}/none", "--output", "{}/x"], 2, "there is no such table"),
        (["export", "--master", "{}/table", "--output", "{}/feed"], 5, "the output directory already exists"),
        (["run", "--master", "{}/table", "--text", "{}/copy", "--feed", "{}/feed"], 2, "--key: is missing"),
    ],
)
def test_mistakes_are_reported(tmp_path, table, capsys, words, code, what):
    before = sorted(tmp_path.rglob("*"))
    try:
        found = main(["bridge", *(word.format(tmp_path) for word in words)])
    except SystemExit as left:
        found = left.code

    output = capsys.readouterr()
    assert (found, output.out) == (code, "")
    assert what in output.err
    assert "Traceback" not in output.err
    assert sorted(tmp_path.rglob("*")) == before
