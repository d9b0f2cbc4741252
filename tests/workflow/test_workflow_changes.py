"""The changed rows of a base: one directory a version, which outlives backups, and is there with its version or not."""

from __future__ import annotations

import json
import signal
from collections import Counter

import pytest
from pyarrow import parquet

from mutator.errors import MutatorError
from mutator.pipeline.kept_changes import read_kept_changes
from mutator.workflow.directory.changed_rows import changes_between, prune
from mutator.workflow.directory.paths import open_base
from mutator.workflow.directory.verification import verify_base
from tests.support import local_engine
from tests.support.changed_rows import FIELDS, replayed
from tests.support.child_process import in_child
from tests.support.workflow_base import BY_FIELD, Place

GIVEN = [f"k{number},1,given" for number in range(1, 7)]
FEEDS = (
    ("ups_1.txt", "k1,2,U,b", "k2,2,D,", "k7,2,U,new"),
    ("ups_2.txt", "k1,3,U,c", "k7,3,U,newer", "k3,0,U,late"),
    ("ups_3.txt", "k1,3,U,c"),  # nothing changes
    ("ups_4.txt", "k7,4,D,", "k8,4,U,x"),
)


@pytest.fixture
def place(tmp_path):
    found = Place(tmp_path / "base", BY_FIELD | {"changes": "true", "backup.keep": "1", "max.delete.fraction": "1"})
    (found.path / "master" / "base.txt").write_text("".join(f"{row}\n" for row in GIVEN))
    return found


def changes(place, number):
    """Return (kind, row) of the changed rows of a version."""
    directory = place.path / "changes" / f"version={number}"
    record = read_kept_changes(str(directory))
    assert record is not None
    assert record.number == number
    assert {part.path for part in record.files} == {path.name for path in directory.glob("part-*")}
    found = []
    for part in record.files:
        for row in parquet.read_table(directory / part.path, partitioning=None).to_pylist():
            assert row["_commit_version"] == number
            assert row["_commit_timestamp"].isoformat(timespec="milliseconds") == record.committed
            values = [value for name, value in row.items() if name not in (*FIELDS, "_row")]
            found.append((row["_change_type"], ",".join(values)))
    return found


def arrive(place, feed):
    place.arrive(feed[0], *feed[1:])


def test_changes_of_all_versions_replay_to_the_master(place):
    rows = Counter(GIVEN)
    for number, feed in enumerate(FEEDS, 1):
        arrive(place, feed)
        assert place.run().version == number
        rows = replayed(rows, changes(place, number))
        assert rows == Counter(place.rows())

    assert [path.name for path in (place.path / "backup").iterdir()] == ["3"]  # the changes outlive the backups
    assert changes(place, 3) == []
    assert sorted(changes(place, 2)) == [
        ("update_postimage", "k1,3,c"),
        ("update_postimage", "k7,3,newer"),
        ("update_preimage", "k1,2,b"),
        ("update_preimage", "k7,2,new"),
    ]
    assert verify_base(str(place.path), local_engine.verify).problems == ()


def test_versions_without_the_setting_have_no_changes(place):
    arrive(place, FEEDS[0])
    place.run(changes="false")

    assert not (place.path / "changes").exists()


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize(
    "point", ["changes.linked", "task.changes.written", "commit.begin", "commit.done", "changes.kept", "archive.done"]
)
def test_kill_leaves_the_changes_with_their_version_or_none(place, point):
    arrive(place, FEEDS[0])
    place.run()
    before = Counter(place.rows())
    arrive(place, FEEDS[1])
    assert in_child(place.run, point)[0] == signal.SIGKILL

    place.run()  # recovery finishes the version, or this run makes it

    assert not list((place.path / "incr").iterdir())
    # Version 2 is that of an abandoned run if it was killed before its commit.
    number = place.status().target.version.number
    assert {path.name for path in (place.path / "changes").iterdir()} == {"version=1", f"version={number}"}
    assert replayed(before, changes(place, number)) == Counter(place.rows())


def test_the_run_after_a_kill_keeps_the_changes_before_it_removes_a_backup(place):
    arrive(place, FEEDS[0])
    assert in_child(place.run, "commit.done")[0] == signal.SIGKILL
    for feed in FEEDS[1:]:
        arrive(place, feed)
        place.run(backup_keep="0")

    assert len(changes(place, 1)) == 4


def kept(place):
    return sorted(path.name for path in (place.path / "changes").iterdir())


def test_the_changes_of_old_versions_are_removed(place):
    for feed in FEEDS:
        arrive(place, feed)
        place.run(changes_keep="2")

    assert kept(place) == ["version=3", "version=4"]
    assert [path for path, _ in changes_between(str(place.path), None, None)] == [
        str(place.path / "changes" / f"version={number}") for number in (3, 4)
    ]
    with pytest.raises(MutatorError, match=r"version 2 .*changes.keep removed them"):
        changes_between(str(place.path), 1, 3)
    assert verify_base(str(place.path), local_engine.verify).problems == ()


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("point", ["changes.hidden", "changes.kept", "changes.removed"])
def test_kill_while_old_changes_are_removed(place, point):
    for feed in FEEDS[:3]:
        arrive(place, feed)
        place.run()
    arrive(place, FEEDS[3])
    assert in_child(lambda: place.run(changes_keep="1"), point)[0] == signal.SIGKILL

    names = [name for name in kept(place) if not name.startswith(".")]
    assert all((place.path / "changes" / name / "_mutator.json").exists() for name in names)  # each is whole
    arrive(place, ("ups_5.txt", "k9,5,U,x"))
    place.run(changes_keep="1")

    assert len(kept(place)) == 1
    assert kept(place) == [f"version={place.status().target.version.number}"]


def test_without_renames_a_directory_loses_its_record_first(place, monkeypatch):
    for feed in FEEDS[:3]:
        arrive(place, feed)
        place.run()
    base, removed = open_base(str(place.path)), []
    monkeypatch.setattr(type(base.storage), "renames", False)
    remove = type(base.storage).remove
    monkeypatch.setattr(type(base.storage), "remove", lambda self, path: (removed.append(path), remove(self, path)))

    assert prune(base, 2) == [1]

    directory = str(place.path / "changes" / "version=1")
    assert removed[:2] == [f"{directory}/_mutator.json", directory]
    assert kept(place) == ["version=2", "version=3"]


def test_a_restored_dataset_has_the_changes_of_its_own_version_alone(place):
    for feed in FEEDS[:2]:
        arrive(place, feed)
        place.run()
    place.restore(1)

    assert {path.name for path in (place.path / "changes").iterdir()} == {"version=1", "version=2"}


def test_verify_compares_the_kept_changes(place):
    arrive(place, FEEDS[0])
    place.run()
    part, *_ = (place.path / "changes" / "version=1").glob("part-*")
    content = part.read_bytes()
    part.unlink()  # the dataset has it, too
    part.write_bytes(content[:-1] + b"?")

    (problem,) = verify_base(str(place.path), local_engine.verify).problems
    assert part.name in problem
    assert "checksum" in problem
    part.unlink()
    (problem,) = verify_base(str(place.path), local_engine.verify).problems
    assert part.name in problem


def test_the_record_names_each_file_with_the_members_of_its_format(place):
    arrive(place, FEEDS[0])
    place.run()

    document = json.loads((place.path / "changes" / "version=1" / "_mutator.json").read_bytes())
    members = ["path", "bucket", "rows", "bytes", "checksum", "partition", "buckets", "filter", "checked", "kind"]
    assert {tuple(one) for one in document["files"]} == {tuple(members)}
