"""A table is verified while versions of it are cleaned: files that are removed meanwhile are no damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mutator.errors import MutatorError
from mutator.table import verify, verify_log, verify_rows
from mutator.table.table import Table
from tests.support.cleaned_table import AGAIN, data, quick, rows, table_of_some_versions

__all__ = ["quick", "table_of_some_versions"]  # fixtures
POINTS = ["what_is_left", "first version", "rows", "keys", "stray_files"]


@contextmanager
def during_verification(point: str, act: Callable[[], Any], times: int = 1) -> Iterator[None]:
    """Act at a point of a verification, as another process would at that time."""
    left = [act] * times

    def around(work: Any) -> Any:
        def working(*given_: Any) -> Any:
            if left:
                left.pop()()
            return work(*given_)

        return working

    places: dict[str, tuple[Any, str]] = {
        "what_is_left": (verify_log, "what_is_left"),
        "first version": (verify_log.Walk, "_compare_checkpoint"),
        "rows": (verify, "RowsOfTable"),
        "keys": (verify_rows.RowsOfTable, "_twice"),
        "stray_files": (verify, "stray_files"),
    }
    place, name = places[point]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, around(getattr(place, name)))
        yield


def change_all(table: Table, at: int) -> None:
    """Replace all files of a table, and remove those of earlier versions."""
    other = Table(table.path)
    other.apply(rows("abx", at))
    other.compact(everything=True)
    other.clean(**AGAIN)
    other.clean(**AGAIN)


@pytest.mark.parametrize("point", POINTS)
def test_versions_that_are_cleaned_during_a_verification_are_no_damage(table: Table, point: str) -> None:
    with during_verification(point, lambda: change_all(table, 50)):
        found = table.verify()
    assert found.problems == ()
    assert table.refresh().verify().problems == ()


@pytest.mark.parametrize("point", ["first version", "rows"])
def test_damage_is_found_although_versions_are_cleaned_meanwhile(table: Table, point: str) -> None:
    table.apply(rows("w", 60))
    lost = max(data(table))

    def meanwhile() -> None:
        Table(table.path).clean(keep_versions=1, grace="0s")
        Path(table.path, lost).unlink()

    with during_verification(point, meanwhile):
        problems = table.verify().problems
    assert problems == (f"{lost}: it is missing",)


def test_a_verification_that_cleanings_always_outrun_says_so(table: Table) -> None:
    times = iter(range(50, 99))
    with (
        during_verification("rows", lambda: change_all(table, next(times)), times=99),
        pytest.raises(MutatorError, match="cleanings always removed files") as raised,
    ):
        table.verify()
    assert (raised.value.kind, raised.value.exit_code) == ("table.outrun.verify", 5)
