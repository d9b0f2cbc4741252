"""Versions of other systems as the beginning of a table with history: those of dbt and AutoCDC, as Parquet."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator import ConfigError, Table
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner
from tests.table.test_history import SETTINGS, rows


@pytest.mark.parametrize("system", ["dbt", "autocdc"])
def test_the_versions_of_other_systems_are_taken_over(system: str, tmp_path: Path) -> None:
    start, end = {"dbt": ("dbt_valid_from", "dbt_valid_to"), "autocdc": ("__START_AT", "__END_AT")}[system]
    times = [datetime.datetime(2026, 1, day) for day in range(1, 9)]  # noqa: DTZ001  # as DuckDB writes them
    found = [(1, "a", times[0], times[2]), (1, "b", times[2], times[4]), (1, "c", times[6], None)]
    found += [(2, "x", times[1], times[3]), (3, "y", times[1], datetime.datetime(9999, 12, 31))]  # noqa: DTZ001
    if system == "dbt":
        found = [(*row, "md5", row[2], "False") for row in found]
        found.append((2, "x", times[5], None, "md5", times[5], "True"))
        found += [
            (4, "p", times[0], times[7], "", times[0], "False"),
            (4, "p", times[7], times[2], "", times[7], "True"),
        ]
        found.append((4, "q", times[2], None, "", times[2], "False"))  # it came before the snapshot that lacked it
    names = f"id name {start} {end} dbt_scd_id dbt_updated_at dbt_is_deleted".split()[: len(found[0])]
    (tmp_path / "theirs").mkdir()
    theirs = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in found])
    pq.write_table(theirs, tmp_path / "theirs" / "snapshot.parquet")
    settings = {"key": "id", "order_by": "at", "history": "on", "history.columns": system, **NO_LIMITS}
    table = Table.create(str(tmp_path / "table"), settings, dataset=tmp_path / "theirs", open_runner=open_runner)
    shown = table.scan(["id", "name", start, end]).to_pylist()
    expected = [(1, "a", times[0], times[2]), (1, "b", times[2], times[4]), (1, "c", times[6], None)]
    expected += [(2, "x", times[1], times[3]), (3, "y", times[1], None)]
    expected += [(4, "p", times[0], times[2]), (4, "q", times[2], None)] if system == "dbt" else []
    assert sorted((tuple(row.values()) for row in shown), key=str) == expected
    table.apply(rows((1, times[5], "late"), names="id at name"), open_runner=open_runner)
    assert table.get(1, valid_at="2026-01-06T12:00:00")["name"] == "late"
    other = {**settings, "order_by": "id", "key": "name"}
    with pytest.raises(ConfigError, match="has other values than"):
        Table.create(str(tmp_path / "other"), other, dataset=tmp_path / "theirs", open_runner=open_runner)


def theirs(path: Path, *found: tuple[Any, ...], kind: Any = None) -> Path:
    path.mkdir()
    times = kind or pa.timestamp("us", "UTC")
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("__START_AT", times), ("__END_AT", times)])
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in found], schema)
    pq.write_table(table, path / "part.parquet")
    return path


def test_an_end_within_a_later_version_is_that_of_the_earlier_one(tmp_path: Path) -> None:
    one, two, three = (datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in (1, 3, 9))
    dataset = theirs(tmp_path / "theirs", (1, "a", one, three), (1, "b", two, None), (2, "c", one, two))
    settings = {"key": "id", "order_by": "at", "history": "on", "history.columns": "dbt"}
    table = Table.create(str(tmp_path / "table"), settings, dataset=dataset, open_runner=open_runner)
    found = [(row["name"], row["dbt_valid_from"], row["dbt_valid_to"]) for row in table.scan().to_pylist()]
    assert sorted(found) == [("a", one, two), ("b", two, None), ("c", one, two)]


def test_versions_that_held_at_no_time_deletes_and_open_ends_in_other_forms(tmp_path: Path) -> None:
    found = [(1, "a", "2026-01-01", "9999-12-31"), (2, "b", "2026-01-02", "2026-01-02"), (3, "c", "2026-01-01", None)]
    dataset = theirs(tmp_path / "theirs", *found, kind=pa.string())
    table = pq.read_table(dataset / "part.parquet").rename_columns(["id", "name", "dbt_valid_from", "dbt_valid_to"])
    table = table.append_column("dbt_is_deleted", pa.array([False, False, True]))
    pq.write_table(table, dataset / "part.parquet")
    settings = {"key": "id", "order_by": "at", "order_type": "timestamp", "history": "on"}
    made = Table.create(str(tmp_path / "table"), settings, dataset=dataset, open_runner=open_runner)
    assert [(row["id"], row["ended"]) for row in made.scan().to_pylist()] == [(1, "open")]
    (dataset / "c=DE").mkdir()
    (dataset / "part.parquet").rename(dataset / "c=DE" / "part.parquet")
    with pytest.raises(ConfigError, match="has files in c=DE, whose values are not in their rows"):
        Table.create(str(tmp_path / "other"), settings, dataset=dataset)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([(1, "a", 1, 2), (1, "b", 1, None)], "of 1, two versions begin at one time"),
        ([(1, "a", 5, 2)], "of 1, a version ends before it begins"),
        ([(1, "a", None, 2)], "__START_AT is NULL in 1 version"),
        ([(None, "a", 1, 2)], "id is NULL in 1 version"),
    ],
)
def test_versions_that_cannot_be_are_refused(found: list[tuple[Any, ...]], why: str, tmp_path: Path) -> None:
    dataset = theirs(tmp_path / "theirs", *found, kind=pa.int64())
    with pytest.raises(ConfigError, match=why):
        Table.create(str(tmp_path / "table"), {**SETTINGS, "op": "", "order_by": "seq"}, dataset=dataset)
    (dataset / "_delta_log").mkdir()
    with pytest.raises(ConfigError, match="has a log, _delta_log, that decides which of its files count"):
        Table.create(str(tmp_path / "table"), {**SETTINGS, "op": "", "order_by": "seq"}, dataset=dataset)
    table = pq.read_table(dataset / "part.parquet").drop_columns(["__END_AT"])
    pq.write_table(table, dataset / "part.parquet")
    with pytest.raises(ConfigError, match="has __START_AT, and lacks __END_AT"):
        Table.create(str(tmp_path / "table"), {**SETTINGS, "op": "", "order_by": "seq"}, dataset=dataset)
