"""The benchmark of the versioned table: its workloads, its contenders, its figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import groups_of
from bench.figures import Outcome, Result, Run
from bench.overwrite_figures import overwrite_targets
from bench.report import markdown, target_lines
from bench.table_figures import table_remarks, table_targets
from bench.workload import workloads
from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def made_up(work, seconds):
    workload = next(workload for workload in workloads(12_000_000, "table") if workload.work == work)
    return Outcome(workload, tuple(Result(name, [Run(time, 0, 0, 0)]) for name, time in seconds.items()))


def test_applies_to_one_table_are_one_group():
    works = [*workloads(20_000, "table"), *workloads(20_000, "5%"), *workloads(20_000, "50%")]

    groups = [[workload.work for workload in group] for group in groups_of(works)]

    assert groups[0] == ["table 100", "table 0.1%", "table 5%"]
    assert groups[1:5] == [["table compaction"], ["table reads"], ["table on Spark"], ["table files"]]
    assert groups[-2:] == [["5%"], ["50%"]]


def test_the_targets_of_applies_follow_from_the_figures():
    outcomes = [
        made_up("table 100", {"mutator table": 0.1, "delta-rs merge": 3.0}),
        made_up("table 0.1%", {"mutator table": 0.5, "mutator rewrite": 4.0}),
    ]

    reached = {target.text: target.reached for target in table_targets(outcomes)}

    assert reached["table, apply of 100 rows: at most 0.15 s"] is True
    assert reached["table, apply of 100 rows: 20 times as fast as delta-rs merge"] is True
    assert reached["table, apply of 0.1 %: at most 0.4 s"] is False
    assert reached["table, apply of 0.1 %: 10 times as fast as mutator rewrite"] is False
    assert reached["table, apply of 0.1 %: 10 times as fast as delta-rs merge"] is None
    assert reached["table, apply of 5 %: at most 2 s"] is None
    assert "missed: table, apply of 0.1 %: at most 0.4 s: 0.50 s" in target_lines(outcomes)


STEPS = {
    "scan of 1 version": 2.0,
    "scan of 10 versions of 0.1 %": 2.2,
    "scan of 100 versions of 0.1 %": 3.2,
    "get a key of 1 version": 0.004,
}
VERSION = {
    "version": 2,
    "mutations": 12_000,
    "rows": 10_000,
    "data": 300_000,
    "key index": 205_000,
    "hidden rows": 0,
    "version index": 0,
    "tombstones": 1,
    "tombstone bytes": 900,
    "log entry": 3_000,
}


def of_steps(work, steps, **more):
    workload = next(workload for workload in workloads(12_000_000, "table") if workload.work == work)
    runs = [Run(1.0, 0, 0, 0, {name: factor * time for name, time in steps.items()}) for factor in (1, 2, 0.5)]
    return Outcome(workload, (Result(work, runs, more=more),))


def test_the_targets_of_reads_follow_from_the_medians_of_the_steps():
    outcome = of_steps("table reads", STEPS)

    found = {target.text: target for target in table_targets([outcome])}

    assert found["table, scan of 10 versions of 0.1 %: at most 1.2 times scan of 1 version"].reached is True
    late = found["table, scan of 100 versions of 0.1 %: at most 1.5 times scan of 1 version"]
    assert (late.reached, late.measured) == (False, "1.60 times (3.20 s, 2.00 s)")
    assert found["table, get a key of 1 version: at most 0.01 s"].measured == "0.0040 s"
    assert found["table, memory of the driver for 1,000,000 files: below 1.5 GB"].reached is None


def test_the_targets_of_reads_on_spark_are_times_of_plain_parquet():
    steps = {"count, plain Parquet": 0.2, "count, Table.dataframe": 0.8, "group-by, plain Parquet": 2.0}
    steps |= {"group-by, Table.dataframe": 3.0, 'group-by, format("mutator")': 6.0}

    found = {target.text: target for target in table_targets([of_steps("table on Spark", steps)])}

    count = found["table, count, Table.dataframe: at most 3.5 times count, plain Parquet"]
    assert (count.reached, count.measured) == (False, "4.00 times (0.80 s, 0.20 s)")
    assert found["table, group-by, Table.dataframe: at most 2 times group-by, plain Parquet"].reached is True
    text = 'table, group-by, format("mutator"): at most 4 times group-by, plain Parquet'
    assert found[text].measured == "3.00 times (6.00 s, 2.00 s)"


def test_the_memory_of_a_driver_is_that_of_its_largest_step():
    steps = {"open: 10,000 versions, 100,000 files": 0.2, "open: 100 versions, 1,000,000 files": 1.0}
    outcome = of_steps("table files", steps, peaks=dict(zip(steps, (4e8, 1.6e9), strict=True)))

    found = {target.text: target.measured for target in table_targets([outcome]) if target.reached is not None}

    assert found == {
        "table, open: 10,000 versions, 100,000 files: at most 0.3 s": "0.20 s",
        "table, memory of the driver for 1,000,000 files: below 1.5 GB": "1.60 GB",
    }
    assert "open: 10,000 versions, 100,000 files: 0.20 s, peak memory 400 MB" in table_remarks(outcome)


def test_the_report_has_steps_and_bytes():
    outcome = of_steps("table reads", STEPS, versions=[VERSION])

    *steps, added = table_remarks(outcome)
    assert steps == [
        "scan of 1 version: 2.00 s",
        "scan of 10 versions of 0.1 %: 2.20 s, 1.10 times scan of 1 version",
        "scan of 100 versions of 0.1 %: 3.20 s, 1.60 times scan of 1 version",
        "get a key of 1 version: 0.0040 s",
    ]
    assert added.startswith(
        "bytes of version 2, 12,000 mutations: data 30.0 for each of 10,000 new rows, key index 20.5"
    )
    assert added.endswith("tombstones and their key index 900.0 for each of 1 tombstone, log entry 3,000 bytes")
    assert "hidden" not in added
    assert f"- {steps[1]}" in markdown([outcome], {})


@pytest.mark.soak
@pytest.mark.processes
def test_a_small_run_of_tables(tmp_path):
    """An apply leaves the same rows as a merge to a new directory, and everything is measured."""
    command = [sys.executable, "-m", "bench", "--size", "5000", "--work", "table", "--repeat", "1", "--out", tmp_path]

    done = subprocess.run(
        [*command, "--only", "mutator table,mutator rewrite,table"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    outcomes = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["outcomes"]
    *applies, reads, on_spark, files = outcomes
    assert [outcome["workload"]["mutations"] for outcome in applies] == [100, 5, 250]
    assert list(reads["results"][0]["runs"][0]["steps"]).count("get a key of 1 version") == 1
    assert len(on_spark["results"][0]["runs"][0]["steps"]) == 6
    assert len(files["results"][0]["more"]["peaks"]) == 12
    for outcome in applies:
        table, rewrite = outcome["results"]
        assert (table["name"], rewrite["name"]) == ("mutator table", "mutator rewrite")
        assert table["digest"] == rewrite["digest"]
        assert table["digest"]["rows"] == table["more"]["counts"]["output rows"]


SCOPES = ("partition scope", "table scope")
TABLES = [f"mutator overwrite, {scope}" for scope in SCOPES]
RUNS = [f"mutator run, {scope}" for scope in SCOPES]


def test_the_targets_of_overwrites_follow_from_the_figures():
    some, one, everything = workloads(12_000_000, "overwrite")

    def outcome(workload, seconds):
        made = [Result(name, [Run(time, 0, 0, 0)]) for name, time in seconds.items()]
        writing = Result("pyarrow write", [Run(0.5, 0, 0, 0, {"pyarrow writes the rows": 0.1})])
        return Outcome(workload, (*made, writing))

    outcomes = [
        outcome(some, {TABLES[0]: 1.0, TABLES[1]: 2.0, "delta overwrite": 6.0}),
        outcome(one, {TABLES[0]: 0.32, TABLES[1]: 0.34, RUNS[0]: 0.1}),
        outcome(everything, {TABLES[0]: 6.0, TABLES[1]: 7.0, "mutator create": 5.0}),
    ]
    reached = {target.text: target.reached for target in overwrite_targets(outcomes)}

    assert len(reached) == 14
    limit = "at most 0.2 s and 1.3 times the writing by pyarrow"
    found = [reached[f"overwrite of 1 partition: {name}, {limit}"] for name in (*TABLES, *RUNS)]
    assert found == [True, False, True, None]
    limit = "at most 1.3 times the creation of a table"
    assert [reached[f"overwrite of everything: {name}, {limit}"] for name in TABLES] == [True, False]
    peers = [f"overwrite of partitions: {name}, 5 times as fast as delta overwrite" for name in TABLES]
    assert [reached[peer] for peer in peers] == [True, False]
    assert reached[f"overwrite of everything: {TABLES[0]}, 5 times as fast as hudi overwrite"] is None
    assert f"reached: {peers[0]}: 6.00 times (1.00 s against 6.00 s)" in target_lines(outcomes)


@pytest.mark.soak
@pytest.mark.processes
def test_a_small_run_of_overwrites(tmp_path):
    """Tables and directories have the same rows afterwards, with each key scope."""
    command = [sys.executable, "-m", "bench", "--size", "5000", "--work", "overwrite", "--repeat", "1"]

    done = subprocess.run(
        [*command, "--out", tmp_path, "--only", "mutator overwrite,mutator run,mutator create,pyarrow write"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    some, one, everything = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["outcomes"]
    results = [result for outcome in (some, one, everything) for result in outcome["results"]]
    assert [result["name"] for result in results] == [
        *TABLES,
        *TABLES,
        *RUNS,
        "pyarrow write",
        *TABLES,
        "mutator create",
    ]
    for outcome in (some, one, everything):
        merged = [result for result in outcome["results"] if "counts" in result["more"]]
        assert len({json.dumps(result["digest"]) for result in merged}) == 1
        counts = merged[0]["more"]["counts"]
        assert merged[0]["digest"]["rows"] == counts["output rows"]
        assert bool(counts["master kept"]) == (outcome is not everything)
    lines = [line for line in done.stdout.splitlines() if ": overwrite of " in line]
    assert len(lines) == 14
    assert sum(line.startswith("open: ") for line in lines) == 8  # Delta and Hudi
