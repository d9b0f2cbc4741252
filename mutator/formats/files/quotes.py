r"""The quotes of CSV: which of them begin or end quoted text, and the text between them.

A quote within quoted text is doubled, or has an escape before it (``csv.escape``). Then the escape itself has one, too;
before any other byte it means itself, as it does outside of quotes. So do Spark and Postgres write it.

>>> escaped = np.frombuffer(rb'"a\"b\\",c\,"d"', np.uint8)
>>> quote_marks(escaped, b"\\").tolist(), quote_marks(escaped, b"").tolist()
([0, 7, 12, 14], [0, 3, 7, 12, 14])
>>> unquoted(pa.array([rb"a\"b\\c\d", b'""'], pa.large_binary()), np.array([True, False]), b"\\").to_pylist()
[b'a"b\\c\\d', b'""']
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import Bytes, Flags, Ints
from mutator.rules.order_columns import flags

QUOTE = 34
_CR = 13


def quote_marks(body: Bytes, escape: bytes) -> Ints:
    """Return the offsets of the quotes that are not escaped: those after an even number of escapes."""
    marks: Ints = np.flatnonzero(body == QUOTE)
    if not escape or not len(marks):
        return marks
    follows = (marks > 0) & (body[marks - 1] == escape[0])
    if not follows.any():
        return marks
    escapes = np.flatnonzero(body == escape[0])
    number = np.arange(len(escapes))
    first = np.maximum.accumulate(np.where(np.diff(escapes, prepend=-2) != 1, number, 0))
    last = np.searchsorted(escapes, marks[follows] - 1)
    follows[follows] = (last - first[last]) % 2 == 0
    kept: Ints = marks[~follows]
    return kept


def ends_lines(data: bytes, escape: bytes) -> bool:
    """Return whether some bytes from the beginning of a file have a carriage return outside of quotes.

    >>> ends_lines(b'a,"b"' + bytes([13]), b""), ends_lines(b'a,"b' + bytes([13, 34]), b"")
    (True, False)
    """
    body = np.frombuffer(data, np.uint8)
    before = np.searchsorted(quote_marks(body, escape), np.flatnonzero(body == _CR))
    return bool((before % 2 == 0).any())


def unquoted(values: pa.Array, in_quotes: Flags, escape: bytes) -> pa.Array:
    """Return texts, without the quotes around them, as the values that they mean."""
    special = flags(pc.match_substring(values, '""'))
    if escape:
        special |= flags(pc.match_substring(values, escape.decode()))
    special &= in_quotes
    if not special.any():
        return values
    mask = pa.array(special)
    return pc.replace_with_mask(values, mask, _single(values.filter(mask), escape))


def plain(field: bytes, escape: bytes) -> bytes:
    r"""Return the value of a field that may be in quotes.

    >>> plain(b'"a ""b"" c"', b""), plain(rb'"\\"', b"\\"), plain(rb'\\', b"\\")
    (b'a "b" c', b'\\', b'\\\\')
    """
    if not (len(field) > 1 and field[:1] == field[-1:] == b'"'):
        return field
    return bytes(_single(pa.array([field[1:-1]], pa.large_binary()), escape)[0].as_py())


def _single(values: pa.Array, escape: bytes) -> pa.Array:
    """Return quoted texts without the bytes that keep others from ending them."""
    if not escape:
        return pc.replace_substring(values, '""', '"')
    byte = f"\\x{escape[0]:02x}"
    return pc.replace_substring_regex(values, f'{byte}(["{byte}])|"(")', r"\1\2")
