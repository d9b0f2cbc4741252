"""Schemas that change from file to file: fields that are added, left out or widened, and errors.

Each case has a master and a feed with different schemas; it runs with Parquet, ORC and Avro files (whose records stay
encoded), with a feed of another format, and on both engines. In CSV a field has the type that the other files give it.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator.errors import ConfigError, DataError
from mutator.formats.files.file_formats import FILE_FORMATS
from tests.support.named_runs import ENGINES, TYPED, Work, avro

# The file formats of the master, and of the feed.
PATHS = [("parquet", "parquet"), ("orc", "orc"), ("avro", "avro"), ("parquet", "avro"), ("avro", "orc")]


@pytest.fixture(params=ENGINES)
def work(request, tmp_path):
    return Work(tmp_path, request.param)


def side(key, **more):
    """Return a table of one record."""
    return pa.table({"id": [key], "at": pa.array([1]), **more})


def merged(work, file_formats, master, feed, **settings):
    for name, table, file_format in (("master/m", master, file_formats[0]), ("feed/f_1", feed, file_formats[1])):
        if any(
            FILE_FORMATS[file_format].storable_type(one) is None
            for one in table.schema.types
            if not pa.types.is_nested(one)
        ):
            pytest.skip(f"there are no such {file_format} files")
        storable = FILE_FORMATS[file_format].storable_type
        stored = [
            field if pa.types.is_nested(field.type) else field.with_type(storable(field.type)) for field in table.schema
        ]
        work.put(name, table.cast(pa.schema(stored)), file_format)
    return work.run({name.replace("_", "."): value for name, value in settings.items()})


def found(work, name="v"):
    """Return a field of both records, the master's first, as Python values; times without a zone."""
    values = [one.get(name, "nothing") for one in sorted(work.rows(), key=lambda one: one["id"])]
    return [one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in values]


# --- fields that are added or left out


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_the_feed_has_a_new_field(file_formats, work):
    report = merged(work, file_formats, side("a"), side("b", v=["x"]))
    assert found(work) == [None, "x"]
    assert any("field v is new in" in note and "rows without it get NULL" in note for note in report.notes)


@pytest.mark.thorough(keep=10, rest=10)
@pytest.mark.parametrize("file_formats", PATHS)
@pytest.mark.parametrize(
    ("values", "text", "value"),
    [
        (pa.array([1], pa.int32()), "7", 7),
        (pa.array([1]), "-7", -7),
        (pa.array(["x"]), "né,w", "né,w"),
        (pa.array([b"x"]), "raw", b"raw"),
        (pa.array([True]), "true", True),
        (pa.array([1.5]), "0.25", 0.25),
        (pa.array([Decimal("1.50")]), "2.5", Decimal("2.50")),
        (pa.array([date(2026, 1, 1)]), "2026-01-31", date(2026, 1, 31)),
        (pa.array([datetime(2026, 1, 1)]), "2026-01-31T10:00:00.25", datetime(2026, 1, 31, 10, 0, 0, 250000)),  # noqa: DTZ001
        (pa.array([1], pa.timestamp("ms", "UTC")), "2026-01-31T10:00:00+02:00", datetime(2026, 1, 31, 8)),  # noqa: DTZ001
    ],
)
def test_a_new_field_has_a_default(file_formats, values, text, value, work):
    merged(work, file_formats, side("a"), side("b", v=values), **{"default.v": text})
    assert found(work)[0] == value
    assert all(row.get("v") is not None for row in work.rows())


def test_a_default_in_nanoseconds_of_avro(work):
    """Rows travel as columns, because one file is not Avro."""
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    work.put("master/m", side("a"), "parquet")
    work.put_avro(
        "feed/f_1", avro(("id", "string"), ("at", "long"), ("v", nanos, 1234567)), [{"id": "b", "at": 1, "v": 1}]
    )
    work.run()
    assert work.table().sort_by("id")["v"].combine_chunks().view(pa.int64()).to_pylist() == [1234567, 1]


def test_a_default_in_nanoseconds(work):
    merged(
        work,
        ("parquet", "parquet"),
        side("a"),
        side("b", v=pa.array([1], pa.timestamp("ns"))),
        **{"default.v": "2026-01-31T10:00:00.123456789"},
    )
    ticks = work.table().sort_by("id")["v"].combine_chunks().view(pa.int64()).to_pylist()
    assert ticks[0] % 1_000_000_000 == 123456789


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_a_default_that_cannot_be_used(file_formats, work):
    with pytest.raises(ConfigError, match=r"default\.v: 'x'"):
        merged(work, file_formats, side("a"), side("b", v=pa.array([1])), **{"default.v": "x"})
    with pytest.raises(ConfigError, match=r"default\.v: 'x' cannot be a value of type list"):
        merged(work, file_formats, side("a"), side("b", v=pa.array([[1]])), **{"default.v": "x"})
    with pytest.raises(ConfigError, match=r"default\.vv: no input has a field vv; did you mean v\?"):
        merged(work, file_formats, side("a"), side("b", v=pa.array([1])), **{"default.vv": "1"})


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_a_field_that_the_feed_no_longer_has_is_left_out(file_formats, work):
    report = merged(work, file_formats, side("a", v=["x"], w=["y"]), side("b", w=["z"]))
    assert found(work) == ["nothing", "nothing"]
    assert found(work, "w") == ["y", "z"]
    assert any("no such fields: v (of" in note for note in report.notes)


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_names_are_matched_by_case_and_fields_by_name(file_formats, work):
    merged(work, file_formats, side("a", v=["1"], w=["2"]), pa.table({"w": ["3"], "V": ["4"], "at": [2], "id": ["b"]}))
    assert found(work, "w") == ["2", "3"]
    assert found(work, "V") == [None, "4"]
    assert found(work) == ["nothing", "nothing"]
    if file_formats[0] != "avro" or file_formats[1] == "avro":
        names = list(work.rows()[0])
        assert names == ["w", "V", "at", "id"]


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_the_newest_feed_file_gives_the_schema(file_formats, work):
    work.put("feed/f_10", side("c", w=["new"]), file_formats[1])
    work.put("feed/f_9", side("d", v=["old"], w=["old"], x=["old"]), file_formats[1])
    merged(work, file_formats, side("a", v=["m"]), side("b", v=["older"]))
    assert [sorted(row) for row in work.rows()] == [["at", "id", "w"]] * 4
    assert found(work, "w") == [None, None, "new", "old"]


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_a_managed_master_follows_each_schema(file_formats, work):
    merged(work, file_formats, side("a", v=pa.array([1], pa.int32())), side("b", v=pa.array([2], pa.int32())))
    work.put("feed2/f_2", side("c", v=pa.array([2**40]), w=["x"]), file_formats[1])
    work.run(master="out1", feed="feed2")
    work.put("feed3/f_3", side("d", v=pa.array([4]), w=["y"]), file_formats[1])
    report = work.run(master="out2", feed="feed3")
    assert found(work) == [1, 2, 2**40, 4]
    assert found(work, "w") == [None, None, "x", "y"]
    work.put("feed4/f_4", side("a", v=pa.array([1]), w=pa.array([None], pa.string())), file_formats[1])
    report = work.run(master="out3", feed="feed4")
    assert report.counts["feed no-op"] == 1, "a value that was widened is the same value"


# --- types

WIDER = {
    "int to long": (pa.array([-1], pa.int32()), pa.array([2**40]), [-1, 2**40]),
    "short to int": (pa.array([-1], pa.int16()), pa.array([2**20], pa.int32()), [-1, 2**20]),
    "int to decimal": (pa.array([5], pa.int32()), pa.array([Decimal("1.25")]), [Decimal("5.00"), Decimal("1.25")]),
    "long to decimal": (
        pa.array([2**60]),
        pa.array([Decimal("1.25")], pa.decimal128(30, 2)),
        [Decimal(2**60), Decimal("1.25")],
    ),
    "decimal to decimal": (
        pa.array([Decimal(12345)]),
        pa.array([Decimal("1.25")]),
        [Decimal("12345.00"), Decimal("1.25")],
    ),
    "float to double": (pa.array([0.5], pa.float32()), pa.array([0.1]), [0.5, 0.1]),
    "date to timestamp": (
        pa.array([date(1969, 12, 31)]),
        pa.array([datetime(2026, 1, 1, 5)], pa.timestamp("us")),  # noqa: DTZ001
        [datetime(1969, 12, 31), datetime(2026, 1, 1, 5)],  # noqa: DTZ001
    ),
    "date to timestamp of a zone": (
        pa.array([date(1969, 12, 31)]),
        pa.array([datetime(2026, 1, 1, 5, tzinfo=UTC)], pa.timestamp("ms", "UTC")),
        [datetime(1969, 12, 31), datetime(2026, 1, 1, 5)],  # noqa: DTZ001
    ),
    "millis to micros": (
        pa.array([1001], pa.timestamp("ms")),
        pa.array([7], pa.timestamp("us")),
        [datetime(1970, 1, 1, 0, 0, 1, 1000), datetime(1970, 1, 1, 0, 0, 0, 7)],  # noqa: DTZ001
    ),
    "zone to zone": (
        pa.array([0], pa.timestamp("us", "Europe/Berlin")),
        pa.array([7], pa.timestamp("us", "UTC")),
        [datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 7)],  # noqa: DTZ001
    ),
    "millis of the day to micros": (
        pa.array([1001], pa.time32("ms")),
        pa.array([7], pa.time64("us")),
        [time(0, 0, 1, 1000), time(0, 0, 0, 7)],
    ),
    "list of ints to list of longs": (
        pa.array([[1]], pa.list_(pa.int32())),
        pa.array([[1 << 40, None]]),
        [[1], [1 << 40, None]],
    ),
    "members in another order": (
        pa.array([{"b": "x", "a": 1}]),
        pa.array([{"a": 2, "b": "y"}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
    ),
    "a member more": (
        pa.array([{"a": 1}], pa.struct([("a", pa.int32())])),
        pa.array([{"b": [None, 2.5], "a": 1 << 40}], pa.struct([("b", pa.list_(pa.float64())), ("a", pa.int64())])),
        [{"a": 1, "b": None}, {"a": 1 << 40, "b": [None, 2.5]}],
    ),
    "a member more in lists": (
        pa.array([[{"a": 1}, None]]),
        pa.array([[], [{"a": 2, "c": {"d": "x"}}]]).slice(1),
        [[{"a": 1, "c": None}, None], [{"a": 2, "c": {"d": "x"}}]],
    ),
    "a struct that is NULL": (
        pa.array([None], pa.struct([("a", pa.int32())])),
        pa.array([{"a": 2, "c": "x"}]),
        [None, {"a": 2, "c": "x"}],
    ),
    "never null to maybe": (
        pa.array([[1]], pa.list_(pa.field("item", pa.int64(), nullable=False))),
        pa.array([[None]], pa.list_(pa.int64())),
        [[1], [None]],
    ),
}


@pytest.mark.thorough(keep=16, rest=14)
@pytest.mark.parametrize("file_formats", PATHS)
@pytest.mark.parametrize("name", WIDER)
@pytest.mark.parametrize("wider", ["feed", "master"])
def test_a_type_is_widened(file_formats, name, wider, work):
    narrow, wide, expected = WIDER[name]
    sides = (narrow, wide) if wider == "feed" else (wide, narrow)
    merged(work, file_formats, side("a", v=sides[0], w=["x"]), side("b", v=sides[1], w=["y"]))
    assert found(work) == (expected if wider == "feed" else expected[::-1])
    assert found(work, "w") == ["x", "y"]


APART = {
    "long and text": (pa.array([1]), pa.array(["1"])),
    "long and double": (pa.array([1]), pa.array([1.0])),
    "decimal and double": (pa.array([Decimal("1.5")]), pa.array([1.0])),
    "text and bytes": (pa.array(["x"]), pa.array([b"x"])),
    "text and date": (pa.array(["2026-01-01"]), pa.array([date(2026, 1, 1)])),
    "bool and int": (pa.array([True]), pa.array([1], pa.int32())),
    "moment and local time": (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
    "too many digits": (pa.array([1], pa.decimal128(38, 0)), pa.array([1], pa.decimal128(38, 10))),
    "long and list": (pa.array([1]), pa.array([[1]])),
    "struct and another": (pa.array([{"a": 1}]), pa.array([{"b": 1}])),
    "lists of long and of text": (pa.array([[1]]), pa.array([["1"]])),
    "members of long and of text": (pa.array([{"a": 1, "b": 1}]), pa.array([{"a": "1", "b": 1}])),
}


@pytest.mark.thorough(keep=15, rest=15)
@pytest.mark.parametrize("file_formats", PATHS)
@pytest.mark.parametrize("name", APART)
def test_incompatible_types_are_an_error(file_formats, name, work):
    if name == "long and double" and file_formats == ("avro", "avro"):
        pytest.skip("Avro promotes long to double")
    one, other = APART[name]
    with pytest.raises(DataError) as caught:
        merged(work, file_formats, side("a", v=one), side("b", v=other))
    text = str(caught.value)
    assert caught.value.kind == "schema.type"
    assert "field v is" in text
    assert f"{work.path}/master/m.{file_formats[0]}" in text
    assert f"{work.path}/feed/f_1.{file_formats[1]}" in text


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_the_key_never_changes(file_formats, work):
    narrow, wide = pa.table({"id": pa.array([1], pa.int32()), "at": [1]}), pa.table({"id": [2], "at": [1]})
    for master, feed in ((narrow, wide), (wide, narrow)):
        with pytest.raises(DataError, match=r"field id is int.* a field of the ID keeps its type"):
            merged(work, file_formats, master, feed)
    with pytest.raises(DataError, match=r"field id is missing; did you mean Id\?"):
        merged(work, file_formats, narrow, pa.table({"Id": pa.array([1], pa.int32()), "at": [1]}))


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_the_order_field_may_be_widened_but_not_missing(file_formats, work):
    merged(work, file_formats, pa.table({"id": ["a"], "at": pa.array([1], pa.int32())}), side("a", v=["x"]))
    assert found(work) == ["x"]
    with pytest.raises(DataError, match=r"m\..*field at is missing"):
        merged(work, file_formats, pa.table({"id": ["a"]}), side("a", v=["x"]))


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("out", TYPED)
@pytest.mark.parametrize("data_type", [pa.int16(), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ms"), pa.uint8()])
def test_a_key_of_a_type_that_the_output_writes_as_another(data_type, out, work):
    """A key is the same in every format, and later feed files keep their type."""
    if out == "orc" and pa.types.is_unsigned_integer(data_type):
        return
    for place, number in (("master/m", 1), ("feed/f_1", 2), ("feed2/f_2", 1)):
        work.put(
            place,
            pa.table({"id": pa.array([number], data_type), "at": [number], "v": pa.array([number], data_type)}),
            "parquet",
        )
    work.settings["output.format"] = out
    work.run()
    report = work.run(master="out1", feed="feed2")
    assert (report.counts["feed no-op"], report.counts["output rows"]) == (1, 2)


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("out", TYPED)
def test_a_field_of_a_type_that_the_output_writes_as_another(out, work):
    tags = pa.array([[1]], pa.list_(pa.field("item", pa.int16(), nullable=False)))
    for number, place in enumerate(("master/m", "feed/f_1", "feed2/f_2")):
        work.put(place, side("ab"[number % 2], v=pa.array([b"abc"], pa.binary(3)), tags=tags), "parquet")
    work.settings["output.format"] = out
    work.run()
    report = work.run(master="out1", feed="feed2")
    assert (report.counts["feed no-op"], report.counts["output rows"]) == (1, 2)
    assert found(work) == [b"abc"] * 2
    assert found(work, "tags") == [[1]] * 2


def put_int96(work, name, key, micros):
    """Write a record whose field v is an instant as Spark and Hive store it; Arrow takes it for a local time."""
    made = io.BytesIO()
    table = side(key, v=pa.array([micros], pa.timestamp("us")))
    pq.write_table(table, made, use_deprecated_int96_timestamps=True, store_schema=False)
    work.put(f"{name}.parquet", made.getvalue())


def test_int96_is_an_instant(work):
    put_int96(work, "master/m", "a", 1)
    work.put("feed/f_1", side("b", v=pa.array([2], pa.timestamp("us", "UTC"))), "parquet")
    work.run()
    put_int96(work, "feed2/f_2", "c", 3)
    work.run(master=work.output.name, feed="feed2")

    assert work.table().schema.field("v").type == pa.timestamp("us", "UTC")
    assert sorted(work.table().column("v").cast(pa.int64()).to_pylist()) == [1, 2, 3]


def test_int96_does_not_fit_local_times(work):
    """A master of local times may be one that was made of such files while these were taken for local times."""
    work.put("master/m", side("a", v=pa.array([1], pa.timestamp("us"))), "parquet")
    work.put("feed/f_1", side("b", v=pa.array([2], pa.timestamp("us"))), "parquet")
    work.run()
    put_int96(work, "feed2/f_2", "c", 3)
    with pytest.raises(DataError, match=r"one has instants, the other local times without a zone\); convert the field"):
        work.run(master=work.output.name, feed="feed2")


# --- CSV, whose fields take their types from other files


def test_csv_takes_its_types_from_other_files(work):
    work.put("master/m", side("a", v=pa.array([Decimal("1.50")]), d=[date(2026, 1, 1)]), "parquet")
    work.put("feed/f_1.csv", b"v,id,more,at\n2.25,b,new,3\n,c,,4\n")
    work.run({"removed.fields": "d"})
    assert found(work) == [Decimal("1.50"), Decimal("2.25"), None]
    assert found(work, "more") == [None, "new", None]
    assert found(work, "d") == ["nothing"] * 3
    work.put("feed2/f_2.csv", b"v,id,more,at\nx,b,new,3\n")
    with pytest.raises(DataError, match=r"f_2\.csv.*field v is not of type decimal"):
        work.run(master="out1", feed="feed2")


def test_csv_files_with_other_headers(work):
    work.put("master/m.csv", b"id,at,old,v\na,1,x,y\n")
    work.put("feed/f_1.csv", b"at,id,v\n2,b,z\n")
    work.put("feed/f_2.csv", b"v,new,id,at\nw,n,c,3\n")
    with pytest.raises(DataError, match=r"f_2\.csv: lacks field old of the master, .* set removed\.fields=old"):
        work.run({"default.new": "d"})
    work.run({"default.new": "d", "removed.fields": "old"})
    assert work.rows() == [
        {"v": "w", "new": "n", "id": "c", "at": "3"},
        {"v": "y", "new": "d", "id": "a", "at": "1"},
        {"v": "z", "new": "d", "id": "b", "at": "2"},
    ]


# --- a schema given by the user

GIVEN = avro(("id", "string"), ("at", "long"), ("v", ["null", "long"], None), ("w", "string", "none"))


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_a_given_schema(file_formats, work):
    work.put("given.avsc", json.dumps(GIVEN).encode())
    merged(
        work,
        file_formats,
        side("a", v=pa.array([1], pa.int32()), x=["gone"]),
        side("b", w=["w"]),
        output_schema=str(work.path / "given.avsc"),
    )
    assert found(work) == [1, None]
    assert found(work, "w") == ["none", "w"]
    assert found(work, "x") == ["nothing"] * 2
    if work.files[0].suffix == ".avro":
        with work.files[0].open("rb") as stream:
            schema = fastavro.reader(stream).writer_schema
        assert [one["name"] for one in schema["fields"]] == ["id", "at", "v", "w"]


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_an_invalid_given_schema(file_formats, work):
    work.put("given.avsc", json.dumps(avro(("id", "string"), ("at", "long"), ("v", "int"))).encode())
    given = str(work.path / "given.avsc")
    with pytest.raises(DataError, match=r"field v is int32 in .*int64 does not fit into int32"):
        merged(work, file_formats, side("a", v=[1]), side("b", v=[1]), output_schema=given)
    with pytest.raises(DataError, match=r"field v is missing in .*has no default, and may not be NULL"):
        merged(work, file_formats, side("a"), side("b", v=pa.array([1], pa.int32())), output_schema=given)
    for content in (b"{", b'"string"', b"[]", b'{"type": "record", "name": "r", "fields": [{"name": "a"}]}'):
        work.put("given.avsc", content)
        with pytest.raises(ConfigError, match=r"output\.schema=.*given\.avsc"):
            work.run({"output.schema": given})


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
@pytest.mark.parametrize("values", [pa.array([None], pa.int32()), pa.array([None], pa.string())], ids=["int", "string"])
def test_null_in_a_required_field_of_a_given_schema_is_a_reject(file_formats, values, work):
    data_type = "int" if values.type == pa.int32() else "string"
    work.put("given.avsc", json.dumps(avro(("id", "string"), ("at", "long"), ("v", data_type))).encode())
    good = pa.array([5]).cast(values.type)
    work.settings |= {"output.schema": str(work.path / "given.avsc"), "deleted.record.file.prefix": "del"}
    work.put("feed/del_1", side("a", v=values), file_formats[1])
    feed = pa.concat_tables([side("b", v=good), side("c", v=values)])
    with pytest.raises(DataError, match="field v is NULL"):
        merged(work, file_formats, side("a", v=good), feed)
    report = merged(work, file_formats, side("a", v=good), feed, reject_policy="quarantine")
    assert found(work) == good.to_pylist()
    assert (report.counts["feed deleted"], report.counts["feed rejected"]) == (1, 1)


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("file_formats", PATHS)
def test_a_delete_file_may_lack_required_fields(file_formats, work):
    """Its rows are never written, so the missing fields need no value."""
    inner = pa.struct([pa.field("n", pa.int64(), nullable=False)])
    must = [pa.field("v", pa.string(), False), pa.field("s", inner, False), pa.field("n", pa.int32(), False)]

    def whole(key):
        made = side(key, v=["x"], s=pa.array([{"n": 1}], inner), n=pa.array([5], pa.int32()))
        return made.cast(pa.schema([*made.schema.remove(2).remove(2).remove(2), *must]))

    work.settings["deleted.record.file.prefix"] = "del"
    work.put("feed/del_1", side("a"), file_formats[1])
    report = merged(work, file_formats, pa.concat_tables([whole("a"), whole("c")]), whole("b"))
    assert (report.counts["feed deleted"], found(work)) == (1, ["x", "x"])
    assert found(work, "s") == [{"n": 1}] * 2
    if work.files[0].suffix == ".parquet":
        assert [field.nullable for field in work.table().schema][2:] == [False] * 3


def test_a_given_schema_with_a_union(work):
    schema = avro(("id", "string"), ("at", "long"), ("v", ["int", "string"], 5))
    work.put("given.avsc", json.dumps(schema).encode())
    work.settings["output.schema"] = str(work.path / "given.avsc")
    merged(work, ("avro", "avro"), side("a"), side("b"))
    assert found(work) == [5, 5]
    with pytest.raises(DataError, match=r"given\.avsc: field v is"):
        merged(Work(work.path / "other", work.engine, work.settings), ("parquet", "parquet"), side("a"), side("b"))


# --- only Avro: values that no other format can store stay the same, even if the fields beside them change

ENUM = {"type": "enum", "name": "Size", "symbols": ["S", "M", "L"]}
ODD: list[tuple[Any, ...]] = [
    ("u", ["int", "string", "null", ENUM]),
    ("nanos", {"type": "long", "logicalType": "timestamp-nanos"}),
    ("size", "Size"),
    ("many", {"type": "array", "items": ["null", "long", "string"]}),
    (
        "rec",
        {"type": "record", "name": "Rec", "namespace": "deep.down", "fields": [{"name": "n", "type": ["int", "long"]}]},
    ),
    ("again", ["null", "deep.down.Rec"]),
    ("wide", {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 5}),
    ("twelve", {"type": "fixed", "name": "Twelve", "size": 12, "logicalType": "duration"}),
]
VALUES = {
    "u": ("Size", "L"),
    "nanos": 1234567891,
    "size": "M",
    "many": [1, "1", None],
    "rec": {"n": 5},
    "again": {"n": 2**40},
    "wide": Decimal("12345678901234567890123456789012345678901234.00001"),
    "twelve": b"123456789012",
}


@dataclass
class Case:
    """The changes in the schema of the feed, and the master's record after them."""

    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)


CASES = {
    "the same": Case(),
    "added": Case(after=[("new", ["null", "int"], None)], expected={"new": None}),
    "added, with a default": Case(after=[("new", "string", "d")], expected={"new": "d"}),
    "added, with a default of a union": Case(after=[("new", ["int", "string"], 5)], expected={"new": 5}),
    "added, with a default of a record": Case(
        after=[("new", {"type": "record", "name": "New", "fields": [{"name": "b", "type": "bytes"}]}, {"b": "\u00ff"})],
        expected={"new": {"b": b"\xff"}},
    ),
    "added, with an empty map": Case(after=[("new", {"type": "map", "values": "int"}, {})], expected={"new": {}}),
    "added, with a symbol": Case(
        after=[("new", {"type": "enum", "name": "New", "symbols": ["A", "B"]}, "B")], expected={"new": "B"}
    ),
    "added, without one": Case(after=[("new", "long")], expected={"new": None}),
    "a union, added": Case(after=[("new", ["int", "string"])], expected={"new": None}),
    "left out": Case(before=[("old", ["int", "string"])], values={"old": "x"}),
    "widened": Case([("n", "int")], [("n", "long")], {"n": 7}, {"n": 7}),
    "widened, in a union": Case([("n", ["null", "int"])], [("n", ["null", "long"])], {"n": 7}, {"n": 7}),
    "null is last": Case([("n", ["null", "int"])], [("n", ["int", "null"])], {"n": 7}, {"n": 7}),
    "may be null": Case([("n", "int")], [("n", ["null", "int"])], {"n": 7}, {"n": 7}),
    "may be null no more": Case([("n", ["null", "int"])], [("n", "int")], {"n": 7}, {"n": 7}),
    "more symbols": Case(
        [("n", {"type": "enum", "name": "N", "symbols": ["A", "B"]})],
        [("n", {"type": "enum", "name": "N", "symbols": ["C", "B", "A"]})],
        {"n": "B"},
        {"n": "B"},
    ),
    "a symbol is text": Case(
        [("n", {"type": "enum", "name": "N", "symbols": ["A", "B"]})], [("n", "string")], {"n": "B"}, {"n": "B"}
    ),
    "fixed is bytes": Case(
        [("n", {"type": "fixed", "name": "N", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 2})],
        [("n", {"type": "bytes", "logicalType": "decimal", "precision": 7, "scale": 3})],
        {"n": Decimal("-1.25")},
        {"n": Decimal("-1.250")},
    ),
}


def branches(path):
    """Read a file; values of named types in unions come with the name of their type."""
    with path.open("rb") as stream:
        return list(fastavro.reader(stream, return_record_name=True, return_named_type=True))


@pytest.mark.thorough(keep=17)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("at", [0, 4, 9], ids=["first", "among", "last"])
def test_schemas_that_only_avro_has_stay(name, at, work):
    case = CASES[name]

    def schema(extra):
        fields = [("id", "string"), *ODD, ("at", "long")]
        # An enum is defined where it first occurs, which is among the odd fields.
        return avro(*fields[:at], *extra, *fields[at:], name="Sale")

    rows = {"id": "a", "at": 1, **VALUES}
    work.put_avro("master/m", schema(case.before), [{**rows, **case.values}])
    newer = {key: value for key, value in case.expected.items() if value is not None}
    fill = {one[0]: newer.get(one[0], 9) for one in case.after}
    work.put_avro("feed/f_1", schema(case.after), [{**rows, **fill, "id": "b"}])
    work.run()
    expected = work.put_avro("expected", schema(()), [rows])
    (odd,) = branches(expected)
    both = sorted((one for path in work.files for one in branches(path)), key=lambda one: one["id"])

    for one in both:
        assert {key: one[key] for key in VALUES} == {key: odd[key] for key in VALUES}
    new = {key: value for key, value in both[0].items() if key not in odd}
    plain = {key: value[1] if isinstance(value, tuple) else value for key, value in new.items()}
    assert plain == case.expected


def test_records_stay_encoded(work):
    """With one schema, not a byte of a record changes: here a number is encoded in more bytes than it needs."""
    schema = avro(("id", "string"), ("at", "long"), ("v", "long"))
    made = io.BytesIO()
    writer = fastavro.write.Writer(made, schema)
    block = type("Block", (), {"num_records": 1, "bytes_": io.BytesIO(b"\x02a\x02\x8e\x80\x00")})()
    writer.write_block(block)
    writer.flush()
    work.put("master/m.avro", made.getvalue())
    work.put_avro("feed/f_1", schema, [{"id": "b", "at": 1, "v": 2}])
    work.run({"output.codec": "none"})
    assert any(b"\x02a\x02\x8e\x80\x00" in path.read_bytes() for path in work.files)
    assert found(work) == [7, 2]


SYMBOLS = {
    "fewer": ({"type": "enum", "name": "N", "symbols": ["A", "B"]}, {"type": "enum", "name": "N", "symbols": ["A"]}),
    "text": ("string", {"type": "enum", "name": "N", "symbols": ["A"]}),
    "deep": (
        {"type": "array", "items": {"type": "enum", "name": "N", "symbols": ["A", "B"]}},
        {"type": "array", "items": {"type": "enum", "name": "N", "symbols": ["A"]}},
    ),
    "unions": (["int", "string"], ["string", "int"]),
    "branches": (["int", "string"], ["int", "string", "double"]),
}


@pytest.mark.parametrize("name", SYMBOLS)
def test_schemas_that_only_avro_has_are_not_guessed(name, work):
    for place, data_type, key in zip(("master/m", "feed/f_1"), SYMBOLS[name], "ab", strict=True):
        work.put_avro(
            place,
            avro(("id", "string"), ("at", "long"), ("v", data_type)),
            [{"id": key, "at": 1, "v": ["A"] if name == "deep" else "A"}],
        )
    with pytest.raises(DataError, match=r"field v is .*f_1\.avro.*m\.avro") as caught:
        work.run()
    assert caught.value.kind == "schema.type"


@pytest.mark.parametrize("data_type", [["int", "string"], {**dict(ODD)["wide"]}], ids=["union", "decimal"])
def test_schemas_that_only_avro_has_are_refused_in_other_formats(data_type, work):
    schema = avro(("id", "string"), ("at", "long"), ("v", data_type))
    work.put("master/m", side("a"), "parquet")
    work.put_avro("feed/f_1", schema, [{"id": "b", "at": 1, "v": 1 if isinstance(data_type, list) else Decimal(1)}])
    with pytest.raises(DataError, match=r"f_1\.avro: field v is of type .*(string|decimal)"):
        work.run()


def test_null_in_a_field_that_became_required(work):
    for place, data_type, value in (("master/m", ["null", "int"], None), ("feed/f_1", "int", 1)):
        work.put_avro(
            place, avro(("id", "string"), ("at", "long"), ("v", data_type)), [{"id": place, "at": 1, "v": value}]
        )
    work.run()
    assert sorted(map(repr, found(work))) == ["1", "None"]


def nested(*fields):
    """Return the schema of rows with a record as field v; fields as for ``avro``."""
    return avro(("id", "string"), ("at", "long"), ("v", avro(*fields, name="part")))


def test_defaults_of_members_of_avro_records(work):
    """Rows of a writer without the member get its default, also through another format, and after the next run."""
    added = [("b", "int", 5), ("c", {"type": "array", "items": "int"}, []), ("d", ["null", "string"], None)]
    work.put_avro("master/m", nested(("a", "int")), [{"id": "a", "at": 1, "v": {"a": 1}}])
    work.put_avro("feed/f_1", nested(("a", "long"), *added), [{"id": "b", "at": 1, "v": {"a": 2, "b": 3, "c": [4]}}])
    expected = [{"a": 1, "b": 5, "c": [], "d": None}, {"a": 2, "b": 3, "c": [4], "d": None}]
    work.run({"output.format": "parquet"})
    assert found(work) == expected
    work.run()
    assert found(work) == expected
    work.put_avro("feed2/f_2", nested(("a", "int"), ("e", "string")), [{"id": "c", "at": 1, "v": {"a": 7, "e": "x"}}])
    work.run(master=f"out{work.runs}", feed="feed2")
    assert found(work)[1:] == [{**expected[1], "e": None}, {"a": 7, "b": 5, "c": [], "d": None, "e": "x"}]


@pytest.mark.parametrize("whole", ["master", "feed"])
def test_integers_of_avro_are_promoted_to_doubles(whole, work):
    """Those that a double has not exactly are rejects."""
    types = {"master": "double", "feed": "double", whole: "long"}
    values = {"master": 2.5, "feed": 2.5, whole: (1 << 53) + 1}
    for at, name in enumerate(("master/m", "feed/f_1")):
        side_name = ("master", "feed")[at]
        schema = avro(("id", "string"), ("at", "long"), ("v", types[side_name]))
        work.put_avro(name, schema, [{"id": "ab"[at], "at": 1, "v": values[side_name]}])
    with pytest.raises(DataError, match="field v does not fit into double"):
        work.run()
    name = {"master": "master/m", "feed": "feed/f_1"}[whole]
    rows = [{"id": "b" if whole == "feed" else "a", "at": 1, "v": 1 << 53}]
    work.put_avro(name, avro(("id", "string"), ("at", "long"), ("v", "long")), rows)
    work.run()
    assert sorted(found(work)) == [2.5, 2.0**53]


def optional_record(*members):
    """Return an Avro schema with a record that may be NULL, of members that may not."""
    record = {"type": "record", "name": "s", "fields": [{"name": name, "type": one} for name, one in members]}
    fields = [{"name": "id", "type": "long"}, {"name": "at", "type": "long"}, {"name": "s", "type": ["null", record]}]
    return {"type": "record", "name": "r", "fields": fields}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", ["avro", "parquet"])
@pytest.mark.parametrize("member", ["boolean", "long", "string", {"type": "array", "items": "long"}])
def test_a_member_is_added_where_a_record_is_null(tmp_path, engine, file_format, member):
    value = {"boolean": True, "long": 7, "string": "v"}.get(member if isinstance(member, str) else "", [7])
    work = Work(tmp_path, engine)
    work.settings |= {"allow.empty.master": "true", "output.format": file_format}
    first = [{"id": number, "at": 1, "s": {"x": value} if number % 2 else None} for number in range(6)]
    work.put_avro("feed1/f_1", optional_record(("x", member)), first)
    work.run(feed="feed1", master="none")
    given = {"x": value, "y": "new"}
    work.put_avro("feed2/f_2", optional_record(("x", member), ("y", "string")), [{"id": 1, "at": 2, "s": given}])
    work.run(feed="feed2", master="out1")
    expected = [None if number % 2 == 0 else {"x": value, "y": None} for number in range(6)]
    assert {row["id"]: row["s"] for row in work.rows()} == dict(enumerate(expected)) | {1: given}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", ["avro", "parquet"])
def test_a_record_is_added_whose_members_may_not_be_null(tmp_path, engine, file_format):
    work = Work(tmp_path, engine)
    work.settings |= {"allow.empty.master": "true", "output.format": file_format}
    work.put_avro("feed1/f_1", avro(("id", "long"), ("at", "long")), [{"id": 1, "at": 1}, {"id": 2, "at": 1}])
    work.run(feed="feed1", master="none")
    inner = {"type": "record", "name": "t", "fields": [{"name": "y", "type": "string"}]}
    given = {"x": 7, "t": {"y": "v"}}
    work.put_avro("feed2/f_2", optional_record(("x", "long"), ("t", inner)), [{"id": 1, "at": 2, "s": given}])
    work.run(feed="feed2", master="out1")
    assert {row["id"]: row["s"] for row in work.rows()} == {1: given, 2: None}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_member_that_does_not_fit_is_a_reject(tmp_path, engine):
    work = Work(tmp_path, engine)
    work.settings |= {"allow.empty.master": "true", "reject.policy": "quarantine"}
    work.put_avro("feed1/f_1", optional_record(("x", "double")), [{"id": 1, "at": 1, "s": {"x": 0.5}}])
    work.run(feed="feed1", master="none")
    rows = [{"id": 2, "at": 2, "s": {"x": 2**53 + 1}}, {"id": 3, "at": 2, "s": {"x": 2}}]
    work.put_avro("feed2/f_2", optional_record(("x", "long")), rows)
    counts = work.run(feed="feed2", master="out1").counts
    assert (counts["feed inserted"], counts["feed rejected"]) == (1, 1)
