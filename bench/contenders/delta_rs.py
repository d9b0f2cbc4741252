"""delta-rs: ``merge`` into a Delta table without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.contenders.contender import Contender, Ran
from bench.contenders.polars_join import fold, read
from bench.layout import MASTER_FIELDS

__all__ = ["DeltaRs"]


class DeltaRs(Contender):
    """Polars folds the feed; ``merge`` updates, inserts and deletes in one commit."""

    fields = MASTER_FIELDS  # of the master

    def start(self, scratch: Path) -> dict[str, str]:
        """Import the package."""
        import deltalake

        return {"deltalake": deltalake.__version__}

    def prepare(self, master: Path, state: Path) -> None:
        """Write the master as a table."""
        import deltalake

        self.pristine, self.table = state / "pristine", state / "table"
        if not self.pristine.exists():
            deltalake.write_deltalake(str(self.pristine), read(master, self.fields).collect().to_arrow())

    def reset(self) -> None:
        """Make a new copy of the table."""
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self.pristine, self.table)

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge."""
        import deltalake

        fields = {name: f"source.{name}" for name in MASTER_FIELDS}
        done = (
            deltalake.DeltaTable(str(self.table))
            .merge(
                fold(feed).to_arrow(), predicate="target.id = source.id", source_alias="source", target_alias="target"
            )
            .when_matched_delete(predicate="source.op = 'D' and source.time >= target.time")
            .when_matched_update(fields, predicate="source.time >= target.time")
            .when_not_matched_insert(fields, predicate="source.op <> 'D'")
            .execute()
        )
        return Ran("copy-on-write merge", more={"delta-rs": {name: str(value) for name, value in done.items()}})

    def export(self, output: Path, to: Path) -> Path:
        """Read the table back."""
        import deltalake
        import polars as pl

        to.mkdir(parents=True)
        rows = pl.from_arrow(deltalake.DeltaTable(str(self.table)).to_pyarrow_table())
        rows.select(MASTER_FIELDS).write_csv(to / "part.txt", include_header=False, quote_style="never")
        return to
