"""The merge does not depend on the file format: all formats give the same records and outcomes.

Delimited text equals the reference model (``test_model``), so the others do, too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset import manifest
from mutator.dataset.side_columns import read_tombstones
from mutator.formats.content import Window
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.values.convert import converted
from mutator.rules.known_formats import FORMATS
from mutator.rules.typed_values import comparable
from tests.support import local_engine
from tests.support.columns_data import read_whole
from tests.support.effort import law
from tests.support.in_memory import InMemory
from tests.support.text_runs import scratch
from tests.support.typed_worlds import (
    BY_NAME,
    COLUMNS,
    OF_FEEDS,
    World,
    make_world,
    put,
    schema_of,
    worlds,
)


@dataclass(frozen=True)
class Left:
    """The result of a series of runs."""

    records: list[Any]
    tombstones: list[Any]
    counts: list[dict[str, int]]
    samples: list[Any]


def run_all(
    work: Path, world: World, file_format: str, *, feed_format: str | None = None, engine: str | None = None
) -> Left:
    """Do all runs of a world with files of one format."""
    rng = random.Random(world.seed)
    feed_format = feed_format or file_format
    delimiter = world.delimiter(file_format, feed_format)
    for number, rows in enumerate(world.master):
        path = work / "master" / f"m{number}{FORMATS[file_format].suffix}"
        put(path, file_format, rows, schema_of(world.order, op=False), rng.randint(1, 3), delimiter)
    master, counts, samples = work / "master", [], []
    for run, files in enumerate(world.feeds):
        feed = work / f"feed{run}"
        for stem, rows in files:
            path = feed / f"{stem}{[FORMATS[feed_format].suffix, *FORMATS[feed_format].endings][-1]}"
            put(path, feed_format, rows, schema_of(world.order, op=world.op), rng.randint(1, 3), delimiter)
        output = work / f"out{run}"
        speed = {
            "num.reducer": str(rng.choice([1, 2, 2, 4, 7])),
            "split.bytes": str(rng.choice([64, 300, 1 << 20])),
            "memory.bytes": str(rng.choice([1, 200, 1 << 27])),
        }
        report = local_engine.mutate(
            {**world.settings(file_format, feed_format), **speed},
            master=str(master),
            feed=[str(feed)],
            output=str(output),
            engine=engine or rng.choice(["records", "blocks"]),
        )
        master = output
        counts.append({name: n for name, n in report.counts.items() if n and not name.endswith(" ignored")})
        samples.append(report.samples)
    return Left(*_left(master, file_format, world, delimiter), counts, samples)


def _left(output: Path, file_format: str, world: World, delimiter: str) -> tuple[list[Any], list[Any]]:
    known = manifest.parse((output / manifest.PATH).read_bytes(), str(output))
    schema, records, tombstones = schema_of(world.order, op=False), [], []
    for part in known.files:
        for found in _read(file_format, (output / part.path).read_bytes(), schema, delimiter):
            columns = [
                converted(found.batch.column(number), one.type, typed=not found.as_text)[0]
                for number, one in enumerate(schema)
            ]
            records += zip(*(comparable(column).to_pylist() for column in columns), strict=True)
    for part in known.beside:
        if part.role == "tombstones":
            with open(output / part.path, "rb") as stream:
                tombstones += [(key, order) for key, order, _ in read_tombstones(stream)]
    return sorted(records, key=repr), sorted(tombstones, key=repr)


def _read(file_format: str, data: bytes, schema: Any, delimiter: str) -> Any:
    if file_format in ("text", "escaped"):  # which is written without a header
        return FILE_FORMATS[file_format].read(
            InMemory(data, Window("exact lf")), schema, schema.names, Dialect(delimiter.encode())
        )
    return read_whole(file_format, data)


@given(worlds(["x", "y", "longer"]))
@law(20)
def test_all_formats_give_the_same_records(world):
    with scratch() as work:
        first, *others = COLUMNS if world.beside else ["text", *COLUMNS]
        expected = run_all(work / first, world, first)
        for file_format in others:
            assert run_all(work / file_format, world, file_format) == expected, file_format


@given(worlds([None, "", "x", 'q"', "a,b", "l\nf", "\r", "\\N"]), st.sampled_from(COLUMNS), st.sampled_from(OF_FEEDS))
@law(30)
def test_a_feed_of_another_format_gives_the_same_records(world, file_format, feed_format):
    with scratch() as work:
        expected = run_all(work / "one", world, file_format, engine="records")
        assert run_all(work / "two", world, file_format, feed_format=feed_format) == expected


@pytest.mark.thorough(keep=0, rest=3)
@pytest.mark.parametrize("file_format", COLUMNS)
def test_the_same_feed_again_changes_nothing(file_format, tmp_path):
    for seed in range(15):
        rng = random.Random(seed)
        world = make_world(rng, [None, "", "x"])
        if world.full or world.order == BY_NAME:
            continue
        work = tmp_path / str(seed)
        once = run_all(work / "once", World(**{**vars(world), "feeds": world.feeds[:1]}), file_format)
        twice = World(**{**vars(world), "feeds": (world.feeds[0], world.feeds[0])})
        again = run_all(work / "again", twice, file_format)

        assert (again.records, again.tombstones) == (once.records, once.tombstones)
