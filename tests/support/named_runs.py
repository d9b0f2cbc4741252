"""Runs over files with named fields: tables are written as input, and other programs read the output."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from mutator.dataset import manifest
from mutator.pipeline.report import Report
from tests.support import local_engine
from tests.support.columns_data import file_of
from tests.support.no_limits import NO_LIMITS

ENGINES = ["blocks", "records"]
FORMATS = ["csv", "avro", "parquet", "orc"]
TYPED = ["avro", "parquet", "orc"]
BY_ID: Mapping[str, str] = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at"}


@dataclass
class Work:
    """A master, a feed and the outputs of runs in a directory."""

    path: Path
    engine: str = "blocks"
    settings: dict[str, str] = field(default_factory=lambda: dict(BY_ID))
    runs: int = 0

    def put(self, name: str, content: Any, file_format: str = "") -> Path:
        """Write bytes, or a table in a file format, whose suffix is added to the name."""
        path = self.path / (f"{name}.{file_format}" if file_format else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else file_of(file_format, content))
        return path

    def put_avro(self, name: str, schema: Any, rows: Sequence[Any], codec: str = "null") -> Path:
        """Write an Avro file with fastavro."""
        made = io.BytesIO()
        fastavro.writer(made, schema, rows, codec=codec)
        return self.put(f"{name}.avro", made.getvalue())

    def run(self, more: Mapping[str, str] | None = None, *, master: str = "master", feed: str = "feed") -> Report:
        """Merge feed/ into master/; the output is out1, and so on."""
        self.runs += 1
        return local_engine.mutate(
            {"num.reducer": "2", **NO_LIMITS, **self.settings, **(more or {})},
            master=str(self.path / master),
            feed=[str(self.path / feed)],
            output=str(self.output),
            engine=self.engine,
        )

    @property
    def output(self) -> Path:
        return self.path / f"out{self.runs}"

    @property
    def manifest(self) -> Any:
        return manifest.parse((self.output / manifest.PATH).read_bytes(), str(self.output))

    @property
    def files(self) -> list[Path]:
        """Return the data files of the last run."""
        return sorted(self.output / part.path for part in self.manifest.files)

    def rows(self) -> list[dict[str, Any]]:
        """Return the records of the last run, sorted."""
        return sorted((row for path in self.files for row in rows_of(path)), key=repr)

    def table(self) -> Any:
        """Return the records of the last run as a table (Parquet and ORC)."""
        return pa.concat_tables(table_of(path) for path in self.files)


def table_of(path: Path) -> Any:
    """Read a file with Arrow."""
    return pq.ParquetFile(path).read() if path.suffix == ".parquet" else orc.ORCFile(path).read()


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Read a file of any format."""
    if path.suffix == ".avro":
        with path.open("rb") as stream:
            reader = fastavro.reader(stream)
            nanos = [one["name"] for one in reader.writer_schema["fields"] if "timestamp-nanos" in str(one["type"])]
            return [one | {name: _moment(one[name]) for name in nanos} for one in reader]
    if path.suffix == ".csv":
        with path.open(newline="") as stream:
            return list(csv.DictReader(stream))
    return table_of(path).to_pylist()


def _moment(nanos: int | None) -> datetime | None:
    """Convert nanoseconds, which fastavro returns as a number, to a time."""
    return None if nanos is None else datetime(1970, 1, 1) + timedelta(microseconds=nanos // 1000)  # noqa: DTZ001


def avro(*fields: Any, name: str = "row") -> dict[str, Any]:
    """Return a record schema; fields are ("id", "string"), or ("n", "int", default)."""
    made = [dict(zip(("name", "type", "default"), one, strict=False)) for one in fields]
    return json.loads(json.dumps({"type": "record", "name": name, "fields": made}))
