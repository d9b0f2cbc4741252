"""The versions of another system's slowly changing dimension of type 2, as the mutations that a history is made of.

dbt writes them as ``dbt_valid_from`` and ``dbt_valid_to``, AutoCDC as ``__START_AT`` and ``__END_AT``. A version is an
upsert at its start. Its end is a delete, unless another version of the record begins there. dbt's rows with
``dbt_is_deleted`` are deletes themselves.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mutator.config.parsers import HISTORY_COLUMNS
from mutator.config.settings import Config
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.rules.file_names import is_hidden
from mutator.storage import located, storage_for, walk

OP = "__op"  # field of the mutations with their op codes
_OWN = ("dbt_scd_id", "dbt_updated_at", "dbt_is_deleted")  # columns that are no fields of the records
_DELETED = "dbt_is_deleted"
_OPEN = 9999  # year of the ends that stand for none


def files_of_versions(path: str) -> list[str]:
    """Return the Parquet files below a directory whose columns are those of versions of another system; else none."""
    storage, path = located(path)
    files = [one.path for one in walk(storage.resolve(path)) if one.path.endswith(".parquet")]
    files = [one for one in files if not is_hidden(posixpath.basename(one))]
    return files if files and _times_in(_schema(files[0]).names) is not None else []


def mutations_of_versions(files: Sequence[str], config: Config) -> Any:
    """Return the mutations of versions in files, a pa.Table with the fields of records and ``OP``.

    The order field, which may be no column of the files, has the times. All rows are in memory. Raises ConfigError
    without a key or an order field, and where the rows have other values in it than the times.
    """
    first = _times_in(_schema(files[0]).names)
    assert first is not None
    start, end = first
    whole = pa.concat_tables(map(_read, files), promote_options="default")
    fields = [name for name in whole.column_names if name not in (start, end, *_OWN)]
    names = config.rows.text.names
    key = [names[one] if isinstance(one, int) and names else str(one) for one in config.rows.key.ids]
    order = [str(one) for one in config.rows.order.fields]
    if len(order) != 1:
        why = f"the versions begin at {start}, and {setting('order_by')} names no field for it"
        raise error("table.history", why=why, cure=f"set {setting('order_by')} to one field, of the files or a new one")
    if missing := [name for name in key if name not in fields]:
        raise error("table.history", why=f"{missing[0]} is not a column of {files[0]}", cure=f"set {setting('key')}")
    times = whole.column(start)
    if order[0] in fields and not pc.all(pc.equal(whole.column(order[0]), times.cast(_type(whole, order[0])))).as_py():
        why = f"{order[0]} has other values than {start}, from which on versions hold"
        raise error("table.history", why=why, cure=f"set {setting('order_by')} to the name of a new field")
    rows = whole.select(fields)
    rows = rows if order[0] in fields else rows.append_column(order[0], times)
    is_delete = (
        pc.equal(pc.cast(whole.column(_DELETED), pa.string()), "True") if _DELETED in whole.column_names else None
    )
    codes = pa.array(["U"] * len(rows)) if is_delete is None else pc.if_else(pc.fill_null(is_delete, False), "D", "U")
    ends = _ends(whole, key, start, end)
    empty = {name: pa.nulls(len(ends), rows.schema.field(name).type) for name in rows.column_names}
    own = {**empty, **{name: ends.column(name) for name in key}, order[0]: ends.column(end).cast(_type(rows, order[0]))}
    deletes = pa.table([own[name] for name in rows.column_names], names=rows.column_names)
    return pa.concat_tables([rows.append_column(OP, codes), deletes.append_column(OP, pa.array(["D"] * len(ends)))])


def _ends(whole: Any, key: Sequence[str], start: str, end: str) -> Any:
    """Return the key and the end of the versions after which their record has none."""
    ends = whole.select([*key, end])
    known = (
        pc.and_kleene(ends.column(end).is_valid(), pc.less(pc.year(ends.column(end)), _OPEN))
        if _is_time(ends.schema.field(end).type)
        else ends.column(end).is_valid()
    )
    ends = ends.filter(pc.fill_null(known, False))
    begins = whole.select([*key, start]).rename_columns([*key, end])
    return ends.join(begins, keys=[*key, end], join_type="left anti")


def _type(table: Any, name: str) -> Any:
    return table.schema.field(name).type


def _is_time(data_type: Any) -> bool:
    return bool(pa.types.is_timestamp(data_type) or pa.types.is_date(data_type))


def _times_in(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns with the start and the end of versions; None without them."""
    return next(((start, end) for start, end in HISTORY_COLUMNS.values() if {start, end} <= {*names}), None)


def _schema(path: str) -> Any:
    with storage_for(path).open(path) as stream:
        return pq.read_schema(stream)


def _read(path: str) -> Any:
    with storage_for(path).open(path) as stream:
        return pq.read_table(stream)
