"""Which fields the rows of a file leave unset, as the settings say it.

    unset.value          a text in a field that was not sent
    unset.absent         fields that the file lacks, or members that a row lacks
    columns.to.update    a field of the feed that lists those that were sent
    ignore.null.updates  fields in which NULL says nothing

A row leaves a field unset if one of them says so. The ID, the order value, and the partition where it is part of the
key, are in every row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.display import quoted
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags
from mutator.rules.order_columns import flags

NOT_SENT = "is not sent, and every row needs it"


@dataclass(frozen=True)
class UnsetFields:
    """Which fields the rows of a file leave unset."""

    fields: tuple[str, ...]  # of written rows
    needed: Mapping[str, str]  # those that no row leaves unset, and what they are
    value: bytes | None = None
    absent: bool = False  # fields that the file lacks are unset
    lacking: frozenset[str] = frozenset()  # of ``fields``, those that it lacks
    defaults: frozenset[str] = frozenset()  # those that have another value than NULL there
    nulls: frozenset[str] = frozenset()  # the fields in which NULL says nothing
    listing: str | None = None  # the field that lists those sent
    listed: frozenset[str] = frozenset()  # the names that it may have
    whole: str = ""  # why rows must set all fields; empty: they need not

    def in_rows(
        self,
        count: int,
        said: Mapping[str, Flags],
        are_null: Callable[[str], Flags],
        texts: Mapping[str, Any],
        lists: Any,
    ) -> tuple[dict[str, Flags], dict[str, Flags]]:
        """Return which rows leave each field unset, and the reasons of rows that cannot be read.

        said: what the rows say themselves. are_null: returns the rows in which a field of the file is NULL. texts:
        columns of text, in which a value may say it. lists: the column that lists fields, None without one.
        """
        found, faults = dict[str, Flags](), dict[str, Flags]()

        def note(name: str, rows: Flags) -> None:
            found[name] = found[name] | rows if name in found else rows

        for name in self.lacking if self.absent else self.lacking & self.nulls - self.defaults:
            note(name, np.ones(count, np.bool_))
        for name, rows in said.items():
            note(name, rows)
        for name in self.nulls - self.lacking:
            note(name, are_null(name))
        if self.value is not None:
            wanted = pa.scalar(self.value, pa.large_binary())
            for name, column in texts.items():
                note(name, flags(pc.fill_null(pc.equal(column, wanted), False)))
        if lists is not None:
            texts_of_lists = lists.cast(pa.large_binary()).fill_null(b"").dictionary_encode()
            numbers = texts_of_lists.indices.to_numpy()
            for number, text in enumerate(texts_of_lists.dictionary.to_pylist()):
                rows, sent = numbers == number, _names(text)
                unknown = [name for name in sent if name not in self.listed]
                if unknown:
                    shown = f"{quoted(unknown[0].encode('utf-8', 'surrogateescape'))}, which is no field of the file"
                    faults[f"field {self.listing} (columns.to.update) names {shown}"] = rows
                for name in self.fields if sent else ():
                    if name not in sent and name not in self.needed:
                        note(name, rows)
        return {name: rows for name, rows in found.items() if rows.any()}, faults

    def faults(self, found: Mapping[str, Flags], deletes: Flags) -> dict[str, Flags]:
        """Return the rows that leave a field unset which they need, by the reason. found: of ``in_rows``."""
        reasons = {f"field {name} ({what}) {NOT_SENT}": name for name, what in self.needed.items() if name in found}
        faults = {reason: found[name] for reason, name in reasons.items()}
        if self.whole:
            others = [name for name in found if name not in self.needed]
            faults |= {f"field {name} {self.whole}": found[name] & ~deletes for name in others}
        return faults

    def masked(self, found: Mapping[str, Flags], deletes: Flags) -> list[Flags] | None:
        """Return which rows leave each field of written rows unset; None if no row does. A delete leaves none unset."""
        if not any((rows & ~deletes).any() for name, rows in found.items() if name in self.fields):
            return None
        none = np.zeros(len(deletes), np.bool_)
        return [found.get(name, none) & ~deletes for name in self.fields]


@dataclass(frozen=True)
class UnsetTexts:
    """Which fields of delimited text say nothing, by their text."""

    value: bytes | None = None
    null: bytes = b""
    nulls: frozenset[int] = frozenset()  # the fields in which NULL says nothing; ordinals of written rows
    whole: str = ""  # as in ``UnsetFields``

    def are_unset(self, number: int, column: Any) -> Flags:
        """Return which rows leave a field unset. column: pa.Array of large_binary."""
        found = np.zeros(len(column), np.bool_)
        for text in self._texts(number):
            found |= flags(pc.equal(column, pa.scalar(text, pa.large_binary())))
        return found

    def is_unset(self, number: int, text: bytes) -> bool:
        """Return whether a row leaves a field unset."""
        return text in self._texts(number)

    def _texts(self, number: int) -> list[bytes]:
        return [
            *([] if self.value is None else [self.value]),
            *([self.null] if number in self.nulls else []),
        ]


def whole_alone(unset: Any, why: str) -> Any:
    """Return what rows must be where there is nothing to keep a value of; there NULL says NULL.

    unset: ``UnsetFields`` or ``UnsetTexts``. why: a part of the reason of other rows.
    """
    return replace(unset, nulls=frozenset(), whole=f"is not sent, and {why}: send all fields")


def _names(text: bytes) -> Collection[str]:
    """Return the names in a list.

    >>> sorted(_names(b"price, name,")), _names(b" ")
    (['name', 'price'], set())
    """
    return {one.strip() for one in text.decode("utf-8", "surrogateescape").split(",")} - {""}
