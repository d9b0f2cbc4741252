"""Plausible mistakes that the first rows of the inputs show: each stops the run, or is said in a warning."""

import pytest

from mutator.errors import ConfigError, DataError
from tests.support.job import Job

BY_NAME = {"id.field.ordinals": "0", "deleted.record.file.prefix": "del", "max.delete.fraction": "1"}
BY_TEXT = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "2",
    "temporal.ordering.field.numeric": "false",
}
TEXT, CSV = {}, {"input.format": "csv"}
PEOPLE = b"k1,Bob,100\nk2,Al,100\nk3,Eve,100\n"


@pytest.fixture
def job(tmp_path):
    made = Job(tmp_path)
    (made.master / "base.txt").unlink()
    return made


def lines(*rows):
    return b"".join(row + b"\n" for row in rows)


# --- delimiters


@pytest.mark.parametrize("file_format", [TEXT, CSV])
@pytest.mark.parametrize(
    ("delimiter", "setting"), [(b";", ";"), (b"\t", r"\t"), (b"|", "|"), (b"\x01", r"\u0001"), (b":", ":")]
)
def test_delimiter_that_does_not_occur(job, delimiter, setting, file_format):
    settings = {**BY_NAME, **file_format}
    job.put("base.txt", PEOPLE.replace(b",", delimiter), where="master")
    job.put("ups_7.txt", b"k1,Rob,200\nk9,Zoe,200\n".replace(b",", delimiter))
    message = job.refused(ConfigError, "base.txt", "does not occur", f"field.delim.regex={setting}", settings=settings)
    assert "2 times" in message

    report = job.run({**settings, "field.delim.regex": setting})
    assert (report.counts["output rows"], report.counts["feed updated"]) == (4, 1)


def test_one_feed_file_with_another_delimiter(job):
    job.put("base.txt", PEOPLE, where="master")
    job.put("ups_7.txt", b"k1,Rob,200\n")
    job.put("ups_8.txt", b"k2;Bo;300\n")
    job.refused(
        DataError,
        "ups_8.txt: field.delim.regex is ',', which does not occur in its first 1 row, and each of them has a",
        settings={**BY_NAME, "reject.policy": "quarantine"},
    )


def test_delete_file_with_another_delimiter(job):
    job.put("base.txt", PEOPLE, where="master")
    job.put("del_7.txt", b"k1;Bob;100\n")
    job.refused(DataError, "del_7.txt", "a semicolon 2 times", settings=BY_NAME)


@pytest.mark.parametrize("ids", [b"k1\nk2\n", b"shop:1\nshop:2\n", b"http://a/x\nhttp://b/y\n"])
def test_ids_alone_are_legal(job, ids):
    job.put("base.txt", ids, where="master")
    job.put("ups_7.txt", ids)
    job.put("del_8.txt", ids[: ids.index(b"\n") + 1])
    assert job.run(BY_NAME).counts["output rows"] == 1


def test_ids_with_another_delimiter_are_legal(job):
    job.put("base.txt", b"a|1,x,5\nb|2,y,6\n", where="master")
    job.put("del_7.txt", b"a|1\n")
    assert job.run(BY_NAME).counts["feed deleted"] == 1


def test_rows_of_one_field_are_confirmed(job):
    job.put("base.txt", b"a;1\nb;2\n", where="master")
    job.put("ups_7.txt", b"b;2\nc;3\n")
    job.refused(ConfigError, "set field.count=1", settings=BY_NAME)
    assert job.run({**BY_NAME, "field.count": "1"}).counts["output rows"] == 3


# --- headers


@pytest.mark.parametrize("file_format", [TEXT, CSV])
@pytest.mark.parametrize("settings", [BY_NAME, BY_TEXT])
def test_header_that_would_be_a_record(job, settings, file_format):
    settings = {**settings, **file_format}
    job.put("base.txt", PEOPLE, where="master")
    job.put("ups_7.txt", b"id,name,changed\nk1,Rob,200\n")
    message = job.refused(DataError, "ups_7.txt", "looks like a header ('id,name,changed')", settings=settings)
    assert message.endswith("set header.lines=1; or, if it is a record, set header.check=false")

    assert job.run({**settings, "header.check": "false"}).counts["output rows"] == 4


def test_header_of_text_alone(job):
    job.put("base.txt", b"product_id,colour\nlamp,red\nchair,blue\n", where="master")
    job.put("ups_7.txt", b"lamp,green\n")
    job.refused(DataError, "base.txt", "its ID is the name of a field", settings=BY_NAME)


@pytest.mark.parametrize("rest", [b"k1\n", b""])
def test_header_of_a_delete_file_with_ids_alone(job, rest):
    job.put("base.txt", PEOPLE, where="master")
    job.put("del_7.txt", b"id\n" + rest)
    job.refused(DataError, "del_7.txt", "looks like a header ('id')", settings=BY_NAME)


@pytest.mark.parametrize(
    "rows",
    [
        b"alice,engineer\nbob,baker\n",
        b"k0,Zed,n/a\nk1,Bob,100\n",
        b"k0,Zed,\nk1,Bob,100\n",
        b"id,engineer\nuuid,baker\n",  # such IDs exist
        b"name,x\nplace,y\n",
    ],
)
def test_records_that_are_no_header(job, rows):
    job.put("base.txt", rows, where="master")
    job.put("ups_7.txt", rows)
    assert job.run(BY_NAME).counts["output rows"] == 2


@pytest.mark.parametrize("file_format", [TEXT, CSV])
def test_record_that_would_be_a_header(job, file_format):
    settings = {**BY_NAME, "header.lines": "1", **file_format}
    job.put("base.txt", b"id,name,changed\n" + PEOPLE, where="master")
    job.put("ups_7.txt", b"k1,Rob,200\nk2,Bo,200\n")
    message = job.refused(
        DataError, "ups_7.txt", "the line 'k1,Rob,200' is skipped as a header (header.lines)", settings=settings
    )
    assert message.endswith("or, if the line is a header, set header.check=false")


def test_delete_that_would_be_a_header(job):
    job.put("base.txt", b"id,name,changed\n" + PEOPLE, where="master")
    job.put("del_7.txt", b"k2\n")
    job.refused(DataError, "del_7.txt", "the line 'k2' is skipped", settings={**BY_NAME, "header.lines": "1"})


def test_record_of_text_alone_that_would_be_a_header(job):
    job.put("base.txt", b"k1,red\nk2,blue\nk3,red\n", where="master")
    job.put("ups_7.txt", b"id,colour\nk2,green\n")
    job.refused(DataError, "base.txt", "the line 'k1,red' is skipped", settings={**BY_NAME, "header.lines": "1"})


def test_second_header_line_that_is_a_record(job):
    job.put("base.txt", b"H,2026-01-31,3\nid,name,changed\n" + PEOPLE, where="master")
    job.put("ups_7.txt", b"id,name,changed\nk1,Rob,200\nk2,Bo,200\n")
    job.refused(DataError, "ups_7.txt", "the line 'k1,Rob,200' is skipped", settings={**BY_NAME, "header.lines": "2"})


@pytest.mark.parametrize(
    "header",
    [b"id,name,changed", b"ID,Name,2026", b"H,2026-01-31,500", b"#,,", b"customer no,first name,100", b"id,2025,2026"],
)
def test_header_lines_that_are_no_record(job, header):
    job.put("base.txt", header + b"\n" + PEOPLE, where="master")
    job.put("ups_7.txt", header + b"\nk1,Rob,200\n")
    report = job.run({**BY_NAME, "header.lines": "1"})
    assert (report.counts["output rows"], report.counts["feed updated"]) == (3, 1)
