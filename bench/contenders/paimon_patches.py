"""pypaimon on patches: a table whose merge engine is ``partial-update``."""

from __future__ import annotations

import importlib.metadata
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contenders.contender import Contender, Ran
from bench.contenders.polars_join import read
from bench.layout import PATCHED_FIELDS

if TYPE_CHECKING:
    import polars

__all__ = ["PaimonPatches"]

_OPTIONS = {
    "bucket": "4",
    "merge-engine": "partial-update",
    "sequence.field": "time",
    "file.format": "parquet",
    "file.compression": "snappy",
}


class PaimonPatches(Contender):
    """Commits of patches, and a read that merges them: pypaimon has no compaction.

    Rows of one commit with one ID become a row with the time of the last: a field of the first one then wins over a
    record that is newer than it. So each mutation of an ID is in a commit of its own, and the read sorts them by time.
    """

    def start(self, scratch: Path) -> dict[str, str]:
        """Import the package."""
        import pypaimon  # noqa: F401  # skipped if it is missing

        return {"pypaimon": importlib.metadata.version("pypaimon")}

    def prepare(self, master: Path, state: Path) -> None:
        """Write the master as a table."""
        from pypaimon import Schema

        self.pristine, self.warehouse = state / "pristine", state / "warehouse"
        if not self.pristine.exists():
            rows = read(master, PATCHED_FIELDS).collect()
            catalog = self._catalog(self.pristine)
            catalog.create_database("bench", ignore_if_exists=True)
            schema = Schema.from_pyarrow_schema(_arrow(rows).schema, primary_keys=["id"], options=_OPTIONS)
            catalog.create_table("bench.master", schema, ignore_if_exists=False)
            _commit(catalog.get_table("bench.master"), rows)

    def reset(self) -> None:
        """Make a new copy of the table."""
        shutil.rmtree(self.warehouse, ignore_errors=True)
        shutil.copytree(self.pristine, self.warehouse)

    def run(self, feed: Path, output: Path) -> Ran:
        """Commit the patches, and read the table."""
        import polars as pl

        started = time.monotonic()
        table = self._catalog(self.warehouse).get_table("bench.master")
        rows = read(feed, PATCHED_FIELDS).collect().sort("time")
        commits = rows.with_columns(nth=pl.int_range(pl.len()).over("id")).partition_by("nth", include_key=False)
        for some in commits:
            _commit(table, some)
        committed = time.monotonic()
        builder = table.new_read_builder()
        self.rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        steps = {"commit": committed - started, "read": time.monotonic() - committed}
        return Ran(f"merge on read, {len(commits)} commits", steps=steps)

    def export(self, output: Path, to: Path) -> Path:
        """Write the rows that were read."""
        import pyarrow.parquet as pq

        to.mkdir(parents=True)
        pq.write_table(self.rows, to / "part.parquet")
        return to

    def _catalog(self, warehouse: Path) -> Any:
        from pypaimon import CatalogFactory

        return CatalogFactory.create({"warehouse": str(warehouse)})


def _arrow(rows: polars.DataFrame) -> Any:
    """Return a pa.Table whose texts have the type that pypaimon takes."""
    import pyarrow as pa

    table = rows.to_arrow()
    texts = [one.with_type(pa.string()) if pa.types.is_large_string(one.type) else one for one in table.schema]
    return table.cast(pa.schema(texts))


def _commit(table: Any, rows: polars.DataFrame) -> None:
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(_arrow(rows))
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()
