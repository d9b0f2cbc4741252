"""Fields that are not sent: what each setting takes, and what each refuses, in both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.errors import ConfigError, DataError
from mutator.table.table import Table
from tests.support.applies_here import applies_here
from tests.support.named_runs import ENGINES, Work, avro

__all__ = ["applies_here"]

MASTER = b"id,at,price,name\n1,1,30,lamp\n2,1,55,chair\n"
HEAD = b"id,at,price,name\n"
TEXT = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1"}
QUARANTINE = {"reject.policy": "quarantine", "max.reject.fraction": "1"}


def work_of(tmp_path: Path, engine: str = "blocks", master: bytes = MASTER, suffix: str = "csv", **more: Any) -> Work:
    work = Work(tmp_path, engine, **more)
    work.put(f"master/m.{suffix}", master)
    return work


def values(work: Work) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in work.rows()]


PARTITIONS = {"partitioned.by": "name", "key.scope": "partition"}
REJECTS = [
    ({"unset.value": "~"}, HEAD + b"~,2,1,x\n", "field id (ID) is not sent, and every row needs it"),
    ({"unset.value": "~"}, HEAD + b"1,~,1,x\n", "field at (order value) is not sent, and every row needs it"),
    (
        {"unset.value": "~", "partitioned.by": "name", "key.scope": "partition"},
        HEAD + b"1,2,1,~\n",
        "field name (partition) is not sent",
    ),
    ({"columns.to.update": "name"}, HEAD + b'1,2,1,"price, nme"\n', "(columns.to.update) names 'nme', which is no"),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("settings", "feed", "reason"), REJECTS)
def test_a_row_without_what_it_needs_is_a_reject(
    tmp_path: Path, settings: dict[str, str], feed: bytes, reason: str, engine: str
) -> None:
    work = Work(tmp_path, engine if "partitioned.by" not in settings else "blocks")
    work.put("feed/f.csv", feed + b"7,7,7,price\n")
    found = work.run({**settings, **QUARANTINE, "allow.empty.master": "true"})
    assert [reason in str(one) for one in found.rejects["feed"]] == [True]
    assert found.counts["feed inserted"] == 1


def test_a_hint_says_that_every_row_has_what_it_needs(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    work.put("feed/f.csv", HEAD + b"1,~,1,x\n")
    with pytest.raises(DataError, match=r"delivered with it, or, if '~' is a value there, set another unset"):
        work.run({"unset.value": "~"})


FAULTS: list[tuple[dict[str, str], str]] = [
    ({"columns.to.update": "id"}, "field id is also a field of id.field.ordinals"),
    ({"unset.value": "~", "csv.null": "~"}, "unset.value: '~' is also csv.null, so nothing tells a field that is not"),
    ({"columns.to.update": "at"}, "field at is also a field of temporal.ordering.field.ordinal"),
    ({"ignore.null.updates": "price,id"}, "field id is part of the ID or of the order value"),
    ({"ignore.null.updates": "name", **PARTITIONS}, "field name is part of the key by key.scope=partition"),
    ({"unset.absent": "true", "feed.dialect": "maxwell-json"}, "whose messages say what they send"),
    ({"columns.to.update": "sent"}, "no input has a field sent"),
    ({"ignore.null.updates": "all except pric"}, "did you mean price?"),
]


@pytest.mark.parametrize(("settings", "fault"), FAULTS)
def test_settings_that_do_not_fit_stop_the_run(tmp_path: Path, settings: dict[str, str], fault: str) -> None:
    work = work_of(tmp_path)
    work.put("feed/f.csv", HEAD + b"1,2,3,x\n")
    with pytest.raises(ConfigError) as raised:
        work.run(settings)
    assert fault in str(raised.value)


TEXT_FAULTS = [
    ({"unset.absent": "true"}, "needs files whose fields have names"),
    ({"columns.to.update": "3"}, "needs files whose fields have names"),
    ({"ignore.null.updates": "9"}, "field 9 is beyond the 4 fields of a row"),
    ({"unset.value": "~", "field.count": "any"}, "rows have any number of fields"),
]


@pytest.mark.parametrize(("settings", "fault"), TEXT_FAULTS)
def test_settings_that_do_not_fit_delimited_text_stop_the_run(
    tmp_path: Path, settings: dict[str, str], fault: str
) -> None:
    work = work_of(tmp_path, master=b"1,1,30,lamp\n", suffix="txt", settings=TEXT)
    work.put("feed/f.txt", b"1,2,3,x\n")
    with pytest.raises(ConfigError) as raised:
        work.run(settings)
    assert fault in str(raised.value)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("named", "name"), [("3", ""), ("all", "lamp"), ("all except 3", "")])
def test_null_of_delimited_text_says_nothing(tmp_path: Path, engine: str, named: str, name: str) -> None:
    """Ordinals are those of the feed, which has an op code that is cut."""
    work = work_of(tmp_path, engine, b"1,1,30,lamp\n2,1,55,chair\n", "txt", settings={**TEXT, "op": "2"})
    work.put("feed/f.txt", b"1,2,U,NULL,NULL\n2,2,D,NULL,NULL\n")
    work.run({"ignore.null.updates": named, "csv.null": "NULL", "op.code.in.master": "false"})
    price = "NULL" if named == "all except 3" else "30"
    name = name or ("lamp" if named == "all except 3" else "NULL")
    assert [path.read_text() for path in work.files if path.stat().st_size] == [f"1,2,{price},{name}\n"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_an_overwrite_provides_everything(tmp_path: Path, suffix: str, engine: str) -> None:
    """Its NULL is NULL, a field that is not sent is a reject, and earlier runs may have had the settings."""
    head, settings = (HEAD, {}) if suffix == "csv" else (b"", {"settings": TEXT})
    master = MASTER if suffix == "csv" else MASTER.removeprefix(HEAD)
    work = work_of(tmp_path, engine, master, suffix, **settings)
    unset = {"unset.value": "~", "ignore.null.updates": "2" if suffix == "txt" else "price"}
    whole = {"write.operation": "insert_overwrite_table", "max.delete.fraction": "1"}
    work.put(f"feed/f1.{suffix}", head + b"1,2,~,desk\n")
    work.put(f"bad/f2.{suffix}", head + b"1,3,4,~\n")
    work.put(f"good/f3.{suffix}", head + b"1,3,,sofa\n")
    work.run(unset)
    with pytest.raises(DataError) as raised:
        work.run({**unset, **whole}, master="out1", feed="bad")
    assert "is not sent, and write.operation=insert_overwrite_table replaces whole records" in str(raised.value)
    work.run({**unset, **whole}, master="out1", feed="good")
    assert [path.read_bytes() for path in work.files if path.stat().st_size > len(head)] == [head + b"1,3,,sofa\n"]


def test_a_field_that_may_be_unset_may_be_null(tmp_path: Path) -> None:
    """A patch may begin a record, so the schema says so from then on, unless the user's own schema excludes it."""
    fields = [("id", "int"), ("at", "long"), ("price", "int"), ("name", "string")]
    work = Work(tmp_path)
    work.put_avro("master/m", avro(*fields), [{"id": 1, "at": 1, "price": 30, "name": "lamp"}])
    work.put_avro("feed/f", avro(*fields[:3]), [{"id": 2, "at": 2, "price": 5}])
    report = work.run({"unset.absent": "true", "patch.unknown": "insert"})
    assert "field name may be NULL from now on: a patch may begin a record without it" in report.notes
    assert [row["name"] for row in work.rows()] == ["lamp", None]
    work.put("own.avsc", str(avro(*fields)).replace("'", '"').encode())
    with pytest.raises(ConfigError) as raised:
        work.run({"unset.absent": "true", "patch.unknown": "insert", "output.schema": str(tmp_path / "own.avsc")})
    assert str(raised.value).endswith("a patch may begin a record without it; let it be NULL there")


def test_a_note_names_the_file_that_adds_a_field(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    work.put("feed/f1.csv", b"id,at,colour\n1,2,red\n")
    work.put("feed/f2.csv", b"id,at,size\n1,3,7\n")
    report = work.run({"unset.absent": "true"})
    assert {
        "field colour is new in f1.csv; rows without it get NULL",
        "field size is new in f2.csv; rows without it get NULL",
    } <= {*report.notes}


def test_a_text_says_nothing_in_files_with_types(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    work.put("feed/f", pa.table({"id": ["1"], "at": ["2"], "price": ["1"], "name": ["~"]}), "orc")
    report = work.run({"unset.value": "~"})
    assert any("unset.value=~ means nothing in f.orc" in one for one in report.warnings)
    assert values(work) == [("1", "2", "1", "~"), ("2", "1", "55", "chair")]


def test_patches_of_unknown_records_do_what_they_did_at_first(tmp_path: Path) -> None:
    """What records have beside them depends on it. Without the setting, later runs keep to it."""
    work = work_of(tmp_path)
    work.put("feed/f1.csv", HEAD + b"8,5,~,sofa\n")
    work.put("later/f2.csv", HEAD + b"9,5,~,bed\n")
    work.run({"unset.value": "~", "patch.unknown": "insert"})
    with pytest.raises(ConfigError) as raised:
        work.run({"unset.value": "~", "patch.unknown": "wait"}, master="out1", feed="later")
    assert "patch.unknown: wait, but the first run with patches of" in str(raised.value)
    assert "had insert, and what its records have beside them depends on it; set patch.unknown=insert" in str(
        raised.value
    )
    assert work.run({"unset.value": "~"}, master="out1", feed="later").counts["feed inserted"] == 1


def test_a_list_of_fields_is_text(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    work.put("feed/f", pa.table({"id": ["1"], "at": ["2"], "sent": [7], "price": ["1"], "name": ["x"]}), "parquet")
    with pytest.raises(DataError) as raised:
        work.run({"columns.to.update": "sent"})
    assert "is of type int64; the field of columns.to.update must be text" in str(raised.value)


def test_values_that_are_not_listed_need_no_type(tmp_path: Path) -> None:
    """Nor need a file have the op code, the list or all fields where it has deletes alone."""
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at"})
    work = Work(tmp_path)
    work.put(
        "feed1/f", pa.table({"id": [1, 2, 3], "at": [1, 1, 1], "price": [1, 2, 3], "name": ["a", "b", "c"]}), "orc"
    )
    work.put("feed2/f.csv", b'id,at,price,name,sent\n1,2,?,x,name\n2,2,7,?,"id, price"\n')
    work.put("feed2/deleted_f.csv", b"id,at\n3,2\n")
    table.apply(str(tmp_path / "feed1"))
    table.apply(str(tmp_path / "feed2"), columns_to_update="sent", deleted_record_file_prefix="deleted")
    assert sorted(row["name"] + str(row["price"]) for row in table.scan().to_arrow().to_pylist()) == ["b7", "x1"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_delete_may_lack_fields_beside_patches(tmp_path: Path, engine: str) -> None:
    """Its encoded record has no value of a field that may not be NULL, and is never taken apart."""
    fields = [("id", "int"), ("at", "long"), ("name", "string")]
    nullable = [*fields[:2], ("op", "string"), ("name", ["null", "string"])]
    work = Work(tmp_path, engine)
    work.put_avro("master/m", avro(*fields), [{"id": n, "at": 1, "name": "lamp"} for n in (1, 2)])
    rows = [(1, 2, "D", None), (1, 3, "U", "sofa"), (2, 2, "U", None), (2, 2, "D", None)]
    names = [name for name, _ in nullable]
    work.put_avro("feed/f", avro(*nullable), [dict(zip(names, row, strict=True)) for row in rows])
    work.run({"op": "op", "ignore.null.updates": "name"})
    assert values(work) == [(1, 3, "sofa")]
