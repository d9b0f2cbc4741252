"""The requests that an apply of a few rows makes on S3: each takes the time of a round trip, and costs money."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from mutator.dataset.versions import nearby
from mutator.storage.s3_client import client
from mutator.table.table import Table
from tests.support.storage_places import s3_place
from tests.table.test_several_writers import at_phase

ALONE = [
    "GetObject hint.json",
    "GetObject log/next",
    "PutObject log/next",
    "GetObject log/next - 1",  # it is there, so no later entry was ever archived
    "GetObject hint.json",
    "PutObject hint.json",
]
OUTRUN = ["PutObject log/next + 3", *ALONE[3:]]
AFTER = [OUTRUN[0], "GetObject log/next + 2", *OUTRUN[2:]]  # the others had committed when it began


class Requests:
    """The requests of this process while it counts; the number of an entry is that after a known version."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.counts = False
        self.next = 0

    def note(self, model: Any, params: Any, **_: Any) -> None:
        if self.counts:
            path = re.sub(r".*/_mutator/table/|\?.*", "", params["url_path"])
            entry = re.fullmatch(r"log/0*(\d+)\.json", path)
            after = 0 if entry is None else int(entry[1]) - self.next
            sign = "+" if after > 0 else "-"
            path = path if entry is None else f"log/next{f' {sign} {abs(after)}' if after else ''}"
            self.found.append(f"{model.name} {path}".strip())


@pytest.fixture(name="requests")
def count_requests(request: pytest.FixtureRequest) -> Iterator[Requests]:
    requests, events = Requests(), client(s3_place(request)).meta.events
    events.register("before-call.s3", requests.note)
    yield requests
    events.unregister("before-call.s3", requests.note)


@pytest.fixture(name="table")
def new_table(request: pytest.FixtureRequest) -> Table:
    return Table.create(f"{s3_place(request)}/t", key="id", order_by="at", buckets=2)


def rows(number: int) -> pa.Table:
    return pa.table({"id": [3 * number, 3 * number + 1], "at": [number, number]})


def counted(requests: Requests, table: Table, number: int) -> list[str]:
    """Return the requests of an apply."""
    requests.found, requests.counts, requests.next = [], True, table.version + 1
    table.apply(rows(number))
    requests.counts = False
    return requests.found


def test_an_apply_alone(table: Table, requests: Requests) -> None:
    # The first version has no such entry before it: the archive is listed.
    first = [*ALONE[:3], "ListObjectsV2", *ALONE[4:]]
    assert [counted(requests, table, number) for number in range(3)] == [first, ALONE, ALONE]


@pytest.mark.soak
def test_an_apply_to_a_table_of_many_packs(table: Table, requests: Requests) -> None:
    found = [counted(requests, table, number) for number in range(148)]
    assert [one for one in found[-9:] if len(one) == len(ALONE)] == [ALONE] * 8
    with_checkpoint = next(one for one in found[-9:] if one != ALONE)
    assert [one for one in with_checkpoint if one in ALONE] == ALONE
    assert len(with_checkpoint) <= len(ALONE) + 2 + 1 + 3 * 2, "pack, checkpoint; a listing; three for each removal"


def outrun(table: Table, requests: Requests) -> None:
    """Apply three feeds as another process would, which is not counted."""
    requests.counts = False
    other = Table(table.path)
    for number in (10, 11, 12):
        other.apply(rows(number))
    requests.counts = True


@pytest.fixture(name="elsewhere")
def other_machine(monkeypatch: Any) -> None:
    """Let the other process be on another machine, whose versions are not passed on."""
    monkeypatch.setattr(nearby, "_LARGEST", 0)


@pytest.mark.thorough(keep=0)
@pytest.mark.usefixtures("elsewhere")
def test_an_apply_that_others_outrun(table: Table, requests: Requests) -> None:
    table.apply(rows(0))
    with at_phase("commit", lambda: outrun(table, requests)):
        found = counted(requests, table, 1)
    assert found[:3] == ALONE[:3]
    # Those that are read at once are in any order.
    assert sorted(found[3:5]) == ["GetObject log/next", "GetObject log/next + 1"]
    assert sorted(found[5:7]) == ["GetObject log/next + 2", "GetObject log/next + 3"]
    assert found[7:] == OUTRUN


@pytest.mark.parametrize("moment", [60_000_000_000, 0], ids=["just now", "earlier"])
def test_an_apply_that_others_on_this_machine_outrun(
    table: Table, requests: Requests, monkeypatch: Any, moment: int
) -> None:
    monkeypatch.setattr(nearby, "_MOMENT", moment)
    table.apply(rows(0))
    with at_phase("merged", lambda: outrun(table, requests)):
        found = counted(requests, table, 1)
    looks = [] if moment else ["GetObject log/next + 2"]
    assert found == [*ALONE[:2], *looks, *OUTRUN]


@pytest.mark.usefixtures("elsewhere")
def test_an_apply_after_those_of_others(table: Table, requests: Requests) -> None:
    table.apply(rows(0))
    outrun(table, requests)
    found = counted(requests, table, 1)
    assert found[0] == ALONE[0]
    assert sorted(found[1:5]) == ["GetObject log/next", *(f"GetObject log/next + {number}" for number in (1, 2, 3))]
    assert found[5:] == AFTER


def test_an_apply_after_those_of_others_on_this_machine(table: Table, requests: Requests) -> None:
    table.apply(rows(0))
    outrun(table, requests)
    found = counted(requests, table, 1)
    assert sorted(found[1:3]) == ["GetObject log/next + 2", "GetObject log/next + 3"]  # in any order
    assert [found[0], *found[3:]] == [ALONE[0], *AFTER]
