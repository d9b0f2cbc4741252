"""A cleaning runs while another one does: neither fails, and what they keep can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.versions import packs
from mutator.dataset.versions.checkpoint import owner_of_base
from mutator.errors import MutatorError
from mutator.storage.local import LocalStorage
from mutator.table import clean
from mutator.table.table import Table
from tests.support.cleaned_table import AGAIN, quick, rows, rows_of, stop, table_of_some_versions

__all__ = ["quick", "table_of_some_versions"]  # fixtures


def before_call(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], Any]) -> list[str]:
    """Call a function once, just before a storage call of that number; return a list that has its name by then."""
    calls, passed = list[str](), list[str]()

    def with_act(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(storage: LocalStorage, *arguments: Any, **named: Any) -> Any:
            calls.append(name)
            if len(calls) == number:
                act()
                passed.append(name)
            return original(storage, *arguments, **named)

        return call

    for name in ("stat", "entries", "open", "create_new", "remove", "replace"):
        monkeypatch.setattr(LocalStorage, name, with_act(name, getattr(LocalStorage, name)))
    return passed


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize(("kept", "others"), [(1, 3), (3, 2)])
@pytest.mark.parametrize("number", [4, 10, 20, 30, 36, 43])
def test_kept_versions_can_be_read_after_two_cleanings(
    table: Table, monkeypatch: pytest.MonkeyPatch, number: int, kept: int, others: int
) -> None:
    table.tag("x", 2)
    expected = {version: rows_of(table, version) for version in range(1, table.version + 1)}
    other = Table(table.path)
    packs._packs.clear()
    with monkeypatch.context() as patched:
        passed = before_call(patched, number, lambda: other.clean(keep_versions=others, grace="0s"))
        table.clean(keep_versions=kept, grace="1h")
    assert passed
    packs._packs.clear()
    after = Table(table.path)
    assert after.verify().differences == ()
    left = after.snapshot.state.cleaning.left
    for version in filter(left.has, expected):
        assert rows_of(after, version) == expected[version]


def bases_of(table: Table) -> tuple[list[Path], set[str | None]]:
    """Return the files of all bases, and those of the log as ``owner_of_base`` has them."""
    files = sorted((Path(table.path) / "_mutator/table/checkpoints").glob("*.base.*"))
    return files, set(map(owner_of_base, table.snapshot.state.cleaning.left.bases.values()))


@pytest.fixture(name="overlapped")
def with_a_base_that_no_version_names(table: Table, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return a table with a tag whose cleaning was outrun by another one when it had written its bases."""
    table.tag("x", 2)
    with monkeypatch.context() as patched:
        passed = before_call(patched, 43, lambda: Table(table.path).clean(**AGAIN))
        table.clean(**AGAIN)
    assert passed
    files, owners = bases_of(table)
    assert {owner_of_base(path.name) for path in files} > owners
    return table


def test_what_overlapping_cleanings_leave_is_removed_by_later_ones(overlapped: Table) -> None:
    table = overlapped
    for at in (20, 30):
        table.apply(rows("q", at))
        table.clean(**AGAIN)
    files, owners = bases_of(table)
    assert {owner_of_base(path.name) for path in files} == owners


def test_a_damaged_base_that_no_version_names_is_derived(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {version: rows_of(table, version) for version in range(4, table.version + 1)}

    with monkeypatch.context() as patched:
        patched.setattr(clean, "_written", stop)  # its bases are there by then
        with pytest.raises(MutatorError, match="stopped"):
            table.clean(keep_versions=2)
    table.clean(keep_versions=3, grace="0s")
    files, owners = bases_of(table)
    for path in files:
        if owner_of_base(path.name) not in owners and path.name.endswith(".masks"):
            path.unlink()
    assert "its file of masks" in str(table.verify().problems)
    for is_repaired in (False, True):
        for version in expected:
            assert rows_of(Table(table.path), version) == expected[version]
        assert is_repaired or table.verify(repair=True).differences == ()
    assert {owner_of_base(path.name) for path in bases_of(table)[0]} == owners
