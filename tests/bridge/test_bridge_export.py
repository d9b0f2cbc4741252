"""Export tables to text and import them again: each table must come back unchanged."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset

from mutator.bridge import PathTable, export, import_to_path
from mutator.bridge.text_dataset import output_dialect
from mutator.dataset import manifest
from mutator.errors import ConfigError, DataError, MutatorError, StateError
from tests.support import local_engine
from tests.support.bridge_tables import KINDS, each, each_twice, known, new_run, plain, read, rows_of, text_of, write
from tests.support.columns_data import file_of, tables
from tests.support.effort import law
from tests.support.job import snapshot

every_format = pytest.mark.parametrize("file_format", KINDS)


def exported(table, text, *, delimiter=b",", each=each):
    return export(PathTable(str(table), each), str(text), new_run(), delimiter=delimiter)


def imported(text, to, file_format, *, each=each):
    return import_to_path(str(text), str(to), file_format, new_run(), each)


@pytest.fixture
def scratch(in_memory):
    """Yield a new directory for each hypothesis example."""
    return lambda: tempfile.TemporaryDirectory(dir=in_memory)


# --- lossless


@st.composite
def files_of_a_table(draw, file_format):
    """Draw the files of one table: some are empty, and some lack a field that others have."""
    whole = draw(tables(file_format, most=12))
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), min_size=1, max_size=3)))
    files, expected = {}, []
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(whole)], strict=True)):
        part = whole.slice(start, end - start)
        lost = draw(st.sampled_from([None, *whole.schema.names[1:]])) if number else None
        if lost is not None:
            part = part.drop_columns([lost])
        files[f"f{number}.{file_format}"] = part
        blank = pa.nulls(len(part), whole.schema.field(lost).type) if lost else None
        expected.append(
            pa.table([blank if name == lost else part.column(name) for name in whole.schema.names], whole.schema)
        )
    return files, pa.concat_tables(expected)


def stored_schema(schema, file_format):
    """Return the schema as files of the given format would store it, or None if the format cannot store it."""
    with suppress(MutatorError):
        return output_dialect(schema, file_format)[0]


def table_of(directory):
    return pa.concat_tables([one for path in sorted(directory.rglob("part-*")) if (one := read(path)) is not None])


@pytest.mark.thorough(keep=1)
@every_format
@given(data=st.data())
@law(25)
def test_table_comes_back_as_files_of_every_format(scratch, file_format, data):
    files, whole = data.draw(files_of_a_table(file_format))
    delimiter = data.draw(st.sampled_from([b",", b"\t", b"|", b";", b"\x01", b":"]))
    with scratch() as root:
        root = Path(root)
        done = exported(write(root / "table", files, data.draw(st.integers(1, 4))), root / "text", delimiter=delimiter)

        assert done.rows == len(whole) == len(text_of(root / "text"))
        for other in KINDS:
            schema = stored_schema(whole.schema, other)
            if schema is None:
                assert other != file_format
                with pytest.raises(MutatorError, match=other):
                    imported(root / "text", root / other, other)
                assert not (root / other).exists()
                continue
            kept = imported(root / "text", root / other, other)
            assert kept.rows == len(whole)
            back = PathTable(str(root / other), each)
            assert (back.format, back.schema.types, back.schema.names) == (other, schema.types, schema.names)
            if len(whole):
                assert plain(table_of(root / other)) == plain(whole.cast(schema))


WIDER = [
    (pa.int8(), pa.int64(), [1, None, -128]),
    (pa.float32(), pa.float64(), [0.5, None, float("inf")]),
    (pa.decimal128(5, 2), pa.decimal128(12, 4), [Decimal("1.25"), None, Decimal("-999.99")]),
    (pa.timestamp("s"), pa.timestamp("us"), [datetime(2026, 1, 31), None, datetime(1960, 2, 29)]),  # noqa: DTZ001
]


@pytest.mark.parametrize(("narrow", "wide", "some"), WIDER, ids=str)
@pytest.mark.parametrize("first", ["narrow", "wide"])
def test_narrow_type_in_one_file_is_the_wider_of_another(in_memory, narrow, wide, some, first):
    parts = [pa.table({"v": pa.array(some, data_type)}) for data_type in (narrow, wide)]
    if first == "wide":
        parts.reverse()
    write(in_memory / "table", {"1.parquet": parts[0], "2.parquet": parts[1]})

    exported(in_memory / "table", in_memory / "text")
    imported(in_memory / "text", in_memory / "back", "parquet")

    whole = pa.concat_tables(one.cast(pa.schema([("v", wide)])) for one in parts)
    assert plain(table_of(in_memory / "back")) == plain(whole)
    assert table_of(in_memory / "back").schema.types == [wide]


def test_types_without_a_common_type_are_refused(in_memory):
    parts = {"1.parquet": pa.table({"v": ["x"]}), "2.parquet": pa.table({"v": [1]})}
    write(in_memory / "table", parts)

    with pytest.raises(DataError) as caught:
        exported(in_memory / "table", in_memory / "text")

    assert caught.value.kind == "schema.type"
    assert "1.parquet" in str(caught.value)
    assert "2.parquet" in str(caught.value)
    assert os.listdir(in_memory) == ["table"]


@every_format
def test_empty_table_comes_back(in_memory, file_format):
    schema = pa.schema([("id", pa.int32()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
    files = {f"{number}.{file_format}": schema.empty_table() for number in range(2)}

    done = exported(write(in_memory / "table", files), in_memory / "text")
    kept = imported(in_memory / "text", in_memory / "back", file_format)

    assert (done.rows, kept.rows, kept.files) == (0, 0, 1)
    assert PathTable(str(in_memory / "back"), each).schema.types == schema.types


def test_rows_of_a_single_field_are_never_blank_lines(in_memory):
    values = ["", None, " ", "\n", "\r", "\\", "\\N", "N", "\\&", '"', "a\r\n", "\0", "\ufeff", "PAR1", "#"]
    write(in_memory / "table", {"1.orc": pa.table({"v": values}), "2.orc": pa.table({"v": values[::-1]})})

    exported(in_memory / "table", in_memory / "text")
    imported(in_memory / "text", in_memory / "back", "orc")

    assert rows_of(in_memory / "back") == rows_of(in_memory / "table")
    assert len(rows_of(in_memory / "back")) == 30


EXAMPLE = pa.table(
    {
        "id": pa.array([7, 8], pa.int32()),
        "text": ['a,b|c\td;"e"\\\n\r', ""],
        "none": pa.array([None, "\\N"]),
        "binary": [b"\x00\xff,", b"ok"],
        "price": pa.array([Decimal("1.50"), Decimal("-0.01")], pa.decimal128(9, 2)),
        "local": pa.array([datetime(2026, 1, 31, 10), None], pa.timestamp("us")),  # noqa: DTZ001
        "instant": pa.array([1769853600000123, None], pa.timestamp("us", "UTC")),
        "day": [date(2026, 1, 31), date(1, 1, 1)],
        "real": [0.1, float("nan")],
        "nested": pa.array(
            [{"a": [1, None], "b": "x,y"}, None], pa.struct([("a", pa.list_(pa.int64())), ("b", "string")])
        ),
        "map": pa.array([[("k", "v")], []], pa.map_(pa.string(), pa.string())),
    }
)
GOLDEN = (
    rb"""7,a\x2cb|c	d;"e"\\\n\r,\N,\x00\xff\x2c,1.50,2026-01-31 10:00:00.000000,2026-01-31 10:00:00.000123Z,"""
    rb"""2026-01-31,0.1,{"a":[1\x2cnull]\x2c"b":"x\x2cy"},[["k"\x2c"v"]]"""
    b"\n"
    rb"""8,,\\N,ok,-0.01,\N,\N,0001-01-01,NaN,\N,[]"""
)


def delimited_by(delimiter, row):
    """Return a row of the golden text with another delimiter: the new delimiter must be escaped, and the comma no
    longer.
    """
    fields = [field.replace(rb"\x2c", b",") for field in row.split(b",")]
    return delimiter.join(field.replace(delimiter, b"\\x%02x" % delimiter[0]) for field in fields)


@pytest.mark.parametrize("delimiter", [b",", b"\t", b"|", b";", b"\x01"])
def test_text_has_these_bytes(in_memory, delimiter):
    write(in_memory / "table", {"1.parquet": EXAMPLE, "2.parquet": EXAMPLE.slice(0, 0), "3.parquet": EXAMPLE})

    done = exported(in_memory / "table", in_memory / "text", delimiter=delimiter)

    first, last = (path.read_bytes() for path in sorted((in_memory / "text").glob("part-*.txt")))
    assert first == last == b"".join(delimited_by(delimiter, row) + b"\n" for row in GOLDEN.split(b"\n"))
    assert (done.rows, done.bytes) == (4, 2 * len(first))
    assert known(in_memory / "text").spec["escaped"] == {"delimiter": delimiter.decode()}


def test_sidecar_describes_the_fields(in_memory):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("at", pa.timestamp("us", "UTC"))])
    part = pa.table({"id": [1], "at": pa.array([None], schema.field("at").type)}, schema)
    write(in_memory / "table", {"dt=a/1.parquet": part, "dt=b/1.parquet": part})

    exported(in_memory / "table", in_memory / "text", delimiter=b"|")

    assert json.loads((in_memory / "text" / "_mutator" / "schema.json").read_bytes()) == {
        "delimiter": "|",
        "null": "\\N",
        "escape": "\\",
        "fields": [
            {"name": "id", "type": "int64", "nullable": False, "partition": False},
            {"name": "at", "type": "timestamp[us, tz=UTC]", "nullable": True, "partition": False},
            {"name": "dt", "type": "string", "nullable": True, "partition": True},
        ],
    }
    assert (in_memory / "text" / "_SUCCESS").read_bytes() == b""


# --- partitions

# The names that Hive and Spark give to the directories of these values.
DIRECTORIES = {
    "2026-01-31": "2026-01-31",
    None: "__HIVE_DEFAULT_PARTITION__",
    "a/b": "a%2Fb",
    "a=b": "a%3Db",
    "100%": "100%25",
    "it's": "it%27s",
    'say "x"': "say %22x%22",
    " a b ": " a b ",
    "Zoë 東京 🎉": "Zoë 東京 🎉",
    "..": "..",
    ".": ".",
    "a:b*c?": "a%3Ab%2Ac%3F",
    "{[^]}\\#": "%7B%5B%5E%5D}%5C%23",
    "one\ntwo\t\x7f": "one%0Atwo%09%7F",
    "%41": "%2541",
    "a,b|c;\x01": "a,b|c;%01",
    "x" * 200: "x" * 200,
    "\\N": "%5CN",
    "_hidden": "_hidden",
}


@every_format
def test_partition_directories_come_back_unchanged(in_memory, file_format):
    files = {
        f"dt={one}/at={other}/x.{file_format}": pa.table({"id": [number, 100 + number]})
        for number, (one, other) in enumerate(zip(DIRECTORIES.values(), reversed(DIRECTORIES.values()), strict=True))
    }
    write(in_memory / "table", files)

    exported(in_memory / "table", in_memory / "text")
    imported(in_memory / "text", in_memory / "back", file_format)

    def places(root):
        return sorted(str(path.relative_to(root)) for path in root.rglob("at=*"))

    assert PathTable(str(in_memory / "table"), each).partition_fields == ("dt", "at")
    assert places(in_memory / "back") == places(in_memory / "table")
    assert rows_of(in_memory / "back") == rows_of(in_memory / "table")
    values = {values[1:] for values in rows_of(in_memory / "back")}
    assert values == set(zip(DIRECTORIES, reversed(DIRECTORIES), strict=True))
    named = {tuple(part.partition.values()) for part in known(in_memory / "back").files}
    assert named == values


def test_values_without_a_directory_name_become_null_or_get_one(in_memory):
    """Hive cannot tell the empty string from NULL; and no directory name can contain a NUL character."""
    part = pa.table({"id": [1, 2, 3, 4, 5], "dt": ["", None, "__HIVE_DEFAULT_PARTITION__", "a\0b", "x"]})
    write(in_memory / "flat", {"1.orc": part, "2.orc": part.slice(0, 1)})
    exported(in_memory / "flat", in_memory / "text")
    partition_by(in_memory / "text", ["dt"])

    imported(in_memory / "text", in_memory / "back", "orc")

    default = "dt=__HIVE_DEFAULT_PARTITION__"
    assert {path.name for path in (in_memory / "back").glob("dt=*")} == {default, "dt=a%00b", "dt=x"}
    assert [row[1] for row in rows_of(in_memory / "back")] == [None, None, None, None, "a\0b", "x"]


def partition_by(text, fields):
    """Change the manifest as if the table had had these fields in its directories."""
    made = known(text)
    (text / manifest.PATH).write_bytes(
        manifest.dump(dataclasses.replace(made, spec=made.spec | {"partitioned by": fields}))
    )


@pytest.mark.parametrize("deep", ["dt=1/x.orc", "x.orc"])
def test_files_beside_partition_directories_are_refused(in_memory, deep):
    part = pa.table({"id": [1]})
    write(in_memory / "table", {"dt=1/at=2/x.orc": part, "dt=2/at=2/x.orc": part, deep: part})

    refused(in_memory, DataError, "format", "table", "is partitioned by")


# --- faults: an error from the catalogue, and nothing left behind


def refused(root, family, kind, *parts, call=None):
    before = snapshot(root)
    with pytest.raises(MutatorError) as caught:
        (call or (lambda: exported(root / "table", root / "text")))()
    message = str(caught.value)
    assert (type(caught.value), caught.value.kind) == (family, kind), message
    assert [part for part in parts if part not in message] == [], message
    assert snapshot(root) == before, "something was left"
    return message


SOME = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
BAD_TEXT = pa.table({"id": [1, 2], "name": pa.array([b"ok", b"\xff"]).cast(pa.binary()).view(pa.string())})


def damaged(content):
    return content[: len(content) // 2] + content[len(content) // 2 + 7 :]


def parquet_of(table):
    return file_of("parquet", table)


@pytest.mark.parametrize(
    ("name", "content", "family", "kind", "parts"),
    [
        ("notes.csv", b"id,name\n", DataError, "format", ["notes.csv", "take it out of the table"]),
        ("empty.parquet", b"", DataError, "format", ["empty.parquet", "is empty", "take it out of the table"]),
        ("3.orc", SOME, DataError, "format", ["orc, parquet", "remove the files that do not belong"]),
        ("3.parquet", parquet_of(SOME)[:-9], DataError, "damaged", ["3.parquet"]),
        ("3.parquet", b"PAR1" + bytes(90) + b"PAR1", DataError, "damaged", ["3.parquet"]),
        ("3.parquet", damaged(parquet_of(SOME)), DataError, "damaged", ["3.parquet"]),
        ("more/3.parquet", SOME, ConfigError, "path.kind", ["more", "dt=2026-01-31"]),
        ("dt=1/3.parquet", SOME, DataError, "format", ["is partitioned by"]),
        ("=1/3.parquet", SOME, ConfigError, "path.kind", ["=1"]),
        ("3.parquet", BAD_TEXT, DataError, "schema.field", ["3.parquet", "name", "UTF-8", "row 2: '\\xff'"]),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_path_that_is_not_a_table_is_refused(in_memory, name, content, family, kind, parts):
    write(in_memory / "table", {"1.parquet": SOME, "2.parquet": SOME, name: content})

    refused(in_memory, family, kind, *parts)


def test_directory_whose_name_is_not_utf8_is_refused(in_memory):
    write(in_memory / "table", {"dt=1/1.orc": SOME})
    os.rename(in_memory / "table" / "dt=1", os.fsencode(in_memory / "table") + b"/dt=\xff")

    refused(in_memory, DataError, "damaged", "1.orc")


@pytest.mark.parametrize("log", ["_delta_log", ".hoodie", "_spark_metadata"])
def test_table_of_a_format_with_a_log_is_refused(in_memory, log):
    """The table's own log lists the files that count; and a run would remove that log."""
    write(in_memory / "table", {"1.parquet": SOME, "2.parquet": SOME, f"{log}/0.json": b"{}"})

    refused(in_memory, ConfigError, "table.place", log)


@pytest.mark.parametrize("there", ["nothing", "no files", "hidden files", "a file", "a link"])
def test_no_table_is_refused(in_memory, there):
    table = in_memory / "table"
    if there == "a file":
        write(in_memory, {"table.orc": SOME})
        os.rename(in_memory / "table.orc", table)
    elif there == "a link":
        write(table, {"1.orc": SOME})
        os.symlink("1.orc", table / "2.orc")
    elif there != "nothing":
        write(table, {"_temporary/1.orc": SOME, ".2.orc": SOME} if there == "hidden files" else {})
        table.mkdir(exist_ok=True)

    kinds = {"nothing": "path.missing", "a file": "path.kind", "a link": "path.kind"}
    refused(in_memory, ConfigError, kinds.get(there, "table.place"), "table")


def test_impossible_paths_are_refused(in_memory):
    write(in_memory / "table", {"1.orc": SOME, "2.orc": SOME})
    exported(in_memory / "table", in_memory / "text")

    refused(in_memory, StateError, "output.exists", "text")
    refused(
        in_memory,
        ConfigError,
        "path.inside",
        "text",
        call=lambda: exported(in_memory / "table", in_memory / "table" / "text"),
    )
    refused(
        in_memory,
        StateError,
        "output.exists",
        "table",
        call=lambda: imported(in_memory / "text", in_memory / "table", "orc"),
    )
    refused(
        in_memory,
        ConfigError,
        "path.inside",
        "x",
        call=lambda: imported(in_memory / "text", in_memory / "text" / "x", "orc"),
    )
    refused(
        in_memory,
        ConfigError,
        "path.missing",
        "table",
        call=lambda: imported(in_memory / "table", in_memory / "x", "orc"),
    )
    imported(in_memory / "text", in_memory / "back", "orc")
    refused(in_memory, DataError, "format", "back", call=lambda: imported(in_memory / "back", in_memory / "x", "orc"))


def test_table_that_changes_while_it_is_exported_is_refused(in_memory):
    write(in_memory / "table", {"1.orc": SOME, "2.orc": SOME})

    def meanwhile(tasks, work):
        found = each(tasks, work)
        write(in_memory / "table", {"3.orc": SOME})
        return found

    with pytest.raises(StateError) as caught:
        exported(in_memory / "table", in_memory / "text", each=meanwhile)

    assert caught.value.kind == "table.changed"
    assert os.listdir(in_memory) == ["table"]


@pytest.mark.parametrize("change", ["cut", "changed", "missing"])
def test_damaged_text_is_not_imported(in_memory, change):
    write(in_memory / "table", {"1.orc": SOME, "2.orc": SOME})
    exported(in_memory / "table", in_memory / "text")
    path = max((in_memory / "text").glob("part-*"))
    content = path.read_bytes()
    path.unlink()
    if change != "missing":
        path.write_bytes(content[:-2] if change == "cut" else content.replace(b"a", b"b"))

    with pytest.raises(StateError) as caught:
        imported(in_memory / "text", in_memory / "back", "orc")

    assert path.name in str(caught.value)
    assert sorted(os.listdir(in_memory)) == ["table", "text"]


def test_second_attempt_of_every_task_changes_nothing(in_memory):
    write(in_memory / "table", {"dt=1/1.orc": SOME, "dt=2/1.orc": SOME})

    exported(in_memory / "table", in_memory / "text", each=each_twice)
    imported(in_memory / "text", in_memory / "back", "orc", each=each_twice)

    assert rows_of(in_memory / "back") == rows_of(in_memory / "table")
    for one in (in_memory / "text", in_memory / "back"):
        assert verified(one) == ()


# --- other programs and the imported files


def verified(path, monkeypatch=None):
    found = local_engine.verify(str(path))
    assert not found.keyed
    return found.problems


@every_format
def test_written_files_are_verified(in_memory, file_format):
    write(in_memory / "table", {f"dt=1/1.{file_format}": SOME, f"dt=2/1.{file_format}": SOME})
    exported(in_memory / "table", in_memory / "text")
    imported(in_memory / "text", in_memory / "back", file_format)

    for one in (in_memory / "text", in_memory / "back"):
        assert verified(one) == ()
        path = max(one.rglob("part-*"))
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # an Avro file ends with random bytes
        (problem,) = verified(one)
        assert problem.startswith(f"{path.relative_to(one)}: its checksum is")


def test_other_programs_read_imported_files(in_memory):
    write(in_memory / "table", {"dt=a%2Fb/1.orc": SOME, "dt=b/1.orc": SOME})
    exported(in_memory / "table", in_memory / "text")
    for file_format in ("orc", "parquet"):
        imported(in_memory / "text", in_memory / file_format, file_format)
        found = dataset.dataset(in_memory / file_format, format=file_format, partitioning="hive").to_table()

        assert sorted(map(str, found.to_pylist())) == sorted(
            str(row | {"dt": dt}) for row in SOME.to_pylist() for dt in ("a/b", "b")
        )


# --- `mutator run` alone, on a text copy


PEOPLE = pa.table(
    {
        "id": pa.array([1, 2, 3, 7], pa.int32()),
        "name": ["Ann", "a,b", None, ""],
        "at": pa.array([100, 100, 100, 100]),
    }
)
ORDINALS = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "2"}
NAMES = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at"}
BEFORE = [(1, "Ann", 100), (2, "a,b", 100), (3, None, 100), (7, "", 100)]


@pytest.fixture
def people(in_memory):
    """Return a function that merges feed files into the text of a table and returns the table's new rows."""
    write(in_memory / "table", {"1.parquet": PEOPLE.slice(0, 2), "2.parquet": PEOPLE.slice(2)})
    exported(in_memory / "table", in_memory / "text")
    (in_memory / "feed").mkdir()

    def merged(feed, settings, engine="auto"):
        for name, content in feed.items():
            (in_memory / "feed" / name).write_bytes(content)
        places = {"master": f"{in_memory}/text", "feed": [f"{in_memory}/feed"], "output": f"{in_memory}/merged"}
        shared = {"num.reducer": "2", "max.delete.fraction": "1"}
        report = local_engine.mutate(shared | settings, engine=engine, **places)
        imported(in_memory / "merged", in_memory / "back", "orc")
        return rows_of(in_memory / "back"), report

    return merged


@pytest.mark.parametrize("engine", ["blocks", "records"])
@pytest.mark.parametrize("by", [ORDINALS, NAMES], ids=["ordinals", "names"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_plain_rows_are_merged(people, engine, by, end):
    feed = {
        "ups_1.txt": end.join([b"1,x\\x2cy,200", b"2,\\N,200", b"3,late,50", b"007,seven,200", b"9,\\n\\\\,1", b""]),
        "del_2.txt": end.join([b"3,,300", b"4,nobody,300", b""]),
    }

    rows, report = people(feed, by | {"deleted.record.file.prefix": "del"}, engine)

    assert rows == [(1, "x,y", 200), (2, None, 200), (7, "seven", 200), (9, "\n\\", 1)]
    counts = report.counts
    assert [counts[f"feed {one}"] for one in ("updated", "inserted", "deleted", "superseded")] == [3, 1, 1, 1]
    assert counts["feed delete of unknown"] == 1


@pytest.mark.parametrize("place", [0, 1, 3], ids=["first", "middle", "last"])
def test_op_code_column_anywhere(people, place):
    rows = [[b"1", b"new", b"200"], [b"2", b"", b"200"], [b"5", b"ins", b"200"]]
    for row, code in zip(rows, [b"U", b"D", b"I"], strict=True):
        row.insert(place, code)
    by = {"op.code.field.ordinal": str(place)}
    by |= {name: str(int(value) + (int(value) >= place)) for name, value in ORDINALS.items()}

    found, _ = people({"f_1.txt": b"".join(b",".join(row) + b"\n" for row in rows)}, by)

    assert found == [(1, "new", 200), (3, None, 100), (5, "ins", 200), (7, "", 100)]


def test_order_by_file_name_and_deletes_of_keys_alone(people):
    feed = {"ups_1.txt": b"1,one,1\n2,two,1\n", "del_2.txt": b"1\n7\n", "ups_3.txt": b"7,again,3\n"}

    rows, _ = people(feed, {"id.field.ordinals": "0", "deleted.record.file.prefix": "del"})

    assert rows == [(2, "two", 1), (3, None, 100), (7, "again", 3)]


BAD_ROWS = {
    b"x,name,200": ["type int32: x,name,200"],
    b"99999999999,name,200": ["99999999999", "int32"],
    b"1,name,soon": ["soon"],
    b"1,na\\qme,200": ["unknown escape", "\\q"],
    b"1,name": ["2 fields", "3"],
    b"1,\xff,200": ["UTF-8"],
    b"\\N,name,200": ["id", "is NULL"],
}


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("engine", ["blocks", "records"])
@pytest.mark.parametrize(("bad", "parts"), BAD_ROWS.items(), ids=map(repr, BAD_ROWS))
def test_bad_row_is_named_with_its_line_and_can_be_set_aside(people, in_memory, engine, bad, parts):
    feed = {"ups_1.txt": b"1,good,150\n" + bad + b"\n"}

    with pytest.raises(DataError) as caught:
        people(feed, ORDINALS, engine)
    assert caught.value.kind == "rejects"
    assert [part for part in ["ups_1.txt", "line 2", *parts] if part not in str(caught.value)] == [], caught.value
    assert not (in_memory / "merged").exists()

    rows, report = people(feed, ORDINALS | {"reject.policy": "quarantine"}, engine)
    assert rows == [(1, "good", 150), *BEFORE[1:]]
    assert report.counts["feed rejected"] == 1
    assert report.rejects["feed"][0]["line"] == 2
