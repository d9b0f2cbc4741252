"""Files with named fields on a real S3 server and a real HDFS: read in parts, written, and merged as on a disk."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mutator.storage import storage_for
from tests.support import local_engine
from tests.support.columns_data import file_of, read_whole
from tests.support.plain_workflow import put, read
from tests.support.storage_places import PLACES

ROWS = pa.table(
    {
        "id": pa.array([f"k{number}" for number in range(300)]),
        "at": pa.array(range(300), pa.int64()),
        "note": pa.array([None if number % 7 == 0 else f"note {number}, and more" for number in range(300)]),
    }
)
NEWER = pa.table({"id": ["k1", "k300"], "at": pa.array([1000, 1001]), "note": ["newer", None]})
SETTINGS = {
    "id.field.ordinals": "id",
    "temporal.ordering.field.ordinal": "at",
    "split.bytes": "700",
    "num.reducer": "2",
}


@pytest.fixture(params=PLACES)
def root(request):
    return PLACES[request.param](request)


def lay_out(base, file_format):
    for name, table in (("master/m", ROWS), ("feed/u_1", NEWER)):
        storage_for(base).make_directory(f"{base}/{name.split('/')[0]}")
        put(f"{base}/{name}.{file_format}", file_of(file_format, table, rows=40))


def merged(base):
    runs = [("master", "one"), ("one", "two")]  # a foreign master by shuffle, then our own bucket by bucket
    joins = []
    for master, output in runs:
        report = local_engine.mutate(
            SETTINGS | {"consumed.files": "merge"},
            master=f"{base}/{master}",
            feed=[f"{base}/feed"],
            output=f"{base}/{output}",
        )
        joins.append(report.join)
    assert joins == ["shuffle", "aligned"]


def rows(base, file_format):
    paths = sorted(one.path for one in storage_for(base).entries(f"{base}/two") if one.name.startswith("part-"))
    found = [one.batch.to_pylist() for path in paths for one in read_whole(file_format, read(path))]
    return sorted((row for batch in found for row in batch), key=repr)


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("file_format", ["csv", "avro", "parquet", "orc"])
def test_the_same_rows_as_on_a_disk(file_format, root, tmp_path):
    here = str(tmp_path / "here")
    for base in (here, root):
        lay_out(base, file_format)
        merged(base)

    assert rows(root, file_format) == rows(here, file_format)
    assert len(rows(here, file_format)) == 301
