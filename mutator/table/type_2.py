"""The versions of another system's slowly changing dimension of type 2, as the mutations that a history is made of.

dbt writes them as ``dbt_valid_from`` and ``dbt_valid_to``, AutoCDC as ``__START_AT`` and ``__END_AT``. A version is an
upsert at its start. Its end is a delete, unless a later version of the record has begun by then. dbt's rows with
``dbt_is_deleted`` are deletes themselves.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mutator.config.parsers import HISTORY_COLUMNS
from mutator.config.settings import Config
from mutator.errors import error
from mutator.errors.display import counted, key_text
from mutator.errors.parts import setting
from mutator.rules.byte_columns import Ints
from mutator.rules.file_names import is_hidden
from mutator.rules.order_columns import flags
from mutator.rules.typed_values import canonical
from mutator.storage import located, storage_for, walk

OP = "__op"  # field of the mutations with their op codes
_OWN = ("dbt_scd_id", "dbt_updated_at", "dbt_is_deleted")  # columns that are no fields of the records
_DELETED = "dbt_is_deleted"
_LOGS = ("_delta_log", ".hoodie", "_spark_metadata", "metadata")
_OPEN = 9999  # year of the ends that stand for none


def files_of_versions(path: str) -> list[str]:
    """Return the Parquet files below a directory whose columns are those of versions of another system; else none.

    Raises ConfigError for a directory with a log that says which of its files count, and where one of the columns with
    the times is missing.
    """
    storage, path = located(path)
    path = storage.resolve(path)
    below = ((one.path, one.path.removeprefix(path).strip("/").split("/")) for one in walk(path))
    found = sorted(
        (name, parts) for name, parts in below if name.endswith(".parquet") and not any(map(is_hidden, parts))
    )
    files = [name for name, _ in found]
    names = {*_schema(files[0]).names} if files else set[str]()
    pair = next((one for one in HISTORY_COLUMNS.values() if names.intersection(one)), None)
    if pair is None:
        return []
    if missing := next((name for name in pair if name not in names), None):
        why = f"{files[0]} has {pair[missing == pair[0]]}, and lacks {missing}"
        raise error("table.history", why=why, cure=f"write the versions with the columns {' and '.join(pair)}")
    if directory := next((part for _, parts in found for part in parts[:-1] if "=" in part), None):
        why = f"{path} has files in {directory}, whose values are not in their rows"
        raise error("table.history", why=why, cure="write the versions with all columns in the files")
    if log := next((name for name in _LOGS if storage.stat(posixpath.join(path, name)) is not None), None):
        why = f"{path} has a log, {log}, that decides which of its files count, and that mutator does not read"
        raise error("table.history", why=why, cure="write its rows as plain Parquet, and name that directory")
    return files


def mutations_of_versions(files: Sequence[str], config: Config) -> Any:
    """Return the mutations of versions in files, a pa.Table with the fields of records and ``OP``.

    The order field, which may be no column of the files, has the times. All rows are in memory. Raises ConfigError
    without a key or an order field, where the rows have other values in it than the times, and for versions that cannot
    be: of which two begin at one time, or one ends before it begins.
    """
    start, end = next(one for one in HISTORY_COLUMNS.values() if {*one} <= {*_schema(files[0]).names})
    whole = pa.concat_tables(map(_read, files), promote_options="default")
    whole = whole.cast(pa.schema([one.with_nullable(True) for one in whole.schema]))
    is_nothing = pc.and_(
        pc.fill_null(pc.equal(whole.column(start), whole.column(end)), False), pc.invert(_deleted(whole))
    )
    whole = whole.filter(pc.invert(is_nothing))  # it held at no time
    fields = [name for name in whole.column_names if name not in (start, end, *_OWN)]
    text = config.rows.text.names
    key = [text[one] if isinstance(one, int) and text else str(one) for one in config.rows.key.ids]
    order = [str(one) for one in config.rows.order.fields]
    if len(order) != 1:
        why = f"the versions begin at {start}, and {setting('order_by')} names no field for it"
        raise error("table.history", why=why, cure=f"set {setting('order_by')} to one field, of the files or a new one")
    if missing := [name for name in key if name not in fields]:
        raise error("table.history", why=f"{missing[0]} is not a column of {files[0]}", cure=f"set {setting('key')}")
    if null := next((name for name in (*key, start) if whole.column(name).null_count), None):
        why = f"{null} is NULL in {counted(whole.column(null).null_count, 'version')} of {posixpath.dirname(files[0])}"
        raise error("table.history", why=why, cure="give each version a key and a start")
    gone, own_type = _deleted(whole), whole.schema.field(start).type
    until = pc.if_else(_is_known(whole.column(end)), whole.column(end).cast(own_type), pa.scalar(None, own_type))
    # A delete that dbt saw after a later row of the record has the time of its snapshot: the row has the right one.
    is_early = pc.and_(gone, pc.fill_null(pc.less(until, whole.column(start)), False))
    times = pc.if_else(is_early, until, whole.column(start))
    rows = whole.select(fields)
    if order[0] in fields:
        at, own = rows.column_names.index(order[0]), times.cast(_type(rows, order[0]))
        if not pc.all(pc.or_(gone, pc.equal(rows.column(at), own)), min_count=0).as_py():
            why = f"{order[0]} has other values than {start}, from which on versions hold"
            raise error("table.history", why=why, cure=f"set {setting('order_by')} to the name of a new field")
        rows = rows.set_column(at, order[0], own)
    else:
        rows = rows.append_column(order[0], times)
    keys = [canonical(whole.column(name).combine_chunks()) for name in key]
    ends = _ends(keys, times.combine_chunks(), until.combine_chunks(), gone.combine_chunks())
    codes = pc.if_else(gone, "D", "U")
    at = rows.column_names.index(order[0])
    last = rows.take(pa.array(ends))
    last = last.set_column(at, order[0], until.take(pa.array(ends)).cast(_type(rows, order[0])))
    return pa.concat_tables(
        [rows.append_column(OP, codes), last.append_column(OP, pa.array(["D"] * len(ends), pa.string()))]
    )


def _ends(keys: Sequence[Any], times: Any, until: Any, gone: Any) -> Ints:
    """Return the numbers of the versions at whose end their record is gone: no later one begins up to then.

    Raises ConfigError for versions that cannot be.
    """
    count = len(times)
    group = np.zeros(count, np.int64)
    for column in keys:
        coded = column.dictionary_encode()
        group = np.unique(group * len(coded.dictionary) + coded.indices.to_numpy(), return_inverse=True)[1]
    rank = pc.rank(pa.concat_arrays([times, until]), tiebreaker="dense").to_numpy().astype(np.int64)
    begins, ends = rank[:count], rank[count:]
    is_gone, is_ended = flags(gone), flags(until.is_valid())
    order = np.lexsort((~is_gone, begins, group))
    is_next = np.append(group[order][1:] == group[order][:-1], False)
    after = np.append(order[1:], order[:1])
    twice = is_next & ~is_gone[order] & ~is_gone[after] & (begins[order] == begins[after])
    backwards = is_ended & ~is_gone & (ends < begins)
    for wrong, what in (
        (order[twice], "two versions begin at one time"),
        (np.flatnonzero(backwards), "a version ends before it begins"),
    ):
        if len(wrong):
            sample = key_text(tuple(column[int(wrong[0])].as_py() for column in keys))
            raise error(
                "table.history", why=f"of {sample}, {what}", cure=f"check {setting('key')}, and correct the rows"
            )
    is_last = ~is_next | (begins[after] > ends[order])
    found: Ints = order[is_last & is_ended[order] & ~is_gone[order]]
    return found


def _is_known(ends: Any) -> Any:
    """Return which ends are ends, and do not stand for none."""
    is_time = pa.types.is_timestamp(ends.type) or pa.types.is_date(ends.type)
    if is_time:
        return pc.fill_null(pc.less(pc.year(ends), _OPEN), False)
    is_text = pa.types.is_string(ends.type) or pa.types.is_large_string(ends.type)
    return pc.fill_null(pc.invert(pc.starts_with(ends, str(_OPEN))), False) if is_text else ends.is_valid()


def _deleted(whole: Any) -> Any:
    """Return which versions stand for deleted records."""
    if _DELETED not in whole.column_names:
        return pa.chunked_array([pa.repeat(False, len(whole))])
    return pc.fill_null(pc.equal(pc.utf8_lower(whole.column(_DELETED).cast(pa.string())), "true"), False)


def _type(table: Any, name: str) -> Any:
    return table.schema.field(name).type


def _schema(path: str) -> Any:
    with storage_for(path).open(path) as stream:
        return pq.read_schema(stream)


def _read(path: str) -> Any:
    with storage_for(path).open(path) as stream:
        return pq.read_table(stream)
