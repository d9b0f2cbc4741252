"""mutator without Spark: a feed applied to a versioned table, and the same feed merged to a new directory."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from bench.contenders.contender import Contender, Ran
from bench.layout import SETTINGS, format_of

if TYPE_CHECKING:
    from mutator.engine.runner import Runner
    from mutator.plan.runner_choice import RunnerChoice
    from mutator.table.table import Table

__all__ = ["MutatorRewrite", "MutatorTable", "local_runner", "new_table", "write_rows"]


@contextmanager
def local_runner(size: int) -> Iterator[tuple[Runner, RunnerChoice]]:
    """Yield a runner of this process, or of processes of this machine, for a number of bytes to read."""
    from mutator.pipeline import runners

    choice = runners.choice_for("local", size)
    with runners.open_runner(choice, _no_spark) as runner:
        yield runner, choice


def new_table(path: Path, master: Path) -> Table:
    """Create a table with the rows of a master."""
    from mutator.table.table import Table

    return Table.create(str(path), SETTINGS[format_of(master)], dataset=str(master), open_runner=local_runner)


def write_rows(table: Table, path: Path, version: int | None = None) -> None:
    """Write the rows of a version of a table to one Parquet file."""
    with pq.ParquetWriter(path, table.schema) as file:
        for batch in table.scan(version=version):
            file.write_batch(batch)


class MutatorTable(Contender):
    """``Table.apply``: the clock includes opening the table."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start nothing."""
        return {"pyarrow": importlib.metadata.version("pyarrow")}

    def prepare(self, master: Path, state: Path) -> None:
        """Create a table with the rows of the master."""
        self.pristine, self.path = state / "pristine", state / "table"
        if not self.pristine.exists():
            state.mkdir(parents=True, exist_ok=True)
            new_table(self.pristine, master)

    def reset(self) -> None:
        """Make a new table of hard links: an apply changes no file."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.pristine, self.path, copy_function=os.link)

    def run(self, feed: Path, output: Path) -> Ran:
        """Open the table and apply the feed."""
        from mutator.table.table import Table

        self.table = Table(str(self.path))
        report = self.table.apply(str(feed), open_runner=local_runner)
        more = {"counts": dict(report.counts), "files": report.files, "bytes": report.bytes}
        return Ran(f"{report.files} files added; {report.runner}", more=more)

    def export(self, output: Path, to: Path) -> Path:
        """Scan the table."""
        to.mkdir(parents=True)
        write_rows(self.table, to / "part.parquet")
        return to


class MutatorRewrite(Contender):
    """``mutator.merge`` of paths: what ``mutator run`` does."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start nothing."""
        return {"pyarrow": importlib.metadata.version("pyarrow")}

    def prepare(self, master: Path, state: Path) -> None:
        """Make a managed master by a merge with a feed of no files."""
        self.master = state / "managed"
        self.settings = self.settings_for(master)
        if not self.master.exists():
            nothing = state / "nothing"
            nothing.mkdir(parents=True, exist_ok=True)
            self.merged(master, nothing, self.master, self.settings)

    def settings_for(self, master: Path) -> dict[str, str]:
        """Return the settings of a master."""
        return SETTINGS[format_of(master)]

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge to a new directory."""
        report = self.merged(self.master, feed, output, self.settings)
        return Ran(f"{report.join} join; {report.runner}", more={"counts": dict(report.counts)})

    def merged(self, master, feed, output, settings):
        """Merge paths by settings; return the report."""
        import mutator

        return mutator.merge(master=master, feed=feed, output=output, config=settings, runner="local")


def _no_spark() -> AbstractContextManager[None]:
    return nullcontext()
