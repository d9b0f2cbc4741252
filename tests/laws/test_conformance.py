"""The cases of ``tests/conformance``: rules as data, which every implementation must meet."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mutator.errors import MutatorError
from tests.support.history_model import History, Version
from tests.support.patch_model import RECORD, TOMBSTONE, WAITING, Kept, Mutation, Place
from tests.support.patch_runs import FILE_NAMES, TEXT, Directory, model_functions
from tests.support.text_runs import ENGINES

CASES = Path(__file__).parents[1] / "conformance"


def cases(subject: str) -> list[Any]:
    """Return the cases of a subject as parameters, each with its name."""
    found = [json.loads(line) for line in (CASES / f"{subject}.jsonl").read_text().splitlines()]
    return [pytest.param(case, id=case["name"]) for case in found]


def mutations(run: list[dict[str, Any]]) -> list[Mutation]:
    return [Mutation(one["op"], one.get("key"), one["order"], one.get("set", {})) for one in run]


def runs_of(case: dict[str, Any]) -> list[list[Mutation]]:
    """Return the runs of a case without the last one, if that fails."""
    runs = [mutations(run) for run in case["runs"]]
    return runs[:-1] if case.get("fails") else runs


@pytest.mark.parametrize("case", [*cases("patches"), *cases("merges")])
def test_the_model_meets_the_cases(case: dict[str, Any]) -> None:
    functions = model_functions(case.get("functions", {}))
    place = Place(case["fields"], case["patch_unknown"], case.get("order_in_row", False), functions)

    def shown(key: str, kept: Kept) -> dict[str, Any]:
        values, orders = (dict(zip(case["fields"], found, strict=True)) for found in (kept.values, kept.orders))
        row = {"key": key, "order": kept.order, "set": values, "orders": orders}
        if functions:
            row["entries"] = {name: [*map(list, own)] for name, own in kept.entries}
            row |= {"cleared": kept.cleared} if kept.kind == RECORD else {}
        return row

    counts = [dict(place.run(run)) for run in runs_of(case)]

    assert [shown(*one) for one in place.all(RECORD).items()] == case["rows"]
    assert [{"key": key, "order": kept.order} for key, kept in place.all(TOMBSTONE).items()] == case["tombstones"]
    waiting = [{**shown(key, kept), "deleted": kept.deleted} for key, kept in place.all(WAITING).items()]
    assert waiting == case.get("waiting", [])
    assert counts == case["counts"]
    assert all(
        sum(count for name, count in found.items() if name != "out of order") == len(run)
        for found, run in zip(counts, runs_of(case), strict=True)
    )


@pytest.mark.parametrize(
    ("case", "engine"),
    [
        pytest.param(*case.values, engine, id=f"{case.id}-{engine}", marks=() if (n + e) % 2 else pytest.mark.rest)
        for n, case in enumerate([*cases("patches"), *cases("merges")])
        for e, engine in enumerate(ENGINES)
    ],
)
def test_the_program_meets_the_cases(case: dict[str, Any], engine: str, tmp_path: Path) -> None:
    """Runs into a directory: every step is compared with the model, which meets the case."""
    form, functions = TEXT if case.get("order_in_row") else FILE_NAMES, case.get("functions", {})
    one_engine = replace(form, engines=(engine,))
    place = Directory(tmp_path, case["fields"], one_engine, case["patch_unknown"], functions=functions)
    place.start([])
    for run in runs_of(case):
        place.run(run, random.Random(1))
    if case.get("fails"):
        with pytest.raises(MutatorError, match="sum of the field 2 of the record with the ID k is too large"):
            place.run(mutations(case["runs"][-1]), random.Random(1))
        assert not place.output.exists()
        place.runs -= 1
    assert {key: list(found[2]) for key, found in place.rows().items()} == {
        row["key"]: list(row["orders"].values()) for row in case["rows"]
    }


@pytest.mark.parametrize("case", cases("history"))
def test_the_model_of_history_meets_the_cases(case: dict[str, Any]) -> None:
    fields, tracked = case["fields"], case.get("track", case["fields"])
    place = History(fields, case["patch_unknown"])
    for run in runs_of(case):
        place.run(run)

    def shown(key: str, one: Version) -> dict[str, Any]:
        values = dict(zip(fields, one.values, strict=True))
        return {"key": key, "from": one.start, "to": one.end, "set": values, "ended": one.ended}

    assert [shown(key, one) for key in sorted(place.seen) for one in place.versions(key, tracked)] == case["versions"]
