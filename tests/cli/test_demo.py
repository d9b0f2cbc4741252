"""``mutator demo``: the samples come with the package, and three records are shown before and after."""

import json
import os

import pytest

from mutator.cli import main
from tests.cli.test_loaded_modules import SPARK, loaded_by
from tests.support.cluster import ROOT, merged_sample, rows


def test_demo_copies_the_samples_and_merges_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MASTER", "spark://nowhere:7077")  # the demo needs no Spark

    assert main(["demo"]) == 0

    out, err = capsys.readouterr()
    assert err == ""
    assert "inserted                        30      kept                           904" in out
    shown = out.partition("Three records, before and after:\n\n")[2].split("\n\n")
    assert [text.split() for text in shown[0].splitlines()] == [
        ["updated:", "the", "inventory,", "the", "fifth", "field,", "goes", "from", "88", "to", "82"],
        ["master", "VR8NCNE7DV,tablet,samsung,279,88,1425931207"],
        ["upsert", "VR8NCNE7DV,tablet,samsung,279,82,1427759321"],
        ["delete", "-"],
        ["result", "VR8NCNE7DV,tablet,samsung,279,82,1427759321"],
    ]
    assert [text.splitlines()[0] for text in shown[1:3]] == ["inserted", "deleted"]
    assert rows(tmp_path / "mutator-demo" / "merged") == merged_sample()
    copied = tmp_path / "mutator-demo" / "sample_data"
    originals = sorted(path for path in (ROOT / "sample_data").rglob("*") if path.is_file())
    assert {path.relative_to(copied): path.read_bytes() for path in copied.rglob("*") if path.is_file()} == {
        path.relative_to(ROOT / "sample_data"): path.read_bytes() for path in originals
    }


def test_demo_prints_the_command_that_it_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "a/b"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("$ mutator run ")]

    assert main([*line.split()[2:-1], "again"]) == 0

    assert rows(tmp_path / "again") == merged_sample()


def test_demo_as_json(tmp_path, capsys):
    assert main(["demo", f"{tmp_path}/demo", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["directory"] == f"{tmp_path}/demo"
    assert found["report"]["counts"]["feed updated"] == 66
    assert [(record["outcome"], record["result"] is None) for record in found["records"]] == [
        ("updated", False),
        ("inserted", False),
        ("deleted", True),
    ]


@pytest.mark.parametrize(
    ("directory", "code", "words"),
    [
        (
            ".",
            5,
            "already exists, perhaps from an earlier demo; move it away, or name another directory",
        ),
        ("s3://bucket/demo", 2, "name a local directory"),
        ("/proc/demo", 4, "/proc"),
    ],
)
def test_demo_that_cannot_be_made(tmp_path, monkeypatch, capsys, directory, code, words):
    monkeypatch.chdir(tmp_path)

    assert main(["demo", directory]) == code

    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_a_second_demo_shows_how_to_name_another_directory(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mutator-demo").mkdir()

    assert main(["demo"]) == 5
    assert "or name another directory, as in mutator demo DIR" in capsys.readouterr().err
    assert main(["demo", "mutator-demo/2"]) == 0


@pytest.mark.processes
def test_demo_is_quick_and_loads_no_spark(tmp_path):
    before = os.times()
    loaded = loaded_by("demo", tmp_path / "demo")
    after = os.times()

    assert loaded & SPARK == set()
    # Seconds of CPU, which other work on the machine does not change much; 1.0 when this was written.
    assert sum(after[2:4]) - sum(before[2:4]) < 2
