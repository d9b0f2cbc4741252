"""Random partitioned masters and feeds of delimited text, runs over them, and readers of their output.

Values come from short lists, as in ``text_worlds``, so that ties, late rows, deletes, re-inserts, and records
that move from one partition to another and back are common.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

import mutator
from mutator.dataset.filter_packs import read_filters
from mutator.dataset.side_columns import read_tombstones
from mutator.rules.bloom_filter import may_contain
from mutator.rules.order_values import is_tuple
from tests.support import local_engine, text_runs
from tests.support.model import Key, Row
from tests.support.partition_model import Field, directory_of, scoped
from tests.support.text_runs import canonical_place, check_accounting, check_feed_files, place_of, put, sequences_of
from tests.support.text_worlds import (
    BY_NAME,
    FIRST_IDS,
    ORDERS,
    SECOND_IDS,
    SEQUENCES,
    STEMS,
    File,
    Line,
    RowPlan,
    as_first_row,
)

__all__ = ["Made", "Table", "TableRuns", "draw_line", "draw_table", "files_of", "make_speed", "read_partitions"]

SHOPS = [b"", b"1", b"2", b"a/b", b"..", b"%2F", b"x=y", b"\xff", b"\xc3\xa9", b"\x01"]
TIMES = [b"", b"2026-01-31T23:30:00-01:00", b"2026-02-01", b"1999-12-31T23:59:59.999Z", b"20260131T120000Z"]
LONG = b"z" * 300
PLACES = [
    (Field("shop", "shop"),),
    (Field("shop", "shop"),),
    (Field("shop", "shop"), Field("day", "ts", "date")),
    (Field("y", "ts", "year"), Field("m", "ts", "month")),
    (Field("p", "shop", "prefix", 1),),
    (Field("of", "shop", "bucket", 3),),
    (Field("who", "id1"), Field("shop", "shop")),
    (Field("day", "ts", "date"), Field("v", "value")),
]


@dataclass(frozen=True)
class Table(RowPlan):
    """The fields of rows, and the partitions of the master."""

    by: tuple[Field, ...] = ()
    scope: str = "table"

    def partition_settings(self) -> dict[str, str]:
        """Return the settings that partition a master."""
        by = ",".join(field.text(self.columns.index(field.column)) for field in self.by)
        return {"partitioned.by": by, "key.scope": self.scope}

    def placed(self, row: Row) -> str | None:
        """Return the directory of a row as it is written, or None if it has no directory."""
        cells = dict(zip(self.written, row.written.split(b","), strict=True))
        return directory_of(self.by, [cells[field.column] for field in self.by])

    def place(self, row: Row) -> str:
        """Return the directory of a row that has one."""
        found = self.placed(row)
        assert found is not None, row
        return found

    def rows(self, files: Sequence[File]) -> list[Row]:
        """Return the records of files as rows of the model."""
        found = [row for file in files for row in file.rows(self)]
        return [scoped(row, self.place(row)) for row in found] if self.scope == "partition" else found


def draw_table(rng: random.Random, scope: str, *, deletes: str | None = None) -> Table:
    deletes = deletes or rng.choice(["op code", "delete file"])
    columns = ["id1", "id2", "order", "value", "shop", "ts"] + ["op"] * (deletes == "op code")
    rng.shuffle(columns)
    keeps = deletes == "op code" and rng.random() < 0.3
    return Table(
        columns=tuple(columns),
        key=rng.choice([("id1",), ("id1", "id2"), ("id2", "id1")]),
        order=rng.choice([*(order for order in ORDERS if not is_tuple(order)), BY_NAME, BY_NAME]),
        deletes=deletes,
        keeps_op=keeps,
        master_has_op=deletes == "op code" and (keeps or rng.random() < 0.5),
        field_count=str(len(columns)),
        header=rng.random() < 0.1,
        by=rng.choice(PLACES),
        scope=scope,
    )


def draw_line(rng: random.Random, table: Table, is_delete: bool, *, of_master: bool, id_alone: bool, bad: bool) -> Line:
    order = rng.randrange(len(ORDERS[table.order])) if table.order != BY_NAME else -1
    cells = {
        "id1": rng.choice(FIRST_IDS),
        "id2": rng.choice(SECOND_IDS),
        "order": rng.choice(ORDERS[table.order][order]) if table.order != BY_NAME else b"",
        "value": rng.choice([b"x", b"y"]),
        "shop": rng.choice([*SHOPS, LONG] if bad else SHOPS[:4] if rng.random() < 0.7 else SHOPS),
        "ts": rng.choice([*TIMES, b"soon"] if bad else TIMES),
        "op": rng.choice([b"D", b"X"] if is_delete else [b"U", b"I", b""]),
    }
    key = tuple(cells[name] for name in table.key)
    if id_alone:
        row = b",".join(key)
        none = table.scope == "partition" or not row  # it names no partition; only an empty ID makes a blank line
        return Line(row, None if none else key, order, True, row)
    raw = b",".join(cells[name] for name in table.columns if name != "op" or table.master_has_op or not of_master)
    finds_its_record = is_delete and table.scope == "table"  # whichever partition that is
    if not finds_its_record and directory_of(table.by, [cells[field.column] for field in table.by]) is None:
        return Line(raw)
    return Line(raw, key, order, is_delete, b",".join(cells[name] for name in table.written))


def files_of(
    rng: random.Random, table: Table, count: int, *, of_master: bool = False, bad: bool = False, most: int = 5
) -> tuple[File, ...]:
    """Draw files of the master, or of a feed."""
    made = {}
    for _ in range(count):
        number = rng.choice(SEQUENCES)
        named = (table.order == BY_NAME and not of_master) or rng.random() < 0.6
        all_deleted = not of_master and table.deletes == "delete file" and rng.random() < 0.4
        lines = []
        id_alone = all_deleted and table.order == BY_NAME and rng.random() < 0.5
        if table.scope == "partition" and not bad:
            id_alone = False
        for _ in range(rng.randint(0, most)):
            is_delete = not of_master and (all_deleted or (table.deletes == "op code" and rng.random() < 0.4))
            lines.append(draw_line(rng, table, is_delete, of_master=of_master, id_alone=id_alone, bad=bad))
            if rng.random() < 0.15:
                lines.append(rng.choice(lines))
            if bad and rng.random() < 0.1:
                lines.append(Line(b"," * 19))
        if all_deleted and table.order == BY_NAME:
            lines = as_first_row(lines, len(table.key))
        end = rng.choice([b"\n", b"\n", b"\r\n"])
        file = File(
            place=rng.randrange(2),
            name=("del" if all_deleted else "")
            + rng.choice(STEMS)
            + (f"_{number}" if named else "")
            + rng.choice([".txt", ".txt", ".txt.gz"]),
            sequence=int(number) if named else -1,
            lines=tuple(lines),
            line_end=end,
            before=b"id,and,so,on" + end if table.header else b"",
        )
        made[file.place, file.name] = file
    return tuple(made.values())


def make_speed(rng: random.Random) -> dict[str, Any]:
    """Draw settings that must not change a result; each run of a series has its own."""
    return {
        "num_reducer": rng.choice([1, 2, 2, 4, 7]),
        "split_bytes": rng.choice([1, 7, 64, 1 << 20]),
        "bucket_bytes": rng.choice([1, 20, 100] + [1 << 20] * 3),
        "memory_bytes": rng.choice([1, 40, 200] + [128 << 20] * 9),
        "tasks": rng.choice([1, 2, 2, 3, 7]),
        "seed": rng.randrange(99),
    }


@dataclass(frozen=True)
class Made:
    """A partitioned master that a run wrote, as read back, and the report of the run."""

    path: str
    report: mutator.Report
    rows: list[Row]  # keys start with the partition if the ID is unique only within its partition
    tombstones: dict[Key, tuple[int, int]]  # key -> order value, commit time
    places: dict[Key, str]  # of records and tombstones
    document: dict[str, Any]

    @property
    def records(self) -> dict[Key, tuple[int, bytes]]:
        return {row.key: (row.order, row.row) for row in self.rows}

    @property
    def graves(self) -> dict[Key, str]:
        return {key: self.places[key] for key in self.tombstones}

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.report.counts)

    @property
    def buckets(self) -> dict[str, int]:
        """The number of buckets of each partition."""
        return {os.path.dirname(part["path"]): part["buckets"] for part in self.document["files"]}


class TableRuns:
    """Runs below one directory, one after the other, at times that the test sets."""

    def __init__(self, work: Path, table: Table, engine: Callable[..., mutator.Report] = local_engine.mutate) -> None:
        self.work, self.table, self.engine = work, table, engine
        self.now = int(time.time()) * 1000
        self._number = 0

    def flat(self, files: Sequence[File]) -> str:
        """Write an unmanaged master: one directory."""
        return put(self.work / "master", files)[0]

    def tree(self, files: Sequence[File], rng: random.Random) -> tuple[str, list[Row]]:
        """Write an unmanaged master in directories of partitions; return the directory and its rows.

        The names of the directories have no meaning for the run.
        """
        rows = []
        for file in files:
            names = [["shop=1/day=x", "shop=%2F", ""], ["shop=1", "a=b/c=d/e=f"]]
            name = rng.choice(names[file.place])
            place = self.work / "tree" / name
            # The directory decides between files of the same name.
            found = self.table.rows([file])
            rows += [row._replace(name=row.name + b"\0" + os.fsencode(os.path.join(name, file.name))) for row in found]
            place.mkdir(parents=True, exist_ok=True)
            (place / file.name).write_bytes(file.content())
        (self.work / "tree").mkdir(exist_ok=True)
        return str(self.work / "tree"), rows

    def options(self, options: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
        """Split options into settings and arguments of the engine."""
        of_run = {name: options.pop(name) for name in ("tasks", "seed", "engine", "dry_run") if name in options}
        given = {name.replace("_", "."): str(value) for name, value in options.items()}
        settings = {
            **self.table.settings(),
            "consumed.files": "merge",  # feed file names repeat in these tests
            "reject.policy": "fail" if given.get("sync.mode") == "full" else "quarantine",
            "master.reject.policy": "quarantine",
            **given,
        }
        return settings, of_run

    def run(self, master: str, feed: Sequence[File], **options: Any) -> mutator.Report:
        """Merge a feed; options are settings with ``_`` for ``.``, and arguments of the local engine."""
        self._number += 1
        places = put(self.work / f"feed-{self._number}", feed)
        settings, of_run = self.options(options)
        output = str(self.work / f"output-{self._number}")
        clock = SimpleNamespace(time=lambda: self.now / 1000, monotonic=time.monotonic)
        with patch("mutator.pipeline.merge.time", clock):
            return self.engine(config=settings, master=master, feed=places, output=output, **of_run)

    def __call__(self, master: str, feed: Sequence[File], *, silent: bool = False, **options: Any) -> Made:
        """Merge a feed into a partitioned master. silent: leave the partition fields out of the settings."""
        if not silent:
            options |= {name.replace(".", "_"): value for name, value in self.table.partition_settings().items()}
        report = self.run(master, feed, **options)
        made = read_partitions(self.table, report.output, report)
        check_accounting(report.counts, SimpleNamespace(records=made.rows, tombstones=made.tombstones))
        check_feed_files(report)
        check_rows_by_partition(made, self.table.scope)
        return made


def check_rows_by_partition(made: Made, scope: str) -> None:
    """Check that the report's rows by partition add up to the rows on disk and to the totals."""
    rows = made.report.partitions
    lying = Counter(made.places[row.key] for row in made.rows)
    assert len({row["partition"] for row in rows}) == len(rows)
    for one in rows:
        assert one["rows"] == lying[one["partition"]]
    totals = Counter({name: sum(row[name] for row in rows) for name in rows[0] if name != "partition"} if rows else {})
    counts = made.report.counts
    if made.report.join == "shuffle" and scope == "table":
        assert all(set(one) == {"partition", "rows"} for one in rows)  # the feed met the master when it had none
        return
    assert totals["moved in"] == totals["moved out"]
    for name in ("inserted", "updated", "deleted"):
        assert totals[name] == counts[f"feed {name}"], name


def read_partitions(table: Table, path: str, report: mutator.Report) -> Made:
    """Read a partitioned master by its manifest, without the package's own reader of rows."""
    root = Path(path)
    document = json.loads((root / "_mutator" / "manifest.json").read_bytes())
    assert document["buckets"] is None
    assert document["hash"] == "murmur64a"
    rows: list[Row] = []
    places: dict[Key, str] = {}
    keys_of_files: dict[str, list[Key]] = {}  # keys of each file
    seen = set()
    for part in sorted(document["files"], key=lambda part: os.fsencode(part["path"])):
        directory = os.path.dirname(part["path"])
        assert (directory, part["bucket"]) not in seen, "a bucket has one file"
        seen.add((directory, part["bucket"]))
        lines = (root / part["path"]).read_bytes().split(b"\n")
        assert lines.pop() == b""
        assert lines, "an empty bucket has no file"
        assert len(lines) == part["rows"]
        sequences = sequences_of(path, part) if table.order == BY_NAME else []
        keys = keys_of_files[part["path"]] = []
        for number, line in enumerate(lines):
            cells = dict(zip(table.written, line.split(b","), strict=True))
            order = sequences[number] if table.order == BY_NAME else place_of(table, cells["order"])
            row = Row(tuple(cells[name] for name in table.key), order, -1, b"", len(rows), line, False, line)
            keys.append(row.key)
            assert table.place(row) == directory, "each row is in the directory of its own values"
            assert part["bucket"] == text_runs.bucket_of(row.key, part["buckets"])
            row = scoped(row, directory) if table.scope == "partition" else row
            assert row.key not in places, "one row a key"
            places[row.key] = directory
            rows.append(row)
    tombstones = {}
    for part in document["beside"]:
        if part["kind"] == "tombstones":
            directory = os.path.dirname(part["path"]).removeprefix("_mutator/tombstones").removeprefix("/")
            with open(root / part["path"], "rb") as stream:
                found = list(read_tombstones(stream))
            assert [key for key, _, _ in found] == sorted(key for key, _, _ in found)
            keys_of_files[part["path"]] = [key for key, _, _ in found]
            for key, order, committed in found:
                assert part["bucket"] == text_runs.bucket_of(key, part["buckets"])
                place = (directory.encode(), *key) if table.scope == "partition" else key
                assert place not in places, "a key has a record or a tombstone, and one"
                places[place] = directory
                tombstones[place] = (canonical_place(table, order), committed)
    check_filters(table, root, document, keys_of_files)
    check_files(root, document)
    buckets: dict[str, set[int]] = {}
    for part in (*document["files"], *(one for one in document["beside"] if one["kind"] in ("tombstones", "order"))):
        place = os.path.dirname(part["path"]).removeprefix("_mutator/tombstones").removeprefix("_mutator/order")
        buckets.setdefault(place.removeprefix("/"), set()).add(part["buckets"])
    assert {len(counts) for counts in buckets.values()} <= {1}, "a partition has one number of buckets"
    return Made(path, report, rows, tombstones, places, document)


def check_filters(table: Table, root: Path, document: dict[str, Any], keys_of_files: dict[str, list[Key]]) -> None:
    """Check that the filters of a file admit each of its keys."""
    parts = [*document["files"], *(part for part in document["beside"] if part["kind"] == "tombstones")]
    packs = {part["path"]: {} for part in document["beside"] if part["kind"] == "filters"}
    if table.scope == "partition":
        assert not packs
        assert not any(part.get("filter") for part in parts)
        return
    for pack, filters in packs.items():
        with open(root / pack, "rb") as stream:
            filters |= {one.path: one for one in read_filters(stream)}
    assert {part["filter"] for part in parts} == set(packs), "no pack is kept for nothing"
    for part in parts:
        one = packs[part["filter"]][part["path"]]
        firsts = [key[0] for key in keys_of_files[part["path"]]]
        assert one.low <= min(firsts)
        assert one.high is None or one.high >= max(firsts)
        hashes = [text_runs.bucket_of(key, 1 << 64) for key in keys_of_files[part["path"]]]
        assert may_contain(one.words, np.array(hashes, np.uint64)).all()


def check_files(root: Path, document: dict[str, Any]) -> None:
    """Check that the directory has exactly the files that the manifest names."""
    named = {part["path"] for part in (*document["files"], *document["beside"])}
    there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert there == named | {"_SUCCESS", "_mutator/manifest.json", document["copy"]}
