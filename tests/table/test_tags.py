"""Tags: names of versions, which are in the log, in its order, in checkpoints, and usable wherever a version is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mutator import ConfigError, StateError, Table
from mutator.cli import main
from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from tests.table.test_bookmarks import new_table, rows
from tests.table.test_several_writers import at_phase

__all__ = ["new_table"]  # a fixture


def notes(found: Any) -> set[str]:
    return set(found.to_arrow().column("note").to_pylist())


def test_a_tag_is_a_version_with_the_same_rows(table: Table) -> None:
    table.tag("first", 1)
    assert (table.version, table.tags()) == (4, {"first": 1})
    assert notes(table.scan()) == {"n3"}
    assert list(table.changes(3)) == []
    entry = list(table.log())[-1]
    assert (entry.kind, entry.tags, entry.records, entry.files_added) == ("tag", {"first": 1}, 2, 0)
    assert table.verify().problems == ()


def test_a_tag_stands_for_its_version_everywhere(table: Table, tmp_path: Path) -> None:
    table.tag("first", 1)
    table.tag("second", 2)
    table.tag("same", "second")
    assert table.tags() == {"first": 1, "same": 2, "second": 2}
    assert notes(table.scan(version="first")) == {"n1"}
    assert table.get("a", version="second")["note"] == "n2"
    assert [one.version for one in table.history("a", version="second")] == [1, 2]
    assert notes(table.changes("first", "second")) == {"n1", "n2"}
    assert table.export(tmp_path / "out", version="first").version == 1
    assert table.at("second").version.number == 2


@pytest.mark.parametrize("command", ["tag", "bookmark"])
def test_a_command_names_the_value_that_is_no_name(table: Table, command: str, capsys: Any) -> None:
    assert main(["table", command, table.path, "a b"]) == 2
    assert "NAME: 'a b' must be letters, digits, '_', '.' and '-', at most 128, of which" in capsys.readouterr().err


def test_the_same_tag_again_is_no_version(table: Table) -> None:
    table.tag("first", 1)
    table.tag("first", 1)
    assert table.version == 4


def test_only_moving_takes_a_tag_from_another_version(table: Table) -> None:
    table.tag("mine", 1)
    with pytest.raises(StateError, match="mine names version 1"):
        table.tag("mine", 2)
    table.tag("mine", 2, move=True)
    assert Table(table.path).tags() == {"mine": 2}
    table.untag("mine")
    assert Table(table.path).tags() == {}
    assert table.version == 6


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda table: table.tag("x", 9), "version 9 does not exist; the earliest version is 0"),
        (lambda table: table.tag("x", -1), "version -1 does not exist"),
        (lambda table: table.tag("17"), "name is '17', a str, but should be letters"),
        (lambda table: table.tag("a/b"), "name is 'a/b'"),
        (lambda table: table.tag("x", 1.5), "the number of a version, a tag"),
        (lambda table: table.untag("x"), "has no tag x; its tags are: none"),
        (lambda table: table.scan(version="x"), "has no tag x"),
        (lambda table: table.get("a", version="x"), "has no tag x"),
        (lambda table: table.changes("x"), "has no tag x"),
    ],
)
def test_errors(table: Table, act: Callable[[Table], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        act(table)
    assert table.refresh().version == 3


def test_checkpoints_have_the_tags(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_EVERY", 2)
    table.tag("first", 1)
    table.apply(rows(5))
    table.untag("first")
    table.tag("other", 2)
    table.apply(rows(8))
    log = TableLog(table.path)
    read = {number: log.checkpoint(name) for number, name in log.checkpoints()}
    assert {number: one[1].tags for number, one in read.items() if one is not None} == {
        4: {"first": 1},
        6: {},
        8: {"other": 2},
    }
    assert Table(table.path).tags() == {"other": 2}
    assert table.verify().problems == ()


def test_a_tag_and_an_apply_at_once(table: Table) -> None:
    other = Table(table.path)
    with at_phase("commit", lambda: other.apply(rows(7))):
        table.tag("now")  # the version that was the newest when it began
    assert (table.version, table.tags()) == (5, {"now": 3})
    with at_phase("commit", lambda: other.tag("later")):
        table.apply(rows(8))
    assert (table.version, table.tags()) == (7, {"now": 3, "later": 5})
    assert notes(table.scan()) == {"n8"}


def test_two_tags_of_one_name_at_once(table: Table) -> None:
    other = Table(table.path)
    with (
        at_phase("commit", lambda: other.tag("mine", 1)),
        pytest.raises(StateError, match="mine names version 1"),
    ):
        table.tag("mine", 2)
    assert table.refresh().tags() == {"mine": 1}
    with at_phase("commit", lambda: other.tag("both", 2)):
        table.tag("both", 2)
    assert (table.version, table.tags()["both"]) == (5, 2)


def test_a_lost_answer_is_read_back(table: Table) -> None:
    commit = TableLog.commit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableLog, "commit", lambda log, version: commit(log, version) and commit(log, version))
        table.tag("first", 1)
    assert (table.version, table.tags()) == (4, {"first": 1})


def test_commands(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    path = table.path
    assert main(["table", "tag", path, "first", "--version", "1"]) == 0
    assert capsys.readouterr().out == f"table {path} is now version 4: tag first is version 1\n"
    assert main(["table", "tag", path, "first", "--version", "1"]) == 0
    assert capsys.readouterr().out == f"table {path} is still version 4: tag first is version 1\n"
    assert main(["table", "tag", path, "first", "--version", "2"]) == 5
    assert main(["table", "tag", path, "first", "--move", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tagged"] == 4
    assert main(["table", "scan", path, "--version", "first", "--columns", "note"]) == 0
    assert capsys.readouterr().out == "note\nn3\nn3\n"
    assert main(["table", "describe", path]) == 0
    assert "  tag first" in capsys.readouterr().out
    assert main(["table", "tag", path, "first", "--remove", "--move"]) == 2
    assert main(["table", "tag", path, "first", "--remove"]) == 0
    assert capsys.readouterr().out == f"table {path} is now version 6: removed tag first\n"
    assert main(["table", "tags", path]) == 0
    assert capsys.readouterr().out == "no tags\n"
    assert main(["table", "scan", path, "--version", "first"]) == 2


def test_a_version_that_is_cleaned_while_it_is_tagged(table: Table) -> None:
    """The tag starts over, and finds that its version is gone."""
    newest = table.refresh().version
    assert newest > 2

    def clean() -> None:
        Table(table.path).clean(keep_versions=1, grace="0s")

    with at_phase("commit", clean), pytest.raises(ConfigError, match="version 1 is gone"):
        table.tag("kept", 1)
    assert table.refresh().tags() == {}
