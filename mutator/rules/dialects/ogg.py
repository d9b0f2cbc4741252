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

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mutator.rules.dialects.image_messages import Columns, ImageMessages, Members, columns_of, object_in, unknown_member
from mutator.rules.dialects.messages import FIELD, OrderPart, rejected
from mutator.rules.envelope import FirstOfFile, Unwrapped

_MISSING = "_isMissing"
_UNSENT = "is not sent, and a field that is not sent cannot be merged yet; have GoldenGate log all columns "
_UNSENT += "(ADD TRANDATA … ALLCOLS) and write uncompressed updates (NOCOMPRESSUPDATES)"


@dataclass(frozen=True, kw_only=True)
class OggJson(ImageMessages):
    """The envelope of messages of GoldenGate."""

    title = "GoldenGate"
    codes = {b"I": b"insert", b"U": b"update", b"D": b"delete", b"T": b"truncate"}  # noqa: RUF012
    parts = (OrderPart("message.pos", "string", "pos"),)
    kind = "op_type"
    images = ("before", "after")
    says = ("table", "pos")
    key_members = ("primary_keys", "priamry_keys")

    def table_of(self, columns: Columns) -> Sequence[str | None]:
        """Return the table of each message, which has the schema before a dot."""
        return [None if name is None else name.decode("utf-8", "replace") for name in columns["table"].to_pylist()]

    def orders_of(self, columns: Columns) -> tuple[OrderPart, ...]:
        """Return the place in the trail."""
        places = columns["pos"]
        return self.parts if places.null_count < len(places) else ()

    def fields_in(self, columns: Columns, first: FirstOfFile) -> Any:
        """Return the fields of a table, without those that say that another one is missing."""
        found = super().fields_in(columns, first)
        return pa.schema([one for one in found if not _is_mark(one.name, found.names)])

    def unwrap(self, batch: Any, records: Any) -> Unwrapped:
        """Return a row for each message, or two for one that changes the key."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        orders = self.order_columns(columns, records)
        codes = self.ordered(self.said(columns), orders, "add ${position[pos]} to metaColumnsTemplate")
        names = [one.name for one in records if one.name not in (FIELD, *self.beside)]
        known = {*names, *(one.name for one in self.fields_of_table or ())}
        acts = {self.delete, *(self.upsert_codes or ())}
        images: dict[str, list[Members]] = {image: [{}] * len(batch) for image in self.images}
        said = {image: columns[image].to_pylist() for image in self.images}
        for row in [row for row, code in enumerate(codes) if code in acts]:
            for image, objects in images.items():
                one = object_in(said[image][row] or b"{}")
                fault = f"has no JSON object in '{image}', or one with a member twice" if one is None else None
                if one and image == "after":
                    fault = self._fault(one, known, codes[row] == self.update)
                if fault is not None:
                    codes[row] = rejected(fault)
                    break
                objects[row] = one or {}
        before, after = (columns_of(objects, dict.fromkeys((*names, *self.keys))) for objects in images.values())
        codes = self.keyed(codes, before, after)
        return self.changes(codes, (before, after), orders, records)

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
