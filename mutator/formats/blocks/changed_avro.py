"""Changed rows as Avro: the fields of a change are encoded before those of the record, whose bytes stay as they are.

The encoding of a record is that of its fields, one after the other, so no record need be decoded.
"""

import io
from dataclasses import replace
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa

from mutator.formats.blocks.changed_rows import ChangeForm
from mutator.formats.files.avro_container import AvroOutput, BlockWriter
from mutator.rules.byte_columns import concatenated
from mutator.rules.changes import CHANGE, CHANGES, TIME, VERSION, Changes

_FIELDS: list[dict[str, Any]] = [
    {"name": CHANGE, "type": "string"},
    {"name": VERSION, "type": ["null", "long"], "default": None},
    {"name": TIME, "type": {"type": "long", "logicalType": "timestamp-micros"}},
]


class AvroChanges:
    """Write changed rows as Avro."""

    def __init__(self, stream: BinaryIO, output: AvroOutput, form: ChangeForm) -> None:
        """Write the header. output: of the rows."""
        schema = {**output.schema, "fields": [*_FIELDS, *output.schema["fields"]]}
        self._writer = BlockWriter(stream, replace(output, schema=schema))
        self._heads = pa.array([_head(change, form) for change in CHANGES], pa.large_binary())
        self.rows = 0

    def write(self, changes: Changes, rows: Any) -> None:
        """Write the next rows. rows: a pa.Array of encoded records."""
        whole = concatenated(self._heads.take(pa.array(changes)), rows)
        self._writer.write(iter(whole.to_pylist()))
        self.rows += len(rows)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _head(change: str, form: ChangeForm) -> bytes:
    """Return the encoded fields of a change."""
    schema = fastavro.parse_schema({"type": "record", "name": "change", "fields": [*_FIELDS[:2], _TICKS]})
    made = io.BytesIO()
    fastavro.schemaless_writer(made, schema, {CHANGE: change, VERSION: form.version, TIME: form.committed * 1000})
    return made.getvalue()


_TICKS = {"name": TIME, "type": "long"}  # as it is encoded
