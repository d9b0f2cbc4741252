"""Spark, DuckDB, pyarrow and fastavro read the files of mutator, and mutator reads theirs; no value changes.

One table with a field of every common type goes through a merge. spark-avro is not installed, so fastavro both writes
and reads Avro.
"""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from mutator.cli import main
from tests.support.columns_data import file_of
from tests.support.named_runs import ENGINES, Work

FIELDS = [
    ("id", pa.int32()),
    ("at", pa.int64()),
    ("flag", pa.bool_()),
    ("ratio", pa.float64()),
    ("part", pa.float32()),
    ("name", pa.string()),
    ("raw", pa.binary()),
    ("day", pa.date32()),
    ("price", pa.decimal128(9, 2)),
    ("much", pa.decimal128(38, 10)),
    ("seen", pa.timestamp("us", "UTC")),
    ("local", pa.timestamp("us")),
    ("tags", pa.list_(pa.string())),
    ("sizes", pa.map_(pa.string(), pa.int64())),
    ("place", pa.struct([("city", pa.string()), ("codes", pa.list_(pa.int32()))])),
]
SCHEMA = pa.schema(FIELDS)


def row(number, at):
    """Return a row whose values expose every loss."""
    return {
        "id": number,
        "at": at,
        "flag": number % 2 == 0,
        "ratio": 0.1 * number,
        "part": 0.5,
        "name": f"é {at}",
        "raw": b"\x00\xff",
        "day": date(1969, 12, 31),
        "price": Decimal("-1234567.89"),
        "much": Decimal("1234567890123456789012345678.0123456789"),
        "seen": datetime(2026, 1, 31, 23, 59, 59, 123456, UTC),
        "local": datetime(1965, 7, 1, 1, 2, 3, 4),  # noqa: DTZ001  # local is what it is
        "tags": ["a", None, ""],
        "sizes": [("x", 1), ("y", None)],
        "place": {"city": None, "codes": [1, 2]},
    }


def empty(number, at):
    return {**dict.fromkeys(SCHEMA.names), "id": number, "at": at}


MASTER = [row(1, 1), row(2, 1), empty(3, 1)]
FEED = [row(2, 2), empty(1, 2), row(4, 1)]
EXPECTED = [empty(1, 2), row(2, 2), empty(3, 1), row(4, 1)]


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


def plain(rows):
    """Make rows of different readers comparable: times as UTC, maps as pairs, bytes as bytes."""
    return sorted(({name: _plain(name, value) for name, value in row.items()} for row in rows), key=lambda r: r["id"])


def _plain(name, value):
    if name == "seen" and value is not None:
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if name == "sizes" and value is not None:
        return sorted(value.items() if isinstance(value, dict) else value)
    if name == "raw" and value is not None:
        return bytes(value)
    return value


@pytest.fixture
def spark(sc):
    session = SparkSession(sc)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def duck_rows(path):
    """Read a Parquet file with DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table().to_pylist()


def spark_rows(frame):
    """Collect Spark rows as Arrow, which ignores the driver's time zone."""
    return frame.toArrow().to_pylist()


def merged(work, file_format, feed_format=None):
    work.put("master/m", table(MASTER), file_format)
    work.put("feed/f_1", table(FEED), feed_format or file_format)
    work.run()
    return work


@pytest.mark.rest
def test_our_parquet_is_read_by_all(spark, tmp_path):
    work = merged(Work(tmp_path), "parquet")
    names = [str(path) for path in work.files]

    assert len(names) == 2, "both buckets have rows"
    assert plain(spark_rows(spark.read.parquet(*names))) == plain(EXPECTED)
    assert plain(one for name in names for one in duck_rows(name)) == plain(EXPECTED)
    assert plain(one for name in names for one in pq.read_table(name).to_pylist()) == plain(EXPECTED)
    for name in names:
        assert [one.type for one in pq.ParquetFile(name).schema_arrow] == SCHEMA.types


def test_our_parquet_has_statistics_and_checksums(tmp_path):
    work = merged(Work(tmp_path), "parquet")
    for path in work.files:
        group = pq.ParquetFile(path).metadata.row_group(0)
        column = group.column(1)
        assert column.path_in_schema == "at"
        assert column.statistics.has_min_max
        assert column.statistics.null_count == 0
        content = bytearray(path.read_bytes())
        content[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 1] ^= 1
        with pytest.raises(OSError, match=r"CRC|checksum"):
            pq.ParquetFile(io.BytesIO(bytes(content)), page_checksum_verification=True).read(columns=["at"])


@pytest.mark.thorough(keep=0)
def test_our_orc_is_read_by_spark_and_arrow(spark, tmp_path):
    work = merged(Work(tmp_path), "orc")
    names = [str(path) for path in work.files]
    assert plain(one for name in names for one in orc.read_table(name).to_pylist()) == plain(EXPECTED)

    # Java cannot read Arrow's fractions of a second before 1970: the test uses later times, and whole seconds.
    work, whole_second = Work(tmp_path / "whole"), datetime(1965, 7, 1, 1, 2, 3)  # noqa: DTZ001
    rows = [[{**one, "local": one["local"] and whole_second} for one in side] for side in (MASTER, FEED)]
    work.put("master/m", table(rows[0]), "orc")
    work.put("feed/f_1", table(rows[1]), "orc")
    work.run()
    found = plain(spark_rows(spark.read.orc([str(path) for path in work.files])))
    # To Spark, ORC's timestamp is an instant: with UTC as the zone, both readers see the same numbers.
    for one in found:
        one["local"] = one["local"] and one["local"].replace(tzinfo=None)
    assert found == plain(work.rows())


def test_orc_of_a_slice_has_the_nulls_of_the_slice():
    """Arrow's own writer takes the nulls from the start of the sliced array."""
    data_type = pa.struct(
        [("deep", pa.struct([("n", pa.bool_())])), ("list", pa.list_(pa.struct([("n", pa.int64())])))]
    )
    values = [None, None, {"deep": None, "list": None}, {"deep": {"n": None}, "list": [None, {"n": None}]}] * 3
    source = pa.table({"v": pa.array(values, data_type)})
    for rows in (1, 2, 3, 5):
        content = file_of("orc", source, rows=rows)
        assert orc.ORCFile(io.BytesIO(content)).read()["v"].to_pylist() == values


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
def test_our_avro_is_read_by_fastavro(codec, tmp_path):
    work = Work(tmp_path)
    work.settings["output.codec"] = codec
    merged(work, "avro", "parquet")
    found, codecs = [], set()
    for path in work.files:
        with path.open("rb") as stream:
            reader = fastavro.reader(stream)
            codecs.add(reader.codec)
            found += list(reader)

    assert plain(found) == plain(EXPECTED)
    assert codecs == {{"none": "null", "gzip": "deflate", "zstd": "zstandard"}.get(codec, codec)}


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_avro_of_fastavro_is_read(codec, engine, tmp_path):
    work = Work(tmp_path, engine)
    schema = {
        "type": "record",
        "name": "Sale",
        "namespace": "org.shop",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "seen", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {
                "name": "fixed",
                "type": {
                    "type": "fixed",
                    "name": "F",
                    "size": 8,
                    "logicalType": "decimal",
                    "precision": 15,
                    "scale": 3,
                },
            },
            {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "other", "type": ["null", "org.shop.Kind"]},
            {"name": "many", "type": {"type": "array", "items": ["null", "Kind"]}},
        ],
    }
    rows = [
        {
            "id": number,
            "at": datetime(2026, 1, 1, number, tzinfo=UTC),
            "seen": None if number % 2 else datetime(2026, 1, 1, 5, 6, 7, 8),  # noqa: DTZ001
            "day": date(2026, 1, number),
            "price": Decimal("-12.30"),
            "fixed": Decimal("-1.005"),
            "token": "3a345678-1234-5678-1234-567812345678",
            "kind": "B",
            "other": "A" if number % 2 else None,
            "many": ["A", None],
        }
        for number in range(1, 6)
    ]
    work.put_avro("master/m", schema, rows[:3], codec)
    work.put_avro("feed/f_1", schema, rows[2:], codec)
    report = work.run()
    again = work.put_avro("again", schema, rows, codec)
    with again.open("rb") as stream:
        expected = list(fastavro.reader(stream))

    assert work.rows() == sorted(expected, key=repr)
    assert (report.counts["feed no-op"], report.counts["feed inserted"]) == (1, 2)


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_files_of_spark_are_read(spark, file_format, tmp_path):
    work = Work(tmp_path, settings={"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at"})
    source = tmp_path / "source.parquet"
    for place, rows in (("master", MASTER), ("feed", FEED)):
        pq.write_table(table(rows), source, coerce_timestamps="us")
        frame = spark.read.parquet(str(source))
        getattr(frame.repartition(2).write, file_format)(str(tmp_path / place))
    work.run()
    found = plain(work.rows())
    if file_format == "orc":  # Spark then writes times without a zone as numbers
        for one in found:
            one["local"] = None if one["local"] is None else datetime(1970, 1, 1) + timedelta(microseconds=one["local"])  # noqa: DTZ001
    assert found == plain(EXPECTED)


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("runner", ["local", "spark"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "csv"])
def test_a_lake_of_spark_is_merged_as_spark_has_it(spark, file_format, runner, tmp_path):
    columns = "id string, note string, at string, day date, shop string"
    days = date(2026, 1, 1), date(2026, 1, 2)
    rows = [("1", "a", "1", days[0], "EU"), ("2", "b", "1", days[0], "a/b =%20:ä"), ("3", "c", "1", None, None)]
    fed = [("1", "a2", "2", days[1], "EU"), ("4", "d", "2", days[1], "a/b =%20:ä")]
    for place, some in (("lake", rows), ("feed", fed)):
        frame = spark.createDataFrame(some, columns)
        frame.write.partitionBy("day", "shop").format(file_format).option("header", True).save(str(tmp_path / place))
    settings = ["--key", "id", "--order-by", "at", "--partitioned-by", "day,shop", "--runner", runner, "--quiet"]
    settings += ["-D", "order_type=long", *(["--header", "true"] if file_format == "csv" else [])]
    out = str(tmp_path / "out")
    paths = ["--master", str(tmp_path / "lake"), "--feed", str(tmp_path / "feed"), "--output", out]
    assert main(["run", *paths, *settings]) == 0
    found = spark.read.format(file_format).option("header", True).load(out)
    assert found.schema["day"].dataType.typeName() == "date"
    assert sorted(map(tuple, found.select("id", "note", "at", "day", "shop").collect())) == [fed[0], *rows[1:], fed[1]]


@pytest.mark.rest
@pytest.mark.parametrize("form", ["INT96", "TIMESTAMP_MICROS"])
def test_instants_of_spark_stay_the_same(spark, form, tmp_path):
    """INT96 is Spark's default. The session has another time zone than UTC."""
    seen = datetime(900, 1, 1, 0, 0, 0, 123456, UTC)
    settings = {"spark.sql.session.timeZone": "America/New_York", "spark.sql.parquet.outputTimestampType": form}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        for place, order in (("master", 1), ("feed", 2)):
            table = pa.table({"id": [order], "at": [order], "seen": pa.array([seen], pa.timestamp("us", "UTC"))})
            spark.createDataFrame(table).write.parquet(str(tmp_path / place))
        work = Work(tmp_path)
        work.run()
        frame = spark.read.parquet(str(work.output))
        assert frame.schema["seen"].dataType.typeName() == "timestamp"
        assert [row["seen"] for row in spark_rows(frame)] == [seen, seen]
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert [row["seen"] for row in work.rows()] == [seen, seen]
    assert all(row["seen"] == seen for path in work.files for row in duck_rows(path))


@pytest.mark.parametrize("engine", ENGINES)
def test_parquet_of_duckdb_is_read(engine, tmp_path):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for place, rows in (("master", MASTER), ("feed", FEED)):
            source = table(rows)
            (tmp_path / place).mkdir()
            connection.register("source", source)
            connection.execute(f"COPY (SELECT * FROM source) TO '{tmp_path / place / 'f_1.parquet'}' (FORMAT parquet)")
    work = Work(tmp_path, engine)
    work.run()

    assert plain(work.rows()) == plain(EXPECTED)


@pytest.mark.parametrize("engine", ENGINES)
def test_arrow_types_are_read_as_plain_types(engine, tmp_path):
    source = pa.table(
        {
            "id": pa.array(["a", "b"]).dictionary_encode(),
            "at": pa.array([1, 2], pa.uint32()),
            "big": pa.array(["x", None], pa.large_string()),
            "view": pa.array(["x", None], pa.string_view()),
            "lists": pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)),
            "words": pa.array([["x"], None], pa.large_list(pa.large_string())),
            "small": pa.array([Decimal("1.5"), None], pa.decimal256(12, 1)),
            "token": pa.array([b"0123456789abcdef", None], pa.uuid()),
        }
    )
    for place in ("master", "feed"):
        (tmp_path / place).mkdir()
        pq.write_table(source, tmp_path / place / "f_1.parquet")
    work = Work(tmp_path, engine)
    report = work.run()

    assert report.counts["feed no-op"] == 2
    assert work.rows() == [
        {**one, "token": one["token"] and one["token"].bytes} if not isinstance(one["token"], bytes) else one
        for one in source.to_pylist()
    ]


@pytest.mark.parametrize("out", ["avro", "parquet", "orc"])
@pytest.mark.parametrize("engine", ENGINES)
def test_nested_values_survive_a_change_of_format(engine, out, tmp_path):
    work = Work(tmp_path, engine)
    work.settings["output.format"] = out
    merged(work, "parquet", "avro")
    first = plain(work.rows())
    for name in ("local", "seen"):  # ORC and Arrow return nanoseconds, but these times have none
        for one in first:
            one[name] = one[name] and one[name].replace(tzinfo=None)
    expected = plain(EXPECTED)
    for one in expected:
        one["seen"] = one["seen"] and one["seen"].replace(tzinfo=None)
    assert first == expected
