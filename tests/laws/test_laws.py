"""The laws of DESIGN 3.4, and engine == reference model, on small random masters and feeds.

Values come from short lists, so that ties, late rows, deletes, re-inserts and repeated rows are the rule.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PythonException

import mutator
from mutator.dataset import checksum
from mutator.dataset.side_columns import read_sequences, read_tombstones
from mutator.errors import DataError, StateError
from mutator.rules import key_hash
from mutator.rules.key_hash import bucket_of
from mutator.rules.order_values import precedence
from mutator.rules.outcome import FEED_OUTCOMES, MASTER_OUTCOMES
from tests.support import local_engine, model
from tests.support.model import Key, Row

SHM = "/dev/shm" if os.path.isdir("/dev/shm") else None

# Order values from low to high: first as a tombstone has them, then the other ways to write the same value. As text,
# or as a float, many of them would compare otherwise.
ORDERS: dict[str, list[tuple[bytes, ...]]] = {
    "long": [(b"-7", b"-07"), (b"0", b"-0"), (b"9", b"+9"), (b"10",), (b"9007199254740992",), (b"9007199254740993",)],
    "decimal": [(b"-1.5", b"-1.50"), (b"0", b"0.0", b"-0"), (b"0.25", b".25", b"25e-2"), (b"9",), (b"10", b"1e1")],
    "timestamp": [
        (b"1969-12-31T23:59:59Z",),
        (b"2026-01-31T10:00:00Z", b"2026-01-31 10:00", b"2026-01-31T12:00:00.000+02:00"),
        (b"2026-01-31T10:00:00.05Z",),
        (b"2026-01-31T10:00:00.1Z", b"2026-01-31T10:00:00.100"),
        (b"2026-01-31T11:00:00Z", b"2026-01-31T09:00:00-02:00", b"20260131T110000Z"),
    ],
    "string": [(b"",), (b"10",), (b"9",), (b"Z",), (b"\xc3\xa9",), (b"\xff",)],
}
BY_NAME = "file name"
FIRST_IDS = [b"", b"a", b"b", b"\xff", b"\xc3\xa9"]
SECOND_IDS = [b"", b"a"]
# The base names compare as bytes: 0xFF comes after U+E000, and Python's own order of the two names is the other one.
STEMS = ["u", "v", "\ue000", "\udcff"]
SEQUENCES = ["2", "02", "10", "1"]

BOM = b"\xef\xbb\xbf"
ENGINES = ["records", "blocks"]
PARTITIONS = [1, 2, 7, 64]


# -- worlds: what a master and a feed can look like


@dataclass(frozen=True)
class RowPlan:
    """How rows are laid out, and what a delete is."""

    columns: tuple[str, ...]  # of a feed row
    key: tuple[str, ...]
    order: str  # one of ORDERS, or BY_NAME
    deletes: str  # "op code", "delete file" or "none"
    keeps_op: bool
    master_has_op: bool
    field_count: str
    header: bool = False  # every file but those of the program's own begins with a line that is no row

    @property
    def written(self) -> tuple[str, ...]:
        """Columns of a row as it is written."""
        return tuple(name for name in self.columns if name != "op" or self.keeps_op)

    def settings(self) -> dict[str, str]:
        place = self.columns.index
        made = {
            "id.field.ordinals": ",".join(str(place(name)) for name in self.key),
            "field.count": self.field_count,
            "max.delete.fraction": "1",
        }
        if self.header:
            made["header.lines"] = "1"
        if self.order != BY_NAME:
            made["temporal.ordering.field.ordinal"] = str(place("order"))
            made["temporal.ordering.field.type"] = self.order
        if self.deletes == "op code":
            made["op.code.field.ordinal"] = str(place("op"))
            made["deleted.op.code"] = "D,X"
            made["op.code.keep"] = str(self.keeps_op).lower()
            made["op.code.in.master"] = str(self.master_has_op).lower()
        elif self.deletes == "delete file":
            made["deleted.record.file.prefix"] = "del"
        return made


@dataclass(frozen=True)
class Line:
    """One line of a file; a key of None stands for a line that is no record."""

    raw: bytes
    key: Key | None = None
    order: int = -1  # place in ORDERS, where order comes from a field
    is_delete: bool = False
    written: bytes = b""


@dataclass(frozen=True)
class File:
    """One file of the master or of the feed; ``place`` is the number of its directory."""

    place: int
    name: str
    sequence: int
    lines: tuple[Line, ...]
    line_end: bytes = b"\n"
    last_end: bool = True  # the last line has its line end
    before: bytes = b""  # a byte order mark, a header

    def content(self) -> bytes:
        data = self.before + b"".join(line.raw + self.line_end for line in self.lines)
        if not self.last_end and self.lines and self.lines[-1].raw:
            data = data.removesuffix(self.line_end)
        return gzip.compress(data, mtime=0) if self.name.endswith(".gz") else data

    def rows(self, shape: RowPlan) -> Iterator[Row]:
        """Yield the records as the model takes them."""
        offset = len(self.before)
        for line in self.lines:
            if line.key is not None:
                order = self.sequence if shape.order == BY_NAME else line.order
                name = os.fsencode(self.name)
                yield Row(line.key, order, self.sequence, name, offset, line.raw, line.is_delete, line.written)
            offset += len(line.raw) + len(self.line_end)


@dataclass(frozen=True)
class World:
    """A master and a feed."""

    shape: RowPlan
    master: tuple[File, ...]
    feed: tuple[File, ...]

    def feed_rows(self) -> list[Row]:
        return [row for file in self.feed for row in file.rows(self.shape)]


def make_shape(rng: random.Random, deletes: str | None = None, bad: bool = False) -> RowPlan:
    deletes = deletes or rng.choice(["op code", "delete file"])
    columns = ["id1", "id2", "order", "value"] + ["op"] * (deletes == "op code")
    rng.shuffle(columns)
    keeps = deletes == "op code" and rng.random() < 0.3
    return RowPlan(
        columns=tuple(columns),
        key=rng.choice([("id1",), ("id1", "id2"), ("id2", "id1")]),
        order=rng.choice([*ORDERS, BY_NAME, BY_NAME]),
        deletes=deletes,
        keeps_op=keeps,
        master_has_op=deletes == "op code" and (keeps or rng.random() < 0.5),
        # Only a fixed width tells what is a reject.
        field_count=str(len(columns)) if bad else rng.choice([str(len(columns)), "any"]),
        header=rng.random() < 0.15,
    )


def make_line(rng: random.Random, shape: RowPlan, is_delete: bool, *, of_master: bool, full_row: bool = True) -> Line:
    order = rng.randrange(len(ORDERS[shape.order])) if shape.order != BY_NAME else -1
    code = rng.choice([b"D", b"X"] if is_delete else [b"U", b"I", b""])
    cells = {
        "id1": rng.choice(FIRST_IDS),
        "id2": rng.choice(SECOND_IDS),
        "order": rng.choice(ORDERS[shape.order][order]) if shape.order != BY_NAME else b"",
        "value": rng.choice([b"x", b"y"]),
        "op": code,
    }
    key = tuple(cells[name] for name in shape.key)
    if not full_row:
        row = b",".join(key)
        return Line(row, key, order, True, row) if row else Line(b"")  # nothing but an empty ID is a blank line
    has_op = shape.master_has_op if of_master else True
    raw = b",".join(cells[name] for name in shape.columns if name != "op" or has_op)
    return Line(raw, key, order, is_delete, b",".join(cells[name] for name in shape.written))


def make_file(rng: random.Random, shape: RowPlan, *, of_master: bool, bad: bool, most: int, places: int) -> File:
    number = rng.choice(SEQUENCES)
    named = (shape.order == BY_NAME and not of_master) or rng.random() < 0.6
    in_delete_file = shape.deletes == "delete file" and rng.random() < 0.4
    stem = ("del" if in_delete_file else "") + rng.choice(STEMS)
    lines = []
    for _ in range(rng.randint(0, most)):
        is_delete = not of_master and (in_delete_file or (shape.deletes == "op code" and rng.random() < 0.4))
        # Where order comes from file names, a row of a delete file may be an ID and nothing else.
        full_row = not (is_delete and in_delete_file and shape.order == BY_NAME and rng.random() < 0.5)
        lines.append(make_line(rng, shape, is_delete, of_master=of_master, full_row=full_row))
        if rng.random() < 0.15:
            lines.append(rng.choice(lines))  # the same row twice
        if rng.random() < 0.1:
            lines.append(Line(b""))
        if bad and rng.random() < 0.2:
            lines.append(Line(b"," * 9))
    line_end = rng.choice([b"\n", b"\n", b"\r\n", b"\r"])
    before = (BOM if rng.random() < 0.1 and lines else b"") + (b"id,and,so,on" + line_end if shape.header else b"")
    return File(
        place=rng.randrange(places),
        name=stem + (f"_{number}" if named else "") + rng.choice([".txt", ".txt", ".txt.gz"]),
        sequence=int(number) if named else -1,
        lines=tuple(lines),
        line_end=line_end,
        last_end=rng.random() < 0.8,
        before=before,
    )


def make_files(rng: random.Random, shape: RowPlan, count: int, **options: Any) -> tuple[File, ...]:
    made = [make_file(rng, shape, **options) for _ in range(count)]
    return tuple({(file.place, file.name): file for file in made}.values())


def make_world(rng: random.Random, *, deletes: str | None = None, bad: bool = False, most: int = 4) -> World:
    shape = make_shape(rng, deletes, bad)
    return World(
        shape,
        make_files(rng, shape, rng.randint(0, 3), of_master=True, bad=bad, most=most, places=1),
        make_files(rng, shape, rng.randint(1, 4), of_master=False, bad=bad, most=most, places=2),
    )


def worlds(**options: Any) -> st.SearchStrategy[World]:
    return st.randoms(use_true_random=False).map(lambda rng: make_world(rng, **options))


# -- runs


@dataclass(frozen=True)
class Dataset:
    """A directory that the engine wrote, read back, and what the run told of it."""

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
        """Return the tombstones without their commit times, which are the run's and not the data's."""
        return {key: order for key, (order, _) in self.tombstones.items()}


@contextmanager
def scratch() -> Iterator[Path]:
    with TemporaryDirectory(dir=SHM) as directory:
        yield Path(directory)


def make_speed(rng: random.Random, *, partitions: Sequence[int] = (1, 1, 2, 2, 2, 4, 4, 7, 7, 64)) -> dict[str, Any]:
    """Draw settings that may not change a result: each run of a chain has its own."""
    return {
        "engine": rng.choice([*ENGINES, "blocks"]),
        "num_reducer": rng.choice(partitions),
        "split_bytes": rng.choice([1, 7, 64, 1 << 20]),
        # So little that the feed is done in parts, or what is usual.
        "memory_bytes": rng.choice([1, 40, 200] + [128 << 20] * 9),
    }


@contextmanager
def few_hashes(number: int) -> Iterator[None]:
    """Give all keys together only so many hashes, so that nothing but the keys themselves tells them apart."""

    def few(hashes: Any) -> Any:
        # Spread over the 64 bits: the highest of them say which part of a feed a key is in.
        return hashes % np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)

    def few_of_columns(columns: Any) -> Any:
        return few(key_hash.hash_columns(columns))

    def few_of_key(key: Key, buckets: int) -> int:
        return int(few(np.array([key_hash.hash_key(key)], np.uint64))[0]) % buckets

    with (
        patch("mutator.formats.blocks.text_rows.hash_columns", few_of_columns),
        patch("mutator.engine.blocks.read.hash_columns", few_of_columns),
        patch("mutator.engine.records.read.bucket_of", few_of_key),
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
            # The names of feed files come again in these tests, and so may their content.
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
        return made


def local(config: dict[str, str], **options: Any) -> mutator.Report:
    return local_engine.mutate(config, **options)


def read_back(shape: RowPlan, path: str, report: mutator.Report) -> Dataset:
    """Read a directory by its manifest, without the program's own reader of rows."""
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
            order = sequences[number] if shape.order == BY_NAME else place_of(shape, cells["order"])
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
            found += read_sequences(stream, number).tolist()
    assert len(found) == part["rows"]
    if max(found) >= 0:
        assert part["path"].endswith(f"_{max(found)}.txt"), "the name ends in the highest sequence of the rows in it"
    return found


def place_of(shape: RowPlan, text: bytes) -> int:
    return next(place for place, texts in enumerate(ORDERS[shape.order]) if text in texts)


def canonical_place(shape: RowPlan, text: bytes | None) -> int:
    """Return an order value of a tombstone as the model has it."""
    if shape.order == BY_NAME:
        return -1 if text is None else int(text)
    return [texts[0] for texts in ORDERS[shape.order]].index(text)


def check_accounting(counts: dict[str, int], made: Dataset) -> None:
    """Check the sums of 3.3, and the counts against what is on disk."""
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


# -- the engine against the model


def expected_buckets(master: list[Row], merged: model.Merged, buckets: int | None) -> dict[int | None, list[bytes]]:
    """Lay out the model's records: survivors by (file name, position), updated ones in place, inserted ones by key."""
    held = model.last(master)
    files: dict[int | None, list[bytes]] = {}
    places = {key: (0, held[key].name, held[key].offset) if key in held else (1, key) for key in merged.records}
    for key in sorted(places, key=lambda key: places[key]):
        files.setdefault(buckets and bucket_of(key, buckets), []).append(merged.records[key][1])
    return files


def compare(made: Dataset, master: list[Row], merged: model.Merged, buckets: int | None) -> None:
    assert made.records == merged.records
    assert made.tombstones == merged.tombstones
    counted = {name: made.counts[name] for name in made.counts if not name.endswith((" rows", " ignored", " rejected"))}
    assert counted == {name: merged.counts[name] for name in counted}
    assert set(merged.counts) - set(counted) == {"output rows"}
    shown = {
        note: [",".join(value.decode("utf-8", "backslashreplace") for value in key) for key in keys[:5]]
        for note, keys in merged.notes.items()
    }
    assert made.samples == shown
    assert made.buckets == expected_buckets(master, merged, buckets)


def horizon_text(shape: RowPlan, horizon: int | None) -> str | None:
    if horizon is None or horizon < 0:
        return None
    return str(horizon) if shape.order == BY_NAME else os.fsdecode(ORDERS[shape.order][horizon][0])


def engine_is_model(rng: random.Random, *, full: bool = False, engine: Callable[..., mutator.Report] = local) -> None:
    """Run several feeds, each into what the run before left, with retention; compare everything after each run."""
    bad = not full and rng.random() < 0.3
    world = make_world(rng, deletes="none" if full else None, bad=bad)
    shape = world.shape
    with scratch() as work:
        run = Runs(work, shape, engine)
        path, horizon = run.master(world.master), None
        rows = [row for file in world.master for row in file.rows(shape)]
        tombstones: dict[Key, tuple[int, int]] = {}
        retention = rng.choice([None, 0, 1, 2])
        for number in range(rng.randint(1, 4)):
            feed = world.feed
            if number:
                feed = make_files(rng, shape, rng.randint(1, 3), of_master=False, bad=bad, most=3, places=2)
            if full:
                feed = tuple(file for file in feed if file.sequence == feed[0].sequence)
            run.now += rng.choice([0, 500, 1000, 2500])
            options = make_speed(rng)
            if len(model.last(rows)) == len(rows):
                options["master_unique"] = rng.choice(["true", "false"])
            if retention is not None:
                options["tombstone_retention"] = f"{retention}s"
            if full:
                options |= {"sync_mode": "full", "allow_older_snapshot": "true"}
                if not any(file.sequence >= -1 and list(file.rows(shape)) for file in feed):
                    with pytest.raises(DataError, match="needs a complete snapshot"):
                        run(path, feed, **options)
                    return
            made = run(path, feed, seed=rng.randrange(99), **options)
            merged = model.merge(
                rows,
                tombstones,
                [row for file in feed for row in file.rows(shape)],
                now=run.now,
                full=full,
                expire_before=None if retention is None else run.now - retention * 1000,
                horizon=horizon,
            )
            compare(made, rows, merged, None if made.report.join == "broadcast" else options["num_reducer"])
            horizon = merged.horizon
            assert made.horizon == horizon_text(shape, horizon)
            path, rows, tombstones = made.path, made.rows, made.tombstones


@given(st.randoms(use_true_random=False))
@settings(max_examples=250)
def test_engine_is_the_model(rng):
    engine_is_model(rng)


@given(st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_engine_is_the_model_for_full_snapshots(rng):
    engine_is_model(rng, full=True)


@given(st.randoms(use_true_random=False), st.sampled_from([1, 2, 5]))
@settings(max_examples=100)
def test_engine_is_the_model_where_keys_share_their_hashes(rng, number):
    with few_hashes(number):
        engine_is_model(rng, full=rng.random() < 0.2)


# -- laws


@given(worlds(), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_winner_is_the_same_for_every_order_and_grouping_of_the_bag(world, rng):
    def winner(rows: Sequence[Row]) -> Row:
        return max(rows, key=lambda row: precedence(row.order, row.sequence, row.name, row.offset, row.row))

    bag = world.feed_rows()
    if not bag:
        return
    # as a fold over any tree of groups
    rng.shuffle(bag)
    groups = [bag[start : start + 3] for start in range(0, len(bag), 3)]
    assert reduce(lambda one, other: winner([other, one]), map(winner, groups)) == winner(bag)

    # and in the engine: whatever arrives first, and in whatever order the directories are named
    with scratch() as work:
        run = Runs(work, world.shape)
        master = run.master(world.master)
        first = run(master, world.feed, seed=1, **make_speed(rng, partitions=[2]))
        other = run(master, world.feed, -1, seed=rng.randrange(2, 99), **make_speed(rng, partitions=[2]))
    assert other.buckets == first.buckets
    assert other.tombstones == first.tombstones
    assert (other.counts, other.samples) == (first.counts, first.samples)


@given(worlds(bad=True), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_1_2_7_and_64_partitions_give_the_same(world, rng):
    with scratch() as work:
        run = Runs(work, world.shape)
        master = run.master(world.master)
        one, *others = (run(master, world.feed, **make_speed(rng, partitions=[n])) for n in PARTITIONS)
    for other in others:
        assert sorted(row.row for row in other.rows) == sorted(row.row for row in one.rows)
        assert other.records == one.records
        assert other.tombstones == one.tombstones
        assert (other.counts, other.samples) == (one.counts, one.samples)


@given(worlds(bad=True), st.integers(1, 64), st.integers(1, 64), st.sampled_from(ENGINES), st.sampled_from(ENGINES))
@settings(max_examples=100)
def test_splits_of_any_size_give_the_same_bytes(world, size, of_master, engine, other):
    with scratch() as work:
        run = Runs(work, world.shape)
        # The master is a managed one, which is read by the chunks that it was written with.
        first = run(run.master(world.master), (), num_reducer=2, split_bytes=of_master, engine=other)
        one = run(first.path, world.feed, num_reducer=2, engine=other)
        many = run(first.path, world.feed, num_reducer=2, split_bytes=size, engine=engine)
    assert many.buckets == one.buckets
    assert many.records == one.records
    assert many.tombstones == one.tombstones
    assert (many.counts, many.samples) == (one.counts, one.samples)


@given(worlds(bad=True), st.sampled_from([0, 2000]), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_same_feed_again_changes_nothing(world, later, rng):
    with scratch() as work:
        run = Runs(work, world.shape)
        first = run(run.master(world.master), world.feed, **make_speed(rng, partitions=[2]))
        run.now += later
        again = run(first.path, world.feed, **make_speed(rng, partitions=[2]))
        skipped = run(first.path, world.feed, consumed_files="skip", **make_speed(rng, partitions=[2]))
    for other in (again, skipped):
        assert other.buckets == first.buckets
        assert other.records == first.records
        assert other.tombstones == first.tombstones  # with their commit times: a delete heard twice is no younger one
    changes = set(FEED_OUTCOMES) - {"no-op", "late", "superseded", "rejected"}
    assert {name: again.counts[f"feed {name}"] for name in changes} == dict.fromkeys(changes, 0)
    assert skipped.counts["feed rows"] == 0


Cut = list[tuple[File, ...]]


RUNS = 3


def cut(feed: Sequence[File], run_of: dict[tuple[int, int], int]) -> Cut:
    """Part the lines of a feed into runs; a file keeps its name in each. run_of: numbers of file and line -> run."""
    made = []
    for run in range(RUNS):
        parts = (
            replace(file, lines=tuple(line for place, line in enumerate(file.lines) if run_of[number, place] == run))
            for number, file in enumerate(feed)
        )
        made.append(tuple(part for part in parts if part.lines))
    return made


def cut_anyhow(feed: Sequence[File], rng: random.Random) -> Cut:
    run_of = {
        (number, place): rng.randrange(RUNS) for number, file in enumerate(feed) for place in range(len(file.lines))
    }
    return cut(feed, run_of)


def cut_in_order(feed: Sequence[File], rng: random.Random) -> Cut:
    """Cut so that the runs follow (sequence, name, position)."""
    order = []
    for number, file in enumerate(feed):
        offset = len(file.before)
        for place, line in enumerate(file.lines):
            # Two files of one name have lines at the same position: their bytes decide, as in one run.
            order.append(((file.sequence, os.fsencode(file.name), offset, line.raw), (number, place)))
            offset += len(line.raw) + len(file.line_end)
    borders = [rng.randint(0, len(order)) for _ in range(RUNS - 1)]
    return cut(feed, {where: sum(at >= border for border in borders) for at, (_, where) in enumerate(sorted(order))})


def without_rivals(world: World) -> World:
    """Leave out mutations until no two different ones of a key share an order value."""
    seen: dict[tuple[Key, int], tuple[bool, bytes]] = {}
    feed = []
    for file in world.feed:
        lines = []
        for line in file.lines:
            order = file.sequence if world.shape.order == BY_NAME else line.order
            content = (line.is_delete, line.written)
            if line.key is None or seen.setdefault((line.key, order), content) == content:
                lines.append(line)
        feed.append(replace(file, lines=tuple(lines)))
    return replace(world, feed=tuple(feed))


def check_cut(world: World, parts: Cut, rng: random.Random) -> None:
    with scratch() as work:
        run = Runs(work, world.shape)
        start = run.master(world.master)
        at_once = run(start, world.feed, num_reducer=2, engine=rng.choice(ENGINES))
        path = start
        for part in parts:
            run.now += 1000
            made = run(path, part, **make_speed(rng))
            path = made.path
    assert made.records == at_once.records
    assert made.deletes() == at_once.deletes()


@given(worlds().map(without_rivals), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_any_cut_into_runs_gives_the_same_where_no_two_mutations_share_an_order_value(world, rng):
    check_cut(world, cut_anyhow(world.feed, rng), rng)


@given(worlds(), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_any_cut_into_runs_gives_the_same_where_the_runs_follow_sequence_name_position(world, rng):
    check_cut(world, cut_in_order(world.feed, rng), rng)


def check_retention(rng: random.Random) -> bool:
    """Run the same feeds with retention and without; return whether anything expired in vain."""
    world = make_world(rng)
    shape = replace(world.shape, key=("id2",))  # two keys, so that they are deleted and inserted often
    world = replace(world, shape=shape)
    with scratch() as work:
        run = Runs(work, shape)
        short = long = run.master(make_files(rng, shape, 1, of_master=True, bad=False, most=2, places=1))
        expired = False
        for _ in range(rng.randint(2, 7)):
            feed = make_files(rng, shape, 1, of_master=False, bad=False, most=2, places=1)
            kept = run(long, feed, **make_speed(rng, partitions=[1, 2]))
            made = run(short, feed, tombstone_retention="1s", **make_speed(rng, partitions=[1, 2]))
            if made.counts["below horizon"]:
                return False  # the promise ends with the note
            assert made.records == kept.records
            expired = expired or made.counts["expired"] > 0
            short, long = made.path, kept.path
            run.now += rng.choice([0, 3000])
    return expired


@given(st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_retention_changes_nothing_as_long_as_no_insert_is_noted_below_the_horizon(rng):
    check_retention(rng)


@pytest.mark.parametrize("engine", ENGINES)
def test_insert_below_the_horizon_is_noted_also_where_a_younger_tombstone_is_forgotten(tmp_path, engine):
    """Without retention the delete at 10 would win; the delete of unknown at 0 must not hide that."""
    shape = RowPlan(("id1", "order", "value"), ("id1",), "long", "delete file", False, False, "3")

    def feed(name: str, order: int) -> list[File]:
        raw = b"a,%s,x" % ORDERS["long"][order][0]
        return [File(0, name, -1, (Line(raw, (b"a",), order, name.startswith("del"), raw),))]

    run = Runs(tmp_path, shape)
    made = run(run.master(()), feed("del.txt", 3), tombstone_retention="1s", engine=engine)
    run.now += 2000
    made = run(made.path, (), tombstone_retention="1s", engine=engine)
    assert (made.horizon, made.deletes()) == ("10", {})
    made = run(made.path, feed("del.txt", 1), tombstone_retention="1s", engine=engine)
    assert made.deletes() == {(b"a",): 1}
    with pytest.raises(DataError, match="older than 10"):
        run(made.path, feed("u.txt", 2), tombstone_retention="1s", engine=engine, before_horizon="fail")
    made = run(made.path, feed("u.txt", 2), tombstone_retention="1s", engine=engine)
    assert (made.counts["revived"], made.counts["below horizon"]) == (1, 1)


def make_snapshots(rng: random.Random) -> tuple[RowPlan, list[tuple[File, ...]]]:
    """Make snapshots in order: a key never comes again with a lower order value than it had before."""
    shape = replace(make_shape(rng, "none"), header=False)
    snapshots = []
    lowest: Counter[Key] = Counter()
    sequence = 0
    for _ in range(rng.randint(1, 4)):
        sequence += rng.choice([0, 1, 9])
        files = []
        seen: Counter[Key] = Counter()
        for number in range(rng.randint(1, 2)):
            lines = [make_line(rng, shape, False, of_master=False) for _ in range(rng.randint(1, 6))]
            lines = [line for line in lines if line.order >= lowest[line.key]] if shape.order != BY_NAME else lines
            for line in lines:
                seen[line.key] = max(seen[line.key], line.order)
            files.append(File(0, f"s{number}_{sequence}.txt", sequence, tuple(lines)))
        if any(file.lines for file in files):
            snapshots.append(tuple(files))
            for key, order in seen.items():
                lowest[key] = max(lowest[key], order)
    return shape, snapshots


@given(st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_full_snapshots_in_order_give_the_last_snapshot(rng):
    shape, snapshots = make_snapshots(rng)
    with scratch() as work:
        run = Runs(work, shape)
        path = run.master(())
        keys: set[Key] = set()
        for snapshot in snapshots:
            # The order value of a whole snapshot may fall although no key's does: what was highest is gone.
            made = run(path, snapshot, sync_mode="full", allow_older_snapshot="true", **make_speed(rng))
            winners = model.last([row for file in snapshot for row in file.rows(shape)])
            assert made.records == {key: (row.order, row.written) for key, row in winners.items()}
            keys |= winners.keys()
            assert made.tombstones.keys() == keys - winners.keys()
            path = made.path


@pytest.mark.parametrize("engine", ENGINES)
def test_snapshot_older_than_the_last_one_is_refused(tmp_path, engine):
    """Compared are the highest order values; equal ones are the same snapshot again."""
    shape = RowPlan(("id1", "order", "value"), ("id1",), "long", "none", False, False, "3")

    def snapshot(*orders: int) -> list[File]:
        rows = [b"%d,%s,x" % (number, ORDERS["long"][order][0]) for number, order in enumerate(orders)]
        return [File(0, "s.txt", -1, tuple(Line(row, (row[:1],), 0, False, row) for row in rows))]

    run = Runs(tmp_path, shape)
    first = run(run.master(()), snapshot(0, 3), sync_mode="full", engine=engine)
    again = run(first.path, snapshot(1, 3), sync_mode="full", engine=engine)
    assert [row.row for row in sorted(again.rows)] == [b"0,0,x", b"1,10,x"]
    with pytest.raises(StateError, match="highest order value is 9, and the master has already had one with 10"):
        run(again.path, snapshot(1, 2), sync_mode="full", engine=engine)


@given(worlds(bad=True), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_every_row_is_accounted_for(world, rng):
    """The sums of 3.3 are checked after every run of this module; here also that no row is missing from both sides."""
    with scratch() as work:
        run = Runs(work, world.shape)
        made = run(run.master(world.master), world.feed, **make_speed(rng))
        lines = {"feed": world.feed, "master": world.master}
        for side, files in lines.items():
            all_lines = [line for file in files for line in file.lines]
            rejected = [line for line in all_lines if line.raw and line.key is None]
            assert made.counts[f"{side} rows"] == sum(line.raw != b"" for line in all_lines)
            headers = len(files) if world.shape.header else 0
            assert made.counts[f"{side} ignored"] == headers + sum(line.raw == b"" for line in all_lines)
            assert made.counts[f"{side} rejected"] == len(rejected)
    names = {f"feed {name}" for name in FEED_OUTCOMES} | {f"master {name}" for name in MASTER_OUTCOMES}
    assert names <= made.counts.keys()


@pytest.mark.parametrize("memory", [30, 1 << 20])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_a_file_survivors_in_place_then_the_inserted_by_key(tmp_path, engine, memory):
    shape = RowPlan(("id1", "value", "order"), ("id1",), "long", "delete file", False, False, "3")

    def file(name: str, *rows: bytes) -> File:
        lines = (Line(row, (row.split(b",")[0],), 0, name.startswith("del"), row) for row in rows)
        return File(0, name, -1, tuple(lines))

    run = Runs(tmp_path, shape)
    master = run.master(
        [
            # "b" comes after "a" as a name, not as it was listed or written; "z" is a duplicate of an older version
            file("b.txt", b"z,old,0", b"c,old,0", b"\xff,old,0"),
            file("a.txt", b"m,old,0", b"z,older,-7", b"k,old,0", b"d,old,0"),
        ]
    )
    feed = [
        file("u.txt", b"y,new,9", b"c,new,9", b"m,old,0", b"e,new,9", b",new,9", b"\xff\xff,new,9"),
        file("del.txt", b"k,,9"),
    ]
    made = run(master, feed, num_reducer=1, engine=engine, memory_bytes=memory)

    assert made.buckets[0] == [
        b"m,old,0",  # a.txt: an equal upsert leaves the row where it is
        b"d,old,0",  # k is deleted
        b"z,old,0",  # b.txt: the duplicate that survives keeps its own place
        b"c,new,9",  # updated in place
        b"\xff,old,0",
        b",new,9",  # inserted: by key, byte by byte
        b"e,new,9",
        b"y,new,9",
        b"\xff\xff,new,9",
    ]


# -- the same at length


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_soak_engine_is_the_model(seed):
    rng = random.Random(seed)
    for _ in range(500):
        engine_is_model(rng, full=rng.random() < 0.2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_soak_cuts_and_retention(seed):
    rng = random.Random(seed)
    in_vain = 0
    for _ in range(300):
        in_vain += check_retention(rng)
        world = without_rivals(make_world(rng, most=6))
        check_cut(world, cut_anyhow(world.feed, rng), rng)
        world = make_world(rng, most=6)
        check_cut(world, cut_in_order(world.feed, rng), rng)
    assert in_vain > 10, "the law of retention says nothing where nothing expires"


# -- on Spark


def same_on_spark(sc: SparkContext, seed: int, reducers: int, engine: str) -> None:
    """Merge on Spark by one engine and here by the other one."""

    def spark(config: dict[str, str], **options: Any) -> mutator.Report:
        return mutator.mutate(sc, config, **options)

    rng = random.Random(seed)
    world = make_world(rng, bad=True, most=30)
    feeds = [world.feed, make_files(rng, world.shape, 4, of_master=False, bad=False, most=30, places=2)]
    with scratch() as work:
        made = []
        for name, where, by in (("spark", spark, engine), ("local", local, ENGINES[engine == "records"])):
            (work / name).mkdir()
            run = Runs(work / name, world.shape, where)
            run.now = 1_800_000_000_000
            options = {"num_reducer": reducers, "split_bytes": 200, "engine": by}
            first = run(run.master(world.master), feeds[0], **options)
            run.now += 3000
            made.append((first, run(first.path, feeds[1], tombstone_retention="1s", **options)))
    for one, other in zip(*made, strict=True):
        assert one.report.tasks >= 2, "one map task hides what more of them show"
        assert len(one.records) > 1
        assert one.buckets == other.buckets
        assert one.tombstones == other.tombstones
        assert one.records == other.records
        assert (one.counts, one.samples, one.horizon) == (other.counts, other.samples, other.horizon)


@pytest.mark.parametrize(
    ("seed", "reducers", "engine"), [(1, 2, "blocks"), (2, 7, "blocks"), (3, 7, "records"), (6, 2, "blocks")]
)
def test_spark_writes_the_same_bytes(sc, seed, reducers, engine):
    same_on_spark(sc, seed, reducers, engine)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_soak_spark_writes_the_same_bytes(sc, seed):
    same_on_spark(sc, seed, 2 + seed % 6, ENGINES[seed % 2])


Mutation = tuple[Any, Any, str]  # key, precedence, what it says

KEYS: dict[str, list[Any]] = {
    "text": ["", "a", "b", "\u00e9", "\U00010000", "\ue000"],
    "integers": [0, -1, -2, 7, 2**61 - 1, 2**64],
    "tuples": [("a", 1), ("a", 2), ("b", 0), ("", 0)],
    # Equal keys are one key, whatever their type.
    "numbers": [1, 1.0, True, Decimal(1), 0, False, -0.0, 0.5, Decimal("0.5")],
    "dates": [date(2026, 1, 31), date(1969, 12, 31)],
}


# Not functions of this module, which the workers cannot import.
FIRST, SECOND = itemgetter(0), itemgetter(1)


def last_of_each(mutations: list[Mutation], is_delete: Callable[[Mutation], bool]) -> dict[Any, Mutation]:
    found: dict[Any, Mutation] = {}
    for mutation in mutations:
        rank = (mutation[1], repr(mutation))
        if mutation[0] not in found or rank > (found[mutation[0]][1], repr(found[mutation[0]])):
            found[mutation[0]] = mutation
    return {key: mutation for key, mutation in found.items() if not is_delete(mutation)}


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS.keys())
def test_last_mutations_are_those_of_a_dict(sc, keys, partitions):
    rng = random.Random(partitions)
    # Few precedences, so that repr() decides often.
    mutations = [(rng.choice(keys), rng.randrange(4), rng.choice("xyzD")) for _ in range(60)]
    expected = last_of_each(mutations, lambda m: m[2] == "D")

    made = mutator.last_mutations(
        sc.parallelize(mutations, 3),
        FIRST,
        SECOND,
        is_delete=lambda m: m[2] == "D",
        partitions=partitions,
    )
    parts = made.glom().collect()

    assert len(parts) == partitions
    assert sorted(map(repr, (m for part in parts for m in part))) == sorted(map(repr, expected.values()))
    for part in parts:
        assert [m[0] for m in part] == sorted(m[0] for m in part)


def test_last_mutations_without_deletes_and_in_as_many_partitions_as_there_are(sc):
    made = mutator.last_mutations(sc.parallelize([("a", 1, "x"), ("b", 1, "D"), ("a", 0, "y")], 2), FIRST, SECOND)

    assert made.getNumPartitions() == 2
    assert sorted(made.collect()) == [("a", 1, "x"), ("b", 1, "D")]


def test_last_mutations_refuses_a_key_that_it_cannot_hash_alike_everywhere(sc):
    mutations = sc.parallelize([(frozenset("a"), 1, "x")], 2)

    # Spark 3.5 raises the exception of the JVM, Spark 4 one of its own.
    with pytest.raises((Py4JJavaError, PythonException), match="a key of type frozenset has no canonical bytes"):
        mutator.last_mutations(mutations, FIRST, SECOND).collect()
