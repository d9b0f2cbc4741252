"""fastavro alone: the part of its work in a merge of Avro."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import fastavro

from bench.contenders.contender import Contender, Ran

__all__ = ["FastAvro"]

PROJECTED = ("id", "time", "op")


class FastAvro(Contender):
    """Read ID, order value, op code and end of every record; write nothing.

    The files go to as many processes as there are cores; the processes start before the clock does.
    """

    def start(self, scratch: Path) -> dict[str, str]:
        """Start the processes."""
        self.processes = os.cpu_count() or 1
        self.pool = ProcessPoolExecutor(self.processes)
        return {"fastavro": fastavro.__version__}

    def run(self, feed: Path, output: Path) -> Ran:
        """Read master and feed."""
        files = sorted(self.master.iterdir()) + sorted(feed.iterdir())
        rows = sum(self.pool.map(read, files))
        return Ran(f"reads in {self.processes} processes, writes nothing", more={"rows": rows})

    def export(self, output: Path, to: Path) -> None:
        """Return nothing: there is no result."""

    def stop(self) -> None:
        """End the processes."""
        self.pool.shutdown()


def read(path: Path) -> int:
    """Read a file as a merge does, and return the number of its records."""
    count = 0
    with path.open("rb") as file:
        schema = fastavro.reader(file).writer_schema
        file.seek(0)
        fields = [field for field in schema["fields"] if field["name"] in PROJECTED]
        for block in fastavro.block_reader(file, reader_schema={**schema, "fields": fields}):
            rows, ends = [], []
            for row in block:
                rows.append(row)
                ends.append(block.bytes_.tell())
            count += len(ends)
    return count
