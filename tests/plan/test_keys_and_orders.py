"""Fields that may be keys and order values, the errors for fields that may not, and the settings for both."""

from __future__ import annotations

import gzip
import json
import random
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import mutator
from mutator.cli import main
from mutator.errors import ConfigError, DataError, MutatorError
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.pipeline import verify as verification
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.named_runs import BY_ID, ENGINES, FORMATS, TYPED, Work, avro, rows_of

BY_FILE = {"id.field.ordinals": "id"}


@pytest.fixture(params=ENGINES)
def work(request, tmp_path):
    return Work(tmp_path, request.param)


def table(ids, ats, notes=None, **more):
    notes = [f"{one} {at}" for one, at in zip(ids, ats, strict=True)] if notes is None else notes
    return pa.table({"id": ids, "at": ats, "note": notes, **more})


def both(work, file_format, master, feed, **settings):
    work.put("master/m", master, file_format)
    work.put("feed/f_1", feed, file_format)
    return work.run({name.replace("_", "."): value for name, value in settings.items()})


def notes_of(work):
    return sorted(str(row["note"]) for row in work.rows())


# --- keys

KEYS = {
    "int8": pa.array([-1, 2], pa.int8()),
    "int64": pa.array([-(2**63), 2**63 - 1]),
    "uint64": pa.array([0, 2**64 - 1], pa.uint64()),
    "bool": pa.array([True, False]),
    "string": pa.array(["", 'é,\n"']),
    "binary": pa.array([b"\xff", b""]),
    "fixed": pa.array([b"abc", b"\x00\x01\x02"], pa.binary(3)),
    "date": pa.array([date(1, 1, 1), date(9999, 12, 31)]),
    "decimal": pa.array([Decimal("1.50"), Decimal("-0.01")], pa.decimal128(38, 2)),
    "seconds": pa.array([0, -1], pa.timestamp("s")),
    "zoned": pa.array([1, -1], pa.timestamp("us", "Europe/Berlin")),
    "nanos": pa.array([1, -1], pa.timestamp("ns", "UTC")),
    "time": pa.array([1, 86399999999], pa.time64("us")),
}


@pytest.mark.thorough(keep=11)
@pytest.mark.parametrize("name", KEYS)
def test_types_of_keys(name, work):
    """Among many other rows, so that only few are hashed."""
    numbers = pa.array([] if name == "bool" else range(120, 127), pa.int32())
    of_bytes = pa.array([b"%03d" % number for number in range(120, 127)])
    others = of_bytes if name in ("string", "binary", "fixed") else numbers if name == "date" else numbers.cast("int64")
    ids = pa.concat_arrays([KEYS[name], others.cast(KEYS[name].type)])
    both(work, "parquet", table(ids, [1] * len(ids), ["old", *["kept"] * (len(ids) - 1)]), table(ids[:1], [2], ["new"]))
    assert sorted(work.table()["note"].to_pylist()) == [*["kept"] * (len(ids) - 1), "new"]
    work.put("feed2/f_2.parquet", work.files[0].read_bytes())
    assert work.run(master="out1", feed="feed2").counts["feed no-op"] >= 1
    work.put("feed3/f_3", table(ids[:1], [3], ["newest"]), "parquet")
    work.run(master="out1", feed="feed3")
    assert sorted(work.table()["note"].to_pylist()) == [*["kept"] * (len(ids) - 1), "newest"]


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("file_format", TYPED)
@pytest.mark.parametrize(
    "ids",
    [pa.array([1.5]), pa.array([1.5], pa.float32()), pa.array([["a"]]), pa.array([{"a": 1}])],
    ids=["double", "float", "list", "struct"],
)
def test_a_float_or_nested_key_is_an_error(file_format, ids, work):
    with pytest.raises(DataError, match=r"f_1.*field id is of type .*whole number, a decimal, a boolean") as caught:
        both(work, file_format, table(ids, [1], ["x"]), table(ids, [2], ["y"]))
    assert caught.value.kind == "schema.field"


def test_a_map_or_union_cannot_be_a_key(work):
    for data_type in ({"type": "map", "values": "int"}, ["int", "string"]):
        schema = avro(("id", data_type), ("at", "long"))
        for place in ("master/m", "feed/f_1"):
            work.put_avro(place, schema, [{"id": {} if isinstance(data_type, dict) else 1, "at": 1}])
        with pytest.raises(DataError, match="field id is of type"):
            work.run()


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("file_format", TYPED)
def test_null_in_a_key_is_a_reject(file_format, work):
    feed = table(pa.array(["a", None, "b"]), [2, 3, 4], ["new", "lost", "more"])
    with pytest.raises(DataError, match=r"f_1.*field id (\(ID\) )?is NULL"):
        both(work, file_format, table(["a"], [1]), feed)
    report = both(work, file_format, table(["a"], [1]), feed, reject_policy="quarantine")
    assert notes_of(work) == ["more", "new"]
    assert report.counts["feed rejected"] == 1
    assert "lost" in report.rejects["feed"][0]["row"]


def test_null_in_a_csv_key_is_a_reject_and_empty_text_is_not(work):
    report = both(
        work, "csv", b"id,at,note\na,1,old\n", b'id,at,note\n"",2,empty\n,3,null\n', reject_policy="quarantine"
    )
    assert notes_of(work) == ["empty", "old"]
    assert "is NULL" in report.rejects["feed"][0]["reason"]


STRANGE = {
    "nanos": pa.array([1234567, 7], pa.timestamp("ns")),
    "far": pa.array([2**31 - 1, 1], pa.date32()),
    "zone": pa.array([1, 2], pa.timestamp("us", "Mars/Olympus")),
    "far time": pa.array([2**62, 1], pa.timestamp("us")),
    "deep": pa.array([[{"a": 1234567}], None], pa.list_(pa.struct([("a", pa.timestamp("ns"))]))),
    "map": pa.array([[("a", b"\xff")], None], pa.map_(pa.string(), pa.binary())),
}


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("name", STRANGE)
def test_a_reject_is_shown_with_any_content(name, work):
    feed = table(pa.array([None, "b"]), [2, 3], STRANGE[name])
    report = both(work, "parquet", table(["a"], [1], STRANGE[name].slice(1)), feed, reject_policy="quarantine")
    assert report.counts["feed rejected"] == 1
    assert sorted(work.table()["id"].to_pylist()) == ["a", "b"]


def test_invalid_utf8_is_a_reject(work):
    notes = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    report = both(work, "parquet", table(["a"], [1]), table(["b", "c"], [1, 1], notes), reject_policy="quarantine")
    assert "field note has a value that its type does not allow" in report.rejects["feed"][0]["reason"]
    assert notes_of(work) == ["a 1", "fine"]


# --- order values

ORDERS = {
    "int8": pa.array([-2, 1], pa.int8()),
    "uint64": pa.array([2**63, 2**64 - 1], pa.uint64()),
    "decimal": pa.array([Decimal("9.99"), Decimal("10.00")]),
    "negative": pa.array([Decimal("-10.00"), Decimal("-9.99")]),
    "double": pa.array([9.5, 1e20]),
    "date": pa.array([date(1969, 12, 31), date(2026, 1, 1)]),
    "seconds": pa.array([-1, 1], pa.timestamp("s")),
    "millis": pa.array([999, 1000], pa.timestamp("ms")),
    "micros": pa.array([-1, 0], pa.timestamp("us", "UTC")),
    "nanos": pa.array([1, 2], pa.timestamp("ns")),
    "zone": pa.array([1, 2], pa.timestamp("us", "Europe/Berlin")),
    "long": pa.array(["9", "10"]),
    "string": pa.array(["10", "9"]),
    "timestamp": pa.array(["2026-01-01T01:00:00+02:00", "2026-01-01T00:00:00Z"]),
}


@pytest.mark.thorough(keep=16, rest=16)
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("name", ORDERS)
def test_the_higher_order_value_wins(name, file_format, work):
    low, high = ORDERS[name].slice(0, 1), ORDERS[name].slice(1)
    stored = FILE_FORMATS[file_format].storable_type(low.type)
    if stored is None:
        return  # CSV and escaped text store no such values
    low, high = low.cast(stored), high.cast(stored)
    if name in ("long", "string", "timestamp"):
        work.settings["temporal.ordering.field.type"] = name
    elif file_format == "csv":
        work.settings["temporal.ordering.field.type"] = {"int8": "long", "date": "timestamp"}.get(
            name, "decimal" if pa.types.is_decimal(low.type) or name in ("uint64", "double") else "timestamp"
        )
    work.put("master/m", pa.concat_tables([table(["a"], high, ["high"]), table(["b"], low, ["low"])]), file_format)
    work.put("feed/f_1", pa.concat_tables([table(["a"], low, ["low"]), table(["b"], high, ["high"])]), file_format)
    report = work.run()
    assert (report.counts["feed late"], report.counts["feed updated"]) == (1, 1)
    if file_format in ("parquet", "orc"):
        assert work.table()["note"].to_pylist() == ["high", "high"]
    else:
        assert notes_of(work) == ["high", "high"]


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("file_format", TYPED)
@pytest.mark.parametrize(
    "at",
    [pa.array([[1]]), pa.array([True]), pa.array([b"1"]), pa.array([{"a": 1}])],
    ids=["list", "bool", "bytes", "struct"],
)
def test_a_type_without_an_order_is_an_error(file_format, at, work):
    with pytest.raises(DataError, match=r"f_1.*field at is of type .*has no order"):
        both(work, file_format, table(["a"], at, ["x"]), table(["a"], at, ["x"]))


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
def test_null_as_order_value(file_format, work):
    master = table(["a", "b"], pa.array([None, 1]), ["no order", "one"])
    feed = table(["a", "b", "c"], pa.array([-5, None, None], pa.int64()), ["some", "late", "new"])
    with pytest.raises(DataError, match=r"m\..*field at \(order value\) is NULL"):
        both(work, file_format, master, feed)
    report = both(work, file_format, master, feed, null_order="lowest")
    assert notes_of(work) == ["new", "one", "some"]
    assert report.counts["feed late"] == 1
    work.put("feed2/f_2", table(["a", "c"], pa.array([None, None], pa.int64()), ["late", "newer"]), file_format)
    work.settings["null.order"] = "lowest"
    report = work.run(master=work.output.name, feed="feed2")
    assert notes_of(work) == ["newer", "one", "some"]
    assert (report.counts["feed late"], report.counts["feed updated"]) == (1, 1)


@pytest.mark.parametrize("kept", ["true", "false"])
def test_null_may_become_the_lowest_value_later(work, kept):
    """It was a reject before, so no decision changes; it stays the lowest from then on."""
    work.settings["order.keep"] = kept
    named = list[str]()
    (work.path / "none").mkdir()
    for number, (keys, ats) in enumerate([("ab", [1, 2]), ("ac", [None, None]), ("cd", [None, 3])], 1):
        notes = [f"{one}{number}" for one in keys]
        work.put(f"feed{number}/f_{number}", table([*keys], pa.array(ats, pa.int64()), notes), "parquet")
        more = {"null.order": "lowest"} if number > 1 else {"allow.empty.master": "true"}
        work.run(more, master=f"out{number - 1}" if number > 1 else "none", feed=f"feed{number}")
        named.append(str(work.path / f"feed{number}"))
    assert notes_of(work) == ["a1", "b1", "c3", "d3"]
    with pytest.raises(MutatorError, match=r"NULL lowest"):
        work.run({"null.order": "reject"}, master="out3", feed="feed3")

    path = str(work.path / "table")
    Table.create(path, key="id", order_by="at", order_keep=kept == "true")
    for number, feed in enumerate(named, 1):
        Table(path).apply(feed, **({"null_order": "lowest"} if number == 2 else {}))
    assert sorted(row["note"] for row in Table(path).scan().to_pylist()) == ["a1", "b1", "c3", "d3"]
    found = mutator.explain(path, "a", feed=named)
    assert "late" in str(found)
    assert not any(step.differs for step in found.steps)
    assert not found.unknown


def test_nan_is_not_an_order_value(work):
    feed = table(["a", "b"], pa.array([float("nan"), float("inf")]))
    with pytest.raises(DataError, match="is not a finite number"):
        both(work, "parquet", table(["a"], [1.0]), feed)


def test_an_order_type_that_the_field_does_not_have_is_an_error(work):
    with pytest.raises(ConfigError, match="timestamp, and field at is int64"):
        both(work, "parquet", table(["a"], [1]), table(["a"], [2]), temporal_ordering_field_type="timestamp")


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
def test_order_by_file_name_keeps_each_rows_sequence(file_format, work):
    work.settings = dict(BY_FILE)
    work.put("master/m", table(["z"], [0], ["old"]), file_format)
    work.put("feed/f_5", table(["a"], [1], ["five"]), file_format)
    work.put("feed/f_7", table(["b"], [1], ["seven"]), file_format)
    work.run()
    work.put("feed2/f_6", table(["a", "b"], [9, 9], ["six", "six"]), file_format)
    report = work.run(master="out1", feed="feed2")
    assert notes_of(work) == ["old", "seven", "six"]
    assert (report.counts["feed late"], report.counts["feed updated"]) == (1, 1)


# --- names and ordinals


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
def test_run_without_fresh_feed_may_lack_the_op_code(file_format, work):
    work.settings["op.code.field.ordinal"] = "op"
    both(work, file_format, table(["a", "b"], [1, 1]), table(["a"], [2], op=["D"]))
    report = work.run(master="out1")  # the same feed again
    assert [row["id"] for row in work.rows()] == ["b"]
    assert (len(report.consumed), report.counts["feed rows"]) == (1, 0)


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
def test_ordinals_address_the_fields_of_the_feed(file_format, work):
    both(
        work,
        file_format,
        table(["a", "b"], [1, 1]),
        table(["a"], [2]),
        id_field_ordinals="0",
        temporal_ordering_field_ordinal="1",
        header_lines="1",
        input_format=file_format,
    )
    assert notes_of(work) == ["a 2", "b 1"]
    assert work.manifest.spec["key"]["fields"] == ["id"]


def test_a_feed_without_the_op_code_that_the_last_run_had(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in (("m", "id,at\na,1\n"), ("f_1", "id,at,op\na,2,U\n"), ("f_2", "id,at\na,3\n")):
        Path(f"{name}.csv").write_text(text)
    words = ["run", "--key", "id", "--order-by", "at", "--op", "op", "--runner", "local"]
    assert main([*words, "--master", "m.csv", "--feed", "f_1.csv", "--output", "first"]) == 0
    assert main([*words, "--master", "m.csv", "--feed", "f_2.csv", "--output", "second"]) == 2
    capsys.readouterr()
    assert main([*words, "--master", "first", "--feed", "f_2.csv", "--output", "second"]) == 3
    assert f"{tmp_path}/f_2.csv: field op is missing (it has id, at)" in capsys.readouterr().err


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
def test_unknown_field_name(file_format, work):
    with pytest.raises(ConfigError, match=r"id\.field\.ordinals: no input has a field noet; did you mean note\?"):
        both(work, file_format, table(["a"], [1]), table(["a"], [2]), id_field_ordinals="noet")
    with pytest.raises(ConfigError, match=r"no input has a field ID; did you mean id\?"):
        both(work, file_format, table(["a"], [1]), table(["a"], [2]), id_field_ordinals="ID")
    with pytest.raises(
        ConfigError, match=r"op\.code\.field\.ordinal: no input has a field opp; they have id, at, note"
    ) as unknown:
        both(work, file_format, table(["a"], [1]), table(["a"], [2]), op_code_field_ordinal="opp")
    assert re.search(r"; the newest feed file is .*/f_1\.", str(unknown.value))
    with pytest.raises(DataError, match=r"f_1\..*: field k is missing"):  # the master has it
        both(work, file_format, table(["a"], [1], k=["a"]), table(["a"], [2]), id_field_ordinals="k")
    with pytest.raises(ConfigError, match="field 9 is beyond the 3 fields"):
        both(
            work,
            file_format,
            table(["a"], [1]),
            table(["a"], [2]),
            id_field_ordinals="9",
            header_lines="1",
            input_format=file_format,
        )


def test_two_fields_with_the_same_name(work):
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array([1]), pa.array(["x"])], ["id", "at", "at"])
    for file_format, content in (("parquet", None), ("orc", None), ("csv", b"id,at,at\na,1,2\n")):
        work.put("master/m", table(["a"], [1]), file_format)
        if content is None:
            content = pa.BufferOutputStream()
            (pq.write_table if file_format == "parquet" else orc.write_table)(twice, content)
            content = content.getvalue().to_pybytes()
        path = work.put(f"feed/f_1.{file_format}", content)
        what = "read as a header, and has the name 'at' twice" if file_format == "csv" else "at is in the schema twice"
        with pytest.raises(DataError, match=rf"f_1.*{what}"):
            work.run()
        path.unlink()
        (work.path / f"master/m.{file_format}").unlink()


# --- the files of master and feed


def test_several_formats_in_one_directory(work):
    work.put("master/m", table(["a"], [1]), "parquet")
    for name, file_format in (("f_1", "parquet"), ("f_2", "parquet"), ("f_3", "orc")):
        work.put(f"feed/{name}", table(["a"], [1]), file_format)
    with pytest.raises(DataError, match=r"f_3\.orc: the feed has files of several formats \(1 orc, 2 parquet\)"):
        work.run()
    (work.path / "feed/f_3.orc").unlink()
    work.put("feed/readme.txt", b"hello\n")
    with pytest.raises(DataError, match=r"readme\.txt: the feed has files of several formats \(2 parquet, 1 text\)"):
        work.run()


@pytest.mark.parametrize("merged", [True, False])
def test_the_file_of_another_format_than_the_merged_ones_is_named(work, merged):
    """Without a merged feed, the master has the usual format, if as many files of the feed have each."""
    work.put("master/m", table(["a"], [1]), "csv")
    if merged:
        work.put("feed/f_1", table(["a"], [1]), "csv")
        work.run()
    work.put("next/a_2", table(["a"], [2]), "csv")
    names = ["b_3.orc", "c_3.orc"][: 1 + merged]
    for name in names:
        work.put(f"next/{name[:-4]}", table(["a"], [3]), "orc")

    with pytest.raises(DataError, match="of several formats") as caught:
        work.run(master="out1" if merged else "master", feed="next")
    assert [name in str(caught.value) for name in ("a_2.csv", *names)] == [False, *[True] * len(names)]


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
def test_an_empty_file(file_format, work):
    work.put("master/m", table(["a"], [1]), file_format)
    work.put("feed/f_1", table(["b"], [1]), file_format)
    work.put(f"feed/f_2.{file_format}", b"")
    if file_format == "csv":
        assert work.run().counts["output rows"] == 2
        return
    with pytest.raises(DataError, match=rf"f_2\.{file_format}: it is empty, but {file_format} files never are"):
        work.run()


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
def test_files_without_rows(file_format, work):
    none = table(pa.array([], pa.string()), pa.array([], pa.int64()), pa.array([], pa.string()))
    both(work, file_format, none, table(["a"], [1]))
    assert notes_of(work) == ["a 1"]
    work.put("feed2/f_2", none, file_format)
    report = work.run(master="out1", feed="feed2")
    assert (report.counts["feed rows"], notes_of(work)) == (0, ["a 1"])
    both(work, file_format, none, none)
    assert work.manifest.commit.counts["output rows"] == 0
    report = work.run(master=work.output.name)
    assert report.counts["output rows"] == 0


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
def test_a_compressed_file(file_format, work):
    work.put("master/m", table(["a"], [1]), file_format)
    plain = work.put("feed/f_1", table(["a", "b"], [2, 3]), file_format)
    work.put(f"feed/f_1.{file_format}.gz", gzip.compress(plain.read_bytes()))
    plain.unlink()
    work.run()
    assert notes_of(work) == ["a 2", "b 3"]


def test_a_header(work):
    work.put("master/m.csv", b"id,at,note\na,1,x\n")
    work.put("feed/f_1.csv", b"a,2,new\n")
    with pytest.raises(DataError, match=r"f_1\.csv: its first row, 'a,2,new', is read as a header"):
        work.run()
    work.put("feed/f_1.csv", b"\xef\xbb\xbfnote,at,id\r\nnew,2,a\r\n")
    work.run()
    assert notes_of(work) == ["new"]
    work.put("feed/f_1.csv", b"id,,note\na,2,new\n")
    with pytest.raises(
        DataError, match=r"its header has no name for field 1 .*; give each field a name .*index=False"
    ) as caught:
        work.run()
    assert "damaged" not in str(caught.value)


WITHOUT_A_HEADER = {
    "field.names": "id,at,note",
    "id.field.ordinals": "id",
    "temporal.ordering.field.ordinal": "at",
    "input.format": "csv",
    "num.reducer": "1",
}


def test_an_empty_value_in_the_first_row_of_csv_without_a_header(work):
    work.settings = WITHOUT_A_HEADER
    work.put("master/m.csv", b"a,1,\nb,1,y\n")
    work.put("feed/f_1.csv", b"b,2,\n")
    work.run()
    assert sorted(b"".join(path.read_bytes() for path in work.files).split()) == [b"a,1,", b"b,2,", b"id,at,note"]


def test_csv_without_a_header(work):
    work.settings = WITHOUT_A_HEADER
    work.put("master/m.csv", b"a,1,x\nb,1,y\n")
    work.put("feed/f_1.csv", b'a,2,"q""1,\n2"\n')
    work.run()
    found = sorted(path.read_bytes() for path in work.files)
    assert b"".join(found) == b'id,at,note\na,2,"q""1,\n2"\nb,1,y\n'


# --- op codes and delete files

OPS = pa.array(["D", "U", "I"])


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("keep", ["false", "true"])
def test_an_op_code(file_format, keep, work):
    work.settings |= {"op.code.field.ordinal": "op", "op.code.keep": keep, "upsert.op.code": "U,I"}
    master = table(["a", "b"], [1, 1])
    both(work, file_format, master, table(["a", "b", "c"], [2, 2, 2], op=OPS))
    assert notes_of(work) == ["b 2", "c 2"]
    assert [("op" in one) for one in work.rows()] == [keep == "true"] * 2
    work.put("feed2/f_2", table(["c", "d"], [3, 3], op=pa.array(["D", "X"])), file_format)
    with pytest.raises(DataError, match=r"field op \(op code\) is not a known code"):
        work.run(master="out1", feed="feed2")
    work.run({"reject.policy": "quarantine"}, master="out1", feed="feed2")
    assert notes_of(work) == ["b 2"]


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("file_format", TYPED)
def test_an_op_code_may_be_a_number_but_not_a_list(file_format, work):
    work.settings |= {"op.code.field.ordinal": "op", "deleted.op.code": "-1", "upsert.op.code": "1"}
    both(work, file_format, table(["a", "b"], [1, 1]), table(["a", "b"], [2, 2], op=pa.array([-1, 1])))
    assert notes_of(work) == ["b 2"]
    with pytest.raises(DataError, match=r"f_1.*field op is of type .*the op code must be"):
        both(work, file_format, table(["a"], [1]), table(["a"], [2], op=pa.array([["D"]])))


def test_a_delete_code_in_the_master_is_a_reject(work):
    work.settings |= {"op.code.field.ordinal": "op"}
    with pytest.raises(DataError, match=r"m\.parquet.*marks a delete in the master"):
        both(work, "parquet", table(["a"], [1], op=pa.array(["D"])), table(["b"], [2], op=pa.array(["U"])))


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("order", ["file", "field"])
def test_delete_files_need_only_the_fields_of_id_and_order(file_format, order, work):
    work.settings = {**(BY_FILE if order == "file" else BY_ID), "deleted.record.file.prefix": "del"}
    more = {"must": pa.array([True, True])}
    master = table(["a", "b"], [1, 1], **more)
    work.put("master/m", master.cast(pa.schema([field.with_nullable(False) for field in master.schema])), file_format)
    work.put("feed/ups_1", table(["b", "c"], [2, 2], **more), file_format)
    work.put("feed/del_2", table(["a", "c"], [3, 3]).select(["id"] if order == "file" else ["id", "at"]), file_format)
    report = work.run()
    assert notes_of(work) == ["b 2"]
    assert [note for note in report.notes if "new in" in note] == []


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("file_format", ["csv", "escaped"])
def test_other_fields_of_deletes_need_not_be_readable(file_format, work):
    work.settings |= {"op.code.field.ordinal": "op", "feed.format": file_format, "header.lines": "1"}
    work.settings |= {"partitioned.by": "shop"} if work.engine == "blocks" else {}
    price, seen = pa.array([Decimal("1.50")] * 3), pa.array([date(2026, 1, 1)] * 3)
    master = table(["a", "b", "c"], [1, 1, 1], shop=["s"] * 3, price=price, seen=seen, sizes=[[1]] * 3)
    nullable = [one.with_nullable(one.name != "price") for one in master.schema]
    work.put("master/m", master.cast(pa.schema(nullable)), "parquet")
    head = b"id,at,note,shop,price,seen,sizes,op\n"
    work.put("feed/f_1.csv", head + b"a,2,\xff,s,free,soon,[,D\nb,2,,s,,,,D\nc,2,x,s,1.50,2026-01-01,[1],U\n")
    report = work.run()

    assert [row["id"] for row in work.rows()] == ["c"]
    assert (report.counts["feed deleted"], report.counts["feed rejected"]) == (2, 0)

    work.put("feed2/f_2.csv", head + b"a,x,,s,,,,D\nc,3,,s,free,2026-01-01,,U\n")
    with pytest.raises(DataError) as caught:
        work.run(master="out1", feed="feed2")
    assert "field at is not of type int64" in str(caught.value)
    assert "field price is not of type decimal128(3, 2)" in str(caught.value)


# --- joins and formats


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
def test_a_full_snapshot(file_format, work):
    work.settings["sync.mode"] = "full"
    report = both(work, file_format, table(["a", "b", "c"], [1, 1, 5]), table(["a", "c"], [2, 4]))
    assert notes_of(work) == ["a 2", "c 5"]
    assert report.counts["master deleted by absence"] == 1


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_broadcast_join(file_format, tmp_path):
    work = Work(tmp_path, "auto")
    work.put("master/m1", table(["a", "b"], [1, 1]), file_format)
    work.put("master/m2", table(["c", "d"], [1, 1]), file_format)
    work.settings |= {"master.unique": "true", "op.code.field.ordinal": "op"}
    work.put("feed/f_1", table(["a", "b", "e"], [2, 2, 2], op=pa.array(["U", "D", "U"])), file_format)
    report = work.run()
    assert report.join == "broadcast"
    assert notes_of(work) == ["a 2", "c 1", "d 1", "e 2"]


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("out", FORMATS)
@pytest.mark.parametrize("file_format", FORMATS)
def test_another_format_after_a_broadcast_join(file_format, out, tmp_path):
    work = Work(tmp_path, "auto")
    work.put("master/m1", table(["a", "b"], [1, 1]), file_format)
    work.put("master/m2", table(["c"], [1]), file_format)
    work.put("feed/f_1", table(["a"], [2]), file_format)
    work.run({"master.unique": "true", "output.format": out})
    assert {path.suffix for path in work.files} == {f".{out}"}
    assert notes_of(work) == ["a 2", "b 1", "c 1"]


@pytest.mark.thorough(keep=5, rest=8)
@pytest.mark.parametrize("out", FORMATS)
@pytest.mark.parametrize("file_format", FORMATS)
def test_a_managed_master_changes_its_format(file_format, out, work):
    both(work, file_format, table(["a", "b", "c"], [1, 1, 1]), table(["a"], [2]))
    work.put("feed2/f_2", table(["b"], [2]), file_format)
    work.run({"output.format": out}, master="out1", feed="feed2")
    assert {path.suffix for path in work.files} == {f".{out}"}
    assert notes_of(work) == ["a 2", "b 2", "c 1"]
    work.put("feed3/f_3", table(["c"], [2]), "csv")
    work.run(master="out2", feed="feed3")
    assert {path.suffix for path in work.files} == {f".{out}"}
    assert notes_of(work) == ["a 2", "b 2", "c 2"]


@pytest.mark.parametrize(
    ("file_format", "codec"),
    [(file_format, codec) for file_format in ("parquet", "orc") for codec in ("none", "snappy", "gzip", "zstd", "lz4")]
    + [("avro", codec) for codec in ("none", "snappy", "gzip", "zstd")]
    + [("csv", "none")],
)
def test_a_codec(file_format, codec, tmp_path):
    work = Work(tmp_path)
    both(work, file_format, table(["a"], [1]), table(["b"], [2]), output_codec=codec)
    assert notes_of(work) == ["a 1", "b 2"]
    (path, *_) = work.files
    if file_format == "parquet":
        found = pq.ParquetFile(path).metadata.row_group(0).column(0).compression.lower()
    elif file_format == "orc":
        found = orc.ORCFile(path).compression.lower()
    elif file_format == "avro":
        with path.open("rb") as stream:
            found = fastavro.reader(stream).codec
    else:
        return
    same = {"none": ("uncompressed", "null"), "gzip": ("gzip", "zlib", "deflate"), "zstd": ("zstd", "zstandard")}
    assert found in same.get(codec, (codec,))


@pytest.mark.parametrize(("file_format", "codec"), [("avro", "lz4"), ("csv", "gzip")])
def test_a_codec_that_the_format_does_not_have(file_format, codec, work):
    with pytest.raises(ConfigError, match=f"{codec} is not a codec of {file_format}"):
        both(work, file_format, table(["a"], [1]), table(["b"], [2]), output_codec=codec)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_managed_master_is_verified(file_format, tmp_path):
    work = Work(tmp_path)
    work.settings["null.order"] = "lowest"
    work.settings["op.code.field.ordinal"] = "op"
    ats = pa.array([datetime(2026, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC"))
    if file_format == "csv":
        work.settings["temporal.ordering.field.type"] = "timestamp"
    both(work, file_format, table(["a", "b"], ats), table(["a", "c"], ats, op=pa.array(["D", "U"])))
    with local_engine.runner() as runner:
        found = verification.verify(runner, str(work.output))
    assert found.problems == ()
    assert (found.rows, found.tombstones) == (2, 1)
    path = next(path for path in work.files if rows_of(path))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with local_engine.runner() as runner:
        problems = verification.verify(runner, str(work.output)).problems
    assert any(path.name in problem for problem in problems), problems


# --- several order fields


@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc", "json"])
def test_order_fields_within_structs(work, file_format):
    """NULL is the lowest value of a part, in both directions, and of the members of a struct that is NULL."""

    def rows(*sources):
        ids = [name[0] for name, _ in sources]
        made = [None if one is None else dict(zip(("lsn", "part"), one, strict=True)) for _, one in sources]
        own_type = pa.struct([("lsn", pa.int64()), ("part", pa.int64())])
        notes = pa.array([name for name, _ in sources])
        return pa.table({"id": ids, "source": pa.array(made, own_type), "note": notes})

    (work.path / "none").mkdir()
    fields = {"temporal.ordering.field.ordinal": "source.lsn, source.part", "order_type": "asc, desc"}
    settings = {**fields, "null.order": "lowest"}
    feeds = [
        rows(("a1", (7, 2)), ("a2", (7, 1)), ("b1", (9, None)), ("c1", None), ("d1", (None, 5))),
        rows(("a3", (7, 1)), ("a4", (7, 2)), ("b2", (9, 8)), ("c2", (None, 1)), ("d2", None)),
    ]
    for number, feed in enumerate(feeds, 1):
        if file_format == "json":
            work.put(f"feed{number}/f_{number}.json", "\n".join(map(json.dumps, feed.to_pylist())).encode())
        else:
            work.put(f"feed{number}/f_{number}", feed, file_format)
        master = f"out{work.runs}" if work.runs else "none"
        work.run({**BY_FILE, "allow.empty.master": "true", **settings}, master=master, feed=f"feed{number}")
    assert notes_of(work) == ["a3", "b2", "c2", "d1"]
    order = {"by": "fields", "fields": ["source.lsn", "source.part"], "type": "long, long desc", "null": "lowest"}
    assert work.manifest.spec["order"] == order


# --- order values beside the rows


def test_records_without_their_order_value(work):
    """Rows of an unmanaged master are lowest; a redelivered row at a higher value is a no-op that raises it."""
    settings = {"order.keep": "false", "order_type": "long desc", "num.reducer": "2"}
    work.put("master/m", pa.table({"id": ["a", "b", "c"], "note": ["old", "old", "same"]}), "parquet")
    work.put("feed/f_1", table(["a", "c", "d"], [5, 7, 5], ["new", "same", "new"]), "parquet")
    report = work.run(settings)
    assert {name: report.counts[f"feed {name}"] for name in ("updated", "inserted", "no-op")} == {
        "updated": 1,
        "inserted": 1,
        "no-op": 1,
    }
    assert work.rows() == [
        {"id": name, "note": note} for name, note in zip("abcd", ["new", "old", "same", "new"], strict=True)
    ]
    work.put("late/f_2", table(["a", "b", "c"], [6, 6, 8], ["late", "later", "late"]), "parquet")
    counts = work.run(settings, master="out1", feed="late").counts
    assert (counts["feed late"], counts["feed updated"]) == (2, 1)
    assert work.manifest.spec["order"] == {"by": "field", "field": "at", "type": "long desc", "beside": True}


def test_order_values_that_a_master_loses_are_a_warning(work, capsys):
    """Those of rows that another program wrote: they count as older than every mutation."""
    settings = {"order.keep": "false", "num.reducer": "2"}
    work.put("master/m", table(["a"], [9]), "parquet")
    work.put("feed/f_1", table(["a", "b"], [5, 5], ["new", "new"]), "parquet")
    report = work.run(settings)
    assert report.counts["feed updated"] == 1
    said = "order.keep=false drops field at of the master, whose rows then count as older than every mutation"
    assert [said in one for one in report.warnings] == [True]
    work.put("next/f_2", table(["a"], [6], ["newer"]), "parquet")
    assert not work.run(settings, master="out1", feed="next").warnings  # mutator has written these
    place, dataset = str(work.path / "table"), str(work.path / "master")
    line = ["table", "create", place, "--dataset", dataset, "--key", "id", "--order-by", "at", "-D", "order.keep=false"]
    assert main(line) == 0
    assert "warning: " + said in capsys.readouterr().err


@pytest.mark.parametrize("given", [None, "string, long", "long desc, long"])
def test_a_wrong_type_of_one_of_several_fields_names_all_types(work, given):
    """Each message has the whole setting to follow."""
    work.put("master/m", table(["a"], [9], part=["x"]), "parquet")
    work.put("feed/f_1", table(["a", "b"], [5, 5], part=["y", "z"]), "parquet")
    settings = {"temporal.ordering.field.ordinal": "at, part", "num.reducer": "2"}
    settings |= {} if given is None else {"order_type": given}
    with pytest.raises((ConfigError, DataError)) as caught:
        work.run(settings)
    said = re.search("use -D '(?:temporal.ordering.field.|order_)type=([a-z ,]*)'", str(caught.value))
    assert said is not None, str(caught.value)
    if given is not None and given.startswith("string"):
        assert said[1] == "long, long"  # the type of the text is not known from the schema
        return
    assert said[1] == (given or "long").replace(", long", "") + ", string"
    assert work.run(settings | {"order_type": said[1]}).counts["output rows"] == 2


def test_a_horizon_of_several_parts_is_shown_as_a_list(work):
    work.put("master/m", table(["a"], [1], no=[1]), "parquet")
    feed = table(["b", "c"], [1, 2], no=[7, 8], op=pa.array(["D", "U"]))
    work.put("feed/f_1", feed, "parquet")
    fields = {"temporal.ordering.field.ordinal": "at, no", "op.code.field.ordinal": "op"}
    work.run(fields)
    work.put("next/f_2", feed.slice(1), "parquet")
    assert work.run({**fields, "tombstone.retention": "0s"}, master="out1", feed="next").horizon == "[1, 7]"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order.keep": "false"}, "order.keep=false: needs temporal.ordering.field.ordinal"),
        ({"order.keep": "false", "temporal.ordering.field.ordinal": "id"}, "field id is also part of the ID"),
        ({"order.keep": "false", "temporal.ordering.field.ordinal": "box.at"}, "box has more than the order value"),
        ({"order.keep": "false", "temporal.ordering.field.ordinal": "gone"}, "no input has a field gone"),
    ],
)
def test_order_fields_that_records_cannot_lose(tmp_path, settings, message):
    work = Work(tmp_path, settings=dict(BY_FILE))
    work.put("master/m", table(["a"], [1], box=[{"at": 1}]), "parquet")
    work.put("feed/f_1", table(["a"], [1], box=[{"at": 1}]), "parquet")
    with pytest.raises(ConfigError, match=re.escape(message)):
        work.run(settings)


@pytest.mark.parametrize("kept", ["true", "false"])
def test_the_order_value_stays_where_it_is(tmp_path, kept, capsys):
    """That of a dataset, in a run and in a table that begins with it; the advice can be followed."""
    other = "false" if kept == "true" else "true"
    work = Work(tmp_path)
    work.put("master/m", table(["a"], [1]).drop_columns(["at"] if kept == "false" else []), "parquet")
    work.put("feed/f_1", table(["a"], [2]), "parquet")
    work.put("next/f_2", table(["a"], [3]), "parquet")
    work.run({"order.keep": kept})
    where = "a part of its rows" if kept == "true" else "beside its rows"
    said = f"order.keep: {other}, but the order value of .*out1, at \\(long\\), is {where}, and stays there; set "
    with pytest.raises(ConfigError, match=f"{said}order.keep={kept}"):
        work.run({"order.keep": other}, master="out1", feed="next")
    if kept == "false":
        with pytest.raises(ConfigError, match=said.replace(": true,", ": is not set,")):
            work.run({"order.keep": ""}, master="out1", feed="next")
    assert work.run({"order.keep": kept}, master="out1", feed="next").counts["feed updated"] == 1
    line = ["table", "create", str(tmp_path / "table"), "--dataset", str(tmp_path / "out1"), "-D"]
    assert main([*line, f"order.keep={other}"]) == 2
    assert re.search(f"{said}order.keep={kept}", capsys.readouterr().err)
    assert main([*line, f"order.keep={kept}"]) == 0
    assert main(["table", "describe", str(tmp_path / "table")]) == 0
    shown = "at (long)" if kept == "true" else "at (long, beside the rows)"
    assert f"order            field {shown}\n" in capsys.readouterr().out
    work.put("third/f_3", table(["a"], [4]), "parquet")
    apply = ["table", "apply", str(tmp_path / "table"), "--feed", str(tmp_path / "third"), "--quiet"]
    assert main([*apply, "-D", f"order.keep={other}"]) == 2
    assert "is " + where in capsys.readouterr().err
    assert main(apply) == 0


def test_a_dotted_name_of_two_fields_is_an_error(work):
    """JSON Lines have the same rule: one of the two has to be renamed."""
    rows = table(["a"], [1], box=[{"at": 1}], **{"box.at": [2]})
    work.put("master/m", rows, "parquet")
    work.put("feed/f_1", rows, "parquet")
    with pytest.raises(ConfigError, match=r"field box\.at may be member 'box.at', or member 'at' of box; have one of"):
        work.run({"temporal.ordering.field.ordinal": "box.at"})


# --- the position in the feed


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", ["text", "csv", "avro", "parquet", "json"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_position_in_the_feed_decides_between_equal_values(work, file_format, seed):
    """Whole files in any order, some of them again, give what all of them give in the order of their names."""
    rng = random.Random(f"{seed} {file_format}")
    files = {
        number: [(rng.choice("abc"), rng.randrange(3), f"{number} {row}") for row in range(rng.randint(1, 5))]
        for number in rng.sample(range(20), 6)
    }
    settings = {
        "late.files": "merge",
        "allow.empty.master": "true",
        "consumed.files": "merge",
        "reused.names": "accept",
    }
    if file_format == "text":
        work.settings = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1,file.position"}
    else:
        work.settings["temporal.ordering.field.ordinal"] = "at,file.position"
    (work.path / "none").mkdir()
    for run in range(4):
        for number in rng.sample(sorted(files), rng.randint(1, 3)) if run < 3 else files:
            rows = [dict(zip(("id", "at", "note"), row, strict=True)) for row in files[number]]
            name = f"feed{run}/f_{number}"
            if file_format == "json":
                work.put(f"{name}.json", "\n".join(map(json.dumps, rows)).encode())
            elif file_format == "text":
                work.put(f"{name}.txt", "".join(f"{','.join(map(str, row))}\n" for row in files[number]).encode())
            else:
                work.put(name, pa.Table.from_pylist(rows), file_format)
        work.run(settings, master=f"out{work.runs}" if work.runs else "none", feed=f"feed{run}")
    expected = {}
    for at, _, _, (key, _, note) in sorted(
        (row[1], number, place, row) for number, rows in files.items() for place, row in enumerate(rows)
    ):
        expected[key] = f"{at} {note}"
    if file_format == "text":
        lines = [line.split(",") for path in work.files for line in path.read_text().splitlines()]
        assert {key: f"{at} {note}" for key, at, note in lines} == expected
    else:
        assert {row["id"]: f"{row['at']} {row['note']}" for row in work.rows()} == expected
    with local_engine.runner() as runner:
        assert verification.verify(runner, str(work.output)).problems == ()
    assert work.manifest.spec["order"]["type"] == "long, position"
