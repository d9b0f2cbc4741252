"""The bridge on tables of a real metastore: what comes back from text, and what runs and kills leave."""

import contextlib
import io
from pathlib import Path

import pytest

from mutator import cli
from tests.hive_server import started

pytestmark = pytest.mark.xdist_group("hive")

SERDE = ("spark.sql.hive.convertMetastoreOrc", "spark.sql.hive.convertMetastoreParquet")


@pytest.fixture(scope="module")
def hive(tmp_path_factory):
    with started(tmp_path_factory.mktemp("bridge_hive")) as server:
        yield server


def mutator(*words):
    """Run a command; return its exit code, and what it said."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([str(word) for word in words])
    return code, out.getvalue() + err.getvalue()


def done(*words):
    """Run a command that must succeed; return what it said."""
    code, said = mutator(*words)
    assert code == 0, said
    return said


def text_of(value):
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def rows_of(spark, name, through_hive=False):
    """Return all rows as a new session sees them."""
    new = spark.newSession()
    new.conf.set("spark.sql.session.timeZone", "UTC")
    if through_hive:
        for setting in SERDE:
            new.conf.set(setting, "false")
    found = sorted(map(repr, new.table(name).collect()))
    assert new.sql(f"SELECT count(*) FROM {name}").head()[0] == len(found)
    return found


# --- every type and value

TEXTS = ["a,b|c\td", "'single' \"double\"", "line\nfeed", "cr\rcrlf\r\n", "\\", "\\N", "\\n,\\x2c", "", " ", "é☃𝄞", "null"]
FIELDS = {
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "whole": "INT",
    "big": "BIGINT",
    "single": "FLOAT",
    "twice": "DOUBLE",
    "exact": "DECIMAL(38,10)",
    "said": "STRING",
    "raw": "BINARY",
    "day": "DATE",
    "at": "TIMESTAMP",
    "list": "ARRAY<STRING>",
    "pairs": "MAP<STRING, INT>",
    "nested": "STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING, d: DATE>>, e: MAP<STRING, ARRAY<DOUBLE>>>",
}
NUMBERS = [
    ("true", "127", "32767", "2147483647", "9223372036854775807", "double('NaN')", "double('NaN')"),
    ("false", "-128", "-32768", "-2147483648", "-9223372036854775808", "double('-0.0')", "double('-0.0')"),
    ("null", "0", "0", "0", "0", "double('Infinity')", "double('-Infinity')"),
    ("true", "1", "1", "1", "1", "3.4028235E38", "4.9E-324"),
    ("true", "1", "1", "1", "1", "1.4E-45", "0.1"),
]
EXACT = ["9999999999999999999999999999.9999999999", "-0.0000000001", "0", "1.5", "null"]
RAW = ["X''", "X'00FF0A0D2C5C'", "null", "X'5C4E'", "X'C3'"]
DAYS = ["date'0001-01-01'", "date'9999-12-31'", "date'1582-10-04'", "null", "date'1969-12-31'"]
TIMES = [
    "timestamp'1969-12-31 23:59:59.999999Z'",
    "timestamp'2026-10-25 01:30:00.000001Z'",
    "timestamp'2026-03-29 02:30:00Z'",
    "null",
    "timestamp'1899-12-31 12:00:00Z'",
]
LISTS = [
    "array()",
    "array('', null, 'a,b', '\\\\N', '[\"x\"]', 'li\\nne')",
    "null",
    "array(cast(null as string))",
    "array('x')",
]
PAIRS = ["map()", "map('', 1, 'k,\"\\\\', null)", "null", "map('\\\\N', 0)", "map('z', 1, 'a', 2)"]
NESTED = [
    "named_struct('a', 1, 'b', array(named_struct('c', '\\n', 'd', date'2026-01-31'), null), 'e', map('x', array(1.5D, null)))",
    "named_struct('a', null, 'b', null, 'e', null)",
    "null",
    "named_struct('a', 0, 'b', array(), 'e', map('', array(), 'n', null))",
    "named_struct('a', 0, 'b', array(named_struct('c', null, 'd', null)), 'e', map('', array(double('NaN'), double('Infinity'), -0.0D)))",
]
PARTITIONS = {
    (): [()],
    ("dt",): [("'a/b c=%é'",), ("'2026-01-31 10:00:00'",), ("'q''\"{x}[y]^#?*:'",), ("null",), ("'back\\\\slash'",)],
    ("n", "on_day"): [("7", "date'2026-01-31'"), ("null", "date'2026-01-31'"), ("-1", "null")],
}
PARTITION_TYPES = {"dt": "STRING", "n": "INT", "on_day": "DATE"}


def made(spark, name, how, fields, by=(), place=None):
    """Make a table: Hive's (STORED AS) or Spark's (USING), managed or, with a place, external."""
    outer = [f"{field} {PARTITION_TYPES[field]}" for field in by]
    inner = [f"{field} {kind}" for field, kind in fields.items()]
    where = f"LOCATION '{place}'" if place else ""
    if how.startswith("USING"):
        clause = f"PARTITIONED BY ({', '.join(by)})" if by else ""
        spark.sql(f"CREATE TABLE {name} ({', '.join(inner + outer)}) {how} {clause} {where}")
        return
    clause = f"PARTITIONED BY ({', '.join(outer)})" if by else ""
    what = "EXTERNAL TABLE" if place else "TABLE"
    spark.sql(f"CREATE {what} {name} ({', '.join(inner)}) {clause} {how} {where}")


def fill(spark, name, fields, by):
    """Insert every value."""
    rows = []
    for number in range(len(TEXTS)):
        at = number % 5
        values = [*NUMBERS[at], EXACT[at], text_of(TEXTS[number]), RAW[at], DAYS[at], TIMES[at]]
        values += [LISTS[at], PAIRS[at], NESTED[at], *PARTITIONS[by][number % len(PARTITIONS[by])]]
        rows.append(values)
    rows.append(["null"] * len(FIELDS) + list(PARTITIONS[by][0]))
    kinds = [*FIELDS.values(), *(PARTITION_TYPES[one] for one in by)]
    if "plain" in fields:
        kinds.insert(len(FIELDS), "TIMESTAMP_NTZ")
        for number, values in enumerate(rows):
            values.insert(len(FIELDS), ["timestamp_ntz'0001-01-01 00:00:00'", "null"][number % 2])
    selects = [", ".join(f"CAST({v} AS {k})" for v, k in zip(values, kinds, strict=True)) for values in rows]
    spark.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
    spark.sql(f"INSERT INTO {name} " + " UNION ALL ".join(f"SELECT {one}" for one in selects))


@pytest.mark.parametrize(
    ("how", "by", "external", "zone"),
    [
        ("STORED AS ORC", (), False, "UTC"),
        ("STORED AS ORC", ("n", "on_day"), True, "America/New_York"),
        ("STORED AS PARQUET", ("dt",), False, "Asia/Kathmandu"),
        ("STORED AS PARQUET", (), True, "Europe/Berlin"),
        ("STORED AS AVRO", ("dt",), True, "Europe/Berlin"),
        ("STORED AS AVRO", (), False, "Asia/Kathmandu"),
        ("USING parquet", ("n", "on_day"), False, "Europe/Berlin"),
        ("USING parquet", ("dt",), True, "UTC"),
        ("USING orc", ("n", "on_day"), False, "America/New_York"),
    ],
)
def test_everything_comes_back(hive, how, by, external, zone):
    def case(spark, root):
        spark.conf.set("spark.sql.session.timeZone", zone)
        fields = FIELDS | ({"plain": "TIMESTAMP_NTZ"} if "USING" in how else {})
        kind = how.split()[-1].lower()
        made(spark, "source", how, fields, by, f"{root}/source" if external else None)
        fill(spark, "source", fields, by)
        rows = rows_of(spark, "source")
        assert len(rows) == len(TEXTS) + 1

        said = done("bridge", "export", "--table", "source", "--to", f"{root}/text")
        assert f"exported {len(rows)} rows of default.source ({kind})" in said
        assert rows_of(spark, "source") == rows

        done("bridge", "import", "--from", f"{root}/text", "--table", "created", "--format", kind)
        assert rows_of(spark, "created") == rows

        made(spark, "there", how, fields, by, f"{root}/there" if external else None)
        spark.sql("INSERT INTO there SELECT * FROM source LIMIT 3")
        done("bridge", "import", "--from", f"{root}/text", "--table", "there")
        assert rows_of(spark, "there") == rows

    dropping(hive, case)


def dropping(hive, case, *arguments):
    """Run a case, which gets a place of its own; then drop all tables."""

    def whole(spark):
        import tempfile

        with tempfile.TemporaryDirectory() as root:
            try:
                return case(spark, root, *arguments)
            finally:
                for table in spark.catalog.listTables():
                    spark.sql(f"DROP TABLE IF EXISTS {table.name}")

    return hive.run(whole)
