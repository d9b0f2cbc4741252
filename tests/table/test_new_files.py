"""Files of a version that was not committed are removed; those of a version that may exist stay."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator import config
from mutator.dataset.commits import Commit
from mutator.dataset.versions.log import TableLog
from mutator.errors import MutatorError, error
from mutator.table import apply, commit, take_over
from mutator.table.table import Table
from tests.support import local_engine

SETTINGS = {"key": "id", "order_by": "at", "output.format": "parquet"}


@pytest.fixture(scope="module", name="dataset")
def new_dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("dataset")
    (root / "master").mkdir()
    rows = {"id": [str(number) for number in range(50)], "at": list(range(50)), "name": ["x"] * 50}
    pq.write_table(pa.table(rows), root / "master" / "rows.parquet")
    output = str(root / "dataset")
    local_engine.mutate(
        config.parse({**SETTINGS, "num.reducer": "2"}), master=str(root / "master"), feed=[], output=output
    )
    return output


def files_in(directory: str) -> set[str]:
    return {str(path) for path in Path(directory).rglob("*") if path.is_file()}


def rows_in(table: str) -> int:
    return sum(batch.num_rows for batch in Table(table).scan())


def test_a_lost_answer_leaves_the_files_of_a_created_table(
    dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = TableLog.commit

    def lost(self: TableLog, version: Commit) -> bool:
        done = commit(self, version)
        if version.number == 1:
            raise error("commit.uncertain", path="x", version=1, why="lost answer")
        return done

    monkeypatch.setattr(TableLog, "commit", lost)
    with pytest.raises(MutatorError, match="lost answer"):
        Table.create(str(tmp_path / "table"), {}, dataset=dataset)
    assert rows_in(str(tmp_path / "table")) == 50


def test_an_interrupt_after_the_commit_leaves_the_files(
    dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_hint = TableLog.write_hint

    def interrupted(self: TableLog, version: Commit, *others: Any) -> None:
        if version.number == 1:
            raise KeyboardInterrupt
        write_hint(self, version, *others)

    monkeypatch.setattr(TableLog, "write_hint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Table.create(str(tmp_path / "table"), {}, dataset=dataset)
    assert rows_in(str(tmp_path / "table")) == 50


def test_the_slower_of_two_creates_removes_only_its_own_files(
    dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, commit, winners = str(tmp_path / "table"), take_over.committed, list[set[str]]()

    def later(after: Any, version: Commit) -> Any:
        if not winners:  # another process is faster
            own = files_in(table)
            winners.append(set())
            Table.create(table, {}, dataset=dataset)
            winners[0] = files_in(table) - own
        return commit(after, version)

    monkeypatch.setattr(take_over, "committed", later)
    with pytest.raises(MutatorError) as fault:
        Table.create(table, {}, dataset=dataset)
    assert fault.value.kind == "table.exists"
    assert rows_in(table) == 50
    log = {path for path in files_in(table) if "/version_id=" not in path}
    assert files_in(table) == log | winners[0]
    assert not list(Path(table).glob("_mutator/table/work"))
    assert not Table(table).verify().problems


def test_a_damaged_dataset_leaves_no_files_in_the_table(dataset: str, tmp_path: Path) -> None:
    copied = tmp_path / "dataset"
    shutil.copytree(dataset, copied)
    last = max(copied.glob("part-*.parquet"))
    content = bytearray(last.read_bytes())
    content[10] ^= 1
    last.write_bytes(content)
    with pytest.raises(MutatorError) as fault:
        Table.create(str(tmp_path / "table"), {}, dataset=str(copied))
    assert fault.value.kind == "manifest.damage"
    assert not list((tmp_path / "table").glob("_mutator/table/rows/version_id=*/*"))
    assert not list((tmp_path / "table").glob("_mutator/table/keys/**/*.keys"))


def rows_of_feed(directory: Path, name: str, order: int) -> str:
    path = directory / f"{name}.csv"
    path.write_text("id,at,name\n" + "".join(f"{number},{order},{name}\n" for number in range(20)))
    return str(path)


def test_a_lost_race_leaves_no_files_that_were_too_large_for_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "INLINE", 0)
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at"}, buckets=2)
    table.apply(rows_of_feed(tmp_path, "first", 1))
    table.apply(rows_of_feed(tmp_path, "second", 2))
    before = files_in(table.path)
    assert any("/version_id=2/" in path for path in before)
    monkeypatch.setattr(TableLog, "commit", lambda *_: False)  # as if another writer had committed it
    monkeypatch.setattr(commit, "_STARTS", 1)
    monkeypatch.setattr(commit, "_TRIES", 1)
    with pytest.raises(MutatorError) as fault:
        table.apply(rows_of_feed(tmp_path, "third", 3))
    assert fault.value.kind == "table.outrun"
    assert files_in(table.path) == before


def test_a_damaged_file_that_a_task_meets_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at"}, buckets=2)
    table.apply(rows_of_feed(tmp_path, "first", 1))
    keys = next(Path(table.path).glob("_mutator/table/keys/**/*.keys"))
    keys.write_bytes(keys.read_bytes()[:-1])
    before = files_in(table.path)
    with pytest.raises(MutatorError):
        table.apply(rows_of_feed(tmp_path, "second", 2))
    assert files_in(table.path) == before
