"""Plausible mistakes that the first rows of the inputs show: each stops the run, or is said in a warning."""

import gzip
import io
import shutil

import pyarrow as pa
import pytest

import mutator
from mutator.errors import ConfigError, DataError
from mutator.formats.files.lines import CR, LF
from mutator.plan.inspect.first_rows import RecordedStream, first_bytes, head_of
from tests.support.columns_data import file_of
from tests.support.job import ENGINES, Job, rows
from tests.support.named_runs import TYPED, Work

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


# --- first rows


@pytest.mark.parametrize("file_format", [TEXT, CSV])
@pytest.mark.parametrize(
    ("members", "warnings"),
    [((b"k1,14", b"27761090\n"), 0), ((b"k1,1427761090", b"000\nk2,1427", b"761090000\n"), 1)],
)
def test_compressed_streams_that_end_within_rows(job, members, warnings, file_format):
    job.put("base.txt", b"k1,1427761080\nk2,1427761080\n", where="master")
    job.put("ups_7.txt.gz", b"".join(map(gzip.compress, members)))
    assert len(job.run({**BY_TIME, **file_format, "order.check": "false"}).warnings) == warnings


def test_heads_have_whole_lines():
    short = b"a" * ((16 << 10) - 2) + b"\nb"
    assert head_of(first_bytes([short[:7], short[7:]]), LF) == short
    assert head_of(first_bytes([short, b"b"]), LF) == short[:-1]
    assert head_of(first_bytes([b"a\r" * (8 << 10), b"\rb\n"]), LF) == b""
    assert head_of(first_bytes([b"a\rb" * (8 << 10)]), CR)[-3:] == b"ba\r"


def test_heads_go_on_where_the_reader_stops():
    stream = RecordedStream(io.BytesIO(b"a,1\nb,2\nc,3"), LF)
    assert stream.read(5) == b"a,1\nb"
    assert stream.head() == b"a,1\nb,2\nc,3"


# --- delimiters


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_format", [TEXT, CSV])
@pytest.mark.parametrize(
    ("delimiter", "setting"), [(b";", ";"), (b"\t", r"\t"), (b"|", "|"), (b"\x01", r"\u0001"), (b":", ":")]
)
def test_delimiter_that_does_not_occur(job, delimiter, setting, file_format):
    settings = {**BY_NAME, **file_format}
    job.put("base.txt", PEOPLE.replace(b",", delimiter), where="master")
    job.put("ups_7.txt", b"k1,Rob,200\nk9,Zoe,200\n".replace(b",", delimiter))
    message = job.refused(
        ConfigError, "base.txt", "does not occur", f"use -D 'field.delim.regex={setting}'; or", settings=settings
    )
    assert "2 times" in message

    report = job.run({**settings, "field.delim.regex": setting})
    assert (report.counts["output rows"], report.counts["feed updated"]) == (4, 1)


def test_delimiter_that_occurs_in_values_alone(job):
    """The names of the settings show the delimiter of a header."""
    settings = {"key": "id", "order_by": "at", "header": "true"}
    rows = b'id,at,note\n1,5,"red; blue"\n2,5,"a; b"\n'
    job.put("base.csv", rows, where="master")
    job.put("ups_7.csv", rows.replace(b"5", b"6"))
    says = (
        "base.csv: delimiter is ';', but a comma separates the names in its header, 'id,at,note'; use -D 'delimiter=,'"
    )
    job.refused(ConfigError, says, settings={**settings, "delimiter": ";"})

    job.follow(settings)
    job.add("ups_8.csv", b"id;at;note\n1;7;red, blue\n")
    says = "ups_8.csv: delimiter is ',', but a semicolon separates the names in its header, 'id;at;note'"
    job.refused(DataError, says, settings=settings)


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
    job.refused(ConfigError, "-D 'field.count=1'", settings=BY_NAME)
    assert job.run({**BY_NAME, "field.count": "1"}).counts["output rows"] == 3


# --- headers


@pytest.mark.parametrize("more", [b"", b"id,name,changed\nk2,Ann,201\n"], ids=["", "joined files"])
@pytest.mark.parametrize("file_format", [TEXT, CSV])
@pytest.mark.parametrize("settings", [BY_NAME, BY_TEXT])
def test_header_that_would_be_a_record(job, settings, file_format, more):
    settings = {**settings, **file_format}
    job.put("base.txt", PEOPLE, where="master")
    job.put("ups_7.txt", b"id,name,changed\nk1,Rob,200\n" + more)
    message = job.refused(DataError, "ups_7.txt", "looks like a header ('id,name,changed')", settings=settings)
    assert message.endswith("set header.lines=1; or, if it is a record, set header.check=false")

    assert job.run({**settings, "header.check": "false"}).counts["output rows"] >= 4


def test_a_number_that_is_an_ordinal_and_the_name_of_another_field(job):
    job.put("m.csv", b"1,0,ts\nk1,v,1\nk2,v,2\n", where="master")
    job.put("f.csv", b"1,0,ts\nk1,w,3\n")
    settings = {"header": "true", "order_by": "ts"}
    what = "1 may be field 1, whose name is '0', or field 0, whose name is '1'"
    job.refused(ConfigError, what, settings={**settings, "key": "1"})


def test_first_row_of_names_with_a_known_op_code_is_a_record(job):
    job.put("base.txt", b"b,a,10\n", where="master")
    settings = {**BY_TEXT, "op.code.field.ordinal": "3", "op.code.in.master": "false", "max.delete.fraction": "1"}
    job.put("ups_7.txt", b"b,a,Z,op\nc,a,10,U\n")
    job.refused(DataError, "ups_7.txt", "looks like a header", settings=settings)
    job.put("ups_7.txt", b"b,a,Z,D\nc,a,10,U\n")
    assert job.run(settings).counts["feed deleted"] == 1


NAMES, COLOURS = b"id,name,changed\n", b"k1,red\nk2,blue\nk3,red\n"
HEADERS = [  # the number of header lines, the master, the name and content of the feed file, parts of the message
    ("", b"product_id,colour\nlamp,red\nchair,blue\n", "ups", b"lamp,green\n", "base.txt", "its ID is the name of a"),
    # in Latin-1, as init reads it
    (
        "",
        PEOPLE,
        "ups",
        b"id,gr\xf6\xdfe,changed\nk1,Rob,200\n",
        "ups_7.txt",
        "field 2 is 'changed' there, and '200'",
    ),
    ("", PEOPLE, "del", b"id\nk1\n", "del_7.txt", "looks like a header ('id')"),
    ("", PEOPLE, "del", b"id\n", "del_7.txt", "looks like a header ('id')"),
    ("1", NAMES + PEOPLE, "del", b"k2\n", "del_7.txt", "the line 'k2' is skipped"),
    ("1", COLOURS, "ups", b"id,colour\nk2,green\n", "base.txt", "the line 'k1,red' is skipped"),
    (
        "2",
        b"H,2026,3\n" + NAMES + PEOPLE,
        "ups",
        NAMES + b"k1,Rob,200\nk2,Bo,200\n",
        "ups_7.txt",
        "the line 'k1,Rob,200' is",
    ),
]


@pytest.mark.parametrize(("count", "master", "name", "feed", "file", "part"), HEADERS)
def test_headers_that_are_set_wrongly(job, count, master, name, feed, file, part):
    job.put("base.txt", master, where="master")
    job.put(f"{name}_7.txt", feed)
    job.refused(DataError, file, part, settings={**BY_NAME, "header.lines": count})


@pytest.mark.parametrize(
    "rows",
    [
        b"alice,engineer\nbob,baker\n",
        b"k0,Zed,n/a\nk1,Bob,100\n",
        b"AAPL,Apple,n.a.\nIBM,IBM Corp,100\n",
        b"k0,Zed,sold\nk1,Bob,100\n",
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


@pytest.mark.parametrize(
    "header",
    [b"id,name,changed", b"ID,Name,2026", b"H,2026-01-31,500", b"#,,", b"customer no,first name,100", b"id,2025,2026"],
)
def test_header_lines_that_are_no_record(job, header):
    job.put("base.txt", header + b"\n" + PEOPLE, where="master")
    job.put("ups_7.txt", header + b"\nk1,Rob,200\n")
    report = job.run({**BY_NAME, "header.lines": "1"})
    assert (report.counts["output rows"], report.counts["feed updated"]) == (3, 1)


# --- master and feed swapped


def swapped(job, settings, *parts):
    return job.refused(
        ConfigError, *parts, "master and feed are probably swapped: name ", settings={**settings, "num.reducer": "2"}
    )


def test_swapped_by_name(tmp_path):
    for name in ("incr", "base"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}_7.txt").write_bytes(PEOPLE)
    job = Job(tmp_path)
    paths = {"master": str(tmp_path / "incr"), "feed": [str(tmp_path / "base")]}
    job.refused(ConfigError, "incr: is named as the master, and base as the feed", settings=BY_NAME, **paths)
    assert job.run(BY_NAME, master=paths["feed"][0], feed=[paths["master"]]).counts["output rows"] == 3


def test_delete_files_in_the_master(job):
    job.put("base.txt", PEOPLE)
    job.put("ups_7.txt", PEOPLE, where="master")
    job.put("del_8.txt", b"k9,Bob,100\n", where="master")
    by_field = {**BY_NAME, "temporal.ordering.field.ordinal": "2"}
    (warning,) = job.run(by_field).warnings
    assert warning == (
        "del_8.txt: in the master, with the name of a delete file: its rows are read as records; are master and "
        "feed swapped?"
    )
    job.output = job.root / "other"
    job.put("del_9.txt", b"k2,Al,100\n")
    assert job.run(by_field).warnings == ()


@pytest.mark.parametrize("op", ["2", "op"])
def test_swapped_with_op_codes(job, op):
    by_name = {"field.names": "id,name,op,changed", "id.field.ordinals": "id", "input.format": "csv"}
    settings = {**BY_TEXT, **(by_name if op == "op" else {}), "op.code.field.ordinal": op}
    settings["temporal.ordering.field.ordinal"] = "3" if op == "2" else "changed"
    header = [b"id,name,op,changed\n", b"id,name,changed\n"] if op == "op" else [b"", b""]
    job.put("base.txt", header[1] + PEOPLE)
    job.put("ups_7.txt", header[0] + b"k1,Rob,U,200\n", where="master")
    swapped(job, settings, "master: its rows have the op code (op.code.field.ordinal=2), and those of the feed do")


def test_a_feed_of_short_rows_is_not_taken_for_the_master(job):
    job.put("ups_7.txt", b"k1,Rob\n")
    job.put("base.txt", PEOPLE, where="master")
    settings = {**BY_TEXT, "op.code.field.ordinal": "3", "temporal.ordering.field.ordinal": "2"}
    job.refused(ConfigError, "ups_7.txt: the first row has 2 fields, and the master's rows", settings=settings)


@pytest.mark.parametrize(
    ("content", "more"), [(b"", {"allow.empty.master": "true"}), (b"id,name,changed\n", {})], ids=["empty", "header"]
)
def test_a_master_without_rows_is_not_taken_for_the_feed(job, content, more):
    job.put("ups_7.txt", b"id,name,op,changed\nk1,Rob,U,200\n")
    job.put("base.txt", content, where="master")
    settings = {**BY_TEXT, "op.code.field.ordinal": "2", "temporal.ordering.field.ordinal": "3", "header.lines": "1"}
    assert job.run({**settings, **more}).counts["feed inserted"] == 1


def test_swapped_with_sequences(job):
    job.put("base.txt", PEOPLE)
    job.put("ups_7.txt", PEOPLE, where="master")
    swapped(job, BY_NAME, "order comes from file names, and no feed file has a sequence, but each file of the master")


def test_swapped_with_a_managed_master(job):
    job.put("base.txt", PEOPLE, where="master")
    job.put("ups_7.txt", b"k1,Rob,200\n")
    by_field = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "2"}
    job.run(by_field)
    merged, job.output = job.output, job.root / "other"
    paths = {"master": str(job.feed), "feed": [str(merged)]}
    job.refused(
        ConfigError, f"{merged}: is named as the feed, and it is a master that mutator", settings=by_field, **paths
    )

    report = job.run(by_field, master=str(job.master), feed=[f"{merged}/part-*"])
    assert (report.counts["output rows"], report.warnings) == (3, ())


def test_managed_master_as_feed_of_another(job):
    job.put("base.txt", PEOPLE, where="master")
    job.put("ups_7.txt", b"k1,Rob,200\n")
    by_field = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "2"}
    job.run(by_field)
    merged, job.output = job.output, job.root / "other"
    copy = shutil.copytree(merged, job.root / "copy")
    (warning,) = job.run(by_field, master=str(merged), feed=[str(copy)]).warnings
    assert warning == f"{copy}: the feed is a master that mutator wrote: its rows are merged, its tombstones are not"


# --- op codes

OP = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "4", "op.code.field.ordinal": "2"}


def test_op_codes_are_in_the_next_field(job):
    job.put("base.txt", b"k1,Bob,7,100\nk2,Al,8,100\n", where="master")
    job.put("ups_7.txt", b"k1,Rob,7,U,200\nk2,Al,8,D,200\nk3,Eve,9,I,200\n")
    message = job.refused(
        ConfigError, "op.code.field.ordinal=2: the field has '7' (1), '8' (1), '9' (1) in", settings=OP
    )
    assert message.endswith("and field 3 has 'D' (1), 'I' (1), 'U' (1); set op.code.field.ordinal=3")
    assert job.run({**OP, "op.code.field.ordinal": "3"}).counts["output rows"] == 2


@pytest.mark.parametrize(
    ("values", "upserts"),
    [
        ([b"U", b"I", b"D", b"U"], {}),
        ([b"u", b"i", b"u", b"u"], {}),
        ([b"1", b"2", b"9", b"1"], {"upsert.op.code": "1,2,9"}),
        ([b"status", b"other", b"third", b"status"], {"upsert.op.code": "other,status,third"}),
    ],
)
def test_op_codes_may_be_any_few_values(job, values, upserts):
    job.put("base.txt", b"k1,Bob,A,100\nk2,Al,B,100\n", where="master")
    grades = [b"A", b"B", b"D", b"E"]
    rows = zip(values, grades, strict=True)
    job.put("ups_7.txt", lines(*(b"k%d,Bob,%b,%b,200" % (at, *pair) for at, pair in enumerate(rows))))
    if upserts:
        cure = f"if all codes are upserts, use -D 'upsert.op.code={upserts['upsert.op.code']}'"
        job.refused(DataError, cure, settings=OP)
    job.run({**OP, **upserts})


# --- order values

BY_TIME = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1"}


def warnings_of(job, settings, master, feed):
    job.put("base.txt", lines(*(b"k%d,%b" % pair for pair in enumerate(master))), where="master")
    job.put("ups_7.txt", lines(*(b"k%d,%b" % pair for pair in enumerate(feed))))
    return job.run({**BY_TIME, **settings}).warnings


AS_TEXT = {"temporal.ordering.field.type": "string"}
AS_TIME = {"temporal.ordering.field.type": "timestamp"}
AS_DECIMAL = {"temporal.ordering.field.type": "decimal"}


def test_text_order_on_numbers(job):
    job.put("base.txt", b"k1,9\nk2,9\n", where="master")
    job.put("ups_7.txt", b"k1,10\nk2,10\n")
    numeric = {**BY_TIME, "temporal.ordering.field.numeric": "false"}
    job.refused(
        ConfigError,
        "temporal.ordering.field.numeric=false: order values are compared as text, and all in the first rows are ",
        "numbers: '9' counts as newer than '10'; set temporal.ordering.field.type=long or decimal, or, if text is ",
        settings=numeric,
    )
    (warning,) = job.run({**BY_TIME, **AS_TEXT}).warnings
    assert "'9' counts as newer than '10'; temporal.ordering.field.type=long or decimal compares numbers" in warning


@pytest.mark.parametrize(
    ("older", "newer", "form"),
    [
        ("2026-01-31 11:00:00", "2026-01-31T10:00:00", "timestamps of several forms"),
        ("2026-01-31T10:00:00.5Z", "2026-01-31T10:00:00Z", "timestamps of several forms"),
        ("27-NOV-26", "01-DEC-26", "dates with the names of months"),
        ("27-NOV-26 09.15.00.000000000 AM", "01-DEC-26 09.15.00.000000000 AM", "dates with the names of months"),
        ("Nov 27 2026", "Dec 1 2026", "dates with the names of months"),
        ("Thu Nov 26 10:00:00 UTC 2026", "Fri Nov 27 10:00:00 UTC 2026", "dates with the names of months"),
        ("Fri, 27 Nov 2026 10:00:00 +0000", "Tue, 01 Dec 2026 09:00:00 +0000", "dates with the names of months"),
        ("11/27/26", "01/02/27", "dates that begin with the month"),
        ("03.12.2025", "02.02.2026", "dates that begin with the day"),
        ("01.12.2025", "15.12.2025", "dates that begin with the day"),  # in order this month
        ("31.12.26", "01.01.27", "dates that begin with the day"),
        ("27-Dez-2026", "02-Mai-2027", "dates with the names of months"),
        ("Q4 2026", "Q1 2027", "quarters or weeks before their year"),
        ("1.9.0", "1.10.0", "positions with numbers in them"),
        ("15-01-2026 10:00", "02-02-2026 10:00", "dates that begin with the day"),
        ("2026-11-27 11:59:00 AM", "2026-11-27 01:00:00 PM", "dates that begin with the year"),
        ("11/27/2026 9:59 am", "11/27/2026 1:00 pm", "dates that begin with the month"),
        ("2026-9-30", "2026-10-1", "dates that begin with the year"),
        ("0/FFFF", "0/10000", "positions in the log of PostgreSQL"),
        ("mysql-bin.9:154", "mysql-bin.10:4", "positions with numbers in them"),
        ("3E11FA47-71CA-11E1-9E33-C80AA9429562:9", "3E11FA47-71CA-11E1-9E33-C80AA9429562:23", "positions with numbers"),
    ],
)
def test_values_whose_order_as_text_is_wrong(job, older, newer, form):
    """A run stops, whether the newer value is in the feed or in the master, unless the order of text is meant."""
    settings = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "field.delim.regex": ";", **AS_TEXT}
    for master, feed in ((older, newer), (newer, older)):
        job.put("base.txt", f"a;{master}\n".encode(), where="master")
        job.put("ups_7.txt", f"a;{feed}\n".encode())
        message = job.refused(ConfigError, f"all in the first rows are {form}", settings=settings)
        assert message.endswith("or, if the order of text is meant, set order.check=false")
    assert job.run({**settings, "order.check": "false"}).counts["feed rows"] == 1


@pytest.mark.parametrize("key", ["snapshot.as.of", "order.max"])
@pytest.mark.parametrize(
    ("zone", "value", "warns"),
    [("+02:00", "2026-05-02", True), ("+02:00", "2026-05-02T00:00:00+02:00", False), ("Z", "2026-05-02", False)],
)
def test_a_time_in_a_setting_without_the_zone_of_rows(job, key, zone, value, warns):
    rows = [f"2026-05-01T0{hour}:20:00{zone}".encode() for hour in range(4)]
    full = {"sync.mode": "full"} if key == "snapshot.as.of" else {}
    found = [one for one in warnings_of(job, {**AS_TIME, **full, key: value}, rows, rows) if "zone" in one]
    told = f"{key}={value} has no zone, so it is UTC, and rows have another, such as '2026-05-01T00:20:00+02:00'; "
    assert found == [f"{told}write it with their zone, as in 2026-01-31T00:00:00+02:00"] * warns


def test_times_with_and_without_zone(job):
    found = warnings_of(job, AS_TIME, [b"2026-01-31T10:00:00Z", b"2026-01-31"], [b"2026-01-31 11:00:00"])
    (warning,) = found
    assert warning == (
        "order values with and without a zone: in the first rows 1 have one, such as '2026-01-31T10:00:00Z', and 1 "
        "have none, such as '2026-01-31 11:00:00', and count as UTC; if these are local times, have them delivered "
        "with their zone"
    )


@pytest.mark.parametrize(
    ("settings", "master", "feed", "forms"),
    [
        ({}, b"1427761080", b"1427761080000", "milliseconds since 1970 ('1427761080000')"),
        ({}, b"1427761080000000", b"1427761080000", "microseconds since 1970 ('1427761080000000'): they"),
        ({}, b"1427761080", b"20150331", "dates of 8 digits ('20150331')"),
        ({}, b"1427761080", b"499", "small numbers ('499')"),
        (AS_DECIMAL, b"1427761080.5", b"20150331", "dates of 8 digits ('20150331')"),
        (AS_TEXT, b"2026-01-31", b"1427761080", "numbers ('1427761080')"),
    ],
)
def test_order_values_of_other_units(job, settings, master, feed, forms):
    found = warnings_of(job, {**settings, "order.check": "false"}, [master] * 3, [feed] * 3)
    (warning,) = found
    assert f" like {forms}" in warning
    assert warning.endswith("they are compared as they are, so one of them always wins")


@pytest.mark.parametrize(
    ("settings", "master", "feed"),
    [
        ({}, [b"1", b"2"], [b"20000", b"7"]),
        ({}, [b"1427761080"], [b"1787761080", b"1327761080"]),
        ({}, [b"0", b"0"], [b"1787761080"]),  # an initial load
        ({}, [b"0", b"1427761080"], [b"1787761080000"]),  # no form in common
        (AS_TEXT, [b"10", b"11"], [b"12"]),
        (AS_TEXT, [b"v9", b"v10"], [b"9"]),
        (AS_TEXT, [b"26-11-30"], [b"26-12-01"]),
        (AS_TEXT, [b"2026-01-31-10.15.00.45"], [b"2026-01-31-10.15.00.5"]),
        (AS_TEXT, [b"01HF9ZZ"], [b"01HG10A"]),
        (AS_TEXT, [b"mysql-bin.000009:999"], [b"mysql-bin.000010:004"]),
        (AS_TEXT, [b"2026-01-31T10:00:00.9Z"], [b"2026-01-31T10:00:01.1Z"]),
        (AS_TIME, [b"2026-01-31T10:00:00", b"2026-01-31"], [b"2026-01-31 11:00:00"]),
        (AS_TIME, [b"2026-01-31T10:00:00+01:00"], [b"20260131T110000Z"]),
    ],
)
def test_order_values_that_are_plausible(job, settings, master, feed):
    found = warnings_of(job, settings, master, feed)
    assert found == ()


# --- IDs


@pytest.mark.parametrize(
    ("master", "feed", "example"),
    [
        ([b"A1", b"A2"], [b"a1 "], "'a1 ' in the feed, 'A1' in the master"),
        ([b"1", b"2"], [b"001", b"002"], "'001' in the feed, '1' in the master"),
        ([b"A-07", b"A-08"], [b"A-7"], "'A-7' in the feed, 'A-07' in the master"),
        ([b"k1", b"k2"], [b'"k1"'], "'\"k1\"' in the feed, 'k1' in the master"),
        ([b"11", b"12"], [b"11.0"], "'11.0' in the feed, '11' in the master"),
        ([b"1.50"], [b"1.5"], "'1.5' in the feed, '1.50' in the master"),
        ([b"12345678901"], [b"1.2345678901E10"], "in the feed, '12345678901' in the master"),
        ([b"+5"], [b"5"], "'5' in the feed, '+5' in the master"),
        ([b"6f9619ff-8b86-d011-b42d-00cf4fc964ff"], [b"6F9619FF8B86D011B42D00CF4FC964FF"], "'6F9619FF8B86D011B42D"),
        (["Zo\u00eb".encode()], ["Zoe\u0308".encode()], "in the feed"),
        ([b"a b"], ["a\u00a0b".encode()], "in the feed"),
        ([b"ab"], ["ab\u200b".encode()], "in the feed"),
        ([b"11", b"12", b"13"], [b"21.0", b"22.0", b"23.0"], "feed have a point, as floating-point numbers have"),
        ([b"000001", b"000002", b"000003"], [b"11", b"12", b"13"], "master have leading zeros ('000001'), and none of"),
        (
            [b"aa", b"bb", b"cc"],
            [b"DD", b"EE", b"FF"],
            "feed have capital letters alone ('DD'), and none of the master",
        ),
        ([b"aa ", b"bb ", b"cc "], [b"dd", b"ee", b"ff"], "master have blanks around them ('aa ')"),
        ([b"aa", b"bb", b"cc"], [b'"dd"', b'"ee"', b'"ff"'], "feed have quotes around them ('\"dd\"')"),
    ],
)
def test_ids_in_another_form(job, master, feed, example):
    (warning,) = warnings_of_ids(job, master, feed)
    assert example in warning


@pytest.mark.parametrize(
    ("master", "feed"),
    [
        ([b"A1", b"a1", b"A2"], [b"a2"]),  # case matters
        ([b"1", b"2"], [b"3", b"001", b"1"]),
        ([b"k1", b"k2", b"k3"], [b"k4", b"k5", b"k6"]),
        ([b"1.10", b"1.2"], [b"1.1", b"1.10"]),  # versions: both are in the feed
        ([b"000001", b"000002", b"000003"], [b"100011", b"100012", b"100013"]),
        ([b"Ab", b"Cd", b"Ef"], [b"GH", b"IJ", b"KL"]),
        ([b"a b", b"c d", b"e f"], [b"g", b"h", b"i"]),
        ([b"0", b"00", b"000"], [b"0000", b"1", b"2"]),
    ],
)
def test_ids_that_are_plausible(job, master, feed):
    assert warnings_of_ids(job, master, feed) == ()


def warnings_of_ids(job, master, feed):
    job.put("base.txt", lines(*(b"%b,1" % value for value in master)), where="master")
    job.put("ups_7.txt", lines(*(b"%b,2" % value for value in feed)))
    first = job.run(BY_TIME)
    job.put("empty_8.txt", b"")
    managed, job.output = job.output, job.root / "other"
    job.run(BY_TIME, master=str(managed), feed=[str(job.feed / "empty_8.txt")])
    return first.warnings


def in_typed_files(directory, file_format, *tables):
    """Return the directories of a master and a feed of a format, or the tables if it is None."""
    if file_format is None:
        return tables
    for name, table in zip(("master", "feed"), tables, strict=True):
        (directory / name).mkdir()
        (directory / name / f"f.{file_format}").write_bytes(file_of(file_format, table))
    return directory / "master", directory / "feed"


@pytest.mark.parametrize("file_format", ["parquet", "avro", None])
def test_ids_in_another_form_in_typed_files_and_tables(tmp_path, file_format):
    tables = [pa.table({"id": ids, "at": [at] * 2}) for at, ids in enumerate((["11", "12"], ["11.0", "x"]))]
    master, feed = in_typed_files(tmp_path, file_format, *tables)
    (warning,) = mutator.merge(master=master, feed=feed, key="id", order_by="at").warnings
    assert "'11.0' in the feed, '11' in the master" in warning


@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc", None])
@pytest.mark.parametrize("master", ["27-NOV-26", None])
def test_order_values_of_typed_files_and_tables(tmp_path, file_format, master):
    tables = [pa.table({"id": ["1"], "at": pa.array([at], "string")}) for at in (master, "01-DEC-26")]
    master, feed = in_typed_files(tmp_path, file_format, *tables)
    with pytest.raises(ConfigError, match="all in the first rows are dates with the names of months"):
        mutator.merge(master=master, feed=feed, key="id", order_by="at", order_type="string")


def test_ids_and_order_values_of_a_managed_master(job):
    job.put("base.txt", b"001,1427761080\n002,1427761080\n", where="master")
    job.put("ups_7.txt", b"001,1427761090\n")
    job.run({**BY_TIME, "num.reducer": "1"})
    managed, job.output = job.output, job.root / "other"
    job.put("ups_8.txt", b"2,1427761090000\n")
    order, ids = job.run(BY_TIME, master=str(managed), feed=[str(job.feed / "ups_8.txt")]).warnings
    assert "look like milliseconds since 1970" in order
    assert "'2' in the feed, '002' in the master" in ids


def test_ids_that_are_whole_numbers(tmp_path):
    work = Work(tmp_path)
    work.put("master/m", pa.table({"id": [1, 2], "at": [1, 1]}), "parquet")
    work.put("feed/f_1.csv", b"id,at\n1,2\n")
    work.run({"output.format": "csv", "num.reducer": "1"})
    work.put("feed2/f_2.csv", b"id,at\n001,3\n")
    assert work.run(master="out1", feed="feed2").warnings == ()
    assert [row["id"] for row in work.rows()] == ["1", "2"]


# --- columns


@pytest.fixture
def work(tmp_path):
    made = Work(tmp_path)
    made.put("master/m.csv", b"id,at,name,price\na,1,x,5\nb,1,y,6\n")
    return made


def test_csv_that_lacks_columns_of_the_master(work):
    work.put("feed/f_1.csv", b"id,at,name\na,2,z\n")
    message = (
        r"f_1\.csv: lacks field price of the master, and the fields of the newest feed file are those of the result, "
        r"so all records would lose them; have .*, set removed\.fields=price"
    )
    with pytest.raises(DataError, match=message):
        work.run()
    assert work.run({"removed.fields": "price"}).warnings == ()
    assert work.rows() == [{"id": "a", "at": "2", "name": "z"}, {"id": "b", "at": "1", "name": "y"}]

    managed = work.output.name
    work.put("feed2/f_2.csv", b"id,at\na,3\n")
    with pytest.raises(DataError, match=r"f_2\.csv: lacks field name of the master"):
        work.run({"removed.fields": "price"}, master=managed, feed="feed2")


@pytest.mark.parametrize("file_format", TYPED)
def test_typed_file_that_lacks_columns_of_the_master(work, file_format):
    (work.path / "master" / "m.csv").unlink()
    work.put("master/m", pa.table({"id": ["a"], "at": [1], "name": ["x"], "price": [5]}), file_format)
    work.put("feed/f_1", pa.table({"id": ["a"], "at": [2]}), file_format)
    (warning,) = work.run().warnings
    assert warning == (
        f"fields name, price of the master: removed from all records, because f_1.{file_format} has no such fields; "
        "output.schema keeps them, and removed.fields confirms the change"
    )
    assert work.run({"removed.fields": "name,price"}).warnings == ()


def test_columns_in_another_order(work):
    work.put("feed/f_1.csv", b"id,at,price,name,new\na,2,7,z,n\n")
    (warning,) = work.run().warnings
    assert warning == (
        "the result has its fields in the order of f_1.csv (id, at, price, name), the master has them in another "
        "(id, at, name, price): programs that read fields by position would confuse them"
    )


def test_columns_of_the_op_code_may_be_missing(work):
    work.put("feed/f_1.csv", b"op,id,at,name,price\nU,a,2,z,7\n")
    assert work.run({"op.code.field.ordinal": "op"}).warnings == ()


# --- sequences of file names


def test_numbers_that_contradict_the_dates_in_file_names(job):
    """A name that was merged before counts, too; a pattern, or ``last``, decides."""
    settings = {"id.field.ordinals": "0"}
    job.put("orders_20261231_2.txt", b"a,old\n")
    job.put("base.txt", b"a,first\n", where="master")
    both = job.put("orders_20270101_1.txt", b"a,new\n")

    cure = "use -D 'sequence.pattern=date'; or, if these digits are the order, use -D sequence.pattern=last"
    job.refused(DataError, "orders_20261231_2.txt has a higher number", cure, settings=settings)
    both.unlink()
    job.follow(settings)
    job.add("orders_20270101_1.txt", b"a,new\n")
    adopted = {"sequence.pattern": "date", "master.adopt": "true"}
    job.refused(
        DataError, "sequence.pattern=date', with master.adopt=true, which forgets tombstones", settings=settings
    )
    for more, expected in ((adopted, b"a,new"), ({"sequence.pattern": "last"}, b"a,old")):
        output = job.root / more["sequence.pattern"]
        job.run({**settings, **more}, output=str(output))
        assert rows(output) == [expected]


def test_a_name_without_a_sequence_for_a_pattern(job):
    job.put("base.txt", b"a,first\n", where="master")
    job.put("ups_7.txt", b"a,new\n")
    settings = {"id.field.ordinals": "0", "sequence.pattern": "dms"}
    job.refused(DataError, "no sequence, that is none that sequence.pattern=dms finds", settings=settings)


# --- lines that are headers, and lines that are none


def test_a_file_whose_only_line_is_no_header(job):
    job.put("m.csv", b"id,name,ts\n1,a,1\n3,c,3\n", where="master")
    path = job.put(name := "u.txt", b"3,chair,9")
    settings = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "ts", "header.lines": "1"}

    job.refused(DataError, name, "its only line, '3,chair,9', is skipped as a header", settings=settings)
    path.write_bytes(b"ID,name,ts\n")
    assert job.run(settings).counts["feed rows"] == 0


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        ("u.csv", '[\n  {\n    "id": 3,\n    "name": "x"\n  }\n]\n', "is a JSON array; put each object"),
        ("u.txt", "<html><body>404</body></html>", "is HTML, and no data"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_file_of_json_or_html(job, name, line, says, named):
    job.put("m.csv", b"id,name,ts\n1,a,1\n3,c,3\n", where="master")
    job.put(name, line.encode())
    fields = ("id", "ts") if named else ("0", "2")
    settings = dict(zip(("id.field.ordinals", "temporal.ordering.field.ordinal"), fields, strict=True))

    job.refused(DataError, name, says, settings={**settings, "header.lines": "1"})


@pytest.mark.thorough(keep=9)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(
    ("mark", "again"),
    [(mark, again) for mark in (b"", b"\xef\xbb\xbf") for again in (b"id,name", b"id, name", b'"id","name"')],
)
def test_a_header_in_the_middle_of_a_file_is_ignored(job, again, mark, ending, named):
    """As ``cat a.csv b.csv`` writes it, with the byte order mark of each file; a row that begins like it stays."""
    one, other = [b"id,name", b"1,a", b"id,names"], [again, b"2,b", b""]
    content = b"".join(mark + ending.join([*lines, b""]) for lines in (one, other))
    job.put("f_1.csv" if named else "f_1.txt", content)
    settings = {"id.field.ordinals": "id" if named else "0", "header.lines": "1", "allow.empty.master": "true"}

    counts = job.run(settings).counts
    assert (counts["feed inserted"], counts["feed rows"], counts["feed ignored"]) == (3, 3, 3)
    more = {"header.check": "false", "reject.policy": "quarantine", "max.reject.fraction": "1"}
    assert job.run({**settings, **more}, output=str(job.root / "all")).counts["feed rows"] == 4


@pytest.mark.parametrize("again", [b"name,id", b"ID,Name", b"\xef\xbb\xbfName,ID"])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_header_in_another_order_or_case(job, engine, named, again):
    """The rows after it would be read as other fields. A record of the same length passes."""
    job.engine = engine
    job.put("f_1.csv" if named else "f_1.txt", b"id,name\ndin,mea\n" + again + b"\nb,2\n")
    settings = {"id.field.ordinals": "id" if named else "0", "header.lines": "1", "allow.empty.master": "true"}

    shown = again.decode("utf-8-sig")
    says = f"the row at byte 16 has the names of the header in another order or case ('{shown}')"
    message = job.refused(DataError, "f_1.", says, settings=settings)
    assert message.endswith("split the file before that row; or, if it is a record, set header.check=false")
    assert job.run({**settings, "header.check": "false"}, output=str(job.root / "all")).counts["feed rows"] == 3


@pytest.mark.parametrize(("header", "row"), [("a,b", "B,A"), ("東x,値y", "値x,東y")])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_record_of_the_letters_of_the_header(job, engine, header, row):
    """Single letters may be values, and words beyond ASCII are compared whole."""
    job.engine = engine
    job.put("f_1.txt", f"{header}\n{row}\nk1,9\n".encode())
    settings = {"id.field.ordinals": "0", "header.lines": "1", "allow.empty.master": "true"}
    assert job.run(settings).counts["feed inserted"] == 2


# --- directories of partitions


@pytest.mark.parametrize("file_format", ["parquet", "orc", "csv"])
def test_a_master_whose_partition_field_is_in_directories_alone(tmp_path, file_format):
    """As Hive, Spark and pandas write it: neither the field nor one derived from another field partitions its rows."""
    work = Work(tmp_path, settings={"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at"})
    for day in (1, 2):
        rows = {"id": [f"a{day}", f"b{day}"], "at": [f"2026-01-0{day}T10:00:00", f"2026-01-03T1{day}:00:00"]}
        work.put(f"master/day=2026-01-0{day}/f_0", pa.table(rows), file_format)
    feed = pa.table({"id": ["a1"], "at": ["2026-01-09T10:00:00"], "day": ["2026-01-01"]})
    work.put("feed/f_1", feed, file_format)
    by = {"temporal.ordering.field.type": "timestamp", "partitioned.by": "day=date(at)"}

    with pytest.raises(ConfigError, match="it has a row of day=2026-01-03"):
        work.run(by)
    work.put("feed/f_1", feed.drop_columns(["day"]), file_format)
    with pytest.raises(ConfigError, match=r"day=2026-01-0\d is not that: it has a row of day=2026-01-03"):
        work.run(by)
    with pytest.raises(ConfigError, match="its fields are not date"):
        work.run({**by, "partitioned.by": "date=date(at)"})


def test_a_header_with_the_names_of_the_settings_is_none_of_records(job):
    """Its names have the forms of the IDs."""
    job.put("m.csv", b"k0,o,p,q,v\nk1,,a,b,c\n", where="master")
    job.put("f_1.csv", b"k0,o,p,q,v,op\nk32,,p2,p1,x,I\nk33,,p2,p1,y,U\n")
    settings = {"id.field.ordinals": "k0", "op.code.field.ordinal": "op", "header.lines": "1"}
    assert job.run(settings).counts["feed inserted"] == 2


def test_an_id_of_a_table_keeps_its_type(tmp_path):
    """A first table with an int32 must not refuse the files that follow, which have one, too."""
    first = pa.table({"id": pa.array([1, 2], pa.int32()), "at": [1, 1]})
    table = mutator.Table.create(tmp_path / "t", key="id", order_by="at")
    table.apply(first)
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "f.parquet").write_bytes(file_of("parquet", first.slice(0, 1).set_column(1, "at", [[2]])))
    assert table.apply(tmp_path / "feed").counts["feed updated"] == 1
