"""Creating a table: where it may be, what it may begin with, and which settings it keeps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator.cli import main
from mutator.dataset.versions.log import TableLog
from mutator.errors import ConfigError, MutatorError, StorageError, error
from mutator.table.table import Table

SETTINGS = {"key": "id", "order_by": "at", "header": True, "max.delete.fraction": "1"}
AVRO = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": "int"}, {"name": "name", "type": "string"}],
}


def feed(directory, text):
    directory.mkdir(parents=True)
    (directory / f"{directory.name}.csv").write_text("id,at,name\n" + text)
    return str(directory)


def test_a_schema_is_kept_in_the_table(tmp_path, monkeypatch):
    (tmp_path / "row.avsc").write_text(json.dumps(AVRO, indent=2))
    monkeypatch.chdir(tmp_path)
    Table.create("t", {**SETTINGS, "output.schema": "row.avsc"})
    (tmp_path / "row.avsc").unlink()
    monkeypatch.chdir("/")
    table = Table(str(tmp_path / "t"))

    report = table.apply(feed(tmp_path / "first", "1,1,a\n2,1,b\n"))

    assert {field.name: str(field.type) for field in table.schema} == {"id": "int64", "at": "int32", "name": "string"}
    assert len(str(report)) < 2_000  # the schema is not repeated in full
    assert not table.verify().differences
    assert table.export(str(tmp_path / "out")).rows == 2


def test_a_schema_that_does_not_exist_or_is_none_is_refused_at_once(tmp_path):
    with pytest.raises(StorageError, match=r"no\.avsc"):
        Table.create(str(tmp_path / "t"), {**SETTINGS, "output.schema": str(tmp_path / "no.avsc")})
    (tmp_path / "bad.avsc").write_text("[")
    with pytest.raises(ConfigError, match="is not an Avro schema"):
        Table.create(str(tmp_path / "t"), {**SETTINGS, "output.schema": str(tmp_path / "bad.avsc")})
    assert not (tmp_path / "t").exists()


def test_another_format_than_parquet_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="the files of a table are Parquet"):
        Table.create(str(tmp_path / "t"), {**SETTINGS, "output.format": "csv"})


COMMAS = {"key": ["price, EUR", "1"], "order_by": ["7"], "op": "op", "delete_codes": ["u,i"], "max_delete_fraction": 1}
OF_COMMAS = {"price, EUR": [1, 2, 3], "1": [5, 6, 7], "7": [1, 1, 1], "op": ["i"] * 3}


def test_lists_of_settings_keep_their_elements(tmp_path):
    first, second = pa.table(OF_COMMAS), pa.table({**OF_COMMAS, "7": [2, 2, 2], "op": ["u,i", "u", "i"]})
    table = Table.create(str(tmp_path / "t"), **COMMAS)
    assert table.describe().key == ["price, EUR", "1"]
    assert table.describe().order == "7"

    for feed in (first, second):
        table.apply(feed)

    merged = mutator.merge(master=first, feed=second, **COMMAS).result.to_arrow()
    assert sorted(table.scan(["1"]).to_arrow()["1"].to_pylist()) == sorted(merged["1"].to_pylist()) == [6, 7]
    assert Table(table.path).describe().key == ["price, EUR", "1"]
    assert not table.verify().differences


@pytest.mark.parametrize("file_format", ["orc", "avro", "csv", "parquet"])
def test_all_partitions_of_a_dataset_become_files_of_tables(tmp_path, file_format):
    """Even without a mutation: they have another format, or timestamps of another unit."""
    times = pa.array([1000, 2000, 3000], pa.timestamp("ns"))
    rows = pa.table({"id": [1, 2, 3], "at": [1, 1, 1], "day": ["a", "b", "b"], "t": times})
    rows = rows.drop_columns("t") if file_format == "avro" else rows
    own = {"key": "id", "order_by": "at", "output_format": file_format, "nanos": "keep"}
    path = {"partitioned_by": "day", "partition_columns": "file"}
    mutator.merge(master=rows.slice(0, 0), feed=rows, output=str(tmp_path / "out"), **own, **path)

    table = Table.create(str(tmp_path / "t"), dataset=str(tmp_path / "out"), key="id", order_by="at")

    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 2, 3]
    assert not table.verify().differences
    files = [pq.read_schema(path) for path in (tmp_path / "t").rglob("*.rows")]
    assert len(files) == 2
    assert all(schema.field("t").type == pa.timestamp("us") for schema in files if "t" in schema.names)


def test_fields_of_a_dataset_called_like_ordinals_stay_names(tmp_path):
    names = {"key": ["1"], "order_by": ["0"], "op": ["7"], "op_code_keep": True}
    rows = pa.table({"1": [1, 2], "0": [5, 6], "7": ["u", "u"]})
    mutator.merge(master=rows.slice(0, 0), feed=rows, output=str(tmp_path / "out"), **names)

    table = Table.create(str(tmp_path / "t"), dataset=str(tmp_path / "out"))
    table.apply(pa.table({"1": [1, 2], "0": [4, 7], "7": ["u", "u"]}))

    assert (table.describe().key, table.describe().order) == (["1"], "0")
    assert sorted(table.scan(["0"]).to_arrow()["0"].to_pylist()) == [5, 7]


def test_lists_of_a_toml_file_keep_their_elements(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text('key = ["price, EUR", 2]\norder_by = "at"\ndelete_codes = ["x,y", "z"]\n')

    assert main(["table", "create", "t", "--config", "t.toml", "--json"]) == 0

    assert Table("t").describe().settings == {
        "key": ["price, EUR", 2],
        "order_by": "at",
        "delete_codes": ["x,y", "z"],
    }
    assert "key" not in json.loads(capsys.readouterr().out)["notes"][0]


def test_a_field_called_like_an_ordinal_is_another_field(tmp_path):
    table = Table.create(str(tmp_path / "t"), key=["1"], order_by="7")
    with pytest.raises(ConfigError, match=r"key.* 1, but this apply has ordinal 1"):
        table.apply(pa.table(OF_COMMAS), key=1)


def test_a_file_is_no_table(tmp_path, capsys):
    path = tmp_path / "f.csv"
    path.write_text("id\n1\n")
    with pytest.raises(ConfigError) as fault:
        Table(path)
    assert fault.value.kind == "table.missing"
    for command in ("describe", "verify", "log"):
        assert main(["table", command, str(path)]) == 2
        assert f"{path}: is not a versioned table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "no"], "/no: there is no such directory"),
        (
            ["--key", "id", "--order-type", "x"],
            "the command line: these settings cannot be used:\n  --order-type: 'x' must",
        ),
        (["--config", "t.properties"], "t.properties: these settings cannot be used:\n  order_type: 'x' must"),
    ],
)
def test_wrong_settings_name_their_place(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.properties").write_text("key=id\norder_type=x\n")
    assert main(["table", "create", "t", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_table_within_a_table_is_refused(tmp_path):
    Table.create(str(tmp_path / "t"), {**SETTINGS, "partitioned.by": "name"})

    with pytest.raises(ConfigError, match="is within the table"):
        Table.create(str(tmp_path / "t" / "a" / "name=x"), SETTINGS)
    assert not (tmp_path / "t" / "a").exists()


def test_messages_on_a_dataset_in_place_of_a_table_say_what_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"id": [1], "at": [1]})
    mutator.merge(master=rows[:0], feed=rows, output="my master", key="id", order_by="at", output_format="parquet")
    key, taken_over = ["--key", "id", "--order-by", "at"], "mutator table create NEW --dataset 'my master'"
    for words in (["create", "my master", *key], ["apply", "my master", "--feed", "my master"]):
        assert main(["table", *words]) in (2, 5)
        assert taken_over.replace("my master", f"{tmp_path}/my master") in capsys.readouterr().err
    assert main(["table", "create", "NEW", "--dataset", "my master"]) == 0
    assert main(["table", "create", "NEW", *key]) == 5
    assert f"merge into the table with: mutator table apply {tmp_path}/NEW --feed" in capsys.readouterr().err
    for words, cure in (
        (["changes", "NEW"], "changes"),
        (["workflow", "status", "NEW"], "export"),
    ):
        assert main(words) == 2
        assert re.search(rf"with: mutator table {cure} (\S*/)?NEW", capsys.readouterr().err), words
    assert main(["table", "scan", "none"]) == 2
    assert f"or make one with: mutator table create {tmp_path}/none" in capsys.readouterr().err


def test_a_table_is_no_dataset_to_begin_with(tmp_path):
    table = Table.create(str(tmp_path / "t"), SETTINGS)
    table.apply(feed(tmp_path / "first", "1,1,a\n2,1,b\n"))

    with pytest.raises(ConfigError, match="mutator table export"):
        Table.create(str(tmp_path / "other"), SETTINGS, dataset=str(tmp_path / "t"))
    assert not (tmp_path / "other").exists()


BAD_DATASETS = {  # settings that a dataset does not fit, and those that it does
    "rows without a time": ({}, {"master.reject.policy": "quarantine"}),
    "another key": ({"key": "name"}, {"master.reject.policy": "quarantine", "max.duplicate.fraction": 1}),
}


@pytest.mark.parametrize("case", BAD_DATASETS)
def test_a_dataset_that_is_refused_leaves_no_table(tmp_path, case):
    wrong, right = BAD_DATASETS[case]
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "m.csv").write_text("id,at,name\n1,5,lamp\n2,x,desk\n3,7,lamp\n4,8,lamp\n")
    path, first = str(tmp_path / "t"), {"key": "id", "order_by": "at", "order_type": "long", "header": True}

    with pytest.raises(MutatorError):
        Table.create(path, {**first, **wrong}, dataset=tmp_path / "m")
    with pytest.raises(ConfigError, match="is not a versioned table"):
        Table(path)

    table = Table.create(path, {**first, **right}, dataset=tmp_path / "m")
    assert sorted(row["id"] for row in table.scan().to_pylist()) == ["1", "3", "4"]
    assert not Path(path, "_mutator/table/work").exists()


def test_a_managed_dataset_with_another_key_leaves_no_table(tmp_path):
    rows = pa.table({"id": [1, 2], "at": [1, 1], "name": ["lamp", "desk"]})
    master = str(tmp_path / "m")
    mutator.merge(master=rows[:0], feed=rows, output=master, key="id", order_by="at", output_format="parquet")
    with pytest.raises(MutatorError):
        Table.create(str(tmp_path / "t"), key="name", order_by="at", dataset=master)
    with pytest.raises(ConfigError, match="is not a versioned table"):
        Table(str(tmp_path / "t"))
    assert Table.create(str(tmp_path / "t"), key="id", order_by="at", dataset=master).get(2)["name"] == "desk"


def test_a_hint_that_cannot_be_written_is_made_later(tmp_path, monkeypatch):
    def full(*_):
        raise error("storage", path="hint.json", why="No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(TableLog, "write_hint", full)
        table = Table.create(str(tmp_path / "t"), SETTINGS)
    assert table.version == 0
    assert Table(table.path).version == 0


def test_warnings_of_the_merge_of_a_dataset_are_warnings_of_python(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "m.csv").write_text("id,at,name\n1,5,lamp\n2,6,desk\n")
    settings = {"key": "id", "order_by": "at", "header": True, "order_keep": False}
    with pytest.warns(UserWarning, match="drops field at of the master, whose rows then count as older") as found:
        Table.create(tmp_path / "t", dataset=tmp_path / "m", **settings)
    assert [Path(one.filename).name for one in found] == ["test_create.py"]


def test_warnings_after_the_merge_of_a_dataset_are_warnings_of_python(tmp_path):
    (tmp_path / "m").mkdir()
    pq.write_table(pa.table({"id": ["a", "b"], "at": [1, None]}), tmp_path / "m" / "m.parquet")
    settings = {"key": "id", "order_by": "at", "master_reject_policy": "quarantine", "max_reject_fraction": 1}
    with pytest.warns(UserWarning, match="With null_order=.lowest., NULL is older than all other order values"):
        Table.create(tmp_path / "t", dataset=tmp_path / "m", **settings)
