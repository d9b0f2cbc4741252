"""The law of dialects: the same changes of a table, told in any dialect, give the same master and the same counts.

A story is what a database does to one table. What a dialect cannot say is told in other words: a truncate as
deletes, and a changed key as a delete and an insert.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.test_debezium_json import schema_of
from tests.formats.test_flat_dialects import CASES, Case, in_text
from tests.support import model
from tests.support.dialect_stories import DIALECTS, TYPES, Change, DialectForm, debezium, lines, row
from tests.support.effort import law
from tests.support.model import Key, Row
from tests.support.named_runs import ENGINES, Work
from tests.support.text_runs import scratch

Said = list[Any]  # rows or messages of a file
OUTCOMES = ("inserted", "updated", "deleted", "no-op", "late", "delete of unknown")


class Event(NamedTuple):
    """What happens to the table: a change of one row, or a truncate."""

    change: Change | None
    gone: tuple[Any, ...] = ()  # the rows that a truncate deletes
    again: bool = False  # a snapshot tells a row that did not change


class Writer(NamedTuple):
    """How a dialect tells events."""

    settings: Mapping[str, str]
    say: Callable[[Event, int], Said]  # number: of the event, from 1
    put: Callable[[Work, str, Said, str], object]  # writes a file: of a name without suffix, with rows, in a format
    columns: tuple[str, ...]
    formats: tuple[str, ...] = ("json",)
    moves: bool = True  # it says changed keys
    truncates: bool = False
    noise: Sequence[Any] = ()  # messages that are no rows
    name: str = "f_{}"  # of a file, by its number
    by_name: bool = False  # names of files, and places in them, order the rows
    before: bool = False  # rows before updates are mutations, too


class Words(NamedTuple):
    """What a dialect of messages says beside changes: members that such a message has instead."""

    truncate: Mapping[str, Any] | None = None
    again: Mapping[str, Any] = {}
    noise: Sequence[Any] = (None,)


_NONE = {"before": None, "after": None}
_OF_DEBEZIUM = Words({"op": "t", **_NONE}, {"op": "r"}, (None, {"ts_ms": 5}, {"status": "END", "id": "7", "ts_ms": 5}))
WORDS = {
    "debezium-json": _OF_DEBEZIUM,
    **dict.fromkeys(("debezium-avro", "debezium-parquet"), _OF_DEBEZIUM._replace(noise=())),
    "maxwell-json": Words(again={"type": "bootstrap-insert"}, noise=(None, {"type": "table-drop", "database": "d"})),
    "canal-json": Words(
        {"type": "TRUNCATE", "isDdl": True, "data": None, "old": None}, {"type": "INIT"}, ({"type": "MHEARTBEAT"},)
    ),
    "ogg-json": Words({"op_type": "T", **_NONE}),
}


def of_messages(told: DialectForm, wrap: Callable[[Any], Any] = lambda message: message) -> Writer:
    """Return the writer of a dialect of messages."""
    words = WORDS.get(told.name, Words())

    def say(event: Event, number: int) -> Said:
        change = event.change or Change(event.gone[0] if event.gone else row(1, ""), None, (0, 0))
        members = words.again if event.again else {} if event.change else words.truncate
        return [{**told.message(change._replace(at=(number, number), last=True)), **(members or {})}]

    def put_lines(work: Work, name: str, said: Said, _: str) -> None:
        work.put(f"{name}.{told.suffix}", told.file(*map(wrap, said)))

    settings, columns = {"feed.dialect": told.name}, tuple(TYPES.names)
    return Writer(settings, say, put_lines, columns, truncates=words.truncate is not None, noise=words.noise)


def with_schema(message: Any) -> Any:
    types = {"id": "int64", "n": "string", "qty": "int64"}
    schema = schema_of({"field": name, "type": kind, "optional": True} for name, kind in types.items())
    return {"schema": message and schema, "payload": message}


def put_rows(work: Work, name: str, said: Said, form: str) -> None:
    """Write flat rows; CSV has \\N for NULL, and other formats have types, for columns without values, too."""
    if form == "json":
        work.put(f"{name}.json", lines(*map(in_text, said)))
        return
    if form == "csv":
        said = [in_text({**one, "n": "\\N" if one["n"] is None else one["n"]}) for one in said]
    table = pa.Table.from_pylist(said)
    types = [TYPES.field(one.name) if one.name in TYPES.names else one for one in table.schema]
    work.put(name, table.cast(pa.schema(types)), form)


def flattened() -> Writer:
    """Return the writer of flattened messages of Debezium, which say neither truncates nor changed keys."""

    def say(event: Event, number: int) -> Said:
        change = event.change
        assert change is not None
        op = "r" if event.again else "d" if change.after is None else "c" if change.before is None else "u"
        added = {"__op": op, "__deleted": str(change.after is None).lower(), "__lsn": number}
        return [{**(change.after or change.before or {}), **added}]

    formats = ("json", "parquet", "avro", "orc")
    return Writer({"feed.dialect": "debezium-flat"}, say, put_rows, tuple(TYPES.names), formats, moves=False)


def of_rows(case: Case) -> Writer:
    """Return the writer of a dialect of flat rows."""

    def say(event: Event, number: int) -> Said:
        change = event.change
        assert change is not None
        old, new = (None if one is None else (one["id"], one["n"]) for one in (change.before, change.after))
        if new is None:
            what = [(number, "delete", *(old or ()))]
        else:
            what = [(number, "before", *old), (number, "update", *new)] if old else [(number, "insert", *new)]
        return [{**one, **({"__$command_id": number} if "__$command_id" in one else {})} for one in case.rows(what)]

    formats = ("csv", "json", "parquet", "orc", *(() if "$" in case.field else ("avro",)))
    before = "before" in case.codes
    own = {"csv.null": "\\N", **case.settings, "feed.dialect": case.dialect}
    by_name = not case.has_order or case.dialect == "iceberg-changelog"  # the ordinals of each view begin at 0
    return Writer(own, say, put_rows, ("id", "n"), formats, before, name=case.name, by_name=by_name, before=before)


WRITERS = {
    **{name: of_messages(told) for name, told in DIALECTS.items()},
    "debezium with schema": of_messages(DialectForm("debezium-json", debezium, (), ()), with_schema),
    "debezium flattened": flattened(),
    **{case.dialect: of_rows(case) for case in CASES},
}


@st.composite
def stories(draw: st.DrawFn) -> list[Event]:
    """Draw what happens to a table of up to four rows. The first one has all values, which say types."""
    rows = {9: row(9, "first")}
    found = [Event(Change(rows[9], None, (0, 0)))]
    kinds = ["put"] * 4 + ["delete", "delete", "move", "truncate", "again"]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=9)):
        key = draw(st.integers(1, 3))
        old = rows.get(key)
        if kind == "truncate":
            found.append(Event(None, tuple(rows.values())))
            rows.clear()
        elif kind == "put" or old is None:
            new = row(key, draw(st.sampled_from((None, "", "a", "ü\n😀"))), draw(st.sampled_from((None, 0, 2**62))))
            rows[key] = new
            found.append(Event(Change(new, old, (0, 0))))
        elif kind == "again":
            found.append(Event(Change(old, None, (0, 0)), again=True))
        elif kind == "move" and (free := [one for one in (1, 2, 3) if one not in rows]):
            new = rows[free[0]] = {**rows.pop(key), "id": free[0]}
            found.append(Event(Change(new, old, (0, 0))))
        else:
            has_key_alone = draw(st.booleans())
            del rows[key]
            found.append(Event(Change(None, row(key, "" if has_key_alone else old["n"], old["qty"]), (0, 0))))
    return found


def told(story: Sequence[Event], writer: Writer) -> list[Event]:
    """Return a story in what a dialect can say."""
    found = list[Event]()
    for event in story:
        change = event.change
        if change is None and not writer.truncates:
            found += [Event(Change(None, one, (0, 0))) for one in event.gone]
        elif (
            change and change.after and change.before and change.after["id"] != change.before["id"] and not writer.moves
        ):
            found += [Event(change._replace(after=None)), Event(change._replace(before=None))]
        else:
            found.append(event)
    return found


def mutations(event: Event, number: int, columns: Sequence[str]) -> list[Row]:
    """Return the mutations that an event is, for the model."""
    if event.change is None:
        return []
    images = {} if event.change.before is None else {event.change.before["id"]: (event.change.before, True)}
    if event.change.after is not None:
        images[event.change.after["id"]] = event.change.after, False
    return [
        Row((str(key).encode(),), number, -1, b"", 0, b"", deleted, repr([image[name] for name in columns]).encode())
        for key, (image, deleted) in images.items()
    ]


@pytest.mark.parametrize("dialect", WRITERS)
@given(stories(), st.randoms(use_true_random=False))
@law(60)
def test_a_story_is_the_same_in_each_dialect(dialect: str, story: list[Event], rng: random.Random) -> None:
    writer = WRITERS[dialect]
    first, *others = enumerate(told(story, writer), 1)
    form = rng.choice(writer.formats)
    if not writer.by_name:
        rng.shuffle(others)
    events = [first, *others]
    cuts = sorted(rng.randrange(1, len(events) + 1) for _ in range(2))
    files = [*enumerate(filter(None, (events[: cuts[0]], events[cuts[0] : cuts[1]], events[cuts[1] :])), 1)]
    files[1:] = rng.sample(files[1:], len(files) - 1)
    middle = rng.randrange(1, len(files) + 1)
    runs = [files[:middle], [*files[middle:], rng.choice(files[:middle])]]  # one of them twice

    with scratch() as directory:
        work = Work(directory, rng.choice(ENGINES), {"key": "id", "consumed.files": "merge", **writer.settings})
        work.settings |= {"output.format": "parquet"}
        work.put("master/m", TYPES.empty_table().select([*writer.columns]), "parquet")
        for name, part in files:
            said = [one for of, event in part for one in writer.say(event, of)]
            at = rng.randrange(len(said)) + 1
            noise = rng.sample([*writer.noise], rng.randrange(len(writer.noise) + 1))
            writer.put(work, f"file{name}/{writer.name.format(name)}", [*said[:at], *noise, *said[at:]], form)
        records, tombstones = dict[Key, tuple[Any, bytes]](), dict[Key, tuple[Any, int]]()
        truncated = 0
        for number, run in enumerate(runs):
            feed = list[Row]()
            (directory / f"feed{number}").mkdir()
            for name, part in run:
                for path in directory.glob(f"file{name}/*"):
                    shutil.copy(path, directory / f"feed{number}")
                feed += [one for of, event in part for one in mutations(event, of, writer.columns)]
                truncated += sum(event.change is None for _, event in part)
            report = work.run(master=f"out{number}" if number else "master", feed=f"feed{number}")
            assert not report.rejects
            if truncated:  # the model knows no floor
                continue
            master = [Row(key, order, -1, b"", 0, b"", False, written) for key, (order, written) in records.items()]
            merged = model.merge(master, tombstones, feed)
            records, tombstones = merged.records, merged.tombstones
            names = OUTCOMES if writer.before else (*OUTCOMES, "superseded")
            wanted = Counter({name: merged.counts[f"feed {name}"] for name in names})
            assert Counter({name: report.counts[f"feed {name}"] for name in names}) == wanted
        found = work.rows()
    end = {}
    for event in story:
        for one in event.gone:
            del end[one["id"]]
        if event.change is not None and event.change.before is not None:
            end.pop(event.change.before["id"])
        if event.change is not None and event.change.after is not None:
            end[event.change.after["id"]] = event.change.after
    shown = [{name: one[name] for name in writer.columns} for one in found]
    assert sorted(shown, key=lambda one: one["id"]) == [
        {name: end[key][name] for name in writer.columns} for key in sorted(end)
    ]
