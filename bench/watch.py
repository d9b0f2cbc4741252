"""``python -m bench.watch``: the seconds from when a feed file is old enough until its version of a table is visible.

A process watches a base whose target is a table. Feed files of 1,000 rows, of which one in ten is a delete, arrive at
random times. The time of a file is that of its last write plus the age from which it is claimed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.machine import describe, file_system, scratch
from mutator import Table

ROWS = 1000  # of a feed file
AGE = 1  # second


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.watch", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="of the table")
    parser.add_argument("--files", type=int, default=30)
    options = parser.parse_args(arguments)
    directory = scratch(options.records * 200)
    try:
        print(f"{describe()['processor']}, {describe()['cores']} cores; files on a {file_system(directory)}")
        found = sorted(latencies(directory, options.records, options.files))
    finally:
        shutil.rmtree(directory)
    print(
        f"{options.files} files of {ROWS:,} rows into {options.records:,} records: "
        f"median {statistics.median(found):.2f} s, highest {found[-1]:.2f} s"
    )
    return 0


def latencies(directory: Path, records: int, files: int) -> list[float]:
    """Return the seconds of each feed file."""
    base, chance, found = directory / "base", random.Random(1), list[float]()
    (base / "incr").mkdir(parents=True)
    table = Table.create(base / "table", key="id", order_by="at", op="op", header=True, buckets=8)
    rows = {"id": np.arange(records), "at": np.zeros(records, np.int64), "op": ["U"] * records}
    table.apply(pa.table({**rows, "name": ["x" * 20] * records}))
    words = [sys.executable, "-m", "mutator", "workflow", "watch", str(base), "--min-age", str(AGE), "--json"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as watching:
        for number in range(-1, files):  # the first one waits until the process has started
            path, wanted = base / "incr" / f"ups_{number + 1}.csv", table.refresh().version + 1
            keys = chance.sample(range(records), ROWS)
            lines = (f"{key},{number + 2},{'D' if key % 10 == 0 else 'U'},new\n" for key in keys)
            hidden = path.with_name(f".{path.name}")
            hidden.write_text("id,at,op,name\n" + "".join(lines))
            hidden.rename(path)
            due = path.stat().st_mtime + AGE
            entry = Path(table.path) / "_mutator/table/log" / f"{wanted:020d}.json"
            while not entry.exists():
                if watching.poll() is not None:
                    raise SystemExit(f"the command ended with {watching.returncode}")
                time.sleep(0.002)
            found += [time.time() - due] if number >= 0 else []
            time.sleep(chance.random())
        watching.terminate()
    return found


if __name__ == "__main__":
    sys.exit(main())
