"""The envelope of Canal's flat messages: ``type``, ``data`` and ``old``, which are arrays with a row each.

    INSERT INIT    upsert of each row of ``data``
    UPDATE         the same. Where the row of ``old`` has a member of the key, the old key is deleted as well
    DELETE         delete of the key of each row of ``data``
    TRUNCATE       truncate
    CREATE, ALTER, ERASE, RENAME, CINDEX, DINDEX, QUERY, heartbeats, the marks of transactions, and ``null``: they say
    nothing of a record, and are counted by kind

The order is ``id``, that of the batch in which Canal read the binary log.

What is easily read wrong:

- All messages of a batch have one ``id``, so an update of one row may share it with others of that row. Such a tie is
  decided by the place in the file, as any tie. The place of a row in ``data`` orders nothing but the rows of this
  message, so it is no part of the order: of the changes of one key in a message, the last one is taken. But a statement
  changes all of its rows at once: a key that one row leaves and another one gets is not deleted.
- ``id`` begins again at 1 when Canal starts without its state, and all that follows is late. File names do not.
- ``es`` is when the statement began, and ``ts`` when the message was made: they order nothing.
- All values are text or null. ``mysqlType`` has the types, and the master's come before these.
- ``old`` has the columns that changed, alone, and null where the value was NULL. An absent one is as in ``data``.
- ``data`` has null where a value is NULL. With ``binlog_row_image=NOBLOB``, MySQL does not log long columns that an
  UPDATE did not change, and Canal skips them (``parseOneRow`` of its ``LogEventConvert``): it leaves them unset.
- Binary values are text with a character for each byte (Latin-1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Set
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags
from mutator.rules.dialects.image_messages import (
    Changes,
    Columns,
    ImageMessages,
    Texts,
    objects_in_list,
    unknown_member,
)
from mutator.rules.dialects.message_dialects import codes_of
from mutator.rules.dialects.messages import OrderPart
from mutator.rules.envelope import FirstOfFile

_TYPE = re.compile(r"\s*([a-z]+)(?:\((\d+)(?:,\s*(\d+))?\))?")
_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "integer", "year"), pa.int32()),
    "bigint": pa.int64(),
    **dict.fromkeys(("float", "double", "real"), pa.float64()),
    "date": pa.date32(),
    **dict.fromkeys(("datetime", "timestamp"), pa.timestamp("us")),
    **dict.fromkeys(("binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob"), pa.binary()),
}
_UNSIGNED = {"int": pa.int64(), "integer": pa.int64(), "bigint": pa.decimal128(20, 0)}  # where that needs more bits
_DIGITS = 38  # of a decimal


def type_of(mysql: str) -> Any:
    """Return the pa.DataType of a column of MySQL; text where it has no other form.

    >>> [str(type_of(one)) for one in ("INTEGER", "bigint(20) unsigned", "decimal(9,2)", "varchar(255)", "datetime(6)")]
    ['int32', 'decimal128(20, 0)', 'decimal128(9, 2)', 'string', 'timestamp[us]']
    """
    found = _TYPE.match(mysql.lower())
    name, digits, scale = ("", None, None) if found is None else found.groups()
    if name in ("decimal", "numeric"):
        return pa.decimal128(int(digits or 10), int(scale or 0)) if int(digits or 10) <= _DIGITS else pa.string()
    known = _TYPES.get(name, pa.string())
    return _UNSIGNED.get(name, known) if "unsigned" in mysql.lower() else known


@dataclass(frozen=True, kw_only=True)
class CanalJson(ImageMessages):
    """The envelope of Canal's flat messages."""

    title = "Canal"
    codes = codes_of("canal-json")
    parts = (OrderPart("message.id", "long", "id"),)
    kind = "type"
    images = ("data",)
    of_table = ("database", "table")
    times = (OrderPart("message.es", "long", "es"),)
    says = (*of_table, "id", "es", "old", "mysqlType")
    objects = ("data", "old")
    cure = "have Canal write it, or order by the names of the files"
    sends_all = "binlog_row_image=FULL of MySQL sends all values"
    key_members = ("pkNames",)

    def fields_in(self, columns: Columns, first: FirstOfFile) -> Any:
        """Return the fields of a table in its messages, with their types in MySQL."""
        types, names = dict[str, str](), dict[str, None]()
        for text, mysql in zip(columns["data"].to_pylist(), columns["mysqlType"].to_pylist(), strict=True):
            names.update(dict.fromkeys(name for one in objects_in_list(text) or () for name in one))
            types = (json.loads(mysql) if (mysql or b"").startswith(b"{") else {}) | types
        return pa.schema([(name, type_of(str(types.get(name, "")))) for name in names])

    def values(self, name: str, column: Any, data_type: Any) -> tuple[Any, Flags, str]:
        """Return the values of a column, which rows have other values, and why."""
        if not (pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type)):
            return super().values(name, column, data_type)
        values, bad = column.to_pylist(), np.zeros(len(column), np.bool_)
        for row, value in enumerate(values):
            try:
                values[row] = None if value is None else value.decode().encode("latin-1")
            except UnicodeError:
                values[row], bad[row] = None, True
        return pa.array(values, pa.binary()), bad, "has a character that is no byte, as Canal has binary values"

    def changes_in(self, code: bytes | None, objects: Texts, known: Set[str]) -> Changes:
        """Return the images of each row of ``data``."""
        data, old = objects_in_list(objects[0]), objects_in_list(objects[1] or b"[]") if code == self.update else []
        if not data or old is None or len(old) > len(data):
            return f"has no array of objects in '{'old' if data else 'data'}', or no row in it, or a member twice"
        unknown = next((name for one in data for name in one if name not in known), None)
        if unknown is not None:
            return unknown_member("data", unknown)
        before = [*old, *([{}] * (len(data) - len(old)))]
        return [({**after, **changed}, after) for after, changed in zip(data, before, strict=True)]
