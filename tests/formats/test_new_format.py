"""A format that is only read takes a class, a row in the table of formats and an entry among the classes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.errors import ConfigError
from mutator.formats.content import Reject
from mutator.formats.files import lines
from mutator.formats.files.file_format import FileSchema, RowBatch
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.rules.byte_columns import ByteColumn
from mutator.rules.known_formats import FORMATS, Format
from tests.support.named_runs import ENGINES, Work

MASTER = pa.table({"id": ["a", "b", "c"], "at": [1, 1, 1], "n": pa.array([1.5, None, 3.5])})
FEED = b'{"id":"b","at":2,"n":7}\nnothing\n\n{"at":3,"id":"d"}\n{"id":"c","at":"x","n":1}\n'


class Objects:
    """Lines of JSON objects: rows have names, and neither types nor delimiters."""

    nested = False

    def probe(self, stream, dialect):
        names = dict.fromkeys(name for line in stream.read().split(b"\n") for name in members(line) or ())
        return FileSchema(pa.schema([(name, pa.string()) for name in names]), typed=False)

    def read(self, content, schema, names, dialect):
        rows, rejects, count, ignored = [], [], 0, 0
        for count, offset, line in lines.numbered_rows(content):
            found = None if line is None else members(line)
            ignored += line is None
            if found is not None:
                rows.append((offset, count, line + b"\n", [found.get(name) for name in names]))
            elif line is not None:
                rejects.append(Reject(offset, count, "is not an object", line))
        columns = [
            pa.array([row[3][place] for row in rows], pa.string()).cast(pa.large_binary())
            for place in range(len(names))
        ]
        offsets, numbers = (np.array([row[place] for row in rows], np.int64) for place in (0, 1))
        batch = pa.RecordBatch.from_arrays(columns, names=list(names))
        raw = ByteColumn.of([row[2] for row in rows])
        yield RowBatch(batch, offsets, numbers, rejects, count, ignored, lambda: raw, as_text=True)

    def position(self, offset, line):
        return f"line {line}"


def members(line):
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return {name: value if value is None else str(value) for name, value in found.items()}


@pytest.fixture(autouse=True)
def objects(monkeypatch):
    monkeypatch.setitem(FORMATS, "objects", Format("lines of JSON", endings=(".objects",)))
    monkeypatch.setitem(FILE_FORMATS.makers, "objects", Objects)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_it_is_merged_into_a_master_of_another_format(tmp_path, file_format, engine):
    work = Work(tmp_path, engine)
    work.put("master/m", MASTER, file_format)
    work.put("feed/f_1.objects", FEED)
    report = work.run({"reject.policy": "quarantine"})

    assert [(row["id"], row["n"] or None) for row in work.rows()] == [
        ("a", "1.5" if file_format == "csv" else 1.5),
        ("b", "7" if file_format == "csv" else 7.0),
        ("c", "3.5" if file_format == "csv" else 3.5),
        ("d", None),
    ]
    assert [(row["line"], row["row"]) for row in report.rejects["feed"]] == [
        (2, "nothing"),
        (5, '{"id":"c","at":"x","n":1}'),
    ]


def test_it_is_not_written(tmp_path):
    work = Work(tmp_path)
    work.put("feed/f_1.objects", FEED)
    (tmp_path / "master").mkdir()
    with pytest.raises(
        ConfigError, match=r"objects is only read; set output\.format to csv, escaped, avro, parquet or orc"
    ):
        work.run({"allow.empty.master": "true"})


def test_init_reads_it(tmp_path, capsys):
    work = Work(tmp_path)
    work.put("master/m", MASTER, "parquet")
    work.put("feed/f_1.objects", b'{"id":"b","at":2,"n":7}\n{"id":"c","at":3,"n":1}\n')
    main(["init", "--master", str(tmp_path / "master"), "--feed", str(tmp_path / "feed"), "-o", "-"])
    assert "lines of JSON" in capsys.readouterr().out
