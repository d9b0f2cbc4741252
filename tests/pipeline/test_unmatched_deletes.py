"""Deletes that find no record: a warning where that is probably a mistake, and none where it is usual."""

import pytest

from tests.support import local_engine
from tests.support.job import CONFIG
from tests.support.partition_trees import put_all

DELETES = {**CONFIG, "deleted.record.file.prefix": "del", "max.delete.fraction": "1"}
BY = {**DELETES, "partitioned.by": "shop=1", "num.reducer": "2"}
WARNING = (
    "{}: no record was deleted, and the master does not have {} of these deletes: compare them with the master's "
    "(quotes, blanks, a header line, the order of the ID fields)"
)


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        (b'"a",1,200\n"b",1,200\n', "2 IDs"),
        (b" a,1,200\n", "1 ID"),
        (b" a,1,200\nb,1,200\n", None),  # one of them is right
        (b"a,1,99\nx,1,200\n", "1 ID"),  # the other is late
        (b"new,1,200\n", None),  # deletes a record of this feed
        (b"", None),
    ],
)
def test_no_delete_finds_a_record(job, rows, shown):
    job.put("del_1.txt", rows)
    job.put("ups_1.txt", b"new,1,150\nb,2,150\n")
    report = job.run(DELETES)

    assert on_deletes(report) == ([] if shown is None else [WARNING.format("del_1.txt", shown)])


def test_the_first_files_are_named(job):
    for number in range(7):
        job.put(f"del_{number}.txt", b'"a",1,%d\n' % (200 + number))

    names = "del_0.txt, del_1.txt, del_2.txt, del_3.txt, del_4.txt and 2 more"
    assert on_deletes(job.run(DELETES)) == [WARNING.format(names, "1 ID")]


def on_deletes(report):
    """Return the warnings of a report without those on the forms of IDs."""
    return [text for text in report.warnings if not text.startswith("IDs of the feed and the master differ")]


def test_deletes_that_were_merged_before(job):
    job.put("del_1.txt", b"a,1,200\n")
    job.follow(DELETES)
    job.add("del_2.txt", b"a,1,200\n")

    assert job.run(DELETES).warnings == ()


def test_a_master_without_records(job):
    (job.master / "base.txt").unlink()
    job.put("del_1.txt", b"a,1,200\n")

    assert job.run({**DELETES, "allow.empty.master": "true"}).warnings == ()


def test_op_codes_are_in_rows_that_also_insert(job):
    job.put("base.txt", b"a,1,100\n", "master")
    job.put("ups_1.txt", b"x,1,D,200\n")
    settings = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "3", "op.code.field.ordinal": "2"}

    assert job.run(settings).warnings == ()


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize(("deletes", "more", "warns"), [(11, b"", True), (10, b"", False), (11, b"a,2,U,200\n", False)])
def test_many_deletes_by_op_code_that_find_no_record(job, deletes, more, warns):
    job.put("base.txt", b"a,1,100\n", "master")
    job.put("ups_1.txt", b"".join(b"x%d,1,D,200\n" % number for number in range(deletes)) + b"new,1,U,200\n" + more)
    settings = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "3", "op.code.field.ordinal": "2"}

    assert job.run(settings).warnings == ((WARNING.format("deletes by op code", "11 IDs"),) if warns else ())


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("scope", ["table", "partition"])
@pytest.mark.parametrize("managed", [False, True])
def test_deletes_without_a_partition(tmp_path, scope, managed):
    master = put_all(tmp_path / "m", {"a.txt": b"a,1,100\nb,2,100\nc,2,100\nd,,100\n"})
    settings = {**BY, "key.scope": scope}

    def run(master, feed, output):
        return local_engine.mutate(settings, master=master, feed=feed, output=str(tmp_path / output))

    if managed:
        run(master, [], "first")
        master = str(tmp_path / "first")
    # The feed itself inserts e, so its delete finds a record.
    files = {"del_1.txt": b"a,,200\nb,,200\nc,2,200\nd,,200\ne,,200\n", "ups_1.txt": b"e,,150\n"}
    report = run(master, [put_all(tmp_path / "f", files)], "out")

    deleted = {"table": 4, "partition": 2}[scope]
    assert report.counts["feed deleted"] == deleted
    assert report.samples == {"inserted and deleted": ["e"]}
    shown = (
        "2 deletes without a value of a partition field found no record, for example a; b: with key.scope=partition, a "
        "delete removes a record of its own partition only, so deletes need their partition fields; key.scope=table "
        "finds records by their ID alone"
    )
    assert report.warnings == ((shown,) if scope == "partition" else ())
