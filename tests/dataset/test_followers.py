"""Followers see every version of a base and of a table, one by one or later, and never cost a commit."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator import Table
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.followers import Followed, Newest
from mutator.dataset.symlinks import follow_with_symlinks
from mutator.dataset.version_log import NONE
from mutator.errors import error
from mutator.storage.local import LocalStorage
from mutator.table import commit
from mutator.workflow.directory import restore, versions
from tests.support.child_process import in_child
from tests.support.plain_workflow import CONFIG, new_base, run_it

Seen = list[tuple[int, list[str]]]


class Lists:
    """A follower that keeps what it has seen: the number of each version, and its files."""

    def __init__(self) -> None:
        self.seen: Seen = []

    def __call__(self, place: Followed) -> bool:
        newest = place.newest()
        if newest is None:
            return False
        assert all(Path(newest.directory, file.path).exists() or file.content for file in newest.files)
        found = newest.commit.number, [file.path for file in newest.files]
        if self.seen[-1:] == [found]:
            return False
        self.seen.append(found)
        return True


def failing(place: Followed) -> bool:
    raise error("storage", path=place.path, why="no space left")


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Lists:
    """Follow with a list after a follower that always fails."""
    found = Lists()
    for module, name in ((commit, "OF_TABLES"), (versions, "OF_BASES")):
        monkeypatch.setattr(module, name, (failing, found))
    return found


def rows(at: int) -> Any:
    return pa.table({"id": [f"k{at}"], "at": [at]})


def test_each_version_of_a_table(lists: Lists, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = Table.create(tmp_path / "t", key="id", order_by="at", buckets=1)
    table.apply(rows(1))
    table.apply(rows(2))
    table.tag("here")
    table.compact(everything=True)
    table.restore(1)

    assert [number for number, _ in lists.seen] == [1, 2, 3, 4, 5]
    assert lists.seen[0][1] == lists.seen[4][1]
    assert len(caplog.records) == 5
    assert "no space left" in caplog.text


def test_each_version_of_a_base(lists: Lists, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    base = new_base(tmp_path / "base", 2)
    restore(str(base), 1, CONFIG)

    assert [number for number, _ in lists.seen] == [1, 2, 3]
    assert lists.seen[0][1] == lists.seen[2][1]
    assert "no space left" in caplog.text


@pytest.mark.parametrize("next_command", [run_it, lambda base: restore(str(base), 1, CONFIG)])
def test_the_next_command_makes_up_for_a_kill(lists: Lists, next_command: Callable[[Any], Any], tmp_path: Path) -> None:
    base = new_base(tmp_path / "base", 1)
    assert in_child(lambda: run_it(base), "commit.done")[0] == signal.SIGKILL
    assert [number for number, _ in lists.seen] == [1]

    next_command(base)

    assert [number for number, _ in lists.seen][:2] == [1, 2]


def test_the_next_commit_makes_up_for_a_kill(lists: Lists, tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", key="id", order_by="at", buckets=1)
    assert in_child(lambda: table.apply(rows(1)), "table.committed")[0] == signal.SIGKILL
    assert lists.seen == []

    table.refresh().apply(rows(2))

    assert [number for number, _ in lists.seen] == [2]


def test_the_list_for_symlink_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStorage, "renames", False)
    files = [FileEntry(path="part-1.csv", bytes=1, checksum="")]
    newest = Newest(NONE, "s3://lake/base/output/r1", files)
    place = Followed(str(tmp_path), "s3a://lake/base", {}, lambda: newest)
    manifest = tmp_path / "_symlink_format_manifest" / "manifest"
    manifest.parent.mkdir()

    assert not follow_with_symlinks(place)
    asking = place._replace(settings={"symlink.manifest": True})
    assert [follow_with_symlinks(asking) for _ in range(2)] == [True, False]
    assert manifest.read_text() == "s3a://lake/base/output/r1/part-1.csv\n"

    # Once it is there, it needs no setting, and keeps its spelling of the scheme.
    later = newest._replace(directory="s3://lake/base/output/r2")
    assert follow_with_symlinks(place._replace(given="s3://lake/base", newest=lambda: later))
    assert manifest.read_text() == "s3a://lake/base/output/r2/part-1.csv\n"
    assert not follow_with_symlinks(place._replace(newest=lambda: None))
