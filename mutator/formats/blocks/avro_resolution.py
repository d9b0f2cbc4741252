"""Resolve Avro schemas: decide once, on the driver, how encoded records of one schema become those of another.

Records stay encoded. The bytes of fields that both schemas encode alike are copied, a value that gets a wider type is
decoded and encoded again, and a field that the writer lacks gets an encoded default. Tasks only follow the steps.
"""

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.schema_rows import BadRows
from mutator.formats.files.avro import decoded, encoded, encoded_default
from mutator.formats.files.avro_container import faults
from mutator.formats.files.avro_schema import arrow_field, encoding, is_opaque, parsed, physical
from mutator.formats.values.convert import converted
from mutator.rules.byte_columns import offsets_of
from mutator.rules.order_columns import flags

Field = Mapping[str, Any]  # of a record, in an expanded schema


@dataclass(frozen=True)
class ResolutionStep:
    """Read neighbouring fields of the writer, and copy, convert or skip them."""

    fields: tuple[Field, ...]
    position: int | None  # of the first of them in the result; None: skip them
    prefix: bytes = b""  # to write before their bytes: the branch of a union
    target: Field | None = None  # field of the result to convert the value of the only field to


@dataclass(frozen=True)
class Resolution:
    """How records of a writer's schema become records of the result's."""

    steps: tuple[ResolutionStep, ...]  # in the order of the writer's fields
    filler: tuple[bytes, ...]  # one per field of the result: its encoded default, b"" where a step writes it

    @property
    def copies(self) -> bool:
        """Return whether all that the writer has comes into the result as it is."""
        return all(step.position is not None and step.target is None for step in self.steps)

    def filled(self, values: Mapping[int, bytes]) -> "Resolution":
        """Return the resolution of a file whose rows share some values. values: encoded, by position in the result."""
        return replace(self, filler=tuple(values.get(position, part) for position, part in enumerate(self.filler)))

    def of_records(self, records: Any) -> Any:
        """Return valid records, a pa.Array of large_binary, in the result's schema."""
        offsets, data = offsets_of(records)
        ends = (offsets - offsets[0]).tolist()
        return self.apply(data[offsets[0] : offsets[-1]].tobytes(), ends, BadRows(), deletes=False)

    def retyped(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns, a pa.Array by field, with the types of the result; values that do not fit are NULL.

        Fields that the result lacks stay as they are.
        """
        targets = {step.target["name"]: step.target for step in self.steps if step.target is not None}
        return {
            name: converted(column, arrow_field(targets[name]).type, True)[0] if name in targets else column
            for name, column in columns.items()
        }

    def apply(self, content: bytes, ends: Sequence[int], bad_rows: BadRows, *, deletes: bool) -> Any:
        """Return the records of a block in the result's schema, as a pa.Array of large_binary.

        content: the block's uncompressed bytes. ends: 0, then where each record ends. bad_rows: gets the rows with a
        value that does not convert. deletes: all rows are deletes, whose fields may be NULL.
        """
        count = len(ends) - 1
        parts: list[list[bytes]] = [[part] * count for part in self.filler]
        values = self._split(content, ends, parts)
        for step, column in zip(self.steps, values, strict=True):
            if step.position is not None and step.target is not None:
                parts[step.position] = _converted(step.fields[0], step.target, column, bad_rows, deletes)
        return pa.array([b"".join(row) for row in zip(*parts, strict=True)], pa.large_binary())

    def _split(self, content: bytes, ends: Sequence[int], parts: list[list[bytes]]) -> list[list[Any]]:
        """Copy the bytes that stay to ``parts``; return the values to convert, a list per step."""
        stream = io.BytesIO(content)
        readers = [_reader(step) for step in self.steps]
        values: list[list[Any]] = [[] for _ in self.steps]
        with faults():
            for row, start in enumerate(ends[:-1]):
                stream.seek(start)
                for number, step in enumerate(self.steps):
                    record: Any = fastavro.schemaless_reader(stream, readers[number], None)
                    end = stream.tell()
                    if step.target is not None:
                        values[number].append(record[step.fields[0]["name"]])
                    elif step.position is not None:
                        parts[step.position][row] = step.prefix + content[start:end]
                    start = end
        return values


def resolve(writer: Mapping[str, Any], result: Mapping[str, Any], defaults: Mapping[str, Any]) -> Resolution | None:
    """Return how records of one expanded schema become records of another; None if they encode alike.

    defaults: pa.Scalar by name, for fields of the result that the writer may lack.
    """
    if encoding(writer) == encoding(result):
        return None
    positions = {field["name"]: position for position, field in enumerate(result["fields"])}
    steps: list[ResolutionStep] = []
    for field in writer["fields"]:
        position = positions.get(field["name"])
        step = (
            ResolutionStep((field,), None) if position is None else _step(field, result["fields"][position], position)
        )
        if steps and _adjoins(steps[-1], step):
            steps[-1] = ResolutionStep((*steps[-1].fields, field), steps[-1].position)
        else:
            steps.append(step)
    written = {field["name"] for field in writer["fields"]}
    filler = (b"" if field["name"] in written else _filler(field, defaults) for field in result["fields"])
    return Resolution(tuple(steps), tuple(filler))


def without(schema: Mapping[str, Any], in_path: Collection[str]) -> dict[str, Any]:
    """Return an expanded schema without the fields that are in the paths of its files alone."""
    return {**schema, "fields": [field for field in schema["fields"] if field["name"] not in in_path]}


def _step(field: Field, target: Field, position: int) -> ResolutionStep:
    own, wanted = field["type"], target["type"]
    if encoding(own) == encoding(wanted) or _adds_null_last(own, wanted):
        return ResolutionStep((field,), position)
    if isinstance(wanted, list) and encoding(own) == encoding(wanted[-1]):
        return ResolutionStep((field,), position, _branch(len(wanted) - 1))
    return ResolutionStep((field,), position, target=target)


def _adds_null_last(own: Any, wanted: Any) -> bool:
    """Return whether a union only gains "null" as its last branch, so that all its values keep their encoding."""
    both = isinstance(own, list) and isinstance(wanted, list)
    return both and wanted[-1] == "null" and encoding(wanted[:-1]) == encoding(own)


def _adjoins(last: ResolutionStep, step: ResolutionStep) -> bool:
    """Return whether two steps can be one: both skip, or both copy to neighbouring fields of the result."""
    if last.target is not None or step.target is not None or last.prefix or step.prefix:
        return False
    if last.position is None or step.position is None:
        return last.position is step.position
    return step.position == last.position + len(last.fields)


def _filler(field: Field, defaults: Mapping[str, Any]) -> bytes:
    """Return the encoded value of a field that the writer lacks."""
    if field["name"] in defaults:
        if is_opaque(field):
            return encoded_default(field)
        return encoded(pa.repeat(defaults[field["name"]], 1), field)[0]
    if isinstance(field["type"], list) and "null" in field["type"]:
        return _branch(field["type"].index("null"))
    return b"" if field["type"] == "null" or is_opaque(field) else _any_value(field)


def _any_value(field: Field) -> bytes:
    """Return the encoding of any value, for fields of a delete that may not be NULL and are never read."""
    data_type = arrow_field(field).type
    values: dict[Any, Any] = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}
    try:
        zero = pa.scalar(0, pa.int64()).cast(data_type)
    except (pa.ArrowException, NotImplementedError):
        if data_type not in values:
            return b""
        zero = pa.scalar(values[data_type], data_type)
    try:
        return encoded(pa.array([zero.as_py()], data_type), field)[0]
    except (ValueError, TypeError, pa.ArrowException):
        return b""


def _branch(number: int) -> bytes:
    """Return the number of a union's branch as Avro encodes it, for up to 63 branches."""
    return bytes([2 * number])


def _reader(step: ResolutionStep) -> Any:
    fields = [{"name": field["name"], "type": physical(field["type"])} for field in step.fields]
    return parsed({"type": "record", "name": "step", "fields": fields})


def _converted(source: Field, target: Field, values: Sequence[Any], bad_rows: BadRows, deletes: bool) -> list[bytes]:
    """Return the encodings of physical values as a field of the result; note the rows that cannot be converted."""
    wanted = arrow_field(target)
    column, bad, why = converted(decoded(values, source), wanted.type, True)
    bad_rows.note(bad, f"field {source['name']} {why}")
    writable = np.ones(len(values), np.bool_) if wanted.nullable else ~flags(column.is_null())
    if not deletes:
        bad_rows.note(~writable, f"field {source['name']} is NULL")
    # A row whose value is NULL and may not be is a reject or a delete, whose record is never read.
    encodings = iter(encoded(column.filter(pa.array(writable)), target))
    return [next(encodings) if has_value else b"" for has_value in writable.tolist()]
