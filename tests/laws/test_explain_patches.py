"""``explain`` says of every key with patches what the reference model says: outcomes, what waits, and fields."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mutator import config as configuration
from mutator.cli import main
from mutator.pipeline.explain.master import explain_master
from mutator.rules.truth_table import FEED_OUTCOMES, RARE_OUTCOMES
from mutator.workflow import directory
from mutator.workflow.directory.explain import explain
from tests.laws.test_patch_laws import FIELDS, KEYS, world
from tests.support import local_engine
from tests.support.effort import law
from tests.support.master_base import run_workflow
from tests.support.no_limits import NO_LIMITS
from tests.support.patch_model import RECORD, WAITING, Mutation, Place
from tests.support.text_runs import scratch

SETTINGS = {
    "key": "id",
    "order_by": "at",
    "op": "op",
    "unset.value": "~",
    "num.reducer": "2",
    "claim.min.age": "0s",
    "reused.names": "accept",
    "consumed.files": "merge",
    "op.code.in.master": "false",
    "allow.empty.master": "true",
    "reject.policy": "quarantine",
    **NO_LIMITS,
}


def line(one: Mutation, op: bool = True) -> str:
    sent = {name: "" if value is None else value for name, value in one.given.items()}
    code = [one.op if one.op == "D" else "U"] if op else []
    return ",".join([one.key, str(one.order), *code, *(sent.get(name, "~") for name in FIELDS)])


def put(path: Path, rows: list[Mutation], op: bool = True) -> None:
    head = ",".join(["id", "at", *(["op"] if op else []), *FIELDS])
    path.write_text("\n".join([head, *(line(one, op) for one in rows), ""]))


def without_ties(runs: list[list[Mutation]]) -> list[list[Mutation]]:
    """Return the first mutation of each order value of a key: which of several provides a field is not certain."""
    first: dict[Any, Mutation] = {}
    return [[one for one in rows if first.setdefault((one.key, one.order), one) is one] for rows in runs]


def check(one: Any, name: str, wanted: Mutation, master: list[Mutation], deleted: int | None) -> None:
    """Compare what gave a field its value with the model. wanted: has its order value, and its value."""
    if one is None:  # of a row that waits after a delete, which cleared it
        assert wanted.order == deleted
        return
    assert one.order == wanted.order
    if wanted.order is None:
        assert one.what == "no mutation"
    elif one.mutation is None:
        assert one.what == "the record before"
        assert (wanted.key, wanted.order) in {(row.key, row.order) for row in master}
    else:
        with open(one.mutation.file, "rb") as stream:
            stream.seek(one.mutation.offset)
            key, order, code, *values = stream.readline().decode().rstrip("\n").split(",")
        assert (key, order, code == "D") == (wanted.key, str(wanted.order), one.what == "delete")
        assert one.what == "delete" or values[FIELDS.index(name)] == (wanted.given[name] or "")


@given(st.randoms(use_true_random=False))
@law(12)
def test_explain_says_which_mutation_provides_each_field(rng: random.Random) -> None:
    master, runs = world(rng)
    runs, unknown = without_ties(runs), rng.choice(["wait", "insert"])
    model = Place(FIELDS, unknown, True)
    with scratch() as work:
        base = work / "base"
        for name in ("master", "incr"):
            (base / name).mkdir(parents=True)
        if master:
            put(base / "master" / "m.csv", master, op=False)
            model.run(master)
        config = configuration.parse({**SETTINGS, "patch.unknown": unknown, "backup.keep": "9"})
        merge = directory.merge_by(config, local_engine.merge)
        counts = []
        for number, rows in enumerate(filter(None, runs)):
            put(base / "incr" / f"c_{number}.csv", rows)
            counts.append(Counter(run_workflow(str(base), config, merge, sleep=lambda _: None).report.counts))
            model.run(rows)
        outcomes = [Counter[str]() for _ in counts]
        for key in KEYS if counts else ():
            found = explain(str(base), [key], config)
            kept = model.kept(key)
            (now,) = found.now.values()
            assert (now.kind == "record", now.waits) == (kept.kind == RECORD, kept.kind == WAITING)
            assert not any(step.differs for step in found.steps)
            for step in found.steps:
                for decided in step.decided.values():
                    outcomes[step.feed.number - 1].update(str(one.outcome) for one in decided.outcomes)
            origins = {one.name: one for one in found.fields.get(None, ())}
            assert bool(origins) == (kept.kind in (RECORD, WAITING))
            for name, order, value in zip(FIELDS, kept.orders, kept.values, strict=True) if origins else ():
                check(origins.get(name), name, Mutation("U", key, order, {name: value}), master, kept.deleted)
            assert found.text()
            assert found.json()
        names = (*FEED_OUTCOMES, *RARE_OUTCOMES)
        assert outcomes == [
            Counter({name: one[f"feed {name}"] for name in names if one[f"feed {name}"]}) for one in counts
        ]


def test_fields_that_are_not_known_have_their_own_order_values(tmp_path: Path, capsys: Any) -> None:
    settings = {**SETTINGS, "op.code.in.master": ""}
    del settings["op"]
    master = tmp_path / "none"
    for number, rows in enumerate([["1,1,30,lamp"], ["1,5,~,desk", "1,3,9,~"]]):
        feed = tmp_path / f"feed{number}" / "f.csv"
        feed.parent.mkdir()
        feed.write_text("\n".join(["id,at,price,name", *rows, ""]))
        output = tmp_path / f"out{number}"
        local_engine.mutate(settings, master=str(master), feed=[str(feed.parent)], output=str(output))
        master = output
    assert main(["explain", str(master), "1"]) == 0
    shown = capsys.readouterr().out
    assert "  id, at, name: order value 5, not known\n  price: order value 3, not known\n" in shown


def test_values_of_merge_functions_are_combined_whatever_is_known_of_the_first_master(tmp_path: Path) -> None:
    settings = {**SETTINGS, "field.merge.sales": "sum long", "field.merge.best": "max long", "op": "", "order_by": "at"}
    del settings["unset.value"], settings["op.code.in.master"]
    master = tmp_path / "empty"
    master.mkdir()
    feeds = []
    for number, rows in enumerate([["n,1,10,10", "n,4,5,5"], ["n,3,7,7", "n,2,9,9"]]):
        feeds.append(tmp_path / f"feed{number}")
        feeds[-1].mkdir()
        (feeds[-1] / f"f_{number}.csv").write_text("\n".join(["id,at,sales,best", *rows, ""]))
        output = tmp_path / f"out{number}"
        local_engine.mutate(settings, master=str(master), feed=[str(feeds[-1])], output=str(output))
        master = output

    def outcomes(before: str | None) -> list[Any]:
        found = explain_master(
            str(master), ["n"], configuration.parse(settings), feed=[*map(str, feeds)], before=before
        )
        assert not any(step.differs for step in found.steps)
        decided = [one for step in found.steps for one in step.decided.values()]
        return [[(one.mutation.order, one.outcome) for one in own.outcomes] for own in decided]

    known = [[(1, "combined"), (4, "inserted")], [(2, "combined"), (3, "updated")]]
    assert outcomes(str(tmp_path / "empty")) == known
    assert outcomes(None) == [[(order, None if name != "combined" else name) for order, name in one] for one in known]
