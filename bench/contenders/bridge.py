"""The bridge: a merge into Parquet by way of text, and its two halves, each compared with Spark SQL.

Spark SQL writes ORC with zstd at level 1, as mutator does; its own default would be level 3. In an experiment with 2 M
rows, whole lines that ``split`` parsed or ``concat_ws`` built took 0.6 and 0.75 of the CPU time of its CSV. But such
lines cannot represent NULL or a delimiter within a value, so a table cannot be restored from them.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contenders.contender import Contender, Ran
from bench.contenders.spark import Shuffled, session
from bench.digest import data_files
from bench.layout import MASTER_FIELDS, SETTINGS, TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BridgeExport", "BridgeImport", "BridgeRun", "SparkOrc", "SparkText"]

# With these options Spark SQL reads back the values that it wrote, unless a value contains a line end.
TEXT_OPTIONS = {"sep": ",", "quote": '"', "escape": "\\", "nullValue": "\\N", "emptyValue": ""}
ORC_OPTIONS = {"compression": "zstd", "orc.compression.zstd.level": "1"}


class OnSpark(Contender):
    """The common base of the bridge's contenders."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start the same session as the others."""
        import pyspark

        self.spark = session(scratch)
        return {"pyspark": pyspark.__version__}

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()

    def _table(self, path: Path) -> Any:
        from mutator.bridge import PathTable

        return PathTable(str(path), self._each())

    def _each(self) -> Any:
        from mutator.engine.runner import each_on
        from mutator.engine.spark.spark_runner import SparkRunner

        return each_on(SparkRunner(self.spark.sparkContext))

    def _export(self, table: Path, to: Path) -> Any:
        from mutator.bridge import export

        return export(self._table(table), str(to), new_run())


class BridgeRun(OnSpark):
    """``bridge run``. first: without a text copy. again: with the text copy of a run that had no feed files."""

    def __init__(self, which: str) -> None:
        self.which = which

    def prepare(self, master: Path, state: Path) -> None:
        """Copy the master as the table; for ``again``, also make its text copy."""
        self.table, self.text, self.kept = state / "table", state / "text", state / "kept"
        state.mkdir(parents=True, exist_ok=True)
        if not self.kept.exists():
            self.reset()
            linked(master, self.table)
            if self.which == "again":
                nothing = state / "nothing"
                nothing.mkdir()
                self._merge(nothing)
                linked(self.text, self.kept / "text")
            linked(self.table, self.kept / "table")

    def reset(self) -> None:
        """Restore table and text copy."""
        for directory in (self.table, self.text):
            shutil.rmtree(directory, ignore_errors=True)
            if (self.kept / directory.name).exists():
                linked(self.kept / directory.name, directory)

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge; return how it was done."""
        shuffled = Shuffled(self.spark)
        report = self._merge(feed)
        merged = report.merged
        how = "export skipped" if report.exported is None else f"{report.exported['rows']:,} rows exported"
        more = {"counts": dict(merged.counts), "buckets": merged.buckets, "text bytes": size_of(self.text)}
        return Ran(f"{how}; {merged.engine} engine, {merged.join} join", shuffled.bytes, more)

    def export(self, output: Path, to: Path) -> Path:
        """Return the table."""
        return self.table

    def _merge(self, feed: Path) -> Any:
        from contextlib import nullcontext

        from mutator import config
        from mutator.bridge import run
        from mutator.pipeline.runners import engine_on

        settings = config.parse(SETTINGS["parquet"])
        merge_on = engine_on("spark", lambda: nullcontext(self.spark.sparkContext))
        return run(self._table(self.table), str(self.text), settings, [str(feed)], merge_on, self._each())


class BridgeExport(OnSpark):
    """``bridge export``."""

    def run(self, feed: Path, output: Path) -> Ran:
        """Write ORC as text."""
        done = self._export(self.master, output)
        return Ran(f"{done.files} files", more={"text bytes": done.bytes})


class SparkText(OnSpark):
    """Spark SQL's CSV."""

    def run(self, feed: Path, output: Path) -> Ran:
        """Write ORC as text."""
        rows: DataFrame = self.spark.read.schema(columns()).orc(str(self.master))
        rows.write.options(**TEXT_OPTIONS).csv(str(output))
        return Ran("csv", more={"text bytes": size_of(output)})


class BridgeImport(OnSpark):
    """``bridge import``."""

    def prepare(self, master: Path, state: Path) -> None:
        """Make the text by an export."""
        self.master = state / "text"
        if not self.master.exists():
            state.mkdir(parents=True, exist_ok=True)
            self._export(master, self.master)
        self.size = size_of(self.master)

    def run(self, feed: Path, output: Path) -> Ran:
        """Write text as ORC."""
        from mutator.bridge import import_to_path

        done = import_to_path(str(self.master), str(output), "orc", new_run(), self._each())
        return Ran(f"{done.files} files", more={"text bytes": self.size})


class SparkOrc(BridgeImport):
    """Spark SQL's ORC, from the text that the bridge has written; it refuses malformed rows, as mutator does."""

    def run(self, feed: Path, output: Path) -> Ran:
        """Write text as ORC."""
        rows = self.spark.read.schema(columns()).options(**TEXT_OPTIONS, mode="FAILFAST").csv(str(self.master))
        rows.write.options(**ORC_OPTIONS).orc(str(output))
        return Ran("orc", more={"text bytes": self.size})


def columns() -> str:
    """Return the schema as SQL, so that Spark need not infer it."""
    return ", ".join(f"{name} {TYPES[name]}" for name in MASTER_FIELDS)


def new_run() -> str:
    """Return a unique run id."""
    from mutator.rules.file_names import new_run_id

    return new_run_id(time.time())


def linked(source: Path, to: Path) -> None:
    """Copy a directory with hard links, because no contender writes to an existing file."""
    shutil.copytree(source, to, copy_function=os.link)


def size_of(directory: Path) -> int:
    """Return the bytes of text below a directory."""
    return sum(path.stat().st_size for path in data_files(directory))
