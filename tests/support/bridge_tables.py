"""Tables that are directories, for the tests of the bridge: written and read without it, and merged without Spark."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator import config
from mutator.bridge import PathTable, run
from mutator.bridge.round_trip import BridgeReport
from mutator.dataset import manifest
from mutator.dataset.state import State
from mutator.rules.file_names import new_run_id
from mutator.rules.partition_paths import values_of
from mutator.rules.typed_values import comparable
from tests.support import local_engine
from tests.support.columns_data import as_table, file_of, read_whole
from tests.support.no_limits import NO_LIMITS

__all__ = [
    "KINDS",
    "Bridged",
    "each",
    "each_twice",
    "in_memory",
    "known",
    "new_run",
    "read",
    "rows_of",
    "text_of",
    "write",
]

KINDS = ("orc", "parquet", "avro")
SUFFIXES = {f".{kind}": kind for kind in KINDS}


def each(tasks: Sequence[Any], work: Any) -> list[Any]:
    """Apply a function to tasks as executors do: its arguments and results are pickled."""
    found = []
    for number, task in enumerate(tasks):
        there, given = pickle.loads(pickle.dumps((work, task)))
        found.append(pickle.loads(pickle.dumps(there(given, number, 0))))
    return found


def each_twice(tasks: Sequence[Any], work: Any) -> list[Any]:
    """Lose the result of the first attempt of every task, as if its executor had died after it."""
    return [(work(task, number, 0), work(task, number, 1))[1] for number, task in enumerate(tasks)]


@pytest.fixture
def in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a directory in memory if possible; power failures have tests of their own."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as place:
        yield Path(place)


def new_run() -> str:
    return new_run_id(time.time())


def write(directory: Path, files: Mapping[str, Any], rows: int = 3) -> Path:
    """Write the files of a table, in the formats of their suffixes, some rows at a time."""
    for name, table in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(table if isinstance(table, bytes) else file_of(SUFFIXES[path.suffix], table, rows=rows))
    return directory


def data_files(directory: Path) -> list[Path]:
    """Return the files that other programs would read as data."""
    found = [path for path in directory.rglob("*") if path.is_file()]
    return sorted(path for path in found if not any(part[0] in "._" for part in path.relative_to(directory).parts))


def read(path: Path) -> Any:
    """Read a file as a table, without the bridge."""
    parts = read_whole(SUFFIXES[path.suffix], path.read_bytes())
    assert not any(one.rejects for one in parts)
    return as_table(parts, pa.schema([])) if parts else None


def plain(table: Any) -> list[tuple[Any, ...]]:
    """Return rows in a form that compares them to the last bit."""
    columns = [comparable(column.combine_chunks()).to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def rows_of(directory: Path) -> list[tuple[Any, ...]]:
    """Return all rows of a table, sorted: the fields of its files, then those of its directories, as text."""
    found: list[tuple[Any, ...]] = []
    for path in data_files(directory):
        inner = path.parent.relative_to(directory)
        partition = [value for _, value in values_of(inner.as_posix())] if inner.parts else []
        table = read(path)
        found += [] if table is None else [(*row, *partition) for row in plain(table)]
    return sorted(found, key=repr)


def known(directory: Path) -> State:
    return manifest.parse((directory / manifest.PATH).read_bytes(), str(directory))


def text_of(directory: Path) -> list[bytes]:
    """Return the rows of a text copy, sorted."""
    return sorted(row for path in directory.glob("part-*") for row in path.read_bytes().split(b"\n")[:-1])


def inodes(directory: Path) -> dict[str, int]:
    return {path.relative_to(directory).as_posix(): path.stat().st_ino for path in data_files(directory)}


class Bridged:
    """A table, its text copy, and a feed."""

    settings: Mapping[str, str] = {
        "id.field.ordinals": "0",
        "temporal.ordering.field.ordinal": "2",
        "num.reducer": "2",
        **NO_LIMITS,
        "deleted.record.file.prefix": "del",
    }

    def __init__(self, root: Path, files: Mapping[str, Any] | None = None) -> None:
        self.root, self.table, self.text, self.inbox = root, root / "table", root / "copy", root / "feed"
        write(self.table, files or {})
        self.inbox.mkdir(parents=True, exist_ok=True)

    def feed(self, name: str, content: str | bytes) -> Path:
        path = self.inbox / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def run(
        self, settings: Mapping[str, str] | None = None, *, each: Any = each, merge: Any = local_engine.merge
    ) -> BridgeReport:
        read = config.parse({**self.settings, **(settings or {})})
        table = PathTable(str(self.table), each)
        return run(table, str(self.text), read, [str(self.inbox)], merge, each)

    def rows(self) -> list[tuple[Any, ...]]:
        return rows_of(self.table)

    def litter(self) -> list[str]:
        """Return the names of leftover files, except for the one table that the next run removes."""
        beside = [path.name for path in self.root.iterdir() if path.name not in ("table", "copy", "feed", "passed")]
        (entry,) = (self.text / "_mutator" / "bridge").iterdir()
        found = [path.name for path in self.text.iterdir() if path.name != "_mutator"]
        more = [path.name for path in (self.text / "_mutator").iterdir() if path.name != "bridge"]
        return (
            [f"beside the table: {name}" for name in sorted(beside)[1:]]
            + [f"of the text: {name}" for name in sorted(found)[1:]]
            + [f"of the base: {name}" for name in more]
            + ([] if entry.name.endswith(".json") else [entry.name])
        )
