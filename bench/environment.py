"""Virtual environments for contenders that need another Spark or DuckDB, made on first use and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "CACHE",
    "DBT",
    "DELTA",
    "DUCKLAKE",
    "HUDI",
    "ICEBERG",
    "PAIMON",
    "Environment",
    "child_environment",
    "python_of",
]

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "build" / "bench-cache"


@dataclass(frozen=True)
class Environment:
    """Packages from pip, and for a Spark a jar from Maven that works with it.

    Each one below was the newest release with a jar in Maven when this was written, for the newest Spark that has one.
    To use a new release, change its line.
    """

    name: str
    requirement: str  # words of pip
    jar: str = ""


# The feeds of the workload "table compaction" are written in the contender's process, with pyarrow.
# 4.4.1 is on PyPI, but Maven did not have its jar for Spark 4.2.
DELTA = Environment("delta", "pyspark==4.2.* pyarrow numpy fastavro", "io.delta:delta-spark_4.2_2.13:4.4.0")
ICEBERG = Environment(
    "iceberg", "pyspark==4.1.* pyarrow numpy fastavro", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
)
# Hudi's documentation also names Spark 4.0, but Maven had hudi-spark4.0-bundle_2.13 neither in 1.1.1 nor in 1.2.0.
HUDI = Environment("hudi", "pyspark==3.5.*", "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0")
# DuckDB downloads its extensions from a host of its own; PyPI has that of DuckLake up to this release of DuckDB.
DUCKLAKE = Environment("ducklake", "duckdb==1.4.4 duckdb-ext-ducklake==1.4.4.*")

# dbt-core 2.0 and dbt-duckdb 1.11 build a part from a release on GitHub.
DBT = Environment("dbt", "dbt-core<1.12 dbt-duckdb<1.11")
# Its pyarrow is older than that of this environment.
PAIMON = Environment("paimon", "pypaimon==2.1.0")


def python_of(environment: Environment | None) -> Path:
    """Return the Python of an environment; create the environment if it does not exist.

    Raises OSError or subprocess.SubprocessError.
    """
    if environment is None:
        return Path(sys.executable)
    home = CACHE / f"venv-{environment.name}"
    python, stamp = home / "bin" / "python", home / "requirement"
    if not stamp.exists() or stamp.read_text(encoding="ascii") != environment.requirement:
        print(f"making an environment with {environment.requirement} ...", file=sys.stderr)
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True, capture_output=True)
        install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*install, *environment.requirement.split()], check=True, capture_output=True, timeout=1800)
        stamp.write_text(environment.requirement, encoding="ascii")
    return python


def child_environment(python: Path, scratch: Path) -> dict[str, str]:
    """Return the environment variables of a contender's process, without those that would select another Spark."""
    foreign = ("SPARK_", "PYSPARK_", "PYTHON", "MASTER")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return variables | {
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(scratch),
    }
