"""The envelope of Maxwell's messages: ``type``, ``data`` and ``old``.

    insert bootstrap-insert    upsert of ``data``
    update                     upsert of ``data``. Where ``old`` has a member of the key, the old key is deleted as well
    delete                     delete of the key in ``data``
    bootstrap-start, bootstrap-complete, table-create, table-alter, table-drop, database-create, database-alter,
    database-drop, and ``null``: they say nothing of a record, and are counted by kind

The order is ``position`` (the number at the end of the file, then the offset) and ``xoffset``, if the messages have
``position``; else ``xid`` and ``xoffset``. NULL is lowest: rows of a bootstrap may have none of these.

What is easily read wrong:

- The last row of a transaction has ``commit`` and no ``xoffset``, so it has the highest.
- All rows of one event of the binary log have one ``position``.
- ``ts`` is in seconds and orders nothing: the rows of a transaction share it.
- ``old`` has the columns that changed, alone. An absent one is as in ``data``.
- With ``output_nulls=false``, NULL is a member of ``data`` that is absent. So an absent member is NULL.
- Binary values are base64, and a SET is an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.dialects.image_messages import Columns, ImageMessages
from mutator.rules.dialects.message_dialects import codes_of
from mutator.rules.dialects.messages import OrderPart, rejected
from mutator.rules.envelope import Unwrapped
from mutator.rules.json_paths import OTHERS
from mutator.rules.order_columns import flags

_BOOTSTRAP = b"bootstrap-insert"
_LAST = pa.scalar(str(2**63 - 1).encode(), pa.large_binary())
_OFFSET = OrderPart("message.xoffset", "long", "xoffset")
_POSITION = (
    OrderPart("message.position.file", "long", "position", r"(?P<part>[0-9]+):[0-9]+$"),
    OrderPart("message.position.offset", "long", "position", r"[0-9]:(?P<part>[0-9]+)$"),
    _OFFSET,
)
_TIES = "has neither xoffset nor commit, which order a transaction; set output_xoffset"
_TRANSACTION = (OrderPart("message.xid", "long", "xid"), _OFFSET)


@dataclass(frozen=True, kw_only=True)
class MaxwellJson(ImageMessages):
    """The envelope of Maxwell's messages."""

    title = "Maxwell"
    codes = codes_of("maxwell-json")
    parts = (*_POSITION[:-1], *_TRANSACTION)
    kind = "type"
    images = ("data",)
    of_table = ("database", "table")
    times = (OrderPart("message.ts", "long", "ts"),)
    says = (*of_table, "position", "xid", "xoffset", "commit", "ts")
    key_members = ("primary_key_columns",)
    unordered = frozenset({_BOOTSTRAP})
    cure = "set output_binlog_position, or output_commit_info"

    def orders_of(self, columns: Columns) -> tuple[OrderPart, ...]:
        """Return the position, else the transaction if nothing ties in it."""
        changes = [column.filter(pc.not_equal(columns["type"], _BOOTSTRAP)) for column in columns.values()]
        own = dict(zip(columns, changes, strict=True))
        if own["position"].null_count < len(own["position"]):
            return _POSITION
        ties = own["xid"].is_valid().to_numpy(zero_copy_only=False) & flags(_offsets(own).is_null())
        return _TRANSACTION if own["xid"].null_count < len(ties) and not ties.any() else ()

    def file_schema(self, schema: Any, records: Any) -> Any:
        """Return the schema to read a file with: that of all messages, with the fields of the table in each image."""
        found, names = super().file_schema(schema, records), (one.name for one in records)
        members = [(name, pa.string()) for name in names if name not in (self.field, *self.beside)]
        if not members:
            return found
        for image, marks in (("data", None), ("old", {OTHERS: b""})):
            at = schema.get_field_index(image)
            known = schema.field(at).type if at >= 0 and pa.types.is_struct(schema.field(at).type) else ()
            own = {**{one.name: pa.string() for one in known}, **dict(members)}
            member = pa.field(image, pa.struct(list(own.items())), metadata=marks)
            at = found.get_field_index(image)
            found = found.append(member) if at < 0 else found.set(at, member)
        return found

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        """Return the members that some fields are made of, those of the key, and those that say what a message is."""
        columns = [one for one in dict.fromkeys((*names, *self.keys)) if one not in (self.field, *self.beside)]
        return [self.kind, *self.says, *(f"{image}.{name}" for name in columns for image in ("data", "old"))]

    def unwrap(self, batch: Any, records: Any) -> Unwrapped:
        """Return a row for each message, or two for one that changes the key."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns["xoffset"] = _offsets(columns)
        after = {name[5:]: column for name, column in columns.items() if name.startswith("data.")}
        before = {name: pc.coalesce(columns[f"old.{name}"], column) for name, column in after.items()}
        orders = self.order_columns(columns, records)
        codes = self.ordered(self.said(columns), orders)
        codes = self.keyed(codes, before, after)
        if "message.xid" in orders:
            for row in np.flatnonzero(flags(columns["xoffset"].is_null())).tolist():
                code = codes[row]
                if (code in (self.upsert_codes or ()) and code != _BOOTSTRAP) or code == self.delete:
                    codes[row] = rejected(_TIES)
        return self.changes(codes, (before, after), orders, records)


def _offsets(columns: Columns) -> Any:
    """Return the place of each message in its transaction; the last one has none."""
    is_last = pc.and_(pc.fill_null(pc.equal(columns["commit"], b"true"), False), columns["xoffset"].is_null())
    return pc.if_else(is_last, _LAST, columns["xoffset"])
