"""A pandas DataFrame as an Arrow table: named index levels become columns, NaN and NaT become NULL."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mutator.errors import MutatorError, error

_SHOWN = 3  # types of a mixed column that a message names


def arrow_table(frame: Any, label: str) -> Any:
    """Return the rows of a pandas DataFrame as a pa.Table. label: of the table, for messages.

    Raises DataError that names the column whose values have no common type.
    """
    frame = _with_index(frame, label)
    if frame.columns.nlevels > 1:
        cure = "join the levels to one name: frame.columns = ['_'.join(map(str, names)) for names in frame.columns]"
        raise error("table.rows", table=label, what="has columns with names of several levels", cure=cure)
    names = [str(name) for name in frame.columns]
    columns = [_column(frame.iloc[:, number], name, label) for number, name in enumerate(names)]
    return pa.Table.from_arrays(columns, names)


def _with_index(frame: Any, label: str) -> Any:
    """Return a DataFrame whose named index levels are columns; the numbers of rows are left out."""
    named = [name for name in frame.index.names if name is not None]
    twice = [name for name in named if name in frame.columns]
    if twice:
        what = "is both in the index and among the columns"
        raise error("table.column", table=label, column=twice[0], what=what, cure="drop one of them")
    return frame.reset_index(level=named) if named else frame


def _column(series: Any, name: str, label: str) -> Any:
    try:
        found = pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as fault:
        raise _mixed(series, name, label, fault) from None
    if series.dtype == object and pa.types.is_temporal(found.type):
        _check_times(series, name, label)
    # Their values would silently become the integers in which pandas has them.
    if isinstance(found.type, pa.BaseExtensionType) and found.type.extension_name.startswith("pandas."):
        cure = f"convert it, for example with frame[{name!r}].astype(str), or .dt.to_timestamp() for periods"
        raise error("table.column", table=label, column=name, what=f"has the type {series.dtype}", cure=cure)
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def _check_times(series: Any, name: str, label: str) -> None:
    """Raise DataError for objects that Arrow would cut to dates, or take for times of UTC."""
    values = series[series.notna()]
    if len({isinstance(value, dt.datetime) for value in values}) > 1:
        raise _mixed(series, name, label, ValueError())
    if len({getattr(value, "tzinfo", None) is None for value in values}) > 1:
        cure = f"give all a zone, or none, for example with frame[{name!r}] = pd.to_datetime(frame[{name!r}], utc=True)"
        raise error("table.column", table=label, column=name, what="has times with and without a zone", cure=cure)


def _mixed(series: Any, name: str, label: str, fault: Exception) -> MutatorError:
    types = _types_of(series)
    what = f"has values of several types: {', '.join(types)}" if len(types) > 1 else f"cannot be read: {fault}"
    cure = f"give it one type, for example with frame[{name!r}] = frame[{name!r}].astype('string')"
    return error("table.column", table=label, column=name, what=what, cure=cure)


def _types_of(series: Any) -> Sequence[str]:
    """Return the names of the types in a column, the first few; without missing values."""
    found = dict.fromkeys(type(value).__name__ for value in series[series.notna()])
    return [*sorted(found)[:_SHOWN], *(["…"] if len(found) > _SHOWN else [])]
