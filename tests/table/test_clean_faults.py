"""Cleanings that fail, lose answers or die at any call to the storage: nothing is lost, and the next one goes on."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

import pytest

from mutator.dataset.versions import nearby, opening
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError, suppressed
from mutator.table import apply, reader_place
from mutator.table.table import Table
from tests.support.effort import stride
from tests.support.model_storage import KINDS, ModelStorage, mounted
from tests.table.test_table_faults import (
    FAULTS,
    FEED,
    TABLE,
    after_fault,
    apply_to,
    compact,
    new_table,
    open_runner,
    put,
)

HINT = f"{TABLE}/_mutator/table/hint.json"
STRAY = "part-00000-20200101T000000Z-12345678.parquet"


def cleaned(**limits: Any) -> Any:
    """Clean a table; files of runs without a version count as old at once, because the clock of the storage is slow."""
    return Table(TABLE).clean(**{"keep_versions": 2, "grace": "0s", **limits})


def world(kind: str) -> ModelStorage:
    """Return a table with a tag, a compaction, applies after it, and a stray file."""
    storage = new_table(kind)
    with mounted(storage):
        apply_to(TABLE, f"{FEED}/second.csv")
        Table(TABLE).tag("kept")  # version 3 tags version 2
        compact()
        put(storage, f"{FEED}/third.csv", "id,at,op,name\n1,3,U,c\n5,3,I,five\n")
        apply_to(TABLE, f"{FEED}/third.csv")
        put(storage, f"{FEED}/fourth.csv", "id,at,op,name\n1,4,U,d\n6,4,I,six\n")
        apply_to(TABLE, f"{FEED}/fourth.csv")
        compact()
        put(storage, f"{FEED}/fifth.csv", "id,at,op,name\n1,5,U,e\n")
        apply_to(TABLE, f"{FEED}/fifth.csv")
        put(storage, f"{TABLE}/_mutator/table/rows/version_id=9/{STRAY}", "stray")
    return storage


def rows_of(version: int) -> list[Any]:
    return sorted(Table(TABLE).scan(version=version).to_pylist(), key=repr)


def files_of(storage: ModelStorage) -> set[str]:
    return {path for path, content in storage.tree.items() if content is not None and path.startswith(TABLE)}


def check(rows: dict[int, list[Any]]) -> int:
    """Compare the versions that are there with what their rows were; return the earliest one."""
    newest = open_snapshot(TABLE)
    left = newest.state.cleaning.left
    newest_numbers = sorted(rows)[-2:]
    for number, expected in ((one, rows[one]) for one in (1, 2, *newest_numbers)):
        if left.has(number):
            assert rows_of(number) == expected, number
        else:
            with pytest.raises(MutatorError, match=f"earliest version is {left.earliest}"):
                rows_of(number)
    assert left.has(2), "it has a tag"
    return left.earliest


@pytest.mark.thorough(keep=1, rest=1)
@pytest.mark.parametrize("inline", ["feed and entry", pytest.param("nothing", marks=pytest.mark.soak)])
@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_call(kind: str, what: str, inline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_EVERY", 3)
    monkeypatch.setattr(nearby, "_MOMENT", 0)  # the number of calls does not depend on time
    monkeypatch.setattr(apply, "_INLINE_FEED", 1 << 30 if "feed" in inline else 0)
    monkeypatch.setattr(apply, "INLINE", 1 << 30 if "entry" in inline else 0)
    begun = world(kind)
    with mounted(begun):
        newest = open_snapshot(TABLE).version.number
        rows = {number: rows_of(number) for number in range(1, newest + 1)}
    number, versions = 0, []
    while (storage := after_fault(begun, number, what, cleaned)) is not None:
        with mounted(storage):
            versions.append(open_snapshot(TABLE).version.number)
            earliest = check(rows)
            assert earliest == (newest - 1 if versions[-1] > newest else 0), number
            if number % 8 == 0:
                hint = storage.tree.pop(HINT)
                assert check(rows) == earliest, number
                storage.tree[HINT] = hint
            cleaned()  # again
            assert check(rows) == newest - 1
            found = Table(TABLE).verify(open_runner=open_runner)
            assert found.problems == ()
            assert not [path for path in files_of(storage) if "named-" in path], number
            assert f"{TABLE}/_mutator/table/rows/version_id=9/{STRAY}" not in storage.tree
            log = {posixpath.basename(path) for path in files_of(storage) if "/table/log/" in path}
            assert log == {f"{one:020d}.json" for one in (0, *range(newest - 1, TableLog(TABLE).newest() + 1))}
        number += stride(11)
    assert {newest, newest + 1} == set(versions)
    if what == "kill":
        assert versions == sorted(versions)


@pytest.mark.thorough(keep=0, rest=3)
@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["tag", "untag", "bookmark", "remove"])
def test_a_fault_at_any_call_of_a_name(name: str, kind: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version with a tag or a bookmark is kept, one without either is cleaned, and the next try ends the command."""
    monkeypatch.setattr(opening, "_EVERY", 3)
    monkeypatch.setattr(nearby, "_MOMENT", 0)
    acts: dict[str, Callable[[], Any]] = {
        "tag": lambda: Table(TABLE).tag("first", 1),
        "untag": lambda: Table(TABLE).untag("first"),
        "bookmark": lambda: Table(TABLE).bookmark("first", 1),
        "remove": lambda: Table(TABLE).remove_bookmark("first"),
    }
    begun = world(kind)
    with mounted(begun):
        rows = {number: rows_of(number) for number in (1, 2)}
        for before in {"untag": ["tag"], "remove": ["bookmark"]}.get(name, []):
            acts[before]()
    number, states = 0, set()
    while (storage := after_fault(begun, number, what, acts[name])) is not None:
        with mounted(storage):
            found = open_snapshot(TABLE)
            is_kept = found.state.tags.get("first") == 1 or [one.version for one in Table(TABLE).bookmarks()] == [1]
            states.add(is_kept)
            if number % 2:
                with suppressed("table.tag.unknown", "table.bookmark.unknown"):  # it had removed it
                    acts[name]()
                is_kept = name in ("tag", "bookmark")
            cleaned()
            assert open_snapshot(TABLE).state.cleaning.left.has(1) == is_kept, number
            assert not is_kept or rows_of(1) == rows[1], number
            assert rows_of(2) == rows[2], number
            assert Table(TABLE).verify(open_runner=open_runner).problems == (), number
        number += 1
    assert states == {True, False}


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_call_of_a_move(kind: str, what: str) -> None:
    """The bookmark is at the old place or at the new one, and its reader goes on from there."""
    begun = world(kind)
    with mounted(begun):
        Table(TABLE).bookmark("first", 1)
    number, found = 0, set()

    def move() -> None:
        reader_place.move(open_snapshot(TABLE), reader_place.known_bookmark(TABLE, "first"), 2)

    while (storage := after_fault(begun, number, what, move)) is not None:
        with mounted(storage):
            found.update(one.version for one in Table(TABLE).bookmarks())
            reader_place.move(open_snapshot(TABLE), reader_place.known_bookmark(TABLE, "first"), 4)
            assert [one.version for one in Table(TABLE).bookmarks()] == [4], number
        number += 1
    assert found == {1, 2}
