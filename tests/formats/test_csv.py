"""CSV: a stray quote costs only its own line; text that could not be read back is not written."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.config import parse
from mutator.errors import ConfigError, DataError
from mutator.formats.content import Window
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from tests.support.in_memory import InMemory
from tests.support.named_runs import BY_ID, ENGINES, Work

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.string())])
HEAD = b"id,at,note\n"


class InPieces(InMemory):
    """A file whose content arrives in blocks of a few bytes."""

    def blocks(self):
        yield from (self.data[at : at + 3] for at in range(0, len(self.data), 3))


def found(data, content=InMemory, escape=b""):
    rows, rejects = [], []
    dialect = Dialect(escape=escape)
    for one in FILE_FORMATS["csv"].read(content(data, Window("lf")), SCHEMA, SCHEMA.names, dialect):
        rows += [tuple(row.values()) for row in one.batch.to_pylist()]
        rejects += [(reject.offset, reject.line, reject.row) for reject in one.rejects]
    return rows, sorted(rejects)


@pytest.mark.parametrize("content", [InMemory, InPieces])
@pytest.mark.parametrize(
    ("data", "rows", "rejects"),
    [
        (b'a,1,5" pipe\nb,2,"x,\ny"\n', [(b"b", b"2", b"x,\ny")], [(0, 1, b'a,1,5" pipe')]),
        (b'a,1,"never\nb,2,x\n', [(b"b", b"2", b"x")], [(0, 1, b'a,1,"never')]),
        (b'a,1,x\n"q"x,1,2\r\nc,3,"a""b"', [(b"a", b"1", b"x"), (b"c", b"3", b'a"b')], [(6, 2, b'"q"x,1,2')]),
        (b'a,1,5"\nb,1,6"\nc,1,"7"\n', [(b"c", b"1", b"7")], [(0, 1, b'a,1,5"'), (7, 2, b'b,1,6"')]),
        (b'a,"1\n2",x\nb,1,"', [(b"a", b"1\n2", b"x")], [(10, 2, b'b,1,"')]),
    ],
)
def test_a_misplaced_quote_rejects_its_line(data, rows, rejects, content):
    assert found(data, content) == (rows, rejects)


@given(
    st.lists(
        st.sampled_from(["a,1,x", '"a",1,"x\ny"', 'b,"",""""', 'a,5" x,y', '"a"b,1,2', "a,1", '"', 'c,"1,x']),
        max_size=12,
    )
)
def test_blocks_do_not_matter(lines):
    data = "\n".join(lines).encode()

    assert found(data) == found(data, InPieces)


def test_rows_after_a_stray_quote_are_merged(tmp_path):
    work = Work(tmp_path)
    work.put("master/m.csv", HEAD + b"a,0,x\n")
    good = b"".join(b"k%d,1,x\n" % number for number in range(500))
    work.put("feed/f_1.csv", HEAD + b'a,1,5" pipe\n' + good)
    report = work.run({"reject.policy": "quarantine", "reject.limit": "1"})

    assert (report.counts["feed rows"], report.counts["feed rejected"]) == (501, 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", ["csv", "escaped", "text"])
def test_rejects_are_kept_byte_for_byte(tmp_path, file_format, engine):
    work = Work(tmp_path, engine)
    work.settings |= {"header.lines": "1", "feed.format": file_format, "field.names": "id,at,note"}
    work.put("master/m", pa.table({"id": ["a"], "at": pa.array([1]), "note": ["x"]}), "parquet")
    rows = [b"b,x,\xe9 1", b"c,y,\tz"] + ([b'"d",z,"1,\n2"'] if file_format == "csv" else [])
    work.put("feed/f_1.csv", HEAD + b"a,2,y\r\n" + b"".join(row + b"\r\n" for row in rows))

    with pytest.raises(
        DataError, match=r"f_1\.csv: (line|row) 3, byte 18: field at is not of type int64: b,x,"
    ) as caught:
        work.run()
    assert len(str(caught.value).split("\n")) == 2 + len(rows)
    work.run({"reject.policy": "quarantine"})
    (kept,) = work.output.glob("_mutator/rejected/*.tsv")
    lines = [b"\t".join(line.split(b"\t")[4:]) for line in kept.read_bytes().split(str(work.path).encode())[1:]]
    assert lines == [row + b"\n" for row in rows]


def test_a_second_header_line(tmp_path):
    work = Work(tmp_path)
    for place in ("master/m.csv", "feed/f_1.csv"):
        work.put(place, HEAD + b"#text,0,z\na,1,x\n")

    with pytest.raises(DataError, match=r"m.csv: header.lines is 2, and CSV has one line with the names"):
        work.run({"header.lines": "2"})


def test_an_adopted_master_keeps_its_header(tmp_path):
    work = Work(tmp_path)
    by_place = {"field.names": "id,at,note", "input.format": "csv", "id.field.ordinals": "0"}
    by_place |= {"temporal.ordering.field.ordinal": "1", "header.lines": "1"}
    work.put("master/m.csv", HEAD + b"a,0,x\n")
    work.put("feed/f_1.csv", HEAD + b"b,1,y\n")
    work.run(by_place)
    work.put("feed2/f_2.csv", b"c,2,z\n")
    report = work.run(by_place | {"header.lines": "0", "master.adopt": "true"}, master="out1", feed="feed2")

    assert (report.counts["master rows"], report.counts["output rows"]) == (2, 3)


def as_spark(value):
    """Write a value as Spark 4 does with its default escape."""
    if not set(value) & set('",\n'):
        return value or '""'
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.lists(st.tuples(*[st.text('\\",\na', max_size=6)] * 3), max_size=8), st.sampled_from([InMemory, InPieces]))
def test_values_as_spark_writes_them(rows, content):
    data = "".join(",".join(map(as_spark, row)) + "\n" for row in rows).encode()

    assert found(data, content, b"\\") == ([tuple(value.encode() for value in row) for row in rows], [])


@pytest.mark.parametrize("engine", ENGINES)
def test_csv_of_spark_is_merged_into_csv_with_doubled_quotes(tmp_path, engine):
    """What a run has written is read without the setting, which is for the other files, also where it is adopted."""
    work = Work(tmp_path, engine, {**BY_ID, "csv.escape": "\\"})
    work.put("master/m.csv", HEAD + b'a,0,"x\\\\y, \\"z\\""\n' + b"b,0,\\\\\n" + b'c,0,"end,\\\\"\n')
    work.put("feed/f_1.csv", HEAD + b'b,1,"\\"\\\\,"\nd,1,"""q"""\n')
    work.run()
    work.put("feed2/f_2.csv", HEAD + b'd,2,"\\n,"\n')
    work.run(master="out1", feed="feed2")
    notes = ['x\\y, "z"', '"\\,', "end,\\", "\\n,"]

    assert [row["note"] for row in work.rows()] == notes
    work.run({"master.adopt": "true"}, master="out2", feed="feed2")
    assert [row["note"] for row in work.rows()] == notes


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"csv.escape": ","}, "csv.escape: ',' is the delimiter, too"),
        ({"csv.escape": "id.field.ordinals=id"}, r"in .properties files, write \\ or backslash"),
    ],
)
def test_what_cannot_be_an_escape(settings, says):
    with pytest.raises(ConfigError) as caught:
        parse({"id.field.ordinals": "id", **settings})
    assert says in str(caught.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_lines_that_end_with_cr(tmp_path, engine):
    """In each file by itself; a CR within quotes ends no line, and where it does not, it stays."""
    work = Work(tmp_path, engine)
    work.put("master/m.csv", HEAD.replace(b"\n", b"\r") + b'a,0,"x,\ry"\rb,0,y')
    work.put("feed/f_1.csv", HEAD + b"b,1,z\n")
    work.put("feed/f_2.csv.gz", gzip.compress(HEAD.replace(b"\n", b"\r") + b"c,2,x\r\rd,2,x\r"))
    work.put("feed/f_3.csv", HEAD + b'e,3,"x\ry"\n')
    report = work.run()

    assert [row["note"] for row in work.rows()] == ["x,\ny", "z", "x", "x", "x\ry"]
    assert report.counts["feed ignored"] == 4
    work.put("feed4/f_4.csv", HEAD.replace(b"\n", b"\r") + b'a,4,"line\none"\r')
    says = r"f_4\.csv: its header has a carriage return in the name 'note\\ra', and other lines end with LF; have all"
    with pytest.raises(DataError, match=says):
        work.run(feed="feed4")


def test_one_row_with_a_cr_within_quotes_alone(tmp_path):
    work = Work(tmp_path, settings={"id.field.ordinals": "0", "input.format": "csv", "field.names": "id,note"})
    work.put("master/m.csv", b'a,"x\ry"')
    work.put("feed/f_1.csv", b'b,"x\ry"')
    work.run()
    assert [row["note"] for row in work.rows()] == ["x\ry", "x\ry"]


@pytest.mark.parametrize("null", ['"', 'x"y', "a,b", "a\r"])
def test_the_null_marker_needs_no_quotes(null):
    with pytest.raises(ConfigError, match=r"csv.null: "):
        parse({"id.field.ordinals": "id", "csv.null": null})


def test_a_number_beyond_its_type_does_not_become_infinity(tmp_path):
    work = Work(tmp_path)
    work.put("master/m", pa.table({"id": ["a"], "at": pa.array([1]), "x": pa.array([1.5])}), "parquet")
    work.put("feed/f_1.csv", b"id,at,x\nb,2,1e400\nc,2,inf\n")
    report = work.run({"reject.policy": "quarantine", "feed.format": "csv"})

    assert [row["reason"] for row in report.rejects["feed"]] == ["field x is not of type double"]


def test_a_time_that_csv_cannot_store_is_a_reject(tmp_path):
    work = Work(tmp_path)
    far = pa.array([0, 400_000_000_000], pa.timestamp("s"))
    work.put("master/m.csv", b"id,at,when\n")
    work.put("feed/f_1", pa.table({"id": ["a", "b"], "at": pa.array([1, 1]), "when": far}), "parquet")
    report = work.run({"reject.policy": "quarantine", "output.format": "csv", "master.format": "csv"})

    assert [row["reason"] for row in report.rejects["feed"]] == ["field when is not in the years 1 to 9999"]
    assert report.counts["output rows"] == 1


def test_a_delimiter_of_several_bytes_with_named_fields(tmp_path):
    work = Work(tmp_path)
    for place in ("master/m.txt", "feed/f_1.txt"):
        work.put(place, b"k,x::1::y\n")

    with pytest.raises(
        DataError, match=r"m.txt: field.delim.regex is ::, and fields with names need a delimiter of one byte"
    ):
        work.run({"field.delim.regex": "::", "field.names": "id,at,v", "output.format": "parquet"})


@pytest.mark.parametrize("content", [b"", b"\n\n"])
@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_an_empty_file_beside_another_format(suffix, content, tmp_path):
    work = Work(tmp_path)
    work.put("master/m", pa.table({"id": ["a"], "at": pa.array([1])}), "parquet")
    work.put(f"feed/f_1.{suffix}", content)
    report = work.run({"feed.format": {"csv": "csv", "txt": "text"}[suffix]})

    assert (report.counts["feed rows"], report.counts["output rows"]) == (0, 1)


def test_parquet_with_the_suffix_of_csv(tmp_path):
    work = Work(tmp_path)
    table = pa.table({"id": ["a"], "at": pa.array([1])})
    work.put("master/m", table, "parquet")
    work.put("feed/f_1", table, "parquet")

    with pytest.raises(DataError, match=r"f_1.parquet: is Parquet, not csv"):
        work.run({"feed.format": "csv"})


def test_a_header_is_not_a_row_if_the_user_gives_its_names(tmp_path):
    work = Work(tmp_path)
    work.put("master/m", pa.table({"id": ["b"], "at": ["1"], "note": ["x"]}), "parquet")
    work.put("feed/f_1.csv", b"id,at\na,2\n")
    settings = {"field.names": "id,at,note", "temporal.ordering.field.type": "string", "removed.fields": "note"}
    report = work.run(settings)

    assert (report.counts["feed rows"], report.counts["output rows"]) == (1, 2)
