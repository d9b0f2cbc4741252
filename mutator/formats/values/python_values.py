"""Values as Python objects, and those that Python lacks as their exact text.

Python has no times outside of the years 1 to 9999, and no nanoseconds without pandas.

>>> python_values(pa.array([0, 2932897], pa.int32()).view(pa.date32()))
[datetime.date(1970, 1, 1), '@2932897']
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from mutator.formats.values.scalar_text import exact_text


def python_rows(rows: Any) -> list[dict[str, Any]]:
    """Return the rows of a pa.Table or pa.RecordBatch as mappings of column names to Python values."""
    columns = {name: python_values(rows.column(number)) for number, name in enumerate(rows.schema.names)}
    return [{name: values[row] for name, values in columns.items()} for row in range(rows.num_rows)]


def python_values(column: Any) -> list[Any]:
    """Return the values of a pa.Array or pa.ChunkedArray as Python values, at any depth.

    >>> python_values(pa.array([[1001], [1000]], pa.list_(pa.time64("ns"))))
    [['00:00:00.000001001'], [datetime.time(0, 0, 0, 1)]]
    """
    if not any(map(_is_cut, _leaves(column.type))):
        try:
            found: list[Any] = column.to_pylist()
            return found
        except (ValueError, OverflowError):
            pass
    return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    data_type, types = scalar.type, pa.types
    if not scalar.is_valid:
        return None
    if types.is_struct(data_type):
        return {field.name: _value(scalar[number]) for number, field in enumerate(data_type)}
    if types.is_map(data_type):
        return [(_value(entry[0]), _value(entry[1])) for entry in scalar.values]
    if types.is_nested(data_type):
        return [_value(one) for one in scalar.values]
    try:
        if not _is_cut(data_type) or scalar.value % 1000 == 0:
            return scalar.as_py()
    except (ValueError, OverflowError):
        pass
    return exact_text(pa.repeat(scalar, 1))[0].as_py().decode("utf-8", "surrogateescape")


def _is_cut(data_type: Any) -> bool:
    """Return whether Arrow cuts the values of a type to those that Python has."""
    return bool(data_type == pa.time64("ns"))


def _leaves(data_type: Any) -> Iterator[Any]:
    """Yield the types of the values that are not nested."""
    if not pa.types.is_nested(data_type):
        yield data_type
        return
    if pa.types.is_map(data_type):
        yield from _leaves(data_type.key_type)
        yield from _leaves(data_type.item_type)
        return
    for number in range(data_type.num_fields):
        yield from _leaves(data_type.field(number).type)
