"""A workflow base whose target is a table, and its runs in this process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from mutator.cli.workflow_target import OpenTarget
from mutator.config import Config
from mutator.config.audience import Audience
from mutator.dataset.versions.snapshot import Snapshot
from mutator.table.recorded import config_of_apply
from mutator.table.table import Table
from mutator.workflow import directory
from mutator.workflow.directory.results import BaseStatus, RunOutcome
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

SETTINGS: dict[str, Any] = {"key": "id", "order_by": "at", "op": "op", "header": True, **NO_LIMITS}
HEAD = "id,at,op,name"


def opened(table: str, **settings: Any) -> OpenTarget:
    """Open the table of a base. settings: of its runs."""
    given = {"claim.min.age": "0s", **settings}

    def config_of(snapshot: Snapshot) -> Config:
        return config_of_apply(snapshot, given).read_by(Audience())

    return OpenTarget(table, config_of, lambda _: open_runner)


class TableBase:
    """A base in a directory, and the commands on it."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        (path / "incr").mkdir(parents=True)
        self.table = Table.create(path / "table", {**SETTINGS, **settings}, buckets=2)

    @classmethod
    def copy_of(cls, other: TableBase, path: Path) -> TableBase:
        """Copy a base and its table."""
        copy = cls.__new__(cls)
        shutil.copytree(other.path, path)
        copy.path, copy.table = path, Table(path / "table")
        return copy

    def arrive(self, name: str, *rows: str) -> Path:
        path = self.path / "incr" / name
        path.write_text("".join(f"{row}\n" for row in (HEAD, *rows)))
        return path

    def run_each(self, count: int) -> None:
        """Apply feed files one after the other: each inserts a record, with its number as the key."""
        for number in range(count):
            self.arrive(f"ups_{number}.csv", f"{number},1,U,a")
            self.run()

    def run(self, **settings: Any) -> RunOutcome:
        one = opened(self.table.path, **settings)
        return directory.run(one.target(str(self.path)), sleep=lambda _: None)

    def status(self, **settings: Any) -> BaseStatus:
        one = opened(self.table.path, **settings)
        return directory.status(one.target(str(self.path)))

    def rows(self) -> list[str]:
        rows = self.table.refresh().scan().to_pylist()
        return sorted(",".join(map(str, row.values())) for row in rows)

    def names(self, place: str) -> list[str]:
        return sorted(path.name for path in (self.path / place).rglob("*") if path.is_file())
