"""Single values that a user gives, typed as the values of a column are."""

from numbers import Integral
from typing import Any

import pyarrow as pa

from mutator.formats.values.convert import converted

_FAMILIES = (pa.types.is_boolean, pa.types.is_temporal, pa.types.is_string)  # Arrow casts between these


def typed_value(value: Any, data_type: Any) -> tuple[Any, str | None]:
    """Return a value as a pa.Scalar of a type, and None; or None and why it is not of the type. Text is parsed.

    >>> typed_value("7", pa.int32()), typed_value("x", pa.int32())
    ((<pyarrow.Int32Scalar: 7>, None), (None, 'is not of type int32'))
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if (is_whole and _is_number(data_type)) or (isinstance(value, float) and pa.types.is_decimal(data_type)):
        value = str(value)  # Arrow takes ints of 64 bits, and would round a float
    if isinstance(value, str):
        text = pa.array([value.encode("utf-8", "surrogateescape")], pa.large_binary())
        found, bad, why = converted(text, data_type, typed=False)
        return (None, why) if bad[0] else (found[0], None)
    try:
        scalar = pa.scalar(value)
        alike = all(family(scalar.type) == family(data_type) for family in _FAMILIES)
        found = scalar.cast(data_type) if alike else None
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        found = None
    if found is None:
        return None, f"is not of type {data_type}"
    return (found, None) if found.is_valid else (None, f"is not of type {data_type}; use `is null`")


def _is_number(data_type: Any) -> bool:
    types = pa.types
    return any(of(data_type) for of in (types.is_integer, types.is_floating, types.is_decimal))
