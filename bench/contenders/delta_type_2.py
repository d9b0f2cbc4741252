"""delta-rs on versions of records: the merge of type 2 of Delta's documentation."""

from __future__ import annotations

from pathlib import Path

from bench.contenders.contender import Ran
from bench.contenders.delta_patches import DeltaPatches
from bench.layout import PATCHED_FIELDS

__all__ = ["DeltaType2"]


class DeltaType2(DeltaPatches):
    """The merge of Delta's documentation: it ends the open version, whatever its time, and inserts another."""

    def prepare(self, master: Path, state: Path) -> None:
        """Write the versions as a table."""
        import deltalake
        import polars as pl

        self.pristine, self.table = state / "pristine", state / "table"
        if not self.pristine.exists():
            rows = pl.read_parquet(master / "*" / "*.parquet").sort("id", "time")
            rows = rows.with_columns(valid_to=pl.col("time").shift(-1).over("id"))
            deltalake.write_deltalake(str(self.pristine), rows.to_arrow())

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge each row twice: to end the open version, and to insert."""
        import deltalake
        import polars as pl

        rows = pl.read_parquet(feed / "*.parquet")
        source = pl.concat([rows.with_columns(key=pl.col("id")), rows.with_columns(key=pl.lit(None, pl.String))])
        fields = {name: f"source.{name}" for name in PATCHED_FIELDS}
        (
            deltalake.DeltaTable(str(self.table))
            .merge(
                source.to_arrow(),
                predicate="target.id = source.key AND target.valid_to IS NULL",
                source_alias="source",
                target_alias="target",
            )
            .when_matched_update({"valid_to": "source.time"})
            .when_not_matched_insert(fields)
            .execute()
        )
        return Ran("copy-on-write merge")
