"""The envelope of messages of AWS DMS for Kinesis and Kafka: ``data`` and ``metadata``.

    load insert    upsert of ``data``
    update         the same. Where the image before has another key, it is deleted as well
    delete         delete of the key in ``data``
    create-table, drop-table, and others that are records of the type ``control``, and ``null``: they say nothing of a
    record, and are counted by kind

The image before an update is in ``before-image`` (setting of the task), or in members ``BI_<column>`` of ``data`` (a
rule with the prefix of the manual's example). Both may have the key or the changed columns alone.

The order is ``stream-position`` and ``transaction-record-id``, which the endpoint writes with
``IncludeTransactionDetails``, if the source is PostgreSQL. Rows of a load have neither, and are older than all others.
See docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.Kinesis.html.

What is easily read wrong:

- ``timestamp`` is the clock of DMS when it made the message, and ``commit-timestamp`` that of the source, which all
  rows of a transaction share, and in MySQL all of a second. ``transaction-id`` is not in the order of commits. So these
  order only if a setting names them.
- ``stream-position`` begins with the LSN in hexadecimal, of a fixed width, in PostgreSQL alone. Other sources have
  forms of their own, which no manual describes, so they are not compared.
- A member that ``data`` lacks is NULL or an empty text: the endpoint leaves out both, unless ``IncludeNullAndEmpty`` is
  set.
- A control record may have the name of a table, but no row of it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.dialects.image_messages import (
    Changes,
    Columns,
    ImageMessages,
    Texts,
    no_object,
    object_in,
    unknown_member,
)
from mutator.rules.dialects.message_dialects import codes_of
from mutator.rules.dialects.messages import OrderPart
from mutator.rules.envelope import FirstOfFile

_LOAD, _OPERATION, _BEFORE, _PREFIX = b"load", "metadata.operation", "before-image", "BI_"
_ORDER = (
    OrderPart(
        "message.stream-position",
        "string",
        "metadata.stream-position",
        r"^(?P<part>[0-9A-F]{8}/[0-9A-F]{8})(?:\.|$)",
    ),
    OrderPart("message.transaction-record-id", "long", "metadata.transaction-record-id"),
)
_TIMES = tuple(
    OrderPart(f"message.{name}", "timestamp", f"metadata.{name}") for name in ("commit-timestamp", "timestamp")
)


@dataclass(frozen=True, kw_only=True)
class DmsJson(ImageMessages):
    """The envelope of messages of AWS DMS."""

    title = "AWS DMS"
    codes = codes_of("aws-dms-json")
    parts = (*_ORDER, *_TIMES)
    kind = _OPERATION
    images = ("data",)
    of_table = ("metadata.schema-name", "metadata.table-name")
    says = (*of_table, _BEFORE, *(one.path for one in parts))
    objects = ("data", _BEFORE)
    unordered = frozenset({_LOAD})
    cure = "set IncludeTransactionDetails, or order_by, as the files can"

    def orders_of(self, columns: Columns) -> tuple[OrderPart, ...]:
        """Return the position in the log, unless all changes have one that cannot be compared."""
        position = _ORDER[0]
        changes = columns[position.path].filter(pc.not_equal(columns[_OPERATION], _LOAD))
        return () if 0 < len(changes) == position.values(changes).null_count else _ORDER

    def fields_in(self, columns: Columns, first: FirstOfFile) -> Any:
        """Return the fields of a table in its messages, without those of the images before."""
        found = super().fields_in(columns, first)
        return pa.schema([one for one in found if not _is_before(one.name, {*found.names})])

    def changes_in(self, code: bytes | None, objects: Texts, known: Set[str]) -> Changes:
        """Return the images of the row in ``data``."""
        after, old = object_in(objects[0] or b""), object_in(objects[1] or b"{}")
        if after is None or old is None:
            return no_object("data" if after is None else _BEFORE)
        marked = {name.removeprefix(_PREFIX): value for name, value in after.items() if _is_before(name, known)}
        unknown = next((one for one in after if one not in known and not _is_before(one, known)), None)
        return [({**after, **marked, **old}, after)] if unknown is None else unknown_member("data", unknown)


def _is_before(name: str, known: Set[str]) -> bool:
    """Return whether a member has the value of a column before an update. known: fields."""
    return name.startswith(_PREFIX) and name.removeprefix(_PREFIX) in known
