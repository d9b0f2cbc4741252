"""Followers see every version of a base, one by one or later, and never cost a commit."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.followers import Followed, Newest, follow_with_symlinks
from mutator.errors import error
from mutator.storage.local import LocalStorage
from mutator.workflow.directory import restore, versions
from tests.support.child_process import in_child
from tests.support.plain_workflow import CONFIG, new_base, read_status, run_it


class Lists:
    """A follower that keeps what it has seen: the checksums of the files of each version."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def __call__(self, base: Followed) -> bool:
        newest = base.newest()
        if newest is None:
            return False
        assert all(Path(newest.directory, file.path).exists() for file in newest.files)
        found = [file.checksum for file in newest.files]
        if self.seen[-1:] == [found]:
            return False
        self.seen.append(found)
        return True


def failing(base: Followed) -> bool:
    raise error("storage", path=base.path, why="no space left")


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Lists:
    """Follow with a list after a follower that always fails."""
    found = Lists()
    monkeypatch.setattr(versions, "FOLLOWERS", (failing, found))
    return found


def test_each_version_of_a_base(lists: Lists, tmp_path: Path) -> None:
    base = new_base(tmp_path / "base", 2)
    restore(str(base), 1, CONFIG)

    first, second, third = lists.seen
    assert first == third != second


@pytest.mark.parametrize("next_command", [run_it, lambda base: restore(str(base), 1, CONFIG)])
def test_the_next_command_makes_up_for_a_kill(lists: Lists, next_command: Callable[[Any], Any], tmp_path: Path) -> None:
    base = new_base(tmp_path / "base", 1)
    assert in_child(lambda: run_it(base), "commit.done")[0] == signal.SIGKILL
    assert len(lists.seen) == 1

    next_command(base)

    assert len(lists.seen) > 1


def test_a_failure_is_one_warning_of_each_command(
    lists: Lists, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    new_base(tmp_path / "base", 0)
    monkeypatch.chdir(tmp_path)
    why = "base: no space left; check the path, its permissions and the free space"
    warning = f"base: the files for other programs are out of date: {why}; the next command writes them"

    for outcome in (run_it("base"), run_it("base")):  # with a version, and without one
        assert outcome.warnings == (warning,)
        assert outcome.members()["out_of_date"] == (warning,)
    assert read_status("base").problems == (warning,)
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []

    monkeypatch.setattr(versions, "FOLLOWERS", (lists,))
    assert run_it("base").warnings == ()


def test_the_list_for_symlink_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStorage, "renames", False)
    files = [FileEntry(path="part-1.csv", bytes=1, checksum="")]
    newest = Newest("s3://lake/base/output/r1", files)
    base = Followed(str(tmp_path), "s3a://lake/base", CONFIG, lambda: newest)
    manifest = tmp_path / "_symlink_format_manifest" / "manifest"
    manifest.parent.mkdir()

    assert not follow_with_symlinks(base)
    asking = base._replace(config=replace(CONFIG, output=replace(CONFIG.output, symlink_manifest=True)))
    assert [follow_with_symlinks(asking) for _ in range(2)] == [True, False]
    assert manifest.read_text() == "s3a://lake/base/output/r1/part-1.csv\n"

    # Once it is there, it needs no setting, and keeps its spelling of the scheme.
    later = newest._replace(directory="s3://lake/base/output/r2")
    assert follow_with_symlinks(base._replace(given="s3://lake/base", newest=lambda: later))
    assert manifest.read_text() == "s3a://lake/base/output/r2/part-1.csv\n"
    assert not follow_with_symlinks(base._replace(newest=lambda: None))
