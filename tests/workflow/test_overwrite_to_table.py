"""Insert overwrites of a table by a workflow: consumed files, files without rows, claims and recovery."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from mutator.errors import MutatorError
from tests.support.child_process import in_child
from tests.support.table_base import TableBase

PARTITIONED = {"partitioned.by": "name", "key.scope": "partition"}
BY_PARTITION = {"write.operation": "insert_overwrite"}
WHOLE = {"write.operation": "insert_overwrite_table"}


@pytest.fixture
def base(tmp_path: Path) -> TableBase:
    found = TableBase(tmp_path / "base", **PARTITIONED)
    found.arrive("first_1.csv", "1,5,U,a", "2,5,U,b", "3,5,U,b")
    found.run()
    return found


def test_a_run_replaces_the_partitions_of_its_files(base: TableBase) -> None:
    base.arrive("more_2.csv", "4,1,U,b")
    outcome = base.run(**BY_PARTITION)
    assert (outcome.report.operation, outcome.report.replaced) == ("insert_overwrite", ("name=b",))
    assert base.rows() == ["1,5,a", "4,1,b"]
    base.arrive("all_3.csv", "9,1,U,c")
    assert base.run(**WHOLE).report.counts["master deleted by absence"] == 2
    assert base.rows() == ["9,1,c"]
    assert base.names("incr") == []


def test_a_file_that_arrives_once_more_is_merged_once_more(base: TableBase) -> None:
    for version in (2, 4):
        base.arrive("more_2.csv", "4,1,U,b")
        assert base.run(**BY_PARTITION).version == version
        assert base.rows() == ["1,5,a", "4,1,b"]
        base.arrive(f"other_{version}.csv", "7,9,U,b")
        base.run()
    assert base.rows() == ["1,5,a", "4,1,b", "7,9,b"]


def test_files_without_rows_are_archived(base: TableBase) -> None:
    base.arrive("none_2.csv")
    assert base.run(**BY_PARTITION).version == 2
    assert (base.names("incr"), len(base.rows())) == ([], 3)
    base.arrive("none_3.csv")
    with pytest.raises(MutatorError, match="would delete every record"):
        base.run(**WHOLE)
    assert (base.names("incr"), len(base.rows())) == (["none_3.csv"], 3)
    base.run(**WHOLE, **{"allow.empty.feed": "true"})
    assert (base.names("incr"), base.rows()) == ([], [])


def test_one_sequence_at_a_time(base: TableBase) -> None:
    base.arrive("more_3.csv", "5,1,U,b")
    base.arrive("more_2.csv", "4,1,U,b")
    base.run(**BY_PARTITION)
    assert (base.rows(), base.names("incr")) == (["1,5,a", "4,1,b"], ["more_3.csv"])
    base.run(**BY_PARTITION)
    assert (base.rows(), base.names("incr")) == (["1,5,a", "5,1,b"], [])


@pytest.mark.processes
@pytest.mark.parametrize(("point", "committed"), [("table.commit", False), ("table.committed", True)])
def test_a_killed_run_is_undone_or_finished(base: TableBase, point: str, committed: bool) -> None:
    base.arrive("more_2.csv", "4,1,U,b")
    assert in_child(lambda: base.run(**BY_PARTITION), point)[0] == signal.SIGKILL
    assert base.table.refresh().version == 1 + committed
    base.run(**BY_PARTITION)
    assert (base.rows(), base.names("incr")) == (["1,5,a", "4,1,b"], [])
    assert [one.kind for one in base.table.refresh().log()].count("insert_overwrite") == 1
