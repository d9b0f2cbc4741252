"""Write the values of flat columns as text that ``convert`` reads: in the form of CSV, or without any loss.

>>> exact_text(pa.array([2932896, 2932897]).cast(pa.int32()).view(pa.date32())).to_pylist()
[b'9999-12-31', b'@2932897']
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import concatenated
from mutator.rules.order_columns import flags
from mutator.rules.typed_values import out_of_years, plain_decimals, ticks_type


def as_text(column: Any) -> Any:
    """Return a pa.Array of large_binary: text, with times in ISO 8601 and UTC. NULL stays NULL."""
    data_type = column.type
    if pa.types.is_binary(data_type) or pa.types.is_string(data_type):
        return column.cast(pa.large_binary())
    if pa.types.is_fixed_size_binary(data_type):
        return column.cast(pa.binary()).cast(pa.large_binary())
    if pa.types.is_decimal(data_type):
        column = plain_decimals(column)
    if pa.types.is_timestamp(data_type) and data_type.tz is not None:  # Arrow is ten times slower with a zone
        plain = column.view(pa.timestamp(data_type.unit)).cast(pa.large_string()).cast(pa.large_binary())
        return concatenated(plain, b"Z")
    return column.cast(pa.large_string()).cast(pa.large_binary())


def exact_text(column: Any) -> Any:
    """Return text without loss, a pa.Array of large_binary; values without a text are ``@`` and an integer of bits."""
    data_type, types = column.type, pa.types
    if types.is_null(data_type):
        return pa.nulls(len(column), pa.large_binary())
    if types.is_floating(data_type):
        return _floats(column)
    text = as_text(column)
    beyond = out_of_years(column)
    return pc.if_else(pa.array(beyond), _bits(column), text) if beyond.any() else text


def _floats(column: Any) -> Any:
    """Return the shortest texts that are read as the same numbers."""
    data_type = column.type
    if pa.types.is_float16(data_type):  # whose texts Arrow makes too long
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
    usual = pa.array(np.array([np.nan], data_type.to_pandas_dtype())).view(ticks_type(data_type))[0]
    odd = pc.and_(pc.is_nan(wide), pc.not_equal(column.view(ticks_type(data_type)), usual))
    return pc.replace_with_mask(text, rows, pc.if_else(odd, _bits(column), named.cast(pa.large_binary())))


def _bits(column: Any) -> Any:
    """Return ``@`` and the integer of the bits of each value."""
    numbers = column.view(ticks_type(column.type)).cast(pa.large_string()).cast(pa.large_binary())
    return concatenated(b"@", numbers)
