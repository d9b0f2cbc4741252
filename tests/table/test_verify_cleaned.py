"""What verify calls right, every command can read, also what cleanings have left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mutator.errors import MutatorError
from mutator.table.table import Table
from tests.support.cleaned_table import quick, rows, table_of_some_versions
from tests.table.test_several_writers import at_phase

__all__ = ["quick", "table_of_some_versions"]  # fixtures
COMMANDS: tuple[Callable[[Table], Any], ...] = (
    lambda table: list(table.log()),
    lambda table: table.history("a"),
    lambda table: table.clean(keep_versions=1, dry_run=True),
    lambda table: table.scan(version="x").to_arrow(),
    lambda table: table.bookmarks(),
)


def fails(path: str, command: Callable[[Table], Any]) -> bool:
    try:
        command(Table(path))
    except MutatorError:
        return True
    return False


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("grace", ["0s", "1h"])
def test_verify_names_the_files_without_which_a_command_fails(table: Table, grace: str) -> None:
    table.tag("x", 3)
    table.apply(rows("abx", 9))
    with at_phase("commit", lambda: Table(table.path).compact(everything=True)):
        table.apply(rows("ab", 10))  # a part of its version index is withdrawn
    table.apply(rows("c", 11))
    table.clean(keep_versions=1, grace=grace)
    table.apply(rows("q", 12))
    table.bookmark("reader")
    left, root = table.snapshot.state.cleaning.left, Path(table.path)
    assert left.kept
    names = (f"log/{number:020}.json" for number in range(left.earliest + 1))
    paths = [path for name in names if (path := root / "_mutator/table" / name).exists()]
    paths += [*root.glob("_mutator/table/archive/*"), *root.glob("_mutator/table/bookmarks/*")]
    paths += [root / name for _, name in left.kept]
    failing = set()
    for path in paths:
        content = path.read_bytes()
        for damaged in (content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            failed = [number for number, command in enumerate(COMMANDS) if fails(table.path, command)]
            if failed:
                failing.add(path.parent.name)
                assert table.verify().differences != (), (path.name, damaged is None, failed)
            path.write_bytes(content)
    assert failing >= {"log", "bookmarks"} | ({"archive"} if grace == "0s" else set())
    assert table.verify().differences == ()
