"""An apply may end early in any way: the table has the old version or the new one, and the next apply works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest

from mutator import config
from mutator.dataset.versions.snapshot import open_snapshot
from mutator.errors import MutatorError
from mutator.table import apply
from mutator.table.apply import apply_feed
from mutator.table.create import create_empty
from mutator.table.scan import scan_batches, schema_of
from tests.support import local_engine
from tests.support.model_storage import KINDS, Killed, ModelStorage, mounted
from tests.support.no_limits import NO_LIMITS
from tests.support.process_deaths import copy_of

TABLE, FEED = "model://base/table", "model://base/feed"
SETTINGS = {"key": "id", "order_by": "at", "op": "op", "feed.format": "csv", **NO_LIMITS}
FIRST = "id,at,op,name\n1,1,U,a\n2,1,U,b\n3,1,U,c\n"
SECOND = "id,at,op,name\n1,2,U,aa\n2,2,D,\n4,2,U,d\n9,2,D,\n"
OLD = [("1", "a"), ("2", "b"), ("3", "c")]
NEW = [("1", "aa"), ("3", "c"), ("4", "d")]


@contextmanager
def open_runner(_: int) -> Iterator[Any]:
    with local_engine.runner() as runner:
        yield runner, None


def apply_to(path: str, feed: str) -> int:
    return apply_feed(open_snapshot(path), config.parse(SETTINGS), [feed], open_runner).snapshot.version.number


def rows_of(path: str) -> list[Any]:
    snapshot = open_snapshot(path)
    table = pa.Table.from_batches(scan_batches(snapshot), schema_of(snapshot))
    return sorted(zip(table.column("id").to_pylist(), table.column("name").to_pylist(), strict=True))


def put(storage: ModelStorage, path: str, content: str) -> None:
    storage.make_directory(path.rpartition("/")[0])
    with storage.create_new(path) as stream:
        stream.write(content.encode())


def new_table(kind: str) -> ModelStorage:
    storage = ModelStorage(kind)
    with mounted(storage):
        put(storage, f"{FEED}/first.csv", FIRST)
        put(storage, f"{FEED}/second.csv", SECOND)
        create_empty(TABLE, {}, buckets=2)
        apply_to(TABLE, f"{FEED}/first.csv")
        assert rows_of(TABLE) == OLD
    return storage


def after_fault(begun: ModelStorage, number: int, what: str) -> ModelStorage | None:
    """Apply the second feed on a copy, with a fault at a call; return the storage, None if there is no such call."""
    storage = copy_of(begun)
    first = storage.calls
    storage.fault = lambda call, name: what if call == first + number else None
    with mounted(storage), suppress(Killed, MutatorError):
        apply_to(TABLE, f"{FEED}/second.csv")
    reached = storage.calls > first + number
    storage.fault, storage.dead = lambda call, name: None, False
    return storage if reached else None


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("what", ["kill", "lost", "no space left"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_call(kind: str, what: str, inline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 1 << 30 if inline else 0)
    begun = new_table(kind)
    number, versions = 0, []
    while (storage := after_fault(begun, number, what)) is not None:
        with mounted(storage):
            rows = rows_of(TABLE)
            assert rows in (OLD, NEW), number
            versions.append(open_snapshot(TABLE).version.number)
            assert (rows == NEW) == (versions[-1] == 2), number
            assert apply_to(TABLE, f"{FEED}/second.csv") == 2, number  # again, or nothing is left to merge
            assert rows_of(TABLE) == NEW, number
        number += 1
    assert {1, 2} == set(versions)
    if what == "kill":
        assert versions == sorted(versions)
