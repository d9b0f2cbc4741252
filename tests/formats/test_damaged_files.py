"""Truncated and bit-flipped files of each format: a message that names file and cause, and never a traceback.

A format without checksums cannot reveal every flip: a run over such a file either reports the damage or merges the
values of the flipped file. In a managed master every flip is found.
"""

from __future__ import annotations

import io
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from mutator.errors import MutatorError
from tests.support.columns_data import file_of
from tests.support.named_runs import ENGINES, TYPED, Work, avro

ROWS = 40
TABLE = pa.table(
    {
        "id": [f"k{number}" for number in range(ROWS)],
        "at": pa.array(range(ROWS)),
        "price": pa.array([Decimal("1.50")] * ROWS, pa.decimal128(7, 2)),
        "day": pa.array([date(2026, 1, 1)] * ROWS),
        "seen": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * ROWS, pa.timestamp("us", "UTC")),
        "tags": pa.array([["é", "b"], None] * (ROWS // 2)),
    }
)
KEYS = ["id", "price,day", "seen"]


def flipped(rng, content):
    made = bytearray(content)
    made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def outcome(work, more=None, **places):
    """Return the error of a run, or None; any error that is not in the catalogue fails the test."""
    try:
        work.run(more, **places)
    except MutatorError as fault:
        return fault
    return None


@pytest.mark.parametrize("file_format", TYPED)
def test_a_truncated_file(file_format, tmp_path):
    content = file_of(file_format, TABLE, rows=15)
    rng = random.Random(file_format)
    cuts = {1, 3, 5, len(content) // 2, len(content) - 1, *(rng.randrange(1, len(content)) for _ in range(25))}
    work = Work(tmp_path)
    work.put("master/m", TABLE.slice(0, 3), file_format)
    for cut in cuts:
        work.engine = rng.choice(ENGINES)
        path = work.put(f"feed/f_1.{file_format}", content[:cut])
        fault = outcome(work)
        assert fault is not None, cut
        assert (fault.kind, fault.exit_code) == ("damaged", 3)
        assert str(path) in str(fault)
        assert not work.output.exists()


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_avro_truncated_at_any_offset(codec, tmp_path):
    """A cut exactly between two blocks looks like the end of the file: only there can it go unnoticed."""
    schema = avro(("id", "string"), ("at", "long"))
    made, ends = io.BytesIO(), []
    writer = fastavro.write.Writer(made, schema, codec=codec, sync_interval=1 << 30)
    for block in range(3):
        for number in range(70):  # a count that takes two bytes
            writer.write({"id": f"{block} {number}", "at": 1})
        writer.flush()
        ends.append(made.tell())
    content = made.getvalue()
    work = Work(tmp_path)
    work.put_avro("master/m", schema, [{"id": "a", "at": 1}])
    silent = set()
    for cut in sorted(
        {*range(1, len(content), 29), *ends[:2], *(end + more for end in ends[:2] for more in range(-3, 4))}
    ):
        work.put("feed/f_1.avro", content[:cut])
        fault = outcome(work)
        if fault is None:
            silent.add(cut)
        else:
            assert (fault.kind, "f_1.avro" in str(fault)) == ("damaged", True)
    start = content.index(content[-16:]) + 16
    assert silent <= {start, *ends}
    assert silent >= set(ends[:2])


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("file_format", [*TYPED, "csv"])
def test_a_flip_in_a_feed_file(file_format, tmp_path):
    table = TABLE.drop_columns("tags") if file_format == "csv" else TABLE
    content = file_of(file_format, table, rows=15)
    rng = random.Random(file_format)
    work = Work(tmp_path)
    work.put("master/m", table.slice(0, 3), file_format)
    found = 0
    for _ in range(60):
        work.engine = rng.choice(ENGINES)
        path = work.put(f"feed/f_1.{file_format}", flipped(rng, content))
        fault = outcome(work, {"id.field.ordinals": rng.choice(KEYS), "reject.policy": "quarantine"})
        if fault is not None:
            found += 1
            assert str(path) in str(fault)
            assert fault.exit_code in (2, 3)
    if file_format != "csv":
        assert found


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("where", ["plain", "deep"])
def test_a_field_name_that_is_not_utf8(where, file_format, tmp_path):
    """One flip can cause this; Arrow reports it only when the name is read."""
    more = pa.array([[{"zebra": 1}]]) if where == "deep" else pa.array([1])
    table = pa.table({"id": ["a"], "at": [1], "zebra" if where == "plain" else "v": more})
    stream = pa.BufferOutputStream()
    if file_format == "orc":
        orc.write_table(table, stream, compression="uncompressed")
    else:
        pq.write_table(table, stream, store_schema=False)
    content = stream.getvalue().to_pybytes()
    broken = content.replace(b"zebra", b"\xffebra")
    assert broken != content
    work = Work(tmp_path)
    work.put("master/m", table, file_format)
    path = work.put(f"feed/f_1.{file_format}", broken)
    for engine in ENGINES:
        work.engine = engine
        fault = outcome(work)
        assert fault is not None
        assert (fault.kind, str(path) in str(fault)) == ("damaged", True)


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_a_flip_in_avro_whose_schema_changes(codec, tmp_path):
    """Records are then split into fields, and every value is read."""
    data_types = [
        ("id", "string"),
        ("at", "int"),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ("u", ["null", "int", "string"]),
        ("n", ["null", "int"]),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
    ]
    rows = [
        {"id": f"k{number}", "at": number, "e": "B", "u": "x", "n": 1, "price": Decimal("1.25")}
        for number in range(ROWS)
    ]
    newer = avro(
        *[("at", "long") if name == "at" else (name, data_type) for name, data_type in data_types], ("more", "int", 1)
    )
    made = io.BytesIO()
    fastavro.writer(made, avro(*data_types), rows, codec=codec)
    rng, content = random.Random(codec), made.getvalue()
    work = Work(tmp_path)
    work.put_avro("feed/f_2", newer, [{**rows[0], "more": 2}])
    work.put_avro("master/m", newer, [])
    for _ in range(60):
        work.engine = rng.choice(ENGINES)
        path = work.put("feed/f_1.avro", flipped(rng, content))
        fault = outcome(work, {"reject.policy": "quarantine"})
        assert fault is None or (str(path) in str(fault) and fault.exit_code in (2, 3))


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("file_format", [*TYPED, "csv"])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_flip_in_a_managed_master_is_found(engine, file_format, tmp_path):
    table = TABLE.drop_columns("tags") if file_format == "csv" else TABLE
    work = Work(tmp_path, engine, runs=0)
    work.put("master/m", table.slice(0, 20), file_format)
    work.put("feed/f_1", table.slice(20), file_format)
    work.run({"num.reducer": "1"})
    (path,) = work.files
    content, rng = path.read_bytes(), random.Random(file_format)
    work.put("next/f_2", table.slice(0, 1), file_format)
    places = [0, 4, len(content) - 1, len(content) - 5, *(rng.randrange(len(content)) for _ in range(40))]
    for place in places:
        made = bytearray(content)
        made[place] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(made))
        fault = outcome(work, {"num.reducer": "1"}, master="out1", feed="next")
        assert fault is not None, f"a flip of byte {place} went unnoticed"
        assert (fault.kind, fault.exit_code) == ("manifest.damage", 5)
        assert path.name in str(fault)
    path.write_bytes(content)
    assert outcome(work, {"num.reducer": "1"}, master="out1", feed="next") is None


@pytest.mark.parametrize("file_format", [*TYPED, "csv"])
def test_a_truncated_managed_master(file_format, tmp_path):
    table = TABLE.drop_columns("tags") if file_format == "csv" else TABLE
    work = Work(tmp_path)
    work.put("master/m", table.slice(0, 20), file_format)
    work.put("feed/f_1", table.slice(20), file_format)
    work.run({"num.reducer": "1"})
    (path,) = work.files
    path.write_bytes(path.read_bytes()[:-1])
    fault = outcome(work, master="out1")
    assert fault is not None
    assert fault.kind == "manifest.files"
    assert path.name in str(fault)


@pytest.mark.parametrize("file_format", TYPED)
@pytest.mark.parametrize("content", [b"hello, world\n" * 9, b"\x00" * 99, b"PAR1", b"ORC", b"Obj\x01", b"PAR1PAR1"])
def test_files_of_another_format_are_refused(content, file_format, tmp_path):
    work = Work(tmp_path)
    work.put("master/m", TABLE, file_format)
    path = work.put(f"feed/f_1.{file_format}", content)
    for engine in ENGINES:
        work.engine = engine
        fault = outcome(work, {"feed.format": file_format})
        assert fault is not None
        assert fault.exit_code == 3
        assert str(path) in str(fault)


def test_an_unknown_avro_codec(tmp_path):
    work = Work(tmp_path)
    work.put("master/m", TABLE, "avro")
    path = work.put("feed/f_1", TABLE, "avro")
    path.write_bytes(path.read_bytes().replace(b"snappy", b"snipsy"))
    fault = outcome(work)
    assert fault is not None
    assert "snipsy" in str(fault)
    assert str(path) in str(fault)
