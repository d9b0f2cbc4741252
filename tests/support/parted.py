"""A partitioned master, a feed with each kind of mutation, the expected rows, and runs that may be killed.

    a, b      are touched: updated, inserted, deleted, late, revived
    c         loses all its rows
    n         is new
    q, r      are not touched, and q has a tombstone: their files are carried over

Where a record ID is unique in the table, k10 moves from b to a; else a has another record of this ID.
"""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from pyarrow import parquet

from mutator import config
from mutator.dataset import checksum, manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.directory import read_manifest
from mutator.dataset.side_columns import read_tombstones
from mutator.plan import partition_plan
from mutator.storage import storage_for, walk
from mutator.storage.local import LocalStorage
from mutator.workflow.directory.master_target import merge_by
from tests.support import local_engine
from tests.support.child_process import in_child
from tests.support.master_base import run_workflow, status_of
from tests.support.no_limits import NO_LIMITS
from tests.support.plain_workflow import put, read

SCOPES = ("table", "partition")
QUIET = ("p=q", "p=r")
RUN_ID = re.compile(r"-\d{8}T\d{6}Z-[0-9a-f]{8}(-\d+)?")
FILES = {
    "base_1.txt": [
        *(f"k{n},{p},base" for p, numbers in (("a", range(10)), ("b", range(10, 20))) for n in numbers),
        *("k20,c,base", "k21,c,base"),
        *(f"k{n},{p},base" for p, numbers in (("q", range(30, 40)), ("r", range(40, 50))) for n in numbers),
    ],
    "ups_2.txt": [f"k{n},{p},second" for n, p in ((5, "a"), (6, "a"), (35, "q"))],
    "del_3.txt": ["k8,a,x", "k18,b,x", "k38,q,x"],
    "ups_4.txt": ["k0,a,fourth", "k10,a,moved", "k60,n,new", "k61,n,new", "k11,b,fourth", "k18,b,revived", "broken"],
    "ups_5.txt": ["k0,a,fifth", "k62,b,new", "k60,n,fifth"],
    "del_6.txt": ["k20,c,x", "k21,c,x", "k1,a,x", "k61,n,x"],
}
FIRST, FEED = ("ups_2.txt", "del_3.txt"), ("ups_4.txt", "ups_5.txt", "del_6.txt")


every_scope = pytest.mark.parametrize("scope", SCOPES)


@pytest.fixture(autouse=True, scope="module")
def quick():
    with pytest.MonkeyPatch.context() as patch:
        set_for_tests(patch)
        yield


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Create a directory for each scope, with a partitioned master."""
    root = tmp_path_factory.mktemp("places")
    return {scope: new_place(root / scope, scope) for scope in SCOPES}


def settings(scope):
    """Return the settings of all runs: at least two read tasks, and rejects in quarantine."""
    return {
        "id.field.ordinals": "0",
        "partitioned.by": "p=1",
        "key.scope": scope,
        "deleted.record.file.prefix": "del",
        "reject.policy": "quarantine",
        **NO_LIMITS,
        "split.bytes": "120",
        "changes": "true",
    }


def expected(scope, names=tuple(FILES)):
    """Merge the files one after the other into a dict; return the rows, sorted."""
    found = {}
    for name in names:
        for row in FILES[name]:
            key, *rest = row.split(",")
            if rest:
                place = (key, rest[0]) if scope == "partition" else key
                found[place] = row
                if name.startswith("del"):
                    del found[place]
    return sorted(found.values())


def set_for_tests(patch):
    """Replace fsync, since a killed process loses no write; and join filter packs of any size."""
    patch.setattr(os, "fsync", lambda _: None)
    patch.setattr(LocalStorage, "sync_all", lambda *_: None)
    patch.setattr(partition_plan, "_MOST_PACKS", 1)
    patch.setattr(partition_plan, "_LARGE_PACKS", 0)


def put_files(directory, names):
    for name in names:
        put(f"{directory}/{name}", "".join(f"{row}\n" for row in FILES[name]).encode())


def new_place(root, scope, masters=("managed",)):
    """Write the files, and merge them into a master; return the directory."""
    put_files(f"{root}/base", ["base_1.txt"])
    put_files(f"{root}/first", FIRST)
    put_files(f"{root}/feed", FEED)
    for master in masters:
        local_engine.mutate(settings(scope), master=f"{root}/base", feed=[f"{root}/first"], output=f"{root}/{master}")
    return root


def call_of(place, scope, output, master="managed", feed="feed"):
    """Return the arguments of a run."""
    inputs = {"master": f"{place}/{master}", "feed": [f"{place}/{feed}"]}
    return {"config": settings(scope), **inputs, "output": str(output)}


def contents(directory):
    """Return all files below a directory."""
    directory = str(directory)
    return {one.path.removeprefix(f"{directory}/"): read(one.path) for one in walk(directory)}


def check_whole(output, rows):
    """Check that the rows are the expected ones, each in its partition, and that the manifest names every file."""
    output = str(output)
    made, found = read_manifest(storage_for(output), output), contents(output)
    assert made is not None
    assert set(found) == {part.path for part in made.parts()} | {manifest.PATH, made.copy, SUCCESS}
    for part in made.parts():
        assert part.bytes == len(found[part.path]), part.path
        chunk = checksum.chunk_of(part.checksum)
        assert part.checksum == checksum.of_blocks([found[part.path]], chunk), part.path
    read_rows = [(row, part.path) for part in made.files for row in found[part.path].decode().splitlines()]
    assert sorted(row for row, _ in read_rows) == rows
    assert all(path.startswith(f"p={row.split(',')[1]}/") for row, path in read_rows)
    assert made.commit.counts["output rows"] == sum(part.rows for part in made.files) == len(rows)
    if "://" not in output:
        assert [path for path in Path(output).rglob("*") if path.is_dir() and not any(path.iterdir())] == []
    return made


def comparable(output):
    """Return the counts and the files of an output, without run IDs and times: equal for two runs on one input."""
    output = str(output)
    made, found = read_manifest(storage_for(output), output), []
    for part in made.parts():
        directory, _, name = part.path.rpartition("/")
        content = read(f"{output}/{part.path}")
        if "_mutator/tombstones" in directory:
            with storage_for(output).open(f"{output}/{part.path}") as stream:
                content = [(key, order) for key, order, _ in read_tombstones(stream)]
        if "_mutator/changes" in directory:
            with storage_for(output).open(f"{output}/{part.path}") as stream:
                content = parquet.read_table(stream).drop_columns(["_commit_timestamp", "_commit_version"]).to_pylist()
        if "_mutator/filters" in directory or "_mutator/rejected" in directory:
            content = None  # these name files and runs
        found.append((directory, RUN_ID.sub("", name), part.bucket, part.rows, content))
    return made.commit.counts, sorted(found, key=repr)


def settled(base, scope, **more):
    """Recover a base; return its status. more: settings with ``_`` for ``.``."""
    return status_of(str(base), workflow_config(scope, **more))


def workflow(base, scope, **more):
    """Run the workflow once. more: settings with ``_`` for ``.``."""
    read_config = workflow_config(scope, **more)
    return run_workflow(str(base), read_config, merge_by(read_config, local_engine.merge), sleep=lambda _: None)


def workflow_config(scope, **more):
    given = {name.replace("_", "."): value for name, value in more.items()}
    return config.parse({**settings(scope), "claim.min.age": "0s", "backup.keep": "2", **given})


def copied(source, to):
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(source, to)
    return to


def die(function, point=None, **call):
    """Call a function in a child process, which must die at a point or succeed; return the failpoints."""
    killed, passed = in_child(lambda: function(**call), point or "none")
    assert killed == (signal.SIGKILL if point else 0), f"{function.__name__} at {point}"
    return passed


def passages(passed, *, every):
    """Yield a name for each passage of each failpoint, or only for the first passage."""
    seen = {}
    for name in passed:
        seen[name] = seen.get(name, 0) + 1
        if every or seen[name] == 1:
            yield f"{name}:{seen[name]}"
