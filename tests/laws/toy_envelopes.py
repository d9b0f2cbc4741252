"""Toy envelopes, which show that the contract of envelopes is wide enough: of key changes and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.envelope import OpCodeField, Unwrapped
from mutator.rules.order_columns import flags

OLD_KEY = "old"
First = dict[str, tuple[int, str]]  # key -> order value and content of a record
Row = tuple[str, int, str, str]  # key, order value, op code (U, D, or T, which has no key), content


@dataclass(frozen=True, kw_only=True)
class KeyChanges(OpCodeField):
    """The op code K changes the key of a record: it deletes the old key, which a field has, and upserts the new one."""

    unwraps = True

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        return list(dict.fromkeys((*names, "id", self.field, OLD_KEY)))

    def unwrap(self, batch: Any, records: Any) -> Unwrapped:
        names = batch.schema.names
        changes = flags(pc.equal(batch.column(self.field).cast(pa.string()), "K"))
        rows = np.repeat(np.arange(len(batch)), np.where(changes, 2, 1))
        batch = batch.take(pa.array(rows))
        first = np.append(rows[1:] == rows[:-1], False)
        second = np.roll(first, 1)

        def exchanged(name: str, which: Any, values: Any) -> None:
            nonlocal batch
            column = pc.if_else(pa.array(which), values, batch.column(name))
            batch = batch.set_column(names.index(name), batch.schema.field(name), column)

        def said(code: str) -> Any:
            return pa.scalar(code).cast(batch.column(self.field).type)

        exchanged("id", first, batch.column(OLD_KEY))
        exchanged(self.field, first, said("D"))
        exchanged(self.field, second, said("U"))
        return Unwrapped(batch, rows)


@dataclass(frozen=True, kw_only=True)
class Messages(OpCodeField):
    """A row is a message: the record before the mutation and after it, an op code, and where the order value is.

    A message without an op code says nothing of a record.
    """

    unwraps = True

    def record_schema(self, schema: Any) -> Any:
        if schema.get_field_index("after") < 0:
            raise ValueError("has no field after")
        return pa.schema([*schema.field("after").type, schema.field(self.field), *schema.field("source").type])

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        return ["before", "after", "source", self.field]

    def unwrap(self, batch: Any, records: Any) -> Unwrapped:
        rows = np.flatnonzero(flags(batch.column(self.field).is_valid()))
        batch = batch.take(pa.array(rows))
        op, source, after = (batch.column(name) for name in (self.field, "source", "after"))
        record = pc.if_else(pc.equal(op, "d"), batch.column("before"), after)
        columns = [*record.flatten(), op, *source.flatten()]
        fields = [*after.type, batch.schema.field(self.field), *source.type]
        return Unwrapped(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), rows)


def lowered(first: First, rows: Sequence[Row]) -> tuple[list[Any], list[Any]]:
    """Return the records and tombstones that all mutations leave, whichever way they were cut into runs.

    first: the records before them.
    """
    floor = max((order for _, order, op, _ in rows if op == "T"), default=-1)
    last = {key: (order, "U", content) for key, (order, content) in first.items()}
    for key, order, op, content in sorted(rows, key=lambda row: row[1]):
        if op != "T" and order >= last.get(key, (-1, "", ""))[0]:
            last[key] = order, op, content
    records = [(key, order, content) for key, (order, op, content) in last.items() if op == "U" and order >= floor]
    buried = [(key, order) for key, (order, op, _) in last.items() if op == "D" and order > floor]
    return sorted(records), sorted(buried)
