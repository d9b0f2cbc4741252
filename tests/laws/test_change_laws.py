"""The changed rows of runs, one after the other, replayed over the rows of the first master give the last one.

And they are as many of each kind as the report counts; for every engine, join, format and partitioning.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutator
from mutator.rules.known_formats import FORMATS
from tests.laws.test_partition_laws import STARTS, begin
from tests.support import local_engine
from tests.support.changed_rows import changed_rows, counted, replayed, reported, text_row
from tests.support.effort import law
from tests.support.partition_worlds import TableRuns, draw_table, files_of
from tests.support.partition_worlds import make_speed as make_partition_speed
from tests.support.text_runs import Dataset, Runs, make_speed, scratch
from tests.support.text_worlds import make_files, worlds
from tests.support.typed_worlds import COLUMNS, put, schema_of
from tests.support.typed_worlds import worlds as typed_worlds


def check_pairs(rows: list[dict[str, Any]], key: Any) -> None:
    """Check that each row of an update is beside the other one of its record."""
    updates = [row for row in rows if row["_change_type"].startswith("update")]
    for before, after in zip(updates[::2], updates[1::2], strict=True):
        assert (before["_change_type"], after["_change_type"]) == ("update_preimage", "update_postimage")
        assert key(text_row(before)) == key(text_row(after))


def bag(made: Dataset) -> Counter[bytes]:
    return Counter(row.row for row in made.rows)


@given(worlds(bad=True), st.randoms(use_true_random=False))
@law(100)
def test_changes_of_text_replay_to_the_master(world, rng):
    shape = world.shape
    place = [shape.written.index(name) for name in shape.key]

    def key(row: bytes) -> list[bytes]:
        return [row.split(b",")[at] for at in place]

    with scratch() as work:
        run = Runs(work, shape)
        keys = [row.key for file in world.master for row in file.rows(shape)]
        unique = {"master_unique": str(len(set(keys)) == len(keys)).lower()}  # else no run joins by broadcast
        made = run(run.master(world.master), (), **unique)  # one row a key
        rows = bag(made)
        for number in range(2):
            options = make_speed(rng, partitions=[1, 2, 7]) | unique
            files = make_files(rng, shape, 2, of_master=False, bad=True, most=4, places=2)
            made = run(made.path, world.feed if not number else files, changes="true", **options)
            found = changed_rows(made.path)
            assert counted(found) == reported(made.counts)
            check_pairs(found, key)
            rows = replayed(rows, [(row["_change_type"], text_row(row)) for row in found])
            assert rows == bag(made)
            assert {row["_commit_version"] for row in found} <= {None}
            assert {row["_commit_timestamp"].isoformat(timespec="milliseconds") for row in found} <= {
                made.document["committed"]
            }


@pytest.mark.parametrize("scope", ["table", "partition"])
@given(st.randoms(use_true_random=False))
@law(30)
def test_changes_of_a_partitioned_master_replay_to_it(scope, rng):
    table = draw_table(rng, scope)
    with scratch() as work:
        run = TableRuns(work, table)
        path, given_rows, *_ = begin(rng, run, rng.choice([start for start in STARTS if start != "tree"]), bad=False)
        made = run(path, (), **make_partition_speed(rng))  # one row a key, but for a merge of its own
        assert len(made.rows) <= len(given_rows) or not given_rows
        rows = Counter(row.row for row in made.rows)
        for _ in range(2):
            feed = files_of(rng, table, rng.randint(1, 3))
            made = run(made.path, feed, changes="true", **make_partition_speed(rng))
            found = changed_rows(made.path)
            assert counted(found) == reported(made.counts)
            rows = replayed(rows, [(row["_change_type"], text_row(row)) for row in found])
            assert rows == Counter(row.row for row in made.rows)


@given(st.randoms(use_true_random=False))
@law(40)
def test_changes_of_the_run_that_partitions_a_master_replay_to_it(rng):
    table = draw_table(rng, "table")
    with scratch() as work:
        run = TableRuns(work, table)
        master = run.run(run.flat(()), files_of(rng, table, 2), num_reducer=2)
        lines = Counter(line for path in Path(master.output).glob("part-*") for line in path.read_bytes().split(b"\n"))
        made = run(master.output, files_of(rng, table, 2), changes="true", **make_partition_speed(rng))
        found = changed_rows(made.path)
        assert counted(found) == reported(made.counts)
        placed = [(row["_change_type"], text_row(row)) for row in found]
        lines.pop(b"", None)
        assert replayed(lines, placed) == Counter(row.row for row in made.rows)


def rows_of(dataset: Path) -> list[dict[str, Any]]:
    """Read a dataset as ``changed_rows`` reads its changed rows."""
    files = list(dataset.glob("*.avro"))
    if not files:
        return mutator.Dataset(dataset).to_arrow().to_pylist()
    rows: list[dict[str, Any]] = []
    for path in files:
        with path.open("rb") as stream:
            rows += fastavro.reader(stream)
    return rows


@pytest.mark.parametrize("file_format", ["avro", "csv", "escaped", "orc", "parquet"])
@given(typed_worlds([None, "", "x", 'q"', "a,b"]))
@law(30)
def test_changes_of_every_format_replay_to_the_master(file_format, world):
    assert file_format in COLUMNS
    rng = random.Random(world.seed)
    with scratch() as work:
        delimiter = world.delimiter(file_format, file_format)
        for number, rows in enumerate(world.master):
            path = work / "master" / f"m{number}{FORMATS[file_format].suffix}"
            put(path, file_format, rows, schema_of(world.order, op=False), 2, delimiter)
        master, live = work / "master", None
        names = schema_of(world.order, op=False).names
        for run, files in enumerate([(), *world.feeds]):
            feed = work / f"feed{run}"
            feed.mkdir()
            for stem, rows in files:
                path = feed / f"{stem}{FORMATS[file_format].suffix}"
                put(path, file_format, rows, schema_of(world.order, op=world.op), 2, delimiter)
            if not files and world.full:
                continue
            output = work / f"out{run}"
            settings = {**world.settings(file_format, file_format), "num.reducer": "2", "changes": "true"}
            report = local_engine.mutate(
                settings,
                master=str(master),
                feed=[str(feed)],
                output=str(output),
                engine=rng.choice(["records", "blocks"]),
            )
            found = changed_rows(output)
            assert counted(found) == reported(report.counts)
            now = Counter(map(repr, rows_of(output)))
            if live is not None:
                changes = [(row["_change_type"], repr({name: row[name] for name in names})) for row in found]
                live = replayed(live, changes)
                assert live == now
            live, master = now, output
