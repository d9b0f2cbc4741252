"""Changed rows of delimited text as columns of text.

Rows of a fixed number of fields and a literal delimiter have a column of text for each field. What text cannot show
is in the column ``_row``, byte for byte: a row with bytes that are not UTF-8, whose columns have U+FFFD in their place,
and every row if rows cannot be split into columns.

>>> columns = text_columns(pa.array([b"7,lamp\\n", b"9,\\xff\\n"], pa.large_binary()), b",", 2)
>>> [column.to_pylist() for column in columns]
[['7', '9'], ['lamp', '\\ufffd'], [None, b'9,\\xff']]
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.blocks.changed_rows import ROW, ChangeForm, ParquetChanges
from mutator.rules.byte_columns import binary


def text_changes(stream: BinaryIO, delimiter: bytes | None, form: ChangeForm) -> ParquetChanges:
    """Return a writer of changed lines. delimiter: None if it is a regex."""
    fields = [*(pa.field(name, pa.string()) for name in form.names), pa.field(ROW, pa.binary())]
    return ParquetChanges(stream, form, fields, partial(text_columns, delimiter=delimiter, width=len(form.names)))


def text_columns(rows: Any, delimiter: bytes | None, width: int) -> Sequence[Any]:
    """Return the columns of lines: one of text for each field, and the rows themselves where these do not suffice.

    rows: a pa.Array of large_binary, with line feeds. width: number of fields of each row; 0: do not split them.
    """
    lines = pc.binary_slice(rows, 0, -1)
    if not width:
        return [lines.cast(pa.binary())]
    values = pc.split_pattern(lines, delimiter).flatten()
    columns = [values.take(pa.array(np.arange(field, len(values), width))) for field in range(width)]
    try:
        return [*(column.cast(pa.string()) for column in columns), pa.nulls(len(lines), pa.binary())]
    except pa.ArrowInvalid:  # some bytes are not UTF-8
        odd = pa.array([not _is_text(line) for line in lines.to_pylist()], pa.bool_())
        shown = [[value.decode("utf-8", "replace") for value in column.to_pylist()] for column in columns]
        whole = pc.if_else(odd, lines, binary(None)).cast(pa.binary())
        return [*(pa.array(column, pa.string()) for column in shown), whole]


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
