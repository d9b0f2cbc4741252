"""Runs over many partitions that die, fail, or meet damage: all partitions are old, or all are new.

The tests cover every failpoint that such a run passes, in processes that are killed; tasks that fail, run twice, or
lose their data; files that change, are damaged or foreign; and two runs at once.
"""

import shutil

import pytest

from mutator.dataset.version_log import Log
from mutator.errors import StorageError, failpoints
from tests.support import local_engine
from tests.support.effort import stride
from tests.support.failpoints import FAILPOINTS, PARTITION_FAILPOINTS
from tests.support.parted import (
    FEED,
    FILES,
    FIRST,
    QUIET,
    SCOPES,
    call_of,
    check_whole,
    comparable,
    contents,
    copied,
    die,
    every_scope,
    expected,
    passages,
    places,
    put_files,
    quick,
    settled,
    workflow,
)

__all__ = ["places", "quick"]  # fixtures

ONCE = pytest.param(False, id="first passages")
ALWAYS = pytest.param(True, id="all passages", marks=pytest.mark.soak)
# The state before a run: a partitioned master, or a master that has no partitions yet.
STARTS = ["managed", pytest.param("base", marks=pytest.mark.soak)]
VISIBLE = ("publish.renamed", "publish.done")


@pytest.fixture(scope="module")
def undisturbed(places, tmp_path_factory):
    """Return the outputs of undisturbed runs."""
    found = {}
    for scope in SCOPES:
        for master in ("managed", "base"):
            output = tmp_path_factory.mktemp("undisturbed") / "out"
            report = local_engine.mutate(**call_of(places[scope], scope, output, master))
            check_whole(output, rows_of(scope, master))
            found[scope, master] = comparable(output), report
    return found


@pytest.fixture(autouse=True)
def inputs_stay(places):
    """Check after each test that the inputs are unchanged, byte for byte, even if they were linked."""
    before = {scope: contents(place) for scope, place in places.items()}
    yield
    assert {scope: contents(place) for scope, place in places.items()} == before


def rows_of(scope, master):
    return expected(scope, (*FILES,) if master == "managed" else ("base_1.txt", *FEED))


def is_visible(point):
    return point.split(":")[0] in VISIBLE


# --- kill -9 of a run


@every_scope
def test_runs_pass_the_failpoints_of_their_scope(places, undisturbed, scope):
    _, report = undisturbed[scope, "managed"]
    partitions = {row["partition"]: row for row in report.partitions}

    assert report.tasks >= 2
    assert report.carried == len(QUIET)
    assert sorted(partitions) == ["p=a", "p=b", "p=c", "p=n"]
    assert (partitions["p=c"]["rows"], partitions["p=n"]["before"]) == (0, 0)
    assert partitions["p=b"]["moved out"] == partitions["p=a"]["moved in"] == (scope == "table")
    assert undisturbed[scope, "base"][1].join == "shuffle"


@pytest.mark.thorough(keep=1)
@every_scope
def test_every_listed_failpoint_is_passed(places, tmp_path, scope):
    """A failpoint that no run passes tests nothing."""
    passed = set(die(local_engine.mutate, **call_of(places[scope], scope, tmp_path / "out")))
    rare = {"task.carried"}  # passed for buckets of a master without partitions
    rare |= {"carry.copied"}  # passed where the storage has no links
    rare |= {"task.filters.written", "merge.packs.joined"} if scope == "partition" else set()
    rare |= {"task.started"} - passed  # passed in the first step, where the feed is folded before it is routed

    assert {*FAILPOINTS, *PARTITION_FAILPOINTS} - rare == passed


@pytest.mark.thorough(keep="partition")
@every_scope
@pytest.mark.parametrize("master", STARTS)
@pytest.mark.parametrize("every", [ONCE, ALWAYS])
def test_kill_leaves_nothing_or_all_and_the_next_run_cleans_up(places, undisturbed, tmp_path, scope, master, every):
    output = tmp_path / "beside" / "out"
    call = call_of(places[scope], scope, output, master)
    points = list(passages(die(local_engine.mutate, **call), every=every))
    assert len(points) >= 20
    if not every:  # with one scope the last point of each phase; the code is the same but for a few points
        phases = list({point.split(".")[0]: point for point in points}.values())
        points = phases if scope == "partition" else points[::2]
    for point in points:
        shutil.rmtree(output.parent)
        die(local_engine.mutate, point, **call)
        left = sorted(output.parent.iterdir())
        if is_visible(point):
            assert left == [output], point
            assert comparable(output) == undisturbed[scope, master][0], point
            check_whole(output, rows_of(scope, master))
            continue
        assert len(left) == (not point.startswith("stage.swept")), point
        assert all(path.name.startswith(".out.mutator-") for path in left), point

        report = local_engine.mutate(**call)

        assert report.litter == tuple(map(str, left)), point
        assert list(output.parent.iterdir()) == [output], point
        check_whole(output, rows_of(scope, master))
        assert comparable(output) == undisturbed[scope, master][0], point


@pytest.mark.thorough(keep=1)
@every_scope
def test_exception_leaves_nothing_or_all_and_no_litter(places, tmp_path, monkeypatch, scope):
    call = call_of(places[scope], scope, tmp_path / "beside" / "out")
    for point in list(dict.fromkeys(die(local_engine.mutate, **call)))[:: stride(3)]:
        shutil.rmtree(tmp_path / "beside")
        monkeypatch.setenv(failpoints.VARIABLE, f"{point}:raise")

        with pytest.raises((OSError, StorageError), match=f"failpoint {point}"):
            local_engine.mutate(**call)

        monkeypatch.delenv(failpoints.VARIABLE)
        left = list((tmp_path / "beside").iterdir())
        assert left == ([tmp_path / "beside" / "out"] if is_visible(point) else []), point


# --- kill -9 of the workflow


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Create a base for each scope, with one version, and a feed that has arrived."""
    root = tmp_path_factory.mktemp("bases")
    for scope in SCOPES:
        put_files(f"{root}/{scope}/master", ["base_1.txt"])
        put_files(f"{root}/{scope}/incr", FIRST)
        workflow(root / scope, scope)
        put_files(f"{root}/{scope}/incr", FEED)
    return root


@pytest.mark.thorough(keep=0)
@every_scope
@pytest.mark.parametrize("every", [ONCE, ALWAYS])
def test_killed_workflow_leaves_a_master_of_one_version(bases, undisturbed, tmp_path, scope, every):
    """After each kill and the next command, all partitions are old, or all are new; the next run makes them new."""
    before, after = expected(scope, ("base_1.txt", *FIRST)), expected(scope)
    base = copied(bases / scope, tmp_path / "base")
    points = list(passages(die(workflow, base=str(base), scope=scope), every=every))
    assert len(points) >= 40
    if not every:  # other points with each scope
        points = points[SCOPES.index(scope) :: 5]
    seen = set()
    for point in points:
        copied(bases / scope, base)
        die(workflow, point, base=str(base), scope=scope)
        committed = Log(str(base)).latest().number == 2

        assert settled(base, scope).problems == (), point

        made = check_whole(base / "master", after if committed else before)
        assert made.commit.id == Log(str(base)).latest().dataset, point
        assert settled(base, scope).recovered == (), point
        workflow(base, scope)
        check_whole(base / "master", after)
        assert comparable(base / "master") == undisturbed[scope, "managed"][0], point
        assert all(not any((base / name).iterdir()) for name in ("incr", "working", "output")), point
        seen.add(committed)
    assert seen == {True, False}
