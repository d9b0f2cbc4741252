"""Values in text of fields whose type the user gives, as merge functions need it.

>>> values_of(pa.array([b"7", b"", b"x"], pa.large_binary()), pa.int64(), (b"",))[0].to_pylist()
[7, None, None]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.values.convert import converted
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import Flags
from mutator.rules.merge_functions import NotOfType


def values_of(texts: Any, data_type: Any, absent: Sequence[bytes] = ()) -> tuple[Any, Flags, str]:
    """Return typed values of a pa.Array of large_binary, which texts are not of the type, and why.

    absent: the texts that are not values: they are NULL, as NULL is.
    """
    if absent:
        known = pc.is_in(texts, value_set=pa.array(absent, texts.type))
        texts = pc.if_else(known, pa.scalar(None, texts.type), texts)
    return converted(texts, data_type, typed=False)


def sure_values(texts: Any, data_type: Any, absent: Sequence[bytes]) -> Any:
    """Return typed values. Raises NotOfType.

    Rows of feeds were checked; those that a master had before its field got a type may have one.
    """
    found, bad, why = values_of(texts, data_type, absent)
    if bad.any():
        row = int(np.argmax(bad))
        raise NotOfType(row, texts[row].as_py(), why)
    return found


def texts_of(values: Any, null: bytes) -> Any:
    """Return the texts of typed values, a pa.Array of large_binary; one for each value. null: the text of NULL."""
    return exact_text(values).fill_null(null)
