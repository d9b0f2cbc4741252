"""Each way of merging a feed takes each dialect with one result, or refuses it before anything is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator import cli
from tests.support.named_runs import ENGINES, rows_of
from tests.support.no_limits import NO_LIMITS

# What a row does, its order, ID, store and value: the second file comes first where the order is in the rows
FIRST = (("c", 1, 1, "a", "x"), ("c", 2, 2, "b", "y"), ("c", 3, 3, "a", "z"), ("c", 4, 4, "b", "w"))
SECOND = (("u", 5, 1, "a", "x2"), ("d", 6, 2, "b", "y"), ("d", 7, 9, "b", ""), ("u", 8, 3, "b", "moved"))
RESULT = [("1", "a", "x2"), ("3", "b", "moved"), ("4", "b", "w")]


class DialectForm(NamedTuple):
    """A dialect: how its files are written, and what a table needs to know of its order."""

    write: Callable[[Path, int, Sequence[Any]], None]
    settings: Mapping[str, str] = {}
    order: Mapping[str, str] = {}
    is_flat: bool = True  # partition fields are fields of the file


def debezium(directory: Path, number: int, rows: Sequence[Any]) -> None:
    found = []
    for op, at, key, store, value in rows:
        row = {"id": key, "store": store, "n": value}
        before, after = (row, None) if op == "d" else (None, row)
        source = {"connector": "postgresql", "schema": "d", "table": "t", "lsn": at}
        found.append(json.dumps({"before": before, "after": after, "source": source, "op": op}))
    (directory / f"f{9 - number}.json").write_text("\n".join(found) + "\n")


def dms(directory: Path, number: int, rows: Sequence[Any]) -> None:
    codes = {"c": "I", "u": "U", "d": "D"}
    lines = [f"{codes[op]},{key},{store},{value}" for op, _, key, store, value in rows]
    (directory / f"20260101-10000000{number}.csv").write_text("\n".join(["Op,id,store,n", *lines]) + "\n")


def delta(directory: Path, number: int, rows: Sequence[Any]) -> None:
    kinds = {"c": "insert", "u": "update_postimage", "d": "delete"}
    names = ("id", "store", "n", "_change_type", "_commit_version", "_commit_timestamp")
    found = [
        (key, store, value, kinds[op], at, datetime(2026, 1, 1))  # noqa: DTZ001
        for op, at, key, store, value in rows
    ]
    table = pa.table([*map(pa.array, zip(*found, strict=True))], [*names])
    pq.write_table(table, directory / f"part-{9 - number}.parquet")


POSITION = {
    "order_by": "source.sequence[0],source.lsn,transaction.total_order",
    "order_type": "long,long,long",
    "null.order": "lowest",
}
COMMIT = {"order_by": "_commit_version,_commit_timestamp", "order_type": "long,timestamp"}
DIALECTS = {
    "debezium-json": DialectForm(debezium, order=POSITION, is_flat=False),
    "aws-dms": DialectForm(dms, {"header": "true"}),
    "delta-cdf": DialectForm(delta, order=COMMIT),
}


class Place:
    """A directory with a feed in a dialect, and commands in it."""

    def __init__(self, path: Path, dialect: str, engine: str) -> None:
        self.path, self.told, self.engine = path, DIALECTS[dialect], engine
        self.settings = {"key": "id", "feed.dialect": dialect, **self.told.settings, **NO_LIMITS}
        for number, rows in enumerate((FIRST, SECOND), 1):
            (path / f"feed{number}").mkdir()
            self.told.write(path / f"feed{number}", number, rows)

    def deliver(self, number: int, directory: str) -> None:
        """Copy feed files to a directory."""
        (self.path / directory).mkdir(parents=True, exist_ok=True)
        for file in (self.path / f"feed{number}").iterdir():
            (self.path / directory / file.name).write_bytes(file.read_bytes())

    def call(self, *words: Any, code: int = 0, **settings: str) -> None:
        """Run a command with the settings of the feed. Words of one letter are options; paths are of this place."""
        given = {**self.settings, **{name.replace("_", "."): value for name, value in settings.items()}}
        options = [word for name, value in given.items() for word in ("-D", f"{name}={value}")]
        assert cli.main([*map(str, words), "--runner", "local", *options]) == code

    def at(self, *parts: str) -> Path:
        return self.path.joinpath(*parts)

    def rows(self, *parts: str) -> list[tuple[str, ...]]:
        """Return the records below a directory, as text; those of a partition have its field in their file."""
        files = [one for one in self.at(*parts).rglob("part-*") if "_mutator" not in one.parts]
        found = [row for one in files for row in rows_of(one)]
        return sorted(tuple(str(row[name]) for name in ("id", "store", "n")) for row in found)


def run(place: Place, engine: str = "", **settings: str) -> list[tuple[str, ...]]:
    """Two runs, and one with the first feed again."""
    master, words = "none", ("--engine", engine or place.engine)
    for number, feed in enumerate(("feed1", "feed2", "feed1")):
        output = place.at(f"out{number}")
        place.call(
            *("run", "--master", master, "--feed", place.at(feed), "--output", output, *words),
            allow_empty_master="true",
            **settings,
        )
        master = str(output)
    assert cli.main(["verify", master, "--runner", "local"]) == 0
    return place.rows(master)


def partitioned(place: Place) -> list[tuple[str, ...]]:
    return run(place, "blocks", partitioned_by="store", partition_columns="file")


def base(place: Place) -> list[tuple[str, ...]]:
    for number in (1, 2):
        place.deliver(number, "base/incr")
        place.call(*("workflow", "run", place.at("base"), "--engine", place.engine), **ARRIVED)
    assert cli.main(["explain", str(place.at("base")), "1"]) == 0
    assert cli.main(["workflow", "restore", str(place.at("base")), "--to", "1"]) == 0
    assert [row[2] for row in place.rows("base", "master")] == ["x", "y", "z", "w"]
    place.deliver(2, "base/incr")  # its settings come from the manifest now
    words = ["workflow", "run", str(place.at("base")), "-D", "claim.min.age=0s", "--runner", "local"]
    assert cli.main([*words, "-D", "max.delete.fraction=1"]) == 0
    assert cli.main(["verify", str(place.at("base")), "--runner", "local"]) == 0
    return place.rows("base", "master")


ARRIVED = {"allow_empty_master": "true", "claim_min_age": "0s"}


def tables_file(place: Place) -> Path:
    """Write a file of two bases that share a directory, and of a master whose feed is another one."""
    for number in (1, 2):
        place.deliver(number, "stream")
        place.deliver(number, "feed")
    tables = '[tables.a]\nbase = "a"\nfeed = "stream"\n[tables.b]\nbase = "b"\nfeed = "stream"\n'
    tables += '[tables.c]\nmaster = "none"\nfeed = "feed"\noutput = "c/master"\n'
    path = place.at("tables.toml")
    path.write_text(tables)
    for name in "ab":
        place.at(name, "incr").mkdir(parents=True)
    return path


def many(place: Place) -> list[tuple[str, ...]]:
    place.call("run-many", tables_file(place), "--engine", place.engine, **ARRIVED)
    found = [place.rows(name, "master") for name in "abc"]
    assert found[0] == found[1] == found[2]
    return found[0]


def table(place: Place) -> list[tuple[str, ...]]:
    """A table that applies, is exported, and is the target of a base."""
    settings = {**place.settings, **place.told.order}
    found = mutator.Table.create(str(place.at("base", "table")), settings)
    found.apply(str(place.at("feed1")))
    place.deliver(2, "base/incr")
    words = ["workflow", "run", str(place.at("base")), "-D", "claim.min.age=0s", "--runner", "local"]
    assert cli.main(words) == 0
    assert cli.main(["explain", str(place.at("base")), "1"]) == 0
    found.restore(1)
    assert cli.main(["table", "export", found.path, str(place.at("copy"))]) == 0
    found.apply(str(place.at("feed2")))
    # The copy knows the dialect of its feeds
    words = ["run", "--master", place.at("copy"), "--feed", place.at("feed2"), "--output", place.at("new")]
    assert cli.main([*map(str, words), "-D", "max.delete.fraction=1"]) == 0
    there = found.refresh().scan().to_arrow().select(["id", "store", "n"]).to_pylist()
    rows = sorted(tuple(map(str, row.values())) for row in there)
    assert place.rows("new") == rows
    return rows


def split(place: Place) -> list[tuple[str, ...]]:
    """A split feed. A record that moves to another partition stays in its old one, so no row of it may move."""
    feeds = [place.at("feed1"), place.at("feed2")]
    words = ["partition", "--feed", *feeds, "--partitioned-by", "store", "--output", place.at("split")]
    if not place.told.is_flat:
        place.call(*words, code=2)
        assert not place.at("split").exists()
        return RESULT
    place.call(*words)
    place.call(
        *("run", "--master", "none", "--feed", place.at("feed1"), "--output", place.at("old")),
        allow_empty_master="true",
        partitioned_by="store",
        partition_columns="file",
    )
    words = ["partition-runs", "--master", place.at("old"), "--feed", place.at("split"), "--output", place.at("new")]
    place.call(*words, "--engine", place.engine)
    found = place.rows("new")
    found.remove(("3", "a", "z"))
    return found


def bridge(place: Place) -> list[tuple[str, ...]]:
    place.at("orc").mkdir()
    schema = pa.schema([("id", pa.int64()), ("store", pa.string()), ("n", pa.string())])
    pq.write_table(pa.table({"id": [1], "store": ["a"], "n": ["old"]}, schema), place.at("orc", "part-0.parquet"))
    for number in (1, 2, 1):
        words = ["bridge", "run", "--master", place.at("orc"), "--text", place.at("text")]
        place.call(*words, "--feed", place.at(f"feed{number}"), "--engine", place.engine)
    return place.rows("orc")


WAYS = (run, partitioned, base, many, table, split, bridge)


# Each way and each dialect with both engines
CASES = [
    pytest.param(way, name, ENGINES[(number + other) % 2], id=f"{way.__name__}-{name}")
    for number, way in enumerate(WAYS)
    for other, name in enumerate(DIALECTS)
]


@pytest.mark.thorough(keep=9)
@pytest.mark.parametrize(("way", "dialect", "engine"), CASES)
def test_each_way(tmp_path: Path, way: Callable[[Place], Any], dialect: str, engine: str) -> None:
    assert way(Place(tmp_path, dialect, engine)) == RESULT
