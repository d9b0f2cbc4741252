"""Tables of very many files: what opening them and planning with them takes.

Only their log is real: its entries name files that do not exist, because nothing here reads one.
"""

from __future__ import annotations

import importlib.metadata
import json
import random
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from bench.contenders.contender import Contender, Ran
from bench.contenders.mutator_table import new_table
from bench.digest import data_files

__all__ = ["LargeTables"]

# Versions and files of the tables; of a small master, a hundredth of both.
TABLES = ((100, 10_000), (10_000, 100_000), (100, 1_000_000))
SMALL, FRACTION = 1_000_000, 100
FIRST_ROWS = 1000


class LargeTables(Contender):
    """Each table is opened in a process of its own, so that its memory is that of the driver alone."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start nothing."""
        return {"pyarrow": importlib.metadata.version("pyarrow")}

    def prepare(self, master: Path, state: Path) -> None:
        """Create the tables."""
        files = data_files(master)
        fraction = 1 if sum(pq.read_metadata(path).num_rows for path in files) >= SMALL else FRACTION
        self.sizes = [(versions // fraction, files // fraction) for versions, files in TABLES]
        self.tables = [state / f"{files}" for _, files in self.sizes]
        if not state.exists():
            first = state / "first"
            first.mkdir(parents=True)
            pq.write_table(pq.ParquetFile(files[0]).read_row_group(0)[:FIRST_ROWS], first / "part.parquet")
            for table, (versions, count) in zip(self.tables, self.sizes, strict=True):
                _fill(table, first, versions, count)

    def run(self, feed: Path, output: Path) -> Ran:
        """Measure each table."""
        steps, peaks = {}, {}
        for table, (versions, files) in zip(self.tables, self.sizes, strict=True):
            driver = [sys.executable, "-m", "bench.contenders.table_driver", table, feed]
            found = json.loads(subprocess.run(driver, check=True, stdout=subprocess.PIPE).stdout)
            for name, (seconds, peak) in found.items():
                title = f"{name}: {versions:,} versions, {files:,} files"
                steps[title], peaks[title] = seconds, peak
        return Ran("one process for each table", more={"peaks": peaks}, steps=steps)

    def export(self, output: Path, to: Path) -> None:
        """Return None: there is no result."""


def _fill(path: Path, first: Path, versions: int, files: int) -> None:
    """Create a table with the rows of a dataset, and add versions with files that do not exist."""
    from mutator.dataset.versions.log import TableLog

    snapshot = new_table(path, first).snapshot
    log = TableLog(snapshot.table)
    for step in range(versions):
        number = snapshot.version.number + 1
        added = range(files * step // versions, files * (step + 1) // versions)
        version = replace(
            snapshot.version,
            number=number,
            id=uuid.uuid4().hex,
            parent=snapshot.version.id,
            action="apply",
            spec=None,
            files=tuple(_file(number, file, snapshot.version.buckets) for file in added),
        )
        log.commit(version)
        snapshot = snapshot.after(version)
        if number % 100 == 0:
            snapshot = replace(snapshot, files=snapshot.files.combine_chunks())
    name = log.write_checkpoint(snapshot.files.combine_chunks(), snapshot.state, snapshot.mask_rows())
    log.write_hint(snapshot.version, name)


def _file(version: int, number: int, buckets: int):
    from mutator.dataset.file_entry import Extent, FileEntry

    path = f"version_id={version}/part-{number % buckets:05d}-20261123T080637Z-{number:08x}.parquet"
    data, index = (
        FileEntry(path=name, bytes=size, checksum=f"xxh3-128:{random.randbytes(16).hex()}")
        for name, size in ((path, 50_000), (f"_mutator/table/keys/{path}.keys", 20_000))
    )
    extent = Extent(partition=None, bucket=number % buckets, buckets=buckets, rows=1000, high="1430000000")
    return replace(data, rows=1000, form=1, extents=(extent,), index=index)
