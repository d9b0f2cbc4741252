"""The cases of ``tests/conformance``: rules as data, which every implementation must meet."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.patch_model import RECORD, TOMBSTONE, WAITING, Kept, Mutation, Place
from tests.support.patch_runs import FILE_NAMES, TEXT, Directory
from tests.support.text_runs import ENGINES

CASES = Path(__file__).parents[1] / "conformance"


def cases(subject: str) -> list[Any]:
    """Return the cases of a subject as parameters, each with its name."""
    found = [json.loads(line) for line in (CASES / f"{subject}.jsonl").read_text().splitlines()]
    return [pytest.param(case, id=case["name"]) for case in found]


def mutations(run: list[dict[str, Any]]) -> list[Mutation]:
    return [Mutation(one["op"], one.get("key"), one["order"], one.get("set", {})) for one in run]


@pytest.mark.parametrize("case", cases("patches"))
def test_the_model_meets_the_cases_of_patches(case: dict[str, Any]) -> None:
    place = Place(case["fields"], case["patch_unknown"], case.get("order_in_row", False))

    def shown(key: str, kept: Kept) -> dict[str, Any]:
        values, orders = (dict(zip(case["fields"], found, strict=True)) for found in (kept.values, kept.orders))
        return {"key": key, "order": kept.order, "set": values, "orders": orders}

    counts = [dict(place.run(mutations(run))) for run in case["runs"]]

    assert [shown(*one) for one in place.all(RECORD).items()] == case["rows"]
    assert [{"key": key, "order": kept.order} for key, kept in place.all(TOMBSTONE).items()] == case["tombstones"]
    waiting = [{**shown(key, kept), "deleted": kept.deleted} for key, kept in place.all(WAITING).items()]
    assert waiting == case.get("waiting", [])
    assert counts == case["counts"]
    assert all(
        sum(count for name, count in found.items() if name != "out of order") == len(run)
        for found, run in zip(counts, case["runs"], strict=True)
    )


@pytest.mark.parametrize(
    ("case", "engine"),
    [
        pytest.param(*case.values, engine, id=f"{case.id}-{engine}", marks=() if (n + e) % 2 else pytest.mark.rest)
        for n, case in enumerate(cases("patches"))
        for e, engine in enumerate(ENGINES)
    ],
)
def test_the_program_meets_the_cases_of_patches(case: dict[str, Any], engine: str, tmp_path: Path) -> None:
    """Runs into a directory: every step is compared with the model, which meets the case."""
    form = TEXT if case.get("order_in_row") else FILE_NAMES
    place = Directory(tmp_path, case["fields"], replace(form, engines=(engine,)), case["patch_unknown"])
    place.start([])
    for run in case["runs"]:
        place.run(mutations(run), random.Random(1))
    assert {key: list(found[2]) for key, found in place.rows().items()} == {
        row["key"]: list(row["orders"].values()) for row in case["rows"]
    }
