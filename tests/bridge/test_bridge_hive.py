"""The bridge on tables of a real metastore: export and import, runs, and kills."""

import contextlib
import io
import re
import shutil
import sys
from pathlib import Path

import pytest

from mutator import cli
from tests.support.cluster import run

pytestmark = pytest.mark.xdist_group("hive")

SERDE = ("spark.sql.hive.convertMetastoreOrc", "spark.sql.hive.convertMetastoreParquet")


@pytest.fixture(scope="module")
def hive(hive):
    """Return the server that all tests share, without the tables of other tests."""
    hive.run(drop_tables)
    return hive


def drop_tables(spark):
    for table in spark.sql("SHOW TABLES").collect():
        spark.sql(f"DROP TABLE IF EXISTS {table.tableName}")


def mutator(*words):
    """Run a command; return its exit code and its output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([str(word) for word in words])
    return code, out.getvalue() + err.getvalue()


def done(*words):
    """Run a command that must succeed; return its output."""
    code, printed = mutator(*words)
    assert code == 0, printed
    return printed


def text_of(value):
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def rows_of(spark, name, through_hive=False):
    """Return all rows as a new session sees them."""
    new = spark.newSession()
    new.conf.set("spark.sql.session.timeZone", "UTC")
    new.conf.set("spark.sql.ansi.enabled", "false")  # it cannot read NULL's partition in Hive's formats
    if through_hive:
        for setting in SERDE:
            new.conf.set(setting, "false")
    found = sorted(map(repr, new.table(name).collect()))
    assert new.sql(f"SELECT count(*) FROM {name}").head()[0] == len(found)
    return found


# --- every type and value

TEXTS = [
    "a,b|c\td",
    "'single' \"double\"",
    "line\nfeed",
    "cr\rcrlf\r\n",
    "\\",
    "\\N",
    "\\n,\\x2c",
    "",
    " ",
    "é☃𝄞",
    "null",
]
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
    (
        "named_struct('a', 1, 'b', array(named_struct('c', '\\n', 'd', date'2026-01-31'), null), "
        "'e', map('x', array(1.5D, null)))"
    ),
    "named_struct('a', null, 'b', null, 'e', null)",
    "null",
    "named_struct('a', 0, 'b', array(), 'e', map('', array(), 'n', null))",
    (
        "named_struct('a', 0, 'b', array(named_struct('c', null, 'd', null)), "
        "'e', map('', array(double('NaN'), double('Infinity'), -0.0D)))"
    ),
]
PARTITIONS = {
    (): [()],
    ("dt",): [("'a/b c=%é'",), ("'2026-01-31 10:00:00'",), ("'q''\"{x}[y]^#?*:'",), ("null",), ("'back\\\\slash'",)],
    ("n", "on_day"): [("7", "date'2026-01-31'"), ("null", "date'2026-01-31'"), ("-1", "null")],
}
PARTITION_TYPES = {"dt": "STRING", "n": "INT", "on_day": "DATE"}


def made(spark, name, how, fields, by=(), place=None):
    """Create a table: Hive's (STORED AS) or Spark's (USING); managed, or external if it has a location."""
    outer = [f"{field} {PARTITION_TYPES[field]}" for field in by]
    inner = [f"{field} {data_type}" for field, data_type in fields.items()]
    where = f"LOCATION '{place}'" if place else ""
    if how.startswith("USING"):
        clause = f"PARTITIONED BY ({', '.join(by)})" if by else ""
        spark.sql(f"CREATE TABLE {name} ({', '.join(inner + outer)}) {how} {clause} {where}")
        return
    clause = f"PARTITIONED BY ({', '.join(outer)})" if by else ""
    what = "EXTERNAL TABLE" if place else "TABLE"
    spark.sql(f"CREATE {what} {name} ({', '.join(inner)}) {clause} {how} {where}")


def fill(spark, name, fields, by):
    """Insert a row for every value."""
    rows = []
    for number in range(len(TEXTS)):
        at = number % 5
        values = [*NUMBERS[at], EXACT[at], text_of(TEXTS[number]), RAW[at], DAYS[at], TIMES[at]]
        values += [LISTS[at], PAIRS[at], NESTED[at], *PARTITIONS[by][number % len(PARTITIONS[by])]]
        rows.append(values)
    rows.append(["null"] * len(FIELDS) + list(PARTITIONS[by][0]))
    types = [*FIELDS.values(), *(PARTITION_TYPES[one] for one in by)]
    if "plain" in fields:
        types.insert(len(FIELDS), "TIMESTAMP_NTZ")
        for number, values in enumerate(rows):
            values.insert(len(FIELDS), ["timestamp_ntz'0001-01-01 00:00:00'", "null"][number % 2])
    selects = [", ".join(f"CAST({v} AS {k})" for v, k in zip(values, types, strict=True)) for values in rows]
    spark.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
    every = " UNION ALL ".join(f"SELECT {one}" for one in selects)
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(2) */ * FROM ({every})")


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize(
    ("how", "by", "external", "zone"),
    [
        pytest.param("STORED AS ORC", (), False, "UTC", marks=pytest.mark.soak),
        ("STORED AS ORC", ("n", "on_day"), True, "America/New_York"),
        ("STORED AS PARQUET", ("dt",), True, "Asia/Kathmandu"),
        pytest.param("STORED AS AVRO", (), False, "Asia/Kathmandu", marks=pytest.mark.soak),
        pytest.param("STORED AS AVRO", ("n", "on_day"), True, "Europe/Berlin", marks=pytest.mark.soak),
        pytest.param("USING parquet", ("n", "on_day"), False, "Europe/Berlin", marks=pytest.mark.soak),
    ],
)
def test_everything_comes_back(hive, how, by, external, zone):
    def case(spark, root):
        spark.conf.set("spark.sql.session.timeZone", zone)
        fields = FIELDS | ({"plain": "TIMESTAMP_NTZ"} if "USING" in how else {})
        file_format = how.split()[-1].lower()
        made(spark, "source", how, fields, by, f"{root}/source" if external else None)
        fill(spark, "source", fields, by)
        rows = rows_of(spark, "source")
        assert len(rows) == len(TEXTS) + 1

        printed = done("bridge", "export", "--table", "source", "--output", f"{root}/text")
        assert f"exported {len(rows)} rows of default.source ({file_format})" in printed
        assert rows_of(spark, "source") == rows

        done("bridge", "import", "--text", f"{root}/text", "--table", "created", "--format", file_format)
        assert rows_of(spark, "created") == rows

        made(spark, "there", how, fields, by, f"{root}/there" if external else None)
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.sql("INSERT INTO there SELECT * FROM source LIMIT 1")
        spark.conf.unset("spark.sql.ansi.enabled")
        done("bridge", "import", "--text", f"{root}/text", "--table", "there")
        assert rows_of(spark, "there") == rows

    dropping(hive, case)


def dropping(hive, case, *arguments):
    """Run a case with a directory of its own; then drop all tables."""

    def whole(spark):
        import tempfile

        with tempfile.TemporaryDirectory() as root:
            try:
                return case(spark, root, *arguments)
            finally:
                drop_tables(spark)

    return hive.run(whole)


@pytest.mark.thorough(keep=0)
def test_no_rows_come_back(hive):
    def case(spark, root):
        for how, by in (("STORED AS ORC", ("dt",)), ("STORED AS AVRO", ())):
            made(spark, "source", how, FIELDS, by)
            done("bridge", "export", "--table", "source", "--output", f"{root}/text{len(by)}")
            made(spark, "there", how, FIELDS, by)
            fill(spark, "there", FIELDS, by)
            done("bridge", "import", "--text", f"{root}/text{len(by)}", "--table", "there")
            file_format = how.split()[-1].lower()
            done("bridge", "import", "--text", f"{root}/text{len(by)}", "--table", "created", "--format", file_format)
            for name in ("there", "created"):
                assert rows_of(spark, name) == []
                assert spark.table(name).dtypes == spark.table("source").dtypes
                spark.sql(f"DROP TABLE {name}")
            spark.sql("DROP TABLE source")

    dropping(hive, case)


# --- runs

SALES = {"id": "BIGINT", "name": "STRING", "at": "BIGINT"}
SETTINGS = ["field.delim.regex=|", "id.field.ordinals=id", "temporal.ordering.field.ordinal=at"]
SETTINGS += ["deleted.record.file.prefix=del", "max.delete.fraction=1"]


def bridge(root, *more, table="sales", text="copy", feed="feed"):
    words = ["bridge", "run", "--table", table, "--text", f"{root}/{text}", "--feed", f"{root}/{feed}"]
    return mutator(*words, *(word for one in SETTINGS for word in ("-D", one)), *more)


def merged(root, *more, **names):
    """Run the bridge, which must succeed; return its output."""
    code, printed = bridge(root, *more, **names)
    assert code == 0, printed
    return printed


def feed(root, name, *lines, directory="feed"):
    path = Path(root, directory, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def sales(spark, name="sales", through_hive=False):
    """Return the rows, as a new session sees them, in the form of feed lines."""
    new = spark.newSession()
    for setting in SERDE if through_hive else ():
        new.conf.set(setting, "false")
    # Spark's reader of Hive's formats returns the directory name of NULL as the value
    null = "'__HIVE_DEFAULT_PARTITION__'"
    columns = ", ".join(f"coalesce(nullif(cast({one} as string), {null}), '')" for one in spark.table(name).columns)
    found = sorted(row[0] for row in new.sql(f"SELECT concat_ws('|', {columns}) FROM {name}").collect())
    assert new.sql(f"SELECT count(*) FROM {name}").head()[0] == len(found)
    return found


def insert(spark, *lines, name="sales", how="INTO"):
    values = ", ".join("(" + ", ".join(map(text_of, line.split("|"))) + ")" for line in lines)
    columns = [f"CAST(col{n} AS {f.dataType.simpleString()})" for n, f in enumerate(spark.table(name).schema, 1)]
    spark.sql("SET hive.exec.dynamic.partition.mode=nonstrict")
    spark.sql(f"INSERT {how} {name} SELECT /*+ COALESCE(1) */ {', '.join(columns)} FROM VALUES {values}")


def files_of(spark, name="sales"):
    from mutator.bridge.hive.table import HiveTable

    return {(one.partition, one.path, one.modified) for one in HiveTable(spark, name).files()}


def partitions_of(spark, name="sales"):
    return {row[0] for row in spark.sql(f"SHOW PARTITIONS {name}").collect()}


@pytest.mark.soak
@pytest.mark.parametrize(
    "how",
    ["STORED AS ORC", *(pytest.param(how, marks=pytest.mark.soak) for how in ("USING parquet", "STORED AS AVRO"))],
)
def test_partitions_with_changes_change(hive, how):
    def case(spark, root):
        made(spark, "sales", how, SALES, ("dt",), f"{root}/sales" if "ORC" not in how else None)
        insert(spark, "1|one|10|a", "2|two|10|a", "3|three|10|b", "4|four|10|c", "6|six|10|f")
        before = files_of(spark)

        # static, because one partition changes
        feed(root, "ups_1.txt", "1|ONE|20|a")
        printed = merged(root)
        assert "there was no text copy yet" in printed
        assert "overwritten: dt=a" in printed
        assert "overwrote 1 partition in one step" in printed
        rows = ["1|ONE|20|a", "2|two|10|a", "3|three|10|b", "4|four|10|c", "6|six|10|f"]
        assert sales(spark) == sales(spark, through_hive=True) == rows
        assert {one for one in files_of(spark) if one[0] != "dt=a"} == {one for one in before if one[0] != "dt=a"}

        before = files_of(spark)
        printed = merged(root)
        assert "export skipped" in printed
        assert "the table stays as it is" in printed
        assert files_of(spark) == before

        # dynamic: 3 moves, 4 was the last row of its partition, 5 and 7 get new partitions, and 7's is NULL
        feed(root, "ups_2.txt", "3|THREE|20|a", "5|five|20|e", "7|seven|20|\\N")
        feed(root, "del_2.txt", "4|four|20|c")
        printed = merged(root)
        assert "export skipped" in printed
        assert "overwrote 5 partitions in one step" in printed
        rows = ["1|ONE|20|a", "2|two|10|a", "3|THREE|20|a", "5|five|20|e", "6|six|10|f", "7|seven|20|"]
        assert sales(spark) == sales(spark, through_hive=True) == rows
        assert partitions_of(spark) == {"dt=a", "dt=e", "dt=f", "dt=__HIVE_DEFAULT_PARTITION__"}
        assert {one for one in files_of(spark) if one[0] == "dt=f"} == {one for one in before if one[0] == "dt=f"}

        # the delete is remembered
        feed(root, "ups_3.txt", "4|late|15|c")
        assert "the table stays as it is" in merged(root)
        assert sales(spark) == rows

    dropping(hive, case)


@pytest.mark.soak
def test_changes_by_other_programs_are_seen(hive):
    def case(spark, root):
        made(spark, "sales", "STORED AS ORC", SALES, ("dt",))
        insert(spark, "1|one|10|a", "2|two|10|b", "3|three|10|c")
        feed(root, "ups_1.txt", "1|ONE|20|a", "2|TWO|20|b")
        merged(root)

        insert(spark, "4|four|10|a")
        feed(root, "ups_2.txt", "3|THREE|20|c")
        printed = merged(root)
        assert "another program has changed the table" in printed
        assert sales(spark) == ["1|ONE|20|a", "2|TWO|20|b", "3|THREE|20|c", "4|four|10|a"]

        spark.sql("ALTER TABLE sales DROP PARTITION (dt='b')")
        printed = merged(root)
        assert "another program has changed the table" in printed
        assert "the table stays as it is" in printed
        assert sales(spark) == ["1|ONE|20|a", "3|THREE|20|c", "4|four|10|a"]

        spark.sql("INSERT OVERWRITE sales PARTITION (dt='a') SELECT 1, 'other', 1")
        feed(root, "ups_3.txt", "5|five|10|\\N")
        printed = merged(root)
        assert "another program has changed the table" in printed
        # feed files that were merged are not merged again
        rows = ["1|other|1|a", "3|THREE|20|c", "5|five|10|"]
        assert sales(spark) == sales(spark, through_hive=True) == rows
        assert "export skipped" in merged(root)

        spark.sql("DROP TABLE sales")
        made(spark, "sales", "STORED AS PARQUET", SALES, ("dt",))
        insert(spark, "1|anew|1|z")
        feed(root, "ups_4.txt", "2|anew|1|z")
        assert "another program has changed the table" in merged(root)
        # nothing that the earlier runs merged is in it
        assert sales(spark) == ["1|ONE|20|a", "2|TWO|20|b", "3|THREE|20|c", "5|five|10|"]
        assert len(list(Path(root, "copy/_mutator/bridge").iterdir())) == 1

        # another table, with a text copy of its own
        made(spark, "other", "STORED AS AVRO", SALES)
        insert(spark, "1|one|10", name="other")
        feed(root, "ups_1.txt", "1|ONE|20", directory="other")
        merged(root, table="other", text="other_copy", feed="other")
        assert sales(spark, "other") == ["1|ONE|20"]
        assert "export skipped" in merged(root)
        assert "export skipped" in merged(root, table="other", text="other_copy", feed="other")

    dropping(hive, case)


@pytest.mark.soak
def test_feeds_of_other_formats(hive):
    def case(spark, root):
        import pyarrow as pa
        from pyarrow import parquet

        made(spark, "sales", "STORED AS PARQUET", SALES, place=f"{root}/sales")
        insert(spark, "1|one|10", "2|two|10")
        feed(root, "csv_1.csv", "id|name|at", '1|"ONE, one"|20', "3||20")
        printed = merged(root, feed="feed/csv_1.csv")
        assert "the table was overwritten in one step" in printed
        assert sales(spark) == sales(spark, through_hive=True) == ["1|ONE, one|20", "2|two|10", "3||20"]
        parquet.write_table(pa.table({"name": ["TWO"], "at": [30], "id": [2]}), f"{root}/feed/typed_2.parquet")
        merged(root, feed="feed/typed_2.parquet")
        rows = ["1|ONE, one|20", "2|TWO|30", "3||20"]
        assert sales(spark) == sales(spark, through_hive=True) == rows

        before = files_of(spark)
        feed(root, "ups_3.txt", "1|bad|no number")
        code, printed = bridge(root, feed="feed/ups_3.txt")
        assert code == 3, printed
        assert "ups_3.txt" in printed
        assert "Traceback" not in printed
        feed(root, "new_4.csv", "id|name|at|more", "1|x|40|y")
        code, printed = bridge(root, feed="feed/new_4.csv")
        assert code == 2, printed
        assert "more" in printed
        assert "output.schema" in printed
        assert files_of(spark) == before
        assert sales(spark) == rows
        assert "export skipped" in merged(root, feed="feed/typed_2.parquet")
        assert len(list(Path(root, "copy").iterdir())) == 2  # the bookkeeping files and one text copy

    dropping(hive, case)


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("how", ["STORED AS AVRO", pytest.param("STORED AS ORC", marks=pytest.mark.soak)])
def test_rows_in_the_partition_of_null_stay(hive, how):
    def case(spark, root):
        made(spark, "sales", how, SALES, ("dt",))
        spark.sql("SET hive.exec.dynamic.partition.mode=nonstrict")
        spark.sql("INSERT INTO sales SELECT 1, 'one', 1, CAST(NULL AS STRING)")
        spark.sql("INSERT INTO sales SELECT 2, 'two', 1, CAST(NULL AS STRING)")
        feed(root, "ups_1.txt", "3|three|2|\\N", "4|four|2|", "2|TWO|2|__HIVE_DEFAULT_PARTITION__")
        assert "overwritten: dt=__HIVE_DEFAULT_PARTITION__" in merged(root)
        assert sales(spark) == ["1|one|1|", "2|TWO|2|", "3|three|2|", "4|four|2|"]

    dropping(hive, case)


# --- an external table over a workflow's master


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("output", ["text", pytest.param("parquet", marks=pytest.mark.soak)])
def test_external_table_over_a_master(hive, output):
    page = Path(cli.__file__).parents[2].joinpath("docs/bridge.md").read_text()
    blocks = re.findall(r"```sql\n(.*?)```", page.partition("### An external table over")[2], re.DOTALL)
    assert len(blocks) == 2
    create = blocks[output == "parquet"].strip().rstrip(";")
    sample = Path(cli.__file__).parents[2] / "sample_data/product"

    def case(spark, root):
        base = Path(root, "base")
        for name in ("master", "incr"):
            base.joinpath(name).mkdir(parents=True)
        shutil.copy(sample / "master/base_prod.txt", base / "master")
        name = create.split()[3]
        settings = ["-D", "field.names=id,category,brand,price,stock,changed"]
        if output == "parquet":
            settings += ["-D", "output.format=parquet", "-D", f"output.schema={sample}/product.avsc"]
        spark.sql(re.sub("LOCATION '.*'", f"LOCATION '{base}/master'", create))
        if output == "text":
            assert table_of(spark, name) == lines_of(base / "master")
        for number, names in enumerate([["ups_prod.txt", "del_prod.txt"], ["again_2.txt"]], 1):
            for one in names:
                if number == 1:
                    shutil.copy(sample / "feed" / one, base / "incr")
                else:
                    base.joinpath("incr", one).write_text("NEW,home,acme,7,1,1999999999999\n")
            done("workflow", "run", base, "--config", sample / "bumu.properties", *settings)
            found = table_of(spark, name)
            assert ("NEW,home,acme,7,1,1999999999999" in found) == (number == 2)
            if output == "text":
                assert found == lines_of(base / "master")
            assert len(found) > 10
            new = spark.newSession()
            assert new.sql(f"SELECT count(*) FROM {name}").head()[0] == len(found)

    def table_of(spark, name):
        new = spark.newSession()
        new.sql(f"REFRESH TABLE {name}")
        return sorted(",".join(map(str, row)) for row in new.table(name).collect())

    def lines_of(directory):
        return sorted(line for one in directory.glob("*.txt") for line in one.read_text().splitlines())

    dropping(hive, case)


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("output", ["parquet", "orc"])
def test_external_table_over_a_partitioned_master(hive, output):
    """Its files lack the partition fields, as those of Hive do; the values need escapes, or are NULL."""
    shops = ["a/b", "100%", "=x y", "\\N", "007"]
    by = ["-D", "partitioned.by=shop,day", "-D", f"output.format={output}", "-D", "csv.null=\\N"]
    by += ["-D", "header.lines=1", "--key", "id", "--order-by", "changed", "-D", "allow.empty.master=true"]

    def case(spark, root):
        rows = [f"{number},{shop},2026-01-0{number + 1},{number}" for number, shop in enumerate(shops)]
        for name, some in (("feed", rows), ("none", [])):
            Path(root, name).mkdir()
            Path(root, name, "ups_1.csv").write_text("\n".join(["id,shop,day,changed", *some, ""]))
        schema = '{"type": "record", "name": "r", "fields": ['
        types = {"id": '"long"', "shop": '["null", "string"]', "changed": '"long"'}
        types["day"] = '{"type": "int", "logicalType": "date"}'
        fields = [f'{{"name": "{name}", "type": {types[name]}}}' for name in ("id", "shop", "day", "changed")]
        given = [*by, "-D", f"output.schema={schema}{', '.join(fields)}]}}"]
        done("run", "--master", f"{root}/nothing", "--feed", f"{root}/feed", "--output", f"{root}/master", *given)
        spark.sql(
            "CREATE EXTERNAL TABLE parted (id BIGINT, changed BIGINT) PARTITIONED BY (shop STRING, day DATE) "
            f"STORED AS {output} LOCATION '{root}/master'"
        )
        spark.sql("MSCK REPAIR TABLE parted")
        expected = sorted(
            f"Row(id={number}, changed={number}, shop={None if shop == shops[3] else shop!r}, "
            f"day=datetime.date(2026, 1, {number + 1}))"
            for number, shop in enumerate(shops)
        )
        assert rows_of(spark, "parted") == expected
        # By way of Hive's readers, Spark shows the name of the directory instead of NULL, as for Hive's own tables.
        through_hive = sorted(row.replace("shop=None", "shop='__HIVE_DEFAULT_PARTITION__'") for row in expected)
        assert rows_of(spark, "parted", through_hive=True) == through_hive

    dropping(hive, case)


# --- mistakes


@pytest.mark.thorough(keep=0)
def test_faults_are_named(hive):
    def case(spark, root):
        insertable = "(id BIGINT, name STRING)"
        spark.sql(f"CREATE TABLE plain {insertable} STORED AS ORC")
        spark.sql("INSERT INTO plain VALUES (300, 'x')")
        spark.sql("CREATE VIEW seen AS SELECT * FROM plain")
        spark.sql(f"CREATE TABLE spread {insertable} CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC")
        spark.sql(
            f"CREATE TABLE acid {insertable} CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC "
            "TBLPROPERTIES ('transactional'='true')"
        )
        spark.sql(f"CREATE TABLE words {insertable} STORED AS TEXTFILE")
        spark.sql("CREATE TABLE narrow (id TINYINT, name STRING) STORED AS ORC")
        spark.sql("CREATE TABLE narrow_part (name STRING) PARTITIONED BY (id TINYINT) STORED AS PARQUET")
        spark.sql("INSERT INTO narrow VALUES (1, 'y')")
        done("bridge", "export", "--table", "plain", "--output", f"{root}/text")
        Path(root, "feed").mkdir()
        faults, feeding = {}, ["--feed", f"{root}/feed", "-D", "id.field.ordinals=0"]
        for name in ("missing", "no such.name", "seen", "spread", "acid", "words"):
            for command in (
                ["export", "--table", name, "--output", f"{root}/never"],
                ["import", "--text", f"{root}/text", "--table", name],
                ["run", "--table", name, "--text", f"{root}/never", *feeding],
            ):
                code, printed = mutator("bridge", *command)
                assert code == 2, printed
                assert name in printed
                assert "Traceback" not in printed
                faults[name] = printed
        assert not Path(root, "never").exists()
        assert "is a view" in faults["seen"]
        assert "bucketing" in faults["spread"]
        assert "transactional" in faults["acid"]
        assert "no such table" in faults["missing"]

        code, printed = mutator("bridge", "import", "--text", f"{root}/text", "--table", "narrow", "--format", "avro")
        assert (code, "stores orc" in printed) == (2, True), printed
        assert "leave out --format avro" in printed

        # faults that only a task can find
        before = files_of(spark, "narrow")
        code, printed = mutator("bridge", "import", "--text", f"{root}/text", "--table", "narrow")
        assert code == 3, printed
        assert "field id" in printed
        assert "300" in printed
        assert "Traceback" not in printed
        assert "Spark gave up" not in printed
        assert files_of(spark, "narrow") == before

        sys.modules["pandas"] = None  # as if pyhive were not installed
        for command in (
            ["export", "--table", "plain", "--output", f"{root}/never"],
            ["import", "--text", f"{root}/text", "--table", "plain"],
        ):
            code, printed = mutator("bridge", *command)
            assert code == 2, printed
            assert "pip install -e '.[hive]'" in printed

    dropping(hive, case)


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize(
    "field", ["at TIMESTAMP", pytest.param("at MAP<STRING, ARRAY<STRUCT<b: TIMESTAMP>>>", marks=pytest.mark.soak)]
)
def test_no_instant_is_truncated(hive, field):
    """Avro in Hive has milliseconds only."""

    def case(spark, root):
        spark.sql(f"CREATE TABLE source (id BIGINT, {field}) STORED AS ORC")
        for fraction, expected in (("123", 0), ("123456", 3)):
            at = f"timestamp'1960-01-01 00:00:00.{fraction}Z'"
            value = at if field == "at TIMESTAMP" else f"map('k', array(named_struct('b', {at}), null))"
            spark.sql(f"INSERT OVERWRITE source SELECT 1, {value} UNION ALL SELECT 2, NULL")
            done("bridge", "export", "--table", "source", "--output", f"{root}/{fraction}")
            words = ["bridge", "import", "--text", f"{root}/{fraction}", "--table", "avro", "--format", "avro"]
            code, printed = mutator(*words)
            assert code == expected, printed
        assert "field at has 1960-01-01 00:00:00.123456" in printed
        assert len(rows_of(spark, "avro")) == 2
        assert "123456" not in str(rows_of(spark, "avro"))

    dropping(hive, case)


@pytest.mark.thorough(keep=0)
def test_second_process_is_refused(hive, tmp_path):
    words = [sys.executable, "-m", "mutator.cli", "bridge", "export", "--table", "any", "--output", tmp_path / "text"]
    made = run(words, hive.environment, tmp_path)
    assert made.returncode == 5, made.stderr
    assert "the embedded metastore is open in another process" in made.stderr
    assert "Traceback" not in made.stdout + made.stderr


# --- kills

BASE = ["1|one|10|a", "2|two|10|b", "3|three|10|c", "9|nine|10|z"]
# Each run continues from the state that the killed run before left; the first of these start with a new table.
FRESH = [
    ("bridge.settle.found", "bridge.exported", "bridge.tidied", "bridge.merged", "bridge.begun"),
    ("hive.statistics.removed",),
    ("hive.old.removed",),
]
KILLS = [
    *FRESH,
    ("hive.written", "hive.discard.shadow"),
    ("hive.retire.removed", "hive.shadow.created"),
    ("hive.shadow.dropped",),
    ("hive.staged", "hive.discard.removed"),
    ("bridge.staged", "bridge.settle.retired"),
    ("bridge.noted",),
    ("hive.partitions.created", "hive.discard.partitions"),
    ("hive.switched", "hive.retire.removed"),
    ("hive.partitions.dropped",),
    ("bridge.committed",),
]
ONLY_PARTITIONED = {"hive.partitions.created", "hive.discard.partitions", "hive.partitions.dropped"}
# Before the commit of the table, with a kill in the recovery, and after it.
FEW_KILLS = [
    FRESH[1],
    ("hive.partitions.created", "hive.discard.partitions"),
    ("hive.switched", "hive.retire.removed"),
]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("by", "kills"),
    [
        pytest.param(("dt",), FEW_KILLS, id="partitions, some"),
        pytest.param(("dt",), KILLS, id="partitions", marks=pytest.mark.soak),
        pytest.param((), KILLS, id="whole", marks=pytest.mark.soak),
    ],
)
def test_kills_leave_the_old_or_the_new_table(hive, tmp_path, by, kills):
    root = str(tmp_path)
    model = {}

    def anew(spark):
        spark.sql("DROP TABLE IF EXISTS sales")
        clean(spark)
        made(spark, "sales", "STORED AS ORC", SALES | ({} if by else {"dt": "STRING"}), by)
        insert(spark, *BASE)
        spark.sql("ANALYZE TABLE sales COMPUTE STATISTICS")

    def killed(spark):
        merged(root)

    def read_state(spark):
        new = spark.newSession()
        return sales(new), [row.tableName for row in new.sql("SHOW TABLES").collect()]

    def finish(spark, rows):
        """Do the next run, and compare everything with the expected state."""
        before = {Path(file[1]).parent for file in files_of(spark)}
        merged(root)
        assert sales(spark) == rows
        assert sales(spark, through_hive=True) == rows
        assert [row.tableName for row in spark.sql("SHOW TABLES").collect()] == ["sales"]
        assert len(list(Path(root, "copy/_mutator/bridge").iterdir())) == 1
        assert len([one for one in Path(root, "copy").iterdir() if one.name != "_mutator"]) == 1
        left = before | {Path(file[1]).parent for file in files_of(spark)}
        assert {str(one) for one in on_disk(spark)} <= {str(one).removeprefix("file:") for one in left}

    def warehouse(spark):
        return Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))

    def on_disk(spark):
        return {one.parent for one in warehouse(spark).glob("sales*/**/*") if one.is_file() and one.name[0] not in "._"}

    def last(spark):
        """A run with nothing to do leaves only the table."""
        merged(root)
        assert {str(directory) for directory in on_disk(spark)} == {
            str(Path(file[1]).parent).removeprefix("file:") for file in files_of(spark)
        }
        spark.sql("DROP TABLE sales")

    def clean(spark):
        """Remove the files that a dropped table had kept for its readers."""
        for place in warehouse(spark).glob("sales*"):
            shutil.rmtree(place)

    number = 0
    for points in kills:
        if not by and ONLY_PARTITIONED & set(points):
            continue
        if points in FRESH:
            hive.run(anew)
            model = {line.split("|")[0]: line for line in BASE}
        number += 1
        before = sorted(model.values())
        # 1 changes, 5 moves between partitions where each row has its own, and 9 is deleted
        model |= {"1": f"1|v{number}|{10 + number}|a", "5": f"5|five|{10 + number}|n{number}"}
        model.pop("9", None)
        after = sorted(model.values())
        feed(root, f"ups_{number}.txt", model["1"], model["5"])
        feed(root, f"del_{number}.txt", f"9||{10 + number}|z")
        for point in points:
            assert hive.run(killed, point=point) is None, point
            rows, _ = hive.run(read_state)
            assert rows in (before, after), point
        hive.run(finish, after)
    hive.run(last)
