"""Every runner writes the same files, byte for byte: a thread, several, processes, and Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mutator
from mutator.dataset import manifest
from mutator.engine.local.local_runner import local_runner
from mutator.engine.local.processes import workers_of
from mutator.errors import MutatorError
from mutator.pipeline import merge
from mutator.pipeline.report import Report
from mutator.pipeline.runners import engine_of
from mutator.plan.runner_choice import RunnerChoice
from tests.laws.test_golden import CASES, run_feeds
from tests.support import local_engine
from tests.support.cluster import ROOT, SAMPLE, environment, merged_sample, rows
from tests.support.columns_data import file_of
from tests.support.no_limits import NO_LIMITS

Mutate = Callable[..., Report]
NOW = ("20270115T080000Z-0123abcd", 1_800_000_000_000)  # ID and commit time of every run
SMALL = {"split.bytes": "40", "num.reducer": "3"}  # several tasks for each step


@pytest.fixture(scope="module", params=[(2, 1), (1, 2)], ids=["processes", "threads"])
def in_workers(request: Any) -> Iterator[Mutate]:
    """Yield a merge in two processes, or in two threads."""
    with workers_of(*request.param) as workers:

        def mutate(config: Any, *, engine: str = "auto", **paths: Any) -> Report:
            # As many groups of partitions as the other runners make.
            with local_runner(workers, parallelism=2) as runner:
                return merge.run(engine_of(runner, RunnerChoice("local", 2, "")), config, **paths, engine=engine)

        yield mutate


@pytest.fixture(autouse=True)
def same_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give all runs the same ID and time, which are in the names and headers of files."""
    monkeypatch.setattr(merge, "identity", lambda known: NOW)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=7))


@pytest.fixture(autouse=True)
def all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps that read little run in all workers, too."""
    monkeypatch.setattr("mutator.plan.runner_choice._ONE_PROCESS", -1)


def files_of(directory: Path) -> dict[str, bytes]:
    """Return the content of every file below a directory.

    An Avro file has a random marker between its blocks, so it is left out, and so are manifests, which have checksums.
    """
    files = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    if not any(name.endswith(".avro") for name in files):
        return files
    return {
        name: content.replace(content[-16:], b"marker") if name.endswith(".avro") else content
        for name, content in files.items()
        if "manifest" not in name
    }


def outputs_of(case: Path, work: Path, mutate: Mutate, overrides: Any) -> dict[str, Any]:
    """Return the files of all outputs of a golden case, or its error."""
    work.mkdir()
    _, result, _ = run_feeds(case, work, mutate, overrides)
    if isinstance(result, MutatorError):
        return {"error": (result.kind, result.exit_code)}
    return files_of(work)


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


SETTINGS = tuple(f"{name}={value}" for name, value in SMALL.items())


@pytest.mark.processes
@pytest.mark.thorough(keep=4, rest=60)
@pytest.mark.parametrize("engine", ["blocks", "records"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_workers_write_the_same_files(case: Path, engine: str, in_workers: Mutate, tmp_path: Path) -> None:
    here = outputs_of(case, tmp_path / "a", partial(local_engine.mutate, engine=engine), SETTINGS)
    there = outputs_of(case, tmp_path / "b", partial(in_workers, engine=engine), SETTINGS)

    assert differing(here, there) == []


@pytest.mark.thorough(keep="untouched_buckets", rest=12)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_spark_writes_the_same_files(case: Path, sc: Any, tmp_path: Path) -> None:
    engine = ("blocks", "records")[CASES.index(case) % 2]
    here = outputs_of(case, tmp_path / "a", partial(local_engine.mutate, engine=engine), SETTINGS)
    there = outputs_of(case, tmp_path / "b", partial(mutator.mutate, sc, engine=engine), SETTINGS)

    assert differing(here, there) == []


@pytest.mark.thorough(keep=0, rest=2)
@pytest.mark.parametrize("scope", ["table", "partition"])
@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_spark_overwrites_the_same_partitions(operation: str, scope: str, sc: Any, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "b.txt").write_text("".join(f"{key},5,base,p{key % 5}\n" for key in range(100)))
    (tmp_path / "feed").mkdir()
    for number in range(2):
        rows = "".join(f"{key},{number + 4},over,p{key % 2}\n" for key in range(number, 60, 3))
        (tmp_path / "feed" / f"f_{number}.txt").write_text(rows)
    given = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "key.scope": scope, **SMALL, **NO_LIMITS}
    paths = {"master": str(tmp_path / "base"), "feed": []}
    local_engine.mutate({**given, "partitioned.by": "p=3"}, **paths, output=str(tmp_path / "m"))
    overwrite = {"config": {**given, "write.operation": operation}, "master": str(tmp_path / "m")}
    overwrite["feed"] = [str(tmp_path / "feed")]
    here = local_engine.mutate(**overwrite, output=str(tmp_path / "here"))
    there = mutator.mutate(sc, **overwrite, output=str(tmp_path / "there"))

    assert there.counts == here.counts
    assert (there.replaced, there.partitions) == (here.replaced, here.partitions)
    assert here.counts["master deleted by absence"] > 0
    names = {"here": files_of(tmp_path / "here"), "there": files_of(tmp_path / "there")}
    data = [{name: found for name, found in one.items() if "/part-" in name} for one in names.values()]
    assert sorted(map(os.path.dirname, data[0])) == sorted(map(os.path.dirname, data[1]))
    assert sorted(data[0].values()) == sorted(data[1].values())


FORMATS = ["csv", "avro", "parquet", "orc"]
KEYED = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", **SMALL, **NO_LIMITS}


def table(start: int, stop: int, at: int) -> Any:
    """Return a table with a row for each number of a range."""
    numbers = list(range(start, stop))
    days = [f"2026-01-{number % 3 + 1:02d}" for number in numbers]
    names = [f"name {number}, {at}" for number in numbers]
    return pa.table({"id": numbers, "name": names, "day": days, "at": [at] * len(numbers)})


def put(directory: Path, file_format: str) -> dict[str, Any]:
    """Write a master of two files and a feed; return the arguments of a merge."""
    for name, content in {
        "master/m_1": table(0, 40, 5),
        "master/m_2": table(40, 60, 5),
        "feed/u_1": table(30, 70, 7),
        "feed/u_2": table(35, 45, 4),
    }.items():
        path = directory / f"{name}.{file_format}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file_of(file_format, content))
    return {"master": str(directory / "master"), "feed": [str(directory / "feed")]}


@pytest.mark.thorough(keep=2)
@pytest.mark.processes
@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_workers_write_the_same_files_in_each_format(
    file_format: str, partitioned: bool, in_workers: Mutate, tmp_path: Path
) -> None:
    paths = put(tmp_path, file_format)
    check_format(partitioned, paths, tmp_path, in_workers)


@pytest.mark.thorough(keep=0, rest=2)
@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_spark_writes_the_same_files_in_each_format(
    file_format: str, partitioned: bool, sc: Any, tmp_path: Path
) -> None:
    paths = put(tmp_path, file_format)
    check_format(partitioned, paths, tmp_path, partial(mutator.mutate, sc))


def check_format(partitioned: bool, paths: dict[str, Any], work: Path, mutate: Mutate) -> None:
    """Merge twice, the second time into the output of the first; compare with a merge in this process."""
    settings = {**KEYED, **({"partitioned.by": "day"} if partitioned else {})}
    found = []
    for name, how in (("a", local_engine.mutate), ("b", mutate)):
        first, second = work / name / "first", work / name / "second"
        how(settings, **paths, output=str(first))
        again = {**settings, "consumed.files": "merge"}
        how(again, master=str(first), feed=paths["feed"], output=str(second))
        found.append(files_of(work / name))
    assert len(found[0]) > 6
    assert differing(*found) == []


@pytest.mark.processes
def test_a_killed_worker_publishes_nothing(tmp_path: Path) -> None:
    """The worker that opens the first output file is killed; the run after it removes what it left."""
    # Two worker processes, although the sample is small.
    code = (
        "from mutator.plan import runner_choice; runner_choice._ONE_PROCESS = 0; from mutator import cli; cli.entry()"
    )
    paths = ["--master", str(SAMPLE / "master"), "--feed", str(SAMPLE / "feed"), "--output", str(tmp_path / "out")]
    words = [sys.executable, "-c", code, "run", "--config", str(SAMPLE / "bumu.properties"), *paths, "--json"]
    quiet = environment(PYTHONPATH=str(ROOT))

    killed = subprocess.run(
        words, env={**quiet, "MUTATOR_FAILPOINT": "task.data.opened"}, capture_output=True, text=True
    )

    assert killed.returncode == 4, killed.stderr
    assert "the system killed a worker process of this run" in killed.stderr
    assert "Traceback" not in killed.stderr
    assert not (tmp_path / "out").exists()
    left = sorted(os.listdir(tmp_path))

    again = subprocess.run(words, env=quiet, capture_output=True, text=True)

    assert again.returncode == 0, again.stderr
    report = json.loads(again.stdout)
    assert report["runner"].startswith("local, this process and up to 2 more: ")
    assert [Path(path).name for path in report["litter"]] == left
    assert rows(tmp_path / "out") == merged_sample()
    assert (tmp_path / "out" / manifest.PATH).exists()
