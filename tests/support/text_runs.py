"""Runs over the worlds of ``text_worlds``, whose output is read back without the reader of the package."""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

import mutator
from mutator.dataset import checksum
from mutator.dataset.side_columns import read_sides, read_tombstones
from mutator.rules import key_hash
from mutator.rules.key_hash import bucket_of
from mutator.rules.order_columns import SEQUENCES
from mutator.rules.order_tuples import shown_text
from mutator.rules.order_values import format_order, order_text
from mutator.rules.truth_table import FEED_OUTCOMES
from tests.support import local_engine
from tests.support.model import Key, Row
from tests.support.text_worlds import (
    BY_NAME,
    ORDERS,
    File,
    RowPlan,
    order_of,
)

SHM = "/dev/shm" if os.path.isdir("/dev/shm") else None

ENGINES = ["records", "blocks"]

PARTITIONS = [1, 2, 7, 64]


@dataclass(frozen=True)
class Dataset:
    """An output directory, read back, and the report of its run."""

    path: str
    counts: dict[str, int]
    samples: dict[str, list[str]]
    horizon: str | None
    records: dict[Key, tuple[int, bytes]]
    tombstones: dict[Key, tuple[int, int]]
    rows: list[Row]  # in the order of file name and position
    buckets: dict[int | None, list[bytes]] = field(repr=False)  # rows of each bucket's file (or of all), in their order
    report: mutator.Report = field(repr=False)
    document: dict[str, Any] = field(repr=False)  # the manifest

    def deletes(self) -> dict[Key, int]:
        """Return the tombstones without their commit times, which belong to the run and not to the data."""
        return {key: order for key, (order, _) in self.tombstones.items()}


@contextmanager
def scratch() -> Iterator[Path]:
    with TemporaryDirectory(dir=SHM) as directory:
        yield Path(directory)


def make_speed(rng: random.Random, *, partitions: Sequence[int] = (1, 1, 2, 2, 2, 4, 4, 7, 7, 64)) -> dict[str, Any]:
    """Draw settings that must not change a result; each run of a series has its own."""
    return {
        "engine": rng.choice([*ENGINES, "blocks"]),
        "num_reducer": rng.choice(partitions),
        "split_bytes": rng.choice([1, 7, 64, 1 << 20]),
        # A small value merges the feed in parts; the large one is the default.
        "memory_bytes": rng.choice([1, 40, 200] + [128 << 20] * 9),
    }


@contextmanager
def few_hashes(number: int) -> Iterator[None]:
    """Let all keys together have only this many hashes, so that only the keys themselves differ.

    A test that needs the bucket of a key then calls `text_runs.bucket_of`, which is patched, too.
    """

    def few(hashes: Any) -> Any:
        # Spread over the 64 bits: the highest of them select the part of a feed that a key is in.
        return hashes % np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)

    def few_of_columns(columns: Any) -> Any:
        return few(key_hash.hash_columns(columns))

    def few_of_key(key: Key, buckets: int) -> int:
        return int(few(np.array([key_hash.hash_key(key)], np.uint64))[0]) % buckets

    with (
        patch("mutator.formats.blocks.text_rows.hash_columns", few_of_columns),
        patch("mutator.engine.blocks.read_blocks.hash_columns", few_of_columns),
        patch("mutator.engine.records.read_records.bucket_of", few_of_key),
        patch(f"{__name__}.bucket_of", few_of_key),
    ):
        yield


def put(directory: Path, files: Sequence[File]) -> list[str]:
    """Write files to disk; return their directories."""
    directory.mkdir()
    (directory / "0").mkdir()
    for file in files:
        (directory / str(file.place)).mkdir(exist_ok=True)
        (directory / str(file.place) / file.name).write_bytes(file.content())
    return [str(path) for path in sorted(directory.iterdir())]


class Runs:
    """Runs below one directory, one after the other, at times that the test sets."""

    def __init__(self, work: Path, shape: RowPlan, engine: Callable[..., mutator.Report] = local_engine.mutate) -> None:
        self.work, self.shape, self.engine = work, shape, engine
        self.now = int(time.time()) * 1000
        self._number = 0

    def master(self, files: Sequence[File]) -> str:
        return put(self.work / "master", files)[0]

    def __call__(self, master: str, feed: Sequence[File], order_of_directories: int = 1, **options: Any) -> Dataset:
        """Merge a feed; options are settings with ``_`` for ``.``, the engine, and the local engine's seed."""
        self._number += 1
        places = put(self.work / f"feed-{self._number}", feed)[::order_of_directories]
        of_run = {name: options.pop(name) for name in ("engine", "seed") if name in options}
        given = {name.replace("_", "."): str(value) for name, value in options.items()}
        config = {
            **self.shape.settings(),
            # Names of feed files repeat in these tests, and so may their content.
            "consumed.files": "merge",
            "reject.policy": "fail" if given.get("sync.mode") == "full" else "quarantine",
            "master.reject.policy": "quarantine",
            **given,
        }
        output = str(self.work / f"output-{self._number}")
        clock = SimpleNamespace(time=lambda: self.now / 1000, monotonic=time.monotonic)
        with patch("mutator.pipeline.merge.time", clock):
            report = self.engine(config=config, master=master, feed=places, output=output, **of_run)
        made = read_back(self.shape, output, report)
        check_accounting(report.counts, made)
        check_feed_files(report)
        return made


def local(config: dict[str, str], **options: Any) -> mutator.Report:
    return local_engine.mutate(config, **options)


def read_back(shape: RowPlan, path: str, report: mutator.Report) -> Dataset:
    """Read a directory by its manifest, without the package's own reader of rows."""
    document = json.loads(Path(path, "_mutator", "manifest.json").read_bytes())
    rows: list[Row] = []
    buckets: dict[int | None, list[bytes]] = {}
    for part in sorted(document["files"], key=lambda part: os.fsencode(part["path"])):
        content = Path(path, part["path"]).read_bytes()
        assert content.endswith(b"\n"), "every row has its line end"
        lines = content.split(b"\n")[:-1]
        if document["buckets"] is not None:
            assert part["bucket"] not in buckets, "a bucket has one file"
        buckets.setdefault(part["bucket"], []).extend(lines)
        sequences = sequences_of(path, part) if shape.order == BY_NAME else []
        offset = 0
        for number, line in enumerate(lines):
            cells = dict(zip(shape.written, line.split(b","), strict=True))
            text = b",".join(cells[name] for name in ("order", "rest") if name in cells)
            order = sequences[number] if shape.order == BY_NAME else place_of(shape, text)
            key = tuple(cells[name] for name in shape.key)
            assert part["bucket"] == (document["buckets"] and bucket_of(key, document["buckets"]))
            rows.append(Row(key, order, -1, os.fsencode(part["path"]), offset, line, False, line))
            offset += len(line) + 1
    tombstones = {}
    for part in document["beside"]:
        if part["kind"] == "tombstones":
            with open(Path(path, part["path"]), "rb") as stream:
                found = list(read_tombstones(stream))
            assert [key for key, _, _ in found] == sorted(key for key, _, _ in found)
            for key, order, committed in found:
                assert key not in tombstones
                tombstones[key] = (canonical_place(shape, order), committed)
    records = {row.key: (row.order, row.row) for row in rows}
    assert len(records) == len(rows), "one row a key"
    assert not records.keys() & tombstones.keys(), "a key has a record or a tombstone, never both"
    return Dataset(
        path,
        dict(report.counts),
        dict(report.samples),
        report.horizon,
        records,
        tombstones,
        rows,
        buckets,
        report,
        document,
    )


def sequences_of(path: str, part: dict[str, Any]) -> list[int]:
    """Read the sequences of a data file, chunk by chunk of its checksum."""
    chunk = checksum.chunk_of(part["checksum"]) or part["bytes"]
    found = []
    for number in range(math.ceil(part["bytes"] / chunk)):
        with open(Path(path, part["order"]), "rb") as stream:
            found += read_sides(stream, SEQUENCES, number).field(0).to_pylist()
    assert len(found) == part["rows"]
    if max(found) >= 0:
        assert part["path"].endswith(f"_{max(found)}.txt"), "the name ends in the highest sequence of the rows in it"
    return found


def place_of(shape: RowPlan, text: bytes) -> int:
    return next(place for place, texts in enumerate(ORDERS[shape.order]) if text in texts)


def canonical_place(shape: RowPlan, text: bytes | None) -> int:
    """Return the model's number of a tombstone's order value."""
    if shape.order == BY_NAME:
        return -1 if text is None else int(text)
    return [format_order(shape.order, order_of(shape.order, texts[0])) for texts in ORDERS[shape.order]].index(text)


def check_accounting(counts: dict[str, int], made: Dataset) -> None:
    """Check the sums of DESIGN 3.3, and the counts against the files."""
    n = Counter(counts)
    feed = ["inserted", "updated", "deleted", "no-op", "superseded", "late", "delete of unknown", "rejected"]
    master = ["kept", "replaced", "removed", "deleted by absence", "duplicate", "rejected"]
    assert n["feed rows"] == sum(n[f"feed {name}"] for name in feed)
    assert n["master rows"] == sum(n[f"master {name}"] for name in master)
    assert n["output rows"] == n["master kept"] + n["feed updated"] + n["feed inserted"] == len(made.records)
    assert n["master replaced"] == n["feed updated"]
    assert n["master removed"] == n["feed deleted"]
    buried = n["feed deleted"] + n["master deleted by absence"] + n["feed delete of unknown"]
    assert n["tombstones out"] == n["tombstones in"] + buried - n["revived"] - n["expired"] == len(made.tombstones)


def check_feed_files(report: mutator.Report) -> None:
    """Check that the outcomes by feed file add up to the rows of each file, and to the totals."""
    totals = Counter[str]()
    for file in report.feed_files:
        assert sum(file["outcomes"].values()) == file["rows"]
        assert file["outcomes"]["rejected"] == file["rejected"]
        totals.update(file["outcomes"])
    assert all(report.counts[f"feed {name}"] == totals[name] for name in FEED_OUTCOMES)


def outcomes_by_file(report: mutator.Report) -> Counter[tuple[bytes, str]]:
    """Return the rows of each base name of a feed file and outcome, but for rejected rows."""
    found = Counter[tuple[bytes, str]]()
    for file in report.feed_files:
        name = os.fsencode(os.path.basename(file["path"]))
        found.update({(name, outcome): rows for outcome, rows in file["outcomes"].items() if outcome != "rejected"})
    return +found


def horizon_text(shape: RowPlan, horizon: int | None) -> str | None:
    if horizon is None:
        return None
    if horizon < 0:
        return ""
    if shape.order == BY_NAME:
        return str(horizon)
    return shown_text(shape.order, order_text(shape.order, order_of(shape.order, ORDERS[shape.order][horizon][0])))
