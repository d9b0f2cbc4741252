"""Delete files whose rows have the ID alone: the first row decides for the file, and the report says so."""

import pytest

from mutator.errors import DataError
from tests.support.job import BY_NAME, Job, rows
from tests.support.named_runs import ENGINES, Work

DELETES = {**BY_NAME, "deleted.record.file.prefix": "del", "max.delete.fraction": "1", "reject.policy": "quarantine"}
MASTER = b"a,x,1\nb,x,2\n1,x,a\nc,x,3\n"
NOTE = "the first row has {}, so all rows are read as IDs alone: {}"


@pytest.fixture(params=ENGINES)
def job(request, tmp_path):
    made = Job(tmp_path, request.param)
    (made.master / "base.txt").write_bytes(MASTER)
    return made


def reasons(report):
    return [reject["reason"] for reject in report.rejects["feed"]]


def test_the_first_row_has_the_id_alone(job):
    job.put("del_1.txt", b"\na\nb\nc,x,3\n")
    report = job.run(DELETES)

    assert rows(job.output) == [b"1,x,a", b"c,x,3"]
    assert reasons(report) == ["has 3 fields and should have 1"]
    assert report.notes == ("del_1.txt: " + NOTE.format("1 field", "0"),)


def test_the_first_row_is_whole(job):
    job.put("del_1.txt", b"c,x,3\na\n")  # the second row was truncated, and deletes nothing
    report = job.run(DELETES)

    assert rows(job.output) == [b"1,x,a", b"a,x,1", b"b,x,2"]
    assert reasons(report) == ["has 1 field and should have 3"]
    assert report.notes == ()


def test_ids_are_in_the_order_of_the_setting(job):
    job.put("del_1.txt", b"1,a\n")
    report = job.run({**DELETES, "id.field.ordinals": "2,0"})

    assert rows(job.output) == [b"1,x,a", b"b,x,2", b"c,x,3"]
    assert report.notes == ("del_1.txt: " + NOTE.format("2 fields", "2,0"),)


def test_a_row_that_is_all_id_is_whole(job):
    (job.master / "base.txt").write_bytes(b"a,b\nb,a\n")
    job.put("del_1.txt", b"a,b\n")
    report = job.run({**DELETES, "id.field.ordinals": "1,0"})

    assert rows(job.output) == [b"b,a"]
    assert report.notes == ()


def test_rows_of_any_width(job):
    job.put("del_1.txt", b"1,a\nc\n")
    report = job.run({**DELETES, "field.count": "any", "id.field.ordinals": "2,0"})

    assert rows(job.output) == [b"1,x,a", b"b,x,2", b"c,x,3"]
    assert reasons(report) == ["has 1 field and should have 2"]


def test_a_partition_of_the_id(job):
    job.put("del_1.txt", b"1,a\n")
    settings = {**DELETES, "id.field.ordinals": "2,0", "partitioned.by": "0", "key.scope": "partition"}
    if job.engine == "records":
        return
    report = job.run(settings)

    assert (report.counts["feed deleted"], report.counts["feed rejected"]) == (1, 0)


def test_a_header_that_moves_the_id(job):
    job.put("del_1.txt", b"k,id\na,1\n")
    job.put("ups_1.txt", b"id,v,k\nz,x,9\n")
    (job.master / "base.txt").unlink()
    settings = {**DELETES, "id.field.ordinals": "0,2", "header.lines": "1", "allow.empty.master": "true"}

    job.refused(
        DataError,
        "del_1.txt: its header has k as field 0, where the ID in the header of",
        "ups_1.txt",
        settings=settings,
    )
    job.put("del_1.txt", b"id,k\na,1\n")
    assert job.run(settings).counts["feed delete of unknown"] == 1


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("file_format", ["csv", "escaped", "text"])
@pytest.mark.parametrize("engine", ENGINES)
def test_named_fields_without_a_header(tmp_path, file_format, engine):
    work = Work(tmp_path, engine)
    work.put("master/m_1.csv", MASTER)
    work.put("feed/del_2.csv", b"1,a\nc,x,3\n")
    work.settings = {**DELETES, "field.names": "k,v,n", "id.field.ordinals": "n,k", "master.format": "csv"}
    report = work.run({"feed.format": file_format, "output.format": "csv"})

    assert [row["k"] for row in work.rows()] == ["1", "b", "c"]
    assert reasons(report) == ["has 3 fields and should have 2"]
    assert [note for note in report.notes if "alone" in note] == ["del_2.csv: " + NOTE.format("2 fields", "n,k")]
