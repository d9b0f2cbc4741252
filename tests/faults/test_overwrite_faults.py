"""Overwrites of partitions that are killed: all partitions are old, or all are new, and none is replaced twice."""

from __future__ import annotations

import shutil

import pytest

from mutator.dataset.version_log import Log
from tests.support import local_engine
from tests.support.parted import (
    SCOPES,
    check_whole,
    comparable,
    contents,
    copied,
    die,
    every_scope,
    expected,
    new_place,
    passages,
    put_files,
    quick,
    settings,
    settled,
    workflow,
)
from tests.support.plain_workflow import put

__all__ = ["quick"]  # fixtures

OPERATIONS = ["insert_overwrite", "insert_overwrite_table"]
# Partition a gets fewer rows, an older one among them; n is new; k30 moves out of q, which is kept.
OVER = {
    "ups_1.txt": ["k5,a,over", "k71,a,over"],
    "ups_9.txt": ["k0,a,over", "k70,n,over", "k30,a,over"],
    "del_9.txt": ["k1,a,x"],
}
ROWS = ["k0,a,over", "k30,a,over", "k5,a,over", "k70,n,over", "k71,a,over"]
# The code is that of every run but for a few points, so one in so many is a sample.
SHARES = [pytest.param(13, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)]
FIRST = ("base_1.txt", "ups_2.txt", "del_3.txt")


def config(scope, operation, **more):
    return {**settings(scope), "reject.policy": "fail", "write.operation": operation, **more}


def rows_of(scope, operation):
    """Return the rows after an overwrite."""
    if operation == "insert_overwrite_table":
        return ROWS
    kept = [row for row in expected(scope, FIRST) if row.split(",")[1] != "a"]
    moved = ["k30,q,base"] if scope == "table" else []
    return sorted([*(row for row in kept if row not in moved), *ROWS])


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Create a directory for each scope, with a partitioned master and the feed of an overwrite."""
    root = tmp_path_factory.mktemp("places")
    for scope in SCOPES:
        new_place(root / scope, scope)
        for name, rows in OVER.items():
            put(f"{root}/{scope}/over/{name}", "".join(f"{row}\n" for row in rows).encode())
    return {scope: root / scope for scope in SCOPES}


def call_of(place, scope, operation, output):
    inputs = {"master": f"{place}/managed", "feed": [f"{place}/over"], "output": str(output)}
    return {"config": config(scope, operation), **inputs}


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("share", SHARES)
@every_scope
def test_kill_leaves_nothing_or_all_and_the_next_run_cleans_up(places, tmp_path, scope, share, operation):
    place, output = places[scope], tmp_path / "beside" / "out"
    undisturbed, before = tmp_path / "undisturbed", contents(place)
    report = local_engine.mutate(**call_of(place, scope, operation, undisturbed))
    check_whole(undisturbed, rows_of(scope, operation))
    assert report.tasks >= 2
    assert {"p=a", "p=n"} <= set(report.replaced)
    call = call_of(place, scope, operation, output)
    points = list(passages(die(local_engine.mutate, **call), every=False))
    assert len(points) >= 18
    for point in points[(2 * SCOPES.index(scope) + OPERATIONS.index(operation)) % share :: share]:
        shutil.rmtree(output.parent)
        die(local_engine.mutate, point, **call)
        if not output.exists():
            local_engine.mutate(**call)
        assert [path.name for path in output.parent.iterdir()] == ["out"], point
        check_whole(output, rows_of(scope, operation))
        assert comparable(output) == comparable(undisturbed), point
    assert contents(place) == before


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("share", SHARES)
@every_scope
def test_a_killed_workflow_overwrites_once_and_in_order(tmp_path, scope, share):
    """Two overwrites wait; a kill changes neither which one is first, nor that each is merged once."""
    more = {"write_operation": "insert_overwrite", "reject_policy": "fail"}
    start, base = tmp_path / "start", tmp_path / "base"
    put_files(f"{start}/master", ["base_1.txt"])
    put_files(f"{start}/incr", FIRST[1:])
    workflow(start, scope, reject_policy="fail")
    for name, rows in {"ups_8.txt": ["k4,a,eight", "k72,a,eight"], "ups_9.txt": ["k4,a,nine", "k73,n,nine"]}.items():
        put(f"{start}/incr/{name}", "".join(f"{row}\n" for row in rows).encode())
    kept = [row for row in expected(scope, FIRST) if row.split(",")[1] != "a"]
    after = {
        1: expected(scope, FIRST),
        2: sorted([*kept, "k4,a,eight", "k72,a,eight"]),
        3: sorted([*kept, "k4,a,nine", "k73,n,nine"]),
    }
    copied(start, base)
    points = list(passages(die(workflow, base=str(base), scope=scope, **more), every=False))
    assert len(points) >= 40
    for point in points[SCOPES.index(scope) % share :: share]:
        copied(start, base)
        die(workflow, point, base=str(base), scope=scope, **more)
        assert settled(base, scope, **more).problems == (), point
        committed = [version for version in Log(str(base)).all() if version.action == "run"]
        check_whole(base / "master", after[len(committed)])
        while workflow(base, scope, **more).claimed:
            committed = [version for version in Log(str(base)).all() if version.action == "run"]
            check_whole(base / "master", after[len(committed)])
        assert len(committed) == 3, point
        assert [sorted(part.name for part in version.feed) for version in committed[1:]] == [
            ["ups_8.txt"],
            ["ups_9.txt"],
        ]
