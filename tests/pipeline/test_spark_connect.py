"""With a session of Spark Connect, which runs no tasks of ours, this process merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import mutator
from mutator.pipeline.runners import choice_for, choice_for_paths

OLD = pa.table({"id": [1, 2], "at": [1, 1]})
NEW = pa.table({"id": [2, 3], "at": [2, 2]})
MERGED = [(1, 1), (2, 2), (3, 2)]
BASE: dict[str, Any] = {"key": "id", "order_by": "at"}


@pytest.fixture(params=["SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"], autouse=True)
def connected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in a process with a session, which sets the first variable, or with a server for new ones."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # as a session does, when it starts
    monkeypatch.setenv(request.param, "1")


def frame(rows: Any = NEW, fault: str | None = None, **others: Any) -> Any:
    """Return what looks like a DataFrame of Spark Connect."""

    def collect(_: Any) -> Any:
        if fault is not None:
            raise PySparkException(fault)
        return rows

    return type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "toArrow": collect, **others})()


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("feed", [lambda: NEW, lambda: NEW.to_pandas(), frame])
def test_tables_in_memory_and_frames_are_merged_here(feed: Any, tmp_path: Path) -> None:
    assert rows_of(mutator.merge(master=OLD, feed=feed(), **BASE).result.to_arrow()) == MERGED
    table = mutator.Table.create(tmp_path / "table", **BASE)
    table.apply(OLD)
    table.apply(feed())
    assert rows_of(table.scan()) == MERGED
    table.insert_overwrite_table(feed())
    assert rows_of(table.scan()) == rows_of(NEW)
    assert table.verify().problems == ()
    table.export(tmp_path / "exported")
    assert mutator.diff(OLD, feed(), key="id").counts == mutator.diff(OLD, NEW, key="id").counts


def test_many_bytes_are_merged_here_too() -> None:
    assert (
        choice_for("auto", 1 << 40).text() == "local, this process and up to 2 more: Spark Connect does not run merges"
    )
    assert choice_for_paths("auto", []).runner == "local"


def test_what_needs_rdds_is_refused_with_what_works_instead() -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    for given in ({"session": session}, {"runner": "spark"}):
        with pytest.raises(mutator.ConfigError, match="leave out the session and runner="):
            mutator.merge(master=OLD, feed=NEW, **given, **BASE)


def test_rows_that_spark_does_not_send() -> None:
    large = "Total size of serialized results is bigger than spark.driver.maxResultSize (1024.0 MiB)\n\tat x"
    with pytest.raises(mutator.ConfigError, match=r"maxResultSize \(1024.0 MiB\); write them .*parquet\(path\)"):
        mutator.merge(master=OLD, feed=frame(fault=large), **BASE)
    with pytest.raises(mutator.ConfigError, match=r"feed .*does not send its rows: \[NO_TABLE\] x$"):
        mutator.merge(master=OLD, feed=frame(fault="[NO_TABLE] x"), **BASE)
