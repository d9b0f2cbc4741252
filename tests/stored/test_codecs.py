"""Law of each codec, over all stored files: what is read and written again is the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from mutator.dataset import manifest, split_record, version_log
from mutator.dataset.numbered_log import CommitLog
from mutator.dataset.state import State, first_state
from mutator.dataset.versions import checkpoint
from mutator.dataset.versions.log import TableLog

HERE = Path(__file__).parent
NAMES = {
    "manifest": r"_mutator/manifest(-[^/]+)?\.json",
    "split record": r"_mutator/partition\.json",
    "base log": r"_mutator/log/\d{20}\.json",
    "table log": r"_mutator/table/log/\d{20}\.json",
    "files": r"_mutator/table/checkpoints/[^/]+\.files",
    "masks": r"_mutator/table/checkpoints/[^/]+\.masks",
}


def stored(codec: str) -> list[Path]:
    """Return all stored files that a codec reads."""
    name = re.compile(rf".*/{NAMES[codec]}")
    return [path for path in sorted(HERE.rglob("*")) if path.is_file() and name.fullmatch(str(path))]


def of_base(content: bytes, path: Path) -> bytes:
    """Read and write an entry of a base's log."""
    entries = version_log.Log(str(path.parents[2]))._entries
    assert isinstance(entries, CommitLog)
    return entries.content(entries.parsed(int(path.stem), content))


def of_table(content: bytes, path: Path) -> bytes:
    """Read and write an entry of a table's log."""
    entries = TableLog(str(path.parents[3]))
    return entries.content(entries.parsed(int(path.stem), content))


def of_files(content: bytes, _: Path) -> bytes:
    """Read and write the live files of a checkpoint, and the state."""
    return checkpoint.written_files(*checkpoint.read_files(content))


def of_masks(content: bytes, _: Path) -> bytes:
    """Read and write the masks of a checkpoint."""
    return checkpoint.written_masks([(path, *masks) for path, masks in checkpoint.read_masks(content).items()])


def columns(content: bytes) -> Any:
    """Return the table of a Parquet file with its metadata. Its bytes also name the version of Arrow that wrote it."""
    table = parquet.ParquetFile(pa.BufferReader(content)).read()
    return table.to_pylist(), table.schema.metadata, table.schema


CODECS: dict[str, Callable[[bytes, Path], bytes]] = {
    "manifest": lambda content, path: manifest.dump(manifest.parse(content, str(path))),
    "split record": lambda content, path: split_record.dump(split_record.parse(content, str(path))),
    "base log": of_base,
    "table log": of_table,
}


@pytest.mark.parametrize("codec", CODECS)
def test_a_document_that_is_read_and_written_has_the_same_bytes(codec: str) -> None:
    found = stored(codec)
    assert found
    for path in found:
        content = path.read_bytes()
        assert CODECS[codec](content, path) == content, path


@pytest.mark.parametrize(("codec", "again"), [("files", of_files), ("masks", of_masks)])
def test_a_checkpoint_that_is_read_and_written_has_the_same_columns_and_state(
    codec: str, again: Callable[[bytes, Path], bytes]
) -> None:
    found = stored(codec)
    assert found
    for path in found:
        content = path.read_bytes()
        assert columns(again(content, path)) == columns(content), path


def test_a_checkpoint_has_the_fold_of_the_commits_up_to_it() -> None:
    compared = 0
    for path in stored("files"):
        table, number = TableLog(str(path.parents[3])), checkpoint.version_of_checkpoint(path.name)
        if number > 0 and not checkpoint.is_base(path.name):
            first, *others = table.chain(None, number)
            _, state, _ = checkpoint.read_files(path.read_bytes())
            assert state == reduce(State.after, others, first_state(first)), path
            compared += 1
    assert compared
