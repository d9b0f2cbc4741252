"""Tables in memory as masters and feeds: every library, mixed with paths, and without a trace of their partitioning."""

from __future__ import annotations

import datetime as dt
import gc
import os
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutator
from mutator.frames.scratch import Scratch

BASE = {"key": "id", "order_by": "ts", "op": "op", "max_delete_fraction": 1}
MASTER = {"id": [1, 2, 3], "name": ["a", "b", "c"], "ts": [1, 1, 1]}
FEED = {"id": [2, 3, 4], "name": ["B", "c", "d"], "ts": [2, 2, 2], "op": ["U", "D", "I"]}
MERGED = [(1, "a", 1), (2, "B", 2), (4, "d", 2)]


class Stream:
    """Any table of a library that nobody knows."""

    def __init__(self, columns):
        self._table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "table": pa.table,
    "batch": lambda columns: pa.RecordBatch.from_pydict(columns),
    "reader": lambda columns: pa.table(columns).to_reader(max_chunksize=1),
    "stream": Stream,
}


def rows(report):
    return sorted(zip(*report.result.to_arrow().to_pydict().values(), strict=True))


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_of_every_library_are_merged(library):
    table = LIBRARIES[library]

    report = mutator.merge(master=table(MASTER), feed=table(FEED), **BASE)

    assert rows(report) == MERGED
    assert report.counts["feed inserted"] == report.counts["feed updated"] == report.counts["feed deleted"] == 1


def test_tables_are_mixed_with_paths(tmp_path):
    pq.write_table(pa.table(MASTER), tmp_path / "master.parquet")
    pq.write_table(pa.table({"id": [1], "name": ["A"], "ts": [5], "op": ["U"]}), tmp_path / "ups_1.parquet")

    report = mutator.merge(
        master=tmp_path / "master.parquet",
        feed=[tmp_path / "ups_1.parquet", pd.DataFrame(FEED), str(tmp_path / "ups_1.parquet")],
        output=tmp_path / "out",
        **BASE,
    )

    assert rows(report) == [(1, "A", 5), *MERGED[1:]]
    assert report.output == str(tmp_path / "out")
    # Files are remembered by name, so that they are not merged twice; a table has none.
    again = mutator.merge(master=tmp_path / "out", feed=[tmp_path / "ups_1.parquet", pd.DataFrame(FEED)], **BASE)
    assert again.consumed == (str(tmp_path / "ups_1.parquet"),)
    assert again.counts["feed rows"] == again.counts["feed no-op"] == 3


def test_a_csv_file_and_a_table_are_one_feed(tmp_path):
    (tmp_path / "ups_1.csv").write_text("id,name,ts,op\n1,A,5,U\n")

    report = mutator.merge(
        master=pa.table(MASTER),
        feed=[tmp_path / "ups_1.csv", pl.DataFrame(FEED)],
        feed_format="csv",
        header=True,
        **BASE,
    )

    assert rows(report) == [(1, "A", 5), *MERGED[1:]]


def test_a_master_may_be_several_tables():
    parts = [pa.table(MASTER).slice(0, 2), pd.DataFrame(MASTER)[2:]]

    assert rows(mutator.merge(master=parts, feed=pa.table(FEED), **BASE)) == MERGED


def test_a_result_is_the_next_master_with_its_tombstones():
    first = mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED), **BASE)
    late = pa.table({"id": [3], "name": ["late"], "ts": [1], "op": ["U"]})

    second = mutator.merge(master=first.result, feed=late, **BASE)

    assert second.join == "aligned"
    assert second.counts["feed late"] == 1
    assert rows(second) == MERGED


@pytest.mark.rest
def test_the_result_lives_as_long_as_it_is_needed():
    report = mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED), **BASE)
    result, path = report.result, report.result.path
    del report
    gc.collect()

    assert os.path.exists(path)
    assert result.to_arrow().num_rows == 3
    del result
    gc.collect()
    assert not os.path.exists(os.path.dirname(path))


@pytest.mark.rest
def test_nothing_is_left_of_a_merge_to_a_path_or_that_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()

    mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED), output=tmp_path / "out", **BASE)
    dry = mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED), dry_run=True, **BASE)
    with pytest.raises(mutator.DataError):
        mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED | {"ts": [2, None, 2]}), **BASE)
    gc.collect()

    assert dry.counts["feed inserted"] == 1
    assert list((tmp_path / "tmp").iterdir()) == []


# --- ties, law 3.4

VALUES = ["a", "b", "é", "", None]
MUTATIONS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(VALUES), st.integers(1, 2), st.sampled_from("UD")), max_size=9
)
SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "ts": pa.int64(), "op": pa.string()})


def table_of(mutations):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in mutations], SCHEMA)


def merged(feed, master=None, **more):
    master = pa.table(MASTER) if master is None else master
    report = mutator.merge(master=master, feed=feed, max_duplicate_fraction=1, **{**BASE, **more})
    return set(rows(report)), dict(report.counts)


@given(mutations=MUTATIONS, cut=st.integers(0, 9), order=st.randoms(use_true_random=False))
def test_batches_and_order_of_a_table_decide_nothing(mutations, cut, order):
    expected = merged(table_of(mutations))
    shuffled = list(mutations)
    order.shuffle(shuffled)

    assert merged([table_of(shuffled[:cut]), pl.from_arrow(table_of(shuffled[cut:]))]) == expected
    assert merged(table_of(shuffled).to_reader(max_chunksize=2), engine="records") == expected


@given(mutations=MUTATIONS, order=st.randoms(use_true_random=False))
def test_batches_and_order_of_a_master_decide_nothing(mutations, order):
    master = table_of(mutations).drop_columns(["op"])
    feed = pa.table(FEED)
    expected = merged(feed, master)
    shuffled = list(mutations)
    order.shuffle(shuffled)
    again = table_of(shuffled).drop_columns(["op"])

    assert merged(feed, again) == expected
    assert merged(feed, [again.slice(0, 3), again.slice(3)]) == expected
    assert merged(feed, again, engine="records") == expected


def test_the_highest_bytes_win_a_tie_whatever_the_order():
    tied = pa.table({"id": [9, 9], "name": ["x", "y"], "ts": [7, 7], "op": ["U", "U"]})

    for feed in (tied, tied.take([1, 0]), [tied.slice(0, 1), tied.slice(1)], [tied.slice(1), tied.slice(0, 1)]):
        report = mutator.merge(master=pa.table(MASTER), feed=feed, **BASE)
        assert (9, "y", 7) in rows(report)
        assert report.counts["tied"] == 1


def test_a_file_wins_a_tie_with_a_table(tmp_path):
    pq.write_table(pa.table({"id": [9], "name": ["file"], "ts": [7], "op": ["U"]}), tmp_path / "a.parquet")
    table = pa.table({"id": [9], "name": ["table"], "ts": [7], "op": ["U"]})

    for feed in ([table, tmp_path / "a.parquet"], [tmp_path / "a.parquet", table]):
        assert (9, "file", 7) in rows(mutator.merge(master=pa.table(MASTER), feed=feed, **BASE))


# --- types and the quirks of pandas


def types_of(report):
    return {field.name: field.type for field in report.result.schema}


def test_missing_values_of_pandas_are_null():
    feed = pd.DataFrame(
        {
            "id": [5, 6],
            "name": [np.nan, "f"],
            "ts": [2, 2],
            "op": ["U", "U"],
            "price": [1.5, np.nan],
            "day": pd.to_datetime(["2026-01-31", None]),
        }
    )

    report = mutator.merge(master=pa.table(MASTER), feed=feed, **BASE)

    assert rows(report)[-2:] == [(5, None, 2, 1.5, pd.Timestamp("2026-01-31")), (6, "f", 2, None, None)]


def test_integers_that_a_missing_value_made_floats_are_integers_again():
    feed = pd.DataFrame({"id": [2, None], "name": ["B", "?"], "ts": [2, 2], "op": ["U", "U"]})
    assert feed["id"].dtype == np.float64

    report = mutator.merge(
        master=pa.table(MASTER), feed=feed, reject_policy="quarantine", max_reject_fraction=1, **BASE
    )

    assert types_of(report)["id"] == pa.int64()
    assert (2, "B", 2) in rows(report)
    assert [row["reason"] for row in report.rejects["feed"]] == ["field id is NULL"]
    alone = mutator.merge(
        master=pd.DataFrame({"id": [1.0], "ts": [1]}),
        feed=pd.DataFrame({"id": [2.0], "ts": [2]}),
        key="id",
        order_by="ts",
    )
    assert types_of(alone)["id"] == pa.int64()


@pytest.mark.parametrize("empty", [pd.DataFrame(columns=["id", "name", "ts"]), pd.DataFrame({"id": [], "ts": []})])
def test_a_table_without_rows_has_the_types_of_the_other(empty):
    rows_of = pd.DataFrame({"id": [2, 3], "name": ["B", "c"], "ts": [2, 2]})

    first = mutator.merge(master=empty, feed=rows_of, key="id", order_by="ts")
    nothing = mutator.merge(master=rows_of, feed=empty, key="id", order_by="ts", removed_fields="name")

    assert rows(first) == [(2, "B", 2), (3, "c", 2)]
    assert nothing.counts["output rows"] == 2
    assert types_of(first)["id"] == types_of(nothing)["id"] == pa.int64()


def test_floats_that_are_no_integers_are_named():
    feed = pd.DataFrame({"id": [2.5], "name": ["B"], "ts": [2], "op": ["U"]})

    with pytest.raises(mutator.DataError, match=r"field id is double in feed \(pandas DataFrame\) and int64 in master"):
        mutator.merge(master=pa.table(MASTER), feed=feed, **BASE)


def test_the_types_of_a_master_stay_where_the_values_fit():
    master = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "n": pa.array([7], pa.int16()),
            "ts": pa.array([1], pa.timestamp("us", "UTC")),
            "day": pa.array([1], pa.date32()),
        }
    )
    feed = pd.DataFrame(
        {
            "id": [1, 2],
            "n": [8, 9],
            "ts": pd.to_datetime([5, 6], unit="s", utc=True),
            "day": pd.to_datetime(["2026-01-31"] * 2),
        }
    )
    feed["ts"] = feed["ts"].dt.tz_convert("Europe/Berlin").dt.as_unit("ns")

    report = mutator.merge(master=master, feed=feed, key="id", order_by="ts")

    assert report.result.schema.types == master.schema.types
    assert rows(report)[0][1:] == (8, dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC), dt.date(2026, 1, 31))
    wide = mutator.merge(master=master, feed=feed.assign(n=[1, 1 << 40]), key="id", order_by="ts")
    assert types_of(wide)["n"] == pa.int64()


def test_named_index_levels_are_columns():
    feed = pd.DataFrame(FEED).set_index("id")
    assert rows(mutator.merge(master=pd.DataFrame(MASTER).set_index("id"), feed=feed, **BASE)) == MERGED
    assert rows(mutator.merge(master=pa.table(MASTER), feed=pd.DataFrame(FEED, index=[7, 7, 7]), **BASE)) == MERGED


def test_objects_of_one_type_keep_it():
    feed = pd.DataFrame(
        {
            "id": [5],
            "name": pd.Series(["e"], dtype="category"),
            "ts": [2],
            "op": ["U"],
            "price": [Decimal("1.50")],
            "day": [dt.date(2026, 1, 31)],
            "tags": [["x", "y"]],
        }
    )

    report = mutator.merge(master=pa.table(MASTER), feed=feed, **BASE)

    assert rows(report)[-1] == (5, "e", 2, Decimal("1.50"), dt.date(2026, 1, 31), ["x", "y"])


WRONG_COLUMNS = {
    "mixed": (pd.DataFrame({"id": [1, "x"], "ts": [1, 2]}), "column id has values of several types: int, str"),
    "period": (pd.DataFrame({"id": [1], "ts": pd.period_range("2026", periods=1)}), "column ts has the type period"),
    "levels": (pd.DataFrame({("a", "b"): [1]}), "names of several levels"),
    "index": (pd.DataFrame({"id": [1], "ts": [1]}, index=pd.Index([2], name="id")), "both in the index and among"),
    "twice": (pd.DataFrame([[1, 2]], columns=["id", "id"]), "id is in the schema twice"),
    "none": (pd.DataFrame(), "has no columns"),
    "decimal256": (pa.table({"id": pa.array([1], pa.decimal256(50))}), "id is of type decimal256"),
}


@pytest.mark.parametrize("case", WRONG_COLUMNS)
def test_columns_that_cannot_be_merged_are_named(case):
    feed, message = WRONG_COLUMNS[case]

    with pytest.raises(mutator.DataError, match=message) as fault:
        mutator.merge(master=pa.table(MASTER), feed=feed, key="id", order_by="ts")

    assert str(fault.value).startswith("feed (")
    assert "mutator-tasks" not in str(fault.value)


def test_a_reader_that_breaks_is_named():
    def batches():
        yield pa.record_batch({"id": [1], "ts": [1]})
        raise OSError("connection lost")

    feed = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64(), "ts": pa.int64()}), batches())

    with pytest.raises(mutator.DataError, match=r"feed \(Arrow record batch reader\): reading .* connection lost"):
        mutator.merge(master=pa.table({"id": [1], "ts": [1]}), feed=feed, key="id", order_by="ts")


# --- columns that tables lack

WIDE = pa.table({"id": [1, 2], "t": [1, 1], "v": ["a", "b"]})
UPSERTS = pa.table({"id": [2, 3], "t": [2, 2], "v": ["B", "c"], "op": ["U", "U"]})
DELETES = pa.table({"id": [1], "t": [2], "op": ["D"]})
WIDE_SETTINGS = {"key": "id", "order_by": "t", "op": "op", "delete_codes": "D", "max_delete_fraction": 1}


def by_id(report):
    return sorted(report.result.to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("feed", [[UPSERTS, DELETES], [DELETES, UPSERTS]], ids=["deletes last", "deletes first"])
def test_a_table_of_deletes_takes_no_columns_away(feed):
    report = mutator.merge(master=WIDE, feed=feed, **WIDE_SETTINGS)

    assert by_id(report) == [{"id": 2, "t": 2, "v": "B"}, {"id": 3, "t": 2, "v": "c"}]
    assert report.warnings == ()


@pytest.mark.parametrize("rows_", [DELETES, DELETES.slice(0, 0)], ids=["one delete", "no row"])
def test_a_lone_table_of_deletes_takes_no_columns_away(rows_):
    report = mutator.merge(master=WIDE, feed=rows_, **WIDE_SETTINGS)

    assert report.result.schema.names == ["id", "t", "v"]


@pytest.mark.parametrize("reverse", [False, True])
def test_tables_have_no_age_so_the_result_has_the_fields_of_all(reverse):
    parts = [
        pa.table({"id": [3], "t": [2], "v": ["c"], "op": ["U"]}),
        pa.table({"id": [4], "t": [2], "w": [5], "op": ["U"]}),
    ]
    report = mutator.merge(master=WIDE, feed=parts[::-1] if reverse else parts, **WIDE_SETTINGS)

    none = {"v": None, "w": None}
    assert by_id(report) == [
        {**none, "id": 1, "t": 1, "v": "a"},
        {**none, "id": 2, "t": 1, "v": "b"},
        {**none, "id": 3, "t": 2, "v": "c"},
        {**none, "id": 4, "t": 2, "w": 5},
    ]


@pytest.mark.parametrize("to_table", [pa.table, lambda columns: pa.table(columns).to_pandas()])
def test_a_table_that_lacks_columns_of_the_master_stops_the_run(to_table):
    feed = to_table({"id": [2], "t": [2], "op": ["U"]})

    message = r"^feed \(.*\): lacks field v of the master, as does every other table .* removed_fields=\['v'\]"
    with pytest.raises(mutator.DataError, match=message):
        mutator.merge(master=WIDE, feed=feed, **WIDE_SETTINGS)
    report = mutator.merge(master=WIDE, feed=feed, removed_fields=["v"], **WIDE_SETTINGS)
    assert by_id(report) == [{"id": 1, "t": 1}, {"id": 2, "t": 2}]


@pytest.mark.parametrize("data_type", [pa.struct([]), pa.list_(pa.struct([]))])
def test_a_struct_without_fields_is_refused_with_its_column(data_type):
    feed = pa.table({"id": [2], "t": [2], "s": pa.array([None], data_type)})
    with pytest.raises(
        mutator.DataError, match=r"^feed \(Arrow table\): field s is of type .*, which parquet cannot store"
    ):
        mutator.merge(master=feed.slice(0, 0).select(["id", "t"]), feed=feed, key="id", order_by="t")


@pytest.mark.parametrize("file_format", ["csv", "parquet", "avro", "orc"])
def test_a_file_of_deletes_takes_no_columns_away(tmp_path, file_format):
    from mutator.formats.files.file_format import Dialect
    from mutator.formats.files.file_formats import FILE_FORMATS

    for name, table in {"master": WIDE, "ups_1": UPSERTS, "ups_2": DELETES}.items():
        with open(tmp_path / f"{name}.{file_format}", "wb") as stream:
            writer = FILE_FORMATS[file_format].writer(stream, table.schema, Dialect(b",", b"", True))
            for batch in table.to_batches():
                writer.write(batch)
            writer.close()
    master, *feed = [tmp_path / f"{name}.{file_format}" for name in ("master", "ups_1", "ups_2")]

    for files in (feed, feed[1:]):
        report = mutator.merge(master=master, feed=files, **WIDE_SETTINGS)
        assert report.result.schema.names == ["id", "t", "v"]
        assert report.warnings == ()


# --- columns without values


TYPES = [pa.int32(), pa.string(), pa.date32(), pa.timestamp("us", "UTC"), pa.decimal128(9, 2), pa.bool_()]


@pytest.mark.thorough(keep=7)
@pytest.mark.parametrize("data_type", TYPES, ids=str)
@pytest.mark.parametrize("missing", [np.nan, None, pd.NaT], ids=["NaN", "None", "NaT"])
def test_a_column_without_values_fits_every_type(data_type, missing):
    master = pa.table({"id": [1], "t": [1], "v": pa.nulls(1, data_type)})
    feed = pd.DataFrame({"id": [1, 2], "t": [2, 2], "v": [missing, missing]})

    for tables in ({"master": master, "feed": feed}, {"master": feed, "feed": master}):
        report = mutator.merge(**tables, key="id", order_by="t")
        assert [row["v"] for row in by_id(report)] == [None, None]
    typed = pa.table({"id": [1], "t": [1], "v": pa.array([1], pa.int32()).cast(pa.int64())})
    report = mutator.merge(master=typed, feed=feed, key="id", order_by="t")
    assert types_of(report)["v"] == pa.int64()


@pytest.mark.parametrize("empty", [{"columns": ["id", "t", "v"]}, {"columns": ["id", "t", "v"], "dtype": "float64"}])
def test_an_empty_frame_is_a_master_and_a_feed(empty):
    table = pa.table({"id": ["a"], "t": [dt.date(2026, 1, 31)], "v": [7]})

    for master, feed in ((pd.DataFrame(**empty), table), (table, pd.DataFrame(**empty))):
        report = mutator.merge(master=master, feed=feed, key="id", order_by="t")
        assert report.result.to_arrow().to_pylist() == table.to_pylist()
        assert report.result.schema.types == table.schema.types


def test_a_column_without_values_takes_the_type_of_a_table_with_values():
    parts = [pa.table({"id": [number], "t": [2], "v": values}) for number, values in enumerate(
        [pa.nulls(1, pa.float64()), pa.nulls(1, pa.int64()), pa.array(["x"]), pa.nulls(1)]
    )]  # fmt: skip

    report = mutator.merge(master=pa.table({"id": [9], "t": [1]}), feed=parts, key="id", order_by="t")
    assert types_of(report)["v"] == pa.string()


# --- values and streams that would be lost

DAY, TIME = dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 9, tzinfo=dt.UTC).replace(tzinfo=None)
MIXED = {
    "date first": ([DAY, TIME], "column t has values of several types: date, datetime"),
    "time first": ([TIME, DAY], "column t has values of several types: date, datetime"),
    "zone first": ([TIME.replace(tzinfo=dt.UTC), TIME], "column t has times with and without a zone"),
    "zone last": ([TIME, TIME.replace(tzinfo=dt.UTC)], "column t has times with and without a zone"),
}


@pytest.mark.parametrize("case", MIXED)
def test_dates_and_times_in_one_column_are_refused(case):
    values, message = MIXED[case]
    feed = pd.DataFrame({"id": [1, 1], "t": pd.Series(values, dtype=object)})

    with pytest.raises(mutator.DataError, match=message):
        mutator.merge(master=feed[:1], feed=feed, key="id", order_by="t")


def test_a_reader_is_read_only_once():
    def reader():
        return pa.table(FEED).to_reader()

    used = reader()
    mutator.merge(master=pa.table(MASTER), feed=used, **BASE)
    twice = reader()
    for feed in (used, [twice, twice]):
        with pytest.raises(mutator.DataError, match="was read before, and has no rows left"):
            mutator.merge(master=pa.table(MASTER), feed=feed, **BASE)


def test_a_reader_that_something_else_has_read():
    def drained(columns):
        reader = pa.table(columns).to_reader()
        reader.read_all()
        return reader

    with pytest.raises(mutator.DataError, match=r"^master \(Arrow record batch reader\): has no rows.* new reader"):
        mutator.merge(master=drained(MASTER), feed=pa.table(FEED), **BASE)
    report = mutator.merge(master=pa.table(MASTER), feed=[pa.table(FEED), drained(FEED)], **BASE)
    assert rows(report) == MERGED
    (warning,) = report.warnings
    assert warning.startswith("feed[1] (Arrow record batch reader) has no rows; a reader has each row only once")
    empty = pa.table(MASTER).to_reader().schema.empty_table()
    assert mutator.merge(master=empty, feed=pa.table(FEED), **BASE).counts["feed inserted"] == 2


@pytest.mark.parametrize("data_type", [pl.Categorical, pl.Enum(["B", "c", "d"])], ids=["categorical", "enum"])
def test_categories_of_polars_are_text(data_type):
    feed = pl.DataFrame(FEED).with_columns(pl.col("name").cast(data_type))

    assert rows(mutator.merge(master=pa.table(MASTER), feed=feed, **BASE)) == MERGED


def test_a_table_needs_no_control_file():
    report = mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED), feed_control_suffix=".ctl", **BASE)

    assert rows(report) == MERGED


# --- names of fields


def test_a_list_keeps_names_with_commas_and_digits():
    master = pa.table({"a,b": [1, 1], "1": [1, 2], "ts": [1, 1], "a": [7, 8], "b": [7, 8]})
    feed = pa.table({"a,b": [1], "1": [2], "ts": [2], "a": [9], "b": [9]})

    for key in (["a,b", "1"], ("1", "a,b"), [0, 1], {"a,b", "1"}):
        report = mutator.merge(master=master, feed=feed, key=key, order_by="ts")
        assert rows(report) == [(1, 1, 1, 7, 7), (1, 2, 2, 9, 9)]
    by_both = mutator.merge(master=master, feed=feed, key="a,b", order_by="ts")
    assert len(rows(by_both)) == 3


def test_a_column_whose_name_is_a_number():
    master = pa.table({"ts": [1, 1], "0": [1, 2]})
    feed = pa.table({"ts": [2], "0": [2]})

    report = mutator.merge(master=master, feed=feed, key=["0"], order_by=["ts"])
    assert rows(report) == [(1, 1), (2, 2)]
    for key in ("0", 0, [0]):
        with pytest.raises(mutator.ConfigError, match=r"0 may be field 0, .* name in a list: \['ts'\] or \['0'\]"):
            mutator.merge(master=master, feed=feed, key=key, order_by="ts")
    far = [table.rename_columns(["ts", "7"]) for table in (master, feed)]
    assert rows(mutator.merge(master=far[0], feed=far[1], key="7", order_by="ts")) == [(1, 1), (2, 2)]


def test_delete_codes_with_commas():
    feed = pa.table(FEED | {"op": ["U", "D,R", "I"]})

    report = mutator.merge(master=pa.table(MASTER), feed=feed, **{**BASE, "delete_codes": ["D,R"]})
    assert rows(report) == MERGED


def test_an_id_by_ordinal_is_an_integer_too():
    master = pd.DataFrame({"id": [1.0, 2.0], "ts": [1, 1]})

    for key in ("id", 0):
        report = mutator.merge(master=master, feed=master.assign(ts=2), key=key, order_by="ts")
        assert types_of(report)["id"] == pa.int64()


# --- temporary files


def test_a_result_in_memory_keeps_no_inputs():
    report = mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED), **BASE)

    assert os.listdir(os.path.dirname(report.result.path)) == ["result"]
    assert rows(report) == MERGED


def test_a_failed_merge_leaves_nothing_while_its_error_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))

    with pytest.raises(mutator.DataError) as fault:
        mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED | {"ts": [2, None, 2]}), **BASE)

    assert os.listdir(tmp_path) == []
    assert fault.value


def test_a_forked_process_leaves_the_result():
    report = mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED), **BASE)
    scratch = report.result._scratch

    child = os.fork()
    if child == 0:
        scratch._finalizer()
        os._exit(0)
    os.waitpid(child, 0)
    assert rows(report) == MERGED


def test_a_mistyped_scratch_directory_is_refused(tmp_path):
    with pytest.raises(mutator.ConfigError, match=r"scratch is .* should be the path of a directory that is there"):
        mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED), scratch=f"{tmp_path}/nodir/sub", **BASE)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("url", ["s3://lake/new/tmp", "s3a://lake/new/tmp"])
def test_a_storage_without_empty_directories_needs_no_scratch_directory(url):
    from mutator.pipeline.arguments import scratch_of

    assert scratch_of(url) == url  # without a request


def test_a_scratch_directory_lives_for_a_block_or_is_kept(tmp_path):
    with Scratch(str(tmp_path)) as scratch:
        assert os.listdir(tmp_path)
    assert not os.listdir(tmp_path)
    with suppress(ZeroDivisionError), Scratch(str(tmp_path)) as scratch:
        scratch.keep_only("none")
        raise ZeroDivisionError
    assert not os.listdir(tmp_path)
    with Scratch(str(tmp_path)) as scratch:
        scratch.keep_only("none")
    assert os.listdir(tmp_path)
    del scratch
    assert not os.listdir(tmp_path)


def test_secrets_and_other_paths_in_names():
    from mutator.pipeline.arguments import GivenArguments, feed_of
    from mutator.pipeline.tables_in_memory import Names

    assert feed_of("sftp://me:secret@host/u_1.txt")[0].label == "sftp://me:***@host/u_1.txt"
    names = Names(None, [GivenArguments("master (mutator.Dataset)", "/data/m")])
    label = "master (mutator.Dataset)"
    assert [*map(names, ("/data/m/a", "/data/m2/a", "/data/m.csv", "/data/m"))] == [
        f"{label}/a",
        "/data/m2/a",
        "/data/m.csv",
        label,
    ]


def test_a_result_is_a_feed(tmp_path):
    first = mutator.merge(master=pa.table(MASTER), feed=pa.table(FEED), **BASE)
    named = {"key": "id", "order_by": "ts"}

    report = mutator.merge(master=pa.table(MASTER), feed=[first.result, pa.table(MASTER)], **named)
    assert report.feed == ("feed[0] (mutator.Dataset in memory)", "feed[1] (Arrow table)")
    assert rows(report) == [*MERGED[:2], (3, "c", 1), MERGED[2]]

    for name, row in {"m.txt": "1,1\n2,1\n", "f.txt": "2,2\n"}.items():
        (tmp_path / name).write_text(row)
    text = mutator.merge(master=tmp_path / "m.txt", feed=tmp_path / "f.txt", output=tmp_path / "o", key=0, order_by=1)
    again = mutator.merge(master=tmp_path / "m.txt", feed=text.result, key=0, order_by=1)
    assert rows(again) == [("1", "1"), ("2", "2")]
    assert all(name.startswith("feed (mutator.Dataset)/part-") for name in again.feed)


@pytest.fixture
def text_result(tmp_path):
    """A dataset of delimited text whose file name ends with a sequence."""
    for name, row in {"m_1.txt": "k|v|1\nk1|old|1\n", "f_7.txt": "k|v|1\nk2|old|2\n"}.items():
        (tmp_path / name).write_text(row)
    paths = {"master": tmp_path / "m_1.txt", "feed": tmp_path / "f_7.txt", "output": tmp_path / "o"}
    return mutator.merge(**paths, key=0, delimiter="|", header=True, header_check=False, reused_names="accept").result


OF_TEXT = {"key": 0, "order_by": 2, "delimiter": "|"}
WRONG_FOR_TEXT = {
    "order by file names": ({"order_by": None}, "has no file name that could order its rows; set order_by"),
    "no delimiter": ({"delimiter": None}, r"the delimiter of its rows is '\|', not ','; set delimiter='\|'"),
    "a header": ({"header": True}, "its files have no header lines, so header=1 would skip rows; leave header out"),
    "another format": ({"feed_format": "csv"}, "its rows are delimited text, not csv; leave out input_format"),
    "an op code": ({"op": 1}, "its rows have no op codes in field 1; merge it alone, without op"),
}


@pytest.mark.parametrize("case", WRONG_FOR_TEXT)
def test_a_text_result_is_no_feed_of_other_settings(tmp_path, text_result, case):
    arguments, message = WRONG_FOR_TEXT[case]
    (tmp_path / "m_9.txt").write_text("k1|new|9\nk2|new|9\n")
    master = tmp_path / "m_9.txt"

    with pytest.raises(mutator.ConfigError, match=rf"feed\[1\] \(mutator.Dataset\): {message}") as caught:
        mutator.merge(master=master, feed=[tmp_path / "f_7.txt", text_result], **{**OF_TEXT, **arguments})
    assert "part-" not in str(caught.value)
    assert rows(mutator.merge(master=master, feed=text_result, **OF_TEXT)) == [("k1", "new", "9"), ("k2", "new", "9")]


@pytest.mark.parametrize("op", ["op", 3])
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_too_many_deletes_name_the_field_of_the_op_code(op, file_format):
    feed = pa.table(FEED | {"id": [1, 2, 3], "op": ["D", "D", "D"]})
    settings = {**BASE, "max_delete_fraction": 0.5, "op": op, "output_format": file_format}

    with pytest.raises(mutator.DataError, match="check that op code D in field op is a delete;"):
        mutator.merge(master=pa.table(MASTER), feed=feed, **settings)


def test_arguments_without_effect_are_named(tmp_path):
    tables = {"master": pa.table(MASTER), "feed": pa.table(FEED)}

    report = mutator.merge(**tables, delimiter=";", header=True, **BASE)
    assert report.warnings == ("delimiter and header are ignored: all inputs are tables",)
    assert mutator.merge(**tables, header=False, **BASE).warnings == ("header is ignored: all inputs are tables",)
    as_text = mutator.merge(**tables, delimiter=";", output=tmp_path / "o", output_format="csv", **BASE)
    assert as_text.warnings == ()
    assert b"id;name;ts" in (tmp_path / "o" / os.path.basename(as_text.result.files[0])).read_bytes()
    (tmp_path / "f.csv").write_text("id;name;ts;op\n9;x;9;U\n")
    mixed = mutator.merge(master=pa.table(MASTER), feed=tmp_path / "f.csv", delimiter=";", header=True, **BASE)
    assert mixed.warnings == ()
    paths = {"master": tmp_path / "o", "feed": tmp_path / "f.csv", "output": tmp_path / "p"}
    (warning,) = mutator.merge(**paths, delimiter=";", header=True, scratch=tmp_path, **BASE).warnings
    assert warning.startswith("scratch is ignored: all inputs and the output are paths")


@pytest.mark.parametrize("is_frame", [True, False])
@pytest.mark.parametrize(("old", "new", "made"), [(1.5, 3, "float64"), (2, 3.5, "float64"), (2.0, 3, None)])
def test_whole_numbers_of_one_table_beside_floats_of_another(old, new, made, is_frame):
    master, feed = (
        {"id": [1, number], "at": [at, at], "v": [value] * 2} for number, at, value in ((2, 1, old), (3, 2, new))
    )
    if made is None and not is_frame:
        return  # only pandas makes floats of whole numbers
    of = pd.DataFrame if is_frame else pa.table
    report = mutator.merge(master=of(master), feed=of(feed), key="id", order_by="at")
    found = report.result.to_pandas()
    assert str(found["v"].dtype) == (made or "int64")
    assert dict(zip(found["id"], found["v"], strict=True)) == {1: new, 2: old, 3: new}
