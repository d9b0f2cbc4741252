"""Ties between rows of files with named fields, and values that must stay with their own row."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator.dataset.side_columns import read_sides
from mutator.errors import DataError
from mutator.rules.order_columns import SEQUENCES
from tests.support.named_runs import ENGINES, TYPED, Work


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", ["csv", *TYPED])
def test_order_of_files_does_not_decide_between_equal_names(file_format, engine, tmp_path):
    results = []
    for turn, codes in enumerate(["UD", "DU"]):
        work = Work(tmp_path / str(turn), engine)
        work.put("master/m", pa.table({"id": ["b"], "at": pa.array([1])}), file_format)
        for number, code in enumerate(codes):
            row = {"id": ["a"], "at": pa.array([1]), "op": [code]}
            work.put(f"feed/{number}/f_1", pa.table(row), file_format)
        report = work.run({"op.code.field.ordinal": "op"}, feed="feed/*")
        results.append((report.counts["feed inserted"], report.counts["feed delete of unknown"]))

    assert results[0] == results[1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("buckets", ["2", "7"])
def test_equal_rows_of_equal_names_are_those_of_the_last_file(engine, buckets, tmp_path):
    work = Work(tmp_path, engine)
    row = pa.table({"id": ["a"], "at": pa.array([1])})
    for number in range(3):
        work.put(f"feed/{number}/f_1", row, "csv")
    work.put("master/m", row.slice(1), "csv")
    report = work.run({"num.reducer": buckets, "split.bytes": "1"}, feed="feed/*")

    outcomes = [file["outcomes"] for file in report.feed_files]
    assert [one["superseded"] for one in outcomes] == [1, 1, 0]
    assert [one["inserted"] for one in outcomes] == [0, 0, 1]


@pytest.mark.parametrize("file_format", TYPED)
def test_a_field_may_have_any_name(file_format, tmp_path):
    for engine in ENGINES:
        work = Work(tmp_path / engine, engine)
        for place in ("master/m", "feed/f_1"):
            work.put(place, pa.table({"id": ["a", "b"], "at": pa.array([1, 1]), "delete": ["x", "y"]}), file_format)

        assert work.run().counts["feed no-op"] == 2


@pytest.mark.parametrize("file_format", TYPED)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_delete_of_a_float_order_is_honoured_across_widths(file_format, engine, tmp_path):
    """The 32-bit float 0.1 is 0.10000000149 as a double."""
    work = Work(tmp_path, engine, {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at"})
    settings = {"deleted.record.file.prefix": "del"}
    work.put("master/m", pa.table({"id": ["b"], "at": pa.array([0.0])}), file_format)
    work.put("feed1/del_1", pa.table({"id": ["a"], "at": pa.array([0.1], pa.float32())}), file_format)
    work.put("feed2/f_2", pa.table({"id": ["a"], "at": pa.array([0.1000000005])}), file_format)
    work.run(settings, feed="feed1")
    report = work.run(settings, master="out1", feed="feed2")

    assert report.counts["feed late"] == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_master_row_that_the_run_cannot_convert_does_not_shift_the_others(engine, tmp_path):
    work = Work(tmp_path, engine, {"id.field.ordinals": "id"})
    far = pa.array([0, 0, 32_503_680_000_000], pa.timestamp("ms"))
    work.put("master/m_1", pa.table({"id": ["a", "b", "c"], "when": far}), "parquet")
    work.put("feed1/f_5", pa.table({"id": ["b"], "when": far.slice(0, 1)}), "parquet")
    work.run({"num.reducer": "1"}, feed="feed1")
    work.put("feed2/f_6", pa.table({"id": ["d"], "when": far.slice(0, 1).cast(pa.timestamp("ns"))}), "parquet")
    settings = {"num.reducer": "1", "master.reject.policy": "quarantine"}
    if engine == "blocks":  # the rows of a managed master must be valid
        with pytest.raises(DataError, match=r"field when does not fit into timestamp\[ns\]"):
            work.run(settings, master="out1", feed="feed2")
        return
    work.run(settings, master="out1", feed="feed2")
    (path,) = (work.path / "out2" / "_mutator" / "order").iterdir()
    with path.open("rb") as stream:
        assert read_sides(stream, SEQUENCES).field(0).to_pylist() == [1, 5, 6]


@pytest.mark.parametrize("field", ["id", "at"])
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_a_time_beyond_the_calendar_is_a_reject(file_format, field, tmp_path):
    for engine in ENGINES:
        work = Work(tmp_path / engine, engine)
        times = pa.array([0, 1_000_000_000_000_000], pa.timestamp("ms", "UTC"))
        for place, rows in (("master/m", times.slice(0, 1)), ("feed/f_1", times)):
            other = pa.array(range(len(rows)), pa.int64())
            work.put(
                place,
                pa.table({"id": rows if field == "id" else other, "at": rows if field == "at" else other}),
                file_format,
            )
        report = work.run({"reject.policy": "quarantine"})

        assert [row["reason"].rpartition(") ")[2] for row in report.rejects["feed"]] == [
            "is not in the years 1 to 9999"
        ]


def test_the_newest_file_of_a_master_gives_its_fields_where_there_is_no_feed(tmp_path):
    work = Work(tmp_path)
    work.put("master/m_1", pa.table({"id": ["a"], "at": pa.array([1])}), "parquet")
    work.put("master/m_2", pa.table({"id": ["b"], "at": pa.array([1]), "c": ["kept"]}), "parquet")
    (tmp_path / "feed").mkdir()
    work.run()

    assert sorted(work.rows(), key=str) == [{"id": "a", "at": 1, "c": None}, {"id": "b", "at": 1, "c": "kept"}]


def test_an_avro_master_keeps_its_types_beside_csv(tmp_path):
    work = Work(tmp_path)
    fields = [{"name": "id", "type": "string"}, {"name": "at", "type": "long", "doc": "when"}]
    fields.append({"name": "n", "type": "int", "default": 7})
    schema = {"type": "record", "name": "order", "namespace": "shop", "doc": "kept", "fields": fields}
    work.put_avro("master/m", schema, [{"id": "a", "at": 1, "n": 2}])
    work.put("feed/f_1.csv", b"id,at,n\nb,2,3\n")
    work.run()
    known = work.manifest

    assert {name: known.spec["schema"][name] for name in ("name", "namespace", "doc")} == {
        "name": "order",
        "namespace": "shop",
        "doc": "kept",
    }
    assert [one["type"] for one in known.spec["schema"]["fields"]][:1] == ["string"]


def test_a_parquet_footer_that_contradicts_itself(tmp_path):
    """One flipped bit turns a row group of 20 rows into one of 16; the footer also has the number of all rows."""
    work = Work(tmp_path)
    table = pa.table({"id": [f"k{number}" for number in range(60)], "at": pa.array(range(60))})
    work.put("master/m", table.slice(0, 1), "parquet")
    made = io.BytesIO()
    pq.write_table(table, made, row_group_size=20)
    content = made.getvalue()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    places = [place for place in range(start, len(content) - 8) if content[place] == 2 * 20]  # 20 in Thrift
    flipped = (bytes([*content[:place], 2 * 16, *content[place + 1 :]]) for place in places)
    wrong = next(one for one in flipped if groups_of(one) == [16, 20, 20])
    work.put("feed/f_1.parquet", wrong)

    with pytest.raises(DataError, match=r"f_1.parquet: .*its footer contradicts itself"):
        work.run()
    work.put("feed/f_1.parquet.ctl", b"rows=60")
    with pytest.raises(DataError, match=r"f_1.parquet: .*its footer contradicts itself"):
        work.run({"feed.control.suffix": ".ctl"})


def groups_of(content):
    try:
        metadata = pq.ParquetFile(io.BytesIO(content)).metadata
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    except (pa.ArrowException, OSError):
        return []
