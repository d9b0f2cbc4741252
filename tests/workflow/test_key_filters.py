"""Filters of the keys of a base's feed files: which files ``explain`` reads, and what a kill leaves."""

from __future__ import annotations

import signal

import pytest

from mutator import cli
from mutator import config as configuration
from mutator.dataset.version_log import Log
from mutator.workflow.directory.changed_rows import filter_files
from mutator.workflow.directory.explain import explain
from mutator.workflow.directory.paths import Base
from tests.support.child_process import in_child, points
from tests.support.workflow_base import BY_FIELD, Place


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path / "base", BY_FIELD)
    (made.path / "master" / "base.txt").write_text("a,1,x\nb,1,y\n")
    return made


def explained(place, key):
    return explain(str(place.path), key, configuration.parse(BY_FIELD))


def outcomes(found):
    return [one.outcome for step in found.steps for part in step.decided.values() for one in part.outcomes]


def filter_names(place):
    return sorted(filter_files(Base(str(place.path))))


def test_files_without_the_key_are_not_read(place):
    for number in range(8):
        place.arrive(f"f{number}.txt", *(f"k{number}-{one},2,U,x" for one in range(50)))
        place.arrive(f"g{number}.txt", "a,9,U,z" if number == 5 else "c,2,U,x")
        place.run()

    found = explained(place, "a")

    assert outcomes(found) == ["updated"]
    assert found.files_read + found.files_excluded == 16
    assert found.files_read <= 2  # one of a thousand absent keys looks present


def test_a_file_with_rejects_is_always_read(place):
    place.arrive("f.txt", "z,x,U,bad", "c,2,U,x")
    place.run(reject_policy="quarantine")

    found = explained(place, "z")

    assert [one.reason for one in found.steps[0].feed.rows.rejected] == ["field 1 (order value) is not an integer: 'x'"]
    assert found.is_known


def test_an_archive_that_is_gone_matters_only_where_its_filter_admits_the_key(place):
    place.arrive("f.txt", "c,2,U,x")
    place.run(backup_keep="0")
    place.arrive("g.txt", "d,2,U,x")
    place.run(backup_keep="0")
    for path in (place.path / "archive").glob("*/f.txt"):
        path.unlink()

    assert not explained(place, "d").unknown[1:]
    assert explained(place, "c").unknown[-1].startswith("mutations in 1 feed file of version 1 ")


def test_without_filters_the_answer_is_the_same(place):
    place.arrive("f.txt", "a,2,U,x", "a,2,D,x")
    place.run(feed_filters="false")

    assert filter_names(place) == []
    assert outcomes(explained(place, "a")) == ["superseded", "deleted"]


@pytest.mark.parametrize("filters", ["true", "false"])
def test_settings_are_kept_with_the_filters_or_in_the_manifest(place, capsys, filters):
    place.arrive("f.txt", "a,2,D,x")
    place.run(feed_filters=filters)

    assert cli.main(["explain", "base", "a"]) == 0

    assert "delete, order value 2: deleted (record <= delete)" in capsys.readouterr().out


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("step", [5, 1], ids=["some", "all"])
def test_a_kill_leaves_filters_with_the_version_or_not_at_all(tmp_path, step):
    """At every failpoint from the first task on, and in the recovery."""

    def new_base(name):
        place = Place(tmp_path / name, BY_FIELD)
        (place.path / "master" / "base.txt").write_text("a,1,x\nb,1,y\n")
        place.arrive("f.txt", "a,2,U,x", "b,3,U,x")
        return place

    base = new_base("first")
    _, passed = in_child(base.run)
    names = [one for one in points(passed) if one.split(".")[0] in ("task", "stage", "commit", "publish", "archive")]
    assert "task.feed.filters.written:1" in names
    chosen = {*names[::step], "task.feed.filters.written:1"}
    for number, point in enumerate(name for name in names if name in chosen):
        place = new_base(str(number))
        assert in_child(place.run, point)[0] == signal.SIGKILL

        place.status()

        versions = [version.run for version in Log(str(place.path)).all() if version.action == "run"]
        assert filter_names(place) == versions, point
