"""pyiceberg: ``upsert`` into an Iceberg table without Spark."""

from __future__ import annotations

from pathlib import Path

from bench.contenders.contender import Contender, Ran
from bench.contenders.polars_join import fold, read
from bench.layout import MASTER_FIELDS, is_text

__all__ = ["PyIceberg"]

NAME = "bench.master"


class PyIceberg(Contender):
    """Polars folds the feed; a comparison with the table's times drops late mutations.

    ``upsert`` does not support deletes: they are a second commit.
    """

    def start(self, scratch: Path) -> dict[str, str]:
        """Import the package."""
        import pyiceberg

        return {"pyiceberg": pyiceberg.__version__}

    def prepare(self, master: Path, state: Path) -> None:
        """Write the master as a table in a single-file catalogue."""
        from pyiceberg.catalog.sql import SqlCatalog

        state.mkdir(parents=True, exist_ok=True)
        self.catalogue = SqlCatalog("bench", uri=f"sqlite:///{state}/catalogue.db", warehouse=f"file://{state}/tables")
        self.catalogue.create_namespace_if_not_exists("bench")
        mark = state / "pristine"
        if not mark.exists():
            if self.catalogue.table_exists(NAME):
                self.catalogue.drop_table(NAME)
            rows = read(master, MASTER_FIELDS).collect().to_arrow()
            properties = {} if is_text(master) else {"write.parquet.compression-codec": "snappy"}
            table = self.catalogue.create_table(NAME, schema=rows.schema, properties=properties)
            table.append(rows)
            mark.write_text(table.metadata_location, encoding="utf-8")
        self.pristine = mark.read_text(encoding="utf-8")

    def reset(self) -> None:
        """Register the original table again: its files never change."""
        self.catalogue.drop_table(NAME)
        self.catalogue.register_table(NAME, self.pristine)

    def run(self, feed: Path, output: Path) -> Ran:
        """Upsert, then delete."""
        import polars as pl
        from pyiceberg.expressions import In

        table = self.catalogue.load_table(NAME)
        winners = fold(feed)
        known = pl.from_arrow(table.scan(selected_fields=("id", "time")).to_arrow()).rename({"time": "known"})
        joined = winners.join(known, on="id", how="left")
        fresh = joined.filter(pl.col("known").is_null() | (pl.col("time") >= pl.col("known")))
        upserts = fresh.filter(pl.col("op") != "D").select(MASTER_FIELDS).to_arrow().cast(table.schema().as_arrow())
        table.upsert(upserts, join_cols=["id"])
        deletes = fresh.filter((pl.col("op") == "D") & pl.col("known").is_not_null())["id"]
        if len(deletes):
            table.delete(In("id", deletes.to_list()))
        return Ran("upsert, then delete")

    def export(self, output: Path, to: Path) -> Path:
        """Read the table back."""
        import polars as pl

        to.mkdir(parents=True)
        rows = pl.from_arrow(self.catalogue.load_table(NAME).scan().to_arrow())
        rows.select(MASTER_FIELDS).write_csv(to / "part.txt", include_header=False, quote_style="never")
        return to
