"""Replace bytes in a column of values by escapes, all rows at once.

>>> Escapes({10: b"\\\\n"}).applied(pa.array([b"a", b"b\\nc"], pa.large_binary())).to_pylist()
[b'a', b'b\\\\nc']
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import offsets_of, packed

_FEW = 8  # bytes: searching for more of them, one after the other, is slower than a table


class Escapes:
    """The escape of each special byte; each has one byte or more."""

    def __init__(self, texts: Mapping[int, bytes]) -> None:
        self._longest = max(map(len, texts.values()))
        self._bytes = [bytes([byte]) for byte in texts]
        self._special = np.zeros(256, np.bool_)
        self._more = np.zeros(256, np.int64)  # length of the escape beyond one byte
        self._texts = np.zeros((256, self._longest), np.uint8)
        for byte, text in texts.items():
            self._special[byte], self._more[byte] = True, len(text) - 1
            self._texts[byte, : len(text)] = bytearray(text)

    def applied(self, values: Any) -> Any:
        """Return a pa.Array of large_binary with its special bytes replaced; NULL stays NULL."""
        offsets, data = offsets_of(values)
        if len(self._bytes) <= _FEW:
            content = data.tobytes()
            if not any(byte in content for byte in self._bytes):
                return values
        at = np.flatnonzero(self._special[data])
        if not len(at):
            return values
        found, more = data[at], self._more[data[at]]
        sums = np.concatenate(([0], np.cumsum(more)))
        begins = at + sums[:-1]
        made, kept = np.empty(len(data) + int(sums[-1]), np.uint8), np.ones(len(data) + int(sums[-1]), np.bool_)
        for position in range(self._longest):
            rows = more >= position
            made[begins[rows] + position], kept[begins[rows] + position] = self._texts[found[rows], position], False
        made[kept] = np.delete(data, at)
        column = packed(made, np.diff(offsets + sums[np.searchsorted(at, offsets)]))
        return pc.if_else(values.is_valid(), column, pa.scalar(None, column.type)) if values.null_count else column
