"""Encoded Avro records as their fields, for registers that decide about fields: ``rules.register.RowFields``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from io import BytesIO
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from fastavro import schemaless_reader, schemaless_writer

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.avro_schema import parsed, physical

_BYTES = pa.large_binary()


@dataclass(frozen=True)
class AvroFields:
    r"""The fields of encoded Avro records, which stay encoded.

    >>> field = {"name": "name", "type": ["null", "string"]}
    >>> fields = AvroFields({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, field]})
    >>> fields.parts(b"\x0e\x02\x04ab"), fields.null_part(1)
    ([b'\x0e', b'\x02\x04ab'], b'\x00')
    """

    record: Any  # the expanded schema

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(one["name"] for one in self.record["fields"])

    @cached_property
    def _schemas(self) -> list[Any]:
        return [parsed(physical(one["type"])) for one in self.record["fields"]]

    def columns(self, rows: Any) -> list[Any]:
        """Return a column of encoded values for each field."""
        parts = [*map(self.parts, rows.to_pylist())]
        return [pa.array([one[number] for one in parts], _BYTES) for number in range(len(self.names))]

    def rows(self, columns: Sequence[Any]) -> Any:
        """Return encoded records."""
        return pc.binary_join_element_wise(*columns, pa.scalar(b"", _BYTES))

    def null(self, number: int) -> Any:
        """Return NULL, encoded."""
        return pa.array([self.null_part(number)], _BYTES)

    def parts(self, row: bytes) -> list[bytes]:
        """Return the encoded fields of a record."""
        stream, ends = BytesIO(row), [0]
        for schema in self._schemas:
            schemaless_reader(stream, schema, None)
            ends.append(stream.tell())
        return [row[start:end] for start, end in pairwise(ends)]

    def whole(self, parts: Sequence[bytes]) -> bytes:
        """Return the record that has these fields."""
        return b"".join(parts)

    def null_part(self, number: int) -> bytes:
        """Return NULL, encoded; nothing of a field that is in every row, so that its type may exclude NULL."""
        avro = self.record["fields"][number]["type"]
        if avro != "null" and not (isinstance(avro, list) and "null" in avro):
            return b""
        stream = BytesIO()
        schemaless_writer(stream, self._schemas[number], None)
        return stream.getvalue()

    def value_type(self, number: int) -> Any:
        """Raise NotImplementedError, as the others do: records with merge functions are merged as columns."""
        raise NotImplementedError

    def values(self, number: int, column: Any) -> Any:
        """Raise NotImplementedError."""
        raise NotImplementedError

    def from_values(self, number: int, values: Any) -> Any:
        """Raise NotImplementedError."""
        raise NotImplementedError

    def column(self, number: int, parts: Sequence[Any]) -> Any:
        """Raise NotImplementedError."""
        raise NotImplementedError

    def part(self, number: int, column: Any) -> Any:
        """Raise NotImplementedError."""
        raise NotImplementedError
