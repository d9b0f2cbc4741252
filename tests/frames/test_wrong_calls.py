"""Wrong calls of ``mutator.merge``: the message names the argument, what was given, what is expected, and the cure."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

import mutator
from mutator.engine.spark.frames import check_names
from mutator.errors import DataError

TABLE = pa.table({"id": [1], "ts": [1]})
GOOD = {"master": TABLE, "feed": TABLE, "key": "id", "order_by": "ts"}
PATH_OR_TABLE = "should be a path, or a table"
CASES = {
    "no master": ({"master": None}, f"master is None, but {PATH_OR_TABLE}.*for a first run.*allow_empty_master=True"),
    "a number as master": ({"master": 7}, f"master is 7, an int, but {PATH_OR_TABLE}"),
    "no feed": ({"feed": None}, f"feed is None, but {PATH_OR_TABLE}"),
    "an empty list as feed": ({"feed": []}, "feed is an empty list, but should be a path, "),
    "None in a list": ({"feed": ["x", None]}, r"feed\[1\] is None, but should be a path"),
    "bytes": ({"feed": b"feed"}, "feed is b'feed', a bytes, but should be a path"),
    "a list in a list": ({"feed": [["a"]]}, r"feed\[0\] is a list"),
    "an empty path": ({"feed": ""}, "feed is '', a str, but should be .* an empty text is not a path"),
    "a mapping of columns": ({"feed": {"id": [1]}}, "feed is a dict, but .* pa.table"),
    "rows": ({"feed": [[{"id": 1}]]}, r"feed\[0\] is a list, but .* pa.Table.from_pylist"),
    "a generator": ({"feed": (one for one in [TABLE])}, "feed is a generator, but .*make a list of it"),
    "a pandas Series": ({"feed": pd.Series([1])}, r"feed is a pandas Series, which is one column: series.to_frame\(\)"),
    "a Polars Series": ({"feed": pl.Series([1])}, r"feed is a Polars Series, .*to_frame\(\)"),
    "an array": ({"feed": pa.array([1])}, r"feed is an Arrow array, .*pa.table"),
    "a class": ({"feed": pd.DataFrame}, "feed is a type, but"),
    "a list of paths as master": ({"master": ["a", "b"]}, "master is a list, .*a master has one directory"),
    "a table as output": ({"output": pd.DataFrame()}, "output is a pandas DataFrame, but should be the path of a new"),
    "no key": ({"key": None}, "key is None, but should be the field or fields of the record ID; name them: key='id'"),
    "an empty key": ({"key": []}, "key is an empty list, but should be the field or fields .*; name them: key='id'"),
    "an empty tuple": ({"delete_codes": ()}, "delete_codes is an empty tuple, but should be a value, .*; leave it out"),
    "an empty name": ({"key": [""]}, "key: '' must be names that are not empty, or ordinals as numbers"),
    "a field twice as order": ({"order_by": ["ts", "ts"]}, "order_by: 'ts,ts' names a field twice"),
    "a list of one word": ({"reject_policy": ["fail"]}, "'fail' must be one value, not a list"),
    "a set of texts and numbers": ({"key": {"idx", 1}}, "no input has a field idx"),
    "a list in a mapping": ({"config": {"delete_codes": [["D"]]}}, "'D' must be a list of texts or whole numbers"),
    "a flag as key": ({"key": True}, "key is True, a bool, but should be the name of a field, or its ordinal"),
    "a table as key": ({"key": TABLE}, "key is an Arrow table, but should be text, a number"),
    "a column as key": ({"key": pd.Series(["id"])}, "key is a pandas Series"),
    "bytes as codes": ({"delete_codes": b"D"}, "delete_codes is b'D', a bytes, but should be text"),
    "another field": ({"key": "idx"}, "no input has a field idx; did you mean id?"),
    "another order": ({"order_by": "t"}, "no input has a field t; did you mean ts?"),
    "no order": ({"order_by": None}, r"feed \(Arrow table\): has no file name that could order its rows; set order_by"),
    "another type": ({"order_type": "int"}, "order_type: 'int' .*long, decimal, timestamp"),
    "an unknown keyword": ({"order": "ts"}, "has no argument order; did you mean order_by\\? .docs/python.md lists"),
    "another unknown keyword": ({"outputs": "x"}, "has no argument outputs; did you mean output\\?"),
    "an unknown setting": ({"reject_polic": "fail"}, "has no argument reject_polic; did you mean reject_policy\\?"),
    "nothing like it": ({"zzz": 1}, "has no argument zzz .docs/python.md"),
    "a wrong value": ({"reject_policy": "skip"}, "  reject_policy: 'skip' .*fail.*quarantine"),
    "a published name": ({"reject.policy": "fail"}, "has no argument reject.policy; did you mean reject_policy\\?"),
    "two settings": ({"field_count": 2, "field_names": ["a"]}, "  field_names: 1 name, but field_count=2"),
    "an unknown runner": ({"runner": "sparc"}, "runner is 'sparc', a str, .*'auto', 'local', 'spark'; did you mean"),
    "an unknown engine": ({"engine": 1}, "engine is 1, an int, but should be one of 'auto', 'blocks', 'records'"),
    "a word as dry_run": ({"dry_run": "no"}, "dry_run is 'no', a str, but should be True or False"),
    "a number as config": ({"config": 7}, "config is 7, an int, but should be the path of a .properties"),
    "a missing file": ({"config": "none.toml"}, "none.toml: cannot be read as a configuration"),
    "two configurations": (
        {"config": mutator.parse({"key": "id", "order_by": "ts"})},
        "config is a Config already, and key is given, too; give config as a mapping",
    ),
    "a number as session": ({"session": 7}, "session is 7, an int, but should be a SparkSession"),
    "a path as session": ({"session": "local"}, "session is 'local', a str, but should be a SparkSession"),
    "a number as scratch": ({"scratch": 7}, "scratch is 7, an int, but should be the path"),
    "a word as default": ({"default": "x"}, "default is 'x', a str, but should be a mapping"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_call_is_explained(case):
    arguments, message = CASES[case]

    with pytest.raises(mutator.ConfigError, match=f"(?s){message}"):
        mutator.merge(**{**GOOD, **arguments})


def test_faults_of_a_file_have_the_names_in_the_file(tmp_path):
    (tmp_path / "a.properties").write_text("key=id\norder_by=ts\nreject.policy=skip\nsync.mode=x\n")

    with pytest.raises(mutator.ConfigError) as caught:
        mutator.merge(
            master=TABLE,
            feed=TABLE,
            config=tmp_path / "a.properties",
            sync_mode="full",
            key="id",
            max_delete_fraction=7,
        )
    first, *faults = str(caught.value).split("\n")
    assert first == f"{tmp_path}/a.properties: these settings cannot be used:"
    assert [fault.partition(":")[0] for fault in faults] == ["  reject.policy", "  max_delete_fraction"]


def test_faults_of_a_file_with_prefixes(tmp_path):
    lines = "rsbm.reject.policy=skip", "key=id", "id.field.ordinals=0", "order_by=ts", "rsbm.max.delete.fraction=2"
    (tmp_path / "a.properties").write_text("\n".join(lines))

    with pytest.raises(mutator.ConfigError) as caught:
        mutator.merge(master=TABLE, feed=TABLE, config=tmp_path / "a.properties", max_delete_fraction=7)
    _, *faults = str(caught.value).split("\n")
    assert faults[0] == "  key is 'id' and id.field.ordinals is '0', two names of one setting; keep one of them"
    assert {fault.partition(":")[0] for fault in faults[1:]} == {"  reject.policy", "  max_delete_fraction"}


MASTER = {"id": [1, 2, 3], "ts": [1, 1, 1]}
CURES = {
    "many deletes": ({"op": ["D"] * 3}, {"op": "op"}, "run again with max_delete_fraction=1"),
    "other codes": ({"op": ["D", "d", "u"]}, {"op": "op", "max_delete_fraction": 1}, 'use delete_codes="D,d"; or'),
    "rejects": (
        {"ts": [2, None, 2]},
        {},
        'reject_policy="quarantine" would leave it out of the result, up to',
    ),
    "an older snapshot": ({"op": ["U"] * 3}, {"op": "op", "sync_mode": "full"}, 'conflicts with sync_mode="full", '),
    "no files": ({}, {"master": "none/at/all"}, "set allow_empty_master=True for the first run"),
    "the engine": (
        {},
        {"partitioned_by": "ts", "engine": "records"},
        'engine="records" is asked .*; leave engine out',
    ),
    "a default": ({}, {"default": {"nam": 1}}, r"default\[.nam.\]: no input has a field nam"),
}


@pytest.mark.parametrize("case", CURES)
def test_cures_of_messages_are_arguments(case):
    columns, arguments, cure = CURES[case]

    with pytest.raises(mutator.MutatorError, match=f"(?s){cure}"):
        mutator.merge(
            **{**GOOD, "master": pa.table(MASTER), "feed": pa.table(MASTER | {"ts": [2] * 3} | columns), **arguments}
        )


def test_warnings_have_arguments():
    report = mutator.merge(**GOOD, delete_codes="X")

    assert report.warnings == ("delete_codes is ignored: op is missing, so nothing deletes",)


def test_positions_are_refused():
    with pytest.raises(TypeError, match="positional argument"):
        mutator.merge(TABLE, TABLE)


def test_settings_may_come_from_everywhere(tmp_path):
    (tmp_path / "a.toml").write_text('key = "x"\norder_by = "ts"\n')
    feed = TABLE.append_column("op", pa.array(["remove"]))
    given = {"master": TABLE, "feed": feed, "op": "op", "max_delete_fraction": 1}

    for config in (
        tmp_path / "a.toml",
        str(tmp_path / "a.toml"),
        {"key": "x", "temporal.ordering.field.ordinal": "ts"},
    ):
        report = mutator.merge(**given, config=config, key=["id"], delete_codes={"D", "remove"})
        assert report.counts["feed deleted"] == 1
    config = mutator.parse({"key": "id", "order_by": "ts"})
    assert mutator.merge(master=TABLE, feed=TABLE, config=config).counts["feed no-op"] == 1
    filled = mutator.merge(**(GOOD | {"feed": pa.table({"id": [2], "ts": [2], "price": [3]})}), default={"price": 0})
    assert sorted(filled.result.to_arrow()["price"].to_pylist()) == [0, 3]


def test_a_missing_package_is_named(monkeypatch):
    report = mutator.merge(**GOOD)
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(mutator.ConfigError, match=r"to_polars\(\) needs polars, .* pip install polars"):
        report.result.to_polars()
    with pytest.raises(mutator.ConfigError, match=r"to_pandas\(\) needs pandas, .* pip install pandas"):
        report.result.to_pandas()


def test_neither_polars_nor_spark_is_loaded_for_files(tmp_path):
    for name in ("m.txt", "f.txt"):
        (tmp_path / name).write_text("1,1\n")
    code = (
        "import mutator, sys;"
        "mutator.merge(master='m.txt', feed='f.txt', key=0, order_by=1).result.to_arrow();"
        "print(sorted({'polars', 'pyspark'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(mutator.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert done.stdout == "[]\n", done.stderr


def test_cures_are_arguments(tmp_path):
    master = pa.table({"id": ["a"], "at": ["2026-01-01"]})
    feed = pa.table({"id": ["a"], "at": ["2026-01-02"]})
    with pytest.raises(mutator.DataError) as caught:
        mutator.merge(master=master, feed=feed, key="id", order_by="at")
    assert '1 of 1 order values looks like ISO 8601: set order_type="timestamp". Fix' in str(caught.value)
    assert 'master_reject_policy="quarantine" would leave it out of the result, up to reject_limit' in str(caught.value)
    mutator.merge(master=master, feed=feed, key="id", order_by="at", order_type="timestamp")


@pytest.mark.parametrize(
    ("names", "case_sensitive", "says"),
    [
        (["id", "at", "id"], True, "column id is there twice"),
        (["id", "at", "ID"], False, "column ID differs from id in case alone"),
        (["id", "at", "ID"], True, None),
        (["id", {"v": ["a", "a"]}], True, "column v.a is there twice"),
        (["id", {"v": ["a"]}, {"w": ["a"]}], True, None),
    ],
)
def test_a_column_twice_in_a_spark_dataframe(names, case_sensitive, says):
    def struct(parts):
        fields = []
        for part in parts:
            ((name, inner),) = part.items() if isinstance(part, dict) else ((part, None),)
            data_type = StringType() if inner is None else ArrayType(struct(inner))
            fields.append(StructField(name, data_type))
        return StructType(fields)

    with pytest.raises(DataError) if says else nullcontext() as caught:
        check_names(struct(names), "feed[0], a Spark DataFrame", case_sensitive)
    assert says is None or str(caught.value).startswith(f"feed[0], a Spark DataFrame: {says}; rename or drop one of ")
