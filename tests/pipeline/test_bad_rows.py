"""Rows that are not records, and widths that do not match, one test for each fault.

As in every test of bad input: the message names the location, the fault and the cure; nothing is published; no input
changes. Most runs go through the local engine, once as records and once as blocks.
"""

import gzip
import json

import pytest

from mutator import config
from mutator.cli import main
from mutator.engine.blocks.read_blocks import read_runs
from mutator.engine.records.read_records import read_task
from mutator.engine.split_content import REJECT
from mutator.errors import ConfigError, DataError
from mutator.plan import reading, run_plan
from mutator.plan.inspect import survey
from tests.support.job import BY_NAME, CONFIG, FEED, MASTER, WITH_OP, known, rows, snapshot

# --- rows


# (row, reason): each row is the one reject among good rows
UNREADABLE = {
    "too few fields": (b"x,1", "has 2 fields and should have 3"),
    "too many fields": (b"x,1,200,y", "has 4 fields and should have 3"),
    "trailing delimiter": (b"x,1,200,", "has 4 fields and should have 3"),
    "delimiter in quotes": (b'x,"1,5",200', "has 4 fields and should have 3"),
    "other delimiter": (b"x;1;200", "has 1 field and should have 3"),
    "blank": (b"  ", "has 1 field and should have 3"),
    "Ctrl-Z": (b"\x1a", "has 1 field and should have 3"),
    "header": (b"id,count,changed", "field 2 (order value) is not an integer: 'changed'"),
    "footer": (b"rows,,2", None),  # it is a valid row
    "no order value": (b"x,1,", "field 2 (order value) is not an integer: ''"),
    "order value with blanks": (b"x,1, 200", "field 2 (order value) is not an integer: ' 200'"),
    "decimal order value": (b"x,1,200.0", "field 2 (order value) is not an integer: '200.0'"),
    "exponent": (b"x,1,2e2", "field 2 (order value) is not an integer: '2e2'"),
    "underscore": (b"x,1,2_00", "field 2 (order value) is not an integer: '2_00'"),
    "NaN": (b"x,1,NaN", "field 2 (order value) is not an integer: 'NaN'"),
    "beyond 64 bits": (b"x,1,9223372036854775808", "field 2 (order value) is beyond 64 bits: '9223372036854775808'"),
    "other digits": ("x,1,٢".encode(), "field 2 (order value) is not an integer: '٢'"),
    "broken bytes": (b"x,1,\xff", r"field 2 (order value) is not an integer: '\xff'"),
    "long value": (b"x,1," + b"y" * 99, f"field 2 (order value) is not an integer: '{'y' * 40}…'"),
    "NUL in it": (b"x,1,\x00", r"field 2 (order value) is not an integer: '\x00'"),
}


@pytest.mark.thorough(keep=17)
@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_row(job, name):
    row, reason = UNREADABLE[name]
    path = job.put("ups.txt", b"b,2,200\n\n" + row + b"\nc,2,200\n")
    if reason is None:
        assert job.run().counts["feed inserted"] == 1
        return

    message = job.refused(DataError, "1 feed row cannot be read as a record", f"{path}: line 3, byte 9: {reason}")
    assert message.endswith(
        "Fix the row, or a setting that does not fit it; reject.policy=quarantine would leave it out of the result, up "
        "to reject.limit and max.reject.fraction"
    )
    job.run({**CONFIG, "reject.policy": "quarantine"})
    assert b"c,2,200" in rows(job.output)


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"2026-02-30T00:00:00Z", "is not a date of the calendar"),
        (b"2026-01-31T24:00:00", "is not a time of the day"),
        (b"26-01-31", "is not an ISO 8601 timestamp"),
        (b"2026-01-31T10:00:00 CET", "is not an ISO 8601 timestamp"),
        (b"", "is not an ISO 8601 timestamp"),
    ],
)
def test_unreadable_timestamp(job, value, reason):
    job.put("base.txt", b"a,1,2026-01-31\n", "master")
    job.put("ups.txt", b"b,2," + value + b"\n")

    job.refused(
        DataError,
        f"line 1, byte 0: field 2 (order value) {reason}: '{value.decode()}'",
        settings={**CONFIG, "temporal.ordering.field.type": "timestamp"},
    )


# files, those of the master below master/; what the message has, where {} is the directory of all; the settings
REFUSED = {
    "no ID field": (
        {"master/base.txt": b"1,a\n2,b,x\n", "ups_1.txt": b"1,c\n3\n"},
        ["line 2, byte 4: has 1 field and should have 2 or more"],
        {"id.field.ordinals": "1", "field.count": "any"},
    ),
    "a row with the key alone, though a field gives the order": (
        {"del.txt": b"b\n"},
        ["{}/feed/del.txt: line 1, byte 0: has 1 field and should have 3"],
        {**CONFIG, "deleted.record.file.prefix": "del"},
    ),
    "a row with the key alone in a file that does not delete": (
        {"ups_1.txt": b"b,2,1\nb\n"},
        ["{}/feed/ups_1.txt: line 2, byte 6: has 1 field and should have 3"],
        BY_NAME,
    ),
    "a row that is blank without its op code": (
        {"master/base.txt": b"a\nb\nc\n", "ups_1.txt": b"a,U\n,U\n"},
        ["ups_1.txt: line 2, byte 4: nothing is left of the row without its op code, and a blank line is not a record"],
        {"id.field.ordinals": "0", "op.code.field.ordinal": "1"},
    ),
    "a delete code in the master": (
        {"master/base.txt": b"a,1,I,100\nb,1,D,100\n", "ups.txt": b"a,2,U,200\n"},
        ["{}/master/base.txt: line 2, byte 10: field 2 (op code) marks a delete in the master: 'D'"],
        WITH_OP,
    ),
    "any width must include the needed fields": (
        {"ups.txt": b"b,2,200,more\nc,2\n"},
        ["1 feed row cannot be read", "line 2, byte 13: has 2 fields and should have 3 or more"],
        {**CONFIG, "field.count": "any"},
    ),
    "the width of the feed follows from the master": (
        {"ups.txt": b"b,2,U,200,x\nc,2,U,200\n"},
        ["1 feed row cannot be read", "{}/feed/ups.txt: line 1, byte 0: has 5 fields and should have 4"],
        {**WITH_OP, "op.code.in.master": "false"},
    ),
}
# the same, of settings that do not fit the files
MISFITS = {
    "another delimiter": (
        {"ups.txt": FEED},
        [
            "base.txt: field.delim.regex is ';', which does not occur in its first 4 rows, and each of them has a ",
            " has a comma 2 times; use -D 'field.delim.regex=,'; or",
        ],
        {**CONFIG, "field.delim.regex": ";"},
    ),
    "an ordinal beyond a row": (
        {"master/base.txt": b"a~1~100\n", "ups.txt": b"b~2~200\n"},
        [
            "temporal.ordering.field.ordinal: field 2 is beyond the 1 field of a row, split by field.delim.regex = ';'",
            "correct the ordinal (they count from 0), the delimiter or field.count",
        ],
        {**CONFIG, "field.delim.regex": ";"},
    ),
    "a width that fits neither layout": (
        {"ups.txt": b"b,2,U,200,x\n"},
        [
            "{}/feed/ups.txt: the first row has 5 fields, and the master's rows ({}/master) have 3",
            "set op.code.in.master=true or false, and field.count to the number of fields of a feed row",
        ],
        WITH_OP,
    ),
    "the feed file of another width": (
        {"a.txt": b"b,2,U,200\n", "b.txt": b"b,2,U,200\n", "z.txt": b"oops,x\n"},
        [
            "{}/feed/z.txt: the first row has 2 fields, that of a.txt has 4, and the master's rows ({}/master) have 3",
            "correct the file, or set op.code.in.master",
        ],
        WITH_OP,
    ),
    "op codes that the master cannot keep": (
        {"ups.txt": b"b,2,U,200\n"},
        [
            "{}/master",
            "op.code.keep=true writes rows with an op code, and the master's rows have none; leave op.code.keep out",
        ],
        {**WITH_OP, "op.code.keep": "true"},
    ),
}


@pytest.mark.parametrize("name", [*REFUSED, *MISFITS])
def test_run_is_refused(job, name):
    files, parts, settings = {**REFUSED, **MISFITS}[name]
    for path, content in files.items():
        side, _, file = path.rpartition("/")
        job.put(file, content, side or "feed")

    wanted = [part.replace("{}", str(job.root)) for part in parts]
    job.refused(DataError if name in REFUSED else ConfigError, *wanted, settings=settings)


def test_only_the_first_rejects_are_shown(job):
    job.put("ups.txt", b"".join(b"x%d\n" % number for number in range(20)) + FEED)
    message = job.refused(DataError, "20 feed rows cannot be read", settings={**CONFIG, "field.count": "3"})

    assert (message.count("has 1 field and should have 3"), message.count(": likewise: x")) == (1, 4)


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("split", ["1", "7", "64m"])
def test_quarantine(job, split):
    bad = [b"x", b"y,\xff\t,1", b"z,1,", b"\x00,,,"]
    one = job.put("ups-1.txt", b"\xef\xbb\xbf" + bad[0] + b"\r\n\r\na,2,200\n" + bad[1] + b"\n")
    two = job.put("ups-2.txt", b"b,2,200\n" * 9 + bad[2] + b"\n" + bad[3])
    three = job.put("ups-3.gz", gzip.compress(b"c,2,200\n\n" + bad[0] + b"\n"))
    report = job.run(
        {**CONFIG, "reject.policy": "quarantine", "reject.limit": "5", "split.bytes": split, "num.reducer": "3"}
    )

    place = [
        (one, 3, 1, "has 1 field and should have 3", bad[0]),
        (one, 16, 4, "field 2 (order value) is not an integer: '1'", bad[1]),
        (two, 72, 10, "field 2 (order value) is not an integer: ''", bad[2]),
        (two, 77, 11, "has 4 fields and should have 3", bad[3]),
        (three, 9, 3, "has 1 field and should have 3", bad[0]),
    ]
    place.pop(1)
    assert report.counts["feed rejected"] == 4
    (part,) = [part for part in known(job.output).beside if part.role == "rejected"]
    assert report.rejected_file == str(job.output / part.path)
    assert (job.output / part.path).read_bytes() == b"".join(
        f"{path}\t{offset}\t{line}\t{reason}\t".encode() + row + b"\n" for path, offset, line, reason, row in place
    )
    assert [(row["offset"], row["line"]) for row in report.rejects["feed"]] == [
        (at, line) for _, at, line, _, _ in place
    ]
    assert part.rows == 4
    json.loads(report.json())


def test_more_rejects_than_the_limit(job):
    job.put("ups.txt", b"b,2,200\nx\ny\nz\n")
    settings = {**CONFIG, "reject.policy": "quarantine", "reject.limit": "2"}

    job.refused(
        DataError,
        "3 feed rows cannot be read as records, and reject.limit is 2:",
        "Fix the rows, or a setting that does not fit them; a higher reject.limit would leave them out of the result",
        settings=settings,
    )
    settings |= {"max.reject.fraction": "0.75"}
    assert job.run({**settings, "reject.limit": "3"}).counts["feed rejected"] == 3


def test_rejects_of_the_master(job):
    job.put("ups.txt")
    path = job.put("base.txt", MASTER + b"e,1\n", "master")
    quarantine = {**CONFIG, "reject.policy": "quarantine"}
    message = f"{path}: line 5, byte 32: has 2 fields and should have 3: e,1"

    job.refused(
        DataError,
        "1 master row cannot be read",
        message,
        "master.reject.policy=quarantine would leave it out",
        settings=quarantine,
    )
    report = job.run({**CONFIG, "master.reject.policy": "quarantine"})
    assert report.counts["master rejected"] == 1
    assert report.counts["master rows"] == 5
    assert b"e,1" in (job.output / report.rejected_file).read_bytes()
    assert b"e,1" not in rows(job.output)


def test_the_delete_prefix_is_not_for_master_files(job):
    job.put("del_base.txt", b"e,1,100\n", "master")
    job.put("ups.txt")
    report = job.run({**CONFIG, "deleted.record.file.prefix": "del"})

    assert report.counts["output rows"] == 5


def test_a_tab_in_a_field_stays_out_of_the_reason(job):
    job.add("bad.txt", b"k1,2\tx,1\ty\nk2,2,2\n")

    report = job.run({**CONFIG, "reject.policy": "quarantine"})

    line = (job.root / report.rejected_file).read_bytes()
    assert line.split(b"\t", 4)[4] == b"k1,2\tx,1\ty\n"


def test_more_rejects_than_can_be_set_aside_do_not_travel(job):
    job.add("bad.txt", b"one field\n" * 10_000)
    settings = config.parse(CONFIG)
    found = survey.survey_inputs(settings, str(job.master), [str(job.feed)])
    made = run_plan.make_plan(settings, found, "run", 0, job.engine)
    read = {"records": read_task, "blocks": read_runs}[job.engine]
    elements = [element for task in made.tasks for element in read(made, task)]

    assert sum(element[0][0] == made.ledger and element[0][2] == REJECT for element in elements) == reading.SAMPLES
    job.refused(DataError, "10,000 feed rows cannot be read")


# --- width


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("id.field.ordinals", {"id.field.ordinals": "0,3"}),
        ("temporal.ordering.field.ordinal", {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "3"}),
    ],
)
def test_ordinal_beyond_the_fields(job, key, settings):
    job.put("ups_1.txt")

    job.refused(ConfigError, f"{key}: field 3 is beyond the 3 fields of a row", settings=settings)


def test_first_master_file_gives_the_width(job):
    job.put("ups.txt", b"b,2,200,more\n")
    job.put("az.txt", b"\n\ne,1,100,more\n", "master")
    message = job.refused(DataError, "4 master rows cannot be read", "has 3 fields and should have 4")

    assert str(job.master / "base.txt") in message


def test_first_feed_file_gives_the_width_without_a_master(job):
    job.put("ups-2.txt", b"x,2,200\n")
    path = job.put("ups-10.txt", b"a,2,200,more\n")
    settings = {**CONFIG, "allow.empty.master": "true"}
    message = job.refused(DataError, "has 3 fields and should have 4", settings=settings, master=str(job.root / "none"))

    assert str(path) not in message


def test_empty_managed_master_gives_the_width(job):
    (job.master / "base.txt").write_bytes(b"a,1,100\n")
    job.put("del.txt", b"a,1,200\n")
    job.follow({**CONFIG, "deleted.record.file.prefix": "del", "max.delete.fraction": "1"})
    job.add("ups.txt", b"b,1,300,more\n")

    assert rows(job.master) == []
    job.refused(DataError, "has 4 fields and should have 3")


def test_width_by_number(job):
    job.put("ups.txt", b"b,2,200,more\n")

    job.refused(
        DataError,
        "4 master rows cannot be read",
        "has 3 fields and should have 4",
        settings={**CONFIG, "field.count": "4"},
    )
    job.refused(
        DataError,
        "1 feed row cannot be read",
        "has 4 fields and should have 3",
        settings={**CONFIG, "field.count": "3"},
    )


def test_any_width_does_not_show_whether_there_are_op_codes(job):
    job.put("ups.txt", b"b,2,U,200\n")
    settings = {**WITH_OP, "field.count": "any"}

    job.refused(
        ConfigError,
        job.master,
        "with field.count=any it cannot be seen whether the rows carry the op code column; set op.code.in.master=true",
        settings=settings,
    )
    assert job.run({**settings, "op.code.in.master": "false"}).counts["feed updated"] == 1


def test_op_code_in_master_overrides_the_inferred_one(job):
    # The master's rows are as wide as the feed's, so they look like rows with op codes.
    (job.master / "base.txt").write_bytes(b"a,1,100,x\n")
    job.put("ups.txt", b"b,2,U,200\n")
    settings = {**WITH_OP, "field.count": "5"}

    job.refused(
        DataError,
        "1 feed row cannot be read",
        "has 4 fields and should have 5",
        settings={**settings, "op.code.in.master": "false"},
    )
    job.put("ups.txt", b"b,2,U,200,y\n")
    report = job.run({**settings, "op.code.in.master": "false"})
    assert rows(job.output) == [b"a,1,100,x", b"b,2,200,y"]
    assert "the master's rows have no op code column; rows are written without it" in report.notes


OP_CODE = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "op.code.field.ordinal": "2"}


def test_feed_files_that_disagree_do_not_show_whether_the_master_has_op_codes(job):
    (job.master / "base.txt").write_bytes(b"a,1,precious\n")
    path = job.add("forgotten.txt", b"c,2,oops\n")  # as wide as the master, because it has no op code
    job.add("ups.txt", b"b,2,U,bread\n")

    widths = f"{path}: the first row has 3 fields, that of ups.txt has 4, and the master's rows"
    job.refused(ConfigError, widths, "set op.code.in.master", settings=OP_CODE)


def test_an_inferred_op_code_column_of_the_master_is_reported(job):
    (job.master / "base.txt").write_bytes(b"a,1,U\n")
    job.add("ups.txt", b"b,2,U\n")

    assert any("set op.code.in.master to confirm it" in line for line in job.run(OP_CODE).warnings)


# --- the same through the command line, on Spark


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize(
    ("settings", "code", "part"),
    [
        (CONFIG, 3, "ups.txt: line 2, byte 8: has 1 field and should have 3: x\nFix the row, or a setting that"),
        (
            {**CONFIG, "reject.policy": "quarantine", "reject.limit": "0"},
            3,
            "would leave it out of the result, up to reject.limit",
        ),
        ({**CONFIG, "num.reducer": "x"}, 2, "num.reducer: 'x' must be a whole number"),
        ({**CONFIG, "field.delim.regex": ";"}, 2, "use -D 'field.delim.regex=,'; or, if a row is"),
    ],
)
def test_command_line(job, capsys, settings, code, part):
    job.put("ups.txt", FEED + b"x\n")
    before = snapshot(job.root)
    words = ["run", "--master", str(job.master), "--feed", str(job.feed), "--output", str(job.output)]
    words += ["--engine", job.engine]

    assert main([*words, *(word for key, value in settings.items() for word in ("-D", f"{key}={value}"))]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert part in output.err.partition("mutator: error: ")[2]
    assert "Traceback" not in output.err
    assert snapshot(job.root) == before
