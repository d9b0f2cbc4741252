"""A command loads only the libraries that it needs: most of the time of a short one is that of its imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mutator

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import json, sys
from mutator import cli
code = cli.main(sys.argv[1:])
sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
sys.exit(code)
"""
SPARK = {"pyspark", "py4j", "pandas", "tqdm"}
STORAGES = {"boto3", "botocore", "hdfs_native", "smart_open", "ssl", "mutator.storage.hdfs", "mutator.storage.s3"}
ARROW = {"numpy", "pyarrow"}
FORMATS = {"fastavro", "cramjam", "pyarrow.orc", "pyarrow.dataset", "pyarrow.csv"}


def loaded_by(*words):
    """Return the modules that a process has loaded after a command."""
    command = [sys.executable, "-c", CODE, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("workflow", "run", "--help")])
def test_help_loads_no_library(words):
    assert loaded_by(*words) & (SPARK | STORAGES | ARROW | FORMATS | {"javaproperties", "xxhash"}) == set()


def test_the_package_has_its_public_names():
    assert {name for name in mutator.__all__ if not hasattr(mutator, name)} == set()
    assert set(mutator.__all__) <= set(dir(mutator))
    with pytest.raises(AttributeError, match="no attribute 'mutat'"):
        _ = mutator.mutat
