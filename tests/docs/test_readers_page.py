"""The page on other programs: each of its examples runs."""

import doctest
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("duckdb", reason="duckdb is not installed: make venv")
pytest.importorskip("polars", reason="polars is not installed: make venv")

PAGE = Path(__file__).parents[2] / "docs" / "readers.md"


@pytest.mark.rest
@pytest.mark.jvm
def test_the_examples_of_the_page_print_their_output(sc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spark = SparkSession.builder.getOrCreate()
    found = doctest.testfile(str(PAGE), module_relative=False, globs={"spark": spark})

    assert found.attempted > 20
    assert found.failed == 0
