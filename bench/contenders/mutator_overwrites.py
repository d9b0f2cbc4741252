"""mutator without Spark: insert overwrites of tables and directories with partitions, and their baselines."""

from __future__ import annotations

import importlib.metadata
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.contenders.contender import Contender, Ran
from bench.contenders.mutator_table import MutatorRewrite, MutatorTable, local_runner
from bench.layout import PARTITIONED_MASTER_FIELDS, PARTITIONED_SETTINGS

__all__ = ["MutatorCreate", "MutatorOverwrite", "MutatorRunOverwrite", "PyarrowWrite"]

WRITING = "pyarrow writes the rows"  # a step


class MutatorOverwrite(MutatorTable):
    """``Table.insert_overwrite`` or ``Table.insert_overwrite_table``: the clock includes opening the table."""

    def __init__(self, reach: str, scope: str) -> None:
        self.operation = "insert_overwrite_table" if reach == "table" else "insert_overwrite"
        self.settings = PARTITIONED_SETTINGS["parquet"] | {"key.scope": scope}

    def prepare(self, master: Path, state: Path) -> None:
        """Create a table with the rows of the master."""
        from mutator.table.table import Table

        self.pristine, self.path = state / "pristine", state / "table"
        if not self.pristine.exists():
            state.mkdir(parents=True, exist_ok=True)
            rows = pq.read_table(master, partitioning=None, columns=list(PARTITIONED_MASTER_FIELDS))
            rows = rows.append_column("op", pa.repeat("U", len(rows)))
            table = Table.create(str(self.pristine), self.settings)
            table.apply(rows, open_runner=local_runner)
            table.compact(everything=True, open_runner=local_runner)

    def run(self, feed: Path, output: Path) -> Ran:
        """Open the table and overwrite."""
        from mutator.table.table import Table

        self.table = Table(str(self.path))
        report = getattr(self.table, self.operation)(str(feed), open_runner=local_runner)
        more = {"counts": dict(report.counts), "files": report.files, "bytes": report.bytes}
        return Ran(f"{report.files} files added; {report.runner}", more=more)


class MutatorRunOverwrite(MutatorRewrite):
    """``mutator.merge`` with ``write.operation=insert_overwrite``: an overwrite of a directory."""

    def __init__(self, scope: str) -> None:
        self.scope = scope

    def settings_for(self, master: Path) -> dict[str, str]:
        """Return the settings of a partitioned master."""
        return PARTITIONED_SETTINGS["parquet"] | {"key.scope": self.scope}

    def run(self, feed: Path, output: Path) -> Ran:
        """Overwrite into a new directory."""
        settings = self.settings | {"write.operation": "insert_overwrite"}
        report = self.merged(self.master, feed, output, settings)
        return Ran(str(report.runner), more={"counts": dict(report.counts)})

    def export(self, output: Path, to: Path) -> Path:
        """Write the rows to one file, as those of a table are."""
        to.mkdir(parents=True)
        # Only the names of the directories have it.
        stores = ds.partitioning(pa.schema([("store", pa.int32())]), flavor="hive")
        rows = pq.read_table(output, partitioning=stores, columns=list(PARTITIONED_MASTER_FIELDS))
        pq.write_table(rows, to / "part.parquet")
        return to


class PyarrowWrite(Contender):
    """``pyarrow.parquet.write_table`` of the feed's rows, which are in memory: the clock has no reading."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start nothing."""
        return {"pyarrow": importlib.metadata.version("pyarrow")}

    def run(self, feed: Path, output: Path) -> Ran:
        """Read the rows, and time how long writing them takes."""
        rows = pq.read_table(feed, columns=list(PARTITIONED_MASTER_FIELDS))
        started = time.perf_counter()
        pq.write_table(rows, output)
        return Ran(f"{len(rows):,} rows", steps={WRITING: time.perf_counter() - started})

    def export(self, output: Path, to: Path) -> None:
        """Return no rows: nothing was merged."""
        output.unlink()


class MutatorCreate(MutatorTable):
    """``Table.create`` from the rows of the master."""

    def prepare(self, master: Path, state: Path) -> None:
        """Write the rows as a dataset without directories, because a table takes over partitions of its own alone."""
        self.rows, self.path = state / "rows", state / "table"
        if not self.rows.exists():
            self.rows.mkdir(parents=True)
            rows = pq.read_table(master, partitioning=None, columns=list(PARTITIONED_MASTER_FIELDS))
            pq.write_table(rows, self.rows / "part.parquet")

    def reset(self) -> None:
        """Remove the last table."""
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, feed: Path, output: Path) -> Ran:
        """Create the table."""
        from mutator.table.table import Table

        settings = PARTITIONED_SETTINGS["parquet"]
        table = Table.create(str(self.path), settings, dataset=str(self.rows), open_runner=local_runner)
        return Ran(f"version {table.version}")

    def export(self, output: Path, to: Path) -> None:
        """Return no rows: they are those of the master."""
