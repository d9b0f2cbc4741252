"""docs/json.md names every member of every JSON object that a command prints, and no other."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
from pathlib import Path

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator.cli import main
from mutator.cli.command import Group
from mutator.cli.program import COMMANDS
from tests.support import json_schema
from tests.support.cluster import ROOT

PAGE = (ROOT / "docs" / "json.md").read_text()
PRODUCT = "sample_data/product"
CONFIG = f"--config {PRODUCT}/bumu.properties"
RUN = f"run {CONFIG} --master {PRODUCT}/master --feed {PRODUCT}/feed --output"


def documented(heading):
    """Return the members that the page has below a heading."""
    return sorted(json_schema.meanings(PAGE, heading))


def check_schema(heading, found):
    """Compare a printed object with the schema; with MUTATOR_WRITE_SCHEMA=1, write what was printed into the schema."""
    optional = {"repaired", "not_repaired"}
    if os.environ.get("MUTATOR_WRITE_SCHEMA"):
        json_schema.add(heading, found, json_schema.meanings(PAGE, heading), optional)
    whole = json_schema.schema()
    definition = whole["$defs"][heading]
    names = list(definition["properties"])
    assert sorted(names) == documented(heading)
    assert set(names) - set(definition["required"]) <= optional
    jsonschema.validate(found, {"$ref": f"#/$defs/{heading}", "$defs": {heading: definition}})


@pytest.fixture
def place(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(f"{PRODUCT}/master", "base/master")
    shutil.copytree(f"{PRODUCT}/feed", "base/incr")
    for name in ("table", "feed"):
        Path(name).mkdir()
    pq.write_table(pa.table({"id": [1, 2], "ts": [10, 10], "price": [5, 6]}), "table/part-0.parquet")
    Path("feed/ups.txt").write_text("2,20,7\n")
    return tmp_path


def printed(capsys, words):
    """Run a command with --json; return what it printed."""
    capsys.readouterr()
    assert main([*shlex.split(words), "--json"]) == 0
    return capsys.readouterr().out


WORKFLOW = f"base {CONFIG} -D claim.min.age=0s"
SPLIT = "--partitioned-by 6,7 -D delimiter=, -D key=0,1"
BRIDGE = "--master table -D key=id -D order_by=ts -D runner=local"
CREATE = "table create versioned --key id --order-by ts"
APPLY = "table apply versioned --feed table -D runner=local"
CASES = [
    ("mutator init", [f"init --master {PRODUCT}/master --feed {PRODUCT}/feed"]),
    ("mutator run", [f"{RUN} out"]),
    ("mutator run", [f"{RUN} out --dry-run"]),
    ("mutator verify DIR", [f"{RUN} out", "verify out"]),
    ("mutator verify DIR", [f"{RUN} out", "verify --repair out"]),
    ("mutator verify BASE", [f"workflow run {WORKFLOW}", "verify base"]),
    ("mutator diff", [f"diff {PRODUCT}/master --feed {PRODUCT}/feed {CONFIG}"]),
    ("mutator explain", [f"workflow run {WORKFLOW}", f"explain base VR8NCNE7DV {CONFIG}"]),
    ("mutator explain", [CREATE, APPLY, "explain versioned 2"]),
    ("mutator workflow run", [f"workflow run {WORKFLOW}"]),
    ("mutator workflow status", [f"workflow run {WORKFLOW}", "workflow status base"]),
    ("mutator workflow report", [f"workflow run {WORKFLOW}", "workflow report base"]),
    ("mutator workflow history", [f"workflow run {WORKFLOW}", "workflow history base"]),
    ("mutator table create", [CREATE]),
    ("mutator table apply", [CREATE, APPLY]),
    ("mutator table insert-overwrite", [CREATE, f"table insert-overwrite {APPLY.partition('apply ')[2]}"]),
    ("mutator table insert-overwrite-table", [CREATE, f"table insert-overwrite-table {APPLY.partition('apply ')[2]}"]),
    ("mutator table get", [CREATE, APPLY, "table get versioned 2 --all"]),
    ("mutator table log", [CREATE, APPLY, "table log versioned"]),
    ("mutator table describe", [CREATE, APPLY, "table describe versioned"]),
    ("mutator table compact", [CREATE, APPLY, "table compact versioned --all --runner local"]),
    ("mutator table clean", [CREATE, APPLY, "table clean versioned --keep-versions 1 --dry-run"]),
    ("mutator table tag", [CREATE, APPLY, "table tag versioned first --version 1"]),
    ("mutator table tags", [CREATE, APPLY, "table tag versioned first", "table tags versioned"]),
    ("mutator order", [CREATE, APPLY, "order versioned --to price --dry-run"]),
    ("mutator table restore", [CREATE, APPLY, "table restore versioned --to 0"]),
    ("mutator table bookmark", [CREATE, APPLY, "table bookmark versioned reports --version 0"]),
    ("mutator table bookmarks", [CREATE, APPLY, "table bookmark versioned reports", "table bookmarks versioned"]),
    ("mutator table export", [CREATE, APPLY, "table export versioned exported --runner local"]),
    ("mutator table verify", [CREATE, APPLY, "table verify versioned --runner local"]),
    ("mutator run-many", ["run-many sample_data/tables.toml"]),
    ("mutator partition", [f"partition --feed sample_data/sales/feed --output split {SPLIT}"]),
    (
        "mutator partition-runs",
        [
            f"partition --feed sample_data/sales/feed --output split {SPLIT}",
            f"partition --feed sample_data/sales/master --output master {SPLIT}",
            "partition-runs --config sample_data/sales/sales.properties --master master --feed split --output out",
        ],
    ),
    ("mutator bridge export", [f"bridge export {BRIDGE} --output text"]),
    (
        "mutator bridge import",
        [
            f"bridge export {BRIDGE} --output text",
            "bridge import --text text --output new --format parquet -D runner=local",
        ],
    ),
    ("mutator bridge run", [f"bridge run {BRIDGE} --text text --feed feed"]),
    ("mutator demo", ["demo"]),
]


@pytest.mark.thorough(keep=12)
@pytest.mark.parametrize(("heading", "commands"), CASES)
def test_the_page_names_the_members(place, capsys, heading, commands):
    for words in commands:
        out = printed(capsys, words)

    found = json.loads(out)
    found = found[0] if isinstance(found, list) else found
    optional = {"repaired", "not_repaired"} - found.keys()
    assert [name for name in documented(heading) if name not in optional] == sorted(found)
    check_schema(heading, found)


def test_the_schema_has_no_other_command():
    assert set(json_schema.schema()["$defs"]) == {heading for heading, _ in CASES}


def test_watch_prints_a_line_for_each_run(place, capsys):
    [line] = printed(capsys, f"workflow watch {WORKFLOW} --runs 1").splitlines()

    assert sorted(json.loads(line)) == documented("mutator workflow run")


def test_restore_prints_the_object_of_a_run(place, capsys):
    printed(capsys, f"workflow run {WORKFLOW}")
    shutil.copy(f"{PRODUCT}/feed/ups_prod.txt", "base/incr/again.txt")
    printed(capsys, f"workflow run {WORKFLOW} -D consumed.files=merge")

    found = json.loads(printed(capsys, "workflow restore base --to 1"))

    assert found["restored"] == 1
    assert sorted(found) == documented("mutator workflow run")


def test_verify_names_the_differences(place, capsys):
    printed(capsys, f"{RUN} out")
    [part, _] = sorted(Path("out").glob("part-*"))
    part.unlink()

    assert main(["verify", "out", "--json"]) == 3

    found = json.loads(capsys.readouterr().out)
    assert not found["whole"]
    assert found["differences"] == [
        {"what": "is missing", "file": part.name, "cure": "restore it from a copy on another disk"}
    ]


def test_every_command_with_a_report_is_on_the_page():
    """All but those whose output is rows, a script or a configuration."""
    commands = {
        f"mutator {command.name} {inner.name}" if isinstance(command, Group) else f"mutator {command.name}": inner
        for command in COMMANDS
        for inner in (command.commands if isinstance(command, Group) else [command])
    }

    head, *_ = PAGE.partition("\n## ")
    without = set()
    for name, command in commands.items():
        parser = argparse.ArgumentParser()
        command.fill(parser)
        without |= set() if "--json" in parser.format_help() else {name}
    assert without == {
        *("mutator sample new", "mutator sample upsert", "mutator sample delete", "mutator completion", "mutator help"),
    }
    assert {command for command in commands if f"`{command}" not in PAGE} <= without
    assert "`mutator sample` prints rows, `mutator completion` a script and `mutator help` text" in head


@pytest.mark.parametrize("words", ["table scan versioned", "table changes versioned --from 0", "changes out"])
def test_json_of_rows_is_an_object_on_each_line(place, capsysbinary, words):
    for command in (CREATE, APPLY, f"{RUN} out -D changes=true"):
        assert main(shlex.split(command)) == 0
    capsysbinary.readouterr()

    assert main([*shlex.split(words), "--json"]) == 0
    rows = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert main([*shlex.split(words), "--format", "json"]) == 0

    assert rows == [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert len(rows) > 1
