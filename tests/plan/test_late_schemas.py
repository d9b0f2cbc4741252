"""A late feed file adds its mutations but not its schema: the newest file so far determines the schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mutator.dataset import manifest
from mutator.errors import ConfigError
from tests.support import local_engine
from tests.support.columns_data import file_of, read_whole

SETTINGS = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", "default.weight": "7"}
OLD = {"id": ["a"], "at": pa.array([1]), "note": ["old"]}


def run(work, file_format, master, name, table, **settings):
    path = work / "feed" / f"{name}.{file_format}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(file_of(file_format, pa.table(table)))
    output = work / f"after {name}"
    report = local_engine.mutate(
        SETTINGS | settings, master=str(master), feed=[str(path)], output=str(output), engine="blocks"
    )
    return output, report


def names(output):
    known = manifest.parse((output / manifest.PATH).read_bytes(), "")
    file_format = known.spec["format"]
    return read_whole(file_format, (output / known.files[0].path).read_bytes())[0].batch.schema.names


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("file_format", ["csv", "avro", "parquet", "orc"])
def test_an_older_file_does_not_take_the_schema_back(file_format, tmp_path):
    (tmp_path / "master").mkdir()
    (tmp_path / "master" / f"m.{file_format}").write_bytes(file_of(file_format, pa.table(OLD)))
    newer = OLD | {"at": pa.array([5]), "weight": pa.array([1])}
    first, _ = run(tmp_path, file_format, tmp_path / "master", "u_5", newer)
    assert names(first) == ["id", "at", "note", "weight"]

    late, report = run(tmp_path, file_format, first, "u_3", OLD | {"id": ["b"], "at": pa.array([3])})
    assert names(late) == ["id", "at", "note", "weight"]
    assert any("field weight is new" in note and "get 7" in note for note in report.notes)

    again, _ = run(tmp_path, file_format, late, "u_4", OLD | {"id": ["c"], "at": pa.array([4])})
    assert names(again) == ["id", "at", "note", "weight"], "the late file is not the newest one now"

    removed = {"removed.fields": "weight"}
    last, report = run(tmp_path, file_format, again, "u_6", OLD | {"at": pa.array([6])}, **removed)
    assert names(last) == ["id", "at", "note"]
    assert any("left out" in note and "weight" in note for note in report.notes)


def test_a_default_of_an_unknown_field_is_an_error(tmp_path):
    (tmp_path / "master").mkdir()
    (tmp_path / "master" / "m.avro").write_bytes(file_of("avro", pa.table(OLD)))

    newer = OLD | {"weight": pa.array([1])}
    with pytest.raises(ConfigError, match=r"default.waight: no input has a field waight; did you mean weight\?"):
        run(tmp_path, "avro", tmp_path / "master", "u_5", newer, **{"default.waight": "1", "default.weight": "2"})


def test_an_unused_default_is_reported(tmp_path):
    (tmp_path / "master").mkdir()
    (tmp_path / "master" / "m.csv").write_bytes(file_of("csv", pa.table(OLD | {"weight": pa.array([1])})))
    _, report = run(tmp_path, "csv", tmp_path / "master", "u_5", OLD, **{"removed.fields": "weight"})

    assert "default.weight has no use: u_5.csv has no such field" in report.notes


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_of_files_without_a_sequence_the_last_name_decides(order, tmp_path):
    (tmp_path / "master").mkdir()
    (tmp_path / "master" / "m.csv").write_bytes(file_of("csv", pa.table(OLD)))
    for name, more in (("a", {}), ("b", {"weight": pa.array([1])})):
        (tmp_path / f"{name}.csv").write_bytes(file_of("csv", pa.table({**OLD, "at": pa.array([5]), **more})))
    feed = [str(tmp_path / f"{name}.csv") for name in order]
    local_engine.mutate(SETTINGS, master=str(tmp_path / "master"), feed=feed, output=str(tmp_path / "out"))

    assert names(tmp_path / "out") == ["id", "at", "note", "weight"]
