"""The note on records that moved onto a living record: engines, joins, cuts and partitions count the same."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.cli import main
from mutator.rules.key_moves import LowsOfKey
from mutator.rules.last_wins import LAST_WINS
from mutator.rules.truth_table import MOVED_ONTO
from mutator.table.table import Table
from tests.support.dialect_stories import TYPES, Change, canal, canal_of, lines, maxwell, row
from tests.support.effort import law
from tests.support.named_runs import ENGINES, Work
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import scratch

SETTINGS = {"key": "id", "feed.dialect": "maxwell-json", "consumed.files": "merge", "output.format": "parquet"}
ORDER = {"order_by": "message.position.file, message.position.offset, message.xoffset", "order.keep": "false"}
TABLE = {
    "key": "id",
    "feed.dialect": "maxwell-json",
    **ORDER,
    "order_type": "long, long, long",
    "null.order": "lowest",
    "num.reducer": "2",
    **NO_LIMITS,
}
FORMS: dict[str, dict[str, str]] = {  # of the master
    "alone": {},
    "broadcast": {"master.unique": "true"},
    "partitioned": {"partitioned.by": "qty", "key.scope": "table"},
    "by partition": {"partitioned.by": "qty", "key.scope": "partition"},
}
Told = tuple[int, Change]  # a change, and its order value
Key = tuple[int, ...]
Records = dict[Key, tuple[int, bool]]  # order value, and whether the record lives


def noted(run: Sequence[Told], records: Records, *, by_partition: bool) -> list[str]:
    """Return the keys that a run notes, and give the records their new order values, as the contract has it."""

    def key_of(image: Any) -> Key | None:
        return None if image is None else (image["qty"], image["id"]) if by_partition else (image["id"],)

    lows, last = dict[Key, dict[str, int]](), Records()

    def say(key: Key, kind: str, at: int) -> None:
        low = lows.setdefault(key, {})
        low[kind] = min(at, low.get(kind, at))
        last[key] = max(last.get(key, (0, False)), (at, kind != "delete"))

    for at, change in run:
        old, new = key_of(change.before), key_of(change.after)
        moves = change.before is not None and change.after is not None and change.before["id"] != change.after["id"]
        if old is not None and (moves or new is None):
            say(old, "delete", at)
        if new is not None:
            say(new, "arrival" if moves else "upsert", at)
    found = []
    for key, low in lows.items():
        arrival, (at, lives) = low.get("arrival"), records.get(key, (0, False))
        if arrival is None or low.get("delete", arrival + 1) <= arrival:
            continue
        if low.get("upsert", arrival) < arrival or (lives and at < arrival):
            found.append(key)
    for key, one in last.items():
        records[key] = max(records.get(key, one), one)
    return sorted(str(key[-1]) for key in found)


@st.composite
def stories(draw: st.DrawFn) -> list[Told]:
    """Draw changes, some of which move a record to a key that another one may have."""
    kinds = st.sampled_from(["put", "put", "delete", "move", "move", "move"])
    steps = draw(st.lists(st.tuples(kinds, st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=10))
    found = [(1, Change(row(9, "first"), None, (1, 0)))]
    for at, (kind, key, other) in enumerate(steps, 2):
        old = row(key, f"{at}", key % 2)
        if kind == "move" and key != other:
            found.append((at, Change({**old, "id": other, "qty": draw(st.integers(0, 1))}, old, (at, 0))))
        else:
            found.append((at, Change(None, old, (at, 0)) if kind == "delete" else Change(old, None, (at, 0))))
    return found


def moved(key: int, to: int, at: int) -> Change:
    return Change(row(to, f"{key}", key % 2), row(key, f"{key}", key % 2), (at, 0))


def row_of(key: int, n: str, at: int) -> Change:
    return Change(row(key, n, key % 2), row(key, f"{key}", key % 2), (at, 0))


FIRST = [Change(row(key, f"{key}", key % 2), None, (key, 0)) for key in (11, 12, 21, 22, 31, 32, 41, 42, 51, 52)]
CHANGES = [
    *(moved(11, 12, 101), moved(12, 13, 102)),  # a shift loses 11
    *(moved(21, 22, 101), moved(22, 21, 102)),  # a swap loses 21
    *(moved(32, 33, 101), moved(31, 32, 102)),  # a shift from the other end loses nothing
    *(moved(41, 44, 101), moved(44, 41, 102)),  # there and back
    moved(51, 52, 101),
]


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("where", [*ENGINES, "partitioned", "table"])
@pytest.mark.parametrize("together", [True, False])
def test_a_shift_in_the_order_of_the_log_is_noted(
    tmp_path: Path, where: str, together: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    more = FORMS["partitioned"] if where == "partitioned" else {}
    work = Work(tmp_path, where if where in ENGINES else "blocks", {**SETTINGS, **more})
    runs = [[*FIRST, *CHANGES]] if together else [FIRST, CHANGES, [moved(51, 52, 101)]]  # which is delivered again
    work.put("master/m", TYPES.empty_table(), "parquet")
    table = Table.create(str(tmp_path / "table"), TABLE) if where == "table" else None
    found = []
    for number, run in enumerate(runs):
        work.put(f"feed{number}/f_{number}.json", lines(*map(maxwell, run)))
        if table is None:
            report = work.run(master=f"out{number}" if number else "master", feed=f"feed{number}")
        else:
            report = Table(table.path).apply(str(tmp_path / f"feed{number}"))
        found.append(report.samples.get(MOVED_ONTO, []))
        text = "3 keys with a record onto which another one moved, so that one of both is lost, for example 12; 22; 52"
        assert (text in report.text()) == bool(found[-1]), report.text()
    assert found == ([["12", "22", "52"]] if together else [[], ["12", "22", "52"], []])
    place, feeds = tmp_path / "table" if table is not None else work.output, [*map(str, tmp_path.glob("feed*"))]
    if together:
        for key, notes in (("12", [MOVED_ONTO]), ("32", [])):
            assert main(["explain", str(place), key, "--json", "--feed", *feeds]) == 0
            versions = json.loads(capsys.readouterr().out)["versions"]
            assert [
                name for one in versions for own in one["decided"] for name in own["notes"] if name == MOVED_ONTO
            ] == notes


@pytest.mark.parametrize("form", FORMS)
@given(stories(), st.randoms(use_true_random=False))
@law(60)
def test_runs_note_records_that_moved_onto_others(form: str, story: list[Told], rng: random.Random) -> None:
    first, *others = story
    rng.shuffle(others)
    cut = rng.randrange(len(others) + 1)
    runs = [[first, *others[:cut]], [*others[cut:], rng.choice(story)]]
    records = Records()
    with scratch() as directory:
        work = Work(directory, rng.choice(ENGINES if form == "alone" else ENGINES[:1]), {**SETTINGS, **FORMS[form]})
        olds = [row(key, "old", key % 2) for key in (1, 2)] if form == "broadcast" else []
        work.put("master/m", pa.Table.from_pylist(olds, TYPES), "parquet")
        table = None
        if form != "broadcast" and rng.random() < 0.5:
            table = Table.create(str(directory / "table"), {**TABLE, **FORMS[form]}, dataset=str(directory / "master"))
        for number, run in enumerate(runs):
            parts = [run[::2], run[1::2]] if number else [run]
            for name, part in enumerate(filter(None, parts)):
                said = [maxwell(change) for _, change in part]
                work.put(f"feed{number}/f_{name}.json", lines(*said))
            if table is None:
                report = work.run(
                    master=f"out{number}" if number and form != "broadcast" else "master", feed=f"feed{number}"
                )
            else:
                report = Table(table.path).apply(str(directory / f"feed{number}"))
            if form == "broadcast":  # each run begins with the master that another program wrote
                records = {(one["id"],): (0, True) for one in olds}
            assert table is not None or (report.join == "broadcast") == (form == "broadcast")
            wanted = noted(run, records, by_partition=form == "by partition")
            assert report.counts.get(MOVED_ONTO, 0) == len(wanted)
            shown = [key.split(",")[-1] for key in report.samples.get(MOVED_ONTO, [])]
            assert sorted(shown) == wanted[: len(shown)]
            assert len(shown) == min(len(wanted), 5)


def test_rows_of_one_statement_change_their_keys_at_once(tmp_path: Path) -> None:
    work = Work(tmp_path, settings=SETTINGS | {"feed.dialect": "canal-json"})
    work.put("master/m", TYPES.empty_table(), "parquet")
    work.put("feed0/f_1.json", lines(*map(canal, FIRST)))
    work.run(feed="feed0")
    statements = [
        [moved(11, 12, 101), moved(12, 13, 101)],
        [moved(21, 22, 101), moved(22, 21, 101)],
        [moved(31, 32, 101), row_of(41, "other", 101)],
    ]
    work.put("feed1/f_2.json", lines(*map(canal_of, statements)))
    report = work.run(master="out1", feed="feed1")
    found = {one["id"]: one["n"] for one in work.rows()}
    assert {key: found.get(key) for key in (11, 12, 13)} == {11: None, 12: "11", 13: "12"}
    assert (found[21], found[22], found[41]) == ("22", "21", "other")
    assert report.samples[MOVED_ONTO] == ["32"], "which no row of its statement left"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("is_text", [True, False])
def test_a_key_that_is_spelled_otherwise_did_not_change(tmp_path: Path, engine: str, is_text: bool) -> None:
    work = Work(tmp_path, engine, SETTINGS)
    ids = ["1.50", "2.00"] if is_text else [Decimal("1.50"), Decimal("2.00")]
    work.put("master/m", pa.table({"id": ids, "n": ["a", "b"]}), "parquet")
    said = (
        b'{"database": "d", "table": "t", "type": "update", "position": "bin.000007:%d", "data": {"id": %b, "n": "c"}, '
    )
    said += b'"old": {"id": %b, "n": "a"}}\n'
    work.put("feed/f_1.json", said % (100, b"1.5", b"1.50") + said % (200, b"3.0", b"2.00"))
    report = work.run()
    names = ("rows", "updated", "inserted", "deleted", "superseded", "halves")
    wanted = (2, 0, 2, 2, 0, 2) if is_text else (2, 1, 1, 1, 0, 1)
    assert tuple(report.counts.get(f"feed {name}", 0) for name in names) == wanted
    assert {str(one["id"]): one["n"] for one in work.rows()} == (
        {"1.5": "c", "3.0": "c"} if is_text else {"1.50": "c", "3.00": "c"}
    )


def test_an_arrival_and_the_same_upsert_are_not_tied() -> None:
    mutations = [((5, 1), (False, b"k,5,x", None, True)), ((5, 1), (False, b"k,5,x"))]
    assert not LAST_WINS.fold_key(LowsOfKey().watched(mutations)).mixed
