"""mutator itself."""

from __future__ import annotations

import inspect
from pathlib import Path

from bench.contenders.contender import Contender, Ran, Skipped
from bench.contenders.spark import Shuffled, session
from bench.layout import SETTINGS, format_of

__all__ = ["Mutator"]


class Mutator(Contender):
    """``mutator.mutate`` with one of its joins; the report has the engine and join that it chose."""

    def __init__(self, join: str) -> None:
        self.join = join
        self.more_settings: dict[str, str] = {}
        self.options: dict[str, str] = {}

    def start(self, scratch: Path) -> dict[str, str]:
        """Start Spark; skip if this version of mutator lacks the setting."""
        import pyspark

        import mutator

        if self.join == "broadcast":
            self.more_settings["master.unique"] = "true"
            try:
                mutator.parse(SETTINGS["text"] | self.more_settings)
            except mutator.ConfigError:
                raise Skipped("this version has no setting master.unique") from None
        if self.join == "records":
            if "engine" not in inspect.signature(mutator.mutate).parameters:
                raise Skipped("this version has no choice of engine")
            self.options["engine"] = "records"
        self.spark = session(scratch)
        return {"pyspark": pyspark.__version__}

    def prepare(self, master: Path, state: Path) -> None:
        """Make a managed master by a merge with a feed of no files."""
        self.master = master
        self.settings = self.settings_for(master)
        if self.join != "aligned":
            return
        self.master = state / "managed"
        if not self.master.exists():
            nothing = state / "nothing"
            nothing.mkdir(parents=True, exist_ok=True)
            self._merge(master, nothing, self.master)

    def settings_for(self, master: Path) -> dict[str, str]:
        """Return mutator's settings for these rows."""
        return SETTINGS[format_of(master)] | self.more_settings

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge; return engine and join."""
        shuffled = Shuffled(self.spark)
        report = self._merge(self.master, feed, output)
        more = {"buckets": report.buckets, "tasks": report.tasks, "counts": dict(report.counts)}
        return Ran(f"{report.engine} engine, {report.join} join", shuffled.bytes, more)

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()

    def _merge(self, master, feed, output):
        import mutator

        return mutator.mutate(
            self.spark.sparkContext, self.settings, master=master, feed=feed, output=output, **self.options
        )
