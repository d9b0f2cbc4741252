"""Every command that has tasks gives the same in several processes of this machine, which get the tasks pickled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, orc

from mutator.cli import main
from tests.support.cluster import ROOT

SALES = ROOT / "sample_data" / "sales"
PRODUCT = ROOT / "sample_data" / "product"
FIELDS = ["id", "category", "brand", "price", "stock", "changed"]

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def several_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mutator.plan.runner_choice._ONE_PROCESS", 0)
    monkeypatch.chdir(tmp_path)


def act(*words: object) -> None:
    assert main([str(word) for word in words]) == 0


def rows_below(directory: Path) -> list[bytes]:
    """Return the rows of all data files below a directory, sorted."""
    paths = (path for path in directory.rglob("part-*") if "_mutator" not in path.parts)
    return sorted(row for path in paths for row in path.read_bytes().splitlines())


@pytest.mark.soak
def test_partitioned_masters_and_split_feeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = ("--config", SALES / "sales.properties")
    paths = ("--master", SALES / "master", "--feed", SALES / "feed")
    act("run", *config, *paths, "--output", "whole")
    act("run", *config, *paths, "--output", "parted", "--partitioned-by", "store_id=0")
    act("verify", "parted")
    act("partition", *config, "--feed", SALES / "master", "--partitioned-by", "store_id=0", "--output", "master")
    act("partition", *config, "--feed", SALES / "feed", "--partitioned-by", "store_id=0", "--output", "feed")
    act("partition-runs", *config, "--master", "master", "--feed", "feed", "--output", "runs", "-v")

    assert "runner local, " in capsys.readouterr().err
    expected = rows_below(tmp_path / "whole")
    assert len(expected) > 500
    assert rows_below(tmp_path / "parted") == rows_below(tmp_path / "runs") == expected


@pytest.mark.rest
def test_the_bridge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    master = csv.read_csv(PRODUCT / "master" / "base_prod.txt", csv.ReadOptions(column_names=FIELDS))
    (tmp_path / "table").mkdir()
    for number in range(3):
        orc.write_table(master.slice(400 * number, 400), tmp_path / "table" / f"{number}.orc")

    act("bridge", "export", "--master", "table", "--output", "before")
    config = ("--config", PRODUCT / "bumu.properties", "--feed", PRODUCT / "feed")
    act("bridge", "run", "--master", "table", "--text", "copy", *config, "-v")
    act("bridge", "export", "--master", "table", "--output", "text")
    act("bridge", "import", "--text", "text", "--output", "again", "--format", "parquet")

    assert "local, this process and up to " in capsys.readouterr().out
    assert len(rows_below(tmp_path / "before")) == master.num_rows
    act("run", *config, "--master", PRODUCT / "master", "--output", "plain")
    assert rows_below(tmp_path / "text") == rows_below(tmp_path / "plain")
    read = pa.concat_tables(pq.read_table(path) for path in sorted((tmp_path / "again").glob("*.parquet")))
    assert read.num_rows == len(rows_below(tmp_path / "plain"))


def test_a_long_temporary_directory(tmp_path: Path) -> None:
    temporary = tmp_path / ("t" * 100)  # with it, a socket's path has too many bytes
    temporary.mkdir()
    program = (
        "import sys\n"
        "from mutator.plan import runner_choice\n"
        "runner_choice._ONE_PROCESS = 0\n"
        "from mutator.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = ["run", "-v", "--runner", "local", "--config", SALES / "sales.properties", "--master", SALES / "master"]
    words += ["--feed", SALES / "feed", "--output", tmp_path / "output"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", program, *words], env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "more: it was asked for" in done.stdout, "it had several processes"
    assert list(temporary.iterdir()) == []
