"""Hive tables in a real metastore: changes, untouched partitions, and kills of Python and of the JVM."""

import datetime
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from mutator.bridge.hive.metastore import STATISTICS
from mutator.bridge.hive.staged_table import Staged
from mutator.bridge.hive.table import HiveTable
from mutator.errors import MutatorError
from mutator.rules.partition_paths import DEFAULT
from tests.support.failpoints import HIVE_FAILPOINTS

pytestmark = pytest.mark.xdist_group("hive")

SERDE = ("spark.sql.hive.convertMetastoreOrc", "spark.sql.hive.convertMetastoreParquet")


def logged(staged):
    """Return the log record of a run as it is read back."""
    return Staged.of(json.loads(json.dumps(staged.record())))


def change(spark, name, rows, run, partitions=None):
    """Do a whole change; return the table and the staged change."""
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
    """Return rows with the types of a table as a DataFrame that needs no Python worker."""
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


def rows_of(spark, name, serde=False):
    """Return the rows as a new session sees them, through Spark's or Hive's readers."""
    new = spark.newSession()
    new.conf.set("spark.sql.ansi.enabled", "false")  # or Hive's name for NULL, which is not a number
    for setting in SERDE:
        new.conf.set(setting, str(not serde).lower())
    rows = [tuple(None if value == DEFAULT else value for value in row) for row in new.table(name).collect()]
    return sorted(rows, key=str)


def check_rows(spark, name, rows):
    """Compare the rows that each reader sees."""
    assert rows_of(spark, name) == rows
    assert rows_of(spark, name, serde=True) == rows
    assert spark.newSession().sql(f"SELECT count(*) FROM {name}").head()[0] == len(rows)


def exists(files):
    """Return whether all the files exist; if only some of them do, fail."""
    found = {Path(file.path.removeprefix("file:")).exists() for file in files}
    assert len(found) == 1
    return found.pop()


# --- without partitions


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize(
    ("create", "managed"),
    [
        ("CREATE TABLE {} (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('orc.compress'='ZLIB')", True),
        ("CREATE EXTERNAL TABLE {} (a INT, b STRING) STORED AS PARQUET LOCATION '{root}/here'", False),
        pytest.param("CREATE TABLE {} (a INT, b STRING) STORED AS AVRO", True, marks=pytest.mark.soak),
        pytest.param("CREATE TABLE {} (a INT, b STRING) USING parquet", True, marks=pytest.mark.soak),
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
        check_rows(spark, "whole", [(1, "y"), (3, None)])
        assert sorted(map(tuple, table.read().collect())) == [(1, "y"), (3, None)]
        assert table.files() == one.files
        assert exists(first) == (not managed)  # a later table of this name must not find these files
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


# --- with partitions

ODD = ["a/b c=%é", "2026-01-31 10:00:00", "'quoted'", "back\\slash", '{x}[y]^#?*:"', "ünï☃𝄞", "%2F", " "]


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("create", [pytest.param("STORED AS AVRO", marks=pytest.mark.soak), "USING parquet"])
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

        # New partitions with odd names; one of them is NULL.
        first = {**{value: (number, 1) for number, value in enumerate(ODD)}, None: (99, 1)}
        named = [{"dt": dt, "n": str(n)} for dt, (n, _) in first.items()]
        change(spark, "parts", rows_from(first), "run-1", named)
        check_rows(spark, "parts", rows_from(first))
        assert sorted(map(tuple, table.read().collect()), key=str) == rows_from(first)
        jvm = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
        names = {f"{jvm.getPartitionPathString('dt', dt)}/n={n}" for dt, (n, _) in first.items()}
        assert {file.partition for file in table.files()} == names

        # One partition gets other rows, one is emptied, one is new; all the others keep their files.
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

        # A static insert under the name of a dropped partition brings none of its old rows back.
        change(spark, "parts", [(3, "new", 7)], "run-3", [{"dt": "new", "n": "7"}])
        change(spark, "parts", [], "run-4", [{"dt": "new", "n": "7"}])
        spark.sql("MSCK REPAIR TABLE parts")
        del second["new"]
        assert rows_of(spark, "parts") == rows_from(second)

        # Spark's own statements still work.
        spark.sql("SET spark.sql.sources.partitionOverwriteMode=dynamic")
        spark.sql("INSERT INTO parts PARTITION (dt = '%2F', n = 6) VALUES (8)")
        assert len(rows_of(spark, "parts")) == len(second) + 1
        spark.sql("DROP TABLE parts")
        return True

    assert hive.run(case, str(hive.root))


def rows_from(content):
    return sorted(((a, dt, n) for dt, (n, a) in content.items()), key=str)


@pytest.mark.thorough(keep=0)
def test_partition_values_are_compared_as_values(hive):
    """``07`` and ``7`` are the same number, which the metastore may spell either way; NULL is valid for any type."""

    def case(spark):
        spark.sql("CREATE TABLE spelled (a INT) PARTITIONED BY (n INT, d DATE) STORED AS AVRO")
        table = HiveTable(spark, "spelled")
        place = table._metastore.location(table._entry())
        for spelling in ("7", "07"):
            spark.sql("SET spark.sql.storeAssignmentPolicy=ANSI")
            storage = table._metastore.at(table._entry().storage(), f"{place}/other-{spelling}")
            one = table._metastore.partition({"n": spelling, "d": "2026-01-31"}, storage, table._metastore.map({}))
            table._metastore.create_partitions("default", "spelled", [one])
        named = [{"n": "07", "d": "2026-01-31"}, {"n": None, "d": None}, {"n": "7", "d": "2026-01-31"}]
        day = datetime.date(2026, 1, 31)
        frame = spark.sql("SELECT 1 AS a, 7 AS n, DATE'2026-01-31' AS d UNION ALL SELECT 2, NULL, NULL")
        staged = table.stage(frame, "run-1", named)
        table.commit(staged)
        assert sorted(map(tuple, table.read().collect())) == [(1, 7, day), (2, None, None)]
        assert len(table.files()) == 2
        with pytest.raises(MutatorError, match="which is not to be replaced"):
            HiveTable(spark, "spelled").stage(frame, "run-2", [{"n": "8", "d": "2026-01-31"}])
        return True

    assert hive.run(case)


@pytest.mark.thorough(keep=0)
def test_instants_are_the_same_in_every_time_zone(hive):
    def case(spark):
        spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
        spark.sql("CREATE TABLE times (t TIMESTAMP, l TIMESTAMP_NTZ) USING parquet")
        spark.sql("CREATE TABLE old_times (t TIMESTAMP) STORED AS ORC")
        at = "TIMESTAMP'2026-03-29 01:30:00.123456Z'"
        local = "TIMESTAMP_NTZ'2026-03-29 02:30:00.123456'"  # a local time that does not exist in Berlin
        found = []
        for name, query in (("times", f"SELECT {at} AS t, {local} AS l"), ("old_times", f"SELECT {at} AS t")):
            table = HiveTable(spark, name)
            assert table.schema.field("t").type == pa.timestamp("us", "UTC")
            spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
            table.commit(table.stage(spark.sql(query), "run-1", None))
            spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
            row = HiveTable(spark, name).read().selectExpr("unix_micros(t)", "*").head()
            found += [row[0], *(str(value) for value in row[2:])]
        return found

    micros = 1774747800123456
    assert hive.run(case) == [micros, "2026-03-29 02:30:00.123456", micros]


@pytest.mark.thorough(keep=0)
def test_statistics_are_correct(hive):
    """Hive and Spark answer or plan queries with statistics."""

    def case(spark):
        spark.sql("CREATE TABLE counted (a INT) PARTITIONED BY (dt STRING) STORED AS ORC")
        spark.sql("INSERT INTO counted PARTITION (dt = 'x') VALUES (1), (2)")
        spark.sql("ANALYZE TABLE counted PARTITION (dt) COMPUTE STATISTICS")
        spark.sql("ANALYZE TABLE counted COMPUTE STATISTICS FOR ALL COLUMNS")
        table, staged = change(spark, "counted", [(5, "x")], "run-1", [{"dt": "x"}])
        assert not table._entry().stats().isDefined()
        (partition,) = table._metastore.partitions("default", "counted")
        noted = dict(table._metastore.items(partition.parameters()))
        assert {key for key in noted if STATISTICS.fullmatch(key)} == {"numFiles", "totalSize"}
        with pytest.raises(MutatorError, match="a row is not of dt=y"):  # a static insert would use it
            table.stage(frame_of(spark, table, [(5, "x")]), "run-2", [{"dt": "y"}])
        table.discard("run-2")
        assert noted["totalSize"] == str(sum(file.bytes for file in staged.files))
        return True

    assert hive.run(case)


# --- refused changes


def test_tables_that_the_bridge_cannot_change(hive):
    def case(spark, root):
        spark.sql("CREATE TABLE rows_of_text (a INT) STORED AS TEXTFILE")
        spark.sql("CREATE VIEW seen AS SELECT * FROM rows_of_text")
        spark.sql("CREATE TABLE in_buckets (a INT) USING parquet CLUSTERED BY (a) INTO 2 BUCKETS")
        in_buckets = "CLUSTERED BY (a) INTO 2 BUCKETS"
        spark.sql(f"CREATE TABLE acid (a INT) {in_buckets} STORED AS ORC TBLPROPERTIES ('transactional'='true')")
        spark.sql("CREATE TABLE nested (a INT) STORED AS ORC")
        Path(root, "warehouse", "nested", "sub").mkdir()
        errors = []
        for name in ("none", "no.such.table", "rows_of_text", "seen", "in_buckets", "acid", "nested"):
            with pytest.raises(MutatorError) as caught:
                HiveTable(spark, name).files()
            errors.append((caught.value.kind, caught.value.exit_code, str(caught.value)))
        spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
        with pytest.raises(MutatorError, match="ignoreMissingFiles is true") as caught:
            HiveTable(spark, "nested").read()
        assert caught.value.kind == "hive.setting"
        return errors

    errors = hive.run(case, str(hive.root))
    assert [kind for kind, _, _ in errors] == ["hive.missing"] * 2 + ["hive.kind"] * 4 + ["hive.nested"]
    assert [code for _, code, _ in errors] == [2] * 6 + [3]
    parts = ["none: there is no such table", "no.such.table", "TextInputFormat", "is a view", "bucket", "transactional"]
    assert [part for part, (_, _, text) in zip(parts, errors, strict=False) if part not in text] == []


@pytest.mark.thorough(keep=0)
def test_table_that_another_process_moved(hive):
    def case(spark, root):
        spark.sql("CREATE TABLE moved (a INT) STORED AS ORC")
        table = HiveTable(spark, "moved")
        staged = table.stage(spark.sql("SELECT 1 AS a"), "run-1", None)
        Path(root, "elsewhere").mkdir()
        spark.sql(f"ALTER TABLE moved SET LOCATION '{root}/elsewhere'")
        with pytest.raises(MutatorError) as caught:
            table.commit(staged)
        assert caught.value.kind == "hive.changed"
        spark.sql(f"ALTER TABLE moved SET LOCATION '{staged.moves[0].old}'")  # the path that is searched
        table.discard(staged.run)
        assert not exists(staged.files)
        table.commit(other := table.stage(spark.sql("SELECT 2 AS a"), "run-2", None))
        with pytest.raises(MutatorError) as caught:
            table.discard(other.run)
        assert caught.value.kind == "hive.live"
        table.retire(other)
        table.retire(other)
        check_rows(spark, "moved", [(2,)])
        return True

    assert hive.run(case, str(hive.root))


def test_session_without_a_metastore_is_refused():
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: "in-memory"))
    with pytest.raises(MutatorError) as caught:
        HiveTable(session, "any")
    assert caught.value.kind == "hive.session"


@pytest.mark.soak  # test_bridge_hive covers this error, too
def test_second_process_on_the_embedded_metastore_is_an_error(hive):
    program = "from mutator.engine.spark.session import spark_session\nwith spark_session('second'): pass"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=hive.environment,
        cwd=hive.root,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "StateError: the embedded metastore is open in another process" in done.stderr
    assert "\tat " not in done.stderr
    assert not list(hive.root.glob("derby.log"))


# --- kills


@pytest.mark.thorough(keep=0)
def test_a_partition_that_cannot_be_moved_stops_its_whole_batch(hive):
    def case(spark):
        spark.sql("CREATE TABLE batch (a INT) PARTITIONED BY (n INT) STORED AS ORC")
        table, staged = change(spark, "batch", [(n, n) for n in range(4)], "run-1", [{"n": str(n)} for n in range(4)])
        store, before = table._metastore, table._locations()
        entries = store.partitions("default", "batch")
        moved = [
            store.copy(one, storage=store.at(one.storage(), f"{staged.root}/x{i}")) for i, one in enumerate(entries)
        ]
        moved.insert(2, store.copy(moved[0], spec=store.spec({"n": "77"})))
        with pytest.raises(MutatorError) as caught, store.faults("batch"):
            store.alter_partitions("default", "batch", moved)
        assert caught.value.kind == "hive.metastore"
        assert table._locations() == before
        del moved[2]
        store.alter_partitions("default", "batch", moved)
        assert {location.rpartition("/")[2] for location in table._locations().values()} == {"x0", "x1", "x2", "x3"}
        return True

    assert hive.run(case)


# The failpoints that a table with partitions passes, in the second half of these; then those of other tables.
WHOLE_POINTS = ("hive.statistics.removed", "hive.old.removed")
PARTS_POINTS = [point for point in HIVE_FAILPOINTS if point not in WHOLE_POINTS]
COMMITTED = HIVE_FAILPOINTS.index("hive.switched")


def content(version):
    """Return the partitions of a version, each with its value: a version creates, empties and changes one each."""
    return {"same": 0, "changed": version, ("even", "odd")[version % 2]: version}


def rows_at(version):
    return sorted(((value, dt) for dt, value in content(version).items()), key=str)


def next_version(spark, version, log):
    """Resolve the state that the run before left and clean up, as a run does; then change the table."""
    table = HiveTable(spark, "killed")
    before = Staged.of(json.loads(Path(log).read_text())) if Path(log).exists() else None
    found = rows_of(spark, "killed")
    assert found in (rows_at(version - 1), rows_at(version))
    committed = before is not None and table.is_committed(before)
    if committed:
        assert found == rows_at(int(before.run.removeprefix("run-")))
        assert set(before.files) <= set(table.files())
        table.retire(before)
        table.retire(before)
    elif before is not None:
        assert not set(before.files) & set(table.files())
        table.discard(before.run)
    if found != rows_at(version):
        table.discard(f"run-{version}")
    assert rows_of(spark, "killed") == found
    now = version if found == rows_at(version) else version - 1
    left = {path.name for path in Path(log).parent.joinpath("warehouse/killed/_mutator").glob("*")}
    assert f"run-{version}" not in left or now == version
    assert not [row for row in spark.sql("SHOW TABLES").collect() if row.tableName.startswith("mutator_")]
    partitions = {row[0] for row in spark.sql("SHOW PARTITIONS killed").collect()}
    assert partitions == {f"dt={dt}" for dt in content(now)}

    named = [{"dt": dt} for dt in ("changed", "even", "odd")]
    rows = [row for row in rows_at(now + 1) if row[1] != "same"]
    staged = table.stage(frame_of(spark, table, rows), f"run-{now + 1}", named)
    Path(log).write_text(json.dumps(staged.record()))
    table.commit(staged)
    table.retire(staged)
    return now + 1


@pytest.mark.soak  # test_bridge_hive kills at the most important of these points
def test_kill_at_each_point_leaves_old_or_new(hive):
    def begin(spark):
        spark.sql("CREATE TABLE killed (a INT) PARTITIONED BY (dt STRING) STORED AS ORC")
        spark.sql("SET hive.exec.dynamic.partition.mode=nonstrict")
        spark.sql("INSERT INTO killed VALUES (0, 'same'), (0, 'changed'), (0, 'even')")

    def read_state(spark):
        return rows_of(spark, "killed")

    hive.run(begin)
    version, log = 1, hive.root / "log.json"
    for point in PARTS_POINTS:
        assert hive.run(next_version, version, str(log), point=point) is None, point
        seen = hive.run(read_state)
        assert seen in (rows_at(version - 1), rows_at(version)), point  # it may be killed in the cleanup, too
        assert seen != rows_at(version) or not point_is_before_commit(point), point
        version += seen == rows_at(version)
    assert hive.run(next_version, version, str(log)) == version > 1


def point_is_before_commit(point):
    return HIVE_FAILPOINTS.index(point) < COMMITTED or point.startswith("hive.discard")


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize("point", WHOLE_POINTS)
def test_kill_around_the_commit_of_a_table_without_partitions(hive, point):
    name, log = point.replace(".", "_"), hive.root / f"{point}.json"

    def killed(spark):
        spark.sql(f"CREATE TABLE {name} STORED AS ORC AS SELECT 1 AS a")
        spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS")
        table = HiveTable(spark, name)
        staged = table.stage(spark.sql("SELECT 2 AS a"), "run-1", None)
        log.write_text(json.dumps(staged.record()))
        table.commit(staged)

    def recovered(spark):
        table, staged = HiveTable(spark, name), Staged.of(json.loads(log.read_text()))
        seen = rows_of(spark, name), table.is_committed(staged), table.files() == staged.files
        table.commit(staged)  # continues from the state that the killed run left
        table.retire(staged)
        check_rows(spark, name, [(2,)])
        return seen

    hive.run(killed, point=point)
    new = not point_is_before_commit(point)
    assert hive.run(recovered) == ([(2 if new else 1,)], new, new)


@pytest.mark.soak
def test_kill_of_the_jvm_in_the_commit_of_many_partitions(hive):
    """Kill Spark and its metastore (kill -9) at any moment of the one request: all partitions have moved, or none."""
    log, marker, partitions = hive.root / "many.json", hive.root / "marker", 24

    def stage(spark, number):
        if number == 0:
            spark.sql("CREATE TABLE many (a INT) PARTITIONED BY (n INT) STORED AS ORC")
        table = HiveTable(spark, "many")
        frame = spark.range(partitions).selectExpr(f"{number} AS a", "CAST(id AS INT) AS n")
        staged = table.stage(frame.coalesce(1), f"run-{number}", [{"n": str(n)} for n in range(partitions)])
        log.write_text(json.dumps(staged.record()))
        if number == 0:
            table.commit(staged)

    def commit(spark):
        table = HiveTable(spark, "many")
        alter = table._metastore.alter_partitions

        def marked(*arguments):
            marker.touch()
            alter(*arguments)

        table._metastore.alter_partitions = marked
        table.commit(Staged.of(json.loads(log.read_text())))

    def read_state(spark):
        table = HiveTable(spark, "many")
        return {row[0] for row in table.read().collect()}, table.is_committed(Staged.of(json.loads(log.read_text())))

    hive.run(stage, 0)
    for number in range(1, 1 + int(os.environ.get("MUTATOR_JVM_KILLS", "1"))):
        hive.run(stage, number)
        marker.unlink(missing_ok=True)
        before = hive.run(read_state)[0]
        thread = threading.Thread(target=lambda: hive.run_anyhow(commit))
        thread.start()
        while not marker.exists():
            time.sleep(0.001)
        time.sleep(random.random() * 0.6)
        hive.kill()
        thread.join()
        hive.start()
        rows, committed = hive.run(read_state)
        assert rows == ({number} if committed else before)
