"""A tombstone by absence has two order values: deltas meet the higher one, full snapshots that of the record."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator.dataset.versions import merged_keys, opening
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.table.test_several_writers import at_phase

Rows = list[tuple[int, int, str]]  # ID, order value, operation

SETTINGS = {**NO_LIMITS, "key": "id", "order_by": "at", "order_type": "long", "allow.empty.master": "true"}
SETTINGS["consumed.files"] = "merge"  # the same feed again
MOVING = {"partitioned.by": "place", "key.scope": "table"}
APART = {"partitioned.by": "place", "key.scope": "partition"}
PLACES: dict[str, dict[str, str]] = {
    "blocks": {},
    "records": {"engine": "records"},
    "partitioned": APART,
    "moving records": MOVING,
    "table": {},
    "table of partitions": MOVING,
    "table of large files": {},
    "opened table": {},
    "compacted table": {},
    "restored table": {},
    "table of a dataset": {},
    "exported table": {},
}


class Place:
    """A dataset or a table, and what is done to it after a snapshot."""

    def __init__(self, name: str, work: Path) -> None:
        self.name, self.work, self.count = name, work, 0
        self.extra = {one: value for one, value in PLACES[name].items() if one != "engine"}
        self.engine = PLACES[name].get("engine", "blocks")
        self.table: mutator.Table | None = None
        if "table" in name and name != "table of a dataset":
            self.table = mutator.Table.create(work / "table", {**SETTINGS, **self.extra})
        self.path, self.feeds = str(work / "none"), list[str]()
        self.limits: dict[str, str] = {}

    def merge(self, rows: Rows, *, full: bool = False, part: str | None = None) -> dict[str, int]:
        """Merge a feed; return the counts. part: the place of a snapshot, or else of all rows."""
        self.count += 1
        columns = {"id": [key for key, _, _ in rows], "at": [at for _, at, _ in rows]}
        columns |= {"place": [place or part or "x" for _, _, place in rows] if full else ["x"] * len(rows)}
        if not full:
            columns["op"] = [op for _, _, op in rows]
        settings = {"sync.mode": "full"} if full else {"op": "op"}
        if self.table is not None:
            given = {"sync_mode": "full"} if full else settings
            given |= {"sync_scope": f"place = '{part}'"} if part else {}
            given |= {name.replace(".", "_"): value for name, value in self.limits.items()}
            return dict(self.table.apply(pa.table(columns), **given).counts)
        settings |= {"sync.scope": f"place = '{part}'"} if part else {}
        feed, output = self.work / f"feed{self.count}", str(self.work / f"out{self.count}")
        feed.mkdir()
        self.feeds.append(str(feed))
        pq.write_table(pa.table(columns), feed / f"f{self.count}.parquet")
        config = {**SETTINGS, **self.extra, **settings, **self.limits}
        made = local_engine.mutate(config, master=self.path, feed=[str(feed)], output=output, engine=self.engine)
        self.path = output
        return dict(made.counts)

    def after_snapshot(self) -> None:
        """Do what must not change what the tombstones mean."""
        if self.name == "compacted table":
            assert self.table is not None
            self.table.compact(everything=True)
        elif self.name == "restored table":
            assert self.table is not None
            version = self.table.version
            self.merge([(1, 99, "U"), (2, 99, "U")])
            self.table.restore(version)
        elif self.name == "opened table":
            assert self.table is not None
            self.table = mutator.Table(self.table.path)
        elif self.name == "table of a dataset":
            self.table = mutator.Table.create(self.work / "table", SETTINGS, dataset=self.path)
        elif self.name == "exported table":
            assert self.table is not None
            self.path, self.table = str(self.work / "exported"), None
            mutator.Table(self.work / "table").export(self.path)

    def rows(self) -> dict[int, int]:
        """Return the order value of each record."""
        if self.table is not None:
            return {row["id"]: row["at"] for row in self.table.scan().to_pylist()}
        return {row["id"]: row["at"] for row in mutator.Dataset(self.path).to_arrow().to_pylist()}


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("name", PLACES)
def test_a_delta_meets_the_snapshot_and_a_snapshot_the_record(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "table of large files":
        monkeypatch.setattr(merged_keys, "MOST_ROWS", 0)
    monkeypatch.setattr(opening, "_EVERY", 1)  # a checkpoint of each version
    place = Place(name, tmp_path)
    place.merge([(key, 5, "U") for key in range(1, 7)])
    assert place.merge([(9, 10, "")], full=True)["master deleted by absence"] == 6
    place.after_snapshot()

    delta = [(1, 7, "U"), (2, 7, "D"), (3, 10, "U"), (4, 12, "D"), (5, 4, "U")]
    counts = place.merge(delta)
    assert {one: counts[f"feed {one}"] for one in ("late", "inserted", "no-op")} == {
        "late": 3,
        "inserted": 1,
        "no-op": 1,
    }
    assert place.rows() == {9: 10, 3: 10}
    if "table" in name:
        found = mutator.explain(place.path if place.table is None else place.table.path, 1)
    else:
        found = mutator.explain(place.path, 1, feed=place.feeds, before=tmp_path / "out1")
    assert "order value 5, but 10 for deltas" in str(found)
    assert not any(step.differs for step in found.steps)
    if "table" not in name:
        (last,) = found.steps[-1].decided.values()
        assert (last.outcomes[-1].outcome, last.line) == ("late", "tombstone > upsert")
    counts = place.merge(delta)  # the same feed again
    assert (counts["feed late"], counts["feed no-op"]) == (3, 2)

    place.merge([(9, 11, ""), (1, 5, ""), (2, 4, ""), (4, 11, ""), (6, 6, "")], full=True)
    assert place.rows() == {9: 11, 1: 5, 6: 6}  # 2 is older than its record was, 4 was deleted by a delta


def test_what_expires_raises_the_horizon_to_the_snapshot(tmp_path: Path) -> None:
    table = mutator.Table.create(tmp_path / "table", SETTINGS)
    table.apply(pa.table({"id": [1, 2], "at": [5, 5]}))
    table.apply(pa.table({"id": [2], "at": [10]}), sync_mode="full")
    table.compact(everything=True, tombstone_retention="0s")
    assert open_snapshot(table.path).version.horizon == "10"


def test_an_update_that_a_snapshot_outran_is_decided_again(tmp_path: Path) -> None:
    table = mutator.Table.create(tmp_path / "table", SETTINGS)
    table.apply(pa.table({"id": [1, 2], "at": [5, 5]}))
    table.apply(pa.table({"id": [2], "at": [10]}), sync_mode="full")
    snapshot = pa.table({"id": [1, 2], "at": [6, 10]})  # deletes nothing; 1 is there again
    with at_phase("commit", lambda: mutator.Table(table.path).apply(snapshot, sync_mode="full") and None):
        table.apply(pa.table({"id": [1], "at": [7]}))
    assert {row["id"]: row["at"] for row in table.scan().to_pylist()} == {1: 7, 2: 10}


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("name", PLACES)
def test_a_snapshot_of_a_part_decides_about_the_part_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "table of large files":
        monkeypatch.setattr(merged_keys, "MOST_ROWS", 0)
    monkeypatch.setattr(opening, "_EVERY", 1)
    place = Place(name, tmp_path)
    place.merge([(1, 5, "A"), (2, 5, "A"), (3, 5, "B"), (4, 5, "B")], full=True)
    place.after_snapshot()
    counts = place.merge([(1, 20, ""), (4, 20, ""), (5, 20, "")], full=True, part="A")  # 4 has moved there
    assert counts["master deleted by absence"] == 1
    assert place.rows() | {4: 20} == {1: 20, 3: 5, 4: 20, 5: 20}  # or a record 4 in each partition
    path = place.path if place.table is None else place.table.path
    more = {} if "table" in name else {"feed": place.feeds, "before": tmp_path / "out1"}
    if name not in ("exported table", "table of a dataset"):
        for key in (2, 3):
            found = mutator.explain(path, key, **more)
            assert not any(step.differs for step in found.steps)
            assert ("deleted by absence" in str(found)) == (key == 2)

    # Whether a snapshot is too old depends on those of its own part, and of parts of that.
    place.merge([(3, 7, "")], full=True, part="B")
    for rows, part in (([(1, 19, "A"), (3, 7, "B")], None), ([(1, 19, "")], "A")):
        with pytest.raises(MutatorError, match=r"has already had one with 20|newer than every row"):
            place.merge(rows, full=True, part=part)
    with pytest.raises(MutatorError, match=r"is not in the part of the snapshot .sync.scope: place = 'A'"):
        place.merge([(1, 30, ""), (3, 30, "B")], full=True, part="A")
    assert place.rows()[3] == 7


@pytest.mark.parametrize("name", ["blocks", "records", "partitioned", "moving records", "table", "table of partitions"])
def test_records_that_move_to_a_part_do_not_weaken_its_limits(name: str, tmp_path: Path) -> None:
    """Of two records of the part, the snapshot lacks both; it has three of another part, and a deleted one."""
    place = Place(name, tmp_path)
    place.merge([(1, 5, "A"), (2, 5, "A"), *((key, 5, "B") for key in (3, 4, 5, 6))], full=True)
    place.merge([(6, 9, "D")])
    place.limits = {"max.delete.fraction": "0.7"}
    with pytest.raises(MutatorError, match=r"2 of .* 2 records in the part"):
        place.merge([(key, 20 if key < 6 else 6, "") for key in (3, 4, 5, 6)], full=True, part="A")
