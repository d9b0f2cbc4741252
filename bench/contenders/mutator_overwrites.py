"""mutator without Spark: insert overwrites of a versioned table with partitions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.contenders.contender import Ran
from bench.contenders.mutator_table import MutatorTable, local_runner
from bench.layout import PARTITIONED_MASTER_FIELDS, PARTITIONED_SETTINGS

__all__ = ["MutatorOverwrite"]


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
