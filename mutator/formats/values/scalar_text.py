"""Values of columns that are not nested as text, which ``convert`` reads: as CSV has them, and without any loss.

>>> exact_text(pa.array([2932896, 2932897]).cast(pa.int32()).view(pa.date32())).to_pylist()
[b'9999-12-31', b'@2932897']
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.order_columns import flags
from mutator.rules.typed_values import out_of_years, plain_decimals

__all__ = ["as_text", "exact_text", "ticks_type"]


def as_text(column: Any) -> Any:
    """Return text (large binaries); timestamps and dates as ISO 8601, in UTC. Null stays null."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary()).cast(pa.large_binary())
    if pa.types.is_decimal(kind):
        column = plain_decimals(column)
    if pa.types.is_timestamp(kind) and kind.tz is not None:  # with a zone, UTC too, Arrow takes ten times as long
        plain = column.view(pa.timestamp(kind.unit)).cast(pa.large_string()).cast(pa.large_binary())
        return pc.binary_join_element_wise(plain, _text("Z"), _text(""))
    return column.cast(pa.large_string()).cast(pa.large_binary())


def exact_text(column: Any) -> Any:
    """Return text that loses nothing: what has no word of its own is ``@`` and the whole number that it is held as."""
    kind, types = column.type, pa.types
    if types.is_null(kind):
        return pa.nulls(len(column), pa.large_binary())
    if types.is_floating(kind):
        return _floats(column)
    text = as_text(column)
    beyond = out_of_years(column)
    return pc.if_else(pa.array(beyond), _bits(column), text) if beyond.any() else text


def _floats(column: Any) -> Any:
    """Write the shortest text that is read as the same number."""
    kind = column.type
    if pa.types.is_float16(kind):  # which Arrow writes as a longer one
        codes = column.view(pa.uint16()).dictionary_encode()
        numbers = codes.dictionary.to_numpy().view(np.float16)
        words = pa.array([np.format_float_positional(one, trim="-") for one in numbers], pa.large_string())
        text = words.take(codes.indices).cast(pa.large_binary())
    else:
        text = as_text(column)
    finite = flags(pc.fill_null(pc.is_finite(column.cast(pa.float64())), True))
    if finite.all():
        return text
    rows = pa.array(~finite)
    column = column.filter(rows)
    wide = column.cast(pa.float64())
    named = pc.if_else(pc.is_inf(wide), pc.if_else(pc.greater(wide, 0), "Infinity", "-Infinity"), "NaN")
    usual = pa.array(np.array([np.nan], kind.to_pandas_dtype())).view(ticks_type(kind))[0]
    odd = pc.and_(pc.is_nan(wide), pc.not_equal(column.view(ticks_type(kind)), usual))
    return pc.replace_with_mask(text, rows, pc.if_else(odd, _bits(column), named.cast(pa.large_binary())))


def ticks_type(kind: Any) -> Any:
    """Return the type of the whole numbers that the values of a type are held as."""
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]


def _bits(column: Any) -> Any:
    """Write what a value is held as, behind an ``@``."""
    held = column.view(ticks_type(column.type)).cast(pa.large_string()).cast(pa.large_binary())
    return pc.binary_join_element_wise(_text("@"), held, _text(""))


def _text(text: str) -> Any:
    return pa.scalar(text.encode(), pa.large_binary())
