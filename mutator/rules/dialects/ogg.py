"""The envelope of messages of Oracle GoldenGate, as its JSON formatter writes operations: ``before`` and ``after``.

    I    upsert of ``after``
    U    the same. Where ``before`` has another key, it is deleted as well
    D    delete of the key in ``before``
    T    truncate
    ``null`` says nothing of a record, and is counted

The order is ``pos``: the place in the trail as text with leading zeros, which is compared as bytes.

What is easily read wrong:

- A compressed update has the key and the columns that changed. The others are absent, or have ``true`` in a member
  ``<column>_isMissing``: they are not sent, which is not NULL. Such a row is a reject until fields can be left as they
  are.
- ``op_ts`` is not monotone, and ``current_ts`` is the clock of the program, which a replay changes.
- The codes can be set (``insertOpKey`` and others); only these are known.
- The key is that of the setting. Messages list it in ``primary_keys``, which some spell ``priamry_keys``.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

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
_UNSENT = "is not sent, and a field that is not sent cannot be merged yet; have GoldenGate log all columns "
_UNSENT += "(ADD TRANDATA … ALLCOLS) and write uncompressed updates (NOCOMPRESSUPDATES)"


@dataclass(frozen=True, kw_only=True)
class OggJson(ImageMessages):
    """The envelope of messages of GoldenGate."""

    title = "GoldenGate"
    codes = codes_of("ogg-json")
    parts = (OrderPart("message.pos", "string", "pos"),)
    kind = "op_type"
    images = objects = ("before", "after")
    of_table = ("table",)  # with the schema before a dot
    says = (*of_table, "pos")
    cure = "add ${position[pos]} to metaColumnsTemplate"
    key_members = ("primary_keys", "priamry_keys")

    def fields_in(self, columns: Columns, first: FirstOfFile) -> Any:
        """Return the fields of a table, without those that say that another one is missing."""
        found = super().fields_in(columns, first)
        return pa.schema([one for one in found if not _is_mark(one.name, found.names)])

    def changes_in(self, code: bytes | None, objects: Texts, known: Set[str]) -> Changes:
        """Return both images."""
        before, after = (object_in(text or b"{}") for text in objects)
        if before is None or after is None:
            return no_object("before" if before is None else "after")
        fault = self._fault(after, known, code == self.update) if after else None
        return [(before, after)] if fault is None else fault

    def _fault(self, after: Members, known: Set[str], is_update: bool) -> str | None:
        """Return why an image after a change is a reject; None if it is whole. known: the fields of the table."""
        for name, value in after.items():
            if _is_mark(name, known):
                if value == b"true":
                    return f"field {name.removesuffix(_MISSING)} {_UNSENT}"
            elif name not in known:
                return unknown_member("after", name)
        absent = next((name for name in sorted(known) if name not in after), None) if is_update else None
        return None if absent is None else f"field {absent} {_UNSENT}"


def _is_mark(name: str, known: Collection[str]) -> bool:
    """Return whether a member says that another one is missing. known: fields."""
    return name.endswith(_MISSING) and name.removesuffix(_MISSING) in known
