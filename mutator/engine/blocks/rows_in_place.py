"""Rows that stay where they are until it is known which of them are written, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mutator.rules.byte_columns import Ints
from mutator.rules.row_hash import RowHashes, row_hashes


@dataclass(frozen=True)
class RowsInPlace:
    """A column of rows in another order than that of their array, which is not copied.

    >>> import numpy as np
    >>> RowsInPlace(pa.array([b"a", b"b", b"c"]), np.array([2, 0])).take(pa.array([0])).to_pylist()
    [b'c']
    """

    array: Any  # pa.Array
    places: Ints  # of each row in the array

    def __len__(self) -> int:
        return len(self.places)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the rows and their places."""
        return int(self.array.nbytes) + self.places.nbytes

    def take(self, rows: Any) -> Any:
        """Return some rows, a pa.Array. rows: pa.Array of int64, numbers of rows."""
        return self.array.take(pa.array(self.places[rows.to_numpy()]))


def row_hashes_of(rows: Any) -> RowHashes:
    """Return the row hash of each row. rows: pa.StructArray, or RowsInPlace of one.

    >>> import numpy as np
    >>> rows = pa.array([{"id": 7}, {"id": 8}])
    >>> bool((row_hashes_of(RowsInPlace(rows, np.array([1, 0]))) == row_hashes(rows)[::-1]).all())
    True
    """
    if isinstance(rows, RowsInPlace):
        found: RowHashes = row_hashes(rows.array)[rows.places]
        return found
    return row_hashes(rows)
