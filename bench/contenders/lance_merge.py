"""Lance: ``merge_insert`` into a dataset with an index of the IDs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bench.contenders.contender import Contender, Ran
from bench.contenders.polars_join import fold, read
from bench.layout import MASTER_FIELDS

__all__ = ["Lance"]


class Lance(Contender):
    """Polars folds the feed. ``merge_insert`` has no condition for deletes, so they are a second commit.

    In experiments with 1 M rows, ``merge_insert`` without the index took 1.3 to 1.5 times as long.
    """

    def start(self, scratch: Path) -> dict[str, str]:
        """Import the package."""
        import lance

        return {"pylance": lance.__version__}

    def prepare(self, master: Path, state: Path) -> None:
        """Write the master as a dataset, with an index."""
        import lance

        self.pristine, self.table = state / "pristine", state / "table"
        if not self.pristine.exists():
            dataset = lance.write_dataset(read(master, MASTER_FIELDS).collect().to_arrow(), str(self.pristine))
            dataset.create_scalar_index("id", "BTREE")

    def reset(self) -> None:
        """Make a new dataset of hard links: a commit changes no file."""
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self.pristine, self.table, copy_function=os.link)

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge the upserts, then delete what no newer row protects."""
        import lance
        import polars as pl
        import pyarrow as pa

        dataset = lance.dataset(str(self.table))
        winners = fold(feed)
        upserts = winners.filter(pl.col("op") != "D").select(MASTER_FIELDS).to_arrow().cast(dataset.schema)
        merge = dataset.merge_insert("id").when_matched_update_all("source.time >= target.time")
        merge.when_not_matched_insert_all().execute(upserts)
        deletes = winners.filter(pl.col("op") == "D").select("id", newest="time")
        if len(deletes):
            ids = ", ".join(f"'{key}'" for key in deletes["id"])
            known = pl.from_arrow(dataset.to_table(columns=["id", "time"], filter=f"id IN ({ids})"))
            gone = known.join(deletes, on="id").filter(pl.col("newest") >= pl.col("time"))["id"]
            keys = pa.table({"id": gone.to_arrow().cast(dataset.schema.field("id").type)})
            dataset.merge_insert("id").when_matched_delete().execute(keys)
        return Ran("merge_insert by index, then delete")

    def export(self, output: Path, to: Path) -> Path:
        """Read the dataset back."""
        import lance
        import pyarrow.parquet as pq

        to.mkdir(parents=True)
        rows = lance.dataset(str(self.table)).to_table(columns=list(MASTER_FIELDS))
        pq.write_table(rows, to / "part.parquet")
        return to
