"""The report hands out the merged rows and the rejects, of every format, as the output has them."""

from __future__ import annotations

import datetime as dt
import json

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mutator
from tests.support.cluster import SAMPLE

SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "name": pa.string(),
        "ts": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(9, 2),
        "rate": pa.float64(),
        "day": pa.date32(),
    }
)


def table():
    row = {"name": 'a,"b"\n\\', "ts": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "price": 1, "rate": 0.1}
    return pa.Table.from_pylist([{"id": 1, **row, "day": dt.date(2026, 1, 31)}, {"id": 2, "ts": row["ts"]}], SCHEMA)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro", "csv", "escaped"])
def test_the_result_has_the_types_of_the_output(tmp_path, file_format):
    report = mutator.merge(
        master=table(), feed=table(), output=tmp_path / "out", key="id", order_by="ts", output_format=file_format
    )

    result = report.result.to_arrow().sort_by("id")

    if file_format != "csv":  # where an empty text is NULL
        assert result.to_pylist() == table().to_pylist()
    assert result.column("id").type in (pa.int32(), pa.int64())
    assert result.column("price").type == pa.decimal128(9, 2)
    assert len(report.result) == report.result.num_rows == 2
    assert isinstance(report.result.to_pandas(), pd.DataFrame)
    assert isinstance(report.result.to_polars(), pl.DataFrame)
    assert pl.DataFrame(report.result).height == 2
    assert pa.table(report.result).schema == report.result.schema
    assert mutator.Dataset(tmp_path / "out").to_arrow() == report.result.to_arrow()


def test_delimited_text_has_columns_by_position_or_by_its_header(tmp_path):
    sample = {"master": SAMPLE / "master", "feed": SAMPLE / "feed", "config": SAMPLE / "bumu.properties"}

    report = mutator.merge(**sample)

    assert report.result.schema.names == [f"field_{number}" for number in range(6)]
    assert set(report.result.schema.types) == {pa.string()}
    assert "VR8NCNE7DV,tablet,samsung,279,82,1427759321" in {
        ",".join(row.values()) for row in report.result.to_arrow().to_pylist()
    }
    for name in ("m.txt", "f.txt"):
        (tmp_path / name).write_text("id;ts\n1;1\n")
    files = {"master": tmp_path / "m.txt", "feed": tmp_path / "f.txt"}
    named = mutator.merge(**files, key=0, order_by=1, delimiter=";", header=1)
    assert named.result.to_arrow().to_pylist() == [{"id": "1", "ts": "1"}]


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("1,1,\r\n2,2,x\ry\n", {}, [["1", "1", ""], ["2", "2", "x\ry"]]),
        ("1::1::a\n2::2::\n", {"delimiter": "::"}, [["1", "1", "a"], ["2", "2", ""]]),
        ("1,1\n2,2,x\n", {"field_count": "any"}, [["1", "1", None], ["2", "2", "x"]]),
        ("1 1\n2  2\n", {"delimiter": " +", "field_delim": " "}, [["1", "1"], ["2", "2"]]),
    ],
)
def test_rows_of_text_are_cut_as_the_merge_cuts_them(tmp_path, text, more, expected):
    (tmp_path / "m.txt").write_bytes(text.encode())
    (tmp_path / "none.txt").write_bytes(b"")

    report = mutator.merge(master=tmp_path / "m.txt", feed=tmp_path / "none.txt", key=0, order_by=1, **more)

    assert sorted(list(row.values()) for row in report.result.to_arrow().to_pylist()) == expected


def test_text_that_is_not_utf_8_is_named(tmp_path):
    (tmp_path / "m.txt").write_bytes(b"1,1,\xff\n")
    (tmp_path / "f.txt").write_bytes(b"")
    report = mutator.merge(master=tmp_path / "m.txt", feed=tmp_path / "f.txt", key=0, order_by=1)

    with pytest.raises(mutator.DataError, match=r"field field_2 is not UTF-8, .* report\.result\.files"):
        report.result.to_arrow()


def test_only_what_the_manifest_lists_is_read(tmp_path):
    report = mutator.merge(master=table(), feed=table(), output=tmp_path / "out", key="id", order_by="ts")
    (tmp_path / "out" / "other.parquet").write_bytes(b"x")

    with pytest.raises(mutator.StateError, match="other"):
        report.result.to_arrow()
    with pytest.raises(mutator.ConfigError, match="is not a dataset"):
        mutator.Dataset(tmp_path).to_arrow()


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_partitioned_result_is_read(tmp_path, in_memory):
    master = pa.table({"id": [1, 2, 3], "shop": ["a", "b", "b"], "ts": [1, 1, 1]})
    output = None if in_memory else tmp_path / "out"
    feed = master.slice(1, 1)
    settings = {"key": ["id", "shop"], "order_by": "ts", "partitioned_by": "shop"}

    report = mutator.merge(master=master, feed=feed, output=output, **settings)

    expected = sorted(map(tuple, map(dict.values, master.to_pylist())))
    assert sorted(map(tuple, map(dict.values, report.result.to_arrow().to_pylist()))) == expected
    if not in_memory:
        (tmp_path / "out" / "shop=a" / "other.parquet").write_bytes(b"x")
        with pytest.raises(mutator.StateError, match="other"):
            mutator.Dataset(tmp_path / "out").to_arrow()


def test_a_file_that_differs_from_the_manifest_is_named(tmp_path):
    report = mutator.merge(master=table(), feed=table(), output=tmp_path / "out", key="id", order_by="ts")
    with open(report.result.files[0], "r+b") as file:
        file.seek(10)
        file.write(b"\xff\xff")

    with pytest.raises(mutator.StateError, match="checksum"):
        report.result.to_arrow()


def test_a_dry_run_has_no_result():
    report = mutator.merge(master=table(), feed=table(), key="id", order_by="ts", dry_run=True)

    with pytest.raises(mutator.ConfigError, match="this was a dry run, which writes no rows"):
        _ = report.result


REJECTED = {
    "id": [1, None, 3],
    "ts": [dt.datetime(2026, 1, 2, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, tzinfo=dt.UTC), None],
}


def rejecting(tmp_path, **more):
    given = {"master": table(), "feed": pa.table(REJECTED), "reject_policy": "quarantine", "max_reject_fraction": 1}
    return mutator.merge(**given, key="id", order_by="ts", removed_fields="name,price,rate,day", **more)


@pytest.mark.parametrize("in_memory", [True, False])
def test_rejects_are_rows_with_their_file_position_and_reason(tmp_path, in_memory):
    report = rejecting(tmp_path, **({} if in_memory else {"output": tmp_path / "out"}))

    found = report.rejects.to_arrow().to_pylist()

    label = "feed (Arrow table)"
    assert [(row["file"], row["offset"], row["reason"]) for row in found] == [
        (label, 1, "field id is NULL"),
        (label, 2, "field ts (order value) is NULL"),
    ]
    assert json.loads(found[0]["row"])["ts"].startswith("2026-01-02")
    assert [(row["path"], row["place"]) for row in report.rejects["feed"]] == [(label, "row 2"), (label, "row 3")]
    assert list(report.rejects) == ["feed"]
    assert len(report.rejects.to_pandas()) == report.rejects.to_polars().height == 2
    assert "mutator-tasks" not in f"{report}{report.json()}{report._repr_html_()}{found}"


def test_a_dry_run_has_its_first_rejects(tmp_path):
    report = rejecting(tmp_path, dry_run=True)

    assert report.rejects.to_arrow()["reason"].to_pylist() == ["field id is NULL", "field ts (order value) is NULL"]


def test_rejected_rows_of_csv_may_have_several_lines(tmp_path):
    (tmp_path / "m.csv").write_text("id,ts,name\n1,1,a\n")
    (tmp_path / "f.csv").write_text('id,ts,name\n1,x,"a\nb"\n2,2,b\n3,y,c\n')

    report = mutator.merge(
        master=tmp_path / "m.csv",
        feed=tmp_path / "f.csv",
        key="id",
        order_by="ts",
        header=True,
        reject_policy="quarantine",
        max_reject_fraction=1,
    )

    assert [row["row"] for row in report.rejects.to_arrow().to_pylist()] == [b'1,x,"a\nb"', b"3,y,c"]


def test_a_report_is_shown_as_text_and_as_html():
    feed = pa.table({"id": [1, 5], "ts": [2, 2], "name": ["x", "y"]})
    report = mutator.merge(master=pa.table({"id": [1], "ts": [1], "name": ["a"]}), feed=feed, key="id", order_by="ts")

    assert str(report).startswith(f"run {report.run}\n  master master (Arrow table)\n")
    html = report._repr_html_()
    assert "inserted" in html
    assert "superseded" not in html  # a count of 0


def test_html_is_escaped(tmp_path):
    place = tmp_path / "<b>"
    place.mkdir()
    (place / "m.txt").write_text("1,1\n")
    (place / "f.txt").write_text("1,1\n")

    report = mutator.merge(master=place / "m.txt", feed=place / "f.txt", key=0, order_by=1, output=tmp_path / "<i>")

    assert "<b>" not in report._repr_html_()
    assert "&lt;b&gt;" in report._repr_html_()
    assert "<i>" not in report._repr_html_()


def test_warnings_are_shown():
    feed = pa.table({"id": [1], "ts": [2], "op": ["delete"]})
    report = mutator.merge(
        master=pa.table({"id": [1], "ts": [1]}),
        feed=feed,
        key="id",
        order_by="ts",
        op="op",
        delete_codes="delete",
        deleted_record_file_prefix="del_",
        max_delete_fraction=1,
    )

    assert report.warnings
    assert "\nwarning: " in str(report)
    assert "warning: " in report._repr_html_()


def test_a_report_shows_no_password(tmp_path):
    base = f"{tmp_path}/x://me:secret@host"  # a local path, and an address by its form
    directory = tmp_path / "x:" / "me:secret@host"
    for name, content in {
        "master/_note": "",
        "master/m.txt": "1,1\n",
        "feed/.hidden": "",
        "feed/f.txt": "x\n2,2\n",
    }.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(content)

    report = mutator.merge(
        master=f"{base}/master",
        feed=f"{base}/feed",
        output=f"{base}/out",
        key=0,
        order_by=1,
        reject_policy="quarantine",
        field_count=2,
    )

    assert (directory / "out" / "_mutator").is_dir()
    assert report.output.endswith("x://me:***@host/out")
    for shown in (str(report), report.json(), report._repr_html_(), repr(report), repr(report.result)):
        assert "me:secret@" not in shown.replace("x:/me:secret@host", "")
    assert report.rejects.to_arrow()["row"].to_pylist() == [b"x"]
    assert report.result.num_rows == 2


def test_rows_as_lists_of_mappings():
    master = pa.table({"id": [1], "ts": [1], "tags": [["x"]]})
    feed = pa.table({"id": [2, None], "ts": [2, 2], "tags": [None, ["y"]]})

    report = mutator.merge(master=master, feed=feed, key="id", order_by="ts", reject_policy="quarantine")

    found = sorted(report.result.to_pylist(), key=lambda row: row["id"])
    assert found == [{"id": 1, "ts": 1, "tags": ["x"]}, {"id": 2, "ts": 2, "tags": None}]
    assert report.rejects.to_pylist() == report.rejects.to_arrow().to_pylist()
    assert len(report.rejects.to_pylist()) == 1


@pytest.mark.parametrize("delimiter", [";", "::", "[;]"])
def test_rows_of_any_width_have_the_columns_of_the_widest(tmp_path, delimiter):
    mark = ";" if delimiter == "[;]" else delimiter
    for name, lines in {"m.txt": ["1;1", "2;1;a;b;c"], "f_1.txt": ["3;2;x", "4;2"]}.items():
        (tmp_path / name).write_text("".join(f"{line.replace(';', mark)}\n" for line in lines))
    given = {"key": 0, "order_by": 1, "delimiter": delimiter, "field_count": "any"}

    report = mutator.merge(master=tmp_path / "m.txt", feed=tmp_path / "f_1.txt", num_reducer=1, **given)

    assert report.result.schema.names == [f"field_{number}" for number in range(5)]
    assert sorted(tuple(row.values()) for row in report.result.to_pylist()) == [
        ("1", "1", None, None, None),
        ("2", "1", "a", "b", "c"),
        ("3", "2", "x", None, None),
        ("4", "2", None, None, None),
    ]


def test_the_result_has_the_rows_that_a_merge_changed():
    master = pa.table({"id": [1, 2], "at": [1, 1], "price": [5, 6]})
    feed = pa.table({"id": [1, 3], "at": [2, 2], "price": [7, 8]})

    changes = mutator.merge(master=master, feed=feed, key="id", order_by="at", changes=True).result.changes()

    rows = zip(*(changes.column(name).to_pylist() for name in ("_change_type", "id", "price")), strict=True)
    assert sorted(rows) == [("insert", 3, 8), ("update_postimage", 1, 7), ("update_preimage", 1, 5)]
