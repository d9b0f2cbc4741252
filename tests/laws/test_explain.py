"""``explain`` says of every key what the reference model says, on random chains of runs of a base."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mutator import config as configuration
from mutator.workflow import directory
from mutator.workflow.directory.explain import explain
from tests.support import local_engine, model
from tests.support.effort import law
from tests.support.master_base import run_workflow
from tests.support.model import Row
from tests.support.text_runs import scratch
from tests.support.text_worlds import BY_NAME, ORDERS, File, RowPlan, make_files, make_world
from tests.support.text_worlds import order_of as parsed

PARTS = ("order value", "sequence", "file name", "byte offset", "row bytes")


class Base:
    """A base with random runs, and what the model says of each key after each of them."""

    def __init__(self, work: Path, shape: RowPlan, given_files: tuple[File, ...], rng: random.Random) -> None:
        self.path, self.shape = work / "base", shape
        (self.path / "master").mkdir(parents=True)
        (self.path / "incr").mkdir()
        for file in given_files:
            (self.path / "master" / file.name).write_bytes(file.content())
        self.rows = [row for file in given_files for row in file.rows(shape)]
        self.tombstones = {}
        settings = {
            **shape.settings(),
            "consumed.files": "merge",
            "reused.names": "accept",
            "reject.policy": "quarantine",
            "master.reject.policy": "quarantine",
            "claim.min.age": "0s",
            "num.reducer": rng.choice(["2", "4"]),
            "backup.keep": rng.choice(["1", "2", "9"]),
        }
        self.config = configuration.parse(settings)
        self.said: list[dict] = []  # version by version: key -> what the model says

    def run(self, feed: tuple[File, ...]) -> None:
        for file in feed:
            (self.path / "incr" / file.name).write_bytes(file.content())
        merge = directory.merge_by(self.config, local_engine.merge)
        run_workflow(str(self.path), self.config, merge, sleep=lambda _: None)
        rows = [row for file in feed for row in file.rows(self.shape)]
        keys = {row.key for row in (*rows, *self.rows)} | set(self.tombstones)
        said, records, tombstones = {}, [], {}
        for key in keys:
            mine = [row for row in self.rows if row.key == key]
            buried = {key: self.tombstones[key]} if key in self.tombstones else {}
            of_key = [row for row in rows if row.key == key]
            merged = model.merge(mine, buried, of_key)
            said[key] = told(mine, buried.get(key), of_key, merged)
            for order, content in merged.records.values():
                records.append(Row(key, order, -1, b"", 0, content, False, content))
            tombstones |= merged.tombstones
        self.said.append(said)
        self.rows, self.tombstones = records, tombstones


def told(master, tombstone, feed, merged):
    """Return the outcome of each mutation by (name, offset), the line of the table, and the state afterwards."""
    known = model.last(master)
    ordered = sorted(feed, key=lambda r: (r.order, r.sequence, r.name, r.offset, r.row))
    outcomes = {}
    for row in ordered[:-1]:
        top = ordered[-1]
        pairs = zip(
            (top.order, top.sequence, top.name, top.offset, top.row),
            (row.order, row.sequence, row.name, row.offset, row.row),
            strict=True,
        )
        part = next((name for name, (one, other) in zip(PARTS, pairs, strict=True) if one != other), None)
        outcomes[row.name, row.offset] = ("superseded", part)
    line = None
    if ordered:
        winner, record = ordered[-1], next(iter(known.values()), None)
        (outcome,) = {
            name.removeprefix("feed ")
            for name, count in merged.counts.items()
            if count and name.startswith("feed ") and name != "feed superseded"
        }
        outcomes[winner.name, winner.offset] = (outcome, None)
        kind = "delete" if winner.is_delete else "upsert"
        entry = "record" if record else "tombstone" if tombstone else "nothing"
        order = record.order if record else tombstone[0] if tombstone else None
        relation = "," if order is None else " >" if order > winner.order else " <="
        content = ""
        if record and not winner.is_delete and order <= winner.order:
            content = ", same bytes" if record.written == winner.written else ", other bytes"
        line = f"{entry}{relation} {kind}{content}"
    return outcomes, line, "tied" in merged.notes, state(merged)


def state(merged):
    for order, content in merged.records.values():
        return "record", order, content
    for order, _ in merged.tombstones.values():
        return "tombstone", order, None
    return "nothing", None, None


def said_of(shape, held):
    """Return a state as the model has it: order values of fields are indexes of ORDERS."""
    if held.kind == "nothing":
        return "nothing", None, None
    return held.kind, order_of(shape, held.order), held.content if held.kind == "record" else None


def order_of(shape, value):
    if shape.order == BY_NAME:
        return value
    return next(number for number, forms in enumerate(ORDERS[shape.order]) if parsed(shape.order, forms[0]) == value)


def check(base: Base, key) -> None:
    found = explain(str(base.path), list(key), base.config)
    (now,) = found.now.values()
    expected = next((said[key][3] for said in reversed(base.said) if key in said), ("nothing", None, None))
    assert said_of(base.shape, now) == expected
    steps = {step.feed.number: step for step in found.steps}
    assert not any(step.differs for step in found.steps)
    for number, said in enumerate(base.said, 1):
        outcomes, line, tied, after = said.get(key, ({}, None, False, None))
        step = steps.get(number)
        if not outcomes:
            assert step is None or not step.decided_any or not step.feed.rows.mutations
            continue
        (decided,) = step.decided.values()
        mine = {}
        for one in decided.outcomes:
            place = one.mutation.file.rpartition("/")[2].encode("utf-8", "surrogateescape"), one.mutation.offset
            mine[place] = one
        assert mine.keys() == outcomes.keys()
        for place, (outcome, part) in outcomes.items():
            one = mine[place]
            assert one.outcome == outcome or (one.outcome is None and outcome in one.possible)
            assert one.part == part
        if decided.line is not None:
            assert decided.line == line
            assert ("tied" in decided.notes) == tied
        if decided.after is not None:
            assert said_of(base.shape, decided.after) == after
    # With all datasets and feed files at hand nothing is unknown.
    if base.config.workflow.backup_keep == 9:
        assert all(one.outcome for step in found.steps for part in step.decided.values() for one in part.outcomes)
        assert not found.unknown
    assert found.json()
    assert found.text()


def harm(rng: random.Random, base: Base) -> None:
    """Damage or remove some of the filters: nothing may depend on them."""
    files = sorted((base.path / "_mutator" / "feed_filters").glob("*"))
    assert all(path.name.endswith(".filters") for path in files)
    for path in files:
        content = bytearray(path.read_bytes())
        what = rng.choice(["whole", "whole", "gone", "cut", "changed"])
        if what == "gone":
            path.unlink()
        elif what == "cut":
            path.write_bytes(content[: rng.randrange(len(content))])
        elif what == "changed":
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            path.write_bytes(content)


@given(st.randoms(use_true_random=False))
@law(60)
def test_explain_says_what_the_model_says(rng):
    bad = rng.random() < 0.3
    world = make_world(rng, bad=bad)
    with scratch() as work:
        base = Base(work, world.shape, world.master, rng)
        for number in range(rng.randint(1, 4)):
            feed = make_files(rng, world.shape, rng.randint(1, 3), of_master=False, bad=bad, most=3, places=1)
            if not number:
                feed = tuple({file.name: file for file in world.feed}.values())
            base.run(feed)
        harm(rng, base)
        for key in {key for said in base.said for key in said}:
            check(base, key)
        nothing = explain(str(base.path), [b"no such"] * len(world.shape.key), base.config)
        assert not nothing.is_known
