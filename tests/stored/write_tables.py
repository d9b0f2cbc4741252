"""Write the stored tables: small ones, with their answers.

    PYTHONPATH=$PWD .venv/bin/python tests/stored/write_tables.py tests/stored/tables [CASE...]

They are written again only if a format is meant to change. Each case is a directory:

    table/          the table
    answers.json    what the program itself read from it: the rows of each version, the changes, each record
    next.parquet    a feed
    next.json       the counts of the apply of that feed, the rows after it, and the changes of the new version
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mutator import Table
from mutator.table import apply
from mutator.table.claiming_run import give_up
from tests.table.test_several_writers import at_phase

DAY = datetime(2026, 1, 31, tzinfo=UTC)
NOT_COMPARED = ("_commit_timestamp",)


def rows(ids: str, at: Any, op: str = "I", **more: Any) -> Any:
    """Return a row for each letter, a pa.Table. at: the order value of all."""
    records = [
        {"id": letter, "shop": ord(letter) % 3, "at": at, "op": op, "note": f"{letter} {at}", **more} for letter in ids
    ]
    return pa.Table.from_pylist(records)


def moment(minutes: float) -> datetime:
    return DAY + timedelta(minutes=minutes)


def by_timestamp(path: str) -> tuple[Table, Any]:
    """Twelve versions, most of them in their log entries, so there are checkpoints and packs."""
    table = Table.create(path, key="id", order_by="at", op="op", max_delete_fraction=1, buckets=2)
    table.apply(rows("abcdefgh", moment(0)))
    for number in range(1, 10):
        table.apply(rows("abcdefgh"[number % 8] + "z", moment(number), "U"))
    table.apply(rows("ab", moment(2), "D"))  # one is late
    table.apply(rows("q", moment(20), price=7))  # a new field
    return table, rows("aqz", moment(30), "U", price=8)


def by_integer(path: str) -> tuple[Table, Any]:
    """Files apart from the log, the order field of which becomes decimal later."""
    table = Table.create(path, key=["id", "shop"], order_by="at", op="op", max_delete_fraction=1, buckets=2)
    table.apply(rows("abcd", 5))
    table.apply(rows("bcx", 7, "U"))
    table.apply(rows("ad", 6, "D"))
    return table, rows("abx", 8, "U")


def by_file_name(path: str) -> tuple[Table, Any]:
    """Touched rows: equal ones of a later file."""
    table = Table.create(path, key="id", max_delete_fraction=1, op="op", buckets=2)
    with tempfile.TemporaryDirectory() as scratch:
        for sequence, letters, op in ((10, "abcd", "I"), (30, "ab", "I"), (20, "ac", "D"), (40, "d", "D")):
            feed = f"{scratch}/feed_{sequence}.parquet"
            pq.write_table(rows(letters, 0, op), feed)
            table.apply(feed)
    return table, rows("abd", 1, "U")


def partitioned(path: str) -> tuple[Table, Any]:
    """Records that move from one partition to another, and tombstones with and without a partition."""
    settings: dict[str, Any] = {"partitioned_by": "shop", "key_scope": "table", "max_delete_fraction": 1}
    table = Table.create(path, key="id", order_by="at", op="op", **settings)
    table.apply(rows("abcdef", 1))
    table.apply(rows("ab", 2, "U").set_column(1, "shop", pa.array([7, 8])))
    table.apply(rows("cy", 2, "D"))
    return table, rows("ac", 3, "U")


def outrun(path: str) -> tuple[Table, Any]:
    """A version with withdrawn rows, because another writer was faster; one gives up a run of a workflow."""
    table = Table.create(path, key="id", order_by="at", op="op", max_delete_fraction=1, buckets=2)
    table.apply(rows("abcd", 1))
    with at_phase("commit", lambda: Table(path).apply(rows("be", 5, "U")) and None):
        table.apply(pa.concat_tables([rows("abf", 3, "U"), rows("ce", 4, "D")]))
    assert table.snapshot.version.number == 3
    give_up(path, "20260131T000000Z-00000001", 2)
    return table.refresh(), rows("aez", 6, "U")


def compacted(path: str) -> tuple[Table, Any]:
    """A compaction that forgets a tombstone, and later versions that hide rows of its files."""
    table = Table.create(path, key="id", order_by="at", op="op", max_delete_fraction=1, buckets=2)
    table.apply(rows("abcdef", 1))
    table.apply(pa.concat_tables([rows("bq", 2, "U"), rows("cd", 2, "D")]))
    with at_phase("commit", lambda: Table(path).apply(rows("ar", 5, "U")) and None):
        table.compact(everything=True, tombstone_retention="0s")
    table.apply(pa.concat_tables([rows("e", 6, "U"), rows("f", 6, "D")]))
    return table, rows("acf", 4, "U")


CASES: dict[str, Callable[[str], tuple[Table, Any]]] = {
    "by_timestamp": by_timestamp,
    "by_integer": by_integer,
    "by_file_name": by_file_name,
    "partitioned": partitioned,
    "outrun": outrun,
    "compacted": compacted,
}


def answers(table: Table) -> dict[str, Any]:
    """Return what a table answers, as JSON has it."""
    key = table.describe().key
    records = table.scan().to_pylist()
    return {
        "versions": {str(number): rows_of(table, number) for number in range(1, table.version + 1)},
        "changes": changes_of(table, 0),
        "records": [as_json(table.get([row[name] for name in key])) for row in sorted(records, key=repr)],
        "log": [[one.version, one.kind, one.records, one.tombstones, one.rows_hidden] for one in table.log()],
    }


def rows_of(table: Table, version: int) -> list[Any]:
    return sorted((as_json(row) for row in table.scan(version=version).to_pylist()), key=json.dumps)


def changes_of(table: Table, since: int) -> list[Any]:
    found = pa.Table.from_batches(table.changes(since)).drop(list(NOT_COMPARED)).to_pylist()
    return sorted((as_json(row) for row in found), key=json.dumps)


def as_json(row: Any) -> Any:
    return json.loads(json.dumps(row, default=str))


def after(table: Table, feed: str) -> dict[str, Any]:
    """Apply a feed; return the answers."""
    before = table.version
    counts = {name: count for name, count in table.apply(feed).counts.items() if count}
    return {"counts": counts, "rows": rows_of(table, table.version), "changes": changes_of(table, before)}


def write(case: str, directory: Path) -> None:
    """Write one case."""
    if case == "by_integer":
        apply.INLINE = apply._INLINE_FEED = 0
    table, feed = CASES[case](str(directory / "table"))
    (directory / "answers.json").write_text(json.dumps(answers(table), indent=1) + "\n")
    name = "next_50.parquet" if case == "by_file_name" else "next.parquet"
    pq.write_table(feed, directory / name)
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(directory / "table", f"{scratch}/table")
        found = after(Table(copy), str(directory / name))
    (directory / "next.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    for chosen in sys.argv[2:] or CASES:
        target = Path(sys.argv[1]).absolute() / chosen
        target.mkdir(parents=True)
        write(chosen, target)
