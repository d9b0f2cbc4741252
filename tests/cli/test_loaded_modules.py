"""A command loads only the libraries that it needs: most of the time of a short one is that of its imports."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from tests.support.cluster import ROOT, SAMPLE

CODE = """
import json, sys
from mutator import cli
try:
    cli.entry()
finally:
    sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
"""
SPARK = {"pyspark", "py4j", "pandas"}
STORAGES = {"boto3", "botocore", "hdfs_native", "smart_open", "mutator.storage.hdfs", "mutator.storage.s3"}
ARROW = {"numpy", "pyarrow"}
FORMATS = {
    *("fastavro", "cramjam", "pyarrow.orc", "pyarrow.csv", "pyarrow.dataset"),
    *("mutator.formats.files.avro", "mutator.formats.blocks.avro_rows", "mutator.formats.blocks.column_rows"),
}
PAGES = {"jinja2", "markupsafe", "prometheus_client", "openlineage", "mutator.pipeline.reports.page"}
ENGINES = {"multiprocessing", "mutator.engine.records", "mutator.engine.partitions", "mutator.engine.spark"}
RARE = {  # what a run needs for mistakes, notebooks, other formats of settings, and order by text
    *("difflib", "html", "tomllib"),
    *("mutator.rules.text_orders", "mutator.pipeline.kept_changes"),
}
CONFIG = ("--config", SAMPLE / "bumu.properties")


def loaded_by(*words):
    """Return the modules that a process has loaded after a command."""
    command = [sys.executable, "-c", CODE, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_an_overwrite_of_a_partition_of_parquet_does_not_load_avro(tmp_path):
    (tmp_path / "feed").mkdir()
    rows = {"id": ["1", "2"], "changed": [1, 2], "op": ["U", "U"], "region": ["a", "b"]}
    pq.write_table(pa.table(rows), tmp_path / "feed" / "f_1.parquet")
    names = ("--key", "id", "--order-by", "changed", "--op", "op", "--partitioned-by", "region")
    words = ("run", *names, "--feed", tmp_path / "feed")
    loaded_by(*words, "-D", "allow.empty.master=true", "--master", tmp_path / "none", "--output", tmp_path / "one")
    loaded = loaded_by(*words, "--insert-overwrite", "--master", tmp_path / "one", "--output", tmp_path / "two")

    assert "mutator.engine.partitions.partition_steps" in loaded
    assert loaded & {"fastavro", "mutator.formats.files.avro"} == set()


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("workflow", "run", "--help")])
def test_help_loads_no_library(words):
    assert (
        loaded_by(*words) & (SPARK | STORAGES | ARROW | FORMATS | ENGINES | {"javaproperties", "xxhash", "shtab"})
        == set()
    )


def test_a_small_merge_of_text_and_its_check_load_what_they_use(tmp_path):
    needless = SPARK | STORAGES | FORMATS | ENGINES | PAGES

    merged = loaded_by(
        "run", *CONFIG, "--master", SAMPLE / "master", "--feed", SAMPLE / "feed", "--output", tmp_path / "out"
    )
    verified = loaded_by("verify", tmp_path / "out")

    assert merged > ARROW
    assert merged & (needless | RARE) == set()
    assert verified > ARROW
    assert verified & (needless - {"mutator.engine.records"}) == set()


@pytest.mark.parametrize("command", ["run", "status", "history"])
def test_a_workflow_without_a_feed_loads_neither_spark_nor_arrow(tmp_path, command):
    shutil.copytree(SAMPLE / "master", tmp_path / "base" / "master")
    (tmp_path / "base" / "incr").mkdir()

    loaded = loaded_by("workflow", command, tmp_path / "base", *CONFIG)

    assert "xxhash" in loaded
    assert loaded & (SPARK | STORAGES | ARROW | FORMATS | ENGINES | PAGES) == set()


def test_a_workflow_that_merged_before_loads_no_arrow_either(tmp_path):
    base = tmp_path / "base"
    shutil.copytree(SAMPLE / "master", base / "master")
    shutil.copytree(SAMPLE / "feed", base / "incr")
    given = ("workflow", "run", base, *CONFIG, "-D", "claim.min.age=0s")

    assert loaded_by(*given) > ARROW
    assert loaded_by(*given) & (SPARK | STORAGES | ARROW | FORMATS | ENGINES) == set()


def test_workers_do_not_load_pandas():
    code = "import mutator.engine.preload, pyarrow as pa, sys; pa.array([1]).to_numpy(); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_package_has_its_public_names():
    assert {name for name in mutator.__all__ if not hasattr(mutator, name)} == set()
    assert set(mutator.__all__) <= set(dir(mutator))
    with pytest.raises(AttributeError, match="no attribute 'mutat'"):
        _ = mutator.mutat
