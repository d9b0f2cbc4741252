"""``field.names`` with fewer or more names than a row has fields: a missing name would shift those after it."""

import pytest

from mutator.config import parse
from mutator.errors import ConfigError
from mutator.rules.partition_fields import parse_fields
from mutator.workflow.partitions.split.files import feed_files
from tests.support.job import Job, rows
from tests.support.named_runs import ENGINES

BY_TIME = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "ts"}
BY_FILE = {"id.field.ordinals": "id"}
WITH_OP = {**BY_TIME, "op.code.field.ordinal": "op"}
CURE = "give field.names a name for each field of a feed row, or correct field.delim.regex"


@pytest.fixture(params=ENGINES)
def job(request, tmp_path):
    made = Job(tmp_path, request.param)
    made.put("base.txt", b"x,A,B,10\ny,A,B,10\n", "master")
    made.put("ups_1.txt", b"x,AA,BB,11\n")
    return made


@pytest.mark.parametrize("names", ["id,ts", "id,a,ts", "id,a,b,c,ts"])
@pytest.mark.parametrize("more", [{}, {"output.format": "parquet"}, {"input.format": "csv"}])
def test_other_number_of_names_than_fields(job, names, more):
    count = len(names.split(","))
    shown = f"base.txt: its first row has 4 fields, and field.names has {count} names ({names.replace(',', ', ')}); "
    job.refused(ConfigError, shown, CURE, settings={**BY_TIME, "field.names": names, **more})


def test_order_by_file_name(job):
    """No field but the ID has a meaning for the merge, so nothing else would show the wrong names."""
    job.refused(
        ConfigError,
        "its first row has 4 fields, and field.names has 2 names",
        settings={**BY_FILE, "field.names": "a,id"},
    )


def test_wrong_delimiter(job):
    settings = {**BY_TIME, "field.names": "id,a,b,ts", "field.delim.regex": ";"}
    job.refused(
        ConfigError, "base.txt", "each of them has a comma 3 times; use -D 'field.delim.regex=,';", settings=settings
    )

    job.put("base.txt", b"x~A~B~10\n", "master")
    job.put("ups_1.txt", b"x~A~B~11\n")
    job.refused(
        ConfigError,
        "its first row has 1 field, and field.names has 4 names (id, a, b, ts); set field.delim.regex to the delimiter",
        settings=settings,
    )


def test_names_include_the_op_code(job):
    job.put("ups_1.txt", b"x,U,AA,BB,11\n")
    shown = "base.txt: its first row has 4 fields without the op code, so a feed row has 5, and field.names has 4 names"

    job.refused(ConfigError, shown, settings={**WITH_OP, "field.names": "id,op,a,ts"})
    job.run({**WITH_OP, "field.names": "id,op,a,b,ts"})
    assert rows(job.output) == [b"x,AA,BB,11", b"y,A,B,10"]


def test_width_of_a_master_that_was_written_before(job):
    job.follow({**BY_TIME, "field.names": "id,a,b,ts"})
    job.put("ups_2.txt", b"x,A,B,12\n")

    shown = f"{job.master}: by its manifest, a row has 4 fields, and field.names has 3 names (id, a, ts); "
    job.refused(ConfigError, shown, settings={**BY_TIME, "field.names": "id,a,ts"})


def test_width_of_the_feed_without_a_master(job):
    (job.master / "base.txt").unlink()
    settings = {**BY_FILE, "field.names": "id,a,ts", "allow.empty.master": "true", "deleted.record.file.prefix": "del"}
    job.put("del_0.txt", b"y\n")  # has IDs alone

    shown = f"{job.feed}/ups_1.txt: its first row has 4 fields, and field.names has 3 names"
    job.refused(ConfigError, shown, settings=settings)
    assert job.run({**settings, "field.names": "id,a,b,ts"}).counts["feed rows"] == 2


def test_a_bad_row_is_a_reject(job):
    job.put("ups_0.txt", b"z,AA\n")
    settings = {**BY_TIME, "field.names": "id,a,b,ts", "reject.policy": "quarantine"}

    assert job.run(settings).counts["feed rejected"] == 1


def test_rows_of_any_width(job):
    settings = {"field.count": "any", "id.field.ordinals": "0", "temporal.ordering.field.ordinal": "3"}
    report = job.run({**settings, "field.names": "id,a,b,ts,more"})
    assert [line for line in report.warnings if "field.names" in line] == []
    job.output = job.root / "other"
    report = job.run({**BY_FILE, "field.count": "any", "field.names": "id,ts"})

    shown = "field.names has 2 names, and the first row of base.txt has 4 fields: with field.count=any, these are the "
    assert report.warnings == (f"{shown}names of the first fields of each row",)


def test_a_feed_to_be_split(job):
    config = parse({"id.field.ordinals": "id", "field.names": "id,ts"})
    with pytest.raises(ConfigError, match=r"ups_1.txt: its first row has 4 fields, and field.names has 2 names"):
        feed_files(config, parse_fields("ts"), [str(job.feed)])


# --- all faults at once


def test_all_settings_that_text_cannot_have(job):
    message = job.refused(
        ConfigError,
        "the configuration: does not fit the data:\n  id.field.ordinals: 'id' is a name, and the fields of delimited",
        "\n  temporal.ordering.field.ordinal: 'ts' is a name",
        "\n  null.order: has no meaning for delimited text",
        "\n  output.codec: has no meaning for delimited text, whose rows stay as they are; leave it out",
        settings={**BY_TIME, "null.order": "lowest", "output.codec": "zstd"},
    )
    assert message.count("\n") == 4


def test_all_ordinals_beyond_the_fields(job):
    job.refused(
        ConfigError,
        "does not fit the data:\n  id.field.ordinals: field 7 is beyond the 4 fields of a row",
        "\n  temporal.ordering.field.ordinal: field 8 is beyond the 4 fields of a row",
        settings={"id.field.ordinals": "0,7", "temporal.ordering.field.ordinal": "8"},
    )


def test_all_names_that_no_file_has(job):
    job.refused(
        ConfigError,
        "does not fit the data:\n  id.field.ordinals: no input has a field idd; did you mean id?",
        "\n  temporal.ordering.field.ordinal: no input has a field when; they have id, a, b, ts",
        "\n  default.none: no input has a field none; ",
        settings={
            "id.field.ordinals": "idd",
            "temporal.ordering.field.ordinal": "when",
            "default.none": "1",
            "input.format": "csv",
            "header.lines": "1",
        },
        feed=[str(job.put("f.csv", b"id,a,b,ts\n"))],
        master=str(job.put("m.csv", b"id,a,b,ts\n", ".")),
    )
