"""The envelope of messages of Oracle GoldenGate, as its JSON formatter writes operations: ``before`` and ``after``.

    I    upsert of ``after``
    U    the same. Where ``before`` has another key, it is deleted as well
    D    delete of the key in ``before``
    T    truncate
    ``null`` says nothing of a record, and is counted

The order is ``pos``: the place in the trail as text with leading zeros, which is compared as bytes.

What is easily read wrong:

- A compressed update has the key and the columns that changed. The others are absent, or have ``true`` in a member
  ``<column>_isMissing``: they are not sent, which is not NULL. Those that ``before`` has did not change. The update
  leaves the others unset, or is a reject if it changes the key.
- ``op_ts`` is not monotone, and ``current_ts`` is the clock of the program, which a replay changes.
- The codes can be set (``insertOpKey`` and others); only these are known.
- The key is that of the setting. Messages list it in ``primary_keys``, which some spell ``priamry_keys``.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Any

import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.dialects.image_messages import (
    Changes,
    Columns,
    ImageMessages,
    Members,
    Texts,
    no_object,
    object_in,
    unknown_member,
)
from mutator.rules.dialects.message_dialects import codes_of
from mutator.rules.dialects.messages import OrderPart
from mutator.rules.envelope import FirstOfFile

_MISSING = "_isMissing"


@dataclass(frozen=True, kw_only=True)
class OggJson(ImageMessages):
    """The envelope of messages of GoldenGate."""

    title = "GoldenGate"
    codes = codes_of("ogg-json")
    parts = (OrderPart("message.pos", "string", "pos"),)
    kind = "op_type"
    images = objects = ("before", "after")
    of_table = ("table",)  # with the schema before a dot
    times = (OrderPart("message.op_ts", "timestamp", "op_ts"),)
    says = (*of_table, "pos", "op_ts")
    cure = "add ${position[pos]} to metaColumnsTemplate"
    sends_all = "have GoldenGate log all columns (ADD TRANDATA … ALLCOLS) and write uncompressed updates "
    sends_all += "(NOCOMPRESSUPDATES)"
    key_members = ("primary_keys", "priamry_keys")

    def fields_in(self, columns: Columns, first: FirstOfFile) -> Any:
        """Return the fields of a table, without those that say that another one is missing."""
        found = super().fields_in(columns, first)
        return pa.schema([one for one in found if not _is_mark(one.name, found.names)])

    def changes_in(self, code: bytes | None, objects: Texts, known: Set[str]) -> Changes:
        """Return both images; an update has values that it did not change in either."""
        before, after = (object_in(text or b"{}") for text in objects)
        if before is None or after is None:
            return no_object("before" if before is None else "after")
        marks = {name for name in (*before, *after) if _is_mark(name, known)}
        unknown = next((name for name in after if name not in known and name not in marks), None)
        if unknown is not None:
            return unknown_member("after", unknown)
        before, after = (_sent(one, marks) for one in (before, after))
        return [(before, {**before, **after} if after and code == self.update else after)]


def _sent(image: Members, marks: Set[str]) -> Members:
    """Return the fields of an image that have values. marks: the members that say that another one is missing."""
    missing = {name.removesuffix(_MISSING) for name in marks if image.get(name) == b"true"}
    return {name: value for name, value in image.items() if name not in marks and name not in missing}


def _is_mark(name: str, known: Collection[str]) -> bool:
    """Return whether a member says that another one is missing. known: fields."""
    return name.endswith(_MISSING) and name.removesuffix(_MISSING) in known
