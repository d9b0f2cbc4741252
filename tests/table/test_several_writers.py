"""Writers at the same time: the result is that of the log's order, whatever another writer does at any phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.table import apply
from mutator.table.table import Table
from tests.support.effort import law
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import scratch
from tests.support.versioned import left_of

PHASES = ("planned", "merged", "commit", "later commit")
BY_FIELD = {"key": "id", "order_by": "at", "op": "op", "header": True, **NO_LIMITS}
WORLDS: dict[str, dict[str, Any]] = {
    "by field": BY_FIELD,
    "by file name": {name: value for name, value in BY_FIELD.items() if name != "order_by"},
    "partitions": {**BY_FIELD, "partitioned.by": "shop", "key.scope": "partition"},
    "moves": {**BY_FIELD, "partitioned.by": "shop", "key.scope": "table"},
}


@contextmanager
def at_phase(phase: str, act: Callable[[], None]) -> Iterator[None]:
    """Act once when the next apply reaches a phase: as another process would at that time."""
    waiting = [act]

    def meanwhile() -> None:
        if waiting:
            waiting.pop()()

    merged, commit, tries = apply._merged, TableLog.commit, list[int]()

    def merging(*arguments: Any) -> Any:
        if phase == "planned":
            meanwhile()
        found = merged(*arguments)
        if phase == "merged":
            meanwhile()
        return found

    def committing(log: TableLog, version: Any) -> bool:
        tries.append(version.number)
        if phase == "commit" or (phase == "later commit" and len(tries) > 1):
            meanwhile()
        return commit(log, version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_merged", merging)
        patch.setattr(TableLog, "commit", committing)
        yield


def put(directory: Path, name: str, rows: str) -> str:
    path = directory / name
    path.write_text(f"id,shop,at,op,name\n{rows}")
    return str(path)


def log_of(table: Table) -> list[Any]:
    """Return (feed file, counts, records, tombstones) of each version."""
    versions = TableLog(table.path).chain(None, table.refresh().version)
    return [(one.feed[0].name, dict(one.counts), one.records, one.tombstones) for one in versions if one.feed]


def left(table: Table, version: int) -> Any:
    found = left_of(open_snapshot(table.path, version), {}, width=1)
    return found.rows, found.tombstones


numbers = st.integers(1, 5), st.integers(1, 2), st.integers(1, 4)
row = st.builds("{},{},{},{},{}\n".format, *numbers, st.sampled_from("UUD"), st.sampled_from("xy"))
feeds = st.lists(st.lists(row, min_size=1, max_size=4).map("".join), min_size=2, max_size=4)


@law(60)
@given(feeds, st.sampled_from(sorted(WORLDS)), st.lists(st.sampled_from(PHASES), min_size=3, max_size=3), st.booleans())
def test_the_result_is_that_of_the_order_of_the_log(
    mutations: list[str], world: str, phases: list[str], inline: bool
) -> None:
    with scratch() as directory, pytest.MonkeyPatch.context() as patch:
        if not inline:
            patch.setattr(apply, "_INLINE", 0)
        names = [f"feed_{number:02d}.csv" for number in range(len(mutations))]
        paths = {name: put(directory, name, rows) for name, rows in zip(names, mutations, strict=True)}
        table = Table.create(str(directory / "table"), WORLDS[world])
        table.apply(put(directory, "first_0.csv", "1,1,2,U,x\n2,2,2,U,x\n3,1,2,U,x\n"))

        def apply_from(number: int) -> None:
            """Apply a feed, while another writer applies the following one."""
            if number + 1 < len(names):
                with at_phase(phases[number % len(phases)], lambda: apply_from(number + 1)):
                    Table(table.path).apply(paths[names[number]])
            else:
                Table(table.path).apply(paths[names[number]])

        apply_from(0)
        found = log_of(table)
        serial = Table.create(str(directory / "serial"), WORLDS[world])
        serial.apply(str(directory / "first_0.csv"))
        for name, *_ in found[1:]:
            serial.apply(paths[name.rpartition("/")[2]])
        assert found == log_of(serial)
        for version in range(1, table.version + 1):
            assert left(table, version) == left(serial, version)
        assert table.verify().problems == ()


BASE = "1,1,2,U,x\n2,1,2,U,x\n3,1,2,U,x\n4,1,2,U,x\n5,1,2,U,x\n"
CASES: dict[str, tuple[str, str, bool]] = {  # rows of the slower and of the faster writer; does the slower start over?
    "other keys": ("1,1,3,U,y\n9,1,3,U,y\n", "2,1,3,U,z\n8,1,3,D,\n", False),
    "two updates": ("1,1,3,U,y\n", "1,1,4,U,z\n", True),
    "two inserts": ("9,1,3,U,y\n", "9,1,3,U,z\n", True),
    "a late row, and a delete": ("1,1,1,U,y\n", "1,1,3,D,\n", True),
    "an equal row, and an update": ("1,1,2,U,x\n", "1,1,3,U,z\n", True),
    "a delete of an unknown record, and an insert": ("9,1,3,D,\n", "9,1,2,U,z\n", True),
    "a late row of one of them": ("1,1,3,U,y\n", "1,1,1,U,z\n", False),
}


@pytest.mark.parametrize("phase", PHASES[:3])
@pytest.mark.parametrize("case", CASES)
def test_two_writers(case: str, phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast, again = CASES[case]
    table = Table.create(str(tmp_path / "table"), BY_FIELD)
    table.apply(put(tmp_path, "base.csv", BASE))
    slower, faster = put(tmp_path, "slower.csv", slow), put(tmp_path, "faster.csv", fast)
    starts = list[int]()
    merged = apply._merged
    monkeypatch.setattr(apply, "_merged", lambda *given: (starts.append(1), merged(*given))[1])
    with at_phase(phase, lambda: Table(table.path).apply(faster) and None):
        report = table.apply(slower)
    assert [one[0].rpartition("/")[2] for one in log_of(table)] == ["base.csv", "faster.csv", "slower.csv"]
    assert report.version == table.version == 3
    assert len(starts) == (4 if again else 3) - 1
    assert table.snapshot.state == open_snapshot(table.path).state


def test_a_feed_file_is_merged_once(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), BY_FIELD)
    table.apply(put(tmp_path, "base.csv", BASE))
    feed = put(tmp_path, "feed.csv", "9,1,3,U,y\n")
    with at_phase("commit", lambda: Table(table.path).apply(feed) and None):
        report = table.apply(feed)
    assert (report.version, report.consumed, report.counts["feed rows"]) == (2, (feed,), 0)


@pytest.mark.parametrize("full", ["slower", "faster"])
def test_a_full_snapshot_and_an_update(full: str, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**BY_FIELD, "op": "none"})
    table.apply(put(tmp_path, "base.csv", BASE), op="op")
    settings: dict[str, Any] = {"slower": {"op": "op"}, "faster": {"op": "op"}, full: {"sync_mode": "full"}}
    for writer in ("slower", "faster"):
        rows = "id,shop,at,name\n1,1,3,y\n" if writer == full else "id,shop,at,op,name\n9,1,3,U,y\n"
        (tmp_path / f"{writer}.csv").write_text(rows)
    with at_phase("commit", lambda: Table(table.path).apply(tmp_path / "faster.csv", **settings["faster"]) and None):
        table.apply(tmp_path / "slower.csv", **settings["slower"])
    ids = {record["id"] for record in table.scan().to_pylist()}
    assert ids == ({"1"} if full == "slower" else {"1", "9"})
    assert table.verify().problems == ()


def test_a_new_field_of_the_faster_writer(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), BY_FIELD)
    table.apply(put(tmp_path, "base.csv", BASE))
    (tmp_path / "wide.csv").write_text("id,shop,at,op,name,price\n8,1,3,U,z,7\n")
    with at_phase("commit", lambda: Table(table.path).apply(tmp_path / "wide.csv") and None):
        table.apply(put(tmp_path, "slower.csv", "9,1,3,U,y\n"), removed_fields=["price"])
    assert table.version == 3
    assert table.verify().problems == ()


def test_a_limit_that_only_the_sum_exceeds(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**BY_FIELD, "max.delete.fraction": "0.5"})
    table.apply(put(tmp_path, "base.csv", BASE))
    faster = put(tmp_path, "faster.csv", "1,1,3,D,\n2,1,3,D,\n")
    with (
        at_phase("commit", lambda: Table(table.path).apply(faster) and None),
        pytest.raises(MutatorError, match="2 of the master's 3 records"),
    ):
        table.apply(put(tmp_path, "slower.csv", "3,1,3,D,\n4,1,3,D,\n"))
    assert table.refresh().version == 2
    assert len(table.scan().to_pylist()) == 3
