"""The benchmark of patches: its data, its figures, and what its contenders make of the data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from bench.contenders.mutator_patches import PatchesBesideUpserts
from bench.digest import data_files, digest
from bench.figures import Outcome, Result, Run
from bench.layout import PATCHED, PATCHED_FIELDS
from bench.patch_figures import patch_targets
from bench.patches import PATCHES, UPSERTS, write_master_of_patches, write_patches
from bench.report import markdown
from bench.workload import workloads
from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
ROWS, MUTATIONS = 2000, 1000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("patches")
    write_master_of_patches(directory / "master", ROWS)
    for kind in (PATCHES, UPSERTS):
        write_patches(directory / kind, kind, ROWS, MUTATIONS)
    return directory


def merged(data: Path) -> pa.Table:
    """Return what patches make of the master: the newest value of each field, in the order of time."""
    rows = {row["id"]: [row] for row in pq.read_table(data / "master").to_pylist()}
    for row in pq.read_table(data / PATCHES).to_pylist():
        rows[row["id"]].append(row)
    found = []
    for some in rows.values():
        some.sort(key=lambda row: row["time"])
        newest = {name: value for row in some for name, value in row.items() if value is not None}
        found.append({name: newest[name] for name in PATCHED_FIELDS})
    return pa.Table.from_pylist(found, pq.read_table(data / "master").schema)


def test_patches_set_two_fields_of_the_mutations_that_upserts_have(data: Path, tmp_path: Path) -> None:
    patches, upserts = (pq.read_table(data / kind) for kind in (PATCHES, UPSERTS))
    assert patches.select(["id", "time"]) == upserts.select(["id", "time"])
    values = [[row[name] for name in PATCHED_FIELDS[1:-1]] for row in patches.to_pylist()]
    assert {sum(value is not None for value in row) for row in values} == {2}
    assert len({tuple(value is None for value in row) for row in values}) == 6
    assert not any(column.null_count for column in upserts.columns)
    write_patches(tmp_path / PATCHES, PATCHES, ROWS, MUTATIONS)
    written, before = data_files(tmp_path / PATCHES), data_files(data / PATCHES)
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in before]


def test_patches_give_the_newest_value_of_each_field(data: Path, tmp_path: Path) -> None:
    pq.write_table(merged(data), tmp_path / "expected.parquet")
    paths = {"master": data / "master", "feed": data / PATCHES, "output": tmp_path / "merged"}
    report = mutator.merge(**paths, config=PATCHED | {"ignore.null.updates": "all"}, runner="local")
    assert digest(data_files(tmp_path / "merged")) == digest([tmp_path / "expected.parquet"])
    assert report.counts["feed late"] > 0 < report.counts["feed combined"]


@pytest.mark.rest
def test_patches_and_upserts_take_the_same_steps(data: Path, tmp_path: Path) -> None:
    contender = PatchesBesideUpserts()
    contender.prepare(data / "master", tmp_path / "state")
    steps = [list(contender.run(data, tmp_path / "output").steps) for _ in range(2)]
    assert sorted(steps[0]) == sorted(steps[1])
    assert len(steps[0]) == 6
    assert [some[0] for some in steps] == ["run of upserts", "run of patches"]


@pytest.mark.soak
def test_a_small_run_of_all_contenders(tmp_path: Path) -> None:
    """The result of mutator, in runs and in a table, must equal those of the others."""
    command = [sys.executable, "-m", "bench", "--size", "20000", "--work", "patches", "--repeat", "1"]
    done = subprocess.run(
        [*command, "--out", tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["outcomes"]
    assert [len(outcome["results"]) for outcome in outcomes] == [6, 1]


def test_the_targets_follow_from_the_figures_of_each_round() -> None:
    works = {workload.work: workload for workload in workloads(12_000_000, "patches")}
    rounds = [
        {"run of upserts": one, "run of patches": one * 1.2, "apply of upserts": 1.0, "apply of patches": 1.5}
        | {"scan after upserts": 1.0, "scan after patches": 1.04}
        for one in (1.0, 9.0)
    ]
    seconds = {"mutator run aligned": 2.0, "pyspark process": 9.0}
    outcomes = [
        Outcome(works["patches"], tuple(Result(name, [Run(time, 0, 0, 0)]) for name, time in seconds.items())),
        Outcome(
            works["patches beside upserts"],
            (Result("patches beside upserts", [Run(1, 0, 0, 0, steps) for steps in rounds]),),
        ),
    ]
    assert [target.reached for target in patch_targets(outcomes)] == [False, True, False, True]
    assert [target.reached for target in patch_targets([])] == [None] * 4
    assert "- missed: patches, apply of patches: at most 1.4 times apply of upserts: 1.50 times" in markdown(
        outcomes, {}
    )
