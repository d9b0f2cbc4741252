"""Insert overwrites of directories on a real S3 server and a real HDFS, by ``mutator run``."""

from __future__ import annotations

import pytest

from mutator.cli import main
from mutator.dataset.directory import read_manifest
from mutator.storage import storage_for
from tests.support import local_engine
from tests.support.plain_workflow import put, read
from tests.support.storage_places import PLACES

pytestmark = pytest.mark.rest
FIRST = "1,10,U,p0,a\n2,10,U,p1,b\n3,10,U,p2,c\n4,10,U,p2,d\n"
SECOND = "3,9,U,p2,C\n5,12,U,p2,e\n"  # an older row; 4 is deleted by absence


@pytest.fixture(params=PLACES)
def root(request):
    return PLACES[request.param](request)


def test_partitions_and_everything_are_replaced(root, capsys):
    for name, rows in (("first", FIRST), ("second", SECOND), ("none", "")):
        storage_for(root).make_directory(f"{root}/{name}")
        put(f"{root}/{name}/{name}_1.csv", f"id,at,op,part,note\n{rows}".encode())

    def run(master, feed, output, *more):
        words = ["--master", f"{root}/{master}", "--feed", f"{root}/{feed}", "--output", f"{root}/{output}"]
        given = ["--key", "id", "--order-by", "at", "--op", "op", "--header", "true", "--runner", "local", "-q"]
        return main(["run", *words, *given, "--partitioned-by", "part", *more])

    def paths(name):
        return [part.path for part in read_manifest(storage_for(root), f"{root}/{name}").files]

    def parts(name):
        """Return the content of each partition, which has one file."""
        return {path.partition("/")[0]: read(f"{root}/{name}/{path}") for path in paths(name)}

    assert run("nothing", "first", "one", "-D", "allow.empty.master=true") == 0
    assert run("one", "second", "two", "--insert-overwrite") == 0
    before, after = parts("one"), parts("two")
    assert {name: after[name] for name in ("part=p0", "part=p1")} == {
        name: before[name] for name in ("part=p0", "part=p1")
    }
    assert sorted(after["part=p2"].splitlines()) == sorted(b"id,at,part,note\n3,9,p2,C\n5,12,p2,e\n".splitlines())
    (lost,) = (name for name in paths("two") if name.startswith("part=p2"))
    storage_for(root).remove(f"{root}/two/{lost}")
    assert run("two", "second", "three", "--insert-overwrite") == 5
    assert run("two", "second", "three", "--insert-overwrite", "--replace-damaged") == 0
    assert parts("three").keys() == before.keys()
    assert run("three", "none", "four", "--insert-overwrite-table") == 3
    assert "run again with --allow-empty\n" in capsys.readouterr().err
    assert run("three", "second", "four", "--insert-overwrite-table") == 0
    assert parts("four") == {"part=p2": parts("three")["part=p2"]}
    assert run("four", "none", "five", "--insert-overwrite-table", "--allow-empty") == 0
    assert parts("five") == {}
    for name in ("three", "four", "five"):
        assert local_engine.verify(f"{root}/{name}").problems == ()
