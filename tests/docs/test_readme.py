"""The README and the pages of docs/ are correct: commands run, outputs are compared, tables are complete."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from mutator.config.reference import json_schema, markdown_of_short_names, markdown_reference
from mutator.rules.key_hash import bucket_of, hash_key
from mutator.rules.truth_table import FEED_OUTCOMES, MASTER_OUTCOMES, RARE_OUTCOMES, TRUTH_TABLE
from tests.support import console
from tests.support.cluster import environment, run
from tests.support.console import compare, console_blocks, same, steps

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FORMATS = (ROOT / "docs" / "formats.md").read_text()
BRIDGE = (ROOT / "docs" / "bridge.md").read_text()
S3 = (ROOT / "docs" / "s3.md").read_text()
MANY = (ROOT / "docs" / "many.md").read_text()
PARTITIONS = (ROOT / "docs" / "partitions.md").read_text()
JSON = (ROOT / "docs" / "json.md").read_text()
FORMAT = (ROOT / "docs" / "format.md").read_text()
INIT = (ROOT / "docs" / "init.md").read_text()
CONTRACT = (ROOT / "docs" / "contract.md").read_text()
RUN = (ROOT / "docs" / "run.md").read_text()
START = (ROOT / "docs" / "start.md").read_text()
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()


def test_every_command_of_the_readme_prints_its_output(tmp_path, monkeypatch, capfd):
    (block,) = console_blocks(README)
    for path, content in re.findall(r"(?m)^\$ cat (\w+/\w+\.csv)\n((?:[^$].*\n)+)", block):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(content)

    compare(block, tmp_path, monkeypatch, capfd)

    assert len(README.splitlines()) <= 130


def test_every_command_of_the_tutorial_prints_its_output(tmp_path, monkeypatch, capfd):
    """All blocks in one directory, one after the other."""
    later = ((r"\d{4}-\d\d-\d\d [\d:.]+Z", "TIME"), (r"TIME\.\d+\+00:00", "TIME"), (r"(?m) +\S+ +N s$", " N s"))
    monkeypatch.setattr(console, "VARIABLE", ((r"[\d,]+ bytes\)", "N bytes)"), *console.VARIABLE, *later))

    compare("".join(console_blocks(TUTORIAL)), tmp_path, monkeypatch, capfd)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("block", [*console_blocks(FORMATS), *console_blocks(BRIDGE), *console_blocks(JSON)])
def test_every_command_of_the_pages_on_formats_prints_its_output(block, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    # How large a Parquet file is depends on the version of its library.
    monkeypatch.setattr(console, "VARIABLE", (*console.VARIABLE, (r"[\d,]+ bytes", "N bytes")))
    compare(block, tmp_path, monkeypatch, capfd)


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("block", console_blocks(S3))
def test_every_command_of_the_page_on_s3_prints_its_output(block, s3, tmp_path, monkeypatch, capfd):
    s3.client().create_bucket(Bucket="lake")
    compare(block, tmp_path, monkeypatch, capfd)


@pytest.mark.parametrize("block", [*console_blocks(INIT), *console_blocks(RUN)])
def test_every_command_of_the_pages_on_init_and_run_prints_its_output(block, tmp_path, monkeypatch, capfd):
    compare(block, tmp_path, monkeypatch, capfd)


@pytest.mark.parametrize("block", console_blocks(MANY))
def test_every_command_of_the_page_on_many_tables_prints_its_output(block, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(console, "VARIABLE", ((r" +\d+\.\d s", " N s"), *console.VARIABLE))
    compare(block, tmp_path, monkeypatch, capfd)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("block", console_blocks(PARTITIONS))
def test_every_command_of_the_page_on_partitions_prints_its_output(block, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    # How large a Parquet file is depends on the version of its library.
    monkeypatch.setattr(console, "VARIABLE", (*console.VARIABLE, (r"\([\d,]+ bytes\)", "(N bytes)")))
    compare(block, tmp_path, monkeypatch, capfd)


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
@pytest.mark.processes
def test_the_demo_prints_its_output(tmp_path):
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    mutator = tmp_path / ".venv" / "bin" / "mutator"
    mutator.parent.mkdir(parents=True)
    mutator.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m mutator.cli "$@"\n')
    mutator.chmod(0o755)
    command = [ROOT / ".ci" / "demo.sh", mutator.relative_to(tmp_path), "build/demo"]

    done = run(command, environment(PYTHONPATH=str(ROOT)), cwd=tmp_path)

    shown = re.search(r"`make demo` prints:\n\n```(.*?)```", START, re.DOTALL)
    assert done.returncode == 0, done.stderr
    assert same(done.stdout) == same(shown[1])


def test_each_command_makes_a_directory_of_its_own():
    """Whoever follows several pages, or the tutorial first, must not find the output of an earlier command there."""
    made = [
        path
        for text in (TUTORIAL, PARTITIONS, BRIDGE, JSON)
        for block in console_blocks(text)
        for command, _ in steps(block)
        for path in re.findall(r"(?:--to|--output|^mkdir(?: -p)?) (\S+)", command)
    ]

    assert len(made) > 10
    assert sorted(made) == sorted(set(made))


def test_there_is_something_to_run():
    commands = [command for block in console_blocks(TUTORIAL) for command, _ in steps(block)]

    assert any(command.startswith("mutator run") for command in commands)
    assert any(command.startswith("mutator verify") for command in commands)


def test_the_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = set(
        re.findall(
            r"(?:`|^ *)make ([a-z0-9-]+)", README + (ROOT / "docs" / "spark-submit.md").read_text(), re.MULTILINE
        )
    )

    assert {"demo", "test", "zip"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_reference_is_made_from_the_definitions():
    page = (ROOT / "docs" / "settings.md").read_text()
    cure = "run `make reference`"
    assert page.endswith(markdown_reference()), cure
    assert markdown_of_short_names() in RUN, cure
    assert json.loads((ROOT / "docs" / "mutator.schema.json").read_text()) == json_schema(), cure


def test_the_truth_table_has_all_cases():
    section = CONTRACT.split("## Precedence")[1].split("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| a ") or "| nothing" in line]
    contents = {"a record": "record", "a tombstone": "tombstone", "nothing": "nothing"}
    shown = []
    for state, winner, _, feed, master in ([cell.strip() for cell in row] for row in rows):
        content = contents[state.split(",")[0]]
        operations = (
            ["upsert", "delete"] if winner == "any" else [winner.split()[1] if winner.startswith("a") else winner]
        )
        if winner.startswith("absent"):
            operations = ["absent"]
        late = "not newer" not in state and "newer" in state
        for operation in operations:
            outcomes = (feed.split(" (")[0].replace("–", ""), master.replace("–", ""))
            shown.append((content, operation, late, *outcomes))
    coded = [
        (content, operation, bool(late), decision.winner or "", decision.master or "")
        for (content, operation, late, _), decision in TRUTH_TABLE.items()
        if (content, operation) != ("tombstone", "absent")  # the same as "none", so the README omits it
    ]

    assert sorted(shown) == sorted(coded)


def test_the_snapshot_of_a_part_prints_its_output(tmp_path, monkeypatch, capfd):
    for path, content in re.findall(r"`([\w./]+)`:\n\n```csv\n(.*?)```", CONTRACT, re.DOTALL):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(content)
    (block,) = console_blocks(CONTRACT)

    compare(block, tmp_path, monkeypatch, capfd)


def test_the_sums_name_every_outcome():
    for name in (*FEED_OUTCOMES, *RARE_OUTCOMES):
        assert name in CONTRACT.split("feed rows   =")[1].split("master rows")[0]
    for name in MASTER_OUTCOMES:
        assert name in CONTRACT.split("master rows =")[1].split("\n")[0]


def test_the_format_page_shows_the_key_hash_as_it_is():
    rows = re.findall(r"^\| (`\w+`|\(empty\)) \| `(0x[0-9a-f]+)` \| (\d) \|$", FORMAT, re.MULTILINE)

    assert len(rows) == 3
    for name, value, bucket in rows:
        key = (b"" if name == "(empty)" else name.strip("`").encode(),)
        assert (hex(hash_key(key)), bucket_of(key, 7)) == (value, int(bucket))
