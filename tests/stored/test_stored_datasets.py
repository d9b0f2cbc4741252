"""Datasets, logs, entries, records and reports that were written once: read, verified, and continued as they were then.

`write_datasets.py` wrote the directory `datasets`, and says when it is written again. No test needs Spark.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from mutator import config
from mutator.bridge import PathTable
from mutator.bridge import run as run_bridge
from mutator.cli import main
from mutator.workflow import directory, many_tables
from mutator.workflow.directory.verification import verify_base
from mutator.workflow.partitions.runs import run_partitions
from tests.support import local_engine
from tests.support.bridge_tables import each, rows_of
from tests.support.master_base import run_workflow

HERE = Path(__file__).parent / "datasets"
CASES = sorted(HERE.iterdir())
RUNS = [case for case in CASES if (case / "master" / "_mutator" / "manifest.json").exists()]
RUN_ID = r"\d{8}T\d{6}Z-[0-9a-f]{8}"
# Members of answers that are not compared.
OTHERS = ("seconds", "bytes", "modified", "unread_bytes", "checked_bytes", "oldest_check", "runner", "steps")
PARQUET = (".parquet", ".tombstones", ".order", ".filters", ".changes")
UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"


def case_named(name: str) -> Any:
    """Parametrize a test by one case."""
    return pytest.mark.parametrize("case", [HERE / name], ids=[name])


every_run = pytest.mark.parametrize("case", RUNS, ids=lambda case: case.name)


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that copies a case, without the directory next/, and works in the copy."""

    def copy(case: Path, root: Path = tmp_path) -> None:
        target = root / case.name
        shutil.copytree(case, target, ignore=lambda path, _: {"next"} if Path(path) == case else set())
        monkeypatch.chdir(target)
        times = Path("times.json")
        if times.exists():
            document = json.loads(times.read_bytes())
            for name in document["directories"]:
                Path(name).mkdir(parents=True, exist_ok=True)
            for name, nanoseconds in document["files"].items():
                os.utime(name, ns=(nanoseconds, nanoseconds))

    return copy


@pytest.fixture
def root_of_bridges(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the directory in which `write.py` wrote: a bridge entry contains the full path of its table."""
    root = Path("/tmp/mutator-compat")
    with open(f"{root}.lock", "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # two checkouts may be tested at the same time
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        yield root
        monkeypatch.chdir("/")
        shutil.rmtree(root)


# -- values that differ from run to run


def normal(document: Any) -> str:
    """Return a report without its run ID, its duration, and byte counts that depend on the library that wrote the
    files.
    """
    run = document["run"] if isinstance(document, dict) else None
    text = json.dumps(document)
    found = without_times(json.loads(relative(text.replace(run, "RUN") if run else text)))
    return json.dumps(found, indent=1, sort_keys=True)


def relative(text: str) -> str:
    """Return a text with paths relative to the case, whichever directory it was written in."""
    names = "|".join(re.escape(case.name) for case in CASES)
    return re.sub(rf"(/[^\s\":]*)?/({names})/", "", text)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(one) for name, one in value.items() if name not in OTHERS}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def normal_text(text: str) -> str:
    """Return a text report with the same values replaced."""
    text = relative(re.sub(RUN_ID, "RUN", text))
    text = re.sub(r"^  runner .*\n", "", text, flags=re.MULTILINE)  # tests choose another one
    return re.sub(r"\(([\d,]+) bytes\)|\d+\.\d s\b", "N", text)


def contents(root: Path) -> dict[str, Any]:
    """Return the contents of a dataset by path, with run ID and time replaced in names and contents."""
    document = json.loads((root / "_mutator" / "manifest.json").read_bytes())
    return {
        path.relative_to(root).as_posix().replace(document["run"], "RUN"): content(path, document)
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).as_posix() != document.get("copy")
    }


def content(path: Path, document: dict[str, Any]) -> Any:
    if path.name == "manifest.json":
        for part in (*document["files"], *document["beside"]):
            part.pop("checked", None)
        document["absences"] = [high for _, high in document["absences"]]  # the others are times
        found = json.dumps({name: value for name, value in document.items() if name not in ("checksum", "copy")})
        for name, word in (("run", "RUN"), ("commit", "COMMIT"), ("committed", "NOW")):
            found = found.replace(document[name], word)
        return json.dumps(without_sizes(json.loads(found)), indent=1)  # the order of members counts, too
    if path.suffix in PARQUET:
        table = parquet.read_table(path)
        rows = json.loads(json.dumps(table.to_pylist(), default=repr).replace(document["run"], "RUN"))
        if "committed" in table.column_names:
            now = repr(pa.scalar(document["committed"]).cast(table.schema.field("committed").type).as_py())
            rows = [{**row, "committed": "NOW" if row["committed"] == now else row["committed"]} for row in rows]
        return table.schema, rows
    if path.suffix == ".orc":
        table = orc.read_table(str(path))
        return table.schema, table.to_pylist()
    if path.suffix == ".avro":
        with path.open("rb") as stream:
            reader = fastavro.reader(stream)
            return reader.writer_schema, list(reader)
    data = path.read_bytes().replace(document["run"].encode(), b"RUN")
    return relative(os.fsdecode(data)) if path.name.startswith("rejected") else data


def without_sizes(document: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without sizes and checksums of files whose bytes depend on the library or the time."""
    for part in (*document["files"], *document["beside"]):
        if part["path"].endswith((*PARQUET, ".orc", ".avro", ".tsv")):
            part["bytes"] = part["checksum"] = None
    return document


# -- runs


@every_run
def test_stored_datasets_have_no_problems(case, copied):
    copied(case)

    assert local_engine.verify("master").problems == ()
    assert local_engine.verify(str(case / "next")).problems == ()


@pytest.mark.thorough(keep=11)
@every_run
def test_the_next_run_gives_the_stored_result(case, copied):
    copied(case)
    report = local_engine.mutate(config.load("config.properties"), master="master", feed=["feed"], output="next")

    assert contents(Path("next")) == contents(case / "next")
    assert normal(json.loads(report.json())) == normal(json.loads((case / "next.json").read_bytes()))
    assert normal_text(report.text(verbose=True)) == normal_text((case / "next.txt").read_text().rstrip("\n"))
    assert local_engine.verify("next").problems == ()


def test_the_cases_cover_each_part_and_outcome():
    """Every part of a dataset on disk, and every outcome, occurs in some case."""
    manifests = [json.loads((case / "master/_mutator/manifest.json").read_bytes()) for case in RUNS]
    reports = [json.loads((case / "next.json").read_bytes()) for case in RUNS]
    kinds = {part["kind"] for one in manifests for part in one["beside"]}
    assert kinds >= {"tombstones", "order", "filters", "rejected", "schema"}
    assert any(manifest["horizon"] for manifest in manifests)
    assert any(manifest["snapshot"] for manifest in manifests)
    assert any(manifest["buckets"] is None for manifest in manifests)
    assert any(manifest["spec"].get("earlier") for manifest in manifests)
    assert {report["join"] for report in reports} >= {"aligned", "shuffle"}
    assert any(report["consumed"] for report in reports)
    counts = {name for report in reports for name, number in report["counts"].items() if number}
    outcomes = {"inserted", "updated", "deleted", "no-op", "late", "superseded", "delete of unknown", "rejected"}
    assert {f"feed {name}" for name in outcomes} <= counts
    assert {"master deleted by absence", "revived", "below horizon", "tied"} <= counts


# -- a workflow


@case_named("workflow")
def test_a_base_is_read_recovered_continued_and_restored(case, copied, capsys):
    copied(case)
    time.sleep(1.1)  # the lock is stale a second after it was copied
    settings = config.load("config.properties")

    def answer(*words: str) -> Any:
        assert main(["workflow", words[0], "base", "--config", "config.properties", *words[1:], "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert_answers(answer("status"), case / "status.json")
    assert_answers(answer("history"), case / "history.json")
    assert verify_base("base", local_engine.verify).problems == ()
    done = run_workflow("base", settings, directory.merge_by(settings, local_engine.merge))
    assert_answers(json.loads(done.json()), case / "next.json")
    assert contents(Path("base/master")) == contents(case / "next")
    assert_answers(answer("history"), case / "next-history.json")
    assert_answers(answer("restore", "--to", "1"), case / "next-restore.json")
    assert verify_base("base", local_engine.verify).problems == ()


def assert_answers(found: Any, expected: Path) -> None:
    """Compare a command's answer with the stored one, except for times and IDs of new runs."""
    assert plain(found) == plain(json.loads(expected.read_bytes()))


def plain(document: Any) -> Any:
    """Return an answer without times; IDs of runs, versions and commits become numbers in the order of first use."""
    text = json.dumps(without_times(document), sort_keys=True)  # numbers do not depend on the order of members
    for pattern, word in ((RUN_ID, "RUN"), (UUID, "UUID")):
        for number, found in enumerate(dict.fromkeys(re.findall(pattern, text))):
            text = text.replace(found, f"{word}-{number}")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(\+00:00|Z)?", "TIME", text)
    return json.loads(relative(text))


# -- a bridged table


@case_named("bridge")
def test_a_bridge_goes_on_from_its_entries(case, copied, root_of_bridges):
    copied(case, root_of_bridges)
    settings = config.load("config.properties")
    assert local_engine.verify(next(str(path) for path in Path("copy").glob("text-*"))).problems == ()
    report = run_bridge(PathTable("table", each), "copy", settings, ["feed"], local_engine.merge, each)

    assert_answers(json.loads(report.json()), case / "next.json")
    assert rows_of(Path("table")) == rows_of(case / "next")


# -- a split feed


@case_named("split_feed")
def test_a_split_feed_is_merged_partition_by_partition(case, copied):
    copied(case)
    settings = config.load("config.properties")
    done = run_partitions(settings, local_engine.merge, master="master", feed="feed", output="next")

    assert_answers(json.loads(done.json()), case / "next.json")
    partitions = sorted(path.name for path in (case / "next").iterdir() if path.is_dir() and "=" in path.name)
    assert sorted(path.name for path in Path("next").iterdir() if path.is_dir() and "=" in path.name) == partitions
    for name in partitions:
        assert contents(Path("next") / name) == contents(case / "next" / name)
        assert local_engine.verify(f"next/{name}").problems == ()


# -- many tables


@case_named("many")
def test_many_tables_are_resumed_from_their_record(case, copied, monkeypatch):
    copied(case)
    attempt = "mutator.workflow.many_tables.attempt.Attempt"
    monkeypatch.setattr(f"{attempt}.merge_on", lambda _, plan, staging: local_engine.merge(plan, staging))
    tables = many_tables.load("tables.toml", ["reject.policy=quarantine"])
    done = many_tables.run(tables, no_spark, resume=True)

    assert [(result.table, result.state) for result in done.results] == [("done", "done before"), ("failed", "done")]
    assert_answers(json.loads(done.json()), case / "next.json")
    for one in tables.tables:
        assert contents(Path("out") / one.name) == contents(case / "next" / one.name)


def no_spark() -> Any:
    raise AssertionError("no test here needs Spark")
