"""``mutator diff`` with the configuration of the runs that made the datasets, and with places that do not exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mutator.cli import main


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


@pytest.mark.parametrize("words", [("none", "new"), ("old", "none"), ("none", "--feed", "feed_2.csv")])
def test_a_dataset_that_does_not_exist_is_named_first(words, capsys):
    assert main(["diff", *words]) == 2
    assert "/none: there is no such dataset; check the path" in capsys.readouterr().err
