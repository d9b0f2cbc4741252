"""Scans of a versioned table, single records, and the bytes that a version adds."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.columns import convert
from bench.contenders.contender import Ran
from bench.contenders.mutator_table import MutatorTable, local_runner, new_table
from bench.data import MOST, draw_mutations, write_mutations
from bench.digest import data_files
from bench.layout import FEED_FIELDS

if TYPE_CHECKING:
    from mutator.table.table import Table

__all__ = ["FEW", "LARGE", "SMALL", "TableReads", "apply_feeds", "write_feeds"]

SMALL, LARGE = 1000, 20  # a feed has the rows of the master divided by this: 0.1 %, 5 %
MANY, FEW = 100, 10  # versions
COMPACTED = f"{FEW} versions of 5 %, compacted"
GETS = 200


class TableReads(MutatorTable):
    """Two tables that begin with the same rows: one with many small versions, one with few large ones.

    Their rows are also exported as plain Parquet, which pyarrow reads with one thread, as a scan does, and with its
    default.
    """

    def prepare(self, master: Path, state: Path) -> None:
        """Create the tables, apply their feeds, and export their rows."""
        from mutator.table.table import Table

        self.many, self.few, self.compacted = state / "many", state / "few", state / "compacted"
        self.plain = {"1 version": state / "plain", f"{FEW} versions of 5 %": state / "plain-few"}
        if not state.exists():
            state.mkdir(parents=True)
            table = new_table(self.many, master)
            table.export(str(self.plain["1 version"]), open_runner=local_runner)
            shutil.copytree(self.many, self.few, copy_function=os.link)
            rows = sum(pq.read_metadata(path).num_rows for path in data_files(master))
            apply_feeds(table, rows, rows // SMALL, MANY)
            few = Table(str(self.few))
            apply_feeds(few, rows, rows // LARGE, FEW)
            few.export(str(self.plain[f"{FEW} versions of 5 %"]), open_runner=local_runner)
            shutil.copytree(self.few, self.compacted, copy_function=os.link)
            Table(str(self.compacted)).compact(everything=True, open_runner=local_runner)
        first = next(Table(str(self.many)).scan(["id"], version=1)).column("id")
        self.keys = [str(key) for key in random.Random(1).sample(first.to_pylist(), min(GETS, len(first)))]

    def reset(self) -> None:
        """Do nothing: reading changes no table."""

    def run(self, feed: Path, output: Path) -> Ran:
        """Read everything; each step counts the rows that it has read."""
        from mutator.table.table import Table

        many, few = Table(str(self.many)), Table(str(self.few))
        steps = {}
        for title, table, version in (
            ("1 version", many, 1),
            (f"{FEW} versions of 0.1 %", many, 1 + FEW),
            (f"{MANY} versions of 0.1 %", many, 1 + MANY),
            (f"{FEW} versions of 5 %", few, 1 + FEW),
            (COMPACTED, Table(str(self.compacted)), 2 + FEW),
        ):
            rows = table.at(version).version.records
            steps[f"scan of {title}"] = _timed(lambda table=table, version=version: _scanned(table, version), rows)
            if title in self.plain:
                plain = self.plain[title]
                steps[f"plain rows of {title}"] = _timed(lambda plain=plain: _one_thread(plain), rows)
                steps[f"plain rows of {title}, all threads"] = _timed(lambda plain=plain: _all_threads(plain), rows)
        for title, version in (("1 version", 1), (f"{MANY} versions of 0.1 %", 1 + MANY)):
            steps[f"get a key of {title}"] = self._get(Table(str(self.many)), version)
        return Ran(
            "scans and lookups, one after the other",
            steps=steps,
            more={"versions": [*_sizes(many, (1, 2)), *_sizes(few, (2,))], "checkpoint": _checkpoint(many)},
        )

    def export(self, output: Path, to: Path) -> None:
        """Return None: there is no result."""

    def _get(self, table: Table, version: int) -> float:
        """Return the median of the times to get a record; the first keys read what the others find in memory."""
        seconds = []
        for key in self.keys:
            started = time.monotonic()
            table.get(key, version=version)
            seconds.append(time.monotonic() - started)
        return median(seconds)


def apply_feeds(table: Table, rows: int, each: int, versions: int) -> None:
    """Apply feeds of so many rows, each with newer times and other new keys than the one before."""
    work = Path(f"{table.path}.feed")
    for feed in _feeds(work, rows, each, versions):
        table.apply(str(feed), open_runner=local_runner)
        shutil.rmtree(work)


def write_feeds(directory: Path, rows: int, each: int, versions: int) -> None:
    """Write these feeds, each into a directory of its own, which sort by version."""
    work = Path(f"{directory}.feed")
    directory.mkdir(parents=True)
    for feed in _feeds(work, rows, each, versions):
        feed.rename(directory / feed.name)
        shutil.rmtree(work)


def _feeds(work: Path, rows: int, each: int, versions: int) -> Iterator[Path]:
    """Write feeds one after the other; yield the directory of each."""
    for number in range(versions):
        draw = np.random.default_rng((7, number))
        drawn = draw_mutations(rows + number * each, each, draw)
        write_mutations(work / "text", drawn._replace(times=drawn.times + number * MOST), draw)
        convert(work / "text", work / f"feed-{number:03}", FEED_FIELDS, "parquet")
        yield work / f"feed-{number:03}"


def _timed(read: Callable[[], int], rows: int) -> float:
    """Return the seconds that it takes to read all rows."""
    started = time.monotonic()
    found = read()
    seconds = time.monotonic() - started
    if found != rows:
        raise ValueError(f"{found:,} rows were read, and there should be {rows:,}")
    return seconds


def _scanned(table: Table, version: int) -> int:
    return sum(batch.num_rows for batch in table.scan(version=version))


def _one_thread(directory: Path) -> int:
    rows = 0
    for path in data_files(directory):
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                rows += file.read_row_group(number, use_threads=False).num_rows
    return rows


def _all_threads(directory: Path) -> int:
    return sum(batch.num_rows for batch in ds.dataset(list(map(str, data_files(directory)))).to_batches())


def _sizes(table: Table, versions: tuple[int, ...]) -> Iterator[dict[str, int]]:
    """Yield what versions added: numbers of rows and of bytes."""
    from mutator.dataset.file_entry import DATA
    from mutator.dataset.versions.log import TableLog

    log = TableLog(table.path)
    entries = {entry.version: entry for entry in table.log()}
    for number in versions:
        version = log.read(number)
        data = [file for file in version.files if file.role == DATA]
        tombstones = [file for file in version.files if file.role != DATA]
        yield {
            "version": number,
            "mutations": version.counts.get("feed rows", 0),
            "rows": sum(file.rows for file in data),
            "data": sum(file.bytes for file in data),
            "key index": sum(file.keys.bytes for file in data),
            "tombstones": sum(file.rows for file in tombstones),
            "tombstone bytes": sum(file.bytes + file.keys.bytes for file in tombstones),
            "hidden rows": entries[number].rows_hidden,
            "version index": sum(stored.bytes for stored in version.index),
            "log entry": Path(log.entry_path(number)).stat().st_size,
        }


def _checkpoint(table: Table) -> dict[str, int]:
    """Return the version of the newest checkpoint, its live files and hidden rows, and its bytes."""
    from mutator.dataset.versions.log import TableLog

    log = TableLog(table.path)
    (number, name), *_ = ((number, name) for number, name in log.checkpoints() if ".masks." not in name)
    snapshot = table.at(number)
    directory = Path(log.path) / "checkpoints"
    return {
        "version": number,
        "files": snapshot.files.num_rows,
        "hidden rows": sum(len(snapshot.masks.hidden(path)) for path, *_ in snapshot.mask_rows()),
        "bytes": (directory / name).stat().st_size,
        "mask bytes": sum(path.stat().st_size for path in directory.glob(f"{number:020d}-*.masks.parquet")),
    }
