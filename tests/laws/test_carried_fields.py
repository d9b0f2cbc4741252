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
from mutator.errors import ConfigError
from mutator.formats.files.avro_schema import expanded, to_arrow
from mutator.rules.truth_table import MOVED_INCOMPLETE
from mutator.table import commit
from mutator.table.table import Table
from tests.formats.test_debezium_avro import table_of
from tests.formats.test_debezium_json import schema_of
from tests.laws.test_unset_in_dialects import parquet_file
from tests.support.connect_files import avro_file
from tests.support.dialect_stories import lines
from tests.support.moving_source import (
    FIELDS,
    SCHEMA,
    TELLERS,
    UNSENT,
    Event,
    MovedPlace,
    debezium,
    fold,
    story,
)
from tests.support.named_runs import ENGINES, Work
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner
from tests.table.test_several_writers import PHASES, at_phase

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

    def __init__(
        self, directory: Path, place: str, teller: str, unknown: str, first: dict[int, Any], **functions: str
    ) -> None:
        """first: records of a master that another program wrote. functions: merge functions of fields."""
        more, is_table = PLACES[place]
        more = {**more, **{f"field.merge.{name}": text for name, text in functions.items()}}
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
        for half, part in enumerate(self.parts(messages, rng)):
            self.work.put(f"feed{number}/f_{number}{half}.json", lines(*self.say(FIRST), *part))
        feed = str(self.work.path / f"feed{number}")
        if self.table is not None:
            return Table(self.table.path).apply(feed, open_runner=open_runner)
        self.work.runs -= 1
        return self.work.run(master=f"out{number - 1}" if number > 1 else "master", feed=f"feed{number}")

    def parts(self, messages: list[Any], rng: random.Random) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the messages of each file."""
        rng.shuffle(messages)
        cut = rng.randint(0, len(messages))
        return messages[:cut], messages[cut:]

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


class OfPartitions(Moved):
    """A directory that gets the files of two partitions of a topic: both halves of a change may be in other ones."""

    def parts(self, messages: list[Any], rng: random.Random) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the messages of each file, in their order."""
        told = [one for one in messages if one is not None]
        even = [((one["after"] or one["before"])["id"] % 2) == 0 for one in told]
        return [one for one, own in zip(told, even, strict=True) if own], [
            one for one, own in zip(told, even, strict=True) if not own
        ]


@pytest.mark.parametrize("place", ["blocks", "records"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.rest) for seed in (11, 12, 13))])
def test_names_of_files_may_order_rows(tmp_path: Path, place: str, seed: int) -> None:
    """What moved twice may be in files of another order than that of the changes."""
    rng = random.Random(seed)
    events = story(rng, rng.randint(8, 20), truncates=False)
    moved = OfPartitions(tmp_path, place, "debezium", "wait", {})
    moved.work.settings["sequence.pattern"] = "last"
    for end in (len(events) // 2, len(events)):
        report = moved.run(events[: len(events) // 2] if end < len(events) else events[len(events) // 2 :], rng)
        assert moved.rows() == fold(events[:end])
        assert MOVED_INCOMPLETE not in report.samples


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


@pytest.mark.parametrize("phase", PHASES[:3])
def test_a_writer_carries_what_a_faster_one_changed(
    tmp_path: Path, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 0)
    moved, rng = Moved(tmp_path, "table", "debezium", "wait", {}), random.Random(phase)
    moved.run([Event("I", 1, 2, {"n": "old", "m": "m", "qty": 2})], rng)
    faster = Event("U", 1, 3, {"n": "new", "qty": 3})
    with at_phase(phase, lambda: moved.run([faster], rng)):
        moved.run([Event("M", 4, 4, {"qty": 4}, 1)], rng)
    assert moved.rows()[4] == {"n": "new", "m": "m", "qty": 4}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"partitioned.by": "qty", "key.scope": "partition"}, "key.scope=partition, where the old key may be in"),
        ({"partitioned.by": "qty", "key.scope": "table"}, "a partitioned directory, whose records are found by"),
    ],
)
def test_where_nothing_can_be_carried(tmp_path: Path, more: dict[str, str], why: str) -> None:
    """Rows are rejects, or the run stops if it is to carry fields."""
    work = Work(tmp_path, settings={**SETTINGS, **TELLERS["debezium"].settings, **more})
    work.put("master/m", SCHEMA.empty_table(), "parquet")
    move = [FIRST, Event("M", 4, 4, {"n": "x", "qty": 4}, 99)]
    work.put("feed/f_1.json", lines(*(one for event in move for one in TELLERS["debezium"].say(event))))
    with pytest.raises(ConfigError, match=f"moved.unset: carry, and not in {why}"):
        work.run({"moved.unset": "carry"})
    report = work.run({"reject.policy": "quarantine"})
    reasons = [one["reason"] for one in report.rejects["feed"]]
    assert any("field m is not sent with a new key" in reason for reason in reasons), reasons


@pytest.mark.parametrize("engine", ENGINES)
def test_what_moved_unset_says(tmp_path: Path, engine: str) -> None:
    """A move whose old key is not known waits, or is a reject; an image before it may have what it does not send."""
    work = Work(tmp_path, engine, {**SETTINGS, **TELLERS["debezium"].settings, "reject.policy": "quarantine"})
    work.put("master/m", SCHEMA.empty_table(), "parquet")
    (sent,) = debezium(Event("M", 5, 5, {"qty": 5}, 6), halves=False)
    sent["before"] |= {"n": "before", "m": UNSENT}
    unknown = debezium(Event("M", 4, 4, {"n": "x", "qty": 4}, 3))
    work.put("feed/f_1.json", lines(*debezium(FIRST), *unknown, sent))
    report = work.run()
    assert (report.counts[MOVED_INCOMPLETE], report.samples[MOVED_INCOMPLETE]) == (2, ["4", "5"])
    assert "2 keys with a new record that lacks fields, which the feed and the place do not have" in report.text()
    assert [row["id"] for row in work.rows()] == [99]
    assert work.run({"patch.unknown": "insert"}).counts[MOVED_INCOMPLETE] == 2
    assert [row["n"] for row in work.rows() if row["id"] == 5] == ["before"]
    report = work.run({"moved.unset": "reject"})
    assert (MOVED_INCOMPLETE in report.counts, report.counts["feed rejected"]) == (False, 2)


def test_a_message_of_several_changes_carries_nothing(tmp_path: Path) -> None:
    """One of them may replace another, so which row was the old one is not certain."""
    types = {"id": "bigint(20)", "n": "varchar(255)", "m": "varchar(255)", "qty": "bigint"}
    found = {"database": "d", "table": "t", "isDdl": False, "mysqlType": types, "es": 2, "ts": 1}

    def update(at: int, *moves: tuple[int, int]) -> Any:
        data = [{"id": str(new), "qty": "7", "m": "m"} for _, new in moves]
        return {**found, "id": at, "type": "UPDATE", "data": data, "old": [{"id": str(old)} for old, _ in moves]}

    rows = [{"id": str(key), "n": f"n{key}", "m": "m", "qty": "1"} for key in (1, 2, 3)]
    first = {**found, "id": 1, "type": "INSERT", "data": rows, "old": None}
    work = Work(tmp_path, settings={**SETTINGS, "feed.dialect": "canal-json", "reject.policy": "quarantine"})
    work.put("master/m", SCHEMA.empty_table(), "parquet")
    work.put("feed/f_1.json", lines(first, update(2, (1, 4)), update(3, (2, 5), (3, 6))))
    report = work.run()
    assert [(row["id"], row["n"]) for row in work.rows()] == [(2, "n2"), (3, "n3"), (4, "n1")]
    assert report.counts["feed rejected"] == 1


@pytest.mark.parametrize("form", ["json with schema", "avro", "parquet"])
def test_messages_of_each_form_carry_fields(tmp_path: Path, form: str) -> None:
    events = [FIRST, Event("I", 1, 2, {"n": "a", "m": "b", "qty": 2}), Event("M", 3, 3, {"qty": 3}, 1)]
    messages = [one for event in events for one in debezium(event) if one is not None]
    schema = table_of(("id", "long"), ("n", ["null", "string"]), ("m", ["null", "string"]), ("qty", ["null", "long"]))
    suffix = form.partition(" ")[0]
    if form == "avro":
        content = avro_file(schema, messages)
    elif form == "parquet":
        content = parquet_file(messages, to_arrow(expanded(schema)))
    else:
        types = {"id": "int64", "n": "string", "m": "string", "qty": "int64"}
        of_row = schema_of([{"field": name, "type": kind, "optional": True} for name, kind in types.items()])
        content = lines(*({"schema": of_row, "payload": one} for one in messages))
    work = Work(tmp_path, settings={**SETTINGS, "feed.dialect": f"debezium-{suffix}", "allow.empty.master": "true"})
    (tmp_path / "master").mkdir()
    work.put(f"feed/f_1.{suffix}", content)
    work.run()
    assert work.rows()[0] == {"id": 3, "n": "a", "m": "b", "qty": 3}


@pytest.mark.parametrize("place", ["blocks", "records", "table"])
@pytest.mark.parametrize(("function", "wanted"), [("first", "m"), ("min", "c"), ("max", "y"), ("last_non_null", "n")])
def test_fields_with_merge_functions_are_carried(tmp_path: Path, place: str, function: str, wanted: str) -> None:
    rng = random.Random(1)
    older = [Event("I", 1, 10, {"n": "m", "m": "x", "qty": 1}), Event("U", 1, 11, {"n": "c", "m": "x", "qty": 1})]
    newer = [Event("U", 1, 12, {"n": "y", "m": "x", "qty": 1}), Event("M", 2, 20, {"qty": 2}, 1)]
    after = [Event("U", 2, 21, {"n": "n", "m": "x", "qty": 3})]
    for number, runs in enumerate(([older + newer + after], [older, newer, after, newer, older + newer])):
        moved = Moved(tmp_path / str(number), place, "debezium", "wait", {}, n=function)
        for events in runs:
            moved.run(events, rng)
            if len(runs) > 1 and events is after:
                assert moved.rows()[2]["n"] == wanted
        assert moved.rows()[2] == {"n": wanted, "m": "x", "qty": 3}


@pytest.mark.parametrize("place", ["blocks", "table"])
def test_no_part_of_a_merge_function_is_carried(tmp_path: Path, place: str) -> None:
    """The old key got another record before the change of the key comes."""
    moved = Moved(tmp_path, place, "debezium", "wait", {}, n="max")
    insert = Event("I", 1, 10, {"n": "b", "m": "x", "qty": 1})
    again = [Event("U", 1, 30, {"n": "z", "qty": 3}), Event("U", 1, 9, {"n": "a"})]
    moved.run([insert, *again], random.Random(1))
    report = moved.run([Event("M", 2, 20, {"m": "x", "qty": 2}, 1)], random.Random(1))
    assert report.counts[MOVED_INCOMPLETE] == 1
    assert 2 not in moved.rows()
