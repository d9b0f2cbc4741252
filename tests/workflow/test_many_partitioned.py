"""Many tables with partitions, on each storage: outputs and bases, in their first run and in the next one."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.directory import read_manifest
from mutator.storage import storage_for
from mutator.workflow import many_tables
from mutator.workflow.many_tables.scheduler import bytes_of
from tests.support.master_base import status_of
from tests.support.plain_workflow import put, read

SETTINGS = """
[defaults.settings]
id.field.ordinals = "0"
temporal.ordering.field.ordinal = "1"
partitioned.by = "shop=2"
deleted.record.file.prefix = "del"
claim.min.age = "0s"
"""
MASTER = {"shop=a/1.txt": b"1,10,a\n2,10,a\n", "shop=b/1.txt": b"3,10,b\n", "shop=c/1.txt": b"4,10,c\n"}
FEEDS = [
    {"ups_1.txt": b"1,20,b\n5,20,d\n", "del_1.txt": b"3,20,\n"},
    {"ups_2.txt": b"2,30,a\n1,30,a\n", "del_2.txt": b"4,30,c\n"},
]
AFTER = [
    {"shop=a": [b"2,10,a"], "shop=b": [b"1,20,b"], "shop=c": [b"4,10,c"], "shop=d": [b"5,20,d"]},
    {"shop=a": [b"1,30,a", b"2,30,a"], "shop=d": [b"5,20,d"]},
]


@pytest.fixture(params=["s3", "local", "hdfs"])
def root(request: Any, tmp_path: Path) -> str:
    if request.param == "s3":
        return request.getfixturevalue("s3").bucket() + "/lake"
    return (
        f"{request.getfixturevalue('hdfs')}/{uuid.uuid4().hex}" if request.param == "hdfs" else str(tmp_path / "lake")
    )


def put_all(directory: str, files: dict[str, bytes]) -> None:
    storage_for(directory).make_directory(directory)
    for name, content in files.items():
        put(f"{directory}/{name}", content)


def partitions_of(path: str) -> dict[str, list[bytes]]:
    """Return the rows of each partition, as the manifest names the files."""
    known = read_manifest(storage_for(path), path)
    assert known is not None
    found: dict[str, list[bytes]] = {}
    for part in known.files:
        found.setdefault(part.path.rpartition("/")[0], []).extend(read(f"{path}/{part.path}").splitlines())
    return {directory: sorted(rows) for directory, rows in found.items()}


@pytest.mark.thorough(keep=0, rest=1)
def test_partitioned_tables_on_each_storage(root: str, sc: Any, tmp_path: Path) -> None:
    put_all(f"{root}/master", MASTER)
    put_all(f"{root}/base/master", MASTER)
    path = tmp_path / "tables.toml"
    for number, feed in enumerate(FEEDS):
        put_all(f"{root}/feed{number}", feed)
        put_all(f"{root}/base/incr", feed)
        master = f"{root}/out{number - 1}" if number else f"{root}/master"
        one = f'master = "{master}"\nfeed = "{root}/feed{number}"\noutput = "{root}/out{number}"\n'
        path.write_text(f'{SETTINGS}[tables.one]\n{one}[tables.two]\nbase = "{root}/base"\n')
        tables = many_tables.load(path)
        read_bytes = sum(map(len, MASTER.values())) + sum(map(len, feed.values()))
        if not number:
            assert [bytes_of(table) for table in tables.tables] == [read_bytes, read_bytes]

        done = many_tables.run(tables, lambda: sc)

        assert [(one.table, one.state) for one in done.results] == [("one", "done"), ("two", "done")], done.text()
        assert partitions_of(f"{root}/out{number}") == AFTER[number]
        assert partitions_of(status_of(f"{root}/base", tables.tables[1].config).target.master) == AFTER[number]
