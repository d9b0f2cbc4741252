"""A field of the feed that shows deletes, and no op code field: the deletes would be upserts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mutator
from mutator.errors import MutatorError
from tests.support.columns_data import HEADER, file_of

MASTER = pa.table({"id": [1, 2, 3], "city": ["Bonn", "Rome", "Oslo"], "at": [1, 1, 1]})
FORMATS = ["csv", "parquet", "avro", "orc"]


def feed_with(**columns: Any) -> Any:
    return pa.table({"id": [1, 2], "city": ["Bonn", "Riga"], "at": [2, 2], **columns})


def merge(directory: Path, feed: Any, file_format: str | None = None, **settings: Any) -> mutator.Report:
    master: Any = MASTER
    if file_format is not None:
        for name, table in (("master", MASTER), ("feed", feed)):
            (directory / name).mkdir()
            (directory / name / f"{name}.{file_format}").write_bytes(file_of(file_format, table, HEADER))
        master, feed = str(directory / "master"), str(directory / "feed")
    return mutator.merge(master=master, feed=feed, key="id", order_by="at", max_delete_fraction=1, **settings)


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("file_format", [None, *FORMATS])
@pytest.mark.parametrize(
    ("columns", "cure"),
    [
        ({"op": ["U", "D"]}, {"op": "op"}),
        ({"change_type": ["delete", "insert"]}, {"op": "change_type", "delete_codes": "delete"}),
        ({"op": ["D", "D"]}, {"op": "op"}),
        ({"_change_type": ["update_preimage", "delete"]}, {"op": "_change_type", "delete_codes": "delete"}),
        ({"is_deleted": [True, False]}, {"op": "is_deleted", "delete_codes": "true"}),
        ({"_hoodie_is_deleted": [True, False]}, {"op": "_hoodie_is_deleted", "delete_codes": "true"}),
        ({"_PEERDB_IS_DELETED": [1, 0]}, {"op": "_PEERDB_IS_DELETED", "delete_codes": "1"}),
        ({"del_flag": ["Y", "N"]}, {"op": "del_flag", "delete_codes": "Y"}),
        ({"_sdc_deleted_at": ["2026-01-31 10:00:00", None]}, {"op": "_sdc_deleted_at", "delete.when": "not null"}),
        ({"deleted_at": ["9999-12-31", "2026-01-31"]}, {"op": "deleted_at", "delete.when": "not null"}),
        ({"deleted_on": ["2026-01-31T10:00:00", "NULL"]}, {"op": "deleted_on", "delete.when": "not null"}),
        ({"deletedAt": [None, datetime(2026, 1, 31, tzinfo=UTC)]}, {"op": "deletedAt", "delete.when": "not null"}),
    ],
)
def test_a_forgotten_op_code_field_stops_a_merge(
    tmp_path: Path, columns: Any, cure: dict[str, str], file_format: str | None
) -> None:
    with pytest.raises(MutatorError, match=f"field {cure['op']}, which the master lacks") as fault:
        merge(tmp_path / "one", feed_with(**columns), None)
    assert fault.value.kind == "op.forgotten"
    for setting in cure:
        assert f"{setting}=" in str(fault.value).replace("delete_when", "delete.when")
    more = {"ignore_op_code": "update_preimage"} if "_change_type" in columns else {}
    settings = {name.replace(".", "_"): value for name, value in cure.items()}
    report = merge(tmp_path, feed_with(**columns), file_format, **settings, **more)
    assert report.counts["feed deleted"] == (2 if columns == {"op": ["D", "D"]} else 1)


def test_the_name_of_the_field_explains_its_numbers(tmp_path: Path) -> None:
    with pytest.raises(MutatorError, match=r"field __\$operation, which the master lacks.*delete_codes=.*1"):
        merge(tmp_path, feed_with(**{"__$operation": [2, 1]}))


@pytest.mark.parametrize("columns", [{"op": ["U", "D"]}, {"is_deleted": [True, False]}])
def test_a_file_of_changes_is_no_snapshot(tmp_path: Path, columns: Any) -> None:
    full = {"sync_mode": "full", "max_absence_fraction": 1}
    with pytest.raises(MutatorError, match='no snapshot, so leave sync_mode="full" out, and set op=') as fault:
        merge(tmp_path / "one", feed_with(**columns), None, **full)
    assert fault.value.kind == "op.forgotten"
    (field,) = columns
    known = merge(tmp_path, feed_with(**columns), "csv", **full, default={field: "?"})
    assert known.counts["master deleted by absence"] == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"size": ["S", "M"]},
        {"is_deleted": [False, False]},
        {"code": ["U", "I"]},
        {"grade": ["D", "E"]},
        {"op": [1, 2]},
        {"size": ["d", "d"]},
        {"deleted_at": [None, None]},
        {"deleted_by": ["ann", "bob"]},
        {"not_deleted": [True, False]},
    ],
)
def test_other_new_fields_are_added(tmp_path: Path, columns: Any) -> None:
    assert set(columns) < set(merge(tmp_path, feed_with(**columns)).result.to_arrow().column_names)


def test_a_default_shows_a_new_field(tmp_path: Path) -> None:
    report = merge(tmp_path, feed_with(op=["U", "D"]), default={"op": "?"})
    assert sorted(report.result.to_arrow().column("op").to_pylist()) == ["?", "D", "U"]


def test_a_master_with_deletes_says_so(tmp_path: Path) -> None:
    once = merge(tmp_path, feed_with(op=["U", "D"]), default={"op": "?"})
    with pytest.raises(MutatorError, match="op") as fault:
        mutator.merge(master=once.result, feed=feed_with(op=["U", "U"]), key="id", order_by="at", op="op")
    assert fault.value.exit_code in (3, 5)
