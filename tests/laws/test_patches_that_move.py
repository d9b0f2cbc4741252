"""Patches and merge functions where records move: a partitioned master has what one without partitions has.

Both take the same runs of typed rows, with late rows, ties, deletes and truncates. Fields of partitions are in paths.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutator
from mutator.frames.dataset import Dataset
from tests.support import local_engine
from tests.support.effort import law
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import scratch

TEXTS = ("id", "op", "q", "sent")
SCHEMA = pa.schema([*((name, pa.string()) for name in TEXTS), *((name, pa.int64()) for name in ("at", "p", "n"))])
SETTINGS = {"key": "id", "order_by": "at", "op": "op", "truncate.op.code": "T", "allow.empty.master": "true"}
SETTINGS |= {"columns.to.update": "sent", "consumed.files": "merge", "reject.policy": "quarantine", **NO_LIMITS}
MERGES = {"field.merge.n": "sum"}
KINDS: dict[str, dict[str, str]] = {
    "insert": {"patch.unknown": "insert"},
    "wait": {},
    "reject": {"patch.unknown": "reject"},
    "merge": MERGES,
    "merge or insert": {**MERGES, "patch.unknown": "insert"},
    "ignore": {"noop.ignore": "n"},
}
PLACES = ("p", "q", "q,p", "bucket(q,3)")


def moved(report: Any, way: str) -> int:
    """Return the number of records that moved into partitions, or out of them."""
    return sum(one.get(f"moved {way}", 0) for one in report.partitions)


def row(rng: random.Random, orders: int) -> dict[str, Any]:
    op = rng.choices("UPDT", [5, 8, 3, 0.4])[0]
    found = {"p": rng.choice([1, 2, None]), "q": rng.choice(["x", "y", None]), "n": rng.randint(1, 3)}
    sent = rng.sample("pqn", rng.randint(1, 2)) if op == "P" else []
    op = "U" if op == "P" else op
    return {"id": rng.choice("abcd"), "at": rng.randint(1, orders), "op": op, "sent": ",".join(sent), **found}


def put(directory: Path, rows: Sequence[dict[str, Any]], rng: random.Random) -> None:
    directory.mkdir()
    cut = rng.randint(0, len(rows))
    for name, part in (("f0", rows[:cut]), ("f1", rows[cut:])):
        if part:
            pq.write_table(pa.Table.from_pylist(part, SCHEMA), directory / f"{name}.parquet", row_group_size=2)


class Runs:
    """A master, from run to run."""

    def __init__(self, work: Path, on: Callable[..., Any] | None = None, **settings: str) -> None:
        """on: merges without a seed, on Spark; None: local."""
        self.work, self.on, self.settings, self.count = work, on, {**SETTINGS, **settings}, 0
        (work / "out0").mkdir(parents=True)

    def run(self, feed: Path, rng: random.Random, **settings: str) -> Any:
        places: Any = {"master": str(self.work / f"out{self.count}"), "feed": [str(feed)]}
        self.count += 1
        output = str(self.work / f"out{self.count}")
        own = {"memory.bytes": rng.choice(["40", "134217728"]), "num.reducer": rng.choice("127"), **settings}
        merge = self.on or partial(local_engine.mutate, seed=rng.randrange(9))
        report = merge({**self.settings, **own}, **places, output=output)
        verified = local_engine.verify(output)
        assert verified.differences == ()
        rows = sorted(Dataset(output).to_arrow().to_pylist(), key=lambda one: one["id"])
        counts = {name: count for name, count in report.counts.items() if count}
        return rows, verified.waiting, counts, report


@pytest.mark.parametrize("kind", KINDS)
@given(rng=st.randoms(use_true_random=False))
@law(45)
def test_a_partitioned_master_has_what_one_without_partitions_has(kind: str, rng: random.Random) -> None:
    orders, changes = rng.choice([4, 12]), rng.choice(["true", "false"])
    with scratch() as work:
        plain = Runs(work / "plain", **KINDS[kind], changes=changes)
        moving = Runs(work / "moving", **KINDS[kind], changes=changes, **{"partitioned.by": rng.choice(PLACES)})
        for number in range(rng.randint(2, 5)):
            put(feed := work / f"feed{number}", [row(rng, orders) for _ in range(rng.randint(1, 9))], rng)
            expected, waiting, counts, _ = plain.run(feed, rng)
            rows, waits, found, report = moving.run(feed, rng)
            assert (rows, waits) == (expected, waiting)
            leaves = {name for name in (*found, *counts) if name.startswith(("feed ", "master ", "tombstones"))}
            leaves |= {"tied", "out of order", "revived", "partly cleared", "rows cleared", "late after the seal"}
            assert {name: found.get(name) for name in leaves} == {name: counts.get(name) for name in leaves}
            assert moved(report, "in") == moved(report, "out")


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("kind", ["wait", "merge or insert"])
def test_records_move_on_spark(kind: str, sc: Any, tmp_path: Path) -> None:
    rng = random.Random(1)
    plain = Runs(tmp_path / "plain", **KINDS[kind])
    moving = Runs(tmp_path / "moving", partial(mutator.mutate, sc), **KINDS[kind], **{"partitioned.by": "q,p"})
    count = 0
    for number in range(2):
        put(feed := tmp_path / f"feed{number}", [row(rng, 12) for _ in range(12)], rng)
        found = moving.run(feed, rng)
        assert found[:2] == plain.run(feed, rng)[:2]
        count += moved(found[3], "in")
    assert count


def test_whole_rows_in_their_own_partitions_are_not_searched_for(tmp_path: Path) -> None:
    """Patches, deletes, and rows for another partition are, and their old rows are read."""
    runs, rng = Runs(tmp_path, **{"partitioned.by": "p", "patch.unknown": "insert"}), random.Random(1)
    whole = {"op": "U", "q": "x", "n": 1, "sent": ""}

    def searched(**change: Any) -> tuple[list[Any], int]:
        rows = [{"id": key, "at": runs.count + 1, "p": 1, **whole, **change} for key in "ab"]
        put(feed := tmp_path / f"feed{runs.count}", rows, rng)
        records, *_, report = runs.run(feed, rng, **{"num.reducer": "1", "memory.bytes": "134217728"})
        found = [int(note.split()[0]) for note in report.notes if "may have records in other partitions" in note]
        return [(one["p"], one["q"]) for one in records], sum(found)

    searched()
    assert searched(q="y") == ([(1, "y")] * 2, 0)
    assert searched(p=7, sent="p") == ([(7, "y")] * 2, 2)
    assert searched(p=7, q="z") == ([(7, "z")] * 2, 0)
    assert searched(p=5, q="w") == ([(5, "w")] * 2, 2)
    assert searched(q="v", sent="q") == ([(5, "v")] * 2, 2)
    assert searched(op="D") == ([], 2)
