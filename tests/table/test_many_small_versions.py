"""A process that stays open applies many small feeds: what one of them takes does not grow with the versions."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator.dataset.versions import opening
from mutator.table import apply
from mutator.table.table import Table
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

PERIOD = 4  # versions between two checkpoints
KEYS = 14
ROOT = str(Path(mutator.__file__).parent)
TABLES: list[dict[str, str]] = [
    {},
    {"partitioned.by": "shop", "key.scope": "table"},
    {"partitioned.by": "shop", "key.scope": "partition"},
    {"order_by": ""},  # by file name
]
# In a checkpoint: each known feed file, each file with hidden rows, and each name in the directory.
EACH = re.compile(r"json.py:_text|checkpoint.py:(_offsets|written_files)|remove_checkpoints|Storage.entries|:_entry$")


class Feeds:
    """A table that gets small feeds, and the records that it must have."""

    def __init__(self, work: Path, settings: dict[str, str]) -> None:
        self.by_name = settings.get("order_by") == ""
        own = {name: value for name, value in {"order_by": "at", **settings}.items() if value}
        self.table = Table.create(str(work / "table"), {"key": "id", "op": "op", **own, **NO_LIMITS}, buckets=2)
        self.work, self.records, self.number = work, dict[int, dict[str, Any]](), 0

    def rows(self) -> list[dict[str, Any]]:
        """Return the next feed: updates, a new record, a delete, a late row, and a row that changes nothing."""
        number = self.number
        keys = [number * 7 % KEYS, (number * 11 + 3) % KEYS, (number * 13 + 5) % KEYS]
        found = [(key, number, f"n{number}", "U") for key in dict.fromkeys(keys)]
        found.append((1000 + number, number, "new", "I"))
        found.append((1000 + number - 5, number, "gone", "D"))
        rows = [{"id": key, "shop": key % 3, "at": at, "name": name, "op": op} for key, at, name, op in found]
        same = self.records.get((number * 17 + 1) % KEYS)
        if same is not None and same["id"] not in keys:
            rows.append({**same, "op": "U"})
        if not self.by_name:
            rows.append({"id": 2000, "shop": 1, "at": 100 - number, "name": f"n{number}", "op": "U"})
        return rows

    def apply(self) -> None:
        """Apply the next feed, and remember its records."""
        self.number += 1
        rows = self.rows()
        path = self.work / f"feed_{self.number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        self.table.apply(str(path), open_runner=open_runner)
        for row in rows:
            known = self.records.get(row["id"])
            if row["op"] == "D":
                self.records.pop(row["id"], None)
            elif self.by_name or known is None or known["at"] <= row["at"]:
                self.records[row["id"]] = {name: value for name, value in row.items() if name != "op"}

    def check(self) -> None:
        """Compare the table with the records."""
        found = [{name: row[name] for name in ("id", "shop", "at", "name")} for row in self.table.scan().to_pylist()]
        assert sorted(found, key=lambda row: row["id"]) == [row for _, row in sorted(self.records.items())]


@contextmanager
def counted(calls: Counter[str]) -> Iterator[None]:
    """Count the calls of functions of mutator."""

    def count(frame: Any, event: str, _: Any) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(ROOT):
            calls[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.thorough(keep=1, rest=3)
@pytest.mark.parametrize("settings", TABLES)
@pytest.mark.parametrize("inline", [1 << 16, 0])
def test_an_apply_after_many_versions_calls_as_much_as_after_few(
    tmp_path: Path, monkeypatch: Any, settings: dict[str, str], inline: int
) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", inline)
    monkeypatch.setattr(opening, "_EVERY", PERIOD)
    feeds = Feeds(tmp_path, settings)
    periods = list[Counter[str]]()
    for _ in range(8):
        calls = Counter[str]()
        with counted(calls):
            for _ in range(PERIOD):
                feeds.apply()
        periods.append(calls)
    early, late = periods[2], periods[-1]
    grown = {name: (early[name], count) for name, count in late.items() if not EACH.search(name)}
    more = {name: pair for name, pair in grown.items() if pair[1] > 1.3 * pair[0] + 3 * PERIOD}
    assert more == {}
    assert sum(count for _, count in grown.values()) < 1.1 * sum(early.values())
    feeds.check()
