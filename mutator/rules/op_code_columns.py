"""Columns of op codes: a number for each row, and the code of each number.

>>> codes = OpCodes.of_column(ByteColumn.of([b"U", b"D", b"U"]))
>>> codes.among({b"D"}).tolist(), codes.counts()
([False, True, False], {b'D': 1, b'U': 2})
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.op_codes import PRESENT, presence

_BYTES = [bytes([byte]) for byte in range(256)]


@dataclass(frozen=True)
class OpCodes:
    """The op code of each row of a block."""

    values: list[bytes]  # some may not occur
    numbers: Any  # integer array, one per row: an index into the values

    @classmethod
    def of_column(cls, column: ByteColumn) -> OpCodes:
        """Return the codes of a field of text. Codes of one byte, the usual ones, need no search."""
        if len(column) and (column.ends - column.starts == 1).all():
            return cls(_BYTES, column.data[column.starts])
        return cls.of_array(column.take())

    @classmethod
    def of_array(cls, codes: Any) -> OpCodes:
        """Return the codes of a pa.Array of large_binary. NULL is an empty code."""
        found = codes.fill_null(b"").dictionary_encode()
        return cls(found.dictionary.to_pylist(), found.indices.to_numpy())

    def presence(self) -> OpCodes:
        """Return the codes of a field that marks a delete by any value.

        >>> OpCodes.of_column(ByteColumn.of([b"2026-01-31", b"", b"NULL"])).presence().to_list()
        [b'not null', b'', b'']
        """
        is_present = np.array([presence(value) == PRESENT for value in self.values], np.bool_)
        return OpCodes([b"", PRESENT], is_present[self.numbers].astype(np.int64))

    def __len__(self) -> int:
        return len(self.numbers)

    def among(self, codes: Collection[bytes]) -> Flags:
        """Return which rows have one of some codes."""
        return self.where(codes.__contains__)

    def where(self, wanted: Callable[[bytes], bool]) -> Flags:
        """Return which rows have a code that is wanted."""
        known = np.array([wanted(value) for value in self.values], np.bool_)
        found: Flags = known[self.numbers] if len(known) else np.zeros(0, np.bool_)
        return found

    def only(self, rows: Flags | Ints) -> OpCodes:
        """Return the codes of some rows."""
        return OpCodes(self.values, self.numbers[rows])

    def counts(self) -> dict[bytes, int]:
        """Return how many rows have each code."""
        counts = np.bincount(self.numbers, minlength=len(self.values))
        return {self.values[number]: int(counts[number]) for number in np.flatnonzero(counts).tolist()}

    def to_list(self) -> list[bytes]:
        """Return the code of each row."""
        return [self.values[number] for number in self.numbers.tolist()]
