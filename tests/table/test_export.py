"""An export of a table is a dataset like one that a run writes, and a run on top of it gives what an apply gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator import config
from mutator.cli import main
from mutator.dataset.directory import read_manifest
from mutator.dataset.versions.opening import open_snapshot
from mutator.engine.versions import delta_files
from mutator.errors import MutatorError
from mutator.storage import storage_for
from mutator.table import apply
from mutator.table.create import create_empty
from mutator.table.export import ExportReport, export
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.support.typed_worlds import World, worlds
from tests.support.versioned import SCOPES, apply_here, left_by_run, left_of, open_runner, put_feeds


def exported(table: Path, settings: dict[str, str], output: Path, version: int | None = None) -> ExportReport:
    return export(open_snapshot(str(table), version), config.parse(settings), str(output), open_runner)


def inodes(directory: Path) -> dict[str, int]:
    return {str(path.relative_to(directory)): path.stat().st_ino for path in directory.rglob("part-*")}


@law(30)
@given(worlds([None, "", "x"]), st.sampled_from(SCOPES), st.booleans())
def test_an_export_equals_the_runs_and_a_run_continues_from_it(
    world: World, scope: dict[str, str], inline: bool
) -> None:
    rng = random.Random(world.seed)
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_INLINE_FEED", 1 << 30 if inline else 0)
        patch.setattr(delta_files, "_OWN", rng.choice([1, 2, 1 << 16]))
        settings = {**world.settings("parquet", "parquet"), **scope, "output.format": "parquet", "nanos": "reject"}
        table, master, again = work / "table", work / "master", work / "again"
        master.mkdir()
        create_empty(str(table), scope, buckets=rng.choice([1, 2, 5]))
        for number, feed in enumerate(put_feeds(world, work, rng)):
            output = work / f"out{number}"
            counts = local_engine.mutate(settings, master=str(master), feed=[str(feed)], output=str(output)).counts
            apply_here(table, config.parse(settings), feed, rng.randrange(9))
            there, known = work / f"export{number}", open_snapshot(str(table))
            exported(table, settings, there)
            exported(table, settings, again)  # each time into one directory
            assert left_by_run(output) == left_by_run(there) == left_by_run(again) == left_of(known, counts)
            assert not local_engine.verify(str(there)).problems
            assert not local_engine.verify(str(again)).problems
            master = rng.choice([there, again])
            if master == again:  # the next export replaces it
                master = work / f"copy{number}"
                exported(table, settings, master)
        first = left_by_run(work / "export0")
        exported(table, settings, again, 1)
        assert left_by_run(again) == first


@pytest.fixture
def table(tmp_path: Path, monkeypatch: Any) -> Table:
    monkeypatch.chdir(tmp_path)
    settings = {"key": "id", "order_by": "at", "order_type": "long", "op": "op", "header": "true"}
    table = Table.create("table", {**settings, "max.delete.fraction": "1"}, buckets=4)
    return merged(table, 1, *((f"k{number}", "x", 1, "I") for number in range(20)))


def merged(table: Table, number: int, *rows: tuple[str, str, int, str]) -> Table:
    Path(f"feed{number}").mkdir()
    text = "id,name,at,op\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    Path(f"feed{number}/rows{number}.csv").write_text(text)
    table.apply(f"feed{number}")
    return table


def test_only_changed_buckets_are_rewritten(table: Table) -> None:
    first = table.export("out")
    before = inodes(Path("out"))
    assert (first.rows, first.tombstones, first.kept) == (20, 0, 0)
    merged(table, 2, ("k3", "", 2, "D"))
    second = table.export("out")
    after = inodes(Path("out"))
    assert (second.rows, second.tombstones) == (19, 1)
    assert len(before.items() & after.items()) == second.kept == 3
    assert len(after) == 5
    assert not local_engine.verify("out").problems


def test_an_export_of_the_same_version_writes_nothing(table: Table) -> None:
    table.export("out")
    before = Path("out/_mutator/manifest.json").stat()
    again = table.export("out")
    assert (again.written, again.rows, Path("out/_mutator/manifest.json").stat()) == (0, 20, before)


@pytest.mark.parametrize("left", [None, -9])
def test_a_lost_or_truncated_file_of_an_export_is_written_again(
    table: Table, left: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes show it: no checksums are compared."""
    monkeypatch.setattr("mutator.table.export.due_files", lambda *_: frozenset())
    table.export("out")
    file = next(iter(Path("out").glob("*.parquet")))
    content = file.read_bytes()
    file.unlink()  # it may be a link to a file of the table
    if left:
        file.write_bytes(content[:left])
    table.export("out")
    assert not local_engine.verify("out").problems


@pytest.mark.parametrize("change", [False, True])
def test_a_damaged_file_of_an_export_is_written_again(tmp_path: Path, monkeypatch: Any, change: bool) -> None:
    """Its size is right. As in runs, ``verify.fraction`` says how many files are compared at once."""
    monkeypatch.chdir(tmp_path)
    settings = {"key": "id", "order_by": "at", "op": "op", "header": "true", "verify.fraction": "1"}
    table = Table.create("table", {**settings, "max.delete.fraction": "1"}, buckets=4)
    merged(table, 1, *((f"k{number}", "x", 1, "I") for number in range(20))).export("out")
    for number in range(2):
        file = sorted(Path("out").glob("*.parquet"))[number]
        content = file.read_bytes()
        file.unlink()  # it may be a link to a file of the table
        file.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
        if change:
            merged(table, number + 2, ("k3", "", number + 2, "D"))
        table.export("out")
        assert not local_engine.verify("out").problems


def test_an_export_has_the_consumed_feed_files(table: Table) -> None:
    table.export("out")
    known = read_manifest(storage_for("/"), str(Path("out").absolute()))
    assert known is not None
    assert [file.name for file in known.feed] == ["rows1.csv"]
    settings = {"key": "id", "order_by": "at", "order_type": "long", "op": "op", "header": "true"}
    report = local_engine.mutate(settings, master="out", feed=["feed1"], output="next")
    assert report.counts["feed rows"] == 0


def test_what_is_no_export_of_the_table_is_left_alone(table: Table) -> None:
    Path("foreign").mkdir()
    Path("foreign/file").write_text("mine")
    other = Table.create("other", {"key": "id", "order_by": "at", "order_type": "long", "op": "op", "header": "true"})
    merged(other, 9, ("a", "x", 1, "I")).export("others")
    for path, why in (("foreign", "not an export"), ("others", "another table")):
        with pytest.raises(MutatorError, match=why) as fault:
            table.export(path)
        assert fault.value.kind == "table.export"
    assert Path("foreign/file").read_text() == "mine"


def test_the_base_of_a_workflow_is_left_alone(table: Table, tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "incr").mkdir(parents=True)
    inner = Table.create(str(base / "table"), {"key": "id", "order_by": "at", "op": "op", "header": "true"})
    (base / "incr" / "feed_1.csv").write_text("id,at,op,shop,price\n1,1,U,a,5\n")
    for _ in range(2):
        for path, what in ((str(base), "it is the base of a workflow"), (inner.path, "it is a versioned table")):
            with pytest.raises(MutatorError, match=f"{path}: {what}.*; name a new directory .* {path}-export") as fault:
                table.export(path)
            assert fault.value.kind == "table.export"
        assert main(["workflow", "run", str(base), "-D", "claim.min.age=0s"]) == 0
    table.export(f"{base}-export")


def test_a_table_without_rows_has_no_schema_to_export(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {"key": "id"})
    with pytest.raises(MutatorError) as fault:
        table.export(str(tmp_path / "out"))
    assert fault.value.kind == "table.export.empty"


def test_other_programs_read_an_export(table: Table) -> None:
    merged(table, 2, ("k3", "", 2, "D"), ("k4", "new", 2, "U")).export("out")
    wanted = sorted(({**row} for batch in table.scan() for row in batch.to_pylist()), key=repr)
    found = duckdb.sql("SELECT * FROM 'out/*.parquet'").to_arrow_table().to_pylist()
    assert sorted(found, key=repr) == wanted
    assert sorted(polars.read_parquet("out/*.parquet").to_dicts(), key=repr) == wanted


def test_other_programs_read_the_partitions_of_an_export(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"key": "id", "order_by": "at", "order_type": "long", "op": "op", "header": "true"}
    table = Table.create("table", {**settings, "partitioned.by": "shop=name"})
    merged(table, 1, ("a", "x", 1, "I"), ("b", "y", 1, "I")).export("out")
    wanted = [("a", "x"), ("b", "y")]
    query = "SELECT id, shop FROM read_parquet('out/**/*.parquet', hive_partitioning = true) ORDER BY id"
    assert duckdb.sql(query.replace("**", "shop=*")).fetchall() == wanted
    frame = polars.read_parquet("out/shop=*/*.parquet", hive_partitioning=True).sort("id")
    assert [(row["id"], row["shop"]) for row in frame.to_dicts()] == wanted
    assert not local_engine.verify("out").problems


@pytest.mark.rest
def test_spark_reads_an_export(sc: Any, table: Table) -> None:
    from pyspark.sql import SparkSession

    merged(table, 2, ("k3", "", 2, "D")).export("out")
    rows = SparkSession(sc).read.parquet(str(Path("out").absolute())).collect()
    wanted = sorted((row for batch in table.scan() for row in batch.to_pylist()), key=repr)
    assert sorted((row.asDict() for row in rows), key=repr) == wanted


def test_a_bucket_that_only_lost_a_row_is_rewritten(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"key": "id", "order_by": "at", "order_type": "long", "header": "true", "op": "op"}
    table = Table.create("table", {**settings, "partitioned.by": "shop=name", "key.scope": "table"})
    merged(table, 1, ("a", "x", 1, "I"), ("b", "x", 1, "I")).export("out")
    merged(table, 2, ("a", "y", 2, "U")).export("out")  # moves to another partition
    assert sorted(row["id"] for path in Path("out/shop=x").iterdir() for row in pq.read_table(path).to_pylist()) == [
        "b"
    ]
    assert not local_engine.verify("out").problems


def test_a_bucket_with_only_a_raised_order_value_is_rewritten(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"key": "id", "header": "true"}
    table = Table.create("table", settings, buckets=2)
    for number, name in ((1, "x"), (5, "x"), (3, "late")):
        Path(f"rows_{number}.csv").write_text(f"id,name\na,{name}\n")
    table.apply("rows_1.csv")
    table.export("out")
    table.apply("rows_5.csv")  # a stays as it was, and gets the order value 5
    table.export("out")
    late = {**settings, "late.files": "merge"}
    report = local_engine.mutate(late, master="out", feed=["rows_3.csv"], output="next")
    assert report.counts["feed late"] == 1
