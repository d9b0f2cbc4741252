"""Row counts in control files, for files with named fields."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest

from mutator.errors import DataError
from tests.support import local_engine
from tests.support.columns_data import file_of

ROWS = pa.table({"id": ["a", "b", "c"], "at": pa.array([1, 2, 3]), "note": ["x", 'a "b"\n\nc,d', None]})
SETTINGS = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", "feed.control.suffix": ".ctl"}


def run(tmp_path, file_format, says, *, pack=bytes, suffix=""):
    for name, table in (("master/m", ROWS.slice(0, 1)), ("feed/u_1", ROWS)):
        path = tmp_path / f"{name}.{file_format}"
        path.parent.mkdir(parents=True)
        path.write_bytes(file_of(file_format, table))
    feed = tmp_path / "feed" / f"u_1.{file_format}"
    packed = feed.with_name(feed.name + suffix)
    content = feed.read_bytes()
    feed.unlink()
    packed.write_bytes(pack(content))
    packed.with_name(packed.name + ".ctl").write_text(f"rows={says}\n")
    return local_engine.mutate(
        SETTINGS, master=str(tmp_path / "master"), feed=[str(tmp_path / "feed")], output=str(tmp_path / "out")
    )


@pytest.mark.parametrize("file_format", ["csv", "avro", "parquet", "orc"])
def test_correct_number_of_rows_in_the_control_file(file_format, tmp_path):
    assert run(tmp_path, file_format, 3).counts["feed rows"] == 3


@pytest.mark.parametrize("file_format", ["csv", "avro", "parquet", "orc"])
def test_wrong_number_of_rows_stops_the_run(file_format, tmp_path):
    with pytest.raises(DataError, match=r"says rows=4, and it has rows=3") as caught:
        run(tmp_path, file_format, 4)
    assert caught.value.kind == "control.differs"
    assert not (tmp_path / "out").exists()


def test_rows_of_a_compressed_file(tmp_path):
    assert run(tmp_path, "csv", 3, pack=gzip.compress, suffix=".gz").counts["feed rows"] == 3


def test_a_row_of_several_lines_counts_once_with_any_delimiter(tmp_path):
    for name, content in (("master/m.csv", b""), ("feed/u_1.csv", b'"a";1;"x\ny"\n"b";"2";z\n')):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_bytes(b"id;at;note\n" + content)
    (tmp_path / "feed" / "u_1.csv.ctl").write_text("rows=2\n")
    report = local_engine.mutate(
        SETTINGS | {"field.delim.regex": ";"},
        master=str(tmp_path / "master"),
        feed=[str(tmp_path / "feed")],
        output=str(tmp_path / "out"),
    )

    assert report.counts["feed rows"] == 2
