"""delta-rs on patches: ``merge`` sets the fields that are not NULL."""

from __future__ import annotations

from pathlib import Path

from bench.contenders.contender import Ran
from bench.contenders.delta_rs import DeltaRs
from bench.contenders.polars_join import read
from bench.layout import PATCHED_FIELDS

__all__ = ["DeltaPatches"]

_SET = PATCHED_FIELDS[1:-1]  # by patches


class DeltaPatches(DeltaRs):
    """Polars folds the feed to the last value of each field and its time."""

    fields = PATCHED_FIELDS

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge."""
        import deltalake
        import polars as pl

        last = [pl.col(name).drop_nulls().last() for name in _SET]
        times = [
            pl.col("time").filter(pl.col(name).is_not_null()).last().fill_null(-1).alias(f"{name}_time")
            for name in _SET
        ]
        rows = read(feed, self.fields).collect().sort("time")
        fields = {name: _newest(name, f"{name}_time") for name in _SET} | {"time": _newest("time", "time")}
        source = rows.group_by("id").agg(*last, *times, pl.col("time").last())
        (
            deltalake.DeltaTable(str(self.table))
            .merge(source.to_arrow(), predicate="target.id = source.id", source_alias="source", target_alias="target")
            .when_matched_update(fields)
            .execute()
        )
        return Ran("copy-on-write merge")

    def export(self, output: Path, to: Path) -> Path:
        """Write the table as Parquet: it has other fields than text for the digest."""
        import deltalake
        import pyarrow.parquet as pq

        to.mkdir(parents=True)
        pq.write_table(deltalake.DeltaTable(str(self.table)).to_pyarrow_table(), to / "part.parquet")
        return to


def _newest(name: str, time: str) -> str:
    return f"CASE WHEN source.{time} >= target.time THEN source.{name} ELSE target.{name} END"
