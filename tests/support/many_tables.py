"""Folders with many small tables, and the tables file that names them."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from mutator.workflow import many_tables
from tests.support.job import rows

__all__ = ["DEFAULTS", "Folder", "no_spark", "rows_of"]

DEFAULTS = """
[defaults]
master = "master/{table}"
feed = "feed/{table}"
output = "out/{table}"
[defaults.settings]
id.field.ordinals = "0"
temporal.ordering.field.ordinal = 2
"""


class Folder:
    """Tables t0, t1, …, each with a feed and a master whose rows differ from those of the others."""

    def __init__(self, root: Path, count: int) -> None:
        self.root, self.names = root, [f"t{number}" for number in range(count)]
        for number, name in enumerate(self.names):
            # The higher the number, the more rows.
            self.put(f"master/{name}/base.txt", "".join(f"{key},{name},100\n" for key in range(10 * number + 10)))
            self.put(f"feed/{name}/ups_1.txt", f"1,{name} changed,200\nx,{name} new,200\n")

    def put(self, path: str, content: str) -> Path:
        found = self.root / path
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_text(content)
        return found

    def file(self, more: str = "", run: str = "", defaults: str = DEFAULTS) -> Path:
        """Write the tables file. more: further sections."""
        sections = "".join(f"[tables.{name}]\n" for name in self.names if f"[tables.{name}]" not in more)
        return self.put("tables.toml", f"[run]\n{run}\n{defaults}\n{more}\n{sections}")

    def tables(self, *more: str, **sections: str) -> many_tables.Tables:
        return many_tables.load(self.file(*more, **sections))

    def expected(self, name: str) -> list[bytes]:
        number = self.names.index(name)
        kept = [f"{key},{name},100" for key in range(10 * number + 10) if key != 1]
        return sorted(row.encode() for row in (*kept, f"1,{name} changed,200", f"x,{name} new,200"))


def no_spark() -> NoReturn:
    """Fail: the tables are merged on this machine."""
    pytest.fail("Spark is not needed")


def rows_of(folder: Folder, name: str) -> list[bytes]:
    """Return the rows of a table's output."""
    return rows(folder.root / "out" / name)
