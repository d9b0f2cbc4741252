"""A table under random load for a simulated time, compacted and cleaned: its rows, files and scans after every step.

T1: its rows, tombstones and counts are those of a dict. T2: its changes lead from each version to the next. T3: a
compaction and a cleaning change no rows. Its files, and what a scan reads, have limits however long it runs.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.table import scan
from mutator.table.clean import clean_table
from mutator.table.compact_choice import MOST_FILES, MOST_HIDDEN
from mutator.table.table import Table
from tests.support.no_limits import NO_LIMITS

STEP = 10.0  # seconds of simulated time between two feeds
MINUTE, HOUR = 60.0, 3600.0
KEYS, DAYS, BUCKETS = 400, 3, 2
CLEANED = 6  # feeds between two cleanings
RETENTION = 3  # of tombstones: the simulated time, divided by this
SETTINGS: dict[str, Any] = {"key": "id", "order_by": "at", "op": "op", "header": True, **NO_LIMITS}
WORLDS: dict[str, dict[str, str]] = {
    "whole": {},
    "partitions": {"partitioned.by": "day", "key.scope": "table"},
}


class Known(NamedTuple):
    """A record, or a tombstone of one."""

    at: int
    name: str
    day: str
    deleted: bool
    since: float  # when it was committed

    @property
    def row(self) -> tuple[str, int, str]:
        return self.name, self.at, self.day


class Load:
    """Random feeds, and what a table must have after each."""

    def __init__(self, seed: int) -> None:
        self.random, self.number = random.Random(seed), 0
        self.known: dict[str, Known] = {}

    def feed(self, directory: Path) -> tuple[Path, dict[str, tuple[int, str, str, str]]]:
        """Return the next feed file and its mutations by key: few or many, new, late and repeated ones."""
        self.number += 1
        draw = self.random
        count = draw.choice([1, 3, 10, 10, 60])
        keys = {str(draw.randrange(KEYS)) for _ in range(count)}
        mutations = {}
        for key in keys:
            late = draw.random() < 0.1
            at = self.number * 10 - (draw.randrange(200) if late else 0)
            known = self.known.get(key)
            day = f"d{draw.randrange(DAYS)}" if known is None or draw.random() < 0.05 else known.day
            mutations[key] = (at, f"n{self.number}", day, draw.choice("UUUUUUD"))
        path = directory / f"feed_{self.number:05}.csv"
        lines = [f"{key},{at},{op},{name},{day}" for key, (at, name, day, op) in mutations.items()]
        path.write_text("\n".join(["id,at,op,name,day", *lines, ""]))
        return path, mutations

    def apply(self, mutations: dict[str, tuple[int, str, str, str]], now: float) -> Counter[str]:
        """Do what the truth table says; return the counts of the outcomes."""
        counts = Counter[str]()
        for key, (at, name, day, op) in mutations.items():
            old, deleted = self.known.get(key), op == "D"
            if old is not None and old.at > at:
                counts["late"] += 1
                continue
            if deleted:
                outcome = "delete of unknown" if old is None else "no-op" if old.deleted else "deleted"
            else:
                outcome = "inserted" if old is None or old.deleted else "updated"
            counts[outcome] += 1
            if outcome == "no-op" and old is not None and old.at == at:
                continue
            self.known[key] = Known(at, name, day, deleted, now)
        return counts

    def rows(self) -> dict[str, tuple[str, int, str]]:
        return {key: one.row for key, one in self.known.items() if not one.deleted}

    def tombstones(self) -> int:
        return sum(one.deleted for one in self.known.values())


def rows_of(table: Table, version: int | None = None) -> dict[str, tuple[str, int, str]]:
    rows = [row for batch in table.scan(version=version) for row in batch.to_pylist()]
    found = {row["id"]: (row["name"], int(row["at"]), row["day"]) for row in rows}
    assert len(found) == len(rows)
    return found


def replayed(table: Table, before: dict[str, tuple[str, int, str]], start: int, end: int) -> dict[str, Any]:
    """Return the rows that the changes of some versions lead to."""
    rows: dict[str, Any] = dict(before)
    for change in table.changes(start, end).to_pylist():
        row = (change["name"], int(change["at"]), change["day"])
        if change["_change_type"] in ("delete", "update_preimage"):
            assert rows.pop(change["id"]) == row
        else:
            assert rows.setdefault(change["id"], row) == row
    return rows


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the simulated time, in seconds since 1970."""
    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setitem(clean_table.__kwdefaults__, "clock", lambda: now[0])
    return now


def check_size(table: Table, load: Load, world: str) -> None:
    """Hold the limits of files, hidden rows and reads: of what needs no compaction, and of one feed more."""
    snapshot = table.refresh().snapshot
    partitions = DAYS if "partitioned.by" in WORLDS[world] else 1
    units = BUCKETS * partitions
    files = {role: Counter[Any]() for role in (DATA, TOMBSTONES)}
    hidden, live = 0, 0
    for role, found in files.items():
        for one in snapshot.extents(role):
            gone = snapshot.masks.hidden(one.file.path)
            own = int(((gone >= one.start) & (gone < one.end)).sum())
            found[one.extent.partition, one.extent.bucket] += own < one.extent.rows
            hidden, live = hidden + own, live + one.extent.rows - own
        assert max(found.values(), default=0) <= MOST_FILES, role
        assert sum(1 for _ in snapshot.of_role(role)) <= 2 * (MOST_FILES + 1) * units, role
    # Files of which nothing is live may wait for the next compaction.
    assert hidden <= MOST_HIDDEN * (live + hidden) + 60 * (MOST_FILES + 1), (hidden, live)
    checkpoints = list(Path(table.path, "_mutator/table/checkpoints").glob("*.files"))
    assert len(checkpoints) <= 4 * max(table.version.bit_length(), 1)


def run(work: Path, world: str, clock: list[float], seconds: float, seed: int) -> Table:
    settings = {**SETTINGS, **WORLDS[world], "tombstone.retention": f"{seconds / RETENTION:.0f}s"}
    table, load = Table.create(str(work / "table"), settings, buckets=BUCKETS), Load(seed)
    end, begun = clock[0] + seconds, clock[0]
    before, expired, sizes = load.rows(), 0, list[int]()
    while clock[0] < end:
        clock[0] += STEP
        version = table.version
        path, mutations = load.feed(work)
        report = table.apply(str(path), compact_after=True)
        assert report.warnings == (), report.warnings
        counts = load.apply(mutations, clock[0])
        own = {name: report.counts[f"feed {name}"] for name in ("inserted", "updated", "deleted", "late")}
        assert own == {name: counts[name] for name in own}
        # T1, also of the version before the compaction
        assert rows_of(table, version + 1) == rows_of(table) == load.rows()
        # T2
        assert replayed(table, before, version, version + 1) == load.rows()
        if table.version > version + 1:  # T3
            assert report.compaction is not None
            assert table.changes(version + 1, table.version).to_pylist() == []
            expired += forget(load, report.compaction.expired, clock[0] - seconds / RETENTION)
        assert table.snapshot.version.tombstones == load.tombstones()
        check_size(table, load, world)
        path.unlink()
        before = load.rows()
        sizes.append(sum(1 for one in Path(table.path).rglob("*") if one.is_file()))
        if load.number % CLEANED == 0:
            version = table.version
            table.clean(keep_versions=2, grace=f"{STEP:.0f}s")
            assert rows_of(table) == before
            assert table.changes(version, table.version).to_pylist() == []
    # All files, with those of the log: they grow until the first cleanings have removed what was named before.
    third = len(sizes) // 3
    assert max(sizes[-third:]) <= 1.3 * max(sizes[third : 2 * third]) + 20, sizes
    assert table.verify().problems == ()
    assert clock[0] - begun >= seconds
    assert expired > 0
    return table


def forget(load: Load, expired: int, before: float) -> int:
    """Forget the tombstones that a compaction forgot, those from before a time; return their number."""
    old = [key for key, one in load.known.items() if one.deleted and one.since <= before]  # it comes a moment later
    assert expired in (0, len(old)), "all buckets with an expired tombstone need a compaction"
    for key in old if expired else ():
        del load.known[key]
    return expired


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("world", WORLDS)
def test_a_table_under_load_for_some_minutes(world: str, tmp_path: Path, clock: list[float]) -> None:
    run(tmp_path, world, clock, 4 * MINUTE, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("world", WORLDS)
def test_a_table_under_load_for_an_hour(world: str, seed: int, tmp_path: Path, clock: list[float]) -> None:
    run(tmp_path, world, clock, HOUR, seed)


def test_a_scan_reads_no_more_after_many_feeds(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = run(tmp_path, "whole", clock, 2 * MINUTE, 2)
    files = set[str]()
    verified = scan.VerifiedFile
    monkeypatch.setattr(scan, "VerifiedFile", lambda path, data: files.add(data.path) or verified(path, data))
    rows_of(table.refresh())
    assert 0 < len(files) <= BUCKETS * MOST_FILES
