"""The law of fields that changes of keys carry: places have the rows of the source, however events are delivered."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.rules.truth_table import MOVED_INCOMPLETE
from mutator.table.table import Table
from tests.support.dialect_stories import lines
from tests.support.moving_source import FIELDS, SCHEMA, TELLERS, Event, MovedPlace, fold, story
from tests.support.named_runs import Work
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

SETTINGS = {"key": "id", "consumed.files": "merge", "output.format": "parquet"}
OF_TABLE = {"null.order": "lowest", "order.keep": "false", "num.reducer": "2", **NO_LIMITS}
FIRST = Event("I", 99, 0, {"n": "first", "m": "one", "qty": 7})  # in each file, to say what fields it has
PLACES = {  # settings, and whether the place is a table
    "blocks": ({}, False),
    "records": ({}, False),
    "broadcast": ({"master.unique": "true"}, False),
    "table": ({}, True),
    "moving": ({"partitioned.by": "qty", "key.scope": "table"}, True),
}


class Moved:
    """A directory or a table, from run to run."""

    def __init__(self, directory: Path, place: str, teller: str, unknown: str, first: dict[int, Any]) -> None:
        """first: records of a master that another program wrote."""
        more, is_table = PLACES[place]
        self.settings = {**SETTINGS, **TELLERS[teller].settings, **more, "patch.unknown": unknown}
        self.work = Work(directory, "records" if place == "records" else "blocks", self.settings)
        self.table: Table | None = None
        self.say = TELLERS[teller].say
        rows = [{"id": key, **row} for key, row in first.items()]
        self.work.put("master/m", pa.Table.from_pylist(rows, SCHEMA), "parquet")
        if is_table:
            order = {"order_by": ", ".join(TELLERS[teller].order), "order_type": ", ".join(TELLERS[teller].types)}
            self.table = Table.create(str(directory / "table"), {**OF_TABLE, **order, **self.settings})

    def run(self, events: Sequence[Event], rng: random.Random) -> Any:
        """Deliver events in two files, in any order."""
        self.work.runs += 1
        number, messages = self.work.runs, [one for event in events for one in self.say(event)]
        rng.shuffle(messages)
        head = self.say(FIRST)
        cut = rng.randint(0, len(messages))
        for half, part in enumerate((messages[:cut], messages[cut:])):
            self.work.put(f"feed{number}/f_{number}{half}.json", lines(*head, *part))
        feed = str(self.work.path / f"feed{number}")
        if self.table is not None:
            return Table(self.table.path).apply(feed, open_runner=open_runner)
        self.work.runs -= 1
        return self.work.run(master=f"out{number - 1}" if number > 1 else "master", feed=f"feed{number}")

    def rows(self) -> dict[int, Any]:
        """Return the records by their keys."""
        found = self.work.rows() if self.table is None else Table(self.table.path).scan().to_pylist()
        return {row["id"]: {name: row[name] for name in FIELDS} for row in found}


@pytest.mark.parametrize("teller", TELLERS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rest) for seed in range(1, 6))])
def test_what_moves_has_the_fields_of_its_old_key(tmp_path: Path, place: str, teller: str, seed: int) -> None:
    """Runs in the order of the source, with events in any order within them, and some of them delivered again."""
    rng = random.Random(f"{place} {teller} {seed}")
    events = story(rng, rng.randint(4, 24), truncates=TELLERS[teller].truncates)
    first = rng.randint(0, len(events) // 2) if not PLACES[place][1] and rng.random() < 0.5 else 0
    first = 0 if any(one.op == "T" for one in events[:first]) else first
    moved = Moved(tmp_path, place, teller, rng.choice(["wait", "insert"]), fold(events[:first]))
    cuts = sorted(rng.sample(range(first + 1, len(events)), min(len(events) - first - 1, rng.randint(0, 3))))
    for start, end in zip([first, *cuts], [*cuts, len(events)], strict=True):
        again = rng.sample(events[first:end], rng.randint(0, end - first)) if rng.random() < 0.7 else []
        report = moved.run([*events[start:end], *again], rng)
        assert moved.rows() == fold(events[:end])
        assert MOVED_INCOMPLETE not in report.samples
        assert not report.rejects


@pytest.mark.parametrize("teller", ["debezium", "ogg"])
@pytest.mark.parametrize("place", ["blocks", "records", "table"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rest) for seed in range(1, 12))])
def test_events_that_come_late_leave_what_the_model_has(tmp_path: Path, place: str, teller: str, seed: int) -> None:
    """Events of any run, in any order: what a move cannot carry is noted, and waits."""
    rng = random.Random(f"{place} {teller} {seed}")
    events = story(rng, rng.randint(4, 20))
    moved, model = Moved(tmp_path, place, teller, "wait", {}), MovedPlace()
    runs = [[one for one in events if rng.random() < 0.5] for _ in range(rng.randint(2, 4))]
    for run in [*runs, events]:
        report = moved.run(run, rng)
        wanted = model.run([FIRST, *run])
        assert moved.rows() == model.rows()
        assert report.counts.get(MOVED_INCOMPLETE, 0) == len(wanted)
        assert [int(key) for key in report.samples.get(MOVED_INCOMPLETE, [])] == wanted[:5]


@pytest.mark.parametrize("place", ["blocks", "table"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rest) for seed in range(1, 8))])
def test_explain_says_what_is_carried(
    tmp_path: Path, place: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(f"{place} {seed}")
    events = story(rng, rng.randint(12, 24), truncates=False)
    moved, half = Moved(tmp_path, place, "debezium", "wait", {}), len(events) // 2
    for run in (events[:half], events[half:]):
        moved.run(run, rng)
    where = tmp_path / "table" if place == "table" else moved.work.output
    feeds = [f"--feed={tmp_path}/feed{number}" for number in (1, 2)]
    carried = 0
    for key in fold(events):
        assert main(["explain", str(where), str(key), "--json", *feeds]) == 0
        found = json.loads(capsys.readouterr().out)
        assert not any(one["differs"] for one in found["versions"]), found
        told = [other for one in found["versions"] for own in one["decided"] for other in own["mutations"]]
        carried += sum(bool(one["carried"]) for one in told)
    last = {key: one for one in events for key in (one.key, one.old)}
    if place != "table":  # whose files have the rows that were written
        assert carried >= sum(last[key].op == "M" and len(last[key].given) < len(FIELDS) for key in fold(events))
