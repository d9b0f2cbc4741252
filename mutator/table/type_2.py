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
    whole = whole.cast(pa.schema([one.with_nullable(True) for one in whole.schema]))
    fields = [name for name in whole.column_names if name not in (start, end, *_OWN)]
    text = config.rows.text.names
    key = [text[one] if isinstance(one, int) and text else str(one) for one in config.rows.key.ids]
    order = [str(one) for one in config.rows.order.fields]
    if len(order) != 1:
        why = f"the versions begin at {start}, and {setting('order_by')} names no field for it"
        raise error("table.history", why=why, cure=f"set {setting('order_by')} to one field, of the files or a new one")
    if missing := [name for name in key if name not in fields]:
        raise error("table.history", why=f"{missing[0]} is not a column of {files[0]}", cure=f"set {setting('key')}")
    gone = _deleted(whole)
    # A delete that dbt saw after a later row of the record has the time of its snapshot: the row has the right one.
    times = pc.if_else(gone, pc.min_element_wise(whole.column(start), whole.column(end)), whole.column(start))
    rows = whole.select(fields)
    if order[0] in fields:
        at, own = rows.column_names.index(order[0]), times.cast(_type(rows, order[0]))
        if not pc.all(pc.or_(gone, pc.equal(rows.column(at), own))).as_py():
            why = f"{order[0]} has other values than {start}, from which on versions hold"
            raise error("table.history", why=why, cure=f"set {setting('order_by')} to the name of a new field")
        rows = rows.set_column(at, order[0], own)
    else:
        rows = rows.append_column(order[0], times)
    upserts = rows.filter(pc.invert(gone))
    names = [*key, order[0]]
    known = whole.filter(_is_known(whole.column(end))).select([*key, end]).rename_columns(names)
    known = known.join(whole.filter(gone).select([*key, start]).rename_columns(names), names, join_type="left anti")
    ends = [known.cast(rows.select(names).schema), rows.filter(gone).select(names)]
    # Of equal times, the version that begins counts.
    deletes = pa.concat_tables(ends).join(upserts.select(names), names, join_type="left anti")
    own = {name: pa.nulls(len(deletes), _type(rows, name)) for name in rows.column_names}
    own |= {name: deletes.column(name) for name in deletes.column_names}
    found = [upserts, pa.table([own[name] for name in rows.column_names], schema=rows.schema)]
    return pa.concat_tables(found).append_column(OP, pa.array(["U"] * len(upserts) + ["D"] * len(deletes)))


def _is_known(ends: Any) -> Any:
    """Return which ends are ends, and do not stand for none."""
    is_time = pa.types.is_timestamp(ends.type) or pa.types.is_date(ends.type)
    return pc.fill_null(pc.less(pc.year(ends), _OPEN), False) if is_time else ends.is_valid()


def _deleted(whole: Any) -> Any:
    """Return which versions stand for deleted records."""
    if _DELETED not in whole.column_names:
        return pa.repeat(False, len(whole))
    return pc.fill_null(pc.equal(whole.column(_DELETED).cast(pa.string()), "True"), False)


def _type(table: Any, name: str) -> Any:
    return table.schema.field(name).type


def _times_in(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns with the start and the end of versions; None without them."""
    return next(((start, end) for start, end in HISTORY_COLUMNS.values() if {start, end} <= {*names}), None)


def _schema(path: str) -> Any:
    with storage_for(path).open(path) as stream:
        return pq.read_schema(stream)


def _read(path: str) -> Any:
    with storage_for(path).open(path) as stream:
        return pq.read_table(stream)
