"""Hive tables, in a real metastore: what changes, what stays, and what a kill leaves (of Python, and of the JVM)."""

import json

import pytest

from mutator.engine.hive import HiveTable
from mutator.engine.staged_table import Staged
from tests.hive_server import started

pytestmark = pytest.mark.xdist_group("hive")

SERDE = ("spark.sql.hive.convertMetastoreOrc", "spark.sql.hive.convertMetastoreParquet")


@pytest.fixture(scope="module")
def hive(tmp_path_factory):
    with started(tmp_path_factory.mktemp("hive")) as server:
        yield server


def logged(staged):
    """Return what a run logs, read again."""
    return Staged.of(json.loads(json.dumps(staged.record())))


def change(spark, name, rows, run, partitions=None):
    """Do all of a change; return the table and what was staged."""
    table = HiveTable(spark, name)
    before, files = rows_of(spark, name), table.files()
    staged = logged(table.stage(frame_of(spark, table, rows), run, partitions))
    assert (rows_of(spark, name), table.files()) == (before, files)  # nothing is visible
    assert not table.is_committed(staged)
    table.commit(staged)
    assert table.is_committed(staged)
    assert set(staged.files) <= set(table.files())
    return table, staged


def frame_of(spark, table, rows):
    """Return rows of a table's types, which no worker of Python has made."""
    fields = spark.table(table.name).schema
    if not rows:
        return spark.table(table.name).limit(0)
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    casts = ", ".join(f"CAST(col{n} AS {f.dataType.simpleString()}) AS {f.name}" for n, f in enumerate(fields, 1))
    return spark.sql(f"SELECT {casts} FROM VALUES {values}")


def literal(value):
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "NULL" if value is None else str(value)


def rows_of(spark, name):
    """Return the rows as a new session sees them, through Spark's readers and through Hive's."""
    new, found = spark.newSession(), []
    for value in ("true", "false"):
        for setting in SERDE:
            new.conf.set(setting, value)
        new.catalog.refreshTable(name)
        found.append(sorted(map(tuple, new.table(name).collect()), key=str))
        assert new.sql(f"SELECT count(*) FROM {name}").head()[0] == len(found[-1])
    assert found[0] == found[1]
    return found[0]


# --- without partitions


@pytest.mark.parametrize(
    ("create", "managed"),
    [
        ("CREATE TABLE {} (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('orc.compress'='ZLIB')", True),
        ("CREATE EXTERNAL TABLE {} (a INT, b STRING) STORED AS PARQUET LOCATION '{root}/here'", False),
        ("CREATE TABLE {} (a INT, b STRING) STORED AS AVRO", True),
        ("CREATE TABLE {} (a INT, b STRING) USING parquet", True),
    ],
    ids=["orc", "parquet", "avro", "datasource"],
)
def test_table_without_partitions(hive, create, managed):
    def case(spark, root):
        create_now = create.format("whole", root=root)
        spark.sql(create_now)
        spark.sql("INSERT INTO whole VALUES (1, 'x'), (2, 'é')")
        spark.sql("ANALYZE TABLE whole COMPUTE STATISTICS FOR ALL COLUMNS")
        table = HiveTable(spark, "whole")
        assert table.name == "default.whole"
        assert table.managed == managed
        assert table.schema.names == ["a", "b"]
        first = table.files()

        _, one = change(spark, "whole", [(1, "y"), (3, None)], "run-1")
        assert rows_of(spark, "whole") == [(1, "y"), (3, None)]
        assert sorted(map(tuple, table.read().collect())) == [(1, "y"), (3, None)]
        assert table.files() == one.files
        assert exists(first) == (not managed)  # a later table of this name must not find them
        statistics = dict(spark.sql("DESCRIBE EXTENDED whole").select("col_name", "data_type").collect())
        assert statistics["Statistics"].startswith(f"{sum(file.bytes for file in one.files)} bytes")
        assert not {"2 rows", "3 rows"} & {statistics["Statistics"].partition(", ")[2]}

        table.retire(one)
        assert not exists(first)
        _, two = change(spark, "whole", [], "run-2")
        assert rows_of(spark, "whole") == []
        assert two.root == one.root.replace("run-1", "run-2")
        assert exists(one.files)
        table.retire(two)
        assert not exists(one.files)

        change(spark, "whole", [(5, "z")], "run-3")
        spark.sql("DROP TABLE whole")
        spark.sql(create_now)
        if managed:
            assert rows_of(spark, "whole") == []
        spark.sql("DROP TABLE whole")
        return True

    assert hive.run(case, str(hive.root))


def exists(files):
    """Tell whether all of some files are there; some and not others is a fault."""
    from pathlib import Path

    found = {Path(file.path.removeprefix("file:")).exists() for file in files}
    assert len(found) == 1
    return found.pop()


# --- with partitions

ODD = ["a/b c=%é", "2026-01-31 10:00:00", "'quoted'", "back\\slash", '{x}[y]^#?*:"', "ünï☃𝄞", "%2F", " "]


@pytest.mark.parametrize("create", ["STORED AS AVRO", "USING parquet", "STORED AS ORC"])
def test_only_touched_partitions_change(hive, create):
    def case(spark, root):
        if create.startswith("USING"):
            spark.sql(f"CREATE TABLE parts (a INT, dt STRING, n INT) {create} PARTITIONED BY (dt, n)")
        else:
            what, place = ("EXTERNAL TABLE", f"LOCATION '{root}/parts'") if "AVRO" in create else ("TABLE", "")
            spark.sql(f"CREATE {what} parts (a INT) PARTITIONED BY (dt STRING, n INT) {create} {place}")
        table = HiveTable(spark, "parts")
        assert table.partition_fields == ("dt", "n")
        assert table.schema.names == ["a", "dt", "n"]

        # New partitions, of odd names; one of them is NULL.
        first = {**{value: (number, 1) for number, value in enumerate(ODD)}, None: (99, 1)}
        named = [{"dt": dt, "n": str(n)} for dt, (n, _) in first.items()]
        change(spark, "parts", rows_from(first), "run-1", named)
        assert rows_of(spark, "parts") == rows_from(first)
        jvm = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
        names = {f"{jvm.getPartitionPathString('dt', dt)}/n={n}" for dt, (n, _) in first.items()}
        assert {file.partition for file in table.files()} == names

        # One gets other rows, one is emptied, one is new, and all the others keep their files.
        before = {file.partition: file for file in table.files()}
        second = {**first, ODD[0]: (0, 2), "new": (7, 1)}
        del second[ODD[1]]
        touched = [{"dt": ODD[0], "n": "0"}, {"dt": ODD[1], "n": "1"}, {"dt": "new", "n": "7"}]
        _, two = change(spark, "parts", [(2, ODD[0], 0), (1, "new", 7)], "run-2", touched)
        assert rows_of(spark, "parts") == rows_from(second)
        after = {file.partition: file for file in table.files()}
        assert {name for name in before if before[name] == after.get(name)} == names - {
            move.partition for move in two.moves
        }
        assert len(after) == len(before)
        assert spark.sql("SHOW PARTITIONS parts").count() == len(after)
        table.retire(two)
        assert rows_of(spark, "parts") == rows_from(second)

        # A static insert, and nothing comes back by its name.
        change(spark, "parts", [(3, "new", 7)], "run-3", [{"dt": "new", "n": "7"}])
        change(spark, "parts", [], "run-4", [{"dt": "new", "n": "7"}])
        spark.sql("MSCK REPAIR TABLE parts")
        del second["new"]
        assert rows_of(spark, "parts") == rows_from(second)

        # Spark's own statements go on.
        spark.sql("SET spark.sql.sources.partitionOverwriteMode=dynamic")
        spark.sql("INSERT INTO parts PARTITION (dt = '%2F', n = 6) VALUES (8)")
        assert len(rows_of(spark, "parts")) == len(second) + 1
        spark.sql("DROP TABLE parts")
        return True

    assert hive.run(case, str(hive.root))


def rows_from(content):
    return sorted(((a, dt, n) for dt, (n, a) in content.items()), key=str)
