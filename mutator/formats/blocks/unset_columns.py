"""Find the fields that rows of typed columns leave unset, whatever they have there, and fill those that rows carry."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.formats.blocks.schema_rows import BadRows
from mutator.formats.files.file_format import RowBatch
from mutator.rules.byte_columns import Flags, Ints, exchanged
from mutator.rules.order_columns import flags


def cleared(found: RowBatch, layout: Any, bad_rows: BadRows) -> tuple[RowBatch, Mapping[str, Flags]]:
    """Return rows with NULL where they leave a field unset, and which rows do; note those that do not say it right.

    layout: a ``ColumnLayout`` with ``unset``.
    """
    batch, count = found.batch, len(found.batch)
    names = {*layout.result.names, *layout.ordered_by}
    texts = {
        one.name: batch.column(one.name)
        for one in batch.schema
        if found.as_text and one.name in names and pa.types.is_large_binary(one.type)
    }
    listing = layout.unset.listing
    lists = None if listing is None else batch.column(listing)

    def are_null(name: str) -> Flags:
        return flags(batch.column(name).is_null())

    unset, faults = layout.unset.in_rows(count, found.unset, are_null, texts, lists)
    for reason, rows in faults.items():
        bad_rows.note(rows, reason)
    for position, name in enumerate(batch.schema.names):
        if name in unset:
            column = batch.column(position)
            column = column.take(pa.array(np.arange(count), mask=unset[name]))
            batch = batch.set_column(position, batch.schema.field(position).with_nullable(True), column)
    return replace(found, batch=batch), unset


def without_carried(unset: Mapping[str, Flags], carried: Mapping[str, tuple[Ints, Any]]) -> Mapping[str, Flags]:
    """Return which rows leave a field unset, and do not carry it. carried: rows and values, by field."""
    found = {**unset}
    for name, (rows, _) in carried.items():
        found[name] = unset[name].copy()
        found[name][rows] = False
    return found


def with_carried(columns: Sequence[Any], names: Sequence[str], carried: Mapping[str, tuple[Ints, Any]]) -> list[Any]:
    """Return columns of the result with what rows carry. names: of the columns. carried: rows and values, by field."""
    found = [*columns]
    for name, (rows, values) in carried.items():
        number = names.index(name)
        found[number] = exchanged(found[number], [(rows, values.cast(found[number].type))])
    return found
