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
  message, so it is no part of the order: of the changes of one key in a message, the last one is taken.
- ``id`` begins again at 1 when Canal starts without its state, and all that follows is late. File names do not.
- ``es`` is when the statement began, and ``ts`` when the message was made: they order nothing.
- All values are text or null. ``mysqlType`` has the types, and the master's come before these.
- ``old`` has the columns that changed, alone, and null where the value was NULL. An absent one is as in ``data``.
- Binary values are text with a character for each byte (Latin-1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.rules.byte_columns import Flags
from mutator.rules.dialects.image_messages import Columns, ImageMessages, columns_of, objects_in_list, unknown_member
from mutator.rules.dialects.messages import FIELD, OrderPart, rejected, table_name
from mutator.rules.envelope import FirstOfFile, Unwrapped

_DDL = (b"CREATE", b"ALTER", b"ERASE", b"RENAME", b"CINDEX", b"DINDEX", b"QUERY")
_TRANSACTION = (b"GTID", b"XACOMMIT", b"XAROLLBACK")
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
    codes = {  # noqa: RUF012
        **{code: code.lower() for code in (b"INSERT", b"INIT", b"UPDATE", b"DELETE", b"TRUNCATE")},
        **dict.fromkeys(_DDL, b"schema change"),
        **dict.fromkeys(_TRANSACTION, b"transaction"),
        b"MHEARTBEAT": b"heartbeat",
    }
    parts = (OrderPart("message.id", "long", "id"),)
    kind = "type"
    images = ("data",)
    says = ("database", "table", "id", "old", "mysqlType")
    key_members = ("pkNames",)

    def table_of(self, columns: Columns) -> Sequence[str | None]:
        """Return database.table of each message."""
        databases, tables = (columns[name].to_pylist() for name in ("database", "table"))
        return [table_name(None, *names) for names in zip(databases, tables, strict=True)]

    def orders_of(self, columns: Columns) -> tuple[OrderPart, ...]:
        """Return the batch."""
        ids = columns["id"]
        return self.parts if ids.null_count < len(ids) else ()

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

    def unwrap(self, batch: Any, records: Any) -> Unwrapped:
        """Return a row for each row in a message, or two for one that changes the key."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        orders = self.order_columns(columns, records)
        said = self.ordered(self.said(columns), orders, "have Canal write it, or order by the names of the files")
        names = [one.name for one in records if one.name not in (FIELD, *self.beside)]
        known = {*names, *(one.name for one in self.fields_of_table or ())}
        acts = {self.delete, *(self.upsert_codes or ())}
        codes, images, rows = list[bytes | None](), [list[Any](), list[Any]()], list[int]()
        texts = zip(said, columns["data"].to_pylist(), columns["old"].to_pylist(), strict=True)
        for number, (code, news, olds) in enumerate(texts):
            pairs: list[tuple[Any, Any]] = [({}, {})]
            if code in acts:
                data = objects_in_list(news)
                old = objects_in_list(olds or b"[]") if code == self.update else []
                unknown = next((name for one in data or () for name in one if name not in known), None)
                if not data or old is None or len(old) > len(data):
                    lacking = "data" if not data else "old"
                    code = rejected(f"has no array of objects in '{lacking}', or no row in it, or a member twice")
                elif unknown is not None:
                    code = rejected(unknown_member("data", unknown))
                else:
                    old = [*old, *([{}] * (len(data) - len(old)))]
                    pairs = [({**after, **changed}, after) for after, changed in zip(data, old, strict=True)]
            for pair in pairs:
                codes.append(code)
                rows.append(number)
                for image, one in zip(images, pair, strict=True):
                    image.append(one)
        before, after = (columns_of(image, dict.fromkeys((*names, *self.keys))) for image in images)
        index = np.array(rows, np.int64)
        orders = {name: column.take(pa.array(index)) for name, column in orders.items()}
        several = len(index) > len(batch)
        found = self.changes(
            self.keyed(codes, before, after), (before, after), orders, records, index if several else None
        )
        return self._last_of_each(found) if several else found

    def _last_of_each(self, found: Unwrapped) -> Unwrapped:
        """Return rows without the changes that a later one in the same message replaces."""
        assert found.rows is not None
        acts = {self.delete, *(self.upsert_codes or ())}
        codes = found.batch.column(FIELD).to_pylist()
        keys = zip(*(found.batch.column(name).to_pylist() for name in self.keys), strict=True)
        last = dict[Any, int]()
        for row, (number, code, key) in enumerate(zip(found.rows.tolist(), codes, keys, strict=True)):
            last[(number, key) if code in acts else row] = row
        kept = np.sort(np.fromiter(last.values(), np.int64, len(last)))
        return Unwrapped(found.batch.take(pa.array(kept)), found.rows[kept])
