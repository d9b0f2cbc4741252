"""Headers of delimited files: fields that a header moves are found by name, or the run is refused."""

import gzip

import pytest

from mutator.errors import ConfigError, DataError
from tests.support.job import Job, known, rows
from tests.support.named_runs import ENGINES, Work

NAMES = {"field.names": "id,a,b,ts", "id.field.ordinals": "id", "temporal.ordering.field.ordinal": "ts"}
ORDINALS = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "3"}
BY_NAME = {"id.field.ordinals": "0", "deleted.record.file.prefix": "del", "max.delete.fraction": "1"}
HEADER = {"header.lines": "1"}


@pytest.fixture(params=ENGINES)
def work(request, tmp_path):
    made = Work(tmp_path, request.param)
    made.settings = dict(NAMES)
    made.put("master/m.csv", b"id,a,b,ts\nx,A,B,10\ny,A,B,10\n")
    return made


@pytest.fixture(params=ENGINES)
def job(request, tmp_path):
    made = Job(tmp_path, request.param)
    (made.master / "base.txt").write_bytes(b"id,a,b,ts\nx,A,B,10\ny,A,B,10\n")
    return made


# --- field.names


@pytest.mark.parametrize("header", [{}, HEADER])
@pytest.mark.parametrize("ids", ["id", "0"])
def test_csv_with_field_names_is_read_by_name(work, header, ids):
    work.put("feed/f_1.csv", b"id,b,a,ts\nx,BB,AA,11\n")
    work.run({**header, "id.field.ordinals": ids})

    assert work.rows() == [
        {"id": "x", "b": "BB", "a": "AA", "ts": "11"},
        {"id": "y", "b": "B", "a": "A", "ts": "10"},
    ]


@pytest.mark.parametrize(
    ("header", "row", "fault"),
    [
        (b"ts,a,b,id", b"11,AA,BB,x", "ts is field 0 here, and field 3 in "),
        (b"id,ts,b,a", b"x,11,BB,AA", "a is field 3 here, and field 1 in "),
        (b"id,b,a,ts", b"x,BB,AA,11", None),  # the ID and the order value are where they were
    ],
)
def test_ordinals_of_csv_mean_the_same_field_in_every_file(work, header, row, fault):
    work.settings = {**ORDINALS, **HEADER, "input.format": "csv"}
    work.put("feed/f_1.csv", header + b"\n" + row + b"\n")
    if fault is None:
        work.run()
        assert [sorted(found.items()) for found in work.rows()] == [
            [("a", "AA"), ("b", "BB"), ("id", "x"), ("ts", "11")],
            [("a", "A"), ("b", "B"), ("id", "y"), ("ts", "10")],
        ]
        return
    with pytest.raises(ConfigError, match=f"f_1.csv: {fault}.*m.csv, so ordinal . means different fields; give"):
        work.run()


def test_csv_with_field_names_may_have_no_header(work):
    work.put("master/m.csv", b"x,A,B,10\ny,A,B,10\n")
    work.put("feed/f_1.csv", b'x,"A,A",BB,11\n')
    work.run()

    assert [tuple(row.values()) for row in work.rows()] == [("x", "A,A", "BB", "11"), ("y", "A", "B", "10")]


@pytest.mark.parametrize("file_format", ["csv", "escaped"])
def test_master_without_header_may_lack_the_op_code(work, file_format):
    work.settings = {
        "field.names": "id,op,a,ts",
        "id.field.ordinals": "0",
        "temporal.ordering.field.ordinal": "3",
        "op.code.field.ordinal": "1",
        "input.format": file_format,
        "output.format": "csv",
    }
    work.put("master/m.csv", b"x,A,10\ny,A,10\n")
    work.put("feed/f_1.csv", b"x,U,AA,11\ny,D,,11\n")
    work.run()

    assert work.rows() == [{"id": "x", "a": "AA", "ts": "11"}]


def test_csv_beside_a_text_master_needs_an_output_format(work):
    (work.path / "master/m.csv").rename(work.path / "master/m.txt")
    work.put("feed/f_1.csv", b"id,b,a,ts\nx,BB,AA,11\n")

    with pytest.raises(ConfigError, match=r"output.format: text cannot store .*; or, if f_1.csv .* feed.format=text"):
        work.run(HEADER)
    work.run({**HEADER, "output.format": "csv"})
    assert work.rows()[0] == {"id": "x", "b": "BB", "a": "AA", "ts": "11"}


@pytest.mark.parametrize("ids", ["id", "0"])
def test_the_advice_on_csv_beside_a_text_master_is_all_that_is_needed(work, ids):
    work.settings = {"id.field.ordinals": ids, "feed.format": "csv", "header.lines": "1"}
    (work.path / "master/m.csv").rename(work.path / "master/m_0.txt")
    work.put("feed/f_1.csv", b"id,b,a,ts\nx,BB,AA,11\n")
    with pytest.raises(ConfigError) as caught:
        work.run()

    advice = (
        "output.format: text cannot store what other formats can; set field.names, because the fields of m_0.txt have "
        "no names, and set output.format to csv, escaped, avro, parquet or orc; or, if f_1.csv is text without quotes "
        "and header, set feed.format=text"
    )
    assert str(caught.value) == advice + (" and give fields by ordinal" if ids == "id" else "")
    work.run({"field.names": "id,a,b,ts", "output.format": "csv"})
    assert work.rows()[0] == {"id": "x", "b": "BB", "a": "AA", "ts": "11"}
    work.put("feed/f_1.csv", b"id,a,b,ts\nx,AA,BB,11\n")
    work.run({"feed.format": "text", "id.field.ordinals": "0"})
    assert rows(work.output) == [b"x,AA,BB,11", b"y,A,B,10"]


def test_a_text_dataset_stays_text(work):
    work.put("feed/f_1.csv", b"x,AA,BB,11\n")
    work.put("master/m.csv", b"x,A,B,10\n")
    work.run({"input.format": "text"})
    work.put("feed2/f_2.csv", b"x,AAA,BBB,12\n")
    work.run(master="out1", feed="feed2")
    assert rows(work.output) == [b"x,AAA,BBB,12"]

    work.put("feed3/f_3.csv", b"id,b,a,ts\nx,BB,AA,13\n")
    with pytest.raises(
        DataError, match=r"f_3.csv: its first row has the names of all fields .field.names.; if .* header.lines=1"
    ):
        work.run(master="out2", feed="feed3")
    with pytest.raises(DataError, match=r"f_3.csv: its header has b as field 1, where field.names has a; "):
        work.run(HEADER, master="out2", feed="feed3")


@pytest.mark.parametrize("file_format", ["text", "parquet"])
def test_text_with_a_header_of_other_order_is_refused(work, file_format):
    work.put("master/m.csv", b"id,a,b,ts\nx,A,B,10\n")
    work.put("feed/f_1.csv", b"id,b,a,ts\nx,BB,AA,11\n")

    with pytest.raises(DataError, match=r"f_1.csv: its header has b as field 1, where field.names has a; "):
        work.run({**HEADER, "input.format": "text", "output.format": file_format})


# --- ordinals


LINES = {**ORDINALS, **HEADER}


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (b"id,b,a,ts", "its header has b as field 1, where the header of"),
        (b'"ID", B ,a,ts', "its header has b as field 1, where the header of"),
        (b"\xef\xbb\xbfb,id,a,ts", "its header has b as field 0, where the header of"),
        (b"id,c,a,ts", "its header has a as field 2, where the header of"),
        (b"id,a,b,ts", None),
        (b"id,c,d,ts", None),  # names that no other header has prove nothing
        (b"a title", None),
    ],
)
def test_headers_of_text_are_compared(job, header, fault):
    job.put("ups_1.txt", header + b"\nx,AA,BB,11\n")
    if fault is None:
        job.run({**ORDINALS, **HEADER})
        assert rows(job.output) == [b"x,AA,BB,11", b"y,A,B,10"]
        return
    job.refused(DataError, "ups_1.txt: ", fault, "base.txt", "input.format=csv", settings={**ORDINALS, **HEADER})


def test_headers_of_feed_files_are_compared(job):
    job.put("ups_1.txt", b"t\nid,a,b,ts\nx,AA,BB,11\n")
    job.put("ups_2.txt", b"t\nid,b,a,ts\nx,BB,AA,12\n")
    (job.master / "base.txt").unlink()
    settings = {**ORDINALS, "header.lines": "2", "allow.empty.master": "true"}

    job.refused(
        DataError, "ups_2.txt: its header has b as field 1, where the header of", "ups_1.txt", settings=settings
    )


def test_the_op_code_moves_no_field_of_the_master(job):
    settings = {**HEADER, "id.field.ordinals": "0", "temporal.ordering.field.ordinal": "4"}
    settings |= {"op.code.field.ordinal": "1"}
    job.put("ups_1.txt", b"id,op,a,b,ts\nx,U,AA,BB,11\n")
    job.run(settings)
    assert rows(job.output) == [b"x,AA,BB,11", b"y,A,B,10"]

    job.output = job.root / "other"
    job.put("ups_1.txt", b"id,op,b,a,ts\nx,U,BB,AA,11\n")
    job.refused(DataError, "base.txt: its header has a as field 1, where the header of", "ups_1.txt", settings=settings)


@pytest.mark.parametrize(
    ("master", "feed", "fault"),
    [
        (b"id,a,b,ts\n--,--,--,--\n", b"id,b,a,ts\n--,--,--,--\n", "b as field 1"),  # a ruler below the names
        (b"id,a,b,ts\nkey,kg,m,s\n", b"id,b,a,ts\nkey,m,kg,s\n", "b as field 1"),  # units below the names
        (b"batch 7\nid,a,b,ts\n", b"batch 8\nid,b,a,ts\n", "b as field 1"),
        (b"id,a,b,ts\nkey,kg,m,s\n", b"id,c,d,ts\nkey,m,kg,s\n", "m as field 1"),
        (b"id,a,b,ts\n2026-01-31,4,5,6\n", b"id,a,b,ts\n2026-02-01,5,4,6\n", None),
        (b"id,a,b,ts\n\n", b"id,a,b,ts\n,,,\n", None),
    ],
)
def test_every_line_of_a_header_is_compared(job, master, feed, fault):
    job.put("base.txt", master + b"x,A,B,10\n", "master")
    job.put("ups_1.txt", feed + b"x,AA,BB,11\n")
    settings = {**ORDINALS, "header.lines": "2"}
    if fault is None:
        job.run(settings)
        return
    job.refused(DataError, f"ups_1.txt: its header has {fault}, where the header of", "base.txt", settings=settings)


@pytest.mark.parametrize(
    ("master", "feed"),
    [(b"H,3,5,x", b"H,5,3,x"), (b"H,2026-01-31,-3,.5", b"H,-3,2026-01-31,.5"), (b"t,,a,", b"t,b,,")],
)
def test_values_that_are_no_names_may_differ(job, master, feed):
    job.put("base.txt", master + b"\nx,A,B,10\n", "master")
    job.put("ups_1.txt", feed + b"\nx,AA,BB,11\n")

    assert job.run({**ORDINALS, **HEADER}).counts["feed updated"] == 1


GROUPED = b"account,from,amount,ts\nfrom,to,amount,ts\n"  # a line of groups above the names


@pytest.mark.parametrize("names", [{}, {"field.names": "from,to,amount,ts"}])
def test_lines_of_one_header_are_not_compared_with_each_other(job, names):
    settings = {**ORDINALS, **names, "header.lines": "2"}
    job.put("base.txt", GROUPED + b"x,A,B,10\n", "master")
    job.add("ups_1.txt", GROUPED + b"x,AA,BB,11\n")
    job.follow(settings)
    assert known(job.master).spec["header"] == [["account", "from", "amount", "ts"], ["from", "to", "amount", "ts"]]

    job.add("ups_2.txt", GROUPED + b"x,AAA,BBB,12\n")
    job.follow(settings)
    assert rows(job.master) == [b"x,AAA,BBB,12"]
    job.add("ups_3.txt", b"account,from,amount,ts\nfrom,amount,to,ts\nx,A,B,13\n")
    job.refused(DataError, "ups_3.txt: its header has amount as field 1, where", settings=settings)
    job.add("ups_3.txt", b"from,to,amount,ts\nx,A,B,13\n")  # the names without the groups
    job.follow({**settings, **HEADER})


def test_a_header_without_names_is_not_in_the_manifest(job):
    job.put("base.txt", b"H,3,5,9\nx,A,B,10\n", "master")
    job.run({**ORDINALS, **HEADER})
    assert "header" not in known(job.output).spec


def test_header_check_may_be_switched_off(job):
    job.put("ups_1.txt", b"from,a,to,b\nx,AA,BB,11\n")
    job.put("ups_2.txt", b"from,b,to,a\nx,AAA,BBB,12\n")

    job.refused(DataError, "or, if header lines do not name the fields, set header.check=false", settings=LINES)
    job.run({**LINES, "header.check": "false"})
    assert rows(job.output) == [b"x,AAA,BBB,12", b"y,A,B,10"]


# --- later runs: the output has no header, so the manifest has it


def test_a_header_is_compared_with_that_of_earlier_runs(job):
    job.add("ups_1.txt", b"ID,a,b,TS\nx,AA,BB,11\n")
    job.follow(LINES)
    assert known(job.master).spec["header"] == [["id", "a", "b", "ts"]]
    job.add("ups_2.txt", b"id,b,a,ts\nx,BB,AA,12\n")

    message = job.refused(
        DataError,
        "ups_2.txt: its header has b as field 1, where the header of earlier feed files has a",
        settings=LINES,
    )
    assert "input.format" not in message
    assert "if the header of earlier feed files was wrong, run once with header.check=false, which removes" in message
    job.follow({**LINES, "header.check": "false"})
    assert "header" not in known(job.master).spec
    assert rows(job.master) == [b"x,BB,AA,12", b"y,A,B,10"]
    job.add("ups_3.txt", b"id,b,a,ts\nx,BBB,AAA,13\n")
    job.follow(LINES)
    assert known(job.master).spec["header"] == [["id", "b", "a", "ts"]]


def test_the_header_in_the_manifest_stays(job):
    job.follow(LINES)  # only the master has a header
    job.follow({**ORDINALS, "field.names": "id,a,b,ts"})
    job.add("ups_2.txt", b"a title\nx,A,B,12\n")
    job.follow(LINES)
    assert known(job.master).spec["header"] == [["id", "a", "b", "ts"]]

    what = "field.names: field 1 is b, and a in the header of earlier feed files; correct field.names"
    cure = "that header was wrong, run once with header.check=false"
    job.refused(ConfigError, what, cure, settings={**ORDINALS, "field.names": "id,b,a,ts"})
    job.add("ups_3.txt", b"id,price,b,ts\nx,1,B,13\n")  # a field got another name
    job.follow(LINES)
    assert known(job.master).spec["header"] == [["id", "price", "b", "ts"]]


def test_the_header_in_the_manifest_lacks_the_op_code(job):
    settings = {**HEADER, "id.field.ordinals": "0", "temporal.ordering.field.ordinal": "4"}
    settings |= {"op.code.field.ordinal": "1"}
    job.add("ups_1.txt", b"id,op,a,b,ts\nx,U,AA,BB,11\n")
    job.follow(settings)
    assert known(job.master).spec["header"] == [["id", "a", "b", "ts"]]
    job.add("ups_2.txt", b"id,op,a,b,ts\nx,U,A,B,12\n")
    job.follow(settings)
    job.add("ups_3.txt", b"id,op,b,a,ts\nx,U,BB,AA,13\n")

    job.refused(DataError, "its header has b as field 2, where the header of earlier", settings=settings)
    job.add("ups_3.txt", b"x,U,BB,AA,13\n")
    names = {**settings, "header.lines": "0", "field.names": "id,op,b,a,ts"}
    job.refused(ConfigError, "field.names: field 2 is b, and a in the header of earlier feed files", settings=names)


def test_the_header_of_ids_alone_is_compared_with_that_of_earlier_runs(job):
    settings = {**BY_NAME, **HEADER, "id.field.ordinals": "0,2"}
    job.put("base_0.txt", b"id,v,k\nx,1,2\n", "master")
    (job.master / "base.txt").unlink()
    job.follow(settings)
    job.add("del_1.txt", b"k,id\n2,x\n")

    what = "del_1.txt: its header has k as field 0, where the ID in the header of earlier feed files has id"
    job.refused(DataError, what, settings=settings)
    job.add("del_1.txt", b"id,k\nx,2\n")
    job.follow(settings)
    assert known(job.master).spec["header"] == [["id", "v", "k"]]


# --- a first row of names


@pytest.mark.parametrize(
    ("row", "is_refused"),
    [(b"id,a,b,ts", True), (b"ID, b ,a,ts", True), (b"a,id,id,b", False), (b"id,a,b,b", False), (b"ts,a,b,1", False)],
)
def test_a_first_row_that_has_the_names_of_all_fields(job, row, is_refused):
    job.put("base.txt", b"x,A,B,10\n", "master")
    job.put("ups_1.txt", row + b"\n")
    settings = {"id.field.ordinals": "id", "field.names": "id,a,b,ts"}
    if is_refused:
        what = (
            "ups_1.txt: its first row has the names of all fields (field.names); if it is a header, set header.lines=1"
        )
        job.refused(DataError, what, "if it is a record, set header.check=false", settings=settings)
        settings["header.check"] = "false"
    job.run(settings)
    assert rows(job.output) == sorted([b"x,A,B,10", row])


def test_a_first_row_of_csv_may_be_a_record_of_names(work):
    work.put("master/m.csv", b"x,A,B,10\n")
    work.put("feed/f_1.csv", b"b,a,id,ts\n")
    settings = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "", "header.check": "false"}
    assert work.run(settings).counts["feed inserted"] == 1


# --- quotes


@pytest.mark.parametrize("where", ["master", "feed"])
@pytest.mark.parametrize("name", ["f_1.csv", "f_1.csv.gz"])
def test_quotes_below_an_unquoted_row_are_reported(job, name, where):
    content = (
        b"id,a,b,ts\nz,1,1,1\n" + b"".join(b"w%d,1,1,1\n" % number for number in range(100)) + b'"x","AA","BB",11\n'
    )
    job.put(name, gzip.compress(content) if name.endswith(".gz") else content, where)
    job.put("f_2.csv", b"id,a,b,ts\ny,1,1,1\n")
    report = job.run({**ORDINALS, **HEADER})

    expected = "f_1.csv{}: read as delimited text, where quotes mean nothing; input.format=csv reads them as CSV"
    assert [line for line in report.warnings if "quotes mean" in line] == [expected.format(name[7:])]
