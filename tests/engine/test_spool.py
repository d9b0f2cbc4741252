"""A spool returns its rows in order and in bounded pieces, and leaves no files behind."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.engine.blocks import spool
from mutator.engine.blocks.spool import SortedSpool, scratch_directory

KEYS = st.sampled_from([b"", b"a", b"a\x00", b"\xff", b"\n", b"aa"])
NUMBERS = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])
SCHEMA = pa.schema(
    [("key", pa.large_binary()), ("number", pa.int64()), ("load", pa.struct([("x", pa.list_(pa.int8()))]))]
)


def table_of(rows):
    columns = zip(*rows, strict=True) if rows else [[], [], []]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def rows_of(tables):
    return [(row["key"], row["number"], row["load"]) for table in tables for row in table.to_pylist()]


def repeated(row):
    return row[:2], repr(row[2])


ROWS = st.tuples(KEYS, NUMBERS, st.none() | st.fixed_dictionaries({"x": st.none() | st.lists(st.integers(0, 9))}))
BAGS = st.lists(st.lists(ROWS, max_size=9), max_size=8)


@given(BAGS, st.sampled_from([["key"], ["key", "number"], ["number", "key"]]), st.integers(0, 400), st.integers(1, 5))
def test_spool_sorts_its_rows(monkeypatch, bags, by, most, batch):
    """Many runs, few bytes, equal keys across runs, several columns, and structs."""
    monkeypatch.setattr(spool, "BATCH", batch)
    monkeypatch.setattr(spool.write_tables, "__defaults__", (batch,))
    with ExitStack() as stack:
        made = SortedSpool(by, most, stack)
        for bag in bags:
            made.append(table_of(bag))
        given_rows = [row for bag in bags for row in bag]
        for _ in range(2):  # it can be read again
            found = list(made.tables())
            assert all(table.schema == SCHEMA for table in found)
            rows = rows_of(found)
            place = [["key", "number", "load"].index(name) for name in by]
            sort_keys = [tuple(row[n] for n in place) for row in rows]
            assert sort_keys == sorted(sort_keys)
            assert sorted(map(repeated, rows)) == sorted(map(repeated, given_rows))


@given(BAGS, BAGS, BAGS, st.integers(0, 400))
def test_spool_merges_runs_that_are_sorted_already(monkeypatch, bags, written, kept, most):
    """Some runs go to files, some are read where they are, and others are sorted by the spool."""
    monkeypatch.setattr(spool, "BATCH", 2)

    def run(rows):
        rows = sorted(rows, key=lambda row: row[0])
        return (table_of(rows[start : start + 3]) for start in range(0, len(rows), 3))

    with ExitStack() as stack:
        made = SortedSpool(["key"], most, stack)
        for rows in written:
            made.write_run(run(rows))
        for rows in kept:
            made.keep_run(run(rows))
        for rows in bags:
            made.append(table_of(rows))
        found = rows_of(made.tables())
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    given_rows = [row for rows in (*written, *kept, *bags) for row in rows]
    assert sorted(map(repeated, found)) == sorted(map(repeated, given_rows))


def test_a_run_that_is_kept_needs_no_file(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    with ExitStack() as stack:
        made = SortedSpool(["key"], 0, stack)
        made.keep_run(iter([table_of([(b"a", 1, None)]), table_of([(b"b", 1, None)])]))
        assert [row[0] for row in rows_of(made.tables())] == [b"a", b"b"]
        assert left_in(tmp_path) == []


def test_empty_spool():
    with ExitStack() as stack:
        made = SortedSpool(["key"], 0, stack)
        made.append(table_of([]))
        assert list(made.tables()) == []


def test_equal_keys_stay_together_over_batches(monkeypatch):
    """One key fills many batches of many runs: the merge must continue, and return all its rows."""
    monkeypatch.setattr(spool, "BATCH", 2)
    monkeypatch.setattr(spool.write_tables, "__defaults__", (2,))
    with ExitStack() as stack:
        made = SortedSpool(["key"], 0, stack)
        for _ in range(5):
            made.append(table_of([(b"a", n, None) for n in range(9)] + [(b"b", 0, None)]))
        assert [row[0] for row in rows_of(made.tables())] == [b"a"] * 45 + [b"b"] * 5


def test_rows_as_wide_as_the_memory_come_a_few_at_a_time(monkeypatch):
    """A batch is bounded by its bytes, too: 64 rows of 64 KB are never in memory at once."""
    with ExitStack() as stack:
        made = SortedSpool(["key"], 1 << 20, stack)
        for n in range(64):
            made.append(table_of([(b"%02d" % n + bytes(1 << 16), n, None)]))
        found = [table.nbytes for table in made.tables()]
    assert sum(found) > 64 << 16
    assert max(found) <= 2 << 20


def left_in(directory):
    return sorted(os.listdir(directory))


@pytest.mark.parametrize("fails", [False, True])
def test_files_of_a_spool_are_removed_at_the_end(monkeypatch, tmp_path, fails):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    tables = None
    try:
        with ExitStack() as stack:
            made = SortedSpool(["key"], 0, stack)
            for _ in range(3):
                made.append(table_of([(b"a", 1, None)]))
            tables = made.tables()
            next(tables)
            assert len(left_in(tmp_path)) == 1
            if fails:
                raise InterruptedError
    except InterruptedError:
        assert fails
    assert left_in(tmp_path) == []


def test_runs_that_fit_in_memory_need_no_file(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    with ExitStack() as stack:
        made = SortedSpool(["key"], 1 << 20, stack)
        made.append(table_of([(b"a", 1, None)]))
        list(made.tables())
        assert left_in(tmp_path) == []


@pytest.mark.parametrize("places", ["{0}", "{0},{1}", "{1}/missing,{0}", ",{0}"])
def test_scratch_files_are_in_the_local_directories_of_spark(monkeypatch, tmp_path, places):
    first, second = tmp_path / "0", tmp_path / "1"
    first.mkdir()
    second.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", places.format(first, second))
    with ExitStack() as stack:
        made = scratch_directory(stack)
        assert os.path.dirname(made) == str(first)
        assert stat.S_IMODE(os.stat(made).st_mode) == 0o700
        assert scratch_directory(stack) != made
    assert left_in(first) == []


def test_scratch_without_spark(monkeypatch, tmp_path):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ExitStack() as stack:
        assert os.path.dirname(scratch_directory(stack)) == str(tmp_path)
