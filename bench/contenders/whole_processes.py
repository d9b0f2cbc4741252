"""Many tables in whole processes: the time that an operator sees, including Spark's start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from abc import abstractmethod
from pathlib import Path

from bench.contenders.contender import Contender, Ran, Skipped
from bench.contenders.spark import HEAP
from bench.layout import SETTINGS

__all__ = ["MutatorMany", "MutatorSingle", "SparkSqlLoop"]

ROOT = Path(__file__).resolve().parents[2]
# As in every session of the benchmark (bench.contenders.spark).
SUBMIT = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "mutator.engine.spark.daemon",
    "spark.executorEnv.GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


class WholeProcesses(Contender):
    """Contenders whose runs start processes and wait until they end."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start nothing."""
        import pyspark

        self.scratch = scratch
        return {"pyspark": pyspark.__version__}

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge the feed of each table."""
        output.mkdir()
        return Ran(self._all(self.master, feed, output))

    @abstractmethod
    def _all(self, master: Path, feed: Path, output: Path) -> str:
        """Merge the feed of each table into its master; return the plan."""


class SparkSqlLoop(WholeProcesses):
    """One application of Spark SQL that merges one table after the other."""

    def __init__(self, plan: str) -> None:
        self.plan = plan

    def _all(self, master: Path, feed: Path, output: Path) -> str:
        loop = [sys.executable, "-m", "bench.contenders.spark_sql_loop", self.plan]
        _done([*loop, master, feed, output, self.scratch])
        return f"{self.plan}, one after the other, in one process"


class OfManaged(WholeProcesses):
    """mutator, with masters from an earlier run."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Skip if this version of mutator lacks the command."""
        try:
            _done([*MANY, "--help"])
        except subprocess.CalledProcessError:
            raise Skipped("this version has no mutator run-many") from None
        self.settings = scratch / "tables.properties"
        self.settings.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS["text"].items()), "ascii")
        return super().start(scratch)

    def prepare(self, master: Path, state: Path) -> None:
        """Make managed masters by merges with empty feeds."""
        self.master = state / "managed"
        if not self.master.exists():
            nothing = state / "nothing"
            for table in master.iterdir():
                (nothing / table.name).mkdir(parents=True)
            self.master.mkdir()
            self._many(master, nothing, self.master)

    def _many(self, master: Path, feed: Path, output: Path) -> None:
        tables = self.scratch / "tables.toml"
        with tables.open("w", encoding="utf-8") as file:
            for table in sorted(master.iterdir()):
                paths = {"master": table, "feed": feed / table.name, "output": output / table.name}
                file.write(f"[tables.{table.name}]\n")
                # a JSON string is also a TOML string
                file.writelines(f"{name} = {json.dumps(str(path))}\n" for name, path in paths.items())
                file.write(f"config = {json.dumps(str(self.settings))}\n")
        _done([*MANY, tables])


class MutatorMany(OfManaged):
    """``mutator run-many``."""

    def _all(self, master: Path, feed: Path, output: Path) -> str:
        self._many(master, feed, output)
        return "run-many, in one process"


class MutatorSingle(OfManaged):
    """``spark-submit jobs/bulk_mutate.py``, once per table."""

    def _all(self, master: Path, feed: Path, output: Path) -> str:
        import pyspark

        submit = [Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[*]"]
        submit += ["--driver-memory", HEAP, *(word for pair in SUBMIT.items() for word in ("--conf", "=".join(pair)))]
        tables = sorted(table.name for table in master.iterdir())
        for table in tables:
            paths = ["--master", master / table, "--feed", feed / table, "--output", output / table]
            _done([*submit, ROOT / "jobs" / "bulk_mutate.py", "--config", self.settings, *paths])
        return f"{len(tables)} times spark-submit"


MANY = [sys.executable, "-m", "mutator", "run-many"]


def _done(command: list[str | Path]) -> None:
    subprocess.run(command, check=True, env=os.environ | {"SPARK_DRIVER_MEMORY": HEAP})
