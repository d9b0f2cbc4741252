"""Buckets that outgrew their size: a compaction splits them, while other writers go on with the old number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.cli import main
from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.state import BucketCounts
from mutator.dataset.versions import opening
from mutator.dataset.versions.opening import open_snapshot
from mutator.engine.versions import base_files
from mutator.table import apply, commit, compact, compact_choice
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.table.test_compact import BY_DAY, SETTINGS, files, left, put, rows
from tests.table.test_compact_races import assert_serial, at_phase
from tests.table.test_several_writers import BASE, PHASES, WORLDS, act_beside_each_other, feeds
from tests.table.test_several_writers import put as put_rows

SMALL = {**SETTINGS, "bucket.bytes": "2k"}


def buckets(table: Table) -> dict[str | None, set[int]]:
    """Return the numbers of buckets that the extents of each partition have."""
    found: dict[str | None, set[int]] = {}
    for one in table.refresh().snapshot.extents(DATA):
        found.setdefault(one.extent.partition, set()).add(one.extent.buckets)
    return found


def test_a_bucket_that_outgrew_its_size_is_split(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), SMALL, buckets=1)
    table.apply(put(tmp_path, "first", rows(range(3000), "a", 1)))
    table.apply(put(tmp_path, "gone", rows(range(0, 3000, 20), "a", 2, "D")))
    before = left(table)
    assert buckets(table) == {None: {1}}
    report = table.compact(files=99, hidden=1.0)
    assert (report.is_new, report.buckets, report.split) == (True, 1, 1)
    assert "1 bucket outgrew bucket.bytes, and was split" in report.text()
    found = buckets(table)[None]
    assert found == {2} or found == {4}
    assert left(table) == before
    assert table.verify().problems == ()
    extents = [one.extent for one in table.snapshot.extents(DATA)]
    assert sorted(one.bucket for one in extents) == list(range(*found))
    assert {one.extent.buckets for one in table.snapshot.extents(TOMBSTONES)} == found
    for path in files(table):
        keys = pq.read_table(f"{table.path}/{path}").column("id").to_pylist()
        assert keys == sorted(keys)
    while table.compact(everything=True).is_new:
        assert left(table) == before
        assert table.version < 9
    assert table.describe().buckets == max(buckets(table)[None])


def test_the_next_apply_writes_into_the_new_buckets(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), SMALL, buckets=1)
    plain = Table.create(str(tmp_path / "plain"), SETTINGS, buckets=1)
    table.apply(put(tmp_path, "first", rows(range(3000), "a", 1)))
    plain.apply(put(tmp_path, "first", rows(range(3000), "a", 1)))
    table.compact()
    path = put(tmp_path, "next", rows(range(0, 3500, 3), "a", 2) + rows(range(1, 3500, 9), "a", 2, "D"))
    assert table.apply(path).counts == plain.apply(path).counts
    assert left(table) == left(plain)
    assert len(buckets(table)[None]) == 1
    for number in (0, 1, 2, 3400, 3499):
        assert table.get(str(number)) == plain.get(str(number))
    assert table.verify().problems == ()
    again = Table(table.path)
    assert again.snapshot.state.buckets == table.refresh().snapshot.state.buckets


def test_each_partition_has_its_own_number(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**BY_DAY, "bucket.bytes": "2k"}, buckets=1)
    table.apply(put(tmp_path, "first", rows(range(3000), "a", 1) + rows(range(3), "b", 1)))
    before = left(table)
    table.compact(everything=True)
    found = buckets(table)
    assert found["day=b"] == {1}
    assert found["day=a"] & {2, 4}
    assert left(table) == before
    table.apply(put(tmp_path, "next", rows(range(5), "a", 2) + rows(range(2, 5), "b", 2)))
    assert buckets(table) == found
    assert table.verify().problems == ()


def test_an_export_has_the_buckets_of_a_table_that_was_split(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**SMALL, "partitioned.by": "day"}, buckets=2)
    whole = Table.create(str(tmp_path / "whole"), SMALL, buckets=2)
    for one, name in ((table, "parts"), (whole, "whole")):
        out = str(tmp_path / f"{name}-out")
        one.apply(put(tmp_path, "first", rows(range(3000), "a", 1) + rows(range(3000, 3010), "b", 1)))
        one.export(out)
        one.compact()
        one.apply(put(tmp_path, "next", rows(range(20), "a", 2) + rows([3], "a", 3, "D")))
        one.export(out)
        assert local_engine.verify(out).problems == ()
        assert one.export(out).kept > 0
        made = Table.create(f"{out}-again", {}, dataset=out)
        assert left(made) == left(one)
        assert made.verify().problems == ()


def test_a_checkpoint_has_the_numbers(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(opening, "_EVERY", 2)
    table = Table.create(str(tmp_path / "table"), SMALL, buckets=1)
    table.apply(put(tmp_path, "first", rows(range(3000), "a", 1)))
    table.compact()
    state = open_snapshot(table.path).state
    assert state.buckets == BucketCounts(1, {None: max(buckets(table)[None])})
    assert open_snapshot(table.path, 1).state.buckets == BucketCounts(1)


@pytest.mark.thorough(keep=0, rest=3)
@pytest.mark.parametrize("faster", ["apply", "compact", "both"])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_writers_while_buckets_are_split(faster: str, world: str, phase: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 0)
    settings = {**WORLDS[world], "bucket.bytes": "50"}
    table = Table.create(str(tmp_path / "table"), settings, buckets=2)
    given = {
        "base_1.csv": BASE,
        "more_2.csv": "1,1,2,U,z\n6,1,3,U,z\n8,1,1,U,z\n",
        "less_3.csv": "6,1,4,D,\n5,1,4,D,\n",
        "last_4.csv": "1,1,9,D,\n6,1,9,U,y\n9,1,9,U,y\n8,1,9,U,y\n",
        "late_5.csv": "8,1,10,D,\n2,1,10,U,y\n",
    }
    paths = {name: put_rows(tmp_path, name, text) for name, text in given.items()}
    for name in list(paths)[:3]:
        table.apply(paths[name])
    other = Table(table.path)
    if faster == "apply":
        with at_phase(phase, lambda: other.apply(paths["last_4.csv"])):
            assert table.compact(everything=True).split > 0
    elif faster == "compact":
        with at_phase(phase, lambda: other.compact(everything=True)):
            table.apply(paths["last_4.csv"])
    else:
        with at_phase(phase, lambda: (other.apply(paths["last_4.csv"]), other.compact(everything=True))):
            table.compact(files=1, hidden=0)
    table.refresh().apply(paths["late_5.csv"])  # the numbers of buckets of its records differ
    table.compact(everything=True)
    assert_serial(table, tmp_path, settings, paths)


@pytest.mark.rest
@law(20)
@given(
    feeds,
    st.sampled_from(sorted(WORLDS)),
    st.lists(st.sampled_from(PHASES), min_size=6, max_size=6),
    st.lists(st.sampled_from(["apply", "compact"]), min_size=6, max_size=6),
    st.sampled_from([20, 200, 1200]),
    st.sampled_from([1, 2, 1 << 20]),
)
def test_the_result_is_that_of_the_order_of_the_log(
    mutations: list[str], world: str, phases: list[str], kinds: list[str], size: int, most: int
) -> None:
    with scratch() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "_PATIENCE", 0)
        patch.setattr(opening, "_EVERY", 3)
        patch.setattr(compact_choice, "_TASK_ROWS", most)
        for module in (base_files, compact_choice):
            patch.setattr(module, "OWN", most)
        for module in (apply, compact):
            patch.setattr(module, "INLINE", 0)
        settings = {**WORLDS[world], "bucket.bytes": str(size)}
        act_beside_each_other(directory, settings, mutations, phases, kinds, buckets=1)


@pytest.mark.parametrize(("option", "value"), [("--bucket-bytes", "0"), ("--tombstone-retention", "soon")])
def test_a_wrong_value_of_an_option_names_the_option(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", "compact", str(tmp_path), option, value]) == 2
    assert f"{option}: '{value}' must be" in capsys.readouterr().err
