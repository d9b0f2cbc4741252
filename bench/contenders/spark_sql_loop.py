"""``python -m bench.contenders.spark_sql_loop PLAN MASTERS FEEDS OUTPUTS SCRATCH``: a user's script for many tables."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.contenders.spark_sql import SparkSql

__all__ = ["main"]


def main(plan: str, masters: Path, feeds: Path, outputs: Path, scratch: Path) -> None:
    """Merge one table after the other, with a plan of Spark SQL."""
    merge = SparkSql(plan)
    merge.start(scratch)
    for master in sorted(masters.iterdir()):
        merge.prepare(master, scratch)
        merge.merge(feeds / master.name, outputs / master.name)
    merge.stop()


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
